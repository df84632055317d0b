"""How far a worker has got: its markers, who waits for them, and who works with its back end.

Decides when a marker is due for somebody who waits, and what is known to be complete; never what is handed over. Steps
are numbered from 1 per worker. `submitted` steps are in the queue, `issued` ones are with the back end,
`completed` ones are known to be done. Each only grows.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Protocol

from vdev.backends.base import Backend, Deliver, Marker
from vdev.errors import BackendError
from vdev.executor.mark import MARKS_AHEAD, Mark, Waiter, outcome_of, record
from vdev.process.finalisers import may_wait
from vdev.process.forking import in_driver
from vdev.process.interrupts import block, checkpoint, waits

if TYPE_CHECKING:
    from vdev.executor.job import Job
    from vdev.executor.prepare import Batch
    from vdev.executor.records import WorkRecords
    from vdev.executor.step import Step
    from vdev.executor.worker_memory import WorkerMemory

#: seconds to wait for an idle worker's turn
TURN_TIMEOUT = 0.001
#: a step that is never reached
NEVER = 1 << 62

#: additional waits of one batch: (index of the step, worker, step number there), ascending by index
Waits = list[tuple[int, int, int]]
Entry = tuple["Job", "Batch", int, "Waits | None"]


class ProgressExecutor(Protocol):
    """The executor as it is seen here (`vdev.executor.executor.Executor`)."""

    waits: int  #: how often a program's thread had to wait for a device
    early_waits: int  #: how often it asked for the end of less than a worker had been given

    @property
    def lock(self) -> AbstractContextManager[object]:
        """Held while anything is settled."""

    @property
    def followers(self) -> Sequence[Sequence[object]]:
        """By worker: what is not complete before its step. Under the lock."""

    def work_failed(self, mark: Mark, error: BackendError) -> None:
        """Work behind `mark` failed on a device."""

    def settle(self, jobs: Iterable[Job], worker: WorkerProgress) -> None:
        """Settle those of `jobs` that are complete, and those that waited for no more than `worker`."""


class WorkerProgress:
    """How far one worker is; `number` is HOST for the one that works on host memory."""

    backend: Backend
    memory: WorkerMemory

    def __init__(self, executor: ProgressExecutor, number: int) -> None:
        self.executor = executor
        self.number = number
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
        #: reads that arrive in memory of the back end's own: a step, what brings its bytes to the host's array, and what the back end
        #: knows it by
        self.arrivals: deque[tuple[int, Callable[[], None], Deliver]] = deque()
        self.waiters: list[Waiter] = []
        self.wanted = NEVER  #: the first step for which somebody waits
        #: the thread sleeps, or is about to: whoever adds work must wake it
        self.asleep = False
        #: it looks now and then at how far the device is, and at what others issue meanwhile
        self.watching = False
        #: the thread is performing queued work; it is waiting for the device in between
        self.busy = self.behind = False
        self.next_mark = Mark()  #: what the next marker will be behind
        self._begin_with()

    def _begin_with(self) -> None:
        """What it has besides: what is being handed over, its records, and its turn."""
        self.current: Job | None = None  #: the command being handed over
        #: the coherent step being handed over, its command, and its first operation since the last mark
        self._moving: tuple[Job, Step, int] | None = None
        #: where its work is recorded, if anybody wants to know; set before there is any
        self.records: WorkRecords | None = None
        self._handed = 0  #: operations before the last mark, where work is recorded
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

    # turns ----------------------------------------------------------------------------------------

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

    def give_turn(self, *, issued: bool = True) -> None:
        """End what `take_turn` began; what is queued and has not been performed is left to the thread. `issued`: whether the device
        may have been given anything.
        """
        self.holder = 0
        self.backend.leave(self._outside)
        self.turn.release()
        # Otherwise the thread would sleep on, and neither mark nor retire what has been issued here.
        if self.queue or (issued and not self.watching):
            self.wake()

    def drain(self, seconds: float) -> bool:
        """Give the thread time to perform what is queued; whether it is idle afterwards."""
        if not self.turn.acquire(timeout=seconds):
            return False
        self.turn.release()
        return True

    # marks ----------------------------------------------------------------------------------------

    def mark(self, *, anew: bool = False, timed: Job | None = None) -> Marker | None:
        """Put a marker behind everything issued since the last one, and release those who wait for it.

        `anew`: also behind operations that belong to no step. A read that its caller has waited for leaves such
        operations, and a measurement would otherwise begin with them. `timed`: whose times the marker tells, if not those of the
        command that is being handed over; another thread may settle it as soon as the mark is there.
        """
        marker = None
        if timed is None and self.current is not None and self.current.completion.profiled:
            timed = self.current
        if self.marked < self.issued or (anew and self.backend.pending()):
            step = self.issued
            mark = self.next_mark
            self._enter_move()
            if self.current is not None:
                mark.jobs.append(self.current)
                mark.ends.append(self.backend.pending())
            mark.step = step
            if self.records is not None:
                self._handed += self.backend.pending()
            mark.marker = marker = record(self.backend, self.number)
            if timed is not None:
                timed.markers.append(marker)
            with self.lock:
                self.marks.append(mark)
                self.marked = step
            self.next_mark = Mark()
            self.memory.fresh_nbytes = 0
        if self.wanted <= self.issued:
            self.serve()
        return marker

    def _enter_move(self) -> None:
        """Enter the current coherent step into the next mark, as far as it has got."""
        if self._moving is not None:
            job, step, start = self._moving
            self.next_mark.moves.append((job, step, start, self.backend.pending()))
            self._moving = (job, step, 0)

    def mark_here(self) -> None:
        """On a thread that has the turn: put a marker behind all that the device has been given."""
        self.backend.enter()
        self.mark(anew=True)

    @waits
    def marker_at(self, step: int, asking: WorkerProgress | None = None) -> Marker | None:
        """A marker behind step number `step`, as soon as there is one; None where that step is known to be
        complete.

        `asking`: the worker on whose thread this runs, if any.
        """
        found = self._find_mark(step)
        if found is not None or self.completed >= step:
            return found
        if self.holder == get_ident():  # this thread works with both back ends
            outside = self.backend.outside()
            self.backend.enter()
            self.mark()
            if asking is not None:
                asking.backend.enter()
            else:  # a finaliser of the program's, between two calls
                self.backend.leave(outside)
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

    def mark_near(self, step: int) -> Marker | None:
        """A marker behind step number `step`, if there is one and nobody is busy with them just now. Also under the executor's lock,
        which those take who retire marks.
        """
        try:
            last = self.marks[-1]
            if last.step == step:
                return last.marker
        except IndexError:  # there is none, or another thread has just retired it
            return None
        if not self.lock.acquire(False):
            return None
        try:
            return self._mark_behind(step)
        finally:
            self.lock.release()

    def _find_mark(self, step: int) -> Marker | None:
        with self.lock:
            return self._mark_behind(step)

    def _mark_behind(self, step: int) -> Marker | None:
        """The first marker behind step number `step`, if there is one and the step is not known to be complete. Under `lock`."""
        if self.completed >= step:
            return None
        found = None
        for mark in reversed(self.marks):  # what is asked for is nearly always one of the last
            if mark.step < step:
                break
            found = mark.marker
        return found

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

    # what is complete -----------------------------------------------------------------------------

    @waits
    def wait_for(self, step: int) -> None:
        """Return when step number `step` is complete and every failure up to there is known."""
        if self.completed < step:
            self.executor.waits += 1
            if step < self.issued:
                self.executor.early_waits += 1
        if self.arrivals and self._await_arrival(step):
            return
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

    @waits
    def _await_arrival(self, step: int) -> bool:
        """If that step is a read that arrives in memory of the back end's own, wait for it alone, and not for what was handed over
        after it; afterwards everything up to it is complete. False if only a marker can tell.
        """
        delivers = None
        for at, _, each in tuple(self.arrivals):
            if at == step:
                delivers = each
        if delivers is None or self.records is not None or not may_wait():
            return False
        if not in_driver(partial(self.backend.wait_for_read, delivers)):
            return False
        if self.marks:  # as in `catch_up`; these are done, if they are behind steps before the read
            self.poll()
            with self.lock:
                if self.marks and self.marks[0].step < step:
                    return False
        self.is_done_up_to(step)
        return True

    @property
    def is_quiet_alone(self) -> bool:
        """Whether `catch_up` works for it, and none of its own work is under way."""
        return self._waits_for_all and self.completed == self.issued

    def all_is_done(self) -> None:
        """With the turn: the device has done everything it was given, and well. Those who wait for it are told; the
        commands are settled when somebody looks, or behind the next marker.
        """
        self.is_done_up_to(self.issued)

    def is_done_up_to(self, step: int) -> None:
        """The same of everything up to that step."""
        executor = self.executor
        with self.lock:
            if self.arrivals:
                self._complete(step)
            elif self.completed < step:
                self.completed = step
        if self.wanted <= step:
            self.serve()
        with executor.lock:
            is_followed = executor.followers[self.number]
        if is_followed:
            executor.settle((), self)

    def throttle_here(self) -> None:
        """Retire what is done; hold the caller back where the device is far behind."""
        self.poll()
        while len(self.marks) > MARKS_AHEAD:
            self.executor.waits += 1
            self.retire_oldest()

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
                self._complete(mark.step)
                jobs += mark.jobs
                if not self.marks or not self.marks[0].marker.done():
                    break
                mark = self.marks[0]
                error = outcome_of(mark)
        if jobs or self.completed > before:
            self.executor.settle(jobs, self)

    def _complete(self, step: int) -> None:
        """Everything up to that step is complete, which others see without a lock: so what has arrived is brought first. Under
        `lock`.
        """
        arrivals = self.arrivals
        while arrivals and arrivals[0][0] <= step:
            arrivals.popleft()[1]()
        self.completed = max(self.completed, step)

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

    def poll_for(self, step: int) -> None:
        """Settle what is complete, for somebody who asks again and again until that step is. The worker's thread, which would put a
        marker behind it, may not get to run meanwhile: who asks in a loop has the interpreter nearly all the time.
        """
        if self.marked < step and self.backend.any_thread and may_wait():
            self._mark_here(step)
        if self.completed < step < self.issued:
            self.executor.early_waits += 1
        self.poll()

    def is_quiet(self) -> bool:
        """Whether the device has done what it was given, as far as markers tell."""
        return all(mark.marker.done() for mark in tuple(self.marks))
