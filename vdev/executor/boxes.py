"""Boxes: how a region of a buffer becomes a small number of strided copies. Pure arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from vdev.backends.base import Box
from vdev.translators.ranges.region import Region

if TYPE_CHECKING:
    from vdev.translators.ranges.rectangles import Layout

Offsets = npt.NDArray[np.int64]


def boxes_of_region(region: Region, source_start: int, target_start: int) -> list[Box]:
    """Copies of `region` between two memories whose first bytes are bytes `source_start` and `target_start`
    of the buffer.
    """
    boxes = []
    for block in region.blocks():
        if block.count == block.slices == 1:
            boxes.append(Box.contiguous(block.start - source_start, block.start - target_start, block.nbytes))
            continue
        pitches = (block.slice_stride or block.count * block.stride, block.stride)
        shape = (block.slices, block.count, block.nbytes)
        boxes.append(Box(shape, block.start - source_start, pitches, block.start - target_start, pitches))
    return boxes


def boxes_through_layout(region: Region, layout: Layout, *, to_host: bool) -> list[Box]:
    """The copies of `region`, a part of the layout's box, between the buffer (at its own offsets) and the command's
    host array.
    """
    if region.nbytes == layout.nbytes:  # all of the box
        return [box_of_layout(layout, to_host=to_host)]
    # every byte goes the same way
    if layout.shape[:2] == (1, 1) or layout.host_pitches == layout.buffer_pitches:
        first = layout.buffer_start - layout.host_start
        return boxes_of_region(region, 0, first) if to_host else boxes_of_region(region, first, 0)
    starts, lengths = _cut_at_rows(region, layout)
    host_starts = _host_offsets(starts, layout)
    return _strided(starts, host_starts, lengths) if to_host else _strided(host_starts, starts, lengths)


def _rows(starts: Offsets, layout: Layout) -> tuple[Offsets, Offsets, Offsets]:
    """The slice and row of the layout's box that contain byte `start`, and where that row begins in the buffer."""
    slice_pitch, row_pitch = layout.buffer_pitches
    slices, rows, _ = layout.shape
    relative = starts - layout.buffer_start
    # A dimension of size one may have any pitch, 0 included.
    at_slice: Offsets = relative // slice_pitch if slices > 1 else np.zeros_like(relative)
    within: Offsets = relative - at_slice * slice_pitch
    at_row: Offsets = within // row_pitch if rows > 1 else np.zeros_like(within)
    first: Offsets = layout.buffer_start + at_slice * slice_pitch + at_row * row_pitch
    return at_slice, at_row, first


def _cut_at_rows(region: Region, layout: Layout) -> tuple[Offsets, Offsets]:
    """Starts and lengths of the region's runs, cut where the layout's next row begins."""
    row_nbytes = layout.shape[2]
    found_starts: list[Offsets] = []
    found_lengths: list[Offsets] = []
    starts, stops = region.runs[:, 0], region.runs[:, 1]
    while len(starts):
        row_stop = _rows(starts, layout)[2] + row_nbytes
        ends = np.minimum(stops, row_stop)
        found_starts.append(starts)
        found_lengths.append(ends - starts)
        more = ends < stops
        starts, stops = ends[more], stops[more]
    all_starts, all_lengths = np.concatenate(found_starts), np.concatenate(found_lengths)
    order = np.argsort(all_starts, kind="stable")
    return all_starts[order], all_lengths[order]


def _host_offsets(starts: Offsets, layout: Layout) -> Offsets:
    at_slice, at_row, first = _rows(starts, layout)
    slice_pitch, row_pitch = layout.host_pitches
    return layout.host_start + at_slice * slice_pitch + at_row * row_pitch + (starts - first)


def _strided(sources: Offsets, targets: Offsets, lengths: Offsets) -> list[Box]:
    """Runs as few boxes: neighbours of one length and one spacing on either side become rows of one box."""
    boxes: list[Box] = []
    index, count = 0, len(lengths)
    source, target, length = sources.tolist(), targets.tolist(), lengths.tolist()
    while index < count:
        last = index + 1
        nbytes = length[index]
        if last < count and length[last] == nbytes:
            step = source[last] - source[index], target[last] - target[index]
            fits = step[0] >= nbytes and step[1] >= nbytes
            while fits and last < count and length[last] == nbytes:
                if (source[last] - source[last - 1], target[last] - target[last - 1]) != step:
                    break
                last += 1
            if fits:
                rows = last - index
                shape, pitches = (1, rows, nbytes), ((rows * step[0], step[0]), (rows * step[1], step[1]))
                boxes.append(Box(shape, source[index], pitches[0], target[index], pitches[1]))
                index = last
                continue
        boxes.append(Box.contiguous(source[index], target[index], nbytes))
        index += 1
    return boxes


def box_of_layout(layout: Layout, *, to_host: bool) -> Box:
    """All bytes of a layout, between the buffer and the host's array."""
    inside = layout.buffer_start, layout.buffer_pitches
    outside = layout.host_start, layout.host_pitches
    return Box(layout.shape, *inside, *outside) if to_host else Box(layout.shape, *outside, *inside)
