"""Prepared plans: a plan sorted by worker, with its dependencies and hazards resolved as far as they do not depend on
the command.

Pure, and made once for each plan. A submission then only numbers the steps and looks at each buffer's record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from vdev.backends.base import Marker
from vdev.executor.launch_step import LaunchRecipe, LaunchStep
from vdev.executor.merge_steps import FoldStep
from vdev.executor.step import Step
from vdev.executor.steps import (
    CopyBetweenStep,
    CopyStep,
    DownloadStep,
    EmptyStep,
    FillStep,
    ReserveStep,
    UploadStep,
    make_step,
)
from vdev.executor.whole import WholeLaunchStep
from vdev.planner.instructions import (
    HOST,
    Combine,
    Copy,
    CopyBetween,
    Download,
    Fetch,
    Fill,
    Fold,
    Gather,
    Instruction,
    Launch,
    Merge,
    Plan,
    Reserve,
    Restore,
    Stage,
    Upload,
)
from vdev.translators.ranges.region import EMPTY, Region
from vdev.translators.values import dataclass

#: host work of up to so many bytes is done by the thread that submits it, if nothing stands in its way: handing it
#: over costs more
INLINE_NBYTES = 1 << 17


#: instructions that make one content of several chunks' versions: they pass on only what a launch wrote
_MERGES = (Merge, Fetch, Gather, Combine, Restore, Fold)


class Ending(Protocol):
    """Who wants to know when workers are through with their steps (`vdev.executor.sampling`)."""

    def end(self, worker: int, marker: Marker | None) -> None:
        """The marker behind the last step of a worker's; None where another was put there just before."""


class Batch:
    """The steps of one plan that one worker performs, in order."""

    __slots__ = (
        "brief",
        "careful",
        "interiors",
        "marks",
        "places",
        "plain",
        "rows",
        "sample",
        "steps",
        "waits",
    )

    def __init__(
        self,
        steps: tuple[Step, ...],
        waits: tuple[tuple[tuple[int, int], ...], ...],
        marks: tuple[bool, ...],
        places: tuple[int, ...] = (),
        sample: Ending | None = None,
    ):
        """`places`: of the steps' instructions in their plan, where other plans differ from it in their numbers alone. `sample`:
        wants the marker behind the last step.
        """
        self.steps = steps
        self.sample = sample
        self.places = places
        #: by step: (worker, index in that worker's batch) of steps of the same plan that must be done before
        self.waits = waits
        #: by step: whether others wait for it, so that a marker is wanted right after it
        self.marks = marks
        self.careful = any(waits) or any(marks)
        #: how many of the first are of launches beside which the others may be carried out
        self.interiors = sum(type(step) is LaunchStep and step.item.is_interior for step in steps)
        #: one launch and nothing else: the batch of most commands
        self.plain = len(steps) == 1 and isinstance(steps[0], LaunchStep)
        #: all of it is handed over to the device without waiting on the host
        self.brief = all(step.brief for step in steps)
        #: by step: the last of the copies between workers that follow one another from there on; other steps,
        #: themselves
        self.rows = _rows(steps)

    def with_step(self, step: Step) -> Batch:
        """The batch with another step, as brief as it is, in the place of its only one."""
        found = Batch.__new__(Batch)
        for name in Batch.__slots__:
            setattr(found, name, getattr(self, name))
        found.steps = (step,)
        return found

    def with_numbers(
        self, items: Sequence[Instruction], stages: Sequence[Stage], recipe: LaunchRecipe
    ) -> Batch:
        """The batch for a plan's instructions that differ from its own only in their numbers; this one if they do not differ."""
        steps = []
        same = True
        for step, place in zip(self.steps, self.places, strict=True):
            made = _step_like(step, items[place], stages, recipe)
            same = same and made is step
            steps.append(made)
        if same:
            return self
        found = Batch.__new__(Batch)
        found.steps, found.places = tuple(steps), self.places
        found.waits, found.marks, found.rows = self.waits, self.marks, self.rows
        found.careful, found.plain, found.brief = self.careful, self.plain, self.brief
        found.interiors = self.interiors
        found.sample = self.sample
        return found


def _rows(steps: tuple[Step, ...]) -> tuple[int, ...]:
    last = list(range(len(steps)))
    for index in range(len(steps) - 2, -1, -1):
        if all(isinstance(step, CopyStep) and step.brief for step in steps[index : index + 2]):
            last[index] = last[index + 1]
    return tuple(last)


@dataclass(frozen=True, slots=True)
class Hazard:
    """One worker's accesses to one slot at one holder: index in its batch of the first and last read and
    write, -1 for none.
    """

    slot: int
    holder: int
    worker: int
    first_read: int
    last_read: int
    first_write: int
    last_write: int


