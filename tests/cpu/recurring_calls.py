"""Random programs that make the same few calls again and again, with other numbers, as most programs do: each array holds what
it should at every step.

Run by `test_recurring_calls`, in a process whose PyOpenCL is the virtual device; or by hand, with VDEV=1:

    python -m tests.cpu.recurring_calls [first seed] [programs]

A program consists of phrases: a few commands, drawn once and made up to thirty times in a row, so that they are handed over in
the shortest way there is; and something else in between, which must end that where it has to.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pyopencl as cl

ITEMS, PHRASES, MOST_TIMES = 64, 12, 30
NBYTES = 4 * ITEMS
SOURCE = """
__kernel void add(__global uint *out, uint step) { out[get_global_id(0)] += step; }
__kernel void mix(__global uint *out, uint a, __global const uint *in, ushort b)
{
    out[get_global_id(0)] = out[get_global_id(0)] * a + in[get_global_id(0)] + b;
}
__kernel void turn(__global uint *out, __local uint *kept, uint step)
{
    kept[get_local_id(0)] = out[get_global_id(0)];
    barrier(CLK_LOCAL_MEM_FENCE);
    out[get_global_id(0)] = kept[get_local_size(0) - 1 - get_local_id(0)] + step;
}
__kernel void smooth(__global uint *out, __global const uint *in, uint middle)
{
    const size_t i = get_global_id(0), last = get_global_size(0) - 1;
    out[i] = (i > 0 ? in[i - 1] : 0) + middle * in[i] + (i < last ? in[i + 1] : 0);
}
__kernel void take(__global uint *out, __global const uint *in, __global const uint *where)
{
    out[get_global_id(0)] = in[where[get_global_id(0)]];
}
__kernel void grow(__global uint *out, uint step)
{
    out[get_global_id(0)] += step * (uint)get_num_groups(0) + (uint)(get_global_size(0) + get_global_offset(0));
}
__kernel void count(__global uint *out, __global const uint *in, uint step) { atomic_add(&out[in[get_global_id(0)] % 16], step); }
"""
Command = Callable[[int], None]


class RandomCalls:
    """Four buffers, what each holds, and commands on them in one of two queues."""

    def __init__(self, context: cl.Context, drawn: random.Random) -> None:
        self.context, self.drawn = context, drawn
        self.queues = [cl.CommandQueue(context) for _ in range(2)]
        self.queue = self.queues[0]
        built = cl.Program(context, SOURCE).build()
        # two objects of one kernel: each has its own arguments
        self.adds = [cl.Kernel(built, "add") for _ in range(2)]
        self.mix, self.turn, self.take = (cl.Kernel(built, name) for name in ("mix", "turn", "take"))
        self.smooth, self.count = cl.Kernel(built, "smooth"), cl.Kernel(built, "count")
        self.grow = cl.Kernel(built, "grow")
        self.grow.set_arg_types([None, np.uint32])
        for kernel in (self.smooth, self.count):
            kernel.set_arg_types([None, None, np.uint32])
        self.order = np.array(drawn.choices(range(ITEMS), k=ITEMS), np.uint32)
        self.where = self._made(self.order)
        for add in self.adds:
            add.set_arg_types([None, np.uint32])
        self.mix.set_arg_types([None, np.uint32, None, np.uint16])
        self.buffers: list[cl.Buffer] = []
        self.arrays: list[np.ndarray[Any, Any]] = []
        for number in range(4):
            self.arrays.append(np.arange(number, number + ITEMS, dtype=np.uint32))
            self.buffers.append(self._made(self.arrays[number]))

    def _made(self, array: np.ndarray[Any, Any]) -> cl.Buffer:
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        return cl.Buffer(self.context, flags, hostbuf=array)

    def run(self) -> None:
        for _ in range(PHRASES):
            phrase = [self.drawn.choice(self._kinds())() for _ in range(self.drawn.randrange(1, 5))]
            for time in range(self.drawn.randrange(1, MOST_TIMES)):
                for command in phrase:
                    command(time)
            self.drawn.choice((self._replace, self._change_queue, self._check, self._map))()
        self._check()

    def _kinds(self) -> list[Callable[[], Command]]:
        launches = [self._adding, self._mixing, self._turning, self._smoothing, self._taking, self._counting]
        return [
            *launches,
            *launches,
            self._growing,
            self._growing,
            self._reading,
            self._reading,
            self._writing,
            self._filling,
            self._waiting,
        ]

    def _local(self) -> int:
        """The size of a launch's work-groups."""
        return self.drawn.choice((8, 16, 64))

    # what a phrase may consist of -----------------------------------------------------------------

    def _adding(self) -> Command:
        at, kernel = self.drawn.randrange(4), self.drawn.choice(self.adds)
        numbers, local = self.drawn.sample(range(100), self.drawn.randrange(1, 4)), self._local()

        def add(time: int) -> None:
            step = np.uint32(numbers[time % len(numbers)])
            kernel(self.queue, (ITEMS,), (local,), self.buffers[at], step)
            self.arrays[at] = self.arrays[at] + step

        return add

    def _mixing(self) -> Command:
        pairs, by_set_args = self._pairs(), self.drawn.random() < 0.2
        changing, local = self.drawn.random() < 0.5, self._local()

        def mix(time: int) -> None:
            out, given = pairs[time % len(pairs)]
            a, b = np.uint32(3 + changing * time), np.uint16(7 * time)
            args = (self.buffers[out], a, self.buffers[given], b)
            if by_set_args:
                self.mix.set_args(*args)
                cl.enqueue_nd_range_kernel(self.queue, self.mix, (ITEMS,), (local,))
            else:
                self.mix(self.queue, (ITEMS,), (local,), *args)
            self.arrays[out] = self.arrays[out] * a + self.arrays[given] + b

        return mix

    def _turning(self) -> Command:
        places = [(at, self._local()) for at in self.drawn.sample(range(4), self.drawn.randrange(1, 4))]
        kept = {local: cl.LocalMemory(4 * local) for _, local in places}

        def turn(time: int) -> None:
            at, local = places[time % len(places)]
            self.turn(self.queue, (ITEMS,), (local,), self.buffers[at], kept[local], np.uint32(time))
            turned = self.arrays[at].reshape(-1, local)[:, ::-1].reshape(-1)
            self.arrays[at] = turned + np.uint32(time)

        return turn

    def _smoothing(self) -> Command:
        """From one buffer into another, and perhaps back the next time, behind the one before or behind that and an older one."""
        pairs, waits, local = self._pairs(), self.drawn.randrange(3), self._local()
        made: list[cl.Event] = []

        def smooth(time: int) -> None:
            out, given = pairs[time % len(pairs)]
            middle, array = np.uint32(time // 3), self.arrays[given]
            after = made[-1:] + made[-4:-3] * (waits == 2) if waits else None
            args = self.buffers[out], self.buffers[given], middle
            made.append(self.smooth(self.queue, (ITEMS,), (local,), *args, wait_for=after))
            self.arrays[out] = middle * array
            self.arrays[out][1:] += array[:-1]
            self.arrays[out][:-1] += array[1:]

        return smooth

    def _taking(self) -> Command:
        """From anywhere in a buffer."""
        (out, given), local = self.drawn.sample(range(4), 2), self._local()

        def take(time: int) -> None:
            self.take(self.queue, (ITEMS,), (local,), self.buffers[out], self.buffers[given], self.where)
            self.arrays[out] = self.arrays[given][self.order]

        return take

    def _counting(self) -> Command:
        (out, given), local = self.drawn.sample(range(4), 2), self._local()

        def count(time: int) -> None:
            step = np.uint32(time % 3)
            self.count(self.queue, (ITEMS,), (local,), self.buffers[out], self.buffers[given], step)
            found = np.bincount(self.arrays[given] % 16, minlength=ITEMS).astype(np.uint32)
            self.arrays[out] = self.arrays[out] + found * step

        return count

    def _growing(self) -> Command:
        """Over another part of a buffer each time, or over one of a few."""
        at, local = self.drawn.randrange(4), self.drawn.choice((4, 8))
        parts, by_set_args = self.drawn.choice((2, 4, MOST_TIMES)), self.drawn.random() < 0.3
        ends = [sorted(self.drawn.sample(range(ITEMS // local + 1), 2)) for _ in range(parts)]
        starts_at_0 = self.drawn.random() < 0.5

        def grow(time: int) -> None:
            first, last = (local * end for end in ends[time % parts])
            first *= not starts_at_0
            step, size, count = np.uint32(time // 2), (last - first,), (last - first) // local
            if by_set_args or first:
                self.grow.set_args(self.buffers[at], step)
                cl.enqueue_nd_range_kernel(self.queue, self.grow, size, (local,), (first,))
            else:
                self.grow(self.queue, size, (local,), self.buffers[at], step)
            self.arrays[at] = self.arrays[at].copy()
            self.arrays[at][first:last] += step * np.uint32(count) + np.uint32(size[0] + first)

        return grow

    def _reading(self) -> Command:
        at, start, count = self._part()
        blocking, seen = self.drawn.random() < 0.7, np.zeros(count, np.uint32)

        def read(time: int) -> None:
            event = cl.enqueue_copy(
                self.queue, seen, self.buffers[at], src_offset=4 * start, is_blocking=blocking
            )
            if not blocking:
                event.wait()
            assert seen.tolist() == self.arrays[at][start : start + count].tolist()

        return read

    def _writing(self) -> Command:
        at, start, count = self._part()

        def write(time: int) -> None:
            values = np.arange(time, time + count, dtype=np.uint32)
            cl.enqueue_copy(self.queue, self.buffers[at], values, dst_offset=4 * start)
            self.arrays[at] = self.arrays[at].copy()
            self.arrays[at][start : start + count] = values
            values[:] = 0xDEAD  # it has been read

        return write

    def _filling(self) -> Command:
        at = self.drawn.randrange(4)

        def fill(time: int) -> None:
            cl.enqueue_fill_buffer(self.queue, self.buffers[at], np.uint32(time), 0, NBYTES)
            self.arrays[at] = np.full(ITEMS, time, np.uint32)

        return fill

    def _waiting(self) -> Command:
        at, by_event = self.drawn.randrange(4), self.drawn.random() < 0.5

        def wait(time: int) -> None:
            event = self.adds[0](self.queue, (ITEMS,), (ITEMS,), self.buffers[at], np.uint32(1))
            self.arrays[at] = self.arrays[at] + np.uint32(1)
            event.wait() if by_event else self.queue.finish()
            assert event.command_execution_status == 0

        return wait

    def _pairs(self) -> list[tuple[int, int]]:
        """Two buffers, or those that take turns."""
        one, two, three, four = self.drawn.sample(range(4), 4)
        swapped, others = [(one, two), (two, one)], [(one, two), (three, four), (two, one), (four, three)]
        return self.drawn.choice(([(one, two)], swapped, swapped, others, [(one, two), (one, three)]))

    def _part(self) -> tuple[int, int, int]:
        """A buffer, and some of its elements: the first of them, and how many."""
        start, count = self.drawn.choice(((0, ITEMS), (0, 1), (ITEMS // 2, 8)))
        return self.drawn.randrange(4), start, count

    # what comes between ---------------------------------------------------------------------------

    def _replace(self) -> None:
        """Another buffer in the place of one that goes."""
        at = self.drawn.randrange(4)
        self.arrays[at] = np.arange(at, at + ITEMS, dtype=np.uint32)
        self.buffers[at] = self._made(self.arrays[at])

    def _change_queue(self) -> None:
        self.queue.finish()
        self.queue = self.drawn.choice(self.queues)

    def _map(self) -> None:
        at = self.drawn.randrange(4)
        flags = cl.map_flags.READ | cl.map_flags.WRITE
        array, _ = cl.enqueue_map_buffer(self.queue, self.buffers[at], flags, 0, (ITEMS,), np.uint32)
        assert array.tolist() == self.arrays[at].tolist()
        array += np.uint32(5)
        self.arrays[at] = self.arrays[at] + np.uint32(5)
        array.base.release(self.queue)

    def _check(self) -> None:
        for buffer, array in zip(self.buffers, self.arrays, strict=True):
            found = np.zeros(ITEMS, np.uint32)
            cl.enqueue_copy(self.queue, found, buffer)
            assert found.tolist() == array.tolist()


def main() -> int:
    first, programs = (*map(int, sys.argv[1:]), *(1, 40)[len(sys.argv) - 1 :])
    context = cl.create_some_context(interactive=False)
    for seed in range(first, first + programs):
        try:
            with np.errstate(over="ignore"):
                RandomCalls(context, random.Random(seed)).run()
        except AssertionError as error:
            print(f"seed {seed}: {error}")
            return 1
    print(f"{programs} programs from seed {first} on are right")
    return 0


if __name__ == "__main__":
    sys.exit(main())
