"""Commands that a worker is given immediately, by the thread that submits them.

Decides which: commands whose plan is known and is one step on one worker, and which are not observed. With several
workers, these are launches on buffers that are kept on one, and transfers of bytes that one holds alone. They are
counted like any other. `vdev.executor.stretch` describes the worker's side.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from vdev.executor.job import Job
from vdev.executor.line import Line, Streak
from vdev.executor.stretch import Entry, Part, Stretch
from vdev.planner.directory import BufferState, new_state, whole_state
from vdev.session.buffers import VirtualBuffer
from vdev.session.commands import Argument, BufferArg, Command, CopyBuffer, Fill, Launch, Read, Write
from vdev.session.kernel_timing import UNTIL_LOOKED_AT
from vdev.session.launch_plans import CachedPlan, LaunchCache, ReadyPlan, TransferPlans
from vdev.session.transfers import transfer_of

if TYPE_CHECKING:
    from vdev.backends.base import Bytes, DriverLaunch
    from vdev.executor import Completion
    from vdev.executor.holdings import Holdings
    from vdev.session.accounts import Account
    from vdev.session.core import SessionCore
    from vdev.session.ordering import QueueOrder
    from vdev.session.programs import SessionKernel
    from vdev.translators.ranges.ndrange import NDRange
    from vdev.translators.ranges.rectangles import Layout

#: launches in a row, handed over immediately to the same one of several workers, after which new buffers begin there,
#: too
_LONG = 64
#: the kinds under which transfers are counted
_NAMES: dict[type, str] = {Fill: "fill", CopyBuffer: "copybuffer"}

_Found: TypeAlias = tuple[
    CachedPlan, int, list[VirtualBuffer], list["Holdings"], tuple[tuple[int, int, int], ...]
]


class ReadyLaunch:
    """A launch that is made again without Python, on the only worker: how (`driver`), and what is counted then."""

    __slots__ = ("buffers", "cached", "driver", "entry", "maker", "own", "queue")

    def __init__(
        self,
        maker: AtOnce,
        cached: CachedPlan,
        buffers: Sequence[VirtualBuffer],
        entry: Entry,
        queue: QueueOrder,
        own: object,
        driver: DriverLaunch,
    ) -> None:
        self.maker = maker
        self.cached = cached
        self.buffers = buffers
        self.entry = entry
        self.queue = queue
        self.own = own  #: the kernel of the back end's that it uses
        self.driver = driver


class AtOnce:
    """The immediate commands of one session."""

    def __init__(self, session: SessionCore, transfers: TransferPlans) -> None:
        self._session = session
        self._executor = session.executor
        self._only = 0 if len(session.workers) == 1 else None  #: the only worker
        self.is_alone = self._only is not None
        self.until_looked_at = UNTIL_LOOKED_AT
        self._is_timed = False  #: the current launch is one that was looked at
        #: the worker that the last launches were handed to immediately, and how many of them in a row
        self._at, self.streak_length = 0, 0
        self._cached: CachedPlan | None = None  #: the plan of the last of them
        self._standing: object = None  #: the executor's when the last of them was checked
        #: with several workers, one keeps buffers only if ways are chosen
        self._launches = self._only is not None or session.choosing is not None
        self._transfers = transfers
        self._kinds: dict[type, Callable[[Any, Sequence[Completion], QueueOrder], Part | None]] = {
            Launch: self._submit_launch,
            Fill: self._submit_transfer,
            CopyBuffer: self._submit_transfer,
            Read: self._submit_read,
        }

    def submit(self, command: Command, after: Sequence[Completion], queue: QueueOrder) -> Completion | None:
        """Hand a command over. None if it has to be submitted: then nothing has happened."""
        kind = self._kinds.get(type(command))
        return None if kind is None else kind(command, after, queue)

    def _submit_launch(self, launch: Launch, after: Sequence[Completion], queue: QueueOrder) -> Part | None:
        if launch.shared or launch.tried:
            return None
        return self.launch(launch.kernel, launch.args, launch.ndrange, after, queue)

    def launch(
        self,
        kernel: SessionKernel,
        args: Sequence[Argument],
        ndrange: NDRange,
        after: Sequence[Completion],
        queue: QueueOrder,
    ) -> Part | None:
        """The same for a launch that reaches memory only through its arguments."""
        session, executor = self._session, self._executor
        with session.lock:
            in_a_row, self.streak_length = self.streak_length, 0
            if queue.profiled or session.observers or session.deferrals.held or session.checker is not None:
                return None
            standing, found = executor.standing, self._found(kernel.plans, args)
            if found is None:
                return None
            cached, worker, buffers, holdings, places = found
            line = executor.lines[worker]
            if line is None or not (
                self._only is not None or self._is_kept(line, kernel.plans, ndrange, found, queue)
            ):
                return None
            if (after or queue.barrier or executor.failures.any) and not self._may_go(
                after, queue, worker, holdings
            ):
                return None
            entry = (cached.prepared, holdings, args, ndrange, places, after)
            if session.recorder is None and not self._is_timed:
                part = line.hand_over(entry, standing)
            else:
                part = self._noted(line, entry, standing, cached, queue)
            if part is None:
                return None
            number = session.number = session.number + 1
            self.streak_length, self._at = in_a_row + 1 if worker == self._at else 1, worker
            self._cached, self._standing = cached, standing
            for buffer in buffers:
                buffer.used = number
            cached.outcome.launches += 1
            if queue.last is not part.stretch.completion:
                queue.remember(part.stretch.completion)
        if line.worker.marked != line.looked_at:
            line.throttle()
        return part

    def ready(
        self,
        kernel: SessionKernel,
        args: Sequence[Argument],
        ndrange: NDRange,
        queue: QueueOrder,
        own: object | None,
    ) -> ReadyLaunch | None:
        """What makes a launch again as `launch` would, without Python; None where that is not possible. Until another command
        than such launches is submitted, it stays what `launch` would do.

        `own`: that of an earlier answer for the same kernel object, if there was one.
        """
        session, executor = self._session, self._executor
        with session.lock:
            watched = session.observers or session.checker is not None or session.recorder is not None
            if self._only is None or watched or queue.profiled:
                return None
            held_up = queue.barrier is not None and not queue.barrier.settled
            if session.deferrals.held or held_up or executor.failures.any:
                return None
            found, line = self._found(kernel.plans, args), executor.lines[self._only]
            if found is None or line is None:
                return None
            cached, _, buffers, holdings, places = found
            if own is None:
                own = line.worker.backend.own_kernel(kernel.program.native, kernel.name)
            entry = (cached.prepared, holdings, args, ndrange, places, ())
            driver = None if own is None else line.for_driver(entry, own)
            return None if driver is None else ReadyLaunch(self, cached, buffers, entry, queue, own, driver)

    def launched(self, runs: Sequence[tuple[ReadyLaunch, int]], handles: Sequence[int]) -> bool:
        """Launches were made without Python, since anything else was submitted: which, in order, and how often in a row.
        Whether they may go on: nothing is known to have failed. `handles`: as in `Backend.launched`.
        """
        line = self._executor.lines[0]
        assert line is not None
        while not self._entered(line, runs, handles):
            continue  # the worker's thread has its turn, and may want the session's lock
        if line.worker.marked != line.looked_at:
            line.throttle()
        return not (self._executor.failures.any or self._executor.closed)

    def _entered(self, line: Line, runs: Sequence[tuple[ReadyLaunch, int]], handles: Sequence[int]) -> bool:
        """Enter launches that were made; False if that was not possible now."""
        session, executor = self._session, self._executor
        with session.lock, line.turn() as has_turn, executor.lock:
            if executor.closed or not has_turn:
                return has_turn or executor.closed
            stretch = line.enter_launched([(ready.entry, count) for ready, count in runs], handles)
            for ready, count in runs:
                session.number += count
                for buffer in ready.buffers:
                    buffer.used = session.number
                ready.cached.outcome.launches += count
                if ready.queue.last is not stretch.completion:
                    ready.queue.remember(stretch.completion)
        return True

    def in_a_row(
        self, kernel: SessionKernel, ndrange: NDRange, queue: QueueOrder, part: Part
    ) -> InARow | None:
        """What makes launches like the one of `part` again, which was handed over last; None where that is not possible."""
        session, cache = self._session, kernel.plans
        with session.lock:
            line, cached = self._executor.lines[self._at], self._cached
            if session.recorder is not None or session.observers:
                return None
            if line is None or cached is None or cache is None or line.worker.number != part.stretch.worker:
                return None
            standing = self._standing  # whatever has been held back or has failed since then counts
            streak = line.streak(part) if standing is self._executor.standing else None
            if streak is None:
                return None
            weight = 0 if self._only is not None else cache.weight
            return InARow(session, self, line, streak, standing, cached, ndrange, queue, weight)

    def _found(  # noqa: C901 (on the way of every launch)
        self, cache: LaunchCache | None, args: Sequence[Argument]
    ) -> _Found | None:
        """The plan of a launch without its own, if all its buffers are on one worker: that worker, the buffers by
        slot with their holdings, and where its pointers point.
        """
        if cache is None or not self._launches:
            return None
        worker, pointers, account = self._only, cache.pointers, None
        if worker is None:
            for index in pointers:  # the first buffer that is kept on a worker without plans
                arg = args[index]
                if type(arg) is BufferArg and (account := arg.buffer.account) is not None and account.thrifty:
                    break
            else:
                return None
            worker = account.keeper
        buffers: list[VirtualBuffer] = []
        holdings: list[Holdings] = []
        offsets = 0
        for index in pointers:
            arg = args[index]
            if type(arg) is not BufferArg:
                continue
            buffer = arg.buffer
            offsets += arg.offset
            if buffer in buffers:
                continue
            resident = buffer.resident
            if resident is None:
                resident = self._placed(buffer, worker, account)
            if resident != worker or resident is None:
                return None
            buffers.append(buffer)
            holdings.append(buffer.holdings)
        cached = cache.resident.get((worker, len(buffers)))
        if cached is None:
            return None
        is_plain = not offsets and len(buffers) == len(pointers)
        places = cache.plain_places if is_plain else _places(pointers, args, buffers)
        return cached, worker, buffers, holdings, places

    def _state_of(self, buffer: VirtualBuffer) -> BufferState:
        """A buffer's state.

        With a single worker, or once a program has long been on one of several, a new buffer's state is the one that
        it has after being given memory there.
        """
        if buffer.resident is None:
            there = self._at if self.streak_length >= _LONG else None
            self._placed(buffer, there if self._only is None else self._only)
        return buffer.state

    def _placed(
        self, buffer: VirtualBuffer, worker: int | None, account: Account | None = None
    ) -> int | None:
        """Give a new buffer, to which nothing was ever written, its memory, as a plan of a launch would: on the only
        worker, or on the one that keeps those of `account`, which a launch uses together with it. That worker; None
        if it takes a plan.
        """
        state, nbytes = buffer.state, buffer.nbytes
        if worker is None or state is not new_state(nbytes):
            return None
        occupancy, line = self._session.room.occupancy, self._executor.lines[worker]
        occupancy.settle()
        if line is None or occupancy.taken[worker] + nbytes > occupancy.room[worker]:
            return None
        if not line.place(buffer.holdings):
            return None
        if account is None:
            buffer.state = whole_state(nbytes, worker)
        else:
            buffer.state = whole_state(nbytes, worker, worker)
            account.enter(buffer)
        return worker

    def _is_kept(
        self, line: Line, cache: LaunchCache | None, ndrange: NDRange, found: _Found, queue: QueueOrder
    ) -> bool:
        """With several workers: whether launches on these buffers, which are on one, run there without a plan, and
        nobody else is concerned with them. Now and then one checks whether they still should, and is timed.
        """
        choosing, (_, worker, buffers, holdings, _) = self._session.choosing, found
        self._is_timed = False
        if choosing is None or cache is None:
            return False
        is_free = queue.last is None or queue.last is line.latest
        for buffer in buffers:
            account = buffer.account
            if account is None or not account.thrifty or account.keeper != worker:
                if choosing.keeper_without_plans(buffers, cache.tally) != worker:
                    return False
                is_free = False
                break
            if buffer.holdings.readers[worker] is not None:
                is_free = False
        if not (is_free or self._is_free(line, holdings, queue)):  # the loop has found out most of it
            return False
        self.until_looked_at -= cache.weight
        if self.until_looked_at >= 0:
            return True
        self.until_looked_at = UNTIL_LOOKED_AT
        self._is_timed = not choosing.is_to_be_submitted(cache, ndrange, buffers)
        return self._is_timed

    def _noted(
        self, line: Line, entry: Entry, standing: object, cached: CachedPlan, queue: QueueOrder
    ) -> Part | None:
        """Hand over a launch that is recorded, or was looked at, so the time that this takes must be known."""
        timed, self._is_timed = self._is_timed, False
        choosing = self._session.choosing
        if self._session.recorder is not None:
            return self._recorded(line, entry, standing, cached, queue)
        began = time.thread_time_ns()
        part = line.hand_over(entry, standing)
        if part is not None and timed and choosing is not None:
            choosing.handed_over_at_once((time.thread_time_ns() - began) * 1e-9)
        return part

    def _recorded(
        self, line: Line, entry: Entry, standing: object, cached: CachedPlan, queue: QueueOrder
    ) -> Part | None:
        """Hand a launch over when somebody wants to know where the time goes."""
        recorder = self._session.recorder
        assert recorder is not None
        if cached.shape is None:
            return None
        outer = recorder.enter(queue)
        try:
            part = line.hand_over(entry, standing)
            if part is not None:
                recorder.submitted(part.number, cached.shape)
            return part
        finally:
            recorder.leave(outer)

    def _submit_transfer(
        self, command: Fill | CopyBuffer, after: Sequence[Completion], queue: QueueOrder
    ) -> Part | None:
        session = self._session
        if session.recorder is not None or session.checker is not None:
            return None
        buffers, what = _taken(command)
        with session.lock:
            standing, states = self._executor.standing, [self._state_of(buffer) for buffer in buffers]
            found = self._transfers.find_same(what, states)
            if found is None:
                found = self._transfers.find((type(command), transfer_of(command).what, *states))
                if found is None or found.prepared.step is None or [*found.plan.states] != states:
                    return None
                self._transfers.remember_same(what, states, found)
            line = self._line_of(found)
            if line is None:
                return None
            part = self._transferred(line, found, buffers, after, queue, standing)
            if part is None:
                return None
            session.ledger.count(_NAMES[type(command)], found.plan)
        if line.worker.marked != line.looked_at:
            line.throttle()
        return part

    def write(self, command: Write, after: Sequence[Completion], queue: QueueOrder) -> Completion | None:
        """Hand over a small write whose bytes have been read when this returns: the program's memory may then change,
        whether its call is blocking or not. None if it has to be submitted.
        """
        session, layout, buffer = self._session, command.layout, command.buffer
        if session.recorder is not None or session.checker is not None or not layout.is_contiguous:
            return None
        with session.lock:
            standing, state = self._executor.standing, self._state_of(buffer)
            found = self._transfers.find_move(Write, layout, state)
            if found is None or found.prepared.upload is None or found.plan.states[0] != state:
                return None
            line = self._line_of(found)
            if line is None or layout.nbytes > line.worker.backend.small_write_nbytes:
                return None
            host = command.host, layout
            part = self._transferred(line, found, (buffer,), after, queue, standing, host)
            if part is None:
                return None
            session.ledger.count("write", found.plan)
        if line.worker.marked != line.looked_at:
            line.throttle()
        return part

    def _submit_read(self, command: Read, after: Sequence[Completion], queue: QueueOrder) -> Part | None:
        """A read that the program does not wait for yet, from a worker whose transfers keep nobody waiting."""
        session, layout, buffer = self._session, command.layout, command.buffer
        if session.recorder is not None or session.checker is not None:
            return None
        with session.lock:
            standing, state = self._executor.standing, buffer.state
            found = None if state.pending else self._transfers.find_move(Read, layout, state)
            if found is None or found.prepared.download is None or found.plan.states[0] != state:
                return None
            line = self._line_of(found)
            if line is None or not line.worker.takes_transfers:
                return None
            host = command.host, layout
            part = self._transferred(line, found, (buffer,), after, queue, standing, host, reads=True)
            if part is None:
                return None
            session.ledger.count("read", found.plan)
        if line.worker.marked != line.looked_at:
            line.throttle()
        return part

    def _line_of(self, found: ReadyPlan) -> Line | None:
        """The line to the worker that does all of a transfer."""
        worker = found.prepared.alone
        return None if worker is None else self._executor.lines[worker]

    def _transferred(
        self,
        line: Line,
        found: ReadyPlan,
        buffers: Sequence[VirtualBuffer],
        after: Sequence[Completion],
        queue: QueueOrder,
        standing: object,
        host: tuple[Bytes, Layout] | None = None,
        *,
        reads: bool = False,
    ) -> Part | None:
        """Hand over a transfer whose plan leaves everything as it is. Under the session's lock."""
        session, worker = self._session, line.worker.number
        if queue.profiled or session.observers or session.deferrals.held:
            return None
        holdings = [buffer.holdings for buffer in buffers]
        if self._only is None and not self._is_free(line, holdings, queue):
            return None
        if (after or queue.barrier or self._executor.failures.any) and not self._may_go(
            after, queue, worker, holdings
        ):
            return None
        entry = found.prepared, holdings, (), None, (), after
        part = line.hand_over(entry, standing, host, reads=reads)
        if part is None:
            return None
        number = session.next_number()
        for buffer in buffers:
            buffer.used = number
        if queue.last is not part.stretch.completion:
            queue.remember(part.stretch.completion)
        return part

    def _may_go(
        self, after: Sequence[Completion], queue: QueueOrder, worker: int, holdings: Sequence[Holdings]
    ) -> bool:
        """Whether a command on these buffers may be handed to a worker now."""
        if not may_follow(after, queue, worker, alone=self._only is not None):
            return False
        return not self._executor.failures.any or all(each.is_sound for each in holdings)

    def _is_free(self, line: Line, holdings: Sequence[Holdings], queue: QueueOrder) -> bool:
        """With several workers: whether nobody else reads what one of them has of some buffers, or has to come first
        in the queue.
        """
        worker = line.worker.number
        for each in holdings:
            readers = each.readers[worker]
            if readers is not None and not self._executor.have_ended(readers):
                return False
        last = queue.last
        return not queue.in_order or last is None or last is line.latest or _stands_at(last, worker)


