"""The session: one process's virtual device, from submitted commands to completed ones.

Takes commands in the order the host program enqueues them, holds back those that wait for user events, has
each planned against the directory and hands the plan to the executor. Decides the order of planning,
nothing else: which worker does what is the planner's, how it is done the executor's. All of the directory
changes under the session's one lock.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from weakref import WeakSet

from vdev.backends.base import Backend, BackendProgram, Bytes
from vdev.errors import DEPENDENCY_FAILED, OUT_OF_RESOURCES, BackendError, BuildError, BuildFailure, NoRoom
from vdev.executor.completion import Completion
from vdev.executor.executor import Executor
from vdev.executor.failures import repaired
from vdev.executor.stretch import Clocked, is_done_at_once
from vdev.observe.tallies import Ledger
from vdev.planner.links import LinkCosts
from vdev.process import forking
from vdev.process.interrupts import long, waits
from vdev.session.buffers import VirtualBuffer, buffer_of
from vdev.session.built_programs import BuiltPrograms
from vdev.session.commands import Command, Launch, Map, Marker, Read, Unmap, Write
from vdev.session.core import Checker, SessionCore
from vdev.session.immediate import AtOnce
from vdev.session.launches import Launches
from vdev.session.lost import LostSession
from vdev.session.moves import Moves
from vdev.session.ordering import Deferred, QueueOrder, UserCompletion, first_failure
from vdev.session.programs import SessionKernel, SessionProgram
from vdev.session.transfers import TRANSFERS
from vdev.translators.ranges.rectangles import Layout

__all__ = [
    "BuildError",
    "Completion",
    "NoRoom",
    "Session",
    "SessionKernel",
    "UserCompletion",
    "VirtualBuffer",
]

logger = logging.getLogger("vdev.session.session")

#: seconds that a fork waits for a command that is being planned
_LOCKING = 2.0


class Session(SessionCore):
    """All workers of a process as one device. Any thread may call any method."""

    def __init__(
        self,
        openers: Sequence[Callable[[], Backend]],
        *,
        min_items: int | None = 0,
        check: Callable[[Executor, LinkCosts], Checker] | None = None,
        gather: bool | None = False,
        plan_always: bool = True,
        interiors: bool | None = False,
    ) -> None:
        """`openers` make the back ends, each on its worker's thread. `check`: makes the checker of launches, if they
        are checked.

        `min_items`: launches of fewer work-items stay on one worker; None: those that `launches` calls small.
        `gather`: whether buffers are kept on one worker (`vdev.session.choosing`); None: if that is faster.
        `plan_always`: also if planning takes longer than splitting gains. `interiors`: whether chunks begin before all of their bytes
        have come (`vdev.session.interiors`); None: where that gains. Raises what the first opener that fails raises.
        """
        super().__init__(
            openers,
            min_items=min_items,
            check=check,
            gather=gather,
            plan_always=plan_always,
            interiors=interiors,
        )
        self.executor.ended = self._ended
        self._user_completions: WeakSet[UserCompletion] = WeakSet()
        self.launches, self.moves = Launches(self), Moves(self)
        self._built = BuiltPrograms()
        self._is_prepared = False  #: whether what workers need for their exchanges is being compiled
        #: the most bytes of a new buffer's content that are written at once
        self._filled_nbytes = _filled_at_once([worker.backend for worker in self.executor.all_workers[:-1]])
        #: hands commands over without a submission, if there may be any such commands
        self.at_once: AtOnce | None = None
        if any(self.executor.lines):
            self.at_once = AtOnce(self, self.moves.plans)
            self.launches.went_on = self.at_once.went_on
        self._planners: dict[
            type, Callable[[Any, Completion, Sequence[Completion], Completion | None, QueueOrder], None]
        ] = {
            Launch: self.launches.submit,
            Marker: self.moves.submit_marker,
            **dict.fromkeys(TRANSFERS, self.moves.submit),
        }
        _sessions.add(self)

    # making things --------------------------------------------------------------------------------

    def create_buffer(
        self, nbytes: int, host_memory: Bytes | None = None, *, fine: bool = False
    ) -> VirtualBuffer:
        """A buffer; it costs nothing until it is used. `host_memory`, if given, is its home and its content. `fine`:
        the program reads and writes it there at any time, without a command.
        """
        return VirtualBuffer(self.executor, nbytes, host_memory, self.room.occupancy, fine)

    def create_over(self, host: Bytes, *, fine: bool = False) -> VirtualBuffer:
        """A buffer whose home is memory of the program's, with its content. `fine`: as above."""
        buffer = self.create_buffer(host.size, host, fine=fine)
        buffer.holdings.is_given = True
        return buffer

    def create_filled(self, nbytes: int, host: Bytes) -> VirtualBuffer:
        """A buffer with the content of `host` (1-D uint8, `nbytes` long), which may change after the call.

        On workers with their own memory, a large one goes there immediately, and on the only worker a small one, or any that its back
        end has the calling thread copy; the home of any other is a copy.
        """
        if self.fills_at_once(nbytes):
            buffer = self.create_buffer(nbytes)
            if self.fill_at_once(buffer, host):
                return buffer
        if self.links.direct and nbytes >= self.links.large_nbytes:
            buffer = self.create_buffer(nbytes)
            write = Write(buffer, Layout.contiguous(0, nbytes), host)
            if self.submit(write, queue=self.create_queue(in_order=False)).wait() == 0:
                return buffer
            # Creating a buffer may succeed although a worker fails: the commands that use it report the failure.
        return self.create_buffer(nbytes, host.copy())

    def fills_at_once(self, nbytes: int) -> bool:
        """Whether the content of a new buffer of that size may be given to its worker by the calling thread (`fill_at_once`)."""
        return self.at_once is not None and nbytes <= self._filled_nbytes and self.at_once.places_new

    def refills_at_once(self, nbytes: int) -> bool:
        """The same of one that is a released buffer. Not on several workers: some of them may still have to do with what it was, and a
        new buffer's content waits for no command of any queue.
        """
        return self.at_once is not None and self.at_once.is_alone and self.fills_at_once(nbytes)

    def fill_at_once(self, buffer: VirtualBuffer, host: Bytes) -> bool:
        """Give a new buffer, which may be a released one, the content of `host` (1-D uint8, as long), which may change after the call.
        False if it has to get it in another way: then it has none.
        """
        return self.at_once is not None and self.at_once.fill_new(buffer, host)

    def create_queue(self, *, in_order: bool, profiled: bool = False) -> QueueOrder:
        return QueueOrder(in_order=in_order, profiled=profiled)

    def user_completion(self) -> UserCompletion:
        """What clCreateUserEvent makes; its `set_status` releases what waits for it."""
        completion = UserCompletion(self._released)
        self._user_completions.add(completion)
        return completion

    @long
    def build(self, source: str | bytes, options: Sequence[str] = ()) -> SessionProgram:
        """Build for all workers; `source` is an intermediate language if it is bytes. BuildError with the compiler's
        log if the source is wrong.
        """
        workers = self.launch_options.workers
        found = self._built.find(source, options, workers)
        if found is not None:
            return found
        program = SessionProgram(source, options, self.workers)

        def meanwhile() -> None:
            program.begin_analysis(self.executor.begin_merge_preparations)
            self._prepare()

        program.build(lambda native: self._build_on_workers(native, meanwhile), self._prepare)
        if self.checker is not None:
            self.checker.built(program)
        else:
            self._built.remember(program, workers)
        return program

    def _prepare(self) -> None:
        """Have compiled beside the program what workers need for exchanges: whoever builds its first program has no data for these yet, and
        compilers take no time of the thread that reads and translates it.
        """
        if not self._is_prepared:
            self._is_prepared = True
            self.executor.begin_preparations()

    def _build_on_workers(
        self, program: BackendProgram, meanwhile: Callable[[], object] | None = None
    ) -> list[Any]:
        try:
            return list(self.executor.build(program, meanwhile))
        except BuildFailure:
            raise
        except BackendError as error:  # not the compiler's, but the device's, which does not take it
            raise BuildError(error.text, error.status) from error

    # submission -----------------------------------------------------------------------------------

    def submit(self, command: Command, after: Sequence[Completion] = (), *, queue: QueueOrder) -> Completion:
        """Enqueue `command`. It starts when those in `after` are complete and its queue allows it. Does not wait for
        any device.

        Raises NoRoom if the workers' memory cannot hold what the command needs.
        """
        if self.at_once is not None:
            handed_over = self._handed_over(self.at_once, command, after, queue)
            if handed_over is not None:
                return handed_over
        completion = Completion(queue.profiled)
        with self.lock:
            order: Completion | None = None
            if queue.in_order:
                order = queue.last
                if order is not None and order.settled:
                    order = None
            else:
                barrier = queue.barrier
                if isinstance(command, Marker):
                    after = self._marker_waits(command, after, queue, completion)
                if barrier is not None and not barrier.settled:
                    after = (*after, barrier)
            queue.remember(completion)
            missing: set[Completion] | None = None
            if after or self.deferrals:
                missing = self.deferrals.blockers(after if order is None else (*after, order))
            if missing:
                start = _Start(self, command, completion, after, order, queue)
                self.deferrals.hold(Deferred(completion, after, missing, start))
                self.executor.standing = object()  # what comes after it in its queue has to wait, too
            else:
                try:
                    self.start(command, completion, after, order, queue)
                except BaseException:
                    _never_submitted(completion)
                    raise
        self.executor.throttle()
        return completion

    def _handed_over(
        self, at_once: AtOnce, command: Command, after: Sequence[Completion], queue: QueueOrder
    ) -> Completion | None:
        """Hand a command over without a plan of its own; None if it has to be submitted."""
        found = at_once.submit(command, after, queue)
        if found is None and type(command) is Launch:
            found = self.launches.recall(command, after, queue)
        if found is None:
            self._let_arrive(command)
        return found

    def _let_arrive(self, command: Command) -> None:
        """Before a command is submitted: let what is handed over at once be through with its array of the host's."""
        if type(command) is Read or type(command) is Write:
            self.executor.let_arrive(command.host)
        elif type(command) is Unmap and command.map.write:
            self.executor.let_arrive(command.map.buffer.holdings.home())

    @waits
    def read_at_once(
        self,
        command: Read,
        queue: QueueOrder,
        after: Sequence[Completion] = (),
        clocked: Clocked | None = None,
    ) -> int | None:
        """Read, and return when the read is done: its status. None if it has to be submitted. `clocked`: its completion in a profiled
        queue.
        """
        done = None if self.at_once is None else self.at_once.read_home(command, after, queue)
        return done if done is not None else self.moves.read_at_once(command, queue, after, clocked)

    @waits
    def map_at_once(self, command: Map, queue: QueueOrder, after: Sequence[Completion] = ()) -> int | None:
        """Map, and return when the mapping is made: its status. None if it has to be submitted."""
        at_once = self.at_once
        if at_once is None or queue.profiled:
            return None
        if command.buffer.mapped is None:
            done = at_once.map_home(command, after, queue)
        else:  # so a worker has it whole
            done = None if after else at_once.map_again(command, queue, self.moves)
        if done is not None:
            return done
        made = at_once.begin_map(command)
        if made is None and not after:
            self.moves.calm(
                command.buffer, command.nbytes
            )  # some of what uses the home may only have to be looked at
            made = at_once.begin_map(command)
        if made is None:
            with self.lock:  # the program will wait for it, as for the read that is made otherwise
                self.moves.look(command.nbytes if command.read else -command.nbytes)
            return None
        if command.read:
            read = Read(command.buffer, made.layout, made.host)
            status = self.moves.read_at_once(read, queue, after, counts=False)
        else:  # nothing is copied
            with self.lock:
                self.moves.look(-command.nbytes)
                behind = at_once.mark(after, queue)
            status = None if behind is None else behind.wait()
        return None if status == 0 and not at_once.end_map(command, made) else status

    def unmap_at_once(self, mapping: Map, queue: QueueOrder) -> bool:
        """Whether a mapping has ended with this call, behind nothing but its queue; False if its end has to be submitted."""
        at_once = self.at_once
        return (
            at_once is not None
            and not mapping.write
            and mapping.made is not None
            and at_once.unmap_unwritten(mapping, queue)
        )

    def write_at_once(
        self, command: Write, after: Sequence[Completion], queue: QueueOrder
    ) -> Completion | None:
        """Enqueue a write whose bytes have been read from the program's memory when this returns. None if it has to
        be submitted.
        """
        written = None if self.at_once is None else self.at_once.write(command, after, queue)
        if written is None and self.moves.is_to_be_copied(command, after, queue):
            written = self.moves.write_recalled(command, queue)
            if written is None:
                copied = Write(command.buffer, command.layout, command.host.copy(), is_copied=True)
                written = self.submit(copied, queue=queue)
        return written

    @staticmethod
    def _marker_waits(
        command: Marker, after: Sequence[Completion], queue: QueueOrder, completion: Completion
    ) -> Sequence[Completion]:
        """In an out-of-order queue a marker without a wait list waits for all commands before it.

        A barrier also holds up all after it.
        """
        if command.barrier:
            queue.barrier = completion
        return after if after else queue.unsettled()

    def start(
        self,
        command: Command,
        completion: Completion,
        after: Sequence[Completion],
        order: Completion | None,
        queue: QueueOrder,
    ) -> None:
        """Plan `command` and hand it to the executor. Under the lock."""
        if after:
            if first_failure(after) is not None:
                completion.settle(DEPENDENCY_FAILED)
                return
            after = [item for item in after if not item.settled]
        if order is not None and order.settled:
            order = None
        if self.executor.damaged:
            self._repair()
        recorder = self.recorder
        if recorder is None:
            self._planners[type(command)](command, completion, after, order, queue)
            return
        outer = recorder.enter(queue)
        try:
            self._planners[type(command)](command, completion, after, order, queue)
        finally:
            recorder.leave(outer)

    def _released(self, completion: Completion) -> None:
        """A user event was set: start what waited only for it, and what waited for that."""
        with self.lock:
            free = self.deferrals.release(completion)
            failure: BaseException | None = None
            while free:
                deferred = free.pop(0)
                try:
                    with suppress(NoRoom):  # its event reports it
                        deferred.start()
                except BaseException as error:  # the others must not wait for ever
                    _never_submitted(deferred.completion)
                    failure = failure or error
                free.extend(self.deferrals.release(deferred.completion))
            if failure is not None:
                raise failure

    def flush(self, queue: QueueOrder) -> None:
        """Commands start by themselves; nothing needs to be done (clFlush)."""

    @waits
    def finish(self, queue: QueueOrder) -> None:
        """Return when every command of `queue` has ended (clFinish)."""
        with self.lock:
            self.moves.look_once()
            waiting = queue.unsettled()
        for completion in reversed(waiting):
            if not is_done_at_once(completion):
                completion.wait()

    def look(self) -> None:
        """The program is about to wait for an event (clWaitForEvents): what passes between two such waits tells what a period takes, as
        between two reads.
        """
        if self.choosing is not None:
            with self.lock:
                self.moves.look_once()

    def close(self) -> None:
        """End the workers' threads."""
        self.executor.close()

    def _ended(self) -> None:
        """At the interpreter's exit: threads that are stopped may hold the lock for good."""
        self.lock = threading.RLock()

    def lose(self) -> None:
        """In a forked child: the session is the parent's. From now on it is a `LostSession`."""
        forking.keep_for_ever(dict(vars(self)))
        forking.renew(self.lock)
        self.deferrals.lose()
        self.spares.close()
        for completion in self._user_completions:
            completion.abandon(OUT_OF_RESOURCES)
        self.executor.lose()
        vars(self).clear()
        self.__class__ = LostSession  # type: ignore[assignment]

    @contextmanager
    def observing(self, until: int = 0) -> Iterator[Ledger]:
        """What has been counted so far; nothing is planned meanwhile. Commands up to number `until` have ended."""
        with self.lock:
            if self.recorder is not None:
                self.recorder.take(until)
            yield self.ledger

    # failures ---------------------------------------------------------------------------------------

    def _repair(self) -> None:
        """Correct the directory for what failed commands should have brought about."""
        for holdings, damage in self.executor.repair():
            buffer = buffer_of(holdings)
            if buffer is not None:
                buffer.state = repaired(buffer.state, holdings, damage)
        self.room.learn()


