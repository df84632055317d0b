"""Vector addition: c = a + b, one work-item an element.

Source: the first program of every OpenCL course; vecadd in Table 1 of J. Cabezas et al., "Automatic
Parallelization of Kernels in Shared-Memory Multi-GPU Nodes" (AMGE, ICS 2015).
"""

import common
import numpy as np
import pyopencl as cl

SOURCE = """
__kernel void add(__global const float *a, __global const float *b, __global float *c, const ulong n)
{
    const size_t i = get_global_id(0);
    if (i < n)
        c[i] = a[i] + b[i];
}
"""
GROUP = 256


def main() -> None:
    n = common.parser(__doc__, size=1 << 22, meaning="elements of each vector").parse_args().size
    a, b, c = common.random(1, n), common.random(2, n), np.empty(n, np.float32)
    context, queue = common.open_queue()
    common.announce(queue, f"two vectors of {n} elements")
    add = cl.Kernel(cl.Program(context, SOURCE).build(), "add")

    def upload() -> list[cl.Buffer]:
        return [common.write(queue, a), common.write(queue, b), common.room(queue, c.nbytes)]

    def launch(buffers: list[cl.Buffer]) -> None:
        add(queue, (common.round_up(n, GROUP),), (GROUP,), *buffers, np.uint64(n))

    def download(buffers: list[cl.Buffer]) -> common.Array:
        cl.enqueue_copy(queue, c, buffers[2])
        return c

    common.run(common.Job(queue, upload, launch, download), "addition", count=n, unit="additions")
    chosen = common.some(n, 1 << 22)
    common.check(f"{chosen.size} of {n} sums", c[chosen], a[chosen] + b[chosen])


if __name__ == "__main__":
    main()
