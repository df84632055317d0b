"""What vdev uses of CuPy, on the driver in `driver.cc`: GPUs whose memory is the host's."""

from __future__ import annotations

import ctypes
import os
from types import SimpleNamespace
from typing import Any

from tests.pure import fake_cuda
from vdev.backends.cuda.cupy_parts import ModuleCalls

_driver = ctypes.CDLL("libcuda.so.1")
for _name, _types in (
    ("fake_stream", ()),
    ("fake_pinned", (ctypes.c_size_t,)),
):
    _function = getattr(_driver, _name)
    _function.restype, _function.argtypes = ctypes.c_void_p, _types
_COPY = _driver.cuMemcpyAsync
_COPY.argtypes = (ctypes.c_uint64, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p)
_driver.cuEventSynchronize.argtypes = _driver.cuStreamSynchronize.argtypes = (ctypes.c_void_p,)


class CUDARuntimeError(RuntimeError):
    status = 1


class NVRTCError(RuntimeError):
    pass


class Stream:
    def __init__(self, *, non_blocking: bool) -> None:
        self.ptr: int = _driver.fake_stream()

    def synchronize(self) -> None:
        _driver.cuStreamSynchronize(self.ptr)


class PinnedMemory:
    def __init__(self, nbytes: int, flags: int) -> None:
        self.ptr: int = _driver.fake_pinned(nbytes)


def _set_device(number: int) -> None:
    context = ctypes.c_void_p()
    _driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), number)
    _driver.cuCtxSetCurrent(context)


def _copy(target: int, source: int, nbytes: int, kind: int, stream: int) -> None:
    _COPY(target, source, nbytes, stream)


def _copy_from_peer(target: int, to: int, source: int, peer: int, nbytes: int, stream: int) -> None:
    _COPY(target, source, nbytes, stream)


_COUNT = int(os.environ.get("FAKE_CUDA_DEVICES", "2"))
_PROPERTIES = {
    "name": b"a GPU that is none",
    "major": 9,
    "minor": 0,
    "totalGlobalMem": 16 << 30,
    "multiProcessorCount": 4,
    "maxThreadsPerBlock": 1024,
    "maxThreadsDim": (1024, 1024, 64),
    "sharedMemPerBlock": 48 << 10,
    "l2CacheSize": 1 << 20,
    "ECCEnabled": 1,
    "regsPerMultiprocessor": 65536,
    "maxThreadsPerMultiProcessor": 2048,
}
cuda = SimpleNamespace(
    Stream=Stream,
    PinnedMemory=PinnedMemory,
    runtime=SimpleNamespace(
        CUDARuntimeError=CUDARuntimeError,
        hostAllocPortable=1,
        getDeviceCount=lambda: _COUNT,
        setDevice=_set_device,
        free=lambda address: None,
        getDeviceProperties=lambda number: _PROPERTIES,
        memGetInfo=lambda: (16 << 30, 16 << 30),
        driverGetVersion=lambda: 13000,
        deviceCanAccessPeer=lambda number, peer: os.environ.get("FAKE_CUDA_PEERS", "1") != "0",
        deviceEnablePeerAccess=lambda peer: None,
        memcpyAsync=_copy,
        memcpyPeerAsync=_copy_from_peer,
        eventSynchronize=lambda event: _driver.cuEventSynchronize(event),
    ),
    driver=ModuleCalls(),
    nvrtc=SimpleNamespace(
        NVRTCError=NVRTCError,
        getVersion=lambda: (13, 0),
        createProgram=lambda source, name, headers, names: SimpleNamespace(source=source, options=()),
        compileProgram=lambda program, options: setattr(program, "options", options),
        getCUBIN=lambda program: str(fake_cuda.library_of(program.source, program.options)).encode(),
        getProgramLog=lambda program: "",
        destroyProgram=lambda program: None,
    ),
)
__getattr__: Any
