"""Tidying: what keeps a buffer's state to few boxes, whatever was launched before.

A program that moves a tile over a matrix leaves a piece behind on some worker at each step, and each piece makes all
later plans more expensive; so does a program that writes, maps or copies piece by piece. Three things are decided
here. Which bytes a launch's footprints may have beside those that it touches, so that they are few boxes, and in
pitches that go with the buffer's (`fitted`). When what a history of launches has scattered is brought together again
(`tidy`). And when a transfer leaves a buffer as it lay (`settle`). So the boxes of a buffer are bounded by the
workers and what the last launch wrote, whatever was done before. None of it changes what any byte is: more is read,
and more is held, but nothing is claimed that is not valid.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from vdev.planner.builder import PlanBuilder
from vdev.planner.directory import HOST, BufferState, Draft, holders_of, map_of
from vdev.planner.footprints import RUN_NBYTES, Footprint, covered_twice
from vdev.planner.placement import equal_blocks
from vdev.translators.ranges.covers import boxes_around, core, cover, listed, one_of_each_pitch
from vdev.translators.ranges.labelled import Labelled, regions_by_label
from vdev.translators.ranges.patterns import is_array
from vdev.translators.ranges.pitches import merged
from vdev.translators.ranges.region import EMPTY, MOST_RUNS, Region
from vdev.translators.ranges.stairs import distances_of_rows, stairs_around
from vdev.translators.ranges.unlisted import Unlisted
from vdev.translators.values import replace

#: brings a buffer, by slot, into fewer boxes; the last argument is the buffer as one map, if there is one
Remedy = Callable[[PlanBuilder, int, "Labelled | None"], None]

#: boxes of one chunk's range above which another range with fewer is looked for
MOST_BOXES = 64
#: runs, such as of a diagonal, that are listed where their pitch does not go with the buffer's
MOST_LISTED = 32
#: boxes around a staircase, such as a triangle, of all chunks together, and for each at least: one of so many parts of it lies in
#: them and not in the staircase
STEPS, LEAST_STEPS = 32, 4
#: boxes in which a buffer may lie, beside so many for each holder and for each box that the last command wrote
MOST_HELD, HELD_EACH, HELD_FRESH = 64, 8, 4
#: this many times more if the command wrote nothing of it
UNWRITTEN = 8
#: boxes of what several holders have, for each of them, above which a buffer of which a command wrote nothing is looked at
MOST_COPIES = 8
#: boxes of a worker's copies that are left as they are; and what is brought beside those of a worker that has copied piece
#: by piece, since it will probably go on
FEW_COPIES, MARGIN = 2, 0.25
#: boxes of one map of all holders, for each of theirs: rows are cut wherever any holder's are; so many that half as many of
#: theirs suffice
CUT_EACH, CUT_MUCH = 1.75, 2.5
#: boxes that a holder keeps beside the one that has everything: of what the launch wrote, and of what lies elsewhere
KEPT_BOXES = 4


def fitted(footprints: Sequence[Footprint], state: BufferState) -> list[Footprint]:
    """The footprints of a launch's chunks on one buffer, in few boxes that go with those of its state where that costs
    little.

    What is read is widened; what is written as well, if no two chunks' ranges meet by that: then it counts as what
    may be written, since what it held has to stay. Bytes that atomics touch stay as they are, and all beside them.
    """
    if are_fitting(footprints, state):
        return list(footprints)
    held = one_of_each_pitch(region for _, region in state.valid)
    pitches = [region.pitches for region in held]
    footprints = [listed_beside(f, pitches) for f in footprints]
    if all(_fits(region, held) for f in footprints for region in (f.reads, f.exact, f.inexact)):
        return list(footprints)
    if any(f.atomics for f in footprints):
        return list(footprints)
    rows = _Rows(footprints, held, state.nbytes)
    found = [replace(f, reads=_wider(f.reads, held, rows)) for f in footprints]
    # What a launch only writes would have to be brought to where it is written, if it were not exact.
    writes = [f.writes for f in footprints]
    around = [
        wider.reads
        if _are_same_runs(f.reads, written)
        else _wider(written, held, rows if f.reads.contains(written) else None)
        for f, written, wider in zip(footprints, writes, found, strict=True)
    ]
    if not covered_twice(around):
        for index, (f, written, wider) in enumerate(zip(found, writes, around, strict=True)):
            # It contains them. What is not listed is not counted for this.
            if wider is not written and (isinstance(written, Unlisted) or wider.nbytes != written.nbytes):
                found[index] = replace(f, exact=Region.empty(), inexact=wider)
    return found


def listed_beside(footprint: Footprint, held: Iterable[tuple[int, ...]]) -> Footprint:
    """The same bytes of a buffer whose parts have these pitches: of the diagonal of a tile, say, which do not go with them, as runs in no
    pitches, if they are few.
    """
    if footprint.atomics:
        return footprint
    foreign = [pitches for pitches in held if pitches]
    parts = footprint.reads, footprint.exact, footprint.inexact
    reads, exact, inexact = [
        listed(part) if _is_foreign(part, foreign) and part.nruns <= MOST_LISTED else part for part in parts
    ]
    if reads is parts[0] and exact is parts[1] and inexact is parts[2]:
        return footprint
    return replace(footprint, reads=reads, exact=exact, inexact=inexact)


def _is_foreign(part: Region, held: Iterable[tuple[int, ...]]) -> bool:
    """Whether its pitches do not go with any of these."""
    pitches = part.pitches
    return bool(pitches) and any(merged(pitches, each) is None for each in held)


def few_boxes(region: Region, nchunks: int) -> Region:
    """The region of one of so many chunks; where nobody has listed its rows yet, the steps around it."""
    return region.around(_steps_of(nchunks))[0] if isinstance(region, Unlisted) else region


def _steps_of(nchunks: int) -> int:
    """The steps around the staircase of each of so many chunks."""
    return max(STEPS // nchunks, LEAST_STEPS)


def _are_same_runs(reads: Region, writes: Region) -> bool:
    """Whether a launch writes just those runs that it reads, in no pitches: then they are widened alike, which takes long."""
    if isinstance(reads, Unlisted) or isinstance(writes, Unlisted):
        return isinstance(reads, Unlisted) and isinstance(writes, Unlisted) and reads.shows_equal(writes)
    return is_array(reads) and is_array(writes) and reads == writes


def are_fitting(footprints: Sequence[Footprint], state: BufferState) -> bool:
    """Whether all fit by their pitches alone, as nearly all do: then they stay as they are, and nothing has to be counted."""
    pitches = state.pitches_held
    for f in footprints:
        for region in (f.reads, f.exact, f.inexact):
            if region is EMPTY:
                continue
            if region.nboxes > MOST_BOXES:
                return False
            for other in pitches:
                if region.pitches != other and merged(region.pitches, other) is None:
                    return False
    return True


def _fits(region: Region, held: Sequence[Region]) -> bool:
    return region.nboxes <= MOST_BOXES and all(region.goes_with(other) for other in held)


class _Rows:
    """The distances of rows that the parts of a buffer show, and the steps that a staircase of such rows may have."""

    def __init__(self, footprints: Sequence[Footprint], held: Sequence[Region], nbytes: int) -> None:
        """`footprints`: of one launch's chunks; `held`: what the holders of the buffer, which has so many bytes, have."""
        self._footprints, self._held, self._nbytes = footprints, held, nbytes
        self.steps = _steps_of(len(footprints))
        self._told: list[int] | None = None

    def pitches(self) -> Iterator[int]:
        """The distances, the most probable first: those that are known, and then those that runs show, which takes longer to see."""
        known = self._sorted(self._known())
        yield from known
        if self._told is None:
            shown = self._known()
            of_runs: dict[Region, list[int]] = {}  # what is read is often written, too
            for part in filter(_has_runs, self._parts()):
                distances = of_runs.get(part)
                if distances is None:
                    distances = of_runs[part] = distances_of_rows(part)
                shown.update(distances)
            self._told = self._sorted(shown)
        yield from (pitch for pitch in self._told if pitch not in known)

    def _parts(self) -> Iterator[Region]:
        yield from self._held
        for f in self._footprints:
            yield from (f.reads, f.exact, f.inexact)

    def _known(self) -> Counter[int]:
        return Counter(pitch for part in self._parts() for pitch in part.pitches[-1:])

    def _sorted(self, shown: Counter[int]) -> list[int]:
        """Those first of which the buffer has a whole number, of them those of the most parts."""
        return sorted(filter(None, shown), key=lambda pitch: (self._nbytes % pitch != 0, -shown[pitch]))


