"""Small mappings that the calling thread makes and ends by itself: the bytes are read from the only worker that has them into the
buffer's home, and those of a mapping for writing are written back from there.

While the host writes, the home alone has the bytes, as for any mapping: whatever else is submitted finds them there. Once they have been
written back, the buffer is in the state in which the mapping found it. Decides when that is possible; if it is not, the mapping, or its
end, is submitted like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from vdev.executor.direct_reads import calm
from vdev.executor.holdings import PINNED_NBYTES
from vdev.executor.job import is_complete
from vdev.planner.directory import HOST
from vdev.planner.transfers import plan_map
from vdev.process.interrupts import waits
from vdev.session.commands import Map, Read, Unmap, Write
from vdev.session.immediate_homes import HomesAtOnce
from vdev.session.immediate_moves import RepeatedWrite, count_move, may_repeat, planned_move
from vdev.session.moves import uncounted
from vdev.translators.ranges.rectangles import Layout

if TYPE_CHECKING:
    from vdev.backends.base import Bytes
    from vdev.executor.completion import Completion
    from vdev.executor.direct_reads import RepeatedRead
    from vdev.executor.holdings import Holdings
    from vdev.executor.stretch import Part
    from vdev.executor.worker import Worker
    from vdev.planner.directory import BufferState
    from vdev.planner.instructions import Plan
    from vdev.session.anywhere import Transfers
    from vdev.session.buffers import VirtualBuffer
    from vdev.session.core import SessionCore
    from vdev.session.moves import Moves
    from vdev.session.ordering import QueueOrder


#: mappings for writing whose plans are known
_MOST_KNOWN = 1024


class MadeMapping:
    """A mapping that is made at once, and what its end needs."""

    __slots__ = (
        "again", "back", "before", "behind", "host", "is_small", "layout", "plan", "reading", "send", "standings", "what", "worker",
        "writing",
    )  # fmt: skip

    def __init__(self, command: Map, before: BufferState, plan: Plan | None, worker: Worker) -> None:
        """`before`: the state in which it finds its buffer, all of which is the `worker`'s. `plan`: where it leaves another state."""
        self.before, self.plan, self.worker = before, plan, worker
        #: which bytes are mapped, and whether for reading, and for writing
        self.what = command.offset, command.nbytes, command.read, command.write
        self.layout = Layout.contiguous(command.offset, command.nbytes)
        buffer = command.buffer
        #: the bytes at home
        self.host: Bytes = buffer.holdings.home()[command.offset : command.offset + command.nbytes]
        #: what makes the last read and the last write in that state again
        self.reading: RepeatedRead | None = None
        self.writing: Any = buffer.writing
        #: the executor's before a mapping for writing, and during it
        self.standings: tuple[object, object] = (None, None)
        #: whether nobody has to wait for its bytes, even if the worker is at work
        self.is_small = _is_small(worker, command.nbytes)
        #: what reads its bytes again, and what writes them back again, once that has been done
        self.again: RepeatedRead | None = None
        self.back: RepeatedWrite | None = None
        #: what sends them back without waiting, where the home is pinned, once that has been done
        self.send: Callable[[Bytes], object] | None = None
        #: where it was made like the one before: its queue, and the number of the last command of all that had been submitted by then;
        #: of these, those in that queue have ended
        self.behind: tuple[QueueOrder | None, int] = (None, 0)

    def sending(self, writing: RepeatedWrite) -> Callable[[Bytes], object]:
        """What sends its bytes back, where the home is pinned, as the write that was made last."""
        found = self.send
        if found is None:
            allocation, start = writing.replica.allocation, writing.start - writing.replica.start
            found = self.send = self.worker.backend.sends_again(allocation, start, writing.nbytes)
        return found


def _is_small(worker: Worker, nbytes: int) -> bool:
    """Whether so many bytes are read from a worker and written to it without waiting for what it does."""
    backend = worker.backend
    return nbytes <= min(backend.small_read_nbytes, backend.small_write_nbytes)


