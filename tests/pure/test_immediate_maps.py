"""Small mappings that the calling thread makes and ends by itself: all is as if each had been submitted."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest

from vdev.backends.base import Allocation, Box
from vdev.backends.reference import Faults, ReferenceBackend
from vdev.executor.completion import DONE, Completion
from vdev.executor.job import is_complete
from vdev.executor.stretch import Part
from vdev.planner.transfers import plan_gather
from vdev.session import immediate_maps
from vdev.session.commands import Fill, Map, Unmap
from vdev.session.ordering import QueueOrder
from vdev.session.session import VirtualBuffer

from .immediate_programs import RandomCommands
from .repeating import again
from .test_runs import Caller
from .test_session_failures import NBYTES, WORDS, Program, ended, numbers, triple


@pytest.fixture(autouse=True)
def like_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any thread may work with the worker and wait for it; small transfers keep nobody waiting."""

    def write_now(self: ReferenceBackend, target: Allocation, source: np.ndarray, box: Box) -> None:
        self.write(target, source.copy(), box)

    for name in ("any_thread", "can_wait_for_all"):
        monkeypatch.setattr(ReferenceBackend, name, True)
    for name in ("small_write_nbytes", "small_read_nbytes"):
        monkeypatch.setattr(ReferenceBackend, name, NBYTES)
    monkeypatch.setattr(ReferenceBackend, "write_now", write_now)
    monkeypatch.setattr(ReferenceBackend, "again", again)


def is_done(command: Completion) -> bool:
    """Whether its workers know that a command has ended."""
    return is_complete(command.stretch.completion if type(command) is Part else command)


