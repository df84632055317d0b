"""Footprints: what the chunks of a launch do to one buffer, and what that makes of their writes.

Takes access ranges as analysis gives them, by argument; adds them up by buffer, since arguments may share one
(or overlap in it as sub-buffers); and decides for every byte that two chunks may change whose value counts:
an owner's, a comparison's with a twin (PPoPP'11 section 3.6), a merge of atomics, or nobody's, in which case
the launch cannot be split this way. Knows no holders and no workers: chunks are numbered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from itertools import pairwise

import numpy as np

from vdev.translators.interpreter.summaries import AccessRange
from vdev.translators.ranges.covers import rows_around
from vdev.translators.ranges.grain import BYTES, NOTHING, Grain, joined, of_unit
from vdev.translators.ranges.region import EMPTY, Region
from vdev.translators.values import dataclass


@dataclass(frozen=True, slots=True)
class PointerArg:
    """Kernel argument `arg` points `offset` bytes into the buffer of `slot`.

    `nbytes` bytes from there and `before` bytes ahead of it can be reached by it. `own`: of those from there, how many are the
    argument's, where that is fewer.
    """

    arg: int
    slot: int
    offset: int
    nbytes: int
    before: int = 0
    own: int | None = None

    @property
    def nbytes_own(self) -> int:
        """Bytes from the pointer on that are the argument's own: of a sub-buffer, what was asked for."""
        return self.nbytes if self.own is None else self.own


#: what a box or a run costs to plan and to copy, in bytes that are moved unnecessarily
RUN_NBYTES = 4096
#: boxes that an access reads up to which they are left as they are; and beyond which they are many for all chunks together, which is
#: looked at with the buffer's state (`tidying.fitted`)
READ_BOXES, MOST_READ = 8, 64
#: the most parts of a buffer whose stores are aligned differently; more count as one
_MOST_GRAINS = 8

Grains = tuple[tuple[Region, Grain], ...]  #: where stores begin and end in each part of a buffer

AtomicKind = tuple[str | None, str | None]  #: operation and element type


@dataclass(slots=True)
class Footprint:
    """What one chunk does to one buffer, in bytes of the buffer."""

    reads: Region = EMPTY
    exact: Region = EMPTY  #: certainly written
    inexact: Region = EMPTY  #: may be written
    atomics: dict[AtomicKind, Region] = field(default_factory=dict)
    #: what writes and atomics come from, for reasons
    sources: list[AccessRange] = field(default_factory=list)
    #: where in which parts of `writes` stores begin and end
    grains: list[tuple[Region, Grain]] = field(default_factory=list)

    @property
    def writes(self) -> Region:
        """Everything that may be written, without atomics."""
        return self.exact | self.inexact

    @property
    def changes(self) -> Region:
        """Everything that may be written, including atomics."""
        return Region.union((self.exact, self.inexact, *self.atomics.values()))

    @property
    def uses(self) -> Region:
        """Everything that may be read before it is certainly written."""
        return Region.union((self.reads, self.inexact, *self.atomics.values()))

    def bounds(self) -> tuple[int, int] | None:
        """The first byte and one past the last of everything that is touched, None if nothing is."""
        parts = [part for part in (self.reads, self.exact, self.inexact, *self.atomics.values()) if part]
        if not parts:
            return None
        return min(part.start for part in parts), max(part.stop for part in parts)


