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

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from math import gcd
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

#: Stands for "no bound"; sums and products of a few of them still compare as intended.
INFINITE = 1 << 100

#: Where a truth value comes from that nobody knows, as messages have it.
LOOP_END = "how long a loop runs"

_serial = count()


class IntType(NamedTuple):
    """An integer type of OpenCL C: its width in bits and whether it has a sign."""

    bits: int
    signed: bool

    @property
    def lo(self) -> int:
        return -(1 << (self.bits - 1)) if self.signed else 0

    @property
    def hi(self) -> int:
        return (1 << (self.bits - 1)) - 1 if self.signed else (1 << self.bits) - 1

    def wrap(self, number: int) -> int:
        """The representative of `number` modulo 2**bits in the type's range."""
        return (number - self.lo) % (1 << self.bits) + self.lo


BOOL = IntType(1, False)
INT = IntType(32, True)
UINT = IntType(32, False)
LONG = IntType(64, True)
ULONG = IntType(64, False)


class Expr:
    """One node. Nodes are interned: equal expressions are (nearly always) the same object; a lost sharing
    costs precision only.

    `lo` and `hi` bound the value for any launch. `op` and `args`:

    ==========  ====================================================================================
    const       (number,)
    sum         (constant, ((node, coefficient), …)) sorted by age
    mul         (a, b)
    div mod     (a, b): C's, towards zero
    shl shr     (a, b): shr rounds down
    and or xor  (a, b)
    min max     (a, b)
    select      (condition, a, b)
    cast        (bits, signed, a)
    ge0 eq0 ne0 (a,): comparisons with zero
    land lor    (a, b)
    not         (a,): of an unknown truth value
    leaves      gid group lid gsize lsize whole_lsize ngroups goffset (dimension,), workdim (),
                arg (index, byte, bits, signed),
                loop (serial,), head (serial,), exit (serial,), unknown (serial,)
    ==========  ====================================================================================
    """

    __slots__ = ("__weakref__", "_leaves", "args", "definition", "hi", "lo", "op", "origin", "serial")

    def __init__(self, op: str, args: tuple[Any, ...], lo: int, hi: int) -> None:
        self.op = op
        self.args = args
        self.lo = lo
        self.hi = hi
        self.serial = next(_serial)
        self._leaves: frozenset[Expr] | None = None
        #: of an `exit` leaf: what is known of the loop it counts
        self.definition: Trips | None = None
        #: of an `unknown` leaf: where its value comes from, for messages
        self.origin = ""

    @property
    def leaves(self) -> frozenset[Expr]:
        """All leaves of the expression."""
        found = self._leaves
        if found is None:
            if self.op in LEAVES:
                found = frozenset((self,))
            else:
                found = frozenset().union(*(child.leaves for child in children(self)))
            self._leaves = found
        return found

    def __repr__(self) -> str:
        from .report import show

        return show(self)


@dataclass(frozen=True)
class Trips:
    """What is known of T, the number of times a loop's body ran to its end.

    Either T is 0 and `none` holds, or `before` (the body is entered for the last time), and `after` in both
    cases; `exact`: these hold for one T only.
    """

    none: Expr
    before: Expr
    after: Expr
    exact: bool

    @property
    def parts(self) -> tuple[Expr, Expr, Expr]:
        return self.none, self.before, self.after


LEAVES = frozenset(
    [
        "gid",
        "group",
        "lid",
        "gsize",
        "lsize",
        "whole_lsize",
        "ngroups",
        "goffset",
        "workdim",
        "arg",
        "loop",
        "head",
        "exit",
        "unknown",
    ]
)

_nodes: WeakValueDictionary[tuple[Any, ...], Expr] = WeakValueDictionary()


