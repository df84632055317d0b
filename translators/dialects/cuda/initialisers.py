"""Lists of initialisers for C++: what C leaves out is written, what C names is put in its place.

C99 6.7.8: a list may leave out the braces of what lies within an array, a structure or a vector, may name the element that comes
next, and leaves the rest zero. C++ wants every vector made and knows no names of arrays' elements. Inserted are braces,
vectors' makers and empty lists for what is skipped; names are taken out. The text keeps its order but where names go back: C99
6.7.8p23 does not say which initialiser is evaluated first.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

from clang.cindex import Cursor, CursorKind, Type, TypeKind
from vdev.translators.values import dataclass

from ...frontend import clang
from ...frontend.edits import Edits, after_blanks, matching
from ...frontend.kernels import Untranslatable
from .declarations import SKIPPED
from .types import ARRAYS, conversion, members_of, spell, vector_type

#: Elements that a name may skip: each is written.
_MOSTSKIPPED = 4096
_TOKEN = re.compile(rb"""[(\[{]|[)\]},]|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'""", re.DOTALL)

#: A name of an element or of a member (GNU C: before a colon); a number may begin with a point as well.
_NAMED = re.compile(rb"\[|\.\s*[A-Za-z_]|[A-Za-z_]\w*\s*:")
_MEMBER = re.compile(rb"(?:\.\s*)?(\w+)\s*(:)?\s*")


_LITERAL = re.compile(r'"((?:\\.|[^"\\])*)"', re.DOTALL)
_CHARACTER = re.compile(r"\\(?:x[\da-fA-F]+|[0-7]{1,3}|.)|.", re.DOTALL)


@dataclass
class _Item:
    """One initialiser: its expression, where its text starts and stops (names included), and what it names first."""

    cursor: Cursor
    start: int
    stop: int
    names: list[str | int | range]
    #: where the value's text begins: behind the names and the `=`
    value_start: int


