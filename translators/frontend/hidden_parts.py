"""What libclang's cursors leave out and only the tokens of the text show: which clauses of a `for` are there, and what
stands around an operand.

The tokens are clang's own, as literals and comments may contain any text. Only a text without macros may be looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from clang.cindex import SourceLocation, SourceRange, Token, TokenKind, TranslationUnit

from . import clang

#: a member's name and nothing else but blanks: two tokens, whatever stands around them
_MEMBER = re.compile(rb"[ \t\n]*(\.|->)[ \t\n]*([A-Za-z_][A-Za-z0-9_]*)[ \t\n]*")


def tokens_between(unit: TranslationUnit, start: int, stop: int) -> Iterator[Token]:
    """The tokens that begin within some bytes of the text."""
    file = unit.get_file(clang.TEXT_FILE)
    first, last = (SourceLocation.from_offset(unit, file, offset) for offset in (start, stop))
    for token in unit.get_tokens(extent=SourceRange.from_locations(first, last)):
        if start <= token.extent.start.offset < stop:
            yield token


def spellings(unit: TranslationUnit, start: int, stop: int, text: bytes = b"") -> list[str]:
    """The same as text. `text`: the unit's, in which most of what stands behind an operand is found without asking clang, whose tokens
    take long: kernels with vectors consist of swizzles.
    """
    if start >= stop:
        return []
    member = _MEMBER.fullmatch(text, start, stop)
    if member is not None:
        return [member[1].decode(), member[2].decode()]
    return [token.spelling for token in tokens_between(unit, start, stop)]


def ends_of_clauses(unit: TranslationUnit, start: int, stop: int) -> list[int]:
    """Where the clauses of the `for` end whose header is within some bytes of the text."""
    found: list[int] = []
    depth = 0
    for token in tokens_between(unit, start, stop):
        if token.kind is not TokenKind.PUNCTUATION:
            continue
        spelling = token.spelling
        if spelling == "(":
            depth += 1
        elif spelling == ")":
            depth -= 1
        elif spelling == ";" and depth == 1:  # deeper ones belong to statement expressions
            found.append(token.extent.start.offset)
    return found


def has_parenthesis_behind_type(unit: TranslationUnit, start: int, stop: int) -> bool:
    """Whether a parenthesis is open behind the type of the cast that begins at `start`, and its operand at `stop`."""
    depth = 0
    for spelling in spellings(unit, start, stop):
        if depth == 0 and spelling != "(":
            return False
        depth += {"(": 1, ")": -1}.get(spelling, 0)
    return depth > 0
