"""Legs of compiled plans: calls for steps of one worker's that follow one another, made one by one.

Decides what a call that is refused means for its command: what was not done fails, and copies that the directory counts on are
made all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from vdev.backends.compiling import Call, CompilingBackend, ListedCall
from vdev.executor.job import Job, JobExecutor
from vdev.executor.worker_progress import NEVER

if TYPE_CHECKING:
    from vdev.executor.failures import Failures
    from vdev.executor.mark import Mark
    from vdev.executor.step import Step
    from vdev.executor.worker import Worker
    from vdev.executor.worker_progress import Waits

#: (argument, value) of the values that are others than those packed last
Changed = Sequence[tuple[int, bytes]]


class CompilingExecutor(JobExecutor, Protocol):
    """The executor as compiled plans see it (`vdev.executor.executor.Executor`)."""

    all_workers: tuple[Worker, ...]
    lock: Any
    standing: object  #: another object whenever a command handed over as before would not come in its place
    last_number: int  #: of the last command
    unsettled: dict[int, Job]  #: by number: commands that have not ended
    failures: Failures  #: under the lock
    closed: bool  #: whether nothing is taken any more

    def queue_job(self, job: Job, waits: dict[int, Waits] | None, wake: bool) -> None:
        """Leave a job to its workers' threads."""

    def undone(self, number: int, step: Step) -> None:
        """That worker did not perform a step, or not wholly, because its command failed."""

    def step_failed(self, job: Job, step: Step, error: Exception) -> None:
        """A step could not be handed over."""


class Leg:
    """Calls for steps of one worker's that follow one another."""

    __slots__ = (
        "after",
        "calls",
        "coherent",
        "fences",
        "is_aside",
        "is_last",
        "last",
        "opens",
        "steps",
        "worker",
    )

    def __init__(
        self,
        worker: Worker,
        calls: Sequence[tuple[Call, Sequence[Step]]],
        last: int,
        after: Sequence[Worker],
        *,
        fences: bool,
        is_last: bool,
        opens: bool = False,
        is_aside: bool = False,
    ) -> None:
        self.worker = worker
        self.calls = [call for call, _ in calls]
        self.steps = [steps for _, steps in calls]  #: by call
        self.coherent = [step for _, steps in calls for step in steps if step.coherent]
        self.last = last  #: how many steps of the worker's there are up to here
        self.after = after  #: workers whose fences in this plan come first
        self.fences = fences  #: whether other workers' steps in this plan wait for it
        self.is_last = is_last  #: of its worker's
        #: whether it is an interior, beside which the worker's next leg is carried out; and whether it is that next leg
        self.opens, self.is_aside = opens, is_aside

    def go(self, executor: CompilingExecutor, job: Job, changed: Changed) -> None:
        """Make the calls, and put the fence for which others wait."""
        has_failed = job.completion.error is not None
        if self.opens or (
            self.is_aside and has_failed
        ):  # the leg before it may have failed before it has opened
            self._side.open_aside()
        try:
            self._go(executor, job, changed)
        finally:
            if self.is_aside:
                self.close()

    def close(self) -> None:
        """What its worker is given from now on comes behind what was made of it."""
        self._side.close_aside()

    @property
    def _side(self) -> CompilingBackend:
        backend = self.worker.compiling
        assert backend is not None, "plans are compiled for such back ends alone"
        return backend

    def _go(self, executor: CompilingExecutor, job: Job, changed: Changed) -> None:
        worker, mark = self.worker, self.worker.next_mark
        first = worker.backend.pending() if self.coherent else 0
        done = -1
        try:
            if job.completion.error is None:
                for call in self.calls:
                    call(changed)
                    done += 1
                moved: Sequence[Step] = self.coherent
            else:
                moved = self._go_on(executor, job, 0)
        except Exception as error:  # it is the command's failure
            self.fail(executor, job, done + 1, error, first, mark)
            return
        self._end(job, moved, first, mark)

    def fail(
        self, executor: CompilingExecutor, job: Job, at: int, error: Exception, first: int, mark: Mark
    ) -> None:
        """Call number `at` has failed, those before it were made: go on as it is right. `first`, `mark`: the worker's operations
        and its next mark before.
        """
        for step in self.steps[at]:
            executor.undone(self.worker.number, step)
            executor.step_failed(job, step, error)
        moved = [step for steps in self.steps[:at] for step in steps if step.coherent]
        moved += self._go_on(executor, job, at + 1)
        self._end(job, moved, first, mark)

    def _end(self, job: Job, moved: Sequence[Step], first: int, mark: Mark) -> None:
        """Enter what was handed over, and put the fence. May raise BackendError."""
        self.enter(job, moved, first, mark)
        if self.fences:
            self.worker.put_fence()

    def enter(self, job: Job, moved: Sequence[Step], first: int, mark: Mark) -> None:
        """The worker has been given its steps; of the coherent ones, these."""
        worker = self.worker
        if moved:
            end, moves = worker.backend.pending(), worker.next_mark.moves
            for step in moved:
                moves.append((job, step, first, end))  # one or two, as a rule
            if worker.next_mark is not mark:  # a finaliser of the program's has had one put
                worker.next_mark.moves += [(job, step, 0, end) for step in moved]
                mark.moves += [(job, step, first, NEVER) for step in moved]
        worker.issued = job.bases[worker.number] + self.last

    def _go_on(self, executor: CompilingExecutor, job: Job, at: int) -> list[Step]:
        """Of a command that has failed: make the calls of coherent steps, from call number `at` on; which of these have been made."""
        worker = self.worker
        moved: list[Step] = []
        for call, steps in zip(self.calls[at:], self.steps[at:], strict=True):
            if steps[0].coherent:
                try:
                    call(())
                    moved += steps
                    continue
                except Exception as error:
                    for step in steps:
                        executor.step_failed(job, step, error)
            for step in steps:
                executor.undone(worker.number, step)
        return moved

    @property
    def listed(self) -> Sequence[ListedCall] | None:
        """Its calls, if all of them can be made from a list."""
        found = [call for call in self.calls if isinstance(call, ListedCall)]
        return found if len(found) == len(self.calls) else None
