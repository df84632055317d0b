"""When a mark is due behind commands that several workers are given together, for the age of the last one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from vdev.executor import together
from vdev.executor.mark import MARK_AFTER_NS
from vdev.executor.together import Together

WORKERS = 4


def _old_after(way: Together, executor: Any, clock: Any) -> int:
    """Nanoseconds after a wait of the program's from which on a mark is due."""
    executor.waits += 1
    clock.now_ns += 1 << 40
    began = clock.now_ns
    assert not way._is_old()  # it has just waited
    while not way._is_old():
        clock.now_ns += MARK_AFTER_NS // 8
    return int(clock.now_ns - began)


def test_marks_take_several_workers_no_larger_share_of_the_time_than_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Unless somebody waits for less than there is, who would wait for later commands as well."""
    executor, clock = (
        SimpleNamespace(all_workers=[None] * (WORKERS + 1), waits=0, early_waits=0),
        SimpleNamespace(now_ns=0),
    )
    monkeypatch.setattr(together, "time", SimpleNamespace(perf_counter_ns=lambda: clock.now_ns))
    way = Together(cast(Any, executor))
    assert _old_after(way, executor, clock) > WORKERS * MARK_AFTER_NS
    executor.early_waits += 1
    way._look_for_waits()
    assert MARK_AFTER_NS < _old_after(way, executor, clock) < 2 * MARK_AFTER_NS
    way._look_for_waits()  # the last wait was for all that there was
    assert _old_after(way, executor, clock) > WORKERS * MARK_AFTER_NS
