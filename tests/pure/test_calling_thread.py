"""A thread that hands a command over to several workers: in which order it puts markers and gives them their steps."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from vdev.translators.ranges.rectangles import Layout

from vdev.backends.reference import ReferenceBackend
from vdev.executor import calling_thread, executor
from vdev.executor.prepare import INLINE_NBYTES
from vdev.planner.instructions import HOST
from vdev.session import moves
from vdev.session.commands import Fill, Map, Unmap, Write
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


@pytest.mark.parametrize(
    ("most", "own", "is_here"),
    [(NBYTES // 2, NBYTES, True), (NBYTES // 2 - 1, NBYTES, False), (NBYTES // 2, NBYTES // 2 - 1, False)],
)
def test_what_a_write_brings_to_several_idle_workers_is_copied_here(
    most: int, own: int, is_here: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their threads would only be woken for it, unless it is so much that they had better copy side by side."""
    monkeypatch.setattr(ReferenceBackend, "any_thread", True)
    monkeypatch.setattr(ReferenceBackend, "can_wait_for_all", True)
    monkeypatch.setattr(ReferenceBackend, "own_thread_nbytes", own)
    monkeypatch.setattr(calling_thread, "WHILE_WAKING_NBYTES", most)
    monkeypatch.setattr("vdev.executor.steps.BRIEF_NBYTES", 16)
    found: list[bool] = []
    with Program(2, is_cpu=False) as program:
        session = program.session
        buffer = session.create_buffer(NBYTES, numbers(1).view(np.uint8).copy())
        assert ended(program.launch(buffer, buffer)) == 0
        assert buffer.state.resident is None
        session.executor.quiesce()

        def note(all_workers: Any, prepared: Any) -> bool:
            found.append(calling_thread.never_waits(all_workers, prepared))
            return found[-1]

        monkeypatch.setattr(executor, "never_waits", note)
        write = Write(buffer, Layout.contiguous(0, NBYTES), numbers(5).view(np.uint8))
        session.moves.calm_to_write(buffer, NBYTES, program.queue)
        assert ended(program.submit(write)) == 0
        assert found == [is_here]
        assert (program.content(buffer) == numbers(5)).all()


@pytest.mark.parametrize(
    ("in_order", "most", "calmed"), [(True, NBYTES, [0, 1]), (False, NBYTES, []), (True, NBYTES // 4, [])]
)
def test_those_who_have_what_is_written_finish_first_what_they_were_given(
    in_order: bool, most: int, calmed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program waits for them anyway, in a queue that is in order; and that it waits is told those who choose ways."""
    monkeypatch.setattr(ReferenceBackend, "any_thread", True)
    monkeypatch.setattr(ReferenceBackend, "can_wait_for_all", True)
    monkeypatch.setattr(moves, "WHILE_WAKING_NBYTES", most)
    found: list[int] = []
    looks: list[int] = []
    with Program(3, is_cpu=False) as program:
        session = program.session
        buffer = session.create_buffer(NBYTES, numbers(1).view(np.uint8).copy())
        assert ended(program.launch(buffer, buffer)) == 0
        session.executor.quiesce()
        holders = [holder for holder, _ in buffer.state.valid]
        monkeypatch.setattr(moves, "calm", lambda worker: found.append(worker.number))
        waiting = SimpleNamespace(passes=0)
        choosing = SimpleNamespace(looks=waiting, looked=lambda at_ns, nbytes: looks.append(nbytes))
        monkeypatch.setattr(session, "choosing", choosing)
        session.moves.calm_to_write(buffer, NBYTES, session.create_queue(in_order=in_order))
        monkeypatch.setattr(session, "choosing", None)
        assert looks == [-NBYTES]
        assert found == ([number for number in holders if number != HOST] if calmed else [])
        assert len(holders) > 1
