"""EP: pairs of normal deviates by the polar method from one long stream of random numbers, counted in
square rings.

Every work-item jumps to its own place in the stream. A work-group adds its sums in local memory and counts
with local atomics; the host adds up the work-groups.

Source: D. H. Bailey et al., "The NAS Parallel Benchmarks" (1991), kernel EP, whose published sums are
checked where the size is one of its classes; EP in Table 2 of Kim et al. (PPoPP 2011).
"""

import sys

import common
import numpy as np
import pyopencl as cl

GROUP, RINGS = 128, 10
SEED, MULTIPLIER, MODULUS_BITS = 271828183, 5**13, 46
SOURCE = """
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#define MASK ((1UL << 46) - 1)

/* multiplier^exponent in the generator's arithmetic, modulo 2^46. */
ulong power(ulong base, ulong exponent)
{
    ulong result = 1;
    for (; exponent > 0; exponent >>= 1) {
        if (exponent & 1)
            result = result * base & MASK;
        base = base * base & MASK;
    }
    return result;
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void deviates(__global double2 *sums, __global uint *counts, const ulong pairs_an_item)
{
    __local double2 scratch[GROUP];
    __local uint rings[RINGS];
    const uint lid = get_local_id(0);
    if (lid < RINGS)
        rings[lid] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);

    const ulong first = 2 * pairs_an_item * get_global_id(0);
    ulong state = SEED * power(MULTIPLIER, first) & MASK;
    const double unit = 1.0 / (double)(1UL << 46);
    double2 sum = (double2)(0.0);
    for (ulong i = 0; i < pairs_an_item; ++i) {
        state = state * MULTIPLIER & MASK;
        const double x = 2.0 * unit * (double)state - 1.0;
        state = state * MULTIPLIER & MASK;
        const double y = 2.0 * unit * (double)state - 1.0;
        const double square = x * x + y * y;
        if (square <= 1.0) {
            const double factor = sqrt(-2.0 * log(square) / square);
            const double2 pair = (double2)(x * factor, y * factor);
            sum += pair;
            atomic_inc(&rings[(int)fmax(fabs(pair.x), fabs(pair.y))]);
        }
    }

    scratch[lid] = sum;
    for (uint reach = GROUP / 2; reach > 0; reach /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lid < reach)
            scratch[lid] += scratch[lid + reach];
    }
    if (lid == 0)
        sums[get_group_id(0)] = scratch[0];
    if (lid < RINGS)
        counts[get_group_id(0) * RINGS + lid] = rings[lid];
}
"""
# The benchmark's own results: log2 of the pairs, and the two sums.
PUBLISHED = {
    24: (-3.247834652034740e3, -6.958407078382297e3),  # class S
    25: (-2.863319731645753e3, -6.320053679109499e3),  # class W
    28: (-4.295875165629892e3, -1.580732573678431e4),  # class A
    30: (4.033815542441498e4, -2.660669192809235e4),  # class B
}
MOST_LOG_ITEMS, LEAST_LOG_PAIRS = (
    28,
    6,
)  # many items, so that the last ones to end are few; each with some pairs


def stream(start: int, n: int) -> common.Array:
    """The numbers `start` + 1 to `start` + n of the generator, in (0, 1)."""
    modulus = 1 << MODULUS_BITS
    states = np.empty(n, np.uint64)
    states[0] = SEED * pow(MULTIPLIER, start + 1, modulus) % modulus
    known = 1
    while known < n:  # doubling: what is known, a jump further on
        more = min(known, n - known)
        jump = np.uint64(pow(MULTIPLIER, known, modulus))
        states[known : known + more] = states[:more] * jump & np.uint64(modulus - 1)
        known += more
    return states / float(modulus)


def deviates(start: int, pairs: int) -> tuple[common.Array, common.Array]:
    """The sums and the ring counts of so many pairs of the stream from pair number `start` on."""
    x, y = 2 * stream(2 * start, 2 * pairs).reshape(-1, 2).T - 1
    square = x * x + y * y
    inside = square <= 1
    factor = np.sqrt(-2 * np.log(square[inside]) / square[inside])
    x, y = x[inside] * factor, y[inside] * factor
    rings = np.bincount(np.maximum(np.abs(x), np.abs(y)).astype(int), minlength=RINGS)
    return np.array([x.sum(), y.sum()]), rings


def main() -> None:
    parser = common.parser(
        __doc__, size=20, meaning="log2 of the number of pairs; 24, 25, 28, 30 are classes S, W, A, B"
    )
    log_pairs = parser.parse_args().size
    context, queue = common.open_queue()
    if "cl_khr_fp64" not in queue.device.extensions.split():
        sys.exit("this device has no double precision, which EP needs")
    log_items = max(GROUP.bit_length() - 1, min(MOST_LOG_ITEMS, log_pairs - LEAST_LOG_PAIRS))
    items, pairs_an_item = 1 << log_items, max(1, 1 << log_pairs >> log_items)
    groups, pairs = items // GROUP, items * pairs_an_item
    common.announce(queue, f"{pairs} pairs, {groups} work-groups")

    sums, counts = np.empty((groups, 2)), np.empty((groups, RINGS), np.uint32)
    options = [f"-DGROUP={GROUP}", f"-DRINGS={RINGS}", f"-DSEED={SEED}UL", f"-DMULTIPLIER={MULTIPLIER}UL"]
    kernel = cl.Kernel(cl.Program(context, SOURCE).build(options), "deviates")

    def launch(buffers: list[cl.Buffer]) -> None:
        kernel(queue, (items,), (GROUP,), *buffers, np.uint64(pairs_an_item))

    def download(buffers: list[cl.Buffer]) -> tuple[common.Array, common.Array]:
        for array, buffer in zip((sums, counts), buffers, strict=True):
            cl.enqueue_copy(queue, array, buffer, is_blocking=False)
        common.finish(queue)
        return sums, counts

    job = common.Job(
        queue, lambda: [common.room(queue, array.nbytes) for array in (sums, counts)], launch, download
    )
    common.run(job, "deviates", count=1e-6 * pairs, unit="million pairs")
    print(
        f"  sums {sums[:, 0].sum():.6f} {sums[:, 1].sum():.6f}, {counts.sum()} deviates in the rings",
        *counts.sum(0, np.uint64),
    )
    pairs_a_group = GROUP * pairs_an_item
    most = max(1, (1 << 22) // pairs_a_group)
    chosen = np.arange(groups) if groups <= most else common.some(groups, most)
    expected = [deviates(int(group) * pairs_a_group, pairs_a_group) for group in chosen]
    what = f"of {chosen.size} of {groups} work-groups"
    common.check(f"sums {what}", sums[chosen], [pair for pair, _ in expected], 1e-11)
    common.check(f"ring counts {what}", counts[chosen], [rings for _, rings in expected])
    if log_pairs in PUBLISHED:
        common.check("the sums that NAS published", sums.sum(0), PUBLISHED[log_pairs], 1e-8)


if __name__ == "__main__":
    main()
