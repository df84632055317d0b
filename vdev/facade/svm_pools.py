"""Pools of shared virtual memory, which the native module has in C++.

The bins, the counters and the behaviour when memory runs out are those of every pool. Decides in which queue's order
a block may be used again: a block comes back with the queue that it was bound to.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from vdev.facade.errors import as_int, check_type, fail, status
from vdev.facade.handles import state_of
from vdev.facade.pools import Blocks, _Pool
from vdev.facade.queue import CommandQueue
from vdev.facade.svm import AllocatorState, SVMAllocator, SVMPointer, join_queues, refuse_out_of_order
from vdev.facade.svm_memory import Allocation


class _Block:
    """An allocation and the queue in whose order it is freed."""

    __slots__ = ("allocation", "queue")

    def __init__(self, allocation: Allocation | None, queue: CommandQueue | None) -> None:
        self.allocation = allocation  #: None if there was no memory: NULL, as natively
        self.queue = queue

    def bind(self, queue: CommandQueue) -> None:
        join_queues(self.queue, queue)
        self.queue = queue

    def unbind(self) -> None:
        if self.queue is not None:
            self.queue.finish()
        self.queue = None

    def release(self) -> None:
        """In the order of the queue: commands on their way keep the memory until they are done."""
        self.queue = None
        if self.allocation is not None:
            self.allocation.free()


class _Source:
    """Blocks from an SVM allocator."""

    is_deferred = False

    def __init__(self, allocator: AllocatorState) -> None:
        self._allocator = allocator

    def allocate(self, nbytes: int) -> _Block:
        return _Block(self._allocator.allocate(nbytes), self._allocator.queue)


class PooledSVM(SVMPointer):
    """A block of a pool of shared virtual memory, given back when released or dropped."""

    _vdev_state: _Block | None = None  #: as long as there is one

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("pyopencl._cl.PooledSVM: no constructor defined!")

    def __init__(self, pool: Blocks, nbytes: int, block: _Block) -> None:
        super().__init__(0 if block.allocation is None else block.allocation.start, nbytes, block)
        self._pool = pool

    def release(self) -> None:
        """Give the block back. The address stays, as natively."""
        if self._vdev_state is None:
            fail("pooled_device_allocation::free", status.INVALID_VALUE)
        block, self._vdev_state = self._vdev_state, None
        self._pool.give_back(block, self._nbytes)

    def enqueue_release(self) -> None:
        """The same: a pool's blocks are used again in the order of their queues."""
        self.release()

    def bind_to_queue(self, arg: CommandQueue, /) -> None:
        check_type("bind_to_queue", arg, CommandQueue)
        refuse_out_of_order(arg, "PooledSVM.bind_to_queue")
        if self._vdev_state is not None:
            self._vdev_state.bind(arg)

    def unbind_from_queue(self) -> None:
        if self._vdev_state is not None:
            self._vdev_state.unbind()

    @property
    def _queue(self) -> CommandQueue | None:
        return None if self._vdev_state is None else self._vdev_state.queue

    def __eq__(self, other: object) -> bool:
        check_type("__eq__", other, PooledSVM)
        return isinstance(other, PooledSVM) and self._address == other._address

    def __hash__(self) -> int:
        return self._address

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        # at the interpreter's end a thread that will not run again may hold the pool's lock
        if self._vdev_state is not None and not is_ending():
            self.release()


class SVMPool(_Pool):
    """A pool of shared virtual memory."""

    def __init__(self, allocator: SVMAllocator, leading_bits_in_bin_id: int = 4) -> None:
        check_type("__init__", allocator, SVMAllocator)
        self._allocator = state_of(allocator)
        super().__init__(_Source(self._allocator), leading_bits_in_bin_id)

    def __call__(self, size: int) -> PooledSVM:
        nbytes = as_int("__call__", size)
        block: _Block = self._vdev_state.take(nbytes)
        self._hand_out(block)
        pooled: PooledSVM = object.__new__(PooledSVM)
        PooledSVM.__init__(pooled, self._vdev_state, nbytes, block)
        return pooled

    def _hand_out(self, block: _Block) -> None:
        """Bind a used block to the allocator's queue; without a queue, everything must be done first."""
        queue = self._allocator.queue
        if queue is not None:
            block.bind(queue)
        else:
            block.unbind()
