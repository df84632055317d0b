"""Buffers of C programs: creation, transfers, maps, markers and barriers (specification 5.2, 5.4, 5.5, 5.12)."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from vdev.facade import sync, transfers
from vdev.facade.calls import MAP_BUFFER, NOTHING, UNMAP, Call, map_of
from vdev.facade.context import Context
from vdev.facade.errors import fail, native, status
from vdev.facade.event import Event, NannyEvent
from vdev.facade.handles import state_of
from vdev.facade.maps import map_bytes
from vdev.facade.memory import (
    BUFFER_TYPE,
    COPY_HOST_PTR,
    USE_HOST_PTR,
    Memory,
    check_buffer,
    create_memory,
)
from vdev.facade.queue import CommandQueue
from vdev.facade.svm_memory import find
from vdev.icd import host, ready
from vdev.icd.callbacks import wait_for_calls
from vdev.icd.host import INVALID_PROPERTY
from vdev.icd.views import unwrap, view
from vdev.session.commands import Map, Unmap

Waits = tuple[Event, ...] | None

_HOST = USE_HOST_PTR | COPY_HOST_PTR
_MAP_FLAGS = native.map_flags.READ | native.map_flags.WRITE | native.map_flags.WRITE_INVALIDATE_REGION
_REGION = 0x1220  # CL_BUFFER_CREATE_TYPE_REGION
#: by memory object and address: the mapping there
_maps: WeakKeyDictionary[Memory, dict[int, list[Map]]] = WeakKeyDictionary()


def clCreateBuffer(context: Context, flags: int, nbytes: int, address: int) -> Memory:
    check_buffer(context, flags, nbytes, address != 0)
    shared = find(address) if address and flags & USE_HOST_PTR else None
    if shared is not None and address + nbytes > shared.start + shared.nbytes:
        fail("clCreateBuffer", status.INVALID_BUFFER_SIZE)
    content = host.memory(address, nbytes) if address else None
    executor = state_of(context).session.executor
    standing = executor.standing
    memory = create_memory(context, flags, nbytes, content, content)
    if executor.standing is standing:  # nothing was brought there, and nothing else had to make room
        host.keep_ready()
    return memory


def clCreateBufferWithProperties(
    context: Context, properties: int, flags: int, nbytes: int, address: int
) -> Memory:
    check_no_properties("clCreateBufferWithProperties", properties)
    return remember_properties(clCreateBuffer(context, flags, nbytes, address), properties)


def check_no_properties(routine: str, properties: int) -> None:
    """Refuse properties: memory objects have none that a program could ask for."""
    if host.pairs(properties):
        fail(routine, INVALID_PROPERTY)


def remember_properties(memory: Memory, properties: int) -> Memory:
    """The memory object; queries return the empty list that the program gave, or none (CL_MEM_PROPERTIES)."""
    host.given[memory] = host.packed([0]) if properties else b""
    return memory


def clCreateSubBuffer(memory: Memory, flags: int, kind: int, about: int) -> Memory:
    if memory.type != BUFFER_TYPE:
        fail("clCreateSubBuffer", status.INVALID_MEM_OBJECT)
    if kind != _REGION or not about:
        fail("clCreateSubBuffer", status.INVALID_VALUE)
    origin, nbytes = host.sizes(about, 2)
    return unwrap(view(memory).get_sub_region(origin, nbytes, flags))


def clSetMemObjectDestructorCallback(memory: Memory, function: int, user_data: int) -> None:
    if not function:
        fail("clSetMemObjectDestructorCallback", status.INVALID_VALUE)
    address = host.address_of(memory, host.MEM)
    memory.at_end = (*memory.at_end, lambda: host.call_back(function, address, user_data))


# transfers --------------------------------------------------------------------------------------


def done(event: Event, queue: CommandQueue, blocking: int) -> Event:
    """The event of a transfer whose host memory the program keeps, as C programs do: nobody waits for it when it is
    released.
    """
    if isinstance(event, NannyEvent):
        event._vdev_disown()
    if blocking:
        wait_for_calls(queue)
    return ready.looked_at(event)


def content(routine: str, address: int, nbytes: int) -> Any:
    """The program's memory; INVALID_VALUE for NULL."""
    if not address:
        fail(routine, status.INVALID_VALUE)
    return host.memory(address, nbytes)


