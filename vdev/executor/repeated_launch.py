"""Runs: a launch made again and again, with other values at most and nothing in between, handed over by the thread that submits it.

Launches of a run that precede the same marker are one job: they have the same buffers and follow each other on each
of their workers, and so end together. All that is left to do for each is one call of the back end, and to count it.
Behind a marker, and once somebody has waited for the last launch or been told that it is running, the run goes on with
a job of its own, so that nothing is told of a launch before its end.
Decides when a run ends: once anything else has been submitted, to whichever worker, or after so many launches. Then
`again` does nothing and says so, and the launch is submitted like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import get_ident
from typing import TYPE_CHECKING, Any

from vdev.errors import OUT_OF_RESOURCES, BackendError
from vdev.executor.compiled_plan import CompiledPlan, compiled_for
from vdev.executor.completion import Completion
from vdev.executor.job import Job
from vdev.executor.launch_step import LaunchStep
from vdev.executor.mark import MARK_EVERY, Mark
from vdev.executor.prepare import Batch
from vdev.executor.worker import Worker

if TYPE_CHECKING:
    from vdev.backends.base import Repeated
    from vdev.executor.executor import Executor
    from vdev.executor.holdings import Holdings


def _mark(worker: Worker) -> None:
    """Have the worker put a marker, on a thread that has its turn and may be at work with another GPU."""
    outside = worker.backend.outside()
    worker.backend.enter()
    worker.mark()
    worker.backend.leave(outside)


class _Part:
    """What one worker does of a launch that is split."""

    __slots__ = ("backend", "launch", "mark", "number", "slots", "step", "worker", "written")

    def __init__(
        self,
        worker: Worker,
        step: LaunchStep,
        mark: Mark,
        launch: Repeated,
        slots: Sequence[int],
        written: Sequence[list[int]],
    ) -> None:
        self.worker, self.number, self.backend = worker, worker.number, worker.backend
        self.step = step
        self.mark = mark  #: behind the last launch
        self.launch = launch
        self.slots = slots  #: of the buffers that it changes here
        #: of each of them: by worker, its last step that changes it
        self.written = written


class Run:
    """Launches like the last command that was submitted, `job`, on however many workers. None waits for another worker."""

    __slots__ = (
        "_executor",
        "_is_due",
        "_job",
        "_left",
        "_most",
        "_parts",
        "_plan",
        "_standing",
        "_untold",
        "_values",
        "_workers",
        "number",
    )

    def __init__(
        self, executor: Executor, job: Job, parts: Sequence[_Part], plan: CompiledPlan | None
    ) -> None:
        """`plan`: that of all parts, if it can make their calls (`CompiledPlan.is_alone`)."""
        self._executor = executor
        self._plan = plan
        self._workers = [part.worker for part in parts]
        self._job = job
        self._parts = parts
        #: launches still to come: then one is submitted, which is when ways are chosen
        self._left = MARK_EVERY
        self._most = _most_launches(parts)  #: launches of the job after which a marker is due
        self._is_due = False  #: whether one may be due behind the last launch
        self._untold = 0  #: parts of it that are not counted by the back ends yet
        self._standing = executor.standing
        self.number = job.number
        #: by argument that is a value: what it was in the last launch that the parts have made by themselves
        self._values = {at: arg for at, arg in enumerate(job.args) if type(arg) is bytes}

    def again(
        self, args: Sequence[Any], holdings: Callable[[Sequence[Any]], Sequence[Holdings]]
    ) -> Completion | None:
        """Launch once more: what tells of that launch's end. None where that is not possible: then nothing has happened. `args`: the
        launch's, with the same buffers, which this does not keep alive; `holdings` finds the records of these, by slot.
        """
        executor = self._executor
        if executor.last_number != self.number or executor.standing is not self._standing or not self._left:
            return None
        held: list[Worker] = []
        mine = get_ident()
        try:
            for worker in self._workers:
                if not worker.turn.acquire(False):
                    return None
                held.append(worker)
                worker.holder = mine
            executor.lock.acquire()  # `with` takes twice as long, and nothing is raised in between (`vdev.process.interrupts`)
            try:
                if executor.last_number != self.number or executor.standing is not self._standing:
                    return None
                if self._ends_with_job():
                    launched = self._launch(args)
                else:
                    launched = self._may_begin_anew() and self._launch_apart(args, holdings(args))
                if not launched:
                    return None
                job = self._job
            finally:
                executor.lock.release()
            self._left -= 1
            if self._is_due:
                self._mark(job)
        finally:
            for worker in held:
                worker.holder = 0
                worker.turn.release()
                if not worker.watching or worker.queue:
                    worker.wake()
        return job.completion

    def _mark(self, job: Job) -> None:
        """A launch was made, as a part of `job`: put markers where they are due. With the workers' turns."""
        for part in self._parts:
            count = len(part.mark.jobs) + job.launches
            if count >= MARK_EVERY or part.worker.wanted <= part.worker.issued:
                _mark(part.worker)

    def _changed(self, args: Sequence[Any]) -> Sequence[tuple[int, bytes]]:
        """The values that are not what they were in the last launch."""
        found: list[tuple[int, bytes]] = []
        for at, before in self._values.items():
            value = args[at]
            if value is not before and value != before:
                found.append((at, value))
        return found

    def _ends_with_job(self) -> bool:
        """Whether a launch may be a part of the last one's job: that has met no failure, was not said to be running or to have
        ended, and there is no marker behind it. Under the executor's lock, with the workers' turns.

        That it has ended is known without a marker where a thread has waited for the devices.
        """
        job = self._job
        if job.completion.settled or job.completion.error is not None or job.was_running:
            return False
        for part in self._parts:  # noqa: SIM110 (a generator takes longer)
            if part.worker.next_mark is not part.mark:
                return False
        return True

    def _may_begin_anew(self) -> bool:
        """Whether a launch may be a job of its own: all before it was handed over, and nothing is known to have failed."""
        executor = self._executor
        if executor.failures.any or executor.closed:
            return False
        return all(
            not part.worker.queue and part.worker.issued == part.worker.submitted for part in self._parts
        )

    def _launch(self, args: Sequence[Any]) -> bool:
        """As a part of the last launch's job."""
        started, error = self._start(args)
        if started == 0 and isinstance(error, Exception):
            return False  # refused: submitted like any other, it gets its error
        self._count()
        if error is not None:
            self._left_half_done(started, error)
        return True

    def _start(self, args: Sequence[Any]) -> tuple[int, BaseException | None]:
        """Hand the parts over: how many were, and what has kept the next one from it."""
        started, plan = 0, self._plan
        try:
            if plan is not None and self._takes_lists():
                self._untold, error = plan.again(args)
                return self._untold, error
            changed = self._changed(args)
            for part in self._parts:
                part.launch(changed)
                started += 1
            self._values.update(changed)
        except BaseException as error:
            return started, error
        return started, None

    def _takes_lists(self) -> bool:
        for part in self._parts:  # noqa: SIM110 (a generator takes longer)
            if not part.backend.takes_lists():  # type: ignore[attr-defined]  # plans are compiled for such back ends alone
                return False
        return True

    def _tell(self) -> None:
        """Tell the back ends that have got a call from the plan's list."""
        for part in self._parts[: self._untold]:
            part.backend.made(1, 1)  # type: ignore[attr-defined]
        self._untold = 0

    def _left_half_done(self, started: int, error: BaseException) -> None:
        """Some workers have their part and others not, as where a step of a command cannot be handed over."""
        for part in self._parts[started:]:
            self._executor.undone(part.worker.number, part.step)
            failure = BackendError(OUT_OF_RESOURCES, f"a launch reached only some of its workers: {error}")
            self._executor.step_failed(self._job, part.step, failure)
        if not isinstance(error, Exception):
            raise error

    def _count(self) -> None:
        """One more step of each worker's is the job's. Under the executor's lock."""
        executor, job = self._executor, self._job
        alone = (
            executor.last_number == self.number
        )  # else a signal's handler has submitted something, which comes after us
        if alone:
            executor.last_number = self.number = self.number + 1
            job.launches += 1
        clock, is_due = job.clock, job.launches >= self._most
        if self._untold:
            self._tell()
        for part in self._parts:
            worker, number = part.worker, part.number
            if alone:
                worker.issued = worker.submitted = worker.submitted + 1
            clock[number] = step = worker.submitted
            for written in part.written:
                written[number] = step
            # Nobody else can have put it: we have the turn. Reads of the program's may have come between.
            part.mark.ends[-1] = part.backend.pending()
            if worker.wanted <= step:
                is_due = True
        self._is_due = is_due

    def _launch_apart(self, args: Sequence[Any], holdings: Sequence[Holdings]) -> bool:
        """As a job of its own behind the last one, with which the run goes on."""
        executor, before = self._executor, self._job
        number = executor.last_number = self.number + 1
        job = Job(executor, number, before.prepared, holdings, Completion())
        job.args, job.ndrange, job.places = args, before.ndrange, before.places
        job.join(before.completion)
        job.order = None if before.completion.settled else before.completion
        job.bases = [worker.submitted for worker in executor.all_workers]
        written = self._number(job)
        started, error = self._start(args)
        if started == 0 and isinstance(error, Exception) and executor.last_number == number:
            executor.last_number = self.number
            for part in self._parts:
                part.worker.submitted = part.worker.issued
            for steps, at, step in written:
                steps[at] = step
            return False  # refused: submitted like any other, it gets its error
        self._enter(job)
        if error is not None:
            self._left_half_done(started, error)
        return True

    def _number(self, job: Job) -> list[tuple[list[int], int, int]]:
        """Number a job's steps, before they are handed over: what a finaliser submits meanwhile comes behind them. What the
        buffers' records said before: (record, worker, step).
        """
        before = []
        for part in self._parts:
            worker = part.worker
            worker.submitted = job.clock[worker.number] = step = worker.submitted + 1
            part.written = [job.holdings[slot].written for slot in part.slots]
            for written in part.written:
                before.append((written, worker.number, written[worker.number]))
                written[worker.number] = step
        return before

    def _enter(self, job: Job) -> None:
        """Let the run go on with a job of one launch. Under the executor's lock."""
        executor = self._executor
        if self._untold:
            self._tell()
        self._job, self.number, self._is_due = job, job.number, True
        executor.unsettled[job.number] = job
        job.completion.bind(job)
        for part in self._parts:
            worker = part.worker
            worker.issued = job.clock[worker.number]
            mark = part.mark = worker.next_mark
            mark.jobs.append(job)
            mark.ends.append(worker.backend.pending())
        self._most = _most_launches(self._parts)


def _most_launches(parts: Sequence[_Part]) -> int:
    return MARK_EVERY - max(len(part.mark.jobs) for part in parts)


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
    plan = compiled_for(job)
    return Run(executor, job, parts, plan if plan is not None and plan.is_alone else None)


def _open_part(executor: Executor, job: Job, number: int, batch: Batch) -> _Part | None:
    worker, step = executor.all_workers[number], batch.steps[0]
    if not worker.backend.any_thread or not batch.plain or batch.careful or not isinstance(step, LaunchStep):
        return None
    mark = worker.next_mark  # the thread may put it at any time: looked up once
    jobs = mark.jobs
    # Where others may wait for single commands, what came before gets a marker of its own.
    if not jobs or (jobs[0] if worker.marks_by_age else jobs[-1]) is not job:
        return None
    launch = step.again(worker, job)
    if launch is None:
        return None
    slots = [slot for slot, at, *_ in job.prepared.own_writes if at == number]
    return _Part(worker, step, mark, launch, slots, [job.holdings[slot].written for slot in slots])
