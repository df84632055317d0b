"""Reads that the program does not wait for yet, from the only worker, which the calling thread hands over by itself: all
else is as if each had been submitted. Also from workers on GPUs, where they arrive in memory of the back end's own first.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from vdev.translators.ranges.rectangles import Layout

from vdev.backends.reference import Faults, ReferenceBackend
from vdev.errors import DEPENDENCY_FAILED
from vdev.executor import direct_reads
from vdev.executor.completion import Completion
from vdev.executor.direct_reads import Arriving
from vdev.executor.line import Line
from vdev.session.commands import Map, Read, Unmap, Write
from vdev.session.immediate import AtOnce
from vdev.session.moves import Moves
from vdev.session.ordering import QueueOrder
from vdev.session.session import VirtualBuffer

from .immediate_programs import RandomCommands
from .repeating import again
from .test_runs import Caller
from .test_session_failures import NBYTES, WORDS, Program, ended, numbers, triple

#: parts of the buffers, by words
PARTS = [(0, WORDS), (0, 4), (WORDS - 8, 8)]
LAYOUTS = [Layout.contiguous(4 * start, 4 * count) for start, count in PARTS]


@pytest.fixture(autouse=True, params=["to the host", "to memory of its own"])
def at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Any thread may work with the only worker and wait for it. Of each read that was submitted: whether it was handed over
    at once.
    """
    arrives = request.param == "to memory of its own"
    for name in ("any_thread", "can_wait_for_all"):
        monkeypatch.setattr(ReferenceBackend, name, True)
    monkeypatch.setattr(ReferenceBackend, "any_thread_alone", not arrives)
    monkeypatch.setattr(ReferenceBackend, "small_read_nbytes", NBYTES if arrives else 0)
    monkeypatch.setattr(ReferenceBackend, "again", again)
    found: list[bool] = []
    submit = AtOnce._submit_read

    def noted(self: AtOnce, *arguments: object) -> object:
        part = submit(self, *arguments)  # type: ignore[arg-type]
        found.append(part is not None)
        return part

    monkeypatch.setattr(AtOnce, "_submit_read", noted)
    return found


@pytest.fixture
def program() -> Iterator[Program]:
    with Program(1, is_cpu=False) as made:
        yield made


def read(
    program: Program,
    buffer: VirtualBuffer,
    host: np.ndarray,
    part: int = 0,
    after: tuple[Completion, ...] = (),
    queue: QueueOrder | None = None,
) -> Completion:
    start, count = PARTS[part]
    command = Read(buffer, LAYOUTS[part], host[start : start + count].view(np.uint8))
    return program.submit(command, after, queue)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("seed", range(8))
def test_between_other_commands(workers: int, seed: int, in_order: bool, at_once: list[bool]) -> None:
    drawn = random.Random(seed)
    delayed = Faults(delay=lambda _: drawn.choice((0, 0, 0.0003)))
    with Program(workers, dict.fromkeys(range(workers), delayed), is_cpu=False) as program:
        _random_commands(program, drawn, in_order)
    assert sum(at_once) > (30 if workers == 1 else -1)


class Reads(RandomCommands):
    """Arrays of the host's are read into, written from while that is under way, and looked at when it has ended."""

    def __init__(self, program: Program, drawn: random.Random, *, in_order: bool) -> None:
        super().__init__(program, drawn, in_order=in_order)
        self._hosts = [np.zeros(WORDS, np.uint32) for _ in range(2)]
        self._expected = [host.copy() for host in self._hosts]

    def read(self, step: int, one: int, other: int) -> None:
        place, part = self.drawn.randrange(2), self.drawn.randrange(3)
        self.last = read(self.program, self.buffers[one], self._hosts[place], part, self.after, self.queue)
        start, count = PARTS[part]
        self._expected[place][start : start + count] = self.arrays[one][start : start + count]

    def read_now(self, step: int, one: int, other: int) -> None:
        """A blocking read, behind which others may still be on their way to the same bytes."""
        place, part = self.drawn.randrange(2), self.drawn.randrange(3)
        start, count = PARTS[part]
        into, wanted = self._hosts[place][start : start + count], self.arrays[one][start : start + count]
        command = Read(self.buffers[one], LAYOUTS[part], into.view(np.uint8))
        status = self.program.session.read_at_once(command, self.queue, self.after)
        if status is None:
            self.submit(command)
            assert self.last is not None
            status = ended(self.last)
        assert status == 0
        assert into.tolist() == wanted.tolist()
        self._expected[place][start : start + count] = wanted

    def write(self, step: int, one: int, other: int) -> None:
        place = self.drawn.randrange(2)
        self.submit(Write(self.buffers[one], LAYOUTS[0], self._hosts[place].view(np.uint8)))
        self.arrays[one] = self._expected[place].copy()

    def look(self, step: int, one: int, other: int) -> None:
        assert self.last is not None
        if self.drawn.random() < 0.5:
            assert ended(self.last) == 0
        else:
            self.program.session.finish(self.queue)
        assert [host.tolist() for host in self._hosts] == [each.tolist() for each in self._expected]


