"""Transfers that a worker is given immediately, by the thread that submits them; and what launches of that kind share
with them (`vdev.session.immediate`).

Decides which: those whose plan is known and is one step on one worker, and that leave every buffer as they find it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from vdev.backends.base import Box
from vdev.executor.anywhere import DownloadAnywhere, UploadAnywhere
from vdev.executor.completion import Completion
from vdev.executor.job import Job
from vdev.executor.line import Line
from vdev.executor.stretch import Entry, Part, Stretch, Timed
from vdev.observe.recorder import Shape
from vdev.planner.directory import HOST, BufferState, buffer_state, whole_state
from vdev.planner.transfers import plan_read, plan_write
from vdev.session.anywhere import Anywhere, Transfers
from vdev.session.buffers import VirtualBuffer
from vdev.session.commands import CopyBuffer, Fill, Read, Write
from vdev.session.gathering import nbytes_of
from vdev.session.launch_plans import ReadyPlan
from vdev.session.ordering import QueueOrder
from vdev.session.recalls import recall_transfer
from vdev.session.telling import began, tell_part, tell_shape
from vdev.session.transfers import transfer_of
from vdev.translators.ranges.rectangles import Layout

if TYPE_CHECKING:
    from typing import TypeAlias

    from vdev.backends.base import Bytes
    from vdev.executor.holdings import Holdings
    from vdev.executor.worker import Worker
    from vdev.observe.tallies import ArgumentTally, KernelTally, Ledger
    from vdev.session.accounts import Account
    from vdev.session.core import SessionCore

    #: where it counts what is brought of a buffer: its kernel's, and its argument's
    Counted: TypeAlias = "tuple[KernelTally, ArgumentTally]"

#: launches in a row, handed over immediately to the same one of several workers, after which new buffers begin there,
#: too
_LONG = 64
#: the most bytes that the calling thread copies to an idle CPU: they stay in the host's memory, so that it takes no longer than the
#: worker's thread, which would have to be woken
_NEAR_NBYTES = 1 << 20
#: reads under way at one worker, each of which has memory of the back end's
_MOST_ARRIVALS = 64
#: the kinds under which transfers are counted
_NAMES: dict[type, str] = {Fill: "fill", CopyBuffer: "copybuffer"}


class Repeatable(Protocol):
    """A transfer that is made again in the state that its buffer was in."""

    line: Line  #: the direct way to its worker
    standing: object  #: the executor's when it was found out that it may be made
    queue: object  #: … in that queue


class RepeatedMove:
    """A transfer of consecutive bytes between the host and one worker's memory, made again. A `Repeatable`."""

    __slots__ = (
        "entry",
        "found",
        "layout",
        "line",
        "nbytes",
        "queue",
        "replica",
        "standing",
        "start",
    )

    def __init__(self, line: Line, entry: Entry, layout: Layout, found: ReadyPlan) -> None:
        """`entry`: of the transfer, which waits for nothing and has just been made. `found`: its plan, or one like it."""
        self.line, self.entry, self.layout, self.found = line, entry, layout, found
        self.start, self.nbytes = layout.buffer_start, layout.nbytes
        self.standing: object = None
        self.queue: object = None
        replica = entry[1][0].replicas[line.worker.number]
        assert replica is not None, "it has just been used"
        self.replica = replica


class RepeatedWrite(RepeatedMove):
    """A small write (`MovesAtOnce.write_again`)."""

    __slots__ = ("make", "waits")

    def __init__(self, line: Line, entry: Entry, layout: Layout, found: ReadyPlan) -> None:
        super().__init__(line, entry, layout, found)
        backend, replica = line.worker.backend, self.replica
        self.make = backend.write_again(replica.allocation, self.start - replica.start, self.nbytes)
        self.waits = self.nbytes > backend.small_write_nbytes  #: for an idle worker


class RecalledWrite(NamedTuple):
    """A small write of consecutive bytes that several workers got, made again (`vdev.session.moves.Moves.write_again`)."""

    layout: Layout
    waits: bool = False  #: as of `RepeatedWrite`, in whose place it may be

    @property
    def start(self) -> int:
        return self.layout.buffer_start

    @property
    def nbytes(self) -> int:
        return self.layout.nbytes


