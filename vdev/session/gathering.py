"""Buffers brought to one worker because the program's transfers of parts of them have plans of their own.

Where several workers have parts of a buffer, each copy, fill, read or write of other bytes than before is planned, and handed over as a
job of several workers; where one worker has all of it, it is handed over at once (`vdev.session.anywhere`). Decides when buffers are worth
bringing together: once their transfers have cost the host a multiple of what it takes to bring them to one worker, and to split them
again. A launch may split them the next moment; so each time makes the next one of these buffers dearer, and what is lost stays a part of
what the transfers have cost.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from vdev.executor.completion import Completion
from vdev.planner.transfers import plan_gather
from vdev.session.commands import CopyBuffer, Fill, Read, Write
from vdev.session.way_times import FLOOR

if TYPE_CHECKING:
    from vdev.session.buffers import VirtualBuffer
    from vdev.session.core import SessionCore

logger = logging.getLogger("vdev.session.gathering")

#: of the time that it takes to bring buffers together and to split them again, what their transfers must have cost the host; and of that,
#: the least in seconds
_PAYS, _LEAST = 2.0, FLOOR
#: so much more the next time
_DEARER = 2.0
#: the most bytes of a transfer that counts; the most seconds that one counts for, as first plans take longer; and the fewest that there
#: must be: a few large ones belong to where launches want their bytes
_MOST_NBYTES, _MOST_SECONDS, _FEWEST = 1 << 20, 5e-4, 16


def nbytes_of(command: CopyBuffer | Fill | Read | Write) -> int:
    """The bytes that a transfer moves or sets."""
    if isinstance(command, CopyBuffer):
        slices, rows, nbytes = command.shape
        return slices * rows * nbytes
    return command.nbytes if isinstance(command, Fill) else command.layout.nbytes


class _Costs:
    """What transfers of one buffer have cost since it was brought together last."""

    __slots__ = ("count", "seconds", "times")

    def __init__(self) -> None:
        self.count = 0  #: of them
        self.seconds = 0.0  #: of the host's, for planning and handing over
        self.times = 1.0  #: how much more than the first time it takes


class Gathering:
    """That of one session. Under its lock."""

    def __init__(self, session: SessionCore) -> None:
        self._session = session
        self._costs: WeakKeyDictionary[VirtualBuffer, _Costs] = WeakKeyDictionary()

    @property
    def is_on(self) -> bool:
        """Whether anything is brought together: on workers with memory of their own, where what the host takes counts."""
        choosing = self._session.choosing
        return choosing is not None and choosing.thrifty and bool(self._session.links.direct)

    def planned(self, buffers: Sequence[VirtualBuffer], nbytes: int, seconds: float) -> None:
        """A transfer of so many bytes of these buffers had a plan made and was handed over, which took the host so long."""
        if nbytes > _MOST_NBYTES or any(buffer.nbytes == nbytes for buffer in buffers):
            return
        session = self._session
        choosing = session.choosing
        assert choosing is not None, "it is on"
        costs = [self._costs.setdefault(buffer, _Costs()) for buffer in buffers]
        for each in costs:
            each.seconds += min(seconds, _MOST_SECONDS) / len(costs)
            each.count += 1
        least = _LEAST * max([each.times for each in costs])
        spent = sum([each.seconds for each in costs])
        if min([each.count for each in costs]) < _FEWEST or spent < least:
            return
        if spent < _PAYS * 2 * least / _LEAST * choosing.times.surely_gathering(buffers):
            return
        for each in costs:
            each.seconds, each.count = 0.0, 0
        if session.checker is None and self._gather(buffers):
            for each in costs:
                each.times *= _DEARER

    def _gather(self, buffers: Sequence[VirtualBuffer]) -> bool:
        """Bring buffers to the worker that has most of them. False where they are there, or there is no room, or something stands
        against it.
        """
        session, states = self._session, [buffer.state for buffer in buffers]
        if any(state.fine or state.pending for state in states):
            return False
        kept = {state.kept for state in states} - {None}
        held = {
            worker: sum([state.valid_at(worker).nbytes for state in states])
            for worker in session.links.direct
            if not kept or kept == {worker}
        }
        residents = {state.resident for state in states}
        if not held or (len(residents) == 1 and None not in residents):
            return False
        plan = plan_gather(states, max(held, key=lambda worker: held[worker]), session.links)
        if session.room.lacks(plan) or plan.states == tuple(states):
            return False
        session.executor.submit_unasked("gather", plan, [buffer.holdings for buffer in buffers], Completion())
        number = session.next_number()
        for buffer, state in zip(buffers, plan.states, strict=True):
            buffer.state, buffer.used = state, number
        logger.info(
            "%d buffers are brought to one worker: their transfers are planned one by one", len(buffers)
        )
        return True
