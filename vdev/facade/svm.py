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

from vdev.executor import call_soon
from vdev.facade.context import Context
from vdev.facade.errors import as_int, cast_int, check_type, fail, fail_cast, fail_type, native, status
from vdev.facade.event import Event, make_event, parse_wait_list, warn_cleanup
from vdev.facade.hostbuf import Bytes, array_interface, as_bytes, export_array, value_bytes
from vdev.facade.queue import OUT_OF_ORDER, CommandQueue
from vdev.facade.svm_memory import Allocation, SVMArgument, allocate, find, live_buffers
from vdev.facade.sync import _enqueue_marker_with_wait_list
from vdev.facade.transfers import WaitList, wait_blocking
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
    Marker,
    Migrate,
    Read,
    Unmap,
    Write,
)
from vdev.translators.ranges.rectangles import Layout

if TYPE_CHECKING:
    from vdev.session.session import SessionKernel, VirtualBuffer

_type = native.command_type
_READ, _WRITE, _WRITE_INVALIDATE = (
    native.map_flags.READ,
    native.map_flags.WRITE,
    native.map_flags.WRITE_INVALIDATE_REGION,
)
_PATTERN_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
_OUT_OF_ORDER = "supplying an out-of-order queue to SVMAllocation is invalid"


class _Owner:
    """The `.base` of arrays over shared virtual memory: it keeps the object that owns the memory."""

    def __init__(self, pointer: SVMPointer) -> None:
        self._pointer = pointer


