"""Random expressions over what is in scope, each with its bounds: vectors here, scalars in `scalars`.

Decides which forms an expression takes; never lets one be undefined. An expression that has to be small (an offset in
a work-item's own block, a loop's bound) is made small by operations that the analysis must understand, or comes small
from a comparison, a table, a conversion (`small`).
"""

from __future__ import annotations

import random
from collections.abc import Callable

from .scalars import COUNTED, Scalars
from .scope import Scope
from .values import (
    BOOL,
    COMPARISONS,
    INT,
    INTS,
    LENGTHS,
    Ex,
    IntType,
    cast,
    constant,
    converted,
    join,
    of_bits,
    vector_operation,
)  # fmt: skip


class Expressions(Scalars):
    """Random expressions of one program, which likes some forms and types more than others."""

    def __init__(self, rng: random.Random, scope: Scope) -> None:
        super().__init__(rng, scope)
        self.weights = [rng.choice([0, 1, 1, 2, 4]) for _ in self.FORMS]
        self.vector_weights = [rng.choice([0, 1, 1, 2]) for _ in self.VECTOR_FORMS]
        if not any(self.vector_weights):
            self.vector_weights[0] = 1
        if not any(self.weights):
            self.weights[0] = 1
        self.types = rng.sample(INTS, rng.randrange(2, 9))

    def vector(self, n: int, t: IntType, depth: int) -> Ex:
        """A vector of `n` components of `t`."""
        for _ in range(4):
            if depth <= 0:
                break
            form = self.rng.choices(self.VECTOR_FORMS, self.vector_weights)[0]
            found = form(self, n, t, depth - 1)
            if found is not None and len(found.text) < 500:
                return found
        return self.vector_leaf(n, t)

    def vector_leaf(self, n: int, t: IntType) -> Ex:
        known = [e for e in self.scope.leaves if e.n == n and e.t is t and (e.uniform or not self.uniform)]
        if known and self.chance(0.6):
            return self.rng.choice(known)
        if self.chance(0.5):
            return self.spread(n, t, 0)
        return self.listed(n, t, 0)

    def spread(self, n: int, t: IntType, depth: int) -> Ex:
        """A scalar for each component, as a literal: there a bool is 1 where it is true."""
        a = self.scalar(depth)
        if a.t is BOOL and not self.bool_vectors:
            a = cast(INT, a)
        elif a.t is not BOOL or self.chance(0.5):
            a = cast(t, a)
        return Ex(f"(({t.name}{n})({a.text}))", t, *converted(t, a.lo, a.hi), n, a.uniform)

    def of_bool(self, n: int, t: IntType, depth: int) -> Ex:
        """A bool that is cast: all bits where it is true (6.2.2)."""
        if not self.bool_vectors:
            return self.spread(n, t, depth)
        a = self.scalar(depth)
        lo, hi = converted(BOOL, a.lo, a.hi)
        return Ex(f"(({t.name}{n})(bool){a.text})", t, *converted(t, -hi, -lo), n, a.uniform)

    def listed(self, n: int, t: IntType, depth: int) -> Ex:
        """A literal of scalars and shorter vectors."""
        parts: list[Ex] = []
        left = n
        while left:
            lengths = [m for m in (2, 3, 4, 8) if m <= left and m < n]
            if lengths and self.chance(0.3):
                parts.append(self.vector(self.rng.choice(lengths), t, depth - 1))
            else:
                parts.append(cast(t, self.scalar(depth if n <= 4 else 0)))
            left -= parts[-1].n
        lo, hi = min(p.lo for p in parts), max(p.hi for p in parts)
        return Ex(
            f"(({t.name}{n})({', '.join(p.text for p in parts)}))",
            t,
            lo,
            hi,
            n,
            all(p.uniform for p in parts),
        )

    def vector_binary(self, n: int, t: IntType, depth: int) -> Ex | None:
        op = self.rng.choice(["+", "-", "*", "&", "|", "^"])
        a = self.vector(n, t, depth)
        b = self.vector(n, t, depth)
        return vector_operation(op, a, b)

    def vector_by_scalar(self, n: int, t: IntType, depth: int) -> Ex | None:
        op = self.rng.choice(["/", "%", ">>", "<<", "&", "+", "-"])
        a = self.vector(n, t, depth)
        most = min(t.hi, 100)
        b = constant(self.rng.randrange(t.bits) if op in (">>", "<<") else self.rng.randrange(2, most), t)
        if self.chance(0.5):
            return vector_operation(op, a, b)
        return vector_operation(op, a, Ex(f"(({t.name}{n})({b.text}))", t, b.lo, b.hi, n, True))

    def vector_compared(self, n: int, t: IntType, depth: int) -> Ex | None:
        """-1 where true (6.4.d); the result is signed, of the operands' width."""
        if not t.signed:
            return None
        of = of_bits(t.bits, self.chance(0.5))
        a = self.vector(n, of, depth)
        b = self.near(a)
        if b.t.bits != of.bits or b.t.signed != of.signed:
            b = cast(of, b)
        other = Ex(f"(({of.name}{n})({b.text}))", of, b.lo, b.hi, n, b.uniform)
        if self.chance(0.4):
            other = self.vector(n, of, depth)
        text = f"({a.text} {self.rng.choice(COMPARISONS)} {other.text})"
        return Ex(text, t, -1, 0, n, a.uniform and other.uniform)

    def vector_logical(self, n: int, t: IntType, depth: int) -> Ex | None:
        if not t.signed:
            return None
        of = of_bits(t.bits, self.chance(0.5))
        a, b = self.vector(n, of, depth), self.vector(n, of, depth)
        text = self.rng.choice([f"({a.text} && {b.text})", f"({a.text} || {b.text})", f"(!{a.text})"])
        return Ex(text, t, -1, 0, n, a.uniform and b.uniform)

    def vector_unary(self, n: int, t: IntType, depth: int) -> Ex | None:
        a = self.vector(n, t, depth)
        if self.chance(0.5):
            lo, hi, op = -a.hi - 1, -a.lo - 1, "~"
        else:
            lo, hi, op = -a.hi, -a.lo, "-"
        if lo < t.lo or hi > t.hi:
            if t.signed:
                return None
            lo, hi = t.lo, t.hi
        return Ex(f"({op}{a.text})", t, lo, hi, n, a.uniform)

    def vector_chosen(self, n: int, t: IntType, depth: int) -> Ex | None:
        """By each component's own highest bit (6.4.i)."""
        a, b = self.vector(n, t, depth), self.vector(n, t, depth)
        c = self.vector(n, t.partner(True), depth)
        uniform = a.uniform and b.uniform and c.uniform
        lo, hi = join((a.lo, a.hi), (b.lo, b.hi))
        if self.chance(0.5):
            return Ex(f"({c.text} ? {a.text} : {b.text})", t, lo, hi, n, uniform)
        return Ex(f"select({a.text}, {b.text}, {c.text})", t, lo, hi, n, uniform)

    def vector_converted(self, n: int, t: IntType, depth: int) -> Ex | None:
        a = self.vector(n, self.type(), depth)
        if self.chance(0.5):
            lo, hi = (min(max(x, t.lo), t.hi) for x in (a.lo, a.hi))
            return Ex(f"convert_{t.name}{n}_sat({a.text})", t, lo, hi, n, a.uniform)
        return Ex(f"convert_{t.name}{n}({a.text})", t, *converted(t, a.lo, a.hi), n, a.uniform)

    def vector_reinterpreted(self, n: int, t: IntType, depth: int) -> Ex | None:
        size = t.nbytes * n
        shapes = [(x, m) for x in INTS for m in (1, *LENGTHS) if x.nbytes * m == size and 3 not in (m, n)]
        if not shapes:
            return None
        x, m = self.rng.choice(shapes)
        a = cast(x, self.scalar(depth)) if m == 1 else self.vector(m, x, depth)
        lo, hi = (t.lo, t.hi)
        if x.bits == t.bits:
            lo, hi = converted(t, a.lo, a.hi)
        return Ex(f"as_{t.name}{n}({a.text})", t, lo, hi, n, a.uniform)

    def vector_shuffled(self, n: int, t: IntType, depth: int) -> Ex | None:
        m = self.rng.choice(LENGTHS)
        a = self.vector(m, t, depth)
        if m in (2, 4, 8, 16) and n == m // 2 and self.chance(0.6):
            return Ex(f"{a.text}.{self.rng.choice(['lo', 'hi', 'even', 'odd'])}", t, a.lo, a.hi, n, a.uniform)
        if m in (2, 4) and n in (2, 3, 4) and self.chance(0.4):
            names = "".join(self.rng.choice("xyzw"[:m]) for _ in range(n))
            return Ex(f"{a.text}.{names}", t, a.lo, a.hi, n, a.uniform)
        names = "".join(f"{self.rng.randrange(m):x}" for _ in range(n))
        return Ex(f"{a.text}.s{names}", t, a.lo, a.hi, n, a.uniform)

    def vector_bounded(self, n: int, t: IntType, depth: int) -> Ex | None:
        a, b = self.vector(n, t, depth), self.vector(n, t, depth)
        if self.chance(0.5):
            b = constant(self.rng.randrange(max(t.lo, -4), 12), t)
        uniform = a.uniform and b.uniform
        if self.chance(0.5):
            return Ex(f"min({a.text}, {b.text})", t, min(a.lo, b.lo), min(a.hi, b.hi), n, uniform)
        return Ex(f"max({a.text}, {b.text})", t, max(a.lo, b.lo), max(a.hi, b.hi), n, uniform)

    def vector_loaded(self, n: int, t: IntType, depth: int) -> Ex | None:
        found = [m for m in self.scope.memories if m.t is t and m.n in (1, n) and not m.base and m.count >= n]
        if not found or not self.loads:
            return None
        memory = self.rng.choice(found)
        first = f" + {memory.first}" if memory.first else ""
        if memory.n == n:
            at = self.index(memory.count, depth)
            return Ex(f"({memory.name}{first})[{at.text}]", t, t.lo, t.hi, n, at.uniform)
        at = self.index(memory.count // n, depth)
        return Ex(f"vload{n}({at.text}, {memory.name}{first})", t, t.lo, t.hi, n, at.uniform)

    def vector_counted(self, n: int, t: IntType, depth: int) -> Ex | None:
        """What is a function of scalars too, of each component; absolute values and differences, limits."""
        a, b = self.vector(n, t, depth), self.vector(n, t, depth)
        if not t.signed and self.chance(0.2):
            s = t.partner(self.chance(0.5))
            a, b = self.vector(n, s, depth), self.vector(n, s, depth)
            if self.chance(0.5):
                least = 0 if a.lo <= 0 <= a.hi else min(abs(a.lo), abs(a.hi))
                return Ex(f"abs({a.text})", t, least, max(abs(a.lo), abs(a.hi)), n, a.uniform)
            far = max(a.hi, b.hi) - min(a.lo, b.lo)
            return Ex(f"abs_diff({a.text}, {b.text})", t, 0, far, n, a.uniform and b.uniform)
        if self.chance(0.15):
            low = self.rng.randrange(max(t.lo, -6), 6)
            high = low + self.rng.randrange(6)
            lo, hi = (min(max(x, low), high) for x in (a.lo, a.hi))
            ends = f"{constant(low, t).text}, {constant(high, t).text}"
            return Ex(f"clamp({a.text}, {ends})", t, lo, hi, n, a.uniform)
        kind = self.rng.choice([*COUNTED] + (["ctz"] if self.newer else []))
        return self.of_integers(kind, a, b, lambda: self.vector(n, t, 0))

    def vector_permuted(self, n: int, t: IntType, depth: int) -> Ex | None:
        """Components that another vector names. Larger numbers are left out: of those only the lowest bits count (6.15.13), but
        Intel's compiler (2026.2) leaves a component undefined that a larger constant names.
        """
        m, u = self.rng.choice([2, 4, 8, 16]), t.partner(False)
        if n == 3:
            return None
        a, b, mask = self.vector(m, t, depth), self.vector(m, t, depth), self.vector(n, u, depth)
        if self.chance(0.5):
            text = f"shuffle({a.text}, {mask.text} & ({u.name}){m - 1})"
            return Ex(text, t, a.lo, a.hi, n, a.uniform and mask.uniform)
        lo, hi = join((a.lo, a.hi), (b.lo, b.hi))
        text = f"shuffle2({a.text}, {b.text}, {mask.text} & ({u.name}){2 * m - 1})"
        return Ex(text, t, lo, hi, n, a.uniform and b.uniform and mask.uniform)

    VECTOR_FORMS: tuple[Callable[[Expressions, int, IntType, int], Ex | None], ...] = (
        listed, spread, of_bool, vector_binary, vector_by_scalar, vector_compared, vector_logical, vector_unary,
        vector_chosen, vector_converted, vector_reinterpreted, vector_shuffled, vector_bounded, vector_loaded,
        vector_counted, vector_permuted,
    )  # fmt: skip

    def small_vector(self, n: int, t: IntType, depth: int) -> Ex:
        """Components of few values, chosen by conditions of their own."""
        kind = self.rng.choice([0, 1, 2, 3, 3, 4, 4])
        if kind == 0 and t.signed:
            return self.vector_compared(n, t, depth) or self.listed_small(n, t)
        if kind == 1 and t.signed:
            return self.vector_logical(n, t, depth) or self.listed_small(n, t)
        if kind == 2:
            return self.listed_small(n, t)
        low = self.rng.choice([0, 0, -1 if t.signed else 0])
        a, b = self.listed_small(n, t, low, 2), self.listed_small(n, t, low, 2)
        signed = t.partner(True)
        c = self.bits(n, signed) if self.chance(0.7) else self.vector(n, signed, depth)
        lo, hi = join((a.lo, a.hi), (b.lo, b.hi))
        uniform = a.uniform and b.uniform and c.uniform
        if kind == 3:
            return Ex(f"({c.text} ? {a.text} : {b.text})", t, lo, hi, n, uniform)
        return Ex(f"select({a.text}, {b.text}, {c.text})", t, lo, hi, n, uniform)

    def bits(self, n: int, t: IntType) -> Ex:
        """A comparison whose components have nothing to do with each other."""
        parts = []
        for _ in range(n):
            e = (self.loaded(0) if self.chance(0.7) else None) or self.leaf()
            parts.append(f"({t.name})({e.text} & {1 << self.rng.randrange(min(3, e.t.bits))})")
        test = self.rng.choice([f"!= ({t.name}{n})(0)", f"> ({t.name}{n})(0)", f"== ({t.name}{n})(0)"])
        return Ex(f"((({t.name}{n})({', '.join(parts)})) {test})", t, -1, 0, n)

    def listed_small(self, n: int, t: IntType, lo: int = 0, width: int = 3) -> Ex:
        numbers = [self.rng.randrange(lo, lo + width) for _ in range(self.rng.choice([1, n]))]
        text = ", ".join(constant(x, t).text for x in numbers)
        return Ex(f"(({t.name}{n})({text}))", t, min(numbers), max(numbers), n, True)
