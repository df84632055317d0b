"""Folding: what launches have left pending in a buffer is combined before a command that needs it.

Decides when and where this happens: on the workers, or in host memory if they have no room. Each fold is a plan of
its own, submitted before the command's, so that it is carried out whatever becomes of the command.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from vdev.executor.compiled_plan import listed_plan
from vdev.executor.completion import Completion
from vdev.executor.plan_form import prepare_form
from vdev.planner.pending import plan_fold, stands_against
from vdev.process.processor_time import busy_ns
from vdev.session.launch_plans import ReadyPlan, TransferPlans

if TYPE_CHECKING:
    from vdev.executor.compiled_plan import CompiledPlan
    from vdev.executor.executor import Executor
    from vdev.executor.holdings import Holdings
    from vdev.planner.directory import BufferState
    from vdev.planner.instructions import Plan
    from vdev.planner.links import LinkCosts
    from vdev.session.buffers import VirtualBuffer
    from vdev.session.choosing import Choosing
    from vdev.session.room import RoomMaker
    from vdev.session.transfers import Transfer


#: transfers of which it is kept what they need
_MOST_NEEDS = 1024


class Folder(Protocol):
    """What folding needs from a session (`core.SessionCore`)."""

    executor: Executor
    links: LinkCosts
    room: RoomMaker
    choosing: Choosing | None

    def unasked(self, kind: str, plan: Plan, number: int, holdings: Sequence[Holdings]) -> None:
        """Count a plan that no command asked for."""


class Folding:
    """The folding of one session. Under its lock."""

    def __init__(self, session: Folder) -> None:
        self._session = session
        self._plans = TransferPlans()
        #: by what a transfer depends on and the identities of its buffers' states: these states, and which buffers it needs to
        #: have folded. Programs that look at their sums do so again and again.
        self._needs: dict[tuple[Any, ...], tuple[list[BufferState], tuple[bool, ...]]] = {}

    def before(self, kind: type, transfer: Transfer) -> None:
        """Fold what a transfer for a command of that kind needs to have folded."""
        if transfer.reaches is None:
            self.fold(transfer.buffers)
            return
        buffers = transfer.buffers
        states = [buffer.state for buffer in buffers]
        key = (kind, transfer.what, *map(id, states))
        found = self._needs.get(key)
        if found is None:
            reaches = zip(states, transfer.reaches(), strict=True)
            needs = tuple([stands_against(state, *reach) for state, reach in reaches])
            if transfer.what is None:
                found = states, needs
            else:
                if len(self._needs) >= _MOST_NEEDS:
                    self._needs.clear()
                # While the states are kept, nothing else has their identities.
                found = self._needs[key] = states, needs
        for buffer, needed in zip(buffers, found[1], strict=True):
            if needed:
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
        began = busy_ns()
        number = self._handed_over(found, buffer) or self._submitted(found, buffer)
        took = (busy_ns() - began) * 1e-9
        (buffer.state,) = found.plan.states
        session.unasked("fold", found.plan, number, [buffer.holdings])
        if session.choosing is not None:
            session.choosing.folded(buffer, found.plan, took)

    def _handed_over(self, found: ReadyPlan, buffer: VirtualBuffer) -> int | None:
        """Hand a fold over without a submission: its number; None where that is not possible."""
        executor, prepared, holdings = self._session.executor, found.prepared, [buffer.holdings]
        together = executor.together
        if together is None:
            return None
        plan: CompiledPlan | None = listed_plan(prepared, holdings, ()) or prepared.form
        if plan is None or together.hand_over(plan, (prepared, holdings, (), None, (), ())) is None:
            return None
        return executor.last_number

    def _submitted(self, found: ReadyPlan, buffer: VirtualBuffer) -> int:
        """Submit a fold: its number."""
        executor, holdings = self._session.executor, [buffer.holdings]
        number = executor.submit(found.prepared, holdings, Completion())
        if executor.together is not None:
            prepare_form(executor, found.prepared, holdings, (), grows=bool(found.plan.growth))
        return number

    def _ready(self, buffer: VirtualBuffer, at_home: bool) -> ReadyPlan:
        what, state = (at_home,), buffer.state
        found = self._plans.find_same(what, (state,))
        if found is None:
            found = self._plans.find((at_home, state))
            if found is None:
                plan = plan_fold(state, self._session.links, at_home=at_home)
                found = ReadyPlan(plan, self._session.executor.prepare(plan))
                self._plans.remember((at_home, state), found)
            self._plans.remember_same(what, (state,), found)
        return found
