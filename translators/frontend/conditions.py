"""Values of preprocessor conditions (C99 6.10.1): integer constant expressions in 64 bits, signed or
unsigned.

Decides what `#if` and `#elif` choose. Never looks up a macro: it is given expanded tokens.
"""

from __future__ import annotations

import operator as op
import re
from collections.abc import Callable, Sequence

from .operator_kinds import Binary

_INTEGER = re.compile(r"(0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)([uUlL]*)")
#: Operators with larger numbers bind more tightly.
_OPERATORS = {
    "||": (Binary.EITHER, 1), "&&": (Binary.BOTH, 2), "|": (Binary.OR, 3), "^": (Binary.XOR, 4), "&": (Binary.AND, 5),
    "==": (Binary.EQUAL, 6), "!=": (Binary.NOT_EQUAL, 6), "<": (Binary.LESS, 7), ">": (Binary.GREATER, 7),
    "<=": (Binary.LESS_EQUAL, 7), ">=": (Binary.GREATER_EQUAL, 7), "<<": (Binary.SHIFT_LEFT, 8),
    ">>": (Binary.SHIFT_RIGHT, 8), "+": (Binary.ADD, 9), "-": (Binary.SUBTRACT, 9), "*": (Binary.MULTIPLY, 10),
    "/": (Binary.DIVIDE, 10), "%": (Binary.REMAINDER, 10),
}  # fmt: skip
#: Stands for anything that is not an operator, and binds least.
_NONE = (None, 0)
_ESCAPES = {"n": 10, "t": 9, "r": 13, "0": 0, "a": 7, "b": 8, "f": 12, "v": 11, "\\": 92, "'": 39, '"': 34}
#: The character constants on whose value everybody agrees; clang is asked about others (several characters,
#: `'\xff'`).
_CHARACTER = re.compile(r"""'(?:([ -&(-\[\]-~])|\\([ntr0abfv\\'"]))'""")
#: An identifier (C99 6.4.2, and `$` as in clang).
NAME = re.compile(r"(?:[^\W\d]|\$)[\w$]*")

_COMPARING: dict[Binary, Callable[[int, int], bool]] = {
    Binary.EQUAL: op.eq, Binary.NOT_EQUAL: op.ne, Binary.LESS: op.lt, Binary.GREATER: op.gt, Binary.LESS_EQUAL: op.le,
    Binary.GREATER_EQUAL: op.ge,
}  # fmt: skip
_CALCULATING: dict[Binary, Callable[[int, int], int]] = {
    Binary.OR: op.or_, Binary.XOR: op.xor, Binary.AND: op.and_, Binary.ADD: op.add, Binary.SUBTRACT: op.sub,
    Binary.MULTIPLY: op.mul,
}  # fmt: skip

Value = tuple[int, bool]  # the number and whether its type is uintmax_t


class Malformed(Exception):
    """The preprocessor cannot make sense of a directive; clang is asked for the message."""


def evaluate_condition(words: Sequence[str], bits: int = 64) -> bool:
    """Whether the expression of these tokens is non-zero, with intmax_t of so many bits. Raises Malformed.

    >>> evaluate_condition("( 1 << 3 ) >= 8 && - 1 > 0u".split())
    True
    """
    return evaluate_integer(words, bits) != 0


def evaluate_integer(words: Sequence[str], bits: int = 64) -> int:
    """The value of the integer constant expression of these tokens. Raises Malformed."""
    parser = _Parser(words, bits)
    value, _ = parser.conditional(True)
    if parser.position != len(words):
        raise Malformed("token is not a valid binary operator in a preprocessor subexpression")
    return value


