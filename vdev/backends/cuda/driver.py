"""CUDA's driver as the CUDA back end calls it, and the reason if it cannot be used.

CuPy provides devices, memory, streams, modules and NVRTC. The few calls on a launch's path go to the
driver through ctypes instead: they return at once, while each of CuPy's releases the interpreter lock, which a
busy thread may then keep for up to 5 ms. Decides nothing about what is launched or moved.
"""

from __future__ import annotations

import ctypes
import gc
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from importlib.machinery import PathFinder
from typing import Any

from vdev.backends.call_lists import DriverCall, NoWalker, prepared, walker
from vdev.backends.cuda.entry_points import declared, driver_library
from vdev.backends.cuda.errors import SUCCESS, status_of_result
from vdev.errors import BackendError, CudaMissing
from vdev.process.forking import in_driver

#: CU_MEM_ATTACH_GLOBAL
_ATTACH_GLOBAL = 1

#: CUfunction_attribute numbers
MAX_THREADS_PER_BLOCK, SHARED_NBYTES, LOCAL_NBYTES, NUM_REGS, MAX_DYNAMIC_SHARED = 0, 1, 3, 4, 8


#: CUresourcetype, and the flag of a texture whose coordinates are parts of its size
_PITCHED_2D, _NORMALIZED = 3, 2

