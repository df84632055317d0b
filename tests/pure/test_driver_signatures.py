"""vdev's declarations of the driver's functions are those of `cuda.h`, and what it calls them with fits."""

from __future__ import annotations

import ctypes
import gc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from vdev.backends.cuda import cupy_parts
from vdev.backends.cuda import driver as cuda_driver
from vdev.backends.cuda.clock import Clock
from vdev.backends.cuda.launch import Kernel
from vdev.backends.cuda.own_kernels import OwnKernels

from . import driver_signatures
from .cuda_host import COMPILER, MISSING
from .driver_signatures import SIGNATURES
from .fake_cuda import driver_text

#: C's types by ctypes'
_KINDS = {
    ctypes.c_void_p: "p",
    ctypes.c_char_p: "p",
    ctypes.c_ubyte: "u1",
    ctypes.c_ushort: "u2",
    ctypes.c_uint: "u4",
    ctypes.c_int: "i4",
    ctypes.c_float: "f4",
    ctypes.c_uint64: "u8",
    ctypes.c_size_t: "u8",
}


class _Function:
    """A function of the library's: how it is declared, and what it is called with."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.argtypes: tuple[Any, ...] | None = None
        self.restype: Any = None
        self.calls: list[tuple[Any, ...]] = []

    def __call__(self, *args: Any) -> int:
        self.calls.append(args)
        return 0


class _Library:
    """Gives one function by attribute, another one by item, as ctypes does."""

    def __init__(self) -> None:
        self.functions: list[_Function] = []

    def __getattr__(self, name: str) -> _Function:
        found = self[name]
        setattr(self, name, found)
        return found

    def __getitem__(self, name: str) -> _Function:
        self.functions.append(_Function(name))
        return self.functions[-1]


@pytest.fixture
def functions(monkeypatch: pytest.MonkeyPatch) -> list[_Function]:
    """All that is asked of the driver's library."""
    library, again = _Library(), _Library()
    library.functions = again.functions
    monkeypatch.setattr(ctypes, "PyDLL", lambda name: library)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: again)
    return library.functions


def test_functions_are_declared_as_the_header_has_them(functions: list[_Function]) -> None:
    cuda_driver.Driver()
    cupy_parts.ModuleCalls()
    for function in functions:
        assert function.restype is ctypes.c_int, function.name
        if function.argtypes is not None:
            kinds = [_KINDS[kind] for kind in function.argtypes]
            expected = ["p" if "*" in kind else kind for kind in SIGNATURES[function.name].split()]
            fits = [
                kind in (wanted, "u8" if wanted == "p" else "")
                for kind, wanted in zip(kinds, expected, strict=True)
            ]
            assert all(fits), (function.name, kinds, expected)  # an address may be passed as a number
    typed = {function.name for function in functions if function.argtypes is not None}
    assert typed == set(SIGNATURES) - {"cuLaunchKernelEx", "cuStreamQuery"}  # these are given ctypes objects
    assembled = {
        "cuLaunchKernelEx",
        "cuCtxGetCurrent",
        "cuEventRecord",
        "cuMemcpyAsync",
        "cuMemcpyDtoHAsync_v2",
        "cuStreamQuery",
    }
    assert {f.name for f in functions if f.argtypes is None} == assembled


def _fits(function: _Function, arg: Any, kind: str) -> bool:
    if kind == "*i1":
        return isinstance(arg, bytes) or (isinstance(arg, ctypes.Array) and arg._type_ is ctypes.c_char)
    if hasattr(arg, "_obj"):  # what `byref` gives: the driver writes there
        if isinstance(arg._obj, ctypes.Structure):  # or what it reads there
            return kind == "p"
        return kind in ("*p" if type(arg._obj) is ctypes.c_char_p else "", f"*{_KINDS[type(arg._obj)]}")
    if function.argtypes is None:  # a ctypes object passes as its own type
        of = next(each for each in type(arg).__mro__ if each in _KINDS)
        return _KINDS[of] == ("p" if "*" in kind else kind)
    if arg is None:
        return kind == "p"
    return kind == "p" if isinstance(arg, bytes) else isinstance(arg, int) and not kind.startswith(("*", "f"))


def _call_all_with_results() -> None:
    driver, modules = cuda_driver.Driver(), cupy_parts.ModuleCalls()
    driver.open_device(0)
    driver.count_devices()
    driver.name(0)
    driver.attribute(14, 0)
    driver.new_texture(512, (8, 8, 64), (0x20, 1), 1, linear=True, normalized=False)
    driver.context()
    driver.visitor(7)()
    for managed in (False, True):
        driver.take_memory(100, managed=managed)
    driver.give_memory(100)
    driver.parameters(1, 2)
    driver.error(1, "")
    stream = SimpleNamespace(ptr=5)
    runtime = SimpleNamespace(eventSynchronize=lambda event: None)
    cupy = SimpleNamespace(cuda=SimpleNamespace(Stream=lambda non_blocking: stream, runtime=runtime))
    Clock(cupy, driver).read(3)
    modules.moduleLoadData(b"an image")
    modules.moduleGetFunction(1, "add")
    modules.funcGetAttribute(4, 1)
    modules.funcSetAttribute(1, 8, 70_000)
    modules.moduleUnload(1)
    with pytest.raises(modules.CUDADriverError):
        modules._check(1)


