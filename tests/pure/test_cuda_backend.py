"""The parts of CUDA workers that need no GPU: how copies, merges and launches are cut, which cubins are kept,
what is said where there is no GPU.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import math
import os
import re
import struct
import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vdev.translators.dialects.cuda.translation import translate_cuda
from vdev.translators.frontend.source import Target, parse_program
from vdev.translators.ranges.byte_runs import Block
from vdev.translators.ranges.ndrange import Chunk, NDRange, whole_chunk

from vdev.backends.base import BackendProgram, Box, Counters, LaunchShape, LocalBytes, copy_box
from vdev.backends.cuda import (
    boxes as cuda_boxes,
)
from vdev.backends.cuda import (
    driver as cuda_driver,
)
from vdev.backends.cuda import (
    kernels as cuda_kernels,
)
from vdev.backends.cuda import (
    launch as cuda_launch,
)
from vdev.backends.cuda.backend import CudaBackend
from vdev.backends.cuda.errors import ERROR_NOT_READY, SUCCESS
from vdev.backends.cuda.gpu import Gpu
from vdev.backends.cuda.modules import Modules
from vdev.backends.cuda.programs import Cubins, Multiprocessor, _lock_of, fewer_groups, kept, translated
from vdev.backends.cuda.staging import pieces_of
from vdev.errors import BackendError, BuildFailure, CudaMissing, NoWorkers
from vdev.process.switches import parse_workers
from vdev.start.workers import open_workers

from .nvrtc import MISSING, compile_cuda, library

TARGET = Target(extensions=("cl_khr_fp64",), opencl_version=300, c_version=120)
BLOCKS = "kernel void f(global int *a) { void (^b)(void) = ^{}; b(); }"
SOURCE = "kernel void f(global float *a, local float *t, int n) { t[0] = n; a[get_global_id(0)] = t[0]; }"


@st.composite
def boxes(draw: st.DrawFn) -> Box:
    slices, rows = draw(st.integers(1, 3)), draw(st.integers(1, 5))
    nbytes = draw(st.integers(1, 9))
    pitches = []
    for _ in range(2):
        row = nbytes + draw(st.integers(0, 3))
        pitches.append((rows * row + draw(st.integers(0, 4)), row))
    return Box(
        (slices, rows, nbytes), draw(st.integers(0, 5)), pitches[0], draw(st.integers(0, 5)), pitches[1]
    )


@given(boxes(), st.integers(1, 60))
@settings(deadline=None)
def test_pieces_are_the_box_packed(box: Box, limit: int) -> None:
    memory = np.random.default_rng(0).integers(0, 255, 200, dtype=np.uint8)
    packed, expected = np.zeros(box.nbytes, np.uint8), np.zeros(box.nbytes, np.uint8)
    _, rows, nbytes = box.shape
    copy_box(
        memory, expected, Box(box.shape, box.source_start, box.source_pitches, 0, (rows * nbytes, nbytes))
    )
    back = np.zeros_like(memory)
    for piece in pieces_of(box, limit):
        assert piece.box.nbytes <= limit or piece.box.shape[1] == 1
        block = np.zeros(piece.box.nbytes, np.uint8)
        copy_box(memory, block, piece.box)
        packed[piece.start : piece.start + block.size] = block
        copy_box(block, back, piece.box.turned())
    assert (packed == expected).all()
    again = np.zeros(box.nbytes, np.uint8)
    copy_box(back, again, Box(box.shape, box.source_start, box.source_pitches, 0, (rows * nbytes, nbytes)))
    assert (again == expected).all()


@pytest.mark.parametrize("shape", [(512, 1, 4096), (100, 3, 1000), (7, 1, 30_000), (1, 512, 4096)])
def test_pieces_are_long_where_slices_are_short(shape: tuple[int, int, int]) -> None:
    """Each piece costs the copying threads a turn with the interpreter."""
    slices, rows, nbytes = shape
    pitches = (2 * rows * nbytes, nbytes + 16)
    pieces = pieces_of(Box(shape, 0, pitches, 0, pitches), 1 << 16)
    assert len(pieces) <= 2 * -(-slices * rows * nbytes // (1 << 16))


@given(boxes(), st.integers(1, 40))
@settings(deadline=None)
def test_parts_are_the_box(box: Box, limit: int) -> None:
    rows = [row for part in cuda_boxes.parts(box, limit) for row in part.rows()]
    assert sorted(rows) == sorted(box.rows())


@st.composite
def targets(draw: st.DrawFn) -> Box:
    """Boxes into an array whose rows are 12 bytes apart and whose slices are 48, or others."""
    row, plane = draw(st.sampled_from([(12, 48), (12, 48), (9, 48), (7, 30)]))
    shape = draw(st.integers(1, 3)), draw(st.integers(1, 4)), draw(st.integers(1, 7))
    return Box(shape, 0, (plane, row), draw(st.integers(0, 60)), (plane, row))


@given(targets(), targets())
@settings(deadline=None, max_examples=300)
def test_targets_that_may_overlap(first: Box, second: Box) -> None:
    bytes_of = [
        {byte for _, start, nbytes in box.rows() for byte in range(start, start + nbytes)}
        for box in (first, second)
    ]
    one, other = (cuda_boxes.placed(1 << 20, 1 << 12, box) for box in (first, second))
    assert one.may_overlap(other) or not bytes_of[0] & bytes_of[1]
    assert one.may_overlap(other) == other.may_overlap(one)
    assert one.may_overlap(one)


def test_columns_side_by_side_do_not_overlap() -> None:
    """The edges of a block of rows in every plane of a volume: they begin within one another's extent."""
    low, high = (
        cuda_boxes.placed(0, 0, Box((720, 1, 5760), 0, (8294400, 5760), start * 5760, (8294400, 5760)))
        for start in (359, 720)
    )
    assert low.target < high.target < low.stop
    assert not low.may_overlap(high)


