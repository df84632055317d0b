"""Random scalar expressions, each with its bounds: a method for each form, and the table of them.

Decides which forms an expression takes; never lets one be undefined.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from .scope import Memory
from .small import Small
from .values import (
    BOOL,
    CHAR,
    COMPARISONS,
    INT,
    INTS,
    LENGTHS,
    LONG,
    UINT,
    ULONG,
    Ex,
    IntType,
    bits_of_either,
    bounds,
    cast,
    constant,
    converted,
    counts,
    join,
    of_bits,
    promoted,
    scalar_operation,
)  # fmt: skip

#: functions of integers whose operands and result are of one type
COUNTED = (
    "popcount", "clz", "hadd", "rhadd", "rotate", "add_sat", "sub_sat", "mul_hi", "mad_hi", "mad_sat", "bitselect",
)  # fmt: skip


class Scalars(Small):
    """`weights`: how often each form of `FORMS` comes in this program. `types`: those that it likes."""

    weights: list[int]
    types: list[IntType]

    @abstractmethod
    def vector(self, n: int, t: IntType, depth: int) -> Ex: ...

    def type(self) -> IntType:
        return self.rng.choice(self.types)

    def scalar(self, depth: int = 2) -> Ex:
        if depth <= 0 or self.chance(0.15):
            return self.leaf()
        for _ in range(6):
            form = self.rng.choices(self.FORMS, self.weights)[0]
            found = form(self, depth - 1)
            if found is not None and len(found.text) < 300:
                return found
        return self.leaf()

    def leaf(self) -> Ex:
        if self.few:
            return self.few_leaf()
        found = [e for e in self.scope.leaves if e.n == 1 and (e.uniform or not self.uniform)]
        if found and self.chance(0.8):
            return self.rng.choice(found)
        return self.literal()

    def literal(self) -> Ex:
        kind = self.rng.random()
        if kind < 0.15:
            return self.character()
        if kind < 0.2:
            return self.long_string()
        t = self.rng.choice([INT, INT, *self.types])
        if kind < 0.25:
            return self.bits_alone()
        if kind < 0.4:
            return constant(self.rng.choice([t.lo, t.hi, t.hi // 2, t.lo // 2 + 1, t.hi - 1]), t)
        low = -5 if t.signed else 0
        return constant(
            self.rng.choice([self.rng.randrange(low, 12), min(t.hi, self.rng.randrange(1, 300))]), t
        )

    def bits_alone(self) -> Ex:
        """A number that is written in hexadecimal, without a suffix: the first type that has it (C99 6.4.4.1p5), by which the
        highest bit is a sign or none.
        """
        bits = self.rng.choice([8, 16, 32, 32, 32, 64, 64])
        value = (1 << (bits - 1)) + self.rng.choice([-1, 0, 0, 1, 5, (1 << (bits - 1)) - 1])
        t = next(t for t in (INT, UINT, LONG, ULONG) if value <= t.hi)
        return Ex(f"{value:#x}", t, value, value, uniform=True)

    CHARACTERS: ClassVar[dict[str, int]] = {
        ";": 59, "(": 40, ")": 41, "{": 123, "}": 125, '"': 34, "\\'": 39, "\\\\": 92, "\\n": 10, "\\0": 0,
        "/": 47, "#": 35, ",": 44, "\\x41": 65, "\\101": 65, "?": 63, "*": 42, " ": 32, "9": 57,
    }  # fmt: skip

    def character(self) -> Ex:
        text, value = self.rng.choice(list(self.CHARACTERS.items()))
        return Ex(f"'{text}'", INT, value, value, uniform=True)

    def long_string(self) -> Ex:
        text, value = self.rng.choice(
            [('";"', 59), ('")("', 41), ('"{\\"/*"', 123), ('"//"', 47), ('"\\\\"', 92)]
        )
        return Ex(f"({text}[0])", CHAR, value, value, uniform=True)

    def binary(self, depth: int) -> Ex | None:
        op = self.rng.choice(["+", "-", "*", "&", "|", "^", "+", "-"])
        a, b = self.scalar(depth), self.scalar(depth)
        found = scalar_operation(op, a, b)
        if found is None:
            found = scalar_operation(op, cast(UINT if promoted(a.t).bits == 32 else ULONG, a), b)
        return found

    def divided(self, depth: int) -> Ex | None:
        a = self.scalar(depth)
        if self.chance(0.3):
            divisor = self.moved_into(self.small(4, depth), self.rng.randrange(1, 4), 4)
            return None if divisor is None else scalar_operation(self.rng.choice(["/", "%"]), a, divisor)
        by = self.rng.choice([2, 3, 4, 7, 8, 16, 100, -3, -4])
        t = self.rng.choice([INT, UINT, promoted(a.t)])
        if by < 0 and not t.signed:
            by = -by
        return scalar_operation(self.rng.choice(["/", "%"]), a, constant(by, t))

    def shifted(self, depth: int) -> Ex | None:
        a = self.scalar(depth)
        if self.chance(0.15):
            return self.shifted_beyond(a, depth)
        if self.chance(0.7):
            by = constant(self.rng.randrange(0, promoted(a.t).bits))
        else:
            by = self.small(3, depth)
        return scalar_operation(self.rng.choice(["<<", ">>", ">>"]), a, by)

    def shifted_beyond(self, a: Ex, depth: int) -> Ex | None:
        """By any number, of which the lowest bits count alone (6.3.j)."""
        t = promoted(a.t)
        if self.chance(0.4):
            by = self.scalar(depth)
            ends = (0, t.bits - 1)
        else:
            number = self.rng.randrange(t.bits) + t.bits * self.rng.choice([-1, 0, 1, 1, 2, 4])
            by, ends = constant(number), (number % t.bits, number % t.bits)
        op = self.rng.choice(["<<", ">>"])
        if op == "<<" and t.signed:
            a, t = cast(t.partner(False), a), t.partner(False)
        low, high = bounds(op, converted(t, a.lo, a.hi), ends)
        if low < t.lo or high > t.hi:
            low, high = t.lo, t.hi
        return Ex(f"({a.text} {op} {by.text})", t, low, high, uniform=a.uniform and by.uniform)

    def shifted_just_beyond(self, depth: int) -> Ex | None:
        """By a little more than its type's width or a whole multiple of it, so that few values stay few: what counts is the
        little. To the left by a negative number, too: all bits but the lowest of one that is too large are as good as unknown.
        """
        a = self.scalar(depth)
        t, least = promoted(a.t), self.rng.choice([0, 1, 1, 1, 2])
        op, number = self.rng.choice(
            [("<<", least - t.bits), (">>", least + t.bits * self.rng.choice([1, 1, 2, 5]))]
        )
        found = scalar_operation(op, a, constant(least))
        if found is None:
            return None
        by = constant(number, self.rng.choice([INT, LONG, UINT, ULONG] if number >= 0 else [INT, LONG]))
        if self.chance(0.2):
            by = replace(by, text=f"({by.text} + ({self.leaf().text} & 0))", uniform=False)
        text = f"({a.text} {op} {by.text})"
        return Ex(text, found.t, found.lo, found.hi, uniform=a.uniform and by.uniform)

    def compared(self, depth: int) -> Ex | None:
        a = self.scalar(depth)
        b = self.near(a) if self.chance(0.6) else self.scalar(depth)
        return Ex(
            f"({a.text} {self.rng.choice(COMPARISONS)} {b.text})", INT, 0, 1, uniform=a.uniform and b.uniform
        )

    def near(self, e: Ex) -> Ex:
        """A constant that splits the values of `e`."""
        if e.width < 3:
            return constant(self.rng.choice([e.lo, e.hi]), promoted(e.t))
        at = self.rng.choice([(e.lo + e.hi) // 2, e.lo + e.width // 4, self.rng.randrange(e.lo, e.hi + 1)])
        return constant(at, promoted(e.t))

    def logical(self, depth: int) -> Ex | None:
        a, b = self.scalar(depth), self.scalar(depth)
        text = self.rng.choice([f"({a.text} && {b.text})", f"({a.text} || {b.text})", f"(!{a.text})"])
        return Ex(text, INT, 0, 1, uniform=a.uniform and b.uniform)

    def unary(self, depth: int) -> Ex | None:
        a = self.scalar(depth)
        t = promoted(a.t)
        lo, hi = converted(t, a.lo, a.hi)
        if self.chance(0.5):
            lo, hi, op = -hi - 1, -lo - 1, "~"
        else:
            lo, hi, op = -hi, -lo, "-"
        if lo < t.lo or hi > t.hi:
            if t.signed:
                return None
            lo, hi = t.lo, t.hi
        return Ex(f"({op}{a.text})", t, lo, hi, uniform=a.uniform)

    def casted(self, depth: int) -> Ex | None:
        a = self.scalar(depth)
        return cast(self.rng.choice([*self.types, *self.types, BOOL]), a)

    def converting(self, depth: int) -> Ex | None:
        a, t = self.scalar(depth), self.type()
        if a.t is BOOL:
            return None
        if self.chance(0.6):
            lo, hi = (min(max(x, t.lo), t.hi) for x in (a.lo, a.hi))
            mode = self.rng.choice(["", "", "_rte", "_rtz"])
            return Ex(f"convert_{t.name}_sat{mode}({a.text})", t, lo, hi, uniform=a.uniform)
        return Ex(f"convert_{t.name}({a.text})", t, *converted(t, a.lo, a.hi), uniform=a.uniform)

    def through_float(self, depth: int) -> Ex | None:
        """Exactly: numbers that a float has."""
        a = self.scalar(depth)
        if a.lo < -(1 << 22) or a.hi > 1 << 22:
            return None
        inner, lo, hi = self.rng.choice(
            [(f"(float){a.text}", a.lo, a.hi), (f"((float){a.text} * 0.5f)", None, None),
             (f"fabs((float){a.text})", 0, max(abs(a.lo), abs(a.hi))),
             (f"fmin((float){a.text}, 3.0f)", min(a.lo, 3), min(a.hi, 3))]
        )  # fmt: skip
        if self.chance(0.25):
            return self.saturated_float(a)
        t = self.rng.choice([INT, LONG])
        if lo is None:
            mode = self.rng.choice(["_rte", "_rtz", "_rtp", "_rtn", ""])
            return Ex(f"convert_{t.name}{mode}({inner})", t, a.lo // 2 - 1, a.hi // 2 + 1, uniform=a.uniform)
        text = self.rng.choice([f"(({t.name}){inner})", f"convert_{t.name}({inner})"])
        return Ex(text, t, lo, hi, uniform=a.uniform)

    def saturated_float(self, a: Ex) -> Ex:
        """Half of a number, or twice and a half of it, rounded and cut to a type that may not have it."""
        t, mode = self.type(), self.rng.choice(["_rte", "_rtz", "_rtp", "_rtn", ""])
        by, ends = self.rng.choice([("0.5f", (a.lo // 2 - 1, a.hi // 2 + 1)), ("2.5f", None)])
        if ends is None:
            ends = (min(5 * a.lo // 2 - 1, a.lo), max(5 * a.hi // 2 + 1, a.hi))
        lo, hi = (min(max(x, t.lo), t.hi) for x in ends)
        return Ex(f"convert_{t.name}_sat{mode}((float){a.text} * {by})", t, lo, hi, uniform=a.uniform)

    def reinterpreted(self, depth: int) -> Ex | None:
        a = self.scalar(depth)
        if a.t is BOOL:
            return None
        t = of_bits(a.t.bits, self.chance(0.5))
        return Ex(f"as_{t.name}({a.text})", t, *converted(t, a.lo, a.hi), uniform=a.uniform)

    def chosen(self, depth: int) -> Ex | None:
        c, a, b = self.scalar(depth), self.scalar(depth), self.scalar(depth)
        t = promoted(a.t)
        a, b = cast(t, a), cast(t, b)
        uniform = a.uniform and b.uniform and c.uniform
        return Ex(f"({c.text} ? {a.text} : {b.text})", t, *join((a.lo, a.hi), (b.lo, b.hi)), uniform=uniform)

    def selected(self, depth: int) -> Ex | None:
        t = self.type()
        a, b, c = cast(t, self.scalar(depth)), cast(t, self.scalar(depth)), cast(t, self.scalar(depth))
        uniform = a.uniform and b.uniform and c.uniform
        return Ex(
            f"select({a.text}, {b.text}, {c.text})", t, *join((a.lo, a.hi), (b.lo, b.hi)), uniform=uniform
        )

    def bounded(self, depth: int) -> Ex | None:
        """min, max, clamp, abs, abs_diff."""
        t = self.type()
        t = t if self.narrow_bounds else promoted(t)
        a, b = cast(t, self.scalar(depth)), cast(t, self.scalar(depth))
        if self.chance(0.5):
            b = constant(self.rng.randrange(max(t.lo, -4), 12), t)
        uniform = a.uniform and b.uniform
        kind = self.rng.choice(["min", "max", "clamp", "abs", "abs_diff"])
        if kind == "min":
            return Ex(f"min({a.text}, {b.text})", t, min(a.lo, b.lo), min(a.hi, b.hi), uniform=uniform)
        if kind == "max":
            return Ex(f"max({a.text}, {b.text})", t, max(a.lo, b.lo), max(a.hi, b.hi), uniform=uniform)
        if kind == "clamp":
            low = self.rng.randrange(max(t.lo, -6), 6)
            high = low + self.rng.randrange(6)
            lo, hi = (min(max(x, low), high) for x in (a.lo, a.hi))
            return Ex(
                f"clamp({a.text}, {constant(low, t).text}, {constant(high, t).text})",
                t,
                lo,
                hi,
                uniform=a.uniform,
            )
        u = t.partner(False)
        if kind == "abs":
            lo = 0 if a.lo <= 0 <= a.hi else min(abs(a.lo), abs(a.hi))
            return Ex(f"abs({a.text})", u, lo, max(abs(a.lo), abs(a.hi)), uniform=a.uniform)
        return Ex(f"abs_diff({a.text}, {b.text})", u, 0, max(a.hi, b.hi) - min(a.lo, b.lo), uniform=uniform)

    def counted(self, depth: int) -> Ex | None:
        """popcount, clz, ctz, hadd, rotate, add_sat, mul_hi, mad_sat, upsample, bitselect: each of its type."""
        t = self.type()
        a, b = cast(t, self.scalar(depth)), cast(t, self.scalar(depth))
        kind = self.rng.choice([*COUNTED, "upsample"] + (["ctz"] if self.newer else []))
        if kind == "upsample":
            return self.upsampled(a, b)
        return self.of_integers(kind, a, b, lambda: cast(t, self.leaf()))

    def of_integers(self, kind: str, a: Ex, b: Ex, third: Callable[[], Ex]) -> Ex | None:
        """A built-in function of scalars of one type, or of vectors, component by component. `third`: makes a third operand."""
        t, uniform = a.t, a.uniform and b.uniform
        if kind in ("popcount", "clz", "ctz"):
            return Ex(f"{kind}({a.text})", t, *counts(kind, a), a.n, a.uniform)
        if kind in ("hadd", "rhadd"):
            more = kind == "rhadd"
            lo, hi = (a.lo + b.lo + more) >> 1, (a.hi + b.hi + more) >> 1
            return Ex(f"{kind}({a.text}, {b.text})", t, lo, hi, a.n, uniform)
        if kind in ("add_sat", "sub_sat"):
            ends = (a.lo + b.lo, a.hi + b.hi) if kind == "add_sat" else (a.lo - b.hi, a.hi - b.lo)
            lo, hi = (min(max(x, t.lo), t.hi) for x in ends)
            return Ex(f"{kind}({a.text}, {b.text})", t, lo, hi, a.n, uniform)
        if kind == "bitselect":
            text = f"bitselect({a.text}, {b.text}, {third().text})"
            return Ex(text, t, *bits_of_either(t, a, b), a.n)
        if kind == "mad_sat" and (
            t is INT or (t is LONG and not self.long_mad_sat)
        ):  # engines compute something else
            return None
        if kind in ("mad_hi", "mad_sat"):
            return self.multiplied(kind, a, b, third())
        if kind == "mul_hi":
            corners = [x * y >> t.bits for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
            return Ex(f"mul_hi({a.text}, {b.text})", t, min(corners), max(corners), a.n, uniform)
        return Ex(f"{kind}({a.text}, {b.text})", t, t.lo, t.hi, a.n, uniform)

    def multiplied(self, kind: str, a: Ex, b: Ex, c: Ex) -> Ex:
        """`a * b + c`: of the product's upper half, which wraps, or saturated."""
        t, text = a.t, f"{kind}({a.text}, {b.text}, {c.text})"
        products = [x * y for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
        if kind == "mad_hi":
            products = [x >> t.bits for x in products]
        lo, hi = min(products) + c.lo, max(products) + c.hi
        if kind == "mad_sat":
            lo, hi = (min(max(x, t.lo), t.hi) for x in (lo, hi))
        lo, hi = converted(t, lo, hi)
        return Ex(text, t, lo, hi, a.n, a.uniform and b.uniform and c.uniform)

    def added_to_upper_half(self, depth: int) -> Ex | None:
        """mad_hi of which each part counts: factors whose product has an upper half, and a sum that does not wrap."""
        t = self.rng.choice([INT, UINT, INT, LONG, ULONG, *INTS])
        a, c = cast(t, self.scalar(depth)), cast(t, self.scalar(depth))
        factor = constant(self.rng.randrange(1, 4) << (t.bits - self.rng.choice([3, 4, 8])), t)
        found = self.multiplied("mad_hi", *self.rng.sample([a, factor], 2), c)
        return found if found.width <= 64 else None

    def upsampled(self, a: Ex, b: Ex) -> Ex | None:
        """Twice as wide: `a` above the bits of `b`."""
        if a.t.bits == 64:
            return None
        t, low = of_bits(2 * a.t.bits, a.t.signed), cast(a.t.partner(False), b)
        text = f"upsample({a.text}, {low.text})"
        ends = (a.lo << a.t.bits) + low.lo, (a.hi << a.t.bits) + low.hi
        return Ex(text, t, *ends, uniform=a.uniform and b.uniform)

    def twenty_four(self, depth: int) -> Ex | None:
        t = self.rng.choice([INT, UINT])
        a, b, c = (cast(t, self.scalar(depth)) for _ in range(3))
        if any(e.lo < max(t.lo, -(1 << 23)) or e.hi >= 1 << 23 for e in (a, b)):
            return None
        product = scalar_operation("*", a, b)
        found = product and scalar_operation("+", product, c)
        if product is None or found is None or product.lo == t.lo or product.hi == t.hi:
            return None
        uniform = a.uniform and b.uniform
        if self.chance(0.5):
            return Ex(f"mul24({a.text}, {b.text})", t, product.lo, product.hi, uniform=uniform)
        return Ex(
            f"mad24({a.text}, {b.text}, {c.text})", t, found.lo, found.hi, uniform=uniform and c.uniform
        )

    def looked_up(self, depth: int) -> Ex | None:
        """An element of a table; sometimes through a pointer to another type."""
        found = [table for table in self.scope.tables if not self.uniform or table.space == "constant"]
        if not found:
            return None
        table, name = self.rng.choice(found), ""
        t, name = table.t, table.name
        if self.chance(0.5):
            t = self.rng.choice([t for t in INTS if t.nbytes <= max(table.aligned, table.t.nbytes)])
            name = f"(({table.space} {t.name} *){table.name})"
        numbers = table.read_as(t)
        if not numbers:
            return None
        index = self.index(len(numbers), depth)
        numbers = numbers[index.lo : index.hi + 1]
        how = self.rng.choice(["[]", "*", "reverse"])
        text = {
            "[]": f"{name}[{index.text}]",
            "*": f"(*({name} + {index.text}))",
            "reverse": f"({index.text})[{name}]",
        }
        return Ex(
            text[how], t, min(numbers), max(numbers), uniform=index.uniform and table.space == "constant"
        )

    def loaded(self, depth: int) -> Ex | None:
        """An element of global memory, of the pointer's type or of another of the same size or smaller."""
        if not self.scope.memories or not self.loads:
            return None
        memory = self.rng.choice(self.scope.memories)
        if self.uniform and memory.base:
            return None
        e = self.load_from(memory, depth)
        return e

    def load_from(self, memory: Memory, depth: int) -> Ex:
        t, n, count, name, base = memory.t, memory.n, memory.count, memory.name, memory.base
        first = str(memory.first)
        if self.chance(0.25):  # as another type
            t = self.rng.choice(
                [x for x in INTS if x.nbytes <= memory.t.nbytes * (1 if memory.n == 3 else memory.n)]
            )
            if memory.n == 3:
                t = memory.t
            each = memory.t.nbytes * (4 if memory.n == 3 else memory.n) // t.nbytes
            count, n, name = count * each, 1, f"((const {memory.space} {t.name} *){name})"
            base, first = base and f"({base}) * {each}", str(memory.first * each)
        index = self.index(count, depth)
        start = f"{base} + " if base else (f"{first} + " if first != "0" else "")
        place = f"{start}{index.text}"
        uniform = index.uniform and not base
        if n > 1:
            at = self.rng.randrange(n)
            return Ex(f"{name}[{place}].s{at:x}", t, t.lo, t.hi, uniform=uniform)
        lengths = [m for m in (2, 3, 4, 8, 16) if m <= count]
        if lengths and self.chance(0.15):
            length = self.rng.choice(lengths)
            if not base:
                at = self.index((count) // length, depth)
                start = f" + {first}" if first != "0" else ""
                text = f"vload{length}({at.text}, {name}{start}).s{self.rng.randrange(length):x}"
                return Ex(text, t, t.lo, t.hi, uniform=at.uniform)
            at = self.index(count - length + 1, depth)
            text = f"vload{length}(0, {name} + ({base}) + {at.text}).s{self.rng.randrange(length):x}"
            return Ex(text, t, t.lo, t.hi)
        text = self.rng.choice([f"{name}[{place}]", f"(*({name} + {place}))"])
        return Ex(text, t, t.lo, t.hi, uniform=uniform)

    def called(self, depth: int) -> Ex | None:
        if not self.scope.functions:
            return None
        function = self.rng.choice(self.scope.functions)
        if self.uniform and not function.result.uniform:
            return None
        args = [self.within(p, depth) for p in function.parameters]
        text = f"{function.name}({', '.join(a.text for a in args)})"
        r = function.result
        return Ex(text, r.t, r.lo, r.hi, uniform=r.uniform and all(a.uniform for a in args))

    def component(self, depth: int) -> Ex | None:
        """Of a vector; often of a condition, whose components are -1 and 0."""
        v = self.vector(self.rng.choice(LENGTHS), self.type(), depth)
        return self.component_of(v)

    def component_of(self, v: Ex) -> Ex:
        at = self.rng.randrange(v.n)
        names = [f"s{at:x}", f"S{at:X}"] + (["xyzw"[at]] if at < 4 and v.n <= 4 else [])
        return Ex(f"{v.text}.{self.rng.choice(names)}", v.t, v.lo, v.hi, uniform=v.uniform)

    def difference(self, depth: int) -> Ex | None:
        """Of two components of one vector."""
        vectors = [e for e in self.scope.leaves if e.n > 1 and (e.uniform or not self.uniform)]
        if not vectors:
            return None
        v = self.rng.choice(vectors)
        return scalar_operation(
            self.rng.choice(["-", "+", "-", "^"]), self.component_of(v), self.component_of(v)
        )

    def picked(self, depth: int) -> Ex | None:
        """A component of components of a literal, each of which is something else."""
        t, n = self.type(), self.rng.choice([2, 4, 4, 8])
        parts = [cast(t, self.scalar(depth)) for _ in range(n)]
        text = f"(({t.name}{n})({', '.join(p.text for p in parts)}))"
        while len(parts) > 1 and (len(parts) > 2 or self.chance(0.5)):
            half = len(parts) // 2
            halves = {"lo": parts[:half], "hi": parts[half:], "even": parts[::2], "odd": parts[1::2]}
            name = self.rng.choice(list(halves))
            text, parts = f"{text}.{name}", halves[name]
            if len(parts) == 1 or self.chance(0.3):
                break
        if len(parts) > 1:
            at = self.rng.randrange(len(parts))
            text, parts = f"{text}.s{at:x}", [parts[at]]
        e = parts[0]
        return Ex(text, t, e.lo, e.hi, uniform=e.uniform)

    def any_all(self, depth: int) -> Ex | None:
        t = self.type().partner(True)
        v = self.vector(self.rng.choice(LENGTHS), t, depth)
        return Ex(f"{self.rng.choice(['any', 'all'])}({v.text})", INT, 0, 1, uniform=v.uniform)

    def comma(self, depth: int) -> Ex | None:
        a, b = self.scalar(depth), self.scalar(depth)
        if self.chance(0.5):
            return Ex(f"(sizeof({a.text}) * 1)", ULONG, 1, 8, uniform=True)
        return Ex(f"((void){a.text}, {b.text})", b.t, b.lo, b.hi, uniform=b.uniform and a.uniform)

    def address_difference(self, depth: int) -> Ex | None:
        """Elements between two places of one array."""
        if not self.scope.memories:
            return None
        memory = self.rng.choice(self.scope.memories)
        if memory.n == 3 or (self.uniform and memory.base):
            return None
        a, b = self.index(memory.count, depth), self.index(memory.count, depth)
        text = f"(&{memory.name}[{a.text}] - &{memory.name}[{b.text}])"
        return Ex(text, LONG, a.lo - b.hi, a.hi - b.lo, uniform=a.uniform and b.uniform)

    def reduced(self, depth: int) -> Ex | None:
        return self.small(self.rng.choice([2, 3, 4, 8]), depth)

    def table_word(self, depth: int) -> Ex | None:
        """An element of a constant table, read as a wider or narrower type, with few values left."""
        tables = [table for table in self.scope.tables if table.space == "constant"]
        if not tables:
            return None
        table = self.rng.choice(tables)
        kinds = [
            t for t in INTS if t.nbytes <= max(table.aligned, table.t.nbytes) and len(table.read_as(t)) > 0
        ]
        t = self.rng.choice([t for t in kinds if t.nbytes != table.t.nbytes] or kinds)
        numbers = table.read_as(t)
        index = self.index(len(numbers), depth)
        numbers = numbers[index.lo : index.hi + 1]
        e = Ex(
            f"(({table.space} {t.name} *){table.name})[{index.text}]",
            t,
            min(numbers),
            max(numbers),
            uniform=index.uniform,
        )
        return e if e.width <= 8 else self.reduce(e, self.rng.choice([2, 3, 4, 8]))

    FORMS: tuple[Callable[[Scalars, int], Ex | None], ...] = (
        binary, divided, shifted, compared, logical, unary, casted, converting, through_float, reinterpreted, chosen,
        selected, bounded, counted, twenty_four, looked_up, loaded, called, component, difference, any_all, comma,
        address_difference, reduced, picked,
    )  # fmt: skip

    #: those that give few values of operands that have few
    PROBED: tuple[Callable[[Scalars, int], Ex | None], ...] = (
        binary, divided, divided, shifted, compared, unary, casted, converting, through_float, reinterpreted, chosen, selected,
        bounded, bounded, bounded, counted, counted, counted, twenty_four, called, component, picked, picked,
        shifted_just_beyond, shifted_just_beyond, added_to_upper_half,
    )  # fmt: skip

    def probe(self, width: int) -> Ex:
        """What an operation makes of operands of few values: at most `width` values, and no other operation cuts them. (Where
        one does, it hides what was wrong before it.) What wraps is cut, by an operation that knows a sign.
        """
        with self.of_few():
            for _ in range(12):
                found = self.rng.choice(self.PROBED)(self, self.rng.choice([0, 0, 1]))
                if found is None or found.width == 1 or len(found.text) > 300:
                    continue
                if found.width > width and self.chance(0.3):
                    cut = self.rng.choice(
                        [self._by_remainder, self._by_shift, self._by_clamp, self._by_quotient]
                    )
                    found = cut(found, min(width, 8)) or found
                if found.width <= width and abs(found.lo) <= 1 << 20:
                    return found
        return self.reduce(self.leaf(), min(width, 8))
