"""Transfers of images: read, write, copy, fill and map (specification 5.3.3 to 5.3.6).

Decides whether a call is valid before anything is submitted, and which bytes of the image's buffer a box of pixels
covers. A box without pixels is not an error, as natively: nothing is done.
"""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import Any

import numpy as np

from vdev.facade.calls import (
    COPY_BUFFER_TO_IMAGE,
    COPY_IMAGE,
    COPY_IMAGE_TO_BUFFER,
    FILL_IMAGE,
    MAP_IMAGE,
    NOTHING,
    READ_IMAGE,
    WRITE_IMAGE,
    Call,
    WaitList,
    map_of,
)
from vdev.facade.errors import as_int, cast_int, check_type, fail, fail_type, native, status
from vdev.facade.event import Event
from vdev.facade.hostbuf import as_bytes, contiguous_strides
from vdev.facade.image_formats import DEPTH, color_dtype, encode
from vdev.facade.images import Image, ImageMemory, has_slices
from vdev.facade.maps import map_home
from vdev.facade.memory import MemoryObjectHolder, parse_order, parse_shape
from vdev.facade.queue import CommandQueue
from vdev.facade.transfers import components, submit_copy
from vdev.process.interrupts import waits
from vdev.session.commands import Command, CopyBuffer, Fill, Map, Write
from vdev.translators.ranges.rectangles import Layout

_kinds = native.mem_object_type
#: of images with fewer than three
_DIMENSIONS = {_kinds.IMAGE1D: 1, _kinds.IMAGE1D_BUFFER: 1, _kinds.IMAGE1D_ARRAY: 2, _kinds.IMAGE2D: 2}

#: boxes that are remembered
_MOST_BOXES = 1024

Triple = tuple[int, ...]
Pitches = tuple[int, int]


def _triples(call: Call, origin: Any, region: Any, name: str = "origin") -> tuple[Triple, Triple]:
    if origin is None or region is None:
        fail_type(call.function, origin, region)
    return components(name, origin, (0, 0, 0)), components("region", region, (1, 1, 1))


def _check_box(call: Call, memory: ImageMemory, origin: Triple, region: Triple) -> None:
    """INVALID_VALUE for a box that is not within the image. It may be empty, but along no dimension that the image does not have."""
    if 0 in region[_DIMENSIONS.get(memory.type, 3) :]:
        call.fail(status.INVALID_VALUE)
    if any(start + count > size for start, count, size in zip(origin, region, memory.extent, strict=True)):
        call.fail(status.INVALID_VALUE)


def _start(memory: ImageMemory, origin: Triple) -> int:
    """Byte of the session's buffer at which a pixel begins."""
    plane, row = memory.pitches
    return memory.offset + origin[2] * plane + origin[1] * row + origin[0] * memory.element_nbytes


@lru_cache(maxsize=1024)  # the same object for the same numbers, as `Layout.contiguous`
def _layout(shape: Triple, start: int, pitches: Pitches, host_pitches: Pitches) -> Layout:
    """A box in as few rows as possible: rows that follow each other on both sides become one."""
    slices, rows, nbytes = shape
    if rows > 1 and pitches[1] == host_pitches[1] == nbytes:
        rows, nbytes = 1, rows * nbytes
    if slices > 1 and rows == 1 and pitches[0] == host_pitches[0] == nbytes:
        slices, nbytes = 1, slices * nbytes
    row = (pitches[1] if rows > 1 else nbytes, host_pitches[1] if rows > 1 else nbytes)
    plane = (pitches[0], host_pitches[0]) if slices > 1 else (row[0] * rows, row[1] * rows)
    return Layout((slices, rows, nbytes), start, (plane[0], row[0]), 0, (plane[1], row[1]))


def _host_pitches(call: Call, memory: ImageMemory, region: Triple, given: Pitches) -> Pitches:
    """(slice, row) pitches of host memory (clEnqueueReadImage). Layers of one row are as far apart as slices."""
    row, plane = given
    nbytes = region[0] * memory.element_nbytes
    if row and row < nbytes:
        call.fail(status.INVALID_VALUE)
    row = row or nbytes
    if memory.type == _kinds.IMAGE1D_ARRAY:
        if plane and plane < row:
            call.fail(status.INVALID_VALUE)
        return plane or row, plane or row
    if plane and has_slices(memory) and plane < row * region[1]:
        call.fail(status.INVALID_VALUE)
    return (plane if plane and has_slices(memory) else row * region[1]), row


