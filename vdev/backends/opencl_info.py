"""What a native OpenCL device says of itself, as a WorkerInfo. Asks, decides nothing."""

from __future__ import annotations

from typing import Any

from vdev.backends.base import WorkerInfo


def native_infos(cl: Any, device: Any) -> dict[int, object]:
    """Every device info that the device answers, by the number of its CL_DEVICE_ constant."""
    found: dict[int, object] = {}
    for name in dir(cl.device_info):
        number = getattr(cl.device_info, name)
        if name.startswith("_") or not isinstance(number, int) or name in ("PLATFORM", "PARENT_DEVICE"):
            continue
        try:
            found[number] = device.get_info(number)
        except (cl.Error, RuntimeError, TypeError, ValueError):
            continue  # a vendor's extension that this device does not have
    return found


def worker_info(cl: Any, device: Any, share: int, timer_offset_ns: int) -> WorkerInfo:
    """One of `share` workers that divide the memory of native `device` among them."""
    info = cl.device_info
    infos = native_infos(cl, device)
    platform = device.get_info(info.PLATFORM)
    memory = int(infos[info.GLOBAL_MEM_SIZE]) // share  # type: ignore[call-overload]

    def number(constant: int) -> int:
        return int(infos[constant])  # type: ignore[call-overload, no-any-return]

    def text(constant: int) -> str:
        return str(infos.get(constant, "")).strip()

    return WorkerInfo(
        backend="opencl",
        name=text(info.NAME),
        device_key=("opencl", device.int_ptr),
        compute_units=number(info.MAX_COMPUTE_UNITS),
        memory_nbytes=memory,
        max_alloc_nbytes=min(number(info.MAX_MEM_ALLOC_SIZE), memory),
        max_work_group_size=number(info.MAX_WORK_GROUP_SIZE),
        max_work_item_sizes=tuple(infos[info.MAX_WORK_ITEM_SIZES]),  # type: ignore[arg-type]
        local_memory_nbytes=number(info.LOCAL_MEM_SIZE),
        base_align_nbytes=number(info.MEM_BASE_ADDR_ALIGN) // 8,
        address_bits=number(info.ADDRESS_BITS),
        is_cpu=bool(number(info.TYPE) & cl.device_type.CPU),
        platform=str(platform.get_info(cl.platform_info.NAME)).strip(),
        vendor=text(info.VENDOR),
        version=text(info.VERSION),
        c_version=text(info.OPENCL_C_VERSION),
        driver=text(info.DRIVER_VERSION),
        extensions=tuple(text(info.EXTENSIONS).split()),
        timer_offset_ns=timer_offset_ns,
        native=infos,
    )
