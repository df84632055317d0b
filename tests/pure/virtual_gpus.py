"""GPUs that compute nothing and tell times: a session plans, submits and measures on them as on real ones.

Memory has a size and no content. A worker's clock goes on by what its operations take: the bytes of a copy
over a link, the work-items of a kernel times what one takes. Figures are those measured on H200.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from vdev.translators.ranges.ndrange import Chunk
from vdev.translators.ranges.region import Region

from vdev.backends.base import (
    Allocation,
    Backend,
    BackendProgram,
    Box,
    BuildResult,
    Bytes,
    Counters,
    FoldPart,
    KernelArgument,
    KernelResources,
    LaunchShape,
    Marker,
    Times,
    WorkerInfo,
)

PEER_BYTES_PER_SECOND = 360e9
MEMORY_BYTES_PER_SECOND = 4000e9
COPY_SECONDS = 8e-6


@dataclass
class Machine:
    """What the GPUs of a machine have in common."""

    #: seconds of one worker's time for a work-item, by kernel; or for a chunk, where work-items take unequal times
    per_item: Mapping[str, float | Callable[[Chunk], float]]
    peer_rate: float = PEER_BYTES_PER_SECOND
    backends: list[VirtualGpu] = field(default_factory=list)
    #: seconds that each call of a back end takes of the one thread that makes all calls, and that each kernel takes whatever it does
    call: float = 0.0
    floor: float = 0.0
    #: seconds of that thread for a new piece of memory, and for the first launch of each kernel on each GPU, which the GPU's
    #: own times hold as well: the driver loads the kernel between the two events that a launch is timed by
    allocation: float = 0.0
    first_launch: float = 0.0
    latency: float = 0.0  #: seconds until the host, which waits for a GPU, learns that it is done
    merging: float = 0.0  #: seconds of a GPU for each merge, however small
    host: float = 0.0  #: the host's clock
    waited: float = 0.0  #: of that, while its thread slept
    spins: bool = False  #: whether it spins where it waits for GPUs
    slower: dict[int, float] = field(default_factory=dict)  #: so many times as slow are kernels of these GPUs
    #: a host with other things to do: by its clock, how many times as long its thread takes for anything, and how many seconds it does
    #: not run at all
    noise: Callable[[float], tuple[float, float]] | None = None

    def opener(self, number: int, memory_nbytes: int = 140 << 30) -> Callable[[], Backend]:
        return lambda: VirtualGpu(self, number, memory_nbytes)

    def work(self, seconds: float) -> None:
        """The host's thread does what takes so long where it has nothing else to do."""
        if self.noise is not None:
            factor, away = self.noise(self.host)
            seconds *= factor
            self.host += away
            self.waited += away
        self.host += seconds

    @property
    def seconds(self) -> float:
        """When the last worker is through, and the host."""
        return max(self.host, *(backend.now for backend in self.backends))


class _Marker(Marker):
    __slots__ = ("end", "machine", "start")

    def __init__(self, machine: Machine, start: float | None, end: float) -> None:
        self.machine, self.start, self.end = machine, start, end

    def wait(self) -> None:
        machine, until = self.machine, self.end + self.machine.latency
        if machine.host < self.end:
            machine.waited += 0.0 if machine.spins else until - machine.host
            machine.host = until

    def done(self) -> bool:
        # Where calls take no time, the host's clock stands still but for its waits: it looks when all is over.
        return not self.machine.call or self.machine.host >= self.end

    def times(self) -> Times | None:
        if self.start is None:
            return None
        start, end = round(self.start * 1e9), round(self.end * 1e9)
        return start, start, start, end


