"""Steps: a plan's instructions made ready to run on a worker.

There is one small object for each instruction, made once for each plan and shared by all commands that run it. A step
performs exactly what its instruction says on the worker that it is given; whatever belongs to a single command comes
in its job. It decides nothing about order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from vdev.backends.base import (
    Allocation,
    Backend,
    BackendProgram,
    Box,
    Bytes,
    DriverLaunch,
    HostPlace,
    KernelArgument,
    LaunchShape,
    copy_box,
)
from vdev.backends.merging import combine, combine_changes, copy_changes
from vdev.errors import MEM_OBJECT_ALLOCATION_FAILURE, BackendError
from vdev.executor.boxes import boxes_of_region, boxes_through_layout
from vdev.executor.holdings import Holdings, Replica
from vdev.executor.roles import StepJob, StepWorker
from vdev.planner import instructions as plan_of
from vdev.planner.instructions import HOST
from vdev.planner.merges import identity_of
from vdev.translators.ranges.ndrange import Chunk, NDRange
from vdev.translators.ranges.region import EMPTY, Region
from vdev.translators.values import dataclass

if TYPE_CHECKING:
    from vdev.translators.ranges.rectangles import Layout


@dataclass(frozen=True, eq=False)
class LaunchRecipe:
    """What a plan does not say of a launch: which kernel, over what, and how its chunks are told where they
    are.

    `hidden` packs the hidden argument from an NDRange, a chunk and its ((argument index, shift), …); None for a
    kernel taken as it is, which then runs whole on one worker. `ndrange`: None where each command brings its own.
    """

    program: BackendProgram
    name: str
    ndrange: NDRange | None
    hidden: Callable[[NDRange, Chunk, tuple[tuple[int, int], ...]], bytes] | None
    #: of a launch at given places: the slots that it reads, and those that it may change; None: the plan says so
    narrow: Callable[[Sequence[tuple[int, int, int]]], tuple[Sequence[int], Sequence[int]]] | None = None


class Step(ABC):
    """One instruction. `coherent` ones run even when their command has failed: the directory counts on it."""

    __slots__ = ()
    coherent = False
    #: on a worker, it always hands work over to the device and returns
    brief = False

    @abstractmethod
    def run(self, worker: StepWorker, job: StepJob) -> None:
        """Hand the work to the worker's back end (or do it, on the host). Raises BackendError."""

    def effect(self, *, late: bool) -> tuple[int, int, Region] | None:
        """(slot, holder, bytes) that a coherent step left invalid when it failed, `late` on the device."""
        return None

    def moves(self, worker: int) -> tuple[int, int, int] | None:
        """(source, target, bytes) that travel between holders when `worker` performs it."""
        return None

    def origin(self) -> int | None:
        """The worker whose replica has the bytes of `effect` as before, when the step failed at once."""
        return None


def _replica(job: StepJob, slot: int, worker: int, start: int, stop: int) -> Replica:
    """The worker's replica, which covers bytes [start, stop) of the buffer.

    After a failure, which has been reported, it may be a different one from what the plan counts on, or none.
    Coherent steps of that command must not touch anything outside it: that is somebody else's memory, or nobody's.
    """
    return _covering(job.holdings[slot], worker, start, stop)


def _covering(holdings: Holdings, worker: int, start: int, stop: int) -> Replica:
    replica = holdings.replicas[worker]
    if replica is None or start < replica.start or stop > replica.stop:
        raise BackendError(MEM_OBJECT_ALLOCATION_FAILURE, f"worker {worker} has no memory for the buffer")
    return replica


def _holding(job: StepJob, slot: int, worker: int, region: Region) -> Replica:
    """The worker's replica, which covers `region`."""
    return _replica(job, slot, worker, region.start, region.stop)


