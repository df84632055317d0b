"""The native OpenCL devices of this machine, as the back end `opencl` can use them. Asks, decides nothing."""

from __future__ import annotations

from typing import Any

from vdev.backends.opencl.native import load_native
from vdev.translators.values import dataclass


@dataclass(frozen=True)
class NativeDevice:
    """A device, with what is needed to choose it; `native` is the native module's object."""

    name: str
    platform: str
    is_cpu: bool
    is_gpu: bool
    native: Any
    version: str = ""  #: versions of OpenCL and of the driver, as the device reports them


def native_devices() -> list[list[NativeDevice]]:
    """Every native device, by platform in the loader's order; empty if the machine has no driver."""
    cl = load_native()
    try:
        platforms = cl.get_platforms()
    except cl.Error as error:
        # Without any driver the loader reports an error instead of an empty list (cl_khr_icd).
        if error.args[0].code() == cl.status_code.PLATFORM_NOT_FOUND_KHR:
            return []
        raise
    return [_devices_of(cl, platform) for platform in platforms]


def _devices_of(cl: Any, platform: Any) -> list[NativeDevice]:
    try:
        found = platform.get_devices(cl.device_type.ALL)
    except cl.Error as error:
        if error.args[0].code() == cl.status_code.DEVICE_NOT_FOUND:
            return []
        raise
    name = platform.get_info(cl.platform_info.NAME).strip()
    return [_describe(cl, device, name) for device in found]


def _describe(cl: Any, device: Any, platform: str) -> NativeDevice:
    kind = device.get_info(cl.device_info.TYPE)
    return NativeDevice(
        name=device.get_info(cl.device_info.NAME).strip(),
        platform=platform,
        is_cpu=bool(kind & cl.device_type.CPU),
        is_gpu=bool(kind & cl.device_type.GPU),
        native=device,
        version=device.get_info(cl.device_info.VERSION).strip(),
    )
