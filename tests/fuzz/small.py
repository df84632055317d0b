"""Expressions of few values: what is left of any expression after operations that the analysis must understand.

Decides how an expression is made small, moved to where it is wanted, or cut to a range.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

from .scope import Scope
from .values import BOOL, INT, UINT, ULONG, Ex, IntType, cast, constant, promoted, scalar_operation


class Small(ABC):
    """`uniform`: only what is the same for all work-items is made now. `loads`: whether memory may be read. `few`: operands
    have few values now, so that most results have few as well.
    """

    def __init__(self, rng: random.Random, scope: Scope) -> None:
        self.rng = rng
        self.scope = scope
        self.uniform = False
        self.loads = True
        self.few = False
        self.bool_vectors = True
        #: min, max and clamp of scalars of 8 and 16 bits
        self.narrow_bounds = True
        #: mad_sat of long
        self.long_mad_sat = True
        #: what OpenCL C 2.0 brought
        self.newer = False

    @abstractmethod
    def scalar(self, depth: int = 2) -> Ex: ...

    @abstractmethod
    def loaded(self, depth: int) -> Ex | None: ...

    @abstractmethod
    def type(self) -> IntType: ...

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    @contextmanager
    def only_uniform(self) -> Iterator[None]:
        """Expressions made meanwhile are the same for all work-items of a launch."""
        before, self.uniform = self.uniform, True
        yield
        self.uniform = before

    @contextmanager
    def of_few(self, few: bool = True) -> Iterator[None]:
        """Operands made meanwhile have few values, or any again."""
        before, self.few = self.few, few
        yield
        self.few = before

    def few_leaf(self) -> Ex:
        """An operand of two to eight values, not the same number of them on both sides of 0."""
        if self.chance(0.15):
            return constant(self.rng.randrange(-4, 9))
        with self.of_few(False):
            e = self.scalar(self.rng.choice([0, 0, 1]))
            if self.loads and self.chance(0.6):  # data has all the values that it may have
                e = self.loaded(0) or e
                few = self._by_mask(e, self.rng.choice([2, 4, 8, 8])) or e
            elif 1 < e.width <= 8 and abs(e.lo) <= 100:
                few = e
            else:
                few = self.reduce(e, self.rng.choice([2, 3, 4, 6, 8]))
            if self.chance(0.6):
                few = self.moved_into(few, self.rng.randrange(-5, 3), few.width) or few
        return few

    def small(self, width: int, depth: int = 2) -> Ex:
        """An integer with at most `width` values between -100 and 100."""
        for _ in range(4):
            e = self.scalar(depth)
            if e.width <= width and e.lo >= -100 and e.hi <= 100:
                return e
        return self.reduce(e, width)

    def reduce(self, e: Ex, width: int) -> Ex:
        """`e` brought down to `width` values at most."""
        forms = [
            self._by_mask,
            self._by_remainder,
            self._by_shift,
            self._by_clamp,
            self._by_choice,
            self._by_quotient,
        ]
        for form in self.rng.sample(forms, len(forms)):
            found = form(e, width)
            if found is not None and found.width <= width and found.lo >= -100 and found.hi <= 100:
                return found
        found = self._by_mask(e, width)
        assert found is not None
        return found

    def _by_mask(self, e: Ex, width: int) -> Ex | None:
        mask = (1 << (width.bit_length() - 1)) - 1
        if e.t is BOOL:
            mask &= 1
        text = self.rng.choice([f"({e.text} & {mask})", f"({mask} & {e.text})"])
        return Ex(text, promoted(e.t), 0, mask, uniform=e.uniform)

    def _by_remainder(self, e: Ex, width: int) -> Ex | None:
        if e.lo < 0:
            width = (width + 1) // 2
        return scalar_operation("%", e, constant(width, promoted(e.t)))

    def _by_shift(self, e: Ex, width: int) -> Ex | None:
        bits = promoted(e.t).bits
        return scalar_operation(
            ">>", e, constant(min(max(e.width.bit_length() - width.bit_length() + 1, 0), bits - 1))
        )

    def _by_quotient(self, e: Ex, width: int) -> Ex | None:
        divisor = max(2, -(-e.width // max(width - 1, 1)) + 1)
        t = promoted(e.t)
        return None if divisor > t.hi else scalar_operation("/", e, constant(divisor, t))

    def _by_clamp(self, e: Ex, width: int) -> Ex | None:
        t = e.t if e.t is not BOOL else INT
        t = t if self.narrow_bounds else promoted(t)
        low = min(max(-3 if t.signed else 0, min(e.lo, 50)), 50)
        low = max(low, t.lo)
        high = min(low + width - 1, t.hi)
        a = e if e.t is t else cast(t, e)
        text = f"clamp({a.text}, {constant(low, t).text}, {constant(high, t).text})"
        return Ex(text, t, low, high, uniform=e.uniform)

    def _by_choice(self, e: Ex, width: int) -> Ex | None:
        if width < 2:
            return None
        a = self.rng.randrange(-2, 3)
        b = a + self.rng.choice([1 - width, width - 1])
        text = f"({e.text} ? {constant(a).text} : {constant(b).text})"
        return Ex(text, INT, min(a, b), max(a, b), uniform=e.uniform)

    def index(self, count: int, depth: int = 1) -> Ex:
        """An integer in [0, count)."""
        for _ in range(2):
            e = self.scalar(depth)
            if e.lo >= 0 and e.hi < count:
                return e
            moved = self.moved_into(e, 0, count)
            if moved is not None:
                return moved
        return self.into(e, count)

    def moved_into(self, e: Ex, lo: int, count: int) -> Ex | None:
        """`e` plus a constant in [lo, lo + count), where it has so few values."""
        if e.width > count or abs(e.lo) > 1 << 20:
            return None
        by = self.rng.randrange(lo - e.lo, lo + count - e.hi)
        if by == 0:
            return e
        a = e if promoted(e.t).signed else cast(INT, e)
        found = scalar_operation("+", a, constant(by))
        return (
            found
            if self.chance(0.5) or found is None
            else Ex(f"({constant(by).text} + {a.text})", found.t, found.lo, found.hi, uniform=e.uniform)
        )

    def into(self, e: Ex, count: int) -> Ex:
        """`e` cut to [0, count) by an operation."""
        if count & (count - 1) == 0 and self.chance(0.5):
            return Ex(f"({e.text} & {count - 1})", promoted(e.t), 0, count - 1, uniform=e.uniform)
        t = UINT if promoted(e.t).bits == 32 else ULONG
        text = (
            f"(({t.name}){e.text} % {count}u)"
            if self.chance(0.7)
            else f"min(({t.name}){e.text}, ({t.name}){count - 1})"
        )
        return Ex(text, t, 0, count - 1, uniform=e.uniform)

    def within(self, p: Ex, depth: int) -> Ex:
        """An expression of the type and within the bounds of `p`."""
        e = self.scalar(depth)
        if p.lo <= e.lo and e.hi <= p.hi:
            return cast(p.t, e) if e.t is not p.t and self.chance(0.5) else e
        if p.lo == p.t.lo and p.hi == p.t.hi:
            return cast(p.t, e)
        width = p.width
        small = self.moved_into(self.reduce(e, min(width, 64)), p.lo, width)
        return small if small is not None else constant(p.lo, p.t)
