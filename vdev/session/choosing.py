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
share hardware splitting gains nothing, and a launch's size alone decides (`vdev.session.cutoff`): small ones soon take no plans, larger
ones once they have cost enough, and one that is not below the cutoff is planned again at once.

Of several workers, half, a quarter and so on are candidates by the same measure (`vdev.planner.spans`): before one worker is
taken, and whenever another number of them would take less. What was chosen stays with the buffers and with the kernels, for
other buffers and for the program's next run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import inf
from weakref import WeakKeyDictionary

from vdev.backends.base import WorkerInfo
from vdev.executor.prepare import PreparedPlan
from vdev.observe.tallies import KernelTally
from vdev.planner.directory import kept_on
from vdev.planner.instructions import Plan
from vdev.planner.launch_request import LaunchOptions
from vdev.planner.launch_search import runs_at_once
from vdev.planner.periods import Turn
from vdev.planner.regret import SMALL_NBYTES, UNDISTURBED, Mean, Median, Stake, exchange_of, stake_of
from vdev.planner.spans import ONE, halves
from vdev.planner.timing import MachineTimes, Way
from vdev.session.accounts import Account, Accounts
from vdev.session.buffers import Occupancy, VirtualBuffer
from vdev.session.commands import Launch
from vdev.session.host_times import Clocks
from vdev.session.kernel_timing import FIRST_PLAN, KernelTiming
from vdev.session.launch_plans import CachedPlan, LaunchCache
from vdev.session.looks import Looks
from vdev.session.one_worker import OneWorker
from vdev.session.samples import Samples
from vdev.session.split_launches import SplitLaunches, within_host
from vdev.session.split_plans import SplitPlans
from vdev.session.way_changes import WayChanges
from vdev.session.way_times import FLOOR, WayTimes
from vdev.session.worker_counts import WorkerCounts
from vdev.translators.ranges.ndrange import NDRange

