"""Flow in a periodic box by the lattice-Boltzmann method: 19 speeds, single relaxation time, two
distribution arrays, one kernel a step that pulls from the neighbours and collides.

Distributions are stored speed by speed (a structure of arrays), less their values at rest, which keeps more
digits in single precision. The flow is Arnold's, Beltrami's and Childress's: it solves the Navier-Stokes
equations exactly, keeps its shape and decays as exp(-viscosity k^2 t).

Source: Y. H. Qian, D. d'Humieres and P. Lallemand, "Lattice BGK Models for Navier-Stokes Equation" (1992);
T. Dombre et al., "Chaotic Streamlines in the ABC Flows" (1986).
"""

import common
import numpy as np
import pyopencl as cl

# The speeds (x, y, z): at rest, along the axes, along the diagonals of the planes; and their weights.
SPEEDS = [
    *[(0, 0, 0), (1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, 1), (0, 0, -1)],
    *[(1, 1, 0), (-1, -1, 0), (1, -1, 0), (-1, 1, 0), (1, 0, 1), (-1, 0, -1)],
    *[(1, 0, -1), (-1, 0, 1), (0, 1, 1), (0, -1, -1), (0, 1, -1), (0, -1, 1)],
]
WEIGHTS = [1 / 3] + [1 / 18] * 6 + [1 / 36] * 12
GROUP = 128
FASTEST = 0.05  # of the flow, cells a step: the error of compressibility grows as its square
STRENGTHS = (0.5, 0.7, 1.0)  # of the flow's three waves
VISCOSITY = 0.1  # cells^2 a step


def signed(names: str, factors: tuple[int, ...]) -> str:
    """A sum of variables with factors -1, 0 and 1, as C."""
    text = "".join(f" {'-+'[c > 0]} {name}" for name, c in zip(names, factors, strict=True) if c)
    return text.removeprefix(" + ") or "0.0f"


def axis_sum(axis: int) -> str:
    """The sum of the distributions along an axis, each with its speed, as C."""
    return "".join(f" {'-+'[speed[axis] > 0]} f{q}" for q, speed in enumerate(SPEEDS) if speed[axis]).strip(
        " +"
    )


def source() -> str:
    """The kernels, with the loops over speeds written out."""
    where = {0: "{}", 1: "{}_before", -1: "{}_after"}  # a speed brings what comes from behind
    pulls = "\n".join(
        f"    const float f{q} = from[{q} * cells + {where[z].format('z')} + {where[y].format('y')}"
        f" + {where[x].format('x')}];"
        for q, (x, y, z) in enumerate(SPEEDS)
    )
    collisions = "\n".join(
        f"    to[{q} * cells + here] = f{q} + rate * (at_equilibrium({WEIGHTS[q]:.9f}f, density,"
        f" {signed('uvw', speed)}, square) - f{q});"
        for q, speed in enumerate(SPEEDS)
    )
    starts = "\n".join(
        f"    to[{q} * cells + here] = at_equilibrium({WEIGHTS[q]:.9f}f, density, {signed('uvw', speed)},"
        " square);"
        for q, speed in enumerate(SPEEDS)
    )
    loads = "\n".join(f"    const float f{q} = from[{q} * cells + here];" for q in range(len(SPEEDS)))
    total = " + ".join(f"f{q}" for q in range(len(SPEEDS)))
    return f"""
/* A distribution at equilibrium, less its weight; `density` is less one, `along` the velocity along the speed. */
float at_equilibrium(const float weight, const float density, const float along, const float square)
{{
    return weight * (density + (1.0f + density) * (3.0f * along + 4.5f * along * along - 1.5f * square));
}}

__kernel void start(__global float *to, const uint n, const float turn, const float a, const float b, const float c)
{{
    const size_t x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
    if (x >= n)
        return;
    const size_t cells = (size_t)n * n * n, here = (z * n + y) * n + x;
    const float sin_x = sin(turn * x), cos_x = cos(turn * x), sin_y = sin(turn * y), cos_y = cos(turn * y);
    const float sin_z = sin(turn * z), cos_z = cos(turn * z);
    const float u = a * sin_z + c * cos_y, v = b * sin_x + a * cos_z, w = c * sin_y + b * cos_x;
    const float square = u * u + v * v + w * w;
    const float density = 1.5f * (a * a + b * b + c * c - square); /* the pressure that balances the flow */
{starts}
}}

__kernel void step(__global const float *from, __global float *to, const uint n, const float rate)
{{
    const size_t x = get_global_id(0), y = get_global_id(1) * n, z = get_global_id(2) * n * n;
    if (x >= n)
        return;
    const size_t plane = (size_t)n * n, cells = plane * n, here = z + y + x;
    const size_t x_before = x > 0 ? x - 1 : n - 1, x_after = x + 1 < n ? x + 1 : 0;
    const size_t y_before = y > 0 ? y - n : plane - n, y_after = y + n < plane ? y + n : 0;
    const size_t z_before = z > 0 ? z - plane : cells - plane, z_after = z + plane < cells ? z + plane : 0;
{pulls}
    const float density = {total};
    const float mass = 1.0f + density;
    const float u = ({axis_sum(0)}) / mass;
    const float v = ({axis_sum(1)}) / mass;
    const float w = ({axis_sum(2)}) / mass;
    const float square = u * u + v * v + w * w;
{collisions}
}}

/* Density less one, and momentum, of the cells of one plane. */
__kernel void moments(__global const float *from, __global float4 *result, const uint n, const uint height)
{{
    const size_t x = get_global_id(0), y = get_global_id(1);
    if (x >= n)
        return;
    const size_t cells = (size_t)n * n * n, here = (height * (size_t)n + y) * n + x;
{loads}
    result[y * n + x] = (float4)({total}, {axis_sum(0)}, {axis_sum(1)}, {axis_sum(2)});
}}

/* Their sums over the rows of the box. */
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void row_sums(__global const float *from, __global float4 *sums, const uint n)
{{
    __local float4 scratch[GROUP];
    const uint lid = get_local_id(0);
    const size_t y = get_global_id(1), z = get_global_id(2), cells = (size_t)n * n * n;
    float4 sum = (float4)(0.0f);
    for (uint x = lid; x < n; x += GROUP) {{
        const size_t here = (z * n + y) * n + x;
{loads.replace("    const", "        const")}
        sum += (float4)({total}, {axis_sum(0)}, {axis_sum(1)}, {axis_sum(2)});
    }}
    scratch[lid] = sum;
    for (uint reach = GROUP / 2; reach > 0; reach /= 2) {{
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lid < reach)
            scratch[lid] += scratch[lid + reach];
    }}
    if (lid == 0)
        sums[z * n + y] = scratch[0];
}}
"""


