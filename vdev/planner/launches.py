"""The plan of a launch: what moves before, where its chunks run, and whose writes count after (PPoPP'11 sections 3.2 to 3.6).

Decides the instructions and their order, for the candidate that `vdev.planner.launch_search` chooses. Never looks at a kernel's
source: access ranges come from a callable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vdev.planner.builder import PlanBuilder
from vdev.planner.candidates import Candidate
from vdev.planner.directory import HOST, BufferState
from vdev.planner.footprints import Footprint, Resolution, argument_name, covered_twice, format_reason
from vdev.planner.instructions import Launch, Plan, Touch
from vdev.planner.launch_request import LaunchOptions, LaunchRequest
from vdev.planner.launch_search import Search
from vdev.planner.links import LinkCosts
from vdev.planner.merges import Merging, combinations
from vdev.planner.pending import Reducing, Unfolded
from vdev.planner.placement import share
from vdev.planner.spreads import supply_alike
from vdev.translators.ranges.region import Region
from vdev.translators.values import replace


def plan_launch(states: Sequence[BufferState], request: LaunchRequest, options: LaunchOptions) -> Plan:
    """The plan of one launch. `states`: by slot, each buffer once. Raises Unfolded where it needs pending bytes.

    `Plan.reasons` says why it is not cut further.
    """
    builder = PlanBuilder(states, options.links)
    if request.ndrange.nitems == 0:  # nothing to run (clEnqueueNDRangeKernel lets it pass since 2.1)
        return builder.finish()
    search = Search(states, request, options)
    chosen = search.balanced(search.run())
    if chosen.unfolded:
        raise Unfolded(chosen.unfolded)
    _write(builder, request, options.links, chosen)
    slots = chosen.resolutions
    reasons = [*search.reasons, *(reason for slot in slots for reason in _why_merged(chosen, slot))]
    partition = tuple(zip(chosen.workers, chosen.partition.chunks, strict=True))
    overwrites = [
        slot
        for slot in slots
        if slot not in chosen.reductions and _overwrites(slots[slot], states[slot].nbytes)
    ]
    # What the identity is filled into is no new content.
    plan = builder.finish(partition, reasons, reads=tuple(chosen.reductions), overwrites=overwrites)
    return plan if search.recut is None else replace(plan, recut=search.recut)


def _write(builder: PlanBuilder, request: LaunchRequest, links: LinkCosts, chosen: Candidate) -> None:
    """The instructions: memory, what has to be valid before, the chunks, and what becomes of what they wrote."""
    merging = {
        slot: Merging(builder, slot, chosen.workers, found)
        for slot, resolution in chosen.resolutions.items()
        if (found := combinations(resolution, chosen.workers, links))
    }
    reducing = [Reducing(builder, slot, chosen.workers, found) for slot, found in chosen.reductions.items()]
    _reserve(builder, request, chosen, merging)
    for slot in chosen.resolutions:
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
    for slot, resolution in chosen.resolutions.items():
        _settle_owners(builder, slot, chosen)
        if slot in merging:
            merging[slot].finish()
        request.tidied(builder, slot, resolution.owns)


def _overwrites(resolution: Resolution, nbytes: int) -> bool:
    """Whether every byte of a buffer is certainly written, whatever it held: a may-write would be among `needs`."""
    if resolution.apart or any(resolution.needs) or resolution.diff or resolution.merges:
        return False
    return Region.union(resolution.owns).nbytes == nbytes


def _reserve(
    builder: PlanBuilder, request: LaunchRequest, chosen: Candidate, merging: Mapping[int, Merging]
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


def _supply(builder: PlanBuilder, slot: int, chosen: Candidate) -> None:
    """Bring to each worker what must be valid there and is not."""
    resolution = chosen.resolutions[slot]
    _scatter(builder, slot, chosen)
    if supply_alike(builder, slot, chosen.workers, resolution.needs):
        return
    for worker, needs in zip(chosen.workers, resolution.needs, strict=True):
        if needs:
            builder.make_valid(slot, worker, needs)


def _scatter(builder: PlanBuilder, slot: int, chosen: Candidate) -> None:
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
    # Mostly workers want little of what others want, such as the edges of neighbours' blocks, which may as well come over one
    # link: who else has it need not be looked at.
    if len(wanted) < 2 or covered_twice(tuple(wanted.values())).nbytes < links.large_nbytes:
        return
    if any(held for holder, held in draft.valid.items() if holder != HOST):
        at_home = draft.held_alone(HOST, Region.union(wanted.values()))
        wanted = {worker: part for worker, missing in wanted.items() if (part := missing & at_home)}
        if len(wanted) < 2 or covered_twice(tuple(wanted.values())).nbytes < links.large_nbytes:
            return
    for worker, part in list(share(Region.union(wanted.values()), wanted)):
        builder.make_valid(slot, worker, part)


def _run_chunks(builder: PlanBuilder, request: LaunchRequest, chosen: Candidate) -> None:
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


def _settle_owners(builder: PlanBuilder, slot: int, chosen: Candidate) -> None:
    """What a chunk alone has written is valid at its worker and nowhere else."""
    builder.drafts[slot].own_each(list(zip(chosen.workers, chosen.resolutions[slot].owns, strict=True)))


def _why_merged(chosen: Candidate, slot: int) -> list[str]:
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
