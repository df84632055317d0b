"""When an exception that the program did not ask for may come: between calls, and where a call only waits.

A signal's handler, or another thread by `PyThreadState_SetAsyncExc`, may raise an exception between any two bytecodes. A
command half planned, a lock just taken or a step numbered and not queued would leave its queue unusable. So neither runs
inside a call: `install` stands in for the interpreter's functions that set handlers and exceptions, and what comes while
the thread is in one of vdev's calls is kept until that call returns, and then comes out of it. The call has happened.
Calls that nothing interrupts pay nothing for that.

Decides what is inside by the frames on the thread's stack: from the outermost one of the façade or of a session on,
unless the innermost one does nothing but wait (`block`) and all others let waits be interrupted (`waits`). What a
finaliser keeps comes in the code that it has interrupted, since an exception cannot leave it.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import _thread
import ctypes
import functools
import gc
import sys
import threading
import time
from collections.abc import Callable
from types import CodeType, FrameType, FunctionType
from typing import Any, TypeVar

from vdev.process.forking import in_child

Function = TypeVar("Function", bound=Callable[..., Any])

#: the packages and modules whose calls are made as a whole; others, as the command line's, call the program
_WHOLE = (
    "vdev.facade.",
    "vdev.start.current",
    "vdev.session.session",
    "vdev.executor.",
    "vdev.observe.",
    "vdev.process.interrupts",
    "vdev.process.finalisers",
)
#: functions during which an exception may come, where what they call does nothing but wait
_waiting: set[CodeType] = set()
#: functions behind which the look-out for a call's end begins
_long: set[CodeType] = set()
#: seconds between two looks at a thread that is inside a call
_PAUSE = 0.0005
#: seconds after which a wait looks around: exceptions that threads set wake nobody
_SLICE = 0.05

_set_handler = _signal.signal
_get_handler = _signal.getsignal


def waits(function: Function) -> Function:
    """Let waits in `function` be interrupted: what it leaves undone then nobody misses."""
    assert isinstance(function, FunctionType)
    _waiting.add(function.__code__)
    return function


def long(function: Function) -> Function:
    """A function that may compute for long: looking for the call's end begins at its own, and does not slow it down."""

    @functools.wraps(function)
    def whole(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        finally:
            if _pending.until is not None:
                _pending.watch()

    _long.add(whole.__code__)  # type: ignore[attr-defined]
    return whole  # type: ignore[return-value]


def block(acquire: Callable[..., bool], timeout: float = -1) -> bool:
    """Acquire a lock that only tells of something; a place where a call may be interrupted."""
    while True:
        while _pending.until is not None and checkpoint():
            pass
        # What comes from here on comes at once, where it wakes a thread that waits; else at the next turn.
        if acquire(timeout=_SLICE if timeout < 0 else timeout):
            return True
        if timeout >= 0:
            return False


def block_until(event: threading.Event) -> None:
    """Wait for `event`; the other place where a call may be interrupted."""
    while not event.is_set():
        while _pending.until is not None and checkpoint():
            pass
        event.wait(_SLICE)


def outermost(frame: FrameType | None) -> FrameType | None:
    """The frame of the call that has to end before an exception may come to `frame`; None where it may now."""
    found = None
    idle = frame is not None and (frame.f_code in _blocking or _module(frame) == "threading")
    while frame is not None and frame.f_code not in _program:
        if _module(frame).startswith(_WHOLE):
            found = frame
            idle = idle and frame.f_code in _waiting
        elif _swallows(frame):
            found, idle = frame, False
        frame = frame.f_back
    return None if idle else found


def _swallows(frame: FrameType) -> bool:
    """Whether an exception in a function that the interpreter calls by itself would be lost: finalisers, also the
    program's, and callbacks of weak references and of the collection of cycles.
    """
    name = frame.f_code.co_name
    return (
        name == "__del__"
        or (name in ("remove", "_remove") and _module(frame) in ("weakref", "_weakrefset"))
        or any(getattr(callback, "__code__", None) is frame.f_code for callback in gc.callbacks)
    )


def _module(frame: FrameType) -> str:
    name = frame.f_globals.get("__name__")
    return name if isinstance(name, str) else ""


def _soon(act: Callable[[], object]) -> None:
    """Not from here: what the main thread is told to look at it would look at at once."""

    def run() -> None:
        time.sleep(_PAUSE)
        act()

    threading.Thread(target=run, name="vdev-later", daemon=True).start()


class _Signal:
    """A signal that came."""

    __slots__ = ("handler", "number")

    def __init__(self, number: int, handler: Callable[[int, FrameType | None], object]) -> None:
        self.number = number
        self.handler = handler

    def come(self, caller: FrameType | None) -> None:
        """Run the handler, for the code of `caller`."""
        self.handler(self.number, caller)

    def again(self) -> None:
        """As if it came a moment later."""
        _soon(lambda: _thread.interrupt_main(self.number))  # type: ignore[arg-type]


class _Exception:
    """An exception that a thread set for the main thread."""

    __slots__ = ("kind",)

    def __init__(self, kind: Any) -> None:
        self.kind = kind

    def come(self, caller: FrameType | None) -> None:
        raise self.kind

    def again(self) -> None:
        _soon(lambda: _on_main_thread(self))


class _Profiler:
    """The program's own profiler, which the interpreter forgets when the one in its place raises."""

    __slots__ = ("function",)

    def __init__(self, function: Any) -> None:
        self.function = function

    def come(self, caller: FrameType | None) -> None:
        sys.setprofile(self.function)

    def again(self) -> None:
        _soon(lambda: _on_main_thread(self))


_Item = _Signal | _Exception | _Profiler

#: where the program's code begins again: a handler may itself be interrupted, and call vdev
_program = {_Signal.come.__code__, _Exception.come.__code__}


class _Pending:
    """What is kept for the main thread until the frame `until` returns."""

    __slots__ = ("before", "kept", "until", "watching")

    def __init__(self) -> None:
        self.kept: list[_Item] = []
        self.until: FrameType | None = None
        self.before: Any = None  #: the program's own profiler
        self.watching = False

    def keep(self, item: _Item, frame: FrameType | None, until: FrameType) -> None:
        """`frame`: where it came; `until`: whose end it has to wait for."""
        inside: set[CodeType] = set()
        while frame is not None and frame is not until:
            inside.add(frame.f_code)
            frame = frame.f_back
        before = sys.getprofile()
        seen = _Pending.look.__code__ in inside  # that end has been looked at already
        if seen or not (before is None or callable(before)):  # cProfile's cannot be called from here
            item.again()
        else:
            self.kept.append(item)
            if self.until is None:
                self.until = until
                if not inside & _long:
                    self.watch()

    def watch(self) -> None:
        """Look out for the end of the call. On the main thread."""
        if not self.watching and threading.current_thread() is threading.main_thread():
            self.before, self.watching = sys.getprofile(), True
            sys.setprofile(self.look)

    def look(self, frame: FrameType, event: str, argument: object) -> None:
        """A profiler's function: called whenever a function is entered or left."""
        if self.before is not None:
            self.before(frame, event, argument)
        if event == "return" and frame is self.until:
            self.come(frame)

    def come(self, frame: FrameType) -> None:
        """The call is over, or waits: what was kept comes, in the code of its caller."""
        raises = not _swallows(frame)
        try:
            while self.kept and raises:
                self.kept.pop(0).come(frame.f_back)
        except BaseException:
            if self.before is not None and self.watching:
                _Profiler(self.before).again()
            raise
        finally:
            if self.watching:
                sys.setprofile(self.before)
            self.before = self.until = None
            self.watching = False
            while self.kept:
                self.kept.pop(0).again()


_pending = _Pending()


class _Handler:
    """A program's handler of a signal, kept from running inside a call."""

    __slots__ = ("handler",)

    def __init__(self, handler: Callable[[int, FrameType | None], object]) -> None:
        self.handler = handler

    def __call__(self, number: int, frame: FrameType | None) -> None:
        came, until = _Signal(number, self.handler), outermost(frame)
        if until is None:
            came.come(frame)
        else:
            _pending.keep(came, frame, until)


def checkpoint() -> bool:
    """Between two waits of a call: what is kept comes now, if waits may be interrupted; whether it did."""
    if _pending.until is None or threading.current_thread() is not threading.main_thread():
        return False
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code not in _program:
        if _module(frame).startswith(_WHOLE) and frame.f_code not in _waiting:
            return False
        frame = frame.f_back
    _pending.come(sys._getframe(1))
    return True


def _signal_signal(number: int, handler: Any) -> Any:
    """signal.signal, with a handler that does not run inside a call."""
    before = _set_handler(number, _Handler(handler) if callable(handler) else handler)
    return before.handler if isinstance(before, _Handler) else before


def _signal_getsignal(number: int) -> Any:
    """signal.getsignal: the handler as the program gave it."""
    found = _get_handler(number)
    return found.handler if isinstance(found, _Handler) else found


# exceptions that another thread sets ----------------------------------------------------------------------------------

_set_exception: Any = None
#: a signal that nothing sends, which tells the main thread to look; 0 for none
_unused = 0
#: what the main thread is going to look at
_entered: list[_Item] = []


def _look(number: int, frame: FrameType | None) -> None:
    """Handles a signal that is never sent: the interpreter calls this on the main thread, wherever that is."""
    while _entered:
        item = _entered.pop(0)
        until = outermost(frame)
        if until is None:
            item.come(frame)
        else:
            _pending.keep(item, frame, until)


def _on_main_thread(item: _Item) -> None:
    _entered.append(item)
    _thread.interrupt_main(_unused)  # type: ignore[arg-type]


class _SetAsyncExc:
    """PyThreadState_SetAsyncExc, as `ctypes.pythonapi` offers it: the exception does not come inside a call."""

    def __init__(self) -> None:
        self.argtypes: Any = None  # programs set these
        self.restype: Any = ctypes.c_int

    def __call__(self, thread: Any, exception: Any) -> int:
        number = int(getattr(thread, "value", thread))
        try:
            kind = exception.value if isinstance(exception, ctypes.py_object) else exception
        except ValueError:  # a null pointer
            kind = None
        if kind is None or number not in sys._current_frames():
            return _raise_in(number, kind)
        if number == threading.main_thread().ident and _unused:
            _on_main_thread(_Exception(kind))
        elif outermost(sys._current_frames().get(number)) is None:
            return _raise_in(number, kind)
        else:
            threading.Thread(target=_raise_later, args=(number, kind), name="vdev-later", daemon=True).start()
        return 1


def _raise_in(number: int, kind: Any) -> int:
    """Set the exception; how many threads have it now."""
    found = _set_exception(
        ctypes.c_ulong(number), ctypes.py_object() if kind is None else ctypes.py_object(kind)
    )
    return int(found)


def _raise_later(number: int, kind: Any) -> None:
    while (frame := sys._current_frames().get(number)) is not None and outermost(frame) is not None:
        del frame
        time.sleep(_PAUSE)
    _raise_in(number, kind)


_blocking = {block.__code__, block_until.__code__}
_waiting |= _blocking


def install() -> None:
    """Keep exceptions out of calls from now on, also those of handlers that are set already. Calling again changes nothing."""
    global _set_exception
    if _set_exception is not None:
        return
    _set_exception = ctypes.pythonapi["PyThreadState_SetAsyncExc"]
    ctypes.pythonapi.PyThreadState_SetAsyncExc = _SetAsyncExc()  # type: ignore[attr-defined]
    _signal.signal = _signal_signal
    _signal.getsignal = _signal_getsignal
    if threading.current_thread() is threading.main_thread():
        take_over()
    else:  # handlers can be set on the main thread alone
        ctypes.pythonapi["Py_AddPendingCall"](_take_over_c, None)


def take_over(argument: object = None) -> int:
    """Keep the handlers that are set already out of calls. On the main thread."""
    for number in _signal.valid_signals():
        handler = _get_handler(number)
        if callable(handler) and not isinstance(handler, _Handler):
            _set_handler(number, _Handler(handler))
    _choose_signal()
    return 0


def _choose_signal() -> None:
    global _unused
    for number in range(_signal.SIGRTMAX, _signal.SIGRTMIN, -1):
        if _get_handler(number) == _signal.SIG_DFL:
            _set_handler(number, _look)
            _unused = number
            return


_take_over_c = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(take_over)


def _forget() -> None:
    """In a child: what was kept is the parent's."""
    _entered.clear()
    if _pending.until is not None:
        _pending.kept.clear()
        sys.setprofile(None)
        _pending.until = _pending.before = None
        _pending.watching = False


in_child(_forget)