SOURCE = source()
MOST_CHECKED_WHOLE = 48  # cells along an edge of the box of which NumPy computes some steps too
REFERENCE_STEPS = 5


def waves() -> tuple[float, float, float]:
    """The flow's three strengths, scaled so that no cell is faster than FASTEST."""
    a, b, c = (FASTEST * strength / sum(STRENGTHS) for strength in STRENGTHS)
    return a, b, c


def flow(n: int, heights: common.Array, steps: int) -> common.Array:
    """Momentum (z, y, x, 3) of the planes `heights` after so many steps, to a fraction FASTEST^2, float64."""
    a, b, c = (strength * np.exp(-VISCOSITY * (2 * np.pi / n) ** 2 * steps) for strength in waves())
    angle = 2 * np.pi * np.arange(n) / n
    z, y, x = heights[:, None, None] * (2 * np.pi / n), angle[:, None], angle
    shape = len(heights), n, n
    u, v, w = a * np.sin(z) + c * np.cos(y), b * np.sin(x) + a * np.cos(z), c * np.sin(y) + b * np.cos(x)
    return np.stack([np.broadcast_to(part, shape) for part in (u, v, w)], -1)


def stepped(n: int, steps: int) -> common.Array:
    """Density less one, and momentum, of all cells after so many steps, in double precision."""
    speeds, weights = np.array(SPEEDS, float), np.array(WEIGHTS)

    def equilibrium(density: common.Array, velocity: common.Array) -> common.Array:
        along = np.einsum("qi,zyxi->qzyx", speeds, velocity)
        bracket = 3 * along + 4.5 * along**2 - 1.5 * (velocity**2).sum(-1)
        result: common.Array = weights[:, None, None, None] * (density + (1 + density) * bracket)
        return result

    velocity = flow(n, np.arange(n), 0)
    f = equilibrium(1.5 * (sum(s * s for s in waves()) - (velocity**2).sum(-1)), velocity)
    for _ in range(steps):
        f = np.stack([np.roll(part, speed[::-1], (0, 1, 2)) for part, speed in zip(f, SPEEDS, strict=True)])
        density = f.sum(0)
        velocity = np.einsum("qi,qzyx->zyxi", speeds, f) / (1 + density)[..., None]
        f += (equilibrium(density, velocity) - f) / (3 * VISCOSITY + 0.5)
    return np.concatenate([f.sum(0)[..., None], np.einsum("qi,qzyx->zyxi", speeds, f)], -1)


