"""The back-end seam: what a worker can be asked to do.

A back end decides how bytes move and kernels start on one worker. It never decides what moves where, never
sees a virtual buffer, and never orders anything except by the order of the calls. Work is asynchronous and in
order: a call hands work over and returns; `record` gives a `Marker` for everything handed over so far. One
instance per worker. Every method is called from that worker's thread only, except `Marker.wait` and
`Marker.done`, which any thread may call.

`vdev.backends.reference` is this seam in plain NumPy, and its executable definition.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from vdev.errors import MEM_OBJECT_ALLOCATION_FAILURE, BackendError
from vdev.translators.ranges.grain import Grain
from vdev.translators.ranges.ndrange import Chunk, NDRange, whole_chunk
from vdev.translators.ranges.region import Region
from vdev.translators.values import dataclass

if TYPE_CHECKING:
    from vdev.translators.frontend.source import ParsedProgram

Bytes = npt.NDArray[np.uint8]
#: how versions of the same bytes are merged (`Backend.merge`): operation, type, grain
Merging: TypeAlias = tuple[str, "str | None", Grain]


@dataclass(frozen=True, eq=False)
class WorkerInfo:
    """What a worker is, in OpenCL's terms; all sizes in bytes."""

    backend: str  #: 'opencl', 'cuda' or 'reference'
    name: str  #: the device's own name
    device_key: tuple[object, ...]  #: equal for workers that share the same hardware
    compute_units: int
    memory_nbytes: int
    max_alloc_nbytes: int
    max_work_group_size: int
    max_work_item_sizes: tuple[int, ...]
    local_memory_nbytes: int
    base_align_nbytes: int  #: alignment of a buffer, and of a sub-buffer's origin
    address_bits: int = 64
    is_cpu: bool = True  #: False: it has its own memory, which the host reaches over a link
    platform: str = ""
    vendor: str = ""
    version: str = ""  #: CL_DEVICE_VERSION
    c_version: str = ""  #: CL_DEVICE_OPENCL_C_VERSION
    driver: str = ""
    extensions: tuple[str, ...] = ()
    #: what a byte from another worker of this back end costs, relative to a byte from the host
    peer_cost: float = 0.5
    merges: bool = False  #: whether it has `Backend.merge`
    #: bytes that allocations may add up to; 0: whatever memory there is
    room_nbytes: int = 0
    #: bytes that allocations may not exceed because of VDEV_MEMORY; 0: no such limit
    limit_nbytes: int = 0
    #: whether sub-buffers may begin at any byte nevertheless, as the native driver of such a device has it
    takes_any_origin: bool = False
    #: local memory that a work-group may have, if that is more than programs are told; 0: local_memory_nbytes
    most_local_nbytes: int = 0
    timer_offset_ns: int = 0  #: to be added to the device's clock to get the host's time.perf_counter_ns
    #: device infos, by the number of the CL_DEVICE_ constant
    native: Mapping[int, object] = field(default_factory=dict)


class Allocation:
    """Memory of one worker: `nbytes` bytes, named by `native` for the back end that made it.

    `counted_nbytes`: what it takes of the worker's memory; 0 if it is sparse. `whole`: the allocation that it is a
    part of, beginning at byte `ahead`, and freed with it. `address`: where it begins, for back ends whose calls are given addresses.
    """

    __slots__ = ("address", "ahead", "counted_nbytes", "native", "nbytes", "whole")
    address: int

    def __init__(self, native: object, nbytes: int, *, sparse: bool = False) -> None:
        self.native = native
        self.nbytes = nbytes
        self.counted_nbytes = 0 if sparse else nbytes
        self.whole: Allocation | None = None
        self.ahead = 0


