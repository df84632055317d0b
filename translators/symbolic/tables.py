"""Expressions as tables of plain values (numbers, texts and lists), and back, so that they can be kept between processes.

A table has one row for each node, operands before what is made of them: the name of the node's class, its bounds, then
its fields, where an operand is its row's number. What is read back is interned with what the process has; leaves that
belong to one kernel (counters, heads, exits, unknowns) are made anew, once for each table. What
is known of an exit is in separate rows at the end.

Decides only how expressions are written down; they are neither simplified nor evaluated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from . import expression as ex
from . import nodes
from .nodes import Expr

__all__ = ["Row", "Writer", "read_table"]

#: One node, or what is known of an exit.
Row: TypeAlias = "list[Any]"

_WORK_ITEMS = {
    kind.__name__: kind
    for kind in (
        nodes.GlobalId,
        nodes.GroupId,
        nodes.LocalId,
        nodes.GlobalSize,
        nodes.LocalSize,
        nodes.WholeLocalSize,
        nodes.NumGroups,
        nodes.GlobalOffset,
    )
}
_OPERATIONS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        nodes.Quotient,
        nodes.Remainder,
        nodes.ShiftLeft,
        nodes.ShiftRight,
        nodes.BitAnd,
        nodes.BitOr,
        nodes.BitXor,
        nodes.Minimum,
        nodes.Maximum,
        nodes.Both,
        nodes.Either,
        nodes.Select,
        nodes.NotNegative,
        nodes.IsZero,
        nodes.NotZero,
        nodes.Not,
    )
}
_TRIPS = "Trips"


class Writer:
    """Collects expressions into one table."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.nodes: list[Expr] = []  #: of the rows, except those with what is known of exits
        self._numbers: dict[Expr, int] = {}
        self._exits: list[nodes.Exit] = []

    def number(self, expr: Expr) -> int:
        """The row of `expr`; if it is new, it is written with all its operands."""
        pending = [expr]
        while pending:
            node = pending[-1]
            missing = [part for part in node.parts if part not in self._numbers]
            if missing:
                pending += missing
                continue
            pending.pop()
            if node not in self._numbers:
                self._numbers[node] = len(self.rows)
                self.rows.append([type(node).__name__, node.lo, node.hi, *self._fields(node)])
                self.nodes.append(node)
                if isinstance(node, nodes.Exit):
                    self._exits.append(node)
        return self._numbers[expr]

    def table(self) -> list[Row]:
        """All rows: nodes, then what is known of exits. Nothing may be written after it."""
        known: list[Row] = []
        for leaf in self._exits:  # what is known of one may name others
            trips = leaf.definition
            known.append(
                [_TRIPS, self._numbers[leaf], *(self.number(part) for part in trips.parts), trips.exact]
            )
        return self.rows + known

    def _fields(self, node: Expr) -> list[Any]:
        match node:
            case nodes.Const():
                return [node.number]
            case nodes.WorkItem():
                return [node.dimension]
            case nodes.Argument():
                return [node.index, node.byte, *node.kind]
            case nodes.Unknown():
                return [node.origin]
            case nodes.Sum():
                return [node.constant, [[self._numbers[term], factor] for term, factor in node.terms]]
            case nodes.Cast():
                return [self._numbers[node.a], *node.kind]
        return [self._numbers[part] for part in node.parts]


def read_table(rows: Sequence[Row]) -> list[Expr]:
    """The expressions of a table, by row. Raises ValueError, or what unexpected plain values raise, if it is not a
    table.
    """
    expressions: list[Expr] = []
    known = []
    for row in rows:
        if row[0] == _TRIPS:
            known.append(row)
        else:
            expressions.append(_node(row[0], row[1], row[2], row[3:], expressions))
    exits = []
    for _, leaf, none, before, after, exact in known:
        found = expressions[leaf]
        if not isinstance(found, nodes.Exit):
            raise ValueError(f"row {leaf} is no exit")
        exits.append((found, nodes.Trips(expressions[none], expressions[before], expressions[after], exact)))
    ex.define(exits)
    if any(not hasattr(node, "definition") for node in expressions if isinstance(node, nodes.Exit)):
        raise ValueError("an exit of which nothing is said")
    return expressions


def _node(name: str, lo: int, hi: int, fields: Row, expressions: Sequence[Expr]) -> Expr:
    if name in _OPERATIONS:
        made: Expr = ex.remade(_OPERATIONS[name], lo, hi, _at(expressions, fields))
        return made
    if name in _WORK_ITEMS:
        return ex.workitem(_WORK_ITEMS[name], *fields)
    match name, fields:
        case "Const", [number]:
            return ex.const(number)
        case "WorkDim", []:
            return ex.WORK_DIM
        case "Argument", [index, byte, bits, signed]:
            return ex.argument(index, byte, nodes.IntType(bits, signed))
        case "Sum", [constant, terms]:
            found = tuple((expressions[_row(number)], factor) for number, factor in terms)
            return ex.remade_sum(lo, hi, constant, found)
        case "Product", factors:
            return ex.remade_product(lo, hi, _at(expressions, factors))
        case "Cast", [number, bits, signed]:
            return ex.remade_cast(lo, hi, expressions[_row(number)], nodes.IntType(bits, signed))
        case ("Unknown", _) | ("Counter" | "Head" | "Exit", []):
            leaf: Expr = ex.new_leaf(_NEW[name], lo, hi, *fields)
            return leaf
    raise ValueError(f"no node {name} of {fields}")


_NEW: dict[str, Any] = {
    "Counter": nodes.Counter,
    "Head": nodes.Head,
    "Exit": nodes.Exit,
    "Unknown": nodes.Unknown,
}


def _row(number: int) -> int:
    if number < 0:
        raise ValueError(f"there is no row {number}")
    return number


def _at(expressions: Sequence[Expr], numbers: Iterable[int]) -> tuple[Expr, ...]:
    return tuple(expressions[_row(number)] for number in numbers)
