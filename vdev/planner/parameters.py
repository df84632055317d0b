"""Plans with parameters: a plan whose numbers are functions of a launch's scalars and of where its buffers' bytes lie.

Launches that differ in their scalars mostly have the same plan with other numbers. Such a plan is made once by
`plan_launch` itself, on traced numbers (`translators.tracing`): what comes of it is the plan, and the conditions under
which the planner would do the same again. Both are written down as one Python function, which for other numbers gives
their plan, or None where a condition does not hold. So a plan that is filled in is the one that the planner makes.

Decides how states are taken apart into a pattern and numbers. Which plans are worth it is the caller's to say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from math import inf
from typing import Any

from vdev.planner.directory import BufferState, Replicas, Valid, interned
from vdev.planner.habits import Habit, Habits
from vdev.planner.instructions import Plan
from vdev.planner.launches import LaunchOptions, LaunchRequest, plan_launch
from vdev.translators.ranges.patterns import is_array, numbers_of, parts_of, region_of, remade, source_of
from vdev.translators.ranges.region import Region
from vdev.translators.ranges.tracing import Number, Real, Trace, show, variables_in

#: bands of all states together, above which a plan is no longer filled in: the trace would be long
MOST_NUMBERS = 400


class Untraceable(Exception):
    """The plan cannot be made on traced numbers."""


class TracedState(BufferState):
    """A state of traced numbers: not interned, as it is none yet."""

    __slots__ = ()

    def followed_by(self, valid: Any, replicas: Any) -> BufferState:
        kept = sorted(((holder, region) for holder, region in valid if region), key=_holder)
        return TracedState(self.nbytes, tuple(kept), tuple(sorted(replicas, key=_holder)), self.kept)


def _holder(item: tuple[Any, ...]) -> Any:
    return item[0]


class _Usual(Habits):
    """A kernel's habits while a plan is traced: the usual cut is taken, or nothing is."""

    __slots__ = ("_habit",)

    def __init__(self, habit: Habit | None) -> None:
        super().__init__()
        self._habit = habit

    def find(self, work_dim: int, workers: tuple[int, ...]) -> Habit | None:
        if self._habit is None:
            raise Untraceable("all cuts are looked at")
        return self._habit

    def learn(self, *args: Any) -> None:
        raise Untraceable("all cuts are looked at")


#: what of states is no number
StatesPattern = tuple[Any, ...]


def taken_apart(states: Sequence[BufferState]) -> tuple[StatesPattern, list[int]] | None:
    """The pattern of states and their numbers; None where there are too many, or no pattern."""
    numbers: list[int] = []
    found = []
    for state in states:
        valid = []
        for holder, region in state.valid:
            pattern = numbers_of(region, numbers)
            if pattern is None or len(numbers) > MOST_NUMBERS:
                return None
            valid.append((holder, pattern))
        workers = []
        for worker, start, stop in state.replicas:
            workers.append(worker)
            numbers.append(start)
            numbers.append(stop)
        found.append((state.nbytes, tuple(valid), tuple(workers)))
    return tuple(found), numbers


def _put_together(pattern: StatesPattern, numbers: Sequence[Any]) -> list[BufferState]:
    """States of a pattern, of traced numbers."""
    rest = iter(numbers)
    found: list[BufferState] = []
    for nbytes, held, workers in pattern:
        valid: Valid = tuple((holder, region_of(of_region, rest)) for holder, of_region in held)
        replicas: Replicas = tuple((worker, next(rest), next(rest)) for worker in workers)
        found.append(TracedState(nbytes, valid, replicas))
    return found


#: what fills in a plan: from the numbers of scalars, of states and the habit's cost, and from the states; None where the
#: planner would not do the same
Fill = Callable[[Sequence[Any], Sequence[BufferState]], Plan | None]


def trace_plan(
    scalars: Sequence[int],
    pattern: StatesPattern,
    numbers: Sequence[int],
    habit: Habit | None,
    request: Callable[[Sequence[Any]], LaunchRequest],
    options: LaunchOptions,
) -> Fill:
    """What fills in plans like that of this launch. Raises Untraceable.

    `request`: the launch for scalars that may be traced. `habit`: the cut that is usual, None for a launch that is not
    cut at all.
    """
    trace = Trace()
    traced = [trace.parameter(value) for value in scalars]
    states = _put_together(pattern, [trace.parameter(value) for value in numbers])
    cost: Any = trace.real_parameter(0.0 if habit is None else habit.cost)
    usual = None if habit is None else replace(habit, cost=cost, left=2)
    try:
        made = plan_launch(states, replace(request(traced), habits=_Usual(usual)), options)
        if usual is not None and usual.left != 1:
            raise Untraceable("the usual cut was not taken")
        return _Writer(trace, states).function(made)
    finally:
        trace.closed = True


