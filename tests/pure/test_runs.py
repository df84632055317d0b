"""Launches handed over at once, and repeated with nothing in between: the same results, events, figures and failures as if
each had been submitted.
"""

from __future__ import annotations

import random
import threading
import weakref
from collections.abc import Callable
from functools import partialmethod
from typing import Any

import numpy as np
import pytest
from vdev.translators.ranges.ndrange import NDRange
from vdev.translators.ranges.rectangles import Layout

from vdev.backends.reference import Faults, ReferenceBackend
from vdev.executor.completion import Completion
from vdev.executor.job import Job
from vdev.executor.line import Line
from vdev.executor.mark import MARK_EVERY
from vdev.executor.repeated_launch import Run
from vdev.executor.stretch import Part
from vdev.process.finalisers import collect
from vdev.session.commands import BufferArg, Fill, Launch, Map, Marker, Unmap, Write
from vdev.session.in_a_row import InARow
from vdev.session.ordering import QueueOrder
from vdev.session.session import VirtualBuffer

from .repeating import again
from .test_session_failures import LOCAL, NBYTES, WORDS, Program, ended, numbers, triple


@pytest.fixture(autouse=True)
def handed_over_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reference workers let any thread work with them, and repeat launches."""

    monkeypatch.setattr(ReferenceBackend, "any_thread", True)
    monkeypatch.setattr(ReferenceBackend, "again", again)
    monkeypatch.setattr(ReferenceBackend, "repeats_over", lambda *_: True)


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each attempt to hand a launch over at once did: on several workers by repeating the one before."""
    found: list[bool] = []

    def noted(attempt: Callable[..., Any], way: Any, *rest: Any, **more: Any) -> Any:
        found.append(False)
        result = attempt(way, *rest, **more)
        found[-1] = bool(result)
        return result

    monkeypatch.setattr(Run, "again", partialmethod(_noting, noted, Run.again))
    monkeypatch.setattr(Line, "hand_over", partialmethod(_noting, noted, Line.hand_over))
    return found


def _noting(way: Any, noted: Callable[..., Any], attempt: Callable[..., Any], *rest: Any, **more: Any) -> Any:
    return noted(attempt, way, *rest, **more)


class Caller:
    """Launches as the façade makes them: repeated where that is possible."""

    def __init__(self, program: Program, nitems: int = WORDS) -> None:
        self.program = program
        self.space = NDRange((nitems,), (LOCAL,), (0,))
        self.last: Launch | None = None
        #: the number of the last launch that was handed over, and what makes it again
        self.number = -1
        self.row: InARow | None = None
        self.in_a_row = 0  #: launches that were made so

    def __call__(
        self, out: VirtualBuffer, source: VirtualBuffer, queue: QueueOrder | None = None
    ) -> Completion:
        queue = queue or self.program.queue
        last = self.last
        same = last is not None and [arg.buffer for arg in last.args if isinstance(arg, BufferArg)] == [
            out,
            source,
        ]
        if last is not None and same:
            for repetition in (last.repetition, self.row):
                completion = repetition and repetition.again(queue, self.space, last.args)
                if completion is not None:
                    self.in_a_row += repetition is self.row
                    return completion
        args = (BufferArg(out, 0, NBYTES), BufferArg(source, 0, NBYTES))
        self.last, self.row = Launch(self.program.kernel, args, self.space), None
        completion = self.program.submit(self.last, (), queue)
        if isinstance(completion, Part):
            self._expect_another(completion, queue, same)
        return completion

    def _expect_another(self, part: Part, queue: QueueOrder, same: bool) -> None:
        before, self.number = self.number, part.stretch.last
        at_once = self.program.session.at_once
        assert at_once is not None
        if same and before == self.number - 1:
            self.row = at_once.in_a_row(self.program.kernel, queue, part)

    @property
    def counted(self) -> int:
        plans = self.program.kernel.plans
        assert plans is not None
        return plans.tally.launches


