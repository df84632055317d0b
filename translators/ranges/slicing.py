"""Integer points of a box that linear constraints cut, as few smaller boxes.

A constraint such as low <= 100*y + x <= high, with x of 0 to 99, cuts a corner from the first row and one from the
last: between them all rows are whole. So one variable's range is taken apart into the part in which constraints cut
nothing, and single values beside it, for each of which the rest is cut in the same way. Exact, or not at all. Knows
no bytes.

>>> boxes_of({0: (0, 9), 1: (0, 99)}, [({0: 100, 1: 1}, -50), ({0: -100, 1: -1}, 720)], 9)
[{0: (1, 6), 1: (0, 99)}, {0: (0, 0), 1: (50, 99)}, {0: (7, 7), 1: (0, 20)}]

What is called most is compiled as well (`compiled`): a change here needs the same change in `native/slices.c`.
"""

from __future__ import annotations

from . import compiled

#: linear terms and a constant, which add up to 0 or more
Constraint = tuple[dict[int, int], int]
#: the least and the largest value of each variable
Box = dict[int, tuple[int, int]]

#: how often ranges are narrowed by one another: two constraints could continue for as long as a range is
ROUNDS = 8


class _Empty(Exception):
    """No point satisfies all constraints."""


def boxes_of(
    box: Box, constraints: list[Constraint], most: int, refused: list[int] | None = None
) -> list[Box] | None:
    """The points of `box` that keep all constraints, as disjoint boxes; None where that takes more than `most`, or a look at more than so
    many parts that have no point: where many variables are tied, as the bits of a number are that are turned round, nearly none has one,
    and there are as many as combinations of values. `refused`: where it can be told for how many that is so, this number is added to it:
    the same question with no more than that has the same answer.
    """
    vain = [most]
    found = _parts(box, constraints, most, vain, refused)
    if refused is not None and vain[0] < 0:
        refused.append(most)
    return found


def _parts(
    box: Box, constraints: list[Constraint], most: int, vain: list[int], refused: list[int] | None = None
) -> list[Box] | None:
    """The same while no more than `vain` parts are found to have no point, which are counted down."""
    box = dict(box)
    try:
        left = _narrow(box, constraints)
    except _Empty:
        vain[0] -= 1
        return []
    if left is None:
        return None
    if not left:
        return [box]
    open_ones = dict.fromkeys(v for terms, _ in left for v in terms if box[v][0] < box[v][1])
    variable, low, high = min(
        (_untouched(box, left, v) for v in open_ones),
        key=lambda part: (_count_outside(box, part), -_reach(box, left, part[0])),
    )
    outside = _count_outside(box, (variable, low, high))
    if outside >= most:
        if refused is not None:
            refused.append(outside)
        return None
    found: list[Box] = []
    first, last = box[variable]
    inside = [(low, high)] if low <= high else []
    values = [*range(first, low), *range(high + 1, last + 1)] if inside else range(first, last + 1)
    others = [v for v in open_ones if v != variable]
    for bounds in (*inside, *((value, value) for value in values)):
        part = box | {variable: bounds}
        if len(others) == 1 and bounds[0] == bounds[1]:
            if _is_in_line(part, left, others[0]):
                found.append(part)
            continue
        more = _parts(part, left, most - len(found), vain)
        if more is None or vain[0] < 0:
            return None
        found += more
    return found if len(found) <= most else None


def _is_in_line(box: Box, constraints: list[Constraint], variable: int) -> bool:
    """Whether there is any point where all other variables of the constraints have one value; then the box has just those that
    there are. Each constraint has the variable: of what `_narrow` leaves, none has fewer than two that are open.
    """
    low, high = box[variable]
    for terms, constant in constraints:
        rest, factor = constant, terms[variable]
        for other, each in terms.items():
            if other != variable:
                rest += each * box[other][0]
        if factor > 0:
            low = max(low, -(rest // factor))
        else:
            high = min(high, rest // -factor)
    box[variable] = low, high
    return low <= high


def _count_outside(box: Box, part: tuple[int, int, int]) -> int:
    variable, low, high = part
    return box[variable][1] - box[variable][0] + 1 - max(high - low + 1, 0)


def _reach(box: Box, constraints: list[Constraint], variable: int) -> int:
    """By how much a variable changes a constraint at most. Where many are cut alike, as the digits of a number between two others, what is
    left of the others is least once the one that decides most has a value.
    """
    low, high = box[variable]
    return max([abs(terms.get(variable, 0)) for terms, _ in constraints]) * (high - low)


def _untouched(box: Box, constraints: list[Constraint], variable: int) -> tuple[int, int, int]:
    """A variable, and the part of its range in which no constraint on it cuts anything."""
    low, high = box[variable]
    for terms, constant in constraints:
        factor = terms.get(variable, 0)
        if factor:
            least = constant
            for other, each in terms.items():
                if other != variable:
                    least += each * box[other][0 if each > 0 else 1]
            if factor > 0:
                low = max(low, -(least // factor))
            else:
                high = min(high, least // -factor)
    return variable, low, high


def _narrow(box: Box, constraints: list[Constraint]) -> list[Constraint] | None:
    """Make ranges no larger than the constraints on them allow; the constraints that still cut something, None if
    this does not come to an end. Raises _Empty if there is no point.
    """
    for _ in range(ROUNDS):
        before = list(box.values())
        constraints = [each for each in constraints if _cuts(box, each)]
        if not constraints or list(box.values()) == before:
            return constraints
    return None


def _cuts(box: Box, constraint: Constraint) -> bool:
    """Whether a constraint cuts anything; the ranges of its variables are narrowed by it."""
    terms, constant = constraint
    least = most = constant
    for variable, factor in terms.items():
        low, high = box[variable]
        if factor > 0:
            least += factor * low
            most += factor * high
        else:
            least += factor * high
            most += factor * low
    if least >= 0:
        return False
    if most < 0:
        raise _Empty
    for variable, factor in terms.items():
        low, high = box[variable]
        if factor > 0:
            least = -((most - factor * high) // factor)
            box[variable] = (least if least > low else low), high
        else:
            greatest = (most - factor * low) // -factor
            box[variable] = low, (greatest if greatest < high else high)
        if box[variable][0] > box[variable][1]:
            raise _Empty
    return True


compiled.replace(globals(), ("_cuts", "_untouched", "_is_in_line", "boxes_of"))
