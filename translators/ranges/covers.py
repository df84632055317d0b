"""Few boxes around the bytes of a region.

`Region.cover` gives up pitches until what is left is few boxes; here a cover has the pitches that it is asked for: around
a staircase of parts of rows lies a rectangle, or a few of them.

Decides which parts of a region share a box: those that are next to each other in the order of their bytes.
"""

from __future__ import annotations

from itertools import pairwise

from .region import Region

Pitches = tuple[int, ...]


#: a margin in bytes is a multiple of this, so that no element is cut
GRANULE = 64


def boxes_around(region: Region, pitches: Pitches, most: int, margin: float = 0.0) -> Region:
    """A set that contains all of these bytes: at most `most` boxes in these pitches, which may overlap. `margin`: by how much
    of its size each is made larger in each direction.

    >>> stairs = Region.union([Region.boxes(17 * row, 4, ((16, 1),)) for row in range(8)])
    >>> rectangle = boxes_around(stairs, (16,), 1)
    >>> stairs.nbytes, rectangle.nbytes, rectangle == Region.boxes(0, 11, ((16, 8),))
    (32, 88, True)
    """
    if not pitches:
        return region.cover(most)
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
