"""Making room on a worker: which replicas go, and where what they alone hold is saved.

Decides the order in which replicas are given up when a worker's memory does not suffice for a plan: first those whose
every byte is valid elsewhere, then those that hold something alone, in either group the longest unused first. What
one holds alone moves to workers that have room and copy from it directly, the rest goes home. Nothing is ever lost.
The caller says how much memory is taken, and by which buffers.
"""

from __future__ import annotations

from collections.abc import Sequence

from vdev.planner.builder import GRANULE, PlanBuilder, round_out
from vdev.planner.directory import HOST, BufferState
from vdev.planner.instructions import Plan
from vdev.planner.links import LinkCosts
from vdev.translators.ranges.region import Region
from vdev.translators.values import dataclass


@dataclass(frozen=True, slots=True)
class Eviction:
    """The replica of `slot` could go.

    `frees` bytes of device memory, after `saves` (held by nobody else) has been copied to another holder. `folds`: what
    is pending of the buffer has to be folded at home before.
    """

    slot: int
    frees: int
    saves: Region
    folds: bool = False


def propose_evictions(
    states: Sequence[BufferState], worker: int, nbytes: int, keep: Sequence[int] = ()
) -> tuple[Eviction, ...]:
    """Replicas of `worker` that together free `nbytes` bytes, or all that there are if that is less.

    `states`: any buffers, in order of last use, the longest unused first; `keep`: slots that must stay.
    """
    found = []
    for slot, state in enumerate(states):
        replica = state.replica(worker)
        if replica is None or slot in keep:
            continue
        elsewhere = Region.union(held for holder, held in state.valid if holder != worker)
        folds = any(holder == worker for item in state.pending for holder, _ in item.parts)
        found.append(Eviction(slot, replica[1] - replica[0], state.valid_at(worker) - elsewhere, folds))
    found.sort(key=lambda eviction: bool(eviction.saves) or eviction.folds)
    chosen: list[Eviction] = []
    freed = 0
    for eviction in found:
        if freed >= nbytes:
            break
        chosen.append(eviction)
        freed += eviction.frees
    for eviction in chosen[-2::-1]:  # small ones that have become unnecessary because the last one is large
        if freed - eviction.frees >= nbytes:
            chosen.remove(eviction)
            freed -= eviction.frees
    return tuple(chosen)


def plan_evictions(
    states: Sequence[BufferState],
    worker: int,
    evictions: Sequence[Eviction],
    links: LinkCosts,
    room: Sequence[int] = (),
) -> Plan:
    """Save and free.

    `states`: those for which the evictions were proposed, none of which has to be folded before. A replica is freed
    by a Reserve of nothing. `room`: bytes that may be taken on each worker for what is saved; nothing if it is empty.
    """
    builder = PlanBuilder(states, links)
    left = dict(enumerate(room))
    for eviction in evictions:
        unsaved = eviction.saves
        for target in _targets(worker, links, left):
            if not unsaved:
                break
            unsaved = unsaved - _save(builder, eviction.slot, worker, target, unsaved, left)
        if unsaved:
            builder.copy(eviction.slot, worker, HOST, unsaved)
        builder.resize(eviction.slot, worker, 0, 0)
    return builder.finish()


def _targets(worker: int, links: LinkCosts, left: dict[int, int]) -> list[int]:
    """The workers that copy from `worker` at less than the home's cost, those with the most room first."""
    near = [
        target
        for target, nbytes in left.items()
        if target != worker
        and nbytes >= GRANULE
        and links.linked(worker, target)
        and links.per_byte[worker][target] < links.per_byte[worker][HOST]
    ]
    return sorted(near, key=lambda target: -left[target])


def _save(
    builder: PlanBuilder, slot: int, worker: int, target: int, region: Region, left: dict[int, int]
) -> Region:
    """Copy as much of `region` to `target` as there is room for; what was saved."""
    draft = builder.drafts[slot]
    replica = draft.replicas.get(target)
    if replica is not None:
        held = region.clip(*replica)
        if held:
            builder.copy(slot, worker, target, held)
            region = region - held
        if not region:
            return held
        # A replica that grows is there twice for a moment, and keeps all that it has: it may not hand any of it on
        # to the one that is about to go.
        low, high = round_out(min(replica[0], region.start), max(replica[1], region.stop), draft.nbytes)
        if high - low > left[target]:
            return held
        part = region
        builder.resize(slot, target, low, high)
    else:
        held = Region.empty()
        start = region.start - region.start % GRANULE
        part = region.clip(start, start + left[target] // GRANULE * GRANULE)
        builder.reserve(slot, target, part.start, part.stop, slack=False)
    start, stop = draft.replicas[target]
    left[target] -= stop - start
    builder.copy(slot, worker, target, part)
    return held | part