class Initialisers:
    """Rewrites one list. `visit` rewrites an expression whose C type must show."""

    def __init__(
        self,
        text: bytes,
        edits: Edits,
        blank: Callable[[int, int, str], None],
        visit: Callable[[Cursor], None],
    ) -> None:
        self._text = text
        self._edits = edits
        self._blank = blank
        self._visit = visit

    def rewrite(self, contents: Cursor) -> None:
        """The inside of `contents`, a list in braces for an array or a record."""
        items = [self._item(child) for child in contents.get_children() if child.kind not in SKIPPED]
        self._fill(contents.type, items, elided=False)
        if items:
            raise Untranslatable("a list has more initialisers than its type", clang.line_of(items[0].cursor))

    # reading ----------------------------------------------------------------------------------------------

    def _item(self, cursor: Cursor) -> _Item:
        start = clang.extent_of(cursor)[0]
        item = _Item(cursor, start, self._stop(start), [], start)
        if cursor.kind == CursorKind.UNEXPOSED_EXPR and _NAMED.match(self._text, start):
            self._read_names(item)
        return item

    def _stop(self, start: int) -> int:
        """Where an initialiser ends: before the comma or the bracket behind it. (clang's own extents leave out the last
        parenthesis of a cast to a vector.)
        """
        depth = 0
        for match in _TOKEN.finditer(self._text, start):
            token = match.group()
            if token in b"([{":
                depth += 1
            elif token in b")]}" and token != b",":
                if depth == 0:
                    return self._before_blanks(match.start())
                depth -= 1
            elif token == b"," and depth == 0:
                return self._before_blanks(match.start())
        raise Untranslatable("unbalanced brackets")

    def _before_blanks(self, offset: int) -> int:
        while self._text[offset - 1 : offset].isspace():
            offset -= 1
        return offset

    def _read_names(self, item: _Item) -> None:
        line = clang.line_of(item.cursor)
        *numbers, value = [c for c in item.cursor.get_children() if c.kind != CursorKind.MEMBER_REF]
        offset, behind = item.start, None
        while behind is None:
            if self._text[offset : offset + 1] == b"[":
                closing = matching(self._text, offset)
                count = 2 if b"..." in self._text[offset:closing] else 1
                places = [clang.evaluate(number) for number in numbers[:count]]
                del numbers[:count]
                first, last = places[0], places[-1]
                if not isinstance(first, int) or not isinstance(last, int):
                    raise Untranslatable("a designator that is not a number", line)
                item.names.append(first if count == 1 else range(first, last + 1))
                offset = after_blanks(self._text, closing + 1)
            else:
                match = _MEMBER.match(self._text, offset)
                assert match is not None
                item.names.append(match.group(1).decode())
                offset = after_blanks(self._text, match.end())
                behind = offset if match.group(2) else None
            if self._text[offset : offset + 1] == b"=":
                behind = after_blanks(self._text, offset + 1)
            elif self._text[offset : offset + 1] not in (b"[", b"."):
                behind = offset  # GNU C: none is needed behind brackets
        item.value_start = behind
        item.cursor = value

    # writing ----------------------------------------------------------------------------------------------

    def _fill(self, type_: Type, items: list[_Item], *, elided: bool) -> None:
        """Initialise an array or a record from the front of `items`; all of them, or as many as it has elements if its
        braces were left out.
        """
        slots = _Slots(type_)
        if not elided:
            self._order(slots, items)
        position = 0
        while items and not (elided and position >= slots.count):
            item = items[0]
            if item.names:
                wanted = slots.place(item.names[0], clang.line_of(item.cursor))
                if wanted < position:
                    raise Untranslatable(
                        "designated initialisers that go backwards", clang.line_of(item.cursor)
                    )
                if wanted - position > _MOSTSKIPPED:
                    raise Untranslatable("an initialiser skips too many elements", clang.line_of(item.cursor))
                if not slots.is_union:
                    self._edits.insert(item.start, "".join(map(slots.nothing, range(position, wanted))))
                position = wanted
                name = item.names.pop(0)
                if isinstance(name, range) and len(name) != 1:
                    self._repeat(item, slots, len(name))
                    position += len(name)
                    del items[0]
                    continue
                if not item.names:
                    self._unname(item, slots, position)
            elif position >= slots.count:
                return
            self._one(slots.type_of(position), items)
            position += 1
            if elided and items and items[0].names:
                return  # a name belongs to the list in braces

    def _order(self, slots: _Slots, items: list[_Item]) -> None:
        """Have initialisers whose names go back trade places, where each is for an element of its own."""
        places: list[int] = []
        for item in items:
            following = places[-1] + 1 if places else 0
            places.append(slots.place(item.names[0], clang.line_of(item.cursor)) if item.names else following)
        if slots.is_union or places == sorted(places):
            return
        if len({*places}) < len(places) or not all(
            self._fits(item, type_)
            for item, place in zip(items, places, strict=True)
            if (type_ := slots.type_of(place)) is not None and not item.names
        ):
            return
        order = sorted(range(len(items)), key=places.__getitem__)
        for into, taken in enumerate(order):
            self._edits.put(items[into].start, items[into].stop, (items[taken].start, items[taken].stop))
        items[:] = [items[taken] for taken in order]

    def _repeat(self, item: _Item, slots: _Slots, count: int) -> None:
        """GNU C's `[first ... last] = value`, of a number."""
        type_, number = slots.type_of(0), clang.evaluate(item.cursor)
        name = None if type_ is None else spell(type_)
        if (
            item.names
            or name is None
            or number is None
            or not math.isfinite(number)
            or not 0 < count <= _MOSTSKIPPED
        ):
            raise Untranslatable("a range of elements that are not numbers", clang.line_of(item.cursor))
        text = number.hex() if isinstance(number, float) else str(number)
        self._blank(item.start, item.stop, ", ".join([f"({name}){text}"] * count))

    def _unname(self, item: _Item, slots: _Slots, position: int) -> None:
        """Take the names out; a union's stay, as C++ knows those."""
        kept = f".{slots.names[position]} = " if slots.is_union else ""
        self._blank(item.start, item.value_start, kept)
        item.start = item.value_start

    def _one(self, type_: Type | None, items: list[_Item]) -> None:
        """One element, from one initialiser or, its braces being left out, from several."""
        item = items[0]
        if type_ is not None and (item.names or not self._fits(item, type_)):
            vector = vector_type(type_)
            if vector is not None:
                self._vector(type_, vector, items)
            else:
                self._edits.insert(item.start, "{")
                last = self._several(type_, items)
                self._edits.insert(last, "}")
            return
        del items[0]
        if type_ is None or item.cursor.kind == CursorKind.INIT_LIST_EXPR:
            self._visit(item.cursor)
            return
        opening = conversion(type_, item.cursor.type, exact=True)
        if opening is not None and opening.startswith("("):
            self._edits.insert(item.value_start, f"({opening}(")
            self._visit(item.cursor)
            self._edits.insert(item.stop, "))")
        else:
            self._visit(item.cursor)

    def _fits(self, item: _Item, type_: Type) -> bool:
        """Whether the expression initialises the whole element."""
        canonical, own = type_.get_canonical(), item.cursor.type.get_canonical()
        if item.cursor.kind == CursorKind.INIT_LIST_EXPR:
            return True
        if vector_type(type_) is not None:
            mine = vector_type(item.cursor.type)
            return mine is not None and mine[1] == (vector_type(type_) or mine)[1]
        if canonical.kind in ARRAYS:
            return own.kind in ARRAYS  # a string
        return canonical.kind != TypeKind.RECORD or (
            own.kind == TypeKind.RECORD and _bare(own) == _bare(canonical)
        )

    def _several(self, type_: Type, items: list[_Item]) -> int:
        """As _fill without braces; returns where the last initialiser taken ends."""
        before = list(items)
        self._fill(type_, items, elided=True)
        return before[len(before) - len(items) - 1].stop

    def _vector(self, type_: Type, vector: tuple[Type, int], items: list[_Item]) -> None:
        self._edits.insert(items[0].start, f"::vdev_cl::make<{spell(type_)}>(")
        missing, stop = vector[1], items[0].stop
        while missing > 0 and items:
            item = items.pop(0)
            inner = vector_type(item.cursor.type)
            missing -= 1 if inner is None else inner[1]
            self._visit(item.cursor)
            stop = item.stop
        self._edits.insert(stop, ")")


