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
    squares = [0.0, *(beside.astype(np.float64) ** 2).tolist()]
    pivot, count, below = np.ones(len(values)), np.zeros(len(values), int), np.empty(len(values), bool)
    with np.errstate(divide="ignore"):  # after a pivot of zero comes an infinite one, then an ordinary one
        for entry, square in zip(diagonal.tolist(), squares, strict=True):
            np.divide(square, pivot, out=pivot)
            np.add(values, pivot, out=pivot)
            np.subtract(entry, pivot, out=pivot)
            np.less(pivot, 0, out=below)
            np.add(count, below, out=count)
    return count


def narrowed(
    queue: cl.CommandQueue,
    diagonal: common.Array,
    beside: common.Array,
    bounds: tuple[float, float],
    narrow: np.float32,
) -> tuple[common.Array, int]:
    """An interval (lower, upper) around each eigenvalue, ascending, at most `narrow` wide; and the rounds."""
    n = len(diagonal)
    first = np.full((n, 2), bounds[1], np.float32)  # the first one holds all eigenvalues, the others none
    first[0] = bounds
    intervals = np.empty_like(first)
    program = cl.Program(queue.context, SOURCE).build()
    count, cut = cl.Kernel(program, "count"), cl.Kernel(program, "cut")
    grid = (common.round_up(n, GROUP),)
    rounds = 0

    def upload() -> list[cl.Buffer]:
        inputs = [common.write(queue, array) for array in (diagonal, beside, first)]
        return [*inputs, *(common.room(queue, first.nbytes) for _ in range(3))]

    def launch(buffers: list[cl.Buffer]) -> None:
        nonlocal rounds
        *matrix, start, counts = *buffers[:2], np.uint32(n), *buffers[2:4]
        cl.enqueue_copy(queue, buffers[4], start)
        intervals[:] = first
        rounds = 0
        while rounds < MOST_ROUNDS and np.any(intervals[:, 1] - intervals[:, 0] > narrow):
            now, following = buffers[4:]
            count(queue, grid, (GROUP,), counts, now, *matrix)
            cut(queue, grid, (GROUP,), following, now, counts, *matrix, narrow)
            buffers[4:] = following, now
            cl.enqueue_copy(queue, intervals, following)
            rounds += 1

    def download(buffers: list[cl.Buffer]) -> common.Array:
        cl.enqueue_copy(queue, intervals, buffers[4])
        return intervals

    job = common.Job(queue, upload, launch, download)
    common.run(job, "bisection", count=n, unit="eigenvalues")
    return intervals, rounds


def main() -> None:
    n = common.parser(__doc__, size=512, meaning="rows and columns of the matrix").parse_args().size
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

    _, queue = common.open_queue()
    common.announce(queue, f"a matrix of {n} x {n}")
    intervals, rounds = narrowed(queue, diagonal, beside, bounds, narrow)
    widest = float((intervals[:, 1] - intervals[:, 0]).max())
    common.verdict(
        widest <= narrow,
        "intervals' widths",
        f"{widest:.1e} at most after {rounds} rounds, {narrow:.1e} wanted",
    )

    chosen = common.some(n, 512 if n <= MOST_CHECKED_WHOLE else 32)
    room = 2 * narrow  # the counts in single precision are those of a matrix that differs by some roundings
    starts, stops = intervals[chosen].astype(np.float64).T
    ends = np.concatenate([starts - room, stops + room])
    lower, upper = np.split(counts_below(ends, diagonal, beside[: n - 1]), 2)
    wrong = np.count_nonzero((lower > chosen) | (upper <= chosen))
    common.verdict(
        wrong == 0, f"eigenvalues below and above {chosen.size} of {n} intervals", f"{wrong} counts are wrong"
    )
    if n <= MOST_CHECKED_WHOLE:
        matrix = np.diag(diagonal.astype(np.float64)) + sum(np.diag(beside[: n - 1], k) for k in (-1, 1))
        common.check(f"all {n} eigenvalues", intervals.mean(1), np.linalg.eigvalsh(matrix), 1e-5)


if __name__ == "__main__":
    main()
