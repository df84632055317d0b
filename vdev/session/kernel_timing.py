"""How long one kernel's launches take: what a session has learnt from samples, plans and hand-overs.

Decides which of its launches are sampled, and how many pass before one is looked at again. It makes no choice between
ways: that is `choosing`'s.
"""

from __future__ import annotations

from vdev.planner.regret import Mean, Median, Stake
from vdev.planner.timing import KernelTimes, Least
from vdev.session.launch_plans import LaunchCache

#: launches of a kernel that are sampled: the first, one in so many, and at first more of those that exchange much
FIRST_SAMPLES, SAMPLE_EVERY, _SAMPLE_EXCHANGE_EVERY = 4, 64, 4
#: measured transfers that count, and how many there must be
_TRANSFERS, _ENOUGH_TRANSFERS = 9, 3
#: launches without plans of a short kernel after which one is looked at
UNTIL_LOOKED_AT = 64
#: the most launches of a kernel that gains between two that are looked at
_MOST_PAUSE = 256
#: what the first plan of a kernel counts at most, in seconds: with it comes what is done once
FIRST_PLAN = 0.001
#: so many times what its plans have taken counts one that takes longer: a translation may come with it, which is made once as well
_MOST_LONGER = 4.0
#: plans of a kernel that are made until its buffers' states come again: buffers that change places, halos that are there
SETTLING = 6


class KernelTiming:
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
        "plan",
        "settling",
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
        #: of split launches: seconds of planning that goes on, once the plans that are made once are there, and costs of what moved
        self.thought, self.exchanged = Mean(0.125), Mean(0.125)
        #: plans still to come that are made once, whatever follows, and what one takes
        self.settling, self.plan = SETTLING, Mean(0.25)
        #: what handing over takes by number of workers and whether these exchanged anything
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

    @property
    def may_gain(self) -> bool:
        """Whether launches may gain by being split: the last had more than one chunk."""
        return self.stake is None or self.stake.workers > 1

    def wants_sample(self, stake: Stake) -> bool:
        many = stake.exchanges and stake.kept is None and self.launches < SAMPLE_EVERY
        every = _SAMPLE_EXCHANGE_EVERY if many else SAMPLE_EVERY
        return self.launches <= FIRST_SAMPLES or self.launches % every == 0

    @staticmethod
    def samples_direct(number: int) -> bool:
        """Whether one without a plan is sampled, of that number among those that were looked at."""
        return number <= FIRST_SAMPLES or number % SAMPLE_EVERY == 0

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

    def believed(self, seconds: float) -> float:
        """What a plan that took so long counts."""
        return min(seconds, max(FIRST_PLAN, _MOST_LONGER * (self.plan.value or 0.0)))

    def planned(self, seconds: float, launches: int) -> bool:
        """The first of so many split launches had a plan made, which took so long; 0: none. Whether that one is made once."""
        once = seconds > 0 and self.settling > 0
        if seconds > 0:
            self.plan.add(seconds)
            self.settling -= once
        self.thought.add(0.0 if once else seconds / max(launches, 1))
        return once

    @property
    def settling_seconds(self) -> float:
        """What the plans take that are still to be made once."""
        return self.settling * (self.plan.value or 0.0)

    def looked_at(self, gains: bool) -> None:
        """It was: the next one is later where it gains."""
        self.skipped = 0
        self.pause = min(2 * self.pause + 1, _MOST_PAUSE) if gains else 0
