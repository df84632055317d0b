"""Exchanges: what a launch's plan moves between workers, and what one for another number of workers would move.

Over fewer workers, each of them has the chunks of several: what went from one of these to another does not move any more, and what
several needed of the same worker comes once. So that is added up from the regions in the plan, whatever the launch reads.

Over more, it is not in the plan which parts of a worker's chunk would need what. Each buffer's exchange is then of one kind, told by
what the chunks touch of it, and each kind has a law of its own:

- at the *edges* of chunks, neighbours need what does not depend on how large chunks are;
- *all* need all of a buffer that is spread over the workers: each receives what it does not hold;
- what is *turned* is read once, a part of it from everybody, as in a transposition;
- *one* worker sends a buffer to all, or combines the versions of all.

Decides nothing; knows no clock and no links.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from vdev.planner.directory import HOST
from vdev.planner.instructions import Copy, Fold, Gather, Instruction, Launch, Plan
from vdev.translators.ranges.region import Region
from vdev.translators.values import dataclass

#: of what all could touch beside each other, the part that is touched by several if all need all: a launch of which each chunk
#: needs what all before it do has half
_COMMON = 0.25
#: of what each worker would receive of a buffer that is turned, the part from which on it is
_TURNED = 0.5


class Route(NamedTuple):
    """Bytes that one worker has of another."""

    source: int
    target: int
    slot: int
    region: Region
    combined: bool  #: with others' versions of them


@dataclass(frozen=True, slots=True)
class Amounts:
    """What moves between workers."""

    messages: float = 0.0  #: pairs of workers of which one sends to the other
    busiest: float = 0.0  #: of these, the most that come to one worker
    incoming: float = 0.0  #: the most bytes that come to one worker
    outgoing: float = 0.0  #: the most that one sends

    @property
    def moved(self) -> float:
        """Bytes over the busiest link."""
        return max(self.incoming, self.outgoing)


class Kind(Enum):
    """How an exchange depends on the number of workers."""

    EDGES = "edges"
    ALL = "all"
    TURNED = "turned"
    FROM_ONE = "from one"
    TO_ONE = "to one"


class Routes:
    """What one plan moves between workers."""

    __slots__ = ("_found", "_members", "_plan", "_routes", "_touched")

    def __init__(self, plan: Plan) -> None:
        self._plan: Plan | None = plan  #: until somebody asks: most plans are never weighed
        self._routes: list[Route] = []
        self._members: tuple[int, ...] = ()  #: the workers that run chunks, ascending
        self._touched: dict[
            int, dict[int, Region]
        ] = {}  #: by slot and worker: what its chunk reads or writes
        self._found: dict[tuple[int, int], Amounts] = {}

    def over(self, now: int, span: int) -> Amounts:
        """What moves where the launch is split over `span` of the workers instead of `now`, not more of them than it has chunks if
        these are fewer.
        """
        found = self._found.get((now, span))
        if found is None:
            self._look()
            found = self._found[now, span] = self._over(now, span)
        return found

    def _look(self) -> None:
        plan, self._plan = self._plan, None
        if plan is not None:
            self._routes = list(_routes_of(plan.instructions))
            self._members = tuple(sorted([worker for worker, _ in plan.partition]))
            slots = {route.slot for route in self._routes}
            self._touched = _touched(plan, slots) if slots else {}

    def _over(self, now: int, span: int) -> Amounts:
        before = len(self._members)
        if span <= before:
            # By their numbers, and not by their chunks', which may be in another order: who holds what goes on from launch to launch.
            place = {worker: rank * span // before for rank, worker in enumerate(self._members)}
            for worker in range(now):
                place.setdefault(worker, worker * span // now)
            return _amounts(self._routes, place)
        here = _amounts(self._routes, {})
        slots = [self._more(slot, span) for slot in sorted({route.slot for route in self._routes})]
        alone = [each for each, _ in slots]
        # Buffers share messages, and the workers that are busiest with each may be others.
        many = _ratio([each.messages for each in alone], [each.messages for _, each in slots], max)
        most = _ratio([each.busiest for each in alone], [each.busiest for _, each in slots], max)
        into = _ratio([each.incoming for each in alone], [each.incoming for _, each in slots], sum)
        out = _ratio([each.outgoing for each in alone], [each.outgoing for _, each in slots], sum)
        return Amounts(
            here.messages * many,
            min(here.busiest * most, span - 1),
            here.incoming * into,
            here.outgoing * out,
        )

    def _more(self, slot: int, after: int) -> tuple[Amounts, Amounts]:
        """What moves of one buffer, and would over more workers."""
        routes, before = [route for route in self._routes if route.slot == slot], len(self._members)
        here = _amounts(routes, {})
        return here, grown(here, self._kind(slot, routes, here), before, after)

    def _kind(self, slot: int, routes: Sequence[Route], here: Amounts) -> Kind:
        workers, regions = len(self._members), list(self._touched.get(slot, {}).values())
        largest = max((region.nbytes for region in regions), default=0)
        if not largest:
            return Kind.EDGES
        union = _together(regions)
        common = (sum(region.nbytes for region in regions) / union - 1) / (workers - 1)
        if common >= _COMMON:
            whole = max(route.region.nbytes for route in routes) > (1 + 1 / workers) / 2 * union
            if not whole:
                return Kind.ALL
            return Kind.TO_ONE if any(route.combined for route in routes) else Kind.FROM_ONE
        turned = here.incoming >= _TURNED * largest * (workers - 1) / workers
        return Kind.TURNED if turned else Kind.EDGES


def grown(here: Amounts, kind: Kind, before: int, after: int) -> Amounts:
    """What moves of a buffer over `after` workers if over `before` so much does.

    >>> grown(Amounts(2, 1, 8, 8), Kind.ALL, 2, 4)
    Amounts(messages=12.0, busiest=3.0, incoming=12.0, outgoing=12.0)
    """
    others = (after - 1) / (before - 1)
    pairs = others * after / before
    if kind is Kind.EDGES:
        # Each boundary between two chunks has as many messages as before; those in the middle have two.
        each = max(round(here.messages / (before - 1)), 1)
        busiest = min(max(here.busiest, each), after - 1)
        more = busiest / here.busiest
        return Amounts(here.messages * others, busiest, here.incoming * more, here.outgoing * more)
    if kind is Kind.FROM_ONE:
        return Amounts(here.messages * others, here.busiest, here.incoming, here.outgoing * others)
    if kind is Kind.TO_ONE:
        return Amounts(here.messages * others, here.busiest * others, here.incoming * others, here.outgoing)
    part = others * before / after
    if kind is Kind.TURNED:
        part *= before / after
    return Amounts(here.messages * pairs, here.busiest * others, here.incoming * part, here.outgoing * part)


def _ratio(before: list[float], after: list[float], of: Callable[[list[float]], float]) -> float:
    return of(after) / of(before) if any(before) else 1.0


def _routes_of(instructions: Iterable[Instruction]) -> Iterable[Route]:
    """Without what goes to the host and comes from it."""
    for item in instructions:
        if isinstance(item, Copy):
            if HOST not in (item.source, item.target):
                yield Route(item.source, item.target, item.slot, item.region, False)
        elif isinstance(item, Gather):
            if item.source != item.worker:
                yield Route(item.source, item.worker, item.slot, item.region, True)
        elif isinstance(item, Fold):
            for source, region in item.parts:
                yield Route(source, item.worker, item.slot, region, True)


def _touched(plan: Plan, slots: set[int]) -> dict[int, dict[int, Region]]:
    found: dict[int, dict[int, Region]] = {}
    for item, touches in zip(plan.instructions, plan.touches, strict=True):
        if isinstance(item, Launch):
            for touch in touches:
                if touch.slot in slots:
                    workers = found.setdefault(touch.slot, {})
                    before = workers.get(item.worker)
                    workers[item.worker] = touch.region if before is None else before | touch.region
    return found


def _amounts(routes: Iterable[Route], place: Mapping[int, int]) -> Amounts:
    """What moves if each worker's chunk is at another place, where several may be."""
    regions: dict[tuple[int, int, int], list[Region]] = {}
    for source, target, slot, region, _ in routes:
        there = place.get(source, source), place.get(target, target), slot
        if there[0] != there[1]:
            regions.setdefault(there, []).append(region)
    incoming: dict[int, int] = {}
    outgoing: dict[int, int] = {}
    for (source, target, _), several in regions.items():
        nbytes = _together(several)
        incoming[target] = incoming.get(target, 0) + nbytes
        outgoing[source] = outgoing.get(source, 0) + nbytes
    pairs = {(source, target) for source, target, _ in regions}
    counts = Counter([target for _, target in pairs])
    return Amounts(
        float(len(pairs)),
        float(max(counts.values(), default=0)),
        float(max(incoming.values(), default=0)),
        float(max(outgoing.values(), default=0)),
    )


def _together(regions: Sequence[Region]) -> int:
    """Bytes that are in any of them: often each is the same, since several workers need it."""
    first = regions[0]
    if len(regions) == 1 or all(region is first or region == first for region in regions):
        return first.nbytes
    return Region.union(regions).nbytes
