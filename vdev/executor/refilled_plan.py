"""Refilled plans: one that was compiled, for whatever plans differ from it in their numbers.

Programs that work their way over a matrix have another plan for each launch: it launches other chunks and copies other boxes, and in
all else it is as plans before it. Which workers take part, which of their steps wait for which, and which calls these come to stays the
same; so that is compiled once for all plans of a form, and each command has the calls take its plan's numbers. What it waits for is
looked up in its buffers' records. Decides after how many such plans one is compiled, and whether a command's fit. If they do not,
nothing has happened.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import c_int64
from itertools import accumulate
from operator import attrgetter, getitem
from typing import TYPE_CHECKING, Any

from vdev.backends.base import Allocation
from vdev.backends.compiling import ListedCall
from vdev.errors import BackendError
from vdev.executor.compiled_plan import CompiledPlan, compile_plan
from vdev.executor.completion import Completion
from vdev.executor.hazards import OpenHazards
from vdev.executor.job import Job
from vdev.executor.launch_step import LaunchStep
from vdev.executor.steps import CopyStep

if TYPE_CHECKING:
    from vdev.executor.compiled_plan import Given
    from vdev.executor.holdings import Holdings, Replica
    from vdev.executor.legs import Changed, CompilingExecutor, Leg
    from vdev.executor.plan_list import ListedLeg
    from vdev.executor.prepare import PreparedPlan
    from vdev.executor.step import Step
    from vdev.executor.stretch import Entry
    from vdev.executor.together import Together
    from vdev.executor.worker import Worker
    from vdev.planner.instructions import Blocks

#: plans of a form that are submitted one by one before one is compiled, which takes as long as some of them
_SUBMITTED = 2
#: of a block (`Block`)
_NUMBERS = 6

_REPLICAS: Callable[[Holdings], list[Replica | None]] = attrgetter("replicas")
_MEMORY: Callable[[Any], tuple[int, int, int]] = attrgetter("allocation.address", "start", "stop")


class _Memories:
    """The replicas between which a plan copies, and the blocks that it copies, as the back ends' calls find them."""

    __slots__ = ("_now", "_numbers", "_slots", "blocks", "firsts", "known", "memories")

    def __init__(self, blocks: Blocks, steps: Sequence[Step]) -> None:
        """`blocks`: of a plan with such steps."""
        #: by instruction, the number of its first block; and last, how many there are
        self.firsts = [0, *accumulate(blocks.counts)]
        copies = [step for step in steps if type(step) is CopyStep]
        #: by slot and worker, the number of the replica
        places = dict.fromkeys((step.slot, each) for step in copies for each in (step.source, step.target))
        self.known = {place: number for number, place in enumerate(places)}
        self._slots, self._numbers = [slot for slot, _ in places], [number for _, number in places]
        self._now: list[Replica | None] = []
        self.blocks = (c_int64 * (_NUMBERS * self.firsts[-1]))()
        self.memories = (c_int64 * (3 * len(places)))()

    def take(self, blocks: Blocks | None, holdings: Sequence[Holdings]) -> bool:
        """Look at the blocks of another plan, and at these replicas; False if that is not possible."""
        numbers = None if blocks is None else blocks.numbers()
        if numbers is None:
            return False
        replicas = [*map(_REPLICAS, holdings)]
        found = [*map(getitem, map(replicas.__getitem__, self._slots), self._numbers)]
        if found != self._now:
            if None in found:
                return False
            self.memories[:] = [number for replica in found for number in _MEMORY(replica)]
            self._now = found
        self.blocks[:] = [*numbers]
        return True


class _Arguments:
    """The arguments with which a plan's launches were made last, as far as commands may have others."""

    __slots__ = ("_is_known", "_now", "_numbers", "_slots", "_values", "_values_at")

    def __init__(self, args: Sequence[Any], prepared: PreparedPlan) -> None:
        """`args`: of a command with such a plan."""
        #: those that are values; what else there is are buffers, which launches point into, or is the same for each command
        self._values_at = [at for at, arg in enumerate(args) if type(arg) is bytes]
        self._is_known = not any(type(arg) is tuple or isinstance(arg, Allocation) for arg in args)
        places = {
            (slot, number): None
            for number, batch in prepared.batches
            for step in batch.steps
            if type(step) is LaunchStep
            for _, slot, *_ in step.bases
        }
        self._slots, self._numbers = [slot for slot, _ in places], [number for _, number in places]
        self._now: list[Replica | None] = []
        self._values: list[bytes] = []  #: none where it is not known what the calls have

    def take(self, args: Sequence[Any], holdings: Sequence[Holdings]) -> Changed | None:
        """What launches with these arguments have other than those before; None where that is not known."""
        replicas = [each.replicas for each in holdings]
        found = [replicas[slot][number] for slot, number in zip(self._slots, self._numbers, strict=True)]
        values = [args[at] for at in self._values_at]
        before, self._values = self._values, values
        if found != self._now or len(before) != len(values) or not self._is_known:
            self._now = found
            return None
        return [
            (at, value)
            for at, value, last in zip(self._values_at, values, before, strict=True)
            if value != last
        ]

    def forget(self) -> None:
        """The calls may not have taken them."""
        self._now, self._values = [], []


