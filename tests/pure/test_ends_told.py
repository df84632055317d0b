"""The end of a launch is told once all workers have done their part of it, and not before, however it was handed over.

The devices are held at random moments: what is told meanwhile is compared with what their kernels have really done.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import pytest
from vdev.translators.ranges.ndrange import Chunk, NDRange
from vdev.translators.ranges.rectangles import Layout

from vdev.backends.base import Allocation, Box, Bytes
from vdev.backends.reference import Faults, ReferenceBackend, ReferenceProgram
from vdev.executor.completion import COMPLETE, RUNNING, Completion
from vdev.executor.repeated_launch import Run
from vdev.session.commands import BufferArg, Launch, Read
from vdev.session.session import VirtualBuffer

from .repeating import again
from .test_session_failures import LOCAL, NBYTES, WORDS, Program, _triple, numbers, triple

#: an operation that no device comes to
_NEVER = 1 << 30


class Held:
    """Devices that perform their operations up to one that a test names."""

    def __init__(self, workers: int) -> None:
        self._changed = threading.Condition()
        self._first_held = [_NEVER] * workers
        self.faults = {number: Faults(delay=partial(self._delay, number)) for number in range(workers)}

    def _delay(self, worker: int, operation: int) -> float:
        with self._changed:
            self._changed.wait_for(lambda: operation < self._first_held[worker])
        return 0.0

    def hold(self, backends: Sequence[ReferenceBackend], more: Callable[[], int]) -> None:
        """Let each perform so many `more` of what it was given, or will be."""
        with self._changed:
            self._first_held = [backend.performed + more() for backend in backends]
            self._changed.notify_all()

    def release(self) -> None:
        with self._changed:
            self._first_held = [_NEVER] * len(self._first_held)
            self._changed.notify_all()


class Told:
    """A program on held devices, its launches on one buffer, and how often each of their chunks has run."""

    def __init__(self, program: Program, held: Held) -> None:
        self.program, self._held = program, held
        self._space = NDRange((WORDS,), (LOCAL,), (0,))
        self._last: Launch | None = None
        self.events: list[Completion] = []
        self._runs: dict[int, int] = {}
        native = program.kernel.program.native
        assert isinstance(native, ReferenceProgram)
        assert isinstance(native.functions, dict)
        native.functions["triple"] = self._run

    def _run(self, args: Sequence[object], ndrange: NDRange, chunk: Chunk) -> None:
        _triple(args, ndrange, chunk)
        self._runs[chunk.start[0]] = self._runs.get(chunk.start[0], 0) + 1

    def launch(self, buffer: VirtualBuffer) -> None:
        queue, last = self.program.queue, self._last
        event = None
        if last is not None and last.repetition is not None:
            event = last.repetition.again(queue, self._space, last.args)
        if event is None:
            args = BufferArg(buffer, 0, NBYTES), BufferArg(buffer, 0, NBYTES)
            self._last = Launch(self.program.kernel, args, self._space)
            event = self.program.submit(self._last)
        self.events.append(event)

    def look(self, workers: int) -> None:
        """Compare what is told with what has been done."""
        told = [COMPLETE if event.settled else event.status for event in self.events]
        done = min(self._runs.values()) if len(self._runs) == workers else 0
        for number, status in enumerate(told, 1):
            # One may be running when those before it have ended: the queue is in order.
            assert done >= {COMPLETE: number, RUNNING: number - 1}.get(status, 0)

    def wait(self, event: Completion) -> None:
        self._held.release()
        assert event.wait() == 0

    def read(self, buffer: VirtualBuffer) -> np.ndarray:
        """A blocking read by the calling thread where that is possible."""
        self._held.release()
        content = np.empty(WORDS, np.uint32)
        command = Read(buffer, Layout.contiguous(0, NBYTES), content.view(np.uint8))
        status = self.program.session.read_at_once(command, self.program.queue)
        if status is None:
            status = self.program.submit(command).wait()
        assert status == 0
        return content


@pytest.fixture(autouse=True)
def handed_over_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reference workers let any thread work with them and wait for them, and repeat launches."""

    def read(self: ReferenceBackend, source: Allocation, target: Bytes, box: Box) -> bool:
        plain(self, source, target, box)
        return self.wait_for_all()  # as drivers do: the program's memory has the bytes when it returns

    plain = ReferenceBackend.read
    monkeypatch.setattr(ReferenceBackend, "read", read)
    monkeypatch.setattr(ReferenceBackend, "any_thread", True)
    monkeypatch.setattr(ReferenceBackend, "again", again)