class _Parser:
    """Recursive descent; `live` is False if the value is not needed, so that `0 && 1/0` is not an error."""

    def __init__(self, words: Sequence[str], bits: int) -> None:
        self.words = words
        self.bits = bits
        self.position = 0

    def wrap(self, value: int, unsigned: bool) -> Value:
        value &= (1 << self.bits) - 1
        if not unsigned and value >> (self.bits - 1):
            value -= 1 << self.bits
        return value, unsigned

    def peek(self) -> str:
        return self.words[self.position] if self.position < len(self.words) else ""

    def take(self) -> str:
        if self.position >= len(self.words):
            raise Malformed("expected value in expression")
        self.position += 1
        return self.words[self.position - 1]

    def expect(self, word: str) -> None:
        if self.take() != word:
            raise Malformed(f"expected '{word}' in preprocessor expression")

    def conditional(self, live: bool) -> Value:
        condition = self.binary(1, live)
        if self.peek() != "?":
            return condition
        self.take()
        left = self.conditional(live and condition[0] != 0)
        self.expect(":")
        right = self.conditional(live and condition[0] == 0)
        return self.wrap((left if condition[0] else right)[0], left[1] or right[1])

    def binary(self, lowest: int, live: bool) -> Value:
        left = self.unary(live)
        while True:
            operator, level = _OPERATORS.get(self.peek(), _NONE)
            if operator is None or level < lowest:
                return left
            self.take()
            decided = (operator is Binary.BOTH and not left[0]) or (operator is Binary.EITHER and left[0])
            needed = live and not decided
            right = self.binary(level + 1, needed)
            left = self.apply(operator, left, right, needed)

    def unary(self, live: bool) -> Value:
        word = self.take()
        match word:
            case "!":
                return (int(self.unary(live)[0] == 0), False)
            case "-" | "+" | "~":
                value, unsigned = self.unary(live)
                return self.wrap({"-": -value, "+": value, "~": ~value}[word], unsigned)
            case "(":
                inside = self.conditional(live)
                self.expect(")")
                return inside
        return self.primary(word)

    def primary(self, word: str) -> Value:
        if match := _INTEGER.fullmatch(word):
            digits, suffix = match.group(1), match.group(2).lower()
            base = (
                16
                if digits[:2] in ("0x", "0X")
                else 2
                if digits[:2] in ("0b", "0B")
                else 8
                if digits[0] == "0"
                else 10
            )
            try:
                number = int(digits[2:] if base in (2, 16) else digits, base)
            except ValueError:
                raise Malformed(f"invalid digit in {word}") from None
            return self.wrap(number, "u" in suffix or number >> (self.bits - 1) != 0)
        if match := _CHARACTER.fullmatch(word):
            plain, escape = match.groups()
            return (_ESCAPES[escape] if escape else ord(plain), False)
        if NAME.fullmatch(word):
            # C99 6.10.1p4: a remaining name is 0; `true` is a keyword of OpenCL C but not of C99.
            return (int(word == "true"), False)
        raise Malformed(f"'{word}' is not valid in a preprocessor expression")

    def apply(self, operator: Binary, left: Value, right: Value, live: bool) -> Value:
        a, b = left[0], right[0]
        match operator:
            case Binary.BOTH:
                return (int(a != 0 and b != 0), False)
            case Binary.EITHER:
                return (int(a != 0 or b != 0), False)
            case Binary.SHIFT_LEFT | Binary.SHIFT_RIGHT:
                if live and not 0 <= b < self.bits:
                    raise Malformed("a shift by more bits than an integer has")
                count = b % self.bits
                return self.wrap(a << count if operator is Binary.SHIFT_LEFT else a >> count, left[1])
        unsigned = left[1] or right[1]
        a, b = self.wrap(a, unsigned)[0], self.wrap(b, unsigned)[0]
        comparison = _COMPARING.get(operator)
        if comparison is not None:
            return (int(comparison(a, b)), False)
        if operator is Binary.DIVIDE or operator is Binary.REMAINDER:
            if b == 0:
                if live:
                    raise Malformed("division by zero in preprocessor expression")
                return (0, unsigned)
            quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
            return self.wrap(quotient if operator is Binary.DIVIDE else a - b * quotient, unsigned)
        return self.wrap(_CALCULATING[operator](a, b), unsigned)