def test_what_the_driver_writes_has_room_where_it_is_told_to(functions: list[_Function]) -> None:
    _call_all_with_results()
    called = set()
    for function in functions:
        for args in function.calls:
            kinds = SIGNATURES[function.name].split()
            fits = [_fits(function, arg, kind) for arg, kind in zip(args, kinds, strict=True)]
            assert all(fits), (function.name, args)
            called.add(function.name)
    assert {name for name, kinds in SIGNATURES.items() if "*" in kinds} - called == {"cuLaunchKernelEx"}


class _Launched:
    """Of a loaded program and of a driver: what a kernel is assembled from."""

    def __init__(self) -> None:
        self._launch = _Function("cuLaunchKernelEx")

    starting = cuda_driver.Driver.starting

    def parameters(self, function: int, count: int) -> list[tuple[int, int]]:
        return [(0, 8), (8, 200)]

    def attribute(self, function: int, number: int) -> int:
        return 0


def test_launches_made_ready_have_the_functions_widths() -> None:
    made: Any = _Launched()
    kernel = Kernel(SimpleNamespace(hidden_index=1, local_args=()), made, 1 << 40, made)  # type: ignore[arg-type]
    kernel.assembled((1, 2, 3, 4, 5, 6, b""), 1 << 40, made)()
    asked: list[str] = []
    own = OwnKernels(
        1 << 40, 1, lambda: lambda name: asked.append(name) or 1 << 40, made.starting, lambda *of: None
    )
    assert asked == []
    for _ in range(2):
        own.filling(1 << 40, 100, b"12345678")()
    assert asked == ["fill_pattern"]  # a driver may load what it is asked for
    assert len(made._launch.calls) == 3
    for args in made._launch.calls:
        kinds = SIGNATURES["cuLaunchKernelEx"].split()
        assert all(_fits(made._launch, arg, kind) for arg, kind in zip(args, kinds, strict=True)), args


def test_a_launch_is_described_as_the_header_lays_it_out() -> None:
    """`cuda.h`, CUlaunchConfig: seven numbers of 32 bits, two addresses, a number."""
    config = cuda_driver.LaunchConfig
    names = ("groups", "work_items", "shared_nbytes", "stream", "attributes", "attribute_count")
    assert [getattr(config, name).offset for name in names] == [0, 12, 24, 32, 40, 48]
    assert ctypes.sizeof(config) == 56


def test_a_texture_is_described_as_the_header_lays_it_out() -> None:
    """`cuda.h`, CUDA_RESOURCE_DESC with `pitch2D`, and CUDA_TEXTURE_DESC."""
    image, sampling = cuda_driver._Pitched, cuda_driver._Sampling
    names = ("kind", "address", "format", "channels", "width", "height", "row_pitch", "flags")
    assert [getattr(image, name).offset for name in names] == [0, 8, 16, 20, 24, 32, 40, 136]
    assert [getattr(sampling, name).offset for name in ("addressing", "filter", "flags")] == [0, 12, 16]
    assert (ctypes.sizeof(image), ctypes.sizeof(sampling)) == (144, 104)


def test_a_launch_made_ready_keeps_its_description() -> None:
    made: Any = _Launched()
    call = made.starting((1, 2, 3, 4, 5, 6), 7, 8, cuda_driver.launch_handles(1 << 40, 9))
    gc.collect()
    _ = [cuda_driver.LaunchConfig() for _ in range(1000)]  # would be where it was
    config = cuda_driver.LaunchConfig.from_address(call.args[0].value)
    assert ([*config.groups], [*config.work_items]) == ([1, 2, 3], [4, 5, 6])
    assert (config.shared_nbytes, config.stream, config.attributes, config.attribute_count) == (7, 8, None, 0)


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
def test_the_driver_for_tests_is_declared_like_the_real_one(tmp_path: Path) -> None:
    assert driver_signatures.described(driver_text(), tmp_path) == SIGNATURES


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
def test_the_table_is_what_the_header_declares(tmp_path: Path) -> None:
    folder = driver_signatures.header()
    if folder is None:
        pytest.skip("cuda.h is not installed")
    # Without the macros that give newer versions the plain names.
    text = "#define __CUDA_API_VERSION_INTERNAL\n#include <cuda.h>\n"
    assert driver_signatures.described(text, tmp_path, ["-I", str(folder)]) == SIGNATURES