def _key(op: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """What equal nodes share. It has the operands' numbers: the operands themselves would keep an `exit` leaf
    alive among them, that its definition, and this the node whose key it is, for ever.
    """
    if op == "sum":
        return (op, args[0], *[(term.serial, coefficient) for term, coefficient in args[1]])
    return (op, *[arg.serial if type(arg) is Expr else arg for arg in args])


def node(op: str, args: tuple[Any, ...], lo: int = -INFINITE, hi: int = INFINITE) -> Expr:
    """The node of `op` and `args`, whose value is from `lo` to `hi`."""
    key = _key(op, args)
    found = _nodes.get(key)
    if found is None:
        found = Expr(op, args, lo, hi)
        _nodes[key] = found
    return found


def children(expr: Expr) -> list[Expr]:
    """The operands that are expressions."""
    if expr.op == "sum":
        return [term for term, _ in expr.args[1]]
    return [arg for arg in expr.args if isinstance(arg, Expr)]


# leaves ---------------------------------------------------------------------------------------------


_SMALL = {number: Expr("const", (number,), number, number) for number in range(-1, 65)}


def const(number: int) -> Expr:
    small = _SMALL.get(number)
    return small if small is not None else node("const", (number,), number, number)


ZERO, ONE = const(0), const(1)

#: Bounds of the work-item functions for any launch; sizes of a work-group fit an `int` on every device.
_ID_BOUNDS = {
    "gid": (0, ULONG.hi),
    "group": (0, LONG.hi),
    "lid": (0, INT.hi),
    "gsize": (1, ULONG.hi),
    "lsize": (1, INT.hi),
    "whole_lsize": (1, INT.hi),
    "ngroups": (1, LONG.hi),
    "goffset": (0, ULONG.hi),
}


def workitem(op: str, dimension: int) -> Expr:
    """One of `get_global_id` (gid), `get_group_id` (group) … in a dimension from 0 to 2."""
    return node(op, (dimension,), *_ID_BOUNDS[op])


WORK_DIM = node("workdim", (), 1, 3)


def argument(index: int, byte: int, kind: IntType) -> Expr:
    """The integer at `byte` of the value argument `index`."""
    return node("arg", (index, byte, kind.bits, kind.signed), kind.lo, kind.hi)


def unknown(lo: int, hi: int, origin: str = "") -> Expr:
    """A value of which only bounds are known; every call makes a new one."""
    leaf = Expr("unknown", (next(_serial),), lo, hi)
    leaf.origin = origin
    _nodes[_key(leaf.op, leaf.args)] = leaf
    return leaf


def counter(op: str) -> Expr:
    """A new `loop` counter, `exit` count (both from 0 on) or loop `head` value (any)."""
    leaf = Expr(op, (next(_serial),), -INFINITE if op == "head" else 0, INFINITE)
    _nodes[_key(leaf.op, leaf.args)] = leaf
    return leaf


def trips(define: Callable[[Expr], Trips]) -> Expr:
    """A new `exit` leaf T with `define(T)` as what is known of it."""
    leaf = counter("exit")
    definition = define(leaf)
    leaf.definition = definition
    # Not through `leaves`, which would keep sets for expressions of this leaf before its own set is complete.
    found = {leaf}
    pending = [*definition.parts]
    seen: set[Expr] = set()
    while pending:
        expr = pending.pop()
        if expr not in seen:
            seen.add(expr)
            if expr.op in LEAVES:
                found |= expr.leaves if expr is not leaf else set()
            else:
                pending += children(expr)
    leaf._leaves = frozenset(found)
    return leaf


def congruence(expr: Expr) -> tuple[int, int]:
    """(m, r) with `expr` = r modulo m whatever its leaves are; m = 0 where it is r itself.

    >>> i = workitem("gid", 0)
    >>> congruence(add(scale(i, 12), const(20)))
    (12, 8)
    """
    return _congruence(expr, {})


def _congruence(expr: Expr, known: dict[Expr, tuple[int, int]]) -> tuple[int, int]:
    """`known`: of what has been met, as one operand may be part of many."""
    found = known.get(expr)
    if found is None:
        modulus, residue = _congruence_of_parts(expr.op, expr.args, lambda part: _congruence(part, known))
        found = known[expr] = (modulus, residue % modulus if modulus else residue)
    return found


def _congruence_of_parts(
    op: str, args: tuple[Any, ...], of: Callable[[Expr], tuple[int, int]]
) -> tuple[int, int]:
    if op == "const":
        return 0, args[0]
    if op == "sum":
        modulus, residue = 0, args[0]
        for term, coefficient in args[1]:
            m, r = of(term)
            modulus, residue = gcd(modulus, coefficient * m), residue + coefficient * r
        return modulus, residue
    if op == "mul":
        modulus, residue = 0, 1
        for factor in args:
            m, r = of(factor)
            modulus, residue = gcd(modulus * m, modulus * r, residue * m), residue * r
        return modulus, residue
    if op == "cast":  # the same modulo 2**bits
        m, r = of(args[2])
        return gcd(m, 1 << args[0]), r
    if op in ("min", "max", "select"):
        (m, r), (n, s) = of(args[-2]), of(args[-1])
        return gcd(m, n, r - s), r
    return 1, 0


# arithmetic -----------------------------------------------------------------------------------------


def terms_of(expr: Expr) -> tuple[int, tuple[tuple[Expr, int], ...]]:
    if expr.op == "sum":
        return expr.args[0], expr.args[1]
    if expr.op == "const":
        return expr.args[0], ()
    return 0, ((expr, 1),)


def linear(constant: int, terms: Mapping[Expr, int]) -> Expr:
    """`constant` plus the sum of coefficient times node."""
    kept = [(term, coefficient) for term, coefficient in terms.items() if coefficient]
    if not kept:
        return const(constant)
    if constant == 0 and len(kept) == 1 and kept[0][1] == 1:
        return kept[0][0]
    kept.sort(key=_age)
    lo = hi = constant
    for term, coefficient in kept:
        if coefficient > 0:
            lo += coefficient * term.lo
            hi += coefficient * term.hi
        else:
            lo += coefficient * term.hi
            hi += coefficient * term.lo
    return node("sum", (constant, tuple(kept)), lo, hi)


def _age(item: tuple[Expr, int]) -> int:
    return item[0].serial


def add(a: Expr, b: Expr, factor: int = 1) -> Expr:
    """`a + factor * b`."""
    if b is ZERO or factor == 0:
        return a
    if a is ZERO and factor == 1:
        return b
    constant, terms = terms_of(a)
    more_constant, more = terms_of(b)
    collected = dict(terms)
    for term, coefficient in more:
        collected[term] = collected.get(term, 0) + factor * coefficient
    return linear(constant + factor * more_constant, collected)


def sub(a: Expr, b: Expr) -> Expr:
    return add(a, b, -1)


def scale(a: Expr, factor: int) -> Expr:
    if factor == 1:
        return a
    return add(ZERO, a, factor)


def mul(a: Expr, b: Expr) -> Expr:
    """A product; sums are multiplied out, so that steps of loops are found."""
    if a.op == "const":
        return scale(b, a.args[0])
    if b.op == "const":
        return scale(a, b.args[0])
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
    return expr.args if expr.op == "mul" else (expr,)


def _product(a: Expr, b: Expr) -> Expr:
    factors = tuple(sorted((*_factors(a), *_factors(b)), key=lambda factor: factor.serial))
    corners = [1]
    for factor in factors:
        corners = [
            max(min(c * bound, INFINITE), -INFINITE) for c in corners for bound in (factor.lo, factor.hi)
        ]
        corners = [min(corners), max(corners)]
    return node("mul", factors, min(corners), max(corners))


def trunc_div(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a >= 0) == (b >= 0) else -1)


