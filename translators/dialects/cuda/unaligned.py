"""Members that are less aligned than their types, as those of packed structures may be, for C++.

In C++ vectors and records are passed to functions by reference, and copies of large structures are split up: the
compiler relies on the types' alignment. So such a member gets a type that is made of bytes: `unaligned` of our
headers, or a twin of a record. Reading it gives a value of the program's own type, made from the bytes; writing
copies bytes. clang says where a member lies; attributes are not read. Decides nothing about what pointers point to
(C99 6.3.2.3p7: that is aligned).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from math import inf

from clang.cindex import Cursor, CursorKind, Type, TypeKind

from ...frontend import clang
from ...frontend.edits import Edits, Functions
from ...frontend.source import ParsedProgram
from .declarations import Declarations
from .nodes import Address, Converted, Dereference, Index, Member, Node, Parentheses, Swizzle
from .types import ARRAYS, spell

_RECORDS = (CursorKind.STRUCT_DECL, CursorKind.UNION_DECL)
#: Without one of these words every member is aligned; clang interprets the attributes.
_HINTS = (b"pack", b"aligned")


class Unaligned(Declarations):
    """Edits of records with members that are not aligned, and which expressions name such members."""

    def __init__(self, program: ParsedProgram, functions: Functions, edits: Edits, prefix: str) -> None:
        super().__init__(program, functions, edits, prefix)
        self._fields: set[int] = set()  # where the names of such members are declared
        self._twins = 0  # twins
        self._before: list[str] = []  # their definitions
        if any(hint in self.text for hint in _HINTS):
            for cursor, begins in _with_beginnings(program.declarations):
                self._find(cursor, begins)

    # records ----------------------------------------------------------------------------------------

    def _find(self, cursor: Cursor, begins: int) -> None:
        """Records below a declaration or statement that begins at an offset."""
        for child in [cursor] if cursor.kind in _RECORDS else cursor.get_children():
            if child.kind in _RECORDS:
                if child.is_definition() and any(self._is_apart(part) for part in _with_inner(child)):
                    self._arrange(child, begins, outermost=True)
            else:
                self._find(
                    child, clang.extent_of(child)[0] if cursor.kind == CursorKind.COMPOUND_STMT else begins
                )

    def _is_apart(self, record: Cursor) -> bool:
        """Whether a record has members that are not aligned."""
        return any(_is_unaligned(field, offset, record.type) for field, offset in _members(record.type))

    def _arrange(self, record: Cursor, begins: int, *, outermost: bool) -> None:
        """Define what a record defines inside it before the enclosing declaration, and also the record itself if its
        members are not aligned.
        """
        start = clang.extent_of(record)[0]
        if start in self._taken_out:
            return
        for inner in record.get_children():
            if inner.kind in (*_RECORDS, CursorKind.ENUM_DECL) and inner.is_definition():
                self._arrange(inner, begins, outermost=False)
        if record.kind in _RECORDS and not _is_anonymous(record) and self._is_apart(record):
            self._taken_out.add(start)
            self._define_twice(record, begins)
        elif not outermost:
            self._define_before(record, begins)

    def _define_twice(self, record: Cursor, begins: int) -> None:
        """Repeat a record's text under another name, which gives the types of members, and define one with the layout
        that clang says.
        """
        start, stop = clang.extent_of(record)
        opening = self.text.find(b"{", start, stop)
        keyword = "struct" if record.kind == CursorKind.STRUCT_DECL else "union"
        written, tag = f"{self.prefix}written{start}", f"{self.prefix}laid{start}"
        name = self._own_name(record)
        if name is not None:
            tag = self.word(record.spelling)
            self._replace(name, name + len(record.spelling.encode()), written)
        else:
            self.edits.replace(opening, opening + 1, f" {written} {{")  # behind attributes that move there
        alignment = record.type.get_align()
        for field, offset in _members(record.type):
            if _is_unaligned(field, offset, record.type):
                self._fields.add(int(field.location.offset))
        body = self._body(record.type, written, 0, alignment)
        before, self._before = "".join(self._before), []
        laid = (
            f"; {before}{keyword} __attribute__((packed, aligned({alignment}))) {tag} {{ {body}}}; "
            f'static_assert(sizeof({keyword} {tag}) == {record.type.get_size()}, "size of {tag}"); '
        )
        self.edits.put(begins, begins, (start, stop), laid)
        self.edits.put(start, stop, f"{keyword} {tag} ")  # a name may follow the brace

    def _body(self, record: Type, owner: str, start: int, alignment: int) -> str:
        """Members of a packed record, with every byte between them named; `start`: the record's place in bits within
        something of alignment `alignment`.
        """
        canonical = record.get_canonical()
        union = canonical.get_declaration().kind == CursorKind.UNION_DECL
        parts, position, nbits = [], 0, 8 * int(canonical.get_size())
        for field in canonical.get_fields():
            offset = field.get_field_offsetof()
            if field.is_bitfield() and not field.spelling.isidentifier():
                continue
            if not union:
                parts.append(_gap(position, offset))
            width = (
                field.get_bitfield_width() if field.is_bitfield() else 8 * max(int(field.type.get_size()), 0)
            )
            position = offset + width
            parts.append(self._member(field, owner, start + offset, alignment))
        if union:
            parts.append(f"unsigned char {self.prefix}all[{nbits // 8}]; ")
        else:
            parts.append(_gap(position, nbits))
        return "".join(parts)

    def _member(self, field: Cursor, owner: str, offset: int, alignment: int) -> str:
        own = field.type.get_canonical()
        if not field.spelling.isidentifier():
            keyword = "struct" if own.get_declaration().kind == CursorKind.STRUCT_DECL else "union"
            return f"{keyword} __attribute__((packed)) {{ {self._body(own, owner, offset, alignment)}}}; "
        name = self.word(field.spelling)
        spelled = f"decltype({owner}::{name})"
        if field.is_bitfield():
            return f"{spelled} {name} : {field.get_bitfield_width()}; "
        element, lengths = _element(own)
        if _place(offset, alignment) >= element.get_align():
            return f"{spelled} {name}; "
        return f"{self._unaligned(element, spelled)} {name}{lengths}; "

    def _unaligned(self, element: Type, spelled: str) -> str:
        """The type of a member, or of an array's elements, that is aligned to one byte; `spelled`: the member's type."""
        if element.kind != TypeKind.RECORD:
            return f"::vdev_cl::unaligned<{spell(element) or f'::vdev_cl::bare_t<{spelled}>'}>"
        self._twins += 1
        own, twin = f"{self.prefix}own{self._twins}", f"{self.prefix}twin{self._twins}"
        keyword = "struct" if element.get_declaration().kind == CursorKind.STRUCT_DECL else "union"
        self._before.append(f"typedef ::vdev_cl::bare_t<{spelled}> {own}; ")
        body = self._body(element, own, 0, 1)
        assignments = "".join(
            f"{own} operator=({own} x) {volatile}{{ return ::vdev_cl::stored(this, x); }} "
            for volatile in ("", "volatile ")
        )
        self._before.append(
            f"{keyword} __attribute__((packed)) {twin} {{ {body}typedef {own} vdev_aligned; "
            f"operator {own}() const volatile {{ return ::vdev_cl::value(*this); }} {assignments}}}; "
        )
        return twin

    # expressions ------------------------------------------------------------------------------------

    def _unaligned_place(self, node: Node) -> bool:
        """Whether an expression names such a member or a part of one, so that its C++ type is not the program's."""
        if not self._fields:
            return False
        match node:
            case Parentheses(inner=inner) | Address(operand=inner):
                return self._unaligned_place(inner)
            case Converted(operand=inner):
                return inner.type.get_canonical().kind in ARRAYS and self._unaligned_place(inner)
            case Swizzle(base=inner, components=components):
                return len(components) == 1 and self._unaligned_place(inner)
            case Dereference(operand=inner):
                return self._is_sensitive(node) and self._unaligned_place(inner)
            case Index(parts=(inner, *_)):
                return self._is_sensitive(node) and self._unaligned_place(inner)
            case Member(parts=(inner, *_)):
                return self._is_sensitive(node) and (self._is_field(node) or self._unaligned_place(inner))
        return False

    def _is_sensitive(self, node: Node) -> bool:
        return bool(_element(node.type)[0].get_align() > 1)

    def _is_field(self, node: Member) -> bool:
        member = node.cursor.referenced
        return member is not None and clang.in_text(member) and int(member.location.offset) in self._fields

    def _is_read(self, node: Node) -> bool:
        """Whether all of such a place is read, or its address taken by an array that becomes a pointer."""
        if not self._fields or not isinstance(node, Member | Index | Dereference):
            return False
        return not node.kept and self._unaligned_place(node)


