"""Plans with parameters: a plan whose numbers are functions of a launch's scalars and of where its buffers' bytes
lie.

Launches that differ in their scalars mostly have the same plan with other numbers. Such a plan is made once by
`plan_launch` itself, on traced numbers (`translators.ranges.tracing`): what comes of it is the plan, and the conditions
under which the planner would do the same again. Both are written down as one function (`translators.ranges.calculations`
and `rebuilding`), which for other numbers gives their plan, or None where a condition does not hold. So a plan that is
filled in is the one that the planner makes.

What a launch's chunks touch is such a function, too: a launch whose plan the planner has to make again finds its access
ranges there instead of evaluating them anew.

A program that works its way over a matrix leaves a different directory behind at each launch, but around the bytes
that a launch touches the directory looks the same each time. So there are two such functions. One gives from the
scalars, for each buffer, the *window*: all bytes that the launch touches. The other is the plan for the *views* of
the states, what lies in the windows; whatever it changes there is put back into the whole. Some plans do not depend
on the bytes in the window alone and are not traced: those that allocate memory or bring together what is scattered,
and those of launches whose ranges do not fit the pitches of their buffers.

Decides how states are taken apart. Which plans are worth it is the caller's to say.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache, partial
from itertools import chain
from typing import Any

from vdev.planner.builder import PlanBuilder
from vdev.planner.directory import BufferState, Replicas, valid_by_labels
from vdev.planner.footprints import Footprint, gather
from vdev.planner.habits import Habit
from vdev.planner.instructions import Blocks, Copy, Deferred, Launch, Plan, Reserve, Touch
from vdev.planner.launch_request import Evaluate, LaunchOptions, LaunchRequest
from vdev.planner.launches import plan_launch
from vdev.planner.links import LinkCosts
from vdev.planner.tidying import listed_beside
from vdev.planner.views import (
    NotInView,
    Pitches,
    Touched,
    UsualCut,
    View,
    ViewState,
    brought_together,
    changed,
    chunks_of,
    fit,
)
from vdev.translators.interpreter.summaries import AccessRange
from vdev.translators.ranges.calculations import Calculation, calculated
from vdev.translators.ranges.calculations import Form as LinearForm
from vdev.translators.ranges.labelled import labelled_of, numbers_of_labelled
from vdev.translators.ranges.ndrange import Chunk
from vdev.translators.ranges.patterns import arguments_of, as_traced, is_array, parts_of, remade
from vdev.translators.ranges.pitches import merged
from vdev.translators.ranges.rebuilding import GIVEN, NUMBER, Record, Step, Where, built, where
from vdev.translators.ranges.region import EMPTY, Region
from vdev.translators.ranges.tracing import Number, Real, Trace, form_of
from vdev.translators.values import dataclass, replace

#: numbers of all views together above which a plan is not filled in, and boxes of all ranges above which they are
#: evaluated: the function would be long
MOST_NUMBERS = 400

#: gives the launch for numbers that may be traced
Request = Callable[[Sequence[Any]], LaunchRequest]
Ranges = Sequence[AccessRange]


# windows ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Windows:
    """What launches touch, as a function of their scalars."""

    #: by slot; None if ranges are made in a different way for these scalars
    of: Callable[[Sequence[int]], tuple[Region, ...] | None]
    #: by slot, the pitches of the chunks' ranges
    pitches: tuple[frozenset[Pitches], ...]
    #: by chunk, its ranges, for scalars that have windows; None if they are many
    _ranges: Callable[[Sequence[int]], tuple[Ranges, ...]] | None = None
    #: by slot, pitches of ranges that are listed, as these do not go with the buffer's (`tidying.listed_beside`)
    _listed: tuple[frozenset[Pitches], ...] = ()

    def ranges(
        self, scalars: Sequence[int], habit: Habit | None, request: LaunchRequest
    ) -> dict[Chunk, Ranges]:
        """What the chunks of the usual cut touch in a launch with such scalars, which have windows; those that are not
        there have to be evaluated."""
        if self._ranges is None:
            return {}
        return dict(zip(chunks_of(request, habit), self._ranges(scalars), strict=True))

    def traced(self, scalars: Sequence[Any], habit: Habit | None, request: LaunchRequest) -> Evaluate:
        """What gives the same for traced scalars: under the windows' conditions, which are noted for them as well."""
        if self._ranges is None or self.of(scalars) is None:
            return request.evaluate
        chunks = map(_form_of_chunk, chunks_of(request, habit))
        known = dict(zip(chunks, self._ranges(scalars), strict=True))

        def known_or_evaluated(chunk: Chunk) -> Ranges:
            found = known.get(_form_of_chunk(chunk))
            return request.evaluate(chunk) if found is None else found

        return known_or_evaluated

    def fit(self, states: Sequence[BufferState]) -> bool:
        """Whether ranges go with the buffers' pitches, so that they are used in planning as they are."""
        for state, pitches in zip(states, self._listed, strict=False):
            held = state.labelled if pitches else None
            if pitches and (held is None or any(merged(each, held.pitches) is not None for each in pitches)):
                return False
        return fit(states, self.pitches)


