"""Whether clang sees the same program in the macro-free text and in the text that the user wrote.

Decides it by the two syntax trees that clang makes: it prints what each declaration at program scope is made of
(types, attributes, statements, operators, constants by their values), and every structure has a size and an
alignment. Trees do not hold the pragmas that change how numbers are rounded; the lines that clang has skipped reveal
them. Whatever our preprocessor gets wrong, the difference is found here. Never repairs one: the caller runs the
program as it was written.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from . import clang
from .clang import Cursor, CursorKind, TranslationUnit

#: The place of a pragma: the path of its file (None: the program's own), its physical line, and whether it counts.
Place = tuple[str | None, int, bool]

_RECORDS = (CursorKind.STRUCT_DECL, CursorKind.UNION_DECL)
_RECORD = re.compile(r"\b(?:struct|union)\b")
#: Characters of a difference that a reason quotes.
_SHOWN = 60
#: Pragmas that clang's trees show, or that only change messages.
_SHOWN_PRAGMA = (
    r"unroll\b|nounroll\b|once\b|push_macro|pop_macro|pack\b|message\b|clang[ \t]+(?:loop|diagnostic)\b"
)
_HIDDEN_PRAGMA = re.compile(
    rf"^[ \t]*(?:#|%:)[ \t]*pragma[ \t]+(?!OPENCL[ \t]+EXTENSION\b|{_SHOWN_PRAGMA})", re.MULTILINE
)
#: what may change how types are laid out; pragmas that nearly every program has do not
_LAID_OUT = re.compile(r"\bpragma\b(?![ \t]+(?:OPENCL|unroll|nounroll|once)\b)|\b_Pragma\b")


def hides_pragmas(text: str) -> bool:
    """Whether a text has pragmas that trees do not show: its translation unit then has to remember what was skipped."""
    return "pragma" in text and _HIDDEN_PRAGMA.search(text) is not None


def difference(
    written: TranslationUnit, expanded: TranslationUnit, text: str, pragmas: Sequence[Place] = ()
) -> str | None:
    """What distinguishes the program that was `written` from its `expanded` text; None if they are the same program.

    Both are valid. `pragmas`: what the preprocessor made of them, if they have to be compared; `written` then knows
    what was skipped.
    """
    layouts = _LAID_OUT.search(text) is not None
    pairs = itertools.zip_longest(clang.declarations(written), clang.declarations(expanded))
    for ours, theirs in pairs:
        if ours is None or theirs is None:
            return f"clang finds {'more' if theirs is None else 'fewer'} declarations in the program as written than in its expansion"
        first, second = _content(ours, layouts), _content(theirs, layouts)
        if first != second:
            return f"clang reads line {clang.line_of(ours)} as {_where(first, second)}"
    return _pragma_difference(written, pragmas)


def _content(cursor: Cursor, layouts: bool) -> list[str]:
    """A declaration in clang's words, line by line, and how its structures are laid out.

    `layouts`: pragmas may have changed the layouts of structures anywhere.
    """
    text = clang.printed(cursor)
    lines = [cursor.kind.name, *text.split("\n")]
    # A structure is defined where its keyword is: long tables of numbers need not be walked through.
    if cursor.kind in _RECORDS or (layouts and _RECORD.search(text)):
        records = (each for each in clang.walk(cursor) if each.kind in _RECORDS)
        lines += [f"{each.type.get_size()} bytes at {each.type.get_align()}" for each in records]
    return lines


def _where(first: Sequence[str], second: Sequence[str]) -> str:
    """The first difference between two declarations, in words."""
    pairs = itertools.zip_longest(first, second, fillvalue="nothing")
    ours, theirs = next((a.strip(), b.strip()) for a, b in pairs if a != b)
    return f"'{ours[:_SHOWN]}', and its expansion as '{theirs[:_SHOWN]}'"


def _pragma_difference(written: TranslationUnit, pragmas: Sequence[Place]) -> str | None:
    if not pragmas:
        return None
    skipped = {path: clang.skipped_lines(written, path) for path in {path for path, _, _ in pragmas}}
    for path, line in dict.fromkeys((path, line) for path, line, _ in pragmas):
        ours = sum(1 for each in pragmas if each == (path, line, False))
        theirs = sum(1 for first, last in skipped[path] if first < line <= last)
        if ours != theirs:
            return f"clang treats the pragma on line {line} differently in the expanded program"
    return None
