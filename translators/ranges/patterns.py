"""Regions taken apart, so that others can be made that differ only in their numbers.

Decides nothing. Apart from `region`, the only module that knows how a region is made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .bands import Bands
from .region import Region
from .tracing import value_of


def pitches_of(region: Region) -> tuple[int, ...]:
    """Its pitches; none if it has no pattern."""
    return region.pitches


def is_array(region: Region) -> bool:
    """Whether it has no pattern."""
    return region.bands is None


def parts_of(region: Region) -> tuple[Any, ...]:
    """Everything that a region consists of: numbers among it may be replaced."""
    return region.start, region.stop, region.bands


def arguments_of(region: Region) -> tuple[Any, ...]:
    """What `remade` makes the same region of, also with other numbers. Its bytes are counted where they were for this one: few are asked
    for them.
    """
    return region.start, region.stop, region.pitches, region.bands, region.counted


def as_traced(region: Region) -> Region:
    """A region with a pattern, of ordinary numbers: those that its own have been traced with."""
    start, stop, counted = map(value_of, (region.start, region.stop, region.counted))
    return remade(start, stop, region.pitches, _values_in(region.bands), counted)


def _values_in(bands: Any) -> Any:
    if bands is None:
        return None
    return tuple([(value_of(low), value_of(high), _values_in(inner)) for low, high, inner in bands])


#: (start, stop, pitches, bands, nbytes) to the region of which `arguments_of` gives these
remade: Callable[[int, int, tuple[int, ...], Bands, int], Region] = Region
