"""Truth values over the integers of a launch and a kernel: comparisons, and how they are combined.

They are expressions that are 0 or 1. Decides how they are written down, so that a condition and its negation can be
recognised as such: negations are pushed down to the comparisons, and each comparison has one form.
"""

from __future__ import annotations

from math import gcd

from . import expression as ex
from .effort import spend
from .expression import ONE, ZERO, add, const, joined, linear, scale, sub, terms_of, truth_of
from .nodes import Both, Const, Either, Expr, IsZero, Not, NotNegative, NotZero, Unknown

TRUE: Expr = ONE
FALSE: Expr = ZERO


def ge0(a: Expr) -> Expr:
    if a.lo >= 0:
        return TRUE
    if a.hi < 0:
        return FALSE
    constant, terms = terms_of(a)
    common = 0
    for _, coefficient in terms:
        common = gcd(common, coefficient)
    if common > 1:
        a = linear(constant // common, {term: coefficient // common for term, coefficient in terms})
    return truth_of(NotNegative, a)


def less(a: Expr, b: Expr) -> Expr:
    return ge0(linear_difference(b, a, -1))


def less_equal(a: Expr, b: Expr) -> Expr:
    return ge0(sub(b, a))


def linear_difference(a: Expr, b: Expr, constant: int) -> Expr:
    """`a - b + constant`."""
    return add(sub(a, b), const(constant))


def is_zero(a: Expr) -> Expr:
    """`a == 0`"""
    constant, terms = terms_of(a)
    if not terms:
        return FALSE if constant else TRUE
    if a.lo > 0 or a.hi < 0:
        return FALSE
    return truth_of(IsZero, scale(a, -1) if terms[0][1] < 0 else a)


def is_not_zero(a: Expr) -> Expr:
    """`a != 0`"""
    constant, terms = terms_of(a)
    if not terms:
        return TRUE if constant else FALSE
    if a.lo > 0 or a.hi < 0:
        return TRUE
    if a.lo >= 0 and a.hi <= 1:
        return a  # already a truth value
    return truth_of(NotZero, scale(a, -1) if terms[0][1] < 0 else a)


def equal(a: Expr, b: Expr) -> Expr:
    return is_zero(sub(a, b))


def truth(a: Expr) -> Expr:
    """C's `a != 0`."""
    if a.lo >= 0 and a.hi <= 1:
        return a
    return is_not_zero(a)


def negate(a: Expr) -> Expr:
    """The negation of a truth value, pushed down to the comparisons."""
    return _negated(a, {})


def _negated(a: Expr, known: dict[Expr, Expr]) -> Expr:
    """`known`: negations made on the way, since a part that occurs several times is a single node in many places."""
    match a:
        case NotNegative():  # the most frequent first
            return ge0(add(const(-1), a.a, -1))
        case Const(number=number):
            return FALSE if number else TRUE
        case IsZero():
            return is_not_zero(a.a)
        case NotZero():
            return is_zero(a.a)
        case Both() | Either():
            found = known.get(a)
            if found is None:
                join = either if isinstance(a, Both) else both
                found = known[a] = join(_negated(a.a, known), _negated(a.b, known))
            return found
        case Not():
            return a.a
        case Unknown():
            return truth_of(Not, a)
    return is_zero(a)


def _are_opposite(a: Expr, b: Expr, known: set[tuple[Expr, Expr]] | None = None) -> bool:
    """Whether one is the other's negation. `known`: pairs that are.

    Making the negation to find out would make those of its parts, and so on, twice at each step.
    """
    if not isinstance(a, (Both, Either)):
        return not isinstance(b, (Both, Either)) and negate(a) is b
    if not isinstance(b, Either if isinstance(a, Both) else Both):
        return False
    known = set() if known is None else known
    spend(1)
    if (a, b) not in known:
        if not all(_are_opposite(one, other, known) for one, other in zip(a.parts, b.parts, strict=True)):
            return False
        known.add((a, b))
    return True


def both(a: Expr, b: Expr) -> Expr:
    if a is FALSE or b is FALSE:
        return FALSE
    if a is TRUE or a is b:
        return b
    if b is TRUE:
        return a
    if _are_opposite(a, b):
        return FALSE
    return joined(Both, a, b)


def either(a: Expr, b: Expr) -> Expr:
    if a is TRUE or b is TRUE:
        return TRUE
    if a is FALSE or a is b:
        return b
    if b is FALSE:
        return a
    if _are_opposite(a, b):
        return TRUE
    return joined(Either, a, b)


def select(condition: Expr, a: Expr, b: Expr) -> Expr:
    """C's `condition ? a : b`."""
    if condition is TRUE or a is b:
        return a
    if condition is FALSE:
        return b
    if a is TRUE and b is FALSE:
        return condition
    if a is FALSE and b is TRUE:
        return negate(condition)
    return ex.select(condition, a, b)


def conjuncts(condition: Expr) -> list[Expr]:
    """What must hold for `condition` to hold, from left to right."""
    found: dict[Expr, None] = {}
    joined: set[Expr] = set()
    waiting = [condition]
    while waiting:
        part = waiting.pop()
        if not isinstance(part, Both):
            found[part] = None
        elif part not in joined:
            joined.add(part)
            waiting += (part.b, part.a)
    return list(found)
