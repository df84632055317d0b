"""Calculations with numbers that were written down once (`tracing`), made again with others.

Variables are numbers that are given, and quotients and products of forms of earlier ones; floating-point numbers are made of both. Decides
whether all conditions hold, and what values forms have then. Nothing is compiled for it.

The function is compiled as well (`compiled`): a change here needs the same change in `native/calculations.c`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from . import compiled
from .linear_forms import Linear, Range

#: a linear part and a constant
Form = tuple[Linear, int]
#: a form divided by a number above 0, rounded down, or times another form
Definition = tuple[Form, "int | Form"]
#: of floating-point arithmetic: what is calculated, by its place; what is given, by -1 less its place; a form; or a number, alone
RealOperand = int | Form | tuple[float]
#: the place of an operation or a comparison in its table, and two operands
RealStep = tuple[int, RealOperand, RealOperand]

SIGNS = "+", "-", "*", "/"
OPERATIONS: tuple[Callable[[Any, Any], Any], ...] = (
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
)
COMPARED = "<", "<=", ">", ">=", "=="
COMPARISONS: tuple[Callable[[Any, Any], Any], ...] = (
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
    operator.eq,
)


class Calculation(NamedTuple):
    """What `calculated` does with numbers."""

    variables: tuple[
        int, ...
    ]  #: by the place of a number that is given, its variable; -1 for a floating-point number
    nvariables: int
    definitions: tuple[
        tuple[int, Definition], ...
    ]  #: with their variables; each comes behind those that it needs
    reals: tuple[RealStep, ...]  #: by place
    comparisons: tuple[tuple[RealStep, bool], ...]  #: with the results that they must have
    ranges: tuple[Range, ...]  #: of linear parts
    forbidden: tuple[tuple[int, Linear], ...]  #: values that linear parts must not have
    forms: tuple[Form, ...]  #: those that are wanted


def calculated(
    numbers: Sequence[Any],
    variables: Sequence[int],
    nvariables: int,
    definitions: Sequence[tuple[int, Definition]],
    reals: Sequence[RealStep],
    comparisons: Sequence[tuple[RealStep, bool]],
    ranges: Sequence[Range],
    forbidden: Sequence[tuple[int, Linear]],
    forms: Sequence[Form],
) -> tuple[int, ...] | None:
    """The values of the forms of a `Calculation` for these numbers; None where a condition does not hold."""
    values = [0] * nvariables
    for variable, number in zip(variables, numbers, strict=True):
        if variable >= 0:
            values[variable] = number
    for variable, (form, other) in definitions:
        value = _value(values, form)
        values[variable] = value * _value(values, other) if isinstance(other, tuple) else value // other
    if not _have_results(numbers, values, reals, comparisons) or not _are_allowed(values, ranges, forbidden):
        return None
    return tuple([_value(values, form) for form in forms])


def _have_results(
    numbers: Sequence[Any],
    values: Sequence[int],
    reals: Sequence[RealStep],
    comparisons: Sequence[tuple[RealStep, bool]],
) -> bool:
    """Whether comparisons of floating-point numbers have the results that they must have."""
    made: list[Any] = []

    def real(operand: RealOperand) -> Any:
        if type(operand) is int:
            return made[operand] if operand >= 0 else numbers[-1 - operand]
        assert type(operand) is tuple, "nothing else is an operand"
        return _value(values, operand) if len(operand) == 2 else operand[0]

    for sign, first, second in reals:
        made.append(OPERATIONS[sign](real(first), real(second)))
    return all(
        COMPARISONS[sign](real(first), real(second)) == outcome
        for (sign, first, second), outcome in comparisons
    )


def _are_allowed(
    values: Sequence[int], ranges: Sequence[Range], forbidden: Sequence[tuple[int, Linear]]
) -> bool:
    for low, high, linear in ranges:
        value = _value(values, (linear, 0))
        if (low is not None and value < low) or (high is not None and value > high):
            return False
    return all(_value(values, (linear, 0)) != value for value, linear in forbidden)


def _value(values: Sequence[int], form: Form) -> int:
    linear, total = form
    for variable, coefficient in linear:
        total += coefficient * values[variable]
    return total


compiled.replace(globals(), ("calculated",))
