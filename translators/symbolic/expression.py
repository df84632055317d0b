"""Symbolic integers of a kernel: values as functions of ids, loop counters, scalar arguments and NDRange
quantities.

Decides how values are written down, so that equal ones are found equal: sums are flattened and collected,
constants are folded; truth values are made in `logic`. Knows nothing of launches; numbers are put in by
`evaluation`.

Arithmetic is that of the ring of integers: `+ - *` never wrap by themselves. Where C would look at the
wrapped value (a comparison, a division, a wider type: C99 6.3.1.3, 6.2.5p9) the interpreter puts a `cast`
node, which means "the representative of this residue in the type's range".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from math import gcd
from typing import Any

from .effort import spend
from .nodes import (
    INFINITE,
    INT,
    LONG,
    ULONG,
    Argument,
    BitAnd,
    BitOr,
    BitXor,
    Cast,
    Const,
    Counter,
    Exit,
    Expr,
    GlobalId,
    GlobalOffset,
    GlobalSize,
    GroupId,
    Head,
    Interned,
    IntType,
    Leaf,
    LocalId,
    LocalSize,
    Maximum,
    Minimum,
    NumGroups,
    Pair,
    Product,
    Quotient,
    Remainder,
    Select,
    ShiftLeft,
    ShiftRight,
    Sum,
    Trips,
    Unknown,
    WholeLocalSize,
    WorkDim,
    WorkItem,
    WorkItems,
)
from .sharing import hold, table

#: The origin of a value whose expression is too long, for messages.
TOO_LONG = "a value whose expression is too long to follow"

#: The greatest depth of an expression, so that it can be traversed within Python's own limit of nested calls, and the
#: most parts that one node has.
MOST_DEPTH, MOST_PARTS = 300, 64

_serial = count()

#: The cost of making a node (see `effort`).
_STEPS = 3


def _interned(
    kind: type[Interned], key: tuple[object, ...], lo: int, hi: int, below: int, parts: tuple[Any, ...]
) -> Interned:
    """The node with these fields, whose value is from `lo` to `hi`. `key`: what equal nodes share, which has the operands'
    numbers: the operands themselves would keep an `Exit` alive among them, that its definition, and this the node whose
    key it is, for ever. `below`: the depth of the deepest operand.

    If it is too long, some value within its bounds, the same one for all equal expressions. An expression that keeps
    growing from statement to statement would take ever longer to handle. None of its leaves can then be seen in it.
    """
    spend(_STEPS)  # whether it exists already or not: that depends on what else has been analysed
    kept = table.get(key)
    found = None if kept is None else kept()
    if found is None:
        if below < MOST_DEPTH:
            found = kind(lo, hi, next(_serial), below + 1, *parts)
        else:
            found = Unknown(lo, hi, next(_serial), 0, TOO_LONG)
        found = hold(key, found)
    return found  # type: ignore[return-value]


def _depth(operands: Sequence[Expr]) -> int:
    """The depth of the deepest operand; too deep for any node if there are too many."""
    if len(operands) > MOST_PARTS:
        return MOST_DEPTH
    return max(operand.depth for operand in operands)


def _leaf(kind: type[Interned], lo: int, hi: int, *fields: object) -> Interned:
    return _interned(kind, (kind, *fields), lo, hi, 0, fields)


def _pair(kind: type[Interned], lo: int, hi: int, a: Expr, b: Expr) -> Interned:
    below = a.depth if a.depth > b.depth else b.depth
    return _interned(kind, (kind, a.serial, b.serial), lo, hi, below, (a, b))


def truth_of(kind: type[Interned], a: Expr) -> Interned:
    """A statement about one operand: 0 or 1."""
    return _interned(kind, (kind, a.serial), 0, 1, a.depth, (a,))


def joined(kind: type[Interned], a: Expr, b: Expr) -> Interned:
    """Two truth values combined into one."""
    return _pair(kind, 0, 1, a, b)


# leaves ---------------------------------------------------------------------------------------------


_SMALL = {number: Const(number, number, next(_serial), 0, number) for number in range(-1, 65)}


def const(number: int) -> Const:
    small = _SMALL.get(number)
    return small if small is not None else _leaf(Const, number, number, number)


ZERO: Expr = const(0)
ONE: Expr = const(1)

#: Bounds of the work-item functions for any launch; sizes of a work-group fit an `int` on every device.
_BOUNDS: dict[type[WorkItem], tuple[int, int]] = {
    GlobalId: (0, ULONG.hi),
    GroupId: (0, LONG.hi),
    LocalId: (0, INT.hi),
    GlobalSize: (1, ULONG.hi),
    LocalSize: (1, INT.hi),
    WholeLocalSize: (1, INT.hi),
    NumGroups: (1, LONG.hi),
    GlobalOffset: (0, ULONG.hi),
}


def workitem(kind: type[WorkItems], dimension: int) -> WorkItems:
    """One of `GlobalId`, `GroupId` … in a dimension from 0 to 2."""
    return _leaf(kind, *_BOUNDS[kind], dimension)


WORK_DIM = _leaf(WorkDim, 1, 3)


def argument(index: int, byte: int, kind: IntType) -> Argument:
    """The integer at `byte` of the value argument `index`."""
    return _leaf(Argument, kind.lo, kind.hi, index, byte, kind)


def unknown(lo: int, hi: int, origin: str = "") -> Unknown:
    """A value of which only bounds are known; every call makes a new one."""
    return Unknown(lo, hi, next(_serial), 0, origin)


def counter() -> Counter:
    """The counter of a new loop."""
    return Counter(0, INFINITE, next(_serial), 0)


def head() -> Head:
    """The unknown value of a variable at the beginning of an iteration."""
    return Head(-INFINITE, INFINITE, next(_serial), 0)


def trips(define: Callable[[Exit], Trips]) -> Exit:
    """A new count T of a loop's iterations, with `define(T)` as what is known of it."""
    leaf = Exit(0, INFINITE, next(_serial), 0)
    object.__setattr__(leaf, "_leaves", frozenset((leaf,)))
    object.__setattr__(leaf, "definition", define(leaf))
    object.__setattr__(leaf, "_leaves", _leaves_of(leaf))
    return leaf


