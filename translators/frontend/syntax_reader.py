"""Reads clang's syntax tree into the objects of `syntax`.

Decides what each libclang cursor is (libclang shows implicit conversions, swizzles and reinterpretations
alike as "unexposed" expressions); never interprets anything. Trees are made per function, when first asked
for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from clang.cindex import Cursor, CursorKind, SourceLocation, SourceRange, Token, TokenKind, Type, TypeKind

from ..symbolic.expression import IntType
from . import clang
from .operator_kinds import Binary, Unary
from .preprocessor import GENERATED_FILE
from .syntax import (
    VOID,
    CType,
    Function,
    Node,
    Unsupported,
    Variable,
    behind_labels,
    collect_assigned,
    has_effects,
    has_labels,
    swizzle_components,
)

if TYPE_CHECKING:
    from .source import ParsedProgram


_INTEGERS = {
    TypeKind.BOOL: IntType(8, False),
    TypeKind.CHAR_U: IntType(8, False),
    TypeKind.UCHAR: IntType(8, False),
    TypeKind.CHAR_S: IntType(8, True),
    TypeKind.SCHAR: IntType(8, True),
    TypeKind.USHORT: IntType(16, False),
    TypeKind.SHORT: IntType(16, True),
    TypeKind.UINT: IntType(32, False),
    TypeKind.INT: IntType(32, True),
    TypeKind.ULONG: IntType(64, False),
    TypeKind.ULONGLONG: IntType(64, False),
    TypeKind.LONG: IntType(64, True),
    TypeKind.LONGLONG: IntType(64, True),
}
_ATOMICS = {
    "int": IntType(32, True),
    "unsigned int": IntType(32, False),
    "long": IntType(64, True),
    "unsigned long": IntType(64, False),
}
#: Placeholders for what has no type of its own, such as clang's builtin functions behind INFINITY and NAN.
#: libclang ends the process when it is asked for their size.
_NO_OBJECTS = {TypeKind.UNEXPOSED, TypeKind.OVERLOAD, TypeKind.DEPENDENT}
_FLOATS = {TypeKind.FLOAT, TypeKind.DOUBLE, TypeKind.HALF, TypeKind.FLOAT128, TypeKind.LONGDOUBLE}

#: CXBinaryOperatorKind of operators that give a value (22: `=`, 33: `,`), then those of compound assignments.
_BINARY = {
    3: Binary.MULTIPLY, 4: Binary.DIVIDE, 5: Binary.REMAINDER, 6: Binary.ADD, 7: Binary.SUBTRACT,
    8: Binary.SHIFT_LEFT, 9: Binary.SHIFT_RIGHT, 11: Binary.LESS, 12: Binary.GREATER, 13: Binary.LESS_EQUAL,
    14: Binary.GREATER_EQUAL, 15: Binary.EQUAL, 16: Binary.NOT_EQUAL, 17: Binary.AND, 18: Binary.XOR,
    19: Binary.OR, 20: Binary.BOTH, 21: Binary.EITHER,
}  # fmt: skip
_ASSIGN, _COMMA = 22, 33
_UPDATE = {
    23: Binary.MULTIPLY, 24: Binary.DIVIDE, 25: Binary.REMAINDER, 26: Binary.ADD, 27: Binary.SUBTRACT,
    28: Binary.SHIFT_LEFT, 29: Binary.SHIFT_RIGHT, 30: Binary.AND, 31: Binary.XOR, 32: Binary.OR,
}  # fmt: skip
#: CXUnaryOperatorKind
_UNARY = {7: Unary.PLUS, 8: Unary.MINUS, 9: Unary.COMPLEMENT, 10: Unary.NOT}
#: `++` and `--`: by how much, and whether the value is the one before
_STEPS = {1: (1, True), 2: (-1, True), 3: (1, False), 4: (-1, False)}
_ADDRESS, _DEREFERENCE = 5, 6

_lib: Any = clang._library()
_lib.clang_Cursor_getVarDeclInitializer.argtypes = [Cursor]
_lib.clang_Cursor_getVarDeclInitializer.restype = Cursor
#: Without these words, an expression of one operand that clang does not name is a conversion or a swizzle.
_RARE = (b"__builtin", b"_Generic", b"offsetof", b"va_arg", b"__c11_", b"__opencl_atomic")
_STATEMENTS = {
    CursorKind.COMPOUND_STMT, CursorKind.DECL_STMT, CursorKind.IF_STMT, CursorKind.FOR_STMT,
    CursorKind.WHILE_STMT, CursorKind.DO_STMT, CursorKind.SWITCH_STMT, CursorKind.CASE_STMT,
    CursorKind.DEFAULT_STMT, CursorKind.BREAK_STMT, CursorKind.CONTINUE_STMT, CursorKind.RETURN_STMT,
    CursorKind.NULL_STMT, CursorKind.GOTO_STMT, CursorKind.LABEL_STMT, CursorKind.INDIRECT_GOTO_STMT,
    CursorKind.ASM_STMT, CursorKind.UNEXPOSED_STMT,
}  # fmt: skip
_NOT_EXPRESSIONS = {
    CursorKind.TYPE_REF,
    CursorKind.UNEXPOSED_ATTR,
    CursorKind.ANNOTATE_ATTR,
    CursorKind.ALIGNED_ATTR,
}


def _bit_bytes(size: int, fields: list[Cursor], index: int) -> tuple[int, int]:
    """[start, stop) of the bytes that an access to bit-field `index` may touch: all from the first of the bit-fields
    side by side with it to the next member that is none (compilers read and write any part of that at once).
    """
    first, last = index, index
    while first > 0 and fields[first - 1].is_bitfield():
        first -= 1
    while last + 1 < len(fields) and fields[last + 1].is_bitfield():
        last += 1
    start = fields[first].get_field_offsetof() // 8
    if last + 1 == len(fields):
        return start, size
    following = fields[last + 1].get_field_offsetof() // 8
    return start, following if following > start else size  # members of a union lie one on the other


class SyntaxReader:
    """Reads functions of one translation unit."""

    def __init__(self, program: ParsedProgram) -> None:
        unit = program.tu
        self.unit = unit
        self.text = program.preprocessed.encode("utf-8", "surrogateescape")
        self.exact = program.exact  #: the text is free of macros, so that it may be looked at
        #: whether there may be expressions of one operand that clang shows like implicit conversions
        self._has_rare = any(word in self.text for word in _RARE)
        self._types: dict[int, CType] = {}
        self._functions: dict[str, Function | None] = {}
        self._definitions: dict[str, list[Cursor]] = {}
        for cursor in unit.cursor.get_children():
            if cursor.kind is CursorKind.FUNCTION_DECL and cursor.is_definition():
                self._definitions.setdefault(cursor.spelling, []).append(cursor)

    # functions and types ----------------------------------------------------------------------------

    def function(self, name: str) -> Function | None:
        """The function that a call names (see `_call`); None where it has no body in the program."""
        if name not in self._functions:
            spelling, _, key = name.partition("#")
            found = self._definitions.get(spelling, ())
            cursor = next((c for c in found if not key or c.hash == int(key)), None)
            self._functions[name] = None if cursor is None else self._read_function(cursor)
        return self._functions[name]

    def _read_function(self, cursor: Cursor) -> Function | None:
        parameters: list[Variable] = []
        body: Node | None = None
        for child in cursor.get_children():
            kind = child.kind
            if kind is CursorKind.PARM_DECL:
                parameters.append(Variable(child.hash, child.spelling, self.ctype(child.type), None, None))
            elif kind is CursorKind.COMPOUND_STMT:
                body = self.statement(child)
        if body is None:
            return None
        return Function(cursor.spelling, tuple(parameters), self.ctype(cursor.result_type), body)

    def ctype(self, clang_type: Type) -> CType:
        key = clang_type.data[0]
        found = self._types.get(key)
        if found is None:
            found = self._read_type(clang_type)
            self._types[key] = found
        return found

    def _read_type(self, clang_type: Type) -> CType:
        canonical = clang_type.get_canonical()
        kind = canonical.kind
        if kind in _NO_OBJECTS:
            return CType("other", 0)
        size = max(canonical.get_size(), 0)
        if kind is TypeKind.ENUM:
            result = CType("int", size)
            result.integer = _INTEGERS.get(canonical.get_declaration().enum_type.get_canonical().kind)
        elif kind in _INTEGERS:
            result = CType("bool" if kind is TypeKind.BOOL else "int", size)
            result.integer = _INTEGERS[kind]
        elif kind in _FLOATS:
            result = CType("float", size)
        elif kind is TypeKind.ATOMIC:
            integer = _ATOMICS.get(canonical.spelling.partition("_Atomic(")[2][:-1])
            result = CType("int" if integer is not None else "float", size)
            result.integer = integer
        elif kind is TypeKind.POINTER:
            result = CType("pointer", size)
            pointee = canonical.get_pointee()
            incomplete = pointee.kind is TypeKind.FUNCTIONPROTO
            result.element = VOID if incomplete else self.ctype(pointee)
        elif kind in (TypeKind.EXTVECTOR, TypeKind.VECTOR):
            result = CType("vector", size)
            result.element = self.ctype(canonical.element_type)
            result.count = canonical.element_count
        elif kind is TypeKind.CONSTANTARRAY:
            result = CType("array", size)
            result.element = self.ctype(canonical.element_type)
            result.count = canonical.element_count
        elif kind in (TypeKind.INCOMPLETEARRAY, TypeKind.VARIABLEARRAY):
            result = CType("array", 0)
            result.element = self.ctype(canonical.element_type)
        elif kind is TypeKind.RECORD:
            result = CType("record", size)
            self._types[clang_type.data[0]] = result
            fields = list(canonical.get_fields())
            for index in range(len(fields)):
                self._read_field(result, fields, index)
        elif kind is TypeKind.VOID:
            result = CType("void", 0)
        else:
            result = CType("other", size)
        result.space = canonical.get_address_space()
        result.volatile = canonical.is_volatile_qualified()
        return result

    def _read_field(self, record: CType, fields: list[Cursor], index: int) -> None:
        field = fields[index]
        byte, ctype = field.get_field_offsetof() // 8, self.ctype(field.type)
        if field.is_bitfield():
            byte, stop = _bit_bytes(record.size, fields, index)
            ctype = CType("bits", stop - byte)
        if field.spelling:
            record.fields[field.spelling] = (byte, ctype)
        for name, (inner, inner_type) in ctype.fields.items():
            if field.is_anonymous():
                record.fields[name] = (byte + inner, inner_type)

    # places -----------------------------------------------------------------------------------------

    def line(self, cursor: Cursor) -> int | None:
        """The user's line; None in text that no user wrote."""
        place = clang.presumed(cursor.location)
        return None if place.file == GENERATED_FILE else place.line or None

    # statements -------------------------------------------------------------------------------------

    def statement(self, cursor: Cursor) -> Node:
        kind = cursor.kind
        if kind not in _STATEMENTS:
            return self.expression(cursor)
        if kind is CursorKind.COMPOUND_STMT:
            return Node("compound", VOID, tuple(self.statement(child) for child in cursor.get_children()))
        if kind is CursorKind.DECL_STMT:
            found = [c for c in cursor.get_children() if c.kind is CursorKind.VAR_DECL]
            return Node("declare", VOID, tuple(self._variable(c) for c in found))
        if kind is CursorKind.IF_STMT:
            parts = list(cursor.get_children())
            otherwise = self.statement(parts[2]) if len(parts) > 2 else None
            return Node(
                "if",
                VOID,
                (self.expression(parts[0]), self.statement(parts[1]), otherwise),
                self.line(cursor),
            )
        if kind in (CursorKind.FOR_STMT, CursorKind.WHILE_STMT, CursorKind.DO_STMT):
            return self._loop(cursor)
        if kind is CursorKind.SWITCH_STMT:
            return self._switch(cursor)
        if kind is CursorKind.CASE_STMT:
            *labels, inner = cursor.get_children()  # one number, or the first and the last of a range
            numbers = tuple(self.expression(label) for label in labels)
            return Node("case", VOID, (numbers, self.statement(inner)))
        if kind is CursorKind.DEFAULT_STMT:
            return Node("default", VOID, tuple(self.statement(child) for child in cursor.get_children()))
        if kind is CursorKind.RETURN_STMT:
            values = tuple(self.expression(child) for child in cursor.get_children())
            return Node("return", VOID, values, self.line(cursor))
        simple = {
            CursorKind.BREAK_STMT: "break",
            CursorKind.CONTINUE_STMT: "continue",
            CursorKind.NULL_STMT: "nothing",
        }
        if kind in simple:
            return Node(simple[kind], VOID, (), self.line(cursor))
        if kind is CursorKind.UNEXPOSED_STMT:
            # An attribute such as opencl_unroll_hint around a statement.
            inner = [c for c in cursor.get_children() if c.kind not in _NOT_EXPRESSIONS]
            return Node("compound", VOID, tuple(self.statement(child) for child in inner))
        name = {CursorKind.ASM_STMT: "inline assembly"}.get(kind, "goto")
        raise Unsupported(f"{name} is not followed", self.line(cursor))

    def _switch(self, cursor: Cursor) -> Node:
        value, body = list(cursor.get_children())[-2:]
        statement = self.statement(body)
        inside = statement.args if statement.kind == "compound" else (statement,)
        if any(has_labels(behind_labels(part)) for part in inside):
            raise Unsupported("a case label inside another statement", self.line(cursor))
        return Node("switch", VOID, (self.expression(value), statement), self.line(cursor))

    def _variable(self, cursor: Cursor) -> Variable:
        init = _lib.clang_Cursor_getVarDeclInitializer(cursor)
        node = None
        if init is not None and not init.kind.is_invalid():
            init._tu = self.unit
            node = self.expression(init)
        return Variable(cursor.hash, cursor.spelling, self.ctype(cursor.type), node, self.line(cursor))

    def program_variable(self, cursor: Cursor) -> Variable:
        """A variable at program scope."""
        return self._variable(cursor)

    def _loop(self, cursor: Cursor) -> Node:
        """A loop as (init, condition before, body, step, condition after), each None where it is absent."""
        kind = cursor.kind
        parts = list(cursor.get_children())
        args: tuple[Node | None, ...]
        if kind is CursorKind.WHILE_STMT:
            before, body = parts
            args = (None, self.expression(before), self.statement(body), None, None)
        elif kind is CursorKind.DO_STMT:
            args = (None, None, self.statement(parts[0]), None, self.expression(parts[1]))
        else:
            # libclang leaves out absent clauses: the semicolons tell which are there.
            clauses: list[Node | None] = [None, None, None]
            for position, part in zip(self._clauses(cursor, parts[:-1], parts[-1]), parts, strict=False):
                clauses[position] = self.statement(part)
            args = (clauses[0], clauses[1], self.statement(parts[-1]), clauses[2], None)
        node = Node("loop", VOID, args, self.line(cursor))
        assigned: set[int] = set()
        collect_assigned(node, assigned)
        node.assigned = frozenset(assigned)
        return node

    def _clauses(self, cursor: Cursor, parts: list[Cursor], body: Cursor) -> list[int]:
        """Which clause of a `for` each part is."""
        if len(parts) == 3:
            return [0, 1, 2]
        if not self.exact:
            raise Unsupported("a loop behind a macro", self.line(cursor))
        first, second = self._semicolons(cursor, body)
        starts = [clang.extent_of(part)[0] for part in parts]
        return [0 if start < first else 1 if start < second else 2 for start in starts]

    def _semicolons(self, cursor: Cursor, body: Cursor) -> tuple[int, int]:
        """Where the clauses of a `for` end: at clang's own tokens, as literals and comments may have any text."""
        found: list[int] = []
        depth = 0
        for token in self._tokens(*clang.extent_of(cursor)[:1], clang.extent_of(body)[0]):
            if token.kind is not TokenKind.PUNCTUATION:
                continue
            spelling = token.spelling
            if spelling == "(":
                depth += 1
            elif spelling == ")":
                depth -= 1
            elif spelling == ";" and depth == 1:  # deeper ones are statement expressions'
                found.append(token.extent.start.offset)
        if len(found) != 2:
            raise Unsupported("a loop that could not be read", self.line(cursor))
        return found[0], found[1]

    def _tokens(self, start: int, stop: int) -> Iterator[Token]:
        """clang's tokens that begin in some bytes of the text."""
        file = self.unit.get_file(clang.TEXT_FILE)
        first, last = (SourceLocation.from_offset(self.unit, file, offset) for offset in (start, stop))
        for token in self.unit.get_tokens(extent=SourceRange.from_locations(first, last)):
            if start <= token.extent.start.offset < stop:
                yield token

    # expressions ------------------------------------------------------------------------------------

    def expression(self, cursor: Cursor) -> Node:
        kind = cursor.kind
        if kind in _STATEMENTS:
            return self.statement(cursor)
        reader = _READERS.get(kind)
        if reader is not None:
            node: Node = reader(self, cursor, self.ctype(cursor.type))
            return node
        return self._other(cursor, self.ctype(cursor.type))

    def operands(self, cursor: Cursor) -> list[Node]:
        return [self.expression(c) for c in cursor.get_children() if c.kind not in _NOT_EXPRESSIONS]

    def _other(self, cursor: Cursor, ctype: CType) -> Node:
        # What sizeof is applied to is not evaluated (C99 6.5.3.4).
        found = [] if cursor.kind is CursorKind.CXX_UNARY_EXPR else self.operands(cursor)
        number = None if any(has_effects(node) for node in found) else self._evaluate(cursor, ctype)
        if number is not None:
            return Node("int", ctype, (number,))
        return Node("opaque", ctype, tuple(found), self.line(cursor))

    def _statement_expression(self, cursor: Cursor, ctype: CType) -> Node:
        """`({ ... })`, which clang takes although no standard has it: programs' macros are written with it."""
        (body,) = self.operands(cursor)
        return Node("block", ctype, body.args, self.line(cursor))

    def _evaluate(self, cursor: Cursor, ctype: CType) -> int | None:
        """The constant value of an integer expression, by clang, which does not mind what else the expression does."""
        if ctype.integer is None:
            return None
        number = clang.evaluate(cursor)
        return number if isinstance(number, int) else None

    def _integer(self, cursor: Cursor, ctype: CType) -> Node:
        number = self._evaluate(cursor, ctype)
        return Node("opaque", ctype) if number is None else Node("int", ctype, (number,))

    def _float(self, cursor: Cursor, ctype: CType) -> Node:
        return Node("float", ctype)

    def _string(self, cursor: Cursor, ctype: CType) -> Node:
        return Node("string", ctype)

    def _paren(self, cursor: Cursor, ctype: CType) -> Node:
        (inner,) = self.operands(cursor)
        return inner

    def _reference(self, cursor: Cursor, ctype: CType) -> Node:
        declaration = cursor.referenced
        if declaration.kind is CursorKind.ENUM_CONSTANT_DECL:
            return Node("int", ctype, (declaration.enum_value,))
        if declaration.kind is CursorKind.FUNCTION_DECL:
            return Node("function", ctype, (cursor.spelling,))
        return Node("variable", ctype, (declaration.hash, cursor.spelling, declaration), self.line(cursor))

    def _index(self, cursor: Cursor, ctype: CType) -> Node:
        base, index = self.operands(cursor)
        if base.type.integer is not None:
            base, index = index, base
        return Node("index", ctype, (base, index), self.line(cursor))

    def _member(self, cursor: Cursor, ctype: CType) -> Node:
        found = self.operands(cursor)
        if not found:
            return Node("opaque", ctype, (), self.line(cursor))
        base = found[0]
        record = base.type
        arrow = record.kind == "pointer"
        if arrow:
            assert record.element is not None
            record = record.element
        name = cursor.spelling
        if not name:
            return base  # a member of an anonymous struct or union: found by its own name further out
        field = record.fields.get(name)
        if field is None:
            return Node("opaque", ctype, (base,), self.line(cursor))
        byte, member = field
        # A bit-field is read and written with those beside it.
        unit = member.size if member.kind == "bits" else 0
        return Node("member", ctype, (base, byte, arrow, unit), self.line(cursor))

    def _binary(self, cursor: Cursor, ctype: CType) -> Node:
        code = _lib.clang_getCursorBinaryOperatorKind(cursor)
        if code == _ASSIGN:
            return Node("assign", ctype, tuple(self.operands(cursor)), self.line(cursor))
        if code == _COMMA:
            return Node("comma", ctype, tuple(self.operands(cursor)))
        a, b = self._calculated(cursor)
        operator = _BINARY.get(code)
        if operator is None:
            return Node("opaque", ctype, (a, b), self.line(cursor))
        return Node("binary", ctype, (operator, a, b))

    def _compound_assign(self, cursor: Cursor, ctype: CType) -> Node:
        operator = _UPDATE.get(_lib.clang_getCursorBinaryOperatorKind(cursor))
        if operator is None:
            raise Unsupported("an assignment that is not known", self.line(cursor))
        a, b = self._calculated(cursor)
        return Node("update", ctype, (operator, a, b), self.line(cursor))

    def _calculated(self, cursor: Cursor) -> list[Node]:
        """Operands of an operator: there a `bool` becomes an integer first, also where this becomes a vector."""
        found = []
        for child in cursor.get_children():
            if child.kind in _NOT_EXPRESSIONS:
                continue
            node = self.expression(child)
            implicit = child.kind is CursorKind.UNEXPOSED_EXPR and node.kind == "cast"
            if implicit and node.args[0].kind == "spread":
                inner = node.args[0]
                node = Node("cast", node.type, (Node("cast", inner.type, inner.args),))
            found.append(node)
        return found

    def _unary(self, cursor: Cursor, ctype: CType) -> Node:
        code = _lib.clang_getCursorUnaryOperatorKind(cursor)
        (a,) = self.operands(cursor)
        if code == _ADDRESS:
            return Node("address", ctype, (a,), self.line(cursor))
        if code == _DEREFERENCE:
            return Node("deref", ctype, (a,), self.line(cursor))
        if code in _STEPS:
            return Node("step", ctype, (a, *_STEPS[code]), self.line(cursor))
        operator = _UNARY.get(code)
        if operator is None:
            return Node("opaque", ctype, (a,), self.line(cursor))
        return Node("unary", ctype, (operator, a))

    def _conditional(self, cursor: Cursor, ctype: CType) -> Node:
        found = self._calculated(cursor)
        if len(found) != 3:
            return Node("opaque", ctype, tuple(found), self.line(cursor))
        return Node("conditional", ctype, tuple(found))

    def _call(self, cursor: Cursor, ctype: CType) -> Node:
        found = self.operands(cursor)
        name = cursor.spelling
        if name in self._definitions:
            # Functions may be overloaded, also with a builtin one (__attribute__((overloadable))).
            callee = cursor.referenced
            definition = callee.get_definition() if callee is not None else None
            name = f"{name}#{0 if definition is None else definition.hash}"
        return Node("call", ctype, (name, tuple(found[1:])), self.line(cursor))

    def _cast(self, cursor: Cursor, ctype: CType) -> Node:
        # In front of the operand there may be parts of the type, such as the size of an array.
        found = [c for c in cursor.get_children() if c.kind not in _NOT_EXPRESSIONS]
        if not found:
            return Node("opaque", ctype, (), self.line(cursor))
        operand = self._converted(found[-1], ctype)
        if operand.args[0].kind == "spread" and self._is_literal(cursor, found[-1]):
            return Node("cast", ctype, (Node("cast", operand.args[0].type, operand.args[0].args),))
        return operand

    def _is_literal(self, cursor: Cursor, operand: Cursor) -> bool:
        """Whether a cast to a vector is a vector literal of one scalar, which has a parenthesis right behind the type:
        its components are initialised as that scalar is converted (OpenCL C 6.1.6), so that `(int4)(b)` has ones where
        `(int4)b` has all bits.
        """
        if not self.exact:
            raise Unsupported("a `bool` that becomes a vector behind a macro", self.line(cursor))
        depth = 0
        for token in self._tokens(clang.extent_of(cursor)[0], clang.extent_of(operand)[0]):
            if depth == 0 and token.spelling != "(":
                return False
            depth += {"(": 1, ")": -1}.get(token.spelling, 0)
        return depth > 0

    def _converted(self, cursor: Cursor, ctype: CType) -> Node:
        """A conversion of what `cursor` is. Into a vector, clang shows a `bool` as one that becomes an integer of its own
        accord: it takes on all bits (OpenCL C 6.2.2).
        """
        inner = self.expression(cursor)
        if (
            ctype.kind == "vector"
            and cursor.kind is CursorKind.UNEXPOSED_EXPR
            and inner.kind == "cast"
            and inner.args[0].type.kind == "bool"
        ):
            inner = Node("spread", inner.type, inner.args)
        return Node("cast", ctype, (inner,))

    def _compound_literal(self, cursor: Cursor, ctype: CType) -> Node:
        found = self.operands(cursor)
        return found[-1] if found and found[-1].kind == "list" else Node("opaque", ctype, tuple(found))

    def _list(self, cursor: Cursor, ctype: CType) -> Node:
        return Node("list", ctype, tuple(self.operands(cursor)))

    def _unexposed(self, cursor: Cursor, ctype: CType) -> Node:
        """An implicit conversion, a swizzle, `__builtin_astype` or something rare.

        Conversions have the extent of what they convert; of the others, the tokens around their operand tell.
        """
        found = [c for c in cursor.get_children() if c.kind not in _NOT_EXPRESSIONS]
        if len(found) != 1:
            return self._other(cursor, ctype)
        inner = self._converted(found[0], ctype)
        source = inner.args[0].type
        vector = source.element if source.kind == "pointer" else source
        if not self._has_rare and (vector is None or vector.kind != "vector"):
            return inner
        start, stop = clang.extent_of(cursor)
        inner_start, inner_stop = clang.extent_of(found[0])
        if start == inner_start and stop == inner_stop:
            return inner
        if not self.exact:
            raise Unsupported("a vector behind a macro", self.line(cursor))
        before = [token.spelling for token in self._tokens(start, inner_start)]
        after = [token.spelling for token in self._tokens(inner_stop, stop)]
        if before[:1] == ["__builtin_astype"]:
            return Node("astype", ctype, inner.args)
        if before or len(after) != 2 or after[0] not in (".", "->"):
            return self._other(cursor, ctype)
        if vector is None or vector.kind != "vector":
            raise Unsupported("a member that could not be read", self.line(cursor))
        components = swizzle_components(after[-1], vector.count)
        return Node("swizzle", ctype, (*inner.args, components, after[0] == "->"), self.line(cursor))


