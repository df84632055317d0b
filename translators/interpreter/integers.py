"""OpenCL C's integer, relational and reinterpreting functions: the result of each (specification 6.13.3, 6.13.6,
6.2.3).

A table by name: the rule for one component, or for whole operands. Functions without an exact rule have bounds.
Functions that touch memory, and those that are in neither table, are in `builtins`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from ..frontend.types import CType, CVector, integer_of
from ..symbolic import expression as ex
from ..symbolic import logic
from ..symbolic.nodes import Expr, IntType
from . import operators
from .values import FLOATING, Number, Value, Vector, convert, join_values, reinterpret, unknown_value

#: The result's expression, from the operands and the result's type; None if only the type is known.
Component = Callable[..., Expr | None]
Whole = Callable[[list[Value], CType], Value]


def _minimum(a: Number, b: Number, kind: IntType) -> Expr:
    return ex.minimum(a.observed(), b.observed())


def _maximum(a: Number, b: Number, kind: IntType) -> Expr:
    return ex.maximum(a.observed(), b.observed())


def _clamp(x: Number, low: Number, high: Number, kind: IntType) -> Expr:
    return ex.minimum(ex.maximum(x.observed(), low.observed()), high.observed())


def _within(x: Expr, kind: IntType) -> Expr:
    """`x` limited to a type's range, as in functions with saturation."""
    return ex.minimum(ex.maximum(x, ex.const(kind.lo)), ex.const(kind.hi))


def _mul24(a: Number, b: Number, kind: IntType) -> Expr:
    """A product of numbers of 24 bits; the specification leaves the result open for larger ones."""
    narrow = IntType(24, kind.signed)
    fits = logic.TRUE
    for operand in (a.observed(), b.observed()):
        fits = logic.both(fits, logic.less_equal(ex.const(narrow.lo), operand))
        fits = logic.both(fits, logic.less_equal(operand, ex.const(narrow.hi)))
    if fits is logic.TRUE:
        return ex.mul(a.expr, b.expr)
    return logic.select(
        fits,
        ex.mul(a.expr, b.expr),
        ex.unknown(kind.lo, kind.hi, "mul24 of numbers that may have more than 24 bits"),
    )


def _mad24(a: Number, b: Number, c: Number, kind: IntType) -> Expr:
    return ex.add(_mul24(a, b, kind), c.expr)


def _abs(x: Number, kind: IntType) -> Expr:
    value = x.observed()
    return ex.maximum(value, ex.scale(value, -1))


def _abs_diff(a: Number, b: Number, kind: IntType) -> Expr:
    difference = ex.sub(a.observed(), b.observed())
    return ex.maximum(difference, ex.scale(difference, -1))


def _add_sat(a: Number, b: Number, kind: IntType) -> Expr:
    return _within(ex.add(a.observed(), b.observed()), kind)


def _sub_sat(a: Number, b: Number, kind: IntType) -> Expr:
    return _within(ex.sub(a.observed(), b.observed()), kind)


def _hadd(a: Number, b: Number, kind: IntType) -> Expr:
    return ex.shift_right(ex.add(a.observed(), b.observed()), ex.ONE)


def _rhadd(a: Number, b: Number, kind: IntType) -> Expr:
    return ex.shift_right(ex.add(ex.add(a.observed(), b.observed()), ex.ONE), ex.ONE)


def _mul_hi(a: Number, b: Number, kind: IntType) -> Expr:
    return ex.shift_right(ex.mul(a.observed(), b.observed()), ex.const(kind.bits))


def _mad_hi(a: Number, b: Number, c: Number, kind: IntType) -> Expr:
    return ex.add(_mul_hi(a, b, kind), c.expr)


