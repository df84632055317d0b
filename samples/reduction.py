"""Sum of a vector in two launches of one kernel: a partial sum a work-group, then the sum of the partial
sums.

Source: M. Harris, "Optimizing Parallel Reduction in CUDA" (NVIDIA SDK), the version with several elements a
work-item; reduction in Table 1 of AMGE (ICS 2015).
"""

import common
import numpy as np
import pyopencl as cl

GROUP = 256
#: as many as several GPUs keep in flight: one that works with a part of a grid has only that part to hide latencies
MOST_GROUPS = 8192
SOURCE = """
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void sum(__global const float *values, __global float *sums, const ulong n)
{
    __local float scratch[GROUP];
    const uint lid = get_local_id(0);
    const size_t stride = 2 * GROUP * get_num_groups(0);
    float total = 0.0f;
    for (size_t i = get_group_id(0) * 2 * GROUP + lid; i < n; i += stride) {
        total += values[i];
        if (i + GROUP < n)
            total += values[i + GROUP];
    }
    scratch[lid] = total;
    for (uint reach = GROUP / 2; reach > 0; reach /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lid < reach)
            scratch[lid] += scratch[lid + reach];
    }
    if (lid == 0)
        sums[get_group_id(0)] = scratch[0];
}
"""


def main() -> None:
    n = common.parser(__doc__, size=1 << 22, meaning="elements of the vector").parse_args().size
    values, total = common.random(7, n), np.empty(1, np.float32)
    context, queue = common.open_queue()
    common.announce(queue, f"a vector of {n} elements")
    groups = min(MOST_GROUPS, -(-n // (2 * GROUP)))
    reduce = cl.Kernel(cl.Program(context, SOURCE).build([f"-DGROUP={GROUP}"]), "sum")

    def upload() -> list[cl.Buffer]:
        return [common.write(queue, values), common.room(queue, 4 * groups), common.room(queue, 4)]

    def launch(buffers: list[cl.Buffer]) -> None:
        reduce(queue, (groups * GROUP,), (GROUP,), *buffers[:2], np.uint64(n))
        reduce(queue, (GROUP,), (GROUP,), *buffers[1:], np.uint64(groups))

    def download(buffers: list[cl.Buffer]) -> common.Array:
        cl.enqueue_copy(queue, total, buffers[2])
        return total

    common.run(
        common.Job(queue, upload, launch, download), "reduction", count=1e-9 * values.nbytes, unit="GB"
    )
    common.check(f"the sum of {n} elements", total[0], values.sum(dtype=np.float64), 1e-5)


if __name__ == "__main__":
    main()
