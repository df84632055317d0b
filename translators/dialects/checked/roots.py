"""Which memory a pointer leads into, as far as the text of one function shows.

Decides by names alone: a pointer variable has a root if everything that is ever assigned to it comes from the same
root. Never guesses: a pointer that comes from memory, from a function or from two places has no root.
"""

from __future__ import annotations

from clang.cindex import Cursor, CursorKind, TypeKind

from ...frontend import clang
from ...frontend.operator_kinds import Binary, Joining, Placed

#: a root's name in a function: its number in a kernel, or the parameter that carries it
RootText = str

_THROUGH = (CursorKind.UNEXPOSED_EXPR, CursorKind.PAREN_EXPR, CursorKind.CSTYLE_CAST_EXPR)
_ARRAYS = (TypeKind.CONSTANTARRAY, TypeKind.INCOMPLETEARRAY, TypeKind.VARIABLEARRAY)
UNKNOWN = "-1"


def expression_parts(cursor: Cursor) -> list[Cursor]:
    """The operands of an expression: what libclang shows below it, without types and attributes."""
    return [c for c in clang.children(cursor) if c.kind.is_expression() or c.kind.is_statement()]


def is_pointer(cursor: Cursor) -> bool:
    return cursor.type.get_canonical().kind is TypeKind.POINTER


def is_array(cursor: Cursor) -> bool:
    return cursor.type.get_canonical().kind in _ARRAYS


def is_address(cursor: Cursor) -> bool:
    """Whether a parameter or an argument is a pointer, or was declared as an array: libclang shows what was written (C99 6.7.5.3p7)."""
    return is_pointer(cursor) or is_array(cursor)


def is_parameter(cursor: Cursor) -> bool:
    """Whether this names a parameter: one that is written as an array is a pointer to any number of elements."""
    while cursor.kind in (CursorKind.UNEXPOSED_EXPR, CursorKind.PAREN_EXPR):
        parts = expression_parts(cursor)
        if len(parts) != 1:
            return False
        cursor = parts[0]
    return cursor.kind is CursorKind.DECL_REF_EXPR and cursor.referenced.kind is CursorKind.PARM_DECL


class Roots:
    """The roots of one function. `known`: by declaration, the names of parameters and local arrays."""

    def __init__(self, function: Cursor, known: dict[int, RootText]) -> None:
        self.known = known
        self._sources: dict[int, list[Cursor | None]] = {}
        self._found: dict[int, RootText | None] = {}
        for cursor in clang.walk(function):
            self._collect(cursor)

    def of(self, cursor: Cursor) -> RootText:
        """The root of a pointer's value, or of the place that an expression names."""
        return self._of(cursor, frozenset()) or UNKNOWN

    def _collect(self, cursor: Cursor) -> None:
        if cursor.kind is CursorKind.VAR_DECL:
            parts = expression_parts(cursor)
            if parts and is_pointer(cursor):
                self._sources.setdefault(cursor.hash, []).append(parts[-1])
        elif cursor.kind is CursorKind.BINARY_OPERATOR and clang.binary_operator(cursor) is Joining.ASSIGN:
            target, value = expression_parts(cursor)
            variable = self._variable(target)
            if variable is not None:
                self._sources.setdefault(variable, []).append(value)
        elif cursor.kind is CursorKind.UNARY_OPERATOR and clang.unary_operator(cursor) is Placed.ADDRESS:
            variable = self._variable(expression_parts(cursor)[0])
            if variable is not None:
                self._sources.setdefault(variable, []).append(None)  # anything may be assigned to it

    def _variable(self, cursor: Cursor) -> int | None:
        while cursor.kind in _THROUGH:
            parts = expression_parts(cursor)
            if len(parts) != 1:
                return None
            cursor = parts[0]
        if cursor.kind is not CursorKind.DECL_REF_EXPR or not (is_pointer(cursor) or is_parameter(cursor)):
            return None
        declared = cursor.referenced
        return None if declared is None else int(declared.hash)

    def _of(self, cursor: Cursor, asked: frozenset[int]) -> RootText | None:
        """None: unknown. An empty text: whatever the others say (a variable that comes from itself)."""
        kind, parts = cursor.kind, expression_parts(cursor)
        if kind in _THROUGH:
            return self._of(parts[-1], asked) if parts else None
        if kind is CursorKind.DECL_REF_EXPR:
            return self._of_variable(cursor, asked)
        if kind is CursorKind.ARRAY_SUBSCRIPT_EXPR:
            return self._of_place(cursor, parts, asked)
        if kind is CursorKind.MEMBER_REF_EXPR:
            reads = is_pointer(cursor) or not parts  # a pointer that memory holds
            return None if reads else self._of(parts[0], asked)
        if kind is CursorKind.UNARY_OPERATOR:
            through = clang.unary_operator(cursor) in (
                Placed.ADDRESS,
                Placed.RAISE,
                Placed.LOWER,
            ) or not is_pointer(cursor)
            return self._of(parts[0], asked) if through else None
        if kind is CursorKind.CONDITIONAL_OPERATOR and len(parts) == 3:
            return self._join([self._of(parts[1], asked), self._of(parts[2], asked)])
        if kind is CursorKind.BINARY_OPERATOR or kind is CursorKind.COMPOUND_ASSIGNMENT_OPERATOR:
            return self._of_sum(cursor, parts, asked)
        return None

    def _of_place(self, cursor: Cursor, parts: list[Cursor], asked: frozenset[int]) -> RootText | None:
        if is_pointer(cursor):
            return None
        base = parts[0] if is_pointer(parts[0]) or is_array(parts[0]) else parts[1]
        return self._of(base, asked)

    def _of_sum(self, cursor: Cursor, parts: list[Cursor], asked: frozenset[int]) -> RootText | None:
        operator = clang.binary_operator(cursor)
        if operator in (Binary.ADD, Binary.SUBTRACT) and len(parts) == 2:
            pointers = [part for part in parts if is_address(part)]
            return self._of(pointers[0], asked) if len(pointers) == 1 else None
        return self._of(parts[1], asked) if operator in (Joining.ASSIGN, Joining.COMMA) else None

    def _of_variable(self, cursor: Cursor, asked: frozenset[int]) -> RootText | None:
        declared = cursor.referenced
        if declared is None:
            return None
        key = int(declared.hash)
        if key in asked:
            return ""
        if key in self._found:
            return self._found[key]
        sources = self._sources.get(key, [])
        own = [self.known[key]] if key in self.known else []
        found = [None if s is None else self._of(s, asked | {key}) for s in sources]
        root = self._join([*own, *found]) if own or found else None
        if not asked:  # otherwise it may be part of a circle, seen from one side
            self._found[key] = root
        return root

    @staticmethod
    def _join(roots: list[RootText | None]) -> RootText | None:
        names = {root for root in roots if root != ""}
        if None in names or len(names) > 1:
            return None
        return names.pop() if names else ""
