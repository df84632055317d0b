"""What a tiny launch costs the host on one worker beside a native queue, whatever its scalars do.

    python samples/benchmarks/one_worker.py [--launches N] [--kind cpu|cuda] [--json FILE]

Five programs, each of many launches of one work-group and a wait at the end: the same launch again and again; a scalar
that changes; an origin and an index space that change; two kernels in turn; a launch and a blocking read of what it
has written. The time is divided by the number of launches; the best round of three processes for each column. The bar
is what a launch may cost more than natively.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import columns
import machine

machine.find_engine()
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import common  # noqa: E402
import numpy as np  # noqa: E402
import pyopencl as cl  # noqa: E402

SOURCE = """
__kernel void add(__global uint *counts, uint step) { counts[get_global_id(0)] += step; }
__kernel void twice(__global uint *counts, uint step) { counts[get_global_id(0) + 64] += 2 * step; }
"""
ITEMS, ROUNDS, TURNS, MOST_US = 64, 5, 3, 5.0


def programs(
    queue: cl.CommandQueue, add: cl.Kernel, twice: cl.Kernel, counts: cl.Buffer
) -> dict[str, Callable[[int], None]]:
    """By name, the launch of a number."""
    step, seen = np.uint32(3), np.zeros(ITEMS, np.uint32)

    def same(_: int) -> None:
        add(queue, (ITEMS,), (ITEMS,), counts, step)

    def scalar(number: int) -> None:
        add(queue, (ITEMS,), (ITEMS,), counts, np.uint32(number))

    def space(number: int) -> None:
        items = 1 + number % ITEMS
        add(queue, (items,), (items,), counts, np.uint32(number))

    def in_turn(number: int) -> None:
        (twice if number & 1 else add)(queue, (ITEMS,), (ITEMS,), counts, step)

    def read(number: int) -> None:
        add(queue, (ITEMS,), (ITEMS,), counts, np.uint32(number))
        cl.enqueue_copy(queue, seen, counts)

    return {"same": same, "scalar": scalar, "space": space, "in turn": in_turn, "read": read}


def measure(launches: int) -> columns.Figures:
    """Microseconds of a launch in each program, the best of some rounds."""
    context, queue = common.open_queue()
    counts = common.write(queue, np.zeros(2 * ITEMS, np.uint32), kept=True)
    built = cl.Program(context, SOURCE).build()
    add, twice = cl.Kernel(built, "add"), cl.Kernel(built, "twice")
    for kernel in (add, twice):
        kernel.set_arg_types([None, np.uint32])
    found: columns.Figures = {"device": queue.device.name.strip(), "launches": launches, "sum": 0.0}
    for name, launch in programs(queue, add, twice, counts).items():
        rounds = []
        for _ in range(ROUNDS + 1):
            common.finish(queue)
            begin = time.perf_counter()
            for number in range(launches):
                launch(number)
            queue.finish()
            rounds.append((time.perf_counter() - begin) / launches * 1e6)
        found[name] = min(rounds[1:])
        found["sum"] += found[name]
    return found


def main() -> int:
    parser = columns.parser(__doc__)
    parser.add_argument("--launches", type=common.positive, default=3000, help="(default: %(default)s)")
    parser.set_defaults(workers="1")
    options = parser.parse_args()
    found = columns.measured(options, lambda: measure(options.launches), turns=TURNS, least="sum")
    names = ("same", "scalar", "space", "in turn", "read")
    lines, bars = [], []
    for column, figures in found.items():
        if "failed" not in figures:
            lines.append(f"{column:8}" + "".join(f"{name} {figures[name]:.1f} us   " for name in names))
        for name in names if column != machine.NATIVE else ():
            vdev, native = columns.value(found, column, name), columns.value(found, machine.NATIVE, name)
            more = None if vdev is None or native is None else vdev - native
            bars.append(
                columns.most(f"{name}: us more than natively on {column} ({vdev or 0:.1f})", more, MOST_US)
            )
    return columns.conclude(options, found, lines, bars)


if __name__ == "__main__":
    sys.exit(main())
