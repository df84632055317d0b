"""OpenCL C's operators: which there are, and the result of each for operands of each shape (specification 6.3).

Operands are integers, vectors of integers, or something that is not followed (floating point). Every operator has a
rule of its own for each shape, or gives a value of which only the bounds are known. Pointers, memory and the order of
evaluation are handled in `calculation`.
"""

from __future__ import annotations

from collections.abc import Callable

from ..frontend.operator_kinds import SHIFTS, Binary, Unary
from ..frontend.types import CType, CVector, Whole, integer_of
from ..symbolic import expression as ex
from ..symbolic import logic, nodes
from ..symbolic.exhaustive import assert_never
from ..symbolic.nodes import Expr, IntType
from .values import FLOATING, OPAQUE, Number, Value, Vector, convert, join_values, unknown_value

#: `+ - *` are those of the integers, on operands that need not be in their type's range.
_RING: dict[Binary, Callable[[Expr, Expr], Expr]] = {
    Binary.ADD: ex.add,
    Binary.SUBTRACT: ex.sub,
    Binary.MULTIPLY: ex.mul,
}
#: These depend on the operands' exact values.
_OBSERVING: dict[Binary, Callable[[Expr, Expr], Expr]] = {
    Binary.DIVIDE: ex.div,
    Binary.REMAINDER: ex.mod,
    Binary.AND: ex.bit_and,
    Binary.OR: ex.bit_or,
    Binary.XOR: ex.bit_xor,
}
_COMPARING: dict[Binary, Callable[[Expr, Expr], Expr]] = {
    Binary.LESS: logic.less,
    Binary.LESS_EQUAL: logic.less_equal,
    Binary.GREATER: lambda a, b: logic.less(b, a),
    Binary.GREATER_EQUAL: lambda a, b: logic.less_equal(b, a),
    Binary.EQUAL: logic.equal,
    Binary.NOT_EQUAL: lambda a, b: logic.negate(logic.equal(a, b)),
}
_JOINING: dict[Binary, Callable[[Expr, Expr], Expr]] = {
    Binary.BOTH: logic.both,
    Binary.EITHER: logic.either,
}


def compare(operator: Binary, a: Expr, b: Expr) -> Expr:
    """A comparison of observed values, as a truth value."""
    return _COMPARING[operator](a, b)


def shift(operator: Binary, a: Expr, kind: IntType, amount: Expr) -> Expr:
    """`a << amount` and `a >> amount`; the amount counts modulo the width (OpenCL C 6.3.j)."""
    if isinstance(amount, nodes.Const):
        amount = ex.const(amount.number & (kind.bits - 1))
    elif not (amount.lo >= 0 and amount.hi < kind.bits):
        amount = ex.bit_and(amount, ex.const(kind.bits - 1))
    if operator is Binary.SHIFT_LEFT:
        return ex.shift_left(a, amount)
    return ex.shift_right(ex.cast(kind, a), amount)


# two operands ---------------------------------------------------------------------------------------


def binary(operator: Binary, a: Value, b: Value, ctype: CType) -> Value:
    """`a operator b` of type `ctype`, on operands whose types C's conversions have already made equal.

    >>> from ..frontend.types import integer_type
    >>> int2 = CVector(8, integer_type(nodes.INT), 2)
    >>> three, four = (Vector((Number(ex.const(n), nodes.INT),) * 2) for n in (3, 4))
    >>> binary(Binary.LESS, three, four, int2).items[0].expr.number
    -1
    """
    if isinstance(ctype, CVector):
        return _on_vectors(operator, a, b, ctype)
    if isinstance(a, Number) and isinstance(b, Number):
        return _on_numbers(operator, a, b, ctype)
    if operator in _COMPARING or operator in _JOINING:
        return _some_truth(ctype, ONE, FLOATING)
    return unknown_value(ctype, FLOATING if a is OPAQUE or b is OPAQUE else "")


#: The value of true: 1 for scalars, -1 in the components of vectors (6.3.d to 6.3.g).
ONE, ALL_BITS = 1, -1


def _some_truth(ctype: CType, true: int, origin: str) -> Value:
    """A truth value that is not known."""
    if not isinstance(ctype, Whole):
        return unknown_value(ctype, origin)
    return Number(ex.scale(ex.unknown(0, 1, origin), true), ctype.integer)


def _on_numbers(operator: Binary, a: Number, b: Number, ctype: CType) -> Value:
    kind = integer_of(ctype)
    if kind is None:
        return unknown_value(ctype)
    truth = _truth_of(operator, a, b)
    if truth is not None:
        return Number(truth, kind)
    return _arithmetic(operator, a, b, kind)


