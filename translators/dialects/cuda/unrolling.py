"""How far a loop is to be unrolled whose author leaves that to the compiler.

NVRTC copies the body of a loop half as often as NVIDIA's OpenCL does: bodies of some twenty operations four times in place of eight, which
shows in the sum over all bodies of an N-body step (`samples/benchmarks/c_programs.py`). Of smaller bodies NVRTC makes eight copies itself,
or unrolls the loop as a whole; larger ones gain nothing.

Decides for which loops; a hint never changes what a program means.
"""

from __future__ import annotations

import re

from clang.cindex import CursorKind

from ...frontend import clang
from ...frontend.operator_kinds import Binary
from . import nodes
from .nodes import Node
from .types import vector_type

#: copies of a body
COPIES = 8
#: the least number of turns: NVRTC may unroll loops of fewer as a whole
_TURNS = 32
#: operations of a body, those on a vector counted by component
_LEAST, _MOST = 20, 60
#: built-in functions that take a GPU few instructions
_SHORT = frozenset({
    "abs", "clamp", "dot", "fabs", "fma", "fmax", "fmin", "half_recip", "half_rsqrt", "half_sqrt", "mad",
    "mad24", "max", "min", "mul24", "native_cos", "native_divide", "native_exp2", "native_log2",
    "native_recip", "native_rsqrt", "native_sin", "native_sqrt", "rsqrt", "select", "sign", "step",
})  # fmt: skip
#: bytes in front of a loop in which a hint of its own is looked for
_NEAR = 1000
#: what compares a counter with where it stops
_COMPARED = frozenset(
    {Binary.LESS, Binary.LESS_EQUAL, Binary.GREATER, Binary.GREATER_EQUAL, Binary.NOT_EQUAL}
)
#: in front of a loop that has a hint of its own: a pragma on the line before, or an attribute
_HINTED = re.compile(rb"#[ \t]*pragma\b[^\n]*\s*\Z|\)\s*\)\s*\Z|_Pragma\s*\([^)]*\)\s*\Z")
#: statements and expressions that make a body more than one block of instructions
_BRANCHES = (nodes.For, nodes.Switch, nodes.Case, nodes.Block, nodes.Otherwise)


def wants_copies(loop: nodes.For, text: bytes) -> bool:
    """Whether `COPIES` copies of a loop's body are to be made in a row. `text`: the program's.

    It is a loop over numbers that are known, a multiple of `COPIES` of them, whose body has neither branches nor calls but of short
    functions, and is neither so small that NVRTC does it anyway nor so large that nothing is gained.
    """
    turns = _turns(loop)
    if (
        turns is None
        or turns < _TURNS
        or turns % COPIES
        or _HINTED.search(text, max(0, loop.start - _NEAR), loop.start)
    ):
        return False
    operations = _operations(loop.parts[-1])
    return operations is not None and _LEAST <= operations <= _MOST


def _turns(loop: nodes.For) -> int | None:
    """How often a loop's body runs, if the text says so."""
    if len(loop.parts) != 4:
        return None
    first, condition, step = _first(loop.parts[0]), _behind(loop.parts[1]), _step(loop.parts[2])
    if first is None or step is None or not isinstance(condition, nodes.Calculation):
        return None
    last = clang.evaluate(condition.right.cursor) if condition.operator in _COMPARED else None
    if not isinstance(last, int):
        return None
    span = abs(last - first) + (condition.operator in (Binary.LESS_EQUAL, Binary.GREATER_EQUAL))
    return -(-span // step)


def _first(node: Node) -> int | None:
    """What a counter begins with."""
    if isinstance(node, nodes.Declare) and len(node.variables) == 1:
        cursor = clang.initialiser(node.variables[0].cursor)
    else:
        cursor = node.right.cursor if isinstance(node, nodes.Assignment) else None
    value = None if cursor is None else clang.evaluate(cursor)
    return value if isinstance(value, int) else None


def _step(node: Node) -> int | None:
    """By how much a counter moves on, in either direction."""
    if isinstance(node, nodes.Step):
        return 1
    if isinstance(node, nodes.Update) and node.operator in (Binary.ADD, Binary.SUBTRACT):
        value = clang.evaluate(node.right.cursor)
        return abs(value) if isinstance(value, int) and value else None
    return None


def _operations(body: Node) -> int | None:
    """How many there are in a body; None where it branches or calls what is not short."""
    found = 0
    for node in nodes.walk(body):
        if isinstance(node, _BRANCHES):
            return None
        if isinstance(node, nodes.Plain) and node.cursor.kind != CursorKind.COMPOUND_STMT:
            return None
        if isinstance(node, nodes.Call) and (node.ours or node.name not in _SHORT):
            return None
        if isinstance(
            node, nodes.Calculation | nodes.Update | nodes.Operation | nodes.Conditional | nodes.Call
        ):
            vector = vector_type(node.type)
            found += 1 if vector is None else vector[1]
        elif isinstance(node, nodes.Index | nodes.Dereference):
            found += 1
    return found


def _behind(node: Node) -> Node:
    while isinstance(node, nodes.Parentheses | nodes.Converted):
        node = node.inner if isinstance(node, nodes.Parentheses) else node.operand
    return node
