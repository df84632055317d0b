"""Random launches in a fraction of the memory that they would like to have, against NumPy.

    python -m tests.cpu.pressure --launches 20000
    VDEV_WORKERS=cuda:0-1 python -m tests.cpu.pressure --launches 2000

Every worker has `--memory` bytes (VDEV_MEMORY), and buffers add up to some times that, so that about a third of all
launches make something leave a worker, or are taken in turns. Memory is poisoned when it is taken and when it is given
back: a use after that shows as wrong bytes. The exit status is 0 where nothing differed. Ends with a line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from vdev.translators.ranges.ndrange import NDRange
from vdev.translators.ranges.rectangles import Layout

from vdev.executor.completion import Completion
from vdev.executor.worker_memory import WorkerMemory
from vdev.process.switches import parse_memory, parse_workers
from vdev.session.commands import BufferArg, CopyBuffer, Fill, Launch, Read, Write
from vdev.session.launch_plans import CachedPlan
from vdev.session.session import NoRoom, Session, VirtualBuffer
from vdev.start.workers import open_workers

Words = npt.NDArray[np.uint32]

#: sizes of buffers, in terms of what a worker has
SHARES = (1 / 32, 1 / 32, 1 / 16, 1 / 16, 1 / 16, 1 / 8, 1 / 8, 1 / 8, 1 / 4, 1 / 4, 1 / 2, 2)
LOCAL, BINS = 64, 64
#: bytes that a sub-buffer's offset is a multiple of
ALIGNMENT = 512

#: kernels of several programs of random launches: of (out, seed, n) and of (a, out, n)
COMMON = """
#define EACH for (uint i = get_global_id(0); i < n; i += get_global_size(0))
__kernel void blocks(__global uint *out, uint seed, uint n) { uint i = get_global_id(0); if (i < n) out[i] = i * seed; }
__kernel void stripes(__global uint *out, uint seed, uint n) { EACH out[i] = i * seed ^ 7; }
__kernel void add(__global const uint *a, __global uint *out, uint n) { EACH out[i] += a[i]; }
__kernel void some(__global const uint *a, __global uint *out, uint n) { EACH if (a[i] & 1) out[i] = a[i]; }
__kernel void reversed(__global const uint *a, __global uint *out, uint n) {
  uint i = get_global_id(0);
  if (i < n) out[i] = a[n - 1 - i];
}
__kernel void stencil(__global const uint *a, __global uint *out, uint n) {
  uint i = get_global_id(0);
  if (i < n) out[i] = a[max(i, 1u) - 1] + 2 * a[i] + a[min(i + 1, n - 1)];
}
"""
SOURCE = (
    COMMON
    + """
