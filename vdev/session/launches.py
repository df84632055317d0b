"""What a session does with a launch: its plan, found or made, in the way that is chosen; room for it; and the hand-over.

Decides the order of these steps, and which launches may be repeated without them (`vdev.session.repetition`).
All of it happens under the session's lock.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from vdev.errors import DEPENDENCY_FAILED
from vdev.planner.successors import LEAST_NBYTES, readings_of
from vdev.process.interrupts import long
from vdev.process.processor_time import busy_ns
from vdev.session.buffers import VirtualBuffer
from vdev.session.commands import BufferArg, Launch, marks
from vdev.session.direct import DirectLaunches
from vdev.session.launch_plans import CachedPlan, LaunchCache
from vdev.session.making_plans import NoTurns, make_plan
from vdev.session.ordering import QueueOrder
from vdev.session.recalls import open_recall, prepare_form, recall_form
from vdev.session.renumbering import plan_for_readers
from vdev.session.repetition import open_repetition
from vdev.session.room import fail_for_room
from vdev.session.telling import began, number_of, tell_exchange
from vdev.session.weighed_recalls import changes_way, recall_refilled, recall_weighed
from vdev.translators.collecting import seldom_collected

if TYPE_CHECKING:
    from vdev.executor.completion import Completion
    from vdev.executor.prepare import PreparedPlan
    from vdev.observe.tallies import KernelTally
    from vdev.planner.directory import BufferState
    from vdev.session.choosing import Choosing
    from vdev.session.core import SessionCore
    from vdev.session.recalls import Before

logger = logging.getLogger("vdev.session.session")

#: returns the plan of a launch as the directory stands, and its buffers by slot
Finder = Callable[[LaunchCache, Launch], tuple[CachedPlan, list[VirtualBuffer]]]


class Launches:
    """The launches of one session."""

    def __init__(self, session: SessionCore) -> None:
        self._session = session
        #: told of the worker of each launch that needs no plan and was not handed over immediately
        self.went_on: Callable[[int], None] | None = None
        self._thought_ns = 0  #: to plan the launch that is being submitted
        #: by the identity of a buffer that something was folded in for the launch that is being submitted: the state it was in before
        self._unfolded: dict[int, BufferState] = {}
        self._latest: CachedPlan | None = None  #: of the last launch
        self._latest_marks: tuple[Hashable, ...] = ()
        #: of a launch that was planned to be handed over at once: nanoseconds that took, for when it has to be submitted
        self._ahead: tuple[Launch, int] | None = None
        self.direct = DirectLaunches(
            session.executor,
            session.room.occupancy,
            session.links,
            session.observers,
            session.planned,
            self._keeper,
            session.shape,
            session.folding.fold,
        )

    def _keeper(self, buffers: Sequence[VirtualBuffer], tally: KernelTally, launch: Launch) -> int | None:
        """The worker on which a launch of a kernel on these buffers runs without a plan, None for none."""
        choosing = self._session.choosing
        if choosing is None:
            return None
        return choosing.keeper_without_plans(buffers, tally, launch.ndrange.nitems, launch)

    def submit(
        self,
        command: Launch,
        completion: Completion,
        after: Sequence[Completion],
        order: Completion | None,
        queue: QueueOrder,
    ) -> None:
        """Plan a launch and hand it over. Raises NoRoom, and what a checker has found."""
        session, cache = self._session, command.kernel.plans
        if cache is None:
            cache = self._meet(command)
        checker = session.checker
        if checker is not None and checker.failure is not None:
            completion.settle(DEPENDENCY_FAILED)
            raise checker.failure
        cached, buffers, weighed = self._weighed(cache, command)
        if cached.plan.growth and session.room.lacks(cached.plan):
            cached, buffers, weighed = self._fitting(cache, command, completion, buffers, weighed)
        case = None if checker is None else checker.begin(command, buffers, cached.plan)
        before = [(self._unfolded.get(id(buffer)), buffer.state) for buffer in buffers]
        self._note(command, cached, buffers)
        self._goes_on(cached)
        choosing = session.choosing if weighed else None
        prepared = cached.prepared if choosing is None else self._sampled(choosing, cache, cached, command)
        waits, began = session.executor.waits, 0 if choosing is None else busy_ns()
        job = session.executor.submit(
            prepared,
            [buffer.holdings for buffer in buffers],
            completion,
            args=command.args,
            ndrange=command.ndrange,
            places=command.places,
            after=after,
            order=order,
        )
        cache.has_refills |= prepared.refills is not None and prepared.refills.plan is not None
        if choosing is not None:
            # Most launches without plans are not submitted. Who waits for a device takes no time of the host's.
            if session.executor.waits == waits and (not cached.direct or session.executor.lines[0] is None):
                took = (busy_ns() - began) * 1e-9
                choosing.handed_over(cache.tally, cached, took, sampled=prepared is not cached.prepared)
            if choosing.take_recut():
                session.executor.standing = object()  # plans are made anew: none is repeated
        if session.recorder is not None and cached.shape is not None:
            session.recorder.submitted(job, cached.shape)
        marked = () if cached.direct else marks(command.args, values=bool(command.kernel.scalars))
        if checker is not None:
            checker.end(command, buffers, case, completion)
        elif not weighed and not session.deferrals.held:
            # what is held back may come before the next one in its queue
            come_again = self._may_come_again(cache, cached, marked)
            self._be_ready(cache, cached, command, buffers, completion, queue if come_again else None, before)
        self._latest, self._latest_marks = cached, marked

    def _sampled(
        self, choosing: Choosing, cache: LaunchCache, cached: CachedPlan, command: Launch
    ) -> PreparedPlan:
        """What is to be submitted of a launch that was weighed: its plan, or that with a sample taken."""
        if self._session.recorder is not None and cached.divided is not None:
            return cached.prepared  # samples are of whole chunks, and steps are recorded by the plan's shape
        return choosing.sampled(cache, cached, command.ndrange)

    def recall(self, command: Launch, after: Sequence[Completion], queue: QueueOrder) -> Completion | None:
        """Hand a launch over whose plan has a form, or that is to be weighed and comes again; None if it has to be submitted."""
        session, cache = self._session, command.kernel.plans
        if cache is None or command.shared:
            return None
        if not (cache.has_forms or cache.has_refills or session.choosing is not None):
            return None
        with session.lock:
            started = began(session.recorder)
            found = recall_form(session, cache, command, after, queue) if cache.has_forms else None
            if found is None and cache.has_refills:
                found = recall_refilled(session, cache, command, after, queue, self._find_ahead)
            if found is None:
                found = recall_weighed(session, cache, command, after, queue)
            if found is None:
                return None
            completion, cached, buffers = found
            self._ahead = None  # which keeps its buffers
            if session.recorder is not None and cached.shape is not None:
                number = number_of(completion, session.executor)
                session.recorder.handed_over(number, started, queue, cached.shape)
            self._note(command, cached, buffers)  # which tells of what it exchanges
        return completion

    def _find_ahead(
        self, cache: LaunchCache, command: Launch
    ) -> tuple[CachedPlan, list[VirtualBuffer], float]:
        """As of `recall_refilled`."""
        self._thought_ns = 0
        cached, buffers = cache.find_ahead(command, self._plan_launch)
        self._ahead = command, self._thought_ns
        return cached, buffers, self._thought_ns * 1e-9

    def _note(self, command: Launch, cached: CachedPlan, buffers: Sequence[VirtualBuffer]) -> None:
        """The launch takes place: what it changes, and where it is counted."""
        session = self._session
        number = session.next_number()
        for buffer in buffers:
            buffer.used = number
        if session.recorder is not None and command.kernel.plans is not None:
            tell_exchange(session.recorder, command.kernel.plans, cached, command.args, buffers)
        if not cached.steady:
            session.executor.standing = object()
            for buffer, state in zip(buffers, cached.states, strict=True):
                buffer.state = state
            if len(cached.plan.partition) > 1:
                self._follow(command, cached, buffers)
        cached.outcome.launches += 1
        if cached.direct and command.kernel.plans is not None:
            command.kernel.plans.tally.passed.append(command.ndrange)
        if cached.traffic is not None:
            cached.traffic.count()
        if session.observers:
            session.observe(command, cached.plan)

    def _goes_on(self, cached: CachedPlan) -> None:
        """A launch that needs no plan takes place on one worker, as those that are handed over immediately do."""
        if cached.direct and self.went_on is not None:
            self.went_on(cached.plan.partition[0][0])

    def _follow(self, command: Launch, cached: CachedPlan, buffers: Sequence[VirtualBuffer]) -> None:
        """Tell the writers of what this launch reads how it reads it, and record what this one writes."""
        cache: LaunchCache | None = command.kernel.plans
        for slot, reading in cached.readings:
            writer = buffers[slot].writer
            if writer is not None and writer[0].successors.note(writer[1], reading):
                plan_for_readers(self._session, *writer, cache)
        if cache is None:
            return
        for index in cache.written:
            arg = command.args[index]
            if (
                type(arg) is BufferArg and arg.buffer.nbytes >= LEAST_NBYTES
            ):  # for others, reading does not matter
                arg.buffer.writer = cache, cache.left_in(command, index, arg.buffer)

    def _be_ready(
        self,
        cache: LaunchCache,
        cached: CachedPlan,
        command: Launch,
        buffers: Sequence[VirtualBuffer],
        completion: Completion,
        queue: QueueOrder | None,
        before: Sequence[Before],
    ) -> None:
        """Prepare for the same launch to come again: as the next command in `queue`, if there is one, or else when its buffers are in the
        states `before` it again. These are as in `open_recall`.
        """
        session = self._session
        if queue is not None:
            command.repetition = open_repetition(
                session.lock,
                cached,
                command,
                buffers,
                completion,
                queue,
                session.executor,
                session.recorder,
                session.observers,
            )
            cache.repeated = None if command.repetition is None else command.repetition.used
        if command.repetition is None:
            command.repetition = open_recall(session, cache, cached, command, buffers, before)
        if command.repetition is None:
            prepare_form(session, cache, cached, command, buffers)

    def _may_come_again(self, cache: LaunchCache, cached: CachedPlan, marked: tuple[Hashable, ...]) -> bool:
        """Whether it pays to prepare for the same launch, with these marks, to come again. Direct ones go another way
        (`vdev.session.immediate`).
        """
        if cached is not self._latest or cached.direct:
            return False
        return cache.expects_repetition() or marked == self._latest_marks

    def _weighed(self, cache: LaunchCache, command: Launch) -> tuple[CachedPlan, list[VirtualBuffer], bool]:
        """The plan of a launch and its buffers, in the way that is chosen; and whether a way had to be chosen."""
        choosing, self._thought_ns, self._unfolded = self._session.choosing, 0, {}
        if self._ahead is not None:
            planned, thought_ns = self._ahead
            self._thought_ns, self._ahead = thought_ns if planned is command else 0, None
        cached, buffers = self._finder()(cache, command)
        if choosing is None:
            return cached, buffers, False
        if cached.direct:
            if choosing.reconsider(command.ndrange, cache.tally, buffers):
                cached, buffers = self._finder()(cache, command)
            return (
                cached,
                buffers,
                cached.direct and choosing.counts_direct(cache.tally, command.ndrange.nitems),
            )
        stake, thought = cached.stake, self._thought_ns * 1e-9
        if stake is None or not choosing.counts(stake, thought, cache.tally, steady=cached.steady):
            return cached, buffers, choosing.balances(cache, cached, command.ndrange)
        if changes_way(self._session, choosing, cache, command, cached, buffers, thought):
            cached, buffers = self._finder()(cache, command)
        return (
            cached,
            buffers,
            not cached.direct or choosing.counts_direct(cache.tally, command.ndrange.nitems),
        )

    def _fitting(
        self,
        cache: LaunchCache,
        command: Launch,
        completion: Completion,
        buffers: list[VirtualBuffer],
        weighed: bool,
    ) -> tuple[CachedPlan, list[VirtualBuffer], bool]:
        """The same for a launch whose plan takes more memory than there is, after making room for it."""
        choosing, find = self._session.choosing, self._finder()
        # Its buffers may then be in other states, and so its plan may differ.
        if choosing is not None and choosing.give_up(buffers):
            _, buffers = find(cache, command)
        fitting = self._with_room(find, cache, command, buffers)
        if fitting is None and find != self._with_plan:  # parts of its buffers may do
            fitting = self._with_room(self._with_plan, cache, command, buffers)
        if fitting is None:
            return self._plan_turns(command, completion, buffers), buffers, False
        return *fitting, weighed

    def _finder(self) -> Finder:
        choosing = self._session.choosing
        if len(self._session.workers) == 1 or (
            choosing is not None and (choosing.without_plans or choosing.alone)
        ):
            return self._direct_or_planned
        return self._with_plan

    def _with_plan(self, cache: LaunchCache, command: Launch) -> tuple[CachedPlan, list[VirtualBuffer]]:
        while True:
            cached, buffers = cache.find(command, self._plan_launch)
            if not cached.unfolded:
                return cached, buffers
            unfolded = [buffers[slot] for slot in cached.unfolded]
            self._unfolded |= {id(buffer): buffer.state for buffer in unfolded}
            self._session.folding.fold(unfolded)

    def _direct_or_planned(
        self, cache: LaunchCache, command: Launch
    ) -> tuple[CachedPlan, list[VirtualBuffer]]:
        return self.direct.find(cache, command) or self._with_plan(cache, command)

    @long
    def _meet(self, command: Launch) -> LaunchCache:
        """The first launch of a kernel: analyse it."""
        started, kernel = time.perf_counter_ns(), command.kernel
        tally = self._session.ledger.kernel(kernel)
        cache = kernel.plans = LaunchCache(kernel, tally, self._session.kept_plans)
        cache.interiors.begin(self._session.interiors)
        if self._session.choosing is not None:
            self._session.choosing.begin(cache, command)
        self._session.planned(tally, f"analyse {kernel.name}", started)
        return cache

    def _with_room(
        self, find: Finder, cache: LaunchCache, command: Launch, buffers: list[VirtualBuffer]
    ) -> tuple[CachedPlan, list[VirtualBuffer]] | None:
        """A plan as `find` returns it, and its buffers by slot, after making room for it; None if there is none."""
        if self._session.room.never_fits(find(cache, command)[0].plan):
            return None
        if self._session.room.fit(lambda _: find(cache, command)[0].plan, buffers) is None:
            return None
        return find(cache, command)

    def _plan_turns(
        self, command: Launch, completion: Completion, buffers: list[VirtualBuffer]
    ) -> CachedPlan:
        """The plan of a launch that does not fit whole, after making room for it. NoRoom if no part fits."""
        cached: CachedPlan | None = None
        self._session.folding.fold(buffers, at_home=True)
        with suppress(NoTurns):
            cached = self._plan_launch(command, buffers, self._session.room.occupancy.room)
        if cached is None or not self._session.room.fit_turns(cached.plan, buffers):
            fail_for_room(command, completion)
        return cached

    @long
    @seldom_collected
    def _plan_launch(
        self, command: Launch, buffers: list[VirtualBuffer], room: Sequence[int] = ()
    ) -> CachedPlan:
        started, busy = time.perf_counter_ns(), busy_ns()
        options = self._session.launch_options
        if self._session.choosing is not None and command.kernel.plans is not None and not room:
            options = self._session.choosing.over(command.kernel.plans.span_of(buffers), options)
        cached = make_plan(command, buffers, options, self._session.executor, room)
        more: dict[str, Any] = {}  # replaced at once: each time takes some microseconds
        # Fine-grain buffers are at home after each launch, however many workers it runs on.
        if self._session.choosing is not None and not any(buffer.state.fine for buffer in buffers):
            stake = self._session.choosing.stake(cached.plan, buffers, command.ndrange.nitems)
            if stake is not None:
                more["stake"] = stake
        if not room and (readings := tuple(readings_of(cached.plan))):
            more["readings"] = readings
        kernel, recut = command.kernel, cached.plan.recut
        if kernel.plans is not None and recut is not None:
            workers, chunks = zip(*cached.plan.partition, strict=True)
            where, took = (command.ndrange.num_groups, chunks, workers), busy_ns() - busy
            if not kernel.plans.balance.spend(*where, recut, took * 1e-9):
                more["once"] = True
        if kernel.plans is not None:
            tally = kernel.plans.tally
            if (shape := self._session.shape(tally, cached.divided or cached.plan)) is not None:
                more["shape"] = shape
            self._session.planned(tally, f"plan {kernel.name}", started)
            self._thought_ns += busy_ns() - busy  # without the time in which others had the processor
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug(
                "%s over %s: %s",
                command.kernel.name,
                command.ndrange,
                "; ".join(cached.plan.reasons) or "split",
            )
        return replace(cached, **more) if more else cached
