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
from vdev.planner.interiors import divided, gain
from vdev.planner.launch_request import Evaluate
from vdev.session.commands import Launch

logger = logging.getLogger("vdev.session.interiors")

#: plans of a kernel that are made although they might be filled in, which gives no interiors, or looked at in vain: a program that keeps
#: having new ones would have each made
_MOST_LOOKS = 64
#: launches in a row that would have gained, after which they are taken to, and the part of their time that counts as a gain
_ENOUGH, _LEAST_PART = 3, 0.05


class Interiors:
    """Whether launches of one kernel get them. Under the session's lock."""

    __slots__ = ("_gained", "_left", "found", "is_measured", "wanted")

    def __init__(self) -> None:
        self.wanted = self.is_measured = False
        self._left = _MOST_LOOKS
        self.found = 0  #: plans with interiors that were made
        self._gained = 0  #: launches in a row that would have

    def begin(self, switch: bool | None) -> None:
        """The kernel is met. `switch`: as of `Session`."""
        self.wanted, self.is_measured = switch is True, switch is None

    def measured(self, before: float, kernel: float, launch: float, host: float) -> bool:
        """A launch of whole chunks was measured: whether plans are to be made anew, with interiors. Arguments as of `gain`; `host`: what
        handing over one with interiors takes the host.
        """
        if not self.is_measured or self.wanted:
            return False
        found = gain(before, kernel, launch) if host <= kernel else 0.0
        self._gained = self._gained + 1 if found > _LEAST_PART * (before + kernel) else 0
        self.wanted = self._gained >= _ENOUGH
        return self.wanted

    def want_a_plan(self) -> bool:
        """Whether a launch's plan is to be made although it might be filled in: what is filled in has whole chunks."""
        if not self.wanted or self._left <= 0:
            return False
        self._left -= 1
        return True

    def prepared(
        self,
        launch: Launch,
        plan: Plan,
        pointers: Sequence[PointerArg],
        evaluate: Evaluate,
        recipe: LaunchRecipe,
        executor: Executor,
        whole: PreparedPlan,
    ) -> tuple[PreparedPlan, Plan | None]:
        """What is to be submitted for a launch, of which `whole` is the plan as it is; and the plan with interiors, if that is it."""
        if not self.wanted or not plan.moved or len(plan.partition) < 2 or plan.growth:
            return whole, None
        summary = launch.kernel.summary
        if summary is None or summary.images or launch.shared or self._left < 0:
            return whole, None
        found = divided(plan, pointers, launch.ndrange.num_groups, evaluate)
        self._left -= found.plan is None
        if found.plan is None:
            logger.debug("%s over %s: no interiors: %s", launch.kernel.name, launch.ndrange, found.reason)
            return whole, None
        self.found += 1
        prepared = executor.prepare(found.plan, recipe)
        prepared.whole = whole
        return prepared, found.plan
