"""Reads clang's cursors into `nodes`.

Decides what each cursor is: libclang shows implicit conversions, swizzles, initialisers with names and GNU C's
expressions alike as "unexposed" ones, which only their text tells apart. No other module looks at the text of
expressions. Never decides about C++.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from clang.cindex import Cursor, CursorKind, Type, TypeKind

from ...frontend import clang
from ...frontend.edits import Functions, after_blanks, matching
from ...frontend.kernels import Untranslatable
from ...frontend.operator_kinds import Binary, Joining, Placed
from ...frontend.syntax import swizzle_components
from . import nodes
from .declarations import SKIPPED
from .nodes import Node
from .types import ARRAYS, vector_type

_COMPONENTS = re.compile(rb"[\s)]*(\.|->)\s*(\w+)\s*")
_TOKEN = re.compile(rb"""[(\[{]|[)\]},]|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'""", re.DOTALL)
#: A name of an element or of a member (GNU C: before a colon); a number may begin with a point as well.
_NAMED = re.compile(rb"\[|\.\s*[A-Za-z_]|[A-Za-z_]\w*\s*:")
_MEMBER = re.compile(rb"(?:\.\s*)?(\w+)\s*(:)?\s*")
_LISTED = (*ARRAYS, TypeKind.RECORD)
_AROUND = (CursorKind.PAREN_EXPR, CursorKind.UNEXPOSED_EXPR)


