"""How long handing over and moving take on this machine: measured on request (`vdev-info --links`).

Decides how it is measured; `calibration` stores it.
"""

from __future__ import annotations

import dataclasses
import time
from statistics import median

from vdev.backends.base import Allocation, Backend, Box
from vdev.planner.timing import MachineTimes
from vdev.session.commands import BufferArg, Launch
from vdev.session.session import Session
from vdev.translators.ranges.ndrange import NDRange
from vdev.translators.values import dataclass

#: bytes of the copies that are timed, for the latency and for the bandwidth; how often each
SMALL_NBYTES, LARGE_NBYTES = 4096, 64 << 20
_COPIES = 9
#: launches that are timed, of a kernel with so many work-items
_LAUNCHES, _ITEMS = 100, 1 << 18
_SOURCE = "__kernel void touch(__global uint *out) { out[get_global_id(0)] += 1; }"


@dataclass(frozen=True)
class Link:
    """Copies from one worker to another, in seconds."""

    source: int
    target: int
    latency: float  #: one of `SMALL_NBYTES`, waited for
    host: float  #: of the host's time, to hand one over with a marker behind it
    per_byte: float  #: of one of `LARGE_NBYTES`


@dataclass(frozen=True)
class Measured:
    """A machine: every link between workers that copy from each other, and what follows for the model of time."""

    links: tuple[Link, ...]
    times: MachineTimes


def measure(session: Session) -> Measured:
    """Measure the machine of a session in which nothing else happens. Raises BackendError where a worker fails."""
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

        def once(nbytes: int) -> tuple[float, float]:
            began = time.perf_counter()
            backend.copy_from_peer(peer, there, here, Box.contiguous(0, 0, nbytes))
            marker = backend.record()
            handed = time.perf_counter()
            marker.wait()
            return handed - began, time.perf_counter() - began

        once(LARGE_NBYTES)
        small = [once(SMALL_NBYTES) for _ in range(_COPIES)]
        large = min(took for _, took in (once(LARGE_NBYTES) for _ in range(_COPIES)))
        latency = median(took for _, took in small)
        return Link(
            source,
            target,
            latency,
            median(host for host, _ in small),
            max(large - latency, 0.1 * large) / LARGE_NBYTES,
        )
    finally:
        backend.free(here)


def _handing_over(session: Session, workers: tuple[int, ...]) -> float:
    """Seconds of the submitting thread for a launch over these workers, each of which has its part of the data."""
    options, choosing = session.launch_options, session.choosing
    session.launch_options, session.choosing = dataclasses.replace(options, workers=workers), None
    try:
        kernel = session.build(_SOURCE).kernels["touch"]
        buffer = session.create_buffer(4 * _ITEMS)
        queue = session.create_queue(in_order=True)
        ndrange = NDRange((_ITEMS,), (64,), (0,))
        took: list[float] = []
        for _ in range(_LAUNCHES):
            began = time.perf_counter()
            session.submit(Launch(kernel, (BufferArg(buffer, 0, buffer.nbytes),), ndrange), queue=queue)
            took.append(time.perf_counter() - began)
            session.finish(queue)
        return median(took[_LAUNCHES // 4 :])
    finally:
        session.launch_options, session.choosing = options, choosing