def _filled_at_once(backends: Sequence[Backend]) -> int:
    """The most bytes of a new buffer's content that the thread that makes the buffer writes to its worker.

    Where there are several workers, little: what goes to one of them has to come to the others from there.
    """
    small = min(backend.small_write_nbytes for backend in backends)
    return max(small, backends[0].own_thread_nbytes) if small and len(backends) == 1 else small


def _never_submitted(completion: Completion) -> None:
    """Whatever kept a command from being handed over (no memory, a full stack): nobody must wait for it."""
    if completion.progress is None and not completion.settled:
        completion.reason = "it was never handed over to the workers"
        completion.settle(OUT_OF_RESOURCES)


class _Start:
    """A deferred command's start: what `Session.start` needs, kept until then."""

    __slots__ = ("_arguments", "_session")

    def __init__(self, session: Session, *arguments: Any) -> None:
        self._session = session
        self._arguments = arguments

    def __call__(self) -> None:
        self._session.start(*self._arguments)


#: all live sessions
_sessions: WeakSet[Session] = WeakSet()


def _hold() -> Callable[[], None]:
    """Before a fork: keep the workers of all sessions out of their back ends."""
    sessions = list(_sessions)
    locked = [session.lock for session in sessions if session.lock.acquire(timeout=_LOCKING)]
    held = [session.executor.hold() for session in sessions]

    def go_on() -> None:
        for each in held:
            each()
        for lock in locked:
            lock.release()

    return go_on


def _lose() -> None:
    """In a forked child: its parent's sessions are of no use."""
    for session in list(_sessions):
        session.lose()
    _sessions.clear()


forking.before_fork(_hold)
forking.in_child(_lose)
