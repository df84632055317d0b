"""Built-in functions that touch memory through a pointer, or order accesses to it.

Decides by name what a function does (OpenCL C 6.15.7, 6.15.8, 6.15.11, 6.15.12); one that is not named here touches
nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from clang.cindex import Cursor, CursorKind
from vdev.translators.values import dataclass

from ...frontend import clang
from ...frontend.operator_kinds import Joining, Placed

READS, WRITES = 1, 2

_VECTOR = re.compile(r"v(load|store)(a?_half)?(\d*)(?:_rt[ezpn])?")
_ATOMIC = re.compile(r"(atomic|atom)_\w+")
_FENCES = ("mem_fence", "read_mem_fence", "write_mem_fence", "atomic_work_item_fence")
_BARRIERS = ("barrier", "work_group_barrier")
#: Functions that write a second result through a pointer, and the pointer's place among their arguments.
_RESULTS = {"fract": 1, "modf": 1, "sincos": 1, "frexp": 1, "lgamma_r": 1, "remquo": 2}
_COPIES = {"async_work_group_copy": None, "async_work_group_strided_copy": 3}
#: After these, the effects of the group's other work-items are visible.
_MEETINGS = ("sub_group_barrier",)
_RELAXED = "memory_order_relaxed"


@dataclass(frozen=True)
class Call:
    """What a built-in function does. `pointer`: the argument that it accesses memory through, `offset` the one that
    counts vectors of `elements` elements, each `stride` elements behind the one before. `count`, `step`: of a copy.
    `effect`: what happens before the call, in words of `include/checked.cl`.
    """

    pointer: int | None = None
    offset: int | None = None
    elements: int = 1
    stride: int = 1
    mode: int = 0
    atomic: bool = False
    action: str = ""
    count: int | None = None
    step: int | None = None
    effect: str = ""


def classify(name: str, arguments: Sequence[Cursor], texts: Sequence[str], *, wanted: bool) -> Call | None:
    """What the built-in function does; None if it only computes values. `wanted`: whether its result is used."""
    if match := _VECTOR.fullmatch(name):
        return _vector(match, len(arguments))
    if name in _BARRIERS or name in _FENCES:
        return _order(name, texts)
    if name == "wait_group_events":
        return Call(effect="P_landed(P_c), P_passed(P_c, 1, 1)")
    if name.startswith("work_group_") or name in _MEETINGS:
        return Call(effect="P_passed(P_c, 1, 1)")
    if name in _COPIES:
        return Call(count=2, step=_COPIES[name], action="copy")
    if name in _RESULTS:
        return Call(pointer=_RESULTS[name], mode=WRITES, action="write")
    if _ATOMIC.fullmatch(name) and arguments:
        return _atomic(name, texts, wanted)
    return None


def _vector(match: re.Match[str], narguments: int) -> Call:
    stores, half, width = match[1] == "store", match[2] or "", int(match[3] or 1)
    stride = 4 if width == 3 and half.startswith("a") else width
    mode, action = (WRITES, "write") if stores else (READS, "read")
    return Call(narguments - 1, narguments - 2, width, stride, mode, action=action)


def _order(name: str, texts: Sequence[str]) -> Call | None:
    if not texts:
        return None
    flags = f"({texts[0]})"
    shared = f"{flags} & CLK_GLOBAL_MEM_FENCE"
    if name in _FENCES:
        return Call(effect=f"P_fenced(P_c, {shared})")
    return Call(effect=f"P_passed(P_c, {flags} & CLK_LOCAL_MEM_FENCE, {shared})")


def _atomic(name: str, texts: Sequence[str], wanted: bool) -> Call:
    effect = ""
    if wanted:
        explicit = name.startswith(
            ("atomic_fetch", "atomic_load", "atomic_exchange", "atomic_compare", "atomic_flag")
        )
        orders = explicit and not any(_RELAXED in text for text in texts)
        effect = "P_c->atomics = 1" + (", P_c->ordered = 1" if orders else "")
    stores = name.startswith(("atomic_store", "atomic_init", "atomic_flag_clear"))
    # An exchange whose result is not used is a store.
    stores = stores or (not wanted and name.startswith(("atomic_xchg", "atom_xchg", "atomic_exchange")))
    reads = 0 if stores else READS
    writes = WRITES if not name.startswith("atomic_load") else 0
    return Call(pointer=0, mode=reads | writes, atomic=True, action="atomic", effect=effect)


def is_plain(cursor: Cursor) -> bool:
    """Whether an expression may be evaluated twice: it has no stores, and calls only work-item functions."""
    return not any(_has_effect(found) for found in clang.walk(cursor))


def _has_effect(cursor: Cursor) -> bool:
    kind = cursor.kind
    if kind is CursorKind.UNARY_OPERATOR:
        return clang.unary_operator(cursor) in (Placed.RAISE, Placed.LOWER)
    if kind is CursorKind.BINARY_OPERATOR:
        return clang.binary_operator(cursor) is Joining.ASSIGN
    if kind is CursorKind.CALL_EXPR:
        return not cursor.spelling.startswith("get_")  # work-item functions
    return kind is CursorKind.COMPOUND_ASSIGNMENT_OPERATOR or kind is CursorKind.StmtExpr


__all__ = ["Call", "classify", "is_plain"]
