"""Workers on a native OpenCL device: every operation of the seam, and the executor on top."""

from __future__ import annotations

import importlib
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from vdev.translators.ranges.ndrange import Chunk, NDRange, whole_chunk
from vdev.translators.ranges.region import Region

from vdev.backends.base import BackendProgram, Box, LaunchShape, LocalBytes
from vdev.backends.opencl.backend import OpenCLBackend, opener
from vdev.backends.opencl.binaries import Binaries
from vdev.backends.opencl.boxes import halves, pieces_within
from vdev.backends.opencl.device import SharedDevice
from vdev.backends.opencl.marker import OpenCLMarker
from vdev.backends.opencl.native import load_native, native_kernel
from vdev.errors import BackendError, BuildFailure, NoWorkers
from vdev.executor.completion import Completion
from vdev.executor.executor import Executor
from vdev.executor.launch_step import LaunchRecipe
from vdev.planner.instructions import Instruction, Launch, Plan, Reserve, Touch
from vdev.process.switches import WorkerSpec
from vdev.start.engines import register_engines
from vdev.start.workers import open_workers

SOURCE = """
struct where { long shift[2]; };
__kernel void add(__global uint *out, __global const uint *in, uint more, struct where at)
{
    size_t i = get_global_id(0) - get_global_offset(0); /* a worker has its part alone */
    ((__global uint *)((__global char *)out - at.shift[0]))[i + at.shift[1]] = in[i] + more;
}
__kernel void sum(__global uint *out, __global const uint *in, __local uint *part)
{
    part[get_local_id(0)] = in[get_global_id(0)];
    barrier(CLK_LOCAL_MEM_FENCE);
    uint total = 0;
    for (uint i = 0; i < get_local_size(0); i++) total += part[i];
    if (get_local_id(0) == 0) out[get_group_id(0)] = total + (in == 0);
}
__kernel void isnull(__global uint *out, __global const uint *in) { out[0] = in == 0; }
__kernel __attribute__((reqd_work_group_size(16, 1, 1))) void slow(__global uint *out, uint rounds)
{
    uint x = out[get_global_id(0)];
    for (uint i = 0; i < rounds; i++) x = x * 1664525u + 1013904223u;
    out[get_global_id(0)] = x;
}
"""
PROGRAM = BackendProgram(SOURCE)


@pytest.fixture(scope="module")
def device() -> Any:
    register_engines()
    cl = load_native()
    devices = [device for platform in cl.get_platforms() for device in platform.get_devices()]
    return next(d for d in devices if d.get_info(cl.device_info.TYPE) & cl.device_type.CPU)


@pytest.fixture
def backend(device: Any) -> Iterator[OpenCLBackend]:
    backend = OpenCLBackend(device, 2)
    yield backend
    backend.close()


def put(backend: OpenCLBackend, data: np.ndarray) -> Any:
    data = data.view(np.uint8)
    allocation = backend.allocate(len(data))
    backend.write(allocation, data, Box.contiguous(0, 0, len(data)))
    backend.record().wait()
    return allocation


def get(backend: OpenCLBackend, allocation: Any) -> np.ndarray:
    found = np.zeros(allocation.nbytes, np.uint8)
    backend.read(allocation, found, Box.contiguous(0, 0, len(found)))
    backend.record().wait()
    return found


def shape(nitems: int, local: int, hidden: bytes | None = None) -> LaunchShape:
    ndrange = NDRange((nitems,), (local,), (0,))
    return LaunchShape(ndrange, whole_chunk(ndrange), (nitems,), (local,), (0,), (), hidden)


def numbers(count: int) -> np.ndarray:
    return np.arange(count, dtype=np.uint32) * np.uint32(2654435761)


BOXES = [
    Box.contiguous(3, 17, 40),
    Box((1, 5, 8), 4, (400, 20), 2, (300, 16)),
    Box((1, 5, 8), 4, (400, 20), 2, (40, 8)),  # dense on one side
    Box((3, 4, 7), 1, (160, 30), 9, (120, 10)),
    Box((3, 1, 7), 1, (33, 7), 9, (50, 0)),  # a dimension of one has any pitch
    Box((1, 1, 0), 0, (0, 0), 0, (0, 0)),
]


