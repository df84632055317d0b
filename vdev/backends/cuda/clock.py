"""A GPU's clock on the host's: when its events were, in nanoseconds of `time.perf_counter_ns`.

Decides how often the two are compared.
"""

from __future__ import annotations

import ctypes
import time
from typing import Any

from vdev.backends.cuda.driver import Driver

#: Time between two comparisons of the clocks: CUDA gives the distance of two events in milliseconds as a 32-bit
#: float, which is then within 0.1 us.
_REBASE_NS = 1_000_000_000


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
        """Compare both clocks.

        On the worker's thread, about once a second: CUDA gives the distance of two events as a float of 32 bits.
        """
        driver = self._driver
        event = self._bases[self._base[0] == self._bases[0]]  # the other event may be in use
        for _ in range(2):  # the first attempt may wake the device
            before = time.perf_counter_ns()
            driver.check(driver.event_record(event, self._stream.ptr), "clock")
            self._synchronize(event)
            after = time.perf_counter_ns()
        self._base = (event, (before + after) // 2)
        self.due = after + _REBASE_NS

    def read(self, event: int) -> int:
        """When a completed event took place."""
        while True:
            base = self._base
            result, elapsed = self._between(base[0], event)
            if self._base is base:  # otherwise it may have been recorded anew meanwhile
                self._driver.check(result, "time of an event")
                return base[1] + elapsed

    def span(self, first: int, last: int) -> tuple[int, int]:
        """When what lies between two completed events began and ended.

        What it took is told by the GPU alone: were both events read by themselves, a comparison of the clocks in between would change it.
        """
        began = self.read(first)
        result, elapsed = self._between(first, last)
        self._driver.check(result, "time of an event")
        return began, began + max(0, elapsed)

    def _between(self, first: int, last: int) -> tuple[int, int]:
        """What the driver returned, and the nanoseconds from one event to the other."""
        elapsed = ctypes.c_float()
        result = self._driver.event_elapsed(ctypes.byref(elapsed), first, last)
        return result, int(elapsed.value * 1e6)
