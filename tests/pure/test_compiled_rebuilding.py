"""Steps that make things again: compiled, they make what the function in Python makes of them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from vdev.translators.ranges import compiled, rebuilding
from vdev.translators.ranges.ndrange import Chunk
from vdev.translators.ranges.rebuilding import CONSTANT, GIVEN, MADE, NUMBER, where

pytestmark = pytest.mark.skipif(not compiled.are_compiled(), reason="no library was built")


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