class Mapper:
    """A program's mappings, at once where that is possible."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.made = 0  #: at once

    def __call__(
        self,
        buffer: VirtualBuffer,
        span: tuple[int, int] = (0, WORDS),
        *,
        read: bool = True,
        write: bool = False,
        queue: QueueOrder | None = None,
        after: tuple[Completion, ...] = (),
    ) -> tuple[Map, np.ndarray]:
        """A mapping, and the words that the program sees."""
        queue, (start, stop) = queue or self.program.queue, span
        command = Map(buffer, 4 * start, 4 * (stop - start), read=read, write=write)
        status = self.program.session.map_at_once(command, queue, after)
        self.made += status is not None
        assert (ended(self.program.submit(command, after, queue)) if status is None else status) == 0
        return command, buffer.home()[4 * start : 4 * stop].view(np.uint32)


class Mappings(RandomCommands):
    """Mappings of whole buffers and of parts, launches, fills."""

    def __init__(self, program: Program, drawn: random.Random, *, in_order: bool) -> None:
        super().__init__(program, drawn, in_order=in_order)
        self.mapper = Mapper(program)
        self.ended_at_once = 0

    def map(self, step: int, one: int, other: int) -> None:
        """For reading, or writing, or both; while another buffer is worked with."""
        start, stop = self.drawn.choice([(0, WORDS), (3, 9), (9, 20)])
        read, write = self.drawn.choice([(True, False), (True, True), (False, True)])
        more = {"queue": self.queue, "after": self.after}
        command, words = self.mapper(self.buffers[one], (start, stop), read=read, write=write, **more)  # type: ignore[arg-type]
        if read:
            assert words.tolist() == self.arrays[one][start:stop].tolist()
        second = self._second(one, step) if stop < WORDS and self.drawn.random() < 0.3 else None
        if write:
            words[:] = step
            self.arrays[one] = self.arrays[one].copy()
            self.arrays[one][start:stop] = step
        if other != one and self.drawn.random() < 0.5:
            self.launch(step, other, other)
        both = [command] if second is None else [command, second]
        self.drawn.shuffle(both)
        for each in both:
            if not self.after and self.program.session.unmap_at_once(each, self.queue):
                assert self.last is None or is_done(self.last)
                self.last = DONE
            else:
                self.submit(Unmap(each))
            self.ended_at_once += type(self.last).__name__ == "Part"
        if self.drawn.random() < 0.5:
            assert self.last is not None
            assert ended(self.last) == 0
            if write and second is None and self.buffers[one].resident is not None:
                words[:] = 0xDEADBEEF  # nobody looks there any more

    def _second(self, one: int, step: int) -> Map:
        """A mapping of the same buffer, of bytes that the other has not."""
        more = {"queue": self.queue, "after": self.after}
        command, words = self.mapper(self.buffers[one], (24, 30), read=True, write=True, **more)  # type: ignore[arg-type]
        assert words.tolist() == self.arrays[one][24:30].tolist()
        self.arrays[one] = self.arrays[one].copy()
        self.arrays[one][24:30] = words[:] = step + 1
        return command

    def read(self, step: int, one: int, other: int) -> None:
        self.check(one)


@pytest.fixture
def program() -> Iterator[Program]:
    with Program(1, {0: Faults(delay=lambda _: random.choice((0, 0, 0.0003)))}, is_cpu=False) as made:
        yield made


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_between_other_commands(workers: int, seed: int, in_order: bool) -> None:
    drawn = random.Random(seed)
    delayed = Faults(delay=lambda _: drawn.choice((0, 0, 0.0003)))
    with Program(workers, dict.fromkeys(range(workers), delayed), is_cpu=False) as program:
        commands = Mappings(program, drawn, in_order=in_order)
        commands.run((commands.launch, commands.map, commands.map, commands.fill, commands.read))
        for number in range(3):
            commands.check(number)
    if workers == 1:
        assert commands.mapper.made > 40
        assert commands.ended_at_once > 20


def until_made(program: Program, buffer: VirtualBuffer, *, write: bool) -> tuple[Map, np.ndarray, Mapper]:
    mapper = Mapper(program)
    for _ in range(50):
        command, words = mapper(buffer, write=write)
        if command.made is not None:  # and not of bytes that are at home
            return command, words, mapper
        program.submit(Unmap(command))
        Caller(program)(buffer, buffer)
        program.session.executor.quiesce()
    raise AssertionError("no mapping was made at once")


def until_made_again(program: Program, buffer: VirtualBuffer) -> tuple[Map, np.ndarray, Mapper]:
    """A mapping for reading, made like the one before."""
    for _ in range(20):
        command, words, mapper = until_made(program, buffer, write=False)
        if command.made.behind[0] is program.queue:
            return command, words, mapper
        assert ended(program.submit(Unmap(command))) == 0
    raise AssertionError("no mapping was made again")


def test_the_end_of_a_mapping_for_reading_is_no_command(program: Program) -> None:
    """Where all before it in its queue had ended when it was made, and nothing came since."""
    session, launch = program.session, Caller(program)
    buffer, other = program.buffer(3), program.buffer(4)
    command, words, mapper = until_made_again(program, buffer)
    expected, made = words.tolist(), mapper.made
    submitted, tally = session.executor.last_number, session.ledger.command("unmap")
    count = tally.count
    assert session.unmap_at_once(command, program.queue)
    assert (session.executor.last_number, tally.count) == (submitted, count + 1)

    def again_(*, write: bool = False, queue: QueueOrder | None = None) -> Map:
        launch(other, other)
        command, words = mapper(buffer, write=write, queue=queue)
        assert words.tolist() == expected
        return command

    for change in ("a launch", "a queue", "an observer", "nothing"):
        kept = again_()
        queue = session.create_queue(in_order=True) if change == "a queue" else program.queue
        if change == "a launch":
            launch(other, other)
        elif change == "an observer":
            session.observers.append(lambda command, plan: None)
        assert session.unmap_at_once(kept, queue) is (change == "nothing"), change
        session.observers.clear()
        if change != "nothing":
            assert ended(program.submit(Unmap(kept))) == 0
    apart = session.create_queue(in_order=False)
    kept = again_(queue=apart)
    assert not session.unmap_at_once(kept, apart), "others in that queue may be under way"
    assert ended(program.submit(Unmap(kept), (), apart)) == 0
    for _ in range(5):
        kept = again_(write=True)
        assert not session.unmap_at_once(kept, program.queue), "its bytes are written back"
        assert ended(program.submit(Unmap(kept))) == 0
    assert kept.made.behind[0] is program.queue, "made again"
    assert mapper.made == made + 10
    assert program.content(buffer).tolist() == expected


def test_two_mappings_are_the_same_memory(program: Program) -> None:
    """What the host has written by way of the first is seen by way of the second, and remains."""
    buffer = program.buffer(3)
    command, words, mapper = until_made(program, buffer, write=True)
    words[:] = numbers(9)
    second, seen = mapper(buffer, write=False)
    assert seen.tolist() == numbers(9).tolist()
    for each in (second, command):
        assert ended(program.submit(Unmap(each))) == 0
    assert program.content(buffer).tolist() == numbers(9).tolist()


def test_what_leaves_the_worker_meanwhile_does_not_bring_bytes_home(program: Program) -> None:
    """Others that need memory may send the buffer home while the host writes there."""
    buffer = program.buffer(3)
    command, words, _ = until_made(program, buffer, write=True)
    words[:] = numbers(9)
    session = program.session
    with session.lock:
        session.room._carry_out(0, NBYTES, [buffer], [0])
    session.executor.quiesce()
    assert words.tolist() == numbers(9).tolist()
    assert ended(program.submit(Unmap(command))) == 0
    assert program.content(buffer).tolist() == numbers(9).tolist()


def test_reading_other_bytes_each_time_takes_no_plans(program: Program) -> None:
    """And is counted as if it had been planned."""
    buffer = program.buffer(3)
    command, _, mapper = until_made(program, buffer, write=False)
    program.submit(Unmap(command))
    expected, ledger = program.content(buffer).tolist(), program.session.ledger
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(immediate_maps, "plan_map", lambda *given, **more: pytest.fail("planned"))
        before, tally = mapper.made, ledger.command("map")
        counted = tally.count, tally.moved.worker_to_host
        for start in range(20):
            program.session.executor.quiesce()
            command, words = mapper(buffer, (start, start + 5))
            assert words.tolist() == expected[start : start + 5]
            assert ended(program.submit(Unmap(command))) == 0
    assert mapper.made - before == 20
    assert (tally.count - counted[0], tally.moved.worker_to_host - counted[1]) == (20, 20 * 5 * 4)


def test_writing_other_bytes_each_time_prepares_no_plans(program: Program) -> None:
    """And is counted as if each had been carried out as planned."""
    buffer = program.buffer(3)
    command, _, mapper = until_made(program, buffer, write=True)
    program.submit(Unmap(command))
    expected, ledger = program.content(buffer), program.session.ledger
    tallies = [ledger.command(kind) for kind in ("map", "unmap")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program.session.executor, "prepare", lambda *given, **more: pytest.fail("prepared"))
        before = mapper.made
        counted = [(each.count, each.moved.worker_to_host, each.moved.host_to_worker) for each in tallies]
        for start in range(20):
            program.session.executor.quiesce()
            command, words = mapper(buffer, (start, start + 5), write=True)
            assert words.tolist() == expected[start : start + 5].tolist()
            words += np.uint32(start)
            expected[start : start + 5] += np.uint32(start)
            assert ended(program.submit(Unmap(command))) == 0
            assert buffer.resident == 0
    assert mapper.made - before == 20
    now = [(each.count, each.moved.worker_to_host, each.moved.host_to_worker) for each in tallies]
    assert [tuple(np.subtract(*both)) for both in zip(now, counted, strict=True)] == [
        (20, 20 * 5 * 4, 0),
        (20, 0, 20 * 5 * 4),
    ]
    assert program.content(buffer).tolist() == expected.tolist()


@pytest.mark.parametrize("is_split", [True, False])
def test_those_who_choose_ways_are_told_that_a_mapping_is_waited_for(
    is_split: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever way it takes: periods from one look of the program to the next are compared, of several workers and of one."""
    looks: list[int] = []
    with Program(2, is_cpu=False) as program:
        session = program.session
        buffer = session.create_buffer(NBYTES, numbers(1).view(np.uint8).copy())
        assert ended(program.launch(buffer, buffer)) == 0
        if not is_split:
            plan = plan_gather([buffer.state], 0, session.links)
            completion = Completion()
            session.executor.submit_unasked("gather", plan, [buffer.holdings], completion)
            (buffer.state,) = plan.states
            assert ended(completion) == 0
        assert (buffer.state.resident is None) is is_split
        session.executor.quiesce()
        waiting = SimpleNamespace(passes=0)
        choosing = SimpleNamespace(looks=waiting, looked=lambda at_ns, nbytes: looks.append(nbytes))
        monkeypatch.setattr(session, "choosing", choosing)
        commands = [Map(buffer, 0, NBYTES, read=read, write=not read) for read in (True, False)]
        at_once = [session.map_at_once(command, program.queue) == 0 for command in commands]
        monkeypatch.setattr(session, "choosing", None)
        assert at_once == [not is_split] * 2
        assert looks == [NBYTES, -NBYTES], (
            "once for each, whether it brings bytes or waits for what is before it"
        )


