"""Transfers of buffers: read, write, copy and fill, plain and rectangular, and migration.

Decides whether a call is valid (specification 5.2.2 to 5.2.4) before anything is submitted. How the bytes
travel is decided below.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from vdev.facade.errors import as_int, cast_int, check_type, fail, fail_cast, fail_type, native, status
from vdev.facade.event import Event, NannyEvent, make_event, make_nanny_event, parse_wait_list
from vdev.facade.hostbuf import Bytes, as_bytes, value_bytes
from vdev.facade.memory import (
    BUFFER_TYPE,
    HOST_NO_ACCESS,
    HOST_READ_ONLY,
    HOST_WRITE_ONLY,
    Memory,
    MemoryObject,
    MemoryObjectHolder,
    live_memory,
)
from vdev.facade.queue import CommandQueue
from vdev.facade.svm_host import submit_with_host
from vdev.process.interrupts import waits
from vdev.session.commands import CopyBuffer, Fill, Marker, Migrate, Read, Write
from vdev.translators.ranges.rectangles import Layout, box_region

WaitList = Iterable[Event] | None

#: a transfer of no bytes: completes in order, touches nothing
_NOTHING = Marker()

_type = native.command_type
_PATTERN_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


def check_command(function: str, routine: str, queue: Any, *memories: Any) -> list[Memory]:
    """Types, lifetime and context of what every transfer takes; the memory objects."""
    check_type(function, queue, CommandQueue)
    for memory in memories:
        check_type(function, memory, MemoryObjectHolder)
    live = [live_memory(memory, routine) for memory in memories]
    for memory in live:
        if memory.context is not queue._context:
            fail(routine, status.INVALID_CONTEXT)
    return live


@waits
def wait_blocking(event: Event, after: Sequence[Any], routine: str) -> None:
    """End of a blocking command: wait, and fail with the command's status."""
    try:
        code = event._completion.wait()
    except (
        BaseException
    ):  # an interrupt: the memory stays until the transfer is done, and nobody waits for that
        if isinstance(event, NannyEvent):
            event.let_go()
        raise
    if code < 0:
        if any(completion.status < 0 for completion in after):
            code = status.EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST
        if isinstance(event, NannyEvent):
            event._ward = None
        fail(routine, code)


def check_blocking(function: str, is_blocking: Any) -> None:
    if is_blocking is not True and is_blocking is not False:
        fail_type(function, is_blocking)


@waits
def _enqueue_read_buffer(
    queue: CommandQueue,
    mem: MemoryObjectHolder,
    hostbuf: Any,
    src_offset: int = 0,
    wait_for: WaitList = None,
    is_blocking: bool = True,
) -> Event:
    routine = "clEnqueueReadBuffer"
    offset = as_int("_enqueue_read_buffer", src_offset)
    check_blocking("_enqueue_read_buffer", is_blocking)
    host = _host("_enqueue_read_buffer", hostbuf, writable=True)
    (memory,) = check_command("_enqueue_read_buffer", routine, queue, mem)
    after = parse_wait_list(wait_for, queue._context, routine)
    _check_plain(routine, memory)
    _check_span(routine, memory, offset, host.size)
    if memory.flags & (HOST_WRITE_ONLY | HOST_NO_ACCESS):
        fail(routine, status.INVALID_OPERATION)
    layout = Layout.contiguous(memory.offset + offset, host.size)
    command = Read(memory.buffer, layout, host) if host.size else _NOTHING
    completion = submit_with_host(queue, command, host, after, writes=True)
    event = make_nanny_event(queue, _type.READ_BUFFER, completion, hostbuf)
    if is_blocking:
        wait_blocking(event, after, routine)
    return event


