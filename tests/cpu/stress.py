"""Stress test: many threads, contexts and queues at once, against NumPy.

    python -m tests.cpu.stress --seconds 60                8 threads, 3 contexts, random commands
    python -m tests.cpu.stress --enqueues 1000000          so many enqueues, with memory measured on the way
    python -m tests.cpu.stress --native --seconds 60       the same on PyOpenCL's own device

Decides what threads share, how long they run and what has to be back where it began when they are done:
memory of the process and on workers, threads, callbacks. What a thread does and what must come of it is
`stress_actor`'s affair. The exit status is 0 when nothing differed, nothing hung and nothing was left.
"""

from __future__ import annotations

import argparse
import ctypes
import faulthandler
import gc
import os
import queue
import random
import sys
import threading
import time
from collections import Counter
from typing import Any

import numpy as np

from tests.cpu.stress_actor import ORDER_SIZE, SOURCE, TALLY_SLOTS, Actor, Different, Ground

#: a thread that does nothing for so many seconds hangs
PATIENCE = 60.0
#: what the process may have more in the end than after the warm-up: room that the allocators keep where plans
#: have been, and what is in use of it
MOST_LEFT_NBYTES, MOST_USED_NBYTES, MOST_BLOCKS = 256 << 20, 16 << 20, 50_000
WARM_UP_SECONDS = 10.0


def resident_nbytes() -> int:
    """Bytes of the process in memory, less what the C library's allocator keeps for the next request."""
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm") as statistics:
        return int(statistics.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class _MallocInfo(ctypes.Structure):
    """struct mallinfo2 of glibc."""

    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"
    )]  # fmt: skip


def used_nbytes() -> int:
    """Bytes that are in use of the C library's allocator; 0 where it does not tell."""
    mallinfo = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if mallinfo is None:
        return 0
    mallinfo.restype = _MallocInfo
    found = mallinfo()
    return int(found.uordblks + found.hblkhd)


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


class Setter:
    """A thread that sets user events a little later than they are given to it."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="setter", daemon=True)
        self._thread.start()

    def __call__(self, event: Any) -> None:
        self._queue.put(event)

    def _run(self) -> None:
        while (event := self._queue.get()) is not None:
            time.sleep(0.0005)
            event.set_status(0)
            event = None

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join()


def make_ground(cl: Any, seed: int) -> Ground:
    """A context with an in-order and an out-of-order queue."""
    from pyopencl.tools import ImmediateAllocator, MemoryPool  # see `main`

    context = cl.Context([cl.get_platforms()[0].get_devices()[0]])
    queues = [cl.CommandQueue(context), cl.CommandQueue(context, properties=1)]
    permutation = np.random.default_rng(seed).permutation(ORDER_SIZE).astype(np.int32)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    return Ground(
        context=context,
        queues=queues,
        program=cl.Program(context, SOURCE).build(),
        pool=MemoryPool(ImmediateAllocator(queues[0])),
        order=cl.Buffer(context, flags, hostbuf=permutation),
        tally=cl.Buffer(context, flags, hostbuf=np.zeros(TALLY_SLOTS, np.int32)),
        permutation=permutation,
    )


def work(cl: Any, seconds: float, seed: int, *, count: int = 8, contexts: int = 3) -> Counter[str]:
    """Let `count` threads work for that long; how often they did what. Raises the first thread's error."""
    grounds = [make_ground(cl, seed + number) for number in range(contexts)]
    setter = Setter()
    actors = [Actor(cl, grounds, 1000 * seed + number, setter) for number in range(count)]
    errors: list[BaseException] = []
    deadline = time.monotonic() + seconds

    def run(actor: Actor) -> None:
        try:
            actor.run(lambda: bool(errors) or time.monotonic() > deadline)
        except BaseException as error:
            errors.append(error)

    running = [
        threading.Thread(target=run, args=(actor,), name=f"actor {n}") for n, actor in enumerate(actors)
    ]
    for thread in running:
        thread.start()
    watch(running, actors)
    setter.close()
    if errors:
        raise errors[0]
    for ground in grounds:
        found = np.empty(TALLY_SLOTS, np.int32)
        cl.enqueue_copy(ground.queues[0], found, ground.tally)
        if not np.array_equal(found, ground.added):
            raise Different(f"counters of all threads: {found} for {ground.added}")
    await_callbacks(actors)
    kinds = Counter[str]()
    for actor in actors:
        kinds.update(actor.kinds)
    return kinds


def watch(running: list[threading.Thread], actors: list[Actor]) -> None:
    """Return when all threads have ended; end the process with their stacks where one hangs."""
    moved = dict.fromkeys(actors, time.monotonic())
    counts = dict.fromkeys(actors, -1)
    while any(thread.is_alive() for thread in running):
        for thread, actor in zip(running, actors, strict=True):
            thread.join(0.05)
            now = time.monotonic()
            if counts[actor] != actor.count or not thread.is_alive():
                counts[actor], moved[actor] = actor.count, now
            elif now - moved[actor] > PATIENCE:
                print(f"{thread.name} hangs after {actor.count} commands", file=sys.stderr, flush=True)
                faulthandler.dump_traceback(all_threads=True)
                os._exit(3)


