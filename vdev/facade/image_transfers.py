"""Transfers of images: read, write, copy, fill and map (specification 5.3.3 to 5.3.6).

Decides whether a call is valid before anything is submitted, and which bytes of the image's buffer a box of pixels is.
A box without pixels is none of an error, as natively: nothing is done.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vdev.facade.errors import as_int, cast_int, check_type, fail, fail_type, native, status
from vdev.facade.event import Event, make_event, make_nanny_event, parse_wait_list
from vdev.facade.hostbuf import array_interface, as_bytes, contiguous_strides, export_array
from vdev.facade.image_formats import DEPTH, color_dtype, encode
from vdev.facade.images import Image, ImageMemory, has_slices
from vdev.facade.maps import check_map_access, make_map
from vdev.facade.memory import (
    HOST_NO_ACCESS,
    HOST_READ_ONLY,
    HOST_WRITE_ONLY,
    MemoryObjectHolder,
    parse_order,
    parse_shape,
)
from vdev.facade.queue import CommandQueue
from vdev.facade.svm_host import submit_with_host
from vdev.facade.transfers import WaitList, check_blocking, check_command, components, wait_blocking
from vdev.process.interrupts import waits
from vdev.session.commands import CopyBuffer, Fill, Map, Marker, Read, Write
from vdev.translators.ranges.rectangles import Layout, box_region

_type = native.command_type
_kinds = native.mem_object_type
_flags = native.map_flags

Triple = tuple[int, ...]
Pitches = tuple[int, int]


def _triples(function: str, origin: Any, region: Any, name: str = "origin") -> tuple[Triple, Triple]:
    if origin is None or region is None:
        fail_type(function, origin, region)
    return components(name, origin, (0, 0, 0)), components("region", region, (1, 1, 1))


def _check_box(routine: str, memory: ImageMemory, origin: Triple, region: Triple) -> None:
    if any(start + count > size for start, count, size in zip(origin, region, memory.extent, strict=True)):
        fail(routine, status.INVALID_VALUE)


def _start(memory: ImageMemory, origin: Triple) -> int:
    """Byte of the session's buffer at which a pixel begins."""
    plane, row = memory.pitches
    return memory.offset + origin[2] * plane + origin[1] * row + origin[0] * memory.element_nbytes


def _layout(shape: Triple, start: int, pitches: Pitches, host_pitches: Pitches) -> Layout:
    """A box, as few rows as can be: those that follow each other on both sides are one."""
    slices, rows, nbytes = shape
    if rows > 1 and pitches[1] == host_pitches[1] == nbytes:
        rows, nbytes = 1, rows * nbytes
    if slices > 1 and rows == 1 and pitches[0] == host_pitches[0] == nbytes:
        slices, nbytes = 1, slices * nbytes
    row = (pitches[1] if rows > 1 else nbytes, host_pitches[1] if rows > 1 else nbytes)
    plane = (pitches[0], host_pitches[0]) if slices > 1 else (row[0] * rows, row[1] * rows)
    return Layout((slices, rows, nbytes), start, (plane[0], row[0]), 0, (plane[1], row[1]))


def _host_pitches(routine: str, memory: ImageMemory, region: Triple, given: Pitches) -> Pitches:
    """(slice, row) pitches of host memory (clEnqueueReadImage). Layers of one row are as far apart as slices."""
    row, plane = given
    nbytes = region[0] * memory.element_nbytes
    if row and row < nbytes:
        fail(routine, status.INVALID_VALUE)
    row = row or nbytes
    if memory.type == _kinds.IMAGE1D_ARRAY:
        if plane and plane < row:
            fail(routine, status.INVALID_VALUE)
        return plane or row, plane or row
    if plane and has_slices(memory) and plane < row * region[1]:
        fail(routine, status.INVALID_VALUE)
    return (plane if plane and has_slices(memory) else row * region[1]), row


