"""A triangular matrix times a vector, packed: row i has i + 1 elements, so that the last rows are most of the work.

Source: BLAS level 2, tpmv.
"""

import common
import numpy as np
import pyopencl as cl

GROUP = 64
SOURCE = """
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void multiply(__global const float *packed, __global const float *x, __global float *y)
{
    __local float sums[GROUP];
    const size_t row = get_group_id(0), start = row * (row + 1) / 2;
    const int lid = get_local_id(0);
    float sum = 0.0f;
    for (size_t column = lid; column <= row; column += GROUP)
        sum += packed[start + column] * x[column];
    sums[lid] = sum;
    for (int reach = GROUP / 2; reach > 0; reach /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lid < reach)
            sums[lid] += sums[lid + reach];
    }
    if (lid == 0)
        y[row] = sums[0];
}
"""


def main() -> None:
    parser = common.parser(__doc__, size=1500, meaning="rows")
    parser.add_argument("--runs", type=common.positive, default=5, help="how often (default: %(default)s)")
    args = parser.parse_args()
    n = args.size
    packed, x = common.random(91, n * (n + 1) // 2), common.random(92, n)
    result = np.empty(n, np.float32)
    context, queue = common.open_queue()
    common.announce(queue, f"{n} rows")
    multiply = cl.Kernel(cl.Program(context, SOURCE).build([f"-DGROUP={GROUP}"]), "multiply")

    def upload() -> list[cl.Buffer]:
        return [common.write(queue, packed), common.write(queue, x), common.room(queue, result.nbytes)]

    def launch(buffers: list[cl.Buffer]) -> None:
        for _ in range(args.runs):
            multiply(queue, (n * GROUP,), (GROUP,), *buffers)

    def download(buffers: list[cl.Buffer]) -> common.Array:
        cl.enqueue_copy(queue, result, buffers[2])
        return result

    job = common.Job(queue, upload, launch, download)
    common.run(job, "products", count=1e-9 * packed.nbytes * args.runs, unit="GB")
    rows = common.some(n, 2000)
    expected = [packed[row * (row + 1) // 2 :][: row + 1].astype(np.float64) @ x[: row + 1] for row in rows]
    common.check(f"{rows.size} of {n} elements", result[rows], expected, common.rounding(n))


if __name__ == "__main__":
    main()