class InARow:
    """Launches in a row in one queue, over one index space and with the same arguments but for values: each is handed over
    without a look at the others (`Streak`). A `Repeater`.
    """

    takes_values = True
    __slots__ = (
        "_at_once", "_cached", "_line", "_ndrange", "_queue", "_session", "_standing", "_streak", "_weight", "used",
    )  # fmt: skip

    def __init__(
        self,
        session: SessionCore,
        at_once: AtOnce,
        line: Line,
        streak: Streak,
        standing: object,
        cached: CachedPlan,
        ndrange: NDRange,
        queue: QueueOrder,
        weight: int,
    ) -> None:
        """`standing`: the executor's, when the first was made. `weight`: that of their `LaunchCache`; 0 if none is looked at."""
        self._session, self._at_once = session, at_once
        self._line, self._streak, self._standing = line, streak, standing
        self._cached = cached  #: their plan
        self._ndrange, self._queue = ndrange, queue
        self._weight = weight
        self.used = [False]

    def again(self, queue: QueueOrder, ndrange: NDRange, args: Sequence[Argument]) -> Part | None:
        if queue is not self._queue or ndrange is not self._ndrange:
            return None
        at_once, line, session = self._at_once, self._line, self._session
        with session.lock:
            left = at_once.until_looked_at - self._weight
            if left < 0 or session.observers or session.recorder is not None:
                return None
            part = line.again(self._streak, self._standing, args)
            if part is None:
                return None
            at_once.until_looked_at = left
            at_once.streak_length += 1
            if self._streak.is_renewed:  # others may have used buffers meanwhile
                self._streak.is_renewed = False
                number = session.next_number()
                for buffer in self._streak.buffers(args):
                    buffer.used = number
            self.used[0] = True
            self._cached.outcome.launches += 1
            if queue.last is not part.stretch.completion:
                queue.remember(part.stretch.completion)
        if line.worker.marked != line.looked_at:
            line.throttle()
        return part


