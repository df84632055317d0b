"""Orders: which workers have to wait for which before a compiled plan, as far as the plans before it decide that.

Programs repeat themselves, and so does the question which worker has to wait for which one's fence. What answers it is how the
buffers' records, the fences and the waits that were handed over stand to each other: an `Order`. A plan leads from one order to
the next, always with the same fences and waits in between, so that they are worked out once.

Whatever a worker is given comes after what its plan waits for; but for an interior (`vdev.planner.interiors`), beside which the rest of its
plan on that worker is carried out: it reads nothing of others' replicas, and comes only after those that read bytes which it changes.

Numbers of steps are replaced by ranks among those of the same worker: after a period of a program everything stands as it did before.
What every other worker is ordered after anyway has rank 0 and is left out. Nothing is known to be complete here, so there may be a
wait for what has long ended; there is none too few. Pure: it asks neither workers nor devices.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from vdev.translators.ranges.region import Region

#: orders that are remembered: hundreds of plans in turn
_MOST_ORDERS = 1024
#: ways from one to another, each of which keeps its plan
_MOST_EDGES = 4096

#: ranks of steps: what has changed a worker's replica last, by (buffer, worker); what other workers read of it since, by (buffer, worker,
#: reader); what a worker is ordered after, by (worker, other one); and what a worker's fence is behind. And which bytes those readers read,
#: where that is known
Ranks: TypeAlias = tuple[
    dict[tuple[Hashable, int], int],
    dict[tuple[Hashable, int, int], int],
    dict[tuple[int, int], int],
    dict[int, int],
    dict[tuple[Hashable, int, int], Region],
]
_NONE: Ranks = {}, {}, {}, {}, {}


class Leg(NamedTuple):
    """Steps of one worker's in a plan that follow one another."""

    worker: int
    last: int  #: how many steps of the worker's there are in the plan up to here
    after: Sequence[int]  #: workers whose fences in this plan come first
    fences: bool  #: whether the worker's fence is put behind it


class Accesses(NamedTuple):
    """What a plan does, in the order in which it is handed over. Steps are counted from the plan's first one of each worker's."""

    #: changes of a worker's own replica: (buffer, worker, steps of that worker's up to the last change)
    changes: Sequence[tuple[Hashable, int, int]]
    #: reads of another worker's replica: (buffer, whose, the reader, steps of the reader's up to the last read)
    reads: Sequence[tuple[Hashable, int, int, int]]
    legs: Sequence[Leg]
    #: the bytes that are read, by (buffer, whose, the reader), where they are known
    regions: Mapping[tuple[Hashable, int, int], Region] = MappingProxyType({})
    #: what interiors change: (buffer, worker, bytes)
    interiors: Sequence[tuple[Hashable, int, Region]] = ()

    def without_bytes(self) -> Accesses:
        """The same where nobody asks which bytes were read."""
        return Accesses(self.changes, self.reads, self.legs)


class Order:
    """How the workers' work stands to each other, and what has to be done for the plans that came next from here."""

    __slots__ = ("edges", "ranks")

    def __init__(self, ranks: Ranks) -> None:
        self.ranks = ranks
        self.edges: dict[Any, Edge] = {}  #: by plan


class Edge:
    """What is put before the work of a plan, and the order that it leaves."""

    __slots__ = ("early", "fences", "order", "places", "waits")

    def __init__(
        self,
        fences: Sequence[int],
        waits: Sequence[tuple[int, int]],
        order: Order | None,
        early: Collection[tuple[int, int]] | None = None,
    ) -> None:
        self.fences = fences  #: workers whose fences are put, behind all that they were given
        self.waits = waits  #: (worker, another one whose fence it waits for then)
        self.early = waits if early is None else early  #: those that an interior comes after, too
        self.order = order  #: None where it was looked up in the buffers' records: then nobody knows
        self.places: Any = None  #: for who hands the plan over


