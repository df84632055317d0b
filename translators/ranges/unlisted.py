"""Rows no two of which are alike, such as those of a triangle of a matrix, listed when somebody asks for them.

A set like that is as many runs as it has rows, and plans ask for none of these: they take a few boxes around it, which follow from
the conditions that cut the rows. Decides what can be told without a list (`Unlisted`), and what the boxes are (`TiedRows.around`).

What is called most is compiled as well (`compiled`): a change here needs the same change in `native/slices.c`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from . import compiled
from .bands import Band, Bands
from .byte_runs import Runs
from .region import EMPTY, Region, region_in
from .slicing import Constraint

#: the least and the largest number of a row, or of a column
Extent = tuple[int, int]

#: rows, from the first on and from the last one back, among which one with columns is looked for
_TRIES = 16


class TiedRows:
    """The bytes of rows whose first and last column depend on the row: `extent` bytes at `start` + `pitch` * row + `width` * column, and
    copies of all that.
    """

    __slots__ = (
        "_around",
        "_columns",
        "_constraints",
        "_listed",
        "_listing",
        "_place",
        "_rows",
        "ends",
        "nrows",
    )

    ends: Extent  #: the first byte, and one past the last one
    nrows: int  #: at least as many rows as there are

    def __init__(
        self,
        rows: Extent,
        columns: Extent,
        constraints: Sequence[Constraint],
        place: Place,
        listing: Callable[[], Region],
    ) -> None:
        """`constraints`: on rows, variable 0, and columns, variable 1; each has both. `listing`: the bytes, listed. ValueError where
        the first or the last row with columns is far from the first or the last row.
        """
        self._rows, self._columns, self._place, self._listing = rows, columns, place, listing
        self._constraints = [(terms[0], terms[1], constant) for terms, constant in constraints]
        self.nrows = rows[1] - rows[0] + 1
        ends = [self._first_of(rows[0], 1), self._first_of(rows[1], -1)]
        self.ends = min(start for start, _ in ends), max(stop for _, stop in ends)
        #: the answer to the last question, which chunks of a launch ask for reads and for writes
        self._around: tuple[int, Region, int] | None = None
        self._listed: Region | None = None  #: once somebody has asked: chunks that are moved share the rows

    def _first_of(self, row: int, step: int) -> Extent:
        """The first byte, and one past the last one, of the copies of the first row with columns from one on."""
        for _ in range(_TRIES):
            low, high = self._columns_of(row, row)[1]
            if low <= high and self._rows[0] <= row <= self._rows[1]:
                return self._place.ends(row, (low, high))
            row += step
        raise ValueError("many rows have no columns")

    def _columns_of(self, first: int, last: int) -> tuple[Extent, Extent, Extent]:
        """The columns of a row, those that any row up to another one has at most, and those of the other one."""
        low, high = self._columns
        low_there, high_there = low_most, high_most = low, high
        for of_row, of_column, constant in self._constraints:
            here, there = constant + of_row * first, constant + of_row * last
            most = here if here > there else there
            if of_column > 0:
                low = max(low, -(here // of_column))
                low_there = max(low_there, -(there // of_column))
                low_most = max(low_most, -(most // of_column))
            else:
                high = min(high, here // -of_column)
                high_there = min(high_there, there // -of_column)
                high_most = min(high_most, most // -of_column)
        return (low, high), (low_most, high_most), (low_there, high_there)

    def listed(self) -> Region:
        """The same set as an ordinary one."""
        if self._listed is None:
            self._listed = self._listing()
        return self._listed

    def in_bands(self) -> Region:
        """The same, by a step of the interpreter's for each row, for few."""
        first, last = self._rows
        found = [((row, row), self._columns_of(row, row)[0]) for row in range(first, last + 1)]
        return self._place.region([group for group in found if group[1][0] <= group[1][1]])

    def around(self, most: int) -> tuple[Region, int]:
        """A set that contains all bytes and none before the first or behind the last: at most `most` groups of rows, in each of
        which all have the columns that any of them has. And how many bytes there are at least.
        """
        known = self._around
        if known is None or known[0] != most:
            known = self._around = (most, *self._in_groups(most))
        return known[1:]

    def _in_groups(self, most: int) -> tuple[Region, int]:
        groups, least = self._groups(min(most, self.nrows))
        return self._place.region(groups).clip(*self.ends), least * abs(self._place.width)

    def _groups(self, count: int) -> tuple[list[tuple[Extent, Extent]], int]:
        """So many groups of rows, with the columns that any of their rows has, without those that have none; and how many
        columns their rows have at least, all together.
        """
        begin, nrows = self._rows[0], self.nrows
        groups: list[tuple[Extent, Extent]] = []
        least = 0
        for number in range(count):
            first, last = begin + nrows * number // count, begin + nrows * (number + 1) // count - 1
            of_first, (low, high), of_last = self._columns_of(first, last)
            if low > high:
                continue
            groups.append(((first, last), (low, high)))
            # What linear conditions leave is convex: but for what is rounded off, no row is shorter than both ends' rows.
            shorter = min(of_first[1] - of_first[0], of_last[1] - of_last[0])
            if shorter > 0:
                least += (last - first + 1) * shorter
        return groups, least


