"""The C preprocessor for OpenCL C: user's text in, macro-free text with `#line` directives out.

Decides what the text of a program is once every macro of the user's is expanded, so that later passes can
edit exact positions of it. Follows C99 6.10 (macro expansion by Prosser's algorithm with hide sets). Never
words an error message: what it cannot digest is noted in `Preprocessed.doubts`, and the caller lets clang
judge the original source.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from .conditions import Malformed, evaluate_condition
from .macros import NAME, PREDEFINED, Expander, Macro, Token, parse_definition, quoted, spell, tokenize

#: The program's own file in `#line` directives, as NVIDIA's compiler names it.
MAIN_FILE = "<kernel>"
#: Text that no user wrote: a place in it says nothing.
GENERATED_FILE = "<generated>"
_MAX_INCLUDE_DEPTH = 200

# A quote that nothing closes (`don't` in a part that is skipped) hides the rest of its line, as in clang.
_COMMENT = re.compile(
    r"""//[^\n]*|/\*.*?\*/|(?P<open>/\*)|"(?:\\.|[^"\\\n])*(?:"|(?=\n)|$)|'(?:\\.|[^'\\\n])*(?:'|(?=\n)|$)""",
    re.DOTALL,
)
_DIRECTIVE = re.compile(r"\s*#\s*([A-Za-z_]\w*)?(.*)", re.DOTALL)
#: Pragmas whose words are names of extensions or switches: clang does not expand macros in them.
_VERBATIM_PRAGMAS = ("OPENCL", "STDC", "once")


@dataclass(frozen=True)
class Preprocessed:
    """Macro-free text. `doubts`: why clang should look at the original (errors, redefinitions, things not
    understood).
    """

    text: str
    doubts: tuple[str, ...]
    included: tuple[str, ...]


def logical_lines(source: str) -> list[tuple[int, int, str]]:
    """(first physical line from 1, number of physical lines, text without comments and splices) (C99 5.1.1.2,
    phases 2 and 3).

    A comment that ends on its line is blanked to its own width, so columns stay.
    """
    physical = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if physical and not physical[-1]:
        physical.pop()
    lines = []
    index = 0
    while index < len(physical):
        start = index
        text, index = _spliced(physical, index)
        if "/" in text:
            while True:
                text, comment_open = _without_comments(text)
                if not comment_open or index >= len(physical):
                    break
                more, index = _spliced(physical, index)
                text = f"{text}\n{more}"
            if comment_open:
                raise Malformed("unterminated comment")
            text = text.replace("\n", " ")
        lines.append((start + 1, index - start, text))
    return lines


def _spliced(physical: list[str], index: int) -> tuple[str, int]:
    text = physical[index]
    index += 1
    while text.rstrip().endswith("\\") and index < len(physical):
        text = text.rstrip()[:-1] + physical[index]
        index += 1
    return text, index


def _without_comments(text: str) -> tuple[str, bool]:
    """Text with comments blanked; True if a block comment is still open (its text is kept, to be tried again
    with the next line).
    """
    comment_open = False

    def blank(match: re.Match[str]) -> str:
        nonlocal comment_open
        found = match.group()
        if match.lastgroup == "open":
            comment_open = True
            return found
        if found[0] != "/":
            return found
        return " " if "\n" in found else " " * len(found)

    if "/*" not in text and "//" not in text:
        return text, False
    # An open comment hides everything after it, quotes included.
    pieces, position = [], 0
    for match in _COMMENT.finditer(text):
        pieces += [text[position : match.start()], blank(match)]
        position = match.end()
        if comment_open:
            break
    return "".join([*pieces, text[position:]]), comment_open


@lru_cache(maxsize=256)
def _file_lines(path: str, modified_ns: int, nbytes: int) -> list[tuple[int, int, str]]:
    with open(path, encoding="utf-8-sig", errors="surrogateescape") as file:
        return logical_lines(file.read())


@dataclass
class _Branch:
    """One `#if … #endif`: whether its surroundings are read, a branch was taken, this one is."""

    outer: bool
    taken: bool
    active: bool
    else_seen: bool = False


@dataclass
class _File:
    """A file being read; `shift` is what a `#line` of the user's added to the numbers that follow."""

    name: str
    path: str | None
    lines: list[tuple[int, int, str]]
    position: int = 0
    shift: int = 0


