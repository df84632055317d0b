"""Plans that are made on views of the buffers (`planner.views`), for launches whose plans were not filled in.

Decides nothing beside what a fault of ours means: the planner makes the plan of the whole.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from vdev.planner.directory import BufferState
from vdev.planner.habits import Habit
from vdev.planner.instructions import Plan
from vdev.planner.launch_request import LaunchOptions, LaunchRequest
from vdev.planner.views import plan_in_views
from vdev.session.requests import EvaluationFault

logger = logging.getLogger("vdev.session.view_plans")

#: set by tests: called with each plan that was made on views, and what it is for
check: Callable[[Plan, Sequence[BufferState], LaunchRequest, LaunchOptions, Habit], None] | None = None


def view_plan(states: Sequence[BufferState], request: LaunchRequest, options: LaunchOptions) -> Plan | None:
    """The plan of a launch on which the planner alone decides; None if it has to look at more than views."""
    habits = request.habits
    habit = None if habits is None else habits.find(request.ndrange.num_groups, options.workers)
    if habit is None:
        return None
    try:
        plan = plan_in_views(states, request, options, habit)
    except EvaluationFault:
        raise
    except Exception:
        # A fault of ours must not become the program's.
        logger.exception("an internal error: a plan could not be made on views")
        return None
    if plan is not None:
        if check is not None:
            check(plan, states, request, options, habit)
        habit.left -= 1
    return plan
