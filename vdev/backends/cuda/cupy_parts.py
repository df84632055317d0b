"""The parts of CuPy that the CUDA back end uses: CUDA's runtime, the driver's modules, NVRTC, streams and pinned memory.

CuPy as a whole takes longer to load than all of vdev, most of it for arrays, which nothing here uses. Its bindings are a package of
their own, whose modules `cupy.cuda` shows under its own name. Those of the driver and of NVRTC import CuPy at their first call: the
driver's few functions are called here, NVRTC's in `vdev.backends.cuda.nvrtc_calls`, and NVRTC is left until something has to be
compiled. Decides whether the rest suffices; if not, CuPy itself is loaded.
"""

from __future__ import annotations

import ctypes
import logging
import sys
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

from vdev.backends.cuda import huge_pages
from vdev.backends.cuda.entry_points import declared, driver_library
from vdev.backends.cuda.nvrtc import LoadedWhenUsed, nvrtc_version
from vdev.backends.cuda.nvrtc_calls import nvrtc_of
from vdev.errors import CudaMissing
from vdev.process.folders import cache_dir

logger = logging.getLogger("vdev.cuda")


def load_parts() -> Any:
    """CuPy, or what has the same names as far as they are used. ImportError if it is not installed, CudaMissing without
    a driver or NVRTC.
    """
    try:
        from cupy_backends.cuda.api import runtime

        driver = ModuleCalls()
        nvrtc = LoadedWhenUsed(partial(nvrtc_of, runtime))
        nvrtc_version(nvrtc, cache_dir())  # loads NVRTC, unless it is known to be there
        return parts_of(runtime, driver, nvrtc)
    except CudaMissing:  # and all of CuPy would take half a second to find that out
        raise
    except Exception as error:  # another version of CuPy's, or a library that is where only CuPy itself looks
        logger.info("CuPy is loaded as a whole: %r", error)
    import cupy

    try:
        nvrtc_version(cupy.cuda.nvrtc, cache_dir())
    except Exception as error:
        raise CudaMissing(
            f"NVRTC, CUDA's compiler, cannot be used ({error}): pip install 'vdev[cuda]'"
        ) from error
    return cupy


def parts_of(runtime: Any, driver: Any, nvrtc: Any) -> Any:
    """What stands for CuPy, from its bindings. AttributeError if they lack something."""
    create, destroy, flag = runtime.streamCreateWithFlags, runtime.streamDestroy, runtime.streamNonBlocking
    synchronize, allocate, free = runtime.streamSynchronize, runtime.hostAlloc, runtime.freeHost
    register, unregister = runtime.hostRegister, runtime.hostUnregister

    class Stream(_Owned):
        def __init__(self, *, non_blocking: bool, priority: int | None = None) -> None:
            flags = flag if non_blocking else 0
            made = create(flags) if priority is None else runtime.streamCreateWithPriority(flags, priority)
            super().__init__(made, destroy)

        def synchronize(self) -> None:
            synchronize(self.ptr)

    class PinnedMemory(_Owned):
        """In huge pages where there are some; the flags of either way are the same numbers."""

        def __init__(self, nbytes: int, flags: int) -> None:
            if nbytes >= huge_pages.PAGE_NBYTES and huge_pages.are_given():
                try:
                    self._pages = huge_pages.HugePages(nbytes)
                    register(self._pages.address, nbytes, flags)
                except (
                    runtime.CUDARuntimeError,
                    OSError,
                ) as error:  # not everywhere can CUDA pin what others have allocated
                    logger.info("memory is pinned in small pages: %s", error)
                else:
                    super().__init__(self._pages.address, unregister)
                    return
            super().__init__(allocate(nbytes, flags), free)

    names = {"Stream": Stream, "PinnedMemory": PinnedMemory}
    return SimpleNamespace(cuda=SimpleNamespace(runtime=runtime, driver=driver, nvrtc=nvrtc, **names))


class ModuleCalls:
    """The driver's functions for modules, by the names that CuPy gives them. CudaMissing if there is no driver."""

    class CUDADriverError(RuntimeError):
        """A function of the driver has failed; `status` is its CUresult."""

        def __init__(self, status: int, text: str) -> None:
            super().__init__(text)
            self.status = status

    def __init__(self) -> None:
        library = driver_library(ctypes.CDLL)
        handle, number = ctypes.c_void_p, ctypes.c_int
        self._load = declared(library.cuModuleLoadData, handle, ctypes.c_char_p)
        self._unload = declared(library.cuModuleUnload, handle)
        self._function = declared(library.cuModuleGetFunction, handle, handle, ctypes.c_char_p)
        self._get = declared(library.cuFuncGetAttribute, handle, number, handle)
        self._set = declared(library.cuFuncSetAttribute, handle, number, number)
        self._name = declared(library.cuGetErrorName, number, handle)

    def moduleLoadData(self, image: bytes) -> int:
        module = ctypes.c_void_p()
        self._check(self._load(ctypes.byref(module), image))
        return module.value or 0

    def moduleUnload(self, module: int) -> None:
        self._check(self._unload(module))

    def moduleGetFunction(self, module: int, name: str) -> int:
        function = ctypes.c_void_p()
        self._check(self._function(ctypes.byref(function), module, name.encode()))
        return function.value or 0

    def funcGetAttribute(self, attribute: int, function: int) -> int:
        value = ctypes.c_int()
        self._check(self._get(ctypes.byref(value), attribute, function))
        return value.value

    def funcSetAttribute(self, function: int, attribute: int, value: int) -> None:
        self._check(self._set(function, attribute, value))

    def _check(self, result: int) -> None:
        if result:
            name = ctypes.c_char_p()
            self._name(result, ctypes.byref(name))
            text = name.value.decode() if name.value else f"CUDA error {result}"
            raise self.CUDADriverError(result, text)


class _Owned:
    """Something of CUDA's that is given back with the object; at the end of the process it is left to the driver."""

    ptr = 0  #: 0: CUDA has refused it, and there is nothing to give back

    def __init__(self, ptr: int, give_back: Callable[[int], object]) -> None:
        self._give_back = give_back
        self.ptr = ptr

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if self.ptr and not is_ending():
            self._give_back(self.ptr)
