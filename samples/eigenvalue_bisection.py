"""All eigenvalues of a symmetric tridiagonal matrix by bisection: two kernels take turns until every
interval is narrow.

The first counts the eigenvalues below each interval's ends (Sturm sequences). The second gives each
eigenvalue the interval that holds it, found among the counts by binary search, and cuts it: in halves
around one eigenvalue, else in as many parts as there are eigenvalues.

Source: W. Barth, R. S. Martin and J. H. Wilkinson (1967), as in the EigenValue sample of the AMD APP SDK;
EigenValue in Table 2 of Kim et al. (PPoPP 2011).
"""

import common
import numpy as np
import pyopencl as cl

GROUP = 64
SOURCE = """
/* How many eigenvalues are below x. */
uint below(const float x, const uint n, __global const float *diagonal, __global const float *beside)
{
    uint count = 0;
    float pivot = diagonal[0] - x;
    count += pivot < 0.0f;
    for (uint i = 1; i < n; ++i) {
        if (fabs(pivot) < 1e-30f) /* a zero would make the next one infinite */
            pivot = -1e-30f;
        pivot = diagonal[i] - x - beside[i - 1] * beside[i - 1] / pivot;
        count += pivot < 0.0f;
    }
    return count;
}

/* Below each interval's ends. */
__kernel void count(__global uint2 *counts, __global const float2 *intervals, __global const float *diagonal,
                    __global const float *beside, const uint n)
{
    const uint i = get_global_id(0);
    if (i >= n)
        return;
    const float2 interval = intervals[i];
    counts[i] = (uint2)(below(interval.x, n, diagonal, beside), below(interval.y, n, diagonal, beside));
}

__kernel void cut(__global float2 *next, __global const float2 *intervals, __global const uint2 *counts,
                  __global const float *diagonal, __global const float *beside, const uint n,
                  const float narrow)
{
    const uint eigenvalue = get_global_id(0);
    if (eigenvalue >= n)
        return;
    uint holder = 0, stop = n - 1; /* the first interval with more eigenvalues below its upper end */
    while (holder < stop) {
        const uint middle = (holder + stop) / 2;
        if (counts[middle].y <= eigenvalue)
            holder = middle + 1;
        else
            stop = middle;
    }

    float2 interval = intervals[holder];
    /* Where an end is as good as an eigenvalue, the two kernels may round, and so count, it differently. */
    const uint lower = min(counts[holder].x, eigenvalue), upper = max(counts[holder].y, eigenvalue + 1);
    const uint inside = upper - lower, place = eigenvalue - lower;
    if (interval.y - interval.x > narrow) {
        if (inside == 1) {
            const float middle = 0.5f * (interval.x + interval.y);
            if (below(middle, n, diagonal, beside) > eigenvalue)
                interval.y = middle;
            else
                interval.x = middle;
        } else {
            const float width = (interval.y - interval.x) / inside;
            const float start = interval.x;
            interval.x = fma(width, (float)place, start);
            if (place + 1 < inside)
                interval.y = fma(width, (float)(place + 1), start);
        }
    }
    next[eigenvalue] = interval;
}
"""
MOST_ROUNDS = 100
MOST_CHECKED_WHOLE = 1024


def counts_below(values: common.Array, diagonal: common.Array, beside: common.Array) -> common.Array:
    """How many eigenvalues are below each of the values, in double precision."""
    squares = np.concatenate([[0.0], beside.astype(np.float64) ** 2])
    pivot, count = np.ones(len(values)), np.zeros(len(values), int)
    for entry, square in zip(diagonal.astype(np.float64), squares, strict=True):
        pivot = entry - values - square / np.where(np.abs(pivot) < 1e-200, -1e-200, pivot)
        count += pivot < 0
    return count


def narrowed(
    queue: cl.CommandQueue,
    diagonal: common.Array,
    beside: common.Array,
    bounds: tuple[float, float],
    narrow: np.float32,
) -> tuple[common.Array, int]:
    """An interval (lower, upper) around each eigenvalue, ascending, at most `narrow` wide; and the rounds."""
    n, context = len(diagonal), queue.context
    flags = cl.mem_flags
    intervals = np.full((n, 2), bounds[1], np.float32)  # the first one holds all eigenvalues, the others none
    intervals[0] = bounds
    diagonal_buffer = cl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=diagonal)
    beside_buffer = cl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=beside)
    now = cl.Buffer(context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=intervals)
    following = cl.Buffer(context, flags.READ_WRITE, intervals.nbytes)
    counts = cl.Buffer(context, flags.READ_WRITE, 8 * n)
    program = cl.Program(context, SOURCE).build()
    count, cut = cl.Kernel(program, "count"), cl.Kernel(program, "cut")
    grid = (common.round_up(n, GROUP),)
    matrix = diagonal_buffer, beside_buffer, np.uint32(n)
    rounds = 0
    while rounds < MOST_ROUNDS and np.any(intervals[:, 1] - intervals[:, 0] > narrow):
        count(queue, grid, (GROUP,), counts, now, *matrix)
        cut(queue, grid, (GROUP,), following, now, counts, *matrix, narrow)
        now, following = following, now
        cl.enqueue_copy(queue, intervals, now)
        rounds += 1
    return intervals, rounds


def main() -> None:
    n = common.parser(__doc__, size=512, meaning="rows and columns of the matrix").parse_args().size
    _, queue = common.open_queue()
    common.announce(queue, f"a matrix of {n} x {n}")
    rng = np.random.default_rng(16)
    diagonal = 10 * rng.random(n, np.float32)
    beside = 1 + rng.random(
        max(1, n - 1), np.float32
    )  # a single row has none: the buffer's one entry is not used
    around = np.zeros(n)  # Gershgorin's discs bound the eigenvalues
    around[1:] += beside[: n - 1]
    around[:-1] += beside[: n - 1]
    bounds = float((diagonal - around).min() - 0.01), float((diagonal + around).max() + 0.01)
    narrow = np.float32(4e-6 * max(-bounds[0], bounds[1]))

    with common.timed(queue, "bisection", count=n, unit="eigenvalues"):
        intervals, rounds = narrowed(queue, diagonal, beside, bounds, narrow)
    widest = float((intervals[:, 1] - intervals[:, 0]).max())
    common.verdict(
        widest <= narrow,
        "intervals' widths",
        f"{widest:.1e} at most after {rounds} rounds, {narrow:.1e} wanted",
    )

    chosen = common.some(n, 512)
    room = 2 * narrow  # the counts in single precision are those of a matrix that differs by some roundings
    lower = counts_below(intervals[chosen, 0].astype(np.float64) - room, diagonal, beside[: n - 1])
    upper = counts_below(intervals[chosen, 1].astype(np.float64) + room, diagonal, beside[: n - 1])
    wrong = np.count_nonzero((lower > chosen) | (upper <= chosen))
    common.verdict(
        wrong == 0, f"eigenvalues below and above {chosen.size} of {n} intervals", f"{wrong} counts are wrong"
    )
    if n <= MOST_CHECKED_WHOLE:
        matrix = np.diag(diagonal.astype(np.float64)) + sum(np.diag(beside[: n - 1], k) for k in (-1, 1))
        common.check(f"all {n} eigenvalues", intervals.mean(1), np.linalg.eigvalsh(matrix), 1e-5)


if __name__ == "__main__":
    main()
