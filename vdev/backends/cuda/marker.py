"""How far a CUDA worker has got: events as markers.

The GPU's `clock` tells when it got there. Decides nothing about what is waited for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vdev.backends.base import Marker, Times
from vdev.backends.cuda.errors import ERROR_NOT_READY, SUCCESS
from vdev.errors import BackendError

if TYPE_CHECKING:
    from vdev.backends.cuda.gpu import Gpu


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

    @property
    def is_known_to_be_done(self) -> bool:
        """The same as `done`, without asking the device."""
        return self._done

    def done(self) -> bool:
        if not self._done:
            result = self._gpu.driver.event_query(self.event)
            self._done = result == SUCCESS  # `wait` reports failures
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


class Moment:
    """An event that tells when a stream had got somewhere."""

    __slots__ = ("_gpu", "event")

    def __init__(self, gpu: Gpu, event: int) -> None:
        self._gpu = gpu
        self.event = event

    def read(self) -> int:
        """When that was, once it was there; 0 where the GPU does not tell."""
        try:
            return self._gpu.clock.read(self.event)
        except BackendError:
            return 0

    def __del__(self) -> None:
        self._gpu.free_events.append(self.event)
