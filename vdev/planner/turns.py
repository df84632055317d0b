"""Launches for which there is no room at once: taken in turns, each of as many work-groups as fit.

Decides into which turns a launch is cut, and on which worker each runs. Any set of whole work-groups is as good a chunk
as any other, and work-groups have no order, so turns may follow one another. Before them everything is brought
home; each fetches from there what it needs into memory of its own, and brings back what it has changed. So there is
nothing to merge: where turns touch the same bytes, the later one waits for the earlier. It is the last resort, slow
and right.

A kernel may touch bytes that lie far apart (a grid-stride loop goes through the whole buffer with every work-group).
Then the hull of a turn may be as large as the buffer however few work-groups it has, and is held *sparse*: in memory of
which only what is touched takes any (`Backend.allocate_sparse`).
"""

from __future__ import annotations

from collections.abc import Sequence

from vdev.planner.builder import GRANULE, PlanBuilder, round_out
from vdev.planner.directory import HOST, BufferState
from vdev.planner.footprints import Footprint, Unmergeable, gather, resolve
from vdev.planner.instructions import Launch, Plan, Touch
from vdev.planner.launch_request import LaunchOptions, LaunchRequest
from vdev.planner.partitioner import make_partition, widest_partitions
from vdev.translators.ranges.ndrange import Chunk
from vdev.translators.ranges.region import Region
from vdev.translators.values import dataclass

#: turns of one launch, at most: one of more is planned for longer than anybody waits
MOST_TURNS = 4096
#: a hull of more than this many times what is touched of it is held sparse, if it does not fit as it is
_GAPS = 1.25


@dataclass(frozen=True, slots=True)
class Hold:
    """Bytes [start, stop) of a slot, held for one turn. `counted`: bytes of the worker's memory for it."""

    start: int
    stop: int
    counted: int
    sparse: bool


@dataclass(frozen=True, slots=True)
class Turn:
    """`chunk` on `worker`, with what it does and what it holds by slot."""

    worker: int
    chunk: Chunk
    footprints: dict[int, Footprint]
    holds: dict[int, Hold]


def plan_in_turns(
    states: Sequence[BufferState], request: LaunchRequest, options: LaunchOptions, room: Sequence[int]
) -> Plan | None:
    """The plan of one launch, which takes no more than `room` bytes of each worker; None where there is none.

    `states`: by slot, each buffer once. Afterwards the homes alone hold them.
    """
    if any(state.fine for state in states) or request.ndrange.nitems == 0:
        return None
    turns = find_turns([state.nbytes for state in states], request, options, room)
    if turns is None:
        return None
    builder = PlanBuilder(states, options.links)
    for slot, state in enumerate(states):
        for worker, _, _ in state.replicas:
            builder.resize(slot, worker, 0, 0)
    for turn in turns:
        _take_turn(builder, request, turn)
    sparse = any(hold.sparse for turn in turns for hold in turn.holds.values())
    reason = f"in {len(turns)} turns, from host memory and back: no worker has room for what it uses at once"
    return builder.finish(
        [(turn.worker, turn.chunk) for turn in turns],
        [reason + (", which lies far apart" if sparse else "")],
    )


def find_turns(
    sizes: Sequence[int], request: LaunchRequest, options: LaunchOptions, room: Sequence[int]
) -> list[Turn] | None:
    """The turns in order, no two of a row on the same worker where there are several; None where a single work-group does
    not fit, or the work-groups must be together. `sizes`: bytes of each slot's buffer.
    """
    search = _Search(sizes, request, room)
    groups, workers = request.ndrange.num_groups, options.workers
    if not request.one_worker and not request.whole_replicas:
        for partition in widest_partitions(groups, len(workers)):
            found = [
                search.cut(chunk, worker) for chunk, worker in zip(partition.chunks, workers, strict=False)
            ]
            if all(found) and _may_be_apart([turn for turns in found for turn in turns]):
                return _in_rounds(found)
    (whole,) = make_partition(groups, (1,) * len(groups)).chunks
    best = max(workers, key=lambda worker: room[worker])
    turn = search.turn(whole, best)
    return None if turn is None else [turn]


def _may_be_apart(turns: Sequence[Turn]) -> bool:
    """Whether work-groups of different turns need not run at the same time: none looks at what another one changes by
    atomics, for which it might wait.
    """
    try:
        for slot in turns[0].footprints:
            resolve([turn.footprints[slot] for turn in turns])
    except Unmergeable:
        return False
    return True


