"""Copies, fills and merges of CUDA workers, with host memory in the place of a GPU's and our kernels in NumPy.

What the driver would do is done at once; whether the kernels themselves compute this, a GPU has to show.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
import threading
from collections import deque
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from vdev.translators.ranges.grain import BYTES, Grain, joined, of_store, of_unit
from vdev.translators.ranges.region import Region

from vdev.backends.base import Box, Counters, copy_box
from vdev.backends.cuda import (
    backend as cuda,
)
from vdev.backends.cuda import (
    cupy_parts,
    huge_pages,
)
from vdev.backends.cuda import driver as cuda_driver
from vdev.backends.cuda import host_copies as cuda_host_copies
from vdev.backends.cuda import (
    kernels as cuda_kernels,
)
from vdev.backends.cuda import (
    landing as cuda_landing,
)
from vdev.backends.cuda import (
    launch as cuda_launch,
)
from vdev.backends.cuda import (
    pool as cuda_pool,
)
from vdev.backends.cuda import (
    staging as cuda_staging,
)
from vdev.backends.cuda.errors import ERROR_NOT_READY
from vdev.backends.cuda.gpu import Gpu
from vdev.backends.cuda.marker import CudaMarker
from vdev.backends.cuda.own_kernels import OwnKernels
from vdev.backends.merging import copy_changes
from vdev.backends.reference import combine
from vdev.errors import MEM_OBJECT_ALLOCATION_FAILURE, OUT_OF_RESOURCES, BackendError

NBYTES = 1024  # of an allocation: more than any box below takes
UNSIGNED = {1: "u1", 2: "u2", 4: "u4", 8: "u8", 16: "V16"}


def _at(address: int, count: int, dtype: str) -> Any:
    nbytes = count * np.dtype(dtype).itemsize
    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address)).view(dtype)


class _Driver:
    """The driver's calls on host memory."""

    def __init__(self) -> None:
        self.together: list[str] = []  # launches that copied several boxes
        self.refuses = False

    def event_record(self, event: int, stream: int) -> int:
        return 0

    def event_query(self, event: int) -> int:
        return 0

    def stream_wait(self, stream: int, event: int, flags: int) -> int:
        return 0

    def set_context(self, context: int) -> int:
        return 0

    def check(self, result: int, text: str) -> None:
        assert result == 0, text

    def new_event(self) -> int:
        return 9

    def error(self, result: int, text: str) -> BackendError:
        return BackendError(-5, f"{text}: {result}")

    def copy(self, target: int, source: int, nbytes: int, stream: int) -> int:
        ctypes.memmove(target, source, nbytes)
        return 0

    def read_memory(self, target: int, source: int, nbytes: int, stream: int) -> int:
        ctypes.memmove(target, source, nbytes)
        return 0

    def stream_synchronize(self, stream: int) -> int:
        return 0

    def fill_1(self, address: int, value: int, count: int, stream: int) -> int:
        _at(address, count, "u1")[:] = value
        return 0

    def fill_2(self, address: int, value: int, count: int, stream: int) -> int:
        _at(address, count, "u2")[:] = value
        return 0

    def fill_4(self, address: int, value: int, count: int, stream: int) -> int:
        _at(address, count, "u4")[:] = value
        return 0

    starting = cuda_driver.Driver.starting

    def _launch(self, *args: Any) -> int:
        if self.refuses:
            return 3
        function = args[1].value or 0
        extra = (ctypes.c_uint64 * 5).from_address(args[-1].value)
        nbytes = ctypes.c_size_t.from_address(extra[3]).value
        parameters = ctypes.string_at(extra[1], nbytes)
        name = cuda_kernels.NAMES[function]
        words = np.frombuffer(parameters[: nbytes // 8 * 8], np.uint64).tolist()
        if name == "fill_pattern":
            address, total, length = words[:3]
            _at(address, total, "u1")[:] = np.resize(np.frombuffer(parameters[24 : 24 + length], "u1"), total)
        elif name.startswith("copy_boxes_"):
            self.together.append(name)
            total = 0
            for at in range(1, len(words), 9):
                self._copy_box(int(name.removeprefix("copy_boxes_u")), *words[at : at + 9])
                total += words[at + 4]
            assert total == words[0]
        elif name == "merge_units":
            self._merge_units(np.frombuffer(parameters[80:], np.uint16).tolist(), *words[:10])
        elif name.startswith("copy_"):
            self._copy_box(int(name.removeprefix("copy_u")), *words)
        elif name.startswith("fold_"):
            self._fold(name, *words)
        else:
            self._merge(name, *words)
        return 0

    def _copy_box(
        self, unit: int, source: int, target: int, width: int, rows: int, total: int, *pitches: int
    ) -> None:
        for index in range(total):
            line, x = divmod(index, width)
            z, y = divmod(line, rows)
            start = (z * pitches[1] + y * pitches[0] + x) * unit
            stop = (z * pitches[3] + y * pitches[2] + x) * unit
            assert (source + start) % unit == (target + stop) % unit == 0
            ctypes.memmove(target + stop, source + start, unit)

    def _merge_units(
        self, cuts: list[int], target: int, stage: int, twin: int, start: int, nbytes: int, stride: int, most: int,
        total: int, period: int, count: int,
    ) -> None:  # fmt: skip
        for row in range(total // most):
            begin = start + row * stride
            first, stop = begin - begin % period, begin + nbytes
            ends = [first + number // count * period + cuts[number % count] for number in range(most)]
            assert ends[-1] >= stop, "the units of a row are all looked at"
            for low, high in zip([0, *ends], ends, strict=False):
                low, high = max(low, begin), min(high, stop)
                if (
                    low < high
                    and (_at(stage + low, high - low, "u1") != _at(twin + low, high - low, "u1")).any()
                ):
                    _at(target + low, high - low, "u1")[:] = _at(stage + low, high - low, "u1")

    def _merge(
        self, name: str, target: int, stage: int, twin: int, width: int, stride: int, total: int
    ) -> None:
        dtype = UNSIGNED[int(name.removeprefix("merge_diff_u"))]
        for row in range(total // width):
            at = row * stride * np.dtype(dtype).itemsize
            into, new, old = (_at(memory + at, width, dtype) for memory in (target, stage, twin))
            changed = new != old
            into[changed] = new[changed]

    def _fold(
        self, name: str, target: int, width: int, stride: int, total: int, count: int, *parts: int
    ) -> None:
        _, op, dtype = name.split("_")
        for row in range(total // width):
            at = row * stride * np.dtype(dtype).itemsize
            for part in parts[:count]:
                combine(
                    _at(target + at, width, dtype).view("u1"),
                    _at(part + at, width, dtype).view("u1"),
                    op,
                    dtype,
                )


class _Memory:
    """What CuPy's pool would give."""

    def __init__(self, seed: int) -> None:
        self.array = np.zeros(NBYTES + 128, np.uint8)
        start = -self.array.ctypes.data % 128
        self.bytes = self.array[start : start + NBYTES]
        self.bytes[:] = np.random.default_rng(seed).integers(0, 4, NBYTES)
        self.ptr = self.bytes.ctypes.data


class _Info:
    compute_units = 4


def _gpu(driver: Any) -> Gpu:
    """A GPU without CUDA."""
    made = object.__new__(Gpu)
    made.driver, made.number, made.lost, made.held_at_loss = driver, 0, None, ()
    made.clock = SimpleNamespace(due=1 << 62)  # type: ignore[assignment]
    return made


@pytest.fixture(scope="module")
def backend() -> cuda.CudaBackend:
    made = cuda.CudaBackend.__new__(cuda.CudaBackend)
    made.driver = _Driver()  # type: ignore[assignment]
    made.counters = Counters()
    made.info = _Info()  # type: ignore[assignment]
    made._gpu = _gpu(made.driver)
    made._gpu.free_events = deque(range(1, 4))
    made.stream = made._first = made._count = 0
    made.number = 0
    made._reached = {0: True}
    made._fetches, made._lost = [], None
    made._modules = SimpleNamespace()  # type: ignore[assignment]
    made._sparse = SimpleNamespace()  # type: ignore[assignment]
    made._let_go_behind_markers = ()  # type: ignore[assignment]
    made._own = OwnKernels(
        0, _Info.compute_units, lambda: cuda_kernels.NAMES.index, made.driver.starting, made._gpu.check
    )
    return made


def _allocation(seed: int) -> tuple[cuda_launch.CudaAllocation, Any]:
    memory = _Memory(seed)
    return cuda_launch.CudaAllocation(memory, NBYTES), memory.bytes


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
    (target, into), (stage, new), (twin, old) = (_allocation(seed) for seed in range(3))
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
    (target, into), (stage, new) = _allocation(0), _allocation(1)
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
    (source, given_), (target, into) = _allocation(3), _allocation(4)
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
    sources = [_allocation(seed) for seed in range(4)]
    (target, into), expected = _allocation(7), _allocation(7)[1].copy()
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
    (source, _), (target, _) = _allocation(0), _allocation(1)
    backend.driver.together.clear()  # type: ignore[attr-defined]
    for start in range(0, 256, 64):
        backend.copy_from_peer(backend, source, target, Box.contiguous(start, start, 32))
    assert backend.driver.together == []  # type: ignore[attr-defined]
    backend.record()
    assert backend.driver.together == ["copy_boxes_u16"]  # type: ignore[attr-defined]


def test_one_launch_fetches_the_edges_on_both_sides(backend: cuda.CudaBackend) -> None:
    """Columns of one array: each begins before the other one ends."""
    (source, given_), (target, into) = _allocation(0), _allocation(1)
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
    (source, given_), (target, into) = _allocation(0), _allocation(1)
    backend.copy_from_peer(backend, source, target, Box.contiguous(0, 0, 64))
    backend.free(target)
    assert (into[:64] == given_[:64]).all()
    assert backend._fetches == []


def test_the_marker_tells_of_what_could_not_be_fetched(
    backend: cuda.CudaBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source, _), (target, into) = _allocation(0), _allocation(1)
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
    target, into = _allocation(5)
    start, stop = first * size, min((first + count) * size, NBYTES)
    expected = into.copy()
    expected[start:stop] = np.resize(np.frombuffer(pattern, np.uint8), stop - start)
    backend.fill(target, start, stop - start, pattern)
    assert (into == expected).all()


class _PinnedMemory:
    def __init__(self, nbytes: int, flags: int) -> None:
        self.array = np.zeros(nbytes, np.uint8)
        self.ptr = self.array.ctypes.data


class _DriverLater(_Driver):
    """One that copies when it is waited for, and says what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.waiting: list[tuple[int, int, int]] = []
        self.looks = 0  #: before everything is there
        self.failure = 0
        self.current = _CONTEXT  #: the calling thread's
        self.made, self.recorded = 0, dict[int, int]()  #: events, and how many copies each is behind

    def read_pinned(self, target: int, source: int, nbytes: int, stream: int) -> int:
        self.calls.append("copy")
        self.waiting.append((target, source, nbytes))
        return 0

    def read_assembled(self, *args: Any) -> int:
        if self.current != _CONTEXT:
            return 400
        return self.read_pinned(*[each.value for each in args])

    def new_event(self) -> int:
        self.made += 1
        return self.made

    def record_assembled(self, event: ctypes.c_void_p, stream: ctypes.c_void_p) -> int:
        if self.current != _CONTEXT:
            return 400
        self.calls.append("record")
        self.recorded[event.value or 0] = len(self.waiting)
        return 0

    def event_query(self, event: int) -> int:
        return ERROR_NOT_READY

    def event_synchronize(self, event: int) -> int:
        self.calls.append("wait")
        return self._arrive(self.recorded[event])

    def stream_synchronize(self, stream: int) -> int:
        self.calls.append("synchronize")
        return self._arrive()

    def query_assembled(self, stream: ctypes.c_void_p) -> int:
        self.calls.append("look")
        if self.looks:
            self.looks -= 1
            return ERROR_NOT_READY
        return self._arrive()

    def _arrive(self, count: int | None = None) -> int:
        if self.failure:
            return self.failure
        for target, source, nbytes in self.waiting[:count]:
            ctypes.memmove(target, source, nbytes)
        del self.waiting[:count]
        return 0


_CONTEXT = 71


def _landing_later(
    backend: cuda.CudaBackend, monkeypatch: pytest.MonkeyPatch
) -> tuple[_DriverLater, list[_PinnedMemory]]:
    """The back end on such a driver, and the pinned memory that it takes."""
    driver, made = _DriverLater(), []
    monkeypatch.setattr(backend, "driver", driver)
    monkeypatch.setattr(backend, "_first", 7)  # an event that is there since the marker
    monkeypatch.setattr(backend, "_synchronize", lambda: driver.stream_synchronize(0), raising=False)
    monkeypatch.setattr(backend, "_query", lambda: driver.query_assembled(ctypes.c_void_p()), raising=False)
    monkeypatch.setattr(backend, "visitor", lambda: lambda: None)
    monkeypatch.setattr(backend, "context", _CONTEXT, raising=False)
    runtime = SimpleNamespace(hostAllocPortable=1)

    def pinned(nbytes: int, flags: int) -> _PinnedMemory:
        made.append(_PinnedMemory(nbytes, flags))
        return made[-1]

    cupy = SimpleNamespace(cuda=SimpleNamespace(PinnedMemory=pinned, runtime=runtime))
    landing: Any = cuda_landing.Landing
    monkeypatch.setattr(
        backend, "_landing", landing(cupy, driver, backend.stream, driver.new_event), raising=False
    )
    return driver, made


@pytest.mark.parametrize(
    ("looks", "expected"), [(0, ["copy", "look"]), (3, ["copy", *["look"] * 4]), (1000, None)]
)
def test_small_reads_are_there_after_some_looks(
    backend: cuda.CudaBackend, monkeypatch: pytest.MonkeyPatch, looks: int, expected: list[str] | None
) -> None:
    """Nobody waits for a stream that is done within microseconds; another one is waited for without the turn."""
    driver, made = _landing_later(backend, monkeypatch)
    source, memory = _allocation(3)
    (begin, end), (begin_other, end_other) = (backend.read_again(source, start, 40) for start in (11, 0))
    for round_ in range(3):
        target = np.zeros(40, np.uint8)
        driver.looks = looks
        before = backend.pending()
        assert begin() is None
        deliver = end(target)
        assert backend.pending() == before + 1
        assert (deliver is None) is (expected is not None)
        if deliver is None:
            assert driver.calls == expected
        else:
            assert driver.calls == ["copy", *["look"] * len(cuda._LOOKS)]
            assert not target.any()
            assert backend.wait_for_all()
            deliver(target, 0)
            deliver = None
        assert (target == memory[11:51]).all()
        driver.looks = 0
        begin_other()
        assert end_other(target) is None
        assert (target == memory[:40]).all()
        assert len(made) == 1, "memory is given back, and used by all"
        driver.calls.clear()
        memory += 1 + round_


def test_a_small_write_made_again_takes_what_the_array_holds(
    backend: cuda.CudaBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, _ = _landing_later(backend, monkeypatch)
    target, memory = _allocation(3)
    expected, refused = memory.copy(), [0]

    def copy(*args: Any) -> int:
        to, source, nbytes, stream = (each.value or 0 for each in args)
        assert stream == backend.stream
        if not refused[0]:
            ctypes.memmove(to, source, nbytes)
        return refused[0]

    monkeypatch.setattr(driver, "copy_assembled", copy, raising=False)
    nothing_pinned = SimpleNamespace(homes=SimpleNamespace(starts=[]))
    monkeypatch.setattr(backend, "_staging", nothing_pinned, raising=False)
    write = backend.write_again(target, 11, 40)
    fixed = np.full(40, 9, np.uint8)
    fixed.flags.writeable = False
    before, moved = backend.pending(), backend.counters.from_host
    for source in (np.arange(40, dtype=np.uint8), fixed, np.arange(80, dtype=np.uint8)[40:]):
        write(source)
        expected[11:51] = source
        assert (memory == expected).all()
    assert (backend.pending(), backend.counters.from_host) == (before + 3, moved + 120)
    refused[0] = 1
    with pytest.raises(BackendError, match="upload"):
        write(fixed)
    assert (backend.pending(), backend.counters.from_host) == (before + 3, moved + 120)


def test_small_reads_under_way_have_memory_of_their_own(
    backend: cuda.CudaBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, made = _landing_later(backend, monkeypatch)
    source, memory = _allocation(3)
    driver.looks = 1000
    late = [np.zeros(40, np.uint8) for _ in range(3)]
    reads = [backend.read_again(source, start, 40) for start in (0, 8, 0)]
    delivers = []
    for (begin, end), target in zip(reads, late, strict=True):
        begin()
        delivers.append(end(target))
    between = backend.begin_read(source, 24, 40)
    driver.stream_synchronize(0)
    expected = memory.copy()
    memory[:] = 0  # another read of the first ones' kind, while theirs have not been taken
    begin, end = reads[0]
    begin()
    driver.looks, found = 0, np.ones(40, np.uint8)
    assert end(found) is None
    assert not found.any()
    for start, target, deliver in zip((0, 8, 0), late, delivers, strict=True):
        assert deliver is not None
        deliver(target, 0)
        assert (target == expected[start : start + 40]).all()
    between(found, 0)
    assert (found == expected[24:64]).all()
    assert len(made) == 5


@pytest.mark.parametrize("fails", [False, True])
def test_a_read_made_again_from_another_gpus_context(
    backend: cuda.CudaBackend, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """Where the driver asks for the GPU's own: what the thread had before is given back at once."""
    driver, _ = _landing_later(backend, monkeypatch)
    contexts: list[object] = []

    def change(context: int) -> None:
        driver.current = context
        contexts.append(context)

    monkeypatch.setattr(backend, "visit", lambda: change(_CONTEXT) or "outside")
    monkeypatch.setattr(backend, "leave", change)
    driver.current = _CONTEXT + 1
    source, memory = _allocation(3)
    if fails:
        monkeypatch.setattr(driver, "read_pinned", lambda *_: 1)
    before = backend.pending()
    begin, end = backend.read_again(source, 0, 40)
    if fails:
        with pytest.raises(BackendError):
            begin()
        assert backend.pending() == before
    else:
        assert begin() is None
        target = np.zeros(40, np.uint8)
        assert end(target) is None
        assert (target == memory[:40]).all()
    assert contexts == 2 * [_CONTEXT, "outside"], "for the pinned memory, the first time, and for the read"


@pytest.mark.parametrize("what", ["failure", "lost fetch", "let go"])
def test_small_reads_that_a_marker_has_to_tell_of(
    backend: cuda.CudaBackend, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    driver, _ = _landing_later(backend, monkeypatch)
    source, memory = _allocation(3)
    target = np.zeros(40, np.uint8)
    if what == "failure":
        driver.failure = 700
    elif what == "lost fetch":
        monkeypatch.setattr(backend, "_lost", BackendError(-5, "a copy from a peer"))
    else:
        monkeypatch.setattr(backend, "_let_go_behind_markers", ([], [1]))
    begin, end = backend.read_again(source, 11, 40)
    begin()
    deliver = end(target)
    assert deliver is not None
    assert not target.any()
    assert not backend.wait_for_all()
    driver.failure = 0
    driver.stream_synchronize(0)
    deliver(target, 0)
    assert (target == memory[11:51]).all()


def test_copies_that_another_thread_starts_meanwhile_are_not_waited_for(
    backend: cuda.CudaBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read of its own has started them behind what this thread waits for."""
    driver, _ = _landing_later(backend, monkeypatch)
    requested: list[Any] = ["a copy from a peer"]
    monkeypatch.setattr(backend, "_fetches", requested)
    monkeypatch.setattr(driver, "stream_synchronize", lambda stream: requested.clear() or 0)
    assert not backend.wait_for_all()


@pytest.mark.parametrize("fails", [False, True])
def test_a_wait_that_the_driver_refuses_is_made_here(
    backend: cuda.CudaBackend, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """Whatever comes later counts on it. What has failed there is reported there."""
    peer, waited = _Driver(), list[int]()
    monkeypatch.setattr(peer, "event_query", lambda event: ERROR_NOT_READY)
    monkeypatch.setattr(
        peer, "event_synchronize", lambda event: waited.append(event) or 5 * fails, raising=False
    )
    marker = CudaMarker(_gpu(peer), 0, 7, None)
    marker._gpu.free_events = deque()
    backend.order_after(marker)
    assert waited == []
    monkeypatch.setattr(backend.driver, "stream_wait", lambda stream, event, flags: 2)
    backend.order_after(marker)
    assert waited == [7]


def test_streams_are_ordered_here_where_the_driver_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    driver, waited = _Driver(), list[int]()
    gpu = _gpu(driver)
    gpu.free_events = deque([4])
    monkeypatch.setattr(driver, "stream_synchronize", lambda stream: waited.append(stream) or 0)
    gpu.order(1, 2)
    assert waited == []
    monkeypatch.setattr(driver, "stream_wait", lambda stream, event, flags: 2)
    gpu.order(1, 2)
    assert waited == [2]
    assert list(gpu.free_events) == [4]


def test_a_refused_read_leaves_nothing_behind(
    backend: cuda.CudaBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, made = _landing_later(backend, monkeypatch)
    source, memory = _allocation(3)
    target, before = np.zeros(40, np.uint8), backend.pending()
    with monkeypatch.context() as refusing:
        refusing.setattr(driver, "read_pinned", lambda *_: 1)
        for read in (lambda *what: backend.read_again(*what)[0](), backend.begin_read):
            with pytest.raises(BackendError):
                read(source, 11, 40)
    assert backend.pending() == before
    begin, end = backend.read_again(source, 11, 40)
    begin()
    assert end(target) is None
    assert (target == memory[11:51]).all()
    assert len(made) == 1, "memory is given back"


def test_small_reads_arrive_in_the_order_of_the_stream(
    backend: cuda.CudaBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two calls of the driver, one of which waits; and no memory is given to a second read while the first is under way."""
    driver, made = _landing_later(backend, monkeypatch)
    source, memory = _allocation(3)
    target = np.zeros(100, np.uint8)
    for _ in range(3):
        deliver = backend.begin_read(source, 11, 40)
        assert driver.calls == ["copy", "record"]
        assert backend.wait_for_all()
        assert driver.calls == ["copy", "record", "synchronize"]
        deliver(target, 7)
        assert (target[7:47] == memory[11:51]).all()
        assert not target[:7].any()
        assert not target[47:].any()
        driver.calls.clear()
        memory += 1
        deliver = None
    assert len(made) == 1
    first, second = backend.begin_read(source, 0, 16), backend.begin_read(source, 32, 16)
    assert backend.wait_for_all()
    first(target, 0)
    second(target, 16)
    assert (target[:32] == np.concatenate([memory[:16], memory[32:48]])).all()
    assert len(made) == 2


def test_a_read_is_waited_for_without_what_comes_behind_it(
    backend: cuda.CudaBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, made = _landing_later(backend, monkeypatch)
    source, memory = _allocation(3)
    target = np.zeros(80, np.uint8)
    begin = backend.read_later(source, 11, 40)
    for _ in range(3):
        first, second = begin(), begin()
        assert first is not None
        assert second is not None
        assert backend.wait_for_read(first)
        assert len(driver.waiting) == 1, "the second is still on its way"
        first(target, 0)
        assert backend.wait_for_read(second)
        second(target, 40)
        assert (target == np.tile(memory[11:51], 2)).all()
        memory += 1
        first = second = None
    assert len(made) == 2, "memory is given back"
    monkeypatch.setattr(driver, "current", _CONTEXT + 1)
    enter = partial(setattr, driver, "current")
    monkeypatch.setattr(driver, "set_context", enter, raising=False)
    monkeypatch.setattr(backend, "_visit", lambda: enter(_CONTEXT) or _CONTEXT + 1, raising=False)
    elsewhere = begin()
    assert elsewhere is not None
    assert backend.wait_for_read(elsewhere), "in another context, too"
    driver.calls.clear()
    assert not backend.wait_for_read(lambda target, at: None), "of others only a marker tells"
    assert driver.calls == []


def test_a_read_whose_past_only_a_marker_tells_is_not_waited_for_alone(
    backend: cuda.CudaBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy that came before it was refused; or the wait is."""
    driver, _ = _landing_later(backend, monkeypatch)
    source, _ = _allocation(3)
    begin = backend.read_later(source, 11, 40)
    with monkeypatch.context() as lost:
        lost.setattr(backend, "_lost", BackendError(-5, "a copy from a peer"))
        behind = (begin(), backend.begin_read(source, 11, 40))
    assert not any(backend.wait_for_read(each) for each in behind if each is not None)
    found = begin()
    assert found is not None
    driver.failure = 700
    assert not backend.wait_for_read(found)


def test_longer_reads_get_memory_once_those_without_have_taken_as_long_as_to_pin_it(
    backend: cuda.CudaBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, made = _landing_later(backend, monkeypatch)
    landing, longest = backend._landing, cuda_landing._LONGER_NBYTES[-1]
    assert landing.takes(cuda_landing.LANDING_NBYTES)
    assert not landing.takes(0)
    assert not any(landing.takes(longest + 1) for _ in range(1000))
    for size in cuda_landing._LONGER_NBYTES:
        tries = next(number for number in range(1, 1000) if landing.takes(size - 1))
        assert tries == -(-size // cuda_landing._WAKING_NBYTES)
        lent = [landing.take(size)]
        assert not landing.takes(size), "the next one is earned as well"
        assert len(lent[0].array) == size
        landing.free_for(size).append(lent.pop())
        assert landing.takes(size)
    assert [len(each.array) for each in made] == [*cuda_landing._LONGER_NBYTES]
    taken = sum(cuda_landing._LONGER_NBYTES)
    landing.take(longest)
    while any(landing.takes(longest) for _ in range(1000)):
        landing.take(longest)
        taken += longest
    assert taken <= cuda_landing._MOST_NBYTES < taken + longest
    assert driver.calls == []


@pytest.mark.parametrize(("nbytes", "takers"), [(1, 1), (4097, 1), (40_000, 2), (70_001, 4), (500_000, 8)])
def test_transfers_through_pinned_blocks(monkeypatch: pytest.MonkeyPatch, nbytes: int, takers: int) -> None:
    for name, value in (("BLOCK_NBYTES", 8192), ("PIECE_NBYTES", 4096), ("THREAD_NBYTES", 16384)):
        monkeypatch.setattr(cuda_staging, name, value)
    monkeypatch.setattr("os.cpu_count", lambda: 22)
    driver = _Driver()
    runtime = SimpleNamespace(hostAllocPortable=1)
    cupy = SimpleNamespace(cuda=SimpleNamespace(PinnedMemory=_PinnedMemory, runtime=runtime))
    staging = cuda_staging.Staging(cupy, driver, 2)  # type: ignore[arg-type]
    assert staging.takers(nbytes) == takers
    rng = np.random.default_rng(nbytes)
    host, memory = rng.integers(0, 256, nbytes, dtype=np.uint8), np.zeros(nbytes, np.uint8)
    box = Box.contiguous(0, 0, nbytes)
    pieces = cuda_staging.pieces_of(box, 8192 if nbytes > 8192 else staging.limit(nbytes))
    staging.upload(host, pieces, memory.ctypes.data, 0, 0)
    assert (memory == host).all()
    back = np.zeros(nbytes, np.uint8)
    pieces = cuda_staging.pieces_of(box.turned(), staging.limit(nbytes))
    staging.download(back, pieces, memory.ctypes.data, 0, 0)
    assert (back == host).all()
    staging.close()


@pytest.mark.parametrize(
    ("gpus", "expected"),
    [(1, [1, 2, 3, 4, 4, 8, 24]), (2, [1, 2, 2, 2, 4, 8, 12]), (4, [1, 1, 1, 1, 4, 6, 6])],
)
def test_how_many_threads_copy(monkeypatch: pytest.MonkeyPatch, gpus: int, expected: list[int]) -> None:
    """Four for all GPUs as soon as each has enough to copy; more for what is long."""
    monkeypatch.setattr("os.cpu_count", lambda: 32)
    runtime = SimpleNamespace(hostAllocPortable=1)
    cupy = SimpleNamespace(cuda=SimpleNamespace(PinnedMemory=_PinnedMemory, runtime=runtime))
    staging = cuda_staging.Staging(cupy, _Driver(), gpus)  # type: ignore[arg-type]
    try:
        sizes = (4, 8, 12, 16, 64, 128, 512)
        assert [staging.takers(size << 20) for size in sizes] == expected
    finally:
        staging.close()


class _PinnedSlowly:
    """A CuPy whose thread for pinning ahead is kept waiting within its first block."""

    def __init__(self) -> None:
        self.begun, self.goes_on = threading.Event(), threading.Event()
        self.made: list[str] = []  #: by which threads
        outer = self

        class PinnedMemory(_PinnedMemory):
            def __init__(self, nbytes: int, flags: int) -> None:
                outer.made.append(threading.current_thread().name)
                if outer.made[-1] == "vdev-pin":
                    outer.begun.set()
                    assert outer.goes_on.wait(60)
                super().__init__(nbytes, flags)

        runtime = SimpleNamespace(hostAllocPortable=1, CUDARuntimeError=_RuntimeError)
        self.cuda = SimpleNamespace(PinnedMemory=PinnedMemory, runtime=runtime)


def _uploads(staging: cuda_staging.Staging) -> bool:
    """Whether a hundred bytes arrive."""
    host, memory = np.arange(100, dtype=np.uint8), np.zeros(100, np.uint8)
    staging.upload(host, cuda_staging.pieces_of(Box.contiguous(0, 0, 100)), memory.ctypes.data, 0, 0)
    return bool((memory == host).all())


def test_nobody_waits_for_what_is_pinned_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a transfer nor the end of the process, after which nothing more is pinned."""
    monkeypatch.setattr(cuda_staging, "_LAST_BLOCK", 0.0)
    cupy = _PinnedSlowly()
    staging = cuda_staging.Staging(cupy, _Driver(), 1)  # type: ignore[arg-type]
    assert cupy.begun.wait(60)
    assert _uploads(staging)
    staging.close()
    cupy.goes_on.set()
    staging._pinning.join(60)
    assert cupy.made.count("vdev-pin") == 1


@pytest.mark.parametrize("given", ["launches", "from_host", "to_host", "from_peer", "local", "filled"])
def test_nothing_is_pinned_ahead_once_a_gpu_has_something_to_do(given: str) -> None:
    """Each call of the driver would wait for the block that is being pinned. What there is by then is used."""
    cupy, counters = _PinnedSlowly(), Counters()
    staging = cuda_staging.Staging(cupy, _Driver(), 1)  # type: ignore[arg-type]
    staging.watch(Counters())
    staging.watch(counters)
    assert cupy.begun.wait(60)
    setattr(counters, given, 1)
    cupy.goes_on.set()
    staging._pinning.join(60)
    assert cupy.made == ["vdev-pin"]
    assert _uploads(staging)
    assert cupy.made == ["vdev-pin", threading.current_thread().name]
    staging.close()


def test_what_is_pinned_ahead_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    made: list[str] = []

    class PinnedMemory(_PinnedMemory):
        def __init__(self, nbytes: int, flags: int) -> None:
            made.append(threading.current_thread().name)
            super().__init__(nbytes, flags)

    runtime = SimpleNamespace(hostAllocPortable=1, CUDARuntimeError=_RuntimeError)
    cupy = SimpleNamespace(cuda=SimpleNamespace(PinnedMemory=PinnedMemory, runtime=runtime))
    staging = cuda_staging.Staging(cupy, _Driver(), 1)  # type: ignore[arg-type]
    staging._pinning.join(60)
    assert made == ["vdev-pin"] * 8  # two for each of three threads, and for the calling one
    assert _uploads(staging)
    assert len(made) == 8
    staging.close()


def test_the_parts_of_cupy_that_are_used() -> None:
    """Streams and pinned memory are given back with their objects."""
    calls: list[tuple[object, ...]] = []

    def call(name: str, result: int = 0) -> Any:
        return lambda *given: calls.append((name, *given)) or result

    runtime = SimpleNamespace(
        streamNonBlocking=1,
        streamCreateWithFlags=call("create", 7),
        streamSynchronize=call("synchronize"),
        streamDestroy=call("destroy"),
        hostAlloc=call("allocate", 8),
        freeHost=call("free"),
        hostRegister=call("register"),
        hostUnregister=call("unregister"),
    )
    parts = cupy_parts.parts_of(runtime, "driver", "nvrtc").cuda
    assert (parts.runtime, parts.driver, parts.nvrtc) == (runtime, "driver", "nvrtc")
    stream, memory = parts.Stream(non_blocking=True), parts.PinnedMemory(100, 2)
    assert (stream.ptr, memory.ptr) == (7, 8)
    stream.synchronize()
    del stream, memory
    given = [("create", 1), ("allocate", 100, 2), ("synchronize", 7), ("destroy", 7), ("free", 8)]
    assert calls == given


@pytest.mark.parametrize("given", [False, True])
def test_long_blocks_are_pinned_in_huge_pages(monkeypatch: pytest.MonkeyPatch, given: bool) -> None:
    """Where the system gives some: all of their bytes can be used, and they stay until CUDA has let them go."""
    monkeypatch.setattr(huge_pages, "are_given", lambda: given)
    calls: list[tuple[object, ...]] = []

    def unregister(address: int) -> None:
        assert ctypes.string_at(address, nbytes) == bytes(range(256)) * (nbytes // 256)
        calls.append(("unregister", address))

    runtime = SimpleNamespace(
        **dict.fromkeys(("streamCreateWithFlags", "streamSynchronize", "streamDestroy", "streamNonBlocking")),
        hostAlloc=lambda *given: calls.append(("allocate", *given)) or 8,
        freeHost=lambda address: calls.append(("free", address)),
        hostRegister=lambda *given: calls.append(("register", *given)),
        hostUnregister=unregister,
    )
    nbytes = 3 * huge_pages.PAGE_NBYTES
    memory = cupy_parts.parts_of(runtime, "driver", "nvrtc").cuda.PinnedMemory(nbytes, 2)
    at = memory.ptr
    if given:
        assert at % huge_pages.PAGE_NBYTES == 0
        ctypes.memmove(at, bytes(range(256)) * (nbytes // 256), nbytes)
    del memory
    assert calls == (
        [("register", at, nbytes, 2), ("unregister", at)]
        if given
        else [("allocate", nbytes, 2), ("free", at)]
    )


def test_memory_that_cuda_does_not_pin_is_allocated_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huge_pages, "are_given", lambda: True)
    freed: list[int] = []

    def refuse(*given: int) -> None:
        raise _RuntimeError(801)  # not supported

    runtime = SimpleNamespace(
        **dict.fromkeys(("streamCreateWithFlags", "streamSynchronize", "streamDestroy", "streamNonBlocking")),
        hostAlloc=lambda *given: 8,
        freeHost=freed.append,
        hostRegister=refuse,
        hostUnregister=refuse,
        CUDARuntimeError=_RuntimeError,
    )
    memory = cupy_parts.parts_of(runtime, "driver", "nvrtc").cuda.PinnedMemory(huge_pages.PAGE_NBYTES, 2)
    assert memory.ptr == 8
    del memory
    assert freed == [8]


@pytest.mark.parametrize(
    ("setting", "given"),
    [
        ("always [madvise] never", True),
        ("[always] madvise never", True),
        ("always madvise [never]", False),
        (None, False),
    ],
)
def test_whether_the_system_gives_huge_pages(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, setting: str | None, given: bool
) -> None:
    file = tmp_path / "enabled"
    if setting is not None:
        file.write_text(setting + "\n")
    monkeypatch.setattr(huge_pages, "_SETTING", file)
    assert huge_pages.are_given.__wrapped__() == given


def test_what_cuda_refuses_is_not_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pinned memory may run out: nothing is reported but the error."""

    def refuse(*given: int) -> int:
        raise _RuntimeError(2)

    runtime = SimpleNamespace(
        streamNonBlocking=1,
        streamCreateWithFlags=refuse,
        streamSynchronize=refuse,
        streamDestroy=refuse,
        hostAlloc=refuse,
        freeHost=refuse,
        hostRegister=refuse,
        hostUnregister=refuse,
        CUDARuntimeError=_RuntimeError,
    )
    monkeypatch.setattr(huge_pages, "are_given", lambda: True)
    parts, reported = cupy_parts.parts_of(runtime, "driver", "nvrtc").cuda, list[object]()
    monkeypatch.setattr("sys.unraisablehook", lambda what: reported.append(what.exc_type))
    for make in (
        lambda: parts.PinnedMemory(100, 2),
        lambda: parts.PinnedMemory(huge_pages.PAGE_NBYTES, 2),
        lambda: parts.Stream(non_blocking=True),
    ):
        with contextlib.suppress(_RuntimeError):
            make()
    assert reported == []


def test_cupy_has_the_parts_that_are_used() -> None:
    names = ("api.runtime", "api.driver", "libs.nvrtc")
    assert cupy_parts.parts_of(
        *(pytest.importorskip(f"cupy_backends.cuda.{name}", reason="CuPy is not installed") for name in names)
    )


@pytest.mark.parametrize("memory_is_there", [True, False])
@pytest.mark.parametrize(
    ("box", "at_once"),
    [
        (Box.contiguous(7, 9, 300), False),
        (Box.contiguous(7, 9, 300), True),  # of the shortest the driver copies before it returns
        (Box.contiguous(7, 9, 20_000), False),
        (Box((3, 5, 40), 11, (500, 60), 13, (200, 40)), False),  # packed on one side
        (Box((3, 5, 40), 11, (500, 60), 13, (400, 50)), False),
        (Box((2, 700, 8), 3, (9000, 12), 5, (8000, 11)), False),
    ],
)
def test_copies_from_and_to_the_host(
    monkeypatch: pytest.MonkeyPatch, box: Box, at_once: bool, memory_is_there: bool
) -> None:
    """Whichever way they go: at once, through pinned blocks, packed on the GPU, or row by row without memory for that."""
    monkeypatch.setattr(cuda_host_copies, "DIRECT_NBYTES", 1000)
    monkeypatch.setattr(cuda_host_copies, "AT_ONCE_NBYTES", 1000 if at_once else 0)
    monkeypatch.setattr(cuda_host_copies, "_PACKED_NBYTES", 4000)
    monkeypatch.setattr(cuda_host_copies, "_LEAST_PACKED_NBYTES", 1000)
    packed: list[Any] = []
    gpu, copies = _host_copies(packed, memory_is_there)
    host, memory = (np.random.default_rng(seed).integers(0, 256, 20_000 + 2048, np.uint8) for seed in (0, 1))
    expected = memory.copy()
    copy_box(host, expected, box)
    copies.write(memory.ctypes.data, host, box, box.nbytes)
    assert (memory == expected).all()
    back = np.zeros_like(host)
    expected = back.copy()
    copy_box(memory, expected, box.turned())
    done = copies.read(memory.ctypes.data, back, box.turned(), box.nbytes)
    assert (back == expected).all()
    assert done == (box.is_contiguous and box.nbytes < 1000)
    has_gaps = box.shape[0] > 1 and box.target_pitches != (200, 40)
    assert bool(packed) == (memory_is_there and has_gaps)
    assert gpu.lost is None


def _host_copies(packed: list[Any], memory_is_there: bool) -> tuple[Gpu, cuda_host_copies.HostCopies]:
    """Of a GPU whose memory is the host's; packed forms are added to `packed`."""

    def memcpy(target: int, source: int, nbytes: int, kind: int, stream: int) -> None:
        ctypes.memmove(target, source, nbytes)

    def malloc(nbytes: int, what: str) -> Any:
        if not memory_is_there:
            raise BackendError(MEM_OBJECT_ALLOCATION_FAILURE, what)
        packed.append(_PinnedMemory(nbytes, 0))
        return packed[-1]

    def copy(source: int, target: int, box: Box) -> None:
        for start, to, nbytes in box.rows():
            ctypes.memmove(target + to, source + start, nbytes)

    runtime = SimpleNamespace(hostAllocPortable=1, memcpyAsync=memcpy, CUDARuntimeError=_RuntimeError)
    cupy = SimpleNamespace(cuda=SimpleNamespace(PinnedMemory=_PinnedMemory, runtime=runtime))
    gpu = _gpu(_Driver())
    gpu._cupy, gpu.free_events = cupy, deque()
    staging = cuda_staging.Staging(cupy, gpu.driver, 2)
    return gpu, cuda_host_copies.HostCopies(gpu, staging, (1, 2), 0, malloc, copy)


class _RuntimeError(Exception):
    def __init__(self, status: int) -> None:
        self.status = status


class _Runtime:
    """Of two GPUs: whether they reach each other, and what enabling that answers."""

    CUDARuntimeError = _RuntimeError

    def __init__(self, reach: bool, status: int) -> None:
        self.reach, self.status, self.enabled = reach, status, 0

    def deviceCanAccessPeer(self, number: int, peer: int) -> bool:
        assert number != peer
        return self.reach

    def deviceEnablePeerAccess(self, peer: int) -> None:
        self.enabled += 1
        if self.status:
            raise _RuntimeError(self.status)


@pytest.mark.parametrize(
    ("reach", "status", "reached"),
    [
        (True, 0, True),
        (True, 704, True),  # already enabled: by another worker on this GPU, or by the program itself
        (True, 711, False),  # too many peers
        (False, 0, False),
    ],
)
def test_peers_are_asked_for_access_once(reach: bool, status: int, reached: bool) -> None:
    made, peer = (cuda.CudaBackend.__new__(cuda.CudaBackend) for _ in range(2))
    made.number, peer.number, made._reached = 0, 1, {0: True}
    runtime = _Runtime(reach, status)
    made._cupy = SimpleNamespace(cuda=SimpleNamespace(runtime=runtime))
    assert [made.reaches(peer) for _ in range(2)] == [reached] * 2
    assert runtime.enabled == reach


def test_cupy_has_every_name_that_is_used_of_its_runtime() -> None:
    runtime = pytest.importorskip("cupy.cuda.runtime", reason="CuPy is not installed")
    folder = Path(cuda.__file__).parent
    used = {
        name
        for path in folder.glob("*.py")
        for name in re.findall(r"\bruntime\.(\w+)", path.read_text(encoding="utf-8"))
    }
    assert used
    assert [name for name in sorted(used) if not hasattr(runtime, name)] == []


@pytest.mark.parametrize(("result", "status"), [(2, MEM_OBJECT_ALLOCATION_FAILURE), (700, OUT_OF_RESOURCES)])
def test_missing_memory_is_told_apart_from_a_failed_gpu(
    result: int, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    def error(result: int, text: str) -> BackendError:
        return BackendError(
            {2: MEM_OBJECT_ALLOCATION_FAILURE}.get(result, OUT_OF_RESOURCES), f"{text}: {result}"
        )

    asked: list[int] = []

    def take(nbytes: int, managed: bool = False) -> tuple[int, int]:
        asked.append(nbytes)
        return result, 0

    made = cuda.CudaBackend.__new__(cuda.CudaBackend)
    made.number, made.counters = 0, Counters()
    made.driver = SimpleNamespace(take_memory=take, error=error)  # type: ignore[assignment]
    made._pool = cuda_pool.Pool(made._take, made._give)
    kept: list[int] = []
    made._gpu = _gpu(made.driver)
    made._gpu.at_loss = lambda: kept.append(1)
    for _ in range(3):
        with pytest.raises(BackendError) as caught:
            made.allocate(5)
        assert caught.value.status == status
    assert made.counters.allocations == 0
    told = [record.message for record in caplog.records if "is lost" in record.message]
    assert len(told) == len(kept) == (result == 700), "one message, and only for what nothing survives"
    assert len(asked) == (6 if result == 2 else 1), "a GPU that is lost is asked for nothing"
