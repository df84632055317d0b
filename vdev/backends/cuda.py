"""Workers on NVIDIA GPUs: CUDA through CuPy, a stream and a memory pool for each.

Decides how bytes and kernels go through one GPU's stream. Programs come translated to CUDA C++
(`cuda_programs`); long copies from and to plain host memory go through pinned blocks (`cuda_staging`); GPUs
copy from each other directly. It never decides what moves where.

A replica is plain device memory of the bytes it covers and kernels get shifted pointers (PPoPP'11 section
3.5). Pages of one reserved address range would save memory only where a worker's bytes are far apart by more
than a page of 2 MiB; block-cyclic kernels, whose bytes are far apart, step by less.
"""

from __future__ import annotations

import ctypes
import struct
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from vdev.backends import cuda_kernels
from vdev.backends.base import (
    MEM_OBJECT_ALLOCATION_FAILURE,
    OUT_OF_RESOURCES,
    Allocation,
    Backend,
    BackendError,
    BackendProgram,
    Box,
    BuildFailure,
    BuildResult,
    Bytes,
    Counters,
    KernelArgument,
    KernelResources,
    LaunchShape,
    LocalBytes,
    Marker,
    Times,
    WorkerInfo,
)
from vdev.backends.cuda_driver import (
    ERROR_NOT_READY,
    LOCAL_NBYTES,
    MAX_DYNAMIC_SHARED,
    MAX_THREADS_PER_BLOCK,
    SHARED_NBYTES,
    Driver,
    load,
)
from vdev.backends.cuda_info import worker_info
from vdev.backends.cuda_programs import Cubins, Translated, nvrtc_compiler, translated
from vdev.backends.cuda_staging import DIRECT_NBYTES, pieces_of, staging, turned
from vdev.switches import cache_dir
from vdev.translators.cuda import CudaKernel
from vdev.translators.ndrange import Chunk, whole_chunk
from vdev.translators.region import Block, Region

#: CUDA's limit of work-groups in the second and third dimension of a launch
_MOST_GROUPS = 65535
#: Rows of a rectangle that are at least so long are copied by the copy engine.
_LONG_ROW = 64 << 10
#: Device memory for the packed form of rectangles on their way from or to the host, at most.
_PACKED_NBYTES = 256 << 20
#: Uploads of so many bytes the driver takes at once, whatever the memory (CUDA's "API synchronization behavior").
_AT_ONCE_NBYTES = 64 << 10
#: Bytes of dynamic local memory that need no leave.
_PLAIN_SHARED = 48 << 10
#: Between two looks at both clocks: CUDA tells the distance of two events in milliseconds as a 32-bit float,
#: which then errs by less than 0.1 us.
_REBASE_NS = 1_000_000_000


class CudaMarker(Marker):
    """An event behind the work, and one before it."""

    __slots__ = ("_backend", "_done", "_failure", "event", "first")

    def __init__(self, backend: CudaBackend, first: int, event: int, failure: BackendError | None) -> None:
        self._backend = backend
        self.first = first
        self.event = event
        self._failure = failure
        self._done = failure is not None

    def wait(self) -> None:
        if not self._done:
            driver = self._backend.driver
            result = driver.event_query(self.event)
            if result == ERROR_NOT_READY:
                result = driver.event_synchronize(self.event)
            if result:
                self._failure = driver.error(result, "work failed on the device")
            self._done = True
        if self._failure is not None:
            raise self._failure

    def done(self) -> bool:
        return self._done or self._backend.driver.event_query(self.event) != ERROR_NOT_READY

    def times(self) -> Times | None:
        if not self.first or self._failure is not None:
            return None
        start, end = self._backend.clock.read(self.first), self._backend.clock.read(self.event)
        return start, start, start, max(start, end)

    def __del__(self) -> None:
        free = self._backend.free_events
        free.extend(event for event in (self.event, self.first) if event)


