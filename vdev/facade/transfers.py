"""Transfers of buffers: read, write, copy and fill, plain and rectangular, and migration.

Decides whether a call is valid (specification 5.2.2 to 5.2.4) before anything is submitted. The layers below decide
how the bytes travel.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from vdev.executor.completion import DONE
from vdev.executor.stretch import Clocked
from vdev.facade.calls import (
    COPY_BUFFER,
    COPY_BUFFER_RECT,
    COPY_P2P,
    FILL_BUFFER,
    MIGRATE,
    NOTHING,
    READ_BUFFER,
    READ_BUFFER_RECT,
    WRITE_BUFFER,
    WRITE_BUFFER_RECT,
    Call,
    WaitList,
)
from vdev.facade.errors import as_int, cast_int, fail, fail_cast, fail_type, status
from vdev.facade.event import Event, NannyEvent
from vdev.facade.hostbuf import as_bytes, value_bytes
from vdev.facade.memory import Buffer, Memory, MemoryObject, MemoryObjectHolder
from vdev.facade.queue import CommandQueue
from vdev.facade.svm_memory import is_shared, starts
from vdev.process.interrupts import waits
from vdev.session.commands import CopyBuffer, Fill, Migrate
from vdev.session.immediate_moves import LaterRead, RecalledWrite, RepeatedWrite
from vdev.translators.ranges.rectangles import Layout, box_region

if TYPE_CHECKING:
    from vdev.executor.completion import Completion

#: what programs give as origins, regions and pitches: types of the sequence; and what is more than any of its components may be
_SEQUENCES, _TOO_MANY = (tuple, list), 1 << 64

#: of a copy: shape, bytes, and, of its source and its target, the bytes from its first to its last, and the pitches
_PlainBox: TypeAlias = tuple[
    tuple[int, int, int], int, tuple[int, int], tuple[tuple[int, int], tuple[int, int]]
]
#: what makes writes again
_WRITINGS = RepeatedWrite, RecalledWrite
#: numbers of bytes that a pattern may have (clEnqueueFillBuffer)
PATTERN_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


@waits
def _move_span(
    call: Call, queue: CommandQueue, mem: Any, hostbuf: Any, offset: Any, wait_for: WaitList, is_blocking: Any
) -> Event:
    """Move consecutive bytes of a buffer to or from all of the host memory."""
    memory = (
        _usual(call, queue, mem, hostbuf, offset) if is_blocking is True or is_blocking is False else None
    )
    if memory is not None:
        after = call.after(queue, wait_for) if wait_for else ()
        return _move_usual(call, queue, memory, hostbuf, offset, after, is_blocking)
    start = as_int(call.function, offset)
    call.check_blocking(is_blocking)
    if hostbuf is None:
        fail_type(call.function, hostbuf)
    host = as_bytes(hostbuf, writable=call.writes_host)
    (memory,) = call.memories(queue, mem)
    after = call.after(queue, wait_for)
    call.check_plain(memory)
    call.check_span(memory, start, host.size)
    call.check_host_use(memory)
    layout = Layout.contiguous(memory.offset + start, host.size) if host.size else None
    return call.move_host(queue, (memory, layout), host, hostbuf, after, is_blocking)


@waits
def _move_usual(
    call: Call,
    queue: CommandQueue,
    memory: Memory,
    hostbuf: Any,
    offset: int,
    after: Sequence[Completion],
    is_blocking: bool,
) -> Event:
    """The same for what `_usual` has found to need no further checks."""
    host = (hostbuf if hostbuf.ndim == 1 else hostbuf.reshape(-1)).view(np.uint8)
    span = Layout.contiguous(memory.offset + offset, host.size)
    return call.move_host(queue, (memory, span), host, hostbuf, after, is_blocking)


def _usual(
    call: Call, queue: Any, mem: Any, hostbuf: Any, offset: Any, nbytes: int | None = None
) -> Memory | None:
    """The memory object of an ordinary transfer, between a buffer, from `offset` on, and a plain array, that needs no further checks.
    None if each argument has to be looked at. `nbytes`: of the buffer, if not as many as the array has.
    """
    if not (
        type(queue) is CommandQueue
        and type(mem) is Buffer
        and type(hostbuf) is np.ndarray
        and type(offset) is int
    ):
        return None
    memory, flags = mem._vdev_state, hostbuf.flags
    if (
        memory.references > 0
        and memory.context is queue._vdev_state.context
        and flags.c_contiguous
        and (flags.writeable or not call.writes_host)
        and offset >= 0
        and 0 < (hostbuf.nbytes if nbytes is None else nbytes) <= memory.nbytes - offset
        and not memory.flags & call.refused
    ):
        return memory
    return None


@waits
def _enqueue_read_buffer(
    queue: CommandQueue,
    mem: MemoryObjectHolder,
    hostbuf: Any,
    src_offset: int = 0,
    wait_for: WaitList = None,
    is_blocking: bool = True,
) -> Event:
    if is_blocking is not True:
        if wait_for or is_blocking is not False:
            return _move_span(READ_BUFFER, queue, mem, hostbuf, src_offset, wait_for, is_blocking)
        return _read_later(queue, mem, hostbuf, src_offset)
    if not wait_for and type(hostbuf) is np.ndarray and type(mem) is Buffer and type(queue) is CommandQueue:
        memory, line = mem._vdev_state, queue._vdev_state
        offset, reading = memory.last_read
        if (
            reading is not None
            and src_offset == offset
            and hostbuf.nbytes == reading.nbytes
            and hostbuf.flags.carray  # contiguous and writeable
            and memory.references > 0
            and memory.context is line.context
            and type(src_offset) is int
            and not (line.is_finalized or (starts and is_shared(hostbuf)))
        ):
            clocked = Clocked(time.perf_counter_ns()) if line.is_profiling else None
            given = queue, memory.context, READ_BUFFER.kind, clocked or DONE, hostbuf
            done = line.session.moves.read_again(
                memory.buffer, reading, hostbuf, line.order, NannyEvent._vdev_of_taken, given, clocked
            )
            if done is not None:
                if isinstance(done, int):
                    READ_BUFFER.fail(done)
                return done
    return _read_anew(queue, mem, hostbuf, src_offset, wait_for)


def _read_later(queue: CommandQueue, mem: Any, hostbuf: Any, offset: Any) -> Event:
    """A read that waits for no events, and that the program does not wait for yet."""
    if type(hostbuf) is np.ndarray and type(mem) is Buffer and type(queue) is CommandQueue:
        memory, line = mem._vdev_state, queue._vdev_state
        (start, later), at_once = memory.last_later, line.session.at_once
        if (
            later is not None
            and at_once is not None
            and offset == start
            and hostbuf.nbytes == later.nbytes
            and hostbuf.flags.carray
            and memory.references > 0
            and memory.context is line.context
            and type(offset) is int
            and not (line.is_finalized or (starts and is_shared(hostbuf)))
        ):
            host = (hostbuf if hostbuf.ndim == 1 else hostbuf.reshape(-1)).view(np.uint8)
            part = at_once.read_later(memory.buffer, later, host, line.order)
            if part is not None:
                return NannyEvent._vdev_of_taken(queue, memory.context, READ_BUFFER.kind, part, hostbuf, True)
    return _read_later_anew(queue, mem, hostbuf, offset)


@waits
def _read_later_anew(queue: CommandQueue, mem: Any, hostbuf: Any, offset: Any) -> Event:
    """The same of one that is not made again as it was; the next one may be."""
    memory = _usual(READ_BUFFER, queue, mem, hostbuf, offset)
    if memory is None:
        return _move_span(READ_BUFFER, queue, mem, hostbuf, offset, None, False)
    buffer, start = memory.buffer, memory.offset + offset
    event = _move_usual(READ_BUFFER, queue, memory, hostbuf, offset, (), False)
    later = buffer.later
    if type(later) is LaterRead and (later.start, later.nbytes) == (start, hostbuf.nbytes):
        memory.last_later = offset, later
    return event


@waits
def _read_anew(queue: CommandQueue, mem: Any, hostbuf: Any, offset: Any, wait_for: WaitList) -> Event:
    """A blocking read that is not made again as it was; the next one may be."""
    memory = _usual(READ_BUFFER, queue, mem, hostbuf, offset)
    if memory is None:
        return _move_span(READ_BUFFER, queue, mem, hostbuf, offset, wait_for, True)
    after = READ_BUFFER.after(queue, wait_for) if wait_for else ()
    buffer, start = memory.buffer, memory.offset + offset
    event = _read_first(queue, memory, hostbuf, start, after)
    if event is None:
        event = _move_usual(READ_BUFFER, queue, memory, hostbuf, offset, after, True)
    reading = buffer.reading
    if reading is not None and (reading.start, reading.nbytes) == (start, hostbuf.nbytes):
        memory.last_read = offset, reading
    return event


@waits
def _read_first(
    queue: CommandQueue, memory: Memory, hostbuf: Any, start: int, after: Sequence[Completion]
) -> Event | None:
    """A blocking read of the buffer's bytes from `start` on that needs no plan (`Moves.read_first`); None if it has to go another way."""
    line = queue._vdev_state
    if line.is_finalized or (starts and is_shared(hostbuf)):
        return None
    clocked = Clocked(time.perf_counter_ns()) if line.is_profiling else None
    given = queue, line.context, READ_BUFFER.kind, clocked or DONE, hostbuf
    done = line.session.moves.read_first(
        memory.buffer, start, hostbuf, line.order, after, NannyEvent._vdev_of_taken, given, clocked
    )
    if done is not None and after and any(earlier.status < 0 for earlier in after):
        done = status.EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST
    if isinstance(done, int):
        READ_BUFFER.fail(done)
    return done


