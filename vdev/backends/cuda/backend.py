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

import logging
import threading
import time
from collections.abc import Callable, Sequence
from ctypes import c_size_t, c_uint64, c_void_p
from functools import cache, cached_property, partial

from vdev.backends.base import (
    Allocation,
    Backend,
    Box,
    Bytes,
    Copying,
    Counters,
    Deliver,
    Filling,
    Marker,
    Merging,
    Reread,
    WorkerInfo,
)
from vdev.backends.call_lists import DriverCall, PreparedCall, changing, prepared
from vdev.backends.cuda import kernels as cuda_kernels
from vdev.backends.cuda.aside import Aside
from vdev.backends.cuda.boxes import (
    PlacedBox,
    is_one_row,
    placed,
)
from vdev.backends.cuda.compiling import FETCHED_NBYTES, CudaCompiling, shortest
from vdev.backends.cuda.driver import load
from vdev.backends.cuda.errors import ALREADY_ENABLED, ERROR_NOT_READY
from vdev.backends.cuda.gpu import Gpu
from vdev.backends.cuda.host_copies import AT_ONCE_NBYTES, OWN_THREAD_NBYTES, HostCopies, host_address
from vdev.backends.cuda.info import worker_info
from vdev.backends.cuda.landing import LANDING_NBYTES, Landing, Lent, Pinned
from vdev.backends.cuda.launch import CudaAllocation, address_of, asking
from vdev.backends.cuda.marker import CudaMarker, Lapse, Moment
from vdev.backends.cuda.modules import Modules
from vdev.backends.cuda.nvrtc import nvrtc_version
from vdev.backends.cuda.own_kernels import OwnKernels, copying_kernel, merging_kernel
from vdev.backends.cuda.pool import Block, Pool
from vdev.backends.cuda.programs import Cubins, Multiprocessor, nvrtc_compiler
from vdev.backends.cuda.read_ways import MOST_NBYTES, ReadWays
from vdev.backends.cuda.sparse import SparseMemory
from vdev.backends.cuda.staging import give_back, staging
from vdev.backends.cuda.textures import Textures
from vdev.errors import MEM_OBJECT_ALLOCATION_FAILURE, BackendError
from vdev.process.beside import compilers
from vdev.process.folders import cache_dir
from vdev.translators.ranges.grain import Grain
from vdev.translators.ranges.region import Region

logger = logging.getLogger("vdev.cuda")

#: Rows of a rectangle that are at least this long are copied by the copy engine.
_LONG_ROW = 64 << 10
#: With VDEV_MEMORY, what memory kept for reuse and packed forms may take in addition to what is in use.
_POOLED_NBYTES = 64 << 20
#: How often a thread that reads a few bytes looks whether they have arrived, about a microsecond each time, before it lets
#: others run: an empty kernel and the copy behind it take about ten.
_LOOKS = 24
#: one GPU compiles each of vdev's own kernels, and the others find what it has made. Two kernels can be compiled at the same time: who
#: needs one does not wait for those that are only prepared.
_compiling = {name: threading.Lock() for name in cuda_kernels.NAMES}


