"""The driver's functions for modules: `vdev.backends.cuda.cupy_parts.ModuleCalls`, on a library in place of the driver's."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from vdev.backends.cuda import cupy_parts
from vdev.backends.cuda import driver as cuda_driver
from vdev.errors import CudaMissing

from . import fake_cuda
from .cuda_host import COMPILER, MISSING

#: Handles count from 100; what is loaded begins with "ELF"; an attribute is what it was set to, or its number times 10.
SOURCE = """
#include <string.h>
static int set[16];
int cuModuleLoadData(void **module, const char *image) {
    if (memcmp(image, "ELF", 3)) return 200;
    *module = (void *)(100L + image[3]);
    return 0;
}
int cuModuleUnload(void *module) { return (long)module == 101 ? 0 : 400; }
int cuModuleGetFunction(void **function, void *module, const char *name) {
    if ((long)module != 101 || strcmp(name, "add")) return 500;
    *function = (void *)0x123456789abL;
    return 0;
}
int cuFuncGetAttribute(int *value, int attribute, void *function) {
    if ((long)function != 0x123456789abL) return 400;
    *value = set[attribute] ? set[attribute] : 10 * attribute;
    return 0;
}
int cuFuncSetAttribute(void *function, int attribute, int value) {
    if ((long)function != 0x123456789abL) return 400;
    set[attribute] = value;
    return 0;
}
int cuGetErrorName(int result, const char **name) {
    if (result == 400) *name = "CUDA_ERROR_INVALID_HANDLE";
    return result == 400 ? 0 : 1;
}
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> cupy_parts.ModuleCalls:
    compiler = shutil.which("cc") or pytest.skip("no C compiler")
    (tmp_path / "driver.c").write_text(SOURCE)
    library = tmp_path / "libcuda.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, tmp_path / "driver.c"], check=True)
    opened = ctypes.CDLL(str(library))
    monkeypatch.setattr(ctypes, "CDLL", lambda name: opened if name == "libcuda.so.1" else None)
    return cupy_parts.ModuleCalls()


def test_modules_functions_and_attributes(calls: cupy_parts.ModuleCalls) -> None:
    module = calls.moduleLoadData(b"ELF\x01\0more")
    function = calls.moduleGetFunction(module, "add")
    assert (module, function) == (101, 0x123456789AB)
    calls.funcSetAttribute(function, 8, 70_000)
    assert [calls.funcGetAttribute(number, function) for number in (4, 8)] == [40, 70_000]
    calls.moduleUnload(module)


def test_failures_have_the_drivers_names(calls: cupy_parts.ModuleCalls) -> None:
    with pytest.raises(calls.CUDADriverError, match=r"^CUDA error 200$"):
        calls.moduleLoadData(b"PTX")
    with pytest.raises(calls.CUDADriverError, match=r"^CUDA error 500$"):
        calls.moduleGetFunction(101, "subtract")
    with pytest.raises(calls.CUDADriverError) as caught:
        calls.moduleUnload(7)
    assert caught.value.status == 400
    for failing in (
        lambda: calls.moduleUnload(7),
        lambda: calls.funcGetAttribute(0, 7),
        lambda: calls.funcSetAttribute(7, 0, 1),
    ):
        with pytest.raises(calls.CUDADriverError, match=r"^CUDA_ERROR_INVALID_HANDLE$"):
            failing()


#: a fill by one of vdev's own kernels, and a launch of one of the program's
REFUSED = """
import os
os.dup2(1, 2)
import numpy as np, pyopencl as cl
context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4096)
def launched():
    program = cl.Program(context, "kernel void one(global int *x) { x[get_global_id(0)] = 1; }").build()
    return cl.Kernel(program, "one")(queue, (1024,), (64,), buffer)
def filled(): return cl.enqueue_fill_buffer(queue, buffer, np.arange(4, dtype=np.int32), 0, 4096)
try:
    COMMAND().wait()
except cl.RuntimeError as error:
    print(error, "status", error.code, flush=True)
"""


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
@pytest.mark.parametrize(
    ("command", "refused", "status", "told"),
    [
        ("filled", "cuModuleLoadData", -14, "vdev's kernel fill_pattern"),
        ("filled", "cuModuleGetFunction", -14, "vdev's kernel fill_pattern"),
        ("launched", "cuModuleGetFunction", -5, "kernel vdev_cuda_kernel0: CUDA_ERROR"),
    ],
)
def test_a_kernel_that_the_driver_does_not_load_fails_its_command(
    command: str, refused: str, status: int, told: str, tmp_path: Path
) -> None:
    env = fake_cuda.environment(tmp_path, "cuda:0") | {"FAKE_CUDA_REFUSED": refused, "VDEV_LOG": "info"}
    env["PYOPENCL_NO_CACHE"] = "1"
    printed = fake_cuda.run(REFUSED.replace("COMMAND", command), env)
    assert f"status {status}\n" in printed
    assert told in printed
    assert "internal error" not in printed


@pytest.fixture
def no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    monkeypatch.setattr(ctypes, "PyDLL", missing)


@pytest.mark.usefixtures("no_driver")
def test_without_a_driver_there_are_no_modules() -> None:
    with pytest.raises(CudaMissing, match="libcuda"):
        cupy_parts.ModuleCalls()


@pytest.mark.usefixtures("no_driver")
def test_without_a_driver_cupy_is_not_loaded_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading it would take longer than all else that such a program does with CUDA, which is nothing."""
    bindings = SimpleNamespace(runtime=SimpleNamespace())
    for name in ("cupy_backends", "cupy_backends.cuda", "cupy_backends.cuda.api"):
        monkeypatch.setitem(sys.modules, name, bindings)
    monkeypatch.setitem(sys.modules, "cupy", None)  # an import of it fails
    found = cuda_driver._load.__wrapped__()
    assert isinstance(found, CudaMissing)
    assert "NVIDIA's driver is not installed" in str(found)


@pytest.mark.usefixtures("calls")
def test_without_nvrtc_cuda_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So programs run on other workers, and those that ask for GPUs are told why there are none."""

    def refuse() -> None:
        raise RuntimeError("CuPy failed to load libnvrtc.so.13")

    whole = SimpleNamespace(cuda=SimpleNamespace(nvrtc=SimpleNamespace(getVersion=refuse)))
    monkeypatch.setitem(sys.modules, "cupy_backends", None)  # nor can its bindings load it
    monkeypatch.setitem(sys.modules, "cupy", whole)
    monkeypatch.setattr(cupy_parts, "cache_dir", lambda: tmp_path)
    found = cuda_driver._load.__wrapped__()
    assert isinstance(found, CudaMissing)
    assert "NVRTC" in str(found)
    assert "libnvrtc.so.13" in str(found)
