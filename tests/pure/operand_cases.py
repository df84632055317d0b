"""Expressions over every operator and integer function of OpenCL C, with operands of every shape, and what each gives.

What an expression gives is written down from the specification (OpenCL C 6.2, 6.3, 6.13.3, 6.13.6; C99 6.3.1, 6.5), on
Python's integers, without a look at the analysis. Where the specification leaves the result open, it is None.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple


class Kind(NamedTuple):
    """An integer type."""

    name: str
    bits: int
    signed: bool

    @property
    def low(self) -> int:
        return -(1 << (self.bits - 1)) if self.signed else 0

    @property
    def high(self) -> int:
        return self.low + (1 << self.bits) - 1

    def wrap(self, number: int) -> int:
        return (number - self.low) % (1 << self.bits) + self.low

    def within(self, number: int) -> int:
        return min(max(number, self.low), self.high)


KINDS = {
    name: Kind(name, bits, signed)
    for bits, names in ((8, "char"), (16, "short"), (32, "int"), (64, "long"))
    for name, signed in ((names, True), (f"u{names}", False))
}
INT, LONG = KINDS["int"], KINDS["long"]
WIDTHS = (2, 3, 4, 8, 16)

Rule = Callable[..., int | None]


@dataclass(frozen=True)
class Operand:
    """A parameter: an integer or a vector of them."""

    kind: Kind
    width: int = 1

    @property
    def type(self) -> str:
        return self.kind.name + (str(self.width) if self.width > 1 else "")

    def pack(self, values: Sequence[int]) -> bytes:
        """As the host passes it: three components take the room of four."""
        room = 4 if self.width == 3 else self.width
        size = self.kind.bits // 8
        parts = [value.to_bytes(size, "little", signed=self.kind.signed) for value in values]
        return b"".join(parts).ljust(room * size, b"\0")


@dataclass(frozen=True)
class Case:
    """`text` is an expression over parameters `a`, `b`, `c` that gives one integer; `rule` gets one value for each
    parameter that is a number, and the tuple of all components for each that is a vector."""

    text: str
    operands: tuple[Operand, ...]
    rule: Rule

    def expected(self, values: Sequence[tuple[int, ...]]) -> int | None:
        """The result as a `long`; None where the specification leaves it open."""
        pairs = zip(self.operands, values, strict=True)
        found = self.rule(*(value if o.width > 1 else value[0] for o, value in pairs))
        return None if found is None else LONG.wrap(found)


# what operators give --------------------------------------------------------------------------------


def promoted(kind: Kind) -> Kind:
    return INT if kind.bits < 32 else kind


def common(a: Kind, b: Kind) -> Kind:
    """The usual arithmetic conversions (C99 6.3.1.8)."""
    a, b = promoted(a), promoted(b)
    if a.bits != b.bits:
        return a if a.bits > b.bits else b
    return a if not a.signed else b


def quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "/": quotient,
    "%": lambda a, b: a - b * quotient(a, b),
}
COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "&&": lambda a, b: bool(a and b),
    "||": lambda a, b: bool(a or b),
}


def calculate(operator: str, a: int, b: int, kind: Kind) -> int | None:
    """`a operator b` on operands of type `kind`."""
    if operator in ("<<", ">>"):
        amount = b % kind.bits  # 6.3.j
        return kind.wrap(a << amount if operator == "<<" else a >> amount)
    if operator in "/%" and (b == 0 or (kind.signed and a == kind.low and b == -1)):
        return None
    found = ARITHMETIC[operator](a, b)
    if kind.signed and kind.bits >= INT.bits and found != kind.wrap(found):
        return None  # C99 6.5p5: engines go on with a wider register
    return kind.wrap(found)


def scalar_binary(operator: str, x: Kind, y: Kind) -> tuple[Rule, Kind]:
    """The rule of an operator on two numbers, and its result's type."""
    if operator in ("&&", "||"):
        return lambda a, b: int(COMPARISONS[operator](a, b)), INT
    kind = promoted(x) if operator in ("<<", ">>") else common(x, y)
    if operator in COMPARISONS:
        return lambda a, b: int(COMPARISONS[operator](kind.wrap(a), kind.wrap(b))), INT
    if operator in ("<<", ">>"):
        return lambda a, b: calculate(operator, a, b, kind), kind
    return lambda a, b: calculate(operator, kind.wrap(a), kind.wrap(b), kind), kind


