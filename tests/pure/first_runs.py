"""`python -m tests.pure.first_runs`: where the first run of a program goes that is run once, on the driver for machines without a GPU.

Rows are those of `samples/benchmarks/never_slower.py`. Each runs once from plain arrays to results, in a process of its own for each
number of workers, with nothing kept from before. Shown are the programs that were compiled in the run, with the milliseconds that
NVRTC takes for each (measured afterwards, by itself), those of them that the calling thread waited for, and the milliseconds of the
calling thread's processor time in each part of the run, without what other parts of the list take inside of it.

`--only NAMES`, `--workers 1,2`, `--preset small|large`; `--json FILE` keeps the figures, and `--before FILE` shows those in such a file
beside them. Kernels run on the processor, so that ways may be chosen which GPUs would not choose.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import fake_cuda, nvrtc

BENCHMARKS = fake_cuda.ROOT / "samples" / "benchmarks"
FOUND = "@found "
#: the parts of a run: what each is, and the functions that it consists of
PARTS = {
    "compiling": ("vdev.backends.cuda.programs:Cubins.get",),
    "translating": (
        "vdev.translators.dialects.cuda.translation:translate_cuda",
        "vdev.translators.dialects.subgrid:translate_subgrid",
        "vdev.session.translation:read",
        "vdev.session.translation:lowered",
        "vdev.session.translation:translate",
    ),
    "analysing": ("vdev.translators.interpreter.access:analyse_kernel",),
    "planning": ("vdev.session.making_plans:make_plan",),
    "preparing": (
        "vdev.executor.executor:Executor.prepare",
        "vdev.executor.compiled_plan:submit_compiled",
    ),
    "memory": ("vdev.backends.cuda.backend:CudaBackend._take",),
    "building": ("vdev.session.programs:SessionProgram.build",),
    "waiting": ("vdev.executor.executor:Executor.build",),
}


class Parts:
    """Processor time of the calling thread by part, and what was compiled."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PARTS, 0.0)
        self.waited = dict.fromkeys(PARTS, 0.0)
        self.counts = dict.fromkeys(PARTS, 0)
        self.compiled: list[dict[str, Any]] = []
        self.counts_now = False  #: in the run that counts
        self._thread = threading.get_ident()
        self._inside: list[list[float]] = []

    def watch(self) -> None:
        """Measure the functions of all parts."""
        for part, names in PARTS.items():
            for name in names:
                self._wrap(part, name)

    def _wrap(self, part: str, name: str) -> None:
        module_name, _, path = name.partition(":")
        owner: Any = importlib.import_module(module_name)
        *owners, last = path.split(".")
        for each in owners:
            owner = getattr(owner, each)
        function = getattr(owner, last)
        timed = functools.wraps(function)(functools.partial(self._timed, part, function))

        def method(*args: Any, **named: Any) -> Any:
            return timed(*args, **named)

        for module in list(sys.modules.values()):  # others may have imported it by name
            if not owners and getattr(module, last, None) is function:
                setattr(module, last, method)
        setattr(owner, last, method)

    def _timed(self, part: str, function: Callable[..., Any], *args: Any, **named: Any) -> Any:
        if part == "compiling" and self.counts_now:
            self._compiles(*args)
        if threading.get_ident() != self._thread or not self.counts_now:
            return function(*args, **named)
        inside = [0.0, 0.0]
        self._inside.append(inside)
        began, clock = time.thread_time(), time.perf_counter()
        try:
            return function(*args, **named)
        finally:
            took, passed = time.thread_time() - began, time.perf_counter() - clock
            self._inside.pop()
            self.seconds[part] += took - inside[0]
            self.waited[part] += passed - took - inside[1]
            self.counts[part] += 1
            if self._inside:
                self._inside[-1][0] += took
                self._inside[-1][1] += passed - took

    def _compiles(self, cubins: Any, source: str, options: Any) -> None:
        if cubins.kept(source, options) is None:
            waits = threading.get_ident() == self._thread or threading.current_thread().name != "background"
            self.compiled.append({"source": source, "options": list(options), "waits": waits})


