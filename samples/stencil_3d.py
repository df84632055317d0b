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
MOST_PLANES = 64  # a volume with more is checked on a slab


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


def main() -> None:
    parser = common.parser(
        __doc__, size=96, meaning="width and height of the volume; its depth is half of it"
    )
    parser.add_argument("--steps", type=common.positive, default=10, help="iterations (default: %(default)s)")
    args = parser.parse_args()
    nx = ny = args.size
    nz = max(3, args.size // 2)
    context, queue = common.open_queue()
    common.announce(queue, f"{args.steps} steps of a volume of {nx} x {ny} x {nz}")
    volume = np.random.default_rng(11).random((nz, ny, nx), np.float32)

    flags = cl.mem_flags
    now = cl.Buffer(context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=volume)
    following = cl.Buffer(context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=volume)
    advance = cl.Kernel(
        cl.Program(context, SOURCE).build([f"-DGROUP_X={GROUP[0]}", f"-DGROUP_Y={GROUP[1]}"]), "advance"
    )
    grid = common.round_up(nx, GROUP[0]), common.round_up(ny, GROUP[1])
    with common.timed(queue, "steps", count=1e-6 * volume.size * args.steps, unit="million cells"):
        for _ in range(args.steps):
            advance(
                queue,
                grid,
                GROUP,
                now,
                following,
                np.uint32(nx),
                np.uint32(ny),
                np.uint32(nz),
                CENTRE,
                NEIGHBOUR,
            )
            now, following = following, now

    result = np.empty_like(volume)
    cl.enqueue_copy(queue, result, now)
    # What happens outside of a slab reaches one plane further in at every step.
    first, last = (0, nz) if nz <= MOST_PLANES else (nz // 2 - 2, nz // 2 + 2)
    start, stop = max(0, first - args.steps), min(nz, last + args.steps)
    expected = stepped(volume[start:stop], args.steps)[first - start : last - start]
    common.check(f"planes {first} to {last - 1} of {nz}", result[first:last], expected, 1e-5)


if __name__ == "__main__":
    main()
