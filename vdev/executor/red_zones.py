"""Red zones: memory around a replica, under VDEV_CHECK=1, that no kernel may touch.

They stand in for the neighbouring bytes of the buffer: a kernel that writes outside what its worker was given leaves
a mark here instead of in other memory, and one that reads there finds values that exist nowhere else. Decides how
large they are and what they hold. Never says whose fault a mark is.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vdev.backends.base import Allocation, Backend, Box, Bytes
from vdev.errors import MEM_OBJECT_ALLOCATION_FAILURE, BackendError
from vdev.executor.holdings import Replica

#: how much of the buffer, in bytes, a zone on either side stands for at most
MOST_NBYTES = 64 << 20
#: bytes of a zone beyond either end of the buffer; zones are whole multiples of it: a page
PAGE = 4096
#: what zones hold, in every word: a small number, so that one that serves as an index leads nowhere far
PATTERN = b"\x03\0\0\0"


def zones_of(start: int, stop: int, nbytes: int) -> tuple[int, int]:
    """Bytes before and behind a replica of [start, stop) of a buffer of `nbytes` bytes."""
    ahead, behind = (min(beside, MOST_NBYTES) + PAGE for beside in (start, max(nbytes - stop, 0)))
    return -(-ahead // PAGE) * PAGE, -(-behind // PAGE) * PAGE


def allocate_guarded(
    backend: Backend, allocate: Callable[[int], Allocation], start: int, stop: int, nbytes: int
) -> Allocation:
    """Memory for [start, stop) of a buffer of `nbytes` bytes, between two red zones where these fit."""
    ahead, behind = zones_of(start, stop, nbytes)
    inside = stop - start
    try:
        whole = allocate(ahead + -(-inside // PAGE) * PAGE + behind)
    except BackendError as error:
        if error.status != MEM_OBJECT_ALLOCATION_FAILURE:
            raise
        return allocate(inside)
    try:
        backend.fill(whole, 0, whole.nbytes, PATTERN)
        return backend.part(whole, ahead, inside)
    except BackendError:
        backend.free(whole)
        raise


def first_mark(backend: Backend, replica: Replica) -> Callable[[], int | None]:
    """Start reading a replica's red zones.

    The function that is returned, called once that is done, gives the buffer's byte at which the mark nearest to the
    replica is; None if there is none. Bytes beyond the buffer's ends are numbered, too.
    """
    part = replica.allocation
    whole = part.whole
    if whole is None:
        return lambda: None
    spans = (0, part.ahead), (part.ahead + part.nbytes, whole.nbytes)
    found: list[Bytes] = []
    for low, high in spans:
        found.append(np.empty(high - low, np.uint8))
        backend.read(whole, found[-1], Box.contiguous(low, 0, high - low))

    def look() -> int | None:
        marks = []
        for (low, _high), content in zip(spans, found, strict=True):
            word = np.roll(np.frombuffer(PATTERN, np.uint8), -low)
            expected = np.tile(word, -(-content.size // word.size))[: content.size]
            wrong = np.flatnonzero(content != expected)
            marks += (
                [low + int(at) - part.ahead + replica.start for at in wrong[[0, -1]]] if wrong.size else []
            )
        return min(marks, key=lambda at: max(replica.start - at, at - replica.stop)) if marks else None

    return look


__all__ = ["allocate_guarded", "first_mark", "zones_of"]
