"""Rows whose columns depend on the row, compared with sets of numbers."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from vdev.translators.ranges.region import EMPTY, Region
from vdev.translators.ranges.unlisted import TiedRows, Unlisted
from vdev.translators.symbolic import domain_image
from vdev.translators.symbolic.domain import Domain, Form, Infeasible
from vdev.translators.symbolic.domain_image import image


@pytest.fixture(autouse=True)
def few_boxes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small sets, of which all bytes can be looked at, count as large ones."""
    monkeypatch.setattr(domain_image, "FEW_BOXES", 1)
    monkeypatch.setattr(domain_image, "MAX_BOXES", 3)


def members(region: Region) -> set[int]:
    return {byte for start, stop in region.runs.tolist() for byte in range(start, stop)}


class Case:
    """Points of a box that a few conditions cut, and where each lies."""

    def __init__(self, rng: random.Random) -> None:
        rows, columns, planes = rng.randrange(4, 20), rng.randrange(2, 20), rng.choice((1, 1, 1, 3))
        element = rng.choice((1, 4))
        self.nbytes = element * rng.choice((1, 1, 2))
        pitch = element * (columns + rng.randrange(3)) + self.nbytes
        if rng.random() < 0.2:
            pitch = element * rng.randrange(columns // 2 + 1, columns + 1)  # rows reach into one another
        low = [rng.randrange(-3, 4) for _ in range(3)]
        self.box = [range(low[d], low[d] + count) for d, count in enumerate((rows, columns, planes))]
        self.conditions = [
            (rng.randrange(-20, 21), {0: rng.choice((-2, -1, 1, 2)), 1: rng.choice((-3, -1, 1, 2))})
            for _ in range(rng.randrange(1, 4))
        ]
        strides = rng.choice((-1, 1)) * pitch, rng.choice((-1, 1, 1)) * element, pitch * (rows + 1) - element
        self.terms = dict(enumerate(strides))
        least = sum(
            min(stride * each[0], stride * each[-1]) for stride, each in zip(strides, self.box, strict=True)
        )
        self.constant = rng.randrange(30) - least
        self.size = 4 * rows * pitch * planes + 200

    def points(self) -> Iterator[int]:
        """The first byte at each point."""
        for x in self.box[0]:
            for y in self.box[1]:
                if all(c + k[0] * x + k[1] * y >= 0 for c, k in self.conditions):
                    for z in self.box[2]:
                        yield self.constant + self.terms[0] * x + self.terms[1] * y + self.terms[2] * z

    def bytes_touched(self) -> set[int]:
        return {first + byte for first in self.points() for byte in range(self.nbytes)}

    def image(self) -> Region:
        domain = Domain()
        for each in self.box:
            domain.variable(each[0], each[-1])
        try:
            for constant, terms in self.conditions:
                domain.require(Form(constant, terms))
        except Infeasible:
            return EMPTY
        region, exact, _ = image(domain, Form(self.constant, self.terms), self.nbytes, self.size)
        assert exact
        return region


def unlisted(rng: random.Random) -> tuple[Unlisted, set[int]]:
    """Such a set, and all its bytes."""
    while True:
        case = Case(rng)
        found = case.image()
        if isinstance(found, Unlisted):
            return found, case.bytes_touched()


@pytest.mark.parametrize("seed", range(150))
def test_all_bytes_are_those_of_the_points(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(4):
        case = Case(rng)
        found, expected = case.image(), case.bytes_touched()
        ends = (found.start, found.stop) if found else (0, 0)
        assert ends == ((min(expected), max(expected) + 1) if expected else (0, 0))
        assert members(found) == expected
        assert found.nbytes == len(expected)


@pytest.mark.parametrize("seed", range(150))
def test_steps_have_all_bytes_in_few_groups(seed: int) -> None:
    rng = random.Random(seed)
    found, expected = unlisted(rng)
    for most in (1, 2, 5, 40):
        around, least = found.around(most)
        assert expected <= members(around)
        assert (around.start, around.stop) == (min(expected), max(expected) + 1)
        assert least <= len(expected)
        assert around == Region.from_runs(around.runs)  # normalised
    twice, everything = found | found.shift(1), expected | {byte + 1 for byte in expected}
    assert isinstance(twice, Unlisted)
    around, least = twice.around(4)
    assert everything <= members(around)
    assert least <= len(everything)
    assert found._runs is None  # nobody has asked for them


def test_many_steps_have_few_other_bytes() -> None:
    rows, pitch = 3000, 12000
    domain = Domain()
    x, y = domain.variable(0, rows - 1), domain.variable(0, rows - 1)
    domain.require(Form(0, {y: 1, x: -1}))
    found, exact, _ = image(domain, Form(0, {x: 4, y: pitch}), 4, rows * pitch)
    assert exact
    assert isinstance(found, Unlisted)
    nbytes = 4 * rows * (rows + 1) // 2
    for most in (8, 32):
        around, least = found.around(most)
        assert around.nboxes <= most + 1
        assert nbytes < around.nbytes <= nbytes * (1 + 1.1 / most)
        assert nbytes * (1 - 1.1 / most) <= least <= nbytes
    assert found.nbytes == nbytes


@pytest.mark.parametrize("seed", range(150))
def test_they_are_sets_like_any_others(seed: int) -> None:
    rng = random.Random(seed)
    (one, of_one), (two, of_two) = unlisted(rng), unlisted(rng)
    low = rng.randrange(200)
    beside = Region.boxes(low, rng.randrange(1, 9), ((rng.randrange(9, 30), rng.randrange(1, 9)),))
    distance = rng.randrange(40)
    moved = {byte + distance for byte in of_one}
    for found, expected in (
        (one.shift(distance), moved),
        (one | two, of_one | of_two),
        (one | beside, of_one | members(beside)),
        (beside | one, of_one | members(beside)),
        (Region.union((beside, one, two.shift(distance))), of_one | members(beside) | {b + distance for b in of_two}),
        (one.copies(((7, 3),)), {byte + 7 * number for byte in of_one for number in range(3)}),
        (one.whole(4), {b for b in of_one if all(b - b % 4 + d in of_one for d in range(4))}),
        (one - two, of_one - of_two),
        (one & two, of_one & of_two),
        (beside - one, members(beside) - of_one),
        ((one | beside).shift(distance), moved | {byte + distance for byte in members(beside)}),
        (one.clip(low, low + 90), {byte for byte in of_one if low <= byte < low + 90}),
        (Region.union((one, beside, Region.span(0, 10_000))), set(range(10_000)) | of_one | members(beside)),
    ):  # fmt: skip
        assert members(found) == expected
        assert (found.start, found.stop) == ((min(expected), max(expected) + 1) if expected else (0, 0))
    assert (one | two).contains(two)
    assert one.contains(two) == (of_two <= of_one)
    assert one.contains(one | two) == (of_two <= of_one)
    assert (one == two) == (of_one == of_two)
    listed = Region.from_runs(one.runs)
    assert one == listed
    assert listed == one
    assert hash(one) == hash(listed)
    assert one.overlaps(two) == bool(of_one & of_two)
    assert not one.overlaps(EMPTY)


def test_that_one_has_the_other_shows_without_a_list() -> None:
    one, _ = unlisted(random.Random(3))
    both = one.shift(8) | Region.span(10_000, 10_010)
    assert isinstance(both, Unlisted)
    assert both.contains(one.shift(8))
    assert one.shift(3) == one.shift(1).shift(2)
    assert both != one.shift(8)
    more = Region.union((Region.span(0, 1), both, Region.span(20_000, 20_010)))
    assert isinstance(more, Unlisted)
    for each in (one, both, more):
        assert each._runs is None


def test_rows_that_are_far_from_the_first_are_listed() -> None:
    """To look for the first byte may take no longer than to list all."""
    columns = (0, 9)
    constraints = [({0: 1, 1: 1}, -100)]  # of rows before the 91st, none has any columns
    with pytest.raises(ValueError, match="no columns"):
        TiedRows((0, 120), columns, constraints, domain_image.Place(0, 1, 100, 1, ()), lambda: EMPTY)
