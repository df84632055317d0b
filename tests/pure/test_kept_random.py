"""Random programs on several workers whose buffers are kept on one, split again and kept elsewhere at any time: the bytes of one
device, whichever of a command's ways is taken.
"""

from __future__ import annotations

import random

import numpy as np
import pytest
from vdev.translators.ranges.ndrange import NDRange
from vdev.translators.ranges.rectangles import Layout

from tests.pure.repeating import again
from tests.pure.test_direct import attempts
from tests.pure.test_session_failures import LOCAL, NBYTES, WORDS, Program, ended, numbers, triple
from vdev.backends.reference import Faults, ReferenceBackend
from vdev.executor.completion import Completion
from vdev.session.commands import BufferArg, CopyBuffer, Fill, Launch, Read, Write
from vdev.session.ordering import QueueOrder
from vdev.session.session import Session, VirtualBuffer

SPACE = NDRange((WORDS,), (LOCAL,), (0,))


@pytest.fixture(autouse=True)
def as_on_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any thread works with any worker, and ways are chosen."""

    monkeypatch.setattr(ReferenceBackend, "any_thread", True)
    monkeypatch.setattr(ReferenceBackend, "can_wait_for_all", True)
    monkeypatch.setattr(ReferenceBackend, "small_write_nbytes", NBYTES)
    monkeypatch.setattr(ReferenceBackend, "again", again)
    made = Session.__init__
    monkeypatch.setattr(Session, "__init__", lambda *args, **named: made(*args, **named, plan_always=False))


class Buffers:
    """A program's buffers, what one device would hold in them, and the last commands on each."""

    def __init__(self, program: Program, drawn: random.Random) -> None:
        self.program, self.drawn = program, drawn
        self.session = program.session
        self.queues = [self.session.create_queue(in_order=in_order) for in_order in (True, True, False)]
        self.all: list[VirtualBuffer] = []
        self.again = 0  #: reads that were made like the buffer's last one
        self.expected: list[np.ndarray] = []
        self.last: list[list[Completion]] = []
        for number in range(4):
            self.add(numbers(7 * number))
            self._submit(Write(self.all[number], _WHOLE, numbers(7 * number).view(np.uint8)), (number,))

    def add(self, content: np.ndarray) -> int:
        self.all.append(self.session.create_buffer(NBYTES))
        self.expected.append(content)
        self.last.append([])
        return len(self.all) - 1

    def _queue(self) -> QueueOrder:
        return self.drawn.choice(self.queues)

    def _submit(self, command: object, used: tuple[int, ...]) -> None:
        """Behind all that has used these buffers, as its wait list says."""
        after = tuple({id(each): each for number in used for each in self.last[number]}.values())
        queue = self._queue()
        event = None
        if type(command) is Write:
            event = self.session.write_at_once(command, after, queue)
        if event is None:
            event = self.program.submit(command, after, queue)
        for number in used:
            self.last[number] = [event]

    def launch(self, out: int, source: int) -> None:
        args = (BufferArg(self.all[out], 0, NBYTES), BufferArg(self.all[source], 0, NBYTES))
        self._submit(Launch(self.program.kernel, args, SPACE), (out, source))
        self.expected[out] = triple(self.expected[source])

    def step(self) -> None:
        drawn, count = self.drawn, len(self.all)
        one, other = drawn.randrange(count), drawn.randrange(count)
        action = drawn.choice(
            ("launch",) * 8 + ("row", "new", "copy", "fill", "write", "read", "change", "drop")
        )
        if action == "launch":
            self.launch(one, other)
        elif action == "row":
            for _ in range(drawn.randrange(2, 8)):
                self.launch(one, other)
        elif action == "new":
            self.launch(self.add(numbers(0)), other)
        elif action == "copy" and one != other:
            box = (1, 1, NBYTES // 2), 0, (NBYTES, NBYTES), NBYTES // 4, (NBYTES, NBYTES)
            self._submit(CopyBuffer(self.all[other], self.all[one], *box), (one, other))
            found = self.expected[one] = self.expected[one].copy()
            found[WORDS // 4 : 3 * WORDS // 4] = self.expected[other][: WORDS // 2]
        elif action == "fill":
            self._submit(Fill(self.all[one], 0, NBYTES, b"\1\0\0\0"), (one,))
            self.expected[one] = np.ones(WORDS, np.uint32)
        elif action == "write":
            self._submit(Write(self.all[one], _WHOLE, numbers(count).view(np.uint8)), (one,))
            self.expected[one] = numbers(count)
        elif action == "read":
            self.check(one)
        elif action == "change":
            self.change(one)
        elif action == "drop" and count > 4:
            for each in (self.all, self.expected, self.last):
                each.pop()

    def check(self, number: int) -> None:
        host = np.zeros(WORDS, np.uint32)
        target, queue = host.view(np.uint8), self._queue()
        command = Read(self.all[number], _WHOLE, target)
        for each in self.last[number]:
            assert ended(each) == 0
        reading, status = self.all[number].reading, None
        if reading is not None:
            status = self.session.moves.read_again(self.all[number], reading, target, queue, int, ())
        if status is None:
            status = self.session.read_at_once(command, queue)
        else:
            self.again += 1
        assert not status
        if status is None:
            assert ended(self.program.submit(command)) == 0
        assert host.tolist() == self.expected[number].tolist()

    def keep_all(self) -> None:
        for number, buffer in enumerate(self.all):
            if buffer.account is not None and buffer.account.keeper is None:
                self.change(number)

    def change(self, number: int) -> None:
        """Let the other way be taken for what belongs to a buffer."""
        choosing, account = self.session.choosing, self.all[number].account
        assert choosing is not None
        if account is not None and not account.barred:
            with self.session.lock:
                choosing._changes.change(account, thrifty=self.drawn.random() < 0.8)


_WHOLE = Layout.contiguous(0, NBYTES)


@pytest.mark.parametrize("seed", range(12))
def test_kept_and_split_by_turns(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = random.Random(seed)
    tried = attempts(monkeypatch)
    delays = random.Random(seed)
    if seed % 2:  # small reads come to memory of the back end's own
        monkeypatch.setattr(ReferenceBackend, "small_read_nbytes", NBYTES)
    slow = {number: Faults(delay=lambda _: delays.choice((0, 0, 0, 0.0003))) for number in range(3)}
    with Program(3, slow, is_cpu=False) as program:
        buffers = Buffers(program, drawn)
        for number in range(300):
            if number % 60 == 30:
                buffers.keep_all()
            buffers.step()
        for _ in range(2):
            for number in range(len(buffers.all)):
                buffers.check(number)
        assert not buffers.again or seed % 2
    assert tried.count(True) > 5
