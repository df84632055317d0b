"""`python -m tests.pure.first_runs`: where the first run of a program goes, on the driver for machines without a GPU.

Rows are those of `samples/benchmarks/never_slower.py`. Each runs once from plain arrays to results, in a process of its own for each
number of workers, with nothing kept from before. Shown are what was compiled in the run, with the milliseconds of the processor's that
NVRTC takes for it (by itself, afterwards), and whether the program's thread or one of the workers was at it or a thread beside them;
and by part of the run how often it came, the milliseconds of the program's thread without other parts inside of it, and those that this
thread waited.

`--only NAMES`, `--workers 1,2`, `--preset small|large`; `--idle`: kernels do nothing, for large sizes; `--json FILE` keeps the figures, and
`--before FILE` shows the sums in such a file beside them. Kernels run on the processor and transfers are copies that the program's thread
makes, so that only parts say anything, and ways may be chosen which GPUs would not choose.
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
    "preparing": ("vdev.executor.executor:Executor.prepare",),
    "building": ("vdev.session.programs:SessionProgram.build", "vdev.executor.executor:Executor.build"),
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
            waits = threading.current_thread().name != "vdev-beside"
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
    began = time.process_time()
    done, said = nvrtc.compile_cuda(source, [each for each in options if "gpu-architecture" not in each])
    assert done, said
    return (time.process_time() - began) * 1e3


def _named(source: str) -> str:
    """What a program is, in a few words: its kernels."""
    if "vdev/vectors.h" not in source:
        return f"vdev's own {fake_cuda.own_kernel(source)}"
    return f"a translation of {len(source)} bytes"


def _sums(found: dict[str, Any]) -> dict[str, float]:
    """Milliseconds of NVRTC that the program waited for, and of its thread in all parts but the compiler's."""
    compiled = sum(each["milliseconds"] or 0.0 for each in found["compiled"] if each["waits"])
    return {
        "NVRTC": compiled,
        "parts": 1e3 * (sum(found["seconds"].values()) - found["seconds"]["compiling"]),
    }


def _lines(found: dict[str, Any], before: dict[str, Any] | None) -> list[str]:
    lines = [f"    thread {found['thread'] * 1e3:8.1f} ms, passed {found['passed'] * 1e3:8.1f} ms"]
    was = {} if before is None else _sums(before)
    for what, took in _sums(found).items():
        text = f"    {what + ', in all':12s}             {took:8.1f} ms"
        lines.append(text + (f" (before: {was[what]:.1f})" if was else ""))
    for part, seconds in found["seconds"].items():
        if found["counts"][part]:
            waited = found["waited"][part] * 1e3
            lines.append(
                f"    {part:12s} {found['counts'][part]:5d} times {seconds * 1e3:8.1f} ms, waited {waited:8.1f}"
            )
    for each in found["compiled"]:
        took = each["milliseconds"]
        text = "not known" if took is None else f"{took:.0f} ms"
        lines.append(f"    compiled: {each['name']}: {text}{'' if each['waits'] else ', beside'}")
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
    before = json.loads(options.before.read_text()) if options.before else {}
    _milliseconds('extern "C" __global__ void nothing() {}', [])  # loads NVRTC
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
                lines = _lines(found, before.get(f"{row}, {workers}"))
                print(f"{row}, {workers} workers", *lines, sep="\n", flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
