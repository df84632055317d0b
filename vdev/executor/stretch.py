"""Stretches: commands that the submitting threads hand to one worker, keeping for each only what would be needed
after a failure.

If a command is one step on memory that is already allocated, and its worker is idle and the only one concerned with
its buffers, it waits for nothing, and nobody waits for it alone. The commands between two marks are one job, whatever
they do and whichever queue they come from; the completion of each is only a position in its stretch until somebody
asks for more. To follow a failure, a stretch is turned into the separate jobs that its commands would have been.
Decides when a command can be handed over in this way; if it cannot, nothing has happened, and it is submitted like
any other.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from vdev.executor.completion import COMPLETE, RUNNING, SUBMITTED, Callback, Completion
from vdev.executor.job import Job, JobExecutor
from vdev.executor.mark import Mark
from vdev.process.ending import is_over
from vdev.process.interrupts import waits

if TYPE_CHECKING:
    from vdev.executor.holdings import Holdings
    from vdev.executor.prepare import PreparedPlan
    from vdev.executor.worker import Worker
    from vdev.translators.ranges.ndrange import NDRange


logger = logging.getLogger("vdev.executor")


#: a command that was handed over, with what a `Job` would keep of it: its plan, the holdings of its buffers, its
#: arguments, index space and places, and what it waits for
Entry: TypeAlias = tuple[
    "PreparedPlan",
    "Sequence[Holdings]",
    "Sequence[Any]",
    "NDRange | None",
    "tuple[tuple[int, int, int], ...]",
    "Sequence[Completion]",
]


class Part(Completion):
    """The completion of one command of a stretch; it becomes a full completion when it is first looked at."""

    __slots__ = ("index", "stretch")

    def __init__(self, stretch: Stretch, index: int) -> None:
        self.stretch = stretch
        self.index = index

    @property
    def number(self) -> int:
        """The command's, for records."""
        return self.stretch.number + self.index

    @property
    def _is_done(self) -> bool:
        """Whether it is known to have ended well. A command that fails becomes a job of its own before it counts as
        complete.
        """
        stretch = self.stretch
        step = stretch.first + self.index
        return stretch.executor.all_workers[stretch.worker].completed >= step and stretch.parts is None

    @property
    def status(self) -> int:
        if self._is_done:
            return COMPLETE
        # The commands of a stretch end together; since they run one after another, they cannot all be running.
        state = super().status
        return SUBMITTED if state == RUNNING and self.index else state

    @property
    def settled(self) -> bool:
        return self._is_done or super().settled

    @waits
    def wait(self) -> int:
        stretch = self.stretch
        if stretch.parts is None and not self._is_done:
            stretch.wait_for(self.index)
        if self._is_done and not is_over():
            return COMPLETE
        return super().wait()

    def add_callback(self, function: Callback, state: int = COMPLETE) -> None:
        self.stretch.look_at(self)  # which takes a lock that comes before those of completions
        super().add_callback(function, state)

    def __getattr__(self, name: str) -> Any:
        # Reached only for a slot that has no value yet, or a name that a completion does not have.
        self.stretch.look_at(self)
        return object.__getattribute__(self, name)


