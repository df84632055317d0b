"""What first plans may take: of a session, and of the launches on some buffers."""

from __future__ import annotations

import pytest

from vdev.planner.budget import Budget, Fund


def test_plans_take_a_tenth_of_the_time_on_one_worker() -> None:
    fund = Fund()
    assert fund.left == 0
    fund.earn(0.5, 0.5)
    assert fund.left == pytest.approx(0.05)
    fund.spend(0.02)
    assert fund.left == pytest.approx(0.03)


def test_what_was_gained_pays_for_more_plans_and_losses_take_none_away() -> None:
    fund = Fund()
    fund.earn(0.1, 0.025)
    assert fund.left == pytest.approx(0.085)
    fund.earn(0.1, 0.3)
    assert fund.left == pytest.approx(0.095)


def test_a_plan_that_is_tried_leaves_as_much_for_others() -> None:
    fund = Fund()
    fund.earn(0.1, 0.1)
    fund.excuse(0.005)
    fund.spend(0.005)
    assert fund.left == pytest.approx(0.01)


def test_what_was_begun_on_purpose_is_not_left_for_the_next_plan() -> None:
    fund = Fund()
    fund.earn(0.1, 0.1)
    fund.spend(0.015)
    assert not fund.committed
    fund.granted = True
    assert fund.committed
    fund.spend(0.03)
    assert not fund.committed, "but neither for ever"


def test_funds_of_buffers_that_meet_are_one() -> None:
    fund, other = Fund(), Fund()
    fund.earn(0.1, 0.1)
    other.earn(0.2, 0.1)
    other.spend(0.05)
    other.granted = True
    fund.join(other)
    assert fund.left == pytest.approx(0.03 + 0.1 - 0.05)
    assert fund.granted


def test_what_a_plan_takes_is_what_the_last_ones_took() -> None:
    budget = Budget()
    assert 1e-3 <= budget.expected <= 1e-2, "of a machine of which nothing is known"
    assert Budget(0.02).expected == 0.02
    for seconds in (1e-4, 2e-4, 5e-2):
        budget.made(seconds)
    assert budget.expected == 2e-4
    assert [budget.like(latest) for latest in (0.0, 1e-4, 5e-2)] == [2e-4, 1e-4, 4e-4]


def test_the_next_run_is_told_what_a_plan_takes_if_it_is_news() -> None:
    budget, told = Budget(3e-3), []
    for _ in range(9):
        budget.made(3.1e-3)
        told.append(budget.news())
    assert told == [None] * 9
    for _ in range(55):
        budget.made(1e-2)
        told.append(budget.news())
    assert told[9:] == [None] * 54 + [1e-2]


def test_gains_pay_for_plans_of_others_up_to_some() -> None:
    budget = Budget()
    assert not budget.pools(1e-6)
    budget.earn(1.0, 0.97)
    assert budget.pools(0.03)
    budget.made(0.02)
    assert budget.pools(0.01)
    assert not budget.pools(0.011)
    budget.earn(10.0, 1.0)
    assert not budget.pools(1.0)
