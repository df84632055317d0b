"""The C preprocessor for OpenCL C: user's text in, macro-free text with `#line` directives out.

Decides what the text of a program is once every macro of the user's is expanded, so that later passes can
edit exact positions of it. Follows C99 6.10 (macro expansion by Prosser's algorithm with hide sets). Never
writes an error message: what it cannot handle is noted in `Preprocessed.doubts`, and the caller lets clang
judge the original source.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from typing import NamedTuple

from vdev.translators.values import dataclass

from . import clang
from .conditions import NAME, Malformed, evaluate_condition
from .macros import PREDEFINED, Expander, Macro, parse_definition
from .tokens import Token, quoted, spell, tokenize

#: The program's own file in `#line` directives, as NVIDIA's compiler names it.
MAIN_FILE = "<kernel>"
#: Text that no user wrote: a place in it says nothing.
GENERATED_FILE = "<generated>"
_MAX_INCLUDE_DEPTH = 200

# An unclosed quote (`don't` in a part that is skipped) hides the rest of its line, as in clang.
_COMMENT = re.compile(
    r"""//[^\n]*|/\*.*?\*/|(?P<open>/\*)|"(?:\\.|[^"\\\n])*(?:"|(?=\n)|$)|'(?:\\.|[^'\\\n])*(?:'|(?=\n)|$)""",
    re.DOTALL,
)
_DIRECTIVE = re.compile(r"\s*(?:#|%:)\s*([A-Za-z_]\w*)?(.*)", re.DOTALL)
#: Pragmas whose words are names of extensions or switches: clang does not expand macros in them.
_VERBATIM_PRAGMAS = ("OPENCL", "STDC", "once")
_DIRECTIVE_MARKS = ("#", "%:")
_OPENING = ("if", "ifdef", "ifndef")
#: Directives that continue with another condition (elifdef and elifndef: C23 6.10.1, and clang in every language).
_ALTERNATIVES = {"elif": "if", "elifdef": "ifdef", "elifndef": "ifndef"}
_CONDITIONALS = frozenset({*_OPENING, *_ALTERNATIVES, "else", "endif"})
#: Pragmas that are named by their second word.
_FAMILIES = ("clang", "GCC")
_BLANKS = " \t\v\f"
#: A backslash at a line's end; clang allows blanks after it.
_SPLICE = re.compile(rf"\\[{_BLANKS}]*$")
#: C99 5.2.1.1; clang replaces them in OpenCL C, since it treats its versions as strict C99.
_TRIGRAPHS = {"=": "#", "(": "[", "/": "\\", ")": "]", "'": "^", "<": "{", "!": "|", ">": "}", "-": "~"}
_TRIGRAPH = re.compile(r"\?\?([=(/)'<!>-])")


@dataclass(frozen=True)
class Preprocessed:
    """Macro-free text. `doubts`: why clang should look at the original (errors, redefinitions, things not
    understood).
    """

    text: str
    doubts: tuple[str, ...]
    included: tuple[str, ...]
    #: where pragmas stand (path, None for the program's own file, and physical line), and whether they count
    pragmas: tuple[tuple[str | None, int, bool], ...] = ()
    #: what was asked of the compiler itself: names of its own macros, and calls such as `__has_builtin(f)`
    asked: frozenset[str] = frozenset()
    #: every path at which a file was looked for, found or not
    sought: frozenset[str] = frozenset()


class Line(NamedTuple):
    """A logical line (C99 5.1.1.2, phases 1 to 3): the first of its physical lines, from 1, their number, its text
    without comments, splices and trigraphs, and the positions in it at which a physical line begins.
    """

    first: int
    nlines: int
    text: str
    breaks: tuple[int, ...] = ()