__kernel void sums(__global const uint *a, __global uint *out, uint n) {
  uint sum = 0;
  EACH sum += a[i] * (i | 1);
  out[get_global_id(0)] = sum;
}
__kernel void gather(__global const uint *a, __global const uint *index, __global uint *out, uint n) {
  uint i = get_global_id(0);
  if (i < n) out[i] = a[index[i] % n];
}
__kernel void scatter(__global const uint *a, __global uint *out, uint n) {
  uint i = get_global_id(0);
  if (i < n) out[(i * 5u) & (n - 1)] = a[i];
}
__kernel void histogram(__global const uint *a, __global uint *bins, uint n) { EACH atomic_inc(&bins[a[i] & 63]); }
__kernel void columns(__global const uint *a, __global uint *out, uint wide, uint high) {
  uint x = get_global_id(0), y = get_global_id(1);
  if (x < wide && y < high) out[x * high + y] = a[y * wide + x];
}
"""
)


class Different(AssertionError):
    """A buffer does not hold what NumPy has."""


class Held:
    """A buffer and what it is to hold."""

    def __init__(self, buffer: VirtualBuffer, model: Words) -> None:
        self.buffer = buffer
        self.model = model


class Pressure:
    """A random program on a session."""

    def __init__(self, session: Session, memory_nbytes: int, seed: int, times: float) -> None:
        """`times`: what all buffers add up to, in terms of all workers' memory."""
        self.session = session
        self.random = random.Random(seed)
        self.kernels = session.build(SOURCE).kernels
        self.queue = session.create_queue(in_order=True)
        self.memory = memory_nbytes
        self.most = int(times * memory_nbytes * len(session.workers))
        self.held: list[Held] = []
        self.counts: Counter[str] = Counter()
        self._open: deque[tuple[str, Completion]] = deque()
        self._evictions = 0
        unasked = session.executor.unasked

        def count(kind: str, *rest: Any) -> None:
            self._evictions += kind == "evict"
            if unasked is not None:
                unasked(kind, *rest)

        session.executor.unasked = count
        plan_turns = session.launches._plan_turns

        def count_turns(*args: Any) -> CachedPlan:
            found = plan_turns(*args)
            self.counts["in turns"] += 1
            return found

        session.launches._plan_turns = count_turns  # type: ignore[method-assign]

    # buffers --------------------------------------------------------------------------------------

    def _some(self) -> Held:
        return self.random.choice(self.held)

    def _make(self) -> None:
        words = int(self.memory * self.random.choice(SHARES)) // 4
        words = 1 << (words.bit_length() - 1)
        model = np.frombuffer(self.random.randbytes(4 * words), np.uint32).copy()
        held = Held(self.session.create_buffer(model.nbytes), model)
        self._write(held, 0, words)
        self.held.append(held)
        while sum(each.model.nbytes for each in self.held) > self.most:
            self.held.pop(self.random.randrange(len(self.held)))

    def _part(self, held: Held) -> tuple[int, int]:
        words = held.model.size
        start = self.random.randrange(words)
        return start, self.random.randint(start + 1, words)

    def _write(self, held: Held, start: int, stop: int) -> None:
        layout = Layout.contiguous(4 * start, 4 * (stop - start))
        self._submit(Write(held.buffer, layout, held.model[start:stop].copy().view(np.uint8)))

    def check(self, held: Held, start: int, stop: int) -> None:
        found = np.zeros(stop - start, np.uint32)
        layout = Layout.contiguous(4 * start, found.nbytes)
        read = Read(held.buffer, layout, found.view(np.uint8))
        status = self.session.submit(read, queue=self.queue).wait()
        if status or not np.array_equal(found, held.model[start:stop]):
            wrong = np.flatnonzero(found != held.model[start:stop])
            raise Different(
                f"status {status}, {wrong.size} of {found.size} words from {start} differ, the first at "
                f"{wrong[:1] + start}: {found[wrong[:4]]} for {held.model[start + wrong[:4]]}; {held.buffer}"
            )

    def _submit(self, command: Any) -> None:
        completion = self.session.submit(command, queue=self.queue)
        self._open.append((type(command).__name__, completion))
        while self._open and (len(self._open) > 50 or self._open[0][1].settled):
            name, earliest = self._open.popleft()
            if earliest.wait():
                launches = self.counts["launches"]
                raise Different(
                    f"a {name} before launch {launches} failed: {earliest.reason} ({earliest.status})"
                )

    # commands -------------------------------------------------------------------------------------

    def step(self) -> None:
        """One launch, with something else beside it at times."""
        if not self.counts["launches"]:
            while sum(held.model.nbytes for held in self.held) < 0.8 * self.most:
                self._make()
        while len(self.held) < 4:
            self._make()
        action = self.random.random()
        if action < 0.06:
            self._make()
        elif action < 0.10:
            held = self._some()
            start, stop = self._part(held)
            held.model[start:stop] = self.random.getrandbits(32)
            self._write(held, start, stop)
        elif action < 0.16:
            held = self._some()
            self.check(held, *self._part(held))
        elif action < 0.20:
            self._copy()
        elif action < 0.22:
            held, pattern = self._some(), self.random.randbytes(4)
            start, stop = self._part(held)
            self._submit(Fill(held.buffer, 4 * start, 4 * (stop - start), pattern))
            held.model[start:stop] = np.frombuffer(pattern, np.uint32)[0]
        elif action < 0.225:
            self._too_much()
        before = self._evictions, self.counts["in turns"]
        name = self.random.choice(list(_LAUNCHES))
        _LAUNCHES[name](self)
        self.counts["evicting"] += (self._evictions, self.counts["in turns"]) != before

    def _copy(self) -> None:
        source, target = self._some(), self._some()
        if source is target:
            return
        words = self.random.randint(1, min(source.model.size, target.model.size))
        start, into = (self.random.randint(0, held.model.size - words) for held in (source, target))
        shape, pitches = (1, 1, 4 * words), (4 * words, 4 * words)
        self._submit(CopyBuffer(source.buffer, target.buffer, shape, 4 * start, pitches, 4 * into, pitches))
        target.model[into : into + words] = source.model[start : start + words]

    def _too_much(self) -> None:
        """A launch that each worker needs more for than it has: refused, and nothing else is touched."""
        words = 1 << ((2 * self.memory // 4).bit_length())
        large = self.session.create_buffer(4 * words)
        out = self._some()
        try:
            self._launch("gather", words, large, large, large, words)
        except NoRoom:
            self.counts["refused"] += 1
        else:
            raise Different("a launch that needs more than there is was not refused")
        self.check(out, 0, out.model.size)

    def _launch(
        self, name: str, items: int | tuple[int, int], *args: VirtualBuffer | BufferArg | int
    ) -> None:
        captured = tuple(
            np.uint32(arg).tobytes()
            if isinstance(arg, int)
            else BufferArg(arg, 0, arg.nbytes)
            if isinstance(arg, VirtualBuffer)
            else arg
            for arg in args
        )
        if isinstance(items, int):
            ndrange = NDRange((-(-items // LOCAL) * LOCAL,), (LOCAL,), (0,))
        else:
            ndrange = NDRange(tuple(-(-each // 8) * 8 for each in items), (8, 8), (0, 0))
        command = Launch(self.kernels[name], captured, ndrange)
        for _ in range(self.random.choice((1, 1, 1, 1, 4)) if name in _REPEATABLE else 1):
            if command.repetition is None or not command.repetition.again(self.queue, ndrange, captured):
                self._submit(command)
            else:
                self.counts["repeated"] += 1
            self.counts[name] += 1
            self.counts["launches"] += 1

    def _stride(self, n: int) -> int:
        """Work-items of a grid-stride loop over n elements: no work-group's share is more than there is room for."""
        return int(self.random.choice((n, 512, 1024, max(n // 8, 512))))

    def _window(self, held: Held) -> tuple[BufferArg, Words]:
        """The buffer or a part of it, as an argument and as it is to be."""
        start = self.random.choice(
            (0, 0, self.random.randrange(held.model.size) * 4 // ALIGNMENT * ALIGNMENT)
        )
        return BufferArg(held.buffer, start, held.model.nbytes - start), held.model[start // 4 :]

    def launch_blocks(self) -> None:
        (out, model), seed = self._window(self._some()), self.random.getrandbits(32)
        self._launch("blocks", model.size, out, seed, model.size)
        model[:] = _numbers(model.size) * np.uint32(seed)

    def launch_stripes(self) -> None:
        (out, model), seed = self._window(self._some()), self.random.getrandbits(32)
        self._launch("stripes", self._stride(model.size), out, seed, model.size)
        model[:] = _numbers(model.size) * np.uint32(seed) ^ np.uint32(7)

    def launch_sums(self) -> None:
        a, out = self._some(), self._some()
        items = min(-(-self._stride(a.model.size) // LOCAL) * LOCAL, out.model.size // LOCAL * LOCAL)
        if a is out or not items:
            return
        self._launch("sums", items, a.buffer, out.buffer, a.model.size)
        terms = a.model * (_numbers(a.model.size) | np.uint32(1))
        padded = np.zeros(-(-terms.size // items) * items, np.uint32)
        padded[: terms.size] = terms
        out.model[:items] = padded.reshape(-1, items).sum(0, dtype=np.uint32)

    def _pair(self) -> tuple[BufferArg, Words, BufferArg, Words, int]:
        a, of_a = self._window(self._some())
        out, of_out = self._window(self._some())
        return a, of_a, out, of_out, min(of_a.size, of_out.size)

    def _mapped(self, name: str, compute: Callable[[Words, Words], Words], *, strided: bool) -> None:
        a, of_a, out, of_out, n = self._pair()
        if a.buffer is out.buffer:
            return
        self._launch(name, self._stride(n) if strided else n, a, out, n)
        of_out[:n] = compute(of_a[:n], of_out[:n])

    def launch_add(self) -> None:
        self._mapped("add", lambda a, out: a + out, strided=True)

    def launch_some(self) -> None:
        self._mapped("some", lambda a, out: np.where(a & 1, a, out), strided=True)

    def launch_reversed(self) -> None:
        self._mapped("reversed", lambda a, out: a[::-1], strided=False)

    def launch_stencil(self) -> None:
        def compute(a: Words, out: Words) -> Words:
            padded = np.concatenate((a[:1], a, a[-1:]))
            return padded[:-2] + 2 * padded[1:-1] + padded[2:]

        self._mapped("stencil", compute, strided=False)

    def launch_gather(self) -> None:
        a, index, out = self._some(), self._some(), self._some()
        if out is a or out is index or a.model.size > self.memory // 16:
            return  # each worker needs all of `a`
        n = min(a.model.size, index.model.size, out.model.size)
        self._launch("gather", n, a.buffer, index.buffer, out.buffer, n)
        out.model[:n] = a.model[index.model[:n] % np.uint32(n)]

    def launch_scatter(self) -> None:
        def compute(a: Words, out: Words) -> Words:
            found = out.copy()
            found[(_numbers(a.size) * np.uint32(5)) & np.uint32(a.size - 1)] = a
            return found

        a, out = self._some(), self._some()
        n = min(a.model.size, out.model.size)  # powers of two
        if a is out or out.model.nbytes > self.memory // 2:
            return  # each worker may write anywhere
        self._launch("scatter", n, a.buffer, out.buffer, n)
        out.model[:n] = compute(a.model[:n], out.model[:n])

    def launch_histogram(self) -> None:
        a, out = self._some(), self._some()
        if a is out:
            return
        n = a.model.size
        self._launch("histogram", self._stride(n), a.buffer, out.buffer, n)
        out.model[:BINS] += np.bincount(a.model & 63, minlength=BINS).astype(np.uint32)

    def launch_columns(self) -> None:
        a, out = self._some(), self._some()
        wide = self.random.choice((8, 24, 128))
        high = min(a.model.size, out.model.size) // wide
        if a is out or not high:
            return
        self._launch("columns", (wide, high), a.buffer, out.buffer, wide, high)
        out.model[: wide * high] = a.model[: wide * high].reshape(high, wide).T.ravel()


def _numbers(count: int) -> Words:
    return np.arange(count, dtype=np.uint32)


#: launches that do the same when they are made again
_REPEATABLE = {"blocks", "stripes", "sums", "some", "reversed", "stencil", "gather", "scatter", "columns"}
_LAUNCHES: dict[str, Callable[[Pressure], None]] = {
    name.removeprefix("launch_"): method
    for name, method in vars(Pressure).items()
    if name.startswith("launch_")
}


def run(workers: str, memory: str, launches: int, seed: int, times: float = 2.0) -> dict[str, Any]:
    """So many launches; what happened. Raises Different."""
    limit = parse_memory(memory)
    assert limit is not None
    session = Session(open_workers(parse_workers(workers), limit))
    started = time.perf_counter()
    try:
        memory_nbytes = min(info.memory_nbytes for info in session.workers)
        with np.errstate(over="ignore"):
            program = Pressure(session, memory_nbytes, seed, times)
            while program.counts["launches"] < launches:
                program.step()
            for held in program.held:
                program.check(held, 0, held.model.size)
        peaks = [counters.peak_nbytes for counters in session.executor.counters()]
        if max(peaks) > memory_nbytes:
            raise Different(f"a worker has held {max(peaks)} bytes of {memory_nbytes}")
    finally:
        session.close()
    return {
        "workers": workers,
        "memory": memory,
        "seed": seed,
        "seconds": round(time.perf_counter() - started, 1),
        "peak": max(peaks),
        **program.counts,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cpu.pressure", description=__doc__)
    parser.add_argument("--launches", type=int, default=20_000)
    parser.add_argument("--workers", default=os.environ.get("VDEV_WORKERS") or "cpu:3")
    parser.add_argument("--memory", default=os.environ.get("VDEV_MEMORY") or "256K")
    parser.add_argument(
        "--times", type=float, default=2.0, help="all buffers, in terms of the workers' memory"
    )
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    parser.add_argument("--no-poison", action="store_true")
    options = parser.parse_args(arguments)
    WorkerMemory.poisoned = not options.no_poison
    print(f"seed {options.seed}", flush=True)
    try:
        print(json.dumps(run(options.workers, options.memory, options.launches, options.seed, options.times)))
    except Different as difference:
        print(f"seed {options.seed}: {difference}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
