"""Pending reductions: commuting atomics that each worker has carried out on a part of its own, folded when somebody looks.

After a launch whose chunks change the same bytes by atomics of one kind, each worker keeps what its chunk has made of
the operation's identity; one of them began with what the bytes held. More launches of the kind go on from there, and
nothing moves. Decides what a launch needs for that (`Reducing`), which commands have to have the parts folded before
(`stands_against`), and how that is done (`plan_fold`), as a plan of its own: a command that fails, or waits for another
one, has nothing to do with what earlier launches have left. What is overwritten is dropped (`Draft.forget`).

The operations are associative and commutative on integers, so that every order of folding gives the same bytes. Sums of
floating-point numbers are rounded in another order, as they are where parts are merged after each launch.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vdev.planner.builder import PlanBuilder
from vdev.planner.directory import HOST, BufferState, Pending
from vdev.planner.footprints import AtomicMerge, Resolution
from vdev.planner.instructions import Plan
from vdev.planner.links import LinkCosts
from vdev.planner.merges import identity_of, sites_of
from vdev.translators.ranges.grain import BYTES
from vdev.translators.ranges.region import EMPTY, Region


class Unfolded(Exception):
    """A launch needs pending bytes of these slots: they have to be folded before it is planned."""

    def __init__(self, slots: tuple[int, ...]) -> None:
        super().__init__(f"pending reductions in slots {slots}")
        self.slots = slots


def stands_against(state: BufferState, used: Region, replaced: Region) -> bool:
    """Whether pending bytes have to be folded before a command for which the bytes `used` of a buffer have to be what
    they are, and which gives those of `replaced` a new content whatever they were.
    """
    for item in state.pending:
        region = item.region
        gone = region & replaced
        if region.overlaps(used) or gone.whole(np.dtype(item.dtype).itemsize) != gone:
            return True
    return False


def launch_stands_against(
    state: BufferState, resolution: Resolution, reductions: Sequence[AtomicMerge]
) -> bool:
    """The same for a launch, which adds to pending bytes where `reductions` are of their kind."""
    used = Region.union((*resolution.needs, resolution.diff))
    if stands_against(state, used, Region.union(resolution.owns) - used):
        return True
    return any(
        item.region.overlaps(merge.region)
        for item in state.pending
        for merge in (*reductions, *resolution.merges)
        if merge in resolution.merges or (item.op, item.dtype) != (merge.op, merge.dtype)
    )


class Reducing:
    """What one launch does to one buffer by commuting atomics whose parts stay with the workers, by chunk `workers`."""

    def __init__(
        self, builder: PlanBuilder, slot: int, workers: Sequence[int], reductions: Sequence[AtomicMerge]
    ) -> None:
        self._builder = builder
        self._slot = slot
        self._workers = workers
        self._reductions = reductions
        self._parts: list[dict[int, Region]] = []

    def prepare(self) -> None:
        """Before the launch: who begins with what bytes held; the identity everywhere else. The replicas are there."""
        draft = self._builder.drafts[self._slot]
        for merge in self._reductions:
            there = draft.pending.get((merge.op, merge.dtype), {})
            bases = self._bases(merge, merge.region - Region.union(there.values()))
            for worker, part in zip(self._workers, merge.parts, strict=True):
                fresh = part - there.get(worker, EMPTY) - bases.get(worker, EMPTY)
                self._builder.fill(self._slot, worker, fresh, identity_of(merge.op, merge.dtype))
                bases[worker] = bases.get(worker, EMPTY) | part
            self._parts.append(bases)

    def _bases(self, merge: AtomicMerge, new: Region) -> dict[int, Region]:
        """By holder, the bytes of `new` for which its part begins with their earlier content: where they are, or
        where waiting for them takes least.

        What lies at home stays there if that is where parts are folded.
        """
        builder, size = self._builder, np.dtype(merge.dtype).itemsize
        draft = builder.drafts[self._slot]
        bases: dict[int, Region] = {}
        able = dict(zip(self._workers, merge.parts, strict=True))
        if not builder.links.merge_on(self._workers):
            able |= {holder: new for holder in draft.valid if holder not in able}
        for holder, part in able.items():
            base = (part & new & draft.valid_at(holder)).whole(size)
            if base:
                bases[holder] = base
                new = new - base
        for worker, part in zip(self._workers, merge.parts, strict=True):
            if base := part & new:
                builder.make_valid(self._slot, worker, base)
                bases[worker] = bases.get(worker, EMPTY) | base
                new = new - base
        return bases

    def finish(self) -> None:
        """After the launch: these are parts of reductions."""
        draft = self._builder.drafts[self._slot]
        for merge, parts in zip(self._reductions, self._parts, strict=True):
            draft.pend(merge.op, merge.dtype, {holder: part for holder, part in parts.items() if part})


def missing_parts(state: BufferState, worker: int, merge: AtomicMerge, part: Region) -> Region:
    """The bytes of a chunk's part of a reduction of which its worker has none yet: somebody has to fold them some time."""
    for item in state.pending:
        if (item.op, item.dtype) == (merge.op, merge.dtype):
            return part - dict(item.parts).get(worker, EMPTY)
    return part


# folding --------------------------------------------------------------------------------------------------


def plan_fold(state: BufferState, links: LinkCosts, *, at_home: bool = False) -> Plan:
    """Make one content of all that is pending in a buffer: on the workers, or at home, which takes none of their memory."""
    return plan_folds((state,), links, at_home=at_home)


def plan_folds(states: Sequence[BufferState], links: LinkCosts, *, at_home: bool = False) -> Plan:
    """`plan_fold` of several buffers at once."""
    builder = PlanBuilder(states, links)
    for slot, state in enumerate(states):
        for item in state.pending:
            holders = [holder for holder, _ in item.parts]
            if at_home or HOST in holders or not links.merge_on(holders):
                _fold_at_home(builder, slot, item)
            else:
                _fold_on_workers(builder, slot, item)
    return builder.finish()


def folded(state: BufferState, links: LinkCosts) -> BufferState:
    """What a fold would leave."""
    return plan_fold(state, links).states[0] if state.pending else state


def _fold_at_home(builder: PlanBuilder, slot: int, item: Pending) -> None:
    """The first part at each byte goes home as it is, the others are merged into it."""
    there, stages = EMPTY, []
    for holder, part in item.parts:  # the home, if it has a part, comes first
        first, others = part - there, part & there
        if first and holder != HOST:
            builder.copy(slot, holder, HOST, first)
        if others:
            stages.append(builder.fetch(slot, holder, others))
        there = there | part
    builder.merge(slot, there, stages, item.op, item.dtype)


def _fold_on_workers(builder: PlanBuilder, slot: int, item: Pending) -> None:
    """Each block on a worker that has a part of it."""
    left = item.region
    blocks = dict(sites_of(left, [part for _, part in item.parts], BYTES))
    for index, (worker, part) in enumerate(item.parts):
        share = blocks.get(index, EMPTY) & part
        _fold_on(builder, slot, item, worker, share)
        left = left - share
    for worker, part in item.parts:
        _fold_on(builder, slot, item, worker, left & part)
        left = left - part


def _fold_on(builder: PlanBuilder, slot: int, item: Pending, worker: int, share: Region) -> None:
    if share:
        others = [(other, piece) for other, part in item.parts if other != worker and (piece := part & share)]
        builder.fold(slot, worker, share, others, item.op, item.dtype)