def _has_runs(part: Region) -> bool:
    """Whether it has no pitches, and so many runs that these might show some."""
    return is_array(part) and len(part) <= MOST_RUNS


def _wider(region: Region, held: Sequence[Region], rows: _Rows | None) -> Region:
    """A cover of `region` that fits, if it is not much larger; any, where nothing else could be planned with. `rows`: None if there
    must be no steps around a staircase.
    """
    if _fits(region, held):
        return region
    if rows is not None and isinstance(region, Unlisted):
        around, least = region.around(rows.steps)
        if _fits(around, held) and around.nbytes - least <= region.nboxes * RUN_NBYTES:
            return around
    around = cover(region, MOST_BOXES, held)
    if rows is not None and _has_runs(region):
        stairs = stairs_around(region, rows.steps, rows.pitches())
        if stairs is not None and stairs.nbytes < around.nbytes and all(map(stairs.goes_with, held)):
            around = stairs
    # Where pitches do not go together, to plan takes a step for each run.
    pieces = region.nboxes if all(region.goes_with(other) for other in held) else len(region)
    worth = pieces * RUN_NBYTES if pieces <= MOST_RUNS else around.nbytes
    return around if around.nbytes - region.nbytes <= worth else region


def most_boxes(nholders: int, written: int) -> int:
    """The boxes in which a buffer with so many holders may lie, of which the last command has written so many."""
    most = MOST_HELD + HELD_EACH * nholders + HELD_FRESH * written
    # How many boxes its last launch wrote is not known where that wrote none: fields in one buffer are many.
    return most if written else most * UNWRITTEN


