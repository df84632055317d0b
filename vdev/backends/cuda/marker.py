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
        start, end = self._gpu.clock.span(self.first, self.event)
        return start, start, start, end

    def __del__(self) -> None:
        free = self._gpu.free_events
        free.extend(event for event in (self.event, self.first) if event)


class Moment:
    """An event that tells when a stream had got somewhere."""

    __slots__ = ("_gpu", "event")

    def __init__(self, gpu: Gpu, event: int) -> None:
        self._gpu = gpu
        self.event = event

    def until(self, end: Moment) -> tuple[int, int]:
        """When this and that was, once the GPU has got there; zeros where it does not tell."""
        try:
            return self._gpu.clock.span(self.event, end.event)
        except BackendError:
            return 0, 0

    def record(self, stream: int) -> int:
        """It is now: behind what the stream has got by now. What the driver returns."""
        result: int = self._gpu.driver.event_record(self.event, stream)
        return result

    def __del__(self) -> None:
        self._gpu.free_events.append(self.event)


class Lapse:
    """When a command whose times are wanted began and ended.

    A GPU without other work reaches an event as soon as it gets it. So the events are recorded next to what they enclose, without
    Python's steps in between, which would count as the command's own time: several times that of a short kernel.
    """

    __slots__ = ("_is_begun", "end", "ended_at", "start")

    def __init__(self, start: Moment, end: Moment) -> None:
        """Both recorded before anything of the command."""
        self.start, self.end = start, end
        self.ended_at = -1  #: operations since the last marker when `end` was recorded
        self._is_begun = False

    def begin(self, stream: int) -> None:
        """Something of the command is about to be started: it begins now if this is the first."""
        if not self._is_begun:
            self._is_begun = True
            self.start.record(stream)  # if that is refused, it stays what it was

    def finish(self, stream: int, number: int) -> None:
        """Something of the command has been started, as the operation of that number since the last marker: it ends now unless more
        follows.
        """
        self.ended_at = -1 if self.end.record(stream) else number