def gather(
    args: Sequence[PointerArg], ranges: Sequence[AccessRange], *, in_few: bool = False
) -> dict[int, Footprint]:
    """The footprints of one chunk by slot: every slot that an argument names has one, maybe empty. `in_few`: for plans, in which
    what an access reads may be a box where that is little more than the many that it is (`_in_few`).
    """
    by_arg = {pointer.arg: pointer for pointer in args}
    found = {pointer.slot: Footprint() for pointer in args}
    many: list[tuple[Footprint, Region]] = []
    for item in ranges:
        pointer = by_arg.get(item.arg)
        if pointer is None:  # a null pointer: the kernel cannot touch anything through it
            continue
        offset = pointer.offset
        start = offset - pointer.before
        region = item.region.shift(start).clip(start, offset + pointer.nbytes)
        if not region:
            continue
        footprint = found[pointer.slot]
        if item.mode == "read":
            if in_few and region.nboxes > READ_BOXES:
                many.append((footprint, region))
            else:
                footprint.reads = footprint.reads | region
            continue
        footprint.sources.append(item)
        if item.mode == "atomic":
            kind = (item.op, item.dtype)
            whole = whole_elements(region, item.dtype)
            footprint.atomics[kind] = footprint.atomics.get(kind, EMPTY) | whole
            continue
        for part, grain in item.grains or ((item.region, BYTES),):
            footprint.grains.append((part.shift(start), grain.shift(start)))
        if item.exact:
            footprint.exact = footprint.exact | region
        else:
            footprint.inexact = footprint.inexact | region
    for footprint, region in many:
        # What is changed by atomics is not to be read.
        footprint.reads = footprint.reads | (region if footprint.atomics else _in_few(region))
    return found


def _in_few(region: Region) -> Region:
    """Whole rows around what is read, if that is little more: the triangle of a tile, say, is a run in each row, no two of them alike, each
    of which would be planned, kept in states and sent. The region itself, if it is no shape or much lies beside it.
    """
    around = None if type(region) is not Region or region.nboxes > MOST_READ else rows_around(region)
    if around is None or around.nbytes - region.nbytes > min(region.nbytes, region.nboxes * RUN_NBYTES):
        return region
    return around


def whole_elements(region: Region, dtype: str | None) -> Region:
    """The whole aligned elements in `region`.

    An atomic touches whole elements, so a part of one is not touched at all.
    """
    size = np.dtype(dtype).itemsize if dtype else 1
    return region.whole(size)


@dataclass(frozen=True, slots=True)
class AtomicMerge:
    """Bytes that several chunks change by commuting atomics of one kind. `parts[k]`.

    Chunk k's share of `region`.
    """

    op: str
    dtype: str
    region: Region
    parts: tuple[Region, ...]


@dataclass(frozen=True, slots=True)
class Resolution:
    """What a launch's chunks, by number, do to one buffer."""

    #: what must be valid, as far as it is initialised, where the chunk runs, before it does
    needs: tuple[Region, ...]
    #: bytes on which only the chunk has the last word; disjoint
    owns: tuple[Region, ...]
    #: bytes that must be compared with a twin; disjoint from all `owns`
    diff: Region = EMPTY
    #: each chunk's share of `diff`
    diff_parts: tuple[Region, ...] = ()
    #: `diff` in disjoint parts, and where stores begin and end in each
    grains: Grains = ()
    merges: tuple[AtomicMerge, ...] = ()
    #: the host may meanwhile change bytes that no chunk changes: those must not be touched
    apart: bool = False


class Unmergeable(Exception):
    """The chunks cannot run on different workers.

    The message says why, with the source line where it is known.
    """