@waits
def _enqueue_write_buffer(
    queue: CommandQueue,
    mem: MemoryObjectHolder,
    hostbuf: Any,
    dst_offset: int = 0,
    wait_for: WaitList = None,
    is_blocking: bool = True,
) -> Event:
    if wait_for or not (is_blocking is True or is_blocking is False):
        return _move_span(WRITE_BUFFER, queue, mem, hostbuf, dst_offset, wait_for, is_blocking)
    if type(hostbuf) is np.ndarray and type(mem) is Buffer and type(queue) is CommandQueue:
        memory, line = mem._vdev_state, queue._vdev_state
        (offset, writing), at_once = memory.last_write, line.session.at_once
        if (
            writing is not None
            and at_once is not None
            and dst_offset == offset
            and hostbuf.nbytes == writing.nbytes
            and hostbuf.flags.c_contiguous
            and memory.references > 0
            and memory.context is line.context
            and type(dst_offset) is int
            and not (line.is_finalized or (starts and is_shared(hostbuf)))
        ):
            if is_blocking and writing.waits:
                line.session.moves.calm_to_write(memory.buffer, writing.nbytes, line.order)
            host = (hostbuf if hostbuf.ndim == 1 else hostbuf.reshape(-1)).view(np.uint8)
            part: Completion | None
            if isinstance(writing, RecalledWrite):
                part = line.session.moves.write_again(memory.buffer, writing, host, line.order)
            else:
                part = at_once.write_again(memory.buffer, writing, host, line.order)
            if part is not None:
                return NannyEvent._vdev_of_taken(queue, memory.context, WRITE_BUFFER.kind, part, hostbuf)
    return _write_anew(queue, mem, hostbuf, dst_offset, is_blocking)


