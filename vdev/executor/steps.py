"""The steps that allocate, copy and fill, and the step of any instruction (`make_step`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vdev.backends.base import Allocation, Backend, Box, Bytes, copy_box
from vdev.backends.compiling import Call, CompilingBackend, PeerCopy
from vdev.backends.merging import widest_word
from vdev.errors import BackendError
from vdev.executor.boxes import boxes_of_region, boxes_through_layout
from vdev.executor.holdings import Holdings, Replica
from vdev.executor.launch_step import LaunchRecipe, LaunchStep
from vdev.executor.merge_steps import (
    CombineStep,
    FetchStep,
    FoldStep,
    GatherStep,
    MergeStep,
    RestoreStep,
)
from vdev.executor.roles import StepJob, StepWorker
from vdev.executor.step import Step, covering, holding, replica_of
from vdev.planner import instructions as plan_of
from vdev.planner.instructions import HOST
from vdev.translators.ranges.region import EMPTY, Region

if TYPE_CHECKING:
    from vdev.translators.ranges.rectangles import Layout


#: An upload of so many bytes keeps nobody waiting, nor does a copy within the host's memory.
BRIEF_NBYTES = 4096


class ReserveStep(Step):
    __slots__ = ("keep", "slot", "sparse", "start", "stop", "worker")
    coherent = True
    brief = True

    def __init__(self, item: plan_of.Reserve) -> None:
        self.worker, self.slot = item.worker, item.slot
        self.start, self.stop, self.keep, self.sparse = item.start, item.stop, item.keep, item.sparse

    @property
    def is_taken(self) -> bool:
        """Whether it takes memory of the worker's own."""
        return self.stop > self.start and not self.sparse

    def run(self, worker: StepWorker, job: StepJob) -> None:
        replicas = job.holdings[self.slot].replicas
        old = replicas[worker.number]
        new = None
        failed = job.completion.error
        if self.stop == self.start and failed is not None:  # an eviction that has saved nothing
            raise BackendError(failed, "the bytes of the replica were not saved, so it stays")
        if self.keep:
            old = holding(job, self.slot, worker.number, self.keep)
        elif old is not None:  # it makes room for the new one
            replicas[worker.number] = None
            worker.memory.free(old.allocation)
            old = None
        if self.stop > self.start:
            nbytes = job.holdings[self.slot].nbytes
            memory = worker.memory.allocate_replica(self.start, self.stop, nbytes, sparse=self.sparse)
            new = Replica(memory, self.start, self.stop)
            if old is not None:
                try:
                    for box in boxes_of_region(self.keep, old.start, self.start):
                        worker.backend.copy(old.allocation, new.allocation, box)
                except BackendError:
                    worker.memory.discard(new.allocation)
                    raise
        replicas[worker.number] = new
        if old is not None:
            worker.memory.free(old.allocation)

    def effect(self, *, late: bool) -> tuple[int, int, Region] | None:
        # Refused at once, it left what it was to keep as it was; but what is allocated must be looked at again.
        return self.slot, self.worker, self.keep if late else EMPTY


#: pairs of replicas for which a copy is kept ready: programs that use a few buffers in turn share a plan
_MOST_REPEATED = 4