def component(operator: str, a: int, b: int, kind: Kind) -> int | None:
    """One component of an operator on vectors: what is true is -1 (6.3.d to 6.3.g)."""
    if operator in COMPARISONS:
        return -int(COMPARISONS[operator](a, b))
    return calculate(operator, a, b, kind)


def signed(kind: Kind) -> Kind:
    return KINDS[kind.name.removeprefix("u")]


def unsigned(kind: Kind) -> Kind:
    return KINDS["u" + kind.name.removeprefix("u")]


OPERATORS = (*ARITHMETIC, "<<", ">>", *COMPARISONS)


def _binaries() -> Iterator[Case]:
    for x, y, operator in product(KINDS.values(), KINDS.values(), OPERATORS):
        rule, _ = scalar_binary(operator, x, y)
        yield Case(f"a {operator} b", (Operand(x), Operand(y)), rule)


def _vector_binaries() -> Iterator[Case]:
    for kind, width, operator in product(KINDS.values(), WIDTHS, OPERATORS):
        at = (5 * width + ord(operator[0])) % width
        vector = Operand(kind, width)

        def rule(
            a: tuple[int, ...], b: tuple[int, ...], *, o: str = operator, k: Kind = kind, i: int = at
        ) -> int | None:
            return component(o, a[i], b[i], k)

        def with_number(
            a: tuple[int, ...], b: int, *, o: str = operator, k: Kind = kind, i: int = at
        ) -> int | None:
            return component(o, a[i], b, k)

        def number_first(
            a: int, b: tuple[int, ...], *, o: str = operator, k: Kind = kind, i: int = at
        ) -> int | None:
            return component(o, a, b[i], k)

        yield Case(f"(a {operator} b).s{at:x}", (vector, vector), rule)
        yield Case(f"(a {operator} b).s{at:x}", (vector, Operand(kind)), with_number)
        if operator not in ("<<", ">>"):
            yield Case(f"(a {operator} b).s{at:x}", (Operand(kind), vector), number_first)


def _updates() -> Iterator[Case]:
    for x, y, operator in product(KINDS.values(), KINDS.values(), (*ARITHMETIC, "<<", ">>")):
        of, _ = scalar_binary(operator, x, y)

        def rule(a: int, b: int, *, of: Rule = of, x: Kind = x) -> int | None:
            found = of(a, b)
            return None if found is None else x.wrap(found)

        yield Case(f"({{ {x.name} x = a; x {operator}= b; x; }})", (Operand(x), Operand(y)), rule)
        yield Case(f"({{ {x.name} x = a; (x {operator}= b); }})", (Operand(x), Operand(y)), rule)
    for kind, width, operator in product(KINDS.values(), WIDTHS, (*ARITHMETIC, "<<", ">>")):
        vector, at = Operand(kind, width), width - 1

        def by_number(
            a: tuple[int, ...], b: int, *, o: str = operator, k: Kind = kind, i: int = at
        ) -> int | None:
            return component(o, a[i], b, k)

        text = f"({{ {vector.type} x = a; x {operator}= b; x.s{at:x}; }})"
        yield Case(text, (vector, Operand(kind)), by_number)


