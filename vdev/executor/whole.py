"""Launches of a whole NDRange on buffers that the worker holds whole: one step serves all launches of a kernel.

Index space and offsets in buffers come with the command, so the step and its plan stay the same, whatever changes
from launch to launch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vdev.backends.base import HostPlace, KernelArgument, LaunchShape, Repeated
from vdev.errors import MEM_OBJECT_ALLOCATION_FAILURE, BackendError
from vdev.executor.launch_step import LaunchRecipe, LaunchStep
from vdev.executor.roles import StepJob, StepWorker
from vdev.translators.ranges.ndrange import whole_chunk

if TYPE_CHECKING:
    from vdev.translators.ranges.ndrange import NDRange

#: where a command's pointer arguments point: (argument, slot, bytes into the buffer)
Places = tuple[tuple[int, int, int], ...]
_MOST_SHAPES = 512


class WholeLaunchStep(LaunchStep):
    """A launch with the NDRange and the places of its command."""

    __slots__ = ("_last", "_shapes", "_shifts", "_told", "at_home")

    def __init__(self, recipe: LaunchRecipe, at_home: frozenset[int]) -> None:
        """`at_home`: slots that are used where the host has them."""
        self.recipe = recipe
        self.kernel: object = None
        self.at_home = at_home
        self._told = recipe.hidden is not None  #: the kernel is told of places
        #: the last launch's NDRange, places and shape: mostly those of the next
        self._last: tuple[NDRange | None, Places, LaunchShape] | None = None
        #: the shapes of earlier launches, by the numbers of their NDRanges and by their places
        self._shapes: dict[Any, LaunchShape] = {}
        #: the last shape's places, and what the back end is told of them
        self._shifts: tuple[Places, tuple[tuple[int, int], ...]] | None = None

    def run(self, worker: StepWorker, job: StepJob) -> None:
        backend = worker.backend
        kernel = self.kernel
        if kernel is None:
            kernel = self.kernel = backend.kernel(self.recipe.program, self.recipe.name)
        last = self._last
        if last is None or last[0] is not job.ndrange or last[1] is not job.places:
            last = self._last = (job.ndrange, job.places, self._shape_of(job))
        backend.launch(kernel, self._arguments(worker, job), last[2])

    def again(self, worker: StepWorker, job: StepJob) -> Repeated | None:
        return worker.backend.again(self.kernel, self._arguments(worker, job), self._shape_of(job))

    def over(self, worker: StepWorker, ndrange: NDRange, places: Places) -> LaunchShape | None:
        shape = self._shape(ndrange, places)
        return shape if worker.backend.repeats_over(self.kernel, shape) else None

    def _shape_of(self, job: StepJob) -> LaunchShape:
        """The native launch."""
        ndrange = job.ndrange
        assert ndrange is not None, "launches have one"
        return self._shape(ndrange, job.places)

    def _shape(self, ndrange: NDRange, places: Places) -> LaunchShape:
        # The numbers rather than the NDRange: its hash would be computed in Python, and only for this.
        told = places if self._told else None
        key = ndrange.global_size, ndrange.local_size, ndrange.offset, ndrange.regroups, told
        shape = self._shapes.get(key)
        if shape is None:
            if len(self._shapes) >= _MOST_SHAPES:
                self._shapes.clear()
            shape = self._shapes[key] = self._made(ndrange, places)
        return shape

    def _made(self, ndrange: NDRange, places: Places) -> LaunchShape:
        known, chunk, hidden = self._shifts, whole_chunk(ndrange), self.recipe.hidden
        if known is None or known[0] is not places:
            at_home = self.at_home
            shifts = tuple([(arg, -offset) for arg, slot, offset in places if slot not in at_home])
            known = self._shifts = (places, shifts)
        packed = None if hidden is None else hidden(ndrange, chunk, known[1])
        return LaunchShape(
            ndrange, chunk, ndrange.global_size, ndrange.local_size, ndrange.offset, known[1], packed
        )

    def _arguments(self, worker: StepWorker, job: StepJob) -> list[KernelArgument]:
        args: list[KernelArgument] = list(job.args)
        holdings, number, shifted, at_home = job.holdings, worker.number, self._told, self.at_home
        for arg, slot, offset in job.places:
            if at_home and slot in at_home:
                args[arg] = HostPlace(holdings[slot].home().ctypes.data + offset)
                continue
            replica = holdings[slot].replicas[number]
            if replica is None or replica.start or replica.stop < holdings[slot].nbytes:
                raise BackendError(
                    MEM_OBJECT_ALLOCATION_FAILURE, f"worker {number} has no memory for the buffer"
                )
            args[arg] = replica.allocation if shifted or not offset else (replica.allocation, offset)
        return args
