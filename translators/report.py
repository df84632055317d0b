"""Symbolic values as sympy expressions, for reports, canonical forms and tests. Never on the launch path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sympy

from .expression import LEAVES, Expr, leaf_name


def to_sympy(expr: Expr, names: Mapping[int, str] | None = None) -> Any:
    """`expr` in sympy: leaves are integer symbols, argument symbols have the arguments' names.

    Conversions that only matter on wrap-around are functions named after their type: `uint32(x)`.
    """
    op, args = expr.op, expr.args
    if op == "const":
        return sympy.Integer(args[0])
    if op in LEAVES:
        return sympy.Symbol(leaf_name(expr, names), integer=True, nonnegative=expr.lo >= 0 or None)
    if op == "sum":
        return sympy.Add(args[0], *(coefficient * to_sympy(term, names) for term, coefficient in args[1]))
    parts = [to_sympy(arg, names) for arg in args if isinstance(arg, Expr)]
    if op == "mul":
        return sympy.Mul(*parts)
    if op == "cast":
        return _function(f"{'int' if args[1] else 'uint'}{args[0]}")(*parts)
    if op in ("min", "max"):
        return (sympy.Min if op == "min" else sympy.Max)(*parts)
    if op == "div" and expr.args[0].lo >= 0 and expr.args[1].lo > 0:
        return sympy.floor(parts[0] / parts[1])
    if op == "mod" and expr.args[0].lo >= 0 and expr.args[1].lo > 0:
        return sympy.Mod(*parts)
    return _function(op)(*parts)


def _function(name: str) -> Any:
    """An undefined function with integer values; truth values are the integers 0 and 1."""
    return sympy.Function(name, integer=True)
