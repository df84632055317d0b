"""What a native OpenCL device says of itself and of kernels built for it. Asks, decides nothing."""

from __future__ import annotations

import re
from typing import Any

from vdev.backends.base import KernelResources, NativeArg, WorkerInfo


def loses_compiled_kernels(cl: Any, device: Any) -> bool:
    """Whether the driver must not run two launches at a time.

    PoCL before 6 releases a launch's compiled kernel by program and work-group size alone, although it keeps several
    of these, for small and for large index spaces: if two of them run, its reference counts go wrong and an assertion
    ends the process (pocl_release_dlhandle_cache).
    """
    platform = device.get_info(cl.device_info.PLATFORM)
    version = re.search(r"\bPoCL (\d+)\.", str(platform.get_info(cl.platform_info.VERSION)), re.IGNORECASE)
    return version is not None and int(version[1]) < 6


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
            continue  # a vendor's extension that this device lacks
    return found


def worker_info(cl: Any, device: Any, share: int, timer_offset_ns: int) -> WorkerInfo:
    """One of `share` workers that divide the memory of native `device` among them."""
    info = cl.device_info
    infos = native_infos(cl, device)
    platform = device.get_info(info.PLATFORM)
    memory = int(infos[info.GLOBAL_MEM_SIZE]) // share  # type: ignore[call-overload]

    def number(constant: int) -> int:
        return int(infos[constant])  # type: ignore[call-overload, no-any-return]

    is_cpu = bool(number(info.TYPE) & cl.device_type.CPU)

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
        is_cpu=is_cpu,
        platform=str(platform.get_info(cl.platform_info.NAME)).strip(),
        vendor=text(info.VENDOR),
        version=text(info.VERSION),
        c_version=text(info.OPENCL_C_VERSION),
        driver=text(info.DRIVER_VERSION),
        extensions=tuple(text(info.EXTENSIONS).split()),
        # Workers on a CPU share the memory that they do not touch, and untouched pages take no room: what all of them
        # hold together counts (`SharedDevice.reserve`).
        room_nbytes=int(infos[info.GLOBAL_MEM_SIZE]) if is_cpu else memory,  # type: ignore[call-overload]
        timer_offset_ns=timer_offset_ns,
        native=infos,
    )


def kernel_resources(cl: Any, kernel: Any, device: Any) -> KernelResources:
    """What the compiler says of a native kernel on its native device."""
    info = cl.kernel_work_group_info
    ask = kernel.get_work_group_info
    sizes = tuple(int(size) for size in ask(info.COMPILE_WORK_GROUP_SIZE, device))
    return KernelResources(
        work_group_size=int(ask(info.WORK_GROUP_SIZE, device)),
        compile_work_group_size=(*sizes, 0, 0, 0)[:3],  # type: ignore[arg-type]
        local_memory_nbytes=int(ask(info.LOCAL_MEM_SIZE, device)),
        private_memory_nbytes=int(ask(info.PRIVATE_MEM_SIZE, device)),
        preferred_multiple=int(ask(info.PREFERRED_WORK_GROUP_SIZE_MULTIPLE, device)),
        args=_native_args(cl, kernel),
    )


def _native_args(cl: Any, kernel: Any) -> tuple[NativeArg, ...]:
    info = cl.kernel_arg_info
    count = int(kernel.get_info(cl.kernel_info.NUM_ARGS))
    try:
        return tuple(
            NativeArg(
                str(kernel.get_arg_info(index, info.NAME)),
                str(kernel.get_arg_info(index, info.TYPE_NAME)),
                int(kernel.get_arg_info(index, info.ADDRESS_QUALIFIER)),
                int(kernel.get_arg_info(index, info.ACCESS_QUALIFIER)),
                int(kernel.get_arg_info(index, info.TYPE_QUALIFIER)),
            )
            for index in range(count)
        )
    except cl.Error:
        return (NativeArg("", "", 0, 0, 0),) * count  # CL_KERNEL_ARG_INFO_NOT_AVAILABLE
