"""Launches of CUDA workers without a GPU: what the driver is called with, again as well, in whose context, and what is timed."""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from vdev.translators.dialects.cuda.translation import translate_cuda
from vdev.translators.frontend.source import parse_program
from vdev.translators.ranges.ndrange import NDRange, whole_chunk

from vdev.backends.base import LaunchShape, LocalBytes
from vdev.backends.cuda import (
    driver as cuda_driver,
)
from vdev.backends.cuda import (
    launch as cuda_launch,
)
from vdev.backends.cuda.cupy_parts import ModuleCalls
from vdev.errors import BackendError

from .cuda_parts import SOURCE, TARGET, Loaded, cuda_without_a_gpu, launch_shape


class _Parameters:
    """Of a driver: where a kernel's parameters lie (pointer, local memory, int, hidden structure)."""

    def parameters(self, function: int, count: int) -> list[tuple[int, int]]:
        assert count == 4
        return [(0, 8), (8, 4), (12, 4), (16, 200)]


class _Program:
    """Of a loaded program: what the driver says of its kernels, and takes."""

    CUDADriverError = ModuleCalls.CUDADriverError

    def __init__(self, static: int = 1024) -> None:
        self.set: list[tuple[int, int, int]] = []
        self.cuda_driver = self
        self.static = static

    def attribute(self, function: int, number: int) -> int:
        return self.static if number == cuda_driver.SHARED_NBYTES else 1024

    def funcSetAttribute(self, function: int, number: int, value: int) -> None:
        if self.static + value > 227 << 10:
            raise self.CUDADriverError(1, "too much")
        self.set.append((function, number, value))


class _Pointer:
    def __init__(self, ptr: int) -> None:
        self.ptr = ptr


def test_arguments_are_where_the_kernel_looks_for_them() -> None:
    info = translate_cuda(parse_program(SOURCE, (), target=TARGET)).kernels["f"]
    program = _Program()
    kernel = cuda_launch.Kernel(info, program, 7, _Parameters())  # type: ignore[arg-type]
    memory = cuda_launch.CudaAllocation(_Pointer(0x7F0012345600), 64)
    kernel.set_argument(0, memory)
    kernel.set_argument(1, LocalBytes(1000))
    kernel.set_argument(2, b"\x05\0\0\0")
    assert kernel.buffer[:16] == struct.pack("<QII", 0x7F0012345600, 0, 5)
    assert (kernel.shared, program.set) == (1024, [])
    kernel.set_argument(0, (memory, 256))
    kernel.set_argument(1, LocalBytes(60_000))
    assert kernel.buffer[:16] == struct.pack("<QII", 0x7F0012345700, 0, 5)
    assert kernel.shared >= 60_000
    assert program.set == [(7, 8, kernel.shared)]
    kernel.set_argument(0, None)
    assert kernel.buffer[:8] == bytes(8)
    assert kernel.last == [None, LocalBytes(60_000), b"\x05\0\0\0"]


def test_local_memory_beyond_48_kb_is_asked_for() -> None:
    info = translate_cuda(parse_program(SOURCE, (), target=TARGET)).kernels["f"]
    program = _Program(static=40 << 10)
    kernel = cuda_launch.Kernel(info, program, 7, _Parameters())  # type: ignore[arg-type]
    kernel.set_argument(1, LocalBytes(8 << 10))
    assert program.set == []
    kernel.set_argument(1, LocalBytes(9 << 10))  # with the kernel's own variables it is more
    assert program.set == [(7, 8, 9 << 10)]
    for _ in range(2):
        with pytest.raises(BackendError, match="local memory for kernel f"):
            kernel.set_argument(1, LocalBytes(200 << 10))
        assert kernel.last[1] != LocalBytes(200 << 10)
    assert kernel.shared == 9 << 10


def _launched(backend: Any, groups: int = 3) -> tuple[Any, Any]:
    """A kernel that has just been launched there, and what makes it again."""
    info = translate_cuda(parse_program(SOURCE, (), target=TARGET)).kernels["f"]
    kernel = cuda_launch.Kernel(info, Loaded(1024), 0x7F00_0000_0042, backend.driver)  # type: ignore[arg-type]
    ndrange = NDRange((64 * groups,), (64,), (0,))
    chunk = whole_chunk(ndrange)
    shape = launch_shape(ndrange, chunk, info.pack(ndrange, chunk, (64,))[:-8])
    memory = cuda_launch.CudaAllocation(SimpleNamespace(ptr=0x7F00_0000_1000), 4096)
    args: list[Any] = [memory, LocalBytes(256), struct.pack("<i", 7)]
    backend.launch(kernel, args, shape)
    return kernel, backend.again(kernel, args, shape)