def resolve(footprints: Sequence[Footprint], *, trust_exact: bool = True) -> Resolution:
    """Whose writes count, for one buffer. Raises Unmergeable.

    A byte that several chunks may write, one of them for sure, belongs to the last chunk that surely writes
    it: that is what running the work-groups in order would leave, or the program has a race. Without
    `trust_exact` (a checking mode that reports races) such bytes are compared with a twin like any others.
    """
    if len(footprints) == 1:
        only = footprints[0]
        used = (only.reads, only.inexact - only.exact, *only.atomics.values())
        return Resolution((Region.union(used),), (only.changes,))
    merges, in_place = _resolve_atomics(footprints)
    writes = [footprint.writes for footprint in footprints]
    shared = covered_twice(writes)
    if not shared:
        owns = [write | atomic for write, atomic in zip(writes, in_place, strict=True)]
        needs = [
            Region.union((f.reads, f.inexact - f.exact, atomic))
            for f, atomic in zip(footprints, in_place, strict=True)
        ]
        return Resolution(tuple(needs), tuple(owns), merges=merges)
    taken = EMPTY
    last_word = [EMPTY] * len(footprints)
    if trust_exact:
        for index in range(len(footprints) - 1, -1, -1):
            last_word[index] = (footprints[index].exact & shared) - taken
            taken = taken | last_word[index]
    diff = shared - taken
    owns, needs = [], []
    for footprint, write, surely, atomic in zip(footprints, writes, last_word, in_place, strict=True):
        own = (write - shared) | surely
        owns.append(own | atomic)
        # If another chunk has the last word it does not matter what this one finds before it writes.
        kept = (footprint.inexact - footprint.exact) & (own | diff)
        needs.append(Region.union((footprint.reads, kept, atomic)))
    parts = tuple(write & diff for write in writes)
    grains = _grains_of(diff, [item for footprint in footprints for item in footprint.grains])
    return Resolution(tuple(needs), tuple(owns), diff, parts, grains, merges)


def resolve_apart(footprints: Sequence[Footprint], *, in_place: bool) -> Resolution:
    """Whose writes count in a fine-grain buffer, where the host may write at the same time to bytes that no chunk
    writes (specification 3.3.3: without atomics it sees the results at the command's end, whatever else it does in
    the allocation). Raises Unmergeable.

    So what is surely written is brought home as it is, and of all that may be written, be it by one chunk alone, only
    what differs from what that chunk has found. A byte that several surely write is the last one's, as in `resolve`.
    `in_place`: all chunks work on the home itself. Then there is nothing to bring there or home; atomics are the
    processor's, which is one for all, if they are of the kind that is merged otherwise.
    """
    merges, alone = _resolve_atomics(footprints)
    if in_place:
        nothing = (EMPTY,) * len(footprints)
        return Resolution(nothing, nothing, apart=True)
    surely = EMPTY
    owns = [EMPTY] * len(footprints)
    for index in range(len(footprints) - 1, -1, -1):
        owns[index] = footprints[index].exact - surely
        surely = surely | owns[index]
    parts = tuple(
        (footprint.inexact | atomic) - surely for footprint, atomic in zip(footprints, alone, strict=True)
    )
    needs = tuple(footprint.reads | part for footprint, part in zip(footprints, parts, strict=True))
    diff = Region.union(parts)
    stores = [item for footprint in footprints for item in footprint.grains]
    for footprint in footprints:
        for (_, dtype), region in footprint.atomics.items():
            stores.append((region, of_unit(np.dtype(dtype).itemsize) if dtype else BYTES))
    return Resolution(needs, tuple(owns), diff, parts, _grains_of(diff, stores), merges, apart=True)


def _grains_of(diff: Region, stores: Sequence[tuple[Region, Grain]]) -> Grains:
    """`diff` in disjoint parts, each with the cuts of all stores that may reach it."""
    if not diff:
        return ()
    regions: dict[Grain, list[Region]] = {}
    for region, grain in stores:
        regions.setdefault(grain, []).append(region)
    if len(regions) == 1:
        return tuple((diff, grain) for grain in regions)
    parts = {NOTHING: diff}
    for grain, reached in regions.items():
        covered, cut = Region.union(reached), dict[Grain, Region]()
        for known, part in parts.items():
            for finer, piece in ((known | grain, part & covered), (known, part - covered)):
                if piece:
                    cut[finer] = cut[finer] | piece if finer in cut else piece
        if len(cut) > _MOST_GRAINS:
            return ((diff, joined(regions)),)
        parts = cut
    return tuple((part, grain if grain.cuts else BYTES) for grain, part in parts.items())


