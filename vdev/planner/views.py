"""Planning on views: what a launch's plan depends on lies in the bytes that it touches, its *windows*.

A history of launches leaves a buffer in hundreds of boxes, of which few lie where the next launch reaches. The planner
walks through all that it is given; so it is given the *views* of the states, what lies in the windows, and whatever it
changes there is put back into the whole. What comes of it is the plan that it would make of the states themselves.
Some plans depend on more than that and are not made so: those that allocate memory, those that look at all cuts, and those
of launches whose ranges do not fit the pitches of their buffers. What is scattered is brought together in the whole.

Decides when a plan is made on views, and how states are taken apart and put together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from vdev.planner.builder import PlanBuilder
from vdev.planner.directory import BufferState, label_of, mapped_state, valid_by_labels
from vdev.planner.footprints import Footprint, gather
from vdev.planner.habits import Habit, Habits
from vdev.planner.instructions import Copy, Launch, Plan, Reserve
from vdev.planner.launch_request import LaunchOptions, LaunchRequest
from vdev.planner.launches import plan_launch
from vdev.planner.links import LinkCosts
from vdev.planner.partitioner import make_partition
from vdev.planner.tidying import MOST_BOXES, boxes_of, remedy_for
from vdev.translators.interpreter.summaries import AccessRange
from vdev.translators.ranges.labelled import Cut, Labelled, overlaid
from vdev.translators.ranges.labelled_bands import LabelledBands
from vdev.translators.ranges.ndrange import Chunk, whole_chunk
from vdev.translators.ranges.patterns import is_array, pitches_of
from vdev.translators.ranges.pitches import merged
from vdev.translators.ranges.region import Region
from vdev.translators.values import replace

Pitches = tuple[int, ...]

#: boxes of all states together up to which views would be no cheaper, and how many times as many as in the views there
#: must be
FEW_BOXES, WORTH = 48, 2


class NotInView(Exception):
    """The plan depends on more than what lies in the windows, or cannot be made of it."""


class View(NamedTuple):
    """What lies in the window of one buffer."""

    pitches: Pitches  #: those of the window, of the chunks' ranges, and of the buffer's map
    cut: Cut | None  #: None if the window is empty

    @property
    def bands(self) -> LabelledBands:
        return () if self.cut is None else self.cut.inside


class ViewState(BufferState):
    """A view of a state; not interned, as it is none. Its numbers may be traced."""

    __slots__ = ("pitches",)

    pitches: Pitches  #: of its view

    def followed_by(self, valid: Any, replicas: Any, pending: Any = ()) -> BufferState:
        if pending:
            raise NotInView("a pending reduction")
        kept = sorted((holder, region) for holder, region in valid if region)
        found = ViewState(self.nbytes, tuple(kept), tuple(replicas), self.kept)
        found.pitches = self.pitches
        return found

    def bands(self) -> LabelledBands:
        """What lies in it, in its view's pitches; all that was done with the view was done in them."""
        if any(merged(self.pitches, region.pitches) != self.pitches for _, region in self.valid):
            raise NotInView("other pitches than those of the view")
        return overlaid([(label_of(holder), region) for holder, region in self.valid], self.pitches)


