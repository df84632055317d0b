"""Allocators and memory pools, which the native module has in C++.

A pool keeps blocks that were given back in bins of similar size and hands them out again. The bins, the
counters and what happens when memory runs out follow the native pool; blocks are `memory.Memory` objects.
"""

from __future__ import annotations

import gc
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any, Protocol

from vdev.facade.context import Context
from vdev.facade.errors import as_int, check_type, fail, native, status
from vdev.facade.memory import (
    COPY_HOST_PTR,
    READ_WRITE,
    USE_HOST_PTR,
    Buffer,
    Memory,
    MemoryObjectHolder,
    check_buffer,
    create_memory,
    wrap_memory,
)
from vdev.facade.queue import CommandQueue


class AllocatorBase:
    """Makes buffers of a context with given flags."""

    _deferred = False
    _context: Context
    _flags: int

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is AllocatorBase:
            raise TypeError("pyopencl._cl.AllocatorBase: no constructor defined!")
        return super().__new__(cls)

    def _set_up(self, context: Context, flags: int) -> None:
        self._context = context
        self._flags = as_int("__init__", flags)
        if self._flags & (USE_HOST_PTR | COPY_HOST_PTR):
            fail("Allocator", status.INVALID_VALUE, "cannot specify USE_HOST_PTR or COPY_HOST_PTR flags")

    def _allocate(self, nbytes: int) -> Memory | None:
        """A new block; None for zero bytes."""
        if nbytes == 0:
            return None
        check_buffer(self._context, self._flags, nbytes, has_host=False)
        return create_memory(self._context, self._flags, nbytes)

    def __call__(self, size: int) -> Buffer | None:
        nbytes = as_int("__call__", size)
        try:
            memory = self._allocate(nbytes)
        except native.Error as error:
            if not error.args[0].is_out_of_memory():
                raise
            gc.collect()
            memory = self._allocate(nbytes)
        return None if memory is None else wrap_memory(memory)


class DeferredAllocator(AllocatorBase):
    """Allocates from a context; memory that cannot be had shows later."""

    _deferred = True

    def __init__(self, queue: Context, mem_flags: int = READ_WRITE) -> None:
        check_type("__init__", queue, Context)
        self._set_up(queue, mem_flags)


class ImmediateAllocator(AllocatorBase):
    """Allocates for a queue."""

    def __init__(self, queue: CommandQueue, mem_flags: int = READ_WRITE) -> None:
        check_type("__init__", queue, CommandQueue)
        self._set_up(queue._context, mem_flags)


class _Source(Protocol):
    """Where a pool gets its blocks."""

    _deferred: bool

    def _allocate(self, nbytes: int) -> Any: ...


class _TestAllocator:
    """Blocks that are nothing, for tests of the pool's arithmetic."""

    _deferred = False

    def _allocate(self, nbytes: int) -> None:
        return None


