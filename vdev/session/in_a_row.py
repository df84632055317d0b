"""Launches that are made again without a look at them: in a row, or without Python.

Decides nothing about which: `vdev.session.immediate` does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from time import perf_counter_ns
from typing import TYPE_CHECKING, Protocol

from vdev.executor.stretch import Timed
from vdev.observe.tallies import UNWEIGHED
from vdev.session.immediate_moves import may_follow, timed_in
from vdev.session.ordering import all_complete
from vdev.session.telling import names_of

if TYPE_CHECKING:
    from vdev.backends.base import DriverLaunch
    from vdev.executor.completion import Completion
    from vdev.executor.holdings import Holdings
    from vdev.executor.line import Line, Streak
    from vdev.executor.prepare import PreparedPlan
    from vdev.executor.stretch import Entry, Part
    from vdev.observe.tallies import Ledger
    from vdev.planner.directory import BufferState
    from vdev.session.buffers import VirtualBuffer
    from vdev.session.commands import Argument, BufferArg
    from vdev.session.core import SessionCore
    from vdev.session.launch_plans import CachedPlan, LaunchCache
    from vdev.session.ordering import QueueOrder
    from vdev.translators.ranges.ndrange import NDRange

_holdings_of: Callable[[VirtualBuffer], Holdings] = attrgetter("holdings")
_state_of: Callable[[VirtualBuffer], BufferState] = attrgetter("state")


class Maker(Protocol):
    """The session's immediate commands, as such launches see them (`vdev.session.immediate.AtOnce`)."""

    until_looked_at: int  #: what launches may weigh until one is looked at
    streak_length: int  #: launches in a row on one worker
    is_alone: bool  #: whether there is no other worker

    submits: LaunchCache | None  #: of the kernel whose next launch is submitted

    def looked_at(
        self,
        hand_over: Callable[[], Part | None],
        cache: LaunchCache,
        ndrange: NDRange,
        buffers: Sequence[VirtualBuffer],
        worker: int,
    ) -> Part | None:
        """Hand over a launch over `ndrange` on these buffers whose turn to be looked at has come."""

    def made(self, runs: Sequence[tuple[Made, int]], handles: Sequence[int]) -> Part | None:
        """Commands were made without Python."""

    def ended(
        self, launches: Sequence[tuple[ReadyLaunch, int]], moves: Sequence[tuple[str, int, int]]
    ) -> None:
        """Commands that were made without Python have ended well, and nobody asks for any of them."""

    @property
    def may_go_on(self) -> bool:
        """Whether more of them may be made."""


class Made(Protocol):
    """A command that was made without Python, as the session sees it."""

    entry: Entry
    buffers: Sequence[VirtualBuffer]

    @property
    def queue(self) -> QueueOrder | None:
        """None for what is in no queue: the first content of a buffer."""

    def count(self, times: int, ledger: Ledger) -> None:
        """It was made so often."""