@given(
    st.integers(0, 40),
    st.integers(1, 40),
    st.integers(0, 9),
    st.integers(1, 4),
    st.sampled_from([1, 2, 4, 8, 16]),
)
@settings(deadline=None)
def test_units_of_a_merge(start: int, nbytes: int, gap: int, count: int, unit: int) -> None:
    block = Block(start, nbytes, nbytes + gap, count)
    found: dict[int, bool] = {}
    for whole, part in cuda_boxes.whole_units(block, unit):
        for row in range(part.count):
            first = part.start + row * part.stride
            assert not whole or first % unit == part.nbytes % unit == 0
            for byte in range(first, first + part.nbytes):
                assert byte not in found
                found[byte] = whole
    assert sorted(found) == [
        low + byte
        for low in range(start, start + count * (nbytes + gap), nbytes + gap)
        for byte in range(nbytes)
    ]
    aligned = count == 1 or (nbytes + gap) % unit == 0
    for byte, whole in found.items():
        low = start + (byte - start) // (nbytes + gap) * (nbytes + gap)
        inside = low <= byte // unit * unit and byte // unit * unit + unit <= low + nbytes
        assert whole == (aligned and inside)


def _shape(ndrange: NDRange, chunk: Chunk, hidden: bytes | None, shift: int = 64) -> LaunchShape:
    return LaunchShape(
        ndrange,
        chunk,
        chunk.global_size(ndrange),
        ndrange.local_size,
        chunk.first(ndrange),
        ((0, shift),),
        hidden,
    )


def test_a_launch_beyond_cudas_limit_of_groups_is_several() -> None:
    info = translate_cuda(parse_program(SOURCE, (), target=TARGET)).kernels["f"]
    ndrange = NDRange((64, 200_000, 1), (64, 1, 1), (0, 0, 0))
    chunk = Chunk((0, 1000, 0), (1, 190_000, 1))
    hidden = info.pack(ndrange, chunk, (64,))[:-8]
    grids = cuda_launch.grids(info, _shape(ndrange, chunk, hidden))
    assert [grid[1] for grid in grids] == [65535, 65535, 57930]
    starts = [1000, 66535, 132070]
    for grid, start in zip(grids, starts, strict=True):
        part = Chunk((0, start, 0), (1, start + grid[1], 1))
        assert grid[6] == info.pack(ndrange, part, (64,))
    small = Chunk((0, 5, 0), (1, 9, 1))
    (only,) = cuda_launch.grids(info, _shape(ndrange, small, info.pack(ndrange, small, (64,))[:-8]))
    assert only == (1, 4, 1, 64, 1, 1, info.pack(ndrange, small, (64,)))


