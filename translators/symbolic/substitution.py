"""Rewriting symbolic expressions: leaves replaced by expressions, coefficients taken out."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .expression import (
    LEAVES,
    Expr,
    IntType,
    Trips,
    add,
    bit_and,
    bit_or,
    bit_xor,
    cast,
    const,
    div,
    linear,
    maximum,
    minimum,
    mod,
    mul,
    shift_left,
    shift_right,
    terms_of,
    trips,
)
from .logic import both, compare_zero, either, ge0, negate, select

_REBUILD: dict[str, Callable[..., Expr]] = {
    "mul": lambda *factors: _fold(mul, factors),
    "div": div,
    "mod": mod,
    "shl": shift_left,
    "shr": shift_right,
    "and": bit_and,
    "or": bit_or,
    "xor": bit_xor,
    "min": minimum,
    "max": maximum,
    "select": select,
    "cast": lambda bits, signed, a: cast(IntType(bits, signed), a),
    "ge0": ge0,
    "eq0": lambda a: compare_zero("eq0", a),
    "ne0": lambda a: compare_zero("ne0", a),
    "land": both,
    "lor": either,
    "not": negate,
}


def _fold(function: Callable[[Expr, Expr], Expr], items: tuple[Expr, ...]) -> Expr:
    result = items[0]
    for item in items[1:]:
        result = function(result, item)
    return result


def substitute(expr: Expr, replacements: Mapping[Expr, Expr], memo: dict[Expr, Expr] | None = None) -> Expr:
    """`expr` with leaves replaced; shared parts are rewritten once (`memo` may be kept between calls)."""
    if memo is None:
        memo = {}
    return _substitute(expr, replacements, memo)


def _substitute(expr: Expr, replacements: Mapping[Expr, Expr], memo: dict[Expr, Expr]) -> Expr:
    found = memo.get(expr)
    if found is not None:
        return found
    op = expr.op
    if op in LEAVES and (op != "exit" or expr in replacements):
        result = replacements.get(expr, expr)
    elif op == "const" or not any(leaf in replacements for leaf in expr.leaves):
        result = expr
    elif op == "exit":
        result = _substitute_trips(expr, replacements)
    elif op == "sum":
        constant, terms = expr.args
        result = const(constant)
        for term, coefficient in terms:
            result = add(result, _substitute(term, replacements, memo), coefficient)
    else:
        rebuilt = [_substitute(a, replacements, memo) if isinstance(a, Expr) else a for a in expr.args]
        result = _REBUILD[op](*rebuilt)
    memo[expr] = result
    return result


def _substitute_trips(expr: Expr, replacements: Mapping[Expr, Expr]) -> Expr:
    old = expr.definition
    assert old is not None

    def define(leaf: Expr) -> Trips:
        renamed = {**replacements, expr: leaf}
        none, before, after = (substitute(part, renamed) for part in old.parts)
        return Trips(none, before, after, old.exact)

    return trips(define)


def coefficient_of(expr: Expr, leaf: Expr) -> tuple[int, Expr] | None:
    """`expr` as (coefficient of `leaf`, the rest without it); None where it is not of this form."""
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