class Box:
    """The kernels of a box of `n` cells a side on the queue's device."""

    def __init__(self, queue: cl.CommandQueue, n: int) -> None:
        self.queue, self.n = queue, np.uint32(n)
        program = cl.Program(queue.context, SOURCE).build([f"-DGROUP={GROUP}"])
        self.start, self.step, self.moments, self.row_sums = (
            cl.Kernel(program, name) for name in ("start", "step", "moments", "row_sums")
        )
        self.grid = common.round_up(n, GROUP), n, n
        self.plane = cl.Buffer(queue.context, cl.mem_flags.WRITE_ONLY, 16 * n * n)

    def make(self) -> list[cl.Buffer]:
        """Two arrays of distributions, the first one with the flow at the beginning."""
        nbytes = 4 * len(SPEEDS) * int(self.n) ** 3
        arrays = [cl.Buffer(self.queue.context, cl.mem_flags.READ_WRITE, nbytes) for _ in range(2)]
        turn = np.float32(2 * np.pi / int(self.n))
        self.start(self.queue, self.grid, (GROUP, 1, 1), arrays[0], self.n, turn, *map(np.float32, waves()))
        return arrays

    def advance(self, arrays: list[cl.Buffer], steps: int) -> None:
        """So many steps; the first array then holds the latest."""
        rate = np.float32(1 / (3 * VISCOSITY + 0.5))
        for _ in range(steps):
            self.step(self.queue, self.grid, (GROUP, 1, 1), *arrays, self.n, rate)
            arrays.reverse()

    def plane_at(self, arrays: list[cl.Buffer], height: int) -> common.Array:
        """Density less one, and momentum, of the cells of a plane: (y, x, 4)."""
        result = np.empty((int(self.n), int(self.n), 4), np.float32)
        group = GROUP, 1
        self.moments(self.queue, self.grid[:2], group, arrays[0], self.plane, self.n, np.uint32(height))
        cl.enqueue_copy(self.queue, result, self.plane)
        return result

    def sums(self, arrays: list[cl.Buffer]) -> common.Array:
        """Density less one, and momentum, summed over all cells."""
        result = np.empty((int(self.n) ** 2, 4), np.float32)
        rows = cl.Buffer(self.queue.context, cl.mem_flags.WRITE_ONLY, result.nbytes)
        self.row_sums(self.queue, (GROUP, *self.grid[1:]), (GROUP, 1, 1), arrays[0], rows, self.n)
        cl.enqueue_copy(self.queue, result, rows)
        total: common.Array = result.sum(0, np.float64)
        return total


def main() -> None:
    parser = common.parser(__doc__, size=32, meaning="cells along each edge of the box")
    parser.add_argument(
        "--steps", type=common.positive, default=100, help="time steps (default: %(default)s)"
    )
    args = parser.parse_args()
    n, steps = args.size, args.steps
    _, queue = common.open_queue()
    common.announce(queue, f"{steps} steps of {n} x {n} x {n} cells")
    box = Box(queue, n)
    heights = common.some(n, 3)

    scale = np.array([1, *[FASTEST] * 3]) * n**3

    def download(arrays: list[cl.Buffer]) -> tuple[common.Array, common.Array]:
        # The sums are zero but for rounding: only beside one do they mean anything.
        return np.stack([box.plane_at(arrays, int(height)) for height in heights]), 1 + box.sums(
            arrays
        ) / scale

    job = common.Job(queue, box.make, lambda arrays: box.advance(arrays, steps), download)
    planes, kept = common.run(job, "steps", count=1e-6 * n**3 * steps, unit="million cells")

    common.check("mass and momentum kept", kept, np.ones(4), 1e-5)
    # As it is weakly compressible the flow is the exact one to some squares of its speed.
    common.check(
        f"the flow in {heights.size} of {n} planes after {steps} steps",
        planes[..., 1:],
        flow(n, heights, steps),
        0.02,
    )
    if n <= MOST_CHECKED_WHOLE:
        arrays = box.make()
        box.advance(arrays, REFERENCE_STEPS)
        cells = np.stack([box.plane_at(arrays, height) for height in range(n)])
        common.check(f"all cells after {REFERENCE_STEPS} steps", cells, stepped(n, REFERENCE_STEPS), 1e-5)


if __name__ == "__main__":
    main()
