"""Planning everything that is not a launch: writes, reads, fills, copies, mappings, migration.

Decides at which holder each byte of such a command is read or written. Rule: where the bytes already are.
What the host program hands over goes where `placement` says; a mapping for writing to the home. Commands come
as boxes and regions of checked bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from vdev.planner.builder import PlanBuilder
from vdev.planner.directory import HOST, BufferState
from vdev.planner.instructions import CopyBetween, Download, Fill, Plan, Touch, Upload
from vdev.planner.links import LinkCosts
from vdev.planner.placement import Placed, place, senders, with_margin
from vdev.planner.tidying import forget_copies, settle
from vdev.translators.ranges.region import Region
from vdev.translators.values import dataclass, replace

Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Box:
    """Bytes of a buffer.

    `shape` is (slices, rows, bytes in a row), from `start`, with (slice, row) `pitches` in bytes.
    """

    shape: tuple[int, int, int]
    start: int
    pitches: tuple[int, int]

    @staticmethod
    def contiguous(start: int, nbytes: int) -> Box:
        return Box((1, 1, nbytes), start, (nbytes, nbytes))

    def region(self) -> Region:
        (slices, rows, nbytes), (slice_pitch, row_pitch) = self.shape, self.pitches
        return Region.boxes(self.start, nbytes, ((row_pitch, rows), (slice_pitch, slices)))


def plan_write(state: BufferState, region: Region, links: LinkCosts) -> Plan:
    """Host memory to a buffer: to the holders that `placement.place` gives, who alone hold it afterwards.

    Launches fetch what they need of it.
    """
    builder = PlanBuilder((state,), links)
    placed = place(state, region, links)
    builder.drafts[0].forget(region)
    _take_memory(builder, state, placed)
    for holder, part in placed:
        builder.upload(0, holder, part)
    settle(builder, 0, region, state)
    return builder.finish()


def _take_memory(builder: PlanBuilder, state: BufferState, placed: Placed) -> None:
    """Replicas of slot 0 for what workers are given; before any of it moves, so that all move at once."""
    for holder, part in placed:
        if holder != HOST:
            replica = builder.drafts[0].replicas.get(holder)
            if replica is None or part.start < replica[0] or replica[1] < part.stop:
                builder.reserve(0, holder, *with_margin(part, state, builder.links))


def plan_read(state: BufferState, region: Region, links: LinkCosts, *, contiguous: bool) -> Plan:
    """A buffer to host memory.

    A contiguous layout is filled piece by piece from whoever holds each, as `placement.senders` says. So is
    any other by the home and by workers with memory of their own; what others hold is copied to the home for
    it, and stays valid there. Bytes that nobody wrote are not delivered.
    """
    builder = PlanBuilder((state,), links)
    if not contiguous:
        able = Region.union(state.valid_at(worker) for worker in links.direct)
        builder.make_valid(0, HOST, region - able)
        forget_copies(builder, 0, region)
        state = builder.drafts[0].freeze()
    for holder, part in senders(state, region, links):
        builder.download(0, holder, part)
    return builder.finish(reads=(0,))


def is_alike_everywhere(plan: Plan, state: BufferState) -> bool:
    """Whether consecutive bytes anywhere in the buffer are read, or written, as this plan for some of them does (`elsewhere`): one
    worker alone has all of the buffer, and moves them between its memory and the program's.
    """
    if state.resident is None or state.fine or state.pending or plan.states != (state,) or plan.growth:
        return False
    if len(plan.instructions) != 1 or len(plan.moved) != 1:
        return False
    item = plan.instructions[0]
    return isinstance(item, (Upload, Download)) and item.worker == state.resident


def elsewhere(plan: Plan, region: Region) -> Plan:
    """The plan of the same read or write of other consecutive bytes, where it `is_alike_everywhere`."""
    (item,), ((source, target, _),) = plan.instructions, plan.moved
    assert isinstance(item, (Upload, Download))
    return replace(
        plan,
        instructions=(type(item)(item.worker, item.slot, region),),
        touches=((Touch(item.slot, item.worker, region, isinstance(item, Upload)),),),
        moved=((source, target, region.nbytes),),
    )


def plan_fill(state: BufferState, offset: int, nbytes: int, pattern: bytes, links: LinkCosts) -> Plan:
    """A pattern over [offset, offset + nbytes), of which its length is a divisor.

    Bytes that workers hold are filled there, on each worker that holds them, so that nothing travels when a
    program clears and uses a buffer again and again; those of a pending reduction on the first worker that has a
    part; all others where `placement` would have them written, or at home.
    """
    builder = PlanBuilder((state,), links)
    region = Region.span(offset, offset + nbytes)
    rest = region
    places: Placed = []
    pending = [next(part for part in item.parts if part[0] != HOST) for item in state.pending]
    for holder, held in (*state.valid, *pending):
        if holder == HOST:
            continue
        part = (region & held).whole(len(pattern), offset)
        if part:
            places.append((holder, part))
            rest = rest - part
    builder.drafts[0].forget(region)
    if rest and (links.direct or links.only is not None):
        found = [
            (holder, part)
            for holder, given in place(state, rest, links)
            if holder != HOST and (part := given.whole(len(pattern), offset))
        ]
        rest = rest - Region.union(part for _, part in found)
        _take_memory(builder, state, found)
        places += found
    if rest:
        places.append((HOST, rest))
    for holder, part in places:
        builder.fill(0, holder, part, pattern)
        builder.drafts[0].add(holder, part)
    settle(builder, 0, region, state)
    return builder.finish()


def is_one_fill(plan: Plan, state: BufferState) -> bool:
    """Whether a plan for a buffer in a state is a fill on one worker, which leaves that as it is: with another pattern of that length
    there is one that differs in nothing else (`with_pattern`).
    """
    return (
        len(plan.instructions) == 1
        and isinstance(plan.instructions[0], Fill)
        and plan.instructions[0].worker != HOST
        and plan.states == (state,)
    )


def with_pattern(plan: Plan, pattern: bytes) -> Plan:
    """The plan of a fill like one that `is_one_fill`, with another pattern of the same length."""
    (item,) = plan.instructions
    assert isinstance(item, Fill)
    return replace(plan, instructions=(replace(item, pattern=pattern),))


def plan_map(state: BufferState, region: Region, links: LinkCosts, *, read: bool, write: bool) -> Plan:
    """Make the home hold `region` for the host to use in place; for writing, the home alone.

    A mapping that is not for reading but for writing is one that invalidates
    (CL_MAP_WRITE_INVALIDATE_REGION): nothing is copied. A plain CL_MAP_WRITE has to keep what the host does
    not write, so the caller passes `read` for it as well.
    """
    builder = PlanBuilder((state,), links)
    if read:
        builder.make_valid(0, HOST, region)
        forget_copies(builder, 0, region)
    if write:
        builder.drafts[0].own(HOST, region)
    replaces = write and not read and region.nbytes == state.nbytes
    return builder.finish(reads=(0,) if read else (), overwrites=(0,) if replaces else ())


def plan_unmap(
    state: BufferState, region: Region, links: LinkCosts, *, write: bool, before: BufferState | None = None
) -> Plan:
    """The end of a mapping.

    What the host wrote there is what the buffer holds, whatever happened to it in between. `before`: the state that
    the mapping found, where it is known.
    """
    builder = PlanBuilder((state,), links)
    if write:
        builder.drafts[0].own(HOST, region)
        settle(builder, 0, region, before or state)
    return builder.finish()


def plan_migrate(
    states: Sequence[BufferState], links: LinkCosts, *, to_host: bool, undefined: bool = False
) -> Plan:
    """To the host: the homes hold everything, as do the workers that did. `undefined`.

    The contents may be forgotten instead.
    """
    builder = PlanBuilder(states, links)
    for slot, state in enumerate(states):
        if undefined:
            builder.drafts[slot].forget(state.initialised)
        elif to_host:
            builder.make_valid(slot, HOST, state.initialised)
    return builder.finish()


def plan_gather(states: Sequence[BufferState], worker: int, links: LinkCosts) -> Plan:
    """All bytes of buffers to one worker, which alone has them afterwards. What nobody wrote is undefined there, too."""
    builder = PlanBuilder(states, links)
    for slot, state in enumerate(states):
        whole = Region.span(0, state.nbytes)
        builder.reserve(slot, worker, 0, state.nbytes, slack=False)
        builder.make_valid(slot, worker, state.initialised)
        builder.drafts[slot].forget(whole)
        builder.drafts[slot].add(worker, whole)
    return builder.finish()


def plan_copy(states: Sequence[BufferState], source: Box, target: Box, links: LinkCosts) -> Plan:
    """Buffer to buffer; both boxes have the same shape and each has its bytes in ascending order.

    `states`: the source's and the target's, or one where they are the same buffer (the boxes do not overlap
    there: CL_MEM_COPY_OVERLAP is the caller's). Every piece is copied on each worker that holds it, where the
    target's replica grows, and the rest at home: nothing travels. Where the target is fine-grain all of it is
    copied at home; where it is kept on a worker, there (`_keeper`). Bytes of the source that nobody wrote leave undefined bytes in
    the target.
    """
    builder = PlanBuilder(states, links)
    into = len(states) - 1
    source_region, target_region = source.region(), target.region()
    places = _places(states[0], source_region)
    if states[into].fine:
        at_home = source_region & states[0].initialised
        builder.make_valid(0, HOST, at_home)
        places = [(HOST, at_home)] if at_home else []
    elif (keeper := _keeper(states, source_region, links)) is not None:
        wanted = source_region & states[0].initialised
        builder.reserve(0, keeper, source_region.start, source_region.stop)
        builder.make_valid(0, keeper, wanted)
        places = [(keeper, wanted)] if wanted else []
    arrived: list[tuple[int, Region]] = []
    for holder, part in places:
        pieces = list(_pieces(source, target, part, whole=part == source_region))
        arrived.append((holder, _copy_pieces(builder, into, holder, part, pieces)))
    draft = builder.drafts[into]
    draft.forget(target_region)
    for holder, written in arrived:
        draft.add(holder, written)
    settle(builder, into, target_region, states[into])
    return builder.finish(reads=(0,), writes=(into,))


def _keeper(states: Sequence[BufferState], region: Region, links: LinkCosts) -> int | None:
    """The worker that copies all of a source's `region`, as it has the launches that use the target; None where each holder copies what
    it has.

    Otherwise the target would have to be brought there after each copy, for as long as nobody changes the source: a program that sets an
    array back to what it was at first, again and again, would move all of it each time. So the source is brought there, once, and stays
    where it was as well; not what takes much memory, nor what is kept on another worker.
    """
    if len(states) == 1:
        return None
    source, target = states
    worker = target.kept
    if worker not in links.direct or source.kept not in (None, worker) or source.fine or source.pending:
        return None
    return worker if 0 < region.stop - region.start <= links.gaps_nbytes else None


def _copy_pieces(
    builder: PlanBuilder, into: int, holder: int, part: Region, pieces: Sequence[tuple[Box, Box]]
) -> Region:
    """Copy pieces of the source, `part` in all, at one holder. The bytes of the target that this writes."""
    written = Region.union(piece_target.region() for _, piece_target in pieces)
    if holder != HOST:
        # In one buffer the replica has to keep covering the source.
        kept = (part, written) if into == 0 else (written,)
        builder.reserve(into, holder, min(r.start for r in kept), max(r.stop for r in kept))
    for piece, piece_target in pieces:
        item = CopyBetween(
            holder,
            0,
            into,
            piece.shape,
            piece.start,
            piece.pitches,
            piece_target.start,
            piece_target.pitches,
        )
        builder.copy_between(item, piece.region(), piece_target.region())
    return written


def _places(state: BufferState, region: Region) -> list[tuple[int, Region]]:
    """Where the initialised bytes of `region` are used.

    On every worker that holds them, at home what no worker holds.
    """
    rest = region
    places = []
    for holder, held in state.valid:
        part = region & held
        if holder != HOST and part:
            places.append((holder, part))
            rest = rest - part
    at_home = rest & state.valid_at(HOST)
    return [*places, (HOST, at_home)] if at_home else places


def _pieces(source: Box, target: Box, part: Region, *, whole: bool) -> Iterator[tuple[Box, Box]]:
    """The copy of the bytes `part` of `source` to those of `target` that correspond, as few boxes."""
    if whole:
        yield source, target
        return
    if source.shape[:2] == (1, 1) or source.pitches == target.pitches:  # every byte goes the same way
        for block in part.blocks():
            shape = (block.slices, block.count, block.nbytes)
            pitches = (block.slice_stride or block.count * block.stride, block.stride)
            yield (
                Box(shape, block.start, pitches),
                Box(shape, block.start + target.start - source.start, pitches),
            )
        return
    source_rows, target_rows = _row_starts(source), _row_starts(target)
    edges = part.runs.ravel()
    points = np.concatenate((edges, source_rows))
    points.sort(kind="stable")  # two ascending parts: a merge
    points = points[np.append(points[1:] != points[:-1], True)]
    inside = (np.searchsorted(edges, points, side="right") & 1) == 1
    starts = points[inside]
    stops = points[np.flatnonzero(inside) + 1]
    row = np.searchsorted(source_rows, starts, side="right") - 1
    into = target_rows[row] + (starts - source_rows[row])
    yield from _boxes_of_runs(starts, stops - starts, into)


def _row_starts(box: Box) -> Offsets:
    """Where each row of the box begins, ascending."""
    slices, rows, _ = box.shape
    slice_starts = box.start + np.arange(slices, dtype=np.int64) * box.pitches[0]
    return (slice_starts[:, None] + np.arange(rows, dtype=np.int64)[None, :] * box.pitches[1]).ravel()


def _boxes_of_runs(starts: Offsets, lengths: Offsets, into: Offsets) -> Iterator[tuple[Box, Box]]:
    """Runs with their targets, first joined where both go on, then stacked where length and both distances
    repeat.
    """
    if len(starts) > 1:
        joins = (starts[:-1] + lengths[:-1] == starts[1:]) & (into[:-1] + lengths[:-1] == into[1:])
        first = np.flatnonzero(np.concatenate(([True], ~joins)))
        lengths = np.add.reduceat(lengths, first)
        starts, into = starts[first], into[first]
    # Plain integers: this loop over runs is faster on lists than element by element on arrays.
    begins, sizes, goals = starts.tolist(), lengths.tolist(), into.tolist()
    at, count = 0, len(begins)
    while at < count:
        nbytes, end = sizes[at], at + 1
        gap, goal_gap = nbytes, nbytes
        if end < count and sizes[end] == nbytes:
            gap, goal_gap = begins[end] - begins[at], goals[end] - goals[at]
        while (
            end < count
            and sizes[end] == nbytes
            and begins[end] - begins[end - 1] == gap
            and goals[end] - goals[end - 1] == goal_gap
        ):
            end += 1
        shape = (1, end - at, nbytes)
        yield (
            Box(shape, begins[at], (gap * shape[1], gap)),
            Box(shape, goals[at], (goal_gap * shape[1], goal_gap)),
        )
        at = end
