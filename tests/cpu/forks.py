"""Programs that fork, for `test_forks`: each prints what its children came to.

VDEV=1 VDEV_WORKERS=cpu:3 python -m tests.cpu.forks SCENARIO
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pyopencl as cl

from vdev.process.finalisers import collect

WORDS = 4096
SOURCE = """
kernel void twice(global int *a) { a[get_global_id(0)] *= 2; }
kernel void spin(global int *a, uint rounds) {
    uint x = get_global_id(0) + 1;
    for (uint k = 0; k < rounds; ++k) x = x * 1664525u + 1013904223u ^ (x >> 7);
    a[get_global_id(0)] += x;
}
"""
#: seconds that a child may take, on a machine that has much to do
LIMIT = 300


class Objects:
    """A program's objects."""

    def __init__(self, device: cl.Device | None = None) -> None:
        self.context = cl.create_some_context(interactive=False) if device is None else cl.Context([device])
        self.queue = cl.CommandQueue(self.context)
        program = cl.Program(self.context, SOURCE).build()
        self.twice, self.spin = program.twice, program.spin
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        self.buffer = cl.Buffer(self.context, flags, hostbuf=np.arange(WORDS, dtype=np.int32))

    def check(self) -> None:
        """That a kernel computes."""
        numbers = np.arange(WORDS, dtype=np.int32)
        buffer = cl.Buffer(
            self.context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=numbers
        )
        self.twice(self.queue, (WORDS,), (64,), buffer)
        found = np.empty_like(numbers)
        cl.enqueue_copy(self.queue, found, buffer)
        assert (found == 2 * numbers).all(), "a wrong result"


