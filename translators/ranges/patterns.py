"""Patterns: what regions have in common that differ in their numbers alone.

A region's pattern is its pitches and how its bands are nested; its numbers are where bands begin and end, in order.
Decides nothing: it takes regions apart, puts them together, and writes them down as Python. Beside `region` the only
module that knows how a region is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .bands import Bands, first, last
from .region import EMPTY, Region, _merged, exchanged

#: pitches, and for each band None or the pattern of what is inside
Pattern = tuple[tuple[int, ...], tuple[Any, ...]]


def numbers_of(region: Region, numbers: list[int]) -> Pattern | None:
    """The pattern of a region, its numbers added to `numbers`; None for one that is a mere array of runs."""
    bands = region.bands
    return None if bands is None else (region.pitches, _nested(bands, numbers))


def _nested(bands: Bands, numbers: list[int]) -> tuple[Any, ...]:
    found = []
    for lo, hi, inner in bands:
        numbers.append(lo)
        numbers.append(hi)
        found.append(None if inner is None else _nested(inner, numbers))
    return tuple(found)


def region_of(pattern: Pattern, numbers: Iterator[Any]) -> Region:
    """The region of a pattern with these numbers, which may be traced."""
    pitches, nested = pattern
    if not nested:
        return EMPTY
    bands = _bands(nested, numbers)
    units = (*pitches, 1)
    return Region(first(bands, units), last(bands, units), pitches, bands)


def _bands(nested: tuple[Any, ...], numbers: Iterator[Any]) -> Bands:
    return tuple(
        (next(numbers), next(numbers), None if inner is None else _bands(inner, numbers)) for inner in nested
    )


def pitches_of(region: Region) -> tuple[int, ...]:
    """Its pitches; none where it has no pattern."""
    return region.pitches


def go_together(pitches: tuple[int, ...], region: Region) -> bool:
    """Whether regions of these pitches and this one are worked with at the cost of their boxes."""
    return pitches == region.pitches or _merged(pitches, region.pitches) is not None


def replaced(region: Region, lost: Region, gained: Region) -> Region:
    """`region` without its part `lost`, and with `gained`, of which it has nothing."""
    if not lost and not gained:
        return region
    found = exchanged(region, lost, gained)
    return found if found.is_counted else found.counted(region.nbytes - lost.nbytes + gained.nbytes)


def is_array(region: Region) -> bool:
    """Whether it has no pattern."""
    return region.bands is None


def parts_of(region: Region) -> tuple[Any, ...]:
    """All that a region is made of: what has to be a number in it, if anything has."""
    return region.start, region.stop, region.bands


def source_of(region: Region, show: Callable[[Any], str]) -> str:
    """A call of `region`, with the arguments of `remade`, for a region of traced numbers; `show` writes down whatever is
    no region."""
    start, stop, nbytes = show(region.start), show(region.stop), show(region.nbytes)
    return f"region({start}, {stop}, {show(region.pitches)}, {show(region.bands)}, {nbytes})"


#: (start, stop, pitches, bands, nbytes) to the region that `source_of` has written down
remade: Callable[[int, int, tuple[int, ...], Bands, int], Region] = Region
