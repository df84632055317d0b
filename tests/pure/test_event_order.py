"""Events and the order that they show: nothing runs, or has begun by its times, before what it has to wait for has ended
(specification 5.11).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest

from vdev.backends.reference import Faults, ReferenceBackend
from vdev.executor.completion import COMPLETE, RUNNING, SUBMITTED, Completion
from vdev.session.commands import Marker

from .test_session_failures import Program, ended
from .test_stretches import filled, in_one_stretch, resident


class Gate:
    """A device that goes no further than it is let: operations from number `until` on wait."""

    def __init__(self) -> None:
        self.until = 1 << 30
        self._changed = threading.Condition()

    def __call__(self, number: int) -> float:
        with self._changed:
            assert self._changed.wait_for(lambda: number < self.until, 20)
        return 0.0

    def let(self, until: int) -> None:
        with self._changed:
            self.until = until
            self._changed.notify_all()


class Gated(Program):
    """A program whose workers stand still from now on, and until they are let go on."""

    def __init__(self, workers: int) -> None:
        self.gates = [Gate() for _ in range(workers)]
        super().__init__(workers, {number: Faults(delay=gate) for number, gate in enumerate(self.gates)})

    def __exit__(self, *error: object) -> None:
        for gate in self.gates:
            gate.let(1 << 30)
        super().__exit__(*error)

    def stop(self) -> None:
        """Do what was given, and nothing that comes later."""
        self.session.executor.quiesce()
        for gate, backend in zip(self.gates, self.backends, strict=True):
            gate.let(len(backend.log))

    def go_on(self, until: Sequence[int]) -> None:
        """Do the first so many operations."""
        for gate, number in zip(self.gates, until, strict=True):
            gate.let(number)

    def handed_over(self) -> list[int]:
        """The operations that the devices have, once they have all that was submitted."""
        workers = self.session.executor.all_workers
        wait_until(lambda: all(worker.issued == worker.submitted for worker in workers))
        return [len(backend.log) for backend in self.backends]


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 100
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def reaches(completion: Completion, status: int) -> None:
    wait_until(lambda: completion.status == status)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("in_order", [True, False])
def test_nothing_runs_before_what_it_waits_for_has_ended(workers: int, in_order: bool) -> None:
    with Gated(workers) as program:
        queue = program.session.create_queue(in_order=in_order)
        one, other = program.buffer(1), program.buffer(2)
        program.stop()
        first = program.launch(one, one, queue=queue)
        until = program.handed_over()
        second = program.launch(other, other, () if in_order else (first,), queue)
        third = program.launch(one, one, (first, second), queue)
        program.handed_over()
        reaches(first, RUNNING)
        assert second.status == third.status == SUBMITTED
        program.go_on(until)
        reaches(first, COMPLETE)
        reaches(second, RUNNING)
        assert third.status == SUBMITTED


def test_a_marker_is_not_running_while_it_waits() -> None:
    with Gated(2) as program:
        queue = program.session.create_queue(in_order=False)
        buffer = program.buffer(1)
        program.stop()
        first = program.launch(buffer, buffer, queue=queue)
        marker = program.submit(Marker(), (first,), queue)
        program.handed_over()
        assert marker.status == SUBMITTED


def test_a_callback_for_the_beginning_is_called_then() -> None:
    with Gated(2) as program:
        queue = program.session.create_queue(in_order=False)
        one, other = program.buffer(1), program.buffer(2)
        program.stop()
        heard: list[tuple[str, int]] = []
        began = threading.Event()
        first = program.launch(one, one, (), queue)
        until = program.handed_over()
        user = program.session.user_completion()
        first.add_callback(lambda status: heard.append(("first", status)))
        second = program.launch(other, other, (user, first), queue)
        second.add_callback(lambda status: (heard.append(("second", status)), began.set()), RUNNING)
        user.set_status(0)
        program.handed_over()
        assert not began.wait(0.05)
        program.go_on(until)
        assert began.wait(100)
        assert heard == [("first", COMPLETE), ("second", RUNNING)]
        assert second.status == RUNNING


def test_times_begin_with_the_end_of_what_was_waited_for() -> None:
    # The second worker is behind the first: by its own times a command begins before its wait list has ended.
    faults = {1: Faults(delay=lambda _: 0.002)}
    with Program(2, faults) as program:
        queue = program.session.create_queue(in_order=False, profiled=True)
        buffers = [program.buffer(number) for number in range(6)]
        after: tuple[Completion, ...] = ()
        completions = []
        for buffer in buffers:
            completions.append(program.launch(buffer, buffer, after, queue))
            after = (completions[-1],)
        assert ended(completions[-1]) == 0
        times = [completion.times or (0, 0, 0, 0) for completion in completions]
        assert all(earlier[3] <= later[2] < later[3] for earlier, later in pairwise(times))


def test_commands_of_a_stretch_run_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReferenceBackend, "any_thread", True)
    going_on = threading.Event()
    with Program(1, {0: Faults(delay=lambda _: 0 if going_on.wait(100) else 1)}) as program:
        going_on.set()
        (buffer,) = resident(program, 1)
        parts = in_one_stretch(program, lambda: [program.launch(buffer, buffer) for _ in range(3)], going_on)
        assert [part.status for part in parts] == [RUNNING, SUBMITTED, SUBMITTED]
        going_on.set()
        assert ended(parts[2]) == COMPLETE


def test_callbacks_come_in_the_order_of_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever thread has learnt first that one of them is complete."""
    heard: list[int] = []
    with Program(1) as program:
        executor = program.session.executor
        (buffer,) = resident(program, 1)
        executor.quiesce()
        settle = executor.settle
        monkeypatch.setattr(type(executor), "settle", lambda self, jobs, worker=None: None)  # all have yet to
        completions = [filled(program, buffer) for _ in range(5)]
        jobs = list(executor.unsettled.values())
        assert len(jobs) == 5
        for number, completion in enumerate(completions):
            completion.add_callback(lambda reached, number=number: heard.append(number))  # type: ignore[misc]
        wait_until(lambda: executor.all_workers[0].completed >= jobs[-1].clock[0])
        monkeypatch.undo()
        settle((jobs[2],))
        assert [completion.settled for completion in completions] == [True] * 3 + [False] * 2
        executor.settle_complete()
        assert all(completion.settled for completion in completions)
        wait_until(lambda: len(heard) == 5)
    assert heard == [0, 1, 2, 3, 4]


def test_callbacks_of_one_command_come_in_the_order_of_its_states() -> None:
    completion, heard = Completion(), list[tuple[int, int]]()
    for state in (COMPLETE, RUNNING, SUBMITTED, COMPLETE):
        completion.add_callback(lambda reached, state=state: heard.append((state, reached)), state)  # type: ignore[misc]
    completion.settle(COMPLETE)
    wait_until(lambda: len(heard) == 4)
    assert heard == [(state, state) for state in (SUBMITTED, RUNNING, COMPLETE, COMPLETE)]