def logical_lines(source: str) -> list[Line]:
    """The logical lines of a file. A comment that ends on its line is blanked to its own width, so columns stay."""
    source = source.replace("\r\n", "\n").replace("\r", "\n")
    if "??" in source:
        source = _TRIGRAPH.sub(lambda match: _TRIGRAPHS[match.group(1)], source)
    physical = source.split("\n")
    if physical and not physical[-1]:
        physical.pop()
    lines = []
    index = 0
    while index < len(physical):
        start = index
        breaks: list[int] = []
        text, index = _spliced(physical, index, "", breaks)
        if "/" in text:
            blanked, comment_open = _without_comments(text, breaks)
            while comment_open and index < len(physical):
                text, index = _spliced(physical, index, text + "\n", breaks)
                blanked, comment_open = _without_comments(text, breaks)
            if comment_open:
                raise Malformed("unterminated comment")
            text = blanked
        lines.append(Line(start + 1, index - start, text, tuple(breaks)))
    return lines


def _spliced(physical: list[str], index: int, before: str, breaks: list[int]) -> tuple[str, int]:
    """`before` and the line at `index` with those that are joined to it, and the index after them."""
    if before:
        breaks.append(len(before))
    text = before + physical[index]
    index += 1
    while index < len(physical) and _SPLICE.search(text):
        text = text.rstrip(_BLANKS)[:-1]
        breaks.append(len(text))
        text += physical[index]
        index += 1
    return text, index


def _without_comments(text: str, breaks: list[int]) -> tuple[str, bool]:
    """Text with comments blanked; True if a block comment is still open (then it has to be tried again with the next
    line).

    `breaks` are adjusted once no comment is open.
    """
    if "/*" not in text and "//" not in text:
        return text, False
    pieces: list[str] = []
    position = 0
    shorter: list[tuple[int, int]] = []
    for match in _COMMENT.finditer(text):
        found = match.group()
        if match.lastgroup == "open":
            # An open comment hides everything after it, including quotes.
            return text, True
        if found[0] != "/":
            continue
        pieces += [text[position : match.start()], " " if "\n" in found else " " * len(found)]
        position = match.end()
        if "\n" in found:
            shorter.append(match.span())
    for start, stop in reversed(shorter):
        breaks[:] = [b if b <= start else start + 1 if b <= stop else b - (stop - start - 1) for b in breaks]
    return "".join([*pieces, text[position:]]), False


@lru_cache(maxsize=256)
def _file_lines(path: str, modified_ns: int, nbytes: int) -> list[Line]:
    with open(path, encoding="utf-8-sig", errors="surrogateescape") as file:
        return logical_lines(file.read())


@dataclass
class _Branch:
    """One `#if … #endif`: whether the text around it is read, whether a branch was taken, and whether this one is."""

    outer: bool
    taken: bool
    active: bool
    else_seen: bool = False


