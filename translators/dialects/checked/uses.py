"""What a place is used for, and how much of it: the vocabulary of the walk through a body.

Decides which expressions name objects (C99 6.3.2.1).
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from clang.cindex import Cursor, CursorKind, Type, TypeKind
from vdev.translators.values import dataclass

from ...frontend import clang
from ...frontend.operator_kinds import Placed
from ...frontend.types import Space
from .roots import expression_parts

#: Names of the checks of memory in `include/checked.cl`.
CHECKS = {Space.GLOBAL: "g", Space.LOCAL: "l", Space.CONSTANT: "k"}
#: Members of a structure; those of a larger one are not told apart.
MOST_LEAVES = 32
VECTORS = (TypeKind.EXTVECTOR, TypeKind.VECTOR)
#: Bits of an access's mode, as in `include/checked.cl`.
READS, WRITES, ATOMICALLY, UNSURE, SETTLES, VOLATILE = 1, 2, 4, 8, 16, 32


class Use(Enum):
    """What an expression's place is used for; NAMED: only its address, which may be one past the end (C99 6.5.6p8)."""

    READ = "read"
    WRITE = "write"
    UPDATE = "update"
    NAMED = "named"
    PART = "part"  #: of a place that is accessed
    NAMED_PART = "named part"


MODES = {Use.READ: READS, Use.WRITE: WRITES, Use.UPDATE: READS | WRITES}


@dataclass(frozen=True)
class Part:
    """Part of an object: the bytes that are touched."""

    offset: int
    nbytes: int


def is_place(cursor: Cursor) -> bool:
    while cursor.kind is CursorKind.PAREN_EXPR:
        cursor = expression_parts(cursor)[0]
    if cursor.kind is CursorKind.UNARY_OPERATOR:
        return clang.unary_operator(cursor) is Placed.DEREFERENCE
    return cursor.kind in (
        CursorKind.ARRAY_SUBSCRIPT_EXPR,
        CursorKind.MEMBER_REF_EXPR,
        CursorKind.DECL_REF_EXPR,
    )


def part_of(use: Use) -> Use:
    return Use.NAMED_PART if use in (Use.NAMED, Use.NAMED_PART) else Use.PART


def touched_nbytes(cursor: Cursor) -> int:
    """Bytes of an object that an access to it must touch: a vector of three has no fourth component."""
    canonical = cursor.type.get_canonical()
    if canonical.kind in VECTORS:
        return int(canonical.element_type.get_size() * canonical.element_count)
    return int(canonical.get_size())


def leaves(type_: Type, byte: int = 0) -> Iterator[tuple[int, int]]:
    """(byte, bytes) of everything in an object that is not padding."""
    canonical = type_.get_canonical()
    if canonical.kind is TypeKind.RECORD:
        for each in canonical.get_fields():
            yield from leaves(each.type, byte + each.get_field_offsetof() // 8)
    elif canonical.kind is TypeKind.CONSTANTARRAY:
        size = canonical.element_type.get_size()
        for index in range(canonical.element_count):
            yield from leaves(canonical.element_type, byte + index * size)
    elif canonical.kind in VECTORS:
        yield byte, canonical.element_type.get_size() * canonical.element_count
    else:
        yield byte, canonical.get_size()


def wanted_runs(type_: Type) -> list[tuple[int, int]]:
    """(byte, bytes) of a structure that a copy of it needs, neighbours together; none if it has too many members, or
    if one place may be several of them.
    """
    if not _is_fixed(type_):
        return []
    scalars = sorted(leaves(type_))
    found: list[tuple[int, int]] = []
    for byte, size in scalars if len(scalars) <= MOST_LEAVES else ():
        if found and sum(found[-1]) == byte:
            found[-1] = found[-1][0], found[-1][1] + size
        else:
            found.append((byte, size))
    return found


def _is_fixed(type_: Type) -> bool:
    """Whether every byte of an object always belongs to the same member, or to none."""
    canonical = type_.get_canonical()
    if canonical.kind is TypeKind.CONSTANTARRAY:
        return _is_fixed(canonical.element_type)
    if canonical.kind is not TypeKind.RECORD:
        return True
    if canonical.get_declaration().kind is CursorKind.UNION_DECL:
        return False
    return all(not each.is_bitfield() and _is_fixed(each.type) for each in canonical.get_fields())