def child(
    work: Callable[[], object], leave: Callable[[int], object] = os._exit, limit: float = LIMIT
) -> int | str:
    """The exit status of a forked child that does `work`, 0 where that returns; 'a hang' after `limit` seconds."""
    number = os.fork()
    if number == 0:
        try:
            work()
        except BaseException as error:
            print(f"child: {type(error).__name__}: {error}", flush=True)
            leave(1)
        leave(0)
    deadline = time.monotonic() + limit
    while True:
        done, status = os.waitpid(number, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.kill(number, signal.SIGKILL)
            os.waitpid(number, 0)
            return "a hang"
        time.sleep(0.01)


def refusals(parent: Objects, pending: cl.Event, user: cl.UserEvent, nanny: Any) -> None:
    """In a child: everything that uses the parent's context says why it cannot."""
    host = np.zeros(WORDS, np.int32)
    one = np.int32(1)
    for name, use in {
        "queue": lambda: cl.CommandQueue(parent.context),
        "buffer": lambda: cl.Buffer(parent.context, cl.mem_flags.READ_WRITE, 64),
        "copied buffer": lambda: cl.Buffer(parent.context, cl.mem_flags.COPY_HOST_PTR, hostbuf=host),
        "program": lambda: cl.Program(parent.context, SOURCE).build(cache_dir=False),
        "launch": lambda: parent.twice(parent.queue, (WORDS,), (64,), parent.buffer),
        "launch of another size": lambda: parent.twice(parent.queue, (64,), None, parent.buffer),
        "read": lambda: cl.enqueue_copy(parent.queue, host, parent.buffer),
        "write": lambda: cl.enqueue_copy(parent.queue, parent.buffer, host),
        "fill": lambda: cl.enqueue_fill_buffer(parent.queue, parent.buffer, one, 0, 64),
        "map": lambda: cl.enqueue_map_buffer(parent.queue, parent.buffer, 1, 0, 64, np.int32),
        "marker": lambda: cl.enqueue_marker(parent.queue),
        "barrier": lambda: cl.enqueue_barrier(parent.queue),
        "finish": parent.queue.finish,
        "flush": parent.queue.flush,
        "event": pending.wait,
        "events": lambda: cl.wait_for_events([pending]),
        "user event": user.wait,
        "new user event": lambda: cl.UserEvent(parent.context),
        "transfer": nanny.wait,
        "shared memory": lambda: cl.csvm_empty(parent.context, 64, np.int32),
    }.items():
        started = time.monotonic()
        try:
            use()
        except cl.Error as error:
            if "fork" not in str(error):
                print(f"{name}: {error}", flush=True)
        else:
            print(f"{name}: no error", flush=True)
        if time.monotonic() - started > 5:
            print(f"{name}: it took {time.monotonic() - started:.1f} s", flush=True)


def scenario_parents_context() -> None:
    """A child uses its parent's context, with commands on their way and some held back."""
    parent = Objects()
    parent.check()
    for _ in range(4):
        parent.twice(parent.queue, (WORDS,), (64,), parent.buffer)
    user = cl.UserEvent(parent.context)
    pending = parent.spin(parent.queue, (WORDS,), None, parent.buffer, np.uint32(9), wait_for=[user])
    nanny = cl.enqueue_copy(parent.queue, np.zeros(WORDS, np.int32), parent.buffer, is_blocking=False)
    array, _ = cl.enqueue_map_buffer(
        cl.CommandQueue(parent.context), parent.buffer, 1, 0, 64, np.int32, is_blocking=False
    )

    def use() -> None:
        nonlocal parent, pending, user, nanny, array
        refusals(parent, pending, user, nanny)
        Objects(parent.context.devices[0]).check()
        del parent, pending, user, nanny, array  # finalisers say nothing and wait for nobody
        collect()

    print("child", child(use), child(lambda: child(use), sys.exit))
    user.set_status(0)
    pending.wait()
    parent.check()


def scenario_own_context() -> None:
    """Children make contexts of their own: one after the other, nested, from a thread, leaving in all ways."""
    parent = Objects()
    parent.check()
    own = lambda: Objects().check()  # noqa: E731
    print("own", child(own), child(own, sys.exit), child(lambda: None, sys.exit))
    print("nested", child(lambda: (own(), child(own) and os._exit(7))))
    found: list[int | str] = []
    thread = threading.Thread(target=lambda: found.append(child(own)))
    thread.start()
    thread.join()
    print("thread", found[0])
    parent.check()


def scenario_busy() -> None:
    """fork() while commands run and other threads enqueue and read."""
    parent, others = Objects(), [Objects(), Objects()]
    for objects in others:
        objects.check()
    stop = threading.Event()

    def enqueue(objects: Objects) -> None:
        while not stop.is_set():
            objects.check()

    threads = [threading.Thread(target=enqueue, args=(objects,)) for objects in others]
    for thread in threads:
        thread.start()
    ends = []
    for _ in range(4):
        for _ in range(3):
            parent.spin(parent.queue, (WORDS,), None, parent.buffer, np.uint32(3_000))
        ends.append(child(lambda: Objects().check()))
    stop.set()
    for thread in threads:
        thread.join()
    parent.queue.finish()
    parent.check()
    print("busy", *ends)


def scenario_many(forks: int = 60) -> None:
    """fork() again and again beside threads that are inside the driver most of the time, each in its own way."""
    parent, stop = Objects(), threading.Event()
    parent.check()

    def read(objects: Objects, host: Any) -> None:
        objects.twice(objects.queue, (WORDS,), (64,), objects.buffer)
        cl.enqueue_copy(objects.queue, host, objects.buffer)

    def finish(objects: Objects, _: Any) -> None:
        objects.spin(objects.queue, (WORDS,), None, objects.buffer, np.uint32(100))
        objects.queue.finish()

    def repeat(step: Callable[[Objects, Any], None]) -> None:
        objects, host = Objects(), np.zeros(WORDS, np.int32)
        while not stop.is_set():
            step(objects, host)

    threads = [threading.Thread(target=repeat, args=(step,)) for step in (read, finish)]
    for thread in threads:
        thread.start()
    ends: Counter[int | str] = Counter()
    for number in range(forks):
        time.sleep(0.002 * (number % 7))
        ends[child(lambda: Objects().check() if number % 4 else None)] += 1  # noqa: B023
        if "a hang" in ends:
            break
    stop.set()
    for thread in threads:
        thread.join()
    parent.check()
    print("many", dict(ends))


def _work(number: int) -> int:
    Objects().check()
    return number


def scenario_multiprocessing() -> None:
    """Pools by all three ways of starting processes, with a context in the parent."""
    parent = Objects()
    parent.check()
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            print(method, pool.map_async(_work, range(4), chunksize=1).get(LIMIT))
    parent.check()


if __name__ == "__main__":
    globals()[f"scenario_{sys.argv[1]}"]()
    print("ends", flush=True)
