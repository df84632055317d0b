"""Kernels of which nothing is measured yet: those that are surely too short to gain begin on one worker.

To try several workers takes plans, transfers and ways back, milliseconds in all, whatever a kernel does; on one worker its first
launches are measured next to nothing. So a launch is presumed short where all that it asks for (`work.bytes_of_launch`) takes less
than a tenth of a millisecond, however slowly, or where no cut would gain (`runs_at_once`). One launch of a tenth of a millisecond
that was not split has lost less than that; if many follow, what they lose is what pays for the first plans (`OneWorker.reconsider`). Of
kernels whose loops end nobody knows when, nothing is presumed: they are split at once.

With the first launch that is not short, nothing is presumed any more: what long launches use is spread, and short ones that have
to do with it are better off where it is.

Decides nothing else, and what is measured or kept of the program's last run goes before it.
"""

from __future__ import annotations

import logging
from math import prod

from vdev.planner.launch_request import LaunchOptions
from vdev.planner.launch_search import runs_at_once
from vdev.session.commands import BufferArg, Launch
from vdev.session.kernel_timing import SURELY_LONG, KernelTiming
from vdev.session.requests import scalar_value
from vdev.translators.interpreter.work import bytes_of_launch, scalars_of_work

logger = logging.getLogger("vdev.session.choosing")

#: seconds of a launch on one worker that is too short to be split before it is measured
PRESUMED_SHORT = 1e-4
#: bytes that all work-items together ask for in a second, at least, each access counted for itself: a fourth of what fast memories give
_BYTES_PER_SECOND = 1e12
#: launches that differ, by kernel, of which it is kept what is presumed
_MOST_PRESUMED = 64


def is_short(nitems: int, timing: KernelTiming, options: LaunchOptions, launch: Launch | None) -> bool:
    """Whether launches of so many work-items are too short to be split before more is known of them, as they were measured; or else, as
    it is presumed of `launch`, if that is given.
    """
    if timing.times.took_at_most(nitems, SURELY_LONG):
        return True
    if launch is None or timing.times.is_certain(nitems):
        return False
    if nitems < options.min_items or runs_at_once(
        prod(launch.ndrange.num_groups), nitems, options.compute_units
    ):
        return True
    try:
        return _is_presumed(launch, timing)
    except Exception:
        # A fault of ours must not become the program's: the launch is planned as one of which nothing is known.
        logger.exception("how much kernel %s does could not be evaluated", launch.kernel.name)
        return False


def _is_presumed(launch: Launch, timing: KernelTiming) -> bool:
    """Whether what a launch asks for is known, and little. What was found for launches like it holds for it, too."""
    kernel, summary = launch.kernel, launch.kernel.summary
    if summary is None or summary.images or 0 in launch.ndrange.global_size:
        return False
    key = (
        launch.ndrange.nitems.bit_length(),
        *(launch.args[index] for index in sorted(scalars_of_work(summary))),
    )
    found = timing.presumed.get(key)
    if found is None:
        if len(timing.presumed) >= _MOST_PRESUMED:
            timing.presumed.clear()
        wanted = summary.scalars | scalars_of_work(summary)
        values = {index: scalar_value(kernel, index, launch.args[index]) for index in wanted}
        sizes = {index: arg.nbytes for index, arg in enumerate(launch.args) if type(arg) is BufferArg}
        nbytes = bytes_of_launch(summary, launch.ndrange, values, sizes)
        found = timing.presumed[key] = nbytes is not None and nbytes <= PRESUMED_SHORT * _BYTES_PER_SECOND
        logger.debug("%s over %s asks for %s bytes", kernel.name, launch.ndrange.global_size, nbytes)
    return found
