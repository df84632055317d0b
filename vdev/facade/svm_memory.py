"""Allocations of shared virtual memory (specification 5.6.1) and the table that finds them by address.

An allocation is a buffer whose home in host memory exists from the start: the home's address is the SVM
pointer, on the host and as a kernel argument. Decides what clSVMAlloc refuses and which allocation an address
belongs to. Where the bytes are is the directory's, as for every buffer: those of a coarse-grain allocation
wherever they were used last, those of a fine-grain one at home whenever no command is at work on them.
"""

from __future__ import annotations

import threading
from bisect import bisect_right, insort
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from vdev.facade.context import Context
from vdev.facade.errors import native
from vdev.facade.handles import state_of
from vdev.session.commands import BufferArg

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vdev.session.commands import Map
    from vdev.session.session import Session, VirtualBuffer

#: bytes: the size of the largest OpenCL type, long16; alignment 0 stands for it, and none may exceed it
MOST_ALIGNMENT = 128
_mem = native.mem_flags
_ACCESS = (0, _mem.READ_WRITE, _mem.WRITE_ONLY, _mem.READ_ONLY)
#: pointers into an allocation whose arguments are known
_MOST_ARGUMENTS = 256
#: There are no atomics between host and device while a kernel runs (CL_MEM_SVM_ATOMICS).
_FINE_GRAIN = native.svm_mem_flags.SVM_FINE_GRAIN_BUFFER


class Mapping:
    """Everything mapped at one address: how often, how many bytes, whether the host may write there, and the command that has mapped it,
    where only one ever has.
    """

    __slots__ = ("command", "count", "nbytes", "write")

    def __init__(self) -> None:
        self.count = self.nbytes = 0
        self.write = False
        self.command: Map | None = None


class Allocation:
    """`nbytes` bytes of shared virtual memory at address `start`, for the workers of one session.

    Once it is freed it no longer has a `buffer`: commands under way hold the buffer themselves.
    """

    __slots__ = ("_arguments", "buffer", "mappings", "nbytes", "session", "start")

    buffer: VirtualBuffer

    def __init__(self, session: Session, buffer: VirtualBuffer, start: int, nbytes: int) -> None:
        self.session = session
        self.buffer = buffer
        self.start = start
        self.nbytes = nbytes
        #: active mappings, by the address that was given for them
        self.mappings: dict[int, Mapping] = {}
        #: by bytes from the start: what launches capture of pointers to there
        self._arguments: dict[int, BufferArg] = {}

    def argument_at(self, offset: int) -> BufferArg:
        """What a launch captures of a pointer `offset` bytes into it: mostly the same object each time, by which a launch with the same
        pointers as the last one is known. AttributeError if it has been freed.

        The kernel may use all of the allocation, including what lies before the pointer.
        """
        buffer, known = self.buffer, self._arguments
        found = known.get(offset)
        if found is None:
            if len(known) >= _MOST_ARGUMENTS:
                known.clear()
            found = known[offset] = BufferArg(buffer, offset, self.nbytes - offset, offset)
            if not hasattr(self, "buffer"):  # another thread has just freed it
                known.clear()
        return found

    def map(self, address: int, nbytes: int, write: bool, command: Map | None) -> None:
        """Enter a mapping of `nbytes` bytes at `address`, which that command has made."""
        with _lock:
            mapping = self.mappings.setdefault(address, Mapping())
            mapping.command = None if mapping.count else command
            mapping.count += 1
            mapping.nbytes = max(mapping.nbytes, nbytes)
            mapping.write = mapping.write or write

    def unmap(self, address: int) -> Mapping | None:
        """Take back one mapping at `address`: what is or was mapped there; None if nothing is."""
        with _lock:
            mapping = self.mappings.get(address)
            if mapping is not None:
                mapping.count -= 1
                if not mapping.count:
                    del self.mappings[address]
        return mapping

    def free(self) -> None:
        """Give the memory back (clSVMFree). Any thread may call it, also from a finaliser: it takes no lock."""
        if hasattr(self, "buffer"):
            _freed.append(self)
            del self.buffer
            self._arguments.clear()


