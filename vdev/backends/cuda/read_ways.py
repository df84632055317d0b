"""Which way a small read comes to the host that is made again and again: by the copy engine, or by a kernel that writes to pinned memory.

Behind a kernel that still runs, the copy engine takes some microseconds to begin, and another kernel does not; where the GPU has nothing to
do any more, a kernel takes longer (`late_read` and `small_read` in `samples/benchmarks/latency.py`). How long the host looks for the bytes
tells which of both a program's reads are like.
"""

from __future__ import annotations

#: bytes that a kernel brings no more slowly, behind another one
MOST_NBYTES = 16 << 10
#: looks for a read by the copy engine, on average, up to which no other way is tried: the GPU had little left to do
_FEW = 5
#: reads of a trial, and before the next one
_TRIAL, _BETWEEN = 8, 1024


class ReadWays:
    """Those of one read. It is tried by a kernel where the copy engine is waited for, and stays with what the host looks for less."""

    __slots__ = ("_before", "_count", "_left", "_looks", "by_kernel")

    def __init__(self) -> None:
        self.by_kernel = False  #: the next one
        self._looks = 0  #: for the last reads
        self._count = self._left = _TRIAL  #: how many those are to be, and how many are left
        self._before: int | None = None  #: during a trial: the looks for as many by the copy engine

    def took(self, looks: int) -> bool:
        """The last read was there after so many looks. Whether it is time to `decide`."""
        self._looks += looks
        self._left -= 1
        return not self._left

    def decide(self, *, may_change: bool) -> bool:
        """Whether the next read goes the other way. `may_change`: the kernel could be used."""
        looks, count, before = self._looks, self._count, self._before
        self._looks, self._before = 0, None
        self._count = self._left = _TRIAL
        if self.by_kernel:
            if before is not None:
                self._count = self._left = _BETWEEN
                if looks <= before:  # as many: longer than anybody looks
                    return False
            self.by_kernel = False
            return True
        if looks <= _FEW * count or not may_change:
            return False
        self._before = looks * _TRIAL // count
        self.by_kernel = True
        return True
