"""What the program's own thread does between launches."""

from __future__ import annotations

import pytest

from vdev.planner.regret import NOTHING
from vdev.planner.timing import Way
from vdev.session.host_times import Clocks, HostTime

LAUNCH = Way(1e-3, 2e-3)  #: to hand over one launch, and for the devices


def run(host: HostTime, count: int, *, waits: int = 0, slept: int = 0, devices: float = 0.0) -> Way:
    """So many launches, one each 5 ms, of which the thread sleeps `slept` ms, and what was the last one's. `devices`: seconds
    that they take for other launches beside each.
    """
    found, total = NOTHING, 0.0
    for number in range(count):
        busy = (5 - slept) * number * 1_000_000
        clocks = Clocks(1, waits * number, 5 * number * 1_000_000, busy)
        host.met(5e-4, once=False)
        found = host.since(clocks, LAUNCH, 1, total)
        total += LAUNCH.device + devices
    return found


def test_what_is_neither_handing_over_nor_planning_is_the_programs_own() -> None:
    assert run(HostTime(), 10).host == pytest.approx(3.5e-3)


def test_what_devices_do_for_others_counts() -> None:
    assert run(HostTime(), 10, devices=7e-3).device == pytest.approx(7e-3)


@pytest.mark.parametrize(("waits", "slept"), [(1, 0), (0, 2)], ids=["a driver that spins", "one that sleeps"])
def test_nothing_is_known_where_the_program_waits(waits: int, slept: int) -> None:
    host = HostTime()
    assert run(host, 10, waits=waits, slept=slept) == NOTHING
    assert host.beside(1) == NOTHING


def test_what_is_done_once_does_not_count() -> None:
    host = HostTime()
    run(host, 10)
    host.met(0.0, once=True)
    assert host.since(Clocks(1, 0, 10**12, 10**12), LAUNCH, 1, 0.0) == NOTHING
    assert host.beside(2).host == pytest.approx(7e-3), "what was known before is"


def test_nor_does_what_follows_a_launch_for_which_something_is_done_once() -> None:
    """Memory is taken, and a kernel loaded, when it is handed over: after it was weighed."""
    host = HostTime()
    for number in range(10):
        host.met(0.0, once=number % 2 == 0)
        passed = 10 * number * 1_000_000
        assert host.since(Clocks(1, 0, passed, passed), LAUNCH, 1, 0.0) == NOTHING


def test_what_is_not_measured_any_more_is_forgotten_by_and_by() -> None:
    host = HostTime()
    run(host, 10)
    host.fade(0.5)
    host.fade(0.5)
    assert host.beside(2).host == pytest.approx(7e-3 / 4)
    run(host, 10)
    assert host.beside(2).host == pytest.approx(7e-3)
