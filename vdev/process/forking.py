"""fork(): what a child has of its parent, and what it must not touch.

A child has its parent's memory and none of its threads: locks that other threads held stay locked, workers never
answer, and what drivers have loaded waits for threads of their own. So in a child vdev's locks are new ones and every part of vdev
forgets what is the parent's, by the actions given to `in_child`; the driver's objects are left as they are, neither used nor
released. Just before a fork, `before` actions see that no worker is inside a driver.

Decides nothing about what a part forgets.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable

_before: list[Callable[[], Callable[[], object]]] = []
_in_child: list[Callable[[], object]] = []
_undo: list[Callable[[], object]] = []
_is_child = False
_KINDS = (type(threading.Lock()), type(threading.RLock()))


def before_fork(action: Callable[[], Callable[[], object]]) -> None:
    """Call `action` before each fork, and what it returns after it in the parent."""
    _before.append(action)


def in_child(action: Callable[[], object]) -> None:
    """Call `action` in each forked child, after those given earlier. It takes no lock that a thread may hold."""
    _in_child.append(action)


def is_child() -> bool:
    """Whether the process was forked from one that had vdev loaded."""
    return _is_child


def keep_for_ever(item: object) -> None:
    """Never release `item`, nor what it holds, not at the interpreter's end either."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(item))


def renew(lock: object) -> None:
    """Make a lock free that a thread of the parent's may hold."""
    lock._at_fork_reinit()  # type: ignore[attr-defined]


def _prepare() -> None:
    for action in _before:
        _undo.append(action())


def _go_on() -> None:
    while _undo:
        _undo.pop()()


def _begin_anew() -> None:
    global _is_child
    _is_child = True
    _undo.clear()
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "vdev":
            for value in list(vars(module).values()):
                if isinstance(value, _KINDS):
                    renew(value)
    for action in _in_child:
        action()


os.register_at_fork(before=_prepare, after_in_parent=_go_on, after_in_child=_begin_anew)
