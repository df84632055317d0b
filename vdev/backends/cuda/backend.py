"""Workers on NVIDIA GPUs: CUDA through CuPy, a stream and a memory pool for each.

Decides how bytes and kernels go through one GPU's stream. Programs come translated to CUDA C++
(`programs`); long copies from and to plain host memory go through pinned blocks (`staging`); GPUs
copy from each other directly. It never decides what moves where.

A replica is plain device memory of the bytes it covers and kernels get shifted pointers (PPoPP'11 section
3.5). Pages of one reserved address range would save memory only where a worker's bytes are far apart by more
than a page of 2 MiB; block-cyclic kernels, whose bytes are far apart, step by less. Where a replica of theirs has no
room, it is held for that launch alone in managed memory, whose pages the driver puts where there is room.
"""

from __future__ import annotations

import ctypes
import logging
import struct
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

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
    Marker,
    WorkerInfo,
)
from vdev.backends.cuda import kernels as cuda_kernels
from vdev.backends.cuda.boxes import (
    PlacedBox,
    is_one_row,
    is_packed,
    packed_pitches,
    parts,
    placed,
    slices_of,
    whole_units,
)
from vdev.backends.cuda.driver import FATAL, LOCAL_NBYTES, SHARED_NBYTES, load
from vdev.backends.cuda.info import worker_info
from vdev.backends.cuda.launch import CudaAllocation, Kernel, LoadedProgram, address_of
from vdev.backends.cuda.marker import Clock, CudaMarker
from vdev.backends.cuda.pool import Block, Pool
from vdev.backends.cuda.programs import Cubins, Multiprocessor, Translated, nvrtc_compiler, translated
from vdev.backends.cuda.staging import DIRECT_NBYTES, pieces_of, staging, turned
from vdev.process.switches import cache_dir
from vdev.translators.ranges import byte_runs
from vdev.translators.ranges.grain import MAX_CUTS, Grain
from vdev.translators.ranges.region import Region

logger = logging.getLogger("vdev.cuda")

#: Rows of a rectangle that are at least so long are copied by the copy engine.
_LONG_ROW = 64 << 10
#: Device memory for the packed form of rectangles on their way from or to the host, at most.
_PACKED_NBYTES = 256 << 20
#: Below that, where there is no memory left for it, rows go one by one.
_LEAST_PACKED_NBYTES = 64 << 10
#: Under VDEV_MEMORY, what memory kept for reuse and packed forms may take beside what is in use.
_POOLED_NBYTES = 64 << 20
#: A GPU fetches fewer bytes from another one with a kernel of its own: loads over the link are nearly as fast as
#: the copy engine (361 against 383 GB/s on H200), and one launch takes what is 8 us and more for each row there.
_FETCHED_NBYTES = 32 << 20
#: Uploads of so many bytes the driver takes at once, whatever the memory (CUDA's "API synchronization behavior").
_AT_ONCE_NBYTES = 64 << 10
#: cudaErrorPeerAccessAlreadyEnabled, which CuPy has no name for. Another worker on this GPU or the program's own
#: use of CUDA came first
_PEER_ACCESS_ALREADY_ENABLED = 704


