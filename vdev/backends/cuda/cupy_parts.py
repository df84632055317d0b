"""The parts of CuPy that the CUDA back end uses: CUDA's runtime, the driver's modules, NVRTC, streams and pinned memory.

CuPy as a whole takes longer to load than all of vdev, most of it for arrays, which nothing here uses. Its bindings are a package of
their own, whose modules `cupy.cuda` shows under its own name. Decides whether they suffice; if not, CuPy itself is loaded.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from vdev.backends.cuda.nvrtc import LoadedWhenUsed, nvrtc_version
from vdev.process.switches import cache_dir

logger = logging.getLogger("vdev.cuda")


def load_parts() -> Any:
    """CuPy, or what has the same names as far as they are used. ImportError if it is not installed."""
    try:
        from cupy_backends.cuda.api import driver, runtime

        nvrtc = LoadedWhenUsed("cupy_backends.cuda.libs.nvrtc")
        nvrtc_version(nvrtc, cache_dir())  # loads NVRTC, unless it is known to be there
        return parts_of(runtime, driver, nvrtc)
    except Exception as error:  # another version of CuPy's, or a library that is where only CuPy itself looks
        logger.info("CuPy is loaded as a whole: %r", error)
    import cupy

    return cupy


def parts_of(runtime: Any, driver: Any, nvrtc: Any) -> Any:
    """What stands for CuPy, from its bindings. AttributeError if they lack something."""
    create, destroy, flag = runtime.streamCreateWithFlags, runtime.streamDestroy, runtime.streamNonBlocking
    synchronize, allocate, free = runtime.streamSynchronize, runtime.hostAlloc, runtime.freeHost

    class Stream(_Owned):
        def __init__(self, *, non_blocking: bool) -> None:
            super().__init__(create(flag if non_blocking else 0), destroy)

        def synchronize(self) -> None:
            synchronize(self.ptr)

    class PinnedMemory(_Owned):
        def __init__(self, nbytes: int, flags: int) -> None:
            super().__init__(allocate(nbytes, flags), free)

    names = {"Stream": Stream, "PinnedMemory": PinnedMemory}
    return SimpleNamespace(cuda=SimpleNamespace(runtime=runtime, driver=driver, nvrtc=nvrtc, **names))


class _Owned:
    """Something of CUDA's that is given back with the object; at the end of the process it is left to the driver."""

    ptr = 0  #: 0: CUDA has refused it, and there is nothing to give back

    def __init__(self, ptr: int, give_back: Callable[[int], object]) -> None:
        self._give_back = give_back
        self.ptr = ptr

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if self.ptr and not is_ending():
            self._give_back(self.ptr)
