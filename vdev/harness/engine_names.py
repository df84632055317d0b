"""From a part of a name to the device that a test means: the CPU engine, PoCL, a GPU, or any other that is installed.

Decides how a device and a number of workers are written as a value of VDEV_WORKERS.
"""

from __future__ import annotations

from vdev.backends.cuda import driver as cuda_driver
from vdev.backends.opencl.devices import native_devices
from vdev.errors import CudaMissing, NoWorkers
from vdev.process.switches import parse_workers
from vdev.start.engines import register_engines

#: The value of `workers` for the device itself, on which the kernel runs as written.
NATIVE = "native"


class NoEngine(NoWorkers):
    """No device has such a name; the text lists those that exist."""


def workers_on(engine: str, workers: str) -> str:
    """VDEV_WORKERS for `workers` ('cpu:3' for three of them, or 'native') on the first device whose platform, name or version
    contains `engine`, in upper or lower case ('pocl' occurs only in the version). Raises NoEngine, and ValueError if `workers`
    names other devices already.
    """
    count = 1
    if workers != NATIVE:
        specs = parse_workers(workers)
        if [spec.kind for spec in specs] != ["cpu"]:
            raise ValueError(
                f"with an engine, give the number of its workers, as in 'cpu:3'; got {workers!r}"
            )
        count = specs[0].count
    known = devices()
    for spec, names in known.items():
        if engine.lower() in ", ".join(names).lower():
            return spec if count == 1 else f"{spec}*{count}"
    raise NoEngine(f"no device matches {engine!r}; available: {_listed(known) or 'none'}")


def devices() -> dict[str, tuple[str, str, str]]:
    """Platform, name and version of each device, by its name in VDEV_WORKERS. GPUs through CUDA come first."""
    register_engines()
    found = {f"cuda:{number}": ("CUDA", name, "") for number, name in enumerate(_gpus())}
    for number, group in enumerate(native_devices()):
        found |= {
            f"opencl:{number}.{index}": (device.platform, device.name, device.version)
            for index, device in enumerate(group)
        }
    return found


def _listed(known: dict[str, tuple[str, str, str]]) -> str:
    return "; ".join(dict.fromkeys(f"{name} ({platform})" for platform, name, _ in known.values()))


def _gpus() -> list[str]:
    try:
        return list(cuda_driver.device_names())
    except CudaMissing:
        return []