@waits
def _move_pixels(
    call: Call,
    queue: CommandQueue,
    mem: Any,
    box: tuple[Any, Any, Any, Any],
    hostbuf: Any,
    wait_for: WaitList,
    is_blocking: Any,
) -> Event:
    """Move a box of pixels to or from host memory. `box`: origin, region, and the host's row and slice pitch."""
    known = _usual(call, queue, mem, box, hostbuf, is_blocking)
    if known is not None:
        after = call.after(queue, wait_for) if wait_for else ()
        host = (hostbuf if hostbuf.ndim == 1 else hostbuf.reshape(-1)).view(np.uint8)
        return call.move_host(queue, known, host, hostbuf, after, is_blocking)
    call.check_blocking(is_blocking)
    call.check_queue(queue)
    check_type(call.function, mem, Image)
    if hostbuf is None:
        fail_type(call.function, hostbuf)
    origin, region = _triples(call, box[0], box[1])
    given = as_int(call.function, box[2]), as_int(call.function, box[3])
    host = as_bytes(hostbuf, writable=call.writes_host)
    (memory,) = call.memories(queue, mem)
    assert isinstance(memory, ImageMemory)
    _check_box(call, memory, origin, region)
    call.check_host_use(memory)
    layout = None
    if 0 not in region:
        shape = (region[2], region[1], region[0] * memory.element_nbytes)
        pitches = _host_pitches(call, memory, region, given)
        reach = (shape[0] - 1) * pitches[0] + (shape[1] - 1) * pitches[1] + shape[2]
        if reach > host.size:
            # a driver cannot check beyond the host memory, and would corrupt it
            call.fail(status.INVALID_VALUE)
        layout = _layout(shape, _start(memory, origin), memory.pitches, pitches)
        _remember(memory, box, layout, reach)
    after = call.after(queue, wait_for)
    return call.move_host(queue, (memory, layout), host, hostbuf, after, is_blocking)


#: by an image's geometry and what a program gave of a box (origin, region and the host's pitches): how the box lies in the image's
#: buffer and in host memory, and the bytes that it takes there; of boxes that were found valid. Numbers of another type that equal
#: the remembered ones pass as well.
_known_boxes: dict[tuple[Any, ...], tuple[Layout, int]] = {}


def _remember(memory: ImageMemory, box: tuple[Any, Any, Any, Any], layout: Layout, reach: int) -> None:
    if len(_known_boxes) >= _MOST_BOXES:
        _known_boxes.clear()
    key = (memory.geometry, *box)
    with suppress(TypeError):  # lists, and arrays without dimensions, cannot be looked up
        _known_boxes[key] = layout, reach


def _usual(
    call: Call, queue: Any, mem: Any, box: tuple[Any, Any, Any, Any], hostbuf: Any, is_blocking: Any
) -> tuple[ImageMemory, Layout] | None:
    """The image and the layout of an ordinary transfer with a plain array, of a box that is known to be valid. None if each argument has
    to be looked at.
    """
    if not (
        type(queue) is CommandQueue
        and type(mem) is Image
        and type(hostbuf) is np.ndarray
        and (is_blocking is True or is_blocking is False)
    ):
        return None
    memory = mem._vdev_state
    try:
        key = (memory.geometry, *box)
        layout, reach = _known_boxes[key]
    except (KeyError, TypeError, AttributeError):  # lists cannot be remembered
        return None
    flags = hostbuf.flags
    if (
        memory.references > 0
        and memory.context is queue._vdev_state.context
        and flags.c_contiguous
        and (flags.writeable or not call.writes_host)
        and hostbuf.nbytes >= reach
        and not memory.flags & call.refused
    ):
        return memory, layout
    return None


@waits
def _enqueue_read_image(
    queue: CommandQueue,
    mem: Image,
    origin: Any,
    region: Any,
    hostbuf: Any,
    row_pitch: int = 0,
    slice_pitch: int = 0,
    wait_for: WaitList = None,
    is_blocking: bool = True,
) -> Event:
    box = (origin, region, row_pitch, slice_pitch)
    return _move_pixels(READ_IMAGE, queue, mem, box, hostbuf, wait_for, is_blocking)


