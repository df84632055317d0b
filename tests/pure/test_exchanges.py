"""What launches exchange over another number of workers, foretold from one plan and compared with the plan that is made for that number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from vdev.translators.interpreter.summaries import AccessRange
from vdev.translators.ranges.ndrange import Chunk, NDRange
from vdev.translators.ranges.region import Region

from vdev.planner.directory import BufferState, buffer_state
from vdev.planner.footprints import PointerArg
from vdev.planner.instructions import Plan
from vdev.planner.launch_request import LaunchOptions, LaunchRequest
from vdev.planner.launches import plan_launch
from vdev.planner.links import LinkCosts
from vdev.planner.regret import Stake, stake_of
from vdev.planner.spans import over

EDGE = 1 << 11  #: of a matrix of words, of which each work-item has a row
ROW = 4 * EDGE
NBYTES = EDGE * ROW
LOCAL = 64


def rows(start: int, stop: int) -> Region:
    return Region.span(max(start, 0) * ROW, min(stop, EDGE) * ROW)


def columns(start: int, stop: int) -> Region:
    return Region.boxes(4 * start, 4 * (stop - start), ((ROW, EDGE),))


@dataclass(frozen=True)
class Shape:
    """What a launch reads of the second buffer, by its rows, and what writes that: a launch by rows, or by this many work-items."""

    reads: Callable[[int, int], Region]
    writers: int = EDGE
    #: what it does to the first buffer; its own rows
    writes: Callable[[int, int], Region] = rows
    exact: bool = True
    also: Callable[[int, int], Region] | None = None  #: of a third buffer, written like the second
    least: int = 2  #: over fewer workers, nothing tells what it is over more

    def access(self, start: int, stop: int) -> list[AccessRange]:
        found = [
            AccessRange(0, "write", self.writes(start, stop), self.exact, reason="an index from memory"),
            AccessRange(1, "read", self.reads(start, stop), True),
        ]
        if self.also is not None:
            found.append(AccessRange(2, "read", self.also(start, stop), True))
        return found


def everything(start: int, stop: int) -> Region:
    return rows(0, EDGE)


def halo(start: int, stop: int) -> Region:
    return rows(start - 2, stop + 2)


SHAPES = {
    "all": Shape(everything),
    "a quarter for all": Shape(lambda start, stop: rows(0, EDGE // 4), least=8),
    "halo": Shape(halo),
    "one side": Shape(lambda start, stop: rows(start - 1, stop)),
    "transposition": Shape(columns),
    "table of one": Shape(lambda start, stop: rows(0, 16), writers=16),
    "all before": Shape(lambda start, stop: rows(0, stop)),
    "halo and all": Shape(halo, also=everything),
    "halo and transposition": Shape(halo, also=columns),
    "own": Shape(rows),
    "scatter": Shape(rows, writes=everything, exact=False),
}


def planned(shape: Shape, workers: int) -> tuple[Stake, Plan]:
    """Of the launch, where it and what writes have come often before."""
    options = LaunchOptions(tuple(range(workers)), LinkCosts.uniform(workers, direct=True))
    states: list[BufferState] = [buffer_state(NBYTES) for _ in range(3)]

    def launch(access: Callable[[int, int], list[AccessRange]], nitems: int) -> tuple[Stake | None, Plan]:
        ndrange = NDRange((nitems,), (min(LOCAL, nitems),), (0,))

        def evaluate(chunk: Chunk) -> list[AccessRange]:
            each = ndrange.local_size[0]
            return access(chunk.start[0] * each, min(chunk.stop[0] * each, nitems))

        args = tuple(PointerArg(slot, slot, 0, NBYTES) for slot in range(3))
        plan = plan_launch(states, LaunchRequest(args, ndrange, evaluate), options)
        stake = stake_of(plan, states, options.links, nitems, small=True)
        states[:] = plan.states
        return stake, plan

    def written(slots: tuple[int, ...]) -> Callable[[int, int], list[AccessRange]]:
        return lambda start, stop: [AccessRange(slot, "write", rows(start, stop), True) for slot in slots]

    launch(written((0, 1, 2)), EDGE)
    for _ in range(3):
        launch(written((1, 2)), shape.writers)
        stake, plan = launch(shape.access, EDGE)
    assert stake is not None
    assert stake.workers == workers
    return stake, plan


def close(foretold: float, planned: float) -> bool:
    return abs(foretold - planned) <= 0.25 * planned + 1e-9


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("now", [2, 4, 8])
@pytest.mark.parametrize("span", [2, 4, 8])
def test_what_is_foretold_is_what_is_planned(name: str, now: int, span: int) -> None:
    shape = SHAPES[name]
    if now < shape.least:
        return
    (stake, _), (there, _) = planned(shape, now), planned(shape, span)
    foretold = over(stake, now, span)
    assert (foretold.workers, foretold.share) == (there.workers, there.share)
    what = "messages", "busiest", "moved", "incoming"
    pairs = {each: (getattr(foretold, each), getattr(there, each)) for each in what}
    assert all(close(*pair) for pair in pairs.values()), pairs