def _random_commands(program: Program, drawn: random.Random, in_order: bool) -> None:
    made = Reads(program, drawn, in_order=in_order)
    reads = [made.read, made.read, made.read, made.read_now]
    made.run([made.launch, made.launch, *reads, made.write, made.fill, made.look])
    made.look(0, 0, 0)
    for number in range(3):
        made.check(number)


def known(program: Program, count: int = 2) -> list[VirtualBuffer]:
    """Buffers whose reads were planned before."""
    buffers = [program.buffer(number) for number in range(1, count + 1)]
    for buffer in buffers:
        for _ in range(3):
            assert ended(program.launch(buffer, buffer)) == 0
            assert ended(read(program, buffer, np.zeros(WORDS, np.uint32))) == 0
            program.session.executor.quiesce()
    return buffers


def test_a_loop_of_launches_and_reads_is_handed_over_at_once(program: Program, at_once: list[bool]) -> None:
    source, out = known(program)
    launch, hosts = Caller(program), [np.zeros(WORDS, np.uint32) for _ in range(20)]
    before, counted = len(at_once), program.session.ledger.commands["read"].count
    for host in hosts:
        launch(out, source, program.queue)
        read(program, out, host)
    program.session.finish(program.queue)
    assert at_once[before:].count(True) >= 18
    assert program.session.ledger.commands["read"].count == counted + 20
    assert {tuple(host.tolist()) for host in hosts} == {tuple(program.content(out).tolist())}


def test_it_does_not_overtake_commands_that_wait_for_the_program(
    program: Program, at_once: list[bool]
) -> None:
    buffer, other = known(program)
    gate, host = program.session.user_completion(), np.zeros(WORDS, np.uint32)
    wanted = triple(program.content(other))
    launched = program.launch(buffer, other, (gate,))
    count = len(at_once)
    done = read(program, buffer, host)
    assert not any(at_once[count:])
    gate.set_status(0)
    assert ended(launched) == ended(done) == 0
    assert host.tolist() == wanted.tolist()


def test_failures_are_those_of_what_has_failed(program: Program, at_once: list[bool]) -> None:
    buffer, other = known(program)
    backend, hosts = program.backends[0], [np.zeros(WORDS, np.uint32) for _ in range(3)]
    fine_bytes = program.content(other).tolist()
    program.session.executor.quiesce()
    backend.faults.fail[backend._handed_over] = -5
    count = len(at_once)
    failed, fine = read(program, buffer, hosts[0]), read(program, other, hosts[1])
    assert at_once[count:] == [True, True]
    assert (ended(failed), ended(fine)) == (-5, 0)
    assert hosts[1].tolist() == fine_bytes
    backend.faults.fail[backend._handed_over] = -6
    launched = program.launch(buffer, other)
    behind = read(program, buffer, hosts[2])
    assert ended(launched) == -6
    assert ended(behind) < 0


def test_what_writes_from_memory_that_is_being_read_into_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReferenceBackend, "small_write_nbytes", NBYTES)
    slow = Faults()
    with Program(1, {0: slow}, is_cpu=False) as program:
        buffer, other = known(program)
        wanted = program.content(buffer).tolist()
        host, going_on = np.zeros(WORDS, np.uint32), threading.Event()
        for _ in range(3):
            assert ended(program.submit(Write(other, LAYOUTS[0], np.zeros(NBYTES, np.uint8)))) == 0
            program.session.executor.quiesce()
        slow.delay = lambda _: 0 if going_on.wait(60) else 1
        done = read(program, buffer, host)
        command = Write(other, LAYOUTS[0], host.view(np.uint8))
        assert program.session.write_at_once(command, (), program.queue) is None
        threading.Timer(0.1, going_on.set).start()  # it may be waited for where it is submitted
        behind = program.submit(command)
        assert ended(done) == ended(behind) == 0
        slow.delay = None
        assert program.content(other).tolist() == wanted