class _Refilled:
    """A leg, and which of its worker's steps each of its calls is for."""

    __slots__ = ("_all", "_at", "_bases", "_calls", "_copying", "_leg", "_listed", "_worker")

    def __init__(
        self, leg: Leg, listed: ListedLeg, at: int, places: Sequence[int], memories: _Memories | None
    ) -> None:
        """`at`: of its worker's steps among those of a plan's workers. `places`: of these steps' instructions."""
        self._leg, self._listed, self._at, self._worker = leg, listed, at, leg.worker
        first = leg.last - sum(map(len, leg.steps))
        self._all = slice(first, leg.last)
        self._copying: list[ListedCall] = []  #: those that copy, which count nothing but these bytes
        #: each call, which steps it is for, and what has it copy blocks
        self._calls: list[tuple[ListedCall, slice, Callable[[], bool] | None]] = []
        for call, steps in zip(listed.calls, leg.steps, strict=True):
            stop = first + len(steps)
            copies = None if memories is None else _block_copies(call, steps, places[first:stop], memories)
            self._calls.append((call, slice(first, stop), copies))
            if type(steps[0]) is CopyStep:
                self._copying.append(call)
            first = stop
        #: by call: where in its memory the launch's arguments lie that it was made for last
        self._bases: list[object] = [None] * len(self._calls)

    def take(self, prepared: PreparedPlan, job: Job, changed: Changed | None, *, blocks: bool) -> bool:
        """Have the calls take the numbers of a plan, for the replicas and arguments of a job; False if they cannot. `changed`: as
        `_Arguments.take` gives it. `blocks`: those of its copies are there.
        """
        steps, leg, listed, bases = prepared.batches[self._at][1].steps, self._leg, self._listed, self._bases
        of_calls: list[Sequence[Step]] = []
        for at, (call, span, copies) in enumerate(self._calls):
            some = steps[span]
            of_calls.append(some)
            first = some[0]
            if type(first) is LaunchStep:
                there = first.bases, first.shape.bases
                if changed is not None and there == bases[at] and first.refills_values(call, changed):
                    continue
                bases[at] = there
                if not first.refills(call, self._worker, job):
                    return False
            elif not (blocks and copies is not None and copies()) and not _take(
                call, some, self._worker, job
            ):
                return False
        leg.steps = of_calls
        if leg.coherent:
            leg.coherent = listed.coherent = [step for step in steps[self._all] if step.coherent]
            listed.from_peer = sum([call.counted[0][1] for call in self._copying])
        return True


def _block_copies(
    call: ListedCall, steps: Sequence[Step], places: Sequence[int], memories: _Memories
) -> Callable[[], bool] | None:
    """What has a call copy the blocks of these steps, whose instructions are at such places in their plan."""
    boxes: list[tuple[int, int, int]] = []
    known, firsts = memories.known, memories.firsts
    for step, place in zip(steps, places, strict=True):
        if type(step) is not CopyStep:
            return None
        source, target = known[step.slot, step.source], known[step.slot, step.target]
        boxes += [(block, source, target) for block in range(firsts[place], firsts[place + 1])]
    return call.block_copies(memories.blocks, memories.memories, boxes)


def _take(call: ListedCall, steps: Sequence[Step], worker: Worker, job: Job) -> bool:
    """Have a call take the numbers of its steps, which copy."""
    return call.take_copies([step.between(worker, job) for step in steps if type(step) is CopyStep])


