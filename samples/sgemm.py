"""SGEMM: C = alpha A B' + beta C, column-major, with register tiles: a work-item computes one row of a 128
x 16 tile.

Source: J. A. Stratton et al., "Parboil: A Revised Benchmark Suite" (2012), sgemm, after V. Volkov and J.
Demmel, "Benchmarking GPUs to Tune Dense Linear Algebra" (SC 2008); sgemm in Table 1 of AMGE (ICS 2015).
"""

import common
import numpy as np
import pyopencl as cl

TILE_N, TILE_K = 16, 8
TILE_M = TILE_N * TILE_K  # a work-group loads its TILE_K x TILE_N elements of B one an item
SOURCE = """
__kernel __attribute__((reqd_work_group_size(TILE_N, TILE_K, 1)))
void sgemm_nt(__global const float *a, const uint lda, __global const float *b, const uint ldb,
              __global float *c, const uint ldc, const uint m, const uint n, const uint k,
              const float alpha, const float beta)
{
    __local float b_tile[TILE_K][TILE_N];
    const uint lx = get_local_id(0), ly = get_local_id(1);
    const size_t row = get_group_id(0) * TILE_M + ly * TILE_N + lx;
    const size_t column = get_group_id(1) * TILE_N;
    float sums[TILE_N];
    for (int j = 0; j < TILE_N; ++j)
        sums[j] = 0.0f;

    for (uint t = 0; t < k; t += TILE_K) {
        b_tile[ly][lx] = t + ly < k && column + lx < n ? b[column + lx + (size_t)(t + ly) * ldb] : 0.0f;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (row < m) {
            const uint depth = min((uint)TILE_K, k - t);
            for (uint i = 0; i < depth; ++i) {
                const float element = a[row + (size_t)(t + i) * lda];
                for (int j = 0; j < TILE_N; ++j)
                    sums[j] += element * b_tile[i][j];
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }

    if (row < m)
        for (int j = 0; j < TILE_N && column + j < n; ++j) {
            const size_t at = row + (column + j) * ldc;
            c[at] = alpha * sums[j] + beta * c[at];
        }
}
"""
ALPHA, BETA = np.float32(0.75), np.float32(-0.5)


def main() -> None:
    m = (
        common.parser(__doc__, size=640, meaning="rows of C; 3/4 of it are its columns, 1/2 the depth")
        .parse_args()
        .size
    )
    n, k = max(1, 3 * m // 4), max(1, m // 2)
    a, b, c = (
        common.random(seed, columns, rows).T for seed, rows, columns in ((5, m, k), (6, n, k), (7, m, n))
    )
    result = np.empty_like(c)
    context, queue = common.open_queue()
    common.announce(queue, f"C of {m} x {n}, depth {k}")
    options = [f"-DTILE_M={TILE_M}", f"-DTILE_N={TILE_N}", f"-DTILE_K={TILE_K}"]
    sgemm = cl.Kernel(cl.Program(context, SOURCE).build(options), "sgemm_nt")
    grid = common.round_up(m, TILE_M) // TILE_K, common.round_up(n, TILE_N) // TILE_N * TILE_K
    lda, ldb, ldc = np.uint32(m), np.uint32(n), np.uint32(m)
    sizes = np.uint32(m), np.uint32(n), np.uint32(k)

    def upload() -> list[cl.Buffer]:
        return [common.write(queue, a), common.write(queue, b), common.write(queue, c, kept=True)]

    def launch(buffers: list[cl.Buffer]) -> None:
        matrices = buffers[0], lda, buffers[1], ldb, buffers[2], ldc
        sgemm(queue, grid, (TILE_N, TILE_K), *matrices, *sizes, ALPHA, BETA)

    def download(buffers: list[cl.Buffer]) -> common.Array:
        cl.enqueue_copy(queue, result, buffers[2])
        return result

    job = common.Job(queue, upload, launch, download)
    common.run(job, "multiplication", count=2e-9 * m * n * k, unit="Gflop")
    rows, columns = common.some(m, 1024), common.some(n, 1024)
    chosen = np.ix_(rows, columns)
    expected = ALPHA * (a[rows].astype(np.float64) @ b[columns].T) + BETA * c[chosen]
    common.check(f"{expected.size} elements", result[chosen], expected, common.rounding(k))


if __name__ == "__main__":
    main()