def _host_box(
    function: str,
    routine: str,
    queue: CommandQueue,
    mem: Image,
    box: tuple[Any, Any, Any, Any],
    hostbuf: Any,
    *,
    writable: bool,
) -> tuple[ImageMemory, Layout | None, Any]:
    """What reads and writes have in common: checks, the layout (None: no pixels) and the host's bytes."""
    check_type(function, queue, CommandQueue)
    check_type(function, mem, Image)
    if hostbuf is None:
        fail_type(function, hostbuf)
    origin, region = _triples(function, box[0], box[1])
    given = as_int(function, box[2]), as_int(function, box[3])
    host = as_bytes(hostbuf, writable=writable)
    (memory,) = check_command(function, routine, queue, mem)
    assert isinstance(memory, ImageMemory)
    _check_box(routine, memory, origin, region)
    refused = HOST_NO_ACCESS | (HOST_WRITE_ONLY if writable else HOST_READ_ONLY)
    if memory.flags & refused:
        fail(routine, status.INVALID_OPERATION)
    if 0 in region:
        return memory, None, host
    shape = (region[2], region[1], region[0] * memory.element_nbytes)
    pitches = _host_pitches(routine, memory, region, given)
    if (shape[0] - 1) * pitches[0] + (shape[1] - 1) * pitches[1] + shape[2] > host.size:
        # beyond the host memory a driver cannot check, and would corrupt it
        fail(routine, status.INVALID_VALUE)
    return memory, _layout(shape, _start(memory, origin), memory.pitches, pitches), host


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
    function, routine = "_enqueue_read_image", "clEnqueueReadImage"
    check_blocking(function, is_blocking)
    box = (origin, region, row_pitch, slice_pitch)
    memory, layout, host = _host_box(function, routine, queue, mem, box, hostbuf, writable=True)
    after = parse_wait_list(wait_for, queue._context, routine)
    command = Marker() if layout is None else Read(memory.buffer, layout, host)
    completion = submit_with_host(queue, command, host, after, writes=True)
    event = make_nanny_event(queue, _type.READ_IMAGE, completion, hostbuf)
    if is_blocking:
        wait_blocking(event, after, routine)
    return event


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
    function, routine = "_enqueue_write_image", "clEnqueueWriteImage"
    check_blocking(function, is_blocking)
    box = (origin, region, row_pitch, slice_pitch)
    memory, layout, host = _host_box(function, routine, queue, mem, box, hostbuf, writable=False)
    after = parse_wait_list(wait_for, queue._context, routine)
    command = Marker() if layout is None else Write(memory.buffer, layout, host)
    completion = submit_with_host(queue, command, host, after, writes=False)
    event = make_nanny_event(queue, _type.WRITE_IMAGE, completion, hostbuf)
    if is_blocking:
        wait_blocking(event, after, routine)
    return event


def _copy(source: tuple[Any, int, Pitches], target: tuple[Any, int, Pitches], shape: Triple) -> CopyBuffer:
    """A copy of a box; each side is its memory, the box's first byte and its pitches."""
    layout = _layout(shape, source[1], source[2], target[2])
    return CopyBuffer(
        source[0].buffer, target[0].buffer, layout.shape, source[1], layout.buffer_pitches, target[1],
        layout.host_pitches,
    )  # fmt: skip


def _submit_copy(
    routine: str, queue: CommandQueue, kind: int, command: CopyBuffer | None, after: Any
) -> Event:
    if command is not None and command.source is command.target:
        source = box_region(command.shape, command.source_start, command.source_pitches)
        if source.overlaps(box_region(command.shape, command.target_start, command.target_pitches)):
            fail(routine, status.MEM_COPY_OVERLAP)
    return make_event(queue, kind, queue._submit(Marker() if command is None else command, after))


