"""From iteration domains to bytes: the image of a domain under an affine offset, as a region.

Decides whether the region is the very set or a superset. Independent variables become the dimensions of a
strided box; what constraints cut from a domain of tied variables leaves few boxes (`slicing`), or else is
enumerated row by row in NumPy, one variable left to run along the row, up to a cap. Knows nothing of kernels.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterable
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
from .domain import Domain, Form, Infeasible, Terms, box_bounds

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
#: Remainders that become variables, however many constraints that leaves; and of digits, of which it leaves fewer each time: of as many
#: as a number has bits.
MAX_TURNS, MAX_DIGITS = 4, 64
_BIG = 1 << 60


class _Rows:
    """Arithmetic progressions: from each of `starts`, `counts` members, `stride` > 0 apart."""

    __slots__ = ("counts", "starts", "stride")

    def __init__(self, starts: Integers, stride: int, counts: Integers) -> None:
        self.starts = starts
        self.stride = stride
        self.counts = counts


def image(domain: Domain, offset: Form, nbytes: int, size: int) -> tuple[Region, bool, str | None]:
    """The bytes [offset, offset + nbytes) over all points of `domain`, within [0, size).

    Returns the region, whether it is exactly that set, and a reason if not. `domain` is used up.
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
    try:
        projection = _Projection(
            domain, offset, MAX_ROWS if exact else MAX_LOOSE, MAX_RUNS if exact else MAX_LOOSE
        )
        projection.rebase()
        projection.eliminate()
        region, same = projection.region(nbytes, low, high)
    except Infeasible:
        return Region.empty(), True, None
    if exact and not (same and projection.exact):
        exact, reason = False, "a range too irregular to enumerate"
    return region.clip(0, size), exact, reason


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
    """The domain reduced to the variables of the offset."""

    def __init__(self, domain: Domain, offset: Form, max_rows: int, max_runs: int) -> None:
        self.lo, self.hi = domain.lo, domain.hi
        self.max_rows, self.max_runs = max_rows, max_runs
        self.offset = offset
        self.exact = True
        self._refused = 0  #: boxes up to which the constraints, as they are, are known to cut into more
        self.constraints: list[dict[int, int]] = []
        self.constants: list[int] = []
        for form in domain.constraints:
            if form.terms:
                self._add(form.constant, dict(form.terms))

    def _add(self, constant: int, terms: dict[int, int]) -> None:
        if not terms and constant < 0:
            raise Infeasible
        low, high = box_bounds(constant, terms, self.lo, self.hi)
        if low >= 0:
            return
        if high < 0:
            raise Infeasible
        if len(terms) == 1:
            ((variable, coefficient),) = terms.items()
            if coefficient > 0:
                self.lo[variable] = max(self.lo[variable], -(constant // coefficient))
            else:
                self.hi[variable] = min(self.hi[variable], constant // -coefficient)
            if self.lo[variable] > self.hi[variable]:
                raise Infeasible
            return
        self.constraints.append(terms)
        self.constants.append(constant)

    def rebase(self) -> None:
        """Use remainders as variables: with 0 <= x - 16*q <= 15, x is replaced by 16*q + m, 0 <= m <= 15.

        Quotient and remainder are often independent when x and the quotient are not. After a few, this goes on only while there
        are fewer constraints each time, as of the digits of a number: their bounds say nearly all about x.
        """
        for number in range(MAX_DIGITS):
            found = self._remainder()
            if found is None:
                return
            terms, low, high, x = found
            self.lo.append(low)
            self.hi.append(high)
            sign = terms[x]
            # x = sign * (m - the other terms)
            value = {v: -sign * c for v, c in terms.items() if v != x}
            value[len(self.lo) - 1] = sign
            if number >= MAX_TURNS:
                least, most = box_bounds(0, value, self.lo, self.hi)
                if least < self.lo[x] and self.hi[x] < most:
                    return
            old, constants = self.constraints, self.constants
            self.constraints, self.constants = [], []
            for other, constant in zip(old, constants, strict=True):
                if other != terms and other != {v: -c for v, c in terms.items()}:
                    self._add(constant, _replace(other, x, value))
            self._add(-self.lo[x], dict(value))
            self._add(self.hi[x], {v: -c for v, c in value.items()})
            self.offset = Form(self.offset.constant, _replace(self.offset.terms, x, value))

    def _remainder(self) -> tuple[dict[int, int], int, int, int] | None:
        """A constraint pair low <= terms <= high with a variable x of coefficient 1 or -1 and a larger other
        coefficient."""
        for terms in self.constraints:
            if max(abs(c) for c in terms.values()) <= 1:
                continue
            units = [v for v, c in terms.items() if abs(c) == 1 and self.hi[v] > self.lo[v]]
            opposite = {v: -c for v, c in terms.items()}
            lows = [-c for t, c in zip(self.constraints, self.constants, strict=True) if t == terms]
            highs = [c for t, c in zip(self.constraints, self.constants, strict=True) if t == opposite]
            if units and highs:
                if max(lows) > min(highs):
                    raise Infeasible
                return terms, max(lows), min(highs), max(units, key=lambda v: self.hi[v] - self.lo[v])
        return None

    def eliminate(self) -> None:
        """Project out the variables that do not occur in the offset (Fourier-Motzkin, exact if the integers allow
        it).
        """
        wanted = self.offset.terms
        while True:
            others = {v for terms in self.constraints for v in terms if v not in wanted}
            if not others:
                return
            self._eliminate(min(others, key=self._pairs))

    def _pairs(self, variable: int) -> tuple[int, int]:
        signs = [terms[variable] for terms in self.constraints if variable in terms]
        positive = sum(c > 0 for c in signs)
        unit = all(abs(c) == 1 for c in signs)
        return (positive + 1) * (len(signs) - positive + 1) + (0 if unit else 1000), variable

    def _least(self, terms: dict[int, int]) -> int:
        return sum(c * (self.lo[v] if c > 0 else self.hi[v]) for v, c in terms.items())

    def _eliminate(self, variable: int) -> None:
        lowers: list[tuple[int, dict[int, int], int]] = [(1, {}, -self.lo[variable])]
        uppers: list[tuple[int, dict[int, int], int]] = [(1, {}, self.hi[variable])]
        rest, rest_constants = [], []
        for terms, constant in zip(self.constraints, self.constants, strict=True):
            coefficient = terms.get(variable, 0)
            if coefficient == 0:
                rest.append(terms)
                rest_constants.append(constant)
                continue
            others = {v: c for v, c in terms.items() if v != variable}
            (lowers if coefficient > 0 else uppers).append((abs(coefficient), others, constant))
        self.constraints, self.constants = rest, rest_constants
        if len(lowers) * len(uppers) > 64:
            self.exact = False
            return
        for a, lower, lower_constant in lowers:
            for b, upper, upper_constant in uppers:
                if not lower and not upper:
                    continue
                terms = _combined(lower, b, upper, a)
                constant = b * lower_constant + a * upper_constant
                if a > 1 and b > 1:
                    # Between the real shadow and the dark shadow an integer need not exist (Pugh's Omega
                    # test).
                    least = constant + self._least(terms)
                    self.exact = self.exact and least >= (a - 1) * (b - 1)
                if terms:
                    self._add(constant, terms)
                elif constant < 0:
                    raise Infeasible

    # to bytes ---------------------------------------------------------------------------------------

    def region(self, nbytes: int, low: int, high: int) -> tuple[Region, bool]:
        """The region and whether it is exact."""
        start, free = self._placed_freely()
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
        for component in _components(self.constraints):
            of_component, same = self._component_rows(component, nbytes)
            if of_component is None:
                # Too many to enumerate: the box around them.
                for variable in component:
                    coefficient = self.offset.terms.get(variable, 0)
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
        components = _components(self.constraints)
        if len(components) != 1 or len(components[0]) != 2:
            return None
        offset = self.offset.terms
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

    def _placed_freely(self) -> tuple[int, list[tuple[int, int]]]:
        """The first offset, and stride and number of each variable that no constraint ties."""
        self._merge_ids()
        free: list[tuple[int, int]] = []
        tied = {v for terms in self.constraints for v in terms}
        start = self.offset.constant
        for variable, coefficient in self.offset.terms.items():
            if variable not in tied:
                start += coefficient * self.lo[variable]
                free.append((coefficient, self.hi[variable] - self.lo[variable] + 1))
        return start, free

    def _region_by_classes(
        self, nbytes: int, most: int, classes: int = MAX_CLASSES
    ) -> tuple[Region, bool] | None:
        """The region of a lattice, cut into boxes by the remainders of a variable; None if that does not give at most so many boxes
        for each remainder, of which there may be so many `classes`.

        With y = 2*q - x within bounds, x and q are tied; for even x, and for odd x, y has its own steps whatever x
        is. In a chessboard of cubes what is left for even x is such a lattice again.
        """
        for terms in self.constraints:
            steps = [v for v, c in terms.items() if 1 < abs(c) <= classes and self.hi[v] > self.lo[v]]
            if len(steps) != 1:
                continue
            units = [v for v, c in terms.items() if abs(c) == 1 and self.hi[v] > self.lo[v]]
            if not 0 < len(units) <= 2:  # of three, one will not do
                continue
            unit = max(units, key=lambda v: self.hi[v] - self.lo[v])
            found: list[tuple[Region, bool]] = []
            modulus = abs(terms[steps[0]])
            for remainder in range(modulus):
                parts = self._class(unit, steps[0], terms, remainder, nbytes, most, classes // modulus)
                if None in parts:
                    break
                found += [part for part in parts if part is not None]
            else:
                return Region.union(region for region, _ in found), all(same for _, same in found)
        return None

    def _class(
        self, unit: int, step: int, terms: dict[int, int], remainder: int, nbytes: int, most: int, classes: int
    ) -> list[tuple[Region, bool] | None]:
        """The region of the points whose `unit` has this remainder modulo the coefficient of `step`, in its turn cut into so many classes
        at most; nothing if there are none.
        """
        modulus = abs(terms[step])
        part = copy.copy(self)
        part.lo, part.hi, part.constraints, part.constants = [*self.lo], [*self.hi], [], []
        part._refused = 0
        x, y = len(self.lo), len(self.lo) + 1  # unit = modulus * x + remainder, step = y + sign * x
        sign = -terms[unit] * modulus // terms[step]
        part.lo.append(-((remainder - self.lo[unit]) // modulus))
        part.hi.append((self.hi[unit] - remainder) // modulus)
        least, greatest = sorted((sign * part.lo[x], sign * part.hi[x]))
        part.lo.append(self.lo[step] - greatest)
        part.hi.append(self.hi[step] - least)
        if part.lo[x] > part.hi[x]:
            return []

        def told(form: dict[int, int]) -> tuple[int, dict[int, int]]:
            a, b = form.get(unit, 0), form.get(step, 0)
            others = {v: c for v, c in form.items() if v not in (unit, step)}
            return a * remainder, {v: c for v, c in (others | {x: a * modulus + b * sign, y: b}).items() if c}

        try:
            for form, constant in zip(self.constraints, self.constants, strict=True):
                shift, form = told(form)
                part._add(constant + shift, form)
            part._add(-self.lo[step], {y: 1, x: sign})
            part._add(self.hi[step], {y: -1, x: -sign})
            shift, form = told(self.offset.terms)
            part.offset = Form(self.offset.constant + shift, form)
            start, free = part._placed_freely()
        except Infeasible:
            return []
        return [
            part._region_of_boxes(start, nbytes, free, most) or part._region_by_classes(nbytes, most, classes)
        ]

    def _region_of_boxes(
        self, start: int, nbytes: int, free: list[tuple[int, int]], most: int
    ) -> tuple[Region, bool] | None:
        """The region of a domain that constraints cut into at most so many boxes; None if they cut it into more."""
        if most <= self._refused:
            return None
        offsets, refused = [(start, free)], list[int]()
        for component in _components(self.constraints):
            bounds = {v: (self.lo[v], self.hi[v]) for v in component}
            mine = [
                (terms, constant)
                for terms, constant in zip(self.constraints, self.constants, strict=True)
                if not bounds.keys().isdisjoint(terms)
            ]
            boxes = boxes_of(bounds, mine, most // max(len(offsets), 1), refused)
            if boxes is None:
                if len(offsets) == 1 and refused:  # it has as many for itself whatever other components have
                    self._refused = refused[0]
                return None
            offsets = [self._placed(*offset, box) for offset in offsets for box in boxes]
        return _boxes([(first, nbytes, dims) for first, dims in offsets])

    def _placed(self, start: int, dims: list[tuple[int, int]], box: Box) -> tuple[int, list[tuple[int, int]]]:
        """The first offset and the dimensions, with those of a box of further variables."""
        more = []
        for variable, (low, high) in box.items():
            coefficient = self.offset.terms.get(variable, 0)
            start += coefficient * low
            more.append((coefficient, high - low + 1))
        return start, dims + more

    def _merge_ids(self) -> None:
        """Two variables that occur only as x + n*y, where x covers n steps or more, are a single variable."""
        while True:
            found = _steps_of_another(self.offset.terms, self.lo, self.hi, self.constraints)
            if found is None:
                return
            x, y, steps = found
            # x + steps*y: from lo(x) + steps*lo(y) on, or with negative steps up to hi(x) + steps*lo(y), without gaps
            further = steps * (self.hi[y] - self.lo[y])
            if further > 0:
                self.hi[x] += further
            else:
                self.lo[x] += further
            shift = self.lo[y]
            self.offset = Form(
                self.offset.constant + self.offset.terms[y] * shift,
                {v: c for v, c in self.offset.terms.items() if v != y},
            )
            old, constants = self.constraints, self.constants
            self.constraints, self.constants = [], []
            for terms, constant in zip(old, constants, strict=True):
                rest = dict(terms)
                self._add(constant + rest.pop(y, 0) * shift, rest)

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
            contiguous = abs(self.offset.terms.get(along, 0)) <= nbytes
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
        coefficient = self.offset.terms.get(along, 0)
        starts: Any = coefficient * first if coefficient >= 0 else coefficient * last
        for v in others:
            c = self.offset.terms.get(v, 0)
            if c:
                starts += c * grid[v]
        counts = last - first + 1
        if coefficient == 0:
            counts = np.ones_like(counts)
        return _Rows(starts[kept], max(abs(coefficient), 1), counts[kept])


def _steps_of_another(
    offset: Terms, lo: list[int], hi: list[int], constraints: list[Terms]
) -> tuple[int, int, int] | None:
    """Variables x and y of an offset, and n, where they occur only as x + n*y, and x covers n steps or more."""
    for x, of_x in offset.items():
        count = hi[x] - lo[x] + 1
        for y, of_y in offset.items():
            if x == y or count <= 1:
                continue
            steps = count
            # Of traced numbers no more is asked than whether they are as those of work-groups and their items.
            if type(of_x) is int and type(of_y) is int:
                steps = of_y // of_x
                if not 0 < abs(steps) <= count:
                    continue
            if of_y == steps * of_x and all(
                terms.get(y, 0) == steps * terms.get(x, 0) for terms in constraints
            ):
                return x, y, steps
    return None


def _replace(terms: dict[int, int], x: int, value: dict[int, int]) -> dict[int, int]:
    """Linear terms with x replaced by a linear form."""
    factor = terms.get(x, 0)
    if factor == 0:
        return dict(terms)
    result = {v: c for v, c in terms.items() if v != x}
    for v, c in value.items():
        result[v] = result.get(v, 0) + factor * c
    return {v: c for v, c in result.items() if c}


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
    numbers: Iterable[object] = chain.from_iterable(dims)
    return id(dims) if any(type(number) is Number for number in numbers) else tuple(dims)


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


def _combined(first: dict[int, int], a: int, second: dict[int, int], b: int) -> dict[int, int]:
    """The terms of `a` times one form and `b` times another."""
    terms = {variable: a * coefficient for variable, coefficient in first.items()}
    for variable, coefficient in second.items():
        terms[variable] = terms.get(variable, 0) + b * coefficient
    return {variable: coefficient for variable, coefficient in terms.items() if coefficient}


compiled.replace(globals(), ("_steps_of_another",))  # in `ranges/native/slices.c`
