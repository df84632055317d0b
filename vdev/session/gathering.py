"""Choosing between all workers and one, for launches on the same buffers.

Decides which buffers belong together (large ones that launches use together, once one of these exchanges much),
what a launch takes in either way, and on which worker buffers are kept. When the ways change is `regret`'s.

What the way in use takes is the plan's: bytes over links, the kernel, and the host's time for making the plan.
What the other would take: on one worker the kernel and what had to be brought there again and again when it was
tried; split what a plan says that is made beside, for the states that the buffers would have. Times are measured:
kernels and transfers by samples of a few launches, never waited for. Nothing is decided before there are some.

Where planning is most of what splitting took, launches are made without plans from then on (`vdev.session.direct`), which takes
next to nothing; what splitting them would take is then known from before. It is tried again rarely, each time later.
On workers that share hardware splitting gains nothing, and only what planning takes counts.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from math import inf
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from vdev.backends.base import WorkerInfo
from vdev.executor.prepare import PreparedPlan
from vdev.executor.sampling import Sample, sampled
from vdev.observe.tallies import KernelTally
from vdev.planner.directory import BufferState, kept_on
from vdev.planner.instructions import Plan
from vdev.planner.launches import LaunchOptions, plan_launch
from vdev.planner.regret import Mean, Median, Stake, TwoWays, stake_of, weighty
from vdev.session.buffers import Occupancy, VirtualBuffer
from vdev.session.commands import Launch
from vdev.session.launching import CachedPlan
from vdev.session.requests import EvaluationFault, request_of

logger = logging.getLogger("vdev.session.gathering")

#: launches of a kernel that are sampled: the first, one in so many, and at first more of those that exchange much
_FIRST_SAMPLES, _SAMPLE_EVERY, _SAMPLE_EXCHANGE_EVERY = 4, 64, 4
#: samples on their way; those of commands that failed never arrive
_MOST_SAMPLES = 16
#: measured transfers that count, and how many there must be
_TRANSFERS, _ENOUGH_TRANSFERS = 9, 3
#: of a worker's memory that is free, what gathered buffers may take
_ROOM_SHARE = 0.9
#: what gathering took is forgotten by so much with each launch, so that one worker is tried again some time
_FORGET = 0.98
#: launches on other buffers after which those that exchange little are not looked at until one exchanges much
_IDLE = 64
#: seconds that planning may take before anything is decided by it: where workers have hardware of their own, and where
#: they share it, which nobody asks for but to have launches split
_FLOOR, _FLOOR_SHARED = 0.005, 0.02
#: what the first plan of a kernel counts at most, in seconds: with it comes what is done once
_FIRST = 0.001
#: seconds that a unit of costs takes, as long as no transfer has been measured
_USUAL_UNIT = 1e-10
#: what planning took is forgotten by so much with each launch that is made without; by half as much after each return
_FORGET_THOUGHT = 0.001
_MOST_PLANS = 1024


class _Account:
    """Buffers that belong together, and the way in use for them."""

    __slots__ = (
        "__weakref__",
        "barred",
        "budget",
        "buffers",
        "keeper",
        "kernels",
        "returns",
        "split_states",
        "thought",
        "thrift",
        "thrifty",
        "ways",
    )

    def __init__(self) -> None:
        self.buffers: WeakSet[VirtualBuffer] = WeakSet()
        self.ways = TwoWays()
        self.keeper: int | None = None  #: the worker on which they are kept; None: launches are split
        #: transfers still to come that are part of changing over, in the unit of costs
        self.budget = 0.0
        self.barred = False  #: no worker has room for them
        #: planning against what splitting gains
        self.thrift = TwoWays()
        self.thought = 0.0  #: seconds of planning that have not been weighed yet
        #: by the identity of its tally, each kernel that was planned for them: tally, timing, launches that are weighed
        self.kernels: dict[int, tuple[KernelTally, _Timing, int]] = {}
        self.thrifty = False  #: they are kept because of what planning took, and launches take no plans
        self.returns = 0  #: how often they were split again after that
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


class _Timing:
    """What one kernel takes."""

    __slots__ = ("exchanged", "gathered", "launches", "nitems", "per_item", "share", "thought", "unit")

    def __init__(self) -> None:
        self.launches = 0
        #: seconds that a unit of costs takes among its transfers: columns are slower than blocks
        self.unit = Median(_TRANSFERS, _ENOUGH_TRANSFERS)
        self.per_item = Mean(0.25)  #: seconds of one worker's time
        #: of split launches: seconds of planning, costs of what moved, and the largest chunk's part
        self.thought, self.exchanged, self.share = Mean(0.125), Mean(0.125), 1.0
        self.nitems = 0  #: work-items of the last that was weighed
        #: by index space, in the unit of costs: what was brought to one worker beyond changing over
        self.gathered: dict[object, Mean] = {}

    def wants_sample(self, stake: Stake) -> bool:
        many = stake.exchanges and stake.kept is None and self.launches < _SAMPLE_EVERY
        every = _SAMPLE_EXCHANGE_EVERY if many else _SAMPLE_EVERY
        return self.launches <= _FIRST_SAMPLES or self.launches % every == 0


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
    ) -> None:
        """`forced`: buffers are kept on one worker from their first large exchange on. `exchanges`: what launches
        exchange counts. `thrifty`: what their planning takes does. `shared`: the workers share hardware.
        """
        self.exchanges = exchanges or forced
        self.thrifty = thrifty
        self._shared = shared
        #: accounts whose launches take no plans
        self.without_plans: WeakSet[_Account] = WeakSet()
        self._occupancy = occupancy
        self._options = options
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
        self._samples: deque[tuple[Sample, _Timing, Stake]] = deque(maxlen=_MOST_SAMPLES)
        #: by all that they depend on: the states that a launch leaves if it is split, and its stake
        self._split_plans: dict[Any, tuple[tuple[BufferState, ...], Stake | None]] = {}

    def stake(self, plan: Plan, buffers: Sequence[VirtualBuffer], nitems: int) -> Stake | None:
        """What a plan for `buffers` as they are is weighed by."""
        states = [buffer.state for buffer in buffers]
        return stake_of(plan, states, self._options.links, nitems, small=self.thrifty)

    def counts(self, stake: Stake, thought: float) -> bool:
        """Whether a launch is to be weighed for whose plan so many seconds were taken."""
        return self.open or (self.exchanges and stake.exchanges) or (self.thrifty and thought > 0)

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
            if not thought:
                return False
        else:
            self._idle = 0
        self._read_samples()
        account = self._account(large, stake.kept)
        timing = self._timings.get(id(tally))
        if timing is None:
            timing = self._timings[id(tally)] = _Timing()
        moved = max(stake.moved - account.budget, 0.0)
        if account.keeper is not None:
            change = self._weigh_kept(account, launch, timing, cached, stake, moved, buffers)
        elif account.barred:
            change = False
        else:
            if thought and self._weigh_thought(account, tally, timing, stake, thought):
                return self._change(account, thrifty=True)
            change = counts and (self._forced or self._weigh_split(account, launch, timing, stake, moved))
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

    def sampled(self, tally: KernelTally, cached: CachedPlan) -> PreparedPlan:
        """What is to be submitted of a launch that was weighed: its plan, or that with a sample taken."""
        stake, account, self._changed = cached.stake, self._changed, None
        timing = self._timings.get(id(tally))
        if stake is None or timing is None:
            return cached.prepared
        if account is not None:
            account.budget = max(account.budget - stake.moved, 0.0)
        timing.launches += 1
        if self._forced or not timing.wants_sample(stake):
            return cached.prepared
        prepared, sample = sampled(cached.prepared)
        self._samples.append((sample, timing, stake))
        return prepared

    def give_up(self, buffers: Sequence[VirtualBuffer]) -> bool:
        """There is no room for the plan of a launch on `buffers`. Whether it was for one worker, and there will
        be another one if it is planned again.
        """
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
        unit, per_item = timing.unit.value or self._unit, timing.per_item.value
        gathered = timing.gathered.get(launch.ndrange)
        again = 0.0
        if gathered is not None and gathered.value is not None:
            again = gathered.value
            gathered.value *= _FORGET
        if unit is None or self._unit is None or per_item is None:
            return False
        whole = per_item * stake.nitems
        return account.ways.weigh(
            whole * stake.share + moved * unit, whole + again * self._unit, stake.gathered * self._unit
        )

    def _weigh_thought(
        self, account: _Account, tally: KernelTally, timing: _Timing, stake: Stake, thought: float
    ) -> bool:
        """A launch whose plan took so many seconds to make. True where planning has taken more than all launches since
        it was weighed last have gained by being split.
        """
        launches = tally.launches
        if id(tally) not in account.kernels and timing.thought.value is None:
            thought = min(thought, _FIRST)
        account.thought += thought
        _, _, seen = account.kernels.setdefault(id(tally), (tally, timing, launches))
        timing.thought.add(thought / max(launches + 1 - seen, 1))
        timing.exchanged.add(stake.moved)
        timing.share, timing.nitems = stake.share, stake.nitems
        if self._shared:
            account.kernels[id(tally)] = (tally, timing, launches)
            gained, floor = 0.0, _FLOOR_SHARED
        else:
            if any(each.per_item.value is None for _, each, _ in account.kernels.values()):
                return False  # later, once it is known what they take
            gained, floor = self._gained(account, tally), _FLOOR
        thought, account.thought = account.thought, 0.0
        change = max(stake.gathered * (self._unit or _USUAL_UNIT), floor / 2)
        return account.thrift.weigh(thought, gained, change)

    def _gained(self, account: _Account, current: KernelTally) -> float:
        """Seconds that splitting has gained since it was weighed last, with the launch of `current` in hand."""
        gained = 0.0
        for key, (tally, timing, seen) in account.kernels.items():
            launches = tally.launches + (tally is current)
            whole = (timing.per_item.value or 0.0) * timing.nitems
            gained += max(launches - seen, 0) * whole * (1 - timing.share)
            account.kernels[key] = (tally, timing, launches)
        return gained

    # launches without plans -------------------------------------------------------------------------

    def keeper_without_plans(self, buffers: Sequence[VirtualBuffer]) -> int | None:
        """The worker on which a launch on these buffers runs without a plan; None where it takes one."""
        for buffer in buffers:
            if buffer.state.kept is not None:
                account = self._accounts.get(buffer)
                if account is not None and account.thrifty:
                    return account.keeper
        return None

    def reconsider(self, launch: Launch, tally: KernelTally, buffers: Sequence[VirtualBuffer]) -> bool:
        """One more launch without a plan. True where its buffers are split again, and it is to be planned."""
        states = [buffer.state for buffer in buffers]
        kept = next(state.kept for state in states if state.kept is not None)
        large = [buffers[slot] for slot in weighty(states, self._options.links, small=True)]
        account = self._account(large, kept)
        timing = self._timings.get(id(tally))
        if timing is None or timing.per_item.value is None or self._shared:
            return False  # nothing to gain, or nothing known of it
        thought = timing.thought.value or 0.0
        timing.thought.value = thought * (1 - _FORGET_THOUGHT / (1 << min(account.returns, 20)))
        unit = timing.unit.value or self._unit or _USUAL_UNIT
        whole = timing.per_item.value * launch.ndrange.nitems
        split = whole * timing.share + thought + (timing.exchanged.value or 0.0) * unit
        nbytes = sum(state.nbytes for state in states)
        change = max(nbytes * (self._unit or _USUAL_UNIT), _FLOOR / 2)
        return account.thrift.weigh(whole, split, change) and self._change(account)

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
        unit, per_item = timing.unit.value or self._unit, timing.per_item.value
        if unit is None or self._unit is None or per_item is None or split is None:
            return False
        whole = per_item * stake.nitems
        return account.ways.weigh(
            whole + moved * self._unit, whole * split.share + split.moved * unit, stake.gathered * self._unit
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
        states = [known.get(buffer) or kept_on(buffer.state, None) for buffer in buffers]
        # Two launches with one plan are the same but for their buffers' states.
        key = (cached, *states)
        found = self._split_plans.get(key)
        if found is None:
            try:
                plan = plan_launch(states, request_of(launch, buffers), self._options)
            except EvaluationFault:  # it runs whole
                return None
            if len(self._split_plans) >= _MOST_PLANS:
                self._split_plans.clear()
            split = stake_of(plan, states, self._options.links, stake.nitems)
            found = self._split_plans[key] = (plan.states, split)
        after, split = found
        for buffer, state in zip(buffers, after, strict=True):
            known[buffer] = state
        return split

    def _read_samples(self) -> None:
        """Learn from those that are complete."""
        for _ in range(len(self._samples)):
            sample, timing, stake = self._samples.popleft()
            measured = sample.take()
            if measured is None:
                self._samples.append((sample, timing, stake))
                continue
            timing.per_item.add(sum(measured.kernel.values()) / stake.nitems)
            brought = [measured.before.get(worker, 0.0) for worker in stake.receivers]
            if stake.kept is None and stake.exchanges and any(brought):
                timing.unit.add(max(brought) / stake.moved)
                if timing.unit.value is not None:
                    self._unit = min(self._unit or inf, timing.unit.value)

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

    def _change(self, account: _Account, *, thrifty: bool = False) -> bool:
        """Take the other way for an account's buffers; `thrifty`: because of what planning took. False where no worker
        has room for them.
        """
        ways = account.thrift if thrifty or account.thrifty else account.ways
        if account.keeper is not None:
            logger.info("%d buffers are not kept on worker %d any more", len(account.buffers), account.keeper)
            account.keeper = None
            account.split_states.clear()
            account.returns += account.thrifty
            account.thrifty = False
            self.without_plans.discard(account)
        else:
            account.keeper = self._roomiest(account)
            if account.keeper is None:
                account.barred = True
                ways.changed()
                return False
            account.thrifty = thrifty
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
        account.thought = 0.0
        account.kernels.clear()
        account.budget = ways.change / self._unit if self._unit else 0.0
        ways.changed()
        account.set_way(account.buffers)
        return True

    def _roomiest(self, account: _Account) -> int | None:
        """The worker to keep an account's buffers on; None where none has room for all of them."""
        self._occupancy.settle()
        free = self._occupancy.free()
        wanted = sum(buffer.nbytes for buffer in account.buffers)
        taken = [other.keeper for other in self._open if other.keeper is not None]

        def missing(worker: int) -> int:
            replicas = [buffer.state.replica(worker) for buffer in account.buffers]
            return wanted - sum(stop - start for start, stop in filter(None, replicas))

        able = [worker for worker in self._options.workers if missing(worker) <= free[worker] * _ROOM_SHARE]
        return min(able, key=lambda worker: (taken.count(worker), worker), default=None)


def can_choose(workers: Sequence[WorkerInfo]) -> bool:
    """Whether there are workers to choose from: several of one kind with memory and hardware of their own."""
    return (
        len(workers) > 1
        and not any(info.is_cpu for info in workers)
        and len({info.backend for info in workers}) == 1
        and len({info.device_key for info in workers}) == len(workers)
    )
