"""What a finaliser may do where it happens to run.

A `__del__` runs where the last reference is dropped, usually on the program's thread between two calls. There it
may do what a call does. But the collector of cycles runs finalisers anywhere, even inside locks that another
thread wants, and workers drop references too, which must not wait for themselves. Decides which of the two cases it
is; what to do instead of waiting is the finaliser's affair.
"""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Callable
from threading import get_ident
from typing import Any

from vdev.process.forking import in_child

#: identifiers of the threads that everything else waits for
_own_threads: set[int] = set()
#: the thread that is collecting cycles at the moment; Python never collects on two at a time
_collecting: int | None = None


def may_wait() -> bool:
    """Whether a finaliser that runs now, on this thread, may take locks and wait for workers."""
    current = get_ident()
    return current != _collecting and current not in _own_threads


class _Garbage:
    """What only a collection finds."""

    def __init__(self) -> None:
        self.itself = self


def collect(seconds: float = 1.0) -> bool:
    """Free what is garbage in a reference cycle by now, on this thread or another one; whether that has been done.

    While another thread collects, which it may for long where a finaliser lets go of the interpreter's lock, `gc.collect`
    returns without having done anything. It is called again then, for `seconds` at most: the other's finalisers may
    want a lock that the caller has. From within a collection of the current thread there is nothing to wait for.
    """
    found = weakref.ref(_Garbage())
    deadline = time.monotonic() + seconds
    while True:
        gc.collect()
        if found() is None:
            return True
        if _collecting == get_ident() or time.monotonic() > deadline:
            return False
        time.sleep(0.0005)


def enter_own_thread() -> None:
    """Until `leave_own_thread`, the current thread is one that others wait for."""
    _own_threads.add(get_ident())


def leave_own_thread() -> None:
    _own_threads.discard(get_ident())


def _collection(phase: str, info: dict[str, Any], current: Callable[[], int] = get_ident) -> None:
    global _collecting
    # `current`: at the interpreter's end a module's names may be gone
    _collecting = current() if phase == "start" else None


def _forget() -> None:
    """In a forked child: the thread that forked is not a worker, whatever its identifier."""
    _own_threads.clear()


gc.callbacks.append(_collection)
in_child(_forget)
