"""What recurring programs take on 1, 2 and 4 GPUs whose work takes time, on the driver for machines without one:

    python -m tests.cpu.timed_steps [--workers 1,2,4] [--only NAME,...] [--host TIMES] [--call NANOSECONDS] [--runs COUNT] [--rounds]

Kernels do nothing, but take the time that they take on an H200, as far as it is known (`timed_programs`), and copies that of their bytes on
its links, by a clock that goes on with the processor time of the process (`tests.pure.fake_cuda.clock`): vdev decides as it would on GPUs.
`--host`: how many times the processor time the host takes that is meant; `--call`: what each call of its driver takes which gives a GPU
work. `--runs`: processes after one another, of which the later ones find what the earlier ones kept. `--rounds`: print each round.

Shown are, of the best round on resident data, the microseconds of a step, and how many times as fast that is as on one GPU and, where the
results of `samples/benchmarks` have both, natively; the bar on four; the milliseconds of the first three runs from plain arrays to results;
and of a step the processor time of the calling thread and the driver's calls; how many launches were split. `!` marks what misses its bar.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import importlib
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from .timed_programs import BENCHMARKS, PROGRAMS, Program, as_on_gpus, bars, over_one

#: of each program, on resident data; and before these, from plain arrays to results
ROUNDS, WHOLE = 10, 3


class Rounds:
    """Times rounds of launches on resident data, and whole runs before these, in place of `common.run`."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._calls = ctypes.CDLL("libcuda.so.1").fake_calls
        self._calls.restype = ctypes.c_long
        self.found: list[dict[str, float]] = []
        self.whole: list[float] = []

    def __call__(self, job: Any) -> None:
        common: Any = importlib.import_module("common")
        buffers = None
        for _ in range(WHOLE):
            common.finish(job.queue)
            began = time.perf_counter()
            buffers = job.upload()
            job.launch(buffers)
            common.finished(job, buffers)
            self.whole.append(1e3 * (time.perf_counter() - began))
        for _ in range(ROUNDS):
            self.add(lambda: job.launch(buffers), lambda: common.finish(job.queue))
        raise Measured

    def add(self, launch: Callable[[], object], finish: Callable[[], object]) -> None:
        """One round of so many steps."""
        finish()
        began, thread, calls = time.perf_counter(), time.thread_time(), self._calls()
        launch()
        handed = time.perf_counter()
        finish()
        ended = time.perf_counter() - began, handed - began, time.thread_time() - thread
        each = [1e6 * seconds / self._steps for seconds in ended]
        found = dict(zip(("step", "calls", "thread"), each, strict=True))
        self.found.append(found | {"driver": (self._calls() - calls) / self._steps})


class Measured(Exception):
    """All is measured: what a sample would check now is not looked at."""


def main_of_child(name: str) -> None:
    """Measure one program in this process."""
    from tests.pure.fake_cuda import clock

    clock.use()
    _find_samples()
    program = PROGRAMS[name]
    _ask_for(program.nbytes)
    rounds = Rounds(program.steps)
    if program.sample == "":
        _planned(name, program, rounds)
    else:
        common: Any = importlib.import_module("common")
        common.measured_by, sys.argv = rounds, [name, *program.arguments.split()]
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Measured), as_on_gpus(name):
            importlib.import_module(program.sample or name).main()
    import vdev

    kernels = vdev.stats().kernels
    split, launches = sum(each.split for each in kernels), sum(each.launches for each in kernels)
    print(json.dumps({"rounds": rounds.found, "whole": rounds.whole, "split": split, "launches": launches}))


def _ask_for(times: float) -> None:
    """Have what launches ask for count so many times, as each byte stands for so many."""
    from vdev.session import presuming

    counted = presuming.bytes_of_launch

    def asked(*given: Any) -> float | None:
        found = counted(*given)
        return None if found is None else times * found

    presuming.bytes_of_launch = asked  # type: ignore[assignment]


def _find_samples() -> None:
    sys.path[:0] = [str(BENCHMARKS.parent), str(BENCHMARKS)]


def _planned(name: str, program: Program, rounds: Rounds) -> None:
    """One of the programs that are hard to plan for, on new buffers in each round."""
    import pyopencl as cl

    programs: Any = importlib.import_module("planning_programs")
    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context)
    for _ in range(ROUNDS // 2):
        bench = programs.Bench(context, queue, *map(int, program.arguments.split()))
        steps: Iterator[int] = programs.PROGRAMS[name][0](bench)
        next(steps)
        rounds.add(lambda steps=steps: sum(1 for _ in steps), queue.finish)  # type: ignore[misc]
    rounds.whole += [1e-3 * program.steps * each["step"] for each in rounds.found[:WHOLE]]


def measured(name: str, count: int, options: argparse.Namespace, cache: str) -> dict[str, Any]:
    """What a program takes on so many GPUs, where `cache` has what earlier runs kept."""
    from tests.pure import fake_cuda

    folder = Path(tempfile.gettempdir()) / f"vdev-timed-steps-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    workers = "cuda:" + ",".join(map(str, range(count)))
    env = fake_cuda.environment(folder, workers) | {
        "FAKE_CUDA_DEVICES": str(count),
        "FAKE_CUDA_TIMES": PROGRAMS[name].takes(count),
        "FAKE_CUDA_BYTES": str(PROGRAMS[name].nbytes),
        "FAKE_CUDA_HOST": str(options.host),
        "FAKE_CUDA_CALL": str(options.call),
        "PYOPENCL_NO_CACHE": "1",
        "VDEV_CACHE_DIR": cache,
    }
    script = f"from tests.cpu.timed_steps import main_of_child; main_of_child({name!r})"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def told(name: str, count: int, found: dict[str, Any], one: float, native: float | None, bar: float) -> str:
    """A line of the table. `one`: microseconds of a step on one; `native`: how many times as long it is natively, if known."""
    best = min(found["rounds"], key=lambda each: float(each["step"]))
    faster = one / best["step"]
    over = faster * (native or 1)
    reached = f"{over:5.2f}" + ("?" if native is None else " ")
    wanted = f"{bar:5.2f}{'!' if over < bar else ' '}" if count == 4 else " " * 6
    whole = " ".join(f"{each:7.1f}" for each in found["whole"])
    return (
        f"{name:20} {count} {best['step']:8.0f}{faster:6.2f} {reached}{wanted} {whole} {best['thread']:7.0f}"
        f"{best['driver']:7.1f} {found['split']:6d}/{found['launches']}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--workers", default="1,2,4", metavar="COUNT,...")
    parser.add_argument("--only", default=",".join(PROGRAMS), metavar="NAME,...")
    parser.add_argument("--host", type=float, default=1.5)
    parser.add_argument("--call", type=int, default=2200)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--rounds", action="store_true")
    options = parser.parse_args()
    _find_samples()
    wanted, native = bars(), over_one()
    print(
        "program          GPUs us a step  of 1 native   bar     whole runs, ms           thread driver  split"
    )
    for name in options.only.split(","):
        one = 0.0
        for count in map(int, options.workers.split(",")):
            with tempfile.TemporaryDirectory() as cache:  # nothing is known of an earlier run
                for _ in range(options.runs):
                    found = measured(name, count, options, cache)
                    one = one or min(each["step"] for each in found["rounds"])
                    print(told(name, count, found, one, native.get(name), wanted[name]), flush=True)
                    if options.rounds:
                        print("    rounds:", *(f"{each['step']:.0f}" for each in found["rounds"]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
