"""What a small launch costs the host: on the virtual device with two workers, beside two real contexts driven
by hand.

    python samples/benchmarks/launch_cost.py [--launches N] [--items N] [--limit MICROSECONDS]

Back-to-back launches of one kernel, three arguments each, and a finish at the end; time divided by the number
of launches. The plan of every launch but the first comes from the cache. With `--limit` the exit status is 1
where the virtual device needs more.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

SOURCE = """
__kernel void axpy(__global float *y, __global const float *x, float a)
{
    size_t i = get_global_id(0);
    y[i] += a * x[i];
}
"""
ROUNDS = 7
LOCAL = 128


def measure(launch: Callable[[], object], finish: Callable[[], object], launches: int) -> list[float]:
    """Microseconds per launch, for each of ROUNDS rounds after one to warm up."""
    found = []
    for _ in range(ROUNDS + 1):
        begin = time.perf_counter()
        for _ in range(launches):
            launch()
        finish()
        found.append((time.perf_counter() - begin) / launches * 1e6)
    return found[1:]


def report(name: str, found: list[float]) -> None:
    print(f"{name:48s} {statistics.median(found):7.1f} us   (best {min(found):.1f})", flush=True)


def by_hand(launches: int, items: int) -> None:
    """The same work as two launches of half the items on two real contexts, and as one on one context."""
    from vdev.engines import register_engines  # before PyOpenCL looks for drivers

    register_engines()
    import pyopencl as cl

    device = next(
        device
        for platform in cl.get_platforms()
        for device in platform.get_devices()
        if device.type & cl.device_type.CPU
    )
    for contexts in (1, 2):
        parts = []
        for _ in range(contexts):
            context = cl.Context([device])
            queue = cl.CommandQueue(context)
            kernel = cl.Program(context, SOURCE).build().axpy
            kernel.set_arg_types([None, None, np.float32])
            y, x = (cl.Buffer(context, cl.mem_flags.READ_WRITE, 4 * items) for _ in range(2))
            cl.enqueue_fill_buffer(queue, y, b"\0", 0, 4 * items)
            cl.enqueue_fill_buffer(queue, x, b"\0", 0, 4 * items)
            parts.append((kernel, queue, (items // contexts,), (LOCAL,), y, x))

        def launch(parts: list[tuple] = parts) -> None:
            for kernel, queue, size, local, y, x in parts:
                kernel(queue, size, local, y, x, 2.0)

        def finish(parts: list[tuple] = parts) -> None:
            for part in parts:
                part[1].finish()

        name = "one real context" if contexts == 1 else "two real contexts driven by hand"
        report(name, measure(launch, finish, launches))


def virtual(launches: int, items: int) -> float:
    """The median cost of a launch on the device that PyOpenCL shows here."""
    import pyopencl as cl

    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context)
    kernel = cl.Program(context, SOURCE).build().axpy
    kernel.set_arg_types([None, None, np.float32])
    zeros = np.zeros(items, np.float32)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    y, x = (cl.Buffer(context, flags, hostbuf=zeros) for _ in range(2))
    found = measure(lambda: kernel(queue, (items,), (LOCAL,), y, x, 2.0), queue.finish, launches)
    report(context.devices[0].name, found)
    return statistics.median(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--launches", type=int, default=10_000)
    parser.add_argument("--items", type=int, default=2048, help="fewer may stay on one worker")
    parser.add_argument(
        "--limit", type=float, help="the most microseconds a launch on the virtual device may cost"
    )
    parser.add_argument("--part", choices=("by-hand", "virtual"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part == "by-hand":
        by_hand(options.launches, options.items)
        return 0
    if options.part == "virtual":
        cost = virtual(options.launches, options.items)
        return 1 if options.limit is not None and cost > options.limit else 0
    # A process for each: natively there is no stand-in, and some engines do not bear three contexts.
    print(f"{options.launches} launches of {options.items} work-items, {ROUNDS} rounds")
    command = [sys.executable, str(Path(__file__)), *sys.argv[1:], "--part"]
    native = {name: value for name, value in os.environ.items() if name != "VDEV"}
    subprocess.run([*command, "by-hand"], env=native, check=True)
    workers = os.environ.get("VDEV_WORKERS", "cpu:2")
    environment = {**os.environ, "VDEV": "1", "VDEV_WORKERS": workers}
    return subprocess.run([*command, "virtual"], env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
