"""What the tables of `test_facade_behaviour` have in common: the world in which calls are made, their table, and what they look with.

What a driver is free to choose (addresses, chosen work-group sizes, times) is reduced to what it is not.
"""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import numpy as np

from .side_by_side import Call

SOURCE = """
__kernel void ids(__global int *out, int width)
{
    int at = (get_global_id(1) - get_global_offset(1)) * width + get_global_id(0) - get_global_offset(0);
    __global int *o = out + 16 * at;
    o[0] = get_global_id(0); o[1] = get_global_id(1); o[2] = get_global_size(0); o[3] = get_global_size(1);
    o[4] = get_global_offset(0); o[5] = get_global_offset(1); o[6] = get_local_id(0); o[7] = get_local_id(1);
    o[8] = get_group_id(0); o[9] = get_group_id(1); o[10] = get_num_groups(0); o[11] = get_num_groups(1);
    o[12] = get_local_size(0); o[13] = get_local_size(1); o[14] = get_work_dim(); o[15] = get_global_size(2);
}
__kernel void add(__global int *a, int x) { a[get_global_id(0)] += x; }
__kernel void copy(__global const int *a, __global int *b) { b[get_global_id(0)] = a[get_global_id(0)]; }
__kernel void reversed(__global int *a, __local int *part)
{
    int l = get_local_id(0);
    part[l] = a[get_global_id(0)];
    barrier(CLK_LOCAL_MEM_FENCE);
    a[get_global_id(0)] = part[get_local_size(0) - 1 - l];
}
typedef struct { char c; int i; float4 f; } mixed;
__kernel void by_value(__global float *out, mixed m, char2 v, double d)
{ out[0] = m.c; out[1] = m.i; out[2] = m.f.w; out[3] = v.y; out[4] = d; }
__kernel void null(__global int *a, __global int *out) { out[0] = a == 0; }
__kernel __attribute__((reqd_work_group_size(8, 2, 1))) __attribute__((vec_type_hint(float4)))
void attributed(__global const float *restrict a, __constant int *c, __local volatile int *l, float4 v,
                unsigned char u, __global mixed *m) { l[0] = 1; m[0].i = c[0]; }
"""

CALLS: dict[str, Call] = {}


def see(function: Call) -> Call:
    """Enter a function into the table."""
    CALLS[function.__name__] = function
    return function


def make_world() -> SimpleNamespace:
    import pyopencl as cl  # which one it is, the process decides
    import pyopencl.array
    import pyopencl.tools

    w = SimpleNamespace(cl=cl, raw=cl._cl, mf=cl.mem_flags, array=pyopencl.array, tools=pyopencl.tools)
    # several drivers may be there; vdev prefers Intel's as well
    platforms = sorted(cl.get_platforms(), key=lambda platform: "intel" not in platform.name.lower())
    w.device = platforms[0].get_devices()[0]
    w.ctx = cl.Context([w.device])
    w.queue = cl.CommandQueue(w.ctx)
    w.free = cl.CommandQueue(w.ctx, properties=cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE)
    w.profiled = cl.CommandQueue(w.ctx, properties=cl.command_queue_properties.PROFILING_ENABLE)
    w.program = cl.Program(w.ctx, SOURCE).build()
    return w


def ints(w: Any, count: int = 64, flags: int = 0) -> Any:
    host = np.arange(count, dtype=np.int32)
    return w.cl.Buffer(w.ctx, w.mf.READ_WRITE | w.mf.COPY_HOST_PTR | flags, hostbuf=host)


def content(w: Any, buffer: Any, dtype: Any = np.int32) -> list[Any]:
    host = np.empty(buffer.size // np.dtype(dtype).itemsize, dtype)
    w.cl.enqueue_copy(w.queue, host, buffer)
    return list(host.tolist())


def mapped(
    w: Any, buffer: Any, flags: int | None = None, start: int = 0, count: int = 16, **more: Any
) -> Any:
    flags = w.cl.map_flags.READ | w.cl.map_flags.WRITE if flags is None else flags
    return w.cl.enqueue_map_buffer(w.queue, buffer, flags, start, (count,), np.int32, **more)[0]


def address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def aligned(count: int) -> Any:
    raw = np.zeros(count + 1024, np.int32)
    start = -address(raw) % 4096 // 4
    return raw[start : start + count]


def eventually(condition: Any, seconds: float = 100) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.002)
    return bool(condition())
