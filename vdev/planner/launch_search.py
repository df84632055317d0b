"""Which way a launch runs: how it is cut, and on which workers its chunks run (PPoPP'11 sections 3.2 to 3.4).

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

Never looks at a kernel's source, and writes no instruction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, product
from math import inf, prod

from vdev.planner.assignment import Share, assign_chunks, order_of_data
from vdev.planner.balance import Recut, cut_at
from vdev.planner.candidates import MORE_RUNS, Candidate, Candidates
from vdev.planner.directory import HOST, BufferState
from vdev.planner.footprints import Unmergeable
from vdev.planner.launch_request import LaunchOptions, LaunchRequest
from vdev.planner.merges import combinations
from vdev.planner.partitioner import Partition, all_partitions, make_partition, widest_partitions
from vdev.planner.successors import cuts_in_stripes, lying_in_stripes
from vdev.translators.ranges.region import Region
from vdev.translators.values import replace

FEWER = (
    "on fewer workers than available: on more of them, launches on these buffers took longer, or would take longer"
    " (VDEV_PLANNING)"
)

#: seconds of transfers that a cut of a small launch has to save: several times what it takes to hand it over to another worker
SMALL_SAVES = 2e-4

#: what workers have to get from each other in all before another order of theirs is looked for: a copy of less
#: takes no longer than to ask for it
REORDER_NBYTES = 64 << 10

#: by so small a part of what every cut has to move, a cut moves hardly more (and by no more than `MORE_RUNS`)
HARDLY_MORE = 0.125

#: workers from which on it pays to find out which cut to look at first
MANY_WORKERS = 8

#: cuts beside the first one from which on the most promising is looked at next
MANY_CUTS = 8

#: work-items that a compute unit of a GPU runs as fast as a single one: a warp of 32 on each of its four schedulers
ITEMS_PER_UNIT = 128


def runs_at_once(ngroups: int, nitems: int, units: int) -> bool:
    """Whether one worker of so many compute units runs so many work-groups at once, at full speed: a part of them takes as long."""
    return ngroups <= units or nitems <= units * ITEMS_PER_UNIT


class Search:
    """The choice of one candidate. `reasons` tells why it is not a cut over all workers."""

    def __init__(self, states: Sequence[BufferState], request: LaunchRequest, options: LaunchOptions) -> None:
        self.states = states
        self.request = request
        self.options = options
        self.reasons: list[str] = []
        self.recut: float | None = None  #: as in `Plan`
        self._candidates = Candidates(states, request, options)
        #: by slot, how buffers lie in stripes
        self._lying = lying_in_stripes(states) if request.in_turn else {}

    def run(self) -> Candidate:
        """The candidate to take."""
        uncut = self._uncut()
        if uncut is not None:
            return uncut
        groups, options = self.request.ndrange.num_groups, self.options
        available = len(options.workers)
        striped = self.request.readings or self._lying
        usual = None if striped or options.cuts is not None else self._usual()
        if usual is not None:
            self.reasons = self._on_fewer(usual)
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
            why = "later launches read them" if self.request.readings else "its data lies"
            self.reasons.append(f"cut into blocks of {blocks} work-groups in turn, as {why}")
        else:
            best = self._in_best_order(best)
        # On fewer than all workers it is the usual cut of launches that have a work-group for each of these and no other.
        usual_for_all = len(best.workers) == available or best.partition.cuts == groups
        if self.request.habits is not None and not striped and usual_for_all:
            self.request.habits.learn(groups, options.workers, best.partition.cuts, best.workers, best.cost)
        self.reasons += self._on_fewer(best)
        return best

    def _on_fewer(self, chosen: Candidate) -> list[str]:
        """Why a cut is not one over all workers."""
        found, available = [], len(self.options.workers)
        if len(chosen.workers) < available:
            timed = self.options.compute_cost is not None
            ngroups = prod(self.request.ndrange.num_groups)
            why = "by the kernel's estimated time" if timed else f"for {ngroups} work-groups"
            found.append(f"{len(chosen.workers)} of {available} workers {why}")
        return [*found, FEWER] if self.options.fewer else found

    def _uncut(self) -> Candidate | None:
        """The candidate where cuts are not compared for their own sake: on one worker, or on those that have the data."""
        if len(self.options.workers) == 1:
            return self._on_one_worker()
        self.reasons = self._against_cutting()
        if self.reasons:
            return self._on_one_worker()
        self.reasons = self._too_small()
        return self._where_its_data_is(self._on_one_worker()) if self.reasons else None

    def _where_its_data_is(self, alone: Candidate) -> Candidate:
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

    def balanced(self, chosen: Candidate) -> Candidate:
        """The candidate with its cuts moved to where its chunks should take equal times; the candidate itself if that
        gains nothing.
        """
        balance, unit = self.request.balance, self.options.seconds_per_cost
        if balance is None or not unit > 0 or len(chosen.workers) < 2 or chosen.unfolded:
            return chosen
        groups, of_work = self.request.ndrange.num_groups, (self.request.work, self.request.work_depends)
        best: Candidate | None = None
        by = ""
        # The order that is best for even chunks may bring others far from where their data lies.
        for workers in dict.fromkeys((chosen.workers, self.options.workers[: len(chosen.workers)])):
            recut = balance.find(groups, chosen.partition, workers, *of_work)
            found = None if recut is None else self._moved(chosen, recut, workers)
            if found is None or recut is None or (found.cost - chosen.cost) * unit > recut.worth:
                continue
            if best is None or found.cost < best.cost:
                best, by = found, recut.by
        if best is None:
            return chosen
        self.recut = max(best.cost - chosen.cost, 0.0) * unit
        parts = ", ".join(f"{chunk.ngroups / prod(groups):.0%}" for chunk in best.partition.chunks)
        self.reasons.append(f"cut by {by}, into {parts} of its work-groups")
        return best

    def _moved(self, chosen: Candidate, recut: Recut, workers: tuple[int, ...]) -> Candidate | None:
        """The candidate with its cuts there, and its chunks on these workers. None where these have nothing to merge it with."""
        groups = self.request.ndrange.num_groups
        try:
            found = self._candidates.of(cut_at(groups, chosen.partition, recut.edges), workers)
        except Unmergeable:
            return None
        self._candidates.rate(found, inf)
        return None if found.unfolded else found

    def _usual(self) -> Candidate | None:
        """The cut that launches of the kernel had before, with its chunks where they were; None if all cuts have to
        be compared.
        """
        groups, options = self.request.ndrange.num_groups, self.options
        habits, habit = self.request.habits, None
        if habits is not None and options.compute_cost is None:
            habit = habits.find(groups, options.workers)
        if (
            habits is None
            or habit is None
            or any(parts > count for parts, count in zip(habit.cuts, groups, strict=True))
        ):
            return None
        try:
            found = self._candidates.of(make_partition(groups, habit.cuts), habit.workers)
        except Unmergeable:
            return None
        self._candidates.rate(found, inf)
        return found if habits.allows(habit, found.cost) else None

    def _best_cut(self, available: int) -> tuple[Candidate | None, list[str]]:
        """As of `_cheapest`, of all cuts for so many workers."""
        found = self._one_of_late()
        if found is not None:
            return found, []
        options, groups = self.options, self.request.ndrange.num_groups
        table = options.cuts or (widest_partitions if options.compute_cost is None else all_partitions)
        return self._cheapest([cut for cut in table(groups, available) if len(cut.chunks) > 1])

    def _one_of_late(self) -> Candidate | None:
        """One of several cuts that were the best in turn, if nothing has to move for it: others need not be looked at."""
        request, options, groups = self.request, self.options, self.request.ndrange.num_groups
        if request.habits is None or request.readings or options.cuts is not None or options.compute_cost:
            return None
        for cuts in request.habits.recent(groups, options.workers):
            if any(parts > count for parts, count in zip(cuts, groups, strict=True)):
                continue
            try:
                found = self._candidates.of(make_partition(groups, cuts), options.workers)
            except Unmergeable:
                continue
            self._candidates.rate(found, 0.0)
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

    def _cheapest(self, table: Sequence[Partition]) -> tuple[Candidate | None, list[str]]:
        """The best of the table, or None and why each partition cannot be.

        Where data lies in blocks in another order than that of the workers, that order is tried first: a cut
        along the blocks must not seem dear because of it.
        """
        best: Candidate | None = None
        refusals: list[str] = []
        best_place = 0
        for place, partition, workers in self._most_promising_first(table):
            workers = workers[: len(partition.chunks)]
            if best is not None and self._candidates.is_dearer(partition, workers, best):
                continue
            try:
                found = self._candidates.of(partition, workers)
            except Unmergeable as refusal:
                if str(refusal) not in refusals:
                    refusals.append(str(refusal))
                continue
            self._candidates.rate(found, inf if best is None else best.cost)
            if best is None or (found.cost, found.nruns, place) < (best.cost, best.nruns, best_place):
                best, best_place = found, place
            if best.cost == 0:  # nothing can be cheaper, and the remaining ones are less preferred
                break
            if found is best and self._moves_no_more_than_any(found):
                break
        return best, refusals

    def _most_promising_first(
        self, table: Sequence[Partition]
    ) -> Iterator[tuple[int, Partition, tuple[int, ...]]]:
        """The table with each order of workers, and what else may be taken; each with its place in the order of preference. Where
        each worker would need something of most others, which takes long to look at, what comes first is told by first chunks:
        another cut may move nothing.
        """
        states, workers = self.states, self.options.workers
        orders = dict.fromkeys((order_of_data(states, workers, self.options.links), workers))
        pairs = list(product(table, orders))
        order: Sequence[int] = range(len(pairs))
        spread = len(workers) >= MANY_WORKERS and any(len(state.valid) > 2 for state in states)
        known = 0 if spread and len(pairs) > 1 and self._candidates.asks_most(*pairs[0]) else 1
        for place in order[:known]:
            yield place, *pairs[place]
        if known == 0 or len(pairs) > MANY_CUTS:
            least = {place: self._candidates.least(*pairs[place]) for place in order[known:]}
            order = [*order[:known], *sorted(least, key=least.__getitem__)]
        for place in order[known:]:
            yield place, *pairs[place]
        for place, pair in enumerate(self._in_stripes(), len(pairs)):
            yield place, *pair

    def _in_stripes(self) -> Iterator[tuple[Partition, tuple[int, ...]]]:
        """Cuts that leave bytes in the stripes in which they are read later, or find them in those in which they lie."""
        request = self.request
        given = request.args, request.ndrange, request.evaluate
        for readings, reads in ((request.readings, False), (self._lying, True)):
            for partition, workers in cuts_in_stripes(readings, *given, reads=reads) if readings else ():
                if set(workers) <= set(self.options.workers):
                    yield partition, workers

    def _moves_no_more_than_any(self, found: Candidate) -> bool:
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

    def _in_best_order(self, found: Candidate) -> Candidate:
        """The candidate with its chunks on the workers that `assignment` gives them."""
        usual = self.options.workers[: len(found.workers)]
        if found.workers != usual and len(usual) > 1:
            found = replace(found, workers=usual)
            self._candidates.rate(found, inf)
        if found.from_workers < REORDER_NBYTES or len(usual) == 1:
            return found  # and what comes from the host comes so to any worker
        shares = [Share(incoming, self._parts(found, chunk)) for chunk, incoming in enumerate(found.incoming)]
        workers = assign_chunks(shares, usual, self.options.workers, self.options.links)
        if workers == usual:
            return found
        other = replace(found, workers=workers)
        self._candidates.rate(other, inf)
        # Rated by all that counts: runs, and what comes from where.
        return other if self._waits(other) <= self._waits(found) else found

    def _waits(self, candidate: Candidate) -> tuple[int, int]:
        """What the slowest worker waits for, and what all of them do; whole, as sums of parts that are equal."""
        pairs = zip(candidate.incoming, candidate.incoming_runs, strict=True)
        costs = [cost + nruns * self.options.links.per_run for cost, nruns in pairs]
        return round(max(costs)), round(sum(costs))

    def _parts(self, candidate: Candidate, chunk: int) -> tuple[tuple[BufferState, Region, Region], ...]:
        """By slot, what the worker of a chunk needs and what it alone holds afterwards."""
        parts = []
        for slot, resolution in candidate.resolutions.items():
            needs, owns = resolution.needs[chunk], resolution.owns[chunk]
            for item in combinations(resolution, candidate.workers, self.options.links):
                merged = Region.union(block for index, block in item.sites if index == chunk)
                needs, owns = needs | merged, owns | merged
            parts.append((self.states[slot], needs, owns))
        return tuple(parts)

    def _on_one_worker(self) -> Candidate:
        """All work-groups on the worker to which the least has to be moved, the first of several."""
        groups = self.request.ndrange.num_groups
        partition = make_partition(groups, (1,) * len(groups))
        best: Candidate | None = None
        for worker in self.options.workers:
            found = self._candidates.of(partition, (worker,))
            self._candidates.rate(found, inf if best is None else best.cost)
            if best is None or found.cost < best.cost:
                best = found
            if best.cost == 0:
                break
        assert best is not None, "there is a worker"
        return best
