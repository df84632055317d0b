"""Transfers anywhere in buffers that their worker holds whole: one step serves all of a kind.

Which bytes are written, read, filled or copied comes with the command, so the step and its plan stay the same, wherever in the
buffers each of them goes; as for launches (`vdev.executor.whole`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vdev.backends.base import Box, copy_box
from vdev.executor.boxes import box_of_layout
from vdev.executor.step import Step, replica_of
from vdev.executor.steps import CopyBetweenStep, DownloadStep, FillStep, UploadStep
from vdev.planner.instructions import Download, Upload
from vdev.translators.ranges.region import Region

if TYPE_CHECKING:
    from vdev.backends.base import Allocation, Bytes, Copying, Filling
    from vdev.executor.holdings import Holdings
    from vdev.executor.prepare import PreparedPlan
    from vdev.executor.roles import StepJob, StepWorker
    from vdev.executor.whole import WholeLaunch
    from vdev.translators.ranges.rectangles import Layout

#: of what transfers of one kind have in common: how much is known
_MOST_ALIKE = 256


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
            nbytes = layout.reach  # what is between its rows is the worker's, too
            self._last = (layout, boxes, nbytes)
        return boxes, nbytes

    def begin(
        self, worker: StepWorker, holdings: Holdings, layout: Layout
    ) -> tuple[Callable[[Bytes, int], None], int]:
        deliver, to = super().begin(worker, holdings, layout)
        return (deliver, to) if layout.is_contiguous else (_picking(deliver, layout), 0)


def _picking(deliver: Callable[[Bytes, int], None], layout: Layout) -> Callable[[Bytes, int], None]:
    """What copies a layout's box to the host's array, of all bytes from the first to the last, which `deliver` copies to an array."""

    def pick(host: Bytes, _: int) -> None:
        found = np.empty(layout.reach, np.uint8)
        deliver(found, 0)
        copy_box(found, host, box_of_layout(layout, to_host=True).moved(-layout.buffer_start, 0))

    return pick


class _Known:
    """Calls of the back end for transfers of one kind, by what they have in common: each is made once there has been one like it."""

    __slots__ = ("_make", "calls")

    def __init__(self, make: Callable[..., Any]) -> None:
        """`make`: a call for what some have in common; None where there is none."""
        self._make = make
        #: False where there is none, None where there has been one like it
        self.calls: dict[tuple[Any, ...], Any] = {}

    def learnt(self, name: tuple[Any, ...]) -> Any:
        """The call for transfers that have that in common, of which none is among `calls`; None if they are to be made like any other."""
        calls = self.calls
        if name in calls:
            if calls[name] is None:
                calls[name] = self._make(*name) or False
            return calls[name] or None
        if len(calls) >= _MOST_ALIKE:
            calls.clear()
        calls[name] = None
        return None


class FillForm:
    """Fills of buffers that their worker holds whole: each is one call of the back end (`Backend.filling`). A `LaunchForm`."""

    is_whole = True
    __slots__ = ("_known", "_number", "_slot")

    def __init__(self, worker: StepWorker, slot: int) -> None:
        self._known, self._number, self._slot = _Known(worker.backend.filling), worker.number, slot

    def changes(self, worker: StepWorker, entry: WholeLaunch) -> tuple[Filling, Allocation, int] | None:
        """What makes a fill, and where; None if it is to be made like any other."""
        _, holdings, (start, nbytes, pattern), _, _, _ = entry
        name = nbytes, pattern
        fill = self._known.calls.get(name) or self._known.learnt(name)
        holds = holdings[self._slot]
        replica = holds.replicas[self._number]
        if fill is None or replica is None or replica.start or replica.stop < holds.nbytes:
            return None
        return fill, replica.allocation, start

    def start(self, changes: tuple[Filling, Allocation, int]) -> int:
        """Fill; what is pending then. BackendError if it is refused."""
        fill, target, start = changes
        return fill(target, start)


class FillAnywhere(Step):
    """The command's arguments: first byte, bytes, pattern."""

    __slots__ = ("_form", "slot")
    brief = True

    def __init__(self, slot: int) -> None:
        self.slot = slot
        self._form: FillForm | None = None  #: once there has been one

    def form(self, places: tuple[tuple[int, int, int], ...]) -> FillForm | None:
        return self._form

    def run(self, worker: StepWorker, job: StepJob) -> None:
        if self._form is None:
            self._form = FillForm(worker, self.slot)
        start, nbytes, pattern = job.args
        replica = replica_of(job, self.slot, worker.number, start, start + nbytes)
        worker.backend.fill(replica.allocation, start - replica.start, nbytes, pattern)


class CopyForm:
    """Copies between buffers that their worker holds whole: each is one call of the back end (`Backend.copying`). A `LaunchForm`."""

    is_whole = True
    __slots__ = ("_known", "_number", "_source_slot", "_target_slot")

    def __init__(self, worker: StepWorker, source_slot: int, target_slot: int) -> None:
        self._known, self._number = _Known(worker.backend.copying), worker.number
        self._source_slot, self._target_slot = source_slot, target_slot

    def changes(self, worker: StepWorker, entry: WholeLaunch) -> tuple[Copying, tuple[Any, ...]] | None:
        """What makes a copy, and from where to where; None if it is to be made like any other."""
        _, holdings, (shape, start, source_pitches, to, target_pitches), _, _, _ = entry
        name = shape, source_pitches, target_pitches
        copy = self._known.calls.get(name) or self._known.learnt(name)
        if copy is None:
            return None
        number, holds, others = self._number, holdings[self._source_slot], holdings[self._target_slot]
        source, target = holds.replicas[number], others.replicas[number]
        if source is None or source.start or source.stop < holds.nbytes:
            return None
        if target is None or target.start or target.stop < others.nbytes:
            return None
        return copy, (source.allocation, start, target.allocation, to)

    def start(self, changes: tuple[Copying, tuple[Any, ...]]) -> int:
        """Copy; what is pending then. BackendError if it is refused."""
        copy, where = changes
        return copy(*where)


class CopyAnywhere(CopyBetweenStep):
    """The command's arguments: what a box is made of (`vdev.backends.base.Box`)."""

    __slots__ = ("_form",)

    def __init__(self, source_slot: int, target_slot: int) -> None:
        self.source_slot, self.target_slot = source_slot, target_slot
        self._form: CopyForm | None = None  #: once there has been one

    def form(self, places: tuple[tuple[int, int, int], ...]) -> CopyForm | None:
        return self._form

    def run(self, worker: StepWorker, job: StepJob) -> None:
        box, number = Box(*job.args), worker.number
        if self._form is None:
            self._form = CopyForm(worker, self.source_slot, self.target_slot)
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
