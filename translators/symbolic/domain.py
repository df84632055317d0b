"""Iteration domains: integer boxes cut by affine inequalities (the polyhedral iteration domain of one access).

Decides whether a domain is empty and what bounds an affine form has over it, and keeps what is certain apart from
what is not (`exact`). Knows neither kernels nor expressions, and never enumerates points: `domain_image` does.

What is called most is compiled as well (`compiled`): a change here needs the same change in `ranges/native/domains.c`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Any

from ..ranges import compiled
from .nodes import INFINITE

Terms = dict[int, int]

SOME_VALUE = "an unknown value"


class Form:
    """An affine form: `constant` plus the sum of coefficient times variable. Never changed once made."""

    __slots__ = ("constant", "terms")

    def __init__(self, constant: int, terms: Terms) -> None:
        self.constant = constant
        self.terms = terms  #: variable -> coefficient, none of them zero

    def plus(self, other: Form, factor: int = 1) -> Form:
        if factor == 0:
            return self
        if not other.terms:
            constant = other.constant
            # Whether a traced number is 0 is not asked: that would bind it.
            if type(constant) is int and constant == 0:
                return self
            return Form(self.constant + factor * constant, self.terms)
        terms = dict(self.terms)
        for variable, coefficient in other.terms.items():
            total = terms.get(variable, 0) + factor * coefficient
            if total:
                terms[variable] = total
            else:
                del terms[variable]
        return Form(self.constant + factor * other.constant, terms)

    def times(self, factor: int) -> Form:
        if factor == 1:
            return self
        if factor == 0:
            return Form(0, {})
        return Form(self.constant * factor, {v: c * factor for v, c in self.terms.items()})

    def shifted(self, constant: int) -> Form:
        if type(constant) is int and constant == 0:  # as in `plus`
            return self
        return Form(self.constant + constant, self.terms)

    def __repr__(self) -> str:
        return " + ".join([str(self.constant), *(f"{c}*x{v}" for v, c in self.terms.items())])


def added_up(constant: int, terms: Sequence[tuple[object, int]], forms: Sequence[Form]) -> Form:
    """A constant and multiples of forms. `terms`: for each of these, what it is the form of, and how often it is taken."""
    total: Terms = {}
    for (_, factor), form in zip(terms, forms, strict=True):
        constant += factor * form.constant
        for variable, coefficient in form.terms.items():
            total[variable] = total.get(variable, 0) + factor * coefficient
    if 0 in total.values():
        total = {variable: coefficient for variable, coefficient in total.items() if coefficient}
    return Form(constant, total)


def divided(form: Form, divisor: int) -> tuple[Form, Form | None]:
    """A form as a multiple of a number above 0, which the first result is, and the rest, whose coefficients are nearer to 0 than the
    divisor; None where only a number is left, which is less than it.
    """
    whole: Terms = {}
    rest: Terms = {}
    for variable, coefficient in form.terms.items():
        quotient = coefficient // divisor if coefficient > 0 else -(-coefficient // divisor)
        if quotient:
            whole[variable] = quotient
        if coefficient - quotient * divisor:
            rest[variable] = coefficient - quotient * divisor
    base = Form(form.constant // divisor, whole)
    return base, Form(form.constant % divisor, rest) if rest else None


class Infeasible(Exception):
    """The domain has no points."""


def floor_div(a: int, b: int) -> int:
    return a // b


class Domain:
    """Integer points within `lo` <= x <= `hi` for which every constraint form is at least zero."""

    __slots__ = ("constraints", "depends", "exact", "hi", "lo", "loose", "origins", "reasons", "shapes")

    def __init__(self) -> None:
        self.lo: list[int] = []
        self.hi: list[int] = []
        #: variables that stand for unknown values: with respect to them the domain is a superset
        self.loose: set[int] = set()
        #: where the values of some of these come from, for messages
        self.origins: dict[int, str] = {}
        self.constraints: list[Form] = []
        #: bounds of linear parts that follow from constraints, by `_shape`
        self.shapes: dict[frozenset[tuple[int, int]], tuple[int, int]] = {}
        #: derived variables (quotients, unknown remainders) -> the variables they are made from
        self.depends: dict[int, frozenset[int]] = {}
        #: every point of the domain is a real iteration
        self.exact = True
        self.reasons: tuple[str, ...] = ()

    def copy(self) -> Domain:
        twin = Domain.__new__(Domain)
        twin.lo = self.lo[:]
        twin.hi = self.hi[:]
        twin.loose = self.loose
        twin.origins = self.origins
        twin.constraints = self.constraints[:]
        twin.shapes = self.shapes.copy() if self.shapes else {}
        twin.depends = self.depends.copy() if self.depends else {}
        twin.exact = self.exact
        twin.reasons = self.reasons
        return twin

    def is_like(self, other: Domain) -> bool:
        """Whether it has the same points: it is a copy of `other`, or the other way round, and nothing has been
        added.
        """
        return (
            len(self.lo) == len(other.lo)
            and len(self.constraints) == len(other.constraints)
            and self.exact == other.exact
            and self.lo == other.lo
            and self.hi == other.hi
            and self.constraints == other.constraints
            and self.shapes == other.shapes
            and self.loose == other.loose
        )

    def variable(
        self,
        lo: int,
        hi: int,
        *,
        loose: bool = False,
        depends: frozenset[int] = frozenset(),
        origin: str = "",
    ) -> int:
        """A new variable between `lo` and `hi`; `origin`: where a loose one comes from."""
        if lo > hi:
            raise Infeasible
        self.lo.append(lo)
        self.hi.append(hi)
        index = len(self.lo) - 1
        if loose:
            self.loose = self.loose | {index}
            if origin:
                self.origins = {**self.origins, index: origin}
        if depends:
            self.depends[index] = depends
        return index

    def blur(self, reason: str) -> None:
        """From now on the domain is only a superset of the real iterations."""
        if self.exact:
            self.exact = False
            self.reasons = (reason,)

    def ancestors(self, form: Form) -> frozenset[int]:
        """The variables a form depends on, directly or through derived ones."""
        found = set(form.terms)
        for variable in form.terms:
            found |= self.depends.get(variable, frozenset())
        return frozenset(found)

    def origin(self, form: Form) -> str:
        """Where the unknown part of a form comes from, for messages."""
        for variable in (*form.terms, *sorted(self.ancestors(form))):
            if variable in self.origins:
                return self.origins[variable]
        return SOME_VALUE

    # bounds -----------------------------------------------------------------------------------------

    def bounds(self, form: Form) -> tuple[int, int]:
        """The least and the largest value of `form`, or something wider."""
        terms = form.terms
        if not terms:
            return form.constant, form.constant
        low = high = 0  # as in `box_bounds`, without a call: this is asked most
        lo, hi = self.lo, self.hi
        for variable, coefficient in terms.items():
            if coefficient > 0:
                low += coefficient * lo[variable]
                high += coefficient * hi[variable]
            else:
                low += coefficient * hi[variable]
                high += coefficient * lo[variable]
        if self.shapes and len(terms) > 1:
            key, factor = _shape(terms)
            known = self.shapes.get(key)
            if known is not None:
                a, b = known[0] * factor, known[1] * factor
                if a > b:
                    a, b = b, a
                low, high = max(low, a), min(high, b)
        return form.constant + low, form.constant + high

    def corner(self, form: Form) -> int:
        """The value of `form` where each variable has its least one."""
        value, lo = form.constant, self.lo
        for variable, coefficient in form.terms.items():
            value += coefficient * lo[variable]
        return value

    def outline(self) -> tuple[Any, ...]:
        """What a domain that is moved shares with this one: how far its variables reach, and its constraints from its least corner."""
        found: list[Any] = [high - low for low, high in zip(self.lo, self.hi, strict=True)]
        found += [(self.corner(form), *form.terms.items()) for form in self.constraints]
        return tuple(found)

    def is_loose(self, form: Form) -> bool:
        return bool(self.loose) and not self.loose.isdisjoint(form.terms)

    def tight_bounds(self, form: Form) -> tuple[int, int]:
        """`bounds`, after taking a multiple of one constraint's linear part out of the form if that helps.

        So 16*x - 255*q, with 0 <= x - 16*q <= 15, is seen to be 16*(x - 16*q) + q.
        """
        low, high = self.bounds(form)
        if len(form.terms) < 2:
            return low, high
        for shape, (least, most) in self.shapes.items():
            part = dict(shape)
            factors = {
                form.terms[v] // c for v, c in part.items() if v in form.terms and form.terms[v] % c == 0
            }
            for factor in factors:
                rest = form.plus(Form(0, part), -factor)
                a, b = (factor * least, factor * most) if factor > 0 else (factor * most, factor * least)
                rest_low, rest_high = self.bounds(rest)
                low, high = max(low, rest_low + a), min(high, rest_high + b)
        return low, high

    # constraints ------------------------------------------------------------------------------------

    def require(self, form: Form) -> bool:
        """Keep the points where `form` >= 0. False if all points satisfied that already. Raises Infeasible if none
        does.
        """
        low, high = self.bounds(form)
        if low < 0 <= high and self.shapes:
            low, high = self.tight_bounds(form)
        if low >= 0:
            return False
        if high < 0:
            raise Infeasible
        if self.is_loose(form):
            self.blur(f"a condition on {self.origin(form)}")
        terms = form.terms
        common = gcd(*terms.values())
        if common > 1:
            form = Form(form.constant // common, {v: c // common for v, c in terms.items()})
            terms = form.terms
        if len(terms) > 1:
            self.constraints.append(form)
            key, factor = _shape(terms)
            old_low, old_high = self.shapes.get(key, (-INFINITE, INFINITE))
            # factor is 1 or -1 after division by the common divisor
            if factor > 0:
                old_low = max(old_low, -form.constant)
            else:
                old_high = min(old_high, form.constant)
            if old_low > old_high:
                raise Infeasible
            self.shapes[key] = (old_low, old_high)
        self._tighten(form)
        return True

    def _tighten(self, form: Form) -> bool:
        """Narrow the box by one constraint; whether anything changed."""
        lo, hi = self.lo, self.hi
        highest = form.constant
        for variable, coefficient in form.terms.items():
            highest += coefficient * (hi[variable] if coefficient > 0 else lo[variable])
        changed = False
        for variable, coefficient in form.terms.items():
            if coefficient > 0:
                bound = -((highest - coefficient * hi[variable]) // coefficient)
                if bound > lo[variable]:
                    lo[variable] = bound
                    changed = True
            else:
                bound = (highest - coefficient * lo[variable]) // -coefficient
                if bound < hi[variable]:
                    hi[variable] = bound
                    changed = True
            if lo[variable] > hi[variable]:
                raise Infeasible
        return changed

    def settle(self) -> None:
        """Propagate all constraints into the box and drop those that the box implies. Only a few rounds: wherever
        this stops, the box is a superset.
        """
        for _ in range(4):
            kept = []
            changed = False
            for form in self.constraints:
                form = self.fold(form)
                low, high = box_bounds(form.constant, form.terms, self.lo, self.hi)
                if high < 0:
                    raise Infeasible
                if low >= 0:
                    continue
                changed |= self._tighten(form)
                if len(form.terms) > 1:
                    kept.append(form)
            self.constraints = kept
            if not changed:
                return

    def within(self, limits: tuple[tuple[int, int, int], ...]) -> Domain | None:
        """The points at which each of these variables is within its bounds, the least and the largest value; None if there are none."""
        found = self.copy()
        lo, hi = found.lo, found.hi
        for variable, low, high in limits:
            if low > lo[variable]:
                lo[variable] = low
            if high < hi[variable]:
                hi[variable] = high
            if lo[variable] > hi[variable]:
                return None
        try:
            found.settle()
        except Infeasible:
            return None
        return found

    def fold(self, form: Form) -> Form:
        """`form` with variables of one value replaced by it."""
        lo, hi = self.lo, self.hi
        fixed = [variable for variable in form.terms if lo[variable] == hi[variable]]
        if not fixed:
            return form
        terms = dict(form.terms)
        constant = form.constant
        for variable in fixed:
            constant += terms.pop(variable) * lo[variable]
        return Form(constant, terms)


def box_bounds(constant: int, terms: Terms, lo: Sequence[int], hi: Sequence[int]) -> tuple[int, int]:
    """The least and the largest value of a sum of multiples of variables, each of which is between its own `lo` and `hi`."""
    low = high = constant
    for variable, coefficient in terms.items():
        if coefficient > 0:
            low += coefficient * lo[variable]
            high += coefficient * hi[variable]
        else:
            low += coefficient * hi[variable]
            high += coefficient * lo[variable]
    return low, high


def _shape(terms: Terms) -> tuple[frozenset[tuple[int, int]], int]:
    """The linear part up to a factor, and the factor."""
    common = gcd(*terms.values())
    if terms[min(terms)] < 0:
        common = -common
    if common == 1:
        return frozenset(terms.items()), 1
    return frozenset((v, c // common) for v, c in terms.items()), common


compiled.replace_methods(Form, ("plus", "times", "shifted"))  # before what reads forms
compiled.replace(globals(), ("added_up", "box_bounds", "divided"))
compiled.replace_methods(
    Domain,
    (
        *("bounds", "tight_bounds", "fold", "corner", "_tighten", "settle", "outline", "copy"),
        *("require", "ancestors", "is_loose", "within"),
    ),
)