#: launches on other buffers after which those that exchange little are not looked at until one exchanges much
_IDLE = 64
#: index spaces of a kernel for which it is known what was brought to one worker
_MOST_SPACES = 1024
#: folds whose times count, and how many there must be
_FOLDS, _ENOUGH_FOLDS = 9, 3


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
        #: whether a launch's size decides if it takes a plan, and no times: the workers share hardware
        self._by_size, self._forced = shared, forced
        self.machine = name  #: under which is kept between runs what was chosen
        #: what launches take
        self.times = WayTimes(machine or MachineTimes(), options.links, exchanges=self.exchanges)
        self.seconds_per_cost = self.times.machine.per_byte  #: that a unit of `LinkCosts` takes
        self._folds = Median(_FOLDS, _ENOUGH_FOLDS, UNDISTURBED)  #: seconds of handing one over
        self._split_plans = SplitPlans(options)
        self._options = options
        #: the numbers of workers over which launches may be split
        self._spans = () if shared else halves(len(options.workers))
        #: whether launches count that exchange little
        self.open = False
        self._idle = 0  #: launches since one counted
        self._changed: Account | None = None  #: with the launch that was weighed last
        self._compose(occupancy)

    def _compose(self, occupancy: Occupancy) -> None:
        """Those who weigh, and who change ways."""
        options, shared = self._options, self._by_size
        self._accounts = Accounts(options.min_items if shared else inf)
        self._samples = Samples(self.times, shared=shared, forced=self._forced)
        #: at results; whoever waits asks first whether one has only to be counted
        self.looks = Looks(self.times)
        self._counts = WorkerCounts(
            options, self._spans, self.times, self._samples, self._accounts, occupancy
        )
        self._split = SplitLaunches(self.times, self._samples, self._counts)
        self._changes = WayChanges(options, self.times, self._accounts, self._counts, occupancy)
        self._one = OneWorker(
            options,
            self.times,
            self._accounts,
            self._samples,
            self.looks,
            self._counts,
            self._changes,
            by_size=shared,
        )
        #: accounts whose launches take no plans
        self.without_plans: WeakKeyDictionary[Account, None] = self._accounts.without_plans
        self.alone = self._changes.alone
        # Asked at every launch: there is no call in between.
        self.over = self._counts.over
        self.keeper_without_plans = self._one.keeper
        self.counts_for = self._one.counts_for
        self.reconsider = self._one.reconsider

    def begin(self, cache: LaunchCache, launch: Launch) -> None:
        """The first launch of a kernel: begin with what the program's last run found; or else on one worker, if it is too short to gain."""
        cache.span = len(self._options.workers)
        span = cache.begin(self.machine) if self.machine else None
        if self._by_size:
            timing = self.times.timing(cache.tally)
            timing.cache = cache
            cache.begin_cutoff(timing.cutoff)
            span = ONE if cache.cutoff.below else None
        if span is not None and span != ONE and not self._by_size:
            self.times.timing(cache.tally).was_split()
        if span in self._spans:
            cache.span = span
            self._one.presume_no_more()
        elif span == ONE and self.thrifty:
            self.alone.add(id(cache.tally))
            self._changes.kept_alone[id(cache.tally)] = cache.kept_returns, cache.kept_toll
        elif span is None and self.thrifty:
            self._one.presume(cache.tally, launch)

    def stake(self, plan: Plan, buffers: Sequence[VirtualBuffer], nitems: int) -> Stake | None:
        """What a plan for `buffers`, as they are, is weighed by."""
        states = [buffer.state for buffer in buffers]
        stake = stake_of(plan, states, self._options.links, nitems, small=self.thrifty)
        if stake is not None and self._by_size and not self.exchanges:
            stake = within_host(stake, plan)
        ngroups, units = sum(chunk.ngroups for _, chunk in plan.partition), self._options.compute_units
        if stake is not None and units and runs_at_once(ngroups, nitems, units):
            stake = replace(stake, share=1.0)
        return stake

    def counts(self, stake: Stake, thought: float, tally: KernelTally, *, steady: bool = False) -> bool:
        """Whether a launch has to be weighed whose plan took this many seconds. `steady`: it leaves its buffers as it finds them."""
        timing = self.times.timing(tally)
        if stake.kept is None:
            timing.passes(stake)
        is_due = self.thrifty and timing.is_due()
        # A steady one is repeated once it is not weighed, which asks nobody: it is weighed until something is decided.
        rests = self.thrifty and stake.kept is None and not (thought or steady)
        if rests and timing.skipped <= timing.rest:
            timing.unweighed += 1
            return False
        exchanges = self.exchanges and stake.exchanges
        if self.open or (exchanges and not self._are_alike(stake, timing)):
            return True
        if self.thrifty and (thought > 0 or is_due):
            return True
        timing.unweighed += stake.kept is None
        return False

    def _are_alike(self, stake: Stake, timing: KernelTiming) -> bool:
        """Whether one launch stands for those that are skipped. What is merged after a kernel has to be known for that: until then nothing
        wrong is found with such launches, however many there are.
        """
        if not self.thrifty or self._by_size or stake.kept is not None or len(timing.sizes) > 1:
            return False
        return self.times.unit is not None or stake.before >= stake.moved

    def weighs_only(self, cache: LaunchCache, cached: CachedPlan, ndrange: NDRange) -> bool:
        """Whether a launch that several workers come to has to be weighed, and nothing else is wanted of it: no sample. Counts it if so."""
        return cached.stake is not None and self.weighs(cache, cached, ndrange) is True

    def weighs(
        self, cache: LaunchCache, cached: CachedPlan, ndrange: NDRange, thought: float = 0.0
    ) -> bool | None:
        """Whether it has to be weighed; None where something else is wanted of it. `thought`: seconds that its plan took. As
        `weighs_only`.
        """
        stake, timing = cached.stake, self.times.timing(cache.tally)
        if stake is None:
            return None if self.balances(cache, cached, ndrange) else False
        if stake.kept is not None or self._samples.is_wanted(cache, cached, ndrange, timing):
            return None
        if not self.counts(stake, thought, cache.tally, steady=cached.steady):
            return False
        timing.launches += 1
        return True

    def counts_direct(self, tally: KernelTally, nitems: int) -> bool:
        """Whether a launch without a plan, of so many work-items, is to be sampled: nothing else would tell what it takes."""
        if self._by_size or not self.thrifty:
            return False
        timing = self.times.timing(tally)
        timing.direct += 1
        return timing.samples_direct(timing.direct, nitems)

    def is_to_be_submitted(
        self, cache: LaunchCache, ndrange: NDRange, buffers: Sequence[VirtualBuffer]
    ) -> bool:
        """Whether a launch without a plan that is looked at (`LaunchCache.weight`) takes another way than those before, or is to
        be sampled.
        """
        timing = self.times.timing(cache.tally)
        if self.thrifty and not self._by_size:
            self._samples.read()  # what the last one took may show that this one need not be sampled
            if timing.samples_direct(timing.direct + 1, ndrange.nitems):
                return True
        timing.direct += 1
        changes = self.reconsider(ndrange, cache.tally, buffers)
        cache.weight = timing.weight(self.counts_for(cache.tally))
        return changes

    def passes_by(self, cache: LaunchCache, ndrange: NDRange) -> bool:
        """Whether the next launch without a plan, over `ndrange`, needs no look (`is_to_be_submitted`) though its turn has come: nothing
        would be sampled, read or weighed. Counts it if so. A look takes the host as long as several launches, and where those are short,
        nothing hides it.
        """
        if self._by_size:
            cache.weight = self.counts_for(cache.tally)
            return True
        timing = self.times.known(cache.tally)
        if timing is None or not timing.times.known or self._samples.any_taken:
            return False
        if timing.will_be_due_at(cache.tally.launches + 1):
            return False
        if timing.samples_direct(timing.direct + 1, ndrange.nitems):
            return False
        timing.direct += 1
        cache.weight = timing.weight(timing.counts_for)
        return True

    def handed_over(
        self, tally: KernelTally, cached: CachedPlan, seconds: float, *, sampled: bool = False
    ) -> None:
        """The host took this long to hand over a launch that was weighed or sampled."""
        self.times.handed_over(tally, cached, seconds, sampled=sampled)

    def handed_over_at_once(self, seconds: float) -> None:
        """The host took this long to hand over a launch without a plan that was looked at."""
        self.times.handed_over_at_once(seconds)

    def look_took(self, seconds: float) -> None:
        """The host took this long to look at a launch without a plan (`is_to_be_submitted`)."""
        self.times.looks.add(seconds)

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
        account = self._accounts.joined(large, stake.kept, tally)
        self.looks.weighed(account)
        timing = self.times.timing(tally)
        self._counts.set(account, launch.kernel.plans.span_of(buffers))
        is_first = timing.begin(launch.kernel.plans)
        moved = max(stake.moved - account.budget, 0.0)
        if account.keeper is not None:
            self._count_kept(account, thought + self.times.lost_by_plans(timing, stake))
            change = self._weigh_kept(account, launch, timing, cached, stake, moved, buffers)
        elif account.barred:
            change = False
        else:
            # Kernels are met and loaded once, and so are plans; memory is taken once.
            once = is_first or bool(cached.plan.growth) or timing.is_new(cached)
            account.prepaid += timing.take_paid()
            account.spent += timing.believed(thought)
            account.host.met(thought, once=once)
            timing.exchanged.add(tally.launches, stake.moved)
            if self.thrifty and self._lose(account, launch, tally, stake, thought, clocks):
                # Where launches come to an end, fewer workers would lose soon as well.
                ends = account.outlook.ends
                return (not ends and self._counts.narrow(account)) or self._changes.change(
                    account, thrifty=True
                )
            if self._counts.take_other(account) or self._counts.take_fewer(account, timing, stake):
                return True
            change = counts and self._exchange_loses(account, launch, timing, stake, moved)
            if change and self._counts.narrow(account):
                return True
        return self._decided(account, launch, cached, buffers, stake.moved - moved, change)

    def weighing_took(self, seconds: float) -> None:
        """To weigh the last launch took the host so long: that is not the program's own, and there is none of it once launches gain."""
        if (account := self.looks.account) is not None:
            account.host.thought += seconds
            if account.keeper is None:
                self.times.weighing.add(seconds)

    def _lose(
        self,
        account: Account,
        launch: Launch,
        tally: KernelTally,
        stake: Stake,
        thought: float,
        clocks: Clocks | None,
    ) -> bool:
        """Whether split launches have lost enough, with this one, whose plan took so many seconds to make."""
        if self._by_size:
            return self._split.lose_by_size(account, tally, thought)
        return self._split.lose(account, launch, tally, stake, thought, clocks)

    def _exchange_loses(
        self, account: Account, launch: Launch, timing: KernelTiming, stake: Stake, moved: float
    ) -> bool:
        """Whether what split launches exchange is reason enough for one worker."""
        return self._forced or self._split.exchanges_lose(account, launch, timing, stake, moved)

    def _decided(
        self,
        account: Account,
        launch: Launch,
        cached: CachedPlan,
        buffers: Sequence[VirtualBuffer],
        budgeted: float,
        change: bool,
    ) -> bool:
        """A launch was weighed, of whose transfers `budgeted` belong to the change of ways. Whether the other way is taken: it is
        to be, where `change` says so and a worker has room.
        """
        if change:
            change = self._changes.change(account)
        if change and account.keeper is not None:
            self._split_plans.stake(account, self._counts.of(account), launch, cached, buffers)
        if not change:
            account.budget -= budgeted
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
        if account.thought > FLOOR / 2:
            account.keep_on(account.keeper, thrifty=True)
            self.without_plans[account] = None
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
        if self._counts.widen(buffers):
            return True
        if all(buffer.state.kept is None for buffer in buffers):
            return False
        for buffer in buffers:
            account = self._accounts.get(buffer)
            if account is not None:
                account.barred = True
                if account.keeper is not None:
                    self._changes.change(account)
            buffer.state = kept_on(buffer.state, None)
        return True

    def begin_again(self, tallies: Iterable[KernelTally]) -> None:
        """Launches of these kernels can be cut as they could not before: those that are kept on one worker are split, on whatever buffers,
        and what splitting takes is found out anew.
        """
        kernels = {id(tally) for tally in tallies}
        for account in self._accounts.kept(kernels):
            if not account.barred:
                self._changes.change(account)
        self.alone.difference_update(kernels)  # on new buffers, too

    def looked(self, at_ns: int, nbytes: int) -> bool:
        """The program waits for so many bytes, by the host's clock at `at_ns`. Whether its launches take another way from now on."""
        if not self.thrifty or self._by_size or self._forced:
            return False
        turn, account = self.looks.look(at_ns, nbytes), self.looks.account
        if account is None:
            return False
        if turn is Turn.GO_ON:
            if account.tried and not account.periods.on_trial:
                self._changes.stay(account)
            return False
        if turn is Turn.TRY_ONE:
            changes = self._changes.change(account, thrifty=True, on_trial=True)
            if changes:
                account.periods.begin_trial()
            return changes
        if turn is Turn.FORMER_COUNT:
            return self._counts.take_former(account)
        returns = account.returns
        changes = self._changes.change(account)
        account.returns = returns  # it was not for what launches took
        return changes

    def folded(self, buffers: Sequence[VirtualBuffer], plan: Plan, host: float) -> None:
        """What launches had left pending of these buffers was folded, which it was not on one worker: it counts like a launch
        that has exchanged as much. `host`: seconds that it took to hand the fold over.
        """
        found = dict.fromkeys(filter(None, map(self._accounts.get, buffers)))
        accounts = [account for account in found if account.keeper is None and not account.barred]
        if not accounts:
            return
        exchange, machine = exchange_of(plan, self._options.links), self.times.machine
        bulk = self.exchanges and exchange.most >= SMALL_NBYTES
        share, least = len(found), machine.handing_over(len(plan.workers), sum(exchange.messages.values()))
        if self.thrifty and not self._by_size:
            self._folds.add(host)
        for account in accounts:
            if bulk:
                account.ways.regret += exchange.moved * (self.times.unit or machine.per_byte) / share
                self._accounts.open[account] = None
                self.open = True
            if self.thrifty and not self._by_size:
                took = Way(
                    max(self._folds.value or 0.0, least) / share,
                    machine.exchanging(exchange.busiest, 0.0 if bulk else exchange.moved) / share,
                )
                account.periods.fold(took.host + took.device)
                account.host.thought += host / share
                if not account.periods.toll:  # of which folds are a part
                    account.thrift.add(took)
                    account.hands.add(took)

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
        split = self._split_plans.stake(account, self._counts.of(account), launch, cached, buffers)
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


def can_choose(workers: Sequence[WorkerInfo]) -> bool:
    """Whether there are workers to choose from: several of one kind with memory and hardware of their own."""
    return (
        len(workers) > 1
        and not any(info.is_cpu for info in workers)
        and len({info.backend for info in workers}) == 1
        and len({info.device_key for info in workers}) == len(workers)
    )
