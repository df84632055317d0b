"""Copies, fills and merges of CUDA workers, and what they fetch from each other (`cuda_memory`)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from vdev.translators.ranges.grain import BYTES, Grain, joined, of_store, of_unit
from vdev.translators.ranges.region import Region

from vdev.backends.base import Box, copy_box
from vdev.backends.cuda import (
    backend as cuda,
)
from vdev.backends.merging import copy_changes
from vdev.backends.reference import combine
from vdev.errors import BackendError

from .cuda_memory import (
    NBYTES,
    allocation,
    make_backend,
)


@pytest.fixture(scope="module")
def backend() -> cuda.CudaBackend:
    return make_backend()


rows = st.tuples(st.integers(32, 64), st.integers(1, 12), st.integers(0, 9), st.integers(1, 9)).map(
    lambda t: Region.boxes(t[0], t[1], ((t[1] + t[2], t[3]),))
)


def _in_rows_of_others(region: Region, start: int, nbytes: int, pitch: int) -> Region:
    """The same bytes, in boxes that are cut where rows of others begin and end, and so within runs."""
    others = Region.boxes(start, nbytes, ((pitch, 60),))
    return (region - others) | (region & others)


regions = st.one_of(
    st.tuples(st.integers(32, 200), st.integers(1, 200)).map(lambda t: Region.span(t[0], t[0] + t[1])),
    rows,
    st.builds(_in_rows_of_others, rows, st.integers(20, 40), st.integers(1, 2), st.integers(3, 7)),
)


grains = st.one_of(
    st.sampled_from([1, 2, 4, 8, 16, 12, 40]).map(of_unit),
    st.lists(
        st.tuples(st.integers(1, 24), st.integers(0, 99), st.integers(1, 16)), min_size=1, max_size=3
    ).map(lambda stores: joined(of_store(*store) for store in stores)),
)


@given(
    region=regions,
    grain=grains,
    first=st.integers(0, 2),
    second=st.integers(0, 2),
    third=st.integers(0, 2),
)
# stores of which a part only is another value, where a box ends within them
@example(
    region=_in_rows_of_others(Region.boxes(32, 4, ((16, 9),)), 20, 1, 3),
    grain=of_unit(4),
    first=0,
    second=0,
    third=0,
)
@settings(deadline=None)
def test_changes_are_merged_in_units(
    backend: cuda.CudaBackend, region: Region, grain: Grain, first: int, second: int, third: int
) -> None:
    starts = [16 * first, 16 * second, 16 * third]
    (target, into), (stage, new), (twin, old) = (allocation(seed) for seed in range(3))
    expected = into.copy()
    for start, stop in region.runs.tolist():
        part, changed, unchanged = (
            memory[start - origin : stop - origin]
            for memory, origin in zip((expected, new, old), starts, strict=True)
        )
        copy_changes(part, changed, unchanged, start, grain)
    backend.merge(target, starts[0], stage, starts[1], twin, starts[2], region, "diff", "V1", grain)
    assert (into == expected).all()


@given(
    st.sampled_from(["int32", "uint32", "int64", "uint64", "float32", "float64"]),
    st.sampled_from(["add", "min", "max", "and", "or", "xor"]),
    st.integers(0, 5), st.integers(1, 9), st.integers(0, 2), st.integers(1, 3),
)  # fmt: skip
@settings(deadline=None)
def test_elements_are_combined(
    backend: cuda.CudaBackend, dtype: str, op: str, first: int, count: int, gap: int, rows: int
) -> None:
    if dtype.startswith("float") and op in ("and", "or", "xor"):
        return  # no such atomics
    size = np.dtype(dtype).itemsize
    region = Region.boxes(first * size, count * size, (((count + gap) * size, rows),))
    (target, into), (stage, new) = allocation(0), allocation(1)
    expected = into.copy()
    for start, stop in region.runs.tolist():
        combine(expected[start:stop], new[start:stop], op, dtype)
    backend.merge(target, 0, stage, 0, None, 0, region, op, dtype, BYTES)
    assert (into == expected).all()


@given(
    st.integers(1, 3), st.integers(1, 4), st.sampled_from([1, 2, 3, 4, 8, 16, 24]),
    st.lists(st.integers(0, 3), min_size=6, max_size=6),
)  # fmt: skip
@settings(deadline=None)
def test_a_box_is_copied_within_a_gpu(
    backend: cuda.CudaBackend, slices: int, rows: int, nbytes: int, spare: list[int]
) -> None:
    pitches = []
    for row_gap, slice_gap in (spare[:2], spare[2:4]):
        row = nbytes + row_gap * min(nbytes, 8)
        pitches.append((rows * row + slice_gap * min(nbytes, 8), row))
    box = Box((slices, rows, nbytes), spare[4] * nbytes, pitches[0], spare[5] * 4, pitches[1])
    assert max(spare[4] * nbytes, spare[5] * 4) + slices * max(pitches[0][0], pitches[1][0]) <= NBYTES
    (source, given_), (target, into) = allocation(3), allocation(4)
    expected = into.copy()
    copy_box(given_, expected, box)
    backend.copy(source, target, box)
    assert (into == expected).all()
    into[:] = 0
    expected[:] = 0
    copy_box(given_, expected, box)
    engine: list[int] = []
    with pytest.MonkeyPatch.context() as patch:  # a peer's short box is fetched by one launch
        patch.setattr(backend.driver, "copy", lambda *rest: engine.append(0))
        backend.copy_from_peer(backend, source, target, box)
        backend.record()
    assert not engine
    assert (into == expected).all()


@given(
    st.lists(
        st.tuples(
            st.integers(0, 3), st.integers(0, 100), st.integers(0, 100), st.integers(1, 40), st.integers(1, 4), st.integers(0, 2)
        ),
        min_size=1,
        max_size=20,
    ),
    st.sampled_from([1, 4, 16]),
)  # fmt: skip
@settings(deadline=None)
def test_what_comes_from_peers_comes_together(
    backend: cuda.CudaBackend, boxes: list[tuple[int, int, int, int, int, int]], unit: int
) -> None:
    """Boxes from several places, of which the later ones win, before anything else is done."""
    sources = [allocation(seed) for seed in range(4)]
    (target, into), expected = allocation(7), allocation(7)[1].copy()
    again, touched, nbytes_of_all = [], np.zeros(NBYTES, bool), 0
    touched[NBYTES - 1] = True
    for number, start, to, nbytes, rows, gap in boxes:
        width = nbytes // unit * unit or unit
        pitch = width + gap * unit
        box = Box(
            (1, rows, width),
            start // unit * unit,
            (rows * pitch, pitch),
            to // unit * unit,
            (rows * pitch, pitch),
        )
        source, given_ = sources[number]
        copy_box(given_, expected, box)
        for _, place, length in box.rows():
            touched[place : place + length] = True
        nbytes_of_all += box.nbytes
        backend.copy_from_peer(backend, source, target, box)
        again.append(backend.copy_again(backend, source, target, [box]))
    backend.fill(target, NBYTES - 1, 1, b"\x09")
    expected[NBYTES - 1] = 9
    assert (into == expected).all()
    into[:-1] = 0
    counted = backend.pending(), backend.counters.from_peer
    for copy in again:
        assert copy is not None
        copy()
    backend.fill(target, NBYTES - 1, 1, b"\x09")
    assert (into == np.where(touched, expected, 0)).all(), "the same again"
    assert backend.pending() - counted[0] == len(boxes) + 1
    assert backend.counters.from_peer - counted[1] == nbytes_of_all


def test_one_launch_fetches_from_all_neighbours(backend: cuda.CudaBackend) -> None:
    (source, _), (target, _) = allocation(0), allocation(1)
    backend.driver.together.clear()  # type: ignore[attr-defined]
    for start in range(0, 256, 64):
        backend.copy_from_peer(backend, source, target, Box.contiguous(start, start, 32))
    assert backend.driver.together == []  # type: ignore[attr-defined]
    backend.record()
    assert backend.driver.together == ["copy_boxes_u16"]  # type: ignore[attr-defined]


def test_one_launch_fetches_the_edges_on_both_sides(backend: cuda.CudaBackend) -> None:
    """Columns of one array: each begins before the other one ends."""
    (source, given_), (target, into) = allocation(0), allocation(1)
    backend.driver.together.clear()  # type: ignore[attr-defined]
    for start in (0, 48):
        backend.copy_from_peer(backend, source, target, Box((1, 4, 16), start, (256, 64), start, (256, 64)))
    backend.record()
    assert backend.driver.together == ["copy_boxes_u16"]  # type: ignore[attr-defined]
    for row in range(4):
        at = slice(64 * row + 48, 64 * row + 64)
        assert (into[at] == given_[at]).all()


def test_memory_is_given_back_only_after_pending_fetches(backend: cuda.CudaBackend) -> None:
    """Whoever gets it next finds nothing written to it later."""
    (source, given_), (target, into) = allocation(0), allocation(1)
    backend.copy_from_peer(backend, source, target, Box.contiguous(0, 0, 64))
    backend.free(target)
    assert (into[:64] == given_[:64]).all()
    assert backend._fetches == []


def test_the_marker_tells_of_what_could_not_be_fetched(
    backend: cuda.CudaBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source, _), (target, into) = allocation(0), allocation(1)
    monkeypatch.setattr(backend.driver, "refuses", True)
    for start in (0, 64):
        backend.copy_from_peer(backend, source, target, Box.contiguous(start, start, 32))
    backend.fill(target, 128, 4, b"\x07")  # goes on: it is not its fault
    marker = backend.record()
    assert into[128] == 7
    with pytest.raises(BackendError, match=": 3"):
        marker.wait()
    assert marker.done()
    backend.record().wait()  # and only that


@given(
    st.binary(min_size=1, max_size=3),
    st.sampled_from([1, 2, 4, 8, 16, 32, 64, 128]),
    st.integers(0, 2),
    st.integers(1, 3),
)
@settings(deadline=None)
def test_a_pattern_is_repeated(
    backend: cuda.CudaBackend, seed: bytes, size: int, first: int, count: int
) -> None:
    pattern = np.resize(np.frombuffer(seed, np.uint8), size).tobytes()
    target, into = allocation(5)
    start, stop = first * size, min((first + count) * size, NBYTES)
    expected = into.copy()
    expected[start:stop] = np.resize(np.frombuffer(pattern, np.uint8), stop - start)
    backend.fill(target, start, stop - start, pattern)
    assert (into == expected).all()