def moved(source: np.ndarray, target: np.ndarray, box: Box) -> np.ndarray:
    wanted = target.copy()
    for start, to, nbytes in box.rows():
        wanted[to : to + nbytes] = source[start : start + nbytes]
    return wanted


@pytest.mark.parametrize("box", BOXES, ids=str)
def test_boxes_arrive_on_every_route(device: Any, backend: OpenCLBackend, box: Box) -> None:
    source, target = (np.random.default_rng(seed).integers(0, 256, 600, np.uint8) for seed in (1, 2))
    wanted = moved(source, target, box)
    there = put(backend, target)
    backend.write(there, source, box)
    np.testing.assert_array_equal(get(backend, there), wanted)

    host = target.copy()
    backend.read(put(backend, source), host, box)
    backend.record().wait()
    np.testing.assert_array_equal(host, wanted)

    there = put(backend, target)
    backend.copy(put(backend, source), there, box)
    np.testing.assert_array_equal(get(backend, there), wanted)

    peer = OpenCLBackend(device, 2)
    elsewhere, there = put(peer, source), put(backend, target)
    backend.order_after(peer.record())
    backend.copy_from_peer(peer, elsewhere, there, box)
    np.testing.assert_array_equal(get(backend, there), wanted)

    # Two devices share no context: there is one device here, so the way between two is called by its name.
    there = put(backend, target)
    backend._copy_through_host(peer.device, elsewhere, there, box)
    np.testing.assert_array_equal(get(backend, there), wanted)
    assert backend.counters.from_peer == box.nbytes
    assert backend.counters.local == box.nbytes
    peer.close()


def test_copies_are_made_once_more(device: Any, backend: OpenCLBackend) -> None:
    """With what is there by then; rows with gaps, and other devices' memory, take a call of their own."""
    peer = OpenCLBackend(device, 2)
    source = np.arange(64, dtype=np.uint8)
    elsewhere, there = put(peer, source), put(backend, np.zeros(64, np.uint8))
    box = Box.contiguous(8, 16, 24)
    backend.copy_from_peer(peer, elsewhere, there, box)
    again = backend.copy_again(peer, elsewhere, there, [box])
    assert again is not None
    peer.write(elsewhere, source + 100, Box.contiguous(0, 0, 64))
    backend.order_after(peer.record())
    before, pending = backend.counters.from_peer, backend.pending()
    again()
    assert backend.counters.from_peer == before + 24
    assert backend.pending() == pending + 1
    expected = np.zeros(64, np.uint8)
    expected[16:40] = source[8:32] + 100
    assert get(backend, there).tolist() == expected.tolist()
    rows = Box((1, 2, 8), 0, (32, 16), 0, (32, 16))
    for boxes in ([rows], [box, box], [], [Box.contiguous(0, 0, 0)]):
        assert backend.copy_again(peer, elsewhere, there, boxes) is None
    for memory in (elsewhere, there):
        peer.free(memory)
    peer.close()


def test_fill_and_free(backend: OpenCLBackend) -> None:
    data = np.arange(64, dtype=np.uint8)
    allocation = put(backend, data)
    backend.fill(allocation, 8, 24, b"\x01\x02\x03\x04")
    data[8:32] = np.tile([1, 2, 3, 4], 6)
    np.testing.assert_array_equal(get(backend, allocation), data)
    held = backend.device.held_nbytes
    backend.free(allocation)
    assert backend.counters.allocated_nbytes == 0
    assert backend.device.held_nbytes == held - 64


