"""Plans of transfers, and what those anywhere in buffers that one worker alone has share.

Where a worker has all of the buffers of a transfer and nobody else has any of them, what the transfer does depends on its kind alone: it is
one step of that worker's, wherever the bytes are, and leaves every buffer as it finds it. Decides where that is so: if a transfer of the
kind has been planned for buffers in these states, and its plan is of that form. Such transfers are handed over at once
(`vdev.session.immediate_moves`) or planned like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from vdev.executor.anywhere import prepared_anywhere
from vdev.session.commands import CopyBuffer, Fill, Read, Write
from vdev.session.launch_plans import ReadyPlan, TransferPlans
from vdev.translators.ranges.rectangles import Layout

if TYPE_CHECKING:
    from vdev.planner.directory import BufferState

#: kinds of transfers, and states of their buffers, that are known
_MOST = 1024


class Anywhere:
    """What transfers of one kind have in common, of buffers in the same states."""

    __slots__ = ("part", "states", "whole")

    def __init__(self, states: Sequence[BufferState], part: ReadyPlan, whole: ReadyPlan) -> None:
        self.states = states  #: by slot; they live as long as this
        #: the plans of those that change part of a buffer, or nothing; and of those that give all of it new bytes. What they say of bytes
        #: is that of some other transfer of the kind.
        self.part, self.whole = part, whole


class Transfers(TransferPlans):
    """The plans of a session's transfers."""

    __slots__ = ("_anywhere",)

    def __init__(self) -> None:
        super().__init__()
        #: by kind of transfer, and the identities of its buffers' states
        self._anywhere: dict[tuple[Any, ...], Anywhere] = {}

    def move_anywhere(self, kind: type, layout: Layout, state: BufferState) -> ReadyPlan | None:
        """What says how bytes are read, or written, that lie in a buffer in a state as `layout` says; None where that takes a plan of its
        own.
        """
        shape = layout.shape
        found = self._anywhere.get((kind, shape[0] == shape[1] == 1, id(state)))
        if found is None:
            return None
        return found.whole if layout.nbytes == state.nbytes else found.part

    def consecutive(self, kind: type, nbytes: int, state: BufferState) -> ReadyPlan | None:
        """The same for so many consecutive bytes."""
        found = self._anywhere.get((kind, True, id(state)))
        if found is None:
            return None
        return found.whole if nbytes == state.nbytes else found.part

    def anywhere(self, kind: type, states: Sequence[BufferState]) -> Anywhere | None:
        """The same for fills and copies."""
        return self._anywhere.get((kind, *map(id, states)))

    def remember(self, key: Any, found: ReadyPlan) -> None:
        super().remember(key, found)
        kind, what, *states = key
        if not isinstance(what, Layout):
            name = (kind, *map(id, states))
        else:
            name = (kind, what.is_contiguous, *map(id, states))
        if kind in (Read, Write, Fill, CopyBuffer) and name not in self._anywhere:
            self._learn(name, states, found)

    def _learn(self, name: tuple[Any, ...], states: Sequence[BufferState], found: ReadyPlan) -> None:
        """Keep what a transfer shares with others of its kind."""
        prepared, plan = found.prepared, found.plan
        worker = prepared.alone
        if worker is None or len(plan.instructions) != 1 or prepared.hazards or plan.growth:
            return
        if [*plan.states] != [*states] or any(
            state.resident != worker or state.fine or state.pending for state in states
        ):
            return
        nbytes = states[0].nbytes
        part, whole = (prepared_anywhere(prepared, nbytes, whole=whole) for whole in (False, True))
        if part is None or whole is None:
            return
        if len(self._anywhere) >= _MOST:
            self._anywhere.clear()
        self._anywhere[name] = Anywhere(states, ReadyPlan(plan, part), ReadyPlan(plan, whole))

    def forget(self) -> None:
        super().forget()
        self._anywhere.clear()
