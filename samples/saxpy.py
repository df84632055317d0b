"""SAXPY: y = alpha x + y on device arrays, through PyOpenCL's array layer and its elementwise kernels.

Source: BLAS level 1; saxpy in Table 1 of AMGE (ICS 2015).
"""

import common
import numpy as np
import pyopencl.array as cl_array
from pyopencl.elementwise import ElementwiseKernel

ALPHA = np.float32(2.5)


def main() -> None:
    parser = common.parser(__doc__, size=1 << 22, meaning="elements of each vector")
    parser.add_argument("--repeats", type=common.positive, default=4, help="updates, one after the other")
    args = parser.parse_args()
    n = args.size
    x, y, result = common.random(1, n), common.random(2, n), np.empty(n, np.float32)
    context, queue = common.open_queue()
    common.announce(queue, f"{args.repeats} updates of a vector of {n} elements")
    saxpy = ElementwiseKernel(
        context, "float alpha, const float *x, float *y", "y[i] = alpha * x[i] + y[i]", "saxpy"
    )

    def upload() -> list[cl_array.Array]:
        return [cl_array.to_device(queue, vector, async_=True) for vector in (x, y)]

    def launch(vectors: list[cl_array.Array]) -> None:
        for _ in range(args.repeats):
            saxpy(ALPHA, *vectors)

    def download(vectors: list[cl_array.Array]) -> tuple[common.Array, float]:
        total = cl_array.sum(vectors[1], dtype=np.dtype(np.float64))
        return vectors[1].get(ary=result), float(total.get())

    job = common.Job(queue, upload, launch, download)
    _, total = common.run(job, "updates", count=n * args.repeats, unit="elements")
    factor = args.repeats * float(ALPHA)
    chosen = common.some(n, 1 << 22)
    expected = y[chosen] + factor * x[chosen]
    common.check(f"{chosen.size} of {n} elements of y", result[chosen], expected, 1e-6)
    sums = y.sum(dtype=np.float64) + factor * x.sum(dtype=np.float64)
    common.check("their sum, added up on the device", total, sums, 1e-6)


if __name__ == "__main__":
    main()
