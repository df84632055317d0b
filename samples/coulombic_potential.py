"""Electric potential of point charges on a plane of grid points: each launch adds the charges that fit
constant memory.

A work-item computes four points, a work-group's width apart, so that a group's writes stay side by side.

Source: J. E. Stone et al., "Accelerating Molecular Modeling Applications with Graphics Processors" (2007),
direct summation, as in Parboil's cp; CP in Table 2 of Kim et al. (PPoPP 2011).
"""

import common
import numpy as np
import pyopencl as cl

GROUP_X, GROUP_Y, POINTS = 16, 8, 4
ATOMS_A_LAUNCH = 4000  # of 16 bytes: constant memory is at least 64 KiB
SPACING = np.float32(0.1)  # Ångström between grid points
SOURCE = """
__kernel __attribute__((reqd_work_group_size(GROUP_X, GROUP_Y, 1)))
void add_potential(__constant float4 *atoms, const int natoms, __global float *potential, const uint width,
                   const uint height, const float spacing)
{
    const size_t x = get_group_id(0) * GROUP_X * POINTS + get_local_id(0), y = get_global_id(1);
    if (y >= height)
        return;
    const float px = x * spacing, py = y * spacing;
    float sums[POINTS] = { 0.0f };
    for (int i = 0; i < natoms; ++i) {
        const float4 atom = atoms[i]; /* x, y, squared distance from the plane, charge */
        const float dy = py - atom.y, beside = dy * dy + atom.z;
        float dx = px - atom.x;
        for (int p = 0; p < POINTS; ++p) {
            sums[p] += atom.w * rsqrt(dx * dx + beside);
            dx += GROUP_X * spacing;
        }
    }
    __global float *row = potential + y * width;
    for (int p = 0; p < POINTS; ++p)
        if (x + p * GROUP_X < width)
            row[x + p * GROUP_X] += sums[p];
}
"""


def potentials(atoms: common.Array, x: common.Array, y: common.Array) -> common.Array:
    """The potential at the grid points (x, y), in double precision."""
    result = np.zeros(len(x))
    for part in np.array_split(atoms.astype(np.float64), -(-len(atoms) // 128)):
        squares = (x[:, None] * float(SPACING) - part[:, 0]) ** 2 + (
            y[:, None] * float(SPACING) - part[:, 1]
        ) ** 2
        result += (part[:, 3] / np.sqrt(squares + part[:, 2])).sum(1)
    return result


def main() -> None:
    parser = common.parser(__doc__, size=128, meaning="grid points along each edge")
    parser.add_argument(
        "--atoms", type=common.positive, default=5000, help="point charges (default: %(default)s)"
    )
    args = parser.parse_args()
    size = args.size
    atoms = np.random.default_rng(15).random((args.atoms, 4), np.float32)
    atoms[:, :2] *= size * SPACING
    atoms[:, 2] = (0.5 + 10 * atoms[:, 2]) ** 2
    atoms[:, 3] = 2 * atoms[:, 3] - np.float32(0.9)
    potential = np.zeros((size, size), np.float32)
    context, queue = common.open_queue()
    common.announce(queue, f"{args.atoms} charges on {size} x {size} grid points")
    options = [f"-DGROUP_X={GROUP_X}", f"-DGROUP_Y={GROUP_Y}", f"-DPOINTS={POINTS}"]
    add_potential = cl.Kernel(cl.Program(context, SOURCE).build(options), "add_potential")
    grid = common.round_up(size, GROUP_X * POINTS) // POINTS, common.round_up(size, GROUP_Y)
    shape = np.uint32(size), np.uint32(size), SPACING

    def upload() -> list[cl.Buffer]:
        return [common.room(queue, potential.nbytes), common.room(queue, 16 * ATOMS_A_LAUNCH)]

    def launch(buffers: list[cl.Buffer]) -> None:
        result, constant = buffers
        cl.enqueue_fill_buffer(queue, result, np.float32(0), 0, potential.nbytes)
        for start in range(0, args.atoms, ATOMS_A_LAUNCH):
            part = atoms[start : start + ATOMS_A_LAUNCH]
            common.rewrite(queue, constant, part)
            add_potential(queue, grid, (GROUP_X, GROUP_Y), constant, np.int32(len(part)), result, *shape)

    def download(buffers: list[cl.Buffer]) -> common.Array:
        cl.enqueue_copy(queue, potential, buffers[0])
        return potential

    job = common.Job(queue, upload, launch, download)
    common.run(job, "potential", count=1e-9 * size * size * args.atoms, unit="billion pairs")
    chosen = common.some(size * size, max(64, (1 << 27) // args.atoms))
    y, x = np.divmod(chosen, size)
    expected = potentials(atoms, x, y)
    common.check(f"{chosen.size} of {size * size} grid points", potential[y, x], expected, 1e-4)


if __name__ == "__main__":
    main()