def _truth_of(operator: Binary, a: Number, b: Number) -> Expr | None:
    """The condition that a comparison or a connective states; None for other operators."""
    if operator in _COMPARING:
        return compare(operator, a.observed(), b.observed())
    if operator in _JOINING:
        return _JOINING[operator](logic.truth(a.observed()), logic.truth(b.observed()))
    return None


def _arithmetic(operator: Binary, a: Number, b: Number, kind: IntType) -> Value:
    if operator in SHIFTS:
        return Number(shift(operator, a.expr, kind, b.observed()), kind)
    if operator in _RING:
        return Number(_RING[operator](a.expr, b.expr), kind)
    return Number(_OBSERVING[operator](ex.cast(kind, a.expr), ex.cast(kind, b.expr)), kind)


def _on_vectors(operator: Binary, a: Value, b: Value, ctype: CVector) -> Value:
    element, first, second = ctype.element, _items(a, ctype), _items(b, ctype)
    if not isinstance(element, Whole) or first is None or second is None:
        return unknown_value(ctype, FLOATING)
    return Vector(tuple(_component(operator, x, y, element) for x, y in zip(first, second, strict=True)))


def _items(value: Value, ctype: CVector) -> tuple[Value, ...] | None:
    """The components of a value; None if it does not have as many as the type."""
    return value.items if isinstance(value, Vector) and len(value.items) == ctype.count else None


def _component(operator: Binary, a: Value, b: Value, element: Whole) -> Value:
    """One component of a result on vectors: true has all bits set."""
    kind = element.integer
    if not (isinstance(a, Number) and isinstance(b, Number)):
        if operator in _COMPARING or operator in _JOINING:
            return _some_truth(element, ALL_BITS, FLOATING)
        return unknown_value(element, FLOATING)
    truth = _truth_of(operator, a, b)
    if truth is not None:
        return Number(ex.scale(truth, ALL_BITS), kind)
    return _arithmetic(operator, a, b, kind)


# one operand ----------------------------------------------------------------------------------------


def unary(operator: Unary, value: Value, ctype: CType) -> Value:
    """`operator value` of type `ctype`; the operand is promoted already."""
    if isinstance(ctype, CVector):
        items = _items(value, ctype)
        if items is None:
            return unknown_value(ctype, FLOATING)
        return Vector(tuple(_unary_number(operator, item, ctype.element, ALL_BITS) for item in items))
    return _unary_number(operator, value, ctype, ONE)


def _unary_number(operator: Unary, value: Value, ctype: CType, true: int) -> Value:
    kind = integer_of(ctype)
    if kind is None:
        return unknown_value(ctype)
    if not isinstance(value, Number):
        return _some_truth(ctype, true, FLOATING) if operator is Unary.NOT else unknown_value(ctype, FLOATING)
    match operator:
        case Unary.NOT:
            return Number(ex.scale(logic.negate(logic.truth(value.observed())), true), kind)
        case Unary.PLUS:
            return Number(value.observed(), kind)
        case Unary.MINUS:
            return Number(ex.scale(value.expr, -1), kind)
        case Unary.COMPLEMENT:
            return Number(ex.add(ex.scale(value.expr, -1), ex.const(-1)), kind)
    assert_never(operator)


# choosing -------------------------------------------------------------------------------------------


def most_significant_bit(value: Value) -> Expr:
    """Whether the most significant bit of an integer is set, as a truth value."""
    if not isinstance(value, Number):
        return ex.unknown(0, 1)
    constant, terms = ex.terms_of(value.expr)
    if constant == 0 and len(terms) == 1:
        term, factor = terms[0]
        if factor == ALL_BITS and term.lo >= 0 and term.hi <= 1:
            return term  # made from a truth value
    return logic.less(ex.cast(IntType(value.kind.bits, True), value.expr), ex.ZERO)


def choose(condition: Value, a: Value, b: Value, ctype: CVector) -> Value:
    """`condition ? a : b` on vectors: each component by the most significant bit of its own condition (6.3.i)."""
    columns = [_items(value, ctype) for value in (condition, convert(a, ctype), convert(b, ctype))]
    if None in columns:
        return unknown_value(ctype)
    rows = zip(*(column for column in columns if column is not None), strict=True)
    return Vector(tuple(join_values(most_significant_bit(c), x, y) for c, x, y in rows))


def spread(value: Value, ctype: CType) -> Value:
    """A `bool` converted to a vector: true becomes all bits (6.2.2)."""
    kind = integer_of(ctype)
    if kind is None or not isinstance(value, Number):
        return unknown_value(ctype)
    return Number(ex.scale(logic.truth(value.observed()), ALL_BITS), kind)
