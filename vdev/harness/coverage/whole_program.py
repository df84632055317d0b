"""A whole program's coverage: each launch of its session first runs on copies of its buffers, with counting.

Decides how several observers watch one session's launches. It takes the place of `vdev.check`
(`vdev.session.core.Checker`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vdev.backends.base import Backend
from vdev.check.checking import LaunchChecker
from vdev.errors import BackendError
from vdev.executor.completion import Completion
from vdev.executor.executor import Executor
from vdev.harness.checked_launch import Argument, Memory, whole
from vdev.harness.coverage.counting import Counters, Counting
from vdev.harness.launch_arguments import arguments_of
from vdev.planner.instructions import Plan
from vdev.planner.links import LinkCosts
from vdev.process import switches
from vdev.session.buffers import VirtualBuffer
from vdev.session.commands import Launch
from vdev.session.core import Checker
from vdev.session.programs import SessionProgram
from vdev.session.shadow_runs import ShadowFailure, Shadows
from vdev.start import current

Maker = Callable[[Executor, LinkCosts], Checker]


class CountedLaunches:
    """Counts the launches of one session. Used under the session's lock."""

    failure: Exception | None = None  #: no program ends because it is not counted

    def __init__(self, executor: Executor, links: LinkCosts, counting: Counting) -> None:
        self._executor = executor
        self._shadows = Shadows(executor, links)
        self._counting = counting

    def built(self, program: SessionProgram) -> None:
        self._counting.built(program)

    def begin(self, launch: Launch, buffers: list[VirtualBuffer], plan: Plan) -> None:
        """Run the launch, with counting, on copies of its buffers' contents."""
        try:
            args = self._arguments(launch, buffers)
        except (ShadowFailure, BackendError, MemoryError) as reason:
            self._counting.lost(launch.kernel.program, launch.kernel.name, str(reason))
            return
        kernel = launch.kernel
        self._counting.launch(kernel.program, kernel.name, args, launch.ndrange, self._call)

    def end(self, launch: Launch, buffers: list[VirtualBuffer], case: object, completion: Completion) -> None:
        """Nothing is compared afterwards."""

    def _call(self, function: Callable[[Backend], Counters]) -> Counters:
        return self._executor.call(0, function)

    def _arguments(self, launch: Launch, buffers: list[VirtualBuffer]) -> list[Argument]:
        contents = [self._shadows.content(buffer) for buffer in buffers]
        memories = [Memory(content, whole(len(content))) for content in contents]
        return arguments_of(launch, buffers, memories)


def count_programs(counting: Counting, others: Sequence[Maker] = ()) -> None:
    """Have the process's session count what its launches cover, after the checks of `others`, or those that
    VDEV_CHECK asks for. A session that is already open is not changed.
    """
    if current.current_session() is not None:
        counting.data.notes.add(("the virtual device", 0, "it was opened before coverage was switched on"))
        return
    makers = [*others]
    if not others and switches.check():
        makers.append(LaunchChecker)
    makers.append(lambda executor, links: CountedLaunches(executor, links, counting))
    current.check_with(lambda executor, links: Several([make(executor, links) for make in makers]))


class Several:
    """Several checkers as one: each gets the launch in turn, on its own copies."""

    def __init__(self, checkers: Sequence[Checker]) -> None:
        self._checkers = tuple(checkers)

    @property
    def failure(self) -> Exception | None:
        return next((each.failure for each in self._checkers if each.failure is not None), None)

    def built(self, program: SessionProgram) -> None:
        for checker in self._checkers:
            checker.built(program)

    def begin(self, launch: Launch, buffers: list[VirtualBuffer], plan: Plan) -> list[object]:
        return [checker.begin(launch, buffers, plan) for checker in self._checkers]

    def end(self, launch: Launch, buffers: list[VirtualBuffer], case: object, completion: Completion) -> None:
        assert isinstance(case, list)
        for checker, each in zip(self._checkers, case, strict=True):
            checker.end(launch, buffers, each, completion)
