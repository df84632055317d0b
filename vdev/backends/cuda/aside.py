"""Launches aside on one GPU: on a stream of their own, beside the worker's transfers and its other launches.

Decides what keeps the two streams in order: a launch aside starts behind all that is on the worker's stream, and a *join* lets what
comes later there start behind all launches aside. Where the worker's stream is more urgent, transfers begin as soon as any work-group of
the launch aside ends, and not when its last ones have begun.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Any

from vdev.backends.call_lists import DriverCall
from vdev.backends.cuda.driver import Driver
from vdev.backends.cuda.gpu import Gpu
from vdev.process import switches

logger = logging.getLogger("vdev.cuda")

#: of the streams that launches aside shall not hold up: lower numbers are more urgent, and 0 is every stream's otherwise
_URGENT = -1


def new_stream(cupy: Any) -> Any:
    """The stream of a worker. In the calling thread's context."""
    if switches.interiors() is not False:
        try:
            return cupy.cuda.Stream(non_blocking=True, priority=_URGENT)
        except (AttributeError, TypeError) as error:  # CuPy's older versions know no priorities
            logger.info("what is launched aside is as urgent as everything else: %s", error)
    return cupy.cuda.Stream(non_blocking=True)


class Aside:
    """The stream beside a worker's. Made in the GPU's context."""

    __slots__ = ("_begun", "_driver", "_gpu", "_joined", "_main", "native", "stream")

    def __init__(self, cupy: Any, gpu: Gpu, driver: Driver, main: int) -> None:
        self._gpu, self._driver, self._main = gpu, driver, main
        self.native = cupy.cuda.Stream(non_blocking=True)
        self.stream: int = self.native.ptr
        #: where the worker's stream was at the last launch aside, and this one at the last join
        self._begun, self._joined = driver.new_event(), driver.new_event()

    def opening(self) -> Sequence[DriverCall]:
        """Calls after which launches come behind all that is on the worker's stream."""
        driver = self._driver
        return (
            partial(driver.event_record, self._begun, self._main),
            partial(driver.stream_wait, self.stream, self._begun, 0),
        )

    def joining(self) -> Sequence[DriverCall]:
        """Calls after which what is handed over to the worker's stream comes behind all launches aside."""
        driver = self._driver
        return (
            partial(driver.event_record, self._joined, self.stream),
            partial(driver.stream_wait, self._main, self._joined, 0),
        )

    def join(self) -> None:
        """Make them; where one is refused, wait here. BackendError if that is refused as well."""
        if any(call() for call in self.joining()):
            self._gpu.check(self._driver.stream_synchronize(self.stream), "a launch aside")

    def is_through(self) -> bool:
        """Wait for all launches aside: whether that was possible."""
        return not self._driver.stream_synchronize(self.stream)
