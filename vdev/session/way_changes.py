"""Changes of ways: from launches that are split over several workers to one worker that keeps their buffers, and back.

Decides on which worker buffers are kept, and what is forgotten with a way. When ways change is decided by those who weigh them.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from vdev.planner.launch_request import LaunchOptions
from vdev.planner.regret import Stretch, TwoWays
from vdev.planner.spans import ONE
from vdev.session.accounts import Account, Accounts, with_room
from vdev.session.buffers import Occupancy, VirtualBuffer
from vdev.session.kernel_timing import SETTLING
from vdev.session.way_times import WayTimes
from vdev.session.worker_counts import WorkerCounts

logger = logging.getLogger("vdev.session.choosing")

#: each return to one worker makes leaving it this many times more expensive; returns that count
_RETURN, _MOST_RETURNS = 4.0, 10
#: times what plans are expected to take that are made again where launches are split again: on a busy host they take longer
_PREPAID = 2


class WayChanges:
    """Those of one session's accounts. Under its lock."""

    def __init__(
        self,
        options: LaunchOptions,
        times: WayTimes,
        accounts: Accounts,
        counts: WorkerCounts,
        occupancy: Occupancy,
    ) -> None:
        self._options = options
        self._times = times
        self._accounts = accounts
        self._counts = counts
        self._occupancy = occupancy
        #: by the identity of their tallies, kernels of sequences that were found to lose by being split: on new buffers they
        #: begin on one worker
        self.alone: set[int] = set()
        #: by the identity of their tallies, kernels that were on one worker at the end of the program's last run: the returns that it
        #: counts for, and what was charged to several for each period
        self.kept_alone: dict[int, tuple[int, float]] = {}
        #: by the identity of their tallies, how often launches of kernels were split again without success: on new buffers, too, they
        #: have to gain the more
        self.returns: dict[int, int] = {}

    def change(self, account: Account, *, thrifty: bool = False, on_trial: bool = False) -> bool:
        """Take the other way for an account's buffers; `thrifty`: because of what planning took; `on_trial`: for some periods (`stay`).
        False where no worker has room for them.
        """
        ways: TwoWays | Stretch = account.thrift if thrifty or account.thrifty else account.ways
        if account.keeper is not None:
            self._split(account)
        elif not self._keep(account, thrifty, on_trial=on_trial):
            ways.changed()
            return False
        else:
            logger.info(
                "%d buffers are kept on worker %d: being split has cost their launches %.3g s so far",
                len(account.buffers),
                account.keeper,
                ways.regret or account.cutoff.seconds,
            )
        account.budget = ways.change / self._times.unit if self._times.unit else 0.0
        account.begin_way()
        account.set_way(account.buffers)
        return True

    def resume(self, account: Account, buffers: Sequence[VirtualBuffer]) -> bool:
        """Keep new buffers on the worker that kept those of an account which are gone, or on another one. False where none has room for
        them.
        """
        for buffer in buffers:
            account.enter(buffer)
        if account.keeper not in with_room(account, self._occupancy, self._options.workers):
            account.keep_on(None, thrifty=account.thrifty)
            if not self._keep(account, True, on_trial=False):
                return False
        self._accounts.without_plans[account] = None
        account.set_way(buffers)
        return True

    def _split(self, account: Account) -> None:
        """Launches are split that were on one worker."""
        logger.info("%d buffers are no longer kept on worker %d", len(account.buffers), account.keeper)
        was_thrifty = account.thrifty
        account.keep_on(None, thrifty=False)
        account.split_states.clear()
        account.tried = ()
        account.gained_before = account.gained
        account.returns += was_thrifty
        account.prepaid = _PREPAID * sum(timing.settling_seconds for _, timing, _ in account.kernels.values())
        account.remember(self._counts.of(account))
        self._accounts.without_plans.pop(account, None)
        self.alone -= account.alone | account.kernels.keys()
        account.alone.clear()

    def stay(self, account: Account) -> None:
        """One worker was tried, and is better, as whole periods were measured: so it is on new buffers and in the program's next run. It
        counts as a return to it.
        """
        kernels, account.tried = account.tried, ()
        account.returns += 1
        account.alone.update(id(tally) for tally, _ in kernels)
        self.alone |= account.alone
        for _, timing in kernels:
            if timing.cache is not None:
                timing.cache.keep_span(ONE, account.returns, account.periods.toll)

    def _keep(self, account: Account, thrifty: bool, *, on_trial: bool) -> bool:
        """Launches are on one worker from now on. False where none has room for all of their buffers."""
        keeper = self._roomiest(account, thrifty)
        account.keep_on(keeper, thrifty=account.thrifty if keeper is None else thrifty)
        if keeper is None:
            account.barred = True
            return False
        # Where launches shrink, those that lose come after some that have gained more: on new buffers, these are the first again.
        begin_split = thrifty and (on_trial or account.gained > 0)
        self._count_trial(account)
        account.dear, account.spent = max(account.dear, account.spent), 0.0
        if on_trial:
            account.tried = tuple([(tally, timing) for tally, timing, _ in account.kernels.values()])
        if begin_split:
            self.alone -= account.kernels.keys()
        else:
            account.alone.update(account.kernels)
            self.alone |= account.alone
        for kernel in account.kernels:
            self.returns[kernel] = max(self.returns.get(kernel, 0), account.returns)
        for _, timing, _ in account.kernels.values():
            timing.settling = SETTLING  # once they are split again, buffers are in other states
            timing.keep_cutoff(account.cutoff.below)
        if not begin_split:
            account.remember(ONE)
        if thrifty:
            self._accounts.without_plans[account] = None
        else:
            for buffer in account.buffers:
                account.split_states[buffer] = buffer.state
        return True

    @staticmethod
    def _count_trial(account: Account) -> None:
        """What launches have lost since they were split again is lost once more at most if it is tried once more: as much has to be to gain
        before that.
        """
        staked, account.staked = account.staked, 0.0
        lost = account.gained_before - account.gained
        while staked and staked * dearer(account.returns) < lost and account.returns < _MOST_RETURNS:
            account.returns += 1

    def _roomiest(self, account: Account, thrifty: bool) -> int | None:
        """The worker to keep an account's buffers on; None where none has room for all of them.

        `thrifty`: the one where others are kept because of what planning took: what is over soon may well meet.
        """
        able = with_room(account, self._occupancy, self._options.workers)
        if thrifty:
            near = {other.keeper for other in self._accounts.without_plans}
            return min(able, key=lambda worker: (worker not in near, worker), default=None)
        taken = [other.keeper for other in self._accounts.open if other.keeper is not None]
        return min(able, key=lambda worker: (taken.count(worker), worker), default=None)


def dearer(returns: int) -> float:
    """How many times more expensive it is to leave one worker after so many returns to it."""
    return _RETURN ** min(returns, _MOST_RETURNS)
