"""What vdev uses of CUDA's runtime, by CuPy's names."""

from __future__ import annotations

import ctypes
import os

_driver = ctypes.CDLL("libcuda.so.1")
_HANDLE, _NUMBER, _ADDRESS, _SIZE = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64, ctypes.c_size_t
for _name, _result, _types in (
    ("cuCtxSetCurrent", _NUMBER, (_HANDLE,)),
    ("cuMemcpyAsync", _NUMBER, (_ADDRESS, _ADDRESS, _SIZE, _HANDLE)),
    ("cuEventSynchronize", _NUMBER, (_HANDLE,)),
    ("cuStreamSynchronize", _NUMBER, (_HANDLE,)),
    ("fake_stream", _HANDLE, (_NUMBER,)),
    ("fake_stream_gone", None, (_HANDLE,)),
    ("fake_pinned", _ADDRESS, (_SIZE,)),
    ("fake_registered", None, (_ADDRESS, _SIZE)),
    ("fake_pinned_gone", None, (_ADDRESS,)),
    ("fake_copy_from_peer", _NUMBER, (_ADDRESS, _NUMBER, _ADDRESS, _NUMBER, _SIZE, _HANDLE)),
):
    _function = getattr(_driver, _name)
    _function.restype, _function.argtypes = _result, _types

hostAllocPortable = streamNonBlocking = 1
_TO_DEVICE = 1
_COUNT = int(os.environ.get("FAKE_CUDA_DEVICES", "2"))
_NBYTES = 16 << 30  #: as a GPU says, whatever there is in fact


class CUDARuntimeError(RuntimeError):
    """An error of the runtime, which has the driver's number."""

    def __init__(self, status: int) -> None:
        super().__init__(f"CUDA error {status}")
        self.status = status


def _check(result: int) -> None:
    if result:
        raise CUDARuntimeError(result)


def getDeviceCount() -> int:
    return _COUNT


def driverGetVersion() -> int:
    return 13000


def getDeviceProperties(number: int) -> dict[str, object]:
    assert 0 <= number < _COUNT
    return {
        "name": b"a GPU that is none",
        "major": 9,
        "minor": 0,
        "totalGlobalMem": _NBYTES,
        "multiProcessorCount": 4,
        "maxThreadsPerBlock": 1024,
        "maxThreadsDim": (1024, 1024, 64),
        "sharedMemPerBlock": 48 << 10,
        "sharedMemPerBlockOptin": 227 << 10,
        "l2CacheSize": 1 << 20,
        "ECCEnabled": 1,
        "regsPerMultiprocessor": 65536,
        "maxThreadsPerMultiProcessor": 2048,
    }


def setDevice(number: int) -> None:
    context = ctypes.c_void_p()
    _check(_driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), number))
    _check(_driver.cuCtxSetCurrent(context))


def free(address: int) -> None:
    assert address == 0, "memory is the driver's"


def memGetInfo() -> tuple[int, int]:
    return _NBYTES, _NBYTES


def streamCreateWithFlags(flags: int) -> int:
    return _stream(flags, 0)


def streamCreateWithPriority(flags: int, priority: int) -> int:
    return _stream(flags, priority)


def _stream(flags: int, priority: int) -> int:
    assert flags == streamNonBlocking, "waits for the default stream"
    assert -5 <= priority <= 0, "no such priority"
    stream: int = _driver.fake_stream(priority)
    return stream


def streamDestroy(stream: int) -> None:
    _driver.fake_stream_gone(stream)


def streamSynchronize(stream: int) -> None:
    _check(_driver.cuStreamSynchronize(stream))


def eventSynchronize(event: int) -> None:
    _check(_driver.cuEventSynchronize(event))


def hostAlloc(nbytes: int, flags: int) -> int:
    assert flags == hostAllocPortable, "not for all GPUs"
    address: int = _driver.fake_pinned(nbytes)
    return address


def freeHost(address: int) -> None:
    _driver.fake_pinned_gone(address)


def hostRegister(address: int, nbytes: int, flags: int) -> None:
    assert flags == hostAllocPortable, "not for all GPUs"
    _driver.fake_registered(address, nbytes)


def hostUnregister(address: int) -> None:
    _driver.fake_pinned_gone(address)


def memcpyAsync(target: int, source: int, nbytes: int, kind: int, stream: int) -> None:
    assert kind == _TO_DEVICE
    _check(_driver.cuMemcpyAsync(target, source, nbytes, stream))


def memcpyPeerAsync(target: int, device: int, source: int, peer: int, nbytes: int, stream: int) -> None:
    _check(_driver.fake_copy_from_peer(target, device, source, peer, nbytes, stream))


def deviceCanAccessPeer(device: int, peer: int) -> int:
    return int(_driver.fake_can_reach(device, peer))


def deviceEnablePeerAccess(peer: int) -> None:
    _check(_driver.fake_reach(peer))
