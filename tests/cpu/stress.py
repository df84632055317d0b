"""Stress test: many threads, contexts and queues at once, against NumPy.

    python -m tests.cpu.stress --seconds 60                8 threads, 3 contexts, random commands
    python -m tests.cpu.stress --enqueues 1000000          so many enqueues, with memory measured on the way
    python -m tests.cpu.stress --sequences 1000            short sequences of one thread, each by its seed: from --seed on
    python -m tests.cpu.stress --sequences 1000 --gpus 3   the same on GPUs of the driver for machines without one (`tests/pure/fake_cuda`):
                                                           every launch is split, and what nothing orders comes by chance, by --seed
    python -m tests.cpu.stress --native --seconds 60       the same on PyOpenCL's own device

Decides what threads share, how long they run and what has to be back where it began when they are done:
memory of the process and on workers, threads, callbacks. What a thread does and what must come of it is
`stress_actor`'s affair. The exit status is 0 when nothing differed, nothing hung and nothing was left.

Memory is judged by what comes again. Compilers, allocators and caches take some once, for every thread that
first does a thing, and keep it; a leak grows with the work. So what grew by more than its share of the actions
is measured over the same work again, and is left behind if it grew in every run. `--keep 1024` plants such a
leak, to see that it is found.
"""

from __future__ import annotations

import argparse
import ctypes
import faulthandler
import os
import queue
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.cpu.stress_actor import ORDER_SIZE, SOURCE, TALLY_SLOTS, Actor, Different, Ground
from tests.cpu.stress_calls import Caller
from vdev.process.finalisers import collect
from vdev.start import engines

#: a thread that does nothing for so many seconds hangs
PATIENCE = 60.0
WARM_UP_SECONDS = 10.0
#: times that memory has to grow by too much, one run after the other
RUNS = 12
#: bytes that a million enqueues may leave
MOST_NBYTES = 16 << 20


@dataclass(frozen=True)
class Measure:
    """Something that has to be as it was: `most` more is allowed after a run, and `each` more per action."""

    name: str
    take: Callable[[], int]
    most: int = 0
    each: float = 0.0
    #: it may be taken once and kept
    again: bool = False


