"""Which operators OpenCL C has (specification 6.3). What each gives is `interpreter.operators`'."""

from __future__ import annotations

from enum import Enum, auto


class Binary(Enum):
    """Operators of two operands; assignment and `,` are no calculations."""

    MULTIPLY = auto()
    DIVIDE = auto()
    REMAINDER = auto()
    ADD = auto()
    SUBTRACT = auto()
    SHIFT_LEFT = auto()
    SHIFT_RIGHT = auto()
    LESS = auto()
    GREATER = auto()
    LESS_EQUAL = auto()
    GREATER_EQUAL = auto()
    EQUAL = auto()
    NOT_EQUAL = auto()
    AND = auto()
    XOR = auto()
    OR = auto()
    BOTH = auto()  #: `&&`
    EITHER = auto()  #: `||`


class Unary(Enum):
    """Operators of one operand that give a value."""

    PLUS = auto()
    MINUS = auto()
    COMPLEMENT = auto()
    NOT = auto()