def _leaves_of(leaf: Exit) -> frozenset[Expr]:
    """`leaf` and the leaves of its definition.

    Not through `leaves`, which would keep sets for expressions with this leaf before its own set is complete.
    """
    found: set[Expr] = {leaf}
    pending: list[Expr] = [*leaf.definition.parts]
    seen: set[Expr] = {leaf}
    while pending:
        expr = pending.pop()
        if expr in seen:
            continue
        seen.add(expr)
        spend(1)
        if isinstance(expr, Leaf):
            found.add(expr)
        pending += expr.definition.parts if isinstance(expr, Exit) else expr.parts
    return frozenset(found)


def define(exits: Sequence[tuple[Exit, Trips]]) -> None:
    """Set the definitions of new exits, all at once, since they may name one another. Nobody has asked for their
    leaves yet.
    """
    for leaf, definition in exits:
        object.__setattr__(leaf, "definition", definition)
    for leaf, _ in exits:
        object.__setattr__(leaf, "_leaves", _leaves_of(leaf))


def congruence(expr: Expr) -> tuple[int, int]:
    """(m, r) with `expr` = r modulo m whatever its leaves are; m = 0 where it is r itself.

    >>> i = workitem(GlobalId, 0)
    >>> congruence(add(scale(i, 12), const(20)))
    (12, 8)
    """
    return _congruence(expr, {})


def _congruence(expr: Expr, known: dict[Expr, tuple[int, int]]) -> tuple[int, int]:
    """`known`: results so far, since one operand may be part of many."""
    found = known.get(expr)
    if found is None:
        spend(2)
        modulus, residue = _congruence_of_parts(expr, known)
        found = known[expr] = (modulus, residue % modulus if modulus else residue)
    return found


def _congruence_of_parts(expr: Expr, known: dict[Expr, tuple[int, int]]) -> tuple[int, int]:
    match expr:
        case Const(number=number):
            return 0, number
        case Sum():
            modulus, residue = 0, expr.constant
            for term, coefficient in expr.terms:
                m, r = _congruence(term, known)
                modulus, residue = gcd(modulus, coefficient * m), residue + coefficient * r
            return modulus, residue
        case Product():
            modulus, residue = 0, 1
            for factor in expr.factors:
                m, r = _congruence(factor, known)
                modulus, residue = gcd(modulus * m, modulus * r, residue * m), residue * r
            return modulus, residue
        case Cast():  # the same modulo 2**bits
            m, r = _congruence(expr.a, known)
            return gcd(m, 1 << expr.kind.bits), r
        case Minimum() | Maximum() | Select():
            (m, r), (n, s) = _congruence(expr.a, known), _congruence(expr.b, known)
            return gcd(m, n, r - s), r
    return 1, 0


