"""From iteration domains to bytes: the image of a domain under an affine offset, as a region.

Decides whether the region is the very set or a superset. Independent variables become the dimensions of a
strided box; what constraints cut from a domain of tied variables leaves few boxes (`slicing`), or else is
enumerated row by row in NumPy, one variable left to run along the row, up to a cap. Knows nothing of kernels.

What is called most is compiled as well (`compiled`): a change here needs the same change in `ranges/native/slices.c` and `projections.c`.
"""

from __future__ import annotations

from collections.abc import Hashable
from itertools import chain
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ..ranges import compiled
from ..ranges.byte_runs import paired
from ..ranges.pitches import copies, open_box
from ..ranges.region import Region
from ..ranges.slicing import Box, boxes_of
from ..ranges.tracing import Number
from ..ranges.unlisted import Place, TiedRows, Unlisted
from .domain import Domain, Form, Infeasible, Terms
from .projection import Parts, of_class, reduced

Integers = npt.NDArray[np.int64]

#: Rows enumerated for one access, and runs of one region, before a coarser superset is taken: some
#: milliseconds' worth.
MAX_ROWS = 1 << 14
MAX_RUNS = 1 << 16
#: Boxes into which constraints may cut a domain before its rows are enumerated.
MAX_BOXES = 64
#: Boxes up to which no others are looked for.
FEW_BOXES = 8
#: Classes of remainders into which a domain is cut if it is a lattice, like the black squares of a chessboard.
MAX_CLASSES = 8
#: Copies of a box, at distances that its strides do not divide, before a dimension is closed up.
MAX_COPIES = 1 << 12
#: The same if the set is not exact anyway.
MAX_LOOSE = 1 << 12
#: Variables that are looked at value by value where they cannot be projected out, and of how many values.
MAX_TURNS, MAX_VALUES = 3, 3
_BIG = 1 << 60


class _Rows:
    """Arithmetic progressions: from each of `starts`, `counts` members, `stride` > 0 apart."""

    __slots__ = ("counts", "starts", "stride")

    def __init__(self, starts: Integers, stride: int, counts: Integers) -> None:
        self.starts = starts
        self.stride = stride
        self.counts = counts


def image(
    domain: Domain, offset: Form, nbytes: int, size: int, turns: int = MAX_TURNS
) -> tuple[Region, bool, str | None]:
    """The bytes [offset, offset + nbytes) over all points of `domain`, within [0, size).

    Returns the region, whether it is exactly that set, and a reason if not. `domain` is used up. `turns`: how many variables may be
    looked at value by value.
    """
    if nbytes <= 0 or size <= 0:
        return Region.empty(), True, None
    try:
        domain.settle()
        offset = domain.fold(offset)
        low, high = domain.tight_bounds(offset)
        if high < 1 - nbytes or low >= size:
            return Region.empty(), True, None
        # Narrowing to the buffer may leave one value of an unknown offset, which remains unknown.
        loose = domain.is_loose(offset)
        if low < 0 or high > size - nbytes:
            _within(domain, offset, 1 - nbytes, size - 1)
            offset = domain.fold(offset)
            low, high = domain.bounds(offset)
    except Infeasible:
        return Region.empty(), True, None
    exact = domain.exact and not loose
    reason = None if exact else (domain.reasons or (f"an index that depends on {domain.origin(offset)}",))[0]
    if not -_BIG < low <= high < _BIG:
        return Region.span(0, size), False, reason or "an offset without bounds"
    if exact and not domain.constraints and type(low) is int and type(high) is int:
        found = _image_of_box(domain, offset, nbytes)
        if found is not None:
            return found.clip(0, size), True, None
    region, same = _image_of_tied(domain, offset, nbytes, size, (low, high), turns if exact else 0, exact)
    if exact and not same:
        exact, reason = False, "a range too irregular to enumerate"
    region = region.clip(0, size)
    return (region, exact, reason) if region else (Region.empty(), True, None)


