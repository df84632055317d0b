"""When an asynchronous exception may arrive: between calls, and where a call only waits.

A signal's handler, or another thread by `PyThreadState_SetAsyncExc`, may raise an exception between any two
bytecodes. A command half planned, a lock just taken, or a step that has a number but is not queued would leave its
queue unusable. So neither runs inside a call: `install` replaces the interpreter's functions that set handlers and
exceptions, and what arrives while the thread is in one of vdev's calls is kept until that call returns, and is raised
from it then. The call has taken effect. Calls that are not interrupted pay nothing for this.

Decides what becomes of an exception that has arrived; `vdev.process.inside` decides what is inside a call. If it
arrives in a function that an exception cannot leave (`vdev.process.unraisable`), such as a finaliser, it is raised a
moment later, and again if it was lost nevertheless: nothing that was raised is lost.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import _thread
import ctypes
import functools
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any, TypeVar

from vdev.process.forking import in_child
from vdev.process.inside import blocking, is_part, is_whole, may_wait, outermost, program, waiting
from vdev.process.inside import waits as waits  # for those whose calls may be interrupted
from vdev.process.unraisable import Rider, module_of, spread, swallows

Function = TypeVar("Function", bound=Callable[..., Any])

#: functions after which the look-out for a call's end begins
_long: set[CodeType] = set()
#: seconds between two looks at a thread that is inside a call
_PAUSE = 0.0005
#: seconds after which a wait looks around: exceptions that threads set do not wake anybody
_SLICE = 0.05
#: seconds for which the program's functions that an exception cannot leave, and PyOpenCL's, are left alone
_PATIENCE = 1.0
#: seconds that a turn of the interpreter's lock has at least in which a thread's frames are looked at: a microsecond for each
_TURN = 0.005

_set_handler = _signal.signal
_get_handler = _signal.getsignal


def long(function: Function) -> Function:
    """Mark a function that may compute for long: looking for the call's end begins at its own end, and does not slow
    it down.
    """

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
    """Acquire a lock that only signals something; at this point a call may be interrupted."""
    while True:
        while _pending.until is not None and checkpoint():
            pass
        # From here on, whatever arrives takes effect immediately if it wakes a thread that waits; otherwise at the
        # next turn.
        if acquire(timeout=_SLICE if timeout < 0 else timeout):
            return True
        if timeout >= 0:
            return False


class _Item:
    """Something that arrived for the main thread."""

    __slots__ = ("since",)
    #: whether it wakes a thread that waits, like the signal that brought it
    wakes = False

    def __init__(self) -> None:
        self.since = time.monotonic()

    def come(self, caller: FrameType | None) -> None:
        """Take effect, in the code of `caller`."""
        raise NotImplementedError

    def again(self) -> None:
        """Arrive once more, a moment later. Not from here: whatever the main thread is told to look at, it would look
        at immediately.
        """

        def run() -> None:
            time.sleep(max(_PAUSE, min(_SLICE, self._age() / 4)))
            _on_main_thread(self)

        threading.Thread(target=run, name="vdev-later", daemon=True).start()

    def meet(self, frame: FrameType | None) -> None:
        """On the main thread, which is at `frame`: take effect, or be kept until that is allowed."""
        until = outermost(frame, patient=self._age() < _PATIENCE)
        if until is None:
            self.come(frame)
        elif is_whole(until) and not (frame is not None and is_part(frame)):
            _pending.keep(self, frame, until)
        else:  # where an end may never come: a finaliser hangs, PyOpenCL waits for another process
            self.again()

    def _age(self) -> float:
        return time.monotonic() - self.since


class _Signal(_Item):
    """A signal that came."""

    __slots__ = ("number",)
    wakes = True

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def come(self, caller: FrameType | None) -> None:
        handler = _signal_getsignal(self.number)  # by now there may be another handler, or none
        if callable(handler):
            try:
                handler(self.number, caller)
            except BaseException as error:
                _send(error, caller, _Raised(self.number, handler))
                raise


class _Exception(_Item):
    """An exception that another thread set for the main thread."""

    __slots__ = ("kind",)

    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.kind = kind

    def come(self, caller: FrameType | None) -> None:
        try:
            raise self.kind
        except BaseException as error:
            _send(error, caller, self)
            raise


class _Raised(_Item):
    """An exception that a handler raised and that was lost.

    As long as the handler is still running, it is raised again there; once nothing is left of it, the handler is
    called again.
    """

    __slots__ = ("error", "handler", "number")
    wakes = True

    def __init__(self, number: int, handler: Any) -> None:
        super().__init__()
        self.number = number
        self.handler = handler
        self.error: BaseException | None = None

    def come(self, caller: FrameType | None) -> None:
        error, self.error = self.error, None
        if _signal_getsignal(self.number) is not self.handler:
            return
        if error is None:
            _Signal(self.number).come(caller)
        else:
            _send(error, caller, self)
            try:
                raise error
            finally:
                del error  # which holds this frame


class _Profiler(_Item):
    """The program's own profiler, which the interpreter forgets when the one in its place raises."""

    __slots__ = ("function",)

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def come(self, caller: FrameType | None) -> None:
        sys.setprofile(self.function)


