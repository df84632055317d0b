"""Copies between buffers that a worker is given immediately, each as one before it of buffers in the same states.

Decides nothing about which: `vdev.session.immediate_moves` has found that such copies need no plan of their own. What might be otherwise
for a copy is asked for each.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, TypeAlias

from vdev.session.commands import CopyBuffer
from vdev.session.immediate_moves import MovesAtOnce, may_repeat
from vdev.session.telling import tell_part

if TYPE_CHECKING:
    from vdev.executor.line import Line
    from vdev.executor.stretch import Part
    from vdev.planner.directory import BufferState
    from vdev.session.anywhere import Anywhere
    from vdev.session.buffers import VirtualBuffer
    from vdev.session.ordering import QueueOrder

    #: what is copied, as `vdev.session.commands.CopyBuffer` has it: the shape; where it begins in the source, and the pitches there; the
    #: same in the target
    Copied: TypeAlias = tuple[tuple[int, int, int], int, tuple[int, int], int, tuple[int, int]]


class _Copies:
    """Copies of two buffers in certain states. A `Repeatable`."""

    __slots__ = ("alike", "line", "queue", "source", "standing", "target")

    def __init__(self, line: Line, source: BufferState, target: BufferState, alike: Anywhere) -> None:
        self.line, self.alike = line, alike
        self.source, self.target = source, target  #: the states
        self.standing: object = None
        self.queue: object = None


class CopiesAtOnce(MovesAtOnce):
    """The immediate transfers of one session, among them copies that are like others."""

    _copies: _Copies | None = None  #: like the last one

    def copy(
        self, source: VirtualBuffer, target: VirtualBuffer, what: Copied, nbytes: int, queue: QueueOrder
    ) -> Part | None:
        """Copy so many bytes from a buffer to another one, behind nothing but what comes before in the queue; None if that has to go
        another way: then nothing has happened.
        """
        session, executor = self._session, self._executor
        session.lock.acquire()  # as in `vdev.session.in_a_row`
        try:
            standing, recorder = executor.standing, session.recorder
            started = 0 if recorder is None else perf_counter_ns()
            copies = self._copies
            if copies is None or source.state is not copies.source or target.state is not copies.target:
                copies = self._copies_of(source, target)
            if copies is None or session.observers:
                return None
            if (queue is not copies.queue or standing is not copies.standing) and not may_repeat(
                session, copies, queue
            ):
                return None
            line, alike, holdings = copies.line, copies.alike, [source.holdings, target.holdings]
            if self._only is None and (self._is_together() or not self._is_free(line, holdings, queue)):
                return None
            found = alike.whole if nbytes == target.nbytes else alike.part
            part = line.hand_over((found.prepared, holdings, what, None, (), ()), standing)
            if part is None:
                return None
            source.used = target.used = session.number = session.number + 1
            session.ledger.command("copybuffer").count += 1  # nothing travels
            if recorder is not None:
                tell_part(session, part, started, queue, found, "copybuffer", (source, target), nbytes)
            completion = part.stretch.completion
            if queue.last is not completion:
                queue.remember(completion)
        finally:
            session.lock.release()
        if line.worker.marked != line.looked_at:
            line.throttle()
        return part

    def _copies_of(self, source: VirtualBuffer, target: VirtualBuffer) -> _Copies | None:
        """Copies of these buffers, if one of buffers in their states was planned, as one step of the worker that has them."""
        states = source.state, target.state
        alike = self._transfers.anywhere(CopyBuffer, states)
        line = None if alike is None else self._line_of(alike.part)
        if alike is None or line is None:
            return None
        self._copies = found = _Copies(line, *states, alike)
        return found
