"""Which of many regions may meet a given one, found without looking at each of them.

A launch over n workers asks n times who has bytes that a chunk needs, and most chunks need bytes of only one or two
holders. What is compared are a few *corners* of each region (`Region.corners`): the least and the largest value of
each digit that the buffer's pitches give an offset, so that columns of a matrix can be told apart as well as rows.
The edges of all corners are sorted, and each has, as bits, the set of those up to it: a question costs a few
searches, whatever the number of entries. Some of the regions found may not meet the given one after all, but all that
do are found.

Where it is compiled (`vdev.translators.ranges.meetings`), to compare each of some hundred regions as it is takes less than such a search.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from operator import attrgetter, ge, itemgetter, or_

from vdev.translators.ranges import compiled, meetings
from vdev.translators.ranges.bands import Corner
from vdev.translators.ranges.pitches import joint
from vdev.translators.ranges.region import Region

Entry = tuple[int, Region]  #: a name, a region
#: entries up to which looking at each costs less
FEW = 4
#: entries up to which to look at the bounds of each first costs little
FEW_BOUNDS = 64
#: entries up to which each is compared, where that is compiled
MOST_COMPARED = 1024
#: entries that have come since the last table was made; each of them is looked at
FEW_FRESH = 24
#: the most boxes by which an entry is represented, and by which one asks
CORNERS, FEW_CORNERS = 16, 8


class Nearby:
    """Regions by name, to which more may be added; a name may have several."""

    __slots__ = ("_are_plain", "_fresh", "_tables")

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        found = [entry for entry in entries if entry[1]]
        self._tables = [_Table(found)] if found else []
        self._fresh: list[Entry] = []  #: in no table yet
        self._are_plain = True  #: whether none of these is traced

    def copy(self) -> Nearby:
        """Another one with the same entries, to which others may be added."""
        found = Nearby()
        found._tables = list(self._tables)
        found._fresh, found._are_plain = list(self._fresh), self._are_plain
        return found

    def add(self, name: int, region: Region) -> None:
        """One more. Tables of equal size become one, so that there are few and none is made anew each time."""
        if not region:
            return
        self._fresh.append((name, region))
        self._are_plain = self._are_plain and type(region.start) is int
        if len(self._fresh) <= FEW_FRESH:
            return
        tables, entries = self._tables, self._fresh
        while tables and len(tables[-1].entries) <= 2 * len(entries):
            entries = tables.pop().entries + entries
        tables.append(_Table(entries))
        self._fresh, self._are_plain = [], True

    def meeting(self, region: Region) -> Sequence[Entry]:
        """The entries that may have bytes of `region`, all that do among them."""
        tables = self._tables
        if len(tables) == 1 and not self._fresh:
            return tables[0].meeting(region)
        found = [entry for table in tables for entry in table.meeting(region)]
        start, stop = region.start, region.stop
        if self._are_plain and type(start) is int and compiled.are_compiled():
            return found + meetings.may_meet(self._fresh, region)[0]
        return found + [entry for entry in self._fresh if entry[1].start < stop and start < entry[1].stop]

    def names(self, region: Region) -> set[int]:
        return {name for name, _ in self.meeting(region)}


class _Table:
    """Entries that do not change, by their corners. Made at the first request."""

    __slots__ = ("_are_plain", "_are_runs", "_axes", "_bounds", "_in_order", "_owners", "_pitches", "entries")

    def __init__(self, entries: list[Entry]) -> None:
        self.entries = entries
        #: whether none is traced: each comparison would be a condition
        self._are_plain = set(map(type, map(attrgetter("start"), map(itemgetter(1), entries)))) == {int}
        #: where each begins and ends; None until it is needed, and none where they are traced or many
        self._bounds: list[tuple[int, int]] | None = None
        #: where they begin and where they end, if both ascend
        self._in_order: tuple[list[int], list[int]] | None = None
        self._are_runs = False  #: whether these are all that there is to know of them
        self._pitches: tuple[int, ...] = ()
        self._owners: list[int] = []  #: by corner: its owner
        #: by digit: sorted least and largest values, and for each place in them the corners before it, as bits
        self._axes: list[tuple[list[int], list[int], list[int], list[int]]] = []

    def meeting(self, region: Region) -> Sequence[Entry]:
        entries = self.entries
        if not region or len(entries) <= FEW:
            return entries if region else ()
        if self._are_plain and type(region.start) is int:
            if len(entries) <= MOST_COMPARED and compiled.are_compiled():
                found, unsure = meetings.may_meet(entries, region)
                if unsure <= FEW:
                    return found
            if self._bounds is None:
                self._bounds = self._bounds_of_each()
            if self._bounds:
                within = self._within_bounds(self._bounds, region.start, region.stop)
                if len(within) <= FEW or self._are_runs:
                    return [entries[number] for number in within]
        return self._meeting_by_corners(region)

    def _meeting_by_corners(self, region: Region) -> list[Entry]:
        if not self._axes:
            self._make()
        entries, left = self.entries, 0
        for corner in region.corners(self._pitches, FEW_CORNERS):
            both = -1
            for (low, high), (firsts, before, lasts, ended) in zip(corner, self._axes, strict=True):
                both &= before[bisect_left(firsts, high)] & ~ended[bisect_right(lasts, low)]
                if not both:
                    break
            left |= both
        found, owners, last = [], self._owners, -1
        while left:
            lowest = left & -left
            left ^= lowest
            owner = owners[lowest.bit_length() - 1]
            if owner != last:
                found.append(entries[owner])
                last = owner
        return found

    def _bounds_of_each(self) -> list[tuple[int, int]]:
        entries = self.entries
        if len(entries) > FEW_BOUNDS:
            return []
        bounds = [(region.start, region.stop) for _, region in entries]
        begins, ends = map(list, zip(*bounds, strict=True))
        if _ascend(begins) and _ascend(ends):
            self._in_order = begins, ends
            self._are_runs = all(region.is_span for _, region in entries)
        return bounds

    def _within_bounds(self, bounds: list[tuple[int, int]], start: int, stop: int) -> Sequence[int]:
        """Which entries reach between two offsets with their bounds."""
        if self._in_order is None:
            return [number for number, (low, high) in enumerate(bounds) if low < stop and start < high]
        begins, ends = self._in_order
        return range(bisect_right(ends, start), bisect_left(begins, stop))

    def _make(self) -> None:
        self._pitches = joint(region.pitches for _, region in self.entries)
        corners: list[Corner] = []
        for number, (_, region) in enumerate(self.entries):
            more = region.corners(self._pitches, CORNERS)
            corners += more
            self._owners += [number] * len(more)
        for edges in zip(*corners, strict=True):
            firsts, lasts = map(list, zip(*edges, strict=True))
            self._axes.append((*_prefixes(firsts), *_prefixes(lasts)))


def _ascend(numbers: Sequence[int]) -> bool:
    return not any(map(ge, numbers, numbers[1:]))


def _prefixes(edges: Sequence[int]) -> tuple[list[int], list[int]]:
    """Edges by their numbers: the values, sorted, and for each count of them the numbers of those, as bits. With no step of Python for
    each: there are as many as all entries have corners.
    """
    order = sorted(range(len(edges)), key=edges.__getitem__)
    return sorted(edges), list(accumulate(map((1).__lshift__, order), or_, initial=0))