_READERS: dict[CursorKind, Any] = {
    CursorKind.INTEGER_LITERAL: SyntaxReader._integer,
    CursorKind.CHARACTER_LITERAL: SyntaxReader._integer,
    CursorKind.FLOATING_LITERAL: SyntaxReader._float,
    CursorKind.STRING_LITERAL: SyntaxReader._string,
    CursorKind.PAREN_EXPR: SyntaxReader._paren,
    CursorKind.DECL_REF_EXPR: SyntaxReader._reference,
    CursorKind.ARRAY_SUBSCRIPT_EXPR: SyntaxReader._index,
    CursorKind.MEMBER_REF_EXPR: SyntaxReader._member,
    CursorKind.BINARY_OPERATOR: SyntaxReader._binary,
    CursorKind.COMPOUND_ASSIGNMENT_OPERATOR: SyntaxReader._compound_assign,
    CursorKind.UNARY_OPERATOR: SyntaxReader._unary,
    CursorKind.CONDITIONAL_OPERATOR: SyntaxReader._conditional,
    CursorKind.CALL_EXPR: SyntaxReader._call,
    CursorKind.CSTYLE_CAST_EXPR: SyntaxReader._cast,
    CursorKind.COMPOUND_LITERAL_EXPR: SyntaxReader._compound_literal,
    CursorKind.INIT_LIST_EXPR: SyntaxReader._list,
    CursorKind.UNEXPOSED_EXPR: SyntaxReader._unexposed,
    CursorKind.StmtExpr: SyntaxReader._statement_expression,
}
