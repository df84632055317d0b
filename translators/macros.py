"""Macros of the C preprocessor: tokens, definitions and their expansion.

Decides what a sequence of tokens expands to (C99 6.10.3, by Prosser's algorithm with hide sets). Never reads
files or directives.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from . import clang
from .conditions import Malformed

_TOKEN = re.compile(
    r"""(?P<space>[ \t\v\f\r]+)
    |(?P<name>[A-Za-z_$][\w$]*)
    |(?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)
    |(?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
    |(?P<op>\#\#|<<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)""",
    re.VERBOSE,
)
NAME = re.compile(r"[A-Za-z_$][\w$]*")
#: Names that expand to something without being defined.
PREDEFINED = frozenset({"__LINE__", "__FILE__", "__COUNTER__"})
#: Operators of conditions beside `defined`: what they ask of clang, and what of the folders of included files.
ASKS_CLANG = frozenset(
    {
        "__has_attribute", "__has_builtin", "__has_c_attribute", "__has_constexpr_builtin", "__has_declspec_attribute",
        "__has_extension", "__has_feature", "__has_warning", "__is_identifier", "__is_target_arch", "__is_target_os",
    }
)  # fmt: skip
ASKS_FOLDERS = "__has_include"
_EMPTY: frozenset[str] = frozenset()
_OPERATOR_CHARACTERS = frozenset("+-*/%&|^<>=!.#:")


class Token:
    """One preprocessing token; `space`: white space came before it; `hide`: macros that must not expand it
    again.
    """

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
    """A definition; `parameters` is None for an object-like macro. `listed` macros stay unexpanded in text
    (engines know them).
    """

    name: str
    body: tuple[Token, ...]
    parameters: tuple[str, ...] | None = None
    variadic: bool = False
    listed: bool = False

    @property
    def spelling(self) -> tuple[object, ...]:
        """What makes two definitions the same one (C99 6.10.3p2)."""
        return (
            self.parameters,
            self.variadic,
            tuple((t.text, t.space) for t in self.body[1:]),
            *(t.text for t in self.body[:1]),
        )


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
    if any(not NAME.fullmatch(parameter) for parameter in parameters) or len(set(parameters)) != len(
        parameters
    ):
        raise Malformed("invalid macro parameter")
    body = _body(rest[closing + 1 :])
    for index, token in enumerate(body):
        if token.text == "#" and (index + 1 == len(body) or body[index + 1].text not in parameters):
            raise Malformed("'#' is not followed by a macro parameter")
    return Macro(name, body, tuple(parameters), variadic, listed)


def _body(tokens: list[Token]) -> tuple[Token, ...]:
    if tokens and (tokens[0].text == "##" or tokens[-1].text == "##"):
        raise Malformed("'##' at either end of a macro")
    return tuple(tokens)


def definitions(lines: Sequence[str]) -> Iterator[Macro]:
    """Macros of `name`, `name=value` or `name(x)=value`, as -D takes them."""
    for line in lines:
        name, separator, value = line.partition("=")
        yield parse_definition(f"{name} {value if separator else '1'}")


class Expander:
    """Expands macros in the definitions now in force."""

    def __init__(self, macros: Mapping[str, Macro]) -> None:
        #: Definitions now in force; engine-known ones are `listed`.
        self.macros: dict[str, Macro] = dict(macros)
        #: The line and file that __LINE__ and __FILE__ stand for.
        self.line = 0
        self.file = ""
        self._counter = 0

    def expand(
        self, tokens: Sequence[Token], more: More | None = None, *, condition: bool = False
    ) -> list[Token]:
        """Tokens with every macro expanded.

        `more` gives the next line's tokens. `condition`: the tokens are of `#if`, so macros that stay in text
        count too, and `defined` has its meaning.
        """
        pending = list(reversed(tokens))
        done: list[Token] = []
        while pending:
            token = pending.pop()
            if token.kind != "name" or token.text in token.hide:
                done.append(token)
                continue
            if condition and token.text == "defined":
                done.append(self._defined(pending))
                continue
            if condition and token.text in ASKS_CLANG:
                done.append(self._asked(token.text, pending))
                continue
            if condition and token.text == ASKS_FOLDERS:
                found = self.has_include(self._operand(token.text, pending))
                done.append(Token(str(int(found)), "number", True))
                continue
            macro = self.macros.get(token.text)
            if macro is None:
                done.append(self._predefined(token))
            elif macro.listed and not condition:
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
                return Token(str(self.line), "number", token.space)
            case "__FILE__":
                return Token(f'"{quoted(self.file)}"', "string", token.space)
            case "__COUNTER__":
                self._counter += 1
                return Token(str(self._counter - 1), "number", token.space)
        return token

    def is_defined(self, name: str) -> bool:
        known = (PREDEFINED, ASKS_CLANG, (ASKS_FOLDERS, "__DATE__", "__TIME__"))
        return name in self.macros or any(name in names for names in known)

    def has_include(self, operand: list[Token]) -> bool:
        """Whether `#include` of what these tokens name would find a file."""
        raise Malformed("no file can be included here")

    def _operand(self, operator: str, pending: list[Token]) -> list[Token]:
        """Take the tokens in the parentheses that follow, as they are: clang does not expand them either."""
        if not pending or pending.pop().text != "(":
            raise Malformed(f"missing '(' after '{operator}'")
        found: list[Token] = []
        depth = 0
        while pending:
            token = pending.pop()
            if token.text == ")" and depth == 0:
                return found
            depth += (token.text == "(") - (token.text == ")")
            found.append(token)
        raise Malformed(f"missing ')' after '{operator}'")

    def _asked(self, operator: str, pending: list[Token]) -> Token:
        """The answer of clang, which reads the program afterwards."""
        answer = clang.holds(f"{operator}({spell(self._operand(operator, pending))})")
        if answer is None:
            raise Malformed(f"what '{operator}' is asked makes no sense")
        return Token(str(int(answer)), "number", True)

    def _defined(self, pending: list[Token]) -> Token:
        """The value of `defined`, whose operand comes next; from a macro's expansion too, as in clang."""
        words = [token.text for token in pending[:-4:-1]]
        if words[:1] == ["("] and words[2:] == [")"]:
            name = words[1]
            del pending[-3:]
        elif words and words[0] != "(":
            name = words[0]
            pending.pop()
        else:
            raise Malformed("operator 'defined' requires an identifier")
        return Token("1" if self.is_defined(name) else "0", "number", True)

    def _arguments(
        self, macro: Macro, pending: list[Token], more: More | None
    ) -> tuple[dict[str, list[Token]], frozenset[str]] | None:
        """The arguments after a function-like macro's name, by parameter, and the hide set of the closing
        parenthesis.
        """
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

    def _substitute(
        self, macro: Macro, arguments: Mapping[str, list[Token]], hide: frozenset[str]
    ) -> list[Token]:
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
            if token.text == "#" and macro.parameters is not None:
                piece = [_stringized(arguments[body[index].text], token.space)]
                index += 1
            elif token.kind != "name" or token.text not in arguments:
                piece = [token]
            elif paste or (index < len(body) and body[index].text == "##"):
                piece = _spaced(arguments[token.text], token.space) or [_PLACEMARKER]
                if paste and _is_rest(macro, token) and result[-1].text == ",":
                    # GNU: `, ## __VA_ARGS__` drops the comma when nothing follows it, and pastes nothing.
                    paste = False
                    if piece == [_PLACEMARKER]:
                        result.pop()
            else:
                if token.text not in expanded:
                    expanded[token.text] = self.expand(arguments[token.text])
                piece = _spaced(expanded[token.text], token.space)
            if paste:
                piece = [_pasted(result.pop(), piece[0]), *piece[1:]]
            paste = False
            result.extend(piece)
        return [Token(t.text, t.kind, t.space, t.hide | hide) for t in result if t is not _PLACEMARKER]


def _is_rest(macro: Macro, token: Token) -> bool:
    """Whether the token is the parameter that takes the rest of the arguments."""
    return macro.variadic and macro.parameters is not None and token.text == macro.parameters[-1]


def _spaced(tokens: list[Token], space: bool) -> list[Token]:
    """Tokens that stand where one token stood, with that token's white space before the first."""
    if not tokens:
        return []
    first = tokens[0]
    return [Token(first.text, first.kind, space, first.hide), *tokens[1:]]


def _pasted(left: Token, right: Token) -> Token:
    if left is _PLACEMARKER or right is _PLACEMARKER:
        return right if left is _PLACEMARKER else left
    glued = tokenize(left.text + right.text)
    if len(glued) != 1:
        raise Malformed(f"pasting formed '{left.text}{right.text}', an invalid preprocessing token")
    return Token(glued[0].text, glued[0].kind, left.space, left.hide & right.hide)


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
    last = Token(" ", "op")
    for token in tokens:
        if token.space or _would_join(last, token):
            pieces.append(" ")
        pieces.append(token.text)
        last = token
    return "".join(pieces).lstrip()


def _would_join(left: Token, right: Token) -> bool:
    end, start = left.text[-1], right.text[0]
    if left.kind == "number":
        return start.isalnum() or start in "_$." or (end in "eEpP" and start in "+-")
    if end == ".":
        return start.isdigit() or start == "."
    if left.kind == "name":
        return start.isalnum() or start in "_$\"'"
    return end in _OPERATOR_CHARACTERS and start in _OPERATOR_CHARACTERS


def quoted(name: str) -> str:
    return name.replace("\\", "\\\\").replace('"', '\\"')