def _places(
    pointers: Sequence[int], args: Sequence[Argument], buffers: Sequence[VirtualBuffer]
) -> tuple[tuple[int, int, int], ...]:
    """Where the pointers point: (argument, slot, bytes into the buffer)."""
    return tuple(
        [
            (index, buffers.index(arg.buffer), arg.offset)
            for index in pointers
            if type(arg := args[index]) is BufferArg
        ]
    )


def _taken(command: Fill | CopyBuffer) -> tuple[list[VirtualBuffer], tuple[Any, ...]]:
    """Its buffers, each once, and what else its plan depends on."""
    if type(command) is Fill:
        return [command.buffer], (Fill, command.offset, command.nbytes, command.pattern)
    assert type(command) is CopyBuffer
    source, target = command.source, command.target
    return [source] if source is target else [source, target], (
        CopyBuffer,
        command.shape,
        command.source_start,
        command.source_pitches,
        command.target_start,
        command.target_pitches,
    )


def _stands_at(completion: Completion, worker: int) -> bool:
    """Whether only that worker still has something to do for it."""
    progress = completion.progress
    if type(progress) is Stretch and progress.worker == worker:
        return True
    return completion.settled or (isinstance(progress, Job) and progress.is_open_at_most_at(worker))


def may_follow(after: Sequence[Completion], queue: QueueOrder, worker: int, *, alone: bool) -> bool:
    """Whether everything that a command waits for was handed to its worker before it, and none of it is known to have
    failed. `alone`: there is no other worker.
    """
    if queue.barrier is not None and not queue.barrier.settled:
        return False
    for item in after:  # for arrays, ten and more
        if type(item) is Part:
            stretch = item.stretch
            if stretch.parts is not None or stretch.worker != worker:
                return False
        elif not _is_behind(item, worker, alone=alone):
            return False
    return True


def _is_behind(earlier: Completion, worker: int, *, alone: bool) -> bool:
    if earlier.settled:
        return earlier.status == 0
    if earlier.progress is None or earlier.error is not None:
        return False
    return alone or _stands_at(earlier, worker)
