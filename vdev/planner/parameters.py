"""Plans with parameters: a plan whose numbers are functions of a launch's scalars and of where its buffers' bytes lie.

Launches that differ in their scalars mostly have the same plan with other numbers. Such a plan is made once by
`plan_launch` itself, on traced numbers (`translators.tracing`): what comes of it is the plan, and the conditions under
which the planner would do the same again. Both are written down as one Python function, which for other numbers gives
their plan, or None where a condition does not hold. So a plan that is filled in is the one that the planner makes.

A program that moves on over a matrix leaves another directory behind it at each launch, but around what a launch
touches it looks the same each time. So there are two such functions. One gives from the scalars, for each buffer, the
*window*: all bytes that the launch touches. The other is the plan for the *views* of the states, what lies in the
windows; whatever it changes there is put back into the whole. What the planner does that does not go by bytes in the
window, it does by itself: plans that change memory, or bring together what is scattered, are not traced, nor are
launches whose ranges do not go with how their buffers lie.

Decides how states are taken apart. Which plans are worth it is the caller's to say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from math import inf
from operator import itemgetter
from typing import Any

from vdev.planner.builder import PlanBuilder
from vdev.planner.directory import BufferState, Replicas, Valid, interned
from vdev.planner.footprints import Footprint, gather
from vdev.planner.habits import Habit, Habits
from vdev.planner.instructions import Copy, Launch, Plan, Reserve, Touch
from vdev.planner.launches import LaunchOptions, LaunchRequest, plan_launch
from vdev.planner.links import LinkCosts
from vdev.planner.partitioner import make_partition
from vdev.planner.tidying import MOST_BOXES, MOST_HELD, bring_together, most_boxes
from vdev.translators.ranges.ndrange import Chunk, whole_chunk
from vdev.translators.ranges.patterns import (
    go_together,
    is_array,
    numbers_of,
    parts_of,
    pitches_of,
    region_of,
    remade,
    replaced,
    source_of,
)
from vdev.translators.ranges.region import EMPTY, Region
from vdev.translators.ranges.tracing import Number, Real, Trace, show, variables_in

#: numbers of all views together, above which a plan is not filled in: the trace would be long
MOST_NUMBERS = 400

#: what a launch is for numbers that may be traced
Request = Callable[[Sequence[Any]], LaunchRequest]
View = dict[int, Region]  #: by holder, what it has in the window
Pitches = tuple[int, ...]


class Untraceable(Exception):
    """The plan cannot be made on traced numbers."""


# windows ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Windows:
    """What launches touch, as a function of their scalars."""

    #: by slot; None where ranges are made in another way for these scalars
    of: Callable[[Sequence[int]], tuple[Region, ...] | None]
    #: by slot, those of the chunks' ranges
    pitches: tuple[frozenset[Pitches], ...]

    def fit(self, states: Sequence[BufferState]) -> bool:
        """Whether ranges go with how the buffers lie, so that they are planned with as they are."""
        return all(
            go_together(pitches, held)
            for state, of_slot in zip(states, self.pitches, strict=True)
            for _, held in state.valid
            for pitches in of_slot
        )


def chunks_of(request: LaunchRequest, habit: Habit | None) -> tuple[Chunk, ...]:
    """The chunks of the usual cut, or the one of a launch that is not cut."""
    if habit is None:
        return (whole_chunk(request.ndrange),)
    return make_partition(request.ndrange.num_groups, habit.cuts).chunks


def trace_windows(scalars: Sequence[int], nslots: int, habit: Habit | None, request: Request) -> Windows:
    """The windows of a launch with such scalars. Raises Untraceable."""
    trace = Trace()
    try:
        traced = request([trace.parameter(value) for value in scalars])
        touched: list[list[Region]] = [[] for _ in range(nslots)]
        pitches: list[set[Pitches]] = [set() for _ in range(nslots)]
        for chunk in chunks_of(traced, habit):
            for slot, footprint in gather(traced.args, traced.evaluate(chunk)).items():
                parts = _parts_of_footprint(footprint)
                touched[slot] += parts
                pitches[slot].update(map(pitches_of, parts))
                if any(is_array(part) or part.nboxes > MOST_BOXES for part in parts):
                    raise Untraceable("ranges of many boxes")
        windows = tuple(map(Region.union, touched))
        of = _Writer(trace, (), "numbers").function(windows)
        return Windows(of, tuple(map(frozenset, pitches)))
    finally:
        trace.closed = True


def _parts_of_footprint(footprint: Footprint) -> list[Region]:
    parts = (footprint.reads, footprint.exact, footprint.inexact, *footprint.atomics.values())
    return [part for part in parts if part]


# states -------------------------------------------------------------------------------------------------


class TracedState(BufferState):
    """A view of a state, of traced numbers: not interned, as it is none."""

    __slots__ = ("holders",)

    #: of one that a plan leaves: who had anything of it while it was made
    holders: tuple[int, ...]

    def followed_by(self, valid: Any, replicas: Any) -> BufferState:
        held = dict(valid)
        kept = sorted((holder, region) for holder, region in held.items() if region)
        found = TracedState(self.nbytes, tuple(kept), tuple(replicas), self.kept)
        found.holders = tuple(held)
        return found


def views_of(states: Sequence[BufferState], windows: Sequence[Region]) -> list[View]:
    """By slot, what lies in the window."""
    return [
        {holder: part for holder, held in state.valid if (part := held & window)}
        for state, window in zip(states, windows, strict=True)
    ]


def taken_apart(states: Sequence[BufferState], views: Sequence[View]) -> tuple[Any, list[int]] | None:
    """The pattern of views of states, with the states' replicas, and their numbers; None where there are too many, or no
    pattern."""
    numbers: list[int] = []
    found = []
    for state, view in zip(states, views, strict=True):
        valid = []
        for holder, region in view.items():
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


def _put_together(pattern: Any, numbers: Sequence[Any]) -> list[TracedState]:
    """Views of a pattern, of traced numbers."""
    rest = iter(numbers)
    found: list[TracedState] = []
    for nbytes, held, workers in pattern:
        valid: Valid = tuple((holder, region_of(of_region, rest)) for holder, of_region in held)
        replicas: Replicas = tuple((worker, next(rest), next(rest)) for worker in workers)
        found.append(TracedState(nbytes, valid, replicas))
    return found


def _changed(state: BufferState, changes: Sequence[tuple[int, Region, Region]]) -> BufferState:
    """The state with (holder, bytes it loses, bytes it gains)."""
    held = dict(state.valid)
    for holder, lost, gained in changes:
        held[holder] = replaced(held.get(holder, EMPTY), lost, gained)
    content = tuple([(holder, region) for holder, region in sorted(held.items(), key=_first) if region])
    return interned((state.nbytes, content, state.replicas, state.kept, False))


_first = itemgetter(0)


# plans --------------------------------------------------------------------------------------------------


class _Usual(Habits):
    """A kernel's habits while a plan is traced: the usual cut is taken, or nothing is. (What looks at all cuts keeps
    tables of them, in which a traced number must not come to lie.)"""

    __slots__ = ("_habit",)

    def __init__(self, habit: Habit | None) -> None:
        super().__init__()
        self._habit = habit

    def find(self, work_dim: int, workers: tuple[int, ...]) -> Habit | None:
        if self._habit is None:
            raise Untraceable("all cuts are looked at")
        return self._habit

    @staticmethod
    def allows(habit: Habit, cost: float) -> bool:
        if not Habits.allows(habit, cost):
            raise Untraceable("the usual cut costs too much")
        return True

    def learn(self, *args: Any) -> None:
        raise Untraceable("all cuts are looked at")


@dataclass(frozen=True, slots=True)
class Form:
    """A plan with parameters."""

    _fill: Callable[[Sequence[Any], Sequence[BufferState]], Plan | None]
    #: by slot: how many boxes it writes, and who holds something meanwhile
    _written: tuple[tuple[int, int, tuple[int, ...]], ...]
    _links: LinkCosts
    _merges: bool  #: whether versions are merged

    def fill(self, numbers: Sequence[Any], states: Sequence[BufferState]) -> tuple[Plan, bool] | None:
        """The plan for the numbers of scalars, of views and the habit's cost, and whether it also brings together what is
        scattered, in instructions of its own; None where the planner would not do the same."""
        plan = self._fill(numbers, states)
        if plan is None:
            return None
        scattered = [
            slot
            for slot, written, holders in self._written
            if (total := sum([region.nboxes for _, region in plan.states[slot].valid])) > MOST_HELD
            and total > most_boxes(len({*holders, *[holder for holder, _ in states[slot].valid]}), written)
        ]
        if not scattered:
            return plan, False
        if self._merges:
            return None
        builder = PlanBuilder.resumed(plan, states, self._links)
        for slot in scattered:
            bring_together(builder, slot)
        return builder.finish(plan.partition, plan.reasons, overwrites=plan.overwrites), True


def trace_plan(
    scalars: Sequence[int],
    pattern: Any,
    numbers: Sequence[int],
    habit: Habit | None,
    request: Request,
    options: LaunchOptions,
) -> Form:
    """The form of plans like that of this launch. Raises Untraceable.

    `pattern`, `numbers`: as of `taken_apart`. `habit`: the cut that is usual, None for a launch that is not cut.
    """
    trace = Trace()
    written: dict[int, int] = {}

    def note_written(builder: PlanBuilder, slot: int, fresh: Sequence[Region]) -> None:
        written[slot] = sum(region.nboxes for region in fresh)

    try:
        traced = [trace.parameter(value) for value in scalars]
        states = _put_together(pattern, [trace.parameter(value) for value in numbers])
        cost: Any = trace.real_parameter(0.0 if habit is None else habit.cost)
        usual = None if habit is None else replace(habit, cost=cost, left=2)
        made = plan_launch(
            states, replace(request(traced), habits=_Usual(usual), tidied=note_written), options
        )
        if usual is not None and usual.left != 1:
            raise Untraceable("the launch was not cut")
        if any(isinstance(item, Reserve) for item in made.instructions):
            raise Untraceable("memory changes")
        fill = _Writer(trace, states, "numbers, states").function(made)
    finally:
        trace.closed = True
    after = [made.states[slot] for slot in written]
    holders = [state.holders if state not in states else () for state in after]  # type: ignore[attr-defined]
    slots = tuple(zip(written, written.values(), holders, strict=True))
    return Form(
        fill, slots, options.links, any(not isinstance(item, (Copy, Launch)) for item in made.instructions)
    )


class _Writer:
    """Writes down what is made of traced numbers as a function that makes it."""

    def __init__(self, trace: Trace, states: Sequence[BufferState], arguments: str) -> None:
        """`states`: the views that the plan is for; what it leaves as it was is the same object. `arguments`: of the
        function that is made."""
        self._trace = trace
        self._arguments = arguments
        self._views = states
        self._kept: list[Any] = []  #: what is told apart by identity must not go
        self._lines: list[str] = []
        self._names: dict[str, Any] = {"region": remade, "changed": _changed, "inf": inf}
        self._constants: dict[int, str] = {}
        self._objects: dict[int, tuple[str, Any]] = {
            id(state): (f"states[{slot}]", state) for slot, state in enumerate(states)
        }
        self._named: dict[str, str] = {}  #: by what is written down, its name
        self._used: set[int] = set()
        self._traced: dict[int, tuple[bool, Any]] = {}
        self._solution = trace.solution()

    def function(self, made: Any) -> Any:
        """What makes `made` of other numbers."""
        result = self._show(made)
        conditions = self._trace.conditions()
        for text in conditions:
            self._use(text)
        count = len(self._trace.parameters)
        unpacked = [f"{', '.join(self._trace.parameters)}, = numbers"] if count else []
        test = [f"if not ({' and '.join(conditions)}): return None"] if conditions else []
        lines = [*unpacked, *self._trace.definitions(self._used), *test, *self._lines, f"return {result}"]
        text = f"def fill({self._arguments}):\n" + "".join(f"    {line}\n" for line in lines)
        exec(compile(text, "<a plan with parameters>", "exec"), self._names)
        return self._names["fill"]

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
            elif (names := _names_of(found)) is not None:
                kind = type(found)
                self._names[kind.__name__] = kind
                states = self._states(found.states) if isinstance(found, Plan) else ""
                parts = [
                    states if name == "states" and states else self._show(getattr(found, name))
                    for name in names
                ]
                text = f"{kind.__name__}({', '.join(parts)})"
            else:
                raise Untraceable(f"a {type(found).__name__} in the plan")
            known = self._objects[id(found)] = self._line(text), found
        return known[0]

    def _states(self, found: Sequence[BufferState]) -> str:
        """Those that a plan leaves, by slot."""
        parts = []
        for slot, state in enumerate(found):
            known = self._objects.get(id(state))
            if known is None:
                before = self._views[slot]
                changes = []
                for holder in sorted({holder for holder, _ in (*before.valid, *state.valid)}):
                    old, new = before.valid_at(holder), state.valid_at(holder)
                    lost, gained = old - new, new - old
                    if lost or gained:
                        changes.append((holder, lost, gained))
                self._kept.append(changes)
                parts.append(f"changed(states[{slot}], {self._show(tuple(changes))})")
            else:
                parts.append(known[0])
        return f"({', '.join(parts)},)"

    def _line(self, text: str) -> str:
        name = self._named.get(text)  # nothing that is made changes: what is made alike is one object
        if name is None:
            name = self._named[text] = f"o{len(self._lines)}"
            self._lines.append(f"{name} = {text}")
        return name

    def _number(self, found: Number) -> str:
        text = show(*self._solution.reduced(found.terms, found.constant))
        self._use(text)
        return text if text.startswith("v") and " " not in text else self._line(text)

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
    names = _names_of(found)
    if names is None:
        raise Untraceable(f"a {type(found).__name__} in the plan")
    return [getattr(found, name) for name in names]


def _names_of(found: Any) -> Sequence[str] | None:
    """The fields of a record; None of anything else."""
    if is_dataclass(found) and not isinstance(found, type):
        return [item.name for item in fields(found)]
    return list(Touch.__annotations__) if isinstance(found, Touch) else None
