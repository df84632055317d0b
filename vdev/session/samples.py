"""Samples: a few launches are timed; their times are read once they are complete, and passed on.

Decides which launches are sampled. The chunks' times relative to each other go to the kernel's balance
(`vdev.planner.balance`), everything else to its timing. Nothing waits for a sample.
"""

from __future__ import annotations

from collections import deque
from math import inf

from vdev.executor.prepare import PreparedPlan
from vdev.executor.sampling import Measured, Sample, sampled
from vdev.planner.regret import Stake
from vdev.session.kernel_timing import FIRST_PLAN, SURELY_LONG, KernelTiming
from vdev.session.launch_plans import CachedPlan, LaunchCache
from vdev.session.way_times import WayTimes
from vdev.translators.ranges.ndrange import Chunk, NDRange
from vdev.translators.values import dataclass

#: samples under way; those of commands that failed never arrive
_MOST_SAMPLES = 64
#: seconds that a plan takes, at most, if it is not filled in
_PLAN = 0.005


@dataclass(slots=True)
class _Taken:
    """A launch that was sampled. `stake`: None if it is only looked at for its balance."""

    sample: Sample
    cache: LaunchCache
    cached: CachedPlan
    timing: KernelTiming
    stake: Stake | None
    ndrange: NDRange
    number: int  #: its number among its kernel's launches
    measured: Measured | None = None  #: once its kernels were through


