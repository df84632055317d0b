"""The calls that enqueue commands: one table of their names and of what they refuse, and the steps that all of them
share.

Every call goes through the same steps, whatever it moves: its arguments are converted; its queue, memory objects and
wait list are checked; a command is made, submitted and, if the call is blocking, waited for. Only the arguments and
the command differ; the modules with the functions make those. The order in which the arguments of a call are checked
decides which error a program gets, so each function states it itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from vdev.executor.completion import DONE
from vdev.executor.stretch import Clocked
from vdev.facade.errors import check_type, fail, fail_type, native, status
from vdev.facade.event import Event, NannyEvent, Ward, make_event, make_nanny_event, parse_wait_list
from vdev.facade.handles import state_of
from vdev.facade.memory import (
    BUFFER_TYPE,
    HOST_NO_ACCESS,
    HOST_READ_ONLY,
    HOST_WRITE_ONLY,
    Buffer,
    Memory,
    MemoryObjectHolder,
    live_memory,
)
from vdev.facade.queue import CommandQueue
from vdev.facade.svm_host import submit_with_host
from vdev.process.interrupts import waits
from vdev.session.commands import Command, Map, Marker, Read, Write
from vdev.translators.values import dataclass

if TYPE_CHECKING:
    from vdev.facade.hostbuf import Bytes
    from vdev.session.session import Completion
    from vdev.translators.ranges.rectangles import Layout

WaitList = Iterable[Event] | None

#: a transfer of no bytes: completes in order, touches nothing
NOTHING = Marker()

_type, _flags = native.command_type, native.map_flags
_WRITING = _flags.WRITE | _flags.WRITE_INVALIDATE_REGION
_NO_READING, _NO_WRITING = HOST_WRITE_ONLY | HOST_NO_ACCESS, HOST_READ_ONLY | HOST_NO_ACCESS


@dataclass(frozen=True, slots=True)
class Call:
    """A row of the table, and the steps that calls share."""

    function: str  #: its name in the native module, for errors of types
    routine: str  #: its name in OpenCL, for errors of values
    kind: int  #: CL_COMMAND_ of its event
    writes_host: bool = False  #: of transfers with host memory: whether the bytes go there
    refused: int = 0  #: flags of memory objects with which the host must not use them so

    def fail(self, code: int, text: str = "") -> NoReturn:
        """Raise the error of this call with status `code`."""
        fail(self.routine, code, text)

    def check_queue(self, queue: Any) -> None:
        """TypeError unless `queue` is a command queue."""
        check_type(self.function, queue, CommandQueue)

    def check_blocking(self, is_blocking: Any) -> None:
        """TypeError unless it is True or False."""
        if is_blocking is not True and is_blocking is not False:
            fail_type(self.function, is_blocking)

    def memories(self, queue: Any, *holders: Any) -> list[Memory]:
        """The memory objects, live and of the queue's context."""
        if type(queue) is not CommandQueue:
            self.check_queue(queue)
        for holder in holders:
            if type(holder) is not Buffer:
                check_type(self.function, holder, MemoryObjectHolder)
        live: list[Memory] = []
        for holder in holders:
            memory = holder._vdev_state
            if memory is None or memory.references <= 0:
                live_memory(holder, self.routine)  # it raises the error
            live.append(memory)
        context = queue._vdev_state.context
        for memory in live:
            if memory.context is not context:
                self.fail(status.INVALID_CONTEXT)
        return live

    def after(self, queue: CommandQueue, wait_for: WaitList) -> Sequence[Completion]:
        """What the command waits for."""
        if wait_for is None:
            return ()
        return parse_wait_list(wait_for, state_of(queue).context, self.routine)

    def check_plain(self, memory: Memory) -> None:
        """INVALID_VALUE for images: drivers let them be filled and copied to like buffers, but not read, written or
        copied from.
        """
        if memory.type != BUFFER_TYPE:
            self.fail(status.INVALID_VALUE)

    def check_span(self, memory: Memory, offset: int, nbytes: int) -> None:
        """INVALID_VALUE unless the object has `nbytes` bytes from `offset` on."""
        if offset + nbytes > memory.nbytes:
            self.fail(status.INVALID_VALUE)

    def check_host_use(self, memory: Memory) -> None:
        """INVALID_OPERATION if the host must not read, or not write, the object."""
        if memory.flags & self.refused:
            self.fail(status.INVALID_OPERATION)

    def submit(self, queue: CommandQueue, command: Command, after: Sequence[Completion]) -> Event:
        """Enqueue the command; its event."""
        return make_event(queue, self.kind, state_of(queue).submit(command, after))

    @waits
    def submit_and_wait(
        self, queue: CommandQueue, command: Command, after: Sequence[Completion], is_blocking: Any
    ) -> Event:
        """Enqueue the command, and wait for it if the call is blocking."""
        event = self.submit(queue, command, after)
        if is_blocking:
            self.wait(state_of(event), after)
        return event

    @waits
    def move_host(
        self,
        queue: CommandQueue,
        target: tuple[Memory, Layout | None],
        host: Bytes,
        hostbuf: Any,
        after: Sequence[Completion],
        is_blocking: bool,
    ) -> Event:
        """Enqueue a transfer between part of a memory object, given by its layout, and `host`, the memory of the
        program's `hostbuf`.

        Without a layout there is nothing to move.
        """
        memory, layout = target
        command: Command = NOTHING
        if is_blocking and self.writes_host and layout is not None:
            done = self.read_at_once(queue, Read(memory.buffer, layout, host), after)
            if done is not None:
                return NannyEvent._vdev_of_taken(queue, queue._vdev_state.context, self.kind, done, hostbuf)
        if layout is not None:
            command = (Read if self.writes_host else Write)(memory.buffer, layout, host)
        if isinstance(command, Write):
            if is_blocking and not after:
                line = state_of(queue)
                line.session.moves.calm_to_write(memory.buffer, command.layout.nbytes, line.order)
            written = state_of(queue).write_at_once(command, after)
            if written is not None:
                return make_nanny_event(queue, self.kind, written, Ward(hostbuf, in_use=False))
        completion = submit_with_host(queue, command, host, after, writes=self.writes_host)
        ward = Ward(hostbuf)
        event = make_nanny_event(queue, self.kind, completion, ward)
        if is_blocking:
            self.wait(completion, after, ward)
        return event

    @waits
    def read_at_once(
        self, queue: CommandQueue, command: Read, after: Sequence[Completion]
    ) -> Completion | None:
        """Read what a blocking call reads, where that can be done immediately: its completion. None if it has to be submitted."""
        line = state_of(queue)
        clocked = Clocked(time.perf_counter_ns()) if line.is_profiling else None
        code = line.read_at_once(command, after, clocked)
        if code is None:
            return None
        if after and any(earlier.status < 0 for earlier in after):
            code = status.EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST
        if code < 0:
            self.fail(code)
        return clocked or DONE

    @waits
    def wait(self, completion: Completion, after: Sequence[Completion], ward: Ward | None = None) -> None:
        """The end of a blocking call: wait, and raise the command's failure. `ward` keeps the host's memory
        meanwhile.
        """
        try:
            code = completion.wait()
        except (
            BaseException
        ):  # an interrupt: the memory is kept until the transfer is done, and nobody waits for that
            if ward is not None:
                ward.let_go(completion)
            raise
        if code < 0:
            if any(earlier.status < 0 for earlier in after):
                code = status.EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST
            if ward is not None:
                ward.release()
            self.fail(code)

    def check_map_use(self, memory: Memory, flags: int) -> None:
        """INVALID_VALUE if the host maps memory for reading or writing that it may not read or write."""
        if flags & _flags.READ and memory.flags & _NO_READING:
            self.fail(status.INVALID_VALUE)
        if flags & _WRITING and memory.flags & _NO_WRITING:
            self.fail(status.INVALID_VALUE)


