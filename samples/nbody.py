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
MOST_CHECKED_WHOLE = 1 << 27  # pairs over all steps; beyond them some bodies of the last step are checked


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


def main() -> None:
    parser = common.parser(__doc__, size=2048, meaning="bodies")
    parser.add_argument("--steps", type=common.positive, default=10, help="time steps (default: %(default)s)")
    args = parser.parse_args()
    n, steps = args.size, args.steps
    context, queue = common.open_queue()
    common.announce(queue, f"{n} bodies, {steps} steps")
    rng = np.random.default_rng(18)
    bodies = rng.standard_normal((n, 4), np.float32)
    bodies[:, :3] *= (rng.random(n, np.float32) ** (1 / 3) / np.linalg.norm(bodies[:, :3], axis=1))[
        :, None
    ]  # a ball
    bodies[:, 3] = (0.5 + rng.random(n, np.float32)) / n
    velocities = np.zeros_like(bodies)
    velocities[:, 0], velocities[:, 1] = -bodies[:, 1], bodies[:, 0]  # turning

    flags = cl.mem_flags
    now = cl.Buffer(context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=bodies)
    following = cl.Buffer(context, flags.READ_WRITE, bodies.nbytes)
    velocities_buffer = cl.Buffer(context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=velocities)
    options = [f"-DGROUP={GROUP}", f"-DSOFTENING={SOFTENING}f", f"-DTIME_STEP={TIME_STEP}f"]
    advance = cl.Kernel(cl.Program(context, SOURCE).build(options), "advance")
    whole = n * n * steps <= MOST_CHECKED_WHOLE
    before, velocities_before = bodies.copy(), velocities.copy()
    grid = (common.round_up(n, GROUP),)
    with common.timed(queue, "steps", count=1e-9 * n * n * steps, unit="billion pairs"):
        for number in range(steps):
            if number == steps - 1 and not whole:
                cl.enqueue_copy(queue, before, now)
                cl.enqueue_copy(queue, velocities_before, velocities_buffer)
            advance(queue, grid, (GROUP,), now, velocities_buffer, following, np.uint32(n))
            now, following = following, now

    positions, speeds = np.empty_like(bodies), np.empty_like(bodies)
    cl.enqueue_copy(queue, positions, now)
    cl.enqueue_copy(queue, speeds, velocities_buffer)
    chosen, what = (np.arange(n), f"{n} bodies after {steps} steps") if whole else (common.some(n, 256), "")
    what = what or f"{chosen.size} of {n} bodies in the last step"
    expected = before, velocities_before
    for _ in range(steps if whole else 1):
        expected = moved(*expected, chosen)
    common.check(f"positions of {what}", positions[chosen], expected[0], 1e-5)
    common.check(f"velocities of {what}", speeds[chosen], expected[1], 1e-4)


if __name__ == "__main__":
    main()
