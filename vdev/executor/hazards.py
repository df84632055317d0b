"""Hazards: which earlier steps a command has to wait for, because they touch the same bytes.

Buffers keep a record of the steps that touch them (`Holdings`), arrays of the host's have theirs here. Decides what waits
for what, and numbers the steps that later commands may wait for. Asks no device. Called under the executor's lock, in the
order of submission.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import repeat
from operator import add
from typing import Any, Protocol

from vdev.executor.holdings import Holdings, Steps
from vdev.executor.job import Job, JobWorker
from vdev.executor.prepare import PreparedPlan
from vdev.executor.worker_progress import Waits
from vdev.planner.instructions import HOST
from vdev.translators.ranges.region import EMPTY, Region


class Hazards:
    """The hazards between one executor's commands."""

    def __init__(self, workers: Sequence[JobWorker]) -> None:
        self._workers = workers
        #: host arrays in use, and some that no longer are: (start address, stop, whether written, worker, step)
        self.host_uses: list[tuple[int, int, bool, int, int]] = []

    def enter(self, job: Job, host_writes: bool) -> None:
        """Number a command's steps, and enter it into its buffers' records and those of the host's arrays."""
        workers, clock = self._workers, job.clock
        bases = job.bases = [worker.submitted for worker in workers]
        for number, batch in job.prepared.batches:
            worker = workers[number]
            base = bases[number] = worker.submitted
            clock[number] = worker.submitted = base + len(batch.steps)
        holdings = job.holdings
        for slot, number, _, last in job.prepared.own_writes:
            record = holdings[slot]
            record.written[number] = bases[number] + last + 1
            record.readers[number] = None
        if job.prepared.foreign_writes:
            changed: set[tuple[int, int]] = set()
            for slot, holder, number, last in job.prepared.foreign_writes:
                first = (slot, holder) not in changed
                changed.add((slot, holder))
                holdings[slot].did_write(holder, number, bases[number] + last, first=first)
        for slot, holder, number, last in job.prepared.read_elsewhere:
            holdings[slot].did_read(holder, number, bases[number] + last)
        if job.host is not None and job.shares_host:
            for number, _ in job.prepared.batches:
                self.enter_host(job.host, number, clock[number], writes=host_writes)

    def enter_host(self, host: Any, number: int, step: int, *, writes: bool) -> None:
        """A worker's step reads an array of the host's, or writes to it."""
        self.host_uses.append((*_addresses(host), writes, number, step))

    def find(self, job: Job, homes: Sequence[int], host_writes: bool) -> dict[int, Waits] | None:
        """By worker: the steps of other workers that a command's steps have to wait for. Its clock includes them.

        `homes`, `host_writes`: as of `Executor.submit`.
        """
        prepared, holdings, workers = job.prepared, job.holdings, self._workers
        found: dict[int, Waits] | None = None
        for slot, number, first, _ in prepared.own_writes:
            readers = holdings[slot].readers[number]
            if readers is not None:
                found = self._add(job, found, number, first, readers.items())
        for h in prepared.hazards:
            record = holdings[h.slot]
            if h.first_read >= 0:
                holder = h.holder
                # what another one has changed is most that is read, and mostly long complete
                if holder < 0 or workers[holder].completed < record.written[holder]:
                    found = self._add(job, found, h.worker, h.first_read, record.before_read(holder))
            if h.first_write >= 0:
                earlier = record.before_write(h.holder)
                if earlier:
                    found = self._add(job, found, h.worker, h.first_write, earlier)
        for slot in homes:
            _include_home(job.clock, holdings[slot])
        if job.host is not None and job.shares_host:
            found = self._find_at_host(job, host_writes, found)
        if found is not None:
            for waits in found.values():
                waits.sort()
        return found

    def _add(
        self,
        job: Job,
        found: dict[int, Waits] | None,
        number: int,
        index: int,
        steps: Iterable[tuple[int, int]],
    ) -> dict[int, Waits] | None:
        workers, clock = self._workers, job.clock
        for other, step in steps:
            if other != number and workers[other].completed < step:
                if found is None:
                    found = {number: [(index, other, step)]}
                elif number in found:
                    found[number].append((index, other, step))
                else:
                    found[number] = [(index, other, step)]
                if clock[other] < step:
                    clock[other] = step
        return found

    def _find_at_host(
        self, job: Job, host_writes: bool, found: dict[int, Waits] | None
    ) -> dict[int, Waits] | None:
        """Host memory has no record of its own: what an explicit wait list names, and what uses the same addresses,
        comes first.
        """
        steps: Steps = {}
        for earlier in job.after:
            progress = earlier.progress
            if isinstance(progress, Job):
                _raise_to(steps, _steps_of(progress.clock))
        start, stop = _addresses(job.host)
        workers = self._workers
        self.host_uses = [use for use in self.host_uses if workers[use[3]].completed < use[4]]
        for first, last, writes, number, step in self.host_uses:
            if first < stop and start < last and (writes or host_writes):
                _raise_to(steps, ((number, step),))
        for number, _ in job.prepared.batches:
            found = self._add(job, found, number, 0, steps.items())
        return found

    def uses_host(self) -> bool:
        """Whether anything under way still uses arrays of the host's."""
        if not self.host_uses:
            return False
        workers = self._workers
        self.host_uses = [use for use in self.host_uses if workers[use[3]].completed < use[4]]
        return bool(self.host_uses)

    def uses_host_elsewhere(self, number: int) -> bool:
        """Whether anything under way on a worker other than that one still uses arrays of the host's."""
        return bool(self.host_uses) and self.uses_host() and any(use[3] != number for use in self.host_uses)

    def arriving(self, host: Any) -> list[tuple[int, int]]:
        """(worker, step) of the reads under way that bring their bytes to such an array only once somebody knows that they are
        complete (`WorkerProgress.arrivals`): the order on the device says nothing of that.
        """
        start, stop = _addresses(host)
        waiting = {
            (worker.number, step)
            for worker in self._workers
            if worker.arrivals
            for step, _, _ in tuple(worker.arrivals)
        }
        return [
            (number, step)
            for first, last, _, number, step in self.host_uses
            if first < stop and start < last and (number, step) in waiting
        ]