class RefilledPlan(CompiledPlan):
    """A plan, compiled for all that differ from it in their numbers."""

    __slots__ = ("_args", "_arguments", "_is_used", "_job", "_memories", "_refilled")
    is_form = True

    def __init__(
        self, prepared: PreparedPlan, job: Job, workers: Sequence[Worker], legs: Sequence[Leg]
    ) -> None:
        super().__init__(prepared, job, workers, legs)
        self.replicas = []
        self._hazards = hazards = OpenHazards(prepared, workers)
        self.number_steps = hazards.number_steps
        #: stands for the command whose numbers are taken
        self._job, self._args = job, job.args
        self._is_used = False  #: a command is handed over
        self._arguments = _Arguments(job.args, prepared)
        steps = [step for _, batch in prepared.batches for step in batch.steps]
        blocks = prepared.blocks
        self._memories = _Memories(blocks, steps) if blocks is not None and any(blocks.counts) else None
        at = {number: place for place, (number, _) in enumerate(prepared.batches)}
        places = {number: batch.places for number, batch in prepared.batches}
        #: none where the calls are in no list
        self._refilled = [
            _Refilled(leg, listed, at[listed.number], places[listed.number], self._memories)
            for leg, listed in zip(legs, () if self.list is None else self.list.legs, strict=False)
        ]

    @staticmethod
    def never(prepared: PreparedPlan) -> None:
        assert prepared.refills is not None, "it is compiled for those"
        prepared.refills.is_possible = False

    def submit_like(
        self,
        prepared: PreparedPlan,
        executor: CompilingExecutor,
        holdings: Sequence[Holdings],
        completion: Completion,
        given: Given,
    ) -> Job | None:
        """As `submit`, for a plan that differs from those before in its numbers."""
        if not self._takes_up(prepared, given[0]):
            return None
        try:
            return self.submit(executor, holdings, completion, given)
        finally:
            self._is_used = False

    def hand_over_like(self, together: Together, entry: Entry) -> Completion | None:
        """The same, together with the commands before: as `Together.hand_over`."""
        if not self._takes_up(entry[0], entry[2]):
            return None
        try:
            return together.hand_over(self, entry)
        finally:
            self._is_used = False

    def _takes_up(self, prepared: PreparedPlan, args: Sequence[Any]) -> bool:
        """Whether a command with such a plan and these `args` is handed over next."""
        if self._is_used or any(args[at] != arg for at, arg in self.others):
            return False  # the first: a finaliser of the program's submits while a command is handed over
        self._prepared, self._args, self._is_used = prepared, args, True
        return True

    def takes(self, holdings: Sequence[Holdings]) -> bool:
        job, prepared, memories = self._job, self._prepared, self._memories
        job.holdings, job.args = holdings, self._args
        blocks = memories is not None and memories.take(prepared.blocks, holdings)
        changed, is_taken = self._arguments.take(self._args, holdings), False
        try:
            for refilled in self._refilled:
                if not refilled.take(prepared, job, changed, blocks=blocks):
                    return False
            is_taken = True
        except BackendError:  # a worker has no memory for what it copies: a failure before
            return False
        finally:
            job.holdings = job.args = self._args = ()
            if not is_taken:
                self._arguments.forget()
        for part in self._parts:
            part.look_at(holdings)
        return True

    def _changed(self, args: Sequence[Any]) -> Changed:
        """All values were taken with the other numbers."""
        return ()


def submit_refilled(
    executor: CompilingExecutor,
    prepared: PreparedPlan,
    holdings: Sequence[Holdings],
    completion: Completion,
    given: Given,
) -> Job | None:
    """Submit a plan as one of its form was compiled, or compile that once there have been some. None if it has to be submitted like any
    other: then nothing has happened. Arguments as in `CompiledPlan.submit`.
    """
    refills = prepared.refills
    if refills is None or not refills.is_possible or completion.profiled or completion.is_awaited:
        return None
    plan: RefilledPlan | None = refills.plan
    if plan is None:
        refills.submitted += 1
        if refills.submitted <= _SUBMITTED:
            return None
        plan = _compiled(executor, prepared, holdings, given[0])
        if plan is None:
            return None
        refills.plan = plan
    return plan.submit_like(prepared, executor, holdings, completion, given)


def _compiled(
    executor: CompilingExecutor, prepared: PreparedPlan, holdings: Sequence[Holdings], args: Sequence[Any]
) -> RefilledPlan | None:
    """A plan compiled for all of its form; None where it never can be, or not now."""
    steps = [step for _, batch in prepared.batches for step in batch.steps]
    if not all(type(step) in (LaunchStep, CopyStep) for step in steps):
        RefilledPlan.never(prepared)
        return None
    job = Job(executor, 0, prepared, holdings, Completion())
    job.args = args
    made = compile_plan(executor, prepared, job, RefilledPlan)
    assert made is None or isinstance(made, RefilledPlan), "it was asked for"
    if made is not None and made.list is None:
        RefilledPlan.never(prepared)
        return None
    return made