def test_small_writes_have_read_the_hosts_memory_when_they_return(backend: OpenCLBackend) -> None:
    """Behind a kernel, so that none of them has begun."""
    state = put(backend, numbers(16))
    values = numbers(32)
    target = put(backend, np.zeros(32, np.uint32))
    backend.build(PROGRAM)
    backend.launch(backend.kernel(PROGRAM, "slow"), [state, np.uint32(20_000_000).tobytes()], shape(16, 16))
    assert backend.small_write_nbytes >= 40
    backend.write_now(target, values.view(np.uint8), Box.contiguous(8, 16, 40))
    values[:] = 7
    found = get(backend, target).view(np.uint32)
    expected = np.zeros(32, np.uint32)
    expected[4:14] = numbers(32)[2:12]
    assert found.tolist() == expected.tolist()
    # a box, whose last row ends with the memory
    values[:] = numbers(32)
    backend.write_now(target, values.view(np.uint8), Box((2, 2, 8), 4, (64, 24), 12, (60, 48)))
    values[:] = 7
    for plane in range(2):
        for row in range(2):
            into, start = (12 + plane * 60 + row * 48) // 4, (4 + plane * 64 + row * 24) // 4
            expected[into : into + 2] = numbers(32)[start : start + 2]
    assert get(backend, target).view(np.uint32).tolist() == expected.tolist()


def test_writes_made_again_have_read_the_hosts_memory_when_they_return(backend: OpenCLBackend) -> None:
    state, target = put(backend, numbers(16)), put(backend, np.zeros(32, np.uint32))
    backend.build(PROGRAM)
    write, values, expected = backend.write_again(target, 16, 40), numbers(10), np.zeros(32, np.uint32)
    moved, pending = backend.counters.from_host, backend.pending()
    backend.launch(backend.kernel(PROGRAM, "slow"), [state, np.uint32(20_000_000).tobytes()], shape(16, 16))
    for number in range(3):
        values[:] = numbers(10) + number
        write(values.view(np.uint8))
    values[:] = 7
    assert backend.pending() == pending + 4
    assert backend.counters.from_host == moved + 3 * 40
    expected[4:14] = numbers(10) + 2
    assert get(backend, target).view(np.uint32).tolist() == expected.tolist()


@pytest.mark.parametrize("nbytes", [40, 64 << 10, 100 << 10])
def test_reads_made_again_are_there_where_the_worker_has_nothing_to_do(
    nbytes: int, backend: OpenCLBackend
) -> None:
    data = np.random.default_rng(6).integers(0, 255, nbytes + 16, np.uint8)
    source, seen, state = put(backend, data), np.zeros(nbytes, np.uint8), put(backend, numbers(16))
    backend.build(PROGRAM)
    begin, end = backend.read_again(source, 8, nbytes)
    other_begin, other_end = backend.read_again(source, 0, nbytes)
    is_small, pending, moved = (
        nbytes <= backend.small_read_nbytes,
        backend.pending(),
        backend.counters.to_host,
    )
    for number in range(3):
        backend.fill(source, 0, 16, bytes([number]))
        data[:16] = number
        assert backend.wait_for_all()
        for start, first, last in ((8, begin, end), (0, other_begin, other_end)):
            first()
            deliver = last(seen)
            assert (deliver is None) == is_small
            if deliver is not None:
                assert backend.wait_for_all()
                deliver(seen, 0)
            assert (seen == data[start : start + nbytes]).all()
    assert backend.pending() == pending + 9, "each counts as an operation"
    assert backend.counters.to_host == moved + 6 * nbytes
    # behind a kernel, nobody waits in `end`
    assert backend.wait_for_all()
    backend.launch(backend.kernel(PROGRAM, "slow"), [state, np.uint32(100_000_000).tobytes()], shape(16, 16))
    backend.fill(source, 0, 16, b"\x09")
    begin()
    seen[:] = 0
    deliver = end(seen)
    assert deliver is not None
    assert not seen.any()
    assert backend.wait_for_all()
    deliver(seen, 0)
    data[:16] = 9
    assert (seen == data[8 : 8 + nbytes]).all()
    # nor behind what has failed, which a marker tells
    failing = backend._cl.UserEvent(backend.device.context)
    failing.set_status(-5)
    backend._events.append(failing)  # in the place of a command that fails on the device
    assert not backend.wait_for_all()
    begin()
    assert end(seen) is not None
    assert not backend.wait_for_all()
    with pytest.raises(BackendError):
        backend.record().wait()


