"""Which expressions have the same value for all work-items of a group, as far as the text shows.

Decides by what is assigned to variables and where: everything counts as the same for all until something says
otherwise. Values loaded from memory never do, nor do variables whose address is taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from clang.cindex import Cursor, CursorKind

from ...frontend import clang
from ...frontend.edits import Function, Functions
from ...frontend.operator_kinds import Joining, Placed
from ...frontend.types import OWN, Space
from .roots import expression_parts, is_array, is_pointer

LOOPS = (CursorKind.WHILE_STMT, CursorKind.FOR_STMT, CursorKind.DO_STMT)
_SAME = re.compile(
    r"get_(group_id|num_groups|local_size|enqueued_local_size|global_size|global_offset|work_dim|num_sub_groups|"
    r"max_sub_group_size)|work_group_(all|any|reduce_\w+|broadcast)"
)
_DIFFERENT = re.compile(r"get_|work_group_|sub_group_|intel_sub_group_|atom|vload|async_|read_image")
_LITERALS = (
    CursorKind.INTEGER_LITERAL,
    CursorKind.FLOATING_LITERAL,
    CursorKind.CHARACTER_LITERAL,
    CursorKind.STRING_LITERAL,
    CursorKind.CXX_UNARY_EXPR,  # sizeof
)


def condition(statement: Cursor) -> Cursor | None:
    """The condition of an `if`, a `switch` or a loop; None if a `for` has none."""
    parts = list(statement.get_children())
    if statement.kind is CursorKind.DO_STMT:
        return parts[1]
    if statement.kind is not CursorKind.FOR_STMT:
        return next((part for part in parts if part.kind is not CursorKind.DECL_STMT), None)
    first, second = semicolons(statement)
    found = (
        part
        for part in parts[:-1]
        if first < clang.extent_of(part)[0] + 1 and part.extent.end.offset <= second
    )
    return next((part for part in found if clang.extent_of(part)[0] > first), None)


def semicolons(statement: Cursor) -> tuple[int, int]:
    """Where the two semicolons of a `for` stand."""
    tokens = list(statement.get_tokens())
    depth, found = 0, []
    for token in tokens:
        depth += {"(": 1, "{": 1, "[": 1, ")": -1, "}": -1, "]": -1}.get(token.spelling, 0)
        if token.spelling == ";" and depth == 1:
            found.append(int(token.extent.start.offset))
        if len(found) == 2:
            break
    return found[0], found[1]


class Uniform:
    """The functions of one program."""

    def __init__(self, functions: Functions) -> None:
        self._functions = functions
        self._own = {function.key: function for function in functions.defined}
        self._different: set[int] = set()  #: variables, by their declarations
        self._results: set[int] = set()  #: functions whose results differ, by their keys
        self._ragged: set[int] = set()  #: loops that some work-items leave before others
        before = -1
        for function in functions.defined:
            self._take_addresses(function)
        while before != (before := len(self._different) + len(self._results) + len(self._ragged)):
            for function in functions.defined:
                _Flow(self, function).run()

    def of(self, cursor: Cursor | None) -> bool:
        """Whether an expression is known to have one value in a group."""
        if cursor is None:
            return True
        kind, parts = cursor.kind, expression_parts(cursor)
        if kind in _LITERALS:
            return True
        if kind is CursorKind.DECL_REF_EXPR:
            return self._variable(cursor)
        if kind is CursorKind.CALL_EXPR:
            return self._call(cursor, parts[1:])
        if kind is CursorKind.ARRAY_SUBSCRIPT_EXPR or (
            kind is CursorKind.UNARY_OPERATOR and clang.unary_operator(cursor) is Placed.DEREFERENCE
        ):
            return clang.address_space(cursor.type) is Space.CONSTANT and all(map(self.of, parts))
        if kind is CursorKind.MEMBER_REF_EXPR:
            through = bool(parts) and is_pointer(parts[0])
            constant = clang.address_space(cursor.type) is Space.CONSTANT
            return bool(parts) and (constant or not through) and self.of(parts[0])
        if kind is CursorKind.StmtExpr:
            return False
        return bool(parts) and all(map(self.of, parts))

    def _variable(self, cursor: Cursor) -> bool:
        declared = cursor.referenced
        if declared is None:
            return False
        if (
            declared.kind is CursorKind.ENUM_CONSTANT_DECL
            or clang.address_space(cursor.type) is Space.CONSTANT
        ):
            return True
        if declared.kind not in (CursorKind.VAR_DECL, CursorKind.PARM_DECL) or is_array(cursor):
            return False
        private = clang.address_space(declared.type) in OWN and not cursor.type.is_volatile_qualified()
        return private and int(declared.hash) not in self._different

    def _call(self, cursor: Cursor, arguments: list[Cursor]) -> bool:
        name, callee = str(cursor.spelling), cursor.referenced
        if _SAME.fullmatch(name):
            return True
        key = None if callee is None else self._functions.key(callee)
        if key in self._own:
            return key not in self._results and all(map(self.of, arguments))
        if _DIFFERENT.match(name) or any(is_pointer(argument) for argument in arguments):
            return False
        return all(map(self.of, arguments))

    def _take_addresses(self, function: Function) -> None:
        for cursor in clang.walk(function.cursor):
            if cursor.kind is CursorKind.UNARY_OPERATOR and clang.unary_operator(cursor) is Placed.ADDRESS:
                for found in clang.walk(cursor):
                    if found.kind is CursorKind.DECL_REF_EXPR and found.referenced is not None:
                        self._different.add(int(found.referenced.hash))

    def differs(self, variable: int) -> None:
        self._different.add(variable)

    def result_differs(self, function: Function) -> None:
        self._results.add(function.key)

    def leaves(self, loop: Cursor) -> None:
        self._ragged.add(int(loop.hash))

    def is_ragged(self, loop: Cursor) -> bool:
        return int(loop.hash) in self._ragged

    def parameters(self, call: Cursor) -> Iterator[tuple[Cursor, Cursor]]:
        """(parameter, argument) of a call of a function of the program's own."""
        key = None if call.referenced is None else self._functions.key(call.referenced)
        if key in self._own:
            yield from zip(self._own[key].cursor.get_arguments(), expression_parts(call)[1:], strict=False)


