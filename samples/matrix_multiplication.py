"""Matrix multiplication C = A B with square tiles in local memory; any shape, ragged edges guarded.

Source: the matrixMul sample of the NVIDIA SDK ("CUDA C Programming Guide", shared memory); MatrixMul in
Table 2 of Kim et al., "Achieving a Single Compute Device Image in OpenCL for Multiple GPUs" (PPoPP 2011).
"""

import common
import numpy as np
import pyopencl as cl

TILE = 16
SOURCE = """
__kernel __attribute__((reqd_work_group_size(TILE, TILE, 1)))
void multiply(__global const float *a, __global const float *b, __global float *c, const uint m, const uint n,
              const uint k)
{
    __local float a_tile[TILE][TILE], b_tile[TILE][TILE];
    const size_t column = get_global_id(0), row = get_global_id(1);
    const uint lx = get_local_id(0), ly = get_local_id(1);
    float sum = 0.0f;
    for (uint t = 0; t < k; t += TILE) {
        a_tile[ly][lx] = row < m && t + lx < k ? a[row * k + t + lx] : 0.0f;
        b_tile[ly][lx] = t + ly < k && column < n ? b[(size_t)(t + ly) * n + column] : 0.0f;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint i = 0; i < TILE; ++i)
            sum += a_tile[ly][i] * b_tile[i][lx];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (row < m && column < n)
        c[row * n + column] = sum;
}
"""


def main() -> None:
    size = common.parser(__doc__, size=512, meaning="rows and columns of each matrix").parse_args().size
    a, b, c = common.random(4, size, size), common.random(5, size, size), np.empty((size, size), np.float32)
    context, queue = common.open_queue()
    common.announce(queue, f"matrices of {size} x {size}")
    multiply = cl.Kernel(cl.Program(context, SOURCE).build([f"-DTILE={TILE}"]), "multiply")
    grid = (common.round_up(size, TILE),) * 2
    m = n = k = np.uint32(size)

    def upload() -> list[cl.Buffer]:
        return [common.write(queue, a), common.write(queue, b), common.room(queue, c.nbytes)]

    def launch(buffers: list[cl.Buffer]) -> None:
        multiply(queue, grid, (TILE, TILE), *buffers, m, n, k)

    def download(buffers: list[cl.Buffer]) -> common.Array:
        cl.enqueue_copy(queue, c, buffers[2])
        return c

    common.run(
        common.Job(queue, upload, launch, download), "multiplication", count=2e-9 * size**3, unit="Gflop"
    )
    rows, columns = common.some(size, 512), common.some(size, 1024)
    expected = a[rows].astype(np.float64) @ b[:, columns]
    common.check(f"{expected.size} elements", c[np.ix_(rows, columns)], expected, common.rounding(size))


if __name__ == "__main__":
    main()
