"""How long handing over and moving take on this machine: measured on request (`vdev-info --links`).

Measured times can only be too long: a thread is woken late, a driver does something for the first time. So each time
is the least of many, taken after one-time work is over; and a time that is small beside such work is measured as the
difference between many repetitions and few. Decides how it is measured; `calibration` stores it.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from statistics import median

from vdev.backends.base import Allocation, Backend, Box
from vdev.planner.timing import MachineTimes
from vdev.session.commands import BufferArg, Launch
from vdev.session.session import Session
from vdev.translators.ranges.ndrange import NDRange
from vdev.translators.values import dataclass

#: bytes of the copies that are timed, for the latency and for the bandwidth; how many of the latter in a row, and how
#: often each is timed
SMALL_NBYTES, LARGE_NBYTES = 4096, 64 << 20
_IN_A_ROW, _TRIES = 8, 24
#: launches that are timed together, of a kernel with this many work-items
_LAUNCHES, _ITEMS = 32, 1 << 18
_SOURCE = "__kernel void touch(__global uint *out) { out[get_global_id(0)] += 1; }"


@dataclass(frozen=True)
class Link:
    """Copies from one worker to another, in seconds."""

    source: int
    target: int
    latency: float  #: one of `SMALL_NBYTES`, waited for
    host: float  #: of the host's time: handing one over with a marker behind it
    per_byte: float  #: of one of `LARGE_NBYTES`


@dataclass(frozen=True)
class Measured:
    """A machine: every link between workers that copy from each other, and what follows for the time model."""

    links: tuple[Link, ...]
    times: MachineTimes


def measure(session: Session) -> Measured:
    """Measure the machine of a session in which nothing else happens. Raises BackendError if a worker fails."""
    count = len(session.workers)
    pairs = [(a, b) for a in range(count) for b in range(count) if a != b and session.links.linked(a, b)]
    links = tuple(_measure_link(session, *pair) for pair in pairs)
    one, all_of_them = (_handing_over(session, tuple(range(workers))) for workers in (1, count))
    times = MachineTimes(launch=one)
    if links:
        costs = session.links.per_byte
        units = [link.per_byte / costs[link.source][link.target] for link in links]
        times = MachineTimes(
            one,
            max((all_of_them - one) / (count - 1), 0.0),
            median(link.host for link in links),
            median(link.latency for link in links),
            median(units),
        )
    return Measured(links, times)


def _measure_link(session: Session, source: int, target: int) -> Link:
    executor = session.executor
    peer = executor.all_workers[source].backend
    there = executor.call(source, lambda backend: backend.allocate(LARGE_NBYTES))
    try:
        return executor.call(target, lambda backend: _timed_copies(backend, peer, there, source, target))
    finally:
        executor.call(source, lambda backend: backend.free(there))


def _timed_copies(backend: Backend, peer: Backend, there: Allocation, source: int, target: int) -> Link:
    """On the target's thread."""
    here = backend.allocate(LARGE_NBYTES)
    try:

        def copies(nbytes: int, count: int = 1) -> tuple[float, float]:
            """Seconds until so many are handed over with a marker behind them, and until they are complete."""
            began = time.perf_counter()
            for _ in range(count):
                backend.copy_from_peer(peer, there, here, Box.contiguous(0, 0, nbytes))
            marker = backend.record()
            handed = time.perf_counter()
            marker.wait()
            return handed - began, time.perf_counter() - began

        host, latency = _least(lambda: copies(SMALL_NBYTES))
        _, one = _least(lambda: copies(LARGE_NBYTES))
        _, many = _least(lambda: copies(LARGE_NBYTES, 1 + _IN_A_ROW))
        more = max(many - one, many / 2)  # the others take no less, whatever happened to the first
        return Link(source, target, latency, host, more / _IN_A_ROW / LARGE_NBYTES)
    finally:
        backend.free(here)


def _least(timed: Callable[[], tuple[float, float]]) -> tuple[float, float]:
    """The least of each of two times, over many tries."""
    first, second = zip(*(timed() for _ in range(_TRIES)), strict=True)
    return min(first), min(second)


def _handing_over(session: Session, workers: tuple[int, ...]) -> float:
    """Seconds that the submitting thread needs for one launch, among many, over these workers, each of which has its
    part of the data.
    """
    options, choosing = session.launch_options, session.choosing
    session.launch_options, session.choosing = dataclasses.replace(options, workers=workers), None
    try:
        kernel = session.build(_SOURCE).kernels["touch"]
        buffer = session.create_buffer(4 * _ITEMS)
        queue = session.create_queue(in_order=True)
        ndrange = NDRange((_ITEMS,), (64,), (0,))

        def launches() -> float:
            began = time.perf_counter()
            for _ in range(_LAUNCHES):
                session.submit(Launch(kernel, (BufferArg(buffer, 0, buffer.nbytes),), ndrange), queue=queue)
            return (time.perf_counter() - began) / _LAUNCHES

        took = []
        for _ in range(_TRIES):
            took.append(launches())
            session.finish(queue)
        return min(took)
    finally:
        session.launch_options, session.choosing = options, choosing