@waits
def _write_anew(queue: CommandQueue, mem: Any, hostbuf: Any, offset: Any, is_blocking: bool) -> Event:
    """A write that waits for no events, which is not made again as it was; the next one may be."""
    memory = _usual(WRITE_BUFFER, queue, mem, hostbuf, offset)
    if memory is None:
        return _move_span(WRITE_BUFFER, queue, mem, hostbuf, offset, None, is_blocking)
    buffer, start = memory.buffer, memory.offset + offset
    line = queue._vdev_state
    at_once = line.session.at_once
    if at_once is not None and not (line.is_finalized or (starts and is_shared(hostbuf))):
        host = (hostbuf if hostbuf.ndim == 1 else hostbuf.reshape(-1)).view(np.uint8)
        part = at_once.write_first(buffer, start, host, line.order)
        if part is not None:
            return NannyEvent._vdev_of_taken(queue, memory.context, WRITE_BUFFER.kind, part, hostbuf)
    event = _move_usual(WRITE_BUFFER, queue, memory, hostbuf, offset, (), is_blocking)
    writing = buffer.writing
    if isinstance(writing, _WRITINGS) and (writing.start, writing.nbytes) == (start, hostbuf.nbytes):
        memory.last_write = offset, writing
    return event


def _copied_at_once(
    call: Call,
    queue: CommandQueue,
    memories: tuple[Any, Any],
    starts_at: tuple[int, int],
    box: _PlainBox,
) -> Event | None:
    """Enqueue a copy between two buffers that waits for no events, as one like it was made before; None if it has to go another way: then
    nothing has happened. `memories`: what the program takes for the states of two memory objects' wrappers. `starts_at`: where the box
    begins in each.
    """
    source, target = memories
    if type(source) is not Memory or type(target) is not Memory or type(queue) is not CommandQueue:
        return None
    line, (start, to) = queue._vdev_state, starts_at
    shape, nbytes, reaches, pitches = box
    at_once, context = line.session.at_once, line.context
    if (
        source.references <= 0
        or target.references <= 0
        or source.context is not context
        or target.context is not context
        or start + reaches[0] > source.nbytes
        or to + reaches[1] > target.nbytes
        or at_once is None
        or line.is_finalized
    ):
        return None
    try:
        buffer, other, start, to = source.buffer, target.buffer, start + source.offset, to + target.offset
    except AttributeError:  # another thread has just released it
        return None
    if buffer is other:  # they may overlap
        return None
    part = at_once.copy(buffer, other, (shape, start, pitches[0], to, pitches[1]), nbytes, line.order)
    return None if part is None else Event._vdev_of_command(queue, context, call.kind, part)


