"""A submitted command as the executor sees it: what its steps need, and when it counts as complete.

Decides nothing; one object for each command in flight.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from vdev.backends.base import Allocation, Bytes, Marker
from vdev.executor.completion import RUNNING, SUBMITTED, Completion, call_soon
from vdev.executor.holdings import Discards, Holdings
from vdev.executor.prepare import PreparedPlan
from vdev.process.interrupts import waits

if TYPE_CHECKING:
    from vdev.backends.base import Deliver
    from vdev.translators.ranges.ndrange import NDRange
    from vdev.translators.ranges.rectangles import Layout


class JobWorker(Protocol):
    """A worker as a job sees it (`vdev.executor.worker.Worker`)."""

    number: int
    submitted: int
    issued: int
    completed: int
    arrivals: deque[tuple[int, Callable[[], None], Deliver]]  #: reads under way, by step
    hurried: bool  #: whether somebody wants to be called as soon as it is known what is complete

    def wait_for(self, step: int) -> None:
        """Return when that step is complete."""

    def poll_for(self, step: int) -> None:
        """Settle what is complete, without waiting, for somebody who asks about that step."""

    def wake(self) -> None:
        """Let the thread look around."""

    @property
    def memory(self) -> Discards:
        """Its memory."""


class JobExecutor(Protocol):
    """The executor as a job sees it (`vdev.executor.executor.Executor`)."""

    lock: threading.RLock
    no_steps: list[int]  #: a clock that waits for nothing

    @property
    def all_workers(self) -> Sequence[JobWorker]:
        """By number; the one for host memory is the last."""

    def worker(self, number: int) -> JobWorker:
        """The worker of a number, which is -1 for host memory."""

    def settle(self, jobs: Iterable[Job]) -> None:
        """Settle those that are complete."""


class Job:
    """One submitted command: what its steps need, which steps must be complete before it is, and the executor's side
    of its completion.
    """

    __slots__ = (
        "after",
        "args",
        "bases",
        "clock",
        "completion",
        "executor",
        "follows",
        "holdings",
        "host",
        "launches",
        "layout",
        "markers",
        "ndrange",
        "number",
        "order",
        "places",
        "prepared",
        "scratch",
        "shares_host",
        "stages",
        "was_running",
    )

    @property
    def successors(self) -> Sequence[Job] | None:
        """The jobs that have taken its place, if any have."""
        return None

    def __init__(
        self,
        executor: JobExecutor,
        number: int,
        prepared: PreparedPlan,
        holdings: Sequence[Holdings],
        completion: Completion,
    ) -> None:
        self.executor = executor
        self.number = number
        self.prepared = prepared
        self.holdings = holdings
        self.completion = completion
        #: commands that it stands for, numbered from its own number on: several in a run (`vdev.executor.repeated_launch`)
        self.launches = 1
        self.args: Sequence[Any] = ()
        #: of a launch whose plan leaves them open: its index space, and where its pointer arguments point
        self.ndrange: NDRange | None = None
        self.places: tuple[tuple[int, int, int], ...] = ()
        self.host: Bytes | None = None
        self.layout: Layout | None = None
        self.shares_host = True  #: whether others may use that host array as well
        self.after: Sequence[Completion] = ()
        #: the command before it in an in-order queue
        self.order: Completion | None = None
        #: by worker (HOST last): steps that must be complete before the command is; 0 for none
        self.clock: list[int] = executor.no_steps.copy()
        #: by worker, also those that it does not concern: how many steps were submitted before this command's
        self.bases: list[int] = executor.no_steps
        #: whether it is among a worker's followers
        self.follows = False
        #: whether somebody has been told that it is running
        self.was_running = False
        self.stages: dict[int, Bytes] = {}
        #: the plan's stages on workers, each touched by its worker's thread alone
        self.scratch: dict[int, Allocation] = {}
        self.markers: list[Marker] = []

    @property
    def reads(self) -> Sequence[int]:
        """Slots whose bytes the command reads, as far as failures go."""
        narrow = self.prepared.narrow
        return self.prepared.reads if narrow is None else narrow(self.places)[0]

    @property
    def writes(self) -> Sequence[int]:
        """Slots whose bytes it may change."""
        narrow = self.prepared.narrow
        return self.prepared.writes if narrow is None else narrow(self.places)[1]

    def join(self, completion: Completion) -> None:
        """Let the command be complete no earlier than another one. ValueError for one that was not submitted."""
        progress = completion.progress
        if isinstance(progress, Job):
            clock = self.clock
            for index, step in enumerate(progress.clock):
                if step > clock[index]:
                    clock[index] = step
        elif not completion.settled:
            raise ValueError("a command waits for one that was not submitted")

    def follow(self, after: Sequence[Completion], order: Completion | None) -> None:
        """Let the command wait for others: `after` and `order` as in `Executor.submit`."""
        self.after = after
        if order is not None:
            self.join(order)
            self.order = order
        for earlier in after:
            self.join(earlier)

    # for steps ----------------------------------------------------------------------------------

    def stage(self, number: int) -> tuple[Bytes, int]:
        """The plan's staging area `number` and the buffer byte at its index 0."""
        region = self.prepared.stages[number].region
        memory = self.stages.get(number)
        if memory is None:
            memory = self.stages.setdefault(number, np.empty(region.stop - region.start, np.uint8))
        return memory, region.start

    def drop_stage(self, number: int) -> None:
        del self.stages[number]

    def host_array(self) -> tuple[Bytes, Layout]:
        if self.host is None or self.layout is None:
            raise ValueError("the plan moves bytes of a host array, and the command has none")
        return self.host, self.layout

    # for whoever follows failures, and for records ------------------------------------------------

    def one_by_one(self) -> Sequence[Job]:
        """What takes its place once commands have to be looked at one by one."""
        return (self,)

    @property
    def itself(self) -> Job:
        """The command alone, to which a coherent step belongs."""
        return self

    def among(self, operations: Collection[int], start: int, end: int, mark: object) -> Sequence[Job]:
        """The jobs that some of these `operations` belong to, when this one has operations `start` to `end` since the
        mark before `mark`.
        """
        return (self,) if any(start <= number < end for number in operations) else ()

    def numbered(self, end: int, mark: object) -> Sequence[tuple[int, int]]:
        """Its commands' numbers on the worker whose `mark` is behind it, each with the count of operations since the mark before when it
        had been handed over; `end`: the count after the last.

        Each launch of a run is one operation.
        """
        count = self.launches
        return [(self.number + later, end - (count - 1 - later)) for later in range(count)]

    # for the completion -------------------------------------------------------------------------

    @waits
    def wait(self) -> None:
        for worker, step in zip(self.executor.all_workers, self.clock, strict=True):
            if worker.completed < step:
                worker.wait_for(step)
        if not self.completion.settled:
            self.executor.settle((self,))

    def poll(self) -> int:
        started = False
        for worker, step, base in zip(self.executor.all_workers, self.clock, self.bases, strict=True):
            if step and worker.completed < step:
                worker.poll_for(step)
            started = started or (step > base and worker.issued > base)
        is_running = started and self.is_running()
        self.executor.settle((self,))
        return RUNNING if is_running else SUBMITTED

    def is_running(self) -> bool:
        """Whether a command that a device has been given may have begun: everything that must end before it has
        ended.

        A device has several commands at a time and keeps their order itself; only their ends say which one it is
        working on. The launches of a run have one completion, and cannot all be running.
        """
        with self.executor.lock:  # no launch is added meanwhile
            if self.launches == 1 and all(is_complete(each) for each in self.predecessors()):
                self.was_running = True
            return self.was_running

    def is_open_at_most_at(self, number: int) -> bool:
        """Whether worker `number` is the only one, if any, whose steps are still to be completed. Whatever that
        worker does later comes after them.
        """
        workers = self.executor.all_workers
        return all(
            at == number or workers[at].completed >= step for at, step in enumerate(self.clock) if step
        )

    def predecessors(self) -> Iterator[Completion]:
        """What has to end before it begins: its wait list, and the command before it in an in-order queue."""
        yield from self.after
        if self.order is not None:
            yield self.order

    def begin(self) -> None:
        """A worker begins with it. Those who asked are told once everything that must end before it has ended."""
        earlier = next((each for each in self.predecessors() if not is_complete(each)), None)
        if earlier is None:
            self.completion.started()
        else:
            earlier.add_callback(lambda ended: self.begin())

    def hurry(self) -> None:
        is_open = False
        for worker, step in zip(self.executor.all_workers, self.clock, strict=True):
            if worker.completed < step:
                is_open = worker.hurried = True
                worker.wake()
        if not is_open:  # known without a marker, and nobody has looked
            call_soon(lambda: self.executor.settle((self,)))

    @property
    def is_awaited(self) -> bool:
        """Whether anybody asked to be called when it has ended, or a part of it."""
        return self.completion.is_awaited

    def settle(self) -> None:
        """It has ended. Under the executor's lock."""
        self.completion.settle(self.completion.error or 0)

    def abandon(self, status: int) -> None:
        """The process ends, and the command with it."""
        self.completion.abandon(status)

    def let_go(self) -> None:
        """The command has ended: keep nothing of it alive."""
        self.holdings = self.args = self.after = ()
        self.host = self.layout = self.order = None
        self.stages = {}
        for number, allocation in self.scratch.items():  # of a command that failed between
            self.executor.worker(self.prepared.stages[number].worker).memory.discard(allocation)
        self.scratch = {}


def is_complete(command: Completion) -> bool:
    """Whether a submitted command has ended as far as its workers know, even if it has not been settled."""
    progress = command.progress
    if not isinstance(progress, Job):
        return command.settled
    # every small read asks: without a generator
    for worker, step in zip(progress.executor.all_workers, progress.clock, strict=True):  # noqa: SIM110
        if worker.completed < step:
            return False
    return True
