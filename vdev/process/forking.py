"""fork(): what a child has of its parent, and what it must not touch.

A child has its parent's memory and none of its threads: locks that other threads held stay locked, workers never
answer, and libraries of drivers wait for their own threads. So in a child vdev's locks are new ones, and every part
of vdev forgets what belongs to the parent, by the actions given to `in_child`. The driver's objects are left as they
are, neither used nor released. Just before a fork, the `before` actions make sure that no thread is inside a driver:
neither a worker's, which is known by its locks, nor one of the program's, which may wait there without holding any
(`in_driver`).

Decides nothing about what a part forgets.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterable
from functools import cached_property
from threading import get_ident
from types import ModuleType
from typing import TypeVar

T = TypeVar("T")

_before: list[Callable[[], Callable[[], object]]] = []
_in_child: list[Callable[[], object]] = []
_undo: list[Callable[[], object]] = []
_is_child = False
#: held while a fork is being prepared: one at a time
_fork = threading.RLock()
#: one entry for each thread inside a driver (`in_driver`); and the thread that keeps others from entering, as often
#: as it does so
_inside: list[None] = []
_keepers: list[int] = []
#: held by that thread
_gate = threading.RLock()
_KINDS = (type(threading.Lock()), type(threading.RLock()))


def before_fork(action: Callable[[], Callable[[], object]]) -> None:
    """Call `action` before each fork, before those given earlier; in the parent, call its result after the fork."""
    _before.append(action)


def in_child(action: Callable[[], object]) -> None:
    """Call `action` in each forked child, after those given earlier. It must not take locks that another thread may
    hold.
    """
    _in_child.append(action)


def is_child() -> bool:
    """Whether the process was forked from one that had vdev loaded."""
    return _is_child


def in_driver(wait: Callable[[], T]) -> T:
    """`wait()`, which releases the interpreter lock inside a driver while no lock of vdev's shows that."""
    # Entered first and checked afterwards: whoever keeps others out looks after having said so.
    _inside.append(None)
    while _keepers and get_ident() not in _keepers:
        _inside.pop()
        with _gate:
            pass
        _inside.append(None)
    try:
        return wait()
    finally:
        _inside.pop()


def keep_out() -> Callable[[], None]:
    """In an action before a fork: let no other thread begin `in_driver` until the result is called."""
    _gate.acquire()
    _keepers.append(get_ident())

    def let_in() -> None:
        _keepers.pop()
        _gate.release()

    return let_in


def is_anyone_inside() -> bool:
    """Whether a thread is `in_driver`."""
    return bool(_inside)


def keep_for_ever(item: object) -> None:
    """Never release `item`, nor anything that it holds, not even at the interpreter's end."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(item))


def renew(lock: object) -> None:
    """Make a lock free that a thread of the parent's may have held."""
    lock._at_fork_reinit()  # type: ignore[attr-defined]


def locks_of(module: ModuleType) -> Iterable[object]:
    """The locks that live as long as a module: its own, those of its classes, and those inside `cached_property`,
    which before Python 3.12 lets one thread at a time compute a property, of whatever object.
    """
    for value in list(vars(module).values()):
        if isinstance(value, _KINDS):
            yield value
        elif isinstance(value, type) and value.__module__ == module.__name__:
            for inner in list(vars(value).values()):
                lock = getattr(inner, "lock", None) if isinstance(inner, cached_property) else inner
                if isinstance(lock, _KINDS):
                    yield lock


def _prepare() -> None:
    _fork.acquire()
    for action in reversed(_before):
        _undo.append(action())


def _go_on() -> None:
    while _undo:
        _undo.pop()()
    _fork.release()


def _begin_anew() -> None:
    global _is_child
    _is_child = True
    for entries in (_undo, _inside, _keepers):
        entries.clear()
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "vdev":
            for lock in locks_of(module):
                renew(lock)
    for action in _in_child:
        action()


os.register_at_fork(before=_prepare, after_in_parent=_go_on, after_in_child=_begin_anew)
