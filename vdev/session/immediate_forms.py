"""Launches of one kernel on one worker, each with other buffers, values and index spaces than the last one.

Decides nothing about them: `vdev.session.immediate` has found that such launches need no plan of their own, and the worker has made some
of that form (`vdev.executor.whole`). What might be otherwise for a launch is asked for each; then it is made like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING, Protocol, TypeAlias

from vdev.backends import compiled
from vdev.executor.whole import at_beginnings
from vdev.observe.tallies import UNWEIGHED
from vdev.session.commands import BufferArg
from vdev.session.immediate_moves import may_follow
from vdev.session.telling import tell_direct

if TYPE_CHECKING:
    from vdev.executor.completion import Completion
    from vdev.executor.executor import Executor
    from vdev.executor.holdings import Holdings
    from vdev.executor.line import Line
    from vdev.executor.step import LaunchForm
    from vdev.executor.stretch import Entry, Part
    from vdev.executor.whole import Places
    from vdev.session.buffers import VirtualBuffer
    from vdev.session.commands import Argument
    from vdev.session.core import SessionCore
    from vdev.session.launch_plans import CachedPlan, LaunchCache
    from vdev.session.ordering import QueueOrder
    from vdev.translators.ranges.ndrange import NDRange

#: of the ways in which a kernel's pointers share buffers, those that are known
_MOST_KNOWN = 16
#: a way: by pointer, the first one to the same buffer; nothing where each points to one of its own
_Way: TypeAlias = tuple[int, ...]
_APART: _Way = ()


class Placing(Protocol):
    """The session's immediate commands, as such launches see them (`vdev.session.immediate.AtOnce`)."""

    streak_length: int  #: launches in a row on one worker
    #: what launches may weigh until one is looked at; negative where the last one's turn has come
    until_looked_at: int
    is_alone: bool  #: whether there is no other worker

    def are_here(
        self, buffers: Sequence[VirtualBuffer], worker: int, cache: LaunchCache, args: Sequence[Argument]
    ) -> bool:
        """Whether the buffers of a launch with these `args` are all on that worker, now that new ones have got their memory there."""

    def are_kept(
        self,
        line: Line,
        cache: LaunchCache,
        ndrange: NDRange,
        buffers: Sequence[VirtualBuffer],
        holdings: Sequence[Holdings],
        queue: QueueOrder,
        stay: bool,
    ) -> bool:
        """With several workers: whether a launch on these buffers, which are all on the line's, runs there without a plan, concerns
        nobody else, and is none that is to be submitted. `stay`: all of them are known to be kept there (`VirtualBuffer.stays`).
        """

    def looked_at(
        self,
        hand_over: Callable[[], Part | None],
        cache: LaunchCache,
        ndrange: NDRange,
        buffers: Sequence[VirtualBuffer],
        worker: int,
    ) -> Part | None:
        """Hand over a launch over `ndrange` on these buffers whose turn to be looked at has come."""


