"""NVRTC's functions, by the names that CuPy gives them, called without CuPy: the first call of its bindings imports all of it, which takes
longer than to compile a short program.

Decides which library that is: the one of CuPy's own version of CUDA that NVIDIA's `cuda.pathfinder` finds, which CuPy asks as well.
Where that is not installed or finds none, CuPy's own bindings are used.
"""

from __future__ import annotations

import ctypes
import importlib
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from vdev.backends.cuda.entry_points import declared

logger = logging.getLogger("vdev.cuda")


def nvrtc_of(runtime: Any) -> Any:
    """NVRTC, for CuPy's module `runtime`. ImportError if neither way leads to one."""
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib  # type: ignore[import-not-found]

        path = load_nvidia_dynamic_lib("nvrtc").abs_path
        major = runtime.runtimeGetVersion() // 1000
        if Path(path).name.startswith(f"libnvrtc.so.{major}"):
            return NvrtcCalls(ctypes.CDLL(path))
        logger.info("%s is not of CUDA %d, as CuPy is", path, major)
    except Exception as error:  # another version of either, or nothing is found; CuPy looks elsewhere too, and tells of a failure
        logger.info("NVRTC is called through CuPy: %r", error)
    return importlib.import_module("cupy_backends.cuda.libs.nvrtc")


class NvrtcCalls:
    """The functions of one library. What they refuse raises NVRTCError with the compiler's name for it."""

    class NVRTCError(RuntimeError):
        """A function of NVRTC has failed: it has refused a program, for example, and the log says why."""

    def __init__(self, library: ctypes.CDLL) -> None:
        handle, number, text = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p
        self._version = declared(library.nvrtcVersion, handle, handle)
        self._create = declared(library.nvrtcCreateProgram, handle, text, text, number, handle, handle)
        self._compile = declared(library.nvrtcCompileProgram, handle, number, handle)
        self._destroy = declared(library.nvrtcDestroyProgram, handle)
        self._cubin = _sized(library, "nvrtcGetCUBIN")
        self._log = _sized(library, "nvrtcGetProgramLog")
        self._name = library.nvrtcGetErrorString
        self._name.restype = text

    def getVersion(self) -> tuple[int, int]:
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._check(self._version(ctypes.byref(major), ctypes.byref(minor)))
        return major.value, minor.value

    def createProgram(
        self, source: str, name: str, headers: Sequence[str], include_names: Sequence[str]
    ) -> int:
        """A program without headers of its own."""
        assert not headers
        assert not include_names
        program = ctypes.c_void_p()
        self._check(self._create(ctypes.byref(program), source.encode(), name.encode(), 0, None, None))
        return program.value or 0

    def compileProgram(self, program: int, options: Sequence[str]) -> None:
        words = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
        self._check(self._compile(program, len(options), words))

    def getCUBIN(self, program: int) -> bytes:
        return self._content(self._cubin, program)

    def getProgramLog(self, program: int) -> str:
        return self._content(self._log, program).rstrip(b"\0").decode(errors="replace")

    def destroyProgram(self, program: int) -> None:
        self._check(self._destroy(ctypes.byref(ctypes.c_void_p(program))))

    def _content(self, calls: tuple[Callable[..., int], Callable[..., int]], program: int) -> bytes:
        size_of, get = calls
        size = ctypes.c_size_t()
        self._check(size_of(program, ctypes.byref(size)))
        content = ctypes.create_string_buffer(size.value)
        self._check(get(program, content))
        return content.raw

    def _check(self, result: int) -> None:
        if result:
            raise self.NVRTCError(f"{self._name(result).decode()} ({result})")


def _sized(library: ctypes.CDLL, name: str) -> tuple[Callable[..., int], Callable[..., int]]:
    """What tells the size of something of a program's, and what writes it."""
    return (
        declared(library[f"{name}Size"], ctypes.c_void_p, ctypes.c_void_p),
        declared(library[name], ctypes.c_void_p, ctypes.c_void_p),
    )
