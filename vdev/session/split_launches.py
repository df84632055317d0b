"""What launches that are split take, beside what one worker would: by planning, handing over and exchanging, and by transfers alone.

Weighs them and says when one worker would have been better (`planner.regret`, `planner.outlook`); changes no ways.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Mapping
from math import inf

from vdev.observe.tallies import KernelTally
from vdev.planner.directory import HOST
from vdev.planner.instructions import Plan
from vdev.planner.investment import Investment
from vdev.planner.outlook import Rest
from vdev.planner.regret import NOTHING, Stake
from vdev.planner.spans import ONE
from vdev.planner.timing import Way
from vdev.session.accounts import Account
from vdev.session.commands import BufferArg, Launch
from vdev.session.host_times import Clocks
from vdev.session.kernel_timing import LONG_UNKNOWN, SETTLING, KernelTiming
from vdev.session.samples import Samples
from vdev.session.way_times import FLOOR, FLOOR_HANDS, FORGET, WayTimes
from vdev.session.worker_counts import WorkerCounts
from vdev.translators.values import replace

logger = logging.getLogger("vdev.session.choosing")

#: so many times what launches have gained while plans were made that are made once: they make up for those soon
_SOON = 16
#: launches between two that are looked at of a kernel, at most, as long as it is not known what handing them over takes: till then it
#: counts for what it takes on a machine where it takes least
_UNTIL_KNOWN = 7
#: launches between two that are looked at where size decides, and what these may lose
_PAUSE_BY_SIZE, _PAUSE_SECONDS = 15, 0.0005
#: so many times what is assumed of handing a launch over: to find its plan, too, where nothing was measured
_SUBMITTED = 4
#: plans that each kernel needs: with its buffers as they come, and as it leaves them; and the most seconds that one of these counts for
_NEEDED, _NEEDED_SECONDS = 2, 0.0005
#: seconds for a byte that a launch brings from one part of the host's memory to another, which are in no cache
_COPIED = 1e-9


class SplitLaunches:
    """Those of one session. Under its lock."""

    def __init__(self, times: WayTimes, samples: Samples, counts: WorkerCounts) -> None:
        self._times = times
        self._samples = samples
        self._counts = counts
        self._investment = Investment()  #: in plans that are made once

    def exchanges_lose(
        self, account: Account, launch: Launch, timing: KernelTiming, stake: Stake, moved: float
    ) -> bool:
        unit = self._times.unit
        count, timing.unweighed = timing.unweighed + 1, 0
        gathered = timing.gathered.get(launch.ndrange)
        again = 0.0
        if gathered is not None and gathered.value is not None:
            again = gathered.value
            gathered.value *= FORGET**count
        # All that these buffers' kernels do is weighed together, once all are known: those that gain do not count before those that lose.
        if unit is None or not timing.times.known or self._is_unknown(account):
            timing.unweighed = count
            return False
        split, whole = timing.times.chunk(stake.nitems, stake.share), timing.times.whole(stake.nitems)
        # All that launches use goes with the first of them, however little that reads.
        change = max(stake.gathered, self._times.spread(account.buffers) / 2) * unit
        exchange = timing.exchanging(stake, moved, unit)
        here, there = self._skipped(account, unit)
        return account.ways.weigh(
            here + count * (split + exchange), there + count * (whole + again * unit), change
        )

    def _skipped(self, account: Account, unit: float) -> tuple[float, float]:
        """Seconds of the launches of an account's kernels that were not weighed by what they exchange, split and on one worker: what
        gains between those that are weighed counts as well, however little it exchanges.
        """
        here = there = 0.0
        for _, timing, _ in account.kernels.values():
            stake, count, times = timing.stake, timing.unweighed, timing.times
            timing.unweighed = 0  # those of which nothing is known are not weighed later, without what others gained meanwhile
            if count and stake is not None and times.known:
                exchange = timing.exchanging(stake, stake.moved, unit)
                here += count * (times.chunk(stake.nitems, stake.share) + exchange)
                there += count * times.whole(stake.nitems)
        return here, there

    def lose(
        self,
        account: Account,
        launch: Launch,
        tally: KernelTally,
        stake: Stake,
        thought: float,
        clocks: Clocks | None,
    ) -> bool:
        """A launch whose plan took so many seconds to make. True where planning launches, handing them over to several
        workers and what they exchange have taken more than all launches since they were weighed last have gained by being split.
        """
        timing = self._times.timing(tally)
        self._note(account, launch, tally, stake, thought)
        change = self._times.gathering(account.buffers)
        if self._is_unknown(account):
            return False  # later, once it is known what they take
        in_vain = not any(each.may_gain for _, each, _ in account.kernels.values())
        if in_vain:
            change /= 2  # as they are, launches of one chunk each will not be split again
        thought, once = account.take_thought()
        split, one, counts = self._since(account, tally, thought, clocks)
        if in_vain:  # while they have plans each is weighed, which takes longer than anything else about them
            split += Way(self._times.weighing.value or 0.0, 0.0)
        goes_on = never_recur(account, counts)
        if goes_on:
            account.thrift.take_back()
        else:  # what goes on over any number of workers is not what another number costs
            account.planned += thought + once
        gain = one.seconds - split.seconds
        account.gained += gain - thought - once
        # What is soon made up for counts no more than it has been so far: it is spent, and launches go on.
        thought += min(once, gain) if once <= _SOON * gain else once
        done = self._weigh(account, split, one, thought, change, counts)
        timing.looked_at(account.thrift.regret == 0 and account.spans.regret == 0)
        if not self._times.knows_handing_over(timing, stake):
            timing.pause = min(timing.pause, _UNTIL_KNOWN)
        timing.rests(split.seconds / max(sum(counts.values()), 1), self._times.weighing.value or 0.0)
        if done:
            logger.debug(
                "launches up to one of %s take %.3g s, %.3g s of it on the host; planning takes %.3g s; one worker would take %.3g s",
                tally.name, split.seconds, split.host, thought, one.seconds,
            )  # fmt: skip
        return done

    def _weigh(
        self,
        account: Account,
        split: Way,
        one: Way,
        thought: float,
        change: float,
        counts: dict[int, int],
    ) -> bool:
        """Whether one worker is better from now on: so many launches by kernel took `split`, and `thought` to plan, and would have taken
        `one` there; to change takes `change`.
        """
        split += account.periods.take_toll(split=True)
        least = max(change, FLOOR_HANDS / 2)
        done = account.hands.weigh(split, one, least)
        # Plans that are made once do not count at once, unless there is nothing to gain from them.
        in_vain = account.hands.regret > 0 or never_recur(account, counts)
        planned = split + Way(thought, 0.0)
        done |= account.thrift.weigh(planned, one, least if in_vain else max(change, FLOOR / 2))
        account.outlook.add(planned, one, counts)
        surely = max(self._times.surely_gathering(account.buffers), least)
        done |= account.outlook.loses(_rests(account), surely)
        return done

    def _note(
        self, account: Account, launch: Launch, tally: KernelTally, stake: Stake, thought: float
    ) -> None:
        """Note what a split launch, whose plan took this many seconds, exchanges."""
        timing = self._times.timing(tally)
        launches, believed = tally.launches, timing.believed(thought)
        _, _, seen = account.kernels.setdefault(id(tally), (tally, timing, launches))
        anew = thought > 0 and launches <= seen
        timing.was_planned(stake.nitems, anew=anew, what=_what(launch) if anew else None)
        once = believed > 0 and timing.settles
        if once and timing.is_met_again:  # nobody knows how often it will be
            once = self._investment.pays(believed)
        timing.planned(believed, launches + 1 - seen, once=once)
        if not once:
            account.thought += believed
        elif account.prepaid >= believed:  # what came back to being split has gained that before
            account.prepaid -= believed
            account.planned += believed  # but over another number of workers it is to be made once more
        else:
            account.thought_once += believed
        timing.stake, timing.stakes[self._counts.of(account)] = stake, (stake, launches)
        timing.shrinking.add(launches, stake.nitems)

    def _is_unknown(self, account: Account) -> bool:
        """Whether it is not known yet what some launches take that may gain. While devices are behind with the first of them, what the host
        takes is no reason for anything.
        """
        return any(
            not timing.times.known
            and timing.may_gain
            and (tally.launches - seen < LONG_UNKNOWN or self._samples.are_under_way(timing))
            for tally, timing, seen in account.kernels.values()
        )

    def lose_by_size(self, account: Account, tally: KernelTally, thought: float) -> bool:
        """The same where size decides, since splitting gains nothing: the launch in hand, whose plan took so many seconds to make, and
        those of its kernel since one was looked at, have lost what planning them, submitting them and moving bytes took.
        """
        timing, machine, cutoff = self._times.timing(tally), self._times.machine, account.cutoff
        account.kernels.setdefault(id(tally), (tally, timing, tally.launches))
        timing.pause, timing.skipped = _PAUSE_BY_SIZE, 0
        needed = timing.settling > SETTLING - _NEEDED
        lost = min(timing.believed(thought), _NEEDED_SECONDS if needed else inf)
        timing.planned(lost, 1, once=needed)
        for stake, count in timing.take_known():
            if stake.workers == 1 and stake.nitems >= cutoff.below:  # something else keeps them whole
                timing.cutoff.rise(stake.nitems)
            each = _SUBMITTED * machine.handing_over(stake.workers, stake.messages) + stake.moved * _COPIED
            timing.pause = min(timing.pause, int(_PAUSE_SECONDS / each))
            lost += count * each
            kernels = count * timing.times.chunk(stake.nitems, stake.share)
            cutoff.lost(stake.nitems, lost, timing.cutoff, launches=count, kernels=kernels)
            lost = 0.0
        change = self._times.changing([each for each in account.buffers if each.state.resident is None])
        return cutoff.is_exceeded(change, known=not self._is_unknown(account))

    def _since(
        self, account: Account, current: KernelTally, thought: float, clocks: Clocks | None | None
    ) -> tuple[Way, Way, dict[int, int]]:
        """What launches have taken since they were weighed last, with the one of `current` in hand, what they would
        have taken on one worker, and how many there were of each kernel. `thought`: seconds of planning for them.
        """
        split = one = NOTHING
        counts: dict[int, int] = {}
        spans = dict.fromkeys(self._counts.others(account), NOTHING)
        for key, (tally, timing, seen) in account.kernels.items():
            launches = tally.launches + (tally is current)
            if launches > seen and timing.stake is not None:
                here = alone = NOTHING
                for stake, count in timing.take_passed(launches - seen):
                    here += self._times.split_way(timing, stake).times(count)
                    alone += self._times.one_way(timing, stake.nitems).times(count)
                    for span, so_far in spans.items():
                        way = self._times.way_over(timing, stake, launches, self._counts.of(account), span)
                        spans[span] = so_far + way.times(count)
                split, one = split + here, one + alone
                if timing.times.known:
                    timing.typical[0].add(here, launches - seen)
                    timing.typical[1].add(alone, launches - seen)
                account.kernels[key] = (tally, timing, launches)
                counts[key] = launches - seen
        beside = account.host.since(clocks, split, sum(counts.values()), self._times.devices)
        self._times.devices += split.device
        split, one = split + beside, one + beside
        self._investment.earn(one.seconds, split.seconds)
        if spans:
            ways = {span: way + beside for span, way in spans.items()} | {ONE: one}
            self._counts.weigh(account, ways, thought, goes_on=never_recur(account, counts))
        return split, one, counts


def within_host(stake: Stake, plan: Plan) -> Stake:
    """The stake of a plan where workers share hardware: all that it moves between them, or home again to be merged, is moved within the
    host's memory by the host. What counts, beside what bringing its buffers there took, is how much, and in how many steps.
    """
    moved = sum(nbytes for source, _, nbytes in plan.moved if source != HOST)
    return replace(stake, moved=moved, messages=len(plan.instructions) - len(plan.partition))


def never_recur(account: Account, counts: Mapping[int, int]) -> bool:
    """Whether no plan of these kernels will be used again."""
    return bool(counts) and all(account.kernels[kernel][1].never_recurs for kernel in counts)


def _rests(account: Account) -> dict[int, Rest | None]:
    """What is still to come of each kernel that is split."""
    return {
        kernel: timing.shrinking.rest
        for kernel, (_, timing, _) in account.kernels.items()
        if timing.stake is not None and timing.stake.workers > 1
    }


def _what(launch: Launch) -> Hashable:
    """What a launch is, for its plan, beside its kernel and the states of its buffers."""
    scalars = launch.kernel.scalars
    places = tuple(
        [
            (index, arg.offset, arg.nbytes) if type(arg) is BufferArg else arg
            for index, arg in enumerate(launch.args)
            if type(arg) is BufferArg or index in scalars
        ]
    )
    return launch.ndrange, places