def joined_after(launch: Caller, buffer: VirtualBuffer, joined: list[bool]) -> int:
    """Launch until a launch has joined a run; how many that took."""
    for count in range(1, 200):
        if count % 4 == 1:  # its thread is through with what it was given before
            launch.program.session.executor.quiesce()
        launch(buffer, buffer)
        if joined and joined[-1]:
            return count
    raise AssertionError("no launch was repeated")


def launched_with(
    launch: Caller, buffer: VirtualBuffer, joined: list[bool], replace: Callable[[Any], None]
) -> Completion:
    """A launch that joins a run of which `replace` has replaced a part. The worker's thread may end a run at any time,
    and then another has to be joined.
    """
    for _ in range(50):
        joined_after(launch, buffer, joined)
        assert launch.last is not None
        assert launch.last.repetition is not None
        replace(launch.last.repetition._run)
        completion = launch(buffer, buffer)
        if joined[-1]:
            return completion
    raise AssertionError("no launch was repeated")


def handed_over_with(
    launch: Caller,
    buffer: VirtualBuffer,
    joined: list[bool],
    replaced: Callable[[Callable[[], None]], None],
) -> Completion:
    """A launch that the only worker is handed at once, and `replaced` is called instead of the back end, with its call."""
    backend = launch.program.backends[0]
    start = backend.launch

    def instead(*launched: Any) -> None:
        replaced(lambda: start(*launched))

    for _ in range(50):
        joined_after(launch, buffer, joined)
        launch.program.session.executor.quiesce()
        backend.launch = instead  # type: ignore[method-assign]
        try:
            completion = launch(buffer, buffer)
        finally:
            backend.launch = start  # type: ignore[method-assign]
        if joined[-1]:
            return completion
    raise AssertionError("no launch was handed over at once")


@pytest.mark.parametrize("workers", [1, 3])
def test_a_row_of_launches(workers: int, joined: list[bool]) -> None:
    count = 5 * MARK_EVERY
    with Program(workers) as program:
        buffer, launch = program.buffer(3), Caller(program)
        events = [launch(buffer, buffer) for _ in range(count)]
        count += joined_after(launch, buffer, joined)
        expected = numbers(3)
        for _ in range(count):
            expected = triple(expected)
        assert program.content(buffer).tolist() == expected.tolist()
        assert {ended(event) for event in events} == {0}
        assert launch.counted == count
        assert [backend.counters.launches for backend in program.backends] == [count] * workers


def test_they_are_one_job_until_a_marker(joined: list[bool]) -> None:
    """What is in flight is bounded, and no event waits for what was launched after somebody asked for it."""
    with Program(1, {0: Faults(delay=lambda _: 0.002)}) as program:
        buffer, launch = program.buffer(3), Caller(program)
        joined_after(launch, buffer, joined)
        event = launch(buffer, buffer)
        worker = program.session.executor.worker(0)
        assert ended(event) == 0
        issued = worker.issued
        following = launch(buffer, buffer)
        assert following is not event
        assert worker.completed >= issued
        assert ended(following) == 0