class CompiledPlans:
    """What a plan is compiled for (`vdev.executor.compiled_plan`)."""

    __slots__ = ("known", "seen")

    def __init__(self) -> None:
        self.known: list[Any] = []
        #: hashes of the numbers of replicas that it was submitted with once, which this does not keep alive
        self.seen: list[int] = []


class Refills:
    """What plans have in common that differ in their numbers alone: one that was compiled for all of them
    (`vdev.executor.refilled_plan`).
    """

    __slots__ = ("is_possible", "plan", "submitted")

    def __init__(self) -> None:
        self.plan: Any = None
        self.is_possible = True
        self.submitted = 0  #: how many were submitted before there was one


class PreparedPlan:
    """A plan ready to be submitted any number of times."""

    __slots__ = (
        "alone",
        "batches",
        "blocks",
        "careful",
        "compiled",
        "download",
        "foreign_writes",
        "form",
        "hazards",
        "host_nbytes",
        "inline",
        "interiors",
        "is_compilable",
        "is_movable",
        "moving_order",
        "narrow",
        "order",
        "overwrites",
        "own_writes",
        "plain",
        "read_elsewhere",
        "reads",
        "refills",
        "regions",
        "stages",
        "step",
        "unknown",
        "upload",
        "uploads",
        "uses_host_array",
        "whole",
        "workers",
        "writes",
    )

    def __init__(self, plan: Plan, recipe: LaunchRecipe | None) -> None:
        self.batches: tuple[tuple[int, Batch], ...] = _batches(plan, recipe)
        #: whether steps wait for others of the same plan, on another worker
        self.careful = any(batch.careful for _, batch in self.batches)
        hazards = _hazards(plan)
        #: a worker changing its own replica: (slot, worker, first, last). The only hazard of most launches.
        self.own_writes = tuple(
            (h.slot, h.worker, h.first_write, h.last_write) for h in hazards if h.holder == h.worker != HOST
        )
        self.hazards = tuple(h for h in hazards if not h.holder == h.worker != HOST)
        self._find_accesses(plan)
        self.stages: tuple[Stage, ...] = plan.stages
        self.blocks = plan.blocks  #: of its copies
        #: slots whose bytes the command reads, may change, and overwrites whole: how far a failure spreads
        self.reads, self.writes, self.overwrites = _contents(plan)
        #: of launches planned without looking at what they touch: gives the slots that a launch at given places
        #: reads, and those that it may change
        self.narrow = None if recipe is None else recipe.narrow
        self.uses_host_array = any(isinstance(item, (Upload, Download)) for item in plan.instructions)
        self.inline = _host_nbytes(plan) <= INLINE_NBYTES
        #: the workers of the batches, by number, once they have been looked up (`vdev.executor.calling_thread`)
        self.workers: tuple[Any, ...] | None = None
        #: what submits it again with the same replicas, once it has been submitted where that is possible
        self.compiled: CompiledPlans | None = None
        self.is_compilable = _is_compilable(self)
        #: what submits a launch's plan with whatever replicas, once it is wanted (`vdev.executor.plan_form`); whether there may be such a
        #: thing; and how often in a row the plan was submitted with replicas that had never come before
        self.form: Any = None
        self.is_movable = _is_movable(self, plan)
        self.unknown = 0
        self.refills: Refills | None = None  #: with other plans of its form, once there are any
        #: of a plan with interiors: the plan whose chunks are whole, of which samples are taken
        self.whole: PreparedPlan | None = None
        self._find_shortcuts(plan)

    @property
    def peer_hazards(self) -> list[Hazard]:
        """Those that are no accesses to homes."""
        return [h for h in self.hazards if h.holder != HOST]

    def _find_accesses(self, plan: Plan) -> None:
        """What it does to others' memory."""
        #: of the hazards, (slot, holder, worker, how many of its steps there are up to the last) for reads and for changes
        self.read_elsewhere = tuple(
            [(h.slot, h.holder, h.worker, h.last_read + 1) for h in self.hazards if h.last_read >= 0]
        )
        self.foreign_writes = tuple(
            [(h.slot, h.holder, h.worker, h.last_write + 1) for h in self.hazards if h.last_write >= 0]
        )
        #: by (slot, holder, worker), the bytes that are read there, where they are known; and what interiors change: (slot, worker, bytes)
        self.regions, self.interiors = _read_elsewhere(plan), _changed_by_interiors(plan)

    def _find_shortcuts(self, plan: Plan) -> None:
        """How the command may be carried out with less than queues, threads and markers take."""
        #: the worker of each step in the plan's order, in which no step waits for a later one; None where a
        #: step may keep the host waiting
        self.order: tuple[int, ...] | None = None
        #: the same where nothing but workers' transfers to and from the host's memory may
        self.moving_order: tuple[int, ...] | None = None
        in_order = tuple(item.worker for item in plan.instructions)
        long = [step for _, batch in self.batches for step in batch.steps if not step.brief]
        if self.batches and not long and _home_nbytes(plan) <= INLINE_NBYTES:
            self.order = in_order
        if in_order and all(isinstance(step, (CopyStep, UploadStep, DownloadStep)) for step in long):
            self.moving_order = in_order
        #: the only worker that does anything, HOST aside; None where it is not alone
        self.alone: int | None = None
        if len(self.batches) == 1 and self.batches[0][0] != HOST:
            self.alone = self.batches[0][0]
        #: if it is a single step of one worker, which only reads the worker's memory: that step
        self.download: DownloadStep | None = None
        #: the same for a step that writes to the worker's memory
        self.upload: UploadStep | None = None
        if self.alone is not None and not self.hazards and len(self.batches[0][1].steps) == 1:
            step = self.batches[0][1].steps[0]
            self.download = step if isinstance(step, DownloadStep) else None
            self.upload = step if isinstance(step, UploadStep) else None
        #: the only step, if it is handed over to a worker without waiting for anything, and nothing depends on it
        #: should it fail
        self.step: Step | None = None
        if self.order is not None and self.alone is not None and not self.hazards and len(self.order) == 1:
            step = self.batches[0][1].steps[0]
            self.step = None if step.coherent else step
        self.host_nbytes = self._moved_from_or_to_host(plan)
        #: by worker, what a write brings to several of them and nowhere else
        self.uploads: tuple[tuple[int, int], ...] = _uploads_of(plan)
        #: a single launch on one worker, on memory that exists already
        self.plain = self.alone is not None and self.batches[0][1].plain and not self.hazards

    def _moved_from_or_to_host(self, plan: Plan) -> int:
        """Bytes that move between the only worker that takes part and the host, where nothing else of the plan may keep the host
        waiting; else 0.
        """
        if self.alone is None or self.moving_order is None:
            return 0
        return sum(
            item.region.nbytes
            for item in plan.instructions
            if isinstance(item, (Upload, Download))
            or (isinstance(item, Copy) and HOST in (item.source, item.target))
        )

    def with_numbers(self, plan: Plan, recipe: LaunchRecipe) -> PreparedPlan:
        """The prepared form of a plan that differs from this one's only in its numbers."""
        items, stages = plan.instructions, plan.stages
        found = PreparedPlan.__new__(PreparedPlan)
        found.own_writes, found.hazards, found.narrow = self.own_writes, self.hazards, self.narrow
        found.read_elsewhere, found.foreign_writes = self.read_elsewhere, self.foreign_writes
        found.regions = {}  # unknown, and so taken for all
        found.interiors = _changed_by_interiors(plan) if self.interiors else []
        found.reads, found.writes, found.overwrites = self.reads, self.writes, self.overwrites
        found.careful = self.careful
        found.uses_host_array, found.inline = self.uses_host_array, self.inline
        found.order, found.moving_order = self.order, self.moving_order
        found.workers, found.alone, found.plain = self.workers, self.alone, self.plain
        found.download, found.upload, found.step = self.download, self.upload, None
        found.host_nbytes, found.uploads = self.host_nbytes, self.uploads
        found.batches = tuple(
            [(worker, batch.with_numbers(items, stages, recipe)) for worker, batch in self.batches]
        )
        found.stages, found.blocks = stages, plan.blocks
        found.compiled, found.is_compilable = None, self.is_compilable
        found.form, found.is_movable, found.unknown = None, self.is_movable, 0
        if self.refills is None and self.is_compilable:
            self.refills = Refills()
        found.refills = self.refills
        found.whole = None
        return found

    def elsewhere(self, plan: Plan) -> PreparedPlan:
        """The prepared form of a plan that moves other bytes in the same way (`vdev.planner.transfers.elsewhere`)."""
        ((worker, batch),) = self.batches
        step = _step(plan.instructions[0], plan.stages, None)
        if step.brief != batch.brief:
            return PreparedPlan(plan, None)
        found = PreparedPlan.__new__(PreparedPlan)
        for name in PreparedPlan.__slots__:
            setattr(found, name, getattr(self, name))
        found.batches = ((worker, batch.with_step(step)),)
        found.download = step if isinstance(step, DownloadStep) and self.download is not None else None
        found.upload = step if isinstance(step, UploadStep) and self.upload is not None else None
        found.step = None if self.step is None else step
        found.host_nbytes = found._moved_from_or_to_host(plan)
        found.compiled = None
        found.reads, found.writes, found.overwrites = _contents(plan)
        return found

    def anywhere(self, step: Step, *, whole: bool) -> PreparedPlan:
        """The prepared form of commands that `step`, in the place of this plan's only one, does for whichever bytes
        (`vdev.executor.anywhere`). It is handed over at once or not at all. `whole`: they are all of the buffer that is changed.
        """
        ((worker, batch),) = self.batches
        found = PreparedPlan.__new__(PreparedPlan)
        for name in PreparedPlan.__slots__:
            setattr(found, name, getattr(self, name))
        found.batches = ((worker, batch.with_step(step)),)
        found.download = step if isinstance(step, DownloadStep) else None
        found.upload = step if isinstance(step, UploadStep) else None
        found.step = step
        found.overwrites = self.writes if whole else ()
        found.compiled, found.is_compilable = None, False
        return found


