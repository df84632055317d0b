"""Interruptions: exceptions that come at random moments of random calls, and what they leave behind.

    VDEV=1 VDEV_WORKERS=cpu:3 python -m tests.cpu.interruptions [--count N] [--seed N] [--seconds S]

Each round makes one call, or a few that belong together, while a signal's handler or another thread raises an exception
in it. Then the call must have happened or not: every buffer is read and compared with what it was before, and with what
it would be. A hang ends the run with a traceback of all threads. The last line says how many exceptions came, and from
where.
"""

from __future__ import annotations

import _thread
import argparse
import ctypes
import faulthandler
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyopencl as cl

WORDS = 6144
BUFFERS = 4
#: seconds in which a round must end, and an exception must come that was raised
HANG, LOST = 60, 20
SOURCE = """
kernel void add(global int *a, int k) { a[get_global_id(0)] += k; }
kernel void mix(global int *a, global const int *b, global const int *c) {
    int i = get_global_id(0); a[i] = 3 * b[i] - c[get_global_size(0) - 1 - i];
}
kernel void turn(global int *a, int n) { int i = get_global_id(0); if (i % 2 == 0) a[n - 1 - i] = i; }
"""
FRESH = "kernel void fresh(global int *a) {{ int i = get_global_id(0); a[i] = a[i] * {0} + (i % {1}); }}"
Arrays = list[np.ndarray]


class Interrupt(BaseException):
    """What the program did not ask for."""


def _raise(number: int, frame: object) -> None:
    raise Interrupt


class Timer:
    """SIGALRM, whose handler raises."""

    name = "SIGALRM"

    def arm(self, delay: float) -> None:
        signal.setitimer(signal.ITIMER_REAL, max(delay, 1e-6))

    def settle(self) -> None:
        if signal.setitimer(signal.ITIMER_REAL, 0)[0] == 0:
            _expect(self.name)


def _expect(name: str) -> None:
    """Wait for an exception: it was raised, so it must come."""
    started = time.monotonic()
    while time.monotonic() - started < LOST:
        time.sleep(0.0002)
    raise AssertionError(f"an exception by {name} never came")


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


def _set_exception() -> None:
    thread = ctypes.c_ulong(threading.main_thread().ident or 0)
    assert ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(Interrupt)) == 1


SOURCES = (
    Timer(),
    Other("SIGINT from a thread", lambda: os.kill(os.getpid(), signal.SIGINT)),
    Other("interrupt_main", _thread.interrupt_main),
    Other("PyThreadState_SetAsyncExc", _set_exception),
)


