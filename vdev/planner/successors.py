"""What later launches read of what a launch leaves, and in which stripes it finds its data: the cuts that it gains by, and what another
cut makes them bring.

A launch that overwrites a buffer moves nothing, however it is cut; the next that reads the buffer may have to bring half of it.
Programs repeat, so it is known from the last time which bytes each worker then read. A reader in strides of its grid reads stripes;
a writer that is cut into blocks that repeat like these leaves each of them where it is read. Then another reader that is cut so finds
each where it lies.

Decides which such cuts there are and what their readers bring after any cut. Which one is taken is `vdev.planner.launch_search`'s to
say, by the sum of what moves before and after.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import pairwise

from vdev.planner.directory import BufferState
from vdev.planner.footprints import Footprint, PointerArg, Resolution, gather
from vdev.planner.instructions import HOST, Launch, Plan
from vdev.planner.links import LinkCosts
from vdev.planner.partitioner import Partition, cyclic_partition
from vdev.translators.interpreter.summaries import AccessRange
from vdev.translators.ranges.ndrange import Chunk, NDRange
from vdev.translators.ranges.region import Region
from vdev.translators.values import dataclass

#: bytes that workers have to bring from each other before it matters who left them where
LEAST_NBYTES = 1 << 20
#: how often the same was read before a launch is planned for it
_OFTEN = 2
#: readings of a buffer for which a launch is planned, and launches of a kernel whose readers are known
_MOST_READINGS, _MOST_KNOWN = 4, 64
#: boxes of what a worker read, above which it is not kept
_MOST_BOXES = 64


@dataclass(frozen=True, slots=True)
class Reading:
    """The bytes of a buffer that each worker of a later launch read, by worker."""

    parts: tuple[tuple[int, Region], ...]


def readings_of(plan: Plan) -> Iterator[tuple[int, Reading]]:
    """By slot, what the chunks of a plan read in stripes of buffers, where much was brought from other workers."""
    if len(plan.partition) < 2:
        return
    brought = sum(nbytes for source, target, nbytes in plan.moved if HOST not in (source, target))
    if brought < LEAST_NBYTES:
        return
    found: dict[int, dict[int, Region]] = {}
    for item, touches in zip(plan.instructions, plan.touches, strict=True):
        if not isinstance(item, Launch):
            continue
        for touch in touches:
            if not touch.writes and touch.holder == item.worker:
                found.setdefault(touch.slot, {})[item.worker] = touch.region
    for slot, parts in found.items():
        if len(parts) > 1 and sum(region.nboxes for region in parts.values()) <= _MOST_BOXES:
            reading = Reading(tuple(sorted(parts.items(), key=lambda part: part[0])))
            if _stripes(reading) is not None:
                yield slot, reading


def lying_in_stripes(states: Sequence[BufferState]) -> dict[int, tuple[Reading, ...]]:
    """By slot, what each worker holds of buffers that lie on them in stripes."""
    found: dict[int, tuple[Reading, ...]] = {}
    for slot, state in enumerate(states):
        held = [(holder, region) for holder, region in state.valid if holder != HOST]
        if len(held) > 1 and sum(region.nboxes for _, region in held) <= _MOST_BOXES:
            lying = Reading(tuple(held))
            if _stripes(lying) is not None:
                found[slot] = (lying,)
    return found


class Successors:
    """What is read later of what launches of one kernel leave, by launches and arguments that are alike."""

    __slots__ = ("_known", "_used")

    def __init__(self) -> None:
        self._known: dict[Hashable, dict[Reading, int]] = {}
        self._used: set[Hashable] = set()  #: of which readings are used

    def __bool__(self) -> bool:
        return bool(self._used)

    def note(self, place: Hashable, reading: Reading) -> bool:
        """What was left there is read so. Whether it has been read so often that launches should be planned for that (`use`)."""
        if place not in self._known and len(self._known) >= _MOST_KNOWN:
            return False
        seen = self._known.setdefault(place, {})
        if reading not in seen and len(seen) >= _MOST_READINGS:
            return False
        seen[reading] = seen.get(reading, 0) + 1
        return seen[reading] == _OFTEN

    def use(self, place: Hashable) -> None:
        """Launches that leave something there are planned from now on for how it is read: plans are to be made anew."""
        self._used.add(place)

    def of(self, place: Hashable) -> tuple[Reading, ...]:
        """How it is read."""
        seen = self._known.get(place, {}) if place in self._used else {}
        return tuple(reading for reading, count in seen.items() if count >= _OFTEN)

    def clear(self) -> None:
        """Forget everything."""
        self._known.clear()
        self._used.clear()


def cost_of_reading(
    reading: Reading, workers: Sequence[int], resolution: Resolution, links: LinkCosts
) -> float:
    """What its workers have to bring after launches whose chunks on `workers` left the buffer so: as often as it was seen at least, while
    what a launch brings for such a cut may stay where it is then.
    """
    cost = 0.0
    for reader, region in reading.parts:
        for writer, left in zip(workers, resolution.owns, strict=True):
            if writer != reader and left:
                piece = region & left
                cost += piece.nbytes * links.per_byte[writer][reader] + piece.nruns * links.per_run
    return _OFTEN * cost


def cuts_in_stripes(
    readings: Mapping[int, Sequence[Reading]],
    args: Sequence[PointerArg],
    ndrange: NDRange,
    evaluate: Callable[[Chunk], Sequence[AccessRange]],
    *,
    reads: bool = False,
) -> Iterator[tuple[Partition, tuple[int, ...]]]:
    """Partitions into blocks that repeat as bytes are read later, with their workers. `readings`: by slot. `reads`: or that repeat as
    these lie, where the launch reads them.
    """
    groups = ndrange.num_groups
    for slot, of_slot in readings.items():
        for reading in of_slot:
            stripes = _stripes(reading)
            if stripes is None:
                continue
            starts, period, workers = stripes
            for axis, count in enumerate(groups):
                step = _step(args, evaluate, len(groups), axis, slot, reads) if count > 1 else None
                if step is None or period % step[1]:
                    continue
                first, width = step
                edges = [0, *(round((start - first) / width) for start in starts[1:]), period // width]
                if 2 * edges[-1] <= count and all(a < b for a, b in pairwise(edges)):
                    yield cyclic_partition(groups, axis, edges), workers


def _stripes(reading: Reading) -> tuple[list[int], int, tuple[int, ...]] | None:
    """Where each worker's stripes begin, how far apart they are, and the workers in this order; None where there are none."""
    found = []
    for worker, region in reading.parts:
        start, _, dims = max(region.parts(), key=lambda part: part[1] * len(part[2]), default=(0, 0, ()))
        if len(dims) != 1:
            return None
        found.append((start, dims[0][0], worker))
    found.sort()
    periods = {period for _, period, _ in found}
    starts = [start for start, _, _ in found]
    (period, *others) = periods
    if others or starts[-1] - starts[0] >= period:
        return None
    return starts, period, tuple(worker for _, _, worker in found)


def _step(
    args: Sequence[PointerArg],
    evaluate: Callable[[Chunk], Sequence[AccessRange]],
    work_dim: int,
    axis: int,
    slot: int,
    reads: bool,
) -> tuple[int, int] | None:
    """The first byte that the first work-group along a dimension changes of a buffer, or `reads`, and how many later the next one's
    is.
    """
    starts = []
    for group in (0, 1):
        start = tuple(group if d == axis else 0 for d in range(work_dim))
        chunk = Chunk(start, tuple(at + 1 for at in start))
        footprint: Footprint | None = gather(args, evaluate(chunk)).get(slot)
        region = None if footprint is None else footprint.reads if reads else footprint.changes
        if not region:
            return None
        starts.append(region.start)
    width = starts[1] - starts[0]
    return (starts[0], width) if width > 0 else None
