"""Choosing between all workers and one, for launches on the same buffers.

Decides which buffers belong together (large ones that launches use together, once one of these exchanges much),
what a launch takes in either way, and on which worker buffers are kept. When the ways change is `regret`'s.

What the way in use takes is the plan's: bytes over links, and the kernel. What the other would take: on one
worker the kernel and what had to be brought there again and again when it was tried; split what a plan says that
is made beside, for the states that the buffers would have. Times are measured: kernels and transfers by samples
of a few launches, never waited for. Nothing is decided before there are some.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from math import inf
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from vdev.backends.base import WorkerInfo
from vdev.buffers import Occupancy, VirtualBuffer
from vdev.commands import Launch
from vdev.executor.prepare import PreparedPlan
from vdev.executor.sampling import Sample, sampled
from vdev.launching import CachedPlan, EvaluationFault, request_of
from vdev.observe.tallies import KernelTally
from vdev.planner.directory import BufferState, kept_on
from vdev.planner.instructions import Plan
from vdev.planner.launches import LaunchOptions, plan_launch
from vdev.planner.regret import Mean, Median, Stake, TwoWays, stake_of

logger = logging.getLogger("vdev.choosing")

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
_MOST_PLANS = 1024


class _Account:
    """Buffers that belong together, and the way in use for them."""

    __slots__ = ("__weakref__", "barred", "budget", "buffers", "keeper", "split_states", "ways")

    def __init__(self) -> None:
        self.buffers: WeakSet[VirtualBuffer] = WeakSet()
        self.ways = TwoWays()
        self.keeper: int | None = None  #: the worker on which they are kept; None: launches are split
        #: transfers still to come that are part of changing over, in the unit of costs
        self.budget = 0.0
        self.barred = False  #: no worker has room for them
        #: while they are kept: the states that they would have
        self.split_states: WeakKeyDictionary[VirtualBuffer, BufferState] = WeakKeyDictionary()

    @property
    def open(self) -> bool:
        """Whether every launch counts; otherwise only those that exchange much."""
        return self.keeper is not None or self.ways.regret > 0

    def set_way(self, buffers: Sequence[VirtualBuffer] | WeakSet[VirtualBuffer]) -> None:
        """Let plans for these buffers be made for the way in use."""
        for buffer in buffers:
            buffer.state = kept_on(buffer.state, self.keeper)


class _Timing:
    """What one kernel takes."""

    __slots__ = ("gathered", "launches", "per_item", "unit")

    def __init__(self) -> None:
        self.launches = 0
        #: seconds that a unit of costs takes among its transfers: columns are slower than blocks
        self.unit = Median(_TRANSFERS, _ENOUGH_TRANSFERS)
        self.per_item = Mean(0.25)  #: seconds of one worker's time
        #: by index space, in the unit of costs: what was brought to one worker beyond changing over
        self.gathered: dict[object, Mean] = {}

    def wants_sample(self, stake: Stake) -> bool:
        many = stake.exchanges and stake.kept is None and self.launches < _SAMPLE_EVERY
        every = _SAMPLE_EXCHANGE_EVERY if many else _SAMPLE_EVERY
        return self.launches <= _FIRST_SAMPLES or self.launches % every == 0


class Choosing:
    """The accounts of one session. Under its lock."""

    def __init__(self, occupancy: Occupancy, options: LaunchOptions, *, forced: bool = False) -> None:
        """`forced`: buffers are kept on one worker from their first large exchange on."""
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
        return stake_of(plan, [buffer.state for buffer in buffers], self._options.links, nitems)

    def weigh(
        self, launch: Launch, tally: KernelTally, cached: CachedPlan, buffers: Sequence[VirtualBuffer]
    ) -> bool:
        """One more launch on `buffers`, whose plan is `cached`. True where the other way is taken from this
        launch on: it has to be planned again.
        """
        stake = cached.stake
        assert stake is not None, "only what is at stake is weighed"
        large = [buffers[slot] for slot in stake.slots]
        if not stake.exchanges and not any(map(self._is_open, large)):
            self._idle += 1
            if self._idle >= _IDLE:
                self.open = False
            return False
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
            change = self._forced or self._weigh_split(account, launch, timing, stake, moved)
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
            account.ways.changed()
            account.set_way(account.buffers)
        return account

    def _enter(self, account: _Account, buffer: VirtualBuffer) -> None:
        self._accounts[buffer] = account
        account.buffers.add(buffer)

    def _change(self, account: _Account) -> bool:
        """Take the other way for an account's buffers. False where no worker has room for them."""
        ways = account.ways
        if account.keeper is not None:
            logger.info("%d buffers are not kept on worker %d any more", len(account.buffers), account.keeper)
            account.keeper = None
            account.split_states.clear()
        else:
            account.keeper = self._roomiest(account)
            if account.keeper is None:
                account.barred = True
                ways.changed()
                return False
            for buffer in account.buffers:
                account.split_states[buffer] = buffer.state
            logger.info(
                "%d buffers are kept on worker %d: split, their launches took %.3g s more so far",
                len(account.buffers),
                account.keeper,
                ways.regret,
            )
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
