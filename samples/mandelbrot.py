"""The Mandelbrot set: how soon each point of the plane escapes. The work per row varies widely.

Source: B. B. Mandelbrot, "Fractal Aspects of the Iteration of z -> lambda z (1 - z)" (Annals of the New York Academy of
Sciences, 1980).
"""

import common
import numpy as np
import pyopencl as cl

GROUP = 32, 4
#: of the picture: the corner, and the width in the plane
LEFT, LOW, WIDTH = -2.0, -1.125, 2.75
SOURCE = """
__kernel void escape(__global int *steps, const int width, const int height, const float left, const float low,
                     const float step, const int most)
{
    const int column = get_global_id(0), row = get_global_id(1);
    if (column >= width || row >= height)
        return;
    const float a = left + step * column, b = low + step * row;
    float x = 0.0f, y = 0.0f;
    int count = 0;
    while (count < most && x * x + y * y <= 4.0f) {
        const float next = x * x - y * y + a;
        y = 2.0f * x * y + b;
        x = next;
        ++count;
    }
    steps[row * width + column] = count;
}
"""


def escaped(columns: common.Array, rows: common.Array, step: float, most: int) -> common.Array:
    """How soon points escape, in single precision as well."""
    a = np.float32(LEFT) + np.float32(step) * columns.astype(np.float32)
    b = np.float32(LOW) + np.float32(step) * rows.astype(np.float32)
    x, y = np.zeros_like(a), np.zeros_like(b)
    count = np.zeros(a.shape, np.int32)
    inside = np.arange(a.size)
    for _ in range(most):
        u, v = x[inside], y[inside]
        inside = inside[u * u + v * v <= 4]
        u, v = x[inside], y[inside]
        count[inside] += 1
        x[inside], y[inside] = u * u - v * v + a[inside], 2 * u * v + b[inside]
    return count


def main() -> None:
    parser = common.parser(__doc__, size=256, meaning="columns of the picture")
    parser.add_argument("--most", type=common.positive, default=200, help="iterations of a point")
    parser.add_argument("--pictures", type=common.positive, default=1, help="how often")
    args = parser.parse_args()
    width, height, step = args.size, args.size * 9 // 11, WIDTH / args.size
    steps = np.empty((height, width), np.int32)
    context, queue = common.open_queue()
    common.announce(queue, f"{width} x {height} points, {args.most} iterations at most")
    escape = cl.Kernel(cl.Program(context, SOURCE).build(), "escape")
    grid = common.round_up(width, GROUP[0]), common.round_up(height, GROUP[1])
    numbers = np.int32(width), np.int32(height), np.float32(LEFT), np.float32(LOW), np.float32(step)

    def upload() -> list[cl.Buffer]:
        return [common.room(queue, steps.nbytes)]

    def launch(buffers: list[cl.Buffer]) -> None:
        for _ in range(args.pictures):
            escape(queue, grid, GROUP, *buffers, *numbers, np.int32(args.most))

    def download(buffers: list[cl.Buffer]) -> common.Array:
        cl.enqueue_copy(queue, steps, buffers[0])
        return steps

    job = common.Job(queue, upload, launch, download)
    common.run(job, "pictures", count=1e-6 * steps.size * args.pictures, unit="million points")
    chosen = common.some(steps.size, 1 << 16)
    expected = escaped(chosen % width, chosen // width, step, args.most)
    # Near the edge of the set one rounding more or less decides.
    same = float(np.mean(steps.ravel()[chosen] == expected))
    common.verdict(same > 0.99, f"{chosen.size} of {steps.size} points", f"{same:.2%} escape as expected")
    out = np.mean(steps.ravel()[chosen], dtype=np.float64)
    common.check("mean iterations", out, np.mean(expected, dtype=np.float64), 0.01)


if __name__ == "__main__":
    main()
