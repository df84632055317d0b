"""What PyOpenCL's objects do, natively and on the virtual device: memory, launches, events, programs, pools.

Each entry of the table is a small program that returns what it saw; both processes have to see the same.
What a driver is free to choose (addresses, chosen work-group sizes, times) is reduced to what it is not.
"""

from __future__ import annotations

import copy
import gc
import pickle
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from .side_by_side import Call, run

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


def eventually(condition: Any, seconds: float = 10) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.002)
    return bool(condition())


# memory ------------------------------------------------------------------------------------------------


@see
def used_memory_is_the_mapping(w: Any) -> Any:
    host = aligned(64)
    buffer = w.cl.Buffer(w.ctx, w.mf.READ_WRITE | w.mf.USE_HOST_PTR, hostbuf=host)
    w.program.add(w.queue, (64,), None, buffer, np.int32(5))
    array = mapped(w, buffer)
    same, seen = address(array) == address(host), host[:16].tolist()
    array[3] = 77
    array.base.release(w.queue)
    w.program.add(w.queue, (64,), None, buffer, np.int32(1))
    w.queue.finish()
    return same, seen, int(host[3]) in (77, 78), content(w, buffer), buffer.hostbuf is host


@see
def used_memory_at_an_offset(w: Any) -> Any:
    host = aligned(64)
    buffer = w.cl.Buffer(w.ctx, w.mf.READ_WRITE | w.mf.USE_HOST_PTR, hostbuf=host)
    array = mapped(w, buffer, start=64)
    return address(array) - address(host)


@see
def used_memory_in_parts(w: Any) -> Any:
    host = aligned(2048)
    buffer = w.cl.Buffer(w.ctx, w.mf.READ_WRITE | w.mf.USE_HOST_PTR, hostbuf=host)
    part = buffer.get_sub_region(1024, 1024)
    w.program.add(w.queue, (256,), None, part, np.int32(3))
    array = mapped(w, part)
    return address(array) - address(host), host[256:260].tolist(), part.flags, buffer.flags


@see
def host_array_of_used_memory(w: Any) -> Any:
    host = aligned(64)
    buffer = w.cl.Buffer(w.ctx, w.mf.READ_WRITE | w.mf.USE_HOST_PTR, hostbuf=host)
    array = buffer.get_host_array((4, 16), np.int32)
    array[1, 2] = 5
    return array.shape, int(host[18]), buffer.get_host_array(64, np.int32, order="F").strides


@see
def allocated_memory_maps_to_one_place(w: Any) -> Any:
    buffer = w.cl.Buffer(w.ctx, w.mf.READ_WRITE | w.mf.ALLOC_HOST_PTR, size=256)
    first = mapped(w, buffer)
    second = mapped(w, buffer, start=16, count=4)
    first[:] = 9
    seen = second.tolist(), address(second) - address(first)
    del first, second
    gc.collect()
    w.program.add(w.queue, (16,), None, buffer, np.int32(1))
    return *seen, content(w, buffer)[:16], buffer.flags


@see
def allocated_and_copied(w: Any) -> Any:
    host = np.arange(16, dtype=np.int32)
    flags = w.mf.ALLOC_HOST_PTR | w.mf.COPY_HOST_PTR
    buffer = w.cl.Buffer(w.ctx, flags, hostbuf=host)
    host[:] = 0
    array = mapped(w, buffer)
    return array.tolist(), buffer.flags, address(array) == address(host)


@see
def sizes_are_integers(w: Any) -> Any:
    """Whatever equals them, and was given before."""
    kernel, buffer, found = w.cl.Kernel(w.program, "add"), ints(w), []
    kernel.set_args(buffer, np.int32(1))
    sizes: list[Any] = [((16,), None), ((16.0,), None), ((16,), (8,)), ((16,), (8.0,)), ((16.0,), (8,)), ((32,), (8.0,)),
                        ((np.int64(16),), (np.int32(8),)), ((16,), (np.float32(8),)), ((True,), None), ((1.0,), None),
                        ((16, 4, 2), (8, 4, 2)), ((16, 4, 2), (8, 4, 2.0)), ([16.0], None), ((16, 1, 0), None)]  # fmt: skip
    for _ in range(2):
        for size, group in sizes:
            found.append(refused(kernel, w.queue, size, group, buffer, np.int32(1)))
            for offset in (None, (0,) * len(size), (0.0,) * len(size)):
                found.append(refused(w.cl.enqueue_nd_range_kernel, w.queue, kernel, size, group, offset))
    return found, content(w, buffer)


def refused(call: Callable[..., object], *args: Any) -> str | None:
    """The name of the exception."""
    try:
        call(*args)
    except Exception as error:
        return type(error).__name__
    return None


def axpy(w: Any) -> Any:
    from pyopencl.elementwise import ElementwiseKernel

    return ElementwiseKernel(w.ctx, "float *x, float *y, float s", "y[i] = s * x[i] + y[i]", "axpy")


@see
def arrays_take_each_others_places(w: Any) -> Any:
    """Of whatever size and type of memory, from whatever element on, with numbers that change or do not."""
    kernel, found = axpy(w), []
    x, y, z = (
        w.array.to_device(w.queue, np.arange(64, dtype=np.float32) + 100 * number) for number in range(3)
    )
    pool = w.tools.MemoryPool(w.tools.ImmediateAllocator(w.queue))
    pooled = w.array.to_device(w.queue, np.arange(64, dtype=np.float32), allocator=pool)
    for one, other, number in (
        (x, y, 2.0), (x, y, 2.0), (x, y, np.float32(2)), (y, z, 3), (z, z, 1.0), (x[4:20], y[8:24], 2.0), (x[5:21], y[8:24], 2.0),
        (x, pooled, 0.5), (pooled[16:], x[16:], 0.5), (x.reshape(8, 8), y.reshape(8, 8), 1), (x, y, 2.0), (x, y, -0.0), (x, y, 0.0),
    ):  # fmt: skip
        kernel(one, other, number)
        found.append([each.get().tolist() for each in (x, y, z, pooled)])
    return found