class _Writer:
    """Writes down a plan of traced numbers as a function that makes it."""

    def __init__(self, trace: Trace, states: Sequence[BufferState]) -> None:
        """`states`: those that the plan is for; what it leaves as it was is the same object."""
        self._trace = trace
        self._lines: list[str] = []
        self._names: dict[str, Any] = {"region": remade, "interned": interned, "inf": inf}
        self._constants: dict[int, str] = {}
        self._objects: dict[int, tuple[str, Any]] = {
            id(state): (f"states[{slot}]", state) for slot, state in enumerate(states)
        }
        self._forms: dict[str, str] = {}
        self._used: set[int] = set()
        self._traced: dict[int, tuple[bool, Any]] = {}

    def function(self, plan: Plan) -> Fill:
        result = self._show(plan)
        conditions = self._trace.conditions()
        for text in conditions:
            self._use(text)
        count = len(self._trace.parameters)
        unpacked = [f"{', '.join(self._trace.parameters)}, = numbers"] if count else []
        test = [f"if not ({' and '.join(conditions)}): return None"] if conditions else []
        lines = [*unpacked, *self._trace.definitions(self._used), *test, *self._lines, f"return {result}"]
        text = "def fill(numbers, states):\n" + "".join(f"    {line}\n" for line in lines)
        exec(compile(text, "<a plan with parameters>", "exec"), self._names)
        filled: Fill = self._names["fill"]
        return filled

    def _use(self, text: str) -> None:
        self._used.update(variables_in(text))

    def _show(self, found: Any) -> str:
        """The expression of anything that a plan is made of."""
        if type(found) is Number:
            return self._number(found)
        if type(found) is Real:
            raise Untraceable("a cost in the plan")
        if not self._has_numbers(found):
            return self._constant(found)
        if type(found) is tuple:
            return f"({', '.join(map(self._show, found))},)"
        known = self._objects.get(id(found))
        if known is None:
            if isinstance(found, Region):
                if is_array(found):
                    raise Untraceable("a region without a pattern")
                text = source_of(found, self._show)
            elif isinstance(found, BufferState):
                parts = [str(found.nbytes), self._show(found.valid), self._show(found.replicas), str(found.kept)]
                text = f"interned(({', '.join(parts)}, False))"
            elif is_dataclass(found) and not isinstance(found, type):
                kind = type(found)
                self._names[kind.__name__] = kind
                parts = [self._show(getattr(found, item.name)) for item in fields(found) if item.init]
                text = f"{kind.__name__}({', '.join(parts)})"
            else:
                raise Untraceable(f"a {type(found).__name__} in the plan")
            known = self._objects[id(found)] = self._line(text), found
        return known[0]

    def _line(self, text: str) -> str:
        name = f"o{len(self._lines)}"
        self._lines.append(f"{name} = {text}")
        return name

    def _number(self, found: Number) -> str:
        text = show(found.terms, found.constant)
        name = self._forms.get(text)
        if name is None:
            self._use(text)
            name = self._forms[text] = self._line(text)
        return name

    def _constant(self, found: Any) -> str:
        if found is None or type(found) in (int, bool):
            return repr(found)
        name = self._constants.get(id(found))
        if name is None:
            name = self._constants[id(found)] = f"c{len(self._constants)}"
            self._names[name] = found
        return name

    def _has_numbers(self, found: Any) -> bool:
        if type(found) in (int, bool, str, float, bytes) or found is None:
            return False
        if type(found) in (Number, Real, TracedState):
            return True
        known = self._traced.get(id(found))
        if known is None:
            known = self._traced[id(found)] = any(map(self._has_numbers, _parts(found))), found
        return known[0]


def _parts(found: Any) -> Sequence[Any]:
    if type(found) is tuple:
        return found
    if isinstance(found, Region):
        return parts_of(found)
    if isinstance(found, BufferState):
        return found.valid, found.replicas
    if is_dataclass(found):
        return [getattr(found, item.name) for item in fields(found)]
    raise Untraceable(f"a {type(found).__name__} in the plan")
