"""Transfers of CUDA workers through pinned memory, how that is got, and the parts of CuPy that are used (`cuda_memory`)."""

from __future__ import annotations

import contextlib
import ctypes
import re
import threading
from collections import deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from vdev.backends.base import Box, Counters, copy_box
from vdev.backends.cuda import (
    backend as cuda,
)
from vdev.backends.cuda import (
    cupy_parts,
    huge_pages,
)
from vdev.backends.cuda import host_copies as cuda_host_copies
from vdev.backends.cuda import (
    pool as cuda_pool,
)
from vdev.backends.cuda import (
    staging as cuda_staging,
)
from vdev.backends.cuda.gpu import Gpu
from vdev.errors import MEM_OBJECT_ALLOCATION_FAILURE, OUT_OF_RESOURCES, BackendError

from .cuda_memory import (
    Driver,
    Pinned,
    gpu_without_cuda,
)


@pytest.mark.parametrize(("nbytes", "takers"), [(1, 1), (4097, 1), (40_000, 2), (70_001, 4), (500_000, 8)])
def test_transfers_through_pinned_blocks(monkeypatch: pytest.MonkeyPatch, nbytes: int, takers: int) -> None:
    for name, value in (("BLOCK_NBYTES", 8192), ("PIECE_NBYTES", 4096), ("THREAD_NBYTES", 16384)):
        monkeypatch.setattr(cuda_staging, name, value)
    monkeypatch.setattr("os.cpu_count", lambda: 22)
    driver = Driver()
    runtime = SimpleNamespace(hostAllocPortable=1)
    cupy = SimpleNamespace(cuda=SimpleNamespace(PinnedMemory=Pinned, runtime=runtime))
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
    cupy = SimpleNamespace(cuda=SimpleNamespace(PinnedMemory=Pinned, runtime=runtime))
    staging = cuda_staging.Staging(cupy, Driver(), gpus)  # type: ignore[arg-type]
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

        class PinnedMemory(Pinned):
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
    staging = cuda_staging.Staging(cupy, Driver(), 1)  # type: ignore[arg-type]
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
    staging = cuda_staging.Staging(cupy, Driver(), 1)  # type: ignore[arg-type]
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

    class PinnedMemory(Pinned):
        def __init__(self, nbytes: int, flags: int) -> None:
            made.append(threading.current_thread().name)
            super().__init__(nbytes, flags)

    runtime = SimpleNamespace(hostAllocPortable=1, CUDARuntimeError=_RuntimeError)
    cupy = SimpleNamespace(cuda=SimpleNamespace(PinnedMemory=PinnedMemory, runtime=runtime))
    staging = cuda_staging.Staging(cupy, Driver(), 1)  # type: ignore[arg-type]
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
        packed.append(Pinned(nbytes, 0))
        return packed[-1]

    def copy(source: int, target: int, box: Box) -> None:
        for start, to, nbytes in box.rows():
            ctypes.memmove(target + to, source + start, nbytes)

    runtime = SimpleNamespace(hostAllocPortable=1, memcpyAsync=memcpy, CUDARuntimeError=_RuntimeError)
    cupy = SimpleNamespace(cuda=SimpleNamespace(PinnedMemory=Pinned, runtime=runtime))
    gpu = gpu_without_cuda(Driver())
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
    made._gpu = gpu_without_cuda(made.driver)
    made._gpu.at_loss = lambda: kept.append(1)
    for _ in range(3):
        with pytest.raises(BackendError) as caught:
            made.allocate(5)
        assert caught.value.status == status
    assert made.counters.allocations == 0
    told = [record.message for record in caplog.records if "is lost" in record.message]
    assert len(told) == len(kept) == (result == 700), "one message, and only for what nothing survives"
    assert len(asked) == (6 if result == 2 else 1), "a GPU that is lost is asked for nothing"
