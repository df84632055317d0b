"""The collector of garbage does not come while a launch is planned, and comes afterwards as the program has it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.pure.test_choosing import Program
from vdev.process.uncollected import uncollected
from vdev.session import launches

SOURCE = "kernel void add(global uint *a, const uint b) { a[get_global_id(0)] += b; }"


@pytest.fixture
def found() -> Iterator[list[str]]:
    """The collections that begin; Python has them begin whenever anything was made."""
    phases: list[str] = []

    def note(phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
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

    @uncollected
    def work() -> int:
        before = len(found)
        count = garbage()
        during.append(len(found) - before)
        if fails:
            raise KeyError(count)
        return count

    (gc.enable if collects else gc.disable)()
    gc.set_threshold(1)
    for _ in range(3):
        try:
            assert work() == 1000
        except KeyError:
            assert fails
    assert during == [0, 0, 0]
    assert gc.isenabled() == collects
    garbage()
    assert bool(found) == collects


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
