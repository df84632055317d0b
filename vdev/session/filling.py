"""Launches that differ from earlier ones only in their scalars: their plans are filled in, not made.

Decides which launches are alike, after how many of them a plan with parameters is made (`planner.parameters`), and
how many such plans are kept. The planner decides what such a plan contains, and for which numbers it is valid.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from vdev.planner.habits import Habit, Habits
from vdev.planner.instructions import Plan
from vdev.planner.parameters import Form, Request, Windows, taken_apart, trace_plan, trace_windows
from vdev.planner.views import NotInView, views_of
from vdev.translators.values import dataclass

if TYPE_CHECKING:
    from vdev.planner.directory import BufferState
    from vdev.planner.launch_request import Evaluate, LaunchOptions, LaunchRequest
    from vdev.planner.views import View
    from vdev.translators.interpreter.summaries import AccessRange
    from vdev.translators.ranges.ndrange import Chunk
    from vdev.translators.ranges.region import Region

logger = logging.getLogger("vdev.session.filling")

T = TypeVar("T")

#: launches that are alike before one of them is traced: tracing a plan takes as long as making two to three, without
#: compiled numbers some seven, and is mostly for nothing if they are fewer; the number doubles with each trace that was of no use
MOST_PLANNED = 3
#: launches that are planned again with numbers that came before, on buffers in other states, after which they count as others do: most
#: find their plans again by then
MOST_AGAIN = 16
#: forms for launches that are alike, one for each set of conditions that has occurred, and their windows
MOST_FORMS, MOST_WINDOWS = 6, 12
#: launches of one kernel that are told apart by what is no number; patterns of what lies where they reach
MOST_KINDS = 256
#: launches of one kernel that are traced before that has been of use
MOST_AT_FIRST = 4
#: plans that a trace has to save, several times what it costs: each plan that was filled in is one of them
TRACE_COST = 20

#: set by tests: called with each plan that was filled in, and what it is for
check: Callable[[Plan, Sequence[BufferState], LaunchRequest, LaunchOptions, Habit | None], None] | None = None
#: and with the access ranges that were filled in, and the launch that they are for
check_ranges: Callable[[dict[Chunk, Sequence[AccessRange]], LaunchRequest], None] | None = None


@dataclass(slots=True, eq=False)
class Shape:
    """A form, and what its users keep with it."""

    form: Form
    kept: Any = None


class Found(NamedTuple):
    """A plan that was filled in."""

    plan: Plan
    longer: bool  #: whether it has more instructions than others of its shape
    shape: Shape


@dataclass(slots=True, eq=False)
class _Pattern:
    """Launches that find the same pattern in the bytes that they touch."""

    planned: int = 0  #: how many the planner has planned since the last trace
    most_planned: int = MOST_PLANNED
    #: the form that the last launch used comes first
    shapes: list[Shape] = field(default_factory=list)

    def fill(
        self, numbers: Sequence[Any], states: Sequence[BufferState], views: Sequence[View]
    ) -> Found | None:
        """The plan by one of the forms, as of `Form.fill`."""
        for place, shape in enumerate(self.shapes):
            filled = shape.form.fill(numbers, states, views)
            if filled is not None:
                if place:
                    self.shapes.insert(0, self.shapes.pop(place))
                return Found(filled[0], filled[1], shape)
        return None


@dataclass(slots=True, eq=False)
class _Kind:
    """Launches that are alike except for their numbers and for what they find."""

    planned: int = 0  #: how many with other numbers than before reached no window since one was traced
    again: int = 0  #: and with the same ones
    numbers: set[tuple[Any, ...]] = field(default_factory=set)  #: of those
    most_planned: int = MOST_PLANNED
    unfit: int = (
        0  #: how many have reached windows that do not go with their buffers since windows were traced
    )
    since_trace: int = 0  #: launches whose plans were not filled in since one was traced
    earned: int = 0  #: and those whose plans were
    #: those that the last launch reached come first
    windows: list[Windows] = field(default_factory=list)
    patterns: dict[Any, _Pattern] = field(default_factory=dict)


class _Case(NamedTuple):
    """One launch."""

    scalars: tuple[Any, ...]
    varying: tuple[int, ...]  #: places among the scalars of those that are traced
    states: Sequence[BufferState]
    habit: Habit | None
    request_for: Request  #: the launch for scalars, all of them
    options: LaunchOptions

    def request(self, traced: Sequence[Any]) -> LaunchRequest:
        """The launch for other numbers of those that vary."""
        values = list(self.scalars)
        for index, number in zip(self.varying, traced, strict=True):
            values[index] = number
        return self.request_for(values)


class Forms:
    """The plans with parameters of one kernel."""

    __slots__ = (
        "_asked",
        "_constant",
        "_kinds",
        "_last",
        "_options",
        "_others",
        "_others_planned",
        "_reached",
        "_unusual",
        "_varying",
        "_varying_of",
        "_windowed",
        "filled",
        "traced",
    )

    def __init__(self) -> None:
        self._kinds: dict[Any, _Kind] = {}
        self._options: LaunchOptions | None = None
        self._last: tuple[Any, ...] | None = None
        #: places among the scalars whose numbers were not always the same
        self._varying: tuple[int, ...] = ()
        self._constant: tuple[int, ...] = ()  #: the other places
        self._varying_of = self._others = _picker(())  #: give the numbers at these places
        #: where the last launch was counted, if the planner has to plan it; and whether it has no usual cut
        self._asked: _Pattern | _Kind | None = None
        self._unusual = False
        #: the windows that the last launch reached, its numbers and its habit
        self._reached: tuple[Windows, tuple[Any, ...], Habit | None] | None = None
        self._others_planned = 0  #: plans that the planner had to make
        self.filled = 0  #: plans that were filled in
        self.traced = 0  #: launches that were traced
        self._windowed = 0  #: launches whose windows were

    def find(
        self,
        where: Any,
        scalars: tuple[Any, ...],
        states: Sequence[BufferState],
        options: LaunchOptions,
        habits: Habits,
        groups: tuple[int, ...],
        request: Request,
    ) -> Found | None:
        """The plan of a launch, filled in; None if the planner has to make it.

        `groups`: how many work-groups it has. `where`: everything else that the plan depends on besides the scalars, the states,
        the options and the habits; told apart by its hash. `request`: the launch with other scalars, which may be traced.
        """
        last, self._last, self._asked = self._last, scalars, None
        self._reached = None
        if last is None or len(last) != len(scalars) or options is not self._options:
            self._kinds.clear()
            self._options = options
            self._part((), len(scalars))  # another number of dimensions has other places
            return None
        constant = self._others(scalars)
        if constant != self._others(last):
            self._note_changes(last, scalars)
            constant = self._others(scalars)
        habit = habits.find(groups, options.workers)
        kind = _entry(self._kinds, (where, constant, _cut_of(habit)), _Kind)
        case = _Case(scalars, self._varying, states, habit, request, options)
        try:
            found = self._fill(kind, case)
            if found is None and habit is None and self._reached is None:
                self._look_at_usual(where, constant, scalars, habits.latest(groups, options.workers))
        except Exception:
            # A fault of ours must not become the program's: the planner makes the plan.
            logger.exception("an internal error: a plan with parameters could not be filled in")
            self._kinds.clear()
            return None
        if found is None:
            self._others_planned += 1
        else:
            self.filled += 1
            if check is not None:
                check(found.plan, states, request(scalars), options, habit)
            if habit is not None:
                habit.left -= 1
        return found

    def _look_at_usual(
        self, where: Any, constant: tuple[Any, ...], scalars: tuple[Any, ...], habit: Habit | None
    ) -> None:
        """The usual cut is compared with others: what launches that took it have shown of its chunks holds for them now, too."""
        kind = self._kinds.get((where, constant, _cut_of(habit)))
        if habit is None or kind is None:
            return
        values = self._varying_of(scalars)
        for windows in kind.windows:
            if windows.of(values) is not None:
                self._reached = windows, values, habit
                return

    def _fill(self, kind: _Kind, case: _Case) -> Found | None:
        values, self._unusual = self._varying_of(case.scalars), case.habit is None
        for number, windows in enumerate(kind.windows):
            reached = windows.of(values)
            if reached is None:
                continue
            self._reached = windows, values, case.habit
            if not windows.fit(case.states):  # others with the same ranges may
                continue
            if number:
                kind.windows.insert(0, kind.windows.pop(number))
            kind.most_planned = MOST_PLANNED
            return self._fill_in(kind, case, values, windows, reached)
        if self._reached is not None:
            kind.most_planned = MOST_PLANNED
            self._trace_fitting(kind, case, values)
            return None
        # What comes with the same numbers again finds its plan again, once its buffers' states recur; where they do not, it is like others.
        if values in kind.numbers:
            kind.again += 1
            if kind.again <= MOST_AGAIN:
                return None
        kind.numbers.add(values)
        self._asked = kind
        kind.planned += 1
        if kind.planned > kind.most_planned:
            self._trace_windows(kind, case, values)
        return None

    def _fill_in(
        self, kind: _Kind, case: _Case, values: tuple[Any, ...], windows: Windows, reached: Sequence[Region]
    ) -> Found | None:
        """The plan of a launch that has reached these windows, which go with its buffers."""
        states = case.states
        views = views_of(states, reached, windows.pitches)
        apart = None if views is None else taken_apart(states, views)
        if views is None or apart is None:
            return None
        pattern: _Pattern = _entry(kind.patterns, (id(windows), apart[0]), _Pattern)
        cost = 0.0 if case.habit is None else case.habit.cost
        numbers = [*values, *apart[1], cost]
        found = pattern.fill(numbers, states, views)
        if found is not None:
            kind.earned += 1
            return found
        self._asked = pattern
        pattern.planned += 1
        kind.since_trace += 1
        if not self._is_due(kind, pattern):
            return None
        pattern.planned = kind.since_trace = kind.earned = 0
        self._asked = None
        self.traced += 1
        form = _traced(partial(trace_plan, values, *apart, case.habit, case.request, case.options, windows))
        if form is None:
            pattern.most_planned *= 2
            return None
        pattern.shapes.insert(0, Shape(form))
        return pattern.fill(numbers, states, views)  # the plan of this launch, too

    def _trace_windows(self, kind: _Kind, case: _Case, values: tuple[Any, ...]) -> None:
        """Trace the windows of a launch that has reached none, unless that is of no use."""
        if len(kind.windows) >= MOST_WINDOWS or not self._is_affordable(self._windowed):
            return
        kind.since_trace += kind.planned
        kind.planned, kind.most_planned = 0, 2 * kind.most_planned  # until one is reached again
        kind.numbers.clear()
        self._asked = None
        # Ranges of launches that are alike mostly have the same pitches: others would not go with the buffers' either.
        if kind.windows and not any(windows.fit(case.states) for windows in kind.windows):
            return
        self._windowed += 1
        made = _traced(partial(trace_windows, values, case.states, case.habit, case.request))
        if made is None:
            kind.most_planned *= 2  # what is in the way is mostly in the way of others as well
        else:
            kind.windows.append(made)

    def _trace_fitting(self, kind: _Kind, case: _Case, values: tuple[Any, ...]) -> None:
        """Trace the windows of a launch anew that has reached only such as do not go with the buffers' pitches, which were others or none
        when those were traced, if that comes up often. Those before stay: patterns are told apart by them.
        """
        kind.unfit += 1
        is_full = len(kind.windows) >= MOST_WINDOWS
        if kind.unfit <= MOST_PLANNED or is_full or not self._is_affordable(self._windowed):
            return
        kind.unfit = -2 * kind.most_planned  # until they are tried again
        self._windowed += 1
        made = _traced(partial(trace_windows, values, case.states, case.habit, case.request))
        if made is not None and made.fit(case.states):
            kind.windows.insert(0, made)

    def ranges(self, request: LaunchRequest) -> Evaluate:
        """What gives the access ranges of the chunks of the last launch, which is this one: those of the usual cut are
        filled in where launches like it were traced.
        """
        evaluate = request.evaluate
        if self._reached is None:
            return evaluate
        windows, values, habit = self._reached
        try:
            known = windows.ranges(values, habit, request)
        except Exception:
            # A fault of ours must not become the program's: they are evaluated.
            logger.exception("an internal error: access ranges could not be filled in")
            return evaluate
        if check_ranges is not None:
            check_ranges(known, request)

        def filled_or_evaluated(chunk: Chunk) -> Sequence[AccessRange]:
            found = known.get(chunk)
            return evaluate(chunk) if found is None else found

        return filled_or_evaluated

    def planned(self, plan: Plan) -> None:
        """The planner has made this plan for the last launch, which was not filled in."""
        # To trace one like it would be of no use if memory changes, or if all cuts were looked at.
        if self._asked is not None and (plan.growth or (self._unusual and len(plan.partition) > 1)):
            self._asked.planned -= 1

    def _is_due(self, kind: _Kind, pattern: _Pattern) -> bool:
        """Whether a launch that finds the pattern has to be traced: the pattern has come up often, or a second time
        while many launches of the kind have found none that they could use, or have used what was traced last.
        """
        if len(pattern.shapes) >= MOST_FORMS or not self._is_affordable(self.traced):
            return False
        worth = kind.since_trace > pattern.most_planned or kind.earned >= TRACE_COST
        return (pattern.planned > 1 and worth) or pattern.planned > pattern.most_planned

    def _is_affordable(self, traced: int) -> bool:
        """Whether so many traces, of plans or of windows, have saved as much as they cost. If not, the next one may still be of use
        where those before were not: it is made ever more rarely.
        """
        spent = traced - MOST_AT_FIRST - self.filled / TRACE_COST
        return spent < 0 or self._others_planned >= (2 << int(spent)) * 2 * TRACE_COST

    def _note_changes(self, last: tuple[Any, ...], scalars: tuple[Any, ...]) -> None:
        # Only whole numbers are traced; where others change, launches differ.
        changed = [
            index for index in self._constant if last[index] != scalars[index] and type(scalars[index]) is int
        ]
        if changed:
            self._part(tuple(sorted({*changed, *self._varying})), len(scalars))
            self._kinds.clear()

    def _part(self, varying: tuple[int, ...], count: int) -> None:
        """Take these places of `count` for those of numbers that vary."""
        self._varying = varying
        self._constant = tuple([index for index in range(count) if index not in varying])
        self._varying_of, self._others = _picker(varying), _picker(self._constant)


def _cut_of(habit: Habit | None) -> tuple[Any, ...] | None:
    return None if habit is None else (habit.cuts, habit.workers)


def _picker(places: tuple[int, ...]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """What gives the members of a tuple at these places."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda values: tuple([values[place] for place in places])


def _traced(trace: Callable[[], T]) -> T | None:
    """The result of a trace; None if it was of no use."""
    try:
        return trace()
    except NotInView as refusal:
        logger.debug("no plan with parameters: %s", refusal)
    except Exception:
        # A fault of ours must not become the program's: the planner goes on as before.
        logger.exception("an internal error: the making of a plan could not be traced")
    return None


def _entry(table: dict[Any, Any], key: Any, make: Callable[[], Any]) -> Any:
    found = table.get(key)
    if found is None:
        if len(table) >= MOST_KINDS:
            table.clear()
        found = table[key] = make()
    return found
