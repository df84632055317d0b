"""Macros of the C preprocessor: tokens, definitions and their expansion.

Decides what a sequence of tokens expands to (C99 6.10.3, by Prosser's algorithm with hide sets). Never reads
files or directives.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from vdev.translators.values import dataclass

from . import clang
from .conditions import NAME, Malformed
from .tokens import Token, TokenKind, quoted, spell, tokenize

#: The operators of replacement lists, also in their alternative spellings (C99 6.4.6p3).
HASHES = frozenset({"#", "%:"})
_PASTES = frozenset({"##", "%:%:"})
#: Names that expand to something without being defined.
PREDEFINED = frozenset(
    {"__LINE__", "__FILE__", "__COUNTER__", "__INCLUDE_LEVEL__", "__BASE_FILE__", "__FILE_NAME__"}
)
#: Operators of conditions besides `defined`: the questions for clang, and the question about the folders of included
#: files.
ASKS_CLANG = frozenset(
    {
        "__has_attribute", "__has_builtin", "__has_c_attribute", "__has_constexpr_builtin", "__has_declspec_attribute",
        "__has_extension", "__has_feature", "__has_warning", "__is_identifier", "__is_target_arch", "__is_target_os",
    }
)  # fmt: skip
ASKS_FOLDERS = "__has_include"
#: Names of extensions and features (OpenCL C specification 6.2.1): the target says which exist.
FEATURE = re.compile(r"cl_|__opencl_c_")
#: Names that compilers define (C99 7.1.3), and two that some define although they should not.
_RESERVED = re.compile(r"(?!__VA_ARGS__$|__VA_OPT__$)(?:_[A-Z_]|cl_|(?:unix|linux)$)")
#: Gives the tokens of the next line, None at the end; its argument says whether the arguments have begun.
More = Callable[[bool], "list[Token] | None"]
#: The text in its parentheses counts only if variable arguments are given (C23 6.10.4.1, and clang in every
#: language).
_OPTIONAL = "__VA_OPT__"
#: Stands for an empty argument of `##` (C99 6.10.3.3p2).
_PLACEMARKER = Token("", TokenKind.PLACEMARKER)
#: The variable arguments of a call that has not even a comma before them.
_LEFT_OUT: list[Token] = []


@dataclass(frozen=True)
class Macro:
    """A definition; `parameters` is None for an object-like macro. `listed` macros are not expanded in the text
    (engines know them).
    """

    name: str
    body: tuple[Token, ...]
    parameters: tuple[str, ...] | None = None
    variadic: bool = False
    listed: bool = False

    @property
    def spelling(self) -> tuple[object, ...]:
        """Equal for two definitions that count as the same (C99 6.10.3p2)."""
        return (
            self.parameters,
            self.variadic,
            tuple((t.text, t.space) for t in self.body[1:]),
            *(t.text for t in self.body[:1]),
        )


def parse_definition(text: str, *, listed: bool = False) -> Macro:
    """The macro that `#define text` makes. Raises Malformed."""
    tokens = tokenize(text)
    if not tokens or tokens[0].kind is not TokenKind.NAME or tokens[0].text == "defined":
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
    _check_operators(body, parameters, variadic)
    return Macro(name, body, tuple(parameters), variadic, listed)


def _check_operators(body: Sequence[Token], parameters: Sequence[str], variadic: bool) -> None:
    """Raises Malformed for a `#` that nothing follows, and for operators that are not supported here."""
    for index, token in enumerate(body):
        if token.text in HASHES and (index + 1 == len(body) or body[index + 1].text not in parameters):
            raise Malformed("'#' is not followed by a macro parameter")
        if token.text in (_OPTIONAL, "__VA_ARGS__") and not variadic:
            raise Malformed(f"{token.text} in a macro that takes no variable arguments")


def _body(tokens: list[Token]) -> tuple[Token, ...]:
    if tokens and (tokens[0].text in _PASTES or tokens[-1].text in _PASTES):
        raise Malformed("'##' at either end of a macro")
    return tuple(tokens)


def definitions(lines: Sequence[str]) -> Iterator[Macro]:
    """Macros of `name`, `name=value` or `name(x)=value`, as -D takes them."""
    for line in lines:
        name, separator, value = line.partition("=")
        yield parse_definition(f"{name} {value if separator else '1'}")


class _Piece(NamedTuple):
    """What replaces a part of a macro's body up to `stop`, and whether white space comes before it and at its end."""

    tokens: list[Token]
    stop: int
    spaced: bool = False
    ends_spaced: bool = False


