"""The façade's objects at work over two workers: queues, events, buffers, maps, programs, kernels, pools.

The stand-in is filled into a module of its own, beside the native one, so that these tests run in any
process.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from vdev.facade import stand_in
from vdev.facade.errors import native
from vdev.facade.handles import state_of
from vdev.facade.platform_device import Platform
from vdev.facade.queue import QueueState
from vdev.process.finalisers import collect
from vdev.process.switches import WorkerSpec
from vdev.session.session import Session
from vdev.start.workers import open_workers

cl: Any = ModuleType("pyopencl._cl")
stand_in.populate(cl)
mf: Any = cl.mem_flags

SOURCE = """
__kernel void add(__global const float *a, __global const float *b, __global float *c)
{ int i = get_global_id(0); c[i] = a[i] + b[i]; }
__kernel void scale(__global float *a, float x, int n)
{ int i = get_global_id(0); if (i < n) a[i] *= x; }
__kernel void sizes(__global int *out)
{ int i = get_global_id(0); out[i] = 10000 * get_local_size(0) + get_global_offset(0); }
"""


@pytest.fixture(scope="module")
def platform() -> Iterator[Any]:
    session = Session(open_workers([WorkerSpec("cpu", (), 2)]))
    yield Platform(session)
    session.close()


@pytest.fixture
def ctx(platform: Any) -> Any:
    return cl.Context(platform.get_devices())


@pytest.fixture
def queue(ctx: Any) -> Any:
    return cl.CommandQueue(ctx)


@pytest.fixture(scope="module")
def built(platform: Any) -> Any:
    program = cl._Program(cl.Context(platform.get_devices()), SOURCE)
    program._build(b"")
    return program


def kernel_of(ctx: Any, name: str) -> Any:
    program = cl._Program(ctx, SOURCE)
    program._build(b"")
    return cl.Kernel(program, name)


def buffer_of(ctx: Any, array: Any) -> Any:
    return cl.Buffer(ctx, mf.READ_WRITE | mf.COPY_HOST_PTR, hostbuf=array)


def read(queue: Any, buffer: Any, dtype: Any = np.float32) -> Any:
    host = np.empty(buffer.get_info(cl.mem_info.SIZE) // np.dtype(dtype).itemsize, dtype)
    cl._enqueue_read_buffer(queue, buffer, host)
    return host


class TestDevice:
    def test_one_platform_with_one_device_of_all_workers(self, platform: Any) -> None:
        (device,) = platform.get_devices()
        info = cl.device_info
        workers = state_of(platform).session.workers
        assert len(workers) == 2
        # all of them share the CPU
        assert {w.compute_units for w in workers} == {device.get_info(info.MAX_COMPUTE_UNITS)}
        assert device.get_info(info.GLOBAL_MEM_SIZE) == sum(w.memory_nbytes for w in workers)
        assert device.get_info(info.MAX_MEM_ALLOC_SIZE) == sum(w.max_alloc_nbytes for w in workers)
        assert device.get_info(info.NAME) == f"vdev: 2 x {workers[0].name}"
        assert device.get_info(info.PLATFORM) is platform

    def test_objects_keep_nothing_that_programs_see(self, ctx: Any, queue: Any) -> None:
        pool = cl.MemoryPool(cl.ImmediateAllocator(queue))
        made = (ctx, queue, ctx.get_info(cl.context_info.DEVICES)[0], cl.Buffer(ctx, mf.READ_WRITE, 64), pool,
                pool(64), cl.UserEvent(ctx), cl._Program(ctx, "__kernel void f() {}"), cl.SVMAllocator(ctx))  # fmt: skip
        assert all(name.startswith("_") for item in made for name in vars(item))

    def test_programs_subclasses_have_names_of_their_own(self, ctx: Any) -> None:
        class Queue(cl.CommandQueue):  # type: ignore[name-defined,misc]
            def __init__(self) -> None:
                super().__init__(ctx)
                self._state = self.state = self.session = self.order = self.submit = None

        queue, host = Queue(), np.arange(4, dtype=np.float32)
        buffer = cl.Buffer(ctx, mf.READ_WRITE, host.nbytes)
        cl._enqueue_write_buffer(queue, buffer, host)
        assert read(queue, buffer).tolist() == host.tolist()

    def test_every_query_answers_or_says_that_it_is_of_another_device(self, platform: Any) -> None:
        (device,) = platform.get_devices()
        silent = []
        for name, number in vars(cl.device_info).items():
            if not name.startswith("_") and isinstance(number, int):
                try:
                    device.get_info(number)
                except cl.LogicError:
                    silent.append(name)
        assert all(name.endswith(("_NV", "_AMD", "_INTEL", "_QCOM")) or name in VENDORS for name in silent)

    def test_what_is_absent_is_reported_absent(self, platform: Any) -> None:
        (device,) = platform.get_devices()
        info = cl.device_info
        for query in (info.PIPE_SUPPORT, info.MAX_NUM_SUB_GROUPS):
            assert device.get_info(query) == 0

    def test_intermediate_languages_are_those_of_every_worker(self, platform: Any) -> None:
        (device,) = platform.get_devices()
        workers = state_of(platform).session.workers
        names = device.get_info(cl.device_info.IL_VERSION).split()
        assert all(
            name in worker.native[cl.device_info.IL_VERSION].split() for name in names for worker in workers
        )

    def test_handles_lead_back(self, ctx: Any, queue: Any, platform: Any) -> None:
        assert cl.Context.from_int_ptr(ctx.int_ptr) is ctx
        assert cl.CommandQueue.from_int_ptr(queue.int_ptr) is queue
        assert cl.Platform.from_int_ptr(platform.int_ptr) is platform
        with pytest.raises(cl.LogicError):
            cl.Context.from_int_ptr(queue.int_ptr)


VENDORS = ("SPIR_VERSIONS", "MAX_ATOMIC_COUNTERS_EXT")


class TestEvents:
    def test_user_event_holds_a_command_back(self, ctx: Any, queue: Any) -> None:
        go = cl.UserEvent(ctx)
        buffer = buffer_of(ctx, np.zeros(16, np.float32))
        filled = cl._enqueue_fill_buffer(queue, buffer, np.float32(7), 0, 64, wait_for=[go])
        assert filled.get_info(cl.event_info.COMMAND_EXECUTION_STATUS) > 0
        go.set_status(0)
        filled.wait()
        assert (read(queue, buffer) == 7).all()

    def test_callback_gets_the_status_in_another_thread(self, ctx: Any, queue: Any) -> None:
        go = cl.UserEvent(ctx)
        marker = cl._enqueue_marker_with_wait_list(queue, [go])
        heard: list[tuple[int, int]] = []
        done = threading.Event()

        def hear(status: int) -> None:
            heard.append((status, threading.get_ident()))
            done.set()

        marker.set_callback(cl.command_execution_status.COMPLETE, hear)
        assert not done.is_set()
        go.set_status(0)
        assert done.wait(100)
        assert heard[0][0] == 0
        assert heard[0][1] != threading.get_ident()

    def test_callback_may_enqueue_and_wait(self, ctx: Any, queue: Any) -> None:
        done = threading.Event()

        def work(status: int) -> None:
            cl._enqueue_marker_with_wait_list(queue, None).wait()
            done.set()

        cl._enqueue_marker_with_wait_list(queue, None).set_callback(0, work)
        assert done.wait(100)

    def test_failure_reaches_dependants_and_nothing_else(self, ctx: Any, queue: Any) -> None:
        failed = cl.UserEvent(ctx)
        buffer = buffer_of(ctx, np.ones(16, np.float32))
        dependant = cl._enqueue_fill_buffer(queue, buffer, np.float32(7), 0, 64, wait_for=[failed])
        failed.set_status(-5)
        with pytest.raises(cl.RuntimeError) as caught:
            dependant.wait()
        code = cl.status_code.EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST
        assert caught.value.args[0].code() == code
        assert dependant.get_info(cl.event_info.COMMAND_EXECUTION_STATUS) < 0
        assert (read(queue, buffer) == 1).all()

    def test_blocking_read_after_failure_raises(self, ctx: Any, queue: Any) -> None:
        failed = cl.UserEvent(ctx)
        failed.set_status(-5)
        buffer = buffer_of(ctx, np.ones(16, np.float32))
        with pytest.raises(cl.RuntimeError) as caught:
            cl._enqueue_read_buffer(queue, buffer, np.empty(16, np.float32), wait_for=[failed])
        assert caught.value.args[0].code() == cl.status_code.EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST

    def test_profiling_times_are_in_order(self, ctx: Any) -> None:
        queue = cl.CommandQueue(ctx, properties=cl.command_queue_properties.PROFILING_ENABLE)
        event = cl._enqueue_write_buffer(queue, buffer_of(ctx, np.zeros(64)), np.ones(64))
        info = cl.profiling_info
        times = [event.get_profiling_info(x) for x in (info.QUEUED, info.SUBMIT, info.START, info.END)]
        assert times == sorted(times)
        assert times[0] > 0

    def test_profiling_times_are_those_of_the_first_and_of_the_slowest_worker(self, ctx: Any) -> None:
        program = cl._Program(
            ctx,
            "kernel void f(global float *a) { int i = get_global_id(0); float x = i;"
            " for (int k = 0; k < (i < 4096 ? 10 : 4000); k++) x = x * 0.5f + 1; a[i] = x; }",
        )
        program._build(b"")
        kernel = cl.Kernel(program, "f")
        buffer = cl.Buffer(ctx, mf.READ_WRITE, 4 * 8192)
        kernel.set_arg(0, buffer)
        queue = cl.CommandQueue(ctx, properties=cl.command_queue_properties.PROFILING_ENABLE)
        event = cl.enqueue_nd_range_kernel(queue, kernel, (8192,), (64,))
        event.wait()
        spans = state_of(event).spans
        assert len(spans) == 2  # one for each worker
        info = cl.profiling_info
        submitted, start, end = (event.get_profiling_info(x) for x in (info.SUBMIT, info.START, info.END))
        assert start == max(submitted, min(first for first, _ in spans))
        assert end == max(last for _, last in spans)

    def test_dropped_read_has_happened(self, ctx: Any, queue: Any) -> None:
        """The event of a read that nobody keeps waits when it goes, as programs rely on."""
        buffer = buffer_of(ctx, np.full(1 << 20, 3, np.float32))
        host = np.zeros(1 << 20, np.float32)
        cl._enqueue_read_buffer(queue, buffer, host, is_blocking=False)
        assert (host == 3).all()

    def test_nanny_holds_its_ward_until_waited_for(self, ctx: Any, queue: Any) -> None:
        host = np.zeros(16, np.float32)
        event = cl._enqueue_write_buffer(queue, buffer_of(ctx, host), host, is_blocking=False)
        assert event.get_ward() is host
        event.wait()
        assert event.get_ward() is None

    def test_wait_for_several(self, ctx: Any) -> None:
        queue = cl.CommandQueue(ctx, properties=1)
        events = [cl._enqueue_marker_with_wait_list(queue, None) for _ in range(10)]
        cl.wait_for_events(events)
        assert all(event.get_info(cl.event_info.COMMAND_EXECUTION_STATUS) == 0 for event in events)


class TestBuffers:
    def test_aliased_memory_is_seen_after_a_map(self, ctx: Any, queue: Any) -> None:
        host = np.arange(64, dtype=np.float32)
        buffer = cl.Buffer(ctx, mf.READ_WRITE | mf.USE_HOST_PTR, hostbuf=host)
        kernel = kernel_of(ctx, "scale")
        kernel._set_arg_multi((0, buffer, 1, np.float32(2), 2, np.int32(64)))
        cl.enqueue_nd_range_kernel(queue, kernel, (64,), None)
        array, _event = cl.enqueue_map_buffer(queue, buffer, cl.map_flags.READ, 0, (64,), np.float32)
        assert array.ctypes.data == host.ctypes.data
        assert (host == 2 * np.arange(64)).all()

    def test_map_writes_through_and_ends_with_its_array(self, ctx: Any, queue: Any) -> None:
        buffer = buffer_of(ctx, np.zeros(64, np.float32))
        array, _event = cl.enqueue_map_buffer(queue, buffer, cl.map_flags.WRITE, 128, (4, 8), np.float32)
        assert type(array.base) is cl.MemoryMap
        assert buffer.get_info(cl.mem_info.MAP_COUNT) == 1
        array[...] = 5
        del array, _event
        collect()
        assert buffer.get_info(cl.mem_info.MAP_COUNT) == 0
        assert read(queue, buffer).tolist() == [0.0] * 32 + [5.0] * 32

    def test_map_of_structured_types_keeps_them(self, ctx: Any, queue: Any) -> None:
        kind = np.dtype([("a", "i1"), ("b", "f8")], align=True)
        buffer = buffer_of(ctx, np.zeros(4, kind))
        array, _event = cl.enqueue_map_buffer(queue, buffer, cl.map_flags.READ, 0, (2, 2), kind, "F")
        assert array.dtype == kind
        assert array.flags.f_contiguous
        assert array.shape == (2, 2)

    def test_sub_buffer_is_a_part_and_keeps_the_whole(self, ctx: Any, queue: Any) -> None:
        whole = buffer_of(ctx, np.arange(256, dtype=np.float32))
        part = whole[512:768]
        whole.release()
        cl._enqueue_fill_buffer(queue, part, np.float32(-1), 0, 16)
        assert read(queue, part).tolist() == [-1.0] * 4 + list(range(132, 192))

    def test_released_buffers_are_refused(self, ctx: Any, queue: Any) -> None:
        buffer = buffer_of(ctx, np.zeros(64, np.float32))
        kernel = kernel_of(ctx, "scale")
        kernel._set_arg_multi((0, buffer, 1, np.float32(2), 2, np.int32(64)))
        buffer.release()
        for code, call in (
            (cl.status_code.INVALID_MEM_OBJECT, lambda: read(queue, buffer)),
            (cl.status_code.INVALID_MEM_OBJECT, lambda: buffer.get_info(cl.mem_info.SIZE)),
            (cl.status_code.INVALID_MEM_OBJECT, lambda: kernel.set_arg(0, buffer)),
            (
                cl.status_code.INVALID_KERNEL_ARGS,
                lambda: cl.enqueue_nd_range_kernel(queue, kernel, (64,), None),
            ),
        ):
            with pytest.raises(cl.LogicError) as caught:
                call()
            assert caught.value.args[0].code() == code

    def test_last_reference_gives_the_memory_back(self, ctx: Any, queue: Any) -> None:
        buffer = buffer_of(ctx, np.zeros(64, np.float32))
        kernel = kernel_of(ctx, "scale")
        kernel.set_arg(0, buffer)
        other = cl.Buffer.from_int_ptr(buffer.int_ptr)
        virtual = weakref.ref(state_of(buffer).buffer)
        buffer.release()
        assert read(queue, other).size == 64
        del other
        queue.finish()
        collect()
        assert virtual() is None

    def test_rectangles_as_in_numpy(self, ctx: Any, queue: Any) -> None:
        rng = np.random.default_rng(0)
        field = rng.integers(0, 255, (6, 8, 16), np.uint8)
        buffer = buffer_of(ctx, field)
        host = np.zeros((4, 5, 9), np.uint8)
        cl._enqueue_read_buffer_rect(queue, buffer, host, (3, 2, 1), (1, 1, 1), (7, 3, 2), (16, 128), (9, 45))
        expected = np.zeros_like(host)
        expected[1:3, 1:4, 1:8] = field[1:3, 2:5, 3:10]
        assert (host == expected).all()
        cl._enqueue_write_buffer_rect(
            queue, buffer, host, (0, 0, 3), (1, 1, 1), (7, 3, 2), (16, 128), (9, 45)
        )
        field[3:5, 0:3, 0:7] = expected[1:3, 1:4, 1:8]
        cl._enqueue_copy_buffer_rect(
            queue, buffer, buffer, (0, 0, 0), (8, 4, 4), (8, 4, 2), (16, 128), (16, 128)
        )
        field[4:6, 4:8, 8:16] = field[0:2, 0:4, 0:8]
        assert (read(queue, buffer, np.uint8) == field.ravel()).all()

    def test_beyond_the_host_memory_nothing_is_touched(self, ctx: Any, queue: Any) -> None:
        buffer = buffer_of(ctx, np.zeros(64, np.uint8))
        with pytest.raises(cl.LogicError):
            cl._enqueue_read_buffer_rect(
                queue, buffer, np.zeros(16, np.uint8), (0, 0, 0), (0, 0, 0), (8, 4, 1)
            )


class TestKernels:
    def test_arguments_are_captured_when_enqueued(self, ctx: Any, queue: Any) -> None:
        go = cl.UserEvent(ctx)
        buffer = buffer_of(ctx, np.ones(64, np.float32))
        kernel = kernel_of(ctx, "scale")
        kernel._set_arg_multi((0, buffer, 1, np.float32(3), 2, np.int32(64)))
        cl.enqueue_nd_range_kernel(queue, kernel, (64,), None, wait_for=[go])
        kernel.set_arg(1, np.float32(100))
        go.set_status(0)
        assert (read(queue, buffer) == 3).all()

    def test_typed_arguments(self, ctx: Any, queue: Any) -> None:
        buffer = buffer_of(ctx, np.ones(8, np.float32))
        kernel = kernel_of(ctx, "scale")
        kernel._set_arg_multi((0, buffer))
        kernel._set_arg_buf_pack_multi((1, b"f", 2, 2, b"i", np.int64(4)))
        cl.enqueue_nd_range_kernel(queue, kernel, (8,), (4,))
        assert read(queue, buffer).tolist() == [2.0] * 4 + [1.0] * 4
        kernel._set_arg_buf_multi((2, np.int32(8).tobytes()))
        cl.enqueue_nd_range_kernel(queue, kernel, (8,), (4,))
        assert read(queue, buffer).tolist() == [4.0] * 4 + [2.0] * 4

    def test_clone_has_arguments_of_its_own(self, ctx: Any, queue: Any) -> None:
        buffer = buffer_of(ctx, np.ones(8, np.float32))
        kernel = kernel_of(ctx, "scale")
        kernel._set_arg_multi((0, buffer, 1, np.float32(3), 2, np.int32(8)))
        copy = kernel.clone()
        kernel.set_arg(1, np.float32(100))
        cl.enqueue_nd_range_kernel(queue, copy, (8,), None)
        assert (read(queue, buffer) == 3).all()

    def test_groups_and_offset(self, ctx: Any, queue: Any) -> None:
        buffer = buffer_of(ctx, np.zeros(32, np.int32))
        kernel = kernel_of(ctx, "sizes")
        kernel.set_arg(0, buffer)
        cl.enqueue_nd_range_kernel(queue, kernel, (3,), (4,), (2,), None, True)
        assert read(queue, buffer, np.int32).tolist() == [0] * 8 + [40008] * 12 + [0] * 12

    def test_argument_information(self, built: Any) -> None:
        kernel = cl.Kernel(built, "add")
        info = cl.kernel_arg_info
        assert kernel.get_arg_info(0, info.NAME) == "a"
        assert kernel.get_arg_info(0, info.TYPE_NAME) == "float*"
        assert kernel.get_arg_info(0, info.ADDRESS_QUALIFIER) == cl.kernel_arg_address_qualifier.GLOBAL
        assert kernel.get_arg_info(0, info.TYPE_QUALIFIER) == cl.kernel_arg_type_qualifier.CONST
        assert kernel.get_arg_info(2, info.TYPE_QUALIFIER) == 0
        scale = cl.Kernel(built, "scale")
        assert scale.get_arg_info(1, info.ADDRESS_QUALIFIER) == cl.kernel_arg_address_qualifier.PRIVATE
        assert scale.get_arg_info(1, info.ACCESS_QUALIFIER) == cl.kernel_arg_access_qualifier.NONE


class TestPrograms:
    def test_binary_leads_back_to_the_program(self, ctx: Any, queue: Any) -> None:
        program = cl._Program(ctx, "#ifdef N\nkernel void f(global int *p) { *p = N; }\n#endif")
        program._build(b"-D N=42")
        (binary,) = program.get_info(cl.program_info.BINARIES)
        again = cl._Program(ctx, ctx.get_info(cl.context_info.DEVICES), [binary])
        assert again.kind() == cl.program_kind.BINARY
        again._build(b"")
        (kernel,) = again.all_kernels()
        buffer = buffer_of(ctx, np.zeros(1, np.int32))
        kernel.set_arg(0, buffer)
        cl.enqueue_nd_range_kernel(queue, kernel, (1,), None)
        assert read(queue, buffer, np.int32).tolist() == [42]

    def test_build_log_has_the_users_line(self, ctx: Any) -> None:
        program = cl._Program(ctx, "kernel void f(global int *p)\n{\n  *p = missing;\n}\n")
        with pytest.raises(cl.RuntimeError) as caught:
            program._build(b"")
        assert caught.value.args[0].code() == cl.status_code.BUILD_PROGRAM_FAILURE
        log = program.get_build_info(state_of(ctx).device, cl.program_build_info.LOG)
        assert ":3:" in log
        assert "missing" in log
        assert program.get_build_info(state_of(ctx).device, cl.program_build_info.STATUS) == -2

    def test_build_again_after_a_failure(self, ctx: Any) -> None:
        program = cl._Program(ctx, "kernel void f(global int *p) { *p = N; }")
        with pytest.raises(cl.RuntimeError):
            program._build(b"")
        program._build(b"-DN=3")
        assert program.get_info(cl.program_info.KERNEL_NAMES) == "f"

    def test_link_with_a_common_header(self, ctx: Any, queue: Any) -> None:
        header = cl._Program(
            ctx,
            "#ifndef H\n#define H\ntypedef struct { int a; } box;\n"
            "inline int three(void) { return 3; }\nint twice(box b);\n#endif\n",
        )
        library = cl._Program(ctx, '#include "h.h"\nint twice(box b) { return 2 * b.a; }')
        main = cl._Program(
            ctx,
            '#include "h.h"\n#define K 7\n'
            "kernel void f(global int *p) { box b; b.a = three(); *p = twice(b) + K; }",
        )
        library.compile(b"", None, [("h.h", header)])
        main.compile(b"", None, [("h.h", header)])
        linked = cl._Program.link(ctx, [library, main], b"")
        buffer = buffer_of(ctx, np.zeros(1, np.int32))
        kernel = cl.Kernel(linked, "f")
        kernel.set_arg(0, buffer)
        cl.enqueue_nd_range_kernel(queue, kernel, (1,), None)
        assert read(queue, buffer, np.int32).tolist() == [13]

    def test_link_of_what_is_missing_fails(self, ctx: Any) -> None:
        program = cl._Program(ctx, "void missing(void); kernel void f(void) { missing(); }")
        program.compile(b"", None, [])
        with pytest.raises(cl.RuntimeError) as caught:
            cl._Program.link(ctx, [program], b"")
        assert caught.value.args[0].code() == cl.status_code.LINK_PROGRAM_FAILURE


class TestPools:
    def test_blocks_are_handed_out_again(self, queue: Any) -> None:
        pool = cl.MemoryPool(cl.ImmediateAllocator(queue))
        first = pool.allocate(1000)
        number = first.int_ptr
        assert (pool.active_blocks, pool.held_blocks, pool.active_bytes) == (1, 0, 1000)
        first.release()
        assert (pool.active_blocks, pool.held_blocks, pool.active_bytes) == (0, 1, 0)
        second = pool(1001)
        assert second.int_ptr == number
        del second
        assert pool.held_blocks == 1
        pool.free_held()
        assert (pool.held_blocks, pool.managed_bytes) == (0, 0)

    def test_pooled_buffers_are_memory(self, ctx: Any, queue: Any) -> None:
        pooled = cl.MemoryPool(cl.ImmediateAllocator(queue))(64)
        cl._enqueue_fill_buffer(queue, pooled, np.float32(3), 0, 64)
        kernel = kernel_of(ctx, "scale")
        kernel._set_arg_multi((0, pooled, 1, np.float32(2), 2, np.int32(16)))
        cl.enqueue_nd_range_kernel(queue, kernel, (16,), None)
        assert (read(queue, pooled)[:16] == 6).all()
        pooled.release()
        with pytest.raises(cl.LogicError):
            pooled.release()

    @pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 1000, 4096, 123456789])
    def test_bins_as_natively(self, size: int) -> None:
        ours, theirs = cl._TestMemoryPool(), native._TestMemoryPool()
        number = theirs.bin_number(size)
        assert ours.bin_number(size) == number
        assert ours.alloc_size(number) == theirs.alloc_size(number)

    def test_allocators_make_buffers(self, ctx: Any, queue: Any) -> None:
        assert type(cl.DeferredAllocator(ctx)(64)) is cl.Buffer
        assert cl.ImmediateAllocator(queue, mf.READ_ONLY)(64).get_info(cl.mem_info.FLAGS) == mf.READ_ONLY
        assert cl.ImmediateAllocator(queue)(0) is None


class TestThreads:
    def test_many_threads_share_a_context(self, ctx: Any) -> None:
        """Each thread has a queue, buffers and a kernel; the results are its own."""
        wrong: list[str] = []

        def work(seed: int) -> None:
            try:
                queue = cl.CommandQueue(ctx, properties=seed % 2)
                kernel = kernel_of(ctx, "scale")
                data = np.full(1000, seed, np.float32)
                buffer = buffer_of(ctx, data)
                event = None
                for _ in range(20):
                    kernel._set_arg_multi((0, buffer, 1, np.float32(-1), 2, np.int32(1000)))
                    waits = None if event is None else [event]
                    event = cl.enqueue_nd_range_kernel(queue, kernel, (1000,), None, None, waits)
                host = np.empty(1000, np.float32)
                cl._enqueue_read_buffer(queue, buffer, host, wait_for=[event])
                if not (host == seed).all():
                    wrong.append(f"thread {seed}: {host[:4]}")
            except Exception as error:
                wrong.append(f"thread {seed}: {error!r}")

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 7)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not wrong

    def test_what_is_dropped_is_gone(self, ctx: Any, queue: Any) -> None:
        """A thousand launches over fresh buffers leave nothing behind but the few that serve the next ones."""
        kernel = kernel_of(ctx, "scale")
        references = []
        for _ in range(1000):
            buffer = cl.Buffer(ctx, mf.READ_WRITE, 4096)
            references.append(weakref.ref(state_of(buffer).buffer))
            kernel._set_arg_multi((0, buffer, 1, np.float32(2), 2, np.int32(16)))
            cl.enqueue_nd_range_kernel(queue, kernel, (16,), None)
        del buffer
        queue.finish()
        collect()
        left = {id(found) for reference in references if (found := reference()) is not None}
        assert len(left) <= 3
        found = None
        state_of(ctx).session.spares.drop()
        collect()
        assert sum(reference() is not None for reference in references) <= 1


def test_pyopencl_is_not_needed_by_the_facade_itself() -> None:
    """What the stand-in is filled from knows PyOpenCL's Python layer only when a kernel is made."""
    assert cl.Context.__module__ == "pyopencl._cl"
    assert "vdev.facade.stand_in" in sys.modules


