"""Whether a thread is inside a call, where an exception from outside would leave something half done.

Decides by the frames on the thread's stack: a call extends from the outermost frame of the façade or of a session
inwards, unless the innermost frame only waits (`blocking`) and all others allow waits to be interrupted (`waits`).
PyOpenCL's own functions around such a call belong to it if they record what it has done.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from math import inf
from types import CodeType, FrameType, FunctionType
from typing import Any, TypeVar

from vdev.process.unraisable import module_of, swallows

Function = TypeVar("Function", bound=Callable[..., Any])

#: the packages and modules whose calls must not be cut short; others, such as the command line's, call the program
_WHOLE = (
    "vdev.facade.",
    "vdev.start.current",
    "vdev.session.session",
    "vdev.executor.",
    "vdev.observe.",
    "vdev.process.interrupts",
    "vdev.process.inside",
    "vdev.process.finalisers",
    "vdev.process.forking",
    "vdev.process.unraisable",
)
#: others' modules that belong to calls, and those in which the methods of classes with a finaliser do
_parts: set[str] = set()
_finalised: set[str] = set()
#: functions during which an exception may come, provided that what they call only waits
waiting: set[CodeType] = set()
#: functions that only wait. Waits in others do not count: `threading`'s hold locks meanwhile.
blocking: set[CodeType] = set()
#: functions that call the program's: a handler may itself be interrupted, and may call vdev
program: set[CodeType] = set()


def waits(function: Function) -> Function:
    """Let waits in `function` be interrupted: nothing depends on what it then leaves undone."""
    assert isinstance(function, FunctionType)
    waiting.add(function.__code__)
    return function


def part_of_calls(modules: Iterable[str], finalised: Iterable[str]) -> None:
    """Make others' functions parts of the calls that they make: all functions of `modules`, and in the modules
    `finalised` the methods of classes with a finaliser, which relies on what a method notes after its call.
    """
    _parts.update(modules)
    _finalised.update(finalised)


def outermost(frame: FrameType | None, patient: bool = True, until: float = inf) -> FrameType | None:
    """The frame of the call that must end before an exception may come to `frame`; None if it may come now.

    `patient`: functions of the program's that an exception cannot leave must end as well, and so must others' that
    can be parts of calls, even while they make none. `until`: the time.perf_counter at which another thread's frames
    may begin to move, after which nobody must look; what is not known by then counts as inside.
    """
    found = None
    idle = frame is not None and frame.f_code in blocking
    while frame is not None and frame.f_code not in program:
        if time.perf_counter() > until:
            return frame
        if _is_own(frame):
            found = frame
            idle = idle and frame.f_code in waiting
        elif is_part(frame):
            found = frame if patient or found is not None else None
        elif patient and swallows(frame):
            found, idle = frame, False
        frame = frame.f_back
    return None if idle else found


def may_wait(frame: FrameType | None) -> bool:
    """Whether every part of the call around `frame` lets waits be interrupted."""
    while frame is not None and frame.f_code not in program:
        if _is_own(frame) and frame.f_code not in waiting:
            return False
        frame = frame.f_back
    return True


def is_whole(frame: FrameType) -> bool:
    """Whether its function belongs to a call."""
    return _is_own(frame) or is_part(frame)


def _is_own(frame: FrameType) -> bool:
    return module_of(frame).startswith(_WHOLE)


def is_part(frame: FrameType) -> bool:
    """Whether its function is one of others' that belong to calls."""
    module = module_of(frame)
    return module in _parts or (module in _finalised and _is_finalised(frame))


def _is_finalised(frame: FrameType) -> bool:
    """Whether it runs a method of one of its module's classes that have a finaliser."""
    return any(
        getattr(function, "__code__", None) is frame.f_code
        for owner in list(frame.f_globals.values())
        if isinstance(owner, type) and "__del__" in vars(owner)
        for function in list(vars(owner).values())
    )
