"""Forms of plans: a plan compiled for whatever replicas.

Programs that make their buffers anew for each step launch, and fold, with other buffers each time, and otherwise as before. What of a
plan's calls depends on its buffers are addresses among their parameters: a form is told of others for each command. Buffers that are
new, or of which a worker needs more than it has, get their memory first; a few bytes of a home are taken when the command
is handed over. Decides when a plan has a form, and whether a command is one of it; what the command waits for is looked up in its
buffers' records (`vdev.executor.hazards.OpenHazards`). If it cannot be handed over, nothing has happened.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter, getitem
from typing import TYPE_CHECKING, Any

from vdev.backends.call_lists import Addresses
from vdev.backends.compiling import ListedCall
from vdev.executor.boxes import boxes_of_region
from vdev.executor.compiled_plan import UNKNOWN_IN_A_ROW, CompiledPlan, compile_plan
from vdev.executor.completion import Completion
from vdev.executor.hazards import OpenHazards
from vdev.executor.job import Job
from vdev.executor.step import Step, replica_of
from vdev.executor.steps import CopyStep, ReserveStep
from vdev.planner.instructions import HOST

if TYPE_CHECKING:
    from vdev.backends.compiling import Call, CompilingBackend, Placed
    from vdev.executor.holdings import Holdings, Replica
    from vdev.executor.legs import CompilingExecutor, Leg
    from vdev.executor.orders import Edge
    from vdev.executor.plan_list import Need
    from vdev.executor.prepare import PreparedPlan
    from vdev.executor.roles import StepJob, StepWorker
    from vdev.executor.worker import Worker
    from vdev.translators.ranges.region import Region

_REPLICAS: Callable[[Holdings], list[Replica | None]] = attrgetter("replicas")
_BOUNDS, _ADDRESS = attrgetter("start", "stop"), attrgetter("allocation.address")
#: addresses that take each other's place are as far apart as a multiple of so many bytes: that of the widest units that are copied
_APART = 16
#: commands with a plan that takes memory for new buffers, after which it gets a form
_NEW_IN_A_ROW = 4
#: the number of a value that is none of a command's arguments: bytes of a home
_AT_HOME = -1


class KeepingStep(ReserveStep):
    """What a larger replica takes from the one before; its memory is there."""

    __slots__ = ()

    def __init__(self, step: ReserveStep) -> None:
        self.worker, self.slot, self.sparse = step.worker, step.slot, step.sparse
        self.start, self.stop, self.keep = step.start, step.stop, step.keep

    def compiled(self, backend: CompilingBackend, worker: StepWorker, job: StepJob) -> Call | None:
        """From a part of the replica that stands for the one before, whose addresses each command tells."""
        replica = replica_of(job, self.slot, worker.number, self.start, self.stop)
        former = backend.part(replica.allocation, 0, replica.allocation.nbytes)
        boxes = boxes_of_region(self.keep, replica.start, replica.start)
        return backend.own_copies(former, replica.allocation, tuple(boxes))

    def effect(self, *, late: bool) -> tuple[int, int, Region] | None:
        return self.slot, self.worker, self.keep  # what it was to keep is where nobody looks for it


class FromHomeStep(Step):
    """A few bytes of a home, as they are when a command is handed over."""

    __slots__ = ("region", "slot", "worker")
    coherent = True
    brief = True

    def __init__(self, step: CopyStep) -> None:
        self.slot, self.worker, self.region = step.slot, step.target, step.region

    def run(self, worker: StepWorker, job: StepJob) -> None:
        raise NotImplementedError  # it is only compiled

    def compiled(self, backend: CompilingBackend, worker: StepWorker, job: StepJob) -> Call | None:
        start, stop = self.region.start, self.region.stop
        if stop - start != self.region.nbytes:
            return None
        replica = replica_of(job, self.slot, worker.number, start, stop)
        given = _AT_HOME, bytes(stop - start)
        return backend.uploads(replica.allocation, start - replica.start, stop - start, given, 0)

    def effect(self, *, late: bool) -> tuple[int, int, Region] | None:
        return self.slot, self.worker, self.region


class _FromHome:
    """Bytes of a home that a command's calls bring to workers."""

    __slots__ = ("calls", "slot", "start", "stop")

    def __init__(self, slot: int, start: int, stop: int) -> None:
        self.slot, self.start, self.stop = slot, start, stop
        self.calls: list[ListedCall] = []

    def take(self, holdings: Holdings, workers: Sequence[Worker]) -> bool:
        """Have the calls bring what the home holds; False if that is not there yet."""
        for number, step in holdings.home_writes.items():
            if workers[number].completed < step:
                return False
        given = ((_AT_HOME, holdings.home()[self.start : self.stop].tobytes()),)
        for call in self.calls:
            call.set_values(given)
        return True


