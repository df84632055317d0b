"""Few boxes in the place of a region's many: around it, or inside of it.

There are two ways around. `cover` gives up pitches until what is left is few boxes, and goes with other regions.
`boxes_around` has the pitches that it is asked for: around a staircase of parts of rows lies a rectangle, or a few of them.

Decides which parts of a region share a box: those that are next to each other in the order of their bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from operator import index

import numpy as np

from . import bands as nested
from .byte_runs import paired
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
    return Region.from_runs(paired(starts, np.concatenate((runs[edges, 1], runs[-1:, 1]))))


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


def listed(region: Region) -> Region:
    """The same bytes as runs in no pitches, which go with whatever pitches. The numbers may be traced; how many runs there are is not.

    >>> diagonal = Region.boxes(0, 4, ((36, 5),))
    >>> listed(diagonal) == diagonal, diagonal.pitches, listed(diagonal).pitches, listed(diagonal).nboxes
    (True, (36,), (), 5)
    """
    bands, pitches = region.flat(), region.pitches
    for depth in reversed(range(len(pitches))):
        bands = nested.coarsen(bands, (*pitches, 1), depth)
        pitches = pitches[:depth] + pitches[depth + 1 :]
    return region_in(bands, ())


def rows_around(region: Region) -> Region | None:
    """A set that contains all of a region's bytes, nothing before its first one and nothing behind its last: each of its rows has the
    columns that any of them has, which are the bands inside of its widest pitch. Where it has none, its runs may be rows at one distance;
    None if they are not. The numbers may be traced.

    >>> triangle = Region.spans([(100 * row, 100 * row + row + 1) for row in range(8)])
    >>> around = rows_around(triangle)
    >>> around == Region.boxes(0, 8, ((100, 8),)), triangle.nboxes, around.nboxes
    (True, 8, 1)
    >>> rows_around(Region.spans([(0, 1), (7, 9), (22, 23)])) is None
    True
    """
    bands = region.bands
    if not bands:
        return None
    if not region.pitches:
        return _around_runs(region, bands)
    if len(region.pitches) == 1 and region.nboxes > region.nruns:  # as a tile in the pitch of a diagonal
        return _around_runs(region, nested.coarsen(bands, region.units, 0))
    inside, *others = [below for _, _, below in bands]
    for below in others:
        if inside is None or below is None:
            inside = None
        elif below is not inside:
            inside = nested.unite(inside, below, region.units[1:])
    rows: list[nested.Band] = []
    for low, high, _ in bands:
        if rows and rows[-1][1] == low:
            low = rows.pop()[0]
        rows.append((low, high, inside))
    return region_in(tuple(rows), region.pitches).clip(region.start, region.stop)


def _around_runs(region: Region, runs: nested.Bands) -> Region | None:
    """The box around runs all of which begin, or end, below one another in rows at one distance."""
    shown: set[int] = set()
    for edges in ([start for start, _, _ in runs], [stop for _, stop, _ in runs]):
        if len(edges) > 1 and all(stop - start == edges[1] - edges[0] for start, stop in pairwise(edges[1:])):
            shown.add(index(edges[1] - edges[0]))
    first = runs[0][0]
    # As in `stairs`: the ends of a triangle's rows are at another distance than their beginnings.
    for pitch in sorted(shown, key=lambda pitch: (-(pitch & -pitch), pitch)):
        offsets = [
            (start - first - row * pitch, stop - first - row * pitch)
            for row, (start, stop, _) in enumerate(runs)
        ]
        low, high = min([start for start, _ in offsets]), max([stop for _, stop in offsets])
        if high - low <= pitch:
            box = Region.boxes(first + low, high - low, ((pitch, len(runs)),))
            return box.clip(region.start, region.stop)
    return None


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
