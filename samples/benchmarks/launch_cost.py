"""What a small launch costs the host: on the virtual device with two workers, compared with two native contexts driven
by hand.

    python samples/benchmarks/launch_cost.py [--launches N] [--items N] [--limit US] [--results FOLDER]

Back-to-back launches of one kernel, three arguments each, and a finish at the end; time divided by the number
of launches. The plan of every launch but the first comes from the cache. With `--limit` the exit status is 1
where the virtual device needs more. With `--results` the figures are also written there, as launch_cost.json
and launch_cost.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from machine import processor

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


def figures(name: str, found: list[float]) -> dict[str, Any]:
    return {"name": name, "median_us": round(statistics.median(found), 2), "best_us": round(min(found), 2)}


def by_hand(launches: int, items: int) -> list[dict[str, Any]]:
    """The same work as two launches of half the items on two real contexts, and as one on one context."""
    from vdev.start.engines import register_engines  # before PyOpenCL looks for drivers

    register_engines()
    import pyopencl as cl

    device = next(
        device
        for platform in cl.get_platforms()
        for device in platform.get_devices()
        if device.type & cl.device_type.CPU
    )
    found = []
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
        found.append(figures(name, measure(launch, finish, launches)))
    return found


def virtual(launches: int, items: int) -> list[dict[str, Any]]:
    """The cost of a launch on the device that PyOpenCL shows here."""
    import pyopencl as cl

    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context)
    kernel = cl.Program(context, SOURCE).build().axpy
    kernel.set_arg_types([None, None, np.float32])
    zeros = np.zeros(items, np.float32)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    y, x = (cl.Buffer(context, flags, hostbuf=zeros) for _ in range(2))
    found = measure(lambda: kernel(queue, (items,), (LOCAL,), y, x, 2.0), queue.finish, launches)
    return [figures(context.devices[0].name, found)]


def in_a_process(part: str, options: argparse.Namespace, environment: dict[str, str]) -> list[dict[str, Any]]:
    """The figures of one part, measured in a process of its own.

    Natively there is no stand-in, and some engines do not bear three contexts.
    """
    sizes = ["--launches", str(options.launches), "--items", str(options.items)]
    command = [sys.executable, str(Path(__file__)), *sizes, "--part", part]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


def write_results(folder: Path, result: dict[str, Any]) -> None:
    machine = result["machine"]
    lines = [
        "# Host cost of a cached launch",
        "",
        f"`{result['command']}`",
        "",
        f"{machine['processor']}, {machine['cores']} cores (load {machine['load']} before the run), "
        f"{machine['system']}, Python {machine['python']}; "
        f"{result['launches']} launches of {result['items']} work-items, {ROUNDS} rounds, all in one run.",
        "",
        "| | median | best |",
        "|---|---:|---:|",
        *(f"| {f['name']} | {f['median_us']:.1f} us | {f['best_us']:.1f} us |" for f in result["figures"]),
    ]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "launch_cost.md").write_text("\n".join(lines) + "\n")
    (folder / "launch_cost.json").write_text(json.dumps(result, indent=1) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--launches", type=int, default=10_000)
    parser.add_argument("--items", type=int, default=2048, help="fewer may stay on one worker")
    parser.add_argument(
        "--limit", type=float, help="the most microseconds a launch on the virtual device may cost"
    )
    parser.add_argument("--results", type=Path, help="a folder for the figures")
    parser.add_argument("--part", choices=("by-hand", "virtual"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part is not None:
        part = by_hand if options.part == "by-hand" else virtual
        print(json.dumps(part(options.launches, options.items)))
        return 0
    load = round(
        os.getloadavg()[0], 1
    )  # of others, before this begins: processors that are shared tell little
    native = {name: value for name, value in os.environ.items() if name != "VDEV"}
    workers = os.environ.get("VDEV_WORKERS", "cpu:2")
    print(f"{options.launches} launches of {options.items} work-items, {ROUNDS} rounds")
    found = in_a_process("by-hand", options, native)
    found += in_a_process("virtual", options, {**os.environ, "VDEV": "1", "VDEV_WORKERS": workers})
    for item in found:
        print(f"{item['name']:48s} {item['median_us']:7.1f} us   (best {item['best_us']:.1f})")
    if options.results is not None:
        machine = {
            "processor": processor(),
            "cores": os.cpu_count(),
            "system": f"{platform.system()} {platform.machine()}",
            "python": platform.python_version(),
            "load": load,
        }
        result = {
            "command": f"VDEV_WORKERS={workers} python samples/benchmarks/launch_cost.py "
            f"--launches {options.launches} --items {options.items}",
            "machine": machine,
            "launches": options.launches,
            "items": options.items,
            "figures": found,
        }
        write_results(options.results, result)
    if options.limit is not None and found[-1]["median_us"] > options.limit:
        print(f"more than {options.limit} us", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