class Samples:
    """The samples of one session. Under its lock."""

    def __init__(self, times: WayTimes, *, shared: bool, forced: bool) -> None:
        """`shared`: the workers share hardware, so chunks tell nothing about each other. `forced`: nothing is weighed
        by what launches take.
        """
        self._times = times
        self._shared, self._forced = shared, forced
        self._taken: deque[_Taken] = deque(maxlen=_MOST_SAMPLES)
        self.recut = False  #: whether a kernel's plans have been forgotten
        self._long: set[int] = set()  #: as of `take_long`, those that were measured

    def balances(self, cache: LaunchCache, cached: CachedPlan, ndrange: NDRange) -> bool:
        """Whether a launch has to be looked at for what its chunks take relative to each other."""
        launches = cache.tally.launches
        if self._shared or launches < cached.history.looked_until:
            return False
        workers, chunks = self._parted(cached)
        balance, num_groups = cache.balance, ndrange.num_groups
        cached.history.looked_until = balance.looks_again(num_groups, chunks, workers)
        return balance.wants(num_groups, chunks, workers, launches)

    def is_wanted(
        self, cache: LaunchCache, cached: CachedPlan, ndrange: NDRange, timing: KernelTiming
    ) -> bool:
        """Whether a sample will be taken of a launch, if it is submitted next."""
        stake = cached.stake
        if stake is not None and not self._forced and timing.wants_sample(stake, 1):
            return True
        return self.balances(cache, cached, ndrange)

    def _parted(self, cached: CachedPlan) -> tuple[tuple[int, ...], tuple[Chunk, ...]]:
        """The workers of a plan and their chunks, if each has one chunk and hardware of its own; else none."""
        partition = cached.plan.partition
        if self._shared or len(partition) < 2:
            return (), ()
        workers, chunks = zip(*partition, strict=True)
        return ((), ()) if len(set(workers)) < len(workers) else (workers, chunks)

    def prepared(
        self, cache: LaunchCache, cached: CachedPlan, ndrange: NDRange, timing: KernelTiming
    ) -> PreparedPlan:
        """What has to be submitted for a launch over `ndrange`: its plan, or that plan with a sample taken."""
        self.read()
        stake = cached.stake
        if cached.direct:
            stake = Stake(ndrange.nitems, 1.0, 0, (), 0.0, (), 0.0, False)
        elif not self._wants_sample(cache, cached, ndrange, timing):
            return cached.prepared
        prepared, sample = sampled(cached.prepared.whole or cached.prepared)
        self._taken.append(_Taken(sample, cache, cached, timing, stake, ndrange, cache.tally.launches))
        return prepared

    def _wants_sample(
        self, cache: LaunchCache, cached: CachedPlan, ndrange: NDRange, timing: KernelTiming
    ) -> bool:
        wanted, stake = False, cached.stake
        if stake is not None:
            timing.launches += 1
            wanted = not self._forced and timing.wants_sample(stake)
        workers, chunks = self._parted(cached)
        launches = cache.tally.launches
        return cache.balance.wants_sample(ndrange.num_groups, chunks, workers, launches) or wanted

    @property
    def any_taken(self) -> bool:
        """Whether there are samples that were not read yet."""
        return len(self._taken) > 0

    def are_under_way(self, timing: KernelTiming) -> bool:
        """Whether devices are still at work on launches of a kernel that were sampled: then nobody waits for the host."""
        return any(taken.timing is timing and taken.sample.is_under_way for taken in self._taken)

    def take_long(self, launches: int) -> set[int]:
        """By the identity of their tallies, kernels that were found to be long (`presuming`) since this was asked last, and those of which
        so many launches came after a sampled one that a device is still at work on.
        """
        found, self._long = self._long, set()
        return found | {
            id(taken.cache.tally)
            for taken in self._taken
            if taken.cache.tally.launches >= taken.number + launches and taken.sample.is_running
        }

    def read(self) -> None:
        """Learn from those samples that are complete."""
        for _ in range(len(self._taken)):
            taken = self._taken.popleft()
            if taken.measured is None:
                taken.measured = taken.sample.take()
                if taken.measured is not None:
                    self._learn(taken, taken.measured)
            # What kernels take is wanted soon, and what comes after them may wait for other workers.
            after = None if taken.measured is None else taken.sample.take_after()
            if taken.measured is None or after is None:
                self._taken.append(taken)
            elif taken.stake is not None and taken.stake.kept is None:
                self._exchanged(taken.timing, taken.stake, taken.measured, taken.measured.behind(after))
                self._look_at_interiors(taken, taken.stake, taken.measured)

    def _learn(self, taken: _Taken, measured: Measured) -> None:
        """Learn what the kernels of a launch took."""
        timing, stake, tally = taken.timing, taken.stake, taken.cache.tally
        chunks = list(measured.kernel.values())
        self._balance(taken, measured)
        if stake is None:
            return
        predicted = timing.times.chunk(stake.nitems, stake.share)
        tally.foretold(len(chunks), predicted, max(chunks, default=0.0))
        timing.times.add(stake.nitems, chunks if stake.share < 1 else [max(chunks, default=0.0)])
        if timing.times.is_certain(stake.nitems) and not timing.times.took_at_most(stake.nitems, SURELY_LONG):
            self._long.add(id(tally))

    def _exchanged(self, timing: KernelTiming, stake: Stake, measured: Measured, behind: float) -> None:
        """Learn what the transfers of a launch took, those before its kernel and those after it (`behind`), with what is merged there."""
        brought = max([measured.before.get(worker, 0.0) for worker in stake.receivers], default=0.0)
        costs = seconds = 0.0
        if stake.before and brought and (unit := self._times.unit_of(stake, brought)) is not None:
            costs, seconds = stake.before, brought
            timing.link.add(unit)
            if timing.link.value is not None:
                self._times.unit = min(self._times.unit or inf, timing.link.value)
        if stake.exchanges and behind:
            costs += max(stake.incoming - stake.before, 0.0)
            seconds += behind
        if not costs:
            return
        timing.unit.add(seconds / costs)
        if self._times.unit is None:  # no link was seen alone: a unit takes no more than that
            self._times.unit = timing.unit.value

    def _look_at_interiors(self, taken: _Taken, stake: Stake, measured: Measured) -> None:
        """Whether what was brought to chunks could have come while they ran; then plans are made for that."""
        interiors, machine = taken.cache.interiors, self._times.machine
        if not interiors.is_measured or interiors.wanted or not measured.before:
            return
        before, kernel = max(measured.before.values()), max(measured.kernel.values())
        host = self._times.split_way(taken.timing, stake).host + machine.part * stake.workers
        if interiors.measured(before, kernel, self._times.least, host):
            taken.cache.forget()
            self.recut = True

    def _balance(self, taken: _Taken, measured: Measured) -> None:
        """Learn what the chunks of a launch took relative to each other, and recut its kernel's launches if that
        gains.
        """
        cache = taken.cache
        workers, chunks = self._parted(taken.cached)
        if not chunks or measured.kernel.keys() != set(workers):
            return
        launches = cache.tally.launches
        thought = taken.timing.thought.value or FIRST_PLAN
        # After a recut, launches whose numbers change are planned one by one.
        each = _PLAN if taken.cached.filled else 0.0
        moving = max(measured.before.values(), default=0.0)
        seconds = [measured.kernel[worker] for worker in workers]
        where = taken.ndrange.num_groups, chunks, workers
        if cache.balance.measured(*where, seconds, moving, taken.number, launches, thought, each):
            cache.forget()
            taken.timing.times.forget_shares()
            self.recut = True
        cache.keep_balance()