class LaterRead(RepeatedMove):
    """A read that the program does not wait for yet (`MovesAtOnce.read_later`)."""

    __slots__ = ("make",)

    def __init__(self, line: Line, entry: Entry, layout: Layout, found: ReadyPlan) -> None:
        super().__init__(line, entry, layout, found)
        replica = self.replica
        self.make = line.worker.backend.read_later(
            replica.allocation, self.start - replica.start, self.nbytes
        )


class MovesAtOnce:
    """The immediate transfers of one session."""

    def __init__(self, session: SessionCore, transfers: Transfers) -> None:
        self._session = session
        self._executor = session.executor
        self._only = 0 if len(session.workers) == 1 else None  #: the only worker
        self.is_alone = self._only is not None
        #: the worker that the last launches were handed to immediately, and how many of them in a row
        self._at, self.streak_length = 0, 0
        #: the streak's length before the last launch that was to be handed over at once
        self._streak_before = 0
        #: whether the times of commands are told without markers of their own
        self._tells_times = all(each.backend.tells_times for each in session.executor.all_workers[:-1])
        self._transfers = transfers
        self._loose = QueueOrder(in_order=False, profiled=False)  #: what new buffers are filled in

    def _submit_transfer(
        self, command: Fill | CopyBuffer, after: Sequence[Completion], queue: QueueOrder
    ) -> Completion | None:
        session = self._session
        if session.checker is not None:
            return None
        buffers = _buffers_of(command)
        with session.lock:
            standing, states = self._executor.standing, [self._state_of(buffer) for buffer in buffers]
            line, part = None, None
            if not self._is_together():
                line, part = self._submit_anywhere(command, buffers, states, after, queue, standing)
                if part is None:
                    line, part = self._submit_known(command, buffers, states, after, queue, standing)
            if line is None or part is None:
                return self._recalled(command, buffers, states, after, queue)
        if line.worker.marked != line.looked_at:
            line.throttle()
        return completion_of(part)

    def _submit_anywhere(
        self,
        command: Fill | CopyBuffer,
        buffers: Sequence[VirtualBuffer],
        states: Sequence[BufferState],
        after: Sequence[Completion],
        queue: QueueOrder,
        standing: object,
    ) -> tuple[Line | None, Part | None]:
        """Hand over a transfer of buffers in states in which one like it is one step of the worker that has them, wherever their bytes
        are. The worker's line, and the command's place; None if it has to go another way.
        """
        kind = type(command)
        alike = self._transfers.anywhere(kind, states)
        line = None if alike is None else self._line_of(alike.part)
        if alike is None or line is None:
            return None, None
        found, args = _at(command, alike)
        started = began(self._session.recorder)
        part = self._transferred(line, found, buffers, after, queue, standing, args=args)
        if part is not None:
            self._session.ledger.command(_NAMES[kind]).count += 1  # nothing travels
            if self._session.recorder is not None:
                nbytes = nbytes_of(command)
                tell_part(self._session, part, started, queue, found, _NAMES[kind], buffers, nbytes)
        return line, part

    def _submit_known(
        self,
        command: Fill | CopyBuffer,
        buffers: Sequence[VirtualBuffer],
        states: Sequence[BufferState],
        after: Sequence[Completion],
        queue: QueueOrder,
        standing: object,
    ) -> tuple[Line | None, Part | None]:
        """The same for one whose own plan is known."""
        found = self._known(command, states)
        line = self._line_of(found) if found is not None and _is_one_step(found, states) else None
        if found is None or line is None:
            return None, None
        started = began(self._session.recorder)
        part = self._transferred(line, found, buffers, after, queue, standing)
        if part is not None:
            self._session.ledger.count(_NAMES[type(command)], found.plan)
            if self._session.recorder is not None:
                tell_part(self._session, part, started, queue, found, _NAMES[type(command)], buffers)
        return line, part

    def _known(self, command: Fill | CopyBuffer, states: Sequence[BufferState]) -> ReadyPlan | None:
        """The plan of a transfer, if one like it has been planned, and may be handed over without a submission."""
        what = _what_of(command)
        found = self._transfers.find_same(what, states)
        if found is None:
            found = self._transfers.find((type(command), transfer_of(command).what, *states))
            if found is None and type(command) is Fill:
                found = self._transfers.find_fill(command, states[0])
            if found is None or not (found.prepared.is_compilable or _is_one_step(found, states)):
                return None
            self._transfers.remember_same(what, states, found)
        return found

    def _is_together(self) -> bool:
        """Whether the last command was handed to several workers at once: then this one is, too, so that the next ones can be."""
        together = self._executor.together
        return together is not None and together.is_on

    def _recalled(
        self,
        command: Fill | CopyBuffer,
        buffers: Sequence[VirtualBuffer],
        states: Sequence[BufferState],
        after: Sequence[Completion],
        queue: QueueOrder,
    ) -> Completion | None:
        """A transfer that several workers take part in, or that changes where its buffers' bytes are."""
        session, found = self._session, self._known(command, states)
        if found is None or session.observers or session.deferrals.held:
            return None
        completion = recall_transfer(session, found, buffers, after, queue, _NAMES[type(command)])
        if completion is not None:
            session.ledger.count(_NAMES[type(command)], found.plan)
        return completion

    def write(self, command: Write, after: Sequence[Completion], queue: QueueOrder) -> Completion | None:
        """Hand over a small write whose bytes have been read when this returns: the program's memory may then change,
        whether its call is blocking or not. None if it has to be submitted.
        """
        buffer, host = command.buffer, command.host
        writing = buffer.writing
        if type(writing) is RepeatedWrite and writing.layout is command.layout and not after:
            part = self.write_again(buffer, writing, host, queue) if host.size == writing.nbytes else None
            if part is not None:
                return part
        return self._move(command, after, queue, reads=False)

    def write_first(self, buffer: VirtualBuffer, start: int, host: Bytes, queue: QueueOrder) -> Part | None:
        """`write` of a few bytes from all of `host` to those from `start` on, of a new buffer or one that one worker has all of and nobody
        else any, behind nothing but its queue, with fewer calls: a program's arrays of a few numbers come and go. None if it has to go the
        usual way, as the second one of the same bytes has: then nothing has happened.
        """
        session, nbytes = self._session, host.size
        with session.lock:
            if session.recorder is not None or session.observers or session.checker is not None:
                return None
            state, at = self._state_of(buffer), buffer.resident
            line = None if at is None else self._executor.lines[at]
            if line is None or nbytes > line.worker.backend.small_write_nbytes:
                return None
            layout, found = (
                Layout.contiguous(start, nbytes),
                self._transfers.consecutive(Write, nbytes, state),
            )
            if (
                found is None
                or _is_known(buffer.writing, layout)
                or not is_unhindered(session, queue, line.worker.number, timed=line.tells_times)
            ):
                return None
            part = self._written_first(line, found, buffer, start, host, queue)
            if part is None:
                return None
            buffer.used, buffer.writing = session.next_number(), layout
            tally = session.ledger.command("write")
            tally.count += 1
            tally.moved.host_to_worker += nbytes
        if line.worker.marked != line.looked_at:
            line.throttle()
        return part

    def _written_first(
        self,
        line: Line,
        found: ReadyPlan,
        buffer: VirtualBuffer,
        start: int,
        host: Bytes,
        queue: QueueOrder,
    ) -> Part | None:
        """The same on a worker that has the whole buffer."""
        holdings, backend = buffer.holdings, line.worker.backend
        replica = holdings.replicas[line.worker.number]
        if replica is None or replica.start > start or replica.stop < start + host.size:
            return None
        if self._only is None and not self._is_free(line, (holdings,), queue):
            return None
        allocation, box = replica.allocation, Box.contiguous(0, start - replica.start, host.size)
        entry: Entry = found.prepared, [holdings], (), None, (), ()
        part = line.hand_over_written(
            entry,
            self._executor.standing,
            host,
            lambda source: backend.write_now(allocation, source, box),
            timed_in(queue) if queue.profiled else None,
        )
        if part is not None and queue.last is not part.stretch.completion:
            queue.remember(part.stretch.completion)
        return part

    def write_again(
        self, buffer: VirtualBuffer, writing: RepeatedWrite, host: Bytes, queue: QueueOrder
    ) -> Part | None:
        """`write` from all of `host`, which is `writing.nbytes` long, like the buffer's last one, behind nothing but its queue. None if it
        has to go the usual way: then nothing has happened.
        """
        session, executor, line = self._session, self._executor, writing.line
        with session.lock:
            recorder = session.recorder
            started = 0 if recorder is None else perf_counter_ns()
            if buffer.writing is not writing or session.observers:
                return None
            if not (queue is writing.queue and executor.standing is writing.standing) and not may_repeat(
                session, writing, queue, timed=line.tells_times
            ):
                return None
            entry = writing.entry
            if entry[1][0].replicas[line.worker.number] is not writing.replica:
                return None
            if writing.waits and not line.worker.is_quiet_alone:
                return None
            if self._only is None and not self._is_free(line, entry[1], queue):
                return None
            timed = timed_in(queue) if queue.profiled else None
            part = line.hand_over(
                entry, executor.standing, (host, writing.layout), make=writing.make, timed=timed
            )
            if part is None:
                return None
            buffer.used = session.number = session.number + 1
            tally = session.ledger.commands["write"]
            tally.count += 1
            tally.moved.host_to_worker += writing.nbytes
            if recorder is not None:
                tell_part(session, part, started, queue, writing.found, "write", (buffer,), writing.nbytes)
            if queue.last is not part.stretch.completion:
                queue.remember(part.stretch.completion)
        if line.worker.marked != line.looked_at:
            line.throttle()
        return part

    def read_later(
        self, buffer: VirtualBuffer, later: LaterRead, host: Bytes, queue: QueueOrder
    ) -> Part | None:
        """Begin to read into all of `host`, which is `later.nbytes` long, like the buffer's last read that nobody waited for, behind
        nothing but its queue. None if it has to go the usual way: then nothing has happened.
        """
        session, executor, line = self._session, self._executor, later.line
        worker = line.worker
        with session.lock:
            recorder = session.recorder
            started = 0 if recorder is None else perf_counter_ns()
            if buffer.later is not later or session.observers:
                return None
            if not (queue is later.queue and executor.standing is later.standing) and not may_repeat(
                session, later, queue, timed=line.tells_times
            ):
                return None
            entry = later.entry
            holdings = entry[1]
            if holdings[0].replicas[worker.number] is not later.replica:
                return None
            if self._only is None and not self._is_free(line, holdings, queue):
                return None
            if len(worker.arrivals) >= _MOST_ARRIVALS:
                return None
            timed, standing = timed_in(queue) if queue.profiled else None, executor.standing
            part = line.hand_over_read(entry, standing, host, later.make, timed)
            if part is None:
                return None
            buffer.used = session.number = session.number + 1
            tally = session.ledger.commands["read"]
            tally.count += 1
            tally.moved.worker_to_host += later.nbytes
            if recorder is not None:
                tell_part(session, part, started, queue, later.found, "read", (buffer,), later.nbytes)
            if queue.last is not part.stretch.completion:
                queue.remember(part.stretch.completion)
        if worker.marked != line.looked_at:
            line.throttle()
        return part

    def _submit_read(
        self, command: Read, after: Sequence[Completion], queue: QueueOrder
    ) -> Completion | None:
        """A read that the program does not wait for yet."""
        return self._move(command, after, queue, reads=True)

    def _move(
        self, command: Read | Write, after: Sequence[Completion], queue: QueueOrder, *, reads: bool
    ) -> Completion | None:
        """A transfer between host memory and one worker, whose plan is known."""
        session, layout, buffer = self._session, command.layout, command.buffer
        if session.checker is not None:
            return None
        with session.lock:
            started, standing = began(session.recorder), self._executor.standing
            state = buffer.state if reads else self._state_of(buffer)
            if reads and state.pending:
                return None
            found = self._transfers.move_anywhere(type(command), layout, state)
            if found is None:
                found = self._transfers.find_move(type(command), layout, state)
                if found is None or (found.plan.states[0] is not state and found.plan.states[0] != state):
                    return None
            line = self._line_of(found)
            if line is None or not (_may_read if reads else _may_write)(line, found, layout):
                return None
            host = command.host, layout
            part = self._transferred(line, found, (buffer,), after, queue, standing, host, reads=reads)
            if part is None:
                return None
            count_move(session.ledger, type(command), layout, found)
            if session.recorder is not None:
                name = "read" if reads else "write"
                tell_part(session, part, started, queue, found, name, (buffer,), layout.nbytes)
            if layout.is_contiguous and not after:
                (self._keep_reading if reads else self._keep_writing)(line, found, buffer, layout)
        if line.worker.marked != line.looked_at:
            line.throttle()
        return completion_of(part)

    def _keep_writing(self, line: Line, found: ReadyPlan, buffer: VirtualBuffer, layout: Layout) -> None:
        """Keep what makes a write again that was handed over, if it is not the first like it: many bytes are written once."""
        writing = buffer.writing
        if writing is layout:
            entry = found.prepared, [buffer.holdings], (), None, (), ()
            buffer.writing = RepeatedWrite(line, entry, layout, found)
        elif type(writing) is not RepeatedWrite or writing.layout is not layout:
            # the same object for the same bytes, from the same place in the program's array
            buffer.writing = layout

    def _keep_reading(self, line: Line, found: ReadyPlan, buffer: VirtualBuffer, layout: Layout) -> None:
        """The same for a read that the program does not wait for yet."""
        later = buffer.later
        if line.worker.takes_transfers:
            return
        if later is layout:
            entry = found.prepared, [buffer.holdings], (), None, (), ()
            buffer.later = LaterRead(line, entry, layout, found)
        elif type(later) is not LaterRead or later.layout is not layout:
            buffer.later = layout

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
        args: tuple[Any, ...] = (),
    ) -> Part | None:
        """Hand over a transfer whose plan leaves everything as it is. `args`: what its step wants to know (`vdev.executor.anywhere`).
        Under the session's lock.
        """
        session, worker = self._session, line.worker.number
        if session.observers or session.deferrals.held:
            return None
        holdings = [buffer.holdings for buffer in buffers]
        if self._only is None and not self._is_free(line, holdings, queue):
            return None
        if (after or queue.barrier or self._executor.failures.any) and not self._may_go(
            after, queue, worker, holdings
        ):
            return None
        entry = found.prepared, holdings, args, None, (), after
        part = line.hand_over(
            entry, standing, host, reads=reads, timed=timed_in(queue) if queue.profiled else None
        )
        if part is None:
            return None
        number = session.next_number()
        for buffer in buffers:
            buffer.used = number
        if queue.last is not part.stretch.completion:
            queue.remember(part.stretch.completion)
        return part

    def _state_of(self, buffer: VirtualBuffer) -> BufferState:
        """A buffer's state.

        With a single worker, or once a program has long been on one of several, a new buffer's state is the one that
        it has after being given memory there.
        """
        if buffer.resident is None:
            self._placed(buffer, self._at if self.places_new else None)
        return buffer.state

    def _placed(
        self, buffer: VirtualBuffer, worker: int | None, account: Account | None = None
    ) -> int | None:
        """Give a new buffer, to which nothing was ever written, its memory, as a plan of a launch would: on the only
        worker, or on the one that keeps those of `account`, which a launch uses together with it. That worker; None
        if it takes a plan.
        """
        if worker is None or not is_new(buffer.state) or not self._has_place(buffer, worker):
            return None
        if account is None:
            buffer.state = whole_state(buffer.nbytes, worker)
        else:
            buffer.state = whole_state(buffer.nbytes, worker, worker)
            account.enter(buffer)
        return worker

    def _has_place(self, buffer: VirtualBuffer, worker: int) -> bool:
        """Whether a worker has memory for all of a buffer, of which it has had none."""
        occupancy, line = self._session.room.occupancy, self._executor.lines[worker]
        if occupancy.released:
            occupancy.settle()
        if line is None or occupancy.taken[worker] + buffer.nbytes > occupancy.room[worker]:
            return False
        return line.place(buffer.holdings)

    def _brought(
        self,
        buffer: VirtualBuffer,
        worker: int,
        account: Account | None,
        counted: Callable[[VirtualBuffer], Counted | None],
    ) -> None:
        """Bring a buffer that only the home has to a worker, where a launch is about to use it, as that one's plan would. Where that is not
        possible, the buffer stays as it is. `account`, `counted`: as in `_placed` and `AtOnce._all_placed`.
        """
        session, executor, state, nbytes = self._session, self._executor, buffer.state, buffer.nbytes
        line, tallies, started = executor.lines[worker], counted(buffer), began(session.recorder)
        if line is None or tallies is None or not is_at_home(state) or state.kept not in (None, worker):
            return
        if nbytes > line.worker.backend.small_write_nbytes:  # those that are copied often are pinned
            return
        if session.checker is not None or not self._is_home_free(buffer):
            return
        whole = whole_state(nbytes, worker, None if account is None else worker)
        layout = Layout.contiguous(0, nbytes)
        found = planned_move(session, self._transfers, Write, layout, whole)
        if found.plan.states != (whole,) or not _may_write(line, found, layout):
            return
        if not state.replicas and not self._has_place(buffer, worker):
            return
        if state.replicas and state.replicas != whole.replicas:
            return
        host = buffer.holdings.home(), layout
        buffer.state = whole
        part = self._transferred(line, found, (buffer,), (), self._loose, executor.standing, host)
        if part is None:
            # it has memory there, and is still at home
            buffer.state = buffer_state(nbytes, state.valid, whole.replicas, state.kept)
            return
        of_kernel, of_argument = tallies
        of_argument.moved.host_to_worker += nbytes
        if session.recorder is not None:
            shape = Shape(of_kernel.name, of_kernel.times, found.plan)
            tell_shape(session.recorder, part.number, started, self._loose, shape, [buffer.holdings])
        if account is not None and buffer.account is not account:
            account.enter(buffer)

    def _is_home_free(self, buffer: VirtualBuffer) -> bool:
        """Whether all that reads or changes a buffer's home is known to be complete."""
        holdings, have_ended = buffer.holdings, self._executor.have_ended
        return have_ended(holdings.home_reads) and have_ended(holdings.home_writes)

    @property
    def places_new(self) -> bool:
        """Whether it is known where new buffers begin."""
        return self._only is not None or self.streak_length >= _LONG

    def fill_new(self, buffer: VirtualBuffer, host: Bytes) -> bool:
        """Give a new buffer its memory, unless it has that of a released one, and all of it the content of `host`, which may change when
        this returns. False if it has to get them in another way: then it has no content.
        """
        session, layout = self._session, Layout.contiguous(0, buffer.nbytes)
        if session.checker is not None:
            return False
        if buffer.resident is not None:  # it was another one's, which may have been filled as well
            return self.write(Write(buffer, layout, host), (), self._loose) is not None
        with session.lock:
            started, standing = began(session.recorder), self._executor.standing
            state = self._state_of(buffer)
            if buffer.resident is None:
                return False
            found = planned_move(session, self._transfers, Write, layout, state)
            line = self._line_of(found)
            if line is None or found.plan.states != (state,) or not _may_write(line, found, layout):
                return False
            part = self._transferred(line, found, (buffer,), (), self._loose, standing, (host, layout))
            if part is None:
                return False
            session.ledger.count("write", found.plan)
            if session.recorder is not None:
                tell_part(session, part, started, self._loose, found, "write", (buffer,))
        if line.worker.marked != line.looked_at:
            line.throttle()
        return True

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
        return not queue.in_order or last is None or last is line.latest or stands_at(last, worker)


