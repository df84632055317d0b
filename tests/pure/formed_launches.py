"""A program whose launches on one worker each have other buffers, values and index spaces than the last ones, with what may come in
between: a process of its own, started by `test_formed_launches`. It prints how many launches were made by their form, how many of these
had one buffer twice, how many pointed into buffers, how many had only buffers that belonged to no account yet, and how many launches
there were.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import count
from threading import Thread
from typing import Any

import numpy as np
import pyopencl as cl

from vdev.session.immediate import AtOnce
from vdev.session.immediate_forms import Formed

SOURCE = """
kernel void add(global const uint *a, global uint *b, uint k)
{
    size_t i = get_global_id(0);
    b[i] = 3 * b[i] + a[i] + k;
}
kernel void take(global const uint *a, global uint *b, uint k)
{
    size_t i = get_global_id(0);
    b[i] = a[i] - k;
}
"""
WORDS, BUFFERS, STEPS = 2048, 12, 150
FLAGS = cl.mem_flags

made, shared, shifted, fresh = [0], [0], [0], [0]
_launch = Formed.launch
_launch_at_once = AtOnce.launch
#: called once after the next launch that is looked up and handed over
afterwards: list[Callable[[], None]] = []


def _counted(self: Formed, queue: Any, ndrange: Any, args: Any, after: Any) -> Any:
    were_new = args[0].buffer.account is None and args[1].buffer.account is None
    found = _launch(self, queue, ndrange, args, after)
    made[0] += found is not None
    shared[0] += found is not None and args[0].buffer is args[1].buffer
    fresh[0] += found is not None and were_new
    shifted[0] += found is not None and bool(args[0].offset or args[1].offset)
    return found


def _followed(self: AtOnce, *given: Any) -> Any:
    found = _launch_at_once(self, *given)
    while afterwards and found is not None:
        afterwards.pop()()
    return found


Formed.launch = _counted  # type: ignore[method-assign]
AtOnce.launch = _followed  # type: ignore[method-assign]


class Program:
    """Buffers with what should be in them, and what is done to these: by name, before a launch."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.context = cl.create_some_context(interactive=False)
        self.queue = cl.CommandQueue(self.context)
        disorder = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
        self.loose = cl.CommandQueue(self.context, properties=disorder)
        self.program = cl.Program(self.context, SOURCE).build()
        self.add = cl.Kernel(self.program, "add")
        self.kept: list[cl.Kernel] = []  #: so that new ones are new
        self.wanted = [self.random.integers(0, 99, WORDS, np.uint32) for _ in range(BUFFERS)]
        self.buffers = [
            cl.Buffer(self.context, FLAGS.READ_WRITE | FLAGS.COPY_HOST_PTR, hostbuf=each)
            for each in self.wanted
        ]
        self.numbers = count(1)
        self.launches = 0

    def launch(self, queue: cl.CommandQueue, **more: Any) -> cl.Event:
        one, other = self.random.choice(BUFFERS, 2, replace=False)
        return self.launch_on(queue, one, other, **more)

    def launch_on(self, queue: cl.CommandQueue, one: int, other: int, **more: Any) -> cl.Event:
        number, size = next(self.numbers), int(self.random.integers(1, 5)) * WORDS // 4
        self.launches += 1
        wanted = self.wanted
        wanted[other][:size] = 3 * wanted[other][:size] + wanted[one][:size] + number
        return self.add(
            queue, (size,), (64,), self.buffers[one], self.buffers[other], np.uint32(number), **more
        )

    def behind_a_user_event(self) -> None:
        """What comes behind a command that waits for the program waits as well."""
        event, one = cl.UserEvent(self.context), int(self.random.integers(BUFFERS))
        self.wanted[one][:] = next(self.numbers)
        value = self.wanted[one][:1].copy()
        cl.enqueue_fill_buffer(self.queue, self.buffers[one], value, 0, 4 * WORDS, wait_for=[event])
        later = [self.launch(self.queue) for _ in range(3)]
        assert later[-1].command_execution_status != cl.command_execution_status.COMPLETE, "nothing had begun"
        event.set_status(cl.command_execution_status.COMPLETE)

    def behind_a_barrier(self) -> None:
        """In an out-of-order queue, too."""
        self.queue.finish()
        event = cl.UserEvent(self.context)
        cl.enqueue_barrier(self.loose, wait_for=[event])
        later = self.launch(self.loose)
        assert later.command_execution_status != cl.command_execution_status.COMPLETE
        event.set_status(cl.command_execution_status.COMPLETE)
        self.loose.finish()

    def behind_each_other(self) -> None:
        """As arrays are used, whose launches wait for those of their operands; in the end for one that waits for the program."""
        event = self.launch(self.queue)
        for _ in range(6):
            event = self.launch(self.queue, wait_for=[event, event])
        waiting = cl.UserEvent(self.context)
        last = self.launch(self.queue, wait_for=[event, waiting])
        assert last.command_execution_status != cl.command_execution_status.COMPLETE, "nothing had begun"
        waiting.set_status(cl.command_execution_status.COMPLETE)

    def on_a_part(self) -> None:
        """Of a buffer: its second half."""
        one, other = self.random.choice(BUFFERS, 2, replace=False)
        half, number = WORDS // 2, next(self.numbers)
        part = self.buffers[one][2 * WORDS : 4 * WORDS]  # bytes
        self.launches += 1
        self.add(self.queue, (half,), (64,), part, self.buffers[other], np.uint32(number))
        self.wanted[other][:half] = 3 * self.wanted[other][:half] + self.wanted[one][half:] + number

    def on_parts(self) -> None:
        """Of two buffers or of one, wherever they are in these; as often over the whole of a buffer, too."""
        for _ in range(4):
            one, other = (int(each) for each in self.random.choice(BUFFERS, 2))
            start, to = (int(each) for each in self.random.choice(8, 2, replace=False))
            nitems, number = WORDS // 8, next(self.numbers)
            parts = [
                self.buffers[at][4 * nitems * first : 4 * nitems * (first + 1)]
                for at, first in ((one, start), (other, to))
            ]
            self.launches += 1
            self.add(self.queue, (nitems,), (64,), *parts, np.uint32(number))
            source = self.wanted[one][nitems * start : nitems * (start + 1)]
            target = self.wanted[other][nitems * to : nitems * (to + 1)]
            target[:] = 3 * target + source + np.uint32(number)
            if self.random.random() < 0.5:
                self.launch(self.queue)

    def in_place(self) -> None:
        number, one = next(self.numbers), int(self.random.integers(BUFFERS))
        self.launches += 1
        self.add(self.queue, (WORDS,), (64,), self.buffers[one], self.buffers[one], np.uint32(number))
        self.wanted[one] = 4 * self.wanted[one] + np.uint32(number)

    def new_ones(self) -> None:
        """A buffer of which the worker has nothing yet."""
        one = int(self.random.integers(BUFFERS))
        self.wanted[one] = self.random.integers(0, 99, WORDS, np.uint32)
        self.buffers[one] = cl.Buffer(
            self.context, FLAGS.READ_WRITE | FLAGS.COPY_HOST_PTR, hostbuf=self.wanted[one]
        )

    def only_new_ones(self) -> None:
        """All of a launch's buffers, each of which begins with its content."""
        for _ in range(4):
            one, other = (int(each) for each in self.random.choice(BUFFERS, 2, replace=False))
            for at in (one, other):
                self.wanted[at] = self.random.integers(0, 99, WORDS, np.uint32)
                self.buffers[at] = cl.Buffer(
                    self.context, FLAGS.READ_WRITE | FLAGS.COPY_HOST_PTR, hostbuf=self.wanted[at]
                )
            self.launch_on(self.queue, one, other)

    def behind_another_thread(self) -> None:
        """Which launches another kernel just as this one's has been handed over; it is an object of its own, so it is looked up."""
        one, other = self.random.choice(BUFFERS, 2, replace=False)
        wanted, number = self.wanted, next(self.numbers)

        def take() -> None:
            self.launches += 1
            self.kept.append(cl.Kernel(self.program, "take"))
            args = self.buffers[one], self.buffers[other], np.uint32(number)
            self.kept[-1](self.queue, (WORDS,), (64,), *args)

        def meanwhile() -> None:
            thread = Thread(target=take)
            thread.start()
            thread.join()
            wanted[other] = wanted[one] - np.uint32(number)

        self.kept.append(self.add)
        self.add = cl.Kernel(self.program, "add")
        for _ in range(4):
            afterwards.append(meanwhile)
            self.launch(self.queue)
        afterwards.clear()

    def nothing(self) -> None:
        """Two launches alike, which prepares for more."""
        one, other = self.random.choice(BUFFERS, 2, replace=False)
        self.launch_on(self.queue, one, other)
        self.launch_on(self.queue, one, other)

    def look(self) -> None:
        one, found = int(self.random.integers(BUFFERS)), np.empty(WORDS, np.uint32)
        cl.enqueue_copy(self.queue, found, self.buffers[one])
        assert (found == self.wanted[one]).all(), (one, np.flatnonzero(found != self.wanted[one])[:8])

    def run(self) -> None:
        kinds: list[Callable[[], None]] = [
            self.behind_a_user_event, self.behind_a_barrier, self.behind_each_other, self.on_a_part, self.on_parts, self.in_place,
            self.new_ones, self.only_new_ones, self.behind_another_thread, self.nothing, self.look,
        ]  # fmt: skip
        for _ in range(STEPS):
            for _ in range(4):
                self.launch(self.queue)
            kinds[int(self.random.integers(len(kinds)))]()
        for one in range(BUFFERS):
            found = np.empty(WORDS, np.uint32)
            cl.enqueue_copy(self.queue, found, self.buffers[one])
            assert (found == self.wanted[one]).all(), (one, "at the end")


def main() -> None:
    program = Program(int(sys.argv[1]))
    program.run()
    print(made[0], shared[0], shifted[0], fresh[0], program.launches)


if __name__ == "__main__":
    main()
