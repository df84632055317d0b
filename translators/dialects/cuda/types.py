"""Types as the CUDA translator sees them: how C++ spells them, and which conversions have to be written out.

Decides from clang's types alone; never looks at a program's text.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from clang.cindex import Type, TypeKind

from ...frontend import clang
from ...frontend.types import Space
from . import tables as cuda_dialect

_SCALARS = {
    TypeKind.BOOL: "bool", TypeKind.CHAR_S: "char", TypeKind.SCHAR: "char", TypeKind.CHAR_U: "uchar",
    TypeKind.UCHAR: "uchar", TypeKind.SHORT: "short", TypeKind.USHORT: "ushort", TypeKind.INT: "int",
    TypeKind.UINT: "uint", TypeKind.LONG: "long", TypeKind.ULONG: "ulong", TypeKind.HALF: "half",
    TypeKind.FLOAT: "float", TypeKind.DOUBLE: "double", TypeKind.LONGLONG: "long", TypeKind.ULONGLONG: "ulong",
}  # fmt: skip
_UNSIGNED = (
    TypeKind.BOOL, TypeKind.CHAR_U, TypeKind.UCHAR, TypeKind.USHORT, TypeKind.UINT, TypeKind.ULONG, TypeKind.ULONGLONG,
)  # fmt: skip
_VECTORS = (TypeKind.EXTVECTOR, TypeKind.VECTOR)
ARRAYS = (TypeKind.CONSTANTARRAY, TypeKind.INCOMPLETEARRAY, TypeKind.VARIABLEARRAY)


def vector_type(type_: Type) -> tuple[Type, int] | None:
    """(Type of a component, number of components), or None."""
    canonical = clang.canonical(type_)
    if canonical.kind not in _VECTORS:
        return None
    return canonical.element_type, int(canonical.element_count)


def spell(type_: Type) -> str | None:
    """A scalar or vector type in a form that C++ understands anywhere, whatever names the program defines."""
    vector = vector_type(type_)
    if vector is not None:
        element = spell(vector[0])
        return None if element is None else f"::vdev_cl::vec<{element}, {vector[1]}>"
    name = _SCALARS.get(clang.canonical(type_).kind)
    if name is None:
        return None
    return cuda_dialect.type_name(name)


def literal(number: int | float | None, type_: Type) -> str:
    """A number as a constant of an integer type, converted to it as C does."""
    number = converted(number, type_)
    if number == -(1 << 63):
        return f"(({spell(type_)})0x8000000000000000ul)"  # C++ does not read that number after a minus sign
    return f"(({spell(type_)}){number}{'ul' if number >> 63 > 0 else ''})"


def converted(number: int | float | None, type_: Type) -> int:
    """A constant integer converted to an integer type (C99 6.3.1.3; clang wraps)."""
    assert isinstance(number, int)  # otherwise clang refuses it
    nbits = 8 * int(clang.canonical(type_).get_size())
    number %= 1 << nbits
    negative = clang.canonical(type_).kind not in _UNSIGNED and number >> (nbits - 1)
    return number - (1 << nbits) if negative else number


def conversion(target: Type, source: Type, exact: bool) -> str | None:
    """The text that makes an implicit conversion explicit in C++, in front of an operand in parentheses; or None."""
    to, from_ = clang.canonical(target), clang.canonical(source)
    vector = vector_type(target)
    # Loading a class from volatile memory is a copy part by part.
    loads = from_.is_volatile_qualified() and not to.is_volatile_qualified()
    if vector is not None:
        return None if vector_type(source) is not None and not loads else f"({spell(target)})"
    if is_volatile_record(source) and not to.is_volatile_qualified():
        return "::vdev_cl::settled"
    # libclang shows a parameter that is written as an array as one, even when a pointer is passed.
    if to.kind == TypeKind.POINTER or (to.kind in ARRAYS and from_.kind == TypeKind.POINTER):
        there, here = _pointee(to), _pointee(from_)
        if there is None or here is None:
            return None
        if from_.kind in ARRAYS:
            # The array itself: an element type other than a number's is the same, however it is spelled.
            return None if spell(there) in (None, spell(here)) else "::vdev_cl::pointer"
        if there.kind == TypeKind.VOID:
            return None
        narrower = _leads_to_const(from_) and not _leads_to_const(to)
        return (
            "::vdev_cl::pointer"
            if here.kind == TypeKind.VOID or narrower or _bare(there) != _bare(here)
            else None
        )
    if to.kind == TypeKind.ENUM:
        return "::vdev_cl::enumeration" if from_.kind != TypeKind.ENUM else None
    name = spell(target)
    if name is None or (to.kind == from_.kind and not (loads and to.kind == TypeKind.HALF)):
        return None
    halves = TypeKind.HALF in (to.kind, from_.kind)
    return f"({name})" if exact or halves else None


def _pointee(canonical: Type) -> Type | None:
    """What a pointer, or an array that becomes one, points to."""
    if canonical.kind in ARRAYS:
        return canonical.element_type
    return canonical.get_pointee() if canonical.kind == TypeKind.POINTER else None


def _leads_to_const(canonical: Type) -> bool:
    """Whether what a pointer, or an array that becomes one, points to is const.

    libclang gives an array's qualifiers with the array, not with its elements (C99 6.7.3p8).
    """
    there = canonical if canonical.kind in ARRAYS else canonical.get_pointee()
    return bool(there.is_const_qualified())


def _bare(type_: Type) -> str:
    words = r"\b(?:__global|__local|__private|__constant|__generic|const|volatile|restrict|__restrict)\b"
    return " ".join(re.sub(words, " ", clang.canonical(type_).spelling).split())


def is_half(*types: Type) -> bool:
    """Whether one of the types is `half`."""
    return any(clang.canonical(type_).kind == TypeKind.HALF for type_ in types)


def space_of(type_: Type) -> Space:
    """The address space of a variable, if CUDA has a word for it; else PRIVATE."""
    canonical = clang.canonical(type_)
    while (space := clang.address_space(canonical)) not in (Space.LOCAL, Space.CONSTANT):
        if canonical.kind not in ARRAYS:
            return Space.PRIVATE
        canonical = canonical.element_type
    return space


def is_volatile_record(type_: Type) -> bool:
    """Whether it is a structure or union that C++ can neither read nor assign as a whole."""
    canonical = clang.canonical(type_)
    return bool(canonical.kind == TypeKind.RECORD and canonical.is_volatile_qualified())


def is_volatile_class(type_: Type) -> bool:
    """Whether it is volatile, and a class in C++: a structure, a union, a vector or a half number; or an array of these."""
    canonical = clang.canonical(type_)
    if not canonical.is_volatile_qualified():  # libclang says so of an array, and not of its elements
        return False
    while canonical.kind in ARRAYS:
        canonical = clang.canonical(canonical.element_type)
    return canonical.kind in (TypeKind.RECORD, TypeKind.HALF) or vector_type(canonical) is not None


def holds_pointer(type_: Type) -> bool:
    """Whether a value of the type is a pointer or has one in it."""
    return _holds(type_, lambda part: bool(part.kind == TypeKind.POINTER))


def holds_vector(type_: Type) -> bool:
    """Whether a value of the type is a vector or has one in it."""
    return _holds(type_, lambda part: part.kind in _VECTORS)


def _holds(type_: Type, wanted: Callable[[Type], bool]) -> bool:
    canonical = clang.canonical(type_)
    while canonical.kind in ARRAYS:
        canonical = clang.canonical(canonical.element_type)
    if canonical.kind == TypeKind.RECORD:
        return any(_holds(field.type, wanted) for field in canonical.get_fields())
    return wanted(canonical)


def members_of(type_: Type, count: int) -> list[Type | None]:
    """Types of what a list without designators initialises."""
    canonical = clang.canonical(type_)
    if canonical.kind in ARRAYS:
        return [canonical.element_type] * count
    if canonical.kind == TypeKind.RECORD:
        fields: list[Type | None] = [field.type for field in canonical.get_fields()]
        return (fields + [None] * count)[:count]
    return [None] * count
