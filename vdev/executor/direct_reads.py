"""Reads that the calling thread does by itself, from a worker's memory into the host's.

A program that reads a few bytes after each launch waits for them. The read has ended when the call returns, and
nothing can overtake it in its queue, so nobody needs to be told of it: it has neither a job nor a completion. Once the
bytes have arrived, everything that was handed over before is known to be complete as well. Decides when this is
possible: when the worker's thread is idle and no other worker takes part.

A few bytes come behind what the device still has to do, into memory of the back end's own (`Arriving`): the thread
waits once, and holds no lock meanwhile. Others are read into the program's memory, under a step number (`Reading`).
"""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from vdev.errors import BackendError
from vdev.executor.worker_progress import TURN_TIMEOUT
from vdev.process.finalisers import may_wait
from vdev.process.forking import in_driver
from vdev.process.interrupts import block, checkpoint, waits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vdev.backends.base import Bytes, Deliver
    from vdev.executor.executor import Executor
    from vdev.executor.holdings import Holdings
    from vdev.executor.mark import Mark
    from vdev.executor.steps import DownloadStep
    from vdev.executor.worker import Worker
    from vdev.translators.ranges.rectangles import Layout

T = TypeVar("T")

#: seconds that a read waits for the queue to empty before it is queued as well
_DRAINING = 0.001


class Reading:
    """A read that was handed over: step number `step` of the worker's."""

    __slots__ = ("_first", "_holdings", "_last", "_mark", "_worker")

    def __init__(self, worker: Worker, mark: Mark | None, holdings: Holdings, first: int, last: int) -> None:
        """`mark`: the mark behind the read; None if the read is done. `first`, `last`: its first operation since the
        mark before, and one past its last.
        """
        self._worker = worker
        self._mark = mark
        self._holdings = holdings
        self._first, self._last = first, last

    @waits
    def wait(self) -> int:
        """Return when the bytes have arrived: 0, or the status of what has failed."""
        worker, mark, holdings = self._worker, self._mark, self._holdings
        if mark is None:
            return holdings.failure or 0
        try:
            while worker.completed < mark.step:
                worker.retire_oldest()
                checkpoint()
        except BaseException:  # an interrupt: somebody has to look after what was issued
            worker.wake()
            raise
        return _status(mark, range(self._first, self._last), holdings)


class Arriving:
    """A read into memory of the back end's own that was handed over. It is no step: nobody else waits for it."""

    __slots__ = ("_deliver", "_first", "_holdings", "_host", "_issued", "_last", "_mark", "_start", "_worker")

    def __init__(
        self,
        worker: Worker,
        position: tuple[Mark, int],
        holdings: Holdings,
        host: Bytes,
        arrival: tuple[Deliver, int],
        operations: tuple[int, int],
    ) -> None:
        """`position`: the next mark, and how far the worker was, when it was handed over. `arrival`: as `DownloadStep.begin`.
        `operations`: its first operation since the mark before, and one past its last.
        """
        self._worker = worker
        self._mark, self._issued = position
        self._holdings = holdings
        self._host = host
        self._deliver, self._start = arrival
        self._first, self._last = operations

    @waits
    def wait(self) -> int:
        """Return when the bytes are there: 0, or the status of what has failed."""
        return self.end(went_well=in_driver(self._worker.backend.wait_for_all))

    @waits
    def end(self, *, went_well: bool) -> int:
        """The same after a wait for the device. `went_well`: as `Backend.wait_for_all`."""
        worker, holdings = self._worker, self._holdings
        if worker.marks:  # what failed behind them has to be known
            worker.poll()
        if self._is_marked(went_well):
            try:
                while worker.has_open(self._mark):
                    worker.retire_oldest()
                    checkpoint()
            except BaseException:  # an interrupt, as above
                worker.wake()
                raise
        status = _status(self._mark, range(self._first, self._last), holdings)
        if not status:
            self._deliver(self._host, self._start)
        return status

    def _is_marked(self, went_well: bool) -> bool:
        """Whether there is a marker behind it, which tells how it went. None is needed where all before the next marker is known
        to have gone well; others may place that marker at any time, but while one has the turn.
        """
        worker = self._worker
        while not worker.turn.acquire(False) and not block(worker.turn.acquire, TURN_TIMEOUT):
            pass
        try:
            if worker.next_mark is not self._mark:
                return True
            if not went_well:
                outside = worker.backend.visit()
                worker.mark(anew=True)
                if outside is not None:
                    worker.backend.leave(outside)
                return True
            if worker.issued == self._issued and not worker.queue and not worker.marks:
                worker.all_is_done()
            return False
        finally:
            worker.turn.release()
            if worker.queue:
                worker.wake()


#: a read that was handed over: the next mark at that time and how far the worker was, what delivers the bytes, and how many operations
#: there were since the mark before
Begun = tuple["Mark", int, "Deliver", int]


