"""Sets of integers as nested bands, in mixed-radix coordinates. The arithmetic under `region`.

`units` are u0 > u1 > … > uk = 1, each a multiple of the next: the bytes of a plane, of a row, of an element,
one. An offset has the digits o // u0, (o % u0) // u1, and so on. A set at level j is a sorted tuple of bands
(lo, hi, inner): for each digit of that level from lo up to hi, the digits below lie in `inner`, a set of level
j + 1, or anywhere where `inner` is None. A set that is all of a unit is always None, neighbours with equal
inner sets are one band, and nothing is empty: for given units equal sets are equal tuples.

The cost of every function depends on the number of bands alone, except where it says so. Knows no bytes and no
buffers; the digits of level 0 have no bounds and may be negative.

What is called most is compiled as well (`compiled`): a change here needs the same change in `native/bands.c`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from heapq import nlargest
from itertools import pairwise
from math import gcd
from operator import itemgetter
from typing import Optional

import numpy as np
import numpy.typing as npt

from . import compiled

Band = tuple[int, int, Optional["Bands"]]
Bands = tuple[Band, ...]
Units = tuple[int, ...]
Integers = npt.NDArray[np.int64]
_Change = Callable[[Bands, int], Bands]
#: (stride, count) of each dimension of a box, the largest stride first
Dims = tuple[tuple[int, int], ...]
#: (least, one more than the largest) of each digit
Corner = tuple[tuple[int, int], ...]


def _append(bands: list[Band], lo: int, hi: int, inner: Bands | None) -> None:
    """Add a band after the others, joined with the last if they are adjacent and equal."""
    if bands:
        last = bands[-1]
        if last[1] == lo and last[2] == inner:
            bands[-1] = (last[0], hi, inner)
            return
    bands.append((lo, hi, inner))


def span(start: int, stop: int, units: Units, level: int = 0) -> Bands:
    """start <= o < stop, which is not empty: at most two bands for each level and one.

    >>> span(3, 25, (10, 1))
    ((0, 1, ((3, 10, None),)), (1, 2, None), (2, 3, ((0, 5, None),)))
    """
    unit = units[level]
    if unit == 1:
        return ((start, stop, None),)
    first, low = divmod(start, unit)
    last, high = divmod(stop, unit)
    if first == last:
        return ((first, first + 1, span(low, high, units, level + 1)),)
    bands: list[Band] = []
    if low:
        bands.append((first, first + 1, span(low, unit, units, level + 1)))
        first += 1
    if first < last:
        bands.append((first, last, None))
    if high:
        bands.append((last, last + 1, span(0, high, units, level + 1)))
    return tuple(bands)


#: bands from which on those beside another set are left out by bisection
_MANY = 12


def _beside(a: Bands, b: Bands) -> tuple[int, int]:
    """Where in `a`, which has many bands, those begin and end that may overlap or touch `b`."""
    first, last = b[0][0], b[-1][1]
    return bisect_left(a, first, key=_stop), bisect_right(a, last, key=_start)


_start, _stop = itemgetter(0), itemgetter(1)


def intersect(a: Bands, b: Bands) -> Bands:  # noqa: C901 (one walk over both)
    """The members that both have; both have the same units."""
    if len(b) == 1:
        blo, bhi, bin_ = b[0]
        if bin_ is None:
            return _within(a, blo, bhi)
        if len(a) == 1:  # as half of all have one band
            alo, ahi, ain = a[0]
            lo, hi = alo if alo > blo else blo, ahi if ahi < bhi else bhi
            if lo >= hi:
                return ()
            if ain is None or ain is bin_:
                return ((lo, hi, bin_),)
            inner = intersect(ain, bin_)
            return ((lo, hi, inner),) if inner else ()
    if len(a) == 1 and a[0][2] is None:
        return _within(b, a[0][0], a[0][1])
    if len(a) > _MANY and b:
        low, high = _beside(a, b)
        a = a[low:high]
    if len(b) > _MANY and a:
        low, high = _beside(b, a)
        b = b[low:high]
    found: list[Band] = []
    i, j, na, nb = 0, 0, len(a), len(b)
    while i < na and j < nb:
        alo, ahi, ain = a[i]
        blo, bhi, bin_ = b[j]
        lo, hi = alo if alo > blo else blo, ahi if ahi < bhi else bhi
        if lo < hi:
            if ain is None or ain is bin_:
                _append(found, lo, hi, bin_)
            elif bin_ is None:
                _append(found, lo, hi, ain)
            elif inner := intersect(ain, bin_):
                _append(found, lo, hi, inner)
        if ahi <= bhi:
            i += 1
        if bhi <= ahi:
            j += 1
    return tuple(found)


def _within(a: Bands, low: int, high: int) -> Bands:
    """The part of `a` with digits from `low` up to `high`; `a` itself if that is all of it."""
    if len(a) == 1:
        lo, hi, inner = a[0]
        if low <= lo:
            if hi <= high:
                return a
            return ((lo, high, inner),) if lo < high else ()
        if low >= hi:
            return ()
        return ((low, hi if hi < high else high, inner),)
    if not a or (low <= a[0][0] and a[-1][1] <= high):
        return a
    if len(a) > _MANY:
        a = a[bisect_right(a, low, key=_stop) : bisect_left(a, high, key=_start)]
    return tuple(
        [
            (lo if lo > low else low, hi if hi < high else high, inner)
            for lo, hi, inner in a
            if lo < high and low < hi
        ]
    )


def meet(a: Bands, b: Bands) -> bool:
    """Whether they have a member in common."""
    i, j, na, nb = 0, 0, len(a), len(b)
    while i < na and j < nb:
        alo, ahi, ain = a[i]
        blo, bhi, bin_ = b[j]
        if (alo if alo > blo else blo) < (ahi if ahi < bhi else bhi) and (
            ain is None or bin_ is None or ain is bin_ or meet(ain, bin_)
        ):
            return True
        if ahi <= bhi:
            i += 1
        if bhi <= ahi:
            j += 1
    return False


def unite(a: Bands, b: Bands, units: Units, level: int = 0) -> Bands:
    """The members that either has; both are of level `level` of `units`."""
    if not a or not b or a is b:
        return a or b
    if len(b) > len(a):
        a, b = b, a
    if len(a) == 1:
        (alo, ahi, ain), (blo, bhi, bin_) = a[0], b[0]
        if ahi < blo:
            return (a[0], b[0])
        if bhi < alo:
            return (b[0], a[0])
        if ain is bin_ or ain == bin_:
            return ((alo if alo < blo else blo, ahi if ahi > bhi else bhi, ain),)
    if len(a) <= _MANY:
        return _merged(a, b, units, level)
    low, high = _beside(a, b)
    near = a[low:high]
    if len(b) <= _MANY:
        return _joined(a[:low], _merged(near, b, units, level), a[high:])
    # Each is narrowed to the other once: if they alternate, each further time would leave out only one band.
    first, last = _beside(b, near) if near else (0, 0)
    between = _joined(b[:first], _merged(near, b[first:last], units, level), b[last:])
    return _joined(a[:low], between, a[high:])


def _merged(a: Bands, b: Bands, units: Units, level: int) -> Bands:  # noqa: C901 (one walk over both)
    """The members that either has, by a walk over both."""
    if not a or not b:
        return a or b
    found: list[Band] = []
    i, j, na, nb = 0, 0, len(a), len(b)
    alo, ahi, ain = a[0]
    blo, bhi, bin_ = b[0]
    while i < na and j < nb:
        if alo < blo:
            hi = ahi if ahi < blo else blo
            _append(found, alo, hi, ain)
            alo = hi
        elif blo < alo:
            hi = bhi if bhi < alo else alo
            _append(found, blo, hi, bin_)
            blo = hi
        else:
            hi = ahi if ahi < bhi else bhi
            if ain is None or bin_ is None:
                _append(found, alo, hi, None)
            elif ain is bin_ or ain == bin_:
                _append(found, alo, hi, ain)
            else:
                inner = unite(ain, bin_, units, level + 1)
                whole = len(inner) == 1 and inner[0] == (0, units[level] // units[level + 1], None)
                _append(found, alo, hi, None if whole else inner)
            alo = blo = hi
        if alo == ahi:
            i += 1
            if i < na:
                alo, ahi, ain = a[i]
        if blo == bhi:
            j += 1
            if j < nb:
                blo, bhi, bin_ = b[j]
    if i < na:
        _append(found, alo, ahi, ain)
        found += a[i + 1 :]
    elif j < nb:
        _append(found, blo, bhi, bin_)
        found += b[j + 1 :]
    return tuple(found)


def _joined(before: Bands, between: Bands, after: Bands) -> Bands:
    """Bands one behind the other, joined where they are adjacent and equal."""
    found = list(before)
    if between:
        _append(found, *between[0])
        found += between[1:]
    if after:
        _append(found, *after[0])
        found += after[1:]
    return tuple(found)


def subtract(a: Bands, b: Bands, units: Units, level: int = 0) -> Bands:  # noqa: C901 (one walk over both)
    """The members that `a` has and `b` has not; both are of level `level` of `units`."""
    if len(b) == 1:
        blo, bhi, bin_ = b[0]
        if bin_ is None:
            return _without(a, blo, bhi)
        if len(a) == 1:
            return _one_less(a, b, units, level)
    if len(a) > _MANY and b:
        low, high = _beside(a, b)
        if high - low < len(a):
            return _joined(a[:low], subtract(a[low:high], b, units, level), a[high:])
    if len(b) > _MANY and a:
        low, high = _beside(b, a)
        b = b[low:high]
    found: list[Band] = []
    j, nb = 0, len(b)
    for alo, ahi, ain in a:
        while j < nb and b[j][1] <= alo:
            j += 1
        at, lo = j, alo
        while at < nb:
            blo, bhi, bin_ = b[at]
            if blo >= ahi:
                break
            if lo < blo:
                _append(found, lo, blo, ain)
                lo = blo
            hi = ahi if ahi < bhi else bhi
            if bin_ is not None and ain is not bin_:
                mine = ((0, units[level] // units[level + 1], None),) if ain is None else ain
                if inner := subtract(mine, bin_, units, level + 1):
                    _append(found, lo, hi, inner)
            lo = hi
            at += 1
        if lo < ahi:
            _append(found, lo, ahi, ain)
    return tuple(found)


def _one_less(a: Bands, b: Bands, units: Units, level: int) -> Bands:
    """`subtract` for one band each, as half of all have; what `b` has is no whole digits."""
    alo, ahi, ain = a[0]
    blo, bhi, bin_ = b[0]
    lo, hi = alo if alo > blo else blo, ahi if ahi < bhi else bhi
    if lo >= hi:
        return a
    inner: Bands = ()
    if ain is not bin_ and bin_ is not None:
        mine = ((0, units[level] // units[level + 1], None),) if ain is None else ain
        inner = subtract(mine, bin_, units, level + 1)
        if inner is mine or inner == mine:
            return a
    before: Bands = ((alo, lo, ain),) if alo < lo else ()
    if inner:
        before = (*before, (lo, hi, inner))
    return (*before, (hi, ahi, ain)) if hi < ahi else before


def _without(a: Bands, low: int, high: int) -> Bands:
    """`a` without its digits from `low` up to `high`; `a` itself if it has none of them."""
    if len(a) == 1:
        lo, hi, inner = a[0]
        if hi <= low or high <= lo:
            return a
        if lo < low:
            return ((lo, low, inner),) if hi <= high else ((lo, low, inner), (high, hi, inner))
        return ((high, hi, inner),) if high < hi else ()
    begin, end = 0, len(a)
    if end > _MANY:
        begin, end = bisect_right(a, low, key=_stop), bisect_left(a, high, key=_start)
    else:
        while begin < end and a[begin][1] <= low:
            begin += 1
        while begin < end and a[end - 1][0] >= high:
            end -= 1
    if begin == end:
        return a
    first, last = a[begin], a[end - 1]
    before: Bands = ((first[0], low, first[2]),) if first[0] < low else ()
    after: Bands = ((high, last[1], last[2]),) if last[1] > high else ()
    return (*a[:begin], *before, *after, *a[end:])


def shift(bands: Bands, offset: int, units: Units, level: int = 0) -> Bands:
    """The same set moved by `offset`. What is carried to the next digit may double the bands of a level."""
    unit = units[level]
    up, rest = divmod(offset, unit)
    if not rest:
        return tuple([(lo + up, hi + up, inner) for lo, hi, inner in bands]) if up else bands
    size = unit // units[level + 1]
    near: list[Band] = []
    far: list[Band] = []
    for lo, hi, inner in bands:
        moved = shift(((0, size, None),) if inner is None else inner, rest, units, level + 1)
        if moved[-1][1] <= size:  # nothing is carried
            _append(near, lo + up, hi + up, moved)
            continue
        stays = tuple([(a, b if b < size else size, x) for a, b, x in moved if a < size])
        goes = tuple([(a - size if a > size else 0, b - size, x) for a, b, x in moved if b > size])
        if stays:
            _append(near, lo + up, hi + up, stays)
        if goes:
            _append(far, lo + up + 1, hi + up + 1, goes)
    return unite(tuple(near), tuple(far), units, level)


def repeat(bands: Bands, count: int, units: Units) -> Bands:
    """The union of the set moved by 0, 1, … count - 1 of the largest unit."""
    found: Bands = ()
    for lo, hi, inner in bands:
        found = unite(found, ((lo, hi + count - 1, inner),), units)
    return found


def refine(bands: Bands, old: Units, new: Units) -> Bands:
    """The same set in `new` units, which have all of the `old` ones."""
    depth = 0
    while old != new:
        if old[depth] == new[depth]:
            depth += 1
            continue
        bands = _at_depth(bands, depth, new[depth] // old[depth], _split)
        old = (*old[:depth], new[depth], *old[depth:])
    return bands


def coarsen(bands: Bands, units: Units, depth: int) -> Bands:
    """The same set without the unit of level `depth`. Costs a step for each band in each such unit."""
    return _at_depth(bands, depth, units[depth] // units[depth + 1], _flatten)


def _at_depth(bands: Bands, depth: int, ratio: int, change: _Change) -> Bands:
    if depth == 0:
        return change(bands, ratio)
    return tuple(
        [
            (lo, hi, None if inner is None else _at_depth(inner, depth - 1, ratio, change))
            for lo, hi, inner in bands
        ]
    )


def _split(bands: Bands, ratio: int) -> Bands:
    """One digit as two, the lower one of `ratio` values."""
    found: list[Band] = []
    parts: list[Band] = []  # of the row that is not complete yet
    open_row = 0
    for start, hi, inner in bands:
        lo = start
        while lo < hi:
            row, low = divmod(lo, ratio)
            stop = (row + 1) * ratio
            if parts and row != open_row:
                _append(found, open_row, open_row + 1, tuple(parts))
                parts = []
            if low or hi < stop:
                stop = min(hi, stop)
                parts.append((low, stop - row * ratio, inner))
                open_row = row
            else:
                stop = hi - hi % ratio
                _append(found, row, stop // ratio, None if inner is None else ((0, ratio, inner),))
            lo = stop
    if parts:
        _append(found, open_row, open_row + 1, tuple(parts))
    return tuple(found)


def _flatten(bands: Bands, ratio: int) -> Bands:
    """Two digits as one, the lower one of `ratio` values so far."""
    found: list[Band] = []
    for lo, hi, inner in bands:
        if inner is None:
            _append(found, lo * ratio, hi * ratio, None)
            continue
        row, stop = lo * ratio, hi * ratio
        while row < stop:
            for low, high, below in inner:
                _append(found, row + low, row + high, below)
            row += ratio
    return tuple(found)


def close_up(bands: Bands, depth: int) -> Bands:
    """A set that contains all of these members, and everything between the first and the last digit of each set of
    level `depth`.
    """
    if depth == 0:
        return ((bands[0][0], bands[-1][1], None),)
    found: list[Band] = []
    for lo, hi, inner in bands:
        _append(found, lo, hi, None if inner is None else close_up(inner, depth - 1))
    return tuple(found)


def repeated(bands: Bands, depth: int) -> list[bool]:
    """By level, whether several digits have the same proper part of a unit: otherwise a set with no more bands does
    without that unit.
    """
    found = [False] * depth
    _mark_repeated(bands, 0, found)
    return found


def settled(bands: Bands, pitches: Units, few: int) -> tuple[Bands, Units, int, int]:
    """Bands, none of which is missing, in those of their pitches that spare any, if there are no more than a few; these pitches; and
    where the set begins and ends."""
    if pitches and len(bands) <= few:
        needed = repeated(bands, len(pitches))
        for depth in range(len(pitches) - 1, -1, -1):
            if not needed[depth]:
                bands = coarsen(bands, (*pitches, 1), depth)
                pitches = pitches[:depth] + pitches[depth + 1 :]
    if not pitches:
        return bands, pitches, bands[0][0], bands[-1][1]
    units = (*pitches, 1)
    return bands, pitches, first(bands, units), last(bands, units)


def _mark_repeated(bands: Bands, level: int, found: list[bool]) -> None:
    below = level + 1
    for lo, hi, inner in bands:
        if inner is not None:
            if hi - lo > 1:
                found[level] = True
            if below < len(found):
                _mark_repeated(inner, below, found)
            if found[level] and all(found[below:]):
                return


# reading --------------------------------------------------------------------------------------------------


def first(bands: Bands, units: Units) -> int:
    """The least member."""
    least, inner = 0, bands
    for unit in units:
        least += inner[0][0] * unit
        below = inner[0][2]
        if below is None:
            return least
        inner = below
    return least


def last(bands: Bands, units: Units) -> int:
    """One more than the largest member."""
    most, inner = 0, bands
    for unit in units:
        _, hi, below = inner[-1]
        if below is None:
            return most + hi * unit
        most += (hi - 1) * unit
        inner = below
    return most


def corners(bands: Bands, units: Units) -> list[Corner]:
    """The set as boxes of digits: for each level the least and one more than the largest."""
    found: list[Corner] = []
    whole = tuple((0, one // other) for one, other in pairwise(units))
    _add_corners(bands, (), whole, found)
    return found


def _add_corners(bands: Bands, above: Corner, below: Corner, found: list[Corner]) -> None:
    for lo, hi, inner in bands:
        if inner is None:
            found.append((*above, (lo, hi), *below))
        else:
            _add_corners(inner, (*above, (lo, hi)), below[1:], found)


#: values of a digit up to which the digits below are kept apart for each
_FEW_VALUES = 8


def joined_digits(corners: list[Corner], level: int, ratio: int) -> list[Corner]:
    """The same boxes, or boxes around them, with the digit of a level and the one below it, which has `ratio` values,
    as one digit.
    """
    found: list[Corner] = []
    for corner in corners:
        (lo, hi), (low, high) = corner[level : level + 2]
        ways = [(lo, hi)]
        if high - low < ratio and hi - lo <= _FEW_VALUES:
            ways = [(digit, digit + 1) for digit in range(lo, hi)]
        found += [
            (*corner[:level], (a * ratio + low, (b - 1) * ratio + high), *corner[level + 2 :])
            for a, b in ways
        ]
    return found


def around(corners: Sequence[Corner]) -> Corner:
    """The smallest box of digits that contains all of these."""
    digits = zip(*corners, strict=True)
    return tuple([(min(map(itemgetter(0), ends)), max(map(itemgetter(1), ends))) for ends in digits])


def count(bands: Bands, units: Units, level: int = 0) -> int:
    """The number of members."""
    total, unit = 0, units[level]
    for lo, hi, inner in bands:
        total += (hi - lo) * (unit if inner is None else count(inner, units, level + 1))
    return total


def count_runs(bands: Bands, units: Units, level: int = 0) -> tuple[int, bool, bool]:
    """How many runs of members there are; whether they begin with the first digit; whether the last of a whole unit
    ends them (at level 0: False)."""
    total, end, begins, joined = 0, None, False, False
    for index, (lo, hi, inner) in enumerate(bands):
        if inner is None:
            runs, low, high = 1, True, True
        else:
            each, low, high = count_runs(inner, units, level + 1)
            runs = (hi - lo) * each - (hi - lo - 1 if low and high else 0)
        total += runs - (1 if end == lo and joined and low else 0)
        end, joined = hi, high
        if index == 0:
            begins = low and lo == 0
    whole = level > 0 and end == units[level - 1] // units[level]
    return total, begins, joined and whole


def count_boxes(bands: Bands) -> int:
    """How many boxes `leaves` gives."""
    total = 0
    for _, _, inner in bands:
        total += 1 if inner is None else count_boxes(inner)
    return total


def largest_boxes(bands: Bands, units: Units, most: int) -> Bands:
    """Of the boxes that `leaves` gives, the `most` that have the most members; of several of one size the first ones."""
    sizes: list[int] = []
    _add_sizes(sizes, bands, units, 0, 1)
    largest = nlargest(most, range(len(sizes)), key=sizes.__getitem__)
    return _boxes_among(bands, frozenset(largest), 0)[0]


def _add_sizes(found: list[int], bands: Bands, units: Units, level: int, times: int) -> None:
    """Add how many members each of the boxes has, of `times` copies, in the order in which `leaves` gives them."""
    unit = units[level] * times
    for lo, hi, inner in bands:
        if inner is None:
            found.append((hi - lo) * unit)
        else:
            _add_sizes(found, inner, units, level + 1, times * (hi - lo))


def _boxes_among(bands: Bands, chosen: frozenset[int], number: int) -> tuple[Bands, int]:
    """Of boxes counted from `number` on, those with these numbers, and the number of the next one."""
    found: list[Band] = []
    for lo, hi, inner in bands:
        if inner is None:
            if number in chosen:
                _append(found, lo, hi, None)
            number += 1
        else:
            below, number = _boxes_among(inner, chosen, number)
            if below:
                _append(found, lo, hi, below)
    return tuple(found), number


def leaves(
    bands: Bands, units: Units, level: int = 0, base: int = 0, dims: Dims = ()
) -> Iterator[tuple[int, int, Dims]]:
    """The set as disjoint boxes: (first member, members in a row, dimensions)."""
    unit = units[level]
    for lo, hi, inner in bands:
        start = base + lo * unit
        if inner is None:
            yield start, (hi - lo) * unit, dims
        else:
            below = dims if hi - lo == 1 else (*dims, (unit, hi - lo))
            yield from leaves(inner, units, level + 1, start, below)


def runs(bands: Bands, units: Units, level: int = 0) -> Integers:
    """Starts and stops of runs, ascending; those of neighbouring units may touch. Costs a step for each run."""
    parts: list[Integers] = []
    plain: list[tuple[int, int]] = []
    unit = units[level]
    for lo, hi, inner in bands:
        if inner is None:
            plain.append((lo * unit, hi * unit))
            continue
        if plain:
            parts.append(np.array(plain, np.int64))
            plain = []
        rows = np.arange(lo, hi, dtype=np.int64) * unit
        below = runs(inner, units, level + 1)
        parts.append((rows[:, None, None] + below[None]).reshape(-1, 2))
    if plain:
        parts.append(np.array(plain, np.int64))
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def divisor(bands: Bands, units: Units, level: int = 0) -> int:
    """The largest number that divides every edge of a run, or a divisor of it."""
    found, unit = 0, units[level]
    for lo, hi, inner in bands:
        found = (
            gcd(found, lo * unit, hi * unit)
            if inner is None
            else gcd(found, lo * unit, unit if hi - lo > 1 else 0, divisor(inner, units, level + 1))
        )
    return found


def coarsening_cost(bands: Bands, units: Units, dropped: frozenset[int], level: int = 0) -> int:
    """How many bands there are if the units of these levels are left out."""
    total = 0
    for lo, hi, inner in bands:
        below = 1 if inner is None else coarsening_cost(inner, units, dropped, level + 1)
        total += below * (hi - lo) if inner is not None and level in dropped else below
    return total


compiled.replace(
    globals(),
    (
        *("intersect", "meet", "unite", "subtract", "shift", "refine", "coarsen", "settled"),
        *(
            "repeat",
            "close_up",
            "_split",
            "_flatten",
            "count",
            "count_runs",
            "count_boxes",
            "largest_boxes",
            "coarsening_cost",
        ),
    ),
)
