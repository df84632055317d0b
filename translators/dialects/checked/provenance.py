"""Where a program's pointers may come from.

Decides whether every pointer into global and local memory is derived from the launch's arguments and arrays: if so,
an address outside all of them lies beyond one of them, though it is not known which. Pointers that are loaded from
memory or made from integers, and variables at program scope, may lead elsewhere.
"""

from __future__ import annotations

from clang.cindex import Cursor, CursorKind, Type, TypeKind

from ...frontend import clang
from ...frontend.edits import Functions
from ...frontend.operator_kinds import Placed
from ...frontend.source import ParsedProgram
from ...frontend.types import OWN, Space
from .roots import expression_parts, is_array, is_pointer

_UNKNOWN = (TypeKind.INVALID, TypeKind.UNEXPOSED, TypeKind.OVERLOAD, TypeKind.DEPENDENT)


def is_closed(program: ParsedProgram, functions: Functions) -> bool:
    variables = [each for each in program.declarations if each.kind is CursorKind.VAR_DECL]
    if any(clang.address_space(variable.type) in (Space.GLOBAL, Space.GENERIC) for variable in variables):
        return False
    for function in functions.defined:
        if function.kernel and any(_holds_pointers(p.type) for p in function.cursor.get_arguments()):
            return False
        if any(map(_comes_from_elsewhere, clang.walk(function.cursor))):
            return False
    return True


def _holds_pointers(type_: Type) -> bool:
    """Whether an argument is a structure with a pointer in it."""
    canonical = type_.get_canonical()
    if canonical.kind is not TypeKind.RECORD:
        return False
    fields = [field.type.get_canonical() for field in canonical.get_fields()]
    return any(field.kind is TypeKind.POINTER or _holds_pointers(field) for field in fields)


def _comes_from_elsewhere(cursor: Cursor) -> bool:
    if cursor.type.kind in _UNKNOWN or not is_pointer(cursor):
        return False
    parts = expression_parts(cursor)
    if cursor.kind is CursorKind.CSTYLE_CAST_EXPR:
        made = bool(parts) and parts[-1].type.kind not in _UNKNOWN
        return made and not (is_pointer(parts[-1]) or is_array(parts[-1]) or clang.evaluate(parts[-1]) == 0)
    loads = cursor.kind in (CursorKind.ARRAY_SUBSCRIPT_EXPR, CursorKind.MEMBER_REF_EXPR) or (
        cursor.kind is CursorKind.UNARY_OPERATOR and clang.unary_operator(cursor) is Placed.DEREFERENCE
    )
    return loads and clang.address_space(cursor.type) not in OWN