def _enqueue_copy_buffer(
    queue: CommandQueue,
    src: MemoryObjectHolder,
    dst: MemoryObjectHolder,
    byte_count: int = -1,
    src_offset: int = 0,
    dst_offset: int = 0,
    wait_for: WaitList = None,
) -> Event:
    call = COPY_BUFFER
    event = None if wait_for else _bytes_copied_at_once(queue, src, dst, byte_count, src_offset, dst_offset)
    if event is not None:
        return event
    nbytes = as_int(call.function, byte_count, -(2**63), 2**63 - 1)
    source_offset, target_offset = as_int(call.function, src_offset), as_int(call.function, dst_offset)
    source, target = call.memories(queue, src, dst)
    after = call.after(queue, wait_for)
    if nbytes < 0:
        nbytes = source.nbytes  # the native module takes the source's size, not the smaller one
    call.check_plain(source)
    call.check_span(source, source_offset, nbytes)
    call.check_span(target, target_offset, nbytes)
    source_start, target_start = source.offset + source_offset, target.offset + target_offset
    pitches = (nbytes, nbytes)
    command = CopyBuffer(
        source.buffer, target.buffer, (1, 1, nbytes), source_start, pitches, target_start, pitches
    )
    return submit_copy(call, queue, command if nbytes else None, after)


