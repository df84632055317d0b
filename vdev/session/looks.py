"""Looks: where the program waits for results, and what its launches take from one look to the next.

Finds out whose periods these are: those of the account whose launches were weighed last. Hands them to `planner.periods`, which decides
what follows, with what the time model says of the launches in them.
"""

from __future__ import annotations

from vdev.planner.periods import Periods, Turn
from vdev.planner.regret import NOTHING
from vdev.session.accounts import Account
from vdev.session.way_times import WayTimes

#: looks after which launches over several workers that were not weighed in between are taken to be over
_PATIENCE = 256
#: looks of a program on one worker that are only counted before one is looked at again
_PASSING = 64


class Looks:
    """Those of one session. Under its lock."""

    def __init__(self, times: WayTimes) -> None:
        self._times = times
        self.account: Account | None = None  #: whose launches were weighed last
        self._at_ns = 0  #: of the last look
        self._nbytes = 0
        self._since = 0  #: looks since then
        #: Looks that whoever waits need only count, one less for each, while that account's launches take no plans: nothing follows from
        #: them, and a look takes the host as long as a part of a launch. And how many they were when the account was looked at.
        self.passes = self._given = 0
        #: when the last window ended: looks, and launches by kernel
        self._looks = 0
        self._launches: dict[int, int] = {}

    def weighed(self, account: Account) -> None:
        """Launches of an account were. While others are split, those on one worker are a part of their periods like anything else that
        the program does.
        """
        self._count_passed()
        if account is not self.account:
            others = self.account is not None and self.account.keeper is None and self._since < _PATIENCE
            if others and account.keeper is not None:
                return
            self.account, self._at_ns = account, 0
            self.passes = self._given = 0
            self._launches = {}
        self._since = 0

    def look(self, at_ns: int, nbytes: int) -> Turn:
        """The program waits for so many bytes."""
        passed = self._count_passed()
        self.passes = self._given = 0
        before_ns, self._at_ns = self._at_ns, at_ns
        before, self._nbytes = self._nbytes, nbytes
        account = self.account
        self._since += 1
        if account is not None:
            account.outlook.waited()
        if account is None or not before_ns or account.barred:
            return Turn.GO_ON
        split = account.keeper is None
        if not split and not account.thrifty:
            return Turn.GO_ON
        periods = account.periods
        if not split and not periods.on_trial:  # most looks of a program that is on one worker
            periods.pass_by((at_ns - before_ns) * 1e-9)
            if not account.tried:  # which is decided behind the first one
                self.passes = self._given = _PASSING
            return Turn.GO_ON
        if passed:  # what has passed since the last look was no single period
            return Turn.GO_ON
        if not periods.add((before, nbytes), (at_ns - before_ns) * 1e-9, split=split):
            return Turn.GO_ON
        if not split:
            return periods.end()
        turn = periods.compare()
        return self._judge(account, periods) if turn is Turn.GO_ON and periods.is_full else turn

    def _count_passed(self) -> int:
        """Enter the looks that were only counted since the last one; how many these were. The next look knows what time they took."""
        passed, self._given = self._given - self.passes, self.passes
        if passed and self.account is not None:
            self._since += passed
            self.account.periods.pass_by(0.0, passed)
        return passed

    def _judge(self, account: Account, periods: Periods) -> Turn:
        kernels = list(account.kernels.values())
        before, looks = self._launches, periods.looks - self._looks
        self._launches = {id(tally): tally.launches for tally, _, _ in kernels}
        self._looks = periods.looks
        if before.keys() != self._launches.keys() or looks <= 0:
            return periods.skip()
        split = one = NOTHING
        for tally, timing, _ in kernels:
            count = tally.launches - before[id(tally)]
            split += timing.typical[0].value.times(count)
            one += timing.typical[1].value.times(count)
        part = periods.in_window / looks  # of these launches, those in the window
        change = self._times.changing(list(account.buffers))
        return periods.judge(split.seconds * part, one.seconds * part, change)
