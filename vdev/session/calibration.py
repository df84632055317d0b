"""How long handing over and moving take on a machine with certain workers: stored in the cache folder, read by every
session.

Decides to which machine a measurement (`measuring`) applies. Without one that can be trusted, the time model uses its
defaults (`vdev.planner.timing`).
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import vdev
from vdev.backends.base import WorkerInfo
from vdev.planner.timing import MachineTimes
from vdev.process.folders import cache_dir
from vdev.process.private_files import Store

_MOST_NBYTES = 1 << 20  #: bytes of everything that is kept


def keep(workers: Sequence[WorkerInfo], times: MachineTimes) -> None:
    """Keep what was measured for a machine with these workers."""
    _store().put(machine_key(workers), json.dumps(dataclasses.asdict(times)).encode(), _MOST_NBYTES)


def kept(workers: Sequence[WorkerInfo]) -> MachineTimes | None:
    """What was measured for these workers; None if nothing was, or it cannot be used."""
    content = _store().get(machine_key(workers))
    if content is None:
        return None
    try:
        found: dict[str, Any] = json.loads(content)
        times = MachineTimes(**{name: float(value) for name, value in found.items()})
    except (ValueError, TypeError, AttributeError):  # something that `keep` did not write
        return None
    return times if all(0 <= value < 1 for value in dataclasses.astuple(times)) else None


def _store() -> Store:
    return Store(cache_dir() / "links", ".json")


def machine_key(workers: Sequence[WorkerInfo]) -> str:
    """Everything that decides whether a measurement applies: one made with other drivers or devices does not. The same for each process
    with such workers: an OpenCL device's key, which is not, stands for which workers share one.
    """
    keys = [info.device_key for info in workers]
    each = [
        (
            info.backend,
            info.name,
            info.driver,
            keys.index(info.device_key) if info.backend == "opencl" else str(info.device_key),
        )
        for info in workers
    ]
    return json.dumps([vdev.__version__, each])
