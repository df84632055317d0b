"""Which workers stand behind the virtual device: from the switch VDEV_WORKERS to openers of back ends.

Decides which native device a `cpu:N`, `opencl:P.D` or `auto` means. Opens nothing itself: an opener is
called on its worker's thread.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Sequence

from vdev.backends.base import Backend
from vdev.backends.cuda import driver as cuda_driver
from vdev.backends.opencl.backend import opener
from vdev.backends.opencl.devices import NativeDevice, native_devices
from vdev.errors import BackendError, CudaMissing, NoWorkers
from vdev.process.switches import MemoryLimit, WorkerSpec
from vdev.start import engines

logger = logging.getLogger("vdev.start.workers")

#: Workers on a machine without a GPU if the user asks for nothing else: the fewest that show what a cut does.
_DEFAULT_CPU_WORKERS = 2


def begin_opening(specs: Sequence[WorkerSpec]) -> bool:
    """Begin to open the GPUs among the workers that `specs` ask for, all of them together, as each takes long. Whether any are being
    opened: then there is time to load what a worker on a GPU needs.
    """
    if any(spec.kind == "auto" for spec in specs):
        return cuda_driver.begin_opening(())
    gpus = [spec.device for spec in specs if spec.kind == "cuda"]
    if not gpus:
        return False
    # `cuda` alone means all there are
    return cuda_driver.begin_opening([number for numbers in gpus for number in numbers] if all(gpus) else ())


def open_workers(
    specs: Sequence[WorkerSpec], memory: MemoryLimit | None = None
) -> list[Callable[[], Backend]]:
    """Openers of the workers that `specs` ask for, in order. NoWorkers if a device is missing. `memory`: what each
    may use of its device's.
    """
    engines.register_engines()
    if begin_opening(specs):
        importlib.import_module("vdev.backends.cuda.backend")
    openers: list[Callable[[], Backend]] = []
    for spec in specs:
        openers += _OPENERS[spec.kind](spec)
    return openers if memory is None else [_limited(opener, memory) for opener in openers]


def _limited(opener: Callable[[], Backend], memory: MemoryLimit) -> Callable[[], Backend]:
    """`opener`, for a worker that reports less memory, and takes no more."""

    def open_worker() -> Backend:
        backend = opener()
        backend.limit(memory.of(backend.info.memory_nbytes))
        return backend

    return open_worker


def _open_cpu(spec: WorkerSpec) -> list[Callable[[], Backend]]:
    device = _preferred_cpu()
    if device is None:
        raise NoWorkers(engines.no_engine())
    return _on_native(device, spec.count)


def _open_native(spec: WorkerSpec) -> list[Callable[[], Backend]]:
    platform, number = spec.device
    devices = native_devices()
    if platform >= len(devices) or number >= len(devices[platform]):
        known = ", ".join(
            f"opencl:{p}.{d} ({device.name})"
            for p, group in enumerate(devices)
            for d, device in enumerate(group)
        )
        raise NoWorkers(
            f"VDEV_WORKERS names {spec}, which does not exist; available: {known or engines.no_engine()}"
        )
    return _on_native(devices[platform][number], spec.count)


def _open_cuda(spec: WorkerSpec) -> list[Callable[[], Backend]]:
    try:
        names = cuda_driver.device_names()
    except CudaMissing as missing:
        raise NoWorkers(
            f"VDEV_WORKERS names {spec}, but there is no GPU that CUDA can use: {missing}"
        ) from None
    numbers = spec.device or tuple(range(len(names)))
    if max(numbers) >= len(names):
        known = ", ".join(f"cuda:{number} ({name})" for number, name in enumerate(names))
        raise NoWorkers(f"VDEV_WORKERS names {spec}, which does not exist; available: {known}")
    return [opener for number in numbers for opener in _on_gpu(number, spec.count)]


def _open_auto(spec: WorkerSpec) -> list[Callable[[], Backend]]:
    try:
        return [opener for number in range(len(cuda_driver.device_names())) for opener in _on_gpu(number, 1)]
    except CudaMissing as missing:
        logger.info("no CUDA workers: %s", missing)
    gpus = [device for group in native_devices() for device in group if device.is_gpu]
    if gpus:
        return [opener for gpu in gpus for opener in _on_native(gpu, 1)]
    return _open_cpu(WorkerSpec("cpu", (), _DEFAULT_CPU_WORKERS))


_OPENERS = {"cpu": _open_cpu, "opencl": _open_native, "cuda": _open_cuda, "auto": _open_auto}


def _on_native(device: NativeDevice, count: int) -> list[Callable[[], Backend]]:
    open_backend = opener(device.native, count)

    def open_worker() -> Backend:
        try:
            return open_backend()
        except BackendError as error:
            text = f"{device.name} ({device.platform}) cannot be used: {error}."
            raise NoWorkers(" ".join([text, *engines.misplaced()])) from error

    return [open_worker] * count


def _on_gpu(number: int, count: int) -> list[Callable[[], Backend]]:
    from vdev.backends.cuda import backend as cuda  # loads the translator: only if there is a GPU

    return [cuda.opener(number, count)] * count


def _preferred_cpu() -> NativeDevice | None:
    """The CPU device that `cpu:N` means: Intel's if there is one, since it is the fastest, else the first."""
    found = [device for group in native_devices() for device in group if device.is_cpu]
    intel = [device for device in found if "intel" in device.platform.lower()]
    return next(iter(intel or found), None)
