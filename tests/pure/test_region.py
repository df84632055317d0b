"""Region against Python sets of integers."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from vdev.translators.region import Region

spans = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12)), max_size=8)


def make(parts: list[tuple[int, int]]) -> tuple[Region, set[int]]:
    region = Region.from_runs([(start, start + length) for start, length in parts])
    return region, {byte for start, length in parts for byte in range(start, start + length)}


def members(region: Region) -> set[int]:
    return {byte for start, stop in region.runs.tolist() for byte in range(start, stop)}


def is_normal(region: Region) -> bool:
    flat = region.runs.ravel().tolist()
    return all(a < b for a, b in pairwise(flat))


@given(spans, spans)
def test_set_arithmetic(first: list[tuple[int, int]], second: list[tuple[int, int]]) -> None:
    a, sa = make(first)
    b, sb = make(second)
    for region, expected in ((a, sa), (a | b, sa | sb), (a & b, sa & sb), (a - b, sa - sb)):
        assert members(region) == expected
        assert is_normal(region)
        assert region.nbytes == len(expected)
        assert bool(region) == bool(expected)
    assert a.contains(b) == (sb <= sa)
    assert a.overlaps(b) == bool(sa & sb)
    assert (a == b) == (sa == sb)
    if sa == sb:
        assert hash(a) == hash(b)
    assert Region.union([a, b, a]) == a | b


@given(spans, st.integers(0, 70), st.integers(0, 70), st.integers(0, 9))
def test_clip_shift_hull(parts: list[tuple[int, int]], start: int, stop: int, offset: int) -> None:
    region, expected = make(parts)
    assert members(region.clip(start, stop)) == {b for b in expected if start <= b < stop}
    assert members(region.shift(offset)) == {b + offset for b in expected}
    assert members(region.hull()) == (set(range(min(expected), max(expected) + 1)) if expected else set())


dims = st.lists(st.tuples(st.integers(-20, 20), st.integers(0, 4)), max_size=3)


@given(st.integers(0, 9), dims)
def test_boxes(nbytes: int, box: list[tuple[int, int]]) -> None:
    base = 300
    points = [base]
    for stride, count in box:
        points = [p + i * stride for p in points for i in range(count)]
    expected = {p + k for p in points for k in range(nbytes)}
    assert members(Region.boxes(base, nbytes, box)) == expected


@given(spans)
def test_blocks_cover_the_runs_in_order(parts: list[tuple[int, int]]) -> None:
    region, expected = make(parts)
    listed = [
        b.start + i * b.stride + k for b in region.blocks() for i in range(b.count) for k in range(b.nbytes)
    ]
    assert listed == sorted(expected)


def test_blocks_compress_a_column_block() -> None:
    assert len(Region.boxes(64, 16, ((1024, 1000),)).blocks()) == 1
