"""One GPU as its worker calls it: every result of the driver is checked, and an error that the GPU does not survive
is reported once.

Decides what a failure means for everything after it, never what is called.
"""

from __future__ import annotations

import ctypes
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from vdev.backends.cuda.clock import Clock
from vdev.backends.cuda.driver import Driver
from vdev.backends.cuda.errors import FATAL
from vdev.errors import OUT_OF_RESOURCES, BackendError

logger = logging.getLogger("vdev.cuda")


class Gpu:
    """GPU `number` through CuPy's runtime and the driver, with events for its streams and its clock."""

    def __init__(self, cupy: Any, driver: Driver, number: int) -> None:
        self._cupy = cupy
        self.driver = driver
        self.number = number
        self.clock = Clock(cupy, driver)
        #: events that nobody waits for
        self.free_events: deque[int] = deque()
        #: the error that it has not survived
        self.lost: BackendError | None = None
        #: what is called then, and the objects whose finalisers must no longer call the driver
        self.at_loss: Callable[[], None] = lambda: None
        self.held_at_loss: Sequence[object] = ()

    def check_live(self) -> None:
        """Raise the error that this GPU has not survived, if there is one."""
        if self.lost is not None:
            raise BackendError(self.lost.status, self.lost.text)

    def error(self, result: int, text: str) -> BackendError:
        """The BackendError of a CUresult; the first that the GPU does not survive is logged, once."""
        found = self.driver.error(result, text)
        self._note(result, found)
        return found

    def check(self, result: int, text: str) -> None:
        """Raise the BackendError of a CUresult, if it is an error."""
        if result:
            raise self.error(result, text)

    def guarded(self, call: Callable[[], Any]) -> None:
        """Call a function of CUDA's runtime; BackendError if that fails."""
        try:
            call()
        except self._cupy.cuda.runtime.CUDARuntimeError as error:
            found = BackendError(OUT_OF_RESOURCES, str(error))
            self._note(error.status, found)
            raise found from error

    def copy_waiting(self, target: int, source: int, nbytes: int, kind: int, stream: int) -> None:
        """Copy as CuPy does, letting other threads run meanwhile; `kind`: cudaMemcpyKind."""
        self.guarded(lambda: self._cupy.cuda.runtime.memcpyAsync(target, source, nbytes, kind, stream))

    def _note(self, result: int, error: BackendError) -> None:
        """Remember an error that the GPU does not survive. Nothing more is asked of the GPU: each call would fail, in
        finalisers with a message of its own.
        """
        if result not in FATAL or self.lost is not None:
            return
        self.lost = error
        logger.error(
            "GPU %d is lost until this process ends: %s (%s). Its commands will fail from now on",
            self.number,
            FATAL[result],
            error.text,
        )
        self.at_loss()
        for held in (*self.held_at_loss, self.clock):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(held))

    def recorded(self, stream: int, text: str = "event") -> int:
        """An unused event, recorded behind everything that is on the stream."""
        try:
            event = self.free_events.popleft()
        except IndexError:
            event = self.driver.new_event()
        result = self.driver.event_record(event, stream)
        if result:
            raise self.error(result, text)
        return event

    def order(self, later: int, earlier: int) -> None:
        """Make what follows on one stream wait for what is on another."""
        event = self.recorded(earlier)
        if self.driver.stream_wait(later, event, 0):
            # Refused. What is on its way must not land behind what comes later.
            self.check(self.driver.stream_synchronize(earlier), "order of streams")
        self.free_events.append(event)  # a wait keeps what it waits for, whatever happens to the event
