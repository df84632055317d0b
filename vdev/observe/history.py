"""The history: a run's timeline in a bounded amount of memory, for the page.

Decides what is kept: exactly what each worker did in each of a fixed number of equal parts of the run, and the first
and last commands individually. When the run becomes longer than all parts together, pairs of parts are merged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from vdev.observe.history_data import BINS, PLANNING, Busy, Past, Piece, Told

if TYPE_CHECKING:
    from vdev.observe.recorder import CommandRecord, StepShape
    from vdev.observe.timeline import Run, Slice

_MOST_AT_ENDS = 60  #: commands that are kept individually, at the beginning and at the end
_MOST_SLICES = 40  #: steps of such a command
_FIRST_WIDTH = 1000  #: width of a part, in nanoseconds


class History:
    """Takes slices of the timeline; a `Sink`."""

    def __init__(self) -> None:
        self._zero: int | None = None
        self._width = _FIRST_WIDTH
        self._busy: dict[tuple[int, str], list[int]] = {}
        self._commands = 0
        self._first: list[tuple[CommandRecord, Sequence[Slice]]] = []
        self._last: deque[tuple[CommandRecord, Sequence[Slice]]] = deque(maxlen=_MOST_AT_ENDS)

    # the sink -----------------------------------------------------------------------------------

    def planned(self, started: int, ended: int, thread: int, name: str) -> None:
        self._add(PLANNING, "planning", started, ended)

    def performed(self, command: CommandRecord, slices: Sequence[Slice]) -> None:
        for step, start, end, _ in slices:
            self._add(step.worker, step.kind, start, end)
        self._keep(command, slices)

    def performed_run(self, run: Run) -> None:
        rows = [
            (worker, starts.tolist(), ends.tolist(), shared.tolist())
            for worker, starts, ends, shared in run.workers
        ]
        numbers, started, submitted = run.numbers.tolist(), run.started.tolist(), run.submitted.tolist()
        for index, which in enumerate(run.which.tolist()):
            shape = run.shapes[which]
            command = numbers[index], started[index], submitted[index], run.queue, run.thread, shape
            slices: list[Slice] = [
                (shape.steps[worker][0], starts[index], ends[index], shared[index])
                for worker, starts, ends, shared in rows
            ]
            self.performed(command, slices)

    def held(self, time: int, worker: int, nbytes: int) -> None:
        """Ignored: the history does not cover memory."""

    def written(self) -> None:
        """Nothing waits to be written."""

    # ---------------------------------------------------------------------------------------------

    def _keep(self, command: CommandRecord, slices: Sequence[Slice]) -> None:
        self._commands += 1
        kept = self._first if len(self._first) < _MOST_AT_ENDS else self._last
        kept.append((command, slices))

    def _add(self, worker: int, kind: str, start: int, end: int) -> None:
        if self._zero is None:
            self._zero = start
        # What another thread began before the first command that was seen counts from there.
        start, end = max(start - self._zero, 0), max(end - self._zero, 0)
        while end > self._width * BINS:
            self._halve()
        row = self._busy.get((worker, kind))
        if row is None:
            row = self._busy[worker, kind] = [0] * BINS
        width = self._width
        while start < end:
            part = start // width
            stop = min(end, (part + 1) * width)
            row[part] += stop - start
            start = stop

    def _halve(self) -> None:
        self._width *= 2
        for row in self._busy.values():
            pairs = [row[index] + row[index + 1] for index in range(0, BINS, 2)]
            row[:] = pairs + [0] * (BINS - len(pairs))

    def past(self) -> Past:
        """Everything seen so far."""
        busy = [Busy(worker, kind, tuple(row)) for (worker, kind), row in sorted(self._busy.items())]
        first, last = ([self._told(*each) for each in part] for part in (self._first, self._last))
        return Past(self._width, tuple(busy), self._commands, tuple(first), tuple(last))

    def _told(self, command: CommandRecord, slices: Sequence[Slice]) -> Told:
        pieces = [self._piece(*item) for item in slices[:_MOST_SLICES]]
        return Told(command[0], command[5].name, tuple(pieces), len(slices) - len(pieces))

    def _piece(self, step: StepShape, start: int, end: int, shared: bool) -> Piece:
        zero = self._zero or 0
        return Piece(step.worker, step.kind, step.name, step.nbytes, start - zero, end - zero, shared)
