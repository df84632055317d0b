"""One thread of the stress test: random commands on buffers of its own, and what NumPy says they do.

Decides what comes next and what its buffers must hold then; knows nothing of what else runs. Everything it
does is defined by the OpenCL specification: what touches one buffer is ordered by a queue or a wait list,
and the thread waits for nothing while it holds a user event that is not set. Data are 32-bit integers, so
that results are compared bit by bit.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

#: A program that may include files is not shared with one that is built again: all that was made for it goes with it.
SOURCE = """
#if 0
#include "none.h"
#endif
__kernel void affine(__global const int *a, __global const int *b, __global int *c, int x, int n)
{ int i = get_global_id(0); if (i < n) c[i] = a[i] * x + b[i] + i; }

__kernel void stencil(__global const int *a, __global int *c, int n)
{ int i = get_global_id(0); if (i < n) c[i] = a[max(i - 1, 0)] + 2 * a[i] + a[min(i + 1, n - 1)]; }

__kernel void in_place(__global int *a, int x, int n)
{ for (int i = get_global_id(0); i < n; i += get_global_size(0)) a[i] = a[i] * x + 1; }

__kernel void transpose(__global const int *a, __global int *c, int w, int h)
{ int x = get_global_id(0), y = get_global_id(1); if (x < w && y < h) c[x * h + y] = a[y * w + x]; }

__kernel void gather(__global const int *a, __global const uint *index, __global int *c, int n)
{ int i = get_global_id(0); if (i < n) c[i] = a[index[i] % n]; }

__kernel void scatter(__global const int *a, __global const int *order, __global int *c, int n)
{ int i = get_global_id(0); if (i < n) c[order[i]] = a[i]; }

__kernel void some(__global const int *a, __global int *c, int n)
{ int i = get_global_id(0); if (i < n && (a[i] & 1)) c[i] = a[i]; }

__kernel void histogram(__global const int *a, __global int *bins, int n)
{ int i = get_global_id(0); if (i < n) atomic_inc(&bins[a[i] & 63]); }

__kernel void largest(__global const int *a, __global int *c, int n)
{ int i = get_global_id(0); if (i < n) atomic_max(&c[i & 7], a[i]); }

__kernel void list(__global const int *a, __global int *count, __global int *found, int n)
{ int i = get_global_id(0); if (i < n && (a[i] & 3) == 0) found[atomic_inc(count)] = i; }

__kernel void sums(__global const int *a, __global int *c, __local int *part, int n)
{
    int i = get_global_id(0), l = get_local_id(0);
    part[l] = i < n ? a[i] : 0;
    for (int s = get_local_size(0) / 2; s > 0; s /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (l < s) part[l] += part[l + s];
    }
    if (l == 0) c[get_group_id(0)] = part[0];
}

__kernel void sample(__read_only image2d_t a, sampler_t s, __global int4 *c, int dx, int dy)
{
    int x = get_global_id(0), y = get_global_id(1), w = get_image_width(a);
    if (x < w && y < get_image_height(a)) c[y * w + x] = read_imagei(a, s, (int2)(x + dx, y + dy));
}

__kernel void paint(__global const int4 *a, __write_only image2d_t c, int x, int y, int w, int h)
{
    int u = get_global_id(0), v = get_global_id(1);
    if (u < w && v < h) write_imagei(c, (int2)(x + u, y + v), a[v * w + u]);
}