def gathered(program: Program, seed: int, worker: int) -> VirtualBuffer:
    """A buffer that this worker has all of."""
    session = program.session
    buffer = session.create_buffer(NBYTES, numbers(seed).view(np.uint8).copy())
    assert ended(program.launch(buffer, buffer)) == 0
    plan = plan_gather([buffer.state], worker, session.links)
    completion = Completion()
    session.executor.submit_unasked("gather", plan, [buffer.holdings], completion)
    (buffer.state,) = plan.states
    assert ended(completion) == 0
    assert buffer.resident == worker
    return buffer


def test_a_mapping_that_is_made_again_waits_for_the_command_before_it_on_another_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its own bytes arrive while the other worker is still at work: a mapping is behind all that its queue has."""
    gate = threading.Event()
    gate.set()

    def held(_: int) -> float:
        gate.wait(timeout=600)
        return 0.0

    with Program(2, {1: Faults(delay=held)}, is_cpu=False) as program:
        session = program.session
        here, there = gathered(program, 3, 0), gathered(program, 4, 1)
        command, words, _ = until_made_again(program, here)
        expected = words.tolist()
        assert session.unmap_at_once(command, program.queue)
        gate.clear()
        before = program.submit(Fill(there, 0, NBYTES, bytes(4)))
        wait, mapped = type(before).wait, here.mapped

        def opened(completion: Completion) -> int:
            gate.set()  # the worker goes on once somebody waits for it
            return wait(completion)

        with monkeypatch.context() as patch:
            patch.setattr(type(before), "wait", opened)
            command = Map(here, 0, NBYTES, read=True, write=False)
            status = session.map_at_once(command, program.queue)
            is_behind = is_done(before)
            gate.set()
        assert (status, command.made) == (0, mapped), "it was made like the one before"
        assert is_behind, "the program has its mapping, and what is before that in its queue is under way"
        assert here.home().view(np.uint32).tolist() == expected
        assert ended(program.submit(Unmap(command))) == 0


def test_launches_go_on_behind_a_mapping(program: Program) -> None:
    """And it is counted, and leaves the buffer where it was."""
    buffer, launch = program.buffer(3), Caller(program)
    command, _, mapper = until_made(program, buffer, write=True)
    program.submit(Unmap(command))
    ledger, went_on = program.session.ledger, 0
    expected = program.content(buffer)
    for _ in range(50):
        program.session.executor.quiesce()
        counts = [ledger.command(kind).count for kind in ("map", "unmap", "read", "write")]
        for _ in range(3):
            launch(buffer, buffer)
        made, row, state = mapper.made, launch.in_a_row, buffer.state
        standing = program.session.executor.standing
        command, words = mapper(buffer, write=True)
        for _ in range(3):
            expected = triple(expected)
        assert words.tolist() == expected.tolist()
        if mapper.made > made:
            assert buffer.resident is None  # what is launched meanwhile has to know
            assert program.session.executor.standing is not standing
        words += np.uint32(1)
        expected = expected + np.uint32(1)
        ended_at_once = program.submit(Unmap(command))
        launch(buffer, buffer)
        expected = triple(expected)
        now = [ledger.command(kind).count for kind in ("map", "unmap", "read", "write")]
        assert now == [counts[0] + 1, counts[1] + 1, *counts[2:]]
        if mapper.made > made and type(ended_at_once).__name__ == "Part" and buffer.state is state:
            went_on += launch.in_a_row > row
        if went_on == 3:
            break
    assert went_on == 3
    assert program.content(buffer).tolist() == expected.tolist()


def test_a_read_that_fails_makes_no_mapping() -> None:
    faults: dict[int, int] = {}
    with Program(1, {0: Faults(fail=faults)}, is_cpu=False) as program:
        buffer = program.buffer(3)
        command, _, _ = until_made(program, buffer, write=True)
        program.submit(Unmap(command))
        program.session.executor.quiesce()
        state = buffer.state
        faults[program.backends[0]._handed_over] = -5
        again_ = Map(buffer, 0, NBYTES, read=True, write=True)
        assert program.session.map_at_once(again_, program.queue) in (None, -5)
        assert again_.made is None
        assert buffer.state is state


def test_a_mapping_is_not_made_again_of_what_has_changed_meanwhile(program: Program) -> None:
    """While it waits for the worker to be idle, others may give the home new bytes."""
    buffer = program.buffer(3)
    for _ in range(3):
        command, words, mapper = until_made(program, buffer, write=True)
        program.submit(Unmap(command))
    program.session.executor.quiesce()
    assert buffer.mapped is not None
    buffer.mapped.is_small = False
    others: list[Map] = []

    def meanwhile(_: object) -> None:
        if not others:
            others.append(Map(buffer, 0, NBYTES, read=True, write=True))
            assert ended(program.submit(others[0])) == 0
            words[:] = numbers(9)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(immediate_maps, "calm", meanwhile)
        second, seen = mapper(buffer, write=True)
    assert len(others) == 1
    assert seen.tolist() == numbers(9).tolist()
    for each in (second, others[0]):
        assert ended(program.submit(Unmap(each))) == 0
    assert program.content(buffer).tolist() == numbers(9).tolist()


def test_a_mapping_is_not_made_again_while_others_use_the_home(program: Program) -> None:
    buffer = program.buffer(3)
    for _ in range(3):
        command, _, mapper = until_made(program, buffer, write=True)
        program.submit(Unmap(command))
    expected = program.content(buffer)
    program.session.executor.quiesce()
    program.session.executor.hazards.uses_host()  # not any more: else the bytes would come another way, which looks itself
    holdings, submitted = buffer.holdings, program.session.executor.all_workers[0].submitted
    holdings.home()[:] = 1
    for uses in (holdings.home_reads, holdings.home_writes):
        before = dict(uses)
        uses[0] = submitted + 1000  # a step that has not ended
        assert (
            program.session.map_at_once(Map(buffer, 0, NBYTES, read=True, write=True), program.queue) is None
        )
        assert (holdings.home() == 1).all()
        uses.clear()
        uses.update(before)
    command, words = mapper(buffer, write=False)
    assert words.tolist() == expected.tolist()
    program.submit(Unmap(command))
