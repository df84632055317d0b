"""The collector of garbage hardly ever comes while a launch is planned, and comes afterwards as the program has it."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from vdev.translators import collecting
from vdev.translators.collecting import MEANWHILE, seldom_collected

from tests.pure.test_choosing import Program
from vdev.process.beside import beside
from vdev.session import launches

SOURCE = "kernel void add(global uint *a, const uint b) { a[get_global_id(0)] += b; }"


@pytest.fixture
def found() -> Iterator[list[str]]:
    """The collections that begin on this thread; Python has them begin whenever anything was made."""
    phases: list[str] = []
    thread = threading.get_ident()  # threads that other tests have left may ask for one

    def note(phase: str, info: dict[str, Any]) -> None:
        if phase == "start" and threading.get_ident() == thread:
            phases.append(phase)

    before = gc.isenabled(), gc.get_threshold()
    gc.callbacks.append(note)
    try:
        yield phases
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*before[1])
        (gc.enable if before[0] else gc.disable)()


def garbage() -> int:
    """Makes some, and what the collector counts."""
    for _ in range(50):
        parts: list[Any] = []
        parts.append(parts)
    return len([[] for _ in range(1000)])


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("collects", [False, True])
def test_nothing_is_collected_meanwhile(found: list[str], collects: bool, fails: bool) -> None:
    during: list[int] = []

    @seldom_collected
    def work() -> int:
        before = len(found)
        count = garbage()
        during.append(len(found) - before)
        if fails:
            raise KeyError(count)
        return count

    (gc.enable if collects else gc.disable)()
    gc.set_threshold(1)
    found.clear()  # whatever came before the test began
    for _ in range(3):
        try:
            assert work() == 1000
        except KeyError:
            assert fails
    assert during == [0, 0, 0]
    assert gc.isenabled() == collects
    garbage()
    assert bool(found) == collects


def test_a_program_has_its_way_meanwhile(found: list[str]) -> None:
    """It says how often, or that nothing is collected at all; and large amounts are collected in any case."""

    @seldom_collected
    def work(change: Callable[[], object] | None) -> int:
        if change is not None:
            change()
        return len([[] for _ in range(2 * MEANWHILE)])

    gc.enable()
    gc.set_threshold(1)
    found.clear()
    work(None)
    assert 1 <= len(found) <= 4
    gc.set_threshold(700)
    work(lambda: gc.set_threshold(500))
    assert gc.get_threshold()[0] == 500
    work(gc.disable)
    assert not gc.isenabled()
    gc.enable()
    gc.set_threshold(0)
    found.clear()
    work(None)
    assert gc.get_threshold()[0] == 0
    assert not found


def test_what_ends_on_two_threads_at_once_leaves_what_the_program_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second has seen that its own number still holds when the first puts back the program's."""
    before, begun, may_end = gc.get_threshold(), threading.Event(), threading.Event()
    ends: list[bool] = []

    @seldom_collected
    def first() -> None:
        begun.set()
        assert may_end.wait(100)

    @seldom_collected
    def second() -> None:
        ends.append(True)

    def let_the_first_end() -> None:
        may_end.set()
        thread.join(100)

    def asked() -> tuple[int, int, int]:
        found = gc.get_threshold()
        if ends and threading.current_thread() is not thread:
            let_the_first_end()
        return found

    thread = threading.Thread(target=first)
    monkeypatch.setattr(
        collecting, "gc", SimpleNamespace(get_threshold=asked, set_threshold=gc.set_threshold)
    )
    beside.wait()  # nobody else is inside such a function
    try:
        thread.start()
        assert begun.wait(100)
        assert gc.get_threshold() != before
        second()
        let_the_first_end()
        assert gc.get_threshold() == before
    finally:
        gc.set_threshold(*before)


def test_launches_are_planned_without_it(found: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    made, during = launches.make_plan, []

    def watched(*args: Any) -> Any:
        before = len(found)
        plan = made(*args)
        during.append(len(found) - before)
        return plan

    monkeypatch.setattr(launches, "make_plan", watched)
    program = Program(SOURCE, {"add": 1e-9}, workers=2)
    gc.enable()
    gc.set_threshold(1)
    for items in (1024, 2048, 4096):
        program.launch("add", (items,), (64,), program.buffer(4 * items), np.uint32(1))
    assert gc.isenabled()
    program.session.close()
    assert len(during) >= 3
    assert not any(during)
    assert found
