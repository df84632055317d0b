"""The cost of launches whose scalars differ from the previous launch's: processor time of the host, without any device.

    python samples/benchmarks/changed_scalars.py [--launches N] [--workers N] [--only NAME,...] [--near]
                                                 [--profile | --bytecodes] [--json FILE]

Each program is launched again and again with other scalars, through a session's cache of plans up to plans that are ready
to run, on the states that the previous launch has left. Nothing is run. Shown, in microseconds of processor time: the first
plan of the kernel; the median, the mean and the worst tenth of all later launches; and the median launch's shares for
access ranges, the plan, its steps, and the statistics (none if it was filled in). Also shown:
how many launches were filled in, and how many were planned. `--bytecodes`: instead of times, how many thousand bytecodes
Python executes, which is the same on any machine, loaded or not: for the median launch that was filled in, for the mean
of those that were planned, of those that were traced, and of all. `--near`: workers that use the host's memory; otherwise
they have memory of their own.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import re
import statistics
import struct
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from time import thread_time_ns
from types import FrameType
from typing import Any

from vdev.translators.ranges.ndrange import NDRange
from vdev.translators.ranges.region import Region

from vdev.backends.base import BuildResult, KernelResources, WorkerInfo
from vdev.executor.prepare import PreparedPlan
from vdev.observe.tallies import Ledger
from vdev.planner.directory import HOST, BufferState, buffer_state
from vdev.planner.launch_request import LaunchOptions
from vdev.planner.links import LinkCosts
from vdev.session import launch_plans, making_plans, requests
from vdev.session.commands import BufferArg, Launch
from vdev.session.programs import SessionKernel, SessionProgram

SOURCE = """
kernel void window(global float *a, int first) { a[get_global_id(0) + first] *= 0.5f; }
kernel void count(global float *a, global const float *b, int n) {
    int i = get_global_id(0);
    if (i < n) a[i] += b[i];
}
kernel void tile(global float *a, int n, int k) {
    int x = get_global_id(0) + k, y = get_global_id(1) + k;
    if (x < n && y < n) a[y * n + x] = a[y * n + x] * 0.5f + k;
}
kernel void leap(global float *now, global const float *before, int n, int step) {
    int x = get_global_id(0), y = get_global_id(1);
    if (x > 0 && y > 0 && x < n - 1 && y < n - 1) {
        int at = y * n + x;
        now[at] = 2 * before[at] - now[at] + 0.1f * (before[at - 1] + before[at + 1] + before[at - n] + before[at + n]);
        if (x == n / 2 && y == n / 2) now[at] += native_sin(0.01f * step);
    }
}
kernel void update(global float *a, int n, int k) {
    int x = get_global_id(0) + k + 1, y = get_global_id(1) + k + 1;
    if (x < n && y < n) a[y * n + x] -= a[y * n + k] * a[k * n + x];
}
kernel void scan(global float *to, global const float *from, int step) {
    int i = get_global_id(0);
    to[i] = i >= step ? from[i] + from[i - step] : from[i];
}
kernel void record(global float *history, global const float *x, int n, int depth, int step) {
    int i = get_global_id(0);
    history[(step % depth) * n + i] = x[i];
}
"""


@dataclass(frozen=True)
class Step:
    """One launch: kernel, sizes, and arguments: buffers by name, or numbers."""

    kernel: str
    global_size: tuple[int, ...]
    local_size: tuple[int, ...]
    args: tuple[str | int, ...]


def window(launches: int) -> Iterator[Step]:
    for number in range(launches):
        yield Step("window", (1 << 16,), (64,), ("a", 64 * number))


def count(launches: int) -> Iterator[Step]:
    for number in range(launches):
        yield Step("count", (1 << 18,), (64,), ("a", "b", (1 << 18) - 37 * number))


def tile(launches: int) -> Iterator[Step]:
    for number in range(launches):
        yield Step("tile", (64, 64), (8, 8), ("a", 512, number % 480))


def leap(launches: int) -> Iterator[Step]:
    for number in range(launches):
        names = ("a", "b") if number % 2 else ("b", "a")
        yield Step("leap", (512, 512), (16, 16), (*names, 512, number))


def update(launches: int) -> Iterator[Step]:
    for number in range(launches):
        rest = -(-(511 - number % 480) // 8) * 8
        yield Step("update", (rest, rest), (8, 8), ("a", 512, number % 480))


def scan(launches: int) -> Iterator[Step]:
    for number in range(launches):
        names = ("a", "b") if number % 2 else ("b", "a")
        yield Step("scan", (1 << 18,), (64,), (*names, 1 + 7 * number))


def record(launches: int) -> Iterator[Step]:
    for number in range(launches):
        yield Step("record", (1 << 12,), (64,), ("a", "b", 1 << 12, 128, number))


PROGRAMS: dict[str, Callable[[int], Iterator[Step]]] = {
    each.__name__: each for each in (window, count, tile, leap, update, scan, record)
}
NBYTES = 1 << 21  #: of every buffer


class Buffer:
    """What the cache of plans has to know of a buffer."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self.span = 0  # no number of workers was chosen
        self.state: BufferState = buffer_state(nbytes, ((HOST, Region.span(0, nbytes)),))


