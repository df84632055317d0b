"""Order between commands: queues, wait lists and user events.

Decides when a command may be planned: not before every user event that it waits for, directly or through
others, has been set (the directory must not change for a command that may never run). Everything later than
that is ordered by the bytes that commands touch (`vdev.planner`, `vdev.executor`), and by explicit waits.
Never looks at a command itself.

Two kinds of order are kept apart. *Awaited* completions are the program's wait list: the command must not
start before they are complete and fails when one of them fails (specification 5.11). A *predecessor* is the
command before in an in-order queue: it must only be submitted first, and have ended before this one is
reported to have ended; its failure is not passed on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from vdev.errors import OUT_OF_RESOURCES
from vdev.executor.completion import COMPLETE, Completion

#: A queue forgets completions that have ended when it remembers this many, and then whenever those left
#: have doubled.
_MOST_REMEMBERED = 256


def all_complete(after: Sequence[Completion]) -> bool:
    """Whether all of a wait list has ended, and well, as is known already: PyOpenCL's arrays keep the events of what has filled them,
    and each kernel that is given an array waits for these.
    """
    return all(each.settled and each.status == COMPLETE for each in after)


class QueueOrder:
    """What one command queue remembers of its commands."""

    __slots__ = ("_sweep_at", "barrier", "in_order", "last", "number", "outstanding", "profiled")

    def __init__(self, *, in_order: bool, profiled: bool) -> None:
        self.in_order = in_order
        self.profiled = profiled
        self.number = 0  #: the number that the recorder gave it, at its first command
        #: commands that may not have ended, oldest first
        self.outstanding: list[Completion] = []
        self._sweep_at = _MOST_REMEMBERED
        #: out-of-order queues: what every later command waits for
        self.barrier: Completion | None = None
        #: in-order queues: the command submitted last
        self.last: Completion | None = None

    def remember(self, completion: Completion) -> None:
        self.outstanding.append(completion)
        self.last = completion
        if len(self.outstanding) >= self._sweep_at:
            self.unsettled()
            self._sweep_at = max(_MOST_REMEMBERED, 2 * len(self.outstanding))

    def unsettled(self) -> tuple[Completion, ...]:
        """Commands that may not have ended, oldest first; the others are forgotten. Under the session's lock."""
        found = self.outstanding = [item for item in self.outstanding if not item.settled]
        return tuple(found)


class UserCompletion(Completion):
    """A completion that the program settles (clSetUserEventStatus)."""

    __slots__ = ("_release",)

    def __init__(self, release: Callable[[Completion], None]) -> None:
        super().__init__()
        self._release = release

    @property
    def status(self) -> int:
        final = self._final
        # A user event is created in the state CL_SUBMITTED (specification 5.11).
        return 2 if final is None else final

    def set_status(self, status: int) -> None:
        """`status` is 0 (complete) or a negative error; only the first call counts."""
        self.settle(status)
        self._release(self)


class Deferred:
    """A command that waits for completions which have not been submitted yet."""

    __slots__ = ("awaited", "completion", "missing", "start")

    def __init__(
        self,
        completion: Completion,
        awaited: Sequence[Completion],
        missing: set[Completion],
        start: Callable[[], None],
    ) -> None:
        self.completion = completion
        self.awaited = awaited
        self.missing = missing
        self.start = start


class Deferrals:
    """Commands held back, and what holds each of them back. Used under the session's lock only."""

    def __init__(self) -> None:
        self._waiting: dict[Completion, list[Deferred]] = {}
        #: commands that are held back
        self.held: set[Completion] = set()

    def lose(self) -> None:
        """In a forked child: what is held back is the parent's, and no longer waits for anything."""
        for completion in self.held | set(self._waiting):
            completion.abandon(OUT_OF_RESOURCES)
        self.held, self._waiting = set(), {}

    def __bool__(self) -> bool:
        """Whether any command is held back."""
        return bool(self.held)

    def is_open(self, completion: Completion) -> bool:
        """Whether `completion` is held back itself, or a user event that is not set."""
        if completion in self.held:
            return True
        return isinstance(completion, UserCompletion) and not completion.settled

    def blockers(self, completions: Iterable[Completion]) -> set[Completion]:
        """Those of `completions` that have not been submitted yet."""
        if not self.held:
            return {c for c in completions if isinstance(c, UserCompletion) and not c.settled}
        return {c for c in completions if self.is_open(c)}

    def hold(self, deferred: Deferred) -> None:
        """Keep a command back until everything in `deferred.missing` is released."""
        self.held.add(deferred.completion)
        for blocker in deferred.missing:
            self._waiting.setdefault(blocker, []).append(deferred)

    def release(self, completion: Completion) -> list[Deferred]:
        """`completion` was submitted, set or has failed. The commands that nothing holds back any longer, in order."""
        self.held.discard(completion)
        free = []
        for deferred in self._waiting.pop(completion, ()):
            deferred.missing.discard(completion)
            if not deferred.missing:
                free.append(deferred)
        return free


def first_failure(awaited: Iterable[Completion]) -> int | None:
    """The negative status of the first completion that has failed; None if none has."""
    for completion in awaited:
        if completion.settled and completion.status < COMPLETE:
            return completion.status
    return None
