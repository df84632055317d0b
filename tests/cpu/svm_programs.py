"""Programs and calls on shared virtual memory, for `tests.cpu.test_svm` to run natively and on workers.

`python -m tests.cpu.svm_programs` runs all of them in this process and prints what they found as JSON (`--far`:
without `LINKED`). Every program is valid on a device with coarse-grain buffers; those of `FINE` need fine-grain
ones, which CPU engines have; those of `LINKED` also do what only a device in the host's memory understands:
follow pointers in memory, which PyOpenCL cannot announce (CL_KERNEL_EXEC_INFO_SVM_PTRS), or use memory that is not
mapped.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from vdev.process.finalisers import collect

SOURCE = """
typedef struct Node { float value; int pad; global struct Node *next; } Node;
kernel void scale(global float *a, float factor) { a[get_global_id(0)] *= factor; }
kernel void add(global const float *a, global const float *b, global float *c)
{ int i = get_global_id(0); c[i] = a[i] + b[i]; }
kernel void neighbours(global const float *a, global float *out)
{ int i = get_global_id(0); out[i] = a[i - 1] + 10 * a[i + 1]; }
kernel void between(global const int *first, global const int *last, global int *out)
{ int sum = 0; for (global const int *p = first; p != last; p++) sum += *p; out[get_global_id(0)] = sum; }
kernel void tail(global int *end) { end[-1 - (int) get_global_id(0)] = get_global_id(0); }
kernel void from_constant(constant float *a, global float *out)
{ int i = get_global_id(0); out[i] = a[get_global_size(0) - 1 - i]; }