__kernel void tally(__global int *shared, int slot, int n)
{ if (get_global_id(0) < n) atomic_add(&shared[slot], 1); }
"""
KERNELS = (
    "affine", "stencil", "in_place", "transpose", "gather", "scatter", "some", "histogram", "largest", "list",
    "sums", "tally", "sample", "paint",
)  # fmt: skip

SIZES = (64, 1000, 1024, 4096, 5000, 20000)  #: of buffers, in ints
ORDER_SIZE = 4096
TALLY_SLOTS = 16
MOST_CELLS, MOST_PENDING = 6, 24
_FAILED = -5


class Different(AssertionError):
    """What the device holds is not what NumPy says."""


@dataclass
class Ground:
    """One context and what all threads share in it."""

    context: Any
    queues: list[Any]
    program: Any
    pool: Any
    order: Any  #: a buffer with a permutation of ORDER_SIZE numbers, which nobody changes
    tally: Any  #: a buffer of TALLY_SLOTS counters, to which all threads add
    permutation: np.ndarray
    added: np.ndarray = field(default_factory=lambda: np.zeros(TALLY_SLOTS, np.int64))
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True)
class Held:
    """Ints [start, stop) of a cell without a parent that are mapped."""

    array: np.ndarray
    start: int
    stop: int
    writes: bool


@dataclass(eq=False)
class Cell:
    """A buffer and what it must hold. `write` and `reads` are (queue, event) of what touched it last, of a part in its `parent`."""

    ground: Ground
    buffer: Any
    model: np.ndarray  #: of a part: its place in the parent's
    host: Any = None  #: memory that the buffer uses
    write: tuple[Any, Any] | None = None
    reads: list[tuple[Any, Any]] = field(default_factory=list)
    is_pooled: bool = False
    parent: Cell | None = None
    shared: Any = None  #: shared virtual memory, which the buffer is
    held: Held | None = None

    first: int = 0  #: the number of its first int in the parent

    @property
    def root(self) -> Cell:
        return self.parent or self

    def touches(self, held: Held) -> bool:
        """Whether some of it is mapped."""
        return self.first < held.stop and held.start < self.first + self.model.size


@dataclass(frozen=True)
class Pending:
    """A command that may be under way: what must have arrived once it has ended, and memory of the host's that is free then."""

    event: Any
    queue: Any = None
    checks: tuple[tuple[str, np.ndarray, np.ndarray], ...] = ()
    source: np.ndarray | None = None
    before: tuple[Pending, ...] = ()  #: commands that have ended when it has


