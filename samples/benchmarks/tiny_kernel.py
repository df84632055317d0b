"""A kernel of one work-group, launched 10,000 times in a row: natively and on 1, 2, 4 ... workers.

    python samples/benchmarks/tiny_kernel.py [--launches N] [--workers 1,2,4] [--json FILE]

Each launch adds to what the one before left, so that all of them are ordered. The time is that of all launches and a wait at the
end, divided by their number; the best round of three processes for each column.
"""

from __future__ import annotations

import statistics
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

SOURCE = "__kernel void count(__global uint *counts, uint step) { counts[get_global_id(0)] += step; }"
ITEMS, ROUNDS, TURNS = 64, 5, 3


def measure(launches: int) -> columns.Figures:
    """Microseconds of a launch, the median and the best of some rounds."""
    context, queue = common.open_queue()
    counts, step = np.zeros(ITEMS, np.uint32), np.uint32(3)
    buffer = common.write(queue, counts, kept=True)
    kernel = cl.Kernel(cl.Program(context, SOURCE).build(), "count")
    kernel.set_arg_types([None, np.uint32])
    found = []
    for _ in range(ROUNDS + 1):
        common.finish(queue)
        begin = time.perf_counter()
        for _ in range(launches):
            kernel(queue, (ITEMS,), (ITEMS,), buffer, step)
        queue.finish()
        found.append((time.perf_counter() - begin) / launches * 1e6)
    cl.enqueue_copy(queue, counts, buffer)
    common.check("launches counted", counts, np.full(ITEMS, 3 * launches * (ROUNDS + 1), np.uint32))
    return {
        "device": queue.device.name.strip(),
        "launches": launches,
        "median_us": statistics.median(found[1:]),
        "best_us": min(found[1:]),
    }


def main() -> int:
    parser = columns.parser(__doc__)
    parser.add_argument("--launches", type=common.positive, default=10_000, help="(default: %(default)s)")
    options = parser.parse_args()
    found = columns.measured(options, lambda: measure(options.launches), turns=TURNS, least="best_us")
    lines = [
        f"{name}: {figures['median_us']:.2f} us a launch (best {figures['best_us']:.2f})"
        for name, figures in found.items()
        if "failed" not in figures
    ]
    native = columns.value(found, machine.NATIVE, "best_us")
    bars = [
        columns.most(
            f"tiny kernel, {name} over native",
            columns.quotient(columns.value(found, name, "best_us"), native),
            1.5,
        )
        for name in found
        if name != machine.NATIVE
    ]
    return columns.conclude(options, found, lines, bars)


if __name__ == "__main__":
    sys.exit(main())
