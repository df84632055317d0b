"""Shared virtual memory: pointers, allocations, and the commands on them (specification 5.6).

Coarse-grain and fine-grain buffers, without atomics. Decides whether a call is valid and which commands on buffers
it stands for: a pointer into an allocation is a place in that allocation's buffer, any other pointer is plain host
memory. How the bytes travel is decided below.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from vdev.executor.completion import DONE, call_soon
from vdev.facade.calls import (
    NOTHING,
    SVM_FREE,
    SVM_MAP,
    SVM_MEMCPY,
    SVM_MEMFILL,
    SVM_MIGRATE,
    SVM_UNMAP,
    Call,
    WaitList,
    map_of,
)
from vdev.facade.context import Context
from vdev.facade.errors import as_int, cast_int, check_type, fail, fail_cast, fail_type, native, status
from vdev.facade.event import Event, make_event, warn_cleanup
from vdev.facade.handles import Single, state_of
from vdev.facade.hostbuf import Bytes, array_interface, as_bytes, export_array, value_bytes
from vdev.facade.maps import map_bytes
from vdev.facade.queue import OUT_OF_ORDER, CommandQueue
from vdev.facade.svm_memory import Allocation, SVMArgument, allocate, find, live_buffers
from vdev.facade.sync import _enqueue_marker_with_wait_list
from vdev.facade.transfers import PATTERN_SIZES
from vdev.process.finalisers import may_wait
from vdev.process.interrupts import waits
from vdev.session.capabilities import shares_host_memory
from vdev.session.commands import (
    Argument,
    BufferArg,
    Command,
    CopyBuffer,
    Fill,
    Map,
    Migrate,
    Read,
    Unmap,
    Write,
)
from vdev.translators.ranges.rectangles import Layout
from vdev.translators.values import dataclass

if TYPE_CHECKING:
    from vdev.session.session import Completion, SessionKernel, VirtualBuffer

_OUT_OF_ORDER = "supplying an out-of-order queue to SVMAllocation is invalid"


class _Owner:
    """The `.base` of arrays over shared virtual memory: it keeps the object that owns the memory."""

    def __init__(self, pointer: SVMPointer) -> None:
        self._pointer = pointer


class SVMPointer(Single):
    """Base of what points to shared virtual memory."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is SVMPointer:
            raise TypeError("pyopencl._cl.SVMPointer: no constructor defined!")
        return super().__new__(cls)

    def __init__(self, address: int, nbytes: int, state: Any) -> None:
        self._address = address  #: 0 for NULL
        self._nbytes = nbytes  #: what the object stands for, from there on
        self._vdev_state = state  #: the owner of the memory

    @property
    def svm_ptr(self) -> int:
        return self._address

    @property
    def size(self) -> int:
        return self._nbytes

    @property
    def buf(self) -> Any:
        """The memory as an array of bytes."""
        if not self._address or not self._nbytes:
            return np.empty(self._nbytes, np.uint8)
        found = find(self._address)
        if found is None:
            fail("SVMPointer buffer protocol", status.INVALID_VALUE)
        memory = found.buffer.home()[self._address - found.start :][: self._nbytes]
        interface = array_interface(memory, (self._nbytes,), np.dtype(np.uint8), (1,))
        return export_array(_Owner(self), interface)


class SVM(SVMPointer):
    """Tags host memory as shared virtual memory. It really is shared if it lies in an allocation. Its bytes are its
    state.
    """

    _vdev_state: Bytes

    def __init__(self, arg: Any, /) -> None:
        memory = as_bytes(arg, writable=True)
        self._mem = arg
        # an empty array has no bytes, but may have an address
        whole = arg if isinstance(arg, np.ndarray) and not memory.size else memory
        super().__init__(whole.ctypes.data, memory.size, memory)

    @property
    def mem(self) -> Any:
        return self._mem

    @property
    def buf(self) -> Any:
        return np.asarray(self._vdev_state)


def refuse_out_of_order(queue: CommandQueue, routine: str) -> None:
    """Refuse to free memory in the order of a queue that has none."""
    if state_of(queue).properties & OUT_OF_ORDER:
        fail(routine, status.INVALID_VALUE, _OUT_OF_ORDER)


