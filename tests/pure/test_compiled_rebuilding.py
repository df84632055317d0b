"""Calculations with other numbers, and steps that make things of them: compiled, they give what the functions in Python give."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from vdev.translators.ranges import calculations, compiled, rebuilding
from vdev.translators.ranges.ndrange import Chunk
from vdev.translators.ranges.rebuilding import CONSTANT, GIVEN, MADE, NUMBER, Record, where
from vdev.translators.ranges.tracing import Number, Trace

from vdev.backends import own_libraries
from vdev.packaging import library

pytestmark = pytest.mark.skipif(not any(True for _ in library.compilers()), reason="there is no C compiler")


@pytest.fixture(autouse=True, scope="module")
def _loaded() -> None:
    assert own_libraries.load_ranges()


def random_steps(rng: random.Random) -> tuple[Any, ...]:
    """Arguments of `built`; places are those of things that are there, mostly."""
    constants = tuple(rng.sample((tuple, "text", 7, None, (1, 2), 2.5, 1 << 70), 5))
    numbers = tuple(rng.randrange(-50, 1 << rng.randrange(4, 80)) for _ in range(4))
    given = (object(), [1, 2])
    steps: list[tuple[Callable[..., Any] | None, tuple[int, ...]]] = []

    def place() -> int:
        if rng.random() < 0.01:
            return rng.choice((-1, -6, where(NUMBER, 4), where(MADE, len(steps)), 1 << 66))
        kinds = [(CONSTANT, 5), (NUMBER, 4), (GIVEN, 2), *[(MADE, len(steps))] * (2 if steps else 0)]
        kind, count = rng.choice(kinds)
        return where(kind, rng.randrange(count))

    for _ in range(rng.choice((0, 1, 5, 20, 300))):
        kind = rng.randrange(4)
        if kind == 0:
            steps.append((lambda *parts: list(parts), tuple(place() for _ in range(rng.randrange(4)))))
        elif kind == 1:
            numbers_of = tuple(where(NUMBER, rng.randrange(4)) for _ in range(2))
            steps.append((lambda *pair: Chunk(pair, pair), numbers_of))
        else:
            steps.append((None, tuple(place() for _ in range(rng.randrange(5)))))
    return constants, numbers, given, tuple(steps), place()


def outcome(given: tuple[Any, ...]) -> Any:
    try:
        return rebuilding.built(*given)
    except (IndexError, RecursionError) as error:
        return type(error).__name__


def test_results_are_those_of_the_function_in_python() -> None:
    made = 0
    for seed in range(3000):
        given = random_steps(random.Random(seed))
        found = outcome(given)
        with compiled.plainly():
            wanted = outcome(given)
        assert found == wanted, seed
        made += found not in ("IndexError", None)
    assert 1500 < made < 3000


def test_what_a_step_raises_is_raised_at_once() -> None:
    called = []

    def refuse(*parts: Any) -> None:
        called.append(parts)
        raise KeyboardInterrupt

    steps = ((None, (where(NUMBER, 0),)), (refuse, (where(MADE, 0), where(CONSTANT, 0))), (refuse, ()))
    with pytest.raises(KeyboardInterrupt):
        rebuilding.built(("a",), (3,), (), steps, where(MADE, 2))
    assert called == [((3,), "a")]


def test_equal_things_are_the_objects_that_were_given() -> None:
    constant, given = [1], [2]
    steps = ((None, (where(CONSTANT, 0), where(GIVEN, 0))), (None, (where(MADE, 0), where(MADE, 0))))
    found = rebuilding.built((constant,), (), (given,), steps, where(MADE, 1))
    assert found[0] is found[1]
    assert found[0][0] is constant
    assert found[0][1] is given
    assert rebuilding.built((constant,), (), (), (), where(CONSTANT, 0)) is constant


class Thing:
    """Neither plain nor a tuple."""

    def __init__(self, parts: tuple[Any, ...]) -> None:
        self.parts = parts


def random_things(rng: random.Random) -> list[Any]:
    """Tuples and others of some depth, which have parts in common."""
    trace = Trace()
    numbers = [trace.parameter(rng.randrange(9)) for _ in range(3)]
    numbers += [number + 1 for number in numbers]
    found: list[Any] = [
        *numbers,
        7,
        1 << 80,
        True,
        None,
        "text",
        b"bytes",
        2.5,
        (),
        (1, (2, None)),
        frozenset((3,)),
    ]
    for _ in range(rng.randrange(1, 25)):
        parts = tuple(rng.choice(found) for _ in range(rng.randrange(4)))
        found.append(Thing(parts) if rng.random() < 0.2 else parts)
    return found[-6:]


def written_down(things: list[Any], refused: int) -> Any:
    forms: dict[Any, int] = {}
    seen: list[str] = []

    def number(each: Number) -> int:
        seen.append(repr(each))
        place = where(NUMBER, forms.setdefault((*each.terms.items(), each.constant), len(forms)))
        record.numbers[id(each.terms), each.constant] = place
        return place

    def other(thing: Any) -> int | None:
        seen.append(type(thing).__name__)
        if not isinstance(thing, Thing):
            return None
        if len(seen) > refused:
            raise KeyboardInterrupt
        parts = record.places(thing.parts)
        return None if parts is None else record.step(Thing, parts)

    record, places = Record(number, other), []
    record.note(things[0], where(GIVEN, 5))
    for thing in things:
        try:
            places.append((record.place(thing), record.shown(thing)))
        except KeyboardInterrupt:
            places.append(None)
    constants = [id(each) for each in record.constants]
    return (
        places,
        constants,
        record.steps,
        list(record.steps),
        record.numbers,
        record._shown,
        record._where,
        seen,
    )


def test_what_is_written_down_is_that_of_the_methods_in_python() -> None:
    steps, refusals = 0, 0
    for seed in range(1500):
        rng = random.Random(seed)
        things, refused = random_things(rng), rng.choice((4, 1000))
        found = written_down(things, refused)
        with compiled.plainly():
            wanted = written_down(things, refused)
        assert found == wanted, seed
        steps, refusals = steps + len(found[2]), refusals + found[0].count(None)
    assert steps > 3000
    assert refusals > 50


def random_calculation(rng: random.Random, large: float) -> tuple[Any, ...]:
    """Arguments of `calculated`, some of whose numbers, coefficients and results are large."""
    numbers = [
        rng.choice((1 << 31, 1 << 53, (1 << 62) + 1, 1 << 70)) * rng.choice((1, -1))
        if rng.random() < large
        else rng.randrange(-9, 9)
        for _ in range(4)
    ]
    floats = [rng.choice((0.0, 0.5, 3.0, float("inf"))), rng.choice((-2.5, 7, (1 << 53) + 1))]
    nvariables = 8

    def linear(known: int) -> tuple[tuple[int, int], ...]:
        return tuple((rng.randrange(known), rng.randrange(-4, 5)) for _ in range(rng.randrange(4)))

    def form(known: int = nvariables) -> tuple[tuple[tuple[int, int], ...], int]:
        return linear(known), rng.randrange(-9, 9)

    def definition(known: int) -> Any:
        divisor = rng.choice((1, 2, 7, 64, 64, 1 << 40))
        return form(known), divisor if rng.random() < 0.6 else form(known)

    def operand(count: int) -> Any:
        kinds = [lambda: -1 - rng.choice((4, 5)), form, lambda: (rng.choice((0.25, -3.0, 1e300)),)]
        return rng.choice([*kinds, *[lambda: rng.randrange(count)] * (2 if count else 0)])()

    count = rng.randrange(6)
    bounds = (rng.choice((None, -90, 0)), rng.choice((None, 0, 90)))
    return (
        rng.choice((list, tuple))([*numbers, *floats]),
        (0, 1, 2, 3, -1, -1),
        nvariables,
        tuple((variable, definition(variable)) for variable in range(4, nvariables)),
        tuple((rng.randrange(4), operand(at), operand(at)) for at in range(count)),
        tuple(
            ((rng.randrange(5), operand(count), operand(count)), rng.random() < 0.5)
            for _ in range(rng.randrange(3))
        ),
        tuple((*bounds, linear(nvariables)) for _ in range(rng.randrange(2))),
        tuple((rng.randrange(-20, 20), linear(nvariables)) for _ in range(rng.randrange(2))),
        tuple(form() for _ in range(3)),
    )


@pytest.mark.parametrize("large", [0.0, 0.1])
def test_calculations_are_those_of_the_function_in_python(large: float) -> None:
    outcomes = Counter[str]()
    for seed in range(6000):
        given = random_calculation(random.Random(seed), large)

        def outcome(given: tuple[Any, ...] = given) -> Any:
            try:
                return calculations.calculated(*given)
            except (ZeroDivisionError, OverflowError) as error:
                return type(error).__name__

        found = outcome()
        with compiled.plainly():
            wanted = outcome()
        assert found == wanted, seed
        assert [type(each) for each in found or ()] == [type(each) for each in wanted or ()]
        outcomes["refused" if found is None else found if isinstance(found, str) else "found"] += 1
    assert min(outcomes["refused"], outcomes["found"]) > 1500
    assert outcomes["ZeroDivisionError"] > 30


def test_another_number_of_numbers_is_refused() -> None:
    given = ((0, 1), 2, (), (), (), (), (), (((((0, 1), (1, 2)), 3)),))
    assert calculations.calculated((4, 5), *given) == (17,)
    for numbers in ((), (4,), (4, 5, 6)):
        with pytest.raises(ValueError, match="zip"):
            calculations.calculated(numbers, *given)
