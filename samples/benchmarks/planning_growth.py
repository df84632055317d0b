"""How the cost of planning grows with buffers and workers: the planner alone, without any device.

    python samples/benchmarks/planning_growth.py [--launches N] [--json FILE]

Each program is planned launch by launch, every launch with other scalars, as on GPUs with memory of their own: its
ranges evaluated, its plan made, the state that it leaves taken for the next. With buffers of 2**20 to 2**36 bytes on
four workers, then with 2 to 64 workers. Shown are the median milliseconds of a plan and the most boxes that a buffer
lay in; with more workers, the instructions of a plan and the microseconds for each of them. Exit status 1 where a program's
largest buffers take more than 1.5 times its smallest, or its largest number of workers more than in proportion to
workers or to instructions: where each worker needs something of many others, plans have more instructions than that.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import thread_time
from typing import Any

from vdev.translators.frontend.source import parse_program
from vdev.translators.interpreter.access import KernelSummary, analyse_kernel
from vdev.translators.ranges.ndrange import NDRange
from vdev.translators.ranges.region import Region

from vdev.planner.directory import HOST, BufferState, buffer_state
from vdev.planner.footprints import PointerArg
from vdev.planner.habits import Habits
from vdev.planner.launch_request import LaunchOptions, LaunchRequest
from vdev.planner.launches import plan_launch
from vdev.planner.links import LinkCosts

SOURCE = """
kernel void panel(global float *a, int n, int k) {
    int row = get_global_id(0) + k, column = get_global_id(1) + k;
    if (row < n) a[row * (long)n + column] *= 0.5f;
}
kernel void update(global float *a, int n, int k, int tile) {
    int row = get_global_id(0) + k + tile, column = get_global_id(1) + k + tile;
    if (row < n && column < n) {
        float sum = 0;
        for (int j = 0; j < tile; ++j) sum += a[row * (long)n + k + j] * a[(k + j) * (long)n + column];
        a[row * (long)n + column] -= sum;
    }
}
kernel void tile(global float *a, int n, int k) {
    int x = get_global_id(0) + k, y = get_global_id(1) + k;
    if (x < n && y < n) a[y * (long)n + x] = a[y * (long)n + x] * 0.5f + k;
}
kernel void cross(global float *a, int n, int k, int tile) {
    int x = get_global_id(0), y = get_global_id(1);
    float low = a[y * (long)n + k + x % tile], high = a[(k + y % tile) * (long)n + x];
    if (low + high < a[y * (long)n + x]) a[y * (long)n + x] = low + high;
}
kernel void field(global float *to, global const float *from, int n) {
    int x = get_global_id(0) + 1, y = get_global_id(1) + 1, z = get_global_id(2) + 1;
    long at = (z * (long)n + y) * n + x;
    if (x < n - 1 && y < n - 1 && z < n - 1)
        to[at] += from[at + 1] - from[at - 1] + from[at + n] - from[at - n] + from[at + (long)n * n] - from[at - (long)n * n];
}
kernel void source(global float *a, int n, float value) { a[(n / 2 * (long)n + n / 2) * n + n / 2 + get_global_id(0) / 4096] = value; }
kernel void colour(global float *a, int n, int odd) {
    int x = 2 * get_global_id(0) + 1, y = get_global_id(1) + 1;
    x += (y + odd) % 2;
    if (x < n - 1 && y < n - 1) a[y * (long)n + x] = a[y * (long)n + x - 1] + a[y * (long)n + x + 1];
}
kernel void cross_out(global uchar *flags, long prime) { flags[prime * (prime + get_global_id(0))] = 0; }
kernel void heat(global float *to, global const float *from, int n, int first) {
    int i = get_global_id(0) + first;
    if (i > 0 && i < n - 1) to[i] = from[i - 1] + from[i + 1];
}
kernel void all_gather(global float *to, global const float *from, int n) {
    float sum = 0;
    for (int i = 0; i < n; ++i) sum += from[i];
    to[get_global_id(0)] = sum;
}
kernel void stripes(global float *a, int n, float factor) {
    for (int i = get_global_id(0); i < n; i += get_global_size(0)) a[i] *= factor;
}
kernel void columns(global float *a, int n, int first) {
    int y = get_global_id(0), x = first + get_global_id(1);
    a[y * (long)n + x] = 1;
}
kernel void transposed(global float *to, global const float *from, int n) {
    int x = get_global_id(0), y = get_global_id(1);
    to[x * (long)n + y] = from[y * (long)n + x];
}
kernel void reads_window(global float *to, global const float *from, int n, int k, int width) {
    int x = get_global_id(0), y = get_global_id(1);
    to[y * width + x] += from[(y + k) * (long)n + x + 2 * k];
}
kernel void halved(global float *a, int rest) {
    int i = get_global_id(0);
    a[i] += a[i + rest];
}
"""


@dataclass(frozen=True)
class Step:
    """One launch: kernel, sizes, buffers by pointer argument, scalars by argument number."""

    kernel: str
    global_size: tuple[int, ...]
    local_size: tuple[int, ...]
    buffers: dict[int, int]
    scalars: dict[int, int]


def factorisation(nbytes: int, launches: int) -> Iterator[Step]:
    n = side(nbytes, 2)
    width = n // 128
    for number in range(launches // 2):
        k = number * width
        yield Step("panel", (n - k, width), (4, width), {0: 0}, {1: n, 2: k})
        rest = n - k - width
        yield Step("update", (rest, rest), (4, 4), {0: 0}, {1: n, 2: k, 3: width})


def moving_tile(nbytes: int, launches: int) -> Iterator[Step]:
    n = side(nbytes, 2)
    for k in range(launches):
        yield Step("tile", (n // 8, n // 8), (8, 8), {0: 0}, {1: n, 2: k})


def moving_window(nbytes: int, launches: int) -> Iterator[Step]:
    """On a matrix that nobody writes."""
    n = side(nbytes, 2)
    for number in range(launches):
        k = number * max(n // 512, 1) % (n // 4)
        yield Step("reads_window", (n // 8, n // 8), (8, 8), {0: 0, 1: 1}, {2: n, 3: k, 4: n // 8})


def table(nbytes: int, launches: int) -> Iterator[Step]:
    n = side(nbytes, 2)
    for number in range(launches):
        yield Step("cross", (n, n), (8, 8), {0: 0}, {1: n, 2: number * 4 % n, 3: 4})


def fields(nbytes: int, launches: int) -> Iterator[Step]:
    n = side(nbytes, 3)
    for number in range(launches):
        if number % 4 == 3:
            yield Step("source", (4096,), (64,), {0: 0}, {1: n})
        else:
            yield Step("field", (n, n, n), (4, 4, 4), {0: number % 3, 1: (number + 1) % 3}, {2: n})


def red_black(nbytes: int, launches: int) -> Iterator[Step]:
    n = side(nbytes, 2)
    for number in range(launches):
        yield Step("colour", (n // 2, n), (8, 8), {0: 0}, {1: n, 2: number % 2})


def sieve(nbytes: int, launches: int) -> Iterator[Step]:
    primes = [p for p in range(2, 1000) if all(p % q for q in range(2, p))][:launches]
    for prime in primes:
        yield Step("cross_out", ((nbytes - 1) // prime - prime + 1,), (1,), {0: 0}, {1: prime})


def tiles_in_columns(nbytes: int, launches: int) -> Iterator[Step]:
    n = side(nbytes, 2)
    for number in range(launches):
        yield Step("columns", (n, 16), (8, 8), {0: 0}, {1: n, 2: number * 16 % (n - 16)})


def halos(nbytes: int, launches: int) -> Iterator[Step]:
    for number in range(launches):
        yield Step(
            "heat",
            (nbytes // 4 - 64,),
            (64,),
            {0: number % 2, 1: 1 - number % 2},
            {2: nbytes // 4, 3: number % 64},
        )


def everybody(nbytes: int, launches: int) -> Iterator[Step]:
    """Each worker writes its block of one array and reads all of the other: n * n copies in turn with none."""
    for number in range(launches):
        yield Step(
            "all_gather",
            (nbytes // 4,),
            (64,),
            {0: number // 2 % 2, 1: 1 - number // 2 % 2},
            {2: nbytes // 4},
        )


def strided(nbytes: int, launches: int) -> Iterator[Step]:
    for number in range(launches):
        yield Step("stripes", (4096 << number % 2,), (64,), {0: 0}, {1: nbytes // 4, 2: number})


def transposition(nbytes: int, launches: int) -> Iterator[Step]:
    """There and back: each worker needs something of every other one, n * n copies."""
    n = side(nbytes, 2)
    for number in range(launches):
        yield Step("transposed", (n, n), (8, 8), {0: number % 2, 1: 1 - number % 2}, {2: n})


def reduction(nbytes: int, launches: int) -> Iterator[Step]:
    """Sums of pairs, of these again, until few are left; then from the start."""
    for number in range(launches):
        half = nbytes // 8 >> number % 6
        yield Step("halved", (half,), (64,), {0: 0}, {1: half})


PROGRAMS = (
    factorisation,
    moving_tile,
    moving_window,
    table,
    fields,
    red_black,
    sieve,
    tiles_in_columns,
    halos,
    everybody,
    strided,
    transposition,
    reduction,
)


def side(nbytes: int, dimensions: int) -> int:
    """Elements of a side of a square or a cube of floats, a multiple of 8."""
    return int((nbytes // 4) ** (1 / dimensions) + 0.5) // 8 * 8


class Planner:
    """A program planned launch by launch, as a session does it that finds no plan from before: what it has is the
    cut that the kernel's launches had (`vdev.planner.habits`)."""

    def __init__(self, nbytes: int, workers: int, *, direct: bool = True, habits: bool = True) -> None:
        """`habits`: whether it has that."""
        self.nbytes = nbytes
        links = LinkCosts.uniform(workers, peer=0.1, per_run=64.0, direct=direct)
        self._options = LaunchOptions(tuple(range(workers)), links)
        self.states: dict[int, BufferState] = {}
        self._program = parse_program(SOURCE)
        self._summaries: dict[str, KernelSummary] = {}
        self._habits: dict[str, Habits] | None = {} if habits else None
        self.boxes = 0  #: in which the buffers of the last launch lie, the most of one
        self.most_boxes = 0
        self.instructions = 0  #: of the last plan
        self.moved_nbytes = 0

    def launch(self, step: Step) -> float:
        """Milliseconds of processor time of its evaluation and its plan."""
        summary = self._summaries.get(step.kernel)
        if summary is None:
            summary = self._summaries[step.kernel] = analyse_kernel(self._program, step.kernel)
        numbers = sorted(set(step.buffers.values()))
        for number in numbers:
            if number not in self.states:
                self.states[number] = buffer_state(self.nbytes, ((HOST, Region.span(0, self.nbytes)),))
        args = tuple(PointerArg(arg, numbers.index(of), 0, self.nbytes) for arg, of in step.buffers.items())
        sizes = dict.fromkeys(step.buffers, self.nbytes)
        values = {index: step.scalars[index] for index in summary.scalars}
        ndrange = NDRange(step.global_size, step.local_size, (0,) * len(step.global_size))
        begin = thread_time()
        request = LaunchRequest(
            args,
            ndrange,
            summary.of_launch(ndrange, values, sizes).of,
            summary.one_worker,
            habits=None if self._habits is None else self._habits.setdefault(step.kernel, Habits()),
        )
        plan = plan_launch([self.states[number] for number in numbers], request, self._options)
        found = (thread_time() - begin) * 1e3
        self.moved_nbytes += plan.moved_nbytes
        self.instructions = len(plan.instructions)
        for number, state in zip(numbers, plan.states, strict=True):
            self.states[number] = state
        self.boxes = max(sum(region.nboxes for _, region in state.valid) for state in plan.states)
        self.most_boxes = max(self.most_boxes, self.boxes)
        return found