def test_a_kernel_taken_as_it_is_has_no_shifts() -> None:
    info = translate_cuda(parse_program(SOURCE, (), target=TARGET)).kernels["f"]
    ndrange = NDRange((128,), (64,), (0,))
    (grid,) = cuda_launch.grids(info, _shape(ndrange, whole_chunk(ndrange), None))
    assert grid[6] == info.pack(ndrange, whole_chunk(ndrange), (0,))
    ragged = NDRange((100,), (64,), (0,))
    with pytest.raises(BackendError) as caught:
        cuda_launch.grids(info, _shape(ragged, whole_chunk(ragged), None))
    assert caught.value.status == -54


@pytest.mark.skipif(library() is None, reason=MISSING)
def test_our_own_kernels_compile() -> None:
    for (
        name,
        source,
    ) in (
        cuda_kernels.SOURCE_OF.items()
    ):  # each by itself: a program waits for no kernel that it does not need
        done, text = compile_cuda(source, ["--std=c++17"])
        assert done, text
        assert re.findall(r"\.entry (\w+)\(", text) == [name]


class _Compiler:
    def __init__(self) -> None:
        self.asked: list[tuple[str, tuple[str, ...]]] = []

    def __call__(self, source: str, options: object) -> tuple[bytes, str]:
        self.asked.append((source, tuple(options)))  # type: ignore[arg-type]
        if "error" in source:
            raise BuildFailure("line 1: no")
        return b"cubin of " + source[:9].encode(), "a warning"


def test_cubins_are_kept_by_everything_they_come_from(tmp_path: Path) -> None:
    compiler = _Compiler()
    cubins = Cubins(tmp_path, compiler, "13.0")
    assert cubins.get("source a", ["-x"]) == (b"cubin of source a", "a warning")
    assert Cubins(tmp_path, compiler, "13.0").get("source a", ["-x"])[0] == b"cubin of source a"
    assert len(compiler.asked) == 1
    for version, source, options in (
        ("13.1", "source a", ["-x"]),
        ("13.0", "source b", ["-x"]),
        ("13.0", "source a", []),
    ):
        Cubins(tmp_path, compiler, version).get(source, options)
    assert len(compiler.asked) == 4
    with pytest.raises(BuildFailure):
        cubins.get("error", [])
    assert len(list((tmp_path / "cubins").iterdir())) == 4


def test_what_was_translated_and_compiled_before_is_kept(tmp_path: Path) -> None:
    compiler, source = _Compiler(), "kernel void k(global int *a) { a[get_global_id(0)] = 1; }"

    def program(key: str = "key") -> BackendProgram:
        return BackendProgram("", (), parse=lambda: parse_program(source, (), target=TARGET), key=key)

    cubins, first = Cubins(tmp_path, compiler, "1"), program()
    assert kept(first, cubins) is None
    made = translated(first, cubins)
    assert kept(first, cubins) is made
    assert not made.is_kept("sm_90")
    made.cubin("sm_90")
    assert made.is_kept("sm_90")
    # another process, which compiles nothing
    found = kept(program(), Cubins(tmp_path, compiler, "1"))
    assert found is not None
    assert found is not made
    assert (found.is_kept("sm_90"), found.is_kept("sm_80")) == (True, False)
    assert found.cubin("sm_90")[0] == made.cubin("sm_90")[0]
    assert len(compiler.asked) == 1
    assert kept(program("other"), cubins) is None
    assert kept(program(""), cubins) is None


def test_nobody_waits_for_a_translation_that_another_thread_is_at(tmp_path: Path) -> None:
    compiler, source = _Compiler(), "kernel void k(global int *a) { a[get_global_id(0)] = 1; }"
    cubins = Cubins(tmp_path, compiler, "1")
    program = BackendProgram("", (), parse=lambda: parse_program(source, (), target=TARGET), key="key")
    made = translated(program, cubins)
    made.cubin("sm_90")
    with _lock_of(program):
        assert kept(program, cubins) is None
    with made._lock:
        assert not made.is_kept("sm_90")
    assert made.is_kept("sm_90")


def test_cubins_unused_for_longest_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = _Compiler()
    cubins = Cubins(tmp_path, compiler, "1")
    cubins.get("source a", [])
    for file in (tmp_path / "cubins").iterdir():
        os.utime(file, (1, 1))
    monkeypatch.setattr("vdev.backends.cuda.programs.CACHE_NBYTES", 150)  # two entries
    cubins.get("source b", [])
    cubins.get("source c", [])
    cubins.get("source c", [])
    assert len(compiler.asked) == 3
    cubins.get("source a", [])
    assert len(compiler.asked) == 4


