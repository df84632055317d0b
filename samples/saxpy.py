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
    context, queue = common.open_queue()
    common.announce(queue, f"{args.repeats} updates of a vector of {n} elements")
    rng = np.random.default_rng(2)
    x, y = rng.random(n, np.float32), rng.random(n, np.float32)

    saxpy = ElementwiseKernel(
        context, "float alpha, const float *x, float *y", "y[i] = alpha * x[i] + y[i]", "saxpy"
    )
    x_device, y_device = cl_array.to_device(queue, x), cl_array.to_device(queue, y)
    with common.timed(queue, "updates", count=n * args.repeats, unit="elements"):
        for _ in range(args.repeats):
            saxpy(ALPHA, x_device, y_device)

    expected = y + args.repeats * ALPHA * x.astype(np.float64)
    common.check(f"all {n} elements of y", y_device.get(), expected, 1e-6)
    total = float(cl_array.sum(y_device, dtype=np.dtype(np.float64)).get())
    common.check("their sum, added up on the device", total, expected.sum(), 1e-6)


if __name__ == "__main__":
    main()
