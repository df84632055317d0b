"""Two-point angular correlation function: how much more often galaxies have neighbours at an angle than
random points.

A work-group compares 256 points of one set with a whole set, staged in local memory by tiles, finds the bin
of each pair by binary search, and counts in a local histogram, which it adds to that of its two sets with
global atomics.

Source: S. D. Landy and A. S. Szalay (1993), as in Parboil's tpacf, where one work-group makes a whole
histogram; TPACF in Table 2 of Kim et al. (PPoPP 2011).
"""

import argparse

import common
import numpy as np
import pyopencl as cl

GROUP, BINS = 256, 20
ANGLES = 0.5, 45.0  # degrees, between which the bins lie, equal in the logarithm
SOURCE = """
/* Histogram 0 is the galaxies with themselves; then come, for each random set, the galaxies with it and the
   set with itself. Points are unit vectors, the sets one after the other, the galaxies first. */
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void count_pairs(__global const float *xs, __global const float *ys, __global const float *zs,
                 __constant float *cosines, __global uint *histograms, const uint npoints)
{
    __local float tile_x[GROUP], tile_y[GROUP], tile_z[GROUP];
    __local uint counts[BINS + 2];
    const uint lid = get_local_id(0), i = get_global_id(0), number = get_global_id(1);
    const uint other = (number + 1) / 2, one = number % 2 == 0 ? other : 0;
    const size_t first = (size_t)one * npoints, second = (size_t)other * npoints;
    if (lid < BINS + 2)
        counts[lid] = 0;
    float x = 0.0f, y = 0.0f, z = 0.0f;
    if (i < npoints) {
        x = xs[first + i];
        y = ys[first + i];
        z = zs[first + i];
    }

    for (uint start = 0; start < npoints; start += GROUP) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (start + lid < npoints) {
            tile_x[lid] = xs[second + start + lid];
            tile_y[lid] = ys[second + start + lid];
            tile_z[lid] = zs[second + start + lid];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        const uint stop = min((uint)GROUP, npoints - start);
        for (uint j = 0; j < stop; ++j) {
            if (i >= npoints || (one == other && start + j <= i)) /* a set's pairs with itself count once */
                continue;
            const float cosine = x * tile_x[j] + y * tile_y[j] + z * tile_z[j];
            uint low = 0, high = BINS + 1; /* the number of bin edges whose cosine is larger */
            while (low < high) {
                const uint middle = (low + high) / 2;
                if (cosine < cosines[middle])
                    low = middle + 1;
                else
                    high = middle;
            }
            atomic_inc(&counts[low]);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lid < BINS + 2)
        atomic_add(&histograms[number * (BINS + 2) + lid], counts[lid]);
}
"""
MOST_PAIRS = 1 << 25  # compared in NumPy
ROUNDING = 1e-6  # of a cosine in single precision


def few(text: str) -> int:
    """So many points that the counts of their pairs fit 32 bits, from the command line."""
    number = common.positive(text)
    if number >= 1 << 16:
        raise argparse.ArgumentTypeError("the counts of pairs overflow from 65536 points on")
    return number


def on_sphere(vectors: common.Array) -> common.Array:
    """The vectors' directions, float32."""
    directions: common.Array = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    return directions.astype(np.float32)


def histogram(one: common.Array, other: common.Array, cosines: common.Array) -> tuple[common.Array, int]:
    """The counts of the pairs of two sets, or of one with itself, and how many of them rounding may move."""
    counts, unsure = np.zeros(len(cosines) + 1, np.int64), 0
    edges = -cosines.astype(np.float64)
    with_itself = one is other
    for start in range(0, len(one), 512):
        pairs = -(one[start : start + 512].astype(np.float64) @ other.T.astype(np.float64))
        if with_itself:
            pairs = pairs[np.arange(len(other)) > np.arange(start, start + len(pairs))[:, None]]
        pairs = np.sort(pairs, axis=None)
        counts += np.diff(np.searchsorted(pairs, edges, "right"), prepend=0, append=pairs.size)
        unsure += int(
            (np.searchsorted(pairs, edges + ROUNDING) - np.searchsorted(pairs, edges - ROUNDING)).sum()
        )
    return counts, unsure