def div(a: Expr, b: Expr) -> Expr:
    """C's quotient. Division by zero is undefined in C: any value would do, an unknown one is returned."""
    if b.op == "const":
        divisor = b.args[0]
        if divisor == 1:
            return a
        if divisor == 0:
            return unknown(-INFINITE, INFINITE)
        if a.op == "const":
            return const(trunc_div(a.args[0], divisor))
        constant, terms = terms_of(a)
        if constant % divisor == 0 and all(coefficient % divisor == 0 for _, coefficient in terms):
            return linear(constant // divisor, {term: coefficient // divisor for term, coefficient in terms})
    largest = max(abs(a.lo), abs(a.hi))
    return node("div", (a, b), 0 if a.lo >= 0 and b.lo >= 0 else -largest, largest)


def mod(a: Expr, b: Expr) -> Expr:
    """C's remainder, with the sign of `a`."""
    if b.op == "const":
        divisor = b.args[0]
        if divisor == 0:
            return unknown(-INFINITE, INFINITE)
        if a.op == "const":
            return const(a.args[0] - trunc_div(a.args[0], divisor) * divisor)
        if abs(divisor) == 1:
            return ZERO
    largest = max(abs(b.lo), abs(b.hi)) - 1
    return node("mod", (a, b), 0 if a.lo >= 0 else -largest, largest)


def shift_left(a: Expr, b: Expr) -> Expr:
    if b.op == "const":
        return scale(a, 1 << b.args[0])
    return node("shl", (a, b))


def shift_right(a: Expr, b: Expr) -> Expr:
    if b.op == "const":
        if a.op == "const":
            return const(a.args[0] >> b.args[0])
        if b.args[0] == 0:
            return a
    return node("shr", (a, b), min(a.lo, 0), max(a.hi, 0))


def _mask(number: int) -> int:
    """The smallest 2**k - 1 that is not below `number`."""
    return (1 << number.bit_length()) - 1


def bit_and(a: Expr, b: Expr) -> Expr:
    if a.op == "const" and b.op == "const":
        return const(a.args[0] & b.args[0])
    if a.op == "const":
        a, b = b, a
    if b is ZERO:
        return ZERO
    if b.op == "const" and b.args[0] == -1:
        return a
    bounds = [x.hi for x in (a, b) if x.lo >= 0]
    lo, hi = (0, min(bounds)) if bounds else (-INFINITE, INFINITE)
    return node("and", (a, b), lo, hi)


def bit_or(a: Expr, b: Expr) -> Expr:
    if a.op == "const" and b.op == "const":
        return const(a.args[0] | b.args[0])
    if a is ZERO or b is ZERO:
        return b if a is ZERO else a
    if a.op == "const":
        a, b = b, a
    if a.lo >= 0 and b.lo >= 0:
        return node("or", (a, b), max(a.lo, b.lo), _mask(max(a.hi, b.hi)))
    return node("or", (a, b))


def bit_xor(a: Expr, b: Expr) -> Expr:
    if a.op == "const" and b.op == "const":
        return const(a.args[0] ^ b.args[0])
    if a is ZERO or b is ZERO:
        return b if a is ZERO else a
    if a.op == "const":
        a, b = b, a
    if b.op == "const" and b.args[0] == -1:
        return linear(-1, {a: -1}) if a.op != "sum" else add(const(-1), a, -1)
    if a.lo >= 0 and b.lo >= 0:
        return node("xor", (a, b), 0, _mask(max(a.hi, b.hi)))
    return node("xor", (a, b))


def minimum(a: Expr, b: Expr) -> Expr:
    if a is b or a.hi <= b.lo:
        return a
    if b.hi <= a.lo:
        return b
    if a.serial > b.serial:
        a, b = b, a
    return node("min", (a, b), min(a.lo, b.lo), min(a.hi, b.hi))


def maximum(a: Expr, b: Expr) -> Expr:
    if a is b or a.lo >= b.hi:
        return a
    if b.lo >= a.hi:
        return b
    if a.serial > b.serial:
        a, b = b, a
    return node("max", (a, b), max(a.lo, b.lo), max(a.hi, b.hi))


def cast(kind: IntType, a: Expr) -> Expr:
    """The value of type `kind` congruent to `a`."""
    lo, hi = kind.lo, kind.hi
    if lo <= a.lo and a.hi <= hi:
        return a
    if a.op == "const":
        return const(kind.wrap(a.args[0]))
    return node("cast", (kind.bits, kind.signed, a), lo, hi)