class _Taken:
    """Memory that a command's buffer gets on a worker, and where the calls have addresses in what it had there before."""

    __slots__ = ("_keep", "former", "number", "slot", "start", "stop", "worker")

    def __init__(self, step: ReserveStep, worker: Worker) -> None:
        self.slot, self.worker, self.number = step.slot, worker, worker.number
        self.start, self.stop = step.start, step.stop
        #: bytes that it had before; None where it had none
        self._keep = (step.keep.start, step.keep.stop) if step.keep else None
        #: where that would begin if it were as the memory is that takes its place; None where the calls have no address there
        self.former: int | None = None

    def follows(self, before: Replica | None) -> bool:
        """Whether it can take the place of a replica."""
        if before is None or self._keep is None:
            return before is None and self._keep is None
        if self.former is None or before.start > self._keep[0] or before.stop < self._keep[1]:
            return False
        self.former = before.allocation.address + self.start - before.start
        return True


class PlanForm(CompiledPlan):
    """A plan, compiled for whatever replicas of the same bytes."""

    __slots__ = (
        "_addresses", "_bounds", "_formers", "_from_home", "_moved", "_numbers", "_replaced", "_slots", "_taken", "is_whole",
    )  # fmt: skip
    is_form = True

    def __init__(
        self, prepared: PreparedPlan, job: Job, workers: Sequence[Worker], legs: Sequence[Leg]
    ) -> None:
        super().__init__(prepared, job, workers, legs)
        self.number_steps = OpenHazards(prepared, workers).number_steps
        self.replicas = []
        self._taken = [
            _Taken(step, workers[number])
            for number, batch in prepared.batches
            for step in batch.steps
            if isinstance(step, ReserveStep)
        ]
        self._from_home = _from_home(legs)
        #: of the command that is handed over: where its replicas are, the worker, and what was there before
        self._replaced: list[tuple[list[Replica | None], Worker, Replica | None]] = []
        found = None if self.list is None else _Memories(job, legs, self._taken)
        self.is_whole = found is not None and found.is_whole  #: whether all addresses are known
        #: of the replicas that the calls have addresses in: by slot and worker; those of the last command, which belong to one buffer each,
        #: whose memory they do not keep; and which bytes they have
        self._slots: list[int] = []
        self._numbers: list[int] = []
        self._moved: list[Replica | None] = []
        self._bounds: list[tuple[int, int]] = []
        if found is not None and self.is_whole:
            self._slots = [slot for slot, _, _ in found.replicas]
            self._numbers = [number for _, number, _ in found.replicas]
            self._moved += [replica for _, _, replica in found.replicas]
            self._bounds = [*map(_BOUNDS, self._moved)]
            #: that of which has former replicas, and all addresses, these last
            self._formers = found.formers
            self._addresses = Addresses(found.words, found.addresses, _APART)

    @staticmethod
    def never(prepared: PreparedPlan) -> None:
        prepared.is_movable = False

    @staticmethod
    def compiled_steps(steps: Sequence[Step]) -> Sequence[Step]:
        found: list[Step] = []
        for step in steps:
            if isinstance(step, ReserveStep):
                if step.keep:
                    found.append(KeepingStep(step))
            elif isinstance(step, CopyStep) and step.source == HOST:
                found.append(FromHomeStep(step))
            else:
                found.append(step)
        return found

    def takes(self, holdings: Sequence[Holdings]) -> bool:
        """Have the calls take place in the replicas of `holdings`; False if they cannot."""
        for each in self._from_home:
            if not each.take(holdings[each.slot], self._all):
                return False
        if (not self._taken or self._take(holdings)) and self._move(holdings):
            return True
        self._restore()
        return False

    def was_left(self) -> None:
        self._restore()

    def was_made(self) -> None:
        if self._replaced:
            for _, worker, before in self._replaced:
                if before is not None:
                    worker.memory.discard(before.allocation)
            self._replaced = []

    def conclude(
        self, executor: CompilingExecutor, job: Job, edge: Edge, place: int, needs: Sequence[Need]
    ) -> None:
        if self.list is not None and self.list.is_begun(place):
            self.was_made()
        else:  # it is left to the workers' threads
            self._restore()
        for h in self._prepared.hazards:  # what is left may be copied later
            if h.holder == HOST:
                job.holdings[h.slot].did_read(HOST, h.worker, job.bases[h.worker] + h.last_read + 1)
        super().conclude(executor, job, edge, place, needs)

    def _move(self, holdings: Sequence[Holdings]) -> bool:
        """Have the calls take place in the replicas that there are: without a step of Python's for each."""
        there = [*map(_REPLICAS, holdings)]
        found = [*map(getitem, map(there.__getitem__, self._slots), self._numbers)]
        if found == self._moved and not self._formers:
            return True
        if None in found or [*map(_BOUNDS, found)] != self._bounds:
            return False
        addresses = [*map(_ADDRESS, found)]
        if self._formers:
            addresses += [each.former for each in self._formers]
        if not self._addresses.move(addresses):
            return False
        self._moved = found
        return True

    def _take(self, holdings: Sequence[Holdings]) -> bool:
        """Give the buffers their memory; False if that is not possible just now."""
        self._replaced = replaced = []
        for taken in self._taken:
            worker, replicas = taken.worker, holdings[taken.slot].replicas
            before = replicas[worker.number]
            if not taken.follows(before):
                return False
            found = worker.memory.take_new(taken.start, taken.stop, self.go_to)
            if found is None:
                return False
            replicas[worker.number] = found
            replaced.append((replicas, worker, before))
        return True

    def _restore(self) -> None:
        """A command is not handed over: its buffers have the memory that they had."""
        for replicas, worker, before in self._replaced:
            found, replicas[worker.number] = replicas[worker.number], before
            if found is not None:
                worker.memory.discard(found.allocation)
        self._replaced = []


