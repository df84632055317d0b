"""The timeline: from records to slices of time, each of a command's step on a worker.

Decides what a step's time is. If a worker's markers give the time of each operation, the step lasts from the
start of its first operation to the end of its last on the device. For many short operations between two markers only
the total is known: it is divided among them, and the slices say so. Each gets as much as it took where its time was known,
in proportion; where that is not known of all of them, they get equal parts. The host's steps are timed while they are
performed. A worker does one thing at a time, and starts no command before it was submitted: where clocks disagree, a slice
begins when the previous one has ended, and not before its command. Report and trace
are both made of these slices and of nothing else.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from vdev.planner.instructions import HOST

if TYPE_CHECKING:
    from vdev.executor.records import MarkRecord, StepRecord, WorkRecords
    from vdev.observe.figures import Times
    from vdev.observe.recorder import CommandRecord, Recorder, Shape, StepShape

#: (step, start, end, whether the time is a share of a longer one); times in nanoseconds of
#: time.perf_counter_ns
Slice = tuple["StepShape", int, int, bool]
#: (start, end, number of operations that shared the time; 1 or 0 if it was not shared) of one operation on a device
Operation = tuple[int, int, int]
Times64 = npt.NDArray[np.int64]

#: from this many commands on it pays to work them out together
_SHORT_RUN = 8


class Sink(Protocol):
    """Receives slices and everything else, in the order of submission."""

    def planned(self, started: int, ended: int, thread: int, name: str) -> None: ...

    def performed(self, command: CommandRecord, slices: Sequence[Slice]) -> None: ...

    def performed_run(self, run: Run) -> None:
        """Many commands at once, each one launch on each of the same workers."""

    def held(self, time: int, worker: int, nbytes: int) -> None: ...

    def written(self) -> None:
        """Everything has been passed on for now."""


class Run:
    """Commands of one thread and in-order queue, each of which is one launch on each of the same workers.

    `numbers`, `started` and `submitted` by command, and `which` of `shapes` it has; `workers`: for each of them
    (worker, starts, ends, whether shared), again by command.
    """

    __slots__ = ("numbers", "queue", "shapes", "started", "submitted", "thread", "which", "workers")

    def __init__(self, commands: Sequence[CommandRecord]) -> None:
        numbers, started, submitted, queues, threads, shapes = zip(*commands, strict=True)
        self.queue, self.thread = queues[0], threads[0]
        self.numbers, self.started, self.submitted = (
            np.array(column, np.int64) for column in (numbers, started, submitted)
        )
        found = {shape: index for index, shape in enumerate(dict.fromkeys(shapes))}
        self.shapes = list(found)
        if len(found) == 1:
            self.which = np.zeros(len(shapes), np.intp)
        else:
            self.which = np.array([found[shape] for shape in shapes], np.intp)
        self.workers: list[tuple[int, Times64, Times64, npt.NDArray[np.bool_]]] = []

    def count_times(self, worker: int, took: Times64, shared: npt.NDArray[np.bool_]) -> None:
        """Add to each shape its part of a worker's times."""
        for index, shape in enumerate(self.shapes):
            mine = slice(None) if len(self.shapes) == 1 else self.which == index
            shape.times.kernel_ns += int(took[mine].sum())
            own = took[mine][~shared[mine]]
            if own.size:
                shape.steps[worker][0].took(int(own.min()))


