"""What planning a command needs from its session: the workers and the links between them, the room in their memory, and the
observers that count and record what happens.

Decides what a session starts with. It takes no commands: those are the session's (`session`), which hands them to
`launches` and `moves`.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from vdev.backends.base import Backend, WorkerInfo
from vdev.executor.completion import Completion
from vdev.executor.executor import Executor
from vdev.executor.holdings import Holdings
from vdev.observe.recorder import Recorder, Shape
from vdev.observe.tallies import CommandTally, KernelTally, Ledger, Travels, travels_of
from vdev.planner.instructions import Plan
from vdev.planner.launch_request import USUAL_MIN_ITEMS, LaunchOptions
from vdev.planner.links import LinkCosts
from vdev.process.processor_time import watch_collections
from vdev.session import calibration
from vdev.session.buffers import VirtualBuffer
from vdev.session.choosing import Choosing, can_choose
from vdev.session.commands import Command, Launch
from vdev.session.folding import Folding
from vdev.session.kept_plans import KeptPlans
from vdev.session.ordering import Deferrals
from vdev.session.programs import SessionProgram
from vdev.session.room import RoomMaker
from vdev.session.spare_buffers import SpareBuffers

#: The unit of costs: a byte over a worker's link to the host. A peer's memory is nearer (`WorkerInfo.peer_cost`):
#: bytes that a worker wrote stay on workers.
_HOST_COST = 1.0
#: Each run of a strided copy costs as much as this many bytes (measured on a CPU engine: 100 to 400), so that copying
#: columns only pays if it saves bytes.
_RUN_COST = 256.0

#: Seconds after which a thread gives up the interpreter to one that wants it, if workers are fed over links.
_SWITCH_INTERVAL = 0.0001
#: A replica with gaps may take this fraction of a worker's memory.
_GAPS_SHARE = 16

Observer = Callable[[Command, Plan], None]


class Checker(Protocol):
    """Repeats launches in order to compare results (`vdev.check`). Under the session's lock."""

    @property
    def failure(self) -> Exception | None:
        """What is wrong; after that no further command is taken."""

    def built(self, program: SessionProgram) -> None:
        """A program has been built; on any thread, without the lock."""

    def begin(self, launch: Launch, buffers: list[VirtualBuffer], plan: Plan) -> Any:
        """A launch is about to be submitted; returns what `end` takes."""

    def end(self, launch: Launch, buffers: list[VirtualBuffer], case: Any, completion: Completion) -> None:
        """The launch has been submitted."""