class Timed(Completion):
    """The completion of a command that is a stretch of its own, because its times are wanted."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(profiled=True)


class Stretch(Job):
    """The commands `entries`, numbered from `number` on, each with a step of its worker's: those from `first` on."""

    __slots__ = ("_looked_at", "ends", "entries", "first", "is_open", "last", "mark", "parts", "worker")

    def __init__(
        self,
        executor: JobExecutor,
        number: int,
        worker: Worker,
        step: int,
        prepared: PreparedPlan,
        timed: Completion | None = None,
    ) -> None:
        """`timed`: the completion of the only command that it will have, whose times are wanted."""
        super().__init__(executor, number, prepared, (), timed or Completion())
        self.launches = 0
        self.worker = worker.number
        self.first = step
        self.mark: Mark = worker.next_mark
        self.last = number - 1  #: the number of its last command
        self.bases = [each.submitted for each in executor.all_workers]
        self.bases[self.worker] = step - 1
        self.entries: list[Entry] = []
        #: of each, the operations handed over since the mark before when it was through
        self.ends: list[int] = []
        #: its commands as jobs of their own, after a failure; the stretch itself counts no longer
        self.parts: list[Job] | None = None
        self.is_open = True  #: whether more may be entered: it has not ended, nor met a failure
        #: by index: the completions that somebody has looked at
        self._looked_at: dict[int, Completion] = {} if timed is None else {0: timed}

    @property
    def successors(self) -> Sequence[Job] | None:
        return self.parts

    def is_running(self) -> bool:
        """Whether the first of them may have begun: its worker has done what came before."""
        return self.executor.worker(self.worker).completed >= self.first - 1

    def look_at(self, part: Part) -> None:
        """Make a full completion of `part`. Any thread may call this, also one that has the executor's lock."""
        index = part.index
        with self.executor.lock:
            if _is_made(part):
                return
            status = self.completion.status if self.completion.settled else None
            Completion.__init__(part)
            if self.parts is not None:
                _take_over(self.parts[index], part)
            elif status is not None:
                part.settle(status)
            else:
                self._looked_at[index] = part
                part.bind(self)

    @waits
    def wait_for(self, index: int) -> None:
        """Return when the command with that index, and those before it, are complete, or when something has failed."""
        self.executor.worker(self.worker).wait_for(self.first + index)

    @waits
    def end(self) -> bool:
        """Wait until all of it is complete: True, or False if something has failed. It is not settled: more may
        follow.
        """
        self.executor.worker(self.worker).wait_for(self.first + self.launches - 1)
        return self.parts is None and not is_over()

    def one_by_one(self) -> Sequence[Job]:
        """Turn its commands into jobs of their own. Under the executor's lock."""
        self.is_open = False
        self.parts = [self._alone(index, entry) for index, entry in enumerate(self.entries)]
        self.entries, self._looked_at = [], {}
        return self.parts

    def _alone(self, index: int, entry: Entry) -> Job:
        completion = self._looked_at.get(index) or Completion()
        prepared, holdings, args, ndrange, places, after = entry
        job = Job(self.executor, self.number + index, prepared, holdings, completion)
        job.args, job.ndrange, job.places, job.after = args, ndrange, places, after
        job.markers = self.markers  # of a command whose times are wanted
        job.clock[self.worker] = self.first + index
        job.bases = self.bases.copy()
        job.bases[self.worker] = self.first + index - 1
        completion.carry_on(job)
        return job

    def numbered(self, end: int) -> Sequence[tuple[int, int]]:
        return list(zip(range(self.number, self.last + 1), self.ends, strict=True))

    def among(self, operations: Collection[int], start: int, end: int, mark: object) -> Sequence[Job]:
        """Those of its commands that one of these operations belongs to, once they are separate jobs."""
        if self.parts is None:
            return (self,)
        starts = (start, *self.ends)
        return [
            part
            for part, first, last in zip(self.parts, starts, self.ends, strict=False)
            if any(first <= number < last for number in operations)
        ]

    def settle(self) -> None:
        """All of it has ended well: commands that fail are settled one by one."""
        self.is_open = False
        for completion in self._looked_at.values():
            completion.settle(COMPLETE)
        super().settle()

    def abandon(self, status: int) -> None:
        """The process is ending: nobody waits for any of it any longer."""
        self.is_open = False
        for completion in self._looked_at.values():
            completion.abandon(status)
        super().abandon(status)

    def let_go(self) -> None:
        """It has ended: keep nothing of it alive."""
        super().let_go()
        self.entries = []
        self._looked_at = {}


@waits
def is_done_at_once(completion: Completion) -> bool:
    """If `completion` is that of a command in a stretch, wait for the stretch: whether its commands are complete.

    False for any other completion, and after a failure: then nothing has been waited for to the end.
    """
    progress = completion.progress
    return type(progress) is Stretch and progress.parts is None and progress.end()


def _is_made(part: Part) -> bool:
    try:
        object.__getattribute__(part, "settled_ns")
    except AttributeError:
        return False
    return True


def _take_over(job: Job, part: Part) -> None:
    """Make `part` the completion of `job`."""
    before = job.completion
    part.error, part.reason = before.error, before.reason
    if before.settled:
        part.settle(before.status)
    else:
        job.completion = part
        part.bind(job)