def measure(program: Any, nbytes: int, workers: int, launches: int) -> dict[str, float]:
    planner = Planner(nbytes, workers)
    found, instructions = [], []
    for step in program(nbytes, launches):
        found.append(planner.launch(step))
        instructions.append(planner.instructions)
    return {
        "instructions": statistics.mean(instructions),
        "median_ms": statistics.median(found),
        "mean_ms": statistics.mean(found),
        "worst_ms": max(found[len(found) // 4 :]),
        "boxes": planner.most_boxes,
    }


def show(
    title: str, columns: Sequence[int], rows: dict[str, list[dict[str, float]]], beside: str = "boxes"
) -> None:
    print(f"{title:18}" + "".join(f"{column:>16}" for column in columns))
    for name, found in rows.items():
        print(f"{name:18}" + "".join(f"{each['median_ms']:9.2f} ({each[beside]:4.0f})" for each in found))


def show_each(columns: Sequence[int], rows: dict[str, list[dict[str, float]]]) -> None:
    """Microseconds of a plan for each of its instructions."""
    print(f"{'us an instruction':18}" + "".join(f"{column:>16}" for column in columns))
    for name, found in rows.items():
        print(
            f"{name:18}" + "".join(f"{1e3 * each['mean_ms'] / each['instructions']:16.0f}" for each in found)
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--launches", type=int, default=60, help="launches of each program")
    parser.add_argument("--only", help="one program")
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args()
    programs = [each for each in PROGRAMS if options.only in (None, each.__name__)]
    sizes, counts = [20, 24, 28, 32, 36], [2, 4, 8, 16, 32, 64]
    by_size = {p.__name__: [measure(p, 1 << size, 4, options.launches) for size in sizes] for p in programs}
    show("bytes, 2**", sizes, by_size)
    by_count = {
        p.__name__: [measure(p, 1 << 26, count, options.launches) for count in counts] for p in programs
    }
    show("workers", counts, by_count, "instructions")
    show_each(counts, by_count)
    if options.json:
        options.json.write_text(json.dumps({"sizes": by_size, "workers": by_count}, indent=1) + "\n")
    missed = []
    for name, found in by_size.items():
        if found[-1]["median_ms"] > 1.5 * found[0]["median_ms"]:
            missed.append(
                f"{name}: {found[-1]['median_ms'] / found[0]['median_ms']:.2f} times with larger buffers"
            )
    for name, found in by_count.items():
        most = max(counts[-1] / counts[0], found[-1]["instructions"] / found[0]["instructions"])
        if found[-1]["median_ms"] > most * found[0]["median_ms"]:
            missed.append(
                f"{name}: {found[-1]['median_ms'] / found[0]['median_ms']:.1f} times with {counts[-1]} workers"
            )
    for line in missed:
        print("missed:", line)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
