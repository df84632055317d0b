"""Bad calls (and some that look bad and are not): what natively happens, happens on the virtual device.

Every call of the table runs in two processes, one on the native engine, one on the virtual device; class,
status code and routine must agree. What a driver leaves undefined is not in the table.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from .side_by_side import Call, run

SOURCE = """
__kernel void f(__global float *a, int n, __local float *l)
{ int i = get_global_id(0); if (i < n) a[i] = i; }
__kernel __attribute__((reqd_work_group_size(4, 1, 1))) void g(__global float *a)
{ a[get_global_id(0)] = 1; }
__kernel void wide(long n, __constant int *c) { }
"""


def make_world() -> SimpleNamespace:
    """One of everything that the calls need."""
    import pyopencl as cl  # which one it is, the process decides
    from pyopencl import tools

    w = SimpleNamespace(cl=cl, raw=cl._cl, mf=cl.mem_flags, tools=tools)
    # several drivers may be there; vdev prefers Intel's as well
    platforms = sorted(cl.get_platforms(), key=lambda platform: "intel" not in platform.name.lower())
    w.device = platforms[0].get_devices()[0]
    w.ctx = cl.Context([w.device])
    w.queue = cl.CommandQueue(w.ctx)
    w.other_ctx = cl.Context([w.device])
    w.other_queue = cl.CommandQueue(w.other_ctx)
    w.host = np.zeros(256, np.float32)
    w.bytes = np.zeros(64, np.uint8)
    w.frozen = np.zeros(256, np.float32)
    w.frozen.flags.writeable = False
    w.buf = cl.Buffer(w.ctx, w.mf.READ_WRITE, 1024)
    w.half = cl.Buffer(w.ctx, w.mf.READ_WRITE, 512)
    w.only_read = cl.Buffer(w.ctx, w.mf.READ_ONLY | w.mf.COPY_HOST_PTR, hostbuf=w.host)
    w.aliased = cl.Buffer(w.ctx, w.mf.USE_HOST_PTR, hostbuf=w.host)
    w.foreign = cl.Buffer(w.other_ctx, w.mf.READ_WRITE, 64)
    w.no_host = cl.Buffer(w.ctx, w.mf.HOST_NO_ACCESS, 64)
    w.host_reads = cl.Buffer(w.ctx, w.mf.HOST_READ_ONLY, 64)
    w.host_writes = cl.Buffer(w.ctx, w.mf.HOST_WRITE_ONLY, 64)
    w.part = w.buf.get_sub_region(128, 512)
    w.program = cl.Program(w.ctx, SOURCE).build()
    w.f, w.g, w.wide = w.program.f, w.program.g, w.program.wide
    w.f.set_args(w.buf, np.int32(4), cl.LocalMemory(64))
    w.event = cl.enqueue_marker(w.queue)
    w.event.wait()
    w.foreign_event = cl.enqueue_marker(w.other_queue)
    w.failed = cl.UserEvent(w.ctx)
    w.failed.set_status(-5)
    return w


CALLS: list[tuple[str, Call]] = []


def calls(group: str, **table: Call) -> None:
    CALLS.extend((f"{group}: {name}", call) for name, call in table.items())


def read_rect(w: Any, **given: Any) -> Any:
    args = {"buffer_origin": (0, 0, 0), "host_origin": (0, 0, 0), "region": (4, 4, 1), **given}
    return w.cl.enqueue_copy(w.queue, np.zeros((64, 16), np.uint8), w.buf, **args)


def copy_rect(w: Any, target: Any, **given: Any) -> Any:
    args = {"src_origin": (0, 0, 0), "dst_origin": (0, 0, 0), "region": (4, 4, 1), **given}
    return w.cl.enqueue_copy(w.queue, target, w.buf, **args)


def launch(w: Any, *sizes: Any, **given: Any) -> Any:
    return w.cl.enqueue_nd_range_kernel(w.queue, w.f, *sizes, **given)


def program(w: Any, source: Any = "kernel void a() {}") -> Any:
    return w.raw._Program(w.ctx, source)


calls(
    "platform",
    bad_info=lambda w: w.device.platform.get_info(1),
    info_none=lambda w: w.device.platform.get_info(None),
    no_type=lambda w: w.device.platform.get_devices(0),
    unknown_info=lambda w: w.device.get_info(1),
    float_info=lambda w: w.device.get_info(1.5),
    nvidia=lambda w: w.device.warp_size_nv,
    amd=lambda w: w.device.board_name_amd,
    unpartitionable=lambda w: w.device.create_sub_devices([0x9999, 1]),
)
calls(
    "context",
    devices_and_type=lambda w: w.cl.Context(devices=[w.device], dev_type=4),
    no_devices=lambda w: w.cl.Context(devices=[]),
    devices_int=lambda w: w.cl.Context(devices=5),
    device_int=lambda w: w.cl.Context(devices=[5]),
    accelerator=lambda w: w.cl.Context(dev_type=w.cl.device_type.ACCELERATOR),
    type_zero=lambda w: w.cl.Context(dev_type=0),
    type_all=lambda w: w.cl.Context(dev_type=w.cl.device_type.ALL) and None,
    unknown_property=lambda w: w.cl.Context([w.device], properties=[(999, 1)]),
    property_single=lambda w: w.cl.Context([w.device], properties=[(999,)]),
    property_int=lambda w: w.cl.Context([w.device], properties=[5]),
    bad_info=lambda w: w.ctx.get_info(1),
    default_queue=lambda w: w.ctx.set_default_device_command_queue(w.device, w.queue),
)
calls(
    "queue",
    properties_none=lambda w: w.cl.CommandQueue(w.ctx, properties=None),
    properties_float=lambda w: w.cl.CommandQueue(w.ctx, properties=1.5),
    properties_text=lambda w: w.cl.CommandQueue(w.ctx, properties="ab"),
    properties_unknown=lambda w: w.cl.CommandQueue(w.ctx, properties=1 << 20),
    properties_list=lambda w: w.cl.CommandQueue(w.ctx, properties=[0x1093, 1]).properties_array,
    context_none=lambda w: w.cl.CommandQueue(None),
    device_int=lambda w: w.cl.CommandQueue(w.ctx, 5),
    size=lambda w: w.queue.get_info(0x1094),
    device_default=lambda w: w.queue.get_info(0x1095),
    bad_info=lambda w: w.queue.get_info(77),
    properties_array=lambda w: w.queue.properties_array,
)
calls(
    "buffer",
    size_zero=lambda w: w.cl.Buffer(w.ctx, w.mf.READ_WRITE, 0),
    size_negative=lambda w: w.cl.Buffer(w.ctx, w.mf.READ_WRITE, -1),
    size_float=lambda w: w.cl.Buffer(w.ctx, w.mf.READ_WRITE, 1.5),
    size_huge=lambda w: w.cl.Buffer(w.ctx, w.mf.READ_WRITE, 1 << 50),
    context_none=lambda w: w.cl.Buffer(None, w.mf.READ_WRITE, 1),
    unknown_flag=lambda w: w.cl.Buffer(w.ctx, 1 << 40, 10),
    read_write_and_only=lambda w: w.cl.Buffer(w.ctx, w.mf.READ_WRITE | w.mf.READ_ONLY, 10),
    read_and_write_only=lambda w: w.cl.Buffer(w.ctx, w.mf.WRITE_ONLY | w.mf.READ_ONLY, 10),
    copy_nothing=lambda w: w.cl.Buffer(w.ctx, w.mf.COPY_HOST_PTR, 10),
    use_nothing=lambda w: w.cl.Buffer(w.ctx, w.mf.USE_HOST_PTR, 10),
    host_without_flag=lambda w: w.cl.Buffer(w.ctx, w.mf.READ_WRITE, hostbuf=w.host),
    use_and_copy=lambda w: w.cl.Buffer(w.ctx, w.mf.USE_HOST_PTR | w.mf.COPY_HOST_PTR, hostbuf=w.host),
    use_and_alloc=lambda w: w.cl.Buffer(w.ctx, w.mf.USE_HOST_PTR | w.mf.ALLOC_HOST_PTR, hostbuf=w.host),
    larger_than_host=lambda w: w.cl.Buffer(w.ctx, w.mf.COPY_HOST_PTR, 2000, hostbuf=w.host),
    host_with_gaps=lambda w: w.cl.Buffer(w.ctx, w.mf.COPY_HOST_PTR, hostbuf=w.host[::2]),
    host_int=lambda w: w.cl.Buffer(w.ctx, w.mf.COPY_HOST_PTR, hostbuf=5),
    host_bytes=lambda w: w.cl.Buffer(w.ctx, w.mf.COPY_HOST_PTR, hostbuf=b"abc").size,
    use_constant_bytes=lambda w: w.cl.Buffer(w.ctx, w.mf.READ_WRITE | w.mf.USE_HOST_PTR, hostbuf=b"abcd"),
    use_bytes_to_read=lambda w: w.cl.Buffer(w.ctx, w.mf.READ_ONLY | w.mf.USE_HOST_PTR, hostbuf=b"abcd").flags,
    two_host_accesses=lambda w: w.cl.Buffer(w.ctx, w.mf.HOST_READ_ONLY | w.mf.HOST_WRITE_ONLY, 10),
    host_read_and_none=lambda w: w.cl.Buffer(w.ctx, w.mf.HOST_READ_ONLY | w.mf.HOST_NO_ACCESS, 10),
    no_flags=lambda w: w.cl.Buffer(w.ctx, 0, 10).flags,
    flags_none=lambda w: w.cl.Buffer(w.ctx, None, 10),
    host_pointer=lambda w: w.buf.host_ptr,
    bad_info=lambda w: w.buf.get_info(1),
    host_array=lambda w: w.buf.get_host_array((4,), np.float32),
    host_array_base=lambda w: w.aliased.get_host_array((4,), np.float32).base is w.aliased,
    host_array_large=lambda w: w.aliased.get_host_array((400,), np.float32),
    host_array_dtype=lambda w: w.aliased.get_host_array((4,), "nonsense"),
    host_object=lambda w: w.aliased.hostbuf is w.host,
    use_flags=lambda w: w.aliased.flags,
    from_number=lambda w: w.cl.Buffer.from_int_ptr(w.buf.int_ptr) == w.buf,
    equal_to_int=lambda w: w.buf == 5,
    released_twice=lambda w: [buffer.release() for buffer in [w.cl.Buffer(w.ctx, 1, 64)] * 2],
)
calls(
    "sub-buffer",
    empty=lambda w: w.buf.get_sub_region(0, 0),
    misaligned=lambda w: w.buf.get_sub_region(4, 8),
    too_large=lambda w: w.buf.get_sub_region(0, 2000),
    negative=lambda w: w.buf.get_sub_region(-1, 2000),
    of_part=lambda w: w.part.get_sub_region(0, 16),
    write_of_read=lambda w: w.only_read.get_sub_region(0, 16, w.mf.WRITE_ONLY),
    both_of_read=lambda w: w.only_read.get_sub_region(0, 16, w.mf.READ_WRITE),
    copying=lambda w: w.only_read.get_sub_region(0, 16, w.mf.COPY_HOST_PTR),
    inherited=lambda w: w.only_read.get_sub_region(0, 16).flags,
    sliced_flags=lambda w: w.only_read[0:16].flags,
    slice_of_aliased=lambda w: w.aliased[0:16],
    whole=lambda w: (w.part.flags, w.part.size, w.part.offset, w.part.associated_memobject == w.buf),
    item=lambda w: w.buf[0],
    stepped=lambda w: w.buf[::2],
    empty_slice=lambda w: w.buf[5:5],
    slice=lambda w: w.buf[128:-100].size,
)
calls(
    "write",
    too_large=lambda w: w.cl.enqueue_copy(w.queue, w.buf, np.zeros(2000, np.float32)) and None,
    past_the_end=lambda w: w.cl.enqueue_copy(w.queue, w.buf, w.host, dst_offset=4),
    negative=lambda w: w.cl.enqueue_copy(w.queue, w.buf, w.host, dst_offset=-4),
    empty=lambda w: w.cl.enqueue_copy(w.queue, w.buf, np.zeros(0, np.float32)).get_ward().size,
    gaps=lambda w: w.cl.enqueue_copy(w.queue, w.buf, w.host[::2]),
    fortran=lambda w: w.cl.enqueue_copy(w.queue, w.buf, np.asfortranarray(np.zeros((4, 4)))) and None,
    something=lambda w: w.cl.enqueue_copy(w.queue, w.buf, object()),
    nothing=lambda w: w.raw._enqueue_write_buffer(w.queue, w.buf, None),
    wait_int=lambda w: w.raw._enqueue_write_buffer(w.queue, w.buf, w.host, wait_for=5),
    wait_list_of_int=lambda w: w.raw._enqueue_write_buffer(w.queue, w.buf, w.host, wait_for=[5]),
    blocking_text=lambda w: w.raw._enqueue_write_buffer(w.queue, w.buf, w.host, is_blocking="x"),
    blocking_int=lambda w: w.raw._enqueue_write_buffer(w.queue, w.buf, w.host, is_blocking=1),
    keyword=lambda w: w.raw._enqueue_write_buffer(w.queue, w.buf, w.host, foo=1),
    queue_none=lambda w: w.raw._enqueue_write_buffer(None, w.buf, w.host),
    other_context=lambda w: w.raw._enqueue_write_buffer(w.other_queue, w.buf, w.host),
    foreign_event=lambda w: w.raw._enqueue_write_buffer(w.queue, w.buf, w.host, wait_for=[w.foreign_event]),
    no_host_access=lambda w: w.cl.enqueue_copy(w.queue, w.no_host, w.bytes),
    host_read_only=lambda w: w.cl.enqueue_copy(w.queue, w.host_reads, w.bytes),
    host_to_host=lambda w: w.cl.enqueue_copy(w.queue, w.host, w.host),
)
calls(
    "read",
    too_large=lambda w: w.cl.enqueue_copy(w.queue, np.zeros(2000, np.float32), w.buf),
    into_bytes=lambda w: w.cl.enqueue_copy(w.queue, b"aaaa", w.buf),
    into_frozen=lambda w: w.cl.enqueue_copy(w.queue, w.frozen, w.buf),
    something=lambda w: w.cl.enqueue_copy(w.queue, object(), w.buf),
    gaps=lambda w: w.cl.enqueue_copy(w.queue, w.host[::2], w.buf),
    no_host_access=lambda w: w.cl.enqueue_copy(w.queue, w.bytes, w.no_host),
    host_write_only=lambda w: w.cl.enqueue_copy(w.queue, w.bytes, w.host_writes),
    other_context=lambda w: w.cl.enqueue_copy(w.other_queue, w.host, w.buf),
)
calls(
    "copy",
    larger_source=lambda w: w.cl.enqueue_copy(w.queue, w.half, w.buf),
    larger_target=lambda w: w.cl.enqueue_copy(w.queue, w.buf, w.half).wait(),
    overlap=lambda w: w.cl.enqueue_copy(w.queue, w.buf, w.buf, byte_count=64, dst_offset=32),
    adjacent=lambda w: w.cl.enqueue_copy(w.queue, w.buf, w.buf, byte_count=64, dst_offset=64).wait(),
    past_the_end=lambda w: w.cl.enqueue_copy(w.queue, w.half, w.buf, byte_count=513),
    nothing=lambda w: w.cl.enqueue_copy(w.queue, w.half, w.buf, byte_count=0).wait(),
    count_none=lambda w: w.cl.enqueue_copy(w.queue, w.half, w.buf, byte_count=None),
    other_context=lambda w: w.cl.enqueue_copy(w.queue, w.buf, w.foreign),
)
calls(
    "fill",
    offset=lambda w: w.cl.enqueue_fill_buffer(w.queue, w.buf, np.float32(1), 2, 1020),
    size=lambda w: w.cl.enqueue_fill_buffer(w.queue, w.buf, np.float32(1), 0, 1022),
    past_the_end=lambda w: w.cl.enqueue_fill_buffer(w.queue, w.buf, np.float32(1), 0, 1028),
    nothing=lambda w: w.cl.enqueue_fill_buffer(w.queue, w.buf, np.float32(1), 0, 0).wait(),
    pattern_of_three=lambda w: w.cl.enqueue_fill_buffer(w.queue, w.buf, b"abc", 0, 6),
    pattern_empty=lambda w: w.cl.enqueue_fill_buffer(w.queue, w.buf, b"", 0, 6),
    pattern_large=lambda w: w.cl.enqueue_fill_buffer(w.queue, w.buf, b"a" * 256, 0, 512),
    pattern_int=lambda w: w.cl.enqueue_fill_buffer(w.queue, w.buf, 5, 0, 512),
)
calls(
    "rectangle",
    nothing=lambda w: read_rect(w, region=(0, 4, 1)),
    short_tuples=lambda w: read_rect(w, region=(4, 4), buffer_origin=(0,), host_origin=()) and None,
    four_components=lambda w: read_rect(w, region=(4, 4, 1, 1)),
    three_pitches=lambda w: read_rect(w, buffer_pitches=(8, 36, 3)),
    pitch_too_small=lambda w: read_rect(w, buffer_pitches=(2,)),
    host_pitch_too_small=lambda w: read_rect(w, host_pitches=(2,)),
    slice_too_small=lambda w: read_rect(w, buffer_pitches=(8, 20)),
    slice_with_rest=lambda w: read_rect(w, buffer_pitches=(8, 36)) and None,
    negative=lambda w: read_rect(w, buffer_origin=(-1, 0, 0)),
    float=lambda w: read_rect(w, buffer_origin=(1.0, 0, 0)),
    origin_none=lambda w: read_rect(w, buffer_origin=None),
    origin_int=lambda w: read_rect(w, buffer_origin=1),
    copy_nothing=lambda w: copy_rect(w, w.half, region=(0, 1, 1)),
    copy_overlap=lambda w: copy_rect(w, w.buf, dst_origin=(2, 0, 0)),
    copy_interleaved=lambda w: copy_rect(
        w, w.buf, dst_origin=(4, 0, 0), dst_pitches=(8,), src_pitches=(8,)
    ).wait(),
)
calls(
    "map",
    past_the_end=lambda w: w.cl.enqueue_map_buffer(w.queue, w.buf, 1, 0, (400,), np.float32),
    nothing=lambda w: w.cl.enqueue_map_buffer(w.queue, w.buf, 1, 0, (0,), np.float32)[0].size,
    no_flags=lambda w: w.cl.enqueue_map_buffer(w.queue, w.buf, 0, 0, (4,), np.float32)[0].size,
    dtype=lambda w: w.cl.enqueue_map_buffer(w.queue, w.buf, 1, 0, (4,), "nonsense"),
    order=lambda w: w.cl.enqueue_map_buffer(w.queue, w.buf, 1, 0, (4,), "f", "K"),
    shape_int=lambda w: w.cl.enqueue_map_buffer(w.queue, w.buf, 1, 0, 4, "f")[0].shape,
    shape_float=lambda w: w.cl.enqueue_map_buffer(w.queue, w.buf, 1, 0, 4.5, "f"),
    write_host_read_only=lambda w: w.cl.enqueue_map_buffer(w.queue, w.host_reads, 2, 0, 4, "B"),
    read_host_write_only=lambda w: w.cl.enqueue_map_buffer(w.queue, w.host_writes, 1, 0, 4, "B"),
    base=lambda w: type(w.cl.enqueue_map_buffer(w.queue, w.buf, 1, 0, 4, "f")[0].base).__name__,
    unmapped_twice=lambda w: [
        base.release() for base in [w.cl.enqueue_map_buffer(w.queue, w.buf, 1, 0, 4, "f")[0].base] * 2
    ],
)
calls(
    "migrate",
    nothing=lambda w: w.cl.enqueue_migrate_mem_objects(w.queue, [], 1),
    flags=lambda w: w.cl.enqueue_migrate_mem_objects(w.queue, [w.buf], 8),
    int=lambda w: w.cl.enqueue_migrate_mem_objects(w.queue, [5], 0),
    fine=lambda w: w.cl.enqueue_migrate_mem_objects(w.queue, [w.buf], 1).wait(),
)
calls(
    "events",
    wait_for_nothing=lambda w: w.cl.wait_for_events([]),
    wait_for_int=lambda w: w.cl.wait_for_events(5),
    wait_for_ints=lambda w: w.cl.wait_for_events([5]),
    wait_for_none=lambda w: w.cl.wait_for_events(None),
    old_wait_for_nothing=lambda w: w.raw._enqueue_wait_for_events(w.queue, []),
    old_wait_for_none=lambda w: w.raw._enqueue_wait_for_events(w.queue, None),
    profile=lambda w: w.event.profile.start,
    profile_unknown=lambda w: w.event.get_profiling_info(5),
    info_unknown=lambda w: w.event.get_info(5),
    info=lambda w: (w.event.command_queue == w.queue, w.event.command_type, w.event.command_execution_status),
    attribute=lambda w: setattr(w.event, "foo", 1),
    user_profile=lambda w: w.cl.UserEvent(w.ctx).profile.start,
    user_info=lambda w: [getattr(w.cl.UserEvent(w.ctx), name) for name in ("command_queue", "command_type")],
    user_context_none=lambda w: w.cl.UserEvent(None),
    user_status_positive=lambda w: w.cl.UserEvent(w.ctx).set_status(2),
    user_status_again=lambda w: w.failed.set_status(0),
    user_failed=lambda w: w.failed.wait(),
    user_failed_status=lambda w: w.failed.command_execution_status,
    after_failure=lambda w: w.cl.enqueue_marker(w.queue, wait_for=[w.failed]).wait(),
    kernel_after_failure=lambda w: launch(w, (4,), None, wait_for=[w.failed]).wait(),
    callback_state=lambda w: w.event.set_callback(7, print),
    callback_none=lambda w: w.event.set_callback(0, None),
    marker_int=lambda w: w.cl.enqueue_marker(w.queue, wait_for=5),
    barrier_of_other_context=lambda w: w.cl.enqueue_barrier(w.queue, wait_for=[w.foreign_event]),
    construct=lambda w: w.cl.Event(),
)
calls(
    "kernel",
    unknown=lambda w: w.cl.Kernel(w.program, "nope"),
    unknown_attribute=lambda w: w.program.nope,
    not_built=lambda w: w.cl.Kernel(w.cl.Program(w.ctx, "kernel void a() {}"), "a"),
    program_int=lambda w: w.cl.Kernel(5, "a"),
    name_none=lambda w: w.cl.Kernel(w.program, None),
    arguments_not_set=lambda w: w.cl.enqueue_nd_range_kernel(
        w.queue, w.cl.Kernel(w.program, "f"), (4,), None
    ),
    too_few=lambda w: w.f(w.queue, (4,), None, w.buf),
    too_many=lambda w: w.f.set_args(w.buf, np.int32(1), w.cl.LocalMemory(4), np.int32(1), np.int32(1)),
    python_int=lambda w: w.f.set_args(w.buf, 4, w.cl.LocalMemory(4)),
    python_float=lambda w: w.f.set_arg(1, 4.0),
    int64_for_int=lambda w: w.f.set_arg(1, np.int64(4)),
    float_for_int=lambda w: w.f.set_arg(1, np.float32(4)),
    bytes_for_int=lambda w: w.f.set_arg(1, b"abcd"),
    three_bytes_for_int=lambda w: w.f.set_arg(1, b"abc"),
    buffer_for_int=lambda w: w.f.set_arg(1, w.buf),
    none_for_int=lambda w: w.f.set_arg(1, None),
    local_for_int=lambda w: w.f.set_arg(1, w.cl.LocalMemory(4)),
    array_for_int=lambda w: w.f.set_arg(1, np.zeros(1, np.int32)),
    long_array_for_int=lambda w: w.f.set_arg(1, np.zeros(2, np.int32)),
    int_for_buffer=lambda w: w.f.set_arg(0, np.int32(5)),
    array_for_buffer=lambda w: w.f.set_arg(0, w.host),
    local_for_buffer=lambda w: w.f.set_arg(0, w.cl.LocalMemory(4)),
    none_for_buffer=lambda w: w.cl.Kernel(w.program, "f").set_arg(0, None),
    none_for_local=lambda w: w.f.set_arg(2, None),
    buffer_for_local=lambda w: w.f.set_arg(2, w.buf),
    queue_for_buffer=lambda w: w.f.set_arg(0, w.queue),
    queue_for_int=lambda w: w.f.set_arg(1, w.queue),
    index=lambda w: w.f.set_arg(9, w.buf),
    index_negative=lambda w: w.f.set_arg(-1, w.buf),
    index_float=lambda w: w.f.set_arg(1.0, w.buf),
    foreign_buffer=lambda w: w.f.set_arg(0, w.foreign),
    typed_float_for_int=lambda w: w.f._set_arg_buf_pack_multi((1, b"i", 1.5)),
    typed_negative=lambda w: w.f._set_arg_buf_pack_multi((1, b"I", -1)),
    typed_wrong_size=lambda w: w.f._set_arg_buf_pack_multi((1, b"l", 1)),
    typed_unknown=lambda w: w.f._set_arg_buf_pack_multi((1, b"x", 1)),
    typed_index=lambda w: w.f._set_arg_buf_pack_multi((7, b"i", 1)),
    info_unknown=lambda w: w.f.get_info(3),
    group_info_unknown=lambda w: w.f.get_work_group_info(3, w.device),
    group_info_device=lambda w: w.f.get_work_group_info(0x11B0, None),
    global_size_info=lambda w: w.f.get_work_group_info(0x11B5, w.device),
    compile_group=lambda w: [list(k.get_work_group_info(0x11B1, w.device)) for k in (w.f, w.g)],
    arg_info_unknown=lambda w: w.f.get_arg_info(0, 3),
    sub_group_unknown=lambda w: w.f.get_sub_group_info(w.device, 3),
    clone=lambda w: w.f.clone().function_name,
    source=lambda w: w.f._source is w.program._source,
)
calls(
    "launch",
    fine=lambda w: launch(w, (4,), None).wait(),
    no_dimension=lambda w: launch(w, (), None),
    four_dimensions=lambda w: launch(w, (1, 1, 1, 1), None),
    eleven_dimensions=lambda w: launch(w, (1,) * 11, None),
    global_int=lambda w: launch(w, 4, None),
    global_none=lambda w: launch(w, None, None),
    global_float=lambda w: launch(w, (5.0,), None),
    global_negative=lambda w: launch(w, (-4,), None),
    global_list=lambda w: launch(w, [4], None).wait(),
    global_numpy=lambda w: launch(w, np.array([4]), None).wait(),
    global_zero=lambda w: launch(w, (0,), None).wait(),
    global_zero_with_local=lambda w: launch(w, (0,), (4,)).wait(),
    global_zero_allowed=lambda w: launch(w, (0,), None, allow_empty_ndrange=True).wait(),
    global_zero_with_local_zero=lambda w: launch(w, (0,), (0,)),
    global_zero_with_local_that_does_not_divide=lambda w: launch(w, (0, 3), (1, 2)),
    global_zero_with_local_huge=lambda w: launch(w, (0,), (1 << 20,)),
    global_zero_with_local_allowed=lambda w: launch(w, (0, 3), (1, 2), allow_empty_ndrange=True).wait(),
    global_zero_required_other=lambda w: w.g(w.queue, (0,), (2,), w.buf).wait(),
    global_zero_required_chosen=lambda w: w.g(w.queue, (0,), None, w.buf).wait(),
    global_zero_of_fewer_dimensions_than_required=lambda w: w.g(w.queue, (4, 0), None, w.buf).wait(),
    local_zero=lambda w: launch(w, (4,), (0,)),
    local_zero_allowed=lambda w: launch(w, (4,), (0,), allow_empty_ndrange=True).wait(),
    groups_of_local_zero=lambda w: launch(w, (4,), (0,), g_times_l=True),
    local_does_not_divide=lambda w: launch(w, (4,), (3,)),
    local_larger=lambda w: launch(w, (4,), (8,)),
    local_dimensions=lambda w: launch(w, (4,), (2, 1)),
    local_huge=lambda w: launch(w, (1 << 20,), (1 << 14,)),
    local_huge_product=lambda w: launch(w, (256, 256), (128, 128)),
    local_int=lambda w: launch(w, (4,), 4),
    global_no_dimensions=lambda w: launch(w, (np.array(4),), (2,)).wait(),
    local_no_dimensions=lambda w: launch(w, (4,), (np.array(2),)).wait(),
    offset_no_dimensions=lambda w: launch(w, (4,), None, (np.array(2),)).wait(),
    global_one_dimension=lambda w: launch(w, (np.array([4]),), None),
    groups=lambda w: launch(w, (4,), (2,), g_times_l=True).wait(),
    groups_more_local=lambda w: launch(w, (4,), (2, 2), g_times_l=True).wait(),
    groups_more_global=lambda w: launch(w, (4, 4), (2,), g_times_l=True).wait(),
    groups_text=lambda w: launch(w, (4,), (2,), g_times_l="x"),
    offset=lambda w: launch(w, (4,), None, (1,)).wait(),
    offset_dimensions=lambda w: launch(w, (4,), None, (1, 2)),
    offset_negative=lambda w: launch(w, (4,), None, (-1,)),
    offset_keyword=lambda w: launch(w, (4,), None, global_offset=(1,)),
    wait_list_of_int=lambda w: launch(w, (4,), None, wait_for=[1]),
    foreign_event=lambda w: launch(w, (4,), None, wait_for=[w.foreign_event]),
    kernel_none=lambda w: w.cl.enqueue_nd_range_kernel(w.queue, None, (4,), None),
    queue_none=lambda w: w.cl.enqueue_nd_range_kernel(None, w.f, (4,), None),
    other_context=lambda w: w.cl.enqueue_nd_range_kernel(w.other_queue, w.f, (4,), None),
    required_chosen=lambda w: w.g(w.queue, (8,), None, w.buf).wait(),
    required_other=lambda w: w.g(w.queue, (8,), (2,), w.buf),
    required_in_two=lambda w: w.g(w.queue, (8, 8), (4, 2), w.buf),
    required_with_rest=lambda w: w.g(w.queue, (6,), None, w.buf),
    too_much_local=lambda w: w.f(w.queue, (4,), (4,), w.buf, np.int32(1), w.cl.LocalMemory(1 << 30)),
    null_pointer=lambda w: w.wide(w.queue, (4,), None, np.int64(1), None).wait(),
)
calls(
    "program",
    source_int=lambda w: program(w, 5),
    source_bytes=lambda w: program(w, b"kernel void a() {}")._build(b""),
    source_empty=lambda w: program(w, "")._build(b""),
    source_wrong=lambda w: program(w, "kernel void a( {}")._build(b""),
    source_wrong_wrapped=lambda w: w.cl.Program(w.ctx, "kernel void a( {}").build(),
    undeclared=lambda w: program(w, "kernel void a(global int *p) { *p = q; }")._build(b""),
    options_text=lambda w: program(w)._build("-DX"),
    options_unknown=lambda w: program(w)._build(b"-foo-bar"),
    options_unknown_of_a_wrong_source=lambda w: program(w, "kernel void a( {}")._build(b"-foo-bar"),
    options_known_of_a_wrong_source=lambda w: program(w, "kernel void a( {}")._build(b"-cl-no-subgroup-ifp"),
    devices_int=lambda w: program(w)._build(b"", [5]),
    kernels_before_build=lambda w: program(w).all_kernels(),
    names_before_build=lambda w: program(w).get_info(w.cl.program_info.KERNEL_NAMES),
    count_before_build=lambda w: program(w).get_info(w.cl.program_info.NUM_KERNELS),
    sizes_before_build=lambda w: program(w).get_info(w.cl.program_info.BINARY_SIZES),
    binaries_before_build=lambda w: len(program(w).get_info(w.cl.program_info.BINARIES)[0]),
    status_before_build=lambda w: program(w).get_build_info(w.device, w.cl.program_build_info.STATUS),
    type_before_build=lambda w: program(w).get_build_info(w.device, w.cl.program_build_info.BINARY_TYPE),
    names=lambda w: w.program.kernel_names,
    count=lambda w: w.program.num_kernels,
    kind=lambda w: program(w).kind().name,
    info_unknown=lambda w: program(w).get_info(3),
    build_info_unknown=lambda w: program(w).get_build_info(w.device, 3),
    build_info_device=lambda w: program(w).get_build_info(None, w.cl.program_build_info.LOG),
    binary_garbage=lambda w: w.raw._Program(w.ctx, [w.device], [b"garbage"]),
    binary_count=lambda w: w.raw._Program(w.ctx, [w.device], []),
    binary_none=lambda w: w.raw._Program(w.ctx, [], []),
    binary_empty=lambda w: w.raw._Program(w.ctx, [w.device], [b""]),
    kernel_of_binary=lambda w: w.cl.Kernel(
        w.raw._Program(w.ctx, [w.device], w.program.get_info(w.cl.program_info.BINARIES)), "f"
    ),
    compile_wrong=lambda w: program(w, "kernel void a( {}").compile(b""),
    specialization=lambda w: program(w).set_specialization_constant(1, np.int32(3)),
)


def pool(w: Any, **given: Any) -> Any:
    return w.tools.MemoryPool(w.tools.ImmediateAllocator(w.queue), **given)


def svm(w: Any, nbytes: int = 64) -> Any:
    return w.cl.SVMAllocation(w.ctx, nbytes, 64, w.cl.svm_mem_flags.READ_WRITE)


calls(
    "handles",
    platform=lambda w: w.cl.Platform.from_int_ptr("x"),
    queue_text=lambda w: w.cl.CommandQueue.from_int_ptr("x"),
    queue_none=lambda w: w.cl.CommandQueue.from_int_ptr(None),
    buffer_text=lambda w: w.cl.Buffer.from_int_ptr("x"),
    buffer_retain=lambda w: w.cl.Buffer.from_int_ptr(w.buf.int_ptr, retain=True) == w.buf,
    event_float=lambda w: w.cl.Event.from_int_ptr(1.5),
    event=lambda w: w.cl.Event.from_int_ptr(w.event.int_ptr) == w.event,
    number_to_a_property=lambda w: setattr(w.queue, "int_ptr", 4),
    context_order=lambda w: w.ctx < w.ctx,
    unlike=lambda w: (w.ctx == w.queue, w.ctx != w.other_ctx, w.queue == None),  # noqa: E711
)
calls(
    "pools",
    pool_of_none=lambda w: w.tools.MemoryPool(None),
    pool_of_context=lambda w: w.tools.MemoryPool(w.ctx),
    bits_negative=lambda w: pool(w, leading_bits_in_bin_id=-1),
    bits_text=lambda w: pool(w, leading_bits_in_bin_id="x"),
    size_negative=lambda w: pool(w).allocate(-1),
    size_float=lambda w: pool(w).allocate(1.5),
    size_none=lambda w: pool(w).allocate(None),
    size_huge=lambda w: pool(w).allocate(1 << 50),
    called=lambda w: pool(w)(16).size,
    released_twice=lambda w: [block.release() for block in [pool(w).allocate(16)] * 2],
    info_unknown=lambda w: pool(w).allocate(16).get_info(3),
    bin_negative=lambda w: pool(w).bin_number(-1),
    bin_number=lambda w: [pool(w).bin_number(size) for size in (0, 1, 100, 12345)],
    bin_size=lambda w: [pool(w).alloc_size(number) for number in (0, 1, 100, 200)],
    bind_none=lambda w: pool(w).allocate(16).bind_to_queue(None),
    held_is_read_only=lambda w: setattr(pool(w), "held_blocks", 4),
    allocator_of_none=lambda w: w.tools.ImmediateAllocator(None),
    allocator_of_context=lambda w: w.tools.ImmediateAllocator(w.ctx),
    deferred_of_queue=lambda w: w.tools.DeferredAllocator(w.queue),
    deferred=lambda w: w.tools.DeferredAllocator(w.ctx)(16).size,
    deferred_size_negative=lambda w: w.tools.DeferredAllocator(w.ctx)(-1),
    deferred_size_huge=lambda w: w.tools.DeferredAllocator(w.ctx)(1 << 50),
    allocator_use_flag=lambda w: w.tools.DeferredAllocator(w.ctx, w.mf.USE_HOST_PTR),
    allocator_copy_flag=lambda w: w.tools.ImmediateAllocator(w.queue, w.mf.COPY_HOST_PTR),
    allocator_flag_unknown=lambda w: w.tools.DeferredAllocator(w.ctx, 1 << 40)(16),
    allocator_flag_none=lambda w: w.tools.DeferredAllocator(w.ctx, None),
    nothing=lambda w: w.tools.DeferredAllocator(w.ctx)(0),
)
calls(
    "shared virtual memory",
    size_negative=lambda w: svm(w, -1),
    size_text=lambda w: svm(w, "x"),
    size_huge=lambda w: svm(w, 1 << 60),
    context_none=lambda w: w.cl.SVMAllocation(None, 64, 64, 1),
    flags_none=lambda w: w.cl.SVMAllocation(w.ctx, 64, 64, None),
    alignment_three=lambda w: w.cl.SVMAllocation(w.ctx, 64, 3, 1),
    flags_unknown=lambda w: w.cl.SVMAllocation(w.ctx, 64, 64, 1 << 20),
    released_twice=lambda w: [memory.release() for memory in [svm(w)] * 2],
    tag_nothing=lambda w: w.cl.SVM(None),
    tag_int=lambda w: w.cl.SVM(5),
    map_array=lambda w: w.raw._enqueue_svm_map(w.queue, True, 1, w.host),
    unmap_none=lambda w: w.raw._enqueue_svm_unmap(w.queue, None),
    copy_of_int=lambda w: w.raw._enqueue_svm_memcpy(w.queue, True, 5, 6),
    fill_with_text=lambda w: w.raw._enqueue_svm_memfill(w.queue, svm(w), "x"),
    migrate_int=lambda w: w.raw._enqueue_svm_migrate_mem(w.queue, [5], 0),
    argument_for_int=lambda w: w.f.set_arg(1, svm(w)),
    argument_for_local=lambda w: w.f.set_arg(2, svm(w)),
    size=lambda w: svm(w).size,
)
calls(
    "raw functions",
    read_queue_none=lambda w: w.raw._enqueue_read_buffer(None, w.buf, w.host),
    read_buffer_none=lambda w: w.raw._enqueue_read_buffer(w.queue, None, w.host),
    read_offset_text=lambda w: w.raw._enqueue_read_buffer(w.queue, w.buf, w.host, src_offset="x"),
    read_offset_negative=lambda w: w.raw._enqueue_read_buffer(w.queue, w.buf, w.host, src_offset=-1),
    read_wait_none=lambda w: w.raw._enqueue_read_buffer(w.queue, w.buf, w.bytes, wait_for=None).wait(),
    read_wait_empty=lambda w: w.raw._enqueue_read_buffer(w.queue, w.buf, w.bytes, wait_for=[]).wait(),
    read_wait_tuple=lambda w: w.raw._enqueue_read_buffer(w.queue, w.buf, w.bytes, wait_for=(w.event,)).wait(),
    read_wait_failed=lambda w: w.raw._enqueue_read_buffer(w.queue, w.buf, w.bytes, wait_for=[w.event, None]),
    copy_none=lambda w: w.raw._enqueue_copy_buffer(w.queue, None, w.buf),
    copy_offsets=lambda w: w.raw._enqueue_copy_buffer(w.queue, w.buf, w.half, 8, 1020, 0),
    copy_offset_negative=lambda w: w.raw._enqueue_copy_buffer(w.queue, w.buf, w.half, 8, -4, 0),
    fill_none=lambda w: w.raw._enqueue_fill_buffer(w.queue, w.buf, None, 0, 8),
    fill_buffer_none=lambda w: w.raw._enqueue_fill_buffer(w.queue, None, b"a", 0, 8),
    fill_offset_negative=lambda w: w.raw._enqueue_fill_buffer(w.queue, w.buf, b"a", -1, 8),
    fill_size_float=lambda w: w.raw._enqueue_fill_buffer(w.queue, w.buf, b"a", 0, 8.0),
    map_queue_none=lambda w: w.cl.enqueue_map_buffer(None, w.buf, 1, 0, (4,), "f"),
    map_buffer_none=lambda w: w.cl.enqueue_map_buffer(w.queue, None, 1, 0, (4,), "f"),
    map_offset_negative=lambda w: w.cl.enqueue_map_buffer(w.queue, w.buf, 1, -4, (4,), "f"),
    map_foreign=lambda w: w.cl.enqueue_map_buffer(w.other_queue, w.buf, 1, 0, (4,), "f"),
    map_released=lambda w: (lambda b: (b.release(), w.cl.enqueue_map_buffer(w.queue, b, 1, 0, (4,), "f")))(
        w.cl.Buffer(w.ctx, 1, 64)
    ),
    map_wait_int=lambda w: w.cl.enqueue_map_buffer(w.queue, w.buf, 1, 0, (4,), "f", wait_for=5),
    marker_none=lambda w: w.raw._enqueue_marker_with_wait_list(None),
    marker_wait_of_none=lambda w: w.raw._enqueue_marker_with_wait_list(w.queue, [None]),
    barrier_int=lambda w: w.raw._enqueue_barrier_with_wait_list(w.queue, 5),
    barrier_plain_none=lambda w: w.raw._enqueue_barrier(None),
    migrate_none=lambda w: w.cl.enqueue_migrate_mem_objects(w.queue, None),
    migrate_foreign=lambda w: w.cl.enqueue_migrate_mem_objects(w.queue, [w.foreign]),
    migrate_flags_text=lambda w: w.cl.enqueue_migrate_mem_objects(w.queue, [w.buf], "x"),
    unload_none=lambda w: w.raw.unload_platform_compiler(None),
    il_text=lambda w: w.raw._create_program_with_il(w.ctx, "x"),
    il_garbage=lambda w: w.raw._create_program_with_il(w.ctx, b"garbage!"),
    il_context_none=lambda w: w.raw._create_program_with_il(None, b"x"),
    link_nothing=lambda w: w.raw._Program.link(w.ctx, [], b""),
    link_int=lambda w: w.raw._Program.link(w.ctx, [5], b""),
    compile_options_text=lambda w: program(w).compile("-DX"),
    compile_headers_single=lambda w: program(w).compile(b"", None, [("a",)]),
    compile_headers_int=lambda w: program(w).compile(b"", None, [("a", 5)]),
    local_negative=lambda w: w.cl.LocalMemory(-1),
    local_text=lambda w: w.cl.LocalMemory("x"),
    local_size=lambda w: w.cl.LocalMemory(12).size,
)


@pytest.fixture(scope="module")
def native() -> dict[str, Any]:
    results = run(__name__, {})
    if "Intel" not in results["platform"]:
        pytest.skip("drivers differ in codes; the virtual device answers as Intel's does")
    return results


@pytest.fixture(scope="module")
def virtual() -> dict[str, Any]:
    return run(__name__, {"VDEV": "1", "VDEV_WORKERS": "cpu:2"})


def test_the_table_is_large() -> None:
    assert len(CALLS) == len({name for name, _ in CALLS}) >= 380


@pytest.mark.parametrize("name", [name for name, _ in CALLS])
def test_virtual_as_native(name: str, native: dict[str, Any], virtual: dict[str, Any]) -> None:
    assert virtual[name] == native[name]
