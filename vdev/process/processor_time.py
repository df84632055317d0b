"""What a thread has computed, without what Python's garbage collector did meanwhile.

A full collection looks at every object there is, which takes tens of milliseconds in a process with this many modules, and comes whenever
so many objects have been made. Whoever is measured then has not taken that time: charged with it, a kernel's first plan would cost a
hundred times what others do, and speak against splitting its launches.

Decides nothing. Small collections count as the work of who made the objects.
"""

from __future__ import annotations

import gc
import time
from threading import get_ident
from typing import Any

_FULL = 2  #: the generation of a full collection
#: by thread: nanoseconds of its full collections, and when the one that is under way began
_collected: dict[int, int] = {}
_began: dict[int, int] = {}


def _note(phase: str, info: dict[str, Any]) -> None:
    """The collector begins, or has ended, on this thread."""
    if info["generation"] != _FULL:
        return
    thread, now = get_ident(), time.thread_time_ns()
    if phase == "start":
        _began[thread] = now
    else:
        _collected[thread] = _collected.get(thread, 0) + now - _began.pop(thread, now)


def watch_collections() -> None:
    """From now on, `busy_ns` leaves them out. It costs a microsecond for each collection."""
    if _note not in gc.callbacks:
        gc.callbacks.append(_note)


def busy_ns() -> int:
    """Nanoseconds of processor time of the calling thread without those of full collections, for differences within the thread."""
    return time.thread_time_ns() - _collected.get(get_ident(), 0)