def planned_move(
    session: SessionCore,
    transfers: Transfers,
    kind: type[Read | Write],
    layout: Layout,
    state: BufferState,
) -> ReadyPlan:
    """The plan of a read or write of consecutive bytes that is part of another command. Under the session's lock."""
    found = transfers.find_move(kind, layout, state)
    if found is None:
        region, links = layout.buffer_region(), session.links
        plan = (
            plan_read(state, region, links, contiguous=True)
            if kind is Read
            else plan_write(state, region, links)
        )
        found = ReadyPlan(plan, session.executor.prepare(plan))
        transfers.remember((kind, layout, state), found)
    return found


def timed_in(queue: QueueOrder) -> Timed:
    """For the times of a command that is handed over in a profiled queue."""
    last = queue.last
    return Timed(last if queue.in_order and type(last) is Completion else None)


def completion_of(part: Part) -> Completion:
    """What the program's event gets of a command that was handed over."""
    completion = part.stretch.completion
    return completion if type(completion) is Timed else part


def may_repeat(session: SessionCore, kept: Repeatable, queue: QueueOrder, *, timed: bool = False) -> bool:
    """Whether a transfer may be made again in a queue, behind what has been submitted. `timed`: also where its times are wanted. Under the
    session's lock.
    """
    if not is_unhindered(session, queue, kept.line.worker.number, timed=timed):
        return False
    if (
        queue.in_order
    ):  # which has no barriers: it holds until something is submitted that changes the executor's standing
        kept.queue, kept.standing = queue, session.executor.standing
    return True