def await_callbacks(actors: list[Actor]) -> None:
    deadline = time.monotonic() + 20
    awaited = sum(actor.awaited for actor in actors)
    while sum(actor.heard for actor in actors) < awaited:
        if time.monotonic() > deadline:
            raise Different(f"{sum(actor.heard for actor in actors)} callbacks of {awaited} have come")
        time.sleep(0.01)


def held_nbytes() -> int:
    """Device memory held by the session's workers."""
    from vdev.session import get_session

    return sum(counters.allocated_nbytes for counters in get_session().executor.counters())


def settled(measure: Any, wanted: int, seconds: float = 10.0) -> int:
    """What `measure` gives when it has come down to `wanted` or time is up."""
    deadline = time.monotonic() + seconds
    while (found := measure()) > wanted and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.1)
    return int(found)


def stress(cl: Any, seconds: float, seed: int, *, count: int = 8, contexts: int = 3) -> list[str]:
    """What was left behind, in words, and nothing where all is as it was. Raises where results differ."""
    virtual = "vdev" in cl.get_platforms()[0].name
    work(cl, min(WARM_UP_SECONDS, seconds), seed + 1, count=count, contexts=contexts)
    gc.collect()
    # In a shorter run the caches of plans are still filling.
    most_used = MOST_USED_NBYTES if seconds >= WARM_UP_SECONDS else MOST_LEFT_NBYTES
    measures = {
        "bytes of the process": (resident_nbytes, MOST_LEFT_NBYTES),
        "bytes in use": (used_nbytes, most_used),
        "blocks of Python's": (sys.getallocatedblocks, MOST_BLOCKS),
        "threads": (threads, 0),
    }
    if virtual:
        measures["bytes on the workers"] = (held_nbytes, 0)
    before = {name: settled(measure, 0, 1.0) for name, (measure, _) in measures.items()}
    kinds = work(cl, seconds, seed, count=count, contexts=contexts)
    print(f"{sum(kinds.values())} actions of {count} threads: {dict(kinds.most_common())}")
    gc.collect()
    left = []
    for name, (measure, more) in measures.items():
        start = before[name]
        found = settled(measure, start + more)
        print(f"{name}: {start} before, {found} after")
        if found > start + more:
            left.append(f"{name}: {found - start} more than before")
    return left


def enqueues(cl: Any, number: int, seed: int) -> list[str]:
    """`number` commands of one thread, with events that nobody keeps; what grew, in words."""
    ground = make_ground(cl, seed)
    kernel = cl.Kernel(ground.program, "in_place")
    flags = cl.mem_flags.READ_WRITE
    buffers = [cl.Buffer(ground.context, flags, size=4096) for _ in range(4)]
    for buffer in buffers:
        cl.enqueue_fill_buffer(ground.queues[0], buffer, np.int32(1), 0, 4096)
    ground.queues[0].finish()
    rng = random.Random(seed)
    sizes = []
    started = time.monotonic()
    for index in range(number):
        queue_, buffer = ground.queues[index & 1], buffers[index % 4]
        kind = rng.randrange(8)
        if kind < 5:
            kernel(queue_, (1024,), None, buffer, np.int32(3), np.int32(1024))
        elif kind == 5:
            cl.enqueue_fill_buffer(queue_, buffer, np.int32(index), 0, 4096)
        elif kind == 6:
            cl.enqueue_copy(queue_, buffers[(index + 1) % 4], buffer)
        else:
            cl.enqueue_marker(queue_)
        if (index + 1) % max(number // 10, 1) == 0:
            for each in ground.queues:
                each.finish()
            gc.collect()
            sizes.append(resident_nbytes())
            rate = (index + 1) / (time.monotonic() - started)
            print(f"{index + 1} enqueues: {sizes[-1] >> 20} MiB, {rate:.0f} a second", flush=True)
    grown = sizes[-1] - sizes[0]
    return [f"{grown} bytes more after {number} enqueues"] if grown > MOST_USED_NBYTES else []


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cpu.stress", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--enqueues", type=int, help="instead: so many enqueues from one thread")
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--contexts", type=int, default=3)
    parser.add_argument("--workers", default="cpu:3", help="VDEV_WORKERS (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--native", action="store_true", help="without the virtual device")
    options = parser.parse_args()
    os.environ.setdefault("VDEV_WORKERS", options.workers)
    os.environ.setdefault("VDEV_MIN_ITEMS", "256")
    if options.native:
        from vdev import engines

        engines.register_engines()
    else:
        from vdev import boot

        boot.install()
    import pyopencl as cl  # which one it is has been decided now

    if options.enqueues:
        left = enqueues(cl, options.enqueues, options.seed)
    else:
        left = stress(cl, options.seconds, options.seed, count=options.threads, contexts=options.contexts)
    print("\n".join(left) or "nothing differed and nothing is left")
    return 1 if left else 0


if __name__ == "__main__":
    faulthandler.enable()
    sys.exit(main())
