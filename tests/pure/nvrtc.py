"""NVRTC by itself, for tests: CUDA C++ in, PTX or the compiler's messages out. Needs neither a GPU nor a driver.

The library comes with the PyPI package `nvidia-cuda-nvrtc`, which `pip install '.[cuda]'` brings with CuPy.
"""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

MISSING = "NVRTC is not installed (package nvidia-cuda-nvrtc)"


@lru_cache(maxsize=1)
def library() -> ctypes.CDLL | None:
    """NVRTC's library, or None where it is not installed."""
    found = importlib.util.find_spec("nvidia")
    for folder in (found.submodule_search_locations or ()) if found is not None else ():
        for path in sorted(Path(folder).glob("**/libnvrtc.so.*")):
            return ctypes.CDLL(str(path))
    return None


def compile_cuda(source: str, options: Sequence[str]) -> tuple[bool, str]:
    """(True, PTX) or (False, the compiler's messages), for compute capability 9.0."""
    nvrtc = library()
    assert nvrtc is not None
    program = ctypes.c_void_p()
    status = nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"test.cu", 0, None, None)
    assert status == 0
    words = [option.encode() for option in ("--gpu-architecture=sm_90", "--disable-warnings", *options)]
    try:
        status = nvrtc.nvrtcCompileProgram(program, len(words), (ctypes.c_char_p * len(words))(*words))
        what = "PTX" if status == 0 else "ProgramLog"
        size = ctypes.c_size_t()
        getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        getattr(nvrtc, f"nvrtcGet{what}")(program, text)
        return status == 0, text.value.decode()
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