def _unaries() -> Iterator[Case]:
    for kind in KINDS.values():
        wide = promoted(kind)
        one = (Operand(kind),)
        yield Case("-a", one, lambda a, k=wide: k.wrap(-a))
        yield Case("~a", one, lambda a, k=wide: k.wrap(~a))
        yield Case("+a", one, lambda a: a)
        yield Case("!a", one, lambda a: int(not a))
        yield Case(f"({{ {kind.name} x = a; ++x; }})", one, lambda a, k=kind: k.wrap(a + 1))
        yield Case(f"({{ {kind.name} x = a; x--; x; }})", one, lambda a, k=kind: k.wrap(a - 1))
        yield Case(f"({{ {kind.name} x = a; x++; }})", one, lambda a: a)
        yield Case("({ bool x = a; x++; x; })", one, lambda a: 1)
        for width in WIDTHS:
            many, i = (Operand(kind, width),), width // 2
            yield Case(f"(-a).s{i:x}", many, lambda a, k=kind, i=i: k.wrap(-a[i]))
            yield Case(f"(~a).s{i:x}", many, lambda a, k=kind, i=i: k.wrap(~a[i]))
            yield Case(f"(!a).s{i:x}", many, lambda a, i=i: -int(not a[i]))
            text = f"({{ {many[0].type} x = a; ++x; x.s{i:x}; }})"
            yield Case(text, many, lambda a, k=kind, i=i: k.wrap(a[i] + 1))


def _conversions() -> Iterator[Case]:
    for x, y in product(KINDS.values(), KINDS.values()):
        one = (Operand(x),)
        yield Case(f"({y.name})a", one, lambda a, y=y: y.wrap(a))
        yield Case(f"convert_{y.name}(a)", one, lambda a, y=y: y.wrap(a))
        yield Case(f"convert_{y.name}_sat(a)", one, lambda a, y=y: y.within(a))
        yield Case(f"convert_{y.name}_sat_rte(a)", one, lambda a, y=y: y.within(a))
        for width in WIDTHS:
            many, i = (Operand(x, width),), (x.bits + width) % width
            yield Case(f"convert_{y.name}{width}(a).s{i:x}", many, lambda a, y=y, i=i: y.wrap(a[i]))
            yield Case(f"convert_{y.name}{width}_sat(a).s{i:x}", many, lambda a, y=y, i=i: y.within(a[i]))
            # A number that becomes a vector is converted first; a bool becomes all bits.
            yield Case(f"(({y.name}{width})a).s{i:x}", one, lambda a, y=y: y.wrap(a))
            yield Case(f"(({y.name}{width})(bool)a).s{i:x}", one, lambda a, y=y: y.wrap(-int(a != 0)))
            text = f"({{ bool x = a; {y.name}{width} v = x; v.s{i:x}; }})"
            yield Case(text, one, lambda a, y=y: y.wrap(-int(a != 0)))
            text = f"({{ bool x = a; {y.name}{width} v = 0; v += x; v.s{i:x}; }})"
            if y.bits > 1:
                yield Case(text, one, lambda a: int(a != 0))
        yield Case(f"({y.name})(bool)a", one, lambda a: int(a != 0))