def join_queues(before: CommandQueue | None, queue: CommandQueue) -> None:
    """What is enqueued in `queue` from now on comes after everything that is in `before`."""
    if before is not None and before is not queue:
        done = state_of(before).submit(NOTHING, ())
        state_of(queue).submit(NOTHING, (done,))


class Owned:
    """An allocation until it is released, and the queue in whose order it is freed."""

    __slots__ = ("allocation", "queue")

    def __init__(self, allocation: Allocation | None, queue: CommandQueue | None) -> None:
        self.allocation = allocation
        self.queue = queue

    @property
    def address(self) -> int:
        """0 without an allocation."""
        return 0 if self.allocation is None else self.allocation.start


class SVMAllocation(SVMPointer):
    """An allocation of shared virtual memory (clSVMAlloc), freed when released or dropped.

    If it is bound to a queue, it is freed in the order of that queue. That needs no command: those under way keep
    the memory until they are done.
    """

    _vdev_state = Owned(None, None)  #: until the constructor has finished

    def __init__(
        self, context: Context, size: int, alignment: int, flags: int, queue: CommandQueue | None = None
    ) -> None:
        check_type("__init__", context, Context)
        nbytes = as_int("__init__", size)
        boundary = as_int("__init__", alignment, 0, 2**32 - 1)
        access = as_int("__init__", flags)
        if queue is not None:
            check_type("__init__", queue, CommandQueue)
            refuse_out_of_order(queue, "SVMAllocation.__init__")
        found = allocate(context, nbytes, boundary, access)
        if nbytes and found is None:
            fail("clSVMAlloc", status.OUT_OF_RESOURCES)
        owned = Owned(found, queue)
        super().__init__(owned.address, nbytes, owned)

    def release(self) -> None:
        if not self._nbytes:
            return
        self._give_up("SVMAllocation.release", "trying to double-unref svm allocation").free()
        self._vdev_state.queue = None

    def _give_up(self, routine: str, text: str) -> Allocation:
        allocation = self._vdev_state.allocation
        if allocation is None:
            fail(routine, status.INVALID_VALUE, text)
        self._vdev_state.allocation, self._address = None, 0
        return allocation

    def enqueue_release(self, queue: CommandQueue | None = None, wait_for: WaitList = None) -> Event:
        """Free the memory when the queue gets there."""
        function = "SVMAllocation.enqueue_release"
        if queue is not None:
            SVM_FREE.check_queue(queue)
        if self._nbytes and self._vdev_state.allocation is None:
            fail(function, status.INVALID_VALUE, "trying to enqueue_release on an already-freed allocation")
        used = queue or self._vdev_state.queue
        if used is None:
            fail(function, status.INVALID_VALUE, "no implicit queue available, must be provided explicitly")
        if not self._nbytes:
            return _enqueue_marker_with_wait_list(used, wait_for)
        after = SVM_FREE.after(used, wait_for)
        allocation = self._give_up(function, "")
        event = SVM_FREE.submit(used, NOTHING, after)
        state_of(event).add_callback(lambda ended: allocation.free())
        return event

    def bind_to_queue(self, queue: CommandQueue) -> None:
        check_type("bind_to_queue", queue, CommandQueue)
        refuse_out_of_order(queue, "SVMAllocation.bind_to_queue")
        join_queues(self._vdev_state.queue, queue)
        self._vdev_state.queue = queue

    def unbind_from_queue(self) -> None:
        if self._vdev_state.queue is not None:
            self._vdev_state.queue.finish()
        self._vdev_state.queue = None

    @property
    def _queue(self) -> CommandQueue | None:
        return self._vdev_state.queue

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SVMAllocation) and self._address == other._address

    def __hash__(self) -> int:
        return self._address

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if self._vdev_state.allocation is not None and not is_ending():
            self._vdev_state.allocation.free()


@dataclass(frozen=True, slots=True)
class AllocatorState:
    """What an allocator allocates: memory of a context, with that alignment in bytes and those flags, for a queue."""

    context: Context
    alignment: int
    flags: int
    queue: CommandQueue | None

    def allocate(self, nbytes: int) -> Allocation | None:
        """None if there is not enough memory: NULL, as natively."""
        return allocate(self.context, nbytes, self.alignment, self.flags)