class CudaBackend(Backend):
    """One GPU's stream, memory and programs. `share` workers divide the GPU's memory among them."""

    any_thread = True
    cheap_markers = True
    #: the error that this GPU has not survived
    lost: BackendError | None = None

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
        self._pool = Pool(self._take, self._give)
        #: sparse memory that nothing to come uses, and with a marker behind all that may use it still
        self._spent: deque[Block] = deque()
        self._going: deque[tuple[Marker, list[Block]]] = deque()
        self._staging = staging(cupy, driver)
        self._staging.prepare()
        self._cubins = Cubins(
            cache_dir(), nvrtc_compiler(cupy), ".".join(map(str, cupy.cuda.nvrtc.getVersion()))
        )
        self._architecture = "sm_" + cupy.cuda.Device(number).compute_capability
        properties = runtime.getDeviceProperties(number)
        self._multiprocessor = Multiprocessor(
            int(properties["regsPerMultiprocessor"]), int(properties["maxThreadsPerMultiProcessor"])
        )
        self._loaded: weakref.WeakKeyDictionary[BackendProgram, LoadedProgram] = weakref.WeakKeyDictionary()
        #: modules of programs that are gone; and with a marker behind all that may still run of them
        self._unused: deque[int] = deque()
        self._leaving: deque[tuple[Marker, list[int]]] = deque()
        self._helpers: dict[str, int] = {}
        self._reached: dict[int, bool] = {number: True}
        self.free_events: deque[int] = deque()
        self._first = 0
        self._count = 0
        #: copies from peers that have been asked for and not been started, and why some could not be
        self._fetches: list[PlacedBox] = []
        self._lost: BackendError | None = None
        self.clock = Clock(cupy, driver)
        self.info: WorkerInfo = worker_info(cupy, number, share)

    def enter(self) -> None:
        self.driver.set_context(self.context)

    def outside(self) -> object:
        return self.driver.context()

    def leave(self, outside: object) -> None:
        # A thread without a context would get the first GPU's at its first call of CUDA's runtime anyway; left there, it
        # need not be set for each launch.
        if outside or self.number:
            self.driver.set_context(outside)

    # memory -------------------------------------------------------------------------------------

    def allocate(self, nbytes: int) -> Allocation:
        self._live()
        memory = self._malloc(max(nbytes, 1), f"{nbytes} bytes")
        counters = self.counters
        counters.allocations += 1
        counters.allocated_nbytes += nbytes
        counters.peak_nbytes = max(counters.peak_nbytes, counters.allocated_nbytes)
        return CudaAllocation(memory, nbytes)

    def free(self, allocation: Allocation) -> None:
        # Back to the pool, which gives it to later work of this stream only: in the order of the stream, which what has
        # been asked for of peers is to be part of by then.
        if self._fetches:
            self._fetch()
        if allocation.whole is not None:
            allocation.native = None
            self.free(allocation.whole)
            return
        if allocation.counted_nbytes or not allocation.nbytes:
            allocation.native = None
        else:
            assert isinstance(allocation.native, Block)
            self._spent.append(allocation.native)
        self.counters.allocated_nbytes -= allocation.counted_nbytes

    def allocate_sparse(self, nbytes: int) -> Allocation:
        """Memory whose pages the driver moves between GPU and host."""
        self._live()
        if (
            self._going or self._spent
        ):  # of a launch's turns each gives its memory back before the next takes some
            self._guarded(self._native_stream.synchronize)
            gone = [*self._spent, *(block for _, blocks in self._going for block in blocks)]
            self._spent.clear()
            self._going.clear()
            for block in gone:
                self._give(block.ptr)
        address = self._take(max(nbytes, 1), managed=True)
        return CudaAllocation(Block(address, nbytes, deque()), nbytes, sparse=True)

    def _let_sparse_go(self, marker: Marker) -> None:
        """Give the driver the sparse memory that is not in use any more; what is spent is in use up to `marker`."""
        if self._spent:
            self._going.append((marker, [self._spent.popleft() for _ in range(len(self._spent))]))
        while self._going and self._going[0][0].done():
            for block in self._going.popleft()[1]:
                self._give(block.ptr)

    @property
    def spare_nbytes(self) -> int:
        return self._pool.taken_nbytes - self.counters.allocated_nbytes

    def limit(self, nbytes: int) -> None:
        super().limit(nbytes)
        self._pool.most = nbytes + _POOLED_NBYTES

    def trim(self) -> None:
        self.driver.set_context(self.context)  # finalisers of the program's may have run
        self._pool.trim()

    def _take(self, nbytes: int, *, managed: bool = False) -> int:
        """The address of new memory of the driver's."""
        result, address = self.driver.take_memory(nbytes, managed=managed)
        self._check(result, f"{nbytes} bytes of GPU {self.number}")
        return address

    def _give(self, address: int) -> None:
        """Memory back to the driver. A GPU that is lost refuses it, and its work has told."""
        result = 0 if self.lost is not None else self.driver.give_memory(address)
        if result:
            logger.debug("memory was not taken back: %s", self.error(result, "free"))

    def part(self, whole: Allocation, ahead: int, nbytes: int) -> Allocation:
        found = CudaAllocation(whole.native, nbytes)
        found.address += ahead
        found.whole, found.ahead = whole, ahead
        return found

    def write(self, target: Allocation, source: Bytes, box: Box) -> None:
        nbytes = box.nbytes
        if nbytes == 0:
            return
        self._begin()
        address = address_of(target) + box.target_start
        if nbytes < DIRECT_NBYTES and box.is_contiguous:
            start = source.ctypes.data + box.source_start
            if nbytes <= _AT_ONCE_NBYTES:
                self._check(self.driver.copy(address, start, nbytes, self.stream), "upload")
            else:  # it waits; other threads may go on meanwhile
                self._guarded(
                    lambda: self._cupy.cuda.runtime.memcpyAsync(address, start, nbytes, 1, self.stream)
                )
        elif is_packed(box.shape, box.target_pitches):
            self._upload(source, box, address)
        else:
            for part, packed in self._packed(box):
                if packed is None:
                    for start, place, row in part.rows():
                        self._upload(source, Box.contiguous(start, 0, row), address_of(target) + place)
                    continue
                self._upload(source, part, packed.ptr)
                to = packed_pitches(part.shape)
                whole = Box(part.shape, 0, to, part.target_start, part.target_pitches)
                self._copy_box(packed.ptr, address_of(target), whole)
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
        address = address_of(source) + box.source_start
        if nbytes < DIRECT_NBYTES and box.is_contiguous:
            start = target.ctypes.data + box.target_start
            # CuPy's copy: it waits, since the memory is pageable, and lets other threads run meanwhile
            self._guarded(lambda: self._cupy.cuda.runtime.memcpyAsync(start, address, nbytes, 2, self.stream))
        elif is_packed(box.shape, box.source_pitches):
            self._download(target, box, address)
        else:
            for part, packed in self._packed(box):
                if packed is None:
                    for start, place, row in part.rows():
                        self._download(target, Box.contiguous(0, place, row), address_of(source) + start)
                    continue
                pitches = packed_pitches(part.shape)
                whole = Box(part.shape, part.source_start, part.source_pitches, 0, pitches)
                self._copy_box(address_of(source), packed.ptr, whole)
                self._download(
                    target, Box(part.shape, 0, pitches, part.target_start, part.target_pitches), packed.ptr
                )
        self.counters.to_host += nbytes

    def _packed(self, box: Box) -> Iterator[tuple[Box, Block | None]]:
        """`box` in parts, each with memory for its packed form; None for one that goes row by row, where there is none."""
        waiting = parts(box, _PACKED_NBYTES)[::-1]
        while waiting:
            part = waiting.pop()
            try:
                yield part, self._malloc(part.nbytes, f"{part.nbytes} bytes for a rectangular copy")
            except BackendError as error:
                if error.status != MEM_OBJECT_ALLOCATION_FAILURE:
                    raise
                halves = parts(part, part.nbytes // 2) if part.nbytes > _LEAST_PACKED_NBYTES else [part]
                if len(halves) == 1:
                    yield part, None
                else:
                    waiting += halves[::-1]

    def _download(self, target: Bytes, box: Box, address: int) -> None:
        self._order(self._copying.ptr, self.stream)
        pieces = pieces_of(turned(box), self._staging.limit(box.nbytes))
        self._staging.download(target, pieces, address, self.context, self._copying.ptr)

    def copy(self, source: Allocation, target: Allocation, box: Box) -> None:
        if box.nbytes:
            self._begin()
            self._copy_box(address_of(source), address_of(target), box)
            self.counters.local += box.nbytes

    def copy_from_peer(self, peer: Backend, source: Allocation, target: Allocation, box: Box) -> None:
        if not box.nbytes:
            return
        assert isinstance(peer, CudaBackend)
        peer._live()  # its memory is gone with it
        if not self._reaches(peer):
            self._begin()
            self._copy_by_driver(peer.number, address_of(source), address_of(target), box)
        elif box.nbytes >= _FETCHED_NBYTES:
            self._begin()
            self._copy_box(address_of(source), address_of(target), box)
        else:
            # What comes from several peers, or in several boxes, comes in one launch: it takes some 10 us however
            # little it copies, and a row of them one after the other as often that.
            wanted = placed(address_of(source), address_of(target), box)
            if any(wanted.may_overlap(other) for other in self._fetches):
                self._fetch()  # the later one is to be the last
            self._count_one()
            self._fetches.append(wanted)
            if len(self._fetches) == cuda_kernels.MOST_BOXES:
                self._fetch()
        self.counters.from_peer += box.nbytes

    def _fetch(self) -> None:
        """Start what has been asked for of peers. Should that fail, the next marker tells: the calls have returned."""
        boxes, self._fetches = self._fetches, []
        try:
            self._copy_boxes(boxes)
        except BackendError as error:
            self._lost = error

    def _copy_boxes(self, boxes: Sequence[PlacedBox]) -> None:
        """Copy boxes between addresses that this GPU reaches, with one launch of ours."""
        together = 0
        for box in boxes:
            together |= box.alignment
        unit, name = next((unit, name) for unit, name in cuda_kernels.COPIES if together % unit == 0)
        words = [box.words(unit) for box in boxes]
        total = sum(box.nbytes for box in boxes) // unit
        if len(boxes) == 1:
            self._help(name, struct.pack("<9Q", *words[0]), total)
            return
        packed = b"".join(struct.pack("<9Q", *of_box) for of_box in words)
        room = cuda_kernels.MOST_BOXES * struct.calcsize("<9Q")
        self._help(f"copy_boxes_u{unit}", struct.pack("<Q", total) + packed.ljust(room, b"\0"), total)

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
                    known = error.status == _PEER_ACCESS_ALREADY_ENABLED
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
        """Between two addresses that this GPU reaches, with the copy engine where rows are long."""
        slices, rows, nbytes = box.shape
        if is_one_row(box):
            start, to = source + box.source_start, target + box.target_start
            self._check(self.driver.copy(to, start, box.nbytes, self.stream), "copy")
        elif nbytes >= _LONG_ROW and slices * rows <= 64:
            for start, to, length in box.rows():
                self._check(self.driver.copy(target + to, source + start, length, self.stream), "copy")
        else:
            self._copy_boxes([placed(source, target, box)])

    def fill(self, target: Allocation, start: int, nbytes: int, pattern: bytes) -> None:
        if nbytes == 0:
            return
        self._begin()
        address, driver = address_of(target) + start, self.driver
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
        grain: Grain,
    ) -> None:
        if not region:
            return
        self._begin()
        addresses = (
            address_of(target) - target_start,
            address_of(stage) - stage_start,
            0 if twin is None else address_of(twin) - twin_start,
        )
        for block in slices_of(region.blocks()):
            if op == "diff":
                self._merge_changes(addresses, block, grain)
            else:
                element = np.dtype(dtype)
                name = f"merge_{op}_{element.kind}{element.itemsize}"
                self._merge_rows(name, addresses, block, element.itemsize)
        self.counters.merged += region.nbytes

    def _merge_changes(self, addresses: tuple[int, int, int], block: byte_runs.Block, grain: Grain) -> None:
        """Merge the units of `block` that differ from the twin: as words where they are such."""
        word = grain.unit if grain.unit in cuda_kernels.WORDS else None
        for whole, part in whole_units(block, word):
            if whole and word is not None:
                self._merge_rows(f"merge_diff_u{word}", addresses, part, word)
                continue
            most = (part.nbytes // grain.period + 2) * len(grain.cuts) + 1  # units that a row has a part of
            total, cuts = most * part.count, grain.cuts
            numbers = (part.start, part.nbytes, part.stride, most, total, grain.period, len(cuts))
            packed = struct.pack(f"<{MAX_CUTS}H", *cuts, *(0,) * (MAX_CUTS - len(cuts)))
            self._help("merge_units", struct.pack("<10Q", *addresses, *numbers) + packed, total)

    def _merge_rows(
        self, name: str, addresses: tuple[int, int, int], block: byte_runs.Block, unit: int
    ) -> None:
        """Merge the rows of `block`, whose starts, lengths and strides are multiples of `unit`."""
        width = block.nbytes // unit
        total = width * block.count
        places = [address + block.start if address else 0 for address in addresses]
        self._help(name, struct.pack("<6Q", *places, width, block.stride // unit, total), total)

    def _malloc(self, nbytes: int, what: str) -> Block:
        try:
            return self._pool.malloc(nbytes)
        except BackendError as error:
            if error.status == MEM_OBJECT_ALLOCATION_FAILURE:
                text = f"{what} do not fit into the memory of GPU {self.number}"
                raise BackendError(MEM_OBJECT_ALLOCATION_FAILURE, text) from error
            raise

    # programs -----------------------------------------------------------------------------------

    def build(self, program: BackendProgram) -> BuildResult:
        loaded = self._load(program)
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

    def _load(self, program: BackendProgram) -> LoadedProgram:
        self._live()
        found = self._loaded.get(program)
        if found is None:
            found = self._loaded[program] = self._load_cubin(
                translated(program, self._cubins), full_groups=False
            )
        return found

    def _load_cubin(self, program: Translated, *, full_groups: bool) -> LoadedProgram:
        try:
            return LoadedProgram(
                self._cupy,
                program,
                self._architecture,
                self._multiprocessor,
                self._unused,
                full_groups=full_groups,
            )
        except self._cupy.cuda.driver.CUDADriverError as error:
            raise BuildFailure(f"the GPU refuses the compiled program: {error}") from error

    def kernel(self, program: BackendProgram, name: str) -> Kernel:
        return self._kernel(self._load(program), name)

    def _kernel(self, loaded: LoadedProgram, name: str) -> Kernel:
        found = loaded.kernels.get(name)
        if found is None:
            info = loaded.program.kernels[name]
            found = loaded.kernels[name] = Kernel(info, loaded, loaded.function(info.entry), self.driver)
            if info.local_nbytes:  # local variables of its own that no static shared memory holds
                found.lay_out_local_memory()
        return found

    def launch(self, kernel: object, args: list[KernelArgument], shape: LaunchShape) -> None:
        assert type(kernel) is Kernel
        known = kernel.shapes.get(id(shape))
        if known is None or known[0] is not shape:
            known = kernel.remember(shape)
        grids = known[1]
        threads = grids[0][3] * grids[0][4] * grids[0][5]
        if threads > kernel.threads:
            kernel = self._with_full_groups(kernel)
        last = kernel.last
        for index, arg in enumerate(args):
            if arg is not last[index] and arg != last[index]:
                kernel.set_argument(index, arg)
        self._begin()
        launch, function, extra = self.driver.launch, kernel.function, kernel.extra[3]
        for x, y, z, wide, high, deep, hidden in grids:
            if hidden is not kernel.hidden:
                at = kernel.offsets[len(args)]
                kernel.buffer[at : at + len(hidden)] = hidden
                kernel.hidden = hidden
            result = launch(function, x, y, z, wide, high, deep, kernel.shared, self.stream, None, extra)
            if result:
                raise self.error(result, f"launch of kernel {kernel.info.name}")
        self.counters.launches += 1

    def again(
        self, kernel: object, args: list[KernelArgument], shape: LaunchShape
    ) -> Callable[[], object] | None:
        assert type(kernel) is Kernel
        grids = kernel.shapes[id(shape)][1]
        if len(grids) != 1:  # the second may be refused after the first has started
            return None
        grid = grids[0]
        if grid[3] * grid[4] * grid[5] > kernel.threads:
            kernel = self._with_full_groups(kernel)
        start = kernel.assembled(grid, self.stream, self.driver)
        counters, own = self.counters, self.context
        context, set_context = self.driver.asked_context(), self.driver.set_context

        def launch() -> None:
            outside = context()
            if outside == own:
                result = start()
            else:
                set_context(own)
                result = start()
                self.leave(outside)
            if result:
                # Its name is the kernel's, which is to be there as long as this may be called.
                raise self.error(result, f"launch of kernel {kernel.info.name}")
            self._count += 1  # the first since the marker has been counted, with its event
            counters.launches += 1

        return launch

    def _with_full_groups(self, kernel: Kernel) -> Kernel:
        small = kernel.small
        if small is None:
            program = kernel.program
            if program.with_full_groups is None:
                program.with_full_groups = self._load_cubin(program.program, full_groups=True)
            small = kernel.small = self._kernel(program.with_full_groups, kernel.info.name)
        return small

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
            result = self.driver.stream_wait(self.stream, marker.event, 0)
            if result and not marker.done():  # else the peer has failed, and tells so itself
                self._check(result, "wait for a peer")
            return
        try:
            marker.wait()
        except BackendError:
            return  # whoever handed that work over reports it; here only the order matters

    def pending(self) -> int:
        return self._count

    def record(self) -> Marker:
        if self._fetches:
            self._fetch()
        first, self._first = self._first, 0
        self._count = 0
        failure, self._lost = self._lost, None
        if self.lost is not None:
            return CudaMarker(self, first, 0, self.lost)
        try:
            event = self._event()
            self._check(self.driver.event_record(event, self.stream), "work failed on the device")
            if failure is None and time.perf_counter_ns() > self.clock.due:
                self._guarded(self.clock.rebase)  # waits: what has just failed is heard of here first
        except BackendError as error:
            event, failure = 0, error
        marker = CudaMarker(self, first, event, failure)
        if self._unused or self._leaving:
            self._unload(marker)
        if self._spent or self._going:
            self._let_sparse_go(marker)
        return marker

    def _unload(self, marker: Marker) -> None:
        """Unload what nobody uses any more and what no work before `marker` does either."""
        unused, leaving = self._unused, self._leaving
        if unused:
            leaving.append((marker, [unused.popleft() for _ in range(len(unused))]))
        driver = self._cupy.cuda.driver
        while leaving and leaving[0][0].done():
            for module in leaving.popleft()[1]:
                try:
                    driver.moduleUnload(module)
                except driver.CUDADriverError as error:
                    # A GPU that has failed refuses everything, and its work tells so: this is no command's failure.
                    logger.debug("module of a program that is gone: %s", error)

    def close(self) -> None:
        try:
            self._native_stream.synchronize()
            self._copying.synchronize()
        except self._cupy.cuda.runtime.CUDARuntimeError:
            # Every failure has been reported through a marker, or nobody is left to hear of it.
            self._first = 0
        self._loaded.clear()

    # small things -------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Count an operation that is about to be started, behind all before it."""
        if self._fetches:
            self._fetch()
        self._count_one()

    def _live(self) -> None:
        """Raise what this GPU has not survived, if anything has happened to it."""
        if self.lost is not None:
            raise BackendError(self.lost.status, self.lost.text)

    def error(self, result: int, text: str) -> BackendError:
        """The BackendError of a CUresult; the first that the GPU does not survive is told, once."""
        found = self.driver.error(result, text)
        if result in FATAL and self.lost is None:
            self._lose(found, FATAL[result])
        return found

    def _lose(self, error: BackendError, what: str) -> None:
        """Nothing is asked of this GPU any more: each call would fail, in finalisers with a message of its own."""
        self.lost = error
        logger.error(
            "GPU %d is lost until this process ends: %s (%s). Its commands fail from now on",
            self.number,
            what,
            error.text,
        )
        self._staging.keep()
        held_for_ever = (self._native_stream, self._copying, self.clock, self._staging)
        for held in held_for_ever:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(held))  # their finalisers would ask it

    def _count_one(self) -> None:
        """Count an operation; the first after a marker gets an event, for times."""
        self._live()
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
            raise self.error(result, text)

    def _guarded(self, call: Callable[[], Any]) -> None:
        try:
            call()
        except self._cupy.cuda.runtime.CUDARuntimeError as error:
            raise self._failed(error) from error

    def _failed(self, error: Any) -> BackendError:
        """What an error of CUDA's runtime is here."""
        found = BackendError(OUT_OF_RESOURCES, str(error))
        if error.status in FATAL and self.lost is None:
            self._lose(found, FATAL[error.status])
        return found


def opener(number: int, share: int = 1) -> Callable[[], Backend]:
    """What an executor calls on the worker's thread to open a worker on GPU `number`, one of `share` there."""
    return lambda: CudaBackend(number, share)