def _bytes_copied_at_once(
    queue: CommandQueue, src: Any, dst: Any, byte_count: Any, src_offset: Any, dst_offset: Any
) -> Event | None:
    """`_copied_at_once` of consecutive bytes."""
    if not (type(byte_count) is type(src_offset) is type(dst_offset) is int):
        return None
    try:
        memories = src._vdev_state, dst._vdev_state
        nbytes = byte_count if byte_count >= 0 else memories[0].nbytes
    except AttributeError:
        return None
    if src_offset < 0 or dst_offset < 0 or not nbytes:
        return None
    box = (1, 1, nbytes), nbytes, (nbytes, nbytes), ((nbytes, nbytes), (nbytes, nbytes))
    return _copied_at_once(COPY_BUFFER, queue, memories, (src_offset, dst_offset), box)


def submit_copy(call: Call, queue: CommandQueue, command: CopyBuffer | None, after: Sequence[Any]) -> Event:
    """Enqueue a copy between two boxes, or of nothing for None; MEM_COPY_OVERLAP if they are in one buffer and share
    a byte.
    """
    if command is not None and command.source is command.target and _overlap(command):
        call.fail(status.MEM_COPY_OVERLAP)
    return call.submit(queue, NOTHING if command is None else command, after)


def _overlap(command: CopyBuffer) -> bool:
    """Whether the two boxes of one buffer share a byte."""
    if command.shape[:2] == (1, 1):
        return abs(command.source_start - command.target_start) < command.shape[2]
    source = box_region(command.shape, command.source_start, command.source_pitches)
    target = box_region(command.shape, command.target_start, command.target_pitches)
    return bool(source.overlaps(target))


def _enqueue_fill_buffer(
    queue: CommandQueue,
    mem: MemoryObjectHolder,
    pattern: Any,
    offset: int,
    size: int,
    wait_for: WaitList = None,
) -> Event:
    call = FILL_BUFFER
    event = None if wait_for else _filled_at_once(queue, mem, pattern, offset, size)
    if event is not None:
        return event
    start, nbytes = as_int(call.function, offset), as_int(call.function, size)
    if pattern is None:
        fail_type(call.function, pattern)
    filling = value_bytes(pattern)
    (memory,) = call.memories(queue, mem)
    after = call.after(queue, wait_for)
    if len(filling) not in PATTERN_SIZES or start % len(filling) or nbytes % len(filling):
        call.fail(status.INVALID_VALUE)
    call.check_span(memory, start, nbytes)
    command = Fill(memory.buffer, memory.offset + start, nbytes, filling)
    return call.submit(queue, command if nbytes else NOTHING, after)


def _filled_at_once(queue: CommandQueue, mem: Any, pattern: Any, offset: Any, size: Any) -> Event | None:
    """`_copied_at_once` of a fill."""
    if type(queue) is not CommandQueue or not (type(offset) is type(size) is int):
        return None
    if not isinstance(pattern, np.generic):
        return None
    line, filling = queue._vdev_state, pattern.tobytes()
    at_once, count = line.session.at_once, len(filling)
    if at_once is None or line.is_finalized or count not in PATTERN_SIZES or offset % count or size % count:
        return None
    try:
        memory = mem._vdev_state
        if type(memory) is not Memory or memory.context is not line.context or memory.references <= 0:
            return None
        buffer = memory.buffer
    except AttributeError:  # another thread has just released it; or no memory object
        return None
    if not 0 <= offset < offset + size <= memory.nbytes:
        return None
    part = at_once.fill(buffer, (memory.offset + offset, size, filling), line.order)
    return None if part is None else Event._vdev_of_command(queue, line.context, FILL_BUFFER.kind, part)