class _Slots:
    """The elements of an array or of a record, in order."""

    def __init__(self, type_: Type) -> None:
        canonical = type_.get_canonical()
        self._element: Type | None = None
        self.names: Sequence[str] = ()
        self._types: Sequence[Type | None] = ()
        if canonical.kind in ARRAYS:
            self._element = canonical.element_type
            known = canonical.kind == TypeKind.CONSTANTARRAY
            self.count: int = canonical.element_count if known else 1 << 62
            self.is_union = False
        else:
            fields = list(canonical.get_fields())
            self.names = [field.spelling for field in fields]
            self._types = members_of(canonical, len(fields))
            self.is_union = canonical.get_declaration().kind == CursorKind.UNION_DECL
            self.count = min(len(fields), 1) if self.is_union else len(fields)

    def place(self, name: str | int | range, line: int) -> int:
        if not isinstance(name, str):
            return name if isinstance(name, int) else name.start
        if name not in self.names:
            raise Untranslatable(f"an initialiser names {name}, which is a member of a member", line)
        return self.names.index(name)

    def nothing(self, position: int) -> str:
        """An initialiser, and a comma, for an element that has none. An empty list is no constant for a vector, nor for what is made of
        bytes.
        """
        type_ = self.type_of(position)
        kind = None if type_ is None else type_.get_canonical().kind
        if type_ is not None and spell(type_) is not None:
            return f"({spell(type_)}(0)), "
        return {TypeKind.ENUM: "::vdev_cl::enumeration(0), ", TypeKind.POINTER: "0, "}.get(kind, "{}, ")

    def type_of(self, position: int) -> Type | None:
        if self._element is not None:
            return self._element
        return self._types[position] if position < len(self._types) else None


def characters(literal: str, type_: Type) -> str | None:
    """A list in place of a string that fills its array, without what ends it (C99 6.7.8p14); None where it has room."""
    array = type_.get_canonical()
    found = [character for part in _LITERAL.findall(literal) for character in _CHARACTER.findall(part)]
    if array.kind != TypeKind.CONSTANTARRAY or array.element_count != len(found):
        return None
    name = spell(array.element_type)
    quoted = ("\\'" if character == "'" else character for character in found)
    return "{" + ", ".join(f"({name})'{character}'" for character in quoted) + "}"


def _bare(type_: Type) -> str:
    words = r"\b(?:__global|__local|__private|__constant|__generic|const|volatile)\b"
    return " ".join(re.sub(words, " ", type_.spelling).split())