@waits
def _enqueue_write_image(
    queue: CommandQueue,
    mem: Image,
    origin: Any,
    region: Any,
    hostbuf: Any,
    row_pitch: int = 0,
    slice_pitch: int = 0,
    wait_for: WaitList = None,
    is_blocking: bool = True,
) -> Event:
    box = (origin, region, row_pitch, slice_pitch)
    return _move_pixels(WRITE_IMAGE, queue, mem, box, hostbuf, wait_for, is_blocking)


def _copy(source: tuple[Any, int, Pitches], target: tuple[Any, int, Pitches], shape: Triple) -> CopyBuffer:
    """Copy a box; each side is given by its memory, the box's first byte and its pitches."""
    layout = _layout(shape, source[1], source[2], target[2])
    return CopyBuffer(
        source[0].buffer, target[0].buffer, layout.shape, source[1], layout.buffer_pitches, target[1],
        layout.host_pitches,
    )  # fmt: skip


def _enqueue_copy_image(
    queue: CommandQueue,
    src: MemoryObjectHolder,
    dest: MemoryObjectHolder,
    src_origin: Any,
    dest_origin: Any,
    region: Any,
    wait_for: WaitList = None,
) -> Event:
    call = COPY_IMAGE
    call.check_queue(queue)
    after = call.after(queue, wait_for)
    source_origin, box = _triples(call, src_origin, region, "src_origin")
    target_origin, _ = _triples(call, dest_origin, region, "dest_origin")
    source, target = call.memories(queue, src, dest)
    if not isinstance(source, ImageMemory) or not isinstance(target, ImageMemory):
        call.fail(status.IMAGE_FORMAT_MISMATCH)
    if (source.order, source.data_type) != (target.order, target.data_type):
        call.fail(status.IMAGE_FORMAT_MISMATCH)
    _check_box(call, source, source_origin, box)
    _check_box(call, target, target_origin, box)
    command = None
    if 0 not in box:
        command = _copy(
            (source, _start(source, source_origin), source.pitches),
            (target, _start(target, target_origin), target.pitches),
            (box[2], box[1], box[0] * source.element_nbytes),
        )
    return submit_copy(call, queue, command, after)


def _copy_with_buffer(
    call: Call,
    queue: CommandQueue,
    image: MemoryObjectHolder,
    buffer: MemoryObjectHolder,
    box: tuple[Any, Any, Any],
    wait_for: WaitList,
) -> Event:
    """Copy between an image's box and consecutive bytes of a buffer. `box`: origin, region, offset."""
    call.check_queue(queue)
    after = call.after(queue, wait_for)
    origin, region = _triples(call, box[0], box[1])
    offset = as_int(call.function, box[2])
    memory, other = call.memories(queue, image, buffer)
    if not isinstance(memory, ImageMemory) or isinstance(other, ImageMemory):
        call.fail(status.IMAGE_FORMAT_NOT_SUPPORTED if isinstance(other, ImageMemory) else _NO_IMAGE)
    _check_box(call, memory, origin, region)
    row = region[0] * memory.element_nbytes
    call.check_span(other, offset, row * region[1] * region[2])
    command = None
    if 0 not in region:
        inside = memory, _start(memory, origin), memory.pitches
        outside = other, other.offset + offset, (row * region[1], row)
        source, target = (inside, outside) if call is COPY_IMAGE_TO_BUFFER else (outside, inside)
        command = _copy(source, target, (region[2], region[1], row))
    return submit_copy(call, queue, command, after)


_NO_IMAGE = status.INVALID_MEM_OBJECT


def _enqueue_copy_image_to_buffer(
    queue: CommandQueue,
    src: MemoryObjectHolder,
    dest: MemoryObjectHolder,
    origin: Any,
    region: Any,
    offset: int,
    wait_for: WaitList = None,
) -> Event:
    return _copy_with_buffer(COPY_IMAGE_TO_BUFFER, queue, src, dest, (origin, region, offset), wait_for)


def _enqueue_copy_buffer_to_image(
    queue: CommandQueue,
    src: MemoryObjectHolder,
    dest: MemoryObjectHolder,
    offset: int,
    origin: Any,
    region: Any,
    wait_for: WaitList = None,
) -> Event:
    return _copy_with_buffer(COPY_BUFFER_TO_IMAGE, queue, dest, src, (origin, region, offset), wait_for)