def _form_of_chunk(chunk: Chunk) -> Hashable:
    return *map(form_of, chunk.start), *map(form_of, chunk.stop), chunk.cycle


def trace_windows(
    scalars: Sequence[int], states: Sequence[BufferState], habit: Habit | None, request: Request
) -> Windows:
    """The windows of a launch with such scalars, on buffers in such states. Raises NotInView."""
    trace = Trace()
    listing = _Listing(states)
    try:
        traced = request([trace.parameter(value) for value in scalars])
        touched = Touched(len(states))
        ranges = []
        for chunk in chunks_of(traced, habit):
            if chunk.ngroups == 0:
                raise NotInView("fewer work-groups than the usual cut has parts")
            ranges.append(tuple(traced.evaluate(chunk)))
            touched.add(listing.of(gather(traced.args, ranges[-1], in_few=True)))
        few = sum(item.region.nboxes for of_chunk in ranges for item in of_chunk) <= MOST_NUMBERS
        known = _Writer(trace).function(tuple(ranges), known=True) if few else None
        of = _Writer(trace).function(touched.windows)
        return Windows(of, touched.pitches, known, tuple(map(frozenset, listing.pitches)))
    finally:
        trace.close()


class _Listing:
    """Takes what chunks touch as runs where its pitches do not go with its buffer's, as planning does (`tidying.fitted`)."""

    def __init__(self, states: Sequence[BufferState]) -> None:
        self._held = [None if state.labelled is None else state.labelled.pitches for state in states]
        self.pitches: list[set[Pitches]] = [set() for _ in states]  #: by slot, those of what was

    def of(self, footprints: Mapping[int, Footprint]) -> dict[int, Footprint]:
        """One chunk's footprints, by slot."""
        found = {}
        for slot, footprint in footprints.items():
            held = self._held[slot]
            now = found[slot] = footprint if held is None else listed_beside(footprint, [held])
            if now is not footprint:
                before = footprint.reads, footprint.exact, footprint.inexact
                self.pitches[slot] |= {part.pitches for part in before} - {
                    part.pitches for part in (now.reads, now.exact, now.inexact)
                }
        return found


# states -------------------------------------------------------------------------------------------------


def taken_apart(states: Sequence[BufferState], views: Sequence[View]) -> tuple[Any, list[int]] | None:
    """The pattern of views of states, with the states' replicas, and their numbers; None if there are too many."""
    numbers: list[int] = []
    found = []
    for state, view in zip(states, views, strict=True):
        pattern = numbers_of_labelled(view.bands, numbers)
        workers = []
        for worker, start, stop in state.replicas:
            workers.append(worker)
            numbers.append(start)
            numbers.append(stop)
        found.append((state.nbytes, view.pitches, pattern, tuple(workers)))
    return None if len(numbers) > MOST_NUMBERS else (tuple(found), numbers)


def _put_together(pattern: Any, numbers: Sequence[Any]) -> list[ViewState]:
    """Views of a pattern, of traced numbers."""
    rest = iter(numbers)
    found: list[ViewState] = []
    for nbytes, pitches, held, workers in pattern:
        valid = valid_by_labels(labelled_of(held, rest), pitches)
        replicas: Replicas = tuple((worker, next(rest), next(rest)) for worker in workers)
        found.append(ViewState(nbytes, valid, replicas))
        found[-1].pitches = pitches
    return found