def _is_brief(worker: Worker, nbytes: int) -> bool:
    """Whether nobody has to wait long for so many bytes from a worker and back to it: they are few, or it is idle, and the calling thread
    copies them itself.
    """
    if _is_small(worker, nbytes):
        return True
    return nbytes <= worker.backend.own_thread_nbytes and worker.is_quiet_alone


def _count_copies(worker: Worker, holdings: Holdings, nbytes: int) -> None:
    """So many bytes are about to be copied between a home and a worker: one that is copied again and again is pinned."""
    backend = worker.backend
    if holdings.is_pinned or nbytes < PINNED_NBYTES or not backend.pins_memory:
        return
    outside = backend.outside()
    backend.enter()
    try:
        holdings.home_for(backend, nbytes)
    finally:
        backend.leave(outside)


class MapsAtOnce(HomesAtOnce):
    """The immediate mappings of one session."""

    def __init__(self, session: SessionCore, transfers: Transfers) -> None:
        super().__init__(session, transfers)
        #: by what is mapped for writing, and the identity of the buffer's state: that state, and the plan, which nobody carries out
        self._plans: dict[tuple[int, int, bool, int], tuple[BufferState, Plan]] = {}

    def begin_map(self, command: Map) -> MadeMapping | None:
        """Find out whether a mapping can be made at once, where one like it has been submitted before: None if not. Nothing happens
        before `end_map`, but that the caller reads the bytes or waits for what is before the mapping.
        """
        session, buffer = self._session, command.buffer
        with session.lock:
            before = buffer.state
            if before.resident is None or before.fine or before.pending:
                return None  # what is at home, too, takes no copies, and little time
            worker = session.executor.all_workers[before.resident]
            if not _is_brief(worker, command.nbytes):
                return None
            if self._is_watched() or not self._is_home_free(buffer):
                return None
            if session.recorder is not None:  # what is read for it has no number
                return None
            plan = self._plan_of_map(command, before) if command.write else None
            made = MadeMapping(command, before, plan, worker)
            if command.read and self._transfers.move_anywhere(Read, made.layout, before) is None:
                planned_move(session, self._transfers, Read, made.layout, before)
        _count_copies(worker, buffer.holdings, command.nbytes * (command.read + command.write))
        return made

    def end_map(
        self, command: Map, made: MadeMapping, behind: tuple[QueueOrder | None, int] = (None, 0)
    ) -> bool:
        """The bytes are at home. Whether the mapping is made: if not, something else has come in between. `behind`: as of
        `MadeMapping`.
        """
        session, buffer = self._session, command.buffer
        with session.lock:
            if (
                buffer.state is not made.before
                or self._is_watched()
                or not self._is_home_free(command.buffer)
            ):
                return False
            reading = buffer.reading
            if reading is not None and (reading.start, reading.nbytes) == made.what[:2]:
                made.again = reading
            self._mapped(command, made)
            made.behind = behind
        return True

    @waits
    def map_again(self, command: Map, queue: QueueOrder, moves: Moves) -> int | None:
        """Map what the buffer's last mapping mapped, which was made at once in the same state, behind nothing but the queue: the status.
        None if it has to go another way: then nothing has happened, but that the bytes may be at home as well.
        """
        buffer = command.buffer
        made: MadeMapping | None = buffer.mapped
        if made is None or made.what != (command.offset, command.nbytes, command.read, command.write):
            return None
        holdings = buffer.holdings
        # Its bytes come behind what the worker is at, and nobody waits before.
        comes = holdings.is_pinned and command.read
        if not (made.is_small or comes):
            calm(made.worker)
        _count_copies(made.worker, holdings, command.nbytes * (command.read + command.write))
        if not command.read:
            return self._mapped_unread(command, made, queue, moves)
        reading, begun = made.again, None
        if reading is None:
            return None
        with self._session.lock:
            number = self._executor.last_number
            if self._may_map_again(buffer, made, reading, queue, comes=comes):
                begun = reading.make(made.host, moves.note_again, uncounted, ())
            if begun is None:
                return None
            under_way, order, behind = begun[0], queue.last, (queue if queue.in_order else None, number)
            if under_way is None and (
                order is None or order is reading.line.latest
            ):  # as in `Moves.read_again`
                self._mapped(command, made)
                made.behind = behind
                return 0
        status = 0 if under_way is None else reading.end(under_way, made.host)
        if order is not None and queue.in_order:
            moves.wait_behind(order)
        return None if status == 0 and not self.end_map(command, made, behind) else status

    def _may_map_again(
        self,
        buffer: VirtualBuffer,
        made: MadeMapping,
        reading: RepeatedRead,
        queue: QueueOrder,
        *,
        comes: bool,
    ) -> bool:
        """Whether a mapping's bytes may be read to the home as before. `comes`: they come there in the order of the worker's work. Under
        the session's lock.
        """
        session, worker = self._session, made.worker
        if buffer.mapped is not made or session.observers or session.recorder is not None:
            return False
        if not (made.is_small or comes or worker.is_quiet_alone):
            return False
        is_sent = comes and self._is_home_sent(buffer, worker.number)
        if not (is_sent or self._is_home_free(buffer)):
            return False
        if queue is reading.queue and self._executor.standing is reading.standing:
            return True
        return may_repeat(session, reading, queue)

    @waits
    def _mapped_unread(self, command: Map, made: MadeMapping, queue: QueueOrder, moves: Moves) -> int | None:
        """The same of bytes that the program gives up: it waits for what is before them in the queue."""
        session = self._session
        if not queue.in_order or session.recorder is not None:
            return None
        if session.choosing is not None:
            with session.lock:
                moves.look(-command.nbytes)
        order = queue.last
        if order is not None and not (order.settled or is_complete(order)):
            order.wait()
        return 0 if command.buffer.mapped is made and self.end_map(command, made) else None

    def _mapped(self, command: Map, made: MadeMapping) -> None:
        """The mapping is made. Under the session's lock."""
        session, executor, buffer = self._session, self._executor, command.buffer
        made.reading, made.writing = buffer.reading, buffer.writing
        if made.plan is None:
            # What is read stays on the worker alone, and what is at home is the program's.
            tally = session.ledger.command("map")
            tally.count += 1
            tally.moved.worker_to_host += command.nbytes
            buffer.mapped = made
        else:
            before, executor.standing = executor.standing, object()
            made.standings = before, executor.standing
            (buffer.state,) = made.plan.states
            session.ledger.count("map", made.plan)
        buffer.used = session.next_number()
        command.before, command.made = made.before, made

    def _submit_unmap(
        self, command: Unmap, after: Sequence[Completion], queue: QueueOrder
    ) -> Completion | None:
        mapping = command.map
        made: MadeMapping | None = mapping.made
        if made is None:
            return self._unmapped_home(command, after, queue)
        if queue.profiled:
            return None
        with self._session.lock:
            if self._is_watched():
                return None
            if mapping.write:
                ended = self._write_back(mapping, made, after, queue)
            else:
                ended = self.mark(after, queue)
                if ended is not None:
                    self._session.ledger.command("unmap").count += 1
        self.throttle_behind(ended)
        return ended

    def unmap_unwritten(self, mapping: Map, queue: QueueOrder) -> bool:
        """End a mapping for reading, where nothing has to be done for that: it was made at once, when all before it in its queue had
        ended, and nothing was submitted since. False where it has to be submitted: then nothing has happened.
        """
        made: MadeMapping = mapping.made
        session = self._session
        with session.lock:
            before, number = made.behind
            is_done = queue is before and self._executor.last_number == number
            if not is_done or queue.profiled or self._is_watched():
                return False
            session.ledger.command("unmap").count += 1
        return True

    def _write_back(
        self, mapping: Map, made: MadeMapping, after: Sequence[Completion], queue: QueueOrder
    ) -> Completion | None:
        """End a mapping for writing. Under the session's lock."""
        session, executor, buffer = self._session, self._executor, mapping.buffer
        if made.plan is None or buffer.state is not made.plan.states[0]:
            return None
        part = None if made.back is None or after else self._written_again(made, made.back, buffer, queue)
        if part is not None:
            self._restore(buffer, made)
            buffer.used = session.next_number()
            tally = session.ledger.command("unmap")
            tally.count += 1
            tally.moved.host_to_worker += mapping.nbytes
            return part
        found = self._transfers.move_anywhere(Write, made.layout, made.before)
        if found is None:
            found = planned_move(session, self._transfers, Write, made.layout, made.before)
        line = self._line_of(found)
        if line is None or found.prepared.upload is None or found.plan.states != (made.before,):
            return None
        host = made.host, made.layout
        part = self._transferred(line, found, (buffer,), after, queue, executor.standing, host)
        if part is None:
            return None
        self._restore(buffer, made)
        count_move(session.ledger, Write, made.layout, found, "unmap")
        if not after:
            made.back = RepeatedWrite(
                line, (found.prepared, [buffer.holdings], (), None, (), ()), made.layout, found
            )
            made.send = None
        return part

    def _is_home_sent(self, buffer: VirtualBuffer, worker: int) -> bool:
        """Whether nobody is using a buffer's home but that worker, which was given all that to do and only reads there."""
        holdings = buffer.holdings
        return [*holdings.home_reads] == [worker] and self._executor.have_ended(holdings.home_writes)

    def _written_again(
        self, made: MadeMapping, writing: RepeatedWrite, buffer: VirtualBuffer, queue: QueueOrder
    ) -> Part | None:
        """Hand over a write of a mapping's bytes, which have been at home alone, as one before; None if it has to go another way. Under the
        session's lock.
        """
        session, executor, line, entry = self._session, self._executor, writing.line, writing.entry
        worker, holdings = line.worker, buffer.holdings
        if session.observers or not may_repeat(session, writing, queue):
            return None
        if entry[1][0].replicas[worker.number] is not writing.replica:
            return None
        # A program may change its own memory as soon as its mapping has ended, where all others are the device's then.
        send = made.sending(writing) if holdings.is_pinned and not holdings.is_given else None
        if send is None and writing.waits and not worker.is_quiet_alone:
            return None
        if self._only is None and not self._is_free(line, entry[1], queue):
            return None
        make, host = send or writing.make, (made.host, writing.layout)
        part = line.hand_over(entry, executor.standing, host, make=make)
        if part is None:
            return None
        if send is not None:
            with executor.lock:
                holdings.did_read(HOST, worker.number, worker.issued)
        if queue.last is not part.stretch.completion:
            queue.remember(part.stretch.completion)
        return part

    def _restore(self, buffer: VirtualBuffer, made: MadeMapping) -> None:
        """The buffer is as it was before its mapping."""
        executor, (before, during) = self._executor, made.standings
        buffer.state = made.before
        buffer.reading, buffer.writing, buffer.mapped = made.reading, made.writing, made
        if executor.standing is during:  # all is as it was
            executor.standing = before

    def _plan_of_map(self, command: Map, before: BufferState) -> Plan:
        """The plan that tells what is counted of it, and which state it leaves."""
        key = command.offset, command.nbytes, command.read, id(before)
        known = self._plans.get(key)
        if known is not None:
            return known[1]
        region = Layout.contiguous(command.offset, command.nbytes).buffer_region()
        plan = plan_map(before, region, self._session.links, read=command.read, write=command.write)
        if len(self._plans) >= _MOST_KNOWN:
            self._plans.clear()
        self._plans[key] = before, plan
        return plan