kernel void around(global int *a)
{ int i = get_global_id(0); again: if (a[i - 1] > 3) { a[i - 1]--; goto again; } }
kernel void chain(global Node *nodes, int n)
{ int i = get_global_id(0); nodes[i].value = i; nodes[i].next = i + 1 < n ? nodes + i + 1 : 0; }
kernel void total(global Node *head, global float *out)
{ float sum = 0; for (global Node *p = head; p; p = p->next) sum += p->value; out[get_global_id(0)] = sum; }
kernel void bump(global Node *head)
{ if (get_global_id(0) == 0) for (global Node *p = head; p; p = p->next) p->value += 1; }
kernel void values(global Node *nodes, float by) { nodes[get_global_id(0)].value += by; }
kernel void by_table(global const ulong *table, int k)
{ global float *a = (global float *) table[k]; a[get_global_id(0)] += k + 1; }
kernel void by_number(ulong address) { ((global float *) address)[get_global_id(0)] = get_global_id(0); }
kernel void tell(global float *a, global ulong *out)
{ out[get_global_id(0)] = (ulong) (a + get_global_id(0)); }
kernel void scatter(global int *a, global const int *at) { a[at[get_global_id(0)]] = get_global_id(0); }
kernel void count(global int *bins, global const int *of) { atomic_inc(bins + of[get_global_id(0)]); }
"""
NODE = np.dtype([("value", "f4"), ("pad", "i4"), ("next", "u8")])

Run = Callable[[Any], Any]
PROGRAMS: dict[str, Run] = {}
FINE: dict[str, Run] = {}
LINKED: dict[str, Run] = {}
CALLS: dict[str, Run] = {}


def make_world() -> SimpleNamespace:
    """One of everything that programs and calls need."""
    import pyopencl as cl  # which one it is, the process decides
    from pyopencl import tools

    w = SimpleNamespace(cl=cl, raw=cl._cl, tools=tools, mf=cl.mem_flags)
    platforms = sorted(cl.get_platforms(), key=lambda platform: "intel" not in platform.name.lower())
    w.device = platforms[0].get_devices()[0]
    w.ctx = cl.Context([w.device])
    w.queue = cl.CommandQueue(w.ctx)
    w.loose = cl.CommandQueue(w.ctx, properties=cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE)
    w.other_ctx = cl.Context([w.device])
    w.foreign_event = cl.enqueue_marker(cl.CommandQueue(w.other_ctx))
    w.program = cl.Program(w.ctx, SOURCE).build()
    w.host = np.arange(100, dtype=np.uint8)
    w.svm, w.same, w.half = (allocation(w, nbytes) for nbytes in (100, 100, 50))
    w.gone = allocation(w, 100)
    w.gone.release()
    return w


def allocation(w: Any, nbytes: int, alignment: int = 0, flags: int = 1, queue: Any = None) -> Any:
    return w.cl.SVMAllocation(w.ctx, nbytes, alignment, flags, queue)


def array(w: Any, content: Any, dtype: Any = np.float32) -> Any:
    """Tagged shared virtual memory with that content."""
    wanted = np.asarray(content, dtype)
    tagged = w.cl.SVM(w.cl.csvm_empty(w.ctx, wanted.shape, dtype))
    w.cl.enqueue_copy(w.queue, tagged, wanted.copy())
    return tagged


def content(w: Any, tagged: Any) -> Any:
    """What is in shared virtual memory, as seen through a mapping."""
    with tagged.map_ro(w.queue) as mapped:
        return mapped.copy()


def program(run: Run) -> Run:
    PROGRAMS[run.__name__] = run
    return run


def fine(run: Run) -> Run:
    FINE[run.__name__] = run
    return run


def linked(run: Run) -> Run:
    LINKED[run.__name__] = run
    return run


# programs ---------------------------------------------------------------------------------------


@program
def copies_and_fills(w: Any) -> Any:
    """Host to shared memory, there and back, whole and in parts."""
    cl, a, b = w.cl, array(w, np.arange(1000)), array(w, np.zeros(1000))
    cl.enqueue_copy(w.queue, b, a)
    w.program.scale(w.queue, (1000,), (10,), b, np.float32(2))
    cl.enqueue_copy(w.queue, cl.SVM(a.mem[100:200]), cl.SVM(b.mem[500:600]))
    cl.enqueue_svm_memfill(w.queue, cl.SVM(a.mem[:7]), np.float32(-1))
    cl.enqueue_svm_memfill(w.queue, cl.SVM(a.mem[900:904]), np.arange(4, dtype=np.float32))
    cl.enqueue_svm_migrate_mem(w.queue, [a, b], 0)
    cl.enqueue_svm_migrate_mem(w.queue, [a], 1)
    out, part = np.empty(1000, np.float32), np.zeros(10, np.float32)
    cl.enqueue_copy(w.queue, out, a)
    cl.enqueue_copy(w.queue, cl.SVM(part), cl.SVM(a.mem[95:]), byte_count=40)
    hosts = np.zeros(10, np.float32)
    cl.enqueue_copy(w.queue, cl.SVM(hosts), cl.SVM(part))
    return out.tolist(), part.tolist(), hosts.tolist(), content(w, b).tolist()


@program
def mappings(w: Any) -> Any:
    """What the host writes while it is mapped is what kernels see, and the other way round."""
    cl, a = w.cl, array(w, np.arange(600))
    found = []
    with a.map_rw(w.queue) as mapped:
        assert mapped is a.mem
        mapped[::3] = -5
    w.program.scale(w.queue, (600,), (5,), a, np.float32(3))
    first, second = a.map_ro(w.queue), cl.SVM(a.mem[300:]).map_ro(w.queue)
    found.append(first.array.tolist())
    found.append(second.array.tolist())
    second.release()
    first.release()
    part = cl.SVM(a.mem[10:20]).map(w.queue, cl.map_flags.WRITE_INVALIDATE_REGION)
    part.array[:] = 1
    part.release()
    w.program.scale(w.queue, (600,), (5,), a, np.float32(2))
    plain = allocation(w, 64)
    with plain.map(w.queue, flags=cl.map_flags.WRITE) as mapped:
        mapped[:] = np.arange(64)
    waiting = plain.map_ro(w.queue, is_blocking=False)
    waiting.event.wait()
    found.append(waiting.array.tolist())
    waiting.release(wait_for=[waiting.event]).wait()
    return found, content(w, a).tolist()


@program
def both_directions(w: Any) -> Any:
    """A pointer into the middle of an allocation is one into all of it."""
    cl, a = w.cl, array(w, np.arange(402))
    out = array(w, np.zeros(400))
    w.program.neighbours(w.queue, (400,), (8,), cl.SVM(a.mem[1:]), out)
    numbers = array(w, np.arange(300), np.int32)
    sums = array(w, np.zeros(64), np.int32)
    bounds = cl.SVM(numbers.mem[10:]), cl.SVM(numbers.mem[290:])
    w.program.between(w.queue, (64,), (1,), *bounds, sums)
    w.program.tail(w.queue, (100,), (4,), cl.SVM(numbers.mem[200:]))
    w.program.scale(w.queue, (100,), (4,), cl.SVM(a.mem[50:60]), np.float32(-1))
    reverse = array(w, np.zeros(402))
    w.program.from_constant(w.queue, (402,), (6,), a, reverse)
    return [content(w, item).tolist() for item in (out, sums, numbers, a, reverse)]


@program
def beside_buffers(w: Any) -> Any:
    """Kernels with both kinds of memory; a buffer that uses shared memory is that memory."""
    cl, a = w.cl, array(w, np.arange(512))
    flags = w.mf.READ_WRITE | w.mf.COPY_HOST_PTR
    buffer = cl.Buffer(w.ctx, flags, hostbuf=np.full(512, 7, np.float32))
    w.program.add(w.queue, (512,), (8,), a, buffer, a)
    alias = a.as_buffer(w.ctx)
    w.program.scale(w.queue, (512,), (8,), alias, np.float32(2))
    w.program.add(w.queue, (512,), (8,), a, alias, buffer)
    part = cl.Buffer(w.ctx, w.mf.READ_WRITE | w.mf.USE_HOST_PTR, hostbuf=a.mem[256:])
    cl.enqueue_fill_buffer(w.queue, part, np.float32(-3), 0, 64)
    sums, back = np.empty(512, np.float32), np.empty(256, np.float32)
    cl.enqueue_copy(w.queue, sums, buffer)
    cl.enqueue_copy(w.queue, back, part)
    uses = [item.get_info(cl.mem_info.USES_SVM_POINTER) for item in (alias, buffer)]
    with a.map_rw(w.queue) as mapped:  # between the two the host may use the memory for any transfer
        cl.enqueue_copy(w.queue, mapped[:128], buffer)
        seen = mapped[:128].tolist()
        cl.enqueue_copy(w.queue, buffer, mapped)
    cl.enqueue_copy(w.queue, sums[:256], buffer)
    return sums.tolist(), back.tolist(), uses, seen, content(w, a).tolist()


@program
def arrays(w: Any) -> Any:
    """`pyopencl.array` on an allocator and on a pool."""
    from pyopencl import array as arrays_of

    found = []
    pool = w.tools.SVMPool(w.tools.SVMAllocator(w.ctx, queue=w.queue))
    for allocator in (w.tools.SVMAllocator(w.ctx, queue=w.queue), pool):
        a = arrays_of.arange(w.queue, 2000, dtype=np.float32, allocator=allocator)
        b = arrays_of.to_device(w.queue, np.linspace(0, 1, 2000).astype(np.float32), allocator=allocator)
        for _ in range(3):
            a = 2 * a + b * b - 1
        view = a[100:200] + a[1:101]
        a.fill(2)
        found.append([view.get().tolist(), (a + b).get().tolist(), b.reshape(40, 50).get()[3].tolist()])
    del a, b, view
    collect()
    return found, statistics(pool)


def statistics(pool: Any) -> list[int]:
    return [pool.held_blocks, pool.active_blocks, pool.managed_bytes, pool.active_bytes]


@program
def pools(w: Any) -> Any:
    """Bins, counters and the queues that blocks are bound to."""
    found: list[Any] = []
    pool = w.tools.SVMPool(w.tools.SVMAllocator(w.ctx))
    for nbytes in (0, 1, 1000, 1000, 5000):
        block = pool(nbytes)
        found.append([block.size, bool(block.svm_ptr), statistics(pool)])
    first, second = pool(3000), pool(3000)
    found.append([first == second, first != second, first == first, hash(first) == first.svm_ptr])
    address = first.svm_ptr
    first.bind_to_queue(w.queue)
    found.append(first._queue == w.queue)
    first.enqueue_release()
    found.append([statistics(pool), first.svm_ptr == address, first._queue])
    again = pool(3000)
    found.append([again.svm_ptr == address, again._queue, statistics(pool)])
    w.cl.enqueue_svm_memfill(w.queue, again, np.uint8(3))
    out = np.empty(3000, np.uint8)
    w.cl.enqueue_copy(w.queue, out, again)
    found.append(out.tolist() == [3] * 3000)
    del second
    pool.free_held()
    found.append(statistics(pool))
    pool.stop_holding()
    again.release()
    found.append(statistics(pool))
    bound = w.tools.SVMPool(w.tools.SVMAllocator(w.ctx, alignment=64, queue=w.queue))
    block = bound(100)
    found.append([block._queue == w.queue, block.svm_ptr % 64])
    block.unbind_from_queue()
    found.append(block._queue)
    block.release()
    block = bound(100)
    found.append(block._queue == w.queue)
    return found


@program
def freed_in_order(w: Any) -> Any:
    """Memory that is released while commands wait for it is there until they are done."""
    cl = w.cl
    gate, out = cl.UserEvent(w.ctx), array(w, np.zeros(256))
    waiting = cl.CommandQueue(w.ctx)
    a = allocation(w, 1024, queue=waiting)
    b = allocation(w, 1024)
    for item in (a, b):
        cl.enqueue_svm_memfill(w.queue, item, np.float32(4))
    w.queue.finish()
    cl.enqueue_marker(waiting, [gate])
    w.program.scale(waiting, (256,), (4,), a, np.float32(3))
    w.program.add(waiting, (256,), (4,), a, b, out)
    a.release()
    freed = b.enqueue_release(waiting)
    empty = allocation(w, 0).enqueue_release(waiting, [freed])
    others = [allocation(w, 1024) for _ in range(8)]  # may not get the memory that is still in use
    for item in others:
        cl.enqueue_svm_memfill(w.queue, item, np.float32(-1))
    w.queue.finish()
    gate.set_status(0)
    freed.wait()
    empty.wait()
    kinds = [cl.command_type.to_string(event.command_type) for event in (freed, empty)]
    return kinds, [a.svm_ptr, b.svm_ptr], content(w, out).tolist()


@program
def loose_queue(w: Any) -> Any:
    """Out of order, the events order."""
    cl, a, b = w.cl, array(w, np.arange(300)), array(w, np.zeros(300))
    copied = cl.enqueue_copy(w.loose, b, a, is_blocking=False)
    scaled = w.program.scale(w.loose, (300,), (3,), b, np.float32(2), wait_for=[copied])
    added = w.program.add(w.loose, (300,), (3,), a, b, b, wait_for=[scaled])
    mapping = b.map_ro(w.loose, is_blocking=False, wait_for=[added])
    mapping.event.wait()
    found = mapping.array.tolist()
    mapping.release().wait()
    filled = cl.enqueue_svm_memfill(w.loose, a, np.float32(1), wait_for=[added])
    back = np.empty(300, np.float32)
    cl.enqueue_copy(w.loose, back, a, wait_for=[filled])
    kinds = [cl.command_type.to_string(event.command_type) for event in (copied, filled, mapping.event)]
    return found, back.tolist(), kinds


def fine_array(w: Any, content: Any, dtype: Any = np.float32) -> Any:
    """An array in fine-grain memory, filled without a command."""
    wanted = np.asarray(content, dtype)
    made = w.cl.fsvm_empty(w.ctx, wanted.shape, dtype)
    made[...] = wanted
    return made


@fine
def no_mappings(w: Any) -> Any:
    """Host and kernels change the same memory by turns, and only ends of commands stand between them."""
    cl, found = w.cl, []
    a, b = fine_array(w, np.arange(1000)), fine_array(w, np.zeros(1000))
    scale, add = cl.Kernel(w.program, "scale"), cl.Kernel(w.program, "add")
    for number in range(50):
        a[number::9] = number
        scale(w.queue, (1000,), (10,), cl.SVM(a), np.float32(-1))
        add(w.queue, (1000,), (10,), cl.SVM(a), cl.SVM(b), cl.SVM(b)).wait()
        found.append(float(b.sum()))
        b[number] += 1
    scale(w.queue, (1000,), (10,), cl.SVM(b), np.float32(2))
    w.queue.finish()
    return found, a.tolist(), b.tolist()


@fine
def parts_of_it(w: Any) -> Any:
    """Views, several arguments in one allocation, and the host at work in the rest of it meanwhile."""
    cl, a = w.cl, fine_array(w, np.arange(1200))
    w.program.scale(w.queue, (300,), (4,), cl.SVM(a[100:400]), np.float32(2))
    a[600:] = -1
    w.queue.finish()
    first = a.tolist()
    w.program.add(w.queue, (200,), (4,), cl.SVM(a[:200]), cl.SVM(a[200:400]), cl.SVM(a[800:1000]))
    a[1000:] = 3
    w.queue.finish()
    return first, a.tolist()


@fine
def scattered(w: Any) -> Any:
    """Places that only memory tells, and counts, while the host has the places between them."""
    cl, count = w.cl, 2000
    a = fine_array(w, np.full(2 * count, -1), np.int32)
    at = fine_array(w, np.random.default_rng(5).permutation(count) * 2, np.int32)
    bins = fine_array(w, np.zeros(count), np.int32)
    found = []
    for number in range(4):
        w.program.scatter(w.queue, (count,), (8,), cl.SVM(a), cl.SVM(at))
        a[1::2] = number
        w.queue.finish()
        of = fine_array(w, at // 200 * 10, np.int32)
        done = w.program.count(w.queue, (count,), (8,), cl.SVM(bins), cl.SVM(of))
        bins[1::2] = number
        done.wait()
        found.append([a.tolist(), bins.tolist()])
        at[:] = np.roll(at, 17)
    return found


@fine
def commands_on_it(w: Any) -> Any:
    """Copies, fills and mappings are as those of coarse-grain memory, and done when they have ended."""
    cl, found = w.cl, []
    a, b = fine_array(w, np.arange(500)), fine_array(w, np.zeros(500))
    coarse = array(w, np.full(500, 9))
    w.program.scale(w.queue, (500,), (5,), coarse, np.float32(3))
    buffer = cl.Buffer(w.ctx, w.mf.READ_WRITE | w.mf.COPY_HOST_PTR, hostbuf=np.ones(500, np.float32))
    w.program.scale(w.queue, (500,), (5,), cl.SVM(a), np.float32(2))
    cl.enqueue_copy(w.queue, cl.SVM(b), cl.SVM(a))
    found.append(b.tolist())
    cl.enqueue_copy(w.queue, cl.SVM(b[100:200]), coarse, byte_count=400, is_blocking=False).wait()
    found.append(b.tolist())
    cl.enqueue_svm_memfill(w.queue, cl.SVM(b[:50]), np.float32(-7)).wait()
    found.append(b.tolist())
    cl.enqueue_copy(w.queue, buffer, b)
    w.program.add(w.queue, (500,), (5,), buffer, cl.SVM(a), cl.SVM(a)).wait()
    found.append(a.tolist())
    cl.enqueue_copy(w.queue, a, buffer)
    found.append(a.tolist())
    with cl.SVM(a).map_rw(w.queue) as mapped:
        mapped[::5] = 0
    w.program.scale(w.queue, (500,), (5,), cl.SVM(a), np.float32(-1)).wait()
    cl.enqueue_svm_migrate_mem(w.queue, [cl.SVM(a)], 0)
    found.append(a.tolist())
    cl.enqueue_copy(w.queue, coarse, cl.SVM(a))
    alias = cl.SVM(b).as_buffer(w.ctx)
    w.program.scale(w.queue, (500,), (5,), alias, np.float32(4)).wait()
    return found, b.tolist(), content(w, coarse).tolist()


@fine
def ordered_by_events(w: Any) -> Any:
    """Out of order; a command that waits for the host sees what the host has written by then."""
    cl, a, b = w.cl, fine_array(w, np.arange(400)), fine_array(w, np.ones(400))
    scaled = w.program.scale(w.loose, (400,), (4,), cl.SVM(a), np.float32(3))
    added = w.program.add(w.loose, (400,), (4,), cl.SVM(a), cl.SVM(b), cl.SVM(b), wait_for=[scaled])
    added.wait()
    found = [a.tolist(), b.tolist()]
    gate = cl.UserEvent(w.ctx)
    last = w.program.add(w.loose, (400,), (4,), cl.SVM(a), cl.SVM(b), cl.SVM(b), wait_for=[gate])
    last = w.program.scale(w.loose, (400,), (4,), cl.SVM(b), np.float32(2), wait_for=[last])
    a[:] = 5
    gate.set_status(0)
    last.wait()
    return found, b.tolist()


@fine
def pools_of_it(w: Any) -> Any:
    """Allocators and pools with the flag; arrays on them."""
    from pyopencl import array as arrays_of

    cl, found = w.cl, []
    flags = cl.svm_mem_flags.READ_WRITE | cl.svm_mem_flags.SVM_FINE_GRAIN_BUFFER
    allocator = w.tools.SVMAllocator(w.ctx, flags=flags, queue=w.queue)
    for source in (allocator, w.tools.SVMPool(allocator)):
        a = arrays_of.arange(w.queue, 900, dtype=np.float32, allocator=source)
        b = 3 * a + a * a
        w.queue.finish()
        seen = b.base_data.buf.view(np.float32)[:900]
        found.append(seen.tolist())
        seen[:] = 2
        found.append((a + b).get().tolist())
    return found


@fine
def every_kind_of_kernel(w: Any) -> Any:
    """Read-only and constant arguments, pointers compared and used in both directions."""
    cl = w.cl
    a, out = fine_array(w, np.arange(300)), fine_array(w, np.zeros(300))
    w.program.from_constant(w.queue, (300,), (3,), cl.SVM(a), cl.SVM(out)).wait()
    numbers, sums = fine_array(w, np.arange(100), np.int32), fine_array(w, np.zeros(16), np.int32)
    ends = cl.SVM(numbers[5:]), cl.SVM(numbers[95:])
    w.program.between(w.queue, (16,), (1,), *ends, cl.SVM(sums)).wait()
    w.program.tail(w.queue, (50,), (2,), cl.SVM(numbers[60:])).wait()
    return [item.tolist() for item in (out, numbers, sums)]


@linked
def fine_grain_by_address(w: Any) -> Any:
    """Addresses in memory and as numbers, the host changing what is there and where they lead."""
    cl, a, b = w.cl, fine_array(w, np.arange(300)), fine_array(w, np.zeros(300))
    table = fine_array(w, [a.ctypes.data, b.ctypes.data], np.uint64)
    found = []
    for number in range(3):
        w.program.by_table(w.queue, (300,), (3,), cl.SVM(table), np.int32(1)).wait()
        found.append([a.tolist(), b.tolist()])
        a[number::4] = b[number::4] = number
        table[:] = table[::-1].copy()
    w.program.by_number(w.queue, (30,), (3,), np.uint64(a[100:].ctypes.data)).wait()
    return found, a.tolist()


@linked
def unmapped(w: Any) -> Any:
    """Transfers take shared memory for host memory, as it is on a device that shares the host's."""
    cl, a, b = w.cl, array(w, np.arange(512)), array(w, np.zeros(512))
    buffer = cl.Buffer(w.ctx, w.mf.READ_WRITE, 2048)
    w.program.scale(w.queue, (512,), (8,), a, np.float32(2))
    cl.enqueue_copy(w.queue, buffer, a.mem, is_blocking=False)
    w.program.scale(w.queue, (512,), (8,), buffer, np.float32(2))
    w.program.scale(w.queue, (512,), (8,), b, np.float32(2))
    cl.enqueue_copy(w.queue, b.mem[100:300], buffer)
    w.program.scale(w.queue, (512,), (8,), b, np.float32(-1))
    boxes = {"buffer_origin": (0, 0), "host_origin": (0, 0), "region": (16, 32)}
    cl.enqueue_copy(w.queue, buffer, a.mem, **boxes, host_pitches=(64,))
    filled = cl.Buffer(w.ctx, w.mf.READ_WRITE | w.mf.COPY_HOST_PTR, hostbuf=b.mem)
    w.queue.finish()
    w.program.add(w.queue, (512,), (8,), filled, buffer, filled)
    out = np.empty(512, np.float32)
    cl.enqueue_copy(w.queue, out, filled)
    return out.tolist(), content(w, a).tolist(), content(w, b).tolist()


