"""Samples: how long single launches take on their workers, in runs that are not recorded.

Decides where the markers of a sampled launch go: one before the kernel, behind the transfers that the plan makes for
it, and one after it. Launches that are not sampled cost nothing more. Never waits.
"""

from __future__ import annotations

from vdev.backends.base import Marker
from vdev.errors import BackendError
from vdev.executor.launch_step import LaunchStep
from vdev.executor.prepare import Batch, PreparedPlan
from vdev.executor.roles import StepJob, StepWorker
from vdev.executor.step import Step
from vdev.translators.values import dataclass


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds by worker: of what came before the kernel, if there was anything and it is known; and of the kernel."""

    before: dict[int, float]
    kernel: dict[int, float]


class Sample:
    """The times of one launch, once it is complete."""

    __slots__ = ("_count", "_parts")

    def __init__(self, count: int) -> None:
        """`count`: chunks of the launch."""
        self._count = count
        self._parts: list[tuple[int, Marker | None, Marker | None]] = []

    def add(self, worker: int, before: Marker | None, kernel: Marker | None) -> None:
        """The markers of a chunk. On the worker's thread."""
        self._parts.append((worker, before, kernel))

    @property
    def is_under_way(self) -> bool:
        """Whether devices were given the launch, and one of them is not through with it. Asks the devices, and returns at once."""
        parts = list(self._parts)
        return any(kernel is not None and not kernel.done() for _, _, kernel in parts)

    def take(self) -> Measured | None:
        """What was measured; None if the launch is not complete or its times are not known. Asks the devices, and
        returns at once.
        """
        parts = list(self._parts)
        if len(parts) < self._count:
            return None
        measured = Measured({}, {})
        for worker, before, kernel in parts:
            took = _seconds(kernel)
            if took is None:
                return None
            measured.kernel[worker] = took
            took = _seconds(before)
            if took is not None:
                measured.before[worker] = took
        return measured


def _seconds(marker: Marker | None) -> float | None:
    """From the start of a marker's work to its end; None where there is none, or it is not complete."""
    if marker is None or not marker.done():
        return None
    try:
        marker.wait()  # returns at once
    except BackendError:  # the command's event says so
        return None
    times = marker.times()
    return None if times is None else (times[3] - times[2]) * 1e-9


class _SampledStep(Step):
    """A launch between two markers."""

    __slots__ = ("launch", "sample")
    brief = True

    def __init__(self, launch: LaunchStep, sample: Sample) -> None:
        self.launch = launch
        self.sample = sample

    def run(self, worker: StepWorker, job: StepJob) -> None:
        whole = worker.marked <= job.bases[worker.number]  # no marker stands between its transfers
        before = worker.mark()
        self.launch.run(worker, job)
        worker.issued += 1  # this step is handed over: the marker must be behind it
        self.sample.add(worker.number, before if whole else None, worker.mark())


def sampled(prepared: PreparedPlan) -> tuple[PreparedPlan, Sample]:
    """`prepared`, a launch, to be submitted once with a sample taken."""
    count = sum(isinstance(step, LaunchStep) for _, batch in prepared.batches for step in batch.steps)
    sample = Sample(count)
    found: PreparedPlan = object.__new__(PreparedPlan)
    for name in PreparedPlan.__slots__:
        setattr(found, name, getattr(prepared, name))
    found.batches = tuple((worker, _sampled_batch(batch, sample)) for worker, batch in prepared.batches)
    found.compiled, found.is_compilable = None, False  # the steps are others
    found.careful = any(batch.careful for _, batch in found.batches)
    return found, sample


def _sampled_batch(batch: Batch, sample: Sample) -> Batch:
    launches = [isinstance(step, LaunchStep) for step in batch.steps]
    steps = tuple(
        _SampledStep(step, sample) if isinstance(step, LaunchStep) else step for step in batch.steps
    )
    # With a marker in it the worker goes step by step.
    marks = tuple(mark or launch for mark, launch in zip(batch.marks, launches, strict=True))
    return Batch(steps, batch.waits, marks)