def test_kernel_arguments_of_every_kind(backend: OpenCLBackend) -> None:
    backend.build(PROGRAM)
    source, out = put(backend, numbers(64)), put(backend, np.zeros(64, np.uint32))
    add = backend.kernel(PROGRAM, "add")
    more = np.uint32(5).tobytes()
    hidden = np.array([0, 0], np.int64).tobytes()
    backend.launch(add, [out, source, more], shape(64, 16, hidden))
    np.testing.assert_array_equal(get(backend, out).view(np.uint32), numbers(64) + np.uint32(5))
    # only what changes is set again, and a place within memory is an argument too
    backend.launch(add, [out, (source, 128), more], shape(16, 16, np.array([-32, 0], np.int64).tobytes()))
    np.testing.assert_array_equal(get(backend, out).view(np.uint32)[8:24], numbers(64)[32:48] + np.uint32(5))

    total = backend.kernel(PROGRAM, "sum")
    backend.launch(total, [out, source, LocalBytes(64)], shape(64, 16))
    wanted = numbers(64).reshape(4, 16).sum(axis=1, dtype=np.uint32)
    np.testing.assert_array_equal(get(backend, out).view(np.uint32)[:4], wanted)

    null = backend.kernel(PROGRAM, "isnull")
    for argument, wanted_null in ((None, 1), (source, 0), (None, 1)):
        backend.launch(null, [out, argument], shape(1, 1))
        assert get(backend, out).view(np.uint32)[0] == wanted_null


def test_memory_freed_and_taken_again_is_set_again(backend: OpenCLBackend) -> None:
    backend.build(PROGRAM)
    kernel, hidden = backend.kernel(PROGRAM, "add"), bytes(16)
    source = put(backend, numbers(16))
    for more in range(20):
        out = put(backend, np.zeros(16, np.uint32))
        backend.launch(kernel, [out, source, np.uint32(more).tobytes()], shape(16, 16, hidden))
        np.testing.assert_array_equal(get(backend, out).view(np.uint32), numbers(16) + np.uint32(more))
        backend.free(out)


