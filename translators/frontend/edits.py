"""Exact edits of a parsed program's text, and where in it functions are declared and used.

The core that every dialect's translator shares. Decides nothing about what is written: it finds places
(through clang's cursors, so that overloads, shadowing and members are told apart) and keeps edits from
overlapping. Offsets are bytes of the text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import field

from clang.cindex import Cursor, CursorKind, SourceLocation
from vdev.translators.values import dataclass

from . import clang
from .kernels import Untranslatable
from .source import ParsedProgram

#: what has no identifiers, directives and literals, or an identifier: one pass over a text, which each translation reads several times
_WORDS = re.compile(
    rb"""^[ \t]*#[^\n]*|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|([A-Za-z_$][\w$]*)""", re.MULTILINE
)
_BRACKET = re.compile(rb"""[()\[\]{}]|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'""", re.DOTALL)
_BLANK = re.compile(rb"(?:\s|^[ \t]*#line[^\n]*\n)*", re.MULTILINE)


class Edits:
    """Replacements in a text, applied all at once. Insertions at one place keep the order in which they were made."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self._edits: list[_Edit] = []

    def replace(self, start: int, stop: int, text: str) -> None:
        self._edits.append(_Edit(start, stop, len(self._edits), (text,), whole=False))

    def insert(self, offset: int, text: str) -> None:
        self.replace(offset, offset, text)

    def put(self, start: int, stop: int, *pieces: str | tuple[int, int]) -> None:
        """Replace a range, and every edit within it, by texts and by ranges of the text in their edited form: in this
        way parts can swap places.
        """
        self._edits.append(_Edit(start, stop, len(self._edits), pieces, whole=True))

    def apply(self) -> str:
        """The edited text. Raises Untranslatable if two edits overlap."""
        self._edits.sort(key=lambda edit: (edit.start, edit.stop > edit.start, edit.order))
        return self._edited(0, len(self.text), self._edits).decode("utf-8", "surrogateescape")

    def _edited(self, first: int, last: int, edits: Sequence[_Edit]) -> bytes:
        whole = [edit for edit in edits if edit.whole and edit.stop > edit.start]
        pieces = _Pieces()
        position = first
        for edit in edits:
            if any(other.holds(edit) for other in whole):
                continue
            if edit.start < position:
                raise Untranslatable("two edits of one place in the text")
            pieces.append(self.text[position : edit.start])
            for piece in edit.pieces:
                if isinstance(piece, str):
                    pieces.append(piece.encode("utf-8", "surrogateescape"))
                    continue
                start, stop = piece
                inside = [
                    other for other in self._edits if _Edit(start, stop, 0, (), whole=True).holds(other)
                ]
                pieces.append(self._edited(start, stop, inside))
            position = edit.stop
        pieces.append(self.text[position:last])
        return b"".join(pieces)


class _Pieces(list[bytes]):
    """Parts of a text, in order."""

    def append(self, piece: bytes) -> None:
        """Add one. C++ has a token more than C that ends in a colon, so that a scope behind a label or a condition's second colon
        would be read as something else.
        """
        if piece.startswith(b"::") and self and self[-1].endswith(b":"):
            super().append(b" ")
        if piece:
            super().append(piece)


@dataclass(frozen=True, eq=False)
class _Edit:
    start: int
    stop: int
    order: int
    pieces: tuple[str | tuple[int, int], ...]
    whole: bool

    def holds(self, other: _Edit) -> bool:
        """Whether another edit lies within the text of this one; what is put in its place, or before it, does not."""
        before = other.whole and (other.start, other.stop) in (
            (self.start, self.stop),
            (self.start, self.start),
        )
        return self.start <= other.start and other.stop <= self.stop and not before


def matching(text: bytes, opening: int) -> int:
    """Offset of the bracket that closes the one at `opening`. Raises Untranslatable."""
    depth = 0
    for match in _BRACKET.finditer(text, opening):
        character = match.group()
        if character in b"([{":
            depth += 1
        elif character in b")]}":
            depth -= 1
            if depth == 0:
                return match.start()
    raise Untranslatable("unbalanced brackets")


def after_blanks(text: bytes, offset: int) -> int:
    """The first offset from `offset` on that is neither white space nor a `#line` directive."""
    match = _BLANK.match(text, offset)
    return match.end() if match else offset


#: What must come first in a function's body: GNU C's declarations of labels, pragmas for the compound statement.
_FIRST = re.compile(
    rb"(?:\s|^[ \t]*#line[^\n]*\n)*?"
    rb"(?:__label__\b[^;]*;|^[ \t]*#[ \t]*pragma[ \t]+(?:OPENCL[ \t]+FP_CONTRACT|STDC|clang[ \t]+fp)\b[^\n]*\n)",
    re.MULTILINE,
)


def entry_of(text: bytes, body_start: int) -> int:
    """Where the first declaration or statement may be put in the compound statement whose bracket is at `body_start`."""
    place = body_start + 1
    while first := _FIRST.match(text, place):
        place = first.end()
    return place


def insert_statement(edits: Edits, place: int, statement: str) -> None:
    """Insert statements or declarations after the end of another; a directive that follows needs a line of its own."""
    directive = re.compile(rb"[ \t]*#").match(edits.text, place)
    edits.insert(place, f"{statement}\n" if directive else statement)


def insert_at_entry(edits: Edits, body_start: int, declarations: str) -> None:
    """Insert declarations at the beginning of the function's body whose bracket is at `body_start`."""
    insert_statement(edits, entry_of(edits.text, body_start), declarations)


