"""`python -m tests.pure.first_plans`: what plans cost that nothing from before could be used for, in the programs of
`samples/benchmarks/planning.py` at their large sizes, on simulated GPUs, with every launch split over all of them.

Shown by program and number of workers: how many plans were made rather than filled in, and the milliseconds of the host's processor
that they took: median, mean and the most. `--bytecodes` counts thousands of bytecodes instead, which no other load changes; `--only
NAMES`, `--workers 2,4`, `--steps N` of each program, `--profile` says which functions take the time; `--json FILE` keeps the
figures, and `--before FILE` shows the ratio of each mean to that in such a file.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import statistics
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from time import thread_time_ns
from typing import Any

import pytest

from tests.bytecodes import Bytecodes
from tests.pure.simulated import FACADES, Halves
from tests.pure.test_never_slower import planning_programs, simulated_host
from tests.pure.virtual_gpus import PEER_BYTES_PER_SECOND
from vdev.session import filling, launches
from vdev.session.session import Session


class Meter:
    """Measures each plan that is made, in the place of `make_plan`."""

    def __init__(self, make_plan: Callable[..., Any], *, bytecodes: bool, profile: bool) -> None:
        self._make_plan = make_plan
        self._bytecodes = Bytecodes() if bytecodes else None
        self.profiler = cProfile.Profile() if profile else None
        self.found: list[tuple[float, str]] = []  #: of each plan that was made: the figure, and its kernel
        self.filled = 0
        self.traces: list[float] = []  #: and of each launch that was traced, so that others can be filled in

    def traced(self, trace: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """What is measured in the place of what traces a launch."""

        def timed(*args: Any) -> Any:
            began = self._now()
            try:
                return trace(*args)
            finally:
                self.traces.append(self._now() - began)

        return timed

    def _now(self) -> float:
        return thread_time_ns() * 1e-3 if self._bytecodes is None else float(self._bytecodes.count)

    def __call__(self, launch: Any, *args: Any) -> Any:
        known, began = len(self.traces), self._now()
        with self._bytecodes or self.profiler or nullcontext():
            made = self._make_plan(launch, *args)
        figure = self._now() - began - sum(self.traces[known:])
        if made.filled:
            self.filled += 1
        else:
            self.found.append((figure * 1e-3, launch.kernel.name))
        return made


def measure(name: str, workers: int, steps: int, *, bytecodes: bool = False, profile: bool = False) -> Meter:
    """The plans of the first steps of a program."""
    with simulated_host() as benches, pytest.MonkeyPatch.context() as patch:
        opened = Session.__init__

        def open_session(self: Session, *args: Any, **settings: Any) -> None:
            opened(self, *args, **settings | {"gather": False})
            self.choosing = None  # every launch is split

        patch.setattr(Session, "__init__", open_session)
        meter = Meter(launches.make_plan, bytecodes=bytecodes, profile=profile)
        patch.setattr(launches, "make_plan", meter)
        patch.setattr(filling, "_traced", meter.traced(filling._traced))
        run = Halves(name, {}, workers, PEER_BYTES_PER_SECOND, benches)
        for _ in zip(range(steps), run.steps, strict=False):
            pass
        run.bench.program.wait()
    return meter


def figures(meter: Meter) -> dict[str, float]:
    found = [figure for figure, _ in meter.found]
    return {
        "plans": len(found),
        "filled": meter.filled,
        "median": statistics.median(found),
        "mean": statistics.mean(found),
        "worst": max(found),
        "sum": sum(found),
        "traces": len(meter.traces),
        "traced": sum(meter.traces) * 1e-3,
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.pure.first_plans", description=__doc__)
    parser.add_argument("--only", default="", help="programs, separated by commas")
    parser.add_argument("--workers", default="2,4,8,16", help="numbers of workers, separated by commas")
    parser.add_argument("--steps", type=int, default=12, help="steps of each program")
    parser.add_argument("--bytecodes", action="store_true", help="count bytecodes instead")
    parser.add_argument("--profile", action="store_true", help="say which functions take the time instead")
    parser.add_argument(
        "--kernels", action="store_true", help="each kernel of a program in a line of its own, too"
    )
    parser.add_argument("--json", type=Path, help="write the figures there")
    parser.add_argument("--before", type=Path, help="figures to compare with")
    arguments = parser.parse_args()
    os.environ["VDEV_CACHE"] = "0"
    before = {} if arguments.before is None else json.loads(arguments.before.read_text())
    only = [name for name in arguments.only.split(",") if name]
    names = [name for name in planning_programs.PROGRAMS if name not in FACADES and name in (only or [name])]
    kept: dict[str, dict[str, float]] = {}
    columns = "plans", "median", "mean", "worst", "traces", "each", "filled"
    heading = f"{'1,000' if arguments.bytecodes else 'ms':18}{'workers':>8}"
    print(heading + "".join(f"{column:>9}" for column in columns))
    for name in names:
        for workers in map(int, arguments.workers.split(",")):
            meter = measure(
                name, workers, arguments.steps, bytecodes=arguments.bytecodes, profile=arguments.profile
            )
            found = kept[f"{name} {workers}"] = figures(meter)
            line = f"{name:18}{workers:8d}{found['plans']:9d}"
            line += "".join(f"{found[column]:9.2f}" for column in ("median", "mean", "worst"))
            each = found["traced"] / max(found["traces"], 1)
            line += f"{found['traces']:9d}{each:9.2f}{found['filled']:9d}"
            known = before.get(f"{name} {workers}")
            print(line + (f"{found['mean'] / known['mean']:9.2f}" if known else ""), flush=True)
            if arguments.kernels:
                for kernel in sorted({kernel for _, kernel in meter.found}):
                    each = [figure for figure, of in meter.found if of == kernel]
                    parts = statistics.median(each), statistics.mean(each), max(each)
                    print(f"  {kernel:24}{len(each):9d}" + "".join(f"{part:9.2f}" for part in parts))
            if meter.profiler is not None:
                pstats.Stats(meter.profiler).sort_stats("tottime").print_stats(35)
    if arguments.json:
        arguments.json.write_text(json.dumps(kept, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
