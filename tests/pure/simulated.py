"""`python -m tests.pure.simulated`: what vdev chooses, and gains, on machines of 1 to 16 GPUs that are simulated.

The programs are those of `samples/benchmarks/planning.py` at their large sizes, on H200 as `virtual_gpus` has them: linked all to
all, and eight that are linked by PCIe alone. One GPU takes what NVIDIA's OpenCL took for the program on an H200
(`samples/benchmarks/results/h200_planning.json`); every work-item takes the same. `fill_and_sum` and `triangular` are the samples, with
seconds of each kernel as on an H100. The host takes time for each
call of a driver and each plan, as in `test_never_slower`. The second half of a program is what counts, when the ways are
chosen; nothing is kept from one run to the next. `--write FILE` writes a table (.md), its numbers (.json) and a plot (.png);
`--only NAMES`, the other rows stay as they are; `--limit SECONDS` for each cell; `--plan SECONDS` for each plan that is made:
0.0001, but first plans take some milliseconds. `--machines 2,4` has only these.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.pure import test_never_slower
from tests.pure.test_choosing import source_of
from tests.pure.test_never_slower import (
    FLOOR,
    PCIE,
    Bench,
    planning_programs,
    rows_of_a_triangle,
    simulated_host,
)
from tests.pure.virtual_gpus import PEER_BYTES_PER_SECOND
from vdev.planner.instructions import Plan
from vdev.session.commands import Command
from vdev.session.commands import Launch as LaunchCommand

RESULTS = Path(__file__).parents[2] / "samples" / "benchmarks" / "results"
#: (heading, GPUs, bytes a second from GPU to GPU)
MACHINES = (
    ("2", 2, PEER_BYTES_PER_SECOND),
    ("4", 4, PEER_BYTES_PER_SECOND),
    ("8", 8, PEER_BYTES_PER_SECOND),
    ("16", 16, PEER_BYTES_PER_SECOND),
    ("8, PCIe", 8, PCIE),
)


def fill_and_sum(bench: Bench) -> Iterator[int]:
    """The sample: a vector is filled in blocks and added up in strides of the grid, again and again."""
    n, groups, each = bench.size, 4096, 256
    bench.build(source_of("fill_and_sum"), GROUP=each)
    values, sums = bench.zeros(n), bench.zeros(groups)
    yield bench.steps
    for number in range(bench.steps):
        bench.run("fill", (n,), (each,), values, np.float32(1), np.uint32(number), np.uint32(n))
        bench.run("sum", (groups * each,), (each,), values, sums, np.uint32(n))
        yield number


def triangular(bench: Bench) -> Iterator[int]:
    """The sample: row i of a matrix has i + 1 elements."""
    n = bench.size
    bench.build(source_of("triangular"), GROUP=64)
    buffers = [bench.zeros(count) for count in (n * (n + 1) // 2, n, n)]
    yield bench.steps
    for number in range(bench.steps):
        bench.run("multiply", (64 * n,), (64,), *buffers)
        yield number


#: samples: program, size, steps, and seconds of each kernel for a work-item or a chunk
SAMPLES: dict[str, tuple[Any, int, int, dict[str, Any]]] = {
    "fill_and_sum": (fill_and_sum, 1 << 29, 80, {"fill": 0.9e-3 / (1 << 29), "sum": 1.3e-3 / (4096 * 256)}),
    "triangular": (triangular, 24576, 400, {"multiply": rows_of_a_triangle(24576, 0.43e-3)}),
}
#: what needs sub-buffers, copies or maps buffers, or writes arrays, by PyOpenCL's own calls
FACADES = ("sub_buffers", "ring", "wavelet", "receivers")


class TooLong(Exception):
    """A cell takes longer than it may."""


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """TooLong after so many seconds."""

    def ring(*_: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class _Bench(Bench):
    """Kernels that nothing is known of take next to nothing."""

    def build(self, source: str, **numbers: int) -> None:
        for name in re.findall(r"\bvoid\s+(\w+)\s*\(", source):
            self._per_item.setdefault(name, 1e-15)
        super().build(source, **numbers)


class Halves:
    """A program on a simulated machine: seconds of both halves, and on how many workers launches of the second ran."""

    def __init__(
        self, name: str, per_item: dict[str, float], workers: int, rate: float, benches: list[Bench]
    ) -> None:
        if name in SAMPLES:
            program, *size, _ = SAMPLES[name]
        else:
            program, sizes = planning_programs.PROGRAMS[name]
            size = [*sizes["large"]]
        self.bench = _Bench(per_item, *size, workers, rate)
        self.steps: Any = program(self.bench)
        self.total: int = next(self.steps)
        benches.append(self.bench)
        self.spans: Counter[int] = Counter()
        self.items: Counter[str] = Counter()  #: work-items by kernel
        self.launches: Counter[str] = Counter()

    def run(self) -> tuple[float, float]:
        program = self.bench.program
        program.session.observers.append(self._observe)
        found = [program.wait()]
        for number, _ in enumerate(self.steps, start=1):
            if number == self.total // 2:
                found.append(program.wait())
                self.spans.clear()
        found.append(program.wait())
        program.session.close()
        return found[1] - found[0], found[2] - found[1]

    def _observe(self, command: Command, plan: Plan) -> None:
        if not isinstance(command, LaunchCommand):
            return
        self.spans[len(plan.partition)] += 1
        self.items[command.kernel.name] += command.ndrange.nitems
        self.launches[command.kernel.name] += 1


def kernel_times(name: str, seconds: float, benches: list[Bench]) -> dict[str, float]:
    """Seconds of each of a program's kernels for a work-item, so that one GPU takes so long for all of it."""
    run = Halves(name, {}, 1, PEER_BYTES_PER_SECOND, benches)
    run.run()
    launches = sum(run.launches.values())
    each = max(seconds - launches * FLOOR, seconds / 2) / sum(run.items.values())
    return dict.fromkeys(run.items, each)