class CopyStep(Step):
    """From the home to a worker, from a worker to the home, or from worker to worker."""

    __slots__ = ("_boxes", "_repeated", "_starts", "brief", "region", "slot", "source", "target")
    coherent = True

    def __init__(self, item: plan_of.Copy) -> None:
        self.slot, self.source, self.target, self.region = item.slot, item.source, item.target, item.region
        self._boxes: tuple[Box, ...] = ()
        self._starts = (-1, -1)
        #: by pair of replicas between which it has copied: a call that repeats the copy, None before it has been repeated
        self._repeated: list[tuple[Replica, Replica, Callable[[], object] | None]] = []
        # so few bytes are taken at once, by every device, as those of the program's own memory are
        is_upload = self.source == HOST and self.target != HOST
        self.brief = (
            self.region.nbytes <= BRIEF_NBYTES if is_upload else HOST not in (self.source, self.target)
        )

    def run(self, worker: StepWorker, job: StepJob) -> None:
        holdings, backend = job.holdings[self.slot], worker.backend
        if self.target == HOST:
            replica = holding(job, self.slot, self.source, self.region)
            home = holdings.home_for(backend, self.region.nbytes)
            for box in self._between(replica.start, 0):
                backend.read(replica.allocation, home, box)
        elif self.source == HOST:
            replica = holding(job, self.slot, self.target, self.region)
            home = holdings.home_for(backend, self.region.nbytes)
            for box in self._between(0, replica.start):
                backend.write(replica.allocation, home, box)
        else:
            self._between_workers(worker, holdings)

    def _between_workers(self, worker: StepWorker, holdings: Holdings) -> None:
        replicas = holdings.replicas
        before, after = replicas[self.source], replicas[self.target]
        is_known = False
        for one, other, again in self._repeated:
            # both are what they were: their memory and its place never change
            if one is before and other is after:
                if again is not None:
                    again()
                    return
                is_known = True
        start, stop = self.region.start, self.region.stop
        source = covering(holdings, self.source, start, stop)
        target = covering(holdings, self.target, start, stop)
        backend, peer = worker.backend, worker.peer(self.source)
        boxes = self._between(source.start, target.start)
        backend.copies_from_peer(peer, source.allocation, target.allocation, boxes)
        # Of plans that differ in their numbers each is often carried out once: nothing is prepared before the second time.
        call = backend.copy_again(peer, source.allocation, target.allocation, boxes) if is_known else None
        if call is not None or not is_known:
            kept = [each for each in self._repeated if each[0] is not source or each[1] is not target]
            self._repeated = [*kept[1 - _MOST_REPEATED :], (source, target, call)]

    def between(self, worker: StepWorker, job: StepJob) -> PeerCopy:
        """What it copies from another worker to this one."""
        start, stop = self.region.start, self.region.stop
        source = replica_of(job, self.slot, self.source, start, stop)
        target = replica_of(job, self.slot, self.target, start, stop)
        boxes = self._between(source.start, target.start)
        return worker.peer(self.source), source.allocation, target.allocation, boxes

    def _between(self, source_start: int, target_start: int) -> tuple[Box, ...]:
        """The boxes. Replicas of commands that share a plan lie alike, so they are nearly always those of last time."""
        starts = (source_start, target_start)
        if self._starts != starts:
            self._boxes, self._starts = tuple(boxes_of_region(self.region, *starts)), starts
        return self._boxes

    def moves(self, worker: int) -> Sequence[tuple[int, int, int]]:
        return ((self.source, self.target, self.region.nbytes),)

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


class FillStep(Step):
    __slots__ = ("pattern", "runs", "slot")
    brief = True

    def __init__(self, item: plan_of.Fill) -> None:
        self.slot, self.pattern = item.slot, item.pattern
        self.runs: list[list[int]] = item.region.runs.tolist()

    def run(self, worker: StepWorker, job: StepJob) -> None:
        if worker.number != HOST:
            replica = replica_of(job, self.slot, worker.number, self.runs[0][0], self.runs[-1][1])
            for start, stop in self.runs:
                worker.backend.fill(replica.allocation, start - replica.start, stop - start, self.pattern)
            return
        holdings = job.holdings[self.slot]
        for start, stop in self.runs:
            fill_home(holdings, start, stop, self.pattern)

    def compiled(self, backend: CompilingBackend, worker: StepWorker, job: StepJob) -> Call | None:
        replica = replica_of(job, self.slot, worker.number, self.runs[0][0], self.runs[-1][1])
        runs = [(start - replica.start, stop - start) for start, stop in self.runs]
        return backend.fills(replica.allocation, runs, self.pattern)


