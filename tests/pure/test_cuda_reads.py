"""Small reads and writes of CUDA workers, made again as they were, and what they arrive in (`cuda_memory`)."""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Iterator
from functools import partial
from itertools import islice
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from vdev.backends.cuda import (
    backend as cuda,
)
from vdev.backends.cuda import (
    landing as cuda_landing,
)
from vdev.backends.cuda.errors import ERROR_NOT_READY
from vdev.backends.cuda.marker import CudaMarker
from vdev.errors import BackendError

from .cuda_memory import (
    Driver,
    Pinned,
    allocation,
    gpu_without_cuda,
    make_backend,
)


@pytest.fixture(scope="module")
def backend() -> cuda.CudaBackend:
    return make_backend()


class _DriverLater(Driver):
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
) -> tuple[_DriverLater, list[Pinned]]:
    """The back end on such a driver, and the pinned memory that it takes."""
    driver, made = _DriverLater(), []
    monkeypatch.setattr(backend, "driver", driver)
    monkeypatch.setattr(backend, "_first", 7)  # an event that is there since the marker
    monkeypatch.setattr(backend, "_synchronize", lambda: driver.stream_synchronize(0), raising=False)
    monkeypatch.setattr(backend, "_query", lambda: driver.query_assembled(ctypes.c_void_p()), raising=False)
    monkeypatch.setattr(backend, "visitor", lambda: lambda: None)
    monkeypatch.setattr(backend, "context", _CONTEXT, raising=False)
    runtime = SimpleNamespace(hostAllocPortable=1)

    def pinned(nbytes: int, flags: int) -> Pinned:
        made.append(Pinned(nbytes, flags))
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
    source, memory = allocation(3)
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
            assert driver.calls == ["copy", *["look"] * cuda._LOOKS]
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


@pytest.fixture
def kernels_are_there(backend: cuda.CudaBackend, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Nothing is compiled, nor beside the program; the kernels that were."""
    compiled: list[str] = []
    monkeypatch.setattr(backend, "_own_cubin", compiled.append)
    monkeypatch.setattr(cuda, "compilers", SimpleNamespace(begin=lambda piece: piece()))
    monkeypatch.setattr(backend, "_compiled", {}, raising=False)
    return compiled


def _reads(backend: cuda.CudaBackend, driver: _DriverLater, start: int, nbytes: int) -> Iterator[str]:
    """Reads made again, checked: which way each went. `looks` is what the driver says of the copy engine; a kernel is there at once."""
    source, memory = allocation(3)
    begin, end = backend.read_again(source, start, nbytes)
    looks = driver.looks
    while True:
        memory += 1
        target = np.zeros(nbytes, np.uint8)
        driver.calls.clear()
        driver.looks = looks
        begin()
        way = "copy" if "copy" in driver.calls else "kernel"
        driver.looks = looks if way == "copy" else 0
        deliver = end(target)
        if deliver is not None:
            assert backend.wait_for_all()
            deliver(target, 0)
        assert (target == memory[start : start + nbytes]).all()
        yield way


@pytest.mark.parametrize(
    ("start", "nbytes", "kernel"), [(16, 64, "copy_u16"), (4, 4, "copy_u4"), (11, 40, "copy_u1")]
)
def test_small_reads_behind_kernels_come_by_a_kernel(
    backend: cuda.CudaBackend,
    monkeypatch: pytest.MonkeyPatch,
    kernels_are_there: list[str],
    start: int,
    nbytes: int,
    kernel: str,
) -> None:
    driver, _ = _landing_later(backend, monkeypatch)
    for looks, expected in ((2, {"copy"}), (12, {"copy", "kernel"}), (1000, {"copy", "kernel"})):
        driver.looks = looks
        ways = list(islice(_reads(backend, driver, start, nbytes), 40))
        assert set(ways) == expected
        assert ways[-1] == sorted(expected)[-1], "it stays there"
    assert kernels_are_there == [kernel], "compiled once, and nothing for reads that are there soon"


def test_longer_reads_are_left_to_the_copy_engine(
    backend: cuda.CudaBackend, monkeypatch: pytest.MonkeyPatch, kernels_are_there: list[str]
) -> None:
    driver, _ = _landing_later(backend, monkeypatch)
    monkeypatch.setattr(cuda, "MOST_NBYTES", 63)
    driver.looks = 12
    assert set(islice(_reads(backend, driver, 16, 64), 40)) == {"copy"}
    assert kernels_are_there == []


def test_a_small_write_made_again_takes_what_the_array_holds(
    backend: cuda.CudaBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, _ = _landing_later(backend, monkeypatch)
    target, memory = allocation(3)
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
    source, memory = allocation(3)
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
    source, memory = allocation(3)
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
    source, memory = allocation(3)
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
    peer, waited = Driver(), list[int]()
    monkeypatch.setattr(peer, "event_query", lambda event: ERROR_NOT_READY)
    monkeypatch.setattr(
        peer, "event_synchronize", lambda event: waited.append(event) or 5 * fails, raising=False
    )
    marker = CudaMarker(gpu_without_cuda(peer), 0, 7, None)
    marker._gpu.free_events = deque()
    backend.order_after(marker)
    assert waited == []
    monkeypatch.setattr(backend.driver, "stream_wait", lambda stream, event, flags: 2)
    backend.order_after(marker)
    assert waited == [7]


def test_streams_are_ordered_here_where_the_driver_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    driver, waited = Driver(), list[int]()
    gpu = gpu_without_cuda(driver)
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
    source, memory = allocation(3)
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
    source, memory = allocation(3)
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
    source, memory = allocation(3)
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
    source, _ = allocation(3)
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
