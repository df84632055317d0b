"""Compiled plans: a plan that is submitted again, as the calls of the back ends that its steps come to.

A plan whose steps are launches, copies between workers and folds is compiled for the replicas that it was submitted with:
a flat list of calls, each with its parameters packed, to be made by the thread that submits, all with one call where that is
possible (`vdev.executor.plan_list`). What changes from command to
command is filled in: the launch's values, and which workers wait for which, as the buffers' records say at that moment. Workers
wait for each other's *fences*: of each there is one, put anew only where it is not behind what is waited for.
Decides when a command can be handed over in this way: while its workers are idle, as a rule. If it cannot, nothing has happened,
and it is submitted like any other. For everybody else it is a job like any other: it has numbered steps, stands in its
buffers' records and behind the next marks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from threading import get_ident
from typing import TYPE_CHECKING, Any, NamedTuple

from vdev.backends.base import LocalBytes
from vdev.backends.call_lists import NoWalker, walker
from vdev.errors import BackendError
from vdev.executor.completion import Completion
from vdev.executor.hazards import HazardsOfPlan, OpenHazards
from vdev.executor.job import Job
from vdev.executor.launch_step import LaunchStep
from vdev.executor.legs import Changed, CompilingExecutor, Leg
from vdev.executor.mark import MARK_AFTER_NS, MARK_EVERY, MARK_NBYTES, MARKS_IN_FLIGHT
from vdev.executor.orders import Accesses
from vdev.executor.orders import Leg as OrderedLeg
from vdev.executor.plan_list import ListedLeg, Need, PlanList, listed
from vdev.executor.prepare import CompiledPlans
from vdev.executor.steps import CopyStep
from vdev.executor.worker_progress import TURN_TIMEOUT
from vdev.planner.instructions import HOST

if TYPE_CHECKING:
    from vdev.backends.compiling import Call
    from vdev.executor.holdings import Holdings
    from vdev.executor.orders import Edge
    from vdev.executor.prepare import Batch, PreparedPlan
    from vdev.executor.step import Step
    from vdev.executor.worker import Worker
    from vdev.executor.worker_progress import Waits
    from vdev.translators.ranges.ndrange import NDRange

#: of each plan: for how many groups of replicas it is compiled, and how many are remembered as having come once. Programs have
#: several fields, each in two buffers, in turn.
_MOST_COMPILED, _MOST_SEEN = 16, 16
#: groups of replicas in a row that have never come before, after which others are expected for ever (`vdev.executor.plan_form`)
UNKNOWN_IN_A_ROW = _MOST_SEEN + 1

#: a command's arguments, NDRange, places, what it waits for, and what it follows: as in `Executor.submit`
Given = tuple[
    "Sequence[Any]",
    "NDRange | None",
    "Sequence[tuple[int, int, int]]",
    "Sequence[Completion]",
    "Completion | None",
]


class Shares(NamedTuple):
    """What workers do of a plan in which none concerns another one, each in one go."""

    #: each one's worker, its number, how many steps it has, what tells its back end that its calls were made, and how many operations and
    #: how many launches these are
    each: Sequence[tuple[Worker, int, int, Callable[[int, int], int], int, int]]
    counted: Sequence[
        tuple[Any, str, int]
    ]  #: what else is counted: how much is added to which of a back end's counters


class _Part:
    """What one worker has to look at before it does anything of a plan."""

    __slots__ = ("_changes", "_reads", "changed", "read", "worker")

    def __init__(self, prepared: PreparedPlan, job: Job, workers: Sequence[Worker], number: int) -> None:
        self.worker = workers[number]
        #: slots of which it changes its own replica, and the replicas that it reads: (whose, the number, slot)
        self._changes = [slot for slot, worker, _, _ in prepared.own_writes if worker == number]
        self._reads = [
            (workers[h.holder], h.holder, h.slot) for h in prepared.peer_hazards if h.worker == number
        ]
        self.look_at(job.holdings)

    def look_at(self, holdings: Sequence[Holdings]) -> None:
        """Look at the records of these buffers from now on."""
        #: of the buffers of which it changes its own replica: who reads it, by worker
        self.changed = [holdings[slot].readers for slot in self._changes]
        #: the replicas that it reads: whose, and the last steps that have changed it, by worker
        self.read = [(other, holder, holdings[slot].written) for other, holder, slot in self._reads]

    def needs(self, workers: Sequence[Worker]) -> dict[Worker, int]:
        """Steps of other workers that are not known to be complete and that it has to wait for; the last of each."""
        found: dict[Worker, int] = {}
        for other, number, written in self.read:
            step = written[number]
            if other.completed < step and found.get(other, 0) < step:
                found[other] = step
        own = self.worker.number
        for readers in self.changed:
            there = readers[own]
            if there is None:
                continue
            for number, step in there.items():
                other = workers[number]
                if number != own and other.completed < step and found.get(other, 0) < step:
                    found[other] = step
        return found


def _accesses(known: HazardsOfPlan, legs: Sequence[Leg]) -> Accesses:
    in_order = [
        OrderedLeg(leg.worker.number, leg.last, [each.number for each in leg.after], leg.fences)
        for leg in legs
    ]
    return Accesses(known.changes, known.reads, in_order, known.regions, known.interiors)


def _shares(listed_calls: PlanList | None) -> Shares | None:
    """If no leg concerns another worker: what each of them does."""
    if listed_calls is None or not all(leg.is_plain for leg in listed_calls.legs):
        return None
    legs = listed_calls.legs
    return Shares(
        [(leg.worker, leg.number, leg.last, leg.backend.made, leg.operations, leg.launches) for leg in legs],
        [(leg.backend.counters, name, more) for leg in legs for name, more in leg.counted],
    )


class CompiledPlan:
    """A plan, compiled for the replicas of one group of buffers."""

    __slots__ = (
        "_all", "_hazards", "_inside", "_legs", "_outside", "_parts", "_peers", "_prepared", "_values", "_values_at", "accesses",
        "batched", "end", "list", "needs", "number_steps", "others", "replicas", "shares", "workers",
    )  # fmt: skip
    _hazards: HazardsOfPlan | OpenHazards
    is_form = False  #: whether it is for whatever replicas (`vdev.executor.plan_form`)

    def __init__(
        self, prepared: PreparedPlan, job: Job, workers: Sequence[Worker], legs: Sequence[Leg]
    ) -> None:
        """`job`: a command of the plan's, with the replicas. `workers`: all of the executor's, by number."""
        self._prepared = prepared
        self._legs = legs
        #: all calls as one list, where there is such a thing
        self.list = listed(legs, workers[:-1], self.go_to)
        self.end = 0 if self.list is None else self.list.end  #: the place behind its last call
        self.shares = _shares(self.list)
        #: workers that have something to do, by number, and those that others only read from: whose turns are taken
        self.batched = tuple(workers[number] for number, _ in sorted(prepared.batches))
        read = {h.holder for h in prepared.peer_hazards}
        self._peers = tuple(workers[number] for number in sorted(read) if workers[number] not in self.batched)
        #: by slot and worker. Replicas belong to one buffer, whose memory they do not keep.
        self.replicas = [list(holdings.replicas) for holdings in job.holdings]
        known = self._hazards = HazardsOfPlan(prepared, job.holdings, workers)
        self.number_steps: Callable[[Sequence[Holdings]], list[int]] = known.number_steps
        #: what a command has to wait for, as its buffers' records say
        self.needs = OpenHazards(prepared, workers).needs
        #: all workers concerned
        self.workers = self.batched + self._peers
        #: what has to be known of it to order it after other plans (`vdev.executor.orders`)
        self.accesses = _accesses(known, legs)
        self._parts = [_Part(prepared, job, workers, worker.number) for worker in self.batched]
        #: by argument that is a value: the one packed last; and what else is no buffer
        self._values_at = [at for at, arg in enumerate(job.args) if type(arg) is bytes]
        self._values: list[bytes | None] = [job.args[at] for at in self._values_at]
        self.others = [(at, arg) for at, arg in enumerate(job.args) if arg is None or type(arg) is LocalBytes]
        self._all = workers
        #: whose back end the thread that has the turns is working with, if it had to go there, and what it has left
        self._inside: Worker | None = None
        self._outside: object = None

    def submit(
        self,
        executor: CompilingExecutor,
        holdings: Sequence[Holdings],
        completion: Completion,
        given: Given,
    ) -> Job | None:
        """Submit the plan once more. None where that is not possible now: then nothing has happened.

        `holdings`: those with these replicas.
        """
        held: list[Worker] = []
        job = None
        try:
            # A worker's thread may just have moved a buffer.
            if _take_turns(self.batched, held) and _take_turns(self._peers, held) and self.takes(holdings):
                self._mark_by_age()
                job = self._submit_held(executor, holdings, completion, given, held)
                self._end()
        finally:
            if held:
                self.leave()
            for worker in held:
                worker.holder = 0
                worker.turn.release()
                if worker.queue or not worker.watching:
                    worker.wake()
        for worker in self.batched:
            if len(worker.marks) > MARKS_IN_FLIGHT:
                worker.throttle_here()
        return job

    @staticmethod
    def never(prepared: PreparedPlan) -> None:
        """It was found that such a plan cannot be made."""
        prepared.is_compilable = False

    @staticmethod
    def compiled_steps(steps: Sequence[Step]) -> Sequence[Step]:
        """Those of some steps that calls are made for."""
        return steps

    def takes(self, holdings: Sequence[Holdings]) -> bool:
        """Whether the calls take place in the replicas of `holdings`. With the turns."""
        return [each.replicas for each in holdings] == self.replicas

    @property
    def legs(self) -> Sequence[ListedLeg]:
        """Its legs, where all calls are in a list."""
        assert self.list is not None, "asked for first"
        return self.list.legs

    @property
    def is_alone(self) -> bool:
        """Whether all calls are in a list, one launch for each worker, and none of them concerns another worker."""
        return (
            self.list is not None
            and not self._prepared.hazards
            and len(self._legs) == len(self.batched)
            and all(len(leg.calls) == 1 for leg in self._legs)
        )

    def again(self, args: Sequence[Any]) -> tuple[int, BackendError | None]:
        """Make the calls for a command with these `args`, which waits for nothing: on how many workers they were made, in the plan's order,
        and what has failed on the next one. With the turns and under the lock; nothing else is done of a submission, and the back ends
        are not told what was made.
        """
        assert self.list is not None, "asked for first"
        changed, begun = self._changed(args), False
        try:
            started, error = self.list.repeat(changed)
            begun = error is None
        finally:
            self._remember(changed, begun)
            self.leave()
        return started, error

    def make_as(self, edge: Edge, args: Sequence[Any]) -> int:
        """The same for a command that waits for what its `edge` says: as `PlanList.make_as`. Call `leave` afterwards."""
        assert self.list is not None, "asked for first"
        changed, begun = self._changed(args), False
        try:
            place = self.list.make_as(edge, changed)
            begun = place == self.list.end
        finally:
            if changed or not begun:
                self._remember(changed, begun)
        return place

    def was_made(self) -> None:
        """All calls of a command were made. Only forms of plans are told."""

    def was_left(self) -> None:
        """A command that it takes is not handed over: it is submitted like any other."""

    def conclude(
        self, executor: CompilingExecutor, job: Job, edge: Edge, place: int, needs: Sequence[Need]
    ) -> None:
        """A command's calls were made up to that place, and the next one was refused: go on as `submit` does. Under the lock."""
        assert self.list is not None, "it has made them"
        left = dict(self._prepared.batches)
        try:
            if not self.list.conclude(executor, job, edge, place, left):
                executor.queue_job(job, _waits_of(needs), wake=False)
        except BackendError:  # a fence was refused: what waits for it must not begin
            self._abandon(job, left)

    def leave(self) -> None:
        """The thread goes back to where it was before it worked with the back ends."""
        if self._inside is not None:
            self._inside.backend.leave(self._outside)
            self._inside = None

    def _submit_held(
        self,
        executor: CompilingExecutor,
        holdings: Sequence[Holdings],
        completion: Completion,
        given: Given,
        held: list[Worker],
    ) -> Job | None:
        """Submit the plan with the turns of these workers."""
        with executor.lock:
            needs = self._find(held)
            if needs is None or executor.closed or executor.failures.any:
                return None
            job = self._enter(executor, holdings, completion, given, needs)
            if job.completion.error is None and not any(worker.queue for worker in self.batched):
                self._hand_over(executor, job, needs)
            else:  # a finaliser has submitted something meanwhile
                executor.queue_job(job, _waits_of(needs), wake=False)
        return job

    def go_to(self, worker: Worker) -> None:
        """Work with that worker's back end from now on, until `leave`."""
        if self._inside is None:
            self._outside = worker.backend.outside()
        self._inside = worker
        worker.backend.enter()

    def _mark_by_age(self) -> None:
        """Who waits for a command of a while ago shall not wait for this one as well. With the turns, before the lock."""
        now = time.perf_counter_ns()
        for worker in self.batched:
            if not worker.marks_by_age:
                continue
            if worker.next_mark.jobs and now > worker.mark_from_ns:
                self.go_to(worker)
                worker.mark(anew=True)
            if not worker.next_mark.jobs:
                worker.mark_from_ns = now + MARK_AFTER_NS

    def _find(self, held: list[Worker]) -> list[Need] | None:
        """What has to be waited for, as `Hazards.find` finds it; None where that takes the workers' threads. Takes the turns of
        those that are waited for. Under the executor's lock.
        """
        needs: list[Need] = []
        workers = self._all
        for part in self._parts:
            found = part.needs(workers)
            if not found:
                continue
            worker = part.worker
            for other, step in found.items():
                if other not in held and (other.number == HOST or not _take_turns((other,), held, timeout=0)):
                    return None
                if other.issued < step:
                    return None
                needs.append((worker, other, step))
        return needs

    def _enter(
        self,
        executor: CompilingExecutor,
        holdings: Sequence[Holdings],
        completion: Completion,
        given: Given,
        needs: Sequence[Need],
    ) -> Job:
        """The job, with its steps numbered and in its buffers' records. Under the lock."""
        number = executor.last_number = executor.last_number + 1
        job = Job(executor, number, self._prepared, holdings, completion)
        job.args, job.ndrange, job.places = given[0], given[1], tuple(given[2])
        clock = job.clock
        job.follow(given[3], given[4])
        for _, other, step in needs:
            if clock[other.number] < step:
                clock[other.number] = step
        executor.standing = object()
        self._hazards.enter(job)
        executor.unsettled[number] = job
        executor.failures.admit(job)
        completion.bind(job)
        return job

    def _hand_over(self, executor: CompilingExecutor, job: Job, needs: Sequence[Need]) -> None:
        """Make the calls. Under the lock, with the turns."""
        left, changed = dict(self._prepared.batches), self._changed(job.args)
        begun = False
        try:
            if self.list is not None and self.list.is_usable(needs):
                begun = self.list.hand_over(executor, job, needs, changed, left)
            else:
                begun = self._hand_over_singly(executor, job, needs, changed, left)
            if not begun:  # a fence was refused: a marker tells what is wrong
                executor.queue_job(job, _waits_of(needs), wake=False)
        except Exception:  # a fence was refused: what waits for it must not begin
            self._abandon(job, left)
        except BaseException:  # an interrupt of the program's
            self._abandon(job, left)
            raise
        finally:
            self._remember(changed, job.completion.error is None and begun)

    def _hand_over_singly(
        self,
        executor: CompilingExecutor,
        job: Job,
        needs: Sequence[Need],
        changed: Changed,
        left: dict[int, Batch],
    ) -> bool:
        """Make the calls one by one; False if there is a worker that cannot be waited for: then nothing of it was handed over.

        `left`: by worker, what is not handed over yet.
        """
        waits = self._put_fences(needs)
        if waits is None:
            return False
        for leg in self._legs:
            worker = leg.worker
            if worker is not self._inside:
                self.go_to(worker)
            worker.current = job
            for other in (*waits.pop(worker, ()), *leg.after):
                worker.order_after_fence(other)
            leg.go(executor, job, changed)
            if leg.is_last:
                worker.finish(job)
                del left[worker.number]
        return True

    def _abandon(self, job: Job, left: dict[int, Batch]) -> None:
        """Fail what has not been done of these workers' parts."""
        for leg in self._legs:
            if leg.is_aside and leg.worker.number in left:
                leg.close()  # some of it may have been made
        for number, batch in left.items():
            self._all[number].abandon((job, batch, job.bases[number], None))

    def _put_fences(self, needs: Sequence[Need]) -> dict[Worker, list[Worker]] | None:
        """Put a fence where one is missing; by worker, those whose fences it has to wait for. None where one is refused."""
        found: dict[Worker, list[Worker]] = {}
        for worker, other, step in needs:
            if worker.ordered.get(other.number, 0) >= step:
                continue  # everything handed over since then waits for that step or a later one
            if other.fenced < step:
                marker = other.mark_near(step)
                if marker is not None:  # nearer than a new fence, which would be behind all that came since
                    if worker is not self._inside:
                        self.go_to(worker)
                    worker.order_after_mark(marker, other, step)
                    continue
                if other is not self._inside:
                    self.go_to(other)
                try:
                    other.put_fence()
                except BackendError:
                    return None
            if worker in found:
                found[worker].append(other)
            else:
                found[worker] = [other]
        return found

    def _changed(self, args: Sequence[Any]) -> Changed:
        """The values that are not those packed last."""
        if not self._values_at:
            return ()
        values = [*map(args.__getitem__, self._values_at)]
        if values == self._values:
            return ()
        given = zip(self._values_at, values, self._values, strict=True)
        return [(at, value) for at, value, before in given if value != before]

    def _remember(self, changed: Changed, all_made: bool) -> None:
        """Calls were made with values `changed`, or some of them may not have been."""
        if not all_made:
            self._values = [None] * len(self._values)
        elif changed:
            now = dict(zip(self._values_at, self._values, strict=True)) | dict(changed)
            self._values = [*now.values()]

    def _end(self) -> None:
        """Free what is not used any more, and put the marks that are due. With the turns, outside the lock."""
        for worker in self.batched:
            memory = worker.memory
            is_due = (
                worker.wanted <= worker.issued
                or len(worker.next_mark.jobs) >= MARK_EVERY
                or memory.fresh_nbytes > MARK_NBYTES
            )
            if not is_due and not memory.discarded:
                continue
            self.go_to(worker)
            memory.free_discarded()
            if is_due:
                worker.mark()


