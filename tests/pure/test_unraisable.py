"""An exception from outside that comes in a function that no exception can leave is not lost (`vdev.process.unraisable`).

Each way in which the interpreter calls a function by itself is planted here, with an exception that comes while it runs.
"""

# ruff: noqa: PT012  - an exception may come anywhere in what it interrupts

from __future__ import annotations

import _thread
import ctypes
import gc
import io
import os
import signal
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from vdev.process import interrupts
from vdev.process.unraisable import Net

SECONDS = 100
Inside = Callable[[], None]


class Interrupt(BaseException):
    pass


def _handle(number: int, frame: object) -> None:
    raise Interrupt


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    interrupts.install()
    before = [(number, signal.signal(number, _handle)) for number in (signal.SIGALRM, signal.SIGINT)]
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number, handler in before:
        signal.signal(number, handler)


def _by_signal() -> None:
    signal.raise_signal(signal.SIGALRM)


def _by_thread() -> None:
    _thread.interrupt_main()


def _by_exception() -> None:
    me = ctypes.c_ulong(threading.get_ident())
    assert ctypes.pythonapi.PyThreadState_SetAsyncExc(me, ctypes.py_object(Interrupt)) == 1


def _wait() -> None:
    """For an exception; one that a thread sets wakes nobody."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        time.sleep(0.001)


SOURCES = (_by_signal, _by_thread, _by_exception)


class Object:
    """Weak references to it can be made, and it can be called back."""

    def __init__(self, inside: Inside | None = None) -> None:
        self.inside = inside


# the kinds: each calls `inside` where the interpreter lets no exception out ------------------------------------------


def finaliser(inside: Inside) -> None:
    class Last(Object):
        def __del__(self) -> None:
            inside()

    Last()


def finaliser_by_another_name(inside: Inside) -> None:
    class Last(Object):
        def let_go(self) -> None:
            inside()

        __del__ = let_go

    Last()


def finaliser_in_a_collection(inside: Inside) -> None:
    class Last(Object):
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            inside()

    gone = weakref.ref(Last())
    while gone() is not None:  # `gc.collect` does nothing while another thread collects
        gc.collect()


def callback_of_a_weak_reference(inside: Inside) -> None:
    item = Object()
    reference = weakref.ref(item, lambda dead: inside())
    del item
    assert reference() is None


def weak_dictionary(inside: Inside) -> None:
    class Key(Object):
        armed = False

        def __hash__(self) -> int:
            if Key.armed:
                inside()
            return 1

    item = Object()
    held = weakref.WeakValueDictionary({Key(): item})
    Key.armed = True
    del item
    assert not held


def finalize(inside: Inside) -> None:
    item = Object()
    weakref.finalize(item, inside)
    del item


def callback_of_the_collection(inside: Inside) -> None:
    begun, own = [], threading.get_ident()

    def callback(phase: str, info: object) -> None:
        if phase == "start" and threading.get_ident() == own:
            begun.append(phase)
            inside()

    gc.callbacks.append(callback)
    try:
        while not begun:  # as above
            gc.collect()
    finally:
        gc.callbacks.remove(callback)


def generator(inside: Inside) -> None:
    def items() -> Iterator[int]:
        try:
            yield 1
        finally:
            inside()

    running = items()
    next(running)
    del running


def coroutine(inside: Inside) -> None:
    class Wait:
        def __await__(self) -> Iterator[None]:
            yield None

    async def work() -> None:
        try:
            await Wait()
        finally:
            inside()

    running = work()
    running.send(None)
    del running


def callback_of_c(inside: Inside) -> None:
    def compare(one: Any, other: Any) -> int:
        inside()
        return 0

    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
    numbers = (ctypes.c_int * 2)(2, 1)
    ctypes.CDLL(None).qsort(numbers, 2, ctypes.sizeof(ctypes.c_int), kind(compare))


def stream(inside: Inside) -> None:
    class Stream(io.RawIOBase):
        def close(self) -> None:
            if not self.closed:
                super().close()
                inside()

    Stream()


def stream_in_a_buffer(inside: Inside) -> None:
    class Stream(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def close(self) -> None:
            if not self.closed:
                super().close()
                inside()

    io.BufferedReader(Stream())


def warning_while_deallocating(inside: Inside) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda *_, **__: inside()
        file = open(os.devnull)  # noqa: SIM115  - it is not closed
        del file


def _raise_unraisable() -> None:
    class Last(Object):
        def __del__(self) -> None:
            raise ValueError

    Last()


def hook(inside: Inside) -> None:
    before, sys.unraisablehook = sys.unraisablehook, lambda unraisable: inside()
    try:
        _raise_unraisable()
    finally:
        sys.unraisablehook = before


def printing(inside: Inside) -> None:
    class Screen:
        def write(self, text: str) -> None:
            inside()

        def flush(self) -> None:
            pass

    net, before = sys.unraisablehook, sys.stderr
    assert isinstance(net, Net)
    sys.stderr = Screen()  # type: ignore[assignment]
    theirs, net.before = net.before, sys.__unraisablehook__
    try:
        _raise_unraisable()
    finally:
        sys.stderr, net.before = before, theirs


_before_fork: list[Inside] = []
os.register_at_fork(before=lambda: _before_fork and _before_fork.pop()())


def handler_of_forks(inside: Inside) -> None:
    _before_fork.append(inside)
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)


KINDS = (
    finaliser,
    finaliser_by_another_name,
    finaliser_in_a_collection,
    callback_of_a_weak_reference,
    weak_dictionary,
    finalize,
    callback_of_the_collection,
    generator,
    coroutine,
    callback_of_c,
    stream,
    stream_in_a_buffer,
    warning_while_deallocating,
    hook,
    printing,
    handler_of_forks,
)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("kind", KINDS)
def test_it_comes(
    kind: Callable[[Inside], None], source: Callable[[], None], capsys: pytest.CaptureFixture[str]
) -> None:
    begun = []

    def inside() -> None:
        if not begun:  # some are called again
            begun.append(source)
            source()
            until = time.monotonic() + 0.02
            while time.monotonic() < until:
                pass

    with pytest.raises(Interrupt):
        kind(inside)
        _wait()
    assert begun
    assert "Interrupt" not in capsys.readouterr().err


@pytest.mark.parametrize("kind", [finaliser, finalize, generator, callback_of_c])
def test_it_comes_in_another_thread(
    kind: Callable[[Inside], None], capsys: pytest.CaptureFixture[str]
) -> None:
    begun, came = threading.Event(), threading.Event()

    def inside() -> None:
        begun.set()
        until = time.monotonic() + 0.1
        while time.monotonic() < until:
            pass

    def run() -> None:
        try:
            kind(inside)
            _wait()
        except Interrupt:
            came.set()

    thread = threading.Thread(target=run)
    thread.start()
    begun.wait(SECONDS)
    number = ctypes.c_ulong(thread.ident or 0)
    assert ctypes.pythonapi.PyThreadState_SetAsyncExc(number, ctypes.py_object(Interrupt)) == 1
    thread.join(2 * SECONDS)
    assert came.is_set()
    assert "Interrupt" not in capsys.readouterr().err


def test_an_exception_dropped_silently_arrives_after_all() -> None:
    """The compiler computes constants itself, and goes on where that fails."""
    source = "x = [" + "7**40, " * 5000 + "]"
    started = time.monotonic()
    compile(source, "constants", "exec")
    seconds = time.monotonic() - started
    for part in range(1, 10):
        with pytest.raises(Interrupt):
            signal.setitimer(signal.ITIMER_REAL, 0.1 * part * seconds)
            while time.monotonic() < started + SECONDS:  # the first may have taken longer than this one
                compile(source, "constants", "exec")
            _wait()


def test_what_is_caught_does_not_come_again() -> None:
    caught = []

    def catch(number: int) -> int:
        try:
            _by_signal()
        except Interrupt as error:
            caught.append(error)
        return number

    for _ in range(20):
        assert list(map(catch, (1, 2))) == [1, 2]  # it ends beneath a call of C's
        caught.clear()
        sorted((2, 1), key=catch)
        del caught[0]
        caught.clear()
    time.sleep(0.1)


@pytest.mark.parametrize("kind", [finaliser, finalize])
def test_a_finaliser_runs_to_its_end(kind: Callable[[Inside], None]) -> None:
    ended = []

    def inside() -> None:
        _by_signal()
        time.sleep(0.05)
        ended.append(True)

    with pytest.raises(Interrupt):
        kind(inside)
        time.sleep(SECONDS)
    assert ended


def test_a_finaliser_that_does_not_end_is_interrupted() -> None:
    def inside() -> None:
        _by_signal()
        time.sleep(SECONDS)

    started = time.monotonic()
    with pytest.raises(Interrupt):
        finaliser(inside)
        time.sleep(SECONDS)
    assert time.monotonic() < started + SECONDS


def test_lost_bytes_stay_lost_if_nobody_wants_them_any_more() -> None:
    """As with a time limit for a block that has ended since."""

    def inside() -> None:
        _by_signal()
        while True:  # until the exception comes
            time.sleep(0.001)

    def other(number: int, frame: object) -> None:
        pytest.fail("the exception was the other handler's")

    callback_of_c(inside)
    signal.signal(signal.SIGALRM, other)
    time.sleep(0.2)


def test_other_exceptions_are_reported_as_ever(capsys: pytest.CaptureFixture[str]) -> None:
    heard: list[Any] = []
    before, sys.unraisablehook = sys.unraisablehook, heard.append
    try:
        _raise_unraisable()
        with pytest.raises(Interrupt):
            _by_signal()  # lays the net over what has been set meanwhile
        assert sys.unraisablehook != heard.append
        _raise_unraisable()
    finally:
        sys.unraisablehook = before
    assert [item.exc_type for item in heard] == [ValueError, ValueError]