def test_what_an_earlier_process_has_built_takes_no_compiler(
    device: Any, backend: OpenCLBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VDEV_CACHE", "1")
    monkeypatch.setenv("VDEV_CACHE_DIR", str(tmp_path / "cache"))
    source = "__kernel void k(__global uint *a) { a[0] = 42; }"
    first, second, changed = (BackendProgram(text) for text in (source, source, source + "//"))
    assert backend.kept(first) is None
    looked = Counter[object]()
    find = Binaries.get
    monkeypatch.setattr(Binaries, "get", lambda self, each: looked.update([each]) or find(self, each))
    result = backend.build(first)
    assert not looked  # it is known that there is nothing
    assert backend.kept(first) is result
    again = backend.kept(second)
    assert again is not None
    assert backend.build(second) is again
    assert again.binary == result.binary
    assert backend.kept(changed) is None
    out = put(backend, np.zeros(1, np.uint32))
    backend.launch(backend.kernel(second, "k"), [out], shape(1, 1))
    assert get(backend, out).view(np.uint32)[0] == 42
    broken = BackendProgram("__kernel void k(__global int *a) { a[0] = nothing; }")
    with pytest.raises(BuildFailure):
        backend.build(broken)
    assert backend.kept(broken) is None


def test_nobody_waits_for_a_build_that_another_thread_is_at(backend: OpenCLBackend) -> None:
    program = BackendProgram("__kernel void k(__global uint *a) { a[0] = 43; }")
    backend.build(program)
    with backend.device._built(program).lock:
        assert backend.kept(program) is None
    assert backend.kept(program) is not None


def test_builds_are_shared_and_describe_their_kernels(device: Any, backend: OpenCLBackend) -> None:
    other = OpenCLBackend(device, 2)
    result = backend.build(PROGRAM)
    assert other.build(PROGRAM) is result
    assert set(result.kernels) == {"add", "sum", "isnull", "slow"}
    assert result.kernels["slow"].compile_work_group_size == (16, 1, 1)
    assert result.kernels["add"].work_group_size > 0
    assert [arg.name for arg in result.kernels["sum"].args] == ["out", "in", "part"]
    assert result.binary
    other.close()
    with pytest.raises(BuildFailure) as caught:
        backend.build(BackendProgram("__kernel void k(__global int *a) { a[0] = nothing; }"))
    assert "nothing" in caught.value.log
    assert caught.value.status == -11


def test_options_reach_the_compiler(backend: OpenCLBackend) -> None:
    program = BackendProgram("__kernel void k(__global uint *a) { a[0] = N; }", ("-DN=42",))
    backend.build(program)
    out = put(backend, np.zeros(1, np.uint32))
    backend.launch(backend.kernel(program, "k"), [out], shape(1, 1))
    assert get(backend, out).view(np.uint32)[0] == 42


def test_native_errors_keep_their_status(backend: OpenCLBackend) -> None:
    with pytest.raises(BackendError) as caught:
        backend.allocate(1 << 60)
    assert caught.value.status == -4
    backend.build(PROGRAM)
    out = put(backend, np.zeros(16, np.uint32))
    with pytest.raises(BackendError) as caught:
        backend.launch(backend.kernel(PROGRAM, "slow"), [out, b"\0" * 3], shape(16, 16))
    assert caught.value.status == -51
    with pytest.raises(BackendError) as caught:
        backend.launch(backend.kernel(PROGRAM, "slow"), [out, b"\0" * 4], shape(16, 8))
    assert caught.value.status == -54
    with pytest.raises(BackendError) as caught:
        backend.kernel(PROGRAM, "missing")
    assert caught.value.status == -46
    backend.launch(backend.kernel(PROGRAM, "slow"), [out, b"\0" * 4], shape(16, 16))
    backend.record().wait()


def test_markers_wait_and_tell_times_of_the_host(backend: OpenCLBackend) -> None:
    backend.build(PROGRAM)
    out = put(backend, np.zeros(16, np.uint32))
    backend.record()
    before = time.perf_counter_ns()
    rounds = np.uint32(3_000_000).tobytes()
    backend.launch(backend.kernel(PROGRAM, "slow"), [out, rounds], shape(16, 16))
    assert backend.pending() == 1
    marker = backend.record()
    assert backend.pending() == 0
    marker.wait()
    assert marker.done()
    queued, submit, start, end = marker.times() or (0, 0, 0, 0)
    assert before - 100_000 <= queued <= submit <= start < end <= time.perf_counter_ns() + 100_000
    assert backend.record().times() is None


def test_the_last_marker_waits_for_the_queue_and_an_earlier_one_does_not(
    device: Any, backend: OpenCLBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    cl, allocation, peer = backend.device.cl, backend.allocate(64), OpenCLBackend(device)
    gate, opened = cl.UserEvent(peer.device.context), []

    def finish() -> None:
        if not opened:
            gate.set_status(cl.command_execution_status.COMPLETE)
            opened.append("by waiting for the queue")
        OpenCLBackend.finish(backend)

    def give_up() -> None:  # rather than waiting for ever
        gate.set_status(cl.command_execution_status.COMPLETE)

    timer = threading.Timer(60, give_up)
    timer.daemon = True
    timer.start()
    monkeypatch.setattr(backend, "finish", finish)
    backend.fill(allocation, 0, 64, b"\1")
    earlier = backend.record()
    backend.order_after(OpenCLMarker(cl, peer.device.context, _Queue(gate), [gate], 0))
    backend.fill(allocation, 0, 64, b"\2")
    later = backend.record()
    earlier.wait()
    assert not later.done()
    assert not opened
    later.wait()
    assert opened
    timer.cancel()
    assert (get(backend, allocation) == 2).all()
    peer.close()


class _Queue:
    """One whose last command has `last` for its event."""

    def __init__(self, last: Any) -> None:
        self.last = last

    def finish(self) -> None:
        raise AssertionError("nobody waits for this one")


def test_a_launch_made_again_behind_a_marker_belongs_to_the_next_one(backend: OpenCLBackend) -> None:
    backend.build(PROGRAM)
    out = put(backend, np.zeros(16, np.uint32))
    kernel, args, ndrange = backend.kernel(PROGRAM, "slow"), [out, np.uint32(3).tobytes()], shape(16, 16)
    backend.launch(kernel, args, ndrange)
    again = backend.again(kernel, args, ndrange)
    assert again is not None
    backend.record().wait()
    again()
    assert backend.pending() == 1
    marker = backend.record()
    marker.wait()
    assert marker.times() is not None


def test_first_and_later_launches_are_grouped_alike(backend: OpenCLBackend) -> None:
    """Results may depend on it: engines' vectorised loops and what is left of them round differently."""
    source = "__kernel void size(__global uint *out) { out[get_global_id(0)] = get_local_size(0); }"
    kernel = backend.kernel(BackendProgram(source), "size")
    sizes = {}
    for regroups in (False, True):
        ndrange = NDRange((4096,), (2,), (0,), regroups)
        grouped = LaunchShape(ndrange, whole_chunk(ndrange), (4096,), (2,), (0,), (), None)
        out = put(backend, np.zeros(4096, np.uint32))
        backend.launch(kernel, [out], grouped)
        sizes[regroups] = get(backend, out)
        out = put(backend, np.zeros(4096, np.uint32))
        again = backend.again(kernel, [out], grouped)
        assert again is not None
        again()
        np.testing.assert_array_equal(get(backend, out), sizes[regroups])
    assert set(sizes[False].view(np.uint32)) == {2}, "the program's own choice"
    assert set(sizes[True].view(np.uint32)) != {2}, "the engine's choice"


def test_waiting_for_all_tells_what_went_well_without_a_marker(backend: OpenCLBackend) -> None:
    allocation = put(backend, np.zeros(1024, np.uint8))
    seen = np.zeros(16, np.uint8)
    box = Box.contiguous(8, 0, 16)
    assert not backend.read(allocation, seen, box), "nobody has waited"
    assert backend.wait_for_all()
    for number in range(1, 4):
        backend.fill(allocation, 0, 1024, bytes([number]))
        assert backend.pending()
        assert backend.wait_for_all()
        assert backend.read(allocation, seen, box), "it was there at once"
        assert seen.tolist() == [number] * 16
    backend.fill(allocation, 0, 1024, b"\7")
    assert not backend.read(allocation, seen, box), "a fill is under way, as far as is known"
    backend.record().wait()
    assert seen.tolist() == [7] * 16
    failing = backend._cl.UserEvent(backend.device.context)
    failing.set_status(-5)
    backend._events.append(failing)  # in the place of a command that fails on the device
    backend.fill(allocation, 0, 1024, b"\1")
    assert not backend.wait_for_all()
    assert not backend.read(allocation, seen, box)
    assert not backend.wait_for_all()
    with pytest.raises(BackendError) as info:
        backend.record().wait()
    assert info.value.at == (0,)
    backend.fill(allocation, 0, 1024, b"\2")
    assert backend.wait_for_all()


def test_workers_of_one_device_divide_its_memory(device: Any, backend: OpenCLBackend) -> None:
    info = backend.info
    assert info.memory_nbytes == backend.device.memory_nbytes // 2
    assert info.max_alloc_nbytes <= info.memory_nbytes
    other = OpenCLBackend(device, 2)
    assert other.info.device_key == info.device_key
    assert other.device is backend.device
    assert info.native[0x102B] == info.name  # CL_DEVICE_NAME
    assert info.is_cpu
    other.close()


# with the executor ------------------------------------------------------------------------------


def launcher(executor: Executor, workers: int) -> Callable[[], Completion]:
    """What launches a kernel over 64 items per worker, each worker's replica holding its own part."""
    executor.build(PROGRAM)
    part = 64 * 4
    home = np.zeros(workers * part, np.uint8)
    out, source = (executor.holdings(len(home), lambda: home) for _ in range(2))
    ndrange = NDRange((64 * workers,), (64,), (0,))
    instructions: list[Instruction] = []
    touches = []
    for worker in range(workers):
        region = Region.span(worker * part, (worker + 1) * part)
        for slot in range(2):
            instructions.append(Reserve(worker, slot, region.start, region.stop, Region.empty()))
            touches.append((Touch(slot, worker, region, True),))
        extents = tuple((slot, region.start, region.stop) for slot in range(2))
        instructions.append(
            Launch(worker, Chunk((worker,), (worker + 1,)), ((0, 0, 0), (1, 1, 0)), extents=extents)
        )
        touches.append((Touch(0, worker, region, True),))
    recipe = LaunchRecipe(PROGRAM, "add", ndrange, lambda ndrange, chunk, bases: bytes(16))
    plan = Plan(tuple(instructions), ((),) * len(instructions), tuple(touches), ())
    prepared = executor.prepare(plan, recipe)

    def launch() -> Completion:
        completion = Completion()
        args = (None, None, np.uint32(1).tobytes())
        executor.submit(prepared, (out, source), completion, args=args)
        executor.throttle()
        return completion

    return launch


def test_many_launches_on_two_workers(device: Any) -> None:
    executor = Executor([opener(device, 2)] * 2)
    launch = launcher(executor, 2)
    completions = [launch() for _ in range(300)]
    assert [completion.wait() for completion in completions] == [0] * 300
    assert [counters.launches for counters in executor.counters()] == [300, 300]
    executor.close()


def test_a_program_that_does_not_wait_still_exits() -> None:
    script = textwrap.dedent("""
        from tests.cpu.test_backend_opencl import Executor, launcher, load_native, opener, register_engines
        register_engines()
        device = load_native().get_platforms()[0].get_devices()[0]
        launch = launcher(Executor([opener(device, 2)] * 2), 2)
        for _ in range(100):
            launch()
        print("done")
    """)
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "done", "")


def test_the_native_module_stays_out_of_the_stand_ins_way() -> None:
    script = textwrap.dedent("""
        import importlib.machinery, sys, types

        class Finder:
            @staticmethod
            def find_spec(name, path=None, target=None):
                if name == "pyopencl._cl":
                    return importlib.machinery.ModuleSpec(name, Finder)
            @staticmethod
            def create_module(spec):
                return types.ModuleType(spec.name)
            @staticmethod
            def exec_module(module):
                module.marker = True

        sys.meta_path.insert(0, Finder)
        from vdev.start.engines import register_engines
        register_engines()
        from vdev.backends.opencl.native import load_native
        native = load_native()
        assert "pyopencl._cl" not in sys.modules
        assert native.__name__ == native.__spec__.name == "pyopencl._cl"
        assert load_native() is native
        context = native.Context([native.get_platforms()[0].get_devices()[0]])
        assert len(context.devices) == 1
        print("done")
    """)
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "done"), done.stderr


