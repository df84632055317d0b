"""What a repeated launch that is split over all workers costs the host: natively and on 1, 2, 4 ... workers.

    python samples/benchmarks/repeated_launch.py [--exchange] [--launches N] [--items N] [--workers 1,4] [--json FILE]

Back-to-back launches of a kernel with three arguments, and a wait at the end; time divided by the number of
launches, and also what the host's calls alone take, and what the calling thread has of the processor meanwhile. The kernel
is short, so that the time is the host's. It says over how many workers a launch is split. `--exchange`: the kernel reads
its neighbours' items, and two buffers take turns, so that workers exchange edges before each launch. Where such launches
are kept on one worker, VDEV_PLANNING=always and VDEV_MIN_ITEMS=0 keep them split.
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
LIMITS_EXCHANGE = {"2": 50.0, "4": 50.0}  #: of the host's calls alone
EXCHANGE = """
__kernel void smooth(__global float *out, __global const float *in, const float middle)
{
    const size_t i = get_global_id(0), last = get_global_size(0) - 1;
    const float before = i > 0 ? in[i - 1] : 0.0f, after = i < last ? in[i + 1] : 0.0f;
    out[i] = middle * in[i] + 0.25f * (before + after);
}
"""


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


def measure(launches: int, items: int, exchange: bool) -> columns.Figures:
    """Microseconds of a launch, with the wait and without, the median of some rounds."""
    context, queue = common.open_queue()
    program = cl.Program(context, EXCHANGE if exchange else SOURCE).build()
    kernel = cl.Kernel(program, "smooth" if exchange else "axpy")
    kernel.set_arg_types([None, None, np.float32])
    zeros = np.zeros(items, np.float32)
    buffers = [common.write(queue, zeros, kept=True) for _ in range(2)]

    def launch() -> None:
        kernel(queue, (items,), (LOCAL,), *buffers, 0.5)
        if exchange:
            buffers.reverse()

    common.finish(queue)
    workers = split(queue, launch)
    with_wait, calls, busy = [], [], []
    for _ in range(ROUNDS + 1):
        begin, taken = time.perf_counter(), time.thread_time()
        for _ in range(launches):
            launch()
        calls.append((time.perf_counter() - begin) / launches * 1e6)
        busy.append((time.thread_time() - taken) / launches * 1e6)
        queue.finish()
        with_wait.append((time.perf_counter() - begin) / launches * 1e6)
    return {
        "device": queue.device.name.strip(),
        "launches": launches,
        "items": items,
        "split": workers,
        "median_us": statistics.median(with_wait[1:]),
        "calls_us": statistics.median(calls[1:]),
        "busy_us": statistics.median(busy[1:]),
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
    parser.add_argument("--exchange", action="store_true", help="edges, between two buffers in turn")
    options = parser.parse_args()
    found = columns.measured(options, lambda: measure(options.launches, options.items, options.exchange))
    lines = [
        f"{name}: {figures['median_us']:.2f} us a launch, {figures['calls_us']:.2f} of them in the host's calls, "
        f"{figures['busy_us']:.2f} of the calling thread's processor time; split over {figures['split']}"
        for name, figures in found.items()
        if "failed" not in figures
    ]
    what, figure, limits = "repeated launch", "median_us", LIMITS
    if options.exchange:
        what, figure, limits = "launch with exchange", "calls_us", LIMITS_EXCHANGE
    bars = [
        columns.most(f"host cost of a {what} in us, {name}", columns.value(found, name, figure), limits[name])
        for name in found
        if name in limits
    ]
    return columns.conclude(options, found, lines, bars)


if __name__ == "__main__":
    sys.exit(main())