def clEnqueueReadBuffer(
    queue: CommandQueue, mem: Memory, blocking: int, offset: int, nbytes: int, address: int, waits: Waits
) -> Event:
    _check_span(mem, offset, nbytes, "clEnqueueReadBuffer")
    memory = content("clEnqueueReadBuffer", address, nbytes)
    event = done(
        transfers._enqueue_read_buffer(queue, view(mem), memory, offset, waits, bool(blocking)),
        queue,
        blocking,
    )
    if blocking and mem.buffer.resident is not None:  # it is over, and the buffer is where it was
        host.keep_ready()
        ready.waited(queue)
    return event


def clEnqueueWriteBuffer(
    queue: CommandQueue, mem: Memory, blocking: int, offset: int, nbytes: int, address: int, waits: Waits
) -> Event:
    _check_span(mem, offset, nbytes, "clEnqueueWriteBuffer")
    memory = content("clEnqueueWriteBuffer", address, nbytes)
    event = transfers._enqueue_write_buffer(queue, view(mem), memory, offset, waits, bool(blocking))
    return done(event, queue, blocking)


def _check_span(memory: Memory, offset: int, nbytes: int, routine: str) -> None:
    """Checked before memory of that size is looked at."""
    if offset + nbytes > memory.nbytes:
        fail(routine, status.INVALID_VALUE)


def clEnqueueCopyBuffer(
    queue: CommandQueue, source: Memory, target: Memory, start: int, other: int, nbytes: int, waits: Waits
) -> Event:
    return ready.looked_at(
        transfers._enqueue_copy_buffer(queue, view(source), view(target), nbytes, start, other, waits)
    )


def _box(routine: str, *addresses: int) -> tuple[tuple[int, ...], ...]:
    if not all(addresses):
        fail(routine, status.INVALID_VALUE)
    return tuple(host.sizes(address, 3) for address in addresses)


def _reach(origin: tuple[int, ...], region: tuple[int, ...], row: int, plane: int) -> int:
    """Bytes of host memory up to a box's end; 0 for a box that will be refused later."""
    row = row or region[0]
    plane = plane or row * region[1]
    if 0 in region:
        return 0
    start = origin[2] * plane + origin[1] * row + origin[0]
    return start + (region[2] - 1) * plane + (region[1] - 1) * row + region[0]


def _move_box(
    function: Any, routine: str, queue: CommandQueue, mem: Memory, blocking: int, box: tuple[int, ...],
    waits: Waits,
) -> Event:  # fmt: skip
    """`box`: addresses of two origins and a region, the pitches of the buffer and of the host, and the host's
    address.
    """
    origin, other, region = _box(routine, *box[:3])
    row, plane, host_row, host_plane, address = box[3:]
    reach = _reach(other, region, host_row, host_plane)
    if _reach(origin, region, row, plane) > mem.nbytes:
        fail(routine, status.INVALID_VALUE)
    memory = content(routine, address, reach)
    pitches, host_pitches = (row, plane), (host_row, host_plane)
    event = function(
        queue, view(mem), memory, origin, other, region, pitches, host_pitches, waits, bool(blocking)
    )
    return done(event, queue, blocking)


def clEnqueueReadBufferRect(queue: CommandQueue, mem: Memory, blocking: int, *rest: Any) -> Event:
    function = transfers._enqueue_read_buffer_rect
    return _move_box(function, "clEnqueueReadBufferRect", queue, mem, blocking, rest[:-1], rest[-1])


def clEnqueueWriteBufferRect(queue: CommandQueue, mem: Memory, blocking: int, *rest: Any) -> Event:
    function = transfers._enqueue_write_buffer_rect
    return _move_box(function, "clEnqueueWriteBufferRect", queue, mem, blocking, rest[:-1], rest[-1])


def clEnqueueCopyBufferRect(queue: CommandQueue, source: Memory, target: Memory, *rest: Any) -> Event:
    start, other, region = _box("clEnqueueCopyBufferRect", *rest[:3])
    pitches, other_pitches, waits = rest[3:5], rest[5:7], rest[7]
    return transfers._enqueue_copy_buffer_rect(
        queue, view(source), view(target), start, other, region, pitches, other_pitches, waits
    )