@pytest.fixture
def begun_anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """Each time that a run went on with a job of its own for a launch."""
    found: list[bool] = []
    launch_apart = Run._launch_apart

    def noted(run: Run, *rest: object) -> bool:
        found.append(launch_apart(run, *rest))  # type: ignore[arg-type]
        return found[-1]

    monkeypatch.setattr(Run, "_launch_apart", noted)
    return found


def at_random(told: Told, held: Held, workers: int, seed: int, count: int) -> None:
    """Launches of one kernel, with devices held and let go, waits, reads and looks between them."""
    drawn, program = random.Random(seed), told.program
    buffer, expected = program.buffer(3), numbers(3)
    for _ in range(count):
        action = drawn.choice(
            ("launch", "launch", "launch", "hold", "release", "wait", "finish", "read", "call")
        )
        if action == "launch" or not told.events:
            told.launch(buffer)
            expected = triple(expected)
        elif action == "hold":
            held.hold(program.backends, lambda: drawn.randrange(4))
        elif action == "release":
            held.release()
        elif action == "wait":
            told.wait(drawn.choice(told.events[-3:]))
        elif action == "finish":
            held.release()
            program.session.finish(program.queue)
        elif action == "read":
            assert told.read(buffer).tolist() == expected.tolist()
        else:
            told.events[-1].add_callback(lambda status: None)
        told.look(workers)
    held.release()
    assert told.read(buffer).tolist() == expected.tolist()
    assert {event.wait() for event in told.events} == {0}


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("waits", ["for markers", "for all", "for small reads"])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_none_is_told_before_the_devices_are_done(
    workers: int, waits: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ReferenceBackend, "can_wait_for_all", waits != "for markers")
    monkeypatch.setattr(ReferenceBackend, "small_read_nbytes", NBYTES if waits == "for small reads" else 0)
    held = Held(workers)
    with Program(workers, held.faults) as program:
        try:
            at_random(Told(program, held), held, workers, seed, 120)
        finally:
            held.release()


@pytest.mark.parametrize("waits_for_all", [False, True])
@pytest.mark.parametrize("marks_by_age", [False, True])
def test_a_run_goes_on_behind_a_wait(
    waits_for_all: bool, marks_by_age: bool, begun_anew: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The launch behind it has an end of its own. A worker's thread may be at work at any moment, and then it is submitted."""
    monkeypatch.setattr(ReferenceBackend, "can_wait_for_all", waits_for_all)
    monkeypatch.setattr(ReferenceBackend, "cheap_markers", marks_by_age)
    held = Held(2)
    with Program(2, held.faults) as program:
        told, buffer, count = Told(program, held), program.buffer(3), 0
        while sum(begun_anew) < 8:
            told.launch(buffer)
            count += 1
            assert count < 2000
            assert told.events.count(told.events[-1]) == 1
            told.wait(told.events[-1])
        assert program.backends[0].counters.launches == count
        expected = numbers(3)
        for _ in range(count):
            expected = triple(expected)
        assert told.read(buffer).tolist() == expected.tolist()
        assert program.kernel.plans is not None
        assert program.kernel.plans.tally.launches == count
        assert not program.session.executor.unsettled or waits_for_all


def test_a_launch_is_submitted_again_after_so_many(begun_anew: list[bool]) -> None:
    """Only launches that are submitted are looked at when ways are chosen."""
    held = Held(2)
    with Program(2, held.faults) as program:
        told, buffer = Told(program, held), program.buffer(3)
        submitted: list[object] = []
        submit = program.session.launches.submit
        program.session._planners[Launch] = lambda *given: (submitted.append(given), submit(*given))  # type: ignore[func-returns-value]
        for _ in range(400):
            told.launch(buffer)
            told.wait(told.events[-1])
        assert len(submitted) >= 400 // 65


def test_a_refused_launch_behind_a_wait_gets_its_error(begun_anew: list[bool]) -> None:
    held = Held(2)
    refused: dict[int, int] = {}
    held.faults[0].refuse = refused
    with Program(2, held.faults) as program:
        told, buffer = Told(program, held), program.buffer(3)
        tried: list[bool] = []
        for _ in range(2000):
            told.launch(buffer)
            told.wait(told.events[-1])
            if begun_anew:  # the next one will go that way, unless a worker's thread is at work just then
                begun_anew.clear()
                steps = [worker.submitted for worker in program.session.executor.all_workers]
                first = program.backends[0]._handed_over
                refused |= {first + later: -5 for later in range(2)}
                told.launch(buffer)
                assert told.events[-1].wait() == -5
                tried = list(begun_anew)
                assert program.session.executor.worker(0).submitted == steps[0] + 1
                break
        assert tried in ([False], [])
        refused.clear()
        program.write(buffer, 5)
        told.launch(buffer)
        told.wait(told.events[-1])
        assert told.read(buffer).tolist() == triple(numbers(5)).tolist()
