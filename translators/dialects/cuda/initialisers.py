"""Initialiser lists for C++: what C leaves out is written, and what C names is put in its place.

C99 6.7.8: a list may leave out the braces of what lies within an array, a structure or a vector, may name the element
that comes next, and leaves the rest zero. C++ requires every vector to be constructed and does not know designators
of array elements. So braces, constructors of vectors and empty lists for what is skipped are inserted, and names are
removed. The text keeps its order unless names go back: C99 6.7.8p23 does not say which initialiser is evaluated
first.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

from clang.cindex import CursorKind, Type, TypeKind
from vdev.translators.values import dataclass

from ...frontend import clang
from ...frontend.edits import Edits
from ...frontend.kernels import Untranslatable
from .nodes import Item, List, Node, Part, Text
from .types import ARRAYS, conversion, members_of, spell, vector_type

#: The most elements that a name may skip: each is written.
_MOST_SKIPPED = 4096

_LITERAL = re.compile(r'"((?:\\.|[^"\\])*)"', re.DOTALL)
_CHARACTER = re.compile(r"\\(?:x[\da-fA-F]+|[0-7]{1,3}|.)|.", re.DOTALL)


@dataclass
class _Written:
    """One initialiser as written: what it still names, and what is printed before its value, for it, and after it."""

    item: Item
    names: list[str | int | range]
    before: Text
    value: Text
    behind: Text

    @property
    def node(self) -> Node:
        return self.item.value

    def text(self) -> Text:
        return [*self.before, *self.value, *self.behind]


class Initialisers:
    """Prints the inside of one list. `initial` prints an expression whose C type must show."""

    def __init__(self, edits: Edits, initial: Callable[[Node], Text]) -> None:
        self._edits = edits
        self._initial = initial

    def parts(self, contents: List) -> list[Part]:
        """The inside of `contents`, a list in braces for an array or a record."""
        items = [_Written(item, list(item.names), [], [], []) for item in contents.items]
        left = list(items)
        self._fill(contents.type, left, elided=False)
        if left:
            raise Untranslatable("more initialisers than the type has elements", left[0].node.line)
        return [(item.item.start, item.item.stop, item.text()) for item in items]

    def _fill(self, type_: Type, items: list[_Written], *, elided: bool) -> None:
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
                position = self._skip(item, slots, position)
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

    def _skip(self, item: _Written, slots: _Slots, position: int) -> int:
        """Write everything between a position and the element that an initialiser names; returns that element's
        position.
        """
        wanted = slots.place(item.names[0], item.node.line)
        if wanted < position:
            raise Untranslatable("designated initialisers out of order", item.node.line)
        if wanted - position > _MOST_SKIPPED:
            raise Untranslatable("an initialiser skips too many elements", item.node.line)
        if not slots.is_union:
            item.before += map(slots.nothing, range(position, wanted))
        return wanted

    def _order(self, slots: _Slots, items: list[_Written]) -> None:
        """Swap initialisers whose names go back, if each is for a different element."""
        places: list[int] = []
        for item in items:
            following = places[-1] + 1 if places else 0
            places.append(slots.place(item.names[0], item.node.line) if item.names else following)
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
            there, here = items[into].item, items[taken].item
            self._edits.put(there.start, there.stop, (here.start, here.stop))
        items[:] = [items[taken] for taken in order]

    def _repeat(self, item: _Written, slots: _Slots, count: int) -> None:
        """GNU C's `[first ... last] = value`, of a number."""
        type_, number = slots.type_of(0), clang.evaluate(item.node.cursor)
        name = None if type_ is None else spell(type_)
        if (
            item.names
            or name is None
            or number is None
            or not math.isfinite(number)
            or not 0 < count <= _MOST_SKIPPED
        ):
            raise Untranslatable(
                "a designated range (`[a ... b]`) that is too long, or whose value is not a constant number",
                item.node.line,
            )
        text = number.hex() if isinstance(number, float) else str(number)
        item.value = [", ".join([f"({name}){text}"] * count)]

    def _unname(self, item: _Written, slots: _Slots, position: int) -> None:
        """Drop the names, except those of unions, which C++ supports."""
        if slots.is_union:
            item.before.append(f".{slots.names[position]} = ")

    def _one(self, type_: Type | None, items: list[_Written]) -> None:
        """One element, from one initialiser or, if its braces are left out, from several."""
        item = items[0]
        if type_ is not None and (item.names or not self._fits(item, type_)):
            vector = vector_type(type_)
            if vector is not None:
                self._vector(type_, vector, items)
            else:
                item.before.append("{")
                self._several(type_, items).behind.append("}")
            return
        del items[0]
        self._print(item)
        if type_ is None or isinstance(item.node, List):
            return
        opening = conversion(type_, item.node.type, exact=True)
        if opening is not None and opening.startswith("("):
            item.before.append(f"({opening}(")
            item.behind.append("))")

    def _print(self, item: _Written) -> None:
        of, value = item.item, item.item.value
        around = (of.value_start, value.start), (value.stop, of.stop)
        before, behind = ([gap] if gap[0] < gap[1] else [] for gap in around)
        item.value = [*before, *self._initial(value), *behind]

    def _fits(self, item: _Written, type_: Type) -> bool:
        """Whether the expression initialises the whole element."""
        canonical, own = type_.get_canonical(), item.node.type.get_canonical()
        if isinstance(item.node, List):
            return True
        if vector_type(type_) is not None:
            mine = vector_type(item.node.type)
            return mine is not None and mine[1] == (vector_type(type_) or mine)[1]
        if canonical.kind in ARRAYS:
            return own.kind in ARRAYS  # a string
        return canonical.kind != TypeKind.RECORD or (
            own.kind == TypeKind.RECORD and _bare(own) == _bare(canonical)
        )

    def _several(self, type_: Type, items: list[_Written]) -> _Written:
        """Like _fill without braces; returns the last initialiser taken."""
        before = list(items)
        self._fill(type_, items, elided=True)
        return before[len(before) - len(items) - 1]

    def _vector(self, type_: Type, vector: tuple[Type, int], items: list[_Written]) -> None:
        item = items[0]
        item.before.append(f"::vdev_cl::make<{spell(type_)}>(")
        missing = vector[1]
        while missing > 0 and items:
            item = items.pop(0)
            inner = vector_type(item.node.type)
            missing -= 1 if inner is None else inner[1]
            self._print(item)
        item.behind.append(")")


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
        """An initialiser, and a comma, for an element that has none. An empty list is not a constant for a vector,
        nor for what is made of bytes.
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
    """A list in place of a string that fills its array, without the terminator (C99 6.7.8p14); None if the array has
    room for it.
    """
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
