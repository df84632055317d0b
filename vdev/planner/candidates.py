"""Ways to run a launch that are compared with one another: which bytes each chunk needs and leaves, and what would move.

Decides what a candidate costs, given who holds what; which one is taken is `vdev.planner.launch_search`'s affair.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import field
from math import inf

from vdev.planner.directory import HOST, BufferState
from vdev.planner.footprints import AtomicMerge, Footprint, Resolution, gather, resolve, resolve_apart
from vdev.planner.launch_request import LaunchOptions, LaunchRequest
from vdev.planner.merges import combinations, merges_on
from vdev.planner.partitioner import Partition
from vdev.planner.pending import launch_stands_against, missing_parts
from vdev.planner.spreads import Spread, spread_of
from vdev.planner.successors import cost_of_reading
from vdev.planner.tidying import are_fitting, few_boxes, fitted
from vdev.translators.ranges.ndrange import Chunk
from vdev.translators.ranges.region import Region
from vdev.translators.values import dataclass, replace

#: the cost to the host of a merged byte, besides its transfers, relative to a transferred byte
MERGE_WEIGHT = 1.0

#: a cut that moves hardly more than every cut has to is taken without a look at others: by no more than so many runs cost, as another
#: cut through rows would have
MORE_RUNS = 1024
#: where these are more than so small a part of what moves, two chunks do not tell of the others: runs cost as much as bytes
HARDLY_LESS = 1 / 64
#: chunks of a cut that tell of all others, evenly among them, where there are twice as many; and the part of what the best one so far
#: moves that another one has to save then: to look at each of so many chunks takes long
SAMPLES, SAVES = 8, 1 / 32


@dataclass(slots=True)
class Candidate:
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
    merged: float = 0.0  #: the part of the cost that is what several chunks may write


class Candidates:
    """The candidates of one launch: made once for each cut, and rated by what they would move."""

    def __init__(self, states: Sequence[BufferState], request: LaunchRequest, options: LaunchOptions) -> None:
        self.states = states
        self.request = request
        self.options = options
        #: by cut: what follows from it is the same on whichever workers its chunks run
        self._by_cut: dict[Hashable, Candidate] = {}
        self._first: dict[Chunk, dict[int, Footprint]] = {}  #: of chunks that were looked at alone, by slot

    def of(self, partition: Partition, workers: tuple[int, ...]) -> Candidate:
        """The cut with its chunks on these workers, not rated yet. Raises Unmergeable."""
        cut = (partition.cuts, partition.edges, partition.cycle)
        found = self._by_cut.get(cut)
        if found is None:
            found = self._by_cut[cut] = self._resolved(partition, workers)
            return found
        same = found.footprints, found.resolutions, found.reductions, found.unfolded
        return Candidate(found.partition, workers, *same)

    def is_dearer(self, partition: Partition, workers: tuple[int, ...], best: Candidate) -> bool:
        """Whether it shows at some of its chunks, as far as they alone tell, that a cut costs more than the best one so far, or hardly
        less. To look at what becomes of all chunks takes much longer.

        Where nothing that they read is on a worker yet, as before a program's first launches, what has to come for the first chunk and
        for the last one tells of those between them: all cuts have to move about the same. Where there are many chunks, some of them tell
        of all.
        """
        if best.cost == inf or (partition.cuts, partition.edges, partition.cycle) in self._by_cut:
            return False
        count = len(partition.chunks)
        limit = best.cost - self._merged_as_well(partition, best)
        less = MORE_RUNS * self.options.links.per_run
        at_home = less <= HARDLY_LESS * limit and self._reads_from_home(partition)
        enough = limit - less if at_home else limit
        first, last = 1, 2 if at_home else count  # it is decided after as many chunks
        if count >= 2 * SAMPLES:
            enough = min(enough, limit - SAVES * best.cost)
            first = last = SAMPLES // 2 if at_home else SAMPLES
        cost = 0.0
        for seen, number in enumerate(_looked_at(count), 1):
            for _, of_piece in self._pieces_read(partition, workers, number):
                cost += of_piece
                if cost > limit:
                    return True
            if seen >= first and cost * count <= enough * seen:
                return False  # the others would have to cost more than these
            if seen >= last:
                return at_home or last < count
        return False

    def _reads_from_home(self, partition: Partition) -> bool:
        """Whether a cut's first chunk needs nothing of which any worker has anything."""
        return all(
            holder == HOST
            for slot, footprint in self._chunk_alone(partition.chunks[0]).items()
            for holder, _ in (self.states[slot].valid if _found_first(footprint) else ())
        )

    def _merged_as_well(self, partition: Partition, best: Candidate) -> float:
        """What the best cut merges, and another one too: its first and its last chunk may write all of it, as each of the best one's."""
        if not best.merged or len(partition.chunks) != len(best.workers):
            return 0.0
        ends = [self._chunk_alone(partition.chunks[number]) for number in (0, -1)]
        for slot, resolution in best.resolutions.items():
            if resolution.merges or any(part != resolution.diff for part in resolution.diff_parts):
                return 0.0
            if not all(of_end[slot].inexact.contains(resolution.diff) for of_end in ends):
                return 0.0
        return best.merged

    def _chunk_alone(self, chunk: Chunk) -> dict[int, Footprint]:
        """By slot, what a chunk touches that is looked at before what becomes of all."""
        if chunk not in self._first:
            self._first[chunk] = self._footprints(chunk)
        return self._first[chunk]

    def least(self, partition: Partition, workers: tuple[int, ...]) -> float:
        """What a cut costs at least: what a first chunk alone reads and its worker has not is moved for any resolution."""
        return sum([of_piece for _, of_piece in self._pieces_read(partition, workers, 0)])

    def asks_most(self, partition: Partition, workers: tuple[int, ...]) -> bool:
        """Whether a first chunk needs something of most other workers."""
        asked = {source for source, _ in self._pieces_read(partition, workers, 0)} - {HOST}
        return 2 * len(asked) >= len(partition.chunks)

    def _pieces_read(
        self, partition: Partition, workers: tuple[int, ...], number: int
    ) -> Iterator[tuple[int, float]]:
        """What a chunk needs and its worker has not: from whom, and what it costs to move; with its runs, where all that the chunk
        needs is what it reads, as it is.
        """
        for slot, footprint in self._chunk_alone(partition.chunks[number]).items():
            state = self.states[slot]
            if state.fine:  # which may be used where it is
                continue
            reads = few_boxes(_found_first(footprint), len(partition.chunks))
            alone = not footprint.inexact and not footprint.atomics and are_fitting((footprint,), state)
            per_run = self.options.links.per_run if alone else 0.0
            for source, piece, cost in self._pieces(state, workers[number], reads):
                yield source, cost + piece.nruns * per_run if per_run else cost

    def _footprints(self, chunk: Chunk) -> dict[int, Footprint]:
        found = (
            self._first.get(chunk) if self._first else None
        )  # traced numbers are no keys: nothing is there
        if found is not None:
            return found
        return gather(self.request.args, self.request.evaluate(chunk), in_few=True)

    def _resolved(self, partition: Partition, workers: tuple[int, ...]) -> Candidate:
        footprints = [self._footprints(chunk) for chunk in partition.chunks]
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
        return Candidate(partition, workers, footprints, resolutions, reductions, unfolded)

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

    def rate(self, candidate: Candidate, limit: float) -> None:
        """Fill in what the candidate would move; not to the end where that is more than `limit`."""
        candidate.cost, candidate.nruns = 0.0, 0
        candidate.incoming, candidate.incoming_runs = (
            [0.0] * len(candidate.workers),
            [0] * len(candidate.workers),
        )
        candidate.from_workers, candidate.merged = 0, 0.0
        if self.options.compute_cost is not None:
            candidate.cost = self.options.compute_cost(candidate.partition.largest, len(candidate.workers))
        for slot, resolution in candidate.resolutions.items():
            state = self.states[slot]
            spread = spread_of(state, resolution.needs)
            for chunk, needs in enumerate(resolution.needs):
                self._add_incoming(candidate, state, chunk, needs, limit, spread)
                if candidate.cost > limit:
                    return
            before = candidate.cost
            self._add_merges(candidate, state, resolution)
            candidate.merged += candidate.cost - before
            if candidate.cost > limit:
                return
        self._add_reductions(candidate)
        self._add_readings(candidate)

    def _add_merges(self, candidate: Candidate, state: BufferState, resolution: Resolution) -> None:
        """What becomes of bytes of one buffer that several chunks may write."""
        if merges_on(resolution, candidate.workers, self.options.links):
            self._add_merges_on_workers(candidate, state, resolution)
            return
        if resolution.diff:
            # The twin at home; what is fetched is in all likelihood needed again where it was.
            self._add_missing(candidate, state, HOST, resolution.diff)
            self._add_merge(candidate, resolution.diff_parts, refetched=True)
        for merge in resolution.merges:
            self._add_missing(candidate, state, HOST, merge.region)
            self._add_merge(candidate, merge.parts, refetched=False)

    def _add_readings(self, candidate: Candidate) -> None:
        """What later launches will bring of what this one leaves."""
        for slot, readings in self.request.readings.items():
            if slot in candidate.resolutions:
                resolution, links = candidate.resolutions[slot], self.options.links
                for reading in readings:
                    candidate.cost += cost_of_reading(reading, candidate.workers, resolution, links)

    def _add_reductions(self, candidate: Candidate) -> None:
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
        self, candidate: Candidate, state: BufferState, resolution: Resolution
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

    def _add_incoming(
        self,
        candidate: Candidate,
        state: BufferState,
        chunk: int,
        region: Region,
        limit: float = inf,
        spread: Spread | None = None,
    ) -> None:
        """`spread`: what lies apart with many of `region`, where that is what all chunks need."""
        target = candidate.workers[chunk]
        nruns = candidate.nruns
        if spread is None:
            added = self._add_missing(candidate, state, target, region, limit)
        else:
            added, candidate.cost, more, nbytes = spread.lacking(target, self.options.links, candidate.cost)
            candidate.cost += added
            candidate.nruns += more
            candidate.from_workers += nbytes
        candidate.incoming[chunk] += added
        candidate.incoming_runs[chunk] += candidate.nruns - nruns

    def _add_missing(
        self, candidate: Candidate, state: BufferState, target: int, region: Region, limit: float = inf
    ) -> float:
        """The bytes of `region` that have to come to `target` from elsewhere, each over the cheapest link; not to the end where
        the candidate costs more than `limit`. Returns their cost, without that of their runs.
        """
        added, of_runs, nruns, from_workers = 0.0, candidate.cost, 0, 0
        per_run = self.options.links.per_run
        for source, piece, cost in self._pieces(state, target, region):
            added += cost
            of_piece = piece.nruns
            of_runs += of_piece * per_run
            nruns += of_piece
            if source != HOST and target != HOST:
                from_workers += piece.nbytes
            if of_runs + added > limit:
                break
        candidate.cost = of_runs + added
        candidate.nruns += nruns
        candidate.from_workers += from_workers
        return added

    def _pieces(self, state: BufferState, target: int, region: Region) -> Iterator[tuple[int, Region, float]]:
        """What of `region` has to come to `target`: from whom, which bytes, and their cost without that of their runs."""
        missing = region - state.valid_at(target)
        if not missing:
            return
        costs = self.options.links.per_byte
        for source, held in sorted(state.near(missing), key=lambda item: costs[item[0]][target]):
            if source == target:
                continue
            piece = missing & held
            if piece:
                yield source, piece, piece.nbytes * costs[source][target]
                missing = missing - piece
                if not missing:
                    break

    def _add_merge(self, candidate: Candidate, parts: Sequence[Region], *, refetched: bool) -> None:
        costs = self.options.links.per_byte
        for worker, part in zip(candidate.workers, parts, strict=True):
            back = costs[HOST][worker] if refetched else 0.0
            candidate.cost += part.nbytes * (costs[worker][HOST] + back + MERGE_WEIGHT)
            candidate.cost += len(part) * self.options.links.per_run
            candidate.nruns += len(part)


def _looked_at(count: int) -> Iterator[int]:
    """The numbers of so many chunks, of which the first ones lie evenly among all.

    >>> list(_looked_at(5)), list(_looked_at(16))[:8]
    ([0, 4, 1, 2, 3], [0, 15, 2, 4, 6, 8, 10, 12])
    """
    step = max(count // SAMPLES, 1)
    yield from (0, count - 1)
    for first in range(step):
        yield from range(first or step, count - 1, step)


def _found_first(footprint: Footprint) -> Region:
    """What a chunk has to find in a buffer, as far as it alone tells: what it reads, and what it may write of one that no chunk is seen
    to write for sure, and so have the last word on.
    """
    return footprint.reads if footprint.exact else footprint.reads | footprint.inexact