class ReadyLaunch:
    """A launch that is made again without Python, on the only worker: how (`driver`), and what is counted then."""

    __slots__ = ("buffers", "cached", "driver", "entry", "maker", "own", "queue")

    def __init__(
        self,
        maker: Maker,
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

    @property
    def pointers(self) -> tuple[int, ...]:
        """The arguments that point into buffers, if each points to the beginning of one."""
        _, _, _, _, places, _ = self.entry
        return tuple([index for index, _, offset in places if not offset])

    def on(self, pointed: Sequence[BufferArg]) -> ReadyLaunch:
        """The same launch where its pointers, in order, point to the beginnings of these buffers, which they share as its own."""
        prepared, _, args, ndrange, places, after = self.entry
        buffers = [*dict.fromkeys([each.buffer for each in pointed])]
        now = [*args]
        for (index, _, _), each in zip(places, pointed, strict=True):
            now[index] = each
        entry: Entry = (prepared, [*map(_holdings_of, buffers)], now, ndrange, places, after)
        return ReadyLaunch(self.maker, self.cached, buffers, entry, self.queue, self.own, self.driver)

    def count(self, times: int, ledger: Ledger) -> None:
        self.cached.outcome.launches += times


class ReadyMove:
    """A transfer of bytes of the only worker's that was made without Python, or a marker: it leaves every buffer where it is."""

    __slots__ = ("_name", "_nbytes", "buffers", "entry", "queue")

    def __init__(
        self,
        name: str,
        prepared: PreparedPlan,
        buffers: Sequence[VirtualBuffer],
        nbytes: int,
        queue: QueueOrder | None,
    ) -> None:
        """`name`: under which it is counted. `prepared`: what it does to `buffers`. `queue`: None for the first content of a buffer."""
        self.entry: Entry = (prepared, [buffer.holdings for buffer in buffers], (), None, (), ())
        self.buffers = buffers
        self.queue = queue
        self._name, self._nbytes = name, nbytes

    def count(self, times: int, ledger: Ledger) -> None:
        count_moves(self._name, times, times * self._nbytes, ledger)


def count_moves(name: str, times: int, nbytes: int, ledger: Ledger) -> None:
    """Count transfers, markers, or first contents of buffers, of one kind that were made without Python, of so many bytes together."""
    if name in ("marker", "content"):
        return
    tally = ledger.command(name)
    tally.count += times
    if name == "read":
        tally.moved.worker_to_host += nbytes
    elif name == "write":
        tally.moved.host_to_worker += nbytes


class InARow:
    """Launches in a row in one queue, with the same arguments but for values, over whatever index space: each is handed over
    without a look at the others (`Streak`). A `Repeater`.
    """

    takes_values = True
    __slots__ = (
        "_at_once", "_cache", "_cached", "_line", "_names", "_passes", "_queue", "_session", "_standing", "_streak", "_weight",
        "used",
    )  # fmt: skip

    def __init__(
        self,
        session: SessionCore,
        at_once: Maker,
        line: Line,
        streak: Streak,
        standing: object,
        cached: CachedPlan,
        queue: QueueOrder,
        cache: LaunchCache,
        *,
        looks: bool,
    ) -> None:
        """`standing`: the executor's, when the first was made. `cache`: their kernel's. `looks`: whether one is looked at now and then."""
        self._session, self._at_once = session, at_once
        self._line, self._streak, self._standing = line, streak, standing
        self._cached = cached  #: their plan
        self._queue = queue
        self._cache = cache
        self._names: tuple[str, ...] | None = None  #: of its arguments, by slot
        self._weight = cache.weight if looks else 0
        self._passes = (cache.tally.passed if looks else UNWEIGHED).append
        self.used = [False]

    def again(
        self,
        queue: QueueOrder,
        ndrange: NDRange,
        args: Sequence[Argument],
        after: Sequence[Completion] = (),
    ) -> Completion | None:
        if queue is not self._queue:
            return None
        at_once, line, session, streak = self._at_once, self._line, self._session, self._streak
        session.lock.acquire()  # `with` takes twice as long, and nothing is raised in between (`vdev.process.interrupts`)
        try:
            if after and not may_follow(after, queue, line.worker.number, alone=at_once.is_alone):
                if not all_complete(after):
                    return None
                after = ()
            recorder = session.recorder
            started = 0 if recorder is None else perf_counter_ns()
            left = at_once.until_looked_at - self._weight
            if session.observers:
                return None
            at_once.until_looked_at = left
            again = partial(line.again_timed, timed=timed_in(queue)) if queue.profiled else line.again
            part = (
                again(streak, self._standing, ndrange, args, after)
                if left >= 0
                else self._looked_at(again, ndrange, args, after)
            )
            if part is None:
                return None
            at_once.streak_length += 1
            if recorder is not None and self._cached.shape is not None:
                recorder.handed_over(part.number, started, queue, self._cached.shape)
            if streak.is_renewed:
                self._renew(args)
            self.used[0] = True
            self._cached.outcome.launches += 1
            self._passes(ndrange)
            completion = part.stretch.completion
            if queue.last is not completion:
                queue.remember(completion)
        finally:
            session.lock.release()
        if line.worker.marked != line.looked_at:
            line.throttle()
        return completion if type(completion) is Timed else part

    def _renew(self, args: Sequence[Argument]) -> None:
        """Others may have used the buffers since the last launch but this one."""
        streak, number = self._streak, self._session.next_number()
        streak.is_renewed = False
        buffers = streak.buffers(args)
        for buffer in buffers:
            buffer.used = number
        recorder, shape = self._session.recorder, self._cached.shape
        if recorder is not None and recorder.exchanges is not None and shape is not None:
            if self._names is None:
                self._names = names_of(self._cache, args, buffers)
            holdings, states = [*map(_holdings_of, buffers)], (*map(_state_of, buffers),)
            recorder.exchanges.stayed(shape, holdings, self._names, states)

    def _looked_at(
        self,
        again: Callable[..., Part | None],
        ndrange: NDRange,
        args: Sequence[Argument],
        after: Sequence[Completion],
    ) -> Part | None:
        """Hand over, by `again`, a launch over `ndrange` with these `args`, whose turn to be looked at has come; None where it has to be
        submitted.
        """
        cache, worker, streak = self._cache, self._line.worker.number, self._streak
        if self._at_once.submits is cache:
            return None
        part = self._at_once.looked_at(
            partial(again, streak, self._standing, ndrange, args, after),
            cache,
            ndrange,
            streak.buffers(args),
            worker,
        )
        self._weight = cache.weight
        return part
