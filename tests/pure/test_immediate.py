"""Blocking reads that the calling thread does by itself, and launches in turn: the same bytes, events, figures and
failures as if each command had been submitted.
"""

from __future__ import annotations

import random
import threading
from typing import Any

import numpy as np
import pytest
from vdev.translators.ranges.rectangles import Layout

from vdev.backends.base import Allocation, Bytes, Deliver, Reread
from vdev.backends.reference import Faults, ReferenceBackend
from vdev.executor import direct_reads
from vdev.executor.completion import Completion
from vdev.executor.job import is_complete
from vdev.executor.line import Line
from vdev.executor.mark import MARK_EVERY
from vdev.executor.stretch import Part
from vdev.executor.worker import Worker
from vdev.process.finalisers import collect
from vdev.session.commands import Fill, Map, Marker, Read, Unmap
from vdev.session.ordering import QueueOrder
from vdev.session.session import Session, VirtualBuffer

from .repeating import again
from .test_event_order import wait_until
from .test_runs import Caller
from .test_session_failures import NBYTES, WORDS, Program, ended, numbers, triple


@pytest.fixture(
    autouse=True,
    params=[
        "transfers go on",
        "both go on",
        "transfers wait",
        "reads tell that they have waited",
        "small reads arrive",
        "small reads arrive soon",
    ],
)
def handed_over_here(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The only worker lets any thread work with it; its transfers of host memory do not wait, and threads may wait for all
    ("both") or for markers only; or transfers wait, as on GPUs, where reads of consecutive bytes also tell so; or reads of a few
    bytes go to memory of the back end's own, and may be there before anybody has to wait.
    """
    goes_on = "go on" in request.param

    monkeypatch.setattr(ReferenceBackend, "any_thread_alone" if goes_on else "any_thread", True)
    monkeypatch.setattr(ReferenceBackend, "can_wait_for_all", request.param != "transfers go on")
    wait = ReferenceBackend.wait_for_all
    monkeypatch.setattr(ReferenceBackend, "wait_for_all", lambda each: waited.append(each) or wait(each))
    waited.clear()
    monkeypatch.setattr(ReferenceBackend, "again", again)
    if request.param == "reads tell that they have waited":
        plain = ReferenceBackend.read
        monkeypatch.setattr(ReferenceBackend, "read", lambda each, *move: plain(each, *move) or wait(each))
    if request.param.startswith("small reads arrive"):
        monkeypatch.setattr(ReferenceBackend, "small_read_nbytes", NBYTES)
    if request.param == "small reads arrive soon":
        plain_again = ReferenceBackend.read_again

        def read_again(each: ReferenceBackend, source: Allocation, start: int, nbytes: int) -> Reread:
            begin, end = plain_again(each, source, start, nbytes)

            def end_soon(target: Bytes) -> Deliver | None:
                deliver = end(target)
                if deliver is None or not wait(each):
                    return deliver
                deliver(target, 0)
                return None

            return begin, end_soon

        monkeypatch.setattr(ReferenceBackend, "read_again", read_again)


#: what has been waited for before a read
waited: list[ReferenceBackend] = []


def read_again(session: Session, buffer: VirtualBuffer, host: Bytes, queue: QueueOrder) -> int | None:
    """Like the buffer's last read, if there was one: the status. None if it has to go another way."""
    reading = buffer.reading
    return None if reading is None else session.moves.read_again(buffer, reading, host, queue, int, ())


class Reader:
    """A program's blocking reads: at once where that is possible."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.at_once = self.again = 0

    def __call__(self, buffer: VirtualBuffer, queue: QueueOrder | None = None) -> tuple[int, np.ndarray]:
        host = np.zeros(WORDS, np.uint32)
        queue = queue or self.program.queue
        session, target = self.program.session, host.view(np.uint8)
        status = read_again(session, buffer, target, queue)
        if status is not None:
            self.again += 1
        else:
            status = session.read_at_once(Read(buffer, Layout.contiguous(0, NBYTES), target), queue)
        if status is not None:
            self.at_once += 1
            worker = self.program.session.executor.worker(0)
            # where the device has already done everything, there is nothing to wait for
            assert worker.backend.can_wait_for_all or not waited
            return status, host
        completion, host = self.program.read(buffer, queue=queue)
        return ended(completion), host

    def until_at_once(self, buffer: VirtualBuffer) -> None:
        """Read until that was done at once: the plan is known, and the worker's thread is through."""
        before = self.at_once
        for _ in range(100):
            self.program.session.executor.quiesce()
            self(buffer)
            if self.at_once > before:
                return
        raise AssertionError("nothing was read at once")


def two_read_at_once(program: Program) -> tuple[VirtualBuffer, VirtualBuffer, Caller, Reader]:
    """Two buffers, a launch on either, and what reads them at once."""
    buffer, other = program.buffer(3), program.buffer(4)
    launch, read = Caller(program), Reader(program)
    for each in (buffer, other):
        launch(each, each)
        read.until_at_once(each)
    return buffer, other, launch, read


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_between_other_commands(seed: int, in_order: bool) -> None:
    drawn = random.Random(seed)
    with Program(1, {0: Faults(delay=lambda _: drawn.choice((0, 0, 0.0005)))}) as program:
        read, queue = Reader(program), program.session.create_queue(in_order=in_order)
        buffers = [program.buffer(7 * number, queue) for number in range(3)]
        launches = [Caller(program) for _ in buffers]
        arrays = [numbers(7 * number) for number in range(3)]
        events: list[Completion] = []
        for _ in range(300):
            one, other = drawn.randrange(3), drawn.randrange(3)
            action = drawn.choice(("launch", "launch", "in turn", "read", "read", "fill", "write", "marker"))
            if action == "launch":
                events.append(launches[one](buffers[one], buffers[other], queue))
                arrays[one] = triple(arrays[other])
            elif action == "in turn":
                for number in [*range(3)] * 3:
                    events.append(launches[number](buffers[number], buffers[number], queue))
                    arrays[number] = triple(arrays[number])
            elif action == "read":
                status, found = read(buffers[one], queue)
                assert status == 0
                assert found.tolist() == arrays[one].tolist()
            elif action == "fill":
                program.submit(Fill(buffers[one], 0, NBYTES, b"\1\0\0\0"), (), queue)
                arrays[one] = np.ones(WORDS, np.uint32)
            elif action == "write":
                program.write(buffers[one], other, queue=queue)
                arrays[one] = numbers(other)
            else:
                program.submit(Marker(barrier=drawn.random() < 0.5), (), queue)
        assert {ended(event) for event in events} == {0}
        assert read.at_once


def test_a_read_waits_for_what_was_handed_over_before_it() -> None:
    """As those of `pyopencl.array` do, which name what has written the array."""
    with Program(1, {0: Faults(delay=lambda _: 0.0005)}) as program:
        buffer, launch, read = program.buffer(3), Caller(program), Reader(program)
        launch(buffer, buffer)
        read.until_at_once(buffer)
        expected, found = triple(numbers(3)), 0
        host = np.zeros(WORDS, np.uint32)
        command = Read(buffer, Layout.contiguous(0, NBYTES), host.view(np.uint8))
        for _ in range(2000):  # the worker's thread may be in the way
            after = [launch(buffer, buffer) for _ in range(3)]
            status = program.session.read_at_once(command, program.queue, after)
            expected = triple(triple(triple(expected)))
            if status is None:
                assert ended(after[-1]) == 0
                continue
            found += 1
            assert status == 0
            assert host.tolist() == expected.tolist()
            assert [each.status for each in after] == [0, 0, 0]
            if found == 11:
                break
        assert found == 11


def test_a_read_does_not_overtake_what_it_waits_for() -> None:
    faults: dict[int, int] = {}
    with Program(1, {0: Faults(fail=faults)}) as program:
        buffer, other, launch, _ = two_read_at_once(program)
        command = Read(buffer, Layout.contiguous(0, NBYTES), np.zeros(NBYTES, np.uint8))
        gate = program.session.user_completion()
        assert program.session.read_at_once(command, program.queue, [gate]) is None
        gate.set_status(0)
        assert program.session.read_at_once(command, program.queue, [gate]) == 0
        program.session.executor.quiesce()
        faults[program.backends[0]._handed_over] = -5
        failed = launch(other, other)
        assert ended(failed) == -5
        assert program.session.read_at_once(command, program.queue, [failed]) is None


def test_small_maps_wake_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the worker has nothing to do, or its transfers keep nobody waiting: the calling thread copies the bytes. What was written
    by way of a map is what the next launch finds, whatever was mapped before.
    """
    readers: list[int] = []
    plain = ReferenceBackend.read
    monkeypatch.setattr(
        ReferenceBackend,
        "read",
        lambda each, *move: readers.append(threading.get_ident()) or plain(each, *move),
    )
    with Program(1) as program:
        session = program.session
        buffer, launch, expected, mine = program.buffer(3), Caller(program), numbers(3), 0
        for number in range(24):
            session.executor.quiesce()  # its thread is through, mostly
            launch(buffer, buffer)
            expected, writes = triple(expected), number % 3 == 2
            session.moves.calm(buffer, NBYTES)
            readers.clear()
            command = Map(buffer, 0, NBYTES, read=True, write=writes)
            assert ended(program.submit(command)) == 0
            home = buffer.home().view(np.uint32)
            assert home.tolist() == expected.tolist()
            mine += set(readers) == {threading.get_ident()}
            if writes:
                home += np.uint32(number)
                expected = expected + np.uint32(number)
            assert ended(program.submit(Unmap(command))) == 0
        launch(buffer, buffer)
        assert program.content(buffer).tolist() == triple(expected).tolist()
        able = program.backends[0].can_wait_for_all or session.executor.worker(0).takes_transfers
        assert (mine > 0) is able


def test_a_queue_that_is_finished_goes_on(at_once: list[bool]) -> None:
    """All of it has ended then, and what follows costs no more than before."""
    faults: dict[int, int] = {}
    with Program(1, {0: Faults(fail=faults, delay=lambda _: 0.0005)}) as program:
        buffer, other, launch, _ = two_read_at_once(program)
        parts: list[Part] = []
        for _ in range(2000):  # the worker's thread may be at work, and then the launch is submitted
            part = launch(buffer, buffer)
            program.session.finish(program.queue)
            assert part.status == 0
            if type(part) is Part:
                parts.append(part)
            if len(parts) == 8:
                break
        assert len(parts) == 8
        if program.backends[0].can_wait_for_all:  # else markers tell, and each ends what it stands behind
            assert len({part.stretch for part in parts}) < len(parts)
        program.session.executor.quiesce()
        faults[program.backends[0]._handed_over] = -5
        failed, well = launch(buffer, buffer), launch(other, other)
        program.session.finish(program.queue)
        assert (failed.status, well.status) == (-5, 0)


def test_what_came_before_has_ended() -> None:
    with Program(1, {0: Faults(delay=lambda _: 0.001)}) as program:
        buffer, launch, read = program.buffer(3), Caller(program), Reader(program)
        other = program.buffer(4)
        launch(buffer, buffer)
        read.until_at_once(buffer)
        event = launch(other, other)
        read.until_at_once(buffer)
        assert is_complete(event), "it is settled when somebody looks"


def test_it_is_counted() -> None:
    with Program(1) as program:
        buffer, launch, read = program.buffer(3), Caller(program), Reader(program)
        launch(buffer, buffer)
        read.until_at_once(buffer)
        with program.session.observing() as ledger:
            tally = ledger.command("read")
            count, moved = tally.count, tally.moved.worker_to_host
        once = read.at_once
        for _ in range(5):
            read.until_at_once(buffer)
        assert read.at_once == once + 5
        assert tally.count >= count + 5
        assert tally.moved.worker_to_host - moved == NBYTES * (tally.count - count)


def test_observers_hear_of_every_command() -> None:
    with Program(1) as program:
        buffer, launch, read = program.buffer(3), Caller(program), Reader(program)
        launch(buffer, buffer)
        read.until_at_once(buffer)
        seen: list[object] = []
        program.session.observers.append(lambda command, plan: seen.append(command))
        count = read.at_once
        for _ in range(3):
            assert read(buffer)[0] == 0
        assert len(seen) == 3
        assert read.at_once == count


def test_what_the_program_has_written_in_place_is_read() -> None:
    """The worker still has the memory that was read before, and no longer what the buffer holds."""
    with Program(1) as program:
        buffer, launch, read = program.buffer(3), Caller(program), Reader(program)
        for number in range(3):
            launch(buffer, buffer)
            read.until_at_once(buffer)
            mapping = Map(buffer, 0, NBYTES, read=True, write=True)
            assert ended(program.submit(mapping)) == 0
            buffer.home()[:] = numbers(number).view(np.uint8)
            assert ended(program.submit(Unmap(mapping))) == 0
            assert read(buffer)[1].tolist() == numbers(number).tolist()


def test_it_does_not_overtake_commands_that_wait_for_the_program() -> None:
    with Program(1) as program:
        buffer, launch, read = program.buffer(3), Caller(program), Reader(program)
        launch(buffer, buffer)
        read.until_at_once(buffer)
        gate = program.session.user_completion()
        last = program.submit(Fill(buffer, 0, NBYTES, b"\2\0\0\0"), [gate])
        host = np.zeros(NBYTES, np.uint8)
        command = Read(buffer, Layout.contiguous(0, NBYTES), host)
        assert read_again(program.session, buffer, host, program.queue) is None
        assert program.session.read_at_once(command, program.queue) is None
        assert not launch(buffer, buffer).settled
        gate.set_status(0)
        assert ended(last) == 0
        assert program.content(buffer).tolist() == [7] * WORDS


@pytest.mark.parametrize("which", ["launch", "read"])
def test_failures_on_the_device(which: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # The read meets the failure first: the worker's thread does not look before it is woken.
    monkeypatch.setattr("vdev.executor.worker.GRACE", 60.0)
    monkeypatch.setattr("vdev.executor.worker.LONGEST_PAUSE", 60.0)
    faults: dict[int, int] = {}
    with Program(1, {0: Faults(fail=faults)}) as program:
        buffer, other, launch, read = two_read_at_once(program)
        content = triple(numbers(4)).tolist()
        program.session.executor.quiesce()
        faults[program.backends[0]._handed_over + (which == "read")] = -5
        event, count = launch(buffer, buffer), read.at_once
        status, _ = read(buffer)
        assert read.at_once == count + 1
        assert status == -5
        assert ended(event) == (-5 if which == "launch" else 0)
        assert read(other)[0] == 0
        assert read(other)[1].tolist() == content
        assert (read(buffer)[0] < 0) == (which == "launch")
        program.write(buffer, 5)
        assert read(buffer)[1].tolist() == numbers(5).tolist()


def test_who_wants_to_be_called_is_not_kept_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker's thread looks after an idle device now and then when a launch is handed over by its caller. It is woken and puts a
    marker behind the launch; from then on it must look often.
    """
    monkeypatch.setattr("vdev.executor.worker.GRACE", 300.0)
    monkeypatch.setattr("vdev.executor.worker.LONGEST_PAUSE", 300.0)
    with Program(1) as program:
        buffer, launch, read = program.buffer(3), Caller(program), Reader(program)
        for _ in range(8):
            launch(buffer, buffer)
        read.until_at_once(buffer)
        worker = program.session.executor.worker(0)
        called, watched = threading.Semaphore(0), 0
        for _ in range(20):
            watched += worker.watching
            launch(buffer, buffer).add_callback(lambda state: called.release())
            assert called.acquire(timeout=100)
        assert watched


def test_a_read_that_is_refused_gets_its_error() -> None:
    faults: dict[int, int] = {}
    with Program(1, {0: Faults(refuse=faults)}) as program:
        buffer, launch, read = program.buffer(3), Caller(program), Reader(program)
        launch(buffer, buffer)
        read.until_at_once(buffer)
        first = program.backends[0]._handed_over
        attempts = 2 if buffer.reading is None else 3  # again, as one whose plan is known, and submitted
        worker = program.session.executor.worker(0)  # without waiting for it
        attempts += worker.takes_transfers or worker.backend.small_read_nbytes >= NBYTES
        faults |= dict.fromkeys(range(first, first + attempts), -5)
        assert read(buffer)[0] == -5
        assert read(buffer)[1].tolist() == triple(numbers(3)).tolist()
        assert worker.submitted == worker.issued


def _read_in_both_ways(program: Program, buffer: VirtualBuffer, host: np.ndarray) -> None:
    read_again(program.session, buffer, host, program.queue)
    program.session.read_at_once(Read(buffer, Layout.contiguous(0, NBYTES), host), program.queue)


def test_an_interrupt_leaves_nothing_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    with Program(1, {0: Faults(delay=lambda _: 0.001)}) as program:
        buffer, launch, read = program.buffer(3), Caller(program), Reader(program)
        launch(buffer, buffer)
        read.until_at_once(buffer)

        def interrupted(self: Worker) -> None:
            raise KeyboardInterrupt

        event = launch(buffer, buffer)
        with monkeypatch.context() as patched:
            patched.setattr(Worker, "retire_oldest", interrupted)
            patched.setattr(Worker, "catch_up", interrupted)
            patched.setattr(direct_reads, "in_driver", interrupted)
            host = np.zeros(NBYTES, np.uint8)
            with pytest.raises(KeyboardInterrupt):
                _read_in_both_ways(program, buffer, host)  # one of them may have no need to wait
        assert ended(event) == 0
        assert program.content(buffer).tolist() == triple(triple(numbers(3))).tolist()


def test_reads_wait_without_markers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the calling thread can wait for the device: a launch and a read of its result make none."""
    with Program(1) as program:
        buffer, launch, read = program.buffer(3), Caller(program), Reader(program)
        launch(buffer, buffer)
        read.until_at_once(buffer)
        worker, expected = program.session.executor.worker(0), triple(numbers(3))
        marked: list[ReferenceBackend] = []
        record = ReferenceBackend.record
        monkeypatch.setattr(ReferenceBackend, "record", lambda each: marked.append(each) or record(each))
        events, without = [], 0
        for _ in range(400 if worker.backend.can_wait_for_all else 20):
            program.session.executor.quiesce()  # which makes markers
            made, before = len(marked), read.at_once
            events.append(launch(buffer, buffer))
            expected = triple(expected)
            assert read(buffer)[1].tolist() == expected.tolist()
            without += read.at_once > before and len(marked) == made
            assert events[-1].status == 0
            if without > 10:
                break
        # Now and then the worker's thread makes one of its own accord, on a busy machine often.
        assert without > 10 if worker.backend.can_wait_for_all else without == 0
        assert {event.wait() for event in events} == {0}


def test_failures_behind_a_marker_are_known_before_completion() -> None:
    faults: dict[int, int] = {}
    with Program(1, {0: Faults(fail=faults)}) as program:
        buffer, launch = program.buffer(3), Caller(program)
        for _ in range(4):
            launch(buffer, buffer)
        program.session.executor.quiesce()
        worker, backend = program.session.executor.worker(0), program.backends[0]
        with worker.lock:  # so that nobody else looks after the marker
            faults[backend._handed_over] = -5
            event = launch(buffer, buffer)
            with worker.turn:
                worker.mark()
            assert worker.marks
            assert worker.catch_up() is backend.can_wait_for_all
            assert event.status < 0 or not backend.can_wait_for_all
        assert event.wait() < 0


def _went_well(
    program: Program,
    action: str,
    event: Completion,
    queue: QueueOrder,
    read: Reader,
    buffer: VirtualBuffer,
    array: np.ndarray,
) -> bool:
    """Wait for a launch in one way, or ask for its state only; whether that was as it should be."""
    if action == "w":
        return event.wait() == 0 and event.settled
    if action == "f":
        program.session.finish(queue)
        return event.settled
    if action == "r":
        return bool((read(buffer, queue)[1] == array).all())
    return action == "-" or event.status >= 0


@pytest.mark.parametrize("seed", range(3))
def test_threads_that_wait_for_each_others_launches(seed: int) -> None:
    with Program(1, {0: Faults(delay=lambda number: 0.0003 * (number % 3 == 0))}) as program:
        failures: list[Completion] = []

        def work(number: int) -> None:
            drawn, queue = random.Random(3 * seed + number), program.session.create_queue(in_order=True)
            buffer, launch, read = program.buffer(number, queue), Caller(program), Reader(program)
            array = numbers(number)
            for _ in range(120):
                event = launch(buffer, buffer, queue)
                array = triple(array)
                if not _went_well(program, drawn.choice("wfra-"), event, queue, read, buffer, array):
                    failures.append(event)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive(), "a thread waits for ever"
        assert not failures


def two_in_turn(program: Program) -> tuple[list[VirtualBuffer], list[Caller]]:
    """Two buffers and a launch for each, which have been made four times in turn and have ended."""
    buffers, launches = [program.buffer(3), program.buffer(4)], [Caller(program), Caller(program)]
    made_in_turn(launches, buffers, 4)
    program.session.executor.quiesce()
    return buffers, launches


def test_commands_that_arrive_while_a_thread_waits_do_not_count_as_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow: set[int] = set()
    with Program(1, {0: Faults(delay=lambda number: 0.05 * (number in slow))}) as program:
        (buffer, other), (launch, launch_other) = two_in_turn(program)
        backend, later, wait = program.backends[0], [], ReferenceBackend.wait_for_all

        def meanwhile(each: ReferenceBackend) -> bool:
            went_well = wait(each)
            if not later:
                slow.add(backend._handed_over)
                later.append(launch_other(other, other))
            return went_well

        monkeypatch.setattr(ReferenceBackend, "wait_for_all", meanwhile)
        assert launch(buffer, buffer).wait() == 0
        for event in later:
            assert not event.settled or backend.performed == backend._handed_over
            assert event.wait() == 0
            assert backend.performed == backend._handed_over


def test_a_queue_waits_for_what_follows_a_wait() -> None:
    """What a wait for the queue has settled takes no further launches."""
    with Program(1, {0: Faults(delay=lambda _: 0.002)}) as program:
        buffers, backend = [program.buffer(number) for number in range(2)], program.backends[0]
        launches = [Caller(program) for _ in buffers]
        made_in_turn(launches, buffers, 4)
        program.session.finish(program.queue)
        for _ in range(6):
            for launch, buffer in zip(launches, buffers, strict=True):
                event = launch(buffer, buffer)
                assert event.wait() == 0
                program.session.finish(program.queue)
                assert backend.performed == backend._handed_over
                event = launch(buffer, buffer)
                program.session.finish(program.queue)
                assert event.settled
                assert backend.performed == backend._handed_over


def test_callbacks_of_completed_commands_wait_for_no_marker() -> None:
    with Program(1) as program:
        buffer, launch = program.buffer(3), Caller(program)
        for _ in range(10):
            program.session.executor.quiesce()
            events = [launch(buffer, buffer) for _ in range(3)]
            events[-1].wait()
            with program.session.executor.worker(0).turn:  # its thread makes none meanwhile
                called = [threading.Event() for _ in events]
                for event, told in zip(events, called, strict=True):
                    event.add_callback(lambda _, told=told: told.set())
                assert all(told.wait(100) for told in called)


def test_a_failure_is_told_to_who_waits() -> None:
    faults: dict[int, int] = {}
    with Program(1, {0: Faults(fail=faults)}) as program:
        (buffer, other), (launch, launch_other) = two_in_turn(program)
        faults[program.backends[0]._handed_over] = -5
        failed, well = launch(buffer, buffer), launch_other(other, other)
        assert well.wait() == 0
        assert failed.wait() == -5
        assert ended(launch_other(other, other)) == 0
        expected = numbers(4)
        for _ in range(6):
            expected = triple(expected)
        assert program.content(other).tolist() == expected.tolist()


# new buffers ------------------------------------------------------------------------------------------------


def test_launches_on_new_buffers_are_handed_over_at_once(at_once: list[bool]) -> None:
    """As every operation of `pyopencl.array` makes: its result is a buffer of which nothing was written."""
    with Program(1) as program:
        source, launch = program.buffer(3), Caller(program)
        launch(program.buffer(), source)
        expected, found = triple(numbers(3)), 0
        for _ in range(50):
            program.session.executor.quiesce()
            at_once.clear()
            made = program.buffer()
            launch(made, source)
            found += at_once == [True]
            assert program.content(made).tolist() == expected.tolist()
        assert found > 25
        counters = program.backends[0].counters
        del made
        collect()
        launch(program.buffer(), source)
        program.session.executor.quiesce()
        wait_until(
            lambda: counters.allocated_nbytes <= 4 * NBYTES
        )  # else memory of buffers that are gone is kept


def test_memory_of_buffers_that_are_gone_is_used_again() -> None:
    """A program's arrays of one size come and go: each takes the memory of one that has gone."""
    with Program(1) as program:
        executor = program.session.executor
        executor.quiesce()
        worker, counters = executor.worker(0), program.backends[0].counters
        with worker.turn:  # its thread frees none meanwhile
            memory = [worker.backend.allocate(nbytes) for nbytes in (64, NBYTES, NBYTES)]
            allocations, allocated = counters.allocations, counters.allocated_nbytes
            for each in memory:
                worker.memory.discard(each)
            made = [program.buffer() for _ in range(3)]
            assert all(worker.memory.place(buffer.holdings) for buffer in made)
            replicas = [buffer.holdings.replicas[0] for buffer in made]
            assert [replica is not None and replica.allocation for replica in replicas[:2]] == memory[1:]
            assert counters.allocations == allocations + 1
            assert counters.allocated_nbytes == allocated + NBYTES - 64


def test_new_buffers_in_little_memory() -> None:
    """Those that do not fit beside the others are planned, and what makes room for them keeps its content."""
    with Program(1) as program:
        program.session.room.occupancy.room[0] = 4 * NBYTES
        source, launch = program.buffer(3), Caller(program)
        made = []
        for _ in range(12):
            program.session.executor.quiesce()  # so that it can be handed over at once
            made.append(program.buffer())
            launch(made[-1], source)
        for buffer in made:
            assert program.content(buffer).tolist() == triple(numbers(3)).tolist()
        assert program.backends[0].counters.peak_nbytes <= 4 * NBYTES


def test_new_buffers_that_the_driver_refuses_memory() -> None:
    with Program(1, {0: Faults(capacity=3 * NBYTES)}) as program:
        source, launch = program.buffer(3), Caller(program)
        kept = [program.buffer() for _ in range(2)]
        for buffer in kept:
            launch(buffer, source)
        refused = program.buffer()
        program.session.executor.quiesce()
        assert ended(launch(refused, source)) < 0
        assert ended(launch(kept[0], kept[1])) == 0
        assert program.content(kept[0]).tolist() == triple(triple(numbers(3))).tolist()
        del buffer, kept
        collect()
        assert ended(launch(refused, source)) == 0
        assert program.content(refused).tolist() == triple(numbers(3)).tolist()


# launches in turn ---------------------------------------------------------------------------------------


def made_in_turn(launches: list[Caller], buffers: list[VirtualBuffer], count: int) -> list[list[Completion]]:
    """So many rounds of a launch on each buffer; their events by buffer."""
    events: list[list[Completion]] = [[] for _ in buffers]
    for _ in range(count):
        for found, launch, buffer in zip(events, launches, buffers, strict=True):
            found.append(launch(buffer, buffer))
    return events


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each attempt to hand a command over at once did."""
    found: list[bool] = []
    hand_over = Line.hand_over

    def noted(self: Line, *command: Any, **more: Any) -> Part | None:
        part = hand_over(self, *command, **more)
        found.append(part is not None)
        return part

    monkeypatch.setattr(Line, "hand_over", noted)
    return found


def test_launches_in_turn_are_handed_over_at_once(at_once: list[bool]) -> None:
    count = 3 * MARK_EVERY
    with Program(1) as program:
        buffers = [program.buffer(number) for number in range(3)]
        launches = [Caller(program) for _ in buffers]
        rounds = 0
        # A worker's thread that is woken in between makes a launch a submission of its own: then it is tried once more.
        while at_once.count(True) < 3 * count and rounds < 100 * count:
            program.session.executor.quiesce()
            made_in_turn(launches, buffers, 4)
            rounds += 4
        assert at_once.count(True) >= 3 * count, "launches were hardly ever handed over without a submission"
        expected = [numbers(number) for number in range(3)]
        for _ in range(rounds):
            expected = [triple(array) for array in expected]
        for buffer, array in zip(buffers, expected, strict=True):
            assert program.content(buffer).tolist() == array.tolist()
        assert launches[0].counted == 3 * rounds


def test_a_failure_is_not_that_of_others_in_turn() -> None:
    faults: dict[int, int] = {}
    with Program(1, {0: Faults(fail=faults)}) as program:
        buffers = [program.buffer(number) for number in range(2)]
        launches = [Caller(program) for _ in buffers]
        made_in_turn(launches, buffers, 4)
        program.session.executor.quiesce()
        faults[program.backends[0]._handed_over + 2] = -5  # the third: the first buffer's second
        events = made_in_turn(launches, buffers, 3)
        assert ended(events[0][-1]) == -5
        assert {ended(event) for event in events[1]} == {0}
        assert ended(program.read(buffers[0])[0]) < 0
        expected = numbers(1)
        for _ in range(7):
            expected = triple(expected)
        assert program.content(buffers[1]).tolist() == expected.tolist()


def test_records_name_every_launch_in_turn() -> None:
    with Program(1) as program:
        executor = program.session.executor
        records = executor.record(exact=False)
        buffers = [program.buffer(number) for number in range(2)]
        first = executor.last_number + 1
        made_in_turn([Caller(program) for _ in buffers], buffers, 40)
        executor.quiesce()
        assert executor.last_number == first + 79
        named = [number for numbers_of, *_ in records.marks[0] for number in numbers_of]
        assert [number for number in named if number >= first + 2] == list(range(first + 2, first + 80))


def test_a_queue_waits_for_launches_in_turn() -> None:
    with Program(1, {0: Faults(delay=lambda _: 0.0005)}) as program:
        buffers = [program.buffer(number) for number in range(2)]
        launches = [Caller(program) for _ in buffers]
        made_in_turn(launches, buffers, 4)
        program.session.finish(program.queue)
        events = made_in_turn(launches, buffers, 4)
        program.session.finish(program.queue)
        assert all(event.settled for of_buffer in events for event in of_buffer)
        assert program.backends[0].performed == program.backends[0]._handed_over


def test_nothing_is_handed_over_once_it_is_closed(at_once: list[bool]) -> None:
    with Program(1) as program:
        buffer, launch, read = program.buffer(3), Caller(program), Reader(program)
        launch(buffer, buffer)
        read.until_at_once(buffer)
        while not any(at_once):
            program.session.executor.quiesce()
            launch(buffer, buffer)
        program.session.executor.quiesce()
        count = program.backends[0]._handed_over
        at_once.clear()
        program.session.executor.close()
        launch(buffer, buffer)
        assert not any(at_once)
        host = np.zeros(NBYTES, np.uint8)
        assert (
            program.session.read_at_once(Read(buffer, Layout.contiguous(0, NBYTES), host), program.queue)
            is None
        )
        assert program.backends[0]._handed_over == count