@pytest.mark.parametrize("workers", [1, 3])
def test_after_waiting_for_the_devices_later_launches_are_waited_for_too(
    workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that waits for the devices itself makes no marker, so that nothing but its end tells that a run is over."""
    monkeypatch.setattr(ReferenceBackend, "can_wait_for_all", True)
    with Program(workers, {number: Faults(delay=lambda _: 0.001) for number in range(workers)}) as program:
        buffer, launch = program.buffer(3), Caller(program)
        for _ in range(60):
            assert ended(launch(buffer, buffer)) == 0
            for backend in program.backends:
                assert backend.performed == backend._handed_over


def after_other_commands(program: Program, launch: Caller, buffers: list[VirtualBuffer], seed: int) -> None:
    """Random commands with rows of launches between them, and what NumPy makes of it."""
    drawn = random.Random(seed)
    arrays = [numbers(7 * number) for number in range(len(buffers))]
    queues = [program.queue, program.session.create_queue(in_order=True)]
    events: list[Completion] = []
    for _ in range(40):
        out, source = drawn.randrange(len(buffers)), drawn.randrange(len(buffers))
        queue = queues[0]
        for _ in range(drawn.choice((1, 2, 3, 9))):
            events.append(launch(buffers[out], buffers[source], queue))
            arrays[out] = triple(arrays[source])
            if drawn.random() < 0.1:
                assert ended(events[-1]) == 0
        other = drawn.randrange(len(buffers))
        action = drawn.choice(("write", "read", "fill", "marker", "wait", "nothing", "queue"))
        if action == "write":
            program.write(buffers[other], other)
            arrays[other] = numbers(other)
        elif action == "read":
            assert program.content(buffers[other]).tolist() == arrays[other].tolist()
        elif action == "fill":
            program.submit(Fill(buffers[other], 0, NBYTES, b"\1\0\0\0"))
            arrays[other] = np.ones(WORDS, np.uint32)
        elif action == "marker":
            events.append(program.submit(Marker()))
        elif action == "wait":
            assert ended(events[-1]) == 0
        elif action == "queue":
            events.append(launch(buffers[out], buffers[source], queues[1]))
            arrays[out] = triple(arrays[source])
            program.submit(Marker(), [events[-1]])
    for buffer, array in zip(buffers, arrays, strict=True):
        assert program.content(buffer).tolist() == array.tolist()
    assert {ended(event) for event in events} == {0}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("workers", "split"), [(1, False), (3, False), (3, True)])
def test_between_other_commands(
    workers: int, split: bool, seed: int, joined: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "vdev.executor.steps.BRIEF_NBYTES", 0
    )  # what comes from the home keeps the worker's thread busy
    source = random.Random(seed)
    faults = {0: Faults(delay=lambda _: source.choice((0, 0, 0, 0.0005)))}
    with Program(workers, faults) as program:
        if workers > 1 and not split:  # launches are small: they stay on one worker, the transfers need not
            options = program.session.launch_options
            program.session.launch_options = type(options)(options.workers, options.links, 1 << 20)
        for round_ in range(20):  # a worker that is through at once has nothing that a launch could join
            buffers = [program.buffer(7 * number) for number in range(3)]
            after_other_commands(program, Caller(program), buffers, seed + 6 * round_)
            if any(joined) and not all(joined):
                break
    assert any(joined)
    assert not all(joined)


@pytest.mark.parametrize("workers", [1, 2])
def test_threads_launch_at_the_same_time(workers: int, joined: list[bool]) -> None:
    threads, count = 4, 300
    with Program(workers) as program:
        results: list[tuple[np.ndarray, np.ndarray]] = []

        def work(seed: int) -> None:
            queue = program.session.create_queue(in_order=True)
            buffer, launch = program.buffer(seed, queue), Caller(program)
            expected = numbers(seed)
            for number in range(count):
                event = launch(buffer, buffer, queue)
                expected = triple(expected)
                if number % 50 == 49:
                    assert ended(event) == 0
            completion, content = program.read(buffer, queue=queue)
            assert ended(completion) == 0
            results.append((content, expected))

        running = [threading.Thread(target=work, args=(seed,)) for seed in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join(60)
        assert len(results) == threads
        for content, expected in results:
            assert content.tolist() == expected.tolist()
        assert Caller(program).counted == threads * count
        assert program.backends[0].counters.launches == threads * count


def test_one_thread_waits_while_another_goes_on() -> None:
    with Program(1, {0: Faults(delay=lambda _: 0.0005)}) as program:
        buffer, launch = program.buffer(3), Caller(program)
        for _ in range(4):
            launch(buffer, buffer)
        statuses: list[int] = []
        for _ in range(5):
            event = launch(buffer, buffer)
            waiting = threading.Thread(target=lambda event=event: statuses.append(event.wait()))
            waiting.start()
            while waiting.is_alive():
                launch(buffer, buffer)
        assert statuses == [0] * 5


@pytest.mark.parametrize("workers", [1, 2])
def test_a_launch_that_is_refused_gets_its_error(workers: int, joined: list[bool]) -> None:
    faults: dict[int, int] = {}
    with Program(workers, {0: Faults(refuse=faults)}) as program:
        buffer, launch = program.buffer(3), Caller(program)
        joined_after(launch, buffer, joined)
        before = launch.counted
        faults |= {program.backends[0]._handed_over + later: -5 for later in range(2)}
        failed = launch(buffer, buffer)
        assert ended(failed) == -5
        assert not joined[-1]
        assert launch.counted == before + 1
        assert ended(launch(buffer, buffer)) < 0  # it reads what could not be written
        program.write(buffer, 5)
        assert ended(launch(buffer, buffer)) == 0
        assert program.content(buffer).tolist() == triple(numbers(5)).tolist()


def test_a_launch_that_is_refused_by_the_second_worker_has_failed(joined: list[bool]) -> None:
    """What the first has done cannot be undone: the command has failed, and what it wrote is not read."""
    for _ in range(50):  # until that launch has joined a run: a thread may end one at any time
        faults: dict[int, int] = {}
        with Program(2, {1: Faults(refuse=faults)}) as program:
            buffer, launch = program.buffer(3), Caller(program)
            joined_after(launch, buffer, joined)
            faults[program.backends[1]._handed_over] = -5
            failed = launch(buffer, buffer)
            assert ended(failed) == -5
            assert ended(program.read(buffer)[0]) < 0
            program.write(buffer, 5)
            has_joined = joined[-1]
            assert ended(launch(buffer, buffer)) == 0
            assert program.content(buffer).tolist() == triple(numbers(5)).tolist()
        if has_joined:
            return
    raise AssertionError("no launch was repeated")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_failure_on_the_device_is_all_of_theirs(workers: int, joined: list[bool]) -> None:
    faults: dict[int, int] = {}
    with Program(workers, {0: Faults(fail=faults)}) as program:
        buffer, other, launch = program.buffer(3), program.buffer(4), Caller(program)
        joined_after(launch, buffer, joined)
        faults[program.backends[0]._handed_over] = -5
        events = [launch(buffer, buffer) for _ in range(3)]
        assert ended(events[-1]) == -5
        assert ended(program.read(buffer)[0]) < 0
        assert program.content(other).tolist() == numbers(4).tolist()
        program.write(buffer, 5)
        assert ended(launch(buffer, buffer)) == 0
        assert program.content(buffer).tolist() == triple(numbers(5)).tolist()


@pytest.mark.parametrize("launched", [False, True])
def test_an_interrupt_leaves_nothing_waiting(launched: bool, joined: list[bool]) -> None:
    with Program(1) as program:
        buffer, launch = program.buffer(3), Caller(program)

        def interrupted(start: Callable[[], None]) -> None:
            if launched:
                start()
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            handed_over_with(launch, buffer, joined, interrupted)
        assert not joined[-1]
        worker = program.session.executor.worker(0)
        assert worker.submitted == worker.issued
        for _ in range(3):
            assert ended(launch(buffer, buffer)) == 0
        count = program.backends[0].counters.launches
        expected = numbers(3)
        for _ in range(count):
            expected = triple(expected)
        assert program.content(buffer).tolist() == expected.tolist()


@pytest.mark.parametrize("at", [0, 1])
def test_an_interrupt_between_workers_fails_the_launch(at: int, joined: list[bool]) -> None:
    with Program(2) as program:
        buffer, launch = program.buffer(3), Caller(program)
        replaced: list[tuple[Any, Callable[[], None]]] = []

        def interrupted(changed: object) -> None:
            raise KeyboardInterrupt

        def replace(run: Any) -> None:
            replaced.append((run._parts[at], run._parts[at].launch))
            run._parts[at].launch = interrupted

        with pytest.raises(KeyboardInterrupt):
            launched_with(launch, buffer, joined, replace)
        part, start = replaced[-1]
        part.launch = start
        for worker in program.session.executor.all_workers:
            assert worker.submitted == worker.issued
        assert ended(program.read(buffer)[0]) < 0
        program.write(buffer, 5)
        assert ended(launch(buffer, buffer)) == 0
        assert program.content(buffer).tolist() == triple(numbers(5)).tolist()


def test_another_submission_in_the_middle_of_a_split_launch(joined: list[bool]) -> None:
    with Program(2) as program:
        buffer, launch = program.buffer(3), Caller(program)
        inner: list[Completion] = []

        def replace(run: Any) -> None:
            start = run._parts[0].launch

            def handler(changed: object) -> None:
                start(changed)
                inner.append(program.submit(Fill(buffer, 0, NBYTES, b"\2\0\0\0")))

            run._parts[0].launch = handler

        outer = launched_with(launch, buffer, joined, replace)
        assert len(inner) == 1
        assert ended(inner[0]) == 0
        assert ended(outer) == 0
        assert program.content(buffer).tolist() == [2] * WORDS


def test_another_submission_in_the_middle_comes_after(joined: list[bool]) -> None:
    """A signal's handler may submit while a launch is being handed over."""
    with Program(1) as program:
        buffer, launch = program.buffer(3), Caller(program)
        inner: list[Completion] = []

        def handler(start: Callable[[], None]) -> None:
            start()
            inner.append(program.submit(Fill(buffer, 0, NBYTES, b"\2\0\0\0")))

        outer = handed_over_with(launch, buffer, joined, handler)
        assert len(inner) == 1
        assert ended(inner[0]) == 0
        assert ended(outer) == 0
        assert program.content(buffer).tolist() == [2] * WORDS


@pytest.mark.parametrize("workers", [1, 2])
def test_records_name_every_launch(workers: int, joined: list[bool]) -> None:
    count = 3 * MARK_EVERY
    with Program(workers) as program:
        executor = program.session.executor
        records = executor.record(exact=False)
        buffer, launch = program.buffer(3), Caller(program)
        first = executor.last_number + 1
        for _ in range(count):
            launch(buffer, buffer)
        count += joined_after(launch, buffer, joined)
        executor.quiesce()
        assert executor.last_number == first + count - 1
        marks = [(tuple(numbers_of), tuple(ends)) for numbers_of, ends, *_ in records.marks[0]]
        known = {number for numbers_of, _ in marks for number in numbers_of}
        assert set(range(first, first + count)) <= known
        for numbers_of, ends in marks:
            later = [end for number, end in zip(numbers_of, ends, strict=True) if number > first]
            assert later == sorted(set(later))  # each has handed over something of its own


@pytest.mark.parametrize("workers", [1, 2])
def test_who_wants_exact_times_changes_no_way(workers: int, joined: list[bool]) -> None:
    with Program(workers) as program:
        program.session.executor.record(exact=True)
        buffer, launch = program.buffer(3), Caller(program)
        for _ in range(6):
            launch(buffer, buffer)
        assert joined_after(launch, buffer, joined)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_back_end_that_repeats_nothing(
    workers: int, joined: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several workers have no run then; one worker needs none."""
    monkeypatch.setattr(ReferenceBackend, "again", lambda *_: None)
    with Program(workers) as program:
        buffer, launch = program.buffer(3), Caller(program)
        for _ in range(6):
            launch(buffer, buffer)
        expected = numbers(3)
        for _ in range(6):
            expected = triple(expected)
        assert program.content(buffer).tolist() == expected.tolist()
    assert workers == 1 or not joined


def test_observers_see_every_launch(joined: list[bool]) -> None:
    with Program(1) as program:
        buffer, launch = program.buffer(3), Caller(program)
        joined_after(launch, buffer, joined)
        seen: list[object] = []
        program.session.observers.append(lambda command, plan: seen.append(command))
        for _ in range(5):
            launch(buffer, buffer)
        assert len(seen) == 5


@pytest.mark.parametrize("workers", [2, 3])
def test_what_is_not_the_same_launch_is_not_repeated(workers: int, joined: list[bool]) -> None:
    """In another queue, over another index space, or with something in between: it has an event, and an order, of its own."""
    with Program(workers) as program:
        other = program.session.create_queue(in_order=True)
        space = NDRange((WORDS // 2,), (LOCAL,), (0,))
        buffer, beside = program.buffer(3), program.buffer(4)
        Caller(program)(beside, beside)  # what lies at home is filled at once: then nothing is in between
        between: list[Callable[[], object]] = [
            lambda: program.submit(Marker()),
            lambda: program.submit(Fill(beside, 0, NBYTES, b"\1\0\0\0")),
            lambda: program.submit(Fill(beside, 0, NBYTES, b"\1\0\0\0"), (), other),
        ]
        for change in (None, *between):
            launch = Caller(program)
            joined_after(launch, buffer, joined)
            assert launch.last is not None
            repetition = launch.last.repetition
            assert repetition is not None
            if change is not None:
                change()
                assert not repetition.again(program.queue, launch.space, launch.last.args)
            assert not repetition.again(other, launch.space, launch.last.args)
            assert not repetition.again(program.queue, space, launch.last.args)


def test_repeated_launches_are_what_wrote_the_buffer(joined: list[bool]) -> None:
    """Who reads it on another worker waits for the last of them."""
    with Program(2) as program:
        buffer, launch = program.buffer(3), Caller(program)
        joined_after(launch, buffer, joined)
        executor = program.session.executor
        with executor.lock:
            steps = [executor.worker(number).submitted for number in range(2)]
        assert buffer.holdings.written[:2] == steps


def in_a_row(program: Program) -> tuple[VirtualBuffer, Caller, int]:
    """A buffer on the only worker, launches on it of which the last was made in a row with those before, and how many there were."""
    buffer, launch = program.buffer(3), Caller(program)
    for count in range(1, 2000):
        if count % 8 == 1:  # its thread is through with what it was given before
            program.session.executor.quiesce()
        before = launch.in_a_row
        launch(buffer, buffer)
        if launch.in_a_row > before:
            return buffer, launch, count
    raise AssertionError("no launch was made in a row")


def test_launches_in_a_row_go_on_behind_marks_and_waits() -> None:
    expected = numbers(3)
    with Program(1) as program:
        buffer, launch, count = in_a_row(program)
        events = []
        for number in range(3 * MARK_EVERY):
            events.append(launch(buffer, buffer))
            if number % 50 == 10:
                program.session.finish(program.queue)
                assert all(event.settled for event in events)
        for _ in range(count + len(events)):
            expected = triple(expected)
        assert program.content(buffer).tolist() == expected.tolist()
        assert {ended(event) for event in events} == {0}
        assert launch.counted == count + len(events)
        assert program.backends[0].counters.launches == count + len(events)


@pytest.mark.parametrize("between", ["fill", "write", "map", "look"])
def test_launches_are_not_in_a_row_behind_what_may_change_something_for_them(between: str) -> None:
    with Program(1) as program:
        other = program.buffer(4)
        program.launch(other, other)  # it is on the worker: what follows on it is handed over at once
        buffer, launch, count = in_a_row(program)
        row, last = launch.row, launch.last
        assert row is not None
        assert last is not None
        if between == "fill":  # whose plan is not known
            program.submit(Fill(other, 0, NBYTES, b"\1\0\0\0"))
        elif between == "write":
            program.write(other, 9)
        elif between == "map":
            mapping = Map(buffer, 0, NBYTES, read=True, write=True)
            assert ended(program.submit(mapping)) == 0
            buffer.home()[:] = numbers(5).view(np.uint8)
            program.submit(Unmap(mapping))
        else:  # after which ways are chosen anew
            program.session.executor.standing = object()
        assert row.again(program.queue, launch.space, last.args) is None
        expected = numbers(5 if between == "map" else 3)
        for _ in range(0 if between == "map" else count):
            expected = triple(expected)
        assert program.content(buffer).tolist() == expected.tolist()


@pytest.mark.parametrize("between", ["launch", "launch elsewhere", "fill", "launch that writes it"])
def test_launches_in_a_row_on_the_only_worker_go_on_behind_others(between: str) -> None:
    with Program(1) as program:
        other, queue = program.buffer(4), program.session.create_queue(in_order=True)
        for _ in range(3):  # later its plan is known
            program.launch(other, other)
            assert ended(program.submit(Fill(other, 0, NBYTES, b"\1\0\0\0"))) == 0
        for number in range(200):
            buffer, launch, count = in_a_row(program)
            row, last, standing = launch.row, launch.last, program.session.executor.standing
            assert row is not None
            assert last is not None
            program.session.executor.quiesce()
            if between == "fill":
                program.submit(Fill(other, 0, NBYTES, number.to_bytes(4, "little")))
            else:
                target = buffer if between.endswith("it") else other
                program.launch(target, other, (), queue if between.endswith("elsewhere") else None)
            if program.session.executor.standing is not standing:
                continue  # it was submitted: the worker's thread was in the way
            events = [until_made(row, program, launch) for _ in range(3)]
            expected = triple(np.ones(WORDS, np.uint32)) if between.endswith("it") else numbers(3)
            for _ in range(3 if between.endswith("it") else count + 3):
                expected = triple(expected)
            assert program.content(buffer).tolist() == expected.tolist()
            assert {ended(event) for event in events} == {0}
            assert buffer.used > other.used or between.startswith("launch that")
            return
        raise AssertionError("nothing was handed over behind launches in a row")


def until_made(row: InARow, program: Program, launch: Caller) -> Completion:
    """The next launch of a row, which a worker's thread that is in the way does not end."""
    assert launch.last is not None
    for _ in range(2000):
        program.session.executor.quiesce()
        part = row.again(program.queue, launch.space, launch.last.args)
        if part is not None:
            return part
    raise AssertionError("the row has ended")


def test_launches_in_a_row_keep_no_buffer_alive() -> None:
    with Program(1) as program:
        buffer, launch, _ = in_a_row(program)
        row, dropped = launch.row, weakref.ref(buffer)
        program.session.finish(program.queue)
        program.session.executor.quiesce()
        launch.last = None
        del buffer
        collect()
        assert row is not None
        assert dropped() is None


def test_nothing_is_prepared_once_a_command_is_held_back_in_the_queue() -> None:
    """Another thread's, which came behind the launch: the next launch comes behind that."""
    with Program(1) as program:
        buffer, launch, _ = in_a_row(program)
        at_once, gate = program.session.at_once, program.session.user_completion()
        assert at_once is not None
        args = (BufferArg(buffer, 0, NBYTES), BufferArg(buffer, 0, NBYTES))
        program.session.executor.quiesce()
        part = at_once.launch(program.kernel, args, launch.space, (), program.queue)
        held = program.submit(Fill(buffer, 0, NBYTES, b"\1\0\0\0"), [gate])
        row = part and at_once.in_a_row(program.kernel, program.queue, part)
        assert row is None
        gate.set_status(0)
        assert ended(held) == 0


def test_no_repetition_overtakes_a_command_that_is_held_back_in_the_queue(joined: list[bool]) -> None:
    """It came behind a launch that was held back itself, and starts first: whatever repeats that comes behind the command."""
    with Program(3) as program:
        buffer, launch = program.buffer(3), Caller(program)
        joined_after(launch, buffer, joined)
        first, second = program.session.user_completion(), program.session.user_completion()
        args = (BufferArg(buffer, 0, NBYTES), BufferArg(buffer, 0, NBYTES))
        command = Launch(program.kernel, args, launch.space)
        program.submit(command, [first])
        program.submit(Fill(buffer, 0, NBYTES, b"\1\0\0\0"), [second])
        program.session.executor.quiesce()
        first.set_status(0)
        repetition = command.repetition
        if repetition is None or repetition.again(program.queue, launch.space, args) is None:
            program.submit(Launch(program.kernel, args, launch.space))
        second.set_status(0)
        assert program.content(buffer).tolist() == triple(np.ones(WORDS, np.uint32)).tolist()


@pytest.mark.parametrize("goes_over", [True, False])
def test_launches_in_a_row_may_differ_in_their_index_spaces(
    goes_over: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ReferenceBackend, "repeats_over", lambda *_: goes_over)
    with Program(1) as program:
        buffer, launch, count = in_a_row(program)
        expected, whole = numbers(3), launch.space
        for _ in range(count):
            expected = triple(expected)
        half, other = NDRange((WORDS // 2,), (LOCAL,), (0,)), NDRange((WORDS // 2,), (LOCAL,), (WORDS // 2,))
        made = 0
        for space in [whole, half, half, other, whole, other, half] * 9:
            made -= launch.in_a_row
            program.session.executor.quiesce()
            launch.space = space
            launch(buffer, buffer)
            made += launch.in_a_row
            start = space.offset[0]
            expected[start : start + space.nitems] = triple(expected[start : start + space.nitems])
        assert program.content(buffer).tolist() == expected.tolist()
        assert launch.counted == program.backends[0].counters.launches == count + 63
        assert (made > 40) is goes_over


def test_launches_in_a_row_are_of_one_queue() -> None:
    with Program(1) as program:
        _, launch, _ = in_a_row(program)
        row, last = launch.row, launch.last
        assert row is not None
        assert last is not None
        queue = program.session.create_queue(in_order=True)
        assert row.again(queue, launch.space, last.args) is None
        program.session.observers.append(lambda command, plan: None)
        assert row.again(program.queue, launch.space, last.args) is None


@pytest.mark.parametrize("way", ["fails on the device", "is refused"])
def test_a_launch_in_a_row_has_its_own_failure(way: str) -> None:
    faults: dict[int, int] = {}
    with Program(1, {0: Faults(**{"fail" if way.startswith("fails") else "refuse": faults})}) as program:
        for _ in range(20):
            buffer, launch, _ = in_a_row(program)
            first = program.backends[0]._handed_over
            if way == "is refused":
                faults |= dict.fromkeys(range(first, first + 3), -5)  # in the row, at once, and submitted
            else:
                faults[first + 1] = -5
            before = launch.in_a_row
            events = [launch(buffer, buffer) for _ in range(3)]
            program.session.executor.quiesce()
            statuses = [ended(event) for event in events]
            if way == "is refused":
                assert statuses[0] == -5
                return
            assert statuses[0] == 0
            assert statuses[1] == -5
            if launch.in_a_row >= before + 2:  # else the worker's thread was in the way
                return


def test_what_a_finaliser_submits_while_a_command_is_made_has_a_number_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A collection may run at any time."""
    with Program(2, is_cpu=False) as program:
        one, other = program.buffer(1), program.buffer(2)
        for _ in range(2):
            assert ended(program.launch(one, other)) == 0
        program.session.executor.quiesce()
        words, made, make = np.arange(WORDS, dtype=np.uint32), [], Job.__init__

        def begin(self: Job, *args: Any) -> None:
            make(self, *args)
            if not made and type(self) is Job:
                made.append(None)
                queue = program.session.create_queue(in_order=False)
                command = Write(other, Layout.contiguous(0, NBYTES), words.view(np.uint8))
                made.append(program.session.submit(command, queue=queue))

        with monkeypatch.context() as patch:
            patch.setattr(Job, "__init__", begin)
            last = program.launch(one, other)
        inner = made[1]
        assert (
            inner.progress is None or last.progress is None or inner.progress.number != last.progress.number
        )
        assert ended(inner) == ended(last) == 0
