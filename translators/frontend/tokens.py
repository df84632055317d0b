"""Preprocessing tokens (C99 6.4): from a line of text to tokens, and back to text.

Decides where one token ends and where white space is needed between two. Knows no macros.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from enum import Enum, auto

_TOKEN = re.compile(
    r"""(?P<space>[ \t\v\f\r]+)
    |(?P<string>L?"(?:\\.|[^"\\])*"|L?'(?:\\.|[^'\\])*')
    |(?P<name>(?:[^\W\d]|\$)[\w$]*)
    |(?P<number>\.?\d(?:[eEpP][+-]|[\w.$])*)
    |(?P<op>%:%:|\#\#|<<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|<:|:>|<%|%>|%:|.)""",
    re.VERBOSE,
)
#: Digraphs, and what hides them.
_DIGRAPH = re.compile(
    r"""(?P<hidden>"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?|//[^\n]*|/\*.*?\*/)|<%|%>|<:|:>""", re.DOTALL
)
_PRIMARY = {"<%": "{ ", "%>": " }", "<:": "[ ", ":>": " ]"}
_EMPTY: frozenset[str] = frozenset()
_OPERATOR_CHARACTERS = frozenset("+-*/%&|^<>=!.#:")


class TokenKind(Enum):
    """The kind of a token."""

    NAME = auto()
    NUMBER = auto()
    STRING = auto()
    OPERATOR = auto()
    PLACEMARKER = auto()  #: an empty argument of `##`


_KINDS = {
    "name": TokenKind.NAME, "number": TokenKind.NUMBER, "string": TokenKind.STRING, "op": TokenKind.OPERATOR,
}  # fmt: skip


class Token:
    """One preprocessing token; `space`: white space came before it; `hide`: macros that must not expand it
    again; `line`: what `__LINE__` is where it stands.
    """

    __slots__ = ("hide", "kind", "line", "space", "text")

    def __init__(
        self, text: str, kind: TokenKind, space: bool = False, hide: frozenset[str] = _EMPTY, line: int = 0
    ) -> None:
        self.text, self.kind, self.space, self.hide, self.line = text, kind, space, hide, line

    def __repr__(self) -> str:
        return f"Token({self.text!r})"


def tokenize(text: str, line: int = 0, breaks: Sequence[int] = ()) -> list[Token]:
    """The tokens of a logical line that begins on `line`; another line begins at each position in `breaks`."""
    tokens: list[Token] = []
    space = False
    for match in _TOKEN.finditer(text):
        kind = _KINDS.get(match.lastgroup or "")
        if kind is None:  # white space
            space = True
        elif match.group() != "\n":
            at = line + bisect_right(breaks, match.start()) if breaks else line
            tokens.append(Token(match.group(), kind, space, _EMPTY, at))
            space = False
        else:
            space = True
    return tokens


def spell(tokens: Sequence[Token]) -> str:
    """Text of the tokens, with a space wherever two neighbours would otherwise read as another token."""
    pieces: list[str] = []
    last = Token(" ", TokenKind.OPERATOR)
    for token in tokens:
        if token.space or _would_join(last, token):
            pieces.append(" ")
        pieces.append(token.text)
        last = token
    return "".join(pieces).lstrip()


def without_digraphs(text: str) -> str:
    """Text with alternative spellings of braces and brackets (C99 6.4.6p3) in their usual ones, each as wide as before.

    >>> without_digraphs("a<:0:> = '<%'; <% %>")
    "a[ 0 ] = '<%'; {   }"
    """
    if not any(digraph in text for digraph in _PRIMARY):
        return text
    return _DIGRAPH.sub(lambda match: match["hidden"] or _PRIMARY[match.group()], text)


def _would_join(left: Token, right: Token) -> bool:
    end, start = left.text[-1], right.text[0]
    if left.kind is TokenKind.NUMBER:
        return start.isalnum() or start in "_$." or (end in "eEpP" and start in "+-")
    if end == ".":
        return start.isdigit() or start == "."
    if left.kind is TokenKind.NAME:
        return start.isalnum() or start in "_$\"'"
    return end in _OPERATOR_CHARACTERS and start in _OPERATOR_CHARACTERS


def quoted(name: str) -> str:
    return name.replace("\\", "\\\\").replace('"', '\\"')
