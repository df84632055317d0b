"""A worker's thread: it performs batches in the order they were submitted, and knows how far it has got.

Decides when to hand work over, when to ask for a marker and when to sleep; never in which order. Steps are
numbered from 1 per worker. `submitted` steps are in the queue, `issued` ones are with the back end,
`completed` ones are known to be done. Each only grows.

Waiting never goes in circles: a step waits only for steps of commands that were submitted before its own, or
that precede it in its plan. A thread that is going to block has first put a marker behind everything it
issued, so that nobody needs the thread itself.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from threading import get_ident
from typing import TYPE_CHECKING, Protocol

from vdev.backends.base import Allocation, Backend, Marker
from vdev.errors import OUT_OF_RESOURCES, BackendError
from vdev.executor.mark import (
    MARK_AFTER_NS,
    MARK_EVERY,
    MARK_NBYTES,
    MARKS_AHEAD,
    MARKS_IN_FLIGHT,
    Mark,
    Waiter,
    outcome_of,
    record,
)
from vdev.executor.worker_memory import WorkerMemory
from vdev.planner.instructions import HOST
from vdev.process.finalisers import enter_own_thread, leave_own_thread, may_wait
from vdev.process.forking import in_driver
from vdev.process.interrupts import block, checkpoint, waits

if TYPE_CHECKING:
    from vdev.executor.completion import Completion
    from vdev.executor.job import Job
    from vdev.executor.prepare import Batch
    from vdev.executor.records import WorkRecords
    from vdev.executor.step import Step

#: the most bytes that the calling thread moves to the host itself if it has to wait for them: some 10 us
SMALL_NBYTES = 64 << 10
#: seconds to wait for an idle worker's turn
TURN_TIMEOUT = 0.001
#: seconds between two looks of an idle thread at how far the device is: at first; when nothing has happened for a
#: while; and when somebody wants to be called
GRACE, LONGEST_PAUSE, HURRIED_PAUSE = 0.002, 0.016, 0.00005
#: looks at an idle device before the thread goes to sleep until it is woken
LINGERING = 4
#: where work is recorded: the mean duration of operations from which on the times of each are asked for
TIMED_FROM_NS = 40_000
#: a step that is never reached
NEVER = 1 << 62

#: additional waits of one batch: (index of the step, worker, step number there), ascending by index
Waits = list[tuple[int, int, int]]
Entry = tuple["Job", "Batch", int, "Waits | None"]


class WorkerExecutor(Protocol):
    """The executor as its workers see it (`vdev.executor.executor.Executor`)."""

    no_steps: list[int]  #: bases of a job that waits for nothing
    red_zones: bool  #: whether replicas get them
    is_holding: bool  #: whether a fork is about to come, for which workers step aside
    waits: int  #: how often a program's thread had to wait for a device

    @property
    def lock(self) -> AbstractContextManager[object]:
        """Held while anything is settled."""

    @property
    def followers(self) -> Sequence[Sequence[object]]:
        """By worker: what is not complete before its step. Under the lock."""

    @property
    def all_workers(self) -> Sequence[Worker]:
        """By number; the one for host memory is the last."""

    def worker(self, number: int) -> Worker:
        """The worker of a number, which is -1 for host memory."""

    def undone(self, number: int, step: Step) -> None:
        """That worker did not perform a step, or not wholly, because its command failed."""

    def step_failed(self, job: Job, step: Step, error: Exception) -> None:
        """A step could not be handed over."""

    def work_failed(self, mark: Mark, error: BackendError) -> None:
        """Work behind `mark` failed on a device."""

    def settle(self, jobs: Iterable[Job], worker: Worker) -> None:
        """Settle those of `jobs` that are complete, and those that waited for no more than `worker`."""


class Worker:
    """One worker of an executor; `number` is HOST for the one that works on host memory."""

    def __init__(self, executor: WorkerExecutor, number: int, open_backend: Callable[[], Backend]) -> None:
        self.executor = executor
        self.number = number
        self.backend: Backend
        self.failure: Exception | None = None  #: why the back end could not be opened
        self.queue: deque[Entry] = deque()
        #: under the executor's lock
        self.submitted = 0
        #: by this thread; also by a thread that works inline while this one has nothing to do
        self.issued = 0
        self.marked = 0
        #: under `lock`
        self.completed = 0
        self.lock = threading.RLock()
        self.marks: deque[Mark] = deque()
        self.waiters: list[Waiter] = []
        self.wanted = NEVER  #: the first step for which somebody waits
        self.hurried = False
        self.stopping = False
        #: the thread sleeps, or is about to: whoever adds work must wake it
        self.asleep = False
        #: it looks now and then at how far the device is, and at what others issue meanwhile
        self.watching = False
        self.next_mark = Mark()  #: what the next marker will be behind
        self._mark_from_ns = 0  #: from when on that marker is due, by the host's clock
        #: others may wait for single commands, and markers are cheap; set before there is any work
        self.marks_by_age = False
        self._current: Job | None = None  #: the command being handed over
        #: the coherent step being handed over, its command, and its first operation since the last mark
        self._moving: tuple[Job, Step, int] | None = None
        #: by other worker: the step that whatever is handed over now waits for anyway
        self._ordered: dict[int, int] = {}
        #: where its work is recorded, if anybody wants to know; set before there is any
        self.records: WorkRecords | None = None
        self._plain_apart = False  #: plain batches are recorded like others
        self._handed = 0  #: operations before the last mark, where work is recorded
        self.memory = WorkerMemory(self)
        self._lingers = False  #: memory was given back a moment ago, and more may follow
        #: the submitting thread may hand over transfers of host memory, too: they do not make it wait
        self.takes_transfers = False
        #: any thread may wait for it (`catch_up`)
        self._waits_for_all = False
        self._gate = threading.Lock()
        self._gate.acquire()
        #: held by whoever works with the back end: by the thread, except while it sleeps
        self.turn = threading.Lock()
        #: the other thread that has the turn, 0 for none, and what `Backend.leave` takes
        self.holder = 0
        self._outside: object = None
        #: the thread is performing queued work; it is waiting for the device in between
        self.busy = self.behind = False
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

    def wake(self) -> None:
        """Let the thread look around. Takes no lock that anybody keeps, so finalisers may call it."""
        self.asleep = False  # as good as awake: nobody else has to wake it, even if it does not run yet
        try:
            self._gate.release()
        except RuntimeError:
            return  # somebody woke it already

    def take_turn(self) -> bool:
        """Let the calling thread, and no other, work with the back end; False if the worker's thread is busy with it."""
        # An idle thread gives way within microseconds; one that waits for the device does not.
        if not self.turn.acquire(timeout=TURN_TIMEOUT):
            return False
        self.holder = get_ident()
        self._outside = self.backend.outside()
        return True

    def drain(self, seconds: float) -> bool:
        """Give the thread time to perform what is queued; whether it is idle afterwards."""
        if not self.turn.acquire(timeout=seconds):
            return False
        self.turn.release()
        return True

    def give_turn(self) -> None:
        """End what `take_turn` began; what is queued and has not been performed is left to the thread."""
        self.holder = 0
        self.backend.leave(self._outside)
        self.turn.release()
        # Otherwise the thread would sleep on, and neither mark nor retire what has been issued here.
        if self.queue or not self.watching:
            self.wake()

    def throttle_here(self) -> None:
        """Retire what is done; hold the caller back where the device is far behind."""
        self.poll()
        while len(self.marks) > MARKS_AHEAD:
            self.executor.waits += 1
            self.retire_oldest()

    def mark_here(self) -> None:
        """On a thread that has the turn: put a marker behind all that the device has been given."""
        self.backend.enter()
        self.mark(anew=True)

    def perform_entry(self, entry: Entry) -> None:
        """On a thread that has the turn: perform an entry that waits for nothing."""
        self.backend.enter()
        try:
            self._perform(entry)
        except BaseException:  # an interrupt of the program's: nobody shall wait for what will not come
            self.abandon(entry)
            raise

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
        self._current = self._moving = None
        self.next_mark.jobs.append(job)
        self.next_mark.ends.append(self.backend.pending())

    @waits
    def marker_at(self, step: int, asking: Worker | None = None) -> Marker | None:
        """A marker behind step number `step`, as soon as there is one; None where that step is known to be
        complete.

        `asking`: the worker on whose thread this runs, if any.
        """
        found = self._find_mark(step)
        if found is not None or self.completed >= step:
            return found
        if self.holder == get_ident():  # this thread works with both back ends
            self.backend.enter()
            self.mark()
            if asking is not None:
                asking.backend.enter()
            return self._find_mark(step)
        if asking is not None:
            asking.mark()
        any_thread = self.backend.any_thread and may_wait()
        if any_thread:
            self._mark_here(step)
        with self.lock:
            found = self._find_mark(step)
            if found is not None or self.completed >= step:
                return found
            waiter = Waiter(step)
            self.waiters.append(waiter)
            self.wanted = min(self.wanted, step)
        if self.asleep and self.marked < self.issued:
            self.wake()
        # Whoever had the turn a moment ago may have missed the waiter, and the thread may sleep for a while.
        while not block(waiter.gate.acquire, TURN_TIMEOUT if any_thread else -1):
            self._mark_here(step)
        return self._find_mark(step)

    def _mark_here(self, step: int) -> None:
        """Put a marker behind what others have issued, unless the thread itself is working with the back end."""
        if self.asleep and self.turn.acquire(blocking=False):
            try:
                if self.issued >= step:
                    outside = self.backend.outside()
                    self.backend.enter()
                    self.mark()
                    self.backend.leave(outside)
            finally:
                self.turn.release()

    def _find_mark(self, step: int) -> Marker | None:
        with self.lock:
            if self.completed >= step:
                return None
            found = None
            for mark in reversed(self.marks):  # what is asked for is nearly always one of the last
                if mark.step < step:
                    break
                found = mark.marker
        return found

    @waits
    def wait_for(self, step: int) -> None:
        """Return when step number `step` is complete and every failure up to there is known."""
        if self.completed < step:
            self.executor.waits += 1
        if self.issued == step and self.completed < step and self.catch_up():
            return
        while self.completed < step:
            if self.marker_at(step) is not None:
                self.retire_oldest()
            checkpoint()

    @waits
    def catch_up(self) -> bool:
        """Wait for the device on the calling thread, if nothing is queued or being handed over; afterwards everything
        is complete.

        False if only a marker can tell. Takes no lock while it waits, and makes no marker.
        """
        issued, backend = self.issued, self.backend
        if not self._waits_for_all or self.queue or self.busy or self.records is not None:
            return False
        if not may_wait() or not in_driver(backend.wait_for_all):
            return False
        if self.marks:  # failures behind them must be known first
            self.poll()
        if not self.turn.acquire(False):
            return False
        try:
            # others have handed something over meanwhile
            if self.issued != issued or self.queue or self.marks:
                return False
            self.all_is_done()
        finally:
            self.turn.release()
        return True

    @property
    def is_quiet_alone(self) -> bool:
        """Whether `catch_up` works for it, and none of its own work is under way."""
        return self._waits_for_all and self.completed == self.issued

    def all_is_done(self) -> None:
        """With the turn: the device has done everything it was given, and well. Those who wait for it are told; the
        commands are settled when somebody looks, or behind the next marker.
        """
        with self.lock:
            if self.completed < self.issued:
                self.completed = self.issued
        if self.wanted <= self.issued:
            self.serve()
        executor = self.executor
        with executor.lock:
            is_followed = executor.followers[self.number]
        if is_followed:
            executor.settle((), self)

    def retire_oldest(self) -> None:
        """Wait for the oldest mark; settle the commands that it covers, and those behind later marks that are done as
        well.
        """
        with self.lock:
            if not self.marks:
                return
            mark = self.marks[0]
        error = outcome_of(mark)
        jobs: list[Job] = []
        before = self.completed
        with self.lock:
            while self.marks and self.marks[0] is mark:  # else another thread was faster
                if error is not None:  # must be known before anything counts as completed
                    self.executor.work_failed(mark, error)
                self.marks.popleft()
                if self.records is not None:  # before anybody can know that it is complete
                    self.records.retired(self.number, mark, failed=error is not None)
                self.completed = max(self.completed, mark.step)
                jobs += mark.jobs
                if not self.marks or not self.marks[0].marker.done():
                    break
                mark = self.marks[0]
                error = outcome_of(mark)
        if jobs or self.completed > before:
            self.executor.settle(jobs, self)

    def has_open(self, mark: Mark) -> bool:
        """Whether what is behind a mark is not known yet to have ended."""
        with self.lock:
            return mark in self.marks

    def poll(self) -> None:
        """Settle what is complete, without waiting."""
        while True:
            with self.lock:
                if not self.marks or not self.marks[0].marker.done():
                    return
            self.retire_oldest()

    # around a fork ------------------------------------------------------------------------------

    def is_quiet(self) -> bool:
        """Whether the device has done what it was given, as far as markers tell."""
        return all(mark.marker.done() for mark in tuple(self.marks))

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
        bases = self.executor.no_steps if self._current is None else self._current.bases
        for worker in self.executor.all_workers:
            step = worker.issued if worker is self else max(worker.issued, bases[worker.number])
            if worker is self or worker.marker_at(step, self) is not None:
                # Also marks that are known to be complete: what they kept alive is freed when they are settled.
                while worker.marks and worker.marks[0].step <= step:
                    worker.retire_oldest()

    def mark(self, *, anew: bool = False) -> Marker | None:
        """Put a marker behind everything issued since the last one, and release those who wait for it.

        `anew`: also behind operations that belong to no step. A read that its caller has waited for leaves such
        operations, and a measurement would otherwise begin with them.
        """
        marker = None
        if self.marked < self.issued or (anew and self.backend.pending()):
            step = self.issued
            mark = self.next_mark
            self._enter_move()
            if self._current is not None:
                mark.jobs.append(self._current)
                mark.ends.append(self.backend.pending())
            mark.step = step
            if self.records is not None:
                self._handed += self.backend.pending()
            mark.marker = marker = record(self.backend, self.number)
            with self.lock:
                self.marks.append(mark)
                self.marked = step
            self.next_mark = Mark()
            self.memory.fresh_nbytes = 0
        if self.wanted <= self.issued:
            self.serve()
        return marker

    def serve(self) -> None:
        """Release those who wait for a marker behind what has been issued; everything issued has one."""
        if self.wanted > self.issued:
            return
        with self.lock:
            reached = max(self.marked, self.completed)
            served = [waiter for waiter in self.waiters if waiter.step <= reached]
            self.waiters = [waiter for waiter in self.waiters if waiter.step > reached]
            self.wanted = min((waiter.step for waiter in self.waiters), default=NEVER)
        for waiter in served:
            waiter.gate.release()

    def _main(self, open_backend: Callable[[], Backend]) -> None:
        try:
            self.backend = open_backend()
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
            self._mark_from_ns = time.perf_counter_ns() + MARK_AFTER_NS
        following.jobs.append(job)
        following.ends.append(self.backend.pending())
        self._current = self._moving = None
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

    def _enter_move(self) -> None:
        """Enter the current coherent step into the next mark, as far as it has got."""
        if self._moving is not None:
            job, step, start = self._moving
            self.next_mark.moves.append((job, step, start, self.backend.pending()))
            self._moving = (job, step, 0)

    def _begin(self, job: Job) -> Completion:
        completion = job.completion
        if completion.is_awaited:
            job.begin()
        if completion.profiled or (
            self.marks_by_age and self.next_mark.jobs and time.perf_counter_ns() > self._mark_from_ns
        ):
            # Its times begin with its own work, and a wait for what came before is a wait for that alone.
            self.mark(anew=True)
        self._current = job
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
            if each or batch.marks[index] or (completion.profiled and index == len(batch.steps) - 1):
                marker = self.mark()
                if marker is not None and completion.profiled:
                    job.markers.append(marker)
                if self.number == HOST:
                    self.retire_oldest()
            yield

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
        if self._ordered.get(number, 0) >= step:
            return  # everything handed over since then waits for that step or a later one
        other = self.executor.all_workers[number]
        if other.completed >= step:
            return
        marker = other.marker_at(step, self)
        if marker is not None:
            self.backend.order_after(marker)
            self._ordered[number] = step

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
        if not self.marks:
            self.hurried = False

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