class ReserveStep(Step):
    __slots__ = ("keep", "slot", "sparse", "start", "stop", "worker")
    coherent = True
    brief = True

    def __init__(self, item: plan_of.Reserve) -> None:
        self.worker, self.slot = item.worker, item.slot
        self.start, self.stop, self.keep, self.sparse = item.start, item.stop, item.keep, item.sparse

    def run(self, worker: StepWorker, job: StepJob) -> None:
        replicas = job.holdings[self.slot].replicas
        old = replicas[worker.number]
        new = None
        failed = job.completion.error
        if self.stop == self.start and failed is not None:  # an eviction that has saved nothing
            raise BackendError(failed, "what the replica holds was not saved")
        if self.keep:
            old = _holding(job, self.slot, worker.number, self.keep)
        elif old is not None:  # it makes room for the new one
            replicas[worker.number] = None
            worker.free(old.allocation)
            old = None
        if self.stop > self.start:
            nbytes = job.holdings[self.slot].nbytes
            memory = worker.allocate_replica(self.start, self.stop, nbytes, sparse=self.sparse)
            new = Replica(memory, self.start, self.stop)
            if old is not None:
                try:
                    for box in boxes_of_region(self.keep, old.start, self.start):
                        worker.backend.copy(old.allocation, new.allocation, box)
                except BackendError:
                    worker.discard(new.allocation)
                    raise
        replicas[worker.number] = new
        if old is not None:
            worker.free(old.allocation)

    def effect(self, *, late: bool) -> tuple[int, int, Region] | None:
        # Refused at once, it left what it was to keep as it was; but what is allocated must be looked at again.
        return self.slot, self.worker, self.keep if late else EMPTY


#: pairs of replicas for which a copy is kept ready: programs that use a few buffers in turn share a plan
_MOST_REPEATED = 4


class CopyStep(Step):
    """From the home to a worker, from a worker to the home, or from worker to worker."""

    __slots__ = ("_boxes", "_repeated", "_starts", "region", "slot", "source", "target")
    coherent = True

    def __init__(self, item: plan_of.Copy) -> None:
        self.slot, self.source, self.target, self.region = item.slot, item.source, item.target, item.region
        self._boxes: tuple[Box, ...] = ()
        self._starts = (-1, -1)
        #: by pair of replicas between which it has copied: a call that repeats the copy
        self._repeated: list[tuple[Replica, Replica, Callable[[], object]]] = []

    @property
    def brief(self) -> bool:  # type: ignore[override]
        return HOST not in (self.source, self.target)

    def run(self, worker: StepWorker, job: StepJob) -> None:
        holdings, backend = job.holdings[self.slot], worker.backend
        if self.target == HOST:
            replica = _holding(job, self.slot, self.source, self.region)
            home = holdings.home()
            for box in self._between(replica.start, 0):
                backend.read(replica.allocation, home, box)
        elif self.source == HOST:
            replica = _holding(job, self.slot, self.target, self.region)
            home = holdings.home()
            for box in self._between(0, replica.start):
                backend.write(replica.allocation, home, box)
        else:
            self._between_workers(worker, holdings)

    def _between_workers(self, worker: StepWorker, holdings: Holdings) -> None:
        replicas = holdings.replicas
        before, after = replicas[self.source], replicas[self.target]
        for one, other, again in self._repeated:
            # both are what they were: their memory and its place never change
            if one is before and other is after:
                again()
                return
        start, stop = self.region.start, self.region.stop
        source = _covering(holdings, self.source, start, stop)
        target = _covering(holdings, self.target, start, stop)
        backend, peer = worker.backend, worker.peer(self.source)
        boxes = self._between(source.start, target.start)
        for box in boxes:
            backend.copy_from_peer(peer, source.allocation, target.allocation, box)
        call = backend.copy_again(peer, source.allocation, target.allocation, boxes)
        if call is not None:
            self._repeated = [*self._repeated[1 - _MOST_REPEATED :], (source, target, call)]

    def _between(self, source_start: int, target_start: int) -> tuple[Box, ...]:
        """The boxes. Replicas of commands that share a plan lie alike, so they are nearly always those of last time."""
        starts = (source_start, target_start)
        if self._starts != starts:
            self._boxes, self._starts = tuple(boxes_of_region(self.region, *starts)), starts
        return self._boxes

    def moves(self, worker: int) -> tuple[int, int, int] | None:
        return self.source, self.target, self.region.nbytes

    def effect(self, *, late: bool) -> tuple[int, int, Region] | None:
        return self.slot, self.target, self.region

    def origin(self) -> int | None:
        return None if self.source == HOST else self.source


class ResultStep(CopyStep):
    """What a launch has changed, to the home. If the launch has not run, there is nothing to copy."""

    __slots__ = ()
    coherent = False

    def effect(self, *, late: bool) -> tuple[int, int, Region] | None:
        return None


class FetchStep(Step):
    __slots__ = ("region", "slot", "stage")

    def __init__(self, item: plan_of.Fetch) -> None:
        self.slot, self.region, self.stage = item.slot, item.region, item.stage

    def run(self, worker: StepWorker, job: StepJob) -> None:
        replica = _holding(job, self.slot, worker.number, self.region)
        stage, start = job.stage(self.stage)
        for box in boxes_of_region(self.region, replica.start, start):
            worker.backend.read(replica.allocation, stage, box)

    def moves(self, worker: int) -> tuple[int, int, int] | None:
        return worker, HOST, self.region.nbytes