def _take_turns(workers: Sequence[Worker], held: list[Worker], *, timeout: float = TURN_TIMEOUT) -> bool:
    """Take the turns of workers that have nothing to do; False if one of them is not idle. `held` gets those that were taken."""
    mine = get_ident()
    for worker in workers:
        if worker.queue or worker.busy or not worker.turn.acquire(timeout=timeout):
            return False
        worker.holder = mine
        held.append(worker)
    return True


def _waits_of(needs: Sequence[Need]) -> dict[int, Waits]:
    """The same as `Hazards.find` gives it."""
    found: dict[int, Waits] = {}
    for worker, other, step in needs:
        found.setdefault(worker.number, []).append((0, other.number, step))
    for waits in found.values():
        waits.sort()
    return found


def submit_compiled(
    executor: CompilingExecutor,
    prepared: PreparedPlan,
    holdings: Sequence[Holdings],
    completion: Completion,
    given: Given,
) -> Job | None:
    """Submit a plan as it was compiled for these replicas, or compile it if it comes for the second time. None if it has to be
    submitted like any other: then nothing has happened. Arguments as in `CompiledPlan.submit`.
    """
    if completion.profiled or completion.is_awaited:
        return None
    plans, args = prepared.compiled, given[0]
    if plans is None:
        plans = prepared.compiled = CompiledPlans()
    there = [each.replicas for each in holdings]
    found = known_plan(plans, there, args)
    if found is not None:
        return found.submit(executor, holdings, completion, given)
    name = hash(tuple([replica and replica.number for each in there for replica in each]))
    if name not in plans.seen:
        plans.seen = [*plans.seen[1 - _MOST_SEEN :], name]
        prepared.unknown += 1
        return None
    prepared.unknown = 0
    job = Job(executor, 0, prepared, holdings, completion)
    job.args = args
    made = compile_plan(executor, prepared, job, CompiledPlan)
    if made is None:
        return None
    plans.known = [*plans.known[1 - _MOST_COMPILED :], made]
    # One that is forgotten has to come twice again: else more groups than are kept would be compiled at every launch.
    plans.seen = [each for each in plans.seen if each != name]
    return made.submit(executor, holdings, completion, given)


