"""Expressions of OpenCL C with the bounds of what they can be: types, conversions, operators.

Decides what an operator may be applied to without undefined behaviour, and between which bounds its result lies. The
rules are the specification's (OpenCL C 3.0, 6.2 to 6.4; C99 6.3, 6.5), written down here anew: nothing of the analysis
under test is asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class IntType:
    """A scalar integer type."""

    name: str
    bits: int
    signed: bool

    @property
    def lo(self) -> int:
        return -(1 << (self.bits - 1)) if self.signed else 0

    @property
    def hi(self) -> int:
        return (1 << (self.bits - self.signed)) - 1

    @property
    def nbytes(self) -> int:
        return max(self.bits // 8, 1)

    @property
    def code(self) -> str:
        """NumPy's name."""
        return f"{'i' if self.signed else 'u'}{self.nbytes}"

    def partner(self, signed: bool) -> IntType:
        return of_bits(self.bits, signed)


CHAR, UCHAR = IntType("char", 8, True), IntType("uchar", 8, False)
SHORT, USHORT = IntType("short", 16, True), IntType("ushort", 16, False)
INT, UINT = IntType("int", 32, True), IntType("uint", 32, False)
LONG, ULONG = IntType("long", 64, True), IntType("ulong", 64, False)
BOOL = IntType("bool", 1, False)
INTS = (CHAR, UCHAR, SHORT, USHORT, INT, UINT, LONG, ULONG)
LENGTHS = (2, 3, 4, 8, 16)
_BY_SHAPE = {(t.bits, t.signed): t for t in INTS}


def of_bits(bits: int, signed: bool) -> IntType:
    return _BY_SHAPE[bits, signed]


@dataclass(frozen=True)
class Ex:
    """An expression whose text may stand beside any operator; `lo` and `hi` bound it, or each of its components.

    `n`: components of a vector, 1 for a scalar. `uniform`: the same for all work-items of a launch.
    """

    text: str
    t: IntType
    lo: int
    hi: int
    n: int = 1
    uniform: bool = False

    @property
    def type_name(self) -> str:
        return vector_name(self.t, self.n)

    @property
    def width(self) -> int:
        """Different values that it can have."""
        return self.hi - self.lo + 1


def vector_name(t: IntType, n: int) -> str:
    return t.name + (str(n) if n > 1 else "")


def converted(t: IntType, lo: int, hi: int) -> tuple[int, int]:
    """Bounds after a conversion to `t`, which wraps (a bool: 6.3.1.2)."""
    if t is BOOL:
        return (1, 1) if lo > 0 or hi < 0 else ((0, 0) if lo == hi == 0 else (0, 1))
    return (lo, hi) if t.lo <= lo and hi <= t.hi else (t.lo, t.hi)


def cast(t: IntType, e: Ex) -> Ex:
    """A scalar cast."""
    return Ex(f"(({t.name}){e.text})", t, *converted(t, e.lo, e.hi), uniform=e.uniform)


def constant(value: int, t: IntType = INT) -> Ex:
    if t.bits == 64:
        text = f"{value}{'L' if t.signed else 'UL'}"
        if value == t.lo and t.signed:
            text = f"({value + 1}L - 1)"
    elif t is UINT:
        text = f"{value}u"
    elif t is INT and value == t.lo:
        text = f"({value + 1} - 1)"
    else:
        text = str(value)
    if value < 0:
        text = f"({text})"
    if t.bits < 32:
        text = f"(({t.name}){text})"
    return Ex(text, t, value, value, uniform=True)


def promoted(t: IntType) -> IntType:
    return INT if t.bits < 32 else t


def common_type(a: IntType, b: IntType) -> IntType:
    """The usual arithmetic conversions (C99 6.3.1.8)."""
    a, b = promoted(a), promoted(b)
    if a.bits != b.bits:
        return a if a.bits > b.bits else b
    return a if not a.signed else b


def _span(numbers: Iterable[int]) -> tuple[int, int]:
    found = list(numbers)
    return min(found), max(found)


def _power(a: tuple[int, int]) -> int:
    """All of `a` lies in [-2**k, 2**k)."""
    return max(a[0].bit_length() if a[0] >= 0 else (-a[0] - 1).bit_length(), max(a[1], 0).bit_length())


