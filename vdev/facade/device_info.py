"""What the one device says about itself, derived from what its workers say.

A table has one rule for each query of `clGetDeviceInfo`: the sum of the workers' values, the smallest of them, what
they all have in common, or an answer of the virtual device's own. Queries of vendor extensions have no rule: they
fail as on a device without the extension.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

from vdev import __version__
from vdev.facade.errors import native
from vdev.facade.image_formats import MAX_ROW_NBYTES
from vdev.session.capabilities import (
    API_EXTENSIONS,
    common_extensions,
    intermediate_languages,
    language_features,
)

PLATFORM_NAME = "vdev"
VENDOR = "vdev"
#: claimed by platform and device; each feature that OpenCL 3.0 makes optional has a query of its own
CL_VERSION = (3, 0)

_TYPE_CPU, _TYPE_GPU = native.device_type.CPU, native.device_type.GPU


def version_number(major: int, minor: int, patch: int = 0) -> int:
    """A cl_version (specification 4.1, table of numeric versions): 10, 10 and 12 bits."""
    return major << 22 | minor << 12 | patch


def name_version(name: str, version: int) -> Any:
    """A cl_name_version."""
    result = native.NameVersion()
    result.name = name
    result.version = version
    return result


Values = Sequence[Any]
Rule = Callable[[Values], Any]


def _common(values: Values) -> Any:
    """The value if all workers have the same, else the smallest: a limit that holds everywhere."""
    return min(values)


def _all_bits(values: Values) -> int:
    return reduce(operator.and_, values, -1)


def _any_bits(values: Values) -> int:
    return reduce(operator.or_, values, 0)


def _elementwise_min(values: Values) -> list[int]:
    return [min(column) for column in zip(*values, strict=True)]


#: by query: (rule over the workers' values, value if a worker's back end has none)
_RULES: Mapping[str, tuple[Rule, Any]] = {
    "MAX_WORK_ITEM_DIMENSIONS": (min, 3),
    **{
        f"PREFERRED_VECTOR_WIDTH_{kind}": (_common, 1)
        for kind in ("CHAR", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "HALF")
    },
    **{
        f"NATIVE_VECTOR_WIDTH_{kind}": (_common, 1)
        for kind in ("CHAR", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "HALF")
    },
    "MAX_CLOCK_FREQUENCY": (min, 0),
    "MAX_PARAMETER_SIZE": (min, 1024),
    "MIN_DATA_TYPE_ALIGN_SIZE": (max, 128),
    "SINGLE_FP_CONFIG": (_all_bits, 7),
    "DOUBLE_FP_CONFIG": (_all_bits, 63),
    "HALF_FP_CONFIG": (_all_bits, 0),
    "GLOBAL_MEM_CACHE_TYPE": (min, 0),
    "GLOBAL_MEM_CACHELINE_SIZE": (max, 64),
    "GLOBAL_MEM_CACHE_SIZE": (min, 0),
    "MAX_CONSTANT_BUFFER_SIZE": (min, 65536),
    "MAX_CONSTANT_ARGS": (min, 8),
    "LOCAL_MEM_TYPE": (max, 1),
    "ERROR_CORRECTION_SUPPORT": (min, 0),
    "ENDIAN_LITTLE": (min, 1),
    "AVAILABLE": (min, 1),
    "MAX_GLOBAL_VARIABLE_SIZE": (lambda values: 0, 0),
    "PREFERRED_GLOBAL_ATOMIC_ALIGNMENT": (max, 0),
    "PREFERRED_LOCAL_ATOMIC_ALIGNMENT": (max, 0),
    "PREFERRED_PLATFORM_ATOMIC_ALIGNMENT": (max, 0),
    "NON_UNIFORM_WORK_GROUP_SUPPORT": (min, 0),
    "PREFERRED_WORK_GROUP_SIZE_MULTIPLE": (max, 1),
    "WORK_GROUP_COLLECTIVE_FUNCTIONS_SUPPORT": (min, 0),
    "GENERIC_ADDRESS_SPACE_SUPPORT": (min, 0),
    "ATOMIC_MEMORY_CAPABILITIES": (_all_bits, 0),
    "ATOMIC_FENCE_CAPABILITIES": (_all_bits, 0),
}

#: the virtual device's answers, whatever its workers are. A reason is given if the answer is "none".
_OWN: Mapping[str, Any] = {
    "VENDOR_ID": 0,
    "PROFILE": "FULL_PROFILE",
    "COMPILER_AVAILABLE": 1,
    "LINKER_AVAILABLE": 1,
    "EXECUTION_CAPABILITIES": 1,
    "QUEUE_PROPERTIES": 3,
    "QUEUE_ON_HOST_PROPERTIES": 3,
    "PROFILING_TIMER_RESOLUTION": 1,
    "HOST_UNIFIED_MEMORY": 0,  # workers have their own memory, whatever they are
    "BUILT_IN_KERNELS": "",
    "BUILT_IN_KERNELS_WITH_VERSION": [],
    "REFERENCE_COUNT": 1,
    "PARENT_DEVICE": None,
    "PARTITION_MAX_SUB_DEVICES": 0,
    "PARTITION_PROPERTIES": [0],
    "PARTITION_AFFINITY_DOMAIN": [0],
    "PARTITION_TYPE": [],
    "PREFERRED_INTEROP_USER_SYNC": 1,
    "PRINTF_BUFFER_SIZE": 1 << 20,
    # what 3.0 asks of devices without all features of OpenCL C 2.0
    "OPENCL_C_VERSION": f"OpenCL C 1.2 {PLATFORM_NAME}",
    "NUMERIC_VERSION": version_number(*CL_VERSION),
    # images are the virtual device's own, and plain memory for its workers. More image arguments than the minimum in
    # the specification would not fit beside other arguments.
    "IMAGE_SUPPORT": 1,
    "MAX_READ_IMAGE_ARGS": 128,
    "MAX_WRITE_IMAGE_ARGS": 64,
    "MAX_READ_WRITE_IMAGE_ARGS": 64,
    "IMAGE2D_MAX_WIDTH": 16384,
    "IMAGE2D_MAX_HEIGHT": 16384,
    "IMAGE3D_MAX_WIDTH": 2048,
    "IMAGE3D_MAX_HEIGHT": 2048,
    "IMAGE3D_MAX_DEPTH": 2048,
    "IMAGE_MAX_ARRAY_SIZE": 2048,
    "MAX_SAMPLERS": 16,
    "SVM_CAPABILITIES": native.device_svm_capabilities.COARSE_GRAIN_BUFFER
    | native.device_svm_capabilities.FINE_GRAIN_BUFFER,
    # no pipes, no device queues
    "PIPE_SUPPORT": 0,
    "MAX_PIPE_ARGS": 0,
    "PIPE_MAX_ACTIVE_RESERVATIONS": 0,
    "PIPE_MAX_PACKET_SIZE": 0,
    "DEVICE_ENQUEUE_CAPABILITIES": 0,
    "QUEUE_ON_DEVICE_PROPERTIES": 0,
    "QUEUE_ON_DEVICE_PREFERRED_SIZE": 0,
    "QUEUE_ON_DEVICE_MAX_SIZE": 0,
    "MAX_ON_DEVICE_QUEUES": 0,
    "MAX_ON_DEVICE_EVENTS": 0,
    # each worker would have its own program-scope variables
    "GLOBAL_VARIABLE_PREFERRED_TOTAL_SIZE": 0,
    # only the workers' compilers know about sub-groups
    "MAX_NUM_SUB_GROUPS": 0,
    "SUB_GROUP_INDEPENDENT_FORWARD_PROGRESS": 0,
}


#: bytes of four 32-bit channels
_LARGEST_PIXEL = 16


def device_name(workers: Sequence[Any]) -> str:
    """A name that says what the device is made of, such as "vdev: 4 x AMD EPYC"."""
    counts: dict[str, int] = {}
    for worker in workers:
        name = worker.name.strip()
        counts[name] = counts.get(name, 0) + 1
    return f"{PLATFORM_NAME}: " + " + ".join(f"{count} x {name}" for name, count in counts.items())


def device_values(workers: Sequence[Any]) -> dict[str, Any]:
    """The answer to every query that has one, except PLATFORM, by the query's name in `pyopencl.device_info`."""
    values: dict[str, Any] = dict(_OWN)
    for query, (rule, default) in _RULES.items():
        number = getattr(native.device_info, query)
        values[query] = rule([worker.native.get(number, default) for worker in workers])
    extensions = (*common_extensions(workers), *API_EXTENSIONS)
    il_version, ils = intermediate_languages(workers)
    if "cl_khr_fp64" not in extensions:
        values["DOUBLE_FP_CONFIG"] = 0
    if "cl_khr_fp16" not in extensions:
        values["HALF_FP_CONFIG"] = 0
    values.update(
        NAME=device_name(workers),
        VENDOR=VENDOR,
        DRIVER_VERSION=_driver_version(workers),
        VERSION=f"OpenCL {CL_VERSION[0]}.{CL_VERSION[1]} {PLATFORM_NAME} {__version__}",
        MAX_COMPUTE_UNITS=_compute_units(workers),
        GLOBAL_MEM_SIZE=sum(worker.memory_nbytes for worker in workers),
        MAX_MEM_ALLOC_SIZE=sum(worker.max_alloc_nbytes for worker in workers),
        IMAGE_MAX_BUFFER_SIZE=min(MAX_ROW_NBYTES, sum(worker.max_alloc_nbytes for worker in workers))
        // _LARGEST_PIXEL,
        MAX_WORK_GROUP_SIZE=min(worker.max_work_group_size for worker in workers),
        MAX_WORK_ITEM_SIZES=_elementwise_min([worker.max_work_item_sizes for worker in workers]),
        LOCAL_MEM_SIZE=min(worker.local_memory_nbytes for worker in workers),
        MEM_BASE_ADDR_ALIGN=max(worker.base_align_nbytes for worker in workers) * 8,
        # no query: what clCreateSubBuffer refuses
        ORIGIN_NBYTES=max(1 if worker.takes_any_origin else worker.base_align_nbytes for worker in workers),
        ADDRESS_BITS=min(worker.address_bits for worker in workers),
        TYPE=_any_bits([_TYPE_CPU if worker.is_cpu else _TYPE_GPU for worker in workers]),
        EXTENSIONS=" ".join(extensions),
        EXTENSIONS_WITH_VERSION=[name_version(name, version_number(1, 0)) for name in extensions],
        OPENCL_C_ALL_VERSIONS=[
            name_version("OpenCL C", version_number(*version)) for version in ((3, 0), (1, 2), (1, 1), (1, 0))
        ],
        OPENCL_C_FEATURES=[name_version(name, version_number(3, 0)) for name in language_features(workers)],
        IL_VERSION=il_version,
        ILS_WITH_VERSION=ils,
    )
    return values


def _compute_units(workers: Sequence[Any]) -> int:
    """Programs size their work by this number: the units of a device that several workers share count once."""
    return sum({worker.device_key: worker.compute_units for worker in workers}.values())


def _driver_version(workers: Sequence[Any]) -> str:
    """Our version, the version of the binaries' format, and the drivers' versions: PyOpenCL keys its cache of
    binaries by them.
    """
    from vdev.session.programs import BINARY_TAG  # loads sympy and libclang: not before a session has

    binaries = BINARY_TAG.decode().split()[-1]
    drivers = sorted({worker.driver for worker in workers} - {""})
    return " / ".join([f"{__version__} (binaries {binaries})", *drivers])