def covered_twice(regions: Sequence[Region]) -> Region:
    """The bytes that lie in two or more of the regions."""
    parts = [region for region in regions if region]
    if len(parts) < 2:
        return EMPTY
    if len(parts) == 2:
        return parts[0] & parts[1] if parts[0].overlaps(parts[1]) else EMPTY
    parts.sort(key=lambda region: region.start)
    if all(one.stop <= other.start for one, other in pairwise(parts)):
        return EMPTY  # one behind the other, as blocks of rows are
    return _once_and_twice(parts)[1]


def _once_and_twice(parts: Sequence[Region]) -> tuple[Region, Region]:
    """The bytes that lie in any of the regions, and those in two or more; in halves, each of which has few boxes."""
    if len(parts) == 1:
        return parts[0], EMPTY
    half = len(parts) // 2
    (one, twice_in_one), (other, twice_in_other) = (
        _once_and_twice(parts[:half]),
        _once_and_twice(parts[half:]),
    )
    return one | other, Region.union((twice_in_one, twice_in_other, one & other))


def _resolve_atomics(footprints: Sequence[Footprint]) -> tuple[tuple[AtomicMerge, ...], list[Region]]:
    """What is merged by its operation, and what each chunk changes in place because no other chunk touches
    it.
    """
    in_place = [EMPTY] * len(footprints)
    kinds = sorted({kind for footprint in footprints for kind in footprint.atomics}, key=str)
    if not kinds:
        return (), in_place
    merges: list[AtomicMerge] = []
    for op, dtype in kinds:
        regions = [footprint.atomics.get((op, dtype), EMPTY) for footprint in footprints]
        shared = covered_twice(regions)
        if shared and (op is None or dtype is None):
            raise Unmergeable(
                _explain(footprints, "atomics that cannot be merged touch the same bytes in several chunks")
            )
        if shared and op is not None and dtype is not None:
            merges.append(AtomicMerge(op, dtype, shared, tuple(region & shared for region in regions)))
        for index, region in enumerate(regions):
            in_place[index] = in_place[index] | (region - shared)
    _check_merged_alone(footprints, merges)
    _check_atomics_apart(footprints, in_place)
    return tuple(merges), in_place


def _check_merged_alone(footprints: Sequence[Footprint], merges: Sequence[AtomicMerge]) -> None:
    """Merged bytes start from the operation's identity on each worker.

    Nothing else may look at them or change them.
    """
    for merge in merges:
        for footprint in footprints:
            others = [region for kind, region in footprint.atomics.items() if kind != (merge.op, merge.dtype)]
            if any(
                merge.region.overlaps(part)
                for part in (footprint.reads, footprint.exact, footprint.inexact, *others)
            ):
                raise Unmergeable(
                    _explain(
                        footprints, "bytes changed by atomics in several chunks are also accessed otherwise"
                    )
                )


def _check_atomics_apart(footprints: Sequence[Footprint], in_place: Sequence[Region]) -> None:
    """Bytes that one chunk changes by atomics in place.

    Another chunk that accesses them could be waiting for the change.
    """
    for index, region in enumerate(in_place):
        if not region:
            continue
        for other, footprint in enumerate(footprints):
            if other == index:
                continue
            parts = (footprint.reads, footprint.exact, footprint.inexact, *footprint.atomics.values())
            if any(region.overlaps(part) for part in parts):
                raise Unmergeable(
                    _explain(footprints, "bytes changed by atomics in one chunk are accessed by another")
                )


def _explain(footprints: Sequence[Footprint], what: str) -> str:
    """`what`, with the argument and the line of the first atomic that analysis named."""
    for footprint in footprints:
        for source in footprint.sources:
            if source.mode == "atomic":
                return format_reason(f"{argument_name(source)}: {what}", source.reason, source.line)
    return what


def argument_name(source: AccessRange) -> str:
    """What a message calls the argument of an access."""
    return f"argument `{source.name}`" if source.name else f"argument {source.arg}"


def format_reason(what: str, why: str | None, line: int | None) -> str:
    """One line for a plan's reasons: `what`, in brackets `why`, and the source line."""
    text = f"{what} ({why})" if why else what
    return f"{text}, line {line}" if line is not None else text