@waits
def _enqueue_write_buffer(
    queue: CommandQueue,
    mem: MemoryObjectHolder,
    hostbuf: Any,
    dst_offset: int = 0,
    wait_for: WaitList = None,
    is_blocking: bool = True,
) -> Event:
    routine = "clEnqueueWriteBuffer"
    offset = as_int("_enqueue_write_buffer", dst_offset)
    check_blocking("_enqueue_write_buffer", is_blocking)
    host = _host("_enqueue_write_buffer", hostbuf)
    (memory,) = check_command("_enqueue_write_buffer", routine, queue, mem)
    after = parse_wait_list(wait_for, queue._context, routine)
    _check_plain(routine, memory)
    _check_span(routine, memory, offset, host.size)
    if memory.flags & (HOST_READ_ONLY | HOST_NO_ACCESS):
        fail(routine, status.INVALID_OPERATION)
    layout = Layout.contiguous(memory.offset + offset, host.size)
    command = Write(memory.buffer, layout, host) if host.size else _NOTHING
    completion = submit_with_host(queue, command, host, after, writes=False)
    event = make_nanny_event(queue, _type.WRITE_BUFFER, completion, hostbuf)
    if is_blocking:
        wait_blocking(event, after, routine)
    return event


def _host(function: str, hostbuf: Any, writable: bool = False) -> Bytes:
    if hostbuf is None:
        fail_type(function, hostbuf)
    return as_bytes(hostbuf, writable=writable)


def _check_plain(routine: str, memory: Memory) -> None:
    """Drivers let images be filled and copied to as buffers, not read, written or copied from."""
    if memory.type != BUFFER_TYPE:
        fail(routine, status.INVALID_VALUE)


def _check_span(routine: str, memory: Memory, offset: int, nbytes: int) -> None:
    if offset + nbytes > memory.nbytes:
        fail(routine, status.INVALID_VALUE)


def _enqueue_copy_buffer(
    queue: CommandQueue,
    src: MemoryObjectHolder,
    dst: MemoryObjectHolder,
    byte_count: int = -1,
    src_offset: int = 0,
    dst_offset: int = 0,
    wait_for: WaitList = None,
) -> Event:
    function, routine = "_enqueue_copy_buffer", "clEnqueueCopyBuffer"
    nbytes = as_int(function, byte_count, -(2**63), 2**63 - 1)
    source_offset, target_offset = as_int(function, src_offset), as_int(function, dst_offset)
    source, target = check_command(function, routine, queue, src, dst)
    after = parse_wait_list(wait_for, queue._context, routine)
    if nbytes < 0:
        nbytes = source.nbytes  # the native module takes the source's size, not the smaller one
    _check_plain(routine, source)
    _check_span(routine, source, source_offset, nbytes)
    _check_span(routine, target, target_offset, nbytes)
    source_start, target_start = source.offset + source_offset, target.offset + target_offset
    if source.buffer is target.buffer and abs(source_start - target_start) < nbytes:
        fail(routine, status.MEM_COPY_OVERLAP)
    pitches = (nbytes, nbytes)
    command = CopyBuffer(
        source.buffer, target.buffer, (1, 1, nbytes), source_start, pitches, target_start, pitches
    )
    return make_event(queue, _type.COPY_BUFFER, queue._submit(command if nbytes else _NOTHING, after))


def _enqueue_fill_buffer(
    queue: CommandQueue,
    mem: MemoryObjectHolder,
    pattern: Any,
    offset: int,
    size: int,
    wait_for: WaitList = None,
) -> Event:
    function, routine = "_enqueue_fill_buffer", "clEnqueueFillBuffer"
    start, nbytes = as_int(function, offset), as_int(function, size)
    if pattern is None:
        fail_type(function, pattern)
    filling = value_bytes(pattern)
    (memory,) = check_command(function, routine, queue, mem)
    after = parse_wait_list(wait_for, queue._context, routine)
    if len(filling) not in _PATTERN_SIZES or start % len(filling) or nbytes % len(filling):
        fail(routine, status.INVALID_VALUE)
    _check_span(routine, memory, start, nbytes)
    command = Fill(memory.buffer, memory.offset + start, nbytes, filling)
    return make_event(queue, _type.FILL_BUFFER, queue._submit(command if nbytes else _NOTHING, after))


def components(name: str, values: Any, default: tuple[int, ...]) -> tuple[int, ...]:
    """A tuple of sizes, filled up with the default's tail (the native module's COPY_PY macros)."""
    try:
        count = len(values)
    except TypeError:
        fail_cast()
    if count > len(default):
        fail("transfer", status.INVALID_VALUE, f"{name}has too many components")
    return tuple(cast_int(value) for value in values) + default[count:]