def test_what_cannot_be_compiled_is_tried_once(tmp_path: Path) -> None:
    compiler = _Compiler()
    source = "kernel void error(global int *a) { a[get_global_id(0)] = 1; }"
    program = translated(
        BackendProgram("", (), parse_program(source, (), target=TARGET)), Cubins(tmp_path, compiler, "1")
    )
    for _ in range(3):  # each worker asks
        with pytest.raises(BuildFailure) as failed:
            program.cubin("sm_90")
        assert failed.value.log == "line 1: no"
    assert len(compiler.asked) == 1
    with pytest.raises(BuildFailure):
        program.cubin("sm_80")
    assert len(compiler.asked) == 2


def test_a_folder_that_cannot_be_written_costs_a_compile(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("no folder")
    assert Cubins(file, _Compiler(), "1").get("source a", [])[0] == b"cubin of source a"


def test_a_program_is_translated_and_compiled_once(tmp_path: Path) -> None:
    compiler = _Compiler()
    cubins = Cubins(tmp_path, compiler, "1")
    program = BackendProgram("", (), parse_program(SOURCE, (), target=TARGET))
    first = translated(program, cubins)
    assert translated(program, cubins) is first
    first.cubin("sm_90")
    first.cubin("sm_90")
    first.cubin("sm_90", full_groups=True)
    options = [options for _, options in compiler.asked]
    assert len(options) == 2
    assert options[0][0] == options[1][0] == "--gpu-architecture=sm_90"
    assert "--maxrregcount=64" in options[1]
    assert "--maxrregcount=64" not in options[0]


REQUIRED = "kernel __attribute__((reqd_work_group_size(64, 1, 1))) "
HALF_FULL = f"""
{REQUIRED} void plain(global float *a) {{ a[get_global_id(0)] = 1; }}
{REQUIRED} void with_local(global float *a, local float *t) {{ t[0] = 1; a[get_global_id(0)] = t[0]; }}
{REQUIRED} void with_own(global float *a) {{ local float t[1]; t[0] = 1; a[get_global_id(0)] = t[0]; }}
kernel void any_size(global float *a) {{ a[get_global_id(0)] = 1; }}
"""


class _Cupy:
    """Of CuPy: modules are cubins, functions their entries; every kernel takes so many registers."""

    def __init__(self, registers: int) -> None:
        self.cuda = SimpleNamespace(driver=self)
        self.registers = registers
        self.loaded: list[bytes] = []
        self.unloaded: list[int] = []

    def moduleLoadData(self, cubin: bytes) -> int:
        self.loaded.append(cubin)
        return len(self.loaded)

    def moduleUnload(self, module: int) -> None:
        self.unloaded.append(module)

    def moduleGetFunction(self, module: int, entry: str) -> int:
        return int(entry[-1])  # in the order of the kernels

    def funcGetAttribute(self, number: int, function: int) -> int:
        assert number in (cuda_driver.SHARED_NBYTES, cuda_driver.NUM_REGS)
        return self.registers if number == cuda_driver.NUM_REGS else 4 * (function == 2)


@pytest.mark.parametrize(
    ("registers", "options", "full_groups", "asked"),
    [(63, (), False, ["-Dvdev_cuda_kernel0_resident=12"]), (56, (), False, None), (63, (), True, None),
     (63, ("-cl-nv-maxrregcount=80",), False, None)],
    ids=["half full", "fuller", "full groups", "the user's registers"],
)  # fmt: skip
def test_kernels_that_live_from_the_cache_are_compiled_for_fewer_groups(
    tmp_path: Path, registers: int, options: tuple[str, ...], full_groups: bool, asked: list[str] | None
) -> None:
    compiler, cupy = _Compiler(), _Cupy(registers)
    program = BackendProgram("", options, parse_program(HALF_FULL, options, target=TARGET))
    hopper, unused = Multiprocessor(65536, 2048), deque[int]()
    loaded = cuda_launch.LoadedProgram(
        cupy,
        translated(program, Cubins(tmp_path, compiler, "1")),
        "sm_90",
        hopper,
        unused,
        full_groups=full_groups,
    )
    assert loaded.module == len(cupy.loaded) == len(compiler.asked) == (2 if asked else 1)
    further = [option for option in compiler.asked[-1][1] if option.startswith("-D")]
    assert further == (asked or [])
    assert cupy.unloaded == ([1] if asked else [])  # nothing of it has been launched
    module = loaded.module
    del loaded
    assert list(unused) == [module]


def test_fewer_groups_are_three_quarters_where_half_of_the_work_items_are_resident() -> None:
    hopper, ada = Multiprocessor(65536, 2048), Multiprocessor(65536, 1536)
    assert [fewer_groups(64, registers, hopper) for registers in (0, 32, 56, 57, 64, 128)] == [
        None, None, None, 12, 12, 6
    ]  # fmt: skip
    assert [fewer_groups(size, 64, hopper) for size in (32, 256, 512, 1024)] == [24, 3, None, None]
    assert [fewer_groups(64, registers, ada) for registers in (80, 88)] == [None, 9]


@pytest.mark.skipif(library() is None, reason=MISSING)
def test_the_compiler_is_told_how_many_groups_are_resident() -> None:
    program = translate_cuda(parse_program(HALF_FULL, (), target=TARGET))
    for count in (0, 12):
        further = [program.kernels["plain"].resident_groups(count)] if count else []
        done, text = compile_cuda(program.source, [*program.options, *further])
        assert done, text
        assert text.count(".maxntid 64") == 3
        assert text.count(".minnctapersm 12") == (1 if count else 0) == text.count(".minnctapersm")


@pytest.mark.parametrize(
    ("program", "text"),
    [
        (BackendProgram(b"spirv"), "intermediate language"),
        (BackendProgram("whatever"), "parser"),
        (
            BackendProgram("", (), parse_program(BLOCKS, ("-cl-std=CL2.0",), target=TARGET)),
            "line 1: not available on CUDA workers",
        ),
    ],
    ids=["il", "unparsed", "blocks"],
)  # fmt: skip
def test_what_cannot_be_translated_says_why(tmp_path: Path, program: BackendProgram, text: str) -> None:
    for _ in range(2):
        with pytest.raises(BuildFailure) as caught:
            translated(program, Cubins(tmp_path, _Compiler(), "1"))
        assert text in caught.value.log


def test_without_a_gpu_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> object:
        return CudaMissing("the driver reports no GPU")

    monkeypatch.setattr(cuda_driver, "_load", missing)
    with pytest.raises(NoWorkers, match=r"cuda:1.*the driver reports no GPU"):
        open_workers(parse_workers("cuda:1"))
    assert len(open_workers(parse_workers("auto"))) == 2


def test_a_missing_gpu_is_named_together_with_the_existing_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_driver, "device_names", lambda: ["One", "Other"])
    with pytest.raises(NoWorkers, match=r"cuda:0 \(One\), cuda:1 \(Other\)"):
        open_workers(parse_workers("cuda:2"))
    assert len(open_workers(parse_workers("cuda"))) == 2
    assert len(open_workers(parse_workers("cuda:0*3,cuda:1"))) == 4