@see
def arrays_that_a_call_does_not_take(w: Any) -> Any:
    """After some that it does take: with gaps, of another queue, whose memory is gone, or none at all."""
    kernel = axpy(w)
    x, y, gone = (w.array.to_device(w.queue, np.arange(64, dtype=np.float32)) for _ in range(3))
    others = w.array.to_device(w.free, np.arange(64, dtype=np.float32))
    for _ in range(3):
        kernel(x, y, 2.0)
    other = w.cl.Buffer(w.ctx, w.mf.READ_WRITE, 256)
    gone.base_data.release()
    found = [
        refused(kernel, x[:32], y[::2], 2.0),
        refused(kernel, x, others, 2.0),
        refused(kernel, x, gone, 2.0),
        refused(kernel, x, other, 2.0),
        refused(kernel, x, np.zeros(64, np.float32), 2.0),
        refused(kernel, x, y, "2"),
        refused(kernel, x, y.with_queue(None), 2.0),
    ]
    return found, y.get().tolist()


@see
def calls_wait_for_the_events_of_their_arrays(w: Any) -> Any:
    kernel, found = axpy(w), []
    x, y = (w.array.to_device(w.queue, np.arange(64, dtype=np.float32)) for _ in range(2))
    for _ in range(3):
        kernel(x, y, 2.0)
    w.queue.finish()
    for array in (x, y):
        first, second = w.cl.UserEvent(w.ctx), w.cl.UserEvent(w.ctx)
        array.add_event(first if array is x else second)
        done = kernel(x, y, 2.0, wait_for=[second if array is x else first])
        second.set_status(w.cl.command_execution_status.COMPLETE)
        time.sleep(0.05)
        found.append(done.command_execution_status == w.cl.command_execution_status.COMPLETE)
        first.set_status(w.cl.command_execution_status.COMPLETE)
        done.wait()
        found.append(y.get().tolist())
    return found


@see
def sums_of_arrays_are_arrays(w: Any) -> Any:
    """What operators make, again and again, and from one another."""
    x, y = (w.array.to_device(w.queue, np.arange(64, dtype=np.float32) + number) for number in range(2))
    found = []
    for number in range(6):
        z = x + y
        z += x[number] if number % 2 else z
        found.append([z.get().tolist(), (z * number - y[:64]).get().tolist(), float(w.array.sum(z).get())])
        x = z / 2
    return found


@see
def flags_are_reported(w: Any) -> Any:
    host, f = np.zeros(1024, np.int32), w.mf
    found = []
    for flags in (0, f.COPY_HOST_PTR, f.ALLOC_HOST_PTR, f.USE_HOST_PTR, f.HOST_READ_ONLY, f.WRITE_ONLY,
                  f.HOST_NO_ACCESS | f.ALLOC_HOST_PTR, f.COPY_HOST_PTR | f.READ_ONLY):  # fmt: skip
        given = {"hostbuf": host} if flags & (f.COPY_HOST_PTR | f.USE_HOST_PTR) else {"size": 4096}
        buffer = w.cl.Buffer(w.ctx, flags, **given)
        found.append((buffer.flags, buffer.get_sub_region(0, 1024).flags))
    return found


@see
def mappings_are_counted(w: Any) -> Any:
    buffer = ints(w)
    counts = [buffer.map_count]
    first, second = mapped(w, buffer), mapped(w, buffer, start=64)
    counts.append(buffer.map_count)
    event = first.base.release()
    event.wait()
    counts.append(buffer.map_count)
    with second.base:
        second[:] = 4
    w.queue.finish()
    return [*counts, buffer.map_count], event.command_type, content(w, buffer)


@see
def mapping_in_fortran_order(w: Any) -> Any:
    array, event = w.cl.enqueue_map_buffer(
        w.queue, ints(w), w.cl.map_flags.READ, 16, (3, 4), np.int32, order="F", is_blocking=False
    )
    event.wait()
    return array.tolist(), array.strides, event.command_type


@see
def mapping_with_strides(w: Any) -> Any:
    array, _ = w.cl.enqueue_map_buffer(
        w.queue, ints(w), w.cl.map_flags.READ, 0, (3, 2), np.int32, strides=(32, 8)
    )
    return array.tolist(), array.strides


@see
def mapping_with_strides_after_launch(w: Any) -> Any:
    """The last elements are beyond as many bytes as the array has; what lies between them stays."""
    buffer, flags = ints(w, 4096), w.cl.map_flags
    w.program.add(w.queue, (4096,), (8,), buffer, np.int32(3))
    for flag in (flags.READ, flags.WRITE, flags.WRITE_INVALIDATE_REGION):
        array, _ = w.cl.enqueue_map_buffer(w.queue, buffer, flag, 64, (500, 2), np.int32, strides=(32, 8))
        seen = array.tolist() if flag == flags.READ else []
        if flag != flags.READ:
            array[:] = -flag
        array.base.release(w.queue)
    return seen, content(w, buffer)


@see
def mapping_waits(w: Any) -> Any:
    buffer, gate = ints(w), w.cl.UserEvent(w.ctx)
    array, event = w.cl.enqueue_map_buffer(
        w.free, buffer, w.cl.map_flags.READ, 0, (4,), np.int32, wait_for=[gate], is_blocking=False
    )
    before = event.command_execution_status > 0
    gate.set_status(0)
    event.wait()
    return before, array.tolist(), event.command_execution_status


@see
def parts_that_overlap(w: Any) -> Any:
    align = w.device.mem_base_addr_align // 8
    buffer = ints(w, align)
    first, second = buffer.get_sub_region(0, 2 * align), buffer.get_sub_region(align, 2 * align)
    count = align // 4
    w.program.add(w.queue, (2 * count,), None, first, np.int32(1000))
    w.program.add(w.queue, (2 * count,), None, second, np.int32(5))
    w.program.copy(w.queue, (count,), None, first, second)
    w.cl.enqueue_fill_buffer(w.queue, second, np.int32(-1), 0, 64)
    return content(w, buffer), content(w, first), content(w, second)