class Actor:
    """A thread's state. `run` until `until()` says so; `count` is the number of commands so far."""

    def __init__(self, cl: Any, grounds: list[Ground], seed: int, setter: Callable[[Any], None]) -> None:
        """`setter` sets a user event a little later, from another thread."""
        self.cl = cl
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.grounds = grounds
        self.setter = setter
        self.count = 0
        self.heard = self.awaited = 0  #: callbacks
        self.kinds: dict[str, int] = {}
        self._cells: list[Cell] = []
        self._gates: list[Any] = []
        self._is_gated = False  #: whether the command that comes next waits for one of them
        #: memory of commands that wait for them, and what is to be there before they are set
        self._late: list[tuple[np.ndarray, np.ndarray]] = []
        self._checks: list[tuple[str, np.ndarray, np.ndarray]] = []  #: of the command that comes next
        self._events: list[Pending] = []
        self._calm = False  #: commands wait for no user event, and mostly go to one queue
        self._stays = 1.0  #: how many of them do
        self._turn = 0  #: how often a loop has gone round
        self._turn_queue = 0  #: the number of the queue that it uses
        self._kernels = {id(g): {name: cl.Kernel(g.program, name) for name in KERNELS} for g in grounds}
        self._own = [[cl.CommandQueue(g.context, properties=how) for how in (0, 1, 2, 3)] for g in grounds]
        self._actions = [
            (8, self._write), (8, self._read), (4, self._write_box), (4, self._read_box), (4, self._copy_box),
            (6, self._copy), (6, self._fill), (5, self._map), (24, self._launch), (4, self._sub_buffers),
            (4, self._sync), (4, self._migrate), (2, self._add_tally), (1, self._fail), (3, self._renew),
            (2, self._listed), (2, self._callback),
        ]  # fmt: skip
        self._is_native = "vdev" not in cl.get_platforms()[0].name
        if self._is_native:
            # Intel's engine crashes soon after a command whose user event was given an error, and hangs behind some
            # barriers and in some calls that wait.
            self._actions.remove((1, self._fail))
            self._instead = lambda queue, waits: waits  # type: ignore[method-assign]

    def run(self, until: Callable[[], bool]) -> None:
        """Do random things, then compare everything."""
        weights = [weight for weight, _ in self._actions]
        try:
            while not until():
                if len(self._cells) < MOST_CELLS:
                    self._make_cell()
                self._act(self.random.choices(self._actions, weights)[0][1])
                if self._gates and self.random.random() < 0.3:
                    self._open_gates()
                if len(self._events) > MOST_PENDING:
                    self._settle()
            self._end()
        finally:
            self._open_gates()
            self._cells.clear()
            self._checks.clear()
            self._events.clear()

    def _end(self) -> None:
        for cell in self._cells:
            self._compare(cell)

    def _act(self, action: Callable[[], None]) -> None:
        name = action.__name__.strip("_")
        self.kinds[name] = self.kinds.get(name, 0) + 1
        action()
        self.count += 1

    # order ----------------------------------------------------------------------------------------

    def _queue(self, ground: Ground) -> Any:
        own = self._own[self.grounds.index(ground)]
        if self._calm and self.random.random() < self._stays:
            return own[self._turn_queue]
        return self.random.choice([*ground.queues, *own])

    def _waits(self, queue: Any, reads: Sequence[Cell], writes: Sequence[Cell]) -> list[Any]:
        """Events that a command on `queue` has to wait for, and sometimes a user event. What of the cells is mapped and must
        not be then is unmapped.
        """
        for cell in (*reads, *writes):
            held = cell.root.held
            if held is not None and (held.writes or cell in writes) and cell.touches(held):
                self._unmap(cell.root)
        needed = [cell.root.write for cell in (*reads, *writes) if cell.root.write is not None]
        for cell in writes:
            needed += cell.root.reads
        in_order = not queue.properties & 1
        always = 1.0 if self._calm else 0.8
        found = [
            event for other, event in needed
            if not (in_order and other is queue and self.random.random() < always)
        ]  # fmt: skip
        found += self._gated(queue)
        if found and self.random.random() < 0.2:
            found = self._instead(queue, found)
        return found

    def _gated(self, queue: Any) -> list[Any]:
        """Sometimes a user event, which is set a little later, or when this thread next has to wait for something."""
        self._is_gated = False
        if self._calm or self.random.random() >= 0.06:
            return []
        gate = self.cl.UserEvent(queue.context)
        if self.random.random() < 0.5:
            self.setter(gate)
        else:
            self._gates.append(gate)
            self._is_gated = True
        return [gate]

    def _instead(self, queue: Any, waits: list[Any]) -> list[Any]:
        """Wait for a marker or a barrier that waits for these events, in any queue, or be behind a barrier in one's own."""
        kind = self.random.randrange(3)
        if kind == 0:
            self.cl.enqueue_barrier(queue, wait_for=waits)
            return []
        ground = next(g for g in self.grounds if g.context == queue.context)
        other = self._queue(ground)
        enqueue = self.cl.enqueue_marker if kind == 1 else self.cl.enqueue_barrier
        found = enqueue(other, wait_for=waits)
        other.flush()
        return [found]

    def _note(
        self,
        queue: Any,
        event: Any,
        reads: Sequence[Cell],
        writes: Sequence[Cell],
        source: np.ndarray | None = None,
    ) -> None:
        """The command has been enqueued. `source`: memory of the host's that it takes."""
        self._events.append(Pending(event, queue, tuple(self._checks), source))
        self._checks.clear()
        for cell in reads:
            cell.root.reads.append((queue, event))
        for cell in writes:
            cell.root.write, cell.root.reads = (queue, event), []
        # natively nothing starts for sure before a flush, and a wait in another queue does not flush
        queue.flush()

    def _unmap(self, root: Cell) -> None:
        """Let go of what is mapped: until then it shows what was there."""
        held, root.held = root.held, None
        assert held is not None
        self._same("kept mapping", held.array, root.model[held.start : held.stop])
        queue = self._queue(root.ground)
        event = held.array.base.release(queue)
        self._note(queue, event, *(((), (root,)) if held.writes else ((root,), ())))

    def _open_gates(self) -> None:
        while self._late:
            array, data = self._late.pop()
            array[:] = data
        while self._gates:
            self._gates.pop().set_status(0)

    def _settle(self) -> None:
        """Wait for all of this thread's commands, and compare what was read."""
        self._open_gates()
        while self._events:
            self._arrived(self._events.pop(self.random.randrange(len(self._events))))

    def _ended(self, queue: Any) -> None:
        """A call has waited for a command of the queue; in an ordered one all before has ended, which nobody has waited for."""
        if queue.properties & 1:
            return
        mine = [pending for pending in self._events if pending.queue is queue]
        self._events = [pending for pending in self._events if pending.queue is not queue]
        for pending in mine:
            if pending.event.command_execution_status != 0:
                raise Different("a command has not ended that comes before one which has")
            self._arrived(pending)

    def _arrived(self, pending: Pending) -> None:
        """Wait for one command: what it brings is there when it has ended, and what it took is its program's again."""
        if pending.event.command_execution_status != 0:
            pending.event.wait()
        if any(each.event.command_execution_status != 0 for each in pending.before):
            raise Different("a marker or barrier has ended before what it waits for")
        for what, found, expected in pending.checks:
            self._same(what, found, expected)
        if pending.source is not None:
            pending.source.fill(-77)
        if pending.queue is not None and pending.queue.properties & 2:
            profile = pending.event.profile
            times = [profile.queued, profile.submit, profile.start, profile.end]
            if sorted(times) != times:
                raise Different(f"times of a command: {times}")

    def _same(self, what: str, found: np.ndarray, expected: np.ndarray) -> None:
        if not np.array_equal(found, expected):
            wrong = np.flatnonzero(np.ravel(found) != np.ravel(expected))
            raise Different(
                f"{what}: {wrong.size} of {found.size} differ, from {wrong[0]}: {np.ravel(found)[wrong[:4]]} "
                f"for {np.ravel(expected)[wrong[:4]]} after {self.count} commands"
            )

    # buffers --------------------------------------------------------------------------------------

    def _make_cell(self) -> None:
        cl, flags = self.cl, self.cl.mem_flags
        ground = self.random.choice(self.grounds)
        size = self.random.choice(SIZES)
        model = self.numbers.integers(-(2**31), 2**31, size, dtype=np.int64).astype(np.int32)
        kind = self.random.choice(("plain", "copy", "use", "alloc", "pool", "shared"))
        host = shared = None
        if kind == "shared":
            shared = cl.SVM(cl.csvm_empty(ground.context, (size,), np.int32))
            buffer = shared.as_buffer(ground.context)
        elif kind == "copy":
            buffer = cl.Buffer(ground.context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=model)
        elif kind == "use":
            raw = np.empty(size + 1024, np.int32)
            start = -raw.ctypes.data % 4096 // 4
            host = raw[start : start + size]
            host[:] = model
            buffer = cl.Buffer(ground.context, flags.READ_WRITE | flags.USE_HOST_PTR, hostbuf=host)
        elif kind == "alloc":
            buffer = cl.Buffer(ground.context, flags.READ_WRITE | flags.ALLOC_HOST_PTR, size=4 * size)
        elif kind == "pool":
            buffer = ground.pool.allocate(4 * size)
        else:
            buffer = cl.Buffer(ground.context, flags.READ_WRITE, size=4 * size)
        cell = Cell(ground, buffer, model, host, is_pooled=kind == "pool", shared=shared)
        if kind in ("alloc", "pool", "plain", "shared"):
            self._begin(cell)
        self._cells.append(cell)

    def _begin(self, cell: Cell) -> None:
        """Write a buffer for the first time: as a whole, or in pieces."""
        size = cell.model.size
        cuts = sorted(self.random.sample(range(1, size), self.random.choice((0, 0, 1, 2))))
        for start, stop in zip([0, *cuts], [*cuts, size], strict=True):
            queue, data = self._queue(cell.ground), cell.model[start:stop].copy()
            waits = self._waits(queue, [], [cell])
            event = self.cl.enqueue_copy(
                queue, cell.buffer, data, dst_offset=4 * start, wait_for=waits, is_blocking=False
            )
            self._note(queue, event, [], [cell], data)

    def _renew(self) -> None:
        """Drop a buffer: at once, or after all is done where others get its memory."""
        cell = self._cells.pop(self.random.randrange(len(self._cells)))
        if cell.root.held is not None:
            self._unmap(cell.root)
        if cell.shared is not None or (cell.parent is not None and cell.parent.shared is not None):
            self._settle()
        if cell.host is not None or cell.is_pooled or self.random.random() < 0.5:
            self._compare(cell)
        if cell.is_pooled or self.random.random() < 0.5:
            cell.buffer.release()

    def _compare(self, cell: Cell) -> None:
        queue = self._queue(cell.ground)
        found = np.empty_like(cell.model)
        waits = self._waits(queue, [cell], [])
        self._open_gates()
        self.cl.enqueue_copy(queue, found, cell.buffer, wait_for=waits)
        self._same("buffer", found, cell.model)
        self._settle()

    def _some(self, count: int) -> list[Cell] | None:
        """Cells of one context that share no memory; None where there are not as many."""
        ground = self.random.choice(self._cells).ground
        mine = self.random.sample(self._cells, len(self._cells))
        apart = list({cell.root: cell for cell in mine if cell.ground is ground}.values())
        return apart[:count] if len(apart) >= count else None

    def _span(self, size: int) -> tuple[int, int]:
        """A random non-empty range, often all."""
        if self.random.random() < 0.4:
            return 0, size
        start = self.random.randrange(size)
        return start, self.random.randint(start + 1, size)

    # transfers ------------------------------------------------------------------------------------

    def _write(self) -> None:
        cell = self.random.choice(self._cells)
        queue = self._queue(cell.ground)
        start, stop = self._span(cell.model.size)
        data = self.numbers.integers(-(2**31), 2**31, stop - start, dtype=np.int64).astype(np.int32)
        waits = self._waits(queue, [], [cell])
        cell.model[start:stop] = data
        blocking = self.random.random() < 0.3
        if blocking:
            self._open_gates()
        elif self._is_gated:
            self._late.append((data, data.copy()))
            data.fill(99)
        event = self.cl.enqueue_copy(
            queue, cell.buffer, data, dst_offset=4 * start, wait_for=waits, is_blocking=blocking
        )
        self._note(queue, event, [], [cell], data)

    def _read(self) -> None:
        cell = self.random.choice(self._cells)
        self._read_of(cell, self._queue(cell.ground))

    def _read_of(self, cell: Cell, queue: Any) -> None:
        start, stop = self._span(cell.model.size)
        found = np.empty(stop - start, np.int32)
        waits = self._waits(queue, [cell], [])
        blocking = self.random.random() < 0.3
        if blocking:
            self._open_gates()
        event = self.cl.enqueue_copy(
            queue, found, cell.buffer, src_offset=4 * start, wait_for=waits, is_blocking=blocking
        )
        self._checks.append(("read", found, cell.model[start:stop].copy()))
        self._note(queue, event, [cell], [])
        if blocking:
            self._ended(queue)

    def _box(self, size: int) -> tuple[int, int, int, int, int, int]:
        """(width, rows, x, y, columns, lines) of a box in a buffer of `size` ints seen as rows."""
        width = self.random.choice((4, 10, 32, 50))
        rows = size // width
        x, y = self.random.randrange(width), self.random.randrange(rows)
        return width, rows, x, y, self.random.randint(1, width - x), self.random.randint(1, min(rows - y, 40))

    def _read_box(self) -> None:
        cell = self.random.choice(self._cells)
        queue = self._queue(cell.ground)
        width, rows, x, y, columns, lines = self._box(cell.model.size)
        found = np.zeros((lines, columns), np.int32)
        event = self.cl.enqueue_copy(
            queue, found, cell.buffer, buffer_origin=(4 * x, y), host_origin=(0, 0),
            region=(4 * columns, lines), buffer_pitches=(4 * width,), host_pitches=(4 * columns,),
            wait_for=self._waits(queue, [cell], []), is_blocking=False,
        )  # fmt: skip
        field = cell.model[: rows * width].reshape(rows, width)
        self._checks.append(("box", found, field[y : y + lines, x : x + columns].copy()))
        self._note(queue, event, [cell], [])

    def _write_box(self) -> None:
        cell = self.random.choice(self._cells)
        queue = self._queue(cell.ground)
        width, rows, x, y, columns, lines = self._box(cell.model.size)
        data = self.numbers.integers(0, 1000, (lines, columns)).astype(np.int32)
        event = self.cl.enqueue_copy(
            queue, cell.buffer, data, buffer_origin=(4 * x, y), host_origin=(0, 0),
            region=(4 * columns, lines), buffer_pitches=(4 * width,), host_pitches=(4 * columns,),
            wait_for=self._waits(queue, [], [cell]), is_blocking=False,
        )  # fmt: skip
        cell.model[: rows * width].reshape(rows, width)[y : y + lines, x : x + columns] = data
        self._note(queue, event, [], [cell], data)

    def _copy_box(self) -> None:
        pair = self._some(2)
        if pair is None:
            return
        source, target = pair
        queue = self._queue(source.ground)
        width, rows, x, y, columns, lines = self._box(min(source.model.size, target.model.size))
        event = self.cl.enqueue_copy(
            queue, target.buffer, source.buffer, src_origin=(4 * x, y), dst_origin=(0, y),
            region=(4 * columns, lines), src_pitches=(4 * width,), dst_pitches=(4 * width,),
            wait_for=self._waits(queue, [source], [target]),
        )  # fmt: skip
        fields = [cell.model[: rows * width].reshape(rows, width) for cell in pair]
        fields[1][y : y + lines, :columns] = fields[0][y : y + lines, x : x + columns]
        self._note(queue, event, [source], [target])

    def _copy(self) -> None:
        pair = self._some(2)
        if pair is None:
            return self._copy_within()
        source, target = pair
        queue = self._queue(source.ground)
        start, stop = self._span(min(source.model.size, target.model.size))
        there = self.random.randint(0, target.model.size - (stop - start))
        event = self.cl.enqueue_copy(
            queue, target.buffer, source.buffer, byte_count=4 * (stop - start), src_offset=4 * start,
            dst_offset=4 * there, wait_for=self._waits(queue, [source], [target]),
        )  # fmt: skip
        target.model[there : there + stop - start] = source.model[start:stop]
        self._note(queue, event, [source], [target])

    def _copy_within(self) -> None:
        cell = self.random.choice(self._cells)
        queue = self._queue(cell.ground)
        half = cell.model.size // 2
        event = self.cl.enqueue_copy(
            queue, cell.buffer, cell.buffer, byte_count=4 * half, dst_offset=4 * half,
            wait_for=self._waits(queue, [], [cell]),
        )  # fmt: skip
        cell.model[half : 2 * half] = cell.model[:half]
        self._note(queue, event, [], [cell])

    def _fill(self) -> None:
        cell = self.random.choice(self._cells)
        queue = self._queue(cell.ground)
        length = self.random.choice((1, 2, 4))  # of the pattern, in ints
        start, stop = (edge // length * length for edge in self._span(cell.model.size))
        if start == stop:
            start, stop = 0, cell.model.size // length * length
        pattern = self.numbers.integers(0, 99, length).astype(np.int32)
        waits = self._waits(queue, [], [cell])
        event = self.cl.enqueue_fill_buffer(
            queue, cell.buffer, pattern, 4 * start, 4 * (stop - start), wait_for=waits
        )
        cell.model[start:stop] = np.resize(pattern, stop - start)
        self._note(queue, event, [], [cell])

    def _map(self) -> None:
        cell = self.random.choice(self._cells)
        queue, flags = self._queue(cell.ground), self.cl.map_flags
        start, stop = self._span(cell.model.size)
        how = self.random.choice(
            (flags.READ, flags.WRITE, flags.READ | flags.WRITE, flags.WRITE_INVALIDATE_REGION)
        )
        waits = self._waits(queue, [], [cell])
        blocking = self.random.random() < 0.5
        self._open_gates()
        array, event = self.cl.enqueue_map_buffer(
            queue,
            cell.buffer,
            how,
            4 * start,
            (stop - start,),
            np.int32,
            wait_for=waits,
            is_blocking=blocking,
        )
        queue.flush()
        event.wait()
        if how & (flags.READ | flags.WRITE):
            self._same("mapping", array, cell.model[start:stop])
        if how & (flags.WRITE | flags.WRITE_INVALIDATE_REGION):
            array[:] = self.numbers.integers(0, 1000, stop - start)
            cell.model[start:stop] = array
        other = self._queue(cell.ground)
        self._note(other, array.base.release(other), [], [cell])

    def _migrate(self) -> None:
        cell = self.random.choice(self._cells)
        if cell.is_pooled or cell.parent is not None:
            return
        queue = self._queue(cell.ground)
        waits = self._waits(queue, [], [cell])
        flags = self.random.choice((0, 1, 2))
        event = self.cl.enqueue_migrate_mem_objects(queue, [cell.buffer], flags, wait_for=waits)
        self._note(queue, event, [], [cell])
        if self.random.random() < 0.7:  # while it is under way
            self._read_of(cell, queue)

    def _sync(self) -> None:
        ground = self.random.choice(self.grounds)
        queue = self._queue(ground)
        kind = self.random.randrange(4)
        if kind < 2:
            before = tuple(each for each in self._events if each.queue is queue and not self._is_native)
            enqueue = self.cl.enqueue_marker if kind == 0 else self.cl.enqueue_barrier
            self._events.append(Pending(enqueue(queue), before=before))
        elif kind == 2:
            queue.flush()
        else:
            self._settle()
            queue.finish()

    def _fail(self) -> None:
        """A command that waits for what fails does nothing."""
        cell = self.random.choice(self._cells)
        queue = self._own[self.grounds.index(cell.ground)][1]
        gate = self.cl.UserEvent(cell.ground.context)
        waits = [*self._waits(queue, [], [cell]), gate]
        self._open_gates()
        event = self.cl.enqueue_fill_buffer(queue, cell.buffer, np.int32(7), 0, 64, wait_for=waits)
        self._settle()
        gate.set_status(_FAILED)
        try:
            event.wait()
        except self.cl.RuntimeError:
            return
        raise Different("a command that waits for a failed event succeeded")

    def _callback(self) -> None:
        if not self._events:
            return

        def hear(status: int) -> None:
            with lock:
                self.heard += 1

        lock = self.grounds[0].lock
        self.awaited += 1
        self.random.choice(self._events).event.set_callback(self.cl.command_execution_status.COMPLETE, hear)

    # kernels --------------------------------------------------------------------------------------

    def _enqueue(
        self, name: str, shape: tuple[int, ...], args: tuple[Any, ...], reads: list[Cell], writes: list[Cell],
        local: tuple[int, ...] | None = None,
    ) -> None:  # fmt: skip
        ground = writes[0].ground
        queue = self._queue(ground)
        kernel = self._kernels[id(ground)][name]
        event = kernel(queue, shape, local, *args, wait_for=self._waits(queue, reads, writes))
        self._note(queue, event, reads, writes)

    def _launch(self) -> None:
        cells = self._some(3)
        if cells is None:
            return
        a, b, c = cells
        n = self.random.randint(1, min(cell.model.size for cell in cells))
        shape, local = ((n + 63) // 64 * 64,), self.random.choice(((64,), (16,), None))
        x = self.random.randint(-9, 9) + self._turn * self.random.choice((0, 0, 1))
        if self._turn % 2 and self.random.random() < 0.4:  # two buffers by turns
            a, c = c, a
        with np.errstate(over="ignore"):
            getattr(self, "_launch_" + self.random.choice(_LAUNCHES))(a, b, c, n, shape, local, np.int32(x))

    def _arg(self, cell: Cell) -> Any:
        """The buffer, or the shared virtual memory that it is."""
        return cell.shared if cell.shared is not None and self.random.random() < 0.5 else cell.buffer

    def _launch_affine(self, a: Cell, b: Cell, c: Cell, n: int, shape: Any, local: Any, x: np.int32) -> None:
        args = (self._arg(a), self._arg(b), self._arg(c), x, np.int32(n))
        self._enqueue("affine", shape, args, [a, b], [c], local)
        c.model[:n] = a.model[:n] * x + b.model[:n] + np.arange(n, dtype=np.int32)

    def _launch_stencil(self, a: Cell, b: Cell, c: Cell, n: int, shape: Any, local: Any, x: np.int32) -> None:
        self._enqueue("stencil", shape, (self._arg(a), self._arg(c), np.int32(n)), [a], [c], local)
        padded = np.concatenate((a.model[:1], a.model[:n], a.model[n - 1 : n]))
        c.model[:n] = padded[:-2] + 2 * padded[1:-1] + padded[2:]

    def _launch_in_place(
        self, a: Cell, b: Cell, c: Cell, n: int, shape: Any, local: Any, x: np.int32
    ) -> None:
        self._enqueue("in_place", (min(shape[0], 1024),), (self._arg(c), x, np.int32(n)), [], [c], local)
        c.model[:n] = c.model[:n] * x + np.int32(1)

    def _launch_transpose(
        self, a: Cell, b: Cell, c: Cell, n: int, shape: Any, local: Any, x: np.int32
    ) -> None:
        width = min(n, self.random.choice((8, 30, 64)))
        height = n // width
        args = (self._arg(a), self._arg(c), np.int32(width), np.int32(height))
        shape = ((width + 7) // 8 * 8, (height + 7) // 8 * 8)
        self._enqueue("transpose", shape, args, [a], [c], (8, 8))
        size = width * height
        c.model[:size] = a.model[:size].reshape(height, width).T.ravel()

    def _launch_gather(self, a: Cell, b: Cell, c: Cell, n: int, shape: Any, local: Any, x: np.int32) -> None:
        self._enqueue(
            "gather", shape, (self._arg(a), self._arg(b), self._arg(c), np.int32(n)), [a, b], [c], local
        )
        c.model[:n] = a.model[b.model[:n].view(np.uint32) % np.uint32(n)]

    def _launch_scatter(self, a: Cell, b: Cell, c: Cell, n: int, shape: Any, local: Any, x: np.int32) -> None:
        if c.model.size < ORDER_SIZE:
            return
        n = min(n, ORDER_SIZE)
        args = (self._arg(a), c.ground.order, self._arg(c), np.int32(n))
        self._enqueue("scatter", ((n + 63) // 64 * 64,), args, [a], [c], local)
        c.model[c.ground.permutation[:n]] = a.model[:n]

    def _launch_some(self, a: Cell, b: Cell, c: Cell, n: int, shape: Any, local: Any, x: np.int32) -> None:
        self._enqueue("some", shape, (self._arg(a), self._arg(c), np.int32(n)), [a], [c], local)
        odd = (a.model[:n] & 1).astype(bool)
        c.model[:n][odd] = a.model[:n][odd]

    def _launch_histogram(
        self, a: Cell, b: Cell, c: Cell, n: int, shape: Any, local: Any, x: np.int32
    ) -> None:
        self._enqueue("histogram", shape, (self._arg(a), self._arg(c), np.int32(n)), [a], [c], local)
        c.model[:64] += np.bincount(a.model[:n] & 63, minlength=64).astype(np.int32)

    def _launch_largest(self, a: Cell, b: Cell, c: Cell, n: int, shape: Any, local: Any, x: np.int32) -> None:
        self._enqueue("largest", shape, (self._arg(a), self._arg(c), np.int32(n)), [a], [c], local)
        np.maximum.at(c.model, np.arange(n) & 7, a.model[:n])

    def _launch_sums(self, a: Cell, b: Cell, c: Cell, n: int, shape: Any, local: Any, x: np.int32) -> None:
        groups = shape[0] // 64
        args = (self._arg(a), self._arg(c), self.cl.LocalMemory(4 * 64), np.int32(n))
        self._enqueue("sums", shape, args, [a], [c], (64,))
        padded = np.zeros(shape[0], np.int32)
        padded[:n] = a.model[:n]
        c.model[:groups] = padded.reshape(groups, 64).sum(1, dtype=np.int32)

    def _listed(self) -> None:
        """A list in an order of the device's own: compared as a set, then taken as it is."""
        cells = self._some(2)
        if cells is None:
            return
        a, c = cells
        n = min(a.model.size, c.model.size, 1024)
        ground = c.ground
        queue = self._own[self.grounds.index(ground)][0]
        counter = self.cl.Buffer(
            ground.context, self.cl.mem_flags.COPY_HOST_PTR, hostbuf=np.zeros(1, np.int32)
        )
        waits = self._waits(queue, [a], [c])
        self._settle()
        kernel = self._kernels[id(ground)]["list"]
        event = kernel(queue, (n,), None, a.buffer, counter, c.buffer, np.int32(n), wait_for=waits)
        self._note(queue, event, [a], [c])
        expected = np.flatnonzero((a.model[:n] & 3) == 0).astype(np.int32)
        self.cl.enqueue_copy(queue, found := np.empty_like(c.model), c.buffer)
        self._same("list", np.sort(found[: expected.size]), expected)
        c.model[: expected.size] = found[: expected.size]
        self._same("rest of the list", found, c.model)

    def _sub_buffers(self) -> None:
        """Two sub-buffers of one buffer that overlap, and a kernel that touches what they do not share."""
        cell = self.random.choice(self._cells)
        if cell.model.size < 1000 or cell.is_pooled or cell.parent is not None:
            return
        align = cell.ground.context.devices[0].mem_base_addr_align // 8
        start = align * (1000 // align + 1) // 4
        first = cell.buffer.get_sub_region(0, 2000)
        second = cell.buffer.get_sub_region(4 * start, 4 * (cell.model.size - start))
        n = min(start, cell.model.size - start)
        queue = self._queue(cell.ground)
        kernel = self._kernels[id(cell.ground)]["stencil"]
        waits = self._waits(queue, [], [cell])
        event = kernel(queue, ((n + 15) // 16 * 16,), (16,), first, second, np.int32(n), wait_for=waits)
        self._note(queue, event, [], [cell])
        padded = np.concatenate((cell.model[:1], cell.model[:n], cell.model[n - 1 : n]))
        with np.errstate(over="ignore"):
            cell.model[start : start + n] = padded[:-2] + 2 * padded[1:-1] + padded[2:]

    def _add_tally(self) -> None:
        """Add to counters that all threads add to, at the same time."""
        ground = self.random.choice(self.grounds)
        slot, n = self.random.randrange(TALLY_SLOTS), self.random.randint(1, 3000)
        queue = self._queue(ground)
        waits = self._waits(queue, [], [])
        kernel = self._kernels[id(ground)]["tally"]
        event = kernel(queue, (4096,), None, ground.tally, np.int32(slot), np.int32(n), wait_for=waits)
        with ground.lock:
            ground.added[slot] += n
        self._note(queue, event, [], [])


_LAUNCHES = (
    "affine", "stencil", "in_place", "transpose", "gather", "scatter", "some", "histogram", "largest", "sums"
)  # fmt: skip
