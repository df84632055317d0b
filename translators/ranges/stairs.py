"""Steps around a staircase: a triangle of a matrix, which is a run in each row, no two of them alike, becomes a few boxes
of whole groups of rows.

In a group, every column that any of its rows has belongs to all of them; the more groups, the less lies in the boxes that is
not in the rows. Decides the distance of the rows, if nobody knows it, and where groups begin: at equal distances, and where
the rows change most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from . import bands as nested
from . import byte_runs
from .byte_runs import Runs
from .region import EMPTY, Region, region_in

#: runs among which the distance of rows is looked for, and how many of them may lie in a row
_SAMPLE, _MOST_IN_ROW = 64, 4
#: a part of the runs: so many at one distance are no accident
_MANY = 0.25
#: a part of the region's bytes: so many others need not be avoided by a look at another distance of rows
_LITTLE = 1 / 16
#: places where rows change most, at which groups begin as well
_MOST_JUMPS = 8


def stairs_around(region: Region, most: int, pitches: Iterable[int]) -> Region | None:
    """A set of at most `most` boxes that contains all of these bytes, few others, and nothing outside of the region's first and
    last byte; None if there is no such set. `pitches`: distances that its rows may have, the most probable first.

    >>> triangle = Region.from_runs([(100 * row, 100 * row + row + 1) for row in range(80)])
    >>> stairs = stairs_around(triangle, 8, distances_of_rows(triangle))
    >>> triangle.nbytes, stairs.nbytes, stairs.pitches, stairs.contains(triangle)
    (3240, 3709, (100,), True)
    """
    runs, nbytes = region.runs, region.nbytes
    best: Region | None = None
    for pitch in pitches:
        found = _stairs(runs, pitch, most) if pitch > 0 else None
        if found is not None and (best is None or found.nbytes < best.nbytes):
            best = found
            if found.nbytes - nbytes <= nbytes * _LITTLE:
                break
    return best


def distances_of_rows(region: Region) -> list[int]:
    """How far its rows may be from one another: distances at which many runs begin, or end, behind others.

    Where rows become longer or shorter step by step their ends are at another distance than their beginnings: that which the
    larger power of two divides comes first.
    """
    runs, shown = region.runs, dict[int, int]()  # with the number of runs that they were found at
    for lag in range(1, min(_MOST_IN_ROW, len(runs) - 1) + 1):
        places = np.linspace(0, len(runs) - lag - 1, min(_SAMPLE, len(runs) - lag)).astype(np.int64)
        many = len(places) * _MANY
        for edges in (runs[:, 0], runs[:, 1]):
            found = Counter((edges[places + lag] - edges[places]).tolist())
            for distance, count in found.items():
                if count < many:
                    continue
                # One of several rows is found again at as many times the number of runs.
                if not any(distance == known * (lag // before) for known, before in shown.items()):
                    shown[distance] = lag
    return sorted(shown, key=lambda distance: (-(distance & -distance), distance))


def _stairs(runs: Runs, pitch: int, most: int) -> Region | None:
    """The steps for rows at this distance."""
    start, stop = int(runs[0, 0]), int(runs[-1, 1])
    first, last = runs[:, 0] // pitch, (runs[:, 1] - 1) // pitch
    crossing = first != last
    over = EMPTY
    if crossing.any():
        if np.count_nonzero(crossing) > most:
            return None  # these are no rows
        over = Region.from_runs(runs[crossing])
        runs, first = runs[~crossing], first[~crossing]
        if over.nboxes > most // 2 or len(runs) == 0:
            return None
    low = first * pitch
    rows, columns = first, np.stack((runs[:, 0] - low, runs[:, 1] - low), axis=1)
    groups = most - over.nboxes
    while groups > 0:
        found = _boxes(rows, columns, _edges(rows, columns, groups), pitch)
        together = (found | over).clip(start, stop)  # of the last row, no more than there is
        if together.nboxes <= most:
            return together
        groups //= 2
    return None


def _edges(rows: Runs, columns: Runs, groups: int) -> Runs:
    """The rows at which groups begin, but for the first."""
    least, most = int(rows[0]), int(rows[-1]) + 1
    count = min(groups, most - least)
    jumps = min(_MOST_JUMPS, count // 4)
    equal = least + np.arange(1, count - jumps, dtype=np.int64) * (most - least) // max(count - jumps, 1)
    begins = np.flatnonzero(np.diff(rows, prepend=least - 1))
    ends = np.append(begins[1:], len(rows)) - 1
    change = np.abs(np.diff(columns[begins, 0])) + np.abs(np.diff(columns[ends, 1]))
    if jumps == 0 or jumps >= len(change):
        return equal
    largest = np.argpartition(change, -jumps)[-jumps:]
    return np.array(sorted({*equal.tolist(), *rows[begins[largest + 1]].tolist()}))


def _boxes(rows: Runs, columns: Runs, edges: Runs, pitch: int) -> Region:
    """Groups of rows, each with the columns that any of its rows has."""
    group = np.searchsorted(edges, rows, side="right")
    unit = pitch + 1  # so that those of two groups do not touch
    steps = byte_runs.normal(columns + (group * unit)[:, None])
    begins = np.flatnonzero(np.diff(group, prepend=-1))
    ends = np.append(begins[1:], len(group)) - 1
    extents = zip(group[begins].tolist(), rows[begins].tolist(), (rows[ends] + 1).tolist(), strict=True)
    inner: dict[int, list[nested.Band]] = {}
    for start, stop in steps.tolist():
        number, low = divmod(start, unit)
        inner.setdefault(number, []).append((low, low + stop - start, None))
    found: list[nested.Band] = []
    for number, top, bottom in extents:
        below = tuple(inner[number])
        kept = None if below == ((0, pitch, None),) else below
        if found and found[-1][1] == top and found[-1][2] == kept:
            top = found.pop()[0]
        found.append((top, bottom, kept))
    return region_in(tuple(found), (pitch,))
