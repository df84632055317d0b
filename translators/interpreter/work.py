"""How the work of a launch is spread over its work-groups, as far as the bounds of its loops show.

Decides nothing: the work of a work-group is counted as the bytes that it asks for, one access at a time, in all
iterations. Nothing is known of a loop whose end depends on data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import prod

from ..ranges.ndrange import Chunk, NDRange
from ..symbolic.evaluation import scope_of
from ..symbolic.launch_numbers import Launch
from ..symbolic.nodes import INFINITE, Expr, GlobalId, GroupId
from .accesses import Access
from .scopes import Ways
from .summaries import KernelSummary
from .ways import Step, StepKind

__all__ = ["spread_of_work"]

#: places along a dimension at which work-groups are examined; between them the work is assumed to be linear
_PLACES = 16
#: work that differs by less than this fraction of the largest counts as even
_EVEN = 0.05

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
