"""Symbolic values for people and sympy: reports, canonical forms, tests. Never on the launch path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import expression as ex
from .exhaustive import assert_never
from .expression import Expr

#: Of an expression that is written out; what lies behind is left out. Parts that are shared are one in memory and
#: many on paper.
MOST_PARTS = 100

_COMPARED = {ex.NotNegative: ">=", ex.IsZero: "==", ex.NotZero: "!="}
_INFIX: dict[type[ex.Node], str] = {
    ex.Quotient: "/",
    ex.Remainder: "%",
    ex.ShiftLeft: "<<",
    ex.ShiftRight: ">>",
    ex.BitAnd: "&",
    ex.BitOr: "|",
    ex.BitXor: "^",
    ex.Both: "&&",
    ex.Either: "||",
}
_NAMES: dict[type[ex.Node], str] = {
    ex.GlobalId: "gid",
    ex.GroupId: "group",
    ex.LocalId: "lid",
    ex.GlobalSize: "gsize",
    ex.LocalSize: "lsize",
    ex.WholeLocalSize: "whole_lsize",
    ex.NumGroups: "ngroups",
    ex.GlobalOffset: "goffset",
    ex.WorkDim: "workdim",
    ex.Counter: "k",
    ex.Exit: "trips",
    ex.Unknown: "u",
    ex.Head: "h",
    ex.Quotient: "div",
    ex.Remainder: "mod",
    ex.ShiftLeft: "shl",
    ex.ShiftRight: "shr",
    ex.BitAnd: "and",
    ex.BitOr: "or",
    ex.BitXor: "xor",
    ex.Minimum: "min",
    ex.Maximum: "max",
    ex.Select: "select",
    ex.NotNegative: "ge0",
    ex.IsZero: "eq0",
    ex.NotZero: "ne0",
    ex.Both: "land",
    ex.Either: "lor",
    ex.Not: "not",
}


def leaf_name(leaf: ex.Leaf, names: Mapping[int, str] | None = None) -> str:
    """A readable name: `gid0`, the argument's own name, `k12` for a loop's counter."""
    match leaf:
        case ex.Argument():
            name = (names or {}).get(leaf.index, f"arg{leaf.index}")
            return f"{name}_{leaf.byte}" if leaf.byte else name
        case ex.WorkItem():
            return f"{_NAMES[type(leaf)]}{leaf.dimension}"
        case ex.WorkDim():
            return _NAMES[ex.WorkDim]
    return f"{_NAMES[type(leaf)]}{leaf.serial}"


def _type_name(expr: ex.Cast) -> str:
    return f"{'int' if expr.kind.signed else 'uint'}{expr.kind.bits}"


def show(expr: Expr, names: Mapping[int, str] | None = None) -> str:
    """The expression as C would have it, with `...` in place of what is too much."""
    return _shown(expr, names, [MOST_PARTS])


def _shown(expr: Expr, names: Mapping[int, str] | None, left: list[int]) -> str:
    """`left`: how many parts may still be written."""
    left[0] -= 1
    if left[0] < 0:
        return "..."
    match expr:
        case ex.Const():
            return str(expr.number)
        case ex.Leaf():
            return leaf_name(expr, names)
        case ex.Sum():
            # Terms are kept in the order in which they were first met, by whichever kernel.
            terms = sorted((c < 0, _shown(t, names, left), c) for t, c in expr.terms)
            parts = [text if c == 1 else f"{c}*{text}" for _, text, c in terms]
            return "(" + " + ".join(parts + ([str(expr.constant)] if expr.constant else [])) + ")"
        case ex.Product():
            return "*".join(_shown(factor, names, left) for factor in expr.factors)
        case ex.Cast():
            return f"{_type_name(expr)}({_shown(expr.a, names, left)})"
        case ex.NotNegative() | ex.IsZero() | ex.NotZero():
            return f"({_shown(expr.a, names, left)} {_COMPARED[type(expr)]} 0)"
        case ex.Minimum() | ex.Maximum() | ex.Select() | ex.Not():
            return f"{_NAMES[type(expr)]}({', '.join(_shown(part, names, left) for part in expr.parts)})"
        case ex.Arithmetic() | ex.Both() | ex.Either():
            return f"({_shown(expr.a, names, left)} {_INFIX[type(expr)]} {_shown(expr.b, names, left)})"
    assert_never(expr)


def to_sympy(expr: Expr, names: Mapping[int, str] | None = None) -> Any:
    """`expr` in sympy: leaves are integer symbols, argument symbols have the arguments' names.

    Conversions that only matter on wrap-around are functions named after their type: `uint32(x)`. What is too much is
    the symbol `...`.
    """
    return _in_sympy(expr, names, [MOST_PARTS])


def _in_sympy(expr: Expr, names: Mapping[int, str] | None, left: list[int]) -> Any:
    import sympy  # only reports need it, and importing it takes longer than all the rest

    left[0] -= 1
    if left[0] < 0:
        return sympy.Symbol("...", integer=True)
    match expr:
        case ex.Const():
            return sympy.Integer(expr.number)
        case ex.Leaf():
            return sympy.Symbol(leaf_name(expr, names), integer=True, nonnegative=expr.lo >= 0 or None)
        case ex.Sum():
            terms = (coefficient * _in_sympy(term, names, left) for term, coefficient in expr.terms)
            return sympy.Add(expr.constant, *terms)
    parts = [_in_sympy(part, names, left) for part in expr.parts]
    match expr:
        case ex.Product():
            return sympy.Mul(*parts)
        case ex.Cast():
            return _function(_type_name(expr))(*parts)
        case ex.Minimum() | ex.Maximum():
            return (sympy.Min if isinstance(expr, ex.Minimum) else sympy.Max)(*parts)
        case ex.Quotient() if expr.a.lo >= 0 and expr.b.lo > 0:
            return sympy.floor(parts[0] / parts[1])
        case ex.Remainder() if expr.a.lo >= 0 and expr.b.lo > 0:
            return sympy.Mod(*parts)
    return _function(_NAMES[type(expr)])(*parts)


def _function(name: str) -> Any:
    """An undefined function with integer values; truth values are the integers 0 and 1."""
    import sympy  # as above

    return sympy.Function(name, integer=True)
