"""What libclang's cursors leave out and only the tokens of the text show: which clauses of a `for` are there, and what
stands around an operand.

The tokens are clang's own, as literals and comments may contain any text. Only a text without macros may be looked at.
"""

from __future__ import annotations

from collections.abc import Iterator

from clang.cindex import SourceLocation, SourceRange, Token, TokenKind, TranslationUnit

from . import clang


def tokens_between(unit: TranslationUnit, start: int, stop: int) -> Iterator[Token]:
    """The tokens that begin within some bytes of the text."""
    file = unit.get_file(clang.TEXT_FILE)
    first, last = (SourceLocation.from_offset(unit, file, offset) for offset in (start, stop))
    for token in unit.get_tokens(extent=SourceRange.from_locations(first, last)):
        if start <= token.extent.start.offset < stop:
            yield token


def spellings(unit: TranslationUnit, start: int, stop: int) -> list[str]:
    """The same as text."""
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