class SVMAllocator(Single):
    """Allocates shared virtual memory with given alignment and flags, bound to a queue where one is given."""

    def __init__(
        self, context: Context, alignment: int = 0, flags: int = 1, queue: CommandQueue | None = None
    ) -> None:
        check_type("__init__", context, Context)
        boundary = as_int("__init__", alignment, 0, 2**32 - 1)
        access = as_int("__init__", flags, 0, 2**32 - 1)
        if queue is not None:
            check_type("__init__", queue, CommandQueue)
        self._vdev_state = AllocatorState(context, boundary, access, queue)

    def __call__(self, size: int) -> SVMAllocation:
        nbytes = as_int("__call__", size)
        queue = self._vdev_state.queue if nbytes else None
        if queue is not None:
            refuse_out_of_order(queue, "SVMAllocation.__init__")
        owned = Owned(self._vdev_state.allocate(nbytes), queue)
        made: SVMAllocation = object.__new__(SVMAllocation)
        SVMPointer.__init__(made, owned.address, nbytes, owned)
        return made


# commands ---------------------------------------------------------------------------------------


def kernel_argument(pointer: SVMPointer) -> SVMArgument | None:
    """What a kernel keeps of a pointer (clSetKernelArgSVMPointer); INVALID_ARG_VALUE for host memory."""
    address = pointer.svm_ptr
    if not address:
        return None
    found = find(address)
    if found is None:
        if not pointer.size:  # a pointer to nothing, which nobody can use
            return None
        fail("clSetKernelArgSVMPointer", status.INVALID_ARG_VALUE)
    return SVMArgument(found, address - found.start)


def reached_by_address(
    context: Context, kernel: SessionKernel, args: Sequence[Argument], routine: str
) -> tuple[VirtualBuffer, ...]:
    """The buffers that a launch of `kernel` must find at the addresses that the program knows.

    None for kernels that do not use addresses as numbers; for others all shared virtual memory, since anything may
    point to it. INVALID_OPERATION if no worker shares the host's memory: there the addresses mean nothing.
    """
    reason = kernel.addresses
    if reason is None:
        return ()
    session = state_of(context).session
    buffers = live_buffers(session)
    if any(shares_host_memory(worker) for worker in session.workers):
        return buffers
    # A kernel of which nothing is known is given the benefit of the doubt.
    if kernel.summary is not None and any(
        isinstance(arg, BufferArg) and arg.buffer in buffers for arg in args
    ):
        text = f"{reason}; addresses of shared virtual memory are valid only on workers that share the host's"
        fail(routine, status.INVALID_OPERATION, text)
    return ()


def _place(call: Call, pointer: SVMPointer, nbytes: int) -> tuple[Allocation, int] | None:
    """Allocation and offset of `nbytes` bytes; None if they are plain host memory."""
    address = pointer.svm_ptr
    if not address:
        call.fail(status.INVALID_VALUE)
    found = find(address)
    if found is None:
        if not isinstance(pointer, SVM):
            call.fail(status.INVALID_VALUE)
        return None
    offset = address - found.start
    if offset + nbytes > found.nbytes:
        call.fail(status.INVALID_VALUE)
    return found, offset


def _shared_place(call: Call, pointer: SVMPointer, nbytes: int) -> tuple[Allocation, int]:
    """The same if plain host memory will not do: there is no fine-grain system SVM."""
    place = _place(call, pointer, nbytes)
    if place is None:
        call.fail(status.INVALID_VALUE)
    return place


def _size(function: str, byte_count: Any, most: int, text: str) -> int | None:
    """A size that the program gave, or None."""
    if byte_count is None:
        return None
    nbytes = cast_int(byte_count)
    if nbytes > most:
        fail(function, status.INVALID_VALUE, text)
    return nbytes


