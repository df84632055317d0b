"""Reads clang's syntax tree into the objects of `syntax` and `types`.

Decides what each libclang cursor is (libclang shows implicit conversions, swizzles and reinterpretations alike as
"unexposed" expressions); never interprets anything. Trees are made for one function at a time, at the first request.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from clang.cindex import Cursor, CursorKind, TypeKind

from ..symbolic.effort import spend
from . import clang
from .hidden_parts import ends_of_clauses, has_parenthesis_behind_type, spellings
from .operator_kinds import Binary, Joining, Placed
from .preprocessor import GENERATED_FILE
from .syntax import (
    AddressOf,
    Assign,
    BinaryOperation,
    Block,
    Break,
    Call,
    Case,
    Cast,
    Comma,
    Compound,
    Conditional,
    Continue,
    Declare,
    Default,
    Dereference,
    Expression,
    FloatLiteral,
    Function,
    FunctionName,
    If,
    Increment,
    Index,
    InitialiserList,
    IntLiteral,
    Loop,
    Member,
    Node,
    Nothing,
    Opaque,
    Reinterpret,
    Return,
    Spread,
    Statement,
    StringLiteral,
    Switch,
    Swizzle,
    UnaryOperation,
    Unsupported,
    Update,
    Use,
    Variable,
    behind_labels,
    collect_assigned,
    has_effects,
    has_labels,
    swizzle_components,
)
from .type_reader import SEQUENCES, TypeReader
from .types import (
    CArray,
    CBits,
    CBool,
    CPointer,
    CRecord,
    CType,
    CVector,
    Whole,
)

if TYPE_CHECKING:
    from .source import ParsedProgram


#: With these words, a variable has the type of an expression.
_DEDUCED = (b"typeof", b"__auto_type")

#: The cost of reading a node (see `effort`).
_STEPS = 7

_lib: Any = clang.opened_library()
#: Without these words, an expression with one operand that clang does not name is a conversion or a swizzle.
_RARE = (b"__builtin", b"_Generic", b"offsetof", b"va_arg", b"__c11_", b"__opencl_atomic")
_NOT_EXPRESSIONS = {
    CursorKind.TYPE_REF,
    CursorKind.UNEXPOSED_ATTR,
    CursorKind.ANNOTATE_ATTR,
    CursorKind.ALIGNED_ATTR,
}
_PARTS = {kind.value for kind in _NOT_EXPRESSIONS}
_ENUM_CONSTANT, _FUNCTION = CursorKind.ENUM_CONSTANT_DECL.value, CursorKind.FUNCTION_DECL.value


class SyntaxReader:
    """Reads functions of one translation unit."""

    def __init__(self, program: ParsedProgram) -> None:
        unit = program.tu
        self.unit = unit
        self.text = program.preprocessed.encode("utf-8", "surrogateescape")
        self.exact = program.exact  #: the text is free of macros, so it may be looked at
        #: whether there may be expressions with one operand that clang shows like implicit conversions
        self._has_rare = any(word in self.text for word in _RARE)
        self._deduces = not self.exact or any(word in self.text for word in _DEDUCED)
        self._reads_arrays = (
            False  #: whether a function that was read has a parameter that is written as an array
        )
        self._generated = GENERATED_FILE.encode() in self.text
        #: whether there are lines of other files than the text: of those that it includes, or that it says itself
        self._has_files = (
            re.search(rb'^[ \t]*#[ \t]*line[ \t]+\d+[ \t]+"', self.text, re.MULTILINE) is not None
        )
        types = TypeReader()
        self.ctype, self._type_of = types.read, types.of
        self._functions: dict[tuple[str, int | None], tuple[Function | None, int]] = {}
        self._nnodes = 0  #: read so far
        self._reached: Cursor | None = None  #: the last statement begun
        self._variables: dict[int, Cursor] = {}  #: declarations of variables that are used
        self._names: dict[int, str] = {}  #: what these are called
        self._definitions: dict[str, list[Cursor]] = {}
        for cursor in clang.children(unit.cursor):
            if cursor.kind is CursorKind.FUNCTION_DECL and cursor.is_definition():
                self._definitions.setdefault(cursor.spelling, []).append(cursor)

    # functions --------------------------------------------------------------------------------------

    def function(self, name: str, key: int | None = None) -> Function | None:
        """The function with that name (see `Call.key`); None if it has no body in the program. Takes the same number
        of steps whether it has been read before or not.
        """
        place = name, key
        known = self._functions.get(place)
        if known is not None:
            function, nnodes = known
            spend(_STEPS * nnodes)
            return function
        before = self._nnodes
        found = self._definitions.get(name, ())
        cursor = next((c for c in found if key is None or c.hash == key), None)
        function = None if cursor is None else self._read_function(cursor)
        self._functions[place] = function, self._nnodes - before
        return function

    @property
    def reached(self) -> int | None:
        """The user's line of the last statement that was begun."""
        return None if self._reached is None else self.line(self._reached)

    def _count(self) -> None:
        self._nnodes += 1
        spend(_STEPS)

    def _read_function(self, cursor: Cursor) -> Function | None:
        self._reached = cursor
        parameters: list[Variable] = []
        body: Compound | None = None
        for child in clang.children(cursor):
            kind = child.kind
            if kind is CursorKind.PARM_DECL:
                parameters.append(Variable(child.hash, child.spelling, self._type_of(child), None, None))
                self._reads_arrays |= (
                    child.type.kind in SEQUENCES and child.type.kind is not TypeKind.EXTVECTOR
                )
            elif kind is CursorKind.COMPOUND_STMT:
                body = self._compound(child)
        if body is None:
            return None
        return Function(cursor.spelling, tuple(parameters), self.ctype(cursor.result_type), body)

    # places -----------------------------------------------------------------------------------------

    def line(self, cursor: Cursor) -> int | None:
        """The user's line; None in text that no user wrote."""
        if self._generated and clang.presumed(cursor.location).file == GENERATED_FILE:
            return None
        if self._has_files:
            return clang.line_at(cursor.location) or None
        return clang.presumed_line(cursor) or None  # which costs less

    # statements -------------------------------------------------------------------------------------

    def statement(self, cursor: Cursor) -> Node:
        """A statement, or an expression in the place of one."""
        self._reached = cursor
        reader = self._statements_by_number.get(clang.kind_number(cursor))
        if reader is None:
            return self.expression(cursor)
        self._count()
        node: Statement = reader(self, cursor)
        return node

    def _compound(self, cursor: Cursor) -> Compound:
        return Compound(tuple(self.statement(child) for child in clang.children(cursor)))

    def _declare(self, cursor: Cursor) -> Declare:
        found = (c for c in clang.children(cursor) if c.kind is CursorKind.VAR_DECL)
        return Declare(tuple(self._variable(c) for c in found))

    def _if(self, cursor: Cursor) -> If:
        condition, then, *otherwise = clang.children(cursor)
        return If(
            self.expression(condition),
            self.statement(then),
            self.statement(otherwise[0]) if otherwise else None,
        )

    def _case(self, cursor: Cursor) -> Case:
        first, *last, inner = clang.children(cursor)
        return Case(self.expression(first), self.expression(last[0]) if last else None, self.statement(inner))

    def _default(self, cursor: Cursor) -> Default:
        (inner,) = clang.children(cursor)
        return Default(self.statement(inner))

    def _return(self, cursor: Cursor) -> Return:
        (value,) = [self.expression(child) for child in clang.children(cursor)] or (None,)
        return Return(value)

    def _break(self, cursor: Cursor) -> Break:
        return Break()

    def _continue(self, cursor: Cursor) -> Continue:
        return Continue()

    def _nothing(self, cursor: Cursor) -> Nothing:
        return Nothing()

    def _attributed(self, cursor: Cursor) -> Compound:
        """An attribute such as opencl_unroll_hint around a statement."""
        inner = (c for c in clang.children(cursor) if clang.kind_number(c) not in _PARTS)
        return Compound(tuple(self.statement(child) for child in inner))

    def _assembly(self, cursor: Cursor) -> NoReturn:
        raise Unsupported("inline assembly is not followed", self.line(cursor))

    def _goto(self, cursor: Cursor) -> NoReturn:
        raise Unsupported("goto is not followed", self.line(cursor))

    def _switch(self, cursor: Cursor) -> Switch:
        value, body = clang.children(cursor)[-2:]
        statement = self.statement(body)
        inside = statement.statements if isinstance(statement, Compound) else (statement,)
        if any(has_labels(behind_labels(part)) for part in inside):
            raise Unsupported("a case label inside another statement", self.line(cursor))
        return Switch(self.expression(value), statement, self.line(cursor))

    def _variable(self, cursor: Cursor) -> Variable:
        init = clang.initialiser(cursor)
        node = None if init is None else self.expression(init)
        ctype = self.ctype(cursor.type)
        if isinstance(ctype, CArray) and self._reads_arrays and self._deduces:
            # It may be a pointer: clang also shows a pointer as an array if its type is that of such a parameter.
            raise Unsupported(
                "an array that may be a pointer: the program has array parameters, and `typeof` or macros",
                self.line(cursor),
            )
        return Variable(cursor.hash, cursor.spelling, ctype, node, self.line(cursor))

    def program_variable(self, key: int) -> Variable:
        """The declaration of a variable that is used (see `Use.key`)."""
        return self._variable(self._variables[key])

    # loops ------------------------------------------------------------------------------------------

    def _while(self, cursor: Cursor) -> Loop:
        before, body = clang.children(cursor)
        return self._loop(cursor, None, self.expression(before), self.statement(body))

    def _do(self, cursor: Cursor) -> Loop:
        body, after = clang.children(cursor)
        return self._loop(cursor, None, None, self.statement(body), after=self.expression(after))

    def _for(self, cursor: Cursor) -> Loop:
        *parts, body = clang.children(cursor)
        # libclang leaves out absent clauses: the semicolons show which are there.
        clauses = dict(zip(self._clauses(cursor, parts, body), parts, strict=True))
        init, before, step = (clauses.get(position) for position in range(3))
        return self._loop(
            cursor,
            None if init is None else self.statement(init),
            None if before is None else self.expression(before),
            self.statement(body),
            None if step is None else self.expression(step),
        )

    def _loop(
        self,
        cursor: Cursor,
        init: Node | None,
        before: Expression | None,
        body: Node,
        step: Expression | None = None,
        after: Expression | None = None,
    ) -> Loop:
        assigned: set[int] = set()
        for part in (init, before, body, step, after):
            if part is not None:
                collect_assigned(part, assigned)
        return Loop(init, before, body, step, after, self.line(cursor), frozenset(assigned))

    def _clauses(self, cursor: Cursor, parts: list[Cursor], body: Cursor) -> list[int]:
        """Which clause of a `for` each part is."""
        if len(parts) == 3:
            return [0, 1, 2]
        if not self.exact:
            raise Unsupported("a loop that a macro expands to", self.line(cursor))
        ends = ends_of_clauses(self.unit, clang.extent_of(cursor)[0], clang.extent_of(body)[0])
        if len(ends) != 2:
            raise Unsupported("a loop whose header could not be read", self.line(cursor))
        first, second = ends
        starts = [clang.extent_of(part)[0] for part in parts]
        return [0 if start < first else 1 if start < second else 2 for start in starts]

    # expressions ------------------------------------------------------------------------------------

    def expression(self, cursor: Cursor) -> Expression:
        self._count()
        reader = self._readers_by_number.get(clang.kind_number(cursor)) or SyntaxReader._other
        return reader(self, cursor, self._type_of(cursor))

    def operands(self, cursor: Cursor) -> list[Expression]:
        found = []
        for child in clang.children(cursor):
            reader = self._readers_by_number.get(clang.kind_number(child), SyntaxReader._other)
            if reader is not None:
                self._count()
                found.append(reader(self, child, self._type_of(child)))
        return found

    def _opaque(self, cursor: Cursor, ctype: CType, parts: Sequence[Node] = ()) -> Opaque:
        return Opaque(ctype, self.line(cursor), tuple(parts))

    def _other(self, cursor: Cursor, ctype: CType) -> Expression:
        found: list[Node] = []
        # the operand of sizeof is not evaluated (C99 6.5.3.4)
        if cursor.kind is not CursorKind.CXX_UNARY_EXPR:
            found = [self.statement(c) for c in clang.children(cursor) if clang.kind_number(c) not in _PARTS]
        number = None if any(has_effects(node) for node in found) else self._evaluate(cursor, ctype)
        if number is not None:
            return IntLiteral(ctype, None, number)
        return self._opaque(cursor, ctype, found)

    def _block_literal(self, cursor: Cursor, ctype: CType) -> NoReturn:
        # before its parts are read: some have no type, and libclang crashes when asked for that type's address space
        raise Unsupported("a block is not followed", self.line(cursor))

    def _statement_expression(self, cursor: Cursor, ctype: CType) -> Block:
        """`({ ... })`, which clang supports although no standard has it: macros use it."""
        (body,) = (self._compound(c) for c in clang.children(cursor) if clang.kind_number(c) not in _PARTS)
        return Block(ctype, self.line(cursor), body.statements)

    def _evaluate(self, cursor: Cursor, ctype: CType) -> int | None:
        """The constant value of an integer expression, computed by clang whatever else the expression does."""
        if not isinstance(ctype, Whole):
            return None
        number = clang.evaluate(cursor)
        return number if isinstance(number, int) else None

    def _integer(self, cursor: Cursor, ctype: CType) -> Expression:
        number = self._evaluate(cursor, ctype)
        return Opaque(ctype, None) if number is None else IntLiteral(ctype, None, number)

    def _float(self, cursor: Cursor, ctype: CType) -> FloatLiteral:
        return FloatLiteral(ctype, None)

    def _string(self, cursor: Cursor, ctype: CType) -> StringLiteral:
        return StringLiteral(ctype, None)

    def _paren(self, cursor: Cursor, ctype: CType) -> Expression:
        (inner,) = self.operands(cursor)
        return inner

    def _reference(self, cursor: Cursor, ctype: CType) -> Expression:
        declaration = clang.referenced(cursor)
        kind = clang.kind_number(declaration)
        if kind == _ENUM_CONSTANT:
            return IntLiteral(ctype, None, declaration.enum_value)
        if kind == _FUNCTION:
            return FunctionName(ctype, None, cursor.spelling)
        key = declaration.hash
        name = self._names.get(key)
        if name is None:
            self._variables[key] = declaration
            name = self._names[key] = cursor.spelling
        return Use(ctype, self.line(cursor), key, name)

    def _index(self, cursor: Cursor, ctype: CType) -> Index:
        base, index = self.operands(cursor)
        if isinstance(base.type, Whole):
            base, index = index, base
        return Index(ctype, self.line(cursor), base, index)

    def _member(self, cursor: Cursor, ctype: CType) -> Expression:
        found = self.operands(cursor)
        if not found:
            return self._opaque(cursor, ctype)
        base = found[0]
        name = cursor.spelling
        if not name:
            return base  # a member of an anonymous struct or union: found further out by its own name
        arrow = isinstance(base.type, CPointer)
        record = base.type.pointee if isinstance(base.type, CPointer) else base.type
        if not isinstance(record, CRecord) or name not in record.members:
            return self._opaque(cursor, ctype, found)
        byte, member = record.members[name]
        bits = member if isinstance(member, CBits) else None
        return Member(ctype, self.line(cursor), base, byte, arrow, bits)

    def _binary(self, cursor: Cursor, ctype: CType) -> Expression:
        operator = clang.binary_operator(cursor)
        match operator:
            case Joining.ASSIGN:
                target, value = self.operands(cursor)
                return Assign(ctype, self.line(cursor), target, value)
            case Joining.COMMA:
                first, second = self.operands(cursor)
                return Comma(ctype, None, first, second)
        a, b = self._calculated(cursor)
        if operator is None:
            return self._opaque(cursor, ctype, (a, b))
        return BinaryOperation(ctype, None, operator, a, b)

    def _compound_assign(self, cursor: Cursor, ctype: CType) -> Update:
        operator = clang.binary_operator(cursor)
        if not isinstance(operator, Binary):
            raise Unsupported("an unknown assignment", self.line(cursor))
        a, b = self._calculated(cursor)
        return Update(ctype, self.line(cursor), operator, a, b)

    def _calculated(self, cursor: Cursor) -> list[Expression]:
        """Operands of an operator: a `bool` becomes an integer first, even where this becomes a vector."""
        found = []
        for child in clang.children(cursor):
            if clang.kind_number(child) in _PARTS:
                continue
            node = self.expression(child)
            if child.kind is CursorKind.UNEXPOSED_EXPR and isinstance(node, Cast):
                node = _unspread(node)
            found.append(node)
        return found

    def _unary(self, cursor: Cursor, ctype: CType) -> Expression:
        operator = clang.unary_operator(cursor)
        (a,) = self.operands(cursor)
        match operator:
            case None:
                return self._opaque(cursor, ctype, (a,))
            case Placed.ADDRESS:
                return AddressOf(ctype, self.line(cursor), a)
            case Placed.DEREFERENCE:
                return Dereference(ctype, self.line(cursor), a)
            case Placed.RAISE | Placed.LOWER:
                by = 1 if operator is Placed.RAISE else -1
                return Increment(ctype, self.line(cursor), a, by, clang.is_postfix(cursor))
        return UnaryOperation(ctype, None, operator, a)

    def _conditional(self, cursor: Cursor, ctype: CType) -> Expression:
        found = self._calculated(cursor)
        if len(found) != 3:
            return self._opaque(cursor, ctype, found)
        condition, yes, no = found
        return Conditional(ctype, None, condition, yes, no)

    def _call(self, cursor: Cursor, ctype: CType) -> Call:
        arguments = self.operands(cursor)[1:]
        name, key = cursor.spelling, None
        if name in self._definitions:
            # Functions may be overloaded, also with a built-in one (__attribute__((overloadable))).
            callee = cursor.referenced
            definition = callee.get_definition() if callee is not None else None
            key = 0 if definition is None else definition.hash
        return Call(ctype, self.line(cursor), name, key, tuple(arguments))

    def _cast(self, cursor: Cursor, ctype: CType) -> Expression:
        # Before the operand there may be parts of the type, such as the size of an array.
        found = [c for c in clang.children(cursor) if clang.kind_number(c) not in _PARTS]
        if not found:
            return self._opaque(cursor, ctype)
        operand = self._converted(found[-1], ctype)
        if isinstance(operand.operand, Spread) and self._is_literal(cursor, found[-1]):
            return _unspread(operand)
        return operand

    def _is_literal(self, cursor: Cursor, operand: Cursor) -> bool:
        """Whether a cast to a vector is a vector literal of one scalar, which has a parenthesis right behind the type:
        its components are initialised as that scalar is converted (OpenCL C 6.1.6), so that `(int4)(b)` has ones where
        `(int4)b` has all bits.
        """
        if not self.exact:
            raise Unsupported("a `bool` converted to a vector in a macro's expansion", self.line(cursor))
        return has_parenthesis_behind_type(self.unit, clang.extent_of(cursor)[0], clang.extent_of(operand)[0])

    def _converted(self, cursor: Cursor, ctype: CType) -> Cast:
        """A conversion of what `cursor` is.

        On the way to a vector, clang shows a `bool` as converted to an integer by itself: true becomes all bits
        (OpenCL C 6.2.2).
        """
        inner = self.expression(cursor)
        if isinstance(ctype, CVector) and cursor.kind is CursorKind.UNEXPOSED_EXPR:
            match inner:
                case Cast(operand=operand) if isinstance(operand.type, CBool):
                    inner = Spread(inner.type, None, operand)
        return Cast(ctype, None, inner)

    def _compound_literal(self, cursor: Cursor, ctype: CType) -> Expression:
        found = self.operands(cursor)
        if found and isinstance(found[-1], InitialiserList):
            return found[-1]
        return Opaque(ctype, None, tuple(found))

    def _list(self, cursor: Cursor, ctype: CType) -> InitialiserList:
        return InitialiserList(ctype, None, tuple(self.operands(cursor)))

    def _unexposed(self, cursor: Cursor, ctype: CType) -> Expression:
        """An implicit conversion, a swizzle, `__builtin_astype` or something rare.

        Conversions have the extent of what they convert; the others are recognised by the tokens around their
        operand.
        """
        found = [c for c in clang.children(cursor) if clang.kind_number(c) not in _PARTS]
        if len(found) != 1:
            return self._other(cursor, ctype)
        inner = self._converted(found[0], ctype)
        source = inner.operand.type
        vector = source.pointee if isinstance(source, CPointer) else source
        if not self._has_rare and not isinstance(vector, CVector):
            return inner
        start, stop = clang.extent_of(cursor)
        inner_start, inner_stop = clang.extent_of(found[0])
        if start == inner_start and stop == inner_stop:
            return inner
        if not self.exact:
            raise Unsupported("a vector expression in a macro's expansion", self.line(cursor))
        before = spellings(self.unit, start, inner_start, self.text)
        after = spellings(self.unit, inner_stop, stop, self.text)
        if before[:1] == ["__builtin_astype"]:
            return Reinterpret(ctype, None, inner.operand)
        if before or len(after) != 2 or after[0] not in (".", "->"):
            return self._other(cursor, ctype)
        if not isinstance(vector, CVector):
            raise Unsupported("a member that could not be read", self.line(cursor))
        components = swizzle_components(after[-1], vector.count)
        return Swizzle(ctype, self.line(cursor), inner.operand, components, after[0] == "->")

    # by what clang calls them ----------------------------------------------------------------------

    _statements: ClassVar[dict[CursorKind, Callable[[SyntaxReader, Cursor], Statement]]] = {
        CursorKind.COMPOUND_STMT: _compound,
        CursorKind.DECL_STMT: _declare,
        CursorKind.IF_STMT: _if,
        CursorKind.FOR_STMT: _for,
        CursorKind.WHILE_STMT: _while,
        CursorKind.DO_STMT: _do,
        CursorKind.SWITCH_STMT: _switch,
        CursorKind.CASE_STMT: _case,
        CursorKind.DEFAULT_STMT: _default,
        CursorKind.BREAK_STMT: _break,
        CursorKind.CONTINUE_STMT: _continue,
        CursorKind.RETURN_STMT: _return,
        CursorKind.NULL_STMT: _nothing,
        CursorKind.UNEXPOSED_STMT: _attributed,
        CursorKind.ASM_STMT: _assembly,
        CursorKind.GOTO_STMT: _goto,
        CursorKind.LABEL_STMT: _goto,
        CursorKind.INDIRECT_GOTO_STMT: _goto,
    }
    #: None: a part of a type or an attribute.
    _readers: ClassVar[dict[CursorKind, Callable[[SyntaxReader, Cursor, CType], Expression] | None]] = {
        **dict.fromkeys(_NOT_EXPRESSIONS),
        CursorKind.INTEGER_LITERAL: _integer,
        CursorKind.CHARACTER_LITERAL: _integer,
        CursorKind.FLOATING_LITERAL: _float,
        CursorKind.STRING_LITERAL: _string,
        CursorKind.PAREN_EXPR: _paren,
        CursorKind.DECL_REF_EXPR: _reference,
        CursorKind.ARRAY_SUBSCRIPT_EXPR: _index,
        CursorKind.MEMBER_REF_EXPR: _member,
        CursorKind.BINARY_OPERATOR: _binary,
        CursorKind.COMPOUND_ASSIGNMENT_OPERATOR: _compound_assign,
        CursorKind.UNARY_OPERATOR: _unary,
        CursorKind.CONDITIONAL_OPERATOR: _conditional,
        CursorKind.CALL_EXPR: _call,
        CursorKind.BLOCK_EXPR: _block_literal,
        CursorKind.CSTYLE_CAST_EXPR: _cast,
        CursorKind.COMPOUND_LITERAL_EXPR: _compound_literal,
        CursorKind.INIT_LIST_EXPR: _list,
        CursorKind.UNEXPOSED_EXPR: _unexposed,
        CursorKind.StmtExpr: _statement_expression,
    }
    #: The same by `clang.kind_number`: making the wrapper's object for each kind takes longer than finding it here.
    _statements_by_number: ClassVar = {kind.value: reader for kind, reader in _statements.items()}
    _readers_by_number: ClassVar = {kind.value: reader for kind, reader in _readers.items()}


def _unspread(node: Cast) -> Cast:
    """The conversion of a `bool` to a plain integer on its way to a vector, removed."""
    inner = node.operand
    if not isinstance(inner, Spread):
        return node
    return Cast(node.type, node.line, Cast(inner.type, inner.line, inner.operand))
