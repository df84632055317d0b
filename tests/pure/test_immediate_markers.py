"""Markers and barriers that the calling thread hands over by itself: what they wait for, and how they end, is the same."""

from __future__ import annotations

import pytest

from vdev.backends.reference import Faults, ReferenceBackend
from vdev.errors import DEPENDENCY_FAILED
from vdev.executor.executor import Executor
from vdev.executor.mark import MARK_EVERY
from vdev.executor.stretch import Part
from vdev.session.commands import Marker
from vdev.session.session import VirtualBuffer

from .repeating import again
from .test_runs import Caller
from .test_session_failures import Program, ended, triple


@pytest.fixture(autouse=True)
def handed_over_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reference workers let any thread work with them, and repeat launches."""
    monkeypatch.setattr(ReferenceBackend, "any_thread", True)
    monkeypatch.setattr(ReferenceBackend, "again", again)


@pytest.fixture
def submissions(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    found: list[object] = []
    plain = Executor.submit

    def submit(executor: Executor, prepared: object, *rest: object, **more: object) -> int:
        found.append(prepared)
        return plain(executor, prepared, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Executor, "submit", submit)
    return found


def begun(program: Program, in_order: bool = True) -> tuple[VirtualBuffer, Caller]:
    """Launches that go on in a row: they are handed over at once, and the last of them has not ended."""
    buffer, launch = program.buffer(3), Caller(program)
    queue = program.queue if in_order else program.session.create_queue(in_order=False)
    program.queue = queue
    for _ in range(100):
        launch(buffer, buffer)
        if launch.row is not None:
            return buffer, launch
        if launch.number < 0:
            program.session.executor.quiesce()
    raise AssertionError("no launch was handed over at once")


@pytest.mark.parametrize("in_order", [True, False])
def test_nothing_is_submitted(submissions: list[object], in_order: bool) -> None:
    """For markers and barriers behind launches, or for the launches behind them, which go on as they were."""
    with Program(1, {0: Faults(delay=lambda _: 0.0002)}) as program:
        buffer, launch = begun(program, in_order)
        program.session.executor.quiesce()
        expected, rounds = program.content(buffer), 0
        for _ in range(200):  # the worker's thread may be at work, and then a command is submitted
            program.session.executor.quiesce()
            submissions.clear()
            parts = [launch(buffer, buffer) for _ in range(3)]
            before = launch.in_a_row
            for _ in range(2):
                parts += [program.submit(Marker(barrier=True)), launch(buffer, buffer)]
            parts += [program.submit(Marker()), program.submit(Marker(), (parts[-1],))]
            for _ in range(5):
                expected = triple(expected)
            if not submissions and {type(part) for part in parts} == {Part}:
                rounds += launch.in_a_row == before + 2
                assert [ended(part) for part in parts] == [0] * len(parts)
            if rounds == 3:
                break
        assert rounds == 3
        assert program.content(buffer).tolist() == expected.tolist()


def test_a_marker_is_complete_when_what_is_before_it_is() -> None:
    with Program(1, {0: Faults(delay=lambda _: 0.01)}) as program:
        buffer, launch = begun(program)
        for _ in range(5):
            earlier = launch(buffer, buffer)
            marker = program.submit(Marker())
            assert ended(marker) == 0
            assert earlier.status == 0
        program.session.executor.quiesce()
        assert program.submit(Marker()).settled or ended(earlier) == 0


def test_a_failure_concerns_markers_that_name_the_command() -> None:
    """And no others: a queue does not pass a failure on."""
    for _ in range(50):
        faults: dict[int, int] = {}
        with Program(1, {0: Faults(fail=faults, delay=lambda _: 0.002)}) as program:
            buffer, launch = begun(program)
            faults[program.backends[0]._handed_over] = -5
            failed = launch(buffer, buffer)
            markers = [program.submit(Marker()), program.submit(Marker(), (failed,))]
            if {type(each) for each in (failed, *markers)} != {Part}:
                continue
            assert ended(failed) == -5
            assert [ended(each) for each in markers] == [0, DEPENDENCY_FAILED]
            return
    raise AssertionError("no marker was handed over at once")


def test_what_is_behind_a_barrier_that_may_fail_waits_for_it() -> None:
    faults: dict[int, int] = {}
    with Program(1, {0: Faults(fail=faults, delay=lambda _: 0.002)}) as program:
        buffer, launch = begun(program, in_order=False)
        other, another = begun(program, in_order=False)
        program.session.executor.quiesce()
        faults[program.backends[0]._handed_over] = -5
        failed = launch(buffer, buffer)
        barrier = program.submit(Marker(barrier=True), (failed,))
        later = another(other, other)
        assert [ended(each) for each in (failed, barrier, later)] == [-5, *[DEPENDENCY_FAILED] * 2]


def test_markers_without_end_are_let_go() -> None:
    """They hand nothing over, and yet a mark ends their stretch."""
    with Program(1, {0: Faults(delay=lambda _: 0.05)}) as program:
        buffer, launch = begun(program)
        launch(buffer, buffer)
        parts = [program.submit(Marker()) for _ in range(4 * MARK_EVERY)]
        held = [part.stretch.launches for part in parts if isinstance(part, Part)]
        assert held
        assert max(held) <= 2 * MARK_EVERY
        assert ended(parts[-1]) == 0
