"""Build options of clBuildProgram (OpenCL specification 5.8.6): which are the preprocessor's, clang's, the engine's.

Decides nothing about validity of options it does not know: engines have their own, and they judge them. Messages
about the program come from clang alone, which reads what the user wrote. Engines get another text, so they are not
told to warn, nor to treat warnings as errors.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from vdev.translators.values import dataclass

#: Options that only clang needs, for the user's text.
_FOR_CLANG = re.compile(r"-w|-W(?![lap],).*|-cl-single-precision-constant")
#: Options that an engine with our text must not get: they ask for messages, or turn them into errors.
_MESSAGES = re.compile(r"-W(?!no-).*")
#: Options whose value may be a separate word.
_WITH_VALUE = ("-x", "-s", "-triple", "-cl-nv-maxrregcount", "-cl-nv-opt-level", "-cl-nv-arch")
#: The specification's options (5.8.6) without values, which every engine takes, or is not told.
_STANDARD = frozenset(
    (
        "-w", "-Werror", "-g", "-cl-single-precision-constant", "-cl-denorms-are-zero", "-cl-fp32-correctly-rounded-divide-sqrt",
        "-cl-opt-disable", "-cl-mad-enable", "-cl-no-signed-zeros", "-cl-unsafe-math-optimizations", "-cl-finite-math-only",
        "-cl-fast-relaxed-math", "-cl-uniform-work-group-size", "-cl-kernel-arg-info",
        *(f"-cl-std=CL{version}" for version in ("1.0", "1.1", "1.2", "2.0", "3.0")),
    )
)  # fmt: skip
_PREPROCESSOR = ("-D", "-U", "-I")
#: What may include a file: a directive's word (clang knows `#import` and `#embed`).
_INCLUDES = re.compile(r"include|import|embed")
#: A line's end that is none: clang takes one with blanks before it, too, and a trigraph if it is told to.
_SPLICE = re.compile(r"(?:\\|\?\?/)[ \t\f\v]*(?:\r\n|\n\r|\n|\r)")
_PLAIN = re.compile(r"""[^\s"'\\]+""")


@dataclass(frozen=True)
class BuildOptions:
    """`given`: one entry for each option word. `macros`: (name, value) of -D in order, value None for -U.
    `c_version`: of -cl-std. `for_clang`: for the text that the user wrote.
    """

    given: tuple[str, ...]
    macros: tuple[tuple[str, str | None], ...]
    include_dirs: tuple[str, ...]
    c_version: int | None
    for_clang: tuple[str, ...]
    for_engine: tuple[str, ...]

    @property
    def for_expanded(self) -> tuple[str, ...]:
        """Clang's options for a text of ours: what it may contain, and no messages."""
        kept = (word for word in self.for_clang if not _MESSAGES.fullmatch(word))
        return (*kept, "-w")

    @property
    def fast_relaxed_math(self) -> bool:
        return "-cl-fast-relaxed-math" in self.given


def joined_lines(source: str) -> str:
    r"""A text whose lines that go on are one, as the preprocessor sees it (C99 5.1.1.2): each of its words is in one piece.

    >>> joined_lines("#define LONG int i; \\\n float x;")
    '#define LONG int i;  float x;'
    """
    return _SPLICE.sub("", source) if "\\" in source or "??/" in source else source


def may_include(source: str) -> bool:
    r"""Whether a text may ask for other files. False is certain.

    >>> may_include("int i;"), may_include('#inc\\\nlude "a.h"'), may_include("#define LONG int i; \\\n float x;")
    (False, True, False)
    """
    return _INCLUDES.search(joined_lines(source)) is not None


def unusual_options(words: Sequence[str]) -> list[str]:
    """The words of which only an engine knows whether they are options.

    >>> unusual_options(["-D", "N=3", "-cl-mad-enable", "-cl-bogus", "-I/x", "-U"])
    ['-cl-bogus', '-U']
    """
    found: list[str] = []
    is_value = False
    for place, word in enumerate(words):
        takes_value = word in _PREPROCESSOR and not is_value and place + 1 < len(words)
        if not is_value and not takes_value and word not in _STANDARD:
            found += [] if word.startswith(_PREPROCESSOR) and word not in _PREPROCESSOR else [word]
        is_value = takes_value
    return found


def quote_option(word: str) -> str:
    r"""A word of an option string as `split_options` and engines read it back.

    >>> quote_option('-DS="a b"'), quote_option("-w")
    ('"-DS=\\"a b\\""', '-w')
    """
    if _PLAIN.fullmatch(word):
        return word
    escaped = re.sub(r'(["\\])', r"\\\1", word)
    return f'"{escaped}"'


def split_options(text: str) -> list[str]:
    r"""Words of an option string; double quotes keep blanks and go, as engines do. Single quotes do so only where blanks
    are between them: `-DC='a'` defines a character constant.

    >>> split_options('-I "a b" -DX=\\"y\\" -D Z="1 2" -DC=\'a\' -DS=\';\'')
    ['-I', 'a b', '-DX="y"', '-D', 'Z=1 2', "-DC='a'", "-DS=';'"]
    """
    words: list[str] = []
    current: list[str] | None = None
    quote = ""
    index = 0
    closed = 0  # after the second of two single quotes that stay
    while index < len(text):
        character = text[index]
        index += 1
        if character == "\\" and text[index : index + 1] in ("\\", '"', " "):
            current = [*(current or []), text[index]]
            index += 1
        elif quote:
            if character == quote:
                quote = ""
            else:
                current = [*(current or []), character]
        elif character == '"' or (character == "'" and index > closed and _keeps_blanks(text, index)):
            quote, current = character, current or []
        elif character.isspace():
            if current is not None:
                words.append("".join(current))
            current = None
        else:
            if character == "'" and index > closed:
                closed = text.find("'", index) + 1
            current = [*(current or []), character]
    if current is not None:
        words.append("".join(current))
    return words


def _keeps_blanks(text: str, start: int) -> bool:
    """Whether the single quotes whose content begins at `start` have a blank between them."""
    stop = text.find("'", start)
    return stop > start and any(character.isspace() for character in text[start:stop])


def parse_options(options: Sequence[str]) -> BuildOptions:
    """Options as PyOpenCL passes them: every entry may hold one word, an option with its value, or several
    options; words with blanks or quotes in them are quoted (`quote_option`), and so they are in the result.
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
        if word[:2] in ("-D", "-U", "-I") and (len(word) > 2 or index < len(words)):
            value = word[2:]
            if not value:
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
        if match := re.fullmatch(r"-cl-std=CL(\d)\.(\d)", word):
            version = int(match.group(1)) * 100 + int(match.group(2)) * 10
        if _FOR_CLANG.fullmatch(word):
            for_clang.append(word)
        if not _MESSAGES.fullmatch(word):
            for_engine.append(quote_option(word))
        if word in _WITH_VALUE and index < len(words):
            for_engine.append(quote_option(words[index]))
            index += 1
    given = tuple(quote_option(word) for word in words)
    return BuildOptions(given, tuple(macros), tuple(folders), version, tuple(for_clang), tuple(for_engine))


def joined_values(words: Sequence[str]) -> list[str]:
    """The words of engines' options, with values that are words of their own behind a `=`.

    >>> joined_values(["-cl-nv-maxrregcount", "32", "-x", "cl", "-w"])
    ['-cl-nv-maxrregcount=32', '-x=cl', '-w']
    """
    found: list[str] = []
    values = iter(words)
    for word in values:
        value = next(values, None) if word in _WITH_VALUE else None
        found.append(word if value is None else f"{word}={value}")
    return found