@waits
def _enqueue_svm_memcpy(
    queue: CommandQueue,
    is_blocking: int,
    dst: SVMPointer,
    src: SVMPointer,
    wait_for: WaitList = None,
    byte_count: Any = None,
) -> Event:
    call = SVM_MEMCPY
    _check_pointers(call, queue, dst, src)
    blocking = as_int(call.function, is_blocking, 0, 2**32 - 1)
    if byte_count is None and dst.size != src.size:
        fail(call.function, status.INVALID_VALUE, "sizes of source and destination buffer do not match")
    most = min(dst.size, src.size)
    text = "specified byte_count larger than size of source or destination buffers"
    asked = _size(call.function, byte_count, most, text)
    nbytes = most if asked is None else asked
    after = call.after(queue, wait_for)
    command = _copy_command(call, queue, dst, src, nbytes)
    done: Completion | None = None
    if isinstance(command, Write):
        done = state_of(queue).write_at_once(command, after)
    elif isinstance(command, Read) and blocking:
        done = call.read_at_once(queue, command, after)
    elif isinstance(command, CopyBuffer) and not after:
        done = _like_others(queue, command)
    if done is not None:
        return make_event(queue, call.kind, done)
    return call.submit_and_wait(queue, command, after, blocking)


def _check_pointers(call: Call, queue: Any, *pointers: Any) -> None:
    call.check_queue(queue)
    for pointer in pointers:
        check_type(call.function, pointer, SVMPointer)


def _copy_command(call: Call, queue: CommandQueue, dst: SVMPointer, src: SVMPointer, nbytes: int) -> Command:
    """The command for `nbytes` bytes from `src` to `dst`, either of which may be plain host memory."""
    target, source = _place(call, dst, nbytes), _place(call, src, nbytes)
    if not nbytes:
        return NOTHING
    if abs(dst.svm_ptr - src.svm_ptr) < nbytes:
        call.fail(status.MEM_COPY_OVERLAP)
    if target is not None and source is not None:
        pitches = (nbytes, nbytes)
        return CopyBuffer(
            source[0].buffer, target[0].buffer, (1, 1, nbytes), source[1], pitches, target[1], pitches
        )
    if target is not None:
        return Write(target[0].buffer, Layout.contiguous(target[1], nbytes), _host_bytes(src, nbytes))
    if source is not None:
        return Read(source[0].buffer, Layout.contiguous(source[1], nbytes), _host_bytes(dst, nbytes))
    # between two places on the host: a buffer whose home is the one, read to the other
    buffer = state_of(queue).session.create_buffer(nbytes, _host_bytes(src, nbytes))
    return Read(buffer, Layout.contiguous(0, nbytes), _host_bytes(dst, nbytes))


def _like_others(queue: CommandQueue, command: Fill | CopyBuffer) -> Completion | None:
    """Hand over a command that waits for no events, as those of buffers (`vdev.session.immediate_copies`); None if it has to be
    submitted.
    """
    line = state_of(queue)
    at_once, order = line.session.at_once, line.order
    target = command.buffer if isinstance(command, Fill) else command.target
    if at_once is None or line.is_finalized or target.resident is None:  # what is at home has ways of its own
        return None
    if isinstance(command, Fill):
        return at_once.fill(command.buffer, (command.offset, command.nbytes, command.pattern), order)
    source, shape = command.source, command.shape
    if source is target:  # as there
        return None
    what = shape, command.source_start, command.source_pitches, command.target_start, command.target_pitches
    return at_once.copy(source, target, what, shape[2], order)


def _host_bytes(pointer: SVMPointer, nbytes: int) -> Bytes:
    assert isinstance(pointer, SVM), "an allocation is no plain host memory"
    return state_of(pointer)[:nbytes]