class Expander:
    """Expands macros in the definitions now in force."""

    def __init__(self, macros: Mapping[str, Macro], answers: Mapping[str, str | None] | None = None) -> None:
        #: Definitions now in force; those that engines know are `listed`.
        self.macros: dict[str, Macro] = dict(macros)
        #: The file that __FILE__ stands for, and the depth of inclusion.
        self.file = ""
        self.base_file = ""
        self.include_level = 0
        self._counter = 0
        #: What is known of names and questions that only the compiler itself answers (None: not defined, or no).
        self.answers: dict[str, str | None] = dict(answers or {})
        #: Which of those mattered. Each is a name, or a call such as `__has_builtin(f)`.
        self.asked: set[str] = set()
        #: Names that the program has undefined.
        self.undefined: set[str] = set()

    def expand(
        self, tokens: Sequence[Token], more: More | None = None, *, condition: bool = False
    ) -> list[Token]:
        """Tokens with every macro expanded.

        `more` gives the next line's tokens. `condition`: the tokens are those of an `#if`, so macros that stay in the
        text are expanded too, and `defined` has its meaning.
        """
        pending = list(reversed(tokens))
        done: list[Token] = []
        while pending:
            token = pending.pop()
            if token.kind is not TokenKind.NAME or token.text in token.hide:
                done.append(token)
                continue
            if condition and (answer := self._operator(token.text, pending)) is not None:
                done.append(answer)
                continue
            macro = self.macros.get(token.text)
            if macro is None and condition:
                macro = self._of_compiler(token.text)
            if macro is None:
                done.append(self._predefined(token) if token.text in PREDEFINED else token)
            elif macro.listed and not condition:
                done.append(token)
            elif macro.parameters is None:
                hide = token.hide | {macro.name}
                self._push(pending, token, *self._substitute(macro, {}, hide, token.line))
            else:
                call = self._arguments(macro, pending, more)
                if call is None:
                    done.append(token)
                    continue
                arguments, closing = call
                hide = (token.hide & closing.hide) | {macro.name}
                self._push(pending, token, *self._substitute(macro, arguments, hide, closing.line))
        return done

    def _operator(self, name: str, pending: list[Token]) -> Token | None:
        """The value of an operator of conditions with the operands that come next; None if `name` is not one."""
        if name == "defined":
            return self._defined(pending)
        if name in ASKS_CLANG:
            return self._asked(name, pending)
        if name == ASKS_FOLDERS:
            return Token(str(int(self.has_include(self._operand(name, pending)))), TokenKind.NUMBER, True)
        return None

    def _push(self, pending: list[Token], token: Token, body: list[Token], gap: bool) -> None:
        """Put what replaces `token` before what follows it; `gap`: with white space between them."""
        if body:
            body[0] = _with_space(body[0], token.space)
        if pending and (gap or (token.space and not body)):
            pending[-1] = _with_space(pending[-1], True)
        pending.extend(reversed(body))

    def _predefined(self, token: Token) -> Token:
        match token.text:
            case "__LINE__":
                return Token(str(token.line), TokenKind.NUMBER, token.space)
            case "__FILE__":
                return Token(f'"{quoted(self.file)}"', TokenKind.STRING, token.space)
            case "__BASE_FILE__":
                return Token(f'"{quoted(self.base_file)}"', TokenKind.STRING, token.space)
            case "__FILE_NAME__":
                return Token(f'"{quoted(self.file.rpartition("/")[2])}"', TokenKind.STRING, token.space)
            case "__INCLUDE_LEVEL__":
                return Token(str(self.include_level), TokenKind.NUMBER, token.space)
            case "__COUNTER__":
                self._counter += 1
                return Token(str(self._counter - 1), TokenKind.NUMBER, token.space)
        return token

    def is_defined(self, name: str) -> bool:
        if name in self.macros:
            return True
        if name in self.undefined:
            return False
        return (
            name in PREDEFINED
            or name in ASKS_CLANG
            or name == ASKS_FOLDERS
            or self._of_compiler(name) is not None
        )

    def _of_compiler(self, name: str) -> Macro | None:
        """The compiler's own definition of `name`. The target knows the names of extensions and features."""
        if name in self.undefined or name in PREDEFINED or not _RESERVED.match(name):
            return None
        self.asked.add(name)
        if FEATURE.match(name):
            return None
        value = self.answers[name] if name in self.answers else clang.definition(name)
        return None if value is None else Macro(name, _body(tokenize(value)), listed=True)

    def has_include(self, operand: list[Token]) -> bool:
        """Whether an `#include` with these tokens would find a file."""
        raise Malformed("no file can be included here")

    def _operand(self, operator: str, pending: list[Token]) -> list[Token]:
        """Take the tokens in the parentheses that follow, unchanged: clang does not expand them either."""
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
        question = f"{operator}({spell(self._operand(operator, pending))})"
        answer = clang.holds(question)
        if answer is None:
            raise Malformed(f"the argument of '{operator}' makes no sense")
        self.asked.add(question)
        value = self.answers.get(question, str(int(answer)))
        return Token("0" if value is None else value, TokenKind.NUMBER, True)

    def _defined(self, pending: list[Token]) -> Token:
        """The value of `defined`, whose operand comes next; also within a macro's expansion, as in clang."""
        words = [token.text for token in pending[:-4:-1]]
        if words[:1] == ["("] and words[2:] == [")"]:
            name = words[1]
            del pending[-3:]
        elif words and words[0] != "(":
            name = words[0]
            pending.pop()
        else:
            raise Malformed("operator 'defined' requires an identifier")
        if not NAME.fullmatch(name):
            raise Malformed("macro name must be an identifier")
        return Token("1" if self.is_defined(name) else "0", TokenKind.NUMBER, True)

    def _arguments(
        self, macro: Macro, pending: list[Token], more: More | None
    ) -> tuple[dict[str, list[Token]], Token] | None:
        """The arguments after a function-like macro's name, by parameter, and the closing parenthesis."""
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
            collected.append(_LEFT_OUT)
        if not macro.parameters and collected == [[]]:
            collected = []
        if len(collected) != len(macro.parameters):
            raise Malformed(f"macro '{macro.name}' requires {len(macro.parameters)} arguments")
        return dict(zip(macro.parameters, collected, strict=True)), token

    @staticmethod
    def _refill(pending: list[Token], more: More | None, inside: bool) -> bool:
        following = more(inside) if more is not None else None
        if following is None:
            return False
        pending.extend(reversed(following))
        return True

    def _substitute(
        self, macro: Macro, arguments: Mapping[str, list[Token]], hide: frozenset[str], line: int
    ) -> tuple[list[Token], bool]:
        """What replaces a macro that ends on `line`, and whether it ends with white space.

        For clang all of it is on that line, the one where a macro call ends; arguments that refer to their own lines
        are expanded before.
        """
        result, gap = self._replaced(macro, macro.body, arguments, {})
        # Many tokens hide the same macros already.
        hides = {t.hide: t.hide | hide for t in result}
        tokens = [
            Token(t.text, t.kind, t.space, hides[t.hide], line) for t in result if t is not _PLACEMARKER
        ]
        return tokens, gap

    def _replaced(
        self,
        macro: Macro,
        body: Sequence[Token],
        arguments: Mapping[str, list[Token]],
        expanded: dict[str, list[Token]],
    ) -> tuple[list[Token], bool]:
        """The body with arguments put in, and `#` and `##` carried out (C99 6.10.3.1 to 6.10.3.3); and whether it
        ends with white space, which shows in strings that are made from it.

        `expanded`: arguments that have been expanded, which happens once.
        """
        result: list[Token] = []
        index = 0
        paste = gap = False  # whether `##` and white space come before the current token
        while index < len(body):
            token = body[index]
            if token.text in _PASTES:
                paste, index = True, index + 1
                continue
            gap = gap or (token.space and not paste and index > 0)
            piece = self._piece(macro, body, index, arguments, expanded, paste)
            index, tokens, ends = piece.stop, piece.tokens, piece.ends_spaced
            gap = gap or piece.spaced
            if paste and macro.variadic and token.text == _rest(macro) and result[-1].text == ",":
                paste, gap = False, bool(tokens) and tokens[0].space
                _paste_rest(result, arguments, token.text)
            if paste:
                tokens = _joined(result.pop(), tokens, gap)
                gap = gap and tokens == [_PLACEMARKER]
            elif tokens:
                tokens[0] = _with_space(tokens[0], gap)
                gap = ends
            elif index < len(body) and body[index].text in _PASTES:
                tokens = [_PLACEMARKER]
            paste = False
            result.extend(tokens)
        return result, gap

    def _piece(
        self,
        macro: Macro,
        body: Sequence[Token],
        index: int,
        arguments: Mapping[str, list[Token]],
        expanded: dict[str, list[Token]],
        paste: bool,
    ) -> _Piece:
        """What replaces the part that begins at `index` of the body; `paste`: after `##`."""
        token, stop = body[index], index + 1
        if token.text in HASHES and macro.parameters is not None:
            return _Piece([_stringized(arguments[body[stop].text])], stop + 1)
        if token.text == _OPTIONAL and macro.variadic:
            inside = _parenthesized(body, stop)
            stop += len(inside) + 2
            if not self._expanded(_rest(macro), arguments, expanded):
                return _Piece([], stop)
            tokens, ends = self._replaced(macro, inside, arguments, expanded)
            return _Piece(tokens, stop, bool(tokens) and inside[0].space, ends)
        if token.kind is not TokenKind.NAME or token.text not in arguments:
            return _Piece([token], stop)
        if paste or (stop < len(body) and body[stop].text in _PASTES):
            return _Piece(list(arguments[token.text]), stop)
        return _Piece(list(self._expanded(token.text, arguments, expanded)), stop)

    def _expanded(
        self, name: str, arguments: Mapping[str, list[Token]], expanded: dict[str, list[Token]]
    ) -> list[Token]:
        """The argument of parameter `name` with its macros expanded, as if it were all of the file (C99 6.10.3.1p1)."""
        if name not in expanded:
            expanded[name] = self.expand(arguments[name])
        return expanded[name]


