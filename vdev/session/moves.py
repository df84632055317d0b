"""What a session does with commands other than launches: transfers of all kinds, and markers.

Decides where an earlier plan is found, and which reads the calling thread does by itself
(`vdev.executor.direct_reads`). All of it happens under the session's lock, but for the wait for such a read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from vdev.backends.base import Box, copy_box
from vdev.errors import DEPENDENCY_FAILED
from vdev.executor.calling_thread import WHILE_WAKING_NBYTES
from vdev.executor.completion import COMPLETE
from vdev.executor.direct_reads import (
    Arriving,
    Reading,
    RepeatedRead,
    begin_reading,
    calm,
    is_to_be_calm,
    prepare_reading,
)
from vdev.executor.job import Job, is_complete
from vdev.executor.steps import BRIEF_NBYTES
from vdev.executor.stretch import Clocked
from vdev.executor.worker import Worker
from vdev.observe.recorder import Shape
from vdev.planner.instructions import HOST
from vdev.process.interrupts import waits
from vdev.process.processor_time import busy_ns
from vdev.session.anywhere import Transfers
from vdev.session.commands import Command, CopyBuffer, Fill, Map, Marker, Read, Write
from vdev.session.gathering import Gathering, nbytes_of
from vdev.session.immediate_moves import (
    RecalledWrite,
    count_move,
    is_near,
    may_follow,
    may_repeat,
    planned_move,
)
from vdev.session.launch_plans import ReadyPlan
from vdev.session.ordering import all_complete
from vdev.session.recalls import is_watched, recall_transfer, were_submitted
from vdev.session.room import fail_for_room
from vdev.session.transfers import Transfer, transfer_of
from vdev.translators.ranges.rectangles import Layout

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vdev.executor.completion import Completion
    from vdev.executor.direct_reads import Begun
    from vdev.planner.directory import BufferState
    from vdev.planner.instructions import Plan
    from vdev.session.buffers import VirtualBuffer
    from vdev.session.core import SessionCore
    from vdev.session.ordering import QueueOrder
    from vdev.translators.ranges.rectangles import Layout


T = TypeVar("T")

#: the most bytes of a blocking read that are given to the program once all is known to have gone well
_MOST_ASIDE = 1 << 16


def counted() -> int:
    """There is nothing to do while a read is on its way."""
    return COMPLETE


def uncounted() -> int:
    """There is nothing to do while a read is on its way that is part of another command, and not counted itself."""
    return COMPLETE


class Moves:
    """The commands of one session other than launches."""

    def __init__(self, session: SessionCore) -> None:
        self._session = session
        self.plans = Transfers()
        self._gathering = Gathering(session)
        #: whether what transfers take is counted; and whether the last one had a plan made
        self._counts, self._anew = self._gathering.is_on, False
        self._workers = session.executor.all_workers[:-1]
        self._home = session.executor.all_workers[HOST]
        #: the only worker; None if there are several
        self._only = self._workers[0] if len(self._workers) == 1 else None
        #: whether reads of profiled queues can be made so as well
        self._tells_times = all(
            worker.backend.tells_times and not worker.backend.begins_timed for worker in self._workers
        )
        self._small_nbytes = min(worker.backend.small_write_nbytes for worker in self._workers)
        #: the most bytes from a box's first to its last that are all read for it
        self._most_around = max(worker.backend.small_read_nbytes for worker in self._workers)
        #: the most bytes of a write that is copied first: only where several workers may want them, and none waits for them
        self._copied_nbytes = 0 if self._only is not None else min(self._small_nbytes, BRIEF_NBYTES)
        self._looked_behind = 0  #: the number of the last command that was submitted before the last look

    def submit(
        self,
        command: Command,
        completion: Completion,
        after: Sequence[Completion],
        order: Completion | None,
        queue: QueueOrder,
    ) -> None:
        """Plan a transfer and hand it over. Raises NoRoom."""
        session, transfer = self._session, transfer_of(command)
        began = busy_ns() if self._counts else 0
        found = self._plan_transfer(command, completion, transfer)
        plan, buffers = found.plan, transfer.buffers
        if type(command) is Map:
            command.before = buffers[0].state
        number = session.next_number()
        for buffer, state in zip(buffers, plan.states, strict=True):
            buffer.state = state
            buffer.used = number
        kind = type(command).__name__.lower()
        tally = session.ledger.count(kind, plan)
        if session.observers:
            session.observe(command, plan)
        job = session.executor.submit(
            found.prepared,
            [buffer.holdings for buffer in buffers],
            completion,
            args=transfer.args,
            host=transfer.host,
            layout=transfer.layout,
            host_writes=transfer.host_writes,
            shares_host=transfer.shares_host,
            homes=transfer.homes,
            after=after,
            order=order,
        )
        if session.recorder is not None:
            if found.shape is None:
                found.shape = Shape(kind, tally.times, plan)
            session.recorder.submitted(job, found.shape)
            if session.recorder.exchanges is not None:
                session.recorder.exchanges.note(found.shape, [buffer.holdings for buffer in buffers])
        if self._counts and self._anew and isinstance(command, (CopyBuffer, Fill, Read, Write)):
            seconds = (busy_ns() - began) * 1e-9
            self._gathering.planned(buffers, nbytes_of(command), seconds)

    def _plan_transfer(self, command: Command, completion: Completion, transfer: Transfer) -> ReadyPlan:
        """The plan of a command that is not a launch; after making room for it, if it takes any."""
        session, buffers, make = self._session, transfer.buffers, transfer.make
        self._anew = False
        if any(buffer.state.pending for buffer in buffers):
            session.folding.before(type(command), transfer)
        if transfer.what is None:
            return self._ready(make(session.links))
        key = (type(command), transfer.what, *(buffer.state for buffer in buffers))
        found = self.plans.find(key)
        if found is None and isinstance(command, (Read, Write)):
            found = self.plans.find_move(type(command), command.layout, buffers[0].state)
        if found is None:
            started, kind = time.perf_counter_ns(), type(command).__name__.lower()
            found = self._ready(make(session.links))
            self.plans.remember(key, found)
            self._anew = True
            session.planned(session.ledger.command(kind), f"plan {kind}", started)
        if found.plan.growth and session.room.lacks(found.plan):
            plan = session.room.fit(make, buffers)
            if plan is None:
                fail_for_room(command, completion)
            found = self._ready(plan)
        return found

    def _ready(self, plan: Plan) -> ReadyPlan:
        return ReadyPlan(plan, self._session.executor.prepare(plan))

    def submit_marker(
        self,
        command: Marker,
        completion: Completion,
        after: Sequence[Completion],
        order: Completion | None,
        queue: QueueOrder,
    ) -> None:
        """Hand over a command that does nothing."""
        job = self._session.executor.submit_empty(completion, after, order)
        if self._session.recorder is not None:
            self._session.recorder.submitted(job, self._session.recorder.empty_shape("marker"))

    @waits
    def calm(self, buffer: VirtualBuffer, nbytes: int) -> None:
        """Before a command that the program waits for and that moves so many bytes between the host and `buffer`: if only one worker
        has it, let that finish what it was given, so that the calling thread can do the rest itself.
        """
        worker = self._only
        if worker is None and buffer.resident is not None and buffer.resident != HOST:
            worker = self._workers[buffer.resident]
        if worker is not None and is_to_be_calm(worker, nbytes):
            calm(worker)

    def calm_to_write(self, buffer: VirtualBuffer, nbytes: int, queue: QueueOrder) -> None:
        """The same before a write in a queue, if it is not so small that it waits for nothing; of a buffer that several workers have, all
        of these.
        """
        if nbytes <= self._small_nbytes:
            return
        session = self._session
        if session.choosing is not None:
            with session.lock:
                self.look(-nbytes)
        if buffer.resident is None and queue.in_order and self._only is None:
            self._calm_holders(buffer, nbytes)
            return
        if queue.in_order and buffer.resident is not None and is_near(self._workers[buffer.resident], nbytes):
            nbytes = 0  # calm whatever its length: it waits for all that comes before it anyway
        self.calm(buffer, nbytes)

    def _calm_holders(self, buffer: VirtualBuffer, nbytes: int) -> None:
        """Let the workers that have any of a buffer finish what they were given, if the calling thread can do the rest itself then."""
        holders = {holder for holder, _ in buffer.state.valid if holder != HOST}
        if nbytes > WHILE_WAKING_NBYTES * len(holders):
            return
        workers = [self._workers[number] for number in sorted(holders)]
        if all(is_to_be_calm(worker, nbytes) for worker in workers):
            for worker in workers:
                calm(worker)

    def is_to_be_copied(self, command: Write, after: Sequence[Completion], queue: QueueOrder) -> bool:
        """Whether a write is submitted from a copy of its bytes, so that the program's memory may change and nobody has to wait for
        the workers that the bytes go to: a small one, where the call has nothing to wait for and no failure to tell of.
        """
        if command.host.size > self._copied_nbytes or after:
            return False
        return self._may_be_copied(queue)

    def _may_be_copied(self, queue: QueueOrder) -> bool:
        """The same of any small write in a queue that waits for nothing else."""
        session, executor = self._session, self._session.executor
        if queue.profiled or session.deferrals.held or executor.failures.any:
            return False
        if queue.barrier is not None and not queue.barrier.settled:
            return False
        with executor.lock:  # a read into that memory may be under way
            return not executor.uses_host()

    def write_recalled(self, command: Write, queue: QueueOrder) -> Completion | None:
        """Hand over a write that `is_to_be_copied`, like one before; None if it has to be submitted: then nothing has happened."""
        buffer, layout = command.buffer, command.layout
        with self._session.lock:
            completion = self._write_recalled(buffer, layout, command.host, queue)
            if completion is not None and layout.nbytes == command.host.size:  # nothing lies around them
                writing = buffer.writing
                if type(writing) is not RecalledWrite or writing.layout is not layout:
                    buffer.writing = RecalledWrite(layout)
        return completion

    def write_again(
        self, buffer: VirtualBuffer, writing: RecalledWrite, host: NDArray[Any], queue: QueueOrder
    ) -> Completion | None:
        """Hand over a write from all of `host`, of `writing.nbytes` bytes, like one that was, behind nothing but its queue; None if it has
        to go the usual way: then nothing has happened.
        """
        if not self._may_be_copied(queue):
            return None
        with self._session.lock:
            return self._write_recalled(buffer, writing.layout, host, queue)

    def _write_recalled(
        self, buffer: VirtualBuffer, layout: Layout, host: NDArray[Any], queue: QueueOrder
    ) -> Completion | None:
        """The same under the session's lock."""
        session, state = self._session, buffer.state
        if is_watched(session) or state.pending:
            return None
        found = self.plans.find_move(Write, layout, state)
        if found is None or found.prepared.compiled is None:
            return None
        args = host.tobytes(), layout
        completion = recall_transfer(session, found, (buffer,), (), queue, "write", args)
        if completion is not None:
            session.ledger.add("write", found.travels)
        return completion

    @waits
    def read_at_once(
        self,
        command: Read,
        queue: QueueOrder,
        after: Sequence[Completion],
        clocked: Clocked | None = None,
        *,
        counts: bool = True,
    ) -> int | None:
        """Read, and return when the read is done: its status. None if it has to be submitted. `clocked`: as for `read_again`. `counts`:
        whether it is a command of the program's, and not a part of one.
        """
        if command.layout.is_contiguous:
            done = self._read_like_last(command, queue, after, clocked, counts=counts)
        else:
            done = self._read_box(command, queue, after, clocked)
        if done is not None:
            return done
        with self._session.lock:
            self.look(command.layout.nbytes)
            made = self._aside(command, queue, after)
            order = queue.last if queue.in_order else None
            reading = self._begin_reading(made, queue, after, None, clocked, counts=counts)
        if isinstance(reading, Worker):
            quiet = reading
            prepare_reading(quiet, command.layout)
            with self._session.lock:
                order = queue.last if queue.in_order else None
                reading = self._begin_reading(made, queue, after, quiet, clocked, counts=counts)
        if reading is None or isinstance(reading, Worker):
            return None
        status = reading.wait()
        if order is not None:
            self.wait_behind(order)
        if status or self._only is not None:
            return status
        status = outcome_of(after)
        if made is not command and status == COMPLETE:
            start = command.layout.host_start
            command.host[start : start + made.host.size] = made.host
        return status

    def _aside(self, command: Read, queue: QueueOrder, after: Sequence[Completion]) -> Read:
        """The read that is made for a blocking one. It goes into memory of its own where it is known only when the bytes are there whether
        what it waits for, on other workers, has gone well: if not, the program's memory is left as it is.
        """
        if not after or self._only is not None:
            return command
        resident, layout = command.buffer.resident, command.layout
        if not layout.is_contiguous or layout.nbytes > _MOST_ASIDE or all_complete(after):
            return command
        if resident is not None and may_follow(after, queue, resident, alone=False):
            return command
        into = np.empty(layout.nbytes, np.uint8)
        return Read(
            command.buffer, Layout.contiguous(layout.buffer_start, layout.nbytes), into, is_aside=True
        )

    @waits
    def _read_box(
        self, command: Read, queue: QueueOrder, after: Sequence[Completion], clocked: Clocked | None
    ) -> int | None:
        """Read all from a box's first byte to its last, which are few, and give the program the box's."""
        buffer, layout = command.buffer, command.layout
        start, nbytes = layout.buffer_start, layout.reach
        if nbytes > self._most_around:
            return None
        found = np.empty(nbytes, np.uint8)
        status = self.read_first(buffer, start, found, queue, after, counted, (), clocked)
        if status is None:
            status = self._read_around(command, found, queue, after, clocked)
        if status == COMPLETE:
            box = Box(layout.shape, 0, layout.buffer_pitches, layout.host_start, layout.host_pitches)
            copy_box(found, command.host, box)
        return status

    @waits
    def _read_around(
        self,
        command: Read,
        found: NDArray[np.uint8],
        queue: QueueOrder,
        after: Sequence[Completion],
        clocked: Clocked | None,
    ) -> int | None:
        """Read all from a box's first byte to its last into `found`, if they have one plan."""
        session, buffer, layout = self._session, command.buffer, command.layout
        nbytes = found.size
        with session.lock:
            state = buffer.state
            if state.resident is None or state.fine or state.pending:
                return None
            if nbytes > session.executor.all_workers[state.resident].backend.small_read_nbytes:
                return None
            around = Layout.contiguous(layout.buffer_start, nbytes)
            planned_move(session, self.plans, Read, around, state)
        return self.read_at_once(Read(buffer, around, found), queue, after, clocked)

    @waits
    def _read_like_last(
        self,
        command: Read,
        queue: QueueOrder,
        after: Sequence[Completion],
        clocked: Clocked | None,
        *,
        counts: bool,
    ) -> int | None:
        """`read_again`, where the buffer's last read was one of the same bytes."""
        buffer, layout = command.buffer, command.layout
        reading = buffer.reading
        if (
            reading is None
            or after
            or reading.start != layout.buffer_start
            or reading.nbytes != layout.nbytes
        ):
            return None
        host = command.host[layout.host_start : layout.host_start + layout.nbytes]
        return self.read_again(buffer, reading, host, queue, counted if counts else uncounted, (), clocked)

    @waits
    def read_again(
        self,
        buffer: VirtualBuffer,
        reading: RepeatedRead,
        host: NDArray[Any],
        queue: QueueOrder,
        meanwhile: Callable[..., T],
        given: Sequence[Any],
        clocked: Clocked | None = None,
    ) -> T | int | None:
        """`read_at_once` into all of `host`, a contiguous array of `reading.nbytes` bytes, like the buffer's last one, which waits for
        nothing but its queue. Where that is done, what `meanwhile` has returned, called with `given` while the bytes were on their way;
        the status of what has failed; None if it has to go the usual way: then nothing has happened. `clocked`: in a profiled queue, the
        read's completion, which has its times then.
        """
        session = self._session
        if reading.waits:
            calm(reading.line.worker)
        with session.lock:
            if (
                session.observers
                or session.recorder is not None
                or (buffer.reading is not reading and not self._is_folded_for(buffer, reading))
            ):
                return None
            if not (
                queue is reading.queue and session.executor.standing is reading.standing
            ) and not may_repeat(session, reading, queue, timed=clocked is not None and self._tells_times):
                return None
            order, number = queue.last, session.executor.last_number
            made: tuple[Begun | None, T] | None = reading.make(host, self.note_again, meanwhile, given)
            if made is None:
                return None
            if clocked is not None:
                # Nothing else was handed over meanwhile.
                clocked.end(reading.line.worker.backend.timer(None, 1))
            buffer.used = session.number
            begun, found = made
            if begun is None and order is reading.line.latest:  # all of that is its worker's
                return found
            is_behind, is_last = order is None, False
            # A finaliser may have submitted something meanwhile.
            if self._only is None and session.executor.last_number == number:
                is_behind, is_last = self._place_of(reading.line.worker, order)
        status = 0 if begun is None else reading.end(begun, host)
        if is_last and not status:
            session.executor.has_done_all(number)
        elif not is_behind and order is not None and queue.in_order:
            self.wait_behind(order)
        return status if status else found

    @waits
    def read_first(
        self,
        buffer: VirtualBuffer,
        start: int,
        host: NDArray[Any],
        queue: QueueOrder,
        after: Sequence[Completion],
        meanwhile: Callable[..., T],
        given: Sequence[Any],
        clocked: Clocked | None = None,
    ) -> T | int | None:
        """`read_again` of bytes from `start` on of a buffer that one worker has all of and nobody else any, whether any were read before
        or not, behind `after` as well, which that worker was given before: a program's arrays of a few numbers come and go.
        """
        session, nbytes, at = self._session, host.nbytes, buffer.resident
        if at is None or nbytes > self._workers[at].backend.small_read_nbytes:
            return None
        executor, worker = session.executor, self._workers[at]
        with session.lock:
            if buffer.resident != at or executor.damaged or executor.lines[at] is None:
                return None
            if after and not may_follow(after, queue, at, alone=self._only is not None):
                return None
            reading, holdings = buffer.reading, buffer.holdings
            if reading is None or (reading.start, reading.nbytes) != (start, nbytes):
                replica, state = holdings.replicas[at], buffer.state
                if replica is None or replica.start > start or replica.stop < start + nbytes:
                    return None
                reading = RepeatedRead(executor, worker, holdings, start, nbytes, (state, state))
                buffer.reading = reading
        return self.read_again(buffer, reading, host, queue, meanwhile, given, clocked)

    def _is_folded_for(self, buffer: VirtualBuffer, reading: RepeatedRead) -> bool:
        """Whether a buffer is in the state in which it was read, or was in that in which the read found it: what was pending of it is
        folded then, as the read would do.
        """
        session = self._session
        if session.deferrals or session.executor.damaged:
            return False
        if buffer.state is not reading.after:  # otherwise it was folded with another buffer
            if buffer.state is not reading.before:
                return False
            session.folding.fold((buffer,))
            if buffer.state is not reading.after:
                return False
        buffer.reading = reading
        return True

    @waits
    def wait_behind(self, order: Completion) -> None:
        """A read was made behind `order` in its queue, and has arrived: wait for that as well, unless all is known to be complete."""
        if not (self._is_idle() or order.settled or is_complete(order) or self._have_passed(order)):
            order.wait()

    def note_again(self, reading: RepeatedRead, meanwhile: Callable[..., T], given: Sequence[Any]) -> T:
        """Count a read that is being made again, and do what there is to do meanwhile. Under the session's lock."""
        session = self._session
        if session.choosing is None:
            session.executor.waits += 1
        else:
            self.look(reading.nbytes)
        session.number += 1
        if meanwhile is not uncounted:
            tally = session.ledger.command("read")
            tally.count += 1
            tally.moved.worker_to_host += reading.nbytes
        return meanwhile(*given)

    def look(self, nbytes: int) -> None:
        """The program is about to wait for so many bytes, or for all that there is to do: 0. Under the session's lock."""
        choosing, executor = self._session.choosing, self._session.executor
        executor.waits += 1
        self._looked_behind = executor.last_number
        if choosing is None:
            return
        looks = choosing.looks
        if looks.passes and looks.account.thrifty:  # type: ignore[union-attr]  # only those of an account pass
            looks.passes -= 1
        elif choosing.looked(time.perf_counter_ns(), nbytes):
            executor.standing = object()  # launches take another way: none is repeated

    def look_once(self) -> None:
        """The program is about to wait for commands, which is a look if any was submitted since the last one: who waits for some events
        one after another, or for an event and its queue, looks once. Under the session's lock.
        """
        if self._session.executor.last_number != self._looked_behind:
            self.look(0)

    def _have_passed(self, order: Completion) -> bool:
        """Whether a command is complete, as the fences tell that its workers have put behind it: others have waited for them."""
        progress = order.progress
        if self._only is not None or not isinstance(progress, Job):
            return False
        home = self._home
        if progress.clock[HOST] > home.completed:
            return False
        for worker, step in zip(self._workers, progress.clock, strict=False):
            if worker.completed < step and not worker.has_passed(step):
                return False
        return True

    def _place_of(self, worker: Worker, order: Completion | None) -> tuple[bool, bool]:
        """Whether the device does whatever a worker is handed now behind all of a command, and behind all that any worker was submitted."""
        ordered, home = worker.ordered, self._home
        is_last = home.completed >= home.submitted
        for each in self._workers:
            step = each.submitted
            if each is not worker and each.completed < step and ordered.get(each.number, 0) < step:
                is_last = False
        return is_last or order is None or _comes_after(worker, order), is_last

    def _is_idle(self) -> bool:
        """Whether all that was ever submitted is known to be complete, where there is one worker."""
        worker, home = self._only, self._session.executor.all_workers[HOST]
        return (
            worker is not None and worker.completed >= worker.submitted and home.completed >= home.submitted
        )

    def _begin_reading(
        self,
        command: Read,
        queue: QueueOrder,
        after: Sequence[Completion],
        quiet: Worker | None,
        clocked: Clocked | None = None,
        *,
        counts: bool = True,
    ) -> Reading | Arriving | Worker | None:
        """Hand over a read like one whose plan is known, if nobody wants to hear of it (`begin_reading`)."""
        session = self._session
        watched = session.recorder is not None or session.observers or session.checker is not None
        watched = watched or (queue.profiled and (clocked is None or not self._tells_times))
        if watched or session.deferrals or session.executor.damaged:
            return None
        if not queue.in_order and queue.barrier is not None and not queue.barrier.settled:
            return None
        buffer = command.buffer
        before = buffer.state
        if before.pending:
            session.folding.before(Read, transfer_of(command))
        layout, state = command.layout, buffer.state
        found = self.plans.move_anywhere(Read, layout, state) or self.plans.find_move(Read, layout, state)
        step = None if found is None else found.prepared.download
        if found is None or step is None or found.prepared.alone is None or found.plan.growth:
            return None
        if after and not self._is_behind(command, after, queue, found.prepared.alone):
            return None
        worker = session.executor.all_workers[found.prepared.alone]
        reading = begin_reading(
            session.executor, step, found.prepared.alone, buffer.holdings, command.host, command.layout, quiet
        )
        if reading is not None and not isinstance(reading, Worker):
            buffer.used = session.number = session.number + 1
            if counts:
                count_move(session.ledger, Read, layout, found)
            buffer.reading = None
            if clocked is not None:
                clocked.end(worker.backend.timer(None, 1))
            if isinstance(reading, Arriving) or self._is_long(command.layout, found.prepared.alone):
                self._keep_reading(command, found.prepared.alone, before)
        return reading

    def _is_long(self, layout: Layout, worker: int) -> bool:
        """Whether a read of consecutive bytes was made of an idle worker since it is longer than those that arrive in memory of the back
        end's own.
        """
        backend = self._workers[worker].backend
        return (
            layout.is_contiguous
            and 0 < backend.small_read_nbytes < layout.nbytes <= backend.own_thread_nbytes
        )

    def _keep_reading(self, command: Read, worker: int, before: BufferState) -> None:
        """Keep what makes a read again that was handed over, if it is not the first like it: many buffers are read once."""
        buffer, layout = command.buffer, command.layout
        now = layout.buffer_start, layout.nbytes, before, buffer.state
        if buffer.last_read == now:
            buffer.reading = RepeatedRead(
                self._session.executor, self._workers[worker], buffer.holdings, *now[:2], now[2:]
            )
        buffer.last_read = now

    def _is_behind(self, command: Read, after: Sequence[Completion], queue: QueueOrder, worker: int) -> bool:
        """Whether everything in `after` was given to a worker before whatever it is given now, or, where the bytes go into other memory
        first, to others that the thread which reads can wait for once they are there; and none of it is known to have failed.
        """
        home = self._session.executor.all_workers[HOST]
        if home.completed < home.submitted:
            return False
        if may_follow(after, queue, worker, alone=self._only is not None):
            return True
        return (command.is_aside or all_complete(after)) and were_submitted(after, queue)


def _comes_after(worker: Worker, order: Completion) -> bool:
    """Whether the device does whatever the worker is handed now behind all of a command that was submitted, on whatever workers."""
    progress = order.progress
    if not isinstance(progress, Job):
        return False
    mine, ordered, workers = worker.number, worker.ordered, progress.executor.all_workers
    for number, step in enumerate(progress.clock):
        if number != mine and workers[number].completed < step and ordered.get(number, 0) < step:
            return False
    return True


@waits
def outcome_of(after: Sequence[Completion]) -> int:
    """Wait for what a read was to wait for, and has not waited for yet: the status that the read ends with."""
    for earlier in after:
        if not earlier.settled:
            earlier.wait()
        if earlier.status < COMPLETE:
            return DEPENDENCY_FAILED
    return COMPLETE
