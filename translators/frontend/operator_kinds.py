"""Which operators OpenCL C has (specification 6.3), and of which kind. `interpreter.operators` says what the result
of each is.
"""

from __future__ import annotations

from enum import Enum, auto


class _Operator(Enum):
    """Operators are keys of tables that each expression is looked up in. They are hashed by identity, since `Enum`'s own hash is a
    function in Python.
    """

    __hash__ = object.__hash__


class Binary(_Operator):
    """Operators with two operands that calculate; assignment and `,` do not."""

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


class Unary(_Operator):
    """Operators with one operand that give a value."""

    PLUS = auto()
    MINUS = auto()
    COMPLEMENT = auto()
    NOT = auto()


class Joining(Enum):
    """Operators with two operands that calculate nothing."""

    ASSIGN = auto()
    COMMA = auto()


class Placed(Enum):
    """Operators with one operand that concern its place."""

    ADDRESS = auto()
    DEREFERENCE = auto()
    RAISE = auto()  #: `++`
    LOWER = auto()  #: `--`


#: Operators whose result is a truth value.
COMPARISONS = frozenset(
    (Binary.LESS, Binary.GREATER, Binary.LESS_EQUAL, Binary.GREATER_EQUAL, Binary.EQUAL, Binary.NOT_EQUAL)
)
LOGICAL = frozenset((Binary.BOTH, Binary.EITHER))
SHIFTS = frozenset((Binary.SHIFT_LEFT, Binary.SHIFT_RIGHT))
