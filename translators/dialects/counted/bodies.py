"""The walk through a function's body: statements that run together, conditions, and what is put around them.

Decides what is counted. Consecutive statements share a counter, up to one that may leave the sequence or be jumped
to, so most blocks cost one store. A condition is a branch unless it is constant; of `&&`, `||` and `!` each operand
is one, and the whole is not, because the last operand evaluated decides it. Notes stand behind what comes before them
in the text, not in front of statements: pragmas and attributes there stay with their loops.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from clang.cindex import Cursor, CursorKind, TypeKind

from ...frontend import clang
from ...frontend.edits import Edits, Function, after_blanks, entry_of, insert_statement, matching
from ...frontend.kernels import Untranslatable
from ...frontend.operator_kinds import Binary, Unary
from ...frontend.types import OWN
from .recording import Label, Recorder

_LABELS = (CursorKind.LABEL_STMT, CursorKind.CASE_STMT, CursorKind.DEFAULT_STMT)
_JUMPS = (CursorKind.RETURN_STMT, CursorKind.BREAK_STMT, CursorKind.CONTINUE_STMT, CursorKind.GOTO_STMT)
_LOOPS = {CursorKind.WHILE_STMT: "while", CursorKind.FOR_STMT: "for"}
_JOINED = {Binary.BOTH: "&&", Binary.EITHER: "||"}
_VECTORS = (TypeKind.VECTOR, TypeKind.EXTVECTOR)
_NO_TYPE = (TypeKind.INVALID, TypeKind.UNEXPOSED, TypeKind.OVERLOAD, TypeKind.DEPENDENT)
_BRACKET = re.compile(rb"""[()\[\]{};:?]|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'""")
_ELVIS = re.compile(rb"\?\s*:")


