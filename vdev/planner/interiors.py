"""Interiors: the work-groups of a chunk that need none of the bytes which its plan brings to its worker first.

They can run while the bytes come. Takes a finished plan of a launch, whose chunks begin when their bytes are there, and makes it one in
which a chunk's *interior* is launched before the transfers, and its *border*, all the other work-groups, behind them: whoever carries the
plan out may do both aside, beside the interior (`vdev.executor.legs`). What the plan leaves is the same. Decides which plans can be
divided, never which are worth it; never looks at a kernel's source: access ranges come from a callable.

A plan is left as it is wherever the order of its parts might matter:

- an interior reads no byte that the plan brings to its worker, and changes none that the plan copies, be it to its worker or from it;
- nothing in the plan waits for another worker's part of it;
- nothing but copies and launches is in it: no memory changes, and nothing is merged.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import product

from vdev.planner.footprints import PointerArg, covered_twice, gather
from vdev.planner.instructions import Copy, Instruction, Launch, Plan, Touch
from vdev.planner.launch_request import Evaluate
from vdev.translators.ranges.ndrange import Chunk
from vdev.translators.ranges.region import EMPTY, Region
from vdev.translators.values import dataclass, replace

#: a border of more than this part of its chunk's work-groups is not worth a launch of its own
MOST_BORDER = 0.25
#: dimensions that a chunk is cut in, above which it has too many sides
_MOST_AXES = 2

#: (dimension, whether it is the far end)
Side = tuple[int, bool]


@dataclass(frozen=True, slots=True)
class Divided:
    """A plan with interiors; None, and why, where there is none."""

    plan: Plan | None
    reason: str = ""
    #: by worker with an interior: the part of its chunk's work-groups that is in the border
    borders: tuple[tuple[int, float], ...] = ()


def divided(plan: Plan, args: Sequence[PointerArg], num_groups: Sequence[int], evaluate: Evaluate) -> Divided:
    """A launch's plan with the interiors that its chunks have. `num_groups`, `evaluate`: of the launch.

    Raises what `evaluate` raises.
    """
    if reason := _reason_against(plan):
        return Divided(None, reason)
    moved = _copied(plan, None)
    found: dict[int, tuple[Chunk, tuple[Touch, ...]]] = {}
    for item, touches in zip(plan.instructions, plan.touches, strict=True):
        if not isinstance(item, Launch) or not (arriving := _copied(plan, item.worker)):
            continue
        if any(each.mode == "atomic" for each in evaluate(item.chunk)):
            return Divided(None, "its chunks use atomics")
        looks = _Looks(args, evaluate, arriving, moved, touches)
        inside = interior(item.chunk, _cut_axes(item.chunk, num_groups), looks.is_free)
        if inside is not None:
            found[item.worker] = inside, looks.touches(inside)
    if not found:
        return Divided(None, "the bytes that come are needed by work-groups all over the chunks")
    return Divided(_rearranged(plan, found), "", tuple(_borders(plan, found)))


def gain(before: float, kernel: float, launch: float) -> float:
    """Seconds by which launches take less whose chunks have interiors. `before`: what transfers take; `kernel`: what the longest chunk
    takes; `launch`: what one more launch on a worker takes, whatever it does.

    The border runs behind the transfers, beside the interior, and takes no less than a launch does; the two together take the GPU no longer
    than the whole chunk would.

    >>> round(gain(before=30e-6, kernel=235e-6, launch=5e-6) * 1e6), round(gain(before=8e-6, kernel=10e-6, launch=5e-6) * 1e6)
    (30, 5)
    """
    return before + kernel - max(before + launch, kernel)


def _reason_against(plan: Plan) -> str:
    """Why a plan stays as it is, whatever its chunks touch; empty for nothing."""
    kinds = [type(item) for item in plan.instructions]
    if set(kinds) != {Copy, Launch} or any(plan.dependencies):
        return "it has other parts than copies and chunks, or some that wait for each other"
    if kinds.index(Launch) < kinds.count(Copy):
        return "something is copied behind its chunks"
    launches = [item for item in plan.instructions if isinstance(item, Launch)]
    if len({item.worker for item in launches}) < len(launches):
        return "a worker has several chunks"
    if any(item.chunk.cycle is not None or item.homes or item.is_interior for item in launches):
        return "its chunks are blocks in turn, or use homes"
    changed: dict[int, list[Region]] = {}
    for item, touches in zip(plan.instructions, plan.touches, strict=True):
        for touch in touches if isinstance(item, Launch) else ():
            if touch.writes:
                changed.setdefault(touch.slot, []).append(touch.region)
    if any(covered_twice(regions) for regions in changed.values()):
        return "several chunks write the same bytes"
    return ""


def _copied(plan: Plan, target: int | None) -> dict[int, Region]:
    """By slot, all bytes that the plan copies to a worker; None: to anybody."""
    found: dict[int, Region] = {}
    for item in plan.instructions:
        if isinstance(item, Copy) and target in (None, item.target):
            found[item.slot] = found.get(item.slot, EMPTY) | item.region
    return found


def _cut_axes(chunk: Chunk, num_groups: Sequence[int]) -> list[int]:
    """The dimensions that the chunk does not cover."""
    return [axis for axis, count in enumerate(chunk.counts) if count < num_groups[axis]]


class _Looks:
    """What parts of one chunk touch."""

    __slots__ = ("_args", "_arriving", "_evaluate", "_known", "_moved", "_of_chunk")

    def __init__(
        self,
        args: Sequence[PointerArg],
        evaluate: Evaluate,
        arriving: dict[int, Region],
        moved: dict[int, Region],
        of_chunk: Sequence[Touch],
    ) -> None:
        self._args, self._evaluate = args, evaluate
        self._arriving, self._moved = arriving, moved
        self._of_chunk = of_chunk
        self._known: dict[Chunk, tuple[Touch, ...]] = {}

    def touches(self, part: Chunk) -> tuple[Touch, ...]:
        """What a part touches: no more than the chunk does."""
        found = self._known.get(part)
        if found is None:
            found = self._known[part] = tuple(self._look(part))
        return found

    def _look(self, part: Chunk) -> Iterator[Touch]:
        footprints = gather(self._args, self._evaluate(part))
        for touch in self._of_chunk:
            footprint = footprints[touch.slot]
            region = touch.region & (footprint.changes if touch.writes else footprint.reads)
            if region:
                yield Touch(touch.slot, touch.holder, region, touch.writes)

    def is_free(self, part: Chunk) -> bool:
        """Whether a part touches no byte that comes to its worker, and changes none that goes to another one."""
        return not any(
            touch.region.overlaps((self._moved if touch.writes else self._arriving).get(touch.slot, EMPTY))
            for touch in self.touches(part)
        )


def interior(chunk: Chunk, axes: Sequence[int], is_free: Callable[[Chunk], bool]) -> Chunk | None:
    """The chunk without layers of work-groups at its sides in some dimensions, so that it `is_free`; None where the layers would have
    to be many. No layer can be left out of those that it lacks.

    >>> interior(Chunk((0,), (40,)), (0,), lambda part: part.start[0] >= 3 and part.stop[0] < 40)
    Chunk(start=(3,), stop=(39,), cycle=None)
    """
    if not 0 < len(axes) <= _MOST_AXES:
        return None
    sides = [
        (axis, far) for axis, far in product(axes, (False, True)) if not is_free(_layer(chunk, axis, far=far))
    ]
    if not sides:  # what comes is needed in the middle, or nowhere
        return None
    number, most = 1, _most_layers(chunk, sides)
    while number < most and not _is_free_without(chunk, dict.fromkeys(sides, number), is_free):
        number = min(2 * number, most)
    layers = dict.fromkeys(sides, number)
    if not _is_free_without(chunk, layers, is_free):
        return None
    for side in sides:
        _narrow(chunk, layers, side, is_free)
    return _without(chunk, layers)


def _most_layers(chunk: Chunk, sides: Sequence[Side]) -> int:
    """How many there can be at each of these sides; 0 for none."""
    return bisect_left(
        range(chunk.ngroups), True, key=lambda n: _without(chunk, dict.fromkeys(sides, n + 1)) is None
    )


def _is_free_without(chunk: Chunk, layers: dict[Side, int], is_free: Callable[[Chunk], bool]) -> bool:
    part = _without(chunk, layers)
    return part is not None and is_free(part)


def _narrow(chunk: Chunk, layers: dict[Side, int], side: Side, is_free: Callable[[Chunk], bool]) -> None:
    """As few layers at one side as there can be. One is needed there."""
    least, most = 1, layers[side]
    while least < most:
        middle = (least + most) // 2
        if _is_free_without(chunk, {**layers, side: middle}, is_free):
            most = middle
        else:
            least = middle + 1
    layers[side] = most


def _layer(chunk: Chunk, axis: int, *, far: bool) -> Chunk:
    """The outermost work-groups at a side."""
    one, other = chunk.cut(axis, chunk.counts[axis] - 1 if far else 1)
    return other if far else one


def _without(chunk: Chunk, layers: dict[Side, int]) -> Chunk | None:
    """The chunk without so many layers at its sides; None where that is too small a part of it."""
    start, stop = list(chunk.start), list(chunk.stop)
    for (axis, far), number in layers.items():
        if far:
            stop[axis] -= number
        else:
            start[axis] += number
    if any(first >= last for first, last in zip(start, stop, strict=True)):
        return None
    found = Chunk(tuple(start), tuple(stop))
    return found if found.ngroups >= (1 - MOST_BORDER) * chunk.ngroups else None


def border(chunk: Chunk, inside: Chunk) -> list[Chunk]:
    """The work-groups of a chunk that are not in its interior, as boxes.

    >>> [box.start + box.stop for box in border(Chunk((0,), (9,)), Chunk((2,), (8,)))]
    [(0, 2), (8, 9)]
    """
    found, rest = [], chunk
    for axis, (start, stop) in enumerate(zip(inside.start, inside.stop, strict=True)):
        if start > rest.start[axis]:
            before, rest = rest.cut(axis, start - rest.start[axis])
            found.append(before)
        if stop < rest.stop[axis]:
            rest, behind = rest.cut(axis, stop - rest.start[axis])
            found.append(behind)
    return found


def _borders(plan: Plan, found: dict[int, tuple[Chunk, tuple[Touch, ...]]]) -> Iterator[tuple[int, float]]:
    for worker, chunk in plan.partition:
        if worker in found:
            yield worker, 1 - found[worker][0].ngroups / chunk.ngroups


def _rearranged(plan: Plan, found: dict[int, tuple[Chunk, tuple[Touch, ...]]]) -> Plan:
    """Interiors, copies, borders: what a border touches is taken to be what its chunk does."""
    first: list[tuple[Instruction, tuple[Touch, ...]]] = []
    copies: list[tuple[Instruction, tuple[Touch, ...]]] = []
    last: list[tuple[Instruction, tuple[Touch, ...]]] = []
    for item, touches in zip(plan.instructions, plan.touches, strict=True):
        if not isinstance(item, Launch):
            copies.append((item, touches))
        elif item.worker not in found:
            last.append((item, touches))
        else:
            inside, of_inside = found[item.worker]
            first.append((item._replace(chunk=inside, is_interior=True), of_inside))
            last += [(item._replace(chunk=box), touches) for box in border(item.chunk, inside)]
    parts = [*first, *copies, *last]
    return replace(
        plan,
        instructions=tuple([item for item, _ in parts]),
        dependencies=((),) * len(parts),
        touches=tuple([touches for _, touches in parts]),
    )