class MergeStep(Step):
    """On the host: merges stages into the home, as `vdev.planner.instructions.Merge` defines."""

    __slots__ = ("apart", "dtype", "grain", "op", "parts", "slot", "twins")

    def __init__(self, item: plan_of.Merge, stages: Sequence[plan_of.Stage]) -> None:
        self.slot, self.op = item.slot, item.op
        self.dtype, self.apart, self.twins = item.dtype, item.apart, item.twins
        self.grain = item.grain
        self.parts = tuple((number, stages[number].region) for number in item.stages)

    def run(self, worker: StepWorker, job: StepJob) -> None:
        home = job.holdings[self.slot].home()
        if self.op == "diff":
            self._merge_changes(home, job)
        else:
            for number, region in self.parts:
                stage, first = job.stage(number)
                for start, stop in region.runs.tolist():
                    part = stage[start - first : stop - first]
                    if self.apart:
                        identity = identity_of(self.op, self.dtype)
                        combine_changes(home[start:stop], part, self.op, self.dtype, identity)
                    else:
                        combine(home[start:stop], part, self.op, self.dtype)
        for number in (*(number for number, _ in self.parts), *self.twins):
            job.drop_stage(number)

    def _merge_changes(self, home: Bytes, job: StepJob) -> None:
        if self.apart:
            for (number, region), twin_number in zip(self.parts, self.twins, strict=True):
                (stage, first), (own, _) = job.stage(number), job.stage(twin_number)
                for start, stop in region.runs.tolist():
                    part = slice(start - first, stop - first)
                    copy_changes(home[start:stop], stage[part], own[part], start, self.grain)
            return
        # The twin is taken before the first stage is merged: a unit of a later stage that equals the twin was
        # not changed there.
        twins = [
            [home[start:stop].copy() for start, stop in region.runs.tolist()] for _, region in self.parts
        ]
        for (number, region), twin in zip(self.parts, twins, strict=True):
            stage, first = job.stage(number)
            for (start, stop), old in zip(region.runs.tolist(), twin, strict=True):
                new = stage[start - first : stop - first]
                copy_changes(home[start:stop], new, old, start, self.grain)


class GatherStep(Step):
    """Into memory on the worker that the command holds until it is combined or restored."""

    __slots__ = ("nbytes", "region", "slot", "source", "stage", "start")

    def __init__(self, item: plan_of.Gather, stages: Sequence[plan_of.Stage]) -> None:
        self.slot, self.source, self.region, self.stage = item.slot, item.source, item.region, item.stage
        self.start, self.nbytes = stages[item.stage].start, stages[item.stage].nbytes

    def run(self, worker: StepWorker, job: StepJob) -> None:
        backend = worker.backend
        source = _holding(job, self.slot, self.source, self.region)
        stage = job.scratch[self.stage] = worker.allocate(self.nbytes)
        for box in boxes_of_region(self.region, source.start, self.start):
            if self.source == worker.number:
                backend.copy(source.allocation, stage, box)
            else:
                backend.copy_from_peer(worker.peer(self.source), source.allocation, stage, box)

    def moves(self, worker: int) -> tuple[int, int, int] | None:
        return None if worker == self.source else (self.source, worker, self.region.nbytes)


class CombineStep(Step):
    __slots__ = ("item", "starts", "target_start")

    def __init__(self, item: plan_of.Combine, stages: Sequence[plan_of.Stage]) -> None:
        self.item = item
        self.starts = [0 if number is None else stages[number].start for number in (item.stage, item.twin)]
        self.target_start = stages[item.target].start

    def run(self, worker: StepWorker, job: StepJob) -> None:
        item, (start, twin_start) = self.item, self.starts
        if item.stage is None:
            replica = _holding(job, item.slot, worker.number, item.region)
            version, start = replica.allocation, replica.start
        else:
            version = job.scratch[item.stage]
        twin = None if item.twin is None else job.scratch[item.twin]
        worker.backend.merge(
            job.scratch[item.target],
            self.target_start,
            version,
            start,
            twin,
            twin_start,
            item.region,
            item.op,
            item.dtype,
            item.grain,
        )
        if item.stage is not None:
            worker.free(job.scratch.pop(item.stage))


