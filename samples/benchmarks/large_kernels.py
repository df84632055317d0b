"""How long large programs take from start to end: natively and on CPU workers, the first run and the second.

    python samples/benchmarks/large_kernels.py [--only NAME,...] [--size STATEMENTS] [--workers 3] [--json FILE]

Programs of `large_programs.py`, each a process that builds one, launches its kernel and launches it twenty times more; the
first run of each column begins with empty folders for what vdev and PyOpenCL keep. Shown are seconds of whole processes, of
building and of the first launch, the processor time of the process and its children, which says more than elapsed time
if the machine is busy, and milliseconds of later launches. Results must equal the native ones. Targets: the first run takes at most
1.2 times the native one plus a second, and the second run at most the native second run plus 0.3 s, in elapsed and in
processor time.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import columns
import large_programs
import machine
import start_up

FACTOR, MORE_SECONDS, MORE_LATER = 1.2, 1.0, 0.3
LAUNCHES, ITEMS = 20, 256
TIMEOUT = 600


def part(name: str, size: int) -> columns.Figures:
    """Builds, launches and times one program, in this process."""
    import numpy as np
    import pyopencl as cl

    source = large_programs.SHAPES[name](size)
    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context)
    data = np.arange(ITEMS, dtype=np.uint32)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    buffer = cl.Buffer(context, flags, hostbuf=data)
    times = [time.perf_counter()]
    kernel = cl.Kernel(cl.Program(context, source).build(), "work")
    times.append(time.perf_counter())
    for count in (1, LAUNCHES):
        for _ in range(count):
            kernel(queue, data.shape, (16,), buffer, np.uint32(ITEMS))
            queue.finish()
        times.append(time.perf_counter())
    cl.enqueue_copy(queue, data, buffer)
    build, first, later = (b - a for a, b in itertools.pairwise(times))
    return {
        "build": build,
        "first launch": first,
        "later ms": later * 1e3 / LAUNCHES,
        "result": data.tobytes().hex(),
    }


def run(column: start_up.Column, name: str, size: int) -> columns.Figures:
    """The figures of one process, and how long all of it took."""
    command = [sys.executable, "-W", "ignore", __file__, "--part", "--only", name, "--size", str(size)]
    began, used = time.perf_counter(), start_up.processor_seconds()
    done = subprocess.run(
        command, env=column.environment, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    if done.returncode:
        return {"failed": done.stderr[-1500:]}
    found: columns.Figures = json.loads(done.stdout.splitlines()[-1])
    return found | {
        "whole": time.perf_counter() - began,
        "processor": start_up.processor_seconds() - used,
    }


def measure(
    environments: dict[str, dict[str, str]], name: str, size: int
) -> dict[str, dict[str, columns.Figures]]:
    """By column, the first run and the second."""
    with tempfile.TemporaryDirectory(prefix="large-kernels-") as folder:
        made = {
            column: start_up.Column(environment, Path(folder, column))
            for column, environment in environments.items()
        }
        first = {column: run(each, name, size) for column, each in made.items()}
        return {
            column: {"first": first[column], "second": run(each, name, size)} for column, each in made.items()
        }


def show(name: str, size: int, found: dict[str, dict[str, columns.Figures]]) -> list[str]:
    lines = []
    for column, runs in found.items():
        for which, figures in runs.items():
            parts = ", ".join(
                f"{part} {figures[part]:.2f}"
                for part in ("whole", "processor", "build", "first launch", "later ms")
                if part in figures
            )
            lines.append(f"{name:10} {size:6} {column:7} {which:7} {parts}{figures.get('failed', '')}")
    return lines


def bars(name: str, size: int, found: dict[str, dict[str, columns.Figures]]) -> list[columns.Figures]:
    native = found[machine.NATIVE]
    made: list[columns.Figures] = []
    for column, runs in found.items():
        if column == machine.NATIVE or any("failed" in each for each in (*native.values(), *runs.values())):
            continue
        for which, factor, more in (("first", FACTOR, MORE_SECONDS), ("second", 1.0, MORE_LATER)):
            for clock in ("whole", "processor"):
                text = f"{name} of {size} statements, {which} run, {column} workers, seconds ({clock})"
                most = factor * native[which][clock] + more
                made.append(columns.most(text, runs[which][clock], most))
        if runs["first"]["result"] != native["first"]["result"]:
            sys.exit(f"{name}: {column} workers do not give the native result")
    return made


def main() -> int:
    parser = columns.parser(__doc__)
    names = list(large_programs.SHAPES)
    parser.add_argument("--only", type=lambda text: text.split(","), default=names, help="programs by commas")
    parser.add_argument("--size", type=int, default=5000, help="statements (default: %(default)s)")
    parser.set_defaults(workers="3", kind="cpu")
    options = parser.parse_args()
    if options.part:
        machine.find_engine()
        print(json.dumps(part(options.only[0], options.size)))
        return 0
    environments = start_up.environments("cpu", machine.counts_of(options), options.native)
    found: dict[str, Any] = {}
    lines = [f"load: {', '.join(f'{load:.1f}' for load in os.getloadavg())}"]
    wanted: list[columns.Figures] = []
    for name in options.only:
        figures = found[name] = measure(environments, name, options.size)
        for line in (new := show(name, options.size, figures)):
            print(line, file=sys.stderr, flush=True)
        lines += new
        wanted += bars(name, options.size, figures)
        for runs in figures.values():
            for each in runs.values():
                each.pop("result", None)
    return columns.conclude(options, found, lines, wanted)


if __name__ == "__main__":
    sys.exit(main())
