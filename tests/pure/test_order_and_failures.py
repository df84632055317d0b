"""What decides the executor's order and how far failures spread, without threads or devices: the records of buffers
(`vdev.executor.holdings`) and `vdev.executor.failures`, each compared with what a program may expect.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from vdev.errors import DEPENDENCY_FAILED, BackendError
from vdev.executor.completion import COMPLETE, Completion
from vdev.executor.failures import Failures
from vdev.executor.holdings import Holdings
from vdev.executor.steps import FillStep
from vdev.planner.instructions import HOST

WORKERS = 3
FAILED = -5


def _holdings() -> Holdings:
    owner = SimpleNamespace(discard=lambda allocation: None)
    return Holdings((owner,) * WORKERS, 64, lambda: np.zeros(64, np.uint8))


#: (holder, worker, whether it writes): only a replica's own worker changes it, the home anybody may
accesses = st.lists(
    st.one_of(
        st.tuples(st.integers(0, WORKERS - 1), st.integers(0, WORKERS - 1), st.just(False)),
        st.integers(0, WORKERS - 1).map(lambda worker: (worker, worker, True)),
        st.tuples(st.just(HOST), st.integers(0, WORKERS - 1), st.booleans()),
    ),
    max_size=14,
)


@given(accesses)
@settings(deadline=None, max_examples=400)
def test_conflicting_accesses_are_ordered(wanted: list[tuple[int, int, bool]]) -> None:
    """An access comes after every earlier one of the same memory where either of them writes: by its own waits, by
    those of its worker's earlier steps, or by what these wait for.
    """
    record, steps = _holdings(), [0] * WORKERS
    behind: list[set[int]] = []  #: by access: those that precede it
    at: dict[tuple[int, int], int] = {}  #: by worker and step: the access
    for number, (holder, worker, writes) in enumerate(wanted):
        before = record.before_write(holder) if writes else record.before_read(holder)
        steps[worker] += 1
        waited = [(other, step) for other, step in before if step and other != worker]
        waited.append((worker, steps[worker] - 1))
        found: set[int] = set()
        for place in waited:
            for step in range(1, place[1] + 1):  # what a worker has done when it has come so far
                found |= {at[place[0], step]} | behind[at[place[0], step]]
        behind.append(found)
        at[worker, steps[worker]] = number
        if writes:
            record.did_write(holder, worker, steps[worker], first=True)
        else:
            record.did_read(holder, worker, steps[worker])
        conflicts = {n for n, (h, _, w) in enumerate(wanted[:number]) if h == holder and (w or writes)}
        assert conflicts <= found


class _Commands:
    """Commands of an executor, by number, as `Failures` sees them."""

    def __init__(self, buffers: int) -> None:
        self.unsettled: dict[int, Any] = {}
        self.failures = Failures(self.unsettled)
        self.buffers = [_holdings() for _ in range(buffers)]

    def submit(
        self,
        reads: tuple[int, ...] = (),
        writes: tuple[int, ...] = (),
        overwrites: tuple[int, ...] = (),
        after: tuple[Any, ...] = (),
    ) -> Any:
        job = SimpleNamespace(
            number=len(self.unsettled) + 1,
            completion=Completion(),
            holdings=[*self.buffers],
            reads=reads,
            writes=(*writes, *overwrites),
            prepared=SimpleNamespace(overwrites=overwrites),
            after=[earlier.completion for earlier in after],
        )
        self.failures.admit(job)
        self.unsettled[job.number] = job
        return job

    def fail(self, job: Any) -> None:
        self.failures.work_failed([job], [], BackendError(FAILED, "planted"))

    def renew(self, buffer: int) -> None:
        """It serves again, as another one."""
        self.buffers[buffer].renew(len(self.unsettled), self.unsettled)

    def errors(self) -> list[int | None]:
        return [job.completion.error for job in self.unsettled.values()]


def test_what_reads_of_a_failed_command_fails_and_others_go_on() -> None:
    commands = _Commands(3)
    first = commands.submit(writes=(0,))
    commands.submit(reads=(1,), writes=(2,))
    commands.submit(reads=(0,), writes=(1,))
    commands.submit(reads=(1,))
    commands.submit(reads=(2,))
    commands.fail(first)
    assert commands.errors() == [FAILED, None, FAILED, FAILED, None]
    commands.submit(reads=(1,))  # what is submitted later is concerned in the same way
    commands.submit(reads=(2,))
    assert commands.errors()[5:] == [FAILED, None]


def test_what_came_before_a_failed_command_is_not_concerned() -> None:
    commands = _Commands(1)
    commands.submit(reads=(0,))
    commands.fail(commands.submit(writes=(0,)))
    assert commands.errors() == [None, FAILED]


def test_overwriting_a_buffer_ends_its_failure() -> None:
    commands = _Commands(1)
    first = commands.submit(writes=(0,))
    commands.submit(overwrites=(0,))
    commands.submit(reads=(0,))
    commands.fail(first)
    assert commands.errors() == [FAILED, None, None]
    assert commands.buffers[0].is_sound
    commands.fail(commands.submit(writes=(0,)))
    commands.submit(writes=(0,))  # a part of it
    commands.submit(reads=(0,))
    commands.submit(overwrites=(0,))
    commands.submit(reads=(0,))
    assert commands.errors()[3:] == [FAILED, None, FAILED, None, None]


def test_a_wait_list_hands_on_failures_and_a_queue_does_not() -> None:
    commands = _Commands(2)
    first = commands.submit(writes=(0,))
    second = commands.submit(after=(first,))
    commands.submit(after=(second,))
    commands.submit(reads=(1,))
    commands.fail(first)
    assert commands.errors() == [FAILED, DEPENDENCY_FAILED, DEPENDENCY_FAILED, None]
    first.completion.settle(FAILED)
    third = commands.submit()
    third.completion.settle(COMPLETE)
    commands.submit(after=(first,))
    commands.submit(after=(third,))
    assert commands.errors()[4:] == [None, DEPENDENCY_FAILED, None]


def test_a_step_that_is_refused_fails_its_command() -> None:
    commands = _Commands(1)
    job = commands.submit(writes=(0,))
    step = FillStep.__new__(FillStep)
    commands.failures.step_failed(job, step, BackendError(FAILED, "planted"))
    assert commands.errors() == [FAILED]
    assert not commands.failures.damaged
    assert commands.buffers[0].failure == FAILED


def test_a_failure_concerns_what_the_buffer_was_then() -> None:
    commands = _Commands(2)
    first = commands.submit(writes=(0,))
    commands.submit(reads=(0,), writes=(1,))
    commands.renew(0)
    commands.submit(writes=(0,))
    commands.submit(reads=(0,))
    commands.fail(first)
    assert commands.errors() == [FAILED, FAILED, None, None]
    assert [buffer.is_sound for buffer in commands.buffers] == [True, False]


class _Others(_Commands):
    """Where each buffer that serves again is one of its own."""

    def renew(self, buffer: int) -> None:
        self.buffers[buffer] = _holdings()


#: by command: a buffer that serves again before it, if it is one, and what it reads, writes and overwrites
commands_and_renewals = st.lists(
    st.tuples(st.integers(0, 3), *[st.lists(st.integers(0, 1), unique=True, max_size=2)] * 3),
    min_size=1,
    max_size=24,
)


@given(commands_and_renewals, st.data())
@settings(deadline=None, max_examples=100)
def test_buffers_that_serve_again_fail_as_others_would(wanted: list[Any], data: st.DataObject) -> None:
    kinds = [_Commands(2), _Others(2)]
    for renewed, *touched in wanted:
        for commands in kinds:
            if renewed < 2:
                commands.renew(renewed)
            commands.submit(*map(tuple, touched))
    for number in data.draw(st.lists(st.integers(1, len(wanted)), max_size=3)):
        for commands in kinds:
            commands.fail(commands.unsettled[number])
    for reads in ((0,), (1,)):
        for commands in kinds:
            commands.submit(reads=reads)
    assert kinds[0].errors() == kinds[1].errors()


def test_what_a_buffer_was_is_forgotten_once_its_commands_have_ended() -> None:
    record = _holdings()
    for number in range(1, 101):
        record.renew(number, range(number - 2, number))
        assert {*range(max(1, number - 2), number + 1)} <= {*record.former}
    assert len(record.former) < 20
    record.fail(99, FAILED)
    assert [record.failure_for(number) for number in (98, 99, 100, 101)] == [None, FAILED, None, None]
