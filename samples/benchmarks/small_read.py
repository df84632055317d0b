"""Blocking transfers of little after a kernel: natively and on 1, 2 ... workers.

    python samples/benchmarks/small_read.py [--workers 1,2] [--calls N] [--kind cpu|cuda] [--json FILE]

Each step launches a kernel over a buffer of 1 MiB, then waits for one thing: a read of 4 bytes, 256 bytes or 16 KiB, a
write of as much, or a map of as much for reading. What a step takes more than natively is what vdev adds to the launch and to
the wait; the best round of three processes for each column. The bar is 1.3 times native.
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

SOURCE = "kernel void add(global uint *a, uint step) { a[get_global_id(0)] += step; }"
NBYTES, ITEMS = (4, 256, 16 << 10), 1 << 18
ROUNDS, TURNS, MOST = 5, 3, 1.3


def steps(queue: cl.CommandQueue, add: cl.Kernel, data: cl.Buffer) -> dict[str, Callable[[], object]]:
    """By name, a step."""
    step = np.uint32(1)

    def launch() -> None:
        add(queue, (ITEMS,), (256,), data, step)

    def read(host: np.ndarray) -> Callable[[], object]:
        return lambda: (launch(), cl.enqueue_copy(queue, host, data))

    def write(host: np.ndarray) -> Callable[[], object]:
        return lambda: (launch(), cl.enqueue_copy(queue, data, host))

    def mapped(host: np.ndarray) -> Callable[[], object]:
        def step() -> None:
            launch()
            array, _ = cl.enqueue_map_buffer(queue, data, cl.map_flags.READ, 0, host.shape, host.dtype)
            array.base.release(queue)

        return step

    found: dict[str, Callable[[], object]] = {"launch and wait": lambda: (launch(), queue.finish())}
    for nbytes in NBYTES:
        host = np.zeros(nbytes // 4, np.uint32)
        found |= {f"read {nbytes}": read(host), f"write {nbytes}": write(host), f"map {nbytes}": mapped(host)}
    return found


def measure(calls: int) -> columns.Figures:
    """Microseconds of a step of each kind, the best of some rounds."""
    context, queue = common.open_queue()
    data = common.write(queue, np.zeros(ITEMS, np.uint32), kept=True)
    add = cl.Kernel(cl.Program(context, SOURCE).build(), "add")
    add.set_arg_types([None, np.uint32])
    found: columns.Figures = {"device": queue.device.name.strip(), "calls": calls, "sum": 0.0}
    for name, step in steps(queue, add, data).items():
        rounds = []
        for _ in range(ROUNDS + 1):
            common.finish(queue)
            began = time.perf_counter()
            for _ in range(calls):
                step()
            queue.finish()
            rounds.append((time.perf_counter() - began) / calls * 1e6)
        found[name] = min(rounds[1:])
        found["sum"] += found[name]
    return found


def main() -> int:
    parser = columns.parser(__doc__)
    parser.add_argument(
        "--calls", type=common.positive, default=400, help="of each step (default: %(default)s)"
    )
    parser.set_defaults(workers="1,2")
    options = parser.parse_args()
    found = columns.measured(options, lambda: measure(options.calls), turns=TURNS, least="sum")
    lines, bars = [], []
    for name in next(iter(found.values())):
        native = (
            columns.value(found, machine.NATIVE, name) if name not in ("device", "calls", "sum") else None
        )
        if native is None:
            continue
        line = f"{name:18}{native:9.1f} us"
        for column in found:
            if column != machine.NATIVE:
                ratio = columns.quotient(columns.value(found, column, name), native)
                line += f"{'' if ratio is None else f'{ratio:.2f}':>8}"
                bars.append(columns.most(f"{name}, {column} workers over native", ratio, MOST))
        lines.append(line)
    return columns.conclude(options, found, lines, bars)


if __name__ == "__main__":
    sys.exit(main())