@dataclass(frozen=True)
class Parentheses:
    """The list after a function's name, in a declaration or a call: offsets of its brackets, and whether it contains
    anything.
    """

    opening: int
    closing: int
    empty: bool


def parentheses_after(text: bytes, name_stop: int) -> Parentheses:
    """The parenthesised list that follows a function's name (or a declarator `(name)`). Raises
    Untranslatable.
    """
    opening = after_blanks(text, name_stop)
    while text[opening : opening + 1] == b")":
        opening = after_blanks(text, opening + 1)
    if text[opening : opening + 1] != b"(":
        raise Untranslatable("a function's name without a list of arguments")
    closing = matching(text, opening)
    inside = text[opening + 1 : closing].strip()
    return Parentheses(opening, closing, inside in (b"", b"void"))


@dataclass(frozen=True)
class Use:
    """A function's name in the text: `declares` in declarations and definitions, otherwise a use. `target`: see
    Functions.
    """

    offset: int
    name: str
    target: int | None
    declares: bool
    cursor: Cursor = field(compare=False)


@dataclass(frozen=True)
class Function:
    """A function defined in the text. `key`: offset of its first declaration's name; the body's brackets are
    part of it.
    """

    key: int
    name: str
    kernel: bool
    cursor: Cursor = field(compare=False)
    start: int
    body_start: int
    stop: int


class Functions:
    """The functions a program defines and where names of functions occur.

    A target is the key of one of the program's own functions, or None for what the engine provides.
    """

    def __init__(self, program: ParsedProgram) -> None:
        self.program = program
        self.text = program.preprocessed.encode("utf-8", "surrogateescape")
        self._file = program.tu.get_file(clang.TEXT_FILE)
        #: Keys of all functions declared in the text, defined or not.
        self.declared: set[int] = set()
        self.defined: list[Function] = []
        for cursor in program.functions():
            key = self.key(cursor)
            self.declared.add(key)
            body = next((c for c in cursor.get_children() if c.kind == CursorKind.COMPOUND_STMT), None)
            if body is not None and cursor.is_definition():
                start, stop = clang.extent_of(cursor)
                kernel = cursor.spelling in program.kernels
                body_start = clang.extent_of(body)[0]
                self.defined.append(Function(key, cursor.spelling, kernel, cursor, start, body_start, stop))
        self.names = frozenset(function.name for function in self.defined)
        self._starts = [function.start for function in self.defined]
        self._places = self._index()

    def unreached(self) -> list[Function]:
        """Functions that no kernel reaches, as far as names in bodies show.

        They are forgotten, with everything in their bodies; only their declarations remain.
        """
        holders = self.mentions(self.names)
        reached = {function.key for function in self.defined if function.kernel}
        names: dict[str, list[Function]] = {}
        for function in self.defined:
            names.setdefault(function.name, []).append(function)
        before = -1
        while before != (before := len(reached)):
            for name, found in names.items():
                if holders[name] & reached:
                    reached.update(function.key for function in found)
        left = [function for function in self.defined if function.key not in reached]
        self.defined = [function for function in self.defined if function.key in reached]
        self._starts = [function.start for function in self.defined]
        bodies = [function.body_start for function in left]
        for name, offsets in self._places.items():
            owners = ((offset, bisect_right(bodies, offset) - 1) for offset in offsets)
            self._places[name] = [o for o, owner in owners if owner < 0 or o >= left[owner].stop]
        return left

    @staticmethod
    def key(cursor: Cursor) -> int:
        """Distinguishes a declared function from others: the place of its first declaration's name.

        It is negative for what the base header declares, whose offsets could coincide with those of the text.
        """
        first = cursor.canonical
        offset = int(first.location.offset)
        return offset if clang.in_text(first) else -1 - offset

    def _index(self) -> dict[str, list[int]]:
        """Every identifier of the text with its offsets, except those inside string literals."""
        places: dict[bytes, list[int]] = {}
        for match in _WORDS.finditer(self.text):
            if match.lastindex:
                places.setdefault(match[1], []).append(match.start())
        return {name.decode(): offsets for name, offsets in places.items()}

    def line_at(self, offset: int) -> int:
        """The user's line."""
        return clang.line_at(self.program.tu.get_location(clang.TEXT_FILE, offset))

    def offsets(self, name: str) -> Sequence[int]:
        return self._places.get(name, ())

    def identifiers(self) -> Iterable[str]:
        return self._places.keys()

    def enclosing(self, offset: int) -> Function | None:
        """The function whose definition contains the offset."""
        index = bisect_right(self._starts, offset) - 1
        return self.defined[index] if index >= 0 and offset < self.defined[index].stop else None

    def mentions(self, names: Iterable[str]) -> dict[str, set[int]]:
        """For every name: keys of the functions whose text contains it, as a cheap first look."""
        found: dict[str, set[int]] = {}
        for name in names:
            holders = (self.enclosing(offset) for offset in self.offsets(name))
            found[name] = {function.key for function in holders if function is not None}
        return found

    def uses(self, name: str) -> list[Use]:
        """Where `name` means a function, in the order of the text. Members, variables and labels of that name are not
        uses.
        """
        found = []
        for offset in self.offsets(name):
            location = SourceLocation.from_offset(self.program.tu, self._file, offset)
            cursor = Cursor.from_location(self.program.tu, location)
            meaning = cursor.referenced
            if cursor.kind == CursorKind.FUNCTION_DECL and cursor.location.offset == offset:
                found.append(Use(offset, name, self.key(cursor), True, cursor))
            elif meaning is not None and meaning.kind == CursorKind.FUNCTION_DECL:
                key = self.key(meaning)
                found.append(Use(offset, name, key if key in self.declared else None, False, cursor))
        return found