_NAME_NBYTES = 256  #: room for a GPU's name


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig, without attributes."""

    _fields_ = (
        ("groups", ctypes.c_uint * 3),
        ("work_items", ctypes.c_uint * 3),  #: of a group
        ("shared_nbytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("attribute_count", ctypes.c_uint),
    )


class _Pitched(ctypes.Structure):
    """CUDA_RESOURCE_DESC of two-dimensional memory in rows."""

    _fields_ = (
        ("kind", ctypes.c_int),
        ("address", ctypes.c_uint64),
        ("format", ctypes.c_int),
        ("channels", ctypes.c_uint),
        ("width", ctypes.c_size_t),  #: in pixels
        ("height", ctypes.c_size_t),
        ("row_pitch", ctypes.c_size_t),  #: in bytes
        ("other", ctypes.c_int * 22),
        ("flags", ctypes.c_uint),
    )


class _Sampling(ctypes.Structure):
    """CUDA_TEXTURE_DESC."""

    _fields_ = (
        ("addressing", ctypes.c_int * 3),
        ("filter", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("other", ctypes.c_uint * 21),  #: anisotropy, levels of detail, a border of zeros
    )


class _Kept(ctypes.c_void_p):
    """An address, and what has to live as long as it."""

    kept: object


#: which parameter of a call that launches a kernel the function is
FUNCTION = 1


def launch_handles(function: int, extra: int) -> tuple[ctypes.c_void_p, ...]:
    """Of a call that launches a kernel: the function, no parameters in an array, and where the driver is told of the parameters, which
    it copies at each call.
    """
    return ctypes.c_void_p(function), ctypes.c_void_p(0), ctypes.c_void_p(extra)


class Driver:
    """The driver's entry points that never wait, with the interpreter lock kept; all return a CUresult."""

    def __init__(self) -> None:
        library = driver_library(ctypes.PyDLL)
        handle, number, size = ctypes.c_void_p, ctypes.c_uint, ctypes.c_size_t
        #: for arguments that are ctypes objects already, which takes less than half the time
        self._launch = library["cuLaunchKernelEx"]
        self._launch.restype = ctypes.c_int
        self.param_info = declared(library.cuFuncGetParamInfo, handle, size, handle, handle)
        self.event_create = declared(library.cuEventCreate, handle, number)
        self.event_record = declared(library.cuEventRecord, handle, handle)
        self.event_query = declared(library.cuEventQuery, handle)
        self.event_elapsed = declared(library.cuEventElapsedTime, handle, handle, handle)
        self.stream_wait = declared(library.cuStreamWaitEvent, handle, handle, number)
        self.copy = declared(library.cuMemcpyAsync, ctypes.c_uint64, ctypes.c_uint64, size, handle)
        #: the same for arguments that are ctypes objects already
        self.copy_assembled = library["cuMemcpyAsync"]
        #: from the device to pinned memory, which never waits
        self.read_pinned = declared(
            library.cuMemcpyDtoHAsync_v2, ctypes.c_uint64, ctypes.c_uint64, size, handle
        )
        #: the same, and whether all that is on a stream is done, for arguments that are ctypes objects already
        self.read_assembled = library["cuMemcpyDtoHAsync_v2"]
        self.query_assembled = library["cuStreamQuery"]
        #: `event_record`, likewise
        self.record_assembled = library["cuEventRecord"]
        for assembled in (
            self.copy_assembled,
            self.read_assembled,
            self.query_assembled,
            self.record_assembled,
        ):
            assembled.restype = ctypes.c_int
        self.fill_1 = declared(library.cuMemsetD8Async, ctypes.c_uint64, ctypes.c_ubyte, size, handle)
        self.fill_2 = declared(library.cuMemsetD16Async, ctypes.c_uint64, ctypes.c_ushort, size, handle)
        self.fill_4 = declared(library.cuMemsetD32Async, ctypes.c_uint64, number, size, handle)
        self.set_context = declared(library.cuCtxSetCurrent, handle)
        self._get_context = declared(library.cuCtxGetCurrent, handle)
        #: the same for a single ctypes object
        self._ask_context = library["cuCtxGetCurrent"]
        self._ask_context.restype = ctypes.c_int
        self._error_name = declared(library.cuGetErrorName, ctypes.c_int, handle)
        # These may wait: other threads can run meanwhile.
        waiting = driver_library(ctypes.CDLL)
        self.event_synchronize = declared(waiting.cuEventSynchronize, handle)
        self.stream_synchronize = declared(waiting.cuStreamSynchronize, handle)
        self.read_memory = declared(waiting.cuMemcpyDtoHAsync_v2, handle, ctypes.c_uint64, size, handle)
        self._init = declared(waiting.cuInit, number)
        self._device = declared(waiting.cuDeviceGet, handle, ctypes.c_int)
        self._device_count = declared(waiting.cuDeviceGetCount, handle)
        self._device_name = declared(waiting.cuDeviceGetName, ctypes.c_char_p, ctypes.c_int, ctypes.c_int)
        self._retain = declared(waiting.cuDevicePrimaryCtxRetain, handle, ctypes.c_int)
        self._mem_alloc = declared(waiting.cuMemAlloc_v2, handle, size)
        self._mem_alloc_managed = declared(waiting.cuMemAllocManaged, handle, size, number)
        self._mem_free = declared(waiting.cuMemFree_v2, ctypes.c_uint64)
        self._attribute = declared(waiting.cuDeviceGetAttribute, handle, ctypes.c_int, ctypes.c_int)
        self._texture = declared(waiting.cuTexObjectCreate, handle, handle, handle, handle)
        self.destroy_texture = declared(waiting.cuTexObjectDestroy, ctypes.c_uint64)

    def error(self, result: int, text: str) -> BackendError:
        """The BackendError of a CUresult."""
        name = ctypes.c_char_p()
        known = self._error_name(result, ctypes.byref(name)) == SUCCESS and name.value is not None
        spelled = name.value.decode() if known and name.value else f"CUDA error {result}"
        return BackendError(status_of_result(result), f"{text}: {spelled}")

    def check(self, result: int, text: str) -> None:
        """Raise the BackendError of `result`, if it is an error."""
        if result != SUCCESS:
            raise self.error(result, text)

    def open_device(self, number: int) -> None:
        """Make the context that CUDA's runtime uses on a GPU, without the interpreter lock.

        That takes a good part of a second, in which other threads can make the contexts of other GPUs. The context
        stays until the process ends. A failure here is repeated when the runtime takes the device, which then reports
        it in its own words.
        """
        device, context = ctypes.c_int(), ctypes.c_void_p()
        if self._init(0) == SUCCESS and self._device(ctypes.byref(device), number) == SUCCESS:
            self._retain(ctypes.byref(context), device.value)

    def count_devices(self) -> int:
        """How many GPUs there are; 0 also where the driver does not work. It may take as long as `open_device`."""
        count = ctypes.c_int()
        works = self._init(0) == SUCCESS and self._device_count(ctypes.byref(count)) == SUCCESS
        return count.value if works else 0

    def name(self, number: int) -> str:
        """What a GPU is called. All of its properties, as the runtime gives them, take tens of milliseconds."""
        device, text = ctypes.c_int(), ctypes.create_string_buffer(_NAME_NBYTES)
        self.check(self._device(ctypes.byref(device), number), "a GPU")
        self.check(self._device_name(text, len(text), device.value), "a GPU's name")
        return text.value.decode()

    def context(self) -> int:
        """The calling thread's context."""
        found = ctypes.c_void_p()
        self.check(self._get_context(ctypes.byref(found)), "context")
        return found.value or 0

    def starting(
        self, sizes: Sequence[int], shared_nbytes: int, stream: int, handles: tuple[ctypes.c_void_p, ...]
    ) -> DriverCall:
        """A call that launches a kernel. `sizes`: groups and work-items of a group, in three dimensions each; `handles`: what
        `launch_handles` gives.

        The context of the calling thread does not matter: function and stream have one (but see `errors.ELSEWHERE`). cuLaunchKernel
        takes eleven arguments where this takes four, each of which costs ctypes time.
        """
        x, y, z, *work_items = sizes
        config = LaunchConfig((x, y, z), tuple(work_items), shared_nbytes, stream, None, 0)
        place = _Kept(ctypes.addressof(config))
        place.kept = config
        return partial(self._launch, place, *handles)

    def visitor(self, own: int) -> Callable[[], object]:
        """A function that makes `own` the calling thread's context, and returns the one before, None if that was
        `own`; for one thread at a time.
        """
        found = ctypes.c_void_p()
        place = _Kept(ctypes.addressof(found))
        place.kept = found
        ask, set_context = prepared(partial(self._ask_context, place)), self.set_context

        def visit() -> object:
            outside = 0 if ask() else found.value or 0
            if outside == own:
                return None
            set_context(own)
            return outside

        return visit

    def take_memory(self, nbytes: int, *, managed: bool = False) -> tuple[int, int]:
        """(CUresult, address) of new device memory in the calling thread's context.

        `managed`: memory whose pages the driver moves between GPU and host; pages that are not touched take no room.
        """
        found = ctypes.c_uint64()
        if managed:
            result = self._mem_alloc_managed(ctypes.byref(found), nbytes, _ATTACH_GLOBAL)
        else:
            result = self._mem_alloc(ctypes.byref(found), nbytes)
        return int(result), found.value

    def give_memory(self, address: int) -> int:
        """End what `take_memory` began; a CUresult. It may wait for the device."""
        return int(self._mem_free(address))

    def attribute(self, attribute: int, number: int) -> int:
        """Of a GPU: a CUdevice_attribute. 0 where the driver does not know it."""
        found, device = ctypes.c_int(), ctypes.c_int()
        if self._device(ctypes.byref(device), number):
            return 0
        return 0 if self._attribute(ctypes.byref(found), attribute, device.value) else found.value

    def new_texture(
        self,
        address: int,
        size: tuple[int, int, int],
        form: tuple[int, int],
        addressing: int,
        *,
        linear: bool,
        normalized: bool,
    ) -> tuple[int, int]:
        """(CUresult, texture) of an image in memory, in the calling thread's context. `size`: width and height in pixels, bytes of a row;
        `form`: CUarray_format, and the channels of a pixel; `addressing`: a CUaddress_mode. What it gives are floating-point numbers.
        """
        found = ctypes.c_uint64()
        image = _Pitched(_PITCHED_2D, address, *form, *size)
        sampling = _Sampling((addressing,) * 3, int(linear), _NORMALIZED if normalized else 0)
        result = self._texture(ctypes.byref(found), ctypes.byref(image), ctypes.byref(sampling), None)
        return int(result), found.value

    def new_event(self) -> int:
        """An event that takes times."""
        found = ctypes.c_void_p()
        self.check(self.event_create(ctypes.byref(found), 0), "event")
        return found.value or 0

    def parameters(self, function: int, count: int) -> list[tuple[int, int]]:
        """(offset, bytes) of each of a kernel's `count` parameters in its parameter buffer."""
        found: list[tuple[int, int]] = []
        offset, nbytes = ctypes.c_size_t(), ctypes.c_size_t()
        for at in range(count):
            result = self.param_info(function, at, ctypes.byref(offset), ctypes.byref(nbytes))
            self.check(result, "parameters of a kernel")
            found.append((offset.value, nbytes.value))
        return found


