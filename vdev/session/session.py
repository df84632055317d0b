"""The session: one process's virtual device, from submitted commands to completed ones.

Takes commands in the order the host program enqueues them, holds back those that wait for user events, has
each planned against the directory and hands the plan to the executor. Decides the order of planning,
nothing else: which worker does what is the planner's, how it is done the executor's. All of the directory
changes under the session's one lock.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, ClassVar, NoReturn, Protocol
from weakref import WeakSet

from vdev.backends.base import Backend, BackendProgram, Bytes, WorkerInfo
from vdev.errors import DEPENDENCY_FAILED, OUT_OF_RESOURCES, BuildError, NoRoom
from vdev.executor import Completion, Executor, repaired
from vdev.observe.recorder import Recorder, Shape
from vdev.observe.tallies import CommandTally, KernelTally, Ledger
from vdev.planner.instructions import Plan
from vdev.planner.launches import USUAL_MIN_ITEMS, LaunchOptions
from vdev.planner.links import LinkCosts
from vdev.process import forking
from vdev.process.interrupts import long, waits
from vdev.session.buffers import VirtualBuffer, buffer_of
from vdev.session.commands import Command, Launch, Marker, Read, Write
from vdev.session.gathering import Choosing, can_choose
from vdev.session.launches import Launches
from vdev.session.moves import Moves
from vdev.session.ordering import Deferrals, Deferred, QueueOrder, UserCompletion, first_failure
from vdev.session.programs import SessionKernel, SessionProgram
from vdev.session.room import RoomMaker
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

#: The unit of costs: a byte over a worker's link to the host. A peer's memory is nearer
#: (`WorkerInfo.peer_cost`): bytes that a worker wrote stay with workers.
_HOST_COST = 1.0
#: Each run of a strided copy costs what so many bytes cost (measured on a CPU engine: 100 to 400), so that
#: columns have to save bytes.
_RUN_COST = 256.0

#: Seconds after which a thread lets go of the interpreter for one that wants it, where workers are fed over links.
_SWITCH_INTERVAL = 0.0001
#: seconds that a fork waits for a command that is being planned
_LOCKING = 2.0
#: A replica with gaps may take this part of a worker's memory.
_GAPS_SHARE = 16

Observer = Callable[[Command, Plan], None]


class Checker(Protocol):
    """Somebody who makes launches again to compare (`vdev.check`). Under the session's lock."""

    @property
    def failure(self) -> Exception | None:
        """What is wrong; no further command is taken then."""

    def built(self, program: SessionProgram) -> None:
        """A program was built; by any thread, without the lock."""

    def begin(self, launch: Launch, buffers: list[VirtualBuffer], plan: Plan) -> Any:
        """A launch is about to be submitted; gives what `end` wants."""

    def end(self, launch: Launch, buffers: list[VirtualBuffer], case: Any, completion: Completion) -> None:
        """It has been."""


