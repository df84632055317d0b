"""Commands on bytes that lie at home, made by the calling thread: all is as if each had been submitted."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pytest
from vdev.translators.ranges.rectangles import Layout

from vdev.backends.base import Allocation, Box
from vdev.backends.reference import Faults, ReferenceBackend
from vdev.executor.completion import DONE, Completion
from vdev.executor.executor import Executor
from vdev.planner.directory import HOST
from vdev.session.commands import CopyBuffer, Fill, Map, Read, Unmap, Write
from vdev.session.ordering import QueueOrder
from vdev.session.session import VirtualBuffer

from .immediate_programs import RandomCommands
from .test_session_failures import NBYTES, WORDS, Program, ended, numbers, triple

#: bytes in a row, and from one to the next
ROW, PITCH = 12, 20


@pytest.fixture(autouse=True)
def any_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any thread may work with the workers and wait for them."""

    def write_now(self: ReferenceBackend, target: Allocation, source: np.ndarray, box: Box) -> None:
        self.write(target, source.copy(), box)

    for name in ("any_thread", "can_wait_for_all"):
        monkeypatch.setattr(ReferenceBackend, name, True)
    monkeypatch.setattr(ReferenceBackend, "write_now", write_now)


@contextmanager
def counting() -> Iterator[list[int]]:
    """One number: how many plans the executor has been given."""
    count = [0]
    submit = Executor.submit

    def counted(self: Executor, *args: object, **options: object) -> int:
        count[0] += 1
        return submit(self, *args, **options)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Executor, "submit", counted)
        yield count


