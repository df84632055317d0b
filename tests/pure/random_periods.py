"""Random programs on simulated machines: `python -m tests.pure.random_periods [--seeds 0:1000] [--show SEED]`.

Each repeats a period of a few launches, whose kernels touch their buffers in different ways and take microseconds to milliseconds, with
a look at its results now and then. It runs on one GPU, on several as vdev chooses, and split over each number of them whatever that
costs. Printed is what the choices cost: of the whole program, beside one GPU; of its last quarter, beside the best of these.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import isqrt
from random import Random
from typing import Any

import pytest
from vdev.translators.ranges.ndrange import Chunk

from tests.pure.shapes import SOURCE, Machine
from tests.pure.test_never_slower import PCIE, Bench, simulated_host
from tests.pure.virtual_gpus import PEER_BYTES_PER_SECOND
from vdev.planner.launch_search import ITEMS_PER_UNIT
from vdev.planner.spans import ONE, halves
from vdev.session.choosing import Choosing

#: bytes a second from GPU to GPU
RATES = (PEER_BYTES_PER_SECOND, 120e9, PCIE)
#: seconds on one GPU that programs take about, and the most launches that they make
LENGTH, MOST_LAUNCHES = 0.3, 1500
#: the most launches of a period
MOST_IN_PERIOD = 7
#: seconds of launches over all elements on one GPU, from and to
SHORTEST, LONGEST = 4e-6, 3e-3
#: work-items of a work-group, and those that a GPU runs at once: fewer take as long
GROUP, FULL = 64, 132 * ITEMS_PER_UNIT


@dataclass(frozen=True)
class Step:
    """A launch; or a look at the first bytes of a buffer, where there is no kernel."""

    kernel: str
    nitems: int
    buffers: tuple[int, ...]
    numbers: tuple[int, ...] = ()


@dataclass(frozen=True)
class Program:
    """Its period, and the machine that it runs on."""

    workers: int
    rate: float
    log: int  #: of the elements of a buffer, 2 ** log
    buffers: int
    period: tuple[Step, ...]
    per_item: dict[str, float]
    turns: bool  #: whether the first two buffers change places after each period
    count: int  #: periods

    def __str__(self) -> str:
        steps = "; ".join(
            f"{step.kernel or 'look'}{step.buffers} {max(step.nitems, FULL) * self.per_item.get(step.kernel, 0) * 1e6:.0f} us"
            for step in self.period
        )
        linked = f"{self.workers} GPUs, {self.rate / 1e9:.0f} GB/s, 2^{self.log} elements"
        return f"{linked}, {self.count} periods{' in turns' * self.turns}: {steps}"


def _step(random: Random, log: int, buffers: int) -> Step:
    """Any kernel on any buffers: the same elements, neighbours, four for one, places from a table, rows, columns, or counted."""
    n = 1 << log
    one, other, third = random.sample(range(buffers), 3)
    part = n >> random.choice((0, 0, 0, 2, 5))
    side = isqrt(n)
    return random.choice(
        (
            Step("alone", part, (one,)),
            Step("produce", part, (one, other)),
            Step("produce", n, (one, other)),
            Step("smooth", n, (one, other), (n,)),
            Step("smooth", part, (one, other), (part,)),
            Step("consume", n // 4, (one, other)),
            Step("pick", n, (one, other, third)),
            Step("rows", side, (one,), (side,)),
            Step("columns", side, (one,), (side,)),
            Step("residual", n, (buffers, one, other)),
            Step("", 0, (one,)),
        )
    )


def draw(seed: int) -> Program:
    """The program of this number."""
    random = Random(seed)
    workers, rate = random.choice((2, 4, 8)), random.choice(RATES)
    log, buffers = 2 * random.randint(8, 12), random.randint(3, 5)
    period = [_step(random, log, buffers) for _ in range(random.randint(1, MOST_IN_PERIOD))]
    if not any(step.kernel for step in period):
        period.append(Step("alone", 1 << log, (0,)))
    longest = random.choice((3e-5, 3e-4, LONGEST))
    per_item = {}
    for step in period:
        if step.kernel and step.kernel not in per_item:
            seconds = SHORTEST * (longest / SHORTEST) ** random.random()
            per_item[step.kernel] = seconds / max(step.nitems, FULL)
    each = sum(max(step.nitems, FULL) * per_item[step.kernel] + 1e-5 for step in period if step.kernel)
    count = min(int(LENGTH / each), MOST_LAUNCHES // len(period))
    return Program(
        workers, rate, log, buffers, tuple(period), per_item, random.random() < 0.4, max(count, 16)
    )


@contextmanager
def forced() -> Iterator[None]:
    """All launches are split over all workers."""
    made = Choosing.__init__

    def begin(self: Choosing, *args: Any, **settings: Any) -> None:
        made(self, *args, **settings | {"thrifty": False, "exchanges": False})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Choosing, "__init__", begin)
        yield


def quarters(program: Program, workers: int) -> list[float]:
    """Seconds of each quarter."""
    with simulated_host() as benches:
        per_item: dict[str, Any] = {name: _chunks(program.per_item.get(name, 0.0)) for name in _names()}
        bench = Bench(per_item, 0, 0, workers, program.rate)
        bench.build(SOURCE)
        benches.append(bench)
        bench.program.machine.latency = 1e-5
        machine = Machine(bench, 0.0)
        buffers = [machine.zeros(1 << program.log) for _ in range(program.buffers)] + [machine.zeros(16)]
        found = [bench.program.wait()]
        for quarter in range(4):
            for _ in range((quarter + 1) * program.count // 4 - quarter * program.count // 4):
                _period(machine, program, buffers)
            found.append(bench.program.machine.seconds)
        found[-1] = bench.program.wait()
    return [after - before for before, after in itertools.pairwise(found)]


def _chunks(per_item: float) -> Callable[[Chunk], float]:
    """Seconds of a chunk."""
    return lambda chunk: max(chunk.ngroups * GROUP, FULL) * per_item


def _names() -> list[str]:
    return [line.split("(")[0].split()[-1] for line in SOURCE.splitlines() if line.startswith("kernel")]


def _period(machine: Machine, program: Program, buffers: list[Any]) -> None:
    for step in program.period:
        given = [buffers[number] for number in step.buffers]
        if step.kernel:
            machine.run(step.kernel, step.nitems, *given, *step.numbers)
        else:
            machine.read(given[0], 4096)
    if program.turns:
        buffers[:2] = buffers[1::-1]


@dataclass(frozen=True)
class Found:
    """Seconds by quarter: on one GPU, as chosen, and split over each number of them."""

    one: list[float]
    chosen: list[float]
    forced: dict[int, list[float]]

    @property
    def lost(self) -> float:
        """Seconds that the program takes longer than on one GPU."""
        return sum(self.chosen) - sum(self.one)

    @property
    def slower(self) -> float:
        """Its last quarter, beside that on one GPU."""
        return self.chosen[-1] / self.one[-1]

    @property
    def best(self) -> tuple[int, float]:
        """The number of GPUs whose last quarter is the shortest, and its seconds."""
        ways = {ONE: self.one, **self.forced}
        span = min(ways, key=lambda each: ways[each][-1])
        return span, ways[span][-1]


def run(program: Program, *, force: bool = True) -> Found:
    """The program in each way."""
    ways = {}
    if force:
        with forced():
            ways = {span: quarters(program, span) for span in halves(program.workers)}
    return Found(quarters(program, 1), quarters(program, program.workers), ways)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.pure.random_periods", description=__doc__)
    parser.add_argument("--seeds", default="0:100", help="from the first to before the last")
    arguments = parser.parse_args()
    os.environ["VDEV_CACHE"] = "0"
    first, last = map(int, arguments.seeds.split(":"))
    for seed in range(first, last):
        program = draw(seed)
        found = run(program)
        span, seconds = found.best
        print(
            f"{seed}: lost {found.lost * 1e3:.1f} ms of {sum(found.one) * 1e3:.1f}; last quarter {found.slower:.3f} of one, "
            f"{found.chosen[-1] / seconds:.3f} of the best ({span}); {program}",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
