"""Which operators OpenCL C has (specification 6.3), and of which kind. `interpreter.operators` says what each results
in."""

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


class Joining(Enum):
    """Operators of two operands that calculate nothing."""

    ASSIGN = auto()
    COMMA = auto()


class Placed(Enum):
    """Operators of one operand that have to do with where it is."""

    ADDRESS = auto()
    DEREFERENCE = auto()
    RAISE = auto()  #: `++`
    LOWER = auto()  #: `--`


#: Operators whose result says whether something holds.
COMPARISONS = frozenset(
    (Binary.LESS, Binary.GREATER, Binary.LESS_EQUAL, Binary.GREATER_EQUAL, Binary.EQUAL, Binary.NOT_EQUAL)
)
LOGICAL = frozenset((Binary.BOTH, Binary.EITHER))
SHIFTS = frozenset((Binary.SHIFT_LEFT, Binary.SHIFT_RIGHT))