@dataclass(frozen=True, slots=True)
class Box:
    """Bytes that move: `shape` (slices, rows, bytes in a row) from `source_start` to `target_start`; pitches
    are (slice, row).
    """

    shape: tuple[int, int, int]
    source_start: int
    source_pitches: tuple[int, int]
    target_start: int
    target_pitches: tuple[int, int]

    @staticmethod
    def contiguous(source_start: int, target_start: int, nbytes: int) -> Box:
        return Box((1, 1, nbytes), source_start, (nbytes, nbytes), target_start, (nbytes, nbytes))

    @property
    def is_contiguous(self) -> bool:
        return self.shape[0] == 1 and self.shape[1] == 1

    @property
    def nbytes(self) -> int:
        return self.shape[0] * self.shape[1] * self.shape[2]

    def moved(self, source: int, target: int) -> Box:
        """The same box with its two starts shifted by these numbers of bytes."""
        return Box(
            self.shape,
            self.source_start + source,
            self.source_pitches,
            self.target_start + target,
            self.target_pitches,
        )

    def turned(self) -> Box:
        """The box that brings the bytes back."""
        return Box(self.shape, self.target_start, self.target_pitches, self.source_start, self.source_pitches)

    def rows(self) -> list[tuple[int, int, int]]:
        """Every row as (source offset, target offset, bytes)."""
        slices, rows, nbytes = self.shape
        return [
            (
                self.source_start + i * self.source_pitches[0] + j * self.source_pitches[1],
                self.target_start + i * self.target_pitches[0] + j * self.target_pitches[1],
                nbytes,
            )
            for i in range(slices)
            for j in range(rows)
        ]


def copy_box(source: Bytes, target: Bytes, box: Box) -> None:
    """Move a box between two host arrays (1-D uint8) at once."""
    shape = box.shape
    if box.is_contiguous:
        nbytes = shape[2]
        target[box.target_start : box.target_start + nbytes] = source[
            box.source_start : box.source_start + nbytes
        ]
        return
    strided = np.ndarray  # which takes much less time than `as_strided`
    into = strided(shape, np.uint8, target, box.target_start, (*box.target_pitches, 1))
    into[...] = strided(shape, np.uint8, source, box.source_start, (*box.source_pitches, 1))


@dataclass(frozen=True, slots=True)
class LocalBytes:
    """A kernel argument: `__local` memory of that many bytes."""

    nbytes: int


@dataclass(frozen=True, slots=True)
class HostPlace:
    """An address of host memory as a kernel argument, for workers that share the host's address space."""

    address: int


#: A native kernel argument: memory, an offset into memory (without hidden shifts), a value, local memory, an address
#: of the host, or a null pointer.
KernelArgument = Allocation | tuple[Allocation, int] | bytes | LocalBytes | HostPlace | None


class Repeated(Protocol):
    """Repeats a launch (`Backend.again`)."""

    def __call__(
        self, changed: Sequence[tuple[int, KernelArgument]] = (), shape: LaunchShape | None = None, /
    ) -> int:
        """Start it once more, and whatever is repeated from now on, with other values for these arguments that are values, and other
        memory for these that are memory from its beginning; and with another `shape`, one for which `Backend.repeats_over` says so.
        Returns what is pending then (`Backend.pending`).
        """


#: Repeats a launch (`Backend.again_whole`), and is told all arguments, and the shape, None for the last one's; as `Repeated` otherwise.
RepeatedWhole: TypeAlias = Callable[[Sequence[KernelArgument], "LaunchShape | None"], int]
#: copies a box (`Backend.copying`) from one allocation, beginning at that byte, to another, at that one; what is pending then
Copying: TypeAlias = Callable[["Allocation", int, "Allocation", int], int]
#: fills bytes of an allocation (`Backend.filling`), beginning at that one; what is pending then
Filling: TypeAlias = Callable[["Allocation", int], int]
#: copies what a read has brought into an array, from a byte on
Deliver: TypeAlias = Callable[["Bytes", int], None]
#: makes a read of a few consecutive bytes again (`Backend.read_again`). The first hands it over, or raises BackendError: then nothing has
#: happened. What it returns is for `Backend.leave`, if it is not None, after the second. That waits some microseconds for the device: None
#: if its argument, as long as the read, has the bytes, and `wait_for_all` would return True at once; otherwise as `begin_read`.
Reread: TypeAlias = tuple[Callable[[], object], Callable[["Bytes"], Deliver | None]]


