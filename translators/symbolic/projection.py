"""Iteration domains reduced to the variables of an offset: what ties them, and what may be placed without a look at anything else.

Remainders become variables, those that the offset does not have are projected out, and two that are always steps of one number become
one. Decides whether that is exact; which bytes it is, `domain_image` does.

>>> rest = {0: 1, 1: -4}  # of x by 4, and the quotient
>>> forms = [Form(0, rest), Form(3, {0: -1, 1: 4})]
>>> *_, constraints, constants, constant, offset, exact, start, free = reduced([0, 0], [63, 15], forms, Form(0, {1: 100, 0: 1}))
>>> offset, constraints, free
({1: 104, 2: 1}, [], [(104, 16), (1, 4)])
>>> board = [0, 0], [7, 9], [{0: -1, 1: 2}, {0: 1, 1: -2}], [0, 5], 0, {0: 1, 1: 8}, True, 0, []
>>> of_class(board, {0: -1, 1: 2}, 0, 1, 1)[-1]
[(10, 4), (8, 3)]

What takes time is compiled as well (`ranges.compiled`): a change here needs the same change in `ranges/native/projections.c`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ranges import compiled
from .domain import Form, Infeasible, Terms, box_bounds

#: Remainders that become variables though both bounds of a number become constraints; and of digits, of which fewer do each time: of as
#: many as a number has bits.
MAX_TURNS, MAX_DIGITS = 4, 64
#: Terms of which the sum becomes a variable even if that has as many values as any of them; a number's digits are more.
FEW_TERMS = 4
#: Pairs of constraints of which a variable is projected out.
MAX_PAIRS = 64


#: a domain and an offset: lower and upper bounds by variable; constraints, each of which is at least 0 with its constant, and these
#: constants; the offset's constant and its terms; whether nothing was added when variables were projected out; the least offset of the
#: variables that no constraint has, the constant with it; coefficient and number of values of each of them
Parts = tuple[list[int], list[int], list[Terms], list[int], int, Terms, bool, int, list[tuple[int, int]]]


def reduced(lo: Sequence[int], hi: Sequence[int], forms: Sequence[Form], offset: Form) -> Parts | None:
    """The domain within these bounds in which all forms are at least 0, reduced to the variables of the offset; None where it is seen to
    have no point.
    """
    made = _Reduction([*lo], [*hi], offset.constant, offset.terms)
    try:
        for form in forms:
            if form.terms:
                made.add(form.constant, dict(form.terms))
        made.rebase()
        made.eliminate()
        made.merge_ids()
    except Infeasible:
        return None
    return made.parts()


def of_class(parts: Parts, terms: Terms, unit: int, step: int, remainder: int) -> Parts | None:
    """The points of a domain whose `unit` has this remainder modulo the coefficient that `step` has in these terms; None if there are
    none.
    """
    lows, highs, constraints, constants, start, terms_of_offset, exact, *_ = parts
    lo, hi = [*lows], [*highs]
    modulus = abs(terms[step])
    x, y = len(lo), len(lo) + 1  # unit = modulus * x + remainder, step = y + sign * x
    sign = -terms[unit] * modulus // terms[step]
    lo.append(-((remainder - lows[unit]) // modulus))
    hi.append((highs[unit] - remainder) // modulus)
    least, greatest = sorted((sign * lo[x], sign * hi[x]))
    lo.append(lows[step] - greatest)
    hi.append(highs[step] - least)
    if lo[x] > hi[x]:
        return None

    def told(form: Terms) -> tuple[int, Terms]:
        a, b = form.get(unit, 0), form.get(step, 0)
        others = {v: c for v, c in form.items() if v not in (unit, step)}
        return a * remainder, {v: c for v, c in (others | {x: a * modulus + b * sign, y: b}).items() if c}

    shift, offset = told(terms_of_offset)
    made = _Reduction(lo, hi, start + shift, offset, exact=exact)
    try:
        for form, constant in zip(constraints, constants, strict=True):
            shift, form = told(form)
            made.add(constant + shift, form)
        made.add(-lows[step], {y: 1, x: sign})
        made.add(highs[step], {y: -1, x: -sign})
        made.merge_ids()
    except Infeasible:
        return None
    return made.parts()


class _Reduction:
    """A domain and an offset while they are changed."""

    def __init__(
        self, lo: list[int], hi: list[int], constant: int, offset: Terms, *, exact: bool = True
    ) -> None:
        self.lo, self.hi = lo, hi
        self.constant, self.offset = constant, offset
        self.exact = exact
        self.constraints: list[Terms] = []
        self.constants: list[int] = []

    def parts(self) -> Parts:
        tied = {v for terms in self.constraints for v in terms}
        start, free = self.constant, []
        for variable, coefficient in self.offset.items():
            if variable not in tied:
                start += coefficient * self.lo[variable]
                free.append((coefficient, self.hi[variable] - self.lo[variable] + 1))
        tied_ones = self.constraints, self.constants
        return self.lo, self.hi, *tied_ones, self.constant, self.offset, self.exact, start, free

    def add(self, constant: int, terms: Terms) -> None:
        if not terms and constant < 0:
            raise Infeasible
        low, high = box_bounds(constant, terms, self.lo, self.hi)
        if low >= 0:
            return
        if high < 0:
            raise Infeasible
        if len(terms) == 1:
            ((variable, coefficient),) = terms.items()
            if coefficient > 0:
                self.lo[variable] = max(self.lo[variable], -(constant // coefficient))
            else:
                self.hi[variable] = min(self.hi[variable], constant // -coefficient)
            if self.lo[variable] > self.hi[variable]:
                raise Infeasible
            return
        self.constraints.append(terms)
        self.constants.append(constant)

    def rebase(self) -> None:
        """Use remainders as variables: with 0 <= x - 16*q <= 15, x is replaced by 16*q + m, 0 <= m <= 15.

        Quotient and remainder are often independent when x and the quotient are not. After a few of which both bounds are kept as
        constraints, this goes on only where less is, as for the digits of a number: their bounds, or the number's, say nearly all about x.
        """
        turns = 0
        for _ in range(MAX_DIGITS):
            found = self._remainder()
            if found is None:
                return
            terms, low, high, x = found
            self.lo.append(low)
            self.hi.append(high)
            sign = terms[x]
            # x = sign * (m - the other terms)
            value = {v: -sign * c for v, c in terms.items() if v != x}
            value[len(self.lo) - 1] = sign
            below, above = not self._is_implied(x, terms, 1), not self._is_implied(x, terms, -1)
            if below and above:
                least, most = box_bounds(0, value, self.lo, self.hi)
                if least < self.lo[x] and self.hi[x] < most:
                    if turns == MAX_TURNS:
                        return
                    turns += 1
            old, constants = self.constraints, self.constants
            self.constraints, self.constants = [], []
            for other, constant in zip(old, constants, strict=True):
                if other != terms and other != {v: -c for v, c in terms.items()}:
                    self.add(constant, _replace(other, x, value))
            if below:
                self.add(-self.lo[x], dict(value))
            if above:
                self.add(self.hi[x], {v: -c for v, c in value.items()})
            self.offset = _replace(self.offset, x, value)

    def _is_implied(self, x: int, definition: Terms, sign: int) -> bool:
        """Whether a variable's least value (with -1, its largest one) follows from a constraint that is not part of its definition, as the
        quotient's of a number follow from the number's.
        """
        bound = self.lo[x] if sign > 0 else -self.hi[x]
        for terms, constant in zip(self.constraints, self.constants, strict=True):
            factor = sign * terms.get(x, 0)
            if factor > 0 and terms != definition and terms != {v: -c for v, c in definition.items()}:
                _, most = box_bounds(constant, {v: c for v, c in terms.items() if v != x}, self.lo, self.hi)
                if -(most // factor) >= bound:
                    return True
        return False

    def _remainder(self) -> tuple[Terms, int, int, int] | None:
        """A constraint pair low <= terms <= high with a variable x of coefficient 1 or -1, which has more values than these terms, and a
        larger other coefficient."""
        for terms in self.constraints:
            if max(abs(c) for c in terms.values()) <= 1:
                continue
            units = [v for v, c in terms.items() if abs(c) == 1 and self.hi[v] > self.lo[v]]
            opposite = {v: -c for v, c in terms.items()}
            lows = [-c for t, c in zip(self.constraints, self.constants, strict=True) if t == terms]
            highs = [c for t, c in zip(self.constraints, self.constants, strict=True) if t == opposite]
            if units and highs:
                low, high, x = max(lows), min(highs), max(units, key=lambda v: self.hi[v] - self.lo[v])
                if low > high:
                    raise Infeasible
                if high - low < self.hi[x] - self.lo[x] or len(terms) <= FEW_TERMS:
                    return terms, low, high, x
        return None

    def eliminate(self) -> None:
        """Project out the variables that do not occur in the offset (Fourier-Motzkin, exact if the integers allow
        it).
        """
        while True:
            others = {v for terms in self.constraints for v in terms if v not in self.offset}
            if not others:
                return
            self._eliminate(min(others, key=self._pairs))

    def _pairs(self, variable: int) -> tuple[int, int]:
        signs = [terms[variable] for terms in self.constraints if variable in terms]
        positive = sum(c > 0 for c in signs)
        unit = all(abs(c) == 1 for c in signs)
        return (positive + 1) * (len(signs) - positive + 1) + (0 if unit else 1000), variable

    def _least(self, terms: Terms) -> int:
        return sum(c * (self.lo[v] if c > 0 else self.hi[v]) for v, c in terms.items())

    def _eliminate(self, variable: int) -> None:
        lowers: list[tuple[int, Terms, int]] = [(1, {}, -self.lo[variable])]
        uppers: list[tuple[int, Terms, int]] = [(1, {}, self.hi[variable])]
        rest, rest_constants = [], []
        for terms, constant in zip(self.constraints, self.constants, strict=True):
            coefficient = terms.get(variable, 0)
            if coefficient == 0:
                rest.append(terms)
                rest_constants.append(constant)
                continue
            others = {v: c for v, c in terms.items() if v != variable}
            (lowers if coefficient > 0 else uppers).append((abs(coefficient), others, constant))
        self.constraints, self.constants = rest, rest_constants
        if len(lowers) * len(uppers) > MAX_PAIRS:
            self.exact = False
            return
        for a, lower, lower_constant in lowers:
            for b, upper, upper_constant in uppers:
                if not lower and not upper:
                    continue
                terms = _combined(lower, b, upper, a)
                constant = b * lower_constant + a * upper_constant
                if a > 1 and b > 1:
                    # Between the real shadow and the dark shadow an integer need not exist (Pugh's Omega
                    # test).
                    least = constant + self._least(terms)
                    self.exact = self.exact and least >= (a - 1) * (b - 1)
                if terms:
                    self.add(constant, terms)
                elif constant < 0:
                    raise Infeasible

    def merge_ids(self) -> None:
        """Two variables that occur only as x + n*y, where x covers n steps or more, are a single variable."""
        while True:
            found = _steps_of_another(self.offset, self.lo, self.hi, self.constraints)
            if found is None:
                return
            x, y, steps = found
            # x + steps*y: from lo(x) + steps*lo(y) on, or with negative steps up to hi(x) + steps*lo(y), without gaps
            further = steps * (self.hi[y] - self.lo[y])
            if further > 0:
                self.hi[x] += further
            else:
                self.lo[x] += further
            shift = self.lo[y]
            self.constant += self.offset[y] * shift
            self.offset = {v: c for v, c in self.offset.items() if v != y}
            old, constants = self.constraints, self.constants
            self.constraints, self.constants = [], []
            for terms, constant in zip(old, constants, strict=True):
                rest = dict(terms)
                self.add(constant + rest.pop(y, 0) * shift, rest)


def _steps_of_another(
    offset: Terms, lo: list[int], hi: list[int], constraints: list[Terms]
) -> tuple[int, int, int] | None:
    """Variables x and y of an offset, and n, where they occur only as x + n*y, and x covers n steps or more."""
    for x, of_x in offset.items():
        count = hi[x] - lo[x] + 1
        for y, of_y in offset.items():
            if x == y or count <= 1:
                continue
            steps = count
            # Of traced numbers no more is asked than whether they are as those of work-groups and their items.
            if type(of_x) is int and type(of_y) is int:
                steps = of_y // of_x
                if not 0 < abs(steps) <= count:
                    continue
            if of_y == steps * of_x and all(
                terms.get(y, 0) == steps * terms.get(x, 0) for terms in constraints
            ):
                return x, y, steps
    return None


def _replace(terms: Terms, x: int, value: Terms) -> Terms:
    """Linear terms with x replaced by a linear form."""
    factor = terms.get(x, 0)
    if factor == 0:
        return dict(terms)
    result = {v: c for v, c in terms.items() if v != x}
    for v, c in value.items():
        result[v] = result.get(v, 0) + factor * c
    return {v: c for v, c in result.items() if c}


def _combined(first: Terms, a: int, second: Terms, b: int) -> Terms:
    """The terms of `a` times one form and `b` times another."""
    terms = {variable: a * coefficient for variable, coefficient in first.items()}
    for variable, coefficient in second.items():
        terms[variable] = terms.get(variable, 0) + b * coefficient
    return {variable: coefficient for variable, coefficient in terms.items() if coefficient}


compiled.replace(globals(), ("_steps_of_another", "reduced", "of_class"))