def _image_of_tied(
    domain: Domain, offset: Form, nbytes: int, size: int, ends: tuple[int, int], turns: int, exact: bool
) -> tuple[Region, bool]:
    """The image of a domain whose variables constraints tie, and whether it is exactly that; `ends`: the least and the largest offset."""
    parts = reduced(domain.lo, domain.hi, domain.constraints, offset)
    if parts is None:
        return Region.empty(), True
    if turns and not parts[6]:
        by_values = _by_values(domain, offset, nbytes, size, turns)
        if by_values is not None:
            return by_values, True
    projection = _Projection(parts, MAX_ROWS if exact else MAX_LOOSE, MAX_RUNS if exact else MAX_LOOSE)
    region, same = projection.region(nbytes, *ends)
    return region, same and projection.exact


def _by_values(domain: Domain, offset: Form, nbytes: int, size: int, turns: int) -> Region | None:
    """The image as the union of those for each value of a variable; None where there is none of few values, or one of these images is
    not exact either.

    A coordinate that goes on at the other end, (x + k + n) % n, is exact for each quotient, of which there are two or three. Without a
    look at them x and k are what each of these leaves of them, and that need not be a number.
    """
    few: dict[int, int] = {}
    for form in domain.constraints:
        for variable, coefficient in form.terms.items():
            if abs(coefficient) > 1 and domain.lo[variable] < domain.hi[variable]:
                few[variable] = domain.hi[variable] - domain.lo[variable] + 1
    if not few or min(few.values()) > MAX_VALUES:
        return None
    variable = min(few, key=lambda each: few[each])
    found = []
    for value in range(domain.lo[variable], domain.hi[variable] + 1):
        part = domain.copy()
        part.lo[variable] = part.hi[variable] = value
        region, exact, _ = image(part, offset, nbytes, size, turns - 1)
        if not exact:
            return None
        found.append(region)
    return Region.union(found)


def _image_of_box(domain: Domain, offset: Form, nbytes: int) -> Region | None:
    """The bytes of an offset whose variables nothing ties, as most are; None where they are too many boxes to be exact."""
    start, dims = offset.constant, []
    for variable, coefficient in offset.terms.items():
        low = domain.lo[variable]
        start += coefficient * low
        dims.append((coefficient, domain.hi[variable] - low + 1))
    low, extent, rest = open_box(start, nbytes, dims)
    if len(rest) > 1 and copies(rest) > MAX_COPIES:
        return None
    return Region.span(low, low + extent).copies(rest)


def _leaves_int64(start: int, free: list[tuple[int, int]]) -> bool:
    """Whether adding up the dimensions may exceed 64 bits on the way: a variable with a huge range, cut by a guard."""
    return abs(start) + sum(abs(stride) * count for stride, count in free) >= _BIG


def _within(domain: Domain, offset: Form, low: int, high: int) -> None:
    """Narrow the box to offsets from `low` to `high`; the region is clipped to them in the end anyway."""
    constraints = list(domain.constraints)
    exact, reasons = domain.exact, domain.reasons
    domain.require(offset.shifted(-low))
    domain.require(offset.times(-1).shifted(high))
    domain.settle()
    # The two constraints have had their effect on the box; kept, they would tie all variables together.
    domain.constraints = [domain.fold(form) for form in constraints]
    domain.exact, domain.reasons = exact, reasons


