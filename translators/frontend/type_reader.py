"""Reads clang's types into the classes of `types`.

Decides how large a type is, what it consists of and where a record's members lie.
"""

from __future__ import annotations

from clang.cindex import Cursor, CursorKind, Type, TypeKind

from ..symbolic.nodes import IntType
from . import clang
from .operator_kinds import Placed
from .types import VOID, CArray, CBits, CBool, CFloat, CInt, COther, CPointer, CRecord, CType, CVector, CVoid

_INTEGERS = {
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
#: Placeholders for things without a type of their own, such as clang's built-in functions behind INFINITY and NAN.
#: libclang ends the process if it is asked for their size.
_NO_OBJECTS = {TypeKind.UNEXPOSED, TypeKind.OVERLOAD, TypeKind.DEPENDENT}
_SCALARS: dict[TypeKind, type[CBool | CFloat | CVoid]] = {
    TypeKind.BOOL: CBool,
    TypeKind.VOID: CVoid,
    TypeKind.ATOMIC: CFloat,  # if it is not an integer
    **dict.fromkeys(
        (TypeKind.FLOAT, TypeKind.DOUBLE, TypeKind.HALF, TypeKind.FLOAT128, TypeKind.LONGDOUBLE), CFloat
    ),
}
SEQUENCES = {
    TypeKind.EXTVECTOR,
    TypeKind.VECTOR,
    TypeKind.CONSTANTARRAY,
    TypeKind.INCOMPLETEARRAY,
    TypeKind.VARIABLEARRAY,
}

_POINTER_NBYTES = 8
#: What may be an array as an object, apart from names and `*p`.
_ARRAY_OBJECTS = {
    CursorKind.VAR_DECL,
    CursorKind.MEMBER_REF_EXPR,
    CursorKind.ARRAY_SUBSCRIPT_EXPR,
    CursorKind.STRING_LITERAL,
    CursorKind.COMPOUND_LITERAL_EXPR,
    CursorKind.INIT_LIST_EXPR,
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
    return start, following if following > start else size  # members of a union overlap


class TypeReader:
    """Reads types of one translation unit."""

    def __init__(self) -> None:
        self._known: dict[int, CType] = {}

    def of(self, cursor: Cursor) -> CType:
        """The type of an expression or a declaration."""
        found = self._known.get(clang.type_key(cursor))
        if found is None:
            found = self.read(cursor.type)
        if isinstance(found, CArray) and _is_pointer(cursor):
            return CPointer(_POINTER_NBYTES, found.element)
        return found

    def read(self, clang_type: Type) -> CType:
        """Each type is read once."""
        key = clang_type.data[0]
        found = self._known.get(key)
        if found is None:
            found = self._made(clang_type)
            self._known[key] = found
        return found

    def _made(self, clang_type: Type) -> CType:
        canonical = clang_type.get_canonical()
        kind = canonical.kind
        if kind in _NO_OBJECTS:
            return COther(0)
        size, space = max(canonical.get_size(), 0), clang.address_space(canonical)
        volatile = canonical.is_volatile_qualified()
        if kind is TypeKind.RECORD:
            record = CRecord(size, {}, space=space, volatile=volatile)
            self._known[clang_type.data[0]] = record
            fields = list(canonical.get_fields())
            for index in range(len(fields)):
                self._read_field(record, fields, index)
            return record
        if kind in SEQUENCES:
            element = self.read(canonical.element_type)
            if kind in (TypeKind.EXTVECTOR, TypeKind.VECTOR):
                return CVector(size, element, canonical.element_count, space=space, volatile=volatile)
            if kind is TypeKind.CONSTANTARRAY:
                return CArray(size, element, canonical.element_count, space=space, volatile=volatile)
            return CArray(0, element, space=space, volatile=volatile)
        if kind is TypeKind.POINTER:
            pointee = canonical.get_pointee()
            target = VOID if pointee.kind is TypeKind.FUNCTIONPROTO else self.read(pointee)
            return CPointer(size, target, space=space, volatile=volatile)
        integer = _integer_of(canonical)
        if integer is not None:
            return CInt(size, integer, space=space, volatile=volatile)
        return _SCALARS.get(kind, COther)(size, space=space, volatile=volatile)

    def _read_field(self, record: CRecord, fields: list[Cursor], index: int) -> None:
        field = fields[index]
        byte, ctype = field.get_field_offsetof() // 8, self.read(field.type)
        if field.is_bitfield():
            byte, stop = _bit_bytes(record.size, fields, index)
            ctype = CBits(stop - byte)
        if field.spelling:
            record.members[field.spelling] = (byte, ctype)
        if field.is_anonymous() and isinstance(ctype, CRecord):
            for name, (inner, inner_type) in ctype.members.items():
                record.members[name] = (byte + inner, inner_type)


def _integer_of(canonical: Type) -> IntType | None:
    """The integer type of an object; None if it is not an integer, or a `bool`."""
    if canonical.kind is TypeKind.ENUM:
        return _INTEGERS.get(canonical.get_declaration().enum_type.get_canonical().kind)
    if canonical.kind is TypeKind.ATOMIC:
        return _ATOMICS.get(canonical.spelling.partition("_Atomic(")[2][:-1])
    return _INTEGERS.get(canonical.kind)


def _is_pointer(cursor: Cursor) -> bool:
    """Whether what clang shows as an array is a pointer: a parameter that is written as an array (C99 6.7.5.3p7), or
    the value of an expression with it. Other arrays are objects.
    """
    kind = cursor.kind
    if kind is CursorKind.DECL_REF_EXPR:
        return cursor.referenced.kind is CursorKind.PARM_DECL
    if kind in (CursorKind.PAREN_EXPR, CursorKind.UNEXPOSED_EXPR):
        inner = clang.children(cursor)
        return bool(inner) and all(map(_is_pointer, inner))
    if kind is CursorKind.UNARY_OPERATOR:
        return clang.unary_operator(cursor) is not Placed.DEREFERENCE
    return kind not in _ARRAY_OBJECTS
