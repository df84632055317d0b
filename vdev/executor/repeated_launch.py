"""Runs: a launch made again and again with nothing in between, handed over by the thread that submits it.

Launches of a run that precede the same marker are one job: they have the same buffers and follow each other on each
of their workers, and so end together. All that is left to do for each is one call of the back end, and to count it.
Decides when a run ends: once anything else has been submitted, to whichever worker, or a worker has placed its
marker. Then `again` does nothing and says so, and the launch is submitted like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import get_ident
from typing import TYPE_CHECKING

from vdev.errors import OUT_OF_RESOURCES, BackendError
from vdev.executor.completion import Completion
from vdev.executor.job import Job
from vdev.executor.mark import MARK_EVERY, Mark
from vdev.executor.prepare import Batch
from vdev.executor.steps import LaunchStep
from vdev.executor.worker import Worker

if TYPE_CHECKING:
    from vdev.executor.executor import Executor


def _mark(worker: Worker) -> None:
    """Have the worker put a marker, on a thread that has its turn and may be at work with another GPU."""
    outside = worker.backend.outside()
    worker.backend.enter()
    worker.mark()
    worker.backend.leave(outside)


class _Part:
    """What one worker does of a launch that is split."""

    __slots__ = ("launch", "mark", "step", "worker", "written")

    def __init__(
        self,
        worker: Worker,
        step: LaunchStep,
        mark: Mark,
        launch: Callable[[], object],
        written: Sequence[list[int]],
    ) -> None:
        self.worker = worker
        self.step = step
        self.mark = mark
        self.launch = launch
        self.written = written


class Run:
    """Launches like the last command that was submitted, `job`, on however many workers. None waits for another worker."""

    __slots__ = ("_executor", "_job", "_most", "_parts", "_standing", "completion", "number")

    def __init__(self, executor: Executor, job: Job, parts: Sequence[_Part]) -> None:
        self._executor = executor
        self._job = job
        self._parts = parts
        self._most = MARK_EVERY - max(len(part.mark.jobs) for part in parts)
        self._standing = executor.standing
        self.completion = job.completion
        self.number = job.number

    def again(self) -> bool:
        """Launch once more. False where that is not possible: then nothing has happened."""
        executor, parts, number = self._executor, self._parts, self.number
        if executor.last_number != number or executor.standing is not self._standing:
            return False
        held: list[Worker] = []
        mine = get_ident()
        try:
            for part in parts:
                worker = part.worker
                if not worker.turn.acquire(False):
                    return False
                held.append(worker)
                worker.holder = mine
            with executor.lock:
                if executor.last_number != number or self._is_over():
                    return False
                for part in parts:
                    if part.worker.next_mark is not part.mark:
                        return False
                if not self._launch():
                    return False
            job = self._job
            for worker in held:
                if job.launches >= self._most or worker.wanted <= worker.issued:
                    _mark(worker)
        finally:
            for worker in held:
                worker.holder = 0
                worker.turn.release()
                if not worker.watching or worker.queue:
                    worker.wake()
        return True

    def _is_over(self) -> bool:
        """Whether no launch may be added: one has failed, was said to be running, or all were said to have ended, which is
        known without a marker where a thread has waited for the devices. Under the executor's lock.
        """
        completion = self._job.completion
        return completion.settled or completion.error is not None or self._job.was_running

    def _launch(self) -> bool:
        started = 0
        try:
            for part in self._parts:
                part.launch()
                started += 1
        except BaseException as error:
            if started == 0 and isinstance(error, Exception):
                return False  # refused: submitted like any other, it gets its error
            # Some workers have their part and others not, as where a step of a command cannot be handed over.
            for part in self._parts[started:]:
                self._executor.undone(part.worker.number, part.step)
                failure = BackendError(OUT_OF_RESOURCES, f"a launch was left half done: {error}")
                self._executor.step_failed(self._job, part.step, failure)
            self._count()
            if not isinstance(error, Exception):
                raise
            return True
        self._count()
        return True

    def _count(self) -> None:
        """One more step of each worker's is the job's. Under the executor's lock."""
        executor, job = self._executor, self._job
        alone = (
            executor.last_number == self.number
        )  # else a signal's handler has submitted something, which comes after us
        if alone:
            executor.last_number = self.number = self.number + 1
            job.launches += 1
        for part in self._parts:
            worker = part.worker
            if alone:
                worker.issued = worker.submitted = worker.submitted + 1
            job.clock[worker.number] = step = worker.submitted
            for written in part.written:
                written[worker.number] = step
            part.mark.ends[-1] += 1  # nobody else can have put it: we have the turn


def open_run(executor: Executor, completion: Completion) -> Run | None:
    """The run that begins with the command of `completion`, which was submitted last; None where it cannot be
    repeated in this way.
    """
    if not executor.any_thread:
        return None
    job = completion.progress
    if not isinstance(job, Job) or completion.profiled or completion.error is not None or job.after:
        return None
    with executor.lock:  # it is not let go meanwhile
        return _open_run(executor, job) if job.number in executor.unsettled else None


def _open_run(executor: Executor, job: Job) -> Run | None:
    prepared = job.prepared
    if not prepared.batches or prepared.hazards:
        return None
    parts = []
    for number, batch in prepared.batches:
        part = _open_part(executor, job, number, batch)
        if part is None:
            return None
        parts.append(part)
    return Run(executor, job, parts)


def _open_part(executor: Executor, job: Job, number: int, batch: Batch) -> _Part | None:
    worker, step = executor.all_workers[number], batch.steps[0]
    if not worker.backend.any_thread or not batch.plain or batch.careful or not isinstance(step, LaunchStep):
        return None
    if worker.records is not None and worker.records.exact:
        return None  # the times of every launch are wanted
    mark = worker.next_mark  # the thread may put it at any time: looked up once
    jobs = mark.jobs
    # Where others may wait for single commands, what came before gets a marker of its own.
    if not jobs or (jobs[0] if worker.marks_by_age else jobs[-1]) is not job:
        return None
    launch = step.again(worker, job)
    if launch is None:
        return None
    #: of buffers that the launch changes here: by worker, its last step that does so
    written = [job.holdings[slot].written for slot, at, *_ in job.prepared.own_writes if at == number]
    return _Part(worker, step, mark, launch, written)
