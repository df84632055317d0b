"""Room for a plan: what has to leave the workers' memory before a command may take more of it.

Replicas are evicted if what a plan takes, on top of what the directory has given away, exceeds what a worker has;
`planner.evictions` chooses which. The evictions are plans of their own, submitted before the command's; hazards on
the memory order them. A command for which there is no room however much is evicted fails before anything of it has
happened, so that nothing is lost. Decides when that is so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn, Protocol

from vdev.errors import MEM_OBJECT_ALLOCATION_FAILURE, NoRoom
from vdev.executor.completion import Completion
from vdev.executor.executor import Executor
from vdev.planner.evictions import plan_evictions, propose_evictions
from vdev.planner.instructions import Launch, Plan
from vdev.planner.links import LinkCosts
from vdev.session.buffers import Occupancy, VirtualBuffer, buffers_of

if TYPE_CHECKING:
    from vdev.session.commands import Command

logger = logging.getLogger("vdev.session.room")


class Folds(Protocol):
    """Folds pending reductions (`folding.Folding`)."""

    def fold(self, buffers: Sequence[VirtualBuffer], *, at_home: bool = False) -> None:
        """Fold everything pending of these buffers."""


class RoomMaker:
    """Keeps what plans take within the workers' memory. Under the session's lock."""

    def __init__(self, executor: Executor, links: LinkCosts, folding: Folds) -> None:
        self._executor = executor
        self._links = links
        self._folding = folding
        #: called where there is no room: gives up buffers that nobody uses at the moment; whether there were any
        self.let_go: Callable[[], bool] = lambda: False
        self.occupancy = Occupancy([info.room_nbytes or info.memory_nbytes for info in executor.workers])

    def fit(self, make: Callable[[LinkCosts], Plan], buffers: Sequence[VirtualBuffer]) -> Plan | None:
        """The plan that `make` returns for `buffers` with the costs that it is given, after making room for it. None
        if no room can be made.

        Before giving up, the plan may use the homes: their memory is the host's.
        """
        plan = make(self._links)
        if not self.lacks(plan):
            return plan
        links = replace(self._links, gaps_nbytes=0)
        plan = make(links)
        for retreat in (None, self._evict_own, self._send_home):
            if retreat is not None:
                retreat(plan, buffers)
                plan = make(links)
            if not self.lacks(plan):
                return plan
            self._evict_others(plan, buffers)
            if not self.lacks(plan):
                return plan
        plan = make(replace(links, direct=()))
        return None if self.lacks(plan) else plan

    def never_fits(self, plan: Plan) -> bool:
        """Whether a launch of `plan` touches more, from the first byte to the last, than its worker has: then it is
        useless to make room for it.
        """
        for item, touches in zip(plan.instructions, plan.touches, strict=True):
            if not isinstance(item, Launch):
                continue
            hulls: dict[int, tuple[int, int]] = {}
            for touch in touches:
                if touch.holder == item.worker and touch.region:
                    low, high = hulls.get(touch.slot, (touch.region.start, touch.region.stop))
                    hulls[touch.slot] = min(low, touch.region.start), max(high, touch.region.stop)
            if sum(high - low for low, high in hulls.values()) > self.occupancy.room[item.worker]:
                return True
        return False

    def fit_turns(self, plan: Plan, buffers: Sequence[VirtualBuffer]) -> bool:
        """Whether there is room for `plan`, which first takes its `buffers` from the workers; if so, it is made."""
        if self.lacks(plan):
            self._evict_others(plan, buffers)
        return not self.lacks(plan)

    def lacks(self, plan: Plan) -> bool:
        """Whether `plan` takes more memory than there is."""
        return self._lacks_now(plan) and (not self.let_go() or self._lacks_now(plan))

    def _lacks_now(self, plan: Plan) -> bool:
        occupancy = self.occupancy
        occupancy.settle()
        return any(
            occupancy.taken[worker] + most > occupancy.room[worker] for worker, _, most in plan.growth if most
        )

    def _evict_others(self, plan: Plan, buffers: Sequence[VirtualBuffer]) -> None:
        """Make room for `plan` among buffers that it does not use. `lacks` tells whether it was enough. Nothing is
        evicted for a plan that needs more than all of that.
        """
        if any(
            most + _held(buffers, worker) > self.occupancy.room[worker] for worker, _, most in plan.growth
        ):
            return
        others = [buffer for buffer in buffers_of(self.occupancy) if buffer not in buffers]
        for worker, _, most in plan.growth:
            self._evict(worker, most, plan, others)

    def _evict_own(self, plan: Plan, buffers: Sequence[VirtualBuffer]) -> None:
        """Take `buffers`, those of `plan`, from the workers that lack memory for it: the plan has to be made again."""
        for worker, _, most in plan.growth:
            self._evict(worker, most, plan, buffers, at_least=_held(buffers, worker))

    def _send_home(self, plan: Plan, buffers: Sequence[VirtualBuffer]) -> None:
        """Take `buffers` from all workers: what they hold for each other there may be in the way."""
        for worker in range(len(self.occupancy.room)):
            held = _held(buffers, worker)
            if held:
                self._carry_out(worker, held, buffers, ())

    def learn(self) -> None:
        """After a failure: a worker that has refused memory has less than it said.

        It can hold what it has held before; of the rest it is only assumed that half of what was refused is likely to
        fit.
        """
        room = self.occupancy.room
        for worker, (refused, held) in self._executor.refused().items():
            if refused <= room[worker]:
                room[worker] = max(held, refused // 2)
                logger.warning(
                    "worker %d refused memory for %d bytes in all: from now on it counts as having %d",
                    worker,
                    refused,
                    room[worker],
                )

    def _missing(self, worker: int, most: int) -> int:
        return self.occupancy.taken[worker] + most - self.occupancy.room[worker]

    def _evict(
        self,
        worker: int,
        most: int,
        plan: Plan,
        candidates: Sequence[VirtualBuffer],
        at_least: int = 0,
    ) -> None:
        missing = self._missing(worker, most)
        if missing > 0:
            wanted = {other: most_there for other, _, most_there in plan.growth}
            room = [nbytes - wanted.get(other, 0) for other, nbytes in enumerate(self.occupancy.free())]
            self._carry_out(worker, max(missing, at_least), candidates, room)

    def _carry_out(
        self, worker: int, nbytes: int, candidates: Sequence[VirtualBuffer], room: Sequence[int]
    ) -> None:
        """Free `nbytes` of the worker, as far as `candidates` have them; other workers take as much as `room` says."""
        found = [buffer for buffer in candidates if buffer.state.replica(worker)]
        while True:
            states = [buffer.state for buffer in found]
            evictions = propose_evictions(states, worker, nbytes)
            unfolded = [found[item.slot] for item in evictions if item.folds]
            if not unfolded:
                break
            self._folding.fold(unfolded, at_home=True)
        if not evictions:
            return
        plan = plan_evictions(states, worker, evictions, self._links, room)
        logger.info(
            "%d more bytes are needed on worker %d: %d replicas leave it and free %d bytes, moving %s",
            nbytes,
            worker,
            len(evictions),
            sum(item.frees for item in evictions),
            plan.moved,
        )
        self._executor.submit_unasked("evict", plan, [buffer.holdings for buffer in found], Completion())
        for buffer, state in zip(found, plan.states, strict=True):
            buffer.state = state


def _held(buffers: Sequence[VirtualBuffer], worker: int) -> int:
    """Bytes of the worker's memory that these buffers take."""
    return sum(
        stop - start
        for buffer in buffers
        for holder, start, stop in buffer.state.replicas
        if holder == worker
    )


def fail_for_room(command: Command, completion: Completion) -> NoReturn:
    """End `command` before anything of it has happened, as when clEnqueue… returns an error."""
    completion.reason = f"{type(command).__name__}: it needs more memory than any worker has, even with everything else moved to the host"
    logger.warning("%s", completion.reason)
    completion.settle(MEM_OBJECT_ALLOCATION_FAILURE)
    raise NoRoom(completion.reason)
