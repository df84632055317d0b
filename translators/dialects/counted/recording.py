"""The counters of a counted program, and the functions of its prelude.

Decides how a note is written: one byte for each counter, stored without atomics, since everyone who writes to it
writes a 1.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from clang.cindex import Cursor, Type, TypeKind

from ...frontend import clang
from .program import Branch, Statement

_PARENTHESIS = re.compile(rb"""[()]|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'""")
_LONGEST = 80  #: characters of a condition's text
#: What the value of a `switch` is converted to (C99 6.8.4.2p5); int for all others.
_SWITCHED = {TypeKind.UINT: "uint", TypeKind.LONG: "long", TypeKind.ULONG: "ulong"}


class Label(NamedTuple):
    """A label of a `switch`: the values from `first` to `last`; the default has none."""

    name: str
    first: int | None
    last: int | None


class Recorder:
    """Collects what the walks through the bodies find."""

    def __init__(self, text: bytes, prefix: str) -> None:
        self._text = text
        self.prefix = prefix
        self.ncounters = 0
        self.statements: list[Statement] = []
        self.branches: list[Branch] = []
        self.skipped: list[tuple[str, int, str]] = []
        self._statements_on: Counter[tuple[str, int]] = Counter()
        self._conditions_on: Counter[tuple[str, int]] = Counter()
        self._switches: list[str] = []

    def counter(self, count: int = 1) -> int:
        """The first of that many new counters."""
        self.ncounters += count
        return self.ncounters - count

    def note(self, counter: int) -> str:
        """A statement that counts."""
        return f"{self.prefix}c[{counter}] = 1;"

    def statement(self, start: Cursor, stop_offset: int, counter: int) -> None:
        """A statement that has run if `counter` says so."""
        place = clang.presumed(start.extent.start)
        lines = self._text.count(b"\n", start.extent.start.offset, stop_offset)
        key = place.file, place.line
        stop = place.line + lines
        self.statements.append(Statement(place.file, place.line, self._statements_on[key], stop, counter))
        self._statements_on[key] += 1

    def constant(self, cursor: Cursor) -> None:
        """A constant condition: it is not a branch, but it is numbered as one."""
        place = clang.presumed(cursor.extent.start)
        self._conditions_on[place.file, place.line] += 1

    def branch(self, cursor: Cursor, kind: str, outcomes: Sequence[str]) -> int:
        """The counter of the first outcome; those of the others follow."""
        place = clang.presumed(cursor.extent.start)
        first = self.counter(len(outcomes))
        numbered = tuple((outcome, first + index) for index, outcome in enumerate(outcomes))
        ordinal = self._conditions_on[place.file, place.line]
        self._conditions_on[place.file, place.line] += 1
        text = self.text(cursor)
        self.branches.append(Branch(place.file, place.line, ordinal, kind, text, numbered))
        return first

    def switch(self, type_: Type, first: int, labels: Sequence[Label]) -> str:
        """The function that records where a `switch` jumps to; the last of `labels` is for the case that no other
        matches.
        """
        number = len(self._switches)
        name = _SWITCHED.get(type_.get_canonical().kind, "int")
        chosen = str(first + len(labels) - 1)
        for index, label in reversed(list(enumerate(labels[:-1]))):
            low, high = (f"({name})0x{(value or 0) & (1 << 64) - 1:x}UL" for value in label[1:])
            test = f"v == {low}" if low == high else f"v >= {low} && v <= {high}"
            chosen = f"{test} ? {first + index} : {chosen}"
        head = f"{name} {self.prefix}s{number}(__global uchar *c, {name} v)"
        self._switches.append(f"{head};\n{head} {{ c[{chosen}] = 1; return v; }}\n")
        return f"{self.prefix}s{number}"

    def skip(self, cursor: Cursor, reason: str) -> None:
        place = clang.presumed(cursor.extent.start)
        self.skipped.append((place.file, place.line, reason))

    def definitions(self) -> list[str]:
        """What the text needs in front of it."""
        head = f"int {self.prefix}b(__global uchar *c, uint counter, bool truth)"
        test = f"{head};\n{head} {{ c[truth ? counter : counter + 1] = 1; return truth; }}\n"
        return [test, *self._switches]

    def extent(self, cursor: Cursor) -> tuple[int, int]:
        """First byte and one past the last.

        clang leaves out the last parenthesis of a vector made of one scalar, `(float4)(0.0f)`, and of everything that
        ends with it.
        """
        start, stop = clang.extent_of(cursor)
        found = (match.group() for match in _PARENTHESIS.finditer(self._text, start, stop))
        depth = sum({b"(": 1, b")": -1}.get(each, 0) for each in found)
        while depth > 0 and (closing := self._text.find(b")", stop)) >= 0:
            stop, depth = closing + 1, depth - 1
        return start, stop

    def text(self, cursor: Cursor) -> str:
        """The source text there, in one line, without directives."""
        start, stop = self.extent(cursor)
        found = self._text[start:stop].decode("utf-8", "replace")
        found = " ".join(re.sub(r"^[ \t]*#[^\n]*$", " ", found, flags=re.MULTILINE).split())
        return found if len(found) <= _LONGEST else found[: _LONGEST - 1] + "…"
