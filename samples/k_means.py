"""Clusters of points by k-means: a kernel finds the nearest centre of each point and adds the point to its cluster, in
local memory first and then by atomics; the host moves the centres.

Coordinates are added as whole numbers, so that the order does not matter.

Source: S. P. Lloyd, "Least Squares Quantization in PCM" (IEEE Transactions on Information Theory, 1982); kmeans in Rodinia.
"""

import common
import numpy as np
import pyopencl as cl

GROUP, DIMENSIONS = 256, 4
#: steps of a coordinate from 0 to 1
STEPS = 1 << 16
SOURCE = """
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void assign(__global const float *points, __global const float *centres, __global int *nearest,
            __global uint *counts, __global ulong *sums, const int n)
{
    __local uint own_counts[CLUSTERS], own_sums[CLUSTERS * DIMENSIONS];
    const int lid = get_local_id(0), i = get_global_id(0);
    if (lid < CLUSTERS)
        own_counts[lid] = 0;
    if (lid < CLUSTERS * DIMENSIONS)
        own_sums[lid] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (i < n) {
        int best = 0;
        float least = INFINITY;
        for (int cluster = 0; cluster < CLUSTERS; ++cluster) {
            float far = 0.0f;
            for (int d = 0; d < DIMENSIONS; ++d) {
                const float apart = points[d * n + i] - centres[cluster * DIMENSIONS + d];
                far += apart * apart;
            }
            if (far < least) {
                least = far;
                best = cluster;
            }
        }
        nearest[i] = best;
        atomic_inc(&own_counts[best]);
        for (int d = 0; d < DIMENSIONS; ++d)
            atomic_add(&own_sums[best * DIMENSIONS + d], (uint)(points[d * n + i] * STEPS));
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lid < CLUSTERS)
        atomic_add(&counts[lid], own_counts[lid]);
    if (lid < CLUSTERS * DIMENSIONS)
        atom_add(&sums[lid], (ulong)own_sums[lid]);
}
"""


def main() -> None:
    parser = common.parser(__doc__, size=1 << 17, meaning="points")
    parser.add_argument("--steps", type=common.positive, default=10, help="iterations (default: %(default)s)")
    parser.add_argument(
        "--clusters", type=common.positive, default=16, help="at most 64 (default: %(default)s)"
    )
    args = parser.parse_args()
    n, clusters = args.size, args.clusters
    if clusters * DIMENSIONS > GROUP:  # a work-item adds up each of their coordinates
        parser.error(f"--clusters: at most {GROUP // DIMENSIONS}")
    points = common.random(61, DIMENSIONS, n)
    points **= 2
    first = np.ascontiguousarray(points[:, :: max(1, n // clusters)][:, :clusters].T)
    nearest = np.empty(n, np.int32)
    context, queue = common.open_queue()
    common.announce(queue, f"{n} points in {clusters} clusters")
    options = [f"-DGROUP={GROUP}", f"-DCLUSTERS={clusters}", f"-DDIMENSIONS={DIMENSIONS}", f"-DSTEPS={STEPS}"]
    assign = cl.Kernel(cl.Program(context, SOURCE).build(options), "assign")
    counts, sums = np.empty(clusters, np.uint32), np.empty((clusters, DIMENSIONS), np.uint64)
    centres, before = first.copy(), first.copy()

    def upload() -> list[cl.Buffer]:
        sizes = first.nbytes, nearest.nbytes, counts.nbytes, sums.nbytes
        return [common.write(queue, points), *(common.room(queue, nbytes) for nbytes in sizes)]

    def launch(buffers: list[cl.Buffer]) -> None:
        centres[:] = first
        for _ in range(args.steps):
            cl.enqueue_copy(queue, buffers[1], centres)
            for buffer in buffers[3:]:
                cl.enqueue_fill_buffer(queue, buffer, np.uint32(0), 0, buffer.size)
            assign(queue, (common.round_up(n, GROUP),), (GROUP,), *buffers, np.int32(n))
            cl.enqueue_copy(queue, counts, buffers[3])
            cl.enqueue_copy(queue, sums, buffers[4])
            before[:] = centres
            centres[:] = sums / (float(STEPS) * np.maximum(counts, 1)[:, np.newaxis])

    def download(buffers: list[cl.Buffer]) -> tuple[common.Array, common.Array]:
        cl.enqueue_copy(queue, nearest, buffers[2])
        return nearest, centres.copy()

    job = common.Job(queue, upload, launch, download)
    common.run(job, "iterations", count=1e-6 * n * args.steps, unit="million points")
    chosen = common.some(n, 1 << 16)
    far = ((points[:, chosen, np.newaxis] - before.T[:, np.newaxis, :]).astype(np.float64) ** 2).sum(axis=0)
    common.check(
        "distances to the nearest centres",
        far[np.arange(chosen.size), nearest[chosen]],
        far.min(axis=1),
        1e-6,
    )
    common.check("points of each cluster", counts, np.bincount(nearest, minlength=clusters))
    whole = (points * np.float32(STEPS)).astype(np.uint32)
    added = [np.bincount(nearest, weights=whole[d], minlength=clusters) for d in range(DIMENSIONS)]
    common.check("sums of their coordinates", sums, np.stack(added, axis=1).astype(np.uint64))


if __name__ == "__main__":
    main()
