"""Balance: where launches are cut if a kernel's work-groups take unequal times, or its workers are unequal.

The rows of a triangle take as long as their loops' bounds say, the rows of a fractal as long as their data says: an even
cut leaves all workers waiting for one. If the bounds tell how the work is spread over the cut dimension
(`WorkProfile`), it is predicted from them, and the first launch is cut accordingly. The times of a launch's chunks are
measured; from them follow the rest, and where the cuts are to be so that all chunks take the same time. A chunk's time
is its worker's, too: a slower one gets fewer work-groups. No single measurement is trusted: several have to agree on
the chunks' shares, and those that do not are left out. After a few launches there is nothing left to gain, and nothing
more is measured until the kernel has been launched several times as often. A cut that did not make launches faster is
given up, and tried again later.

The best of them are plain data, for the program's next run to begin with (`Balance.plain`, `Balance.take`).

Decides where cuts are wanted and what they gain; whether a launch is cut so, with what that moves, is the planner's
(`vdev.planner.launch_search`). Knows no clock, and never measures. The even partitions are those of PPoPP'11, section 3.2.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import field
from itertools import pairwise
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt

from vdev.planner.partitioner import Partition
from vdev.translators.ranges.ndrange import Chunk
from vdev.translators.values import dataclass, replace

#: seconds and part of the longest chunk's time that cuts elsewhere have to gain
LEAST_GAIN, LEAST_SHARE = 1e-5, 0.05
#: seconds that it has to gain where they are not measured: estimates are several times too long or too short
_LEAST_FORESEEN = 5e-6
#: of the same launch cut evenly, what cuts elsewhere take at most: else they are given up
_MOST_KEPT = 0.97
#: measurements of a cut that have to agree, of a launch of at least so many seconds in all and of a shorter one; after so many in
#: all that do not, nothing is learnt. The first may be of cold memory, any of a worker that waited for its host
_LOOKS_LONG, _LONG, _LOOKS, _MOST_LOOKS = 2, 5e-3, 3, 9
#: measurements agree if no chunk's share of the time differs between them by more than this fraction of an even share
_APART = 0.25
#: samples of a cut under way at a time: a program may be far ahead of its workers
_UNDER_WAY = 4
#: changes of the cuts before they stay
_MOST_CHANGES = 8
#: when nothing is left to gain, the next look comes after so many times as many launches, and so many more
_PATIENCE, _MORE = 4, 64
#: a sample is given up after this many launches
_LOST = 64
_MOST_CASES = 64
#: no launch has that number
_NEVER = 1 << 62
#: cases in a row of which one or a few launches came, after which others are not measured before they come again later than so many
#: launches
_MOST_STRAYS = 16
#: how it is known where cuts are better
MEASURED, FORESEEN = "measured times", "the bounds of its loops"


class WorkProfile:
    """How the work of a launch is spread over the work-groups of one dimension: seconds for each group, even within parts.

    A measurement of chunks makes the parts finer, and scales each chunk's to what it took (iterative proportional fitting).
    """

    __slots__ = ("_density", "_edges")

    def __init__(self, ngroups: int) -> None:
        self._edges: npt.NDArray[np.int64] = np.array([0, ngroups])
        self._density: npt.NDArray[np.float64] = np.ones(1)

    @staticmethod
    def foreseen(edges: Sequence[int], seconds: Sequence[float]) -> WorkProfile:
        """The groups from `edges[k]` to `edges[k + 1]` take `seconds[k]` each.

        >>> WorkProfile.foreseen((0, 4, 8), (1.0, 3.0)).even(2)
        (0, 5, 8)
        """
        profile = WorkProfile(edges[-1])
        profile._edges, profile._density = np.array(edges), np.maximum(np.array(seconds), 1e-12)
        return profile

    def measured(self, edges: Sequence[int], seconds: Sequence[float]) -> None:
        """Chunk k, the groups from `edges[k]` to `edges[k + 1]`, took `seconds[k]`."""
        # `np.union1d` and `np.median` would load NumPy's masked arrays: 25 ms within a launch.
        merged = np.array(sorted({*self._edges.tolist(), *edges}))
        density = self._density[np.searchsorted(self._edges, merged[:-1], side="right") - 1]
        widths = np.diff(merged)
        of_chunk = np.searchsorted(np.array(edges), merged[:-1], side="right") - 1
        foretold = np.bincount(of_chunk, density * widths, minlength=len(seconds))
        took = np.maximum(np.array(seconds), 1e-9)  # a chunk is never nothing: it could not be scaled again
        self._edges, self._density = merged, density * (took / foretold)[of_chunk]

    def even(self, count: int) -> tuple[int, ...]:
        """The edges of so many chunks that take about the same time, each of at least one group. There are as many groups.

        >>> profile = WorkProfile(8)
        >>> profile.measured((0, 4, 8), (1.0, 3.0))
        >>> profile.even(2)
        (0, 5, 8)
        """
        done = np.concatenate(([0.0], np.cumsum(self._density * np.diff(self._edges))))
        wanted = np.interp(done[-1] * np.arange(count + 1) / count, done, self._edges)
        edges = [round(edge) for edge in wanted.tolist()]
        last = edges[-1]
        for index in range(1, count):
            edges[index] = min(max(edges[index], edges[index - 1] + 1), last - count + index)
        return tuple(edges)

    def foretell(self, edges: Sequence[int]) -> float:
        """Seconds of the longest of these chunks."""
        done = np.concatenate(([0.0], np.cumsum(self._density * np.diff(self._edges))))
        return float(np.diff(np.interp(edges, self._edges, done)).max())


@dataclass(frozen=True, slots=True)
class Recut:
    """Where a launch has to be cut along one dimension."""

    edges: tuple[int, ...]
    gain: float  #: seconds that it takes less with each launch
    #: seconds that may be spent once on moving bytes to where the new cuts need them
    budget: float
    by: str = MEASURED  #: how it is known

    @property
    def again(self) -> float:
        """Seconds that may go into that with each launch: half of what it gains, for those who move bytes back take as long."""
        return self.gain / 2

    @property
    def worth(self) -> float:
        """Seconds that may be spent on it for the next launch."""
        return max(self.budget, self.again)


@dataclass(slots=True)
class _Case:
    """Launches of one index space on the same workers, cut along the same dimension."""

    profile: WorkProfile
    edges: tuple[int, ...] = ()  #: of the cut that is being measured
    took: tuple[float, ...] = ()  #: by chunk, what the measurements that agree say
    seen: list[tuple[float, ...]] = field(default_factory=list)  #: the last measurements of it
    moving: float = inf  #: seconds that moving bytes for a launch took, the least so far
    #: what the launch depends on that the profile was foreseen for; None where it was not, or no longer counts
    foreseen: Hashable = None
    evenly: float = 0.0  #: seconds that the even cut took
    moving_evenly: float = 0.0  #: and moving bytes for it
    recut: Recut | None = None
    best: tuple[float, tuple[int, ...]] | None = None  #: the shortest launch that was seen, and its cut
    changes: int = 0
    since: int = 0  #: the number of launches when the cuts were last changed
    asked: int = -1  #: when the last sample was taken that has not arrived: launches by then
    under_way: int = 0  #: samples that have not arrived
    next: int = 0  #: launches before it is looked at again
    first: int = -1  #: of its launches, the number of the kernel's by then; -1 before
    patience: int = _PATIENCE

    def look(self, edges: tuple[int, ...], seconds: Sequence[float], moving: float, launches: int) -> bool:
        """One more measurement, of a launch that was cut at `edges`: whether enough of them agree, as `took` says then."""
        if edges != self.edges:
            self.edges, self.moving = edges, inf
            self.seen.clear()
        self.seen = [*self.seen[1 - _MOST_LOOKS :], tuple(seconds)]
        self.moving = min(self.moving, moving)
        agreed = agreement(self.seen)
        if agreed is not None:
            self.took = agreed
            return True
        if len(self.seen) >= _MOST_LOOKS:
            self.next = max(launches * self.patience, launches + _MORE)
            self.seen.clear()
        return False

    @property
    def _least(self) -> list[float]:
        """By chunk, the least of the last measurements. They err by being too long, several in a row: a device that waits for
        its host is late by several times what a short chunk takes.
        """
        return [min(chunk) for chunk in zip(*self.seen, strict=True)]

    def judge(self, launches: int, thought: float, each: float) -> bool:
        """After a measurement: stay, look once more, or cut elsewhere (True)."""
        longest = max(self.took)
        worth = max(LEAST_GAIN, LEAST_SHARE * longest) + each
        if self.recut is None:
            most = min(map(_uneven, (self.took, self._least)))  # that can be gained
            if most < worth:
                return self._settle(launches)
            if self._waits(most, launches, thought):
                return False
        elif self.edges != self.recut.edges:  # what it would have moved is more than it gains: not yet
            return self._put_off(longest, launches)
        if self.recut is None:
            self.evenly, self.moving_evenly, self.best = longest, self.moving, None
        elif self.evenly == 0.0:  # foreseen
            count = len(self.took)
            even = [part * self.edges[-1] // count for part in range(count + 1)]
            self.evenly = longest * self.profile.foretell(even) / self.profile.foretell(self.edges)
            self.best = longest, self.edges
        elif self._moves_too_much(longest):
            return self._give_up(launches)
        self.profile.measured(self.edges, self.took)
        edges = self.profile.even(len(self.took))
        gain = longest - self.profile.foretell(edges)
        if gain < worth or edges == self.edges or self.changes == _MOST_CHANGES:
            return self._stay(launches)
        if self._waits(gain, launches, thought):
            return False
        self.changes += 1
        return self._cut_at(edges, self.evenly - longest + gain, launches)

    def _put_off(self, longest: float, launches: int) -> bool:
        """Cuts that are foreseen may have been too dear for as many launches as there were: once there are several times as many,
        they may not be. Others were measured, and have lost.
        """
        if self.recut is None or self.foreseen is None or longest <= 0:
            return self._give_up(launches)
        self.profile.measured(self.edges, self.took)
        gain = longest - self.profile.foretell(self.recut.edges)
        if gain < max(LEAST_GAIN, LEAST_SHARE * longest):
            return self._give_up(launches)
        self.evenly, self.moving_evenly = longest, self.moving
        self.patience = min(self.patience * _PATIENCE, 1 << 20)
        self._settle(launches)
        self.next = launches  # those that are cut there are looked at: do they gain what moving took?
        return self._cut_at(self.recut.edges, gain, launches, self.recut.by)

    def _moves_too_much(self, longest: float) -> bool:
        """Whether moving bytes for these cuts takes what they gain; what is moved each time, others move back. Otherwise the
        cuts are kept in mind if they are the best so far.
        """
        more = 2 * max(self.moving - self.moving_evenly, 0.0)
        if more > LEAST_GAIN and longest + more > _MOST_KEPT * self.evenly:
            return True
        if self.best is None or longest + more < self.best[0]:
            self.best = longest + more, self.edges
        return False

    def _stay(self, launches: int) -> bool:
        """No other cuts are believed to be better than the best that were seen."""
        if self.recut is None or self.best is None:
            return self._settle(launches)
        longest, edges = self.best
        if longest > _MOST_KEPT * self.evenly:
            return self._give_up(launches)
        self.patience = _PATIENCE
        self._settle(launches)
        return edges != self.recut.edges and self._cut_at(edges, self.evenly - longest, launches)

    def _settle(self, launches: int) -> bool:
        """There is nothing to gain for now."""
        self.next = max(launches * self.patience, launches + _MORE)
        self.edges, self.took, self.changes = (), (), 0
        self.seen.clear()
        return False

    def _waits(self, gain: float, launches: int, thought: float) -> bool:
        """Whether cuts elsewhere are left for later: launches until now would not have gained what their plans take."""
        if gain * launches >= thought:
            return False
        self.next = int(thought / gain) + 1
        return True

    def _cut_at(self, edges: tuple[int, ...], gain: float, launches: int, by: str = MEASURED) -> bool:
        """Cut launches there, which take so many seconds less than cut evenly."""
        self.recut = Recut(edges, gain, gain * launches, by)
        return True

    def _give_up(self, launches: int) -> bool:
        """Cut launches evenly, for longer than before. Whether they were not."""
        cut_so = self.recut is not None and self.edges == self.recut.edges
        self.profile, self.recut, self.best, self.foreseen = WorkProfile(self.edges[-1]), None, None, None
        self.patience = min(self.patience * _PATIENCE, 1 << 20)
        self._settle(launches)
        return cut_so


class Balance:
    """Where launches of one kernel are cut, by index space, workers and cut dimension."""

    __slots__ = ("_cases", "_elsewhere", "_kept", "_strays")

    def __init__(self) -> None:
        self._cases: dict[tuple[tuple[int, ...], int, tuple[int, ...]], _Case] = {}
        self._elsewhere: set[tuple[int, ...]] = set()  #: index spaces, in work-groups
        self._kept: list[Any] = []  #: what was plain when it was looked at last
        self._strays = 0  #: cases in a row of which one or a few launches came

    def find(
        self,
        num_groups: Sequence[int],
        partition: Partition,
        workers: Sequence[int],
        work: Callable[[int], WorkProfile | None] | None = None,
        depends: Hashable = None,
    ) -> Recut | None:
        """Where a launch is better cut than in an even `partition`; None where nothing is known to be better. `work`: what is
        foreseen of it along a dimension, by all that `depends` names.
        """
        dimension = cut_dimension(num_groups, partition.chunks)
        if dimension is None:
            return None
        case = self._cases.get((tuple(num_groups), dimension, tuple(workers)))
        if case is None and work is not None and (profile := work(dimension)) is not None:
            case = self._case(num_groups, partition.chunks, workers, make=True)
            assert case is not None
            self._foresee(case, profile, num_groups, _edges(partition.chunks, dimension), depends)
        if case is not None and case.foreseen is not None and case.foreseen != depends:
            # Launches whose work is spread in another way each time are planned faster if they are all cut evenly.
            case.profile, case.recut, case.foreseen = WorkProfile(num_groups[dimension]), None, None
            self._elsewhere.discard(tuple(num_groups))
        return None if case is None else case.recut

    def _foresee(
        self,
        case: _Case,
        profile: WorkProfile,
        num_groups: Sequence[int],
        evenly: tuple[int, ...],
        depends: Hashable,
    ) -> None:
        """Begin with cuts by what is foreseen, where that gains."""
        edges, longest = profile.even(len(evenly) - 1), profile.foretell(evenly)
        gain = longest - profile.foretell(edges)
        if gain >= max(_LEAST_FORESEEN, LEAST_SHARE * longest):
            case.profile, case.foreseen = profile, depends
            case.recut = Recut(edges, gain, gain * _MORE, FORESEEN)
            self._elsewhere.add(tuple(num_groups))

    def spend(
        self,
        num_groups: Sequence[int],
        chunks: Sequence[Chunk],
        workers: Sequence[int],
        seconds: float,
        thought: float = 0.0,
    ) -> bool:
        """So much goes into moving bytes for a launch that is cut so, and `thought` into its plan. Whether it may with each launch
        that finds its buffers in the same states, or only this once.
        """
        case = self._case(num_groups, chunks, workers)
        if case is None or case.recut is None or seconds <= case.recut.again:
            return True
        case.recut = replace(case.recut, budget=max(case.recut.budget - seconds - thought, 0.0))
        return False

    def elsewhere(self, num_groups: Sequence[int]) -> bool:
        """Whether launches of an index space may have other than even cuts."""
        return bool(self._elsewhere) and tuple(num_groups) in self._elsewhere

    def wants(
        self, num_groups: Sequence[int], chunks: Sequence[Chunk], workers: Sequence[int], launches: int
    ) -> bool:
        """Whether a launch that is cut so is to be looked at, of a kernel that was launched so often."""
        if len(chunks) < 2:
            return False
        case = self._case(num_groups, chunks, workers, make=True)
        return case is not None and launches >= case.next and not self._is_stray(case, launches)

    def looks_again(self, num_groups: Sequence[int], chunks: Sequence[Chunk], workers: Sequence[int]) -> int:
        """The number of the launch before which none that is cut so is to be looked at, unless it is cut anew."""
        case = None if len(chunks) < 2 else self._case(num_groups, chunks, workers, make=True)
        return _NEVER if case is None else case.next

    def _is_stray(self, case: _Case, launches: int) -> bool:
        """Whether launches of a case are not expected to come again, as those of others before it did not. What such a launch takes says
        nothing of others, and measuring it makes it longer.
        """
        if case.first < 0:
            case.first = launches
            self._strays += 1
        elif launches > case.first + _MOST_STRAYS:  # two in a row may be all
            self._strays = 0
            return False
        return self._strays > _MOST_STRAYS

    def wants_sample(
        self, num_groups: Sequence[int], chunks: Sequence[Chunk], workers: Sequence[int], launches: int
    ) -> bool:
        """Whether its chunks are to be measured; then `measured` is told what they took."""
        if not self.wants(num_groups, chunks, workers, launches):
            return False
        case = self._case(num_groups, chunks, workers)
        assert case is not None
        if case.under_way and launches - case.asked >= _LOST:
            case.under_way = 0
        if case.under_way >= _UNDER_WAY:
            return False
        case.asked, case.under_way = launches, case.under_way + 1
        return True

    def measured(
        self,
        num_groups: Sequence[int],
        chunks: Sequence[Chunk],
        workers: Sequence[int],
        seconds: Sequence[float],
        moving: float,
        number: int,
        launches: int,
        thought: float = 0.0,
        each: float = 0.0,
    ) -> bool:
        """The chunks of launch `number`, of so many by now, took so long, after `moving` bytes for them. True where launches are
        to be cut elsewhere from now on: their plans have to be made anew, which takes `thought` seconds once, and `each` more
        with every launch.
        """
        case = self._case(num_groups, chunks, workers, make=True)
        if case is None:
            return False
        dimension = cut_dimension(num_groups, chunks)
        assert dimension is not None
        case.under_way = max(case.under_way - 1, 0)
        edges = _edges(chunks, dimension)
        in_hand = number == case.since + 1 and case.recut is not None and edges != case.recut.edges
        if number <= case.since or in_hand:  # its plan is one of those before
            return False
        if not case.look(edges, seconds, moving, launches):
            return False
        changed = case.judge(launches, thought, each)
        if changed:
            case.since = launches
        if case.recut is not None:
            self._elsewhere.add(tuple(num_groups))
        return changed

    # between runs -------------------------------------------------------------------------------

    def plain(self) -> list[Any]:
        """The best cuts that were seen, as JSON has it: for each its index space, dimension, workers, edges, and seconds that it gains and
        that the even cut takes.
        """
        return [
            [*key, list(case.best[1]), case.evenly - case.best[0], case.evenly]
            for key, case in self._cases.items()
            if case.recut is not None and case.best is not None and case.best[0] < case.evenly
        ]

    def news(self) -> list[Any] | None:
        """`plain`, if it has changed since the last call."""
        found = self.plain()
        if found == self._kept:
            return None
        self._kept = found
        return found

    def take(self, plain: Sequence[Any]) -> None:
        """Begin with the cuts of an earlier run. ValueError or TypeError where something is none; the others are taken."""
        for groups, dimension, workers, edges, gain, evenly in plain:
            numbers = [*groups, dimension, *workers, *edges]
            if not all(type(number) is int for number in numbers) or not 0 <= dimension < len(groups):
                raise ValueError("no cut")
            ends = (edges[0], edges[-1]) == (0, groups[dimension])
            if not ends or len(edges) != len(workers) + 1 or any(a >= b for a, b in pairwise(edges)):
                raise ValueError("no edges of chunks")
            if not (0 < float(gain) < inf and 0 < float(evenly) < inf):
                raise ValueError("no seconds")
            case = _Case(WorkProfile(groups[dimension]), evenly=evenly)
            case.recut, case.best = Recut(tuple(edges), gain, gain * _MORE), (evenly - gain, tuple(edges))
            self._cases[tuple(groups), dimension, tuple(workers)] = case
            self._elsewhere.add(tuple(groups))
        self._kept = self.plain()

    def _case(
        self,
        num_groups: Sequence[int],
        chunks: Sequence[Chunk],
        workers: Sequence[int],
        *,
        make: bool = False,
    ) -> _Case | None:
        dimension = cut_dimension(num_groups, chunks)
        if dimension is None:
            return None
        key = (tuple(num_groups), dimension, tuple(workers))
        found = self._cases.get(key)
        if found is None and make:
            if len(self._cases) >= _MOST_CASES:
                self._cases.clear()
                self._elsewhere.clear()
            found = self._cases[key] = _Case(WorkProfile(num_groups[dimension]))
        return found


def _uneven(seconds: Sequence[float]) -> float:
    """What the longest chunk takes beyond the mean."""
    return max(seconds) - sum(seconds) / len(seconds)


def agreement(seen: Sequence[Sequence[float]]) -> tuple[float, ...] | None:
    """By chunk, the median of those measurements in which the chunks have about the same shares; None where too few have.

    >>> agreement([(4.17e-4, 1.5e-4), (1.1e-4, 3.2e-4), (1.0e-4, 3.3e-4)])
    >>> agreement([(4.17e-4, 1.5e-4), (1.1e-4, 3.2e-4), (1.0e-4, 3.3e-4), (1.2e-4, 3.1e-4)])
    (0.00011, 0.00032)
    """
    times = np.array(seen)
    totals = times.sum(axis=1)
    shares = times / np.maximum(totals, 1e-12)[:, None]
    apart = np.abs(shares[:, None] - shares[None]).max(axis=2)  # of any two measurements
    alike = apart <= _APART / times.shape[1]
    near = alike[alike.sum(axis=1).argmax()]
    fewest = _LOOKS_LONG if _median(totals) >= _LONG else _LOOKS
    if near.sum() < fewest or 2 * near.sum() <= len(near):
        return None
    return tuple(_median(times[near]).tolist())


def _median(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The median of rows, column by column."""
    ordered, count = np.sort(rows, axis=0), len(rows)
    return np.asarray((ordered[(count - 1) // 2] + ordered[count // 2]) / 2)


def cut_dimension(num_groups: Sequence[int], chunks: Sequence[Chunk]) -> int | None:
    """The only dimension in which the chunks of an index space were cut; None where there is none, or are several, or the
    chunks take turns.

    >>> cut_dimension((4, 8), [Chunk((0, 0), (4, 3)), Chunk((0, 3), (4, 8))])
    1
    """
    if any(chunk.cycle is not None for chunk in chunks):
        return None
    found = [
        dimension
        for dimension, groups in enumerate(num_groups)
        if any(chunk.stop[dimension] - chunk.start[dimension] != groups for chunk in chunks)
    ]
    return found[0] if len(found) == 1 else None


def cut_at(num_groups: Sequence[int], partition: Partition, edges: Sequence[int]) -> Partition:
    """`partition`, which is cut in one dimension, with its chunks between `edges` there."""
    dimension = cut_dimension(num_groups, partition.chunks)
    assert dimension is not None
    assert edges[0] == 0
    assert edges[-1] == num_groups[dimension]
    chunks = []
    for chunk, (start, stop) in zip(partition.chunks, pairwise(edges), strict=True):
        assert start < stop, "an empty chunk"
        chunks.append(Chunk(_with(chunk.start, dimension, start), _with(chunk.stop, dimension, stop)))
    return Partition(partition.cuts, tuple(chunks), tuple(edges))


def _with(place: Sequence[int], dimension: int, value: int) -> tuple[int, ...]:
    return (*place[:dimension], value, *place[dimension + 1 :])


def _edges(chunks: Sequence[Chunk], dimension: int) -> tuple[int, ...]:
    return (0, *(chunk.stop[dimension] for chunk in chunks))
