"""Small writes to a worker with memory of its own, which the calling thread hands over by itself: the program may
change its memory as soon as the call returns, and all else is as if each had been submitted.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
from vdev.translators.ranges.rectangles import Layout

from vdev.backends.base import Allocation, Box
from vdev.backends.reference import Faults, ReferenceBackend
from vdev.executor.completion import COMPLETE, Completion
from vdev.planner.directory import HOST
from vdev.session.commands import Read, Write
from vdev.session.ordering import QueueOrder
from vdev.session.session import VirtualBuffer

from .immediate_programs import WHOLE, RandomCommands
from .repeating import again
from .test_event_order import wait_until
from .test_runs import Caller
from .test_session_failures import NBYTES, WORDS, Program, ended, numbers, triple


@pytest.fixture(autouse=True)
def like_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any thread may work with the worker and wait for it; what is written at once has been read when the call returns."""

    def write_now(self: ReferenceBackend, target: Allocation, source: np.ndarray, box: Box) -> None:
        self.write(target, source.copy(), box)

    for name in ("any_thread", "can_wait_for_all"):
        monkeypatch.setattr(ReferenceBackend, name, True)
    monkeypatch.setattr(ReferenceBackend, "small_write_nbytes", NBYTES)
    monkeypatch.setattr(ReferenceBackend, "write_now", write_now)
    monkeypatch.setattr(ReferenceBackend, "again", again)