def test_a_launch_made_again_is_the_same_call() -> None:
    backend, driver = cuda_without_a_gpu()
    driver.current = backend.context
    _, again = _launched(backend)
    again()
    assert driver.launched[0] == driver.launched[1]
    assert driver.launched[0][:9] == [0x7F00_0000_0042, 3, 1, 1, 64, 1, 1, 256, backend.stream]
    assert backend.counters.launches == backend.pending() == 2
    driver.result = 700
    with pytest.raises(BackendError, match="kernel f: 700"):
        again()
    assert backend.counters.launches == backend.pending() == 2


def test_a_launch_made_again_has_its_own_arguments_and_the_numbers_that_have_changed() -> None:
    """Behind another launch of the same kernel, with other memory, local memory, number and index space."""
    backend, driver = cuda_without_a_gpu()
    driver.current = backend.context
    kernel, again = _launched(backend)
    mine, number = bytes(kernel.buffer), kernel.offsets[2]
    ndrange = NDRange((64,), (64,), (0,))
    chunk = whole_chunk(ndrange)
    shape = launch_shape(ndrange, chunk, kernel.info.pack(ndrange, chunk, (128,))[:-8])
    others: list[Any] = [
        cuda_launch.CudaAllocation(SimpleNamespace(ptr=0x7F00_0000_9000), 4096),
        LocalBytes(512),
        struct.pack("<i", 9),
    ]
    for changed, value in (((), 7), (((2, struct.pack("<i", 8)),), 8), ((), 8)):
        backend.launch(kernel, list(others), shape)
        assert bytes(kernel.buffer) != mine
        again(changed)
        assert driver.launched[-1] == driver.launched[0]
        expected = mine[:number] + struct.pack("<i", value) + mine[number + 4 :]
        assert bytes(kernel.buffer) == expected


def _passed(call: Sequence[int]) -> bytes:
    """The parameters that a call of the driver has passed."""
    pointers = (ctypes.c_void_p * 5).from_address(call[10])
    assert pointers[1] is not None
    size = ctypes.c_size_t.from_address(pointers[3] or 0).value
    return ctypes.string_at(pointers[1], size)


def test_launches_that_take_turns_have_parameters_of_their_own_after_a_while() -> None:
    """And what was set for one of them on the way is not taken by the other."""
    backend, driver = cuda_without_a_gpu()
    driver.current = backend.context
    kernel, first = _launched(backend)
    other_args: list[Any] = [
        cuda_launch.CudaAllocation(SimpleNamespace(ptr=0x7F00_0000_9000), 4096),
        LocalBytes(512),
        struct.pack("<i", 9),
    ]
    ndrange = NDRange((64,), (64,), (0,))
    chunk = whole_chunk(ndrange)
    shape = launch_shape(ndrange, chunk, kernel.info.pack(ndrange, chunk, (128,))[:-8])
    backend.launch(kernel, other_args, shape)
    second = backend.again(kernel, other_args, shape)
    assert first is not None
    assert second is not None
    pointer, local, number = kernel.offsets[0], 7, kernel.offsets[2]
    buffers = set()
    for turn in range(20):
        for again, address, value, of_local in ((first, 0x1000, turn, 256), (second, 0x9000, 9, 512)):
            again([(2, struct.pack("<i", value))] if again is first else [])
            passed = _passed(driver.launched[-1])
            assert struct.unpack_from("<Q", passed, pointer)[0] == 0x7F00_0000_0000 + address - 64
            assert struct.unpack_from("<i", passed, number)[0] == value
            assert driver.launched[-1][local] == of_local
            buffers.add(driver.launched[-1][10])
    assert len(buffers) == 2  # the first has left the kernel's own to the second
    assert driver.launched[-1][10] != driver.launched[-2][10]


def _resized(kernel: Any, groups: int, shift: int = 64) -> LaunchShape:
    """The shape of a launch of that kernel with so many work-groups."""
    ndrange = NDRange((64 * groups,), (64,), (0,))
    chunk = whole_chunk(ndrange)
    return launch_shape(ndrange, chunk, kernel.info.pack(ndrange, chunk, (shift,))[:-8])