def _parenthesized(body: Sequence[Token], start: int) -> Sequence[Token]:
    """The tokens within the parentheses that begin at `start`. Raises Malformed if there are none."""
    depth = 0
    for index in range(start, len(body)):
        depth += (body[index].text == "(") - (body[index].text == ")")
        if depth == 0:
            if index > start:
                return body[start + 1 : index]
            break
    raise Malformed(f"missing parentheses behind {_OPTIONAL}")


def _rest(macro: Macro) -> str:
    """The parameter that takes the rest of the arguments of a variadic macro."""
    assert macro.parameters is not None
    return macro.parameters[-1]


def _paste_rest(result: list[Token], arguments: Mapping[str, list[Token]], rest: str) -> None:
    """GNU: `, ## __VA_ARGS__` pastes nothing, and drops the comma if these arguments are left out.

    In strict C99 the comma stays if there is no other parameter; clang treats OpenCL C as strict.
    """
    if arguments[rest] is _LEFT_OUT and len(arguments) > 1:
        result[-1] = _PLACEMARKER


def _joined(left: Token, right: list[Token], gap: bool) -> list[Token]:
    """What `##` makes of two operands (C99 6.10.3.3p3); `gap`: white space before the left one, if it is empty."""
    if not right:
        return [left]
    if left is _PLACEMARKER:
        return [_with_space(right[0], gap), *right[1:]]
    return [_pasted(left, right[0]), *right[1:]]


def _with_space(token: Token, space: bool) -> Token:
    return (
        Token(token.text, token.kind, space, token.hide, token.line) if token is not _PLACEMARKER else token
    )


def _pasted(left: Token, right: Token) -> Token:
    if right is _PLACEMARKER:
        return left
    glued = tokenize(left.text + right.text)
    if len(glued) != 1:
        raise Malformed(f"pasting formed '{left.text}{right.text}', an invalid preprocessing token")
    return Token(glued[0].text, glued[0].kind, left.space, left.hide & right.hide)


def _stringized(tokens: Sequence[Token]) -> Token:
    text = ""
    for token in tokens:
        part = token.text
        if token.kind is TokenKind.STRING:
            part = part.replace("\\", "\\\\").replace('"', '\\"')
        text += (" " if token.space and text else "") + part
    return Token(f'"{text}"', TokenKind.STRING)
