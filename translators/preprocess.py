"""The C preprocessor for OpenCL C: user's text in, macro-free text with `#line` directives out.

Decides what the text of a program is once every macro of the user's is expanded, so that later passes can edit exact positions
of it. Follows C99 6.10 (macro expansion by Prosser's algorithm with hide sets). Never words an error message: what it cannot
digest is noted in `Preprocessed.doubts`, and the caller lets clang judge the original source.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from .conditions import Malformed, evaluate_condition

MAIN_FILE = "<kernel>"
_MAX_INCLUDE_DEPTH = 200

_TOKEN = re.compile(
    r"""(?P<space>[ \t\v\f\r]+)
    |(?P<name>[A-Za-z_$][\w$]*)
    |(?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)
    |(?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
    |(?P<op>\#\#|<<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)""",
    re.VERBOSE,
)
_NAME = re.compile(r"[A-Za-z_$][\w$]*")
# A quote that nothing closes (`don't` in a part that is skipped) hides the rest of its line, as in clang.
_COMMENT = re.compile(
    r"""//[^\n]*|/\*.*?\*/|(?P<open>/\*)|"(?:\\.|[^"\\\n])*(?:"|(?=\n)|$)|'(?:\\.|[^'\\\n])*(?:'|(?=\n)|$)""", re.DOTALL
)
_DIRECTIVE = re.compile(r"\s*#\s*([A-Za-z_]\w*)?(.*)", re.DOTALL)
_OPERATOR_CHARACTERS = frozenset("+-*/%&|^<>=!.#:")
_EMPTY: frozenset[str] = frozenset()
#: Pragmas whose words are names of extensions or switches: clang does not expand macros in them.
_VERBATIM_PRAGMAS = ("OPENCL", "STDC", "once")


class Token:
    """One preprocessing token; `space`: white space came before it; `hide`: macros that must not expand it again."""

    __slots__ = ("hide", "kind", "space", "text")

    def __init__(self, text: str, kind: str, space: bool = False, hide: frozenset[str] = _EMPTY) -> None:
        self.text, self.kind, self.space, self.hide = text, kind, space, hide

    def __repr__(self) -> str:
        return f"Token({self.text!r})"


#: Gives the tokens of the next line, None where there is none; told whether the arguments have begun.
More = Callable[[bool], "list[Token] | None"]
#: What an empty argument is to `##` (C99 6.10.3.3p2).
_PLACEMARKER = Token("", "placemarker")


@dataclass(frozen=True)
class Macro:
    """A definition; `parameters` is None for an object-like macro. `listed` macros stay unexpanded in text (engines know them)."""

    name: str
    body: tuple[Token, ...]
    parameters: tuple[str, ...] | None = None
    variadic: bool = False
    listed: bool = False

    @property
    def spelling(self) -> tuple[object, ...]:
        """What makes two definitions the same one (C99 6.10.3p2)."""
        return (self.parameters, self.variadic, tuple((t.text, t.space) for t in self.body[1:]), *(t.text for t in self.body[:1]))


@dataclass(frozen=True)
class Preprocessed:
    """Macro-free text. `doubts`: why clang should look at the original (errors, redefinitions, things not understood)."""

    text: str
    doubts: tuple[str, ...]
    included: tuple[str, ...]


def tokenize(text: str) -> list[Token]:
    tokens: list[Token] = []
    space = False
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or "op"
        if kind == "space":
            space = True
        elif match.group() != "\n":
            tokens.append(Token(match.group(), kind, space))
            space = False
        else:
            space = True
    return tokens


def parse_definition(text: str, *, listed: bool = False) -> Macro:
    """The macro that `#define text` makes. Raises Malformed."""
    tokens = tokenize(text)
    if not tokens or tokens[0].kind != "name" or tokens[0].text == "defined":
        raise Malformed("macro name missing")
    name, rest = tokens[0].text, tokens[1:]
    if not rest or rest[0].text != "(" or rest[0].space:
        return Macro(name, _body(rest), listed=listed)
    closing = next((k for k, t in enumerate(rest) if t.text == ")"), None)
    if closing is None:
        raise Malformed("missing ')' in macro parameter list")
    words = [t.text for t in rest[1:closing]]
    parameters = [word for word in words if word != ","]
    variadic = bool(parameters) and parameters[-1] == "..."
    if variadic:
        parameters.pop()
        # GNU `args...` names the rest; ISO `...` calls it __VA_ARGS__.
        if len(words) < 2 or words[-2] == ",":
            parameters.append("__VA_ARGS__")
    if any(not _NAME.fullmatch(parameter) for parameter in parameters) or len(set(parameters)) != len(parameters):
        raise Malformed("invalid macro parameter")
    return Macro(name, _body(rest[closing + 1 :]), tuple(parameters), variadic, listed)


def _body(tokens: list[Token]) -> tuple[Token, ...]:
    if tokens and (tokens[0].text == "##" or tokens[-1].text == "##"):
        raise Malformed("'##' at either end of a macro")
    return tuple(tokens)


def logical_lines(source: str) -> list[tuple[int, int, str]]:
    """(first physical line from 1, number of physical lines, text without comments and splices) (C99 5.1.1.2, phases 2 and 3).

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
    """Text with comments blanked; True if a block comment is still open (its text is kept, to be tried again with the next line)."""
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
    """One `#if … #endif`: whether its surroundings are read, whether a branch was taken, whether this one is."""

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
            self.lines.append(f'#line {line} "{_quoted(file)}"')
        elif line != self.next_line:
            gap = line - self.next_line
            self.lines.extend([""] * gap if 0 < gap <= 8 else [f"#line {line}"])
        self.lines.append(text)
        self.file, self.next_line = file, line + 1


class Preprocessor:
    """One run over one program."""

    def __init__(self, macros: Mapping[str, Macro], include_dirs: Sequence[str]) -> None:
        #: Definitions now in force; engine-known ones are `listed`.
        self.macros: dict[str, Macro] = dict(macros)
        self.include_dirs = tuple(include_dirs)
        self.doubts: list[str] = []
        self.included: list[str] = []
        self._expandable = {name for name, macro in self.macros.items() if not macro.listed} | {"__LINE__", "__FILE__", "__COUNTER__"}
        self._once: set[str] = set()
        self._counter = 0
        self._output = _Output()
        self._files: list[_File] = []
        self._line = 0

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
            self._line = line + file.shift
            if text.lstrip().startswith("#"):
                match = _DIRECTIVE.match(text)
                assert match is not None
                self._directive(file, branches, match.group(1) or "", match.group(2), text)
            elif (not branches or branches[-1].active) and text.strip():
                self._text(file, self._line, text)
        if branches:
            self.doubts.append("unterminated conditional directive")
        self._files.pop()

    def _text(self, file: _File, line: int, text: str) -> None:
        if not self._expandable.isdisjoint(_NAME.findall(text)):
            text = self._expanded_line(file, text)
        self._output.emit(file.name, line, text)

    def _expanded_line(self, file: _File, text: str) -> str:
        indent = text[: len(text) - len(text.lstrip())]

        def more(inside: bool) -> list[Token] | None:
            # A macro's arguments may go on over the next lines (C99 6.10.3p10); directives among them are undefined (p11).
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
        if not _NAME.fullmatch(name):
            raise Malformed("macro name missing")
        self.macros.pop(name, None)
        self._expandable.discard(name)

    def _pragma(self, file: _File, rest: str, text: str) -> None:
        words = rest.split(None, 1)
        if words and words[0] == "once":
            if file.path is not None:
                self._once.add(file.path)
            return
        if words and words[0] not in _VERBATIM_PRAGMAS and not self._expandable.isdisjoint(_NAME.findall(rest)):
            text = "#pragma " + spell(self.expand(tokenize(rest)))
        self._output.emit(file.name, self._line, text)

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
        match = re.match(r'"([^"]+)"|<([^>]+)>', rest)
        if match is None:
            raise Malformed("expected \"FILENAME\" or <FILENAME>")
        if match.group(2):
            name = match.group(2).strip()
            folders = list(self.include_dirs)
        else:
            name = match.group(1)
            # As clang does: the folder of the including file, for the program itself the current directory.
            folders = [os.path.dirname(file.path) if file.path else "", *self.include_dirs]
        for folder in folders:
            path = os.path.normpath(os.path.join(folder, name))
            try:
                status = os.stat(path)
            except OSError:
                continue
            if os.path.isfile(path):
                self._include_file(os.path.abspath(path), path, status)
                return
        raise Malformed(f"'{name}' file not found")

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
            return evaluate_condition([token.text for token in self.expand(self._resolve_defined(tokenize(rest)), listed=True)])
        words = rest.split()
        if not words or not _NAME.match(words[0]):
            raise Malformed("macro name missing")
        return self._is_defined(words[0]) == (name == "ifdef")

    def _is_defined(self, name: str) -> bool:
        return name in self.macros or name in ("__LINE__", "__FILE__", "__COUNTER__", "__DATE__", "__TIME__")

    def _resolve_defined(self, tokens: list[Token]) -> list[Token]:
        resolved: list[Token] = []
        index = 0
        while index < len(tokens):
            token = tokens[index]
            index += 1
            if token.text != "defined":
                resolved.append(token)
                continue
            words = [t.text for t in tokens[index : index + 3]]
            if words[:1] == ["("] and len(words) == 3 and words[2] == ")":
                name, index = words[1], index + 3
            elif words and words[0] != "(":
                name, index = words[0], index + 1
            else:
                raise Malformed("operator 'defined' requires an identifier")
            resolved.append(Token("1" if self._is_defined(name) else "0", "number", True))
        return resolved

    # Expansion

    def expand(self, tokens: Sequence[Token], more: More | None = None, *, listed: bool = False) -> list[Token]:
        """Tokens with every macro expanded. `more` gives the next line's tokens; `listed`: expand the engine-known ones too."""
        pending = list(reversed(tokens))
        done: list[Token] = []
        while pending:
            token = pending.pop()
            if token.kind != "name" or token.text in token.hide:
                done.append(token)
                continue
            macro = self.macros.get(token.text)
            if macro is None:
                done.append(self._predefined(token))
            elif macro.listed and not listed:
                done.append(token)
            elif macro.parameters is None:
                hide = token.hide | {macro.name}
                self._push(pending, token, self._substitute(macro, {}, hide))
            else:
                arguments = self._arguments(macro, pending, more)
                if arguments is None:
                    done.append(token)
                    continue
                hide = (token.hide & arguments[1]) | {macro.name}
                self._push(pending, token, self._substitute(macro, arguments[0], hide))
        return done

    def _push(self, pending: list[Token], token: Token, body: list[Token]) -> None:
        if body:
            first = body[0]
            body[0] = Token(first.text, first.kind, token.space, first.hide)
        elif pending and token.space and not pending[-1].space:
            following = pending[-1]
            pending[-1] = Token(following.text, following.kind, True, following.hide)
        pending.extend(reversed(body))

    def _predefined(self, token: Token) -> Token:
        match token.text:
            case "__LINE__":
                return Token(str(self._line), "number", token.space)
            case "__FILE__":
                return Token(f'"{_quoted(self._files[-1].name)}"', "string", token.space)
            case "__COUNTER__":
                self._counter += 1
                return Token(str(self._counter - 1), "number", token.space)
        return token

    def _arguments(self, macro: Macro, pending: list[Token], more: More | None) -> tuple[dict[str, list[Token]], frozenset[str]] | None:
        """The arguments after a function-like macro's name, by parameter, and the hide set of the closing parenthesis."""
        assert macro.parameters is not None
        if not pending and not self._refill(pending, more, False):
            return None
        if pending[-1].text != "(":
            return None
        pending.pop()
        collected: list[list[Token]] = [[]]
        depth = 0
        while True:
            if not pending and not self._refill(pending, more, True):
                raise Malformed(f"unterminated function-like macro invocation of '{macro.name}'")
            token = pending.pop()
            if token.text == ")" and depth == 0:
                break
            depth += (token.text == "(") - (token.text == ")")
            last = macro.variadic and len(collected) == len(macro.parameters)
            if token.text == "," and depth == 0 and not last:
                collected.append([])
            else:
                collected[-1].append(token)
        if macro.variadic and len(collected) == len(macro.parameters) - 1:
            collected.append([])
        if not macro.parameters and collected == [[]]:
            collected = []
        if len(collected) != len(macro.parameters):
            raise Malformed(f"macro '{macro.name}' requires {len(macro.parameters)} arguments")
        return dict(zip(macro.parameters, collected, strict=True)), token.hide

    @staticmethod
    def _refill(pending: list[Token], more: More | None, inside: bool) -> bool:
        following = more(inside) if more is not None else None
        if following is None:
            return False
        pending.extend(reversed(following))
        return True

    def _substitute(self, macro: Macro, arguments: Mapping[str, list[Token]], hide: frozenset[str]) -> list[Token]:
        """The body with arguments put in, `#` and `##` carried out (C99 6.10.3.1 to 6.10.3.3)."""
        result: list[Token] = []
        expanded: dict[str, list[Token]] = {}
        body = macro.body
        index = 0
        paste = False
        while index < len(body):
            token = body[index]
            index += 1
            if token.text == "##":
                paste = True
                continue
            glued = paste or (index < len(body) and body[index].text == "##")
            if token.text == "#" and macro.parameters is not None:
                if index >= len(body) or body[index].text not in arguments:
                    raise Malformed("'#' is not followed by a macro parameter")
                piece = [_stringized(arguments[body[index].text], token.space)]
                index += 1
            elif token.kind != "name" or token.text not in arguments:
                piece = [token]
            elif glued:
                piece = arguments[token.text] or [_PLACEMARKER]
                if paste and macro.variadic and token.text == macro.parameters[-1] and result[-1].text == ",":
                    # GNU: `, ## __VA_ARGS__` drops the comma when nothing follows it, and pastes nothing.
                    paste = False
                    if piece == [_PLACEMARKER]:
                        result.pop()
            else:
                if token.text not in expanded:
                    expanded[token.text] = self.expand(arguments[token.text])
                piece = expanded[token.text]
            if piece and piece[0] is not token and piece[0] is not _PLACEMARKER:
                piece = [Token(piece[0].text, piece[0].kind, token.space, piece[0].hide), *piece[1:]]
            if paste and piece:
                piece = [*_pasted(result.pop(), piece[0]), *piece[1:]]
            paste = False
            result.extend(piece)
        result = [token for token in result if token is not _PLACEMARKER]
        return [Token(t.text, t.kind, t.space, t.hide | hide) for t in result]


def _pasted(left: Token, right: Token) -> list[Token]:
    if left is _PLACEMARKER or right is _PLACEMARKER:
        return [right if left is _PLACEMARKER else left]
    glued = tokenize(left.text + right.text)
    if len(glued) != 1:
        raise Malformed(f"pasting formed '{left.text}{right.text}', an invalid preprocessing token")
    return [Token(glued[0].text, glued[0].kind, left.space, left.hide & right.hide)]


def _stringized(tokens: Sequence[Token], space: bool) -> Token:
    text = ""
    for token in tokens:
        part = token.text
        if token.kind == "string":
            part = part.replace("\\", "\\\\").replace('"', '\\"')
        text += (" " if token.space and text else "") + part
    return Token(f'"{text}"', "string", space)


def spell(tokens: Sequence[Token]) -> str:
    """Text of the tokens, with a space wherever two neighbours would otherwise read as another token."""
    pieces: list[str] = []
    last = " "
    for token in tokens:
        first = token.text[0]
        word = first.isalnum() or first in "_$."
        joins = (last.isalnum() or last in "_$.") and (word or first in "\"'")
        if token.space or joins or (last in _OPERATOR_CHARACTERS and first in _OPERATOR_CHARACTERS):
            pieces.append(" ")
        pieces.append(token.text)
        last = token.text[-1]
    return "".join(pieces).lstrip()


def _quoted(name: str) -> str:
    return name.replace("\\", "\\\\").replace('"', '\\"')


def preprocess(source: str, macros: Mapping[str, Macro], include_dirs: Sequence[str] = ()) -> Preprocessed:
    """Expand `source`. `macros` are in force before its first line. Never raises: see `Preprocessed.doubts`.

    >>> preprocess("#define TWICE(x) ((x) + (x))\\nint a = TWICE(3);\\n", {}).text
    '\\nint a = ((3) + (3));\\n'
    """
    return Preprocessor(macros, include_dirs).run(source)


def definitions(lines: Sequence[str]) -> Iterator[Macro]:
    """Macros of `name`, `name=value` or `name(x)=value`, as -D takes them."""
    for line in lines:
        name, separator, value = line.partition("=")
        yield parse_definition(f"{name} {value if separator else '1'}")