def _from_home(legs: Sequence[Leg]) -> list[_FromHome]:
    """What the calls bring from homes; those that bring the same bytes to several workers together."""
    found: dict[tuple[int, int, int], _FromHome] = {}
    for leg in legs:
        for call, steps in zip(leg.calls, leg.steps, strict=True):
            step = steps[0]
            if isinstance(step, FromHomeStep) and isinstance(call, ListedCall):
                key = step.slot, step.region.start, step.region.stop
                found.setdefault(key, _FromHome(*key)).calls.append(call)
    return [*found.values()]


class _Memories:
    """The memories that the calls for a command have addresses in: its replicas, and those whose place memory takes that it gets."""

    __slots__ = ("addresses", "formers", "is_whole", "replicas", "words")

    def __init__(self, job: Job, legs: Sequence[Leg], taken: Sequence[_Taken]) -> None:
        known: dict[int, tuple[int, int, Replica]] = {
            id(replica.allocation): (slot, number, replica)
            for slot, holdings in enumerate(job.holdings)
            for number, replica in enumerate(holdings.replicas)
            if replica is not None and replica.allocation.whole is None
        }
        calls = [call for leg in legs for call in leg.listed or ()]
        found = [placed for call in calls for placed in call.placed or ()]
        of = [known.get(id(placed.memory.whole or placed.memory)) for placed in found]
        self.is_whole = None not in of and not any(call.placed is None for call in calls)
        #: by slot and worker, in the order of the addresses
        self.replicas: list[tuple[int, int, Replica]] = []
        self.formers: list[_Taken] = []  #: the same for what was there before, behind these
        self.words: list[tuple[int, int]] = []  #: where an address is, and in which of the memories
        self.addresses: list[int] = []
        if self.is_whole:
            self._arrange(found, [each for each in of if each is not None], taken)

    def _arrange(
        self, found: Sequence[Placed], of: Sequence[tuple[int, int, Replica]], taken: Sequence[_Taken]
    ) -> None:
        """Give the memories their numbers."""
        now = {each[:2]: each for placed, each in zip(found, of, strict=True) if placed.memory.whole is None}
        before = {
            each[:2]: each for placed, each in zip(found, of, strict=True) if placed.memory.whole is not None
        }
        self.replicas = [now[key] for key in sorted(now)]
        self.formers = [each for each in taken if (each.slot, each.number) in before]
        for each in self.formers:
            each.former = before[each.slot, each.number][2].allocation.address
        numbers = {key: number for number, key in enumerate(sorted(now))}
        formers = {(each.slot, each.number): len(now) + at for at, each in enumerate(self.formers)}
        self.addresses = [replica.allocation.address for _, _, replica in self.replicas]
        self.addresses += [each.former for each in self.formers if each.former is not None]
        self.words = [
            (at, (numbers if placed.memory.whole is None else formers)[each[:2]])
            for placed, each in zip(found, of, strict=True)
            for at in placed.places
        ]


def prepare_form(
    executor: CompilingExecutor,
    prepared: PreparedPlan,
    holdings: Sequence[Holdings],
    args: Sequence[Any],
    *,
    grows: bool,
) -> bool:
    """A plan was submitted that nothing hands over again, as of `open_form`: whether it has a form from now on, as it gets one once there
    have been some commands of it whose buffers were new. `grows`: they get memory for it.
    """
    if not prepared.is_movable or prepared.form is not None:
        return False
    prepared.unknown += grows  # others are counted where they are submitted
    if prepared.unknown < (_NEW_IN_A_ROW if grows else UNKNOWN_IN_A_ROW):
        return False
    return open_form(executor, prepared, holdings, args) is not None


def open_form(
    executor: CompilingExecutor, prepared: PreparedPlan, holdings: Sequence[Holdings], args: Sequence[Any]
) -> PlanForm | None:
    """The form of a plan that was submitted last, with these `holdings` and `args`, and has none yet; None where there is none, or
    not now.
    """
    job = Job(executor, 0, prepared, holdings, Completion())
    job.args = args
    found = compile_plan(executor, prepared, job, PlanForm)
    if found is None:
        return None
    assert isinstance(found, PlanForm), "it was asked for"
    if not found.is_whole:
        prepared.is_movable = False
        return None
    prepared.form = found
    return found
