"""Truth values of the launch's and the kernel's integers: comparisons, and what joins them.

They are expressions that are 0 or 1. Decides how they are written down, so that a condition and its negation are
found to be so: negations stand at the comparisons, and a comparison has one form.
"""

from __future__ import annotations

from math import gcd

from .expression import ONE, ZERO, Expr, add, const, linear, node, scale, sub, terms_of

TRUE, FALSE = ONE, ZERO


def ge0(a: Expr) -> Expr:
    if a.lo >= 0:
        return TRUE
    if a.hi < 0:
        return FALSE
    constant, terms = terms_of(a)
    common = gcd(*(coefficient for _, coefficient in terms))
    if common > 1:
        a = linear(constant // common, {term: coefficient // common for term, coefficient in terms})
    return node("ge0", (a,), 0, 1)


def less(a: Expr, b: Expr) -> Expr:
    return ge0(linear_difference(b, a, -1))


def less_equal(a: Expr, b: Expr) -> Expr:
    return ge0(sub(b, a))


def linear_difference(a: Expr, b: Expr, constant: int) -> Expr:
    """`a - b + constant`."""
    return add(sub(a, b), const(constant))


def compare_zero(op: str, a: Expr) -> Expr:
    constant, terms = terms_of(a)
    if not terms:
        return TRUE if (constant == 0) == (op == "eq0") else FALSE
    if a.lo > 0 or a.hi < 0:
        return FALSE if op == "eq0" else TRUE
    if op == "ne0" and a.lo >= 0 and a.hi <= 1:
        return a  # a truth value already
    if terms[0][1] < 0:
        a = scale(a, -1)
    return node(op, (a,), 0, 1)


def equal(a: Expr, b: Expr) -> Expr:
    return compare_zero("eq0", sub(a, b))


def truth(a: Expr) -> Expr:
    """C's `a != 0`."""
    if a.lo >= 0 and a.hi <= 1:
        return a
    return compare_zero("ne0", a)


_OTHER_JOIN = {"land": "lor", "lor": "land"}


def negate(a: Expr) -> Expr:
    """The negation of a truth value, pushed down to the comparisons."""
    return _negated(a, {})


def _negated(a: Expr, known: dict[Expr, Expr]) -> Expr:
    """`known`: negations made on the way, as what comes together several times is one node in many places."""
    op = a.op
    if op == "const":
        return FALSE if a.args[0] else TRUE
    if op == "ge0":
        return ge0(add(const(-1), a.args[0], -1))
    if op == "eq0":
        return compare_zero("ne0", a.args[0])
    if op == "ne0":
        return compare_zero("eq0", a.args[0])
    if op in _OTHER_JOIN:
        found = known.get(a)
        if found is None:
            join = either if op == "land" else both
            found = known[a] = join(*[_negated(part, known) for part in a.args])
        return found
    if op == "not":
        return a.args[0]  # type: ignore[no-any-return]
    if op == "unknown":
        return node("not", (a,), 0, 1)
    return compare_zero("eq0", a)


def _are_opposite(a: Expr, b: Expr, known: set[tuple[Expr, Expr]] | None = None) -> bool:
    """Whether one is the other's negation. `known`: pairs that are.

    Making the negation to see would make those of its parts, and so on, twice at each step.
    """
    if a.op not in _OTHER_JOIN:
        return b.op not in _OTHER_JOIN and negate(a) is b
    if b.op != _OTHER_JOIN[a.op]:
        return False
    known = set() if known is None else known
    if (a, b) not in known:
        if not all(_are_opposite(one, other, known) for one, other in zip(a.args, b.args, strict=True)):
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
    return node("land", (a, b), 0, 1)


def either(a: Expr, b: Expr) -> Expr:
    if a is TRUE or b is TRUE:
        return TRUE
    if a is FALSE or a is b:
        return b
    if b is FALSE:
        return a
    if _are_opposite(a, b):
        return TRUE
    return node("lor", (a, b), 0, 1)


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
    return node("select", (condition, a, b), min(a.lo, b.lo), max(a.hi, b.hi))


def conjuncts(condition: Expr) -> list[Expr]:
    """What must hold for `condition` to hold, from left to right."""
    found: dict[Expr, None] = {}
    joined: set[Expr] = set()
    waiting = [condition]
    while waiting:
        part = waiting.pop()
        if part.op != "land":
            found[part] = None
        elif part not in joined:
            joined.add(part)
            waiting += reversed(part.args)
    return list(found)