def _reinterpretations() -> Iterator[Case]:
    for x, y, width in product(KINDS.values(), KINDS.values(), (1, 2, 4, 8, 16)):
        count = x.bits * width // y.bits
        if count not in (1, 2, 4, 8, 16):
            continue
        target, operand = Operand(y, count), Operand(x, width)
        last = count - 1

        def rule(a: int | tuple[int, ...], *, o: Operand = operand, k: Kind = y, i: int = last) -> int:
            data = o.pack(a if isinstance(a, tuple) else (a,))
            part = data[i * k.bits // 8 : (i + 1) * k.bits // 8]
            return int.from_bytes(part, "little", signed=k.signed)

        suffix = f".s{last:x}" if count > 1 else ""
        yield Case(f"as_{target.type}(a){suffix}", (operand,), rule)


def _choices() -> Iterator[Case]:
    for x, y, z in product(KINDS.values(), KINDS.values(), KINDS.values()):
        kind = common(y, z)
        operands = (Operand(x), Operand(y), Operand(z))
        yield Case("a ? b : c", operands, lambda a, b, c, k=kind: k.wrap(b if a else c))
    for kind in KINDS.values():
        for by in (signed(kind), unsigned(kind)):
            one = (Operand(kind), Operand(kind), Operand(by))
            yield Case("select(a, b, c)", one, lambda a, b, c: b if c else a)
            for width in WIDTHS:
                i = (width + kind.bits) % width
                many = (Operand(kind, width), Operand(kind, width), Operand(by, width))

                def selected(
                    a: tuple[int, ...], b: tuple[int, ...], c: tuple[int, ...], *, i: int = i, k: Kind = by
                ) -> int:
                    return b[i] if c[i] >> (k.bits - 1) & 1 else a[i]

                yield Case(f"select(a, b, c).s{i:x}", many, selected)
                if by.signed:
                    yield Case(f"(c ? b : a).s{i:x}", many, selected)


BY_TYPE: dict[str, tuple[int, Callable[..., int | None]]] = {
    "min(a, b)": (2, lambda k, a, b: min(a, b)),
    "max(a, b)": (2, lambda k, a, b: max(a, b)),
    "clamp(a, b, c)": (3, lambda k, a, b, c: min(max(a, b), c) if b <= c else None),
    "abs(a)": (1, lambda k, a: abs(a)),
    "abs_diff(a, b)": (2, lambda k, a, b: abs(a - b)),
    "add_sat(a, b)": (2, lambda k, a, b: k.within(a + b)),
    "sub_sat(a, b)": (2, lambda k, a, b: k.within(a - b)),
    "mad_sat(a, b, c)": (3, lambda k, a, b, c: k.within(a * b + c)),
    "hadd(a, b)": (2, lambda k, a, b: (a + b) >> 1),
    "rhadd(a, b)": (2, lambda k, a, b: (a + b + 1) >> 1),
    "mul_hi(a, b)": (2, lambda k, a, b: a * b >> k.bits),
    "mad_hi(a, b, c)": (3, lambda k, a, b, c: k.wrap((a * b >> k.bits) + c)),
    "rotate(a, b)": (
        2,
        lambda k, a, b: k.wrap((a % (1 << k.bits)) * ((1 << b % k.bits) * ((1 << k.bits) + 1)) >> k.bits),
    ),
    "clz(a)": (1, lambda k, a: k.bits - (a % (1 << k.bits)).bit_length()),
    "ctz(a)": (1, lambda k, a: ((a & -a).bit_length() - 1) if a else k.bits),
    "popcount(a)": (1, lambda k, a: bin(a % (1 << k.bits)).count("1")),
    "bitselect(a, b, c)": (3, lambda k, a, b, c: k.wrap((a & ~c) | (b & c))),
}


def _functions() -> Iterator[Case]:
    for kind, (call, (count, rule)) in product(KINDS.values(), BY_TYPE.items()):
        yield Case(call, (Operand(kind),) * count, lambda *v, k=kind, r=rule: r(k, *v))
        for width in WIDTHS:
            i = (kind.bits + 3 * width + 1) % width
            many = (Operand(kind, width),) * count
            yield Case(f"{call}.s{i:x}", many, lambda *v, k=kind, r=rule, i=i: r(k, *(x[i] for x in v)))
            if call in ("min(a, b)", "max(a, b)"):
                mixed = (Operand(kind, width), Operand(kind))
                yield Case(f"{call}.s{i:x}", mixed, lambda a, b, k=kind, r=rule, i=i: r(k, a[i], b))
    for kind, width in product(KINDS.values(), WIDTHS):
        if kind.signed:
            many = (Operand(kind, width),)
            yield Case("any(a)", many, lambda a: int(any(x < 0 for x in a)))
            yield Case("all(a)", many, lambda a: int(all(x < 0 for x in a)))
    for kind in KINDS.values():
        if kind.signed:
            yield Case("any(a)", (Operand(kind),), lambda a: int(a < 0))
            yield Case("all(a)", (Operand(kind),), lambda a: int(a < 0))
        if kind.bits < 64:
            high, low = Operand(kind), Operand(unsigned(kind))
            yield Case("upsample(a, b)", (high, low), lambda a, b, k=kind: (a << k.bits) + b)
    for kind in (INT, KINDS["uint"]):
        narrow = Kind("", 24, kind.signed)

        def fits(*numbers: int, n: Kind = narrow) -> bool:
            return all(n.low <= x <= n.high for x in numbers)

        two, three = (Operand(kind),) * 2, (Operand(kind),) * 3
        yield Case("mul24(a, b)", two, lambda a, b, k=kind, f=fits: k.wrap(a * b) if f(a, b) else None)
        yield Case(
            "mad24(a, b, c)", three, lambda a, b, c, k=kind, f=fits: k.wrap(a * b + c) if f(a, b) else None
        )


def _floating() -> Iterator[Case]:
    """Comparisons of floating-point numbers, which are not followed: only that the result is 0, 1 or -1 is known."""
    relations = {"isless": "<", "isgreater": ">", "isequal": "==", "isnotequal": "!=", "islessequal": "<="}
    for name, operator in relations.items():
        holds, kind = COMPARISONS[operator], KINDS["short"]
        two = (Operand(kind),) * 2
        yield Case(f"{name}((float)a, (float)b)", two, lambda a, b, h=holds: int(h(a, b)))
        yield Case(f"(float)a {operator} (float)b", two, lambda a, b, h=holds: int(h(a, b)))
        for width in WIDTHS:
            i, many = width - 1, (Operand(kind, width),) * 2
            x, y = f"convert_float{width}(a)", f"convert_float{width}(b)"
            yield Case(f"{name}({x}, {y}).s{i:x}", many, lambda a, b, h=holds, i=i: -int(h(a[i], b[i])))
            yield Case(f"({x} {operator} {y}).s{i:x}", many, lambda a, b, h=holds, i=i: -int(h(a[i], b[i])))


FAMILIES: dict[str, Callable[[], Iterator[Case]]] = {
    "operators on numbers": _binaries,
    "operators on vectors": _vector_binaries,
    "compound assignments": _updates,
    "operators of one operand": _unaries,
    "conversions": _conversions,
    "reinterpretations": _reinterpretations,
    "choices": _choices,
    "functions": _functions,
    "floating point": _floating,
}


def corner_values(kind: Kind, rng: random.Random) -> int:
    """A number of a type, often one at which rules differ."""
    corners = (
        0,
        1,
        2,
        3,
        7,
        8,
        15,
        16,
        31,
        32,
        33,
        63,
        64,
        100,
        127,
        128,
        129,
        255,
        256,
        32767,
        32768,
        65535,
    )
    choice = rng.randrange(4)
    if choice == 0:
        return rng.choice((kind.low, kind.high, kind.low + 1, kind.high - 1, kind.high // 2 + 1))
    if choice == 1:
        return rng.randint(kind.low, kind.high)
    return kind.wrap(rng.choice(corners) * rng.choice((1, -1)))


def draw(case: Case, rng: random.Random) -> list[tuple[int, ...]]:
    """Values for the operands of a case; equal ones now and then."""
    values = [tuple(corner_values(o.kind, rng) for _ in range(o.width)) for o in case.operands]
    if rng.randrange(4) == 0 and len(set(case.operands)) == 1:
        values = [values[0]] * len(values)
    return values


def parameters(case: Case) -> str:
    return ", ".join(f"{o.type} {name}" for o, name in zip(case.operands, "abc", strict=False))


def source(cases: Sequence[Case]) -> str:
    """Two kernels for each case, which write one byte at the place that its expression says: with its parameters as
    they are passed (k), and moved by `STEP` from one work-item to the next (m).
    """
    return "\n".join(_kernels(number, case) for number, case in enumerate(cases))


STEP = 3


def _kernels(number: int, case: Case) -> str:
    body = f"out[(long)({case.text})] = 1;"
    moved = " ".join(
        f"{name} = {name} + ({o.type})({o.kind.name})(get_global_id(0) * {STEP});"
        for o, name in zip(case.operands, "abc", strict=False)
    )
    head = f"(global char *out, {parameters(case)})"
    return f"kernel void k{number}{head} {{ {body} }}\nkernel void m{number}{head} {{ {moved} {body} }}"


def moved(case: Case, values: Sequence[tuple[int, ...]], item: int) -> list[tuple[int, ...]]:
    """The operands of work-item `item` of the second kernel."""
    pairs = zip(case.operands, values, strict=True)
    return [tuple(o.kind.wrap(x + STEP * item) for x in value) for o, value in pairs]