class _Pending:
    """What is kept for the main thread until the frame `until` returns."""

    __slots__ = ("before", "kept", "until", "watching")

    def __init__(self) -> None:
        self.kept: list[_Item] = []
        self.until: FrameType | None = None
        self.before: Any = None  #: the program's own profiler
        self.watching = False

    def keep(self, item: _Item, frame: FrameType | None, until: FrameType) -> None:
        """`frame`: where it arrived; `until`: whose end it must wait for."""
        inside: set[CodeType] = set()
        while frame is not None and frame is not until:
            inside.add(frame.f_code)
            frame = frame.f_back
        before = sys.getprofile()
        seen = self.until is None and _Pending.look.__code__ in inside  # that end is being watched already
        if seen or not (before is None or callable(before)):  # cProfile's cannot be called from here
            item.again()
        else:
            self.kept.append(item)
            if self.until is None:
                self.until = until
                if not inside & _long:
                    self.watch()

    def watch(self) -> None:
        """Watch for the end of the call. On the main thread."""
        if not self.watching and threading.current_thread() is threading.main_thread():
            self.before, self.watching = sys.getprofile(), True
            sys.setprofile(self.look)

    def look(self, frame: FrameType, event: str, argument: object) -> None:
        """A profiler's function: called whenever a function is entered or left."""
        if self.before is not None:
            self.before(frame, event, argument)
        if event == "return" and frame is self.until:
            self.come(frame)
        elif event == "call" and not _is_on(self.until, frame):
            # From Python 3.12 on, nobody is told of a return that a line begins with, if it was met in that line's trace function.
            self._end()

    def come(self, frame: FrameType) -> None:
        """The call has ended, or waits: what was kept takes effect, in the code of its caller."""
        raises = not swallows(frame)
        try:
            while self.kept and raises:
                self.kept.pop(0).come(frame.f_back)
        except BaseException:
            if self.before is not None and self.watching:
                _Profiler(self.before).again()
            raise
        finally:
            self._end()

    def _end(self) -> None:
        """Nothing is watched any more; what is still kept arrives once more."""
        if self.watching:
            sys.setprofile(self.before)
        self.before = self.until = None
        self.watching = False
        while self.kept:
            self.kept.pop(0).again()


def _is_on(until: FrameType | None, frame: FrameType | None) -> bool:
    """Whether `until` is `frame`, or has called it."""
    while frame is not None and frame is not until:
        frame = frame.f_back
    return frame is not None


_pending = _Pending()


class _Handler:
    """The program's handler of a signal, kept from running inside a call."""

    __slots__ = ("handler",)

    def __init__(self, handler: Callable[[int, FrameType | None], object]) -> None:
        self.handler = handler

    def __call__(self, number: int, frame: FrameType | None) -> None:
        _Signal(number).meet(frame)


def checkpoint() -> bool:
    """Between two waits of a call: what was kept takes effect now, if waits may be interrupted; whether it did."""
    if _pending.until is None or threading.current_thread() is not threading.main_thread():
        return False
    if not may_wait(sys._getframe(1)):
        return False
    _pending.come(sys._getframe(1))
    return True


def _signal_signal(number: int, handler: Any) -> Any:
    """signal.signal, with a handler that does not run inside a call."""
    if number == _unused:
        _choose_signal()
    before = _set_handler(number, _Handler(handler) if callable(handler) else handler)
    return _given(before)


def _signal_getsignal(number: int) -> Any:
    """signal.getsignal: the handler as the program gave it."""
    return _given(_get_handler(number))


def _given(handler: Any) -> Any:
    if handler is _look:
        return _signal.SIG_DFL
    return handler.handler if isinstance(handler, _Handler) else handler


# exceptions that another thread sets ----------------------------------------------------------------------------------

_set_exception: Any = None
#: a signal that nobody sends, which tells the main thread to look; 0 for none
_unused = 0
#: what the main thread will look at
_entered: list[_Item] = []
#: by thread: what will be set in it when it has left its call, and what was set in it last
_wanted: dict[int, Any] = {}
_set_last: dict[int, Any] = {}
#: held by who looks at another thread's frames
_looking = threading.RLock()


def _look(number: int, frame: FrameType | None) -> None:
    """The handler of a signal that is never sent: the interpreter calls this on the main thread, wherever that is."""
    try:
        while _entered:
            _entered.pop(0).meet(frame)
    finally:
        if _entered:  # the one before has raised
            _thread.interrupt_main(_unused)  # type: ignore[arg-type]


def _on_main_thread(item: _Item) -> None:
    _entered.append(item)
    if item.wakes:
        _signal.pthread_kill(threading.main_thread().ident, _unused)
    else:
        _thread.interrupt_main(_unused)  # type: ignore[arg-type]


class _SetAsyncExc:
    """PyThreadState_SetAsyncExc as `ctypes.pythonapi` offers it, except that the exception does not come inside a
    call.
    """

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
            return 1
        return _raise_outside(number, kind) or _raise_later(number, kind)