class Workers:
    """What plans are made for, in the place of an executor."""

    def __init__(self, count: int, *, near: bool) -> None:
        self.workers = tuple(
            WorkerInfo(
                backend="none",
                name=f"worker {number}",
                device_key=("none", number),
                compute_units=1,
                memory_nbytes=1 << 36,
                max_alloc_nbytes=1 << 36,
                max_work_group_size=1024,
                max_work_item_sizes=(1024, 1024, 64),
                local_memory_nbytes=48 << 10,
                base_align_nbytes=512,
                is_cpu=near,
                version="OpenCL 3.0 none",
                c_version="OpenCL C 1.2",
            )
            for number in range(count)
        )
        self.all_workers = (*range(count), HOST)
        links = replace(
            LinkCosts.uniform(count, peer=0.1, per_run=64.0, direct=not near), gaps_nbytes=1 << 30
        )
        self.options = LaunchOptions(tuple(range(count)), links)

    def prepare(self, plan: Any, recipe: Any) -> PreparedPlan:
        return PreparedPlan(plan, recipe)

    def build(self, source: str) -> dict[str, SessionKernel]:
        program = SessionProgram(source, (), self.workers)
        resources = KernelResources(1024, (0, 0, 0), 0, 0, 32)
        kernels = dict.fromkeys(re.findall(r"kernel void (\w+)", source), resources)
        program.build(lambda _: [BuildResult("", kernels, b"") for _ in self.workers])
        return program.kernels


class Bench:
    """A program, launched as a session does it up to the hand-over to workers."""

    def __init__(self, workers: int, *, near: bool = False, source: str = SOURCE) -> None:
        self.workers = Workers(workers, near=near)
        self.kernels = self.workers.build(source)
        self.buffers: dict[str, Buffer] = {}
        self._ledger = Ledger()
        self.plans = 0

    def command(self, step: Step) -> Launch:
        kernel = self.kernels[step.kernel]
        if kernel.plans is None:
            kernel.plans = launch_plans.LaunchCache(kernel, self._ledger.kernel(kernel))
            assert kernel.summary is not None  # analysed now
        args: list[Any] = []
        for arg in step.args:
            if isinstance(arg, str):
                buffer = self.buffers.setdefault(arg, Buffer(NBYTES))
                args.append(BufferArg(buffer, 0, NBYTES))  # type: ignore[arg-type]
            else:
                args.append(struct.pack("=i", arg))
        offset = (0,) * len(step.global_size)
        return Launch(kernel, tuple(args), NDRange(step.global_size, step.local_size, offset))

    def launch(self, command: Launch) -> launch_plans.CachedPlan:
        """The plan of the launch; its buffers are as it leaves them."""
        cache = command.kernel.plans
        assert cache is not None
        found, buffers = cache.find(command, self._plan)
        for buffer, state in zip(buffers, found.states, strict=True):
            buffer.state = state
        return found

    @property
    def filled(self) -> int:
        """Plans that were filled in."""
        return sum(kernel.plans.forms.filled for kernel in self.kernels.values() if kernel.plans is not None)

    @property
    def traced(self) -> int:
        """Launches that were traced, so that others can be filled in."""
        return sum(kernel.plans.forms.traced for kernel in self.kernels.values() if kernel.plans is not None)

    def _plan(self, command: Launch, buffers: Any) -> launch_plans.CachedPlan:
        self.plans += 1
        return making_plans.make_plan(command, buffers, self.workers.options, self.workers)  # type: ignore[arg-type]


class Phases:
    """Microseconds of processor time spent in the parts of making a plan."""

    PARTS = "ranges", "plan", "steps", "counted"

    def __init__(self) -> None:
        self.spent = dict.fromkeys(self.PARTS, 0.0)
        self._inner = 0.0

    def __enter__(self) -> Phases:
        self._kept = making_plans.plan_launch, making_plans.count_plan, requests.evaluator
        plan, counted, evaluator = self._kept
        module: Any = making_plans
        module.plan_launch = self._timed("plan", plan)
        module.count_plan = self._timed("counted", counted)
        of_requests: Any = requests
        of_requests.evaluator = lambda *args: self._timed("ranges", evaluator(*args))
        self._prepare = Workers.prepare
        Workers.prepare = self._timed("steps", self._prepare)  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        module: Any = making_plans
        of_requests: Any = requests
        module.plan_launch, module.count_plan, of_requests.evaluator = self._kept
        Workers.prepare = self._prepare  # type: ignore[method-assign]

    def _timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **more: Any) -> Any:
            outer, self._inner = self._inner, 0.0
            begin = thread_time_ns()
            try:
                return function(*args, **more)
            finally:
                whole = (thread_time_ns() - begin) * 1e-3
                self.spent[part] += whole - self._inner
                self._inner = outer + whole

        return timed


