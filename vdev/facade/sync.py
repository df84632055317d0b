"""Markers, barriers and waits in a queue (specification 5.12)."""

from __future__ import annotations

from collections.abc import Iterable

from vdev.facade.errors import check_type, fail, native, status
from vdev.facade.event import Event, make_event, parse_wait_list
from vdev.facade.queue import CommandQueue
from vdev.facade.transfers import WaitList
from vdev.session.commands import Marker

_type = native.command_type


def _enqueue_marker_with_wait_list(queue: CommandQueue, wait_for: WaitList = None) -> Event:
    check_type("_enqueue_marker_with_wait_list", queue, CommandQueue)
    after = parse_wait_list(wait_for, queue._context, "clEnqueueMarkerWithWaitList")
    return make_event(queue, _type.MARKER, queue._submit(Marker(), after))


def _enqueue_barrier_with_wait_list(queue: CommandQueue, wait_for: WaitList = None) -> Event:
    check_type("_enqueue_barrier_with_wait_list", queue, CommandQueue)
    after = parse_wait_list(wait_for, queue._context, "clEnqueueBarrierWithWaitList")
    return make_event(queue, _type.BARRIER, queue._submit(Marker(barrier=True), after))


def _enqueue_marker(queue: CommandQueue) -> Event:
    check_type("_enqueue_marker", queue, CommandQueue)
    return make_event(queue, _type.MARKER, queue._submit(Marker(), ()))


def _enqueue_barrier(queue: CommandQueue) -> None:
    check_type("_enqueue_barrier", queue, CommandQueue)
    queue._submit(Marker(barrier=True), ())


def _enqueue_wait_for_events(queue: CommandQueue, wait_for: Iterable[Event] | None = None) -> None:
    """What follows in the queue waits for the events (OpenCL 1.1): a barrier with a wait list."""
    check_type("_enqueue_wait_for_events", queue, CommandQueue)
    if wait_for is None:
        raise TypeError("object of type 'NoneType' has no len()")
    events = list(wait_for)
    if not events:
        fail("clEnqueueWaitForEvents", status.INVALID_VALUE)
    after = parse_wait_list(events, queue._context, "clEnqueueWaitForEvents")
    queue._submit(Marker(barrier=True), after)