class SVMPointer:
    """Base of what points to shared virtual memory."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is SVMPointer:
            raise TypeError("pyopencl._cl.SVMPointer: no constructor defined!")
        return super().__new__(cls)

    #: the address, 0 for NULL, and how many bytes from there the object stands for
    _address: int
    _nbytes: int

    @property
    def svm_ptr(self) -> int:
        return self._address

    @property
    def size(self) -> int | None:
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
    """Tags host memory as shared virtual memory, which it is where it lies in an allocation."""

    def __init__(self, arg: Any, /) -> None:
        self._memory_bytes = as_bytes(arg, writable=True)
        self._mem = arg
        nbytes = self._nbytes = self._memory_bytes.size
        # of nothing there are no bytes, but there may be an address
        whole = arg if isinstance(arg, np.ndarray) and not nbytes else self._memory_bytes
        self._address = whole.ctypes.data

    @property
    def mem(self) -> Any:
        return self._mem

    @property
    def buf(self) -> Any:
        return np.asarray(self._memory_bytes)


def refuse_out_of_order(queue: CommandQueue, routine: str) -> None:
    """Memory is not freed in the order of a queue that has none."""
    if queue._properties & OUT_OF_ORDER:
        fail(routine, status.INVALID_VALUE, _OUT_OF_ORDER)


def join_queues(before: CommandQueue | None, queue: CommandQueue) -> None:
    """What is enqueued in `queue` from now on comes after all that is in `before`."""
    if before is not None and before is not queue:
        done = before._submit(Marker(), ())
        queue._submit(Marker(), (done,))


class SVMAllocation(SVMPointer):
    """Shared virtual memory of its own (clSVMAlloc), freed when released or dropped.

    Bound to a queue it is freed in the order of that queue, which needs no command: those on their way keep
    the memory until they are done.
    """

    _allocation: Allocation | None = None
    _bound: CommandQueue | None = None

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
        self._take(found, nbytes, queue)

    def _take(self, allocation: Allocation | None, nbytes: int, queue: CommandQueue | None) -> None:
        self._allocation = allocation
        self._address = 0 if allocation is None else allocation.start
        self._nbytes = nbytes
        self._bound = queue

    def release(self) -> None:
        if not self._nbytes:
            return
        self._give_up("SVMAllocation.release", "trying to double-unref svm allocation").free()
        self._bound = None

    def _give_up(self, routine: str, text: str) -> Allocation:
        allocation = self._allocation
        if allocation is None:
            fail(routine, status.INVALID_VALUE, text)
        self._allocation, self._address = None, 0
        return allocation

    def enqueue_release(self, queue: CommandQueue | None = None, wait_for: WaitList = None) -> Event:
        """Free the memory when the queue gets there."""
        function = "SVMAllocation.enqueue_release"
        if queue is not None:
            check_type("enqueue_release", queue, CommandQueue)
        if self._nbytes and self._allocation is None:
            fail(function, status.INVALID_VALUE, "trying to enqueue_release on an already-freed allocation")
        used = queue or self._bound
        if used is None:
            fail(function, status.INVALID_VALUE, "no implicit queue available, must be provided explicitly")
        if not self._nbytes:
            return _enqueue_marker_with_wait_list(used, wait_for)
        after = parse_wait_list(wait_for, used._context, "clEnqueueSVMFree")
        allocation = self._give_up(function, "")
        completion = used._submit(Marker(), after)
        completion.add_callback(lambda ended: allocation.free())
        return make_event(used, _type.SVM_FREE, completion)

    def bind_to_queue(self, queue: CommandQueue) -> None:
        check_type("bind_to_queue", queue, CommandQueue)
        refuse_out_of_order(queue, "SVMAllocation.bind_to_queue")
        join_queues(self._bound, queue)
        self._bound = queue

    def unbind_from_queue(self) -> None:
        if self._bound is not None:
            self._bound.finish()
        self._bound = None

    @property
    def _queue(self) -> CommandQueue | None:
        return self._bound

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SVMAllocation) and self._address == other._address

    def __hash__(self) -> int:
        return self._address

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if self._allocation is not None and not is_ending():
            self._allocation.free()


class SVMAllocator:
    """Allocates shared virtual memory with given alignment and flags, bound to a queue where one is given."""

    def __init__(
        self, context: Context, alignment: int = 0, flags: int = 1, queue: CommandQueue | None = None
    ) -> None:
        check_type("__init__", context, Context)
        self._context = context
        self._alignment = as_int("__init__", alignment, 0, 2**32 - 1)
        self._flags = as_int("__init__", flags, 0, 2**32 - 1)
        if queue is not None:
            check_type("__init__", queue, CommandQueue)
        self._queue = queue

    def _allocate(self, nbytes: int) -> Allocation | None:
        return allocate(self._context, nbytes, self._alignment, self._flags)

    def __call__(self, size: int) -> SVMAllocation:
        nbytes = as_int("__call__", size)
        queue = self._queue if nbytes else None
        if queue is not None:
            refuse_out_of_order(queue, "SVMAllocation.__init__")
        made: SVMAllocation = object.__new__(SVMAllocation)
        made._take(self._allocate(nbytes), nbytes, queue)  # as natively: NULL where there is no memory
        return made


# commands ---------------------------------------------------------------------------------------


def kernel_argument(pointer: SVMPointer) -> SVMArgument | None:
    """What a kernel keeps of a pointer (clSetKernelArgSVMPointer); INVALID_ARG_VALUE for host memory."""
    if not pointer._address:
        return None
    found = find(pointer._address)
    if found is None:
        if not pointer._nbytes:  # a pointer to nothing, which nobody can use
            return None
        fail("clSetKernelArgSVMPointer", status.INVALID_ARG_VALUE)
    return SVMArgument(found, pointer._address - found.start)


def reached_by_address(
    context: Context, kernel: SessionKernel, args: Sequence[Argument], routine: str
) -> tuple[VirtualBuffer, ...]:
    """The buffers that a launch of `kernel` must find at the addresses that the program knows: none for kernels
    to which addresses are no numbers, else all shared virtual memory, since anything may point to it.

    INVALID_OPERATION where no worker shares the host's memory: there the addresses mean nothing.
    """
    reason = kernel.addresses
    if reason is None:
        return ()
    session = context._session
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


def _place(pointer: SVMPointer, nbytes: int, routine: str) -> tuple[Allocation, int] | None:
    """Allocation and offset of `nbytes` bytes; None where they are plain host memory."""
    if not pointer._address:
        fail(routine, status.INVALID_VALUE)
    found = find(pointer._address)
    if found is None:
        if not isinstance(pointer, SVM):
            fail(routine, status.INVALID_VALUE)
        return None
    offset = pointer._address - found.start
    if offset + nbytes > found.nbytes:
        fail(routine, status.INVALID_VALUE)
    return found, offset


def _shared_place(pointer: SVMPointer, nbytes: int, routine: str) -> tuple[Allocation, int]:
    """The same where host memory will not do: there is no fine-grain system SVM."""
    place = _place(pointer, nbytes, routine)
    if place is None:
        fail(routine, status.INVALID_VALUE)
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
    function, routine = "_enqueue_svm_memcpy", "clEnqueueSVMMemcpy"
    check_type(function, queue, CommandQueue)
    check_type(function, dst, SVMPointer)
    check_type(function, src, SVMPointer)
    blocking = as_int(function, is_blocking, 0, 2**32 - 1)
    if byte_count is None and dst._nbytes != src._nbytes:
        fail(function, status.INVALID_VALUE, "sizes of source and destination buffer do not match")
    most = min(dst._nbytes, src._nbytes)
    text = "specified byte_count larger than size of source or destination buffers"
    asked = _size(function, byte_count, most, text)
    nbytes = most if asked is None else asked
    after = parse_wait_list(wait_for, queue._context, routine)
    command = _copy_command(queue, routine, dst, src, nbytes)
    event = make_event(queue, _type.SVM_MEMCPY, queue._submit(command, after))
    if blocking:
        wait_blocking(event, after, routine)
    return event


def _copy_command(
    queue: CommandQueue, routine: str, dst: SVMPointer, src: SVMPointer, nbytes: int
) -> Command:
    """The command for `nbytes` bytes from `src` to `dst`, either of which may be plain host memory."""
    target, source = _place(dst, nbytes, routine), _place(src, nbytes, routine)
    if not nbytes:
        return Marker()
    if abs(dst._address - src._address) < nbytes:
        fail(routine, status.MEM_COPY_OVERLAP)
    if target is not None and source is not None:
        pitches = (nbytes, nbytes)
        return CopyBuffer(
            source[0].buffer, target[0].buffer, (1, 1, nbytes), source[1], pitches, target[1], pitches
        )
    if target is not None:
        return Write(target[0].buffer, Layout.contiguous(target[1], nbytes), _host_bytes(src, nbytes))
    if source is not None:
        return Read(source[0].buffer, Layout.contiguous(source[1], nbytes), _host_bytes(dst, nbytes))
    # between two places of the host: a buffer whose home is the one, read to the other
    buffer = queue._session.create_buffer(nbytes, _host_bytes(src, nbytes))
    return Read(buffer, Layout.contiguous(0, nbytes), _host_bytes(dst, nbytes))


def _host_bytes(pointer: SVMPointer, nbytes: int) -> Bytes:
    assert isinstance(pointer, SVM), "an allocation is no plain host memory"
    return pointer._memory_bytes[:nbytes]


def _enqueue_svm_memfill(
    queue: CommandQueue, dst: SVMPointer, pattern: Any, byte_count: Any = None, wait_for: WaitList = None
) -> Event:
    """Fill all that `dst` stands for: the native module checks `byte_count` and then takes `dst`'s size."""
    function, routine = "_enqueue_svm_memfill", "clEnqueueSVMMemFill"
    check_type(function, queue, CommandQueue)
    check_type(function, dst, SVMPointer)
    if pattern is None:
        fail_type(function, pattern)
    filling, nbytes = value_bytes(pattern), dst._nbytes
    _size("enqueue_svm_memfill", byte_count, nbytes, "byte_count too large for specified SVM buffer")
    after = parse_wait_list(wait_for, queue._context, routine)
    place = _place(dst, nbytes, routine)
    length = len(filling)
    if length not in _PATTERN_SIZES or dst._address % length or nbytes % length:
        fail(routine, status.INVALID_VALUE)
    command: Command
    if not nbytes:
        command = Marker()
    elif place is None:
        repeated = np.tile(np.frombuffer(filling, np.uint8), nbytes // length)
        buffer = queue._session.create_buffer(nbytes, repeated)
        command = Read(buffer, Layout.contiguous(0, nbytes), _host_bytes(dst, nbytes))
    else:
        command = Fill(place[0].buffer, place[1], nbytes, filling)
    return make_event(queue, _type.SVM_MEMFILL, queue._submit(command, after))


@waits
def _enqueue_svm_map(
    queue: CommandQueue,
    is_blocking: int,
    flags: int,
    svm: SVMPointer,
    wait_for: WaitList = None,
    size: Any = None,
) -> Event:
    """Map all that `svm` stands for: the native module checks `size` and then takes `svm`'s."""
    function, routine = "_enqueue_svm_map", "clEnqueueSVMMap"
    check_type(function, queue, CommandQueue)
    check_type(function, svm, SVMPointer)
    blocking = as_int(function, is_blocking, 0, 2**32 - 1)
    bits, nbytes = as_int(function, flags), svm._nbytes
    _size("enqueue_svm_memfill", size, nbytes, "user-provided size too large for specified SVM buffer")
    after = parse_wait_list(wait_for, queue._context, routine)
    command = _map_command(routine, svm, nbytes, bits)
    event = make_event(queue, _type.SVM_MAP, queue._submit(command, after))
    if blocking:
        wait_blocking(event, after, routine)
    return event


def _map_command(routine: str, svm: SVMPointer, nbytes: int, flags: int) -> Command:
    """The mapping of `nbytes` bytes, entered with the allocation."""
    allocation, offset = _shared_place(svm, nbytes, routine)
    writes = bool(flags & (_WRITE | _WRITE_INVALIDATE))
    allocation.map(svm._address, nbytes, writes)
    reads = flags & (_READ | _WRITE_INVALIDATE) != _WRITE_INVALIDATE
    return Map(allocation.buffer, offset, nbytes, read=reads, write=writes) if nbytes else Marker()


def _enqueue_svm_unmap(queue: CommandQueue, svm: SVMPointer, wait_for: WaitList = None) -> Event | None:
    """End one mapping at that address. Of several nobody can tell which: as long as one of them was for
    writing, what the host wrote counts each time.
    """
    check_type("_enqueue_svm_unmap", queue, CommandQueue)
    check_type("_enqueue_svm_unmap", svm, SVMPointer)
    if not may_wait():  # a mapping's finaliser in a collection, which may run anywhere and inside any lock
        call_soon(partial(_end_mapping, queue, svm))
        return None
    return _unmap(queue, svm, wait_for)


def _end_mapping(queue: CommandQueue, svm: SVMPointer) -> None:
    """For a finaliser, which cannot raise."""
    try:
        _unmap(queue, svm, None)
    except native.Error as error:
        warn_cleanup("clEnqueueSVMUnmap", error.args[0].code())


def _unmap(queue: CommandQueue, svm: SVMPointer, wait_for: WaitList) -> Event:
    routine = "clEnqueueSVMUnmap"
    after = parse_wait_list(wait_for, queue._context, routine)
    allocation, offset = _shared_place(svm, 0, routine)
    mapping = allocation.unmap(svm._address)
    if mapping is None:
        fail(routine, status.INVALID_VALUE)
    command: Command = Marker()
    if mapping.nbytes:
        command = Unmap(Map(allocation.buffer, offset, mapping.nbytes, read=True, write=mapping.write))
    return make_event(queue, _type.SVM_UNMAP, queue._submit(command, after))


def _enqueue_svm_migrate_mem(
    queue: CommandQueue, svms: Any, flags: int | None = None, wait_for: WaitList = None
) -> Event:
    """A hint where memory will be needed (specification 5.6.1, clEnqueueSVMMigrateMem)."""
    function, routine = "_enqueue_svm_migrate_mem", "clEnqueueSVMMigrateMem"
    check_type(function, queue, CommandQueue)
    if not hasattr(svms, "__len__") or flags is None:
        fail_type(function, svms, flags)
    bits = as_int(function, flags)
    pointers = list(svms)
    if not all(isinstance(item, SVMPointer) for item in pointers):
        fail_cast()
    after = parse_wait_list(wait_for, queue._context, routine)
    if not pointers:
        fail(routine, status.INVALID_VALUE)
    places = [_shared_place(item, item._nbytes, routine) for item in pointers]
    command = Migrate(tuple(allocation.buffer for allocation, _ in places), to_host=bool(bits & 1))
    return make_event(queue, _type.SVM_MIGRATE_MEM, queue._submit(command, after))