def measure(name: str, workers: int, launches: int, *, near: bool) -> dict[str, Any]:
    bench = Bench(workers, near=near)
    steps = PROGRAMS[name](launches)
    bench.command(next(PROGRAMS[name](1)))  # analyses the kernel
    found = []
    for step in steps:
        command = bench.command(step)
        begin = thread_time_ns()
        bench.launch(command)
        found.append((thread_time_ns() - begin) * 1e-3)
    later = sorted(found[1:])
    parts = _parts(name, workers, launches, near=near)
    return {
        "first_us": found[0],
        "median_us": statistics.median(later),
        "mean_us": statistics.mean(later),
        "worst_tenth_us": later[len(later) * 9 // 10],
        "plans": bench.plans,
        "filled": bench.filled,
        "launches": launches,
        **parts,
    }


def _parts(name: str, workers: int, launches: int, *, near: bool) -> dict[str, float]:
    """The medians of what later launches spend on each part, in a run of its own: clocks take time, too."""
    bench = Bench(workers, near=near)
    found: dict[str, list[float]] = {part: [] for part in Phases.PARTS}
    for number, step in enumerate(PROGRAMS[name](launches)):
        command = bench.command(step)
        with Phases() as phases:
            bench.launch(command)
        for part, spent in phases.spent.items():
            if number:
                found[part].append(spent)
    return {f"{part}_us": statistics.median(spent) for part, spent in found.items()}


def profile(names: list[str], workers: int, launches: int, *, near: bool) -> None:
    for name in names:
        bench = Bench(workers, near=near)
        commands = list(PROGRAMS[name](launches))
        profiler = cProfile.Profile()
        for number, step in enumerate(commands):
            command = bench.command(step)
            if number:
                profiler.enable()
            bench.launch(command)
            profiler.disable()
        print(name)
        pstats.Stats(profiler).sort_stats("tottime").print_stats(30)


def count_bytecodes(name: str, workers: int, launches: int, *, near: bool) -> dict[str, Any]:
    """Bytecodes of each launch but the first, in thousands."""
    count = 0

    def count_each(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        count += event == "opcode"
        return count_each

    def enter(frame: FrameType, event: str, _: Any) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return count_each

    bench = Bench(workers, near=near)
    found: dict[str, list[float]] = {"filled": [], "planned": [], "traced": []}
    for number, step in enumerate(PROGRAMS[name](launches)):
        command = bench.command(step)
        before, count = (bench.plans, bench.filled, bench.traced), 0
        sys.settrace(enter)
        try:
            bench.launch(command)
        finally:
            sys.settrace(None)
        plans, filled, traced = (bench.plans - before[0], bench.filled - before[1], bench.traced - before[2])
        if number and plans:  # others were found
            found["traced" if traced else "filled" if filled else "planned"].append(count * 1e-3)
    everything = [each for of_kind in found.values() for each in of_kind]
    return {
        "filled_median": statistics.median(found["filled"]) if found["filled"] else 0.0,
        **{
            f"{kind}_mean": statistics.mean(found[kind]) if found[kind] else 0.0
            for kind in ("planned", "traced")
        },
        "mean": statistics.mean(everything),
        "launches": {kind: len(each) for kind, each in found.items()},
    }


def show_bytecodes(names: list[str], workers: int, launches: int, *, near: bool) -> dict[str, Any]:
    print(f"{'1,000':8}{'filled':>10}{'planned':>10}{'traced':>10}{'all':>10}   filled, planned, traced")
    found = {}
    for name in names:
        figures = found[name] = count_bytecodes(name, workers, launches, near=near)
        columns = ("filled_median", "planned_mean", "traced_mean", "mean")
        line = "".join(f"{figures[column]:10.1f}" for column in columns)
        print(f"{name:8}{line}   {', '.join(map(str, figures['launches'].values()))}", flush=True)
    return found


COLUMNS = "first", "median", "mean", "worst_tenth", "ranges", "plan", "steps", "counted"


def show_times(names: list[str], workers: int, launches: int, *, near: bool) -> dict[str, Any]:
    print(
        f"{'us':8}"
        + "".join(f"{column.replace('_', ' '):>13}" for column in COLUMNS)
        + f"{'filled, plans':>20}"
    )
    found = {}
    for name in names:
        figures = found[name] = measure(name, workers, launches, near=near)
        line = "".join(f"{figures[column + '_us']:13.0f}" for column in COLUMNS)
        print(f"{name:8}{line}{figures['filled']:9d}, {figures['plans']} / {figures['launches']}", flush=True)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--launches", type=int, default=200, help="launches of each program")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument(
        "--only", type=lambda text: text.split(","), default=list(PROGRAMS), help="programs by commas"
    )
    parser.add_argument("--near", action="store_true", help="workers that use the host's memory")
    parser.add_argument("--profile", action="store_true", help="say which functions take the time instead")
    parser.add_argument("--bytecodes", action="store_true", help="count bytecodes instead of measuring times")
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args()
    if options.profile:
        profile(options.only, options.workers, options.launches, near=options.near)
        return 0
    show = show_bytecodes if options.bytecodes else show_times
    found = show(options.only, options.workers, options.launches, near=options.near)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
