"""The step that launches a kernel on one worker, and what it needs to know that no plan says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from vdev.backends.base import (
    Allocation,
    BackendProgram,
    DriverLaunch,
    HostPlace,
    KernelArgument,
    LaunchShape,
    LocalBytes,
    Repeated,
)
from vdev.backends.compiling import Call, CompilingBackend, ListedCall
from vdev.errors import MEM_OBJECT_ALLOCATION_FAILURE, BackendError
from vdev.executor.roles import StepJob, StepWorker
from vdev.executor.step import Step
from vdev.planner import instructions as plan_of
from vdev.translators.ranges.ndrange import Chunk, NDRange
from vdev.translators.values import dataclass

_KEPT = frozenset({tuple, bytes, LocalBytes})


@dataclass(frozen=True, eq=False)
class LaunchRecipe:
    """What a plan does not say of a launch: which kernel, over what, and how its chunks are told where they
    are.

    `hidden` packs the hidden argument from an NDRange, a chunk (None: all of it) and its ((argument index, shift), …); None for a
    kernel taken as it is, which then runs whole on one worker. `ndrange`: None where each command brings its own.
    """

    program: BackendProgram
    name: str
    ndrange: NDRange | None
    hidden: Callable[[NDRange, Chunk | None, tuple[tuple[int, int], ...]], bytes] | None
    #: of a launch at given places: the slots that it reads, and those that it may change; None: the plan says so
    narrow: Callable[[Sequence[tuple[int, int, int]]], tuple[Sequence[int], Sequence[int]]] | None = None


class LaunchStep(Step):
    __slots__ = ("_before", "bases", "homes", "item", "kernel", "recipe", "shape")
    brief = True

    def __init__(self, item: plan_of.Launch, recipe: LaunchRecipe) -> None:
        ndrange = recipe.ndrange
        assert ndrange is not None, "a chunk is part of an NDRange"
        self.item = item
        self.recipe = recipe
        self.kernel: object = None  # the worker's handle, asked for on its thread at the first launch
        self._before: LaunchStep | None = None  #: the one that this one followed
        shifts = tuple((arg, shift) for arg, _, shift in item.bases)
        hidden = None if recipe.hidden is None else recipe.hidden(ndrange, item.chunk, shifts)
        chunk_size, first = _extent_of_chunk(ndrange, item.chunk)
        self.shape = LaunchShape(ndrange, item.chunk, chunk_size, ndrange.local_size, first, shifts, hidden)
        # A kernel taken as it is knows no shifts: its pointer is the place in the replica where the argument begins.
        # The shifts are those of the replicas that the plan counts on: with others it would touch memory that is not
        # its own.
        planned = {slot: (start, stop) for slot, start, stop in item.extents}
        self.bases = tuple(
            (arg, slot, -shift if hidden is None else 0, *planned[slot]) for arg, slot, shift in item.bases
        )
        self.homes = item.homes

    def run(self, worker: StepWorker, job: StepJob) -> None:
        backend = worker.backend
        kernel = self.kernel
        if kernel is None:
            kernel = self.kernel = backend.kernel(self.recipe.program, self.recipe.name)
        backend.launch(kernel, self._arguments(worker, job), self.shape)

    def followed_by(self, item: plan_of.Launch, recipe: LaunchRecipe) -> LaunchStep:
        """The step for that instruction of another launch of the same kernel.

        It is this one if they are the same, since scalars come with a job; or the one before, since programs that
        alternate between two buffers are common.
        """
        if self._performs(item, recipe):
            return self
        found, self._before = self._before, None
        if found is None or not found._performs(item, recipe):
            found = LaunchStep(item, recipe)
            found.kernel = self.kernel
        found._before = self
        return found

    def _performs(self, item: plan_of.Launch, recipe: LaunchRecipe) -> bool:
        mine = self.recipe
        return (self.item is item or self.item == item) and (mine is recipe or mine.ndrange == recipe.ndrange)

    def again(self, worker: StepWorker, job: StepJob) -> Repeated | None:
        """After `run`: a call that repeats it, for as long as nothing changes; None if there is no such call."""
        return worker.backend.again(self.kernel, self._arguments(worker, job), self.shape)

    def over(
        self, worker: StepWorker, ndrange: NDRange, places: tuple[tuple[int, int, int], ...]
    ) -> LaunchShape | None:
        """The shape with which what `again` gave makes the same launch over that index space; None where it does not."""
        return None

    def compiled(
        self, backend: CompilingBackend, worker: StepWorker, job: StepJob, *, aside: bool = False
    ) -> Call | None:
        """`aside`: as of `CompilingBackend.own_launch`."""
        if type(self) is not LaunchStep or self.homes:
            return None
        if self.kernel is None:  # only steps like it have run
            self.kernel = backend.kernel(self.recipe.program, self.recipe.name)
        return backend.own_launch(self.kernel, self._given(worker, job), self.shape, aside=aside)

    def refills(self, call: ListedCall, worker: StepWorker, job: StepJob) -> bool:
        """Have a call that was compiled for a step which differs from this one in its numbers make this launch; False if it cannot.
        May raise BackendError.
        """
        return not self.homes and call.take_launch(self._given(worker, job), self.shape)

    def refills_values(self, call: ListedCall, changed: Sequence[tuple[int, bytes]]) -> bool:
        """The same where the call was made last for a launch with the same bases, on the same memory, of whose values only these have
        `changed`.
        """
        call.set_values(changed)
        return not self.homes and call.take_launch(None, self.shape)

    def _given(self, worker: StepWorker, job: StepJob) -> list[KernelArgument]:
        """The arguments for a call that is kept: what the chunk does not touch is not kept alive."""
        return [
            arg if type(arg) in _KEPT or isinstance(arg, Allocation) else None
            for arg in self._arguments(worker, job)
        ]

    def for_driver(self, worker: StepWorker, job: StepJob, own: object) -> DriverLaunch | None:
        """What it does, for a caller who does it with `own`, a kernel of the back end's that is not used here."""
        return worker.backend.driver_launch(own, self._arguments(worker, job), self._shape_of(job))

    def _shape_of(self, job: StepJob) -> LaunchShape:
        """The native launch."""
        return self.shape

    def _arguments(self, worker: StepWorker, job: StepJob) -> list[KernelArgument]:
        args: list[KernelArgument] = list(job.args)
        holdings, number = job.holdings, worker.number
        for arg, slot, offset, start, stop in self.bases:
            replica = holdings[slot].replicas[number]
            if replica is None or start != replica.start or stop > replica.stop:
                raise BackendError(
                    MEM_OBJECT_ALLOCATION_FAILURE, f"worker {number} has no memory for the buffer"
                )
            args[arg] = (replica.allocation, offset) if offset else replica.allocation
        for arg, slot, offset in self.homes:
            args[arg] = HostPlace(holdings[slot].home().ctypes.data + offset)
        return args


@lru_cache(maxsize=1024)
def _extent_of_chunk(ndrange: NDRange, chunk: Chunk) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Its work-items in each dimension and the global ids of the first."""
    return chunk.global_size(ndrange), chunk.first(ndrange)
