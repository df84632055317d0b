"""The memory of one worker: taken from its back end, given back to it, and used again.

Decides how often memory is asked for, what is given back before the next attempt, and which discarded memory serves a
new buffer at once. Who has to wait for what meanwhile is the worker's concern (`vdev.executor.worker`).
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from vdev.backends.base import Allocation, Backend
from vdev.errors import MEM_OBJECT_ALLOCATION_FAILURE, BackendError
from vdev.executor.holdings import Holdings, Replica
from vdev.executor.red_zones import allocate_guarded
from vdev.process.finalisers import collect

if TYPE_CHECKING:
    from vdev.executor.records import WorkRecords

logger = logging.getLogger("vdev.executor")

#: how often memory is asked for, and seconds before the last attempts
_ATTEMPTS, _LETTING_GO = 5, 0.01
#: bytes kept for reuse that do no harm
_SPARE_NBYTES = 64 << 20
#: discarded memory of other sizes that is kept for a while longer when memory of one size is looked for
_MOST_OTHERS = 16
#: where memory is poisoned: what new memory holds, and freed memory
NEW, FREED = b"\xcd", b"\xa5"


class ExecutorWithMemory(Protocol):
    """The executor as its workers' memory sees it."""

    red_zones: bool  #: whether replicas get them

    @property
    def let_go(self) -> Callable[[], bool]:
        """Gives up what nobody uses at the moment."""


class MemoryOwner(Protocol):
    """The worker as its memory sees it (`vdev.executor.worker.Worker`)."""

    number: int
    backend: Backend
    records: WorkRecords | None
    asleep: bool  #: its thread sleeps, or is about to
    watching: bool  #: its thread looks now and then at what there is to do

    @property
    def executor(self) -> ExecutorWithMemory:
        """What it is a worker of."""

    def wake(self) -> None:
        """Let the thread look around."""

    def wait_for_earlier(self) -> None:
        """Wait for everything that came before the current command."""


