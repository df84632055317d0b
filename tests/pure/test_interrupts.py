"""Exceptions from outside come at the end of a call, and are not lost (`vdev.process.interrupts`)."""

# ruff: noqa: PT012  - an exception may come anywhere in what it interrupts

from __future__ import annotations

import _thread
import contextlib
import cProfile
import ctypes
import gc
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

import pytest

from vdev.executor.completion import Completion
from vdev.process import interrupts
from vdev.process.inside import outermost

SECONDS = 100


class Interrupt(BaseException):
    pass


def _inside(source: str, **names: Any) -> Callable[..., Any]:
    """A function `call` that counts as one of vdev's."""
    space: dict[str, Any] = {"__name__": "vdev.facade.for_a_test", "time": time, **names}
    exec(source, space)
    call: Callable[..., Any] = space["call"]
    return call


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    interrupts.install()

    def handle(number: int, frame: object) -> None:
        raise Interrupt

    before = [(number, signal.signal(number, handle)) for number in (signal.SIGALRM, signal.SIGINT)]
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number, handler in before:
        signal.signal(number, handler)


def _by_timer() -> None:
    signal.setitimer(signal.ITIMER_REAL, 0.02)


def _timer_is_over() -> bool:
    return signal.getitimer(signal.ITIMER_REAL)[0] == 0


def _by_thread() -> None:
    threading.Timer(0.02, _thread.interrupt_main).start()


def _by_exception() -> None:
    me = ctypes.c_ulong(threading.get_ident())
    set_exception = ctypes.pythonapi.PyThreadState_SetAsyncExc
    threading.Timer(0.02, lambda: set_exception(me, ctypes.py_object(Interrupt))).start()


SOURCES = (_by_timer, _by_thread, _by_exception)


def _wait() -> None:
    """For an exception; one that a thread sets wakes nobody."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        time.sleep(0.001)


#: a call that makes something come, and goes on for some time after that
BUSY = """
def part(done, n):
    done.append(n)

def call(done, source, has_come):
    source()
    until = time.monotonic() + 100
    while not has_come() and time.monotonic() < until:
        part(done, 0)
        time.sleep(0)  # a thread that never lets go of the interpreter's lock may not be told of a signal
    for _ in range(1000):
        part(done, 0)
    part(done, 'whole')
"""


def _is_kept() -> bool:
    """What came for the main thread waits for the end of its call."""
    return bool(interrupts._pending.kept)


@pytest.mark.parametrize("source", SOURCES)
def test_a_call_is_whole_and_the_exception_comes_out_of_it(source: Callable[[], None]) -> None:
    done: list[object] = []
    call = _inside(BUSY)
    with pytest.raises(Interrupt):
        call(done, source, _is_kept)
        pytest.fail("nothing came out of the call")
    assert done[-1] == "whole"
    assert sys.getprofile() is None


@pytest.mark.parametrize("source", SOURCES)
def test_outside_calls_it_comes_at_once(source: Callable[[], None]) -> None:
    started = time.monotonic()
    with pytest.raises(Interrupt):
        source()
        while time.monotonic() < started + SECONDS:
            time.sleep(0.001)
    assert time.monotonic() < started + SECONDS / 2


@pytest.mark.parametrize("source", SOURCES)
def test_waits_are_interrupted(source: Callable[[], None]) -> None:
    gate = threading.Lock()
    gate.acquire()
    call = _inside("def call(): block(gate.acquire)", block=interrupts.block, gate=gate)
    interrupts.waits(call)  # type: ignore[type-var]
    started = time.monotonic()
    with pytest.raises(Interrupt):
        source()
        call()
    assert time.monotonic() < started + SECONDS


@pytest.mark.parametrize("source", SOURCES)
def test_a_wait_inside_what_must_be_whole_is_not(source: Callable[[], None]) -> None:
    gate = threading.Lock()
    gate.acquire()
    names = {"block": interrupts.block, "gate": gate, "begin": source}
    call = _inside("def call():\n    begin()\n    block(gate.acquire)", **names)

    def release() -> None:
        until = time.monotonic() + SECONDS
        while not _is_kept() and time.monotonic() < until:
            time.sleep(0.001)
        gate.release()

    threading.Thread(target=release, daemon=True).start()
    with pytest.raises(Interrupt):
        call()
    assert gate.locked()  # acquired before the exception came


def test_a_stack_that_may_move_is_left_alone() -> None:
    """Between two looks at another thread's frames it may run, and what they refer to be gone."""
    looked = []

    class Frame:
        f_code, f_globals = (lambda: None).__code__, {}

        @property
        def f_back(self) -> Any:
            looked.append(1)
            return Frame() if len(looked) < 100 else None

    assert outermost(Frame()) is None  # type: ignore[arg-type]
    assert len(looked) == 100
    assert outermost(Frame(), until=time.perf_counter()) is not None  # type: ignore[arg-type]
    assert len(looked) == 100


