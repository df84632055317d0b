"""How far a CUDA worker is, and when: events as markers, and the GPU's clock on the host's.

Decides nothing about what is waited for.
"""

from __future__ import annotations

import ctypes
import time
from typing import TYPE_CHECKING, Any

from vdev.backends.base import Marker, Times
from vdev.backends.cuda.driver import Driver
from vdev.backends.cuda.errors import ERROR_NOT_READY, SUCCESS
from vdev.errors import BackendError

if TYPE_CHECKING:
    from vdev.backends.cuda.gpu import Gpu

#: Between two looks at both clocks: CUDA tells the distance of two events in milliseconds as a 32-bit float,
#: which then errs by less than 0.1 us.
_REBASE_NS = 1_000_000_000


class CudaMarker(Marker):
    """An event behind the work, and one before it."""

    __slots__ = ("_done", "_failure", "_gpu", "event", "first")

    def __init__(self, gpu: Gpu, first: int, event: int, failure: BackendError | None) -> None:
        self._gpu = gpu
        self.first = first
        self.event = event
        self._failure = failure
        self._done = failure is not None and not event

    def wait(self) -> None:
        if not self._done:
            driver = self._gpu.driver
            result = driver.event_query(self.event)
            if result == ERROR_NOT_READY:
                result = driver.event_synchronize(self.event)
            if result and self._failure is None:
                self._failure = self._gpu.error(result, "work failed on the device")
            self._done = True
        if self._failure is not None:
            raise self._failure

    def done(self) -> bool:
        if not self._done:
            result = self._gpu.driver.event_query(self.event)
            self._done = result == SUCCESS  # a failure is for `wait` to tell
            return bool(result != ERROR_NOT_READY)
        return True

    def times(self) -> Times | None:
        if not self.first or self._failure is not None:
            return None
        start, end = self._gpu.clock.read(self.first), self._gpu.clock.read(self.event)
        return start, start, start, max(start, end)

    def __del__(self) -> None:
        free = self._gpu.free_events
        free.extend(event for event in (self.event, self.first) if event)


class Clock:
    """Events as nanoseconds of the host's time.perf_counter_ns."""

    def __init__(self, cupy: Any, driver: Driver) -> None:
        self._driver = driver
        self._stream = cupy.cuda.Stream(non_blocking=True)
        self._bases = (driver.new_event(), driver.new_event())
        self._synchronize = cupy.cuda.runtime.eventSynchronize
        self._base = (self._bases[0], 0)
        self.due = 0  #: when the next `rebase` is due, by the host's clock
        self.rebase()

    def rebase(self) -> None:
        """Look at both clocks. On the worker's thread, about once a second: what CUDA tells of the distance
        of two events is a float of 32 bits.
        """
        driver = self._driver
        event = self._bases[self._base[0] == self._bases[0]]  # the other one may be in use
        for _ in range(2):  # the first trip may wake the device
            before = time.perf_counter_ns()
            driver.check(driver.event_record(event, self._stream.ptr), "clock")
            self._synchronize(event)
            after = time.perf_counter_ns()
        self._base = (event, (before + after) // 2)
        self.due = after + _REBASE_NS

    def read(self, event: int) -> int:
        """When a completed event took place."""
        base, base_ns = self._base
        elapsed = ctypes.c_float()
        self._driver.check(self._driver.event_elapsed(ctypes.byref(elapsed), base, event), "time of an event")
        return base_ns + int(elapsed.value * 1e6)
