"""Boxes that constraints cut, and rows with columns of their own, compiled: results are those of the functions in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from vdev.translators.ranges import compiled, pitches, slicing, unlisted
from vdev.translators.ranges.region import Region
from vdev.translators.ranges.tracing import Trace
from vdev.translators.ranges.unlisted import Place, TiedRows
from vdev.translators.symbolic import domain_image, projection
from vdev.translators.symbolic.domain import Form

from vdev.backends import own_libraries
from vdev.packaging import library

from .growth import FEW, least_growth
from .some_numbers import SomeNumbers

pytestmark = pytest.mark.skipif(not any(True for _ in library.compilers()), reason="there is no C compiler")

#: what is left to Python now and then
LARGE = (1 << 100, -(1 << 100), 1 << 63, -(1 << 63), (1 << 62) + 1, 1 << 46, (1 << 46) + 1)


@pytest.fixture(autouse=True, scope="module")
def _loaded() -> None:
    assert own_libraries.load_ranges()


class Maker(SomeNumbers):
    """Random numbers, constraints and boxes."""

    LARGE, GIVEN = LARGE, 0.2

    def coefficient(self, most: int) -> Any:
        return self.number(1, most) * self.rng.choice((1, -1))

    def terms(self, variables: range, least: int, most: int = 12) -> dict[int, Any]:
        chosen = self.rng.sample(variables, self.rng.randint(least, len(variables)))
        return {variable: self.coefficient(most) for variable in chosen}

    def box(self, count: int) -> dict[int, tuple[Any, Any]]:
        lows = [self.number(-6, 6) for _ in range(count)]
        return {variable: (low, low + self.number(0, 12)) for variable, low in enumerate(lows)}


def tangled(maker: Maker, box: dict[int, tuple[Any, Any]]) -> list[tuple[dict[int, Any], Any]]:
    """Constraints that leave few points, and of which none shows how few."""
    found = []
    for _ in range(maker.rng.randint(1, 2)):
        terms = {variable: maker.coefficient(9) for variable in box}
        least = maker.number(-60, 60)
        found += [
            (terms, least),
            ({v: -factor for v, factor in terms.items()}, maker.number(0, 3) - least),
        ]
    return found


def sliced(box: dict[int, tuple[Any, Any]], constraints: list[Any], most: int) -> Any:
    """Boxes, and for how many it is known that there are none."""
    refused: list[int] = []
    return (
        slicing.boxes_of(box, constraints, most, refused),
        refused,
        slicing.boxes_of(box, constraints, most),
    )


def boxes(maker: Maker, attempt: Callable[..., None]) -> None:
    """Boxes are changed where they are."""
    count = maker.rng.randint(1, 6)
    box = maker.box(count)
    constraints = [
        (maker.terms(range(count), 1), maker.number(-20, 60)) for _ in range(maker.rng.randint(1, 3))
    ]
    for of_all in (constraints, tangled(maker, box)):
        attempt(sliced, box, of_all, maker.rng.choice((0, 1, 2, 4, 64)))
    for constraint in constraints:
        attempt(slicing._untouched, box, constraints, maker.rng.randrange(count))
        attempt(slicing._cuts, box, constraint)
    line = {variable: (low, low) for variable, (low, _) in box.items()} | {0: box[0]}
    attempt(
        slicing._is_in_line, line, [({0: maker.coefficient(9), **terms}, c) for terms, c in constraints], 0
    )
    attempt(list, [*box.values(), *line.values()])


def dimensions(maker: Maker, attempt: Callable[..., None]) -> None:
    rng = maker.rng
    dims = [
        (maker.coefficient(rng.choice((3, 64))) * rng.choice((0, 1, 1, 16)), maker.number(0, 6))
        for _ in range(rng.randint(0, 4))
    ]
    kind = rng.choice((tuple, list))
    attempt(pitches.open_box, maker.number(-50, 50), maker.number(1, 16), kind(dims))
    box = {
        rng.randrange(9): (low := maker.number(-9, 9), low + maker.number(0, 9))
        for _ in range(rng.randint(0, 3))
    }
    coefficients = {variable: maker.coefficient(99) for variable in range(rng.randint(0, 9))}
    attempt(domain_image._placed, coefficients, maker.number(-50, 50), dims, box)
    unequal = sorted({maker.number(1, 9) * rng.choice((1, 4, 60, 3600)) for _ in range(rng.randint(0, 5))})
    apart = [(stride, maker.number(1, 9)) for stride in unequal]
    attempt(lambda: sorted(pitches.pitches_for(tuple(apart))))
    attempt(pitches.copies, apart)
    forms = [maker.terms(range(rng.choice((9, 70))), 1) for _ in range(rng.randint(0, 5))]
    attempt(
        domain_image._components,
        [form if rng.random() < 0.2 else dict([*form.items()][:2]) for form in forms],
    )


def rows(maker: Maker, attempt: Callable[..., None]) -> None:
    rng = maker.rng
    first, left = maker.number(-5, 5), maker.number(-5, 5)
    extents = (first, first + maker.number(0, 40)), (left, left + maker.number(0, 60))
    constraints = [
        ({0: maker.coefficient(5), 1: maker.coefficient(5)}, maker.number(-20, 80))
        for _ in range(rng.randint(1, 3))
    ]
    place = Place(
        maker.number(0, 99), 4, rng.choice((512, -512)), rng.choice((4, -4)), rng.choice(([], [(1 << 16, 3)]))
    )

    def tied() -> list[Any]:
        made = TiedRows(*extents, constraints, place, Region.empty)
        found = [made.ends, made.around(rng.choice((1, 4, 32))), made._columns_of(*extents[0])]
        return [*found, made.in_bands() if made.nrows < 64 else None, made._groups(7)]

    attempt(tied)
    groups = [((number * 3, number * 3 + 2), (maker.number(0, 2), maker.number(3, 4))) for number in range(5)]
    attempt(place.bands, groups)


def steps(maker: Maker, attempt: Callable[..., None]) -> None:
    lo = [maker.number(-4, 4) for _ in range(3)]
    hi = [low + maker.number(0, 9) for low in lo]
    offset = {variable: maker.rng.choice((1, 2, 4, -4, 8, 12)) for variable in range(3)}
    tied = [{0: 1, 1: maker.rng.choice((2, 4))}] if maker.rng.random() < 0.5 else []
    attempt(projection._steps_of_another, offset, lo, hi, [*tied, {2: maker.coefficient(4)}])


def reductions(maker: Maker, attempt: Callable[..., None]) -> None:
    """Of domains as indices make them: quotients and their bounds, steps of work-groups, digits; and of others."""
    rng = maker.rng
    count = rng.randint(1, 4)
    lo = [maker.number(-6, 6) for _ in range(count)]
    hi = [low + maker.number(0, 40) for low in lo]
    forms: list[Form] = []
    for quotient in range(count, count + rng.randint(0, 3)):
        lo.append(maker.number(-4, 0)), hi.append(maker.number(0, 30))
        of = {v: maker.coefficient(2) for v in rng.sample(range(quotient), rng.randint(1, min(2, quotient)))}
        divisor, first = maker.number(2, 8), maker.number(-3, 3)
        forms.append(Form(first, {**of, quotient: -divisor}))
        forms.append(Form(divisor - 1 - first, {**{v: -c for v, c in of.items()}, quotient: divisor}))
    variables = range(len(lo))
    forms += [Form(maker.number(-9, 40), maker.terms(variables, 1, 4)) for _ in range(rng.randint(0, 2))]
    offset = Form(maker.number(0, 99), maker.terms(variables, 0, 64))

    def of_classes() -> list[Any]:
        parts = projection.reduced(lo, hi, forms, offset)
        found: list[Any] = [parts]
        for terms in [] if parts is None else parts[2]:
            steps = [v for v, c in terms.items() if 1 < abs(c) <= 8]
            units = [v for v, c in terms.items() if abs(c) == 1]
            for unit, step in zip(units, steps, strict=False):
                found += [projection.of_class(parts, terms, unit, step, number) for number in range(3)]
        return found

    attempt(of_classes)


def shown(found: Any) -> Any:
    """The same with all that sets are made of: runs may have numbers that no array has."""
    if isinstance(found, (tuple, list)):
        return [shown(each) for each in found]
    return (found.start, found.stop, found.pitches, found.bands) if isinstance(found, Region) else found


def outcome(seed: int, large: int = 0, *, traced: bool = False) -> list[Any]:
    """What comes of random questions, and all that was noted of traced numbers."""
    trace, found = Trace(), list[str]()
    maker = Maker(seed, large, trace.parameter if traced else int)

    def attempt(function: Callable[..., Any], *operands: Any) -> None:
        try:
            made = function(*operands)
        except (slicing._Empty, ValueError, ZeroDivisionError) as error:
            made = type(error).__name__
        found.append(repr(shown(made)))

    for question in (boxes, dimensions, rows, steps, reductions):
        question(maker, attempt)
    return [*found, trace.calculation([(((variable, 1),), 0) for variable in range(len(trace._variables))])]


@pytest.mark.parametrize("large", [0, 4])
@pytest.mark.parametrize("traced", [False, True])
def test_results_are_those_of_the_functions_in_python(large: int, traced: bool) -> None:
    for seed in range(400):
        ours = outcome(seed, large, traced=traced)
        with compiled.plainly():
            theirs = outcome(seed, large, traced=traced)
        assert ours == theirs, seed


def test_what_is_mostly_asked_is_not_left_to_python(monkeypatch: pytest.MonkeyPatch) -> None:
    for names, functions in compiled.code.replaceable:
        if names["__name__"].rpartition(".")[2] in ("slicing", "pitches", "projection", "domain_image"):
            assert all(type(names[name]).__name__ == "builtin_function_or_method" for name in functions)
    monkeypatch.delattr(pitches, "whole")  # which those in Python call
    monkeypatch.delattr(TiedRows, "_columns_of")
    assert pitches.open_box(8, 4, [(-4, 3), (400, 2), (100, 4)]) == (0, 12, [(100, 8)])
    monkeypatch.delattr(pitches, "pairwise")
    monkeypatch.delattr(pitches, "prod")
    assert pitches.pitches_for(((4, 9), (6, 5), (12, 4))) == {0, 2}
    assert pitches.copies([(4, 9), (6, 5), (12, 4)]) == 5
    make = compiled.code.make
    assert make is not None
    assert make(b"_placed", None)({0: 4, 2: -8}, 3, [(1, 7)], {2: (1, 3), 5: (0, 1), 0: (2, 2)}) == (
        3,
        [(1, 7), (-8, 3), (0, 2), (4, 1)],
    )
    assert make(b"_components", None)([{0: 1, 2: 1}, {3: 1, 4: 1}, {2: 1, 1: 1}]) == [[3, 4], [0, 1, 2]]
    box = {0: (0, 9), 1: (0, 99)}
    assert slicing._cuts(box, ({0: 100, 1: 1}, -150))
    assert box == {0: (1, 9), 1: (0, 99)}
    assert slicing._untouched(box, [({0: 100, 1: 1}, -150)], 0) == (0, 2, 9)
    assert slicing._is_in_line({0: (1, 1), 1: (0, 99)}, [({0: 100, 1: 1}, -150)], 1)
    assert projection._steps_of_another({0: 4, 1: 32}, [0, 0], [7, 9], [{0: 1, 1: 8}]) == (0, 1, 8)
    monkeypatch.delattr(slicing, "_parts")
    assert slicing.boxes_of({0: (0, 9), 1: (0, 99)}, [({0: 100, 1: 1}, -950)], 4) == [
        {0: (9, 9), 1: (50, 99)}
    ]
    monkeypatch.delattr(projection, "_Reduction")
    divided = [Form(0, {0: 1, 1: -4}), Form(3, {0: -1, 1: 4})]
    assert projection.reduced([0, 0], [63, 15], divided, Form(0, {1: 100, 0: 1}))[5] == {1: 104, 2: 1}
    board = [0, 0], [7, 9], [{0: -1, 1: 2}, {0: 1, 1: -2}], [0, 5], 0, {0: 1, 1: 8}, True, 0, []
    assert projection.of_class(board, {0: -1, 1: 2}, 0, 1, 1)[-1] == [(10, 4), (8, 3)]
    place = Place(0, 4, 512, 4, [])
    monkeypatch.delattr(unlisted.Region, "__or__")
    assert place.bands([((0, 1), (3, 5)), ((2, 3), (3, 5)), ((4, 4), (2, 5)), ((6, 6), (2, 5))]) == (
        ((0, 4, ((4, 16, None),)), (4, 5, ((0, 16, None),)), (6, 7, ((0, 16, None),))),
        2,
    )


def test_groups_of_rows_are_not_left_to_python(monkeypatch: pytest.MonkeyPatch) -> None:
    tied = TiedRows((0, 7), (0, 7), [({0: 1, 1: -1}, 0)], Place(0, 4, 64, 4, []), Region.empty)
    monkeypatch.delattr(TiedRows, "_columns_of")
    assert tied._groups(2) == ([((0, 3), (0, 3)), ((4, 7), (0, 7))], 16)


@pytest.mark.parametrize("traced", [False, True])
def test_nothing_is_kept(traced: bool) -> None:
    def work() -> None:
        for seed in range(120):
            outcome(seed, 4, traced=traced)

    assert least_growth(work) < FEW
