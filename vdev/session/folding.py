"""Folding: what launches have left pending in a buffer is combined before a command that needs it.

Decides when and where this happens: on the workers, or in host memory if they have no room. Each fold is a plan of
its own, submitted before the command's, so that it is carried out whatever becomes of the command.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from vdev.executor import Completion
from vdev.planner.pending import plan_fold, stands_against
from vdev.session.launch_plans import ReadyPlan, TransferPlans

if TYPE_CHECKING:
    from vdev.executor import Executor
    from vdev.executor.holdings import Holdings
    from vdev.planner.instructions import Plan
    from vdev.planner.links import LinkCosts
    from vdev.session.buffers import VirtualBuffer
    from vdev.session.choosing import Choosing
    from vdev.session.room import RoomMaker
    from vdev.session.transfers import Transfer


class Folder(Protocol):
    """What folding needs from a session (`core.SessionCore`)."""

    executor: Executor
    links: LinkCosts
    room: RoomMaker
    choosing: Choosing | None

    def aside(self, kind: str, plan: Plan, number: int, holdings: Sequence[Holdings]) -> None:
        """Count a plan that no command asked for."""


class Folding:
    """The folding of one session. Under its lock."""

    def __init__(self, session: Folder) -> None:
        self._session = session
        self._plans = TransferPlans()

    def before(self, transfer: Transfer) -> None:
        """Fold what a transfer needs to have folded."""
        if transfer.reaches is None:
            self.fold(transfer.buffers)
            return
        for buffer, (used, replaced) in zip(transfer.buffers, transfer.reaches(), strict=True):
            if stands_against(buffer.state, used, replaced):
                self.fold((buffer,))

    def fold(self, buffers: Sequence[VirtualBuffer], *, at_home: bool = False) -> None:
        """Fold everything pending of these buffers. `at_home`: without taking any of the workers' memory."""
        for buffer in buffers:
            if buffer.state.pending:
                self._fold(buffer, at_home)

    def _fold(self, buffer: VirtualBuffer, at_home: bool) -> None:
        session = self._session
        found = self._ready(buffer, at_home)
        if not at_home and session.room.lacks(found.plan):
            found = self._ready(buffer, True)
        number = session.executor.submit(found.prepared, [buffer.holdings], Completion())
        (buffer.state,) = found.plan.states
        session.aside("fold", found.plan, number, [buffer.holdings])
        if session.choosing is not None:
            session.choosing.folded(buffer, found.plan)

    def _ready(self, buffer: VirtualBuffer, at_home: bool) -> ReadyPlan:
        key = (buffer.state, at_home)
        found = self._plans.find(key)
        if found is None:
            plan = plan_fold(buffer.state, self._session.links, at_home=at_home)
            found = ReadyPlan(plan, self._session.executor.prepare(plan))
            self._plans.remember(key, found)
        return found