def tidy(builder: PlanBuilder, slot: int, fresh: Sequence[Region]) -> None:
    """Keep a buffer in few boxes of which the command has written `fresh`."""
    draft = builder.drafts[slot]
    written, nboxes = boxes_of(fresh), _boxes_held(draft)
    nholders = len(draft.replicas) + 1
    few = most_boxes(nholders, written) if written else MOST_COPIES * nholders
    if draft.before.fine or nboxes <= few / 2 or not (written or draft.is_changed):
        return
    held = map_of(draft.valid.items())
    remedy = _remedy(held, lambda: nboxes, nholders, written, draft.before)
    if remedy is not None:
        remedy(builder, slot, held)


def remedy_for(state: BufferState, written: int, before: BufferState) -> Remedy | None:
    """What `tidy` would do with a buffer that a command has left so, of which it has written so many boxes, and that was like `before`.
    Where there is one map of it, that is asked first: what its holders have need not be known.
    """

    def count() -> int:
        return boxes_of(region for _, region in state.valid)

    return _remedy(state.labelled, count, len(state.replicas) + 1, written, before)


def _remedy(
    held: Labelled | None, count: Callable[[], int], nholders: int, written: int, before: BufferState
) -> Remedy | None:
    """`count`: how many boxes the holders of a buffer have, counted one by one."""
    most = most_boxes(nholders, written)
    if held is None:
        return bring_together if count() > most else None
    if held.nboxes > (most * CUT_EACH if held.pitches else most):
        cut_much = held.nboxes > most * CUT_MUCH
        if count() > (most / 2 if cut_much else most):
            return bring_together
    few = MOST_COPIES * nholders
    if not written and held.nboxes > few and held.nshared > few and count() > few / 2:
        return join_copies if _has_copies(before, few / 2) else None
    return None


def _has_copies(before: BufferState, few: float) -> bool:
    """Whether what holders have copied of a buffer was more than a few boxes before a command, too: the edges of many blocks that it
    has just brought, as in a stencil, are gone with the next one that writes, and to join them would cost as many copies again.
    """
    held = before.labelled
    return held is None or held.nshared > few


def join_copies(builder: PlanBuilder, slot: int, held: Labelled | None) -> None:
    """What workers have copied piece by piece of a buffer that others have as well becomes a few boxes for each of them: what
    lies between is brought, if that is no more than was copied. So a program that reads its way over a buffer has copied
    at most twice what it reads, and soon finds all of it in one box. `held`: as of `bring_together`.
    """
    draft = builder.drafts[slot]
    if held is None:
        return
    shared: dict[int, list[Region]] = {worker: [] for worker in (HOST, *draft.replicas)}
    for label, region in regions_by_label(held.bands, held.pitches).items():
        holders = holders_of(label)
        for holder in holders if len(holders) > 1 else ():
            shared[holder].append(region)
    for worker, replica in draft.replicas.items():
        copies = Region.union(shared[worker])
        if copies.nboxes <= FEW_COPIES:
            continue
        for most, margin in ((1, MARGIN), (1, 0.0), (KEPT_BOXES, 0.0)):
            around = boxes_around(copies, held.pitches, most, margin).clip(*replica)
            between = around - draft.valid_at(worker)
            if between.nbytes <= copies.nbytes:
                builder.make_valid(slot, worker, between, held)
                break
        else:
            return  # others have copied in the same manner


