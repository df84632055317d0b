"""Mapping buffers into host memory (specification 5.4.2).

A mapping is a view of the buffer's home: two mappings, or a mapping and the program's own USE_HOST_PTR
memory, are one memory, as natively. What must move first is decided below.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from vdev.executor import call_soon
from vdev.facade.errors import as_int, cast_int, check_type, fail, fail_type, native, status
from vdev.facade.event import Event, make_event, parse_wait_list, warn_cleanup
from vdev.facade.hostbuf import array_interface, contiguous_strides, export_array
from vdev.facade.memory import (
    HOST_NO_ACCESS,
    HOST_READ_ONLY,
    HOST_WRITE_ONLY,
    Memory,
    MemoryObjectHolder,
    parse_order,
    parse_shape,
)
from vdev.facade.queue import CommandQueue
from vdev.facade.transfers import WaitList, check_command, wait_blocking
from vdev.process.finalisers import may_wait
from vdev.process.interrupts import waits
from vdev.session.commands import Map, Marker, Unmap

_READ, _WRITE, _WRITE_INVALIDATE = (
    native.map_flags.READ,
    native.map_flags.WRITE,
    native.map_flags.WRITE_INVALIDATE_REGION,
)
_type = native.command_type


class MemoryMap:
    """A mapping, the `.base` of the array that the program works with. Ends when released or dropped."""

    _valid = False

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("pyopencl._cl.MemoryMap: no constructor defined!")

    def release(self, queue: CommandQueue | None = None, wait_for: WaitList = None) -> Event:
        routine = "clEnqueueUnmapMemObject"
        if queue is None:
            queue = self._queue
        check_type("release", queue, CommandQueue)
        after = parse_wait_list(wait_for, queue._context, routine)
        if not self._valid:
            fail(routine, status.INVALID_VALUE)
        if self._memory.context is not queue._context:
            fail(routine, status.INVALID_CONTEXT)
        self._valid = False
        self._memory.map_count -= 1
        command = Unmap(self._command) if self._command.nbytes else Marker()
        completion = queue._submit(command, after)
        self._memory.release()
        return make_event(queue, _type.UNMAP_MEM_OBJECT, completion)

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        # at the interpreter's end nobody runs commands any longer
        if not self._valid or is_ending() or self._queue._context._is_lost:
            return
        if may_wait():
            self._end()
        else:
            call_soon(self._end)

    def _end(self) -> None:
        try:
            self.release()
        except native.Error as error:
            warn_cleanup("clEnqueueUnmapMemObject", error.args[0].code())

    _queue: CommandQueue
    _memory: Memory
    _command: Map


def make_map(queue: CommandQueue, memory: Memory, command: Map) -> MemoryMap:
    mapping: MemoryMap = object.__new__(MemoryMap)
    mapping._queue = queue
    mapping._memory = memory
    mapping._command = command
    mapping._valid = True
    memory.map_count += 1
    memory.retain()
    return mapping


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
    """An array over `offset` bytes and on of the buffer, and the mapping's event."""
    function, routine = "enqueue_map_buffer", "clEnqueueMapBuffer"
    bits, start = as_int(function, flags), as_int(function, offset)
    if is_blocking is not True and is_blocking is not False:
        fail_type(function, is_blocking)
    if shape is None or order is None:
        fail_type(function, shape, order)
    (memory,) = check_command(function, routine, queue, buf)
    after = parse_wait_list(wait_for, queue._context, routine)
    kind = np.dtype(dtype)
    dims = parse_shape(shape)
    c_or_f = parse_order(order)
    nbytes = kind.itemsize * int(np.prod(dims, dtype=object))
    _check_map(routine, memory, bits, start, nbytes)
    if strides is None:
        steps = contiguous_strides(dims, kind.itemsize, c_or_f)
    else:
        steps = tuple(cast_int(step, -(2**63), 2**63 - 1) for step in strides)
        _check_strides(dims, steps, kind.itemsize, memory.nbytes - start)
    home = memory.buffer.home()[memory.offset + start : memory.offset + memory.nbytes]
    command = Map(
        memory.buffer,
        memory.offset + start,
        nbytes,
        read=bits & (_READ | _WRITE_INVALIDATE) != _WRITE_INVALIDATE,
        write=bool(bits & (_WRITE | _WRITE_INVALIDATE)),
    )
    completion = queue._submit(command if nbytes else Marker(), after)
    event = make_event(queue, _type.MAP_BUFFER, completion)
    if is_blocking:
        wait_blocking(event, after, routine)
    mapping = make_map(queue, memory, command)
    return export_array(mapping, array_interface(home, dims, kind, steps)), event


def _check_map(routine: str, memory: Memory, flags: int, start: int, nbytes: int) -> None:
    if start + nbytes > memory.nbytes:
        fail(routine, status.INVALID_VALUE)
    check_map_access(routine, memory, flags)


def check_map_access(routine: str, memory: Memory, flags: int) -> None:
    """INVALID_VALUE where the host may not read, or not write, what it maps for that."""
    reads, writes = flags & _READ, flags & (_WRITE | _WRITE_INVALIDATE)
    if reads and memory.flags & (HOST_WRITE_ONLY | HOST_NO_ACCESS):
        fail(routine, status.INVALID_VALUE)
    if writes and memory.flags & (HOST_READ_ONLY | HOST_NO_ACCESS):
        fail(routine, status.INVALID_VALUE)


def _check_strides(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int, nbytes: int) -> None:
    """An array with the program's strides must stay inside the buffer."""
    if len(strides) != len(shape):
        raise ValueError("strides, if given, must be the same length as shape")
    if 0 in shape:
        return
    reach = sum((size - 1) * step for size, step in zip(shape, strides, strict=True) if step > 0)
    if any(step < 0 for step in strides) or reach + itemsize > nbytes:
        fail(
            "enqueue_map_buffer",
            status.INVALID_VALUE,
            "miscalculated numpy array size (not contiguous?)",
        )
