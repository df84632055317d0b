"""Symbolic values in sympy, for reports and tests. Never used on a launch's path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import nodes
from .nodes import MOST_WRITTEN, NAMES, Expr, leaf_name, type_name


def to_sympy(expr: Expr, names: Mapping[int, str] | None = None) -> Any:
    """`expr` in sympy: leaves are integer symbols, argument symbols have the arguments' names.

    Conversions that only matter on wrap-around are functions named after their type: `uint32(x)`. What is too much is
    the symbol `...`.
    """
    return _in_sympy(expr, names, [MOST_WRITTEN])


def _in_sympy(expr: Expr, names: Mapping[int, str] | None, left: list[int]) -> Any:
    import sympy  # only reports need it, and importing it takes longer than everything else

    left[0] -= 1
    if left[0] < 0:
        return sympy.Symbol("...", integer=True)
    match expr:
        case nodes.Const():
            return sympy.Integer(expr.number)
        case nodes.Leaf():
            return sympy.Symbol(leaf_name(expr, names), integer=True, nonnegative=expr.lo >= 0 or None)
        case nodes.Sum():
            terms = (coefficient * _in_sympy(term, names, left) for term, coefficient in expr.terms)
            return sympy.Add(expr.constant, *terms)
    parts = [_in_sympy(part, names, left) for part in expr.parts]
    match expr:
        case nodes.Product():
            return sympy.Mul(*parts)
        case nodes.Cast():
            return _function(type_name(expr))(*parts)
        case nodes.Minimum() | nodes.Maximum():
            return (sympy.Min if isinstance(expr, nodes.Minimum) else sympy.Max)(*parts)
        case nodes.Quotient() if expr.a.lo >= 0 and expr.b.lo > 0:
            return sympy.floor(parts[0] / parts[1])
        case nodes.Remainder() if expr.a.lo >= 0 and expr.b.lo > 0:
            return sympy.Mod(*parts)
    return _function(NAMES[type(expr)])(*parts)


def _function(name: str) -> Any:
    """An undefined function with integer values; truth values are the integers 0 and 1."""
    import sympy  # as above

    return sympy.Function(name, integer=True)