# plans --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Form:
    """A plan with parameters."""

    _fill: Callable[[Sequence[Any], Sequence[BufferState], Sequence[View]], Plan | None]
    #: by slot: how many boxes it writes
    _written: tuple[tuple[int, int], ...]
    _links: LinkCosts

    def fill(
        self, numbers: Sequence[Any], states: Sequence[BufferState], views: Sequence[View]
    ) -> tuple[Plan, bool] | None:
        """The plan for the numbers of scalars, of views and the habit's cost, and whether it also brings together what is
        scattered, in instructions of its own; None where the planner would not do the same."""
        plan = self._fill(numbers, states, views)
        found = None if plan is None else brought_together(plan, states, self._written, self._links)
        return None if found is None else (found, found is not plan)


def trace_plan(
    scalars: Sequence[int],
    pattern: Any,
    numbers: Sequence[int],
    habit: Habit | None,
    request: Request,
    options: LaunchOptions,
    windows: Windows,
) -> Form:
    """The form of plans like that of this launch, which has such windows. Raises NotInView.

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
        launch = request(traced)
        evaluate = windows.traced(traced, habit, launch)
        made = plan_launch(
            states,
            replace(launch, evaluate=evaluate, habits=UsualCut(usual), tidied=note_written),
            replace(options, pending=False),
        )
        if usual is not None and usual.left != 1:
            raise NotInView("the launch was not cut")
        if any(isinstance(item, Reserve) for item in made.instructions):
            raise NotInView("memory changes")
        touches = _Touches(_Writer(trace, states), made.touches, [*scalars, *numbers, cost.value])
        blocks = _Blocks()
        fill = _Writer(trace, states, touches, blocks).function(made)
        blocks.trace(trace, made)  # whose conditions are none of the plan's
    finally:
        trace.close()
    return Form(fill, tuple(written.items()), options.links)


def _deferred(touches: _Touches, numbers: Sequence[Any]) -> Deferred[tuple[Touch, ...]]:
    return Deferred(partial(touches, numbers))


class _Written:
    """What makes something of other numbers."""

    __slots__ = ("_calculation", "_constants", "_result", "_steps")

    def __init__(
        self, calculation: Calculation, constants: Sequence[Any], steps: Sequence[Step], result: Where
    ) -> None:
        self._calculation = calculation
        self._constants, self._steps, self._result = tuple(constants), tuple(steps), result

    def __call__(
        self, numbers: Sequence[Any], states: Sequence[BufferState] = (), views: Sequence[View] = ()
    ) -> Any:
        """None where a condition does not hold."""
        found = calculated(numbers, *self._calculation)
        if found is None:
            return None
        return built(self._constants, found, (numbers, *states, *views), self._steps, self._result)


class _Touches:
    """What plans of one form touch. Whoever prepares the traced launch asks; of others nobody does, mostly: it is not even written down
    before that."""

    __slots__ = ("_made", "_numbers", "_writer", "_written")

    def __init__(self, writer: _Writer, made: Sequence[tuple[Touch, ...]], numbers: list[Any]) -> None:
        """`made`: of the traced launch, which has these numbers. Raises NotInView where it cannot be written down."""
        for touch in chain.from_iterable(made):
            if is_array(touch.region) and any(type(part) is Number for part in parts_of(touch.region)):
                raise NotInView("a region without a pattern")
        self._writer, self._made, self._numbers = writer, made, numbers
        self._written: _Written | None = None

    def __call__(self, numbers: Sequence[Any]) -> tuple[tuple[Touch, ...], ...]:
        written = self._written
        if written is None:
            if numbers == self._numbers:
                return tuple([tuple(map(_as_traced, touches)) for touches in self._made])
            # Two threads may both write it, and write the same.
            written = self._written = self._writer.function(tuple(self._made), known=True)
        found: tuple[tuple[Touch, ...], ...] = written(numbers)
        return found


def _as_traced(touch: Touch) -> Touch:
    """The same with the numbers that it was traced with."""
    region = touch.region
    return touch if is_array(region) else Touch(touch.slot, touch.holder, as_traced(region), touch.writes)


class _Blocks:
    """The blocks of which the copies of one form's plans consist."""

    __slots__ = ("_counts", "_written")

    def __init__(self) -> None:
        self._counts: Sequence[int] = ()
        self._written: _Written | None = None

    def trace(self, trace: Trace, made: Plan) -> None:
        """Write down those of the traced launch's plan; nothing where there are regions without a pattern."""
        regions = [item.region if isinstance(item, Copy) else EMPTY for item in made.instructions]
        if any(map(is_array, regions)):
            return
        of_each = [region.blocks() for region in regions]
        self._counts = tuple(map(len, of_each))
        self._written = _Writer(trace).function(
            tuple([number for blocks in of_each for block in blocks for number in block.numbers])
        )

    def of(self, numbers: Sequence[Any]) -> Blocks | None:
        """Those of the plan of these numbers."""
        written = self._written
        return None if written is None else Blocks(self._counts, partial(written, numbers))


