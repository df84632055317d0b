"""Transpose of a rectangular matrix through tiles in local memory, padded against bank conflicts.

Source: G. Ruetsch and P. Micikevicius, "Optimizing Matrix Transpose in CUDA" (NVIDIA SDK); transpose in
Table 1 of AMGE (ICS 2015).
"""

import common
import numpy as np
import pyopencl as cl

TILE = 16
SOURCE = """
__kernel __attribute__((reqd_work_group_size(TILE, TILE, 1)))
void transpose(__global const float *matrix, __global float *transposed, const uint rows, const uint columns)
{
    __local float tile[TILE][TILE + 1];
    const size_t lx = get_local_id(0), ly = get_local_id(1);
    size_t x = get_group_id(0) * TILE + lx, y = get_group_id(1) * TILE + ly;
    if (x < columns && y < rows)
        tile[ly][lx] = matrix[y * columns + x];
    barrier(CLK_LOCAL_MEM_FENCE);

    x = get_group_id(1) * TILE + lx;
    y = get_group_id(0) * TILE + ly;
    if (x < rows && y < columns)
        transposed[y * rows + x] = tile[lx][ly];
}
"""


def main() -> None:
    columns = (
        common.parser(__doc__, size=1500, meaning="columns; the rows are two thirds of it").parse_args().size
    )
    rows = (2 * columns + 2) // 3
    matrix, transposed = common.random(3, rows, columns), np.empty((columns, rows), np.float32)
    context, queue = common.open_queue()
    common.announce(queue, f"a matrix of {rows} x {columns}")
    transpose = cl.Kernel(cl.Program(context, SOURCE).build([f"-DTILE={TILE}"]), "transpose")
    grid = common.round_up(columns, TILE), common.round_up(rows, TILE)

    def upload() -> list[cl.Buffer]:
        return [common.write(queue, matrix), common.room(queue, matrix.nbytes)]

    def launch(buffers: list[cl.Buffer]) -> None:
        transpose(queue, grid, (TILE, TILE), *buffers, np.uint32(rows), np.uint32(columns))

    def download(buffers: list[cl.Buffer]) -> common.Array:
        cl.enqueue_copy(queue, transposed, buffers[1])
        return transposed

    job = common.Job(queue, upload, launch, download)
    common.run(job, "transpose", count=2e-9 * matrix.nbytes, unit="GB")
    chosen = common.some(rows, 2048)
    common.check(f"{chosen.size} of {rows} rows", transposed[:, chosen], matrix[chosen].T)


if __name__ == "__main__":
    main()