def _upsample(high: Number, low: Number, kind: IntType) -> Expr:
    return ex.add(ex.scale(high.expr, 1 << kind.bits // 2), low.observed())


def _anything(*operands: Number | IntType) -> None:
    """Only the type of the result is known."""


def _count_bits(x: Number, kind: IntType) -> Expr:
    return ex.unknown(0, x.kind.bits, "a count of bits")


_BY_COMPONENT: dict[str, Component] = {
    "min": _minimum,
    "max": _maximum,
    "clamp": _clamp,
    "mul24": _mul24,
    "mad24": _mad24,
    "abs": _abs,
    "abs_diff": _abs_diff,
    "add_sat": _add_sat,
    "sub_sat": _sub_sat,
    "mad_sat": _anything,  # On vectors of `int`, Intel's engine computes something else.
    "hadd": _hadd,
    "rhadd": _rhadd,
    "mul_hi": _mul_hi,
    "mad_hi": _mad_hi,
    "upsample": _upsample,
    "rotate": _anything,
    "clz": _count_bits,
    "ctz": _count_bits,
    "popcount": _count_bits,
    "bitselect": _anything,
}


def _select(values: list[Value], ctype: CType) -> Value:
    """select(a, b, c): b where c is not zero, for vectors where its most significant bit is set (6.13.6)."""
    a, b, c = values
    if isinstance(ctype, CVector):
        return operators.choose(c, b, a, ctype)
    if not isinstance(c, Number):
        return unknown_value(ctype)
    return join_values(logic.truth(c.observed()), convert(b, ctype), convert(a, ctype))


def _any(values: list[Value], ctype: CType) -> Value:
    return _of_bits(values[0], ctype, logic.either)


def _all(values: list[Value], ctype: CType) -> Value:
    return _of_bits(values[0], ctype, logic.both)


def _of_bits(value: Value, ctype: CType, join: Callable[[Expr, Expr], Expr]) -> Value:
    """Whether the most significant bits are set, in any or in all components; 1 or 0 (6.13.6)."""
    items = value.items if isinstance(value, Vector) else (value,)
    first, *others = (operators.most_significant_bit(item) for item in items)
    for other in others:
        first = join(first, other)
    kind = integer_of(ctype)
    return unknown_value(ctype) if kind is None else Number(first, kind)


def _relation(values: list[Value], ctype: CType) -> Value:
    """The result of a relation between floating-point numbers: 1 for scalars, -1 in vectors (6.13.6)."""
    if isinstance(ctype, CVector):
        return Vector(tuple(_holds(ctype.element, operators.ALL_BITS) for _ in range(ctype.count)))
    return _holds(ctype, operators.ONE)


def _holds(ctype: CType, true: int) -> Value:
    kind = integer_of(ctype)
    if kind is None:
        return unknown_value(ctype)
    return Number(ex.scale(ex.unknown(0, 1, FLOATING), true), kind)


_RELATIONS = (
    "isequal", "isnotequal", "isgreater", "isgreaterequal", "isless", "islessequal", "islessgreater",
    "isfinite", "isinf", "isnan", "isnormal", "isordered", "isunordered", "signbit",
)  # fmt: skip
_WHOLE: dict[str, Whole] = {
    "select": _select,
    "any": _any,
    "all": _all,
    **dict.fromkeys(_RELATIONS, _relation),
}

_TYPE = r"(?:u?(?:char|short|int|long)|float|double|half|size_t|u?intptr_t|ptrdiff_t)(?:2|3|4|8|16)?"
_CONVERT = re.compile(rf"convert_{_TYPE}(_sat)?(?:_rt[ezpn])?")
_AS_TYPE = re.compile(rf"as_{_TYPE}")


#: Names of functions of which it is kept what their rule is: many programs together do not call more.
MOST_NAMES = 1024


@lru_cache(MOST_NAMES)
def rule(name: str) -> Whole | None:
    """The result of a function for its operands' values; None if this module has no rule for it."""
    whole = _WHOLE.get(name)
    if whole is not None:
        return whole
    component = _BY_COMPONENT.get(name)
    if component is not None:
        return lambda values, ctype: _apply(component, values, ctype)
    conversion = _CONVERT.fullmatch(name)
    if conversion is not None:
        return _saturated if conversion.group(1) else lambda values, ctype: convert(values[0], ctype)
    if _AS_TYPE.fullmatch(name):
        return lambda values, ctype: reinterpret(values[0], ctype)
    return None


def _saturated(values: list[Value], ctype: CType) -> Value:
    return _apply(lambda x, kind: _within(x.observed(), kind), values, ctype)


def _apply(component: Component, values: list[Value], ctype: CType) -> Value:
    """Apply a component's rule to numbers and vectors; a scalar operand beside vectors is used for all components."""
    if isinstance(ctype, CVector):
        element = ctype.element
        columns = [value.items if isinstance(value, Vector) else (value,) * ctype.count for value in values]
        if any(len(column) != ctype.count for column in columns):
            return unknown_value(ctype)
        rows = zip(*columns, strict=True)
        return Vector(tuple(_apply(component, list(row), element) for row in rows))
    kind = integer_of(ctype)
    if kind is None or not all(isinstance(value, Number) for value in values):
        return unknown_value(ctype)
    found = component(*values, kind)
    return unknown_value(ctype) if found is None else Number(found, kind)
