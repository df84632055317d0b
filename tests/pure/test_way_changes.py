"""Which kernels begin on one worker on new buffers, after their launches were brought to one and split again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from vdev.planner.timing import Least
from vdev.session.accounts import Account, Accounts
from vdev.session.kernel_timing import KernelTiming
from vdev.session.way_changes import WayChanges


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