class Reader:
    """Reads one program. `constants`: macros of the language itself; `single`: -cl-single-precision-constant."""

    def __init__(self, functions: Functions, constants: Mapping[str, str], single: bool) -> None:
        self._functions = functions
        self._text = functions.text
        self._constants = {name.encode() for name in constants}
        self._longest = max(map(len, self._constants))
        self._single = single
        #: the `switch` statements around: the condition's type, and the ends of labels that are ranges
        self._switches: list[tuple[Type, list[tuple[Cursor, Cursor]]]] = []
        self._jumps = False
        #: Where expressions in parentheses begin.
        self.parentheses: set[int] = set()
        #: Where expressions in braces begin that are statements of their own.
        self._alone: set[int] = set()

    def body(self, cursor: Cursor) -> tuple[Node, bool]:
        """A function's body, and whether it has jumps that may pass over declarations."""
        self._jumps = False
        body = self.node(cursor)
        return body, self._jumps

    def node(
        self,
        cursor: Cursor,
        *,
        operand: bool = False,
        spreads: bool = False,
        kept: bool = False,
        passes: bool = False,
    ) -> Node:
        """A statement or expression. `operand`: it is an operator's; `spreads`: a bool here becomes a vector; `kept`: it is
        not read as a whole; `passes`: nothing keeps it.
        """
        kind = cursor.kind
        start, stop = clang.extent_of(cursor)
        short = kind != CursorKind.DECL_REF_EXPR and stop - start <= self._longest
        if short and self._text[start:stop] in self._constants:
            return self._constant(cursor, start, stop)
        match kind:
            case CursorKind.UNEXPOSED_EXPR:
                return self._unexposed(cursor, start, stop, operand, spreads, kept, passes)
            case CursorKind.PAREN_EXPR:
                self.parentheses.add(start)
                (inner,) = cursor.get_children()
                return nodes.Parentheses(cursor, start, stop, self.node(inner, kept=kept, passes=passes))
            case CursorKind.MEMBER_REF_EXPR:
                parts = tuple(self.node(part, kept=True) for part in _parts(cursor))
                return nodes.Member(cursor, start, stop, parts, kept)
            case CursorKind.ARRAY_SUBSCRIPT_EXPR:
                parts = tuple(self.node(part, kept=True, passes=True) for part in _parts(cursor))
                return nodes.Index(cursor, start, stop, parts, kept)
            case CursorKind.UNARY_OPERATOR:
                return self._unary(cursor, start, stop, kept)
            case CursorKind.COMPOUND_LITERAL_EXPR:
                return self._compound_literal(cursor, start, stop, passes)
        reader = self._READERS.get(kind)
        return (
            nodes.Plain(cursor, start, stop, self._nodes(cursor))
            if reader is None
            else reader(self, cursor, start, stop)
        )

    def _nodes(self, cursor: Cursor) -> tuple[Node, ...]:
        return tuple(self.node(part) for part in _parts(cursor))

    # expressions ------------------------------------------------------------------------------------

    def _constant(self, cursor: Cursor, start: int, stop: int) -> nodes.Constant:
        """A macro that is defined again for C++; its expansion is not in the text."""
        inner, narrowed = cursor, False
        while inner.kind == CursorKind.UNEXPOSED_EXPR and len(parts := _parts(inner)) == 1:
            narrowed |= self._is_narrowed(inner, parts[0])
            inner = parts[0]
        return nodes.Constant(cursor, start, stop, None if inner is cursor else inner.type, narrowed)

    def _is_narrowed(self, cursor: Cursor, child: Cursor) -> bool:
        """Whether this is a literal under -cl-single-precision-constant: a double, converted."""
        return (
            self._single
            and child.kind == CursorKind.FLOATING_LITERAL
            and clang.canonical(cursor.type).kind == TypeKind.FLOAT
            and clang.canonical(child.type).kind == TypeKind.DOUBLE
        )

    def _unexposed(
        self, cursor: Cursor, start: int, stop: int, operand: bool, spreads: bool, kept: bool, passes: bool
    ) -> Node:
        """An implicit conversion, a swizzle or something rare."""
        if self._text.startswith(b"__builtin_astype", start):
            raise Untranslatable("__builtin_astype", clang.line_of(cursor))
        parts = _parts(cursor)
        if len(parts) != 1:
            return self._of_several(cursor, start, stop, parts)
        (child,) = parts
        swizzle = self._swizzle(cursor, start, stop, child)
        if swizzle is not None:
            return swizzle
        # As an operand of an operator, and in a vector literal, a bool becomes an integer first.
        if not operand and child.kind == CursorKind.UNEXPOSED_EXPR:
            spreads |= vector_type(cursor.type) is not None and vector_type(child.type) is None
        is_bool = (
            spreads and clang.canonical(child.type).kind == TypeKind.BOOL != clang.canonical(cursor.type).kind
        )
        place = kept and clang.canonical(child.type).kind in ARRAYS  # otherwise a value
        inner = self.node(child, operand=operand, spreads=spreads, kept=place, passes=passes)
        return nodes.Converted(cursor, start, stop, inner, is_bool, self._is_narrowed(cursor, child))

    def _swizzle(self, cursor: Cursor, start: int, stop: int, child: Cursor) -> nodes.Swizzle | None:
        child_stop = clang.extent_of(child)[1]
        found = None if child_stop == stop else _COMPONENTS.fullmatch(self._text, child_stop, stop)
        if found is None:
            return None
        pointee = clang.pointee(child.type)
        base = vector_type(child.type) or (vector_type(pointee) if pointee is not None else None)
        if base is None:
            return None
        components = swizzle_components(found.group(2).decode(), base[1])
        access = found.group(1).decode()
        return nodes.Swizzle(
            cursor, start, stop, self.node(child, kept=True), access, found.start(1), found.end(2), components
        )

    def _of_several(self, cursor: Cursor, start: int, stop: int, parts: Sequence[Cursor]) -> Node:
        """GNU C's additions to C's expressions."""
        if self._text.startswith(b"__builtin_types_compatible_p", start):
            return nodes.Known(cursor, start, stop, str(clang.evaluate(cursor)))
        if self._text.startswith(b"__builtin_choose_expr", start):
            condition, yes, no = parts
            return nodes.Chosen(cursor, start, stop, self.node(yes if clang.evaluate(condition) else no))
        if len(parts) == 4 and len({clang.extent_of(part) for part in parts[:3]}) == 1:
            first = self.node(parts[0])  # clang has `a ?: b` as `a ? a : b`
            question = self._mark(first.stop, b"?")
            colon = self._mark(question + 1, b":")
            return nodes.Otherwise(cursor, start, stop, first, self.node(parts[3]), question, colon)
        return nodes.Unnamed(cursor, start, stop, tuple(map(self.node, parts)))

    def _mark(self, offset: int, mark: bytes) -> int:
        """Where the `?`, `:` or `=` after an operand is: clang's extents may leave out closing parentheses."""
        while (offset := after_blanks(self._text, offset)) < len(self._text) and self._text[offset] == ord(
            ")"
        ):
            offset += 1
        if not self._text.startswith(mark, offset):
            raise Untranslatable("a conditional that could not be read", self._functions.line_at(offset))
        return offset

    def _call(self, cursor: Cursor, start: int, stop: int) -> nodes.Call:
        callee, *arguments = _parts(cursor)
        function = cursor.referenced
        # clang declares built-in functions where they are first called.
        ours = function is not None and self._functions.key(function) in self._functions.declared
        first, last = clang.extent_of(callee)
        text = self._text[first:last].decode("utf-8", "replace")
        passed = tuple(self.node(argument, passes=True) for argument in arguments)
        return nodes.Call(cursor, start, stop, cursor.spelling, ours, text, first, last, passed)

    def _compound_literal(self, cursor: Cursor, start: int, stop: int, passes: bool) -> nodes.CompoundLiteral:
        closing = matching(self._text, start)
        contents = None
        for part in cursor.get_children():
            if part.kind == CursorKind.INIT_LIST_EXPR:
                opening = after_blanks(self._text, closing + 1)
                contents = self._list(part, opening, clang.extent_of(part)[1])
                break
        return nodes.CompoundLiteral(cursor, start, stop, closing, contents, passes)

    def _list(self, cursor: Cursor, start: int, stop: int) -> nodes.List:
        braces, comma = self._text.startswith(b"{", start), None
        if braces:
            stop = matching(self._text, start) + 1
            last = self._before_blanks(stop - 1) - 1
            comma = last if self._text.startswith(b",", last) else None
        if clang.canonical(cursor.type).kind in _LISTED:
            items = tuple(map(self._item, _parts(cursor)))
        else:
            values = self._nodes(cursor)
            items = tuple(nodes.Item(value, value.start, value.stop, (), value.start) for value in values)
        return nodes.List(cursor, start, stop, braces, comma, items)

    def _item(self, cursor: Cursor) -> nodes.Item:
        start = clang.extent_of(cursor)[0]
        stop = self._stop(start)
        if cursor.kind == CursorKind.UNEXPOSED_EXPR and _NAMED.match(self._text, start):
            return self._designated(cursor, start, stop)
        return nodes.Item(self.node(cursor), start, stop, (), start)

    def _stop(self, start: int) -> int:
        """Where an initialiser ends: before the comma or the bracket behind it. (clang's own extents leave out the
        last parenthesis of a cast to a vector.)
        """
        depth = 0
        for match in _TOKEN.finditer(self._text, start):
            token = match.group()
            if token in b"([{":
                depth += 1
            elif token in b")]}":
                if depth == 0:
                    return self._before_blanks(match.start())
                depth -= 1
            elif token == b"," and depth == 0:
                return self._before_blanks(match.start())
        raise Untranslatable("unbalanced brackets")

    def _before_blanks(self, offset: int) -> int:
        while self._text[offset - 1 : offset].isspace():
            offset -= 1
        return offset

    def _designated(self, cursor: Cursor, start: int, stop: int) -> nodes.Item:
        *numbers, value = [c for c in cursor.get_children() if c.kind != CursorKind.MEMBER_REF]
        names: list[str | int | range] = []
        offset, behind = start, None
        while behind is None:
            if self._text.startswith(b"[", offset):
                closing = matching(self._text, offset)
                count = 2 if b"..." in self._text[offset:closing] else 1
                places = [clang.evaluate(number) for number in numbers[:count]]
                del numbers[:count]
                first, last = places[0], places[-1]
                if not isinstance(first, int) or not isinstance(last, int):
                    raise Untranslatable("a designator that is not a number", clang.line_of(cursor))
                names.append(first if count == 1 else range(first, last + 1))
                offset = after_blanks(self._text, closing + 1)
            else:
                match = _MEMBER.match(self._text, offset)
                assert match is not None
                names.append(match.group(1).decode())
                offset = after_blanks(self._text, match.end())
                behind = offset if match.group(2) else None
            if self._text.startswith(b"=", offset):
                behind = after_blanks(self._text, offset + 1)
            elif self._text[offset : offset + 1] not in (b"[", b"."):
                behind = offset  # GNU C: none is needed behind brackets
        return nodes.Item(self.node(value), start, stop, tuple(names), behind)

    def _binary(self, cursor: Cursor, start: int, stop: int) -> Node:
        operator = clang.binary_operator(cursor)
        first, second = _parts(cursor)
        calculates = isinstance(operator, Binary)
        left, right = self.node(first, operand=calculates), self.node(second, operand=calculates)
        if operator is Joining.ASSIGN:
            equals = (
                self._mark(left.stop, b"=") if clang.canonical(first.type).kind == TypeKind.RECORD else -1
            )
            return nodes.Assignment(cursor, start, stop, left, right, equals)
        if operator is Joining.COMMA:
            return nodes.Comma(cursor, start, stop, left, right)
        return nodes.Calculation(
            cursor, start, stop, operator if isinstance(operator, Binary) else None, left, right
        )

    def _update(self, cursor: Cursor, start: int, stop: int) -> nodes.Update:
        operator = clang.binary_operator(cursor)
        left, right = _parts(cursor)
        known = operator if isinstance(operator, Binary) else None
        return nodes.Update(cursor, start, stop, known, self.node(left), self.node(right, operand=True))

    def _unary(self, cursor: Cursor, start: int, stop: int, kept: bool) -> Node:
        operator = clang.unary_operator(cursor)
        (child,) = _parts(cursor)
        operand = self.node(child, kept=operator is Placed.DEREFERENCE)
        match operator:
            case Placed.RAISE | Placed.LOWER:
                raises, behind = operator is Placed.RAISE, clang.is_postfix(cursor)
                return nodes.Step(cursor, start, stop, operand, raises, behind)
            case Placed.ADDRESS:
                return nodes.Address(cursor, start, stop, operand, kept)
            case Placed.DEREFERENCE:
                return nodes.Dereference(cursor, start, stop, operand, kept)
        return nodes.Operation(cursor, start, stop, operator, operand)

    def _conditional(self, cursor: Cursor, start: int, stop: int) -> nodes.Conditional:
        parts = _parts(cursor)
        if len(parts) != 3:
            raise Untranslatable("a conditional without its second operand (`a ?: b`)", clang.line_of(cursor))
        vector = vector_type(parts[0].type) is not None
        condition = self.node(parts[0])
        yes, no = (self.node(part, operand=vector) for part in parts[1:])
        question = self._mark(condition.stop, b"?") if vector else -1
        colon = self._mark(yes.stop, b":") if vector else -1
        return nodes.Conditional(cursor, start, stop, condition, yes, no, question, colon)

    def _cast(self, cursor: Cursor, start: int, stop: int) -> nodes.Cast:
        vector = vector_type(cursor.type) is not None
        parts = []
        for part in _parts(cursor):
            spreads = vector and part.kind == CursorKind.UNEXPOSED_EXPR
            spreads = spreads and not self._is_literal(start, clang.extent_of(part)[0])
            parts.append(self.node(part, spreads=spreads))
        return nodes.Cast(cursor, start, stop, tuple(parts))

    def _is_literal(self, start: int, operand: int) -> bool:
        """Whether the cast at `start` is a vector literal: another parenthesis opens behind the type's, before the operand."""
        behind = after_blanks(self._text, matching(self._text, start) + 1)
        return self._text.startswith(b"(", behind) and behind < operand

    def _name(self, cursor: Cursor, start: int, stop: int) -> nodes.Name:
        return nodes.Name(cursor, start, stop, cursor.referenced)

    def _float(self, cursor: Cursor, start: int, stop: int) -> nodes.Float:
        return nodes.Float(cursor, start, stop, self._text[start:stop].decode())

    def _string(self, cursor: Cursor, start: int, stop: int) -> nodes.String | nodes.Known:
        written = self._text[start:stop].decode("utf-8", "surrogateescape")
        if written.startswith("__"):  # `__func__` and its like: functions are called otherwise in C++
            return nodes.Known(cursor, start, stop, cursor.spelling)
        return nodes.String(cursor, start, stop, written)

    def _size(self, cursor: Cursor, start: int, stop: int) -> Node:
        if self._text.startswith(b"vec_step", start):
            vector = None
            for of in clang.children(cursor)[-1:]:
                vector = vector_type(of.referenced.type if of.kind in SKIPPED else of.type)
            count = 1 if vector is None else 4 if vector[1] == 3 else vector[1]
            return nodes.Known(cursor, start, stop, str(count))
        if self._text.startswith((b"__alignof", b"_Alignof"), start):
            return nodes.Known(cursor, start, stop, f"((size_t){clang.evaluate(cursor)})")
        parts = tuple(self.node(part, kept=True) for part in _parts(cursor))
        return nodes.Size(cursor, start, stop, parts)

    def _generic(self, cursor: Cursor, start: int, stop: int) -> Node:
        """C11's `_Generic`: clang does not tell which association is chosen."""
        raise Untranslatable("_Generic", clang.line_of(cursor))

    def _block(self, cursor: Cursor, start: int, stop: int) -> nodes.Block:
        (body,) = cursor.get_children()
        jump = _jump_out_of(body)
        if jump is not None and start not in self._alone:
            raise Untranslatable("a jump out of an expression", clang.line_of(jump))
        statements = self._statements(body)
        return nodes.Block(cursor, start, stop, statements, *clang.extent_of(body), jump is not None)

    # statements -------------------------------------------------------------------------------------

    def _compound(self, cursor: Cursor, start: int, stop: int) -> nodes.Plain:
        return nodes.Plain(cursor, start, stop, self._statements(cursor))

    def _statements(self, cursor: Cursor) -> tuple[Node, ...]:
        """What stands in braces."""
        found = _parts(cursor)
        self._alone.update(clang.extent_of(part)[0] for part in found if part.kind == CursorKind.StmtExpr)
        return tuple(map(self.node, found))

    def variable(self, cursor: Cursor) -> nodes.Variable:
        start, stop = clang.extent_of(cursor)
        deduced = cursor.type.kind == TypeKind.AUTO
        initialised = clang.initialiser(cursor) is not None
        return nodes.Variable(cursor, start, stop, self._nodes(cursor), initialised, deduced)

    def _declare(self, cursor: Cursor, start: int, stop: int) -> nodes.Declare:
        found = [c for c in cursor.get_children() if c.kind == CursorKind.VAR_DECL]
        return nodes.Declare(cursor, start, stop, tuple(map(self.variable, found)))

    def _for(self, cursor: Cursor, start: int, stop: int) -> nodes.For:
        first, *others = clang.children(cursor)
        hides = False
        if others and others[-1].kind == CursorKind.COMPOUND_STMT:
            names = _declared(first)
            hides = any(not names.isdisjoint(_declared(statement)) for statement in others[-1].get_children())
        return nodes.For(cursor, start, stop, tuple(map(self.node, (first, *others))), hides)

    def _if(self, cursor: Cursor, start: int, stop: int) -> Node:
        """A `Guard` where the text between its conditions is nothing but their operators."""
        parts = self._nodes(cursor)
        jump = self._only_jump(clang.children(cursor)[-1]) if len(parts) == 2 else None
        if jump is not None:
            conditions = _alternatives(parts[0])
            gaps = [self._text[a.stop : b.start].strip() for a, b in itertools.pairwise(conditions)]
            if gaps and set(gaps) == {b"||"}:
                return nodes.Guard(cursor, start, stop, tuple(conditions), parts[1], jump)
        return nodes.Plain(cursor, start, stop, parts)

    def _only_jump(self, statement: Cursor) -> str | None:
        """The text of a jump that is all of a statement, and that computes nothing."""
        while statement.kind == CursorKind.COMPOUND_STMT:
            inside = clang.children(statement)
            if len(inside) != 1:
                return None
            (statement,) = inside
        if statement.kind not in _PLAIN_JUMPS or clang.children(statement):
            return None
        start, stop = clang.extent_of(statement)
        return self._text[start:stop].decode()

    def _switch(self, cursor: Cursor, start: int, stop: int) -> nodes.Switch:
        self._jumps = True
        condition, body = cursor.get_children()
        ranges: list[tuple[Cursor, Cursor]] = []
        head = self.node(condition)
        self._switches.append((condition.type, ranges))
        parts = head, self.node(body)
        self._switches.pop()
        return nodes.Switch(cursor, start, stop, *parts, tuple(ranges))

    def _goto(self, cursor: Cursor, start: int, stop: int) -> nodes.Plain:
        self._jumps = True
        return nodes.Plain(cursor, start, stop, self._nodes(cursor))

    def _case(self, cursor: Cursor, start: int, stop: int) -> nodes.Case:
        *numbers, statement = cursor.get_children()
        first, last = numbers[0], numbers[-1]
        places = clang.extent_of(first)[0], clang.extent_of(last)[1]
        condition, ranges = self._switches[-1]
        if len(numbers) > 1:
            ranges.append((first, last))
        return nodes.Case(cursor, start, stop, first, condition, *places, self.node(statement))

    _READERS: ClassVar[dict[CursorKind, Callable[[Reader, Cursor, int, int], Node]]] = {
        CursorKind.DECL_STMT: _declare,
        CursorKind.CALL_EXPR: _call,
        CursorKind.INIT_LIST_EXPR: _list,
        CursorKind.BINARY_OPERATOR: _binary,
        CursorKind.COMPOUND_ASSIGNMENT_OPERATOR: _update,
        CursorKind.CONDITIONAL_OPERATOR: _conditional,
        CursorKind.CSTYLE_CAST_EXPR: _cast,
        CursorKind.INTEGER_LITERAL: lambda _, *of: nodes.Integer(*of),
        CursorKind.CHARACTER_LITERAL: lambda _, *of: nodes.Character(*of),
        CursorKind.DECL_REF_EXPR: _name,
        CursorKind.FLOATING_LITERAL: _float,
        CursorKind.STRING_LITERAL: _string,
        CursorKind.GOTO_STMT: _goto,
        CursorKind.INDIRECT_GOTO_STMT: _goto,
        CursorKind.SWITCH_STMT: _switch,
        CursorKind.CASE_STMT: _case,
        CursorKind.FOR_STMT: _for,
        CursorKind.IF_STMT: _if,
        CursorKind.CXX_UNARY_EXPR: _size,
        CursorKind.GENERIC_SELECTION_EXPR: _generic,
        CursorKind.StmtExpr: _block,
        CursorKind.COMPOUND_STMT: _compound,
    }