def known_plan(plans: CompiledPlans, there: list[list[Any]], args: Sequence[Any]) -> CompiledPlan | None:
    """What was compiled for these replicas, by slot and worker, and for such arguments."""
    found: CompiledPlan
    for found in plans.known:
        if found.replicas == there and all(args[at] == arg for at, arg in found.others):
            return found
    return None


def listed_plan(
    prepared: PreparedPlan, holdings: Sequence[Holdings], args: Sequence[Any]
) -> CompiledPlan | None:
    """A plan as it was compiled for the replicas of `holdings` and such arguments, if all its calls are in a list."""
    plans = prepared.compiled
    found = None if plans is None else known_plan(plans, [each.replicas for each in holdings], args)
    return None if found is None or found.list is None else found


def likely_plan(
    prepared: PreparedPlan, holdings: Sequence[Holdings], args: Sequence[Any]
) -> CompiledPlan | None:
    """The same for who hands it over together with others, which looks at the replicas: the only one that there is may be for others."""
    plans = prepared.compiled
    found: CompiledPlan | None = None if plans is None or len(plans.known) != 1 else plans.known[0]
    if found is None or found.others:
        return listed_plan(prepared, holdings, args)
    return None if found.list is None else found


def compiled_for(job: Job) -> CompiledPlan | None:
    """A command's plan, if it was compiled for its replicas and arguments. Under the executor's lock."""
    plans = job.prepared.compiled
    return None if plans is None else known_plan(plans, [each.replicas for each in job.holdings], job.args)


