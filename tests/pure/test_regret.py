"""The rule by which launches are split or run on one worker, against what is best in hindsight."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vdev.planner.regret import UNDISTURBED, Mean, Median, Recurring, TwoWays

#: by launch: what it takes in the first way and in the second
Costs = list[tuple[float, float]]

times = st.floats(0, 20, allow_nan=False, width=32)
sequences = st.lists(st.tuples(times, times), max_size=60)
#: stretches in which one way is the better one, long enough for changes
stretches = st.lists(
    st.tuples(times, times, st.integers(1, 30)).map(lambda item: [item[:2]] * item[2]), max_size=8
).map(lambda parts: list(itertools.chain(*parts)))
changes = st.floats(0.125, 40, width=32)


def run(costs: Sequence[tuple[float, float]], change: float) -> tuple[float, list[int]]:
    """What the rule pays, and the way of each launch."""
    ways, way, paid, taken = TwoWays(), 0, 0.0, []
    for both in costs:
        if ways.weigh(both[way], both[1 - way], change):
            ways.changed()
            way = 1 - way
            paid += change
        paid += both[way]
        taken.append(way)
    return paid, taken


def best(costs: Sequence[tuple[float, float]], change: float) -> float:
    """The least that can be paid by who knows all launches before, changing ways as often as is good."""
    first, second = 0.0, change
    for here, there in costs:
        first, second = (
            min(first + here, second + there + change),
            min(second + there, first + here + change),
        )
    return min(first, second)


@settings(max_examples=300)
@given(sequences | stretches, changes)
def test_never_more_than_three_times_the_best_in_hindsight(costs: Costs, change: float) -> None:
    paid, _ = run(costs, change)
    assert paid <= 3 * best(costs, change) + 2 * change + 1e-6


@settings(max_examples=200)
@given(sequences | stretches, changes)
def test_never_much_more_than_the_better_of_the_two_ways(costs: Costs, change: float) -> None:
    paid, _ = run(costs, change)
    fixed = min(sum(both[0] for both in costs), sum(both[1] for both in costs))
    assert paid <= 3 * (fixed + change) + 1e-6


@settings(max_examples=200)
@given(sequences | stretches, changes)
def test_a_change_is_paid_for_before_the_next(costs: Costs, change: float) -> None:
    """No oscillation: between two changes the way in use has lost twice what a change takes."""
    _, taken = run(costs, change)
    at = 0
    for way, group in itertools.groupby(taken):
        stretch = list(group)
        at += len(stretch)
        if at < len(taken):  # with the launch at `at` the way was left
            seen = costs[at - len(stretch) : at + 1]
            lost = max(sum(both[way] - both[1 - way] for both in seen[start:]) for start in range(len(seen)))
            assert lost >= 2 * change - 1e-6


@given(st.floats(0, 5), st.floats(0, 5), changes, st.integers(1, 200))
def test_a_constant_load_changes_ways_at_most_once(
    here: float, there: float, change: float, count: int
) -> None:
    _, taken = run([(here, there)] * count, change)
    assert sum(a != b for a, b in itertools.pairwise(taken)) <= 1
    if here <= there:
        assert not any(taken)


@given(st.floats(1, 5), changes, st.lists(st.floats(-0.4, 0.4), max_size=200))
def test_noise_changes_nothing(time: float, change: float, noise: list[float]) -> None:
    """Two ways that take the same, but for errors of measurement that outweigh each other."""
    pairs = [pair for error in noise for pair in ((time + error, time), (time - error, time))]
    _, taken = run(pairs, max(change, 1.0))
    assert not any(taken)


@given(sequences, changes)
def test_the_same_launches_end_in_the_same_ways(costs: Costs, change: float) -> None:
    assert run(costs, change) == run(costs, change)


def test_exchanges_change_the_way_and_gains_change_it_back() -> None:
    exchanging, gaining = (1.8, 1.0), (0.25, 1.0)
    _, taken = run([exchanging] * 28 + [gaining] * 28, 4.5)
    assert taken[:11] == [0] * 11
    assert taken[12:28] == [1] * 16
    assert taken[28:38] == [1] * 10
    assert taken[-10:] == [0] * 10


def test_joined_launches_have_both_regrets() -> None:
    first, second = TwoWays(), TwoWays()
    assert not first.weigh(2.0, 1.0, 1.0)
    assert not second.weigh(3.0, 1.0, 1.5)
    first.join(second)
    assert (first.regret, first.change) == (3.0, 2.5)
    assert first.weigh(3.0, 1.0, 1.0)


def test_a_mean_follows_what_is_measured() -> None:
    mean = Mean(0.5)
    assert mean.value is None
    for value in (4.0, 2.0):
        mean.add(value)
    assert mean.value == 3.0


@pytest.mark.parametrize("waited", [100.0, 0.01])
def test_a_median_ignores_what_is_far_off(waited: float) -> None:
    median = Median(5, 3)
    median.add(1.0)
    median.add(waited)
    assert median.value is None
    for value in (1.1, 0.9, 1.0, 1.2):
        median.add(value)
    assert 0.9 <= (median.value or 0) <= 1.2


def test_a_low_quantile_is_what_was_least_disturbed() -> None:
    low = Median(9, 3, UNDISTURBED)
    for value in (9.0, 1.0, 1.1, 5.0, 1.2, 8.0, 7.0, 1.3, 6.0):
        low.add(value)
    assert low.value == 1.2


def test_a_mean_of_many_values_at_once_counts_as_much_as_they_do() -> None:
    one, many = Mean(0.125), Mean(0.125)
    for mean in (one, many):
        mean.add(0.0)
    for _ in range(64):
        one.add(0.5)
    many.add(0.5, 64)
    assert many.value == pytest.approx(one.value)


def test_the_first_values_of_a_mean_may_count_evenly() -> None:
    mean = Mean(0.03, even=True)
    for value in (2.0, 2.0, 0.0, 0.0):
        mean.add(value)
    assert mean.value == pytest.approx(1.0)


def test_what_recurs_is_not_what_the_first_launch_brought() -> None:
    moved = Recurring(0.125)
    moved.add(0, 1000.0)
    assert moved.value is None, "it may never come again"
    moved.add(1, 10.0)
    assert moved.value == 10.0


def test_a_launch_that_is_looked_at_stands_for_those_before_it() -> None:
    seldom, always = Recurring(0.125), Recurring(0.125)
    for number in range(40):
        always.add(number, 8.0 if number < 8 else 1.0)
    for number, value in ((0, 8.0), (7, 8.0), (39, 1.0)):
        seldom.add(number, value)
    assert seldom.value == pytest.approx(always.value)
