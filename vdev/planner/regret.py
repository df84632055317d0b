"""Regret: whether launches on some buffers continue to be cut, or run whole on one worker from now on.

A cut is chosen launch by launch, by the bytes that move now, and so never goes back to one worker: gathering the data
costs about as much as one more exchange, however many exchanges follow. What decides here is the sum. For every
launch two times are given, for the way in use and for the other; their differences add up to the *regret* of the way
in use, which never falls below 0. Once the regret is as much as changing over and back again, the other way is taken.
That is the work function algorithm for two states (A. Borodin, N. Linial and M. Saks, "An Optimal On-Line Algorithm
for Metrical Task System", JACM 1992): all launches and changes together take at most three times as long as with the
best ways in hindsight, plus twice a change.

Decides nothing about bytes: either way gives the same. Knows no clock: the times of transfers are in the unit of
`LinkCosts` until somebody has measured what a unit takes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import field

from vdev.planner.directory import HOST, BufferState
from vdev.planner.exchanges import Routes
from vdev.planner.instructions import Launch, Plan, moves_of
from vdev.planner.links import LinkCosts
from vdev.planner.timing import Way
from vdev.translators.values import dataclass

#: An exchange of less than this part of the bytes that its chunk touches never makes several workers slower
#: than one: memory of a worker's own is about ten times as fast as its links, and a kernel takes at least as
#: long as it takes to touch its bytes.
SMALL_SHARE = 16
#: Nor does one that is this small: it takes the host's time, and splitting any launch takes some of that.
SMALL_NBYTES = 1 << 16
NOTHING = Way(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Stake:
    """What is at stake with one launch of a plan: its transfers between workers, in the unit of `LinkCosts`."""

    nitems: int
    share: float  #: of the work-groups, in the largest chunk; 1 where a part of them takes as long as all
    kept: int | None  #: the worker on which it runs whole because its buffers are kept there
    slots: tuple[int, ...]  #: large buffers
    moved: float  #: what the busiest link carries in or out
    receivers: tuple[int, ...]  #: the workers that receive anything
    #: the cost of bringing what it reads to one worker, if it were spread over all; not known if little moves
    gathered: float
    #: it moves much, compared with what it touches, or is kept from that: it counts, whatever else happens
    exchanges: bool
    workers: int = 1  #: workers that run chunks
    messages: int = 0  #: transfers between workers in all
    busiest: int = 0  #: of these, the most that come to one worker
    incoming: float = (
        0.0  #: of what moves, what comes to the worker that receives most, in the unit of `LinkCosts`
    )
    #: of its transfers, those before its kernel, to the worker that receives most of these, in the unit of `LinkCosts`; 0
    #: where it does not exchange much
    before: float = 0.0
    #: what it says of other numbers of workers; None for a launch that was never split
    routes: Routes | None = field(default=None, compare=False, repr=False)

    @property
    def inward(self) -> float:
        """Of `moved`, the part that one worker receives at most: less where one sends to many."""
        return self.incoming / self.moved if self.moved else 1.0


def weighty(states: Sequence[BufferState], links: LinkCosts, *, small: bool) -> tuple[int, ...]:
    """The slots of buffers that decide where a launch runs: large ones; where there are none, and if `small`, those that
    are not much smaller than the largest.
    """
    slots = tuple(slot for slot, state in enumerate(states) if state.nbytes >= links.large_nbytes)
    if slots or not small:
        return slots
    least = max((state.nbytes for state in states), default=0) / SMALL_SHARE
    return tuple(slot for slot, state in enumerate(states) if state.nbytes >= least)


def keepers(states: Sequence[BufferState], links: LinkCosts) -> list[int]:
    """The workers on which a launch's buffers are kept, those that decide where it runs: a few parameters that are kept somewhere
    do not bring large buffers there.
    """
    slots = weighty(states, links, small=True)
    found = [states[slot].kept for slot in slots]
    return [worker for worker in dict.fromkeys(found) if worker is not None]


def stake_of(
    plan: Plan, states: Sequence[BufferState], links: LinkCosts, nitems: int, *, small: bool = False
) -> Stake | None:
    """The stake of a launch's plan, made for `states`. None where there is nothing to choose: no large buffer
    is used, or the launch is whole anyway and little moves for it.

    `nitems`: work-items of the launch. `small`: every launch has one, since to plan it takes time.
    """
    slots = weighty(states, links, small=small)
    # What a launch adds to is folded for whoever looks: both are weighed together, or only the folds would count.
    slots += tuple(slot for slot, state in enumerate(plan.states) if state.pending and slot not in slots)
    kept = next((states[slot].kept for slot in slots if states[slot].kept is not None), None)
    if not slots or not plan.partition:
        return None
    exchange = exchange_of(plan, links)
    arriving = exchange.arriving
    least = min(SMALL_NBYTES, links.large_nbytes)
    matters = kept is not None or any(nbytes >= least for nbytes in arriving.values())
    touched, read = _touched(plan) if matters else ({}, {})
    exchanges = matters and any(
        nbytes >= least and nbytes * SMALL_SHARE >= touched.get(worker, 0)
        for worker, nbytes in arriving.items()
    )
    if len(plan.partition) == 1 and kept is None and not exchanges and not small:
        return None
    return Stake(
        nitems,
        _largest_share(plan),
        kept,
        slots,
        exchange.moved,
        tuple(sorted(arriving)),
        sum(min(read.get(slot, 0), states[slot].nbytes) for slot in slots) * mean_cost(links),
        exchanges or kept is not None,
        len(plan.partition),
        sum(exchange.messages.values()),
        exchange.busiest,
        exchange.incoming,
        _before(plan, links) if exchanges else 0.0,
        Routes(plan),
    )


def _largest_share(plan: Plan) -> float:
    """Of the work, in the largest chunk; where it was cut by measured times, chunks take about the same."""
    if plan.recut is not None:
        return 1 / len(plan.partition)
    groups = [chunk.ngroups for _, chunk in plan.partition]
    return max(groups) / max(sum(groups), 1)


@dataclass(frozen=True, slots=True)
class Exchange:
    """What a plan moves between workers."""

    moved: float  #: what the busiest link brings or takes away, in the unit of `LinkCosts`
    arriving: dict[int, int]  #: bytes by worker to which any come
    messages: dict[int, int]  #: transfers by worker
    incoming: float  #: what comes to the worker that receives most, in the unit of `LinkCosts`

    @property
    def most(self) -> int:
        """The most bytes that come to one worker."""
        return max(self.arriving.values(), default=0)

    @property
    def busiest(self) -> int:
        """The most transfers to one worker."""
        return max(self.messages.values(), default=0)


def exchange_of(plan: Plan, links: LinkCosts) -> Exchange:
    """Without what goes to the host and comes from it."""
    incoming: dict[int, float] = {}
    outgoing: dict[int, float] = {}
    arriving: dict[int, int] = {}
    messages: dict[int, int] = {}
    for source, target, nbytes in plan.moved:
        if HOST not in (source, target):
            messages[target] = messages.get(target, 0) + 1
            cost = nbytes * links.per_byte[source][target]
            incoming[target] = incoming.get(target, 0.0) + cost
            outgoing[source] = outgoing.get(source, 0.0) + cost
            arriving[target] = arriving.get(target, 0) + nbytes
    most = max(incoming.values(), default=0.0)
    return Exchange(max([most, *outgoing.values()]), arriving, messages, most)


def _before(plan: Plan, links: LinkCosts) -> float:
    """What comes from other workers to one that has still to launch its chunk, the most for any of them: what is measured of a
    launch's transfers. What a launch has changed may go elsewhere after it.
    """
    waiting = {worker for worker, _ in plan.partition}
    incoming: dict[int, float] = {}
    for item in plan.instructions:
        if isinstance(item, Launch):
            waiting.discard(item.worker)
        for source, target, nbytes in moves_of(item):
            if target in waiting and source != HOST:
                incoming[target] = incoming.get(target, 0.0) + nbytes * links.per_byte[source][target]
    return max(incoming.values(), default=0.0)


def _touched(plan: Plan) -> tuple[dict[int, int], dict[int, int]]:
    """Bytes that each worker's launch touches, and bytes of each slot that launches read."""
    touched: dict[int, int] = {}
    read: dict[int, int] = {}
    for item, touches in zip(plan.instructions, plan.touches, strict=True):
        if isinstance(item, Launch):
            for touch in touches:
                nbytes = touch.region.nbytes
                touched[item.worker] = touched.get(item.worker, 0) + nbytes
                if not touch.writes:
                    read[touch.slot] = read.get(touch.slot, 0) + nbytes
    return touched, read