@dataclass(frozen=True, eq=False)
class BackendProgram:
    """Source to be built by a worker's compiler: OpenCL C, or an intermediate language if it is bytes.

    `parsed` is the user's program before any translation, for back ends that translate it themselves, or a function
    that makes it at the first request; None if clang's parser does not take it. `key` names everything that it comes
    from: results may be kept under it, if there is one. Equality is identity: a worker builds one object once.
    """

    source: str | bytes
    options: tuple[str, ...] = ()
    parsed: ParsedProgram | None = None
    parse: Callable[[], ParsedProgram | None] | None = None
    key: str = ""
    #: by kernel: (pixels, descriptor), the argument numbers of each image that an engine gets as an image of its own.
    #: These follow all arguments but the hidden one, each with a `uint` behind it that says whether it may be used.
    native_images: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    renumbers: bool = False  #: its kernels also run chunks with cycles

    def parsed_program(self) -> ParsedProgram | None:
        """The program parsed, if it can be. Raises what parsing raises."""
        return self.parse() if self.parsed is None and self.parse is not None else self.parsed


@dataclass(frozen=True, slots=True)
class NativeArg:
    """What the worker's compiler says of an argument (clGetKernelArgInfo), in OpenCL's numbers; empty and 0 if it
    keeps no such record.
    """

    name: str
    type_name: str
    address_qualifier: int
    access_qualifier: int
    type_qualifiers: int


@dataclass(frozen=True)
class KernelResources:
    """What a worker's compiler says of a kernel (CL_KERNEL_… queries); bytes and work-items."""

    work_group_size: int
    compile_work_group_size: tuple[int, int, int]
    local_memory_nbytes: int
    private_memory_nbytes: int
    preferred_multiple: int
    args: tuple[NativeArg, ...] = ()


@dataclass(frozen=True, eq=False)
class BuildResult:
    """A program built for one worker's device."""

    log: str
    kernels: Mapping[str, KernelResources]
    binary: bytes


@dataclass(frozen=True, slots=True, eq=False)
class LaunchShape:
    """One chunk of an NDRange as a native launch.

    `bases` holds (argument index, shift): the kernel's pointer is the allocation's base minus `shift` bytes (PPoPP'11
    section 3.5). `hidden` is the last kernel argument, which tells the sub-grid kernel all of this; None for a kernel
    taken as it is.
    """

    made_often = True  # many a launch has one of its own (`vdev.translators.values.MADE_OFTEN`)
    ndrange: NDRange
    part: Chunk | None  #: the chunk; None: all of the NDRange
    global_size: tuple[int, ...]
    local_size: tuple[int, ...]
    #: global ids of the first work-item: the launch's offset, if the device supports offsets
    first: tuple[int, ...]
    bases: tuple[tuple[int, int], ...]
    hidden: bytes | None

    @property
    def chunk(self) -> Chunk:
        return whole_chunk(self.ndrange) if self.part is None else self.part

    @property
    def counts(self) -> tuple[int, ...]:
        """Work-groups in each dimension."""
        return self.ndrange.num_groups if self.part is None else self.part.counts


@dataclass(frozen=True, slots=True, eq=False)
class DriverLaunch:
    """A launch as the driver takes it, for C code that makes it again without Python (`vdev/icd/native/ready.c`).

    `kernel` has arguments of its own, which whoever makes the launch may set. `memory`: by argument, the driver's handle of
    its memory, 0 for an argument that is none. Everything is valid as long as the launch's arguments are.

    This is what OpenCL's drivers take. One of CUDA's would be given a stream, a CUfunction, a grid and its blocks, and the packed
    arguments with the place of each; its caller would make the context current, and there would be no events: a stream tells
    of its failures when somebody waits for it.
    """

    queue: int
    kernel: int
    memory: tuple[int, ...]
    first: tuple[int, ...]
    global_size: tuple[int, ...]
    local_size: tuple[int, ...] | None
    hidden: bytes | None  #: the value of an argument behind the program's, if the kernel has one
    offset_ns: int  #: from the clock of its events' times to time.perf_counter_ns


