"""Marks: the points in a worker's work at which it becomes known how far the device has got, and the work between two
of them.

Decides which commands a failure concerns. The worker decides when a mark is due, within the limits below.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Protocol

from vdev.backends import compiled
from vdev.backends.base import Backend, Marker, Times
from vdev.errors import OUT_OF_RESOURCES, BackendError
from vdev.process.forking import in_driver

if TYPE_CHECKING:
    from vdev.executor.job import Job
    from vdev.executor.step import Step

logger = logging.getLogger("vdev.executor")

#: commands issued between two markers, and markers in flight: they bound what an endless stream of commands keeps
#: alive
MARK_EVERY, MARKS_IN_FLIGHT = 64, 16
#: markers in flight at which a thread that issues by itself waits for the device
MARKS_AHEAD = 64
#: nanoseconds after which a command gets a marker before the next one: a worker that waits for it must not wait for
#: what follows as well. Launches in a row that take the host less time share their markers.
MARK_AFTER_NS = 200_000
#: newly taken device memory that makes a marker due, so that temporaries do not pile up behind the device
MARK_NBYTES = 64 << 20


class Moving(Protocol):
    """What a coherent step belongs to: a command."""

    @property
    def itself(self) -> Job:
        """The command alone, once something has failed."""


class Mark:
    """A marker behind step number `step`, and the commands since the mark before.

    `ends`: for each of them the operations handed over since the mark before, when it was through. `moves`:
    the coherent steps, each with its command, its first operation and one past its last.
    """

    __slots__ = ("ends", "error", "jobs", "marker", "moves", "step")

    def __init__(self) -> None:
        self.step = 0
        self.marker: Marker
        self.error: BackendError | None = None  #: what of its work failed, once it is known to be complete
        self.jobs: list[Job] = []
        self.ends: list[int] = []
        self.moves: list[tuple[Moving, Step, int, int]] = []

    def concerned(self, error: BackendError) -> tuple[list[Job], list[tuple[Job, Step]]]:
        """Commands and coherent steps whose work failed; all, where the back end cannot tell."""
        failed = error.at or range(max(self.ends, default=0))
        starts = [0, *self.ends]
        jobs = [
            each
            for job, start, end in zip(self.jobs, starts, self.ends, strict=False)
            for each in job.among(failed, start, end, self)
        ]
        moves = [
            (job.itself, step)
            for job, step, start, end in self.moves
            if any(start <= number < end for number in failed)
        ]
        return jobs, moves


def record(backend: Backend, number: int) -> Marker:
    """A marker behind everything that the back end of worker `number` has been given.

    Whatever the back end raises, the worker has to go on, or nobody would ever hear of the commands behind the
    marker.
    """
    try:
        return backend.record()
    except Exception as error:
        logger.error("an internal error: worker %d could not record a marker", number, exc_info=error)
        return NoMarker(BackendError(OUT_OF_RESOURCES, f"no marker could be recorded: {error!r}"))


def outcome_of(mark: Mark) -> BackendError | None:
    """Wait for a mark; the failure of the work behind it, if any."""
    try:
        in_driver(mark.marker.wait)
    except BackendError as error:
        mark.error = error
    return mark.error


class NoMarker(Marker):
    """Stands for a marker that could not be made: the work that it stands behind counts as failed."""

    __slots__ = ("_failure",)

    def __init__(self, failure: BackendError) -> None:
        self._failure = failure

    def wait(self) -> None:
        raise self._failure

    def done(self) -> bool:
        return True

    def times(self) -> Times | None:
        return None


class Waiter:
    """A thread that waits for a marker behind step number `step`: `gate` opens when there is one."""

    __slots__ = ("gate", "step")

    def __init__(self, step: int) -> None:
        self.step = step
        self.gate = threading.Lock()
        self.gate.acquire()


compiled.code.replace_methods(Mark, ())  # which compiled methods read and write