def mean_cost(links: LinkCosts) -> float:
    """The average cost of a byte that goes to one worker, if its sources are evenly spread."""
    workers = links.direct or range(len(links.per_byte) - 1)
    return sum(links.per_byte[source][workers[0]] for source in workers) / len(workers)


class TwoWays:
    """The regret of the way in use, in the unit of the times that it is given."""

    __slots__ = ("change", "regret")

    def __init__(self) -> None:
        self.regret = 0.0
        self.change = 0.0  #: the most that a change took, since the last

    def weigh(self, here: float, there: float, change: float) -> bool:
        """One more launch: it takes `here` in the way in use, and would take `there` in the other.

        `change`: what changing over takes, as this launch has it. True where the ways are to be changed from
        now on.
        """
        self.change = max(self.change, change)
        self.regret = max(self.regret + here - there, 0.0)
        return self.regret > 0 and self.regret >= 2 * self.change

    def changed(self) -> None:
        """The other way is in use."""
        self.regret = self.change = 0.0

    def join(self, other: TwoWays) -> None:
        """The launches of both are on the same buffers from now on."""
        self.regret += other.regret
        self.change += other.change


class Stretch:
    """The regret of the way in use where host and devices work at the same time: the launches of a stretch take as long as the
    busier of the two, so that what one of them does while the other is busier costs nothing.

    What the way in use has gained counts, as far as a credit goes: launches that lose by it are weighed together with those
    that gain, which come back in the same sequence. A way that was changed to has all the credit: it is not left for one launch
    that loses. With a credit of 0, and with devices that take nothing or a host that takes
    nothing, this is `TwoWays`.
    """

    __slots__ = ("advance", "change", "credit", "here", "there")

    def __init__(self, credit: float = 0.0) -> None:
        """`credit`: seconds that what was gained counts at most."""
        self.credit = credit
        self.advance = 0.0  #: of the credit, what was not gained yet
        self.here = self.there = NOTHING  #: since the stretch began, in the way in use and in the other
        self.change = 0.0  #: what a change takes

    @property
    def regret(self) -> float:
        """Seconds, not below 0."""
        return max(self.here.seconds - self.there.seconds, 0.0)

    def weigh(self, here: Way, there: Way, change: float) -> bool:
        """Some more launches, with what they take in either way. True where the ways are to be changed from now on."""
        self.change = change
        self.here, self.there = self.here + here, self.there + there
        beyond = self.there.seconds - self.here.seconds - self.credit
        if beyond >= 0:
            self.here, self.there = NOTHING, Way(self.credit, self.credit)
            self.advance = max(self.advance - beyond, 0.0)
        return self.regret > 0 and self.regret >= 2 * self.change

    def take_back(self) -> None:
        """The way in use was changed to for something that is not so: it has no credit but for what it has gained."""
        self.there += Way(-self.advance, -self.advance)
        self.advance = 0.0

    def add(self, here: Way) -> None:
        """The way in use has taken so much beside launches, to be weighed with the next of them."""
        self.here = self.here + here

    def changed(self) -> None:
        """The other way is in use."""
        self.here, self.there = NOTHING, Way(self.credit, self.credit)
        self.advance, self.change = self.credit, 0.0

    def join(self, other: Stretch) -> None:
        """The launches of both are on the same buffers from now on."""
        self.here, self.there = self.here + other.here, self.there + other.there
        self.advance += other.advance