def components(name: str, values: Any, default: tuple[int, ...]) -> tuple[int, ...]:
    """A tuple of sizes, filled up from the default (the native module's COPY_PY macros)."""
    try:
        count = len(values)
    except TypeError:
        fail_cast()
    if count > len(default):
        fail("transfer", status.INVALID_VALUE, f"{name}has too many components")
    if type(values) in _SEQUENCES:
        for value in values:
            if type(value) is not int or not 0 <= value < _TOO_MANY:
                break
        else:  # nearly always
            return (*values, *default[count:])
    return tuple(cast_int(value) for value in values) + default[count:]


def _box(
    call: Call, origin: tuple[int, ...], region: tuple[int, ...], pitches: tuple[int, ...]
) -> tuple[int, tuple[int, int], int]:
    """Start, (slice, row) pitches and end, in bytes, of a box (clEnqueueReadBufferRect's table)."""
    if 0 in region:
        call.fail(status.INVALID_VALUE)
    row = pitches[0] or region[0]
    plane = pitches[1] or region[1] * row
    if row < region[0] or plane < region[1] * row:
        call.fail(status.INVALID_VALUE)
    start = origin[2] * plane + origin[1] * row + origin[0]
    end = start + (region[2] - 1) * plane + (region[1] - 1) * row + region[0]
    return start, (plane, row), end


def _pitches(name: str, values: Any) -> tuple[int, ...]:
    return (0, 0) if values is None else components(name, values, (0, 0))


def _parts_of(
    buffer_origin: Any, host_origin: Any, region: Any, buffer_pitches: Any, host_pitches: Any
) -> tuple[tuple[int, ...], ...]:
    """What a program gives of a box, as numbers."""
    return (
        components("buffer_origin", buffer_origin, (0, 0, 0)),
        components("host_origin", host_origin, (0, 0, 0)),
        components("region", region, (1, 1, 1)),
        _pitches("buffer_pitches", buffer_pitches),
        _pitches("host_pitches", host_pitches),
    )


#: the same for what was given before; numbers of another type that equal the remembered ones pass as well
_known_parts = lru_cache(maxsize=1024)(_parts_of)


@lru_cache(maxsize=1024)
def _layout_of(
    call: Call,
    offset: int,
    buffer_origin: tuple[int, ...],
    host_origin: tuple[int, ...],
    region: tuple[int, ...],
    buffer_pitches: tuple[int, ...],
    host_pitches: tuple[int, ...],
) -> tuple[Layout, int, int]:
    """How a box lies in a buffer, from `offset` on, and in host memory, and where it ends in both, counted from there. The same object
    for the same numbers, as `Layout.contiguous`.
    """
    start, pitches, end = _box(call, buffer_origin, region, buffer_pitches)
    host_start, host_steps, host_end = _box(call, host_origin, region, host_pitches)
    shape = region[2], region[1], region[0]
    return Layout(shape, offset + start, pitches, host_start, host_steps), end, host_end


@lru_cache(maxsize=1024)
def _box_of(region: Any, source_pitches: Any, target_pitches: Any) -> _PlainBox:
    """What is copied, wherever it begins, where a program gives its region and pitches so; TypeError if the call has to look at them. The
    same object for the same numbers, also of other types, as `_known_parts`.
    """
    given = [(0, 0) if values is None else values for values in (source_pitches, target_pitches)]
    for values, most in ((region, 3), (given[0], 2), (given[1], 2)):
        if type(values) is not tuple or len(values) > most:
            raise TypeError
        if not all(type(value) is int and 0 <= value < _TOO_MANY for value in values):
            raise TypeError
    row, rows, slices = (*region, 1, 1, 1)[:3]
    reaches, pitches = [], []
    for each in given:
        pitch, plane = (*each, 0, 0)[:2]
        pitch = pitch or row
        plane = plane or rows * pitch
        if not row * rows * slices or pitch < row or plane < rows * pitch:
            raise TypeError
        reaches.append((slices - 1) * plane + (rows - 1) * pitch + row)
        pitches.append((plane, pitch))
    return (slices, rows, row), slices * rows * row, (reaches[0], reaches[1]), (pitches[0], pitches[1])