@dataclass(frozen=True, slots=True, eq=False)
class DriverMemory:
    """Memory as the driver takes it, and its queue, for C code that moves bytes without Python (`vdev/icd/native/memory.c`)."""

    queue: int
    memory: int  #: the driver's handle
    offset_ns: int  #: as of `DriverLaunch`


@dataclass(frozen=True, slots=True, eq=False)
class FoldPart:
    """What a peer holds of a sum: the bytes `region` of a buffer, byte b at index b - `start` of `source`."""

    peer: Backend
    source: Allocation
    start: int
    region: Region


#: (queued, submit, start, end) in nanoseconds of the host's time.perf_counter_ns
Times = tuple[int, int, int, int]


class Marker(ABC):
    """Everything handed to a worker up to a moment, since the marker before."""

    __slots__ = ()

    @abstractmethod
    def wait(self) -> None:
        """Return when all of it is complete; BackendError if any part failed. Any thread may call it, any number of
        times.
        """

    @abstractmethod
    def done(self) -> bool:
        """Whether `wait` would return immediately."""

    @abstractmethod
    def times(self) -> Times | None:
        """When the work since the marker before began and ended; None if there was none. Only after `wait`."""

    def operations(self) -> Sequence[tuple[int, int]]:
        """(start, end) of each operation since the marker before, in nanoseconds as in `times`.

        Empty if they were not wanted (`Backend.timed_from_ns`) or are not known. Only after `wait`.
        """
        return ()


@dataclass(slots=True)
class Counters:
    """Bytes moved and launches made by one worker, counted where they happen."""

    from_host: int = 0
    to_host: int = 0
    from_peer: int = 0
    local: int = 0
    filled: int = 0
    merged: int = 0
    launches: int = 0
    allocations: int = 0
    allocated_nbytes: int = 0  #: held now
    peak_nbytes: int = 0  #: the most ever held
    #: names of kernels that have run in a version that relies on their arguments being apart from one another
    apart: set[str] = field(default_factory=set)