class _Track:
    """One worker's part of the timeline. Everywhere in it, numbers of commands ascend."""

    __slots__ = ("_at", "_ends", "_numbers", "_shared", "_starts", "ended", "reached", "steps")

    def __init__(self) -> None:
        #: operations on the device: of which command, when, and how shared; done up to `_at`
        self._numbers: list[int] = []
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._shared: list[int] = []
        self._at = 0
        self.steps: deque[StepRecord] = deque()
        self.reached = 0  #: all commands with lower numbers are complete on this worker
        self.ended = 0  #: when the last slice ended

    def add_mark(self, mark: MarkRecord, weights: Sequence[int] = ()) -> None:
        """Everything that a mark covers is complete. `weights`: of its commands, in proportion to which they took their parts of the time
        where that is known for all of them together; none where they took equal ones.
        """
        numbers, ends, spans, whole = mark
        if numbers:
            self.reached = numbers[-1]
        if not ends or not ends[-1] or not (spans or whole):
            return
        count = ends[-1]
        if len(numbers) != count or list(ends) != list(range(1, count + 1)):
            firsts = (0, *ends)
            numbers = [
                number
                for number, first, end in zip(numbers, firsts, ends, strict=False)
                for _ in range(first, end)
            ]
        self._numbers += numbers
        if spans:
            self._starts += [span[0] for span in spans]
            self._ends += [span[1] for span in spans]
        elif whole is not None:
            edges = shares(whole, count) if not weights else weighted_shares(whole, ends, weights)
            self._starts += edges[:-1]
            self._ends += edges[1:]
        self._shared += [0 if spans else count] * count

    def skip_to(self, number: int) -> None:
        """Skip older entries: they belong to no command of the session (builds, checks)."""
        numbers, at = self._numbers, self._at
        while at < len(numbers) and numbers[at] < number:
            at += 1
        self._at = at
        while self.steps and self.steps[0][0] < number:
            self.steps.popleft()

    def take_operations(self, number: int) -> list[Operation]:
        """Take out the operations of a command."""
        first = at = self._at
        numbers = self._numbers
        while at < len(numbers) and numbers[at] == number:
            at += 1
        self._at = at
        return list(zip(self._starts[first:at], self._ends[first:at], self._shared[first:at], strict=True))

    def take_steps(self, number: int) -> list[StepRecord]:
        """Take out the steps of a command."""
        found = []
        while self.steps and self.steps[0][0] == number:
            found.append(self.steps.popleft())
        return found

    def find_run(self, numbers: Sequence[int]) -> slice | None:
        """Where the operations of these commands are, if each has just one."""
        found = slice(self._at, self._at + len(numbers))
        if self._numbers[found] != numbers:
            return None
        return None if self._numbers[found.stop : found.stop + 1] == [numbers[-1]] else found

    def take_run(
        self, where: slice, started: Times64, submitted: Times64
    ) -> tuple[Times64, Times64, npt.NDArray[np.bool_]]:
        """The operations there, one after the other as on a worker that does one thing at a time.

        None begins before its command's `started`, by either clock. A share of a time may lie before `submitted` if a
        worker is faster than the host.
        """
        shared = np.array(self._shared[where], np.int64) > 1
        starts = np.array(self._starts[where], np.int64)
        starts = np.maximum(starts, np.where(shared, submitted, started))
        ends = np.maximum.accumulate(np.maximum(starts, np.array(self._ends[where], np.int64)))
        ends = np.maximum(ends, self.ended)
        starts = np.maximum(starts, np.concatenate(([self.ended], ends[:-1])))
        self._at, self.ended = where.stop, int(ends[-1])
        return starts, ends, shared

    def forget(self) -> None:
        """Drop what has been taken."""
        for part in (self._numbers, self._starts, self._ends, self._shared):
            del part[: self._at]
        self._at = 0