class RestoreStep(Step):
    __slots__ = ("item", "start")

    def __init__(self, item: plan_of.Restore, stages: Sequence[plan_of.Stage]) -> None:
        self.item, self.start = item, stages[item.stage].start

    def run(self, worker: StepWorker, job: StepJob) -> None:
        item = self.item
        replica = _holding(job, item.slot, worker.number, item.region)
        for box in boxes_of_region(item.region, self.start, replica.start):
            worker.backend.copy(job.scratch[item.stage], replica.allocation, box)
        for number in (item.stage, item.twin):
            if number is not None:
                worker.free(job.scratch.pop(number))


class FillStep(Step):
    __slots__ = ("pattern", "runs", "slot")
    brief = True

    def __init__(self, item: plan_of.Fill) -> None:
        self.slot, self.pattern = item.slot, item.pattern
        self.runs: list[list[int]] = item.region.runs.tolist()

    def run(self, worker: StepWorker, job: StepJob) -> None:
        if worker.number != HOST:
            replica = _replica(job, self.slot, worker.number, self.runs[0][0], self.runs[-1][1])
            for start, stop in self.runs:
                worker.backend.fill(replica.allocation, start - replica.start, stop - start, self.pattern)
            return
        if job.holdings[self.slot].blank and not any(self.pattern):
            return  # and no memory is taken for it
        home, unit = job.holdings[self.slot].home(), np.frombuffer(self.pattern, np.uint8)
        for start, stop in self.runs:
            home[start:stop].reshape(-1, len(unit))[...] = unit


class CopyBetweenStep(Step):
    __slots__ = ("box", "source_slot", "target_slot")
    brief = True

    def __init__(self, item: plan_of.CopyBetween) -> None:
        self.source_slot, self.target_slot = item.source_slot, item.target_slot
        self.box = Box(
            item.shape, item.source_start, item.source_pitches, item.target_start, item.target_pitches
        )

    def run(self, worker: StepWorker, job: StepJob) -> None:
        if worker.number == HOST:
            copy_box(job.holdings[self.source_slot].home(), job.holdings[self.target_slot].home(), self.box)
            return
        box, number = self.box, worker.number
        source = _replica(
            job, self.source_slot, number, *_extent(box.source_start, box.source_pitches, box.shape)
        )
        target = _replica(
            job, self.target_slot, number, *_extent(box.target_start, box.target_pitches, box.shape)
        )
        worker.backend.copy(
            source.allocation, target.allocation, self.box.moved(-source.start, -target.start)
        )


def _extent(start: int, pitches: tuple[int, int], shape: tuple[int, int, int]) -> tuple[int, int]:
    """First byte and one past the last of a box."""
    slices, rows, nbytes = shape
    return start, start + (slices - 1) * pitches[0] + (rows - 1) * pitches[1] + nbytes


class UploadStep(Step):
    """The command's host array to the home or a replica."""

    __slots__ = ("_last", "region", "slot")

    def __init__(self, item: plan_of.Upload) -> None:
        self.slot, self.region = item.slot, item.region
        #: the last layout, and its boxes
        self._last: tuple[Layout | None, Sequence[Box]] = (None, ())

    def run(self, worker: StepWorker, job: StepJob) -> None:
        self._deliver(worker, job, worker.backend.write)

    def run_now(self, worker: StepWorker, job: StepJob) -> None:
        """The same to a worker's replica, from a small array: nothing under way changes the bytes there, and the
        array may change as soon as this returns.
        """
        self._deliver(worker, job, worker.backend.write_now)

    def _deliver(
        self, worker: StepWorker, job: StepJob, write: Callable[[Allocation, Bytes, Box], None]
    ) -> None:
        host, layout = job.host_array()
        known, boxes = self._last
        if known is not layout:
            boxes = boxes_through_layout(self.region, layout, to_host=False)
            self._last = (layout, boxes)
        for box in boxes:
            if worker.number == HOST:
                copy_box(host, job.holdings[self.slot].home(), box)
            else:
                replica = _holding(job, self.slot, worker.number, self.region)
                moved = box.moved(0, -replica.start) if replica.start else box
                write(replica.allocation, host, moved)

    def moves(self, worker: int) -> tuple[int, int, int] | None:
        return None if worker == HOST else (HOST, worker, self.region.nbytes)