def words_of(start: int, rows: int) -> np.ndarray:
    """Those of a box that begins at a word, in order."""
    found: np.ndarray = (start + np.arange(rows)[:, None] * (PITCH // 4) + np.arange(ROW // 4)).ravel()
    return found


class Homes(RandomCommands):
    """Transfers and mappings of parts and boxes of three buffers, with a launch now and then that takes one of them away from home."""

    def __init__(self, program: Program, drawn: random.Random, *, in_order: bool) -> None:
        super().__init__(program, drawn, in_order=in_order)
        self.arrays = [array.copy() for array in self.arrays]

    def span(self) -> tuple[int, int]:
        start = self.drawn.choice([0, 3, 500])
        return start, self.drawn.choice([start + 1, start + 37, WORDS])

    def fill_part(self, step: int, one: int, other: int) -> None:
        start, stop = self.span()
        self.submit(Fill(self.buffers[one], 4 * start, 4 * (stop - start), step.to_bytes(4, "little")))
        self.arrays[one][start:stop] = step

    def copy(self, step: int, one: int, other: int) -> None:
        count = self.drawn.choice([1, 30, WORDS // 2])
        source, target = self.drawn.randrange(WORDS // 2 + 1), self.drawn.randrange(WORDS // 2 + 1)
        if one == other:
            source, target = 0, WORDS // 2
        row = 4 * count, 4 * count
        self.submit(
            CopyBuffer(
                self.buffers[other], self.buffers[one], (1, 1, 4 * count), 4 * source, row, 4 * target, row
            )
        )
        self.arrays[one][target : target + count] = self.arrays[other][source : source + count]

    def copy_box(self, step: int, one: int, other: int) -> None:
        rows, start, target = (self.drawn.choice(each) for each in ((2, 5), (0, 4), (600, 601)))
        pitches = rows * PITCH, PITCH
        self.submit(
            CopyBuffer(
                self.buffers[other],
                self.buffers[one],
                (1, rows, ROW),
                4 * start,
                pitches,
                4 * target,
                pitches,
            )
        )
        self.arrays[one][words_of(target, rows)] = self.arrays[other][words_of(start, rows)]

    def write_part(self, step: int, one: int, other: int) -> None:
        start, stop = self.span()
        host = np.arange(step, step + stop - start, dtype=np.uint32)
        self._write(one, Layout.contiguous(4 * start, 4 * (stop - start)), host)
        self.arrays[one][start:stop] = np.arange(step, step + stop - start)

    def write_box(self, step: int, one: int, other: int) -> None:
        rows, start = self.drawn.choice((2, 5)), self.drawn.choice((0, 16))
        host, packed = np.arange(step, step + rows * ROW // 4, dtype=np.uint32), (rows * ROW, ROW)
        self.arrays[one][words_of(start, rows)] = host
        self._write(one, Layout((1, rows, ROW), 4 * start, (rows * PITCH, PITCH), 0, packed), host)

    def _write(self, one: int, layout: Layout, host: np.ndarray) -> None:
        command = Write(self.buffers[one], layout, host.view(np.uint8))
        done = self.program.session.write_at_once(command, self.after, self.queue)
        if done is None:
            self.submit(command)
        else:
            self.last = done
            host[:] = 0xDEADBEEF

    def read_part(self, step: int, one: int, other: int) -> None:
        start, stop = self.span()
        host = np.full(stop - start, 77, np.uint32)
        command = Read(
            self.buffers[one], Layout.contiguous(4 * start, 4 * (stop - start)), host.view(np.uint8)
        )
        waits = self.drawn.random() < 0.5
        status = self.program.session.read_at_once(command, self.queue, self.after) if waits else None
        if status is None:
            self.submit(command)
            assert self.last is not None
            status = ended(self.last)
        assert status == 0
        assert host.tolist() == self.arrays[one][start:stop].tolist()

    def map(self, step: int, one: int, other: int) -> None:
        start, stop = self.span()
        buffer, write = self.buffers[one], self.drawn.random() < 0.5
        command = Map(buffer, 4 * start, 4 * (stop - start), read=True, write=write)
        if self.program.session.map_at_once(command, self.queue, self.after) is None:
            self.submit(command)
            assert self.last is not None
            assert ended(self.last) == 0
        words = buffer.home()[4 * start : 4 * stop].view(np.uint32)
        assert words.tolist() == self.arrays[one][start:stop].tolist()
        if write:
            words[:] = step
            self.arrays[one][start:stop] = step
        self.submit(Unmap(command))

    def launch(self, step: int, one: int, other: int) -> None:
        super().launch(step, one, other)
        self.arrays[one] = self.arrays[one].copy()

    def actions(self) -> Sequence[object]:
        moves = self.fill_part, self.copy, self.copy_box, self.write_part, self.write_box
        return (*moves, *moves, self.read_part, self.read_part, self.map, self.map, self.launch)


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("is_cpu", [True, False])
@pytest.mark.parametrize("seed", range(2))
def test_between_other_commands(workers: int, in_order: bool, is_cpu: bool, seed: int) -> None:
    drawn = random.Random(seed)
    delayed = Faults(delay=lambda _: drawn.choice((0, 0, 0.0003)))
    with Program(workers, dict.fromkeys(range(workers), delayed), is_cpu=is_cpu) as program:
        commands = Homes(program, drawn, in_order=in_order)
        commands.run(commands.actions())  # type: ignore[arg-type]
        for number in range(3):
            commands.check(number)


@pytest.fixture
def program() -> Iterator[Program]:
    with Program(2) as made:
        yield made


def at_home(program: Program, seed: int) -> VirtualBuffer:
    """A buffer whose content is at home, where no worker has had any of it."""
    return program.session.create_buffer(NBYTES, numbers(seed).view(np.uint8))


def span(start: int, count: int) -> Layout:
    return Layout.contiguous(4 * start, 4 * count)


def copied(source: VirtualBuffer, target: VirtualBuffer, start: int, to: int, count: int = 8) -> CopyBuffer:
    return CopyBuffer(
        source, target, (1, 1, 4 * count), 4 * start, (4 * count,) * 2, 4 * to, (4 * count,) * 2
    )


def test_they_take_no_plan(program: Program) -> None:
    """Wherever the bytes are; and they are counted, leave the states as they are, and launches repeated."""
    source, target, session = at_home(program, 1), at_home(program, 2), program.session
    expected, states = numbers(2), (source.state, target.state)
    kinds = "copybuffer", "fill", "write", "read", "map", "unmap"
    standing = session.executor.standing
    with counting() as count:
        for step in range(9):
            host = np.full(4, step, np.uint32)
            assert program.submit(copied(source, target, step, 100 + 9 * step)) is DONE
            assert program.submit(Fill(target, 4 * step, 4, b"abcd")) is DONE
            written = session.write_at_once(
                Write(target, span(50 + step, 4), host.view(np.uint8)), (), program.queue
            )
            assert written is DONE
            read = Read(target, span(50 + step, 4), np.zeros(16, np.uint8))
            assert session.read_at_once(read, program.queue) == 0
            assert read.host.tolist() == host.view(np.uint8).tolist()
            mapped = Map(target, 4 * step, 40, read=True, write=True)
            assert session.map_at_once(mapped, program.queue) == 0
            assert program.submit(Unmap(mapped)) is DONE
            expected[100 + 9 * step : 108 + 9 * step] = numbers(1)[step : step + 8]
            expected[step] = np.frombuffer(b"abcd", np.uint32)[0]
            expected[50 + step : 54 + step] = step
    assert count == [0]
    assert [session.ledger.command(kind).count for kind in kinds] == [9] * 6
    assert all(not session.ledger.command(kind).moved.host_to_worker for kind in kinds)
    assert (source.state, target.state) == states
    assert session.executor.standing is standing
    assert program.content(target).tolist() == expected.tolist()


@pytest.mark.parametrize("is_read", [True, False])
def test_what_another_command_still_does_at_home_comes_first(is_read: bool) -> None:
    """A launch brings the bytes to the workers, which read them at home until then; and what waits for that changes them there."""
    slow = Faults(delay=lambda _: 0.02)
    with Program(2, {0: slow, 1: slow}) as program:
        source, out = at_home(program, 1), program.session.create_buffer(NBYTES)
        state, expected = source.state, numbers(1)
        program.launch(out, source)
        if not is_read:
            program.write(source, 3)
        source.state = state  # as if the workers had wanted their memory for something else by now
        other = program.session.create_queue(in_order=True)
        program.submit(Fill(source, 16, 16, b"wxyz"), (), other)
        found, left = program.content(out), program.read(source, (), other)
        assert ended(left[0]) == 0
    assert found.tolist() == triple(expected).tolist()
    if not is_read:
        expected = numbers(3)
    expected[4:8] = np.frombuffer(b"wxyz", np.uint32)
    assert left[1].tolist() == expected.tolist()


def test_a_worker_that_has_the_bytes_too_copies_them() -> None:
    """As the planner has it: what is copied from there is wanted there."""
    with Program(1) as program:
        source, target = program.buffer(1), at_home(program, 2)
        program.launch(source, source)
        assert ended(program.submit(Map(source, 0, NBYTES, read=True, write=False))) == 0
        assert [holder for holder, _ in source.state.valid] == [HOST, 0]
        assert ended(program.submit(copied(source, target, 0, 0))) == 0
        assert target.state.valid_at(0).nbytes == 32
        assert program.content(target)[:8].tolist() == triple(numbers(1))[:8].tolist()


def test_what_is_written_goes_where_the_planner_has_it() -> None:
    """To the only worker, which has memory for it, though a mapping has left the bytes at home."""
    with Program(1) as program:
        buffer = program.buffer(1)
        program.launch(buffer, buffer)
        mapping = Map(buffer, 0, NBYTES, read=True, write=True)
        assert ended(program.submit(mapping)) == 0
        program.submit(Unmap(mapping))
        assert [holder for holder, _ in buffer.state.valid] == [HOST]
        command = Write(buffer, span(0, WORDS), numbers(7).view(np.uint8))
        if program.session.write_at_once(command, (), program.queue) is None:
            program.submit(command)
        assert buffer.resident == 0
        assert program.content(buffer).tolist() == numbers(7).tolist()


def test_a_buffer_is_filled_piece_by_piece(program: Program) -> None:
    """Each piece gives the home more of it, and whatever was repeated before is looked at again."""
    buffer, session = program.session.create_buffer(NBYTES), program.session
    with counting() as count:
        for start in range(0, WORDS, 64):
            standing, host = session.executor.standing, numbers(start)[:64]
            assert program.submit(Fill(buffer, 4 * start, 256, b"\0\1\2\3")) is DONE
            assert session.executor.standing is not standing
            assert session.write_at_once(
                Write(buffer, span(start, 64), host.view(np.uint8)), (), program.queue
            ) is DONE  # fmt: skip
            assert buffer.state.valid_at(HOST).nbytes == 4 * start + 256
    assert count == [0]
    program.launch(buffer, buffer)
    expected = np.concatenate([numbers(start)[:64] for start in range(0, WORDS, 64)])
    assert program.content(buffer).tolist() == triple(expected).tolist()


def test_a_mapping_of_what_nobody_wrote_gives_the_home_its_bytes(program: Program) -> None:
    buffer = program.session.create_buffer(NBYTES)
    mapping = Map(buffer, 0, NBYTES, read=False, write=True)
    if program.session.map_at_once(mapping, program.queue) is None:
        assert ended(program.submit(mapping)) == 0
    buffer.home()[:] = numbers(5).view(np.uint8)
    program.submit(Unmap(mapping))
    program.launch(buffer, buffer)
    assert program.content(buffer).tolist() == triple(numbers(5)).tolist()


def test_the_end_waits_for_what_comes_before(program: Program) -> None:
    """In an in-order queue an event tells that the queue has come so far, and a read has ended when it returns."""
    slow = Faults(delay=lambda _: 0.03)
    with Program(2, {0: slow, 1: slow}) as program:
        one, home = program.buffer(1), at_home(program, 2)
        before = program.launch(one, one)
        filled = program.submit(Fill(home, 0, 4, b"abcd"))
        assert ended(filled) == 0
        assert before.settled
        before = program.launch(one, one)
        host = np.zeros(4, np.uint8)
        status = program.session.read_at_once(Read(home, span(0, 1), host), program.queue)
        if status is not None:
            assert before.settled
            assert host.tobytes() == b"abcd"


def test_a_command_that_waits_for_something_is_submitted(program: Program) -> None:
    """And one that comes behind a barrier, or whose times are wanted."""
    source, target, session = at_home(program, 1), at_home(program, 2), program.session
    event, queue = session.user_completion(), session.create_queue(in_order=False)
    done = program.submit(copied(source, target, 0, 0), (event,), queue)
    assert not done.settled
    later = program.submit(copied(target, source, 0, 8), (done,), queue)
    event.set_status(0)
    assert (ended(done), ended(later)) == (0, 0)
    assert program.content(source)[8:16].tolist() == numbers(1)[:8].tolist()
    timed = session.create_queue(in_order=True, profiled=True)
    assert program.submit(copied(source, target, 0, 0), (), timed).times is not None or ended(
        timed_of(timed)
    ) == 0  # fmt: skip


def timed_of(queue: QueueOrder) -> Completion:
    assert queue.last is not None
    return queue.last


def test_what_failed_before_is_not_passed_over() -> None:
    """A buffer that a failure concerns tells of it, wherever its bytes are."""
    faults = Faults(fail=dict.fromkeys(range(4), -5))
    with Program(2, {0: faults, 1: faults}) as program:
        source, out, target = at_home(program, 1), program.session.create_buffer(NBYTES), at_home(program, 2)
        state = target.state
        assert ended(program.launch(out, source)) < 0
        assert ended(program.submit(copied(out, target, 0, 0))) < 0
        target.state = state
        host = np.zeros(NBYTES, np.uint8)
        status = program.session.read_at_once(Read(target, span(0, WORDS), host), program.queue)
        assert (ended(program.read(target)[0]) if status is None else status) < 0


def test_the_program_s_array_is_not_used_by_two_at_once() -> None:
    """A read from a worker into an array is under way, from which bytes are to be written to a home."""
    slow = Faults(delay=lambda _: 0.03)
    with Program(2, {0: slow, 1: slow}) as program:
        one, home = program.buffer(1), at_home(program, 2)
        program.launch(one, one)
        read, host = program.read(one)
        other = program.session.create_queue(in_order=True)
        command = Write(home, span(0, WORDS), host.view(np.uint8))
        if program.session.write_at_once(command, (), other) is None:
            program.submit(command, (), other)
        assert ended(read) == 0
        assert program.content(home).tolist() == triple(numbers(1)).tolist()
