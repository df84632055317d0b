"""PageRank by power iteration: every page gathers what the pages that link to it pass on; a reduction adds up what pages
without links hold.

Source: L. Page, S. Brin, R. Motwani and T. Winograd, "The PageRank Citation Ranking" (Stanford, 1999).
"""

import common
import numpy as np
import pyopencl as cl

GROUP, GROUPS = 256, 256
KEPT = np.float32(0.85)
SOURCE = """
__kernel void share(__global const float *ranks, __global const int *links, __global float *shares, const int n)
{
    const int page = get_global_id(0);
    if (page < n)
        shares[page] = links[page] ? ranks[page] / links[page] : 0.0f;
}

__kernel void dangle(__global const float *ranks, __global const int *links, __global float *partial, const int n)
{
    __local float sums[GROUP];
    const int lid = get_local_id(0);
    float sum = 0.0f;
    for (int page = get_global_id(0); page < n; page += get_global_size(0))
        sum += links[page] ? 0.0f : ranks[page];
    sums[lid] = sum;
    for (int reach = GROUP / 2; reach > 0; reach /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lid < reach)
            sums[lid] += sums[lid + reach];
    }
    if (lid == 0)
        partial[get_group_id(0)] = sums[0];
}

__kernel void gather(__global const int *starts, __global const int *sources, __global const float *shares,
                     __global const float *partial, const int parts, __global float *ranks, const float kept,
                     const int n)
{
    const int page = get_global_id(0);
    if (page >= n)
        return;
    float sum = 0.0f, lost = 0.0f;
    for (int k = starts[page]; k < starts[page + 1]; ++k)
        sum += shares[sources[k]];
    for (int k = 0; k < parts; ++k)
        lost += partial[k];
    ranks[page] = (1.0f - kept) / n + kept * (sum + lost / n);
}
"""


def web(n: int, links: int) -> tuple[common.Array, common.Array, common.Array]:
    """Random links between pages, many of them from pages with low numbers: starts and sources of each target's links,
    whose number differs, and how many links each source has.
    """
    degrees = (common.random(41, n) ** 2 * 3 * links).astype(np.int32)
    starts = np.zeros(n + 1, np.int32)
    np.cumsum(degrees, out=starts[1:])
    sources = (common.random(42, int(starts[-1])) ** 2 * n).astype(np.int32)
    np.minimum(sources, n - 1, out=sources)
    return starts, sources, np.bincount(sources, minlength=n).astype(np.int32)


def ranked(starts: common.Array, sources: common.Array, links: common.Array, steps: int) -> common.Array:
    """The same in double precision."""
    n = len(links)
    ranks = np.full(n, 1 / n)
    targets = np.repeat(np.arange(n), np.diff(starts))
    for _ in range(steps):
        shares = np.divide(ranks, links, out=np.zeros(n), where=links > 0)
        sums = np.bincount(targets, weights=shares[sources], minlength=n)
        ranks = (1 - float(KEPT)) / n + float(KEPT) * (sums + ranks[links == 0].sum() / n)
    return ranks


def main() -> None:
    parser = common.parser(__doc__, size=1 << 15, meaning="pages")
    parser.add_argument("--links", type=common.positive, default=8, help="of a page (default: %(default)s)")
    parser.add_argument("--steps", type=common.positive, default=20, help="iterations (default: %(default)s)")
    args = parser.parse_args()
    n = args.size
    starts, sources, links = web(n, args.links)
    first = np.full(n, 1 / n, np.float32)
    result = np.empty(n, np.float32)
    context, queue = common.open_queue()
    common.announce(queue, f"{n} pages with {sources.size} links")
    program = cl.Program(context, SOURCE).build([f"-DGROUP={GROUP}"])
    share, dangle, gather = (cl.Kernel(program, name) for name in ("share", "dangle", "gather"))
    parts = min(GROUPS, -(-n // GROUP))
    grid = (common.round_up(n, GROUP),)

    def upload() -> list[cl.Buffer]:
        web = [common.write(queue, array) for array in (starts, sources, links)]
        ranks = common.write(queue, first, kept=True)
        return [*web, ranks, common.room(queue, first.nbytes), common.room(queue, 4 * parts)]

    def launch(buffers: list[cl.Buffer]) -> None:
        rows, from_pages, out, ranks, shares, partial = buffers
        count = np.int32(n)
        for _ in range(args.steps):
            share(queue, grid, (GROUP,), ranks, out, shares, count)
            dangle(queue, (parts * GROUP,), (GROUP,), ranks, out, partial, count)
            gather(
                queue, grid, (GROUP,), rows, from_pages, shares, partial, np.int32(parts), ranks, KEPT, count
            )

    def download(buffers: list[cl.Buffer]) -> common.Array:
        cl.enqueue_copy(queue, result, buffers[3])
        return result

    job = common.Job(queue, upload, launch, download)
    common.run(job, "steps", count=1e-6 * sources.size * args.steps, unit="million links")
    common.check(f"ranks of {n} pages", result, ranked(starts, sources, links, args.steps), 1e-4)
    common.check("their sum", result.sum(dtype=np.float64), 1.0, 1e-4)


if __name__ == "__main__":
    main()
