"""Numbers that are traced, compiled: what a calculation gives, and all that its trace notes of it, is as with those in Python."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from vdev.translators.ranges import compiled, linear_forms
from vdev.translators.ranges.tracing import Number, Trace

from vdev.backends import own_libraries
from vdev.packaging import library

from .growth import FEW, least_growth

pytestmark = pytest.mark.skipif(not any(True for _ in library.compilers()), reason="there is no C compiler")

WITH_TWO: tuple[Callable[[Any, Any], Any], ...] = (
    *(operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod),
    *(operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne, max, min, divmod),
)
WITH_ONE: tuple[Callable[[Any], Any], ...] = (operator.neg, bool, int, operator.index, abs, float)
#: what numbers meet now and then: all that is not an int of 64 bits is left to Python
OTHERS: tuple[Any, ...] = (
    True,
    2.5,
    1 << 70,
    (1 << 63) - 1,
    -(1 << 63),
    np.int64(7),
    np.arange(3),
    None,
    "text",
)


@pytest.fixture(autouse=True, scope="module")
def _loaded() -> None:
    assert own_libraries.load_ranges()


def attempt(function: Callable[..., Any], *operands: Any) -> Any:
    """What comes of it: an error is a result like others."""
    try:
        return function(*operands)
    except (TypeError, ValueError, ZeroDivisionError, OverflowError) as error:
        return type(error).__name__


def outcome(seed: int, large: int = 0) -> tuple[Any, ...]:
    """What a random calculation gives, and its trace. `large`: in how many of a hundred operands numbers are large, or none."""
    rng, trace = random.Random(seed), Trace()
    numbers: list[Any] = [
        trace.parameter(rng.choice((0, 1, 3, 40, 1000))) for _ in range(rng.randrange(1, 6))
    ]
    found = []

    def operand() -> Any:
        if rng.randrange(100) < large:
            return rng.choice(OTHERS)
        return rng.choice((*numbers[-6:], *numbers[:6], rng.randrange(-20, 20), 1 << rng.randrange(16)))

    for _ in range(rng.randrange(5, 120)):
        if rng.random() < 0.1:
            made = attempt(rng.choice(WITH_ONE), rng.choice(numbers))
        else:
            made = attempt(rng.choice(WITH_TWO), *rng.sample((rng.choice(numbers), operand()), 2))
        found.append(made)
        numbers += [each for each in (made if isinstance(made, tuple) else (made,)) if type(each) is Number]
        for each in numbers[-2:]:
            if abs(each.value) > 1 << 40 and rng.randrange(100) >= large:
                numbers.remove(each)
    return repr(found), everything_noted(trace)


def everything_noted(trace: Trace) -> list[Any]:
    calculation = trace.calculation([(((variable, 1),), 0) for variable in range(len(trace._variables))])
    conditions = [*calculation.ranges, *calculation.forbidden, *calculation.comparisons]
    solution = trace.solution()
    return [
        *(trace._variables, trace._known, trace._ranges, trace._others, list(trace._terms), conditions),
        [(sign, constant) for sign, constant, *_ in trace.compared],
        *(list(trace.compared.values()), list(trace._sums.values()), list(trace._multiples.values())),
        *(list(trace._normal.values()), [(*each, list(each[0])) for each in solution.forms.values()]),
        *(trace._comparisons, trace._reals, calculation),
    ]


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize("large", [0, 5])
def test_what_a_calculation_gives_and_what_is_noted_of_it(large: int) -> None:
    conditions = 0
    for seed in range(400):
        found = outcome(seed, large)
        with compiled.plainly():
            wanted = outcome(seed, large)
        assert found == wanted, seed
        conditions += len(found[1][5])
    assert conditions > 2000


def random_ranges(rng: random.Random, large: int) -> dict[Any, tuple[int | None, int | None]]:
    """By linear part; most of them have one value, as equations do."""
    found = {}
    for _ in range(rng.randrange(1, 9)):
        variables = sorted(rng.sample(range(7), rng.randrange(1, 5)))
        linear = tuple((variable, rng.choice((1, 1, -1, 2, 3, -40))) for variable in variables)
        low = rng.choice(OTHERS[2:5]) if rng.randrange(100) < large else rng.randrange(-50, 50)
        found[linear] = (
            (low, low) if rng.random() < 0.8 else rng.choice(((None, low), (low, None), (low, low + 1)))
        )
    return found


def what_follows(seed: int, large: int = 0) -> Any:
    rng = random.Random(seed)
    parameters, ranges = set(rng.sample(range(7), 4)), random_ranges(rng, large)
    found = linear_forms.solved(parameters, ranges)
    forms = [(variable, list(terms.items()), constant) for variable, (terms, constant) in found.forms.items()]
    return (
        forms,
        {variable: users for variable, users in found._in_forms_of.items() if users},
        found._parameters,
    )


def test_what_follows_from_equations() -> None:
    several = 0
    for seed in range(4000):
        ours = what_follows(seed, 3)
        with compiled.plainly():
            assert ours == what_follows(seed, 3), seed
        several += len(ours[0]) > 2 and any(len(terms) > 1 for _, terms, _ in ours[0])
    assert several > 500


def test_numbers_of_64_bits_are_not_left_to_python(monkeypatch: pytest.MonkeyPatch) -> None:
    (methods,) = (methods for cls, methods in compiled.code.with_methods if cls is Number)
    assert all(type(getattr(Number, name)).__name__ == "method_descriptor" for name in methods)
    trace = Trace()
    a, b = trace.parameter(5), trace.parameter(70)
    for name in ("add", "_keep"):
        monkeypatch.delattr(linear_forms.Solution, name)
    equations: Any = {((0, 1), (1, 2)): (5, 5), ((1, 3), (2, -1)): (4, 4), ((0, 2),): (1, None)}
    assert linear_forms.solved({0, 1}, equations).forms == {0: ({1: -2}, 5), 2: ({1: 3}, -4)}
    for name in (
        "plus",
        "times",
        "terms",
        "normal",
        "compare",
        "quotient",
        "variable",
    ):  # what those in Python call
        monkeypatch.delattr(Trace, name)
    assert repr(
        [a + b, 3 + a, a - b, 4 - a, a * b, -a, 3 * a // 8, (b + 8) % 4, a < b, a == 5, bool(b), int(a)]
    ) == (
        "[<75 = v0 + v1>, <8 = v0 + 3>, <-65 = v0 - v1>, <-1 = -v0 + 4>, <350 = v2>, <-5 = -v0>, <1 = v3>, <2 = v1 - 4 * v4>,"
        " True, True, True, 5]"
    )


def test_a_number_that_outlives_its_calculation_is_refused() -> None:
    trace = Trace()
    number = trace.parameter(5)
    trace.closed = True
    for function in (
        lambda: number + 1,
        lambda: number * 2,
        lambda: number < 3,
        lambda: bool(number),
        lambda: 8 // number,
    ):
        with pytest.raises(RuntimeError, match="outlived"):
            function()


@pytest.mark.filterwarnings("ignore:divide by zero")
def test_nothing_is_kept() -> None:
    def work() -> None:
        for seed in range(60):
            outcome(seed, 5)
        for seed in range(400):
            what_follows(seed, 5)

    assert least_growth(work) < FEW
