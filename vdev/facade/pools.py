"""Allocators and memory pools, which the native module has in C++.

A pool keeps blocks that were given back in bins of similar size and hands them out again. The bins, the counters and
the behaviour when memory runs out follow the native pool; blocks are `memory.Memory` objects.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any, Protocol

from vdev.facade.context import Context
from vdev.facade.errors import as_int, check_type, fail, native, status
from vdev.facade.handles import Single, state_of
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
from vdev.process.finalisers import collect


class Source(Protocol):
    """Where a pool gets its blocks."""

    is_deferred: bool  #: whether missing memory is only noticed later

    def allocate(self, nbytes: int) -> Any:
        """A new block; None for zero bytes."""


class BufferSource:
    """Memory objects of a context with given flags."""

    def __init__(self, context: Context, flags: Any, is_deferred: bool) -> None:
        self.is_deferred = is_deferred
        self.context = context
        self.flags = as_int("__init__", flags)
        if self.flags & (USE_HOST_PTR | COPY_HOST_PTR):
            fail("Allocator", status.INVALID_VALUE, "cannot specify USE_HOST_PTR or COPY_HOST_PTR flags")

    def allocate(self, nbytes: int) -> Memory | None:
        """A new block; None for zero bytes."""
        if nbytes == 0:
            return None
        check_buffer(self.context, self.flags, nbytes, has_host=False)
        return create_memory(self.context, self.flags, nbytes)


class AllocatorBase(Single):
    """Makes buffers of a context with given flags."""

    _vdev_state: BufferSource

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is AllocatorBase:
            raise TypeError("pyopencl._cl.AllocatorBase: no constructor defined!")
        return super().__new__(cls)

    def __call__(self, size: int) -> Buffer | None:
        nbytes = as_int("__call__", size)
        try:
            memory = self._vdev_state.allocate(nbytes)
        except native.Error as error:
            if not error.args[0].is_out_of_memory():
                raise
            collect()
            memory = self._vdev_state.allocate(nbytes)
        return None if memory is None else wrap_memory(memory)


class DeferredAllocator(AllocatorBase):
    """Allocates from a context; missing memory is only noticed later."""

    def __init__(self, queue: Context, mem_flags: int = READ_WRITE) -> None:
        check_type("__init__", queue, Context)
        self._vdev_state = BufferSource(queue, mem_flags, is_deferred=True)


class ImmediateAllocator(AllocatorBase):
    """Allocates for a queue."""

    def __init__(self, queue: CommandQueue, mem_flags: int = READ_WRITE) -> None:
        check_type("__init__", queue, CommandQueue)
        self._vdev_state = BufferSource(state_of(queue).context, mem_flags, is_deferred=False)


class _TestSource:
    """Blocks without memory, for tests of the pool's arithmetic."""

    is_deferred = False

    def allocate(self, nbytes: int) -> None:
        return None


class Blocks:
    """The blocks of a pool: bins, counters and handing out. It has one lock, since programs share pools between
    threads.
    """

    def __init__(self, source: Source, leading_bits: int) -> None:
        self._source = source
        self._bits = leading_bits
        self._bins: dict[int, list[Any]] = {}
        self.held = self.active = 0  #: blocks
        self.managed_nbytes = self.active_nbytes = 0
        self.trace = (
            0  #: how often tracing has been asked for: the pool says what it does while that is not 0
        )
        self._is_holding = True
        self._lock = threading.RLock()

    def bin_number(self, nbytes: int) -> int:
        """The bin of a size: its highest bit, then as many bits after it as the pool was made for."""
        exponent = max(nbytes.bit_length() - 1, 0)
        shift = exponent - self._bits
        shifted = nbytes >> shift if shift >= 0 else nbytes << -shift
        return exponent << self._bits | shifted & (1 << self._bits) - 1

    def alloc_size(self, number: int) -> int:
        """The size of the blocks in a bin: the largest that belongs there."""
        shift = (number >> self._bits) - self._bits
        head = 1 << self._bits | number & (1 << self._bits) - 1
        return (head + 1 << shift) - 1 if shift >= 0 else head >> -shift

    def take(self, nbytes: int) -> Any:
        """A block for `nbytes` bytes; MemoryError if the pool has given back all that it held and there still is
        none.
        """
        with self._lock:
            number = self.bin_number(nbytes)
            blocks = self._bins.get(number)
            if blocks is None:
                blocks = self._bins[number] = []
            if blocks:
                if self.trace:
                    found = f"served from bin {number} which contained {len(blocks)} entries"
                    self._say(f"allocation of size {nbytes} {found}")
                return self._reuse(blocks, nbytes)
            self._say(f"allocation of size {nbytes} required new memory")
            size = self.alloc_size(number)
            block, failed = self._try_allocate(size)
            if failed:
                self._say("allocation triggered OOM, running GC")
                collect()
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
            self.active += 1
            self.managed_nbytes += size
            self.active_nbytes += nbytes
            return block

    def _try_allocate(self, nbytes: int) -> tuple[Any, bool]:
        """(block, whether memory ran out)"""
        try:
            return self._source.allocate(nbytes), False
        except native.Error as error:
            if not error.args[0].is_out_of_memory():
                raise
            return None, True

    def _reuse(self, blocks: list[Any], nbytes: int) -> Any:
        self.held -= 1
        self.active += 1
        self.active_nbytes += nbytes
        return blocks.pop()

    def give_back(self, block: Any, nbytes: int) -> None:
        """Keep a block for its next use, or release it."""
        with self._lock:
            self.active -= 1
            self.active_nbytes -= nbytes
            number = self.bin_number(nbytes)
            if self._is_holding:
                self.held += 1
                blocks = self._bins.get(number)
                if blocks is None:
                    blocks = self._bins[number] = []
                blocks.append(block)
                if self.trace:
                    count = len(blocks)
                    self._say(
                        f"block of size {nbytes} returned to bin {number} which now contains {count} entries"
                    )
            else:
                self.managed_nbytes -= self.alloc_size(number)
                _release(block)

    def _free_one(self) -> bool:
        """Give back one held block, one of the largest."""
        for number in sorted(self._bins, reverse=True):
            if self._bins[number]:
                self._drop(number)
                return True
        return False

    def _drop(self, number: int) -> None:
        self.managed_nbytes -= self.alloc_size(number)
        self.held -= 1
        _release(self._bins[number].pop())

    def free_held(self) -> None:
        """Give back all blocks that are not in use."""
        with self._lock:
            while self._free_one():
                pass

    def stop_holding(self) -> None:
        """Keep no blocks from now on."""
        with self._lock:
            self._is_holding = False
            self.free_held()

    def _say(self, text: str) -> None:
        if self.trace:
            print(f"[pool] {text}")

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        # with the pool's last block: blocks in use keep it alive
        if is_ending():
            return
        for blocks in self._bins.values():
            while blocks:
                _release(blocks.pop())