class Writer:
    """A program's writes, at once where that is possible: then it changes its memory at once."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.at_once = 0
        self.kept: list[np.ndarray] = []

    def __call__(
        self,
        buffer: VirtualBuffer,
        values: np.ndarray,
        start: int = 0,
        after: tuple[Completion, ...] = (),
        queue: QueueOrder | None = None,
    ) -> Completion:
        queue = queue or self.program.queue
        command = Write(buffer, Layout.contiguous(4 * start, values.nbytes), values.view(np.uint8))
        written = self.program.session.write_at_once(command, after, queue)
        if written is not None:
            self.at_once += 1
            values[...] = 0xDEADBEEF
            return written
        self.kept.append(values)
        return self.program.submit(command, after, queue)


@pytest.fixture
def program() -> Iterator[Program]:
    with Program(1, {0: Faults(delay=lambda _: random.choice((0, 0, 0.0003)))}, is_cpu=False) as made:
        yield made


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_between_other_commands(workers: int, seed: int, in_order: bool) -> None:
    drawn = random.Random(seed)
    delayed = Faults(delay=lambda _: drawn.choice((0, 0, 0.0003)))
    with Program(workers, dict.fromkeys(range(workers), delayed), is_cpu=False) as program:
        at_once = _random_commands(program, drawn, in_order)
    assert at_once > (50 if workers == 1 else 0)


class Writes(RandomCommands):
    """Writes of whole buffers and of parts, launches, fills and reads."""

    def __init__(self, program: Program, drawn: random.Random, *, in_order: bool) -> None:
        super().__init__(program, drawn, in_order=in_order)
        self.writer = Writer(program)
        self._host = np.zeros(WORDS, np.uint32)

    def write(self, step: int, one: int, other: int) -> None:
        self.arrays[one] = numbers(step)
        self.last = self.writer(self.buffers[one], self.arrays[one].copy(), 0, self.after, self.queue)

    def write_part(self, step: int, one: int, other: int) -> None:
        start, count = 3, self.drawn.randrange(1, 9)
        self.arrays[one] = self.arrays[one].copy()
        self.arrays[one][start : start + count] = step
        values = np.full(count, step, np.uint32)
        self.last = self.writer(self.buffers[one], values, start, self.after, self.queue)

    def to_and_fro(self, step: int, one: int, other: int) -> None:
        """What is written is still on its way to the host."""
        session, host = self.program.session, self._host.view(np.uint8)
        self.submit(Read(self.buffers[one], WHOLE, host))
        assert self.last is not None
        read, command = self.last, Write(self.buffers[other], WHOLE, host)
        done = session.write_at_once(command, (read,), self.queue)
        self.last = self.program.submit(command, (read,), self.queue) if done is None else done
        self.arrays[other] = self.arrays[one]
        assert ended(self.last) == 0

    def read(self, step: int, one: int, other: int) -> None:
        self.check(one)


def _random_commands(program: Program, drawn: random.Random, in_order: bool) -> int:
    """Make them, and check what they leave; how many writes were handed over at once."""
    made = Writes(program, drawn, in_order=in_order)
    launch, write = made.launch, made.write
    made.run([launch, launch, write, write, made.write_part, made.fill, made.read, made.to_and_fro])
    for number in range(3):
        made.check(number)
    return made.writer.at_once


def test_a_loop_of_writes_and_launches_is_handed_over_at_once(program: Program) -> None:
    write, launch = Writer(program), Caller(program)
    buffer, out = program.session.create_buffer(NBYTES), program.session.create_buffer(NBYTES)
    for step in range(50):
        write(buffer, numbers(step))
        launch(out, buffer)
        if step < 3:  # once the plans are known and the worker's thread is through
            program.session.executor.quiesce()
    assert write.at_once >= 46
    assert program.content(out).tolist() == triple(numbers(49)).tolist()
    assert program.session.ledger.commands["write"].count == 50


def test_it_does_not_overtake_commands_that_wait_for_the_program(program: Program) -> None:
    write, gate = Writer(program), program.session.user_completion()
    buffer, launch = program.session.create_buffer(NBYTES), Caller(program)
    for step in range(3):
        assert ended(write(buffer, numbers(step))) == 0
        program.session.executor.quiesce()
    assert write.at_once
    count = write.at_once
    out = program.session.create_buffer(NBYTES)
    launched = program.launch(out, buffer, (gate,))
    last = write(buffer, numbers(3))
    assert write.at_once == count
    gate.set_status(0)
    assert ended(launched) == ended(last) == 0
    assert program.content(out).tolist() == triple(numbers(2)).tolist()
    assert program.content(buffer).tolist() == numbers(3).tolist()
    assert launch(out, out) is not None


def test_a_failure_is_its_own(program: Program) -> None:
    write, buffer, other = Writer(program), *(program.session.create_buffer(NBYTES) for _ in range(2))
    for each in (buffer, other):
        write(each, numbers(1))
        assert ended(write(each, numbers(2))) == 0
    program.session.executor.quiesce()
    backend = program.backends[0]
    backend.faults.fail[backend._handed_over] = -5
    count = write.at_once
    failed, fine = write(buffer, numbers(3)), write(other, numbers(4))
    assert write.at_once == count + 2
    assert (ended(failed), ended(fine)) == (-5, 0)
    assert program.content(other).tolist() == numbers(4).tolist()


@pytest.mark.parametrize("workers", [1, 2])
def test_no_worker_is_handed_large_ones(monkeypatch: pytest.MonkeyPatch, workers: int) -> None:
    for name in ("small_write_nbytes", "own_thread_nbytes"):
        monkeypatch.setattr(ReferenceBackend, name, NBYTES - 1)
    with Program(workers, is_cpu=False) as program:
        write, buffer = Writer(program), program.session.create_buffer(NBYTES)
        for step in range(5):
            assert ended(write(buffer, numbers(step))) == 0
        assert write.at_once == 0 if workers == 1 else buffer.state.valid_at(HOST).nbytes == NBYTES
        assert program.content(buffer).tolist() == numbers(4).tolist()


def test_longer_ones_are_handed_over_to_an_idle_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReferenceBackend, "small_write_nbytes", NBYTES - 1)
    slow = Faults()
    with Program(1, {0: slow}, is_cpu=False) as program:
        write, buffer = Writer(program), program.session.create_buffer(NBYTES)
        for step in range(5):
            assert ended(write(buffer, numbers(step))) == 0
            program.session.executor.quiesce()
        idle = write.at_once
        assert idle
        going_on = threading.Event()
        slow.delay = lambda _: 0 if going_on.wait(60) else 1
        launched, written = program.launch(buffer, buffer), write(buffer, numbers(7))
        assert write.at_once == idle
        going_on.set()
        assert ended(launched) == ended(written) == 0
        slow.delay = None
        assert program.content(buffer).tolist() == numbers(7).tolist()


@pytest.mark.parametrize("is_cpu", [True, False])
@pytest.mark.parametrize("in_order", [True, False])
def test_a_cpu_is_handed_longer_ones(monkeypatch: pytest.MonkeyPatch, in_order: bool, is_cpu: bool) -> None:
    """Once it is idle, for which a write that the program waits for waits, where that comes behind all before it anyway."""
    for name in ("small_write_nbytes", "own_thread_nbytes"):
        monkeypatch.setattr(ReferenceBackend, name, NBYTES - 1)
    slow = Faults()
    with Program(1, {0: slow}, is_cpu=is_cpu) as program:
        session, write, other = program.session, Writer(program), program.buffer(2)
        queue, buffer = session.create_queue(in_order=in_order), session.create_buffer(NBYTES)
        for step in range(5):
            assert ended(write(buffer, numbers(step), queue=queue)) == 0
            session.executor.quiesce()
        assert bool(write.at_once) is is_cpu
        going_on = threading.Event()
        slow.delay = lambda _: 0 if going_on.wait(100) else 1
        launched, count, worker = program.launch(other, other), write.at_once, session.executor.worker(0)
        wait_until(lambda: worker.issued == worker.submitted and not worker.busy)
        going = threading.Timer(0.1, going_on.set)
        waits = is_cpu and in_order
        if waits:
            going.start()
        session.moves.calm_to_write(buffer, NBYTES, queue)
        assert worker.is_quiet_alone is waits
        written = write(buffer, numbers(7), queue=queue)
        assert (write.at_once > count) is waits
        going_on.set()
        assert (ended(written), ended(launched)) == (0, 0)
        assert program.content(buffer).tolist() == numbers(7).tolist()
        assert program.content(other).tolist() == triple(numbers(2)).tolist()


def test_it_ends_after_what_comes_before_it_on_another_worker() -> None:
    slow = Faults()
    with Program(2, {1: slow}, is_cpu=False) as program:
        out, source = program.buffer(1), program.buffer(2)
        write = Writer(program)
        for step in range(3):
            assert ended(program.launch(out, source)) == 0
            assert ended(write(out, np.full(2, step, np.uint32))) == 0
            program.session.executor.quiesce()
        assert write.at_once, "the first half is one worker's, and its plan is known"
        assert out.state.valid_at(1)
        slow.delay = lambda _: 0.05
        launched = program.launch(out, source)
        assert ended(write(out, np.full(2, 9, np.uint32))) == 0
        assert launched.status == COMPLETE, "whoever has not been told of it yet can ask"
        slow.delay = None
        expected = triple(numbers(2))
        expected[:2] = 9
        assert program.content(out).tolist() == expected.tolist()


@pytest.mark.parametrize("workers", [2, 3])
def test_a_small_write_to_several_workers_waits_for_none_of_them(workers: int) -> None:
    slow = Faults()
    with Program(workers, {1: slow}, is_cpu=False) as program:
        out, source = program.buffer(1), program.buffer(2)
        write = Writer(program)
        for step in range(3):
            assert ended(program.launch(out, source)) == 0
            assert ended(write(source, numbers(step))) == 0
            program.session.executor.quiesce()
        going_on = threading.Event()
        slow.delay = lambda _: 0 if going_on.wait(60) else 1
        written = write(source, numbers(7))
        assert write.at_once == 4
        assert not written.settled, "worker 1 stands still"
        going_on.set()
        assert ended(program.launch(out, source)) == ended(written) == 0
        assert program.content(source).tolist() == numbers(7).tolist()
        assert program.content(out).tolist() == triple(numbers(7)).tolist()


@pytest.mark.parametrize("workers", [2, 3])
def test_what_a_read_brings_is_not_copied_before_it_has_come(workers: int) -> None:
    slow = Faults()
    with Program(workers, dict.fromkeys(range(workers), slow), is_cpu=False) as program:
        read_from, written_to, source = program.buffer(1), program.buffer(2), program.buffer(3)
        for _ in range(2):
            assert ended(program.launch(read_from, source)) == 0
        program.session.executor.quiesce()
        going_on, host, layout = threading.Event(), np.zeros(WORDS, np.uint32), Layout.contiguous(0, NBYTES)
        slow.delay = lambda _: 0 if going_on.wait(60) else 1
        read = program.submit(Read(read_from, layout, host.view(np.uint8)))
        command = Write(written_to, layout, host.view(np.uint8))
        written = program.session.write_at_once(command, (), program.queue)
        written = program.submit(command) if written is None else written
        going_on.set()
        assert ended(read) == ended(written) == 0
        slow.delay = None
        assert program.content(written_to).tolist() == triple(numbers(3)).tolist()


def test_transfers_to_the_host_under_way_are_waited_for() -> None:
    slow = Faults()
    with Program(1, {0: slow}, is_cpu=False) as program:
        write, buffer, other = Writer(program), program.buffer(1), program.buffer(2)
        assert ended(program.launch(other, buffer)) == 0
        for step in range(3):
            assert ended(write(other, numbers(step))) == 0
            program.session.executor.quiesce()
        assert write.at_once
        going_on = threading.Event()
        slow.delay = lambda _: 0 if going_on.wait(60) else 1
        host = np.zeros(WORDS, np.uint32)
        layout = Layout.contiguous(0, NBYTES)
        read = program.submit(Read(buffer, layout, host.view(np.uint8)))
        worker = program.session.executor.worker(0)
        until = time.monotonic() + 60
        while worker.issued < worker.submitted and time.monotonic() < until:
            time.sleep(0.001)  # until the worker's thread has handed it over
        assert (
            program.session.write_at_once(Write(other, layout, host.view(np.uint8)), (), program.queue)
            is None
        )
        write_behind = program.submit(Write(other, layout, host.view(np.uint8)))
        going_on.set()
        assert ended(write_behind) == ended(read) == 0
        slow.delay = None
        assert program.content(other).tolist() == numbers(1).tolist()