class CudaBackend(CudaCompiling):
    """One GPU's stream, memory and programs. `share` workers divide the GPU's memory among them."""

    any_thread = True
    compiles_ahead = True
    can_wait_for_all = True
    small_write_nbytes = AT_ONCE_NBYTES
    writes_boxes_now = True
    small_read_nbytes = LANDING_NBYTES
    own_thread_nbytes = OWN_THREAD_NBYTES
    has_visitors = True
    repeats_by_shape = False  # pointers are moved (`vdev.backends.cuda.launch.moved`)
    tells_times = begins_timed = True
    cheap_markers = True
    pins_memory = True

    def __init__(self, number: int, share: int = 1) -> None:
        cupy, driver = load()
        self._cupy, self.driver = cupy, driver
        self.number = number
        runtime = cupy.cuda.runtime
        driver.open_device(number)  # CuPy's calls would make the other workers' threads wait
        runtime.setDevice(number)
        runtime.free(0)  # creates the GPU's context
        self.context = driver.context()
        self.counters = Counters()
        self._native_stream = cupy.cuda.Stream(non_blocking=True)
        self._copying = cupy.cuda.Stream(non_blocking=True)
        self.stream: int = self._native_stream.ptr
        self._gpu = Gpu(cupy, driver, number)
        self._pool = Pool(self._take, self._give)
        self._textures = Textures(
            driver,
            number,
            self._pool,
            self._in_own_context,
            partial(driver.stream_synchronize, self.stream),
        )
        self._sparse = SparseMemory(
            partial(self._take, managed=True),
            self._give,
            lambda: self._gpu.guarded(self._native_stream.synchronize),
        )
        self._staging = staging(cupy, driver, self.context)
        self._staging.watch(self.counters)
        self._gpu.at_loss = self._staging.keep
        self._landing = Landing(cupy, driver, self.stream, driver.new_event)
        self._gpu.held_at_loss = (self._native_stream, self._copying, self._staging, self._landing)
        compiler = nvrtc_compiler(cupy)
        self._cubins = Cubins(cache_dir(), compiler, nvrtc_version(cupy.cuda.nvrtc, cache_dir()))
        properties = runtime.getDeviceProperties(number)
        self._architecture = f"sm_{properties['major']}{properties['minor']}"
        multiprocessor = Multiprocessor(
            int(properties["regsPerMultiprocessor"]), int(properties["maxThreadsPerMultiProcessor"])
        )
        self._modules = Modules(cupy, driver, self._cubins, self._architecture, multiprocessor)
        #: memory and modules that are let go behind the next marker
        self._let_go_behind_markers = (*self._modules.awaiting, *self._sparse.awaiting)
        self._reached: dict[int, bool] = {number: True}
        self._first = 0
        self._count = 0
        #: copies from peers that have been requested and not started, and why some could not be started
        self._fetches: list[PlacedBox] = []
        self._lost: BackendError | None = None
        self.info: WorkerInfo = worker_info(cupy, number, share)
        self._host = HostCopies(
            self._gpu,
            self._staging,
            (self.stream, self._copying.ptr),
            self.context,
            self._malloc,
            self._copy_box,
        )
        #: made here: other workers' plans have a place for it, and are compiled without this one's turn
        self._fence = driver.new_event()
        self._own = OwnKernels(
            self.stream, self.info.compute_units, self._load_own, driver.starting, self._gpu.check
        )

    def aside(self) -> Aside:
        found = self._aside
        if found is None:
            found = self._aside = Aside(self._cupy, self.driver, self.stream)
            self._gpu.held_at_loss = (*self._gpu.held_at_loss, found.native)
        return found

    def enter(self) -> None:
        self.driver.set_context(self.context)

    def outside(self) -> object:
        return self.driver.context()

    def visit(self) -> object:
        return self._visit()

    def visitor(self) -> Callable[[], object]:
        return self.driver.visitor(self.context)

    @cached_property
    def _synchronize(self) -> PreparedCall:
        return prepared(partial(self.driver.stream_synchronize, self.stream), waits=True)

    @cached_property
    def _query(self) -> PreparedCall:
        return prepared(partial(self.driver.query_assembled, c_void_p(self.stream)))

    @cached_property
    def _visit(self) -> Callable[[], object]:
        return self.visitor()

    def leave(self, outside: object) -> None:
        # Without a context, a thread would get the first GPU's at its first call of CUDA's runtime anyway; if it
        # keeps this one, it need not be set for each launch.
        if outside or self.number:
            self.driver.set_context(outside)

    def rest(self) -> None:
        self._synchronize()  # of a lost GPU nothing is under way

    def wait_for_all(self) -> bool:
        # Copies requested from peers wait for a marker. Looked at before, since another thread's read may start them meanwhile,
        # behind what is waited for here.
        if self._fetches:
            return False
        # If it is refused, a marker tells what has failed, or that it has to be asked in the GPU's own context.
        result = self._synchronize()
        if result or self._fetches or self._lost or self._gpu.lost:
            return False
        return not any(self._let_go_behind_markers)  # and so does memory that is let go

    # memory -------------------------------------------------------------------------------------

    def allocate(self, nbytes: int) -> Allocation:
        self._gpu.check_live()
        return self._counted(self._malloc(max(nbytes, 1), f"{nbytes} bytes"), nbytes)

    def allocate_again(self, nbytes: int) -> Allocation | None:
        memory = None if self._gpu.lost is not None else self._pool.again(nbytes)
        return None if memory is None else self._counted(memory, nbytes)

    def _counted(self, memory: Block, nbytes: int) -> CudaAllocation:
        counters = self.counters
        counters.allocations += 1
        counters.allocated_nbytes = taken = counters.allocated_nbytes + nbytes
        if counters.peak_nbytes < taken:
            counters.peak_nbytes = taken
        return CudaAllocation(memory, nbytes)

    def free(self, allocation: Allocation) -> None:
        # Back to the pool, which gives it only to later work of this stream: in the stream's order, of which the
        # copies requested from peers must be part by then.
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
            self._sparse.free(allocation.native)
        self.counters.allocated_nbytes -= allocation.counted_nbytes

    def allocate_sparse(self, nbytes: int) -> Allocation:
        """Memory whose pages the driver moves between GPU and host."""
        self._gpu.check_live()
        return CudaAllocation(self._sparse.allocate(nbytes), nbytes, sparse=True)

    @property
    def spare_nbytes(self) -> int:
        return self._pool.taken_nbytes - self.counters.allocated_nbytes

    def limit(self, nbytes: int) -> None:
        super().limit(nbytes)
        self._pool.most = nbytes + _POOLED_NBYTES

    def trim(self) -> None:
        self.driver.set_context(self.context)  # finalisers of the program's may have run meanwhile
        self._pool.trim()

    def _take(self, nbytes: int, *, managed: bool = False) -> int:
        """The address of new memory from the driver."""
        result, address = self.driver.take_memory(nbytes, managed=managed)
        self._gpu.check(result, f"{nbytes} bytes of GPU {self.number}")
        return address

    def _give(self, address: int) -> None:
        """Memory back to the driver. A lost GPU refuses it; its work has reported that."""
        if self._gpu.lost is not None:
            return
        self._textures.forget(address)
        result = self.driver.give_memory(address)
        if result:
            logger.debug("the driver did not free memory: %s", self._gpu.error(result, "free"))

    def part(self, whole: Allocation, ahead: int, nbytes: int) -> Allocation:
        found = CudaAllocation(whole.native, nbytes)
        found.address += ahead
        found.whole, found.ahead = whole, ahead
        return found

    def write(self, target: Allocation, source: Bytes, box: Box) -> None:
        nbytes = box.nbytes
        if nbytes:
            self._begin()
            self._host.write(address_of(target), source, box, nbytes)
            self.counters.from_host += nbytes

    def write_again(self, target: Allocation, start: int, nbytes: int) -> Callable[[Bytes], object]:
        if nbytes > AT_ONCE_NBYTES:
            return super().write_again(target, start, nbytes)
        counters, at = self.counters, c_uint64(address_of(target) + start)
        copy = partial(self.driver.copy_assembled, at, c_uint64(), c_size_t(nbytes), c_void_p(self.stream))
        call, (read_from,) = changing(copy, 1)

        homes = self._staging.homes

        def write(source: Bytes) -> None:
            address = host_address(source)
            read_from(address)
            self._start(call, "upload")  # the driver takes so few bytes of plain memory at once
            counters.from_host += nbytes
            if homes.starts and homes.touch(address, nbytes):
                self._gpu.check(self._synchronize(), "upload")

        return write

    def sends_again(self, target: Allocation, start: int, nbytes: int) -> Callable[[Bytes], object]:
        counters, at = self.counters, c_uint64(address_of(target) + start)
        copy = partial(self.driver.copy_assembled, at, c_uint64(), c_size_t(nbytes), c_void_p(self.stream))
        call, (read_from,) = changing(copy, 1)

        def send(source: Bytes) -> None:
            read_from(host_address(source))
            self._start(call, "upload")
            counters.from_host += nbytes

        return send

    def read(self, source: Allocation, target: Bytes, box: Box) -> bool:
        nbytes = box.nbytes
        if not nbytes:
            return False
        self._begin()
        done = self._host.read(address_of(source), target, box, nbytes)
        self.counters.to_host += nbytes
        return done and self._lost is None

    def pin(self, memory: Bytes) -> object | None:
        return self._staging.homes.pin(memory)

    def begin_read(self, source: Allocation, start: int, nbytes: int) -> Deliver:
        pinned = self._land(source, start, nbytes)
        if self._lost is None:  # else only a marker tells how what came before went
            self._landing.record(pinned)
        return Lent(pinned, nbytes)

    def takes_read(self, nbytes: int) -> bool:
        return self._landing.takes(nbytes)

    def read_later(self, source: Allocation, start: int, nbytes: int) -> Callable[[], Deliver | None]:
        landing, counters, free = self._landing, self.counters, self._landing.free_for(nbytes)
        at, size = c_uint64(address_of(source) + start), c_size_t(nbytes)
        given = c_void_p(), at, size, c_void_p(self.stream)
        call, (set_target,) = changing(partial(self.driver.read_assembled, *given), 0)

        def begin() -> Deliver | None:
            if free:
                pinned = free.pop()
            elif landing.takes(nbytes):
                pinned = self._in_own_context(partial(landing.take, nbytes))
            else:
                return None
            try:
                set_target(pinned.address)
                self._start(call, "read")
            except BaseException:
                free.append(pinned)
                raise
            counters.to_host += nbytes
            if self._lost is None:  # as in `begin_read`
                record = pinned.record
                if record is None:
                    self._in_own_context(partial(landing.record, pinned))
                else:  # in the context of another GPU it may be refused
                    pinned.is_recorded = not (record() and self._in_own_context(record))
            return Lent(pinned, nbytes)

        return begin

    def wait_for_read(self, delivers: Deliver) -> bool:
        event = delivers.event if type(delivers) is Lent else 0
        if not event or self._gpu.lost is not None:
            return False
        for _ in range(_LOOKS):
            result = self.driver.event_query(event)
            if result != ERROR_NOT_READY:
                return not result
        return not self.driver.event_synchronize(event)

    def read_again(self, source: Allocation, start: int, nbytes: int) -> Reread:
        assert type(source) is CudaAllocation
        if nbytes > LANDING_NBYTES:
            return self._long_read_again(source, start, nbytes)
        landing, counters, query, address = self._landing, self.counters, self._query, source.address + start
        pinned: Pinned | None = None
        arrived: Bytes
        copy: DriverCall | PreparedCall
        is_new = False  #: whether `copy` has been made once at most
        looks, ways = 0, ReadWays()
        kept: object  #: what `copy` points to

        def begin() -> object:
            nonlocal pinned, arrived, copy, is_new, kept
            # It stays among what is free: nobody else takes any of it without the turn, or before `end`.
            free = landing.free or self._in_own_context(landing.filled)
            if free[-1] is not pinned:
                pinned = free[-1]
                arrived = pinned.array[:nbytes]
                (copy, kept), is_new = self._reading(address, pinned, nbytes, ways), True
            elif is_new:
                copy, is_new = prepared(copy), False
            self._start(copy, "read")
            counters.to_host += nbytes
            # While the bytes are on their way
            if ways.took(looks) and ways.decide(may_change=self._brings(address, nbytes)):
                (copy, kept), is_new = self._reading(address, pinned, nbytes, ways), True
            return None

        def end(target: Bytes) -> Deliver | None:
            nonlocal looks
            result, looks = query(), 1
            while result == ERROR_NOT_READY and looks < _LOOKS:
                result = query()
                looks += 1
            if result or self._lost is not None or any(self._let_go_behind_markers):
                assert pinned is not None, "it was begun"
                landing.free.remove(pinned)
                return Lent(pinned, nbytes)
            target[:] = arrived
            return None

        return begin, end

    def _reading(
        self, address: int, pinned: Pinned, nbytes: int, ways: ReadWays
    ) -> tuple[DriverCall, object]:
        """A call that reads so many bytes into pinned memory, the way that `ways` says, and what has to be kept as long as it is."""
        if ways.by_kernel:
            boxes = (placed(address, pinned.address, Box.contiguous(0, 0, nbytes)),)
            copying = self._in_own_context(partial(self._own.copying, boxes))
            return copying.call, copying
        size, stream = c_size_t(nbytes), c_void_p(self.stream)
        return partial(
            self.driver.read_assembled, c_void_p(pinned.address), c_uint64(address), size, stream
        ), None

    def _brings(self, address: int, nbytes: int) -> bool:
        """Whether a kernel can bring so many bytes to pinned memory. Where it has to be compiled first, it soon can."""
        name = copying_kernel(address | nbytes)
        if nbytes <= MOST_NBYTES and name not in self._compiled:
            self._compiled[name] = False
            compilers.begin(partial(self._compile_own, name))
        return self._compiled.get(name, False)

    @cached_property
    def _compiled(self) -> dict[str, bool]:
        """vdev's own kernels that `_brings` has asked for, and whether they are compiled."""
        return {}

    def _compile_own(self, name: str) -> None:
        self._own_cubin(name)
        self._compiled[name] = True

    def _long_read_again(self, source: Allocation, start: int, nbytes: int) -> Reread:
        """The same of more bytes, which go to the program's memory at once: behind what is under way where that is pinned."""
        box, homes, counters = Box.contiguous(start, 0, nbytes), self._staging.homes, self.counters
        given = c_uint64(address_of(source) + start), c_size_t(nbytes), c_void_p(self.stream)
        call, (set_target,) = changing(partial(self.driver.read_assembled, c_void_p(), *given), 0)

        def end(target: Bytes) -> Deliver | None:
            address = host_address(target) if homes.starts else 0
            if address and homes.cover(address, nbytes):
                set_target(address)
                self._start(call, "read")
                counters.to_host += nbytes
                return _nothing_to_deliver
            if self.read(source, target, box) and not any(self._let_go_behind_markers):
                return None
            return _nothing_to_deliver

        return self.visit, end

    def _land(self, source: Allocation, start: int, nbytes: int) -> Pinned:
        """Hand over a read of consecutive bytes into pinned memory."""
        assert type(source) is CudaAllocation
        landing = self._landing
        pinned = landing.take(nbytes)
        try:
            if self._fetches or not self._first or self._gpu.lost is not None:
                self._begin()
            else:
                self._count += 1
            result = self.driver.read_pinned(pinned.address, source.address + start, nbytes, self.stream)
            if result:
                self._count -= 1  # it was refused
                raise self._gpu.error(result, "read")
        except BaseException:
            pinned.free.append(pinned)
            raise
        self.counters.to_host += nbytes
        return pinned

    def copy(self, source: Allocation, target: Allocation, box: Box) -> None:
        if box.nbytes:
            self._begin()
            self._copy_box(address_of(source), address_of(target), box)
            self.counters.local += box.nbytes

    def copying(
        self, shape: tuple[int, int, int], source_pitches: tuple[int, int], target_pitches: tuple[int, int]
    ) -> Copying | None:
        box = Box(shape, 0, source_pitches, 0, target_pitches)
        if is_one_row(box):
            return self._copying_bytes(box.nbytes)
        return None if _has_long_rows(box) else self._copying_rows(box)

    def _copying_bytes(self, nbytes: int) -> Copying:
        """`copying` of so many consecutive bytes."""
        given = c_uint64(), c_uint64(), c_size_t(nbytes), c_void_p(self.stream)
        call, (to_address, from_address) = changing(partial(self.driver.copy_assembled, *given), 0, 1)
        start_call, counters = self._start, self.counters

        def copy(source: Allocation, start: int, target: Allocation, to: int, /) -> int:
            from_address(source.address + start)
            to_address(target.address + to)
            start_call(call, "copy")
            counters.local += nbytes
            return self._count

        return copy

    def _copying_rows(self, box: Box) -> Copying:
        """`copying` of rows, by one of vdev's own kernels."""
        rows, nbytes, start_call, counters = self._own.rows(box), box.nbytes, self._start, self.counters
        known, made = rows.known, rows.made

        def copy(source: Allocation, start: int, target: Allocation, to: int, /) -> int:
            first, begin = source.address + start, target.address + to
            call = known(first, begin) or self._in_own_context(partial(made, first, begin))
            start_call(call, "copy")
            counters.local += nbytes
            return self._count

        return copy

    def copy_from_peer(self, peer: Backend, source: Allocation, target: Allocation, box: Box) -> None:
        self.copies_from_peer(peer, source, target, (box,))

    def copies_from_peer(
        self, peer: Backend, source: Allocation, target: Allocation, boxes: Sequence[Box]
    ) -> None:
        assert isinstance(peer, CudaBackend)
        if peer._gpu.lost is not None:
            peer._gpu.check_live()  # its memory goes with it
        here, there, reaches, counters = (
            address_of(source),
            address_of(target),
            self.reaches(peer),
            self.counters,
        )
        for box in boxes:
            nbytes = box.nbytes
            if reaches and 0 < nbytes < FETCHED_NBYTES:
                self._want(placed(here, there, box))
            elif nbytes:
                self._begin()
                if reaches:
                    self._copy_box(here, there, box)
                else:
                    self._copy_by_driver(peer.number, here, there, box)
            counters.from_peer += nbytes

    def copy_again(
        self, peer: Backend, source: Allocation, target: Allocation, boxes: Sequence[Box]
    ) -> Callable[[], object] | None:
        assert isinstance(peer, CudaBackend)
        nbytes = sum(box.nbytes for box in boxes)
        if not self.reaches(peer) or nbytes >= FETCHED_NBYTES:
            return None
        wanted = [placed(address_of(source), address_of(target), box) for box in boxes if box.nbytes]
        gpu, want, counters = peer._gpu, self._want, self.counters

        def copy() -> None:
            if gpu.lost is not None:
                gpu.check_live()
            for box in wanted:
                want(box)
            counters.from_peer += nbytes

        return copy

    def _want(self, wanted: PlacedBox) -> None:
        """Request a copy from a peer. Copies from several peers, or of several boxes, are made by one launch: it takes some 10 us
        however little it copies, and several one after the other take that each.
        """
        fetches = self._fetches
        for other in fetches:
            if wanted.may_overlap(other):
                self._fetch()  # the later one must be the last
                fetches = self._fetches
                break
        if self._first and self._gpu.lost is None:
            self._count += 1
        else:
            self._count_one()
        fetches.append(wanted)
        if len(fetches) == cuda_kernels.MOST_BOXES:
            self._fetch()

    def _fetch(self) -> None:
        """Start the copies requested from peers. If that fails, the next marker tells: the calls have returned."""
        boxes, self._fetches = self._fetches, []
        try:
            self._own.copy_boxes(boxes)
        except BackendError as error:
            self._lost = error

    def reaches(self, peer: CudaCompiling) -> bool:
        known = self._reached.get(peer.number)
        if known is None:
            runtime = self._cupy.cuda.runtime
            known = bool(runtime.deviceCanAccessPeer(self.number, peer.number))
            if known:
                try:
                    runtime.deviceEnablePeerAccess(peer.number)
                except runtime.CUDARuntimeError as error:
                    known = error.status == ALREADY_ENABLED
            self._reached[peer.number] = known
        return known

    def _copy_by_driver(self, peer: int, source: int, target: int, box: Box) -> None:
        """Between GPUs that cannot address each other: the driver goes through host memory."""
        runtime = self._cupy.cuda.runtime
        for start, to, nbytes in box.rows():
            self._gpu.guarded(
                lambda to=to, start=start, nbytes=nbytes: runtime.memcpyPeerAsync(  # type: ignore[misc]
                    target + to, self.number, source + start, peer, nbytes, self.stream
                )
            )

    def _copy_box(self, source: int, target: int, box: Box) -> None:
        """Between two addresses that this GPU reaches, with the copy engine if rows are long."""
        if is_one_row(box):
            start, to = source + box.source_start, target + box.target_start
            self._gpu.check(self.driver.copy(to, start, box.nbytes, self.stream), "copy")
        elif _has_long_rows(box):
            for start, to, length in box.rows():
                self._gpu.check(self.driver.copy(target + to, source + start, length, self.stream), "copy")
        else:
            self._own.copy_rows(source, target, box)

    def fill(self, target: Allocation, start: int, nbytes: int, pattern: bytes) -> None:
        if nbytes == 0:
            return
        self._begin()
        self._gpu.check(self._filling(address_of(target) + start, nbytes, pattern)() or 0, "fill")
        self.counters.filled += nbytes

    def filling(self, nbytes: int, pattern: bytes) -> Filling:
        pattern = shortest(pattern)
        size, start_call, counters = len(pattern), self._start, self.counters
        plain = self._plain_fill(nbytes, pattern)
        #: the call for addresses that the pattern's length divides; and what sets the address
        call, set_address = (None, None) if plain is None else (plain[0], plain[1][0])

        def fill(target: Allocation, start: int, /) -> int:
            address = target.address + start
            if call is None or set_address is None or address % size:
                made = self._in_own_context(partial(self._own.filling, address, nbytes, pattern))
                start_call(made.call, "fill")
            else:
                set_address(address)
                start_call(call, "fill")
            counters.filled += nbytes
            return self._count

        return fill

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
        self._own.merge(addresses, region, op, dtype, grain)
        self.counters.merged += region.nbytes

    def _malloc(self, nbytes: int, what: str) -> Block:
        try:
            return self._pool.malloc(nbytes)
        except BackendError as error:
            if error.status == MEM_OBJECT_ALLOCATION_FAILURE:
                text = f"{what} do not fit into the memory of GPU {self.number}"
                raise BackendError(MEM_OBJECT_ALLOCATION_FAILURE, text) from error
            raise

    def _load_own(self) -> Callable[[str], int]:
        """vdev's own kernels: what gives a function by its name. A program is compiled, and a driver may load each of its kernels, when the
        first is asked for.
        """
        driver = self._cupy.cuda.driver

        @cache
        def module_of(name: str) -> int:
            return int(driver.moduleLoadData(self._own_cubin(name)))

        def function_of(name: str) -> int:
            with asking(driver, f"vdev's kernel {name}"):
                return int(driver.moduleGetFunction(module_of(name), name))

        return function_of

    def _own_cubin(self, name: str) -> bytes:
        """One of vdev's own kernels, compiled. On any thread."""
        options = [f"--gpu-architecture={self._architecture}", "--std=c++17"]
        with _compiling[name]:
            return self._cubins.get(cuda_kernels.SOURCE_OF[name], options)[0]

    def preparations(self) -> Sequence[Callable[[], object]]:
        return [partial(self._own_cubin, name) for name in cuda_kernels.USUAL]

    def merge_preparations(self, merging: Merging) -> Sequence[Callable[[], object]]:
        name = merging_kernel(*merging)
        return () if name is None else (partial(self._own_cubin, name),)

    # order --------------------------------------------------------------------------------------

    def order_after(self, marker: Marker) -> None:
        if isinstance(marker, CudaMarker):
            if marker.is_known_to_be_done:  # the driver itself asks the others, which are seldom done yet
                return
            result = self.driver.stream_wait(self.stream, marker.event, 0)
            if not result:
                return
            if not marker.done():  # otherwise the peer has failed, and reports that itself
                logger.info("waiting here for a peer: %s", self._gpu.error(result, "wait for a peer"))
        if marker.done():
            return
        # A wait that was left out would be missing later, too: commands behind this one do not wait for what it waits for.
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
        self._count, self._lapse = 0, None  # a command that was refused may have left the latter
        failure, self._lost = self._lost, None
        if self._gpu.lost is not None:
            return CudaMarker(self._gpu, first, 0, self._gpu.lost)
        try:
            event = self._gpu.recorded(self.stream, "work failed on the device")
            if failure is None and time.perf_counter_ns() > self._gpu.clock.due:
                self._gpu.guarded(self._gpu.clock.rebase)  # waits: what has just failed is learnt here first
        except BackendError as error:
            event, failure = 0, error
        marker = CudaMarker(self._gpu, first, event, failure)
        if any(self._let_go_behind_markers):
            self._modules.unload(marker)
            self._sparse.let_go(marker)
        return marker

    def begin_timed(self) -> object:
        start, end = self._moment(rebases=True), self._moment()
        self._lapse = None if start is None or end is None else Lapse(start, end)
        return self._lapse

    def timer(self, begun: object, count: int) -> Callable[[], tuple[int, int]]:
        lapse = begun if type(begun) is Lapse else None
        is_ended = lapse is not None and lapse is self._lapse and lapse.ended_at == self._count
        self._lapse = None
        end = lapse.end if lapse is not None and is_ended else self._moment()
        if end is None or lapse is None:  # a marker tells of the failure
            return lambda: (0, 0)
        start = lapse.start if count else end
        return lambda: start.until(end)

    def _moment(self, *, rebases: bool = False) -> Moment | None:
        """Behind all that was handed over; None where the GPU takes no more. `rebases`: the clock may be compared first."""
        outside = self.visit()
        try:
            if self._fetches:
                self._fetch()
            if rebases and time.perf_counter_ns() > self._gpu.clock.due:
                self._gpu.guarded(self._gpu.clock.rebase)
            return None if self._gpu.lost is not None else Moment(self._gpu, self._gpu.recorded(self.stream))
        except BackendError:
            return None
        finally:
            if outside is not None:
                self.leave(outside)

    def close(self) -> None:
        try:
            self._native_stream.synchronize()
            self._copying.synchronize()
            if self._aside is not None:
                self._aside.native.synchronize()
        except self._cupy.cuda.runtime.CUDARuntimeError:
            # Every failure has been reported through a marker, or nobody is left to hear of it.
            self._first = 0
        self._modules.loaded.clear()

    def give_back(self) -> None:
        if self._gpu.lost is not None:
            return  # the driver would refuse all of it
        outside = self.visit()
        try:
            self._pool.give_back()
            self._sparse.give_back()
            self._landing.give_back()
            give_back(self._staging)
        except self._cupy.cuda.runtime.CUDARuntimeError as error:
            logger.info("the driver takes back by itself what is left at the end: %s", error)
        finally:
            if outside is not None:
                self.leave(outside)

    # small things -------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Count an operation that is about to be started, behind all before it."""
        if self._fetches:
            self._fetch()
        if self._lapse is not None:
            self._lapse.begin(self.stream)
        if not self._first or self._gpu.lost is not None:
            self._count_one()
        else:
            self._count += 1

    def _count_one(self) -> None:
        """Count an operation; the first after a marker gets an event, for times."""
        if self._gpu.lost is not None:
            self._gpu.check_live()
        self._count += 1
        if not self._first:
            self._first = self._gpu.recorded(self.stream)


def _has_long_rows(box: Box) -> bool:
    """Whether its rows are so long, and so few, that the copy engine takes them one by one."""
    slices, rows, nbytes = box.shape
    return nbytes >= _LONG_ROW and slices * rows <= 64


def _nothing_to_deliver(target: Bytes, at: int) -> None:
    """The bytes are there."""


def opener(number: int, share: int = 1) -> Callable[[], Backend]:
    """What an executor calls on the worker's thread to open a worker on GPU `number`, one of `share` there."""
    return lambda: CudaBackend(number, share)
