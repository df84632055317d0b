"""Markers, barriers and waits in a queue (specification 5.12)."""

from __future__ import annotations

from collections.abc import Iterable

from vdev.facade.calls import (
    BARRIER,
    BARRIER_WITH_WAIT_LIST,
    MARKER,
    MARKER_WITH_WAIT_LIST,
    WAIT_FOR_EVENTS,
    Call,
    WaitList,
)
from vdev.facade.errors import status
from vdev.facade.event import Event
from vdev.facade.queue import CommandQueue
from vdev.session.commands import Marker


def _mark(call: Call, queue: CommandQueue, wait_for: WaitList, *, barrier: bool = False) -> Event:
    call.check_queue(queue)
    return call.submit(queue, Marker(barrier=barrier), call.after(queue, wait_for))


def _enqueue_marker_with_wait_list(queue: CommandQueue, wait_for: WaitList = None) -> Event:
    return _mark(MARKER_WITH_WAIT_LIST, queue, wait_for)


def _enqueue_barrier_with_wait_list(queue: CommandQueue, wait_for: WaitList = None) -> Event:
    return _mark(BARRIER_WITH_WAIT_LIST, queue, wait_for, barrier=True)


def _enqueue_marker(queue: CommandQueue) -> Event:
    return _mark(MARKER, queue, None)


def _enqueue_barrier(queue: CommandQueue) -> None:
    _mark(BARRIER, queue, None, barrier=True)


def _enqueue_wait_for_events(queue: CommandQueue, wait_for: Iterable[Event] | None = None) -> None:
    """What follows in the queue waits for the events (OpenCL 1.1): like a barrier with a wait list."""
    WAIT_FOR_EVENTS.check_queue(queue)
    if wait_for is None:
        raise TypeError("object of type 'NoneType' has no len()")
    events = list(wait_for)
    if not events:
        WAIT_FOR_EVENTS.fail(status.INVALID_VALUE)
    _mark(WAIT_FOR_EVENTS, queue, events, barrier=True)
