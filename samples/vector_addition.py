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
    context, queue = common.open_queue()
    common.announce(queue, f"two vectors of {n} elements")
    rng = np.random.default_rng(1)
    a, b = rng.random(n, np.float32), rng.random(n, np.float32)

    flags = cl.mem_flags
    a_buffer = cl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=a)
    b_buffer = cl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=b)
    c_buffer = cl.Buffer(context, flags.WRITE_ONLY, a.nbytes)
    add = cl.Kernel(cl.Program(context, SOURCE).build(), "add")
    with common.timed(queue, "addition", count=n, unit="additions"):
        add(queue, (common.round_up(n, GROUP),), (GROUP,), a_buffer, b_buffer, c_buffer, np.uint64(n))

    c = np.empty_like(a)
    cl.enqueue_copy(queue, c, c_buffer)
    common.check(f"all {n} sums", c, a + b)


if __name__ == "__main__":
    main()
