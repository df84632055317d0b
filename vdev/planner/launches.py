"""Planning a launch: how it is cut, what has to move before, and whose writes count after (PPoPP'11 sections
3.2 to 3.6).

Decides the partition by the bytes that would really move, given who holds what. Rules, in this order:

1. One chunk on one worker, with the reason recorded, where the kernel demands it, the NDRange has a single
work-group, the launch is small, or every cut would need a merge that does not exist.
2. Otherwise as many chunks as there are workers, or as the work-groups allow. That more bytes move than to a
single worker is no reason against a cut: they move once, and stay. Only an estimate of the kernel's time,
`compute_cost`, makes fewer workers candidates.
3. Of the partitions with that many chunks the cheapest; at equal cost the one with fewer runs of bytes to
move; then the one that cuts the slowest-varying dimension.
4. Its chunks run on the workers in order, unless `assignment` finds that another order moves clearly less.
5. Where chunks of such a cut were seen to take unequal times, the cuts are moved to where they take equal ones
(`balance`), unless what that moves takes longer than it gains.

A launch is small where several workers have nothing to gain, whatever its kernel does: where there are fewer
than `min_items` work-items (a hand-over to another worker costs more than they do), or, if the workers have
compute units of their own, where one worker runs all at once at full speed: each work-group on a compute unit
of its own, or not more than `ITEMS_PER_UNIT` work-items for each unit. What a kernel costs beyond that,
analysis cannot tell (the length of its loops may come from memory), so nothing else keeps a launch whole. A small launch is cut
all the same where that saves bringing much to one worker: a few sums over a large array are added up where it lies.

Never looks at a kernel's source: access ranges come from a callable.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import chain, pairwise, product
from math import inf, prod

from vdev.planner.assignment import Share, assign_chunks, order_of_data
from vdev.planner.balance import Balance, WorkProfile, cut_at
from vdev.planner.builder import PlanBuilder
from vdev.planner.directory import HOST, BufferState
from vdev.planner.footprints import (
    AtomicMerge,
    Footprint,
    PointerArg,
    Resolution,
    Unmergeable,
    argument_name,
    covered_twice,
    format_reason,
    gather,
    resolve,
    resolve_apart,
)
from vdev.planner.habits import Habits
from vdev.planner.instructions import Launch, Plan, Touch
from vdev.planner.links import LinkCosts
from vdev.planner.merges import Merging, combinations, merges_on
from vdev.planner.partitioner import Partition, all_partitions, make_partition, widest_partitions
from vdev.planner.pending import Reducing, Unfolded, launch_stands_against, missing_parts
from vdev.planner.placement import share
from vdev.planner.successors import Reading, cost_of_reading, cuts_in_stripes
from vdev.planner.tidying import fitted, tidy
from vdev.translators.interpreter.summaries import AccessRange, Reason
from vdev.translators.ranges.ndrange import Chunk, NDRange
from vdev.translators.ranges.region import Region
from vdev.translators.values import dataclass

Evaluate = Callable[[Chunk], Sequence[AccessRange]]

#: the cost to the host of a merged byte, besides its transfers, relative to a transferred byte
MERGE_WEIGHT = 1.0


FEWER = (
    "on fewer workers than available: on more of them, launches on these buffers took longer, or would take longer"
    " (VDEV_PLANNING)"
)

#: work-items below which no launch is worth two workers: a hand-over costs some 20 us
USUAL_MIN_ITEMS = 1024

#: seconds of transfers that a cut of a small launch has to save: several times what it takes to hand it over to another worker
SMALL_SAVES = 2e-4

#: what workers have to get from each other in all before another order of theirs is looked for: a copy of less
#: takes no longer than to ask for it
REORDER_NBYTES = 64 << 10

#: a cut that moves hardly more than every cut has to is taken without a look at others: by so small a part of it, and by
#: no more than so many runs cost, as another cut through rows would have
HARDLY_MORE, MORE_RUNS = 0.125, 1024

#: work-items that a compute unit of a GPU runs as fast as a single one: a warp of 32 on each of its four schedulers
ITEMS_PER_UNIT = 128


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """What decides, besides the command, how a launch is planned. The same for a whole session, or part of a cache
    key.
    """

    workers: tuple[int, ...]  #: numbers of the workers that may be used, ascending
    links: LinkCosts  #: for all workers, including those that may not be used
    #: launches of fewer work-items than this stay on one worker
    min_items: int = 0
    #: (work-groups of the largest chunk, number of chunks) to the kernel's time in the unit of `links`
    compute_cost: Callable[[int, int], float] | None = None
    #: False: bytes that several chunks certainly write are compared with a twin, so that races show
    trust_exact: bool = True
    #: compute units that each worker has for itself; 0: none, or launches that one worker runs at once are cut
    compute_units: int = 0
    #: bytes that several chunks change by commuting atomics stay on their workers until somebody looks
    pending: bool = False
    #: seconds that a unit of `links` takes, to set what cuts elsewhere move against what they gain; 0: not known
    seconds_per_cost: float = 0.0
    #: gives the cuts of an index space to choose from, for so many workers; None: the partitioner's
    cuts: Callable[[tuple[int, ...], int], Sequence[Partition]] | None = None
    #: they are fewer than there are because more would take longer (`spans`)
    fewer: bool = False


@dataclass(slots=True)
class _Candidate:
    """One way to run the launch: a chunk for each of `workers`, and what follows by slot."""

    partition: Partition
    workers: tuple[int, ...]
    footprints: list[dict[int, Footprint]]  #: by chunk
    resolutions: dict[int, Resolution]  #: by slot
    reductions: dict[int, tuple[AtomicMerge, ...]]  #: by slot: what stays pending, and is in no resolution
    unfolded: tuple[int, ...]  #: slots whose pending bytes have to be folded first
    cost: float = inf
    nruns: int = 0
    #: by chunk: the cost of the bytes that are brought to its worker, and the number of their runs
    incoming: list[float] = field(default_factory=list)
    incoming_runs: list[int] = field(default_factory=list)
    from_workers: int = 0  #: how many bytes come to workers from other workers


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """One launch, as far as its plan depends on it."""

    args: tuple[PointerArg, ...]  #: the pointer arguments that are not NULL; several may name one slot
    ndrange: NDRange
    evaluate: Evaluate  #: the access ranges of a chunk, relative to each argument
    one_worker: tuple[Reason, ...] = ()  #: why it must not be cut
    #: The worker gets each buffer whole: for a kernel that does not know of shifted pointers. Then there is
    #: one chunk, and every shift is minus the argument's offset.
    whole_replicas: bool = False
    #: All workers that may be used share the host's memory: they use fine-grain buffers where these are, at home.
    in_place: bool = False
    #: how launches of the kernel were cut before; None: all cuts are compared
    habits: Habits | None = None
    #: by slot, what later launches read of what this one leaves (`successors`)
    readings: Mapping[int, tuple[Reading, ...]] = field(default_factory=dict)
    #: where cuts other than even ones are better for the kernel, from measured times; None: nothing was measured
    balance: Balance | None = None
    #: how its work is spread along a dimension, by the bounds of its loops; None: nothing is known
    work: Callable[[int], WorkProfile | None] | None = None
    work_depends: Hashable = None  #: what `work` depends on beside the index space
    #: keeps a buffer (by slot), of which some boxes were written, in few boxes
    tidied: Callable[[PlanBuilder, int, Sequence[Region]], None] = tidy


def plan_launch(states: Sequence[BufferState], request: LaunchRequest, options: LaunchOptions) -> Plan:
    """The plan of one launch. `states`: by slot, each buffer once. Raises Unfolded where it needs pending bytes.

    `Plan.reasons` says why it is not cut further.
    """
    builder = PlanBuilder(states, options.links)
    if request.ndrange.nitems == 0:  # nothing to run (clEnqueueNDRangeKernel lets it pass since 2.1)
        return builder.finish()
    search = _Search(states, request, options)
    chosen = search.balanced(search.run())
    if chosen.unfolded:
        raise Unfolded(chosen.unfolded)
    slots = list(chosen.resolutions)
    merging = {
        slot: Merging(builder, slot, chosen.workers, found)
        for slot in slots
        if (found := combinations(chosen.resolutions[slot], chosen.workers, options.links))
    }
    reducing = [Reducing(builder, slot, chosen.workers, found) for slot, found in chosen.reductions.items()]
    _reserve(builder, request, chosen, merging)
    for slot in slots:
        _supply(builder, slot, chosen)
        if slot in merging:
            merging[slot].supply()
    for of_slot in merging.values():
        of_slot.prepare()
    for reduction in reducing:
        reduction.prepare()
    _run_chunks(builder, request, chosen)
    for reduction in reducing:
        reduction.finish()
    reasons = search.reasons
    for slot in slots:
        _settle_owners(builder, slot, chosen)
        if slot in merging:
            merging[slot].finish()
        reasons.extend(_why_merged(chosen, slot))
        request.tidied(builder, slot, chosen.resolutions[slot].owns)
    partition = tuple(zip(chosen.workers, chosen.partition.chunks, strict=True))
    overwrites = [
        slot
        for slot in slots
        if slot not in chosen.reductions and _overwrites(chosen.resolutions[slot], states[slot].nbytes)
    ]
    # What the identity is filled into is no new content.
    plan = builder.finish(partition, reasons, reads=tuple(chosen.reductions), overwrites=overwrites)
    return plan if search.recut is None else replace(plan, recut=search.recut)


def runs_at_once(ngroups: int, nitems: int, units: int) -> bool:
    """Whether one worker of so many compute units runs so many work-groups at once, at full speed: a part of them takes as long."""
    return ngroups <= units or nitems <= units * ITEMS_PER_UNIT


def _overwrites(resolution: Resolution, nbytes: int) -> bool:
    """Whether every byte of a buffer is certainly written, whatever it held: a may-write would be among `needs`."""
    if resolution.apart or any(resolution.needs) or resolution.diff or resolution.merges:
        return False
    return Region.union(resolution.owns).nbytes == nbytes


class _Search:
    """The choice of one candidate. `reasons` tells why it is not a cut over all workers."""

    def __init__(self, states: Sequence[BufferState], request: LaunchRequest, options: LaunchOptions) -> None:
        self.states = states
        self.request = request
        self.options = options
        self.reasons: list[str] = []
        self.recut: float | None = None  #: as in `Plan`
        #: by cut: what follows from it is the same on whichever workers its chunks run
        self._candidates: dict[Hashable, _Candidate] = {}

    def run(self) -> _Candidate:
        """The candidate to take."""
        uncut = self._uncut()
        if uncut is not None:
            return uncut
        groups, options = self.request.ndrange.num_groups, self.options
        available = len(options.workers)
        usual = None if self.request.readings or options.cuts is not None else self._usual()
        if usual is not None:
            self.reasons = [FEWER] if options.fewer else []
            return usual
        best, refusals = self._best_cut(available)
        if best is None:
            self.reasons.extend(refusals)
            return self._on_one_worker()
        if options.compute_cost is not None:
            alone = self._on_one_worker()
            best = alone if alone.cost < best.cost else best
        if best.partition.cycle:
            blocks = ", ".join(str(stop - start) for start, stop in pairwise(best.partition.edges))
            self.reasons.append(
                f"cut into blocks of {blocks} work-groups in turn, as later launches read them"
            )
        else:
            best = self._in_best_order(best)
        if self.request.habits is not None and not self.request.readings and len(best.workers) == available:
            self.request.habits.learn(
                len(groups), options.workers, best.partition.cuts, best.workers, best.cost
            )
        if len(best.workers) < available:
            timed = options.compute_cost is not None
            why = "by the kernel's estimated time" if timed else f"for {prod(groups)} work-groups"
            self.reasons.append(f"{len(best.workers)} of {available} workers {why}")
        if options.fewer:
            self.reasons.append(FEWER)
        return best

    def _uncut(self) -> _Candidate | None:
        """The candidate where cuts are not compared for their own sake: on one worker, or on those that have the data."""
        if len(self.options.workers) == 1:
            return self._on_one_worker()
        self.reasons = self._against_cutting()
        if self.reasons:
            return self._on_one_worker()
        self.reasons = self._too_small()
        return self._where_its_data_is(self._on_one_worker()) if self.reasons else None

    def _where_its_data_is(self, alone: _Candidate) -> _Candidate:
        """A cut of a small launch, if much less has to be brought for it than for `alone`, which is on one worker."""
        options, unit = self.options, self.options.seconds_per_cost
        saved = SMALL_SAVES / unit if unit > 0 else inf
        if alone.unfolded or alone.cost <= saved or options.compute_cost is not None:
            return alone
        best, _ = self._best_cut(len(options.workers))
        if best is None or best.unfolded or best.cost + saved >= alone.cost:
            return alone
        self.reasons = ["small, but cut: its data lies on several workers"]
        return self._in_best_order(best)

    def balanced(self, chosen: _Candidate) -> _Candidate:
        """The candidate with its cuts moved to where its chunks should take equal times; the candidate itself if that
        gains nothing.
        """
        balance, unit = self.request.balance, self.options.seconds_per_cost
        groups = self.request.ndrange.num_groups
        recut = None
        if balance is not None and unit > 0 and len(chosen.workers) > 1 and not chosen.unfolded:
            of_work = self.request.work, self.request.work_depends
            recut = balance.find(groups, chosen.partition, chosen.workers, *of_work)
        if recut is None:
            return chosen
        try:
            found = self._candidate(cut_at(groups, chosen.partition, recut.edges), chosen.workers)
        except Unmergeable:
            return chosen
        self._rate(found, inf)
        more = max(found.cost - chosen.cost, 0.0) * unit
        if found.unfolded or more > recut.worth:
            return chosen
        self.recut = more
        parts = ", ".join(f"{chunk.ngroups / prod(groups):.0%}" for chunk in found.partition.chunks)
        self.reasons.append(f"cut by {recut.by}, into {parts} of its work-groups")
        return found

    def _usual(self) -> _Candidate | None:
        """The cut that launches of the kernel had before, with its chunks where they were; None if all cuts have to
        be compared.
        """
        groups, options = self.request.ndrange.num_groups, self.options
        habits, habit = self.request.habits, None
        if habits is not None and options.compute_cost is None:
            habit = habits.find(len(groups), options.workers)
        if (
            habits is None
            or habit is None
            or any(parts > count for parts, count in zip(habit.cuts, groups, strict=True))
        ):
            return None
        try:
            found = self._candidate(make_partition(groups, habit.cuts), habit.workers)
        except Unmergeable:
            return None
        self._rate(found, inf)
        return found if habits.allows(habit, found.cost) else None

    def _best_cut(self, available: int) -> tuple[_Candidate | None, list[str]]:
        """As of `_cheapest`, of all cuts for so many workers."""
        found = self._one_of_late()
        if found is not None:
            return found, []
        options, groups = self.options, self.request.ndrange.num_groups
        table = options.cuts or (widest_partitions if options.compute_cost is None else all_partitions)
        return self._cheapest([cut for cut in table(groups, available) if len(cut.chunks) > 1])

    def _one_of_late(self) -> _Candidate | None:
        """One of several cuts that were the best in turn, if nothing has to move for it: others need not be looked at."""
        request, options, groups = self.request, self.options, self.request.ndrange.num_groups
        if request.habits is None or request.readings or options.cuts is not None or options.compute_cost:
            return None
        for cuts in request.habits.recent(len(groups), options.workers):
            if any(parts > count for parts, count in zip(cuts, groups, strict=True)):
                continue
            try:
                found = self._candidate(make_partition(groups, cuts), options.workers)
            except Unmergeable:
                continue
            self._rate(found, 0.0)
            if found.cost == 0:
                return found
        return None

    def _against_cutting(self) -> list[str]:
        """Why the launch runs as one chunk, whatever the ranges are."""
        demanded = [str(reason) for reason in self.request.one_worker]
        if demanded:
            return demanded
        if self.request.whole_replicas:
            return ["the kernel runs as it is written"]
        if prod(self.request.ndrange.num_groups) == 1:
            return ["one work-group"]
        return []

    def _too_small(self) -> list[str]:
        """Why several workers would not run the launch faster than one."""
        if self.request.ndrange.nitems < self.options.min_items:
            return [f"fewer than {self.options.min_items} work-items"]
        units, ngroups = self.options.compute_units, prod(self.request.ndrange.num_groups)
        if not runs_at_once(ngroups, self.request.ndrange.nitems, units):
            return []
        if ngroups <= units:
            return [f"fewer than {units + 1} work-groups: one worker runs them all at the same time"]
        return [
            f"fewer than {units * ITEMS_PER_UNIT + 1} work-items: one worker runs them all at the same time"
        ]

    def _cheapest(self, table: Sequence[Partition]) -> tuple[_Candidate | None, list[str]]:
        """The best of the table, or None and why each partition cannot be.

        Where data lies in blocks in another order than that of the workers, that order is tried first: a cut
        along the blocks must not seem dear because of it.
        """
        best: _Candidate | None = None
        refusals: list[str] = []
        orders = dict.fromkeys(
            (order_of_data(self.states, self.options.workers, self.options.links), self.options.workers)
        )
        for partition, workers in chain(product(table, orders), self._in_stripes()):
            try:
                found = self._candidate(partition, workers[: len(partition.chunks)])
            except Unmergeable as refusal:
                if str(refusal) not in refusals:
                    refusals.append(str(refusal))
                continue
            self._rate(found, inf if best is None else best.cost)
            if best is None or (found.cost, found.nruns) < (best.cost, best.nruns):
                best = found
            if best.cost == 0:  # nothing can be cheaper, and the remaining ones are less preferred
                break
            if found is best and self._moves_no_more_than_any(found):
                break
        return best, refusals

    def _in_stripes(self) -> Iterator[tuple[Partition, tuple[int, ...]]]:
        """Cuts that leave bytes in the stripes in which they are read later."""
        request = self.request
        if request.readings:
            for partition, workers in cuts_in_stripes(
                request.readings, request.args, request.ndrange, request.evaluate
            ):
                if set(workers) <= set(self.options.workers):
                    yield partition, workers

    def _moves_no_more_than_any(self, found: _Candidate) -> bool:
        """Whether other cuts would move hardly less: what no worker has has to come to one of them, however the launch is
        cut. As before a program's first launches, whose data lies at home: to look at each cut is most of their planning.
        """
        if self.options.compute_cost is not None:
            return False
        least, links = 0.0, self.options.links
        for slot, resolution in found.resolutions.items():
            state = self.states[slot]
            if not any(resolution.needs) or not state.valid or state.valid[0][0] != HOST:
                continue
            known = [held for holder, held in state.valid if holder != HOST]
            at_home = Region.union(resolution.needs) & state.valid[0][1]
            missing = at_home - Region.union(known) if known else at_home
            least += missing.nbytes * min(links.per_byte[HOST][worker] for worker in self.options.workers)
            least += missing.nruns * links.per_run
        return found.cost - least <= min(HARDLY_MORE * least, MORE_RUNS * links.per_run)

    def _in_best_order(self, found: _Candidate) -> _Candidate:
        """The candidate with its chunks on the workers that `assignment` gives them."""
        usual = self.options.workers[: len(found.workers)]
        if found.workers != usual and len(usual) > 1:
            found = replace(found, workers=usual)
            self._rate(found, inf)
        if found.from_workers < REORDER_NBYTES or len(usual) == 1:
            return found  # and what comes from the host comes so to any worker
        shares = [Share(incoming, self._parts(found, chunk)) for chunk, incoming in enumerate(found.incoming)]
        workers = assign_chunks(shares, usual, self.options.workers, self.options.links)
        if workers == usual:
            return found
        other = replace(found, workers=workers)
        self._rate(other, inf)
        # Rated by all that counts: runs, and what comes from where.
        return other if self._waits(other) <= self._waits(found) else found

    def _waits(self, candidate: _Candidate) -> tuple[int, int]:
        """What the slowest worker waits for, and what all of them do; whole, as sums of parts that are equal."""
        pairs = zip(candidate.incoming, candidate.incoming_runs, strict=True)
        costs = [cost + nruns * self.options.links.per_run for cost, nruns in pairs]
        return round(max(costs)), round(sum(costs))

    def _parts(self, candidate: _Candidate, chunk: int) -> tuple[tuple[BufferState, Region, Region], ...]:
        """By slot, what the worker of a chunk needs and what it alone holds afterwards."""
        parts = []
        for slot, resolution in candidate.resolutions.items():
            needs, owns = resolution.needs[chunk], resolution.owns[chunk]
            for item in combinations(resolution, candidate.workers, self.options.links):
                merged = Region.union(block for index, block in item.sites if index == chunk)
                needs, owns = needs | merged, owns | merged
            parts.append((self.states[slot], needs, owns))
        return tuple(parts)

    def _on_one_worker(self) -> _Candidate:
        """All work-groups on the worker to which the least has to be moved, the first of several."""
        groups = self.request.ndrange.num_groups
        partition = make_partition(groups, (1,) * len(groups))
        best: _Candidate | None = None
        for worker in self.options.workers:
            found = self._candidate(partition, (worker,))
            self._rate(found, inf if best is None else best.cost)
            if best is None or found.cost < best.cost:
                best = found
            if best.cost == 0:
                break
        assert best is not None, "there is a worker"
        return best

    def _candidate(self, partition: Partition, workers: tuple[int, ...]) -> _Candidate:
        """The cut with its chunks on these workers, not rated yet. Raises Unmergeable."""
        cut = (partition.cuts, partition.edges, partition.cycle)
        found = self._candidates.get(cut)
        if found is None:
            found = self._candidates[cut] = self._resolved(partition, workers)
            return found
        return replace(found, workers=workers)

    def _resolved(self, partition: Partition, workers: tuple[int, ...]) -> _Candidate:
        request = self.request
        footprints = [gather(request.args, request.evaluate(chunk)) for chunk in partition.chunks]
        resolutions = {}
        for slot in footprints[0]:
            fitting = fitted([of_chunk[slot] for of_chunk in footprints], self.states[slot])
            footprints = [of_chunk | {slot: f} for of_chunk, f in zip(footprints, fitting, strict=True)]
            resolutions[slot] = self._resolve(slot, fitting)
        reductions = self._reductions(resolutions)
        unfolded = tuple(
            slot
            for slot, resolution in resolutions.items()
            if self.states[slot].pending
            and launch_stands_against(self.states[slot], resolution, reductions.get(slot, ()))
        )
        return _Candidate(partition, workers, footprints, resolutions, reductions, unfolded)

    def _reductions(self, resolutions: dict[int, Resolution]) -> dict[int, tuple[AtomicMerge, ...]]:
        """What stays pending, by slot; it is taken out of the resolutions."""
        found = {}
        for slot, resolution in resolutions.items():
            if self.options.pending and resolution.merges and not resolution.apart:
                found[slot] = resolution.merges
                resolutions[slot] = replace(resolution, merges=())
        return found

    def _resolve(self, slot: int, footprints: Sequence[Footprint]) -> Resolution:
        if self.states[slot].fine:
            return resolve_apart(footprints, in_place=self.request.in_place)
        return resolve(footprints, trust_exact=self.options.trust_exact)

    def _rate(self, candidate: _Candidate, limit: float) -> None:
        """Fill in what the candidate would move; not to the end where that is more than `limit`."""
        candidate.cost, candidate.nruns = 0.0, 0
        candidate.incoming, candidate.incoming_runs = (
            [0.0] * len(candidate.workers),
            [0] * len(candidate.workers),
        )
        candidate.from_workers = 0
        if self.options.compute_cost is not None:
            candidate.cost = self.options.compute_cost(candidate.partition.largest, len(candidate.workers))
        for slot, resolution in candidate.resolutions.items():
            state = self.states[slot]
            for chunk, needs in enumerate(resolution.needs):
                self._add_incoming(candidate, state, chunk, needs)
                if candidate.cost > limit:
                    return
            if merges_on(resolution, candidate.workers, self.options.links):
                self._add_merges_on_workers(candidate, state, resolution)
                continue
            if resolution.diff:
                # The twin at home; what is fetched is in all likelihood needed again where it was.
                self._add_missing(candidate, state, HOST, resolution.diff)
                self._add_merge(candidate, resolution.diff_parts, refetched=True)
            for merge in resolution.merges:
                self._add_missing(candidate, state, HOST, merge.region)
                self._add_merge(candidate, merge.parts, refetched=False)
            if candidate.cost > limit:
                return
        self._add_reductions(candidate)
        self._add_readings(candidate)

    def _add_readings(self, candidate: _Candidate) -> None:
        """What later launches will bring of what this one leaves."""
        for slot, readings in self.request.readings.items():
            if slot in candidate.resolutions:
                resolution, links = candidate.resolutions[slot], self.options.links
                for reading in readings:
                    candidate.cost += cost_of_reading(reading, candidate.workers, resolution, links)

    def _add_reductions(self, candidate: _Candidate) -> None:
        """Parts that do not exist yet will have to be folded some time."""
        links = self.options.links
        for slot, reductions in candidate.reductions.items():
            near = links.merge_on(candidate.workers)
            for merge in reductions:
                parts = [
                    missing_parts(self.states[slot], worker, merge, part)
                    for worker, part in zip(candidate.workers, merge.parts, strict=True)
                ]
                if not near:
                    self._add_merge(candidate, parts, refetched=False)
                    continue
                first = candidate.workers[0]
                for worker, part in zip(candidate.workers[1:], parts[1:], strict=True):
                    candidate.cost += links.per_byte[worker][first] * part.nbytes
                    candidate.cost += len(part) * links.per_run

    def _add_merges_on_workers(
        self, candidate: _Candidate, state: BufferState, resolution: Resolution
    ) -> None:
        """Each version goes to the workers that merge its blocks, but for the block of its own worker."""
        for item in combinations(resolution, candidate.workers, self.options.links):
            count = len(item.sites)
            for index, block in item.sites:
                target = candidate.workers[index]
                self._add_incoming(candidate, state, index, block)
                for other, part in zip(candidate.workers, item.parts, strict=True):
                    # Not the exact share, which would cost an intersection for each pair.
                    if other != target:
                        cost = self.options.links.per_byte[other][target]
                        candidate.cost += cost * part.nbytes / count
                        candidate.cost += len(part) / count * self.options.links.per_run

    def _add_incoming(self, candidate: _Candidate, state: BufferState, chunk: int, region: Region) -> None:
        target = candidate.workers[chunk]
        nruns = candidate.nruns
        candidate.incoming[chunk] += self._add_missing(candidate, state, target, region)
        candidate.incoming_runs[chunk] += candidate.nruns - nruns

    def _add_missing(self, candidate: _Candidate, state: BufferState, target: int, region: Region) -> float:
        """The bytes of `region` that have to come to `target` from elsewhere, each over the cheapest link. Returns
        their cost, without that of their runs.
        """
        missing = region - state.valid_at(target)
        added = 0.0
        if not missing:
            return added
        costs = self.options.links.per_byte
        for source, held in sorted(state.near(missing), key=lambda item: costs[item[0]][target]):
            if source == target:
                continue
            piece = missing & held
            if piece:
                added += piece.nbytes * costs[source][target]
                candidate.cost += piece.nruns * self.options.links.per_run
                candidate.nruns += piece.nruns
                if HOST not in (source, target):
                    candidate.from_workers += piece.nbytes
                missing = missing - piece
                if not missing:
                    break
        candidate.cost += added
        return added

    def _add_merge(self, candidate: _Candidate, parts: Sequence[Region], *, refetched: bool) -> None:
        costs = self.options.links.per_byte
        for worker, part in zip(candidate.workers, parts, strict=True):
            back = costs[HOST][worker] if refetched else 0.0
            candidate.cost += part.nbytes * (costs[worker][HOST] + back + MERGE_WEIGHT)
            candidate.cost += len(part) * self.options.links.per_run
            candidate.nruns += len(part)


def _reserve(
    builder: PlanBuilder, request: LaunchRequest, chosen: _Candidate, merging: Mapping[int, Merging]
) -> None:
    """Replicas over everything that each chunk touches and its worker merges.

    An argument that is not touched still needs some allocation to point to.
    """
    anywhere = {pointer.slot: pointer.offset for pointer in reversed(request.args)}
    for chunk, (worker, footprints) in enumerate(zip(chosen.workers, chosen.footprints, strict=True)):
        for slot, footprint in footprints.items():
            draft = builder.drafts[slot]
            if request.in_place and draft.before.fine:
                continue
            bounds = (0, draft.nbytes) if request.whole_replicas else footprint.bounds()
            for block in merging[slot].blocks(chunk) if slot in merging else ():
                low, high = bounds or (block.start, block.stop)
                bounds = (min(low, block.start), max(high, block.stop))
            if bounds is None:
                if worker in draft.replicas:
                    continue
                start = min(anywhere[slot], draft.nbytes - 1)
                bounds = (start, start + 1)
            builder.reserve(slot, worker, *bounds)


def _supply(builder: PlanBuilder, slot: int, chosen: _Candidate) -> None:
    """Bring to each worker what must be valid there and is not."""
    resolution = chosen.resolutions[slot]
    _scatter(builder, slot, chosen)
    for worker, needs in zip(chosen.workers, resolution.needs, strict=True):
        if needs:
            builder.make_valid(slot, worker, needs)


def _scatter(builder: PlanBuilder, slot: int, chosen: _Candidate) -> None:
    """Bytes that several workers need and only the home has: each brings a part of them over its own link.

    What the others brought it gets from them afterwards (`make_valid`), where that is cheaper than the link.
    """
    draft, links = builder.drafts[slot], builder.links
    home = draft.valid_at(HOST)
    if draft.nbytes < links.large_nbytes or not home:
        return
    wanted = {
        worker: missing
        for worker, needed in zip(chosen.workers, chosen.resolutions[slot].needs, strict=True)
        if worker in links.direct and (missing := (needed - draft.valid_at(worker)) & home)
    }
    # Mostly nobody wants what another one wants: who else has it need not be looked at.
    if len(wanted) < 2 or not covered_twice(tuple(wanted.values())):
        return
    if any(held for holder, held in draft.valid.items() if holder != HOST):
        at_home = draft.held_alone(HOST, Region.union(wanted.values()))
        wanted = {worker: part for worker, missing in wanted.items() if (part := missing & at_home)}
        if len(wanted) < 2 or not covered_twice(tuple(wanted.values())):
            return
    for worker, part in list(share(Region.union(wanted.values()), wanted)):
        builder.make_valid(slot, worker, part)


def _run_chunks(builder: PlanBuilder, request: LaunchRequest, chosen: _Candidate) -> None:
    """One launch for each worker."""
    at_home = {slot for slot, draft in enumerate(builder.drafts) if request.in_place and draft.before.fine}
    for worker, chunk, footprints in zip(
        chosen.workers, chosen.partition.chunks, chosen.footprints, strict=True
    ):
        bases, homes = [], []
        for pointer in request.args:
            if pointer.slot in at_home:
                homes.append((pointer.arg, pointer.slot, pointer.offset))
                continue
            start, _ = builder.drafts[pointer.slot].replicas[worker]
            bases.append((pointer.arg, pointer.slot, start - pointer.offset))
        touches = []
        for slot, footprint in footprints.items():
            changes, holder = footprint.changes, HOST if slot in at_home else worker
            if footprint.reads:
                touches.append(Touch(slot, holder, footprint.reads, False))
            if changes:
                touches.append(Touch(slot, holder, changes, True))
        builder.launch(Launch(worker, chunk, tuple(bases), tuple(homes)), touches)


def _settle_owners(builder: PlanBuilder, slot: int, chosen: _Candidate) -> None:
    """What a chunk alone has written is valid at its worker and nowhere else."""
    builder.drafts[slot].own_each(list(zip(chosen.workers, chosen.resolutions[slot].owns, strict=True)))


def _why_merged(chosen: _Candidate, slot: int) -> list[str]:
    """What has to be said about the merges in one buffer."""
    resolution = chosen.resolutions[slot]
    reasons = []
    if resolution.diff:
        reasons.append(_why_diff(resolution, [footprints[slot] for footprints in chosen.footprints]))
    for merge in resolution.merges:
        reasons.append(f"{merge.region.nbytes} bytes merged by atomic {merge.op}")
    for merge in chosen.reductions.get(slot, ()):
        reasons.append(
            f"{merge.region.nbytes} bytes merged by atomic {merge.op} once something else uses them"
        )
    return reasons


def _why_diff(resolution: Resolution, footprints: Sequence[Footprint]) -> str:
    """Which argument's writes could not be told apart, and why analysis could not."""
    what = f"{resolution.diff.nbytes} bytes that several chunks may write are compared with a twin"
    if resolution.apart:
        what = f"{resolution.diff.nbytes} bytes of fine-grain memory that may be written are compared with a twin"
    for footprint in footprints:
        for source in footprint.sources:
            if source.mode == "write" and not source.exact:
                return format_reason(f"{argument_name(source)}: {what}", source.reason, source.line)
    return what
