"""Launches and events, for `test_facade_behaviour`."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np

from .facade_world import SOURCE, content, eventually, ints, see


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
