"""A GPU's clock on the host's: what lies between two events takes what the GPU says, whenever the two clocks were compared."""

from __future__ import annotations

import ctypes
import time
from types import SimpleNamespace
from typing import Any

import pytest

from tests.pure.own_thread import on_this_thread
from vdev.backends.cuda.clock import Clock

#: nanoseconds of the GPU's clock
START, END = 5_000_000, 5_050_000


class Driver:
    """Events that are the times at which they were recorded; an event that is recorded a second time meanwhile is not there."""

    def __init__(self) -> None:
        self.at: dict[int, int | None] = {8: START, 9: END}
        self.asked = lambda: None

    def new_event(self) -> int:
        return len(self.at)

    def event_record(self, event: int, _: object) -> int:
        self.at[event] = 1_000_000
        return 0

    def event_elapsed(self, into: Any, first: int, last: int) -> int:
        self.asked()
        one, two = self.at[first], self.at[last]
        if one is None or two is None:
            return 600
        ctypes.cast(into, ctypes.POINTER(ctypes.c_float))[0] = (two - one) / 1e6
        return 0

    def check(self, result: int, what: str) -> None:
        if result:
            raise RuntimeError(what)


def clock_of(driver: Driver, monkeypatch: pytest.MonkeyPatch, readings: list[int]) -> Clock:
    reading = on_this_thread(lambda: readings.pop(0), time.perf_counter_ns)
    monkeypatch.setattr("time.perf_counter_ns", reading)
    cuda = SimpleNamespace(
        Stream=lambda non_blocking: SimpleNamespace(ptr=1),
        runtime=SimpleNamespace(eventSynchronize=lambda event: None),
    )
    driver.at |= {0: None, 1: None}
    driver.new_event = iter((0, 1)).__next__  # type: ignore[method-assign]
    return Clock(SimpleNamespace(cuda=cuda), driver)  # type: ignore[arg-type]


def test_what_a_command_took_is_the_gpus_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second comparison is 9 us off the first, by what the host did while it was made."""
    driver = Driver()
    clock = clock_of(driver, monkeypatch, [100, 100, 7_000_000, 7_000_000, 0, 0, 6_991_000, 6_991_000])
    asked = []

    def rebase_behind_the_first() -> None:
        asked.append(1)
        if len(asked) == 2:
            clock.rebase()

    driver.asked = rebase_behind_the_first
    began, ended = clock.span(8, 9)
    assert began == 7_000_000 + START - 1_000_000
    assert ended - began == END - START


def test_a_comparison_while_an_event_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver()
    clock = clock_of(
        driver,
        monkeypatch,
        [100, 100, 7_000_000, 7_000_000, 0, 0, 8_000_000, 8_000_000, 0, 0, 9_000_000, 9_000_000],
    )

    def rebase_twice() -> None:
        driver.asked = lambda: None
        clock.rebase()
        base = clock._base[0]
        clock.rebase()
        driver.at[base] = None

    driver.asked = rebase_twice
    assert clock.read(8) == 9_000_000 + START - 1_000_000


def test_events_the_wrong_way_round_and_events_that_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver()
    clock = clock_of(driver, monkeypatch, [0, 0, 0, 0])
    began, ended = clock.span(9, 8)
    assert began == ended
    driver.at[9] = None
    with pytest.raises(RuntimeError, match="time of an event"):
        clock.span(8, 9)