def _raise_in(number: int, kind: Any) -> int:
    """Set the exception; the number of threads that now have it."""
    if kind is not None:
        _set_last[number] = kind
    found = _set_exception(
        ctypes.c_ulong(number), ctypes.py_object() if kind is None else ctypes.py_object(kind)
    )
    return int(found)


def _raise_outside(number: int, kind: Any, patient: bool = True) -> int:
    """Set the exception if the thread is outside calls; 0 if it is inside one."""
    with _turn() as until:
        inside = outermost(sys._current_frames().get(number), patient, until) is not None
        if inside or time.perf_counter() > until:
            return 0
        return _raise_in(number, kind)


@contextmanager
def _turn() -> Iterator[float]:
    """A turn of the interpreter's lock: other threads stay where they are until the time.perf_counter that this gives.

    It has half of `_TURN` at least, whatever the program or a session has chosen: in less, no deep stack could be looked at to its end, and
    what was to be raised would never be.
    """
    with _looking:
        before = sys.getswitchinterval()
        sys.setswitchinterval(max(before, _TURN))
        chosen = sys.getswitchinterval()
        try:
            time.sleep(
                before if chosen > before else 0
            )  # who waits for the lock already may ask for it that soon
            yield time.perf_counter() + chosen / 2
        finally:
            if sys.getswitchinterval() == chosen:  # else somebody has chosen another meanwhile
                sys.setswitchinterval(before + 5e-7)  # whole microseconds, which are cut off


def _raise_later(number: int, kind: Any) -> int:
    """Set the exception when the thread has left its call."""
    is_first = number not in _wanted
    _wanted[number] = kind  # as everywhere, only the last one counts
    if is_first:
        threading.Thread(target=_raise_soon, args=(number,), name="vdev-later", daemon=True).start()
    return 1


def _raise_soon(number: int) -> None:
    thread, began = _thread_of(number), time.monotonic()
    while number in _wanted and number in sys._current_frames() and _thread_of(number) is thread:
        time.sleep(_PAUSE)
        if _raise_outside(number, _wanted[number], time.monotonic() - began < _PATIENCE):
            break
    _wanted.pop(number, None)


def _thread_of(number: int) -> threading.Thread | None:
    """The thread that has this identifier now: after a thread's end another one may get it."""
    return next((thread for thread in threading.enumerate() if thread.ident == number), None)


# exceptions that were lost --------------------------------------------------------------------------------------------


def _send(error: BaseException, caller: FrameType | None, item: _Item) -> None:
    """`error` is on its way to `caller`: if it is lost, `item` arrives once more."""
    Rider(error, caller, item)
    spread(_lost)


def _lost(unraisable: Any, beneath: FrameType) -> bool:
    """Deal with an exception that nobody can raise, if it came from here: it arrives once more."""
    error, number = unraisable.exc_value, threading.get_ident()
    item = Rider.take(error)
    if item is not None:
        error.__traceback__ = None  # it holds the object that is being finalised
        if isinstance(item, _Raised):
            item.error = error
        item.again()
        return True
    if number in _set_last and unraisable.exc_type is _set_last[number]:
        del _set_last[number]
        _raise_later(number, unraisable.exc_type)
        return True
    return False


program.update((_Signal.come.__code__, _Exception.come.__code__))
blocking.add(block.__code__)
waiting.update(blocking)


def install() -> None:
    """From now on, keep exceptions out of calls, also those of handlers that are already set. Calling it again
    changes nothing.
    """
    global _set_exception
    if _set_exception is not None:
        return
    _set_exception = ctypes.pythonapi["PyThreadState_SetAsyncExc"]
    ctypes.pythonapi.PyThreadState_SetAsyncExc = _SetAsyncExc()  # type: ignore[attr-defined]
    _signal.signal = _signal_signal
    _signal.getsignal = _signal_getsignal
    spread(_lost)
    if threading.current_thread() is threading.main_thread():
        take_over()
    else:  # handlers can only be set on the main thread
        ctypes.pythonapi["Py_AddPendingCall"](_take_over_c, None)


def take_over(argument: object = None) -> int:
    """Keep the handlers that are already set out of calls. On the main thread."""
    for number in _signal.valid_signals():
        handler = _get_handler(number)
        if callable(handler) and not isinstance(handler, _Handler):
            _set_handler(number, _Handler(handler))
    _choose_signal()
    return 0


def _choose_signal() -> None:
    """Choose a signal that nobody uses, different from the one before."""
    global _unused
    before = _unused or _signal.SIGRTMAX + 1
    for number in range(before - 1, _signal.SIGRTMIN, -1):
        if _get_handler(number) == _signal.SIG_DFL:
            _set_handler(number, _look)
            _unused = number
            return


_take_over_c = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(take_over)


def _forget() -> None:
    """In a child: what was kept belongs to the parent."""
    _entered.clear()
    _wanted.clear()
    _set_last.clear()
    # otherwise it arrived in the child
    if _pending.until is not None and module_of(_pending.until) != "vdev.process.forking":
        _pending.kept.clear()
        sys.setprofile(None)
        _pending.until = _pending.before = None
        _pending.watching = False


in_child(_forget)