def test_a_read_behind_a_failure_names_the_wait_list(
    queue: Any, ctx: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it was handed over before anybody knew (specification 5.11)."""
    buffer = buffer_of(ctx, np.zeros(16, np.float32))
    host, event = np.empty(16, np.float32), cl._enqueue_marker(queue)
    event.wait()
    monkeypatch.setattr(QueueState, "read_at_once", lambda self, command, after, clocked: -5)
    with pytest.raises(native.Error) as plain:
        cl._enqueue_read_buffer(queue, buffer, host)
    assert plain.value.args[0].code() == -5
    monkeypatch.setattr(type(state_of(event)), "status", -9)
    with pytest.raises(native.Error) as behind:
        cl._enqueue_read_buffer(queue, buffer, host, wait_for=[event])
    assert behind.value.args[0].code() == native.status_code.EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST


_ASKS = """
#ifdef __opencl_c_subgroups
#define FEATURE 1
#else
#define FEATURE 0
#endif
#ifdef cl_khr_subgroup_ballot
#define EXTENSION cl_khr_subgroup_ballot
#else
#define EXTENSION 0
#endif
global int total;
kernel void asks(global int *out) { total = FEATURE; out[0] = total; out[1] = EXTENSION; out[2] = __LINE__; }
"""


def test_programs_that_run_as_they_are_hear_of_no_other_features(ctx: Any, queue: Any) -> None:
    """The device has no sub-groups, so a program must not take the way for devices with them, whoever reads it."""

    def built(source: str, options: bytes = b"-cl-std=CL3.0") -> Any:
        program = cl._Program(ctx, source)
        program._build(options)
        return program

    def told(options: bytes) -> list[int]:
        out = buffer_of(ctx, np.full(3, -1, np.int32))
        kernel = cl.Kernel(built(_ASKS, options), "asks")
        kernel.set_arg(0, out)
        cl.enqueue_nd_range_kernel(queue, kernel, (1,), None)
        return [int(each) for each in read(queue, out, np.int32)]

    assert told(b"-cl-std=CL3.0") == [0, 0, 13]
    assert told(b"-cl-std=CL3.0 -Dcl_khr_subgroup_ballot=5") == [0, 5, 13]  # the program's own
    for condition in ("ifndef __opencl_c_subgroups", "ifdef __opencl_c_int64"):
        with pytest.raises(native.Error, match="BUILD_PROGRAM_FAILURE"):
            built(f"#{condition}\n#error stop here\n#endif\n{_ASKS}")
    built(f"#ifdef __opencl_c_subgroups\n#error stop here\n#endif\n{_ASKS}")
