"""Copies between buffers, and fills, that workers are given immediately, each as one before it of buffers in the same states.

Decides nothing about which: `vdev.session.immediate_moves` has found that such transfers need no plan of their own. What might be otherwise
for one is asked for each.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, TypeAlias

from vdev.session.commands import CopyBuffer, Fill
from vdev.session.immediate_moves import MovesAtOnce, may_repeat
from vdev.session.recalls import recall_transfer
from vdev.session.telling import tell_part

if TYPE_CHECKING:
    from vdev.executor.completion import Completion
    from vdev.executor.holdings import Holdings
    from vdev.executor.line import Line
    from vdev.executor.stretch import Part
    from vdev.planner.directory import BufferState
    from vdev.session.anywhere import Anywhere
    from vdev.session.buffers import VirtualBuffer
    from vdev.session.launch_plans import ReadyPlan
    from vdev.session.ordering import QueueOrder

    #: what is copied, as `vdev.session.commands.CopyBuffer` has it: the shape; where it begins in the source, and the pitches there; the
    #: same in the target
    Copied: TypeAlias = tuple[tuple[int, int, int], int, tuple[int, int], int, tuple[int, int]]
    #: what is filled: the first byte, how many, and the pattern
    Filled: TypeAlias = tuple[int, int, bytes]
    _States: TypeAlias = tuple[BufferState, ...]

#: the kinds under which transfers of so many buffers are counted
_NAMES = {1: "fill", 2: "copybuffer"}


class _Alike:
    """Transfers of one kind, of buffers in certain states. A `Repeatable`."""

    __slots__ = ("anywhere", "line", "queue", "standing", "states")

    def __init__(self, line: Line, states: _States, anywhere: Anywhere) -> None:
        self.line, self.anywhere, self.states = line, anywhere, states
        self.standing: object = None
        self.queue: object = None


class CopiesAtOnce(MovesAtOnce):
    """The immediate transfers of one session, among them copies and fills that are like others."""

    _copies: _Alike | None = None  #: like the last one
    _fills: _Alike | None = None

    def copy(
        self, source: VirtualBuffer, target: VirtualBuffer, what: Copied, nbytes: int, queue: QueueOrder
    ) -> Part | Completion | None:
        """Copy so many bytes from a buffer to another one, behind nothing but what comes before in the queue; None if that has to go
        another way: then nothing has happened.
        """
        self._session.lock.acquire()  # as in `vdev.session.in_a_row`
        try:
            states = source.state, target.state
            if self._only is None and self._is_together():
                return self._together((CopyBuffer, *what), (source, target), states, queue)
            alike = self._copies
            if alike is None or alike.states != states:
                alike = self._copies = self._alike(CopyBuffer, states)
            part = None
            if alike is not None:
                found = alike.anywhere.whole if nbytes == target.nbytes else alike.anywhere.part
                part = self._transferred_like(
                    alike, found, (source, target), [source.holdings, target.holdings], what, nbytes, queue
                )
        finally:
            self._session.lock.release()
        if alike is not None and alike.line.worker.marked != alike.line.looked_at:
            alike.line.throttle()
        return part

    def fill(self, buffer: VirtualBuffer, what: Filled, queue: QueueOrder) -> Part | Completion | None:
        """The same for a fill."""
        self._session.lock.acquire()
        try:
            states = (buffer.state,)
            if self._only is None and self._is_together():
                return self._together((Fill, *what), (buffer,), states, queue)
            alike = self._fills
            if alike is None or alike.states != states:
                alike = self._fills = self._alike(Fill, states)
            part = None
            if alike is not None:
                found = alike.anywhere.whole if what[1] == buffer.nbytes else alike.anywhere.part
                part = self._transferred_like(
                    alike, found, (buffer,), [buffer.holdings], what, what[1], queue
                )
        finally:
            self._session.lock.release()
        if alike is not None and alike.line.worker.marked != alike.line.looked_at:
            alike.line.throttle()
        return part

    def _together(
        self,
        what: tuple[Any, ...],
        buffers: tuple[VirtualBuffer, ...],
        states: _States,
        queue: QueueOrder,
    ) -> Completion | None:
        """Hand over a transfer behind launches that several workers were given at once, as one before it of the same bytes of buffers in
        the same states; None if it has to go another way. Under the session's lock.
        """
        session = self._session
        found = self._transfers.find_same(what, states)
        if found is None or session.checker is not None or session.observers or session.deferrals.held:
            return None
        name = _NAMES[len(buffers)]
        completion = recall_transfer(session, found, buffers, (), queue, name)
        if completion is not None:
            session.ledger.add(name, found.travels)
        return completion

    def _transferred_like(
        self,
        alike: _Alike,
        found: ReadyPlan,
        buffers: tuple[VirtualBuffer, ...],
        holdings: list[Holdings],
        what: tuple[Any, ...],
        nbytes: int,
        queue: QueueOrder,
    ) -> Part | None:
        """Hand over a transfer of so many bytes; None if it has to go another way. Under the session's lock."""
        session, line, standing = self._session, alike.line, self._executor.standing
        recorder = session.recorder
        started = 0 if recorder is None else perf_counter_ns()
        if session.observers or (
            (queue is not alike.queue or standing is not alike.standing)
            and not may_repeat(session, alike, queue)
        ):
            return None
        if self._only is None and not self._is_free(line, holdings, queue):
            return None
        part = line.hand_over((found.prepared, holdings, what, None, (), ()), standing)
        if part is None:
            return None
        number = session.number = session.number + 1
        for buffer in buffers:
            buffer.used = number
        name = _NAMES[len(buffers)]
        session.ledger.command(name).count += 1  # nothing travels
        if recorder is not None:
            tell_part(session, part, started, queue, found, name, buffers, nbytes)
        completion = part.stretch.completion
        if queue.last is not completion:
            queue.remember(completion)
        return part

    def _alike(self, kind: type[CopyBuffer | Fill], states: _States) -> _Alike | None:
        """Transfers of buffers in these states, if one was planned, as one step of the worker that has them."""
        found = self._transfers.anywhere(kind, states)
        line = None if found is None else self._line_of(found.part)
        return None if found is None or line is None else _Alike(line, states, found)
