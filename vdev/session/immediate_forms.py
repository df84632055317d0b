"""Launches of one kernel on the only worker, each with other buffers, values and index spaces than the last one.

Decides nothing about them: `vdev.session.immediate` has found that such launches need no plan of their own, and the worker has made some
of that form (`vdev.executor.whole`). What might be otherwise for a launch is asked for each; then it is made like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Protocol

from vdev.session.buffers import VirtualBuffer
from vdev.session.commands import BufferArg
from vdev.session.immediate_moves import may_follow
from vdev.session.telling import tell_direct

if TYPE_CHECKING:
    from vdev.executor.completion import Completion
    from vdev.executor.executor import Executor
    from vdev.executor.holdings import Holdings
    from vdev.executor.line import Line
    from vdev.executor.step import LaunchForm
    from vdev.executor.stretch import Part
    from vdev.session.commands import Argument
    from vdev.session.core import SessionCore
    from vdev.session.launch_plans import CachedPlan, LaunchCache
    from vdev.session.ordering import QueueOrder
    from vdev.translators.ranges.ndrange import NDRange

_BUFFERS, _BEGINNING = {BufferArg}, {0}
_buffer_of: Callable[[BufferArg], VirtualBuffer] = attrgetter("buffer")
_offset_of: Callable[[BufferArg], int] = attrgetter("offset")
_resident_of: Callable[[VirtualBuffer], int | None] = attrgetter("resident")
_holdings_of: Callable[[VirtualBuffer], Any] = attrgetter("holdings")


class Placing(Protocol):
    """The session's immediate commands, as such launches see them (`vdev.session.immediate.AtOnce`)."""

    streak_length: int  #: launches in a row on one worker

    def are_here(
        self, buffers: Sequence[VirtualBuffer], worker: int, cache: LaunchCache, args: Sequence[Argument]
    ) -> bool:
        """Whether the buffers of a launch with these `args` are all on that worker, now that new ones have got their memory there."""


class Formed:
    """Launches of a kernel whose pointers point to the beginnings of as many buffers, which the only worker has whole."""

    __slots__ = (
        "_at", "_at_once", "_cache", "_cached", "_executor", "_form", "_line", "_pointers", "_residents", "_session",
    )  # fmt: skip

    def __init__(
        self,
        session: SessionCore,
        executor: Executor,
        at_once: Placing,
        line: Line,
        form: LaunchForm,
        cached: CachedPlan,
        cache: LaunchCache,
    ) -> None:
        """`cached`: their plan. `cache`: their kernel's."""
        self._session, self._executor, self._at_once = session, executor, at_once
        self._line, self._form = line, form
        self._cached, self._cache = cached, cache
        self._pointers = cache.pointers
        self._at = line.worker.number
        self._residents = {self._at}

    def launch(
        self, queue: QueueOrder, ndrange: NDRange, args: Sequence[Argument], after: Sequence[Completion]
    ) -> Part | None:
        """Launch, behind whatever was submitted; None if that has to be done like any other launch: then nothing has happened. So it is
        if what it has to come `after` was not handed to the worker, or has failed.
        """
        session, executor, line = self._session, self._executor, self._line
        session.lock.acquire()  # as in `vdev.session.in_a_row`
        try:
            recorder = session.recorder
            started = 0 if recorder is None else perf_counter_ns()
            if session.observers or session.deferrals.held:
                return None
            standing = executor.standing
            is_free = queue.barrier is None and not queue.profiled and not executor.failures.any
            if not is_free or (after and not may_follow(after, queue, self._at, alone=True)):
                return None
            given: list[Any] = [*map(args.__getitem__, self._pointers)]
            if {*map(type, given)} != _BUFFERS or {*map(_offset_of, given)} != _BEGINNING:
                return None
            buffers = [*map(_buffer_of, given)]
            if len({*buffers}) != len(buffers) or (
                {*map(_resident_of, buffers)} != self._residents
                and not self._at_once.are_here(buffers, self._at, self._cache, args)
            ):
                return None
            holdings: list[Holdings] = [*map(_holdings_of, buffers)]
            entry = self._cached.prepared, holdings, args, ndrange, self._cache.plain_places, after
            part = line.hand_over_formed(self._form, entry, standing)
            if part is None:
                return None
            number = session.number = session.number + 1
            for buffer in buffers:
                buffer.used = number
            if recorder is not None:
                cache, cached = self._cache, self._cached
                tell_direct(recorder, part, started, queue, cache, cached, None, buffers, holdings)
            self._at_once.streak_length += 1
            self._cached.outcome.launches += 1
            if queue.last is not part.stretch.completion:
                queue.remember(part.stretch.completion)
        finally:
            session.lock.release()
        if line.worker.marked != line.looked_at:
            line.throttle()
        return part