def _box(
    routine: str, origin: tuple[int, ...], region: tuple[int, ...], pitches: tuple[int, ...]
) -> tuple[int, tuple[int, int], int]:
    """Start, (slice, row) pitches and end, in bytes, of a box (clEnqueueReadBufferRect's table)."""
    if 0 in region:
        fail(routine, status.INVALID_VALUE)
    row = pitches[0] or region[0]
    plane = pitches[1] or region[1] * row
    if row < region[0] or plane < region[1] * row:
        fail(routine, status.INVALID_VALUE)
    start = origin[2] * plane + origin[1] * row + origin[0]
    end = start + (region[2] - 1) * plane + (region[1] - 1) * row + region[0]
    return start, (plane, row), end


def _pitches(name: str, values: Any) -> tuple[int, ...]:
    return (0, 0) if values is None else components(name, values, (0, 0))


def _host_rect(
    function: str,
    routine: str,
    queue: CommandQueue,
    mem: MemoryObjectHolder,
    hostbuf: Any,
    box: tuple[Any, Any, Any, Any, Any],
    writable: bool,
) -> tuple[Memory, Layout, Bytes]:
    """What reads and writes of boxes have in common: the checks and the layout."""
    if hostbuf is None or box[0] is None or box[1] is None or box[2] is None:
        fail_type(function, hostbuf, *box[:3])
    buffer_origin = components("buffer_origin", box[0], (0, 0, 0))
    host_origin = components("host_origin", box[1], (0, 0, 0))
    region = components("region", box[2], (1, 1, 1))
    buffer_pitches, host_pitches = _pitches("buffer_pitches", box[3]), _pitches("host_pitches", box[4])
    host = as_bytes(hostbuf, writable=writable)
    (memory,) = check_command(function, routine, queue, mem)
    start, pitches, end = _box(routine, buffer_origin, region, buffer_pitches)
    host_start, host_steps, host_end = _box(routine, host_origin, region, host_pitches)
    if end > memory.nbytes or host_end > host.size:
        # beyond the host memory a driver cannot check, and would corrupt it
        fail(routine, status.INVALID_VALUE)
    shape = (region[2], region[1], region[0])
    return memory, Layout(shape, memory.offset + start, pitches, host_start, host_steps), host


@waits
def _enqueue_read_buffer_rect(
    queue: CommandQueue,
    mem: MemoryObjectHolder,
    hostbuf: Any,
    buffer_origin: Sequence[int],
    host_origin: Sequence[int],
    region: Sequence[int],
    buffer_pitches: Sequence[int] | None = None,
    host_pitches: Sequence[int] | None = None,
    wait_for: WaitList = None,
    is_blocking: bool = True,
) -> Event:
    function, routine = "_enqueue_read_buffer_rect", "clEnqueueReadBufferRect"
    check_type(function, queue, CommandQueue)
    check_blocking(function, is_blocking)
    box = (buffer_origin, host_origin, region, buffer_pitches, host_pitches)
    after = parse_wait_list(wait_for, queue._context, routine)
    memory, layout, host = _host_rect(function, routine, queue, mem, hostbuf, box, writable=True)
    if memory.flags & (HOST_WRITE_ONLY | HOST_NO_ACCESS):
        fail(routine, status.INVALID_OPERATION)
    command = Read(memory.buffer, layout, host)
    completion = submit_with_host(queue, command, host, after, writes=True)
    event = make_nanny_event(queue, _type.READ_BUFFER_RECT, completion, hostbuf)
    if is_blocking:
        wait_blocking(event, after, routine)
    return event


@waits
def _enqueue_write_buffer_rect(
    queue: CommandQueue,
    mem: MemoryObjectHolder,
    hostbuf: Any,
    buffer_origin: Sequence[int],
    host_origin: Sequence[int],
    region: Sequence[int],
    buffer_pitches: Sequence[int] | None = None,
    host_pitches: Sequence[int] | None = None,
    wait_for: WaitList = None,
    is_blocking: bool = True,
) -> Event:
    function, routine = "_enqueue_write_buffer_rect", "clEnqueueWriteBufferRect"
    check_type(function, queue, CommandQueue)
    check_blocking(function, is_blocking)
    box = (buffer_origin, host_origin, region, buffer_pitches, host_pitches)
    after = parse_wait_list(wait_for, queue._context, routine)
    memory, layout, host = _host_rect(function, routine, queue, mem, hostbuf, box, writable=False)
    if memory.flags & (HOST_READ_ONLY | HOST_NO_ACCESS):
        fail(routine, status.INVALID_OPERATION)
    command = Write(memory.buffer, layout, host)
    completion = submit_with_host(queue, command, host, after, writes=False)
    event = make_nanny_event(queue, _type.WRITE_BUFFER_RECT, completion, hostbuf)
    if is_blocking:
        wait_blocking(event, after, routine)
    return event