class Orders:
    """The orders of one executor's workers, of which there are `count`. Under the session's lock."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._known: dict[Hashable, Order] = {}
        self._nedges = 0  #: since they were forgotten
        self._by_bytes = False  #: whether any plan had interiors: else nobody asks which bytes were read
        #: where every worker is ordered after all that the others were given
        self.root = Order(_NONE)

    def after(self, order: Order, plan: Hashable, accesses: Accesses) -> Edge:
        """What a plan with these accesses needs in an order. It is looked up in `Order.edges` first."""
        if len(self._known) >= _MOST_ORDERS or self._nedges >= _MOST_EDGES:
            self._nedges = 0
            self._known.clear()
            order.edges.clear()
            self.root = Order(_NONE)
        self._by_bytes = self._by_bytes or bool(accesses.interiors)
        if not self._by_bytes and accesses.regions:
            accesses = accesses.without_bytes()
        fences, waits, early, ranks = advance(order.ranks, accesses, self._count)
        key = tuple([frozenset(part.items()) for part in ranks])
        following = self._known.get(key)
        if following is None:
            following = self._known[key] = Order(ranks)
        self._nedges += 1
        edge = order.edges[plan] = Edge(fences, waits, following, early)
        return edge


def advance(
    ranks: Ranks, accesses: Accesses, count: int
) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...], frozenset[tuple[int, int]], Ranks]:
    """The fences to be put, the waits, those of them that interiors come after, and the ranks after a plan, for so many workers: the same
    as `CompiledPlan`, `PlanList` and `HazardsOfPlan` do where nothing is known to be complete.

    >>> halves = [("a", 0, 1), ("a", 1, 1)]  # each of two workers changes its own replica
    >>> split = Accesses(halves, (), [Leg(0, 1, (), False), Leg(1, 1, (), False)])
    >>> fetch = Accesses((), [("a", 1, 0, 1)], [Leg(0, 1, (), False)])  # worker 0 reads that of worker 1
    >>> fences, waits, _, ranks = advance(({}, {}, {}, {}, {}), split, 2)
    >>> fences, waits
    ((), ())
    >>> advance(ranks, fetch, 2)[:2]
    ((1,), ((0, 1),))
    """
    written, readers, ordered, fenced, regions = _copied(ranks)
    top = _tops(ranks, count)
    early = _early(ranks, accesses)
    fences: list[int] = []
    waits: list[tuple[int, int]] = []
    for (worker, other), step in _needs(written, readers, accesses).items():
        if ordered.get((worker, other), 0) < step:
            waits.append((worker, other))
            if fenced.get(other, 0) < step and other not in fences:
                fences.append(other)
    for other in fences:
        fenced[other] = top[other]
    for worker, other in waits:
        ordered[worker, other] = fenced[other]
    _go_through(accesses.legs, top, ordered, fenced)
    for buffer, worker, last in accesses.changes:
        written[buffer, worker] = top[worker] + last
    changed = {(buffer, worker) for buffer, worker, _ in accesses.changes}
    readers = {key: step for key, step in readers.items() if key[:2] not in changed}
    _read(accesses, readers, regions)
    for buffer, holder, reader, last in accesses.reads:
        readers[buffer, holder, reader] = top[reader] + last
    return tuple(fences), tuple(waits), early, _ranked((written, readers, ordered, fenced, regions), count)


def _copied(ranks: Ranks) -> Ranks:
    written, readers, ordered, fenced, regions = ranks
    return dict(written), dict(readers), dict(ordered), dict(fenced), dict(regions)


def _read(
    accesses: Accesses,
    readers: Collection[tuple[Hashable, int, int]],
    regions: dict[tuple[Hashable, int, int], Region],
) -> None:
    """Which bytes are read now, and were by these `readers` before: in `regions`, as long as all of them are known."""
    for key in [read[:3] for read in accesses.reads]:
        region = accesses.regions.get(key)
        if region is None or (key in readers and key not in regions):
            regions.pop(key, None)
        else:
            regions[key] = region | regions[key] if key in readers else region


def _early(ranks: Ranks, accesses: Accesses) -> frozenset[tuple[int, int]]:
    """(worker, another one): where an interior changes bytes that the other one has read, and the worker is not ordered after that."""
    _, readers, ordered, _, regions = ranks
    found: set[tuple[int, int]] = set()
    for buffer, worker, region in accesses.interiors:
        for key, step in readers.items():
            if key[:2] != (buffer, worker) or ordered.get((worker, key[2]), 0) >= step:
                continue
            if key not in regions or regions[key].overlaps(region):
                found.add((worker, key[2]))
    return frozenset(found)


def _go_through(
    legs: Sequence[Leg], top: Sequence[int], ordered: dict[tuple[int, int], int], fenced: dict[int, int]
) -> None:
    """What the fences inside a plan order. `top`: by worker, its last step before."""
    for leg in legs:
        for other in leg.after:
            ordered[leg.worker, other] = fenced.get(other, 0)
        if leg.fences:
            fenced[leg.worker] = top[leg.worker] + leg.last


def _needs(
    written: dict[tuple[Hashable, int], int],
    readers: dict[tuple[Hashable, int, int], int],
    accesses: Accesses,
) -> dict[tuple[int, int], int]:
    """By worker and another one: the last step of the other's that it has to come after."""
    found: dict[tuple[int, int], int] = {}
    for buffer, holder, reader, _ in accesses.reads:
        step = written.get((buffer, holder), 0)
        if holder != reader and found.get((reader, holder), 0) < step:
            found[reader, holder] = step
    changed = {(buffer, worker) for buffer, worker, _ in accesses.changes}
    for (buffer, holder, reader), step in readers.items():
        if (buffer, holder) in changed and reader != holder and found.get((holder, reader), 0) < step:
            found[holder, reader] = step
    return found


def _steps_by_worker(ranks: Ranks, count: int) -> list[set[int]]:
    written, readers, ordered, fenced, _ = ranks
    found: list[set[int]] = [{0} for _ in range(count)]
    for (_, worker), step in written.items():
        found[worker].add(step)
    for (_, _, reader), step in readers.items():
        found[reader].add(step)
    for (_, other), step in ordered.items():
        found[other].add(step)
    for worker, step in fenced.items():
        found[worker].add(step)
    return found


def _tops(ranks: Ranks, count: int) -> list[int]:
    """By worker: the last of its steps that anything stands on. What was given to it since is no different for others."""
    return [max(steps) for steps in _steps_by_worker(ranks, count)]


def _ranked(ranks: Ranks, count: int) -> Ranks:
    """The same with ranks for steps, without what every other worker is ordered after."""
    written, readers, ordered, fenced, regions = ranks
    new: list[dict[int, int]] = []
    for worker, steps in enumerate(_steps_by_worker(ranks, count)):
        others = [ordered.get((other, worker), 0) for other in range(count) if other != worker]
        floor = min(others, default=0)
        later = sorted(step for step in steps if step > floor)
        new.append({step: rank for rank, step in enumerate(later, 1)})
    still_read = {key: rank for key, step in readers.items() if (rank := new[key[2]].get(step, 0))}
    return (
        {key: rank for key, step in written.items() if (rank := new[key[1]].get(step, 0))},
        still_read,
        {key: rank for key, step in ordered.items() if (rank := new[key[1]].get(step, 0))},
        {key: rank for key, step in fenced.items() if (rank := new[key].get(step, 0))},
        {key: region for key, region in regions.items() if key in still_read},
    )
