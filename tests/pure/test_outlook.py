"""Launches that become smaller and smaller: what is to come of them, and when the rest takes less on one worker."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tests.pure.test_never_slower import Bench, Case, clocks, seconds
from vdev.planner.links import LinkCosts
from vdev.planner.outlook import Outlook, Rest, Shrinking
from vdev.planner.regret import Stake, Stretch
from vdev.planner.spans import ONE, Spans
from vdev.planner.timing import Least, MachineTimes, Way
from vdev.session.kernel_timing import SETTLING, KernelTiming
from vdev.session.way_times import WayTimes

__all__ = ["clocks"]


def shrinking(size: Callable[[int], int], launches: int = 40) -> Shrinking:
    found = Shrinking()
    for number in range(launches):
        found.add(number, size(number))
    return found


@pytest.mark.parametrize(
    ("size", "launches", "part"),
    [
        (lambda number: 1000 - 10 * number, 61, 1 / 2),
        (lambda number: (100 - number) ** 2, 61, 1 / 3),
        (lambda number: 100**3 - number**3, 75, 0.6),  # faster and faster
    ],
    ids=["evenly", "squares", "faster"],
)
def test_the_rest_follows_the_sizes_before(size: Callable[[int], int], launches: float, part: float) -> None:
    rest = shrinking(size).rest
    assert rest is not None
    assert rest.launches == pytest.approx(launches, rel=0.2)
    assert rest.part == pytest.approx(part, rel=0.1)


def test_of_sizes_that_shrink_more_and_more_slowly_no_more_is_foretold_than_to_where_they_stop() -> None:
    rest = shrinking(lambda number: 10**7 // (40 + number)).rest
    assert rest is not None
    assert 10 < rest.launches < 60
    assert 0.7 < rest.part < 1


@pytest.mark.parametrize(
    "size",
    [
        lambda number: 1000,
        lambda number: 1000 + number,
        lambda number: 1000 - 500 * (number % 2),
        lambda number: 1000 - number // 39,
        lambda number: 1000 - 10 * number + 15 * (number >= 35),
    ],
    ids=["constant", "growing", "in turns", "once", "grew in between"],
)
def test_nothing_is_foretold_of_others(size: Callable[[int], int]) -> None:
    assert shrinking(size).rest is None
    assert shrinking(lambda number: 1000 - number, 5).rest is None  # too few


def test_what_has_begun_again_does_not_end() -> None:
    sweep = [1000 - 10 * number for number in range(40)]
    found = Shrinking()
    for number, size in enumerate(sweep):
        found.add(number, size)
    assert found.rest is not None
    for number, size in enumerate(sweep):
        found.add(len(sweep) + number, size)
    assert found.rest is None


#: what launches take over several workers and on one: the host's part of the first is longer, the devices' shorter
SEVERAL, LOSING, GAINING = Way(3.0, 1.0), Way(1.0, 2.0), Way(1.0, 5.0)


def seen(several: Way, one: Way, *, before: Way | None = None) -> Outlook:
    outlook = Outlook()
    if before is not None:
        outlook.add(before, before, {})
    for _ in range(32):
        outlook.add(several, one, {0: 1})
    return outlook


def test_what_loses_goes_on_to_lose() -> None:
    outlook = seen(SEVERAL, LOSING)
    assert outlook.loses({0: Rest(100, 0.5)}, 100.0)
    assert not outlook.loses({0: Rest(100, 0.5)}, 300.0)  # the rest does not outweigh the change
    assert not outlook.loses({0: Rest(10, 0.5)}, 100.0)


def test_nothing_is_left_while_it_gains_or_may_gain_again() -> None:
    assert not seen(SEVERAL, GAINING).loses({0: Rest(100, 0.5)}, 1.0)
    assert not seen(SEVERAL, LOSING).loses({0: Rest(100, 0.5), 1: None}, 1.0)
    assert not seen(SEVERAL, LOSING).loses({}, 1.0)
    assert not seen(SEVERAL, LOSING).loses({1: Rest(100, 0.5)}, 1.0)  # not launched any more


def test_devices_that_are_behind_have_work_for_the_host_to_go_on() -> None:
    outlook = seen(SEVERAL, LOSING, before=Way(0.0, 1000.0))
    assert not outlook.loses({0: Rest(100, 0.5)}, 1.0)
    outlook.waited()  # now they are not
    assert outlook.loses({0: Rest(100, 0.5)}, 1.0)


def test_a_credit_is_taken_back_but_for_what_was_gained() -> None:
    stretch = Stretch(4.0)
    stretch.changed()
    stretch.weigh(Way(0.0, 0.0), Way(1.0, 1.0), 10.0)  # one second was gained
    stretch.take_back()
    stretch.weigh(Way(3.0, 3.0), Way(0.0, 0.0), 10.0)
    assert stretch.regret == 2.0


def test_while_the_host_plans_fewer_workers_are_as_fast() -> None:
    ways = {8: Way(2.0, 1.0), 4: Way(1.0, 3.0), ONE: Way(0.5, 12.0)}
    assert Spans(0.0).weigh(8, ways, 3.0, lambda span: 0.25) is None  # plans are made once
    assert Spans(0.0).weigh(8, ways, 3.0, lambda span: 0.25, goes_on=True) == 4


def planned(sizes: list[int]) -> KernelTiming:
    timing = KernelTiming(Least())
    for nitems in sizes:
        timing.was_planned(nitems, anew=True)
    return timing


def test_plans_that_are_made_for_each_launch_will_be_made_for_the_next() -> None:
    assert not planned([1000] * 11).never_recurs
    timing = planned([1000] * 12)
    assert timing.never_recurs
    timing.was_planned(1000, anew=False)  # one was used again
    assert not timing.never_recurs


def test_levels_of_a_grid_are_planned_once_each() -> None:
    assert not planned([4**level for level in (9, 9, 8, 8, 7, 7, 6, 6, 5, 5, 4, 4, 3, 3)] * 3).never_recurs


def passes(timing: KernelTiming, tiles: int, nitems: int = 1000) -> None:
    """All tiles of a matrix once more: each has a plan made."""
    for tile in range(tiles):
        timing.was_planned(nitems, anew=True, what=tile)
        timing.planned(1e-4, 1, once=timing.settles)


def test_what_comes_again_is_planned_only_until_states_come_again() -> None:
    timing = KernelTiming(Least())
    passes(timing, 64)
    assert timing.never_recurs, "nobody knows that they come again"
    passes(timing, 64)
    assert not timing.never_recurs
    for _ in range(SETTLING):
        passes(timing, 64)
    assert timing.never_recurs, "their plans are of no use"


def test_plans_of_what_comes_again_are_made_once() -> None:
    timing = KernelTiming(Least())
    passes(timing, 64)
    assert not timing.settles, "nobody knows that it comes again"
    for tile in range(64):
        timing.was_planned(1000, anew=True, what=tile)
        assert timing.settles
        timing.planned(1e-4, 1, once=True)
    timing.was_planned(1000, anew=True, what="something else")
    assert not timing.settles


def test_each_size_has_its_first_plans() -> None:
    """The levels of a grid: they are as many plans as there are levels, and none of them goes on."""
    timing = KernelTiming(Least())
    for level in range(9, 0, -1):
        passes(timing, SETTLING, 4**level)
        timing.was_planned(4**level, anew=True)
        assert not timing.settles
    assert timing.thought.value is None


def test_another_way_is_planned_anew() -> None:
    timing = KernelTiming(Least())
    for _ in range(2 + SETTLING):
        passes(timing, 3)
    assert not timing.settles
    timing.look_again()
    timing.was_planned(1000, anew=True, what=0)
    assert timing.comes_again
    assert timing.settles


def stake_of(moved: float, incoming: float, before: float, busiest: int = 1) -> Stake:
    return Stake(
        1, 0.5, None, (), moved, (0,), 0.0, True, 2, busiest, busiest, incoming=incoming, before=before
    )


def test_a_link_is_measured_by_what_has_arrived_and_without_latency() -> None:
    times = WayTimes(MachineTimes(latency=1.0, per_byte=0.5), LinkCosts.uniform(2), exchanges=True)
    assert times.unit_of(stake_of(1000.0, 500.0, 100.0), 21.0) == 0.2
    assert times.unit_of(stake_of(1000.0, 500.0, 100.0, busiest=20), 21.0) == 0.5  # nothing to be seen


def test_a_short_transfer_that_waited_for_the_host_says_nothing_of_a_link() -> None:
    times = WayTimes(MachineTimes(latency=1e-5, per_byte=1e-10), LinkCosts.uniform(2), exchanges=True)
    assert times.unit_of(stake_of(5000.0, 5000.0, 5000.0), 2e-3) is None
    assert times.unit_of(stake_of(5000.0, 5000.0, 5000.0), 8e-6) == 1e-10  # no more than what is assumed
    assert times.unit_of(stake_of(1e6, 1e6, 1e6), 2e-3) == pytest.approx(1.99e-9)  # a slow link


def test_where_one_sends_to_many_that_is_in_what_was_measured() -> None:
    timing, stake = KernelTiming(Least()), stake_of(1000.0, 100.0, 100.0)
    assert timing.exchanging(stake, 1000.0, 2.0) == 2000.0  # the busiest link counts, in or out
    for _ in range(3):
        timing.unit.add(7.0)  # what a byte takes that arrives
    assert timing.exchanging(stake, 1000.0, 2.0) == pytest.approx(700.0)


def test_links_that_were_not_measured_may_be_slow() -> None:
    times = WayTimes(MachineTimes(), LinkCosts.uniform(2), exchanges=True)
    buffers: Any = [SimpleNamespace(nbytes=1 << 20, state=SimpleNamespace(replicas=[0, 1]))]
    assert times.surely_gathering(buffers) > 4 * times.gathering(buffers)
    times.unit = 1e-10
    assert times.surely_gathering(buffers) == times.gathering(buffers)


def test_nothing_is_gathered_that_one_worker_has() -> None:
    times = WayTimes(MachineTimes(), LinkCosts.uniform(2), exchanges=True)
    buffers: Any = [
        SimpleNamespace(nbytes=1 << 30, state=SimpleNamespace(replicas=replicas))
        for replicas in ((), ((0, 0, 1 << 30),), ((0, 0, 1 << 29), (1, 1 << 29, 1 << 30)))
    ]
    assert times.gathering(buffers[:2]) == 0.0
    assert times.gathering(buffers) == times.changing(buffers[2:]) > 0.05


@pytest.mark.parametrize("workers", [2, 4])
def test_planning_that_never_ends_is_noticed_at_once(clocks: list[Bench], workers: int) -> None:
    """Each launch reads another row and column, and has a plan made: several workers gain nothing."""
    case = Case("shortest_paths", 4096, 400, {"relax": 4.7e-12})
    one, chosen = seconds(clocks, case, 1), seconds(clocks, case, workers)
    assert sum(chosen) <= sum(one) + 2.5e-3


@pytest.mark.parametrize("workers", [2, 4])
def test_a_factorisation_goes_home_before_its_end_has_lost_much(clocks: list[Bench], workers: int) -> None:
    case = Case("lu", 4096, 0, dict.fromkeys(("lu_tile", "lu_row", "lu_column", "lu_update"), 2.4e-11))
    one, chosen = seconds(clocks, case, 1), seconds(clocks, case, workers)

    assert sum(chosen) <= 1.12 * sum(one)
