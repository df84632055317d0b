"""The recorder: when each command was planned and submitted, and what it asks of which worker.

It exists only if times are wanted. It costs a launch one tuple; everything else is worked out later, from numbers
(`vdev.observe.timeline`). It keeps no plan, buffer or program alive.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import get_ident
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from vdev.observe.figures import Times
from vdev.planner.instructions import (
    HOST,
    Combine,
    CopyBetween,
    Fold,
    Instruction,
    Launch,
    Merge,
    Plan,
    Reserve,
    Restore,
    moved_bytes,
)

if TYPE_CHECKING:
    from vdev.executor.records import WorkRecords
    from vdev.observe.exchanges import Exchanges
    from vdev.observe.history_data import Remembering

#: after so many commands, whatever is complete is worked out and dropped
_MOST_KEPT = 1 << 14


class StepShape:
    """What one step of a plan does: `kind` is 'kernel', 'transfer', 'device', 'merge' or 'host', as in
    `Times`; transfers have a route and bytes.
    """

    __slots__ = ("kind", "name", "nbytes", "source", "target", "templates", "worker")

    def __init__(
        self, worker: int, kind: str, name: str, nbytes: int, source: int = HOST, target: int = HOST
    ) -> None:
        self.worker, self.kind, self.name, self.nbytes = worker, kind, name, nbytes
        self.source, self.target = source, target
        self.templates = [-1, -1]  #: the trace's numbers for it: with times of its own, and with shared ones


class Shape:
    """A plan without its regions: what it makes each worker do, in order, and where its times are counted."""

    __slots__ = ("name", "plain", "steps", "template", "times")

    def __init__(self, name: str, times: Times, plan: Plan | None) -> None:
        self.name, self.times = name, times
        self.steps: dict[int, list[StepShape]] = {}  #: by worker
        #: what the trace used last: thread, queue's track, and the templates for both
        self.template = (0, 0, -1, -1)
        for item in () if plan is None else plan.instructions:
            self.steps.setdefault(item.worker, []).append(_step_shape(item, name))
        #: its workers, if it is one launch on each of them and nothing else
        self.plain: tuple[int, ...] = ()
        if all(len(steps) == 1 and steps[0].kind == "kernel" for steps in self.steps.values()):
            self.plain = tuple(self.steps)


#: (number, started, submitted, queue, thread, shape): the session took the command up, and had submitted it
CommandRecord = tuple[int, int, int, int, int, Shape]


def _step_shape(item: Instruction, name: str) -> StepShape:
    if isinstance(item, Launch):
        return StepShape(item.worker, "kernel", name, 0)
    if isinstance(item, (Merge, Combine, Fold)):
        return StepShape(item.worker, "merge", f"merge {item.op}", item.region.nbytes)
    if isinstance(item, Restore):
        return StepShape(item.worker, "merge", "merged bytes into place", item.region.nbytes)
    for source, target, nbytes in moved_bytes((item,)):
        return StepShape(item.worker, "transfer", route_name(source, target), nbytes, source, target)
    where = "host" if item.worker == HOST else "device"
    if isinstance(item, CopyBetween):
        slices, rows, nbytes = item.shape
        return StepShape(item.worker, where, "copy", slices * rows * nbytes)
    if isinstance(item, Reserve):
        return StepShape(item.worker, where, "make room", item.stop - item.start)
    return StepShape(item.worker, where, type(item).__name__.lower(), item.region.nbytes)


def route_name(source: int, target: int) -> str:
    """
    >>> route_name(HOST, 0), route_name(1, 0)
    ('host to worker 0', 'worker 1 to worker 0')
    """
    ends = ("host" if holder == HOST else f"worker {holder}" for holder in (source, target))
    return " to ".join(ends)


class Recorder:
    """What a session tells of its commands, under its lock."""

    def __init__(self, records: WorkRecords, drain: Callable[[Recorder, int], None]) -> None:
        """`drain` takes out what has been recorded so far, with `until` as in `take`."""
        self.records = records
        #: in the order of planning
        self.commands: deque[CommandRecord] = deque()
        #: (start, end, thread, name): analyses and plans made
        self.plannings: deque[tuple[int, int, int, str]] = deque()
        #: whether a queue is in order, by number
        self.queues: dict[int, bool] = {}
        self.queue = 0  #: the queue of the current command
        self.started = 0  #: when the session took it up
        #: what else a report shows; None if none is wanted
        self.exchanges: Exchanges | None = None
        self.history: Remembering | None = None
        self._drain = drain
        self._shapes: dict[str, Shape] = {}

    def enter(self, queue: Any) -> tuple[int, int]:
        """The session takes up a command of `queue`. The result has to be passed to `leave`."""
        outer = self.queue, self.started
        number = queue.number
        if not number:
            number = queue.number = len(self.queues) + 1
            self.queues[number] = queue.in_order
        self.queue, self.started = number, perf_counter_ns()
        return outer

    def leave(self, outer: tuple[int, int]) -> None:
        """The command has been submitted, or never will be. A finaliser may have submitted it inside another one."""
        self.queue, self.started = outer

    def submitted(self, number: int, shape: Shape) -> None:
        """The current command has been given its number."""
        self.commands.append((number, self.started, perf_counter_ns(), self.queue, get_ident(), shape))
        if len(self.commands) > _MOST_KEPT:
            self._drain(self, 0)

    def submitted_aside(self, number: int, shape: Shape) -> None:
        """Before the current command something else was submitted: an eviction, a check."""
        now = perf_counter_ns()
        self.commands.append((number, now, now, self.queue, get_ident(), shape))

    def planned(self, name: str, started: int, ended: int) -> None:
        self.plannings.append((started, ended, get_ident(), name))

    def empty_shape(self, name: str) -> Shape:
        """For commands that give no worker anything to do."""
        found = self._shapes.get(name)
        if found is None:
            found = self._shapes[name] = Shape(name, Times(), None)
        return found

    def take(self, until: int = 0) -> None:
        """Work out what is complete by now; all commands up to number `until` are known to be."""
        self._drain(self, until)
