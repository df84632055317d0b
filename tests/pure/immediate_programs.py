"""Random programs of commands some of which the calling thread hands over by itself: what they share, and what each leaves."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np
from vdev.translators.ranges.rectangles import Layout

from vdev.executor.completion import Completion
from vdev.session.commands import Fill, Write

from .test_runs import Caller
from .test_session_failures import NBYTES, WORDS, Program, ended, numbers, triple

WHOLE = Layout.contiguous(0, NBYTES)
STEPS = 300
#: what does a command, given the number of the step and two of the buffers
Action = Callable[[int, int, int], None]


class RandomCommands:
    """Three buffers, what each of them holds, and launches on them, in a queue that is in order or not."""

    def __init__(self, program: Program, drawn: random.Random, *, in_order: bool) -> None:
        self.program, self.drawn, self.in_order = program, drawn, in_order
        self.queue = program.session.create_queue(in_order=in_order)
        self.buffers = [program.session.create_buffer(NBYTES) for _ in range(3)]
        self.arrays = [numbers(number) for number in range(3)]
        self.last: Completion | None = None
        self._launches = [Caller(program) for _ in self.buffers]
        for buffer, array in zip(self.buffers, self.arrays, strict=True):
            self.submit(Write(buffer, WHOLE, array.copy().view(np.uint8)))

    @property
    def after(self) -> tuple[Completion, ...]:
        """What the next command has to wait for."""
        return () if self.in_order or self.last is None else (self.last,)

    def submit(self, command: object) -> None:
        self.last = self.program.submit(command, self.after, self.queue)

    def run(self, actions: Sequence[Action]) -> None:
        """Some of these, often one after the other without a pause."""
        for step in range(STEPS):
            one, other = self.drawn.randrange(3), self.drawn.randrange(3)
            if self.drawn.random() < 0.3:  # workers that are busy are handed nothing
                self.program.session.executor.quiesce()
            self.drawn.choice(actions)(step, one, other)

    def launch(self, step: int, one: int, other: int) -> None:
        if self.in_order:
            self.last = self._launches[one](self.buffers[one], self.buffers[other], self.queue)
        else:
            self.last = self.program.launch(self.buffers[one], self.buffers[other], self.after, self.queue)
        self.arrays[one] = triple(self.arrays[other])

    def fill(self, step: int, one: int, other: int) -> None:
        self.submit(Fill(self.buffers[one], 0, NBYTES, step.to_bytes(4, "little")))
        self.arrays[one] = np.full(WORDS, step, np.uint32)

    def check(self, number: int) -> None:
        """A buffer holds what it should."""
        completion, found = self.program.read(self.buffers[number], self.after, self.queue)
        assert ended(completion) == 0
        assert found.tolist() == self.arrays[number].tolist()
