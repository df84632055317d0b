"""Together: the direct way to several workers for the threads that submit compiled plans one after the other.

While nothing but compiled plans is submitted, what each of them waits for follows from the plans before it (`vdev.executor.orders`), and
its calls are made with one call of the library. What is left is to count: the commands between two marks are one job
(`vdev.executor.shared_stretch`). Decides when this begins, with every worker ordered after all others, and when it ends: with
anything else that is submitted. A command that cannot be handed over in this way is submitted like any other: then nothing has happened.

Forms of plans (`vdev.executor.plan_form`) have other buffers each time, and refilled plans touch other bytes. What they wait for is
looked up in the records of their buffers, which is also done for the plans behind them, so that they can begin at any time.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from itertools import permutations
from threading import get_ident
from typing import TYPE_CHECKING, Protocol

from vdev.errors import BackendError
from vdev.executor.completion import Completion
from vdev.executor.job import Job
from vdev.executor.legs import CompilingExecutor
from vdev.executor.mark import MARK_AFTER_NS, MARK_EVERY, MARK_NBYTES, MARKS_IN_FLIGHT
from vdev.executor.orders import Edge, Order, Orders
from vdev.executor.shared_stretch import SharedMove, SharedPart, SharedStretch
from vdev.executor.worker_progress import TURN_TIMEOUT
from vdev.planner.instructions import HOST

if TYPE_CHECKING:
    from vdev.executor.compiled_plan import CompiledPlan
    from vdev.executor.stretch import Entry
    from vdev.executor.worker import Worker

#: compiled plans in a row after which more of them are expected: at first, once they have lasted, and at most, where they keep ending soon
_FIRST_IN_A_ROW, _NEXT_IN_A_ROW, _MOST_IN_A_ROW = 8, 2, 512
#: submissions that one command may take: itself, and what is folded for it
_WITH_FOLD = 2
#: for how many commands it has to last: having every worker come after the others takes the host as long as two that are submitted
_LONG = 4
#: commands after which the workers' memory is looked at
_LOOKS_EVERY = 16
#: what commands may wait for, where that is looked up: each is kept, with what was put into a list for it
_MOST_EDGES = 256

_new = object.__new__


class TogetherExecutor(CompilingExecutor, Protocol):
    """The executor as it is seen here (`vdev.executor.executor.Executor`)."""

    waits: int  #: how often a program's thread had to wait for a device
    early_waits: int  #: how often it asked for the end of less than a worker had been given


class Together:
    """The direct way to all workers of an executor. Under the session's lock."""

    __slots__ = (
        "_age_ns", "_by_age", "_count_down", "_early_waits", "_edges", "_executor", "_from_ns", "_has_marked", "_home", "_in_a_row",
        "_last", "_lasted", "_least", "_looked_waits", "_order", "_orders", "_seen", "_stretch", "_unbroken", "_unordered", "_waited",
        "_waits", "_workers", "done",
    )  # fmt: skip

    def __init__(self, executor: TogetherExecutor) -> None:
        self._executor = executor
        self._workers = executor.all_workers[:-1]
        self._home = executor.all_workers[HOST]
        self._orders = Orders(len(self._workers))
        #: None behind a command whose buffers were looked at
        self._order: Order | None = self._orders.root
        self._edges: dict[Hashable, Edge] = {}  #: of those, by fences and waits
        self._unordered = 0  #: other plans in a row since there was an order
        self._last = -1  #: the number of the last command here
        self._lasted = 0  #: commands since it began
        #: how many commands in a row could have come here, counting one that did not, and after how many it begins
        self._in_a_row, self._least = 0, _FIRST_IN_A_ROW
        self._unbroken = 0  #: how many of these with nothing else between them
        self._seen = -1  #: the number before that one's
        self._stretch: SharedStretch | None = None
        #: from when on a mark is due, and how often the program had waited then
        self._from_ns = self._waits = 0
        #: whether marks are due when the last one is old, what the executor counted at the last look at who waits, and the number of the
        #: last command before a look that found that the program had waited
        self._by_age, self._looked_waits, self._early_waits, self._waited = True, 0, 0, 0
        #: how old that is. Marks take the host as long for each worker, and are to be no larger a share of its time than one worker's
        #: are; who has waited for less than there is has them sooner
        self._age_ns = MARK_AFTER_NS * len(self._workers)
        self._count_down = 0  #: commands until the next look at the workers' memory and at who waits
        self._has_marked = False  #: whether marks were put behind the last command
        #: the number of a command up to which the devices have done all: set without a lock by who has waited for that
        self.done = -1

    @property
    def is_on(self) -> bool:
        """Whether the last command went this way."""
        return self._executor.last_number == self._last

    def is_ready(self) -> bool:
        """Whether a command can be handed over now, as far as the commands before it go. If not, it is not asked again for this one."""
        return self._executor.last_number == self._last or self._begin()

    def is_ready_for_forms(self) -> bool:
        """The same for a form of a plan."""
        return self._executor.last_number == self._last or self._join()

    def hand_over(self, plan: CompiledPlan, entry: Entry) -> Completion | None:
        """Hand a command over whose plan this is, compiled for its buffers' replicas; None if it has to be submitted instead: then nothing
        has happened. Everything that it waits for was submitted before, and nothing is known to have failed.
        """
        if not (self.is_ready_for_forms() if plan.is_form else self.is_ready()):
            return None
        edge = self._edge_of(plan, entry)
        workers: Sequence[Worker] = plan.workers
        if edge.fences:
            workers = self._concerned(workers, edge)
        held: list[Worker] = []
        found = None
        try:
            if _take_turns(workers, held):
                found = self._hand_over(plan, edge, entry)
                self._count_down -= 1
                if self._count_down < 0 or (self._by_age and self._stretch is not None and self._is_old()):
                    self._look_after(plan, workers)
        finally:
            plan.leave()
            _give_turns(held)
        if self._has_marked:
            self._has_marked = False
            for worker in workers:
                if len(worker.marks) > MARKS_IN_FLIGHT:
                    worker.throttle_here()
        return found

    def _edge_of(self, plan: CompiledPlan, entry: Entry) -> Edge:
        """What a plan waits for."""
        order = self._order
        if plan.is_form:
            self._unordered = 0
        elif order is not None:
            if self.done == self._last:  # and nothing was given to them since: there is nothing to come after
                order = self._orders.root
            return order.edges.get(plan) or self._orders.after(order, plan, plan.accesses)
        else:
            self._unordered += 1
            if self._unordered > _LONG and self._meet_again():
                return self._edge_of(plan, entry)
        waits, fences, workers = plan.needs(entry[1]), [], self._workers
        for (_, other), step in waits.items():
            if workers[other].fenced < step and other not in fences:
                fences.append(other)
        key = (*fences, *waits)
        edge = self._edges.get(key)
        if edge is None:
            if len(self._edges) >= _MOST_EDGES:
                self._edges.clear()
            edge = self._edges[key] = Edge(tuple(fences), tuple(waits), None)
        return edge

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
            if not plan.takes(entry[1]):
                return None
            if executor.last_number != self._last:  # a finaliser has submitted something meanwhile
                plan.was_left()
                return None
            stretch = self._stretch
            if stretch is None or self._is_to_open(stretch, plan):
                stretch = SharedStretch(executor, self._last + 1, self._workers, entry[0])
            number = executor.last_number = self._last + 1
            bases = plan.number_steps(entry[1])
            self._last, executor.standing = -1, object()  # until all is well
            if (place := plan.make_as(edge, entry[2])) != plan.end:
                return self._refused(plan, edge, entry, place, number, bases)
            if plan.is_form:
                plan.was_made()
            if edge.fences or edge.waits:
                self._order_workers(edge)
            if not stretch.launches:
                self._open(stretch)
            part = self._enter(plan, entry, stretch, bases)
            self._order, self._last = edge.order, number
            if edge.order is not None:
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
        shares = plan.shares
        if shares is not None:
            clock, on_workers = stretch.clock, stretch.on_workers
            for worker, number, last, made, operations, launches in shares.each:
                worker.next_mark.ends[-1] = end = made(operations, launches)
                worker.issued = clock[number] = step = bases[number] + last
                on_workers[number].append((index, end))
                if worker.wanted <= step:
                    self._count_down = 0
            for counters, name, more in shares.counted:
                setattr(counters, name, getattr(counters, name) + more)
        else:
            self._enter_legs(plan, stretch, index, bases)
        stretch.entries.append(entry)
        stretch.clocks.append(tuple([worker.issued for worker in self._workers]))
        stretch.launches = index + 1
        return part

    def _enter_legs(
        self, plan: CompiledPlan, stretch: SharedStretch, index: int, bases: Sequence[int]
    ) -> None:
        """The same for the legs of a plan some of which concern other workers."""
        move = SharedMove(stretch, index)
        for leg in plan.legs:
            worker, number = leg.worker, leg.number
            pending = leg.handed_over(bases[number], move)
            if leg.is_last:
                stretch.clock[number] = worker.issued
                worker.next_mark.ends[-1] = pending
                stretch.on_workers[number].append((index, pending))
                if worker.wanted <= worker.issued:
                    self._count_down = 0

    def _is_to_open(self, stretch: SharedStretch, plan: CompiledPlan) -> bool:
        """Whether a command is not to be a part of the last stretch: that has ended, or there is a mark behind it."""
        if not stretch.is_open or stretch.last != self._last:
            return True
        marks = stretch.marks
        for worker in plan.batched:  # noqa: SIM110 (a generator takes longer)
            if marks.get(worker.number) is not worker.next_mark:
                return True
        return False

    def _open(self, stretch: SharedStretch) -> None:
        """The first command of a stretch was handed over; one that is refused is none of any stretch's."""
        for mark in stretch.marks.values():
            mark.jobs.append(stretch)
            mark.ends.append(0)
        self._executor.unsettled[stretch.number] = self._stretch = stretch
        stretch.completion.bind(stretch)
        self._from_ns = time.perf_counter_ns() + self._age_ns

    # where it begins ------------------------------------------------------------------------------

    def _begin(self) -> bool:
        """Something else was submitted since the last command here: whether this one can be the first again."""
        executor = self._executor
        if self._lasted:  # it has come to an end
            self._least = _NEXT_IN_A_ROW if self._lasted >= _LONG else min(2 * self._least, _MOST_IN_A_ROW)
            self._lasted = self._in_a_row = self._unbroken = 0
        since = executor.last_number - self._seen
        if since:  # else it is asked again for one command
            self._in_a_row = self._in_a_row + 1 if since <= _WITH_FOLD else 1
            if since > 1:
                if self._unbroken >= max(2 * _LONG, self._least // 2):  # the next such row is worth it
                    self._least = max(min(self._least, self._unbroken // 4), _NEXT_IN_A_ROW)
                self._unbroken = 0
            self._unbroken += 1
        self._last, self._seen = -1, executor.last_number
        return self._in_a_row > self._least and self._meet()

    def _join(self) -> bool:
        """The same for a form of a plan, which needs no order: whether all that was submitted was handed over."""
        executor = self._executor
        if self._home.completed < self._home.submitted:
            return False
        with executor.lock:
            if executor.closed or executor.failures.any or not all(map(_is_usable, self._workers)):
                return False
            self._order, self._last = None, executor.last_number
        return True

    def _meet_again(self) -> bool:
        """So many plans came behind the last form: have an order again. Whether that was possible."""
        self._unordered, self._seen = 0, self._last
        return self._meet()

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

    def _is_old(self) -> bool:
        """Whether the program has handed commands over for a while without waiting for any. Who waits for one of that time shall not wait
        for later ones.
        """
        waits, now = self._executor.waits, time.perf_counter_ns()
        if waits != self._waits:
            self._waits, self._from_ns = waits, now + self._age_ns
        return now > self._from_ns

    def _look_after(self, plan: CompiledPlan, workers: Sequence[Worker]) -> None:
        """Free what is not used any more, and put the marks that are due: after so many commands, where somebody waits for one, and when
        the last one is old. With the turns of these workers.
        """
        stretch = self._stretch
        is_due = stretch is None or stretch.launches >= MARK_EVERY
        is_due = is_due or (self._by_age and time.perf_counter_ns() > self._from_ns)
        self._look_for_waits()
        for worker in workers:
            memory = worker.memory
            if is_due or memory.discarded or worker.wanted <= worker.issued:
                plan.go_to(worker)
                memory.free_discarded()
                if is_due or worker.wanted <= worker.issued or memory.fresh_nbytes > MARK_NBYTES:
                    worker.mark()
                    self._has_marked = True
        self._count_down = _LOOKS_EVERY

    def _look_for_waits(self) -> None:
        """Marks are of no use to a program that waits for all that there is each time, as for a read, and cost it as much as two commands:
        while it does so again and again, no mark is due for its age.
        """
        executor = self._executor
        if executor.early_waits != self._early_waits:
            self._early_waits, self._by_age, self._age_ns = executor.early_waits, True, MARK_AFTER_NS
        elif executor.waits != self._looked_waits:
            self._by_age, self._waited = False, self._last
            self._age_ns = MARK_AFTER_NS * len(self._workers)
        elif self._last - self._waited > MARK_EVERY:
            self._by_age = True
        self._looked_waits = executor.waits

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
    if worker.compiling is None or worker.issued < worker.submitted:
        return False
    return worker.compiling.takes_lists()


def _take_turns(workers: Sequence[Worker], held: list[Worker]) -> bool:
    """Take the turns of workers that have nothing to do; False if one of them is not idle. `held` gets those that were taken."""
    mine, others = get_ident(), []
    for worker in workers:
        if worker.queue:
            return False
        if worker.turn.acquire(False):
            worker.holder = mine
            held.append(worker)
        else:  # its thread has looked around just now
            others.append(worker)
    for worker in others:
        if worker.queue or not worker.turn.acquire(timeout=TURN_TIMEOUT):
            return False
        worker.holder = mine
        held.append(worker)
    return True


def _give_turns(held: Sequence[Worker]) -> None:
    """Give back the turns that were taken."""
    for worker in held:
        worker.holder = 0
        worker.turn.release()
        if worker.queue or not worker.watching:
            worker.wake()