class _Projection:
    """A domain reduced to the variables of its offset."""

    def __init__(self, parts: Parts, max_rows: int, max_runs: int) -> None:
        self._parts = parts
        (
            self.lo,
            self.hi,
            self.constraints,
            self.constants,
            _,
            self.offset,
            self.exact,
            self._start,
            self._free,
        ) = parts
        self.max_rows, self.max_runs = max_rows, max_runs
        self._groups: list[list[int]] | None = None
        self._refused = 0  #: boxes up to which the constraints, as they are, are known to cut into more

    def _components(self) -> list[list[int]]:
        """Groups of variables that constraints tie together."""
        if self._groups is None:
            self._groups = _components(self.constraints)
        return self._groups

    # to bytes ---------------------------------------------------------------------------------------

    def region(self, nbytes: int, low: int, high: int) -> tuple[Region, bool]:
        """The region and whether it is exact."""
        start, free = self._start, [*self._free]
        found = self._region_in_boxes(start, nbytes, free, FEW_BOXES)
        if found is not None:
            return found
        tied = self._tied_rows(start, nbytes, free)
        if tied is not None and tied.nrows <= MAX_BOXES:
            return tied.in_bands(), True
        found = self._region_in_boxes(start, nbytes, free, MAX_BOXES)
        if found is not None:
            return found
        if tied is not None:
            return Unlisted([(tied, 0)]), True
        return self._region_by_rows(nbytes, low, high, start, free)

    def _region_by_rows(
        self, nbytes: int, low: int, high: int, start: int, free: list[tuple[int, int]]
    ) -> tuple[Region, bool]:
        """The same, by a list of all rows of what constraints tie, or closed up where there are too many."""
        rows: list[_Rows] = []
        exact = True
        for component in self._components():
            of_component, same = self._component_rows(component, nbytes)
            if of_component is None:
                # Too many to enumerate: the box around them.
                for variable in component:
                    coefficient = self.offset.get(variable, 0)
                    start += coefficient * self.lo[variable]
                    free.append((coefficient, self.hi[variable] - self.lo[variable] + 1))
                exact = False
                continue
            if len(of_component.starts) == 0:
                return Region.empty(), True
            exact = exact and same
            rows.append(of_component)
        if _leaves_int64(start, free):
            return Region.span(max(low, 0), high + nbytes), False
        region, same = _spread(start, nbytes, free, rows, self.max_runs)
        if not exact:
            region = region.clip(low, high + nbytes)
        return region, exact and same

    def _region_in_boxes(
        self, start: int, nbytes: int, free: list[tuple[int, int]], most: int
    ) -> tuple[Region, bool] | None:
        """The region where it is at most so many boxes; a small chessboard is few by remainders, and many by its rows."""
        return self._region_of_boxes(start, nbytes, free, most) or self._region_by_classes(nbytes, most)

    def _tied_rows(self, start: int, nbytes: int, free: list[tuple[int, int]]) -> TiedRows | None:
        """The region as rows whose columns depend on the row, where two variables are tied and all others free, and the first and the
        last byte are easily found; None for others, and where not all rows would be listed.
        """
        components = self._components()
        if len(components) != 1 or len(components[0]) != 2:
            return None
        offset = self.offset
        row, column = sorted(components[0], key=lambda v: -abs(offset.get(v, 0)))
        pitch, width = offset.get(row, 0), offset.get(column, 0)
        rows, columns = (self.lo[row], self.hi[row]), (self.lo[column], self.hi[column])
        low, extent, rest = open_box(start, nbytes, free)
        nrows, breadth = rows[1] - rows[0] + 1, abs(width) * (columns[1] - columns[0])
        if not (0 < abs(width) <= extent and breadth + extent <= abs(pitch)):
            return None  # rows have gaps, or their ends are in another order than they are
        if max(map(abs, (*rows, *columns))) >= _BIG or _leaves_int64(start, free):
            return None
        if nrows > self.max_rows or nrows * prod(count for _, count in rest) > self.max_runs:
            return None
        numbers = {row: 0, column: 1}
        constraints = [
            ({numbers[v]: c for v, c in terms.items()}, constant)
            for terms, constant in zip(self.constraints, self.constants, strict=True)
        ]

        def listed() -> Region:
            given = list(zip(self.constraints, self.constants, strict=True))
            found = [self._enumerate(column, [row], given)]
            region, exact = _spread(start, nbytes, free, found, self.max_runs)
            assert exact, "there are few enough"
            return region

        try:
            return TiedRows(rows, columns, constraints, Place(low, extent, pitch, width, rest), listed)
        except ValueError:
            return None

    def _region_by_classes(self, nbytes: int, most: int) -> tuple[Region, bool] | None:
        """The region of a lattice, cut into boxes by the remainders of a variable; None if that does not give at most so many boxes
        for each remainder.

        With y = 2*q - x within bounds, x and q are tied; for even x, and for odd x, y has its own steps whatever x
        is. With y = 2*q + m - x, and few values of m, as in a chessboard of cubes, x is the one to look at.
        """
        for terms in self.constraints:
            steps = [v for v, c in terms.items() if 1 < abs(c) <= MAX_CLASSES and self.hi[v] > self.lo[v]]
            if len(steps) != 1:
                continue
            units = [v for v, c in terms.items() if abs(c) == 1 and self.hi[v] > self.lo[v]]
            if not 0 < len(units) <= 2:  # of three, one will not do
                continue
            unit = max(units, key=lambda v: self.hi[v] - self.lo[v])
            found: list[tuple[Region, bool]] = []
            for remainder in range(abs(terms[steps[0]])):
                parts = of_class(self._parts, terms, unit, steps[0], remainder)
                if parts is None:
                    continue
                part = _Projection(parts, self.max_rows, self.max_runs)
                of_part = part._region_of_boxes(part._start, nbytes, part._free, most)
                if of_part is None:
                    break
                found.append(of_part)
            else:
                return Region.union(region for region, _ in found), all(same for _, same in found)
        return None

    def _region_of_boxes(
        self, start: int, nbytes: int, free: list[tuple[int, int]], most: int
    ) -> tuple[Region, bool] | None:
        """The region of a domain that constraints cut into at most so many boxes; None if they cut it into more."""
        if most <= self._refused:
            return None
        offsets, refused, lo, hi = [(start, free)], list[int](), self.lo, self.hi
        components = self._components()
        mine = all_ones = list(zip(self.constraints, self.constants, strict=True))
        for component in components:
            bounds = {v: (lo[v], hi[v]) for v in component}
            if len(components) > 1:
                mine = [each for each in all_ones if not bounds.keys().isdisjoint(each[0])]
            boxes = boxes_of(bounds, mine, most // max(len(offsets), 1), refused)
            if boxes is None:
                if len(offsets) == 1 and refused:  # it has as many for itself whatever other components have
                    self._refused = refused[0]
                return None
            offsets = [_placed(self.offset, *offset, box) for offset in offsets for box in boxes]
        return _boxes([(first, nbytes, dims) for first, dims in offsets])

    def _component_rows(self, component: list[int], nbytes: int) -> tuple[_Rows | None, bool]:
        mine = set(component)
        constraints = [
            (terms, constant)
            for terms, constant in zip(self.constraints, self.constants, strict=True)
            if not mine.isdisjoint(terms)
        ]
        counts = {v: self.hi[v] - self.lo[v] + 1 for v in component}
        npoints = prod(counts.values())

        def cost(along: int) -> tuple[bool, int, int]:
            """Sort key: too many rows first; then runs, where rows with gaps count each element; then rows."""
            nrows = npoints // counts[along]
            contiguous = abs(self.offset.get(along, 0)) <= nbytes
            return nrows > self.max_rows, nrows if contiguous else npoints, nrows

        along = min(component, key=cost)
        if cost(along)[0] or any(max(abs(self.lo[v]), abs(self.hi[v])) >= _BIG for v in component):
            return None, False
        return self._enumerate(along, [v for v in component if v != along], constraints), True

    def _enumerate(
        self, along: int, others: list[int], constraints: list[tuple[dict[int, int], int]]
    ) -> _Rows:
        axes = [np.arange(self.lo[v], self.hi[v] + 1, dtype=np.int64) for v in others]
        grid = dict(zip(others, (axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")), strict=True))
        npoints = prod(len(axis) for axis in axes)
        first: Any = np.full(npoints, self.lo[along], np.int64)
        last: Any = np.full(npoints, self.hi[along], np.int64)
        kept = np.ones(npoints, bool)
        for terms, constant in constraints:
            value: Any = np.full(npoints, constant, np.int64)
            for v, c in terms.items():
                if v != along:
                    value += c * grid[v]
            c = terms.get(along, 0)
            if c > 0:
                np.maximum(first, -(value // c), out=first)
            elif c < 0:
                np.minimum(last, value // -c, out=last)
            else:
                kept &= value >= 0
        kept &= first <= last
        coefficient = self.offset.get(along, 0)
        starts: Any = coefficient * first if coefficient >= 0 else coefficient * last
        for v in others:
            c = self.offset.get(v, 0)
            if c:
                starts += c * grid[v]
        counts = last - first + 1
        if coefficient == 0:
            counts = np.ones_like(counts)
        return _Rows(starts[kept], max(abs(coefficient), 1), counts[kept])


def _placed(
    coefficients: Terms, start: int, dims: list[tuple[int, int]], box: Box
) -> tuple[int, list[tuple[int, int]]]:
    """The first offset and the dimensions, with those of a box of further variables."""
    more = []
    for variable, (low, high) in box.items():
        coefficient = coefficients.get(variable, 0)
        start += coefficient * low
        more.append((coefficient, high - low + 1))
    return start, dims + more


def _components(constraints: list[dict[int, int]]) -> list[list[int]]:
    """Groups of variables that constraints tie together."""
    groups: list[set[int]] = []
    for terms in constraints:
        touching = [group for group in groups if not group.isdisjoint(terms)]
        merged = set(terms).union(*touching)
        groups = [group for group in groups if group.isdisjoint(terms)] + [merged]
    return [sorted(group) for group in groups]


def _boxes(boxes: list[tuple[int, int, list[tuple[int, int]]]]) -> tuple[Region, bool]:
    """The union of `Region.boxes` of each first offset, bytes and dimensions, with dimensions closed up into runs if their strides do
    not go together and there would be too many boxes. What is repeated at the same distances, such as the rows of a triangle
    in each of several planes, is repeated together.
    """
    alike: dict[Hashable, list[tuple[int, int, list[tuple[int, int]]]]] = {}
    exact = True
    for start, nbytes, dims in boxes:
        low, extent, rest = open_box(start, nbytes, dims)
        while rest and copies(rest) > MAX_COPIES:
            stride, count = rest.pop(0)
            extent += stride * (count - 1)
            exact = False
        alike.setdefault(_key(rest) if rest else (), []).append((low, low + extent, rest))
    parts = [
        Region.spans((low, high) for low, high, _ in of_dims).copies(of_dims[0][2])
        for of_dims in alike.values()
    ]
    return Region.union(parts), exact


def _key(dims: list[tuple[int, int]]) -> Hashable:
    """What tells dimensions apart. Traced numbers are no keys: dimensions that have them differ from all others."""
    return id(dims) if Number in map(type, chain.from_iterable(dims)) else tuple(dims)


def _spread(
    start: int, nbytes: int, free: list[tuple[int, int]], rows: list[_Rows], max_runs: int
) -> tuple[Region, bool]:
    """The Minkowski sum of strided dimensions, sets of rows and one element of `nbytes`."""
    exact = True
    # Counted from `start`, which may be traced: no array takes such a number.
    base: Integers = np.array([sum(s * (c - 1) for s, c in free if s < 0)], np.int64)
    length: Integers = np.array([nbytes], np.int64)
    generators: list[_Rows] = [
        _Rows(np.zeros(1, np.int64), abs(s), np.array([c], np.int64)) for s, c in free if s and c > 1
    ]
    for row in sorted([*generators, *rows], key=lambda row: row.stride):
        if len(base) * len(row.starts) > max_runs:
            least = int(row.starts.min())
            span = int((row.starts + row.stride * (row.counts - 1)).max()) - least
            base, length, exact = base + least, length + span, False
            continue
        if row.stride > int(length.min()):
            if len(base) * int(row.counts.sum()) <= max_runs:
                row = _points(row)
            else:
                exact = False  # the gaps are filled
        extra = row.stride * (row.counts - 1)
        base = (row.starts[:, None] + base[None, :]).ravel()
        length = (extra[:, None] + length[None, :]).ravel()
        if len(base) > 64:
            # Runs that meet are one run; keeping them apart would only multiply the work.
            merged = Region.from_runs(paired(base, base + length)).runs
            if len(merged) < len(base):
                base, length = merged[:, 0].copy(), merged[:, 1] - merged[:, 0]
    return Region.from_runs(paired(base, base + length)).shift(start), exact


def _points(row: _Rows) -> _Rows:
    """Every member of the progressions as a row of its own."""
    counts = row.counts
    index = np.arange(int(counts.sum()), dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
    starts = np.repeat(row.starts, counts) + index * row.stride
    return _Rows(starts, 1, np.ones(len(starts), np.int64))


compiled.replace(globals(), ("_placed", "_components"))
