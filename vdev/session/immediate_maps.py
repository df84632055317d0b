"""Small mappings that the calling thread makes and ends by itself: the bytes are read from the only worker that has them into the
buffer's home, and those of a mapping for writing are written back from there.

While the host writes, the home alone has the bytes, as for any mapping: whatever else is submitted finds them there. Once they have been
written back, the buffer is in the state in which the mapping found it. Decides when that is possible; if it is not, the mapping, or its
end, is submitted like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from vdev.executor.holdings import PINNED_NBYTES
from vdev.planner.transfers import plan_map
from vdev.session.commands import Map, Read, Unmap, Write
from vdev.session.immediate_homes import HomesAtOnce
from vdev.session.immediate_moves import count_move, planned_move
from vdev.translators.ranges.rectangles import Layout

if TYPE_CHECKING:
    from vdev.backends.base import Bytes
    from vdev.executor.completion import Completion
    from vdev.executor.direct_reads import RepeatedRead
    from vdev.executor.holdings import Holdings
    from vdev.executor.worker import Worker
    from vdev.planner.directory import BufferState
    from vdev.planner.instructions import Plan
    from vdev.session.anywhere import Transfers
    from vdev.session.core import SessionCore
    from vdev.session.ordering import QueueOrder


#: mappings for writing whose plans are known
_MOST_KNOWN = 1024


class MadeMapping:
    """A mapping that is made at once, and what its end needs."""

    __slots__ = ("before", "host", "layout", "plan", "reading", "standings", "writing")

    def __init__(self, command: Map, before: BufferState, plan: Plan | None) -> None:
        """`before`: the state in which it finds its buffer. `plan`: where it leaves another state."""
        self.before, self.plan = before, plan
        self.layout = Layout.contiguous(command.offset, command.nbytes)
        buffer = command.buffer
        #: the bytes at home
        self.host: Bytes = buffer.holdings.home()[command.offset : command.offset + command.nbytes]
        #: what makes the last read and the last write in that state again
        self.reading: RepeatedRead | None = None
        self.writing: Any = buffer.writing
        #: the executor's before a mapping for writing, and during it
        self.standings: tuple[object, object] = (None, None)


def _is_brief(worker: Worker, nbytes: int) -> bool:
    """Whether nobody has to wait long for so many bytes from a worker and back to it: they are few, or it is idle, and the calling thread
    copies them itself.
    """
    backend = worker.backend
    if nbytes <= min(backend.small_read_nbytes, backend.small_write_nbytes):
        return True
    return nbytes <= backend.own_thread_nbytes and worker.is_quiet_alone


def _count_copies(worker: Worker, holdings: Holdings, nbytes: int) -> None:
    """So many bytes are about to be copied between a home and a worker: one that is copied again and again is pinned."""
    backend = worker.backend
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
            made = MadeMapping(command, before, self._plan_of_map(command, before) if command.write else None)
            if command.read and self._transfers.move_anywhere(Read, made.layout, before) is None:
                planned_move(session, self._transfers, Read, made.layout, before)
        if command.nbytes >= PINNED_NBYTES and worker.backend.pins_memory:
            _count_copies(worker, buffer.holdings, command.nbytes * (command.read + command.write))
        return made

    def end_map(self, command: Map, made: MadeMapping) -> bool:
        """The bytes are at home. Whether the mapping is made: if not, something else has come in between."""
        session, buffer, executor = self._session, command.buffer, self._executor
        with session.lock:
            if (
                buffer.state is not made.before
                or self._is_watched()
                or not self._is_home_free(command.buffer)
            ):
                return False
            made.reading = buffer.reading
            if made.plan is None:
                # What is read stays on the worker alone, and what is at home is the program's.
                tally = session.ledger.command("map")
                tally.count += 1
                tally.moved.worker_to_host += command.nbytes
            else:
                before, executor.standing = executor.standing, object()
                made.standings = before, executor.standing
                (buffer.state,) = made.plan.states
                session.ledger.count("map", made.plan)
            buffer.used = session.next_number()
            command.before, command.made = made.before, made
        return True

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

    def _write_back(
        self, mapping: Map, made: MadeMapping, after: Sequence[Completion], queue: QueueOrder
    ) -> Completion | None:
        """End a mapping for writing. Under the session's lock."""
        session, executor, buffer = self._session, self._executor, mapping.buffer
        if made.plan is None or buffer.state is not made.plan.states[0]:
            return None
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
        buffer.state = made.before
        buffer.reading, buffer.writing = made.reading, made.writing
        before, during = made.standings
        if executor.standing is during:  # all is as it was
            executor.standing = before
        count_move(session.ledger, Write, made.layout, found, "unmap")
        return part

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