@linked
def a_list(w: Any) -> Any:
    """Made by one kernel, followed and changed by others, seen and cut by the host."""
    count, cl = 700, w.cl
    nodes = cl.SVM(cl.csvm_empty(w.ctx, count, NODE))
    sums = array(w, np.zeros(32))
    buffer = cl.Buffer(w.ctx, w.mf.READ_WRITE, 32 * 4)
    back = np.empty(32, np.float32)
    w.program.chain(w.queue, (count,), (7,), nodes, np.int32(count))
    w.program.total(w.queue, (32,), (1,), nodes, sums)
    w.program.values(w.queue, (count,), (7,), nodes, np.float32(1))
    w.program.bump(w.queue, (32,), (1,), nodes)
    w.program.values(w.queue, (count,), (7,), nodes, np.float32(1))
    w.program.total(w.queue, (32,), (1,), nodes, buffer)
    cl.enqueue_copy(w.queue, back, buffer)
    with nodes.map_rw(w.queue) as mapped:
        distances = (mapped["next"][:-1] - np.uint64(nodes.svm_ptr)).tolist()
        values = mapped["value"].tolist()
        mapped["next"][300] = 0
    w.program.total(w.queue, (32,), (1,), cl.SVM(nodes.mem[100:]), buffer)
    shorter = np.empty(32, np.float32)
    cl.enqueue_copy(w.queue, shorter, buffer)
    return content(w, sums).tolist(), back.tolist(), shorter.tolist(), distances, values


