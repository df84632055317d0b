"""Choosing between all workers, fewer and one, for launches on the same buffers.

Decides which buffers belong together (large ones that launches use together, once one of these exchanges much),
what a launch takes in either way, and on which worker buffers are kept. When the ways change is `regret`'s.

What the way in use takes is the plan's: bytes over links, the kernel, and the host's time for making the plan.
What the other would take: on one worker the kernel and what had to be brought there again and again when it was
tried; split what a plan says that is made beside, for the states that the buffers would have. Times are measured:
kernels and transfers by samples of a few launches, never waited for. Nothing is decided before there are some.

Where planning launches, handing them over to several workers and exchanging a little with each take longer than splitting
gains, launches are made without plans on one worker from then on (`vdev.session.direct`), which takes next to nothing; what
splitting them would take is then known from before. It is tried again rarely, each time later. Both ways are
weighed by the model of time (`vdev.planner.timing`). What is known to gain much is hardly looked at. On workers that share
hardware splitting gains nothing, and only what planning and handing over take counts.

Of several workers, half, a quarter and so on are candidates by the same measure (`vdev.planner.spans`): before one worker is
taken, and whenever another number of them would take less. What was chosen stays with the buffers and with the kernels, for
other buffers and for the program's next run.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from vdev.backends.base import WorkerInfo
from vdev.executor.prepare import PreparedPlan
from vdev.executor.sampling import Measured, Sample, sampled
from vdev.observe.tallies import KernelTally
from vdev.planner.directory import BufferState, kept_on
from vdev.planner.instructions import Plan
from vdev.planner.launches import LaunchOptions, plan_launch
from vdev.planner.pending import folded
from vdev.planner.regret import (
    NOTHING,
    SMALL_NBYTES,
    Mean,
    Median,
    Stake,
    Stretch,
    TwoWays,
    exchange_of,
    mean_cost,
    stake_of,
    weighty,
)
from vdev.planner.spans import ONE, UNTRIED, Spans, between, halves, over
from vdev.planner.timing import KernelTimes, Least, MachineTimes, Way
from vdev.session.buffers import Occupancy, VirtualBuffer
from vdev.session.commands import Launch
from vdev.session.launching import CachedPlan, LaunchCache
from vdev.session.requests import EvaluationFault, request_of
from vdev.translators.ranges.ndrange import Chunk, NDRange
from vdev.translators.values import dataclass

logger = logging.getLogger("vdev.session.gathering")

#: launches of a kernel that are sampled: the first, one in so many, and at first more of those that exchange much
_FIRST_SAMPLES, _SAMPLE_EVERY, _SAMPLE_EXCHANGE_EVERY = 4, 64, 4
#: samples on their way; those of commands that failed never arrive
_MOST_SAMPLES = 64
#: measured transfers that count, and how many there must be
_TRANSFERS, _ENOUGH_TRANSFERS = 9, 3
#: of a worker's memory that is free, what gathered buffers may take
_ROOM_SHARE = 0.9
#: what gathering took is forgotten by so much with each launch, so that one worker is tried again some time
_FORGET = 0.98
#: launches on other buffers after which those that exchange little are not looked at until one exchanges much
_IDLE = 64
#: seconds that splitting may cost before anything is decided by it, with planning and without: most plans are made once. And
#: where workers share hardware, which nobody asks for but to have launches split
_FLOOR, _FLOOR_HANDS, _FLOOR_SHARED = 0.004, 0.0005, 0.006
#: seconds that what a way has gained counts at most when it loses: sequences of launches gain and lose by turns, and where one
#: gives way to another, so much is lost until that is noticed
_CREDIT = 0.004
#: each return to one worker makes it so many times dearer to leave it again
_RETURN = 4
#: returns that the program's last run counts for, where it ended on one worker
_KEPT_RETURNS = 3
#: launches of a kernel after which it is weighed although its times are not known
_LONG_UNKNOWN = 64
#: launches without plans of a short kernel after which one is looked at, and seconds of a launch that is short
UNTIL_LOOKED_AT, _SHORT = 64, 20e-6
#: the most launches of a kernel that gains between two that are looked at
_MOST_PAUSE = 256
#: launches between two that are looked at where splitting gains nothing
_PAUSE_SHARED = 15
#: measured hand-overs that count, and how many there must be
_HANDOVERS, _ENOUGH_HANDOVERS = 9, 3
#: what the first plan of a kernel counts at most, in seconds: with it comes what is done once
_FIRST = 0.001
#: what planning took is forgotten by so much with each launch that is made without; by half as much after each return
_FORGET_THOUGHT = 0.001
_MOST_PLANS = 1024
#: seconds that launches have to lose over a number of workers, at least, before another number is taken: it takes new plans
_FLOOR_SPAN = 0.003
#: seconds that a plan which is not filled in takes, at most
_PLAN = 0.005


class _Account:
    """Buffers that belong together, and the way in use for them."""

    __slots__ = (
        "__weakref__",
        "barred",
        "budget",
        "buffers",
        "cramped",
        "hands",
        "keeper",
        "kernels",
        "planned",
        "returns",
        "span",
        "spans",
        "split_states",
        "thought",
        "thrift",
        "thrifty",
        "wanted",
        "ways",
    )

    def __init__(self) -> None:
        self.buffers: WeakSet[VirtualBuffer] = WeakSet()
        self.ways = TwoWays()
        self.keeper: int | None = None  #: the worker on which they are kept; None: launches are split
        #: transfers still to come that are part of changing over, in the unit of costs
        self.budget = 0.0
        self.barred = False  #: no worker has room for them
        #: what planning, handing over and exchanging take against what splitting gains
        self.thrift = Stretch(_CREDIT)
        self.hands = Stretch(_CREDIT)  #: the same without planning
        self.thought = 0.0  #: seconds of planning that have not been weighed yet
        #: by the identity of its tally, each kernel that was planned for them: tally, timing, launches that are weighed
        self.kernels: dict[int, tuple[KernelTally, _Timing, int]] = {}
        self.thrifty = False  #: they are kept because of what planning took, and launches take no plans
        self.returns = 0  #: how often they were split again after that
        self.span = 0  #: over how many workers launches are split; 0: all
        self.spans = Spans(_CREDIT)
        self.planned = 0.0  #: seconds of planning over the number of workers in use: over another one all is planned anew
        self.wanted = 0  #: the number of workers that is to be taken; 0: the one in use
        self.cramped = 0  #: so many workers, and fewer, have no room for them
        #: while they are kept: the states that they would have
        self.split_states: WeakKeyDictionary[VirtualBuffer, BufferState] = WeakKeyDictionary()

    @property
    def open(self) -> bool:
        """Whether every launch counts; otherwise only those that exchange much."""
        return (self.keeper is not None and not self.thrifty) or self.ways.regret > 0

    def set_way(self, buffers: Sequence[VirtualBuffer] | WeakSet[VirtualBuffer]) -> None:
        """Let plans for these buffers be made for the way in use."""
        for buffer in buffers:
            buffer.state = kept_on(buffer.state, self.keeper)
            buffer.span = self.span


class _Timing:
    """What one kernel takes."""

    __slots__ = (
        "cache",
        "counts_for",
        "direct",
        "due_at",
        "exchanged",
        "gathered",
        "handed",
        "launches",
        "pause",
        "skipped",
        "stake",
        "stakes",
        "thought",
        "times",
        "unit",
    )

    def __init__(self, least: Least) -> None:
        self.launches = 0  #: that were weighed
        self.direct = 0  #: launches without plans that were looked at
        #: seconds that a unit of costs takes among its transfers: columns are slower than blocks
        self.unit = Median(_TRANSFERS, _ENOUGH_TRANSFERS)
        self.times = KernelTimes(least)
        #: of split launches: seconds of planning and of handing over, and costs of what moved
        self.thought, self.exchanged = Mean(0.125), Mean(0.125)
        #: the second by number of workers and whether these exchanged anything
        self.handed: dict[tuple[int, bool], Median] = {}
        self.stake: Stake | None = None  #: of the last split launch that was weighed
        #: the same by the number of workers that there were for it, and after how many launches
        self.stakes: dict[int, tuple[Stake, int]] = {}
        self.cache: LaunchCache | None = None  #: of its plans
        #: launches that are not weighed before the next is, since it gained; and how many of these there were
        self.pause = self.skipped = 0
        self.counts_for = UNTIL_LOOKED_AT  #: of how many launches of a short kernel one has the weight
        self.due_at = 0  #: launches of the kernel when it was last asked whether one without a plan is due
        #: by index space, in the unit of costs: what was brought to one worker beyond changing over
        self.gathered: dict[object, Mean] = {}

    def wants_sample(self, stake: Stake) -> bool:
        many = stake.exchanges and stake.kept is None and self.launches < _SAMPLE_EVERY
        every = _SAMPLE_EXCHANGE_EVERY if many else _SAMPLE_EVERY
        return self.launches <= _FIRST_SAMPLES or self.launches % every == 0

    def is_due(self, launches: int = 1) -> bool:
        """Whether the last of so many more launches is to be looked at although nothing else speaks for it."""
        self.skipped += launches
        return self.skipped > self.pause

    def is_due_at(self, launches: int) -> bool:
        """The same for the kernel's launch of that number, where not all before it were asked for: most launches without
        plans are handed over at once.
        """
        before, self.due_at = self.due_at, launches
        return self.is_due(max(launches - before, 1))

    def looked_at(self, gains: bool) -> None:
        """It was: the next one is later where it gains."""
        self.skipped = 0
        self.pause = min(2 * self.pause + 1, _MOST_PAUSE) if gains else 0


@dataclass(slots=True)
class _Taken:
    """A launch of which a sample was taken. `stake`: None where it is looked at only for its balance."""

    sample: Sample
    cache: LaunchCache
    cached: CachedPlan
    timing: _Timing
    stake: Stake | None
    ndrange: NDRange
    number: int  #: of the launch, among its kernel's


def _hands(stake: Stake) -> tuple[int, bool]:
    """What of a launch decides what handing it over takes, beside the kernel."""
    return stake.workers, stake.messages > 0


class Choosing:
    """The accounts of one session. Under its lock."""

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
        self._machine = machine or MachineTimes()
        self.seconds_per_cost = self._machine.per_byte  #: that a unit of `LinkCosts` takes
        self._least = Least()  #: of all kernels
        self._handed = Median(
            _HANDOVERS, _ENOUGH_HANDOVERS
        )  #: seconds of handing over launches without plans
        self.exchanges = exchanges or forced
        self.thrifty = thrifty
        self._shared = shared
        #: under which cuts are kept between runs; empty where launches are not cut by what they take
        self.machine = "" if shared else name
        #: accounts whose launches take no plans
        self.without_plans: WeakSet[_Account] = WeakSet()
        #: by the identity of their tallies, kernels of sequences that were found to lose by being split: on new buffers they
        #: begin on one worker
        self.alone: set[int] = set()
        self._occupancy = occupancy
        self._options = options
        #: the numbers of workers over which launches may be split
        self._spans = () if shared else halves(len(options.workers))
        self._fewer: dict[int, LaunchOptions] = {}
        #: by the identity of their tallies, kernels that were on one worker at the end of the program's last run
        self._kept_alone: set[int] = set()
        self._forced = forced
        self._accounts: WeakKeyDictionary[VirtualBuffer, _Account] = WeakKeyDictionary()
        self._open: WeakSet[_Account] = WeakSet()
        #: whether launches count that exchange little
        self.open = False
        self._idle = 0  #: launches since one counted
        self._changed: _Account | None = None  #: with the launch that was weighed last
        self._timings: dict[int, _Timing] = {}  #: by the identity of a kernel's tally, which stays
        #: the least that a unit of costs was seen to take, in seconds
        self._unit: float | None = None
        self._samples: deque[_Taken] = deque(maxlen=_MOST_SAMPLES)
        self._recut = False  #: a kernel's plans have been forgotten
        #: by all that they depend on: the states that a launch leaves if it is split, and its stake
        self._split_plans: dict[Any, tuple[tuple[BufferState, ...], Stake | None]] = {}

    def begin(self, cache: LaunchCache) -> None:
        """The first launch of a kernel comes: begin with what the program's last run has found."""
        cache.span = len(self._options.workers)
        span = cache.begin(self.machine) if self.machine else None
        if span in self._spans:
            cache.span = span
        elif span == ONE and self.thrifty:
            self.alone.add(id(cache.tally))
            self._kept_alone.add(id(cache.tally))

    def over(self, span: int, options: LaunchOptions) -> LaunchOptions:
        """`options`, the session's, for launches that are split over so many workers."""
        if not 0 < span < len(options.workers):
            return options
        found = self._fewer.get(span)
        if found is None:
            found = replace(options, workers=options.workers[:span], fewer=True)
            self._fewer[span] = found
        return found

    def stake(self, plan: Plan, buffers: Sequence[VirtualBuffer], nitems: int) -> Stake | None:
        """What a plan for `buffers` as they are is weighed by."""
        states = [buffer.state for buffer in buffers]
        return stake_of(plan, states, self._options.links, nitems, small=self.thrifty)

    def counts(self, stake: Stake, thought: float, tally: KernelTally) -> bool:
        """Whether a launch is to be weighed for whose plan so many seconds were taken."""
        if self.open or (self.exchanges and stake.exchanges):
            return True
        return self.thrifty and (thought > 0 or self._is_due(tally))

    def _is_due(self, tally: KernelTally) -> bool:
        timing = self._timings.get(id(tally))
        return timing is None or timing.is_due()

    def counts_direct(self, tally: KernelTally) -> bool:
        """Whether a launch without a plan is to be sampled: nothing else would tell what it takes."""
        if self._shared or not self.thrifty:
            return False
        timing = self._timing(tally)
        timing.direct += 1
        return timing.direct <= _FIRST_SAMPLES or timing.direct % _SAMPLE_EVERY == 0

    def handed_over(self, tally: KernelTally, cached: CachedPlan, seconds: float) -> None:
        """The host took so long to hand over a launch that was weighed or sampled."""
        if cached.direct:
            if cached.steady:
                self._handed.add(seconds)
        elif cached.stake is not None:
            key = _hands(cached.stake)
            handed = self._timing(tally).handed
            if key not in handed:
                handed[key] = Median(_HANDOVERS, _ENOUGH_HANDOVERS)
            handed[key].add(seconds)

    def _timing(self, tally: KernelTally) -> _Timing:
        found = self._timings.get(id(tally))
        if found is None:
            found = self._timings[id(tally)] = _Timing(self._least)
        return found

    def weigh(
        self,
        launch: Launch,
        tally: KernelTally,
        cached: CachedPlan,
        buffers: Sequence[VirtualBuffer],
        thought: float = 0.0,
    ) -> bool:
        """One more launch on `buffers`, whose plan is `cached` and took `thought` seconds to make. True where the
        other way is taken from this launch on: it has to be planned again.
        """
        thought = thought if self.thrifty else 0.0
        stake = cached.stake
        assert stake is not None, "only what is at stake is weighed"
        large = [buffers[slot] for slot in stake.slots]
        counts = self.exchanges and (stake.exchanges or any(map(self._is_open, large)))
        if not counts:
            self._idle += 1
            if self._idle >= _IDLE:
                self.open = False
            if not self.thrifty:
                return False
        else:
            self._idle = 0
        self._read_samples()
        account = self._account(large, stake.kept)
        timing = self._timing(tally)
        self._set_span(account, launch.kernel.plans.span_of(buffers))
        timing.cache = launch.kernel.plans
        moved = max(stake.moved - account.budget, 0.0)
        if account.keeper is not None:
            account.thought += thought
            if account.thought > _FLOOR / 2:  # from now on without plans, for which nothing has to move
                account.thrifty = True
                self.without_plans.add(account)
                account.thought = 0.0
            change = self._weigh_kept(account, launch, timing, cached, stake, moved, buffers)
        elif account.barred:
            change = False
        else:
            if self.thrifty and self._weigh_time(account, tally, timing, stake, thought, large):
                return self._narrow(account) or self._change(account, thrifty=True)
            if self._take_other_span(account):
                return True
            change = counts and (self._forced or self._weigh_split(account, launch, timing, stake, moved))
            if change and self._narrow(account):
                return True
        if change:
            change = self._change(account)
        if change and account.keeper is not None:
            self._split_plan(account, launch, cached, stake, buffers)
        if not change:
            account.budget -= stake.moved - moved
        if account.open:
            self._open.add(account)
            self.open = True
        else:
            self._open.discard(account)
            self.open = len(self._open) > 0
        self._changed = account if change else None
        return change

    def balances(self, cache: LaunchCache, cached: CachedPlan, ndrange: NDRange) -> bool:
        """Whether a launch is to be looked at for what its chunks take beside each other."""
        if self._shared:
            return False
        workers, chunks = self._parted(cached)
        return cache.balance.wants(ndrange.num_groups, chunks, workers, cache.tally.launches)

    def _parted(self, cached: CachedPlan) -> tuple[tuple[int, ...], tuple[Chunk, ...]]:
        """The workers of a plan and their chunks, where each has one of its own, on hardware of its own; else none."""
        partition = cached.plan.partition
        if self._shared or len(partition) < 2:
            return (), ()
        workers, chunks = zip(*partition, strict=True)
        return ((), ()) if len(set(workers)) < len(workers) else (workers, chunks)

    def sampled(self, cache: LaunchCache, cached: CachedPlan, ndrange: NDRange) -> PreparedPlan:
        """What is to be submitted of a launch over `ndrange` that was weighed or balances, or is one without a plan: its plan,
        or that with a sample taken.
        """
        stake, account, self._changed = cached.stake, self._changed, None
        timing = self._timing(cache.tally)
        self._read_samples()
        if cached.direct:
            stake = Stake(ndrange.nitems, 1.0, 0, (), 0.0, (), 0.0, False)
        elif not self._wants_sample(cache, cached, ndrange, timing, account):
            return cached.prepared
        prepared, sample = sampled(cached.prepared)
        self._samples.append(_Taken(sample, cache, cached, timing, stake, ndrange, cache.tally.launches))
        return prepared

    def _wants_sample(
        self,
        cache: LaunchCache,
        cached: CachedPlan,
        ndrange: NDRange,
        timing: _Timing,
        account: _Account | None,
    ) -> bool:
        wanted, stake = False, cached.stake
        if stake is not None:
            if account is not None:
                account.budget = max(account.budget - stake.moved, 0.0)
            timing.launches += 1
            wanted = not self._forced and timing.wants_sample(stake)
        workers, chunks = self._parted(cached)
        launches = cache.tally.launches
        return cache.balance.wants_sample(ndrange.num_groups, chunks, workers, launches) or wanted

    def take_recut(self) -> bool:
        """Whether plans were forgotten since this was asked last, for launches to be cut elsewhere."""
        recut, self._recut = self._recut, False
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

    # what launches take -----------------------------------------------------------------------------

    def _weigh_split(
        self, account: _Account, launch: Launch, timing: _Timing, stake: Stake, moved: float
    ) -> bool:
        unit = timing.unit.value or self._unit
        gathered = timing.gathered.get(launch.ndrange)
        again = 0.0
        if gathered is not None and gathered.value is not None:
            again = gathered.value
            gathered.value *= _FORGET
        if unit is None or self._unit is None or not timing.times.known:
            return False
        split, whole = timing.times.chunk(stake.nitems, stake.share), timing.times.whole(stake.nitems)
        # All that launches use goes with the first of them, however little that reads.
        change = max(stake.gathered, self._spread(account.buffers) / 2) * self._unit
        return account.ways.weigh(split + moved * unit, whole + again * self._unit, change)

    def _weigh_time(
        self,
        account: _Account,
        tally: KernelTally,
        timing: _Timing,
        stake: Stake,
        thought: float,
        buffers: Sequence[VirtualBuffer],
    ) -> bool:
        """A launch whose plan took so many seconds to make. True where planning launches, handing them over to several
        workers and what they exchange have taken more than all launches since they were weighed last have gained by being split.
        """
        launches = tally.launches
        if id(tally) not in account.kernels and timing.thought.value is None:
            thought = min(thought, _FIRST)
        account.thought += thought
        _, _, seen = account.kernels.setdefault(id(tally), (tally, timing, launches))
        timing.thought.add(thought / max(launches + 1 - seen, 1))
        timing.exchanged.add(stake.moved)
        timing.stake, timing.stakes[self._span_of(account)] = stake, (stake, launches)
        change = self._changing(buffers)
        if self._shared:  # what kernels take is the same in either way
            account.kernels[id(tally)] = (tally, timing, launches + 1)
            timing.pause, timing.skipped = _PAUSE_SHARED, 0
            hands = self._machine.handing_over(stake.workers, stake.messages) - self._machine.launch
            split = Way(account.thought + hands * (launches + 1 - seen), 0.0)
            account.thought = 0.0
            return account.thrift.weigh(split, NOTHING, max(change, _FLOOR_SHARED / 2))
        if any(
            not each.times.known and tally.launches - seen < _LONG_UNKNOWN
            for tally, each, seen in account.kernels.values()
        ):
            return False  # later, once it is known what they take
        thought, account.thought = account.thought, 0.0
        account.planned += thought
        split, one = self._since(account, tally, thought)
        least = max(change, _FLOOR_HANDS / 2)
        done = account.hands.weigh(split, one, least)
        # Plans that are made once do not count at once, unless there is nothing to gain from them.
        in_vain = account.hands.regret > 0
        done |= account.thrift.weigh(
            split + Way(thought, 0.0), one, least if in_vain else max(change, _FLOOR / 2)
        )
        timing.looked_at(account.thrift.regret == 0 and account.spans.regret == 0)
        return done

    def _changing(self, buffers: Sequence[VirtualBuffer]) -> float:
        """Seconds that it takes to bring buffers to one worker that are evenly spread over all."""
        return self._spread(buffers) * self._machine.per_byte + len(buffers) * self._machine.latency

    def _spread(self, buffers: Iterable[VirtualBuffer]) -> float:
        """The same in the unit of costs."""
        return sum(buffer.nbytes for buffer in buffers) * mean_cost(self._options.links)

    def _split_way(self, timing: _Timing, stake: Stake) -> Way:
        """A launch as its plan has it."""
        machine = self._machine
        handed = timing.handed.get(_hands(stake))
        host = None if handed is None else handed.value
        if host is None:
            host = machine.handing_over(stake.workers, stake.messages)
        # What is exchanged in bulk is weighed elsewhere, with what it took when it was measured.
        moved = 0.0 if self.exchanges and stake.exchanges else stake.moved
        exchange = machine.exchanging(stake.busiest, moved)
        return Way(host, timing.times.chunk(stake.nitems, stake.share) + exchange)

    def _one_way(self, timing: _Timing, nitems: int) -> Way:
        """The same launch on one worker, without a plan."""
        host = self._handed.value
        if (
            host is None
        ):  # as much less than on a machine of which nothing was measured as over several workers
            stake, launch = timing.stake, self._machine.launch
            host = launch if stake is None else min(launch * self._as_handed(timing, stake), launch)
        return Way(host, timing.times.whole(nitems))

    def _as_handed(self, timing: _Timing, stake: Stake) -> float:
        """What handing over launches of a kernel takes, over what it takes by what was measured of the machine."""
        measured = timing.handed.get(_hands(stake))
        if measured is None or measured.value is None:
            return 1.0
        return measured.value / self._machine.handing_over(stake.workers, stake.messages)

    def _since(self, account: _Account, current: KernelTally, thought: float) -> tuple[Way, Way]:
        """What launches have taken since they were weighed last, with the one of `current` in hand, and what they would
        have taken on one worker. `thought`: seconds of planning for them.
        """
        split = one = NOTHING
        spans = dict.fromkeys(self._others(account), NOTHING)
        for key, (tally, timing, seen) in account.kernels.items():
            launches = tally.launches + (tally is current)
            if launches > seen and timing.stake is not None:
                count = launches - seen
                split = split + self._split_way(timing, timing.stake).times(count)
                one = one + self._one_way(timing, timing.stake.nitems).times(count)
                for span, so_far in spans.items():
                    way = self._way_over(timing, timing.stake, launches, self._span_of(account), span)
                    spans[span] = so_far + way.times(count)
                account.kernels[key] = (tally, timing, launches)
        if spans:
            self._weigh_spans(account, spans | {ONE: one}, thought)
        return split, one

    # fewer workers ----------------------------------------------------------------------------------

    def _span_of(self, account: _Account) -> int:
        """Over how many workers an account's launches are split."""
        return account.span or len(self._options.workers)

    def _others(self, account: _Account) -> tuple[int, ...]:
        """The numbers of workers to choose from; none where there is nothing to choose."""
        found = self._spans
        if account.cramped:
            found = tuple(span for span in found if span > account.cramped)
        return found if len(found) > 1 else ()

    def _way_over(self, timing: _Timing, stake: Stake, launches: int, now: int, span: int) -> Way:
        """A launch whose plan is for `now` workers, over `span` of them, with all that is exchanged: as it was when these were
        in use, and the more as it is foretold the more launches ago that was.
        """
        there = stake
        if span != now:
            there = over(stake, now, span)
            known, when = timing.stakes.get(span, (there, launches))
            if known.nitems == stake.nitems:
                there = between(there, known, _FORGET ** (launches - when))
        machine = self._machine
        host, measured = machine.handing_over(there.workers, there.messages), timing.handed.get(_hands(there))
        if measured is not None and measured.value is not None:
            host = measured.value
        else:
            host *= self._as_handed(timing, stake)
        unit = timing.unit.value or self._unit
        exchange = machine.exchanging(there.busiest, there.moved, unit)
        way = Way(host, timing.times.chunk(there.nitems, there.share) + exchange)
        return way if span in timing.stakes else Way(way.host * UNTRIED, way.device * UNTRIED)

    def _weigh_spans(self, account: _Account, ways: Mapping[int, Way], thought: float) -> None:
        moving, least = self._changing(list(account.buffers)), max(_FLOOR_SPAN, account.planned) / 2
        found = account.spans.weigh(
            self._span_of(account), ways, thought, lambda span: max(moving / span, least)
        )
        account.wanted = found if found is not None and self._has_room(account, found) else 0

    def _has_room(self, account: _Account, span: int) -> bool:
        """Whether the first workers have room for an account's buffers; otherwise so few are no candidates any more."""
        self._occupancy.settle()
        free, room = self._occupancy.free(), self._occupancy.room
        each = sum(buffer.nbytes for buffer in account.buffers) / span
        held = sum(buffer.nbytes for buffer in account.buffers) / self._span_of(account)
        enough = all(
            each <= min(free[worker] + held, room[worker]) * _ROOM_SHARE
            for worker in self._options.workers[:span]
        )
        if not enough:
            account.cramped = max(account.cramped, span)
            account.spans.leave_out(span)
        return enough

    def _take_other_span(self, account: _Account) -> bool:
        """Take the number of workers over which an account's launches were found to be faster, if there is one."""
        span, account.wanted = account.wanted, 0
        account.spans.changes += span > 0
        return span > 0 and self._take_span(account, span)

    def _narrow(self, account: _Account) -> bool:
        """One worker takes less time than those in use: take a number of them that takes still less, if there is one."""
        account.wanted = 0
        while self._others(account):
            span = account.spans.instead_of_one(self._span_of(account))
            if span is None or self._has_room(account, span):
                return span is not None and self._take_span(account, span)
        return False

    def _take_span(self, account: _Account, span: int) -> bool:
        logger.info("launches on %d buffers are split over %d workers", len(account.buffers), span)
        self._set_span(account, span)
        self._remember(account, span)
        change = max(account.ways.change, account.thrift.change)
        account.budget = change / self._unit if self._unit else 0.0
        self._begin_way(account)
        self._recut = True
        return True

    @staticmethod
    def _remember(account: _Account, span: int) -> None:
        """An account's kernels run over so many workers, on other buffers and in the program's next run."""
        for _, timing, _ in account.kernels.values():
            if timing.cache is not None:
                timing.cache.keep_span(span)
                if span != ONE:
                    timing.cache.span = span

    def _set_span(self, account: _Account, span: int) -> None:
        """Launches on an account's buffers are split over so many workers."""
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
        account = self._accounts.get(buffers[0]) if buffers else None
        if account is not None and account.thrifty and self._are_kept_together(buffers, account):
            return account.keeper  # as nearly always where there are such
        keepers = {buffer.state.kept for buffer in buffers}
        keepers.discard(None)
        if not keepers:
            if id(tally) not in self.alone or any(buffer in self._accounts for buffer in buffers):
                return None
            return self._begin_alone(buffers, tally)
        found = list(filter(None, map(self._account_of, buffers)))
        first = next((account for account in found if account.thrifty), None)
        if first is None:
            return None
        if len(keepers) > 1:  # they meet, and are kept together from now on
            met = [buffer for buffer in buffers if buffer in self._accounts]
            met.sort(key=lambda buffer: self._accounts[buffer] is not first)
            self._account(met, first.keeper)
        return first.keeper

    def _are_kept_together(self, buffers: Sequence[VirtualBuffer], account: _Account) -> bool:
        accounts, keeper = self._accounts, account.keeper
        return all(buffer.state.kept == keeper and accounts.get(buffer) is account for buffer in buffers)

    def _account_of(self, buffer: VirtualBuffer) -> _Account | None:
        """The account of a buffer; one that a launch without a plan has left on a worker belongs to those that are there."""
        account = self._accounts.get(buffer)
        if account is None and buffer.state.kept is not None:
            there = (other for other in self.without_plans if other.keeper == buffer.state.kept)
            account = next(there, None)
            if account is not None:
                self._enter(account, buffer)
        return account

    def _begin_alone(self, buffers: Sequence[VirtualBuffer], tally: KernelTally) -> int | None:
        """Keep buffers on one worker of which nothing is known; None where there is none for them."""
        states = [buffer.state for buffer in buffers]
        large = [buffers[slot] for slot in weighty(states, self._options.links, small=True)]
        if not large or any(state.fine or state.kept is not None for state in states):
            return None
        account = self._account(large, None)
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
        timing = self._timings.get(id(tally))
        if timing is None or not timing.times.known:
            return 1 if tally.launches >= _LONG_UNKNOWN else UNTIL_LOOKED_AT
        return timing.counts_for

    def reconsider(self, launch: Launch, tally: KernelTally, buffers: Sequence[VirtualBuffer]) -> bool:
        """One more launch without a plan. True where its buffers are split again, and it is to be planned."""
        timing = self._timings.get(id(tally))
        if timing is None or not timing.times.known or self._shared:
            return False  # nothing to gain, or nothing known of it
        if not timing.is_due_at(tally.launches + 1):
            return False
        states = [buffer.state for buffer in buffers]
        kept = next(state.kept for state in states if state.kept is not None)
        large = [buffers[slot] for slot in weighty(states, self._options.links, small=True)]
        account = self._account(large, kept)
        launches = tally.launches + 1
        _, _, seen = account.kernels.get(id(tally), (tally, timing, launches - 1))
        account.kernels[id(tally)] = (tally, timing, launches)
        count = launches - seen
        thought = timing.thought.value or 0.0
        timing.thought.value = thought * (1 - _FORGET_THOUGHT / (1 << min(account.returns, 20))) ** count
        nitems = launch.ndrange.nitems
        timing.counts_for = 1 + int(timing.times.whole(nitems) / _SHORT)
        # of what it exchanged in bulk, too, all counts
        stake = timing.stake or self._even_stake(nitems)
        stake = replace(stake, nitems=nitems, moved=timing.exchanged.value or 0.0)
        now, planned = self._span_of(account), Way(thought, 0.0)
        spans = self._others(account) or (now,)
        ways = {span: self._way_over(timing, stake, launches, now, span) + planned for span in spans}
        account.spans.note({span: way.times(count) for span, way in ways.items()}, 0.0)
        best = account.spans.best() or now
        split = ways[best]
        change = max(self._changing(buffers), _FLOOR_HANDS / 2) * _RETURN ** min(account.returns, 10)
        one = self._one_way(timing, nitems)
        timing.looked_at(split.seconds >= one.seconds)
        if not account.thrift.weigh(one.times(count), split.times(count), change):
            return False
        self._set_span(account, best)
        return self._change(account)

    def _even_stake(self, nitems: int) -> Stake:
        """Of a kernel that was never split: even shares, and an exchange between neighbours."""
        count = len(self._options.workers)
        share = 1 / count if nitems >= self._options.min_items else 1.0
        return Stake(nitems, share, None, (), 0.0, (), 0.0, False, count, count, 1)

    # pending reductions -----------------------------------------------------------------------------

    def folded(self, buffer: VirtualBuffer, plan: Plan) -> None:
        """What launches had left pending of a buffer was folded, which it was not on one worker: it counts like a launch
        that has exchanged as much.
        """
        account = self._accounts.get(buffer)
        if account is None or account.keeper is not None or account.barred:
            return
        exchange, machine = exchange_of(plan, self._options.links), self._machine
        bulk = self.exchanges and exchange.most >= SMALL_NBYTES
        if bulk:
            account.ways.regret += exchange.moved * (self._unit or machine.per_byte)
            self._open.add(account)
            self.open = True
        if self.thrifty and not self._shared:
            host = machine.handing_over(len(plan.workers), sum(exchange.messages.values()))
            took = Way(host, machine.exchanging(exchange.busiest, 0.0 if bulk else exchange.moved))
            account.thrift.add(took)
            account.hands.add(took)

    # transfers, split plans -------------------------------------------------------------------------

    def _weigh_kept(
        self,
        account: _Account,
        launch: Launch,
        timing: _Timing,
        cached: CachedPlan,
        stake: Stake,
        moved: float,
        buffers: Sequence[VirtualBuffer],
    ) -> bool:
        gathered = timing.gathered.get(launch.ndrange)
        if gathered is None:
            if len(timing.gathered) >= _MOST_PLANS:
                timing.gathered.clear()
            gathered = timing.gathered[launch.ndrange] = Mean(0.125)
        gathered.add(moved)
        split = self._split_plan(account, launch, cached, stake, buffers)
        unit, times = timing.unit.value or self._unit, timing.times
        if unit is None or self._unit is None or not times.known or split is None:
            return False
        # A kernel that reads nothing of them changes the way of all that do.
        change = max(stake.gathered, self._spread(account.buffers)) * self._unit
        return account.ways.weigh(
            times.whole(stake.nitems) + moved * self._unit,
            times.chunk(stake.nitems, split.share) + split.moved * unit,
            change,
        )

    def _split_plan(
        self,
        account: _Account,
        launch: Launch,
        cached: CachedPlan,
        stake: Stake,
        buffers: Sequence[VirtualBuffer],
    ) -> Stake | None:
        """The stake that the launch would have, had its buffers never been kept. None where it is whole."""
        known = account.split_states
        links = self._options.links
        states = [folded(known.get(buffer) or kept_on(buffer.state, None), links) for buffer in buffers]
        # Two launches with one plan are the same but for their buffers' states.
        key = (cached, *states)
        found = self._split_plans.get(key)
        if found is None:
            try:
                workers = self._options.workers[: self._span_of(account)]
                options = replace(
                    self._options, workers=workers, pending=False
                )  # what is folded later is exchanged, too
                plan = plan_launch(states, request_of(launch, buffers), options)
            except EvaluationFault:  # it runs whole
                return None
            if len(self._split_plans) >= _MOST_PLANS:
                self._split_plans.clear()
            split = stake_of(plan, states, links, stake.nitems)
            found = self._split_plans[key] = (plan.states, split)
        after, split = found
        for buffer, state in zip(buffers, after, strict=True):
            known[buffer] = state
        return split

    def _read_samples(self) -> None:
        """Learn from those that are complete."""
        for _ in range(len(self._samples)):
            taken = self._samples.popleft()
            measured = taken.sample.take()
            if measured is None:
                self._samples.append(taken)
                continue
            timing, stake, tally = taken.timing, taken.stake, taken.cache.tally
            chunks = list(measured.kernel.values())
            self._balance(taken, measured)
            if stake is None:
                continue
            predicted = timing.times.chunk(stake.nitems, stake.share)
            tally.foretold(len(chunks), predicted, max(chunks, default=0.0))
            timing.times.add(stake.nitems, chunks)
            brought = [measured.before.get(worker, 0.0) for worker in stake.receivers]
            if stake.kept is None and stake.exchanges and any(brought):
                timing.unit.add(max(brought) / stake.moved)
                if timing.unit.value is not None:
                    self._unit = min(self._unit or inf, timing.unit.value)

    def _balance(self, taken: _Taken, measured: Measured) -> None:
        """Learn what the chunks of a launch took beside each other, and cut its kernel's launches elsewhere if that gains."""
        cache = taken.cache
        workers, chunks = self._parted(taken.cached)
        if not chunks or measured.kernel.keys() != set(workers):
            return
        launches = cache.tally.launches
        thought = taken.timing.thought.value or _FIRST
        # Cut elsewhere, launches whose numbers change are planned one by one.
        each = _PLAN if taken.cached.filled else 0.0
        moving = max(measured.before.values(), default=0.0)
        seconds = [measured.kernel[worker] for worker in workers]
        where = taken.ndrange.num_groups, chunks, workers
        if cache.balance.measured(*where, seconds, moving, taken.number, launches, thought, each):
            cache.forget()
            taken.timing.times.forget_shares()
            self._recut = True
        cache.keep_balance()

    # accounts ---------------------------------------------------------------------------------------

    def _is_open(self, buffer: VirtualBuffer) -> bool:
        account = self._accounts.get(buffer)
        return account is not None and account.open

    def _account(self, buffers: Sequence[VirtualBuffer], kept: int | None) -> _Account:
        """The one account of these buffers, whose launch was just planned to be kept on `kept` or to be split."""
        found = list(dict.fromkeys(filter(None, map(self._accounts.get, buffers))))
        account = found[0] if found else _Account()
        for other in found[1:]:
            account.ways.join(other.ways)
            account.thought += other.thought
            account.thrift.join(other.thrift)
            account.hands.join(other.hands)
            account.kernels.update(other.kernels)
            account.returns = max(account.returns, other.returns)
            if other.thrifty and account.keeper is None:
                account.keeper, account.thrifty = other.keeper, True
                self.without_plans.add(account)
                account.set_way(account.buffers)
            self.without_plans.discard(other)
            account.budget += other.budget
            account.barred = account.barred or other.barred
            account.split_states.update(other.split_states)
            account.set_way(other.buffers)
            for buffer in other.buffers:
                self._enter(account, buffer)
            self._open.discard(other)
            account.cramped = max(account.cramped, other.cramped)
        for buffer in buffers:
            if buffer not in account.buffers:
                self._enter(account, buffer)
        if account.keeper != kept:  # the first of them that is kept decides, as for the plan
            account.keeper = kept
            account.thrifty = account.thrifty and kept is not None
            account.ways.changed()
            account.set_way(account.buffers)
        return account

    def _enter(self, account: _Account, buffer: VirtualBuffer) -> None:
        self._accounts[buffer] = account
        account.buffers.add(buffer)
        buffer.span = account.span

    def _change(self, account: _Account, *, thrifty: bool = False) -> bool:
        """Take the other way for an account's buffers; `thrifty`: because of what planning took. False where no worker
        has room for them.
        """
        ways: TwoWays | Stretch = account.thrift if thrifty or account.thrifty else account.ways
        if account.keeper is not None:
            logger.info("%d buffers are not kept on worker %d any more", len(account.buffers), account.keeper)
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
            self._remember(account, ONE)
            if thrifty:
                self.without_plans.add(account)
            else:
                for buffer in account.buffers:
                    account.split_states[buffer] = buffer.state
            logger.info(
                "%d buffers are kept on worker %d: split, their launches took %.3g s more so far",
                len(account.buffers),
                account.keeper,
                ways.regret,
            )
        account.budget = ways.change / self._unit if self._unit else 0.0
        self._begin_way(account)
        account.set_way(account.buffers)
        return True

    @staticmethod
    def _begin_way(account: _Account) -> None:
        """Another way is in use for an account."""
        account.thought, account.planned, account.wanted = 0.0, 0.0, 0
        account.kernels.clear()
        for each in (account.ways, account.thrift, account.hands, account.spans):
            each.changed()

    def _roomiest(self, account: _Account, thrifty: bool) -> int | None:
        """The worker to keep an account's buffers on; None where none has room for all of them.

        `thrifty`: the one where others are kept because of what planning took: what is over soon may well meet.
        """
        self._occupancy.settle()
        free = self._occupancy.free()
        wanted = sum(buffer.nbytes for buffer in account.buffers)
        taken = [other.keeper for other in self._open if other.keeper is not None]

        def missing(worker: int) -> int:
            replicas = [buffer.state.replica(worker) for buffer in account.buffers]
            return wanted - sum(stop - start for start, stop in filter(None, replicas))

        able = [worker for worker in self._options.workers if missing(worker) <= free[worker] * _ROOM_SHARE]
        if thrifty:
            near = {other.keeper for other in self.without_plans}
            return min(able, key=lambda worker: (worker not in near, worker), default=None)
        return min(able, key=lambda worker: (taken.count(worker), worker), default=None)


def can_choose(workers: Sequence[WorkerInfo]) -> bool:
    """Whether there are workers to choose from: several of one kind with memory and hardware of their own."""
    return (
        len(workers) > 1
        and not any(info.is_cpu for info in workers)
        and len({info.backend for info in workers}) == 1
        and len({info.device_key for info in workers}) == len(workers)
    )
