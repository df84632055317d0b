"""Recalls: commands on several workers that are made again in the states in which they were made before.

Programs repeat a handful of commands, each of which finds its buffers as the same command has found them a period ago. Such a
command has the plan that it had then. Decides whether everything is as it was that its plan depends on; what hands the plan over
(`vdev.executor.together`) knows by itself whether that is possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from vdev.executor import plan_form
from vdev.executor.compiled_plan import likely_plan, listed_plan
from vdev.session.commands import BufferArg
from vdev.session.telling import began, number_of, tell_recalled, tell_transfer

if TYPE_CHECKING:
    from typing import TypeAlias

    from vdev.executor.compiled_plan import CompiledPlan
    from vdev.executor.completion import Completion
    from vdev.planner.directory import BufferState
    from vdev.session.buffers import VirtualBuffer
    from vdev.session.choosing import Choosing
    from vdev.session.commands import Argument, Launch
    from vdev.session.core import SessionCore
    from vdev.session.launch_plans import CachedPlan, LaunchCache, ReadyPlan
    from vdev.session.ordering import QueueOrder
    from vdev.translators.ranges.ndrange import NDRange

    #: a buffer's states before a launch: with something pending that is folded for it, None where nothing is; and as its plan finds it
    Before: TypeAlias = "tuple[BufferState | None, BufferState]"


def is_watched(session: SessionCore) -> bool:
    """Whether anybody looks at single commands, or any is held back: then none is recalled."""
    return bool(session.observers or session.checker is not None or session.deferrals.held)


def were_submitted(after: Sequence[Completion], queue: QueueOrder) -> bool:
    """Whether all that a command waits for was submitted, to whatever workers, and none of it is known to have failed."""
    if queue.profiled or (queue.barrier is not None and not queue.barrier.settled):
        return False
    for earlier in after:
        stretch = getattr(earlier, "stretch", None)
        if stretch is not None and stretch.parts is None:
            continue  # it was handed over, and no command with it is known to have failed
        if earlier.settled:
            if earlier.status < 0:
                return False
        elif earlier.progress is None or earlier.error is not None:
            return False
    return True


def recall_transfer(
    session: SessionCore,
    found: ReadyPlan,
    buffers: Sequence[VirtualBuffer],
    after: Sequence[Completion],
    queue: QueueOrder,
    name: str,
    args: tuple[Any, ...] = (),
) -> Completion | None:
    """Hand over a transfer whose plan this is once more; None if it has to be submitted. `name`: under which the caller counts it.
    `args`: as in `Executor.submit`. Under the session's lock; the caller has looked who watches.
    """
    together, prepared = session.executor.together, found.prepared
    if together is None or prepared.compiled is None or found.plan.growth or not were_submitted(after, queue):
        return None
    started, holdings = began(session.recorder), [buffer.holdings for buffer in buffers]
    plan = likely_plan(prepared, holdings, args)
    if plan is None:
        return None
    completion = together.hand_over(plan, (prepared, holdings, args, None, (), after))
    if completion is None:
        return None
    if session.recorder is not None:
        tell_transfer(session, number_of(completion, session.executor), started, queue, found, name, holdings)
    number = session.number = session.number + 1
    for buffer, state in zip(buffers, found.plan.states, strict=True):
        buffer.state, buffer.used = state, number
    remember(queue, completion)
    return completion


def remember(queue: QueueOrder, completion: Any) -> None:
    """A command was handed over whose completion this is, one of its own or a position in a stretch."""
    stretch = getattr(completion, "stretch", None)
    last = completion if stretch is None else stretch.completion
    if queue.last is not last:
        queue.remember(last)


class RecalledLaunch:
    """A launch like one that was submitted, with the same buffers in the same states, in any queue. A `Repeater`."""

    takes_values = True  # it looks at those that matter
    __slots__ = (
        "_before", "_cache", "_cached", "_generation", "_ndrange", "_plan", "_session", "_sources", "_span", "_unfolded",
        "_values", "_writers", "used",
    )  # fmt: skip

    def __init__(
        self,
        session: SessionCore,
        cache: LaunchCache,
        cached: CachedPlan,
        launch: Launch,
        sources: Sequence[int],
        plan: CompiledPlan,
        before: Sequence[Before],
        span: int,
    ) -> None:
        """`sources`: by slot, an argument that is its buffer. `span`: over how many workers it was planned (`LaunchCache.span_of`)."""
        self._session, self._cache, self._cached, self._plan = session, cache, cached, plan
        self._ndrange, self._sources = launch.ndrange, sources
        self._before = [state for _, state in before]
        #: slots of buffers in which something pending is folded first, and the state that such a buffer is in before that
        self._unfolded = [(slot, pending) for slot, (pending, _) in enumerate(before) if pending is not None]
        self._span, self._generation = span, cache.generation
        #: by argument on whose value the plan depends: that value
        self._values = [(index, launch.args[index]) for index in sorted(launch.kernel.scalars)]
        #: by slot: what its buffer is told of who has changed it
        self._writers = [
            arg.buffer.writer for arg in map(launch.args.__getitem__, sources) if type(arg) is BufferArg
        ]
        self.used = [False]

    def again(
        self,
        queue: QueueOrder,
        ndrange: NDRange,
        args: Sequence[Argument],
        after: Sequence[Completion] = (),
    ) -> Completion | None:
        """As `Repeater.again`: where it is not possible, nothing has happened."""
        session, cached = self._session, self._cached
        session.lock.acquire()  # `with` takes twice as long, and nothing is raised in between (`vdev.process.interrupts`)
        try:
            started = began(session.recorder)
            buffers = [args[index].buffer for index in self._sources]  # type: ignore[union-attr]
            if (
                ndrange is not self._ndrange
                or is_watched(session)
                or not were_submitted(after, queue)
                or not self._is_as_before(args, buffers)
                or not self._is_ready()
                or is_to_be_weighed(session, self._cache, cached, ndrange, buffers)
                or (self._unfolded and not self._fold(buffers))
            ):
                return None
            holdings = [buffer.holdings for buffer in buffers]
            together = session.executor.together
            assert together is not None, "there are compiled plans"
            completion = together.hand_over(self._plan, (cached.prepared, holdings, args, ndrange, (), after))
            if completion is None:
                return None
            if session.recorder is not None:
                tell_recalled(session, completion, started, queue, self._cache, cached, args, buffers)
            self._note(buffers)
            remember(queue, completion)
        finally:
            session.lock.release()
        return completion

    def _is_as_before(self, args: Sequence[Argument], buffers: Sequence[VirtualBuffer]) -> bool:
        """Whether all that the plan depends on is what it was, once what is pending is folded."""
        for buffer, state in zip(buffers, self._before, strict=True):
            if buffer.state is not state and not self._is_unfolded(buffers, buffer):
                return False
        for index, value in self._values:
            if args[index] != value:
                return False
        cache = self._cache
        return cache.generation == self._generation and cache.span_of(buffers) == self._span

    def _is_unfolded(self, buffers: Sequence[VirtualBuffer], buffer: VirtualBuffer) -> bool:
        """Whether something is pending in a buffer that is folded for the launch."""
        return any(buffers[slot] is buffer and buffer.state is pending for slot, pending in self._unfolded)

    def _fold(self, buffers: Sequence[VirtualBuffer]) -> bool:
        """Fold what is pending, as before other uses. Whether that leaves the states that the plan was made for: it may be folded elsewhere
        where the workers have no room.
        """
        self._session.folding.fold([buffers[slot] for slot, _ in self._unfolded])
        return all(buffers[slot].state is self._before[slot] for slot, _ in self._unfolded)

    def _is_ready(self) -> bool:
        """Whether the launch can be handed over just now."""
        together = self._session.executor.together
        return together is not None and together.is_ready()

    def _note(self, buffers: Sequence[VirtualBuffer]) -> None:
        """The launch takes place."""
        session, cached = self._session, self._cached
        number = session.number = session.number + 1
        for buffer, state, writer in zip(buffers, cached.states, self._writers, strict=True):
            buffer.used = number
            if buffer.state is not state:
                buffer.state = state
            if buffer.writer is not writer:
                buffer.writer = writer
        cached.outcome.launches += 1
        if cached.traffic is not None:
            cached.traffic.count()
        self.used[0] = True


def takes_no_plan(
    choosing: Choosing, cache: LaunchCache, ndrange: NDRange, buffers: Sequence[VirtualBuffer]
) -> bool:
    """Whether a launch runs on one worker without a plan."""
    if not (choosing.without_plans or choosing.alone):
        return False
    return choosing.keeper_without_plans(buffers, cache.tally, ndrange.nitems) is not None


def is_to_be_weighed(
    session: SessionCore,
    cache: LaunchCache,
    cached: CachedPlan,
    ndrange: NDRange,
    buffers: Sequence[VirtualBuffer],
) -> bool:
    """Whether a launch with that plan may take another way, or is to be looked at."""
    choosing = session.choosing
    if choosing is None:
        return False
    if takes_no_plan(choosing, cache, ndrange, buffers):
        return True
    stake = cached.stake
    if stake is not None and choosing.counts(stake, 0.0, cache.tally, steady=cached.steady):
        return True
    return choosing.balances(cache, cached, ndrange)


def recall_form(
    session: SessionCore, cache: LaunchCache, launch: Launch, after: Sequence[Completion], queue: QueueOrder
) -> tuple[Completion, CachedPlan, list[VirtualBuffer]] | None:
    """Hand over a launch whose plan has a form, whatever its buffers: what tells of its end, the plan and the buffers by slot. None
    if it has to be submitted: then nothing has happened. Under the session's lock; the caller notes that the launch takes place.
    """
    together = session.executor.together
    if together is None or is_watched(session) or not were_submitted(after, queue):
        return None
    cached, buffers = cache.known_form(launch)
    form = None if cached is None else cached.prepared.form
    if cached is None or form is None or _differs(form.others, launch.args):
        return None
    if cached.plan.growth and session.room.lacks(cached.plan):
        return None
    if not together.is_ready_for_forms() or is_to_be_weighed(session, cache, cached, launch.ndrange, buffers):
        return None
    holdings = [buffer.holdings for buffer in buffers]
    entry = (cached.prepared, holdings, launch.args, launch.ndrange, (), after)
    completion = together.hand_over(form, entry)
    if completion is None:
        return None
    remember(queue, completion)
    return completion, cached, buffers


def _differs(others: Sequence[tuple[int, Any]], args: Sequence[Any]) -> bool:
    """Whether arguments that are neither values nor buffers are other ones."""
    return any(args[at] != arg for at, arg in others)


def prepare_form(
    session: SessionCore,
    cache: LaunchCache,
    cached: CachedPlan,
    launch: Launch,
    buffers: Sequence[VirtualBuffer],
) -> None:
    """A launch was submitted that nothing makes again: once there have been some whose buffers were new, its plan gets a form."""
    if session.executor.together is None or cached.direct or launch.shared or cached.unfolded:
        return
    holdings = [buffer.holdings for buffer in buffers]
    grows = bool(cached.plan.growth)
    if plan_form.prepare_form(session.executor, cached.prepared, holdings, launch.args, grows=grows):
        cache.has_forms = True


def open_recall(
    session: SessionCore,
    cache: LaunchCache,
    cached: CachedPlan,
    launch: Launch,
    buffers: Sequence[VirtualBuffer],
    before: Sequence[Before],
) -> RecalledLaunch | None:
    """What makes the launch again that was submitted last, with these `buffers` by slot, which were in these states `before`; None where
    nothing can, or where it has not been compiled.
    """
    if session.executor.together is None or cached.direct or launch.shared or cached.plan.growth:
        return None
    plan = listed_plan(cached.prepared, [buffer.holdings for buffer in buffers], launch.args)
    sources = None if plan is None else sources_of(launch.args, buffers)
    if plan is None or sources is None:
        return None
    return RecalledLaunch(session, cache, cached, launch, sources, plan, before, cache.span_of(buffers))


def sources_of(args: Sequence[Argument], buffers: Sequence[VirtualBuffer]) -> list[int] | None:
    """By slot, an argument that is its buffer; None where the launch reaches one by its address alone."""
    found = {arg.buffer: index for index, arg in enumerate(args) if isinstance(arg, BufferArg)}
    return [found[buffer] for buffer in buffers] if all(buffer in found for buffer in buffers) else None