@linked
def not_analysed(w: Any) -> Any:
    """A kernel that cannot be split gets its pointer into the middle all the same."""
    numbers = array(w, np.arange(300), np.int32)
    w.program.around(w.queue, (200,), (4,), w.cl.SVM(numbers.mem[37:]))
    return content(w, numbers).tolist()


@linked
def addresses_as_numbers(w: Any) -> Any:
    """A table of pointers in a plain buffer, an address as a number, addresses told by a kernel."""
    cl = w.cl
    targets = [array(w, np.full(200, 5)) for _ in range(3)]
    w.program.scale(w.queue, (200,), (4,), targets[1], np.float32(2))
    numbers = np.array([item.svm_ptr for item in targets], np.uint64)
    table = cl.Buffer(w.ctx, w.mf.READ_ONLY | w.mf.COPY_HOST_PTR, hostbuf=numbers)
    for k in range(3):
        w.program.by_table(w.queue, (200,), (4,), table, np.int32(k))
    w.program.scale(w.queue, (200,), (4,), targets[2], np.float32(2))
    w.program.by_number(w.queue, (200,), (4,), np.uint64(targets[0].svm_ptr))
    told = array(w, np.zeros(200), np.uint64)
    w.program.tell(w.queue, (200,), (4,), targets[1], told)
    distances = content(w, told) - np.uint64(targets[1].svm_ptr)
    return [content(w, item).tolist() for item in targets], distances.tolist()


