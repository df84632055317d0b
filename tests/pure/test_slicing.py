"""Boxes that linear constraints cut, against every point of them."""

from __future__ import annotations

import random
from itertools import product

import pytest
from vdev.translators.ranges import slicing
from vdev.translators.ranges.slicing import Box, Constraint, boxes_of


def random_case(rng: random.Random) -> tuple[Box, list[Constraint]]:
    box = {}
    for variable in range(rng.randrange(1, 4)):
        low = rng.randrange(-6, 6)
        box[variable] = (low, low + rng.randrange(7))
    constraints = []
    for _ in range(rng.randrange(4)):
        variables = rng.sample(list(box), rng.randrange(1, len(box) + 1))
        terms = {variable: rng.choice((-9, -2, -1, 1, 2, 9)) for variable in variables}
        constraints.append((terms, rng.randrange(-20, 20)))
    return box, constraints


def points(box: Box) -> list[tuple[int, ...]]:
    return list(product(*(range(low, high + 1) for _, (low, high) in sorted(box.items()))))


def keeps(point: tuple[int, ...], constraints: list[Constraint]) -> bool:
    return all(sum(c * point[v] for v, c in terms.items()) + constant >= 0 for terms, constant in constraints)


@pytest.mark.parametrize("seed", range(20))
def test_boxes_contain_each_point_that_satisfies_all_constraints_once(seed: int) -> None:
    rng = random.Random(seed)
    many = 0
    for _ in range(200):
        box, constraints = random_case(rng)
        before = dict(box)
        found = boxes_of(box, constraints, 64)
        assert box == before, "the caller's"
        wanted = sorted(point for point in points(box) if keeps(point, constraints))
        if found is None:
            many += 1
        else:
            assert sorted(point for part in found for point in points(part)) == wanted, (box, constraints)
            assert all(map(points, found)), "none is empty"
    assert many < 60


def test_rows_of_a_triangle_take_no_more_than_a_look_at_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing but one variable is left open, its range follows from the constraints at once."""
    narrowed: list[Constraint] = []
    cuts = slicing._cuts
    monkeypatch.setattr(slicing, "_cuts", lambda box, each: narrowed.append(each) or cuts(box, each))
    below: list[Constraint] = [({0: 1, 1: -1}, -1)]
    found = boxes_of({0: (0, 63), 1: (0, 63)}, below, 64)
    assert found is not None
    assert sorted(point for box in found for point in points(box)) == [
        (y, x) for y in range(64) for x in range(y)
    ]
    assert len(narrowed) <= 3


def test_more_boxes_than_are_wanted_are_none() -> None:
    diagonal: list[Constraint] = [({0: 1, 1: -1}, 0)]
    assert boxes_of({0: (0, 19), 1: (0, 19)}, diagonal, 9) is None
    assert len(boxes_of({0: (0, 19), 1: (0, 19)}, diagonal, 40) or ()) == 20


def test_a_refusal_says_for_how_many_boxes_it_holds() -> None:
    """So that nobody asks again with more of them who would be refused again."""
    rng, told = random.Random(7), 0
    for _ in range(3000):
        box, constraints = random_case(rng)
        refused: list[int] = []
        if boxes_of(box, constraints, 2, refused) is None and refused:
            told += refused[0] > 2
            assert boxes_of(box, constraints, refused[0]) is None
    assert told > 15


def test_parts_without_points_are_not_sought_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bits that add up to an even number on one side and to an odd one on the other: of their 65,536 values none will do."""
    parts = []
    narrow = slicing._narrow
    monkeypatch.setattr(slicing, "_narrow", lambda *given: parts.append(given) or narrow(*given))
    terms = {bit: 2 << bit for bit in range(8)} | {8 + bit: -(2 << bit) for bit in range(8)}
    equal: list[Constraint] = [(terms, 1), ({v: -factor for v, factor in terms.items()}, -1)]
    refused: list[int] = []
    assert boxes_of(dict.fromkeys(terms, (0, 1)), equal, 40, refused) is None
    assert refused == [40]
    assert len(parts) < 200
