"""The back end of the worker that works on host memory: everything is done when the call returns, and there
is no device memory.
"""

from __future__ import annotations

import time

from vdev.backends.base import (
    Allocation,
    Backend,
    BackendProgram,
    Box,
    BuildResult,
    Bytes,
    Counters,
    KernelArgument,
    LaunchShape,
    Marker,
    Times,
    WorkerInfo,
)
from vdev.errors import BackendError


class HostMarker(Marker):
    __slots__ = ("_times",)

    def __init__(self, times: Times) -> None:
        self._times = times

    def wait(self) -> None:
        return

    def done(self) -> bool:
        return True

    def times(self) -> Times | None:
        return self._times


class HostBackend(Backend):
    """Orders the host's work after the workers' by waiting. The host's steps work on NumPy arrays and need nothing
    else from it.
    """

    def __init__(self) -> None:
        self.counters = Counters()
        self.info = WorkerInfo("host", "host memory", ("host",), 0, 0, 0, 0, (), 0, 1)
        self._since = time.perf_counter_ns()

    def order_after(self, marker: Marker) -> None:
        try:
            marker.wait()
        except BackendError:
            return  # the worker reports it, before any command that waited for this one settles

    def pending(self) -> int:
        return 0

    def record(self) -> Marker:
        since, self._since = self._since, time.perf_counter_ns()
        return HostMarker((since, since, since, self._since))

    def close(self) -> None:
        return

    def _refuse(self) -> TypeError:
        return TypeError("host memory is not a device's")

    def allocate(self, nbytes: int) -> Allocation:
        raise self._refuse()

    def free(self, allocation: Allocation) -> None:
        raise self._refuse()

    def write(self, target: Allocation, source: Bytes, box: Box) -> None:
        raise self._refuse()

    def read(self, source: Allocation, target: Bytes, box: Box) -> bool:
        raise self._refuse()

    def copy(self, source: Allocation, target: Allocation, box: Box) -> None:
        raise self._refuse()

    def copy_from_peer(self, peer: Backend, source: Allocation, target: Allocation, box: Box) -> None:
        raise self._refuse()

    def fill(self, target: Allocation, start: int, nbytes: int, pattern: bytes) -> None:
        raise self._refuse()

    def build(self, program: BackendProgram) -> BuildResult:
        raise self._refuse()

    def kernel(self, program: BackendProgram, name: str) -> object:
        raise self._refuse()

    def launch(self, kernel: object, args: list[KernelArgument], shape: LaunchShape) -> None:
        raise self._refuse()
