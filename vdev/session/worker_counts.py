"""Over how many of the workers launches on some buffers are split, as `planner.spans` weighs it.

Keeps the number in use with an account, its buffers and its kernels; takes another one where that takes less, has room, and pays
for the change. Whether launches are split at all is decided elsewhere.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from vdev.planner.launch_request import LaunchOptions
from vdev.planner.regret import Stake
from vdev.planner.spans import over
from vdev.planner.timing import Way
from vdev.session.accounts import Account, Accounts, have_room
from vdev.session.buffers import Occupancy, VirtualBuffer
from vdev.session.kernel_timing import KernelTiming
from vdev.session.samples import Samples
from vdev.session.way_times import WayTimes

logger = logging.getLogger("vdev.session.choosing")

#: seconds that launches have to lose over a number of workers, at least, before another number is taken: it takes new plans
_FLOOR_SPAN = 0.003
#: seconds that handing over a launch may take of which it is not known what it gains, if fewer workers take less
_MOST_UNKNOWN = 0.001


class WorkerCounts:
    """Those of one session's accounts. Under its lock."""

    def __init__(
        self,
        options: LaunchOptions,
        spans: Sequence[int],
        times: WayTimes,
        samples: Samples,
        accounts: Accounts,
        occupancy: Occupancy,
    ) -> None:
        """`spans`: the numbers of workers over which launches may be split."""
        self._options = options
        self._spans = tuple(spans)
        self._times = times
        self._samples = samples
        self._accounts = accounts
        self._occupancy = occupancy
        self._fewer: dict[int, LaunchOptions] = {}

    def over(self, span: int, options: LaunchOptions) -> LaunchOptions:
        """The session's `options` for launches that are split over this many workers."""
        if not 0 < span < len(options.workers):
            return options
        found = self._fewer.get(span)
        if found is None:
            found = replace(options, workers=options.workers[:span], fewer=True)
            self._fewer[span] = found
        return found

    def of(self, account: Account) -> int:
        """Over how many workers an account's launches are split."""
        return account.span or len(self._options.workers)

    def others(self, account: Account) -> tuple[int, ...]:
        """The numbers of workers to choose from; none if there is nothing to choose."""
        found = self._spans
        if account.cramped:
            found = tuple(span for span in found if span > account.cramped)
        return found if len(found) > 1 else ()

    def weigh(self, account: Account, ways: Mapping[int, Way], thought: float, *, goes_on: bool) -> None:
        moving, least = self._times.gathering(account.buffers), max(_FLOOR_SPAN, account.planned) / 2
        found = account.spans.weigh(
            self.of(account),
            ways,
            thought,
            lambda span: max(moving / span, least),
            goes_on=goes_on,
        )
        account.wanted = found if found is not None and self._has_room(account, found) else 0

    def take_fewer(self, account: Account, timing: KernelTiming, stake: Stake) -> bool:
        """Take fewer workers for a launch of which nothing is known, where handing it over to those in use would take longer than
        anybody should wait.
        """
        machine, now = self._times.machine, self.of(account)
        if timing.times.known or machine.handing_over(stake.workers, stake.messages) <= _MOST_UNKNOWN:
            return False
        for span in self.others(account):
            there = over(stake, now, span)
            if span < now and machine.handing_over(there.workers, there.messages) <= _MOST_UNKNOWN:
                return self._has_room(account, span) and self.take(account, span)
        return False

    def _has_room(self, account: Account, span: int) -> bool:
        """Whether the first workers have room for an account's buffers; otherwise so few are no candidates any more."""
        workers = self._options.workers[:span]
        enough = have_room(account, self._occupancy, workers, self.of(account))
        if not enough:
            account.cramped = max(account.cramped, span)
            account.spans.leave_out(span)
        return enough

    def take_other(self, account: Account) -> bool:
        """Take the number of workers over which an account's launches were found to be faster, if there is one."""
        span, account.wanted = account.wanted, 0
        account.spans.changes += span > 0
        return span > 0 and self.take(account, span)

    def narrow(self, account: Account) -> bool:
        """One worker takes less time than those in use: take a number of them that takes still less, if there is one."""
        # That it takes new plans was counted before it was wanted.
        if account.wanted and account.spans.is_worth(account.wanted):
            return self.take_other(account)
        account.wanted = 0
        while self.others(account):
            span = account.spans.instead_of_one(self.of(account))
            if span is None or self._has_room(account, span):
                return span is not None and self.take(account, span)
        return False

    def take_former(self, account: Account) -> bool:
        """Take the number of workers again that was in use before, since periods were shorter with it."""
        former, account.periods.former = account.periods.former, 0
        if not self._has_room(account, former):
            return False
        account.spans.changes += 1
        self.take(account, former)
        account.periods.former = 0  # which of the two is better is known
        return True

    def take(self, account: Account, span: int) -> bool:
        logger.info("launches on %d buffers are split over %d workers", len(account.buffers), span)
        former = self.of(account)
        self.set(account, span)
        account.remember(span)
        account.budget = self._times.spread(account.buffers)
        account.begin_way()
        account.periods.take_count(former)
        self._samples.recut = True
        return True

    def set(self, account: Account, span: int) -> None:
        """From now on, launches on an account's buffers are split over this many workers."""
        if span != account.span:
            account.span = span
            account.spans.changed()
            for buffer in account.buffers:
                buffer.span = span

    def widen(self, buffers: Sequence[VirtualBuffer]) -> bool:
        """Fewer workers have no room for a launch on `buffers`: split it over all. False where it was."""
        every = len(self._options.workers)
        if not any(0 < buffer.span < every for buffer in buffers):
            return False
        for buffer in buffers:
            buffer.span = every
            account = self._accounts.get(buffer)
            if account is not None:
                account.cramped = every - 1
                self.set(account, every)
        return True
