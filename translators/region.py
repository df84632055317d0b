"""Sets of byte offsets.

A `Region` decides nothing: it is the arithmetic on which access ranges, the directory and plans rest. It
never knows whose bytes they are. Runs are kept sorted, disjoint and non-adjacent, so that equal sets have
equal arrays and compare and hash equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Runs = npt.NDArray[np.int64]

_NO_RUNS: Runs = np.empty((0, 2), np.int64)
_NO_RUNS.setflags(write=False)


@dataclass(frozen=True)
class Block:
    """`count` runs of `nbytes` bytes each, the first at `start`, one every `stride` bytes."""

    start: int
    nbytes: int
    stride: int
    count: int


class Region:
    """An immutable set of non-negative byte offsets.

    >>> a = Region.span(0, 8) | Region.span(8, 12)
    >>> a
    Region([0, 12))
    >>> a - Region.span(4, 6)
    Region([0, 4) [6, 12))
    >>> Region.boxes(0, 4, ((16, 3),)).nbytes
    12
    """

    __slots__ = ("_hash", "runs")

    runs: Runs  #: shape (n, 2): start and stop of each run, in bytes, read-only
    _hash: int | None

    def __init__(self, runs: Runs) -> None:
        """Take runs that are already normalised; use `from_runs` for any others."""
        self.runs = runs
        self._hash = None

    # making -------------------------------------------------------------------------------------

    @staticmethod
    def empty() -> Region:
        return EMPTY

    @staticmethod
    def span(start: int, stop: int) -> Region:
        """The bytes `start` <= b < `stop`; empty where `stop` <= `start`."""
        if stop <= start:
            return EMPTY
        runs = np.array([[start, stop]], np.int64)
        runs.setflags(write=False)
        return Region(runs)

    @staticmethod
    def from_runs(runs: npt.ArrayLike) -> Region:
        """The union of half-open runs, shape (n, 2), in any order, overlapping or not."""
        array = np.asarray(runs, np.int64).reshape(-1, 2)
        array = array[array[:, 1] > array[:, 0]]
        if len(array) == 0:
            return EMPTY
        starts = array[:, 0]
        if len(array) > 1 and np.any(starts[1:] < starts[:-1]):
            array = array[np.argsort(starts, kind="stable")]
        stops = np.maximum.accumulate(array[:, 1])
        first = np.empty(len(array), bool)
        first[0] = True
        np.greater(array[1:, 0], stops[:-1], out=first[1:])
        last = np.empty(len(array), bool)
        last[-1] = True
        last[:-1] = first[1:]
        return _wrap(np.stack((array[first, 0], stops[last]), axis=1))

    @staticmethod
    def boxes(start: int, nbytes: int, dims: Sequence[tuple[int, int]]) -> Region:
        """A strided box: runs of `nbytes` bytes at `start` + i1*stride1 + i2*stride2 + …

        `dims` holds (stride in bytes, count) pairs; strides may be negative or zero.
        """
        if nbytes <= 0 or any(count <= 0 for _, count in dims):
            return EMPTY
        # Innermost first: a dimension whose stride continues the run only makes the run longer.
        extent, low = nbytes, start
        rest: list[tuple[int, int]] = []
        for stride, count in sorted(((abs(s), c) for s, c in dims), key=lambda d: d[0]):
            if not rest and stride <= extent:
                extent += stride * (count - 1)
            elif count > 1:
                rest.append((stride, count))
        low += sum(stride * (count - 1) for stride, count in dims if stride < 0)
        starts = np.array([low], np.int64)
        for stride, count in rest:
            starts = (np.arange(count, dtype=np.int64)[:, None] * stride + starts[None, :]).ravel()
        return Region.from_runs(np.stack((starts, starts + extent), axis=1))

    @staticmethod
    def union(regions: Iterable[Region]) -> Region:
        parts = [region.runs for region in regions if len(region.runs)]
        if not parts:
            return EMPTY
        if len(parts) == 1:
            return Region(parts[0])
        return Region.from_runs(np.concatenate(parts))

    # reading ------------------------------------------------------------------------------------

    @property
    def start(self) -> int:
        """The first byte; 0 for the empty region."""
        return int(self.runs[0, 0]) if len(self.runs) else 0

    @property
    def stop(self) -> int:
        """One past the last byte; 0 for the empty region."""
        return int(self.runs[-1, 1]) if len(self.runs) else 0

    @property
    def nbytes(self) -> int:
        runs = self.runs
        if len(runs) == 1:
            return int(runs[0, 1] - runs[0, 0])
        return int((runs[:, 1] - runs[:, 0]).sum())

    def __bool__(self) -> bool:
        return len(self.runs) > 0

    def __len__(self) -> int:
        """The number of runs."""
        return len(self.runs)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Region):
            return NotImplemented
        return self is other or (
            len(self.runs) == len(other.runs) and bool(np.array_equal(self.runs, other.runs))
        )

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(self.runs.tobytes())
        return self._hash

    def __repr__(self) -> str:
        shown = " ".join(f"[{start}, {stop})" for start, stop in self.runs[:6].tolist())
        more = f" … {len(self.runs)} runs" if len(self.runs) > 6 else ""
        return f"Region({shown}{more})"

    def hull(self) -> Region:
        """The one run from the first byte to the last."""
        return self if len(self.runs) <= 1 else Region.span(self.start, self.stop)

    def contains(self, other: Region) -> bool:
        if len(self.runs) == 1:
            return not other or (self.start <= other.start and other.stop <= self.stop)
        return not (other - self)

    def overlaps(self, other: Region) -> bool:
        if not self or not other or self.stop <= other.start or other.stop <= self.start:
            return False
        first, second = sorted((self.runs, other.runs), key=len)
        return bool(_partners(first, second)[1].any())

    # set arithmetic -----------------------------------------------------------------------------

    def __or__(self, other: Region) -> Region:
        if not self or self is other:
            return other
        if not other:
            return self
        return Region.from_runs(np.concatenate((self.runs, other.runs)))

    def __and__(self, other: Region) -> Region:
        if not self or not other:
            return EMPTY
        if len(self.runs) == 1:
            return other.clip(self.start, self.stop)
        if len(other.runs) == 1:
            return self.clip(other.start, other.stop)
        return _normal(_intersection(self.runs, other.runs))

    def __sub__(self, other: Region) -> Region:
        if not self or not other or self.stop <= other.start or other.stop <= self.start:
            return self
        if len(other.runs) == 1:
            start, stop = other.start, other.stop
            if start <= self.start and self.stop <= stop:
                return EMPTY
            return Region.union((self.clip(self.start, start), self.clip(stop, self.stop)))
        return _normal(_intersection(self.runs, _gaps(other.runs, self.start, self.stop)))

    def shift(self, offset: int) -> Region:
        """The same set, `offset` bytes further on."""
        if offset == 0 or not self:
            return self
        return _wrap(self.runs + offset)

    def clip(self, start: int, stop: int) -> Region:
        """The part from `start` up to `stop`."""
        runs = self.runs
        if not len(runs) or stop <= start or self.stop <= start or stop <= self.start:
            return EMPTY
        if start <= self.start and self.stop <= stop:
            return self
        low = int(np.searchsorted(runs[:, 1], start, side="right"))
        high = int(np.searchsorted(runs[:, 0], stop, side="left"))
        if low >= high:
            return EMPTY
        part = runs[low:high].copy()
        part[0, 0] = max(int(part[0, 0]), start)
        part[-1, 1] = min(int(part[-1, 1]), stop)
        return _wrap(part)

    # for copies ---------------------------------------------------------------------------------

    def blocks(self) -> list[Block]:
        """The runs as few strided blocks.

        Neighbours of equal length and spacing become one rectangular copy.
        """
        runs = self.runs
        if len(runs) <= 1:
            return [Block(int(a), int(b - a), int(b - a), 1) for a, b in runs]
        starts, lengths = runs[:, 0], runs[:, 1] - runs[:, 0]
        gaps = np.diff(starts)
        found: list[Block] = []
        index, count = 0, len(runs)
        # A run ends a block where its length or the gap before it differs from its predecessor's.
        same_length = lengths[1:] == lengths[:-1]
        breaks_gap = np.flatnonzero(gaps[1:] != gaps[:-1]) + 2
        breaks_length = np.flatnonzero(~same_length) + 1
        while index < count:
            if index + 1 >= count or not same_length[index]:
                found.append(Block(int(starts[index]), int(lengths[index]), int(lengths[index]), 1))
                index += 1
                continue
            end = count
            at = np.searchsorted(breaks_gap, index + 2)
            if at < len(breaks_gap):
                end = min(end, int(breaks_gap[at]))
            at = np.searchsorted(breaks_length, index + 1)
            if at < len(breaks_length):
                end = min(end, int(breaks_length[at]))
            found.append(Block(int(starts[index]), int(lengths[index]), int(gaps[index]), end - index))
            index = end
        return found


def _normal(runs: Runs) -> Region:
    return _wrap(runs) if len(runs) else EMPTY


def _wrap(runs: Any) -> Region:
    runs.setflags(write=False)
    return Region(runs)


def _intersection(first: Runs, second: Runs) -> Runs:
    """The runs that both have in common, for normalised ones; the result is normalised.

    Costs one search for each run of the side that has fewer.
    """
    if len(second) < len(first):
        first, second = second, first
    low, counts = _partners(first, second)
    ends = np.cumsum(counts)
    # Each run of `first` once for each partner; partners of one run are neighbours.
    mine = np.repeat(np.arange(len(first)), counts)
    others = np.arange(len(mine)) + np.repeat(low - ends + counts, counts)
    starts = np.maximum(first[mine, 0], second[others, 0])
    return np.stack((starts, np.minimum(first[mine, 1], second[others, 1])), axis=1)


def _partners(first: Runs, second: Runs) -> tuple[Runs, Runs]:
    """For each run of `first`: the number of the first run of `second` that meets it, and how many do."""
    low = np.searchsorted(second[:, 1], first[:, 0], side="right")
    return low, np.searchsorted(second[:, 0], first[:, 1], side="left") - low


def _gaps(runs: Runs, start: int, stop: int) -> Runs:
    """What normalised `runs` leave out of `start` <= b < `stop`, which they lie inside or reach beyond."""
    edges = np.empty((len(runs) + 1, 2), np.int64)
    edges[0, 0], edges[1:, 0] = min(start, int(runs[0, 0])), runs[:, 1]
    edges[:-1, 1], edges[-1, 1] = runs[:, 0], max(stop, int(runs[-1, 1]))
    return edges[int(edges[0, 0] == edges[0, 1]) : len(edges) - int(edges[-1, 0] == edges[-1, 1])]


EMPTY = Region(_NO_RUNS)
