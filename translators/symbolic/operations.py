"""The affine form of each kind of expression: one rule for every node of `expression` (`RULES`).

Decides which cases to distinguish and when bounds have to suffice. Conditions, loops and the exploration of cases are
handled in `evaluation`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Any, Protocol

from .domain import Domain, Form, added_up
from .launch_numbers import Launch
from .logic import negate
from .nodes import (
    INFINITE,
    LOOP_END,
    Argument,
    BitAnd,
    BitOr,
    BitXor,
    Both,
    Cast,
    Const,
    Counter,
    Either,
    Exit,
    Expr,
    GlobalId,
    GlobalOffset,
    GlobalSize,
    GroupId,
    Head,
    IntType,
    IsZero,
    ItemId,
    LocalId,
    LocalSize,
    Maximum,
    Minimum,
    Node,
    Not,
    NotNegative,
    NotZero,
    NumGroups,
    Product,
    Quotient,
    Remainder,
    Select,
    ShiftLeft,
    ShiftRight,
    Sum,
    Unknown,
    WholeLocalSize,
    WorkDim,
)
from .words import Word, form_of


class Scope(Protocol):
    """What an operation needs from the evaluation that it is part of: values of its operands, and which case to take."""

    @property
    def words(self) -> dict[Expr, Word]: ...

    @property
    def launch(self) -> Launch: ...

    @property
    def domain(self) -> Domain: ...

    @property
    def ids(self) -> dict[tuple[type[ItemId], int], Form]: ...

    @property
    def memo(self) -> dict[Expr, Form]: ...

    def value(self, expr: Expr) -> Form: ...

    def between(self, lo: int, hi: int, *sources: Form, origin: str = ...) -> Form: ...

    def floor_div(self, form: Form, divisor: int) -> Form: ...

    def trunc_div(self, form: Form, divisor: int) -> Form: ...

    def low_bits(self, form: Form, nbits: int) -> Form: ...

    def cast(self, form: Form, kind: IntType) -> Form: ...

    def may_choose(self) -> bool: ...

    def choose(self, ncases: int = 2) -> int: ...

    def decide(self, condition: Expr) -> bool | None: ...

    def assume(self, condition: Expr) -> None: ...

    def assume_while(self, counter: Expr, condition: Expr, first: int = 0) -> None: ...


#: No program computes a larger number: signed types do not overflow (C99 6.5p5), others wrap.
#: The bounds of products of products would be larger, and take ever longer.
_LARGEST = 1 << 200
#: Quotients beside the least one that a value may have which goes on at the other end: a step beyond each end makes two.
_MOST_TURNS = 2


def _const(_: Scope, expr: Const) -> Form:
    return Form(expr.number, {})


def _cast(scope: Scope, expr: Cast) -> Form:
    return scope.cast(scope.value(expr.a), expr.kind)


def _id(scope: Scope, expr: ItemId) -> Form:
    inside = expr.dimension < scope.launch.ndrange.work_dim
    return scope.ids[type(expr), expr.dimension] if inside else Form(0, {})


def _uniform(scope: Scope, expr: GlobalSize | LocalSize | WholeLocalSize | NumGroups | GlobalOffset) -> Form:
    return Form(scope.launch.number(expr), {})


def _work_dim(scope: Scope, _: WorkDim) -> Form:
    return Form(scope.launch.ndrange.work_dim, {})


def _argument(scope: Scope, expr: Argument) -> Form:
    number = scope.launch.argument(expr.index, expr.byte, expr.kind)
    return scope.between(expr.lo, expr.hi) if number is None else Form(number, {})


def _counter(scope: Scope, _: Counter) -> Form:
    return Form(0, {scope.domain.variable(0, INFINITE): 1})


def _unknown(scope: Scope, expr: Unknown) -> Form:
    return scope.between(expr.lo, expr.hi, origin=expr.origin)


def _head(scope: Scope, expr: Head) -> Form:
    return scope.between(expr.lo, expr.hi, origin="")


def _sum(scope: Scope, expr: Sum) -> Form:
    known = scope.memo
    return added_up(
        expr.constant, expr.terms, [known.get(term) or scope.value(term) for term, _ in expr.terms]
    )


def _mul(scope: Scope, expr: Product) -> Form:
    first, *others = expr.factors
    result = scope.value(first)
    for factor in others:
        result = _product(scope, result, scope.value(factor))
    return result


def _product(scope: Scope, a: Form, b: Form) -> Form:
    a, b = scope.domain.fold(a), scope.domain.fold(b)
    if not a.terms:
        return b.times(a.constant)
    if not b.terms:
        return a.times(b.constant)
    corners = [x * y for x in scope.domain.bounds(a) for y in scope.domain.bounds(b)]
    low, high = min(corners), max(corners)
    if low < -_LARGEST or high > _LARGEST:
        low, high = -_LARGEST, _LARGEST
    return scope.between(low, high, a, b, origin="a product of variables")


def _div(scope: Scope, expr: Quotient) -> Form:
    a, b = scope.value(expr.a), scope.domain.fold(scope.value(expr.b))
    if not b.terms and b.constant:
        return scope.trunc_div(a, b.constant)
    low, high = scope.domain.bounds(a)
    least, most = scope.domain.bounds(b)
    if low >= 0 and most > 0:
        return scope.between(
            low // most if least > 0 else 0 if least >= 0 else -high,
            high // max(least, 1),
            a,
            b,
            origin="a quotient of variables",
        )
    largest = max(abs(low), abs(high))
    return scope.between(-largest, largest, a, b, origin="a quotient of variables")


def _wraps_around(low: int, high: int, divisor: int) -> bool:
    """Whether a value between these bounds is its remainder but for an end or two, as the coordinates of neighbours are in a space that
    is closed: an unknown distance, out of a table, then leaves the remainder near the value. Of others only bounds are of use.
    """
    return high // divisor - low // divisor <= _MOST_TURNS


def _mod(scope: Scope, expr: Remainder) -> Form:
    a, b = scope.value(expr.a), scope.domain.fold(scope.value(expr.b))
    if not b.terms and b.constant:
        divisor = abs(b.constant)
        low, high = scope.domain.bounds(a)
        quotient = scope.trunc_div(a, divisor)
        if scope.domain.is_loose(quotient) and (low < 0 or not _wraps_around(low, high, divisor)):
            return scope.between(max(low, 1 - divisor) if low < 0 else 0, min(max(high, 0), divisor - 1), a)
        return a.plus(quotient, -divisor)
    low, high = scope.domain.bounds(a)
    least, most = scope.domain.bounds(b)
    limit = max(abs(least), abs(most), 1) - 1
    return scope.between(max(low, -limit) if low < 0 else 0, max(0, min(high, limit)), a, b)


def _shl(scope: Scope, expr: ShiftLeft) -> Form:
    a, b = scope.value(expr.a), scope.domain.fold(scope.value(expr.b))
    if not b.terms and 0 <= b.constant < 64:
        return a.times(1 << b.constant)
    low, high = scope.domain.bounds(a)
    least, most = scope.domain.bounds(b)
    if least >= 0 and most < 64:
        corners = [bound << shift for bound in (low, high) for shift in (least, most)]
        return scope.between(min(corners), max(corners), a, b)
    return scope.between(-INFINITE, INFINITE, a, b)


def _is_put_together(expr: Expr) -> bool:
    """Whether a number consists of bits that operations on bits have chosen."""
    while type(expr) is Cast:
        expr = expr.a
    return type(expr) in (BitAnd, BitOr, BitXor, ShiftRight)


def _shr(scope: Scope, expr: ShiftRight) -> Form:
    if _is_put_together(expr.a):
        found = form_of(scope, expr)
        if found is not None:
            return found
    a, b = scope.value(expr.a), scope.domain.fold(scope.value(expr.b))
    if not b.terms and 0 <= b.constant < 64:
        return scope.floor_div(a, 1 << b.constant)
    low, high = scope.domain.bounds(a)
    return scope.between(min(low, 0), max(high, 0), a, b)


def _is_one_run(expr: Expr) -> bool:
    """Whether it is a number whose bits follow one another."""
    number = expr.number if type(expr) is Const else 0
    block = number // (number & -number) if number else 0
    return number > 0 and block & (block + 1) == 0


def _and(scope: Scope, expr: BitAnd) -> Form:
    if _is_put_together(expr.a) or not _is_one_run(expr.b):
        found = form_of(scope, expr)
        if found is not None:
            return found
    return _masked(scope, expr)


def _masked(scope: Scope, expr: BitAnd) -> Form:
    """`a & b` by the values of both."""
    a, b = scope.domain.fold(scope.value(expr.a)), scope.domain.fold(scope.value(expr.b))
    if not a.terms:
        a, b = b, a
    low, high = scope.domain.bounds(a)
    if not b.terms:
        mask = b.constant
        if not a.terms:
            return Form(a.constant & mask, {})
        trailing = (mask & -mask).bit_length() - 1 if mask else 0
        if mask >= 0 and low >= 0:
            mask &= (1 << high.bit_length()) - 1
        block = mask >> trailing
        if mask == 0:
            return Form(0, {})
        if block == -1:
            return scope.floor_div(a, 1 << trailing).times(1 << trailing)
        if block & (block + 1) == 0 and (
            not scope.domain.is_loose(a) or _wraps_around(low, high, block + 1 << trailing)
        ):
            return scope.low_bits(scope.floor_div(a, 1 << trailing), block.bit_length()).times(1 << trailing)
    least, most = scope.domain.bounds(b)
    limits = [bounds[1] for bounds in ((low, high), (least, most)) if bounds[0] >= 0]
    if limits:
        return scope.between(0, min(limits), a, b)
    bits = 1 << max(abs(x) for x in (low, high, least, most)).bit_length()
    return scope.between(-bits, bits - 1, a, b)


def _disjoint_bits(scope: Scope, a: Form, b: Form) -> bool:
    """Whether `a` is a multiple of a power of two above all bits of `b`."""
    low, high = scope.domain.bounds(b)
    step = gcd(a.constant, *a.terms.values())
    return low >= 0 and (step & -step or INFINITE) > high


def _combine_bits(scope: Scope, expr: BitOr | BitXor) -> Form:
    """`a | b` and `a ^ b`, which differ only in bits that both have."""
    found = form_of(scope, expr)
    if found is not None:
        return found
    flips = isinstance(expr, BitXor)
    a, b = scope.domain.fold(scope.value(expr.a)), scope.domain.fold(scope.value(expr.b))
    if not a.terms:
        a, b = b, a
    if not a.terms:
        return Form(a.constant ^ b.constant if flips else a.constant | b.constant, {})
    if _disjoint_bits(scope, a, b) or _disjoint_bits(scope, b, a):
        return a.plus(b)
    low, high = scope.domain.bounds(a)
    least, most = scope.domain.bounds(b)
    if not b.terms and b.constant > 0 and b.constant & (b.constant - 1) == 0 and not scope.domain.is_loose(a):
        bit = scope.low_bits(scope.floor_div(a, b.constant), 1)
        return a.shifted(b.constant).plus(bit, -b.constant * (2 if flips else 1))
    if low >= 0 and least >= 0:
        top = (1 << max(high, most).bit_length()) - 1
        return scope.between(0 if flips else max(low, least), top, a, b)
    bits = 1 << max(abs(x) for x in (low, high, least, most)).bit_length()
    return scope.between(-bits, bits - 1, a, b)


def _extreme(scope: Scope, expr: Minimum | Maximum, sign: int) -> Form:
    """The smaller (sign 1) or the larger (-1) of two values."""
    a, b = scope.value(expr.a), scope.value(expr.b)
    domain = scope.domain
    difference = b.plus(a, -1).times(sign)
    low, high = domain.bounds(difference)
    if low >= 0:
        return a
    if high <= 0:
        return b
    if scope.may_choose() and not domain.is_loose(difference):
        if scope.choose() == 0:
            domain.require(difference)
            return a
        domain.require(difference.times(-1).shifted(-1))
        return b
    bounds_a, bounds_b = domain.bounds(a), domain.bounds(b)
    pick = min if sign > 0 else max
    result = scope.between(pick(bounds_a[0], bounds_b[0]), pick(bounds_a[1], bounds_b[1]), a, b)
    exact, reasons = domain.exact, domain.reasons
    for operand in (a, b):
        domain.require(operand.plus(result, -1).times(sign))
    domain.exact, domain.reasons = exact, reasons
    return result


def _select(scope: Scope, expr: Select) -> Form:
    known = scope.decide(expr.condition)
    if known is not None:
        return scope.value(expr.a if known else expr.b)
    if scope.may_choose():
        if scope.choose() == 0:
            scope.assume(expr.condition)
            return scope.value(expr.a)
        scope.assume(negate(expr.condition))
        return scope.value(expr.b)
    forms = (scope.value(expr.a), scope.value(expr.b))
    bounds = [scope.domain.bounds(form) for form in forms]
    return scope.between(min(low for low, _ in bounds), max(high for _, high in bounds), *forms)


def _truth(scope: Scope, expr: NotNegative | IsZero | NotZero | Both | Either | Not) -> Form:
    known = scope.decide(expr)
    if known is not None:
        return Form(int(known), {})
    if scope.may_choose() and not any(isinstance(leaf, Unknown) for leaf in expr.leaves):
        if scope.choose() == 0:
            scope.assume(expr)
            return Form(1, {})
        scope.assume(negate(expr))
        return Form(0, {})
    return scope.between(0, 1)


def _trips(scope: Scope, expr: Exit) -> Form:
    """The number of times a loop ran, as a constant if the numbers determine it."""
    domain = scope.domain
    definition = expr.definition
    loose = not definition.exact
    variable = domain.variable(0, INFINITE, loose=loose, origin=LOOP_END if loose else "")
    form = Form(0, {variable: 1})
    scope.memo[expr] = form
    if not definition.exact and isinstance(definition.before, Const):
        return form
    known = scope.decide(definition.none) if definition.exact else None
    if known is None and not scope.may_choose():
        domain.loose = domain.loose | set(form.terms)
        return form
    if known is True or (known is None and scope.choose() == 0):
        domain.require(form.times(-1))
        scope.assume(definition.none)
        return form
    domain.require(form.shifted(-1))
    scope.assume_while(expr, definition.before, 1)
    scope.assume(definition.after)
    return domain.fold(form)


#: The affine form of an expression that a scope does not know yet, by its class: that of each node that there is. A table, since a launch
#: asks for hundreds, and a `match` asks for one class after the other.
RULES: dict[type[Node], Callable[[Scope, Any], Form]] = {
    Const: _const,
    Cast: _cast,
    **dict.fromkeys((GlobalId, GroupId, LocalId), _id),
    **dict.fromkeys((GlobalSize, LocalSize, WholeLocalSize, NumGroups, GlobalOffset), _uniform),
    WorkDim: _work_dim,
    Argument: _argument,
    Counter: _counter,
    Unknown: _unknown,
    Head: _head,
    Exit: _trips,
    Sum: _sum,
    Product: _mul,
    Quotient: _div,
    Remainder: _mod,
    ShiftLeft: _shl,
    ShiftRight: _shr,
    BitAnd: _and,
    BitOr: _combine_bits,
    BitXor: _combine_bits,
    Minimum: lambda scope, expr: _extreme(scope, expr, 1),
    Maximum: lambda scope, expr: _extreme(scope, expr, -1),
    Select: _select,
    **dict.fromkeys((NotNegative, IsZero, NotZero, Both, Either, Not), _truth),
}
