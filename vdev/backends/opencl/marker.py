"""How far an OpenCL worker has got: the native events of its commands.

Decides nothing about what is waited for.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import methodcaller
from typing import Any, Protocol

from vdev.backends.base import Marker, Times
from vdev.backends.opencl.errors import failure_of
from vdev.errors import BackendError

#: the most events of one marker whose times are asked for, however short the work was
_FEW_EVENTS = 8


class InOrderQueue(Protocol):
    """What a marker knows of its queue."""

    last: Any  #: event of its last command

    def finish(self) -> None:
        """Wait for all of its commands."""


class OpenCLMarker(Marker):
    """Native events since the marker before; waiting on all of them finds every failure.

    It also keeps the events of transfers alive: PyOpenCL waits in their destructor with the interpreter lock held.
    """

    __slots__ = (
        "_cl",
        "_events",
        "_failure",
        "_first",
        "_is_done",
        "_keeping",
        "_queue",
        "_spans",
        "_timed_from_ns",
        "context",
        "last",
        "offset_ns",
    )

    def __init__(
        self,
        cl: Any,
        context: Any,
        queue: InOrderQueue,
        events: list[Any],
        offset_ns: int,
        timed_from_ns: int | None = None,
        keeping: Sequence[Any] = (),
    ) -> None:
        """`keeping`: those of the events that keep an array of the program's until somebody waits for them."""
        self._cl = cl
        self.context = context
        self._queue = queue
        self._events, self._keeping = events, keeping
        self._first = events[0] if events else None
        self.last = queue.last
        self._failure: BackendError | None = None
        self._is_done = self.last is None
        self.offset_ns = offset_ns
        self._timed_from_ns = timed_from_ns
        self._spans: tuple[tuple[int, int], ...] = ()

    def wait(self) -> None:
        events = self._events
        if events:
            try:
                self._wait_for(events)
            except self._cl.Error as error:
                self._failure = self._find_failure(events, error)
            if self._failure is None:
                self._went_well(events)
            self._events, self._keeping = [], ()
        elif self.last is not None and not self.done():
            try:
                if not self._finish_queue():
                    self.last.wait()
            except self._cl.Error:
                if self._failure is None:
                    return  # the marker that covers it reports the failure
        if self._failure is not None:
            raise self._failure

    def _wait_for(self, events: list[Any]) -> None:
        if not self._all_well(events) and not (self._finish_queue() and self._all_well(events)):
            self._cl.wait_for_events(events)

    def _went_well(self, events: list[Any]) -> None:
        """All of the events are complete."""
        if self._timed_from_ns is not None:
            self._spans = self._times_of(events, self._timed_from_ns)
        for event in self._keeping:  # the last event is known as long as the queue has no other
            event.wait()

    def _finish_queue(self) -> bool:
        """Wait for the queue (specification 5.13), if nothing was handed over behind this marker.

        A CPU's engine lets the thread that waits for a queue work at it, whenever there is something to do; one that waits for
        events only where they can run at once. Of two queues that wait for each other, on two cores, the engine then ran one
        kernel at a time.
        """
        if self._queue.last is not self.last:
            return False
        self._queue.finish()
        return True

    def _all_well(self, events: list[Any]) -> bool:
        """Whether all events are complete, without failures; asked without releasing the interpreter lock.

        A native wait releases it, and getting it back from a busy thread can take 5 ms.
        """
        if not self.done():
            return False
        status = self._cl.event_info.COMMAND_EXECUTION_STATUS
        return not any(map(methodcaller("get_info", status), events))  # a loop would take twice as long

    def _find_failure(self, events: list[Any], error: Any) -> BackendError:
        statuses: dict[int, int] = {}
        for index, event in enumerate(events):  # clWaitForEvents may return at the first failure
            try:
                event.wait()
            except self._cl.Error:
                statuses[index] = int(event.get_info(self._cl.event_info.COMMAND_EXECUTION_STATUS))
        failure = failure_of(error, "work failed on the device")
        status = next((status for status in statuses.values() if status < 0), failure.status)
        return BackendError(status, failure.text, tuple(statuses))

    def _times_of(self, events: list[Any], timed_from_ns: int) -> tuple[tuple[int, int], ...]:
        """When each of the events' operations started and ended; nothing if they were many and short."""
        start, end, offset = self._cl.profiling_info.START, self._cl.profiling_info.END, self.offset_ns
        if len(events) > _FEW_EVENTS:
            took = events[-1].get_profiling_info(end) - events[0].get_profiling_info(start)
            if took < timed_from_ns * len(events):
                return ()
        return tuple(
            (event.get_profiling_info(start) + offset, event.get_profiling_info(end) + offset)
            for event in events
        )

    def operations(self) -> Sequence[tuple[int, int]]:
        return self._spans

    def failed(self, failure: BackendError) -> None:
        """Something that the marker covers is known to have failed."""
        self._failure = failure

    def done(self) -> bool:
        if not self._is_done:  # otherwise it need not be asked again
            self._is_done = self.last.get_info(self._cl.event_info.COMMAND_EXECUTION_STATUS) <= 0
        return self._is_done

    def times(self) -> Times | None:
        if self._first is None:
            return None
        info, offset = self._cl.profiling_info, self.offset_ns
        first, last = self._first.get_profiling_info, self.last.get_profiling_info
        return (
            first(info.QUEUED) + offset,
            first(info.SUBMIT) + offset,
            first(info.START) + offset,
            last(info.END) + offset,
        )
