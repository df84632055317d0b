"""Our headers for CUDA C++ in pieces, of which a program is given those that it needs: a compiler reads the whole for longer than it is at
most programs.

A piece is a declaration at namespace scope, a use there of a macro, or a directive. A program needs the pieces that declare a name which
its text mentions, or which a needed piece does, in what its macros expand to as well; of a name it needs all of them: so a call finds the
same overloads, and a template the same specialisations, as in the whole headers. Operators are found without their names: they are
needed with the classes that they mention, and always where they mention none. Nothing else is known of what the names mean.

The headers keep to what is read here: they declare in namespace vdev_cl alone, no declaration there is more than a template, a type, a
constant or a function, and directives that depend on a condition only define macros.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from vdev.translators.values import computed_once

from ...frontend import clang
from .tables import HEADERS

__all__ = ["Piece", "needed_headers", "pieces"]

_OPEN, _CLOSE = "namespace vdev_cl {\n", "}  // namespace vdev_cl\n"
_BLANKS = re.compile(r"(?:\s+|//[^\n]*)*")
_NAME = re.compile(r"\b[A-Za-z_]\w*")
_USE = re.compile(r"\bVDEV_\w+")
#: what decides where a declaration or an argument ends, and what its head consists of; comments and literals count for nothing
_MARK = re.compile(r'//[^\n]*|"(?:[^"\\\n]|\\.)*"|[(){}\[\],;]')
_HEAD = re.compile(r"[A-Za-z_]\w*(?:##\w+)*|[(){}\[\]<>=;]")
_DIRECTIVE = re.compile(r"#(?:ifn?def.*?#endif\n|(?:\\\n|[^\n])*\n)", re.DOTALL)
_DEFINITION = re.compile(r"#define (\w+)(?:\(([^)]*)\))?((?:\\\n|[^\n])*)\n")
_PASTED = re.compile(r"\s*##\s*")
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")
#: words that a type's name follows
_KINDS = frozenset({"struct", "enum", "using", "concept"})
_CLASS = re.compile(r"(?:template <[^{;]*> )?struct ")
#: what declares names where macros do
_PREFIX = "VDEV_"
_OPERATOR = "operator"


class _Macro(NamedTuple):
    parameters: Sequence[str] | None  #: None: it takes none, not even parentheses
    body: str
    #: what is declared where it is used: parameters stand for what they are given, with ## between the parts of a name
    declared: frozenset[str]


class Piece:
    """A part of a header. `macros`: those that there are before it."""

    def __init__(
        self, header: str, line: int, text: str, declared: frozenset[str], macros: Mapping[str, _Macro]
    ) -> None:
        self.header = header
        self.line = line  #: where it begins
        self.text = text
        self.declared = declared
        self._macros = macros

    @computed_once
    def mentioned(self) -> frozenset[str]:
        """Names, of which some may be its own."""
        uses = frozenset(_USE.findall(self.text))
        if self.text.startswith("#"):  # what a macro expands to is looked at where it is used
            return uses
        return uses.union(_NAME.findall(_expanded(self.text, self._macros) if uses else self.text))


def needed_headers(program: str, constants: Mapping[str, str]) -> str:
    """What comes before a program's text in C++: the pieces that it needs, with directives that tell a compiler's messages where they
    stand, and behind them those of `constants`, macros with their values, that it mentions.
    """
    names, wanted = _needed(program, constants)
    parts = []
    for header, group in groupby(pieces(), key=lambda piece: piece.header):
        parts.append(f'#line 1 "vdev/{header}"\n{_OPEN}')
        line = 2
        for piece in group:
            if piece in wanted:
                is_there = piece.line == line and not parts[-1].endswith("\n")
                parts += [" " if is_there else f"\n#line {piece.line}\n", piece.text]
                line = piece.line + piece.text.count("\n")
        parts.append(f"\n{_CLOSE}")
    parts += [f"#define {name} {value}\n" for name, value in constants.items() if name in names]
    return "".join(parts)


def _needed(program: str, constants: Mapping[str, str]) -> tuple[set[str], set[Piece]]:
    """All names that are mentioned, and the pieces."""
    always, caused = _causes()
    wanted = set(always)
    new = set(_NAME.findall(program)).union(*[piece.mentioned for piece in always])
    names: set[str] = set()
    while new:
        names |= new
        found: set[str] = set()
        for name in new:
            found.update(_NAME.findall(constants.get(name, "")))
            for piece in caused.get(name, ()):
                if piece not in wanted:
                    wanted.add(piece)
                    found |= piece.mentioned
        new = found - names
    return names, wanted


@lru_cache(maxsize=1)
def _causes() -> tuple[Sequence[Piece], Mapping[str, Sequence[Piece]]]:
    """The pieces that are always needed, and by name those that are with it."""
    classes = frozenset().union(*[piece.declared for piece in pieces() if _CLASS.match(piece.text)])
    always: list[Piece] = []
    caused: dict[str, list[Piece]] = {}
    for piece in pieces():
        causes = piece.mentioned & classes if _OPERATOR in piece.declared else piece.declared
        if not causes:
            always.append(piece)
        for name in causes:
            caused.setdefault(name, []).append(piece)
    return always, caused


@lru_cache(maxsize=1)
def pieces() -> Sequence[Piece]:
    """All of them, in order."""
    found: list[Piece] = []
    macros: Mapping[str, _Macro] = {}
    folder = os.path.join(clang.INCLUDE_DIR, "cuda")
    for header in HEADERS:
        with open(os.path.join(folder, header), encoding="utf-8") as file:
            text = file.read()
        line, at = 1, 0
        for start, stop in _parts(text, text.index(_OPEN) + len(_OPEN), text.index(_CLOSE)):
            line, at, part = line + text.count("\n", at, start), start, text[start:stop]
            new = _macros_behind(part, macros) if part.startswith("#") else macros
            changed = {name for name in {**macros, **new} if macros.get(name) is not new.get(name)}
            found.append(Piece(header, line, part, frozenset(changed or _declared(part, macros)), macros))
            macros = new
    return found


def _parts(text: str, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Where declarations, uses of macros and directives stand, one after the other."""
    while True:
        blanks = _BLANKS.match(text, start)
        assert blanks is not None
        start = blanks.end()
        if start >= stop:
            return
        directive = _DIRECTIVE.match(text, start)
        end = directive.end() if directive else _end(text, start)
        yield start, end
        start = end