def compile_plan(
    executor: CompilingExecutor, prepared: PreparedPlan, job: Job, kind: type[CompiledPlan]
) -> CompiledPlan | None:
    """A plan compiled for the replicas of a job, or into its form. None where it cannot be, which it then never is, or not now."""
    workers = executor.all_workers
    mine = [
        workers[number] for number in {*dict(prepared.batches), *(h.holder for h in prepared.peer_hazards)}
    ]
    if any(worker.compiling is None for worker in mine):
        kind.never(prepared)
        return None
    with suppress(NoWalker):
        walker()  # it may have to be compiled: not while others wait for the turns
    held: list[Worker] = []
    outside = mine[0].backend.outside()
    try:
        if not _take_turns(mine, held):
            return None
        legs = _legs_of(prepared, job, workers, kind)
        made = None if legs is None else kind(prepared, job, workers, legs)
    except BackendError:
        made = None
    finally:
        for worker in held:
            worker.backend.leave(outside)
            worker.holder = 0
            worker.turn.release()
            worker.wake()
    if made is None:
        kind.never(prepared)
    return made


def _legs_of(
    prepared: PreparedPlan, job: Job, workers: Sequence[Worker], kind: type[CompiledPlan]
) -> list[Leg] | None:
    """The calls of a plan: each worker's together where none waits for another's, else in the plan's order. None where a step
    cannot be compiled.
    """
    legs: list[Leg] = []
    batches = dict(prepared.batches)
    for number, first, stop in _parts_of(prepared):
        batch, worker = batches[number], workers[number]
        worker.backend.enter()
        opens = stop <= batch.interiors
        is_aside = 0 < batch.interiors <= first
        steps = kind.compiled_steps(batch.steps[first:stop])
        after = [workers[other] for other, _ in batch.waits[first]]
        is_last = stop == len(batch.steps)
        if not (steps or after or batch.marks[first] or is_last):
            continue
        calls = _calls(steps, worker, job, aside=is_aside)
        if not calls:
            return None
        fences = batch.marks[first]
        legs.append(
            Leg(worker, calls, stop, after, fences=fences, is_last=is_last, opens=opens, is_aside=is_aside)
        )
    return legs or None