class RepeatedRead:
    """A read of consecutive bytes that arrives in memory of the back end's own, made again.

    It was possible with the same buffer in the same state, which the caller has to know. The back end may let the thread that makes
    it wait some microseconds for the device, with the worker's turn and the interpreter lock: it needs nobody else for that, and
    most kernels before a small read are short. What the caller does meanwhile takes no time of its own.
    """

    __slots__ = (
        "_begin",
        "_end",
        "_failures",
        "_hazards",
        "_holdings",
        "_replica",
        "_worker",
        "after",
        "before",
        "line",
        "nbytes",
        "queue",
        "standing",
        "start",
        "waits",
    )

    def __init__(
        self,
        executor: Executor,
        worker: Worker,
        holdings: Holdings,
        start: int,
        nbytes: int,
        states: tuple[object, object],
    ) -> None:
        """`start`: the first byte, counted from the beginning of the buffer. `states`: the buffer's before the read, and once what was
        pending of it was folded.
        """
        self.start, self.nbytes = start, nbytes
        self.before, self.after = states
        self.standing: object = None  #: the executor's when its caller found out that it may be made
        self.queue: object = None  #: … in that queue
        self._failures, self._hazards = executor.failures, executor.hazards
        self._worker = worker
        self._holdings = holdings
        replica = holdings.replicas[worker.number]
        assert replica is not None, "it has just been read"
        self._replica = replica
        self._begin, self._end = worker.backend.read_again(replica.allocation, start - replica.start, nbytes)
        self.waits = nbytes > worker.backend.small_read_nbytes  #: it is best made of an idle worker
        line = executor.lines[worker.number]
        assert line is not None, "any thread may work with it"
        self.line = line  #: the direct way to its worker

    def make(
        self, host: NDArray[Any], meanwhile: Callable[..., T], *given: Any
    ) -> tuple[Begun | None, T] | None:
        """Hand it over, call `meanwhile` with it and what is `given` while the bytes are on their way, and wait a moment. First of what is
        returned: None if the bytes are in `host`, a contiguous array of `nbytes` bytes, and the worker has done all that it was given,
        and well; otherwise `end` has to follow. Second: what `meanwhile` has returned. None where the read takes another way: then
        nothing has happened, and `meanwhile` was not called. Under the session's lock.
        """
        worker = self._worker
        if not may_wait() or not worker.turn.acquire(False):
            return None
        try:
            worker.holder = get_ident()
            if (
                worker.queue
                or worker.marks  # which have to be looked at
                or self._hazards.host_uses
                or self._holdings.replicas[worker.number] is not self._replica
            ):
                return None
            outside = self._begin()
            try:
                found = meanwhile(self, *given)
                deliver = self._end((host if host.ndim == 1 else host.reshape(-1)).view(np.uint8))
            finally:
                if outside is not None:
                    worker.backend.leave(outside)
            if deliver is None:
                if worker.completed < worker.issued:
                    worker.all_is_done()
                return None, found
            return (worker.next_mark, worker.issued, deliver, worker.backend.pending()), found
        except BackendError:
            return None  # submitted, it gets its error
        finally:
            worker.holder = 0
            worker.turn.release()
            if worker.queue:
                worker.wake()

    @waits
    def end(self, begun: Begun, host: NDArray[Any]) -> int:
        """Return when the bytes are in `host`: 0, or the status of what has failed."""
        try:
            return self._end_of(begun, host)
        except BaseException:  # an interrupt: the program may give the memory back into which the bytes come
            if self.waits:
                self._worker.backend.rest()
            raise

    @waits
    def _end_of(self, begun: Begun, host: NDArray[Any]) -> int:
        mark, issued, deliver, last = begun
        worker, target = self._worker, host.reshape(-1).view(np.uint8)
        went_well = in_driver(worker.backend.wait_for_all)
        if went_well and not self._failures.any and worker.turn.acquire(False):
            try:
                if (
                    worker.issued == issued
                    and worker.next_mark is mark
                    and not (worker.queue or worker.marks)
                ):  # as `Arriving` finds out with more care
                    worker.all_is_done()
                    deliver(target, 0)
                    return 0
            finally:
                worker.turn.release()
                if worker.queue:
                    worker.wake()
        position, operations = (mark, issued), (last - 1, last)
        arriving = Arriving(worker, position, self._holdings, target, (deliver, 0), operations)
        return arriving.end(went_well=went_well)


def _status(mark: Mark, operations: range, holdings: Holdings) -> int:
    """What a read has met that is these operations before `mark`: 0, or the status of what has failed."""
    error = mark.error
    if error is not None and (not error.at or any(at in operations for at in error.at)):
        return error.status
    damage = holdings.damage  # which another thread may mend meanwhile
    if damage is not None:
        return damage.status
    return holdings.failure or 0


