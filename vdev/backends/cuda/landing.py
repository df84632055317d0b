"""Pinned memory in which reads arrive.

The driver copies to plain memory only once the stream has come so far, and keeps the calling thread until then; to pinned
memory it copies in the order of the stream. Decides which memory a read gets: memory is lent to one read at a time and kept
for the next. A read that nobody takes gives its memory back as well: what is copied there later, of the same
stream, comes after it.

Small reads arrive there whoever waits for them, longer ones if nobody waits yet: another thread would have to wait for the stream. Pinning
takes as long as several copies of as many bytes; so memory for longer ones is pinned once reads that had none have taken about as long.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from vdev.backends.base import Bytes
from vdev.backends.call_lists import PreparedCall, prepared
from vdev.backends.cuda.driver import Driver
from vdev.errors import MEM_OBJECT_ALLOCATION_FAILURE, BackendError

logger = logging.getLogger("vdev.cuda")

#: bytes that a read may have for which somebody waits
LANDING_NBYTES = 64 << 10
#: … for which nobody does yet: who takes them copies them, as fast as one thread copies memory
_LONGER_NBYTES = (256 << 10, 1 << 20, 4 << 20)
#: of memory for longer ones, the most that a worker keeps
_MOST_NBYTES = 32 << 20
#: bytes that are pinned in the time that it takes to wake another thread, which makes a read that has no memory: of the order of
#: a hundred microseconds
_WAKING_NBYTES = 160 << 10


class Landing:
    """The pinned memory of one worker's reads."""

    def __init__(self, cupy: Any, driver: Driver, stream: int, events: Callable[[], int]) -> None:
        """`stream`: the worker's. `events`: gives events that nobody else uses."""
        self._cupy = cupy
        self._driver, self._stream, self._events = driver, stream, events
        #: memory of `LANDING_NBYTES` that nothing under way uses, unless what follows comes behind it
        self.free: list[Pinned] = []
        #: the same of longer reads, by bytes
        self._longer: dict[int, list[Pinned]] = {nbytes: [] for nbytes in _LONGER_NBYTES}
        #: of these, the bytes of reads for which there was none
        self._missed = dict.fromkeys(_LONGER_NBYTES, 0)
        self._left = _MOST_NBYTES  #: that may still be pinned for longer reads

    def filled(self) -> list[Pinned]:
        """What is free for small reads, which is not nothing."""
        if not self.free:
            self.free.append(self._pinned(LANDING_NBYTES, self.free))
        return self.free

    def free_for(self, nbytes: int) -> list[Pinned]:
        """What is free for reads of so many bytes: always the same list."""
        size = _size_of(nbytes)
        return self.free if nbytes <= LANDING_NBYTES or size is None else self._longer[size]

    def takes(self, nbytes: int) -> bool:
        """Whether to read so many bytes into memory from here, for a program that does not wait for them yet: `take` follows, or one more
        read has taken another way.
        """
        if nbytes <= LANDING_NBYTES:
            return nbytes > 0
        size = _size_of(nbytes)
        if size is None or self._longer[size]:
            return size is not None
        self._missed[size] += _WAKING_NBYTES
        return self._missed[size] >= size <= self._left

    def take(self, nbytes: int) -> Pinned:
        """Memory for a read of so many bytes, which a `Lent` gets, or goes back to its `free`. Raises BackendError where nothing can be
        pinned.
        """
        free = self.free_for(nbytes)
        if free is self.free:
            return self.filled().pop()
        if not free:
            size = _size_of(nbytes) or nbytes
            free.append(self._pinned(size, free))
            self._left -= size
            self._missed[size] = 0
        return free.pop()

    def _pinned(self, nbytes: int, free: list[Pinned]) -> Pinned:
        try:
            return Pinned(self._cupy, free, nbytes)
        except self._cupy.cuda.runtime.CUDARuntimeError as error:
            self._left = 0
            logger.info("%d bytes for reads were not pinned: %s", nbytes, error)
            raise BackendError(MEM_OBJECT_ALLOCATION_FAILURE, str(error)) from error

    def give_back(self) -> None:
        """Give the driver all memory that is not lent; no read follows. What is lent goes with the reads, which may be on threads
        that the end of the process does not wait for.
        """
        for free in (self.free, *self._longer.values()):
            for pinned in free:
                pinned.memory = None
            free.clear()
        self._left = 0

    def record(self, pinned: Pinned) -> None:
        """What has just been handed over ends with a copy to that memory: it can be waited for alone (`Lent.event`)."""
        pinned.event = self._events()
        event, stream = ctypes.c_void_p(pinned.event), ctypes.c_void_p(self._stream)
        pinned.record = prepared(partial(self._driver.record_assembled, event, stream))
        pinned.is_recorded = not pinned.record()


class Pinned:
    """Pinned memory of one read."""

    __slots__ = ("address", "array", "event", "free", "is_recorded", "memory", "record")

    def __init__(self, cupy: Any, free: list[Pinned], nbytes: int = LANDING_NBYTES) -> None:
        self.free = free  #: where it belongs while nobody uses it
        self.memory: Any = cupy.cuda.PinnedMemory(nbytes, cupy.cuda.runtime.hostAllocPortable)
        self.address: int = self.memory.ptr
        # NumPy would load its module for ctypes only for this
        bytes_there = (ctypes.c_uint8 * nbytes).from_address(self.address)
        self.array: Bytes = np.frombuffer(memoryview(bytes_there), np.uint8)
        #: behind the last copy that came here for a program that did not wait for it, and what records it there; none at first
        self.event = 0
        self.record: PreparedCall | None = None
        self.is_recorded = False  #: whether it is behind the copy for which the memory is lent


class Lent:
    """Memory lent to one read, of `nbytes` bytes, and put back when this is gone. It is what delivers them (`Deliver`)."""

    __slots__ = ("_nbytes", "_pinned")

    def __init__(self, pinned: Pinned, nbytes: int) -> None:
        self._pinned = pinned
        self._nbytes = nbytes

    def __call__(self, target: Bytes, at: int) -> None:
        """What has arrived, into an array from byte `at` on."""
        nbytes = self._nbytes
        target[at : at + nbytes] = self._pinned.array[:nbytes]

    @property
    def event(self) -> int:
        """Behind the copy that was made here; 0 if there is none."""
        return self._pinned.event if self._pinned.is_recorded else 0

    def __del__(self) -> None:
        pinned = self._pinned
        pinned.is_recorded = False
        pinned.free.append(pinned)  # safe in a finaliser on any thread


def _size_of(nbytes: int) -> int | None:
    """Bytes of the memory that a longer read of so many gets; None if it gets none."""
    for size in _LONGER_NBYTES:
        if nbytes <= size:
            return size
    return None
