"""Accesses through pointers that were cast to a type with a greater alignment (C99 6.3.2.3p7).

Decides whether a program has such casts at all: without them every pointer is as aligned as its type, and nothing is
checked. A misaligned pointer is rounded down to an address that may be used; otherwise vector instructions would stop
the process.
"""

from __future__ import annotations

from collections.abc import Callable

from clang.cindex import Cursor, CursorKind, TypeKind

from ...frontend import clang
from ...frontend.edits import Function, Functions
from ...frontend.operator_kinds import Placed
from ...frontend.types import OWN
from .barriers import Wrap
from .roots import expression_parts, is_pointer
from .sites import Recorder, least_scalar

HEAD = "uint P_askew(P_C c, ulong place, uint alignment, uint site)"
DEFINITION = f"""{HEAD};
{HEAD} {{
  if (!(place & (alignment - 1))) return 0;
  P_report(c, P_MISALIGNED, site, -1, place & (alignment - 1), alignment, 0, 0);
  return 1;
}}
"""
_UNASKED = (TypeKind.INVALID, TypeKind.UNEXPOSED, TypeKind.VOID, TypeKind.FUNCTIONPROTO)


def look(
    functions: Functions, recorder: Recorder, put: Callable[[Cursor, Wrap], None], *, fast: bool
) -> bool:
    """Plan the checks of a program; whether there are any.

    A fast form checks each place separately, which is enough if the members of structures need the alignment of the
    whole.
    """
    cursors = [(function, cursor) for function in functions.defined for cursor in clang.walk(function.cursor)]
    raised = [cursor for _, cursor in cursors if _raised(cursor)]
    if fast:
        recorder.askew = bool(raised)
        for function in functions.defined if not all(map(_tells_by_parts, raised)) else []:
            recorder.precise_only.setdefault(function.key, "a pointer that may be misaligned")
        return False
    for function, cursor in cursors if raised else []:
        pointer = _through(cursor)
        if pointer is not None:
            _check(function, cursor, pointer, recorder, put)
    return bool(raised)


def _tells_by_parts(cast: Cursor) -> bool:
    """Whether a misaligned whole also has its parts misaligned, for everything that a pointer leads to."""
    pointee = clang.pointee(cast.type)
    if pointee is None or pointee.get_canonical().kind is not TypeKind.RECORD:
        return True
    return least_scalar(pointee) == _alignment(cast)


def _alignment(pointer: Cursor) -> int:
    """The alignment of what a pointer points to; 0 if that is not known."""
    pointee = clang.pointee(pointer.type)
    if pointee is None or pointee.get_canonical().kind in _UNASKED:
        return 0
    return max(0, int(pointee.get_align()))


def _raised(cursor: Cursor) -> int:
    """The alignment that a cast claims, if the operand's type has less."""
    parts = expression_parts(cursor) if cursor.kind is CursorKind.CSTYLE_CAST_EXPR else []
    if not parts or not is_pointer(cursor):
        return 0
    claimed = _alignment(cursor)
    return claimed if claimed > (_alignment(parts[-1]) if is_pointer(parts[-1]) else 1) else 0


def _through(cursor: Cursor) -> Cursor | None:
    """The pointer through which a place is found."""
    parts = expression_parts(cursor)
    if cursor.kind is CursorKind.UNARY_OPERATOR and clang.unary_operator(cursor) is Placed.DEREFERENCE:
        return parts[0]
    if (
        cursor.kind in (CursorKind.ARRAY_SUBSCRIPT_EXPR, CursorKind.MEMBER_REF_EXPR)
        and parts
        and is_pointer(parts[0])
    ):
        inner = parts[0]
        while (
            inner.kind in (CursorKind.UNEXPOSED_EXPR, CursorKind.PAREN_EXPR)
            and len(expression_parts(inner)) == 1
        ):
            inner = expression_parts(inner)[0]
        return parts[0] if is_pointer(inner) else None
    return None


def _check(
    function: Function,
    cursor: Cursor,
    pointer: Cursor,
    recorder: Recorder,
    put: Callable[[Cursor, Wrap], None],
) -> None:
    alignment = _alignment(pointer)
    target = clang.pointee(pointer.type)
    if alignment < 2 or target is None or clang.address_space(target) in OWN:
        return
    p = recorder.prefix
    site = recorder.site(cursor, "alignment", function.name, limit=alignment)
    start, stop = recorder.extent(pointer)
    type_ = f"__typeof__({recorder.unevaluated(pointer)})"
    tail = f"); {p}askew({p}c, (ulong){p}at, {alignment}, {site}) ? ({type_})((ulong){p}at & ~{alignment - 1}UL) : {p}at; }})"
    put(pointer, Wrap(start, f"({{ {type_} {p}at = (", stop, tail))
