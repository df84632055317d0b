"""Conjugate gradients on a sparse matrix in compressed rows: diffusion with absorption on a square, with a product of matrix
and vector by a kernel of its own and everything else by `pyopencl.array`.

The host decides when it is enough: it reads one number an iteration.

Source: M. R. Hestenes and E. Stiefel, "Methods of Conjugate Gradients for Solving Linear Systems" (Journal of Research
of the National Bureau of Standards, 1952).
"""

import common
import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array

GROUP = 256
DIAGONAL = np.float32(4.01)
SOURCE = """
__kernel void multiply(__global const int *starts, __global const int *columns, __global const float *values,
                       __global const float *x, __global float *y, const int n)
{
    const int row = get_global_id(0);
    if (row >= n)
        return;
    float sum = 0.0f;
    for (int k = starts[row]; k < starts[row + 1]; ++k)
        sum += values[k] * x[columns[k]];
    y[row] = sum;
}
"""


def diffusion(edge: int) -> tuple[common.Array, common.Array, common.Array]:
    """The five-point matrix of a square of `edge` x `edge` unknowns: row starts, columns, values."""
    rows = np.arange(edge * edge, dtype=np.int32)
    y, x = np.divmod(rows, np.int32(edge))
    there = np.stack([y > 0, x > 0, x >= 0, x < edge - 1, y < edge - 1], axis=1)
    columns = np.stack([rows - edge, rows - 1, rows, rows + 1, rows + edge], axis=1)
    values = np.broadcast_to(np.array([-1, -1, DIAGONAL, -1, -1], np.float32), there.shape)
    starts = np.zeros(len(rows) + 1, np.int32)
    np.cumsum(there.sum(axis=1), out=starts[1:])
    return starts, columns[there], values[there]


def applied(x: common.Array, edge: int) -> common.Array:
    """The same matrix times a vector, in double precision."""
    square = np.pad(x.astype(np.float64).reshape(edge, edge), 1)
    inner = slice(1, -1)
    result: common.Array = float(DIAGONAL) * square[inner, inner] - square[:-2, inner] - square[2:, inner]
    result -= square[inner, :-2] + square[inner, 2:]
    return result.ravel()


def main() -> None:
    parser = common.parser(__doc__, size=128, meaning="unknowns along an edge of the square")
    parser.add_argument(
        "--iterations", type=common.positive, default=60, help="at most (default: %(default)s)"
    )
    args = parser.parse_args()
    edge, n = args.size, args.size**2
    starts, columns, values = diffusion(edge)
    right = common.random(31, n)
    context, queue = common.open_queue()
    common.announce(queue, f"{n} equations with {values.size} coefficients")
    multiply = cl.Kernel(cl.Program(context, SOURCE).build(), "multiply")
    grid = (common.round_up(n, GROUP),)

    def upload() -> list[cl_array.Array]:
        return [cl_array.to_device(queue, array) for array in (starts, columns, values, right)]

    def launch(arrays: list[cl_array.Array]) -> None:
        *matrix, b = arrays[:4]
        x, r, p = cl_array.zeros_like(b), b.copy(), b.copy()
        product = cl_array.empty_like(b)
        # NumPy's numbers, which may be divided by 0 where kernels do nothing
        size = np.float64(cl_array.dot(r, r).get())
        enough = 1e-12 * size
        for _ in range(args.iterations):
            multiply(queue, grid, (GROUP,), *(array.data for array in (*matrix, p, product)), np.int32(n))
            step = np.float32(size / np.float64(cl_array.dot(p, product).get()))
            x += step * p
            r -= step * product
            before, size = size, np.float64(cl_array.dot(r, r).get())
            if size < enough:
                break
            p = r + np.float32(size / before) * p
        arrays[4:] = x, r

    def download(arrays: list[cl_array.Array]) -> tuple[common.Array, common.Array]:
        return arrays[4].get(), arrays[5].get()

    job = common.Job(queue, upload, launch, download)
    x, rest = common.run(job, "iterations", count=args.iterations, unit="iterations")
    common.check("A x and what is left of the right side", applied(x, edge) + rest, right, 1e-3)
    first, last = float(np.linalg.norm(right)), float(np.linalg.norm(rest))
    common.verdict(last < first, "less left than at first", f"{last / first:.1e} of it")
    energy = 0.5 * float(x @ applied(x, edge)) - float(x.astype(np.float64) @ right)
    common.verdict(energy < 0, "energy lower than of nothing", f"{energy:.4g}")


if __name__ == "__main__":
    main()
