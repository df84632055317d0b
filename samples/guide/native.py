"""What a program can see of the difference between a native device and the virtual one (native.md), checked where it
runs on the virtual one.
"""

import os

import numpy as np
import pyopencl as cl

SOURCE = """
__kernel void number(__global uint *out)
{
    out[get_global_id(0)] = get_num_groups(0);
}
"""
COUNT = 1 << 16

platform = cl.get_platforms()[0]
device = platform.get_devices()[0]
context = cl.Context([device])
queue = cl.CommandQueue(context, properties=cl.command_queue_properties.PROFILING_ENABLE)
program = cl.Program(context, SOURCE).build()
out = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4 * COUNT)
number = program.number
event = number(queue, (COUNT,), None, out)
groups = np.empty(COUNT, np.uint32)
cl.enqueue_copy(queue, groups, out)


def refused(call, *arguments):
    try:
        call(*arguments)
    except cl.Error:
        return True
    return False


def other_binary():
    cl.Program(context, [device], [b"another device's"]).build()


virtual = platform.name == "vdev"
print("virtual" if virtual else "native", "device:", device.name)
if virtual:
    workers = int(device.name.split()[1])
    binary = program.get_info(cl.program_info.BINARIES)[0]
    kinds, flags = cl.device_svm_capabilities, cl.svm_mem_flags
    atomics = flags.READ_WRITE | flags.SVM_FINE_GRAIN_BUFFER | flags.SVM_ATOMICS
    shared = cl.fsvm_empty(context, COUNT, np.uint32)
    shared[:] = 0
    number(queue, (COUNT,), None, cl.SVM(shared)).wait()
    number(queue, (COUNT,), None, out)
    mapped, _ = cl.enqueue_map_buffer(queue, out, cl.map_flags.READ, 4096, (16,), np.uint32)
    checks = {
        "one platform, one device": len(cl.get_platforms()) == len(platform.get_devices()) == 1,
        "compute units of the hardware": device.max_compute_units <= os.cpu_count(),
        "a buffer as large as the memory": device.max_mem_alloc_size == device.global_mem_size,
        "no sub-groups": "sub_group" not in device.extensions and "subgroup" not in device.extensions,
        "no vendor's extensions": all(name.startswith("cl_khr") for name in device.extensions.split()),
        "no sub-devices": device.partition_max_sub_devices == 0,
        "shared virtual memory": device.svm_capabilities
        == kinds.COARSE_GRAIN_BUFFER | kinds.FINE_GRAIN_BUFFER,
        "fine-grain without mappings": bool((shared == groups).all()),
        "no atomics in it": refused(cl.SVMAllocation, context, 64, 64, atomics),
        "what is mapped is brought": bool((mapped == groups[0]).all()),
        "binaries hold the source": b"get_num_groups" in binary,
        "binaries load again": not refused(cl.Program(context, [device], [binary]).build),
        "other binaries are refused": refused(other_binary),
        "groups for all workers": int(groups[0]) >= workers and bool((groups == groups[0]).all()),
        "profiling": event.profile.start <= event.profile.end,
    }
    for claim, holds in checks.items():
        print(f"{claim}: {'yes' if holds else 'NO'}")
    if not all(checks.values()):
        raise SystemExit(1)