def bring_together(builder: PlanBuilder, slot: int, held: Labelled | None) -> None:
    """On workers with memory of their own, into equal blocks; otherwise at home, where everything else is kept as far as
    it is few boxes. What was scattered moves once for that. `held`: the buffer as one map, if there is one.
    """
    draft = builder.drafts[slot]
    whole = held is not None and held.is_span(0, draft.nbytes)
    # Not what is pending, which no holder has.
    everything = Region.span(0, draft.nbytes) if whole else Region.union(draft.valid.values())
    workers = tuple(worker for worker in builder.links.direct if worker in draft.replicas)
    blocks = (
        list(equal_blocks(0, draft.nbytes, workers)) if workers else [(HOST, Region.span(0, draft.nbytes))]
    )
    parts = {holder: everything & block for holder, block in blocks}
    replicas = dict(draft.replicas)
    for holder, part in parts.items():
        if part and holder != HOST:
            builder.reserve(slot, holder, part.start, part.stop)
    for holder, part in parts.items():
        # What a replica loses that has to move, the map still has.
        builder.make_valid(slot, holder, part, held if draft.replicas == replicas else None)
    _keep_beside(draft, parts, builder.written(slot))
    after = map_of(draft.valid.items())
    if after is not None and held is not None and 2 * after.nboxes > held.nboxes:
        # It would soon have to be brought together again.
        for holder in list(draft.valid):
            draft.narrow(holder, parts.get(holder, EMPTY))


def _keep_beside(draft: Draft, parts: Mapping[int, Region], written: Mapping[int, Region]) -> None:
    """Each holder keeps its part, which is everything together, and a few boxes beside it."""
    reach = cover(Region.union(written.values()), KEPT_BOXES)
    for holder, region in list(draft.valid.items()):
        part = parts.get(holder, EMPTY)
        beside = region - part
        # Where the launch was, all that a history of launches has left is forgotten: the next one finds what this one
        # has written and nothing else, as after any other. At home that goes for all rows from its first to its last:
        # a part of what lies beside it would be there at one time and gone at another.
        there = reach.hull() if holder == HOST else reach
        fresh = core(beside & written.get(holder, EMPTY), KEPT_BOXES)
        kept = fresh | core(beside - there, KEPT_BOXES)
        draft.narrow(holder, part | kept)


def settle(builder: PlanBuilder, slot: int, fresh: Region, before: BufferState) -> None:
    """Leave a buffer that lies in many boxes as it lay: what a transfer has written (`fresh`) is brought to those who held
    it `before`, who alone have it then. Nothing else moves: a buffer that a launch has left in many boxes stays as that
    launch wants it, and whatever is mapped stays where it is.
    """
    draft = builder.drafts[slot]
    forget_copies(builder, slot, fresh)
    most = _most_boxes_beside(draft, fresh)
    if draft.before.fine or _boxes_held(draft) <= most:
        return
    places = {}
    for holder, held in before.valid:
        low, high = (0, draft.nbytes) if holder == HOST else draft.replicas.get(holder, (0, 0))
        if part := (held & fresh).clip(low, high):
            builder.make_valid(slot, holder, part)
            places[holder] = part
    given = Region.union(places.values())
    for holder, held in list(draft.valid.items()):
        draft.drop(holder, (held & given) - places.get(holder, EMPTY))
    for holder, held in (*before.valid, *draft.before.valid):
        if draft.valid_at(holder) == held:
            draft.valid[holder] = (
                held  # in its boxes: what came and went has left it in those of its own pitches
            )
    if _boxes_held(draft) > most:
        _fill_gaps(draft)


def _boxes_held(draft: Draft) -> int:
    return boxes_of(draft.valid.values())


def boxes_of(regions: Iterable[Region]) -> int:
    """The boxes of all of them."""
    return sum(region.nboxes for region in regions)


def _most_boxes_beside(draft: Draft, fresh: Region) -> int:
    return most_boxes(sum(map(bool, draft.valid.values())), max(fresh.nboxes, 1))


def forget_copies(builder: PlanBuilder, slot: int, fresh: Region) -> None:
    """Of what the home has of workers' bytes in a buffer that lies in many boxes, few are kept, beside `fresh`."""
    draft = builder.drafts[slot]
    if draft.before.fine or _boxes_held(draft) <= _most_boxes_beside(draft, fresh):
        return
    home = draft.valid_at(HOST)
    copies = home & Region.union(held for holder, held in draft.valid.items() if holder != HOST)
    copies = copies - fresh
    draft.drop(HOST, copies - core(copies, KEPT_BOXES))


def _fill_gaps(draft: Draft) -> None:
    """Where many bytes were written with gaps between them, the gaps, whose content is undefined, count as written by
    whoever has what lies around them.
    """
    everything = draft.initialised()
    for holder, held in list(draft.valid.items()):
        gaps = cover(held, KEPT_BOXES) - everything
        draft.add(holder, gaps)
        everything = everything | gaps