def is_unhindered(session: SessionCore, queue: QueueOrder, worker: int, *, timed: bool = False) -> bool:
    """Whether a transfer may be handed to a worker in a queue, behind what has been submitted, without another look. `timed`: also where
    its times are wanted. Under the session's lock.
    """
    executor, barrier = session.executor, queue.barrier
    if session.checker is not None or session.deferrals.held or executor.failures.any or executor.closed:
        return False
    return (not queue.profiled or timed) and (barrier is None or is_ahead(barrier, worker))


def _is_known(writing: object, layout: Layout) -> bool:
    """Whether the last write of a buffer was one of the same bytes: the next one is made again, or will be."""
    return writing is layout or (type(writing) is RepeatedWrite and writing.layout is layout)


def _is_one_step(found: ReadyPlan, states: Sequence[BufferState]) -> bool:
    """Whether a plan for buffers in these states is one step on one worker and leaves them as they are."""
    return found.prepared.step is not None and [*found.plan.states] == states


def _may_read(line: Line, found: ReadyPlan, layout: Layout) -> bool:
    """Whether nobody has to wait for a read that is handed over: it goes to the host at once, or arrives in memory of the
    back end's own.
    """
    download, worker = found.prepared.download, line.worker
    if download is None or worker.takes_transfers:
        return download is not None
    if len(worker.arrivals) >= _MOST_ARRIVALS:
        return False
    return worker.backend.takes_read(download.consecutive_nbytes(layout))


