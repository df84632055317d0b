"""Repetitions: launches that are repeated at once, without looking at their arguments or their plan.

Decides whether the session is still as the launch left it: nothing submitted since has changed anything for it
(`vdev.executor.repeated_launch` knows), and its plan left every buffer as it found it. The same launch then has the same plan. It is
counted and recorded like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from vdev.executor.repeated_launch import Run, open_run
from vdev.session.ordering import all_complete
from vdev.session.recalls import sources_of

if TYPE_CHECKING:
    from threading import RLock

    from vdev.executor.completion import Completion
    from vdev.executor.executor import Executor
    from vdev.executor.holdings import Holdings
    from vdev.observe.recorder import Recorder
    from vdev.session.buffers import VirtualBuffer
    from vdev.session.commands import Argument, Launch
    from vdev.session.launch_plans import CachedPlan
    from vdev.session.ordering import QueueOrder
    from vdev.translators.ranges.ndrange import NDRange


class Repetition:
    """Launches like the last one, whose plan this is. `lock`: the session's; `order`: the queue of all of them."""

    __slots__ = (
        "_cached",
        "_lock",
        "_ndrange",
        "_observers",
        "_order",
        "_recorder",
        "_run",
        "_sources",
        "takes_values",
        "used",
    )

    def __init__(
        self,
        lock: RLock,
        cached: CachedPlan,
        ndrange: NDRange,
        sources: Sequence[int],
        order: QueueOrder,
        run: Run,
        recorder: Recorder | None,
        observers: list[Any],
        *,
        takes_values: bool,
    ) -> None:
        """`sources`: by slot, an argument that is its buffer. `takes_values`: the plan depends on no argument that is a value."""
        self._lock = lock
        self._cached = cached
        self._ndrange = ndrange
        self._sources = sources
        self._order = order
        #: whether it has made a launch; apart from this, which keeps memory alive
        self.used = [False]
        self._run = run
        self._recorder = recorder
        self._observers = observers
        self.takes_values = takes_values

    def again(
        self,
        queue: QueueOrder,
        ndrange: NDRange,
        args: Sequence[Argument],
        after: Sequence[Completion] = (),
    ) -> Completion | None:
        """Launch once more in `queue`, over the same index space, with the same arguments, but for their values if it
        `takes_values`: what tells of its end. None where that takes a submission: then nothing has happened.
        """
        if queue is not self._order or ndrange is not self._ndrange:
            return None
        if after and not all_complete(after):
            return None
        self._lock.acquire()  # `with` takes twice as long, and nothing is raised in between (`vdev.process.interrupts`)
        try:
            if self._observers:
                return None
            recorder, shape = self._recorder, self._cached.shape
            started = 0 if recorder is None else perf_counter_ns()
            completion = self._run.again(args, self._holdings)
            if completion is None:
                return None
            # It exchanges nothing, and its buffers are as the same launch has left them.
            if recorder is not None and shape is not None:
                recorder.handed_over(self._run.number, started, queue, shape)
            if queue.last is not completion:
                queue.remember(completion)
            self._cached.outcome.launches += 1
            self.used[0] = True
        finally:
            self._lock.release()
        return completion

    def _holdings(self, args: Sequence[Argument]) -> list[Holdings]:
        """The records of a launch's buffers, by slot."""
        return [args[index].buffer.holdings for index in self._sources]  # type: ignore[union-attr]


def open_repetition(
    lock: RLock,
    cached: CachedPlan,
    launch: Launch,
    buffers: Sequence[VirtualBuffer],
    completion: Completion,
    queue: QueueOrder,
    executor: Executor,
    recorder: Recorder | None,
    observers: list[Any],
) -> Repetition | None:
    """What repeats the launch that was submitted last, with these `buffers` by slot; None where nothing can."""
    if not cached.steady or cached.traffic is not None or observers:
        return None
    sources = sources_of(launch.args, buffers)
    run = None if sources is None else open_run(executor, completion)
    if run is None or sources is None:
        return None
    takes_values = not launch.kernel.scalars
    return Repetition(
        lock, cached, launch.ndrange, sources, queue, run, recorder, observers, takes_values=takes_values
    )
