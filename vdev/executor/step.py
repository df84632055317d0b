"""A step: one instruction of a plan, made ready to run on a worker.

There is one small object for each instruction, made once for each plan and shared by all commands that run it. A step
performs exactly what its instruction says on the worker that it is given; whatever belongs to a single command comes
in its job. It decides nothing about order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol

from vdev.backends.compiling import Call, CompilingBackend
from vdev.errors import MEM_OBJECT_ALLOCATION_FAILURE, BackendError
from vdev.executor.holdings import Holdings, Replica
from vdev.executor.roles import StepJob, StepWorker
from vdev.translators.ranges.region import Region


class LaunchForm(Protocol):
    """What makes launches again with other memory and values (`vdev.executor.whole.Form`), or copies or fills
    (`vdev.executor.anywhere`).
    """

    @property
    def is_whole(self) -> bool:
        """Whether the back end is told all that there is of each command: it takes no longer the more differs from the last one."""

    def changes(self, worker: StepWorker, entry: Any, /) -> Any:
        """In what a command differs from the last one; None if it is to be handed over like any other."""

    def start(self, changes: Any, /) -> int:
        """Launch, copy or fill; what is pending then. Raises BackendError."""


class Step(ABC):
    """One instruction. `coherent` ones run even when their command has failed: the directory counts on it."""

    __slots__ = ()
    coherent = False
    #: on a worker, it always hands work over to the device and returns
    brief = False

    @abstractmethod
    def run(self, worker: StepWorker, job: StepJob) -> None:
        """Hand the work to the worker's back end (or do it, on the host). Raises BackendError."""

    def form(self, places: tuple[tuple[int, int, int], ...]) -> LaunchForm | None:
        """What makes more launches whose pointers point to such places, or copies or fills, with whatever memory and values; None where
        nothing does.
        """
        return None

    def compiled(self, backend: CompilingBackend, worker: StepWorker, job: StepJob) -> Call | None:
        """A call that does what `run` does for this job, for every job with the same replicas (`vdev.executor.compiled_plan`); None
        if there is none. With the worker's turn, after a `run`; `backend` is its back end.
        """
        return None

    def effect(self, *, late: bool) -> tuple[int, int, Region] | None:
        """(slot, holder, bytes) that a coherent step left invalid when it failed, `late` on the device."""
        return None

    def moves(self, worker: int) -> Sequence[tuple[int, int, int]]:
        """(source, target, bytes) of what travels between holders when `worker` performs it."""
        return ()

    def origin(self) -> int | None:
        """The worker whose replica has the bytes of `effect` as before, when the step failed at once."""
        return None


def replica_of(job: StepJob, slot: int, worker: int, start: int, stop: int) -> Replica:
    """The worker's replica, which covers bytes [start, stop) of the buffer.

    After a failure, which has been reported, it may be a different one from what the plan counts on, or none.
    Coherent steps of that command must not touch anything outside it: that is somebody else's memory, or nobody's.
    """
    return covering(job.holdings[slot], worker, start, stop)


def covering(holdings: Holdings, worker: int, start: int, stop: int) -> Replica:
    replica = holdings.replicas[worker]
    if replica is None or start < replica.start or stop > replica.stop:
        raise BackendError(MEM_OBJECT_ALLOCATION_FAILURE, f"worker {worker} has no memory for the buffer")
    return replica


def holding(job: StepJob, slot: int, worker: int, region: Region) -> Replica:
    """The worker's replica, which covers `region`."""
    return replica_of(job, slot, worker, region.start, region.stop)
