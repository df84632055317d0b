"""Sorted runs of bytes as arrays, and how a set becomes a few rectangular copies. The arithmetic under `region` for sets
without a regular shape: the cost of every function grows with the number of runs.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from vdev.translators.values import dataclass

from .bands import Dims

Runs = npt.NDArray[np.int64]

NO_RUNS: Runs = np.empty((0, 2), np.int64)
NO_RUNS.setflags(write=False)


@dataclass(frozen=True)
class Block:
    """Runs of `nbytes` bytes each, the first at `start`: `count` of them, one every `stride` bytes, and that again
    `slices` times, every `slice_stride` bytes."""

    start: int
    nbytes: int
    stride: int
    count: int
    slice_stride: int = 0
    slices: int = 1

    @property
    def numbers(self) -> tuple[int, int, int, int, int, int]:
        """All that it consists of, in this order."""
        return self.start, self.nbytes, self.stride, self.count, self.slice_stride, self.slices


def paired(starts: Runs, stops: Runs) -> Runs:
    """Runs by where each starts and stops. `np.stack` makes the same in Python, which takes longer than all else that a few are for."""
    runs: Runs = np.empty((len(starts), 2), starts.dtype)
    runs[:, 0] = starts
    runs[:, 1] = stops
    return runs


def normal(array: Runs) -> Runs:
    """Runs in any order, sorted, and joined where they touch or overlap."""
    array = array[array[:, 1] > array[:, 0]]
    if len(array) == 0:
        return NO_RUNS
    starts = array[:, 0]
    if len(array) == 1 or np.all(starts[1:] > array[:-1, 1]):  # of a list in its order this is all
        return array
    if np.any(starts[1:] < starts[:-1]):
        array = array[np.argsort(starts, kind="stable")]
    return joined(paired(array[:, 0], np.maximum.accumulate(array[:, 1])))


def joined(array: Runs) -> Runs:
    """Runs whose starts and stops ascend, joined where they touch or overlap."""
    first = np.empty(len(array), bool)
    first[0] = True
    np.greater(array[1:, 0], array[:-1, 1], out=first[1:])
    if first.all():
        return array
    last = np.empty(len(array), bool)
    last[-1] = True
    last[:-1] = first[1:]
    return paired(array[first, 0], array[last, 1])


def clipped(runs: Runs, start: int, stop: int) -> Runs:
    low = int(np.searchsorted(runs[:, 1], start, side="right"))
    high = int(np.searchsorted(runs[:, 0], stop, side="left"))
    part: Runs = runs[low:high].copy()
    if len(part):
        part[0, 0] = max(int(part[0, 0]), start)
        part[-1, 1] = min(int(part[-1, 1]), stop)
    return part


def intersection(first: Runs, second: Runs) -> Runs:
    """The runs that both have in common, for normalised ones; the result is normalised.

    Costs one search for each run of the side that has fewer.
    """
    if len(second) < len(first):
        first, second = second, first
    low = np.searchsorted(second[:, 1], first[:, 0], side="right")
    counts = np.searchsorted(second[:, 0], first[:, 1], side="left") - low
    ends = np.cumsum(counts)
    # Each run of `first` once for each partner; partners of one run are neighbours.
    mine = np.repeat(np.arange(len(first)), counts)
    others = np.arange(len(mine)) + np.repeat(low - ends + counts, counts)
    starts = np.maximum(first[mine, 0], second[others, 0])
    return paired(starts, np.minimum(first[mine, 1], second[others, 1]))


def gaps(runs: Runs, start: int, stop: int) -> Runs:
    """What normalised `runs` leave out of `start` <= b < `stop`; they may reach beyond it."""
    edges = np.empty((len(runs) + 1, 2), np.int64)
    edges[0, 0], edges[1:, 0] = min(start, int(runs[0, 0])), runs[:, 1]
    edges[:-1, 1], edges[-1, 1] = runs[:, 0], max(stop, int(runs[-1, 1]))
    return edges[int(edges[0, 0] == edges[0, 1]) : len(edges) - int(edges[-1, 0] == edges[-1, 1])]


def blocks_of_box(start: int, nbytes: int, dims: Dims) -> list[Block]:
    """A box in blocks: its two innermost dimensions are one; there is one for each step in those beyond."""
    stride, count = dims[-1] if dims else (nbytes, 1)
    slice_stride, slices = dims[-2] if len(dims) > 1 else (0, 1)
    starts = [start]
    for outer, steps in dims[:-2]:
        starts = [first + step * outer for first in starts for step in range(steps)]
    return [Block(first, nbytes, stride, count, slice_stride, slices) for first in starts]


def blocks_of_runs(runs: Runs) -> list[Block]:
    """Neighbours of equal length and spacing become one rectangular copy."""
    starts, lengths = runs[:, 0], runs[:, 1] - runs[:, 0]
    gaps = np.diff(starts)
    found: list[Block] = []
    index, count = 0, len(runs)
    # A run ends a block if its length or the gap before it differs from its predecessor's.
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
