"""The recorder: when each command was planned and submitted, and what it asks of which worker.

It exists only if times are wanted, and changes no command's way. It costs a launch one tuple; everything else is worked out
later, from numbers (`vdev.observe.timeline`). It keeps no plan, buffer or program alive.
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
    Fill,
    Fold,
    Instruction,
    Launch,
    Merge,
    Plan,
    Reserve,
    Restore,
    Upload,
    moved_bytes,
    moves_of,
)

if TYPE_CHECKING:
    from vdev.executor.records import WorkRecords
    from vdev.observe.exchanges import Exchanges
    from vdev.observe.history_data import Remembering

#: after so many commands, whatever is complete is worked out and dropped
_MOST_KEPT = 1 << 14
#: of a plan: for how many lengths of transfers like it there are shapes
_MOST_OTHERS = 256
#: instructions that give bytes new values
_WRITERS = (Launch, Merge, Combine, Restore, Fold, Fill, CopyBetween, Upload)


class StepShape:
    """What one step of a plan does: `kind` is 'kernel', 'transfer', 'device', 'merge' or 'host', as in
    `Times`; transfers have a route and bytes.
    """

    __slots__ = ("kind", "least_ns", "name", "nbytes", "source", "target", "templates", "worker")

    def __init__(
        self, worker: int, kind: str, name: str, nbytes: int, source: int = HOST, target: int = HOST
    ) -> None:
        self.worker, self.kind, self.name, self.nbytes = worker, kind, name, nbytes
        self.source, self.target = source, target
        self.least_ns = 0  #: what it took where its time was its own; 0 where that is not known
        self.templates = [-1, -1]  #: the trace's numbers for it: with times of its own, and with shared ones

    def of(self, nbytes: int) -> StepShape:
        """The same for other bytes."""
        return StepShape(self.worker, self.kind, self.name, nbytes, self.source, self.target)

    def took(self, nanoseconds: int) -> None:
        """It was performed once, in a time of its own."""
        self.least_ns = min(self.least_ns or nanoseconds, nanoseconds)


class Shape:
    """A plan without its regions: what it makes each worker do, in order, and where its times are counted."""

    __slots__ = (
        "_others",
        "at_once",
        "moves",
        "name",
        "names",
        "plain",
        "steps",
        "template",
        "times",
        "writes",
    )

    def __init__(self, name: str, times: Times, plan: Plan | None) -> None:
        self.name, self.times = name, times
        #: whether the thread that submitted it has performed it meanwhile: then it has no number of its own, but that of the command before
        self.at_once = False
        #: what it moves, added up: (slot of the buffer, -1 where it belongs to none; source, target, bytes)
        self.moves: tuple[tuple[int, int, int, int], ...] = ()
        #: slots of the buffers of which it changes any byte: not of those that it only moves
        self.writes: tuple[int, ...] = ()
        self._others: dict[int, Shape] = {}  #: by bytes
        self.names: tuple[str, ...] | None = None  #: of a launch's arguments, by slot, once they are known
        if plan is not None:
            self.moves, self.writes = _moves_of_plan(plan), _writes_of_plan(plan)
        self.steps: dict[int, list[StepShape]] = {}  #: by worker
        #: what the trace used last: thread, queue's track, and the templates for both
        self.template = (0, 0, -1, -1)
        for item in () if plan is None else plan.instructions:
            self.steps.setdefault(item.worker, []).append(_step_shape(item, name))
        #: its workers, if it is one launch on each of them and nothing else
        self.plain: tuple[int, ...] = ()
        if all(len(steps) == 1 and steps[0].kind == "kernel" for steps in self.steps.values()):
            self.plain = tuple(self.steps)

    def of(self, nbytes: int) -> Shape:
        """The same for a plan of one step that moves, fills or copies so many bytes."""
        found = self._others.get(nbytes)
        if found is None:
            if len(self._others) >= _MOST_OTHERS:
                self._others.clear()
            found = self._others[nbytes] = Shape(self.name, self.times, None)
            for worker, steps in self.steps.items():
                found.steps[worker] = [step.of(nbytes) for step in steps]
            found.moves = tuple([(slot, source, target, nbytes) for slot, source, target, _ in self.moves])
            found.writes, found.at_once = self.writes, self.at_once
        return found

    def weight(self, worker: int) -> int:
        """What all it does on a worker takes, as far as that is known: 0 where it is not."""
        known = [step.least_ns for step in self.steps.get(worker, ())]
        return sum(known) if all(known) else 0


def _moves_of_plan(plan: Plan) -> tuple[tuple[int, int, int, int], ...]:
    found: dict[tuple[int, int, int], int] = {}
    for item in plan.instructions:
        for source, target, nbytes in moves_of(item):
            key = getattr(item, "slot", -1), source, target
            found[key] = found.get(key, 0) + nbytes
    return tuple([(*key, nbytes) for key, nbytes in found.items()])


def _writes_of_plan(plan: Plan) -> tuple[int, ...]:
    found: dict[int, None] = {}
    for item, touches in zip(plan.instructions, plan.touches, strict=True):
        if isinstance(item, _WRITERS):
            found |= {touch.slot: None for touch in touches if touch.writes}
    return tuple(found)


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
        self.queue, self.started = queue.number or self._number(queue), perf_counter_ns()
        return outer

    def _number(self, queue: Any) -> int:
        """Give a queue its number, at its first command."""
        number: int = len(self.queues) + 1
        queue.number = number
        self.queues[number] = queue.in_order
        return number

    def leave(self, outer: tuple[int, int]) -> None:
        """The command has been submitted, or never will be. A finaliser may have submitted it inside another one."""
        self.queue, self.started = outer

    def submitted(self, number: int, shape: Shape) -> None:
        """The current command has been given its number."""
        self.commands.append((number, self.started, perf_counter_ns(), self.queue, get_ident(), shape))
        if len(self.commands) > _MOST_KEPT:
            self._drain(self, 0)

    def handed_over(self, number: int, started: int, queue: Any, shape: Shape) -> None:
        """A command of `queue` that the session took up at `started` has been handed over, without a submission."""
        mine = queue.number or self._number(queue)
        self.commands.append((number, started, perf_counter_ns(), mine, get_ident(), shape))
        if len(self.commands) > _MOST_KEPT:
            self._drain(self, 0)

    def submitted_unasked(self, number: int, shape: Shape) -> None:
        """Before the current command something else was submitted: an eviction, a check."""
        now = perf_counter_ns()
        self.commands.append((number, now, now, self.queue, get_ident(), shape))

    def planned(self, name: str, started: int, ended: int) -> None:
        self.plannings.append((started, ended, get_ident(), name))

    def empty_shape(self, name: str, *, at_once: bool = False) -> Shape:
        """For commands that give no worker anything to do. `at_once`: and have no number of their own."""
        key = f"{name} at once" if at_once else name
        found = self._shapes.get(key)
        if found is None:
            found = self._shapes[key] = Shape(name, Times(), None)
            found.at_once = at_once
        return found

    def shape_at_home(self, name: str, times: Times, step: str) -> Shape:
        """For commands that the calling thread performs in the host's memory; `Shape.of` so many bytes."""
        key = f"{name} at home"
        found = self._shapes.get(key)
        if found is None:
            found = self._shapes[key] = Shape(name, times, None)
            found.steps[HOST], found.at_once = [StepShape(HOST, "host", step, 0)], True
        return found

    def take(self, until: int = 0) -> None:
        """Work out what is complete by now; all commands up to number `until` are known to be."""
        self._drain(self, until)