boxes = st.builds(
    lambda shape, starts, row_gaps, slice_gaps: Box(
        shape,
        starts[0],
        ((shape[2] + row_gaps[0]) * shape[1] + slice_gaps[0], shape[2] + row_gaps[0]),
        starts[1],
        ((shape[2] + row_gaps[1]) * shape[1] + slice_gaps[1], shape[2] + row_gaps[1]),
    ),
    st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 5)),
    *[st.tuples(st.integers(0, 9), st.integers(0, 9))] * 3,
)


@given(boxes.filter(lambda box: not box.is_contiguous))
def test_halves_are_the_box(box):
    first, second = halves(box)
    assert sorted(first.rows() + second.rows()) == sorted(box.rows())
    assert min(first.nbytes, second.nbytes) > 0


def test_interleaved_boxes_of_one_memory(backend):
    """Rows of one box between those of the other: no overlap, whatever a driver makes of their ends."""
    content = np.arange(20000).astype(np.uint8)
    memory = put(backend, content)
    backend.copy(memory, memory, Box((1, 2, 1024), 0, (8192, 4096), 10000, (8192, 4096)))
    found = np.zeros(20000, np.uint8)
    backend.read(memory, found, Box.contiguous(0, 0, 20000))
    backend.record().wait()
    expected = content.copy()
    for start in (0, 4096):
        expected[10000 + start : 11024 + start] = content[start : start + 1024]
    np.testing.assert_array_equal(found, expected)