class Backend(ABC):
    """One worker's memory and compute; see the module for threads and order."""

    info: WorkerInfo
    counters: Counters
    #: whether its markers can give the times of each operation
    times_operations: ClassVar[bool] = False
    #: whether `timer` tells when each command began and ended, so that those whose times are wanted need no markers of their own
    tells_times: ClassVar[bool] = False
    begins_timed: ClassVar[bool] = False  #: whether that takes a call of `begin_timed` before
    #: None: nobody wants to know; otherwise markers keep the times of each operation if these took this many
    #: nanoseconds on average, since asking costs about a microsecond
    timed_from_ns: int | None = None
    #: whether any thread may call its methods, one at a time and each after `enter`
    any_thread = False
    #: the same if it is the only one. Its transfers of host memory do not wait either: a call waits only for the work
    #: of other back ends
    any_thread_alone = False
    #: back ends of the same company order their work after each other's on the device: what applies to one alone
    #: applies to them together. None: work that comes after another back end's may keep the caller waiting
    company: object | None = None
    #: whether `compile_ahead` does what takes longest of a `build`
    compiles_ahead = False
    #: whether `record` costs only about a microsecond, so that there may be many markers
    cheap_markers = False

    #: whether `enter` and `leave` do anything
    has_visitors = False
    #: whether kernels that are told of their NDRange are told there as well where their pointers point (`LaunchShape.bases`)
    repeats_by_shape = True

    #: the most bytes that `write_now` takes; and whether they may be a box's, or have to be consecutive
    small_write_nbytes = 0
    writes_boxes_now = False

    #: the most consecutive bytes that `begin_read` takes, whoever waits for them
    small_read_nbytes = 0

    #: the most bytes between an idle worker and the host that the thread which asks for them moves itself: waking the worker's
    #: thread would take longer, or a good part as long
    own_thread_nbytes = 64 << 10

    #: whether `pin` does anything
    pins_memory = False

    #: whether `wait_for_all` may be called, on any thread and beside other calls
    can_wait_for_all = False

    def wait_for_all(self) -> bool:
        """Return when everything handed over is done, or has failed: whether all of it since the last marker went
        well, so that no other marker is needed to tell. Only if `can_wait_for_all`.
        """
        raise TypeError("this back end cannot wait for all of its work at once, only for markers")

    def is_at_rest(self) -> bool:
        """Whether the driver's own threads have gone to sleep, so that a child of a fork may use the driver. Any
        thread.
        """
        return True

    def enter(self) -> None:  # noqa: B027
        """Make the calling thread ready to call other methods; the worker's own thread need not do this."""

    def outside(self) -> object:
        """What `enter` will change for the calling thread, in the form that `leave` takes."""
        return None

    def leave(self, outside: object) -> None:  # noqa: B027
        """Give the calling thread back what it had before `enter`: the thread may be the program's."""

    def visit(self) -> object:
        """`enter`, on a thread that uses no other back end meanwhile; what `leave` takes, None if there is nothing to
        give back.
        """
        outside = self.outside()
        self.enter()
        return outside

    def visitor(self) -> Callable[[], object]:
        """`visit`, for a caller that uses it often."""
        return self.visit

    @abstractmethod
    def allocate(self, nbytes: int) -> Allocation:
        """Uninitialised memory; BackendError(MEM_OBJECT_ALLOCATION_FAILURE) if there is none."""

    def allocate_again(self, nbytes: int) -> Allocation | None:
        """The same where memory of that size was given back, and the thread need not have called `enter`; None where that is not so."""
        return None

    def allocate_sparse(self, nbytes: int) -> Allocation:
        """Memory of which only what is touched takes any room, and that not within the worker's own memory (the
        host's if that is full).

        For a launch whose bytes lie far apart. BackendError(MEM_OBJECT_ALLOCATION_FAILURE) if there is none.
        """
        raise BackendError(MEM_OBJECT_ALLOCATION_FAILURE, f"no memory for {nbytes} bytes that lie far apart")

    @abstractmethod
    def free(self, allocation: Allocation) -> None:
        """Give memory back once the work handed over so far no longer needs it. Freeing a part frees the whole."""

    def part(self, whole: Allocation, ahead: int, nbytes: int) -> Allocation:
        """`nbytes` bytes of `whole` from `ahead` on, a multiple of 4096, as an allocation of their own. The rest of
        `whole` stays around them.
        """
        raise TypeError("this back end cannot make allocations that are parts of others")

    @property
    def spare_nbytes(self) -> int:
        """Bytes that the driver has given and that are in no allocation: `trim` gives them back."""
        return 0

    def limit(self, nbytes: int) -> None:
        """Report and use no more than this many bytes; called before the first allocation."""
        info = self.info
        self.info = replace(
            info,
            memory_nbytes=nbytes,
            max_alloc_nbytes=min(info.max_alloc_nbytes, nbytes),
            room_nbytes=min(info.room_nbytes or nbytes, nbytes),
            limit_nbytes=nbytes,
        )

    def trim(self) -> None:  # noqa: B027
        """Give free memory back to the driver. Only while no worker has any work under way."""

    @abstractmethod
    def write(self, target: Allocation, source: Bytes, box: Box) -> None:
        """Host memory to the worker; `source` must not change until the next marker is done."""

    def pin(self, memory: Bytes) -> object | None:
        """Make copies between the worker and this memory of the host faster for as long as what is returned lives, which keeps the
        memory. None where that cannot be done. It may take as long as several copies. Any thread that has called `enter` may call it.
        """
        return None

    def write_now(self, target: Allocation, source: Bytes, box: Box) -> None:
        """`write` of a few bytes, at most `small_write_nbytes`, to memory that nothing under way changes.

        It does not wait, and `source` may change once it returns.
        """
        self.write(target, source, box)

    def write_again(self, target: Allocation, start: int, nbytes: int) -> Callable[[Bytes], object]:
        """What makes such a write of all of an array of `nbytes` bytes again and again, as long as `target` is allocated; each is one
        operation. BackendError if it is refused: then nothing has happened.

        It may be used on any thread that has the worker's turn, and was made ready (`visit`).
        """
        box = Box.contiguous(0, start, nbytes)
        return lambda source: self.write_now(target, source, box)

    def sends_again(self, target: Allocation, start: int, nbytes: int) -> Callable[[Bytes], object]:
        """The same of memory that is pinned (`pin`) and does not change until the next marker is done: nobody waits for its bytes, however
        many they are and whatever the worker is at.
        """
        return self.write_again(target, start, nbytes)

    @abstractmethod
    def read(self, source: Allocation, target: Bytes, box: Box) -> bool:
        """The worker to host memory; `target` holds the bytes when the next marker is done.

        True if it holds them already, and everything handed over before is done as well, without failures.
        """

    def begin_read(self, source: Allocation, start: int, nbytes: int) -> Deliver:
        """Hand over a read of a few consecutive bytes into memory of the back end's own, and keep nobody waiting.

        What is returned copies them into an array, from a byte on. To be called once, on any thread, when the read is done:
        `wait_for_all` or a marker tells.
        """
        raise TypeError("this back end has no memory of its own to read into")

    def takes_read(self, nbytes: int) -> bool:
        """Whether `begin_read` takes so many bytes now for a program that does not wait for them yet; asked once for each read."""
        return 0 < nbytes <= self.small_read_nbytes

    def read_later(self, source: Allocation, start: int, nbytes: int) -> Callable[[], Deliver | None]:
        """What makes such a read again and again, as long as `source` is allocated; each is one operation. BackendError if it is refused,
        None if the back end does not take it now (`takes_read`): then nothing has happened.

        It may be used on any thread and without `enter`, by who has the worker's turn.
        """

        def begin() -> Deliver | None:
            if not self.takes_read(nbytes):
                return None
            outside = self.visit() if self.has_visitors else None
            try:
                return self.begin_read(source, start, nbytes)
            finally:
                if outside is not None:
                    self.leave(outside)

        return begin

    def wait_for_read(self, delivers: Deliver) -> bool:
        """Wait for what `begin_read` has begun, and nothing that was handed over after it; `delivers` is what that returned. False if
        only a marker can tell; True once it is known that it, and all before it but for what earlier markers tell, went well.

        It may be called on any thread, and beside other calls.
        """
        return False

    def rest(self) -> None:
        """Return when nothing that was handed over before is under way, however it went. As `wait_for_all`, on any thread."""
        self.wait_for_all()

    def read_again(self, source: Allocation, start: int, nbytes: int) -> Reread:
        """What makes such a read of `nbytes` bytes again and again; each is one operation.

        It may be used on any thread and without `enter`, by who has the worker's turn, as long as `source` is allocated.

        Into memory that is pinned (`pin`), the bytes may come while nobody waits: then it stays so until they are there (`rest`).
        """
        deliver: Deliver

        def begin() -> object:
            nonlocal deliver
            outside = self.visit() if self.has_visitors else None
            try:
                deliver = self.begin_read(source, start, nbytes)
            except BaseException:
                if outside is not None:
                    self.leave(outside)
                raise
            return outside

        return begin, lambda target: deliver

    @abstractmethod
    def copy(self, source: Allocation, target: Allocation, box: Box) -> None:
        """Within the worker; the boxes do not overlap."""

    def copying(
        self, shape: tuple[int, int, int], source_pitches: tuple[int, int], target_pitches: tuple[int, int]
    ) -> Copying | None:
        """What copies boxes of that shape, with at least a byte and these pitches, again and again, from wherever to wherever; None where
        nothing is faster than `copy`. It is used as what `again` gives.
        """
        return None

    @abstractmethod
    def copy_from_peer(self, peer: Backend, source: Allocation, target: Allocation, box: Box) -> None:
        """From another worker of this back end; `order_after` was called for the peer's work."""

    def copies_from_peer(
        self, peer: Backend, source: Allocation, target: Allocation, boxes: Sequence[Box]
    ) -> None:
        """These calls of `copy_from_peer`."""
        for box in boxes:
            self.copy_from_peer(peer, source, target, box)

    @abstractmethod
    def fill(self, target: Allocation, start: int, nbytes: int, pattern: bytes) -> None:
        """Repeat `pattern` from `start`; its length (1, 2, 4 … 128) divides `nbytes` and `start`."""

    def filling(self, nbytes: int, pattern: bytes) -> Filling | None:
        """What fills so many bytes, at least one, with that pattern again and again, as `fill`; as `copying` otherwise."""
        return None

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
        """Combine what one chunk left in `stage` into `target`, on the bytes `region` of a buffer.

        Byte b of the buffer is byte b - start of each allocation; all three starts are multiples of 16, so alignment
        in the buffer is alignment in memory. The three are different allocations of this worker.

        `op` 'diff': where a unit of `stage` differs from that of `twin`, it goes into `target` whole; all others
        stay. Units are those of `grain` in the buffer; where a run of the region begins or ends within one, the part
        of it in the run counts as one. `dtype` plays no part.

        `op` 'add', 'min', 'max', 'and', 'or' or 'xor' (`twin` is None): target = target op stage in elements of
        `dtype`, a NumPy name; integers wrap around. Every run is whole elements, aligned in the buffer.

        Called only if `WorkerInfo.merges` is set.
        """
        raise TypeError("this back end does not merge")

    def folding(
        self, target: Allocation, target_start: int, parts: Sequence[FoldPart], op: str, dtype: str
    ) -> Callable[[], object] | None:
        """A call that combines what peers hold into `target`, in place and in the order of `parts`: on the bytes of each part,
        target = target op the peer's. None if this worker cannot read one of the peers' memory where it is.

        `op`, `dtype`, starts and runs are as in `merge`. The call may be made wherever `merge` may be, as long as all the
        allocations exist. `order_after` was called for the peers' work, and they change nothing before this is done.

        Called only if `WorkerInfo.merges` is set.
        """
        return None

    @abstractmethod
    def build(self, program: BackendProgram) -> BuildResult:
        """Compile once for each device; BuildFailure with the log if that fails."""

    def kept(self, program: BackendProgram) -> BuildResult | None:
        """What `build` gives, where that takes no compiler, because the program was built before, by this process or an earlier one,
        and nobody else is at it; None otherwise, or if it fails.
        """
        return None

    def translate(self, program: BackendProgram) -> None:
        """Do what comes before a compiler in `build`: on the thread that waits for it, where others, for which it would hold up that
        compiler, run Python as well. On any thread; a refusal is for `build` to tell.
        """
        return None

    def preparations(self) -> Sequence[Callable[[], object]]:
        """What a worker beside others may need later, in pieces that take a compiler or nothing: on any thread, also while others call the
        back end. What was not done by then is done when it is needed.
        """
        return ()

    def merge_preparations(self, merging: Merging) -> Sequence[Callable[[], object]]:
        """The same for merges of a kind."""
        return ()

    def compile_ahead(self, program: BackendProgram) -> None:
        """Have a compiler at a program, so that `build` will need none; where `compiles_ahead`. On any thread, also while others call the
        back end; BuildFailure with the log if it refuses.
        """
        raise NotImplementedError

    @abstractmethod
    def kernel(self, program: BackendProgram, name: str) -> object:
        """This worker's handle of a kernel of a built program."""

    @abstractmethod
    def launch(self, kernel: object, args: list[KernelArgument], shape: LaunchShape) -> None:
        """Start a chunk. `args` are the user's arguments in order; the back end adds `shape.hidden`."""

    def again(self, kernel: object, args: list[KernelArgument], shape: LaunchShape) -> Repeated | None:
        """A faster call that repeats the last `launch`; None if there is none.

        It may be used on any thread and without `enter`, by who has the worker's turn, as long as the memory among `args` (which are
        the callee's from now on) is allocated. What it starts belongs to the marker that comes next. It raises BackendError if
        nothing was started.
        """
        return None

    def again_whole(
        self, kernel: object, args: Sequence[KernelArgument], shape: LaunchShape
    ) -> RepeatedWhole | None:
        """The same for launches of which many arguments differ, each with a value where `args` has one, and with memory where that
        has memory; None if `again` has to serve.
        """
        return None

    def repeats_elsewhere(self, kernel: object) -> bool:
        """Whether what `again` or `again_whole` gave for a launch of this kernel may be given (memory, offset) where the launch had memory,
        or, if `repeats_by_shape`, a shape with other `bases`.
        """
        return True

    def repeats_over(self, kernel: object, shape: LaunchShape) -> bool:
        """Whether what `again` or `again_whole` gave for a launch of this kernel may be called with that shape, with the same `bases`."""
        return False

    def own_kernel(self, program: BackendProgram, name: str) -> object | None:
        """A handle like `kernel`'s, for `driver_launch` alone; None if there is none."""
        return None

    def driver_launch(
        self, kernel: object, args: list[KernelArgument], shape: LaunchShape
    ) -> DriverLaunch | None:
        """What `launch` would do, for a caller who does it himself, with the arguments of `kernel`, an `own_kernel`, set to these.
        None if that is not possible.
        """
        return None

    def driver_memory(self, allocation: Allocation) -> DriverMemory | None:
        """What a caller needs who moves bytes from and to this memory himself; None if that is not possible."""
        return None

    def launched(self, handles: Sequence[int], launches: int) -> None:
        """Commands were made from what `driver_launch` and `driver_memory` gave, by threads that did so one after the other, and
        nothing was handed over meanwhile. `handles`: their events, which are the back end's from now on. `launches`: how many of them are
        launches.
        """
        raise TypeError("this back end's launches are its own")

    def begin_timed(self) -> object:
        """Before something whose times are wanted: what `timer` has to know. By who has the worker's turn, on any thread."""
        return None

    def timer(self, begun: object, count: int) -> Callable[[], tuple[int, int]]:
        """When the last `count` operations that were handed over began and ended, once they are complete: nanoseconds of the host's
        time.perf_counter_ns, or zeros where that is not known. For no operations: twice when what was handed over before ended. `begun`:
        what `begin_timed` gave before them, which need not have been called if not `begins_timed`. Used as that.
        """
        raise TypeError("only markers tell this back end's times")

    def copy_again(
        self, peer: Backend, source: Allocation, target: Allocation, boxes: Sequence[Box]
    ) -> Callable[[], object] | None:
        """A faster call that repeats these calls of `copy_from_peer`; None if there is none.

        It may be used wherever `copy_from_peer` may be, as long as both allocations exist, and raises what that
        raises.
        """
        return None

    @abstractmethod
    def order_after(self, marker: Marker) -> None:
        """Work handed over from now on starts only when `marker` (of any worker) is done; if necessary this call
        waits for it.
        """

    @abstractmethod
    def pending(self) -> int:
        """Operations handed over since the last marker."""

    @abstractmethod
    def record(self) -> Marker:
        """A marker for everything handed over so far, which also starts that work. Never raises."""

    @abstractmethod
    def close(self) -> None:
        """Wait for the work and release everything native. Never raises."""

    def give_back(self) -> None:  # noqa: B027
        """Give the engine the memory that other workers may have used as well: all of them are closed. On any thread; never raises.

        An engine whose memory ends with its objects has nothing to do here.
        """
