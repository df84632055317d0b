"""Build options of clBuildProgram (OpenCL specification 5.8.6): which are the preprocessor's, clang's, the
engine's.

Decides nothing about validity of options it does not know: engines have their own, and they judge them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_FOR_CLANG = frozenset({"-w", "-Werror", "-cl-single-precision-constant", "-cl-denorms-are-zero"})


@dataclass(frozen=True)
class BuildOptions:
    """`given`: one entry an option word. `macros`: (name, value) of -D in order, value None for -U.
    `c_version`: of -cl-std.
    """

    given: tuple[str, ...]
    macros: tuple[tuple[str, str | None], ...]
    include_dirs: tuple[str, ...]
    c_version: int | None
    for_clang: tuple[str, ...]
    for_engine: tuple[str, ...]

    @property
    def fast_relaxed_math(self) -> bool:
        return "-cl-fast-relaxed-math" in self.given


def split_options(text: str) -> list[str]:
    r"""Words of an option string; quotes keep blanks and go, as engines do.

    >>> split_options('-I "a b" -DX=\\"y\\" -D Z="1 2"')
    ['-I', 'a b', '-DX="y"', '-D', 'Z=1 2']
    """
    words: list[str] = []
    current: list[str] | None = None
    quote = ""
    index = 0
    while index < len(text):
        character = text[index]
        index += 1
        if character == "\\" and index < len(text) and text[index] in "\\\"' ":
            current = [*(current or []), text[index]]
            index += 1
        elif quote:
            if character == quote:
                quote = ""
            else:
                current = [*(current or []), character]
        elif character in "\"'":
            quote = character
            current = current or []
        elif character.isspace():
            if current is not None:
                words.append("".join(current))
            current = None
        else:
            current = [*(current or []), character]
    if current is not None:
        words.append("".join(current))
    return words


def parse_options(options: Sequence[str]) -> BuildOptions:
    """Options as PyOpenCL passes them: every entry may hold one word, an option with its value, or several
    options.
    """
    words = split_options(" ".join(options))
    macros: list[tuple[str, str | None]] = []
    folders: list[str] = []
    version: int | None = None
    for_clang: list[str] = []
    for_engine: list[str] = []
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        if word[:2] in ("-D", "-U", "-I"):
            value = word[2:]
            if not value and index < len(words):
                value = words[index]
                index += 1
            if word[1] == "I":
                folders.append(value)
            elif word[1] == "U":
                macros.append((value, None))
            else:
                name, equals, body = value.partition("=")
                macros.append((name, body if equals else "1"))
            continue
        for_engine.append(word)
        if match := re.fullmatch(r"-cl-std=CL(\d)\.(\d)", word):
            version = int(match.group(1)) * 100 + int(match.group(2)) * 10
        elif word in _FOR_CLANG:
            for_clang.append(word)
    return BuildOptions(
        tuple(words), tuple(macros), tuple(folders), version, tuple(for_clang), tuple(for_engine)
    )