def _parts_of(prepared: PreparedPlan) -> Iterator[tuple[int, int, int]]:
    """By leg: the worker, its first step, and where it ends. Interiors come first: nothing of their plan comes before them."""
    if prepared.careful:
        at = dict.fromkeys(dict(prepared.batches), 0)
        for number in prepared.order or ():
            yield number, at[number], at[number] + 1
            at[number] += 1
        return
    for number, batch in prepared.batches:
        if batch.interiors:
            yield number, 0, batch.interiors
    for number, batch in prepared.batches:
        yield number, batch.interiors, len(batch.steps)


def _calls(
    steps: Sequence[Step], worker: Worker, job: Job, *, aside: bool
) -> list[tuple[Call, Sequence[Step]]] | None:
    """The calls for steps that follow one another, with those that each is for; None where one cannot be compiled. `aside`: they are
    carried out beside the interior.
    """
    backend = worker.compiling
    assert backend is not None, "plans are compiled for such back ends alone"
    found: list[tuple[Call, Sequence[Step]]] = []
    for is_copy, group in groupby(steps, lambda step: isinstance(step, CopyStep)):
        some = tuple(group)
        if is_copy:
            copies = [step.between(worker, job) for step in some if isinstance(step, CopyStep)]
            call = backend.copies(copies, aside=aside)
            if call is None:
                return None
            found.append((call, some))
            continue
        for step in some:
            if aside:
                assert isinstance(step, LaunchStep), (
                    "plans with interiors have nothing but launches and copies"
                )
                call = step.compiled(backend, worker, job, aside=True)
            else:
                call = step.compiled(backend, worker, job)
            if call is None:
                return None
            found.append((call, (step,)))
    return found