class _Steps:
    """The steps that a plan has for each of its workers, and how they are numbered."""

    __slots__ = ("_mine", "_workers")

    def __init__(self, prepared: PreparedPlan, workers: Sequence[JobWorker]) -> None:
        """`workers`: all of the executor's."""
        self._workers = workers
        #: each of the plan's, its number and how many steps it has
        self._mine = [(workers[number], number, len(batch.steps)) for number, batch in prepared.batches]

    def number(self) -> list[int]:
        """Number a command's steps: by worker, how many were submitted before."""
        bases = [worker.submitted for worker in self._workers]
        for worker, number, count in self._mine:
            worker.submitted = bases[number] + count
        return bases


#: changes of workers' own replicas of one buffer: by worker, how many steps there are up to the last; None where not all of them change
#: theirs, which are listed as well
_Changes = tuple["Sequence[int] | None", "Sequence[tuple[int, int]]"]


def _changes_by_slot(prepared: PreparedPlan, workers: Sequence[JobWorker]) -> list[tuple[int, _Changes]]:
    """What a plan changes, by slot. `workers`: all of the executor's, that for the host's memory last."""
    found: list[tuple[int, _Changes]] = []
    for slot in dict.fromkeys([slot for slot, _, _, _ in prepared.own_writes]):
        lasts = {number: last + 1 for at, number, _, last in prepared.own_writes if at == slot}
        of_all = [lasts.get(number, 0) for number in range(len(workers) - 1)]
        found.append((slot, (of_all if all(of_all) else None, [*lasts.items()])))
    return found


def _note_changes(
    written: list[int], readers: list[Steps | None], changes: _Changes, bases: Sequence[int]
) -> None:
    """Enter what a command changes into the records of a buffer."""
    of_all, each = changes
    if of_all is not None:
        written[:] = map(add, bases, of_all)
        readers[:] = repeat(None, len(of_all))
        return
    for number, last in each:
        written[number] = bases[number] + last
        readers[number] = None


class HazardsOfPlan:
    """The hazards between a compiled plan's commands and others, which have the same replicas each time: what `Hazards` looks up in the
    records of their buffers is found once. Such a plan changes no home and no other worker's replica.
    """

    __slots__ = ("_batches", "_changes", "_number", "_reads", "changes", "interiors", "reads", "regions")

    def __init__(
        self, prepared: PreparedPlan, holdings: Sequence[Holdings], workers: Sequence[JobWorker]
    ) -> None:
        """`workers`: all of the executor's."""
        self._number = _Steps(prepared, workers).number
        self._batches = [(number, len(batch.steps)) for number, batch in prepared.batches]
        #: changes of workers' own replicas: the records of their buffer, and which
        self._changes = [
            (holdings[slot].written, holdings[slot].readers, changes)
            for slot, changes in _changes_by_slot(prepared, workers)
        ]
        #: reads of another worker's replica: the record, whose, the reader, and how many of its steps there are up to the last
        self._reads = [
            (holdings[slot].readers, holder, reader, last)
            for slot, holder, reader, last in prepared.read_elsewhere
            if holder != HOST
        ]
        #: the same as `orders.Accesses` has it: buffers by their records, which this keeps
        self.changes = [
            (id(holdings[slot].written), number, last + 1) for slot, number, _, last in prepared.own_writes
        ]
        self.reads = [
            (id(holdings[slot].written), holder, reader, last)
            for slot, holder, reader, last in prepared.read_elsewhere
            if holder != HOST
        ]
        #: and which bytes
        self.regions: dict[tuple[Hashable, int, int], Region] = {}
        for (slot, holder, reader), region in prepared.regions.items():
            at = id(holdings[slot].written), holder, reader
            self.regions[at] = self.regions.get(at, EMPTY) | region
        self.interiors = [
            (id(holdings[slot].written), number, region) for slot, number, region in prepared.interiors
        ]

    def enter(self, job: Job) -> None:
        """The same as `Hazards.enter`."""
        job.bases = bases = self.number_steps()
        clock = job.clock
        for number, count in self._batches:
            clock[number] = bases[number] + count

    def number_steps(self, _: Sequence[Holdings] = ()) -> list[int]:
        """Number a command's steps, and enter them into its buffers' records: by worker, how many steps were submitted before."""
        bases = self._number()
        for written, readers, changes in self._changes:
            _note_changes(written, readers, changes, bases)
        for readers, holder, reader, last in self._reads:
            of_holder = readers[holder]
            if of_holder is None:
                readers[holder] = {reader: bases[reader] + last}
            else:
                of_holder[reader] = bases[reader] + last
        return bases