# arithmetic -----------------------------------------------------------------------------------------


def terms_of(expr: Expr) -> tuple[int, tuple[tuple[Expr, int], ...]]:
    if type(expr) is Sum:
        return expr.constant, expr.terms
    if type(expr) is Const:
        return expr.number, ()
    return 0, ((expr, 1),)


def linear(constant: int, terms: Mapping[Expr, int]) -> Expr:
    """`constant` plus the sum of coefficient times node."""
    if len(terms) == 1:
        [(term, coefficient)] = terms.items()
        return _multiple(constant, term, coefficient)
    kept: list[tuple[Expr, int]] = []
    key: list[object] = [Sum, constant]
    lo = hi = constant
    below, last = 0, -1
    for item in terms.items():
        term, coefficient = item
        serial = term.serial
        if serial < last:  # those of a sum are in the order of their age, and mostly come so
            return linear(constant, dict(sorted(terms.items(), key=_age)))
        last = serial
        if coefficient > 0:
            lo += coefficient * term.lo
            hi += coefficient * term.hi
        elif coefficient:
            lo += coefficient * term.hi
            hi += coefficient * term.lo
        else:
            continue
        if term.depth > below:
            below = term.depth
        kept.append(item)
        key += (serial, coefficient)
    if not kept:
        return const(constant)
    spend(len(terms) >> 1)
    if constant == 0 and len(kept) == 1 and kept[0][1] == 1:
        return kept[0][0]
    if len(kept) > MOST_PARTS:
        below = MOST_DEPTH
    return _interned(Sum, tuple(key), lo, hi, below, (constant, tuple(kept)))


def _multiple(constant: int, term: Expr, coefficient: int) -> Expr:
    """`constant + coefficient * term`, as `linear` makes it; sums of several terms are rarer."""
    if coefficient > 0:
        if coefficient == 1 and constant == 0:
            return term
        lo, hi = constant + coefficient * term.lo, constant + coefficient * term.hi
    elif coefficient:
        lo, hi = constant + coefficient * term.hi, constant + coefficient * term.lo
    else:
        return const(constant)
    key = (Sum, constant, term.serial, coefficient)
    return _interned(Sum, key, lo, hi, term.depth, (constant, ((term, coefficient),)))


def _age(item: tuple[Expr, int]) -> int:
    return item[0].serial


def add(a: Expr, b: Expr, factor: int = 1) -> Expr:
    """`a + factor * b`."""
    if b is ZERO or factor == 0:
        return a
    if a is ZERO and factor == 1:
        return b
    if type(b) is Const:
        return _moved(a, factor * b.number)
    constant, terms = terms_of(a)
    more_constant, more = terms_of(b)
    if not terms:
        if factor == 1:
            return _moved(b, constant)
        collected = {term: factor * coefficient for term, coefficient in more}
    else:
        collected = dict(terms)
        for term, coefficient in more:
            collected[term] = collected.get(term, 0) + factor * coefficient
    return linear(constant + factor * more_constant, collected)


def _moved(expr: Expr, by: int) -> Expr:
    """`expr + by`, as `linear` would make it: the terms are the same, and the bounds move along."""
    if type(expr) is Const:
        return const(expr.number + by)
    if by == 0:
        return expr
    if type(expr) is not Sum:
        return _multiple(by, expr, 1)
    constant, terms = expr.constant + by, expr.terms
    if len(terms) > 1:
        spend(len(terms) >> 1)
    elif constant == 0 and terms[0][1] == 1:
        return terms[0][0]
    key: list[object] = [Sum, constant]
    for term, coefficient in terms:
        key += (term.serial, coefficient)
    return _interned(Sum, tuple(key), expr.lo + by, expr.hi + by, expr.depth - 1, (constant, terms))


def sub(a: Expr, b: Expr) -> Expr:
    return add(a, b, -1)


def scale(a: Expr, factor: int) -> Expr:
    if factor == 1:
        return a
    return add(ZERO, a, factor)