def _may_write(line: Line, found: ReadyPlan, layout: Layout) -> bool:
    backend = line.worker.backend
    if found.prepared.upload is None or not (layout.is_contiguous or backend.writes_boxes_now):
        return False
    if layout.nbytes <= backend.small_write_nbytes:
        return True
    is_short = layout.nbytes <= backend.own_thread_nbytes or is_near(line.worker, layout.nbytes)
    return layout.is_contiguous and is_short and line.worker.is_quiet_alone


def is_near(worker: Worker, nbytes: int) -> bool:
    """Whether so many bytes are copied to a worker, if it is idle, within the host's memory."""
    return nbytes <= _NEAR_NBYTES and worker.backend.info.is_cpu


def count_move(
    ledger: Ledger, kind: type[Read | Write], layout: Layout, found: ReadyPlan, name: str = ""
) -> None:
    """Count a read or write that was handed over with this plan, which may be that of another one (`vdev.session.anywhere`). `name`: under
    which, where it is part of another command.
    """
    reads = kind is Read
    name = name or ("read" if reads else "write")
    if not isinstance(found.prepared.upload or found.prepared.download, (UploadAnywhere, DownloadAnywhere)):
        ledger.add(name, found.travels)
        return
    tally = ledger.command(name)
    tally.count += 1
    if reads:
        tally.moved.worker_to_host += layout.nbytes
    else:
        tally.moved.host_to_worker += layout.nbytes