@pytest.mark.parametrize(("workers", "opened"), [("cuda:1", [1]), ("auto", [0, 1, 2]), ("cuda", [0, 1, 2])])
def test_gpus_are_opened_while_cupy_is_loaded(
    workers: str, opened: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither waits for the other: what loads CuPy here waits until the GPUs are being opened, and no GPU is open before that."""
    begun, loading, found = threading.Semaphore(0), threading.Event(), list[int]()

    class Driver:
        def count_devices(self) -> int:
            return 3

        def open_device(self, number: int) -> None:
            begun.release()
            assert loading.wait(60)
            found.append(number)

    def load() -> object:
        loading.set()
        assert all(begun.acquire(timeout=300) for _ in opened)
        return CudaMissing("nothing else is looked at")

    monkeypatch.setattr(cuda_driver, "_opening", [])
    monkeypatch.setattr(cuda_driver, "_has_cupy", lambda: True)
    monkeypatch.setattr(cuda_driver, "Driver", Driver)
    monkeypatch.setattr(cuda_driver, "_load", load)
    with contextlib.suppress(NoWorkers):
        open_workers(parse_workers(workers))
    assert sorted(found) == opened


def test_no_gpu_is_opened_without_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    """On machines with NVIDIA's driver but without CuPy, programs run on CPU workers, and take no memory of the GPUs."""
    monkeypatch.setattr(cuda_driver, "_opening", opening := list[threading.Thread]())
    monkeypatch.setattr(cuda_driver, "_has_cupy", lambda: False)
    monkeypatch.setattr(cuda_driver, "Driver", lambda: pytest.fail("the driver was loaded"))
    cuda_driver.begin_opening(())
    assert not opening


def test_a_driver_that_lacks_a_function_is_not_told_by_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only by `load`, as what keeps CUDA from being used; the thread that opens GPUs ahead says nothing."""

    def old() -> object:
        raise AttributeError("undefined symbol: cuFuncGetParamInfo")

    told = list[object]()
    monkeypatch.setattr(threading, "excepthook", told.append)
    monkeypatch.setattr(cuda_driver, "_opening", opening := list[threading.Thread]())
    monkeypatch.setattr(cuda_driver, "_has_cupy", lambda: True)
    monkeypatch.setattr(cuda_driver, "Driver", old)
    cuda_driver.begin_opening((0,))
    opening[0].join()
    assert told == []


@pytest.mark.parametrize("case", ["opening", "opened", "not wanted"])
def test_garbage_is_collected_while_gpus_are_opened(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What vdev has loaded is new to the collector, which takes long, and is not to look at it amid the first launches; but nobody who
    does not wait anyway is to wait for that, and none who collects no garbage.
    """
    collected, opened = list[bool](), threading.Event()

    def collect() -> None:
        collected.append(thread.is_alive())
        opened.set()

    thread = threading.Thread(target=opened.wait, args=(1.0 if case == "not wanted" else 60.0,))
    monkeypatch.setattr(cuda_driver, "_opening", [thread])
    monkeypatch.setattr(cuda_driver, "_load", lambda: CudaMissing("nothing else is looked at"))
    monkeypatch.setattr(cuda_driver.gc, "collect", collect)
    monkeypatch.setattr(cuda_driver.gc, "isenabled", lambda: case != "not wanted")
    thread.start()
    if case == "opened":
        opened.set()
        thread.join()
    with pytest.raises(CudaMissing):
        cuda_driver.load()
    assert collected == ([True] if case == "opening" else [])
    assert not thread.is_alive()


class _Parameters:
    """Of a driver: where a kernel's parameters lie (pointer, local memory, int, hidden structure)."""

    def parameters(self, function: int, count: int) -> list[tuple[int, int]]:
        assert count == 4
        return [(0, 8), (8, 4), (12, 4), (16, 200)]


class _Program:
    """Of a loaded program: what the driver says of its kernels, and takes."""

    CUDADriverError = RuntimeError

    def __init__(self, static: int = 1024) -> None:
        self.set: list[tuple[int, int, int]] = []
        self.cuda_driver = self
        self.static = static

    def attribute(self, function: int, number: int) -> int:
        return self.static if number == cuda_driver.SHARED_NBYTES else 1024

    def funcSetAttribute(self, function: int, number: int, value: int) -> None:
        if self.static + value > 227 << 10:
            raise RuntimeError("too much")
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


class _Driver:
    """Notes launches and contexts, as integers."""

    def __init__(self) -> None:
        self.current, self.result, self.busy = 0, 0, False
        self.recorded = 0  #: events
        self.launched: list[list[int]] = []
        self.contexts: list[int] = []
        self.launches_in: int | None = None  # in this context only

    def parameters(self, function: int, count: int) -> list[tuple[int, int]]:
        return [(8 * index, 8) for index in range(count - 1)] + [(8 * (count - 1), 256)]

    starting = cuda_driver.Driver.starting

    def _launch(self, place: Any, function: Any, parameters: Any, extra: Any) -> int:
        """Noted as cuLaunchKernel would be called."""
        if self.launches_in not in (None, self.current):
            return 400 if self.current else 201
        config = cuda_driver.LaunchConfig.from_address(place.value)
        sizes = (*config.groups, *config.work_items, config.shared_nbytes)
        assert not config.attributes
        assert not config.attribute_count
        handles = (config.stream or 0, parameters.value or 0, extra.value)
        self.launched.append([function.value, *sizes, *handles])
        return self.result

    def event_record(self, event: int, stream: int) -> int:
        self.recorded += 1
        return 0

    def event_query(self, event: int) -> int:
        return ERROR_NOT_READY if self.busy else SUCCESS

    def new_event(self) -> int:
        return 5

    def context(self) -> int:
        return self.current

    visitor = cuda_driver.Driver.visitor

    def _ask_context(self, place: Any) -> int:
        ctypes.c_void_p.from_address(place.value).value = self.current
        return 0

    def set_context(self, context: int) -> int:
        self.current = context
        self.contexts.append(context)
        return 0

    def error(self, result: int, text: str) -> BackendError:
        return BackendError(-5, f"{text}: {result}")


class _Loaded:
    def __init__(self, threads: int) -> None:
        self.threads = threads

    def attribute(self, function: int, number: int) -> int:
        return self.threads


def _cuda(number: int = 0) -> tuple[Any, _Driver]:
    """A CUDA back end without CUDA."""
    backend = object.__new__(CudaBackend)
    backend.driver = driver = _Driver()  # type: ignore[assignment]
    backend.number, backend.context, backend.stream = number, 0x7F00_1234_5678, 0x7F00_0000_0077
    backend.counters = Counters()
    backend._gpu = gpu = object.__new__(Gpu)
    gpu.driver, gpu.number, gpu.free_events, gpu.lost = driver, number, deque(), None  # type: ignore[assignment]
    gpu.at_loss, gpu.held_at_loss, gpu.clock = lambda: None, (), None  # type: ignore[assignment]
    backend._first = backend._count = 0
    backend._fetches, backend._lost = [], None
    backend._modules = SimpleNamespace()  # type: ignore[assignment]
    backend._modules.with_full_groups = lambda kernel: kernel.small  # type: ignore[method-assign]
    backend._sparse = SimpleNamespace(let_go=lambda marker: None)  # type: ignore[assignment]
    backend._let_go_behind_markers = ()  # type: ignore[assignment]
    return backend, driver


def _launched(backend: Any, groups: int = 3) -> tuple[Any, Any]:
    """A kernel that has just been launched there, and what makes it again."""
    info = translate_cuda(parse_program(SOURCE, (), target=TARGET)).kernels["f"]
    kernel = cuda_launch.Kernel(info, _Loaded(1024), 0x7F00_0000_0042, backend.driver)  # type: ignore[arg-type]
    ndrange = NDRange((64 * groups,), (64,), (0,))
    chunk = whole_chunk(ndrange)
    shape = _shape(ndrange, chunk, info.pack(ndrange, chunk, (64,))[:-8])
    memory = cuda_launch.CudaAllocation(SimpleNamespace(ptr=0x7F00_0000_1000), 4096)
    args: list[Any] = [memory, LocalBytes(256), struct.pack("<i", 7)]
    backend.launch(kernel, args, shape)
    return kernel, backend.again(kernel, args, shape)


def test_a_launch_made_again_is_the_same_call() -> None:
    backend, driver = _cuda()
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
    backend, driver = _cuda()
    driver.current = backend.context
    kernel, again = _launched(backend)
    mine, number = bytes(kernel.buffer), kernel.offsets[2]
    ndrange = NDRange((64,), (64,), (0,))
    chunk = whole_chunk(ndrange)
    shape = _shape(ndrange, chunk, kernel.info.pack(ndrange, chunk, (128,))[:-8])
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
    backend, driver = _cuda()
    driver.current = backend.context
    kernel, first = _launched(backend)
    other_args: list[Any] = [
        cuda_launch.CudaAllocation(SimpleNamespace(ptr=0x7F00_0000_9000), 4096),
        LocalBytes(512),
        struct.pack("<i", 9),
    ]
    ndrange = NDRange((64,), (64,), (0,))
    chunk = whole_chunk(ndrange)
    shape = _shape(ndrange, chunk, kernel.info.pack(ndrange, chunk, (128,))[:-8])
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
    return _shape(ndrange, chunk, kernel.info.pack(ndrange, chunk, (shift,))[:-8])


def test_a_launch_made_again_goes_over_to_another_index_space() -> None:
    """With what the kernel is told of it, and its own arguments and local memory: behind itself, and behind another launch."""
    backend, driver = _cuda()
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
    backend, _ = _cuda()
    kernel, _ = _launched(backend)
    ndrange = NDRange((64, 200_000, 1), (64, 1, 1), (0, 0, 0))
    chunk = whole_chunk(ndrange)
    several = _shape(ndrange, chunk, kernel.info.pack(ndrange, chunk, (64,))[:-8])
    assert not backend.repeats_over(kernel, several)
    assert backend.repeats_over(kernel, _resized(kernel, 7))
    kernel.threads = 32  # for groups of 64 it takes one with fewer registers
    assert not backend.repeats_over(kernel, _resized(kernel, 7))


def test_a_marker_ends_what_is_being_timed() -> None:
    """Launches behind it are not recorded beside for a command that was refused, and no command has ended with one of them."""
    backend, driver = _cuda()
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
    backend, driver = _cuda()
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
    backend, driver = _cuda(number)
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
    backend, driver = _cuda()
    info = translate_cuda(parse_program(SOURCE, (), target=TARGET)).kernels["f"]
    kernel = cuda_launch.Kernel(info, _Loaded(1024), 0x7F00_0000_0042, driver)  # type: ignore[arg-type]
    ndrange = NDRange((192,), (64,), (0,))
    chunk = whole_chunk(ndrange)
    shapes = [_shape(ndrange, chunk, info.pack(ndrange, chunk, (shift,))[:-8], shift) for shift in (64, 128)]
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
    backend, driver = _cuda(number)
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
    backend, _ = _cuda()
    info = translate_cuda(parse_program(SOURCE, (), target=TARGET)).kernels["f"]
    kernel, _ = _launched(backend)
    ndrange = NDRange((64, 200_000, 1), (64, 1, 1), (0, 0, 0))
    chunk = whole_chunk(ndrange)
    shape = _shape(ndrange, chunk, info.pack(ndrange, chunk, (64,))[:-8])
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


@pytest.mark.parametrize("full_groups", [False, True])
def test_modules_of_released_programs_are_unloaded_after_their_work(
    tmp_path: Path, full_groups: bool
) -> None:
    backend, driver = _cuda()
    backend._cupy, backend._gpu.clock = (cupy := _Cupy(56)), SimpleNamespace(due=1 << 62)
    cubins = Cubins(tmp_path, _Compiler(), "1")
    modules = backend._modules = Modules(cupy, backend.driver, cubins, "sm_90", Multiprocessor(65536, 2048))
    backend._let_go_behind_markers = modules.awaiting  # type: ignore[assignment]
    first, second = (BackendProgram("", (), parse_program(HALF_FULL, (), target=TARGET)) for _ in range(2))
    loaded = [backend._load(program) for program in (first, second)]
    assert backend._load(first) is loaded[0]
    if full_groups:
        loaded[0].with_full_groups = modules._load_cubin(loaded[0].program, full_groups=True)
    numbers = [1, 3] if full_groups else [1]

    backend.record()
    del first, loaded[0]
    gc.collect()
    driver.busy = True
    backend.record()
    backend.record()
    assert cupy.unloaded == []
    driver.busy = False
    backend.record()
    assert sorted(cupy.unloaded) == numbers
    assert [entry.module for entry in modules.loaded.values()] == [2]


class Compiling:
    """In place of cubins: a compiler that begins when told so by `go`, and how many are at each source at the same time."""

    def __init__(self, slow: str) -> None:
        self.slow = slow
        self.begun, self.go = threading.Semaphore(0), threading.Event()
        self.at_work: dict[str, int] = {}
        self.most: dict[str, int] = {}

    def get(self, source: str, options: Sequence[str]) -> tuple[bytes, str]:
        self.at_work[source] = self.at_work.get(source, 0) + 1
        self.most[source] = max(self.most.get(source, 0), self.at_work[source])
        if source == self.slow:
            self.begun.release()
            assert self.go.wait(60)
        self.at_work[source] -= 1
        return source.encode(), ""


def test_an_own_kernel_does_not_wait_for_one_that_is_only_prepared() -> None:
    first, other = (cuda_kernels.SOURCE_OF[name] for name in ("copy_u16", "copy_boxes_u4"))
    cubins = Compiling(first)
    gpus = [CudaBackend.__new__(CudaBackend) for _ in range(2)]
    for gpu in gpus:
        gpu._architecture, gpu._cubins = "sm_90", cubins  # type: ignore[assignment]
    preparing = [threading.Thread(target=gpu.preparations()[0]) for gpu in gpus]
    for thread in preparing:
        thread.start()
    assert cubins.begun.acquire(timeout=60)
    needed: list[bytes] = []
    needing = threading.Thread(target=lambda: needed.append(gpus[1]._own_cubin("copy_boxes_u4")))
    needing.start()
    needing.join(60)
    assert needed == [other.encode()]
    assert not cubins.begun.acquire(timeout=0.1), "the second GPU waits for what the first compiles"
    cubins.go.set()
    for thread in preparing:
        thread.join(60)
    assert cubins.most == {first: 1, other: 1}