class Formed:
    """Launches of a kernel whose pointers point into buffers that one worker has whole, the only one or the one that keeps them, and
    share these as they did in others before.
    """

    __slots__ = (
        "_alone", "_at", "_at_once", "_cache", "_executor", "_known", "_passes", "_pointers", "_queue", "_session", "_standing",
        "is_whole", "line",
    )  # fmt: skip

    def __init__(
        self, session: SessionCore, executor: Executor, at_once: Placing, line: Line, cache: LaunchCache
    ) -> None:
        """`cache`: their kernel's."""
        self._session, self._executor, self._at_once = session, executor, at_once
        self.line = line  #: the direct way to their worker
        self._cache, self._pointers = cache, cache.pointers
        #: what makes launches of each way, their plan, and where their pointers point
        self._known: dict[_Way, tuple[LaunchForm, CachedPlan, Places]] = {}
        #: whether a launch takes as long with other buffers as with the last one's (`LaunchForm`)
        self.is_whole = False
        #: the queue and the executor's standing in which launches were last found to be possible
        self._queue: QueueOrder | None = None
        self._standing: object = None
        self._at = line.worker.number
        self._alone = at_once.is_alone
        self._passes = (UNWEIGHED if self._alone else cache.tally.passed).append

    def learn(self, form: LaunchForm | None, cached: CachedPlan, places: Places) -> None:
        """Launches whose pointers point to these `places` have this plan, and are made by `form`; None if nothing makes them."""
        places = at_beginnings(places)
        slots = [slot for _, slot, _ in places]
        way = _APART if len({*slots}) == len(slots) else (*map(slots.index, slots),)
        if form is None:
            self._known.pop(way, None)
            return
        self.is_whole = form.is_whole
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[way] = form, cached, places

    def launch(
        self, queue: QueueOrder, ndrange: NDRange, args: Sequence[Argument], after: Sequence[Completion]
    ) -> Part | None:
        """Launch, behind whatever was submitted; None if that has to be done like any other launch: then nothing has happened. So it is
        if what it has to come `after` was not handed to the worker, or has failed.
        """
        session, line = self._session, self.line
        session.lock.acquire()  # as in `vdev.session.in_a_row`
        try:
            standing, recorder = self._executor.standing, session.recorder
            started = 0 if recorder is None else perf_counter_ns()
            if session.observers:
                return None
            if (queue is not self._queue or standing is not self._standing) and not self._may_be_in(queue):
                return None
            if after and not may_follow(after, queue, self._at, alone=self._alone):
                return None
            part = self._handed_over(queue, ndrange, args, after, standing, started)
            if part is None:
                return None
            completion = part.stretch.completion
            if queue.last is not completion:
                queue.remember(completion)
        finally:
            session.lock.release()
        if line.worker.marked != line.looked_at:
            line.throttle()
        return part

    def _handed_over(
        self,
        queue: QueueOrder,
        ndrange: NDRange,
        args: Sequence[Argument],
        after: Sequence[Completion],
        standing: object,
        started: int,
    ) -> Part | None:
        """`launch` of what may be launched as far as others are concerned, which waits for nothing elsewhere. `started`: when it was
        called, if it is recorded.
        """
        line, known, at_once, here = self.line, self._known, self._at_once, self._at
        buffers: list[VirtualBuffer] = []
        holdings: list[Holdings] = []
        alone, are_here, offsets = self._alone, True, 0
        for at in self._pointers:  # which takes less time than iterators over a few arguments take to be made
            arg = args[at]
            if type(arg) is not BufferArg:
                return None
            buffer = arg.buffer
            offsets |= arg.offset
            are_here = are_here and (buffer.resident if alone else buffer.stays) == here
            buffers.append(buffer)
            holdings.append(buffer.holdings)
        way = _APART
        if len({*buffers}) < len(self._pointers):
            way = (*map(buffers.index, buffers),)
            buffers, holdings = [*dict.fromkeys(buffers)], [*dict.fromkeys(holdings)]
        found = known.get(way)
        if found is None or not (are_here or at_once.are_here(buffers, here, self._cache, args)):
            return None
        form, cached, places = found
        if offsets:  # `Form.changes` refuses them where the form does not take them
            places = _shifted(places, args)
        if not (alone or at_once.are_kept(line, self._cache, ndrange, buffers, holdings, queue, are_here)):
            return None
        del known[way]  # until it has made the launch
        entry = (cached.prepared, holdings, args, ndrange, places, after)
        part = (
            line.hand_over_formed(form, entry, standing)
            if alone or at_once.until_looked_at >= 0
            else self._looked_at(form, entry, standing, buffers)
        )
        if part is None:
            return None
        known[way] = found
        session = self._session
        number = session.number = session.number + 1
        for buffer in buffers:
            buffer.used = number
        if session.recorder is not None:
            self._tell(part, started, queue, cached, args, buffers, holdings)
        at_once.streak_length += 1
        cached.outcome.launches += 1
        self._passes(ndrange)
        return part

    def _looked_at(
        self, form: LaunchForm, entry: Entry, standing: object, buffers: Sequence[VirtualBuffer]
    ) -> Part | None:
        """Hand over a launch on these buffers whose turn to be looked at has come."""
        hand_over, ndrange = partial(self.line.hand_over_formed, form, entry, standing), entry[3]
        assert ndrange is not None, "launches have one"
        return self._at_once.looked_at(hand_over, self._cache, ndrange, buffers, self._at)

    def _tell(
        self,
        part: Part,
        started: int,
        queue: QueueOrder,
        cached: CachedPlan,
        args: Sequence[Argument],
        buffers: Sequence[VirtualBuffer],
        holdings: Sequence[Holdings],
    ) -> None:
        """The recorder hears of a launch with these `args`; others: as for `tell_direct`."""
        recorder = self._session.recorder
        if recorder is not None:
            given = None if len(buffers) == len(self._pointers) else args
            tell_direct(recorder, part, started, queue, self._cache, cached, given, buffers, holdings)

    def _may_be_in(self, queue: QueueOrder) -> bool:
        """Whether launches in a queue come behind nothing that is held back or has failed. Under the session's lock."""
        session, executor = self._session, self._executor
        if session.deferrals.held or executor.failures.any or queue.barrier is not None or queue.profiled:
            return False
        if queue.in_order:  # which has no barriers: it holds until the executor's standing changes
            self._queue, self._standing = queue, executor.standing
        return True


def _shifted(places: Places, args: Sequence[Argument]) -> Places:
    """Where the pointers of a launch with these `args` point, which point into the buffers that pointers to these `places` point to."""
    return tuple([(at, slot, args[at].offset) for at, slot, _ in places])  # type: ignore[union-attr]


compiled.code.replace_methods(Formed, ("_handed_over",))  # in `backends/native/launches/forms.c`