def fill_home(holdings: Holdings, start: int, stop: int, pattern: bytes) -> None:
    """A pattern over bytes of a buffer's home; its length divides both."""
    if holdings.blank and not any(pattern):
        return  # and no memory is taken for it
    unit = np.frombuffer(pattern, widest_word(len(pattern)))
    # Word by word: byte by byte NumPy takes thirty times as long.
    holdings.home()[start:stop].view(unit.dtype).reshape(-1, len(unit))[...] = unit


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
        self._copy(worker, job, self.box)

    def _copy(self, worker: StepWorker, job: StepJob, box: Box) -> None:
        worker.backend.copy(*self._placed(worker, job, box))

    def compiled(self, backend: CompilingBackend, worker: StepWorker, job: StepJob) -> Call | None:
        source, target, moved = self._placed(worker, job, self.box)
        return backend.own_copies(source, target, (moved,))

    def _placed(self, worker: StepWorker, job: StepJob, box: Box) -> tuple[Allocation, Allocation, Box]:
        """The memory that a box is copied from, and to, on a worker; and where it lies in these."""
        number = worker.number
        source = replica_of(
            job, self.source_slot, number, *_extent(box.source_start, box.source_pitches, box.shape)
        )
        target = replica_of(
            job, self.target_slot, number, *_extent(box.target_start, box.target_pitches, box.shape)
        )
        moved = box.moved(-source.start, -target.start) if source.start or target.start else box
        return source.allocation, target.allocation, moved


def _extent(start: int, pitches: tuple[int, int], shape: tuple[int, int, int]) -> tuple[int, int]:
    """First byte and one past the last of a box."""
    slices, rows, nbytes = shape
    return start, start + (slices - 1) * pitches[0] + (rows - 1) * pitches[1] + nbytes


class UploadStep(Step):
    """The command's host array to the home or a replica."""

    __slots__ = ("_last", "brief", "region", "slot")

    def __init__(self, item: plan_of.Upload) -> None:
        self.slot, self.region = item.slot, item.region
        #: so few bytes are taken at once, by every device and by the home
        self.brief = item.region.nbytes <= BRIEF_NBYTES
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
                replica = holding(job, self.slot, worker.number, self.region)
                moved = box.moved(0, -replica.start) if replica.start else box
                write(replica.allocation, host, moved)

    def compiled(self, backend: CompilingBackend, worker: StepWorker, job: StepJob) -> Call | None:
        """For a command whose arguments are all bytes of the host's array, which it alone knows, and their layout."""
        given, layout = job.args
        boxes = boxes_through_layout(self.region, layout, to_host=False)
        if len(boxes) != 1 or not boxes[0].is_contiguous:
            return None
        (box,) = boxes
        replica = holding(job, self.slot, worker.number, self.region)
        start = box.target_start - replica.start
        return backend.uploads(replica.allocation, start, box.nbytes, (0, given), box.source_start)

    def moves(self, worker: int) -> Sequence[tuple[int, int, int]]:
        return () if worker == HOST else ((HOST, worker, self.region.nbytes),)


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
            replica = covering(holdings, worker.number, self.region.start, self.region.stop)
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
        replica = covering(holdings, worker.number, self.region.start, self.region.stop)
        start = box.source_start - replica.start
        return worker.backend.begin_read(replica.allocation, start, nbytes), box.target_start

    def consecutive_nbytes(self, layout: Layout) -> int:
        """Bytes that `begin` reads; 0 where it does not take that layout."""
        return self._boxes(layout)[1]

    def _boxes(self, layout: Layout) -> tuple[Sequence[Box], int]:
        known, boxes, nbytes = self._last
        if known is not layout:
            boxes = boxes_through_layout(self.region, layout, to_host=True)
            nbytes = boxes[0].nbytes if len(boxes) == 1 and boxes[0].is_contiguous else 0
            self._last = (layout, boxes, nbytes)
        return boxes, nbytes

    def moves(self, worker: int) -> Sequence[tuple[int, int, int]]:
        return () if worker == HOST else ((worker, HOST, self.region.nbytes),)


class EmptyStep(Step):
    """What a marker has to do."""

    __slots__ = ()
    brief = True

    def run(self, worker: StepWorker, job: StepJob) -> None:
        return


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
    plan_of.Fold: FoldStep,
    plan_of.CopyBetween: CopyBetweenStep,
    plan_of.Upload: UploadStep,
    plan_of.Download: DownloadStep,
}
