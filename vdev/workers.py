"""Which workers stand behind the virtual device: from the switch VDEV_WORKERS to openers of back ends.

Decides which native device a `cpu:N`, `opencl:P.D` or `auto` means. Opens nothing itself: an opener is called on its worker's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from vdev import engines
from vdev.backends.base import Backend
from vdev.switches import WorkerSpec

#: Workers on a machine without a GPU where the user asks for nothing else: the fewest that show what a cut does.
_DEFAULT_CPU_WORKERS = 2


class NoWorkers(RuntimeError):
    """The machine has no device for the workers asked for; the text says what to do."""


def open_workers(specs: Sequence[WorkerSpec]) -> list[Callable[[], Backend]]:
    """Openers of the workers that `specs` ask for, in order. NoWorkers where a device is missing."""
    engines.register_engines()
    openers: list[Callable[[], Backend]] = []
    for spec in specs:
        openers += _OPENERS[spec.kind](spec)
    return openers


def _open_cpu(spec: WorkerSpec) -> list[Callable[[], Backend]]:
    device = _preferred_cpu()
    if device is None:
        raise NoWorkers(engines.NO_ENGINE)
    return _on_native(device, spec.count)


def _open_native(spec: WorkerSpec) -> list[Callable[[], Backend]]:
    platform, number = spec.device
    devices = _native_devices()
    if platform >= len(devices) or number >= len(devices[platform]):
        known = ", ".join(
            f"opencl:{p}.{d} ({device.name.strip()})" for p, group in enumerate(devices) for d, device in enumerate(group)
        )
        raise NoWorkers(f"VDEV_WORKERS names {spec}, which this machine does not have; it has: {known or engines.NO_ENGINE}")
    return _on_native(devices[platform][number], spec.count)


def _open_cuda(spec: WorkerSpec) -> list[Callable[[], Backend]]:
    raise NoWorkers(
        f"VDEV_WORKERS names {spec}: this version has no CUDA workers. A GPU's own OpenCL driver serves as opencl:P.D (see vdev-info)."
    )


def _open_auto(spec: WorkerSpec) -> list[Callable[[], Backend]]:
    gpus = [device for group in _native_devices() for device in group if _is_kind(device, "GPU")]
    if gpus:
        return [opener for gpu in gpus for opener in _on_native(gpu, 1)]
    return _open_cpu(WorkerSpec("cpu", (), _DEFAULT_CPU_WORKERS))


_OPENERS = {"cpu": _open_cpu, "opencl": _open_native, "cuda": _open_cuda, "auto": _open_auto}


def _on_native(device: Any, count: int) -> list[Callable[[], Backend]]:
    from vdev.backends.opencl import opener

    return [opener(device, count)] * count


def _native_devices() -> list[list[Any]]:
    """Every native OpenCL device, by platform."""
    from vdev.backends.native import load_native

    native = load_native()
    try:
        platforms = native.get_platforms()
    except native.Error as error:
        # The loader reports a machine without any driver as an error (cl_khr_icd, CL_PLATFORM_NOT_FOUND_KHR).
        raise NoWorkers(engines.NO_ENGINE) from error
    return [_devices_of(native, platform) for platform in platforms]


def _devices_of(native: Any, platform: Any) -> list[Any]:
    try:
        return list(platform.get_devices())
    except native.Error as error:
        if error.args[0].code() == native.status_code.DEVICE_NOT_FOUND:
            return []
        raise


def _is_kind(device: Any, kind: str) -> bool:
    from vdev.backends.native import load_native

    return bool(device.type & getattr(load_native().device_type, kind))


def _preferred_cpu() -> Any:
    """The CPU device that `cpu:N` means: Intel's where there is one, which compiles and runs fastest, else the first."""
    found = [device for group in _native_devices() for device in group if _is_kind(device, "CPU")]
    intel = [device for device in found if "intel" in device.platform.name.lower() and "fpga" not in device.platform.name.lower()]
    return next(iter(intel or found), None)