def map_of(buffer: Any, start: int, nbytes: int, flags: int, *, keeps: bool = False) -> Map:
    """The mapping of `nbytes` bytes of a session's buffer.

    What the host gives up by WRITE_INVALIDATE_REGION is not copied to it, unless the mapping `keeps` it: between the
    rows of a box there are bytes that were not given up.
    """
    discards = flags & (_flags.READ | _flags.WRITE_INVALIDATE_REGION) == _flags.WRITE_INVALIDATE_REGION
    return Map(buffer, start, nbytes, read=keeps or not discards, write=bool(flags & _WRITING))


READ_BUFFER = Call(
    "_enqueue_read_buffer", "clEnqueueReadBuffer", _type.READ_BUFFER, writes_host=True, refused=_NO_READING
)
WRITE_BUFFER = Call("_enqueue_write_buffer", "clEnqueueWriteBuffer", _type.WRITE_BUFFER, refused=_NO_WRITING)
READ_BUFFER_RECT = Call(
    "_enqueue_read_buffer_rect",
    "clEnqueueReadBufferRect",
    _type.READ_BUFFER_RECT,
    writes_host=True,
    refused=_NO_READING,
)
WRITE_BUFFER_RECT = Call(
    "_enqueue_write_buffer_rect", "clEnqueueWriteBufferRect", _type.WRITE_BUFFER_RECT, refused=_NO_WRITING
)
COPY_BUFFER = Call("_enqueue_copy_buffer", "clEnqueueCopyBuffer", _type.COPY_BUFFER)
COPY_BUFFER_RECT = Call("_enqueue_copy_buffer_rect", "clEnqueueCopyBufferRect", _type.COPY_BUFFER_RECT)
FILL_BUFFER = Call("_enqueue_fill_buffer", "clEnqueueFillBuffer", _type.FILL_BUFFER)
MIGRATE = Call("enqueue_migrate_mem_objects", "clEnqueueMigrateMemObjects", _type.MIGRATE_MEM_OBJECTS)
COPY_P2P = Call("enqueue_copy_buffer_p2p_amd", "clEnqueueCopyBufferP2PAMD", _type.COPY_BUFFER)
MAP_BUFFER = Call("enqueue_map_buffer", "clEnqueueMapBuffer", _type.MAP_BUFFER)
UNMAP = Call("release", "clEnqueueUnmapMemObject", _type.UNMAP_MEM_OBJECT)

