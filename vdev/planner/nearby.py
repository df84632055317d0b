"""Which of many regions may meet a given one, found without looking at each of them.

A launch over n workers asks n times who has bytes of what a chunk needs, and most chunks need what one or two holders
have. Compared are the *corners* of regions (`Region.corners`): in the digits that a buffer's pitches give, the least
and the largest of each, so that columns of a matrix are told apart as well as rows. Entries are sets of bits, one set
for each edge of a corner: a question costs a few searches in sorted edges, whatever the number of entries. What is
found may not meet after all; what meets is found.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence

from vdev.translators.ranges.region import Region, joint_pitches

Entry = tuple[int, Region]  #: a name, a region
#: entries up to which it costs less to look at each
FEW = 4


class Nearby:
    """Regions by name, of which more may come; a name may have several."""

    __slots__ = ("_tables",)

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        found = [entry for entry in entries if entry[1]]
        self._tables = [_Table(found)] if found else []

    def copy(self) -> Nearby:
        """Another one, to which may be added."""
        found = Nearby()
        found._tables = list(self._tables)
        return found

    def add(self, name: int, region: Region) -> None:
        """One more. Tables of equal size become one, so that there are few and none is made anew each time."""
        if not region:
            return
        tables, entries = self._tables, [(name, region)]
        while tables and len(tables[-1].entries) <= 2 * len(entries):
            entries = tables.pop().entries + entries
        tables.append(_Table(entries))

    def meeting(self, region: Region) -> Iterator[Entry]:
        """The entries that may have bytes of `region`, all that do among them."""
        for table in self._tables:
            yield from table.meeting(region)

    def names(self, region: Region) -> set[int]:
        return {name for name, _ in self.meeting(region)}


class _Table:
    """Entries that do not change, by their corners. Made when it is asked for the first time."""

    __slots__ = ("_axes", "_pitches", "entries")

    def __init__(self, entries: list[Entry]) -> None:
        self.entries = entries
        self._pitches: tuple[int, ...] = ()
        #: by digit: sorted least and largest values, and for each place in them the entries before it, as bits
        self._axes: list[tuple[list[int], list[int], list[int], list[int]]] = []

    def meeting(self, region: Region) -> Sequence[Entry]:
        entries = self.entries
        if not region or len(entries) <= FEW:
            return entries if region else ()
        if not self._axes:
            self._make()
        left = -1
        for (low, high), (firsts, before, lasts, ended) in zip(region.corners(self._pitches), self._axes, strict=True):
            left &= before[bisect_left(firsts, high)] & ~ended[bisect_right(lasts, low)]
            if not left:
                return ()
        found = []
        while left:
            lowest = left & -left
            found.append(entries[lowest.bit_length() - 1])
            left ^= lowest
        return found

    def _make(self) -> None:
        self._pitches = joint_pitches(region for _, region in self.entries)
        corners = [region.corners(self._pitches) for _, region in self.entries]
        for edges in zip(*corners, strict=True):
            firsts = sorted((low, number) for number, (low, _) in enumerate(edges))
            lasts = sorted((high, number) for number, (_, high) in enumerate(edges))
            self._axes.append((*_prefixes(firsts), *_prefixes(lasts)))


def _prefixes(edges: Sequence[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """The sorted values, and for each number of them the entries that they belong to."""
    bits, found = 0, [0]
    for _, number in edges:
        bits |= 1 << number
        found.append(bits)
    return [edge for edge, _ in edges], found