def mul(a: Expr, b: Expr) -> Expr:
    """A product; sums are multiplied out, so that the steps of loops can be found."""
    if type(a) is Const:
        return scale(b, a.number)
    if type(b) is Const:
        return scale(a, b.number)
    constant_a, terms_a = terms_of(a)
    constant_b, terms_b = terms_of(b)
    if len(terms_a) * len(terms_b) > 16:
        return _product(a, b)
    collected: dict[Expr, int] = {}
    for term_a, coefficient_a in terms_a:
        for term_b, coefficient_b in terms_b:
            product = _product(term_a, term_b)
            collected[product] = collected.get(product, 0) + coefficient_a * coefficient_b
    for terms, factor in ((terms_a, constant_b), (terms_b, constant_a)):
        for term, coefficient in terms:
            collected[term] = collected.get(term, 0) + coefficient * factor
    return linear(constant_a * constant_b, collected)


def _factors(expr: Expr) -> tuple[Expr, ...]:
    return expr.factors if type(expr) is Product else (expr,)


def _product(a: Expr, b: Expr) -> Expr:
    factors = tuple(sorted((*_factors(a), *_factors(b)), key=lambda factor: factor.serial))
    lo = hi = 1
    for factor in factors:
        corners = lo * factor.lo, lo * factor.hi, hi * factor.lo, hi * factor.hi
        lo = max(min(*corners, INFINITE), -INFINITE)
        hi = min(max(*corners, -INFINITE), INFINITE)
    key = (Product, *[factor.serial for factor in factors])
    return _interned(Product, key, lo, hi, _depth(factors), (factors,))


def trunc_div(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a >= 0) == (b >= 0) else -1)