@pytest.mark.parametrize("stop", [KeyboardInterrupt, MemoryError])
def test_an_interrupt_or_a_refusal_leaves_nothing_waiting(
    program: Program, stop: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer, _ = known(program)
    host, name = np.zeros(WORDS, np.uint32), "begin_read" if ReferenceBackend.small_read_nbytes else "read"
    perform = getattr(ReferenceBackend, name)
    left: list[Callable[[], None]] = [lambda: None]

    def interrupted(self: ReferenceBackend, *arguments: object) -> object:
        if left:
            left.pop()
            raise stop
        return perform(self, *arguments)

    monkeypatch.setattr(ReferenceBackend, name, interrupted)
    if stop is KeyboardInterrupt:
        with pytest.raises(KeyboardInterrupt):
            read(program, buffer, host)
    else:
        assert ended(read(program, buffer, host)) == 0
    program.session.finish(program.queue)
    assert ended(read(program, buffer, host)) == 0
    assert host.tolist() == program.content(buffer).tolist()
    assert not program.session.executor.uses_host()


def test_nothing_is_handed_over_to_one_whose_transfers_wait(
    program: Program, at_once: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer, _ = known(program)
    assert at_once[-1]
    monkeypatch.setattr(program.session.executor.worker(0), "takes_transfers", False)
    monkeypatch.setattr(ReferenceBackend, "small_read_nbytes", NBYTES - 1)
    assert ended(read(program, buffer, np.zeros(WORDS, np.uint32))) == 0
    assert not at_once[-1]
    assert isinstance(program.session.executor.lines[0], Line)


def test_bytes_are_there_before_anybody_can_know_that_the_read_is_complete(
    monkeypatch: pytest.MonkeyPatch, at_once: list[bool]
) -> None:
    completed: list[tuple[int, int]] = []
    begin = ReferenceBackend.begin_read
    with Program(1, is_cpu=False) as program:
        buffer, _ = known(program)
        worker = program.session.executor.worker(0)
        host, wanted = np.zeros(WORDS, np.uint32), program.content(buffer).tolist()

        def begin_read(self: ReferenceBackend, *what: Any) -> Callable[[Any, int], None]:
            deliver, step = begin(self, *what), worker.issued + 1

            def delivered(target: Any, at: int) -> None:
                completed.append((worker.completed, step))
                deliver(target, at)

            return delivered

        monkeypatch.setattr(ReferenceBackend, "begin_read", begin_read)
        monkeypatch.setattr(worker, "takes_transfers", False)
        monkeypatch.setattr(ReferenceBackend, "small_read_nbytes", NBYTES)
        for way in ("wait", "finish", "poll"):
            for _ in range(200):  # the worker's thread may be in the way
                host[:] = 0
                program.session.executor.quiesce()
                event = read(program, buffer, host)
                if way == "wait":
                    assert ended(event) == 0
                elif way == "finish":
                    program.session.finish(program.queue)
                else:
                    program.session.executor.quiesce()
                assert host.tolist() == wanted
                if at_once[-1]:
                    break
        assert len(completed) == 3
        assert all(known_to_be < step for known_to_be, step in completed)
        assert not worker.arrivals


def test_so_many_are_under_way_and_no_more(program: Program, at_once: list[bool]) -> None:
    """Each has memory of the back end's own."""
    buffer, _ = known(program)
    worker, backend = program.session.executor.worker(0), program.backends[0]
    going_on = threading.Event()
    backend.faults.delay = lambda _: 0 if going_on.wait(60) else 1
    hosts = [np.zeros(WORDS, np.uint32) for _ in range(100)]
    events = [read(program, buffer, host) for host in hosts]
    assert len(worker.arrivals) <= 64
    going_on.set()
    assert {ended(event) for event in events} == {0}
    backend.faults.delay = None
    wanted = program.content(buffer).tolist()
    assert all(host.tolist() == wanted for host in hosts)
    assert not worker.arrivals


def test_a_blocking_read_into_memory_to_which_others_are_on_their_way_is_submitted(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ReferenceBackend, "small_read_nbytes", NBYTES)
    buffer, _ = known(program)
    executor = program.session.executor
    worker = executor.worker(0)
    executor.quiesce()
    host, elsewhere = (np.zeros(WORDS, np.uint32).view(np.uint8) for _ in range(2))

    def begin(target: np.ndarray) -> object:
        command = Read(buffer, LAYOUTS[0], target)
        for _ in range(200):  # the worker's thread may be in the way
            begun = program.session.moves._begin_reading(command, program.queue, (), worker)
            if begun is not None:
                break
        return begun

    executor.enter_host(host[:8], 0, worker.submitted + 1, writes=True)
    worker.arrivals.append((worker.submitted + 1, lambda: None, lambda *_: None))
    assert begin(host) is None
    begun = begin(elsewhere)
    assert isinstance(begun, Arriving)
    worker.arrivals.clear()
    assert begun.wait() == 0
    assert elsewhere.tobytes() == program.content(buffer).tobytes()


def test_what_comes_into_mapped_memory_is_waited_for_where_it_is_unmapped(at_once: list[bool]) -> None:
    slow = Faults()
    with Program(1, {0: slow}, is_cpu=False) as program:
        source, mapped = known(program)
        out = program.buffer(5)
        for _ in range(2):
            assert ended(program.launch(out, mapped)) == 0
        wanted = program.content(source).copy()
        program.session.executor.quiesce()
        mapping = Map(mapped, 0, NBYTES, read=True, write=True)
        assert ended(program.submit(mapping)) == 0
        home = mapped.holdings.home().view(np.uint32)[:WORDS]
        slow.delay = lambda _: 0.05
        brought = read(program, source, home)
        program.submit(Unmap(mapping))
        last = program.launch(out, mapped)
        assert ended(brought) == ended(last) == 0
        slow.delay = None
        assert program.content(out).tolist() == triple(wanted).tolist()


@pytest.mark.parametrize("fails", [True, False])
@pytest.mark.parametrize("in_order", [True, False])
def test_a_blocking_read_behind_what_fails_on_another_worker_leaves_the_programs_memory(
    fails: bool, in_order: bool, at_once: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[bool] = []
    begin = Moves._begin_reading

    def noted(self: Moves, *arguments: Any, **more: Any) -> Any:
        found = begin(self, *arguments, **more)
        begun.append(found is not None)
        return found

    monkeypatch.setattr(Moves, "_begin_reading", noted)
    for _ in range(20):
        _read_behind_another_worker(begun, fails=fails, in_order=in_order)
        if begun and all(begun):
            return  # if not, the worker was too busy for a read at once
    raise AssertionError("no read was made at once")


def _read_behind_another_worker(begun: list[bool], *, fails: bool, in_order: bool) -> None:
    slow = Faults(fail={}, delay=lambda _: 0.02)
    with Program(2, {0: slow}, is_cpu=False) as program:
        queue = program.session.create_queue(in_order=in_order)
        others, out, source = (program.buffer(number, queue) for number in range(1, 4))
        layout = Layout.contiguous(4 * (WORDS - 8), 32)  # what the second worker has
        for made in (others, out):
            assert ended(program.launch(made, source, queue=queue)) == 0
        wanted, backend = triple(numbers(3))[-8:].tolist(), program.backends[0]
        for _ in range(3):
            read_now(program, others, layout, (), queue)
        program.session.executor.quiesce()
        begun.clear()
        if fails:
            backend.faults.fail[backend._handed_over] = -5  # type: ignore[index]
        launched = program.launch(out, source, queue=queue)
        status, host = read_now(program, others, layout, (launched,), queue)
        assert ended(launched) == (-5 if fails else 0)
        assert (status, host.tolist()) == ((DEPENDENCY_FAILED, [7] * 8) if fails else (0, wanted))


def read_now(
    program: Program, buffer: VirtualBuffer, layout: Layout, after: tuple[Completion, ...], queue: QueueOrder
) -> tuple[int, np.ndarray]:
    """The status of a blocking read, and the memory of the program's, which was full of sevens."""
    host = np.full(layout.nbytes // 4, 7, np.uint32)
    status = program.session.read_at_once(Read(buffer, layout, host.view(np.uint8)), queue, after)
    if status is None:
        status = ended(program.submit(Read(buffer, layout, host.view(np.uint8)), after, queue))
    return status, host


def test_a_read_is_waited_for_alone_once_what_failed_before_it_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And what comes behind it is not waited for."""
    with Program(1, is_cpu=False) as program:
        worker = program.session.executor.worker(0)
        program.session.executor.quiesce()
        asked, mine = list[object](), worker.issued + 1
        monkeypatch.setattr(
            ReferenceBackend, "wait_for_read", lambda self, delivers: asked.append(delivers) or True
        )
        monkeypatch.setattr(worker, "issued", mine + 5)
        brought = list[int]()
        deliver: Any = brought.append
        worker.arrivals.append((mine, lambda: brought.append(worker.completed), deliver))
        worker.marks.append(SimpleNamespace(step=mine - 1, marker=SimpleNamespace(done=lambda: False)))  # type: ignore[arg-type]
        assert not worker._await_arrival(mine + 1), "that is no read"
        assert asked == []
        assert not worker._await_arrival(mine), "how it went is not known of what came before"
        assert (brought, worker.completed < mine) == ([], True)
        worker.marks.clear()
        assert worker._await_arrival(mine)
        assert (asked, brought, worker.completed) == ([deliver] * 2, [mine - 1], mine)
        monkeypatch.undo()


def test_what_a_read_has_met_may_be_mended_meanwhile() -> None:
    """Another thread submits a command, and what was not allocated is taken out of the directory first."""

    class Mended:
        failure = None

        def __init__(self) -> None:
            self._damage: Any = SimpleNamespace(status=-4)

        @property
        def damage(self) -> Any:
            found, self._damage = self._damage, None
            return found

    mark: Any = SimpleNamespace(error=None)
    assert direct_reads._status(mark, range(1), Mended()) == -4  # type: ignore[arg-type]
