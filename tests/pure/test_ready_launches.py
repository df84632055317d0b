"""Launches that were made without Python, told afterwards: counted, ordered and failing as if each had been submitted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import pytest
from vdev.translators.ranges.ndrange import NDRange

from vdev.backends.base import DriverLaunch, KernelArgument, LaunchShape
from vdev.backends.reference import Faults, ReferenceBackend
from vdev.executor.mark import MARK_EVERY
from vdev.executor.prepare import touching
from vdev.executor.stretch import Stretch
from vdev.session.commands import BufferArg, Marker
from vdev.session.immediate import AtOnce
from vdev.session.in_a_row import ReadyLaunch, ReadyMove
from vdev.session.ordering import QueueOrder
from vdev.session.session import VirtualBuffer

from .test_session_failures import LOCAL, NBYTES, WORDS, Program, ended, numbers, triple

#: what the drivers' launches do, by their kernel's number
_launches: list[Callable[[], None]] = []


def _driver_launch(
    backend: ReferenceBackend, kernel: object, args: list[KernelArgument], shape: LaunchShape
) -> DriverLaunch:
    _launches.append(partial(backend.launch, kernel, args, shape))
    return DriverLaunch(0, len(_launches) - 1, (), shape.first, shape.global_size, shape.local_size, None, 0)


def _launched(backend: ReferenceBackend, handles: Sequence[int], launches: int) -> None:
    for handle in handles:
        _launches[handle]()


@pytest.fixture(autouse=True)
def outside(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The reference worker's launches can be made outside: the device has them once it is told."""
    monkeypatch.setattr(ReferenceBackend, "any_thread_alone", True)
    monkeypatch.setattr(ReferenceBackend, "own_kernel", ReferenceBackend.kernel)
    monkeypatch.setattr(ReferenceBackend, "driver_launch", _driver_launch)
    monkeypatch.setattr(ReferenceBackend, "launched", _launched)
    yield
    _launches.clear()


def _at_once(program: Program) -> AtOnce:
    assert program.session.at_once is not None
    return program.session.at_once


def ready(
    program: Program, out: VirtualBuffer, source: VirtualBuffer, queue: QueueOrder | None = None
) -> ReadyLaunch | None:
    args = (BufferArg(out, 0, NBYTES), BufferArg(source, 0, NBYTES))
    ndrange = NDRange((WORDS,), (LOCAL,), (0,))
    program.session.executor.quiesce()
    return _at_once(program).ready(program.kernel, args, ndrange, queue or program.queue, None)


def must_be_ready(program: Program, out: VirtualBuffer, source: VirtualBuffer) -> ReadyLaunch:
    """After two launches: their plan is known, and all is on the worker."""
    program.launch(out, source)
    program.launch(out, source)
    for _ in range(1000):  # the worker's thread may have its turn for a moment
        found = ready(program, out, source)
        if found is not None:
            return found
    pytest.fail("it is never ready")


def tell(program: Program, *runs: tuple[ReadyLaunch | ReadyMove, int]) -> bool:
    handles = [_handle(program, made) for made, count in runs for _ in range(count)]
    assert _at_once(program).made(runs, handles) is not None
    return _at_once(program).may_go_on


def _handle(program: Program, made: ReadyLaunch | ReadyMove) -> int:
    if isinstance(made, ReadyLaunch):
        return made.driver.kernel
    backend = program.backends[0]
    _launches.append(lambda: backend._submit("moved outside", lambda: None))
    return len(_launches) - 1


def times(count: int, words: np.ndarray) -> list[int]:
    for _ in range(count):
        words = triple(words)
    return words.tolist()


def test_they_are_counted_and_come_in_their_place() -> None:
    with Program(1) as program:
        first, second = program.buffer(3), program.buffer(50)
        launches = [must_be_ready(program, each, each) for each in (first, second)]
        executor, backend = program.session.executor, program.backends[0]
        number, used, made = executor.last_number, program.session.number, backend.counters.launches
        counted = launches[0].cached.outcome.launches
        assert tell(program, (launches[0], 5), (launches[1], 3), (launches[0], 1))
        assert (executor.last_number, program.session.number) == (number + 9, used + 9)
        assert (first.used, second.used) == (used + 9, used + 8)
        assert backend.counters.launches == made + 9
        assert launches[0].cached.outcome.launches == counted + 9  # the same plan serves both
        stretch = program.queue.unsettled()[-1].progress
        assert isinstance(stretch, Stretch)
        assert np.diff(stretch.ends).tolist() == [1] * (len(stretch.ends) - 1)
        program.launch(first, first)
        assert program.content(first).tolist() == times(9, numbers(3))
        assert program.content(second).tolist() == times(5, numbers(50))
        program.session.finish(program.queue)
        assert not program.queue.unsettled()


