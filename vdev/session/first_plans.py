"""First plans: whether a launch that has no plan yet is to have one made, or its buffers are kept on one worker until that is worth it.

A plan takes milliseconds, which short programs never make up for. So launches begin on one worker, where they need none; what they
take is measured there, and `one_worker` has them split once plans are a small part of that (`planner.budget`). But for launches that
may be long, whose buffers are so large that to bring them to one worker takes longer than a plan, that gain as much as a plan takes, or
that the program's last run has found to gain. The same holds for launches that are split already, as long as they have gained nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from math import prod

from vdev.planner.budget import Budget
from vdev.planner.launch_request import LaunchOptions
from vdev.planner.launch_search import runs_at_once
from vdev.planner.regret import Stake, weighty
from vdev.session.accounts import Account, Accounts
from vdev.session.buffers import VirtualBuffer
from vdev.session.kernel_timing import KernelTiming
from vdev.session.launch_plans import LaunchCache
from vdev.session.one_worker import OneWorker
from vdev.session.samples import Samples
from vdev.session.way_changes import WayChanges
from vdev.session.way_times import FLOOR, WayTimes
from vdev.session.worker_counts import WorkerCounts
from vdev.translators.interpreter.work import most_asked
from vdev.translators.ranges.ndrange import NDRange

logger = logging.getLogger("vdev.session.choosing")

#: launches that make up for a plan that is made once: so many are likely to follow
_SOON = 16
#: so many times what it takes to bring large buffers to one worker and back is what plans take before that is done
_PATIENCE = 3
#: and at most so many plans
_MOST_PLANS = 8
#: bytes a second that a GPU's memory gives at least
_LEAST_RATE = 1e12


class FirstPlans:
    """Those of one session. Under its lock."""

    def __init__(
        self,
        options: LaunchOptions,
        times: WayTimes,
        accounts: Accounts,
        samples: Samples,
        counts: WorkerCounts,
        changes: WayChanges,
        one: OneWorker,
    ) -> None:
        self._options = options
        self._times = times
        self._accounts = accounts
        self._samples = samples
        self._counts = counts
        self._changes = changes
        self._one = one

    def saves(
        self, cache: LaunchCache, ndrange: NDRange, buffers: Sequence[VirtualBuffer], now_ns: int
    ) -> bool:
        """A launch on `buffers` has no plan yet. True where it is to have none: they are kept on one worker from now on. `now_ns`: by
        the host's clock.
        """
        if self._is_paid_for(cache, buffers):
            return False
        states = [buffer.state for buffer in buffers]
        if cache.trusted or any(state.fine or state.kept is not None for state in states):
            return False
        large = [buffers[slot] for slot in weighty(states, self._options.links, small=True)]
        accounts = list(dict.fromkeys(filter(None, map(self._accounts.get, large))))
        if not large or any(account.keeper is not None or account.barred for account in accounts):
            return False
        self._samples.read()
        if self._pays(cache, ndrange, large, accounts, now_ns):
            return False
        account = self._accounts.joined(large, None)
        account.span = account.span or len(self._options.workers)
        if not self._changes.change(account, thrifty=True):
            return False
        account.saving = not account.fund.granted
        logger.debug("%s has no plan for now: it would take too much of the time so far", cache.tally.name)
        return True

    def _is_paid_for(self, cache: LaunchCache, buffers: Sequence[VirtualBuffer]) -> bool:
        """Whether all buffers that count belong together, and their launches are split and have paid for the plan. Nearly always, where
        each launch is planned.
        """
        account: Account | None = None
        for buffer in buffers:
            if buffer.account is not account and buffer.account is not None:
                if account is not None:
                    return False
                account = buffer.account
        if account is None or account.keeper is not None:
            return False
        plan = self._times.budget.like(self._times.timing(cache.tally).latest_plan)
        return plan <= account.fund.left

    def _pays(
        self,
        cache: LaunchCache,
        ndrange: NDRange,
        large: Sequence[VirtualBuffer],
        accounts: Sequence[Account],
        now_ns: int,
    ) -> bool:
        """Whether a plan is made."""
        budget, timing = self._times.budget, self._times.timing(cache.tally)
        plan = budget.like(timing.latest_plan)
        every = dict.fromkeys(buffer for account in accounts for buffer in account.buffers)
        there_and_back = 2 * self._times.gathering(every | dict.fromkeys(large))
        left = sum(account.fund.left + self._under_way(account, now_ns) for account in accounts)
        is_large = plan <= there_and_back
        if plan <= left + is_large * min(_PATIENCE * there_and_back, max(_MOST_PLANS * plan, FLOOR)):
            return True
        workers = self._counts.of(accounts[0]) if accounts else len(self._options.workers)
        gains = [self._mean_gain(account) for account in accounts]
        if timing.times.known:
            stake = self._one.stake_alone(timing, ndrange)
            gains.append(self._gain(timing, stake, cache.tally.launches, workers))
        gain = max(gains, default=0.0)
        soon = _SOON
        committed = [account for account in accounts if account.fund.committed]
        if committed:  # as many are likely to follow as there were
            before = [tally.launches for account in committed for tally, _, _ in account.kernels.values()]
            soon = max(soon, max(before) // 4)
        elif not is_large and not budget.pools(plan):
            soon = 1
        if timing.never_recurs and all(map(_never_recurs, accounts)):
            soon = 1
        if gain * soon >= plan:
            return True
        if timing.times.known:
            return False
        return self._may_be_long(cache, ndrange, plan) and self._tries(cache, large, plan, now_ns)

    def _gain(self, timing: KernelTiming, stake: Stake, launches: int, workers: int) -> float:
        """Seconds that a launch gains by being split, as far as is known."""
        split = self._times.way_over(timing, stake, launches, workers, workers)
        return self._times.one_way(timing, stake.nitems).seconds - split.seconds

    def _mean_gain(self, account: Account) -> float:
        """Seconds that launches of an account which are split gain, each kernel's last one; 0 where none are known."""
        found = [
            self._gain(timing, timing.stake, tally.launches, self._counts.of(account))
            for tally, timing, _ in account.kernels.values()
            if timing.times.known and timing.stake is not None
        ]
        return sum(found) / len(found) if found else 0.0

    def _under_way(self, account: Account, now_ns: int) -> float:
        """Seconds that launches under way, of unknown length, have gained so far: they have not come to an end."""
        fund = account.fund
        if all(timing.times.known for _, timing, _ in account.kernels.values()):
            fund.since_ns = 0
        if not fund.since_ns:
            return 0.0
        return max(now_ns - fund.since_ns, 0) * 1e-9 * (self._counts.of(account) - 1)

    def _may_be_long(self, cache: LaunchCache, ndrange: NDRange, plan: float) -> bool:
        """Whether a launch of which nothing is known may gain as much as its plan takes, by what is asked of memory at most."""
        summary = cache.summary
        asked = None if summary is None else most_asked(summary)
        part = 1 - 1 / len(self._options.workers)
        if runs_at_once(prod(ndrange.num_groups), ndrange.nitems, self._options.compute_units):
            return False
        return asked is None or asked * ndrange.nitems / _LEAST_RATE * part >= plan

    def _tries(self, cache: LaunchCache, large: Sequence[VirtualBuffer], plan: float, now_ns: int) -> bool:
        """Whether a launch of which nothing is known is tried, with a plan that takes so long."""
        program = cache.program
        if not Budget.may_try(program.tried):
            return False
        program.tried += 1
        fund = self._accounts.joined(large, None).fund
        fund.excuse(plan)
        fund.since_ns = fund.since_ns or now_ns + round(plan * 1e9)
        return True


def _never_recurs(account: Account) -> bool:
    """Whether no plan of its launches will be used again."""
    return all(timing.never_recurs for _, timing, _ in account.kernels.values())