class VirtualGpu(Backend):
    any_thread = True

    def __init__(self, machine: Machine, number: int, memory_nbytes: int) -> None:
        self.machine = machine
        self.counters = Counters()
        self.info = WorkerInfo(
            backend="virtual",
            name=f"virtual {number}",
            device_key=("virtual", number),
            compute_units=132,
            memory_nbytes=memory_nbytes,
            max_alloc_nbytes=memory_nbytes,
            max_work_group_size=1024,
            max_work_item_sizes=(1024, 1024, 64),
            local_memory_nbytes=48 << 10,
            base_align_nbytes=512,
            is_cpu=False,
            version="OpenCL 3.0 virtual",
            c_version="OpenCL C 1.2",
            peer_cost=0.05,
            merges=True,
        )
        self._number = number
        self._loaded: set[str] = set()  #: kernels that were launched
        self._fetching = False
        #: whether the next launch is of an interior; and when the last one of these is done
        self.is_interior = False
        self._interior_until = 0.0
        self.now = 0.0
        self._first: float | None = None
        self._count = 0
        machine.backends.append(self)

    def _take(self, seconds: float) -> None:
        self._fetching = False
        before = max(self.now, self.machine.host)
        self._called()
        if self._first is None:
            # The event before it is reached while the host is still at it.
            self._first = self.now if self.machine.noise is None else before
        self._count += 1
        self.now += seconds

    def _called(self) -> None:
        """The host is at it so long, and what it asks for begins later."""
        self.machine.work(self.machine.call)
        self.now = max(self.now, self.machine.host)

    def allocate(self, nbytes: int) -> Allocation:
        self.machine.work(self.machine.allocation)
        self.counters.allocated_nbytes += nbytes
        return Allocation(None, nbytes)

    def free(self, allocation: Allocation) -> None:
        self.counters.allocated_nbytes -= allocation.nbytes

    def write(self, target: Allocation, source: Bytes, box: Box) -> None:
        self._take(box.nbytes / 10e9)

    def read(self, source: Allocation, target: Bytes, box: Box) -> bool:
        self._take(box.nbytes / 10e9)
        return False

    def copy(self, source: Allocation, target: Allocation, box: Box) -> None:
        self._take(2 * box.nbytes / MEMORY_BYTES_PER_SECOND)

    def copy_from_peer(self, peer: Backend, source: Allocation, target: Allocation, box: Box) -> None:
        self.counters.from_peer += box.nbytes
        # Boxes that are asked for one after the other come in one launch.
        if not self._fetching:
            self._take(COPY_SECONDS)
            self._fetching = True
        self.now += box.nbytes / self.machine.peer_rate

    def fill(self, target: Allocation, start: int, nbytes: int, pattern: bytes) -> None:
        self._take(nbytes / MEMORY_BYTES_PER_SECOND)

    def merge(self, target: Allocation, target_start: int, *args: Any) -> None:
        region = next(arg for arg in args if isinstance(arg, Region))
        self._take(self.machine.merging + 3 * region.nbytes / MEMORY_BYTES_PER_SECOND)

    def folding(
        self, target: Allocation, target_start: int, parts: Sequence[FoldPart], op: str, dtype: str
    ) -> Callable[[], object]:
        nbytes = sum(part.region.nbytes for part in parts)

        def fold() -> None:
            self.counters.from_peer += nbytes
            self._take(COPY_SECONDS + self.machine.merging + nbytes / self.machine.peer_rate)

        return fold

    def build(self, program: BackendProgram) -> BuildResult:
        resources = KernelResources(1024, (0, 0, 0), 0, 0, 32)
        return BuildResult("", dict.fromkeys(self.machine.per_item, resources), b"virtual")

    def kernel(self, program: BackendProgram, name: str) -> object:
        return name

    def launch(self, kernel: object, args: list[KernelArgument], shape: LaunchShape) -> None:
        took = self._took(kernel, shape)
        if self.is_interior:  # what is behind it goes on meanwhile
            self._join()
            self._take(0.0)
            self._interior_until = self.now + took
            return
        self._take(took)
        if self._interior_until:  # both take what they would take one after the other
            self._interior_until += took

    def _took(self, kernel: object, shape: LaunchShape) -> float:
        """Seconds that a launch takes by itself; it is counted."""
        assert isinstance(kernel, str)
        per_item = self.machine.per_item[kernel]
        took = per_item(shape.chunk) if callable(per_item) else prod(shape.global_size) * per_item
        took = self.machine.floor + took * self.machine.slower.get(self._number, 1.0)
        if kernel not in self._loaded:
            self._loaded.add(kernel)
            self.machine.work(self.machine.first_launch)
            took += self.machine.first_launch
        self.counters.launches += 1
        return took

    def _join(self) -> None:
        """The last interior is done."""
        self.now, self._interior_until = max(self.now, self._interior_until), 0.0

    def order_after(self, marker: Marker) -> None:
        assert isinstance(marker, _Marker)
        self._called()
        self.now = max(self.now, marker.end)

    def pending(self) -> int:
        return self._count

    def record(self) -> Marker:
        self.machine.work(self.machine.call)
        self._join()
        first, self._first = self._first, None
        self._count, self._fetching = 0, False
        return _Marker(self.machine, first, self.now)

    def close(self) -> None:
        pass