class Place:
    """Where rows and columns lie: `extent` bytes at `start` + `pitch` * row + `width` * column, and copies of all that at the
    distances of a box that `open_box` gives.
    """

    __slots__ = ("copies", "extent", "pitch", "start", "width")

    def __init__(
        self, start: int, extent: int, pitch: int, width: int, copies: Sequence[tuple[int, int]]
    ) -> None:
        self.start, self.extent, self.pitch, self.width, self.copies = start, extent, pitch, width, copies

    def ends(self, row: int, columns: Extent) -> Extent:
        """The first byte, and one past the last one, of these columns of a row."""
        width = self.width
        low, high = columns if width > 0 else columns[::-1]
        start = self.start + self.pitch * row
        further = sum([stride * (count - 1) for stride, count in self.copies])
        return start + width * low, start + width * high + self.extent + further

    def region(self, groups: Sequence[tuple[Extent, Extent]]) -> Region:
        """The bytes of groups of rows, ascending, each with its columns."""
        bands, origin = self.bands(groups)
        return (
            region_in(bands, (abs(self.pitch),)).shift(self.start + self.width * origin).copies(self.copies)
        )

    def bands(self, groups: Sequence[tuple[Extent, Extent]]) -> tuple[Bands, int]:
        """The same from the first column on that any of them has, without copies: bands of rows; and that column."""
        width = self.width
        if width > 0:
            origin = min([columns[0] for _, columns in groups])
        else:
            origin = max([columns[1] for _, columns in groups])
        found: list[Band] = []
        for (first, last), (low, high) in groups if self.pitch > 0 else reversed(groups):
            if self.pitch < 0:
                first, last = -last, -first
            if width < 0:
                low, high = high, low
            below = ((width * (low - origin), width * (high - origin) + self.extent, None),)
            if found and found[-1][1] == first and found[-1][2] == below:
                first = found.pop()[0]
            found.append((first, last + 1, below))
        return tuple(found), origin


class Unlisted(Region):
    """Tied rows, each some distance further on, and an ordinary region beside them, which may overlap. Whatever needs the runs has
    them listed first.
    """

    __slots__ = ("_beside", "_tied")

    def __init__(self, moved: Iterable[tuple[TiedRows, int]], beside: Region = EMPTY) -> None:
        self._tied, self._beside = tuple(moved), beside
        starts = [rows.ends[0] + distance for rows, distance in self._tied]
        stops = [rows.ends[1] + distance for rows, distance in self._tied]
        if beside:
            starts.append(beside.start)
            stops.append(beside.stop)
        super().__init__(min(starts), max(stops), (), None)
        self._nboxes = sum([rows.nrows for rows, _ in self._tied]) + beside.nboxes  # at most

    @property
    def runs(self) -> Runs:
        if self._runs is None:
            parts = [rows.listed().shift(distance) for rows, distance in self._tied]
            self._runs = Region.union([*parts, self._beside]).runs
        return self._runs

    def around(self, most: int) -> tuple[Region, int]:
        """As of `TiedRows`, with at most so many groups for all of them, but for one each, and what lies beside them."""
        parts, counts = [], []
        most = max(most // len(self._tied), 1)
        for rows, distance in self._tied:
            part, nbytes = rows.around(most)
            parts.append(part.shift(distance))
            counts.append(nbytes)
        found = Region.union(parts)
        apart = len(parts) == 1 or found.nbytes == sum([part.nbytes for part in parts])
        return found | self._beside, sum(counts) if apart else max(counts)

    def shift(self, offset: int) -> Region:
        if offset == 0:
            return self
        moved = [(rows, distance + offset) for rows, distance in self._tied]
        return Unlisted(moved, self._beside.shift(offset))

    def __or__(self, other: Region) -> Region:
        if not other or other is self:
            return self
        if isinstance(other, Unlisted):
            more = [each for each in other._tied if each not in self._tied]
            if not more and self._beside.contains(other._beside):
                return self
            return Unlisted((*self._tied, *more), self._beside | other._beside)
        if other.is_span and other.start <= self.start and self.stop <= other.stop:
            return other
        if other.bands is None:
            return super().__or__(other)
        return Unlisted(self._tied, self._beside | other)

    __ror__ = __or__

    def contains(self, other: Region) -> bool:
        if isinstance(other, Unlisted) and self._has(other):
            return True
        return super().contains(other)

    def __eq__(self, other: object) -> bool:
        return True if isinstance(other, Unlisted) and self.shows_equal(other) else super().__eq__(other)

    __hash__ = Region.__hash__

    def shows_equal(self, other: Unlisted) -> bool:
        """Whether they are made alike, and so equal; others may be, too."""
        return self._has(other) and other._has(self)

    def _has(self, other: Unlisted) -> bool:
        """Whether that contains another one shows without a list."""
        return all(each in self._tied for each in other._tied) and self._beside.contains(other._beside)


compiled.replace_methods(TiedRows, ("_columns_of", "_groups"))
compiled.replace_methods(Place, ("bands",))
