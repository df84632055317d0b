"""Buffers of 0.9, 1.5 and 3.5 times one worker's memory, filled in blocks and summed in stripes, on 1, 2, 4 ... workers.

    python samples/benchmarks/memory_pressure.py [--shares 0.9,1.5] [--workers 1,2,4] [--buffers 2] [--json FILE]
    VDEV_MEMORY=64M python samples/benchmarks/memory_pressure.py --kind cpu --workers 1,2,4 --shares 0.9,1.5,3.5

Each buffer is filled by two launches, a half each, whose work-items write one number each. A grid-stride kernel sums it,
twice: each work-item goes through the whole buffer, so that a worker's share lies in stripes all over it, and a
contiguous copy of what it reads would be the buffer. The sums are known in closed form. VDEV_MEMORY makes it run at
any size.
"""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path

import columns
import machine

machine.find_engine()
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import common  # noqa: E402
import numpy as np  # noqa: E402
import pyopencl as cl  # noqa: E402

GROUP, PERIOD = 256, 1021
SOURCE = """
__kernel void fill(__global uint *values, const ulong first, const ulong stop, const uint least)
{
    const ulong i = first + get_global_id(0);
    if (i < stop)
        values[i] = least + (uint)(i % PERIOD);
}

__kernel void sum_up(__global const uint *values, __global ulong *sums, const ulong n)
{
    ulong sum = 0;
    for (ulong i = get_global_id(0); i < n; i += get_global_size(0))
        sum += values[i];
    sums[get_global_id(0)] = sum;
}
"""
TIMEOUT = 560  # seconds of a column: 280 GB go to the host and back


def measure(shares: list[float], number: int, items: int) -> columns.Figures:
    """For each share of a worker's memory: whether all sums are right, the seconds, and what had to leave a worker."""
    context, queue = common.open_queue()
    program = cl.Program(context, SOURCE).build([f"-DPERIOD={PERIOD}"])
    kernels = cl.Kernel(program, "fill"), cl.Kernel(program, "sum_up")
    memory = _memory_of_a_worker(queue.device)
    found = [_run(queue, kernels, int(share * memory), number, items) | {"share": share} for share in shares]
    return {
        "device": queue.device.name.strip(),
        "worker_nbytes": memory,
        "shares": found,
        "host_nbytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def _run(
    queue: cl.CommandQueue, kernels: tuple[cl.Kernel, cl.Kernel], nbytes: int, number: int, items: int
) -> columns.Figures:
    # None may be larger than all there is
    number = max(number, -(-nbytes // int(queue.device.max_mem_alloc_size)))
    n = nbytes // number // 4
    items = max(GROUP, min(items, n // 16) // GROUP * GROUP)
    before = _evictions()
    began = time.perf_counter()
    buffers = [common.room(queue, 4 * n) for _ in range(number)]
    for least, buffer in enumerate(buffers):
        for first, stop in ((0, n // 2), (n // 2, n)):
            size = common.round_up(stop - first, GROUP)
            kernels[0](queue, (size,), (GROUP,), buffer, np.uint64(first), np.uint64(stop), np.uint32(least))
    queue.finish()
    filled = time.perf_counter() - began
    sums, sums_buffer = np.empty(items, np.uint64), common.room(queue, 8 * items)
    seconds, wrong = [], 0
    for _ in range(2):
        began = time.perf_counter()
        for least, buffer in enumerate(buffers):
            kernels[1](queue, (items,), (GROUP,), buffer, sums_buffer, np.uint64(n))
            cl.enqueue_copy(queue, sums, sums_buffer)
            wrong += int(sums.sum()) != _sum(n, least)
        seconds.append(time.perf_counter() - began)
    evictions = _evictions()
    return {
        "nbytes": 4 * n * number,
        "buffers": number,
        "work_items": items,
        "right": wrong == 0,
        "wrong_sums": wrong,
        "filled_s": filled,
        "summed_s": seconds,
        "evictions": evictions[0] - before[0],
        "evicted_nbytes": evictions[1] - before[1],
    }


def _sum(n: int, least: int) -> int:
    whole, rest = divmod(n, PERIOD)
    return whole * (PERIOD * (PERIOD - 1) // 2) + rest * (rest - 1) // 2 + least * n


def _memory_of_a_worker(device: cl.Device) -> int:
    """Bytes of one worker's memory."""
    from vdev.start.current import current_session

    session = current_session()
    return min(info.memory_nbytes for info in session.workers) if session else int(device.global_mem_size)


def _evictions() -> tuple[int, int]:
    """How often something had to leave a worker, and the bytes moved for it."""
    import vdev

    evictions = [row for row in vdev.stats().commands if row.kind == "evict"]
    return sum(row.count for row in evictions), sum(row.moved.nbytes for row in evictions)


def main() -> int:
    parser = columns.parser(__doc__)
    parser.add_argument(
        "--shares", default="0.9,1.5", help="of one worker's memory, by commas (default: %(default)s)"
    )
    parser.add_argument(
        "--buffers", type=common.positive, default=2, help="that share it (default: %(default)s)"
    )
    parser.add_argument(
        "--items", type=common.positive, default=1 << 20, help="work-items of a sum (default: %(default)s)"
    )
    options = parser.parse_args()
    shares = [float(text) for text in options.shares.split(",")]
    found = columns.measured(
        options, lambda: measure(shares, options.buffers, options.items), native=False, timeout=TIMEOUT
    )
    lines, bars = [], []
    for name, figures in found.items():
        for row in figures.get("shares", ()):
            what = f"{row['share']} times a worker's memory on {name}"
            lines.append(
                f"{what}: {row['nbytes'] / 1e9:.3g} GB in {row['buffers']} buffers filled in {row['filled_s']:.2f} s, summed in "
                f"{row['summed_s'][0]:.2f} and {row['summed_s'][1]:.2f} s; {row['evictions']} evictions of "
                f"{row['evicted_nbytes'] / 1e9:.3g} GB: {'right' if row['right'] else 'WRONG'}"
            )
            bars.append(columns.least(f"{what}: right sums", int(row["right"]), 1))
    status = columns.conclude(options, found, lines, bars)
    return status or int(any(bar["found"] != 1 for bar in bars))


if __name__ == "__main__":
    sys.exit(main())
