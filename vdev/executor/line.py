"""Lines: the direct way to a worker for the threads that submit commands.

A line hands commands over to its worker without a submission, and enters them into a stretch (`vdev.executor.stretch`).
Decides when a command can be handed over in this way; if it cannot, nothing has happened, and it is submitted like
any other.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from math import inf
from operator import itemgetter
from threading import get_ident
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from vdev.backends import compiled
from vdev.errors import BackendError
from vdev.executor.completion import Completion
from vdev.executor.job import Job, JobExecutor
from vdev.executor.launch_step import LaunchStep
from vdev.executor.mark import MARK_EVERY, MARK_NBYTES, Mark
from vdev.executor.prepare import NOTHING
from vdev.executor.stretch import Entry, Part, Stretch, Timed
from vdev.executor.worker_progress import TURN_TIMEOUT
from vdev.process.finalisers import may_wait

if TYPE_CHECKING:
    from vdev.backends.base import Bytes, Deliver, DriverLaunch, DriverMemory, LaunchShape, Repeated
    from vdev.executor.holdings import Holdings
    from vdev.executor.step import LaunchForm
    from vdev.executor.worker import Worker
    from vdev.translators.ranges.ndrange import NDRange
    from vdev.translators.ranges.rectangles import Layout


logger = logging.getLogger("vdev.executor")

_new = object.__new__
#: operations handed over since the last mark, and what `Backend.begin_timed` gave
_Before: TypeAlias = tuple[int, object]


class Streak:
    """Launches that differ in the values of scalars and in the index space at most: each after the first is one call of the back end
    (`Backend.again`).

    It goes on while nothing is submitted that might change anything for them: with several workers, while nothing else is
    submitted but what is handed to the same worker by its line.
    """

    __slots__ = (
        "_given", "_over", "_pick", "_places", "_prepared", "_slots", "is_renewed", "limit", "ndrange", "number", "start", "stretch",
        "values",
    )  # fmt: skip

    def __init__(
        self,
        stretch: Stretch,
        entry: Entry,
        start: Repeated,
        over: Callable[[NDRange, tuple[tuple[int, int, int], ...]], LaunchShape | None],
    ) -> None:
        """`entry`: of the last launch. `over`: the shape with which `start` goes over to an index space, None where it does not."""
        prepared, holdings, args, ndrange, places, _ = entry
        self.stretch = stretch  #: of the last launch
        self.number = stretch.last  #: of the last launch
        self.start = start
        self.is_renewed = False  #: whether something else came before the last launch
        #: work-items from which on a launch over another index space than the last one's is handed over like any other
        self.limit = inf
        self.ndrange = ndrange  #: of the last launch
        self._over = over
        self._prepared, self._places = prepared, places
        #: by slot: an argument that is its buffer
        self._slots = [next(arg for arg, at, _ in places if at == slot) for slot in range(len(holdings))]
        #: by argument that is a scalar: its value in the last launch
        self.values = {at: arg for at, arg in enumerate(args) if type(arg) is bytes}
        #: picks them all at once; what it picked last
        self._pick = itemgetter(*self.values, *self.values) if self.values else None
        self._given: object = None

    def changed(self, args: Sequence[Any]) -> Sequence[tuple[int, bytes]]:
        """The scalars that are others than in the last launch; from now on the last launch is one with these `args`."""
        given = None if self._pick is None else self._pick(args)
        if given == self._given:
            return ()
        self._given = given
        values: dict[int, bytes] = self.values
        found: Sequence[tuple[int, bytes]] = ()
        for at in values:
            value = args[at]
            if value is not values[at]:
                values[at] = value
                found = (*found, (at, value))
        return found

    def shape_over(self, ndrange: NDRange) -> LaunchShape | None:
        """What `start` takes for a launch over another index space than the last one; None where it takes none."""
        limit = self.limit
        return self._over(ndrange, self._places) if limit == inf or ndrange.nitems < limit else None

    def buffers(self, args: Sequence[Any]) -> list[Any]:
        """By slot: those of a launch with these `args`, which alone keep them alive."""
        return [args[at].buffer for at in self._slots]

    def entry(self, ndrange: NDRange, args: Sequence[Any], after: Sequence[Completion]) -> Entry:
        """Such a launch, over an index space, behind something else or behind all of `after`."""
        self.is_renewed = True
        holdings = [args[at].buffer.holdings for at in self._slots]
        return self._prepared, holdings, args, ndrange, self._places, after


class LineExecutor(JobExecutor, Protocol):
    """The executor as a line sees it (`vdev.executor.executor.Executor`)."""

    standing: object  #: another object whenever a command handed over as before would not come in its place
    last_number: int  #: of the last command
    unsettled: dict[int, Job]  #: by number: commands that have not ended
    closed: bool  #: whether nothing is taken any more

    @property
    def has_failed(self) -> bool:
        """Whether any command that concerns a buffer ever has."""

    def admit_each(self, stretch: Stretch) -> None:
        """What has failed was not known when the commands of a stretch were made: fail those that it concerns."""

    def uses_host(self) -> bool:
        """Whether anybody still has to do with the host's arrays."""

    def uses_host_elsewhere(self, number: int) -> bool:
        """The same of anybody but the worker of that number."""

    def enter_host(self, host: Bytes, number: int, step: int, *, writes: bool) -> None:
        """A worker's step reads an array of the host's, or writes to it, until it is complete."""


