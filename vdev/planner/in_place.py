"""Planning a launch that works on buffers' homes: one chunk, on a worker that shares the host's memory.

For kernels that use addresses as numbers: they follow pointers that they load from memory, or store some. Such an
address is valid everywhere only if it is the same everywhere. Decides the worker, and makes sure that the homes hold
everything before the launch and alone hold it afterwards, since nobody knows what it touches.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from vdev.planner.builder import PlanBuilder
from vdev.planner.directory import HOST, BufferState
from vdev.planner.footprints import PointerArg
from vdev.planner.instructions import Launch, Plan, Touch
from vdev.planner.links import LinkCosts
from vdev.planner.partitioner import make_partition
from vdev.translators.ranges.ndrange import NDRange
from vdev.translators.ranges.region import Region


def plan_in_place(
    states: Sequence[BufferState],
    args: Sequence[PointerArg],
    shared: Collection[int],
    ndrange: NDRange,
    workers: Sequence[int],
    links: LinkCosts,
    reason: str,
) -> Plan:
    """The plan of one launch. `states`: by slot, each buffer once; the slots in `shared` are used at home, by
    arguments or not, the others whole on one of `workers`: that to which the least has to be moved.
    """
    builder = PlanBuilder(states, links)
    if ndrange.nitems == 0:
        return builder.finish()
    others = sorted({pointer.slot for pointer in args} - set(shared))
    worker = max(workers, key=lambda number: (_held(states, others, number), -number))
    touches = []
    for slot in range(len(states)):
        whole = Region.span(0, states[slot].nbytes)
        holder = HOST if slot in shared else worker
        if holder != HOST:
            builder.reserve(slot, worker, 0, states[slot].nbytes)
        if states[slot].valid != ((holder, whole),):
            builder.make_valid(slot, holder, whole)
            builder.drafts[slot].own(holder, whole)
        touches.append(Touch(slot, holder, whole, True))
    bases, homes = [], []
    for pointer in args:
        if pointer.slot in shared:
            homes.append((pointer.arg, pointer.slot, pointer.offset))
        else:
            start, _ = builder.drafts[pointer.slot].replicas[worker]
            bases.append((pointer.arg, pointer.slot, start - pointer.offset))
    groups = ndrange.num_groups
    (chunk,) = make_partition(groups, (1,) * len(groups)).chunks
    builder.launch(Launch(worker, chunk, tuple(bases), tuple(homes)), touches)
    return builder.finish(((worker, chunk),), (reason,))


def _held(states: Sequence[BufferState], slots: Sequence[int], worker: int) -> int:
    """The bytes of `slots` that are valid at `worker`."""
    return sum(states[slot].valid_at(worker).nbytes for slot in slots)
