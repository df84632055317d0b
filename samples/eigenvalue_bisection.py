"""All eigenvalues of symmetric tridiagonal matrices by bisection: two kernels take turns until every interval
is narrow.

The first counts the eigenvalues below each interval's ends (Sturm sequences). The second gives each
eigenvalue the interval that holds it, found among the counts by binary search, and cuts it: in halves
around one eigenvalue, else in as many parts as there are eigenvalues. It also says whether any interval is
still wide. A matrix by itself is one row of work-items; several are as many rows.

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
    const uint i = get_global_id(0), matrix = get_global_id(1) * n;
    if (i >= n)
        return;
    const float2 interval = intervals[matrix + i];
    counts[matrix + i] = (uint2)(below(interval.x, n, diagonal + matrix, beside + matrix),
                                 below(interval.y, n, diagonal + matrix, beside + matrix));
}

__kernel void cut(__global float2 *next, __global uint *wide, __global const float2 *intervals,
                  __global const uint2 *counts, __global const float *diagonal, __global const float *beside,
                  const uint n, const float narrow)
{
    const uint eigenvalue = get_global_id(0), matrix = get_global_id(1) * n;
    if (eigenvalue >= n)
        return;
    diagonal += matrix;
    beside += matrix;
    intervals += matrix;
    counts += matrix;
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
    next[matrix + eigenvalue] = interval;
    if (interval.y - interval.x > narrow)
        atomic_or(wide, 1u);
}
"""
MOST_ROUNDS = 100
MOST_CHECKED_WHOLE, MOST_MATRICES_CHECKED = 1024, 4


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
    diagonals: common.Array,
    besides: common.Array,
    bounds: tuple[float, float],
    narrow: np.float32,
) -> tuple[common.Array, int]:
    """An interval (lower, upper) around each eigenvalue of each matrix, ascending, at most `narrow` wide; and the
    rounds. A matrix is a row of `diagonals` and one of `besides`, whose last entry is not used.
    """
    matrices, n = diagonals.shape
    # The first one holds all eigenvalues, the others none.
    first = np.full((matrices, n, 2), bounds[1], np.float32)
    first[:, 0] = bounds
    intervals = np.empty_like(first)
    wide = np.empty(1, np.uint32)
    program = cl.Program(queue.context, SOURCE).build()
    count, cut = cl.Kernel(program, "count"), cl.Kernel(program, "cut")
    grid, group = (common.round_up(n, GROUP), matrices), (GROUP, 1)
    rounds = 0

    def upload() -> list[cl.Buffer]:
        inputs = [common.write(queue, array) for array in (diagonals, besides, first)]
        return [
            *inputs,
            common.room(queue, wide.nbytes),
            *(common.room(queue, first.nbytes) for _ in range(3)),
        ]

    def launch(buffers: list[cl.Buffer]) -> None:
        nonlocal rounds
        *matrix, start, still_wide, counts = *buffers[:2], np.uint32(n), *buffers[2:5]
        cl.enqueue_copy(queue, buffers[5], start)
        wide[0] = bounds[1] - bounds[0] > narrow
        rounds = 0
        while rounds < MOST_ROUNDS and wide[0]:
            now, following = buffers[5:]
            cl.enqueue_fill_buffer(queue, still_wide, np.uint32(0), 0, wide.nbytes)
            count(queue, grid, group, counts, now, *matrix)
            cut(queue, grid, group, following, still_wide, now, counts, *matrix, narrow)
            buffers[5:] = following, now
            cl.enqueue_copy(queue, wide, still_wide)
            rounds += 1

    def download(buffers: list[cl.Buffer]) -> common.Array:
        cl.enqueue_copy(queue, intervals, buffers[5])
        return intervals

    job = common.Job(queue, upload, launch, download)
    common.run(job, "bisection", count=matrices * n, unit="eigenvalues")
    return intervals, rounds


def main() -> None:
    parser = common.parser(__doc__, size=512, meaning="rows and columns of a matrix")
    parser.add_argument(
        "--matrices", type=common.positive, default=1, help="how many matrices (default: %(default)s)"
    )
    args = parser.parse_args()
    n, matrices = args.size, args.matrices
    rng = np.random.default_rng(16)
    diagonals = 10 * rng.random((matrices, n), np.float32)
    besides = 1 + rng.random((matrices, n), np.float32)
    around = np.zeros((matrices, n))  # Gershgorin's discs bound the eigenvalues
    around[:, 1:] += besides[:, : n - 1]
    around[:, :-1] += besides[:, : n - 1]
    bounds = float((diagonals - around).min() - 0.01), float((diagonals + around).max() + 0.01)
    narrow = np.float32(4e-6 * max(-bounds[0], bounds[1]))

    _, queue = common.open_queue()
    common.announce(
        queue, f"{matrices} x a matrix of {n} x {n}" if matrices > 1 else f"a matrix of {n} x {n}"
    )
    intervals, rounds = narrowed(queue, diagonals, besides, bounds, narrow)
    widest = float((intervals[:, :, 1] - intervals[:, :, 0]).max())
    common.verdict(
        widest <= narrow,
        "intervals' widths",
        f"{widest:.1e} at most after {rounds} rounds, {narrow:.1e} wanted",
    )

    whole = n <= MOST_CHECKED_WHOLE
    room = 2 * narrow  # the counts in single precision are those of a matrix that differs by some roundings
    checked = common.some(matrices, MOST_MATRICES_CHECKED)
    chosen = common.some(n, 512 if whole else 32)
    wrong = 0
    for number in checked:
        starts, stops = intervals[number, chosen].astype(np.float64).T
        ends = np.concatenate([starts - room, stops + room])
        lower, upper = np.split(counts_below(ends, diagonals[number], besides[number, : n - 1]), 2)
        wrong += np.count_nonzero((lower > chosen) | (upper <= chosen))
    what = f"{chosen.size} of {n} intervals" + (
        f" in {checked.size} of {matrices} matrices" if matrices > 1 else ""
    )
    common.verdict(wrong == 0, f"eigenvalues below and above {what}", f"{wrong} counts are wrong")
    if whole:
        for number in checked:
            off = (np.diag(besides[number, : n - 1], side) for side in (-1, 1))
            values = np.linalg.eigvalsh(np.diag(diagonals[number]).astype(np.float64) + sum(off))
            common.check(f"all {n} eigenvalues of matrix {number}", intervals[number].mean(1), values, 1e-5)


if __name__ == "__main__":
    main()