def clEnqueueFillBuffer(
    queue: CommandQueue, mem: Memory, pattern: int, size: int, offset: int, nbytes: int, waits: Waits
) -> Event:
    if not pattern or size not in transfers.PATTERN_SIZES:
        fail("clEnqueueFillBuffer", status.INVALID_VALUE)
    return ready.looked_at(
        transfers._enqueue_fill_buffer(queue, view(mem), host.block(pattern, size), offset, nbytes, waits)
    )


def clEnqueueMigrateMemObjects(
    queue: CommandQueue, count: int, objects: int, flags: int, waits: Waits
) -> Event:
    routine = "clEnqueueMigrateMemObjects"
    if not count or not objects:
        fail(routine, status.INVALID_VALUE)
    memories = host.items(host.MEM, objects, count, status.INVALID_MEM_OBJECT, routine)
    return transfers.enqueue_migrate_mem_objects(queue, [view(memory) for memory in memories], flags, waits)


# maps -------------------------------------------------------------------------------------------


def map_memory(
    call: Call, queue: CommandQueue, memory: Memory, command: Map, waits: Any, blocking: int
) -> tuple[int, Event]:
    """Map what `command` says: the address of its first byte, and the event."""
    event = map_bytes(call, queue, command, waits, bool(blocking))
    if blocking:
        wait_for_calls(queue)
    address = memory.buffer.home().ctypes.data + command.offset
    memory.retain()
    memory.map_count += 1
    _maps.setdefault(memory, {}).setdefault(address, []).append(command)
    return address, event


def check_map_flags(call: Call, memory: Memory, flags: int) -> None:
    """INVALID_VALUE for flags that do not exist or do not go together, INVALID_OPERATION for what the host must not
    do.
    """
    invalidates = flags & native.map_flags.WRITE_INVALIDATE_REGION
    if flags & ~_MAP_FLAGS or (invalidates and flags & ~invalidates):
        call.fail(status.INVALID_VALUE)
    try:
        call.check_map_use(memory, flags)
    except native.Error:
        call.fail(status.INVALID_OPERATION)


def clEnqueueMapBuffer(
    queue: CommandQueue, mem: Memory, blocking: int, flags: int, offset: int, nbytes: int, waits: Waits
) -> tuple[int, Event]:
    call = MAP_BUFFER
    (memory,) = call.memories(queue, view(mem))
    after = call.after(queue, waits)
    call.check_plain(memory)
    call.check_span(memory, offset, nbytes)
    if not nbytes:
        call.fail(status.INVALID_VALUE)
    check_map_flags(call, memory, flags)
    command = map_of(memory.buffer, memory.offset + offset, nbytes, flags)
    return map_memory(call, queue, memory, command, after, blocking)


def clEnqueueUnmapMemObject(queue: CommandQueue, mem: Memory, address: int, waits: Waits) -> Event:
    (memory,) = UNMAP.memories(queue, view(mem))
    after = UNMAP.after(queue, waits)
    mapped = _maps.get(memory, {}).get(address)
    if not mapped:
        UNMAP.fail(status.INVALID_VALUE)
    command = mapped.pop()
    memory.map_count -= 1
    event = UNMAP.submit(queue, Unmap(command) if command.nbytes else NOTHING, after)
    memory.release()
    return event


# order ------------------------------------------------------------------------------------------


def clEnqueueMarkerWithWaitList(queue: CommandQueue, waits: Waits) -> Event:
    return ready.looked_at(sync._enqueue_marker_with_wait_list(queue, waits))


def clEnqueueBarrierWithWaitList(queue: CommandQueue, waits: Waits) -> Event:
    return ready.looked_at(sync._enqueue_barrier_with_wait_list(queue, waits))


def clEnqueueMarker(queue: CommandQueue) -> Event:
    return ready.looked_at(sync._enqueue_marker(queue))


def clEnqueueBarrier(queue: CommandQueue) -> None:
    ready.looked_at(sync._enqueue_barrier_with_wait_list(queue))


def clEnqueueWaitForEvents(queue: CommandQueue, count: int, events: int) -> None:
    routine = "clEnqueueWaitForEvents"
    if not count or not events:
        fail(routine, status.INVALID_VALUE)
    found = host.items(host.EVENT, events, count, status.INVALID_EVENT, routine)
    context = state_of(queue).context
    if any(event.get_info(native.event_info.CONTEXT) is not context for event in found):
        fail(routine, status.INVALID_CONTEXT)
    sync._enqueue_wait_for_events(queue, found)
