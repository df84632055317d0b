"""Few boxes in the place of a region's many: around it, or inside of it.

There are two ways around. `cover` gives up pitches until what is left is few boxes, and goes with other regions.
`boxes_around` has the pitches that it is asked for: around a staircase of parts of rows lies a rectangle, or a few of them.

Decides which parts of a region share a box: those that are next to each other in the order of their bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from . import bands as nested
from .region import Region, region_in

Pitches = tuple[int, ...]


#: a margin in bytes is a multiple of this, so that no element is cut
GRANULE = 64


def cover(region: Region, most: int, beside: Sequence[Region] = ()) -> Region:
    """A set of at most `most` boxes that contains all of these bytes, and goes with each of `beside`; the region itself if it
    does.
    """
    found, depth = region, len(region.pitches)
    while found.pitches and not (found.nboxes <= most and all(map(found.goes_with, beside))):
        closed = nested.close_up(found.flat(), min(depth, len(found.pitches)))
        found, depth = region_in(closed, found.pitches).clip(region.start, region.stop), depth - 1
    if found.nboxes <= most:
        return found
    runs = found.runs
    gaps = runs[1:, 0] - runs[:-1, 1]
    edges = np.sort(np.argsort(-gaps, kind="stable")[: max(most, 1) - 1])
    starts = np.concatenate((runs[:1, 0], runs[edges + 1, 0]))
    return Region.from_runs(np.stack((starts, np.concatenate((runs[edges, 1], runs[-1:, 1]))), axis=1))


def core(region: Region, most: int) -> Region:
    """A part of a region in at most `most` boxes, the largest ones."""
    if region.nboxes <= most:
        return region
    if region.bands is None:
        runs = region.runs
        return Region.from_runs(runs[np.argsort(runs[:, 0] - runs[:, 1], kind="stable")[:most]])
    return region_in(nested.largest_boxes(region.bands, region.units, most), region.pitches)


def boxes_around(region: Region, pitches: Pitches, most: int, margin: float = 0.0) -> Region:
    """A set that contains all of these bytes: at most `most` boxes in these pitches, which may overlap. `margin`: by how much
    of its size each is made larger in each direction.

    >>> stairs = Region.union([Region.boxes(17 * row, 4, ((16, 1),)) for row in range(8)])
    >>> rectangle = boxes_around(stairs, (16,), 1)
    >>> stairs.nbytes, rectangle.nbytes, rectangle == Region.boxes(0, 11, ((16, 8),))
    (32, 88, True)
    """
    if not pitches:
        return cover(region, most)
    found, units = [], (*pitches, 1)
    sizes = [None, *(one // other for one, other in pairwise(units))]
    for corner in region.corners(pitches, most):
        wider = [_wider(edge, size, margin) for edge, size in zip(corner, sizes, strict=True)]
        start = sum(low * unit for (low, _), unit in zip(wider, units, strict=True))
        counts = [high - low for low, high in wider]
        found.append(Region.boxes(start, counts[-1], tuple(zip(pitches, counts, strict=False))[::-1]))
    return Region.union(found)


def _wider(edge: tuple[int, int], size: int | None, margin: float) -> tuple[int, int]:
    """A range of digits, of which there are `size`, with its margin."""
    low, high = edge
    more = int((high - low) * margin)
    if size is not None and size > GRANULE:
        more -= more % GRANULE
    return max(low - more, 0), high + more if size is None else min(high + more, size)


def one_of_each_pitch(regions: Iterable[Region]) -> list[Region]:
    """A few of many regions, such that another one that goes with them (`Region.goes_with`) goes with all."""
    found: dict[tuple[int, ...], Region] = {}
    for region in regions:
        known = found.get(region.pitches)
        if known is None or known.nruns < region.nruns:
            found[region.pitches] = region
    return list(found.values())
