"""Runs: a launch made again and again with nothing in between, handed over by the thread that submits it.

Launches of a run that stand before the same marker are one job: they have the same buffers, follow each other on each of
its workers, and so end together. What is left to do for each is one call of the back end and to count it. Decides when that
is so: not any longer once anything else has been submitted, to whatever worker; with one worker, anything else than
launches that leave all buffers where they are. Then `again` does nothing and says so, and the launch is submitted like
any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import get_ident
from typing import TYPE_CHECKING, Any

from vdev.errors import OUT_OF_RESOURCES, BackendError
from vdev.executor.completion import Completion
from vdev.executor.job import Job
from vdev.executor.mark import MARK_EVERY, MARKS_IN_FLIGHT, Mark
from vdev.executor.prepare import Batch
from vdev.executor.steps import LaunchStep
from vdev.executor.whole import WholeLaunchStep
from vdev.executor.worker import Worker

if TYPE_CHECKING:
    from vdev.executor.executor import Executor
    from vdev.translators.ranges.ndrange import NDRange

#: arguments and index space of a launch
Others = tuple[Sequence[Any], "NDRange | None"]


class Run:
    """Launches like the last command that was submitted to `worker`, `job`.

    Where it is the only worker, others like them may come between (`Executor.standing`): what is repeated here still is
    as it was. Behind a marker a new job goes on, with a completion of its own.
    """

    __slots__ = (
        "_args",
        "_executor",
        "_holdings",
        "_job",
        "_launch",
        "_mark",
        "_ndrange",
        "_places",
        "_standing",
        "_step",
        "_written",
        "completion",
        "number",
        "worker",
    )

    def __init__(
        self,
        executor: Executor,
        worker: Worker,
        job: Job,
        mark: Mark,
        launch: Callable[[], object] | None,
        step: LaunchStep,
    ) -> None:
        """`mark`: the worker's next, which `job` has been entered into last. `launch`: what makes the job's `step` again
        as it was; None where nothing does.
        """
        self._executor = executor
        self.worker = worker
        self._job = job
        self.completion = job.completion
        self._launch = launch
        self._step = step
        self._mark = mark
        self._standing = executor.standing
        # of the last launch: a job that has ended keeps nothing
        self._holdings, self._args, self._ndrange, self._places = (
            job.holdings,
            job.args,
            job.ndrange,
            job.places,
        )
        #: of buffers that the launch changes: by worker, its last step that does so
        self._written = [job.holdings[slot].written for slot, *_ in job.prepared.own_writes]
        self.number = job.number  #: of the last launch

    def again(self, order: Completion | None = None) -> bool:
        """Launch once more. False where that is not possible: then nothing has happened. `order`: the completion of the
        command before in its queue.
        """
        return self._once_more(None, order)

    def with_others(
        self, args: Sequence[Any], ndrange: NDRange | None, order: Completion | None = None
    ) -> bool:
        """The same with other arguments, which refer to the same memory, and another index space."""
        return isinstance(self._step, WholeLaunchStep) and self._once_more((args, ndrange), order)

    def _once_more(self, others: Others | None, order: Completion | None) -> bool:
        executor, worker = self._executor, self.worker
        if executor.standing is not self._standing or not worker.turn.acquire(False):
            return False
        try:
            worker.holder = get_ident()
            with executor.lock:  # nothing is submitted meanwhile
                if executor.standing is not self._standing or not self._make(others, order):
                    return False
            if self._mark.ends[-1] >= MARK_EVERY or worker.wanted <= worker.issued:
                _mark(worker)
        finally:
            worker.holder = 0
            worker.turn.release()
            if not worker.watching or worker.queue:
                worker.wake()
        if len(worker.marks) > MARKS_IN_FLIGHT:
            worker.throttle_here()
        return True

    def _make(self, others: Others | None, order: Completion | None) -> bool:
        """Launch, and count it. Under the executor's lock, with the worker's turn."""
        executor, worker, job = self._executor, self.worker, self._job
        before = executor.last_number
        alone = before == self.number
        if not alone and (worker.queue or executor.has_failed):
            return False
        # Records have the commands of a job in a row.
        if worker.next_mark is not self._mark or not (alone or worker.records is None):
            if executor.has_failed or executor.closed:
                return False
            job = self._next_job(order)
        elif job.completion.error is not None:
            return False
        if others is not None:
            job.args, job.ndrange = self._args, self._ndrange = others
            self._launch = None  # what makes the last launch again makes another one from now on
        try:
            if alone and job is self._job and self._launch is not None:
                self._launch()
            else:
                worker.backend.enter()
                self._step.run(worker, job)
        except Exception:
            return False  # refused: submitted like any other, it gets its error
        except BaseException:  # an interrupt of the program's: it may have been launched, so it counts
            self._count(job, before)
            raise
        self._count(job, before)
        return True

    def _next_job(self, order: Completion | None) -> Job:
        """The job of launches behind the marker that the last one's stands before."""
        job = Job(self._executor, 0, self._job.prepared, self._holdings, Completion())
        job.args, job.ndrange, job.places = self._args, self._ndrange, self._places
        job.launches = 0
        if order is not None:
            job.join(order)
        return job

    def _count(self, job: Job, before: int) -> None:
        """One more step of the worker's is the job's. `before`: the number of the last plan when it was begun. Under the
        executor's lock.
        """
        executor, worker, at = self._executor, self.worker, self.worker.number
        # else a signal's handler has submitted something, which comes after us
        next_one, is_new = executor.last_number == before, job is not self._job
        if is_new:
            job.bases = [each.submitted for each in executor.all_workers]
        if next_one or is_new:
            executor.last_number = self.number = executor.last_number + 1
            job.launches += 1
        if next_one:
            worker.issued = worker.submitted = worker.submitted + 1
        step = job.clock[at] = worker.submitted
        for written in self._written:
            written[at] = step
        mark = worker.next_mark
        if mark.jobs and mark.jobs[-1] is job:
            mark.ends[-1] = worker.backend.pending()
        else:
            mark.jobs.append(job)
            mark.ends.append(worker.backend.pending())
        if is_new:
            job.number = self.number
            executor.unsettled[job.number] = job
            job.completion.bind(job)
            self._job, self.completion, self._mark = job, job.completion, mark


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
        launch: Callable[[], object] | None,
        written: Sequence[list[int]],
    ) -> None:
        self.worker = worker
        self.step = step
        self.mark = mark
        self.launch = launch
        self.written = written


