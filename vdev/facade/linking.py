"""Separate compilation: clCompileProgram and clLinkProgram on source text.

A compiled object is the preprocessed source of a program. Linking joins such texts into one translation unit,
in which a declaration that several of them have from a common header stands once. Static functions of one
name and different bodies in two programs are beyond this: the compiler refuses the joined text, and the link
fails with its message.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
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
    """`source` without macros and includes, as top-level declarations in order; `options` what a build of it
    still needs.
    """

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
    from vdev.programs import common_target, without_preprocessor_options  # noqa: PLC0415
    from vdev.translators.source import CompileError, parse_program  # noqa: PLC0415

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
    """The text of every top-level declaration of a parsed program, in order."""
    text = parsed.preprocessed.encode()
    spans = []
    for cursor in parsed.tu.cursor.get_children():
        extent = cursor.extent
        if extent.start.file is None or extent.start.file.name != parsed.tu.spelling:
            continue
        spans.append((extent.start.offset, extent.end.offset))
    result: list[str] = []
    end = 0
    for start, stop in spans:
        # what stands between two declarations belongs to the second: attributes and pragmas; a declarator
        # after a struct's body
        # has the struct's start and goes on further
        begin = min(start, end) if start < end else end
        piece = text[max(begin, end) : stop].decode()
        if stop > end:
            result.append(piece)
            end = stop
    result.append(text[end:].decode())
    return result


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
