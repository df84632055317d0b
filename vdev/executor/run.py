"""Runs: a launch made again and again with nothing in between, handed over by the thread that submits it.

All launches of a run are one job: they have the same buffers, follow each other on one worker, stand before the
same marker, and so end together. What is left to do for each is one call of the back end and to count it. Decides
when that is so: not any longer once anything else has been submitted, to whatever worker, or a marker stands behind
the run. Then `again` does nothing and says so, and the launch is submitted like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from typing import TYPE_CHECKING

from vdev.executor.job import Job
from vdev.executor.steps import LaunchStep
from vdev.executor.worker import MARK_EVERY, Mark, Worker

if TYPE_CHECKING:
    from vdev.executor.completion import Completion
    from vdev.executor.executor import Executor


class Run:
    """Launches like the last command that was submitted to `worker`, `job`."""

    __slots__ = (
        "_completion",
        "_executor",
        "_job",
        "_launch",
        "_mark",
        "_most",
        "_written",
        "number",
        "worker",
    )

    def __init__(
        self, executor: Executor, worker: Worker, job: Job, mark: Mark, launch: Callable[[], object]
    ) -> None:
        """`mark`: the worker's next, which `job` has been entered into last."""
        self._executor = executor
        self.worker = worker
        self._job = job
        self._completion = job.completion
        self._launch = launch
        self._mark = mark
        self._most = MARK_EVERY - len(mark.jobs)  #: launches until the next mark
        #: of buffers that the launch changes: by worker, its last step that does so
        self._written = [job.holdings[slot].written for slot, *_ in job.prepared.own_writes]
        self.number = job.number  #: of the last launch

    def again(self) -> bool:
        """Launch once more. False where that is not possible: then nothing has happened."""
        executor, worker, number = self._executor, self.worker, self.number
        if executor._number != number or not worker.turn.acquire(False):
            return False
        try:
            worker.holder = get_ident()
            with executor._lock:  # nothing is submitted meanwhile
                if (
                    executor._number != number
                    or worker._next is not self._mark
                    or self._completion.error is not None
                ):
                    return False
                try:
                    self._launch()
                except Exception:
                    return False  # refused: submitted like any other, it gets its error
                self._count(number)
            if self._job.launches >= self._most or worker.wanted <= worker.issued:
                worker.mark()
        except BaseException:  # an interrupt of the program's: it may have been launched, so it counts
            with executor._lock:
                if self.number == number:
                    self._count(number)
            raise
        finally:
            worker.holder = 0
            worker.turn.release()
            if not worker.watching or worker.queue:
                worker.wake()
        return True

    def _count(self, number: int) -> None:
        """One more step of the worker's is the job's. `number`: the last launch's. Under the executor's lock."""
        executor, worker, job, mark = self._executor, self.worker, self._job, self._mark
        if executor._number == number:
            executor._number = self.number = number + 1
            job.launches += 1
            worker.issued = worker.submitted = step = worker.submitted + 1
        else:  # a signal's handler has submitted something, which comes after us
            step = worker.submitted
        at = worker.number
        job.clock[at] = step
        for written in self._written:
            written[at] = step
        if worker._next is mark:
            mark.ends[-1] += 1
        else:
            worker._next.jobs.append(job)
            worker._next.ends.append(worker.backend.pending())


def open_run(executor: Executor, completion: Completion) -> Run | None:
    """The run that begins with the command of `completion`, which was submitted last; None where it cannot be
    repeated in this way.
    """
    if not executor._any_thread:
        return None
    job = completion.progress
    if not isinstance(job, Job) or completion.profiled or completion.error is not None or job.after:
        return None
    with executor._lock:  # it is not let go meanwhile
        return _open_run(executor, job) if job.number in executor._unsettled else None


def _open_run(executor: Executor, job: Job) -> Run | None:
    prepared = job.prepared
    if len(prepared.batches) != 1 or prepared.hazards:
        return None
    number, batch = prepared.batches[0]
    worker, step = executor.all_workers[number], batch.steps[0]
    if not worker.backend.any_thread or not batch.plain or batch.careful or not isinstance(step, LaunchStep):
        return None
    if worker.records is not None and worker.records.exact:
        return None  # the times of every launch are wanted
    mark = worker._next  # the thread may put it at any time: looked up once
    jobs = mark.jobs
    # Where others may wait for single commands, what came before gets a marker of its own.
    if not jobs or (jobs[0] if worker.marks_by_age else jobs[-1]) is not job:
        return None
    launch = step.again(worker, job)
    return None if launch is None else Run(executor, worker, job, mark, launch)