def _start_of(origin: Any, pitches: tuple[int, int]) -> int | None:
    """Where a box begins; None if the call has to look at what the program gives of it."""
    try:
        x, y, z = origin
    except (TypeError, ValueError):
        return None
    if type(x) is type(y) is type(z) is int and x >= 0 and y >= 0 and z >= 0:
        return x + y * pitches[1] + z * pitches[0]
    return None


def _usual_box(
    call: Call, queue: Any, mem: Any, hostbuf: Any, box: tuple[Any, Any, Any, Any, Any]
) -> tuple[Memory, Layout] | None:
    """What an ordinary transfer moves that needs no further checks, as `_usual`. None if each argument has to be looked at."""
    try:
        shape, _, reaches, pitches = _box_of(box[2], box[3], box[4])
    except TypeError:  # lists cannot be remembered
        return None
    start, host_start = _start_of(box[0], pitches[0]), _start_of(box[1], pitches[1])
    if start is None or host_start is None:
        return None
    memory = _usual(call, queue, mem, hostbuf, start, reaches[0])
    if memory is None or host_start + reaches[1] > hostbuf.nbytes:
        return None
    return memory, Layout(shape, memory.offset + start, pitches[0], host_start, pitches[1])


@waits
def _move_box(
    call: Call,
    queue: CommandQueue,
    mem: Any,
    hostbuf: Any,
    box: tuple[Any, Any, Any, Any, Any],
    wait_for: WaitList,
    is_blocking: Any,
) -> Event:
    """Move a box of a buffer to or from one of the host memory. `box`: the two origins, the region, and pitches."""
    usual = (
        _usual_box(call, queue, mem, hostbuf, box) if is_blocking is True or is_blocking is False else None
    )
    if usual is not None:
        after = call.after(queue, wait_for) if wait_for else ()
        host = (hostbuf if hostbuf.ndim == 1 else hostbuf.reshape(-1)).view(np.uint8)
        return call.move_host(queue, usual, host, hostbuf, after, is_blocking)
    call.check_queue(queue)
    call.check_blocking(is_blocking)
    after = call.after(queue, wait_for)
    if hostbuf is None or box[0] is None or box[1] is None or box[2] is None:
        fail_type(call.function, hostbuf, *box[:3])
    try:
        parts = _known_parts(*box)
    except TypeError:  # lists cannot be remembered
        parts = _parts_of(*box)
    host = as_bytes(hostbuf, writable=call.writes_host)
    (memory,) = call.memories(queue, mem)
    layout, end, host_end = _layout_of(call, memory.offset, *parts)
    if end > memory.nbytes or host_end > host.size:
        # a driver cannot check beyond the host memory, and would corrupt it
        call.fail(status.INVALID_VALUE)
    call.check_host_use(memory)
    return call.move_host(queue, (memory, layout), host, hostbuf, after, is_blocking)


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
    box = (buffer_origin, host_origin, region, buffer_pitches, host_pitches)
    return _move_box(READ_BUFFER_RECT, queue, mem, hostbuf, box, wait_for, is_blocking)


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
    box = (buffer_origin, host_origin, region, buffer_pitches, host_pitches)
    return _move_box(WRITE_BUFFER_RECT, queue, mem, hostbuf, box, wait_for, is_blocking)


def _copied_parts(
    region: Any, source_origin: Any, target_origin: Any, source_pitches: Any, target_pitches: Any
) -> tuple[tuple[int, ...], ...]:
    """What a program gives of two boxes, as numbers."""
    return (
        components("region", region, (1, 1, 1)),
        components("src_origin", source_origin, (0, 0, 0)),
        components("dst_origin", target_origin, (0, 0, 0)),
        _pitches("src_pitches", source_pitches),
        _pitches("dst_pitches", target_pitches),
    )


#: the same for what was given before, as `_known_parts`
_known_copied_parts = lru_cache(maxsize=1024)(_copied_parts)