def _enqueue_copy_image(
    queue: CommandQueue,
    src: MemoryObjectHolder,
    dest: MemoryObjectHolder,
    src_origin: Any,
    dest_origin: Any,
    region: Any,
    wait_for: WaitList = None,
) -> Event:
    function, routine = "_enqueue_copy_image", "clEnqueueCopyImage"
    check_type(function, queue, CommandQueue)
    after = parse_wait_list(wait_for, queue._context, routine)
    source_origin, box = _triples(function, src_origin, region, "src_origin")
    target_origin, _ = _triples(function, dest_origin, region, "dest_origin")
    source, target = check_command(function, routine, queue, src, dest)
    if not isinstance(source, ImageMemory) or not isinstance(target, ImageMemory):
        fail(routine, status.IMAGE_FORMAT_MISMATCH)
    if (source.order, source.data_type) != (target.order, target.data_type):
        fail(routine, status.IMAGE_FORMAT_MISMATCH)
    _check_box(routine, source, source_origin, box)
    _check_box(routine, target, target_origin, box)
    command = None
    if 0 not in box:
        command = _copy(
            (source, _start(source, source_origin), source.pitches),
            (target, _start(target, target_origin), target.pitches),
            (box[2], box[1], box[0] * source.element_nbytes),
        )
    return _submit_copy(routine, queue, _type.COPY_IMAGE, command, after)


def _copy_with_buffer(
    function: str,
    routine: str,
    queue: CommandQueue,
    image: MemoryObjectHolder,
    buffer: MemoryObjectHolder,
    box: tuple[Any, Any, Any, Any],
    kind: int,
) -> Event:
    """Between an image's box and consecutive bytes of a buffer. `box`: origin, region, offset, events."""
    check_type(function, queue, CommandQueue)
    after = parse_wait_list(box[3], queue._context, routine)
    origin, region = _triples(function, box[0], box[1])
    offset = as_int(function, box[2])
    memory, other = check_command(function, routine, queue, image, buffer)
    if not isinstance(memory, ImageMemory) or isinstance(other, ImageMemory):
        fail(routine, status.IMAGE_FORMAT_NOT_SUPPORTED if isinstance(other, ImageMemory) else _NO_IMAGE)
    _check_box(routine, memory, origin, region)
    row = region[0] * memory.element_nbytes
    if offset + row * region[1] * region[2] > other.nbytes:
        fail(routine, status.INVALID_VALUE)
    command = None
    if 0 not in region:
        inside = memory, _start(memory, origin), memory.pitches
        outside = other, other.offset + offset, (row * region[1], row)
        source, target = (inside, outside) if kind == _type.COPY_IMAGE_TO_BUFFER else (outside, inside)
        command = _copy(source, target, (region[2], region[1], row))
    return _submit_copy(routine, queue, kind, command, after)


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
    names = "_enqueue_copy_image_to_buffer", "clEnqueueCopyImageToBuffer"
    box = (origin, region, offset, wait_for)
    return _copy_with_buffer(*names, queue, src, dest, box, _type.COPY_IMAGE_TO_BUFFER)


def _enqueue_copy_buffer_to_image(
    queue: CommandQueue,
    src: MemoryObjectHolder,
    dest: MemoryObjectHolder,
    offset: int,
    origin: Any,
    region: Any,
    wait_for: WaitList = None,
) -> Event:
    names = "_enqueue_copy_buffer_to_image", "clEnqueueCopyBufferToImage"
    box = (origin, region, offset, wait_for)
    return _copy_with_buffer(*names, queue, dest, src, box, _type.COPY_BUFFER_TO_IMAGE)


