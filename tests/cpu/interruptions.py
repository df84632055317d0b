"""Interruptions: exceptions that come at random moments of random calls, and what they leave behind.

    VDEV=1 VDEV_WORKERS=cpu:3 python -m tests.cpu.interruptions [--count N] [--seed N] [--seconds S]
        [--elsewhere] [--threads N] [--lines]

Each round makes one call, or a few that belong together (`tests.cpu.interrupted_calls`), while a signal's handler or
another thread raises an exception in it. Then the call must have happened or not: every buffer is read and compared with
what it was before, and with what it would be. A hang ends the run with a traceback of all threads. The last line says how
many exceptions came, and from where.

`--elsewhere`: the calls are made by another thread than the main one, which only other threads can interrupt. `--threads`:
so many threads make calls of their own meanwhile, which nothing interrupts. `--lines`: an exception not at random moments
but at each line that a call runs, in PyOpenCL and below.
"""

from __future__ import annotations

import _thread
import argparse
import ctypes
import faulthandler
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np
import pyopencl as cl

from tests.cpu.interrupted_calls import SOURCE, WORDS, Arrays, Calls

#: seconds in which a round must end, and an exception must come that was raised
HANG, LOST = 60, 20
#: how many lines of a call without an end are tried
ENDLESS = 40


class Interrupt(BaseException):
    """What the program did not ask for."""


def _raise(number: int, frame: object) -> None:
    raise Interrupt


def _expect(name: str) -> None:
    """Wait for an exception that is going to be raised, or has been: it must come."""
    started = time.monotonic()
    while time.monotonic() - started < LOST:
        time.sleep(0.0002)
    raise AssertionError(f"an exception by {name} never came")


class Timer:
    """SIGALRM, whose handler raises."""

    name = "SIGALRM"

    def arm(self, delay: float) -> None:
        # Never taken back: the interface does not tell a timer with less than a microsecond to go from one that fired.
        signal.setitimer(signal.ITIMER_REAL, max(delay, 1e-6))

    def settle(self) -> None:
        """The call is over: if the exception has not come yet, it has to."""
        _expect(self.name)


class Other:
    """Another thread does it."""

    def __init__(self, name: str, act: Callable[[], object]) -> None:
        self.name = name
        self._act = act

    def arm(self, delay: float) -> None:
        def run() -> None:
            time.sleep(delay)
            self._act()

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()

    def settle(self) -> None:
        _expect(self.name)


def _set_exception(thread: int) -> None:
    number = ctypes.c_ulong(thread)
    assert ctypes.pythonapi.PyThreadState_SetAsyncExc(number, ctypes.py_object(Interrupt)) == 1


class Lines:
    """A signal at each line of a call in turn, at the first one of them in the first round."""

    name = "a line"

    def __init__(self) -> None:
        self.line = 1 << 60  #: how many lines are left alone
        self.number = 0  #: how many there were
        self.came = False  #: whether there was one more

    def arm(self, delay: float) -> None:
        self.came, self.seen = False, 0
        sys.settrace(self._trace)

    def settle(self) -> None:
        sys.settrace(None)
        if self.came:
            _expect(self.name)

    def _trace(self, frame: FrameType, event: str, argument: object) -> Any:
        if event == "line" and frame.f_globals.get("__name__", "").startswith(_TRACED):
            self.seen += 1
            if self.seen > self.line and not self.came:
                self.came = True
                sys.settrace(None)
                signal.raise_signal(signal.SIGALRM)
        return self._trace


#: the modules at whose lines there is an exception
_TRACED = ("vdev", "pyopencl", "threading")


def _sources() -> tuple[Timer | Other, ...]:
    """What can interrupt the current thread."""
    me = threading.get_ident()
    by_exception = Other("PyThreadState_SetAsyncExc", lambda: _set_exception(me))
    if threading.current_thread() is not threading.main_thread():
        return (by_exception,)
    return (
        Timer(),
        Other("SIGINT from a thread", lambda: os.kill(os.getpid(), signal.SIGINT)),
        Other("interrupt_main", _thread.interrupt_main),
        by_exception,
    )


