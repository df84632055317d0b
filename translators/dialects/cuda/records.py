"""Assignments of structures with padding, for C++: member by member.

C leaves open what such an assignment does to padding (C99 6.2.6.1p6). Native compilers leave padding in memory as it
is, and the analysis of a program's writes relies on that; C++ compilers copy it along with the members. Decides
nothing about structures without padding, nor about initialisers.
"""

from __future__ import annotations

from collections.abc import Callable

from clang.cindex import CursorKind, Type, TypeKind


def copying(type_: Type, word: Callable[[str], str]) -> str | None:
    """A lambda that copies the members of one structure to another; None if there is no padding.

    `word`: gives a member's name in C++. Members are named in full: a reference to a member of a packed structure
    would be assumed to be aligned.
    """
    if type_.get_canonical().kind != TypeKind.RECORD or not _has_padding(type_):
        return None
    return f"[](auto &to, auto &from) {{ {_members(type_, '', word)}}}"


def _members(type_: Type, path: str, word: Callable[[str], str], start: int = 0) -> str:
    """Assignments of all members of a structure that begins at byte `start` of what `path` names."""
    found = []
    for field in type_.get_canonical().get_fields():
        own, offset = field.type.get_canonical(), start + field.get_field_offsetof() // 8
        if field.spelling.isidentifier():
            found.append(_copied(own, f"{path}.{word(field.spelling)}", word))
        elif _is_structure(own):  # without a name: its members are named like the outer structure's
            found.append(_members(own, path, word, offset))
        else:
            found.append(_bytes(path, offset, own))
    return "".join(found)


def _copied(type_: Type, path: str, word: Callable[[str], str]) -> str:
    if type_.kind == TypeKind.CONSTANTARRAY:
        index = f"i{path.count('[')}"
        inner = _copied(type_.element_type.get_canonical(), f"{path}[{index}]", word)
        return f"for (int {index} = 0; {index} < {type_.element_count}; ++{index}) {{ {inner}}} "
    if _is_structure(type_):
        return _members(type_, path, word)
    if type_.kind == TypeKind.RECORD:
        return _bytes(path, 0, type_)
    return f"to{path} = from{path}; "


def _bytes(path: str, offset: int, type_: Type) -> str:
    """A union: nobody knows which member it holds."""
    return f"::vdev_cl::copied_bytes<{offset}, {type_.get_size()}>((void *)&to{path}, (const void *)&from{path}); "


def _is_structure(type_: Type) -> bool:
    return bool(type_.kind == TypeKind.RECORD and type_.get_declaration().kind == CursorKind.STRUCT_DECL)


def _has_padding(type_: Type) -> bool:
    return bool(_nbytes_of_members(type_) != type_.get_canonical().get_size())


def _nbytes_of_members(type_: Type) -> int:
    """The bytes of a type that belong to some member. In a union all do, since nothing tells which member it holds."""
    canonical = type_.get_canonical()
    if canonical.kind == TypeKind.CONSTANTARRAY:
        return int(canonical.element_count) * _nbytes_of_members(canonical.element_type)
    if _is_structure(canonical):
        return sum(_nbytes_of_members(field.type) for field in canonical.get_fields())
    return max(int(canonical.get_size()), 0)
