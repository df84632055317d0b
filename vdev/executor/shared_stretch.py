"""Shared stretches: commands that the submitting threads hand to several workers, as one job up to the next marks.

What a stretch is on one worker (`vdev.executor.stretch`) this is on several, for compiled plans: for each command only what would be
needed after a failure is kept, and its completion is a position in its stretch until somebody asks for more. A command counts as
complete when all that was given to the workers up to it is.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from vdev.executor.completion import Completion
from vdev.executor.job import Job, JobExecutor
from vdev.executor.stretch import Entry, Part, Stretch
from vdev.process.ending import is_over
from vdev.process.interrupts import waits

if TYPE_CHECKING:
    from vdev.executor.mark import Mark
    from vdev.executor.prepare import PreparedPlan
    from vdev.executor.worker import Worker


class SharedPart(Part):
    """The completion of one command of a shared stretch."""

    __slots__ = ()
    stretch: SharedStretch

    @property
    def _is_done(self) -> bool:
        stretch = self.stretch
        return stretch.parts is None and stretch.is_done(self.index)


class SharedMove:
    """Stands for a command of a shared stretch to which a coherent step belongs."""

    __slots__ = ("_index", "_stretch")

    def __init__(self, stretch: SharedStretch, index: int) -> None:
        self._stretch, self._index = stretch, index

    @property
    def itself(self) -> Job:
        """The command, which is a job of its own before a failure spreads; the stretch, which has no buffers, if it had ended before."""
        parts = self._stretch.parts
        return self._stretch if parts is None else parts[self._index]


class SharedStretch(Stretch):
    """The commands `entries`, numbered from `number` on, of workers that are given nothing else meanwhile."""

    __slots__ = ("_host", "clocks", "marks", "on_workers")

    def __init__(
        self, executor: JobExecutor, number: int, workers: Sequence[Worker], prepared: PreparedPlan
    ) -> None:
        """`workers`: those that may have something to do for it."""
        super().__init__(executor, number, workers[0], workers[0].submitted + 1, prepared)
        self.bases = [each.submitted for each in executor.all_workers]
        self._host = self.bases[-1]
        #: by index: how many steps each worker has been given when the command was through
        self.clocks: list[tuple[int, ...]] = []
        #: by worker: the mark behind it
        self.marks: dict[int, Mark] = {each.number: each.next_mark for each in workers}
        #: by worker: which commands it had a part in, and the operations since the mark before when it was through with it
        self.on_workers: dict[int, list[tuple[int, int]]] = {each.number: [] for each in workers}

    def is_done(self, index: int) -> bool:
        """Whether a command, and all before it, are known to be complete."""
        # asked of many commands, for which a generator takes longer
        for worker, step in zip(self.executor.all_workers, self.clocks[index], strict=False):  # noqa: SIM110
            if worker.completed < step:
                return False
        return True

    def is_running(self) -> bool:
        """Whether the first of them may have begun: the workers have done what came before."""
        workers = self.executor.all_workers
        return all(workers[number].completed >= self.bases[number] for number in self.marks)

    @waits
    def wait_for(self, index: int) -> None:
        for worker, step in zip(self.executor.all_workers, self.clocks[index], strict=False):
            if worker.completed < step:
                worker.wait_for(step)

    @waits
    def end(self) -> bool:
        self.wait_for(self.launches - 1)
        return self.parts is None and not is_over()

    def _alone(self, index: int, entry: Entry) -> Job:
        completion = self._looked_at.get(index) or Completion()
        prepared, holdings, args, ndrange, places, after = entry
        job = Job(self.executor, self.number + index, prepared, holdings, completion)
        job.args, job.ndrange, job.places, job.after = args, ndrange, places, after
        job.bases = [*self.clocks[index - 1], self._host] if index else self.bases.copy()
        job.clock = [*self.clocks[index], 0]
        completion.carry_on(job)
        return job

    def among(self, operations: Collection[int], start: int, end: int, mark: object) -> Sequence[Job]:
        if self.parts is None:
            return (self,)
        found, first = [], start
        for number, kept in self.marks.items():
            if kept is not mark:
                continue
            for index, last in self.on_workers[number]:
                if any(first <= at < last for at in operations):
                    found.append(self.parts[index])
                first = last
        return found

    def numbered(self, end: int, mark: object) -> Sequence[tuple[int, int]]:
        for number, kept in self.marks.items():
            if kept is mark:
                return [(self.number + index, pending) for index, pending in self.on_workers[number]]
        return ()  # it has met a failure, and was let go

    def let_go(self) -> None:
        super().let_go()
        self.marks, self.on_workers = {}, {}
