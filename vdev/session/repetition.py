"""Repetitions: a launch made again at once, without looking at its arguments or its plan.

Decides whether the session still stands as the launch left it: nothing has been submitted since that changes anything
for it (`vdev.executor.run` knows), and its plan has left every buffer as it found it. A launch like it then has the same
plan. It is counted and recorded like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from vdev.executor.run import Others, Run, SplitRun, open_run

if TYPE_CHECKING:
    from threading import RLock

    from vdev.executor.completion import Completion
    from vdev.executor.executor import Executor
    from vdev.observe.recorder import Recorder
    from vdev.session.commands import Argument, Launch
    from vdev.session.launching import CachedPlan
    from vdev.session.ordering import QueueOrder
    from vdev.translators.ranges.ndrange import NDRange


class Repetition:
    """Launches like the last one, whose plan this is. `lock`: the session's; `order`: the queue of all of them.

    Those that end together have one completion; `completion` is the last one's.
    """

    __slots__ = (
        "_any_values",
        "_args",
        "_cached",
        "_lock",
        "_observers",
        "_order",
        "_recorder",
        "_run",
        "completion",
        "used",
    )

    def __init__(
        self,
        lock: RLock,
        cached: CachedPlan,
        launch: Launch,
        order: QueueOrder,
        run: Run | SplitRun,
        recorder: Recorder | None,
        observers: list[Any],
    ) -> None:
        self._lock = lock
        self._cached = cached
        self.completion = run.completion
        self._order = order
        #: whether it has made a launch; apart from this, which keeps memory alive
        self.used = [False]
        self._run = run
        #: whether its plan depends on its buffers and places alone, neither on values nor on the index space
        self._any_values = cached.direct and not launch.shared
        self._args = launch.args
        self._recorder = recorder
        self._observers = observers

    def again(self, queue: QueueOrder) -> bool:
        """Launch once more in `queue`. False where that takes a submission: then nothing has happened."""
        return self._once_more(queue, None)

    def with_others(self, queue: QueueOrder, args: Sequence[Argument], ndrange: NDRange) -> bool:
        """The same with other values among its arguments, and another index space."""
        known = self._args
        if not self._any_values or len(args) != len(known):
            return False
        for arg, before in zip(args, known, strict=True):
            if arg is not before and not (type(arg) is bytes and type(before) is bytes):
                return False
        return self._once_more(queue, (args, ndrange))

    def _once_more(self, queue: QueueOrder, others: Others | None) -> bool:
        if queue is not self._order:
            return False
        with self._lock:
            if self._observers:
                return False
            try:
                if self._recorder is not None:
                    if not self._recorded(self._recorder, queue, others):
                        return False
                elif not self._launch(queue, others):
                    return False
            finally:
                if self._run.completion is not self.completion:
                    self._remember(queue)
            self._cached.outcome.launches += 1
            self.used[0] = True
        return True

    def _launch(self, queue: QueueOrder, others: Others | None) -> bool:
        run = self._run
        if others is None:
            return run.again(queue.last)
        return type(run) is Run and run.with_others(*others, queue.last)

    def _remember(self, queue: QueueOrder) -> None:
        self.completion = self._run.completion
        queue.remember(self.completion)

    def _recorded(self, recorder: Recorder, queue: QueueOrder, others: Others | None) -> bool:
        outer = recorder.enter(queue)
        try:
            if not self._launch(queue, others):
                return False
            if self._cached.shape is not None:
                recorder.submitted(self._run.number, self._cached.shape)
            return True
        finally:
            recorder.leave(outer)


def open_repetition(
    lock: RLock,
    cached: CachedPlan,
    launch: Launch,
    completion: Completion,
    queue: QueueOrder,
    executor: Executor,
    recorder: Recorder | None,
    observers: list[Any],
) -> Repetition | None:
    """What repeats the launch that was submitted last; None where nothing can."""
    if not cached.steady or cached.traffic is not None or observers:
        return None
    run = open_run(executor, completion)
    return None if run is None else Repetition(lock, cached, launch, queue, run, recorder, observers)
