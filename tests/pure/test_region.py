"""Region against Python sets of integers."""

from __future__ import annotations

import pickle
import sys
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from vdev.translators.ranges import bands, byte_runs
from vdev.translators.ranges.region import Region

from . import region_long

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


def test_random_operations_agree_with_sets_of_integers_and_with_isl() -> None:
    assert region_long.main(["--operations", "6000"]) == 0


@pytest.mark.parametrize("count", [20, 3000])
def test_sets_that_alternate_are_united_in_one_walk(count: int) -> None:
    """Each begins where the other has a gap: leaving out what lies beside the other never comes to an end."""
    first = tuple((4 * k, 4 * k + 1, None) for k in range(count))
    second = tuple((4 * k + 2, 4 * k + 3, None) for k in range(count))
    both = bands.unite(first, second, (1,))
    assert both == bands.unite(second, first, (1,)) == tuple(sorted(first + second))
    assert bands.unite(first[:14], second[14:], (1,)) == first[:14] + second[14:]
    # One lies in a gap of the other.
    middle = tuple((4 * (count + k), 4 * (count + k) + 1, None) for k in range(13))
    around = (*second, *((lo + 8 * count, hi + 8 * count, None) for lo, hi, _ in second))
    assert bands.unite(around, middle, (1,)) == tuple(sorted(around + middle))


def test_a_set_with_a_shape_is_few_boxes_whatever_its_size() -> None:
    pitch, plane = 4 << 16, 4 << 32
    tile = Region.boxes(64 * pitch + 256, 1024, ((pitch, 4096),))
    inside = Region.boxes(plane + pitch + 4, pitch - 8, ((pitch, (1 << 16) - 2), (plane, 1000)))
    every_third = Region.boxes(0, 4, ((16, 1 << 30),))
    whole = Region.span(0, plane * 1024)
    assert [r.nboxes for r in (tile, inside, every_third)] == [1, 1, 1]
    assert (whole - tile).nboxes <= 5
    assert (whole - inside).nboxes <= 20
    assert (inside & tile).nboxes <= 1
    assert (inside - every_third).nboxes <= 20
    assert ((whole - inside) | inside) == whole
    assert len(inside) == 1000 * ((1 << 16) - 2)
    assert [len(r.blocks()) for r in (tile, inside, every_third)] == [1, 1, 1]
    assert (tile | tile.shift(4096 * pitch)) == Region.boxes(64 * pitch + 256, 1024, ((pitch, 8192),))


def test_equal_sets_are_equal_whatever_pitches_they_were_made_with() -> None:
    columns = [Region.boxes(4 * k, 4, ((16, 100),)) for k in range(4)]
    assert Region.union(columns) == Region.span(0, 1600)
    assert list(Region.union(columns).parts()) == [(0, 1600, ())]
    one, other = Region.boxes(0, 4, ((60, 2),)), Region.from_runs([(0, 4), (60, 64)])
    assert one == other
    assert hash(one) == hash(other)
    rows = Region.boxes(0, 4, ((12, 5),)) | Region.boxes(60, 4, ((12, 5),))
    assert rows == Region.boxes(0, 4, ((12, 10),)) == Region.boxes(0, 4, ((60, 2), (12, 5)))


def test_a_region_survives_pickling() -> None:
    for region in (Region.empty(), Region.span(3, 9), Region.boxes(5, 4, ((16, 300), (8192, 9)))):
        assert pickle.loads(pickle.dumps(region)) == region


def test_blocks_compress_a_column_block() -> None:
    assert len(Region.boxes(64, 16, ((1024, 1000),)).blocks()) == 1


def test_another_thread_never_sees_half_of_the_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers share the regions of a plan, and each makes its own copies of them."""
    region = Region.boxes(3, 2, [(8, 5)])
    make, seen = bands.runs, []

    def meanwhile(*args: Any) -> Any:
        monkeypatch.setattr(bands, "runs", make)
        seen.append(region.runs.tolist())  # as another thread does
        return make(*args)

    monkeypatch.setattr(bands, "runs", meanwhile)
    found = region.runs.tolist()
    assert found == seen[0] == [[at, at + 2] for at in range(3, 43, 8)]


def test_another_threads_pitches_do_not_come_between() -> None:
    region = Region.boxes(0, 2, [(16, 4)])

    class Asked(tuple[int, ...]):
        def __eq__(self, other: object) -> bool:
            found = tuple.__eq__(self, other)
            region.refined((64, 16))  # as another thread does
            return found

        __hash__ = tuple.__hash__

    expected = region.refined((32, 16))
    assert region.refined(Asked((32, 16))) == expected != region.refined((64, 16))


def test_a_few_runs_take_little_python() -> None:
    """Plans sort and cut some hundred times as few of them: numpy's own Python would be most of it."""
    runs, called = np.array([[8, 12], [0, 4], [4, 6], [16, 20]]), []
    before = sys.getprofile()
    sys.setprofile(
        lambda frame, event, _: called.append(frame.f_code.co_filename) if event == "call" else None
    )
    try:
        found = byte_runs.normal(runs)
        common = byte_runs.intersection(found, byte_runs.normal(runs[:2]))
    finally:
        sys.setprofile(before)
    assert found.tolist() == [[0, 6], [8, 12], [16, 20]]
    assert common.tolist() == [[0, 4], [8, 12]]
    assert [name for name in called if name.endswith("shape_base.py")] == []
