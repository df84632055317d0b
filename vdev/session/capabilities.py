"""Which optional features of OpenCL the virtual device has: one answer for device queries and for
compiling.

A program that asks the device and a program that asks the preprocessor must hear the same. Decides which of
the workers' optional features the virtual device passes on; never asks a device.
"""

from __future__ import annotations

from collections.abc import Sequence

from vdev.backends.base import WorkerInfo

#: Extensions that only add functions and types to OpenCL C: a kernel that uses them runs on part of an NDRange just
#: as on the whole.
_EXTENSIONS = (
    "cl_khr_fp64",
    "cl_khr_fp16",
    "cl_khr_global_int32_base_atomics",
    "cl_khr_global_int32_extended_atomics",
    "cl_khr_local_int32_base_atomics",
    "cl_khr_local_int32_extended_atomics",
    "cl_khr_int64_base_atomics",
    "cl_khr_int64_extended_atomics",
    "cl_khr_byte_addressable_store",
)

#: The virtual device's own extensions that only add functions to the API: compilers define nothing for them.
API_EXTENSIONS = ("cl_khr_suggested_local_work_size",)

#: The virtual device's own extensions: kernels work on images as plain memory, on workers of any kind.
_IMAGE_EXTENSIONS = ("cl_khr_3d_image_writes", "cl_khr_depth_images", "cl_khr_image2d_from_buffer")
_IMAGES_OF_BUFFERS = "cl_khr_image2d_from_buffer"
_IMAGE_FEATURES = ("__opencl_c_images", "__opencl_c_read_write_images", "__opencl_c_3d_image_writes")

# CL_DEVICE_ constants (OpenCL 3.0, table "Device queries")
_WORK_GROUP_COLLECTIVE_FUNCTIONS, _GENERIC_ADDRESS_SPACE, _IL_VERSION = 0x1068, 0x1069, 0x105B
_ILS_WITH_VERSION, _SVM_CAPABILITIES, _ATOMIC_MEMORY_CAPABILITIES = 0x1061, 0x1053, 0x1063
_C_FEATURES = 0x106F  # CL_DEVICE_OPENCL_C_FEATURES, a list of names and versions
_SVM_FINE_GRAIN_SYSTEM = 1 << 2
#: by bit of CL_DEVICE_ATOMIC_MEMORY_CAPABILITIES: the macro that says the same (OpenCL C specification 6.2.1)
_ATOMIC_FEATURES = {
    1 << 1: "__opencl_c_atomic_order_acq_rel",
    1 << 2: "__opencl_c_atomic_order_seq_cst",
    1 << 5: "__opencl_c_atomic_scope_device",
    1 << 6: "__opencl_c_atomic_scope_all_devices",
}


def common_extensions(workers: Sequence[WorkerInfo]) -> tuple[str, ...]:
    """Extensions that every worker has and the virtual device passes on, and its own (CL_DEVICE_EXTENSIONS)."""
    common = (name for name in _EXTENSIONS if all(name in worker.extensions for worker in workers))
    return (*common, *_IMAGE_EXTENSIONS)


def makes_images_of_buffers(workers: Sequence[WorkerInfo]) -> bool:
    """Whether kernels may be given engines' own images of buffers: on every worker whose engine compiles OpenCL C, if
    it is a CPU's.

    On others an image with memory of its own is faster, since it may have another layout.
    """
    engines = [worker for worker in workers if worker.backend == "opencl"]
    return bool(engines) and all(
        worker.is_cpu and _IMAGES_OF_BUFFERS in worker.extensions for worker in engines
    )


def shares_host_memory(worker: WorkerInfo) -> bool:
    """Whether kernels on the worker may use addresses of host memory (fine-grain system SVM; a CPU device has
    no other memory, once it takes SVM pointers at all).
    """
    capabilities = worker.native.get(_SVM_CAPABILITIES, 0)
    if not isinstance(capabilities, int):
        return False
    return bool(capabilities & _SVM_FINE_GRAIN_SYSTEM or (capabilities and worker.is_cpu))


def language_features(workers: Sequence[WorkerInfo]) -> tuple[str, ...]:
    """The feature macros of OpenCL C 3.0 (CL_DEVICE_OPENCL_C_FEATURES)."""
    names = ["__opencl_c_int64", *_IMAGE_FEATURES]
    if "cl_khr_fp64" in common_extensions(workers):
        names.append("__opencl_c_fp64")
    if all(worker.native.get(_GENERIC_ADDRESS_SPACE) for worker in workers):
        names.append("__opencl_c_generic_address_space")
    if all(worker.native.get(_WORK_GROUP_COLLECTIVE_FUNCTIONS) for worker in workers):
        names.append("__opencl_c_work_group_collective_functions")
    atomics = [worker.native.get(_ATOMIC_MEMORY_CAPABILITIES, 0) for worker in workers]
    for bit, name in _ATOMIC_FEATURES.items():
        if all(isinstance(bits, int) and bits & bit for bits in atomics):
            names.append(name)
    return tuple(names)


def unreported(workers: Sequence[WorkerInfo]) -> tuple[str, ...]:
    """Names of extensions and features that a worker's own compiler may have defined, and the virtual device does not have."""
    offered = {*common_extensions(workers), *language_features(workers)}
    found: set[str] = set()
    for worker in workers:
        features = worker.native.get(_C_FEATURES)
        found |= {str(each.name) for each in features} if isinstance(features, list) else set()
        found |= set(worker.extensions)
    return tuple(sorted(found - offered))


def intermediate_languages(workers: Sequence[WorkerInfo]) -> tuple[str, list[object]]:
    """CL_DEVICE_IL_VERSION and CL_DEVICE_ILS_WITH_VERSION: what every worker takes, in the order of the first."""
    lists = [str(worker.native.get(_IL_VERSION, "")).split() for worker in workers]
    names = [name for name in lists[0] if all(name in others for others in lists)]
    versions = workers[0].native.get(_ILS_WITH_VERSION, [])
    return " ".join(names), list(versions) if names == lists[0] and isinstance(versions, list) else []