def _codes(frame: FrameType | None) -> Iterator[CodeType]:
    while frame is not None:
        yield frame.f_code
        frame = frame.f_back


def test_waiting_for_a_command_holds_no_lock() -> None:
    """An exception that comes in a wait of `threading`'s leaves its lock as it happens to be."""
    completion, found = Completion(), set()
    thread = threading.Thread(target=completion.wait)
    thread.start()
    deadline = time.monotonic() + SECONDS
    while not found and time.monotonic() < deadline:
        time.sleep(0.001)
        frame = sys._current_frames().get(thread.ident or 0)
        if Completion.wait.__code__ in _codes(frame) and outermost(frame) is None:
            found.add(frame.f_code)  # type: ignore[union-attr]
    completion.settle(0)
    thread.join()
    assert found == {interrupts.block.__code__}


def test_a_call_that_fails_meanwhile() -> None:
    names = {"busy": _inside(BUSY), "source_of_it": _by_timer, "is_kept": _is_kept}
    call = _inside("def call():\n    busy([], source_of_it, is_kept)\n    raise ValueError", **names)
    with pytest.raises(Interrupt):
        call()


def test_two_signals_in_one_call() -> None:
    call, came = _inside(BUSY), []
    signal.signal(signal.SIGALRM, lambda *_: came.append("alarm"))

    def interrupt_once_it_is_kept() -> None:
        """Of two that have come the interpreter takes the one with the lower number first."""
        until = time.monotonic() + SECONDS
        while not _is_kept() and time.monotonic() < until:
            time.sleep(0.001)
        _thread.interrupt_main()

    def both() -> None:
        _by_timer()
        threading.Thread(target=interrupt_once_it_is_kept, daemon=True).start()

    done: list[object] = []
    with pytest.raises(Interrupt):
        call(done, both, lambda: len(interrupts._pending.kept) == 2)
    assert (came, done[-1]) == (["alarm"], "whole")


def test_a_finalisers_exception_comes_after_it() -> None:
    class Last:
        def __del__(self) -> None:
            time.sleep(0.1)

    started = time.monotonic()
    with pytest.raises(Interrupt):
        last = Last()
        _by_timer()
        del last
        while time.monotonic() < started + SECONDS:
            time.sleep(0.001)


