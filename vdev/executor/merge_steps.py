"""The steps that merge what several workers have written, and those that bring it together before.

Merging takes place on the host, in stages there, or on one of the workers, in stages there; the plan has chosen which.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_

from vdev.backends.base import Allocation, Bytes, FoldPart
from vdev.backends.compiling import Call, CompilingBackend
from vdev.backends.merging import blocks, combine, combine_changes, copy_changed_rows, rows_of
from vdev.executor.boxes import boxes_of_region
from vdev.executor.holdings import Replica
from vdev.executor.roles import StepJob, StepWorker
from vdev.executor.step import Step, holding
from vdev.planner import instructions as plan_of
from vdev.planner.instructions import FOLD_NBYTES, HOST, STAGE_ALIGNMENT
from vdev.planner.merges import identity_of
from vdev.translators.ranges.grain import BYTES
from vdev.translators.ranges.region import Region


class FetchStep(Step):
    __slots__ = ("region", "slot", "stage")

    def __init__(self, item: plan_of.Fetch) -> None:
        self.slot, self.region, self.stage = item.slot, item.region, item.stage

    def run(self, worker: StepWorker, job: StepJob) -> None:
        replica = holding(job, self.slot, worker.number, self.region)
        stage, start = job.stage(self.stage)
        for box in boxes_of_region(self.region, replica.start, start):
            worker.backend.read(replica.allocation, stage, box)

    def moves(self, worker: int) -> Sequence[tuple[int, int, int]]:
        return ((worker, HOST, self.region.nbytes),)


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
            self._combine(home, job)
        for number in (*(number for number, _ in self.parts), *self.twins):
            job.drop_stage(number)

    def _combine(self, home: Bytes, job: StepJob) -> None:
        for number, region in self.parts:
            stage, first = job.stage(number)
            for block in blocks(region):
                target, part = rows_of(home, 0, block), rows_of(stage, first, block)
                if self.apart:
                    combine_changes(target, part, self.op, self.dtype, identity_of(self.op, self.dtype))
                else:
                    combine(target, part, self.op, self.dtype)

    def _merge_changes(self, home: Bytes, job: StepJob) -> None:
        if self.apart:
            for (number, region), twin_number in zip(self.parts, self.twins, strict=True):
                (stage, first), (own, _) = job.stage(number), job.stage(twin_number)
                for block in blocks(region):
                    new, old = rows_of(stage, first, block), rows_of(own, first, block)
                    copy_changed_rows(rows_of(home, 0, block), new, old, block, self.grain)
            return
        # The twin is taken before the first stage is merged: a unit of a later stage that equals the twin was
        # not changed there.
        parts = [(number, blocks(region)) for number, region in self.parts]
        twins = [[rows_of(home, 0, block).copy() for block in found] for _, found in parts]
        for (number, found), twin in zip(parts, twins, strict=True):
            stage, first = job.stage(number)
            for block, old in zip(found, twin, strict=True):
                new = rows_of(stage, first, block)
                copy_changed_rows(rows_of(home, 0, block), new, old, block, self.grain)


class GatherStep(Step):
    """Into memory on the worker that the command holds until it is combined or restored."""

    __slots__ = ("nbytes", "region", "slot", "source", "stage", "start")

    def __init__(self, item: plan_of.Gather, stages: Sequence[plan_of.Stage]) -> None:
        self.slot, self.source, self.region, self.stage = item.slot, item.source, item.region, item.stage
        self.start, self.nbytes = stages[item.stage].start, stages[item.stage].nbytes

    def run(self, worker: StepWorker, job: StepJob) -> None:
        backend = worker.backend
        source = holding(job, self.slot, self.source, self.region)
        stage = job.scratch[self.stage] = worker.memory.allocate(self.nbytes)
        for box in boxes_of_region(self.region, source.start, self.start):
            if self.source == worker.number:
                backend.copy(source.allocation, stage, box)
            else:
                backend.copy_from_peer(worker.peer(self.source), source.allocation, stage, box)

    def moves(self, worker: int) -> Sequence[tuple[int, int, int]]:
        return () if worker == self.source else ((self.source, worker, self.region.nbytes),)


class CombineStep(Step):
    __slots__ = ("item", "starts", "target_start")

    def __init__(self, item: plan_of.Combine, stages: Sequence[plan_of.Stage]) -> None:
        self.item = item
        self.starts = [0 if number is None else stages[number].start for number in (item.stage, item.twin)]
        self.target_start = stages[item.target].start

    def run(self, worker: StepWorker, job: StepJob) -> None:
        item, (start, twin_start) = self.item, self.starts
        if item.stage is None:
            replica = holding(job, item.slot, worker.number, item.region)
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
            worker.memory.free(job.scratch.pop(item.stage))


class RestoreStep(Step):
    __slots__ = ("item", "start")

    def __init__(self, item: plan_of.Restore, stages: Sequence[plan_of.Stage]) -> None:
        self.item, self.start = item, stages[item.stage].start

    def run(self, worker: StepWorker, job: StepJob) -> None:
        item = self.item
        replica = holding(job, item.slot, worker.number, item.region)
        for box in boxes_of_region(item.region, self.start, replica.start):
            worker.backend.copy(job.scratch[item.stage], replica.allocation, box)
        for number in (item.stage, item.twin):
            if number is not None:
                worker.memory.free(job.scratch.pop(number))


#: groups of replicas for which a fold is kept ready: programs that use a few buffers in turn share a plan
_MOST_READY = 4


class FoldStep(Step):
    """Into the worker's replica, in place, what its peers hold; in one call of the back end where it reaches their memory.

    Order. The worker reads its peers' replicas while they have other work. What they wrote before is done: the step's touches
    make it wait for their last writes (`Holdings.before_read`). What they write next comes after: it waits for this step
    (`Holdings.did_read`), as does the release of the memory.
    """

    __slots__ = ("_holders", "_ready", "item")
    brief = True

    def __init__(self, item: plan_of.Fold) -> None:
        self.item = item
        self._holders = (item.worker, *(source for source, _ in item.parts))
        #: by the replicas that were folded, the worker's own one first: the call that does it
        self._ready: list[tuple[list[Replica], Callable[[], object]]] = []

    def run(self, worker: StepWorker, job: StepJob) -> None:
        item = self.item
        there = job.holdings[item.slot].replicas
        found = [there[number] for number in self._holders]
        for known, fold in self._ready:
            # all are what they were: their memory and its place never change
            if all(map(is_, known, found)):
                fold()
                return
        replicas = [holding(job, item.slot, worker.number, item.region)]
        replicas += [holding(job, item.slot, source, part) for source, part in item.parts]
        call = self._prepared(worker, replicas)
        if call is not None:
            call()
            self._ready = [*self._ready[1 - _MOST_READY :], (replicas, call)]
            return
        for (source, part), replica in zip(item.parts, replicas[1:], strict=True):
            for piece in _pieces(part):
                self._fold_copy(worker, source, piece, replica, replicas[0])

    def compiled(self, backend: CompilingBackend, worker: StepWorker, job: StepJob) -> Call | None:
        item = self.item
        replicas = [holding(job, item.slot, worker.number, item.region)]
        replicas += [holding(job, item.slot, source, part) for source, part in item.parts]
        own = replicas[0]
        parts = self._parts(worker, replicas)
        return backend.folds(own.allocation, own.start, parts, item.op, item.dtype)

    def _prepared(self, worker: StepWorker, replicas: Sequence[Replica]) -> Callable[[], object] | None:
        """The back end's call for these replicas; None if the worker cannot read its peers' memory in place."""
        item, own = self.item, replicas[0]
        parts = self._parts(worker, replicas)
        return worker.backend.folding(own.allocation, own.start, parts, item.op, item.dtype)

    def _parts(self, worker: StepWorker, replicas: Sequence[Replica]) -> list[FoldPart]:
        """What is folded into the first of these replicas."""
        return [
            FoldPart(worker.peer(source), replica.allocation, replica.start, part)
            for (source, part), replica in zip(self.item.parts, replicas[1:], strict=True)
        ]

    def _fold_copy(
        self, worker: StepWorker, source: int, piece: Region, replica: Replica, own: Replica
    ) -> None:
        """Fold one piece of what a peer holds by way of a copy."""
        backend, start = worker.backend, piece.start - piece.start % STAGE_ALIGNMENT
        copied: Allocation = worker.memory.allocate(piece.stop - start)
        try:
            for box in boxes_of_region(piece, replica.start, start):
                backend.copy_from_peer(worker.peer(source), replica.allocation, copied, box)
            backend.merge(
                own.allocation, own.start, copied, start, None, 0, piece, self.item.op, self.item.dtype, BYTES
            )
        finally:
            worker.memory.free(copied)

    def moves(self, worker: int) -> Sequence[tuple[int, int, int]]:
        return plan_of.moves_of(self.item)


def _pieces(region: Region) -> list[Region]:
    """`region` in pieces of a size that a fold may copy. Elements, which begin at multiples of their size, stay whole."""
    most = FOLD_NBYTES - STAGE_ALIGNMENT
    first = region.start - region.start % STAGE_ALIGNMENT
    spans = (Region.span(start, start + most) for start in range(first, region.stop, most))
    return [piece for span in spans if (piece := region & span)]
