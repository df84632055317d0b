"""Types of OpenCL C, a class for each kind: how large their objects are and what these consist of.

Decides nothing about programs; `syntax_reader` makes them from clang's. Sizes and places are in bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from enum import Enum
from itertools import islice
from typing import ClassVar, TypeAlias

from vdev.translators.values import dataclass

from ..symbolic.exhaustive import assert_never
from ..symbolic.nodes import IntType


class Space(Enum):
    """The address space of an object, with clang's number (LangAS, as clang_getAddressSpace returns it)."""

    DEFAULT = 0
    GLOBAL = 1
    LOCAL = 2
    CONSTANT = 3
    PRIVATE = 4
    GENERIC = 5
    OTHER = -1


#: Where a work-item's own variables live.
OWN = (Space.DEFAULT, Space.PRIVATE)
#: Memory that is not a buffer, whatever points there.
NO_BUFFER = (Space.LOCAL, Space.PRIVATE)


@dataclass(frozen=True, slots=True, eq=False)
class _Type:
    size: int
    space: Space = field(default=Space.DEFAULT, kw_only=True)  #: of an object of this type
    volatile: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, slots=True, eq=False)
class CInt(_Type):
    """An integer or an enumeration, also atomic ones."""

    integer: IntType


@dataclass(frozen=True, slots=True, eq=False)
class CBool(_Type):
    """`bool`: 0 or 1 in a byte."""

    integer: ClassVar[IntType] = IntType(8, False)


@dataclass(frozen=True, slots=True, eq=False)
class CFloat(_Type):
    """A floating-point number."""


@dataclass(frozen=True, slots=True, eq=False)
class CPointer(_Type):
    """A pointer; one to a function counts as one to `void`."""

    pointee: CType

    @property
    def stride(self) -> int:
        """How far `++` moves it; `void *` moves by bytes."""
        return max(self.pointee.size, 1)


@dataclass(frozen=True, slots=True, eq=False)
class CVector(_Type):
    """A short vector; one of three components is as large as one of four (OpenCL C 6.1.5)."""

    element: CType
    count: int


@dataclass(frozen=True, slots=True, eq=False)
class CArray(_Type):
    """An array; `count` and `size` are 0 if the type does not say."""

    element: CType
    count: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class CRecord(_Type):
    """A structure or union. `members`: (byte, type) by name, filled in by whoever reads it, since it may contain
    pointers to its own type.
    """

    members: dict[str, tuple[int, CType]]


@dataclass(frozen=True, slots=True, eq=False)
class CBits(_Type):
    """The bytes that a store to a bit-field may change."""


@dataclass(frozen=True, slots=True, eq=False)
class CVoid(_Type):
    """No value."""


@dataclass(frozen=True, slots=True, eq=False)
class COther(_Type):
    """An object whose value is not followed: events, samplers, a given number of bytes."""


CType: TypeAlias = CInt | CBool | CFloat | CPointer | CVector | CArray | CRecord | CBits | CVoid | COther
#: Types that hold one integer.
Whole: TypeAlias = CInt | CBool
#: Types that are followed byte by byte.
Aggregated: TypeAlias = CRecord | CArray

VOID = CVoid(0)


def integer_type(kind: IntType) -> CInt:
    return CInt(kind.bits // 8, kind)


def integer_of(ctype: CType) -> IntType | None:
    """The integer type of an object; None if there is none."""
    if isinstance(ctype, CInt):
        return ctype.integer
    return ctype.integer if isinstance(ctype, CBool) else None


def same_bytes(a: CType, b: CType) -> bool:
    """Whether a conversion from `a` to `b` leaves every byte as it is, and so gives the same object."""
    if a.size != b.size:
        return False
    match a, b:
        case (CInt(), CInt()) | (CBool(), CBool()):
            return integer_of(a) == integer_of(b)
        case CVector(), CVector():
            return a.count == b.count and same_bytes(a.element, b.element)
        case (CFloat(), CFloat()) | (CRecord(), CRecord()) | (CArray(), CArray()):
            return True
    return False


#: The most parts of an object that are told apart; a larger object is seen as bytes.
MOST_LEAVES = 64


def leaves_of(ctype: CType) -> tuple[tuple[int, int], ...]:
    """(byte, size) of the parts of an object that a program can store separately, without padding; if there are many,
    the first `MOST_LEAVES` + 1.
    """
    return tuple(islice(_leaves(ctype, 0), MOST_LEAVES + 1))


def _leaves(ctype: CType, byte: int) -> Iterator[tuple[int, int]]:
    match ctype:
        case CRecord():
            for at, member in ctype.members.values():
                yield from _leaves(member, byte + at)
        case CArray() | CVector():
            for index in range(ctype.count):
                yield from _leaves(ctype.element, byte + index * ctype.element.size)
        case CBits():
            yield from ((at, 1) for at in range(byte, byte + ctype.size))
        case CInt() | CBool() | CFloat() | CPointer() | CVoid() | COther():
            yield byte, ctype.size
        case _:
            assert_never(ctype)


def has_gaps(ctype: CType) -> bool:
    """Whether an object has bytes that storing its value may leave unchanged: padding (C99 6.2.6.1), and what other
    members of a union have beyond the one that was set.
    """
    match ctype:
        case CVector():
            return ctype.count == 3
        case CArray():
            return has_gaps(ctype.element)
        case CRecord():
            return _has_gaps(ctype)
        case CBits():
            return True
        case CInt() | CBool() | CFloat() | CPointer() | CVoid() | COther():
            return False
    assert_never(ctype)


def _has_gaps(record: CRecord) -> bool:
    end = 0
    for byte, size in sorted({(byte, member.size) for byte, member in record.members.values()}):
        if byte != end:
            return True
        end = byte + size
    return end != record.size or any(has_gaps(member) for _, member in record.members.values())


def uniform_integer(ctype: CType) -> IntType | None:
    """The type of the integers that an object consists of, if it contains nothing else, not even padding."""
    match ctype:
        case CInt():
            return ctype.integer
        case CRecord():
            members = [member for _, member in ctype.members.values()]
            kinds = {uniform_integer(member) for member in members}
            whole = sum(member.size for member in members) == ctype.size
            return kinds.pop() if whole and len(kinds) == 1 else None
        case CArray() | CVector():
            whole = ctype.count * ctype.element.size == ctype.size
            return uniform_integer(ctype.element) if whole else None
        case CBool() | CFloat() | CPointer() | CBits() | CVoid() | COther():
            return None
    assert_never(ctype)
