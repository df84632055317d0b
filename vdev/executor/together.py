"""Together: the direct way to several workers for the threads that submit compiled plans one after the other.

While nothing but compiled plans is submitted, what each of them waits for follows from the plans before it (`vdev.executor.orders`), and
its calls are made with one call of the library. What is left is to count: the commands between two marks are one job
(`vdev.executor.shared_stretch`). Decides when this begins, with every worker ordered after all others, and when it ends: with
anything else that is submitted. A command that cannot be handed over in this way is submitted like any other: then nothing has happened.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import permutations
from threading import get_ident
from typing import TYPE_CHECKING, Protocol

from vdev.errors import BackendError
from vdev.executor.completion import Completion
from vdev.executor.job import Job
from vdev.executor.legs import CompilingExecutor
from vdev.executor.mark import MARK_AFTER_NS, MARK_EVERY, MARK_NBYTES, MARKS_IN_FLIGHT
from vdev.executor.orders import Edge, Orders
from vdev.executor.shared_stretch import SharedMove, SharedPart, SharedStretch
from vdev.executor.worker_progress import TURN_TIMEOUT
from vdev.planner.instructions import HOST

if TYPE_CHECKING:
    from vdev.executor.compiled_plan import CompiledPlan
    from vdev.executor.stretch import Entry
    from vdev.executor.worker import Worker

#: compiled plans in a row after which more of them are expected: at first, and at most, where they keep ending soon
_FIRST_IN_A_ROW, _MOST_IN_A_ROW = 8, 512
#: for how many commands it has to last
_LONG = 64

_new = object.__new__


class TogetherExecutor(CompilingExecutor, Protocol):
    """The executor as it is seen here (`vdev.executor.executor.Executor`)."""

    waits: int  #: how often a program's thread had to wait for a device


class Together:
    """The direct way to all workers of an executor. Under the session's lock."""

    __slots__ = (
        "_executor", "_from_ns", "_home", "_in_a_row", "_last", "_lasted", "_least", "_order", "_orders", "_seen", "_stretch",
        "_waits", "_workers",
    )  # fmt: skip

    def __init__(self, executor: TogetherExecutor) -> None:
        self._executor = executor
        self._workers = executor.all_workers[:-1]
        self._home = executor.all_workers[HOST]
        self._orders = Orders(len(self._workers))
        self._order = self._orders.root
        self._last = -1  #: the number of the last command here
        self._lasted = 0  #: commands since it began
        #: how many commands in a row could have come here, counting one that did not, and after how many it begins
        self._in_a_row, self._least = 0, _FIRST_IN_A_ROW
        self._seen = -1  #: the number before that one's
        self._stretch: SharedStretch | None = None
        #: from when on a mark is due, and how often the program had waited then
        self._from_ns = self._waits = 0

    @property
    def is_on(self) -> bool:
        """Whether the last command went this way."""
        return self._executor.last_number == self._last

    def is_ready(self) -> bool:
        """Whether a command can be handed over now, as far as the commands before it go. If not, it is not asked again for this one."""
        return self._executor.last_number == self._last or self._begin()

    def hand_over(self, plan: CompiledPlan, entry: Entry) -> Completion | None:
        """Hand a command over whose plan this is, compiled for its buffers' replicas; None if it has to be submitted instead: then nothing
        has happened. Everything that it waits for was submitted before, and nothing is known to have failed.
        """
        if not self.is_ready():
            return None
        edge = self._order.edges.get(plan) or self._orders.after(self._order, plan, plan.accesses)
        workers: Sequence[Worker] = plan.workers
        if edge.fences:
            workers = self._concerned(workers, edge)
        held: list[Worker] = []
        try:
            if not _take_turns(workers, held) or [each.replicas for each in entry[1]] != plan.replicas:
                return None
            found = self._hand_over(plan, edge, entry)
            if found is not None:
                self._look_after(plan)
        finally:
            plan.leave()
            for worker in held:
                worker.holder = 0
                worker.turn.release()
                if not worker.watching or worker.queue:
                    worker.wake()
        for worker in workers:
            if len(worker.marks) > MARKS_IN_FLIGHT:
                worker.throttle_here()
        return found

    def _concerned(self, workers: Sequence[Worker], edge: Edge) -> Sequence[Worker]:
        """Those whose turns it takes to hand a plan over, by number."""
        others = [self._workers[number] for number in edge.fences if self._workers[number] not in workers]
        return sorted([*workers, *others], key=lambda worker: worker.number) if others else workers

    def _hand_over(self, plan: CompiledPlan, edge: Edge, entry: Entry) -> Completion | None:
        """The same with the turns of all workers concerned."""
        executor = self._executor
        executor.lock.acquire()  # `with` takes twice as long, and nothing is raised in between (`vdev.process.interrupts`)
        try:
            if executor.failures.any or executor.closed or executor.last_number != self._last:
                return None
            stretch = self._open(entry) if self._is_to_open(plan) else self._stretch
            assert stretch is not None, "it is to be opened where there is none"
            number = executor.last_number = self._last + 1
            bases = plan.number_steps()
            self._last, executor.standing = -1, object()  # until all is well
            if (place := plan.make_as(edge, entry[2])) != plan.end:
                return self._refused(plan, edge, entry, place, number, bases)
            if edge.fences or edge.waits:
                self._order_workers(edge)
            part = self._enter(plan, entry, stretch, bases)
            self._order, self._last = edge.order, number
            self._lasted += 1
            stretch.last = number
            return part
        finally:
            executor.lock.release()

    def _order_workers(self, edge: Edge) -> None:
        """The fences of an edge were put, and waits for them."""
        workers = self._workers
        for number in edge.fences:
            workers[number].fenced = workers[number].issued
        for number, other in edge.waits:
            workers[number].ordered[other] = workers[other].fenced

    def _enter(
        self, plan: CompiledPlan, entry: Entry, stretch: SharedStretch, bases: Sequence[int]
    ) -> SharedPart:
        """All calls of a command were made."""
        part, index = _new(SharedPart), stretch.launches
        part.stretch, part.index = stretch, index
        for leg in plan.legs:
            worker, number, backend = leg.worker, leg.number, leg.backend
            before = backend.pending() if leg.coherent else 0
            pending = backend.made(leg.operations, leg.launches)
            if leg.from_peer:
                backend.counters.from_peer += leg.from_peer
            if leg.counted:
                leg.count()
            step = worker.issued = bases[number] + leg.last
            if leg.coherent:
                move = SharedMove(stretch, index)
                worker.next_mark.moves += [(move, each, before, pending) for each in leg.coherent]
            if leg.after:
                for other in leg.after:
                    worker.ordered[other.number] = other.fenced
            if leg.fences:
                worker.fenced = step
            if leg.is_last:
                stretch.clock[number] = step
                worker.next_mark.ends[-1] = pending
                stretch.on_workers[number].append((index, pending))
        stretch.entries.append(entry)
        stretch.clocks.append(tuple([worker.issued for worker in self._workers]))
        stretch.launches = index + 1
        return part

    def _is_to_open(self, plan: CompiledPlan) -> bool:
        """Whether a command is not to be a part of the last stretch: that has ended, or there is a mark behind it."""
        stretch = self._stretch
        if stretch is None or not stretch.is_open or stretch.last != self._last:
            return True
        marks = stretch.marks
        for worker in plan.batched:  # noqa: SIM110 (a generator takes longer)
            if marks.get(worker.number) is not worker.next_mark:
                return True
        return False

    def _open(self, entry: Entry) -> SharedStretch:
        executor = self._executor
        stretch = SharedStretch(executor, self._last + 1, self._workers, entry[0])
        for mark in stretch.marks.values():
            mark.jobs.append(stretch)
            mark.ends.append(0)
        executor.unsettled[stretch.number] = self._stretch = stretch
        stretch.completion.bind(stretch)
        return stretch

    # where it begins ------------------------------------------------------------------------------

    def _begin(self) -> bool:
        """Something else was submitted since the last command here: whether this one can be the first again."""
        executor = self._executor
        if self._lasted:  # it has come to an end
            self._least = _FIRST_IN_A_ROW if self._lasted >= _LONG else min(2 * self._least, _MOST_IN_A_ROW)
            self._lasted = self._in_a_row = 0
        self._in_a_row = self._in_a_row + 1 if executor.last_number == self._seen + 1 else 1
        self._last, self._seen = -1, executor.last_number
        return self._in_a_row > self._least and self._meet()

    def _meet(self) -> bool:
        """Have every worker come after all that the others were given. Whether that was possible."""
        executor, workers = self._executor, self._workers
        held: list[Worker] = []
        inside = workers[0].backend
        outside = inside.outside()
        try:
            if self._home.completed < self._home.submitted or not _take_turns(workers, held):
                return False
            with executor.lock:
                if executor.closed or executor.failures.any or executor.last_number != self._seen:
                    return False
                if not all(map(_is_usable, workers)):
                    return False
                for worker in workers:
                    inside = worker.backend
                    inside.enter()
                    worker.put_fence()
                for worker, other in permutations(workers, 2):
                    if inside is not worker.backend:
                        inside = worker.backend
                        inside.enter()
                    worker.order_after_fence(other)
        except BackendError:  # a fence was refused: who submits is told why
            return False
        finally:
            inside.leave(outside)
            for worker in held:
                worker.holder = 0
                worker.turn.release()
                worker.wake()
        self._order, self._last = self._orders.root, self._seen
        return True

    # what is rare ---------------------------------------------------------------------------------

    def _look_after(self, plan: CompiledPlan) -> None:
        """Free what is not used any more, and put the marks that are due: after so many commands, where somebody waits for one, and where
        the program has not waited for anything for a while. Who waits for a command of that time then waits for no later one.
        """
        stretch, waits = self._stretch, self._executor.waits
        is_old = False
        if waits != self._waits or stretch is None or stretch.launches == 1:
            self._waits, self._from_ns = waits, time.perf_counter_ns() + MARK_AFTER_NS
        else:
            is_old = time.perf_counter_ns() > self._from_ns
        is_due = is_old or stretch is None or stretch.launches >= MARK_EVERY
        for worker in plan.batched:
            memory = worker.memory
            if not (is_due or memory.discarded or worker.wanted <= worker.issued):
                continue
            plan.go_to(worker)
            memory.free_discarded()
            if is_due or worker.wanted <= worker.issued or memory.fresh_nbytes > MARK_NBYTES:
                worker.mark()

    def _refused(
        self, plan: CompiledPlan, edge: Edge, entry: Entry, place: int, number: int, bases: Sequence[int]
    ) -> Completion:
        """One of a command's calls was refused: it is a job of its own, as it would be if it had been submitted. Under the lock."""
        executor = self._executor
        prepared, holdings, args, ndrange, places, after = entry
        completion = Completion()
        job = Job(executor, number, prepared, holdings, completion)
        job.args, job.ndrange, job.places = args, ndrange, places
        job.bases = [*bases]
        job.clock = [worker.submitted for worker in self._workers] + [0]
        job.after = after
        executor.unsettled[number] = job
        executor.failures.admit(job)
        completion.bind(job)
        needs = [
            (self._workers[at], self._workers[other], self._workers[other].issued) for at, other in edge.waits
        ]
        plan.conclude(executor, job, edge, place, needs)
        return completion


def _is_usable(worker: Worker) -> bool:
    """Whether a worker can take part just now: all that it was submitted was handed over, and calls can be made from lists."""
    if worker.compiling is None or worker.records is not None or worker.issued < worker.submitted:
        return False
    return worker.compiling.takes_lists()


def _take_turns(workers: Sequence[Worker], held: list[Worker]) -> bool:
    """Take the turns of workers that have nothing to do; False if one of them is not idle. `held` gets those that were taken."""
    mine = get_ident()
    for worker in workers:
        if worker.queue or worker.busy:
            return False
        if not worker.turn.acquire(False) and not worker.turn.acquire(timeout=TURN_TIMEOUT):
            return False
        worker.holder = mine
        held.append(worker)
    return True
