"""Rewriting symbolic expressions: leaves replaced by expressions, coefficients taken out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce

from . import expression as ex
from . import logic, nodes
from .effort import spend
from .exhaustive import assert_never
from .expression import linear, terms_of
from .nodes import Exit, Expr, Leaf, Trips


def substitute(expr: Expr, replacements: Mapping[Expr, Expr], memo: dict[Expr, Expr] | None = None) -> Expr:
    """`expr` with leaves replaced; shared parts are rewritten once (`memo` may be kept between calls)."""
    if memo is None:
        memo = {}
    return _substitute(expr, replacements, memo)


def _substitute(expr: Expr, replacements: Mapping[Expr, Expr], memo: dict[Expr, Expr]) -> Expr:
    found = memo.get(expr)
    if found is not None:
        return found
    spend(2)
    result: Expr
    if isinstance(expr, Leaf) and (expr in replacements or not isinstance(expr, Exit)):
        result = replacements.get(expr, expr)
    elif _none_of(expr, replacements):
        result = expr
    else:
        result = _rebuilt(expr, lambda part: _substitute(part, replacements, memo), replacements)
    memo[expr] = result
    return result


def _none_of(expr: Expr, replacements: Mapping[Expr, Expr]) -> bool:
    leaves = expr.leaves
    spend(len(leaves) >> 4)
    return replacements.keys().isdisjoint(leaves)


def _rebuilt(  # noqa: C901 (a case for each kind)
    expr: Expr, changed: Callable[[Expr], Expr], replacements: Mapping[Expr, Expr]
) -> Expr:
    """The expression made again with the parts in `changed`."""
    match expr:
        case nodes.Sum():
            result: Expr = ex.const(expr.constant)
            for term, coefficient in expr.terms:
                result = ex.add(result, changed(term), coefficient)
            return result
        case nodes.Product():
            return reduce(ex.mul, map(changed, expr.factors))
        case nodes.Cast():
            return ex.cast(expr.kind, changed(expr.a))
        case nodes.NotNegative():
            return logic.ge0(changed(expr.a))
        case nodes.IsZero():
            return logic.is_zero(changed(expr.a))
        case nodes.NotZero():
            return logic.is_not_zero(changed(expr.a))
        case nodes.Not():
            return logic.negate(changed(expr.a))
        case nodes.Select():
            return logic.select(changed(expr.condition), changed(expr.a), changed(expr.b))
        case nodes.Arithmetic() | nodes.Both() | nodes.Either():
            return _rejoined(expr, changed(expr.a), changed(expr.b))
        case nodes.Exit():
            return _substitute_trips(expr, replacements)
        case nodes.Const() | nodes.Leaf():
            return expr
    assert_never(expr)


def _rejoined(expr: nodes.Pairs, a: Expr, b: Expr) -> Expr:  # noqa: C901 (a case for each kind)
    match expr:
        case nodes.Quotient():
            return ex.div(a, b)
        case nodes.Remainder():
            return ex.mod(a, b)
        case nodes.ShiftLeft():
            return ex.shift_left(a, b)
        case nodes.ShiftRight():
            return ex.shift_right(a, b)
        case nodes.BitAnd():
            return ex.bit_and(a, b)
        case nodes.BitOr():
            return ex.bit_or(a, b)
        case nodes.BitXor():
            return ex.bit_xor(a, b)
        case nodes.Minimum():
            return ex.minimum(a, b)
        case nodes.Maximum():
            return ex.maximum(a, b)
        case nodes.Both():
            return logic.both(a, b)
        case nodes.Either():
            return logic.either(a, b)
    assert_never(expr)


def _substitute_trips(expr: Exit, replacements: Mapping[Expr, Expr]) -> Exit:
    old = expr.definition

    def define(leaf: Exit) -> Trips:
        renamed = {**replacements, expr: leaf}
        none, before, after = (substitute(part, renamed) for part in old.parts)
        return Trips(none, before, after, old.exact)

    return ex.trips(define)


def coefficient_of(expr: Expr, leaf: Expr) -> tuple[int, Expr] | None:
    """`expr` as (coefficient of `leaf`, the rest without it); None if it does not have this form."""
    constant, terms = terms_of(expr)
    coefficient = 0
    rest: dict[Expr, int] = {}
    for term, factor in terms:
        if term is leaf:
            coefficient = factor
        elif leaf in term.leaves:
            return None
        else:
            rest[term] = factor
    return coefficient, linear(constant, rest)