@given(boxes, st.booleans(), st.booleans())
def test_pieces_end_within_their_memories_and_are_the_box(box, source_ends, target_ends):
    """With memories that end at the box's last byte, no last row reaches beyond them with its pitch."""
    rows = box.rows()
    ends = max(a + n for a, _, n in rows), max(b + n for _, b, n in rows)
    limits = ends[0] if source_ends else None, ends[1] if target_ends else None
    pieces = list(pieces_within(box, *limits))
    assert sorted(row for piece in pieces for row in piece.rows()) == sorted(rows)
    for piece in pieces:
        (slices, nrows, _), pitches = piece.shape, (piece.source_pitches, piece.target_pitches)
        if piece.is_contiguous:
            continue
        for limit, start, (by_slice, by_row) in zip(
            limits, (piece.source_start, piece.target_start), pitches, strict=True
        ):
            if limit is not None:
                assert start + (slices - 1) * by_slice + nrows * by_row <= limit


@pytest.mark.parametrize("kind", ["read", "rows read", "write"])
@pytest.mark.parametrize("by", ["marker", "whole device"])
def test_arrays_are_let_go_when_their_transfers_were_waited_for(
    backend: OpenCLBackend, kind: str, by: str
) -> None:
    """Though the events are known until there are others, and PyOpenCL's keep the array of their transfer until somebody waits for them."""
    nbytes = 1 << 20
    allocation = put(backend, np.zeros(nbytes, np.uint8))
    array = np.zeros(nbytes, np.uint8)
    if kind == "write":
        backend.write(allocation, array, Box.contiguous(0, 0, nbytes))
    elif kind == "read":
        backend.read(allocation, array, Box.contiguous(0, 0, nbytes))
    else:
        backend.read(allocation, array, Box((1, 16, 64), 0, (128, 0), 0, (64, 0)))
    alive = weakref.ref(array)
    del array
    if by == "marker":
        backend.record().wait()
    else:
        while not backend.wait_for_all():
            time.sleep(0.001)
    assert backend.last is not None
    assert alive() is None


