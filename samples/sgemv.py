"""SGEMV: y = A x, four rows a work-group, each summed by 64 work-items that meet in local memory.

Source: BLAS level 2; sgemv in Table 1 of AMGE (ICS 2015).
"""

import common
import numpy as np
import pyopencl as cl

LANES, ROWS = 64, 4
SOURCE = """
__kernel __attribute__((reqd_work_group_size(LANES, ROWS, 1)))
void sgemv(__global const float *a, __global const float *x, __global float *y, const uint rows,
           const uint columns)
{
    __local float sums[ROWS][LANES];
    const uint lane = get_local_id(0), line = get_local_id(1);
    const size_t row = get_global_id(1);
    float sum = 0.0f;
    if (row < rows) {
        __global const float *a_row = a + row * columns;
        for (uint j = lane; j < columns; j += LANES)
            sum += a_row[j] * x[j];
    }
    sums[line][lane] = sum;
    for (uint reach = LANES / 2; reach > 0; reach /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane < reach)
            sums[line][lane] += sums[line][lane + reach];
    }
    if (lane == 0 && row < rows)
        y[row] = sums[line][0];
}
"""


def main() -> None:
    rows = (
        common.parser(__doc__, size=2000, meaning="rows of the matrix; its columns are half more")
        .parse_args()
        .size
    )
    columns = rows + rows // 2
    a, x, y = common.random(6, rows, columns), common.random(7, columns), np.empty(rows, np.float32)
    context, queue = common.open_queue()
    common.announce(queue, f"a matrix of {rows} x {columns}")
    sgemv = cl.Kernel(cl.Program(context, SOURCE).build([f"-DLANES={LANES}", f"-DROWS={ROWS}"]), "sgemv")
    grid = LANES, common.round_up(rows, ROWS)

    def upload() -> list[cl.Buffer]:
        return [common.write(queue, a), common.write(queue, x), common.room(queue, y.nbytes)]

    def launch(buffers: list[cl.Buffer]) -> None:
        sgemv(queue, grid, (LANES, ROWS), *buffers, np.uint32(rows), np.uint32(columns))

    def download(buffers: list[cl.Buffer]) -> common.Array:
        cl.enqueue_copy(queue, y, buffers[2])
        return y

    common.run(common.Job(queue, upload, launch, download), "product", count=1e-9 * a.nbytes, unit="GB")
    chosen = common.some(rows, 2048)
    common.check(f"{chosen.size} of {rows} elements of y", y[chosen], a[chosen] @ x.astype(np.float64), 1e-5)


if __name__ == "__main__":
    main()