class _Writer:
    """Writes down what is made of traced numbers as steps that make it."""

    def __init__(
        self,
        trace: Trace,
        states: Sequence[BufferState] = (),
        touches: _Touches | None = None,
        blocks: _Blocks | None = None,
    ) -> None:
        """`states`: the views that the plan is for; what it leaves as it was is the same object. `touches`, `blocks`: what gives those of
        a plan."""
        self._trace = trace
        self._touches, self._blocks = touches, blocks
        self._record = Record(self._number, self._made)
        self._kept: list[Any] = []  #: what is told apart by identity must not go
        for slot, state in enumerate(states):
            self._record.note(state, where(GIVEN, 1 + slot))
        self._nstates = len(states)
        self._forms: dict[LinearForm, Where] = {}  #: those that are calculated
        self._solution = trace.solution()

    def function(self, made: Any, *, known: bool = False) -> _Written:
        """What makes `made` of other numbers. `known`: of such as keep all conditions."""
        record = self._record
        result = record.shown(made)
        calculation = self._trace.calculation(tuple(self._forms), known=known)
        return _Written(calculation, record.constants, tuple(record.steps), result)

    def _made(self, found: Any) -> Where | None:
        """Where anything lies that is no tuple; None if nothing in it is traced."""
        kind: type = type(found)
        if kind is Real:
            raise NotInView("a cost in the plan")
        if isinstance(found, Region):
            return self._region(found)
        record = self._record
        if isinstance(found, Plan):
            return record.step(Plan, self._parts_of_plan(found))
        names = _names_of(kind)
        if names is None:
            raise NotInView(f"a {kind.__name__} in the plan")
        shown = record.places(tuple([getattr(found, name) for name in names]))
        if shown is None:
            return None
        # a tuple's own constructor takes half the time of a named tuple's
        if issubclass(kind, tuple):
            return record.step(tuple.__new__, (record.constant(kind), record.step(None, shown)))
        return record.step(kind, shown)

    def _region(self, found: Region) -> Where | None:
        shown = self._record.places(arguments_of(found))
        if shown is None:
            return None
        if is_array(found):
            raise NotInView("a region without a pattern")
        return self._record.step(remade, shown)

    def _parts_of_plan(self, found: Plan) -> tuple[Where, ...]:
        """The parts of a plan, two of which are not shown as they are."""
        record = self._record
        assert self._blocks is not None, "with plans there are copies"
        special = {
            "blocks": record.step(self._blocks.of, (where(GIVEN, 0),)),
            "states": self._states(found.states),
            "touches": record.step(_deferred, (record.constant(self._touches), where(GIVEN, 0))),
        }
        parts = []
        for name in _names_of(Plan) or ():
            parts.append(special[name] if name in special else record.shown(getattr(found, name)))
        return tuple(parts)

    def _states(self, found: Sequence[BufferState]) -> Where:
        """Those that a plan leaves, by slot."""
        record, parts = self._record, []
        for slot, state in enumerate(found):
            known = record.noted(state)
            if known is None:
                assert isinstance(state, ViewState), "nothing else comes of one"
                inside = state.bands()
                self._kept.append(inside)
                before, view = where(GIVEN, 1 + slot), where(GIVEN, 1 + self._nstates + slot)
                parts.append(record.step(changed, (before, view, record.shown(inside))))
            else:
                assert known[0] is not None, "it is one of the views"
                parts.append(known[0])
        return record.step(None, tuple(parts))

    def _number(self, found: Number) -> Where:
        terms, constant = self._solution.reduced(found.terms, found.constant)
        form = tuple(terms.items()), constant
        known = self._forms.setdefault(form, where(NUMBER, len(self._forms)))
        self._record.numbers[id(found.terms), found.constant] = known
        return known


@cache
def _names_of(kind: type) -> Sequence[str] | None:
    """The fields of records of a class; None of anything else."""
    if is_dataclass(kind):
        return [item.name for item in fields(kind)]
    return list(kind.__annotations__) if issubclass(kind, (Copy, Launch, Touch)) else None
