"""Transfers anywhere in buffers that their worker holds whole: one step serves all of a kind.

Which bytes are written, read, filled or copied comes with the command, so the step and its plan stay the same, wherever in the
buffers each of them goes; as for launches (`vdev.executor.whole`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from vdev.executor.boxes import box_of_layout
from vdev.executor.step import Step, replica_of
from vdev.executor.steps import CopyBetweenStep, DownloadStep, FillStep, UploadStep
from vdev.planner.instructions import Download, Upload
from vdev.translators.ranges.region import Region

if TYPE_CHECKING:
    from vdev.backends.base import Allocation, Box, Bytes
    from vdev.executor.prepare import PreparedPlan
    from vdev.executor.roles import StepJob, StepWorker
    from vdev.translators.ranges.rectangles import Layout


class UploadAnywhere(UploadStep):
    """The command's host array to the bytes that its layout says."""

    __slots__ = ()

    def _deliver(
        self, worker: StepWorker, job: StepJob, write: Callable[[Allocation, Bytes, Box], None]
    ) -> None:
        host, layout = job.host_array()
        known, boxes = self._last
        if known is not layout:
            boxes = (box_of_layout(layout, to_host=False),)
            self._last = (layout, boxes)
        replica = replica_of(job, self.slot, worker.number, 0, self.region.stop)
        write(replica.allocation, host, boxes[0].moved(0, -replica.start) if replica.start else boxes[0])


class DownloadAnywhere(DownloadStep):
    """The bytes that the command's layout says to its host array."""

    __slots__ = ()

    def _boxes(self, layout: Layout) -> tuple[Sequence[Box], int]:
        known, boxes, nbytes = self._last
        if known is not layout:
            boxes = (box_of_layout(layout, to_host=True),)
            nbytes = layout.nbytes if layout.is_contiguous else 0
            self._last = (layout, boxes, nbytes)
        return boxes, nbytes


class FillAnywhere(Step):
    """The command's arguments: first byte, bytes, pattern."""

    __slots__ = ("slot",)
    brief = True

    def __init__(self, slot: int) -> None:
        self.slot = slot

    def run(self, worker: StepWorker, job: StepJob) -> None:
        start, nbytes, pattern = job.args
        replica = replica_of(job, self.slot, worker.number, start, start + nbytes)
        worker.backend.fill(replica.allocation, start - replica.start, nbytes, pattern)


class CopyAnywhere(CopyBetweenStep):
    """The command's only argument is the box."""

    __slots__ = ()

    def __init__(self, source_slot: int, target_slot: int) -> None:
        self.source_slot, self.target_slot = source_slot, target_slot

    def run(self, worker: StepWorker, job: StepJob) -> None:
        (box,), number = job.args, worker.number
        holds, others = job.holdings[self.source_slot], job.holdings[self.target_slot]
        source, target = holds.replicas[number], others.replicas[number]
        if (
            source is None
            or target is None
            or source.start
            or target.start
            or source.stop < holds.nbytes
            or target.stop < others.nbytes
        ):
            self._copy(worker, job, box)  # which says what is wrong
        else:
            worker.backend.copy(source.allocation, target.allocation, box)


def step_anywhere(step: Step, nbytes: int) -> Step | None:
    """The step of transfers like that of `step`, anywhere in buffers of which the one with the host's bytes has `nbytes` bytes; None where
    it is none of these.
    """
    kind, whole = type(step), Region.span(0, nbytes)
    if kind is UploadStep:
        return UploadAnywhere(Upload(0, step.slot, whole))  # type: ignore[attr-defined]
    if kind is DownloadStep:
        return DownloadAnywhere(Download(0, step.slot, whole))  # type: ignore[attr-defined]
    if kind is FillStep:
        return FillAnywhere(step.slot)  # type: ignore[attr-defined]
    if kind is CopyBetweenStep:
        return CopyAnywhere(step.source_slot, step.target_slot)  # type: ignore[attr-defined]
    return None


def prepared_anywhere(prepared: PreparedPlan, nbytes: int, *, whole: bool) -> PreparedPlan | None:
    """The prepared form of a plan for transfers like that of `prepared`, which is one step of one worker's on memory that it has. `whole`:
    those that replace all of the buffer that they change, so that what has failed before does not matter to them.
    """
    ((_, batch),) = prepared.batches
    step = step_anywhere(batch.steps[0], nbytes)
    return None if step is None else prepared.anywhere(step, whole=whole)
