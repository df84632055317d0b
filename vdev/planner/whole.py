"""Planning a launch on one worker that has all its buffers whole: bytes that it lacks are copied there, and that is
all.

Takes no account of what the kernel touches: it may read and write every byte, so everything has to be valid before it and
counts as written by it. Such a plan depends on the buffers' states alone. Never chooses the worker.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from vdev.planner.builder import PlanBuilder
from vdev.planner.directory import HOST, BufferState
from vdev.planner.footprints import PointerArg
from vdev.planner.instructions import Launch, Plan, Touch
from vdev.planner.links import LinkCosts
from vdev.translators.ranges.ndrange import NDRange, whole_chunk
from vdev.translators.ranges.region import Region


def plan_whole(
    states: Sequence[BufferState],
    args: Sequence[PointerArg],
    worker: int,
    ndrange: NDRange,
    links: LinkCosts,
    reasons: Sequence[str] = (),
    at_home: Collection[int] = (),
) -> Plan:
    """The plan of a launch. `states`: by slot, each buffer once; the slots in `at_home` are used where the host has
    them, by a worker that can.
    """
    builder = PlanBuilder(states, links)
    touches = []
    for slot, state in enumerate(states):
        whole = Region.span(0, state.nbytes)
        holder = HOST if slot in at_home else worker
        if holder != HOST:
            builder.reserve(slot, worker, 0, state.nbytes)
        if state.valid != ((holder, whole),):
            builder.make_valid(slot, holder, whole)
            builder.drafts[slot].own(holder, whole)
        touches += [Touch(slot, holder, whole, False), Touch(slot, holder, whole, True)]
    bases = tuple((item.arg, item.slot, -item.offset) for item in args if item.slot not in at_home)
    homes = tuple((item.arg, item.slot, item.offset) for item in args if item.slot in at_home)
    chunk = whole_chunk(ndrange)
    builder.launch(Launch(worker, chunk, bases, homes), touches)
    return builder.finish(((worker, chunk),), reasons)