def _enqueue_svm_memfill(
    queue: CommandQueue, dst: SVMPointer, pattern: Any, byte_count: Any = None, wait_for: WaitList = None
) -> Event:
    """Fill everything that `dst` stands for: the native module checks `byte_count` and then uses the size of `dst`."""
    call = SVM_MEMFILL
    _check_pointers(call, queue, dst)
    if pattern is None:
        fail_type(call.function, pattern)
    filling, nbytes = value_bytes(pattern), dst.size
    _size("enqueue_svm_memfill", byte_count, nbytes, "byte_count too large for specified SVM buffer")
    after = call.after(queue, wait_for)
    place = _place(call, dst, nbytes)
    length = len(filling)
    if length not in PATTERN_SIZES or dst.svm_ptr % length or nbytes % length:
        call.fail(status.INVALID_VALUE)
    command: Command
    if not nbytes:
        command = NOTHING
    elif place is None:
        repeated = np.tile(np.frombuffer(filling, np.uint8), nbytes // length)
        buffer = state_of(queue).session.create_buffer(nbytes, repeated)
        command = Read(buffer, Layout.contiguous(0, nbytes), _host_bytes(dst, nbytes))
    else:
        command = Fill(place[0].buffer, place[1], nbytes, filling)
    done = _like_others(queue, command) if isinstance(command, Fill) and not after else None
    return call.submit(queue, command, after) if done is None else make_event(queue, call.kind, done)


@waits
def _enqueue_svm_map(
    queue: CommandQueue,
    is_blocking: int,
    flags: int,
    svm: SVMPointer,
    wait_for: WaitList = None,
    size: Any = None,
) -> Event:
    """Map everything that `svm` stands for: the native module checks `size` and then uses that of `svm`."""
    call = SVM_MAP
    _check_pointers(call, queue, svm)
    blocking = as_int(call.function, is_blocking, 0, 2**32 - 1)
    bits, nbytes = as_int(call.function, flags), svm.size
    _size("enqueue_svm_memfill", size, nbytes, "user-provided size too large for specified SVM buffer")
    after = call.after(queue, wait_for)
    allocation, offset = _shared_place(call, svm, nbytes)
    command = map_of(allocation.buffer, offset, nbytes, bits)
    event = map_bytes(call, queue, command, after, bool(blocking))
    # last: if the wait fails or is interrupted, the program never hears of the mapping, and nobody would end it
    allocation.map(svm.svm_ptr, nbytes, command.write, command)
    return event


def _enqueue_svm_unmap(queue: CommandQueue, svm: SVMPointer, wait_for: WaitList = None) -> Event | None:
    """End one mapping at that address.

    If there are several, nobody can tell which: as long as one of them was for writing, what the host wrote counts
    each time.
    """
    _check_pointers(SVM_UNMAP, queue, svm)
    if not may_wait():  # a mapping's finaliser in a collection, which may run anywhere, even inside a lock
        call_soon(partial(_end_mapping, queue, svm))
        return None
    return _unmap(queue, svm, wait_for)


def _end_mapping(queue: CommandQueue, svm: SVMPointer) -> None:
    """For a finaliser, which cannot raise."""
    try:
        _unmap(queue, svm, None)
    except native.Error as error:
        warn_cleanup(SVM_UNMAP.routine, error.args[0].code())


def _unmap(queue: CommandQueue, svm: SVMPointer, wait_for: WaitList) -> Event:
    after = SVM_UNMAP.after(queue, wait_for)
    allocation, offset = _shared_place(SVM_UNMAP, svm, 0)
    mapping = allocation.unmap(svm.svm_ptr)
    if mapping is None:
        SVM_UNMAP.fail(status.INVALID_VALUE)
    command: Command = NOTHING
    if mapping.nbytes:
        made = mapping.command or Map(
            allocation.buffer, offset, mapping.nbytes, read=True, write=mapping.write
        )
        command = Unmap(made)
        line = state_of(queue)
        if not after and not line.is_finalized and line.session.unmap_at_once(made, line.order):
            return make_event(queue, SVM_UNMAP.kind, DONE)
    try:
        return SVM_UNMAP.submit(queue, command, after)
    except BaseException:  # it is still mapped
        allocation.map(svm.svm_ptr, mapping.nbytes, mapping.write, mapping.command)
        raise


def _enqueue_svm_migrate_mem(
    queue: CommandQueue, svms: Any, flags: int | None = None, wait_for: WaitList = None
) -> Event:
    """A hint about where memory will be needed (specification 5.6.1, clEnqueueSVMMigrateMem)."""
    call = SVM_MIGRATE
    call.check_queue(queue)
    if not hasattr(svms, "__len__") or flags is None:
        fail_type(call.function, svms, flags)
    bits = as_int(call.function, flags)
    pointers = list(svms)
    if not all(isinstance(item, SVMPointer) for item in pointers):
        fail_cast()
    after = call.after(queue, wait_for)
    if not pointers:
        call.fail(status.INVALID_VALUE)
    places = [_shared_place(call, item, item.size) for item in pointers]
    command = Migrate(tuple(allocation.buffer for allocation, _ in places), to_host=bool(bits & 1))
    return call.submit(queue, command, after)
