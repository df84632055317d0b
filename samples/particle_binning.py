"""Particles sorted into the cells of a square: counted by atomics, cells laid out by a scan, and every particle put in a
place of its cell that another atomic hands out. The order in a cell is whatever happens.

Source: S. Green, "Particle Simulation using CUDA" (NVIDIA SDK, 2010), the grid by atomics.
"""

import common
import numpy as np
import pyopencl as cl

GROUP, EDGE = 256, 64
SOURCE = """
int cell_of(const float2 at)
{
    const int2 cell = min(convert_int2(at * EDGE), EDGE - 1);
    return cell.y * EDGE + cell.x;
}

__kernel void count(__global const float2 *places, __global int *counts, const int n)
{
    const int i = get_global_id(0);
    if (i < n)
        atomic_inc(&counts[cell_of(places[i])]);
}

/* One work-group: where each cell begins. */
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void lay_out(__global const int *counts, __global int *starts, __global int *next)
{
    __local int sums[GROUP];
    const int lid = get_local_id(0), each = EDGE * EDGE / GROUP;
    int sum = 0;
    for (int k = 0; k < each; ++k)
        sum += counts[lid * each + k];
    sums[lid] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    int before = 0;
    for (int k = 0; k < lid; ++k)
        before += sums[k];
    for (int k = 0; k < each; ++k) {
        starts[lid * each + k] = next[lid * each + k] = before;
        before += counts[lid * each + k];
    }
}

__kernel void place(__global const float2 *places, __global int *next, __global int *sorted, const int n)
{
    const int i = get_global_id(0);
    if (i < n)
        sorted[atomic_inc(&next[cell_of(places[i])])] = i;
}

__kernel void move(__global float2 *places, const float2 step, const int n)
{
    const int i = get_global_id(0);
    if (i < n) {
        const float2 there = places[i] + step;
        places[i] = there - floor(there);
    }
}
"""
STEP = 0.0078125, 0.00390625


def main() -> None:
    parser = common.parser(__doc__, size=1 << 16, meaning="particles")
    parser.add_argument("--steps", type=common.positive, default=4, help="of time (default: %(default)s)")
    args = parser.parse_args()
    n = args.size
    places = common.random(101, n, 2)
    starts, particles = np.empty(EDGE * EDGE, np.int32), np.empty(n, np.int32)
    moved = np.empty_like(places)
    context, queue = common.open_queue()
    common.announce(queue, f"{n} particles in {EDGE} x {EDGE} cells")
    program = cl.Program(context, SOURCE).build([f"-DGROUP={GROUP}", f"-DEDGE={EDGE}"])
    count, lay_out, place, move = (cl.Kernel(program, name) for name in ("count", "lay_out", "place", "move"))
    grid, step = (common.round_up(n, GROUP),), np.array([STEP], np.float32).view(cl.cltypes.float2)[0]

    def upload() -> list[cl.Buffer]:
        sizes = starts.nbytes, starts.nbytes, starts.nbytes, particles.nbytes
        return [common.write(queue, places, kept=True), *(common.room(queue, nbytes) for nbytes in sizes)]

    def launch(buffers: list[cl.Buffer]) -> None:
        at, counts, first, next_place, in_order = buffers
        for _ in range(args.steps):
            move(queue, grid, (GROUP,), at, step, np.int32(n))
            cl.enqueue_fill_buffer(queue, counts, np.int32(0), 0, counts.size)
            count(queue, grid, (GROUP,), at, counts, np.int32(n))
            lay_out(queue, (GROUP,), (GROUP,), counts, first, next_place)
            place(queue, grid, (GROUP,), at, next_place, in_order, np.int32(n))

    def download(buffers: list[cl.Buffer]) -> tuple[common.Array, common.Array]:
        for array, buffer in zip(
            (moved, starts, particles), (buffers[0], buffers[2], buffers[4]), strict=True
        ):
            cl.enqueue_copy(queue, array, buffer)
        return moved, starts  # which particle of a cell comes first is nobody's choice

    job = common.Job(queue, upload, launch, download)
    common.run(job, "steps", count=1e-6 * n * args.steps, unit="million particles")
    at = places.copy()
    for _ in range(args.steps):
        at += np.array(STEP, np.float32)
        at -= np.floor(at)
    cell = np.minimum((at * np.float32(EDGE)).astype(np.int32), EDGE - 1)
    cells = cell[:, 1] * EDGE + cell[:, 0]
    common.check("places", moved, at)
    common.check("cells in order", cells[particles], np.sort(cells))
    common.check("every particle once", np.sort(particles), np.arange(n))
    counts = np.bincount(cells, minlength=EDGE * EDGE)
    common.check("where cells begin", starts, np.cumsum(counts) - counts)


if __name__ == "__main__":
    main()
