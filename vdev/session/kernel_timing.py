"""How long one kernel's launches take: what a session has learnt from samples, plans and hand-overs.

Decides which of its launches are sampled, and how many pass before one is looked at again. It makes no choice between
ways: that is `choosing`'s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from math import inf

from vdev.planner.outlook import Shrinking
from vdev.planner.regret import Mean, MeanWay, Median, Recurring, Stake
from vdev.planner.timing import KernelTimes, Least
from vdev.session.cutoff import Cutoff
from vdev.session.launch_plans import CachedPlan, LaunchCache

#: which launches of a kernel are sampled: the first, one in so many, and at first more of those that exchange much
FIRST_SAMPLES, SAMPLE_EVERY, _SAMPLE_EXCHANGE_EVERY = 4, 64, 4
#: seconds of a launch that is short: handing it over to more workers takes the host about as long as they can save
SHORT = 20e-6
#: and of one that is long: several workers gain more by it than they take to be tried. What is measured errs by being too long
SURELY_LONG = 3e-4
#: how many measured transfers count, and how many there must be
_TRANSFERS, _ENOUGH_TRANSFERS = 9, 3
#: launches of a kernel after which it is weighed although its times are not known
LONG_UNKNOWN = 64
#: launches without plans of a short kernel after which one is looked at
UNTIL_LOOKED_AT = 64
#: at least so many of them each of the first ones that are looked at stands for
_FIRST_WEIGHT = UNTIL_LOOKED_AT // FIRST_SAMPLES
#: the most launches, of a kernel that gains, between two that are looked at
_MOST_PAUSE = 256
#: and the most seconds between two, where no plan says what launches exchange
_PAUSE = 0.02
#: of the time of launches without plans, what looking at them may take of the host; of the time of split ones, what weighing them may
_LOOKING, _WEIGHING = 0.02, 0.05
#: the most seconds that the first plan of a kernel counts for: one-time work comes with it
FIRST_PLAN = 0.001
#: a plan that takes longer counts for this many times what the kernel's plans have taken: a translation may come with
#: it, which is one-time work as well
_MOST_LONGER = 4.0
#: different stakes of a kernel's launches that are told apart until they are weighed
_MOST_STAKES = 256
#: the weight of one launch in the mean time of planning: most take none, and one in a while takes much
_LONG_RUN = 0.03
#: plans of a kernel that are made until its buffers' states recur: of buffers that change places, and of halos that
#: have arrived
SETTLING = 6
#: launches in a row that had a plan made each, after which no plan is taken to be made once
_IN_A_ROW = 2 * SETTLING
#: launches of which it is known that they were planned
_MOST_PLANNED = 4096
#: times that a plan is handed over before it is known what that takes: the first comes with what is done once (its steps are met by their
#: back ends, memory is opened for peers), and at the second it is compiled; and for how many launches of a kernel this is so
_MET, _MOST_MET = 2, 2 * SETTLING


class KernelTiming:
    """What one kernel's launches take."""

    __slots__ = (
        "_bits",
        "_planned",
        "_settled",
        "cache",
        "comes_again",
        "counts_for",
        "cutoff",
        "direct",
        "due_at",
        "exchanged",
        "gathered",
        "handed",
        "is_met_again",
        "launches",
        "link",
        "met",
        "paid",
        "passed",
        "pause",
        "plan",
        "planned_in_a_row",
        "presumed",
        "rest",
        "settling",
        "shrinking",
        "sights",
        "sizes",
        "skipped",
        "spaces",
        "stake",
        "stakes",
        "thought",
        "times",
        "typical",
        "unit",
        "unseen",
        "unweighed",
    )

    def __init__(self, least: Least) -> None:
        self.launches = 0  #: launches that were weighed
        #: of its launches on whatever buffers: below it they are not cut anyway, or have lost too much on some by being cut
        self.cutoff = Cutoff(0)
        self.met = 0  #: of those, how many had a plan that had hardly been handed over before
        self.direct = 0  #: launches without plans that were looked at
        #: seconds that a unit of what a worker receives takes in its transfers: columns are slower than blocks, and so is what comes from
        #: a worker that sends to many
        self.unit = Median(_TRANSFERS, _ENOUGH_TRANSFERS)
        #: and what its bytes take of that on a link, however many transfers they come in
        self.link = Median(_TRANSFERS, _ENOUGH_TRANSFERS)
        self.times = KernelTimes(least)
        #: of split launches, which may differ: what they take, and would take on one worker
        self.typical = MeanWay(_LONG_RUN), MeanWay(_LONG_RUN)
        #: of split launches: seconds of continued planning, once the one-time plans have been made
        self.thought = Mean(_LONG_RUN, even=True)
        self.exchanged = Recurring(0.125)  #: and costs of what moved
        #: one-time plans still to come, whatever follows, and what one takes
        self.settling, self.plan = SETTLING, Mean(0.25)
        self.spaces = 0  #: how many index spaces launches without plans had between two looks, at most: each wants a plan of its own
        self.paid = 0.0  #: seconds of one-time plans that have paid before (`was_split`)
        #: split launches of about as many work-items, each of which had a plan made; and the bits of that number
        self.planned_in_a_row, self._bits = 0, 0
        self._settled: Counter[int] = Counter()  #: one-time plans, by those bits
        #: how often what has this hash was planned, and whether that which was planned last comes again
        self._planned: dict[int, int] = {}
        self.comes_again = False
        self.shrinking = Shrinking()  #: what index spaces they have
        #: what handing over takes beside what is assumed, by number of workers and whether these exchanged anything
        self.handed: dict[tuple[int, bool], Median] = {}
        #: by the bits of the number of work-items and the numbers on which loops depend, whether launches are presumed to be short
        self.presumed: dict[Hashable, bool] = {}
        self.stake: Stake | None = None  #: of the last split launch that was weighed
        #: split launches since they were weighed last, as far as they were not repeated at once: how many had each stake
        self.passed: dict[int, tuple[Stake, int]] = {}
        #: the stake of the last such launch by the bits of its number of work-items
        self.sizes: dict[int, Stake] = {}
        #: the stake of the last split launch by the number of workers used for it, and after how many launches
        self.stakes: dict[int, tuple[Stake, int]] = {}
        self.cache: LaunchCache | None = None  #: of its plans
        self.is_met_again = False  #: the program was built again, and nothing of its plans was left
        #: launches that are skipped before the next is weighed, since it gained; and how many of these there were
        self.pause = self.skipped = 0
        self.rest = 0  #: of split ones, those that are skipped at least, as weighing each would take the host too long
        self.counts_for = UNTIL_LOOKED_AT  #: of a short kernel: for how many launches one counts
        self.due_at = 0  #: launches of the kernel at the last question whether one without a plan is due
        #: seconds of launches without plans since it was seen what they would exchange
        self.unseen = 0.0
        self.sights = 0  #: how often that was
        self.unweighed = 0  #: split launches since one was weighed by what it exchanges
        #: by index space, in the unit of costs: what was brought to one worker beyond the change of ways
        self.gathered: dict[object, Mean] = {}

    def exchanging(self, stake: Stake, moved: float, unit: float) -> float:
        """Seconds that it takes to exchange so much, with a plan of this `stake`. Until it was measured, the busiest link counts,
        in or out, of which a unit takes `unit` seconds.
        """
        measured = self.unit.value
        return moved * unit if measured is None else moved * stake.inward * measured

    @property
    def may_gain(self) -> bool:
        """Whether launches may gain by being split: some have more than one chunk."""
        return self.stake is None or any(stake.workers > 1 for stake in self.sizes.values())

    def begin(self, cache: LaunchCache) -> bool:
        """A launch of `cache` is weighed; whether it is the first. If there were others before, all plans are made once more."""
        is_first, before = cache.is_new, self.cache
        cache.is_new, self.cache = False, cache
        if is_first and before is not None and before is not cache:
            self.settling, self.is_met_again = SETTLING, True
            self._plan_again()
        return is_first

    def was_split(self) -> None:
        """The program's last run ended with its launches on several workers: plans that are made once paid there."""
        self.paid = SETTLING * FIRST_PLAN

    def take_paid(self) -> float:
        """Seconds of plans that need not be gained first; they are counted once."""
        found, self.paid = self.paid, 0.0
        return found

    def passes(self, stake: Stake) -> None:
        """One more split launch. A kernel's launches may differ: those for the levels of a grid do."""
        before = self.passed.get(id(stake))
        if before is not None:
            self.passed[id(stake)] = stake, before[1] + 1
        elif len(self.passed) < _MOST_STAKES:
            self.passed[id(stake)] = stake, 1
            self.sizes[stake.nitems.bit_length()] = stake

    def take_passed(self, count: int) -> list[tuple[Stake, int]]:
        """The stakes of so many split launches, which are weighed now; those that are not known are taken to be like the last one
        that was weighed.
        """
        found = self.take_known()
        known = sum(number for _, number in found)
        if known > count:
            found, known = [], 0
        if known < count and self.stake is not None:
            found.append((self.stake, count - known))
        return found

    def take_known(self) -> list[tuple[Stake, int]]:
        """The same of those that are known."""
        found, self.passed = list(self.passed.values()), {}
        return found

    def keep_cutoff(self, below: float) -> None:
        """Its launches of fewer work-items run on one worker from now on, on other buffers and in the program's next run, too; inf: size
        does not decide.
        """
        if below < inf:
            self.cutoff.below = max(self.cutoff.below, below)
            if self.cache is not None:
                self.cache.keep_cutoff()

    def is_new(self, cached: CachedPlan) -> bool:
        """Whether to hand over this plan takes longer than it will, because of what is done once. Those that are filled in, and those of
        a kernel that keeps having new ones, take no less the next time.
        """
        return not cached.filled and cached.history.handed < _MET and self.met < _MOST_MET

    def wants_sample(self, stake: Stake, ahead: int = 0) -> bool:
        """Whether the last launch is to be sampled, or the one so many further on."""
        launches = self.launches + ahead
        many = stake.exchanges and stake.kept is None and launches < SAMPLE_EVERY
        every = _SAMPLE_EXCHANGE_EVERY if many else SAMPLE_EVERY
        return launches <= FIRST_SAMPLES or launches % every == 0

    def samples_direct(self, number: int, nitems: int) -> bool:
        """Whether a launch without a plan, of that number among those that were looked at and of so many work-items, is sampled. Of a
        kernel that is known to be short there, the first ones are not: a sample takes the host longer than some launches of it. One that
        is much larger than all that were measured is: nothing tells what it takes.
        """
        if number <= FIRST_SAMPLES or not self.times.covers(nitems):
            return not self.times.took_at_most(nitems, SHORT)
        return number % SAMPLE_EVERY == 0

    def weight(self, counts_for: int) -> int:
        """The weight of a launch without a plan that stands for so many of a short kernel. The first that are looked at come soon after
        each other: they may be of other sizes, which are sampled.
        """
        return max(counts_for, _FIRST_WEIGHT) if self.direct < FIRST_SAMPLES else counts_for

    def is_due(self, launches: int = 1) -> bool:
        """Whether the last of these launches has to be looked at even if nothing else suggests it."""
        self.skipped += launches
        return self.skipped > self.pause

    def is_due_at(self, launches: int) -> bool:
        """The same for the kernel's launch of that number, if not all before it were asked about: most launches
        without plans are handed over immediately.
        """
        before, self.due_at = self.due_at, launches
        return self.is_due(max(launches - before, 1))

    def will_be_due_at(self, launches: int) -> bool:
        """What `is_due_at` would say; nothing is counted."""
        return self.skipped + max(launches - self.due_at, 1) > self.pause

    def believed(self, seconds: float) -> float:
        """What a plan that took this long counts for."""
        return min(seconds, max(FIRST_PLAN, _MOST_LONGER * (self.plan.value or 0.0)))

    def planned(self, seconds: float, launches: int, *, once: bool) -> None:
        """The first of these split launches had a plan made, which took this long; 0: none. `once`: it is a one-time plan."""
        if seconds > 0:
            self.plan.add(seconds)
            self.settling = max(self.settling - once, 0)
            self._settled[self._bits] += once
        count = max(launches, 1)
        if not once:
            self.thought.add(seconds / count, count)

    def look_again(self) -> None:
        """Another way is in use: what was gained in the last one says nothing about this one."""
        self.pause = self.skipped = self.unweighed = self.rest = 0
        self._plan_again()

    def _plan_again(self) -> None:
        """All plans are made once more."""
        self._planned = dict.fromkeys(self._planned, 1)
        self._settled.clear()

    def was_planned(self, nitems: int, *, anew: bool, what: Hashable = None) -> None:
        """A split launch of so many work-items; `anew`: it had a plan made, and so had the one before, as far as it did not recur.
        `what` it is, beside the states of its buffers.

        Those for the levels of a grid are planned once for each, and differ much. And what comes again is planned again only until
        the states of its buffers do, too: a matrix that is gone over tile by tile has a long period.
        """
        before, self._bits = self._bits, nitems.bit_length()
        self.comes_again = anew and what is not None and self._is_known(hash(what))
        anew = anew and not self.comes_again
        self.planned_in_a_row = 1 + self.planned_in_a_row * (before == self._bits) if anew else 0

    def _is_known(self, what: int) -> bool:
        """Whether this was planned before, and not so often in this way that its plans are of no use."""
        if len(self._planned) >= _MOST_PLANNED:
            self._planned.clear()
        before = self._planned.get(what, 0)
        self._planned[what] = before + 1
        return 0 < before < SETTLING

    @property
    def settles(self) -> bool:
        """Whether the last plan was one that is made once: among the first for launches of about as many work-items, or of what comes
        again.
        """
        return self.comes_again or self._settled[self._bits] < SETTLING

    @property
    def never_recurs(self) -> bool:
        """Whether so many launches had a plan made each that the next ones will have, too."""
        return self.planned_in_a_row >= _IN_A_ROW

    @property
    def settling_seconds(self) -> float:
        """What the one-time plans take that have still to be made."""
        return max(self.settling, self.spaces) * (self.plan.value or 0.0)

    def looked_at(self, gains: bool, each: float = 0.0, look: float = 0.0) -> None:
        """The launch, which took `each` seconds, was looked at, which took the host `look` seconds: if it gains, the next one comes later,
        and so it does where launches are so short that looks would take more than a small part of their time.
        """
        self.skipped = 0
        most = min(_MOST_PAUSE, int(_PAUSE / each)) if each else _MOST_PAUSE
        self.pause = min(2 * self.pause + 1, most) if gains else 0
        if each:
            self.pause = max(self.pause, int(min(look / _LOOKING, _PAUSE) / each))

    def rests(self, each: float, weighing: float) -> None:
        """Launches on several workers, which take `each` seconds, were weighed, which takes the host `weighing`: until what they gain or
        lose decides something, that is to take a small part of their time as well.
        """
        self.rest = min(int(weighing / _WEIGHING / each), _MOST_PAUSE) if each > 0 else 0
