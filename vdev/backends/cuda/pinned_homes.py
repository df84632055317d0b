"""Homes of buffers that are copied again and again, pinned where they are.

A GPU's link reads and writes pinned memory at its own speed, some 50 GB/s; of plain memory the driver copies some 10 GB/s, into blocks
of its own. Pinning takes as long as several copies. Knows which memory is pinned, for all GPUs of the process, and gives it back; which is
worth it decides `vdev.executor.holdings`.

The driver does not take bytes out of pinned memory before it copies them: whoever copies from there waits until they have been copied.
"""

from __future__ import annotations

import logging
import threading
from bisect import bisect_right, insort
from collections import deque
from typing import Any

import numpy as np

from vdev.backends.base import Bytes

logger = logging.getLogger("vdev.cuda")

_PORTABLE = 1  #: cudaHostRegisterPortable: pinned for all GPUs


class PinnedHome:
    """Memory that stays pinned as long as this lives, and alive until it no longer is."""

    __slots__ = ("_homes", "_memory")

    def __init__(self, homes: PinnedHomes, memory: Bytes) -> None:
        self._homes, self._memory = homes, memory

    def __del__(self) -> None:
        self._homes.released.append(self._memory)  # safe in a finaliser on any thread


class PinnedHomes:
    """The process's pinned homes. Any thread may use it."""

    def __init__(self, cupy: Any) -> None:
        self._runtime = cupy.cuda.runtime
        self._lock = threading.Lock()
        #: where they start, in order, and by that where they end; they never overlap
        self.starts: list[int] = []
        self._stops: dict[int, int] = {}
        #: what is no longer used, until it is given back
        self.released: deque[Bytes] = deque()

    def pin(self, memory: Bytes) -> PinnedHome | None:
        """Pin memory that lives as long as something refers to it. None where it is not such memory, or is pinned already, or the
        driver refuses.
        """
        start, nbytes = memory.ctypes.data, memory.nbytes
        if not nbytes or not _is_owned(memory):
            return None
        with self._lock:
            self._give_back_released()
            if self._covering(start) or self._covering(start + nbytes - 1):
                return None
            try:
                self._runtime.hostRegister(start, nbytes, _PORTABLE)
            except self._runtime.CUDARuntimeError as error:
                logger.info("%d bytes of the host's memory stay as they are: %s", nbytes, error)
                return None
            insort(self.starts, start)
            self._stops[start] = start + nbytes
        return PinnedHome(self, memory)

    def cover(self, start: int, nbytes: int) -> bool:
        """Whether all of so many bytes from an address on are pinned."""
        if self.released:
            with self._lock:
                self._give_back_released()
        with self._lock:
            return self._covering(start) >= start + nbytes

    def touch(self, start: int, nbytes: int) -> bool:
        """Whether any of them is."""
        with self._lock:
            at = bisect_right(self.starts, start + nbytes - 1)
            return at > 0 and self._stops[self.starts[at - 1]] > start

    def close(self) -> None:
        """Give back all that is pinned: nothing is copied any more."""
        with self._lock:
            for start in self.starts:
                self._unpin(start)
            self.starts.clear()
            self._stops.clear()
            self.released.clear()

    def _covering(self, address: int) -> int:
        """Where the pinned memory ends that has an address; 0 if none has."""
        at = bisect_right(self.starts, address)
        stop = self._stops[self.starts[at - 1]] if at else 0
        return stop if stop > address else 0

    def _give_back_released(self) -> None:
        while self.released:
            memory = self.released.popleft()  # which must not go before it is unpinned
            start = memory.ctypes.data
            if start in self._stops:
                self._unpin(start)
                self.starts.remove(start)
                del self._stops[start]

    def _unpin(self, start: int) -> None:
        try:
            self._runtime.hostUnregister(start)
        except self._runtime.CUDARuntimeError as error:  # with a lost GPU all of it is refused
            logger.info("the driver gives back pinned memory by itself at the end: %s", error)


def _is_owned(memory: Bytes) -> bool:
    """Whether the bytes of an array belong to it or to an array that it refers to."""
    owner: Any = memory
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    return owner.base is None and bool(owner.flags.owndata)