class Timeline:
    """Takes records out, passes slices to its sinks, and adds their durations to the shapes' `Times`."""

    def __init__(self, sinks: Iterable[Sink] = ()) -> None:
        self.sinks = tuple(sinks)
        self._pending: deque[CommandRecord] = deque()
        self._tracks: dict[int, _Track] = {}  #: by worker

    def take(self, recorder: Recorder, *, until: int = 0) -> None:
        """Work out all commands, in order, up to the first that is not complete. All up to number `until` are known
        to be complete, or never will be.
        """
        records, pending, sinks = recorder.records, self._pending, self.sinks
        # Another thread may enter a mark meanwhile: those first whose commands are among these.
        marks = [len(each) for each in records.marks]
        pending.extend(recorder.commands)
        recorder.commands.clear()
        self._take_work(records, marks)
        while recorder.plannings:
            planning = recorder.plannings.popleft()
            for sink in sinks:
                sink.planned(*planning)
        while pending and self._is_complete(pending[0], until):
            run = self._next_run(recorder.queues, until)
            if not self._perform_run(run):
                for command in run:
                    self._perform(command)
        for track in self._tracks.values():
            track.forget()
        while records.held:
            memory = records.held.popleft()
            for sink in sinks:
                sink.held(*memory)
        for sink in sinks:
            sink.written()

    def _take_work(self, records: WorkRecords, counts: Sequence[int]) -> None:
        """Take out so many marks of each worker's, and all steps."""
        last = len(records.marks) - 1
        shapes: dict[int, Shape] = {}
        for index, (marks, steps) in enumerate(zip(records.marks, records.steps, strict=True)):
            worker = HOST if index == last else index
            track = self._tracks.setdefault(worker, _Track())
            # Marks first: a step is entered before the mark that covers it, so that its steps are there.
            for _ in range(counts[index]):
                mark = marks.popleft()
                if mark[3] is None or len(mark[0]) < 2:
                    track.add_mark(mark)
                    continue
                if not shapes:
                    shapes = {command[0]: command[5] for command in self._pending}
                track.add_mark(mark, _weights(shapes, mark[0], worker))
            for _ in range(len(steps)):
                track.steps.append(steps.popleft())

    def _is_complete(self, command: CommandRecord, until: int) -> bool:
        """Whether it is known to be complete, or every worker concerned has reached a later command."""
        number = command[0]
        if command[5].at_once:
            return True
        return number <= until or all(self._tracks[worker].reached > number for worker in command[5].steps)

    # many commands at once ------------------------------------------------------------------------

    def _next_run(self, in_order: dict[int, bool], until: int) -> list[CommandRecord]:
        """The next command, and those after it that can be worked out together with it."""
        pending = self._pending
        first = pending.popleft()
        run = [first]
        workers, queue, thread = first[5].plain, first[3], first[4]
        if not workers or not in_order[queue]:
            return run
        reached = max(until + 1, min(self._tracks[worker].reached for worker in workers))
        while pending:
            _, _, _, its_queue, its_thread, shape = command = pending[0]
            if shape.plain != workers or its_queue != queue or its_thread != thread or command[0] >= reached:
                break
            run.append(pending.popleft())
        return run

    def _perform_run(self, commands: list[CommandRecord]) -> bool:
        """Work out a run, if that pays and each of its launches was performed as one operation."""
        if len(commands) < _SHORT_RUN:
            return False
        workers = commands[0][5].plain
        numbers = [command[0] for command in commands]
        tracks = [self._tracks[worker] for worker in workers]
        for track in tracks:
            track.skip_to(numbers[0])
        places = [place for track in tracks if (place := track.find_run(numbers)) is not None]
        if len(places) < len(tracks):
            return False
        run = Run(commands)
        for worker, track, place in zip(workers, tracks, places, strict=True):
            starts, ends, shared = track.take_run(place, run.started, run.submitted)
            run.workers.append((worker, starts, ends, shared))
            run.count_times(worker, ends - starts, shared)
        for sink in self.sinks:
            sink.performed_run(run)
        return True

    # one command ----------------------------------------------------------------------------------

    def _perform(self, command: CommandRecord) -> None:
        slices: list[Slice] = []
        number, shape = command[0], command[5]
        times = shape.times
        for worker, steps in shape.steps.items():
            track = self._tracks[worker]
            if shape.at_once:
                self._add_at_once(command, steps[0], track, slices)
                continue
            track.skip_to(number)
            ended = track.ended
            for step, start, end, shared in _parts(track, worker, number, steps):
                start = max(start, ended, command[2] if shared else command[1])  # as in `take_run`
                ended = end = end if end > start else start
                if not shared:
                    step.took(end - start)
                _add(times, step.kind, end - start)
                slices.append((step, start, end, shared))
            track.ended = ended
        for sink in self.sinks:
            sink.performed(command, slices)

    @staticmethod
    def _add_at_once(command: CommandRecord, step: StepShape, track: _Track, slices: list[Slice]) -> None:
        """What was performed by the thread that submitted it, in the time that this took."""
        start = max(command[1], track.ended)
        track.ended = end = max(start, command[2])
        _add(command[5].times, step.kind, end - start)
        slices.append((step, start, end, False))


