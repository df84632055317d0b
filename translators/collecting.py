"""Functions during which Python looks for garbage less often than the program has it.

To analyse a kernel or to plan a launch, thousands of objects are made that are gone when it is done, and hardly any of them is garbage
that refers to itself. The collector comes whenever some hundreds more are alive, and takes those that it finds twice for such as stay.
When there are a quarter more of these than before it looks at all objects of the process, which takes tens of milliseconds. Decides
nothing: what a program has left, and what such a function leaves, is found after it.
"""

from __future__ import annotations

import functools
import gc
import os
from collections.abc import Callable
from threading import RLock, get_ident
from typing import Any, TypeVar

__all__ = ["MEANWHILE", "seldom_collected"]

Function = TypeVar("Function", bound=Callable[..., Any])
Numbers = tuple[int, int, int]

#: new objects after which Python looks for garbage meanwhile: a large kernel's must not pile up
MEANWHILE = 100_000

#: held while the numbers are changed; by a thread again whose finalisers or signals' handlers analyse as well
_lock = RLock()
#: the threads that are inside such a function
_inside: set[int] = set()
#: the numbers that hold while there are any, and those that the program has; None if the program's hold
_instead: tuple[Numbers, Numbers] | None = None


def seldom_collected(function: Function) -> Function:
    """The same function, during which the collector comes after `MEANWHILE` new objects at the earliest.

    Only how often is changed, so that a program that has turned collecting off, or does so meanwhile on another thread, has its way; and
    so has one that says meanwhile how often. One that asks meanwhile, on another thread, is told how often it is now. The last thread
    that is inside puts back what the program has.
    """

    @functools.wraps(function)
    def whole(*args: Any, **kwargs: Any) -> Any:
        thread = get_ident()
        if thread in _inside:
            return function(*args, **kwargs)
        try:
            _inside.add(thread)
            _collect_seldom()
            return function(*args, **kwargs)
        finally:
            # First of all: an exception from outside may come in any call, and a thread that stays in the set is inside for ever.
            _inside.discard(thread)
            _put_back()

    return whole  # type: ignore[return-value]


def _collect_seldom() -> None:
    global _instead
    with _lock:
        young, *older = programs = gc.get_threshold()
        if _instead is not None and programs == _instead[0]:
            return  # as another thread has it, or one has left it that was interrupted
        seldom = (young and max(young, MEANWHILE), older[0], older[1])
        _instead = (seldom, programs) if seldom != programs else None
        if _instead is not None:
            gc.set_threshold(*seldom)


def _put_back() -> None:
    global _instead
    with _lock:
        if _inside or _instead is None:
            return
        seldom, programs = _instead
        if gc.get_threshold() == seldom:  # else the program has said something else meanwhile
            gc.set_threshold(*programs)
        _instead = None


def _put_back_in_child() -> None:
    """In a forked child, where there is one thread; another may have held the lock."""
    global _lock
    _lock = RLock()
    _inside.clear()
    _put_back()


os.register_at_fork(after_in_child=_put_back_in_child)
