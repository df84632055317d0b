"""`vdev-info --links`: measures, shows and stores how long submitting launches and copying between workers take on
this machine.

Decides how the figures are shown; `vdev.session.measuring` measures them, `vdev.session.calibration` stores them.
"""

from __future__ import annotations

import dataclasses
import json
import sys

from vdev import boot
from vdev.errors import Failure, NoWorkers
from vdev.process.folders import cache_dir
from vdev.process.switches import SwitchError
from vdev.session import calibration, measuring
from vdev.session.measuring import Measured


def main(*, as_json: bool = False) -> int:
    """Measure, store and print; 0 if that was possible, else 1."""
    boot.start()
    from vdev.start.current import get_session

    try:
        session = get_session()
        found = measuring.measure(session)
    except (Failure, NoWorkers, SwitchError) as error:
        print(f"vdev-info: the links were not measured: {error}", file=sys.stderr)
        return 1
    calibration.keep(session.workers, found.times)
    is_stored = calibration.kept(session.workers) is not None
    names = [info.name for info in session.workers]
    print(
        json.dumps(dataclasses.asdict(found), indent=2)
        if as_json
        else as_text(names, found, stored=is_stored)
    )
    return 0


def as_text(names: list[str], found: Measured, *, stored: bool = True) -> str:
    """The figures for people. `stored`: whether later runs find them."""
    times = found.times
    lines = [f"worker {number}: {name}" for number, name in enumerate(names)]
    lines.append("host time to submit a launch:")
    lines.append(
        f"  on one worker {times.launch * 1e6:.1f} us, each further worker {times.part * 1e6:.1f} us"
    )
    if found.links:
        lines.append("copies from worker to worker, one at a time:")
    for link in found.links:
        lines.append(
            f"  {link.source} to {link.target}: {measuring.SMALL_NBYTES} bytes {link.latency * 1e6:.1f} us "
            f"({link.host * 1e6:.1f} us of them on the host), {1e-9 / link.per_byte:.3g} GB/s"
        )
    lines.append(
        "stored for the time model, for these workers and this version of vdev"
        if stored
        else f"not stored: nothing can be written in {cache_dir()} (VDEV_CACHE_DIR names another folder)"
    )
    return "\n".join(lines)