def _buffers_of(command: Fill | CopyBuffer) -> list[VirtualBuffer]:
    """Its buffers, each once."""
    if type(command) is Fill:
        return [command.buffer]
    assert type(command) is CopyBuffer
    source, target = command.source, command.target
    return [source] if source is target else [source, target]


def _what_of(command: Fill | CopyBuffer) -> tuple[Any, ...]:
    """What its plan depends on besides its buffers."""
    if type(command) is Fill:
        return Fill, command.offset, command.nbytes, command.pattern
    assert type(command) is CopyBuffer
    return (
        CopyBuffer,
        command.shape,
        command.source_start,
        command.source_pitches,
        command.target_start,
        command.target_pitches,
    )


def _at(command: Fill | CopyBuffer, alike: Anywhere) -> tuple[ReadyPlan, tuple[Any, ...]]:
    """The plan that a transfer shares with others, and what its step wants to know of this one (`vdev.executor.anywhere`)."""
    if type(command) is Fill:
        nbytes = command.nbytes
        found = alike.whole if nbytes == command.buffer.nbytes else alike.part
        return found, (command.offset, nbytes, command.pattern)
    assert type(command) is CopyBuffer
    shape = command.shape
    found = alike.whole if shape[0] * shape[1] * shape[2] == command.target.nbytes else alike.part
    return found, (
        shape,
        command.source_start,
        command.source_pitches,
        command.target_start,
        command.target_pitches,
    )


