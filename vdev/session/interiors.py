"""Interiors of launches' chunks (`vdev.planner.interiors`): which launches get them.

Decides for which kernels it pays that chunks begin before all of their bytes have come, by what their launches were measured to take, and
which plans it is not worth looking at. How a plan is divided is the planner's.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from vdev.executor.executor import Executor
from vdev.executor.launch_step import LaunchRecipe
from vdev.executor.prepare import PreparedPlan
from vdev.planner.footprints import PointerArg
from vdev.planner.instructions import Plan
from vdev.planner.interiors import divided
from vdev.planner.launch_request import Evaluate
from vdev.session.commands import Launch

logger = logging.getLogger("vdev.session.interiors")

#: plans of a kernel that are divided, of those that were filled in: a program that keeps having new ones would look at the chunks of each
_MOST_FILLED = 64


class Interiors:
    """Whether launches of one kernel get them. Under the session's lock."""

    __slots__ = ("_left", "wanted")

    def __init__(self, *, wanted: bool = False) -> None:
        self.wanted = wanted
        self._left = _MOST_FILLED

    def prepared(
        self,
        launch: Launch,
        plan: Plan,
        pointers: Sequence[PointerArg],
        evaluate: Evaluate,
        recipe: LaunchRecipe,
        executor: Executor,
        whole: PreparedPlan,
        *,
        filled: bool = False,
    ) -> tuple[PreparedPlan, Plan | None]:
        """What is to be submitted for a launch, of which `whole` is the plan as it is; and the plan with interiors, if that is it."""
        if not self.wanted or not plan.moved or len(plan.partition) < 2 or plan.growth:
            return whole, None
        summary = launch.kernel.summary
        if summary is None or summary.images or launch.shared or (filled and not self._left):
            return whole, None
        self._left -= filled
        found = divided(plan, pointers, launch.ndrange.num_groups, evaluate)
        if found.plan is None:
            logger.debug("%s over %s: no interiors: %s", launch.kernel.name, launch.ndrange, found.reason)
            return whole, None
        prepared = executor.prepare(found.plan, recipe)
        prepared.whole = whole
        return prepared, found.plan
