"""What C programs ask about objects: the façade's answers as bytes (specification, tables of `clGet…Info`).

Decides the C type of each answer. The façade decides what the answer is.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vdev.facade.context import Context
from vdev.facade.errors import fail, native, status
from vdev.facade.event import Event
from vdev.facade.images import ImageMemory, Sampler
from vdev.facade.kernel import Kernel
from vdev.facade.memory import USE_HOST_PTR, Memory
from vdev.facade.platform_device import Device
from vdev.facade.program import _Program
from vdev.facade.queue import CommandQueue
from vdev.icd import host
from vdev.icd.objects import platform_item, the_device
from vdev.icd.views import view

Pack = Callable[[Any], bytes]


def _uint(value: Any) -> bytes:
    return struct.pack("=I", int(value) & 0xFFFFFFFF)


def _ulong(value: Any) -> bytes:
    return struct.pack("=Q", int(value))


def _text(value: Any) -> bytes:
    return value.encode("utf-8", "replace") + b"\0" if isinstance(value, str) else bytes(value)


def _sizes(value: Sequence[int]) -> bytes:
    return host.packed(list(value))


def _first(value: Sequence[int]) -> bytes:
    return _ulong(value[0] if value else 0)


def _versions(value: Sequence[Any]) -> bytes:
    """An array of cl_name_version: a number and 64 characters each."""
    return b"".join(struct.pack("=I64s", item.version, item.name.encode()) for item in value)


def _handle(kind: int) -> Pack:
    return lambda item: _ulong(0 if item is None else host.address_of(item, kind))


def _handles(kind: int) -> Pack:
    return lambda items: b"".join(_handle(kind)(item) for item in items)


_info = native.device_info


def _numbers(info: Any, *names: str) -> list[int]:
    return [getattr(info, name) for name in names]


#: queries of the device whose answer is not a cl_uint, and whose type does not follow from the façade's answer
_DEVICE: Mapping[int, Pack] = {
    **dict.fromkeys(
        _numbers(
            _info, "MAX_WORK_GROUP_SIZE", "IMAGE2D_MAX_WIDTH", "IMAGE2D_MAX_HEIGHT", "IMAGE3D_MAX_WIDTH",
            "IMAGE3D_MAX_HEIGHT", "IMAGE3D_MAX_DEPTH", "IMAGE_MAX_BUFFER_SIZE", "IMAGE_MAX_ARRAY_SIZE",
            "MAX_PARAMETER_SIZE", "PROFILING_TIMER_RESOLUTION", "PRINTF_BUFFER_SIZE", "MAX_GLOBAL_VARIABLE_SIZE",
            "GLOBAL_VARIABLE_PREFERRED_TOTAL_SIZE", "PREFERRED_WORK_GROUP_SIZE_MULTIPLE",
            # bit fields
            "TYPE", "SINGLE_FP_CONFIG", "DOUBLE_FP_CONFIG", "HALF_FP_CONFIG", "EXECUTION_CAPABILITIES",
            "QUEUE_PROPERTIES", "QUEUE_ON_DEVICE_PROPERTIES", "SVM_CAPABILITIES", "ATOMIC_MEMORY_CAPABILITIES",
            "ATOMIC_FENCE_CAPABILITIES", "DEVICE_ENQUEUE_CAPABILITIES",
            # cl_ulong
            "MAX_MEM_ALLOC_SIZE", "GLOBAL_MEM_CACHE_SIZE", "GLOBAL_MEM_SIZE", "MAX_CONSTANT_BUFFER_SIZE",
            "LOCAL_MEM_SIZE",
        ),
        _ulong,
    ),
    _info.MAX_WORK_ITEM_SIZES: _sizes,
    _info.PARTITION_PROPERTIES: _sizes,
    _info.PARTITION_TYPE: _sizes,
    _info.PARTITION_AFFINITY_DOMAIN: _first,
    _info.PLATFORM: _handle(host.PLATFORM),
    _info.PARENT_DEVICE: _handle(host.DEVICE),
}  # fmt: skip
_CONFORMANCE = 0x1072  # CL_DEVICE_LATEST_CONFORMANCE_VERSION_PASSED
#: CL_DEVICE_IMAGE_PITCH_ALIGNMENT and …_BASE_ADDRESS_ALIGNMENT, in pixels: what `vdev.facade.images` requires of a
#: row
_IMAGE_ALIGNMENT = {0x104A: 32, 0x104B: 1}
_PLATFORM_EXTENSIONS, _PLATFORM_EXTENSIONS_WITH_VERSION = 0x0904, 0x0907
_ICD = "cl_khr_icd"


def _by_type(value: Any) -> bytes:
    if isinstance(value, str):
        return _text(value)
    return _versions(value) if isinstance(value, list) else _uint(value)


def clGetPlatformInfo(platform: Any, name: int) -> bytes:
    item = platform_item(platform)
    if name == _PLATFORM_EXTENSIONS:
        return _text(" ".join([_ICD, *item.get_info(name).split()]))
    if name == _PLATFORM_EXTENSIONS_WITH_VERSION:
        return struct.pack("=I64s", 1 << 22, _ICD.encode()) + _versions(item.get_info(name))
    return _by_type(item.get_info(name))


def clGetDeviceInfo(device: Device, name: int) -> bytes:
    if name == _CONFORMANCE:
        return _text("v0000-01-01-00")
    if name in _IMAGE_ALIGNMENT:
        return _uint(_IMAGE_ALIGNMENT[name])
    pack = _DEVICE.get(name, _by_type)
    return pack(device.get_info(name))


_context, _queue, _mem, _image = (
    native.context_info,
    native.command_queue_info,
    native.mem_info,
    native.image_info,
)
_program, _build, _kernel = native.program_info, native.program_build_info, native.kernel_info
_group, _arg, _event = native.kernel_work_group_info, native.kernel_arg_info, native.event_info


def clGetContextInfo(context: Context, name: int) -> bytes:
    if name == _context.PROPERTIES:
        return host.given.get(context, b"")
    if name == _context.DEVICES:
        return _handles(host.DEVICE)(context.get_info(name))
    return _uint(context.get_info(name))


_QUEUE: Mapping[int, Pack] = {
    _queue.CONTEXT: _handle(host.CONTEXT),
    _queue.DEVICE: _handle(host.DEVICE),
    _queue.PROPERTIES: _ulong,
    _queue.PROPERTIES_ARRAY: _sizes,
}


_QUEUE_DEVICE_DEFAULT = 0x1095  # CL_QUEUE_DEVICE_DEFAULT: NULL for a device without queues of its own


def clGetCommandQueueInfo(queue: CommandQueue, name: int) -> bytes:
    if name == _QUEUE_DEVICE_DEFAULT:
        return _ulong(0)
    if name == _queue.PROPERTIES_ARRAY and queue in host.given:
        return host.given[queue]
    return _QUEUE.get(name, _uint)(queue.get_info(name))


_MEM: Mapping[int, Pack] = {
    _mem.CONTEXT: _handle(host.CONTEXT),
    _mem.FLAGS: _ulong,
    _mem.SIZE: _ulong,
    _mem.OFFSET: _ulong,
}


def clGetMemObjectInfo(memory: Memory, name: int) -> bytes:
    if name == _mem.ASSOCIATED_MEMOBJECT:
        return _handle(host.MEM)(memory.parent)
    if name == _mem.HOST_PTR:
        return _ulong(_host_pointer(memory))
    if name == _mem.PROPERTIES:
        return host.given.get(memory, b"")
    return _MEM.get(name, _uint)(view(memory).get_info(name))


def _host_pointer(memory: Memory) -> int:
    owner = memory if memory.parent is None else memory.parent
    if not owner.flags & USE_HOST_PTR:
        return 0
    address: int = memory.buffer.home().ctypes.data
    return address + memory.offset


def clGetImageInfo(memory: Memory, name: int) -> bytes:
    if not isinstance(memory, ImageMemory):
        fail("clGetImageInfo", status.INVALID_MEM_OBJECT)
    if name == _image.FORMAT:
        return struct.pack("=II", memory.order, memory.data_type)
    if name == _image.BUFFER:
        return _handle(host.MEM)(memory.parent)
    value = view(memory).get_image_info(name)
    return (_uint if name in (_image.NUM_MIP_LEVELS, _image.NUM_SAMPLES) else _ulong)(value)


def clGetPipeInfo(memory: Memory, name: int) -> bytes:
    fail("clGetPipeInfo", status.INVALID_MEM_OBJECT)


def clGetSamplerInfo(sampler: Sampler, name: int) -> bytes:
    info = native.sampler_info
    if name == info.CONTEXT:
        return _handle(host.CONTEXT)(sampler.get_info(name))
    if name == info.PROPERTIES:
        return host.given.get(sampler, b"")
    return _uint(sampler.get_info(name))


_PROGRAM: Mapping[int, Pack] = {
    _program.CONTEXT: _handle(host.CONTEXT),
    _program.DEVICES: _handles(host.DEVICE),
    _program.SOURCE: _text,
    _program.BINARY_SIZES: _sizes,
    _program.NUM_KERNELS: _ulong,
    _program.KERNEL_NAMES: _text,
    _program.IL: lambda il: il if isinstance(il, bytes) else b"",
}


def clGetProgramInfo(program: _Program, name: int, room: int, value: int, size: int) -> None:
    routine = "clGetProgramInfo"
    if name == _program.BINARIES:
        _put_binaries(program, room, value, size)
        return
    if name == _program.SOURCE:
        content = host.given.get(program, b"\0")
    elif name == _program.REFERENCE_COUNT:
        content = _uint(host.count_of(program))
    else:
        content = _PROGRAM.get(name, _uint)(program.get_info(name))
    if value:
        if room < len(content):
            fail(routine, status.INVALID_VALUE)
        host.put_bytes(value, content)
    host.put_size(size, len(content))


def _put_binaries(program: _Program, room: int, value: int, size: int) -> None:
    """Write the binary where the program's own pointer says; not at all if that is NULL."""
    if value:
        if room < 8:
            fail("clGetProgramInfo", status.INVALID_VALUE)
        target = host.sizes(value, 1)[0]
        if target:
            host.put_bytes(target, program.get_info(_program.BINARIES)[0])
    host.put_size(size, 8)


