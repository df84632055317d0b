"""A thread that hands a command over to several workers: in which order it puts markers and gives them their steps."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from vdev.backends.reference import ReferenceBackend
from vdev.executor import calling_thread, executor
from vdev.executor.prepare import INLINE_NBYTES
from vdev.planner.instructions import HOST
from vdev.session.commands import Fill, Map, Unmap
from vdev.session.transfers import transfer_of

from .test_session_failures import NBYTES, Program, ended, numbers, triple


class _Worker:
    def __init__(self, number: int, log: list[tuple[str, int]]) -> None:
        self.number, self.log = number, log
        self.queue = deque([f"entry of {number}"])

    def mark_here(self) -> None:
        self.log.append(("mark", self.number))

    def perform_entry(self, entry: str) -> None:
        assert entry == f"entry of {self.number}"
        self.log.append(("steps", self.number))


def _performed(waits: dict[int, Any] | None, numbers: tuple[int, ...] = (2, 0, 1)) -> list[tuple[str, int]]:
    log: list[tuple[str, int]] = []
    workers = [_Worker(number, log) for number in range(3)]
    prepared = SimpleNamespace(careful=False, batches=[(number, None) for number in numbers])
    calling_thread._perform_steps(workers, SimpleNamespace(prepared=prepared), waits)  # type: ignore[arg-type]
    assert not any(workers[number].queue for number in numbers)
    return log


def test_all_put_a_marker_before_any_of_them_gets_more() -> None:
    """Worker 2 waits for nothing. If it got its steps before a marker, worker 0, which waits for its earlier ones, would wait for
    these as well.
    """
    log = _performed({0: [(0, 2, 7)]})
    assert log[:3] == [("mark", 2), ("mark", 0), ("mark", 1)]
    assert log[3:] == [("steps", 2), ("steps", 0), ("steps", 1)]


@pytest.mark.parametrize(("waits", "numbers"), [(None, (2, 0, 1)), ({0: [(0, 2, 7)]}, (0,))])
def test_no_marker_is_put_where_none_is_needed(
    waits: dict[int, Any] | None, numbers: tuple[int, ...]
) -> None:
    assert all(what == "steps" for what, _ in _performed(waits, numbers))


@pytest.mark.parametrize(("nbytes", "is_here"), [(INLINE_NBYTES // 2, True), (2 * INLINE_NBYTES, False)])
def test_much_work_in_the_hosts_memory_is_left_to_its_thread(nbytes: int, is_here: bool) -> None:
    with Program(2) as program:
        session = program.session
        buffer = session.create_buffer(nbytes, np.zeros(nbytes, np.uint8))
        plan = transfer_of(Fill(buffer, 0, nbytes, b"\1")).make(session.links)
        assert {item.worker for item in plan.instructions} == {HOST}
        assert (session.executor.prepare(plan).order is not None) == is_here


@pytest.mark.parametrize(("goes_on", "few"), [(True, False), (False, True), (False, False)])
def test_what_comes_from_the_home_is_handed_over_with_its_launch(
    goes_on: bool, few: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A buffer that is mapped between launches. Where transfers keep nobody waiting, its worker's thread would only be woken and
    waited for; where they do, the caller shall not wait for more than a few bytes from an idle device.
    """
    monkeypatch.setattr(ReferenceBackend, "any_thread_alone" if goes_on else "any_thread", True)
    monkeypatch.setattr(ReferenceBackend, "can_wait_for_all", True)
    monkeypatch.setattr(ReferenceBackend, "own_thread_nbytes", NBYTES if few else NBYTES - 1)
    monkeypatch.setattr("vdev.executor.steps.BRIEF_NBYTES", NBYTES - 1)
    known: dict[str, bool] = {}

    def note(all_workers: Any, prepared: Any) -> bool:
        found = calling_thread.never_waits(all_workers, prepared)
        steps = [type(step).__name__ for _, batch in prepared.batches for step in batch.steps]
        if "CopyStep" in steps:
            known[" ".join(step for step in steps if step != "ReserveStep")] = found
        return found

    monkeypatch.setattr(executor, "never_waits", note)
    with Program(1) as program:
        buffer = program.session.create_buffer(NBYTES, numbers(1).view(np.uint8).copy())
        for number in range(1, 4):
            program.session.executor.quiesce()
            assert ended(program.launch(buffer, buffer)) == 0
            mapping = Map(buffer, 0, NBYTES, read=True, write=True)
            assert ended(program.submit(mapping)) == 0
            assert (buffer.home().view(np.uint32) == triple(numbers(number))).all()
            buffer.home()[:] = numbers(number + 1).view(np.uint8)
            assert ended(program.submit(Unmap(mapping))) == 0
    assert known.keys() == {"CopyStep", "CopyStep WholeLaunchStep"}
    assert known["CopyStep WholeLaunchStep"] == (goes_on or few)
    assert known["CopyStep"] or not goes_on
