"""Numbers that note what is done with them: done again with others, a calculation gives what it gave on plain ints, or a
condition does not hold."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pytest
from vdev.translators.ranges.calculations import OPERATIONS as OF_REALS
from vdev.translators.ranges.calculations import calculated
from vdev.translators.ranges.patterns import arguments_of, remade
from vdev.translators.ranges.region import Region
from vdev.translators.ranges.tracing import Number, Real, Trace

Calculation = Callable[[Sequence[Any]], list[Any]]


def repeated(trace: Trace, results: Sequence[Any]) -> Callable[[Sequence[Any]], list[Any] | None]:
    """What gives the results of other parameters, None where a condition does not hold."""
    variables = tuple((((variable, 1),), 0) for variable in range(len(trace._variables)))
    calculation, steps = trace.calculation(variables), list(trace._reals)

    def run(given: Sequence[Any]) -> list[Any] | None:
        found = calculated(given, *calculation)
        if found is None:
            return None
        values = found

        def whole(terms: Iterable[tuple[int, int]], constant: int) -> int:
            return constant + sum(coefficient * values[variable] for variable, coefficient in terms)

        def real(operand: Any) -> Any:
            if isinstance(operand, tuple):
                return whole(*operand) if len(operand) == 2 else operand[0]
            if operand < 0:
                return given[-1 - operand]
            sign, first, second = steps[operand]
            return OF_REALS[sign](real(first), real(second))

        def other(item: Any) -> Any:
            if type(item) is tuple:
                return tuple(map(other, item))
            if type(item) is Real:
                return real(item.operand)
            return whole(item.terms.items(), item.constant) if type(item) is Number else item

        return [*map(other, results)]

    return run


def traced(calculation: Calculation, values: Sequence[int]) -> Callable[[Sequence[int]], list[Any] | None]:
    trace = Trace()
    return repeated(trace, calculation([trace.parameter(value) for value in values]))


def plain(results: Sequence[Any]) -> list[Any]:
    return [item.value if isinstance(item, (Number, Real)) else item for item in results]


OPERATIONS: tuple[Callable[[Any, Any, int], Any], ...] = (
    lambda a, b, n: a + b,
    lambda a, b, n: a - b,
    lambda a, b, n: n * a - b,
    lambda a, b, n: a * b,
    lambda a, b, n: a // n,
    lambda a, b, n: a % n,
    lambda a, b, n: (a + n * b) // -n,
    lambda a, b, n: divmod(a, n)[1] + b,
    lambda a, b, n: a // (abs(b) % 3 + 1),
    lambda a, b, n: min(a, b, n),
    lambda a, b, n: max(a, b),
    lambda a, b, n: sorted([a, b, n])[1],
    lambda a, b, n: abs(a - b),
    lambda a, b, n: a if a < b else n,
    lambda a, b, n: a if a == b else b,
    lambda a, b, n: b if n >= a else -a,
    lambda a, b, n: a if a != n else a + 1,
    lambda a, b, n: a if a else n,
    lambda a, b, n: (a << 2) + (b >> 1),
    lambda a, b, n: a & 6,
    lambda a, b, n: {3: n}.get(a, 0) + b,
    lambda a, b, n: [7, 8, 9][a % 3],
    lambda a, b, n: a if a * 0.5 + 1.25 < b * 0.7 else n,
    lambda a, b, n: 1 if max(a / 3, b * 1.5) > n - 0.5 * a else b,
)


def calculation(rng: random.Random) -> Calculation:
    steps = [
        (rng.choice(OPERATIONS), rng.randrange(100), rng.randrange(100), rng.randrange(1, 9))
        for _ in range(12)
    ]

    def run(values: Sequence[Any]) -> list[Any]:
        found = list(values)
        for operation, first, second, number in steps:
            a, b = found[first % len(found)], found[second % len(found)]
            found.append(operation(a, b, number))
        return found

    return run


def test_a_calculation_done_again_is_the_same_or_refused() -> None:
    moved = 0
    for seed in range(600):
        rng = random.Random(seed)
        run = calculation(rng)
        values = [rng.randrange(-20, 40) for _ in range(3)]
        done = traced(run, values)
        assert done(values) == run(values), seed
        for _ in range(12):
            others = [value + rng.choice((0, 0, 1, -1, 8, rng.randrange(-30, 30))) for value in values]
            found = done(others)
            if found is not None:
                assert found == run(others), (seed, values, others)
                moved += others != values
    assert moved > 500


def test_conditions_that_are_left_out_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above would see it."""
    monkeypatch.setattr(Trace, "bounds", lambda self: ([], []))
    with pytest.raises(AssertionError):
        test_a_calculation_done_again_is_the_same_or_refused()


