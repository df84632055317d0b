"""Iteration domains, compiled: what is asked of a domain, and what is left of it, is as with the methods in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from vdev.translators.ranges import compiled
from vdev.translators.ranges.tracing import Trace
from vdev.translators.symbolic import domain as domains
from vdev.translators.symbolic.domain import Domain, Form, Infeasible
from vdev.translators.symbolic.nodes import INFINITE

from vdev.backends import own_libraries
from vdev.packaging import library

from .growth import FEW, least_growth
from .some_numbers import SomeNumbers

pytestmark = pytest.mark.skipif(not any(True for _ in library.compilers()), reason="there is no C compiler")

#: what ends of ranges and constants are now and then
LARGE = (INFINITE, -INFINITE, INFINITE + 1, 1 << 63, -(1 << 63), (1 << 63) - 1, 1 << 62, 1 << 46, 0)


@pytest.fixture(autouse=True, scope="module")
def _loaded() -> None:
    assert own_libraries.load_ranges()


class Maker(SomeNumbers):
    """Random domains and forms."""

    LARGE, GIVEN = LARGE, 0.3

    def form(self, count: int) -> Form:
        rng = self.rng
        terms = {
            variable: self.number(1, 20) * rng.choice((1, 1, -1))
            for variable in rng.sample(range(count), rng.randint(0, count))
        }
        return Form(self.number(-60, 60), {variable: each for variable, each in terms.items() if each != 0})

    def domain(self) -> Domain:
        found, rng = Domain(), self.rng
        for _ in range(rng.randint(1, 5)):
            low = self.number(-10, 10)
            found.variable(low, low + self.number(0, rng.choice((0, 3, 40))), loose=rng.random() < 0.1)
        for _ in range(rng.randint(0, 5)):
            found.require(self.form(len(found.lo)))
        if rng.random() < 0.3:
            found.depends[0] = frozenset({1})
        return found


def calculations(maker: Maker, form: Form, other: Form, attempt: Callable[..., None]) -> None:
    """What is made of two forms, and what of it is one of them, or has its terms."""
    factor = maker.rng.choice((0, 1, -1, maker.number(-9, 9)))
    for more in (other, Form(maker.number(0, 1), {}), form.times(-1)):
        attempt(form.plus, more, factor)
        attempt(form.plus, more)
    attempt(form.times, factor)
    attempt(form.shifted, factor)

    def same() -> list[bool]:
        moved = form.shifted(1)
        return [form.shifted(0) is form, form.plus(other, 0) is form, moved.terms is form.terms]

    attempt(same)


def shown(found: Any) -> Any:
    """What tells results apart."""
    if isinstance(found, Form):
        return shown(found.constant), [(variable, shown(each)) for variable, each in found.terms.items()]
    if isinstance(found, Domain):
        return [shown(getattr(found, slot)) for slot in sorted(Domain.__slots__)]
    if isinstance(found, (tuple, list)):
        return [shown(each) for each in found]
    return repr(found) if not isinstance(found, dict) else [(key, shown(each)) for key, each in found.items()]


def outcome(seed: int, large: int = 0, *, traced: bool = False) -> list[Any]:
    """What methods of a random domain give, and what it is behind each; and all that was noted of traced numbers."""
    trace = Trace()
    maker = Maker(seed, large, trace.parameter if traced else int)
    found: list[Any] = []

    def attempt(function: Callable[..., Any], *operands: Any) -> None:
        try:
            made = function(*operands)
        except (Infeasible, IndexError) as error:
            made = type(error).__name__
        found.append(shown(made))

    try:
        domain = maker.domain()
    except Infeasible:
        return ["empty"]
    for _ in range(4):
        form = maker.form(len(domain.lo))
        for function in (domain.bounds, domain.tight_bounds, domain.fold, domain.corner, domain.require):
            attempt(function, form)
        attempt(lambda: sorted(domain.ancestors(form)))  # noqa: B023 (called at once)
        attempt(domain.is_loose, form)
        lows = [maker.number(-12, 20) for _ in domain.lo]
        limits = tuple((v, low, low + maker.number(-1, 30)) for v, low in enumerate(lows))
        attempt(domain.within, limits[: maker.rng.randint(0, 2)])
        calculations(maker, form, maker.form(len(domain.lo)), attempt)
        forms = [maker.form(len(domain.lo)) for _ in range(maker.rng.randint(0, 3))]
        terms = tuple((None, maker.number(-4, 4)) for _ in forms)
        attempt(domains.added_up, maker.number(-9, 9), terms, forms)
        attempt(domains.divided, form, maker.rng.choice((1, 2, 7, 64)))
        attempt(domains.box_bounds, form.constant, form.terms, domain.lo, domain.hi)
        twin = domain.copy()
        found += [shown(twin), domain.fold(form) is form, twin.lo is domain.lo, twin.shapes is domain.shapes]
        attempt(twin._tighten, form)
        attempt(twin.settle)
        attempt(domain.outline)
        found.append([shown(domain), shown(twin)])
        if maker.rng.random() < 0.5 and twin.lo:
            domain = twin
    return [*found, trace.calculation([(((variable, 1),), 0) for variable in range(len(trace._variables))])]


@pytest.mark.parametrize("large", [0, 4])
@pytest.mark.parametrize("traced", [False, True])
def test_results_are_those_of_the_methods_in_python(large: int, traced: bool) -> None:
    empty = 0
    for seed in range(600):
        ours = outcome(seed, large, traced=traced)
        with compiled.plainly():
            theirs = outcome(seed, large, traced=traced)
        assert ours == theirs, seed
        empty += "Infeasible" in ours or ours == ["empty"]
    assert 50 < empty < 550


def test_what_is_mostly_asked_is_not_left_to_python(monkeypatch: pytest.MonkeyPatch) -> None:
    (names,) = (methods for cls, methods in compiled.code.with_methods if cls is Domain)
    assert all(type(getattr(Domain, name)).__name__ == "method_descriptor" for name in names)
    domain = Domain()
    for high in (9, 99, INFINITE):
        domain.variable(0, high)
    domain.require(Form(450, {0: -100, 1: -1}))
    domain.require(Form(7, {0: 1, 2: -1}))
    assert type(domains.box_bounds).__name__ == "builtin_function_or_method"
    for name in ("_shape", "floor_div", "gcd"):  # what those in Python call
        monkeypatch.delattr(domains, name)
    assert domain.require(Form(-8, {0: 4}))
    assert domain.lo[0] == 2
    assert not domain.require(Form(-2, {0: 1}))
    assert shown(Form(3, {0: 2}).plus(Form(1, {0: -2, 1: 5}), 3)) == shown(Form(6, {0: -4, 1: 15}))
    domain.lo[0] = 0
    narrower = domain.within(((1, 5, 9),))
    assert narrower is not None
    assert (narrower.lo[1], narrower.hi[1]) == (5, 9)
    assert domain.within(((0, 3, 2),)) is None
    assert (domain.ancestors(Form(0, {0: 1})), domain.is_loose(Form(0, {0: 1}))) == (frozenset({0}), False)
    monkeypatch.delattr(Form, "plus")
    form = Form(3, {0: 200, 1: 2})
    assert type(domains.added_up).__name__ == "builtin_function_or_method"
    assert shown(domains.added_up(5, ((None, 2), (None, -4)), [form, Form(0, {2: 3, 0: 100})])) == shown(
        Form(11, {1: 4, 2: -12})
    )
    assert compiled.code.make is not None
    base, rest = compiled.code.make(b"divided", None)(Form(-3, {0: -7, 1: 8, 2: 3}), 4)
    assert (shown(base), shown(rest)) == (shown(Form(-1, {0: -1, 1: 2})), shown(Form(1, {0: -3, 2: 3})))
    assert domain.bounds(form) == domain.tight_bounds(form) == (3, 903)
    assert domain.tight_bounds(Form(3, {0: 409600, 1: 4096})) == (
        3,
        450 * 4096 + 3,
    )  # bounded on one side only
    domain.settle()
    assert (domain.lo, domain.hi) == ([0, 0, 0], [4, 99, 11])
    assert domain.outline() == (4, 99, 11, (450, (0, -100), (1, -1)), (7, (0, 1), (2, -1)))


@pytest.mark.parametrize(("most", "left"), [(5, 0), (6, 1)])
def test_constraints_that_just_hold_are_dropped(most: int, left: int) -> None:
    domain = Domain()
    domain.variable(0, 9), domain.variable(0, 9)
    domain.require(Form(0, {0: 1, 1: -1}))
    domain.lo[0], domain.hi[1] = 5, most
    domain.settle()
    assert len(domain.constraints) == left


@pytest.mark.parametrize("traced", [False, True])
def test_nothing_is_kept(traced: bool) -> None:
    def work() -> None:
        for seed in range(120):
            outcome(seed, 4, traced=traced)

    assert least_growth(work) < FEW
