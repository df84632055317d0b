"""The timeline: from records to slices of time, each of a command's step on a worker.

Decides what a step's time is. Where a worker's markers tell the times of each operation, it is from the
start of its first to the end of its last on the device. Of many short operations between two markers only
the whole time is known: it is shared evenly among them, and the slice says so. The host's steps are timed as
they are performed. A worker does one thing at a time: where clocks disagree, a slice begins when the one
before has ended. Report and trace are both made of these slices and of nothing else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

from vdev.planner.instructions import HOST

if TYPE_CHECKING:
    from vdev.executor.records import MarkRecord, Span, StepRecord, WorkRecords
    from vdev.observe.recorder import Recorder, Shape, StepShape


@dataclass(slots=True)
class Command:
    """A submitted command; times in nanoseconds of time.perf_counter_ns."""

    number: int
    started: int  #: the session took it up
    submitted: int
    queue: int
    in_order: bool
    thread: int  #: identifier of the thread that submitted it
    shape: Shape


#: (worker, HOST for host memory; step; start; end; whether the time is a share of a longer one)
Slice = tuple[int, "StepShape", int, int, bool]


class Sink(Protocol):
    """What is shown slices and everything else, in the order of submission."""

    def planned(self, started: int, ended: int, thread: int, name: str) -> None: ...

    def performed(self, command: Command, slices: Sequence[Slice]) -> None: ...

    def held(self, time: int, worker: int, nbytes: int) -> None: ...

    def written(self) -> None:
        """This is all for now."""


class Timeline:
    """Takes records out, and gives slices to its sinks and their durations to the shapes' `Times`."""

    def __init__(self, sinks: Iterable[Sink] = ()) -> None:
        self.sinks = tuple(sinks)
        self._pending: deque[Command] = deque()
        #: by worker: times of operations by command's number, and whether they are shares
        self._spans: dict[int, dict[int, tuple[list[Span], bool]]] = {}
        self._steps: dict[int, dict[int, list[StepRecord]]] = {}
        self._reached: dict[int, int] = {}  #: by worker: all commands before this number are complete there
        self._ended: dict[int, int] = {}  #: by worker: when the last slice ended

    def take(self, recorder: Recorder, *, final: bool = False) -> None:
        """Work out all commands, in order, up to the first that is not complete; `final`: all there are."""
        records, sinks = recorder.records, self.sinks
        self._take_work(records)
        commands = recorder.commands
        while commands:
            number, started, submitted, queue, thread, shape = commands.popleft()
            in_order = recorder.queues[queue]
            self._pending.append(Command(number, started, submitted, queue, in_order, thread, shape))
        while recorder.plannings:
            planning = recorder.plannings.popleft()
            for sink in sinks:
                sink.planned(*planning)
        while self._pending and (final or self._is_complete(self._pending[0])):
            self._perform(self._pending.popleft())
        while records.held:
            memory = records.held.popleft()
            for sink in sinks:
                sink.held(*memory)
        for sink in sinks:
            sink.written()
        self._forget()

    def _forget(self) -> None:
        """Let go what belongs to no command of the session: builds, checks."""
        if not self._pending:
            self._spans.clear()
            self._steps.clear()

    def _take_work(self, records: WorkRecords) -> None:
        last = len(records.marks) - 1
        for index, (marks, steps) in enumerate(zip(records.marks, records.steps, strict=True)):
            worker = HOST if index == last else index
            # Marks first: a step is entered before the mark that covers it, so that its steps are there.
            for _ in range(len(marks)):
                self._take_mark(worker, marks.popleft())
            by_number = self._steps.setdefault(worker, {})
            for _ in range(len(steps)):
                step = steps.popleft()
                by_number.setdefault(step[0], []).append(step)

    def _take_mark(self, worker: int, mark: MarkRecord) -> None:
        numbers, ends, spans, whole = mark
        if numbers:
            self._reached[worker] = numbers[-1]
        shared = not spans
        if shared:
            if whole is None or not ends:
                return
            spans = _shares(whole, ends[-1])
        by_number = self._spans.setdefault(worker, {})
        first = 0
        for number, end in zip(numbers, ends, strict=True):
            if end > first:
                found = by_number.get(number)
                if found is None:
                    by_number[number] = (list(spans[first:end]), shared)
                else:
                    by_number[number] = (found[0] + list(spans[first:end]), shared or found[1])
            first = end

    def _is_complete(self, command: Command) -> bool:
        """Whether every worker concerned has come to a later command."""
        return all(self._reached.get(worker, 0) > command.number for worker in command.shape.steps)

    def _perform(self, command: Command) -> None:
        slices: list[Slice] = []
        times, number = command.shape.times, command.number
        for worker, steps in command.shape.steps.items():
            for step, start, end, shared in self._parts(worker, number, steps):
                start = max(start, self._ended.get(worker, start))
                end = max(start, end)
                self._ended[worker] = end
                slices.append((worker, step, start, end, shared))
                name = _FIELDS[step.kind]
                setattr(times, name, getattr(times, name) + end - start)
        for sink in self.sinks:
            sink.performed(command, slices)

    def _parts(
        self, worker: int, number: int, steps: Sequence[StepShape]
    ) -> list[tuple[StepShape, int, int, bool]]:
        """A command's steps on one worker with their times, as far as they were performed."""
        recorded = self._steps.get(worker, _NO_STEPS).pop(number, None)
        if worker == HOST:
            return [(steps[index], start, end, False) for _, index, _, start, end in recorded or ()]
        spans, shared = self._spans.get(worker, _NO_SPANS).pop(number, _NO_TIMES)
        if recorded is None:  # one launch
            return [(steps[0], *spans[0], shared)] if spans else []
        parts, at = [], 0
        for _, index, count, _, _ in recorded:
            own = spans[at : at + count]
            at += count
            if own:
                parts.append((steps[index], own[0][0], own[-1][1], shared))
        return parts


_FIELDS = {kind: f"{kind}_ns" for kind in ("kernel", "transfer", "device", "merge", "host")}
_NO_STEPS: dict[int, list[StepRecord]] = {}
_NO_SPANS: dict[int, tuple[list[Span], bool]] = {}
_NO_TIMES: tuple[list[Span], bool] = ([], False)


def _shares(whole: Span, count: int) -> list[Span]:
    """A time cut into `count` equal parts, to the nanosecond.

    >>> _shares((10, 20), 3)
    [(10, 13), (13, 16), (16, 20)]
    """
    start, took = whole[0], whole[1] - whole[0]
    return list(pairwise(start + took * index // count for index in range(count + 1)))
