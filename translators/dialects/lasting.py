"""Variables that outlast a launch (OpenCL C 2.0, 6.7.1): at program scope, or static ones of functions, in global memory.

Each device has its own. Where no function changes one, all devices' are alike from the beginning to the end. Decides which variables
a program's functions may change: all but those that are only read, where they are named. It follows no pointers: whoever takes a
variable's address may change it. It never decides what becomes of such a program.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from clang.cindex import Cursor, CursorKind, StorageClass, Type, TypeKind

from ..frontend import clang
from ..frontend.edits import Functions
from ..frontend.source import ParsedProgram
from ..frontend.types import Space

__all__ = ["changeable_variable"]

_STATIC = re.compile(rb"\bstatic\b")
_ARRAYS = (TypeKind.CONSTANTARRAY, TypeKind.INCOMPLETEARRAY)
_VECTORS = (TypeKind.VECTOR, TypeKind.EXTVECTOR)


def changeable_variable(program: ParsedProgram, functions: Functions) -> Cursor | None:
    """The first variable in global memory that a function may change; None if there is none."""
    variables = [*filter(_lasts, program.declarations), *_static_ones(functions)]
    if not variables:
        return None
    reads = _Reads({variable.canonical.hash for variable in variables})
    for declared in program.declarations:
        reads.look_through(declared)
    return next((each for each in variables if each.canonical.hash in reads.others), None)


def _lasts(cursor: Cursor) -> bool:
    """Whether it is such a variable, and may be changed as far as its type says. One that is only declared here is defined elsewhere."""
    return (
        cursor.kind == CursorKind.VAR_DECL
        and cursor.storage_class != StorageClass.EXTERN
        and clang.address_space(cursor.type) not in (Space.CONSTANT, Space.LOCAL)
        and not _is_const(cursor.type)
    )


def _is_const(of: Type) -> bool:
    kept = of.get_canonical()
    while kept.kind in _ARRAYS and not kept.is_const_qualified():
        kept = kept.element_type
    return bool(kept.is_const_qualified())


def _static_ones(functions: Functions) -> Iterable[Cursor]:
    """Those of functions. Walking through a function takes long, and nearly none has any."""
    for function in functions.defined:
        if _STATIC.search(functions.text, function.body_start, function.stop):
            for cursor in clang.walk(function.cursor):
                if _lasts(cursor) and cursor.storage_class == StorageClass.STATIC:
                    yield cursor


class _Reads:
    """Tells uses of variables that only read them from others."""

    def __init__(self, variables: set[int]) -> None:
        self._variables = variables
        #: those of the variables that are used in another way, by the hash of their declaration
        self.others: set[int] = set()

    def look_through(self, cursor: Cursor) -> None:
        """Note every use that is below the cursor."""
        stack = [cursor]
        while stack:
            current = stack.pop()
            if current.kind == CursorKind.CXX_UNARY_EXPR:  # sizeof evaluates nothing (C99 6.5.3.4p2)
                continue
            if current.kind == CursorKind.DECL_REF_EXPR:
                self.others |= {_declared(current)} & self._variables
            rest = self._read(current)
            stack.extend(clang.children(current) if rest is None else rest)

    def _read(self, cursor: Cursor) -> list[Cursor] | None:
        """What remains to be looked through of an expression that reads one of the variables, or a part of it; None for any other.

        Clang converts what is read, implicitly, from a place to its value (C99 6.3.2.1p2).
        """
        place = _converted(cursor)
        if place is None or place.type.get_canonical().kind in _ARRAYS:
            return None
        rest: list[Cursor] = []
        while place is not None and place.kind != CursorKind.DECL_REF_EXPR:
            parts = clang.children(place)
            if place.kind == CursorKind.ARRAY_SUBSCRIPT_EXPR:
                place = _subscripted(parts[0])
                rest.append(parts[1])
            elif len(parts) == 1 and _is_part(place, parts[0]):
                place = parts[0]
            else:
                return None
        return rest if place is not None and _declared(place) in self._variables else None


def _declared(reference: Cursor) -> int:
    """The hash of the declaration that an expression names."""
    found = reference.referenced
    return 0 if found is None else int(found.canonical.hash)


def _converted(cursor: Cursor) -> Cursor | None:
    """What is converted implicitly: the text is the same."""
    if cursor.kind != CursorKind.UNEXPOSED_EXPR:
        return None
    parts = clang.children(cursor)
    return parts[0] if len(parts) == 1 and clang.extent_of(parts[0]) == clang.extent_of(cursor) else None


def _subscripted(operand: Cursor) -> Cursor | None:
    """The array or vector of which an element is taken; None for a pointer's target."""
    array = _converted(operand)
    if array is not None and array.type.get_canonical().kind in _ARRAYS:
        return array
    return operand if operand.type.get_canonical().kind in _VECTORS else None


def _is_part(place: Cursor, whole: Cursor) -> bool:
    """Whether it is in parentheses, a member of what is no pointer's target, or components of a vector (which libclang has no kind for)."""
    if place.kind == CursorKind.MEMBER_REF_EXPR:
        return bool(whole.type.get_canonical().kind != TypeKind.POINTER)
    if place.kind == CursorKind.UNEXPOSED_EXPR:
        return clang.extent_of(place) != clang.extent_of(whole)
    return bool(place.kind == CursorKind.PAREN_EXPR)
