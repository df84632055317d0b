"""What a place is wanted for, and how much of it: the words that the walk through a body is made of.

Decides which expressions name objects (C99 6.3.2.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from clang.cindex import Cursor, CursorKind, TypeKind

from ...frontend import clang
from ...frontend.operator_kinds import Placed
from .roots import expression_parts

VECTORS = (TypeKind.EXTVECTOR, TypeKind.VECTOR)
#: Bits of an access's mode, as in `include/checked.cl`.
READS, WRITES, ATOMICALLY, UNSURE, SETTLES, VOLATILE = 1, 2, 4, 8, 16, 32


class Use(Enum):
    """What an expression's place is wanted for; NAMED: its address alone, which may be one past the end (C99 6.5.6p8)."""

    READ = "read"
    WRITE = "write"
    UPDATE = "update"
    NAMED = "named"
    PART = "part"  #: of a place that is accessed
    NAMED_PART = "named part"


MODES = {Use.READ: READS, Use.WRITE: WRITES, Use.UPDATE: READS | WRITES}


@dataclass(frozen=True)
class Part:
    """Of an object: the bytes that are touched."""

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
    """Bytes of an object that an access to it must touch: the fourth component of a vector of three is none."""
    canonical = cursor.type.get_canonical()
    if canonical.kind in VECTORS:
        return int(canonical.element_type.get_size() * canonical.element_count)
    return int(canonical.get_size())
