"""The parts of CUDA workers for tests that need no GPU: a program, and a back end whose driver notes what it is called with."""

from __future__ import annotations

import ctypes
from collections import deque
from types import SimpleNamespace
from typing import Any

from vdev.translators.frontend.source import Target
from vdev.translators.ranges.ndrange import Chunk, NDRange

from vdev.backends.base import Counters, LaunchShape
from vdev.backends.cuda import (
    driver as cuda_driver,
)
from vdev.backends.cuda.backend import CudaBackend
from vdev.backends.cuda.errors import ERROR_NOT_READY, SUCCESS
from vdev.backends.cuda.gpu import Gpu
from vdev.errors import BackendError

TARGET = Target(extensions=("cl_khr_fp64",), opencl_version=300, c_version=120)
SOURCE = "kernel void f(global float *a, local float *t, int n) { t[0] = n; a[get_global_id(0)] = t[0]; }"


def launch_shape(ndrange: NDRange, chunk: Chunk, hidden: bytes | None, shift: int = 64) -> LaunchShape:
    return LaunchShape(
        ndrange,
        chunk,
        chunk.global_size(ndrange),
        ndrange.local_size,
        chunk.first(ndrange),
        ((0, shift),),
        hidden,
    )


class Driver:
    """Notes launches and contexts, as integers."""

    def __init__(self) -> None:
        self.current, self.result, self.busy = 0, 0, False
        self.recorded = 0  #: events
        self.launched: list[list[int]] = []
        self.contexts: list[int] = []
        self.launches_in: int | None = None  # in this context only

    def parameters(self, function: int, count: int) -> list[tuple[int, int]]:
        return [(8 * index, 8) for index in range(count - 1)] + [(8 * (count - 1), 256)]

    starting = cuda_driver.Driver.starting

    def _launch(self, place: Any, function: Any, parameters: Any, extra: Any) -> int:
        """Noted as cuLaunchKernel would be called."""
        if self.launches_in not in (None, self.current):
            return 400 if self.current else 201
        config = cuda_driver.LaunchConfig.from_address(place.value)
        sizes = (*config.groups, *config.work_items, config.shared_nbytes)
        assert not config.attributes
        assert not config.attribute_count
        handles = (config.stream or 0, parameters.value or 0, extra.value)
        self.launched.append([function.value, *sizes, *handles])
        return self.result

    def event_record(self, event: int, stream: int) -> int:
        self.recorded += 1
        return 0

    def event_query(self, event: int) -> int:
        return ERROR_NOT_READY if self.busy else SUCCESS

    def new_event(self) -> int:
        return 5

    def context(self) -> int:
        return self.current

    visitor = cuda_driver.Driver.visitor

    def _ask_context(self, place: Any) -> int:
        ctypes.c_void_p.from_address(place.value).value = self.current
        return 0

    def set_context(self, context: int) -> int:
        self.current = context
        self.contexts.append(context)
        return 0

    def error(self, result: int, text: str) -> BackendError:
        return BackendError(-5, f"{text}: {result}")


class Loaded:
    def __init__(self, threads: int) -> None:
        self.threads = threads

    def attribute(self, function: int, number: int) -> int:
        return self.threads


def cuda_without_a_gpu(number: int = 0) -> tuple[Any, Driver]:
    """A CUDA back end without CUDA."""
    backend = object.__new__(CudaBackend)
    backend.driver = driver = Driver()  # type: ignore[assignment]
    backend.number, backend.context, backend.stream = number, 0x7F00_1234_5678, 0x7F00_0000_0077
    backend.counters = Counters()
    backend._gpu = gpu = object.__new__(Gpu)
    gpu.driver, gpu.number, gpu.free_events, gpu.lost = driver, number, deque(), None  # type: ignore[assignment]
    gpu.at_loss, gpu.held_at_loss, gpu.clock = lambda: None, (), None  # type: ignore[assignment]
    backend._first = backend._count = 0
    backend._fetches, backend._lost = [], None
    backend._modules = SimpleNamespace()  # type: ignore[assignment]
    backend._modules.with_full_groups = lambda kernel: kernel.largest  # type: ignore[method-assign]
    backend._sparse = SimpleNamespace(let_go=lambda marker: None)  # type: ignore[assignment]
    backend._let_go_behind_markers = ()  # type: ignore[assignment]
    return backend, driver