class Body:
    """One function being rewritten."""

    def __init__(self, recorder: Recorder, edits: Edits, function: Function) -> None:
        self.recorder = recorder
        self.edits = edits
        self.text = edits.text
        self.function = function

    def rewrite(self) -> int:
        """The counter of the function's entry."""
        counter = self.recorder.counter()
        place = entry_of(self.text, self.function.body_start)
        insert_statement(self.edits, place, f" {self.recorder.note(counter)}")
        for child in clang.children(self.function.cursor):
            if child.kind is CursorKind.COMPOUND_STMT:
                self._row(clang.children(child), place, counter)
        return counter

    # statements

    def _compound(self, cursor: Cursor) -> None:
        self._row(clang.children(cursor), entry_of(self.text, clang.extent_of(cursor)[0]))

    def _row(self, statements: Sequence[Cursor], position: int, counter: int | None = None) -> None:
        """Consecutive statements; `position`: where what comes before them ends. `counter`: of what has run there."""
        for statement in statements:
            while statement.kind in _LABELS:
                counter, position = None, self._behind_label(statement)
                statement = clang.children(statement)[-1]
            if _is_executable(statement):
                if counter is None:
                    counter = self.recorder.counter()
                    insert_statement(self.edits, position, f" {self.recorder.note(counter)}")
                self.recorder.statement(_bare(statement), self._head_stop(statement), counter)
            self._statement(statement)
            if _leaves(statement):
                counter = None
            position = self._end(statement)

    def _single(self, cursor: Cursor, position: int) -> None:
        """The body of an `if` or a loop; `position`: behind the parenthesis or word before it."""
        if cursor.kind is CursorKind.COMPOUND_STMT:
            self._compound(cursor)
        elif cursor.kind is not CursorKind.NULL_STMT:
            insert_statement(self.edits, position, " {")
            self._row([cursor], position)
            self.edits.insert(self._end(cursor), "}")

    def _statement(self, cursor: Cursor) -> None:
        """What is inside a statement."""
        kind = cursor.kind
        if kind is CursorKind.COMPOUND_STMT:
            self._compound(cursor)
        elif kind is CursorKind.IF_STMT:
            self._if(cursor)
        elif kind in _LOOPS:
            self._loop(cursor)
        elif kind is CursorKind.DO_STMT:
            body, condition = clang.children(cursor)
            self._single(body, clang.extent_of(cursor)[0] + len("do"))
            self._condition(condition, "do")
        elif kind is CursorKind.SWITCH_STMT:
            self._switch(cursor)
        elif kind is CursorKind.UNEXPOSED_STMT:
            self._statement(_bare(cursor))
        elif kind is CursorKind.DECL_STMT:
            self._declarations(cursor)
        else:
            self._expression(cursor)

    def _declarations(self, cursor: Cursor) -> None:
        for variable in clang.children(cursor):
            if variable.kind is CursorKind.VAR_DECL and clang.address_space(variable.type) in OWN:
                for part in clang.children(variable):
                    self._expression(part)

    def _if(self, cursor: Cursor) -> None:
        condition, then, *others = clang.children(cursor)
        self._condition(condition, "if")
        self._single(then, self._head_stop(cursor))
        for other in others:
            word = after_blanks(self.text, self._end(then))
            if self.text[word : word + 4] != b"else":
                raise Untranslatable("an else whose place is not found", clang.line_of(other))
            self._single(other, word + 4)

    def _loop(self, cursor: Cursor) -> None:
        *parts, body = clang.children(cursor)
        if cursor.kind is CursorKind.WHILE_STMT:
            self._condition(parts[0], "while")
        else:
            for clause, part in zip(self._clauses(cursor, parts), parts, strict=True):
                if clause == 1:
                    self._condition(part, "for")
                else:
                    self._statement(part)
        self._single(body, self._head_stop(cursor))

    def _clauses(self, cursor: Cursor, parts: Sequence[Cursor]) -> list[int]:
        """Which clause of a `for` each part is: libclang leaves out absent ones."""
        opening = self.text.index(b"(", clang.extent_of(cursor)[0])
        semicolons, depth = [], 0
        for match in _BRACKET.finditer(self.text, opening, self._head_stop(cursor)):
            depth += {b"(": 1, b"[": 1, b"{": 1, b")": -1, b"]": -1, b"}": -1}.get(match.group(), 0)
            if match.group() == b";" and depth == 1:
                semicolons.append(match.start())
        return [sum(at < clang.extent_of(part)[0] for at in semicolons) for part in parts]

    def _switch(self, cursor: Cursor) -> None:
        value, body = clang.children(cursor)[-2:]
        labels = _labels(body)
        if clang.evaluate(value) is not None:
            self.recorder.constant(value)
        elif labels is None:
            self.recorder.constant(value)
            self.recorder.skip(cursor, "the outcomes of a switch whose labels clang does not evaluate")
            self._expression(value)
        else:
            first = self.recorder.branch(value, "switch", [label.name for label in labels])
            start, stop = self.recorder.extent(value)
            name = self.recorder.switch(value.type, first, labels)
            self.edits.insert(start, f"{name}({self.recorder.prefix}c, (")
            self._expression(value)
            self.edits.insert(stop, "))")
        self._single(body, self._head_stop(cursor))

    # conditions and expressions

    def _condition(self, cursor: Cursor, kind: str) -> None:
        """A scalar whose truth decides."""
        operands = _operands(cursor)
        if operands is not None:
            for operand in operands:
                self._condition(operand, _joining(cursor) or kind)
        elif clang.evaluate(cursor) is not None:
            self.recorder.constant(cursor)
            self._expression(cursor)
        else:
            counter = self.recorder.branch(cursor, kind, ("true", "false"))
            start, stop = self.recorder.extent(cursor)
            p = self.recorder.prefix
            self.edits.insert(start, f"{p}b({p}c, {counter}, (")
            self._expression(cursor)
            self.edits.insert(stop, "))")

    def _expression(self, cursor: Cursor) -> None:
        """An expression whose value does not matter here, and everything in it."""
        kind, parts = cursor.kind, clang.children(cursor)
        if _joining(cursor):
            self._condition(cursor, "")
        elif kind is CursorKind.CONDITIONAL_OPERATOR and _is_scalar(parts[0]):
            self._condition(parts[0], "?:")
            for part in parts[1:]:
                self._expression(part)
        elif kind is CursorKind.StmtExpr:
            self._compound(parts[0])
        elif kind is CursorKind.UNEXPOSED_EXPR and len(parts) > 1 and self._is_elvis(cursor):
            self.recorder.skip(cursor, "the condition of ?: without a second operand")
        elif kind not in (CursorKind.CXX_UNARY_EXPR, CursorKind.GENERIC_SELECTION_EXPR):
            for part in parts:  # sizeof evaluates nothing (C99 6.5.3.4)
                self._expression(part)

    def _is_elvis(self, cursor: Cursor) -> bool:
        start, stop = self.recorder.extent(cursor)
        return _ELVIS.search(self.text, start, stop) is not None

    # places in the text

    def _head_stop(self, cursor: Cursor) -> int:
        """The end of a statement, or of the parenthesis that closes its head."""
        cursor = _bare(cursor)
        start, stop = self.recorder.extent(cursor)
        if cursor.kind is CursorKind.DO_STMT:
            return start
        if cursor.kind in (CursorKind.IF_STMT, CursorKind.SWITCH_STMT, *_LOOPS):
            return matching(self.text, self.text.index(b"(", start)) + 1
        return stop

    def _behind_label(self, cursor: Cursor) -> int:
        """Behind the colon of a label."""
        start, depth = clang.extent_of(cursor)[0], 0
        for match in _BRACKET.finditer(self.text, start):
            depth += {b"(": 1, b"[": 1, b"{": 1, b"?": 1, b")": -1, b"]": -1, b"}": -1}.get(match.group(), 0)
            if match.group() == b":":
                if depth == 0:
                    return match.end()
                depth -= 1
        raise Untranslatable("a label without a colon", clang.line_of(cursor))

    def _end(self, cursor: Cursor) -> int:
        """Behind a statement with its semicolon, which clang leaves out of an expression's."""
        kind, parts = cursor.kind, clang.children(cursor)
        if kind in (CursorKind.COMPOUND_STMT, CursorKind.DECL_STMT, CursorKind.NULL_STMT):
            return clang.extent_of(cursor)[1]
        if kind in (CursorKind.IF_STMT, CursorKind.SWITCH_STMT, CursorKind.UNEXPOSED_STMT, *_LOOPS, *_LABELS):
            return self._end(parts[-1])
        stop = after_blanks(self.text, self.recorder.extent(cursor)[1])
        if self.text[stop : stop + 1] != b";":
            raise Untranslatable("a statement whose end is not found", clang.line_of(cursor))
        return stop + 1