def _with_beginnings(declarations: Sequence[Cursor]) -> Iterator[tuple[Cursor, int]]:
    """Declarations at program scope, each with where the outermost one begins that contains it: a type that another one defines comes
    before that.
    """
    extents = [clang.extent_of(cursor) for cursor in declarations]
    outermost: list[tuple[int, int]] = []
    for start, stop in sorted(extents, key=lambda extent: (extent[0], -extent[1])):
        if not outermost or start >= outermost[-1][1]:
            outermost.append((start, stop))
    for cursor, (start, _) in zip(declarations, extents, strict=True):
        yield cursor, outermost[bisect_right(outermost, (start, inf)) - 1][0]


def _with_inner(record: Cursor) -> Iterator[Cursor]:
    if record.is_definition():
        if not _is_anonymous(record):
            yield record
        for inner in record.get_children():
            if inner.kind in _RECORDS:
                yield from _with_inner(inner)


def _is_anonymous(record: Cursor) -> bool:
    """Whether a record's members are members of the enclosing record."""
    around = record.semantic_parent
    return (
        around is not None
        and around.kind in _RECORDS
        and any(
            not field.spelling.isidentifier() and field.type.get_canonical().get_declaration() == record
            for field in around.type.get_canonical().get_fields()
        )
    )


def _members(record: Type, start: int = 0) -> Iterator[tuple[Cursor, int]]:
    """Fields with names, including those of members without one, and their places in bits."""
    for field in record.get_canonical().get_fields():
        offset = start + field.get_field_offsetof()
        if field.spelling.isidentifier():
            yield field, offset
        elif not field.is_bitfield():
            yield from _members(field.type, offset)


def _is_unaligned(field: Cursor, offset: int, record: Type) -> bool:
    element = _element(field.type.get_canonical())[0]
    return not field.is_bitfield() and _place(offset, int(record.get_align())) < element.get_align()


def _place(offset: int, alignment: int) -> int:
    """The alignment, in bytes, of a place `offset` bits into something aligned."""
    nbytes = offset // 8 | alignment
    return nbytes & -nbytes


def _element(type_: Type) -> tuple[Type, str]:
    """The innermost element type of an array, and the lengths in brackets."""
    canonical, lengths = type_.get_canonical(), ""
    while canonical.kind in ARRAYS:
        lengths += f"[{canonical.element_count}]" if canonical.kind == TypeKind.CONSTANTARRAY else "[]"
        canonical = canonical.element_type.get_canonical()
    return canonical, lengths


def _gap(first: int, last: int) -> str:
    """Bits without a name; lists of initialisers do not count them."""
    parts = []
    while first < last:
        width = min(8 - first % 8, last - first)
        parts.append(f"char : {width}; ")
        first += width
    return "".join(parts)
