"""Whether a launch would be split over several workers and, if not, why.

Decides nothing itself: it asks the planner for two workers, with all data in host memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from vdev.planner.directory import HOST, buffer_state
from vdev.planner.launch_request import LaunchOptions
from vdev.planner.launches import plan_launch
from vdev.planner.links import LinkCosts
from vdev.session.buffers import VirtualBuffer
from vdev.session.commands import Launch
from vdev.session.requests import EvaluationFault, request_of
from vdev.translators.ranges.region import Region

_WORKERS = (0, 1)


def against_splitting(launch: Launch, buffers: Sequence[VirtualBuffer]) -> tuple[str, ...]:
    """Reasons why one worker would run all of a launch; empty if several would share it. `buffers`: of its arguments."""
    kernel = launch.kernel
    if kernel.subgrid is None or kernel.one_worker:
        return tuple(str(reason) for reason in kernel.one_worker) or ("its text could not be translated",)
    if prod(launch.ndrange.num_groups) == 1:
        return ("it has a single work-group",)
    states = [buffer_state(buffer.nbytes, ((HOST, Region.span(0, buffer.nbytes)),)) for buffer in buffers]
    links = LinkCosts.uniform(len(_WORKERS), peer=0.5, per_run=256.0)
    try:
        request = replace(request_of(launch, buffers), habits=None)  # which are the session's
        plan = plan_launch(states, request, LaunchOptions(_WORKERS, links))
    except EvaluationFault:
        return ("its access ranges could not be evaluated",)
    return plan.reasons if len(plan.partition) == 1 else ()
