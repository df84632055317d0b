"""Which kernels begin on one worker on new buffers, after their launches were brought to one and split again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from vdev.planner.timing import Least
from vdev.session.accounts import Account, Accounts
from vdev.session.kernel_timing import KernelTiming
from vdev.session.way_changes import WayChanges, dearer


def changes_of_two_workers() -> WayChanges:
    machine: Any = SimpleNamespace(
        workers=(0, 1), unit=None, of=lambda account: 2, settle=lambda: None, free=lambda: [1 << 30, 1 << 30]
    )
    return WayChanges(machine, machine, Accounts(), machine, machine)


def account_of(*kernels: int) -> Account:
    found = Account()
    tally: Any = SimpleNamespace(launches=1)
    found.kernels = {kernel: (tally, KernelTiming(Least()), 0) for kernel in kernels}
    return found


def test_one_program_part_that_is_split_again_leaves_others_alone() -> None:
    changes = changes_of_two_workers()
    first, second = account_of(1, 2), account_of(3)
    assert changes.change(first, thrifty=True)
    assert changes.change(second, thrifty=True)
    assert changes.alone == {1, 2, 3}
    assert changes.change(first), "split again"
    assert changes.alone == {3}
    assert first.keeper is None


def test_returns_count_for_the_same_kernels_on_new_buffers() -> None:
    changes = changes_of_two_workers()
    account = account_of(1)
    for returns in range(3):
        assert changes.change(account, thrifty=True)
        assert changes.returns.get(1, 0) == returns
        assert changes.change(account)
        account.kernels = account_of(1).kernels


@pytest.mark.parametrize(("lost", "returns"), [(0.5e-3, 1), (3e-3, 1), (5e-3, 2), (0.1, 4), (1e9, 10)])
def test_a_trial_that_lost_more_than_was_expected_is_repeated_only_for_as_much(
    lost: float, returns: int
) -> None:
    """Splitting launches again was expected to take a millisecond: each return makes that four times as much, and one for which more was
    lost counts for several.
    """
    changes, account = changes_of_two_workers(), account_of(1)
    assert changes.change(account, thrifty=True)
    assert account.returns == 0
    account.gained, account.staked = -1.0, 1e-3
    assert changes.change(account)
    account.gained -= lost
    assert changes.change(account, thrifty=True)
    assert account.returns == returns
    assert returns == 10 or account.returns == 1 or lost <= 1e-3 * dearer(account.returns) < 4 * lost


def test_what_another_way_was_expected_to_take_counts_for_one_trial() -> None:
    changes, account = changes_of_two_workers(), account_of(1)
    assert changes.change(account, thrifty=True)
    account.staked = 1e-3
    for _ in range(2):
        assert changes.change(account)
        account.gained -= 0.1 * account.staked
        assert changes.change(account, thrifty=True)
    assert account.returns == 2, "none of them has lost more than was expected"


def test_one_worker_on_trial_is_no_choice_for_new_buffers_until_it_stays() -> None:
    changes, account = changes_of_two_workers(), account_of(1, 2)
    account.gained = 1.0
    assert changes.change(account, thrifty=True, on_trial=True)
    assert changes.alone == set()
    account.kernels.clear()
    changes.stay(account)
    assert len(changes.alone) == len(account.alone) > 0
    assert account.returns == 1, "what was measured makes leaving it more expensive"
    assert not account.tried
    assert changes.change(account), "split again"
    assert changes.alone == set()


def test_a_trial_that_several_workers_have_won_leaves_nothing() -> None:
    changes, account = changes_of_two_workers(), account_of(1, 2)
    assert changes.change(account, thrifty=True, on_trial=True)
    assert changes.change(account)
    assert not account.tried
    assert changes.alone == set()


@pytest.mark.parametrize("each", [3e-6, 50e-6, 5e-3])
def test_looks_take_a_small_part_of_the_time_of_launches(each: float) -> None:
    """Those of launches without plans, whether they would gain a little by being split or not."""
    timing, look, passed = KernelTiming(Least()), 3e-4, 0
    for launches in range(1, 20000):
        if timing.is_due_at(launches):
            passed += 1
            timing.looked_at(gains=False, each=each, look=look)
    assert passed * look <= 0.025 * launches * each
    assert passed * (0.02 + 2 * each) >= launches * each, "and at least one in a fiftieth of a second"