COMPARISONS: tuple[Callable[[Any, Any], bool], ...] = (operator.eq, operator.lt, operator.ge)


def test_equations_replace_variables_and_change_no_answer() -> None:
    """Conditions are the same ones as each comparison by itself, and a form is what it is in terms of what is left."""
    held = left_out = 0
    for seed in range(300):
        rng = random.Random(seed)
        values = [rng.randrange(-6, 7) for _ in range(6)]
        trace = Trace()
        numbers = [trace.parameter(value) for value in values]
        asked: list[tuple[list[int], int, int]] = []
        forms = []
        for _ in range(18):
            factors = [0] * len(values)
            for _ in range(rng.randrange(1, 3)):  # differences, which stay where all numbers move on
                first, second = rng.sample(range(len(values)), 2)
                factor = rng.choice((1, 1, 2, -3))
                factors[first], factors[second] = factors[first] + factor, factors[second] - factor
            if rng.random() < 0.2:
                factors[rng.randrange(len(values))] += 1
            if not any(factors):
                continue
            form = sum((k * number for k, number in zip(factors, numbers, strict=True)), start=0)
            forms.append((form, factors))
            kind = rng.randrange(3)
            number = form.value + (rng.choice((0, 0, 1)) if kind == 0 else rng.randrange(-4, 5))
            asked.append((factors, number, kind))
            COMPARISONS[kind](form, number)
        calculation, solution = trace.calculation(()), trace.solution()
        conditions = (*calculation.ranges, *calculation.forbidden)
        left_out += sum(map(len, (trace._ranges, trace._others))) > len(conditions)
        for _ in range(40):
            shift, some = rng.choice((1, -1, 2, 5)), rng.random() < 0.5
            others = [value + shift + rng.choice((0, 0, 0, 1, -1, 3)) * some for value in values]
            by_itself = all(
                _asked(factors, number, kind, others) == _asked(factors, number, kind, values)
                for factors, number, kind in asked
            )
            assert (calculated(others, *calculation) is not None) == by_itself, (seed, others)
            if by_itself:
                held += others != values
                for form, factors in forms:
                    terms, constant = solution.reduced(form.terms, form.constant)
                    value = constant + sum(k * others[variable] for variable, k in terms.items())
                    assert value == sum(k * v for k, v in zip(factors, others, strict=True))
    assert held > 100
    assert left_out > 100


def test_bounds_reduced_by_equations_stay_as_tight() -> None:
    def allowed(compare: Callable[[Any, Any], object]) -> set[int]:
        trace = Trace()
        a, b = trace.parameter(7), trace.parameter(7)
        assert a == b
        compare(a, b)
        calculation = trace.calculation(())
        return {value for value in range(-9, 30) if calculated([value, value], *calculation) is not None}

    assert allowed(lambda a, b: (a + b >= 5, a + b <= 29)) == set(range(3, 15))
    assert allowed(lambda a, b: (a + 2 * b >= 20, -a - b >= -15)) == {7}
    assert allowed(lambda a, b: (a <= 12, b <= 9, a >= 2, b >= 4)) == set(range(4, 10))
    assert allowed(lambda a, b: (b <= 12, a <= 9, b >= 2, a >= 4)) == set(range(4, 10))
    assert allowed(lambda a, b: (a + b != 15, a + b != 16, a - b != 3)) == set(range(-9, 30)) - {8}


