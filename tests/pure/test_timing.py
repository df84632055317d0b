"""The model of time, and the rule by which it decides: what it says of launches that it has seen, and what it costs to follow it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vdev.observe.tallies import KernelTally
from vdev.planner.links import LinkCosts
from vdev.planner.regret import Stake, Stretch, TwoWays
from vdev.planner.spans import UNTRIED
from vdev.planner.timing import MOST_FLOOR, KernelTimes, Least, MachineTimes, Way
from vdev.session.kernel_timing import (
    FIRST_PLAN,
    FIRST_SAMPLES,
    SAMPLE_EVERY,
    SHORT,
    UNTIL_LOOKED_AT,
    KernelTiming,
)
from vdev.session.launch_plans import PlanHistory
from vdev.session.way_times import WayTimes

seconds = st.floats(0, 20, allow_nan=False, width=32)
ways = st.builds(Way, seconds, seconds)
#: what launches take in the way in use at first, and in the other
Pairs = list[tuple[Way, Way]]


def kernel(*launches: tuple[int, Sequence[float]]) -> KernelTimes:
    """The times of a kernel of which these launches were measured: work-items, and seconds of each chunk."""
    found = KernelTimes(Least())
    for nitems, chunks in launches:
        found.add(nitems, chunks)
    return found


def affine(nitems: float) -> float:
    """3 us that every launch takes, and 2 ns for a work-item."""
    return 3e-6 + 2e-9 * nitems


@given(st.lists(st.tuples(st.integers(10, 24), st.integers(1, 8)), min_size=1, max_size=20))
def test_times_with_a_fixed_and_a_proportional_part_are_predicted(
    launches: list[tuple[int, int]],
) -> None:
    found = kernel((1, [affine(0)]), *((1 << log, [affine((1 << log) / n)] * n) for log, n in launches))
    for log, chunks in launches:
        assert found.whole(1 << log) == pytest.approx(affine(1 << log), rel=1e-6)
        assert found.chunk(1 << log, 1 / chunks) == pytest.approx(affine((1 << log) / chunks), rel=1e-6)
    largest = max(log for log, _ in launches)
    assert found.whole(8 << largest) == pytest.approx(affine(8 << largest), rel=1e-6), "never seen"


@given(
    st.lists(
        st.tuples(st.integers(1, 1 << 24), st.lists(st.floats(0, 0.1), min_size=1, max_size=8)), min_size=1
    ),
    st.integers(1, 1 << 24),
    st.floats(0.01, 1.0),
)
def test_no_chunk_takes_longer_than_the_whole(
    launches: list[tuple[int, list[float]]], nitems: int, share: float
) -> None:
    found = kernel(*launches)
    assert found.known
    assert 0 <= found.chunk(nitems, share) <= found.whole(nitems) * (1 + 1e-9)
    assert found.chunk(nitems, 1.0) == found.whole(nitems)


def test_nothing_is_said_of_what_was_never_seen() -> None:
    found = kernel()
    assert not found.known
    assert found.whole(1000) == 0


def test_how_large_launches_may_be_that_small_ones_say_something_of() -> None:
    """What a small one takes is mostly what every launch waits for."""
    found = kernel()
    assert found.covered(1 << 30) == 1 << 30, "nothing is said of any"
    found = kernel((1 << 10, [5e-6]), (1 << 6, [5e-6]))
    assert [found.covered(nitems) for nitems in (1, 1 << 11, (1 << 12) - 1)] == [1, 1 << 11, (1 << 12) - 1]
    assert found.covered(1 << 12) == found.covered(1 << 40) == (1 << 12) - 1
    assert not found.covers(1 << 12)
    assert found.covers(found.covered(1 << 12))


def test_uneven_chunks_make_the_largest_share_larger() -> None:
    even, uneven = (kernel(*[(1000, chunks)] * 30) for chunks in ([1.0] * 4, [2.5, 0.5, 0.5, 0.5]))
    assert even.whole(1000) == pytest.approx(uneven.whole(1000), rel=1e-4)
    assert even.chunk(1000, 0.25) == pytest.approx(1.0, rel=1e-4)
    assert uneven.chunk(1000, 0.25) == pytest.approx(2.5, rel=1e-2)


def test_what_every_launch_takes_may_become_known_after_a_kernels_own_times() -> None:
    """Its first launches are the shortest that were seen so far, and seem to do nothing."""
    found = kernel((1 << 20, [affine(1 << 19)] * 2), (1 << 20, [affine(1 << 19)] * 2), (1, [affine(0)]))
    assert found.whole(1 << 20) == pytest.approx(affine(1 << 20), rel=1e-6)


def test_sizes_have_rates_of_their_own() -> None:
    """Many small launches on coarse grids do not say what the finest one takes."""
    found = kernel((1 << 22, [4e-3]), *[(1 << 10, [5e-6])] * 100)
    assert found.whole(1 << 22) == pytest.approx(4e-3, rel=0.01)
    assert found.whole(1 << 10) == pytest.approx(5e-6)


def test_a_drivers_work_at_a_kernels_first_launch_is_not_the_kernels_time() -> None:
    found = kernel((1 << 20, [1.4e-2, 2e-4]), *[(1 << 20, [2e-4, 2e-4])] * 2)
    assert found.whole(1 << 20) == pytest.approx(4e-4, rel=0.05)
    assert found.chunk(1 << 20, 0.5) == pytest.approx(2e-4, rel=0.1), "nor is it the largest share"


def test_one_launch_that_waited_counts_in_part() -> None:
    found = kernel(*[(1 << 20, [4e-4])] * 4, (1 << 20, [0.1]))
    assert found.whole(1 << 20) < 8e-4
    found = kernel(*[(1 << 20, [4e-4])] * 4, *[(1 << 20, [0.1])] * 30)
    assert found.whole(1 << 20) == pytest.approx(0.1, rel=0.02), "what stays is believed"


def test_two_launches_in_a_row_say_that_a_kernel_has_changed() -> None:
    """It goes over four times as much with as many work-items, and then over as much as before."""
    before, after = [(1 << 16, [64e-6])] * 4, [(1 << 16, [260e-6]), (1 << 16, [256e-6])]
    assert kernel(*before, after[0]).whole(1 << 16) < 200e-6, "one may have waited"
    assert kernel(*before, *after).whole(1 << 16) == pytest.approx(256e-6)
    apart = [(1 << 16, [took]) for took in (84e-6, 69e-6, 100e-6)]
    assert kernel(*before, *apart).whole(1 << 16) < 80e-6, "these are not in a row"
    assert kernel(*before, *after, *before[:2]).whole(1 << 16) == pytest.approx(64e-6)


def test_launches_that_alternate_are_known_by_their_mean() -> None:
    found = kernel(*[(1 << 16, [took]) for took in (64e-6, 64e-6, *[256e-6, 64e-6] * 20)])
    assert 100e-6 < found.whole(1 << 16) < 200e-6


def test_a_long_kernel_is_not_taken_for_what_every_launch_takes() -> None:
    assert kernel((1000, [0.5])).chunk(1000, 0.5) == pytest.approx(0.25 + MOST_FLOOR / 2)


def test_short_chunks_of_a_kernel_are_not_what_every_launch_takes() -> None:
    """Nothing shorter was seen: an eighth of the work takes 16 us, all of it much more."""
    assert kernel((1 << 22, [16e-6] * 8)).whole(1 << 22) > 3 * 16e-6


@given(st.integers(1, 16), st.integers(0, 50), st.floats(0, 1e9))
def test_more_costs_more(workers: int, messages: int, cost: float) -> None:
    machine = MachineTimes()
    assert machine.handing_over(1, 0) == machine.launch
    assert machine.handing_over(workers + 1, messages) > machine.handing_over(workers, messages)
    assert machine.handing_over(workers, messages + 1) > machine.handing_over(workers, messages)
    assert machine.exchanging(messages + 1, cost) > machine.exchanging(messages, cost)
    assert machine.exchanging(messages, cost + 1e6) > machine.exchanging(messages, cost)
    assert machine.exchanging(0, 0.0) == 0


def test_a_plan_made_together_with_a_translation_does_not_count_as_usual() -> None:
    timing = KernelTiming(Least())
    assert timing.believed(0.1) == FIRST_PLAN
    timing.planned(timing.believed(0.1), 1, once=True)
    timing.planned(timing.believed(2e-3), 1, once=True)
    assert timing.believed(0.1) < 6e-3
    for _ in range(40):
        timing.planned(timing.believed(0.1), 1, once=True)
    assert timing.believed(0.1) == 0.1, "what stays is believed"


# the rule -------------------------------------------------------------------------------------------


def follow(pairs: Pairs, change: float, credit: float) -> list[int]:
    """The way of each launch."""
    rule, way, taken = Stretch(credit), 0, []
    for both in pairs:
        if rule.weigh(both[way], both[1 - way], change):
            rule.changed()
            way = 1 - way
        taken.append(way)
    return taken


@settings(max_examples=200)
@given(st.lists(st.tuples(seconds, seconds), max_size=60), st.floats(0.125, 40, width=32), st.booleans())
def test_with_a_single_resource_it_is_the_rule_for_two_ways(
    costs: list[tuple[float, float]], change: float, host: bool
) -> None:
    one, other, way = Stretch(), TwoWays(), 0
    for both in costs:
        here, there = both[way], both[1 - way]
        first, second = (Way(here, 0), Way(there, 0)) if host else (Way(0, here), Way(0, there))
        known = other.weigh(here, there, change)
        # sums of other orders may differ in their last digits
        if abs(other.regret - 2 * change) > 1e-6 and other.regret > 1e-6:
            assert one.weigh(first, second, change) == known
        else:
            one.here, one.there = Way(other.regret, other.regret), Way(0, 0)
        if known:
            one.changed()
            other.changed()
            way = 1 - way


@given(st.lists(st.tuples(ways, ways), min_size=1, max_size=12), st.floats(0.125, 40, width=32))
@settings(max_examples=200)
def test_a_sequence_that_recurs_ends_in_its_better_way(period: Pairs, change: float) -> None:
    """With a credit that a whole period cannot use up, launches that gain and lose by turns change nothing; and no more is lost than
    the credit, the change and some periods.
    """
    totals = [sum((both[way] for both in period), Way(0, 0)) for way in (0, 1)]
    swing = sum(both[way].host + both[way].device for both in period for way in (0, 1))
    difference = totals[0].seconds - totals[1].seconds
    taken = follow(period * 20, change, 2 * swing)
    assert sum(a != b for a, b in itertools.pairwise([0, *taken])) <= 2, (
        "there, and back if that was too early"
    )
    if 20 * abs(difference) > 2 * (2 * change + 5 * swing):
        assert taken[-1] == (difference > 0)


def test_the_hosts_work_meanwhile_costs_nothing() -> None:
    rule = Stretch()
    for _ in range(1000):
        assert not rule.weigh(Way(0.9, 1.0), Way(0.1, 1.0), 0.01)
    assert rule.regret == 0
    assert rule.weigh(Way(1.2, 1.0), Way(0.1, 1.0), 0.01)


def test_launches_that_gain_pay_for_those_that_lose_in_the_same_sequence() -> None:
    gains, loses = (Way(0, 1.0), Way(0, 4.0)), (Way(0, 1.0), Way(0, 0.0))
    assert not any(follow([gains, loses, loses] * 50, 0.4, 5.0))
    assert any(follow([gains, loses, loses] * 50, 0.4, 0.0)), "without credit it goes to and fro"
    assert follow([gains, *[loses] * 20], 0.4, 5.0)[-1] == 1, "not for ever"


def test_joined_stretches_have_the_launches_of_both() -> None:
    first, second = Stretch(), Stretch()
    assert not first.weigh(Way(2, 0), Way(1, 0), 1.0)
    assert not second.weigh(Way(0, 3), Way(0, 1), 2.0)
    first.join(second)
    assert first.here == Way(2, 3)
    assert first.there == Way(1, 1)


def test_splitting_costs_the_host_at_least_as_much_as_a_launch_without_a_plan() -> None:
    """Where nothing was measured of the machine, what launches without plans take says how fast its host is."""
    tally = KernelTally("kernel", 1, 1)
    times = WayTimes(
        MachineTimes(), LinkCosts.between([("a", 1.0)] * 2, host=1.0, per_run=1.0), exchanges=True
    )
    timing, stake = times.timing(tally), Stake(1, 0.5, None, (), 0.0, (), 0.0, False, workers=2, messages=2)
    assert times.split_way(timing, stake).host == pytest.approx(MachineTimes().handing_over(2, 2))
    for _ in range(3):
        times.handed_over_at_once(1e-4)
    assert times.one_way(timing, 1).host == pytest.approx(1e-4)
    assert times.split_way(timing, stake).host == pytest.approx(10 * MachineTimes().handing_over(2, 2))
    ways = [times.way_over(timing, stake, 1, 2, span).host for span in (2, 4)]
    assert 1e-4 < ways[0] < ways[1]


def test_handing_over_more_transfers_takes_longer_than_what_was_measured() -> None:
    tally, machine = KernelTally("kernel", 1, 1), MachineTimes()
    times = WayTimes(machine, LinkCosts.uniform(16), exchanges=True)
    few, many = (Stake(1, 1 / 16, None, (), 0.0, (), 0.0, False, 16, messages) for messages in (10, 200))
    plan = SimpleNamespace(growth=())
    cached: Any = SimpleNamespace(direct=False, stake=few, plan=plan, filled=False, history=PlanHistory())
    for _ in range(2):  # which come with what is done once
        times.handed_over(tally, cached, 100 * machine.handing_over(16, 10))
    for _ in range(3):
        times.handed_over(tally, cached, 2 * machine.handing_over(16, 10))
    timing = times.timing(tally)
    assert times.split_way(timing, few).host == pytest.approx(2 * machine.handing_over(16, 10))
    assert times.split_way(timing, many).host == pytest.approx(2 * machine.handing_over(16, 200))
    assert times.way_over(timing, many, 1, 16, 16).host == pytest.approx(
        UNTRIED * 2 * machine.handing_over(16, 200)
    )


def test_what_a_sample_takes_of_the_host_says_nothing_of_launches_without_one() -> None:
    """Once in a while a few launches in a row are sampled for their balance: each took 0.6 to 1.2 ms of a host that hands others over
    in 0.15 ms, and for kernels of 0.9 ms that spoke against splitting them.
    """
    tally, machine, stake = KernelTally("kernel", 1, 1), MachineTimes(), _stake(64)
    times, plan = WayTimes(machine, LinkCosts.uniform(16), exchanges=True), SimpleNamespace(growth=())
    cached: Any = SimpleNamespace(direct=False, stake=stake, plan=plan, filled=False, history=PlanHistory())
    usual = machine.handing_over(stake.workers, stake.messages)
    for _ in range(9):
        times.handed_over(tally, cached, 10 * usual, sampled=True)
    timing = times.timing(tally)
    assert times.split_way(timing, stake).host == pytest.approx(usual), "nothing is known yet"
    for _ in range(3):
        times.handed_over(tally, cached, 2 * usual)
        times.handed_over(tally, cached, 10 * usual, sampled=True)
    assert times.split_way(timing, stake).host == pytest.approx(2 * usual)


def test_launches_that_differ_are_weighed_each_with_its_own_stake() -> None:
    timing, large, small = KernelTiming(Least()), _stake(1 << 20), _stake(64)
    timing.stake = small
    for _ in range(3):
        timing.passes(large)
    timing.passes(small)
    assert timing.take_passed(6) == [(large, 3), (small, 1), (small, 2)], (
        "those that are repeated are like the last one"
    )
    assert timing.take_passed(2) == [(small, 2)], "they are weighed once"
    timing.passes(large)
    timing.passes(large)
    assert timing.take_passed(1) == [(small, 1)], "of which some did not take place"


def test_of_a_short_kernel_the_first_launches_are_not_sampled_that_are_like_one_before() -> None:
    timing = KernelTiming(Least())
    assert timing.samples_direct(1, 1000), "nothing is known"
    timing.times.add(1000, [SHORT / 2])
    assert not timing.samples_direct(2, 1023)
    assert timing.samples_direct(2, 1024), "of that size nothing was measured"
    assert timing.samples_direct(SAMPLE_EVERY, 1000)
    assert timing.samples_direct(FIRST_SAMPLES + 1, 4000), "much larger than all before"
    assert not timing.samples_direct(FIRST_SAMPLES + 1, 1)
    timing.times.add(4000, [2 * SHORT])
    assert timing.samples_direct(FIRST_SAMPLES, 4000), "it is long"
    assert not timing.samples_direct(FIRST_SAMPLES + 1, 4000)


def test_the_first_looks_at_launches_on_one_worker_follow_each_other_soon() -> None:
    timing = KernelTiming(Least())
    assert timing.weight(1) * FIRST_SAMPLES == UNTIL_LOOKED_AT
    assert timing.weight(UNTIL_LOOKED_AT) == UNTIL_LOOKED_AT
    timing.direct = FIRST_SAMPLES
    assert timing.weight(1) == 1


def test_whether_a_launch_will_be_due_is_told_without_counting_it() -> None:
    """Those that are not asked about count all the same when the next one is."""
    asked, told = KernelTiming(Least()), KernelTiming(Least())
    launches = 0
    for step in (1, 1, 3, 1, 7, 20, 1, 1, 64, 2, 300, 1):
        launches += step
        due = asked.is_due_at(launches)
        assert told.will_be_due_at(launches) is told.will_be_due_at(launches) is due
        if due:
            assert told.is_due_at(launches)
            for timing in (asked, told):
                timing.looked_at(gains=True)


def _stake(nitems: int) -> Stake:
    return Stake(nitems, 0.5, None, (), 0.0, (), 0.0, False)