@dataclass
class _File:
    """A file being read; `shift` is what a `#line` of the user's has added to the numbers that follow."""

    name: str
    path: str | None
    lines: list[Line]
    position: int = 0
    shift: int = 0

    def tokens(self, line: Line, start: int = 0) -> list[Token]:
        """The tokens of a line from position `start`."""
        breaks = [at - start for at in line.breaks]
        return tokenize(line.text[start:], line.first + self.shift, breaks)


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

    def __init__(
        self,
        macros: Mapping[str, Macro],
        include_dirs: Sequence[str],
        answers: Mapping[str, str | None] | None = None,
    ) -> None:
        super().__init__(macros, answers)
        self.include_dirs = tuple(include_dirs)
        self.doubts: list[str] = []
        self.included: list[str] = []
        self.sought: set[str] = set()
        #: Names that make it necessary to expand a line.
        self._expandable = {name for name, macro in self.macros.items() if not macro.listed} | PREDEFINED
        #: As in `Preprocessed`.
        self.pragmas: list[tuple[str | None, int, bool]] = []
        self._once: set[str] = set()
        #: What `#pragma push_macro` has saved.
        self._pushed: dict[str, list[Macro | None]] = {}
        self._output = _Output()
        self._files: list[_File] = []

    def run(self, source: str) -> Preprocessed:
        try:
            self._read(_File(MAIN_FILE, None, logical_lines(source)))
        except (Malformed, RecursionError) as error:
            self.doubts.append(str(error) or type(error).__name__)
        text = "\n".join([*self._output.lines, ""])
        return Preprocessed(
            text,
            tuple(self.doubts),
            tuple(self.included),
            tuple(self.pragmas),
            frozenset(self.asked),
            frozenset(self.sought),
        )

    # Files and directives

    def _read(self, file: _File) -> None:
        if len(self._files) >= _MAX_INCLUDE_DEPTH:
            raise Malformed("#include nested too deeply")
        self._files.append(file)
        self.base_file = self._files[0].name
        branches: list[_Branch] = []
        while file.position < len(file.lines):
            line = file.lines[file.position]
            file.position += 1
            # An included file changes these.
            self.file, self.include_level = file.name, len(self._files) - 1
            if line.text.lstrip().startswith(_DIRECTIVE_MARKS):
                self._directive(file, branches, line)
            elif (not branches or branches[-1].active) and line.text.strip():
                self._text(file, line)
        if branches:
            self.doubts.append("unterminated conditional directive")
        self._files.pop()

    def _text(self, file: _File, line: Line) -> None:
        text = line.text
        if not self._expandable.isdisjoint(NAME.findall(text)):
            text = self._expanded_line(file, line)
        self._output.emit(file.name, line.first + file.shift, text)

    def _expanded_line(self, file: _File, line: Line) -> str:
        def more(inside: bool) -> list[Token] | None:
            # A macro's arguments may go on over the next lines (C99 6.10.3p10); directives among them are
            # undefined (p11).
            while file.position < len(file.lines):
                following = file.lines[file.position]
                if following.text.lstrip().startswith(_DIRECTIVE_MARKS):
                    if inside:
                        raise Malformed("directive within macro arguments")
                    return None
                file.position += 1
                if following.text.strip():
                    tokens = file.tokens(following)
                    tokens[0].space = True
                    return tokens
            return None

        indent = line.text[: len(line.text) - len(line.text.lstrip())]
        return indent + spell(self.expand(file.tokens(line), more))

    def _directive(self, file: _File, branches: list[_Branch], line: Line) -> None:
        match = _DIRECTIVE.match(line.text)
        assert match is not None
        name = match.group(1) or ""
        active = not branches or branches[-1].active
        # A definition is read from its text, and what is skipped not at all.
        read = name in _CONDITIONALS or (active and name != "define")
        rest = file.tokens(line, match.start(2)) if read else []
        if name == "pragma":
            self.pragmas.append((file.path, line.first, active))
        if name in _CONDITIONALS:
            self._conditional(branches, name, rest)
        elif active:
            self._active_directive(file, line, name, rest, match.group(2))

    def _active_directive(self, file: _File, line: Line, name: str, tokens: list[Token], rest: str) -> None:
        match name:
            case "define":
                macro = parse_definition(rest)
                old = self.macros.get(macro.name)
                if old is not None and old.spelling != macro.spelling:
                    self.doubts.append(f"'{macro.name}' redefined")
                self.define(macro)
            case "undef":
                self._undefine(tokens[0].text if tokens else "")
            case "include" | "import":
                self._include(file, tokens, rest, once=name == "import")
            case "pragma":
                self._pragma(file, line, tokens)
            case "line":
                self._renumber(file, tokens)
            case "":
                if tokens:
                    self._renumber(file, tokens)
            case _:
                self.doubts.append(f"#{name}{rest}")
                if name == "error":
                    raise Malformed(f"#error{rest}")

    def define(self, macro: Macro) -> None:
        self.macros[macro.name] = macro
        self.undefined.discard(macro.name)
        self._expandable.add(macro.name)

    def _undefine(self, name: str) -> None:
        if not NAME.fullmatch(name):
            raise Malformed("macro name missing")
        self.undefined.add(name)
        self.macros.pop(name, None)
        self._expandable.discard(name)

    def _pragma(self, file: _File, line: Line, tokens: list[Token]) -> None:
        words = [token.text for token in tokens]
        if words[:1] == ["once"]:
            if file.path is not None:
                self._once.add(file.path)
            return
        if words[:1] in (["push_macro"], ["pop_macro"]):
            self._keep_macro(words)
            return
        text = line.text
        if words and words[0] not in _VERBATIM_PRAGMAS and not self._expandable.isdisjoint(words):
            # The pragma's own name is not expanded, as in clang: programs have macros called `pack`.
            named = 2 if words[0] in _FAMILIES else 1
            text = "#pragma " + spell([*tokens[:named], *self.expand(tokens[named:])])
        self._output.emit(file.name, line.first + file.shift, text)

    def _keep_macro(self, words: Sequence[str]) -> None:
        """`#pragma push_macro("NAME")` and `pop_macro`, which clang has adopted from other compilers."""
        if (
            len(words) != 4
            or words[1] != "("
            or words[3] != ")"
            or not NAME.fullmatch(name := words[2].strip('"'))
        ):
            raise Malformed(f"#pragma {words[0]} without a macro's name")
        if words[0] == "push_macro":
            self._pushed.setdefault(name, []).append(self.macros.get(name))
        elif self._pushed.get(name):
            old = self._pushed[name].pop()
            self._undefine(name)
            if old is not None:
                self.define(old)

    def _renumber(self, file: _File, tokens: list[Token]) -> None:
        found = self.expand(tokens)
        if not found or not found[0].text.isdigit():
            raise Malformed("#line directive requires a positive integer")
        # The line after the one with the number.
        file.shift += int(found[0].text) - (found[0].line + 1)
        if len(found) > 1:
            name = found[1].text
            if not re.fullmatch(r'"[^"\\]*"', name):
                raise Malformed("invalid filename for #line directive")
            file.name = name[1:-1]

    def _include(self, file: _File, tokens: list[Token], rest: str, *, once: bool) -> None:
        """`once`: by clang's `#import`, which reads no file that was read before, and of which none is read again."""
        rest = rest.strip()
        if rest[:1] not in ('"', "<"):
            rest = spell(self.expand(tokens)).strip()
        name, path = self._find_include(file, rest)
        if path is None:
            raise Malformed(f"'{name}' file not found")
        where = os.path.abspath(path)
        if once and where in self.included:
            self._once.add(where)
        self._include_file(where, path, os.stat(path))
        if once:
            self._once.add(where)

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
        for folder in folders:
            path = os.path.normpath(os.path.join(folder, name))
            self.sought.add(path)
            if os.path.isfile(path):
                return name, path
        return name, None

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

    def _conditional(self, branches: list[_Branch], name: str, rest: list[Token]) -> None:
        if name in _OPENING:
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
        branch.active = (
            branch.outer
            and not branch.taken
            and (name == "else" or self._condition(_ALTERNATIVES[name], rest))
        )
        branch.taken = branch.taken or branch.active

    def _condition(self, name: str, rest: list[Token]) -> bool:
        if name == "if":
            return _holds([token.text for token in self.expand(rest, condition=True)])
        if not rest or not NAME.fullmatch(rest[0].text):
            raise Malformed("macro name missing")
        return self.is_defined(rest[0].text) == (name == "ifdef")


