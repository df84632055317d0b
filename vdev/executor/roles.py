"""The worker and the command as a step sees them.

Steps are made before there is a worker or a command, and both are built on them. So a step states here what it needs of
the two that it is given, and knows neither `vdev.executor.worker` nor `vdev.executor.job`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from vdev.backends.base import Allocation, Backend, Bytes, Marker
from vdev.executor.completion import Completion
from vdev.executor.holdings import Holdings

if TYPE_CHECKING:
    from vdev.translators.ranges.ndrange import NDRange
    from vdev.translators.ranges.rectangles import Layout


class StepMemory(Protocol):
    """The worker's memory (`vdev.executor.worker_memory.WorkerMemory`)."""

    def allocate(self, nbytes: int, *, sparse: bool = False) -> Allocation:
        """Device memory."""

    def allocate_replica(self, start: int, stop: int, nbytes: int, *, sparse: bool) -> Allocation:
        """Device memory for [start, stop) of a buffer of `nbytes` bytes."""

    def free(self, allocation: Allocation) -> None:
        """Give memory back behind all that has been handed over here."""

    def discard(self, allocation: Allocation) -> None:
        """Give back memory that nothing uses any more."""


class StepWorker(Protocol):
    """The worker that a step runs on (`vdev.executor.worker.Worker`)."""

    number: int
    backend: Backend
    issued: int  #: steps that the back end has been given
    marked: int  #: how many of them are behind a marker

    @property
    def memory(self) -> StepMemory:
        """Its memory."""

    def peer(self, number: int) -> Backend:
        """Another worker's back end."""

    def mark(self) -> Marker | None:
        """Put a marker behind everything issued since the last."""


class StepJob(Protocol):
    """The command that a step belongs to (`vdev.executor.job.Job`)."""

    completion: Completion
    holdings: Sequence[Holdings]  #: by slot
    args: Sequence[Any]  #: the kernel's arguments
    ndrange: NDRange | None  #: its index space, where the plan leaves it open
    #: where its pointer arguments point, where the plan leaves that open: (argument, slot, bytes into the buffer)
    places: tuple[tuple[int, int, int], ...]
    bases: list[int]  #: by worker: steps submitted before this command's
    scratch: dict[int, Allocation]  #: by number: stages on workers

    def stage(self, number: int) -> tuple[Bytes, int]:
        """A staging area on the host, and the buffer byte at its index 0."""

    def drop_stage(self, number: int) -> None:
        """It is no longer needed."""

    def host_array(self) -> tuple[Bytes, Layout]:
        """The command's array in host memory, and where its bytes belong."""
