"""Boxes of bytes as OpenCL's rectangular copies take them. Decides how a box is expressed and cut; moves nothing."""

from __future__ import annotations

from collections.abc import Iterator

from vdev.backends.base import Box


def pieces_within(
    box: Box, source_nbytes: int | None = None, target_nbytes: int | None = None
) -> Iterator[Box]:
    """`box` in pieces whose rows, counted with their pitch, end within memories of these sizes.

    Some drivers require that of the last row as well (INVALID_VALUE otherwise), although only its bytes are there,
    and that slices are whole rows apart.
    """
    (slices, rows, nbytes), source, target = box.shape, box.source_pitches, box.target_pitches
    if slices > 1 and rows > 1 and any(by_slice % by_row for by_slice, by_row in (source, target)):
        plane = Box((1, rows, nbytes), box.source_start, source, box.target_start, target)
        for number in range(slices):
            moved = plane.moved(number * source[0], number * target[0])
            yield from pieces_within(moved, source_nbytes, target_nbytes)
        return
    ends = (
        (source_nbytes, _pitched_end(box.shape, box.source_start, source)),
        (target_nbytes, _pitched_end(box.shape, box.target_start, target)),
    )
    if box.is_contiguous or all(limit is None or end <= limit for limit, end in ends):
        yield box
        return
    # All but the last along the outermost dimension, and then the last, which has one dimension less.
    axis, count = (0, slices) if slices > 1 else (1, rows)
    first = (count - 1, rows, nbytes) if axis == 0 else (1, count - 1, nbytes)
    last = (1, rows, nbytes) if axis == 0 else (1, 1, nbytes)
    yield Box(first, box.source_start, source, box.target_start, target)
    rest = Box(last, box.source_start, source, box.target_start, target)
    yield from pieces_within(
        rest.moved((count - 1) * source[axis], (count - 1) * target[axis]), source_nbytes, target_nbytes
    )


def _pitched_end(shape: tuple[int, int, int], start: int, pitches: tuple[int, int]) -> int:
    slices, rows, _ = shape
    return start + (slices * pitches[0] if slices > 1 else rows * pitches[1])


def rectangle(box: Box) -> tuple[tuple[int, int, int], tuple[int, int], tuple[int, int]]:
    """A box as OpenCL's region (bytes, rows, slices) and (row, slice) pitches of source and target.

    A dimension of size one gets a pitch that satisfies the specification's rules.
    """
    slices, rows, nbytes = box.shape
    source, target = box.source_pitches, box.target_pitches
    if rows == 1:
        rows, slices = slices, 1
        source, target = (0, source[0]), (0, target[0])
    if slices == 1:
        source, target = (rows * source[1], source[1]), (rows * target[1], target[1])
    return (nbytes, rows, slices), (source[1], source[0]), (target[1], target[0])


def halves(box: Box) -> Iterator[Box]:
    """A box of several rows as two, cut along its outermost dimension."""
    slices, rows, nbytes = box.shape
    axis, count = (0, slices) if slices > 1 else (1, rows)
    for start, stop in ((0, count // 2), (count // 2, count)):
        shape = (stop - start, rows, nbytes) if axis == 0 else (1, stop - start, nbytes)
        part = Box(shape, box.source_start, box.source_pitches, box.target_start, box.target_pitches)
        yield part.moved(start * box.source_pitches[axis], start * box.target_pitches[axis])
