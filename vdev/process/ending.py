"""The end of a process: what vdev does last, and how it abandons unfinished work.

At the interpreter's exit vdev comes after the program's own exit handlers, which may use OpenCL. Work that is still
queued is soon given up, as engines do. Threads may then still be inside an engine. They must not return to an
interpreter that is shutting down, and the engine's own exit handlers must not run while they are there:
`leave_behind` prevents both. The exit status is always the program's.

Decides nothing about what is waited for, or for how long.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import os
import sys
import threading
from collections.abc import Callable
from typing import NoReturn

from vdev.process.forking import in_child, keep_for_ever

#: called at the interpreter's exit, the last registered first
_actions: list[Callable[[], object]] = []
#: whether the process is ending: only the thread that ends it gets anything done
_over = False
_left = False
_called_by_c = False


def at_end(action: Callable[[], object]) -> None:
    """Call `action` at the interpreter's exit, before those registered earlier."""
    _actions.append(action)


def not_at_end(action: Callable[[], object]) -> None:
    """Take back `at_end`."""
    while action in _actions:
        _actions.remove(action)


def end() -> None:
    """What vdev does at the interpreter's exit, after everybody else."""
    while _actions:
        action = _actions.pop()
        try:
            action()
        except (
            BaseException
        ) as error:  # reported as Python reports errors in exit handlers; then the others have their turn
            sys.excepthook(type(error), error, error.__traceback__)


def let_c_call() -> None:
    """The C library calls `end`, since the interpreter is never finalised: a library of C code has started it."""
    global _called_by_c
    _called_by_c = True


def is_called_by_c() -> bool:
    """Whether `end` is one of the C library's exit handlers, among the destructors of loaded libraries."""
    return _called_by_c


def give_up() -> None:
    """From now on, what is not done never will be."""
    global _over
    _over = True


def is_over() -> bool:
    """Whether what is not done never will be."""
    return _over


def stop_here() -> None:
    """At the end, hold a thread that can get nothing done, as the interpreter holds one that wants to run."""
    if _over and threading.current_thread() is not threading.main_thread():
        _hold()


def _hold() -> NoReturn:
    while True:
        threading.Event().wait()


def leave_behind(engine: object) -> None:
    """Prepare to end the process with threads at work in `engine`: natively loaded code and everything that it holds.

    The C library's exit runs what was registered last first. After these come the engines' destructors.
    """
    global _left
    keep_for_ever(engine)
    _keep_modules()
    sys._vdev_last_of_all = _LastOfAll()  # type: ignore[attr-defined]
    library = ctypes.CDLL(None)
    if _left or not hasattr(library, "on_exit"):  # C libraries other than GNU's do not pass on the status
        return
    _left = True
    library.on_exit(library["_exit"], None)  # called with the exit status
    library["__cxa_atexit"](library.fflush, None, None)
    _hold_instead_of_terminating(library)


class _LastOfAll:
    """Dropped with the interpreter's own modules, after everything of the program's."""

    def __del__(self, freeze: Callable[[], None] = gc.freeze) -> None:
        freeze()  # nobody will see what the last collections would find, and they take longest


def _keep_modules() -> None:
    """Keep large modules of others that vdev has loaded from being torn down, which takes longer than everything
    else.
    """
    for name in list(sys.modules):
        if name.partition(".")[0] in ("sympy", "mpmath"):
            keep_for_ever(sys.modules.pop(name))


def _hold_instead_of_terminating(library: ctypes.CDLL) -> None:
    """Until Python 3.13, a thread that wants to run in an ending interpreter is ended by unwinding its stack. C++
    functions that let no exception out then call the terminate handler, which would abort the process; this one holds
    the thread instead.
    """
    try:
        runtime = ctypes.CDLL("libstdc++.so.6", mode=os.RTLD_NOLOAD)
    except OSError:
        return  # no C++ is loaded
    runtime["_ZSt13set_terminatePFvvE"](library.pause)


in_child(_actions.clear)  # what the parent does at its end does not concern the child
_boot = sys.modules.get("vdev.boot")
# otherwise the interpreter calls `end`, later than this would
if _boot is None or _boot.StandInFinder not in sys.meta_path:
    atexit.register(end)
