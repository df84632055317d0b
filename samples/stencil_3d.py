"""Seven-point stencil on a volume, iterated: a work-item walks along z and keeps the column's last three
values in registers; two buffers take turns, the outermost layer stays as it is.

Source: J. A. Stratton et al., "Parboil: A Revised Benchmark Suite" (2012), stencil; stencil3D in Table 1 of
AMGE (ICS 2015).
"""

import common
import numpy as np
import pyopencl as cl

GROUP = 32, 4
CENTRE, NEIGHBOUR = np.float32(0.4), np.float32(0.1)
SOURCE = """
__kernel __attribute__((reqd_work_group_size(GROUP_X, GROUP_Y, 1)))
void advance(__global const float *now, __global float *next, const uint nx, const uint ny, const uint nz,
          const float centre, const float neighbour)
{
    const size_t x = get_global_id(0), y = get_global_id(1);
    if (x < 1 || y < 1 || x + 1 >= nx || y + 1 >= ny)
        return;
    const size_t plane = (size_t)nx * ny;
    size_t i = y * nx + x;
    float below = now[i], here = now[i + plane];
    for (uint z = 1; z < nz - 1; ++z) {
        i += plane;
        const float above = now[i + plane];
        next[i] = centre * here
                + neighbour * (below + above + now[i - 1] + now[i + 1] + now[i - nx] + now[i + nx]);
        below = here;
        here = above;
    }
}
"""


def stepped(volume: common.Array, steps: int) -> common.Array:
    """The volume after so many steps; its outermost layer stays."""
    volume = volume.astype(np.float64)
    inner = slice(1, -1)
    for _ in range(steps):
        around = volume[:-2, inner, inner] + volume[2:, inner, inner]
        around += volume[inner, :-2, inner]
        around += volume[inner, 2:, inner]
        around += volume[inner, inner, :-2]
        around += volume[inner, inner, 2:]
        volume[inner, inner, inner] = float(CENTRE) * volume[inner, inner, inner] + float(NEIGHBOUR) * around
    return volume


def window(n: int, most: int, steps: int) -> tuple[slice, slice, slice]:
    """Which of `n` cells along an axis to check, at most `most`; those that they depend on; where they are in these.

    What happens outside reaches one cell further in at every step.
    """
    first, last = (0, n) if n <= most else (n // 2 - 4, n // 2 + 4)
    start, stop = max(0, first - steps), min(n, last + steps)
    return slice(first, last), slice(start, stop), slice(first - start, last - start)


def main() -> None:
    parser = common.parser(
        __doc__, size=96, meaning="width and height of the volume; its depth is half of it"
    )
    parser.add_argument("--steps", type=common.positive, default=10, help="iterations (default: %(default)s)")
    args = parser.parse_args()
    nx = ny = args.size
    nz = max(3, args.size // 2)
    volume = common.random(11, nz, ny, nx)
    result = np.empty_like(volume)
    context, queue = common.open_queue()
    common.announce(queue, f"{args.steps} steps of a volume of {nx} x {ny} x {nz}")
    options = [f"-DGROUP_X={GROUP[0]}", f"-DGROUP_Y={GROUP[1]}"]
    advance = cl.Kernel(cl.Program(context, SOURCE).build(options), "advance")
    grid = common.round_up(nx, GROUP[0]), common.round_up(ny, GROUP[1])
    shape = np.uint32(nx), np.uint32(ny), np.uint32(nz)

    def upload() -> list[cl.Buffer]:
        return [common.write(queue, volume, kept=True) for _ in range(2)]

    def launch(buffers: list[cl.Buffer]) -> None:
        for _ in range(args.steps):
            advance(queue, grid, GROUP, *buffers, *shape, CENTRE, NEIGHBOUR)
            buffers.reverse()

    def download(buffers: list[cl.Buffer]) -> common.Array:
        cl.enqueue_copy(queue, result, buffers[0])
        return result

    job = common.Job(queue, upload, launch, download)
    common.run(job, "steps", count=1e-6 * volume.size * args.steps, unit="million cells")
    chosen, around, inside = zip(
        *(window(n, most, args.steps) for n, most in ((nz, 64), (ny, 128), (nx, 128))), strict=True
    )
    expected = stepped(volume[around], args.steps)[inside]
    what = ", ".join(
        f"{axis} {part.start} to {part.stop - 1}" for axis, part in zip("zyx", chosen, strict=True)
    )
    common.check(f"cells at {what}", result[chosen], expected, 1e-5)


if __name__ == "__main__":
    main()