class UsualCut(Habits):
    """A kernel's habits while a plan is made on views: the usual cut is taken, or nothing is. (What looks at all cuts looks at
    whole states, and keeps tables of cuts, in which a traced number must not come to lie.)"""

    __slots__ = ("_habit",)

    def __init__(self, habit: Habit | None) -> None:
        super().__init__()
        self._habit = habit

    def find(self, groups: tuple[int, ...], workers: tuple[int, ...]) -> Habit | None:
        if self._habit is None:
            raise NotInView("all cuts are looked at")
        return self._habit

    def recent(self, groups: tuple[int, ...], workers: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
        raise NotInView("all cuts are looked at")

    @staticmethod
    def allows(habit: Habit, cost: float) -> bool:
        if not Habits.allows(habit, cost):
            raise NotInView("the usual cut costs too much")
        return True

    def learn(self, *args: Any) -> None:
        raise NotInView("all cuts are looked at")


def chunks_of(request: LaunchRequest, habit: Habit | None) -> tuple[Chunk, ...]:
    """The chunks of the usual cut, or the one of a launch that is not cut. Raises NotInView where the launch has fewer
    work-groups than the cut has parts.
    """
    if habit is None:
        return (whole_chunk(request.ndrange),)
    num_groups = request.ndrange.num_groups
    if any(
        type(groups) is int and groups < parts for groups, parts in zip(num_groups, habit.cuts, strict=True)
    ):
        raise NotInView("fewer work-groups than the usual cut has parts")
    return make_partition(num_groups, habit.cuts).chunks


class Touched:
    """What chunks of a launch touch."""

    def __init__(self, nslots: int) -> None:
        self._parts: list[list[Region]] = [[] for _ in range(nslots)]
        self._pitches: list[set[Pitches]] = [set() for _ in range(nslots)]

    def add(self, footprints: Mapping[int, Footprint]) -> None:
        """A chunk's, by slot. Raises NotInView where they are too many boxes."""
        for slot, footprint in footprints.items():
            parts = (footprint.reads, footprint.exact, footprint.inexact, *footprint.atomics.values())
            for part in filter(None, parts):
                self._parts[slot].append(part)
                self._pitches[slot].add(pitches_of(part))
                if is_array(part) or part.nboxes > MOST_BOXES:
                    raise NotInView("ranges of many boxes")

    @property
    def windows(self) -> tuple[Region, ...]:
        """By slot, all of it."""
        return tuple(map(Region.union, self._parts))

    @property
    def pitches(self) -> tuple[frozenset[Pitches], ...]:
        """By slot, those of the chunks' ranges."""
        return tuple(map(frozenset, self._pitches))


def fit(states: Sequence[BufferState], pitches: Sequence[frozenset[Pitches]]) -> bool:
    """Whether ranges of such pitches go with the buffers', so that they are used in planning as they are."""
    for state, of_slot in zip(states, pitches, strict=True):
        if not state.is_mapped and not _go_together(state, of_slot):
            return False
        held = state.labelled
        if held is None:
            return False
        for each in of_slot:
            if each != held.pitches and merged(each, held.pitches) is None:
                return False
    return True


def _go_together(state: BufferState, of_slot: frozenset[Pitches]) -> bool:
    """Whether ranges go with the pitches of what each holder has. Where they do not, no map is made that nobody needs."""
    return all(
        merged(pitches, region.pitches) is not None for pitches in of_slot for _, region in state.valid
    )


def views_of(
    states: Sequence[BufferState], windows: Sequence[Region], pitches: Sequence[frozenset[Pitches]]
) -> list[View] | None:
    """By slot, what lies in the window; None if it cannot be separated from what lies beside it. `pitches`: by slot, those of the chunks'
    ranges. The plan leaves these, in a window that may have none: whole rows of a matrix are one run.
    """
    found = []
    for state, window, of_ranges in zip(states, windows, pitches, strict=True):
        held = state.labelled
        joint = None if held is None else held.joint(window)
        for each in of_ranges:
            if joint is not None and each != joint:
                joint = merged(joint, each)
        if held is None or joint is None:
            return None
        found.append(View(joint, held.cut(window, joint) if window else None))
    return found


def changed(state: BufferState, view: View, inside: LabelledBands) -> BufferState:
    """The state with other contents of the window."""
    if view.cut is None or inside == view.cut.inside:
        return state
    return mapped_state(state, view.cut.replaced(inside))


def brought_together(
    plan: Plan,
    states: Sequence[BufferState],
    written: Sequence[tuple[int, int]],
    links: LinkCosts,
) -> Plan | None:
    """The plan that also brings together what is scattered (`tidying`), the plan itself where nothing is; None where
    versions are merged in it as well. `written`: by slot, how many boxes it writes.
    """
    scattered = [
        (slot, remedy)
        for slot, nboxes in written
        if (nboxes or plan.states[slot] is not states[slot])
        and (remedy := remedy_for(plan.states[slot], nboxes, states[slot]))
    ]
    if not scattered:
        return plan
    if not all(isinstance(item, (Copy, Launch)) for item in plan.instructions):
        return None
    builder = PlanBuilder.resumed(plan, states, links)
    for slot, remedy in scattered:
        remedy(builder, slot, plan.states[slot].labelled)
    return builder.finish(plan.partition, plan.reasons, overwrites=plan.overwrites)


# plans of numbers ---------------------------------------------------------------------------------------


def plan_in_views(
    states: Sequence[BufferState], request: LaunchRequest, options: LaunchOptions, habit: Habit
) -> Plan | None:
    """The plan of a launch that is cut as usual, made on views where that is cheaper; None where the planner has to look at
    more.
    """
    groups = request.ndrange.num_groups
    if (
        request.readings
        or request.in_turn
        or options.cuts is not None
        or options.compute_cost is not None
        or any(parts > count for parts, count in zip(habit.cuts, groups, strict=True))
        or _boxes_of_all(states) <= FEW_BOXES
    ):
        return None
    try:
        return _plan_in_views(states, request, options, habit)
    except NotInView:
        return None


def _boxes_of_all(states: Sequence[BufferState]) -> int:
    """Boxes of all holders in all of them, as far as that is known at once."""
    return sum(
        boxes_of([region for _, region in state.valid]) if held is None else held.nboxes
        for state in states
        for held in [state.labelled if state.is_mapped else None]
    )


def _plan_in_views(
    states: Sequence[BufferState], request: LaunchRequest, options: LaunchOptions, habit: Habit
) -> Plan | None:
    chunks = chunks_of(request, habit)
    touched = Touched(len(states))
    ranges: list[Sequence[AccessRange]] = [request.evaluate(chunk) for chunk in chunks]
    for worker, of_chunk in zip(habit.workers, ranges, strict=True):
        footprints = gather(request.args, of_chunk, in_few=True)
        if any(item.atomics for item in footprints.values()) or not _is_there(states, worker, footprints):
            return None
        touched.add(footprints)
    if not fit(states, touched.pitches):
        return None
    views = views_of(states, touched.windows, touched.pitches)
    if views is None or WORTH * sum(map(_boxes_in, views)) > _boxes_of_all(states):
        return None
    seen = [_seen(state, view) for state, view in zip(states, views, strict=True)]
    written: dict[int, int] = {}

    def note_written(builder: PlanBuilder, slot: int, fresh: Sequence[Region]) -> None:
        written[slot] = boxes_of(fresh)

    usual = replace(habit, left=2)
    plan = plan_launch(seen, replace(request, habits=UsualCut(usual), tidied=note_written), options)
    if usual.left != 1 or tuple(chunk for _, chunk in plan.partition) != chunks:
        return None  # it was not cut as usual
    if any(isinstance(item, Reserve) for item in plan.instructions):
        return None
    after = tuple(map(_put_back, states, views, seen, plan.states))
    return brought_together(replace(plan, states=after), states, tuple(written.items()), options.links)


def _is_there(states: Sequence[BufferState], worker: int, footprints: Mapping[int, Footprint]) -> bool:
    """Whether a worker has memory for all that a chunk touches."""
    for slot, footprint in footprints.items():
        replica, bounds = states[slot].replica(worker), footprint.bounds()
        if replica is None:
            return False
        if bounds is not None and not (replica[0] <= bounds[0] and bounds[1] <= replica[1]):
            return False
    return True


def _boxes_in(view: View) -> int:
    return Labelled(view.pitches, view.bands).nboxes


def _seen(state: BufferState, view: View) -> ViewState:
    found = ViewState(state.nbytes, valid_by_labels(view.bands, view.pitches), state.replicas, state.kept)
    found.pitches = view.pitches
    return found


def _put_back(state: BufferState, view: View, before: ViewState, after: BufferState) -> BufferState:
    if after is before:
        return state
    assert isinstance(after, ViewState), "nothing else comes of one"
    return changed(state, view, after.bands())
