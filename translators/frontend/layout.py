"""How the elements behind a kernel's pointers are laid out: scalars at their offsets, and padding between them.

Decides nothing; it says what clang says (specification 6.1.5 and 6.7.2 for alignment). Padding holds whatever was
there: two runs of a correct program may leave different bytes in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

import numpy as np
from clang.cindex import Cursor, CursorKind, Type, TypeKind

from .source import ParsedProgram

__all__ = ["element_types", "value_types"]

_SCALARS = {
    TypeKind.BOOL: "u1", TypeKind.CHAR_U: "u1", TypeKind.UCHAR: "u1", TypeKind.CHAR_S: "i1", TypeKind.SCHAR: "i1",
    TypeKind.USHORT: "u2", TypeKind.SHORT: "i2", TypeKind.UINT: "u4", TypeKind.INT: "i4", TypeKind.ULONG: "u8",
    TypeKind.LONG: "i8", TypeKind.ULONGLONG: "u8", TypeKind.LONGLONG: "i8", TypeKind.ENUM: "i4",
    TypeKind.HALF: "f2", TypeKind.FLOAT: "f4", TypeKind.DOUBLE: "f8", TypeKind.POINTER: "u8",
}  # fmt: skip
_ATOMICS = {
    "int": "i4",
    "unsigned int": "u4",
    "long": "i8",
    "unsigned long": "u8",
    "float": "f4",
    "double": "f8",
}
_COMPONENTS = "xyzw"
_MOST = 512  #: scalars in an element; for a larger one there is no layout here

Scalar = tuple[int, str, str]  #: offset in bytes, NumPy's name of the type, and its name in C


def element_types(program: ParsedProgram, kernel: str) -> Mapping[int, np.dtype[np.generic]]:
    """By argument number: the element that a pointer argument points to.

    A plain type for scalars and vectors of them; else a structured one, with a field for each scalar named as in C
    (`position.x`, `weights[2]`) and gaps where there is padding. Arguments of other types are left out.
    """
    return {
        index: element
        for index, found in enumerate(_parameter_types(program, kernel))
        if found.kind is TypeKind.POINTER and (element := _element(found.get_pointee())) is not None
    }


def value_types(program: ParsedProgram, kernel: str) -> Mapping[int, np.dtype[np.generic]]:
    """By argument number: the type of an argument that is given by value, described as those of `element_types`."""
    return {
        index: element
        for index, found in enumerate(_parameter_types(program, kernel))
        if found.kind is not TypeKind.POINTER and (element := _element(found)) is not None
    }


def _parameter_types(program: ParsedProgram, kernel: str) -> list[Type]:
    for cursor in program.tu.cursor.get_children():
        if cursor.kind is CursorKind.FUNCTION_DECL and cursor.spelling == kernel and cursor.is_definition():
            return [parameter.type.get_canonical() for parameter in _parameters(cursor)]
    return []


def _parameters(function: Cursor) -> list[Cursor]:
    return [child for child in function.get_children() if child.kind is CursorKind.PARM_DECL]


def _element(clang_type: Type) -> np.dtype[np.generic] | None:
    pointee = clang_type.get_canonical()
    size = pointee.get_size()
    scalars = list(islice(_scalars(pointee, 0, ""), _MOST + 1))
    if size <= 0 or not scalars or len(scalars) > _MOST:
        return None
    kinds = {kind for _, kind, _ in scalars}
    if len(kinds) == 1 and sum(np.dtype(kind).itemsize for _, kind, _ in scalars) == size:
        return np.dtype(kinds.pop())
    named = {name: (byte, kind) for byte, kind, name in scalars}
    return np.dtype(
        {
            "names": list(named),
            "formats": [kind for _, kind in named.values()],
            "offsets": [byte for byte, _ in named.values()],
            "itemsize": size,
        }
    )


def _scalars(clang_type: Type, byte: int, name: str) -> Iterator[Scalar]:
    """The scalars of a type, from `byte` on; `name` leads to it."""
    canonical = clang_type.get_canonical()
    kind = canonical.kind
    if kind in _SCALARS:
        yield byte, _SCALARS[kind], name
    elif kind is TypeKind.ATOMIC:
        spelling = canonical.spelling.partition("_Atomic(")[2][:-1]
        yield byte, _ATOMICS.get(spelling, f"V{canonical.get_size()}"), name
    elif kind in (TypeKind.EXTVECTOR, TypeKind.VECTOR, TypeKind.CONSTANTARRAY):
        count, inner = canonical.element_count, canonical.element_type
        for index in range(count):
            part = f"[{index}]" if kind is TypeKind.CONSTANTARRAY else _component(index, count)
            yield from _scalars(inner, byte + index * inner.get_size(), name + part)
    elif kind is TypeKind.RECORD:
        for field in canonical.get_fields():
            yield from _members(field, byte, name)
    elif canonical.get_size() > 0:
        yield byte, f"V{canonical.get_size()}", name


def _component(index: int, count: int) -> str:
    return f".{_COMPONENTS[index]}" if count <= len(_COMPONENTS) else f".s{index:x}"


def _members(field: Cursor, byte: int, name: str) -> Iterator[Scalar]:
    bit = field.get_field_offsetof()
    # A member without a name is spelled like "union at <kernel>:1:56"; its members are the record's own.
    named = field.spelling.isidentifier()
    path = f"{name}.{field.spelling}".lstrip(".") if named else name
    yield from _scalars(field.type, byte + bit // 8, path)  # OpenCL C has no bit-fields
