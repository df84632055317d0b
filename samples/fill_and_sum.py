"""Fill, then sum: a kernel writes a vector in blocks, and the next reads it in strides of the whole grid, again and again.

Source: the grid-stride loop of M. Harris, "CUDA Pro Tip: Write Flexible Kernels with Grid-Stride Loops" (NVIDIA, 2013).
"""

import common
import numpy as np
import pyopencl as cl

GROUP, MOST_GROUPS = 256, 4096
SOURCE = """
__kernel void fill(__global float *values, const float step, const uint round, const uint n)
{
    const size_t i = get_global_id(0);
    if (i < n)
        values[i] = step * ((i + round) % 1021);
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void sum(__global const float *values, __global float *sums, const uint n)
{
    __local float scratch[GROUP];
    const uint lid = get_local_id(0);
    float total = 0.0f;
    for (size_t i = get_global_id(0); i < n; i += get_global_size(0))
        total += values[i];
    scratch[lid] = total;
    for (uint reach = GROUP / 2; reach > 0; reach /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lid < reach)
            scratch[lid] += scratch[lid + reach];
    }
    if (lid == 0)
        sums[get_group_id(0)] += scratch[0];
}
"""


def main() -> None:
    parser = common.parser(__doc__, size=1 << 20, meaning="elements of the vector")
    parser.add_argument("--rounds", type=common.positive, default=5, help="how often (default: %(default)s)")
    args = parser.parse_args()
    n, step = args.size, np.float32(1 / 1024)
    groups = min(MOST_GROUPS, -(-n // GROUP))
    context, queue = common.open_queue()
    common.announce(queue, f"{args.rounds} rounds over {n} elements")
    program = cl.Program(context, SOURCE).build([f"-DGROUP={GROUP}"])
    fill, add = cl.Kernel(program, "fill"), cl.Kernel(program, "sum")
    sums, nothing = np.empty(groups, np.float32), np.zeros(groups, np.float32)

    def upload() -> list[cl.Buffer]:
        return [common.room(queue, 4 * n), common.write(queue, nothing, kept=True)]

    def launch(buffers: list[cl.Buffer]) -> None:
        common.rewrite(queue, buffers[1], nothing)
        for number in range(args.rounds):
            grid = (common.round_up(n, GROUP),)
            fill(queue, grid, (GROUP,), buffers[0], step, np.uint32(number), np.uint32(n))
            add(queue, (groups * GROUP,), (GROUP,), *buffers, np.uint32(n))

    def download(buffers: list[cl.Buffer]) -> common.Array:
        cl.enqueue_copy(queue, sums, buffers[1])
        return sums

    job = common.Job(queue, upload, launch, download)
    common.run(job, "rounds", count=8e-9 * n * args.rounds, unit="GB")
    expected = sum(residues(n, number) for number in range(args.rounds)) * float(step)
    common.check(f"the sum of {n} elements", sums.sum(dtype=np.float64), expected, 1e-5)


def residues(n: int, start: int) -> int:
    """The sum of (i + start) % 1021 over all i below n."""
    whole, rest = divmod(n, 1021)
    return whole * (1020 * 1021 // 2) + sum(
        (i + start) % 1021 for i in range(whole * 1021, whole * 1021 + rest)
    )


if __name__ == "__main__":
    main()
