"""Folding: what launches have left pending in a buffer is combined before a command that needs it.

Decides when and where this happens: on the workers, or in host memory if they have no room. Each fold is a plan of
its own, submitted before the command's, so that it is carried out whatever becomes of the command.

A program that looks at several sums after each launch reads them one by one. What was folded directly behind another buffer the last
time is folded with it the next time, in one plan: the second read then finds its bytes folded. From time to time a buffer is folded
alone again, to see whether that is still so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary, ref

from vdev.executor.compiled_plan import likely_plan
from vdev.executor.completion import Completion
from vdev.executor.plan_form import prepare_form
from vdev.planner.pending import plan_folds, stands_against
from vdev.planner.regret import SMALL_NBYTES
from vdev.process.processor_time import busy_ns
from vdev.session.launch_plans import ReadyPlan, TransferPlans

if TYPE_CHECKING:
    from vdev.executor.compiled_plan import CompiledPlan
    from vdev.executor.executor import Executor
    from vdev.executor.holdings import Holdings
    from vdev.observe.tallies import Travels
    from vdev.planner.directory import BufferState
    from vdev.planner.instructions import Plan
    from vdev.planner.links import LinkCosts
    from vdev.session.buffers import VirtualBuffer
    from vdev.session.choosing import Choosing
    from vdev.session.room import RoomMaker
    from vdev.session.transfers import Transfer


#: transfers of which it is kept what they need
_MOST_NEEDS = 1024
#: buffers that are folded with the one that a command needs
_MOST_FOLLOWERS = 7
#: one time of so many, a buffer is folded without those that have followed it
_ALONE = 32


class Folder(Protocol):
    """What folding needs from a session (`core.SessionCore`)."""

    executor: Executor
    links: LinkCosts
    room: RoomMaker
    choosing: Choosing | None

    def unasked(
        self, kind: str, plan: Plan, number: int, holdings: Sequence[Holdings], travels: Travels | None = None
    ) -> None:
        """Count a plan that no command asked for."""


class _Follower:
    """What was folded directly behind a buffer. `times`: that they were folded together since."""

    __slots__ = ("buffer", "times")

    def __init__(self, buffer: VirtualBuffer) -> None:
        self.buffer = ref(buffer)
        self.times = 0


class Folding:
    """The folding of one session. Under its lock."""

    def __init__(self, session: Folder) -> None:
        self._session = session
        self._plans = TransferPlans()
        self._followers: WeakKeyDictionary[VirtualBuffer, _Follower] = WeakKeyDictionary()
        #: the buffer that was folded last, and the number of that
        self._last: tuple[ref[VirtualBuffer], int] | None = None
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
        pending = [buffer for buffer in buffers if buffer.state.pending]
        if not pending:
            return
        if at_home:
            self._fold_apart(pending, at_home)
            return
        together = self._with_followers(list(dict.fromkeys(pending)))
        found = self._ready(together, at_home)
        if self._session.room.lacks(found.plan):
            self._fold_apart(pending, at_home)
            return
        self._fold(together, found)
        self._last = ref(together[-1]), self._session.executor.last_number

    def _fold_apart(self, buffers: Sequence[VirtualBuffer], at_home: bool) -> None:
        """Each by itself, as memory is short."""
        for buffer in buffers:
            if not buffer.state.pending:  # it was named twice
                continue
            found = self._ready([buffer], at_home)
            if not at_home and self._session.room.lacks(found.plan):
                found = self._ready([buffer], True)
            self._fold([buffer], found)

    def _with_followers(self, pending: list[VirtualBuffer]) -> list[VirtualBuffer]:
        """The buffers, and those that will be asked for next, if it is as before."""
        last, executor = self._last, self._session.executor
        if last is not None and last[1] == executor.last_number:  # reads at once have no number
            before = last[0]()
            if before is not None and before not in pending:
                self._followers[before] = _Follower(pending[0])
        if executor.damaged:  # a buffer that is lost is nothing to those who did not ask for it
            return pending
        found, asked = pending, len(pending)
        while (
            len(found) - asked < _MOST_FOLLOWERS and (follower := self._followers.get(found[-1])) is not None
        ):
            buffer = follower.buffer()
            if buffer is None or buffer in found or not _is_small(buffer.state):
                break
            follower.times += 1
            if follower.times % _ALONE == 0:
                del self._followers[found[-1]]  # if it comes next, it follows again
                break
            found.append(buffer)
        return found

    def _fold(self, buffers: Sequence[VirtualBuffer], found: ReadyPlan) -> None:
        session, holdings = self._session, [buffer.holdings for buffer in buffers]
        began = busy_ns()
        number = self._handed_over(found, holdings) or self._submitted(found, holdings)
        took = (busy_ns() - began) * 1e-9
        for buffer, state in zip(buffers, found.plan.states, strict=True):
            buffer.state = state
        session.unasked("fold", found.plan, number, holdings, found.travels)
        if session.choosing is not None:
            session.choosing.folded(buffers, found.plan, took)

    def _handed_over(self, found: ReadyPlan, holdings: Sequence[Holdings]) -> int | None:
        """Hand a fold over without a submission: its number; None where that is not possible."""
        executor, prepared = self._session.executor, found.prepared
        together = executor.together
        if together is None:
            return None
        plan: CompiledPlan | None = likely_plan(prepared, holdings, ()) or prepared.form
        if plan is None or together.hand_over(plan, (prepared, holdings, (), None, (), ())) is None:
            return None
        return executor.last_number

    def _submitted(self, found: ReadyPlan, holdings: Sequence[Holdings]) -> int:
        """Submit a fold: its number."""
        executor = self._session.executor
        number = executor.submit(found.prepared, holdings, Completion())
        if executor.together is not None:
            prepare_form(executor, found.prepared, holdings, (), grows=bool(found.plan.growth))
        return number

    def _ready(self, buffers: Sequence[VirtualBuffer], at_home: bool) -> ReadyPlan:
        what, states = (at_home,), tuple([buffer.state for buffer in buffers])
        found = self._plans.find_same(what, states)
        if found is None:
            found = self._plans.find((at_home, states))
            if found is None:
                plan = plan_folds(states, self._session.links, at_home=at_home)
                found = ReadyPlan(plan, self._session.executor.prepare(plan))
                self._plans.remember((at_home, states), found)
            self._plans.remember_same(what, states, found)
        return found


def _is_small(state: BufferState) -> bool:
    """Whether something is pending, and so little that folding it in vain is no loss."""
    return 0 < sum(part.nbytes for item in state.pending for _, part in item.parts) <= SMALL_NBYTES