def _is_compilable(prepared: PreparedPlan) -> bool:
    """Whether its steps are launches, fills, copies and small uploads on workers, copies between them and folds, and each changes its
    own worker's memory.
    """
    if not prepared.batches or any(h.first_write >= 0 or h.holder == HOST for h in prepared.hazards):
        return False
    steps = [step for number, batch in prepared.batches for step in batch.steps if number != HOST]
    return len(steps) == sum(len(batch.steps) for _, batch in prepared.batches) and all(
        type(step) in (LaunchStep, FoldStep, FillStep, CopyBetweenStep)
        or (type(step) in (CopyStep, UploadStep) and step.brief)
        for step in steps
    )


def _is_movable(prepared: PreparedPlan, plan: Plan) -> bool:
    """Whether its steps are launches, folds, fills and copies between workers for them, small ones from homes, and memory for them, taken
    before anything touches it; and each changes its own worker's. What launches use at home stays there.
    """
    if any(h.first_write >= 0 for h in prepared.hazards):
        return False
    if any(isinstance(item, Launch) and item.homes for item in plan.instructions):
        return False
    steps = [step for number, batch in prepared.batches for step in batch.steps]
    return (
        any(type(step) in (LaunchStep, FoldStep) for step in steps)
        and all(number != HOST for number, _ in prepared.batches)
        and all(
            type(step) in (LaunchStep, FoldStep, FillStep)
            or (type(step) is CopyStep and step.brief)
            or (type(step) is ReserveStep and step.is_taken)
            for step in steps
        )
        and _takes_memory_first(plan)
    )


