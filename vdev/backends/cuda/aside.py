"""Work aside on one GPU: on a stream of its own, beside what is on the worker's.

Decides what keeps the two streams in order: work aside begins behind all that is on the worker's stream when it is opened, and what comes
to the worker's stream later begins behind all work aside once it is closed. It is more urgent than the worker's own: where it is few
work-groups that others wait for, they begin as soon as any of the worker's end, and not when the last ones have begun.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Any

from vdev.backends.call_lists import DriverCall
from vdev.backends.cuda.driver import Driver

logger = logging.getLogger("vdev.cuda")

#: lower numbers are more urgent, and 0 is every other stream's
_URGENT = -1


def _urgent_stream(cupy: Any) -> Any:
    """In the calling thread's context."""
    try:
        return cupy.cuda.Stream(non_blocking=True, priority=_URGENT)
    except (AttributeError, TypeError) as error:  # CuPy's older versions know no priorities
        logger.info("work aside is as urgent as everything else: %s", error)
    return cupy.cuda.Stream(non_blocking=True)


class Aside:
    """The stream beside a worker's. Made in the GPU's context."""

    __slots__ = ("_driver", "_ended", "_main", "_opened", "native", "stream")

    def __init__(self, cupy: Any, driver: Driver, main: int) -> None:
        self._driver, self._main = driver, main
        self.native = _urgent_stream(cupy)
        self.stream: int = self.native.ptr
        #: where the worker's stream was when this one was opened last, and this one when it was closed
        self._opened, self._ended = driver.new_event(), driver.new_event()

    def opening(self) -> Sequence[DriverCall]:
        """Calls after which work aside comes behind all that is on the worker's stream."""
        driver = self._driver
        return (
            partial(driver.event_record, self._opened, self._main),
            partial(driver.stream_wait, self.stream, self._opened, 0),
        )

    def closing(self) -> Sequence[DriverCall]:
        """Calls after which what is handed over to the worker's stream comes behind all work aside."""
        driver = self._driver
        return (
            partial(driver.event_record, self._ended, self.stream),
            partial(driver.stream_wait, self._main, self._ended, 0),
        )

    def open(self) -> None:
        """Make the calls of `opening`; where one is refused, wait here."""
        if any(call() for call in self.opening()):
            self.settle(opened=False)

    def close(self) -> None:
        """Make those of `closing`; where one is refused, wait here."""
        if any(call() for call in self.closing()):
            self.settle(opened=True)

    def settle(self, *, opened: bool) -> bool:
        """A call of `opening`, or, where it is `opened`, of `closing` was refused: wait for what it is about. Whether that was possible: if
        not, the GPU takes no more work, which whoever handed some over reports.
        """
        return not self._driver.stream_synchronize(self.stream if opened else self._main)
