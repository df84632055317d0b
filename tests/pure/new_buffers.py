"""Random programs that make their buffers anew for each step, through PyOpenCL, against NumPy: a process of its own, started by
`test_new_buffers`, which prints how many launches were made by their form on one worker (`vdev.executor.whole.Form`) and on several
(`vdev.executor.plan_form`), and how many in all.

Within a program, kernels find new buffers in the same places and others, the same buffer twice, parts of buffers and no buffer at all;
buffers are dropped while commands on them are under way.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pyopencl as cl
from pyopencl.tools import ImmediateAllocator, MemoryPool

from vdev.executor.plan_form import PlanForm
from vdev.executor.whole import Changes, Form

SOURCE = """
kernel void scaled(global uint *out, global const uint *a, uint s, global const uint *b)
{
    const uint i = get_global_id(0);
    out[i] = a[i] * s + (b ? b[i] : 7u);
}
kernel void folded(global uint *out, global const uint *a, local uint *part, uint n)
{
    const uint l = get_local_id(0);
    part[l] = 0;
    for (uint i = get_global_id(0); i < n; i += get_global_size(0))
        part[l] += a[i];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (l == 0)
        for (uint k = 1; k < get_local_size(0); ++k)
            part[0] += part[k];
    if (l == 0)
        out[get_group_id(0)] = part[0];
}
kernel void turned(global uint *out, global const uint *a, uint n)
{
    const uint i = get_global_id(0);
    uint sum = 0;
    for (uint k = 0; k < n; k += n / 8)
        sum += a[(i + k) % n];
    out[i] = sum;
}
kernel void placed(global float *out, float by)
{
    out[get_global_id(0)] = by;
}
"""
GROUP, GROUPS = 64, 4
#: items of the buffers of a program; parts begin in the middle
SIZES = (1024, 2048, 4096)
FLAGS = cl.mem_flags

formed = [0]
_start = Form.start


def _counted(self: Form, changes: Changes) -> int:
    formed[0] += 1
    return _start(self, changes)


Form.start = _counted  # type: ignore[method-assign]

shared = [0]
_made = PlanForm.was_made


def _counted_on_several(self: PlanForm) -> None:
    shared[0] += 1
    _made(self)


PlanForm.was_made = _counted_on_several  # type: ignore[method-assign]


class Value:
    """A buffer, or a part of one, and what it holds."""

    def __init__(self, buffer: Any, content: np.ndarray) -> None:
        self.buffer = buffer
        self.content = content


class Program:
    """One random program, made of a period that is run again and again."""

    def __init__(self, context: cl.Context, kernels: dict[str, cl.Kernel], seed: int) -> None:
        self.seed, self.random, self.made = seed, random.Random(seed), np.random.default_rng(seed)
        self.context, self.kernels = context, kernels
        self.queue = cl.CommandQueue(context)
        self.other = cl.CommandQueue(context)
        self.pool = MemoryPool(ImmediateAllocator(self.queue))
        self.sizes = self.random.sample(SIZES, self.random.choice((1, 2)))
        self.values = {size: [self.given(size) for _ in range(3)] for size in self.sizes}
        self.launches = 0
        self.events: list[cl.Event] = []

    def buffer(self, size: int) -> Any:
        if self.random.random() < 0.3:
            return self.pool.allocate(4 * size)
        return cl.Buffer(self.context, FLAGS.READ_WRITE, 4 * size)

    def given(self, size: int) -> Value:
        content = self.made.integers(0, 2**32, size, np.uint32)
        if content[0] % 3 == 0:  # it begins in the program's memory
            host = content.copy()
            return Value(
                cl.Buffer(self.context, FLAGS.READ_WRITE | FLAGS.USE_HOST_PTR, hostbuf=host), content
            )
        return Value(
            cl.Buffer(self.context, FLAGS.READ_WRITE | FLAGS.COPY_HOST_PTR, hostbuf=content), content
        )

    def launch(self, name: str, size: int, *args: Any, queue: cl.CommandQueue | None = None) -> None:
        self.launches += 1
        event = self.kernels[name](queue or self.queue, (size,), (GROUP,), *args, wait_for=self.events)
        self.events = [*self.events[-6:], event]

    def scaled(self, size: int, turn: str) -> None:
        """One value becomes another: in a new buffer, in its own, in half of it."""
        at = self.random.randrange(3)
        a, b = self.random.choice(self.values[size]), self.random.choice(self.values[size])
        factor = self.random.choice((0, 1, 3, self.random.randrange(2**32)))
        added = np.uint32(7) if turn == "null" else b.content
        content = a.content * np.uint32(factor) + added
        other = None if turn == "null" else b.buffer
        if turn == "part":
            half = size // 2
            out, kept = self.buffer(size), a.content.copy()
            cl.enqueue_copy(self.queue, out, a.buffer, byte_count=4 * size)
            self.queue.finish()
            if isinstance(out, cl.Buffer):  # parts of those of a pool are not to be had
                part = out[2 * size :]
                self.launch("scaled", half, part, a.buffer, np.uint32(factor), b.buffer)
                kept[half:] = content[:half]
            self.values[size][at] = Value(out, kept)
        elif turn == "in place":
            self.launch("scaled", size, a.buffer, a.buffer, np.uint32(factor), other)
            a.content = content
        else:
            out = self.buffer(size)
            queue = self.other if turn == "other" else None
            self.launch("scaled", size, out, a.buffer, np.uint32(factor), other, queue=queue)
            if queue is not None:
                queue.finish()
            self.values[size][at] = Value(out, content)

    def folded(self, size: int) -> None:
        """A sum, of which the program waits for what the groups have found."""
        value, out = self.random.choice(self.values[size]), self.buffer(GROUPS)
        local = cl.LocalMemory(4 * GROUP)
        self.launch("folded", GROUP * GROUPS, out, value.buffer, local, np.uint32(size))
        found = np.empty(GROUPS, np.uint32)
        cl.enqueue_copy(self.queue, found, out)
        wanted = value.content.reshape(-1, GROUPS, GROUP).sum((0, 2), dtype=np.uint32)
        assert (found == wanted).all(), (self.seed, "folded", found, wanted)

    def turned(self, size: int) -> None:
        """A new value of which each item takes items from everywhere: where it is split, workers bring them to each other."""
        value, out = self.random.choice(self.values[size]), self.buffer(size)
        self.launch("turned", size, out, value.buffer, np.uint32(size))
        wanted = sum(np.roll(value.content, -k) for k in range(0, size, size // 8))
        self.values[size][self.random.randrange(3)] = Value(out, np.asarray(wanted, np.uint32))

    def placed(self, size: int) -> None:
        """Zeros of both signs, which are equal and differ."""
        by, out = np.float32(self.random.choice((0.0, -0.0, 1.5))), self.buffer(size)
        self.launch("placed", size, out, by)
        self.values[size][self.random.randrange(3)] = Value(out, np.full(size, by).view(np.uint32))

    def look(self, size: int) -> None:
        value = self.random.choice(self.values[size])
        found = np.empty(size, np.uint32)
        cl.enqueue_copy(self.queue, found, value.buffer)
        assert (found == value.content).all(), (self.seed, "look", np.flatnonzero(found != value.content)[:8])

    def changed(self, size: int) -> None:
        """A new value comes from the host."""
        self.values[size][self.random.randrange(3)] = self.given(size)

    def run(self, steps: int) -> None:
        kinds: list[Callable[[int], None]] = [
            *[lambda size, turn=turn: self.scaled(size, turn) for turn in ("new", "new", "in place", "null", "part", "other")],
            self.folded,
            self.turned,
            self.turned,
            self.placed,
            self.look,
            self.changed,
        ]  # fmt: skip
        period = [(self.random.choice(kinds), self.random.choice(self.sizes)) for _ in range(6)]
        for _ in range(steps):
            for kind, size in period:
                kind(size)
        for size in self.sizes:
            for _ in range(3):
                self.look(size)


def main() -> None:
    first, count, steps = map(int, sys.argv[1:4])
    context = cl.create_some_context(interactive=False)
    built = cl.Program(context, SOURCE).build()
    kernels = {name: cl.Kernel(built, name) for name in ("scaled", "folded", "turned", "placed")}
    if first % 2:  # values are converted in another way
        kernels["scaled"].set_arg_types([None, None, np.uint32, None])
        kernels["placed"].set_arg_types([None, np.float32])
    launches = 0
    for seed in range(first, first + count):
        program = Program(context, kernels, seed)
        program.run(steps)
        launches += program.launches
    print(formed[0], shared[0], launches)


if __name__ == "__main__":
    main()
