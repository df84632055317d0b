"""Functions that an exception cannot leave: those that the interpreter calls by itself.

Finalisers, generators' `finally`, callbacks of weak references and of the cycle collector, fork handlers, callbacks
given to C code: if an exception leaves one of them, the interpreter prints it (`sys.unraisablehook`) and goes on.
While printing, in its own finalisers and where it folds constants, it drops exceptions silently.

Decides which frames belong to such functions, as far as frames show it (`swallows`). It learns of the others
afterwards: a `Net` replaces the hook, which sees every exception that is not dropped, and a `Rider` attached to an
exception reports that it was dropped.
"""

from __future__ import annotations

import gc
import io
import sys
import time
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Protocol

#: by module: what the interpreter calls by itself, or what is called while it prints or deallocates; None: everything
_CALLED: dict[str, frozenset[str] | None] = {
    "weakref": frozenset(("remove", "_remove", "__call__")),  # weak dictionaries, `finalize`
    "_weakrefset": frozenset(("_remove",)),
    "importlib._bootstrap": frozenset(("cb",)),
    "_frozen_importlib": frozenset(("cb",)),
    "codecs": None,
    "encodings": None,
    "warnings": None,
    "vdev.process.forking": frozenset(("_prepare", "_go_on", "_begin_anew")),
    "vdev.process.interrupts": frozenset(("take_over",)),
}


def module_of(frame: FrameType) -> str:
    """The name of the module whose function it is."""
    name = frame.f_globals.get("__name__")
    return name if isinstance(name, str) else ""


def swallows(frame: FrameType) -> bool:
    """Whether an exception that leaves this function would be lost. It may also have been called in another way."""
    code = frame.f_code
    if code.co_name == "__del__" or _is_hook(code):
        return True
    if code.co_name == "close" and code.co_argcount:  # called by io's finalisers
        return isinstance(frame.f_locals.get(code.co_varnames[0]), io.IOBase)
    module = module_of(frame)
    called = _CALLED.get(module, ()) if not module.startswith("encodings.") else None
    return called is None or code.co_name in called


def _is_hook(code: CodeType) -> bool:
    return any(code_of(function) is code for function in (sys.unraisablehook, *gc.callbacks))


def code_of(function: Any) -> CodeType | None:
    """The code that runs when `function` is called, a function or an object; None if that is not Python's."""
    function = getattr(function, "func", function)  # functools.partial
    found = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
    return found if isinstance(found, CodeType) else None


#: seconds within which an exception is dropped without anybody seeing it
_AT_ONCE = 0.02


class Errand(Protocol):
    """What has to be done if an exception was lost."""

    def again(self) -> None: ...


class Rider:
    """Travels with an exception, as its attribute, into the code of `caller`.

    If the exception is dropped while `caller`, or what called it, is still at the same place, neither of them has
    seen it, and the errand is done.
    """

    __slots__ = ("errand", "places", "since")

    def __init__(self, error: BaseException, caller: FrameType | None, errand: Errand) -> None:
        self.errand: Errand | None = errand
        self.places = set()
        while caller is not None:
            self.places.add((id(caller), caller.f_lasti))
            caller = caller.f_back
        self.since = time.monotonic()
        error.__dict__[_RIDER] = self

    @staticmethod
    def take(error: object) -> Errand | None:
        """The errand of the rider that travels with `error`, and no longer does."""
        rider = getattr(error, "__dict__", {}).pop(_RIDER, None)
        if not isinstance(rider, Rider):
            return None
        errand, rider.errand = rider.errand, None
        return errand

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if self.errand is None or is_ending() or time.monotonic() - self.since > _AT_ONCE:
            return
        frame = sys._getframe().f_back
        if frame is not None and (id(frame), frame.f_lasti) in self.places:
            self.errand.again()


_RIDER = "_vdev_rider"

#: takes (the hook's argument, the frame beneath) and returns whether it has dealt with the exception
Found = Callable[[Any, FrameType], bool]


class Net:
    """A `sys.unraisablehook` that asks `found` first and then does what the hook `before` did."""

    __slots__ = ("before", "found")

    def __init__(self, before: Callable[[Any], object], found: Found) -> None:
        self.before = before
        self.found = found

    def __call__(self, unraisable: Any, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        # With nothing beneath, the program or the thread has ended.
        beneath = None if is_ending() else sys._getframe().f_back
        if beneath is None or not self.found(unraisable, beneath):
            self.before(unraisable)


def spread(found: Found) -> None:
    """Hear of exceptions before any hook that the program has set."""
    if not isinstance(sys.unraisablehook, Net):
        sys.unraisablehook = Net(sys.unraisablehook, found)