def test_a_quotient_that_noted_conditions_determine_is_no_variable() -> None:
    trace = Trace()
    a, b = trace.parameter(37), trace.parameter(5)
    assert type((a + 3) // 128) is Number
    assert a >= 0
    assert type((a + 3) // 128) is Number
    assert a < 100
    assert (type((a + 3) // 128), (a + 3) // 128) == (int, 0)
    assert (type((127 - a) // 128), (127 - a) // 128) == (int, 0)
    assert (type((-1 - a) // 100), (-1 - a) // 100) == (int, -1)
    assert ((a + 28) % 128).terms == a.terms  # the quotient is known to be 0
    assert type((a + 29) // 128) is Number
    assert type((128 - a) // 128) is Number
    assert type((a + b) // 128) is Number


def _asked(factors: Sequence[int], number: int, kind: int, values: Sequence[int]) -> bool:
    total = sum(factor * value for factor, value in zip(factors, values, strict=True))
    return COMPARISONS[kind](total, number)


@pytest.mark.parametrize(
    "asks",
    [
        hash,
        int,
        float,
        str,
        repr,
        range,
        lambda n: [0] * n,
        lambda n: f"{n:d}",
        lambda n: n.bit_length(),
        lambda n: n ^ 3,
    ],
)
def test_asking_for_the_number_itself_pins_it(asks: Callable[[Any], Any]) -> None:
    trace = Trace()
    number = trace.parameter(5) + 2
    got = asks(number)
    if asks is repr:  # for whoever debugs
        return
    assert got == asks(7)
    run = repeated(trace, [number])
    assert run([5]) == [7]
    assert run([6]) is None


@pytest.mark.parametrize(
    "calculate",
    [
        operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod,
        operator.lt, operator.le, operator.gt, operator.ge, operator.eq,
    ],
)  # fmt: skip
@pytest.mark.parametrize("first", [True, False])
def test_an_array_meets_the_number_itself(calculate: Callable[[Any, Any], Any], first: bool) -> None:
    """Which is pinned: what is in the array was not made from it."""
    trace, array = Trace(), np.array([[3, -4], [7, 5]])
    number = trace.parameter(5)
    if first and calculate not in (operator.floordiv, operator.mod):  # nothing divides numbers by arrays
        found, plain = calculate(number, array), calculate(5, array)
    else:
        found, plain = calculate(array, number), calculate(array, 5)
    assert isinstance(found, np.ndarray)
    assert found.tolist() == plain.tolist()
    trace.closed = True
    run = repeated(trace, [1])
    assert run([5]) == [1]
    assert run([6]) is None, "it is pinned"


def test_a_region_of_runs_moves_by_a_traced_number() -> None:
    """Seeds 501904, 502248, 502816 and 602488 of `tests.cpu.forced_sequences` on GPUs: an internal error was logged, and the launch
    planned without parameters.
    """
    runs = Region.from_runs([(0, 3), (10, 11), (17, 29)])
    assert runs.shift(Trace().parameter(7)).runs.tolist() == [[7, 10], [17, 18], [24, 36]]


def test_sums_that_cancel_are_plain_numbers() -> None:
    trace = Trace()
    number = trace.parameter(70)
    assert type(number - number) is int
    assert type((number + 12) // 4 - (number // 4)) is int
    assert type((number - number // 64 * 64) // 64) is int
    assert trace.bounds() == ([], [])


def test_a_number_does_not_outlive_its_trace() -> None:
    trace = Trace()
    number = trace.parameter(1)
    trace.closed = True
    for use in (lambda: number + 1, lambda: number < 2, lambda: hash(number)):
        with pytest.raises(RuntimeError):
            use()


def region(rng: random.Random, values: Sequence[Any]) -> Any:
    """Some sets, made from three numbers in ways that a seed decides."""
    k, n, m = values
    pitch = 64
    tile = Region.boxes(k * pitch + 4 * k, 4 * n, ((pitch, 5),))
    other = Region.boxes(m * pitch, 8, ((pitch, n),)) | Region.span(3 * m, 3 * m + 7)
    rest = Region.span(0, 4096)
    return rng.choice(
        (
            lambda: tile & other,
            lambda: tile - other,
            lambda: (rest - tile) | other,
            lambda: (rest - other) & tile.shift(m),
            lambda: Region.union((tile, other, Region.span(k, k + n))),
            lambda: other.clip(2 * k, 1000 + m) - tile.hull(),
            lambda: tile.shift(-k) & other.whole(4),
        )
    )()


def test_regions_of_traced_numbers_are_those_of_plain_ones() -> None:
    moved = 0
    for seed in range(150):
        rng = random.Random(seed)
        values = [rng.randrange(1, 12), rng.randrange(1, 9), rng.randrange(1, 12)]
        trace = Trace()
        got = region(random.Random(seed), [trace.parameter(value) for value in values])
        run = repeated(trace, arguments_of(got) if got else ())
        for _ in range(8):
            others = [max(1, value + rng.choice((0, 0, 1, -1, 3))) for value in values]
            parts = run(others)
            if parts is None:
                continue
            found = remade(*parts) if parts else Region.empty()
            right = region(random.Random(seed), others)
            assert found == right, (seed, others)
            assert found.nbytes == right.nbytes
            assert found.runs.tolist() == right.runs.tolist()
            moved += others != values
    assert moved > 50
