"""Launches without plans, on the one worker that keeps their buffers: which are, and when they are split again.

What splitting them would take is known from before; from time to time they have plans again, which tell what they exchange by now.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from math import prod

from vdev.observe.tallies import KernelTally
from vdev.planner.launch_request import LaunchOptions
from vdev.planner.launch_search import runs_at_once
from vdev.planner.regret import NOTHING, Stake, keepers, weighty
from vdev.planner.spans import WORTH
from vdev.planner.timing import Way
from vdev.session.accounts import Account, Accounts
from vdev.session.buffers import VirtualBuffer
from vdev.session.commands import Launch
from vdev.session.kernel_timing import LONG_UNKNOWN, SHORT, UNTIL_LOOKED_AT, KernelTiming
from vdev.session.looks import Looks
from vdev.session.presuming import is_short
from vdev.session.samples import Samples
from vdev.session.way_changes import WayChanges, dearer
from vdev.session.way_times import FLOOR, FLOOR_HANDS, WayTimes
from vdev.session.worker_counts import WorkerCounts
from vdev.translators.ranges.ndrange import NDRange
from vdev.translators.values import replace

logger = logging.getLogger("vdev.session.choosing")

#: of the time of launches without plans, what plans may take that tell what they would exchange
_SEEING = 0.02
#: each time makes the next one later by so much of the first, up to so many times that
_LATER, _LATEST = 0.5, 4.0
#: what planning and the program itself took of the host is forgotten by so much with each launch that is made without a plan; by
#: half as much after each return
_FORGET_THOUGHT = 0.001
#: launches of a kernel that is presumed to be short after which its first ones are through, or it is not: to hand over as many takes the
#: host longer than those take together that are not measured
_SOON_MEASURED = 16


class OneWorker:
    """Such launches of one session. Under its lock."""

    def __init__(
        self,
        options: LaunchOptions,
        times: WayTimes,
        accounts: Accounts,
        samples: Samples,
        looks: Looks,
        counts: WorkerCounts,
        changes: WayChanges,
        *,
        by_size: bool,
    ) -> None:
        """`by_size`: a launch's size decides if it takes a plan, and no times."""
        self._options = options
        self._times = times
        self._accounts = accounts
        self._samples = samples
        self._looks = looks
        self._counts = counts
        self._changes = changes
        self._by_size = by_size
        #: by the identity of their tallies, kernels that begin on one worker only since they are presumed to be short; and whether all are
        self._presumed: set[int] = set()
        self._presumes = options.compute_units > 0 and not by_size

    def presume(self, tally: KernelTally, launch: Launch) -> None:
        """The first launch of a kernel of which nothing is known: it begins on one worker, if it is presumed to be short like all before
        it.
        """
        if not self._presumes:
            return
        if self._is_short(tally, launch.ndrange.nitems, launch):
            self._presumed.add(id(tally))
            self._changes.alone.add(id(tally))
        else:
            self.presume_no_more()

    def presume_no_more(self) -> None:
        """A launch is not short: what it uses is not kept on one worker because of what was before it, and nor are other buffers, with
        which it may meet. That is no return to one worker that failed.
        """
        self._presumes = False
        self._changes.alone -= self._presumed
        self._presumed.clear()
        for account in [account for account in self._accounts.without_plans if account.presumed]:
            account.presumed = False
            self._changes.change(account)
            account.returns, account.prepaid = 0, 0.0  # nor has it gained any plans, or other credit
            account.thrift.take_back()
            account.hands.take_back()

    def keeper(
        self, buffers: Sequence[VirtualBuffer], tally: KernelTally, nitems: int, launch: Launch | None = None
    ) -> int | None:
        """The worker on which a launch of so many work-items on these buffers runs without a plan; None where it takes one. `launch`: as
        it is, where it is submitted.
        """
        if launch is not None and self._presumes and not self._is_short(tally, nitems, launch):
            self.presume_no_more()
        keeper = self._accounts.kept_together(buffers)
        if keeper is None:  # nearly never, if there are such accounts
            keeper = self._keeper(buffers, tally, nitems, launch)
        return None if keeper is not None and self._is_outgrown(buffers, tally, nitems) else keeper

    def _is_refuted(self, buffers: Sequence[VirtualBuffer]) -> bool:
        """Whether what is presumed of a kernel is wrong: it was measured, or a device is still at work on one of its first launches after
        many more, as what runs far ahead of the device must not wait for that. True where that concerns launches on these buffers.
        """
        if not self._presumes or self._samples.take_long(_SOON_MEASURED).isdisjoint(self._presumed):
            return False
        concerned = any(account.presumed for buffer in buffers if (account := buffer.account) is not None)
        self.presume_no_more()
        return concerned

    def _is_outgrown(self, buffers: Sequence[VirtualBuffer], tally: KernelTally, nitems: int) -> bool:
        """Whether a launch of so many work-items is not below the cutoff: then launches on its buffers are planned again, until those
        below are found to lose by that once more.
        """
        found = dict.fromkeys(account for buffer in buffers if (account := buffer.account) is not None)
        kept = [account for account in found if account.thrifty]
        timing = self._times.timing(tally)
        if not kept or nitems < timing.cutoff.below:
            return False
        below = max([account.cutoff.below for account in kept])
        if nitems < below:  # so are this kernel's launches from now on, and in the next run
            timing.keep_cutoff(below if nitems >= self._accounts.below else self._accounts.below)
            return False
        for account in kept:
            account.alone.clear()  # on new buffers, those below are still better off on one worker
            self._changes.change(account)
        return True

    def _keeper(
        self, buffers: Sequence[VirtualBuffer], tally: KernelTally, nitems: int, launch: Launch | None
    ) -> int | None:
        """The same for buffers that are not all kept for launches without plans."""
        states = [buffer.state for buffer in buffers]
        found_on = keepers(states, self._options.links)
        if not found_on:
            if id(tally) not in self._changes.alone:
                return None
            large = [buffers[slot] for slot in weighty(states, self._options.links, small=True)]
            accounts = [account for buffer in buffers if (account := buffer.account) is not None]
            # A few parameters that are kept somewhere do not decide for large buffers.
            if all(account.thrifty for account in accounts) and not any(
                buffer in self._accounts for buffer in large
            ):
                return self._begin_alone(buffers, large, tally, nitems, launch)
            found_on = self._beside(buffers, tally, nitems)
            if not found_on:
                return None
        found = list(filter(None, map(self._accounts.found, buffers)))
        first = next((account for account in found if account.thrifty and account.keeper in found_on), None)
        if first is None:
            return None
        if len(found_on) > 1:  # they meet, and from now on they are kept together
            met = [buffer for buffer in buffers if buffer in self._accounts]
            met.sort(key=lambda buffer: self._accounts.get(buffer) is not first)
            self._accounts.joined(met, first.keeper)
        for buffer in buffers:
            if buffer.account is None and buffer.state.resident == first.keeper:
                self._accounts.enter_kept(buffer, first)
        return first.keeper

    def _beside(self, buffers: Sequence[VirtualBuffer], tally: KernelTally, nitems: int) -> list[int]:
        """The workers on which some of these buffers are kept, though not those that decide where a launch runs; none where launches on
        others are split. A launch below its kernel's cutoff is better off there.
        """
        accounts = [account for buffer in buffers if (account := buffer.account) is not None]
        split = not all(account.thrifty for account in accounts)
        if split or nitems >= self._times.timing(tally).cutoff.below:
            return []
        return [*dict.fromkeys(account.keeper for account in accounts)]

    def _begin_alone(
        self,
        buffers: Sequence[VirtualBuffer],
        large: Sequence[VirtualBuffer],
        tally: KernelTally,
        nitems: int,
        launch: Launch | None,
    ) -> int | None:
        """Keep buffers on one worker of which nothing is known, the `large` ones among them; None where there is none for them."""
        if not large or any(buffer.state.fine for buffer in buffers):
            return None
        presumed = id(tally) in self._presumed
        # What was spread when it was written has to come together.
        is_far = presumed and self._times.surely_gathering(buffers) > FLOOR
        if is_far or (presumed and not self._is_short(tally, nitems, launch)):
            return None
        left = self._accounts.left(tally)
        resumed = left if left is not None and left.thrifty else None
        below = self._accounts.below if resumed is None else resumed.cutoff.below
        if nitems >= max(below, self._times.timing(tally).cutoff.below):
            return None
        if resumed is not None:
            return resumed.keeper if self._changes.resume(resumed, large) else None
        account = self._accounts.joined(large, None, tally)
        account.span = account.span or len(self._options.workers)
        kept_returns, toll = self._changes.kept_alone.get(id(tally), (0, 0.0))
        account.returns = max(account.returns, self._changes.returns.get(id(tally), 0), kept_returns)
        account.periods.toll = max(account.periods.toll, toll)
        if not self._changes.change(account, thrifty=True):
            return None
        if presumed:
            account.presumed = True
            # To try several workers costs more than it seems: as much is to be gained before that as after it had failed once.
            account.returns = max(account.returns, 1)
        return account.keeper

    def _is_short(self, tally: KernelTally, nitems: int, launch: Launch | None) -> bool:
        return is_short(nitems, self._times.timing(tally), self._options, launch)

    def counts_for(self, tally: KernelTally) -> int:
        """Of how many launches of a short kernel one without a plan has the weight, of which `UNTIL_LOOKED_AT` may pass before
        one is looked at (`reconsider`): of a long one every launch is.
        """
        if self._by_size:
            return 0  # none is
        timing = self._times.known(tally)
        if timing is None or not timing.times.known:
            return 1 if tally.launches >= LONG_UNKNOWN else UNTIL_LOOKED_AT
        return timing.counts_for

    def reconsider(self, ndrange: NDRange, tally: KernelTally, buffers: Sequence[VirtualBuffer]) -> bool:
        """One more launch without a plan. True where its buffers are split again, and it is to be planned."""
        self._samples.read()  # those of launches that the program has waited for since
        if self._is_refuted(buffers):
            return True
        timing = self._times.known(tally)
        if timing is None or not timing.times.known or self._by_size:
            return False  # nothing to gain, or nothing known about it
        if id(tally) in self._presumed and timing.times.is_of_one_launch:
            return False  # the first one may have waited for whatever is done once
        if not timing.is_due_at(tally.launches + 1):
            return False
        account, count = self._account_of(tally, timing, buffers)
        if count <= 0:  # it was looked at already, before it was submitted
            return False
        timing.counts_for = 1 + int(timing.times.whole(ndrange.nitems) / SHORT)
        stake = self._stake_alone(timing, ndrange)
        passed = self._passed(tally, timing, stake, count)
        one, split = self._weigh_alone(account, timing, passed, tally.launches + 1)
        split += account.periods.take_toll(split=False)
        looks = self._times.looks.value or 0.0
        timing.looked_at(split.seconds >= one.seconds, one.seconds / count, looks)
        if account.periods.on_trial:
            return False
        change = self._change_of(account, buffers)
        if not account.thrift.weigh(one, split, change):
            return self._see_again(account, timing, stake, one.seconds)
        # Those that gain are looked at sooner than those that lose.
        if not account.thrift.weigh(*self._others_alone(account, tally), change):
            return False
        logger.debug(
            "%s gains by being split: %.3g s instead of %.3g s, %.3g s of it on the host",
            tally.name, split.seconds, one.seconds, split.host,
        )  # fmt: skip
        self._counts.set(account, account.spans.best() or self._counts.of(account))
        return self._changes.change(account)

    def _account_of(
        self, tally: KernelTally, timing: KernelTiming, buffers: Sequence[VirtualBuffer]
    ) -> tuple[Account, int]:
        """The account of a launch without a plan, and how many launches of its kernel were not weighed yet: what is known of planning,
        and of what passes beside, is believed the less.
        """
        states = [buffer.state for buffer in buffers]
        found_on = keepers(states, self._options.links)
        kept = found_on[0] if found_on else self._accounts.kept_together(buffers)
        large = [buffers[slot] for slot in weighty(states, self._options.links, small=True)]
        account = self._accounts.joined(large, kept)
        self._looks.weighed(account)
        launches = tally.launches + 1
        _, _, seen = account.kernels.get(id(tally), (tally, timing, launches - 1))
        account.kernels[id(tally)] = (tally, timing, launches)
        count = launches - seen
        if count > 0:
            believed = (1 - _FORGET_THOUGHT / (1 << min(account.returns, 20))) ** count
            timing.thought.value = (timing.thought.value or 0.0) * believed
            account.host.fade(believed)
        return account, count

    def _change_of(self, account: Account, buffers: Sequence[VirtualBuffer]) -> float:
        """Seconds that it takes to split an account's launches again."""
        # Half of it, since a change counts there and back, and what is planned once is not planned again on the way back.
        # All plans are made again, however many there are: of launches for the levels of a grid, one for each.
        settling = sum(each.settling_seconds for _, each, _ in account.kernels.values())
        planning = max(settling, account.dear) / 2
        account.staked = max(self._times.changing(buffers) + planning, FLOOR_HANDS / 2)
        return account.staked * dearer(account.returns)

    def _passed(
        self, tally: KernelTally, timing: KernelTiming, stake: Stake, count: int
    ) -> list[tuple[Stake, float]]:
        """What so many launches without plans have at stake, the last of which has `stake`: those of each size what they have. One for a
        coarse grid takes next to nothing, beside one for the finest.
        """
        spaces, total = {}, len(tally.passed)
        if len({*map(id, tally.passed)}) > 1:  # mostly they are one object
            spaces = {each.global_size: each for each in tally.passed}
        timing.spaces = max(timing.spaces, len(spaces) or min(total, 1))
        if len(spaces) < 2:
            tally.passed.clear()
            return [(stake, count)]
        numbers: Counter[int] = Counter()
        sizes: dict[int, NDRange] = {}
        for size, number in Counter([each.global_size for each in tally.passed]).items():
            bits = spaces[size].nitems.bit_length()
            sizes[bits] = spaces[size]  # the last one, as what shrinks goes on to do
            numbers[bits] += number
        tally.passed.clear()
        return [(self._stake_alone(timing, sizes[bits]), count * n / total) for bits, n in numbers.items()]

    def _weigh_alone(
        self,
        account: Account,
        timing: KernelTiming,
        passed: Sequence[tuple[Stake, float]],
        launches: int,
    ) -> tuple[Way, Way]:
        """What these of an account's launches without plans take, so many of each stake, up to this number of their kernel's, and would
        take over the number of workers that is best for all that are weighed.

        Larger ones than were measured count like the largest that were: they are sampled soon (`KernelTiming.samples_direct`), and plans
        that are made for nothing cost more than to wait for that.
        """
        beside, now = account.host.beside(1), self._counts.of(account)
        planned = Way(timing.thought.value or 0.0, 0.0) + beside
        spans = self._counts.others(account) or (now,)
        ways, one = dict.fromkeys(spans, NOTHING), NOTHING
        for each, count in passed:
            stake = replace(each, nitems=timing.times.covered(each.nitems))
            for span in spans:
                way = self._times.way_over(timing, stake, launches, now, span) + planned
                ways[span] += way.times(count)
            alone = self._times.one_way(timing, stake.nitems)
            self._times.devices += alone.device * count
            one += (alone + beside).times(count)
        account.spans.note(ways, 0.0)
        return one, ways[account.spans.best() or now]

    def _others_alone(self, account: Account, tally: KernelTally) -> tuple[Way, Way]:
        """The same of all launches of other kernels than this one that were not weighed yet."""
        one = split = NOTHING
        for key, (other, timing, seen) in account.kernels.items():
            if other is tally or other.launches <= seen or timing.stake is None or not timing.times.known:
                continue
            stake = replace(timing.stake, moved=timing.exchanged.value or 0.0)
            account.kernels[key] = other, timing, other.launches
            passed = self._passed(other, timing, stake, other.launches - seen)
            ways = self._weigh_alone(account, timing, passed, other.launches)
            one, split = one + ways[0], split + ways[1]
        return one, split

    def _see_again(self, account: Account, timing: KernelTiming, stake: Stake, seconds: float) -> bool:
        """More launches without plans took so long, and nothing but what their kernel has exchanged before may keep them there. The
        program may do something else by now: from time to time, each time later, plans tell. True where they do from this launch on.
        """
        now, alone = self._counts.of(account), replace(stake, moved=0.0, messages=0, busiest=0)
        ways = [self._times.way_over(timing, each, 0, now, now).seconds for each in (alone, stake)]
        if not ways[0] < WORTH * self._times.one_way(timing, stake.nitems).seconds <= ways[1]:
            return False
        timing.unseen += seconds
        if timing.unseen * _SEEING < FLOOR / 2 * min(1 + _LATER * timing.sights, _LATEST):
            return False
        timing.sights += 1
        timing.unseen = 0.0
        logger.debug(
            "launches on %d buffers have plans again, to see what they exchange", len(account.buffers)
        )
        account.keep_on(account.keeper, thrifty=False)
        account.thought = 0.0
        self._accounts.without_plans.pop(account, None)
        account.split_states.clear()
        account.ways.changed()
        return True

    def _stake_alone(self, timing: KernelTiming, ndrange: NDRange) -> Stake:
        """Of a launch that is split no more, as its kernel's last ones were; of what it exchanged in bulk, too, all counts."""
        stake = timing.sizes.get(ndrange.nitems.bit_length()) or self._even_stake(ndrange)
        return replace(stake, nitems=ndrange.nitems, moved=timing.exchanged.value or 0.0)

    def _even_stake(self, ndrange: NDRange) -> Stake:
        """Of launches that were never split: even shares, and an exchange between neighbours."""
        count, nitems, units = len(self._options.workers), ndrange.nitems, self._options.compute_units
        is_small = nitems < self._options.min_items or runs_at_once(prod(ndrange.num_groups), nitems, units)
        share = 1.0 if is_small else 1 / count
        return Stake(nitems, share, None, (), 0.0, (), 0.0, False, count, count, 1)