def rows(
    only: Sequence[str], limit: float, machines: Sequence[tuple[str, int, float]] = MACHINES
) -> Iterator[dict[str, Any]]:
    """For each program: seconds of its second half on one GPU, and by machine how many times as fast, on how many GPUs."""
    measured = json.loads((RESULTS / "h200_planning.json").read_text())["columns"]["native"]["programs"]
    for name in (*planning_programs.PROGRAMS, *SAMPLES):
        if (only and name not in only) or name not in (*measured, *SAMPLES) or name in FACADES:
            continue
        row: dict[str, Any] = {"program": name, "machines": {}}
        try:
            with within(limit), simulated_host() as benches:
                if name in SAMPLES:
                    per_item = SAMPLES[name][3]
                else:
                    per_item = kernel_times(name, measured[name]["again"], benches)
                one = Halves(name, per_item, 1, PEER_BYTES_PER_SECOND, benches).run()
                row["seconds"] = sum(one)
        except TooLong:
            print(f"{name}: not done in {limit:.0f} s", file=sys.stderr)
            continue
        for heading, workers, rate in machines:
            began = time.monotonic()
            try:
                with within(limit), simulated_host() as benches:
                    run = Halves(name, per_item, workers, rate, benches)
                    took = run.run()
            except TooLong:
                continue
            launches = max(sum(run.spans.values()), 1)
            row["machines"][heading] = {
                "speedup": sum(one) / sum(took),
                "second half": one[1] / took[1],
                "workers": sum(workers * count for workers, count in run.spans.items()) / launches,
                "simulated in": time.monotonic() - began,
            }
        yield row


def table(found: Sequence[dict[str, Any]]) -> str:
    """As Markdown: how many times as fast as one GPU, and on how many GPUs a launch ran in the mean."""
    headings = [heading for heading, _, _ in MACHINES]
    lines = [
        f"| program | one GPU, ms | {' | '.join(headings)} |",
        f"|---|---:|{'---:|' * len(headings)}",
    ]
    for row in found:
        cells = [row["machines"].get(heading) for heading in headings]
        shown = [
            ""
            if cell is None
            else f"{cell['speedup']:.2f} / {cell['second half']:.2f} ({cell['workers']:.1f})"
            for cell in cells
        ]
        lines.append(f"| {row['program']} | {row['seconds'] * 1e3:.1f} | {' | '.join(shown)} |")
    return "\n".join(lines)


def merged(found: Sequence[dict[str, Any]], path: Path) -> list[dict[str, Any]]:
    """Those rows in the place of earlier ones of the same programs."""
    before = json.loads(path.read_text())["rows"] if path.exists() else []
    names = [row["program"] for row in found]
    rows = [*(row for row in before if row["program"] not in names), *found]
    order = [*planning_programs.PROGRAMS, *SAMPLES]
    return sorted(rows, key=lambda row: order.index(row["program"]))


def plot(found: Sequence[dict[str, Any]], path: Path) -> None:
    """Speed-ups by number of GPUs, a line for each program."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 6))
    counts = [workers for heading, workers, rate in MACHINES if rate != PCIE]
    for row in found:
        cells = [row["machines"].get(str(count)) for count in counts]
        speedups = [1.0, *(float("nan") if cell is None else cell["speedup"] for cell in cells)]
        axes.plot([1, *counts], speedups, marker="o", label=row["program"])
    axes.plot([1, *counts], [1, *counts], color="grey", linestyle=":", label="ideal")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xlabel("simulated GPUs, linked all to all")
    axes.set_ylabel("times as fast as one GPU")
    axes.legend(fontsize=7, ncols=2)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.pure.simulated", description=__doc__)
    parser.add_argument("--only", default="", help="programs, separated by commas")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for each cell")
    parser.add_argument(
        "--write", type=Path, help="where to write the table, numbers and plot, without an ending"
    )
    parser.add_argument("--machines", default="", help="those with these headings, separated by commas")
    parser.add_argument("--plan", type=float, default=0.0001, help="seconds that the making of a plan takes")
    arguments = parser.parse_args()
    os.environ["VDEV_CACHE"] = "0"
    test_never_slower.PLAN = arguments.plan
    found = []
    wanted = arguments.machines.split(",")
    machines = [each for each in MACHINES if each[0] in wanted] or MACHINES
    for row in rows([name for name in arguments.only.split(",") if name], arguments.limit, machines):
        found.append(row)
        print(table([row]).splitlines()[-1], flush=True)
    if arguments.write is not None:
        found = merged(found, arguments.write.with_suffix(".json"))
        plan = "" if arguments.plan == parser.get_default("plan") else f"--plan {arguments.plan:g} "
        command = f"python -m tests.pure.simulated {plan}--write {arguments.write}"
        text = f"{(__doc__ or '').partition('`--write')[0].split(':', 1)[1].strip()}\n\n{table(found)}\n"
        arguments.write.with_suffix(".md").write_text(f"# Simulated machines\n\nMade by `{command}`: {text}")
        arguments.write.with_suffix(".json").write_text(
            json.dumps({"command": command, "rows": found}, indent=1) + "\n"
        )
        plot(found, arguments.write.with_suffix(".png"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