class _Pool(Single):
    """A pool as a program sees it."""

    def __init__(self, source: Source, leading_bits_in_bin_id: int = 4) -> None:
        self._vdev_state = Blocks(source, as_int("__init__", leading_bits_in_bin_id, 0, 31))
        if source.is_deferred:
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
        return self._vdev_state.held

    @property
    def active_blocks(self) -> int:
        """Blocks in use by the program."""
        return self._vdev_state.active

    @property
    def managed_bytes(self) -> int:
        """Bytes of all blocks, in use or kept."""
        return self._vdev_state.managed_nbytes

    @property
    def active_bytes(self) -> int:
        """Bytes the program asked for in the blocks it uses."""
        return self._vdev_state.active_nbytes

    def bin_number(self, arg: int, /) -> int:
        """The bin of a size: its highest bit, then the `leading_bits_in_bin_id` bits after it."""
        return self._vdev_state.bin_number(as_int("bin_number", arg))

    def alloc_size(self, arg: int, /) -> int:
        """The size of the blocks in a bin: the largest that belongs there."""
        return self._vdev_state.alloc_size(as_int("alloc_size", arg, 0, 2**32 - 1))

    def free_held(self) -> None:
        """Give back all blocks that are not in use."""
        self._vdev_state.free_held()

    def stop_holding(self) -> None:
        """Keep no blocks from now on."""
        self._vdev_state.stop_holding()

    def _set_trace(self, arg: bool, /) -> None:
        self._vdev_state.trace += 1 if arg else -1


def _release(block: Any) -> None:
    if block is not None:
        block.release()


class PooledBuffer(MemoryObjectHolder):
    """A block of a pool, given back when released or dropped."""

    _vdev_state: Any = None  #: the block, as long as there is one

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("pyopencl._cl.PooledBuffer: no constructor defined!")

    def __init__(self, pool: Blocks, nbytes: int) -> None:
        self._pool = pool
        self._nbytes = nbytes
        self._vdev_state = pool.take(nbytes)

    def release(self) -> None:
        if self._vdev_state is None:
            fail("pooled_device_allocation::free", status.INVALID_VALUE)
        memory, self._vdev_state = self._vdev_state, None
        self._pool.give_back(memory, self._nbytes)

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        # at the interpreter's end a thread that will not run again may hold the pool's lock
        if self._vdev_state is not None and not is_ending():
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
        super().__init__(state_of(allocator), leading_bits_in_bin_id)

    def allocate(self, size: int) -> PooledBuffer:
        nbytes = as_int("allocate", size)
        pooled: PooledBuffer = object.__new__(PooledBuffer)
        PooledBuffer.__init__(pooled, self._vdev_state, nbytes)
        return pooled

    def __call__(self, size: int) -> PooledBuffer:
        return self.allocate(size)


class _TestMemoryPool(_Pool):
    """A pool of nothing (PyOpenCL's own tests of the bins use it)."""

    def __init__(self, leading_bits_in_bin_id: int = 4) -> None:
        super().__init__(_TestSource(), leading_bits_in_bin_id)

    def allocate(self, arg: int, /) -> None:
        nbytes = as_int("allocate", arg)
        block = self._vdev_state.take(nbytes)
        # natively the block's wrapper is never made, so the block stays in use
        return block  # type: ignore[no-any-return]
