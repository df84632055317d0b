"""What steps of recurring programs take on 1, 2 and 4 GPUs whose work takes time, on the driver for machines without one:

    python -m tests.cpu.timed_steps [--workers 1,2,4] [--only NAME,...] [--host TIMES] [--call NANOSECONDS]

Kernels do nothing, but take the time that they take on an H200, as far as it is known (`PROGRAMS`), and copies that of their bytes on
its links, by a clock that goes on with the processor time of the process (`tests.pure.fake_cuda.clock`): vdev decides as it would on GPUs.
`--host`: how many times the processor time the host takes that is meant; `--call`: what each call of its driver takes which gives a GPU
work. Shown are, of the best round, the microseconds of a step, those until its last call returns, the processor time of the calling thread,
and the driver's calls; how many launches were split; and the microseconds of a step in each round. Sizes are smaller than on GPUs, and
work-groups take the longer, so that kernels take as long as there; what is exchanged is less where it depends on the size.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SAMPLES = Path(__file__).parents[2] / "samples"


@dataclass(frozen=True)
class Program:
    """A sample with its arguments, or one of `planning_programs`; its steps; and nanoseconds of a work-group of its kernels."""

    sample: str
    arguments: str
    steps: int
    times: str


#: by name. On one H200 the kernels of a step take 1.4 and 2.8 ms (k-means), 0.36 ms (PageRank) and 3.9 ms (fields_3d), as
#: `samples/benchmarks/results/h200_1_2_never_slower_turns.json` has it
PROGRAMS = {
    "k_means": Program("k_means", "--size 4194304 --steps 20", 20, "assign=85"),
    "k_means_64": Program("k_means", "--size 4194304 --clusters 64 --steps 20", 20, "assign=171"),
    "page_rank": Program("page_rank", "--size 4194304 --steps 40", 40, "share=0.9 dangle=58 gather=20"),
    "fields_3d": Program("", "512 40", 40, " ".join(f"{name}=0.62" for name in ("ex", "ey", "ez", "hx", "hy", "hz"))),
    "multigrid": Program("", "8192 20", 20, "sweep=1 residual=1.2 restriction=1.2 prolongation=1"),
    "small_steps": Program("", "1048576 400", 400, "drive=0.2 smooth=0.3 back=0.2"),
}  # fmt: skip
#: of each program
ROUNDS = 10


class Rounds:
    """Times rounds of launches on resident data, in place of `common.run`."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._calls = ctypes.CDLL("libcuda.so.1").fake_calls
        self._calls.restype = ctypes.c_long
        self.found: list[dict[str, float]] = []

    def __call__(self, job: Any) -> None:
        buffers = job.upload()
        for _ in range(ROUNDS):
            self.add(lambda: job.launch(buffers), job.queue)
        raise Measured

    def add(self, launch: Callable[[], object], queue: Any) -> None:
        """One round of so many steps."""
        queue.finish()
        began, thread, calls = time.perf_counter(), time.thread_time(), self._calls()
        launch()
        handed = time.perf_counter()
        queue.finish()
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
    sys.path[:0] = [str(SAMPLES), str(SAMPLES / "benchmarks")]
    program = PROGRAMS[name]
    rounds = Rounds(program.steps)
    if program.sample:
        common: Any = importlib.import_module("common")
        common.measured_by, sys.argv = rounds, [name, *program.arguments.split()]
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Measured):
            importlib.import_module(program.sample).main()
    else:
        _planned(name, program, rounds)
    import vdev

    kernels = vdev.stats().kernels
    split, launches = sum(each.split for each in kernels), sum(each.launches for each in kernels)
    print(json.dumps({"rounds": rounds.found, "split": split, "launches": launches}))


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
        rounds.add(lambda steps=steps: sum(1 for _ in steps), queue)  # type: ignore[misc]


def measured(name: str, count: int, host: float, call: int, folder: Path) -> dict[str, Any]:
    """What a program takes on so many GPUs."""
    from tests.pure import fake_cuda

    workers = "cuda:" + ",".join(map(str, range(count)))
    env = fake_cuda.environment(folder, workers) | {
        "FAKE_CUDA_DEVICES": str(count),
        "FAKE_CUDA_TIMES": PROGRAMS[name].times,
        "FAKE_CUDA_HOST": str(host),
        "FAKE_CUDA_CALL": str(call),
        "PYOPENCL_NO_CACHE": "1",
    }
    with tempfile.TemporaryDirectory() as cache:  # nothing is known of an earlier run
        script = f"from tests.cpu.timed_steps import main_of_child; main_of_child({name!r})"
        command = [sys.executable, "-c", script]
        done = subprocess.run(command, env=env | {"VDEV_CACHE_DIR": cache}, stdout=subprocess.PIPE, text=True, check=True)  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--workers", default="1,2,4", metavar="COUNT,...")
    parser.add_argument("--only", default=",".join(PROGRAMS), metavar="NAME,...")
    parser.add_argument("--host", type=float, default=1.5)
    parser.add_argument("--call", type=int, default=2200)
    options = parser.parse_args()
    folder = Path(tempfile.gettempdir()) / f"vdev-timed-steps-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    for name in options.only.split(","):
        one = 0.0
        for count in map(int, options.workers.split(",")):
            found = measured(name, count, options.host, options.call, folder)
            best = min(found["rounds"], key=lambda each: float(each["step"]))
            one = one or best["step"]
            rounds = " ".join(f"{each['step']:.0f}" for each in found["rounds"])
            print(
                f"{name:12} {count} {best['step']:7.0f} us a step ({one / best['step']:.2f}), {best['calls']:6.0f} of calls,"
                f" {best['thread']:5.0f} of the thread's, {best['driver']:5.1f} calls of the driver; {found['split']} of"
                f" {found['launches']} launches split; {rounds}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
