"""Records: what workers note about their work, so that reports can say where the time went.

Decides what is noted, and how compactly: tuples of numbers, appended by the worker's thread or by a thread that waits
for it, and taken out by a single reader. Keeps no command, plan or memory alive. Workers keep records only when asked
to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from vdev.planner.instructions import HOST

if TYPE_CHECKING:
    from vdev.executor.mark import Mark

#: (start, end) in nanoseconds of time.perf_counter_ns
Span = tuple[int, int]
#: What a mark covered: numbers of commands; how many operations had been handed over after each; the times of these
#: operations; and, if those are not known, when all of them together began and ended.
MarkRecord = tuple[Sequence[int], Sequence[int], Sequence[Span], "Span | None"]
#: A step: the command's number, its index in the worker's batch, the operations that it handed over, and when it did
#: so (on the host: when it was performed).
StepRecord = tuple[int, int, int, int, int]


class WorkRecords:
    """All workers' records; by worker, HOST last."""

    def __init__(self, workers: int, *, exact: bool) -> None:
        """`exact`: the times of every operation are wanted, where the back end knows them, and otherwise those of every step of
        commands that are submitted step by step. Commands go the same ways.
        """
        self.exact = exact
        #: in the order of completion
        self.marks: tuple[deque[MarkRecord], ...] = tuple(deque() for _ in range(workers + 1))
        #: of batches that are more than a single launch
        self.steps: tuple[deque[StepRecord], ...] = tuple(deque() for _ in range(workers + 1))
        #: (time, worker, bytes of device memory held from then on)
        self.held: deque[tuple[int, int, int]] = deque()

    def retired(self, number: int, mark: Mark, *, failed: bool) -> None:
        """`mark` of worker `number` is complete."""
        spans: Sequence[Span] = ()
        whole: Span | None = None
        if number != HOST and not failed:
            spans = mark.marker.operations()
            if not spans and mark.ends and mark.ends[-1]:
                times = mark.marker.times()
                whole = None if times is None else times[2:]
        numbers: Sequence[int] = [job.number for job in mark.jobs]
        ends: Sequence[int] = mark.ends
        if any(job.launches > 1 for job in mark.jobs):
            numbers, ends = _one_by_one(mark)
        self.marks[number].append((numbers, ends, spans, whole))


def _one_by_one(mark: Mark) -> tuple[list[int], list[int]]:
    """Numbers and ends of the commands, those of runs and stretches one by one."""
    pairs = [pair for job, end in zip(mark.jobs, mark.ends, strict=True) for pair in job.numbered(end, mark)]
    return [number for number, _ in pairs], [end for _, end in pairs]