class SessionCore:
    """The parts of one session that all its commands share. Everything except the workers changes under its lock."""

    def __init__(
        self,
        openers: Sequence[Callable[[], Backend]],
        *,
        min_items: int | None,
        check: Callable[[Executor, LinkCosts], Checker] | None,
        gather: bool | None,
        plan_always: bool,
        interiors: bool | None,
    ) -> None:
        """Arguments and exceptions: as for `Session`."""
        self.executor = Executor(openers)
        self.workers: tuple[WorkerInfo, ...] = self.executor.workers
        if any(not info.is_cpu for info in self.workers):
            # A thread that feeds a link needs the interpreter for microseconds at a time, and would otherwise wait 5
            # ms for it each time while the program's thread computes.
            sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH_INTERVAL))
        self.links = _links_between(self.workers)
        # A checker wants to see the launch's bytes after it, so nothing may be left pending.
        self.launch_options = self._options(min_items, pending=check is None and len(self.workers) > 1)
        self.folding = Folding(self)
        self.room = RoomMaker(self.executor, self.links, self.folding)
        #: where launches that exchange much may be better off on one worker
        self.choosing = self._choice(gather, plan_always=plan_always)
        if self.choosing is not None:
            self.launch_options = replace(
                self.launch_options, seconds_per_cost=self.choosing.seconds_per_cost
            )
        #: whether chunks begin before all of their bytes have come; None: where that gains. Nothing but compiled calls run beside others
        self.interiors = False if interiors is None and not self.executor.compiles else interiors
        self.number = 0  #: of the last command that used buffers
        #: called with every command and its plan, under the session's lock, in the order of planning
        self.observers: list[Observer] = []
        self.ledger = Ledger()
        self.kept_plans = KeptPlans()  #: by all kernels
        self.executor.unasked = self.unasked
        #: told of every command, if anybody wants to know where the time goes
        self.recorder: Recorder | None = None
        self.executor.red_zones = check is not None
        self.checker = None if check is None else check(self.executor, self.links)
        #: held while a command is planned and handed over. Reentrant: objects that a command kept alive may be
        #: dropped inside, and a mapping's finaliser submits.
        self.lock = threading.RLock()
        self.deferrals = Deferrals()  #: commands that wait for user events
        self.spares = SpareBuffers(self)
        self.executor.let_go = self.room.let_go = self.spares.drop

    def _options(self, min_items: int | None, *, pending: bool) -> LaunchOptions:
        """How launches are planned, as far as that is the same for all. `min_items`: as for `Session`."""
        return LaunchOptions(
            tuple(range(len(self.workers))),
            self.links,
            USUAL_MIN_ITEMS if min_items is None else min_items,
            compute_units=_own_units(self.workers) if min_items is None else 0,
            pending=pending,
        )

    def _choice(self, gather: bool | None, *, plan_always: bool) -> Choosing | None:
        """Chooses between all workers and one; None if there is nothing to choose, or the switches forbid it."""
        exchanges = len(self.links.direct) == len(self.workers) and (
            bool(gather) or (gather is None and can_choose(self.workers))
        )
        if len(self.workers) < 2 or (plan_always and not exchanges):
            return None
        return self._open_choice(exchanges, forced=bool(gather), thrifty=not plan_always)

    def _open_choice(self, exchanges: bool, *, forced: bool, thrifty: bool) -> Choosing:
        """The choice between all workers and one. `exchanges`: also for what exchanging costs."""
        watch_collections()
        return Choosing(
            self.room.occupancy,
            self.launch_options,
            forced=exchanges and forced,
            exchanges=exchanges,
            thrifty=thrifty,
            shared=len({info.device_key for info in self.workers}) < len(self.workers),
            machine=calibration.kept(self.workers),
            name=calibration.machine_key(self.workers),
        )

    # commands ---------------------------------------------------------------------------------------

    def next_number(self) -> int:
        """The number of the next command that uses buffers."""
        self.number += 1
        return self.number

    def observe(self, command: Command, plan: Plan) -> None:
        """Tell those who want to know of every command."""
        for observer in self.observers:
            observer(command, plan)

    def shape(self, tally: KernelTally, plan: Plan) -> Shape | None:
        """For the recorder, if there is one."""
        return None if self.recorder is None else Shape(tally.name, tally.times, plan)

    def planned(self, tally: KernelTally | CommandTally, what: str, started: int) -> None:
        """Count the time since `started` as planning."""
        ended = time.perf_counter_ns()
        tally.planning_ns += ended - started
        if self.recorder is not None:
            self.recorder.planned(what, started, ended)

    def unasked(
        self,
        kind: str,
        plan: Plan,
        number: int,
        holdings: Sequence[Holdings],
        travels: Travels | None = None,
    ) -> None:
        """Count a plan that no command asked for. `travels`: what it moves, where that is known."""
        tally = self.ledger.add(kind, travels or travels_of(plan))
        if self.recorder is not None:
            shape = Shape(kind, tally.times, plan)
            self.recorder.submitted_unasked(number, shape)
            if self.recorder.exchanges is not None:
                self.recorder.exchanges.note(shape, holdings, writes=False)


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
    """The compute units of the smallest worker, if each has its own: CPU workers may share theirs."""
    if any(info.is_cpu for info in workers):
        return 0
    return min(info.compute_units for info in workers)
