"""Calls of work-item functions of which only the low 32 bits are used.

Most kernels keep a work-item's place in an `int` or a `uint`: `int i = get_global_id(0)`. The function's value has 64 bits
(OpenCL C 6.15.1), and NVRTC then computes all of them: it extends the sign of what it has cut off again, and multiplies by it in
several instructions. A stencil in three dimensions took an H200 1.02 times as long as NVIDIA's own OpenCL, and 0.98 times computed in
32 bits from the start (`samples/benchmarks/results/h200_1_2_latency_low_bits.json`). The low bits of sums, differences, products and of
what works bit by bit depend on nothing but the operands' low bits, so they are the same.

Decides which calls; prints nothing.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from clang.cindex import Type, TypeKind

from ...frontend import clang
from ...frontend.operator_kinds import Binary, Unary
from ..subgrid import low_name
from . import nodes
from .nodes import Node

#: types that hold the low 32 bits of a number, or fewer; a bool holds whether all are 0
_NARROW = frozenset({
    TypeKind.CHAR_S, TypeKind.SCHAR, TypeKind.CHAR_U, TypeKind.UCHAR, TypeKind.SHORT, TypeKind.USHORT, TypeKind.INT, TypeKind.UINT,
})  # fmt: skip
_WIDE = frozenset({TypeKind.LONG, TypeKind.ULONG, TypeKind.LONGLONG, TypeKind.ULONGLONG})
#: operators whose result's low bits depend on the operands' low bits alone
_FROM_LOW_BITS = frozenset({
    Binary.ADD, Binary.SUBTRACT, Binary.MULTIPLY, Binary.AND, Binary.OR, Binary.XOR,
})  # fmt: skip
_NBITS = 32
#: built-in functions that are left to CUDA, whose numbers they are
_LOCAL = frozenset({"get_local_id", "get_local_size", "get_enqueued_local_size", "get_local_linear_id"})


def narrowed(node: Node) -> Iterator[nodes.Call]:
    """The calls of which a node that has a number cut off uses the low 32 bits; none, for other nodes."""
    match node:
        case nodes.Converted(operand=operand) | nodes.Cast(parts=(operand,)) if _kind(node.type) in _NARROW:
            yield from _calls(operand)
        case nodes.Update(operator=operator, left=left, right=right) if operator in _FROM_LOW_BITS:
            if _kind(left.type) in _NARROW:
                yield from _calls(right)


def low_bits(call: nodes.Call, declared: Container[str]) -> str | None:
    """What to call in place of a function, for the low 32 bits of its value; None if nothing has these alone. `declared`: the names of
    the program's functions.
    """
    if not call.ours:
        return f"(::vdev_cl::uint){call.name}" if call.name in _LOCAL else None
    name = low_name(call.name)
    return name if name in declared else None


def _calls(node: Node) -> Iterator[nodes.Call]:
    """The calls in an expression of 64 bits of which its low 32 bits come."""
    if _kind(node.type) not in _WIDE:  # computed from what is narrow already, or in another way altogether
        return
    match node:
        case nodes.Call():
            yield node
        case nodes.Parentheses(inner=operand) | nodes.Converted(operand=operand):
            yield from _calls(operand)
        case nodes.Operation(operator=Unary.PLUS | Unary.MINUS | Unary.COMPLEMENT, operand=operand):
            yield from _calls(operand)
        case nodes.Calculation(operator=Binary.SHIFT_LEFT, left=left, right=right):
            if _is_short(right):
                yield from _calls(left)
        case nodes.Calculation(operator=operator, left=left, right=right) if operator in _FROM_LOW_BITS:
            yield from _calls(left)
            yield from _calls(right)
        case nodes.Conditional(yes=yes, no=no):
            yield from _calls(yes)
            yield from _calls(no)


def _is_short(distance: Node) -> bool:
    """Whether a number of 32 bits can be shifted so far."""
    inner = nodes.behind_conversions(distance)
    return isinstance(inner, nodes.Integer) and 0 <= (clang.evaluate(inner.cursor) or 0) < _NBITS


def _kind(type_: Type) -> TypeKind:
    return clang.canonical(type_).kind
