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
#: a part of the region's bytes for each box that there may be, of which half are what a triangle's steps have beside it: so many
#: others need not be avoided by a look at another distance of rows
_LITTLE = 2.0
#: places where rows change most, at which groups begin as well; and how many times as much as on average they change there
_MOST_JUMPS, _JUMP = 8, 2.0


def stairs_around(region: Region, most: int, pitches: Iterable[int]) -> Region | None:
    """A set of at most `most` boxes that contains all of these bytes, few others, and nothing outside of the region's first and
    last byte; None if there is no such set. `pitches`: distances that its rows may have, the most probable first.

    >>> triangle = Region.from_runs([(100 * row, 100 * row + row + 1) for row in range(80)])
    >>> stairs = stairs_around(triangle, 8, distances_of_rows(triangle))
    >>> triangle.nbytes, stairs.nbytes, stairs.pitches, stairs.contains(triangle)
    (3240, 3600, (100,), True)
    """
    runs, nbytes = region.runs, region.nbytes
    best: Region | None = None
    for pitch in pitches:
        found = _stairs(runs, pitch, most) if pitch > 0 else None
        if found is not None and (best is None or found.nbytes < best.nbytes):
            best = found
            if found.nbytes - nbytes <= nbytes * _LITTLE / most:
                break
    return best


def distances_of_rows(region: Region) -> list[int]:
    """How far its rows may be from one another: distances at which many runs begin, or end, behind others.

    Where rows become longer or shorter step by step their ends are at another distance than their beginnings: that which the
    larger power of two divides comes first.
    """
    runs, shown = region.runs, dict[int, int]()  # with the number of runs that they were found at
    for lag in range(1, min(_MOST_IN_ROW, len(runs) - 1) + 1):
        count = len(runs) - lag
        samples = min(_SAMPLE, count)
        places = np.arange(samples, dtype=np.int64) * (count - 1) // max(samples - 1, 1)
        far, one_each = (runs[places + lag] - runs[places]).T.tolist(), True
        for distances in far:
            found = Counter(distances)
            one_each = one_each and len(found) == 1
            for distance, many in found.items():
                if many < samples * _MANY:
                    continue
                # One of several rows is found again at as many times the number of runs.
                if not any(distance == known * (lag // before) for known, before in shown.items()):
                    shown[distance] = lag
        if one_each:  # at all others there are as many rows
            break
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
    rows, columns = first, byte_runs.paired(runs[:, 0] - low, runs[:, 1] - low)
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
    jumps = _jumps(rows, columns, min(_MOST_JUMPS, count // 4))
    parts = count - len(jumps)
    equal = least + np.arange(1, parts, dtype=np.int64) * (most - least) // max(parts, 1)
    return np.array(sorted({*equal.tolist(), *jumps.tolist()})) if len(jumps) else equal


def _jumps(rows: Runs, columns: Runs, most: int) -> Runs:
    """At most so many rows that differ most from the one before them, of those that do so by much more than others."""
    begins = np.flatnonzero(np.diff(rows, prepend=rows[0] - 1))
    if most == 0 or len(begins) < 2:
        return rows[:0]
    ends = np.append(begins[1:], len(rows)) - 1
    change = np.abs(np.diff(columns[begins, 0])) + np.abs(np.diff(columns[ends, 1]))
    found = np.flatnonzero(change > change.mean() * _JUMP)  # of a triangle's rows, none
    if len(found) > most:
        found = found[np.argpartition(change[found], -most)[-most:]]
    jumps: Runs = rows[begins[found + 1]]
    return jumps


def _boxes(rows: Runs, columns: Runs, edges: Runs, pitch: int) -> Region:
    """Groups of rows, each with the columns that any of its rows has."""
    begins = np.array(sorted({0, *np.searchsorted(rows, edges).tolist()} - {len(rows)}), np.int64)
    ends = np.append(begins[1:], len(rows))
    starts, stops = columns[:, 0], columns[:, 1]
    low, high = np.minimum.reduceat(starts, begins).tolist(), np.maximum.reduceat(stops, begins).tolist()
    # Where each run of a group meets the next one, the columns of all are one run.
    gaps = (starts[1:] > stops[:-1]) | (starts[:-1] > stops[1:])
    gaps[begins[1:] - 1] = False
    torn = frozenset(np.searchsorted(begins, np.flatnonzero(gaps), side="right").tolist())
    tops, bottoms = rows[begins].tolist(), (rows[ends - 1] + 1).tolist()
    found: list[nested.Band] = []
    for number, (top, bottom) in enumerate(zip(tops, bottoms, strict=True)):
        below: nested.Bands | None = ((low[number], high[number], None),)
        if number + 1 in torn:
            of_group = byte_runs.normal(columns[begins[number] : ends[number]])
            below = tuple((first, last, None) for first, last in of_group.tolist())
        if below == ((0, pitch, None),):
            below = None
        if found and found[-1][1] == top and found[-1][2] == below:
            top = found.pop()[0]
        found.append((top, bottom, below))
    return region_in(tuple(found), (pitch,))
