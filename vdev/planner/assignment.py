"""Assignment: which worker runs which chunk of a cut.

Chunk k goes to the k-th worker unless that costs clearly more than necessary. A launch takes as long as its slowest
worker, so what counts is first the most that one worker has to be sent, then the sum; differences below `CLEARLY` are
none, and a chunk that gains nothing elsewhere stays.

What a chunk writes stays on its worker from then on, and chunks that look for it in the usual place have to move as
well or fetch it. So if a chunk runs elsewhere, a byte that it only writes costs as much as a fetched one if the usual
worker holds it, and a part of that, `DISPLACED`, if it does not. Hence an array that lies in another order is fetched
rather than followed by arrays that lie in the usual one: if it is only read, that happens once. Kernels whose chunks
need what several workers hold, such as the far steps of sorting networks and Fourier transforms, are what gains.

Of several orders that cost the same, that one is taken in which workers keep their *anchors*. A buffer that is
changed in place is cut into equal blocks, one for each worker; its anchor is the first half of its block or the
second, by the parity of the ones in the binary digits of its number. The places of two anchors then differ in two
binary digits or more. A step of a butterfly network joins places that differ in one, and so has just one anchor in
each chunk: every step brings every worker half of its share, and the last one, which joins neighbours, leaves the
data in the usual order.

Only workers change places that are alike to the planner: they copy from each other, and reach all others at the same
costs. Chunks are about equal, so a permutation among such workers leaves the work where it was.

Never decides how a launch is cut, nor where a byte is fetched from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import inf

from vdev.planner.directory import BufferState
from vdev.planner.links import LinkCosts
from vdev.translators.ranges.region import Region
from vdev.translators.values import dataclass

#: the cost of a byte that is written elsewhere than on the usual worker, which does not hold it so far, relative to a
#: fetched one
DISPLACED = 0.25

#: a cost that is lower than another by this fraction of it is clearly lower
CLEARLY = 0.125

#: with more workers than this every chunk goes where it usually does: the search grows with the cube
MOST_WORKERS = 16

#: costs are compared in whole steps, this many to the unit, so that equal ones are equal in whatever order they were
#: added
_STEPS = 64

#: the cost of what is impossible
NEVER = -1

#: anchors are compared in this many parts
_ANCHOR_PARTS = 16

Costs = Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class Share:
    """One chunk of a cut, by what it works on.

    `incoming`: what it costs to bring what is missing to its usual worker. `parts`: for each buffer its
    state, the bytes that must be valid before, and those that are valid there alone afterwards.
    """

    incoming: float
    parts: tuple[tuple[BufferState, Region, Region], ...]


def assign_chunks(
    shares: Sequence[Share], usual: Sequence[int], workers: Sequence[int], links: LinkCosts
) -> tuple[int, ...]:
    """The worker of each chunk. `usual`: by chunk, the worker that runs it unless another saves something; one
    of `workers`, those that may run chunks.
    """
    kinds = interchangeable(links)
    if len(workers) > MOST_WORKERS:
        return tuple(usual)
    ready = [_held_of((state, needs) for state, needs, _ in share.parts) for share in shares]
    choices = [[worker for worker in workers if kinds[worker] == kinds[home]] for home in usual]
    if not any(
        any(known.get(worker, 0) > known.get(home, 0) for worker in choice)
        for known, home, choice in zip(ready, usual, choices, strict=True)
    ):
        return tuple(usual)
    costs, strays = [], []
    for share, home, choice, known in zip(shares, usual, choices, ready, strict=True):
        peer = links.per_byte[choice[0]][choice[-1]]
        displaced = _Displaced([(state, owns - needs) for state, needs, owns in share.parts], home)
        row = dict.fromkeys(workers, NEVER)
        for worker in choice:
            extra = known.get(home, 0) - known.get(worker, 0) + displaced.cost(worker)
            row[worker] = max(round((share.incoming + peer * extra) * _STEPS), 0)
        costs.append([row[worker] for worker in workers])
        in_place = [(state.nbytes, both) for state, needs, owns in share.parts if (both := needs & owns)]
        strays.append([_stray(in_place, number, len(usual)) for number in range(len(workers))])
    columns = choose_columns(costs, [list(workers).index(home) for home in usual], strays)
    return tuple(workers[column] for column in columns)


def _held_of(parts: Iterable[tuple[BufferState, Region]]) -> dict[int, int]:
    """By holder, how many bytes it has of these; those that have none may be left out."""
    found: dict[int, int] = {}
    for state, region in parts:
        for holder, held in state.near(region) if region else ():
            if both := (region & held).nbytes:
                found[holder] = found.get(holder, 0) + both
    return found


class _Displaced:
    """What it comes to, in bytes, that a chunk writes elsewhere than on its usual worker, `home`.

    Of bytes that it needs as well, nothing: to fetch them or not is counted.
    """

    def __init__(self, only_written: Sequence[tuple[BufferState, Region]], home: int) -> None:
        self._home = home
        #: of each buffer, the bytes written, and by holder those of them that it has
        self._parts = [
            (region.nbytes, _held_of([(state, region)])) for state, region in only_written if region
        ]

    def cost(self, worker: int) -> float:
        if worker == self._home:
            return 0.0
        found = 0.0
        for nbytes, held in self._parts:
            there, here = held.get(self._home, 0), held.get(worker, 0)
            found += there + DISPLACED * max(nbytes - there - here, 0)
        return found


def _stray(in_place: Sequence[tuple[int, Region]], number: int, count: int) -> int:
    """How many parts of its anchors the worker with that number, of `count`, lacks in a chunk. `in_place`: of each buffer its
    size, and what the chunk changes in place; the rest does not stay with the worker.
    """
    wanted = kept = 0
    half = 2 * number + number.bit_count() % 2
    for nbytes, region in in_place:
        start, stop = half * nbytes // (2 * count), (half + 1) * nbytes // (2 * count)
        wanted += stop - start
        if start < region.stop and region.start < stop:
            kept += region.clip(start, stop).nbytes
    return _ANCHOR_PARTS - kept * _ANCHOR_PARTS // max(wanted, 1)


def order_of_data(states: Sequence[BufferState], workers: Sequence[int], links: LinkCosts) -> tuple[int, ...]:
    """`workers` in the order in which they hold a buffer, if they hold one in blocks that lie in another order
    than they do. With several such buffers the largest counts.
    """
    kinds = interchangeable(links)
    largest, order = 0, tuple(workers)
    if len({kinds[worker] for worker in workers}) > 1:
        return order
    for state in states:
        starts = {worker: held.start for worker in workers if (held := state.valid_at(worker))}
        if state.nbytes <= largest or len(set(starts.values())) < len(workers):
            continue
        found = tuple(sorted(workers, key=lambda worker: starts[worker]))
        if found != tuple(workers):
            largest, order = state.nbytes, found
    return order


@lru_cache(maxsize=64)
def interchangeable(links: LinkCosts) -> tuple[int, ...]:
    """For each worker the first one that is like it.

    >>> interchangeable(LinkCosts.between([("gpu", 0.1), ("cpu", 0.5), ("gpu", 0.1)], host=1.0, per_run=0.0))
    (0, 1, 0)
    """
    found: list[int] = []
    for worker in range(len(links.per_byte) - 1):
        same = (first for first in range(worker) if found[first] == first and _alike(links, first, worker))
        found.append(next(same, worker))
    return tuple(found)


def _alike(links: LinkCosts, first: int, second: int) -> bool:
    costs = links.per_byte
    others = [holder for holder in range(len(costs)) if holder not in (first, second)]
    return (
        links.linked(first, second)
        and (first in links.direct) == (second in links.direct)
        and (first in links.merging) == (second in links.merging)
        and costs[first][second] == costs[second][first]
        and all(costs[first][other] == costs[second][other] for other in others)
        and all(costs[other][first] == costs[other][second] for other in others)
    )


def choose_columns(costs: Costs, usual: Sequence[int], ties: Costs | None = None) -> tuple[int, ...]:
    """A column of its own for each row of `costs`, which has at least as many columns; NEVER forbids one.

    The usual ones, unless another choice has a largest cost clearly below theirs or, that being no larger, a
    sum clearly below theirs. Then the least largest cost; of those choices the least sum; of those the least
    sum of `ties`, which are small and not negative; of those one with the most rows at their usual columns.

    >>> choose_columns([[1, 4, 4], [2, 3, 1], [2, 0, 3]], (0, 1, 2))
    (0, 2, 1)
    >>> choose_columns([[0, 4], [4, 0]], (0, 1))
    (0, 1)
    """
    own = [row[column] for row, column in zip(costs, usual, strict=True)]
    least = _least_largest(costs)
    usual_is_good = least >= max(own) * (1 - CLEARLY)
    limit = max(own) if usual_is_good else least
    # One number in the place of three: what is less important adds up to less than one step of what is more.
    nrows = len(costs)
    ties = ties or [[0] * len(row) for row in costs]
    step = nrows * max(map(max, ties)) + 1
    weights = [
        [
            inf if not 0 <= cost <= limit else (cost * step + tie) * (nrows + 1) + (column != home)
            for column, (cost, tie) in enumerate(zip(row, of_row, strict=True))
        ]
        for row, of_row, home in zip(costs, ties, usual, strict=True)
    ]
    found = _least_sum(weights)
    total = sum(row[column] for row, column in zip(costs, found, strict=True))
    if usual_is_good and total >= sum(own) * (1 - CLEARLY):
        return tuple(usual)
    return found


def _least_largest(costs: Costs) -> int:
    """The least limit under which every row still finds a column of its own (the bottleneck assignment)."""
    limits = sorted({cost for row in costs for cost in row if cost != NEVER})
    low, high = 0, len(limits) - 1
    while low < high:
        middle = (low + high) // 2
        if _all_match(costs, limits[middle]):
            high = middle
        else:
            low = middle + 1
    return limits[low]


def _all_match(costs: Costs, limit: int) -> bool:
    """Whether every row finds a column of its own of a cost up to `limit`, by augmenting paths."""
    row_of: dict[int, int] = {}

    def place(row: int, seen: set[int]) -> bool:
        for column, cost in enumerate(costs[row]):
            if 0 <= cost <= limit and column not in seen:
                seen.add(column)
                if column not in row_of or place(row_of[column], seen):
                    row_of[column] = row
                    return True
        return False

    return all(place(row, set()) for row in range(len(costs)))


def _least_sum(weights: Sequence[Sequence[float]]) -> tuple[int, ...]:
    """A column of its own for each row with the least sum: shortest augmenting paths over reduced weights.

    H. W. Kuhn's method in the form of R. Jonker and A. Volgenant (Computing 38, 1987); exact where the finite
    weights are integers. There is a choice without infinite ones.
    """
    ncolumns = len(weights[0])
    of_row: list[float] = [0] * len(weights)  # potentials: weight - of_row - of_column is nowhere negative
    of_column: list[float] = [0] * ncolumns
    row_at: list[int | None] = [None] * ncolumns
    for start in range(len(weights)):
        distance, before, done = _shortest_path(weights, of_row, of_column, row_at, start)
        reached = distance[done[-1]]
        of_row[start] += reached
        for column in done[:-1]:
            other = row_at[column]
            assert other is not None
            of_row[other] += reached - distance[column]
            of_column[column] -= reached - distance[column]
        end: int | None = done[-1]
        while end is not None:  # along the path each row takes the next column
            previous = before[end]
            row_at[end] = start if previous is None else row_at[previous]
            end = previous
    columns = {row: column for column, row in enumerate(row_at) if row is not None}
    return tuple(columns[row] for row in range(len(weights)))


def _shortest_path(
    weights: Sequence[Sequence[float]],
    of_row: Sequence[float],
    of_column: Sequence[float],
    row_at: Sequence[int | None],
    start: int,
) -> tuple[list[float], list[int | None], list[int]]:
    """The shortest path, by reduced weights, from row `start` over taken columns to a free one (Dijkstra).

    By column its distance, and the column before it on the path; and the columns in the order in which they were reached,
    the free one last.
    """
    ncolumns = len(of_column)
    distance: list[float] = [inf] * ncolumns
    before: list[int | None] = [None] * ncolumns
    done: list[int] = []
    row: int | None = start
    last: int | None = None
    while row is not None:
        reached: float = 0 if last is None else distance[last]
        open_columns = [column for column in range(ncolumns) if column not in done]
        for column in open_columns:
            length = reached + weights[row][column] - of_row[row] - of_column[column]
            if length < distance[column]:
                distance[column], before[column] = length, last
        last = min(open_columns, key=lambda column: distance[column])
        done.append(last)
        row = row_at[last]
    return distance, before, done