class Rounds:
    """A program's objects, and what its buffers must hold."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.context = cl.create_some_context(interactive=False)
        self.queues = [
            cl.CommandQueue(self.context),
            cl.CommandQueue(
                self.context, properties=cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
            ),
        ]
        program = cl.Program(self.context, SOURCE).build()
        self.add, self.mix, self.turn = program.add, program.mix, program.turn
        self.arrays: Arrays = [np.arange(WORDS, dtype=np.int32) * (n + 1) for n in range(BUFFERS)]
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        self.buffers = [cl.Buffer(self.context, flags, hostbuf=array) for array in self.arrays]
        self.events: list[Any] = []
        self.usual: dict[str, float] = {}
        self.came: Counter[str] = Counter()
        self.acts = [getattr(self, name) for name in dir(self) if name.startswith("do_")]

    # acts: each gives what the buffers will be, and what is called -----------------------------------

    def _pick(self, count: int = 1) -> list[int]:
        return self.random.sample(range(BUFFERS), count)

    def _changed(self, at: int, value: np.ndarray) -> Arrays:
        return [value.astype(np.int32) if n == at else array for n, array in enumerate(self.arrays)]

    def do_add(self, queue: Any) -> tuple[Arrays, Callable[[], object]]:
        (at,), k = self._pick(), np.int32(self.random.randrange(1000))
        count = self.random.choice((1, 1, 4))
        after = self._changed(at, self.arrays[at] + k * np.int32(count))
        if count == 1:
            return after, lambda: self.add(queue, (WORDS,), (64,), self.buffers[at], k)
        # Equal launches in a row are made in another way: of those, some may have happened.
        self.steps = [self._changed(at, self.arrays[at] + k * np.int32(n)) for n in range(count)]
        return after, lambda: [self.add(queue, (WORDS,), (64,), self.buffers[at], k) for _ in range(count)]

    def do_mix(self, queue: Any) -> tuple[Arrays, Callable[[], object]]:
        a, b, c = self._pick(3)
        after = self._changed(a, 3 * self.arrays[b] - self.arrays[c][::-1])
        return after, lambda: self.mix(queue, (WORDS,), None, *(self.buffers[n] for n in (a, b, c)))

    def do_turn(self, queue: Any) -> tuple[Arrays, Callable[[], object]]:
        (at,) = self._pick()
        value = self.arrays[at].copy()
        value[::-1][::2] = np.arange(0, WORDS, 2)
        return self._changed(at, value), lambda: self.turn(
            queue, (WORDS,), None, self.buffers[at], np.int32(WORDS)
        )

    def do_write(self, queue: Any) -> tuple[Arrays, Callable[[], object]]:
        (at,) = self._pick()
        value = np.full(WORDS, self.random.randrange(1 << 30), np.int32)
        wait = self.random.random() < 0.5
        return self._changed(at, value), lambda: cl.enqueue_copy(
            queue, self.buffers[at], value, is_blocking=wait
        )

    def do_read(self, queue: Any) -> tuple[Arrays, Callable[[], object]]:
        (at,) = self._pick()

        def read() -> None:
            found = np.empty(WORDS, np.int32)
            cl.enqueue_copy(queue, found, self.buffers[at], is_blocking=self.random.random() < 0.7).wait()
            np.testing.assert_array_equal(found, self.arrays[at])

        return self.arrays, read

    def do_fill(self, queue: Any) -> tuple[Arrays, Callable[[], object]]:
        (at,), k = self._pick(), self.random.randrange(1000)
        start = self.random.randrange(WORDS // 2)
        value = self.arrays[at].copy()
        value[start:] = k
        return self._changed(at, value), lambda: cl.enqueue_fill_buffer(
            queue, self.buffers[at], np.int32(k), 4 * start, 4 * (WORDS - start)
        )

    def do_copy(self, queue: Any) -> tuple[Arrays, Callable[[], object]]:
        a, b = self._pick(2)
        return self._changed(a, self.arrays[b]), lambda: cl.enqueue_copy(
            queue, self.buffers[a], self.buffers[b]
        )

    def do_map(self, queue: Any) -> tuple[Arrays, Callable[[], object]]:
        (at,), value = self._pick(), np.full(WORDS, self.random.randrange(1000), np.int32)

        def map_and_write() -> None:
            flags = cl.map_flags.READ | cl.map_flags.WRITE
            array, _ = cl.enqueue_map_buffer(queue, self.buffers[at], flags, 0, WORDS, np.int32)
            array[:] = value
            array.base.release(queue)

        return self._changed(at, value), map_and_write

    def do_build(self, queue: Any) -> tuple[Arrays, Callable[[], object]]:
        (at,), k, m = self._pick(), self.random.randrange(2, 9), self.random.randrange(2, 99)
        after = self._changed(at, self.arrays[at] * np.int32(k) + np.arange(WORDS) % m)

        def build() -> None:
            program = cl.Program(self.context, FRESH.format(k, m)).build(cache_dir=False)
            program.fresh(queue, (WORDS,), None, self.buffers[at])

        return after, build

    def do_new_buffer(self, queue: Any) -> tuple[Arrays, Callable[[], object]]:
        (at,) = self._pick()

        def replace() -> None:
            flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
            fresh = cl.Buffer(self.context, flags, hostbuf=self.arrays[at])
            self.add(queue, (WORDS,), None, fresh, np.int32(0))
            before, self.buffers[at] = self.buffers[at], fresh
            before.release()

        return self.arrays, replace

    def do_sub_buffer(self, queue: Any) -> tuple[Arrays, Callable[[], object]]:
        (at,), k = self._pick(), np.int32(self.random.randrange(1000))
        start, count = 1024 * self.random.randrange(1, 4), 1024
        value = self.arrays[at].copy()
        value[start : start + count] += k

        def launch() -> None:
            part = self.buffers[at].get_sub_region(4 * start, 4 * count)
            self.add(queue, (count,), None, part, k)

        return self._changed(at, value), launch

    def do_user_event(self, queue: Any) -> tuple[Arrays, Callable[[], object]]:
        (at,), k = self._pick(), np.int32(self.random.randrange(1000))
        event = cl.UserEvent(self.context)
        self.events.append(event)

        def launch() -> None:
            done = self.add(queue, (WORDS,), None, self.buffers[at], k, wait_for=[event])
            event.set_status(cl.command_execution_status.COMPLETE)
            self.events.remove(event)
            done.wait()

        return self._changed(at, self.arrays[at] + k), launch

    def do_hopeless_wait(self, queue: Any) -> tuple[Arrays, Callable[[], object]]:
        """Nobody sets the event: only the exception ends the wait."""
        event = cl.UserEvent(self.context)
        self.events.append(event)
        waits = [
            lambda: event.wait(),
            lambda: cl.wait_for_events([event]),
            lambda: (cl.enqueue_marker(queue, wait_for=[event]), queue.finish()),
            lambda: cl.enqueue_copy(queue, np.empty(8, np.int32), self.buffers[0], wait_for=[event]),
        ]
        return self.arrays, self.random.choice(waits)

    def do_finish(self, queue: Any) -> tuple[Arrays, Callable[[], object]]:
        (at,), k = self._pick(), np.int32(self.random.randrange(1000))
        after = self._changed(at, self.arrays[at] + k)
        return after, lambda: (self.add(queue, (WORDS,), None, self.buffers[at], k), queue.finish())

    def do_image(self, queue: Any) -> tuple[Arrays, Callable[[], object]]:
        def image() -> None:
            shape = (16, 8)
            pixels = np.arange(16 * 8 * 4, dtype=np.float32).reshape(8, 16, 4)
            form = cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.FLOAT)
            made = cl.Image(self.context, cl.mem_flags.READ_WRITE, form, shape)
            cl.enqueue_copy(queue, made, pixels, origin=(0, 0), region=shape)
            found = np.empty_like(pixels)
            queue.finish()
            cl.enqueue_copy(queue, found, made, origin=(0, 0), region=shape)
            np.testing.assert_array_equal(found, pixels)

        return self.arrays, image

    def do_svm(self, queue: Any) -> tuple[Arrays, Callable[[], object]]:
        def shared() -> None:
            svm = cl.SVM(cl.csvm_empty(self.context, WORDS, np.int32))
            with svm.map_rw(queue) as array:
                array[:] = 5
            self.add(queue, (WORDS,), None, svm, np.int32(2))
            with svm.map_ro(queue) as array:
                assert (array == 7).all()

        return self.arrays, shared

    # rounds --------------------------------------------------------------------------------------

    def round(self) -> None:
        act, source = self.random.choice(self.acts), self.random.choice(SOURCES)
        queue = self.random.choice(self.queues)
        hopeless = act == self.do_hopeless_wait
        self.steps: list[Arrays] = []
        after, call = act(queue)
        possible = [self.arrays, *self.steps, after]
        usual = self.usual.get(act.__name__, 0.001)
        delay = self.random.random() * (0.02 if hopeless else 1.3 * usual)
        started = time.perf_counter()
        try:
            source.arm(delay)
            call()
            if not hopeless:
                possible = [after]
                self.usual[act.__name__] = 0.8 * usual + 0.2 * (time.perf_counter() - started)
            source.settle()
        except Interrupt:
            self.came[f"{act.__name__[3:]} by {source.name}"] += 1
        while self.events:
            event = self.events.pop()
            if event.command_execution_status > 0:
                event.set_status(cl.command_execution_status.COMPLETE)
        for each in self.queues:
            each.finish()
        self.arrays = self._found(possible, act.__name__)

    def _found(self, possible: list[Arrays], what: str) -> Arrays:
        """What the buffers hold: one of what they may."""
        found = [np.empty(WORDS, np.int32) for _ in self.buffers]
        for buffer, array in zip(self.buffers, found, strict=True):
            cl.enqueue_copy(self.queues[0], array, buffer)
        for arrays in possible:
            if all((array == other).all() for array, other in zip(arrays, found, strict=True)):
                return arrays
        raise AssertionError(f"{what}: neither what was there before nor what it was to be")


@contextmanager
def _handlers() -> Iterator[None]:
    before = [(number, signal.signal(number, _raise)) for number in (signal.SIGALRM, signal.SIGINT)]
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        for number, handler in before:
            signal.signal(number, handler)


def run(count: int, seed: int, seconds: float = float("inf")) -> Counter[str]:
    """Rounds until `count` exceptions came or `seconds` are over; which came, by act and origin."""
    rounds, started = Rounds(seed), time.monotonic()
    with _handlers():
        while rounds.came.total() < count and time.monotonic() - started < seconds:
            faulthandler.dump_traceback_later(HANG, exit=True)
            rounds.round()
    return rounds.came


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--seconds", type=float, default=float("inf"))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    came = run(options.count, options.seed, options.seconds)
    for what, times in sorted(came.items()):
        print(f"  {what:50} {times:5}")
    print(f"{came.total()} exceptions at random moments: every call happened or did not")


if __name__ == "__main__":
    main()
