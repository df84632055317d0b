"""Boxes and blocks as CUDA workers cut them: pieces that fit, bytes that lie together, whole units. Pure arithmetic."""

from __future__ import annotations

from vdev.backends.base import Box
from vdev.translators.region import Block


def whole_units(block: Block, unit: int) -> list[tuple[int, Block]]:
    """`block` as (unit, rows of whole units), with the bytes of cut units by themselves (unit 1)."""
    if unit == 1 or (block.start % unit == 0 and block.nbytes % unit == 0 and block.stride % unit == 0):
        return [(unit, block)]
    if block.stride % unit and block.count > 1:  # every row begins elsewhere within a unit
        rows = [Block(block.start + row * block.stride, block.nbytes, 0, 1) for row in range(block.count)]
        return [part for row in rows for part in whole_units(row, unit)]
    start, stop = block.start, block.start + block.nbytes
    first, last = -(-start // unit) * unit, stop // unit * unit
    if first >= last:
        return [(1, block)]
    cuts = ((1, start, first), (unit, first, last), (1, last, stop))
    return [
        (size, Block(low, high - low, block.stride, block.count)) for size, low, high in cuts if high > low
    ]


def packed_pitches(shape: tuple[int, int, int]) -> tuple[int, int]:
    return shape[1] * shape[2], shape[2]


def is_packed(shape: tuple[int, int, int], pitches: tuple[int, int]) -> bool:
    """Whether the box's bytes lie one after the other."""
    slices, rows, nbytes = shape
    return (rows == 1 or pitches[1] == nbytes) and (slices == 1 or pitches[0] == rows * nbytes)


def parts(box: Box, limit: int) -> list[Box]:
    """`box` in boxes of about `limit` bytes at most (a row at least)."""
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
