"""CUDA workers for tests of copies, fills and merges: host memory in the place of a GPU's, and our kernels in NumPy.

What the driver would do is done at once; whether the kernels themselves compute this, a GPU has to show.
"""

from __future__ import annotations

import ctypes
from collections import deque
from types import SimpleNamespace
from typing import Any

import numpy as np

from vdev.backends.base import Counters
from vdev.backends.cuda import (
    backend as cuda,
)
from vdev.backends.cuda import driver as cuda_driver
from vdev.backends.cuda import (
    kernels as cuda_kernels,
)
from vdev.backends.cuda import (
    launch as cuda_launch,
)
from vdev.backends.cuda.gpu import Gpu
from vdev.backends.cuda.own_kernels import OwnKernels
from vdev.backends.reference import combine
from vdev.errors import BackendError

NBYTES = 1024  # of an allocation: more than any box below takes
UNSIGNED = {1: "u1", 2: "u2", 4: "u4", 8: "u8", 16: "V16"}


def memory_at(address: int, count: int, dtype: str) -> Any:
    nbytes = count * np.dtype(dtype).itemsize
    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address)).view(dtype)


class Driver:
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
        memory_at(address, count, "u1")[:] = value
        return 0

    def fill_2(self, address: int, value: int, count: int, stream: int) -> int:
        memory_at(address, count, "u2")[:] = value
        return 0

    def fill_4(self, address: int, value: int, count: int, stream: int) -> int:
        memory_at(address, count, "u4")[:] = value
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
            memory_at(address, total, "u1")[:] = np.resize(
                np.frombuffer(parameters[24 : 24 + length], "u1"), total
            )
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
                    and (
                        memory_at(stage + low, high - low, "u1") != memory_at(twin + low, high - low, "u1")
                    ).any()
                ):
                    memory_at(target + low, high - low, "u1")[:] = memory_at(stage + low, high - low, "u1")

    def _merge(
        self, name: str, target: int, stage: int, twin: int, width: int, stride: int, total: int
    ) -> None:
        dtype = UNSIGNED[int(name.removeprefix("merge_diff_u"))]
        for row in range(total // width):
            at = row * stride * np.dtype(dtype).itemsize
            into, new, old = (memory_at(memory + at, width, dtype) for memory in (target, stage, twin))
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
                    memory_at(target + at, width, dtype).view("u1"),
                    memory_at(part + at, width, dtype).view("u1"),
                    op,
                    dtype,
                )


class Memory:
    """What CuPy's pool would give."""

    def __init__(self, seed: int) -> None:
        self.array = np.zeros(NBYTES + 128, np.uint8)
        start = -self.array.ctypes.data % 128
        self.bytes = self.array[start : start + NBYTES]
        self.bytes[:] = np.random.default_rng(seed).integers(0, 4, NBYTES)
        self.ptr = self.bytes.ctypes.data


class _Info:
    compute_units = 4


def gpu_without_cuda(driver: Any) -> Gpu:
    """A GPU without CUDA."""
    made = object.__new__(Gpu)
    made.driver, made.number, made.lost, made.held_at_loss = driver, 0, None, ()
    made.clock = SimpleNamespace(due=1 << 62)  # type: ignore[assignment]
    return made


def make_backend() -> cuda.CudaBackend:
    """Such a worker, with `Driver` in the place of CUDA."""
    made = cuda.CudaBackend.__new__(cuda.CudaBackend)
    made.driver = Driver()  # type: ignore[assignment]
    made.counters = Counters()
    made.info = _Info()  # type: ignore[assignment]
    made._gpu = gpu_without_cuda(made.driver)
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


def allocation(seed: int) -> tuple[cuda_launch.CudaAllocation, Any]:
    memory = Memory(seed)
    return cuda_launch.CudaAllocation(memory, NBYTES), memory.bytes


class Pinned:
    def __init__(self, nbytes: int, flags: int) -> None:
        self.array = np.zeros(nbytes, np.uint8)
        self.ptr = self.array.ctypes.data
