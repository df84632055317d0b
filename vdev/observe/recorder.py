"""The recorder: when each command was planned and submitted, and what it asks of which worker.

Made only where somebody wants times. What it costs a launch is a tuple: everything else is worked out later
(`vdev.observe.timeline`), from numbers. Keeps no plan, buffer or program alive.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import get_ident
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from vdev.observe.statistics import Times
from vdev.planner.instructions import (
    HOST,
    Copy,
    CopyBetween,
    Download,
    Fetch,
    Fill,
    Instruction,
    Launch,
    Merge,
    Plan,
    Upload,
)

if TYPE_CHECKING:
    from vdev.executor.records import WorkRecords

#: commands after which what is complete is worked out and let go
_MOST_KEPT = 1 << 14


class StepShape:
    """What one step of a plan does: `kind` is 'kernel', 'transfer', 'device', 'merge' or 'host', as in
    `Times`; transfers have a route and bytes.
    """

    __slots__ = ("kind", "name", "nbytes", "source", "target")

    def __init__(self, kind: str, name: str, nbytes: int, source: int = HOST, target: int = HOST) -> None:
        self.kind, self.name, self.nbytes = kind, name, nbytes
        self.source, self.target = source, target


class Shape:
    """A plan without its regions: what it makes each worker do, in order, and where its times are counted."""

    __slots__ = ("name", "steps", "templates", "times")

    def __init__(self, name: str, times: Times, plan: Plan | None) -> None:
        self.name, self.times = name, times
        self.steps: dict[int, list[StepShape]] = {}
        self.templates: dict[Any, str] = {}  #: for whoever writes its slices
        for item in () if plan is None else plan.instructions:
            self.steps.setdefault(item.worker, []).append(_step_shape(item, name))


def _step_shape(item: Instruction, name: str) -> StepShape:
    if isinstance(item, Launch):
        return StepShape("kernel", name, 0)
    if isinstance(item, Merge):
        return StepShape("merge", f"merge {item.op}", item.region.nbytes)
    if isinstance(item, Copy):
        return _transfer(item.region.nbytes, item.source, item.target)
    where = "host" if item.worker == HOST else "device"
    if isinstance(item, CopyBetween):
        slices, rows, nbytes = item.shape
        return StepShape(where, "copy", slices * rows * nbytes)
    if isinstance(item, Fill):
        return StepShape(where, "fill", item.region.nbytes)
    if isinstance(item, (Fetch, Download, Upload)):
        if item.worker == HOST:
            return StepShape("host", "copy in host memory", item.region.nbytes)
        route = (HOST, item.worker) if isinstance(item, Upload) else (item.worker, HOST)
        return _transfer(item.region.nbytes, *route)
    return StepShape("device", "make room", item.stop - item.start)


def _transfer(nbytes: int, source: int, target: int) -> StepShape:
    return StepShape("transfer", route_name(source, target), nbytes, source, target)


def route_name(source: int, target: int) -> str:
    """
    >>> route_name(HOST, 0), route_name(1, 0)
    ('host to worker 0', 'worker 1 to worker 0')
    """
    ends = ("host" if holder == HOST else f"worker {holder}" for holder in (source, target))
    return " to ".join(ends)


class Recorder:
    """What a session tells of its commands, under its lock."""

    def __init__(self, records: WorkRecords, drain: Callable[[Recorder], None]) -> None:
        """`drain` takes out what has been recorded so far."""
        self.records = records
        #: (number, started, submitted, queue, thread, shape) in the order of planning
        self.commands: deque[tuple[int, int, int, int, int, Shape]] = deque()
        #: (start, end, thread, name): analyses and plans made
        self.plannings: deque[tuple[int, int, int, str]] = deque()
        #: whether a queue is in order, by number
        self.queues: dict[int, bool] = {}
        self.queue = 0  #: the queue of the command in hand
        self.started = 0  #: when the session took it up
        self._drain = drain
        self._shapes: dict[str, Shape] = {}

    def enter(self, queue: Any) -> tuple[int, int]:
        """The session takes up a command of `queue`. What is returned has to be given to `leave`."""
        outer = self.queue, self.started
        number = queue.number
        if not number:
            number = queue.number = len(self.queues) + 1
            self.queues[number] = queue.in_order
        self.queue, self.started = number, perf_counter_ns()
        return outer

    def leave(self, outer: tuple[int, int]) -> None:
        """The command has been submitted, or never will be; a finaliser may have submitted it inside
        another.
        """
        self.queue, self.started = outer

    def submitted(self, number: int, shape: Shape) -> None:
        """The command in hand has been given its number."""
        self.commands.append((number, self.started, perf_counter_ns(), self.queue, get_ident(), shape))
        if len(self.commands) > _MOST_KEPT:
            self._drain(self)

    def planned(self, name: str, started: int, ended: int) -> None:
        self.plannings.append((started, ended, get_ident(), name))

    def empty_shape(self, name: str) -> Shape:
        """Of commands that make nobody do anything."""
        found = self._shapes.get(name)
        if found is None:
            found = self._shapes[name] = Shape(name, Times(), None)
        return found

    def take(self) -> None:
        """Work out what is complete by now."""
        self._drain(self)
