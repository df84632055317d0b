"""Histogram of bytes by atomics on global memory, again and again into the same bins.

Source: V. Podlozhnyuk, "Histogram Calculation in CUDA" (NVIDIA SDK), with global atomics in the place of its tables.
"""

import common
import numpy as np
import pyopencl as cl

GROUP, BINS = 256, 1024
#: work-groups at most: each walks over the data with all the others
MOST_GROUPS = 4096
SOURCE = """
__kernel void count(__global const ushort *values, __global uint *bins, const uint n)
{
    for (size_t i = get_global_id(0); i < n; i += get_global_size(0))
        atomic_inc(&bins[values[i] % BINS]);
}
"""


def main() -> None:
    parser = common.parser(__doc__, size=1 << 20, meaning="values")
    parser.add_argument("--runs", type=common.positive, default=5, help="how often (default: %(default)s)")
    args = parser.parse_args()
    n = args.size
    drawn = common.random(71, min(n, common.MOST_DRAWN)) * np.float32(65536)
    values = common.repeated(drawn.astype(np.uint16), n)
    bins = np.empty(BINS, np.uint32)
    context, queue = common.open_queue()
    common.announce(queue, f"{n} values in {BINS} bins")
    count = cl.Kernel(cl.Program(context, SOURCE).build([f"-DBINS={BINS}"]), "count")
    grid = (GROUP * min(MOST_GROUPS, -(-n // GROUP)),)

    def upload() -> list[cl.Buffer]:
        return [common.write(queue, values), common.room(queue, bins.nbytes)]

    def launch(buffers: list[cl.Buffer]) -> None:
        cl.enqueue_fill_buffer(queue, buffers[1], np.uint32(0), 0, bins.nbytes)
        for _ in range(args.runs):
            count(queue, grid, (GROUP,), *buffers, np.uint32(n))

    def download(buffers: list[cl.Buffer]) -> common.Array:
        cl.enqueue_copy(queue, bins, buffers[1])
        return bins

    job = common.Job(queue, upload, launch, download)
    common.run(job, "counting", count=1e-9 * n * args.runs, unit="billion values")
    expected = args.runs * np.bincount(values % np.uint16(BINS), minlength=BINS).astype(np.uint64)
    common.check(f"{BINS} bins", bins, expected.astype(np.uint32))


if __name__ == "__main__":
    main()