class _Clock:
    """Events as nanoseconds of the host's time.perf_counter_ns."""

    def __init__(self, cupy: Any, driver: Driver) -> None:
        self._driver = driver
        self._stream = cupy.cuda.Stream(non_blocking=True)
        self._bases = (driver.new_event(), driver.new_event())
        self._synchronize = cupy.cuda.runtime.eventSynchronize
        self._base = (self._bases[0], 0)
        self.due = 0  #: when the next `rebase` is due, by the host's clock
        self.rebase()

    def rebase(self) -> None:
        """Look at both clocks. On the worker's thread, about once a second: what CUDA tells of the distance
        of two events is a float of 32 bits.
        """
        driver = self._driver
        event = self._bases[self._base[0] == self._bases[0]]  # the other one may be in use
        for _ in range(2):  # the first trip may wake the device
            before = time.perf_counter_ns()
            driver.check(driver.event_record(event, self._stream.ptr), "clock")
            self._synchronize(event)
            after = time.perf_counter_ns()
        self._base = (event, (before + after) // 2)
        self.due = after + _REBASE_NS

    def read(self, event: int) -> int:
        """When a completed event took place."""
        base, base_ns = self._base
        elapsed = ctypes.c_float()
        self._driver.check(self._driver.event_elapsed(ctypes.byref(elapsed), base, event), "time of an event")
        return base_ns + int(elapsed.value * 1e6)


class _Kernel:
    """A kernel on one GPU: its parameter buffer, and what its arguments are set to."""

    __slots__ = (
        "buffer",
        "extra",
        "function",
        "hidden",
        "info",
        "last",
        "offsets",
        "program",
        "shapes",
        "shared",
        "sizes",
        "small",
        "threads",
    )

    def __init__(self, info: CudaKernel, program: _Loaded, function: int, driver: Driver) -> None:
        self.info = info
        self.program = program
        self.function = function
        parameters = driver.parameters(function, info.hidden_index + 1)
        self.offsets = [offset for offset, _ in parameters]
        self.sizes = [nbytes for _, nbytes in parameters]
        total = max((offset + nbytes for offset, nbytes in parameters), default=0)
        self.buffer = bytearray(total)
        address = (ctypes.c_char * total).from_buffer(self.buffer) if total else None
        size = ctypes.c_size_t(total)
        # CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_SIZE, CU_LAUNCH_PARAM_END
        pointers = (ctypes.c_void_p * 5)(
            1, 0 if address is None else ctypes.addressof(address), 2, ctypes.addressof(size), 0
        )
        self.extra = (pointers, address, size, ctypes.addressof(pointers))
        self.last: list[object] = [_UNSET] * info.hidden_index
        self.hidden: bytes | None = None
        self.shared = 0
        self.threads = program.attribute(function, MAX_THREADS_PER_BLOCK)
        #: the same kernel with few enough registers for work-groups of 1024, where it has been needed
        self.small: _Kernel | None = None
        #: launches of a shape: (grid, block, hidden argument) each
        self.shapes: dict[int, tuple[LaunchShape, list[_Grid]]] = {}


#: (groups in x, y, z; work-items in x, y, z; hidden argument)
_Grid = tuple[int, int, int, int, int, int, bytes]

_UNSET = object()
_POINTER = struct.Struct("<Q")
_UINT = struct.Struct("<I")
_WORK_DIMS = {dimensions: struct.pack("<Q", dimensions) for dimensions in (1, 2, 3)}


class _Loaded:
    """A program on one GPU."""

    def __init__(self, cupy: Any, program: Translated, architecture: str, *, full_groups: bool) -> None:
        self._cupy = cupy
        self.program = program
        self.cubin, self.log = program.cubin(architecture, full_groups=full_groups)
        self.module: int = cupy.cuda.driver.moduleLoadData(self.cubin)
        self.kernels: dict[str, _Kernel] = {}

    def function(self, entry: str) -> int:
        return int(self._cupy.cuda.driver.moduleGetFunction(self.module, entry))

    def attribute(self, function: int, number: int) -> int:
        return int(self._cupy.cuda.driver.funcGetAttribute(number, function))


class CudaBackend(Backend):
    """One GPU's stream, memory and programs. `share` workers divide the GPU's memory among them."""

    any_thread = True

    def __init__(self, number: int, share: int = 1) -> None:
        cupy, driver = load()
        self._cupy, self.driver = cupy, driver
        self.number = number
        runtime = cupy.cuda.runtime
        runtime.setDevice(number)
        runtime.free(0)  # makes the GPU's context
        self.context = driver.context()
        self.counters = Counters()
        self._native_stream = cupy.cuda.Stream(non_blocking=True)
        self._copying = cupy.cuda.Stream(non_blocking=True)
        self.stream: int = self._native_stream.ptr
        self._pool = cupy.cuda.MemoryPool()
        self._staging = staging(cupy, driver)
        self._staging.prepare()
        self._cubins = Cubins(
            cache_dir(), nvrtc_compiler(cupy), ".".join(map(str, cupy.cuda.nvrtc.getVersion()))
        )
        self._architecture = "sm_" + cupy.cuda.Device(number).compute_capability
        self._loaded: weakref.WeakKeyDictionary[Translated, dict[bool, _Loaded]] = weakref.WeakKeyDictionary()
        self._helpers: dict[str, int] = {}
        self._reached: dict[int, bool] = {number: True}
        self.free_events: deque[int] = deque()
        self._first = 0
        self._count = 0
        self.clock = _Clock(cupy, driver)
        self.info: WorkerInfo = worker_info(cupy, number, share)

    def enter(self) -> None:
        self.driver.set_context(self.context)

    # memory -------------------------------------------------------------------------------------

    def allocate(self, nbytes: int) -> Allocation:
        self._cupy.cuda.runtime.setDevice(self.number)  # the pool asks the runtime whose memory is meant
        try:
            memory = self._pool.malloc(max(nbytes, 1))
        except self._cupy.cuda.memory.OutOfMemoryError as error:
            text = f"{nbytes} bytes do not fit into the memory of GPU {self.number}"
            raise BackendError(MEM_OBJECT_ALLOCATION_FAILURE, text) from error
        counters = self.counters
        counters.allocations += 1
        counters.allocated_nbytes += nbytes
        counters.peak_nbytes = max(counters.peak_nbytes, counters.allocated_nbytes)
        return CudaAllocation(memory, nbytes)

    def free(self, allocation: Allocation) -> None:
        # Back to the pool, which gives it to later work of this stream only: in the order of the stream.
        allocation.native = None
        self.counters.allocated_nbytes -= allocation.nbytes

    def write(self, target: Allocation, source: Bytes, box: Box) -> None:
        nbytes = box.nbytes
        if nbytes == 0:
            return
        self._begin()
        address = _address(target) + box.target_start
        if nbytes < DIRECT_NBYTES and box.is_contiguous:
            start = source.ctypes.data + box.source_start
            if nbytes <= _AT_ONCE_NBYTES:
                self._check(self.driver.copy(address, start, nbytes, self.stream), "upload")
            else:  # it waits; other threads may go on meanwhile
                self._guarded(
                    lambda: self._cupy.cuda.runtime.memcpyAsync(address, start, nbytes, 1, self.stream)
                )
        elif _is_packed(box.shape, box.target_pitches):
            self._upload(source, box, address)
        else:
            for part in _parts(box, _PACKED_NBYTES):
                packed = self._scratch(part.nbytes)
                self._upload(source, part, packed.ptr)
                to = _packed_pitches(part.shape)
                whole = Box(part.shape, 0, to, part.target_start, part.target_pitches)
                self._copy_box(packed.ptr, _address(target), whole)
        self.counters.from_host += nbytes

    def _upload(self, source: Bytes, box: Box, address: int) -> None:
        """Bytes of the host's box to packed memory at `address`, behind the stream and before what follows."""
        self._order(self._copying.ptr, self.stream)
        pieces = pieces_of(box, self._staging.limit(box.nbytes))
        self._staging.upload(source, pieces, address, self.context, self._copying.ptr)
        self._order(self.stream, self._copying.ptr)

    def read(self, source: Allocation, target: Bytes, box: Box) -> None:
        nbytes = box.nbytes
        if nbytes == 0:
            return
        self._begin()
        address = _address(source) + box.source_start
        if nbytes < DIRECT_NBYTES and box.is_contiguous:
            start = target.ctypes.data + box.target_start
            # CuPy's copy: it waits, since the memory is pageable, and lets other threads run meanwhile
            self._guarded(lambda: self._cupy.cuda.runtime.memcpyAsync(start, address, nbytes, 2, self.stream))
        elif _is_packed(box.shape, box.source_pitches):
            self._download(target, box, address)
        else:
            for part in _parts(box, _PACKED_NBYTES):
                packed = self._scratch(part.nbytes)
                pitches = _packed_pitches(part.shape)
                whole = Box(part.shape, part.source_start, part.source_pitches, 0, pitches)
                self._copy_box(_address(source), packed.ptr, whole)
                self._download(
                    target, Box(part.shape, 0, pitches, part.target_start, part.target_pitches), packed.ptr
                )
        self.counters.to_host += nbytes

    def _download(self, target: Bytes, box: Box, address: int) -> None:
        self._order(self._copying.ptr, self.stream)
        pieces = pieces_of(turned(box), self._staging.limit(box.nbytes))
        self._staging.download(target, pieces, address, self.context, self._copying.ptr)

    def copy(self, source: Allocation, target: Allocation, box: Box) -> None:
        if box.nbytes:
            self._begin()
            self._copy_box(_address(source), _address(target), box)
            self.counters.local += box.nbytes

    def copy_from_peer(self, peer: Backend, source: Allocation, target: Allocation, box: Box) -> None:
        if not box.nbytes:
            return
        assert isinstance(peer, CudaBackend)
        self._begin()
        if self._reaches(peer):
            self._copy_box(_address(source), _address(target), box)
        else:
            self._copy_by_driver(peer.number, _address(source), _address(target), box)
        self.counters.from_peer += box.nbytes

    def _reaches(self, peer: CudaBackend) -> bool:
        """Whether this GPU can address the peer's memory; makes it so."""
        known = self._reached.get(peer.number)
        if known is None:
            runtime = self._cupy.cuda.runtime
            known = bool(runtime.deviceCanAccessPeer(self.number, peer.number))
            if known:
                try:
                    runtime.deviceEnablePeerAccess(peer.number)
                except runtime.CUDARuntimeError as error:
                    known = error.status == runtime.errorPeerAccessAlreadyEnabled
            self._reached[peer.number] = known
        return known

    def _copy_by_driver(self, peer: int, source: int, target: int, box: Box) -> None:
        """Between GPUs that do not address each other: the driver goes through host memory."""
        runtime = self._cupy.cuda.runtime
        for start, to, nbytes in box.rows():
            self._guarded(
                lambda to=to, start=start, nbytes=nbytes: runtime.memcpyPeerAsync(  # type: ignore[misc]
                    target + to, self.number, source + start, peer, nbytes, self.stream
                )
            )

    def _copy_box(self, source: int, target: int, box: Box) -> None:
        """Between two addresses that this GPU reaches."""
        slices, rows, nbytes = box.shape
        source, target = source + box.source_start, target + box.target_start
        if box.is_contiguous or (
            _is_packed(box.shape, box.source_pitches) and _is_packed(box.shape, box.target_pitches)
        ):
            self._check(self.driver.copy(target, source, box.nbytes, self.stream), "copy")
            return
        if nbytes >= _LONG_ROW and slices * rows <= 64:
            for start, to, length in box.rows():
                at = target - box.target_start + to
                self._check(
                    self.driver.copy(at, source - box.source_start + start, length, self.stream), "copy"
                )
            return
        pitches = (box.source_pitches[1], box.source_pitches[0], box.target_pitches[1], box.target_pitches[0])
        used = [pitches[0], pitches[2]] if rows > 1 else []
        used += [pitches[1], pitches[3]] if slices > 1 else []
        together = source | target | nbytes
        for pitch in used:
            together |= pitch
        unit, name = next((unit, name) for unit, name in cuda_kernels.COPIES if together % unit == 0)
        total = box.nbytes // unit
        values = (source, target, nbytes // unit, rows, total, *(pitch // unit for pitch in pitches))
        self._help(name, struct.pack("<9Q", *values), total)

    def fill(self, target: Allocation, start: int, nbytes: int, pattern: bytes) -> None:
        if nbytes == 0:
            return
        self._begin()
        address, driver = _address(target) + start, self.driver
        while len(pattern) > 1 and pattern[: len(pattern) // 2] * 2 == pattern:
            pattern = pattern[: len(pattern) // 2]
        size = len(pattern)
        value = int.from_bytes(pattern[:4], "little")
        if size == 1:
            self._check(driver.fill_1(address, value, nbytes, self.stream), "fill")
        elif size == 2 and address % 2 == 0:
            self._check(driver.fill_2(address, value, nbytes // 2, self.stream), "fill")
        elif size == 4 and address % 4 == 0:
            self._check(driver.fill_4(address, value, nbytes // 4, self.stream), "fill")
        else:
            padded = pattern.ljust(cuda_kernels.PATTERN_NBYTES, b"\0")
            self._help("fill_pattern", struct.pack("<3Q", address, nbytes, size) + padded, nbytes)
        self.counters.filled += nbytes

    def merge(
        self,
        target: Allocation,
        target_start: int,
        stage: Allocation,
        stage_start: int,
        twin: Allocation | None,
        twin_start: int,
        region: Region,
        op: str,
        dtype: str,
    ) -> None:
        if not region:
            return
        self._begin()
        element = np.dtype(dtype)
        addresses = (
            _address(target) - target_start,
            _address(stage) - stage_start,
            0 if twin is None else _address(twin) - twin_start,
        )
        for block in region.blocks():
            if op != "diff":
                self._merge_rows(
                    f"merge_{op}_{element.kind}{element.itemsize}", addresses, block, element.itemsize
                )
                continue
            for unit, part in _whole_units(block, element.itemsize):
                self._merge_rows(f"merge_diff_u{unit}", addresses, part, unit)
        self.counters.merged += region.nbytes

    def _merge_rows(self, name: str, addresses: tuple[int, int, int], block: Block, unit: int) -> None:
        """Merge the rows of `block`, whose starts, lengths and strides are multiples of `unit`."""
        width = block.nbytes // unit
        total = width * block.count
        places = [address + block.start if address else 0 for address in addresses]
        self._help(name, struct.pack("<6Q", *places, width, block.stride // unit, total), total)

    def _scratch(self, nbytes: int) -> Any:
        try:
            return self._pool.malloc(nbytes)
        except self._cupy.cuda.memory.OutOfMemoryError as error:
            text = f"{nbytes} bytes for a rectangular copy do not fit into the memory of GPU {self.number}"
            raise BackendError(MEM_OBJECT_ALLOCATION_FAILURE, text) from error

    # programs -----------------------------------------------------------------------------------

    def build(self, program: BackendProgram) -> BuildResult:
        loaded = self._load(translated(program, self._cubins), full_groups=False)
        kernels = {}
        for name, info in loaded.program.kernels.items():
            function = loaded.function(info.entry)
            size = info.max_work_group_size
            kernels[name] = KernelResources(
                work_group_size=size or self.info.max_work_group_size,
                compile_work_group_size=(0, 0, 0),
                local_memory_nbytes=loaded.attribute(function, SHARED_NBYTES) + info.local_nbytes,
                private_memory_nbytes=loaded.attribute(function, LOCAL_NBYTES),
                preferred_multiple=32,
            )
        return BuildResult(loaded.log, kernels, loaded.cubin)

    def _load(self, program: Translated, *, full_groups: bool) -> _Loaded:
        known = self._loaded.setdefault(program, {})
        found = known.get(full_groups)
        if found is None:
            try:
                found = known[full_groups] = _Loaded(
                    self._cupy, program, self._architecture, full_groups=full_groups
                )
            except self._cupy.cuda.driver.CUDADriverError as error:
                raise BuildFailure(f"the GPU refuses the compiled program: {error}") from error
        return found

    def kernel(self, program: BackendProgram, name: str) -> _Kernel:
        return self._kernel(translated(program, self._cubins), name, full_groups=False)

    def _kernel(self, program: Translated, name: str, *, full_groups: bool) -> _Kernel:
        loaded = self._load(program, full_groups=full_groups)
        found = loaded.kernels.get(name)
        if found is None:
            info = program.kernels[name]
            found = loaded.kernels[name] = _Kernel(info, loaded, loaded.function(info.entry), self.driver)
            if info.local_nbytes:  # local variables of its own that no static shared memory holds
                self._set_local_memory(found)
        return found

    def launch(self, kernel: object, args: list[KernelArgument], shape: LaunchShape) -> None:
        assert type(kernel) is _Kernel
        known = kernel.shapes.get(id(shape))
        if known is None or known[0] is not shape:
            known = self._new_shape(kernel, shape)
        grids = known[1]
        threads = grids[0][3] * grids[0][4] * grids[0][5]
        if threads > kernel.threads:
            kernel = self._with_full_groups(kernel)
        last = kernel.last
        for index, arg in enumerate(args):
            if arg is not last[index] and arg != last[index]:
                self._set_argument(kernel, index, arg)
        self._begin()
        launch, function, extra = self.driver.launch, kernel.function, kernel.extra[3]
        for x, y, z, wide, high, deep, hidden in grids:
            if hidden is not kernel.hidden:
                at = kernel.offsets[len(args)]
                kernel.buffer[at : at + len(hidden)] = hidden
                kernel.hidden = hidden
            result = launch(function, x, y, z, wide, high, deep, kernel.shared, self.stream, None, extra)
            if result:
                raise self.driver.error(result, f"launch of kernel {kernel.info.name}")
        self.counters.launches += 1

    def _new_shape(self, kernel: _Kernel, shape: LaunchShape) -> tuple[LaunchShape, list[_Grid]]:
        """What a shape means for CUDA; remembered, as plans are launched again and again."""
        if len(kernel.shapes) >= 1024:
            kernel.shapes.clear()
        known = kernel.shapes[id(shape)] = (shape, list(_grids(kernel.info, shape)))
        return known

    def _with_full_groups(self, kernel: _Kernel) -> _Kernel:
        small = kernel.small
        if small is None:
            small = self._kernel(kernel.program.program, kernel.info.name, full_groups=True)
            kernel.small = small
        return small

    def _set_argument(self, kernel: _Kernel, index: int, arg: KernelArgument) -> None:
        kernel.last[index] = _UNSET
        at = kernel.offsets[index]
        if type(arg) is CudaAllocation:
            _POINTER.pack_into(kernel.buffer, at, arg.address)
        elif type(arg) is bytes:
            nbytes = min(kernel.sizes[index], len(arg))
            kernel.buffer[at : at + nbytes] = arg[:nbytes]
        elif type(arg) is tuple:
            _POINTER.pack_into(kernel.buffer, at, _address(arg[0]) + arg[1])
        elif type(arg) is LocalBytes:
            kernel.last[index] = arg
            self._set_local_memory(kernel)
        else:
            _POINTER.pack_into(kernel.buffer, at, 0)
        kernel.last[index] = arg

    def _set_local_memory(self, kernel: _Kernel) -> None:
        """Lay out the local arguments anew; those not set yet count nothing."""
        indices = kernel.info.local_args
        set_to = [kernel.last[index] for index in indices]
        offsets, total = kernel.info.local_layout(
            [arg.nbytes if isinstance(arg, LocalBytes) else 0 for arg in set_to]
        )
        for index, offset in zip(indices, offsets, strict=True):
            _UINT.pack_into(kernel.buffer, kernel.offsets[index], offset)
        if total > _PLAIN_SHARED and total > kernel.shared:
            driver = self._cupy.cuda.driver
            try:
                driver.funcSetAttribute(kernel.function, MAX_DYNAMIC_SHARED, total)
            except driver.CUDADriverError as error:
                text = f"{total} bytes of local memory for kernel {kernel.info.name}: {error}"
                raise BackendError(OUT_OF_RESOURCES, text) from error
        kernel.shared = total

    def _help(self, name: str, parameters: bytes, work: int) -> None:
        """Start one of our own kernels over `work` items."""
        function = self._helpers.get(name)
        if function is None:
            options = [f"--gpu-architecture={self._architecture}", "--std=c++17"]
            cubin, _ = self._cubins.get(cuda_kernels.SOURCE, options)
            driver = self._cupy.cuda.driver
            module = driver.moduleLoadData(cubin)
            for known in cuda_kernels.NAMES:
                self._helpers[known] = int(driver.moduleGetFunction(module, known))
            function = self._helpers[name]
        block = cuda_kernels.BLOCK
        groups = min(-(-work // block), self.info.compute_units * 16)
        packed = ctypes.create_string_buffer(parameters, len(parameters))
        size = ctypes.c_size_t(len(parameters))
        extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(packed), 2, ctypes.addressof(size), 0)
        result = self.driver.launch(
            function, groups, 1, 1, block, 1, 1, 0, self.stream, None, ctypes.addressof(extra)
        )
        self._check(result, name)

    # order --------------------------------------------------------------------------------------

    def order_after(self, marker: Marker) -> None:
        if marker.done():
            return
        if isinstance(marker, CudaMarker):
            self._check(self.driver.stream_wait(self.stream, marker.event, 0), "wait for a peer")
            return
        try:
            marker.wait()
        except BackendError:
            return  # whoever handed that work over reports it; here only the order matters

    def pending(self) -> int:
        return self._count

    def record(self) -> Marker:
        first, self._first = self._first, 0
        self._count = 0
        failure = None
        try:
            event = self._event()
            self._check(self.driver.event_record(event, self.stream), "work failed on the device")
        except BackendError as error:
            event, failure = 0, error
        if failure is None and time.perf_counter_ns() > self.clock.due:
            self.clock.rebase()
        return CudaMarker(self, first, event, failure)

    def close(self) -> None:
        try:
            self._native_stream.synchronize()
            self._copying.synchronize()
        except self._cupy.cuda.runtime.CUDARuntimeError:
            # Every failure has been reported through a marker, or nobody is left to hear of it.
            self._first = 0
        self._loaded.clear()
        self._pool.free_all_blocks()

    # small things -------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Count an operation; the first after a marker gets an event, for times."""
        self._count += 1
        if not self._first:
            event = self._event()
            self._check(self.driver.event_record(event, self.stream), "event")
            self._first = event

    def _event(self) -> int:
        try:
            return self.free_events.popleft()
        except IndexError:
            return self.driver.new_event()

    def _order(self, later: int, earlier: int) -> None:
        """What follows on one stream waits for what is on another."""
        event = self._event()
        driver = self.driver
        self._check(driver.event_record(event, earlier), "event")
        self._check(driver.stream_wait(later, event, 0), "order of streams")
        self.free_events.append(event)  # a wait keeps what it waits for, whatever becomes of the event

    def _check(self, result: int, text: str) -> None:
        if result:
            raise self.driver.error(result, text)

    def _guarded(self, call: Callable[[], Any]) -> None:
        try:
            call()
        except self._cupy.cuda.runtime.CUDARuntimeError as error:
            raise BackendError(OUT_OF_RESOURCES, str(error)) from error


class CudaAllocation(Allocation):
    """Memory of one GPU; `native` is CuPy's, which returns to the pool when it is dropped."""

    __slots__ = ("address",)

    def __init__(self, native: Any, nbytes: int) -> None:
        super().__init__(native, nbytes)
        self.address: int = native.ptr


def _address(allocation: Allocation) -> int:
    assert type(allocation) is CudaAllocation
    return allocation.address


def _grids(info: CudaKernel, shape: LaunchShape) -> list[_Grid]:
    """A chunk as launches within CUDA's limits."""
    ndrange, chunk = shape.ndrange, shape.chunk
    wide, high, deep = (*shape.local_size, 1, 1)[:3]
    shifts = dict(shape.bases)
    in_order = [shifts.get(arg, 0) for arg in info.pointer_args]
    if shape.hidden is None:  # pointers come as they are to be used
        chunk, in_order = whole_chunk(ndrange), [0] * len(in_order)
    found: list[_Grid] = []
    for part in _within_limits(chunk):
        groups = tuple(stop - start for start, stop in zip(part.start, part.stop, strict=True))
        if part is chunk and shape.hidden is not None:
            hidden = shape.hidden + _WORK_DIMS[ndrange.work_dim]
        else:
            try:
                hidden = info.pack(ndrange, part, in_order)
            except ValueError as error:
                raise BackendError(-54, str(error)) from error  # CL_INVALID_WORK_GROUP_SIZE
        x, y, z = (*groups, 1, 1)[:3]
        found.append((x, y, z, wide, high, deep, hidden))
    return found


def _within_limits(chunk: Chunk) -> list[Chunk]:
    parts = [chunk]
    for axis in range(1, len(chunk.start)):
        if chunk.stop[axis] - chunk.start[axis] <= _MOST_GROUPS:
            continue
        cut = []
        for part in parts:
            for start in range(part.start[axis], part.stop[axis], _MOST_GROUPS):
                low, high = list(part.start), list(part.stop)
                low[axis], high[axis] = start, min(start + _MOST_GROUPS, part.stop[axis])
                cut.append(Chunk(tuple(low), tuple(high)))
        parts = cut
    return parts


def _whole_units(block: Block, unit: int) -> list[tuple[int, Block]]:
    """`block` as (unit, rows of whole units), with the bytes of cut units by themselves (unit 1)."""
    if unit == 1 or (block.start % unit == 0 and block.nbytes % unit == 0 and block.stride % unit == 0):
        return [(unit, block)]
    if block.stride % unit and block.count > 1:  # every row begins elsewhere within a unit
        rows = [Block(block.start + row * block.stride, block.nbytes, 0, 1) for row in range(block.count)]
        return [part for row in rows for part in _whole_units(row, unit)]
    start, stop = block.start, block.start + block.nbytes
    first, last = -(-start // unit) * unit, stop // unit * unit
    if first >= last:
        return [(1, block)]
    cuts = ((1, start, first), (unit, first, last), (1, last, stop))
    return [
        (size, Block(low, high - low, block.stride, block.count)) for size, low, high in cuts if high > low
    ]


def _packed_pitches(shape: tuple[int, int, int]) -> tuple[int, int]:
    return shape[1] * shape[2], shape[2]


def _is_packed(shape: tuple[int, int, int], pitches: tuple[int, int]) -> bool:
    """Whether the box's bytes lie one after the other."""
    slices, rows, nbytes = shape
    return (rows == 1 or pitches[1] == nbytes) and (slices == 1 or pitches[0] == rows * nbytes)


def _parts(box: Box, limit: int) -> list[Box]:
    """`box` in boxes of about `limit` bytes at most (a row at least)."""
    if box.nbytes <= limit:
        return [box]
    slices, rows, nbytes = box.shape
    axis, count = (0, slices) if slices > 1 else (1, rows)
    if count == 1:
        return [box]
    half = count // 2
    first = (half, rows, nbytes) if axis == 0 else (1, half, nbytes)
    rest = (slices - half, rows, nbytes) if axis == 0 else (1, rows - half, nbytes)
    one = Box(first, box.source_start, box.source_pitches, box.target_start, box.target_pitches)
    other = Box(rest, box.source_start, box.source_pitches, box.target_start, box.target_pitches)
    other = other.moved(half * box.source_pitches[axis], half * box.target_pitches[axis])
    return _parts(one, limit) + _parts(other, limit)


def opener(number: int, share: int = 1) -> Callable[[], Backend]:
    """What an executor calls on the worker's thread to open a worker on GPU `number`, one of `share` there."""
    return lambda: CudaBackend(number, share)