def test_workers_kernels_have_no_functions_of_pyopencls(
    backend: OpenCLBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyOpenCL writes or looks up some for each kernel of a program's; other threads' kernels get them all the while."""
    invoker = importlib.import_module("pyopencl.invoker")
    asked: list[str] = []

    def generate(name: str, *args: Any, **kwargs: Any) -> tuple[object, object]:
        asked.append(name)
        return print, print

    monkeypatch.setattr(invoker, "generate_enqueue_and_set_args", generate)
    program = BackendProgram("__kernel void k(__global uint *a) { a[0] = 1; }")
    backend.build(program)
    kernel = backend.kernel(program, "k")
    assert asked == []
    native = backend.device.build(program).native
    made = load_native().Kernel(native, "k")
    assert asked == ["k"]
    assert native_kernel(load_native(), native, "k").get_info(load_native().kernel_info.NUM_ARGS) == 1
    with pytest.raises(load_native().Error):
        native_kernel(load_native(), native, "none")
    load_native().Kernel(native, "k")
    assert asked == ["k", "k"]
    assert made is not kernel


def test_binaries_are_kept_by_the_drivers_settings(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    binaries, program = Binaries(load_native(), device), BackendProgram("__kernel void k() {}")
    plain = binaries._key(program)
    monkeypatch.setenv("ANOTHER_SETTING", "1")
    assert binaries._key(program) == plain
    monkeypatch.setenv("POCL_WORK_GROUP_METHOD", "loopvec")
    one = binaries._key(program)
    monkeypatch.setenv("POCL_WORK_GROUP_METHOD", "cbs")
    assert len({plain, one, binaries._key(program)}) == 3
    monkeypatch.delenv("POCL_WORK_GROUP_METHOD")
    assert binaries._key(program) == plain


def test_a_device_that_does_not_open_is_named_with_its_drivers_error(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = classmethod(lambda cls, native: load_native().Context([]))
    monkeypatch.setattr(SharedDevice, "of", refused)
    opener = open_workers([WorkerSpec("cpu", (), 1)])[0]
    with pytest.raises(NoWorkers, match="cannot be used: the driver fails with INVALID_VALUE: Context"):
        opener()