class _Flow:
    """One function, looked at once."""

    def __init__(self, uniform: Uniform, function: Function) -> None:
        self._uniform = uniform
        self._function = function
        self._jumps = any(c.kind is CursorKind.GOTO_STMT for c in clang.walk(function.cursor))

    def run(self) -> None:
        for child in self._function.cursor.get_children():
            if child.kind is CursorKind.COMPOUND_STMT:
                self._walk(child, self._jumps, [])

    def _walk(self, cursor: Cursor, parted: bool, targets: list[Cursor]) -> None:
        """`parted`: whether some work-items may not come here. `targets`: loops and switches around it."""
        kind = cursor.kind
        if kind is CursorKind.CONDITIONAL_OPERATOR or (
            kind is CursorKind.BINARY_OPERATOR and "BOTH EITHER".find(_name(cursor)) >= 0
        ):
            parted = parted or not self._uniform.of(expression_parts(cursor)[0])
        elif kind in (CursorKind.IF_STMT, CursorKind.SWITCH_STMT):
            parted = parted or not self._uniform.of(condition(cursor))
        elif kind in LOOPS:
            parted = parted or not self._uniform.of(condition(cursor)) or self._uniform.is_ragged(cursor)
        if kind in LOOPS or kind is CursorKind.SWITCH_STMT:
            targets = [*targets, cursor]
        self._effects(cursor, parted, targets)
        for child in clang.children(cursor):
            self._walk(child, parted, targets)

    def _effects(self, cursor: Cursor, parted: bool, targets: list[Cursor]) -> None:
        kind, parts = cursor.kind, expression_parts(cursor)
        if kind is CursorKind.VAR_DECL and parts and (parted or not self._uniform.of(parts[-1])):
            self._uniform.differs(int(cursor.hash))
        elif kind in (CursorKind.BINARY_OPERATOR, CursorKind.COMPOUND_ASSIGNMENT_OPERATOR):
            assigns = (
                kind is not CursorKind.BINARY_OPERATOR or clang.binary_operator(cursor) is Joining.ASSIGN
            )
            if assigns and (parted or not self._uniform.of(parts[1])):
                self._stored(parts[0])
        elif kind is CursorKind.UNARY_OPERATOR and parted:
            if clang.unary_operator(cursor) in (Placed.RAISE, Placed.LOWER):
                self._stored(parts[0])
        elif kind is CursorKind.CALL_EXPR:
            for parameter, argument in self._uniform.parameters(cursor):
                if not self._uniform.of(argument):
                    self._uniform.differs(int(parameter.hash))
        else:
            self._leaving(cursor, parts, parted, targets)

    def _leaving(self, cursor: Cursor, parts: list[Cursor], parted: bool, targets: list[Cursor]) -> None:
        if cursor.kind is CursorKind.RETURN_STMT and parts and (parted or not self._uniform.of(parts[0])):
            self._uniform.result_differs(self._function)
        elif parted and cursor.kind in (CursorKind.BREAK_STMT, CursorKind.CONTINUE_STMT):
            loops = [target for target in targets if target.kind in LOOPS]
            if targets and (cursor.kind is CursorKind.BREAK_STMT or loops):
                self._uniform.leaves((targets if cursor.kind is CursorKind.BREAK_STMT else loops)[-1])

    def _stored(self, place: Cursor) -> None:
        while place.kind is not CursorKind.DECL_REF_EXPR:
            parts = expression_parts(place)
            if not parts:
                return
            place = parts[0]
        if place.referenced is not None:
            self._uniform.differs(int(place.referenced.hash))


def _name(cursor: Cursor) -> str:
    operator = clang.binary_operator(cursor)
    return "?" if operator is None else operator.name