def shares(whole: tuple[int, int], count: int) -> list[int]:
    """The edges of `count` equal parts of a time, to the nanosecond.

    >>> shares((10, 20), 3)
    [10, 13, 16, 20]
    """
    start, took = whole[0], whole[1] - whole[0]
    return [start + took * index // count for index in range(count + 1)]


def weighted_shares(whole: tuple[int, int], ends: Sequence[int], weights: Sequence[int]) -> list[int]:
    """The same for operations of several commands, each of which gets a part of the time in proportion to its weight. `ends`: the
    number of operations up to the last of each.

    >>> weighted_shares((0, 80), (1, 3), (1, 3))
    [0, 20, 50, 80]
    """
    start, took = whole[0], whole[1] - whole[0]
    counts = [end - before for before, end in zip((0, *ends), ends, strict=False)]
    total = sum(weight for weight, count in zip(weights, counts, strict=True) if count)
    edges, passed = [start], 0
    for weight, count in zip(weights, counts, strict=True):
        if count:
            edges += [
                start + took * (passed * count + weight * (index + 1)) // (total * count)
                for index in range(count)
            ]
            passed += weight
    return edges


def _parts(track: _Track, worker: int, number: int, steps: Sequence[StepShape]) -> list[Slice]:
    """A command's steps on one worker with their times, as far as they were performed."""
    recorded = track.take_steps(number)
    if worker == HOST:
        return [(steps[index], start, end, False) for _, index, _, start, end in recorded]
    operations = track.take_operations(number)
    if not recorded:  # it was handed over as a whole
        return _divided(steps, operations)
    parts: list[Slice] = []
    at = 0
    for _, index, count, _, _ in recorded:
        own = operations[at : at + count]
        at += count
        if own:
            parts.append((steps[index], own[0][0], own[-1][1], _with_others(own)))
    return parts


def _divided(steps: Sequence[StepShape], operations: Sequence[Operation]) -> list[Slice]:
    """The steps of a command with their times, of which only those of its operations are known. Several steps may have been one
    operation, or one step several.
    """
    if not operations:
        return []
    if len(steps) == 1:
        return [(steps[0], operations[0][0], operations[-1][1], _with_others(operations))]
    if len(steps) == len(operations):
        return [
            (step, start, end, shared > 1)
            for step, (start, end, shared) in zip(steps, operations, strict=True)
        ]
    known = [step.least_ns for step in steps]
    edges = [operations[0][0]]
    took, weights = operations[-1][1] - edges[0], known if all(known) else [1] * len(steps)
    total = sum(weights)
    edges += [edges[0] + took * upto // total for upto in accumulate(weights)]
    return [(step, edges[index], edges[index + 1], True) for index, step in enumerate(steps)]


def _weights(shapes: Mapping[int, Shape], numbers: Sequence[int], worker: int) -> Sequence[int]:
    """Of commands on a worker, by number; none where they are alike, or where something is not known of one of them."""
    found = [shapes.get(number) for number in numbers]
    if len({*found}) < 2:
        return ()
    weights = [0 if shape is None else shape.weight(worker) for shape in found]
    return weights if all(weights) else ()


def _with_others(own: Sequence[Operation]) -> bool:
    """Whether a step's operations have their times from a mark that covers another step's as well. A worker that waits
    for another one in the middle of a step puts a mark there, and the step has several.

    >>> _with_others([(0, 1, 2), (1, 2, 2), (5, 6, 1)]), _with_others([(0, 1, 3), (1, 2, 3)])
    (False, True)
    """
    return any(inside % count for count, inside in Counter(part[2] for part in own).items() if count)


def _add(times: Times, kind: str, took: int) -> None:
    if kind == "kernel":
        times.kernel_ns += took
    elif kind == "transfer":
        times.transfer_ns += took
    elif kind == "device":
        times.device_ns += took
    elif kind == "merge":
        times.merge_ns += took
    else:
        times.host_ns += took
