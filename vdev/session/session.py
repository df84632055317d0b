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
from dataclasses import replace
from typing import Any, ClassVar, NoReturn, Protocol
from weakref import WeakSet

from vdev.backends.base import (
    MEM_OBJECT_ALLOCATION_FAILURE,
    OUT_OF_RESOURCES,
    Backend,
    BackendProgram,
    Bytes,
    WorkerInfo,
)
from vdev.executor import Completion, Executor, repaired
from vdev.observe.recorder import Recorder, Shape
from vdev.observe.tallies import CommandTally, KernelTally, Ledger
from vdev.planner.instructions import Plan
from vdev.planner.launches import USUAL_MIN_ITEMS, LaunchOptions
from vdev.planner.links import LinkCosts
from vdev.process import forking
from vdev.process.interrupts import long, waits
from vdev.session.buffers import VirtualBuffer, buffer_of
from vdev.session.commands import Argument, Command, Launch, Marker, Write, same_arguments
from vdev.session.direct import DirectLaunches
from vdev.session.gathering import Choosing, can_choose
from vdev.session.launching import CachedPlan, LaunchCache, NoTurns, ReadyPlan, TransferPlans, make_plan
from vdev.session.ordering import (
    DEPENDENCY_FAILED,
    Deferrals,
    Deferred,
    QueueOrder,
    UserCompletion,
    first_failure,
)
from vdev.session.programs import BuildError, SessionKernel, SessionProgram
from vdev.session.repetition import open_repetition
from vdev.session.room import NoRoom, RoomMaker
from vdev.session.transfers import TRANSFERS, Transfer, transfer_of
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
#: what gives the plan of a launch as the directory stands, and its buffers by slot
Finder = Callable[[LaunchCache, Launch], tuple[CachedPlan, list[VirtualBuffer]]]


