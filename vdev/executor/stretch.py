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
import threading
import time
from collections.abc import Callable, Collection, Sequence
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


_NO_MARK = Mark()  #: of what has ended
#: held while what is found of a command's times is noted, and no other lock is taken meanwhile
_telling = threading.RLock()
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


class Timer:
    """The times of one command that was handed over, whose back end tells them."""

    __slots__ = ("_ask", "_behind", "_number", "_queued_ns", "_told", "known")

    def __init__(
        self,
        queued_ns: int,
        ask: Callable[[], tuple[int, int]],
        number: int = 0,
        told: list[int] | None = None,
        behind: Completion | None = None,
    ) -> None:
        """`queued_ns`: when the program called. `ask`: as `Backend.timer`. `number`: the command's. `told`: of its worker's commands, the
        number of the last one whose times were told, and when it ended. `behind`: as of `Timed`.
        """
        self._queued_ns = queued_ns
        self._ask: Callable[[], tuple[int, int]] | None = ask
        self._number, self._told = number, told
        self._behind = behind
        self.known: tuple[int, int, int, int] | None = None  #: once somebody has asked

    def times(self) -> tuple[int, int, int, int]:
        """As `Completion.times`; the command is complete. Any thread may ask, also one that has the executor's lock."""
        # In this order: who is the first to know the times lets go of `ask` first.
        behind, ask = self._behind, self._ask
        if self.known is None and ask is not None:
            start, end = ask()
            before = None if behind is None else behind.times
            self._tell(max(start, self._queued_ns, 0 if before is None else before[3]), end)
        known = self.known
        assert known is not None, "it is there before `ask` goes"
        return known

    def _tell(self, start: int, end: int) -> None:
        """They are known, unless another thread has found them meanwhile, whose answer stands."""
        with _telling:
            if self.known is not None:
                return
            told, queued = self._told, self._queued_ns
            if told is not None and told[0] < self._number:  # a clock that is compared again may be set back
                start = max(start, told[1])
                told[:] = self._number, max(start + 1, end)
            self.known = queued, queued, start, max(start + 1, end)
            self._ask = None
            self._behind = None  # they keep events


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
    def is_submitted(self) -> bool:
        return not self._is_done

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

    @property
    def times(self) -> tuple[int, int, int, int] | None:
        timers = self.stretch.timers
        timer = None if timers is None else timers.get(self.index)
        if timer is None:
            return super().times
        return timer.known or (timer.times() if self.status == COMPLETE else None)

    def __getattr__(self, name: str) -> Any:
        # Reached only for a slot that has no value yet, or a name that a completion does not have.
        self.stretch.look_at(self)
        return object.__getattribute__(self, name)


class Timed(Completion):
    """A command's times are wanted. Where only markers tell them, the command is a stretch of its own, and this is its completion."""

    __slots__ = ("behind",)

    def __init__(self, behind: Completion | None) -> None:
        super().__init__(profiled=True)
        #: the command before it in an in-order queue, if the times of that one are told in another way: it begins no earlier than that ends
        self.behind = behind


class Clocked(Completion):
    """The completion of a stretch, or of a read that the calling thread does by itself."""

    __slots__ = ("timer",)

    def __init__(self, queued_ns: int = 0) -> None:
        """`queued_ns`: when the program called, of a read."""
        super().__init__()
        self.queued_ns = queued_ns
        self.timer: Timer | None = None  #: of the last of its commands whose times are wanted

    @classmethod
    def nothing(cls, last: Completion | None) -> Clocked:
        """Of a command that has nothing to do, and nothing to wait for: `last`, the one before it in its queue, has ended."""
        completion = cls(time.perf_counter_ns())

        def ask() -> tuple[int, int]:
            times = None if last is None else last.times
            return (0, 0) if times is None else (times[3], times[3])

        completion.end(ask)
        return completion

    def end(self, ask: Callable[[], tuple[int, int]]) -> None:
        """The command is done when the program gets its event. `ask`: as for `Timer`."""
        self.timer = Timer(self.queued_ns, ask)
        self.settle(COMPLETE)

    @property
    def times(self) -> tuple[int, int, int, int] | None:
        timer = self.timer
        return None if timer is None or self.status != COMPLETE else timer.times()


class Stretch(Job):
    """The commands `entries`, numbered from `number` on, each with a step of its worker's: those from `first` on."""

    __slots__ = (
        "_looked_at", "ends", "entries", "first", "is_open", "last", "mark", "parts", "timers", "worker",
    )  # fmt: skip

    def __init__(
        self,
        executor: JobExecutor,
        number: int,
        worker: Worker,
        step: int,
        prepared: PreparedPlan,
        timed: Timed | None = None,
    ) -> None:
        """`timed`: the completion of the only command that it will have, whose times are wanted."""
        super().__init__(executor, number, prepared, (), timed or Clocked())
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
        #: by index: those whose times are wanted, where the back end tells them
        self.timers: dict[int, Timer] | None = None

    @property
    def successors(self) -> Sequence[Job] | None:
        return self.parts

    def time(self, part: Part, timed: Timed, ask: Callable[[], tuple[int, int]], told: list[int]) -> None:
        """The times of `part`, which has just been entered, are wanted; the program's call was that of `timed`. `ask`, `told`: as for
        `Timer`.
        """
        if self.timers is None:
            self.timers = {}
        self.timers[part.index] = timer = Timer(timed.queued_ns, ask, part.number, told, timed.behind)
        if type(self.completion) is Clocked:
            self.completion.timer = timer

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

    def numbered(self, end: int, mark: object) -> Sequence[tuple[int, int]]:
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

    @property
    def is_awaited(self) -> bool:
        return any(completion.is_awaited for completion in self._looked_at.values())

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
        """It has ended: keep nothing of it alive. Its mark has it among its jobs."""
        super().let_go()
        self.entries = []
        self._looked_at = {}
        self.mark = _NO_MARK


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