def test_a_queue_waits_for_them() -> None:
    with Program(1, {0: Faults(delay=lambda _: 0.0005)}) as program:
        launch = must_be_ready(program, *2 * [program.buffer(3)])
        assert tell(program, (launch, 20))
        program.session.finish(program.queue)
        assert program.backends[0].performed == program.backends[0]._handed_over


def test_many_are_marked_and_let_go() -> None:
    with Program(1) as program:
        buffer = program.buffer(3)
        launch, worker = must_be_ready(program, buffer, buffer), program.session.executor.worker(0)
        program.session.executor.quiesce()
        marked = worker.marked
        for _ in range(4):
            assert tell(program, (launch, MARK_EVERY))
            assert worker.issued - worker.marked < MARK_EVERY
        assert worker.marked >= marked + 3 * MARK_EVERY
        assert program.content(buffer).tolist() == times(2 + 4 * MARK_EVERY, numbers(3))


@pytest.mark.parametrize("at", [0, 3, 4])
def test_a_failure_is_that_of_its_launch(at: int) -> None:
    faults: dict[int, int] = {}
    with Program(1, {0: Faults(fail=faults)}) as program:
        source, between, last, other = (program.buffer(each) for each in range(4))
        ways = [
            must_be_ready(program, *pair)
            for pair in ((between, source), (last, between), (other, other), (other, other), (between, last))
        ]
        program.session.executor.quiesce()
        faults[program.backends[0]._handed_over + at] = -5
        tell(program, *[(way, 1) for way in ways])
        wrong = {0: {1, 2}, 3: {3}, 4: {1}}[at]
        assert {
            index
            for index, buffer in enumerate((source, between, last, other))
            if ended(program.read(buffer)[0]) < 0
        } == wrong


def test_what_has_failed_meanwhile_concerns_them() -> None:
    """Nobody knew of the failure when they were made."""
    faults: dict[int, int] = {}
    with Program(1, {0: Faults(fail=faults)}) as program:
        source, result, other = program.buffer(1), program.buffer(2), program.buffer(3)
        reads, apart = must_be_ready(program, result, source), must_be_ready(program, other, other)
        program.session.executor.quiesce()
        faults[program.backends[0]._handed_over] = -5
        assert ended(program.launch(source, source)) == -5
        assert not tell(program, (reads, 2), (apart, 2))
        assert ended(program.read(result)[0]) == -5
        assert program.content(other).tolist() == times(4, numbers(3))
        assert ready(program, other, other) is None
        program.write(source, 7)
        program.launch(result, source)
        assert program.content(result).tolist() == times(1, numbers(7))


def test_launches_on_other_buffers_are_theirs() -> None:
    """Of what was ready on two buffers: a failure spreads to what reads the others' bytes, and to nothing else."""
    faults: dict[int, int] = {}
    with Program(1, {0: Faults(fail=faults)}) as program:
        source, result, other, last = (program.buffer(each) for each in range(4))
        launch = must_be_ready(program, result, source)
        must_be_ready(program, last, other)
        assert launch.pointers == (0, 1)
        made = launch.on([BufferArg(each, 0, NBYTES) for each in (last, other)])
        assert (made.buffers, [*made.entry[1]]) == ([last, other], [last.holdings, other.holdings])
        assert [arg.buffer for arg in made.entry[2]] == [last, other]
        both = must_be_ready(program, source, source).on(2 * [BufferArg(other, 0, NBYTES)])
        assert both.buffers == [other]
        program.session.executor.quiesce()
        faults[program.backends[0]._handed_over] = -5
        tell(program, (made, 1), (launch, 1))
        wrong = [ended(program.read(each)[0]) < 0 for each in (source, result, other, last)]
        assert wrong == [False, False, False, True]


def test_what_has_ended_is_counted() -> None:
    with Program(1) as program:
        buffer = program.buffer(3)
        launch, session = must_be_ready(program, buffer, buffer), program.session
        number, counted, made = (
            session.number,
            launch.cached.outcome.launches,
            program.backends[0].counters.launches,
        )
        _at_once(program).ended([(launch, 5)], [("write", 2, 64), ("read", 1, 8), ("marker", 4, 0)])
        assert session.number == number + 12
        assert buffer.used == number + 5
        assert launch.cached.outcome.launches == counted + 5
        assert program.backends[0].counters.launches == made + 5
        write = session.ledger.command("write")
        assert write.moved.host_to_worker >= 64