# calls ------------------------------------------------------------------------------------------


def calls(group: str, **table: Run) -> None:
    CALLS.update((f"{group}: {name}", call) for name, call in table.items())


def copy(w: Any, dst: Any, src: Any, nbytes: Any = None, *, queue: Any = 0, blocking: Any = True) -> Any:
    queue = w.queue if queue == 0 else queue
    return kind(w, w.raw._enqueue_svm_memcpy(queue, blocking, dst, src, None, nbytes))


def kind(w: Any, event: Any) -> str:
    event.wait()
    name: str = w.cl.command_type.to_string(event.command_type)
    return name


def inside(w: Any, start: int, stop: int) -> Any:
    return w.cl.SVM(w.svm.buf[start:stop])


def failing(w: Any) -> Any:
    """An allocation that could not be had: NULL."""
    return w.tools.SVMAllocator(w.ctx, alignment=3)(10)


calls(
    "allocate",
    **{f"alignment_{n}": lambda w, n=n: allocation(w, 9, n).svm_ptr % max(n, 1) for n in (0, 1, 2, 64, 128)},
    **{f"bad_alignment_{n}": lambda w, n=n: allocation(w, 9, n) for n in (3, 100, 256, 4096, 2**31, 2**32)},
    **{f"flags_{n}": lambda w, n=n: allocation(w, 9, 0, n).size for n in (0, 1, 2, 4)},
    **{f"bad_flags_{n}": lambda w, n=n: allocation(w, 9, 0, n) for n in (3, 5, 8, 16, 32, 2048, 4096, -1)},
    nothing=lambda w: allocation(w, 0).size,
    too_much=lambda w: allocation(w, 1 << 50),
    negative=lambda w: allocation(w, -1),
    no_context=lambda w: w.cl.SVMAllocation(None, 9, 0, 1),
    queue=lambda w: allocation(w, 9, queue=w.queue)._queue == w.queue,
    loose_queue=lambda w: allocation(w, 9, queue=w.loose),
    queue_int=lambda w: allocation(w, 9, queue=5),
    allocator=lambda w: [w.tools.SVMAllocator(w.ctx)(n).size for n in (0, 10)],
    allocator_fails=lambda w: [failing(w).svm_ptr, failing(w).size, failing(w).buf.shape],
    allocator_context=lambda w: w.tools.SVMAllocator(None),
    allocator_flags=lambda w: w.tools.SVMAllocator(w.ctx, 0, 2**40),
    allocator_loose=lambda w: w.tools.SVMAllocator(w.ctx, queue=w.loose)(10),
    allocator_negative=lambda w: w.tools.SVMAllocator(w.ctx)(-1),
    pool_of_buffers=lambda w: w.tools.SVMPool(w.tools.ImmediateAllocator(w.queue)),
    pool_negative=lambda w: w.tools.SVMPool(w.tools.SVMAllocator(w.ctx))(-1),
    pooled=lambda w: w.tools.PooledSVM(),
    pointer=lambda w: w.cl.SVMPointer(),
    tag=lambda w: w.cl.SVM(w.host).size,
    tag_fortran=lambda w: w.cl.SVM(np.zeros((3, 4), order="F")).size,
    tag_gaps=lambda w: w.cl.SVM(w.host[::2]),
    order=lambda w: w.cl.csvm_empty(w.ctx, (3, 4), np.float32, order="F").strides,
)
calls(
    "release",
    twice=lambda w: w.gone.release(),
    enqueued_twice=lambda w: w.gone.enqueue_release(w.queue),
    what_stays=lambda w: [w.gone.svm_ptr, w.gone.size, hash(w.gone), w.gone._queue],
    without_queue=lambda w: allocation(w, 9).enqueue_release(),
    nothing_without_queue=lambda w: allocation(w, 0).enqueue_release(),
    nothing=lambda w: [allocation(w, 0).release(), kind(w, allocation(w, 0).enqueue_release(w.queue))],
    enqueued=lambda w: kind(w, allocation(w, 9).enqueue_release(w.queue)),
    loose=lambda w: kind(w, allocation(w, 9).enqueue_release(w.loose)),
    bound=lambda w: kind(w, allocation(w, 9, queue=w.queue).enqueue_release()),
    wait_list_of_int=lambda w: allocation(w, 9).enqueue_release(w.queue, [3]),
    bind_loose=lambda w: allocation(w, 9).bind_to_queue(w.loose),
    bind_none=lambda w: allocation(w, 9).bind_to_queue(None),
    pooled_twice=lambda w: [block := w.tools.SVMPool(w.tools.SVMAllocator(w.ctx))(9), block.release(),
                            block.release()],
    pooled_bind_loose=lambda w: w.tools.SVMPool(w.tools.SVMAllocator(w.ctx))(9).bind_to_queue(w.loose),
    pooled_equals_int=lambda w: w.tools.SVMPool(w.tools.SVMAllocator(w.ctx))(9) == 3,
    equals_int=lambda w: w.svm == 3,
    equals=lambda w: [w.svm == w.svm, w.svm != w.svm, w.svm == w.same, hash(w.svm) == w.svm.svm_ptr],
)  # fmt: skip
calls(
    "copy",
    fine=lambda w: copy(w, w.svm, w.same),
    from_host=lambda w: copy(w, w.svm, w.cl.SVM(w.host)),
    between_hosts=lambda w: copy(w, w.cl.SVM(w.host), w.cl.SVM(w.host.copy())),
    sizes=lambda w: copy(w, w.svm, w.half),
    part=lambda w: copy(w, w.svm, w.half, 50),
    too_many=lambda w: copy(w, w.svm, w.half, 51),
    none=lambda w: copy(w, w.svm, w.half, 0),
    count_negative=lambda w: copy(w, w.svm, w.half, -1),
    count_text=lambda w: copy(w, w.svm, w.half, "a"),
    overlap=lambda w: copy(w, inside(w, 10, 60), inside(w, 0, 50)),
    itself=lambda w: copy(w, w.svm, w.svm),
    beside_itself=lambda w: copy(w, inside(w, 50, 100), inside(w, 0, 50)),
    freed=lambda w: copy(w, w.svm, w.gone),
    failed=lambda w: copy(w, failing(w), failing(w)),
    blocking_number=lambda w: copy(w, w.svm, w.same, blocking=2),
    queue_none=lambda w: copy(w, w.svm, w.same, queue=None),
    target_none=lambda w: copy(w, None, w.same),
    target_array=lambda w: copy(w, w.host, w.same),
    foreign_event=lambda w: w.cl.enqueue_copy(w.queue, w.svm, w.same, wait_for=[w.foreign_event]),
    wait_list_of_int=lambda w: w.cl.enqueue_copy(w.queue, w.svm, w.same, wait_for=[3]),
    to_buffer=lambda w: w.cl.enqueue_copy(w.queue, w.cl.Buffer(w.ctx, w.mf.READ_WRITE, 100), w.svm),
    from_buffer=lambda w: w.cl.enqueue_copy(w.queue, w.svm, w.cl.Buffer(w.ctx, w.mf.READ_WRITE, 100)),
)
calls(
    "fill",
    fine=lambda w: kind(w, w.cl.enqueue_svm_memfill(w.queue, w.svm, b"abcd")),
    enqueue_fill=lambda w: kind(w, w.cl.enqueue_fill(w.queue, w.svm, b"ab", 10)),
    host=lambda w: kind(w, w.cl.enqueue_svm_memfill(w.queue, w.host.copy(), b"ab")),
    three=lambda w: w.cl.enqueue_svm_memfill(w.queue, w.svm, b"abc"),
    does_not_divide=lambda w: w.cl.enqueue_svm_memfill(w.queue, w.svm, b"abcdefgh"),
    nothing=lambda w: w.cl.enqueue_svm_memfill(w.queue, w.svm, b""),
    too_long=lambda w: w.cl.enqueue_svm_memfill(w.queue, w.svm, b"a" * 256),
    pattern_none=lambda w: w.cl.enqueue_svm_memfill(w.queue, w.svm, None),
    too_many=lambda w: w.cl.enqueue_svm_memfill(w.queue, w.svm, b"a", 101),
    count_negative=lambda w: w.cl.enqueue_svm_memfill(w.queue, w.svm, b"a", -1),
    misaligned=lambda w: w.cl.enqueue_svm_memfill(w.queue, inside(w, 2, 50), b"abcd"),
    freed=lambda w: w.cl.enqueue_svm_memfill(w.queue, w.gone, b"a"),
    failed=lambda w: w.cl.enqueue_svm_memfill(w.queue, failing(w), b"a"),
    target_int=lambda w: w.raw._enqueue_svm_memfill(w.queue, 3, b"a"),
    foreign_event=lambda w: w.cl.enqueue_svm_memfill(w.queue, w.svm, b"a", wait_for=[w.foreign_event]),
)


