"""Repetitions: launches that are repeated at once, without looking at their arguments or their plan.

Decides whether the session is still as the launch left it: nothing submitted since has changed anything for it
(`vdev.executor.repeated_launch` knows), and its plan left every buffer as it found it. The same launch then has the same plan. It is
counted and recorded like any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vdev.executor.repeated_launch import Run, open_run

if TYPE_CHECKING:
    from threading import RLock

    from vdev.executor.completion import Completion
    from vdev.executor.executor import Executor
    from vdev.observe.recorder import Recorder
    from vdev.session.commands import Launch
    from vdev.session.launch_plans import CachedPlan
    from vdev.session.ordering import QueueOrder
    from vdev.translators.ranges.ndrange import NDRange


class Repetition:
    """Launches like the last one, whose plan this is. `lock`: the session's; `order`: the queue of all of them.

    They end together and have one completion.
    """

    __slots__ = (
        "_cached",
        "_lock",
        "_ndrange",
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
        ndrange: NDRange,
        order: QueueOrder,
        run: Run,
        recorder: Recorder | None,
        observers: list[Any],
    ) -> None:
        self._lock = lock
        self._cached = cached
        self.completion = run.completion
        self._ndrange = ndrange
        self._order = order
        #: whether it has made a launch; apart from this, which keeps memory alive
        self.used = [False]
        self._run = run
        self._recorder = recorder
        self._observers = observers

    def again(self, queue: QueueOrder, ndrange: NDRange) -> bool:
        """Launch once more in `queue`, over the same index space. False where that takes a submission: then nothing has
        happened.
        """
        if queue is not self._order or ndrange is not self._ndrange:
            return False
        with self._lock:
            if self._observers:
                return False
            if self._recorder is not None:
                if not self._recorded(self._recorder, queue):
                    return False
            elif not self._run.again():
                return False
            self._cached.outcome.launches += 1
            self.used[0] = True
        return True

    def _recorded(self, recorder: Recorder, queue: QueueOrder) -> bool:
        outer = recorder.enter(queue)
        try:
            if not self._run.again():
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
    return None if run is None else Repetition(lock, cached, launch.ndrange, queue, run, recorder, observers)