class SVMArgument:
    """A pointer into an allocation as a kernel keeps it: like a plain address, it keeps no memory alive."""

    __slots__ = ("allocation", "offset")

    def __init__(self, allocation: Allocation, offset: int) -> None:
        self.allocation = allocation
        self.offset = offset

    @property
    def argument(self) -> BufferArg:
        """What a launch captures; AttributeError if the allocation has been freed."""
        return self.allocation.argument_at(self.offset)

    def is_same(self, other: object) -> bool:
        """Whether another argument is the same pointer."""
        return (
            type(other) is SVMArgument and other.allocation is self.allocation and other.offset == self.offset
        )


_lock = threading.RLock()
#: where allocations start, in order; empty where there is no shared virtual memory
starts: list[int] = []
_by_start: dict[int, Allocation] = {}
#: freed and still in the table. They leave it, under the lock, before anything else is looked up or entered: their
#: addresses may have been given to others by then.
_freed: deque[Allocation] = deque()


def allocate(context: Context, nbytes: int, alignment: int, flags: int) -> Allocation | None:
    """The result of clSVMAlloc; None stands for NULL."""
    if not 0 < nbytes <= state_of(context).limits["MAX_MEM_ALLOC_SIZE"]:
        return None
    if alignment > MOST_ALIGNMENT or alignment & (alignment - 1) or flags & ~_FINE_GRAIN not in _ACCESS:
        return None
    try:
        # Untouched pages of fresh memory cost nothing.
        raw = np.zeros(nbytes + MOST_ALIGNMENT, np.uint8)
    except MemoryError:
        return None
    first = -raw.ctypes.data % MOST_ALIGNMENT
    home = raw[first : first + nbytes]
    # Valid at home from the start: a program may fill fresh memory before it maps it.
    session = state_of(context).session
    buffer = session.create_buffer(nbytes, home, fine=bool(flags & _FINE_GRAIN))
    allocation = Allocation(session, buffer, home.ctypes.data, nbytes)
    with _lock:
        _forget_freed()
        insort(starts, allocation.start)
        _by_start[allocation.start] = allocation
    return allocation


def find(address: int) -> Allocation | None:
    """The live allocation that contains that address, or ends there."""
    with _lock:
        if _freed:
            _forget_freed()
        index = bisect_right(starts, address)
        if not index:
            return None
        found = _by_start[starts[index - 1]]
        return found if address <= found.start + found.nbytes and hasattr(found, "buffer") else None


def is_in_use() -> bool:
    """Whether there is any shared virtual memory."""
    return bool(starts)


def shared_place(host: NDArray[Any]) -> tuple[VirtualBuffer, int] | None:
    """The buffer whose home contains the bytes of `host`, and their offset; None if they are not shared virtual
    memory.
    """
    address, nbytes = host.ctypes.data, host.nbytes
    found = find(address) if nbytes else None
    if found is None or address + nbytes > found.start + found.nbytes:
        return None
    return found.buffer, address - found.start


def is_shared(host: NDArray[Any]) -> bool:
    """Whether a transfer with host memory is one with shared virtual memory (`shared_place`)."""
    return bool(starts) and shared_place(host) is not None


def live_buffers(session: Session) -> tuple[VirtualBuffer, ...]:
    """The buffers of all allocations of `session` that have not been freed."""
    with _lock:
        if _freed:
            _forget_freed()
        found = [_by_start[start] for start in starts]
    buffers = (getattr(item, "buffer", None) for item in found if item.session is session)
    return tuple(buffer for buffer in buffers if buffer is not None)


def _forget_freed() -> None:
    """Take freed allocations out of the table. Under the lock."""
    while _freed:
        allocation = _freed.popleft()
        if _by_start.get(allocation.start) is allocation:
            del _by_start[allocation.start]
            del starts[bisect_right(starts, allocation.start) - 1]