def div(a: Expr, b: Expr) -> Expr:
    """C's quotient. Division by zero is undefined in C: any value would do, and an unknown one is returned."""
    if type(b) is Const:
        divisor = b.number
        if divisor == 1:
            return a
        if divisor == 0:
            return unknown(-INFINITE, INFINITE)
        if type(a) is Const:
            return const(trunc_div(a.number, divisor))
        constant, terms = terms_of(a)
        if constant % divisor == 0 and all(coefficient % divisor == 0 for _, coefficient in terms):
            return linear(constant // divisor, {term: coefficient // divisor for term, coefficient in terms})
    largest = max(abs(a.lo), abs(a.hi))
    return _pair(Quotient, 0 if a.lo >= 0 and b.lo >= 0 else -largest, largest, a, b)


def mod(a: Expr, b: Expr) -> Expr:
    """C's remainder, with the sign of `a`."""
    if type(b) is Const:
        divisor = b.number
        if divisor == 0:
            return unknown(-INFINITE, INFINITE)
        if type(a) is Const:
            return const(a.number - trunc_div(a.number, divisor) * divisor)
        if abs(divisor) == 1:
            return ZERO
    largest = max(abs(b.lo), abs(b.hi)) - 1
    return _pair(Remainder, 0 if a.lo >= 0 else -largest, largest, a, b)


def shift_left(a: Expr, b: Expr) -> Expr:
    if type(b) is Const:
        return scale(a, 1 << b.number)
    return _pair(ShiftLeft, -INFINITE, INFINITE, a, b)


def shift_right(a: Expr, b: Expr) -> Expr:
    if type(b) is Const:
        if type(a) is Const:
            return const(a.number >> b.number)
        if b.number == 0:
            return a
    return _pair(ShiftRight, min(a.lo, 0), max(a.hi, 0), a, b)


def _mask(number: int) -> int:
    """The smallest 2**k - 1 that is not below `number`."""
    return (1 << number.bit_length()) - 1


def bit_and(a: Expr, b: Expr) -> Expr:
    if type(a) is Const and type(b) is Const:
        return const(a.number & b.number)
    if type(a) is Const:
        a, b = b, a
    if b is ZERO:
        return ZERO
    if type(b) is Const and b.number == -1:
        return a
    bounds = [x.hi for x in (a, b) if x.lo >= 0]
    lo, hi = (0, min(bounds)) if bounds else (-INFINITE, INFINITE)
    return _pair(BitAnd, lo, hi, a, b)


def bit_or(a: Expr, b: Expr) -> Expr:
    if type(a) is Const and type(b) is Const:
        return const(a.number | b.number)
    if a is ZERO or b is ZERO:
        return b if a is ZERO else a
    if type(a) is Const:
        a, b = b, a
    if a.lo >= 0 and b.lo >= 0:
        return _pair(BitOr, max(a.lo, b.lo), _mask(max(a.hi, b.hi)), a, b)
    return _pair(BitOr, -INFINITE, INFINITE, a, b)


def bit_xor(a: Expr, b: Expr) -> Expr:
    if type(a) is Const and type(b) is Const:
        return const(a.number ^ b.number)
    if a is ZERO or b is ZERO:
        return b if a is ZERO else a
    if type(a) is Const:
        a, b = b, a
    if type(b) is Const and b.number == -1:
        return add(const(-1), a, -1) if type(a) is Sum else linear(-1, {a: -1})
    if a.lo >= 0 and b.lo >= 0:
        return _pair(BitXor, 0, _mask(max(a.hi, b.hi)), a, b)
    return _pair(BitXor, -INFINITE, INFINITE, a, b)


def minimum(a: Expr, b: Expr) -> Expr:
    if a is b or a.hi <= b.lo:
        return a
    if b.hi <= a.lo:
        return b
    if a.serial > b.serial:
        a, b = b, a
    return _pair(Minimum, min(a.lo, b.lo), min(a.hi, b.hi), a, b)


def maximum(a: Expr, b: Expr) -> Expr:
    if a is b or a.lo >= b.hi:
        return a
    if b.lo >= a.hi:
        return b
    if a.serial > b.serial:
        a, b = b, a
    return _pair(Maximum, max(a.lo, b.lo), max(a.hi, b.hi), a, b)


def cast(kind: IntType, a: Expr) -> Expr:
    """The value of type `kind` congruent to `a`."""
    lo, hi = kind.lo, kind.hi
    if lo <= a.lo and a.hi <= hi:
        return a
    if type(a) is Const:
        return const(kind.wrap(a.number))
    return _interned(Cast, (Cast, a.serial, kind), lo, hi, a.depth, (a, kind))


def select(condition: Expr, a: Expr, b: Expr) -> Expr:
    """C's `condition ? a : b`, where neither the condition nor the choice is known; see `logic.select`."""
    key = (Select, condition.serial, a.serial, b.serial)
    return _interned(
        Select, key, min(a.lo, b.lo), max(a.hi, b.hi), _depth((condition, a, b)), (condition, a, b)
    )


# nodes as they were ---------------------------------------------------------------------------------
#
# Operands stay in the order in which they were written, so that what is read back says the same in the same words; they
# are looked for in the order of their age here.


def remade(kind: type[Interned], lo: int, hi: int, operands: tuple[Expr, ...]) -> Interned:
    """A node consisting of operands alone, as another process made it: not simplified again."""
    if len(operands) != (3 if kind is Select else 2 if issubclass(kind, Pair) else 1):
        raise ValueError(f"{kind.__name__} of {len(operands)} operands")
    numbers = [operand.serial for operand in operands]
    if kind in (Minimum, Maximum):
        numbers.sort()
    return _interned(kind, (kind, *numbers), lo, hi, _depth(operands), operands)


def remade_sum(lo: int, hi: int, constant: int, terms: tuple[tuple[Expr, int], ...]) -> Sum:
    """The same for a sum."""
    key: list[object] = [Sum, constant]
    for term, coefficient in sorted(terms, key=_age):
        key += (term.serial, coefficient)
    below = _depth([term for term, _ in terms])
    return _interned(Sum, tuple(key), lo, hi, below, (constant, terms))


def remade_product(lo: int, hi: int, factors: tuple[Expr, ...]) -> Product:
    """The same for a product."""
    return _interned(
        Product, (Product, *sorted(factor.serial for factor in factors)), lo, hi, _depth(factors), (factors,)
    )


def remade_cast(lo: int, hi: int, operand: Expr, kind: IntType) -> Cast:
    """The same for a conversion."""
    return _interned(Cast, (Cast, operand.serial, kind), lo, hi, operand.depth, (operand, kind))


def new_leaf(kind: type[Interned], lo: int, hi: int, *fields: object) -> Interned:
    """A leaf that equals no other; what is known of an exit is added later (`define`)."""
    return kind(lo, hi, next(_serial), 0, *fields)
