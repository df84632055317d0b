"""Maps from bytes to labels against regions of their own for each label, and against a dictionary of bytes."""

from __future__ import annotations

import random

import pytest
from vdev.translators.ranges.labelled import (
    Labelled,
    labelled,
    labelled_of,
    numbers_of_labelled,
    regions_by_label,
    regions_of,
)
from vdev.translators.ranges.region import EMPTY, Region

SIZE = 480  #: bytes; a multiple of all pitches
PITCHES = (), (24,), (120, 24), (48, 8), (240, 120, 24)


def any_region(rng: random.Random) -> Region:
    """Some boxes of one of the shapes, that mostly go together."""
    pitches = rng.choice(PITCHES)
    found = EMPTY
    for _ in range(rng.randrange(4)):
        unit = min(pitches, default=SIZE)
        nbytes = rng.randrange(1, unit + 1)
        dims = [(pitch, rng.randrange(1, 5)) for pitch in pitches]
        start = rng.randrange(SIZE)
        found = found | Region.boxes(start, nbytes, dims).clip(0, SIZE)
    return found


def bytes_of(region: Region) -> set[int]:
    return {byte for start, stop in region.runs.tolist() for byte in range(start, stop)}


def contents(found: Labelled) -> dict[int, int]:
    """By byte, its label."""
    by_byte: dict[int, int] = {}
    for number, region in found.regions().items():
        for byte in bytes_of(region):
            by_byte[byte] = by_byte.get(byte, 0) | 1 << number
    return by_byte


def expected(parts: list[tuple[int, Region]]) -> dict[int, int]:
    by_byte: dict[int, int] = {}
    for label, region in parts:
        for byte in bytes_of(region):
            by_byte[byte] = by_byte.get(byte, 0) | label
    return by_byte


def check_normal(bands: tuple, size: int | None, units: tuple[int, ...]) -> None:
    """Bands ascend, none is empty, neighbours that go on differ, and no inner map is all of a unit with one label."""
    end, before = None, None
    for lo, hi, inner in bands:
        assert lo < hi
        assert end is None or lo > end or (lo == end and inner != before)
        end, before = hi, inner
        if type(inner) is int:
            assert inner > 0
        else:
            width = units[0] // units[1]
            assert inner
            assert not (len(inner) == 1 and inner[0][:2] == (0, width) and type(inner[0][2]) is int)
            check_normal(inner, width, units[1:])
    assert size is None or end is None or (bands[0][0] >= 0 and end <= size)


@pytest.mark.parametrize("seed", range(6))
def test_maps_have_the_labels_of_the_regions_that_they_are_made_of(seed: int) -> None:
    rng = random.Random(seed)
    made = 0
    for _ in range(120):
        parts = [(1 << rng.randrange(4), any_region(rng)) for _ in range(rng.randrange(5))]
        found = labelled(parts)
        if found is None:
            continue
        made += 1
        check_normal(found.bands, None, (*found.pitches, 1))
        assert contents(found) == expected(parts)
        # the same bytes in the same pitches are the same map, in whatever order they come
        again = labelled(rng.sample(parts, len(parts)))
        assert again == found
    assert made > 60


@pytest.mark.parametrize("seed", range(6))
def test_a_map_says_whether_it_has_all_of_a_run_and_nothing_else(seed: int) -> None:
    rng = random.Random(seed)
    seen = [0, 0]
    for _ in range(200):
        lo, hi = sorted(rng.sample(range(0, SIZE + 1, 24), 2))
        parts = [(1 << rng.randrange(4), any_region(rng).clip(lo, hi)) for _ in range(rng.randrange(4))]
        whole = rng.random() < 0.7
        gap = Region.span(hole := rng.randrange(lo, hi), hole + (0 if whole else rng.randrange(1, 9)))
        found = labelled([*parts, (1 << rng.randrange(4), Region.span(lo, hi) - gap)])
        if found is None:
            continue
        start, stop = (lo, hi) if rng.random() < 0.8 else sorted(rng.sample(range(SIZE), 2))
        true = set(contents(found)) == set(range(start, stop))
        assert true or not found.is_span(start, stop)
        if not found.pitches or not (start % found.pitches[0] or stop % found.pitches[0]):
            assert found.is_span(start, stop) == true
            seen[true] += 1
    assert min(seen) > 20


@pytest.mark.parametrize("seed", range(6))
def test_the_content_of_a_window_can_be_taken_out_and_put_in(seed: int) -> None:
    rng = random.Random(seed)
    made = 0
    for _ in range(120):
        parts = [(1 << rng.randrange(4), any_region(rng)) for _ in range(5)]
        window = any_region(rng)
        found = labelled(parts)
        pitches = None if found is None else found.joint(window)
        if found is None or pitches is None or not window:
            continue
        made += 1
        there = bytes_of(window)
        cut = found.cut(window, pitches)
        inside = cut.inside
        check_normal(inside, None, (*pitches, 1))
        before = expected(parts)
        assert contents(Labelled(pitches, inside)) == {b: x for b, x in before.items() if b in there}
        # what was there, put back, changes nothing
        assert contents(cut.replaced(inside)) == before
        # something else in its place
        others = [(1 << rng.randrange(4), region & window) for _ in range(3) if (region := any_region(rng))]
        other = labelled(others)
        if other is None or not set(other.pitches) <= set(pitches):
            continue
        changed = cut.replaced(other.cut(window, pitches).inside)
        check_normal(changed.bands, None, (*changed.pitches, 1))
        after = {b: x for b, x in before.items() if b not in there} | expected(others)
        assert contents(changed) == after
    assert made > 60


@pytest.mark.parametrize("seed", range(4))
def test_the_bytes_of_each_label_are_those_that_have_it(seed: int) -> None:
    rng = random.Random(seed)
    shared = 0
    for _ in range(100):
        found = labelled([(1 << rng.randrange(3), any_region(rng)) for _ in range(4)])
        if found is None:
            continue
        by_byte: dict[int, int] = {}
        for label, region in regions_by_label(found.bands, found.pitches).items():
            for byte in bytes_of(region):
                assert byte not in by_byte
                by_byte[byte] = label
        assert by_byte == contents(found)
        assert (found.nshared > 0) == any(label.bit_count() > 1 for label in by_byte.values())
        assert found.nshared <= found.nboxes
        shared += found.nshared > 0
    assert shared > 10


@pytest.mark.parametrize("seed", range(4))
def test_a_map_is_its_pattern_and_its_numbers(seed: int) -> None:
    rng = random.Random(seed)
    made = 0
    for _ in range(100):
        found = labelled([(1 << rng.randrange(3), any_region(rng)) for _ in range(4)])
        if found is None:
            continue
        made += 1
        numbers: list[int] = []
        pattern = numbers_of_labelled(found.bands, numbers)
        assert labelled_of(pattern, iter(numbers)) == found.bands
        assert regions_of(found.bands, found.pitches) == found.regions()
    assert made > 40
