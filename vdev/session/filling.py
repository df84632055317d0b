"""Launches that differ from earlier ones in their scalars alone: their plans are filled in, not made.

Decides which launches are alike, from which on a plan of theirs is made into one with parameters
(`planner.parameters`), and how many of these are kept. What such a plan is, and for which numbers it is one, the
planner decides.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vdev.planner.habits import Habit, Habits
from vdev.planner.instructions import Plan
from vdev.planner.parameters import Fill, Untraceable, taken_apart, trace_plan

if TYPE_CHECKING:
    from vdev.planner.directory import BufferState
    from vdev.planner.launches import LaunchOptions, LaunchRequest

logger = logging.getLogger("vdev.session.filling")

#: launches that are alike, before one of them is traced: to trace a plan takes as long as to make some twenty
MOST_PLANNED = 3
#: plans with parameters for launches that are alike, one for each set of conditions that were met
MOST_FORMS = 6
#: kinds of launches of one kernel that are told apart
MOST_KINDS = 256

#: set by tests: called with each plan that was filled in, and the launch that it is for
check: Callable[[Plan, Sequence[BufferState], LaunchRequest, LaunchOptions], None] | None = None


@dataclass(slots=True, eq=False)
class Form:
    """One plan with parameters; `kept` is for whoever fills it in."""

    fill: Fill
    kept: Any = None


@dataclass(slots=True, eq=False)
class _Kind:
    """Launches that are alike."""

    planned: int = 0  #: how many were planned by the planner since the last form
    forms: list[Form] = field(default_factory=list)
    hopeless: bool = False  #: tracing was given up


class Forms:
    """The plans with parameters of one kernel."""

    __slots__ = ("_kinds", "_last", "_options", "_varying", "filled", "traced")

    def __init__(self) -> None:
        self._kinds: dict[Any, _Kind] = {}
        self._options: LaunchOptions | None = None
        self._last: tuple[Any, ...] | None = None
        #: places among the scalars whose numbers were not always the same
        self._varying: tuple[int, ...] = ()
        self.filled = 0  #: plans that were filled in
        self.traced = 0  #: forms that were made

    def find(
        self,
        where: Any,
        scalars: tuple[Any, ...],
        states: Sequence[BufferState],
        options: LaunchOptions,
        habits: Habits,
        work_dim: int,
        request: Callable[[Sequence[Any]], LaunchRequest],
    ) -> tuple[Plan, Form] | None:
        """The plan of a launch, filled in; None where the planner has to make it.

        `where`: whatever else the plan depends on beside the scalars, the states, the options and the habits. `request`:
        the launch with other scalars, which may be traced.
        """
        last, self._last = self._last, scalars
        if last is None or options is not self._options:
            self._kinds.clear()
            self._options = options
            return None
        self._note_changes(last, scalars)
        apart = taken_apart(states)
        if apart is None:
            return None
        pattern, numbers = apart
        varying = self._varying
        habit = habits.find(work_dim, options.workers)
        cut = None if habit is None else (habit.cuts, habit.workers)
        constant = tuple(value for index, value in enumerate(scalars) if index not in varying)
        key = (where, constant, pattern, cut)
        kind = self._kinds.get(key)
        if kind is None:
            if len(self._kinds) >= MOST_KINDS:
                self._kinds.clear()
            kind = self._kinds[key] = _Kind()
        if kind.hopeless:
            return None
        changing = [scalars[index] for index in varying]
        values = [*changing, *numbers, 0.0 if habit is None else habit.cost]
        for form in kind.forms:
            plan = form.fill(values, states)
            if plan is not None:
                self.filled += 1
                if habit is not None:
                    habit.left -= 1
                if check is not None:
                    check(plan, states, request(scalars), options)
                return plan, form
        kind.planned += 1
        if kind.planned > MOST_PLANNED and len(kind.forms) < MOST_FORMS:
            kind.planned = 0
            self._trace(kind, scalars, pattern, numbers, habit, request, options)
        return None

    def _note_changes(self, last: tuple[Any, ...], scalars: tuple[Any, ...]) -> None:
        changed = {index for index, (old, new) in enumerate(zip(last, scalars, strict=True)) if old != new}
        # Only whole numbers are traced; what of others changes, makes launches differ.
        changed = {index for index in changed if type(scalars[index]) is int}
        if not changed.issubset(self._varying):
            self._varying = tuple(sorted(changed.union(self._varying)))
            self._kinds.clear()

    def _trace(
        self,
        kind: _Kind,
        scalars: tuple[Any, ...],
        pattern: Any,
        numbers: Sequence[int],
        habit: Habit | None,
        request: Callable[[Sequence[Any]], LaunchRequest],
        options: LaunchOptions,
    ) -> None:
        varying = self._varying

        def traced_request(traced: Sequence[Any]) -> LaunchRequest:
            values = list(scalars)
            for index, number in zip(varying, traced, strict=True):
                values[index] = number
            return request(values)

        changing = [scalars[index] for index in varying]
        try:
            fill = trace_plan(changing, pattern, numbers, habit, traced_request, options)
        except Untraceable as refusal:
            logger.debug("no plan with parameters: %s", refusal)
            kind.hopeless = True
            return
        except Exception:
            # A fault of ours must not become the program's: the planner goes on as before.
            logger.exception("a plan could not be traced")
            kind.hopeless = True
            return
        self.traced += 1
        kind.forms.append(Form(fill))