class DownloadStep(Step):
    """The home or a replica to the command's host array."""

    __slots__ = ("_last", "region", "slot")

    def __init__(self, item: plan_of.Download) -> None:
        self.slot, self.region = item.slot, item.region
        #: the last layout, its boxes, and their bytes where they are consecutive, else 0
        self._last: tuple[Layout | None, Sequence[Box], int] = (None, (), 0)

    def run(self, worker: StepWorker, job: StepJob) -> None:
        self.deliver(worker, job.holdings[self.slot], *job.host_array())

    def deliver(self, worker: StepWorker, holdings: Holdings, host: Bytes, layout: Layout) -> bool:
        """From the buffer of `holdings` to that host array. True if the bytes have arrived, and the worker has done
        everything that came before.
        """
        boxes, _ = self._boxes(layout)
        if worker.number == HOST:
            for box in boxes:
                copy_box(holdings.home(), host, box)
            return False
        done = False
        for box in boxes:
            replica = _covering(holdings, worker.number, self.region.start, self.region.stop)
            moved = box.moved(-replica.start, 0) if replica.start else box
            done = worker.backend.read(replica.allocation, host, moved)
        return done

    def begin(
        self, worker: StepWorker, holdings: Holdings, layout: Layout
    ) -> tuple[Callable[[Bytes, int], None], int]:
        """Begin to read consecutive bytes of the worker's memory (`Backend.begin_read`): what copies them to the host's array, and
        from which byte on.
        """
        ((box,), nbytes) = self._boxes(layout)
        replica = _covering(holdings, worker.number, self.region.start, self.region.stop)
        start = box.source_start - replica.start
        return worker.backend.begin_read(replica.allocation, start, nbytes), box.target_start

    def consecutive_nbytes(self, layout: Layout) -> int:
        """Bytes that it reads, where they are consecutive on both sides; else 0."""
        return self._boxes(layout)[1]

    def _boxes(self, layout: Layout) -> tuple[Sequence[Box], int]:
        known, boxes, nbytes = self._last
        if known is not layout:
            boxes = boxes_through_layout(self.region, layout, to_host=True)
            nbytes = boxes[0].nbytes if len(boxes) == 1 and boxes[0].is_contiguous else 0
            self._last = (layout, boxes, nbytes)
        return boxes, nbytes

    def moves(self, worker: int) -> tuple[int, int, int] | None:
        return None if worker == HOST else (worker, HOST, self.region.nbytes)


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
        found._before = self
        return found

    def _performs(self, item: plan_of.Launch, recipe: LaunchRecipe) -> bool:
        mine = self.recipe
        return self.item == item and (mine is recipe or mine.ndrange == recipe.ndrange)

    def again(self, worker: StepWorker, job: StepJob) -> Callable[[], object] | None:
        """After `run`: a call that repeats it, for as long as nothing changes; None if there is no such call."""
        return worker.backend.again(self.kernel, self._arguments(worker, job), self.shape)

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


class CallStep(Step):
    """Any function of a worker's back end, for building programs and asking questions."""

    __slots__ = ("error", "function", "result")

    def __init__(self, function: Callable[[Backend], Any]) -> None:
        self.function = function
        self.result: Any = None
        self.error: Exception | None = None

    def run(self, worker: StepWorker, job: StepJob) -> None:
        try:
            self.result = self.function(worker.backend)
        except Exception as error:  # it is the caller's: `Executor.call` raises it there
            self.error = error


def make_step(
    item: plan_of.Instruction, stages: Sequence[plan_of.Stage], recipe: LaunchRecipe | None
) -> Step:
    """The step of an instruction."""
    if isinstance(item, plan_of.Launch):
        if recipe is None:
            raise ValueError("a plan with launches needs a recipe")
        return LaunchStep(item, recipe)
    if isinstance(item, plan_of.Merge):
        return MergeStep(item, stages)
    if isinstance(item, plan_of.Gather):
        return GatherStep(item, stages)
    if isinstance(item, plan_of.Combine):
        return CombineStep(item, stages)
    if isinstance(item, plan_of.Restore):
        return RestoreStep(item, stages)
    if isinstance(item, plan_of.Copy) and item.result:
        return ResultStep(item)
    return _MAKERS[type(item)](item)


_MAKERS: dict[type, Callable[[Any], Step]] = {
    plan_of.Reserve: ReserveStep,
    plan_of.Copy: CopyStep,
    plan_of.Fetch: FetchStep,
    plan_of.Fill: FillStep,
    plan_of.CopyBetween: CopyBetweenStep,
    plan_of.Upload: UploadStep,
    plan_of.Download: DownloadStep,
}