def counted(queue: cl.CommandQueue, points: common.Array, cosines: common.Array) -> common.Array:
    """The histograms of the sets of points, the galaxies first, counted on the queue's device."""
    nsets, n = len(points) - 1, points.shape[1]
    inputs = [*(np.ascontiguousarray(points[..., axis]) for axis in range(3)), cosines]
    histograms = np.empty((2 * nsets + 1, BINS + 2), np.uint32)
    program = cl.Program(queue.context, SOURCE).build([f"-DGROUP={GROUP}", f"-DBINS={BINS}"])
    count_pairs = cl.Kernel(program, "count_pairs")
    grid = common.round_up(n, GROUP), len(histograms)

    def upload() -> list[cl.Buffer]:
        return [*(common.write(queue, array) for array in inputs), common.room(queue, histograms.nbytes)]

    def launch(buffers: list[cl.Buffer]) -> None:
        cl.enqueue_fill_buffer(queue, buffers[-1], np.uint32(0), 0, histograms.nbytes)
        count_pairs(queue, grid, (GROUP, 1), *buffers, np.uint32(n))

    def download(buffers: list[cl.Buffer]) -> common.Array:
        cl.enqueue_copy(queue, histograms, buffers[-1])
        return histograms

    job = common.Job(queue, upload, launch, download)
    common.run(job, "counting", count=1e-9 * n * n * (1.5 * nsets + 0.5), unit="billion pairs")
    return histograms


def compare(histograms: common.Array, points: common.Array, cosines: common.Array) -> None:
    """Check histograms against those that NumPy counts, some of them where it would take long."""
    n = points.shape[1]
    chosen = common.some(len(histograms), max(2, MOST_PAIRS // n**2))
    moved = unsure = 0
    for number in chosen:
        second = points[(number + 1) // 2]
        counts, close = histogram(second if number % 2 == 0 else points[0], second, cosines)
        moved += int(np.abs(counts - histograms[number]).sum())
        unsure += close
    finding = f"counts differ by {moved}, and {unsure} pairs are on a bin's edge to rounding"
    common.verdict(moved <= 2 * unsure, f"the bins of {len(chosen)} histograms", finding)


def main() -> None:
    parser = common.parser(__doc__, size=1024, meaning="points of each set, below 65536", kind=few)
    parser.add_argument("--sets", type=common.positive, default=8, help="random sets (default: %(default)s)")
    args = parser.parse_args()
    n, nsets = args.size, args.sets
    rng = np.random.default_rng(19)
    clusters = on_sphere(rng.standard_normal((max(1, n // 16), 3)))
    galaxies = on_sphere(clusters[rng.integers(0, len(clusters), n)] + 0.03 * rng.standard_normal((n, 3)))
    points = np.concatenate([galaxies[None], on_sphere(rng.standard_normal((nsets, n, 3)))])
    cosines = np.cos(np.radians(np.geomspace(*ANGLES, BINS + 1))).astype(np.float32)

    _, queue = common.open_queue()
    common.announce(queue, f"{n} galaxies, {nsets} random sets")
    histograms = counted(queue, points, cosines)
    own = n * (n - 1) // 2
    wanted = np.array([own] + [n * n, own] * nsets)
    common.check(f"the number of pairs in {len(histograms)} histograms", histograms.sum(1, np.int64), wanted)
    if n * n <= MOST_PAIRS:
        compare(histograms, points, cosines)
    # Of random points the pairs closer than an angle are as many as the sphere's part within it.
    random_pairs = nsets * own * np.diff(-cosines.astype(np.float64)) / 2
    found = histograms[2::2, 1:-1].sum(0, np.float64)
    chance = np.sqrt(random_pairs + 1) + 1e-3 * random_pairs  # and rounding at the edges of narrow bins
    worst = float((np.abs(found - random_pairs) / chance).max())
    finding = f"off by {worst:.1f} times what chance explains at most"
    common.verdict(worst < 7, "random points' pairs in each bin", finding)
    dd, dr, rr = (
        part[:, 1:-1].sum(0, np.float64) for part in (histograms[:1], histograms[1::2], histograms[2::2])
    )
    excess = (nsets * dd - 2 * dr * (own / n**2) + rr) / np.maximum(rr, 1)
    print("  correlation at growing angles:", *(f"{value:.2f}" for value in excess[::3]))


if __name__ == "__main__":
    main()