def test_buffers_that_may_serve_as_new_ones() -> None:
    """What nobody has anything of, or the worker everything, unless something is held back or has failed."""
    with Program(1) as program:
        session, at_once = program.session, _at_once(program)
        home, used, new = program.buffer(3), program.buffer(4), session.create_buffer(NBYTES)
        must_be_ready(program, used, used)
        assert [at_once.may_be_kept(each) for each in (home, used, new)] == [False, True, True]
        gate, unordered = session.user_completion(), session.create_queue(in_order=False)
        program.submit(Marker(barrier=True), [gate], unordered)
        assert not at_once.may_be_kept(used)
        gate.set_status(0)
        must_be_ready(program, used, used)
        assert at_once.may_be_kept(used)
        session.observers.append(object())
        assert not at_once.may_be_kept(used)
        session.observers.clear()


COPY, WRITE = touching(reads=(0,), writes=(1,)), touching(writes=(0,))
OVERWRITE, READ = touching(writes=(0,), overwrites=(0,)), touching(reads=(0,))


def test_transfers_among_them_are_counted_and_pass_failures_on() -> None:
    """A copy of bytes that a failed launch should have written fails, as does a launch that reads them then; what replaces them all ends
    that.
    """
    faults: dict[int, int] = {}
    with Program(1, {0: Faults(fail=faults)}) as program:
        source, copied, result, renewed, other = (program.buffer(each) for each in range(5))
        launch, reads, apart = (
            must_be_ready(program, *pair) for pair in ((source, source), (result, copied), (other, other))
        )
        session, queue = program.session, program.queue
        made = [
            ReadyMove("copybuffer", COPY, (source, copied), NBYTES, queue),
            ReadyMove("copybuffer", COPY, (source, renewed), NBYTES, queue),
            ReadyMove("write", OVERWRITE, (renewed,), NBYTES, queue),
            ReadyMove("write", WRITE, (other,), 8, queue),
            ReadyMove("read", READ, (other,), 12, queue),
            ReadyMove("marker", touching(), (), 0, queue),
        ]
        session.executor.quiesce()
        commands = session.ledger.commands
        counted = {name: tally.count for name, tally in commands.items()}
        faults[program.backends[0]._handed_over] = -5
        tell(program, (launch, 1), *[(each, 1) for each in made], (reads, 1), (apart, 1))
        found = {name: tally.count - counted.get(name, 0) for name, tally in commands.items()}
        assert {name: count for name, count in found.items() if count} == {
            "copybuffer": 2,
            "write": 2,
            "read": 1,
        }
        wrong = [ended(program.read(each)[0]) < 0 for each in (source, copied, result, renewed, other)]
        assert wrong == [True, True, True, False, False]


def test_nothing_is_ready_that_has_to_be_looked_at() -> None:
    with Program(1) as program:
        buffer, session = program.buffer(3), program.session
        must_be_ready(program, buffer, buffer)
        gate, unordered = session.user_completion(), session.create_queue(in_order=False)
        program.submit(Marker(barrier=True), [gate], unordered)
        assert ready(program, buffer, buffer) is None  # a command waits for the program
        gate.set_status(0)
        must_be_ready(program, buffer, buffer)
        session.observers.append(object())
        assert ready(program, buffer, buffer) is None
        session.observers.clear()
        must_be_ready(program, buffer, buffer)


@pytest.mark.parametrize("first", ["turn", "lock"])
def test_threads_that_wait_for_each_other(first: str) -> None:
    """One has the worker's turn and wants the session's lock, as when it lets objects go; or has the lock and waits for the
    worker, as after a failure.
    """
    with Program(1) as program:
        launch = must_be_ready(program, *2 * [program.buffer(3)])
        turn, lock = program.session.executor.worker(0).turn, program.session.lock
        one, other = (turn, lock) if first == "turn" else (lock, turn)
        one.acquire()
        telling = threading.Thread(target=tell, args=(program, (launch, 3)), daemon=True)
        telling.start()
        if first == "turn":
            while lock.acquire(False):  # until the other thread has it
                lock.release()
        for _ in range(0 if first == "turn" else 200):  # until it may have got as far as it comes
            time.sleep(0.001)
            if turn.locked():
                break
        got = other.acquire(timeout=300)  # type: ignore[call-arg]
        assert got, "they wait for each other"
        other.release()
        one.release()
        telling.join()
        assert program.content(launch.buffers[0]).tolist() == times(5, numbers(3))


def test_with_several_workers_nothing_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReferenceBackend, "any_thread", True)
    with Program(2) as program:
        buffer = program.buffer(3)
        for _ in range(4):
            program.launch(buffer, buffer)
        assert ready(program, buffer, buffer) is None