def _bare(cursor: Cursor) -> Cursor:
    """A statement without the attributes and pragmas before it."""
    while cursor.kind is CursorKind.UNEXPOSED_STMT:
        cursor = next(part for part in clang.children(cursor) if not part.kind.is_attribute())
    return cursor


def _is_executable(cursor: Cursor) -> bool:
    """Whether a statement does something itself."""
    if _bare(cursor).kind in (CursorKind.COMPOUND_STMT, CursorKind.NULL_STMT, CursorKind.DO_STMT):
        return False
    if cursor.kind is CursorKind.DECL_STMT:
        return any(
            part.kind is CursorKind.VAR_DECL
            and clang.address_space(part.type) in OWN
            and clang.initialiser(part) is not None
            for part in clang.children(cursor)
        )
    return True


def _leaves(cursor: Cursor) -> bool:
    """Whether what follows a statement may run without it, or not run after it."""
    return any(part.kind in _JUMPS or part.kind in _LABELS for part in clang.walk(cursor))


def _labels(body: Cursor) -> list[Label] | None:
    """Where a `switch` may jump to, in the order of the text, the default or nothing last; None if a label's value is
    not known.
    """
    found: list[Label] = []
    default = "no case"
    pending = [body]
    while pending:
        cursor = pending.pop()
        parts = clang.children(cursor)
        if cursor.kind is CursorKind.DEFAULT_STMT:
            default = "default"
        elif cursor.kind is CursorKind.CASE_STMT:
            values = [clang.evaluate(part) for part in parts[:-1]]
            if not all(isinstance(value, int) for value in values):
                return None
            first, last = int(values[0] or 0), int(values[-1] or 0)
            name = f"case {first}" if first == last else f"case {first} ... {last}"
            found.append(Label(name, first, last))
        if cursor.kind is CursorKind.SWITCH_STMT:
            parts = parts[:-1]  # its labels are its own
        pending.extend(reversed(parts))
    return [*found, Label(default, None, None)]


def _is_scalar(cursor: Cursor) -> bool:
    """With a vector, both sides are computed, and each component is chosen separately (OpenCL C 6.3.i)."""
    return cursor.type.get_canonical().kind not in _VECTORS


def _joining(cursor: Cursor) -> str:
    """`&&` or `||` where the right side may be left out, else nothing."""
    if cursor.kind is not CursorKind.BINARY_OPERATOR or not _is_scalar(cursor):
        return ""
    operator = clang.binary_operator(cursor)
    return _JOINED[operator] if operator in (Binary.BOTH, Binary.EITHER) else ""


def _operands(cursor: Cursor) -> list[Cursor] | None:
    """The conditions that a condition consists of; None if it is a single one."""
    if _joining(cursor):
        return clang.children(cursor)
    through = cursor.kind is CursorKind.PAREN_EXPR or (
        cursor.kind is CursorKind.UNARY_OPERATOR and clang.unary_operator(cursor) is Unary.NOT
    )
    parts = clang.children(cursor)
    if not through or not _is_scalar(cursor) or len(parts) != 1:
        return None
    return parts if _operands(parts[0]) is not None else None