READ_IMAGE = Call(
    "_enqueue_read_image", "clEnqueueReadImage", _type.READ_IMAGE, writes_host=True, refused=_NO_READING
)
WRITE_IMAGE = Call("_enqueue_write_image", "clEnqueueWriteImage", _type.WRITE_IMAGE, refused=_NO_WRITING)
COPY_IMAGE = Call("_enqueue_copy_image", "clEnqueueCopyImage", _type.COPY_IMAGE)
COPY_IMAGE_TO_BUFFER = Call(
    "_enqueue_copy_image_to_buffer", "clEnqueueCopyImageToBuffer", _type.COPY_IMAGE_TO_BUFFER
)
COPY_BUFFER_TO_IMAGE = Call(
    "_enqueue_copy_buffer_to_image", "clEnqueueCopyBufferToImage", _type.COPY_BUFFER_TO_IMAGE
)
FILL_IMAGE = Call("enqueue_fill_image", "clEnqueueFillImage", _type.FILL_IMAGE)
MAP_IMAGE = Call("enqueue_map_image", "clEnqueueMapImage", _type.MAP_IMAGE)

SVM_MEMCPY = Call("_enqueue_svm_memcpy", "clEnqueueSVMMemcpy", _type.SVM_MEMCPY)
SVM_MEMFILL = Call("_enqueue_svm_memfill", "clEnqueueSVMMemFill", _type.SVM_MEMFILL)
SVM_MAP = Call("_enqueue_svm_map", "clEnqueueSVMMap", _type.SVM_MAP)
SVM_UNMAP = Call("_enqueue_svm_unmap", "clEnqueueSVMUnmap", _type.SVM_UNMAP)
SVM_MIGRATE = Call("_enqueue_svm_migrate_mem", "clEnqueueSVMMigrateMem", _type.SVM_MIGRATE_MEM)
SVM_FREE = Call("enqueue_release", "clEnqueueSVMFree", _type.SVM_FREE)

MARKER = Call("_enqueue_marker", "clEnqueueMarker", _type.MARKER)
BARRIER = Call("_enqueue_barrier", "clEnqueueBarrier", _type.BARRIER)
MARKER_WITH_WAIT_LIST = Call("_enqueue_marker_with_wait_list", "clEnqueueMarkerWithWaitList", _type.MARKER)
BARRIER_WITH_WAIT_LIST = Call(
    "_enqueue_barrier_with_wait_list", "clEnqueueBarrierWithWaitList", _type.BARRIER
)
WAIT_FOR_EVENTS = Call("_enqueue_wait_for_events", "clEnqueueWaitForEvents", _type.BARRIER)
