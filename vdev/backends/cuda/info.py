"""What a GPU says of itself, in OpenCL's terms. Asks CUDA, decides nothing."""

from __future__ import annotations

from typing import Any

from vdev.backends.base import WorkerInfo

#: Memory taken by contexts, streams and compiled programs.
_RESERVED_NBYTES = 1 << 30

#: How much of what is free stays free: for copies of rectangles, compiled programs and fragments.
_MARGIN_NBYTES = 2 << 30
#: NVLink compared with the host's link, of whose speed with pinned memory (a seventh of NVLink's) a plain array gets a part.
_PEER_COST = 0.05

#: What the translator to CUDA C++ supports.
EXTENSIONS = (
    "cl_khr_global_int32_base_atomics",
    "cl_khr_global_int32_extended_atomics",
    "cl_khr_local_int32_base_atomics",
    "cl_khr_local_int32_extended_atomics",
    "cl_khr_int64_base_atomics",
    "cl_khr_int64_extended_atomics",
    "cl_khr_fp64",
    "cl_khr_byte_addressable_store",
)

# CL_DEVICE_ numbers (OpenCL 3.0, table "Device queries")
_FP_DENORM_INF_NAN_ROUND_FMA = 63
_ORDER_RELAXED, _ORDER_ACQ_REL, _ORDER_SEQ_CST = 1 << 0, 1 << 1, 1 << 2
_SCOPE_WORK_ITEM, _SCOPE_WORK_GROUP, _SCOPE_DEVICE, _SCOPE_ALL_DEVICES = 1 << 3, 1 << 4, 1 << 5, 1 << 6
#: what `translators/include/cuda/atomics.h` has: atomics between fences of the scope that is asked for
_ATOMIC_MEMORY = (
    _ORDER_RELAXED | _ORDER_ACQ_REL | _ORDER_SEQ_CST | _SCOPE_WORK_GROUP | _SCOPE_DEVICE | _SCOPE_ALL_DEVICES
)


def worker_info(cupy: Any, number: int, share: int) -> WorkerInfo:
    """GPU `number` as one of `share` workers that divide its memory."""
    runtime = cupy.cuda.runtime
    properties = runtime.getDeviceProperties(number)
    memory = (int(properties["totalGlobalMem"]) - _RESERVED_NBYTES) // share
    free, _ = runtime.memGetInfo()
    version = runtime.driverGetVersion()
    return WorkerInfo(
        backend="cuda",
        name=properties["name"].decode(),
        device_key=("cuda", number),
        compute_units=int(properties["multiProcessorCount"]),
        memory_nbytes=memory,
        max_alloc_nbytes=memory,
        max_work_group_size=int(properties["maxThreadsPerBlock"]),
        max_work_item_sizes=tuple(int(size) for size in properties["maxThreadsDim"]),
        # Programs size their work by the former (PyOpenCL's scan takes all there is); kernels also run with the
        # latter.
        local_memory_nbytes=int(properties["sharedMemPerBlock"]),
        most_local_nbytes=int(properties.get("sharedMemPerBlockOptin", 0)),
        base_align_nbytes=512,
        takes_any_origin=True,  # NVIDIA's OpenCL says 4096 bits, too, and refuses none
        is_cpu=False,
        platform="CUDA",
        vendor="NVIDIA Corporation",
        version="OpenCL 3.0 CUDA",
        c_version="OpenCL C 1.2",
        peer_cost=_PEER_COST,
        merges=True,
        room_nbytes=max(free - _MARGIN_NBYTES, 0) // share,
        driver=f"CUDA {version // 1000}.{version % 1000 // 10}",
        extensions=EXTENSIONS,
        native=_native_infos(properties),
    )


def _native_infos(properties: Any) -> dict[int, object]:
    """Answers to clGetDeviceInfo, by number, that are the worker's own."""
    return {
        0x100C: int(properties["clockRate"]) // 1000
        if "clockRate" in properties
        else 0,  # MAX_CLOCK_FREQUENCY
        0x1017: 4352,  # MAX_PARAMETER_SIZE, as NVIDIA's own driver has it
        0x101A: 128,  # MIN_DATA_TYPE_ALIGN_SIZE
        0x101B: _FP_DENORM_INF_NAN_ROUND_FMA,  # SINGLE_FP_CONFIG
        0x1032: _FP_DENORM_INF_NAN_ROUND_FMA,  # DOUBLE_FP_CONFIG
        0x101C: 2,  # GLOBAL_MEM_CACHE_TYPE: read and write
        0x101D: 128,  # GLOBAL_MEM_CACHELINE_SIZE
        0x101E: int(properties["l2CacheSize"]),  # GLOBAL_MEM_CACHE_SIZE
        0x1020: 65536,  # MAX_CONSTANT_BUFFER_SIZE
        0x1021: 9,  # MAX_CONSTANT_ARGS
        0x1022: 1,  # LOCAL_MEM_TYPE: memory of its own
        0x1024: int(properties["ECCEnabled"]),  # ERROR_CORRECTION_SUPPORT
        0x1063: _ATOMIC_MEMORY,  # ATOMIC_MEMORY_CAPABILITIES
        0x1064: _ATOMIC_MEMORY | _SCOPE_WORK_ITEM,  # ATOMIC_FENCE_CAPABILITIES
        0x1067: 32,  # PREFERRED_WORK_GROUP_SIZE_MULTIPLE
        0x1068: 1,  # WORK_GROUP_COLLECTIVE_FUNCTIONS_SUPPORT
        0x1069: 1,  # GENERIC_ADDRESS_SPACE_SUPPORT
    }
