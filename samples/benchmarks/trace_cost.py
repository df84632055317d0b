"""What VDEV_TRACE costs a program: the same launches with and without it, in processes that take turns.

    python samples/benchmarks/trace_cost.py [--launches N] [--items N] [--rounds N] [--limit PERCENT] [--results FOLDER]

A program of N small launches on two workers, three arguments each, every plan but the first from the cache:
nearly all of its time is the host's, so nothing hides what recording costs. Measured are the loop of launches
with the finish after it, and the whole process including the writing of the trace, in elapsed time and in
processor time, which other load on the machine disturbs less. Figures are means of the
faster half of the rounds. With `--limit` the exit status is 1 if the whole process takes that many percent
longer.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SOURCE = """
__kernel void axpy(__global float *y, __global const float *x, float a)
{
    size_t i = get_global_id(0);
    y[i] += a * x[i];
}
"""
NAMES = {
    "loop": "launches and finish",
    "process": "whole process",
    "processors": "whole process, processors' time",
}


def program(launches: int, items: int) -> float:
    """Seconds for the loop of launches and the finish behind it."""
    import numpy as np
    import pyopencl as cl

    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context)
    kernel = cl.Kernel(cl.Program(context, SOURCE).build(), "axpy")
    kernel.set_arg_types([None, None, np.float32])
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    y, x = (cl.Buffer(context, flags, hostbuf=np.zeros(items, np.float32)) for _ in range(2))
    kernel(queue, (items,), (128,), y, x, 2.0)
    queue.finish()
    begin = time.perf_counter()
    for _ in range(launches):
        kernel(queue, (items,), (128,), y, x, 2.0)
    queue.finish()
    return time.perf_counter() - begin


def one_process(options: argparse.Namespace, trace: str) -> tuple[float, float, float]:
    """Seconds of the loop, of the whole process and of processors, with a trace in the file `trace` ('0': none)."""
    sizes = ["--launches", str(options.launches), "--items", str(options.items)]
    workers = os.environ.get("VDEV_WORKERS", "cpu:2")
    environment = {**os.environ, "VDEV": "1", "VDEV_WORKERS": workers, "VDEV_TRACE": trace}
    used, begin = children_s(), time.perf_counter()
    done = subprocess.run(
        [sys.executable, str(Path(__file__)), "--part", *sizes],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    took = time.perf_counter() - begin
    return float(done.stdout.splitlines()[-1]), took, children_s() - used


def children_s() -> float:
    """Processors' time of all processes that have ended, in seconds."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def faster_half(values: list[float]) -> float:
    """The mean of the faster half."""
    kept = sorted(values)[: max(1, len(values) // 2)]
    return sum(kept) / len(kept)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    without: list[tuple[float, ...]] = []
    traced: list[tuple[float, ...]] = []
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder, "trace.json")
        one_process(options, "0")  # what a first run leaves in caches is not counted
        for number in range(options.rounds):
            turns = [(without, "0"), (traced, str(trace))]
            for found, where in turns if number % 2 else turns[::-1]:
                found.append(one_process(options, where))
        nbytes = trace.stat().st_size
    result: dict[str, Any] = {"launches": options.launches, "items": options.items, "trace_nbytes": nbytes}
    for index, what in enumerate(NAMES):
        plain, cost = (faster_half([times[index] for times in found]) for found in (without, traced))
        result[what] = {
            "without_s": round(plain, 4),
            "traced_s": round(cost, 4),
            "percent": round(100 * (cost / plain - 1), 2),
        }
    return result


def write_results(folder: Path, result: dict[str, Any]) -> None:
    rows = [
        f"| {name} | {result[what]['without_s']:.3f} s | {result[what]['traced_s']:.3f} s "
        f"| {result[what]['percent']:+.1f} % |"
        for what, name in NAMES.items()
    ]
    lines = [
        "# Cost of a trace",
        "",
        f"{result['launches']} launches of {result['items']} work-items, {result['rounds']} rounds, "
        f"{os.cpu_count()} cores (load {result['load']} before the run), {platform.system()} "
        f"{platform.machine()}, Python {platform.python_version()}; "
        f"the trace has {result['trace_nbytes'] / 1e6:.1f} MB.",
        "",
        "| | without | with VDEV_TRACE | |",
        "|---|---:|---:|---:|",
        *rows,
    ]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "trace_cost.md").write_text("\n".join(lines) + "\n")
    (folder / "trace_cost.json").write_text(json.dumps(result, indent=1) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--launches", type=int, default=10_000)
    parser.add_argument("--items", type=int, default=2048, help="fewer may stay on one worker")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--limit", type=float, help="percent that the whole process may take longer")
    parser.add_argument("--results", type=Path, help="a folder for the figures")
    parser.add_argument("--part", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        print(program(options.launches, options.items))
        return 0
    load = round(os.getloadavg()[0], 1)
    result = {**measure(options), "rounds": options.rounds, "load": load}
    for what, name in NAMES.items():
        row = result[what]
        print(
            f"{name:32s} {row['without_s']:.3f} s, traced {row['traced_s']:.3f} s ({row['percent']:+.1f} %)"
        )
    print(f"{result['trace_nbytes'] / 1e6:.1f} MB of trace")
    if options.results is not None:
        write_results(options.results, result)
    if options.limit is not None and result["process"]["percent"] > options.limit:
        print(f"more than {options.limit} %", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
