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
    context, queue = common.open_queue()
    common.announce(queue, f"a matrix of {rows} x {columns}")
    matrix = np.random.default_rng(3).random((rows, columns), np.float32)

    flags = cl.mem_flags
    source = cl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=matrix)
    target = cl.Buffer(context, flags.WRITE_ONLY, matrix.nbytes)
    transpose = cl.Kernel(cl.Program(context, SOURCE).build([f"-DTILE={TILE}"]), "transpose")
    grid = common.round_up(columns, TILE), common.round_up(rows, TILE)
    with common.timed(queue, "transpose", count=2e-9 * matrix.nbytes, unit="GB"):
        transpose(queue, grid, (TILE, TILE), source, target, np.uint32(rows), np.uint32(columns))

    transposed = np.empty((columns, rows), np.float32)
    cl.enqueue_copy(queue, transposed, target)
    common.check(f"all {rows * columns} elements", transposed, matrix.T)


if __name__ == "__main__":
    main()
