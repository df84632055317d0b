"""Symbolic values for people and sympy: reports, canonical forms, tests. Never on the launch path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sympy

from .expression import LEAVES, Expr

#: Of an expression that is written out; what lies behind is left out. Parts that are shared are one in memory and
#: many on paper.
MOST_PARTS = 100

_SIGNS = {"ge0": ">=", "eq0": "==", "ne0": "!="}
_INFIX = {
    "div": "/",
    "mod": "%",
    "shl": "<<",
    "shr": ">>",
    "and": "&",
    "or": "|",
    "xor": "^",
    "land": "&&",
    "lor": "||",
}


def leaf_name(expr: Expr, names: Mapping[int, str] | None = None) -> str:
    """A readable name: `gid0`, the argument's own name, `k12` for a loop's counter."""
    if expr.op == "arg":
        index, byte = expr.args[0], expr.args[1]
        name = (names or {}).get(index, f"arg{index}")
        return f"{name}_{byte}" if byte else name
    prefix = {"loop": "k", "exit": "trips", "unknown": "u", "head": "h"}.get(expr.op, expr.op)
    return prefix + "".join(str(part) for part in expr.args)


def show(expr: Expr, names: Mapping[int, str] | None = None) -> str:
    """The expression as C would have it, with `...` in place of what is too much."""
    return _shown(expr, names, [MOST_PARTS])


def _shown(expr: Expr, names: Mapping[int, str] | None, left: list[int]) -> str:
    """`left`: how many parts may still be written."""
    left[0] -= 1
    if left[0] < 0:
        return "..."
    op, args = expr.op, expr.args
    if op == "const":
        return str(args[0])
    if op in LEAVES:
        return leaf_name(expr, names)
    if op == "sum":
        # Terms are kept in the order in which they were first met, by whichever kernel.
        terms = sorted((c < 0, _shown(t, names, left), c) for t, c in args[1])
        parts = [text if c == 1 else f"{c}*{text}" for _, text, c in terms]
        return "(" + " + ".join(parts + ([str(args[0])] if args[0] else [])) + ")"
    if op == "mul":
        return "*".join(_shown(factor, names, left) for factor in args)
    if op == "cast":
        kind = ("int" if args[1] else "uint") + str(args[0])
        return f"{kind}({_shown(args[2], names, left)})"
    if op in _INFIX:
        return f"({_shown(args[0], names, left)} {_INFIX[op]} {_shown(args[1], names, left)})"
    if op in ("ge0", "eq0", "ne0"):
        return f"({_shown(args[0], names, left)} {_SIGNS[op]} 0)"
    return f"{op}({', '.join(_shown(arg, names, left) for arg in args)})"


def to_sympy(expr: Expr, names: Mapping[int, str] | None = None) -> Any:
    """`expr` in sympy: leaves are integer symbols, argument symbols have the arguments' names.

    Conversions that only matter on wrap-around are functions named after their type: `uint32(x)`. What is too much is
    the symbol `...`.
    """
    return _in_sympy(expr, names, [MOST_PARTS])


def _in_sympy(expr: Expr, names: Mapping[int, str] | None, left: list[int]) -> Any:
    left[0] -= 1
    if left[0] < 0:
        return sympy.Symbol("...", integer=True)
    op, args = expr.op, expr.args
    if op == "const":
        return sympy.Integer(args[0])
    if op in LEAVES:
        return sympy.Symbol(leaf_name(expr, names), integer=True, nonnegative=expr.lo >= 0 or None)
    if op == "sum":
        return sympy.Add(
            args[0], *(coefficient * _in_sympy(term, names, left) for term, coefficient in args[1])
        )
    parts = [_in_sympy(arg, names, left) for arg in args if isinstance(arg, Expr)]
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
