"""Bytes with labels: disjoint regions in one structure, so that one walk tells what lies where.

A label is a set of small numbers, kept as the bits of a positive integer, such as the holders of the bytes. A
`Labelled` is nested bands (`bands`) in which a label stands in the place of None: all of these digits have it. Bytes
without a label are not in the structure. So if n regions divide a buffer among them, a question about a window, or a
change in it, costs what there are boxes in the window, not n times that. Everything here works on whole bands;
nothing enumerates runs, and regions without pitches in many runs have no place in it (`labelled` says so).

Decides nothing, and knows neither holders nor buffers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from . import labelled_bands as nested
from .bands import Bands
from .labelled_bands import BREAK, LabelledBand, LabelledBands, LabelledPattern, Pitches, Rows
from .pitches import merged
from .region import FEW_BANDS, Region, region_in


class Labelled:
    """An immutable map from byte offsets to labels.

    >>> found = labelled([(1, Region.span(0, 8)), (2, Region.span(6, 12))])
    >>> found.bands
    ((0, 6, 1), (6, 8, 3), (8, 12, 2))
    >>> found.regions()
    {0: Region([0, 8)), 1: Region([6, 12))}
    """

    __slots__ = ("_hash", "_nboxes", "bands", "pitches")

    pitches: Pitches  #: as of a Region
    bands: LabelledBands
    _hash: int | None
    _nboxes: int  #: -1 until asked for

    def __init__(self, pitches: Pitches, bands: LabelledBands) -> None:
        self.pitches = pitches
        self.bands = bands
        self._nboxes = -1
        self._hash = None

    def __eq__(self, other: object) -> bool:
        """Whether they are made alike: the same labels in other pitches are not equal."""
        if not isinstance(other, Labelled):
            return NotImplemented
        return self is other or (self.bands == other.bands and self.pitches == other.pitches)

    def __hash__(self) -> int:
        if self._hash is None:  # it is a key that is looked up and then entered
            self._hash = hash((self.pitches, self.bands))
        return self._hash

    @property
    def nboxes(self) -> int:
        """The number of boxes with one label each."""
        if self._nboxes < 0:
            self._nboxes = nested.count_labelled(self.bands, len(self.pitches))
        return self._nboxes

    @property
    def nshared(self) -> int:
        """Of its boxes, how many have a label of several numbers."""
        return nested.count_shared(self.bands)

    def is_span(self, start: int, stop: int) -> bool:
        """Whether it has these bytes and no others, whatever their labels. Never true by mistake; false where `start` or
        `stop` lies inside of a row of proper parts.
        """
        return nested.is_span(self.bands, start, stop, (*self.pitches, 1), 0)

    def joint(self, region: Region) -> Pitches | None:
        """The pitches of this and of a region; None where they do not go together, or the region has no bands."""
        if region.pitches == self.pitches:
            return self.pitches
        return None if region.bands is None else merged(self.pitches, region.pitches)

    def cut(self, region: Region, pitches: Pitches) -> Cut:
        """What lies in a region, in joint pitches, and what around it."""
        bands, window = self._refined(pitches), region.refined(pitches)
        inside, rows = nested.cut_out(bands, window, (*pitches, 1), 0)
        return Cut(inside, pitches, bands, window, rows)

    def regions(self) -> dict[int, Region]:
        """By number, the bytes whose labels have it."""
        return regions_of(self.bands, self.pitches)

    def _refined(self, pitches: Pitches) -> LabelledBands:
        return self.bands if pitches == self.pitches else nested.refine(self.bands, self.pitches, pitches)


class Cut(NamedTuple):
    """What of a map lies in a window; and whatever it takes to put something else there."""

    inside: LabelledBands
    pitches: Pitches  #: of the bands
    bands: LabelledBands  #: those of the map
    window: Bands
    rows: Rows | None

    def replaced(self, inside: LabelledBands) -> Labelled:
        """The map outside of the window, and `inside`, which lies in it, there."""
        bands = nested.put_in(self.bands, self.window, self.rows, inside, (*self.pitches, 1), 0)
        return _normal(bands, self.pitches)


def labelled(regions: Iterable[tuple[int, Region]]) -> Labelled | None:
    """Bytes with the labels of all of these regions that have them; None where the regions do not go together."""
    parts = [(label, region) for label, region in regions if region]
    pitches: Pitches | None = ()
    for _, region in parts:
        pitches = None if region.bands is None or pitches is None else merged(pitches, region.pitches)
    if pitches is None:
        return None
    return _normal(overlaid(parts, pitches), pitches)


def overlaid(parts: Iterable[tuple[int, Region]], pitches: Pitches) -> LabelledBands:
    """The same as bands in `pitches`, which have all of the regions'. Their numbers may be traced."""
    units = (*pitches, 1)
    found = [nested.painted(region.refined(pitches), label) for label, region in parts]
    while len(found) > 1:  # in pairs, so that none is walked through again and again
        pairs = [nested.laid_over(a, b, units, 0) for a, b in zip(found[::2], found[1::2], strict=False)]
        found = pairs + found[len(found) & ~1 :]
    return found[0] if found else ()


def regions_of(bands: LabelledBands, pitches: Pitches) -> dict[int, Region]:
    """By number, the bytes whose labels have it; numbers of bands may be traced."""
    found = nested.apart(bands, (*pitches, 1), 0, numbers_of)
    return {number: region_in(found[number], pitches) for number in sorted(found)}


def regions_by_label(bands: LabelledBands, pitches: Pitches) -> dict[int, Region]:
    """By label, the bytes that have it: disjoint."""
    found = nested.apart(bands, (*pitches, 1), 0, _itself)
    return {label: region_in(found[label], pitches) for label in sorted(found)}


@lru_cache(maxsize=1024)
def numbers_of(label: int) -> tuple[int, ...]:
    """The numbers of a label, ascending."""
    return tuple([number for number in range(label.bit_length()) if label >> number & 1])


@lru_cache(maxsize=1024)
def _itself(label: int) -> tuple[int, ...]:
    return (label,)


def _normal(bands: LabelledBands, pitches: Pitches) -> Labelled:
    """A map of bands that may have pitches too many."""
    if pitches and len(bands) <= FEW_BANDS:
        for depth in range(len(pitches) - 1, -1, -1):
            if not nested.repeats(bands, depth):
                bands = nested.flat_at(bands, depth, (*pitches, 1)[depth] // (*pitches, 1)[depth + 1])
                pitches = pitches[:depth] + pitches[depth + 1 :]
    return Labelled(pitches, bands)


# patterns ------------------------------------------------------------------------------------------------


def numbers_of_labelled(bands: LabelledBands, numbers: list[int]) -> LabelledPattern:
    """The pattern of a map, its numbers added to `numbers`. What goes on where a band ends is no number of its own."""
    return nested.numbers_of_labelled(bands, numbers)


def labelled_of(pattern: LabelledPattern, numbers: Iterator[Any]) -> LabelledBands:
    """The bands of a pattern with these numbers, which may be traced."""
    found: list[LabelledBand] = []
    lo: Any = 0
    for item in pattern:
        if item == BREAK:
            lo = next(numbers)
            continue
        hi = next(numbers)
        found.append((lo, hi, item if isinstance(item, int) else labelled_of(item, numbers)))
        lo = hi
    return tuple(found)