def map_call(w: Any, svm: Any, flags: int = 3, size: Any = None, wait_for: Any = None) -> Any:
    return kind(w, w.raw._enqueue_svm_map(w.queue, True, flags, svm, wait_for, size))


def unmap_call(w: Any, svm: Any, wait_for: Any = None) -> Any:
    return kind(w, w.raw._enqueue_svm_unmap(w.queue, svm, wait_for))


def migrate(w: Any, svms: Any, flags: Any = 0, wait_for: Any = None) -> Any:
    return kind(w, w.raw._enqueue_svm_migrate_mem(w.queue, svms, flags, wait_for))


calls(
    "map",
    fine=lambda w: [map_call(w, w.svm), unmap_call(w, w.svm)],
    twice=lambda w: [map_call(w, w.svm), map_call(w, w.svm), unmap_call(w, w.svm), unmap_call(w, w.svm)],
    unmapped=lambda w: unmap_call(w, w.same),
    no_flags=lambda w: [map_call(w, w.svm, 0), unmap_call(w, w.svm)],
    invalidate=lambda w: [map_call(w, w.svm, 4), unmap_call(w, w.svm)],
    size=lambda w: [map_call(w, w.svm, 1, 50), unmap_call(w, w.svm)],
    too_many=lambda w: map_call(w, w.svm, 1, 101),
    size_negative=lambda w: map_call(w, w.svm, 1, -1),
    middle=lambda w: [map_call(w, inside(w, 10, 20)), unmap_call(w, inside(w, 10, 12))],
    unmap_elsewhere=lambda w: [map_call(w, inside(w, 30, 40)), unmap_call(w, inside(w, 31, 40))],
    freed=lambda w: map_call(w, w.gone),
    failed=lambda w: map_call(w, failing(w)),
    none=lambda w: map_call(w, None),
    unmap_none=lambda w: unmap_call(w, None),
    foreign_event=lambda w: map_call(w, w.svm, wait_for=[w.foreign_event]),
    unmap_foreign_event=lambda w: unmap_call(w, w.svm, [w.foreign_event]),
    as_buffer_too_large=lambda w: w.svm.as_buffer(w.ctx, size=500),
    as_buffer_part=lambda w: w.svm.as_buffer(w.ctx, size=50).size,
)
calls(
    "migrate",
    fine=lambda w: migrate(w, [w.svm, w.same]),
    tuple=lambda w: migrate(w, (w.svm,)),
    to_host=lambda w: migrate(w, [w.svm], 1),
    undefined=lambda w: migrate(w, [w.same], 2),
    middle=lambda w: migrate(w, [inside(w, 3, 8)]),
    no_flags=lambda w: migrate(w, [w.svm], None),
    nothing=lambda w: migrate(w, []),
    none=lambda w: migrate(w, None),
    of_int=lambda w: migrate(w, [3]),
    iterator=lambda w: migrate(w, iter([w.svm])),
    host=lambda w: migrate(w, [w.cl.SVM(w.host)]),
    freed=lambda w: migrate(w, [w.gone]),
    foreign_event=lambda w: migrate(w, [w.svm], 0, [w.foreign_event]),
)
calls(
    "argument",
    pointer=lambda w: w.program.scale.set_arg(0, w.svm),
    constant=lambda w: w.program.from_constant.set_arg(0, w.svm),
    middle=lambda w: w.program.scale.set_arg(0, inside(w, 4, 8)),
    for_float=lambda w: w.program.scale.set_arg(1, w.svm),
    for_ulong=lambda w: w.program.by_number.set_arg(0, w.svm),
    index=lambda w: w.program.scale.set_arg(9, w.svm),
    pair=lambda w: w.program.scale._set_arg_multi((0, w.svm, 9, w.svm)),
    svm_none=lambda w: w.program.scale._set_arg_svm(0, None),
    svm_buffer=lambda w: w.program.scale._set_arg_svm(0, w.cl.Buffer(w.ctx, w.mf.READ_WRITE, 4)),
)


