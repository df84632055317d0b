"""Instructions: what a plan consists of, and exactly what the executor has to do for each.

An instruction names buffers by *slot* (position in the tuple of states the plan was made for), never by
identity, so that one plan serves every command of the same shape. It decides nothing and holds no memory.

Holders. Bytes of a buffer live at a holder: `HOST` is the buffer's home in host memory (as long as the
buffer: byte b at index b), a worker's number is its replica there (device memory covering [start, stop) of
the buffer: byte b at replica offset b - start). All regions are in bytes of the buffer. Where an instruction
names a holder that is a worker, the replica exists and covers the region, provided the instructions before it
in that worker's order have been carried out.

Order. Instructions of one worker run in the order listed, each seeing the effects of those before it (an
in-order queue does). Everything else that matters is in `Plan.dependencies`: an instruction may start when
those named there have completed. Instructions on `HOST` have no order of their own: all their dependencies
are listed, also those on one another. `Plan.touches` says which bytes each instruction reads and writes at
which holder, for ordering against other plans.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar, overload

from vdev.planner.directory import HOST, BufferState
from vdev.translators.ranges.grain import BYTES, Grain
from vdev.translators.ranges.ndrange import Chunk
from vdev.translators.ranges.region import Region
from vdev.translators.values import dataclass

__all__ = [
    "HOST",
    "Combine",
    "Copy",
    "CopyBetween",
    "Download",
    "Fetch",
    "Fill",
    "Fold",
    "Gather",
    "Instruction",
    "Launch",
    "Merge",
    "Plan",
    "Reserve",
    "Restore",
    "Stage",
    "Touch",
    "Upload",
]


T_co = TypeVar("T_co", covariant=True)

#: bytes to multiples of which stages on workers are aligned in the buffer: the largest word that merges compare
STAGE_ALIGNMENT = 16

#: the most bytes at a time that a fold copies to its worker, where that cannot read its peers' memory in place
FOLD_NBYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Reserve:
    """Make `worker`'s replica of `slot` an allocation that covers exactly [start, stop).

    Where `start` == `stop`: free it, have none. There is no replica or a different one before. The bytes of
    `keep` lie in the old and in the new one and must survive (a copy from the old allocation into the new one
    on the worker); all others are undefined afterwards. `start` is a multiple of the planner's granularity,
    so alignment within the buffer is alignment in the allocation. `sparse`: little of it is going to be touched
    (`Backend.allocate_sparse`); it is given back in the same plan.
    """

    worker: int
    slot: int
    start: int
    stop: int
    keep: Region
    sparse: bool = False


class Copy(NamedTuple):
    """Copy `region` of `slot` from holder `source` to holder `target`, never the same.

    Runs on `worker`: the target, or the source where the target is HOST. `region.blocks()` gives the
    rectangular copies. `result`: it is part of what the command does (what a launch has changed in a fine-grain
    buffer goes home), so it is left out where the command fails; any other only keeps holders coherent.
    """

    worker: int
    slot: int
    source: int
    target: int
    region: Region
    result: bool = False


@dataclass(frozen=True, slots=True)
class Fetch:
    """Copy `region` of `worker`'s replica of `slot` into the plan's stage number `stage` (see `Stage`),
    without touching the home.
    """

    worker: int
    slot: int
    region: Region
    stage: int


@dataclass(frozen=True, slots=True)
class Merge:
    """Combine stages into the home of `slot`, on the host. Each stage counts on its own `Stage.region`;
    `region` is their union.

    `op` 'diff': the home's content before the merge is the twin. Take it first, then for each stage in the order
    given: where stage and twin differ, unit by unit, the stage's unit goes into the home: of several values
    written to one place one survives, and no mixture does. Units are those of `grain` in the buffer; where a run
    cuts through one, its part in the run counts as one. What no stage changed stays.

    `op` 'add', 'min', 'max', 'and', 'or' or 'xor': for each stage in
    order, home = home op stage, on elements of `dtype` (a NumPy name, integers wrap around). Then every run
    of the regions is a whole number of elements, aligned to the element's size in the buffer.

    `apart`: the host may be writing to other bytes of the home meanwhile, so nothing is written there that no
    stage has changed, not even the same value. For 'diff' each stage then has a twin of its own among `twins`,
    a stage with what the worker had before; for the others, elements that are the operation's identity are
    left out.
    """

    slot: int
    region: Region
    stages: tuple[int, ...]
    op: str
    dtype: str
    apart: bool = False
    twins: tuple[int, ...] = ()
    grain: Grain = BYTES

    worker = HOST


@dataclass(frozen=True, slots=True)
class Gather:
    """Copy `region` of worker `source`'s replica of `slot` into stage number `stage`, memory of `worker`: from
    a peer, or from its own replica. The stage's memory is taken by this.
    """

    worker: int
    slot: int
    source: int
    region: Region
    stage: int


@dataclass(frozen=True, slots=True)
class Combine:
    """Merge one chunk's version of `region` into stage `target`, all on `worker`.

    The version is stage `stage`, given back afterwards; the worker's replica of `slot` where that is None.
    `twin`: the stage it is compared with, for `op` 'diff' (a unit that differs goes into the target), else
    None. `op`, `dtype` and `grain` are as in `Merge`.
    """

    worker: int
    slot: int
    region: Region
    stage: int | None
    target: int
    twin: int | None
    op: str
    dtype: str
    grain: Grain = BYTES


@dataclass(frozen=True, slots=True)
class Restore:
    """Copy `region` of stage `stage`, memory of `worker`, into its replica of `slot`, and give that stage and
    `twin` (None: no other) back.
    """

    worker: int
    slot: int
    region: Region
    stage: int
    twin: int | None


@dataclass(frozen=True, slots=True)
class Fold:
    """Combine what other workers hold into `worker`'s replica of `slot`, in place: for each (source, bytes) of `parts` in
    order, there, replica = replica op `source`'s replica. `region` is the union of these bytes.

    `op` and `dtype` are as in `Merge`, and `op` is not 'diff'; the bytes of each part are whole elements.
    """

    worker: int
    slot: int
    region: Region
    parts: tuple[tuple[int, Region], ...]
    op: str
    dtype: str


@dataclass(frozen=True, slots=True)
class Fill:
    """Fill `region` of `slot` at holder `worker` (HOST: the home) with `pattern`.

    Each run holds whole patterns, from its first byte.
    """

    worker: int
    slot: int
    region: Region
    pattern: bytes


@dataclass(frozen=True, slots=True)
class CopyBetween:
    """Copy a box of bytes within one holder, `worker` (HOST: between homes), from one slot to another or to
    itself (no overlap).

    `shape` is (slices, rows, bytes in a row); the starts are byte offsets in the buffers, the pitches (slice,
    row) in bytes.
    """

    worker: int
    source_slot: int
    target_slot: int
    shape: tuple[int, int, int]
    source_start: int
    source_pitches: tuple[int, int]
    target_start: int
    target_pitches: tuple[int, int]


class Launch(NamedTuple):
    """Run `chunk` of the command's NDRange on `worker`.

    `bases`: for each pointer argument (argument index, slot, shift): the kernel gets the worker's replica of
    the slot as the argument and `shift` = replica start - argument's offset in the buffer, in bytes, may be
    negative, through the hidden argument (PPoPP'11 section 3.5). `homes`: for each pointer argument that is
    used in place (argument index, slot, offset): the kernel gets the address of that byte of the home.
    Pointer arguments that are not listed are NULL. `extents`: (slot, start, stop) of the replicas of `bases`, on
    which the shifts depend. `is_interior`: what comes behind it on `worker` may run beside it: it changes no byte that this touches, and
    touches none that this changes.
    """

    worker: int
    chunk: Chunk
    bases: tuple[tuple[int, int, int], ...]
    homes: tuple[tuple[int, int, int], ...] = ()
    extents: tuple[tuple[int, int, int], ...] = ()
    is_interior: bool = False


@dataclass(frozen=True, slots=True)
class Upload:
    """Copy the command's host array into holder `worker` of `slot`, for the bytes of `region` only, a part of
    the command's box.

    The command's layout says where a buffer byte lies in the host array.
    """

    worker: int
    slot: int
    region: Region


@dataclass(frozen=True, slots=True)
class Download:
    """Copy `region` of `slot` from holder `worker` into the command's host array, at the places the command's
    layout gives.

    The region is any part of the box. Where the layout is not contiguous `worker` is HOST or one of
    `LinkCosts.direct`. Bytes that were never written have no holder, and the host array keeps what it had
    there.
    """

    worker: int
    slot: int
    region: Region


Instruction = (
    Reserve
    | Copy
    | Fetch
    | Merge
    | Gather
    | Combine
    | Restore
    | Fold
    | Fill
    | CopyBetween
    | Launch
    | Upload
    | Download
)


@dataclass(frozen=True, slots=True)
class Stage:
    """Memory of one plan, in host memory or a worker's.

    On HOST one byte for each of [region.start, region.stop), byte b of the buffer at index b - region.start,
    needed from its Fetch to its Merge. On a worker from its Gather to its Combine or Restore, from `start` on.
    Only the bytes of `region` are ever written or read.
    """

    slot: int
    region: Region
    worker: int = HOST

    @property
    def start(self) -> int:
        """The buffer's byte at index 0 of a worker's stage: alignment in the buffer is alignment in memory."""
        return self.region.start - self.region.start % STAGE_ALIGNMENT

    @property
    def nbytes(self) -> int:
        """What a worker's stage takes."""
        return self.region.stop - self.start


class Touch(NamedTuple):
    """Bytes `region` of `slot` at `holder` are read, or changed where `writes` (also by moving the
    allocation).
    """

    slot: int
    holder: int
    region: Region
    writes: bool


class Deferred(Sequence[T_co]):
    """A sequence that is made when somebody looks at it, which on the way to a worker nobody does."""

    __slots__ = ("_found", "_make")

    def __init__(self, make: Callable[[], tuple[T_co, ...]]) -> None:
        self._make = make
        self._found: tuple[T_co, ...] | None = None

    @property
    def made(self) -> tuple[T_co, ...]:
        if self._found is None:
            self._found = self._make()
        return self._found

    @overload
    def __getitem__(self, place: int) -> T_co: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[T_co, ...]: ...
    def __getitem__(self, place: Any) -> Any:
        return self.made[place]

    def __len__(self) -> int:
        return len(self.made)

    def __eq__(self, other: object) -> bool:
        return self.made == (other.made if isinstance(other, Deferred) else other)

    def __hash__(self) -> int:
        return hash(self.made)


class Blocks(NamedTuple):
    """The bytes that a plan's copies move, in blocks (`Region.blocks`), of plans that are alike but for their numbers."""

    counts: Sequence[int]  #: by instruction, of how many blocks; 0 for one that is no copy
    #: gives the numbers of all of them, as `Block` has them; None where the bytes make other blocks in this plan
    numbers: Callable[[], tuple[int, ...] | None]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """One command's instructions, and who holds what when they are done. Immutable.

    Shared by all commands of the same shape.
    """

    instructions: tuple[Instruction, ...]
    #: for each instruction the indices of earlier ones, of other workers or of HOST, that must have completed
    #: before it starts
    dependencies: tuple[tuple[int, ...], ...]
    #: for each instruction the bytes it reads and writes (stages are the plan's own and not listed)
    touches: Sequence[tuple[Touch, ...]]
    #: by slot: the buffers' states afterwards
    states: tuple[BufferState, ...]
    #: staging areas, by number
    stages: tuple[Stage, ...] = ()
    #: for a launch: one chunk for each worker that takes part, as (worker, chunk)
    partition: tuple[tuple[int, Chunk], ...] = ()
    #: for a launch: why it was not split over all workers, or what had to be merged; with source lines
    reasons: tuple[str, ...] = ()
    #: bytes that move between holders when the plan runs, as (source, target, nbytes), sorted
    moved: tuple[tuple[int, int, int], ...] = ()
    #: the workers that execute something, ascending, without HOST
    workers: tuple[int, ...] = field(default=())
    #: slots whose content the command hands on, also where no instruction says so: bytes at home already, and
    #: bytes that a failure took from everybody
    reads: tuple[int, ...] = ()
    #: slots whose content it changes, also where no instruction says so: a copy of bytes that nobody has
    writes: tuple[int, ...] = ()
    #: slots that the command replaces whole without reading them, where instructions do not say so
    overwrites: tuple[int, ...] = ()
    #: by worker whose memory changes: (worker, bytes more than before, the most meanwhile), ascending
    growth: tuple[tuple[int, int, int], ...] = ()
    #: for a launch that is cut by measured times: seconds that moving for it takes longer than for an even cut
    recut: float | None = None
    #: of a plan that was filled in: what its copies move, where that follows from its numbers as well
    blocks: Blocks | None = None

    @property
    def moved_nbytes(self) -> int:
        """All bytes that move between holders."""
        return sum(map(itemgetter(2), self.moved))


def moves_of(item: Instruction) -> tuple[tuple[int, int, int], ...]:
    """(source, target, bytes) of what an instruction moves between holders, as `Plan.moved` counts it: copies, fetches, gathers
    and folds from peers, and exchange of workers with the host. Reserving and copies within a holder move nothing.
    """
    if isinstance(item, Copy):
        return ((item.source, item.target, item.region.nbytes),)
    if isinstance(item, (Fetch, Download)) and item.worker != HOST:
        return ((item.worker, HOST, item.region.nbytes),)
    if isinstance(item, Gather) and item.source != item.worker:
        return ((item.source, item.worker, item.region.nbytes),)
    if isinstance(item, Fold):
        return tuple([(source, item.worker, part.nbytes) for source, part in item.parts])
    if isinstance(item, Upload) and item.worker != HOST:
        return ((HOST, item.worker, item.region.nbytes),)
    return ()


def moved_bytes(
    instructions: Iterable[Instruction], beside: Iterable[tuple[int, int, int]] = ()
) -> tuple[tuple[int, int, int], ...]:
    """What `Plan.moved` says. `beside`: what others move than these instructions."""
    found = list(beside)
    for item in instructions:
        if type(item) is Copy:
            found.append((item.source, item.target, item.region.nbytes))
        elif type(item) is not Launch:
            found += moves_of(item)
    if len(set(map(itemgetter(0, 1), found))) == len(
        found
    ):  # as where everybody needs something of everybody: n * n of them
        return tuple(sorted(found))
    routes: dict[tuple[int, int], int] = {}
    for source, target, nbytes in found:
        routes[source, target] = routes.get((source, target), 0) + nbytes
    return tuple([(source, target, nbytes) for (source, target), nbytes in sorted(routes.items())])
