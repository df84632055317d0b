"""Boxes and blocks as CUDA workers cut them: pieces that fit, bytes that lie together, whole units. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from vdev.backends.base import Box
from vdev.translators.ranges.byte_runs import Block, blocks_of_runs
from vdev.translators.ranges.grain import Grain
from vdev.translators.ranges.region import Region

_made = tuple.__new__  # without the function of Python's that a named tuple has for it


def slices_of(blocks: Iterable[Block]) -> Iterator[Block]:
    """The slices of each block as blocks of rows."""
    for block in blocks:
        for number in range(block.slices):
            yield Block(block.start + number * block.slice_stride, block.nbytes, block.stride, block.count)


def blocks_of_elements(region: Region, nbytes: int) -> list[Block]:
    """The slices of `region`, which consists of whole elements of `nbytes` bytes, as blocks that consist of them, too.

    Boxes may be cut within an element: where somebody else sees rows of another size in the buffer, a row may end there.

    >>> elements, thirds = Region.spans([(8, 12), (40, 48), (56, 60), (100, 112)]), Region.boxes(0, 1, [(3, 40)])
    >>> cut = (elements - thirds) | (elements & thirds)
    >>> [(block.start, block.nbytes) for block in cut.blocks()][:5]
    [(8, 3), (11, 1), (40, 1), (41, 6), (47, 1)]
    >>> [(block.start, block.nbytes) for block in blocks_of_elements(cut, 4)]
    [(8, 4), (40, 8), (56, 4), (100, 12)]
    """
    found = list(slices_of(region.blocks()))
    if not _whole(found, nbytes):
        found = blocks_of_runs(region.runs)
        if not _whole(found, nbytes):
            raise ValueError(f"{region} has parts of elements of {nbytes} bytes")
    return found


def blocks_of_units(region: Region, grain: Grain) -> list[Block]:
    """The slices of `region` as blocks that cut no unit of `grain`, except where a run begins or ends.

    >>> from vdev.translators.ranges.grain import of_unit
    >>> fours, thirds = Region.boxes(32, 4, [(16, 5)]), Region.boxes(20, 1, [(3, 60)])
    >>> cut = (fours - thirds) | (fours & thirds)
    >>> [(block.start, block.nbytes, block.count) for block in cut.blocks()][:3]
    [(32, 3, 1), (35, 1, 1), (48, 2, 1)]
    >>> [(block.start, block.nbytes, block.count) for block in blocks_of_units(cut, of_unit(4))]
    [(32, 4, 5)]
    """
    found = list(slices_of(region.blocks()))
    # each run is a row of its own where there are as many rows as runs
    if sum(block.count for block in found) == region.nruns or all(_is_whole(block, grain) for block in found):
        return found
    return blocks_of_runs(region.runs)


def _is_whole(block: Block, grain: Grain) -> bool:
    """Whether each row begins and ends where a unit does."""
    ends = {block.start % grain.period, (block.start + block.nbytes) % grain.period}
    return ends <= {*grain.cuts} and (block.count == 1 or block.stride % grain.period == 0)


def _whole(blocks: Iterable[Block], nbytes: int) -> bool:
    return not any(
        block.start % nbytes or block.nbytes % nbytes or (block.stride % nbytes and block.count > 1)
        for block in blocks
    )


def shared_regions(parts: Iterable[tuple[int, Region]]) -> list[tuple[Region, tuple[int, ...]]]:
    """Bytes that the same parts have, with these parts' numbers in the order given.

    >>> [(region.runs.tolist(), numbers) for region, numbers in shared_regions([(7, Region.span(0, 8)), (5, Region.span(4, 8))])]
    [([[4, 8]], (7, 5)), ([[0, 4]], (7,))]
    """
    found: list[tuple[Region, tuple[int, ...]]] = []
    for number, part in parts:
        cut: list[tuple[Region, tuple[int, ...]]] = []
        left = part
        for region, numbers in found:
            if both := region & part:
                cut.append((both, (*numbers, number)))
                left = left - both
            if rest := region - part:
                cut.append((rest, numbers))
        if left:
            cut.append((left, (number,)))
        found = cut
    return found


def whole_units(block: Block, unit: int | None) -> list[tuple[bool, Block]]:
    """`block` in parts, each with whether all its rows are whole units, aligned to `unit` bytes; None if none are."""
    # rows begin at different places within a unit
    if unit is None or (block.stride % unit and block.count > 1):
        return [(False, block)]
    start, stop = block.start, block.start + block.nbytes
    first, last = -(-start // unit) * unit, stop // unit * unit
    if first >= last:
        return [(False, block)]
    cuts = ((False, start, first), (True, first, last), (False, last, stop))
    return [
        (whole, Block(low, high - low, block.stride, block.count)) for whole, low, high in cuts if high > low
    ]


def packed_pitches(shape: tuple[int, int, int]) -> tuple[int, int]:
    return shape[1] * shape[2], shape[2]


def is_packed(shape: tuple[int, int, int], pitches: tuple[int, int]) -> bool:
    """Whether the box's bytes lie one behind the other."""
    slices, rows, nbytes = shape
    return (rows == 1 or pitches[1] == nbytes) and (slices == 1 or pitches[0] == rows * nbytes)


