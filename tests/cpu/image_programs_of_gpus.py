"""`image_programs` with the text that GPUs get, which reads and writes aligned pixels at once (`image_lowering`).

Run by `test_images`, in a process whose PyOpenCL is the virtual device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.cpu.image_programs import CALLS, make_world
from vdev.backends.base import WorkerInfo
from vdev.session import programs

__all__ = ["CALLS", "make_world"]

_target = programs._target


def _of_gpus(workers: Sequence[WorkerInfo]) -> dict[str, Any]:
    return _target(workers) | {"is_cpu": False}


programs._target = _of_gpus