@lru_cache(maxsize=1024)
def _boxes_of(
    call: Call,
    region: tuple[int, ...],
    source_origin: tuple[int, ...],
    target_origin: tuple[int, ...],
    source_pitches: tuple[int, ...],
    target_pitches: tuple[int, ...],
) -> tuple[tuple[int, tuple[int, int], int], tuple[int, tuple[int, int], int]]:
    """Both boxes, as `_box` gives them."""
    return _box(call, source_origin, region, source_pitches), _box(
        call, target_origin, region, target_pitches
    )


def _box_copied_at_once(
    queue: CommandQueue,
    src: Any,
    dst: Any,
    origins: tuple[Any, Any],
    region: Any,
    pitches: tuple[Any, Any],
) -> Event | None:
    """`_copied_at_once` of a box."""
    try:
        box, memories = _box_of(region, *pitches), (src._vdev_state, dst._vdev_state)
    except (TypeError, AttributeError):  # lists cannot be remembered
        return None
    start, to = _start_of(origins[0], box[3][0]), _start_of(origins[1], box[3][1])
    if start is None or to is None:
        return None
    return _copied_at_once(COPY_BUFFER_RECT, queue, memories, (start, to), box)


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
    call = COPY_BUFFER_RECT
    if not wait_for:
        pitches = src_pitches, dst_pitches
        event = _box_copied_at_once(queue, src, dst, (src_origin, dst_origin), region, pitches)
        if event is not None:
            return event
    call.check_queue(queue)
    if src_origin is None or dst_origin is None or region is None:
        fail_type(call.function, src_origin, dst_origin, region)
    after = call.after(queue, wait_for)
    given = region, src_origin, dst_origin, src_pitches, dst_pitches
    try:
        parts = _known_copied_parts(*given)
    except TypeError:  # lists cannot be remembered
        parts = _copied_parts(*given)
    source, target = call.memories(queue, src, dst)
    source_box, target_box = _boxes_of(call, *parts)
    source_start, source_pitches, source_end = source_box
    target_start, target_pitches, target_end = target_box
    if source_end > source.nbytes or target_end > target.nbytes:
        call.fail(status.INVALID_VALUE)
    command = CopyBuffer(
        source.buffer,
        target.buffer,
        parts[0][::-1],  # type: ignore[arg-type]
        source.offset + source_start,
        source_pitches,
        target.offset + target_start,
        target_pitches,
    )
    return submit_copy(call, queue, command, after)


def enqueue_migrate_mem_objects(
    queue: CommandQueue, mem_objects: Iterable[MemoryObject], flags: int = 0, wait_for: WaitList = None
) -> Event:
    """A hint about where memory will be needed (specification 5.5.4)."""
    call = MIGRATE
    call.check_queue(queue)
    bits = as_int(call.function, flags)
    if mem_objects is None:
        fail_type(call.function, mem_objects)
    after = call.after(queue, wait_for)
    objects = list(mem_objects)
    if not all(isinstance(item, MemoryObject) for item in objects):
        fail_cast()
    if not objects or bits & ~0b11:
        call.fail(status.INVALID_VALUE)
    memories = call.memories(queue, *objects)
    command = Migrate(tuple(memory.buffer for memory in memories), to_host=bool(bits & 1))
    return call.submit(queue, command, after)


def enqueue_copy_buffer_p2p_amd(
    platform: Any,
    queue: CommandQueue,
    src: MemoryObjectHolder,
    dst: MemoryObjectHolder,
    byte_count: int | None = None,
    wait_for: WaitList = None,
) -> Event:
    """A vendor's extension that the device does not have."""
    COPY_P2P.memories(queue, src, dst)
    fail(
        "clGetExtensionFunctionAddressForPlatform",
        status.INVALID_VALUE,
        "clEnqueueCopyBufferP2PAMD is not available",
    )
