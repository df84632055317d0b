"""Mapping buffers into host memory (specification 5.4.2).

A mapping is a view of the buffer's home: two mappings, or a mapping and the program's own USE_HOST_PTR memory, are
the same memory, as natively. What must move first is decided by the layers below.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from math import prod
from typing import Any, TypeAlias

import numpy as np

from vdev.executor.completion import DONE, Completion, call_soon
from vdev.facade.calls import MAP_BUFFER, NOTHING, UNMAP, Call, WaitList, map_of
from vdev.facade.errors import as_int, cast_int, fail, fail_type, native, status
from vdev.facade.event import Event, make_event, warn_cleanup
from vdev.facade.handles import state_of
from vdev.facade.hostbuf import array_interface, contiguous_strides, export_array
from vdev.facade.memory import Buffer, Memory, MemoryObjectHolder, parse_order, parse_shape
from vdev.facade.queue import CommandQueue
from vdev.process.finalisers import may_wait
from vdev.process.interrupts import waits
from vdev.session.commands import Map, Unmap

#: of one memory object, mappings that are known
_MOST_KNOWN = 16
#: what a program asks for: flags, offset, shape, type, order
_Wanted: TypeAlias = tuple[int, int, Any, Any, Any]


class MemoryMap:
    """A mapping, the `.base` of the array that the program works with. It ends when it is released or dropped."""

    _valid = False

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("pyopencl._cl.MemoryMap: no constructor defined!")

    def __init__(self, queue: CommandQueue, memory: Memory, command: Map) -> None:
        self._queue = queue
        self._memory = memory
        self._command = command
        memory.map_count += 1
        memory.retain()
        self._valid = True

    def release(self, queue: CommandQueue | None = None, wait_for: WaitList = None) -> Event:
        if queue is None:
            queue = self._queue
        if type(queue) is not CommandQueue:
            UNMAP.check_queue(queue)
        after = () if wait_for is None else UNMAP.after(queue, wait_for)
        if not self._valid:
            UNMAP.fail(status.INVALID_VALUE)
        memory, mapping, line = self._memory, self._command, state_of(queue)
        if memory.context is not line.context:
            UNMAP.fail(status.INVALID_CONTEXT)
        self._valid = False
        memory.map_count -= 1
        completion: Completion = DONE
        if after or line.is_finalized or not line.session.unmap_at_once(mapping, line.order):
            completion = line.submit(Unmap(mapping) if mapping.nbytes else NOTHING, after)
        memory.release()
        return Event._vdev_of_command(queue, line.context, UNMAP.kind, completion)

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        # at the interpreter's end nobody runs commands any longer
        if not self._valid or is_ending() or state_of(state_of(self._queue).context).is_lost:
            return
        if may_wait():
            self._end()
        else:
            call_soon(self._end)

    def _end(self) -> None:
        try:
            self.release()
        except native.Error as error:
            warn_cleanup(UNMAP.routine, error.args[0].code())


@waits
def map_home(
    call: Call,
    queue: CommandQueue,
    memory: Memory,
    command: Map,
    array: tuple[tuple[int, ...], np.dtype[Any], tuple[int, ...]],
    after: Sequence[Any],
    is_blocking: bool,
) -> tuple[Any, Event]:
    """Map what `command` says: the array with that shape, type and strides over the object's home, beginning at the
    mapping's first byte; and the mapping's event.
    """
    event = map_bytes(call, queue, command, after, is_blocking)
    mapping: MemoryMap = object.__new__(MemoryMap)
    MemoryMap.__init__(mapping, queue, memory, command)
    home = memory.buffer.home()[command.offset : memory.offset + memory.nbytes]
    return export_array(mapping, array_interface(home, *array)), event


@waits
def map_bytes(
    call: Call, queue: CommandQueue, command: Map, after: Sequence[Any], is_blocking: bool
) -> Event:
    """Have the bytes of a mapping brought home; the mapping's event."""
    event = _mapped_at_once(call, queue, command, after) if is_blocking and command.nbytes else None
    if event is None:
        if is_blocking and not after:
            state_of(queue).session.moves.calm(command.buffer, command.nbytes)
        event = call.submit_and_wait(queue, command if command.nbytes else NOTHING, after, is_blocking)
    return event


@waits
def _mapped_at_once(call: Call, queue: CommandQueue, command: Map, after: Sequence[Any]) -> Event | None:
    """The event of a blocking mapping that was not submitted; None if it has to be."""
    code = state_of(queue).map_at_once(command, after)
    if code is None:
        return None
    if code < 0:
        call.fail(code)
    return make_event(queue, call.kind, DONE)