class SplitRun:
    """Launches over several workers like the last command that was submitted, `job`. None waits for another worker."""

    __slots__ = ("_executor", "_job", "_most", "_parts", "_standing", "completion", "number")

    def __init__(self, executor: Executor, job: Job, parts: Sequence[_Part]) -> None:
        self._executor = executor
        self._job = job
        self._parts = parts
        self._most = MARK_EVERY - max(len(part.mark.jobs) for part in parts)
        self._standing = executor.standing
        self.completion = job.completion
        self.number = job.number

    def again(self, order: Completion | None = None) -> bool:
        """Launch once more. False where that is not possible: then nothing has happened. `order` is this run's own
        completion: nothing else has been submitted.
        """
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
                if executor.last_number != number or self._job.completion.error is not None:
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

    def _launch(self) -> bool:
        started = 0
        try:
            for part in self._parts:
                assert part.launch is not None, "looked at when the run began"
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


def open_run(executor: Executor, completion: Completion) -> Run | SplitRun | None:
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


def _open_run(executor: Executor, job: Job) -> Run | SplitRun | None:
    prepared = job.prepared
    if not prepared.batches or prepared.hazards:
        return None
    if len(prepared.batches) == 1:
        part = _open_part(executor, job, *prepared.batches[0])
        return None if part is None else Run(executor, part.worker, job, part.mark, part.launch, part.step)
    parts = []
    for number, batch in prepared.batches:
        part = _open_part(executor, job, number, batch)
        if part is None or part.launch is None:
            return None
        parts.append(part)
    return SplitRun(executor, job, parts)


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
    if launch is None and not isinstance(step, WholeLaunchStep):
        return None
    #: of buffers that the launch changes here: by worker, its last step that does so
    written = [job.holdings[slot].written for slot, at, *_ in job.prepared.own_writes if at == number]
    return _Part(worker, step, mark, launch, written)