class Line:
    """The direct way to a worker for the threads that submit."""

    __slots__ = (
        "_alone", "_at", "_executor", "_home", "_job", "_leave", "_pending", "_stretch", "_told", "first", "last",
        "latest", "looked_at", "tells_times", "visit", "worker",
    )  # fmt: skip

    def __init__(self, executor: LineExecutor, worker: Worker, home: Worker, *, alone: bool) -> None:
        """`home`: the worker for host memory. `alone`: `worker` is the only other one, so nobody else reads its
        memory.
        """
        self._executor = executor
        self.worker = worker
        self.looked_at = 0  #: the last marked step when `throttle` was called
        self._at = worker.number
        self._home = home
        self._alone = alone
        #: of the commands handed over here, the number of the last; and of the first since when nothing was submitted elsewhere
        self.last, self.first = -1, 0
        self._stretch: Stretch | None = None  #: the last one
        self.latest: Completion | None = None  #: its completion: that of a queue whose last command it holds
        #: the command that is being handed over, as its step sees it; with the worker's turn
        self._job = Job(executor, 0, NOTHING, (), Completion())
        backend = worker.backend
        self._told = [-1, 0]  #: as for `Timer`
        self._pending = backend.pending
        self.tells_times = (
            backend.tells_times
        )  #: commands whose times are wanted need no markers of their own
        #: makes a thread ready that has the worker's turn (`Backend.visitor`); None where that takes nothing
        self.visit = backend.visitor() if backend.has_visitors else None
        self._leave = backend.leave

    def hand_over(
        self,
        entry: Entry,
        standing: object,
        host: tuple[Bytes, Layout] | None = None,
        *,
        reads: bool = False,
        make: Callable[[Bytes], object] | None = None,
        timed: Timed | None = None,
    ) -> Part | None:
        """Hand a command over; None if it has to be submitted instead: then nothing has happened.

        Its plan is one step that is not coherent, on memory that the worker has and nobody else reads, and everything
        that it waits for was handed to the worker before. `standing`: the executor's, when that was checked. `host`:
        what it writes to the worker, which nothing else uses, read when this returns; or what it `reads` into, which nobody but
        the worker may use until the command is complete. `make`: writes all of that array again (`Backend.write_again`). `timed`: the
        completion, profiled, of a command that becomes a stretch of its own, with a marker before and behind it. Under the session's lock.
        """
        if timed is None or self.tells_times:
            if make is not None and host is not None:
                return self.hand_over_written(entry, standing, host[0], make, timed)
            form = entry[0].step.form(entry[4]) if host is None else None  # type: ignore[union-attr]
            if form is not None:
                return self.hand_over_formed(form, entry, standing, timed)
        return self._hand_over(entry, standing, host, reads, make, timed)

    def hand_over_formed(
        self, form: LaunchForm, entry: Entry, standing: object, timed: Timed | None = None
    ) -> Part | None:
        """`hand_over` of a launch of a known form, or a copy or fill, with fewer calls."""
        worker, executor, home, part = self.worker, self._executor, self._home, None
        if worker.queue or not worker.turn.acquire(False):
            return None
        try:
            worker.holder = get_ident()
            executor.lock.acquire()  # as in `again`
            try:
                changes = form.changes(worker, entry)
                is_changed = executor.standing is not standing or worker.queue or executor.closed
                if is_changed or home.completed < home.submitted:
                    return None
                if changes is not None:
                    part = self._start(form, changes, entry, timed)
            finally:
                executor.lock.release()
        finally:
            if (
                part is None
                or part.stretch.ends[-1] >= MARK_EVERY
                or worker.wanted <= worker.issued
                or worker.memory.fresh_nbytes > MARK_NBYTES
            ):
                self._give_turn(part)
            else:
                worker.holder = 0
                worker.turn.release()
                if not worker.watching or worker.queue:
                    worker.wake()
        return part if changes is not None else self._hand_over(entry, standing, None, False, None, timed)

    def hand_over_read(
        self,
        entry: Entry,
        standing: object,
        host: Bytes,
        begin: Callable[[], Deliver | None],
        timed: Timed | None = None,
    ) -> Part | None:
        """`hand_over` of a read into all of `host` that arrives in memory of the back end's own, with fewer calls: `begin` begins it
        (`Backend.read_later`).
        """
        worker, executor, home, part = self.worker, self._executor, self._home, None
        if worker.queue or (timed is not None and not self.tells_times) or not worker.turn.acquire(False):
            return None
        try:
            worker.holder = get_ident()
            executor.lock.acquire()  # as in `again`
            try:
                is_changed = executor.standing is not standing or worker.queue or executor.closed
                if is_changed or home.completed < home.submitted or executor.uses_host_elsewhere(self._at):
                    return None
                part = self._make(entry, begin, (), timed, host)
            finally:
                executor.lock.release()
        finally:
            self._give_turn(part)
        return part

    def hand_over_written(
        self,
        entry: Entry,
        standing: object,
        host: Bytes,
        make: Callable[[Bytes], object],
        timed: Timed | None,
    ) -> Part | None:
        """`hand_over` of a write of all of `host`, which `make` makes, with fewer calls; not of one whose times only markers tell."""
        worker, executor, home, visit, part = self.worker, self._executor, self._home, self.visit, None
        if worker.queue or not worker.turn.acquire(False):
            return None
        try:
            worker.holder = get_ident()
            executor.lock.acquire()  # as in `again`
            try:
                is_changed = executor.standing is not standing or worker.queue or executor.closed
                if is_changed or home.completed < home.submitted or executor.uses_host():
                    return None
                outside = None if visit is None else visit()
                try:
                    part = self._make(entry, make, (host,), timed)
                finally:
                    if outside is not None:
                        self._leave(outside)
            finally:
                executor.lock.release()
        finally:
            self._give_turn(part)
        return part

    def _make(
        self,
        entry: Entry,
        make: Callable[..., Any],
        given: tuple[Bytes, ...],
        timed: Timed | None,
        into: Bytes | None = None,
    ) -> Part | None:
        """The same with the turn and the executor's lock, on a thread that is ready: enter what `make` makes with what is `given`; None
        if it is refused. `into`: of a read, which `make` only begins; it gives what delivers the bytes, or None where it did not begin.
        """
        worker, executor = self.worker, self._executor
        before = None if timed is None else self._before()
        number = executor.last_number = executor.last_number + 1
        step = worker.submitted = worker.submitted + 1
        try:
            delivers = make(*given)
        except Exception as error:
            self._refused(error, number, step)
            return None
        except BaseException:  # as in `_perform`
            self._enter(entry, number, step, -1, timed, before)
            raise
        if into is not None:
            if delivers is None:
                executor.last_number, worker.submitted = number - 1, step - 1
                return None
            executor.enter_host(into, self._at, step, writes=True)
            worker.arrivals.append((step, partial(delivers, into, 0), delivers))
        return self._enter(entry, number, step, -1, timed, before)

    def _start(self, form: LaunchForm, changes: Any, entry: Entry, timed: Timed | None) -> Part | None:
        """Launch by a form and enter that, with the turn and the executor's lock; None if it is refused."""
        worker, executor = self.worker, self._executor
        before = None if timed is None else self._before()
        number = executor.last_number = executor.last_number + 1
        step = worker.submitted = worker.submitted + 1
        try:
            pending = form.start(changes)  # which makes the thread ready
        except Exception as error:
            self._refused(error, number, step)
            return None
        except BaseException:  # as in `_perform`
            self._enter(entry, number, step)
            raise
        return self._enter(entry, number, step, pending, timed, before)

    def _hand_over(
        self,
        entry: Entry,
        standing: object,
        host: tuple[Bytes, Layout] | None,
        reads: bool,
        make: Callable[[Bytes], object] | None,
        timed: Timed | None = None,
    ) -> Part | None:
        """`hand_over` of whatever command. Times that are wanted begin with its own work, and end with it."""
        worker, part = self.worker, None
        is_marked = timed is not None and not self.tells_times
        if worker.queue or (is_marked and not may_wait()) or not worker.turn.acquire(False):
            return None
        try:
            worker.holder = get_ident()
            if is_marked:
                self._mark_before()
            part = self._with_turn(entry, standing, host, reads, make, timed)
        finally:
            try:
                if is_marked and part is not None:
                    self._mark(timed=part.stretch)
            finally:
                self._give_turn(None if is_marked else part)
        return part

    def _with_turn(
        self,
        entry: Entry,
        standing: object,
        host: tuple[Bytes, Layout] | None,
        reads: bool,
        make: Callable[[Bytes], object] | None,
        timed: Timed | None,
    ) -> Part | None:
        """`hand_over`, with the worker's turn."""
        worker, executor, home, visit = self.worker, self._executor, self._home, self.visit
        with executor.lock:
            if (
                executor.standing is not standing
                or worker.queue
                or executor.closed
                or home.completed < home.submitted
            ):
                return None
            if host is not None and (
                executor.uses_host_elsewhere(self._at) if reads else executor.uses_host()
            ):
                return None
            outside = None if visit is None else visit()
            try:
                return self._perform(entry, host, reads, make, timed)
            finally:
                if outside is not None:
                    self._leave(outside)

    def again(
        self,
        streak: Streak,
        standing: object,
        ndrange: NDRange,
        args: Sequence[Any],
        after: Sequence[Completion],
        timed: Timed | None = None,
    ) -> Part | None:
        """Hand over the next launch of a streak, over `ndrange` and with these `args`, as `hand_over` with as few calls as there can be;
        None if it has to be handed over like any other: then nothing has happened. `standing`: the executor's, when it began. `after`:
        what it waits for, which was handed to the worker before. `timed`: its times are wanted, which the back end tells. Under the
        session's lock.
        """
        worker, executor, part = self.worker, self._executor, None
        if not worker.turn.acquire(False):
            return None
        try:
            worker.holder = get_ident()
            executor.lock.acquire()  # `with` takes twice as long, and nothing is raised in between (`vdev.process.interrupts`)
            try:
                shape = None
                if executor.standing is standing and (
                    ndrange is streak.ndrange or (shape := streak.shape_over(ndrange)) is not None
                ):
                    before = None if timed is None else self._before()
                    part = self._again(streak, ndrange, args, after, shape)
                    if timed is not None and before is not None and part is not None:
                        self._time(part, timed, before)
            finally:
                executor.lock.release()
        finally:
            if part is None or part.stretch.ends[-1] >= MARK_EVERY or worker.wanted <= worker.issued:
                self._give_turn(part)
            else:
                worker.holder = 0
                worker.turn.release()
                if not worker.watching or worker.queue:
                    worker.wake()
        return part

    def again_timed(
        self,
        streak: Streak,
        standing: object,
        ndrange: NDRange,
        args: Sequence[Any],
        after: Sequence[Completion],
        timed: Timed,
    ) -> Part | None:
        """The same for a launch whose times are wanted: where only markers tell them, it becomes a stretch of its own, as in
        `hand_over`.
        """
        worker, executor, part = self.worker, self._executor, None
        if self.tells_times:
            return self.again(streak, standing, ndrange, args, after, timed)
        if worker.queue or not may_wait() or not worker.turn.acquire(False):
            return None
        try:
            worker.holder = get_ident()
            self._mark_before()
            executor.lock.acquire()
            try:
                shape = None
                if executor.standing is standing and (
                    ndrange is streak.ndrange or (shape := streak.shape_over(ndrange)) is not None
                ):
                    part = self._again(streak, ndrange, args, after, shape, timed)
            finally:
                executor.lock.release()
        finally:
            try:
                if part is not None:
                    self._mark(timed=part.stretch)
            finally:
                self._give_turn(None)
        return part

    def _again(
        self,
        streak: Streak,
        ndrange: NDRange,
        args: Sequence[Any],
        after: Sequence[Completion],
        shape: LaunchShape | None,
        timed: Timed | None = None,
    ) -> Part | None:
        """`again`, with the turn and the lock. `shape`: another than the last launch's. `timed`: as in `hand_over`."""
        worker, executor, stretch = self.worker, self._executor, streak.stretch
        before, at, apart = executor.last_number, self._at, timed or after
        goes_on = before == streak.number and stretch.is_open and not (apart or stretch.entries[-1][5])
        if not (goes_on or self._may_follow(streak, before)):
            return None
        entry = stretch.entries[-1] if goes_on else streak.entry(ndrange, args, after)
        number = executor.last_number = before + 1
        step = worker.submitted = worker.submitted + 1
        try:  # which makes the thread ready
            pending = streak.start(streak.changed(args) if streak.values else (), shape)
        except Exception as error:
            self._refused(error, number, step)
            return None
        except BaseException:  # as in `_perform`
            self._enter(entry, number, step, -1, timed)
            raise
        streak.number, streak.ndrange, mark = number, ndrange, stretch.mark  # a finaliser may have run
        if not (goes_on and mark is worker.next_mark and stretch.is_open and stretch.clock[at] == step - 1):
            streak.stretch = (part := self._enter(entry, number, step, pending, timed)).stretch
            return part
        worker.issued, self.last, part = step, number, _new(Part)
        part.stretch, part.index = stretch, stretch.launches  # as in `_enter`
        stretch.entries.append(entry)
        stretch.ends.append(pending)
        stretch.launches += 1
        stretch.last, stretch.clock[at], mark.ends[-1] = number, step, pending
        if not self._alone:  # as in `_enter`, as every launch in a row comes here
            for holdings in entry[1]:
                holdings.written[at] = step
        return part

    def _may_follow(self, streak: Streak, before: int) -> bool:
        """Whether a streak goes on behind command number `before`, which is none of its own: nothing else has changed anything for it."""
        if not (self._alone or (self.last == before and self.first <= streak.number)):
            return False
        return not self.worker.queue and self._home.completed >= self._home.submitted

    def _give_turn(self, part: Part | None) -> None:
        """End the turn in which `part` was handed over, or nothing, with a mark if one is due."""
        worker = self.worker
        due = worker.wanted <= worker.issued or (
            part is not None
            and (
                worker.next_mark.ends[-1] >= MARK_EVERY
                or part.index >= MARK_EVERY  # of markers none is an operation
                or worker.memory.fresh_nbytes > MARK_NBYTES
            )
        )
        if due and may_wait():
            self._mark()
        worker.holder = 0
        worker.turn.release()
        if worker.queue or not worker.watching:
            worker.wake()

    def _refused(self, error: Exception, number: int, step: int) -> None:
        """The back end has refused a command, which is submitted like any other then, and so gets its error."""
        executor, worker = self._executor, self.worker
        if not isinstance(error, (BackendError, MemoryError, RecursionError)):
            logger.error("an internal error in a stretch", exc_info=error)
        executor.standing = object()  # a kernel may have some of its arguments: none is repeated
        if executor.last_number == number:
            executor.last_number = number - 1
        if worker.submitted == step:
            worker.submitted = step - 1

    def streak(self, part: Part, entry: Entry | None = None) -> Streak | None:
        """What repeats the launch of `part`; None if another command has been submitted since, or the back end repeats nothing.
        `entry`: of the launch, where its stretch may have ended. Under the session's lock.
        """
        worker, executor, stretch = self.worker, self._executor, part.stretch
        if not worker.turn.acquire(False):
            return None
        try:
            worker.holder = get_ident()
            with executor.lock:
                is_last = part.index == stretch.launches - 1 and executor.last_number == stretch.last
                if worker.queue or not is_last or not (stretch.is_open or entry is not None):
                    return None
                entry = entry or stretch.entries[-1]  # which is gone once the stretch has ended
                step = entry[0].step
                if not isinstance(step, LaunchStep):
                    return None
                start = self._repeated(step, entry)
        finally:
            worker.holder = 0
            worker.turn.release()
            if worker.queue:
                worker.wake()
        return None if start is None else Streak(stretch, entry, start, partial(step.over, worker))

    def _repeated(self, step: LaunchStep, entry: Entry) -> Repeated | None:
        """The call of the back end that repeats a launch."""
        prepared, holdings, args, ndrange, places, _ = entry
        job = self._job
        job.prepared, job.holdings, job.args, job.ndrange, job.places = (
            prepared, holdings, args, ndrange, places,
        )  # fmt: skip
        outside = None if self.visit is None else self.visit()
        try:
            return step.again(self.worker, job)
        except BackendError:
            return None
        finally:
            job.holdings = job.args = ()
            if outside is not None:
                self._leave(outside)

    def has_had_all_since(self, number: int) -> bool:
        """Whether all commands from that one on, which was handed over here, were."""
        return self.first <= number and self.last == self._executor.last_number

    def place(self, holdings: Holdings) -> bool:
        """Give a whole new buffer its memory on the worker, since its work waits for nothing else; False if that
        takes a plan: then nothing has happened. Under the session's lock.
        """
        worker, executor = self.worker, self._executor
        if worker.queue or not worker.turn.acquire(False):
            return False
        try:
            worker.holder = get_ident()
            executor.lock.acquire()  # as in `again`
            try:
                if worker.queue or executor.closed or executor.has_failed:
                    return False
                if worker.memory.place_again(holdings):
                    return True
                outside = None if self.visit is None else self.visit()
                try:
                    return worker.memory.place(holdings)
                finally:
                    if outside is not None:
                        self._leave(outside)
            finally:
                executor.lock.release()
        finally:
            worker.holder = 0
            worker.turn.release()
            if worker.queue:
                worker.wake()

    def for_driver(self, entry: Entry, own: object) -> DriverLaunch | None:
        """What `hand_over` would give to the back end, for a caller who does that himself with `own`, a kernel of the back
        end's that nobody else uses. None where that is not possible. Under the session's lock.
        """
        worker, step = self.worker, entry[0].step
        if worker.queue or not isinstance(step, LaunchStep) or not worker.turn.acquire(False):
            return None
        job = Job(self._executor, 0, entry[0], entry[1], Completion())
        job.args, job.ndrange, job.places = entry[2:5]
        try:
            return step.for_driver(worker, job, own)
        except BackendError:
            return None
        finally:
            worker.turn.release()
            if worker.queue:
                worker.wake()

    def memory_for_driver(self, holdings: Holdings) -> DriverMemory | None:
        """A buffer's memory on this worker, which has all of it, for a caller who moves its bytes himself; None where that is not possible.
        Under the session's lock.
        """
        worker = self.worker
        replica = holdings.replicas[worker.number]
        if worker.queue or replica is None or replica.start or replica.stop < holdings.nbytes:
            return None
        return worker.backend.driver_memory(replica.allocation)

    @contextmanager
    def turn(self) -> Iterator[bool]:
        """The worker's turn; False if its thread does not give way, which may be waiting for a lock of the caller's. Afterwards a
        mark, if one is due.
        """
        worker = self.worker
        if not worker.turn.acquire(timeout=TURN_TIMEOUT):
            yield False
            return
        worker.holder = get_ident()
        try:
            yield True
        finally:
            ends = worker.next_mark.ends
            if ends and ends[-1] >= MARK_EVERY and may_wait():
                self._mark()
            worker.holder = 0
            worker.turn.release()
            if worker.queue or not worker.watching:
                worker.wake()

    @property
    def is_at_worker(self) -> bool:
        """Whether all that was submitted is with the only worker's back end, and brings bytes to the program's memory by itself."""
        worker, home = self.worker, self._home
        return (
            worker.takes_transfers and home.completed >= home.submitted and worker.issued == worker.submitted
        )

    def enter_launched(self, runs: Sequence[tuple[Entry, int]], handles: Sequence[int]) -> Part:
        """Enter commands that were made from what `for_driver` gave: which, and how often in a row; and what the back end is
        told of each. The first of them in the stretch that they are in. The worker is the only one, and nothing was handed over to it
        meanwhile. With its turn, and under the session's lock and the executor's.
        """
        executor, worker = self._executor, self.worker
        launched = worker.backend.launched
        launches = sum(count for entry, count in runs if isinstance(entry[0].step, LaunchStep))
        launched(handles[:1], launches)
        first = self._enter(runs[0][0], executor.last_number + 1, worker.submitted + 1)
        stretch = first.stretch
        launched(handles[1:], 0)
        entered, end = 1, stretch.ends[-1]
        for entry, count in runs:
            more = count - entered
            stretch.entries += [entry] * more
            stretch.ends += range(end + 1, end + more + 1)
            stretch.launches += more
            entered, end = 0, end + more
        executor.last_number = stretch.last = self.last = stretch.number + stretch.launches - 1
        worker.submitted = worker.issued = stretch.clock[self._at] = stretch.first + stretch.launches - 1
        stretch.mark.ends[-1] = end
        if executor.has_failed:
            executor.admit_each(stretch)
        return first

    def throttle(self) -> None:
        """There is a new mark: let go what is complete, since its memory is wanted again, and hold the caller back if
        the device is far behind. Outside all locks.
        """
        self.looked_at = self.worker.marked
        if may_wait():
            self.worker.throttle_here()

    def _mark_before(self) -> None:
        """Before a command whose times are wanted: nothing else is to count among its own work."""
        worker = self.worker
        if worker.marked < worker.issued or self._pending():
            self._mark(anew=True)

    def _mark(self, *, anew: bool = False, timed: Stretch | None = None) -> None:
        backend = self.worker.backend
        outside = backend.visit()
        self.worker.mark(anew=anew, timed=timed)
        if outside is not None:
            backend.leave(outside)

    def _perform(
        self,
        entry: Entry,
        host: tuple[Bytes, Layout] | None,
        reads: bool,
        make: Callable[[Bytes], object] | None,
        timed: Timed | None,
    ) -> Part | None:
        executor, worker, job = self._executor, self.worker, self._job
        # A finaliser may submit something while the step runs: that comes after it.
        number = executor.last_number = executor.last_number + 1
        step = worker.submitted = worker.submitted + 1
        job.prepared, job.holdings, job.args, job.ndrange, job.places, _ = entry
        before = self._before() if timed is not None and self.tells_times else None
        try:
            if host is None:
                entry[0].step.run(worker, job)  # type: ignore[union-attr]
            elif reads:
                job.host, job.layout = host
                executor.enter_host(host[0], self._at, step, writes=True)
                self._read(entry, step, *host)
            elif make is not None:
                make(host[0])
            else:
                job.host, job.layout = host
                entry[0].upload.run_now(worker, job)  # type: ignore[union-attr]
        except Exception as error:
            self._refused(error, number, step)
            return None
        except (
            BaseException
        ):  # an interrupt of the program's: the command may have been handed over, so it counts
            self._enter(entry, number, step, -1, timed, before)
            raise
        finally:
            job.holdings = job.args = ()  # the last command's buffers may go
            if host is not None:
                job.host = job.layout = None
        return self._enter(entry, number, step, -1, timed, before)

    def _read(self, entry: Entry, step: int, host: Bytes, layout: Layout) -> None:
        """Into the host's array; or into memory of the back end's own, where the other would make this thread wait."""
        worker, download = self.worker, entry[0].download
        assert download is not None
        if worker.takes_transfers:
            download.run(worker, self._job)
            return
        delivers, start = download.begin(worker, entry[1][download.slot], layout)
        worker.arrivals.append((step, partial(delivers, host, start), delivers))

    def _enter(
        self,
        entry: Entry,
        number: int,
        step: int,
        pending: int = -1,
        timed: Timed | None = None,
        before: _Before | None = None,
    ) -> Part:
        """The command was handed over. `pending`: what the back end has handed over with it since the last mark, if that is known.
        `timed`: its completion, if its times are wanted; `before`: what `_before` gave.
        """
        worker, stretch, at = self.worker, self._stretch, self._at
        mark = worker.next_mark
        if number != self.last + 1:
            self.first = number
        if stretch is None or not (
            stretch.mark is mark
            and stretch.is_open
            and stretch.last == number - 1
            and stretch.clock[at] == step - 1
        ):
            stretch = self._open(mark, number, step, entry, None if self.tells_times else timed)
        if pending < 0:
            pending = self._pending()
        worker.issued = step
        self.last = number
        part = _new(Part)
        part.stretch, part.index = stretch, stretch.launches
        stretch.entries.append(entry)
        stretch.ends.append(pending)
        stretch.launches += 1
        stretch.last, stretch.clock[at], stretch.mark.ends[-1] = number, step, pending
        if not self._alone:  # it may change its buffers
            for holdings in entry[1]:
                holdings.written[at] = step
        if timed is not None and before is not None:
            self._time(part, timed, before)
        return part

    def _before(self) -> _Before:
        """Before a command whose times are wanted, which the back end tells: what is asked for them."""
        return self._pending(), self.worker.backend.begin_timed()

    def _time(self, part: Part, timed: Timed, before: _Before) -> None:
        """Such a command was entered; the program's call was that of `timed`. `before`: as `_before`."""
        pending, begun = before
        ask = self.worker.backend.timer(begun, part.stretch.ends[-1] - pending)
        part.stretch.time(part, timed, ask, self._told)

    def _open(self, mark: Mark, number: int, step: int, entry: Entry, timed: Timed | None) -> Stretch:
        executor = self._executor
        stretch = self._stretch = Stretch(executor, number, self.worker, step, entry[0], timed)
        mark.jobs.append(stretch)
        mark.ends.append(0)
        executor.unsettled[number] = stretch
        self.latest = stretch.completion
        stretch.completion.bind(stretch)
        if timed is not None:  # nothing of it happened before the program's call
            timed.submitted_ns = timed.queued_ns
        return stretch


compiled.code.replace_methods(Line, ("_enter",))  # in `backends/native/launches/line.c`