class Rounds(Calls):
    """Calls, one after the other, on the thread that makes this object."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.sources = _sources()
        self.usual: dict[str, float] = {}
        self.came: Counter[str] = Counter()
        self.calls = [getattr(self, name) for name in dir(self) if name.startswith("do_")]
        self.hopeless = [self.do_hopeless_wait, self.do_map_and_wait]

    def round(self) -> None:
        """A random call, and an exception at a random moment."""
        call, source = self.random.choice(self.calls), self.random.choice(self.sources)
        usual = 0.016 if call in self.hopeless else self.usual.get(call.__name__, 0.001)
        self.make(call, source, 1.3 * usual * self.random.random())

    def make(self, call: Any, source: Any, delay: float) -> None:
        self.steps = []
        after, run = call(self.random.choice(self.queues))
        possible = [self.arrays, *self.steps, after]
        started, is_inside = time.perf_counter(), True
        try:
            source.arm(delay)
            run()
            is_inside = False
            if call not in self.hopeless:
                possible = [after]
                usual = self.usual.get(call.__name__, 0.001)
                self.usual[call.__name__] = 0.8 * usual + 0.2 * (time.perf_counter() - started)
            source.settle()
        except Interrupt:
            if is_inside:  # else it came too late to interrupt anything
                self.came[f"{call.__name__[3:]} by {source.name}"] += 1
        self.settle(possible, call.__name__)

    def settle(self, possible: list[Arrays], what: str) -> None:
        """What was interrupted was left usable, and the buffers hold what they may."""
        while self.events:
            event = self.events.pop()
            if event.command_execution_status > 0:
                event.set_status(cl.command_execution_status.COMPLETE)
        for queue in self.queues:
            queue.finish()
        found = [np.empty(WORDS, np.int32) for _ in self.buffers]
        for buffer, array in zip(self.buffers, found, strict=True):
            cl.enqueue_copy(self.queues[0], array, buffer)
        for arrays in possible:
            if all((array == other).all() for array, other in zip(arrays, found, strict=True)):
                self.arrays = arrays
                return
        raise AssertionError(f"{what}: neither what was there before nor what it was to be")


class Bystander:
    """A thread that makes calls of its own meanwhile, and looks at what comes of them."""

    def __init__(self, context: cl.Context, seed: int) -> None:
        self.context = context
        self.random = random.Random(seed)
        self.failure: BaseException | None = None
        self.stopping = False
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            while not self.stopping:
                self._work()
        except BaseException as error:
            self.failure = error

    def _work(self) -> None:
        queue = cl.CommandQueue(self.context)
        kernel = cl.Program(self.context, SOURCE).build().add
        buffer = cl.Buffer(self.context, cl.mem_flags.READ_WRITE, 4 * WORDS)
        cl.enqueue_fill_buffer(queue, buffer, np.int32(0), 0, 4 * WORDS)
        expected = 0
        for _ in range(20):
            k = self.random.randrange(1000)
            expected += k
            event = kernel(queue, (WORDS,), None, buffer, np.int32(k))
            time.sleep(0.002 * self.random.random())
        event.wait()
        found = np.empty(WORDS, np.int32)
        cl.enqueue_copy(queue, found, buffer)
        assert (found == expected).all(), "another thread's results are wrong"

    def stop(self) -> None:
        self.stopping = True
        self.thread.join(HANG)
        if self.failure is not None:
            raise self.failure


@contextmanager
def _handlers() -> Iterator[None]:
    before = [(number, signal.signal(number, _raise)) for number in (signal.SIGALRM, signal.SIGINT)]
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        for number, handler in before:
            signal.signal(number, handler)


@contextmanager
def _bystanders(context: cl.Context, count: int, seed: int) -> Iterator[None]:
    others = [Bystander(context, seed + n) for n in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.stop()


def run(count: int, seed: int, seconds: float = float("inf"), threads: int = 0) -> Counter[str]:
    """Rounds until `count` exceptions came or `seconds` are over; which came, by call and origin."""
    rounds, started = Rounds(seed), time.monotonic()
    with _bystanders(rounds.context, threads, seed):
        while rounds.came.total() < count and time.monotonic() - started < seconds:
            faulthandler.dump_traceback_later(HANG, exit=True)
            rounds.round()
    return rounds.came


def run_elsewhere(*options: Any) -> Counter[str]:
    """The same on another thread than the main one."""
    found: list[Any] = []

    def work() -> None:
        try:
            found.append(run(*options))
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if isinstance(found[0], BaseException):
        raise found[0]
    return Counter(found[0])


def run_lines(seed: int, seconds: float = float("inf")) -> Counter[str]:
    """Each call again and again, with an exception at a later line each time: at the next one, or at as many as
    `seconds` allow.
    """
    rounds = Rounds(seed)
    for call in rounds.calls:
        lines, made = Lines(), 0
        once, lines.number = 0.01, ENDLESS  # of what only an exception ends
        if call not in rounds.hopeless:
            rounds.make(call, lines, 0)  # for the first time: it takes longer than later
            started = time.monotonic()
            rounds.make(call, lines, 0)
            once, lines.number = time.monotonic() - started, lines.seen
        share = min(1.0, seconds / len(rounds.calls) / once / lines.number)
        lines.line = 0
        while lines.line < lines.number:
            faulthandler.dump_traceback_later(HANG, exit=True)
            rounds.make(call, lines, 0)
            made += 1
            lines.line = int(made / share)
    return rounds.came


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--elsewhere", action="store_true")
    parser.add_argument("--lines", action="store_true")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    with _handlers():
        if options.lines:
            came = run_lines(options.seed, options.seconds)
        else:
            work = run_elsewhere if options.elsewhere else run
            came = work(options.count, options.seed, options.seconds, options.threads)
    for what, times in sorted(came.items()):
        print(f"  {what:50} {times:5}")
    print(f"{came.total()} exceptions at random moments: every call happened or did not")


if __name__ == "__main__":
    main()