def _enqueue_copy_buffer_rect(
    queue: CommandQueue,
    src: MemoryObjectHolder,
    dst: MemoryObjectHolder,
    src_origin: Sequence[int],
    dst_origin: Sequence[int],
    region: Sequence[int],
    src_pitches: Sequence[int] | None = None,
    dst_pitches: Sequence[int] | None = None,
    wait_for: WaitList = None,
) -> Event:
    function, routine = "_enqueue_copy_buffer_rect", "clEnqueueCopyBufferRect"
    check_type(function, queue, CommandQueue)
    if src_origin is None or dst_origin is None or region is None:
        fail_type(function, src_origin, dst_origin, region)
    after = parse_wait_list(wait_for, queue._context, routine)
    sizes = components("region", region, (1, 1, 1))
    source_origin = components("src_origin", src_origin, (0, 0, 0))
    target_origin = components("dst_origin", dst_origin, (0, 0, 0))
    source_steps, target_steps = _pitches("src_pitches", src_pitches), _pitches("dst_pitches", dst_pitches)
    source, target = check_command(function, routine, queue, src, dst)
    source_start, source_pitches, source_end = _box(routine, source_origin, sizes, source_steps)
    target_start, target_pitches, target_end = _box(routine, target_origin, sizes, target_steps)
    if source_end > source.nbytes or target_end > target.nbytes:
        fail(routine, status.INVALID_VALUE)
    shape = (sizes[2], sizes[1], sizes[0])
    command = CopyBuffer(
        source.buffer,
        target.buffer,
        shape,
        source.offset + source_start,
        source_pitches,
        target.offset + target_start,
        target_pitches,
    )
    if source.buffer is target.buffer and _boxes_overlap(command):
        fail(routine, status.MEM_COPY_OVERLAP)
    return make_event(queue, _type.COPY_BUFFER_RECT, queue._submit(command, after))


def _boxes_overlap(command: CopyBuffer) -> bool:
    """Whether the two boxes of one buffer share a byte."""
    source = box_region(command.shape, command.source_start, command.source_pitches)
    target = box_region(command.shape, command.target_start, command.target_pitches)
    return bool(source.overlaps(target))


def enqueue_migrate_mem_objects(
    queue: CommandQueue, mem_objects: Iterable[MemoryObject], flags: int = 0, wait_for: WaitList = None
) -> Event:
    """A hint where memory will be needed (specification 5.5.4)."""
    function, routine = "enqueue_migrate_mem_objects", "clEnqueueMigrateMemObjects"
    check_type(function, queue, CommandQueue)
    bits = as_int(function, flags)
    if mem_objects is None:
        fail_type(function, mem_objects)
    after = parse_wait_list(wait_for, queue._context, routine)
    objects = list(mem_objects)
    if not all(isinstance(item, MemoryObject) for item in objects):
        fail_cast()
    if not objects or bits & ~0b11:
        fail(routine, status.INVALID_VALUE)
    memories = check_command(function, routine, queue, *objects)
    command = Migrate(tuple(memory.buffer for memory in memories), to_host=bool(bits & 1))
    return make_event(queue, _type.MIGRATE_MEM_OBJECTS, queue._submit(command, after))


def enqueue_copy_buffer_p2p_amd(
    platform: Any,
    queue: CommandQueue,
    src: MemoryObjectHolder,
    dst: MemoryObjectHolder,
    byte_count: int | None = None,
    wait_for: WaitList = None,
) -> Event:
    """A vendor's extension that the device does not have."""
    check_command("enqueue_copy_buffer_p2p_amd", "clEnqueueCopyBufferP2PAMD", queue, src, dst)
    fail(
        "clGetExtensionFunctionAddressForPlatform",
        status.INVALID_VALUE,
        "clEnqueueCopyBufferP2PAMD is not available",
    )