def is_at_home(state: BufferState) -> bool:
    """Whether the home alone has all of a buffer."""
    valid = state.valid
    if len(valid) != 1 or state.pending or state.fine:
        return False
    holder, held = valid[0]
    return holder == HOST and held.nbytes == state.nbytes


def is_new(state: BufferState) -> bool:
    """Whether nobody has ever had any of a buffer's bytes, nor memory for them."""
    return not (state.valid or state.replicas or state.pending or state.fine)


def stands_at(completion: Completion, worker: int) -> bool:
    """Whether only that worker still has something to do for it."""
    progress = completion.progress
    if type(progress) is Stretch and progress.worker == worker:
        return True
    return completion.settled or (isinstance(progress, Job) and progress.is_open_at_most_at(worker))


def may_follow(after: Sequence[Completion], queue: QueueOrder, worker: int, *, alone: bool) -> bool:
    """Whether everything that a command waits for was handed to its worker before it, and none of it is known to have
    failed. `alone`: there is no other worker.
    """
    barrier = queue.barrier
    if barrier is not None and not is_ahead(barrier, worker):
        return False
    known: Stretch | None = None  # for arrays, ten and more, in a few stretches
    for item in after:
        if type(item) is not Part:
            if not _is_behind(item, worker, alone=alone):
                return False
        elif (stretch := item.stretch) is not known:
            if stretch.parts is not None or stretch.worker != worker:
                return False
            known = stretch
    return True


def is_ahead(barrier: Completion, worker: int) -> bool:
    """Whether a barrier holds up nothing that is handed to a worker: it is complete, or that worker was given it at once, which has no
    reason to fail then (`vdev.session.immediate_markers`).
    """
    if type(barrier) is Part:
        stretch = barrier.stretch
        if stretch.parts is None and stretch.worker == worker:
            return True
    return barrier.settled


def _is_behind(earlier: Completion, worker: int, *, alone: bool) -> bool:
    if earlier.settled:
        return earlier.status == 0
    if earlier.progress is None or earlier.error is not None:
        return False
    return alone or stands_at(earlier, worker)
