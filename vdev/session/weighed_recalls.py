"""Launches that are to be weighed and come again: weighed, and handed over like those that are not.

A launch is weighed now and then, and as long as nothing is gained, each is. If those were submitted, what they take of the host would be
far more than launches take once they come again, and by that many workers would be judged. Decides which launches can be weighed here:
those whose plan is compiled, or one of its form (`vdev.executor.refilled_plan`), and of which no sample is wanted.
"""

from __future__ import annotations

import time
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING

from vdev.executor.compiled_plan import listed_plan
from vdev.process.processor_time import busy_ns
from vdev.session.host_times import Clocks
from vdev.session.recalls import is_watched, remember, takes_no_plan, were_submitted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vdev.executor.completion import Completion
    from vdev.session.buffers import VirtualBuffer
    from vdev.session.choosing import Choosing
    from vdev.session.commands import Launch
    from vdev.session.core import SessionCore
    from vdev.session.launch_plans import CachedPlan, LaunchCache
    from vdev.session.ordering import QueueOrder


def recall_weighed(
    session: SessionCore, cache: LaunchCache, launch: Launch, after: Sequence[Completion], queue: QueueOrder
) -> tuple[Completion, CachedPlan, list[VirtualBuffer]] | None:
    """Weigh a launch whose plan is compiled, and hand it over: as `recalls.recall_form`. None also where it is not to be weighed, or
    where its way changes: then it has to be submitted. It may have been weighed by then, which it is once more.
    """
    choosing, together = session.choosing, session.executor.together
    if choosing is None or together is None or is_watched(session) or not were_submitted(after, queue):
        return None
    cached, buffers = cache.known(launch)
    if cached is None or cached.direct or cached.unfolded or cached.plan.growth or cached.filled:
        return None
    if takes_no_plan(choosing, cache, launch.ndrange, buffers):
        return None
    plan = listed_plan(cached.prepared, [buffer.holdings for buffer in buffers], launch.args)
    if plan is None or not together.is_ready() or not choosing.weighs_only(cache, cached, launch.ndrange):
        return None
    if changes_way(session, choosing, cache, launch, cached, buffers):
        return None
    entry = (cached.prepared, [buffer.holdings for buffer in buffers], launch.args, launch.ndrange, (), after)
    hand_over = partial(together.hand_over, plan, entry)
    completion = _hand_over(session, choosing, cache, cached, hand_over)
    if completion is None:
        return None
    remember(queue, completion)
    return completion, cached, buffers


def recall_refilled(
    session: SessionCore,
    cache: LaunchCache,
    launch: Launch,
    after: Sequence[Completion],
    queue: QueueOrder,
    find: Callable[[LaunchCache, Launch], tuple[CachedPlan, list[VirtualBuffer], float]],
) -> tuple[Completion, CachedPlan, list[VirtualBuffer]] | None:
    """Hand over a launch as a plan of its form was compiled, and weigh it where it is to be: as `recall_weighed`. `find`: its plan, which
    is made if there is none yet, its buffers, and how many seconds that took; they are found again if it has to be submitted.
    """
    choosing, together = session.choosing, session.executor.together
    if together is None or is_watched(session) or not were_submitted(after, queue):
        return None
    if session.executor.damaged or not together.is_ready_for_forms():
        return None
    if choosing is not None and _takes_no_plan(choosing, cache, launch):
        return None
    cached, buffers, thought = find(cache, launch)
    refills = cached.prepared.refills
    if refills is None or refills.plan is None or cached.unfolded or cached.plan.growth:
        return None
    entry = (cached.prepared, [buffer.holdings for buffer in buffers], launch.args, launch.ndrange, (), after)
    hand_over = partial(refills.plan.hand_over_like, together, entry)
    weighs = False if choosing is None else choosing.weighs(cache, cached, launch.ndrange, thought)
    if choosing is not None and weighs:
        if changes_way(session, choosing, cache, launch, cached, buffers, thought):
            return None
        completion = _hand_over(session, choosing, cache, cached, hand_over)
    else:
        completion = None if weighs is None else hand_over()
    if completion is None:
        return None
    remember(queue, completion)
    return completion, cached, buffers


def _takes_no_plan(choosing: Choosing, cache: LaunchCache, launch: Launch) -> bool:
    """As `takes_no_plan`, for who has not looked the launch's buffers up."""
    if not (choosing.without_plans or choosing.alone):
        return False
    return takes_no_plan(choosing, cache, launch.ndrange, cache.known(launch)[1])


def changes_way(
    session: SessionCore,
    choosing: Choosing,
    cache: LaunchCache,
    launch: Launch,
    cached: CachedPlan,
    buffers: Sequence[VirtualBuffer],
    thought: float = 0.0,
) -> bool:
    """Weigh a launch: whether it takes another way. `thought`: seconds that its plan took."""
    waits = session.executor.waits
    clocks = Clocks(get_ident(), waits, time.perf_counter_ns(), busy_ns())
    changes = choosing.weigh(launch, cache.tally, cached, buffers, thought, clocks)
    choosing.weighing_took((busy_ns() - clocks.busy) * 1e-9)
    return changes


def _hand_over(
    session: SessionCore,
    choosing: Choosing,
    cache: LaunchCache,
    cached: CachedPlan,
    hand_over: Callable[[], Completion | None],
) -> Completion | None:
    """Hand over a launch that was weighed, and note what that takes; None if it has to be submitted."""
    executor = session.executor
    waits, began = executor.waits, busy_ns()
    completion = hand_over()
    if completion is None:
        return None
    if executor.waits == waits:  # who waits for a device takes no time of the host's
        choosing.handed_over(cache.tally, cached, (busy_ns() - began) * 1e-9)
    if choosing.take_recut():
        executor.standing = object()  # plans are made anew: none is repeated
    return completion