class Checker(Protocol):
    """Somebody who makes launches again to compare (`vdev.check`). Under the session's lock."""

    @property
    def failure(self) -> Exception | None:
        """What is wrong; no further command is taken then."""

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
        self.links = LinkCosts.between(
            [(info.backend, info.peer_cost) for info in self.workers],
            host=_HOST_COST,
            per_run=_RUN_COST,
            direct=[number for number, info in enumerate(self.workers) if not info.is_cpu],
            merging=[number for number, info in enumerate(self.workers) if info.merges],
            gaps_nbytes=min(info.room_nbytes or info.memory_nbytes for info in self.workers) // _GAPS_SHARE,
        )
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
            shared = len({info.device_key for info in self.workers}) < len(self.workers)
            self.choosing = Choosing(
                self.room.occupancy,
                self.launch_options,
                forced=exchanges and bool(gather),
                exchanges=exchanges,
                thrifty=not plan_always,
                shared=shared,
            )
        self._thought_ns = 0  #: to plan the launch that is being submitted
        self._transfers = TransferPlans()
        self._number = 0  #: of the last command that used buffers
        self._latest: CachedPlan | None = None  #: of the last launch
        self._latest_args: Sequence[Argument] = ()
        #: called with every command and its plan, under the session's lock, in the order of planning
        self.observers: list[Observer] = []
        self._ledger = Ledger()
        self.direct = DirectLaunches(
            self.executor,
            self.room.occupancy,
            self.links,
            self.observers,
            self._planned,
            lambda buffers: None if self.choosing is None else self.choosing.keeper_without_plans(buffers),
            self._shape,
        )
        self.executor.aside, self.executor.ended = self._aside, self._ended
        #: told of every command, if anybody wants to know where the time goes
        self.recorder: Recorder | None = None
        self.executor.red_zones = check is not None
        self.checker = None if check is None else check(self.executor, self.links)
        # Reentrant: what a command kept alive may go inside, and a mapping's finaliser submits.
        self._lock = threading.RLock()
        self._deferrals = Deferrals()
        self._user_completions: WeakSet[UserCompletion] = WeakSet()
        _sessions.add(self)
        self._planners: dict[
            type, Callable[[Any, Completion, Sequence[Completion], Completion | None], None]
        ] = {
            Launch: self._launch,
            Marker: self._marker,
            **dict.fromkeys(TRANSFERS, self._transfer),
        }

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
            if after or self._deferrals:
                missing = self._deferrals.blockers(after if order is None else (*after, order))
            if missing:
                start = _Start(self, command, completion, after, order, queue)
                self._deferrals.hold(Deferred(completion, after, missing, start))
            else:
                try:
                    self._start(command, completion, after, order, queue)
                except BaseException:
                    _never_submitted(completion)
                    raise
        self.executor.throttle()
        return completion

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

    def _start(
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
            self._planners[type(command)](command, completion, after, order)
            return
        outer = recorder.enter(queue)
        try:
            self._planners[type(command)](command, completion, after, order)
        finally:
            recorder.leave(outer)

    def _released(self, completion: Completion) -> None:
        """A user event was set: start what waited for nothing else, and what waited for that."""
        with self._lock:
            free = self._deferrals.release(completion)
            failure: BaseException | None = None
            while free:
                deferred = free.pop(0)
                try:
                    with suppress(NoRoom):  # its event says so
                        deferred.start()
                except BaseException as error:  # the others must not wait for ever
                    _never_submitted(deferred.completion)
                    failure = failure or error
                free.extend(self._deferrals.release(deferred.completion))
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
        self._deferrals.lose()
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
            yield self._ledger

    # commands ---------------------------------------------------------------------------------------

    def _observe(self, command: Command, plan: Plan) -> None:
        for observer in self.observers:
            observer(command, plan)

    def _launch(
        self, command: Launch, completion: Completion, after: Sequence[Completion], order: Completion | None
    ) -> None:
        kernel = command.kernel
        cache = kernel.plans
        if cache is None:
            cache = self._meet(kernel)
        if self.checker is not None and self.checker.failure is not None:
            completion.settle(DEPENDENCY_FAILED)
            raise self.checker.failure
        choosing = self.choosing
        cached, buffers, weighed = self._weighed(cache, command)
        find = self._finder()
        if cached.plan.growth and self.room.lacks(cached.plan):
            # The states of its buffers may be other ones then, and so its plan.
            if choosing is not None and choosing.give_up(buffers):
                cached, buffers = find(cache, command)
            fitting = self._with_room(find, cache, command, buffers)
            if fitting is None and find != self._with_plan:  # parts of its buffers may do
                fitting = self._with_room(self._with_plan, cache, command, buffers)
            if fitting is None:
                cached, weighed = self._plan_turns(command, completion, buffers), False
            else:
                cached, buffers = fitting
        case = self.checker.begin(command, buffers, cached.plan) if self.checker is not None else None
        self._number = number = self._number + 1
        for buffer in buffers:
            buffer.used = number
        if not cached.steady:
            for buffer, state in zip(buffers, cached.states, strict=True):
                buffer.state = state
        cached.outcome.launches += 1
        if cached.traffic is not None:
            cached.traffic.count()
        if self.observers:
            self._observe(command, cached.plan)
        job = self.executor.submit(
            choosing.sampled(cache.tally, cached) if weighed and choosing is not None else cached.prepared,
            [buffer.holdings for buffer in buffers],
            completion,
            args=command.args,
            ndrange=command.ndrange,
            places=command.places,
            after=after,
            order=order,
        )
        if self.recorder is not None and cached.shape is not None:
            self.recorder.submitted(job, cached.shape)
        if self.checker is not None:
            self.checker.end(command, buffers, case, completion)
        elif (
            cached is self._latest
            and not weighed
            and (cache.expects_repetition() or same_arguments(command.args, self._latest_args))
        ):
            command.repetition = open_repetition(
                self._lock, cached, command, completion, self.executor, self.recorder, self.observers
            )
            cache.repeated = None if command.repetition is None else command.repetition.used
        self._latest, self._latest_args = cached, command.args

    def _shape(self, tally: KernelTally, plan: Plan) -> Shape | None:
        """For the recorder, where there is one."""
        return None if self.recorder is None else Shape(tally.name, tally.times, plan)

    def _weighed(self, cache: LaunchCache, command: Launch) -> tuple[CachedPlan, list[VirtualBuffer], bool]:
        """The plan of a launch and its buffers, in the way that is chosen; whether it had to be."""
        choosing, self._thought_ns = self.choosing, 0
        cached, buffers = self._finder()(cache, command)
        if choosing is None:
            return cached, buffers, False
        if cached.direct:
            if choosing.reconsider(command, cache.tally, buffers):
                cached, buffers = self._finder()(cache, command)
            return cached, buffers, False
        stake, thought = cached.stake, self._thought_ns * 1e-9
        if stake is None or not choosing.counts(stake, thought):
            return cached, buffers, False
        if choosing.weigh(command, cache.tally, cached, buffers, thought):
            cached, buffers = self._finder()(cache, command)
        return cached, buffers, not cached.direct

    def _finder(self) -> Finder:
        if len(self.workers) == 1 or (self.choosing is not None and self.choosing.without_plans):
            return self._direct_or_planned
        return self._with_plan

    def _with_plan(self, cache: LaunchCache, command: Launch) -> tuple[CachedPlan, list[VirtualBuffer]]:
        return cache.find(command, self._plan_launch)

    def _direct_or_planned(
        self, cache: LaunchCache, command: Launch
    ) -> tuple[CachedPlan, list[VirtualBuffer]]:
        return self.direct.find(cache, command) or cache.find(command, self._plan_launch)

    @long
    def _meet(self, kernel: SessionKernel) -> LaunchCache:
        """The first launch of a kernel: analyse it."""
        started = time.perf_counter_ns()
        tally = self._ledger.kernel(kernel)
        cache = kernel.plans = LaunchCache(kernel, tally)
        self._planned(tally, f"analyse {kernel.name}", started)
        return cache

    def _planned(self, tally: KernelTally | CommandTally, what: str, started: int) -> None:
        """Count the time since `started` as planning."""
        ended = time.perf_counter_ns()
        tally.planning_ns += ended - started
        if self.recorder is not None:
            self.recorder.planned(what, started, ended)

    def _with_room(
        self, find: Finder, cache: LaunchCache, command: Launch, buffers: list[VirtualBuffer]
    ) -> tuple[CachedPlan, list[VirtualBuffer]] | None:
        """A plan as `find` gives it, and its buffers by slot, with room made for it; None where there is none."""
        if self.room.never_fits(find(cache, command)[0].plan):
            return None
        if self.room.fit(lambda _: find(cache, command)[0].plan, buffers) is None:
            return None
        return find(cache, command)

    def _plan_turns(
        self, command: Launch, completion: Completion, buffers: list[VirtualBuffer]
    ) -> CachedPlan:
        """The plan of a launch that does not fit whole, with room made for it. NoRoom where no part fits."""
        cached: CachedPlan | None = None
        with suppress(NoTurns):
            cached = self._plan_launch(command, buffers, self.room.occupancy.room)
        if cached is None or not self.room.fit_turns(cached.plan, buffers):
            self._fail_for_room(command, completion)
        return cached

    @long
    def _plan_launch(
        self, command: Launch, buffers: list[VirtualBuffer], room: Sequence[int] = ()
    ) -> CachedPlan:
        started, busy = time.perf_counter_ns(), time.thread_time_ns()
        cached = make_plan(command, buffers, self.launch_options, self.executor, room)
        # Fine-grain buffers are at home after each launch, on however many workers it runs.
        if self.choosing is not None and not any(buffer.state.fine for buffer in buffers):
            stake = self.choosing.stake(cached.plan, buffers, command.ndrange.nitems)
            cached = replace(cached, stake=stake)
        kernel = command.kernel
        if kernel.plans is not None:
            tally = kernel.plans.tally
            cached = replace(cached, shape=self._shape(tally, cached.plan))
            self._planned(tally, f"plan {kernel.name}", started)
            self._thought_ns += time.thread_time_ns() - busy  # not what others took of the processor
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug(
                "%s over %s: %s",
                command.kernel.name,
                command.ndrange,
                "; ".join(cached.plan.reasons) or "split",
            )
        return cached

    @staticmethod
    def _fail_for_room(command: Command, completion: Completion) -> NoReturn:
        """End `command` before anything of it has happened, as clEnqueue… does that returns a status."""
        completion.reason = f"{type(command).__name__}: no worker's memory suffices, whatever leaves it"
        logger.warning("%s", completion.reason)
        completion.settle(MEM_OBJECT_ALLOCATION_FAILURE)
        raise NoRoom(completion.reason)

    def _transfer(
        self, command: Command, completion: Completion, after: Sequence[Completion], order: Completion | None
    ) -> None:
        transfer = transfer_of(command)
        found = self._plan_transfer(command, completion, transfer)
        plan, buffers = found.plan, transfer.buffers
        self._number = number = self._number + 1
        for buffer, state in zip(buffers, plan.states, strict=True):
            buffer.state = state
            buffer.used = number
        kind = type(command).__name__.lower()
        tally = self._ledger.count(kind, plan)
        if self.observers:
            self._observe(command, plan)
        job = self.executor.submit(
            found.prepared,
            [buffer.holdings for buffer in buffers],
            completion,
            host=transfer.host,
            layout=transfer.layout,
            host_writes=transfer.host_writes,
            homes=transfer.homes,
            after=after,
            order=order,
        )
        if self.recorder is not None:
            if found.shape is None:
                found.shape = Shape(kind, tally.times, plan)
            self.recorder.submitted(job, found.shape)

    def _plan_transfer(self, command: Command, completion: Completion, transfer: Transfer) -> ReadyPlan:
        """The plan of a command that is no launch; with room made for it, where it takes any."""
        buffers, make = transfer.buffers, transfer.make
        if transfer.what is None:
            return self._ready(make(self.links))
        key = (type(command), transfer.what, *(buffer.state for buffer in buffers))
        found = self._transfers.find(key)
        if found is None:
            started, kind = time.perf_counter_ns(), type(command).__name__.lower()
            found = self._ready(make(self.links))
            self._transfers.remember(key, found)
            self._planned(self._ledger.command(kind), f"plan {kind}", started)
        if found.plan.growth and self.room.lacks(found.plan):
            plan = self.room.fit(make, buffers)
            if plan is None:
                self._fail_for_room(command, completion)
            found = self._ready(plan)
        return found

    def _ready(self, plan: Plan) -> ReadyPlan:
        return ReadyPlan(plan, self.executor.prepare(plan))

    def _aside(self, kind: str, plan: Plan, number: int) -> None:
        """Count a plan that no command asked for."""
        tally = self._ledger.count(kind, plan)
        if self.recorder is not None:
            self.recorder.submitted_aside(number, Shape(kind, tally.times, plan))

    def _marker(
        self, command: Marker, completion: Completion, after: Sequence[Completion], order: Completion | None
    ) -> None:
        job = self.executor.submit_empty(completion, after, order)
        if self.recorder is not None:
            self.recorder.submitted(job, self.recorder.empty_shape("marker"))

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
    """A deferred command's start: what `Session._start` needs, kept until then."""

    __slots__ = ("_arguments", "_session")

    def __init__(self, session: Session, *arguments: Any) -> None:
        self._session = session
        self._arguments = arguments

    def __call__(self) -> None:
        self._session._start(*self._arguments)


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
    locked = [session._lock for session in sessions if session._lock.acquire(timeout=_LOCKING)]
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
