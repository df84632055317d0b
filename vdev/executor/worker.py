"""A worker's thread: it performs batches in the order they were submitted.

Decides when to hand work over, when to ask for a marker and when to sleep; never in which order. How far it has got
is `vdev.executor.worker_progress`.

Waiting never goes in circles: a step waits only for steps of commands that were submitted before its own, or
that precede it in its plan. A thread that is going to block has first put a marker behind everything it
issued, so that nobody needs the thread itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from vdev.backends.base import Allocation, Backend, Marker
from vdev.backends.compiling import CompilingBackend
from vdev.errors import OUT_OF_RESOURCES, BackendError
from vdev.executor.mark import MARK_AFTER_NS, MARK_EVERY, MARK_NBYTES, MARKS_IN_FLIGHT
from vdev.executor.worker_memory import WorkerMemory
from vdev.executor.worker_progress import TURN_TIMEOUT, Entry, ProgressExecutor, Waits, WorkerProgress
from vdev.planner.instructions import HOST
from vdev.process.finalisers import enter_own_thread, leave_own_thread

if TYPE_CHECKING:
    from vdev.executor.completion import Completion
    from vdev.executor.job import Job
    from vdev.executor.prepare import Batch, Ending
    from vdev.executor.records import WorkRecords
    from vdev.executor.step import Step

#: seconds between two looks of an idle thread at how far the device is: at first; when nothing has happened for a
#: while; and when somebody wants to be called
GRACE, LONGEST_PAUSE, HURRIED_PAUSE = 0.002, 0.016, 0.00005
#: looks at an idle device before the thread goes to sleep until it is woken
LINGERING = 4
#: where work is recorded: the mean duration of operations from which on the times of each are asked for
TIMED_FROM_NS = 40_000


class WorkerExecutor(ProgressExecutor, Protocol):
    """The executor as its workers see it (`vdev.executor.executor.Executor`)."""

    no_steps: list[int]  #: bases of a job that waits for nothing
    red_zones: bool  #: whether replicas get them
    is_holding: bool  #: whether a fork is about to come, for which workers step aside

    @property
    def let_go(self) -> Callable[[], bool]:
        """Gives up what nobody uses at the moment."""

    @property
    def all_workers(self) -> Sequence[Worker]:
        """By number; the one for host memory is the last."""

    def worker(self, number: int) -> Worker:
        """The worker of a number, which is -1 for host memory."""

    def undone(self, number: int, step: Step) -> None:
        """That worker did not perform a step, or not wholly, because its command failed."""

    def step_failed(self, job: Job, step: Step, error: Exception) -> None:
        """A step could not be handed over."""


class Worker(WorkerProgress):
    """One worker of an executor; `number` is HOST for the one that works on host memory."""

    executor: WorkerExecutor

    def __init__(self, executor: WorkerExecutor, number: int, open_backend: Callable[[], Backend]) -> None:
        super().__init__(executor, number)
        self.failure: Exception | None = None  #: why the back end could not be opened
        self.hurried = False
        self.stopping = False
        self.mark_from_ns = 0  #: from when on the next marker is due, by the host's clock
        #: others may wait for single commands, and markers are cheap; set before there is any work
        self.marks_by_age = False
        self.fenced = 0  #: how many steps the fence is behind
        #: by other worker: the step that whatever is handed over now waits for anyway
        self.ordered: dict[int, int] = {}
        self._plain_apart = False  #: plain batches are recorded like others
        self.memory = WorkerMemory(self)
        self._lingers = False  #: memory was given back a moment ago, and more may follow
        #: the back end, if plans are compiled for it
        self.compiling: CompilingBackend | None = None
        self.opened = threading.Event()
        name = "vdev-host" if number == HOST else f"vdev-worker-{number}"
        self.thread = threading.Thread(target=self._main, args=(open_backend,), name=name, daemon=True)
        self.thread.start()

    # from any thread ----------------------------------------------------------------------------

    def among_its_own(self) -> None:
        """It is the only worker, or all are of one company: what a thread hands over to it waits for another one only
        on the device.
        """
        if self.backend.any_thread_alone:
            self.backend.any_thread = self.takes_transfers = True

    def allow_waits(self) -> None:
        """Let any thread wait for it, if its back end can do that. Call it after `among_its_own`."""
        self._waits_for_all = self.backend.any_thread and self.backend.can_wait_for_all

    def perform_entry(self, entry: Entry) -> None:
        """On a thread that has the turn: perform an entry that waits for nothing."""
        self.backend.enter()
        try:
            self._perform(entry)
        except BaseException:  # an interrupt of the program's: nobody shall wait for what will not come
            self.abandon(entry)
            raise

    def put_fence(self) -> None:
        """On a thread that has the turn: put the fence behind all that has been issued. Raises BackendError."""
        assert self.compiling is not None, "only compiled plans have fences"
        self.compiling.fence()
        self.fenced = self.issued

    def has_passed(self, step: int) -> bool:
        """Whether the device has done everything up to that step, and well, as far as the fence tells: then that is known from now on."""
        if self.fenced < step or self.compiling is None or not self.turn.acquire(False):
            return False
        try:
            fenced = self.fenced
            if self.queue or self.marks or self.records is not None or not self.compiling.has_passed():
                return False
            self.is_done_up_to(fenced)
        finally:
            self.turn.release()
            if self.queue:
                self.wake()
        return fenced >= step

    def order_after_fence(self, other: Worker) -> None:
        """On a thread that has both turns: order what follows after what is before the other's fence."""
        assert self.compiling is not None, "only compiled plans have fences"
        self.compiling.order_after_fence(other.backend)
        self.ordered[other.number] = other.fenced

    def order_after_mark(self, marker: Marker, other: Worker, step: int) -> None:
        """On a thread that has the turn: order what follows after a marker that is behind that step of another worker's."""
        self.backend.order_after(marker)
        self.ordered[other.number] = step

    def finish(self, job: Job) -> None:
        """A command has been handed over: enter it into the next mark."""
        self.next_mark.jobs.append(job)
        self.next_mark.ends.append(self.backend.pending())
        self.current = self._moving = None

    def stepwise(self, entry: Entry) -> Generator[None, None, None]:
        """On a thread that has the turn of all workers concerned: perform an entry, one step each time."""
        job, batch, first, waits = entry
        ended = False
        try:
            self.backend.enter()
            self.mark()  # as `_carefully`, also where only others wait for this worker
            self._begin(job)
            for _ in self._carefully(job, batch, first, waits or []):
                yield
                self.backend.enter()
            self._finish(job)
            ended = True
        finally:
            if not ended:
                self.abandon(entry)

    def abandon(self, entry: Entry) -> None:
        """Fail what an interrupt left undone of an entry."""
        job, batch, first, _ = entry
        for step in batch.steps[max(self.issued - first, 0) :]:
            self.executor.undone(self.number, step)
            self.executor.step_failed(job, step, BackendError(OUT_OF_RESOURCES, "interrupted"))
        self.issued = first + len(batch.steps)
        self.current = self._moving = None
        self.next_mark.jobs.append(job)
        self.next_mark.ends.append(self.backend.pending())

    # around a fork ------------------------------------------------------------------------------

    def _step_aside(self) -> None:
        """On the thread, between two commands: let a fork take the turn."""
        self.turn.release()
        try:
            while self.executor.is_holding:
                time.sleep(TURN_TIMEOUT)
        finally:
            self.turn.acquire()

    # on the thread ------------------------------------------------------------------------------

    def peer(self, number: int) -> Backend:
        return self.executor.worker(number).backend

    def wait_for_earlier(self) -> None:
        """On the thread, or one that has the turn: wait for everything that came before the current command.

        None of it waits for this command or a later one. Other workers may not have reached it yet, and what it uses
        here lives until they have.
        """
        self.mark()
        bases = self.executor.no_steps if self.current is None else self.current.bases
        for worker in self.executor.all_workers:
            step = worker.issued if worker is self else max(worker.issued, bases[worker.number])
            if worker is self or worker.marker_at(step, self) is not None:
                # Also marks that are known to be complete: what they kept alive is freed when they are settled.
                while worker.marks and worker.marks[0].step <= step:
                    worker.retire_oldest()

    def _main(self, open_backend: Callable[[], Backend]) -> None:
        try:
            self.backend = open_backend()
            self.compiling = self.backend if isinstance(self.backend, CompilingBackend) else None
        except Exception as error:  # whatever it is, the thread that made the executor raises it
            self.failure = error
            return
        finally:
            self.opened.set()
        enter_own_thread()
        self.turn.acquire()
        queue = self.queue
        while True:
            try:
                entry = queue.popleft()
            except IndexError:
                if self._idle():
                    break
                continue
            self.busy = True
            self._perform(entry)
            if len(self.marks) > MARKS_IN_FLIGHT:
                self.behind = True
                while len(self.marks) > MARKS_IN_FLIGHT:
                    self.retire_oldest()
                self.behind = False
            entry = None  # type: ignore[assignment]  # keep no command alive while sleeping
            self.busy = False
            if self.executor.is_holding:
                self._step_aside()
        self._close()
        self.turn.release()
        leave_own_thread()

    def _perform(self, entry: Entry) -> None:
        job, batch, first, waits = entry
        completion = self._begin(job)
        recorded = self.records is not None and (self._plain_apart or not batch.plain)
        if batch.careful or completion.profiled or recorded:
            for _ in self._carefully(job, batch, first, waits or []):
                pass
        else:
            if waits and (
                self.marked < self.issued or self.backend.pending()
            ):  # who waits for what came before must not wait for this as well, as in `_carefully`
                self.mark(anew=True)
            at = 0
            for index, step in enumerate(batch.steps):
                try:
                    while waits and at < len(waits) and waits[at][0] <= batch.rows[index]:
                        self._await(waits[at][1], waits[at][2])
                        at += 1
                    if step.coherent:
                        self._moving = (job, step, self.backend.pending())
                        self._move(job, step)
                    elif completion.error is None:
                        step.run(self, job)
                    else:
                        self.executor.undone(self.number, step)
                except Exception as error:  # it is the command's failure, and the thread must go on
                    self.executor.undone(self.number, step)
                    self.executor.step_failed(job, step, error)
                self.issued = first + index + 1
        self._finish(job)

    def _finish(self, job: Job) -> None:
        """A command has been handed over: enter it into the next mark, and put that mark if it is due."""
        following = self.next_mark
        if self.marks_by_age and not following.jobs:
            self.mark_from_ns = time.perf_counter_ns() + MARK_AFTER_NS
        self.finish(job)
        if self.memory.discarded:
            self.memory.free_discarded()
        if self.number == HOST:
            self.mark()
            self.retire_oldest()
        elif (
            len(following.jobs) >= MARK_EVERY
            or self.wanted <= self.issued
            or self.memory.fresh_nbytes > MARK_NBYTES
        ):
            self.mark()

    def _move(self, job: Job, step: Step) -> None:
        """Run a coherent step, also for a command that failed, and remember which operations it consists of."""
        step.run(self, job)
        self._enter_move()
        self._moving = None

    def _begin(self, job: Job) -> Completion:
        completion = job.completion
        if completion.is_awaited:
            job.begin()
        if completion.profiled or (
            self.marks_by_age and self.next_mark.jobs and time.perf_counter_ns() > self.mark_from_ns
        ):
            # Its times begin with its own work, and a wait for what came before is a wait for that alone.
            self.mark(anew=True)
        self.current = job
        return completion

    def _carefully(self, job: Job, batch: Batch, first: int, waits: Waits) -> Iterator[None]:
        """Perform an entry one step at a time, with waits for others, markers in between, or times to be taken."""
        completion, records = job.completion, self.records
        # Who waits for what came before must not wait for this as well: neighbours would work one after the other.
        if batch.careful or waits:
            self.mark(anew=True)
        each = records is not None and self.number != HOST and not self.backend.times_operations
        at = 0
        for index, step in enumerate(batch.steps):
            before = self.backend.pending()  # what orders a step after others is part of it
            handed = self._handed + before
            if step.coherent:
                self._moving = (job, step, before)
            try:
                for worker, other in batch.waits[index]:
                    self._await(worker, job.bases[worker] + other + 1)
                # Copies in a row wait together, so that a back end can make them one. What they wait for here are
                # earlier commands, which do not wait for this one.
                while at < len(waits) and waits[at][0] <= batch.rows[index]:
                    self._await(waits[at][1], waits[at][2])
                    at += 1
                if completion.error is not None and not step.coherent:
                    self.executor.undone(self.number, step)
                elif records is not None:
                    self._run_recorded(records, job, index, step, handed)
                elif step.coherent:
                    self._move(job, step)
                else:
                    step.run(self, job)
            except Exception as error:  # as in `_perform`
                self.executor.undone(self.number, step)
                self.executor.step_failed(job, step, error)
            self.issued = first + index + 1
            is_last = index == len(batch.steps) - 1
            if each or batch.marks[index] or (completion.profiled and is_last):
                self._mark_step(batch.sample if is_last else None)
            yield

    def _mark_step(self, sample: Ending | None) -> None:
        """Put a marker behind a step; the last one of a sampled launch ends its sample."""
        marker = self.mark()
        if sample is not None:
            sample.end(self.number, marker)
        if self.number == HOST:
            self.retire_oldest()

    def start_recording(self, records: WorkRecords) -> None:
        """Record the work from now on; called before there is any."""
        self._plain_apart = records.exact and not self.backend.times_operations
        self.backend.timed_from_ns = 0 if records.exact else TIMED_FROM_NS
        self.records = records

    def _run_recorded(self, records: WorkRecords, job: Job, index: int, step: Step, before: int) -> None:
        """`before`: all that was handed over before the step."""
        started = time.perf_counter_ns()
        try:
            if step.coherent:
                self._move(job, step)
            else:
                step.run(self, job)
        finally:
            ended, handed = time.perf_counter_ns(), self._handed + self.backend.pending() - before
            records.steps[self.number].append((job.number, index, handed, started, ended))
            records.held.append((ended, self.number, self.backend.counters.allocated_nbytes))

    def _await(self, number: int, step: int) -> None:
        """Order what follows after a step of another worker, on the device if the back end can."""
        if self.ordered.get(number, 0) >= step:
            return  # everything handed over since then waits for that step or a later one
        other = self.executor.all_workers[number]
        if other.completed >= step:
            return
        marker = other.mark_near(step) or other.marker_at(step, self)
        if marker is not None:
            self.order_after_mark(marker, other, step)

    def _idle(self) -> bool:
        """Nothing is queued: mark, sleep, and find out what is complete. True when the thread should end."""
        self._lingers = self.memory.free_discarded() or self._lingers
        self.mark()
        self.asleep = True
        # Whoever adds work looks at `asleep` after adding; we look for work after setting it: one of the two sees the
        # other.
        if self.queue or self.memory.discarded:
            self.asleep = False
            return False
        if not self.marks and (self.stopping or not self._lingers):
            if not self.stopping:
                self._sleep()
            self.asleep = False
            return self.stopping and not self.queue and self.marked == self.issued
        self._lingers = False
        self._watch()
        return False

    def _watch(self) -> None:
        """Find out what is complete, until there is something to perform, or everything is complete and nobody issues
        any more.

        A program that launches and reads in turn repeatedly has nothing in flight: waking the thread each time would
        cost more than its launch. The thread looks now and then and never blocks on the device: what a program
        submits beside a long kernel, such as a transfer for the next one, must not wait for that kernel, and other
        threads may work with the back end meanwhile.
        """
        issued, rounds = self.issued, LINGERING
        pause, longest = (HURRIED_PAUSE, GRACE) if self.hurried else (GRACE, LONGEST_PAUSE)
        self.watching = True
        self.turn.release()
        unused: Allocation | None = None
        try:
            while (self.marks or rounds) and not self.stopping:
                if self._gate.acquire(timeout=pause):
                    break
                # What has been discarded since the last look may be wanted again at once.
                before, unused = unused, self.memory.first_discarded()
                if unused is not None and unused is before:
                    break
                if self.issued != issued:  # a thread that issues also looks after what it has issued
                    issued, rounds = self.issued, LINGERING
                elif self.marked < issued:
                    break
                elif self.marks:
                    self.poll()
                else:
                    rounds -= 1
                pause = min(2 * pause, longest)
        finally:
            self.turn.acquire()
            self.watching = self.asleep = False
        while self.stopping and self.marks and not self.queue:
            self.retire_oldest()
        # Whoever wants to be called may be so behind something that has no marker yet.
        if not self.marks and self.marked == self.issued:
            self.hurried = False
            self.hurried = self.marked < self.issued  # by a thread that has just asked for it

    def _sleep(self) -> None:
        """Sleep until woken; others may work with the back end meanwhile."""
        self.turn.release()
        try:
            self._gate.acquire()
        finally:
            self.turn.acquire()

    def _close(self) -> None:
        self.memory.free_discarded()
        self.backend.close()