def _parts(cursor: Cursor) -> list[Cursor]:
    """Expressions and statements below a cursor."""
    return [child for child in clang.children(cursor) if child.kind not in SKIPPED]


def _declared(statement: Cursor) -> set[str]:
    """The names that a statement declares."""
    if statement.kind != CursorKind.DECL_STMT:
        return set()
    return {child.spelling for child in statement.get_children()}


def _alternatives(node: Node) -> list[Node]:
    """The operands of `a || b || ...`; of anything else, itself."""
    if isinstance(node, nodes.Calculation) and node.operator is Binary.EITHER:
        return [*_alternatives(node.left), node.right]
    return [node]


_PLAIN_JUMPS = (CursorKind.BREAK_STMT, CursorKind.CONTINUE_STMT, CursorKind.RETURN_STMT)
_LOOPS = (CursorKind.FOR_STMT, CursorKind.WHILE_STMT, CursorKind.DO_STMT)
_JUMPS = (CursorKind.RETURN_STMT, CursorKind.GOTO_STMT, CursorKind.LABEL_STMT)


def _jump_out_of(cursor: Cursor, left: tuple[CursorKind, ...] = ()) -> Cursor | None:
    """A jump that may lead out of a statement (or into it, past a label), None where there is none.

    `left`: the kinds of jumps that stay inside where the statement stands.
    """
    for child in cursor.get_children():
        kind = child.kind
        if kind in _JUMPS or (kind in (CursorKind.BREAK_STMT, CursorKind.CONTINUE_STMT) and kind not in left):
            return child
        inside = left
        if kind in _LOOPS:
            inside = (CursorKind.BREAK_STMT, CursorKind.CONTINUE_STMT)
        elif kind == CursorKind.SWITCH_STMT:
            inside = (CursorKind.BREAK_STMT, *left)
        found = _jump_out_of(child, inside)
        if found is not None:
            return found
    return None