class _Pool:
    """Bins, counters and the hand-out of blocks; one lock, since programs share pools between threads."""

    def __init__(self, allocator: _Source, leading_bits_in_bin_id: int = 4) -> None:
        self._allocator = allocator
        self._bits = as_int("__init__", leading_bits_in_bin_id, 0, 31)
        self._bins: dict[int, list[Any]] = {}
        self._held_blocks = self._active_blocks = 0
        self._managed_bytes = self._active_bytes = 0
        self._holding = True
        self._trace = 0
        self._lock = threading.RLock()
        if allocator._deferred:
            warnings.warn(
                "Memory pools expect non-deferred semantics from their allocators. You passed a deferred "
                "allocator, i.e. an allocator whose allocations can turn out to be unavailable long after "
                "allocation.",
                UserWarning,
                stacklevel=3,
            )

    @property
    def held_blocks(self) -> int:
        """Blocks given back and kept."""
        return self._held_blocks

    @property
    def active_blocks(self) -> int:
        """Blocks in use by the program."""
        return self._active_blocks

    @property
    def managed_bytes(self) -> int:
        """Bytes of all blocks, in use or kept."""
        return self._managed_bytes

    @property
    def active_bytes(self) -> int:
        """Bytes the program asked for in the blocks it uses."""
        return self._active_bytes

    def bin_number(self, arg: int, /) -> int:
        """The bin of a size: its highest bit, then the `leading_bits_in_bin_id` bits after it."""
        nbytes = as_int("bin_number", arg)
        exponent = max(nbytes.bit_length() - 1, 0)
        shift = exponent - self._bits
        shifted = nbytes >> shift if shift >= 0 else nbytes << -shift
        return exponent << self._bits | shifted & (1 << self._bits) - 1

    def alloc_size(self, arg: int, /) -> int:
        """The size of the blocks in a bin: the largest that belongs there."""
        number = as_int("alloc_size", arg, 0, 2**32 - 1)
        shift = (number >> self._bits) - self._bits
        head = 1 << self._bits | number & (1 << self._bits) - 1
        return (head + 1 << shift) - 1 if shift >= 0 else head >> -shift

    def _take(self, nbytes: int) -> Any:
        """A block for `nbytes` bytes; MemoryError when the pool has given back all it held and there still is
        none.
        """
        with self._lock:
            number = self.bin_number(nbytes)
            blocks = self._bins.setdefault(number, [])
            if blocks:
                found = f"served from bin {number} which contained {len(blocks)} entries"
                self._say(f"allocation of size {nbytes} {found}")
                return self._reuse(blocks, nbytes)
            self._say(f"allocation of size {nbytes} required new memory")
            size = self.alloc_size(number)
            block, failed = self._try_allocate(size)
            if failed:
                self._say("allocation triggered OOM, running GC")
                gc.collect()
                if blocks:
                    return self._reuse(blocks, nbytes)
                self._say("allocation still OOM after GC")
            while failed and self._free_one():
                block, failed = self._try_allocate(size)
            if failed:
                fail(
                    "memory_pool::allocate",
                    status.MEM_OBJECT_ALLOCATION_FAILURE,
                    "failed to free memory for allocation",
                )
            self._active_blocks += 1
            self._managed_bytes += size
            self._active_bytes += nbytes
            return block

    def _try_allocate(self, nbytes: int) -> tuple[Any, bool]:
        """(block, whether memory ran out)"""
        try:
            return self._allocator._allocate(nbytes), False
        except native.Error as error:
            if not error.args[0].is_out_of_memory():
                raise
            return None, True

    def _reuse(self, blocks: list[Any], nbytes: int) -> Any:
        self._held_blocks -= 1
        self._active_blocks += 1
        self._active_bytes += nbytes
        return blocks.pop()

    def _give_back(self, block: Any, nbytes: int) -> None:
        with self._lock:
            self._active_blocks -= 1
            self._active_bytes -= nbytes
            number = self.bin_number(nbytes)
            if self._holding:
                self._held_blocks += 1
                self._bins.setdefault(number, []).append(block)
                count = len(self._bins[number])
                self._say(
                    f"block of size {nbytes} returned to bin {number} which now contains {count} entries"
                )
            else:
                self._managed_bytes -= self.alloc_size(number)
                _release(block)

    def _free_one(self) -> bool:
        """Give back one held block, of the largest there are."""
        for number in sorted(self._bins, reverse=True):
            if self._bins[number]:
                self._drop(number)
                return True
        return False

    def _drop(self, number: int) -> None:
        self._managed_bytes -= self.alloc_size(number)
        self._held_blocks -= 1
        _release(self._bins[number].pop())

    def free_held(self) -> None:
        """Give back all blocks that are not in use."""
        with self._lock:
            while self._free_one():
                pass

    def stop_holding(self) -> None:
        """Keep no blocks from now on."""
        with self._lock:
            self._holding = False
            self.free_held()

    def _set_trace(self, arg: bool, /) -> None:
        self._trace += 1 if arg else -1

    def _say(self, text: str) -> None:
        if self._trace:
            print(f"[pool] {text}")

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if is_ending():
            return
        bins = self.__dict__.get("_bins", {})
        for blocks in bins.values():
            while blocks:
                _release(blocks.pop())


def _release(block: Any) -> None:
    if block is not None:
        block.release()


class PooledBuffer(MemoryObjectHolder):
    """A block of a pool, given back when released or dropped."""

    _memory: Any = None
    _pool: _Pool
    _nbytes: int

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("pyopencl._cl.PooledBuffer: no constructor defined!")

    def release(self) -> None:
        if self._memory is None:
            fail("pooled_device_allocation::free", status.INVALID_VALUE)
        memory, self._memory = self._memory, None
        self._pool._give_back(memory, self._nbytes)

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        # at the interpreter's end a thread that will not run again may hold the pool's lock
        if self._memory is not None and not is_ending():
            self.release()

    def bind_to_queue(self, arg: CommandQueue, /) -> None:
        """Nothing to do: the session orders reuse by bytes."""
        check_type("bind_to_queue", arg, CommandQueue)

    def unbind_from_queue(self) -> None:
        """Nothing to do, as above."""


class MemoryPool(_Pool):
    """A pool of buffers."""

    def __init__(self, allocator: AllocatorBase, leading_bits_in_bin_id: int = 4) -> None:
        check_type("__init__", allocator, AllocatorBase)
        super().__init__(allocator, leading_bits_in_bin_id)

    def allocate(self, size: int) -> PooledBuffer:
        nbytes = as_int("allocate", size)
        pooled: PooledBuffer = object.__new__(PooledBuffer)
        pooled._pool = self
        pooled._nbytes = nbytes
        pooled._memory = self._take(nbytes)
        return pooled

    def __call__(self, size: int) -> PooledBuffer:
        return self.allocate(size)


class _TestMemoryPool(_Pool):
    """A pool of nothing (PyOpenCL's own tests of the bins use it)."""

    def __init__(self, leading_bits_in_bin_id: int = 4) -> None:
        super().__init__(_TestAllocator(), leading_bits_in_bin_id)

    def allocate(self, arg: int, /) -> None:
        nbytes = as_int("allocate", arg)
        block = self._take(nbytes)
        # natively the block's wrapper is never made, so that it stays in use
        return block  # type: ignore[no-any-return]