#: Calls to which drivers give answers of their own. The virtual device does as Intel's.
DRIVERS_OWN = {
    *(f"allocate: bad_flags_{flags}" for flags in (8, 16, 32, 4096)),
    "copy: none",
    "map: unmapped",
    "map: unmap_elsewhere",
    "migrate: host",
    "argument: for_float",
    "argument: for_ulong",
}


def outcome(run: Run, world: Any) -> list[Any]:
    """[class, status code, routine] of the exception, or ["ok", the result where it can be compared]."""
    try:
        result = run(world)
    except world.cl.Error as error:
        return [type(error).__name__, error.code, error.routine]
    except Exception as error:
        return [type(error).__name__]
    return ["ok", json.loads(json.dumps(result, default=lambda value: None))]


def main() -> None:
    warnings.simplefilter("ignore")
    world = make_world()
    results: dict[str, Any] = {"platform": world.device.platform.name}
    linked = {} if "--far" in sys.argv else LINKED
    for name, run in {**PROGRAMS, **FINE, **linked}.items():
        results[name] = json.loads(json.dumps(run(world)))
    results["calls"] = {name: outcome(call, world) for name, call in CALLS.items()}
    world.queue.finish()
    print("RESULTS" + json.dumps(results), flush=True)
    if results["platform"] != "vdev":  # a driver that comes to grief at the very end has said what it had to
        os._exit(0)


if __name__ == "__main__":
    main()