def _end(text: str, start: int) -> int:
    """Where a declaration or a use of a macro ends."""
    is_use, depth, end = text.startswith(_PREFIX, start), 0, start
    for found in _MARK.finditer(text, start):
        mark, end = found.group(), found.end()
        depth += (mark in _OPENING) - (mark in _CLOSING)
        if depth == 0 and (mark == ";" or (is_use and mark == ")")):
            break
        if depth == 0 and mark == "}":  # a semicolon behind it is a type's, or a constant's
            return end + text.startswith(";", end)
    return end


def _macros_behind(directive: str, macros: Mapping[str, _Macro]) -> Mapping[str, _Macro]:
    """The macros that there are behind a directive."""
    word, name, *_ = directive.split()
    if word == "#undef":
        return {each: macro for each, macro in macros.items() if each != name}
    new = {}
    for name, given, after in _DEFINITION.findall(directive):
        body, declared = after.replace("\\\n", " "), set()
        if given:  # others stand for types
            for start, stop in _parts(body, 0, len(body)):
                declared |= _declared(body[start:stop], macros)
        new[name] = _Macro(given.split(", ") if given else None, body, frozenset(declared))
    return {**macros, **new}


def _declared(text: str, macros: Mapping[str, _Macro]) -> set[str]:
    """The names that a declaration or a use of a macro declares."""
    if text.startswith(_PREFIX):
        name, _, _ = text.partition("(")
        macro = macros[name]
        arguments, _ = _arguments(text, len(name))
        given = dict(zip(macro.parameters or (), arguments, strict=True))
        return {"".join([given.get(part, part) for part in each.split("##")]) for each in macro.declared}
    words = _outside(text)
    if _OPERATOR in words:
        return {_OPERATOR}
    keyword = next((word for word in words if word in _KINDS), None)
    if keyword is None or words[0] == "typedef":
        return {words[-1]}
    name = words[words.index(keyword) + 1]
    return {name, *_NAME.findall(text)} - {keyword} if keyword == "enum" else {name}


def _outside(text: str) -> list[str]:
    """The words of a declaration up to where its parameters, its members or its value begin, less all that stands in brackets."""
    words: list[str] = []
    depth = 0
    for found in _HEAD.finditer(text):
        token = found.group()
        if token in "([{<":
            if depth == 0 and token != "<" and words[-1] not in ("requires", "alignas"):
                break
            depth += 1
        elif token in ")]}>":
            depth -= 1
        elif depth == 0 and token in "=;":
            break
        elif depth == 0:
            words.append(token)
    return [word for word in words if word not in ("requires", "alignas")]


def _expanded(text: str, macros: Mapping[str, _Macro]) -> str:
    """A text with what its macros stand for, theirs included."""
    parts: list[str] = []
    at = 0
    while (use := _USE.search(text, at)) is not None:
        parts.append(text[at : use.start()])
        at, macro = use.end(), macros.get(use.group())
        if macro is None:  # one of its own
            parts.append(use.group())
            continue
        body = macro.body
        if macro.parameters is not None:
            arguments, at = _arguments(text, at)
            body = _replaced(body, dict(zip(macro.parameters, arguments, strict=True)))
        parts.append(_expanded(_PASTED.sub("", body), macros))
    return "".join([*parts, text[at:]])


def _replaced(body: str, given: Mapping[str, str]) -> str:
    return _NAME.sub(lambda name: given.get(name.group(), name.group()), body)


def _arguments(text: str, start: int) -> tuple[Sequence[str], int]:
    """The arguments of a macro, whose parentheses begin at `start`, and where they end."""
    arguments: list[str] = []
    depth, end = 0, start
    for found in _MARK.finditer(text, start):
        mark, end = found.group(), found.end()
        depth += (mark in _OPENING) - (mark in _CLOSING)
        if depth == 0 or (depth == 1 and mark == ","):
            arguments.append(text[start + 1 : found.start()].strip())
            start = found.start()
        if depth == 0:
            break
    return arguments, end