def begin_reading(
    executor: Executor,
    step: DownloadStep,
    number: int,
    holdings: Holdings,
    host: Bytes,
    layout: Layout,
    quiet: Worker | None = None,
) -> Reading | Arriving | Worker | None:
    """Hand the read of a `step` over to worker `number`. None: it has to be submitted instead, and nothing has happened. A worker: it
    has to be idle first; call `prepare_reading` without holding any lock, then ask again with the worker as `quiet`.
    """
    worker, backend = executor.all_workers[number], executor.all_workers[number].backend
    if not backend.any_thread or worker.records is not None or not may_wait():
        return None
    arrives = backend.can_wait_for_all and 0 < step.consecutive_nbytes(layout) <= backend.small_read_nbytes
    if not arrives and not (worker.takes_transfers or _must_calm(worker, layout)):
        return None
    busy = worker.queue or worker.busy
    is_calm = arrives or (worker.takes_transfers and not _must_calm(worker, layout))
    if worker is not quiet and (busy or not is_calm):
        return worker
    if busy or not worker.turn.acquire(timeout=TURN_TIMEOUT):
        return None
    try:
        worker.holder = get_ident()
        with executor.lock:
            if _is_disturbed(executor, worker, host):
                return None
            outside = backend.visit() if backend.has_visitors else None
            try:
                return (_begun if arrives else _handed_over)(worker, step, holdings, host, layout)
            finally:
                if outside is not None:
                    backend.leave(outside)
    finally:
        worker.holder = 0
        worker.turn.release()
        if worker.queue:
            worker.wake()


def _is_disturbed(executor: Executor, worker: Worker, host: Bytes) -> bool:
    """Whether anything else concerns the worker or the program's array. Under the executor's lock."""
    return bool(
        worker.queue
        or executor.closed
        or executor.failures.any
        or executor.uses_host_elsewhere(worker.number)
        or (worker.arrivals and executor.hazards.arriving(host))
    )


def _must_calm(worker: Worker, layout: Layout) -> bool:
    """Whether the worker has to be idle before the calling thread reads into the host's memory."""
    return worker.backend.can_wait_for_all and layout.nbytes <= worker.backend.own_thread_nbytes


def _begun(
    worker: Worker, step: DownloadStep, holdings: Holdings, host: Bytes, layout: Layout
) -> Arriving | None:
    first = worker.backend.pending()
    try:
        arrival = step.begin(worker, holdings, layout)
    except BackendError:
        return None  # submitted, it gets its error
    position, operations = (worker.next_mark, worker.issued), (first, worker.backend.pending())
    return Arriving(worker, position, holdings, host, arrival, operations)


def prepare_reading(worker: Worker, layout: Layout) -> None:
    """What `begin_reading` has asked for, before a read of that layout."""
    may_arrive = layout.is_contiguous and layout.nbytes <= worker.backend.small_read_nbytes
    if may_arrive and (worker.queue or worker.busy):
        worker.drain(_DRAINING)
    else:
        calm(worker)


def calm(worker: Worker) -> None:
    """Give the worker's thread a moment to hand over what is queued, since that comes before a read anyway. If the
    read will have to wait for the device, wait here, where no lock is held.
    """
    if (worker.queue or worker.busy) and not worker.drain(_DRAINING):
        return
    if worker.backend.can_wait_for_all and not worker.catch_up() and not worker.takes_transfers:
        in_driver(worker.backend.wait_for_all)


def is_to_be_calm(worker: Worker, nbytes: int) -> bool:
    """Whether a read of so many bytes needs the worker to be idle first. A worker that waits for no other is made
    idle before the read.
    """
    backend = worker.backend
    if not (backend.can_wait_for_all and backend.any_thread):
        return False
    return nbytes <= backend.own_thread_nbytes and worker.records is None and may_wait()


def _handed_over(
    worker: Worker, step: DownloadStep, holdings: Holdings, host: Bytes, layout: Layout
) -> Reading | None:
    first, was_quiet = worker.backend.pending(), worker.is_quiet_alone
    mine, done = worker.submitted + 1, False
    worker.submitted = mine
    try:
        arrived = step.deliver(worker, holdings, host, layout)
        done = was_quiet and (arrived or worker.backend.wait_for_all())
    except BackendError:
        return None  # submitted, it gets its error
    finally:
        if done and worker.submitted == mine:  # nobody waits for it: its step number is taken back
            worker.submitted = mine - 1
        else:
            worker.issued = mine
    if done:  # as it was before, so nobody has to be told
        return Reading(worker, None, holdings, first, first)
    last, mark = worker.backend.pending(), worker.next_mark
    worker.mark()
    return Reading(worker, mark, holdings, first, last)