def _in_rounds(of_workers: Sequence[Sequence[Turn]]) -> list[Turn]:
    most = max(len(turns) for turns in of_workers)
    return [turns[number] for number in range(most) for turns in of_workers if number < len(turns)]


class _Search:
    """Turns that fit."""

    def __init__(self, sizes: Sequence[int], request: LaunchRequest, room: Sequence[int]) -> None:
        self._sizes = sizes
        self._request = request
        self._room = room
        self._left = MOST_TURNS

    def cut(self, chunk: Chunk, worker: int) -> list[Turn]:
        """`chunk` in turns on `worker`; empty where there is no room for a part that cannot be cut further."""
        turn = self.turn(chunk, worker)
        if turn is not None:
            self._left -= 1
            return [turn]
        parts = _halves(chunk)
        if not parts or self._left <= 0:
            return []
        found: list[Turn] = []
        for part in parts:
            of_part = self.cut(part, worker)
            if not of_part:
                return []
            found += of_part
        return found

    def turn(self, chunk: Chunk, worker: int) -> Turn | None:
        """`chunk` as one turn, if it fits."""
        request = self._request
        footprints = gather(request.args, request.evaluate(chunk))
        anywhere = {pointer.slot: pointer.offset for pointer in reversed(request.args)}
        room = self._room[worker]
        for sparse in (False, True):
            holds = {
                slot: self._hold(slot, footprint, anywhere[slot], sparse=sparse)
                for slot, footprint in footprints.items()
            }
            if sum(hold.counted for hold in holds.values()) <= room:
                return Turn(worker, chunk, footprints, holds)
        return None

    def _hold(self, slot: int, footprint: Footprint, anywhere: int, *, sparse: bool) -> Hold:
        """`sparse`: whether it may be."""
        nbytes = self._sizes[slot]
        bounds = (0, nbytes) if self._request.whole_replicas else footprint.bounds()
        if bounds is None:  # not touched: something to point to
            start = min(anywhere, nbytes - 1)
            bounds = (start, start + 1)
        start, stop = round_out(*bounds, nbytes)
        touched = min((footprint.reads | footprint.changes).nbytes + GRANULE, stop - start)
        if sparse and not self._request.whole_replicas and stop - start > _GAPS * touched:
            return Hold(start, stop, touched, True)
        return Hold(start, stop, stop - start, False)


def _halves(chunk: Chunk) -> list[Chunk]:
    """The chunk cut across the slowest dimension that has several work-groups; nothing where none has."""
    for axis in range(len(chunk.start) - 1, -1, -1):
        start, stop = chunk.start[axis], chunk.stop[axis]
        if stop - start > 1:
            middle = (start + stop) // 2
            first = (*chunk.stop[:axis], middle, *chunk.stop[axis + 1 :])
            second = (*chunk.start[:axis], middle, *chunk.start[axis + 1 :])
            return [Chunk(chunk.start, first), Chunk(second, chunk.stop)]
    return []


def _take_turn(builder: PlanBuilder, request: LaunchRequest, turn: Turn) -> None:
    """Fetch, launch, bring home, let go."""
    worker, touches = turn.worker, []
    for slot, hold in turn.holds.items():
        builder.hold(slot, worker, hold.start, hold.stop, hold.counted, sparse=hold.sparse)
    for slot, footprint in turn.footprints.items():
        needs = Region.union(
            (footprint.reads, footprint.inexact - footprint.exact, *footprint.atomics.values())
        )
        if request.whole_replicas:
            needs = Region.span(0, builder.drafts[slot].nbytes)
        fetched = needs & builder.drafts[slot].valid_at(HOST)
        if fetched:
            builder.copy(slot, HOST, worker, fetched)
        if footprint.reads:
            touches.append(Touch(slot, worker, footprint.reads, False))
        if footprint.changes:
            touches.append(Touch(slot, worker, footprint.changes, True))
    bases = tuple(
        (pointer.arg, pointer.slot, turn.holds[pointer.slot].start - pointer.offset)
        for pointer in request.args
    )
    builder.launch(Launch(worker, turn.chunk, bases), touches)
    for slot, footprint in turn.footprints.items():
        if footprint.changes:
            builder.bring_home(slot, worker, footprint.changes)
        builder.let_go(slot, worker, turn.holds[slot].counted)