def part_of_a_run(row_name: str, preset: str) -> None:
    """In a process of its own: the row's first run."""
    sys.path.insert(0, str(BENCHMARKS))
    sys.argv = ["never_slower"]
    never_slower: Any = importlib.import_module("never_slower")  # finds the samples
    common: Any = importlib.import_module("common")

    parts = Parts()
    row = next(row for row in never_slower.ROWS if row.name == row_name)
    context, queue = common.open_queue()
    parts.watch()
    found: dict[str, Any] = {}

    def begin() -> Callable[[], None]:
        parts.counts_now = True
        began, clock = time.thread_time(), time.perf_counter()

        def end() -> None:
            found.update(thread=time.thread_time() - began, passed=time.perf_counter() - clock)
            parts.counts_now = False

        return end

    def once(job: Any) -> Any:
        common.finish(job.queue)
        end = begin()
        buffers = job.upload()
        job.launch(buffers)
        common.finished(job, buffers)
        end()
        raise never_slower.Measured

    if row.planned:
        program, sizes = never_slower.planning_programs.PROGRAMS[row.name]
        steps = program(never_slower.planning_programs.Bench(context, queue, *sizes[preset]))
        next(steps)
        queue.finish()
        end = begin()
        for _ in steps:
            pass
        queue.finish()
        end()
    else:
        common.measured_by = once
        sys.argv = [row.name, *row.arguments(preset)]
        sys.stdout = sys.stderr
        with contextlib.suppress(never_slower.Measured):
            __import__(row.sample or row.name).main()
        sys.stdout = sys.__stdout__
    found |= {"seconds": parts.seconds, "waited": parts.waited, "counts": parts.counts}
    print(FOUND + json.dumps(found | {"compiled": parts.compiled}))


def measured(row: str, preset: str, workers: int, folder: Path, *, idle: bool) -> dict[str, Any]:
    """What the first run of a row takes on so many workers."""
    names = ",".join(map(str, range(workers)))
    with tempfile.TemporaryDirectory() as cache:
        env = fake_cuda.environment(folder, f"cuda:{names}")
        env |= {"FAKE_CUDA_DEVICES": "8", "PYOPENCL_NO_CACHE": "1", "VDEV_CACHE_DIR": cache}
        env |= {"FAKE_CUDA_IDLE": "1"} if idle else {}
        command = [sys.executable, "-m", __spec__.name, "--part", row, "--preset", preset]
        done = subprocess.run(
            command, env=env, cwd=fake_cuda.ROOT, capture_output=True, text=True, check=False
        )
    lines = [line for line in done.stdout.splitlines() if line.startswith(FOUND)]
    if not lines:
        raise SystemExit(f"{row} on {workers}: {done.stdout[-2000:]}{done.stderr[-4000:]}")
    found: dict[str, Any] = json.loads(lines[-1][len(FOUND) :])
    return found


def _milliseconds(source: str, options: list[str]) -> float | None:
    """What NVRTC takes for a program; None where it is not installed."""
    if nvrtc.library() is None:
        return None
    began = time.perf_counter()
    done, said = nvrtc.compile_cuda(source, [each for each in options if "gpu-architecture" not in each])
    assert done, said
    return (time.perf_counter() - began) * 1e3


def _named(source: str) -> str:
    """What a program is, in a few words: its kernels."""
    if "vdev/vectors.h" not in source:
        from vdev.backends.cuda.kernels import KERNEL_OF

        return f"vdev's own {KERNEL_OF[source]}"
    text = source[source.find('#line 1 "vdev/vectors.h"') :]
    kind = "renumbered" if "renumbered" in text or "cycle" in text else "program"
    return f"{kind} of {len(text)} bytes"


def _lines(found: dict[str, Any]) -> list[str]:
    lines = [f"    thread {found['thread'] * 1e3:8.1f} ms, passed {found['passed'] * 1e3:8.1f} ms"]
    for part, seconds in found["seconds"].items():
        if found["counts"][part]:
            waited = found["waited"][part] * 1e3
            lines.append(
                f"    {part:12s} {found['counts'][part]:5d} times {seconds * 1e3:8.1f} ms, waited {waited:8.1f}"
            )
    for each in found["compiled"]:
        took = each["milliseconds"]
        text = "not known" if took is None else f"{took:.0f} ms"
        lines.append(f"    compiled: {each['name']}: {text}{', waited for' if each['waits'] else ''}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only", default="page_rank,fill_and_sum,particles,kernel_chain,out_of_order,multigrid"
    )
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--preset", default="small")
    parser.add_argument("--idle", action="store_true", help="kernels do nothing")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--part", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        part_of_a_run(options.part, options.preset)
        return
    rows: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(os.environ.get(fake_cuda.SHARED, made))
        for row in options.only.split(","):
            for workers in map(int, options.workers.split(",")):
                found = rows[f"{row}, {workers}"] = measured(
                    row, options.preset, workers, folder, idle=options.idle
                )
                for each in found["compiled"]:
                    source, given = each.pop("source"), each.pop("options")
                    each |= {"name": _named(source), "milliseconds": _milliseconds(source, given)}
                print(f"{row}, {workers} workers", *_lines(found), sep="\n", flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