class WorkerMemory:
    """A worker's memory. Whoever calls it has the worker's turn, except for `discard`."""

    #: for tests: memory is overwritten when it is taken and when it is given back, so that later use shows
    poisoned: ClassVar[bool] = False

    def __init__(self, owner: MemoryOwner) -> None:
        self._owner = owner
        #: memory newly taken since the last mark; much of it makes one due, so that temporaries do not pile up behind
        #: the device
        self.fresh_nbytes = 0
        #: what allocations would have added up to when the back end last refused one, and the most bytes that they
        #: ever did
        self.refused: tuple[int, int] | None = None
        self.discarded: deque[Allocation] = deque()  #: what nothing uses any more, and is not freed yet

    def discard(self, allocation: Allocation) -> None:
        """Free memory that nothing uses any more, soon; safe in a finaliser on any thread."""
        self.discarded.append(allocation)
        # A thread that looks around now and then will find it: programs drop many buffers, and each should not wake
        # it.
        if self._owner.asleep and not self._owner.watching:
            self._owner.wake()

    def allocate(self, nbytes: int, *, sparse: bool = False) -> Allocation:
        """Device memory. If there is none, wait until everything issued is done and what it kept alive is freed.

        `sparse`: as in `Backend.allocate_sparse`.
        """
        counters = self._owner.backend.counters
        if sparse and self._owner.backend.spare_nbytes > _SPARE_NBYTES:
            self._relieve(garbage=False)  # what is kept for reuse would be in the way of its pages
        for attempt in range(_ATTEMPTS):
            try:
                allocation = self._allocate(nbytes, sparse)
                break
            except BackendError as error:
                if error.status == MEM_OBJECT_ALLOCATION_FAILURE and attempt + 1 < _ATTEMPTS:
                    self._relieve(garbage=attempt == 1)
                    # what kept memory alive may be held by a thread that is about to let it go
                    time.sleep(_LETTING_GO * max(attempt - 1, 0))
                    continue
                if not sparse:
                    self.refused = (counters.allocated_nbytes + nbytes, counters.peak_nbytes)
                raise
        self.fresh_nbytes += nbytes
        if self.poisoned and not sparse:
            self._owner.backend.fill(allocation, 0, nbytes, NEW)
        self._note_held()  # a step may give back what it took: the amount at its end does not show the peak
        return allocation

    def _note_held(self) -> None:
        """More is held now, or less: somebody may want to know."""
        owner = self._owner
        if owner.records is not None:
            held = owner.backend.counters.allocated_nbytes
            owner.records.held.append((time.perf_counter_ns(), owner.number, held))

    def place(self, holdings: Holdings) -> bool:
        """On a thread that has the turn: give a new buffer's `holdings` their memory here, if that can be had at
        once.
        """
        if self.poisoned or self._owner.executor.red_zones:
            return False
        nbytes = holdings.nbytes
        allocation = self._given_back(nbytes) if self.discarded else None
        if allocation is None:
            try:
                allocation = self._allocate(nbytes, sparse=False)
            except BackendError:  # a plan can make room for it, or wait for some
                return False
            self.fresh_nbytes += nbytes
            self._note_held()
        holdings.replicas[self._owner.number] = Replica(allocation, 0, nbytes)
        return True

    def place_again(self, holdings: Holdings) -> bool:
        """The same in memory that was given back, for which the thread need not be ready to call the back end; False where there is
        none at hand.
        """
        owner, nbytes, discarded = self._owner, holdings.nbytes, self.discarded
        if self.poisoned or owner.executor.red_zones:
            return False
        allocation: Allocation | None = None
        if not discarded:
            if not owner.backend.info.limit_nbytes:
                allocation = owner.backend.allocate_again(nbytes)
            if allocation is None:
                return False
            self.fresh_nbytes += nbytes
            self._note_held()
        else:
            allocation = discarded[0]  # others only append to them
            if allocation.counted_nbytes != nbytes or allocation.whole is not None:
                return False
            discarded.popleft()
        holdings.replicas[owner.number] = Replica(allocation, 0, nbytes)
        return True

    def take_new(self, start: int, stop: int, enter: Callable[[Any], object]) -> Replica | None:
        """On a thread that has the turn: memory for bytes [start, stop) of a new buffer, for work behind everything that has been handed
        over; None if it cannot be had at once. `enter` is called with the worker before the back end may need it.
        """
        owner, nbytes = self._owner, stop - start
        if owner.executor.red_zones:
            return None
        allocation = self._given_back(nbytes) if self.discarded and not self.poisoned else None
        if allocation is None:
            backend = owner.backend
            if not (self.poisoned or backend.info.limit_nbytes):
                allocation = backend.allocate_again(nbytes)
            if allocation is None:
                enter(owner)
                try:
                    allocation = self._allocate(nbytes, sparse=False)
                    if self.poisoned:
                        backend.fill(allocation, 0, nbytes, NEW)
                except BackendError:  # a plan can make room for it, or wait for some
                    return None
            self.fresh_nbytes += nbytes
            self._note_held()
        return Replica(allocation, start, stop)

    def _given_back(self, nbytes: int) -> Allocation | None:
        """Memory of that size that nothing uses any more, for work behind everything that has been handed over: a
        program's arrays of a few sizes come and go.

        None if nothing fits: then all that was discarded is freed.
        """
        discarded = self.discarded
        found = discarded.popleft()
        if found.counted_nbytes == nbytes and found.whole is None:  # mostly
            return found
        discarded.appendleft(found)
        others: deque[Allocation] = deque()
        while discarded:
            found = discarded.popleft()
            if found.counted_nbytes == nbytes and found.whole is None:
                discarded.extendleft(others)
                return found
            others.appendleft(found)
            if len(others) > _MOST_OTHERS:
                self._free(others.pop())
        while others:
            self._free(others.pop())
        return None

    def _allocate(self, nbytes: int, sparse: bool) -> Allocation:
        if sparse:
            return self._owner.backend.allocate_sparse(nbytes)
        limit = self._owner.backend.info.limit_nbytes
        if limit and self._owner.backend.counters.allocated_nbytes + nbytes > limit:
            text = f"{nbytes} bytes are more than VDEV_MEMORY leaves worker {self._owner.number}"
            raise BackendError(MEM_OBJECT_ALLOCATION_FAILURE, text)
        return self._owner.backend.allocate(nbytes)

    def free(self, allocation: Allocation) -> None:
        """Give memory back behind everything that has been handed over here. What others read of it has been ordered
        before (`Holdings.before_write`).
        """
        if self.poisoned and allocation.counted_nbytes:
            self._owner.backend.fill(allocation, 0, allocation.nbytes, FREED)
        self._owner.backend.free(allocation)

    def allocate_replica(self, start: int, stop: int, nbytes: int, *, sparse: bool) -> Allocation:
        """Memory for [start, stop) of a buffer of `nbytes` bytes."""
        if self._owner.executor.red_zones and not sparse and not self._owner.backend.info.limit_nbytes:
            return allocate_guarded(self._owner.backend, self.allocate, start, stop, nbytes)
        return self.allocate(stop - start, sparse=sparse)

    def _relieve(self, *, garbage: bool) -> None:
        """Wait for everything that came before the current command, and give back what nothing uses any more:
        `Occupancy` counts that as free.

        `garbage`: also free the program's buffers that are garbage in a reference cycle, as PyOpenCL does before it
        gives up.
        """
        self._owner.wait_for_earlier()
        self._owner.executor.let_go()
        if garbage:
            collect()
        self.free_discarded()
        self._owner.backend.trim()

    def first_discarded(self) -> Allocation | None:
        try:
            return self.discarded[0]
        except IndexError:
            return None

    def free_discarded(self) -> bool:
        """Free what has been discarded; whether there was anything."""
        if not self.discarded:
            return False
        while self.discarded:
            self._free(self.discarded.popleft())
        self._note_held()
        return True

    def _free(self, allocation: Allocation) -> None:
        try:
            self.free(allocation)
        except BackendError as error:  # no command's failure: the memory simply stays taken
            logger.info("%d bytes of memory are not given back: %s", allocation.nbytes, error)