class Session:
    """All workers of a process as one device. Any thread may call any method."""

    def __init__(
        self,
        openers: Sequence[Callable[[], Backend]],
        *,
        min_items: int | None = 0,
        check: Callable[[Executor, LinkCosts], Checker] | None = None,
        gather: bool | None = False,
        plan_always: bool = True,
    ) -> None:
        """`openers` make the back ends, each on its worker's thread. `check`: what makes the checker of launches, if they are checked.

        `min_items`: launches of fewer work-items stay on one worker; None: those that `launches` calls small.
        `gather`: whether buffers are kept on one worker (`vdev.session.gathering`); None: where that is faster. `plan_always`:
        also where planning takes longer than splitting gains.

        Raises what the first that fails raises.
        """
        self.executor = Executor(openers)
        self.workers: tuple[WorkerInfo, ...] = self.executor.workers
        if any(not info.is_cpu for info in self.workers):
            # A thread that feeds a link needs the interpreter for microseconds at a time, and would wait for it
            # 5 ms each time while the program's thread computes.
            sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH_INTERVAL))
        self.links = _links_between(self.workers)
        self.launch_options = LaunchOptions(
            tuple(range(len(self.workers))),
            self.links,
            USUAL_MIN_ITEMS if min_items is None else min_items,
            compute_units=_own_units(self.workers) if min_items is None else 0,
        )
        self.room = RoomMaker(self.executor, self.links)
        #: where launches that exchange much may be better off on one worker
        self.choosing: Choosing | None = None
        exchanges = len(self.links.direct) == len(self.workers) and (
            bool(gather) or (gather is None and can_choose(self.workers))
        )
        if len(self.workers) > 1 and (exchanges or not plan_always):
            self.choosing = self._open_choice(exchanges, forced=bool(gather), thrifty=not plan_always)
        self._number = 0  #: of the last command that used buffers
        #: called with every command and its plan, under the session's lock, in the order of planning
        self.observers: list[Observer] = []
        self.ledger = Ledger()
        self.executor.aside, self.executor.ended = self._aside, self._ended
        #: told of every command, if anybody wants to know where the time goes
        self.recorder: Recorder | None = None
        self.executor.red_zones = check is not None
        self.checker = None if check is None else check(self.executor, self.links)
        # Reentrant: what a command kept alive may go inside, and a mapping's finaliser submits.
        self._lock = threading.RLock()
        self.deferrals = Deferrals()
        self._user_completions: WeakSet[UserCompletion] = WeakSet()
        self.launches, self.moves = Launches(self), Moves(self)
        self._planners: dict[
            type, Callable[[Any, Completion, Sequence[Completion], Completion | None, QueueOrder], None]
        ] = {
            Launch: self.launches.submit,
            Marker: self.moves.submit_marker,
            **dict.fromkeys(TRANSFERS, self.moves.submit),
        }
        _sessions.add(self)

    def _open_choice(self, exchanges: bool, *, forced: bool, thrifty: bool) -> Choosing:
        """The choice between all workers and one. `exchanges`: also for what exchanging costs."""
        return Choosing(
            self.room.occupancy,
            self.launch_options,
            forced=exchanges and forced,
            exchanges=exchanges,
            thrifty=thrifty,
            shared=len({info.device_key for info in self.workers}) < len(self.workers),
        )

    @property
    def lock(self) -> threading.RLock:
        """Held while a command is planned and handed over."""
        return self._lock

    # making things --------------------------------------------------------------------------------

    def create_buffer(
        self, nbytes: int, host_memory: Bytes | None = None, *, fine: bool = False
    ) -> VirtualBuffer:
        """A buffer; costs nothing until it is used. `host_memory` is its home and its content where given. `fine`:
        the program reads and writes it there at any time, with no command.
        """
        return VirtualBuffer(self.executor, nbytes, host_memory, self.room.occupancy, fine)

    def create_filled(self, nbytes: int, host: Bytes) -> VirtualBuffer:
        """A buffer with the content of `host` (1-D uint8, `nbytes` long), which may change after the call.

        On workers with memory of their own a large one goes there at once; the home of any other is a copy.
        """
        if self.links.direct and nbytes >= self.links.large_nbytes:
            buffer = self.create_buffer(nbytes)
            write = Write(buffer, Layout.contiguous(0, nbytes), host)
            if self.submit(write, queue=self.create_queue(in_order=False)).wait() == 0:
                return buffer
            # Creating a buffer may succeed where a worker fails: the commands that use it tell.
        return self.create_buffer(nbytes, host.copy())

    def create_queue(self, *, in_order: bool, profiled: bool = False) -> QueueOrder:
        return QueueOrder(in_order=in_order, profiled=profiled)

    def user_completion(self) -> UserCompletion:
        """What clCreateUserEvent makes; its `set_status` lets go what waited for it."""
        completion = UserCompletion(self._released)
        self._user_completions.add(completion)
        return completion

    @long
    def build(self, source: str | bytes, options: Sequence[str] = ()) -> SessionProgram:
        """Build for all workers; `source` is an intermediate language where it is bytes.

        BuildError with the compiler's log where the source is wrong.
        """
        program = SessionProgram(source, options, self.workers)
        program.build(self._build_on_workers)
        if self.checker is not None:
            self.checker.built(program)
        return program

    def _build_on_workers(self, program: BackendProgram) -> list[Any]:
        return list(self.executor.build(program))

    # submission -----------------------------------------------------------------------------------

    def submit(self, command: Command, after: Sequence[Completion] = (), *, queue: QueueOrder) -> Completion:
        """Enqueue `command`.

        It starts when those in `after` are complete and what its queue demands is met. Waits for no device.
        Raises NoRoom where the workers' memory cannot hold what the command needs.
        """
        completion = Completion(queue.profiled)
        with self._lock:
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
                self.executor.standing = object()  # what comes behind it in its queue has to wait, too
            else:
                try:
                    self.start(command, completion, after, order, queue)
                except BaseException:
                    _never_submitted(completion)
                    raise
        self.executor.throttle()
        return completion

    @waits
    def read_at_once(self, command: Read, queue: QueueOrder) -> int | None:
        """Read and return when it is done, without a wait list: its status. None where it has to be submitted."""
        return self.moves.read_at_once(command, queue)

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
        """A user event was set: start what waited for nothing else, and what waited for that."""
        with self._lock:
            free = self.deferrals.release(completion)
            failure: BaseException | None = None
            while free:
                deferred = free.pop(0)
                try:
                    with suppress(NoRoom):  # its event says so
                        deferred.start()
                except BaseException as error:  # the others must not wait for ever
                    _never_submitted(deferred.completion)
                    failure = failure or error
                free.extend(self.deferrals.release(deferred.completion))
            if failure is not None:
                raise failure

    def flush(self, queue: QueueOrder) -> None:
        """Commands start by themselves; there is nothing to push (clFlush)."""

    @waits
    def finish(self, queue: QueueOrder) -> None:
        """Return when every command of `queue` has ended (clFinish)."""
        with self._lock:
            waiting = queue.unsettled()
        for completion in reversed(waiting):
            completion.wait()

    def close(self) -> None:
        """End the workers' threads."""
        self.executor.close()

    def _ended(self) -> None:
        """At the interpreter's exit: threads that are held may have the lock for good."""
        self._lock = threading.RLock()

    def lose(self) -> None:
        """In a forked child: the session is the parent's. From now on it is a `LostSession`."""
        forking.keep_for_ever(dict(vars(self)))
        forking.renew(self._lock)
        self.deferrals.lose()
        for completion in self._user_completions:
            completion.abandon(OUT_OF_RESOURCES)
        self.executor.lose()
        vars(self).clear()
        self.__class__ = LostSession  # type: ignore[assignment]

    @contextmanager
    def observing(self, until: int = 0) -> Iterator[Ledger]:
        """What was counted so far; nothing is planned meanwhile. Commands up to number `until` have ended."""
        with self._lock:
            if self.recorder is not None:
                self.recorder.take(until)
            yield self.ledger

    # commands ---------------------------------------------------------------------------------------

    def next_number(self) -> int:
        """Of the next command that uses buffers."""
        self._number += 1
        return self._number

    def observe(self, command: Command, plan: Plan) -> None:
        """Tell who wants to know of every command."""
        for observer in self.observers:
            observer(command, plan)

    def shape(self, tally: KernelTally, plan: Plan) -> Shape | None:
        """For the recorder, where there is one."""
        return None if self.recorder is None else Shape(tally.name, tally.times, plan)

    def planned(self, tally: KernelTally | CommandTally, what: str, started: int) -> None:
        """Count the time since `started` as planning."""
        ended = time.perf_counter_ns()
        tally.planning_ns += ended - started
        if self.recorder is not None:
            self.recorder.planned(what, started, ended)

    def _aside(self, kind: str, plan: Plan, number: int) -> None:
        """Count a plan that no command asked for."""
        tally = self.ledger.count(kind, plan)
        if self.recorder is not None:
            self.recorder.submitted_aside(number, Shape(kind, tally.times, plan))

    # failures ---------------------------------------------------------------------------------------

    def _repair(self) -> None:
        """Take out of the directory what a failed command was to bring about."""
        for holdings, damage in self.executor.repair():
            buffer = buffer_of(holdings)
            if buffer is not None:
                buffer.state = repaired(buffer.state, holdings, damage)
        self.room.learn()