class OrderedWorker(JobWorker, Protocol):
    """A worker as those see it who ask what is ordered already (`vdev.executor.worker.Worker`)."""

    ordered: dict[int, int]  #: by other worker: the step that whatever is handed over now waits for anyway


class OpenHazards:
    """The hazards between a compiled plan's commands and others, as the records of their buffers say at the moment. Such a plan changes
    no home and no other worker's replica, and everything before it was handed over.
    """

    __slots__ = ("_changes", "_number", "_reads", "_workers")

    def __init__(self, prepared: PreparedPlan, workers: Sequence[OrderedWorker]) -> None:
        """`workers`: all of the executor's."""
        self._workers = workers
        self._number = _Steps(prepared, workers).number
        #: changes of workers' own replicas, by slot
        self._changes = _changes_by_slot(prepared, workers)
        #: reads of another worker's replica: (slot, whose, the reader, how many of its steps there are up to the last)
        self._reads = [each for each in prepared.read_elsewhere if each[1] != HOST]

    def enter(self, job: Job) -> None:
        """The same as `Hazards.enter`."""
        bases, clock, workers = self.number_steps(job.holdings), job.clock, self._workers
        job.bases = bases
        for number, _ in job.prepared.batches:
            clock[number] = workers[number].submitted

    def number_steps(self, holdings: Sequence[Holdings]) -> list[int]:
        """As `HazardsOfPlan.number_steps`, for a command with these `holdings`."""
        bases = self._number()
        for slot, changes in self._changes:
            record = holdings[slot]
            _note_changes(record.written, record.readers, changes, bases)
        for slot, holder, reader, last in self._reads:
            holdings[slot].did_read(holder, reader, bases[reader] + last)
        return bases

    def needs(self, holdings: Sequence[Holdings]) -> dict[tuple[int, int], int]:
        """By worker and another one: the last step of the other's that the worker has to come after and does not yet."""
        workers = self._workers
        found: dict[tuple[int, int], int] = {}
        for slot, holder, reader, _ in self._reads:
            step = holdings[slot].written[holder]
            if holder == reader or workers[holder].completed >= step:
                continue
            if workers[reader].ordered.get(holder, 0) < step and found.get((reader, holder), 0) < step:
                found[reader, holder] = step
        for slot, (_, changes) in self._changes:
            readers_of_all = holdings[slot].readers
            if not any(readers_of_all):
                continue
            for number, _ in changes:
                readers = readers_of_all[number]
                if readers is None:
                    continue
                ordered = workers[number].ordered
                for other, step in readers.items():
                    if other != number and workers[other].completed < step and ordered.get(other, 0) < step:
                        found[number, other] = max(found.get((number, other), 0), step)
        return found


def _include_home(clock: list[int], record: Holdings) -> None:
    """Let a command be complete no earlier than what touches the home, which the program is going to touch by itself."""
    record.blank = False
    for uses in (record.home_reads, record.home_writes):
        for number, step in uses.items():
            clock[number] = max(clock[number], step)


def _steps_of(clock: list[int]) -> Iterable[tuple[int, int]]:
    """(worker, step) of a clock, with HOST by its number."""
    last = len(clock) - 1
    return ((HOST if index == last else index, step) for index, step in enumerate(clock) if step)


def _raise_to(steps: Steps, more: Iterable[tuple[int, int]]) -> None:
    for number, step in more:
        if steps.get(number, 0) < step:
            steps[number] = step


def _addresses(array: Any) -> tuple[int, int]:
    start = int(array.__array_interface__["data"][0])
    return start, start + int(array.nbytes)