class Mean:
    """A mean in which the last values count most. None before the first."""

    __slots__ = ("_count", "_even", "_weight", "value")

    def __init__(self, weight: float, *, even: bool = False) -> None:
        """`weight` of each new value. `even`: the first ones, as many as have less than that each, count evenly."""
        self._weight, self._even = weight, even
        self._count = 0
        self.value: float | None = None

    def add(self, value: float, count: int = 1) -> None:
        """So many values, which are the same or of which this is the mean."""
        weight = 1 - (1 - self._weight) ** count
        self._count += count
        if self._even:
            weight = max(weight, count / self._count)
        self.value = value if self.value is None else self.value + weight * (value - self.value)


class Recurring:
    """The mean of what comes with each launch of a kernel, in the long run: one that is looked at stands for all since the one before. The
    first does not count: what it needs is brought to where it runs once, and stays there.
    """

    __slots__ = ("_at", "_mean")

    def __init__(self, weight: float) -> None:
        """`weight` of each launch."""
        self._mean = Mean(weight)
        self._at: int | None = None  #: the number of the last launch that was looked at

    def add(self, number: int, value: float) -> None:
        """The kernel's launch of that number came with this value."""
        before, self._at = self._at, number
        if before is not None:
            self._mean.add(value, max(number - before, 1))

    @property
    def value(self) -> float | None:
        """None before the second."""
        return self._mean.value


class MeanWay:
    """The mean of ways in which the last ones count most."""

    __slots__ = ("_device", "_host")

    def __init__(self, weight: float) -> None:
        """`weight` of each new one."""
        self._host, self._device = Mean(weight, even=True), Mean(weight, even=True)

    def add(self, total: Way, count: int) -> None:
        """So many launches take this together."""
        self._host.add(total.host / count, count)
        self._device.add(total.device / count, count)

    @property
    def value(self) -> Way:
        """Nothing before the first."""
        return Way(self._host.value or 0.0, self._device.value or 0.0)


class Median:
    """The median of the last values, or another quantile: some of what is measured has waited for something else."""

    __slots__ = ("_enough", "_part", "_values", "value")

    def __init__(self, count: int, enough: int, part: float = 0.5) -> None:
        """`count`: values that are kept. `enough`: values before it is believed. `part`: of the values, those below it."""
        self._values: deque[float] = deque(maxlen=count)
        self._enough, self._part = enough, part
        self.value: float | None = None

    def add(self, value: float) -> None:
        self._values.append(value)
        if len(self._values) >= self._enough:
            self.value = sorted(self._values)[int(len(self._values) * self._part)]

    def clear(self) -> None:
        """Forget them."""
        self._values.clear()
        self.value = None


#: of seconds of the host: a busy host makes them longer, and nothing makes them shorter
UNDISTURBED = 0.25