def _bitwise(op: str, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    if a[0] >= 0 and b[0] >= 0:
        if op == "&":
            return 0, min(a[1], b[1])
        return 0, (1 << max(a[1].bit_length(), b[1].bit_length())) - 1
    if op == "&" and (a[0] >= 0 or b[0] >= 0):
        return 0, a[1] if a[0] >= 0 else b[1]
    size = 1 << max(_power(a), _power(b))
    return -size, size - 1


def truncated(a: int, b: int) -> int:
    """C's quotient."""
    return abs(a) // abs(b) * (1 if (a >= 0) == (b >= 0) else -1)


def _remainder(a: tuple[int, int], divisor: int) -> tuple[int, int]:
    most = abs(divisor) - 1
    return -min(most, max(-a[0], 0)), min(most, max(a[1], 0))


def bounds(op: str, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    """Bounds of `a op b` in unlimited integers. Divisors and shifts are single values or bounded away from 0."""
    if op == "+":
        return a[0] + b[0], a[1] + b[1]
    if op == "-":
        return a[0] - b[1], a[1] - b[0]
    if op == "*":
        return _span(x * y for x in a for y in b)
    if op == "/":
        return _span(truncated(x, y) for x in (*a, *([0] if a[0] < 0 < a[1] else [])) for y in b)
    if op == "%":
        return _remainder(a, max(abs(b[0]), abs(b[1])))
    if op == "<<":
        return _span(x << y for x in a for y in b)
    if op == ">>":
        return _span(x >> y for x in a for y in b)
    return _bitwise(op, a, b)


def bits_of_either(t: IntType, a: Ex, b: Ex) -> tuple[int, int]:
    """Bounds of numbers each of whose bits is one of two others': where those may have different signs, of all numbers."""
    low, high = min(a.lo, b.lo), max(a.hi, b.hi)
    if low < 0 <= high:
        return t.lo, t.hi
    return (0, (1 << high.bit_length()) - 1) if low >= 0 else (-1 << (~low).bit_length(), -1)


COMPARISONS = ("<", ">", "<=", ">=", "==", "!=")


def scalar_operation(op: str, a: Ex, b: Ex) -> Ex | None:
    """`a op b` of scalars; None where it might be undefined (signed overflow, C99 6.5p5)."""
    uniform = a.uniform and b.uniform
    if op in ("<<", ">>"):
        t, left = promoted(a.t), (a.lo, a.hi)
        if b.lo < 0 or b.hi >= t.bits:
            return None
    else:
        t = common_type(a.t, b.t)
        left = converted(t, a.lo, a.hi)
    right = (b.lo, b.hi) if op in ("<<", ">>") else converted(t, b.lo, b.hi)
    if op in ("/", "%") and (right[0] <= 0 <= right[1] or (t.signed and right[0] <= -1 <= right[1])):
        return None
    if op == "<<" and t.signed and left[0] < 0:
        return None
    lo, hi = bounds(op, left, right)
    if lo < t.lo or hi > t.hi:
        if t.signed:
            return None
        lo, hi = t.lo, t.hi
    return Ex(f"({a.text} {op} {b.text})", t, lo, hi, uniform=uniform)


def vector_operation(op: str, a: Ex, b: Ex) -> Ex | None:
    """`a op b` of two vectors of one type: no promotion (6.4.a)."""
    t = a.t
    if op in ("<<", ">>") and (b.lo < 0 or b.hi >= t.bits):
        return None
    if op in ("/", "%") and (b.lo <= 0 <= b.hi or (t.signed and b.lo <= -1 <= b.hi)):
        return None
    if op == "<<" and t.signed and a.lo < 0:
        return None
    lo, hi = bounds(op, (a.lo, a.hi), (b.lo, b.hi))
    if lo < t.lo or hi > t.hi:
        if t.signed:
            return None
        lo, hi = t.lo, t.hi
    return Ex(f"({a.text} {op} {b.text})", t, lo, hi, a.n, a.uniform and b.uniform)


def join(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    return min(a[0], b[0]), max(a[1], b[1])


def counts(kind: str, e: Ex) -> tuple[int, int]:
    """Bounds of popcount, clz or ctz."""
    if e.lo < 0 or (kind == "ctz" and e.lo == 0):
        return 0, e.t.bits
    if kind == "ctz":
        return 0, e.hi.bit_length() - 1
    if kind == "clz":
        return e.t.bits - e.hi.bit_length(), e.t.bits - e.lo.bit_length()
    return int(e.lo > 0), e.hi.bit_length()