@dataclass
class _Output:
    """The text so far and which file and line its next line is presumed to be."""

    lines: list[str] = field(default_factory=list)
    file: str = MAIN_FILE
    next_line: int = 1

    def emit(self, file: str, line: int, text: str) -> None:
        if file != self.file:
            self.lines.append(f'#line {line} "{quoted(file)}"')
        elif line != self.next_line:
            gap = line - self.next_line
            self.lines.extend([""] * gap if 0 < gap <= 8 else [f"#line {line}"])
        self.lines.append(text)
        self.file, self.next_line = file, line + 1


class Preprocessor(Expander):
    """One run over one program."""

    def __init__(self, macros: Mapping[str, Macro], include_dirs: Sequence[str]) -> None:
        super().__init__(macros)
        self.include_dirs = tuple(include_dirs)
        self.doubts: list[str] = []
        self.included: list[str] = []
        #: Names that make a line worth expanding.
        self._expandable = {name for name, macro in self.macros.items() if not macro.listed} | PREDEFINED
        self._once: set[str] = set()
        self._output = _Output()
        self._files: list[_File] = []

    def run(self, source: str) -> Preprocessed:
        try:
            self._read(_File(MAIN_FILE, None, logical_lines(source)))
        except (Malformed, RecursionError) as error:
            self.doubts.append(str(error) or type(error).__name__)
        return Preprocessed("\n".join([*self._output.lines, ""]), tuple(self.doubts), tuple(self.included))

    # Files and directives

    def _read(self, file: _File) -> None:
        if len(self._files) >= _MAX_INCLUDE_DEPTH:
            raise Malformed("#include nested too deeply")
        self._files.append(file)
        branches: list[_Branch] = []
        while file.position < len(file.lines):
            line, _, text = file.lines[file.position]
            file.position += 1
            self.line, self.file = line + file.shift, file.name
            if text.lstrip().startswith("#"):
                match = _DIRECTIVE.match(text)
                assert match is not None
                self._directive(file, branches, match.group(1) or "", match.group(2), text)
            elif (not branches or branches[-1].active) and text.strip():
                self._text(file, self.line, text)
        if branches:
            self.doubts.append("unterminated conditional directive")
        self._files.pop()

    def _text(self, file: _File, line: int, text: str) -> None:
        if not self._expandable.isdisjoint(NAME.findall(text)):
            text = self._expanded_line(file, text)
        self._output.emit(file.name, line, text)

    def _expanded_line(self, file: _File, text: str) -> str:
        indent = text[: len(text) - len(text.lstrip())]

        def more(inside: bool) -> list[Token] | None:
            # A macro's arguments may go on over the next lines (C99 6.10.3p10); directives among them are
            # undefined (p11).
            while file.position < len(file.lines):
                following = file.lines[file.position][2]
                if following.lstrip().startswith("#"):
                    if inside:
                        raise Malformed("directive within macro arguments")
                    return None
                file.position += 1
                if following.strip():
                    tokens = tokenize(following)
                    tokens[0].space = True
                    return tokens
            return None

        return indent + spell(self.expand(tokenize(text), more))

    def _directive(self, file: _File, branches: list[_Branch], name: str, rest: str, text: str) -> None:
        if name in ("if", "ifdef", "ifndef", "elif", "else", "endif"):
            self._conditional(branches, name, rest)
            return
        if branches and not branches[-1].active:
            return
        match name:
            case "define":
                macro = parse_definition(rest)
                old = self.macros.get(macro.name)
                if old is not None and old.spelling != macro.spelling:
                    self.doubts.append(f"'{macro.name}' redefined")
                self.define(macro)
            case "undef":
                self._undefine(rest)
            case "include":
                self._include(file, rest)
            case "pragma":
                self._pragma(file, rest, text)
            case "line":
                self._renumber(file, rest)
            case "":
                if rest.strip():
                    self._renumber(file, rest)
            case _:
                self.doubts.append(f"#{name}{rest}")
                if name == "error":
                    raise Malformed(f"#error{rest}")

    def define(self, macro: Macro) -> None:
        self.macros[macro.name] = macro
        self._expandable.add(macro.name)

    def _undefine(self, rest: str) -> None:
        name = rest.strip().split()[0] if rest.strip() else ""
        if not NAME.fullmatch(name):
            raise Malformed("macro name missing")
        self.macros.pop(name, None)
        self._expandable.discard(name)

    def _pragma(self, file: _File, rest: str, text: str) -> None:
        words = rest.split(None, 1)
        if words and words[0] == "once":
            if file.path is not None:
                self._once.add(file.path)
            return
        if (
            words
            and words[0] not in _VERBATIM_PRAGMAS
            and not self._expandable.isdisjoint(NAME.findall(rest))
        ):
            # The pragma's own name is not expanded, as in clang: programs have macros called `pack`.
            text = " ".join(["#pragma", words[0], *(spell(self.expand(tokenize(part))) for part in words[1:])])
        self._output.emit(file.name, self.line, text)

    def _renumber(self, file: _File, rest: str) -> None:
        words = [token.text for token in self.expand(tokenize(rest))]
        if not words or not words[0].isdigit():
            raise Malformed("#line directive requires a positive integer")
        line, _, _ = file.lines[file.position - 1]
        file.shift = int(words[0]) - (line + 1)
        if len(words) > 1:
            file.name = words[1].strip('"')

    def _include(self, file: _File, rest: str) -> None:
        rest = rest.strip()
        if rest[:1] not in ('"', "<"):
            rest = spell(self.expand(tokenize(rest))).strip()
        name, path = self._find_include(file, rest)
        if path is None:
            raise Malformed(f"'{name}' file not found")
        self._include_file(os.path.abspath(path), path, os.stat(path))

    def _find_include(self, file: _File, written: str) -> tuple[str, str | None]:
        """The name that an `#include` gives, and the file that it means, if there is one."""
        match = re.match(r'"([^"]+)"|<([^>]+)>', written)
        if match is None:
            raise Malformed('expected "FILENAME" or <FILENAME>')
        if match.group(2):
            name = match.group(2).strip()
            folders = list(self.include_dirs)
        else:
            name = match.group(1)
            # As clang does: the folder of the including file, for the program itself the current directory.
            folders = [os.path.dirname(file.path) if file.path else "", *self.include_dirs]
        paths = (os.path.normpath(os.path.join(folder, name)) for folder in folders)
        return name, next((path for path in paths if os.path.isfile(path)), None)

    def has_include(self, operand: list[Token]) -> bool:
        written = spell(operand).strip()
        if written[:1] not in ('"', "<"):
            written = spell(self.expand(operand, condition=True)).strip()
        return self._find_include(self._files[-1], written)[1] is not None

    def _include_file(self, path: str, name: str, status: os.stat_result) -> None:
        if path not in self.included:
            self.included.append(path)
        if path not in self._once:
            self._read(_File(name, path, _file_lines(path, status.st_mtime_ns, status.st_size)))

    def _conditional(self, branches: list[_Branch], name: str, rest: str) -> None:
        if name in ("if", "ifdef", "ifndef"):
            outer = not branches or branches[-1].active
            condition = outer and self._condition(name, rest)
            branches.append(_Branch(outer, condition, condition))
            return
        if not branches:
            raise Malformed(f"#{name} without #if")
        branch = branches[-1]
        if name == "endif":
            branches.pop()
            return
        if branch.else_seen:
            raise Malformed(f"#{name} after #else")
        branch.else_seen = name == "else"
        # The condition of an #elif after the branch taken is not evaluated (C99 6.10.1p6).
        branch.active = branch.outer and not branch.taken and (name == "else" or self._condition("if", rest))
        branch.taken = branch.taken or branch.active

    def _condition(self, name: str, rest: str) -> bool:
        if name == "if":
            return evaluate_condition([token.text for token in self.expand(tokenize(rest), condition=True)])
        words = rest.split()
        if not words or not NAME.match(words[0]):
            raise Malformed("macro name missing")
        return self.is_defined(words[0]) == (name == "ifdef")


def preprocess(source: str, macros: Mapping[str, Macro], include_dirs: Sequence[str] = ()) -> Preprocessed:
    """Expand `source`. `macros` are in force before its first line. Never raises: see `Preprocessed.doubts`.

    >>> preprocess("#define TWICE(x) ((x) + (x))\\nint a = TWICE(3);\\n", {}).text
    '\\nint a = ((3) + (3));\\n'
    """
    return Preprocessor(macros, include_dirs).run(source)