_loading = threading.Lock()
#: the thread that opens GPUs while CuPy is loaded: there is one in a process, which `load` waits for
_opening: list[threading.Thread] = []


def begin_opening(numbers: Sequence[int]) -> bool:
    """Begin to open GPUs, all where none are named: `load` waits for them. Whether any are being opened, now or since an earlier call.
    The worker of each opens it again, which costs nothing then, and tells what fails. Without CuPy no GPU is of use, and
    none is opened.
    """
    with _loading:
        if _opening or not _has_cupy():
            return bool(_opening)
        thread = threading.Thread(target=_open, args=(numbers,), name="vdev-cuda", daemon=True)
        _opening.append(thread)
        thread.start()
        return True


def _has_cupy() -> bool:
    return PathFinder.find_spec("cupy") is not None


def _open(numbers: Sequence[int]) -> None:
    try:
        driver = Driver()
    except (CudaMissing, AttributeError):  # no driver, or one that lacks a function: `load` tells
        return
    threads = [
        threading.Thread(target=in_driver, args=(partial(driver.open_device, number),), daemon=True)
        for number in numbers or range(in_driver(driver.count_devices))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@lru_cache(maxsize=1)
def _load() -> tuple[Any, Driver] | CudaMissing:
    from vdev.backends.cuda.cupy_parts import load_parts

    try:
        cupy = load_parts()
    except CudaMissing as missing:
        return missing
    except ImportError as error:
        return CudaMissing(f"CuPy is not installed ({error}): pip install 'vdev[cuda]'")
    try:
        driver = Driver()
        with suppress(NoWalker):  # then each call is made by ctypes
            walker()
        count = cupy.cuda.runtime.getDeviceCount()
    except CudaMissing as missing:
        return missing
    except (cupy.cuda.runtime.CUDARuntimeError, AttributeError) as error:
        return CudaMissing(f"CUDA does not work: {error}")
    if count == 0:
        return CudaMissing("the driver reports no GPU (is CUDA_VISIBLE_DEVICES set?)")
    return cupy, driver


def load() -> tuple[Any, Driver]:
    """(CuPy, the driver). Raises CudaMissing, each time with the same text."""
    with _loading:
        found = _load()
        _use_the_wait()
        for thread in _opening:  # the driver must not be at work when the process ends
            thread.join()
    if isinstance(found, CudaMissing):
        raise CudaMissing(str(found))
    return found


def _use_the_wait() -> None:
    """While GPUs are still being opened, make the full collection that comes once so many objects are new to the collector as vdev has
    loaded: it takes tens of milliseconds, and would come amid the program's first launches.
    """
    if gc.isenabled() and any(thread.is_alive() for thread in _opening):
        gc.collect()


def device_names() -> list[str]:
    """Names of the GPUs that CUDA shows, by number. Raises CudaMissing."""
    _, driver = load()
    return [driver.name(number) for number in range(driver.count_devices())]