@see
def parts_know_the_whole(w: Any) -> Any:
    align = w.device.mem_base_addr_align // 8
    buffer = ints(w, align)
    part = buffer.get_sub_region(align, align, w.mf.READ_ONLY)
    whole = part.associated_memobject
    described = part.offset == align, part.size == align, part.flags, whole == buffer, buffer.offset
    counted = buffer.reference_count > 1, part.reference_count, part.type, part.context == w.ctx
    del buffer, whole
    gc.collect()
    return described, counted, content(w, part)[:4] == list(range(align // 4, align // 4 + 4))


@see
def handles_hold_objects(w: Any) -> Any:
    buffer = ints(w)
    other = w.cl.Buffer.from_int_ptr(buffer.int_ptr)
    counts = [buffer.reference_count]
    equal = other == buffer, hash(other) == hash(buffer), other != ints(w), other.int_ptr == buffer.int_ptr
    buffer.release()
    counts.append(other.reference_count)
    return equal, counts, content(w, other)[:4], type(other).__name__


@see
def handles_of_everything(w: Any) -> Any:
    event, kernel, sampler = w.cl.enqueue_marker(w.queue), w.program.add, None
    objects = [w.device.platform, w.device, w.ctx, w.queue, event, kernel, w.program._get_prg(), sampler]
    found = []
    for item in objects:
        if item is not None:
            again = type(item).from_int_ptr(item.int_ptr)
            found.append([again == item, hash(again) == hash(item), again.int_ptr == item.int_ptr])
    return found


@see
def handles_without_a_reference(w: Any) -> Any:
    queue = w.cl.CommandQueue(w.ctx)
    again = w.cl.CommandQueue.from_int_ptr(queue.int_ptr, retain=True)
    return again == queue, again.context == w.ctx, again.device == w.device


@see
def fills_of_every_size(w: Any) -> Any:
    found = []
    for size in (1, 2, 4, 8, 16, 32, 64, 128):
        buffer = ints(w)
        w.cl.enqueue_fill_buffer(w.queue, buffer, np.arange(size, dtype=np.uint8), size, 128 // size * size)
        found.append(content(w, buffer, np.uint8))
    return found


@see
def copies_on_the_device(w: Any) -> Any:
    a, b = ints(w), w.cl.Buffer(w.ctx, w.mf.READ_WRITE, size=512)
    w.cl.enqueue_fill_buffer(w.queue, b, np.int32(-1), 0, 512)
    w.cl.enqueue_copy(w.queue, b, a)
    w.cl.enqueue_copy(w.queue, b, a, byte_count=20, src_offset=4, dst_offset=300)
    w.cl.enqueue_copy(w.queue, a, a, byte_count=64, src_offset=0, dst_offset=64)
    return content(w, b), content(w, a)


@see
def boxes(w: Any) -> Any:
    a, b = ints(w, 512), ints(w, 512)
    w.cl.enqueue_copy(
        w.queue, b, a, src_origin=(4, 1, 1), dst_origin=(8, 2, 0), region=(16, 3, 2),
        src_pitches=(32, 256), dst_pitches=(64, 512),
    )  # fmt: skip
    host = np.zeros((2, 4, 8), np.int32)
    w.cl.enqueue_copy(
        w.queue, host, b, buffer_origin=(8, 1, 0), host_origin=(4, 0, 1), region=(12, 3, 1),
        buffer_pitches=(64, 512), host_pitches=(32, 128),
    )  # fmt: skip
    w.cl.enqueue_copy(
        w.queue, a, host, buffer_origin=(0, 3), host_origin=(0, 1), region=(8, 2), buffer_pitches=(16,),
        host_pitches=(32,),
    )  # fmt: skip
    return content(w, b), host.tolist(), content(w, a)


@see
def migrations(w: Any) -> Any:
    buffer = ints(w)
    flags = w.cl.mem_migration_flags
    types = []
    for bits in (0, flags.HOST):
        event = w.cl.enqueue_migrate_mem_objects(w.queue, [buffer], bits)
        event.wait()
        types.append(event.command_type)
        w.program.add(w.queue, (64,), None, buffer, np.int32(1))
    return types, content(w, buffer)


@see
def arrays_over_everything(w: Any) -> Any:
    pool = w.tools.MemoryPool(w.tools.ImmediateAllocator(w.queue))
    a = w.array.arange(w.queue, 100, dtype=np.int32)
    b = w.array.zeros(w.queue, 100, np.int32, allocator=pool)
    b += a
    part = b[10:20]
    part += 5
    host = part.map_to_host()
    host[0] = -1
    host.base.release(w.queue)
    w.queue.finish()
    return b.get().tolist(), (a[50:] - a[:50]).get().tolist(), int(w.array.sum(b).get()), pool.active_blocks


# launches ------------------------------------------------------------------------------------------------


def all_ids(w: Any, shape: Any, local: Any, items: tuple[int, int], **more: Any) -> Any:
    buffer = w.cl.Buffer(w.ctx, w.mf.READ_WRITE, 64 * items[0] * items[1])
    w.cl.enqueue_fill_buffer(w.queue, buffer, np.int32(-7), 0, buffer.size)
    w.program.ids(w.queue, shape, local, buffer, np.int32(items[0]), **more)
    return content(w, buffer)


@see
def ids_in_two_dimensions(w: Any) -> Any:
    return all_ids(w, (12, 6), (4, 3), (12, 6))


@see
def ids_with_an_offset(w: Any) -> Any:
    return all_ids(w, (12, 6), (4, 3), (12, 6), global_offset=(5, 70000))


@see
def ids_of_groups_times_local(w: Any) -> Any:
    return all_ids(w, (3, 2), (4, 3), (12, 6), g_times_l=True)


@see
def ids_of_groups_times_local_with_an_offset(w: Any) -> Any:
    return all_ids(w, (3, 2), (4, 3), (12, 6), g_times_l=True, global_offset=(2, 1))


@see
def ids_of_groups_of_fewer_dimensions(w: Any) -> Any:
    return all_ids(w, (3,), (4, 3), (12, 3), g_times_l=True), all_ids(
        w, (3, 2), (4,), (12, 2), g_times_l=True
    )


@see
def ids_without_a_local_size(w: Any) -> Any:
    found = np.array(all_ids(w, (12, 6), None, (12, 6), global_offset=(1, 2))).reshape(6, 12, 16)
    consistent = found[..., 0] - 1 == found[..., 8] * found[..., 12] + found[..., 6]
    return found[..., :6].tolist(), bool(consistent.all()), found[..., 14].tolist()


@see
def empty_index_spaces(w: Any) -> Any:
    buffer, kernel = ints(w), w.program.add
    kernel.set_args(buffer, np.int32(1))
    event = w.cl.enqueue_nd_range_kernel(w.queue, kernel, (0,), None, allow_empty_ndrange=True)
    event.wait()
    other = kernel(w.queue, (0, 4), None, buffer, np.int32(1), allow_empty_ndrange=True)
    other.wait()
    return event.command_type, event.command_execution_status, other.command_type, content(w, buffer)


@see
def empty_index_space_waits(w: Any) -> Any:
    gate = w.cl.UserEvent(w.ctx)
    kernel = w.program.add
    kernel.set_args(ints(w), np.int32(1))
    event = w.cl.enqueue_nd_range_kernel(
        w.free, kernel, (0,), None, allow_empty_ndrange=True, wait_for=[gate]
    )
    before = event.command_execution_status > 0
    gate.set_status(0)
    event.wait()
    return before, event.command_execution_status


@see
def local_memory_and_parts(w: Any) -> Any:
    align = w.device.mem_base_addr_align // 8
    buffer = ints(w, align)
    part = buffer.get_sub_region(align, align)
    w.program.reversed(w.queue, (align // 4,), (align // 8,), part, w.cl.LocalMemory(align))
    return content(w, buffer)


@see
def values_of_every_kind(w: Any) -> Any:
    kind = np.dtype({"names": ["c", "i", "f"], "formats": ["i1", "<i4", ("<f4", 4)], "offsets": [0, 4, 16]})
    value = np.zeros((), kind)
    value["c"], value["i"], value["f"] = -3, 70000, (1, 2, 3, 4)
    out = w.cl.Buffer(w.ctx, w.mf.WRITE_ONLY, 20)
    w.program.by_value(w.queue, (1,), None, out, value, w.cl.cltypes.make_char2(1, -2), np.float64(0.5))
    return content(w, out, np.float32)


@see
def null_pointers(w: Any) -> Any:
    out = ints(w, 1)
    w.program.null(w.queue, (1,), None, None, out)
    first = content(w, out)
    w.program.null(w.queue, (1,), None, ints(w), out)
    return first, content(w, out)


@see
def arguments_are_captured(w: Any) -> Any:
    """A kernel's arguments may change after it was enqueued, also while it waits."""
    first, second, gate = ints(w, 4), ints(w, 4), w.cl.UserEvent(w.ctx)
    kernel = w.program.add
    event = kernel(w.free, (4,), None, first, np.int32(10), wait_for=[gate])
    kernel.set_args(second, np.int32(500))
    gate.set_status(0)
    event.wait()
    return content(w, first), content(w, second)


@see
def kernels_tell_of_themselves(w: Any) -> Any:
    program = w.raw._Program(w.ctx, SOURCE)
    program._build(b"-cl-kernel-arg-info")
    kernel = w.cl.Kernel(program, "attributed")
    group = w.cl.kernel_work_group_info
    info = w.cl.kernel_arg_info
    queries = (info.NAME, info.TYPE_NAME, info.ADDRESS_QUALIFIER, info.ACCESS_QUALIFIER, info.TYPE_QUALIFIER)
    arguments = [[kernel.get_arg_info(index, query) for query in queries] for index in range(kernel.num_args)]
    sizes = [kernel.get_work_group_info(query, w.device) for query in (group.COMPILE_WORK_GROUP_SIZE,)]
    kinds = [type(kernel.get_work_group_info(query, w.device)).__name__ for query in (
        group.WORK_GROUP_SIZE, group.LOCAL_MEM_SIZE, group.PRIVATE_MEM_SIZE, group.PREFERRED_WORK_GROUP_SIZE_MULTIPLE
    )]  # fmt: skip
    named = kernel.function_name, kernel.num_args, kernel.attributes, kernel.reference_count
    return named, arguments, sizes, kinds, kernel.context == w.ctx


@see
def local_memory_is_counted(w: Any) -> Any:
    source = "kernel void f(global int *a, local int *b) { local int c[32]; c[get_local_id(0)] = a[0]; a[1] = c[0]; }"
    kernel = w.cl.Program(w.ctx, source).build().f
    query = w.cl.kernel_work_group_info.LOCAL_MEM_SIZE
    return kernel.get_work_group_info(query, w.device) >= 128


@see
def clones(w: Any) -> Any:
    kernel, first, second = w.program.add, ints(w, 4), ints(w, 4)
    kernel.set_args(first, np.int32(1))
    other = kernel.clone()
    other.set_arg(0, second)
    for each in (kernel, other):
        w.cl.enqueue_nd_range_kernel(w.queue, each, (4,), None)
    return content(w, first), content(w, second)


# events --------------------------------------------------------------------------------------------------


@see
def events_say_what_they_are_of(w: Any) -> Any:
    buffer, host = ints(w), np.zeros(64, np.int32)
    cl, q = w.cl, w.queue
    box = {"buffer_origin": (0, 0), "host_origin": (0, 0), "region": (8, 2), "buffer_pitches": (16,)}
    events = [
        cl.enqueue_copy(q, host, buffer), cl.enqueue_copy(q, buffer, host, is_blocking=False),
        cl.enqueue_copy(q, host, buffer, host_pitches=(16,), **box),
        cl.enqueue_copy(q, buffer, host, host_pitches=(16,), **box),
        cl.enqueue_copy(q, ints(w), buffer), cl.enqueue_fill_buffer(q, buffer, np.int32(0), 0, 64),
        cl.enqueue_marker(q), cl.enqueue_barrier(q), cl.UserEvent(w.ctx),
        w.program.add(q, (4,), None, buffer, np.int32(1)),
    ]  # fmt: skip
    q.finish()
    return [[event.command_type, type(event).__name__, event.context == w.ctx] for event in events]


@see
def statuses(w: Any) -> Any:
    gate = w.cl.UserEvent(w.ctx)
    event = w.cl.enqueue_fill_buffer(w.free, ints(w), np.int32(0), 0, 64, wait_for=[gate])
    w.free.flush()
    before = gate.command_execution_status, event.command_execution_status > 1
    gate.set_status(w.cl.command_execution_status.COMPLETE)
    event.wait()
    return before, gate.command_execution_status, event.command_execution_status


def _heard(w: Any, states: tuple[int, ...], fails: bool = False) -> Any:
    """What callbacks hear of a command behind a user event: before it is set, and after."""
    heard: list[tuple[int, int]] = []
    gate = w.cl.UserEvent(w.ctx)
    event = w.program.add(w.free, (64,), None, ints(w), np.int32(1), wait_for=[gate])
    for state in states:
        event.set_callback(state, lambda status, state=state: heard.append((state, status)))
    w.free.flush()
    time.sleep(0.05)
    early = sorted(heard)
    gate.set_status(-5 if fails else 0)
    eventually(lambda: len(heard) == len(states))
    return early, sorted(heard)


@see
def callbacks_hear_of_the_end(w: Any) -> Any:
    return _heard(w, (0, 0))


@see
def callbacks_hear_of_a_start(w: Any) -> Any:
    early, heard = _heard(w, (1, 0))
    return early, heard


@see
def callbacks_after_the_end(w: Any) -> Any:
    heard: list[int] = []
    event = w.cl.enqueue_marker(w.queue)
    event.wait()
    for state in (0, 1, 2):
        event.set_callback(state, heard.append)
    return eventually(lambda: len(heard) == 3), sorted(heard)


@see
def callbacks_run_elsewhere(w: Any) -> Any:
    heard: list[bool] = []
    event = w.cl.enqueue_marker(w.queue)
    event.set_callback(0, lambda status: heard.append(threading.current_thread() is threading.main_thread()))
    event.wait()
    return eventually(lambda: bool(heard)), heard


@see
def running_is_heard_of_before_the_end(w: Any) -> Any:
    source = """__kernel void slow(__global float *a) { float x = a[get_global_id(0)];
    for (int i = 0; i < 20000; i++) x = x * 0.999f + 1; a[get_global_id(0)] = x; }"""
    kernel = w.cl.Program(w.ctx, source).build().slow
    order: list[int] = []
    event = kernel(w.queue, (1 << 16,), None, w.cl.Buffer(w.ctx, w.mf.READ_WRITE, 4 << 16))
    event.set_callback(0, order.append)
    event.set_callback(1, order.append)
    w.queue.finish()
    eventually(lambda: len(order) == 2)
    return order


@see
def times_are_in_order(w: Any) -> Any:
    buffer = ints(w, 4096)
    events = [
        w.program.add(w.profiled, (4096,), None, buffer, np.int32(1)),
        w.cl.enqueue_fill_buffer(w.profiled, buffer, np.int32(0), 0, 64),
        w.cl.enqueue_copy(w.profiled, np.zeros(4096, np.int32), buffer),
        w.cl.enqueue_marker(w.profiled),
    ]
    w.profiled.finish()
    found = []
    for event in events:
        p = event.profile
        found.append([p.queued <= p.submit <= p.start <= p.end, p.end <= p.complete])
    starts = [event.profile.end for event in events]
    return found, starts == sorted(starts)


@see
def wards(w: Any) -> Any:
    host = np.zeros(64, np.int32)
    event = w.cl.enqueue_copy(w.queue, host, ints(w), is_blocking=False)
    held = event.get_ward() is host
    event.wait()
    return held, event.get_ward() is None, host[:4].tolist()


@see
def markers_without_order(w: Any) -> Any:
    """A marker ends after all before it; a barrier holds up all behind it."""
    gate = w.cl.UserEvent(w.ctx)
    buffer = ints(w)
    first = w.cl.enqueue_fill_buffer(w.free, buffer, np.int32(1), 0, 64, wait_for=[gate])
    marker = w.cl.enqueue_marker(w.free)
    alone = w.cl.enqueue_marker(w.free, wait_for=[w.cl.enqueue_marker(w.queue)])
    w.free.flush()
    w.queue.flush()
    alone.wait()
    before = first.command_execution_status > 0, marker.command_execution_status > 0
    gate.set_status(0)
    marker.wait()
    return before, first.command_execution_status, alone.command_execution_status


@see
def barriers_without_order(w: Any) -> Any:
    gate = w.cl.UserEvent(w.ctx)
    queue = w.cl.CommandQueue(w.ctx, properties=1)
    buffer = ints(w, 16)
    w.cl.enqueue_fill_buffer(queue, buffer, np.int32(1), 0, 64, wait_for=[gate])
    w.cl.enqueue_barrier(queue)
    after = w.program.add(queue, (16,), None, buffer, np.int32(1))
    queue.flush()
    time.sleep(0.02)
    before = after.command_execution_status > 0
    gate.set_status(0)
    queue.finish()
    return before, content(w, buffer)


@see
def barrier_on_one_event(w: Any) -> Any:
    gate = w.cl.UserEvent(w.ctx)
    queue = w.cl.CommandQueue(w.ctx, properties=1)
    barrier = w.cl.enqueue_barrier(queue, wait_for=[gate])
    after = w.cl.enqueue_marker(queue)
    queue.flush()
    before = barrier.command_execution_status > 0, after.command_execution_status > 0
    gate.set_status(0)
    queue.finish()
    return before, after.command_execution_status


@see
def queues_in_a_with_statement(w: Any) -> Any:
    with w.cl.CommandQueue(w.ctx) as queue:
        event = w.cl.enqueue_fill_buffer(queue, ints(w), np.int32(0), 0, 64)
    return (
        event.command_execution_status,
        queue.properties,
        queue.get_info(w.cl.command_queue_info.PROPERTIES),
    )


@see
def many_contexts_and_queues(w: Any) -> Any:
    total = 0
    for _ in range(20):
        context = w.cl.Context([w.device])
        queues = [w.cl.CommandQueue(context, properties=number % 2) for number in range(10)]
        buffer = w.cl.Buffer(context, w.mf.READ_WRITE, 64)
        for number, queue in enumerate(queues):
            w.cl.enqueue_fill_buffer(queue, buffer, np.int32(number), 0, 64)
            queue.finish()
        host = np.zeros(16, np.int32)
        w.cl.enqueue_copy(queues[0], host, buffer)
        total += int(host.sum())
    return total


# programs --------------------------------------------------------------------------------------------------

HEADER = """
#ifndef H
#define H
typedef struct { int a; } box;
static int helper(int x);
static inline int three(void) { return helper(3); }
int outside(box b);
#endif
"""
ONE = """
#include "h.h"
enum { KIND = 4 };
typedef struct { int first; } private_type;
__constant int table[2] = {1, 2};
static int helper(int x) { private_type p; p.first = x + KIND; return p.first + table[1]; }
int outside(box b) { return helper(b.a) + three(); }
"""
TWO = """
#include "h.h"
enum { KIND = 900 };
typedef struct { float second; int first; } private_type;
static int helper(int x) { private_type p; p.second = x * KIND; return (int) p.second; }
__kernel void f(__global int *out)
{ box b; b.a = 1; out[0] = outside(b); out[1] = helper(2); out[2] = three(); }
"""


def compiled(w: Any, *sources: str) -> list[Any]:
    header = w.raw._Program(w.ctx, HEADER)
    programs = [w.raw._Program(w.ctx, source) for source in sources]
    for program in programs:
        program.compile(b"", None, [("h.h", header)])
    return programs


def result_of(w: Any, program: Any, count: int = 3) -> list[int]:
    out = ints(w, count)
    kernel = w.cl.Kernel(program, "f")
    kernel.set_args(out)
    w.cl.enqueue_nd_range_kernel(w.queue, kernel, (1,), None)
    return content(w, out)


@see
def linked_with_names_of_their_own(w: Any) -> Any:
    """Static functions, types and enumerators of one name in two programs."""
    return result_of(w, w.raw._Program.link(w.ctx, compiled(w, ONE, TWO), b""))


@see
def linked_the_other_way_round(w: Any) -> Any:
    return result_of(w, w.raw._Program.link(w.ctx, compiled(w, TWO, ONE), b""))


@see
def linked_through_two_libraries(w: Any) -> Any:
    """What was renamed once may have to be again."""
    three = """
    #include "h.h"
    enum { KIND = 7 };
    static int helper(int x) { return x - KIND; }
    int more(int x) { return helper(x); }
    """
    four = """
    int more(int x);
    enum { KIND = 5 };
    static int helper(int x) { return more(x) * KIND; }
    int most(int x) { return helper(x); }
    """
    five = "int most(int x); int outside2(int x);" + TWO.replace("out[2] = three();", "out[2] = most(100);")
    objects = compiled(w, ONE, three, four, five)
    first = w.raw._Program.link(w.ctx, objects[:2], b"-create-library")
    second = w.raw._Program.link(w.ctx, [objects[2], first], b"-create-library")
    return result_of(w, w.raw._Program.link(w.ctx, [objects[3], second], b""))


@see
def linked_with_a_name_that_another_shares(w: Any) -> Any:
    """A static function here, an external one of that name there."""
    one = "static int same(int x) { return x + 1; } int outside(int x) { return same(x); }"
    two = "int same(int x) { return x * 10; } int outside(int x); kernel void f(global int *p) { p[0] = same(3); p[1] = outside(3); }"
    found = []
    for order in ((one, two), (two, one)):
        found.append(result_of(w, w.raw._Program.link(w.ctx, compiled(w, *order), b""), 2))
    return found


@see
def linked_with_a_type_that_a_variable_s_declaration_defines(w: Any) -> Any:
    """The type is the same one in both programs, whichever comes first; a type that is another one there keeps its own."""
    one = """
    #pragma OPENCL FP_CONTRACT ON
    constant struct bar { float x; struct inner { int a; } y; int color; } foo = {1.5f, {2}, 3};
    enum { KIND = 4 } unused(void);
    static constant struct other { int a; } here = {5};
    typedef struct { int n; } number;
    constant struct holder { number n; } held = {{6}};
    int outside(int x) { struct inner i = foo.y; return x + i.a + here.a + KIND; }
    """
    two = """
    extern constant struct bar { float x; struct inner { int a; } y; int color; } foo;
    typedef struct { int n; } number;
    extern constant struct holder { number n; } held;
    static constant struct other { float b; int a; } here = {7.0f, 8};
    struct bar access(void) { return foo; }
    int outside(int x);
    kernel void f(global int *p) { p[0] = access().x * 2 + foo.color; p[1] = outside(10) + here.a; p[2] = here.b + held.n.n; }
    """
    found = []
    for order in ((one, two), (two, one)):
        found.append(result_of(w, w.raw._Program.link(w.ctx, compiled(w, *order), b"")))
    return found


@see
def linked_through_a_library(w: Any) -> Any:
    one, two = compiled(w, ONE, TWO)
    library = w.raw._Program.link(w.ctx, [one], b"-create-library")
    info = w.cl.program_build_info.BINARY_TYPE
    types = [program.get_build_info(w.device, info) for program in (one, library)]
    linked = w.raw._Program.link(w.ctx, [library, two], b"")
    return types, linked.get_build_info(w.device, info), result_of(w, linked), linked.kind().name


@see
def states_of_a_program(w: Any) -> Any:
    info = w.cl.program_build_info
    source = "kernel void f(global int *p) { *p = N; }"

    def state(program: Any) -> list[Any]:
        queries = (info.STATUS, info.BINARY_TYPE, info.OPTIONS)
        return [program.get_build_info(w.device, query) for query in queries]

    new, wrong, object_, built = (w.raw._Program(w.ctx, source) for _ in range(4))
    object_.compile(b"-DN=3", None, [])
    built._build(b"-DN=4 -cl-fast-relaxed-math")
    with pytest.raises(w.cl.RuntimeError):
        wrong._build(b"")
    return [state(program) for program in (new, wrong, object_, built)]


@see
def binaries(w: Any) -> Any:
    program = w.cl.Program(w.ctx, "kernel void f(global int *p) { *p = 42; } kernel void g() {}").build()
    again = w.cl.Program(w.ctx, [w.device], program.binaries).build()
    sizes = [len(binary) for binary in program.binaries] == program.binary_sizes
    names = sorted(again.kernel_names.split(";"))
    return (
        result_of(w, again, 1),
        sizes,
        names,
        again.num_kernels,
        [k.function_name for k in again.all_kernels()],
    )


@see
def programs_tell_of_themselves(w: Any) -> Any:
    program = w.program
    return (
        program.source == SOURCE, program.num_devices, program.devices == [w.device], program.context == w.ctx,
        sorted(program.kernel_names.split(";")), program.reference_count > 0, program.num_kernels,
        program.get_build_info(w.device, w.cl.program_build_info.STATUS),
    )  # fmt: skip


@see
def includes_and_definitions(w: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "value.h").write_text("#define VALUE (N + M)\n")
        source = '#include "value.h"\nkernel void f(global int *p) { *p = VALUE; }'
        options = ["-I", folder, "-D", "N=40", "-DM=2"]
        return result_of(w, w.cl.Program(w.ctx, source).build(options=options), 1)


@see
def builds_from_the_cache(w: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for number in (1, 2, 1):
            source = f"kernel void f(global int *p) {{ *p = {number}; }}"
            program = w.cl.Program(w.ctx, source).build(cache_dir=folder)
            found.append(result_of(w, program, 1))
        files = len(list(Path(folder).iterdir())) > 0
    return found, files


@see
def built_by_many_threads(w: Any) -> Any:
    found: list[Any] = []

    def build(number: int) -> None:
        source = f"kernel void f(global int *p) {{ *p = {number % 3}; }}"
        queue, out = w.cl.CommandQueue(w.ctx), ints(w, 1)
        kernel = w.cl.Program(w.ctx, source).build().f
        kernel(queue, (1,), None, out).wait()
        found.append(content(w, out)[0])

    threads = [threading.Thread(target=build, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(found)


@see
def with_a_log(w: Any) -> Any:
    program = w.raw._Program(w.ctx, "kernel void f(global int *p) { *p = undeclared; }")
    try:
        program._build(b"")
    except w.cl.RuntimeError as error:
        log = program.get_build_info(w.device, w.cl.program_build_info.LOG)
        return error.code, "undeclared" in log, type(error).__name__
    return None


# pools, caches, pickles ----------------------------------------------------------------------------------------


def _counts(pool: Any) -> list[int]:
    return [pool.held_blocks, pool.active_blocks, pool.managed_bytes, pool.active_bytes]


@see
def pools_count(w: Any) -> Any:
    pool = w.tools.MemoryPool(w.tools.ImmediateAllocator(w.queue))
    found = [_counts(pool)]
    blocks = [pool.allocate(size) for size in (1, 1000, 1024, 1025, 100_000)]
    found.append(_counts(pool))
    sizes = [block.size for block in blocks]
    blocks[1].release()
    found.append(_counts(pool))
    again = pool.allocate(1010)
    found.append(_counts(pool))
    del again, blocks[0]
    gc.collect()
    found.append(_counts(pool))
    pool.free_held()
    found.append(_counts(pool))
    pool.stop_holding()
    blocks.clear()
    gc.collect()
    return [*found, _counts(pool)], sizes


@see
def pools_of_other_bins(w: Any) -> Any:
    found = []
    for bits in (0, 1, 4, 7):
        pool = w.tools.MemoryPool(w.tools.ImmediateAllocator(w.queue), leading_bits_in_bin_id=bits)
        found.append([pool.allocate(size).size for size in (1, 3, 100, 5000, 70_001)])
    return found


@see
def allocators_make_memory(w: Any) -> Any:
    found = []
    for allocator in (
        w.tools.DeferredAllocator(w.ctx),
        w.tools.DeferredAllocator(w.ctx, w.mf.READ_ONLY),
        w.tools.ImmediateAllocator(w.queue, w.mf.READ_WRITE | w.mf.ALLOC_HOST_PTR),
    ):
        buffer = allocator(256)
        found.append([type(buffer).__name__, buffer.size, buffer.flags, allocator(0) is None])
    return found


@see
def pooled_memory_is_memory(w: Any) -> Any:
    pool = w.tools.MemoryPool(w.tools.ImmediateAllocator(w.queue))
    block = pool.allocate(256)
    w.cl.enqueue_fill_buffer(w.queue, block, np.int32(3), 0, 256)
    w.program.add(w.queue, (64,), None, block, np.int32(4))
    host = np.zeros(64, np.int32)
    w.cl.enqueue_copy(w.queue, host, block)
    kinds = (
        isinstance(block, w.cl.MemoryObjectHolder),
        isinstance(block, w.cl.MemoryObject),
        bool(block.int_ptr),
    )
    return host.tolist(), kinds, block == block, block.get_info(w.cl.mem_info.TYPE)


@see
def devices_are_keys(w: Any) -> Any:
    again = w.cl.get_platforms()
    table = {w.device: 1, w.ctx: 2, w.queue: 3, w.device.platform: 4}
    same = w.device.platform in again, w.device.platform.get_devices()[0] == w.device
    return same, [table[key] for key in (w.ctx.devices[0], w.queue.context, w.queue, w.queue.device.platform)]


@see
def memoized_by_context(w: Any) -> Any:
    calls = []

    @w.tools.first_arg_dependent_memoize
    def make(context: Any, number: int) -> int:
        calls.append(number)
        return number

    answers = [make(w.ctx, 1), make(w.ctx, 1), make(w.ctx, 2), make(w.cl.Context([w.device]), 1)]
    w.tools.clear_first_arg_caches()
    make(w.ctx, 1)
    return answers, calls


@see
def kept_on_disk(w: Any) -> Any:
    """pytools' dictionaries on disk with what PyOpenCL puts into their keys."""
    from pytools.persistent_dict import KeyBuilder, WriteOncePersistentDict

    with tempfile.TemporaryDirectory() as folder:
        kept: Any = WriteOncePersistentDict("t", key_builder=KeyBuilder(), container_dir=folder)
        key = (w.device.persistent_unique_id, np.dtype(np.int32), w.cl.mem_flags.READ_WRITE)
        kept.store_if_not_present(key, (w.cl.status_code.SUCCESS, w.cl.program_kind.SOURCE))
        return list(map(str, kept.fetch(key)))


@see
def pickled_constants_and_errors(w: Any) -> Any:
    kinds = w.cl.program_kind.SOURCE, w.cl.channel_order, w.cl.mem_flags, w.cl.Device
    found = [
        pickle.loads(pickle.dumps(kind)) is kind or pickle.loads(pickle.dumps(kind)) == kind for kind in kinds
    ]
    return found


def _items(w: Any) -> dict[str, Any]:
    array, _ = w.cl.enqueue_map_buffer(w.queue, ints(w), w.cl.map_flags.READ, 0, 4, np.int32)
    form = w.cl.ImageFormat(w.cl.channel_order.R, w.cl.channel_type.FLOAT)
    sampler = w.cl.Sampler(w.ctx, False, w.cl.addressing_mode.CLAMP, w.cl.filter_mode.NEAREST)
    pool = w.cl.tools.MemoryPool(w.cl.tools.ImmediateAllocator(w.queue))
    return {
        "device": w.device, "context": w.ctx, "queue": w.queue, "kernel": w.program.add, "program": w.program._get_prg(),
        "buffer": ints(w), "event": w.cl.enqueue_marker(w.queue), "gate": w.cl.UserEvent(w.ctx), "platform": w.device.platform,
        "array": w.array.zeros(w.queue, 4, np.int32), "local": w.cl.LocalMemory(4), "sampler": sampler,
        "format": form, "image": w.cl.Image(w.ctx, w.mf.READ_WRITE, form, shape=(4, 4)), "map": array.base,
        "allocator": w.cl.tools.ImmediateAllocator(w.queue), "pool": pool, "pooled": pool.allocate(64),
        "svm": w.cl.SVM(w.cl.csvm_empty(w.ctx, 4, np.int32)), "allocation": w.cl.SVMAllocation(w.ctx, 64, 0, 1),
        "svm_allocator": w.cl.tools.SVMAllocator(w.ctx),
    }  # fmt: skip


def _attempt(name: str, what: Callable[[Any], Any]) -> Call:
    def attempt(w: Any) -> Any:
        try:
            what(_items(w)[name])
        except Exception as error:
            return f"refused: {type(error).__name__}"
        return "done"

    return attempt


ITEMS = (
    "device",
    "context",
    "queue",
    "kernel",
    "program",
    "buffer",
    "event",
    "gate",
    "platform",
    "array",
    "local",
    "sampler",
    "format",
    "image",
    "map",
    "allocator",
    "pool",
    "pooled",
    "svm",
    "allocation",
    "svm_allocator",
)
for _name in ITEMS:
    CALLS[f"pickled_{_name}"] = _attempt(_name, pickle.dumps)
    CALLS[f"copied_{_name}"] = _attempt(_name, copy.copy)


@see
def magics(w: Any) -> Any:
    """The IPython extension, where IPython is installed."""
    try:
        from IPython.core.interactiveshell import InteractiveShell
    except ImportError:
        return "not installed"
    shell = InteractiveShell()
    shell.run_line_magic("load_ext", "pyopencl.ipython_ext")
    shell.user_ns["cl_ctx"] = w.ctx
    shell.run_cell_magic("cl_kernel", "-o -DN=5", "kernel void ip(global int *p) { *p = N; }")
    out = ints(w, 1)
    shell.user_ns["ip"](w.queue, (1,), None, out)
    return content(w, out)


@see
def infos(w: Any) -> Any:
    """What is the same on every device."""
    ctx = (
        w.ctx,
        w.cl.Context(properties=[(w.cl.context_properties.PLATFORM, w.device.platform)], devices=[w.device]),
    )
    context = [[c.num_devices, c.devices == [w.device]] for c in ctx]
    queue = [
        [q.properties, q.reference_count, q.context == w.ctx, q.device == w.device] for q in (w.queue, w.free)
    ]
    device = w.device
    kinds = [
        type(getattr(device, name)).__name__
        for name in ("name", "version", "max_work_item_sizes", "global_mem_size", "extensions", "profile", "available",
                     "max_compute_units", "local_mem_size", "opencl_c_version", "driver_version", "platform")
    ]  # fmt: skip
    return context, queue, kinds


# comparison ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def native() -> dict[str, Any]:
    results = run(__name__, {})
    if "Intel" not in results["platform"]:
        pytest.skip("drivers differ; the virtual device does as Intel's does")
    return results


@pytest.fixture(scope="module")
def virtual() -> dict[str, Any]:
    return run(__name__, {"VDEV": "1", "VDEV_WORKERS": "cpu:3", "VDEV_MIN_ITEMS": "0"})


@pytest.mark.parametrize("name", CALLS)
def test_virtual_as_native(name: str, native: dict[str, Any], virtual: dict[str, Any]) -> None:
    if "not installed" in native[name]:
        pytest.skip("IPython is not installed")
    assert virtual[name] == native[name]
