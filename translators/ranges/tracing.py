"""Integers that record what is done with them, so that it can be repeated with others.

A calculation runs once on `Number`s in the place of ints. Its branches are taken by the values that these have, and
each comparison is noted as a *condition*: as long as all conditions come out the same way, the calculation runs the
same way, and its results are the same functions of the parameters. `Trace.calculation` writes that down; what is to become of
the results is the caller's.

Sums are kept as affine forms over *variables*: parameters, products, and quotients rounded down. Comparisons with the
same linear part are one condition, a range. Whatever asks for the number itself (an index, a hash, a conversion to text
or to an array) gets it, and pins the number to its value: a condition, too. So nothing can be done with a Number that
would come out otherwise unnoticed; what is pinned only makes the trace serve fewer parameters.

Knows neither kernels nor plans. What is called most is compiled as well (`compiled`): a change of Number's methods, and of those of
Trace that these call, needs the same change in `native/numbers.c`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import chain
from math import gcd
from operator import index, itemgetter
from typing import Any

from . import compiled, linear_forms
from .calculations import (
    COMPARED,
    COMPARISONS,
    OPERATIONS,
    SIGNS,
    Calculation,
    Definition,
    Form,
    RealOperand,
    RealStep,
)
from .linear_forms import Linear, Range, Solution, larger, smaller


class Trace:
    """What was recorded of one calculation."""

    __slots__ = (
        *(
            "_comparisons",
            "_known",
            "_multiples",
            "_normal",
            "_others",
            "_ranges",
            "_reals",
            "_solution",
            "_sums",
            "_terms",
        ),
        *("_variables", "closed", "compared", "parameters"),
    )

    def __init__(self) -> None:
        self.parameters: list[int] = []  #: their variables; -1 for a floating-point number
        #: by variable: what it is, in terms of earlier ones; None for a parameter
        self._variables: list[Definition | None] = []
        self._known: dict[object, int] = {}
        #: by linear part: the least and the largest value for which comparisons have the same results as here; and
        #: values that it must not have
        self._ranges: dict[Linear, tuple[int | None, int | None]] = {}
        self._others: dict[Linear, set[int]] = {}
        #: by sign, constant and the identity of terms, of two numbers of those of both: results of comparisons
        self.compared: dict[tuple[str, int, int] | tuple[str, int, int, int], bool] = {}
        #: the terms of all numbers, one object for equal ones, which live as long as this does; and by the identities of two
        #: and a factor, and of one and a factor, those that are made of them: most are made again and again
        self._terms: dict[Linear, Terms] = {}
        self._sums: dict[tuple[int, int, int], Terms] = {}
        self._multiples: dict[tuple[int, int], Terms] = {}
        self._normal: dict[int, tuple[Linear, int]] = {}  #: by the identity of terms
        #: comparisons of floating-point numbers, with their results; and what is calculated of such numbers, with its place
        self._comparisons: dict[tuple[RealStep, bool], None] = {}
        self._reals: dict[RealStep, int] = {}
        self._solution: Solution | None = None  #: until there are more conditions
        self.closed = False

    def parameter(self, value: int) -> Number:
        """The next parameter, which has this value."""
        self._solution = None
        variable = self.variable(("parameter", len(self.parameters)), None)
        self.parameters.append(variable)
        return Number(self, value, self.terms({variable: 1}), 0)

    def real_parameter(self, value: float) -> Real:
        """The same for a floating-point number."""
        self.parameters.append(-1)
        return Real(self, value, -len(self.parameters))

    def variable(self, key: object, definition: Definition | None) -> int:
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self._variables)
            self._variables.append(definition)
        return found

    def terms(self, terms: Terms) -> Terms:
        """The one object for terms that are equal, in the same order."""
        return self._terms.setdefault(tuple(terms.items()), terms)

    def plus(self, terms: Terms, others: Terms, factor: int) -> Terms:
        """The terms of one form and `factor` times another: objects that `terms` gave."""
        key = id(terms), id(others), factor
        found = self._sums.get(key)
        if found is None:
            found = self._sums[key] = self.terms(linear_forms.plus(terms, others, factor))
        return found

    def times(self, terms: Terms, factor: int) -> Terms:
        """`factor` times the terms of a form, an object that `terms` gave."""
        key = id(terms), factor
        found = self._multiples.get(key)
        if found is None:
            product = {variable: coefficient * factor for variable, coefficient in terms.items()}
            found = self._multiples[key] = self.terms(product)
        return found

    def normal(self, terms: Terms) -> tuple[Linear, int]:
        """As of `linear_forms`, for an object that `terms` gave."""
        found = self._normal.get(id(terms))
        if found is None:
            found = self._normal[id(terms)] = linear_forms.normal(terms)
        return found

    def check_open(self) -> None:
        if self.closed:
            raise RuntimeError("a number outlived the calculation that it was traced in")

    def close(self) -> None:
        """Nothing more is calculated. What only calculations need is let go: a number can still be written down."""
        self.closed = True
        self.solution()
        for table in (self._known, self._sums, self._multiples, self._normal, self.compared):
            table.clear()

    def real(self, step: RealStep) -> int:
        """The place of something that is calculated once, however often it is used."""
        return self._reals.setdefault(step, len(self._reals))

    # conditions -------------------------------------------------------------------------------------

    def compare(self, terms: Terms, constant: int, value: int, sign: str) -> bool:
        """Whether form `sign` 0 holds, for a sign of `<`, `<=` or `==`; `value`: the form's current value. `terms`: an object
        that the method of this name gave.
        """
        if self.closed:
            self.check_open()
        key = sign, constant, id(terms)
        found = self.compared.get(key)
        if found is None:  # half of all comparisons have been made before
            found = self.compared[key] = self._noted(terms, constant, value, sign)
        return found

    def _noted(self, terms: Terms, constant: int, value: int, sign: str) -> bool:
        linear, factor = self.normal(terms)
        now = (value - constant) // factor
        if sign == "==":
            if value == 0:
                self._narrow(linear, now, now)
            elif constant % factor == 0:  # otherwise it can never be 0
                self._others.setdefault(linear, set()).add(-constant // factor)
            return value == 0
        if sign == "<":
            constant += 1  # of integers: < 0 is +1 <= 0
        true = value < 0 or (value == 0 and sign == "<=")
        # factor * L + constant <= 0, or else factor * L + constant >= 1
        if true == (factor > 0):
            bound = -constant if true else constant - 1
            self._narrow(linear, None, bound // abs(factor))
        else:
            bound = constant if true else 1 - constant
            self._narrow(linear, -(-bound // abs(factor)), None)
        return true

    def _narrow(self, linear: Linear, low: int | None, high: int | None) -> None:
        self._solution = None
        known = self._ranges.get(linear)
        if known is not None:
            low, high = larger(known[0], low), smaller(known[1], high)
        self._ranges[linear] = low, high

    def quotient(self, terms: Terms, constant: int, divisor: int) -> int | None:
        """What a form divided by `divisor` > 0 is, rounded down, if that follows from conditions that were noted already. `terms`:
        as of `compare`.
        """
        linear, factor = self.normal(terms)
        low, high = self._ranges.get(linear, (None, None))
        if low is None or high is None:
            return None
        first, last = (factor * bound + constant for bound in (low, high))
        return first // divisor if first // divisor == last // divisor else None

    def compare_reals(self, step: RealStep, outcome: bool) -> bool:
        self.check_open()
        self._comparisons[step, outcome] = None
        return outcome

    # to be made again -------------------------------------------------------------------------------

    def calculation(self, forms: Sequence[Form], *, known: bool = False) -> Calculation:
        """What gives the values of forms for other parameters. `known`: for such as keep all conditions."""
        ranges, forbidden = ([], []) if known else self.bounds()
        reals, comparisons = ((), ()) if known else self._compared_reals()
        linear_parts = [linear for *_, linear in ranges]
        linear_parts += [linear for _, linear in forbidden]
        linear_parts += [linear for linear, _ in forms]
        for _, *operands in (*reals, *[step for step, _ in comparisons]):
            linear_parts += [
                operand[0] for operand in operands if type(operand) is tuple and len(operand) == 2
            ]
        return Calculation(
            tuple(self.parameters),
            len(self._variables),
            self._definitions(linear_parts),
            reals,
            comparisons,
            tuple(ranges),
            tuple(forbidden),
            tuple(forms),
        )

    def _definitions(self, linear_parts: Iterable[Linear]) -> tuple[tuple[int, Definition], ...]:
        """What defines the variables in some linear parts, and all those that they need, in order."""
        needed = set(map(itemgetter(0), chain.from_iterable(linear_parts)))
        pending, found = list(needed), []
        while pending:
            variable = pending.pop()
            definition = self._variables[variable]
            if definition is None:
                continue
            found.append((variable, definition))
            for part in definition:
                more = [each for each, _ in part[0] if each not in needed] if type(part) is tuple else ()
                needed.update(more)
                pending += more
        return tuple(sorted(found))

    def _compared_reals(self) -> tuple[tuple[RealStep, ...], tuple[tuple[RealStep, bool], ...]]:
        """The floating-point numbers in conditions, and all those that they need, in order; and these conditions."""
        needed = set[int]()
        for (_, *operands), _ in self._comparisons:
            needed.update(_calculated_in(operands))
        for (_, *operands), place in reversed(self._reals.items()):  # each comes behind those that it needs
            if place in needed:
                needed.update(_calculated_in(operands))
        places = {place: number for number, place in enumerate(sorted(needed))}

        def renamed(step: RealStep) -> RealStep:
            sign, *operands = step
            first, second = [places.get(each, each) if type(each) is int else each for each in operands]
            return sign, first, second

        steps = tuple([renamed(step) for step, place in self._reals.items() if place in needed])
        return steps, tuple([(renamed(step), outcome) for step, outcome in self._comparisons])

    def solution(self) -> Solution:
        """What is known of variables as long as all conditions hold: those that are a form of others."""
        found = self._solution
        if found is None:
            parameters = {number for number, definition in enumerate(self._variables) if definition is None}
            found = self._solution = linear_forms.solved(parameters, self._ranges)
        return found

    def bounds(self) -> tuple[list[Range], list[tuple[int, Linear]]]:
        """The conditions on whole numbers: ranges of linear parts, and values that these must not have.

        If some are equations, the others are written in the variables that these leave, so that what follows from
        them is not tested again.
        """
        solution = self.solution()
        ranges, others = self._ranges_with(solution), self._others_with(solution)
        found: list[Range] = [
            (constant, constant, ((variable, 1), *((other, -factor) for other, factor in terms.items())))
            for variable, (terms, constant) in solution.forms.items()
        ]
        found += [(low, high, linear) for linear, (low, high) in ranges.items()]
        forbidden = []
        for linear, values in others.items():
            low, high = ranges.get(linear, (None, None))
            for value in sorted(values):
                if (low is None or low <= value) and (high is None or value <= high):
                    forbidden.append((value, linear))
        return found, forbidden

    def _ranges_with(self, solution: Solution) -> dict[Linear, tuple[int | None, int | None]]:
        """The same, in terms of the variables that are left; two that become the same form are one range."""
        found: dict[Linear, tuple[int | None, int | None]] = {}
        for linear, (low, high) in self._ranges.items():
            rewritten = solution.range_of(linear, low, high)
            if rewritten is None:
                continue  # it follows from the equations: it held when they did
            low, high, rest = rewritten
            known = found.get(rest)
            found[rest] = (low, high) if known is None else (larger(known[0], low), smaller(known[1], high))
        return found

    def _others_with(self, solution: Solution) -> dict[Linear, set[int]]:
        found: dict[Linear, set[int]] = {}
        for linear, values in self._others.items():
            terms, constant = solution.reduced(dict(linear), 0)
            if not terms:
                continue
            rest, factor = linear_forms.normal(terms)
            # factor * rest + constant is never one of the forbidden values
            left = {(value - constant) // factor for value in values if (value - constant) % factor == 0}
            if left:
                found.setdefault(rest, set()).update(left)
        return found


def form_of(number: Any) -> Hashable:
    """What tells numbers apart that are made in different ways from parameters, without asking for their values."""
    return (number.constant, *number.terms.items()) if type(number) is Number else number


def value_of(number: Any) -> Any:
    """What a number is in the calculation that is traced. Nothing is noted: for what is of no use for other parameters."""
    return number.value if type(number) is Number else number


def _calculated_in(operands: Iterable[RealOperand]) -> list[int]:
    """Places of what is calculated, among operands of floating-point arithmetic."""
    return [operand for operand in operands if type(operand) is int and operand >= 0]


Operand = Any  # an int, a float, a Number or a Real
Terms = dict[int, int]  #: by variable, its coefficient, which is not 0


class Number:
    """An int that is a parameter or made from parameters. It has terms: a constant is an ordinary int."""

    __slots__ = ("constant", "terms", "trace", "value")
    __array_ufunc__ = None  # NumPy's numbers leave operations to this class

    def __init__(self, trace: Trace, value: int, terms: Terms, constant: int) -> None:
        """`terms`: an object that the trace's method of this name gave."""
        self.trace = trace
        self.value = value
        self.terms = terms
        self.constant = constant

    # arithmetic -------------------------------------------------------------------------------------

    def _made(self, value: int, terms: Terms, constant: int) -> Any:
        if self.trace.closed:
            self.trace.check_open()
        return Number(self.trace, value, terms, constant) if terms else constant

    def __add__(self, other: Operand) -> Any:
        if type(other) is int:
            trace = self.trace
            if trace.closed:
                trace.check_open()
            return Number(trace, self.value + other, self.terms, self.constant + other)
        if type(other) is Number:
            terms = self.trace.plus(self.terms, other.terms, 1)
            return self._made(self.value + other.value, terms, self.constant + other.constant)
        if _is_real(other):
            return self._real() + other
        if _is_array(other):
            return self._pinned() + other
        number = index(other)
        return self._made(self.value + number, self.terms, self.constant + number)

    __radd__ = __add__

    def __neg__(self) -> Any:
        return self._times(-1)

    def __pos__(self) -> Any:
        return self

    def __sub__(self, other: Operand) -> Any:
        if type(other) is int:
            trace = self.trace
            if trace.closed:
                trace.check_open()
            return Number(trace, self.value - other, self.terms, self.constant - other)
        if type(other) is Number:
            terms = self.trace.plus(self.terms, other.terms, -1)
            return self._made(self.value - other.value, terms, self.constant - other.constant)
        return self + -other

    def __rsub__(self, other: Operand) -> Any:
        return -self + other

    def _times(self, factor: int) -> Any:
        if factor == 0:
            return 0
        if factor == 1:
            return self  # nothing changes a number
        trace = self.trace
        if trace.closed:
            trace.check_open()
        return Number(trace, self.value * factor, trace.times(self.terms, factor), self.constant * factor)

    def __mul__(self, other: Operand) -> Any:
        if type(other) is int:
            return self._times(other)
        if type(other) is Number:
            first, second = sorted((_form(self), _form(other)))
            return self._of((first, second), self.value * other.value)
        if _is_real(other):
            return self._real() * other
        if _is_array(other):
            return self._pinned() * other
        return self._times(index(other)) if hasattr(other, "__index__") else NotImplemented  # a list, say

    __rmul__ = __mul__

    def _of(self, definition: Definition, value: int) -> Number:
        """A number that is not an affine form of others."""
        variable = self.trace.variable(definition, definition)
        return Number(self.trace, value, self.trace.terms({variable: 1}), 0)

    def __floordiv__(self, other: Operand) -> Any:
        if _is_real(other):
            raise TypeError("quotients of floating-point numbers are not rounded here")
        divisor = index(other)
        if divisor < 0:
            return -self // -divisor
        if divisor == 0:
            raise ZeroDivisionError
        known = self.trace.quotient(self.terms, self.constant, divisor)
        if known is not None:
            return known
        whole = {v: c // divisor for v, c in self.terms.items() if c // divisor}
        rest = {v: c % divisor for v, c in self.terms.items() if c % divisor}
        base = self._made(0, self.trace.terms(whole), self.constant // divisor)
        if rest:
            low = self.constant % divisor
            common = gcd(divisor, *rest.values())  # floor((a*x + b) / (a*d)) is floor((x + b//a) / d)
            rest, low, divided = {v: c // common for v, c in rest.items()}, low // common, divisor // common
            known = self.trace.quotient(self.trace.terms(rest), low, divided)
            base = base + (self._of(((tuple(rest.items()), low), divided), 0) if known is None else known)
        if type(base) is Number:  # not a shared object: it was made here
            base.value = self.value // divisor
        return base

    def __rfloordiv__(self, other: Operand) -> Any:
        return other // self._pinned()

    def __mod__(self, other: Operand) -> Any:
        divisor = index(other)
        return self - self // divisor * divisor

    def __rmod__(self, other: Operand) -> Any:
        return other % self._pinned()

    def __divmod__(self, other: Operand) -> tuple[Any, Any]:
        quotient = self // other
        return quotient, self - quotient * index(other)

    def __rdivmod__(self, other: Operand) -> tuple[Any, Any]:
        found: tuple[Any, Any] = divmod(other, self._pinned())
        return found

    def __lshift__(self, other: Operand) -> Any:
        return self._times(1 << index(other))

    def __rlshift__(self, other: Operand) -> Any:
        return other << self._pinned()

    def __rshift__(self, other: Operand) -> Any:
        return self // (1 << index(other))

    def __rrshift__(self, other: Operand) -> Any:
        return other >> self._pinned()

    def __and__(self, other: Operand) -> Any:
        return self._pinned() & index(other)

    def __or__(self, other: Operand) -> Any:
        return self._pinned() | index(other)

    def __xor__(self, other: Operand) -> Any:
        return self._pinned() ^ index(other)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __invert__(self) -> Any:
        return -self - 1

    def __abs__(self) -> Any:
        return -self if self < 0 else self

    def __truediv__(self, other: Operand) -> Any:
        return self._real() / other

    def __rtruediv__(self, other: Operand) -> Any:
        return other / self._real()

    def _real(self) -> Real:
        return Real(self.trace, self.value, _form(self))

    # comparisons ------------------------------------------------------------------------------------

    def _compare(self, other: Operand, sign: str) -> Any:
        trace = self.trace
        if type(other) is Number:
            key = sign, self.constant - other.constant, id(self.terms), id(other.terms)
            found = trace.compared.get(key)
            return self._compare_two(other, sign, key) if found is None or trace.closed else found
        if type(other) is int:
            found = trace.compared.get((sign, self.constant - other, id(self.terms)))
            if found is None or trace.closed:
                return trace.compare(self.terms, self.constant - other, self.value - other, sign)
            return found
        if _is_real(other):
            return bool(_COMPARE[sign](self._real(), other))
        if _is_array(other):
            return _COMPARE[sign](self._pinned(), other)
        difference = self - other
        if type(difference) is Number:
            return self.trace.compare(difference.terms, difference.constant, difference.value, sign)
        return bool(_COMPARE[sign](difference, 0))

    def _compare_two(self, other: Number, sign: str, key: tuple[str, int, int, int]) -> bool:
        """The first comparison of two; `key`: what it is entered as."""
        trace = self.trace
        trace.check_open()
        terms, constant = trace.plus(self.terms, other.terms, -1), self.constant - other.constant
        found = (
            trace.compare(terms, constant, self.value - other.value, sign)
            if terms
            else bool(_COMPARE[sign](constant, 0))
        )
        trace.compared[key] = found
        return found

    def __lt__(self, other: Operand) -> Any:
        return self._compare(other, "<")

    def __le__(self, other: Operand) -> Any:
        return self._compare(other, "<=")

    def __gt__(self, other: Operand) -> Any:
        found = self._compare(other, "<=")
        return ~found if _is_array(found) else not found

    def __ge__(self, other: Operand) -> Any:
        found = self._compare(other, "<")
        return ~found if _is_array(found) else not found

    def __eq__(self, other: object) -> Any:
        if other is None or isinstance(other, (str, bytes, tuple)):
            return False
        return self._compare(other, "==")

    def __bool__(self) -> bool:
        return not self._compare(0, "==")

    # the number itself ------------------------------------------------------------------------------

    def _pinned(self) -> int:
        """The value, to which the number is bound from now on."""
        self.trace.compare(self.terms, self.constant - self.value, 0, "==")
        return self.value

    __index__ = __int__ = __round__ = _pinned

    def __hash__(self) -> int:
        return hash(self._pinned())

    def __float__(self) -> float:
        return float(self._pinned())

    def __str__(self) -> str:
        return str(self._pinned())

    def __format__(self, how: str) -> str:
        return format(self._pinned(), how)

    def bit_length(self) -> int:
        return self._pinned().bit_length()

    def __repr__(self) -> str:
        return f"<{self.value} = {linear_forms.show(self.terms, self.constant)}>"


def _form(number: Number) -> Form:
    return tuple(number.terms.items()), number.constant


class Real:
    """A floating-point number made from parameters; repeating the calculation repeats every operation exactly."""

    __slots__ = ("operand", "trace", "value")
    __array_ufunc__ = None

    def __init__(self, trace: Trace, value: float, operand: RealOperand) -> None:
        self.trace = trace
        self.value = value
        self.operand = operand

    def _with(self, other: Operand, sign: str, turned: bool = False) -> Real:
        self.trace.check_open()
        if sign == "+" and type(other) is float and other == 0.0:
            return self  # as sums begin; what may change is the sign of 0, which no comparison sees
        value, operand = _operand(other)
        first, second = ((value, operand), (self.value, self.operand))[:: 1 if turned else -1]
        place = SIGNS.index(sign)
        made = self.trace.real((place, first[1], second[1]))
        return Real(self.trace, OPERATIONS[place](first[0], second[0]), made)

    def __add__(self, other: Operand) -> Real:
        return self._with(other, "+")

    def __radd__(self, other: Operand) -> Real:
        return self._with(other, "+", True)

    def __sub__(self, other: Operand) -> Real:
        return self._with(other, "-")

    def __rsub__(self, other: Operand) -> Real:
        return self._with(other, "-", True)

    def __mul__(self, other: Operand) -> Real:
        return self._with(other, "*")

    def __rmul__(self, other: Operand) -> Real:
        return self._with(other, "*", True)

    def __truediv__(self, other: Operand) -> Real:
        return self._with(other, "/")

    def __rtruediv__(self, other: Operand) -> Real:
        return self._with(other, "/", True)

    def __neg__(self) -> Real:
        return self * -1

    def _compare(self, other: Operand, sign: str) -> bool:
        value, operand = _operand(other)
        if sign == ">" and operand == _INFINITE:
            return False  # nothing is
        place = COMPARED.index(sign)
        outcome = bool(COMPARISONS[place](self.value, value))
        return self.trace.compare_reals((place, self.operand, operand), outcome)

    def __lt__(self, other: Operand) -> Any:
        return self._compare(other, "<")

    def __le__(self, other: Operand) -> Any:
        return self._compare(other, "<=")

    def __gt__(self, other: Operand) -> bool:
        return self._compare(other, ">")

    def __ge__(self, other: Operand) -> bool:
        return self._compare(other, ">=")

    def __eq__(self, other: object) -> bool:
        return self._compare(other, "==")

    def __bool__(self) -> bool:
        return not self._compare(0, "==")

    def _pinned(self) -> float:
        self._compare(self.value, "==")
        return self.value

    def __hash__(self) -> int:
        return hash(self._pinned())

    def __float__(self) -> float:
        return self._pinned()

    def __round__(self) -> int:
        return round(self._pinned())

    def __repr__(self) -> str:
        return f"<{self.value} = {self.operand}>"


_COMPARE = dict(zip(COMPARED, COMPARISONS, strict=True))
_INFINITE = (float("inf"),)


def _is_array(operand: object) -> bool:
    """Whether it is an array of NumPy's, which has many numbers: what meets one is pinned."""
    return getattr(operand, "ndim", 0) > 0


def _is_real(operand: object) -> bool:
    return type(operand) is Real or isinstance(operand, float)


def _operand(operand: Operand) -> tuple[Any, RealOperand]:
    """The value of an operand of floating-point arithmetic, and what it is written down as."""
    if type(operand) is Real:
        return operand.value, operand.operand
    if type(operand) is Number:
        return operand.value, _form(operand)
    return operand, ((), index(operand)) if hasattr(operand, "__index__") else (float(operand),)


_COMPILED = (
    *(
        "__add__",
        "__radd__",
        "__sub__",
        "__rsub__",
        "__neg__",
        "__mul__",
        "__rmul__",
        "__floordiv__",
        "__mod__",
    ),
    *("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__bool__", "__index__", "__int__", "_pinned"),
)


def whole(number: Any) -> Any:
    """`number` as an int, whatever kind of integer it is; a Number stays as it is."""
    return number if type(number) is int or type(number) is Number else int(number)


compiled.replace_methods(Trace, ("_ranges_with",))  # whose tables those of Number use, too
compiled.replace_methods(Number, _COMPILED)
