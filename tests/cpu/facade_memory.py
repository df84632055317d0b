"""Memory, for `test_facade_behaviour`: what is created, mapped, copied and shared, and what arrays over it do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from vdev.process.finalisers import collect

from .facade_world import address, aligned, content, ints, mapped, see


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
    collect()
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
    collect()
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
