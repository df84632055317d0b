"""NVRTC called without CuPy, and which library that is: `vdev.backends.cuda.nvrtc_calls`. Needs NVRTC, but no GPU."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from vdev.backends.cuda import nvrtc_calls
from vdev.backends.cuda.programs import nvrtc_compiler
from vdev.errors import BuildFailure

from .nvrtc import MISSING, library

BINDINGS = "cupy_backends.cuda.libs.nvrtc"

pytestmark = pytest.mark.skipif(library() is None, reason=MISSING)


@pytest.fixture
def calls() -> nvrtc_calls.NvrtcCalls:
    found = library()
    assert found is not None
    return nvrtc_calls.NvrtcCalls(found)


def test_programs_are_compiled(calls: nvrtc_calls.NvrtcCalls) -> None:
    compiled = nvrtc_compiler(SimpleNamespace(cuda=SimpleNamespace(nvrtc=calls)))
    options = ("--gpu-architecture=sm_90", "-DVALUE=3")
    cubin, log = compiled('extern "C" __global__ void put(int *at) { *at = VALUE; }', options)
    assert (cubin[:4], log) == (b"\x7fELF", "")
    assert b"put" in cubin
    with pytest.raises(BuildFailure) as caught:
        compiled('extern "C" __global__ void put(int *at) { *at = OTHER; }', options)
    assert 'identifier "OTHER" is undefined' in caught.value.log


def test_what_is_refused_has_the_compilers_name(calls: nvrtc_calls.NvrtcCalls) -> None:
    program = calls.createProgram("", "a.cu", (), ())
    with pytest.raises(calls.NVRTCError, match=r"^NVRTC_ERROR_INVALID_OPTION \(5\)$"):
        calls.compileProgram(program, ("--no-such-option",))
    calls.destroyProgram(program)
    with pytest.raises(calls.NVRTCError, match="NVRTC_ERROR_INVALID_PROGRAM"):
        calls.getProgramLog(0)


class _Finder:
    """`cuda.pathfinder` that finds a library of that path, or none."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, path: Path | None) -> None:
        package, finder, bindings = ModuleType("cuda"), ModuleType("cuda.pathfinder"), ModuleType(BINDINGS)
        finder.load_nvidia_dynamic_lib = self.load  # type: ignore[attr-defined]
        for module in (package, finder, bindings):
            monkeypatch.setitem(sys.modules, module.__name__, module)
        self.path, self.bindings = path, bindings

    def load(self, name: str) -> Any:
        assert name == "nvrtc"
        if self.path is None:
            raise RuntimeError("not found")
        return SimpleNamespace(abs_path=str(self.path))


def test_the_library_that_is_found_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(library()._name)  # type: ignore[union-attr]
    major = int(path.name.split(".")[2])
    finder = _Finder(monkeypatch, path)
    found = nvrtc_calls.nvrtc_of(SimpleNamespace(runtimeGetVersion=lambda: 1000 * major + 20))
    assert isinstance(found, nvrtc_calls.NvrtcCalls)
    assert found.getVersion()[0] == major
    other = nvrtc_calls.nvrtc_of(SimpleNamespace(runtimeGetVersion=lambda: 1000 * major - 1000))
    assert other is finder.bindings


@pytest.mark.parametrize("case", ["none found", "no finder", "another CuPy", "no library there"])
def test_else_cupy_calls_it(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finder = _Finder(monkeypatch, None if case == "none found" else tmp_path / "libnvrtc.so.13")
    if case == "no finder":
        monkeypatch.setitem(sys.modules, "cuda.pathfinder", None)
    runtime = (
        SimpleNamespace() if case == "another CuPy" else SimpleNamespace(runtimeGetVersion=lambda: 13000)
    )
    assert nvrtc_calls.nvrtc_of(runtime) is finder.bindings