def enqueue_fill_image(
    queue: CommandQueue,
    mem: MemoryObjectHolder,
    color: Any,
    origin: Any,
    region: Any,
    wait_for: WaitList = None,
) -> Event:
    call = FILL_IMAGE
    call.check_queue(queue)
    if color is None:
        fail_type(call.function, color)
    after = call.after(queue, wait_for)
    start, box = _triples(call, origin, region)
    components_of = as_bytes(color)
    memory = _image(call, queue, mem)
    _check_box(call, memory, start, box)
    if components_of.size < (4 if memory.order == DEPTH else 16):
        call.fail(status.INVALID_VALUE)  # natively it is read beyond its end
    command: Command = NOTHING
    if 0 not in box:
        pixel = _pixel_of(memory.order, memory.data_type, components_of[:16].tobytes())
        command = _filling(memory, pixel, start, box)
    return call.submit(queue, command, after)


def _image(call: Call, queue: CommandQueue, holder: Any) -> ImageMemory:
    """The memory object, if it is an image."""
    (memory,) = call.memories(queue, holder)
    if not isinstance(memory, ImageMemory):
        call.fail(status.INVALID_MEM_OBJECT)
    return memory


@lru_cache(maxsize=256)
def _pixel_of(order: int, data_type: int, color: bytes) -> bytes:
    """A pixel of the colour that a program gives, which may have less than four components. Programs fill with few colours."""
    values = np.zeros(4, color_dtype(data_type))
    given = np.frombuffer(color, values.dtype)
    values[: given.size] = given
    return encode(order, data_type, values)


def _filling(memory: ImageMemory, pixel: bytes, origin: Triple, box: Triple) -> Fill | Write:
    """Consecutive pixels are filled in place; a box with gaps is written."""
    row = box[0] * memory.element_nbytes
    layout = _layout((box[2], box[1], row), _start(memory, origin), memory.pitches, (row * box[1], row))
    if layout.is_contiguous:
        return Fill(memory.buffer, layout.buffer_start, layout.nbytes, pixel)
    host = np.frombuffer(pixel * (layout.nbytes // len(pixel)), np.uint8)
    return Write(memory.buffer, layout, host)


@waits
def enqueue_map_image(
    queue: CommandQueue,
    img: MemoryObjectHolder,
    flags: int,
    origin: Any,
    region: Any,
    shape: Any,
    dtype: Any,
    order: str = "C",
    strides: Any = None,
    wait_for: WaitList = None,
    is_blocking: bool = True,
) -> tuple[Any, Event, int, int]:
    """An array that begins at the box's first pixel, the event, and the row and slice pitch of the mapping."""
    call = MAP_IMAGE
    call.check_queue(queue)
    bits = as_int(call.function, flags)
    call.check_blocking(is_blocking)
    if shape is None or order is None:
        fail_type(call.function, shape, order)
    after = call.after(queue, wait_for)
    kind, dims = np.dtype(dtype), parse_shape(shape)
    steps = contiguous_strides(dims, kind.itemsize, parse_order(order))
    if strides is not None:
        steps = tuple(cast_int(step, -(2**63), 2**63 - 1) for step in strides)
    start, box = _triples(call, origin, region)
    memory = _image(call, queue, img)
    _check_box(call, memory, start, box)
    call.check_map_use(memory, bits)
    command = mapping(memory, bits, start, box)
    reach = sum((size - 1) * step for size, step in zip(dims, steps, strict=True))
    left = memory.offset + memory.nbytes - command.offset
    if 0 not in dims and (min(steps, default=0) < 0 or reach + kind.itemsize > left):
        fail(call.function, status.INVALID_VALUE, "miscalculated numpy array size (not contiguous?)")
    array, event = map_home(call, queue, memory, command, (dims, kind, steps), after, is_blocking)
    one_row = memory.extent[1:] == (1, 1) and not has_slices(memory) and memory.type != _kinds.IMAGE2D
    return array, event, 0 if one_row else memory.pitches[1], memory.slice_pitch if has_slices(memory) else 0


def mapping(memory: ImageMemory, flags: int, origin: Triple, box: Triple) -> Map:
    """The bytes from the box's first to its last: what lies between its rows must still be there after the mapping."""
    row = box[0] * memory.element_nbytes
    layout = _layout((box[2], box[1], row), _start(memory, origin), memory.pitches, (row * box[1], row))
    plane, step = memory.pitches
    nbytes = 0 if 0 in box else (box[2] - 1) * plane + (box[1] - 1) * step + row
    return map_of(memory.buffer, layout.buffer_start, nbytes, flags, keeps=not layout.is_contiguous)