def parts(box: Box, limit: int) -> list[Box]:
    """`box` in boxes of about `limit` bytes at most (but at least a row)."""
    if box.nbytes <= limit:
        return [box]
    slices, rows, nbytes = box.shape
    axis, count = (0, slices) if slices > 1 else (1, rows)
    if count == 1:
        return [box]
    half = count // 2
    first = (half, rows, nbytes) if axis == 0 else (1, half, nbytes)
    rest = (slices - half, rows, nbytes) if axis == 0 else (1, rows - half, nbytes)
    one = Box(first, box.source_start, box.source_pitches, box.target_start, box.target_pitches)
    other = Box(rest, box.source_start, box.source_pitches, box.target_start, box.target_pitches)
    other = other.moved(half * box.source_pitches[axis], half * box.target_pitches[axis])
    return parts(one, limit) + parts(other, limit)


class Outline(NamedTuple):
    """A box whatever the memories that it lies between: what its addresses are added to."""

    source: int
    target: int
    width: int
    rows: int
    nbytes: int
    pitches: tuple[int, int, int, int]  #: as of `PlacedBox`
    alignment: int  #: width and pitches that matter, all combined with `or`
    length: int  #: from the first byte of the target to one past the last
    steps: tuple[int, ...]  #: as of `PlacedBox`


class PlacedBox(NamedTuple):
    """A box between two addresses, in bytes."""

    source: int
    target: int
    width: int
    rows: int
    nbytes: int
    pitches: tuple[int, int, int, int]  #: rows and slices of the source, rows and slices of the target
    alignment: int  #: addresses, widths and pitches that matter, all combined with `or`
    stop: int  #: one past the last byte of the target
    steps: tuple[int, ...]  #: pitches of the target in which there is more than one row, or slice

    def words(self, unit: int) -> tuple[int, ...]:
        """What vdev's kernels are told, in units."""
        source, target, width, rows, nbytes, (one, two, three, four), _, _, _ = self
        return (
            *(source, target, width // unit, rows, nbytes // unit),
            *(one // unit, two // unit, three // unit, four // unit),
        )

    def may_overlap(self, other: PlacedBox) -> bool:
        """Whether the targets may have a byte in common.

        They have none if they lie one behind the other, or side by side like columns of one array, whose rows begin
        at the same distance.
        """
        if self.stop <= other.target or other.stop <= self.target:
            return False
        steps, ahead = self.steps, other.target - self.target
        if len(steps) == 1 and steps == other.steps:  # columns, as nearly always
            behind = ahead % steps[0]
            return behind < self.width or behind + other.width > steps[0]
        for pitch in {*steps, *other.steps}:
            behind = ahead % pitch
            if behind >= self._extent(pitch) and behind + other._extent(pitch) <= pitch:
                return False
        return True

    def _extent(self, pitch: int) -> int:
        """How many bytes of each `pitch` the target spreads over, when bytes a whole number of pitches apart count as
        the same.
        """
        counts = self.rows, self.nbytes // (self.rows * self.width)
        steps = zip(counts, self.pitches[2:], strict=True)
        return self.width + sum((count - 1) * step for count, step in steps if step % pitch)


def is_one_row(box: Box) -> bool:
    return box.is_contiguous or (
        is_packed(box.shape, box.source_pitches) and is_packed(box.shape, box.target_pitches)
    )


@lru_cache(maxsize=4096)  # plans that differ in their numbers have boxes of their own
def outline_of(box: Box) -> Outline:
    """A box of at least a byte, whatever the memories."""
    nbytes = box.nbytes
    slices, rows, width = (1, 1, nbytes) if is_one_row(box) else box.shape
    pitches = (box.source_pitches[1], box.source_pitches[0], box.target_pitches[1], box.target_pitches[0])
    alignment, length, steps = width, width, []
    if rows > 1:
        alignment |= pitches[0] | pitches[2]
        length += (rows - 1) * pitches[2]
        steps.append(pitches[2])
    if slices > 1:
        alignment |= pitches[1] | pitches[3]
        length += (slices - 1) * pitches[3]
        steps.append(pitches[3])
    return Outline(
        box.source_start, box.target_start, width, rows, nbytes, pitches, alignment, length, tuple(steps)
    )


def placed(source: int, target: int, box: Box) -> PlacedBox:
    """`box` from the memory that begins at `source` to that at `target`."""
    start, to, width, rows, nbytes, pitches, alignment, length, steps = outline_of(box)
    start, to = start + source, to + target
    found = start, to, width, rows, nbytes, pitches, start | to | alignment, to + length, steps
    return _made(PlacedBox, found)
