"""Pinned memory in which small reads arrive.

The driver copies to plain memory only once the stream has come so far, and keeps the calling thread until then; to pinned
memory it copies in the order of the stream. Decides which memory a read gets: memory is lent to one read at a time and kept
for the next. A read that nobody takes gives its memory back as well: what is copied there later, of the same
stream, comes after it.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from vdev.backends.base import Bytes

#: bytes that a read may have
LANDING_NBYTES = 64 << 10


class Landing:
    """The pinned memory of one worker's small reads."""

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        #: memory that nothing under way uses, unless what follows comes behind it
        self.free: list[Pinned] = []

    def filled(self) -> list[Pinned]:
        """What is free, which is not nothing."""
        if not self.free:
            self.free.append(Pinned(self._cupy))
        return self.free

    def give_back(self) -> None:
        """Give the driver all memory that is not lent; no read follows. What is lent goes with the reads, which may be on threads
        that the end of the process does not wait for.
        """
        for pinned in self.free:
            pinned.memory = None
        self.free.clear()

    def lend(self, pinned: Pinned) -> Lent:
        """Memory for one read, put back when what is returned is gone."""
        return Lent(self.free, pinned)


class Pinned:
    """Pinned memory of one read."""

    __slots__ = ("address", "array", "memory")

    def __init__(self, cupy: Any) -> None:
        self.memory: Any = cupy.cuda.PinnedMemory(LANDING_NBYTES, cupy.cuda.runtime.hostAllocPortable)
        self.address: int = self.memory.ptr
        # NumPy would load its module for ctypes only for this
        bytes_there = (ctypes.c_uint8 * LANDING_NBYTES).from_address(self.address)
        self.array: Bytes = np.frombuffer(memoryview(bytes_there), np.uint8)


class Lent:
    """Memory lent to one read."""

    __slots__ = ("_free", "_pinned")

    def __init__(self, free: list[Pinned], pinned: Pinned) -> None:
        self._free = free
        self._pinned = pinned

    def copy_to(self, target: Bytes, at: int, nbytes: int) -> None:
        """What has arrived, `nbytes` bytes of it, into an array from byte `at` on."""
        target[at : at + nbytes] = self._pinned.array[:nbytes]

    def __del__(self) -> None:
        self._free.append(self._pinned)  # safe in a finaliser on any thread
