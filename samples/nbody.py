"""Bodies that attract each other, all pairs: a work-group stages a tile of bodies at a time in local
memory.

Source: L. Nyland, M. Harris and J. Prins, "Fast N-Body Simulation with CUDA" (GPU Gems 3, 2007); Nbody in
Table 2 of Kim et al. (PPoPP 2011).
"""

import common
import numpy as np
import pyopencl as cl

GROUP = 128
SOFTENING, TIME_STEP = 1e-3, 1e-3  # squared distance; both in the units of the unit ball of bodies
SOURCE = """
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void advance(__global const float4 *positions, __global float4 *velocities, __global float4 *next_positions,
          const uint n)
{
    __local float4 tile[GROUP];
    const uint i = get_global_id(0), lid = get_local_id(0);
    const float4 body = positions[min(i, n - 1)]; /* x, y, z, mass */
    float3 acceleration = (float3)(0.0f);
    for (uint start = 0; start < n; start += GROUP) {
        tile[lid] = start + lid < n ? positions[start + lid] : (float4)(0.0f); /* no mass, no pull */
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint j = 0; j < GROUP; ++j) {
            const float3 away = tile[j].xyz - body.xyz;
            const float nearness = rsqrt(dot(away, away) + SOFTENING);
            acceleration += tile[j].w * nearness * nearness * nearness * away;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (i < n) {
        float4 velocity = velocities[i];
        velocity.xyz += TIME_STEP * acceleration;
        velocities[i] = velocity;
        next_positions[i] = (float4)(body.xyz + TIME_STEP * velocity.xyz, body.w);
    }
}
"""
MOST_CHECKED_WHOLE = 1 << 27  # pairs over all steps; beyond them some bodies are, after one step


def accelerations(bodies: common.Array, chosen: common.Array) -> common.Array:
    """The accelerations of the bodies `chosen`, in double precision."""
    result = np.empty((chosen.size, 3))
    x, y, z, mass = bodies.astype(np.float64).T.copy()
    for start in range(0, chosen.size, 256):
        some = chosen[start : start + 256, None]
        dx, dy, dz = x - x[some], y - y[some], z - z[some]
        pull = mass * (dx * dx + dy * dy + dz * dz + SOFTENING) ** -1.5
        result[start : start + 256] = np.stack([np.einsum("ij,ij->i", pull, d) for d in (dx, dy, dz)], 1)
    return result


def moved(
    bodies: common.Array, velocities: common.Array, chosen: common.Array
) -> tuple[common.Array, common.Array]:
    """Positions with masses, and velocities, of the bodies `chosen` after one step."""
    velocity = velocities[chosen].astype(np.float64)
    velocity[:, :3] += TIME_STEP * accelerations(bodies, chosen)
    position = bodies[chosen].astype(np.float64)
    position[:, :3] += TIME_STEP * velocity[:, :3]
    return position, velocity


def ball(n: int) -> tuple[common.Array, common.Array]:
    """Positions with masses, and velocities, of bodies in a ball that turns."""
    rng = np.random.default_rng(18)
    bodies = rng.standard_normal((n, 4), np.float32)
    bodies[:, :3] *= (rng.random(n, np.float32) ** (1 / 3) / np.linalg.norm(bodies[:, :3], axis=1))[:, None]
    bodies[:, 3] = (0.5 + rng.random(n, np.float32)) / n
    velocities = np.zeros_like(bodies)
    velocities[:, 0], velocities[:, 1] = -bodies[:, 1], bodies[:, 0]
    return bodies, velocities


def compare(
    what: str, found: tuple[common.Array, common.Array], expected: tuple[common.Array, common.Array]
) -> None:
    """Check positions and velocities."""
    common.check(f"positions of {what}", found[0], expected[0], 1e-5)
    common.check(f"velocities of {what}", found[1], expected[1], 1e-4)


def main() -> None:
    parser = common.parser(__doc__, size=2048, meaning="bodies")
    parser.add_argument("--steps", type=common.positive, default=10, help="time steps (default: %(default)s)")
    args = parser.parse_args()
    n, steps = args.size, args.steps
    bodies, velocities = ball(n)
    positions, speeds = np.empty_like(bodies), np.empty_like(bodies)
    context, queue = common.open_queue()
    common.announce(queue, f"{n} bodies, {steps} steps")
    options = [f"-DGROUP={GROUP}", f"-DSOFTENING={SOFTENING}f", f"-DTIME_STEP={TIME_STEP}f"]
    advance = cl.Kernel(cl.Program(context, SOURCE).build(options), "advance")
    grid = (common.round_up(n, GROUP),)

    def upload() -> list[cl.Buffer]:
        inputs = [common.write(queue, array, kept=True) for array in (velocities, bodies)]
        return [*inputs, common.room(queue, bodies.nbytes)]

    def advanced(buffers: list[cl.Buffer], steps: int) -> None:
        for _ in range(steps):
            advance(queue, grid, (GROUP,), buffers[1], buffers[0], buffers[2], np.uint32(n))
            buffers[1:] = buffers[:0:-1]

    def download(buffers: list[cl.Buffer]) -> tuple[common.Array, common.Array]:
        cl.enqueue_copy(queue, positions, buffers[1])
        cl.enqueue_copy(queue, speeds, buffers[0])
        return positions, speeds

    whole = n * n * steps <= MOST_CHECKED_WHOLE
    if not whole:  # one step by itself
        buffers = upload()
        advanced(buffers, 1)
        download(buffers)
        common.finish(queue)
        chosen = common.some(n, 64)
        first = positions[chosen], speeds[chosen]
        compare(f"{chosen.size} of {n} bodies after a step", first, moved(bodies, velocities, chosen))
    job = common.Job(queue, upload, lambda buffers: advanced(buffers, steps), download)
    common.run(job, "steps", count=1e-9 * n * n * steps, unit="billion pairs")
    if whole:
        expected = bodies, velocities
        for _ in range(steps):
            expected = moved(*expected, np.arange(n))
        compare(f"{n} bodies after {steps} steps", (positions, speeds), expected)
    impulse, wanted = (
        masses[:, 3] @ v.astype(np.float64) for masses, v in ((positions, speeds), (bodies, velocities))
    )
    common.check("the impulse kept", 1 + impulse[:3], 1 + wanted[:3], 1e-5)


if __name__ == "__main__":
    main()
