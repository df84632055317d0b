"""Samples: how long single launches take on their workers, in runs that are not recorded.

Decides where the markers of a sampled launch go: one before the kernel, behind the transfers that the plan makes for
it, one after it, and one behind the merges and transfers that follow. Launches that are not sampled cost nothing more.
Never waits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from vdev.backends.base import Marker, Times
from vdev.errors import BackendError
from vdev.executor.launch_step import LaunchStep
from vdev.executor.prepare import Batch, PreparedPlan
from vdev.executor.roles import StepJob, StepWorker
from vdev.executor.step import Step
from vdev.translators.values import dataclass

#: when a kernel began and ended, as `Backend.timer` tells; None where only markers do
_Ask: TypeAlias = Callable[[], tuple[int, int]] | None


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds by worker: of what came before the kernel, if there was anything and it is known; and of the kernel."""

    before: dict[int, float]
    kernel: dict[int, float]

    def behind(self, after: Mapping[int, float]) -> float:
        """Seconds from the end of the longest kernel to that of all that came after: workers whose chunks end sooner wait for it.
        `after`: by worker, seconds from the end of its kernel to that of what came after.
        """
        if not after:
            return 0.0
        ends = [took + after.get(worker, 0.0) for worker, took in self.kernel.items()]
        return max(max(ends) - max(self.kernel.values()), 0.0)


class Sample:
    """The times of one launch, once it is complete."""

    __slots__ = ("_count", "_ends", "_followed", "_parts")

    def __init__(self, count: int, followed: int) -> None:
        """`count`: chunks of the launch; `followed`: workers that have something to do after theirs."""
        self._count = count
        self._followed = followed
        self._parts: list[tuple[int, Marker | None, Marker | None, _Ask]] = []
        self._ends: list[tuple[int, Marker | None]] = []

    def add(self, worker: int, before: Marker | None, kernel: Marker | None, ask: _Ask = None) -> None:
        """The markers of a chunk, and what tells its kernel's times alone. On the worker's thread."""
        self._parts.append((worker, before, kernel, ask))

    def end(self, worker: int, marker: Marker | None) -> None:
        """The marker behind all that the worker does for the launch. On the worker's thread."""
        self._ends.append((worker, marker))

    @property
    def is_under_way(self) -> bool:
        """Whether devices were given the launch, and one of them is not through with it. Asks the devices, and returns at once."""
        parts = list(self._parts)
        return any(kernel is not None and not kernel.done() for _, _, kernel, _ in parts)

    @property
    def is_running(self) -> bool:
        """Whether a device is at work on the kernel itself. Asks the devices, and returns at once."""
        parts = list(self._parts)
        return any(
            kernel is not None and before is not None and before.done() and not kernel.done()
            for _, before, kernel, _ in parts
        )

    def take(self) -> Measured | None:
        """What was measured; None if the kernels are not through or their times are not known. Asks the devices, and
        returns at once.
        """
        parts = list(self._parts)
        if len(parts) < self._count:
            return None
        measured = Measured({}, {})
        for worker, before, kernel, ask in parts:
            took = _seconds(kernel)
            if took is None:
                return None
            measured.kernel[worker] = took if ask is None else min(took, _asked(ask) or took)
            took = _seconds(before)
            if took is not None:
                measured.before[worker] = took
        return measured

    def take_after(self) -> dict[int, float] | None:
        """By worker, seconds from the end of its kernel to that of what came after it, as far as they are known; None if that is
        not complete. Asks the devices, and returns at once.
        """
        ends, found = list(self._ends), {}
        if len(ends) < self._followed or any(end is not None and not end.done() for _, end in ends):
            return None
        kernels = {worker: kernel for worker, _, kernel, _ in self._parts}
        for worker, end in ends:
            took = _between(kernels.get(worker), end)
            if took is not None:
                found[worker] = took
        return found


def _times(marker: Marker | None) -> Times | None:
    """When a marker's work began and ended; None where there is none, or it is not complete."""
    if marker is None or not marker.done():
        return None
    try:
        marker.wait()  # returns at once
        return marker.times()
    except BackendError:
        # The command's event says so; and that a time is not told is no fault of the launch that asks for it.
        return None


def _seconds(marker: Marker | None) -> float | None:
    """From the start of a marker's work to its end, where that is known."""
    times = _times(marker)
    return None if times is None else (times[3] - times[2]) * 1e-9


def _asked(ask: Callable[[], tuple[int, int]]) -> float:
    """From the beginning to the end that are told; 0 where they are not."""
    began, ended = ask()
    return max(ended - began, 0) * 1e-9


def _between(first: Marker | None, second: Marker | None) -> float | None:
    """From the end of one marker's work to the end of another's on the same worker, where that is known."""
    ends = [_times(marker) for marker in (first, second)]
    return None if ends[0] is None or ends[1] is None else max(ends[1][3] - ends[0][3], 0) * 1e-9


class _SampledStep(Step):
    """A launch between two markers. A device that has nothing else to do reaches the first one long before the launch comes: where the back
    end tells what the kernel alone takes, that counts.
    """

    __slots__ = ("launch", "sample")
    brief = True

    def __init__(self, launch: LaunchStep, sample: Sample) -> None:
        self.launch = launch
        self.sample = sample

    def run(self, worker: StepWorker, job: StepJob) -> None:
        whole = worker.marked <= job.bases[worker.number]  # no marker stands between its transfers
        before, backend = worker.mark(), worker.backend
        begun = backend.begin_timed() if backend.begins_timed else None
        self.launch.run(worker, job)
        ask = backend.timer(begun, 1) if backend.begins_timed else None
        worker.issued += 1  # this step is handed over: the marker must be behind it
        self.sample.add(worker.number, before if whole else None, worker.mark(), ask)


def sampled(prepared: PreparedPlan) -> tuple[PreparedPlan, Sample]:
    """`prepared`, a launch, to be submitted once with a sample taken."""
    batches = [batch for _, batch in prepared.batches]
    count = sum(isinstance(step, LaunchStep) for batch in batches for step in batch.steps)
    sample = Sample(count, sum(map(_is_followed, batches)))
    found: PreparedPlan = object.__new__(PreparedPlan)
    for name in PreparedPlan.__slots__:
        setattr(found, name, getattr(prepared, name))
    found.batches = tuple((worker, _sampled_batch(batch, sample)) for worker, batch in prepared.batches)
    found.compiled, found.is_compilable = None, False  # the steps are others
    found.careful = any(batch.careful for _, batch in found.batches)
    return found, sample


def _is_followed(batch: Batch) -> bool:
    """Whether a worker has something to do after its chunk."""
    launches = [isinstance(step, LaunchStep) for step in batch.steps]
    return any(launches) and not launches[-1]


def _sampled_batch(batch: Batch, sample: Sample) -> Batch:
    launches = [isinstance(step, LaunchStep) for step in batch.steps]
    steps = tuple(
        _SampledStep(step, sample) if isinstance(step, LaunchStep) else step for step in batch.steps
    )
    # With a marker in it the worker goes step by step.
    marks = [mark or launch for mark, launch in zip(batch.marks, launches, strict=True)]
    if not _is_followed(batch):
        return Batch(steps, batch.waits, tuple(marks))
    return Batch(steps, batch.waits, (*marks[:-1], True), sample=sample)