def _takes_memory_first(plan: Plan) -> bool:
    """Whether no replica is touched before it is made another one."""
    touched: set[tuple[int, int]] = set()
    for item, touches in zip(plan.instructions, plan.touches, strict=True):
        if isinstance(item, Reserve) and (item.slot, item.worker) in touched:
            return False
        touched.update([(touch.slot, touch.holder) for touch in touches])
    return True


def _batches(plan: Plan, recipe: LaunchRecipe | None) -> tuple[tuple[int, Batch], ...]:
    where: list[tuple[int, int]] = []  # by instruction: worker, index in its batch
    members: dict[int, list[int]] = {}
    for number, item in enumerate(plan.instructions):
        mine = members.setdefault(item.worker, [])
        where.append((item.worker, len(mine)))
        mine.append(number)
    waited_for = {
        earlier
        for number, earlier_ones in enumerate(plan.dependencies)
        for earlier in earlier_ones
        if where[earlier][0] != where[number][0]
    }
    batches = []
    for worker, mine in members.items():
        steps = tuple(_step(plan.instructions[number], plan.stages, recipe) for number in mine)
        waits = tuple(
            tuple(where[earlier] for earlier in plan.dependencies[number] if where[earlier][0] != worker)
            for number in mine
        )
        marks = tuple(number in waited_for for number in mine)
        batches.append((worker, Batch(steps, waits, marks, tuple(mine))))
    return tuple(batches)


def _step(item: Instruction, stages: Sequence[Stage], recipe: LaunchRecipe | None) -> Step:
    if isinstance(item, Launch) and recipe is not None and recipe.ndrange is None:
        return WholeLaunchStep(recipe, frozenset(slot for _, slot, _ in item.homes))
    return make_step(item, stages, recipe)