def clGetProgramBuildInfo(program: _Program, device: Device, name: int) -> bytes:
    value = program.get_build_info(device, name)
    if name == _build.GLOBAL_VARIABLE_TOTAL_SIZE:
        return _ulong(value)
    return _by_type(value)


_KERNEL: Mapping[int, Pack] = {
    _kernel.CONTEXT: _handle(host.CONTEXT),
    _kernel.PROGRAM: _handle(host.PROGRAM),
}


def clGetKernelInfo(kernel: Kernel, name: int) -> bytes:
    return _KERNEL.get(name, _by_type)(kernel.get_info(name))


def clGetKernelWorkGroupInfo(kernel: Kernel, device: Device | None, name: int) -> bytes:
    value = kernel.get_work_group_info(name, device or the_device())
    return _sizes(value) if name == _group.COMPILE_WORK_GROUP_SIZE else _ulong(value)


def clGetKernelArgInfo(kernel: Kernel, index: int, name: int) -> bytes:
    value = kernel.get_arg_info(index, name)
    return _ulong(value) if name == _arg.TYPE_QUALIFIER else _by_type(value)


def clGetKernelSubGroupInfo(
    kernel: Kernel, device: Device | None, name: int, input_size: int, input_value: int
) -> bytes:
    return _ulong(kernel.get_sub_group_info(device or the_device(), name))


_EVENT: Mapping[int, Pack] = {
    _event.CONTEXT: _handle(host.CONTEXT),
    _event.COMMAND_QUEUE: _handle(host.QUEUE),
}


def clGetEventInfo(event: Event, name: int) -> bytes:
    return _EVENT.get(name, _uint)(event.get_info(name))


def clGetEventProfilingInfo(event: Event, name: int) -> bytes:
    return _ulong(event.get_profiling_info(name))
