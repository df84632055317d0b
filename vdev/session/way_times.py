"""How long launches take in each way: over all workers, over fewer, and on one without a plan.

Combines what the session has measured (kernels, hand-overs, the time per unit of transfer cost) with the
time model (`vdev.planner.timing`). Never measures, and decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vdev.observe.tallies import KernelTally
from vdev.planner.links import LinkCosts
from vdev.planner.regret import UNDISTURBED, Median, Stake, mean_cost
from vdev.planner.spans import UNTRIED, between, over
from vdev.planner.timing import MOST_FLOOR, Least, MachineTimes, Way
from vdev.session.buffers import VirtualBuffer
from vdev.session.kernel_timing import KernelTiming
from vdev.session.launch_plans import CachedPlan

#: the cost of gathering, and the times of launches over another number of workers, fade by this much with each
#: launch, so that the other way is tried again some time
FORGET = 0.98
#: seconds that splitting may cost before anything is decided by it, with planning and without: most plans are made once
FLOOR, FLOOR_HANDS = 0.004, 0.0005
#: so many times what a launch without a plan takes of the host: to find the plan of one and to weigh it
_WEIGHED = 10
#: so many times what is assumed of links that were not measured: those by PCIe alone take about as long
_UNMEASURED = 5.0
#: of what a transfer takes, the part that its bytes take at least, if that is to say what they take
_SEEN = 0.5
#: how many measured hand-overs count, and how many there must be
_HANDOVERS, _ENOUGH_HANDOVERS = 9, 3
#: the same for looks at launches without plans, and for weighing split ones
_LOOKS, _ENOUGH_LOOKS = 9, 1


def _hands(stake: Stake) -> tuple[int, bool]:
    """The properties of a launch on which the time for handing it over depends, besides the kernel."""
    return stake.workers, stake.messages > 0


class WayTimes:
    """What the launches of one session take. Under its lock."""

    def __init__(self, machine: MachineTimes, links: LinkCosts, *, exchanges: bool) -> None:
        """`exchanges`: bulk exchanges of launches are weighed elsewhere, with their measured times."""
        self.machine = machine
        self._links = links
        self._exchanges = exchanges
        #: the least seconds that a unit of costs was seen to take
        self.unit: float | None = None
        self._least = Least()  #: over all kernels
        #: seconds of handing over launches without plans
        self._handed = Median(_HANDOVERS, _ENOUGH_HANDOVERS, UNDISTURBED)
        #: seconds of looking at one of them: whether it should be split by now
        self.looks = Median(_LOOKS, _ENOUGH_LOOKS)
        self.weighing = Median(_LOOKS, _ENOUGH_LOOKS, UNDISTURBED)  #: seconds of weighing a split one
        self.devices = 0.0  #: of the busiest one for all launches so far, as far as they were looked at
        self._timings: dict[int, KernelTiming] = {}  #: by the identity of a kernel's tally, which lives on

    @property
    def least(self) -> float:
        """Seconds of a device that every launch takes, whatever it does."""
        return self._least.value or MOST_FLOOR

    def known(self, tally: KernelTally) -> KernelTiming | None:
        """What is known of a kernel, if anything has been asked about it before."""
        return self._timings.get(id(tally))

    def timing(self, tally: KernelTally) -> KernelTiming:
        """The timing of a kernel, made at the first request."""
        found = self._timings.get(id(tally))
        if found is None:
            found = self._timings[id(tally)] = KernelTiming(self._least)
        return found

    def handed_over(
        self, tally: KernelTally, cached: CachedPlan, seconds: float, *, sampled: bool = False
    ) -> None:
        """The host took this long to hand over a launch that was weighed or sampled: with a sample a plan is handed over step by step,
        and not as it is compiled, which says nothing of the others.
        """
        if cached.direct:
            if cached.steady:
                self._handed.add(seconds)
            return
        timing = self.timing(tally)
        is_new = timing.is_new(cached)
        cached.history.handed += 1
        timing.met += is_new
        # memory is taken once, however long the driver takes
        if cached.stake is not None and not cached.plan.growth and not is_new and not sampled:
            key = _hands(cached.stake)
            handed = timing.handed
            if key not in handed:
                handed[key] = Median(_HANDOVERS, _ENOUGH_HANDOVERS, UNDISTURBED)
            stake = cached.stake
            handed[key].add(seconds / self.machine.handing_over(stake.workers, stake.messages))

    def handed_over_at_once(self, seconds: float) -> None:
        """The host took this long to hand over a launch without a plan."""
        self._handed.add(seconds)

    def unit_of(self, stake: Stake, brought: float) -> float | None:
        """Seconds that a unit of costs takes on a link, by a launch whose busiest worker took so long to receive what it needs.

        Of short transfers that are mostly latency nothing is to be seen, but that a unit takes no more than what is assumed. None where
        their bytes should take less than the latency, and they took much longer: the worker has waited for the host, or for another
        worker, and a few kilobytes would say that a large buffer takes seconds.
        """
        machine = self.machine
        latency = machine.latency * stake.busiest
        net = brought - latency
        each = net / stake.before
        if net <= brought * _SEEN:
            return max(each, machine.per_byte)
        return each if stake.before * machine.per_byte >= latency else None

    def lost_by_plans(self, timing: KernelTiming, stake: Stake) -> float:
        """Seconds by which a launch on buffers that are kept on one worker takes longer because it has a plan, which
        is weighed, and handed over like any other.
        """
        handed = timing.handed.get(_hands(stake))
        if handed is None or handed.value is None or not timing.times.known:
            return 0.0
        host = handed.value * self.machine.handing_over(stake.workers, stake.messages)
        host += _WEIGHED * self.machine.launch
        return max(host - self.one_way(timing, stake.nitems).seconds, 0.0)

    def changing(self, buffers: Sequence[VirtualBuffer]) -> float:
        """Seconds that it takes to bring buffers to one worker that are evenly spread over all."""
        unit = self.machine.per_byte if self.unit is None else self.unit
        return self.spread(buffers) * unit + len(buffers) * self.machine.latency

    def gathering(self, buffers: Iterable[VirtualBuffer]) -> float:
        """The same of buffers as they are: nothing moves for those that not more than one worker has anything of."""
        return self.changing([buffer for buffer in buffers if len(buffer.state.replicas) > 1])

    def surely_gathering(self, buffers: Iterable[VirtualBuffer]) -> float:
        """The same where nothing was lost yet: as long as no link was measured, one may be slower than is assumed."""
        return self.gathering(buffers) * (_UNMEASURED if self.unit is None else 1.0)

    def spread(self, buffers: Iterable[VirtualBuffer]) -> float:
        """The same in the unit of costs."""
        return sum(buffer.nbytes for buffer in buffers) * mean_cost(self._links)

    def split_way(self, timing: KernelTiming, stake: Stake) -> Way:
        """A launch as it is planned."""
        machine = self.machine
        handed = timing.handed.get(_hands(stake))
        ratio = None if handed is None else handed.value
        host = machine.handing_over(stake.workers, stake.messages)
        host *= self._as_direct if ratio is None else ratio
        # What is exchanged in bulk is weighed elsewhere, with what it took when it was measured.
        moved = 0.0 if self._exchanges and stake.exchanges else stake.moved
        exchange = machine.exchanging(stake.busiest, moved)
        return Way(host, timing.times.chunk(stake.nitems, stake.share) + exchange)

    def knows_handing_over(self, timing: KernelTiming, stake: Stake) -> bool:
        """Whether it was measured what handing over a kernel's launches like this one takes."""
        measured = timing.handed.get(_hands(stake))
        return measured is not None and measured.value is not None

    def one_way(self, timing: KernelTiming, nitems: int) -> Way:
        """The same launch on one worker, without a plan."""
        host = self._handed.value
        # as much less than on a machine of which nothing was measured as over several workers
        if host is None:
            stake, launch = timing.stake, self.machine.launch
            host = launch if stake is None else min(launch * self._as_handed(timing, stake), launch)
        return Way(host, timing.times.whole(nitems))

    def _as_handed(self, timing: KernelTiming, stake: Stake) -> float:
        """What handing over this kernel's launches takes, relative to what was measured of the machine."""
        measured = timing.handed.get(_hands(stake))
        if measured is None or measured.value is None:
            return self._as_direct
        return measured.value

    @property
    def _as_direct(self) -> float:
        """What handing over launches takes, relative to what was measured of the machine, as far as launches without
        plans show: one over several workers takes no less.
        """
        direct = self._handed.value
        return 1.0 if direct is None else max(direct / self.machine.launch, 1.0)

    def way_over(self, timing: KernelTiming, stake: Stake, launches: int, now: int, span: int) -> Way:
        """A launch whose plan is for `now` workers, over `span` of them, with all that is exchanged: as it was when these were
        in use, and the more as it is foretold the more launches ago that was.
        """
        there = stake
        if span != now:
            there = over(stake, now, span)
            known, when = timing.stakes.get(span, (there, launches))
            if known.nitems == stake.nitems:
                there = between(there, known, FORGET ** (launches - when))
        machine = self.machine
        host, measured = machine.handing_over(there.workers, there.messages), timing.handed.get(_hands(there))
        is_known = measured is not None and measured.value is not None
        host *= self._as_handed(timing, there if is_known else stake)
        unit, moved = self.unit, there.moved
        if timing.link.value is not None:
            unit, moved = timing.link.value, moved * there.inward
        exchange = machine.exchanging(there.busiest, moved, unit)
        way = Way(host, timing.times.chunk(there.nitems, there.share) + exchange)
        return way if span in timing.stakes else Way(way.host * UNTRIED, way.device * UNTRIED)