def enqueue_fill_image(
    queue: CommandQueue,
    mem: MemoryObjectHolder,
    color: Any,
    origin: Any,
    region: Any,
    wait_for: WaitList = None,
) -> Event:
    function, routine = "enqueue_fill_image", "clEnqueueFillImage"
    check_type(function, queue, CommandQueue)
    if color is None:
        fail_type(function, color)
    after = parse_wait_list(wait_for, queue._context, routine)
    start, box = _triples(function, origin, region)
    components_of = as_bytes(color)
    (memory,) = check_command(function, routine, queue, mem)
    if not isinstance(memory, ImageMemory):
        fail(routine, status.INVALID_MEM_OBJECT)
    _check_box(routine, memory, start, box)
    if components_of.size < (4 if memory.order == DEPTH else 16):
        fail(routine, status.INVALID_VALUE)  # natively read beyond its end
    command: Fill | Write | Marker = Marker()
    if 0 not in box:
        values = np.zeros(4, color_dtype(memory.data_type))
        given = components_of[:16].view(values.dtype)
        values[: given.size] = given
        command = _filling(memory, encode(memory.order, memory.data_type, values), start, box)
    return make_event(queue, _type.FILL_IMAGE, queue._submit(command, after))


def _filling(memory: ImageMemory, pixel: bytes, origin: Triple, box: Triple) -> Fill | Write:
    """Consecutive pixels are filled where they are; a box with gaps is written."""
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
    """An array that begins at the box's first pixel, the event, and the row and slice pitch of what is mapped."""
    function, routine = "enqueue_map_image", "clEnqueueMapImage"
    check_type(function, queue, CommandQueue)
    bits = as_int(function, flags)
    check_blocking(function, is_blocking)
    if shape is None or order is None:
        fail_type(function, shape, order)
    after = parse_wait_list(wait_for, queue._context, routine)
    kind, dims = np.dtype(dtype), parse_shape(shape)
    steps = contiguous_strides(dims, kind.itemsize, parse_order(order))
    if strides is not None:
        steps = tuple(cast_int(step, -(2**63), 2**63 - 1) for step in strides)
    start, box = _triples(function, origin, region)
    (memory,) = check_command(function, routine, queue, img)
    if not isinstance(memory, ImageMemory):
        fail(routine, status.INVALID_MEM_OBJECT)
    _check_box(routine, memory, start, box)
    check_map_access(routine, memory, bits)
    command = _mapping(memory, bits, start, box)
    reach = sum((size - 1) * step for size, step in zip(dims, steps, strict=True))
    if 0 not in dims and (min(steps, default=0) < 0 or reach + kind.itemsize > _end(memory) - command.offset):
        fail(function, status.INVALID_VALUE, "miscalculated numpy array size (not contiguous?)")
    completion = queue._submit(command if command.nbytes else Marker(), after)
    event = make_event(queue, _type.MAP_IMAGE, completion)
    if is_blocking:
        wait_blocking(event, after, routine)
    home = memory.buffer.home()[command.offset : _end(memory)]
    array = export_array(make_map(queue, memory, command), array_interface(home, dims, kind, steps))
    one_row = memory.extent[1:] == (1, 1) and not has_slices(memory) and memory.type != _kinds.IMAGE2D
    return array, event, 0 if one_row else memory.pitches[1], memory.slice_pitch if has_slices(memory) else 0


def _end(memory: ImageMemory) -> int:
    return memory.offset + memory.nbytes


def _mapping(memory: ImageMemory, flags: int, origin: Triple, box: Triple) -> Map:
    """The bytes from the box's first to its last: what lies between its rows must be there after the mapping."""
    row = box[0] * memory.element_nbytes
    layout = _layout((box[2], box[1], row), _start(memory, origin), memory.pitches, (row * box[1], row))
    plane, step = memory.pitches
    nbytes = 0 if 0 in box else (box[2] - 1) * plane + (box[1] - 1) * step + row
    discards = flags & (_flags.READ | _flags.WRITE_INVALIDATE_REGION) == _flags.WRITE_INVALIDATE_REGION
    return Map(
        memory.buffer,
        layout.buffer_start,
        nbytes,
        read=not (discards and layout.is_contiguous),
        write=bool(flags & (_flags.WRITE | _flags.WRITE_INVALIDATE_REGION)),
    )