def _step_like(step: Step, item: Instruction, stages: Sequence[Stage], recipe: LaunchRecipe) -> Step:
    """The step of an instruction that differs in its numbers from that of another step; the same step where it does not."""
    if type(step) is CopyStep:
        return CopyStep(item)  # type: ignore[arg-type]
    if type(step) is LaunchStep:
        return step.followed_by(item, recipe)  # type: ignore[arg-type]
    return _step(item, stages, recipe)


def _hazards(plan: Plan) -> list[Hazard]:
    next_index: dict[int, int] = {}
    found: dict[tuple[int, int, int], list[int]] = {}
    for item, touches in zip(plan.instructions, plan.touches, strict=True):
        index = next_index.get(item.worker, 0)
        next_index[item.worker] = index + 1
        for touch in touches:
            if touch.holder == item.worker != HOST and not touch.writes:
                continue  # nobody else changes a worker's replica: its own reads are ordered by its own queue
            at = found.setdefault((touch.slot, touch.holder, item.worker), [-1, -1, -1, -1])
            first = 2 if touch.writes else 0
            if at[first] < 0:
                at[first] = index
            at[first + 1] = index
    return [Hazard(slot, holder, worker, *at) for (slot, holder, worker), at in found.items()]


def _read_elsewhere(plan: Plan) -> dict[tuple[int, int, int], Region]:
    found: dict[tuple[int, int, int], Region] = {}
    for item, touches in zip(plan.instructions, plan.touches, strict=True):
        for touch in touches:
            if not touch.writes and HOST != touch.holder != item.worker:
                at = touch.slot, touch.holder, item.worker
                found[at] = found.get(at, EMPTY) | touch.region
    return found


def _changed_by_interiors(plan: Plan) -> Sequence[tuple[int, int, Region]]:
    return [
        (touch.slot, item.worker, touch.region)
        for item, touches in zip(plan.instructions, plan.touches, strict=True)
        if isinstance(item, Launch) and item.is_interior
        for touch in touches
        if touch.writes
    ]


def _contents(plan: Plan) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Slots that the command itself reads, changes and overwrites whole. Copies that only keep holders coherent do
    none of these.
    """
    reads: set[int] = set(plan.reads)
    written: set[int] = set(plan.writes)
    surely: dict[int, Region] = {}
    for item, touches in zip(plan.instructions, plan.touches, strict=True):
        if not isinstance(item, (Launch, Upload, Download, Fill, CopyBetween, *_MERGES)):
            continue
        for touch in touches:
            if not touch.writes:
                if not isinstance(item, _MERGES):
                    reads.add(touch.slot)
                continue
            written.add(touch.slot)
            if isinstance(item, (Upload, Fill, CopyBetween)):
                surely[touch.slot] = surely.get(touch.slot, touch.region) | touch.region
    whole = {
        slot
        for slot, region in surely.items()
        if slot not in reads and region.contains(Region.span(0, plan.states[slot].nbytes))
    }
    whole.update(plan.overwrites)
    return tuple(sorted(reads)), tuple(sorted(written)), tuple(sorted(whole))


def _host_nbytes(plan: Plan) -> int:
    """Bytes that a plan moves on the host; more than any limit if workers take part."""
    return 1 << 62 if any(item.worker != HOST for item in plan.instructions) else _home_nbytes(plan)


def _uploads_of(plan: Plan) -> tuple[tuple[int, int], ...]:
    """By worker, the bytes that a plan brings from the host's array; nothing where it does anything else, or for one worker."""
    found: dict[int, int] = {}
    for item in plan.instructions:
        if not isinstance(item, Upload) or item.worker == HOST:
            return ()
        found[item.worker] = found.get(item.worker, 0) + item.region.nbytes
    return tuple(found.items()) if len(found) > 1 else ()


def _home_nbytes(plan: Plan) -> int:
    """Bytes that the host's worker touches."""
    return sum(
        touch.region.nbytes
        for item, touches in zip(plan.instructions, plan.touches, strict=True)
        if item.worker == HOST
        for touch in touches
    )


#: a plan that does nothing
NOTHING = PreparedPlan(Plan((), (), (), ()), None)
#: the same, as one step of whichever worker it is handed to (`vdev.executor.line`)
MARKER = PreparedPlan(Plan((), (), (), ()), None)
MARKER.step = EmptyStep()


def touching(
    *, reads: tuple[int, ...] = (), writes: tuple[int, ...] = (), overwrites: tuple[int, ...] = ()
) -> PreparedPlan:
    """The prepared plan of a command that somebody else has handed to its worker, and that does this to its slots: all that matters
    for how far a failure spreads.
    """
    found = PreparedPlan(Plan((), (), (), (), reads=reads, writes=writes, overwrites=overwrites), None)
    found.step = EmptyStep()
    return found
