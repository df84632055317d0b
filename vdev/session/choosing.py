"""Choosing between all workers, fewer and one, for launches on the same buffers.

Decides whether launches on some buffers are split, over how many workers, and on which worker buffers are kept. Which buffers
belong together is in `accounts`, what launches take in each way in `way_times`; when the ways change is `planner.regret`'s.

What the way in use takes is the plan's: bytes over links, the kernel, and the host's time for making the plan.
What the other would take: on one worker, the kernel and what had to be brought there again and again when it was
tried; split, what a plan says that is made beside (`split_plans`). Times are measured: kernels and transfers by samples of a few
launches (`samples`), never waited for. Nothing is decided before there are some.

If planning launches, handing them over to several workers and exchanging a little with each take longer than splitting
saves, launches run without plans on one worker from then on (`vdev.session.direct`), which takes next to nothing; what
splitting them would take is then known from before. Splitting is tried again rarely, each time later; and if only what launches
have exchanged speaks against it, they have plans again from time to time, which tell what it is by now. Both ways are
weighed by the time model (`vdev.planner.timing`). Launches that are known to gain much are hardly looked at. On workers that
share hardware splitting gains nothing, and only what planning and handing over take counts.

Of several workers, half, a quarter and so on are candidates by the same measure (`vdev.planner.spans`): before one worker is
taken, and whenever another number of them would take less. What was chosen stays with the buffers and with the kernels, for
other buffers and for the program's next run.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from math import prod
from weakref import WeakSet

from vdev.backends.base import WorkerInfo
from vdev.executor.prepare import PreparedPlan
from vdev.observe.tallies import KernelTally
from vdev.planner.directory import kept_on
from vdev.planner.instructions import Plan
from vdev.planner.investment import Investment
from vdev.planner.launch_request import LaunchOptions
from vdev.planner.launch_search import runs_at_once
from vdev.planner.outlook import Rest
from vdev.planner.periods import Turn
from vdev.planner.regret import (
    NOTHING,
    SMALL_NBYTES,
    UNDISTURBED,
    Mean,
    Median,
    Stake,
    Stretch,
    TwoWays,
    exchange_of,
    keepers,
    stake_of,
    weighty,
)
from vdev.planner.spans import ONE, WORTH, halves, over
from vdev.planner.timing import MachineTimes, Way
from vdev.session.accounts import Account, Accounts, have_room, with_room
from vdev.session.buffers import Occupancy, VirtualBuffer
from vdev.session.commands import BufferArg, Launch
from vdev.session.host_times import Clocks
from vdev.session.kernel_timing import FIRST_PLAN, SETTLING, UNTIL_LOOKED_AT, KernelTiming
from vdev.session.launch_plans import CachedPlan, LaunchCache
from vdev.session.looks import Looks
from vdev.session.samples import Samples
from vdev.session.split_plans import SplitPlans
from vdev.session.way_times import FORGET, WayTimes
from vdev.translators.ranges.ndrange import NDRange

logger = logging.getLogger("vdev.session.choosing")

#: launches on other buffers after which those that exchange little are not looked at until one exchanges much
_IDLE = 64
#: seconds that splitting may cost before anything is decided by it, with planning and without: most plans are made once. And
#: where workers share hardware, which nobody asks for but to have launches split
_FLOOR, _FLOOR_HANDS, _FLOOR_SHARED = 0.004, 0.0005, 0.006
#: each return to one worker makes leaving it this many times more expensive
_RETURN = 4
#: returns that the program's last run counts for, where it ended on one worker: it may have been too short to gain
_KEPT_RETURNS = 1
#: launches of a kernel after which it is weighed although its times are not known
_LONG_UNKNOWN = 64
#: so many times what launches have gained while plans were made that are made once: they make up for those soon
_SOON = 16
#: seconds of a launch that is short
_SHORT = 20e-6
#: of the time of launches without plans, what plans may take that tell what they would exchange
_SEEING = 0.02
#: each time makes the next one later by so much of the first, up to so many times that
_LATER, _LATEST = 0.5, 4.0
#: launches between two that are looked at where splitting gains nothing
_PAUSE_SHARED = 15
#: what planning and the program itself took of the host is forgotten by so much with each launch that is made without a plan; by
#: half as much after each return
_FORGET_THOUGHT = 0.001
#: index spaces of a kernel for which it is known what was brought to one worker
_MOST_SPACES = 1024
#: folds whose times count, and how many there must be
_FOLDS, _ENOUGH_FOLDS = 9, 3
#: seconds that launches have to lose over a number of workers, at least, before another number is taken: it takes new plans
_FLOOR_SPAN = 0.003
#: seconds that handing over a launch may take of which it is not known what it gains, if fewer workers take less
_MOST_UNKNOWN = 0.001


class Choosing:
    """The ways of one session's launches. Under its lock."""

    def __init__(
        self,
        occupancy: Occupancy,
        options: LaunchOptions,
        *,
        forced: bool = False,
        exchanges: bool = True,
        thrifty: bool = False,
        shared: bool = False,
        machine: MachineTimes | None = None,
        name: str = "",
    ) -> None:
        """`forced`: buffers are kept on one worker from their first large exchange on. `exchanges`: what launches
        exchange counts. `thrifty`: what planning and handing them over take does. `shared`: the workers share hardware.
        `machine`: what was measured of it; `name`: what is kept of it between runs.
        """
        self.exchanges = exchanges or forced
        self.thrifty = thrifty
        self._shared, self._forced = shared, forced
        #: under which cuts are kept between runs; empty where launches are not cut by what they take
        self.machine = "" if shared else name
        #: what launches take
        self.times = WayTimes(machine or MachineTimes(), options.links, exchanges=self.exchanges)
        self.seconds_per_cost = self.times.machine.per_byte  #: that a unit of `LinkCosts` takes
        self._samples = Samples(self.times, shared=shared, forced=forced)
        self._looks = Looks(self.times)
        self._devices = (
            0.0  #: seconds of the busiest device for all launches so far, as far as they were looked at
        )
        self._folds = Median(_FOLDS, _ENOUGH_FOLDS, UNDISTURBED)  #: seconds of handing one over
        self._split_plans = SplitPlans(options)
        self._accounts = Accounts()
        self._investment = Investment()  #: in plans that are made once
        #: accounts whose launches take no plans
        self.without_plans: WeakSet[Account] = self._accounts.without_plans
        #: by the identity of their tallies, kernels of sequences that were found to lose by being split: on new buffers they
        #: begin on one worker
        self.alone: set[int] = set()
        #: by the identity of their tallies, kernels that were on one worker at the end of the program's last run
        self._kept_alone: set[int] = set()
        self._occupancy = occupancy
        self._options = options
        #: the numbers of workers over which launches may be split
        self._spans = () if shared else halves(len(options.workers))
        self._fewer: dict[int, LaunchOptions] = {}
        #: whether launches count that exchange little
        self.open = False
        self._idle = 0  #: launches since one counted
        self._changed: Account | None = None  #: with the launch that was weighed last

    def begin(self, cache: LaunchCache) -> None:
        """The first launch of a kernel: begin with what the program's last run found."""
        cache.span = len(self._options.workers)
        span = cache.begin(self.machine) if self.machine else None
        if span in self._spans:
            cache.span = span
        elif span == ONE and self.thrifty:
            self.alone.add(id(cache.tally))
            self._kept_alone.add(id(cache.tally))

    def over(self, span: int, options: LaunchOptions) -> LaunchOptions:
        """The session's `options` for launches that are split over this many workers."""
        if not 0 < span < len(options.workers):
            return options
        found = self._fewer.get(span)
        if found is None:
            found = replace(options, workers=options.workers[:span], fewer=True)
            self._fewer[span] = found
        return found

    def stake(self, plan: Plan, buffers: Sequence[VirtualBuffer], nitems: int) -> Stake | None:
        """What a plan for `buffers`, as they are, is weighed by."""
        states = [buffer.state for buffer in buffers]
        stake = stake_of(plan, states, self._options.links, nitems, small=self.thrifty)
        ngroups, units = sum(chunk.ngroups for _, chunk in plan.partition), self._options.compute_units
        if stake is not None and units and runs_at_once(ngroups, nitems, units):
            stake = replace(stake, share=1.0)
        return stake

    def counts(self, stake: Stake, thought: float, tally: KernelTally) -> bool:
        """Whether a launch has to be weighed whose plan took this many seconds."""
        timing = self.times.timing(tally)
        if stake.kept is None and not self._shared:
            timing.passes(stake)
        if self.open or (self.exchanges and stake.exchanges):
            return True
        return self.thrifty and (thought > 0 or timing.is_due())

    def counts_direct(self, tally: KernelTally) -> bool:
        """Whether a launch without a plan is to be sampled: nothing else would tell what it takes."""
        if self._shared or not self.thrifty:
            return False
        timing = self.times.timing(tally)
        timing.direct += 1
        return timing.samples_direct(timing.direct)

    def is_to_be_submitted(
        self, cache: LaunchCache, ndrange: NDRange, buffers: Sequence[VirtualBuffer]
    ) -> bool:
        """Whether a launch without a plan that is looked at (`LaunchCache.weight`) takes another way than those before, or is to
        be sampled.
        """
        timing = self.times.timing(cache.tally)
        if self.thrifty and not self._shared and timing.samples_direct(timing.direct + 1):
            return True
        timing.direct += 1
        changes = self.reconsider(ndrange, cache.tally, buffers)
        cache.weight = self.counts_for(cache.tally)
        return changes

    def handed_over(self, tally: KernelTally, cached: CachedPlan, seconds: float) -> None:
        """The host took this long to hand over a launch that was weighed or sampled."""
        self.times.handed_over(tally, cached, seconds)

    def handed_over_at_once(self, seconds: float) -> None:
        """The host took this long to hand over a launch without a plan that was looked at."""
        self.times.handed_over_at_once(seconds)

    def balances(self, cache: LaunchCache, cached: CachedPlan, ndrange: NDRange) -> bool:
        """Whether a launch is to be looked at for what its chunks take beside each other."""
        return self._samples.balances(cache, cached, ndrange)

    def weigh(
        self,
        launch: Launch,
        tally: KernelTally,
        cached: CachedPlan,
        buffers: Sequence[VirtualBuffer],
        thought: float = 0.0,
        clocks: Clocks | None = None,
    ) -> bool:
        """One more launch on `buffers`, whose plan is `cached` and took `thought` seconds to make; what the clocks say. True
        where the other way is taken from this launch on: it has to be planned again.
        """
        thought = thought if self.thrifty else 0.0
        stake = cached.stake
        assert stake is not None, "only what is at stake is weighed"
        large = [buffers[slot] for slot in stake.slots]
        counts = self._exchange_counts(stake, large)
        if not counts and not self.thrifty:
            return False
        self._samples.read()
        account = self._accounts.joined(large, stake.kept)
        self._looks.weighed(account)
        timing = self.times.timing(tally)
        self._set_span(account, launch.kernel.plans.span_of(buffers))
        is_first = timing.begin(launch.kernel.plans)
        moved = max(stake.moved - account.budget, 0.0)
        if account.keeper is not None:
            self._count_kept(account, thought + self.times.lost_by_plans(timing, stake))
            change = self._weigh_kept(account, launch, timing, cached, stake, moved, buffers)
        elif account.barred:
            change = False
        else:
            # Kernels are met and loaded once, and memory is taken once.
            account.host.met(thought, once=is_first or bool(cached.plan.growth))
            timing.exchanged.add(stake.moved)
            if self.thrifty and self._weigh_time(account, launch, tally, timing, stake, thought, large, clocks):
                # Where launches come to an end, fewer workers would lose soon as well.
                ends = account.outlook.ends
                return (not ends and self._narrow(account)) or self._change(account, thrifty=True)
            if self._take_other_span(account) or self._take_fewer(account, timing, stake):
                return True
            change = counts and (self._forced or self._weigh_split(account, launch, timing, stake, moved))
            if change and self._narrow(account):
                return True
        if change:
            change = self._change(account)
        if change and account.keeper is not None:
            self._split_plans.stake(account, self._span_of(account), launch, cached, buffers)
        if not change:
            account.budget -= stake.moved - moved
        self._accounts.set_open(account)
        self.open = len(self._accounts.open) > 0
        self._changed = account if change else None
        return change

    def _exchange_counts(self, stake: Stake, large: Sequence[VirtualBuffer]) -> bool:
        """Whether the exchange of a launch is weighed: it is large, or that of others on these buffers is."""
        if self.exchanges and (stake.exchanges or any(map(self._accounts.is_open, large))):
            self._idle = 0
            return True
        self._idle += 1
        if self._idle >= _IDLE:
            self.open = False
        return False

    def _count_kept(self, account: Account, thought: float) -> None:
        """Count planning for kept buffers, and handing plans over: once it is much, their launches take no plans, for which
        nothing has to move.
        """
        account.thought += thought
        if account.thought > _FLOOR / 2:
            account.thrifty = True
            self.without_plans.add(account)
            account.thought = 0.0

    def sampled(self, cache: LaunchCache, cached: CachedPlan, ndrange: NDRange) -> PreparedPlan:
        """What is to be submitted of a launch over `ndrange` that was weighed or balances, or is one without a plan: its plan,
        or that with a sample taken.
        """
        account, self._changed = self._changed, None
        if account is not None and cached.stake is not None and not cached.direct:
            account.budget = max(account.budget - cached.stake.moved, 0.0)
        return self._samples.prepared(cache, cached, ndrange, self.times.timing(cache.tally))

    def take_recut(self) -> bool:
        """Whether plans were forgotten since this was asked last, for launches to be cut elsewhere."""
        recut, self._samples.recut = self._samples.recut, False
        return recut

    def give_up(self, buffers: Sequence[VirtualBuffer]) -> bool:
        """There is no room for the plan of a launch on `buffers`. Whether it was for one worker, and there will
        be another one if it is planned again.
        """
        if self._widen(buffers):
            return True
        if all(buffer.state.kept is None for buffer in buffers):
            return False
        for buffer in buffers:
            account = self._accounts.get(buffer)
            if account is not None:
                account.barred = True
                if account.keeper is not None:
                    self._change(account)
            buffer.state = kept_on(buffer.state, None)
        return True

    def looked(self, at_ns: int, nbytes: int) -> bool:
        """The program waits for so many bytes, by the host's clock at `at_ns`. Whether its launches take another way from now on."""
        if not self.thrifty or self._shared or self._forced:
            return False
        turn, account = self._looks.look(at_ns, nbytes), self._looks.account
        if turn is Turn.GO_ON or account is None:
            return False
        if turn is Turn.TRY_ONE:
            changes = self._change(account, thrifty=True)
            if changes:
                account.periods.begin_trial()
            return changes
        returns = account.returns
        changes = self._change(account)
        account.returns = returns  # it was not for what launches took
        return changes

    # what launches take -----------------------------------------------------------------------------

    def _weigh_split(
        self, account: Account, launch: Launch, timing: KernelTiming, stake: Stake, moved: float
    ) -> bool:
        unit = self.times.unit
        gathered = timing.gathered.get(launch.ndrange)
        again = 0.0
        if gathered is not None and gathered.value is not None:
            again = gathered.value
            gathered.value *= FORGET
        if unit is None or not timing.times.known:
            return False
        split, whole = timing.times.chunk(stake.nitems, stake.share), timing.times.whole(stake.nitems)
        # All that launches use goes with the first of them, however little that reads.
        change = max(stake.gathered, self.times.spread(account.buffers) / 2) * unit
        exchange = timing.exchanging(stake, moved, unit)
        return account.ways.weigh(split + exchange, whole + again * unit, change)

    def _weigh_time(
        self,
        account: Account,
        launch: Launch,
        tally: KernelTally,
        timing: KernelTiming,
        stake: Stake,
        thought: float,
        buffers: Sequence[VirtualBuffer],
        clocks: Clocks | None,
    ) -> bool:
        """A launch whose plan took so many seconds to make. True where planning launches, handing them over to several
        workers and what they exchange have taken more than all launches since they were weighed last have gained by being split.
        """
        self._note_split(account, launch, tally, timing, stake, thought)
        change = self.times.gathering(account.buffers)
        if self._shared:
            return self._weigh_shared(account, tally, timing, stake, change)
        if not any(each.may_gain for _, each, _ in account.kernels.values()):
            change /= 2  # as they are, launches of one chunk each will not be split again
        if any(
            not each.times.known and each.may_gain and tally.launches - seen < _LONG_UNKNOWN
            for tally, each, seen in account.kernels.values()
        ):
            return False  # later, once it is known what they take
        thought, once = account.take_thought()
        split, one, counts = self._since(account, tally, thought, clocks)
        goes_on = self._never_recurs(account, counts)
        if goes_on:
            account.thrift.take_back()
        else:  # what goes on over any number of workers is not what another number costs
            account.planned += thought + once
        gain = one.seconds - split.seconds
        # What is soon made up for counts no more than it has been so far: it is spent, and launches go on.
        thought += min(once, gain) if once <= _SOON * gain else once
        split += account.periods.take_toll(split=True)
        least = max(change, _FLOOR_HANDS / 2)
        done = account.hands.weigh(split, one, least)
        # Plans that are made once do not count at once, unless there is nothing to gain from them.
        in_vain = account.hands.regret > 0 or goes_on
        planned = split + Way(thought, 0.0)
        done |= account.thrift.weigh(planned, one, least if in_vain else max(change, _FLOOR / 2))
        account.outlook.add(planned, one, counts)
        surely = max(self.times.surely_gathering(account.buffers), least)
        done |= account.outlook.loses(self._rests(account), surely)
        timing.looked_at(account.thrift.regret == 0 and account.spans.regret == 0)
        if done:
            logger.debug(
                "launches up to one of %s take %.3g s, %.3g s of it on the host; planning takes %.3g s; one worker would take %.3g s",
                tally.name, split.seconds, split.host, thought, one.seconds,
            )  # fmt: skip
        return done

    def _note_split(
        self,
        account: Account,
        launch: Launch,
        tally: KernelTally,
        timing: KernelTiming,
        stake: Stake,
        thought: float,
    ) -> None:
        """Note what a split launch, whose plan took this many seconds, exchanges."""
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
        elif not account.returns:  # what came back to being split has gained that before
            account.thought_once += believed
        timing.stake, timing.stakes[self._span_of(account)] = stake, (stake, launches)
        timing.shrinking.add(launches, stake.nitems)

    def _weigh_shared(
        self, account: Account, tally: KernelTally, timing: KernelTiming, stake: Stake, change: float
    ) -> bool:
        """The same if workers share hardware: kernels take the same time in either way."""
        launches, machine = tally.launches, self.times.machine
        _, _, seen = account.kernels[id(tally)]
        account.kernels[id(tally)] = (tally, timing, launches + 1)
        timing.pause, timing.skipped = _PAUSE_SHARED, 0
        hands = machine.handing_over(stake.workers, stake.messages) - machine.launch
        split = Way(sum(account.take_thought()) + hands * (launches + 1 - seen), 0.0)
        return account.thrift.weigh(split, NOTHING, max(change, _FLOOR_SHARED / 2))

    def _since(
        self, account: Account, current: KernelTally, thought: float, clocks: Clocks | None
    ) -> tuple[Way, Way, dict[int, int]]:
        """What launches have taken since they were weighed last, with the one of `current` in hand, what they would
        have taken on one worker, and how many there were of each kernel. `thought`: seconds of planning for them.
        """
        split = one = NOTHING
        counts: dict[int, int] = {}
        spans = dict.fromkeys(self._others(account), NOTHING)
        for key, (tally, timing, seen) in account.kernels.items():
            launches = tally.launches + (tally is current)
            if launches > seen and timing.stake is not None:
                here = alone = NOTHING
                for stake, count in timing.take_passed(launches - seen):
                    here += self.times.split_way(timing, stake).times(count)
                    alone += self.times.one_way(timing, stake.nitems).times(count)
                    for span, so_far in spans.items():
                        way = self.times.way_over(timing, stake, launches, self._span_of(account), span)
                        spans[span] = so_far + way.times(count)
                split, one = split + here, one + alone
                if timing.times.known:
                    timing.typical[0].add(here, launches - seen)
                    timing.typical[1].add(alone, launches - seen)
                account.kernels[key] = (tally, timing, launches)
                counts[key] = launches - seen
        beside = account.host.since(clocks, split, sum(counts.values()), self._devices)
        self._devices += split.device
        split, one = split + beside, one + beside
        self._investment.earn(one.seconds, split.seconds)
        if spans:
            ways = {span: way + beside for span, way in spans.items()} | {ONE: one}
            self._weigh_spans(account, ways, thought, goes_on=self._never_recurs(account, counts))
        return split, one, counts

    @staticmethod
    def _never_recurs(account: Account, counts: Mapping[int, int]) -> bool:
        """Whether no plan of these kernels will be used again."""
        return bool(counts) and all(account.kernels[kernel][1].never_recurs for kernel in counts)

    @staticmethod
    def _rests(account: Account) -> dict[int, Rest | None]:
        """What is still to come of each kernel that is split."""
        return {
            kernel: timing.shrinking.rest
            for kernel, (_, timing, _) in account.kernels.items()
            if timing.stake is not None and timing.stake.workers > 1
        }

    # fewer workers ----------------------------------------------------------------------------------

    def _span_of(self, account: Account) -> int:
        """Over how many workers an account's launches are split."""
        return account.span or len(self._options.workers)

    def _others(self, account: Account) -> tuple[int, ...]:
        """The numbers of workers to choose from; none if there is nothing to choose."""
        found = self._spans
        if account.cramped:
            found = tuple(span for span in found if span > account.cramped)
        return found if len(found) > 1 else ()

    def _weigh_spans(
        self, account: Account, ways: Mapping[int, Way], thought: float, *, goes_on: bool
    ) -> None:
        moving, least = self.times.gathering(account.buffers), max(_FLOOR_SPAN, account.planned) / 2
        found = account.spans.weigh(
            self._span_of(account),
            ways,
            thought,
            lambda span: max(moving / span, least),
            goes_on=goes_on,
        )
        account.wanted = found if found is not None and self._has_room(account, found) else 0

    def _take_fewer(self, account: Account, timing: KernelTiming, stake: Stake) -> bool:
        """Take fewer workers for a launch of which nothing is known, where handing it over to those in use would take longer than
        anybody should wait.
        """
        machine, now = self.times.machine, self._span_of(account)
        if timing.times.known or machine.handing_over(stake.workers, stake.messages) <= _MOST_UNKNOWN:
            return False
        for span in self._others(account):
            there = over(stake, now, span)
            if span < now and machine.handing_over(there.workers, there.messages) <= _MOST_UNKNOWN:
                return self._has_room(account, span) and self._take_span(account, span)
        return False

    def _has_room(self, account: Account, span: int) -> bool:
        """Whether the first workers have room for an account's buffers; otherwise so few are no candidates any more."""
        workers = self._options.workers[:span]
        enough = have_room(account, self._occupancy, workers, self._span_of(account))
        if not enough:
            account.cramped = max(account.cramped, span)
            account.spans.leave_out(span)
        return enough

    def _take_other_span(self, account: Account) -> bool:
        """Take the number of workers over which an account's launches were found to be faster, if there is one."""
        span, account.wanted = account.wanted, 0
        account.spans.changes += span > 0
        return span > 0 and self._take_span(account, span)

    def _narrow(self, account: Account) -> bool:
        """One worker takes less time than those in use: take a number of them that takes still less, if there is one."""
        # That it takes new plans was counted before it was wanted.
        if account.wanted and account.spans.is_worth(account.wanted):
            return self._take_other_span(account)
        account.wanted = 0
        while self._others(account):
            span = account.spans.instead_of_one(self._span_of(account))
            if span is None or self._has_room(account, span):
                return span is not None and self._take_span(account, span)
        return False

    def _take_span(self, account: Account, span: int) -> bool:
        logger.info("launches on %d buffers are split over %d workers", len(account.buffers), span)
        self._set_span(account, span)
        self._remember(account, span)
        account.budget = self.times.spread(account.buffers)
        self._begin_way(account)
        self._samples.recut = True
        return True

    @staticmethod
    def _remember(account: Account, span: int) -> None:
        """An account's kernels run over so many workers, on other buffers and in the program's next run."""
        for _, timing, _ in account.kernels.values():
            if timing.cache is not None:
                timing.cache.keep_span(span)
                if span != ONE:
                    timing.cache.span = span

    def _set_span(self, account: Account, span: int) -> None:
        """From now on, launches on an account's buffers are split over this many workers."""
        if span != account.span:
            account.span = span
            account.spans.changed()
            for buffer in account.buffers:
                buffer.span = span

    def _widen(self, buffers: Sequence[VirtualBuffer]) -> bool:
        """Fewer workers have no room for a launch on `buffers`: split it over all. False where it was."""
        every = len(self._options.workers)
        if not any(0 < buffer.span < every for buffer in buffers):
            return False
        for buffer in buffers:
            buffer.span = every
            account = self._accounts.get(buffer)
            if account is not None:
                account.cramped = every - 1
                self._set_span(account, every)
        return True

    # launches without plans -------------------------------------------------------------------------

    def keeper_without_plans(self, buffers: Sequence[VirtualBuffer], tally: KernelTally) -> int | None:
        """The worker on which a launch on these buffers runs without a plan; None where it takes one."""
        keeper = self._accounts.kept_together(buffers)
        if keeper is not None:
            return keeper  # nearly always, if there are such accounts
        found_on = keepers([buffer.state for buffer in buffers], self._options.links)
        if not found_on:
            if id(tally) not in self.alone or any(buffer in self._accounts for buffer in buffers):
                return None
            return self._begin_alone(buffers, tally)
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

    def _begin_alone(self, buffers: Sequence[VirtualBuffer], tally: KernelTally) -> int | None:
        """Keep buffers on one worker of which nothing is known; None where there is none for them."""
        states = [buffer.state for buffer in buffers]
        large = [buffers[slot] for slot in weighty(states, self._options.links, small=True)]
        if not large or any(state.fine or state.kept is not None for state in states):
            return None
        account = self._accounts.joined(large, None)
        account.span = account.span or len(self._options.workers)
        if id(tally) in self._kept_alone:
            account.returns = max(account.returns, _KEPT_RETURNS)
        return account.keeper if self._change(account, thrifty=True) else None

    def counts_for(self, tally: KernelTally) -> int:
        """Of how many launches of a short kernel one without a plan has the weight, of which `UNTIL_LOOKED_AT` may pass before
        one is looked at (`reconsider`): of a long one every launch is.
        """
        if self._shared:
            return 1
        timing = self.times.known(tally)
        if timing is None or not timing.times.known:
            return 1 if tally.launches >= _LONG_UNKNOWN else UNTIL_LOOKED_AT
        return timing.counts_for

    def reconsider(self, ndrange: NDRange, tally: KernelTally, buffers: Sequence[VirtualBuffer]) -> bool:
        """One more launch without a plan. True where its buffers are split again, and it is to be planned."""
        self._samples.read()  # those of launches that the program has waited for since
        timing = self.times.known(tally)
        if timing is None or not timing.times.known or self._shared:
            return False  # nothing to gain, or nothing known about it
        if not timing.is_due_at(tally.launches + 1):
            return False
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
        if count <= 0:  # it was looked at already, before it was submitted
            return False
        thought = timing.thought.value or 0.0
        believed = (1 - _FORGET_THOUGHT / (1 << min(account.returns, 20))) ** count
        timing.thought.value = thought * believed
        account.host.fade(believed)
        nitems = ndrange.nitems
        timing.counts_for = 1 + int(timing.times.whole(nitems) / _SHORT)
        stake = self._stake_alone(timing, ndrange)
        one, split = self._weigh_alone(account, timing, stake, launches, count)
        # Half of it, since a change counts there and back, and what is planned once is not planned again on the way back.
        planning = sum(each.settling_seconds for _, each, _ in account.kernels.values()) / 2
        change = max(self.times.changing(buffers) + planning, _FLOOR_HANDS / 2)
        change *= _RETURN ** min(account.returns, 10)
        split += account.periods.take_toll(split=False)
        timing.looked_at(split.seconds >= one.seconds, one.seconds / count)
        if account.periods.on_trial:
            return False
        if not account.thrift.weigh(one, split, change):
            return self._see_again(account, timing, stake, one.seconds)
        # Those that gain are looked at sooner than those that lose.
        if not account.thrift.weigh(*self._others_alone(account, tally), change):
            return False
        logger.debug(
            "%s gains by being split: %.3g s instead of %.3g s, %.3g s of it on the host",
            tally.name, split.seconds, one.seconds, split.host,
        )  # fmt: skip
        self._set_span(account, account.spans.best() or self._span_of(account))
        return self._change(account)

    def _weigh_alone(
        self, account: Account, timing: KernelTiming, stake: Stake, launches: int, count: int
    ) -> tuple[Way, Way]:
        """What so many of an account's launches without plans take, up to this number of their kernel's, and would take over the number
        of workers that is best for all that are weighed.
        """
        beside, now = account.host.beside(1), self._span_of(account)
        planned = Way(timing.thought.value or 0.0, 0.0) + beside
        spans = self._others(account) or (now,)
        ways = {span: self.times.way_over(timing, stake, launches, now, span) + planned for span in spans}
        account.spans.note({span: way.times(count) for span, way in ways.items()}, 0.0)
        one = self.times.one_way(timing, stake.nitems)
        self._devices += one.device * count
        return (one + beside).times(count), ways[account.spans.best() or now].times(count)

    def _others_alone(self, account: Account, tally: KernelTally) -> tuple[Way, Way]:
        """The same of all launches of other kernels than this one that were not weighed yet."""
        one = split = NOTHING
        for key, (other, timing, seen) in account.kernels.items():
            if other is tally or other.launches <= seen or timing.stake is None or not timing.times.known:
                continue
            stake = replace(timing.stake, moved=timing.exchanged.value or 0.0)
            account.kernels[key] = other, timing, other.launches
            ways = self._weigh_alone(account, timing, stake, other.launches, other.launches - seen)
            one, split = one + ways[0], split + ways[1]
        return one, split

    def _see_again(self, account: Account, timing: KernelTiming, stake: Stake, seconds: float) -> bool:
        """More launches without plans took so long, and nothing but what their kernel has exchanged before may keep them there. The
        program may do something else by now: from time to time, each time later, plans tell. True where they do from this launch on.
        """
        now, alone = self._span_of(account), replace(stake, moved=0.0, messages=0, busiest=0)
        ways = [self.times.way_over(timing, each, 0, now, now).seconds for each in (alone, stake)]
        if not ways[0] < WORTH * self.times.one_way(timing, stake.nitems).seconds <= ways[1]:
            return False
        timing.unseen += seconds
        if timing.unseen * _SEEING < _FLOOR / 2 * min(1 + _LATER * timing.sights, _LATEST):
            return False
        timing.sights += 1
        timing.unseen = 0.0
        logger.debug(
            "launches on %d buffers have plans again, to see what they exchange", len(account.buffers)
        )
        account.thrifty, account.thought = False, 0.0
        self.without_plans.discard(account)
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

    # pending reductions -----------------------------------------------------------------------------

    def folded(self, buffer: VirtualBuffer, plan: Plan, host: float) -> None:
        """What launches had left pending of a buffer was folded, which it was not on one worker: it counts like a launch
        that has exchanged as much. `host`: seconds that it took to hand the fold over.
        """
        account = self._accounts.get(buffer)
        if account is None or account.keeper is not None or account.barred:
            return
        exchange, machine = exchange_of(plan, self._options.links), self.times.machine
        bulk = self.exchanges and exchange.most >= SMALL_NBYTES
        if bulk:
            account.ways.regret += exchange.moved * (self.times.unit or machine.per_byte)
            self._accounts.open.add(account)
            self.open = True
        if self.thrifty and not self._shared:
            self._folds.add(host)
            least = machine.handing_over(len(plan.workers), sum(exchange.messages.values()))
            took = Way(
                max(self._folds.value or 0.0, least),
                machine.exchanging(exchange.busiest, 0.0 if bulk else exchange.moved),
            )
            account.periods.fold(took.host + took.device)
            account.host.thought += host
            if not account.periods.toll:  # of which folds are a part
                account.thrift.add(took)
                account.hands.add(took)

    # transfers, split plans -------------------------------------------------------------------------

    def _weigh_kept(
        self,
        account: Account,
        launch: Launch,
        timing: KernelTiming,
        cached: CachedPlan,
        stake: Stake,
        moved: float,
        buffers: Sequence[VirtualBuffer],
    ) -> bool:
        gathered = timing.gathered.get(launch.ndrange)
        if gathered is None:
            if len(timing.gathered) >= _MOST_SPACES:
                timing.gathered.clear()
            gathered = timing.gathered[launch.ndrange] = Mean(0.125)
        gathered.add(moved)
        made = self._split_plans.made
        split = self._split_plans.stake(account, self._span_of(account), launch, cached, buffers)
        account.thought += (self._split_plans.made - made) * (timing.plan.value or FIRST_PLAN)
        unit, times = self.times.unit, timing.times
        if unit is None or not times.known or split is None:
            return False
        # A kernel that reads nothing of them changes the way of all that do.
        change = max(stake.gathered, self.times.spread(account.buffers)) * unit
        return account.ways.weigh(
            times.whole(stake.nitems) + moved * unit,
            times.chunk(stake.nitems, split.share) + timing.exchanging(split, split.moved, unit),
            change,
        )

    # accounts ---------------------------------------------------------------------------------------

    def _change(self, account: Account, *, thrifty: bool = False) -> bool:
        """Take the other way for an account's buffers; `thrifty`: because of what planning took. False where no worker
        has room for them.
        """
        ways: TwoWays | Stretch = account.thrift if thrifty or account.thrifty else account.ways
        if account.keeper is not None:
            logger.info("%d buffers are no longer kept on worker %d", len(account.buffers), account.keeper)
            account.keeper = None
            account.split_states.clear()
            account.returns += account.thrifty
            account.thrifty = False
            self._remember(account, self._span_of(account))
            self.without_plans.discard(account)
            self.alone.clear()
        else:
            account.keeper = self._roomiest(account, thrifty)
            if account.keeper is None:
                account.barred = True
                ways.changed()
                return False
            account.thrifty = thrifty
            self.alone.update(account.kernels)
            for _, timing, _ in account.kernels.values():
                timing.settling = SETTLING  # once they are split again, buffers are in other states
            self._remember(account, ONE)
            if thrifty:
                self.without_plans.add(account)
            else:
                for buffer in account.buffers:
                    account.split_states[buffer] = buffer.state
            logger.info(
                "%d buffers are kept on worker %d: being split has cost their launches %.3g s so far",
                len(account.buffers),
                account.keeper,
                ways.regret,
            )
        account.budget = ways.change / self.times.unit if self.times.unit else 0.0
        self._begin_way(account)
        account.set_way(account.buffers)
        return True

    @staticmethod
    def _begin_way(account: Account) -> None:
        """Another way is in use for an account."""
        account.take_thought()
        account.planned, account.wanted = 0.0, 0
        for _, timing, _ in account.kernels.values():
            timing.look_again()
        account.kernels.clear()
        for each in (
            account.ways,
            account.thrift,
            account.hands,
            account.spans,
            account.periods,
            account.host,
            account.outlook,
        ):
            each.changed()

    def _roomiest(self, account: Account, thrifty: bool) -> int | None:
        """The worker to keep an account's buffers on; None where none has room for all of them.

        `thrifty`: the one where others are kept because of what planning took: what is over soon may well meet.
        """
        able = with_room(account, self._occupancy, self._options.workers)
        if thrifty:
            near = {other.keeper for other in self.without_plans}
            return min(able, key=lambda worker: (worker not in near, worker), default=None)
        taken = [other.keeper for other in self._accounts.open if other.keeper is not None]
        return min(able, key=lambda worker: (taken.count(worker), worker), default=None)


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


def can_choose(workers: Sequence[WorkerInfo]) -> bool:
    """Whether there are workers to choose from: several of one kind with memory and hardware of their own."""
    return (
        len(workers) > 1
        and not any(info.is_cpu for info in workers)
        and len({info.backend for info in workers}) == 1
        and len({info.device_key for info in workers}) == len(workers)
    )
