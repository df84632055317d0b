"""Assignments of structures with padding, for C++: member by member.

C leaves it open what such an assignment does to padding (C99 6.2.6.1p6). The native compilers leave it as it is in memory, and what is
known of a program's writes relies on that; C++ compilers copy it along with the members. Decides nothing about structures
without padding, nor about initialisers.
"""

from __future__ import annotations

from collections.abc import Callable

from clang.cindex import CursorKind, Type, TypeKind

from .types import ARRAYS


def copying(type_: Type, word: Callable[[str], str]) -> str | None:
    """A lambda that copies the members of one structure to another; None for what has no padding. `word`: a member's name in C++."""
    if type_.get_canonical().kind != TypeKind.RECORD or not _has_padding(type_):
        return None
    return f"[](auto &to, auto &from) {{ {_members(type_, 0, '', word)}}}"


def _members(type_: Type, start: int, path: str, word: Callable[[str], str]) -> str:
    """Assignments of all members of a structure that begins at byte `start` of the outermost one."""
    found = []
    for field in type_.get_canonical().get_fields():
        own = field.type.get_canonical()
        offset = start + field.get_field_offsetof() // 8
        name = f"{path}.{word(field.spelling)}"
        if not field.spelling.isidentifier():  # its members are found as the outer one's own
            found.append(_unnamed(own, offset, path, word))
        elif own.kind in ARRAYS:
            element = own
            while element.kind in ARRAYS:
                element = element.element_type.get_canonical()
            inner = copying(element, word) or f"[](auto &to, auto &from) {{ {_whole(element, '')}}}"
            found.append(f"::vdev_cl::each_element(to{name}, from{name}, {inner}); ")
        elif _is_structure(own) and _has_padding(own):
            found.append(_members(own, offset, name, word))
        else:
            found.append(_whole(own, name))
    return "".join(found)


def _whole(type_: Type, path: str) -> str:
    """An assignment of what has no padding that matters; C++ assigns no volatile record."""
    if type_.kind == TypeKind.RECORD:
        return f"::vdev_cl::settled(to{path}) = ::vdev_cl::settled(from{path}); "
    return f"to{path} = from{path}; "


def _unnamed(type_: Type, offset: int, path: str, word: Callable[[str], str]) -> str:
    if _is_structure(type_):
        return _members(type_, offset, path, word)
    return f"::vdev_cl::copied_bytes<{offset}, {type_.get_size()}>(to, from); "  # a union


def _is_structure(type_: Type) -> bool:
    return bool(type_.kind == TypeKind.RECORD and type_.get_declaration().kind == CursorKind.STRUCT_DECL)


def _has_padding(type_: Type) -> bool:
    return bool(_nbytes_of_members(type_) != type_.get_canonical().get_size())


def _nbytes_of_members(type_: Type) -> int:
    """The bytes of a type that belong to some member. Of a union all do: nothing tells which member it holds."""
    canonical = type_.get_canonical()
    if canonical.kind == TypeKind.CONSTANTARRAY:
        return int(canonical.element_count) * _nbytes_of_members(canonical.element_type)
    if _is_structure(canonical):
        return sum(_nbytes_of_members(field.type) for field in canonical.get_fields())
    return max(int(canonical.get_size()), 0)