def _holds(words: Sequence[str]) -> bool:
    """Whether the condition of these tokens holds; clang is asked if it is not a plain one. Raises Malformed."""
    try:
        # The width of intmax_t depends on the compiler's target: 64 bits, or 128.
        answers = {evaluate_condition(words, bits) for bits in (64, 128)}
    except Malformed as error:
        answers, refusal = set(), error
    if len(answers) != 1:
        # A name that is left is no longer a macro, whatever clang has predefined.
        plain = (str(int(word == "true")) if NAME.fullmatch(word) else word for word in words)
        answer = clang.holds(" ".join(plain))
        if answer is None:
            raise refusal
        return answer
    return answers.pop()


def preprocess(
    source: str,
    macros: Mapping[str, Macro],
    include_dirs: Sequence[str] = (),
    answers: Mapping[str, str | None] | None = None,
) -> Preprocessed:
    """Expand `source`. `macros` are in force before its first line. Never raises: see `Preprocessed.doubts`.

    `answers`: what another compiler than clang answers where it is asked itself (None: not defined, or no).

    >>> preprocess("#define TWICE(x) ((x) + (x))\\nint a = TWICE(3);\\n", {}).text
    '\\nint a = ((3) + (3));\\n'
    """
    return Preprocessor(macros, include_dirs, answers).run(source)