def test_a_launch_made_again_goes_over_to_another_index_space() -> None:
    """With what the kernel is told of it, and its own arguments and local memory: behind itself, and behind another launch."""
    backend, driver = cuda_without_a_gpu()
    driver.current = backend.context
    kernel, again = _launched(backend)
    memory = cuda_launch.CudaAllocation(SimpleNamespace(ptr=0x7F00_0000_9000), 4096)
    others: list[Any] = [memory, LocalBytes(512), struct.pack("<i", 9)]
    pointer, number, hidden = (kernel.offsets[at] for at in (0, 2, 3))
    shapes = [_resized(kernel, groups) for groups in (5, 2, 3)]
    value = 7
    for turn in range(24):  # by then, it has parameters of its own
        if turn % 4 > 1:
            backend.launch(kernel, list(others), _resized(kernel, 1))
        shape = shapes[turn // 2 % 3]
        assert backend.repeats_over(kernel, shape)
        if turn % 3 == 0:
            value = turn
            again([(2, struct.pack("<i", value))], shape)
        else:
            again((), shape)
        groups = shape.chunk.stop[0]
        for _ in range(2):
            passed = _passed(driver.launched[-1])
            assert driver.launched[-1][1:9] == [groups, 1, 1, 64, 1, 1, 256, backend.stream]
            assert struct.unpack_from("<Q", passed, pointer)[0] == 0x7F00_0000_1000 - 64
            assert struct.unpack_from("<i", passed, number)[0] == value
            assert shape.hidden is not None
            assert passed[hidden : hidden + len(shape.hidden)] == shape.hidden
            again()  # once more, over the same


def test_what_is_not_one_grid_of_the_same_kernel_is_not_made_again() -> None:
    backend, _ = cuda_without_a_gpu()
    kernel, _ = _launched(backend)
    ndrange = NDRange((64, 200_000, 1), (64, 1, 1), (0, 0, 0))
    chunk = whole_chunk(ndrange)
    several = launch_shape(ndrange, chunk, kernel.info.pack(ndrange, chunk, (64,))[:-8])
    assert not backend.repeats_over(kernel, several)
    assert backend.repeats_over(kernel, _resized(kernel, 7))
    kernel.threads = 32  # for groups of 64 it takes one with fewer registers
    assert not backend.repeats_over(kernel, _resized(kernel, 7))


def test_a_marker_ends_what_is_being_timed() -> None:
    """Launches behind it are not recorded beside for a command that was refused, and no command has ended with one of them."""
    backend, driver = cuda_without_a_gpu()
    driver.current, backend._gpu.clock = backend.context, SimpleNamespace(due=math.inf)
    _, again = _launched(backend)
    backend.begin_timed()
    driver.result = 701  # not enough of something
    with pytest.raises(BackendError):
        again()
    driver.result = 0
    backend.record()
    again()
    recorded = driver.recorded
    again()
    assert driver.recorded == recorded, "a command is timed that there is not"

    backend.record()
    begun = backend.begin_timed()
    again()
    backend.record()
    again()
    recorded = driver.recorded
    backend.timer(begun, 1)
    assert driver.recorded == recorded + 1, "a command ends before the last of what it has handed over"


def test_a_launch_made_again_behind_a_marker_begins_what_the_next_one_times() -> None:
    backend, driver = cuda_without_a_gpu()
    driver.current, backend._gpu.clock = backend.context, SimpleNamespace(due=math.inf)
    _, again = _launched(backend)
    backend.record()
    again()
    again()
    assert backend.pending() == 2
    assert backend._first, "an event before the first of them"
    assert [call[0] for call in driver.launched] == [0x7F00_0000_0042] * 3


@pytest.mark.parametrize(
    ("number", "outside", "set_to"),
    [(0, 0x42, ["own", 0x42]), (1, 0, ["own", 0]), (0, 0, ["own"]), (1, "own", [])],
    ids=["another", "none", "none-and-the-first-GPU", "its-own"],
)
def test_the_thread_gets_its_context_back(number: int, outside: Any, set_to: list[Any]) -> None:
    """Where the driver asks for the GPU's own; otherwise nothing changes."""
    backend, driver = cuda_without_a_gpu(number)
    _, again = _launched(backend)
    driver.current = backend.context if outside == "own" else outside
    again()
    assert driver.contexts == []
    driver.launches_in = backend.context
    again()
    assert len(driver.launched) == backend.counters.launches == 3
    assert driver.contexts == [backend.context if context == "own" else context for context in set_to]
    again()
    assert driver.contexts[len(set_to) :] == (driver.contexts[: len(set_to)] if len(set_to) == 2 else [])


def test_a_known_shape_is_launched_with_the_changed_values() -> None:
    """The driver's calls of a shape are kept: local memory, arguments and the hidden one may be others each time."""
    backend, driver = cuda_without_a_gpu()
    info = translate_cuda(parse_program(SOURCE, (), target=TARGET)).kernels["f"]
    kernel = cuda_launch.Kernel(info, Loaded(1024), 0x7F00_0000_0042, driver)  # type: ignore[arg-type]
    ndrange = NDRange((192,), (64,), (0,))
    chunk = whole_chunk(ndrange)
    shapes = [
        launch_shape(ndrange, chunk, info.pack(ndrange, chunk, (shift,))[:-8], shift) for shift in (64, 128)
    ]
    memories = [
        cuda_launch.CudaAllocation(SimpleNamespace(ptr=ptr), 4096) for ptr in (0x7F00_1000, 0x7F00_9000)
    ]
    shown: list[tuple[int, int, bytes, bytes]] = []
    for local, memory, value, shape in (
        (256, 0, 7, 0), (512, 0, 7, 0), (512, 1, 7, 0), (512, 1, 8, 0), (256, 1, 8, 1), (256, 0, 7, 0),
    ):  # fmt: skip
        args: list[Any] = [memories[memory], LocalBytes(local), struct.pack("<i", value)]
        backend.launch(kernel, args, shapes[shape])
        pointer, number = (kernel.offsets[at] for at in (0, 2))
        shown.append(
            (
                driver.launched[-1][7],
                struct.unpack_from("<Q", kernel.buffer, pointer)[0],
                bytes(kernel.buffer[number : number + 4]),
                bytes(kernel.buffer[kernel.offsets[3] : kernel.offsets[3] + len(shapes[0].hidden or b"")]),
            )
        )
        moved = memories[memory].address - (64, 128)[shape]
        assert shown[-1] == (local, moved, args[2], shapes[shape].hidden)
    assert len(set(shown)) == 5
    assert backend.counters.launches == backend.pending() == len(driver.launched) == 6


@pytest.mark.parametrize("number", [0, 1])
def test_a_visitor_gets_its_context_back(number: int) -> None:
    backend, driver = cuda_without_a_gpu(number)
    driver.current = 0x42
    outside = backend.visit()
    assert driver.current == backend.context
    backend.leave(outside)
    assert driver.current == 0x42
    driver.current = backend.context
    driver.contexts.clear()
    assert backend.visit() is None
    assert driver.contexts == []
    driver.current = 0
    outside = backend.visit()
    assert outside is not None
    backend.leave(outside)
    assert driver.current == (backend.context if number == 0 else 0)


def test_several_grids_are_not_made_again_as_one() -> None:
    backend, _ = cuda_without_a_gpu()
    info = translate_cuda(parse_program(SOURCE, (), target=TARGET)).kernels["f"]
    kernel, _ = _launched(backend)
    ndrange = NDRange((64, 200_000, 1), (64, 1, 1), (0, 0, 0))
    chunk = whole_chunk(ndrange)
    shape = launch_shape(ndrange, chunk, info.pack(ndrange, chunk, (64,))[:-8])
    backend.launch(kernel, list(kernel.last), shape)
    assert backend.again(kernel, list(kernel.last), shape) is None


def test_a_visit_changes_only_another_context() -> None:
    """The driver writes the current one where it is told to."""
    driver, current, contexts = object.__new__(cuda_driver.Driver), [7], []

    def ask(place: Any) -> int:
        ctypes.c_void_p.from_address(place.value).value = current[0]
        return 201 if current[0] is None else 0

    driver._ask_context, driver.set_context = ask, contexts.append
    visit = driver.visitor(7)
    assert visit() is None
    assert not contexts
    current[0] = 9
    assert visit() == 9
    current[0] = None  # it fails
    assert visit() == 0
    assert contexts == [7, 7]