@pytest.mark.parametrize("source", [_by_timer, _by_exception])
def test_an_exception_in_a_callback_of_the_collector_arrives_after_it(source: Callable[[], None]) -> None:
    """The interpreter prints an exception of such a callback, and goes on."""
    ended, own = [], threading.get_ident()

    def callback(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and threading.get_ident() == own:
            source()
            until = time.monotonic() + 0.1
            while time.monotonic() < until:
                pass
            ended.append(phase)

    gc.callbacks.append(callback)
    try:
        with pytest.raises(Interrupt):
            while not ended:  # `gc.collect` does nothing while another thread collects
                gc.collect()
            _wait()
    finally:
        gc.callbacks.remove(callback)
    assert ended


def test_beside_a_profiler() -> None:
    done: list[object] = []
    call, profiler = _inside(BUSY), cProfile.Profile()
    profiler.enable()
    try:
        with pytest.raises(Interrupt):
            call(done, _by_timer, _timer_is_over)  # beside this profiler it is not kept: it comes anew
            _wait()
    finally:
        # An exception that a handler raises while `cProfile` names a function is counted by it as memory that is
        # exhausted; without vdev as well.
        with contextlib.suppress(MemoryError):
            profiler.disable()
    assert done[-1] == "whole"


def test_a_program_that_traces_calls_goes_on_tracing() -> None:
    seen: list[str] = []

    def profiler(frame: Any, event: str, argument: object) -> None:
        seen.append(frame.f_code.co_name)

    done: list[object] = []
    call = _inside(BUSY)
    sys.setprofile(profiler)
    try:
        with pytest.raises(Interrupt):
            call(done, _by_timer, _is_kept)
        deadline = time.monotonic() + SECONDS
        while sys.getprofile() is not profiler and time.monotonic() < deadline:
            time.sleep(0.001)
        assert sys.getprofile() is profiler
    finally:
        sys.setprofile(None)
    assert done[-1] == "whole"
    assert "part" in seen


def test_handlers_are_the_programs_own() -> None:
    def handler(number: int, frame: object) -> None:
        pass

    before = signal.getsignal(signal.SIGUSR1)
    assert signal.signal(signal.SIGUSR1, handler) == before
    assert signal.getsignal(signal.SIGUSR1) is handler
    assert signal.signal(signal.SIGUSR1, signal.SIG_IGN) is handler
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN
    signal.signal(signal.SIGUSR1, before)
    with pytest.raises(TypeError):
        signal.signal(signal.SIGUSR1, "no handler")  # type: ignore[arg-type]


def test_another_threads_call_is_whole_too() -> None:
    done: list[object] = []
    call, came = _inside(BUSY), threading.Event()

    def run() -> None:
        try:
            call(done, lambda: None, lambda: threading.get_ident() in interrupts._wanted)
            _wait()
        except Interrupt:
            came.set()

    thread = threading.Thread(target=run)
    thread.start()
    until = time.monotonic() + SECONDS
    while not done and time.monotonic() < until:  # it is inside the call then, however late it came
        time.sleep(0.001)
    number = ctypes.c_ulong(thread.ident or 0)
    assert ctypes.pythonapi.PyThreadState_SetAsyncExc(number, ctypes.py_object(Interrupt)) == 1
    thread.join()
    assert came.is_set()
    assert done[-1] == "whole"


@pytest.mark.parametrize("depth", [10, 600])
def test_it_comes_to_a_deep_stack_though_turns_are_short(depth: int) -> None:
    """A session with GPUs makes turns of the interpreter's lock so short that only a few frames can be looked at in one."""
    came, ready = threading.Event(), threading.Event()

    def descend(left: int) -> None:
        if left:
            return descend(left - 1)
        ready.set()
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            time.sleep(0.001)

    def run() -> None:
        try:
            descend(depth)
        except Interrupt:
            came.set()

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    chosen = sys.getswitchinterval()
    try:
        thread = threading.Thread(target=run)
        thread.start()
        assert ready.wait(SECONDS)
        number = ctypes.c_ulong(thread.ident or 0)
        assert ctypes.pythonapi.PyThreadState_SetAsyncExc(number, ctypes.py_object(Interrupt)) == 1
        thread.join()
        until = time.monotonic() + SECONDS
        while sys.getswitchinterval() != chosen and time.monotonic() < until:
            time.sleep(0.001)
        assert sys.getswitchinterval() == chosen
    finally:
        sys.setswitchinterval(before)
    assert came.is_set()


def test_a_thread_that_is_not_there() -> None:
    number = ctypes.c_ulong(1 << 60)
    assert ctypes.pythonapi.PyThreadState_SetAsyncExc(number, ctypes.py_object(Interrupt)) == 0


def test_installed_by_another_thread() -> None:
    script = """
import signal, threading, time
from vdev.process import interrupts
thread = threading.Thread(target=interrupts.install); thread.start(); thread.join()
time.sleep(0.01)
import _signal
print(type(interrupts._get_handler(signal.SIGINT)).__name__, signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=900, check=False
    )
    assert done.stdout.split() == ["_Handler", "True"], done.stderr
