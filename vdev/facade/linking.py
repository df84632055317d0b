"""Separate compilation: clCompileProgram and clLinkProgram on source text.

A compiled object is the preprocessed source of a program. Linking joins such texts into one translation unit,
in which a declaration that several of them have from a common header stands once. Static functions of one
name and different bodies in two programs are beyond this: the compiler refuses the joined text, and the link
fails with its message.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class LinkFailure(Exception):
    """A source that does not compile; `log` has clang's messages."""

    def __init__(self, log: str) -> None:
        super().__init__(log)
        self.log = log


@dataclass(frozen=True)
class CompiledObject:
    """A source without macros and includes: top-level declarations, and the options a build still needs."""

    declarations: tuple[str, ...]
    options: tuple[str, ...]
    log: str

    @property
    def source(self) -> str:
        return "\n".join(self.declarations)


def compile_object(
    source: str, options: Sequence[str], headers: Mapping[str, str], workers: Sequence[Any]
) -> CompiledObject:
    """Parse `source` with `headers` (name: text) in reach of its includes; LinkFailure where that fails."""
    # these load sympy and libclang: only programs that compile separately pay
    from vdev.programs import common_target, without_preprocessor_options
    from vdev.translators.source import CompileError, parse_program

    with tempfile.TemporaryDirectory(prefix="vdev-headers-") as folder:
        for name, text in headers.items():
            path = Path(folder, name)
            if Path(folder) not in path.resolve().parents:
                raise LinkFailure(f"error: header name '{name}' leads out of the include folder")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        try:
            parsed = parse_program(source, ["-I", folder, *options], target=common_target(workers))
        except CompileError as error:
            raise LinkFailure(error.log) from None
        declarations = top_level_texts(parsed)
    return CompiledObject(tuple(declarations), tuple(without_preprocessor_options(options)), parsed.log)


def top_level_texts(parsed: Any) -> list[str]:
    """Every top-level declaration of a parsed program, in order, each with the directives before it."""
    text = parsed.preprocessed
    return split_declarations(text, _function_ends(parsed, text))


def _function_ends(parsed: Any, text: str) -> set[int]:
    """Where function bodies end, as positions after the brace; clang counts bytes."""
    ends = {
        cursor.extent.end.offset
        for cursor in parsed.tu.cursor.get_children()
        if cursor.kind.name == "FUNCTION_DECL" and cursor.is_definition()
    }
    if text.isascii():
        return ends
    data = text.encode()
    return {len(data[:end].decode()) for end in ends}


#: what may hold brackets that are not the program's structure: directives, strings, characters
_OPAQUE = re.compile(
    r"""^[ \t]*\#(?:[^\n\\]|\\.)*|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'""", re.MULTILINE | re.DOTALL
)
_STRUCTURE = re.compile(_OPAQUE.pattern + r"|[{}()\[\];]", re.MULTILINE | re.DOTALL)


def split_declarations(text: str, function_ends: Collection[int]) -> list[str]:
    """Cut macro-free OpenCL C after every top-level semicolon and function body.

    >>> split_declarations("struct s { int a; } x; void f() { ; } int g();", {37})
    ['struct s { int a; } x;', ' void f() { ; }', ' int g();']
    """
    pieces: list[str] = []
    begin = depth = 0
    for match in _STRUCTURE.finditer(text):
        token = match.group()
        if token in ("{", "(", "["):
            depth += 1
        elif token in ("}", ")", "]"):
            depth -= 1
        if depth == 0 and (token == ";" or (token == "}" and match.end() in function_ends)):
            pieces.append(text[begin : match.end()])
            begin = match.end()
    pieces.append(text[begin:])
    return [piece for piece in pieces if piece.strip()]


def link_objects(objects: Sequence[CompiledObject]) -> CompiledObject:
    """One object of several: each declaration once, in the order of first appearance."""
    seen: dict[str, str] = {}
    for item in objects:
        for piece in item.declarations:
            seen.setdefault(_normal(piece), piece)
    options = tuple(dict.fromkeys(option for item in objects for option in item.options))
    return CompiledObject(tuple(seen.values()), options, "")


def _normal(piece: str) -> str:
    """A declaration without line markers and space, for comparison."""
    lines = [line for line in piece.splitlines() if not line.lstrip().startswith("#")]
    return " ".join(" ".join(lines).split())