@waits
def enqueue_map_buffer(
    queue: CommandQueue,
    buf: MemoryObjectHolder,
    flags: int,
    offset: int,
    shape: Any,
    dtype: Any,
    order: str = "C",
    strides: Any = None,
    wait_for: WaitList = None,
    is_blocking: bool = True,
) -> tuple[Any, Event]:
    """An array over the buffer's bytes from `offset` on, and the mapping's event."""
    call = MAP_BUFFER
    usual: _Wanted | None = None
    if is_blocking is True and strides is None and type(flags) is int and type(offset) is int:
        usual = flags, offset, shape, dtype, order
        found = None if wait_for is not None else _mapped_again(queue, buf, usual)
        if found is not None:
            return found
    bits, start = as_int(call.function, flags), as_int(call.function, offset)
    call.check_blocking(is_blocking)
    if shape is None or order is None:
        fail_type(call.function, shape, order)
    (memory,) = call.memories(queue, buf)
    after = call.after(queue, wait_for)
    try:
        dims, kind, steps, nbytes = _known_array(shape, dtype, order)
    except TypeError:  # lists cannot be remembered
        dims, kind, steps, nbytes = _array_of(shape, dtype, order)
    call.check_span(memory, start, nbytes)
    call.check_map_use(memory, bits)
    reached = nbytes
    if strides is not None:
        steps = tuple(cast_int(step, -(2**63), 2**63 - 1) for step in strides)
        _check_strides(dims, steps, kind.itemsize, memory.nbytes - start)
        # PyOpenCL asks for as many bytes as the array has; with larger strides, its elements are beyond them
        reached = max(nbytes, _reach(dims, steps, kind.itemsize))
    command = map_of(memory.buffer, memory.offset + start, reached, bits, keeps=reached > nbytes)
    if usual is not None and reached:
        _remember(memory, usual, command, (dims, kind, steps))
    return map_home(call, queue, memory, command, (dims, kind, steps), after, is_blocking)


@waits
def _mapped_again(queue: Any, buf: Any, wanted: _Wanted) -> tuple[Any, Event] | None:
    """A blocking mapping that waits for no events, where the program has asked for the same before; None if each argument has to be
    looked at.
    """
    if type(buf) is not Buffer or type(queue) is not CommandQueue:
        return None
    call, memory, line = MAP_BUFFER, buf._vdev_state, queue._vdev_state
    if memory is None or memory.references <= 0 or memory.context is not line.context or line.is_finalized:
        return None
    try:
        known = memory.mappings.get(wanted)
    except TypeError:  # lists cannot be remembered
        return None
    if known is None:
        return None
    start, nbytes, reads, writes, interface = known
    command = Map(memory.buffer, start, nbytes, reads, writes)
    code = line.session.map_at_once(command, line.order)
    if code is None:
        line.session.moves.calm(memory.buffer, nbytes)
        event = call.submit_and_wait(queue, command, (), True)
    else:
        if code < 0:
            call.fail(code)
        event = Event._vdev_of_command(queue, memory.context, call.kind, DONE)
    mapping: MemoryMap = object.__new__(MemoryMap)
    MemoryMap.__init__(mapping, queue, memory, command)
    return export_array(mapping, interface), event


def _remember(
    memory: Memory,
    wanted: _Wanted,
    command: Map,
    array: tuple[tuple[int, ...], np.dtype[Any], tuple[int, ...]],
) -> None:
    """Keep what a mapping that the program asks for was found to be, as it may ask for it again."""
    if not memory.mappings or len(memory.mappings) >= _MOST_KNOWN:
        memory.mappings = {}
    interface = array_interface(memory.buffer.home()[command.offset :], *array)
    known = command.offset, command.nbytes, command.read, command.write, interface
    with suppress(TypeError):  # as above
        memory.mappings[wanted] = known


def _array_of(
    shape: Any, dtype: Any, order: Any
) -> tuple[tuple[int, ...], np.dtype[Any], tuple[int, ...], int]:
    """Shape, type, strides and bytes of a contiguous array that a program asks for."""
    kind, dims = np.dtype(dtype), parse_shape(shape)
    steps = contiguous_strides(dims, kind.itemsize, parse_order(order))
    return dims, kind, steps, kind.itemsize * prod(dims)


#: the same for what was asked for before; numbers of another type that equal the remembered ones pass as well
_known_array = lru_cache(maxsize=256)(_array_of)


def _reach(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> int:
    """How many bytes there are from an array's first element to the end of the last one.

    >>> _reach((3, 2), (32, 8), 4), _reach((3, 0), (32, 8), 4)
    (76, 0)
    """
    if 0 in shape:
        return 0
    return sum((size - 1) * step for size, step in zip(shape, strides, strict=True) if step > 0) + itemsize


def _check_strides(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int, nbytes: int) -> None:
    """Check that an array with the program's strides stays inside the buffer."""
    if len(strides) != len(shape):
        raise ValueError("strides, if given, must be the same length as shape")
    if 0 not in shape and (any(step < 0 for step in strides) or _reach(shape, strides, itemsize) > nbytes):
        fail(
            "enqueue_map_buffer",
            status.INVALID_VALUE,
            "miscalculated numpy array size (not contiguous?)",
        )
