"""How much work a launch is, and how it is spread over its work-groups, as far as the bounds of its loops show.

Decides nothing: the work of a work-group is counted as the bytes that it asks for, one access at a time, in all
iterations. Nothing is known of a loop whose end depends on data, but where it goes through an argument's memory: most
such loops, as those over the neighbours of a node, come to each element a few times in all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import prod

from ..ranges.ndrange import Chunk, NDRange
from ..symbolic import logic
from ..symbolic.evaluation import scope_of
from ..symbolic.launch_numbers import Launch
from ..symbolic.nodes import INFINITE, Argument, Expr, GlobalId, GroupId
from .accesses import Access
from .scopes import Ways
from .summaries import KernelSummary
from .ways import Step, StepKind

__all__ = ["bytes_of_launch", "scalars_of_work", "spread_of_work"]

#: places along a dimension at which work-groups are examined; between them the work is assumed to be linear
_PLACES = 16
#: work that differs by less than this fraction of the largest counts as even
_EVEN = 0.05
#: how often the loops of all work-items come to an element of an argument's memory, where their ends depend on data
_AGAIN = 4
#: bytes that one iteration counts for of a loop that touches no argument
_IDLE_NBYTES = 8

Values = Mapping[int, int | float | bytes]


def spread_of_work(
    summary: KernelSummary, ndrange: NDRange, axis: int, values: Values
) -> tuple[tuple[int, ...], tuple[float, ...]] | None:
    """Edges of parts along a dimension, and the average bytes that a work-group of each part asks for; None if that
    is the same everywhere, or nothing is known of it.

    `values`: as for `KernelSummary.evaluate`.
    """
    if not _may_be_uneven(summary) or ndrange.num_groups[axis] < 2:
        return None
    last = ndrange.num_groups[axis] - 1
    few = [_bytes_of(summary, ndrange, axis, place, values) for place in (0, last // 2, last)]
    if None in few or _are_even(few):
        return None
    places = sorted({last * number // _PLACES for number in range(_PLACES + 1)})
    found = [_bytes_of(summary, ndrange, axis, place, values) for place in places]
    known = [each for each in found if each is not None]
    if len(known) < len(found):
        return None
    edges = (*places[:-1], last + 1)
    return edges, tuple((one + other) / 2 for one, other in pairwise(known))


def scalars_of_work(summary: KernelSummary) -> frozenset[int]:
    """The value arguments whose numbers change how often loops run."""
    ways = {access.way for access in summary.accesses}.union(summary.loops)
    leaves = (
        leaf
        for way in ways
        for step in _steps(way)
        if step.kind is StepKind.WHILE
        for leaf in step.expr.leaves
    )
    return frozenset(leaf.index for leaf in leaves if isinstance(leaf, Argument))


def bytes_of_launch(
    summary: KernelSummary, ndrange: NDRange, values: Values, sizes: Mapping[int, int]
) -> float | None:
    """The bytes that a launch asks for at most, each access for itself, if all work-items do what those of its middle work-group may;
    None if nothing is known of that.

    `values`: numbers of the arguments `scalars_of_work`. `sizes`: as for `KernelSummary.evaluate`.
    """
    group = tuple(count // 2 for count in ndrange.num_groups)
    ways = Ways(
        scope_of(Launch(ndrange, Chunk(group, tuple(each + 1 for each in group)), values, frozenset()))
    )
    total = 0.0
    found = [(access.way, access.nbytes, sizes.get(access.arg, 0)) for access in summary.accesses]
    for way, nbytes, size in [*found, *((way, _IDLE_NBYTES, 0) for way in summary.loops)]:
        each = _AGAIN * size / max(nbytes * ndrange.nitems, 1)
        times = _most_iterations(way, ways, max(each, 1.0) if size else None)
        if times is None:
            return None
        total += times * ndrange.nitems * nbytes
    return total


def _most_iterations(way: Step, ways: Ways, otherwise: float | None) -> float | None:
    """How often a work-item comes to the end of a way, at most; `otherwise`: in all loops that end nobody knows when."""
    loops = _loops_of(way)
    if loops is None:
        return 1.0
    counters = [
        step.counter for step in _steps(loops) if step.kind is StepKind.LOOP and step.counter is not None
    ]
    total = 0.0
    for scope in ways.scopes(loops):
        times, endless = 1.0, False
        for counter in counters:
            low, high = scope.domain.bounds(scope.value(counter))
            if high >= INFINITE:
                endless = True
            else:
                times *= max(high - low + 1, 0)
        if endless and otherwise is None:
            return None
        total += times * (otherwise or 1.0) if endless else times
    return total


def _loops_of(way: Step) -> Step | None:
    """The way without what it asks but for how long loops go on, which takes longer to evaluate; None where it has no loops."""
    kept = [step for step in _steps(way) if step.kind in (StepKind.LOOP, StepKind.WHILE)]
    if not kept:
        return None
    found = Step(None, StepKind.ROOT, logic.TRUE)
    for step in reversed(kept):
        found = Step(found, step.kind, step.expr, step.counter)
    return found


def _are_even(found: Sequence[float | None]) -> bool:
    known = [each for each in found if each is not None]
    return max(known) - min(known) <= _EVEN * max(known)


def _may_be_uneven(summary: KernelSummary) -> bool:
    """Whether the end of a loop depends on the work-group."""
    return any(
        step.kind is StepKind.WHILE
        and any(isinstance(leaf, (GlobalId, GroupId)) for leaf in step.expr.leaves)
        for access in summary.accesses
        for step in _steps(access.way)
    )


def _bytes_of(
    summary: KernelSummary, ndrange: NDRange, axis: int, place: int, values: Values
) -> float | None:
    """What the work-group at `place` asks for, in the middle of the other dimensions; None if that is not known."""
    group = tuple(
        place if dimension == axis else count // 2 for dimension, count in enumerate(ndrange.num_groups)
    )
    chunk = Chunk(group, tuple(number + 1 for number in group))
    ways = Ways(scope_of(Launch(ndrange, chunk, values, summary.merged)))
    items, total = prod(ndrange.local_size), 0.0
    for access in summary.accesses:
        times = _iterations(access, ways)
        if times is None:
            return None
        total += times * items * access.nbytes
    return total


def _iterations(access: Access, ways: Ways) -> float | None:
    """How often a work-item comes to an access, at most."""
    steps = list(_steps(access.way))
    if any(step.kind is StepKind.MAYBE for step in steps):
        return None
    counters: list[Expr] = [
        step.counter for step in steps if step.kind is StepKind.LOOP and step.counter is not None
    ]
    total = 0.0
    for scope in ways.scopes(access.way):
        if not scope.domain.exact:
            return None  # how often it comes there depends on data
        times = 1.0
        for counter in counters:
            form = scope.value(counter)
            low, high = scope.domain.bounds(form)
            if high >= INFINITE or scope.domain.is_loose(form):
                return None
            times *= high - low + 1
        total += times
    return total


def _steps(way: Step) -> Iterator[Step]:
    step: Step | None = way
    while step is not None:
        yield step
        step = step.parent
