"""Making room on a worker: which replicas can go, and what has to be saved first.

Decides the order in which replicas are given up when memory is short; whether it is short is the executor's
to find out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vdev.planner.builder import PlanBuilder
from vdev.planner.directory import HOST, BufferState
from vdev.planner.instructions import Plan
from vdev.planner.links import LinkCosts
from vdev.translators.region import Region


@dataclass(frozen=True, slots=True)
class Eviction:
    """The replica of `slot` could go.

    `frees` bytes of device memory, after `saves` (held by nobody else) has gone home.
    """

    slot: int
    frees: int
    saves: Region


def propose_evictions(
    states: Sequence[BufferState], worker: int, nbytes: int, keep: Sequence[int] = ()
) -> tuple[Eviction, ...]:
    """Replicas of `worker` that together free `nbytes` bytes, or all that there are if that is less.

    `states`: any buffers, in order of last use, the longest unused first; `keep`: slots that must stay. First
    those that cost nothing because every valid byte is valid elsewhere, then those that save the fewest
    bytes.
    """
    found = []
    for slot, state in enumerate(states):
        replica = state.replica(worker)
        if replica is None or slot in keep:
            continue
        elsewhere = Region.union(held for holder, held in state.valid if holder != worker)
        found.append(Eviction(slot, replica[1] - replica[0], state.valid_at(worker) - elsewhere))
    found.sort(key=lambda eviction: eviction.saves.nbytes)
    chosen: list[Eviction] = []
    freed = 0
    for eviction in found:
        if freed >= nbytes:
            break
        chosen.append(eviction)
        freed += eviction.frees
    return tuple(chosen)


def plan_evictions(
    states: Sequence[BufferState], worker: int, evictions: Sequence[Eviction], links: LinkCosts
) -> Plan:
    """Save and free. `states`: those the evictions were proposed for.

    A replica is freed by a Reserve of nothing.
    """
    builder = PlanBuilder(states, links)
    for eviction in evictions:
        if eviction.saves:
            builder.copy(eviction.slot, worker, HOST, eviction.saves)
        builder.resize(eviction.slot, worker, 0, 0)
    return builder.finish()
