"""The parts of CUDA workers that need no GPU: how copies, merges and launches are cut, which cubins are kept,
what is said where there is no GPU.
"""

from __future__ import annotations

import contextlib
import gc
import os
import re
import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vdev.translators.dialects.cuda.translation import translate_cuda
from vdev.translators.frontend.source import parse_program
from vdev.translators.ranges.byte_runs import Block
from vdev.translators.ranges.ndrange import Chunk, NDRange, whole_chunk

from tests.pure.own_thread import on_this_thread
from vdev.backends.base import BackendProgram, Box, copy_box
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
from vdev.backends.cuda.modules import Modules
from vdev.backends.cuda.programs import (
    Cubins,
    Multiprocessor,
    _lock_of,
    fewer_groups,
    kept,
    nvrtc_compiler,
    translated,
)
from vdev.backends.cuda.staging import pieces_of
from vdev.errors import BackendError, BuildFailure, CudaMissing, NoWorkers
from vdev.process.finalisers import collect
from vdev.process.switches import parse_workers
from vdev.start.workers import open_workers

from .cuda_parts import SOURCE, TARGET, cuda_without_a_gpu, launch_shape
from .nvrtc import MISSING, compile_cuda, library

BLOCKS = "kernel void f(global int *a) { void (^b)(void) = ^{}; b(); }"


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


def test_a_launch_beyond_cudas_limit_of_groups_is_several() -> None:
    info = translate_cuda(parse_program(SOURCE, (), target=TARGET)).kernels["f"]
    ndrange = NDRange((64, 200_000, 1), (64, 1, 1), (0, 0, 0))
    chunk = Chunk((0, 1000, 0), (1, 190_000, 1))
    hidden = info.pack(ndrange, chunk, (64,))[:-8]
    grids = cuda_launch.grids(info, launch_shape(ndrange, chunk, hidden))
    assert [grid[1] for grid in grids] == [65535, 65535, 57930]
    starts = [1000, 66535, 132070]
    for grid, start in zip(grids, starts, strict=True):
        part = Chunk((0, start, 0), (1, start + grid[1], 1))
        assert grid[6] == info.pack(ndrange, part, (64,))
    small = Chunk((0, 5, 0), (1, 9, 1))
    (only,) = cuda_launch.grids(info, launch_shape(ndrange, small, info.pack(ndrange, small, (64,))[:-8]))
    assert only == (1, 4, 1, 64, 1, 1, info.pack(ndrange, small, (64,)))


def test_a_kernel_taken_as_it_is_has_no_shifts() -> None:
    info = translate_cuda(parse_program(SOURCE, (), target=TARGET)).kernels["f"]
    ndrange = NDRange((128,), (64,), (0,))
    (grid,) = cuda_launch.grids(info, launch_shape(ndrange, whole_chunk(ndrange), None))
    assert grid[6] == info.pack(ndrange, whole_chunk(ndrange), (0,))
    ragged = NDRange((100,), (64,), (0,))
    with pytest.raises(BackendError) as caught:
        cuda_launch.grids(info, launch_shape(ragged, whole_chunk(ragged), None))
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


@pytest.mark.parametrize(("version", "left_out"), [((12, 0), False), ((12, 4), True), ((13, 1), True)])
def test_nvrtc_leaves_out_what_our_text_has_nothing_of(version: tuple[int, int], left_out: bool) -> None:
    """Where it knows the option: older ones refuse it, and so every program."""
    asked: list[tuple[str, ...]] = []

    class Nvrtc:
        NVRTCError = type("NVRTCError", (Exception,), {})
        getVersion = staticmethod(lambda: version)
        createProgram = staticmethod(lambda *rest: 1)
        compileProgram = staticmethod(lambda program, options: asked.append(options))
        getCUBIN = staticmethod(lambda program: b"cubin")
        getProgramLog = staticmethod(lambda program: "")
        destroyProgram = staticmethod(lambda program: None)

    compiler = nvrtc_compiler(SimpleNamespace(cuda=SimpleNamespace(nvrtc=Nvrtc)))
    assert compiler("", ("--std=c++20",)) == (b"cubin", "")
    (options,) = asked
    assert options[0] == "--std=c++20"
    assert ("--minimal" in options) is left_out


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
    assert [option for option in options[1] if option not in options[0]] == [
        kernel.bounded(1024) for kernel in first.kernels.values()
    ]


def test_a_program_s_own_number_of_registers_comes_before_bounds(tmp_path: Path) -> None:
    compiler, given = _Compiler(), ("-cl-nv-maxrregcount=80",)
    found = translated(
        BackendProgram("", given, parse_program(HALF_FULL, given, target=TARGET)),
        Cubins(tmp_path, compiler, "1"),
    )
    unsized = found.kernels["any_size"]
    found.cubin("sm_90")
    found.cubin("sm_90", full_groups=True)  # in which kernels with any number of registers cannot run
    (_, own), (_, full) = compiler.asked
    assert "--maxrregcount=80" in own
    assert "--maxrregcount=80" not in full
    assert [option for option in own if option.startswith("-D")] == [unsized.bounded(None)]
    assert [option for option in full if option.startswith("-D")] == [unsized.bounded(1024)]


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
    further = [option for option in compiler.asked[-1][1] if "_resident=" in option]
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


@pytest.mark.skipif(library() is None, reason=MISSING)
@pytest.mark.parametrize(
    ("threads", "found"), [("", 256), (1024, 1024), (None, None)], ids=["usual", "largest", "no"]
)
def test_the_compiler_is_told_of_bounds_where_no_size_is_required(
    threads: int | str | None, found: int | None
) -> None:
    program = translate_cuda(parse_program(HALF_FULL, (), target=TARGET))
    kernel = program.kernels["any_size"]
    options = [] if isinstance(threads, str) else [kernel.bounded(threads)]
    done, text = compile_cuda(program.source, [*program.options, *options])
    assert done, text
    entry = text[text.index(f".entry {kernel.entry}(") :]
    bound = re.search(r"\.maxntid (\d+)", entry[: entry.index("{")])
    assert (bound and int(bound[1])) == found


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
    monkeypatch.setattr(cuda_driver.gc, "collect", on_this_thread(collect, gc.collect))
    wanted = on_this_thread(lambda: case != "not wanted", gc.isenabled)
    monkeypatch.setattr(cuda_driver.gc, "isenabled", wanted)
    thread.start()
    if case == "opened":
        opened.set()
        thread.join()
    with pytest.raises(CudaMissing):
        cuda_driver.load()
    assert collected == ([True] if case == "opening" else [])
    assert not thread.is_alive()


@pytest.mark.parametrize("full_groups", [False, True])
def test_modules_of_released_programs_are_unloaded_after_their_work(
    tmp_path: Path, full_groups: bool
) -> None:
    backend, driver = cuda_without_a_gpu()
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
    assert collect()
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