def resident_nbytes() -> int:
    """Bytes of the process in memory, less what the C library's allocator and Python's keep for the next
    request.
    """
    collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm") as statistics:
        return int(statistics.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") - spare_nbytes()


def spare_nbytes() -> int:
    """Bytes of Python's allocator for objects in which there is none; 0 where it does not tell."""
    tell = getattr(sys, "_debugmallocstats", None)
    if tell is None:
        return 0
    with tempfile.TemporaryFile() as file:
        standard_error = os.dup(2)  # where it writes to
        os.dup2(file.fileno(), 2)
        try:
            tell()
        finally:
            os.dup2(standard_error, 2)
            os.close(standard_error)
        file.seek(0)
        text = file.read().decode()
    counts = re.findall(
        r"^(?:# bytes in available blocks|\d+ unused pools \*.*?) += +([\d,]+)$", text, re.MULTILINE
    )
    return sum(int(count.replace(",", "")) for count in counts)


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


def work(
    cl: Any, seconds: float, seed: int, *, count: int = 8, contexts: int = 3, keep: int = 0
) -> Counter[str]:
    """Let `count` threads work for that long; how often they did what. Raises the first thread's error.

    `keep` bytes of every action are never let go.
    """
    grounds = [make_ground(cl, seed + number) for number in range(contexts)]
    setter = Setter()
    # Few loops: plans are kept of what they do, and whether memory grows is seen once no more of them are.
    actors: list[Actor] = [
        Caller(cl, grounds, 1000 * seed + number, setter, loops=3) for number in range(count)
    ]
    errors: list[BaseException] = []
    deadline = time.monotonic() + seconds

    def done() -> bool:  # asked before every action
        if keep:
            _kept.append(bytes(keep))
        return bool(errors) or time.monotonic() > deadline

    def run(actor: Actor) -> None:
        try:
            actor.run(done)
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


_kept: list[bytes] = []


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
    deadline = time.monotonic() + 100
    awaited = sum(actor.awaited for actor in actors)
    while sum(actor.heard for actor in actors) < awaited:
        if time.monotonic() > deadline:
            raise Different(f"{sum(actor.heard for actor in actors)} callbacks of {awaited} have come")
        time.sleep(0.01)


def engine(cl: Any) -> list[str]:
    """The platform in use, and where it is the virtual one those of its workers."""
    platform = cl.get_platforms()[0]
    names = [f"{platform.name}, {platform.version}"]
    if "vdev" in platform.name:
        from vdev.start.current import get_session

        found = [f"{worker.platform}, {worker.version}" for worker in get_session().executor.workers]
        names += [f"{number} of {name}" for name, number in Counter(found).items()]
    return names


def held_nbytes() -> int:
    """Device memory held by the session's workers."""
    from vdev.start.current import get_session

    session = get_session()
    session.spares.drop()  # released buffers that may serve new ones
    return sum(counters.allocated_nbytes for counters in session.executor.counters())


def forget_plans() -> None:
    """Empty the one cache that outlives contexts: it goes up and down by more than is looked for."""
    from vdev.start.current import get_session

    get_session().moves.plans.forget()


def measures(virtual: bool) -> list[Measure]:
    """What is looked at after a run."""
    found = [
        Measure("bytes of the process", resident_nbytes, 32 << 20, 64, again=True),
        Measure("bytes in use", used_nbytes, 4 << 20, 64, again=True),
        Measure("blocks of Python's", sys.getallocatedblocks, 6_000, 0.25, again=True),
        Measure("threads of Python's", threading.active_count),
        # a driver makes its own when there is work for them, and keeps them: on many processors not all in the first seconds
        Measure("threads", threads, again=True),
    ]
    return [*found, Measure("bytes on the workers", held_nbytes, 256 << 10)] if virtual else found


def settled(take: Callable[[], int], wanted: int, seconds: float) -> int:
    """What `take` gives when it has come down to `wanted` or time is up."""
    deadline = time.monotonic() + seconds
    while (found := take()) > wanted and time.monotonic() < deadline:
        collect()
        time.sleep(0.1)
    return int(found)


def judge(chosen: list[Measure], run: Callable[[int], int], settle: Callable[[], None]) -> list[str]:
    """Measure round `run(number)`, which gives its number of actions; what is left behind, in words.

    What may be taken once is measured over further runs, up to RUNS in all, while it grows.
    """
    settle()
    before = {each.name: settled(each.take, 0, 1.0) for each in chosen}
    left = []
    for number in range(RUNS):
        actions = run(number)
        settle()
        growing = []
        for each in chosen:
            start = before[each.name]
            most = each.most + int(each.each * actions)
            found = before[each.name] = settled(each.take, start + most, 1.0 if each.again else 60.0)
            print(f"{each.name}: {start} before, {found} after")
            if found <= start + most:
                continue
            if each.again and number + 1 < RUNS:
                growing.append(each)
            else:
                left.append(f"{each.name}: {found - start} more than before, {most} are allowed")
        if left or not growing:
            break
        chosen = growing
        print(
            f"again, to see whether it is taken once: {', '.join(each.name for each in growing)}", flush=True
        )
    return left


def stress(
    cl: Any, seconds: float, seed: int, *, count: int = 8, contexts: int = 3, keep: int = 0
) -> list[str]:
    """What was left behind, in words, and nothing where all is as it was. Raises where results differ."""
    virtual = "vdev" in cl.get_platforms()[0].name
    work(cl, min(WARM_UP_SECONDS, seconds), seed + 1, count=count, contexts=contexts)

    def run(number: int) -> int:
        kinds = work(cl, seconds, seed + 7 * number, count=count, contexts=contexts, keep=keep)
        print(f"{sum(kinds.values())} actions of {count} threads: {dict(kinds.most_common())}")
        return sum(kinds.values())

    def settle() -> None:
        if virtual:
            forget_plans()
        collect()

    return judge(measures(virtual), run, settle)


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
            collect()
            sizes.append(resident_nbytes())
            rate = (index + 1) / (time.monotonic() - started)
            print(f"{index + 1} enqueues: {sizes[-1] >> 20} MiB, {rate:.0f} a second", flush=True)
    grown = sizes[-1] - sizes[0]
    return [f"{grown} bytes more after {number} enqueues"] if grown > MOST_NBYTES else []


#: sequences that share contexts and programs, and their longest, in actions
TOGETHER, LONGEST = 20, 120


def sequences(cl: Any, first: int, number: int) -> list[str]:
    """Run the sequences of so many seeds, each in one thread and with buffers of its own; which of them differ, and how."""
    found, setter = [], Setter()
    for seed in range(first, first + number):
        if (seed - first) % TOGETHER == 0:
            grounds = [make_ground(cl, seed + each) for each in range(2)]
        actor = Caller(cl, grounds, seed, setter)
        most = random.Random(seed).randint(10, LONGEST)
        try:
            actor.run(lambda actor=actor, most=most: actor.count >= most)  # type: ignore[misc]
            await_callbacks([actor])
        except Exception as error:
            found.append(f"seed {seed}: {type(error).__name__}: {error}")
            print(found[-1], flush=True)
    setter.close()
    return found


def gpus(folder: Path, count: int, seed: int) -> dict[str, str]:
    """What a process needs to find so many simulated GPUs."""
    from tests.pure import fake_cuda

    split = {"VDEV_PLANNING": "always", "VDEV_GATHER": "0", "VDEV_MIN_ITEMS": "1"}
    found = fake_cuda.environment(folder, f"cuda:{','.join(map(str, range(count)))}", seed=seed)
    return found | split | {"FAKE_CUDA_DEVICES": str(count)}


def on_gpus(count: int, seed: int) -> int:
    """The same command in a process that finds these; its exit status."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.cpu.stress", *sys.argv[1:]]
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run(command, env=gpus(Path(folder), count, seed), check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cpu.stress", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--enqueues", type=int, help="instead: so many enqueues from one thread")
    parser.add_argument(
        "--sequences", type=int, help="instead: sequences of so many seeds, one after the other"
    )
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--contexts", type=int, default=3)
    parser.add_argument("--workers", default="cpu:3", help="VDEV_WORKERS (default: %(default)s)")
    parser.add_argument(
        "--gpus", type=int, help="instead of --workers: so many that do by chance what nothing orders"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--native", action="store_true", help="without the virtual device")
    parser.add_argument("--engine", help="a driver's library, its .icd file or a folder of these")
    parser.add_argument(
        "--keep", type=int, default=0, metavar="NBYTES", help="leak so many with every action"
    )
    options = parser.parse_args()
    if options.gpus and "FAKE_CUDA_FOLDER" not in os.environ:
        return on_gpus(options.gpus, options.seed)
    os.environ.setdefault("VDEV_WORKERS", options.workers)
    os.environ.setdefault("VDEV_MIN_ITEMS", "256")
    if options.engine:
        os.environ[engines.VARIABLE] = options.engine
    if options.native:
        engines.register_engines()
    else:
        from vdev import boot

        boot.install()
    import pyopencl as cl  # which one it is has been decided now

    print(" on ".join(engine(cl)))
    if options.sequences:
        left = sequences(cl, options.seed, options.sequences)
    elif options.enqueues:
        left = enqueues(cl, options.enqueues, options.seed)
    else:
        left = stress(
            cl,
            options.seconds,
            options.seed,
            count=options.threads,
            contexts=options.contexts,
            keep=options.keep,
        )
    print("\n".join(left) or "nothing differed and nothing is left")
    return 1 if left else 0


if __name__ == "__main__":
    faulthandler.enable()
    sys.exit(main())
