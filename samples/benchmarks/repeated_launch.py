"""What a repeated launch that is split over all workers costs the host: natively and on 1, 2, 4 ... workers.

    python samples/benchmarks/repeated_launch.py [--launches N] [--items N] [--workers 1,4] [--json FILE]

Back-to-back launches of a kernel with three arguments, and a wait at the end; time divided by the number of
launches, and also what the host's calls alone take. The kernel is short, so that the time is the host's. It
says over how many workers a launch is split.
"""

from __future__ import annotations

import os
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
from launch_cost import LOCAL, SOURCE  # noqa: E402

ROUNDS = 5
LIMITS = {"1": 20.0, "4": 70.0}


def split(queue: cl.CommandQueue, launch: object) -> int:
    """Over how many workers the launch is split; 1 natively."""
    if os.environ.get("VDEV") != "1":
        return 1
    from vdev.start.current import get_session

    seen: list[int] = []
    observers = get_session().observers

    def observe(_: object, plan: object) -> None:
        seen.append(len(getattr(plan, "partition", ())))

    observers.append(observe)
    launch()  # type: ignore[operator]
    queue.finish()
    observers.remove(observe)
    return max(seen, default=0)


def measure(launches: int, items: int) -> columns.Figures:
    """Microseconds of a launch, with the wait and without, the median of some rounds."""
    context, queue = common.open_queue()
    kernel = cl.Program(context, SOURCE).build().axpy
    kernel.set_arg_types([None, None, np.float32])
    zeros = np.zeros(items, np.float32)
    y, x = (common.write(queue, zeros, kept=True) for _ in range(2))
    common.finish(queue)
    workers = split(queue, lambda: kernel(queue, (items,), (LOCAL,), y, x, 2.0))
    with_wait, calls = [], []
    for _ in range(ROUNDS + 1):
        begin = time.perf_counter()
        for _ in range(launches):
            kernel(queue, (items,), (LOCAL,), y, x, 2.0)
        calls.append((time.perf_counter() - begin) / launches * 1e6)
        queue.finish()
        with_wait.append((time.perf_counter() - begin) / launches * 1e6)
    return {
        "device": queue.device.name.strip(),
        "launches": launches,
        "items": items,
        "split": workers,
        "median_us": statistics.median(with_wait[1:]),
        "calls_us": statistics.median(calls[1:]),
    }


def main() -> int:
    parser = columns.parser(__doc__)
    parser.add_argument("--launches", type=common.positive, default=10_000, help="(default: %(default)s)")
    parser.add_argument(
        "--items",
        type=common.positive,
        default=1 << 20,
        help="of a launch, enough to be split (default: %(default)s)",
    )
    options = parser.parse_args()
    found = columns.measured(options, lambda: measure(options.launches, options.items))
    lines = [
        f"{name}: {figures['median_us']:.2f} us a launch, {figures['calls_us']:.2f} of them in the host's calls; "
        f"split over {figures['split']}"
        for name, figures in found.items()
        if "failed" not in figures
    ]
    bars = [
        columns.most(
            f"host cost of a repeated launch in us, {name}",
            columns.value(found, name, "median_us"),
            LIMITS[name],
        )
        for name in found
        if name in LIMITS
    ]
    return columns.conclude(options, found, lines, bars)


if __name__ == "__main__":
    sys.exit(main())