def _never_submitted(completion: Completion) -> None:
    """Whatever kept a command from being handed over (no memory, a stack that is full): nobody shall wait for it."""
    if completion.progress is None and not completion.settled:
        completion.reason = "it was never handed over"
        completion.settle(OUT_OF_RESOURCES)


class LostSession:
    """What a session is in a forked child of the process that has opened it. Whatever is asked of it fails."""

    #: makes the error that everything raises
    failure: ClassVar[Callable[[], Exception]] = lambda: RuntimeError("the session is another process's")

    def __getattr__(self, name: str) -> NoReturn:
        raise type(self).failure()


class _Start:
    """A deferred command's start: what `Session.start` needs, kept until then."""

    __slots__ = ("_arguments", "_session")

    def __init__(self, session: Session, *arguments: Any) -> None:
        self._session = session
        self._arguments = arguments

    def __call__(self) -> None:
        self._session.start(*self._arguments)


def _links_between(workers: Sequence[WorkerInfo]) -> LinkCosts:
    return LinkCosts.between(
        [(info.backend, info.peer_cost) for info in workers],
        host=_HOST_COST,
        per_run=_RUN_COST,
        direct=[number for number, info in enumerate(workers) if not info.is_cpu],
        merging=[number for number, info in enumerate(workers) if info.merges],
        gaps_nbytes=min(info.room_nbytes or info.memory_nbytes for info in workers) // _GAPS_SHARE,
    )


def _own_units(workers: Sequence[WorkerInfo]) -> int:
    """The compute units of the smallest worker, where each has its own: CPU workers may share theirs."""
    if any(info.is_cpu for info in workers):
        return 0
    return min(info.compute_units for info in workers)


#: all that are alive
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
    """In a forked child: its parent's sessions are of no use to it."""
    for session in list(_sessions):
        session.lose()
    _sessions.clear()


forking.before_fork(_hold)
forking.in_child(_lose)
