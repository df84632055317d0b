"""The back-end seam in NumPy: memory is arrays, kernels are Python functions. The executable definition of the
others.

Work is asynchronous as on a real device: a thread performs it in order, after the delays and with the faults that a
test has asked for. New memory holds NEW, freed memory FREED, so that reading either shows.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

import numpy as np

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
    copy_box,
)
from vdev.backends.merging import combine, copy_changes
from vdev.errors import MEM_OBJECT_ALLOCATION_FAILURE, OUT_OF_RESOURCES, BackendError, BuildFailure
from vdev.translators.ranges.grain import Grain
from vdev.translators.ranges.ndrange import Chunk, NDRange
from vdev.translators.ranges.region import Region
from vdev.translators.values import dataclass

NEW, FREED = 0xCD, 0xA5


class Pointer:
    """A kernel's pointer: byte `offset` of the user's argument is byte `offset` - `shift` of `memory` (PPoPP'11
    section 3.5).
    """

    def __init__(self, memory: Bytes, shift: int) -> None:
        self.memory = memory
        self.shift = shift

    def view(self, dtype: str, start: int, count: int) -> np.ndarray:
        """`count` elements from element `start`; IndexError if the replica does not hold all of them."""
        size = np.dtype(dtype).itemsize
        first = start * size - self.shift
        if first < 0 or first + count * size > len(self.memory):
            raise IndexError(f"elements {start} to {start + count} are outside the replica")
        return self.memory[first : first + count * size].view(dtype)


#: a kernel: the user's arguments (Pointer for buffers), the whole NDRange, the chunk to perform
KernelFunction = Callable[[Sequence[object], NDRange, Chunk], None]


@dataclass(frozen=True, eq=False)
class ReferenceProgram(BackendProgram):
    """A program given by its kernels' functions; `source` is not used."""

    source: str = ""
    functions: Mapping[str, KernelFunction] = field(default_factory=dict)
    failure: str | None = None  #: the build log, for a program whose build should fail


@dataclass
class Faults:
    """The faults that a test wants. Operations are counted from 0 in the order in which they are handed over.

    `refuse` fails the call itself, `fail` fails the work later on the device, `delay` gives seconds by operation,
    `capacity` is all the memory there is, in bytes.
    """

    refuse: Mapping[int, int] = field(default_factory=dict)  #: operation number -> status
    fail: Mapping[int, int] = field(default_factory=dict)  #: operation number -> status
    delay: Callable[[int], float] | None = None
    capacity: int | None = None
    hang_at: int | None = None  #: the operation that never ends


class ReferenceMarker(Marker):
    __slots__ = ("_backend", "first", "last")

    def __init__(self, backend: ReferenceBackend, first: int, last: int) -> None:
        self._backend = backend
        self.first = first
        self.last = last  # operations first <= n < last

    def wait(self) -> None:
        backend = self._backend
        with backend.progress:
            backend.progress.wait_for(lambda: backend.performed >= self.last)
            failed = [(n, error) for n, error in backend.failures if self.first <= n < self.last]
        if failed:
            error = failed[0][1]
            raise BackendError(error.status, error.text, tuple(n - self.first for n, _ in failed))

    def done(self) -> bool:
        return self._backend.performed >= self.last

    def times(self) -> Times | None:
        spans = [self._backend.spans[n] for n in range(self.first, self.last) if n in self._backend.spans]
        if not spans:
            return None
        return spans[0][0], spans[0][0], spans[0][1], spans[-1][2]


class ReferenceBackend(Backend):
    """A worker in NumPy; `functions` of ReferencePrograms are its kernels."""

    def __init__(
        self,
        name: str = "reference",
        faults: Faults | None = None,
        memory_nbytes: int = 1 << 32,
        *,
        is_cpu: bool = True,
    ) -> None:
        """`is_cpu`: False for one that acts as if it were reached over a link; such workers merge."""
        self.faults = faults or Faults()
        self.counters = Counters()
        self.info = WorkerInfo(
            backend="reference",
            name=name,
            device_key=("reference", id(self)),
            compute_units=1,
            memory_nbytes=memory_nbytes,
            max_alloc_nbytes=memory_nbytes,
            max_work_group_size=1 << 16,
            max_work_item_sizes=(1 << 16,) * 3,
            local_memory_nbytes=1 << 20,
            base_align_nbytes=1,
            is_cpu=is_cpu,
            merges=not is_cpu,
            version="OpenCL 3.0 reference",
        )
        self.progress = threading.Condition()
        self.performed = 0
        self.failures: list[tuple[int, BackendError]] = []
        self.spans: dict[int, tuple[int, int, int]] = {}  #: operation -> (handed over, start, end) in ns
        self.log: list[str] = []  #: what was handed over, in order
        self._queue: deque[tuple[Callable[[], None], int] | None] = deque()
        self._handed_over = 0
        self._recorded = 0
        self._work = threading.Semaphore(0)
        self._device = threading.Thread(target=self._perform, name=f"{name}-device", daemon=True)
        self._device.start()

    # the device ---------------------------------------------------------------------------------

    def _submit(self, text: str, work: Callable[[], None]) -> None:
        number = self._handed_over
        self._handed_over += 1
        self.log.append(text)
        status = self.faults.refuse.get(number)
        if status is not None:
            refused = BackendError(status, f"injected: operation {number} refused")
            self._queue.append((lambda: None, time.perf_counter_ns()))
            self._work.release()
            raise refused
        self._queue.append((work, time.perf_counter_ns()))
        self._work.release()

    def _perform(self) -> None:
        number = 0
        while True:
            self._work.acquire()
            item = self._queue.popleft()
            if item is None:
                return
            work, handed_over = item
            self._perform_one(number, work, handed_over)
            number += 1

    def _perform_one(self, number: int, work: Callable[[], None], handed_over: int) -> None:
        faults = self.faults
        if faults.delay is not None:
            time.sleep(faults.delay(number))
        if faults.hang_at == number:
            threading.Event().wait()
        start = time.perf_counter_ns()
        error: BackendError | None = None
        status = faults.fail.get(number)
        if status is not None:
            error = BackendError(status, f"injected: operation {number} failed")
            if isinstance(work, _Wait):
                work()  # a device that cannot wait does not run ahead
        else:
            try:
                work()
            except (
                Exception
            ) as found:  # a kernel function may raise anything: the device reports one status for all of it
                error = BackendError(OUT_OF_RESOURCES, f"operation {number}: {found!r}")
        with self.progress:
            if error is not None:
                self.failures.append((number, error))
            self.spans[number] = (handed_over, start, time.perf_counter_ns())
            self.spans.pop(number - 10_000, None)
            self.performed = number + 1
            self.progress.notify_all()

    # memory -------------------------------------------------------------------------------------

    def allocate(self, nbytes: int) -> Allocation:
        counters = self.counters
        capacity = self.info.memory_nbytes if self.faults.capacity is None else self.faults.capacity
        if counters.allocated_nbytes + nbytes > capacity:
            raise BackendError(MEM_OBJECT_ALLOCATION_FAILURE, f"{nbytes} bytes do not fit")
        counters.allocations += 1
        counters.allocated_nbytes += nbytes
        counters.peak_nbytes = max(counters.peak_nbytes, counters.allocated_nbytes)
        return Allocation(np.full(nbytes, NEW, np.uint8), nbytes)

    def allocate_sparse(self, nbytes: int) -> Allocation:
        return Allocation(np.full(nbytes, NEW, np.uint8), nbytes, sparse=True)

    def part(self, whole: Allocation, ahead: int, nbytes: int) -> Allocation:
        found = Allocation(_memory(whole)[ahead : ahead + nbytes], nbytes)
        found.whole, found.ahead = whole, ahead
        return found

    def free(self, allocation: Allocation) -> None:
        allocation = allocation.whole or allocation
        memory = _memory(allocation)
        self.counters.allocated_nbytes -= allocation.counted_nbytes
        self._submit("free", lambda: memory.fill(FREED))

    def write(self, target: Allocation, source: Bytes, box: Box) -> None:
        memory = _memory(target)
        self._submit("write", lambda: copy_box(source, memory, box))
        self.counters.from_host += box.nbytes

    def read(self, source: Allocation, target: Bytes, box: Box) -> bool:
        memory = _memory(source)
        self._submit("read", lambda: copy_box(memory, target, box))
        self.counters.to_host += box.nbytes
        return False

    def begin_read(self, source: Allocation, start: int, nbytes: int) -> Callable[[Bytes, int], None]:
        memory, read = _memory(source), np.full(nbytes, NEW, np.uint8)
        self._submit("read", lambda: np.copyto(read, memory[start : start + nbytes]))
        self.counters.to_host += nbytes

        def deliver(target: Bytes, at: int) -> None:
            target[at : at + nbytes] = read

        return deliver

    def copy(self, source: Allocation, target: Allocation, box: Box) -> None:
        old, new = _memory(source), _memory(target)
        self._submit("copy", lambda: copy_box(old, new, box))
        self.counters.local += box.nbytes

    def copy_from_peer(self, peer: Backend, source: Allocation, target: Allocation, box: Box) -> None:
        assert isinstance(peer, ReferenceBackend)
        old, new = _memory(source), _memory(target)
        self._submit("peer", lambda: copy_box(old, new, box))
        self.counters.from_peer += box.nbytes

    def fill(self, target: Allocation, start: int, nbytes: int, pattern: bytes) -> None:
        memory = _memory(target)[start : start + nbytes]
        unit = np.frombuffer(pattern, np.uint8)
        self._submit("fill", lambda: np.copyto(memory.reshape(-1, len(unit)), unit))
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
        into, new = _memory(target), _memory(stage)
        old = None if twin is None else _memory(twin)

        def work() -> None:
            for start, stop in region.runs.tolist():
                run = into[start - target_start : stop - target_start]
                changed = new[start - stage_start : stop - stage_start]
                if old is None:
                    combine(run, changed, op, dtype)
                else:
                    unchanged = old[start - twin_start : stop - twin_start]
                    copy_changes(run, changed, unchanged, start, grain)

        self._submit("merge", work)
        self.counters.merged += region.nbytes

    def folding(
        self, target: Allocation, target_start: int, parts: Sequence[FoldPart], op: str, dtype: str
    ) -> Callable[[], object] | None:
        into = _memory(target)
        others = [(_memory(part.source), part.start, part.region.runs.tolist()) for part in parts]

        def work() -> None:
            for memory, first, runs in others:
                for start, stop in runs:
                    found = memory[start - first : stop - first]
                    combine(into[start - target_start : stop - target_start], found, op, dtype)

        def fold() -> None:
            self._submit("fold", work)
            for part in parts:
                self.counters.merged += part.region.nbytes
                self.counters.from_peer += part.region.nbytes

        return fold

    # programs -----------------------------------------------------------------------------------

    def build(self, program: BackendProgram) -> BuildResult:
        assert isinstance(program, ReferenceProgram)
        if program.failure is not None:
            raise BuildFailure(program.failure)
        resources = KernelResources(self.info.max_work_group_size, (0, 0, 0), 0, 0, 1)
        return BuildResult("", dict.fromkeys(program.functions, resources), b"reference")

    def kernel(self, program: BackendProgram, name: str) -> KernelFunction:
        assert isinstance(program, ReferenceProgram)
        return program.functions[name]

    def launch(self, kernel: object, args: list[KernelArgument], shape: LaunchShape) -> None:
        assert callable(kernel)
        shifts = dict(shape.bases)
        native: list[object] = list(args)
        for index, arg in enumerate(args):
            if isinstance(arg, Allocation):
                native[index] = Pointer(_memory(arg), shifts.get(index, 0))
            elif isinstance(arg, tuple):
                native[index] = Pointer(_memory(arg[0])[arg[1] :], 0)
        self._submit("launch", lambda: kernel(native, shape.ndrange, shape.chunk))
        self.counters.launches += 1

    # order --------------------------------------------------------------------------------------

    def order_after(self, marker: Marker) -> None:
        if not marker.done():
            self._submit("order", _Wait(marker))

    def pending(self) -> int:
        return self._handed_over - self._recorded

    def record(self) -> Marker:
        first, self._recorded = self._recorded, self._handed_over
        return ReferenceMarker(self, first, self._handed_over)

    def timer(self, begun: object, count: int) -> Callable[[], tuple[int, int]]:
        last = self._handed_over

        def times() -> tuple[int, int]:
            spans = [self.spans[number] for number in range(last - max(count, 1), last)]
            return spans[0][1] if count else spans[0][2], spans[-1][2]

        return times

    def wait_for_all(self) -> bool:
        last = self._handed_over
        with self.progress:
            self.progress.wait_for(lambda: self.performed >= last)
            return not any(number >= self._recorded for number, _ in self.failures)

    def close(self) -> None:
        self._queue.append(None)
        self._work.release()
        self._device.join()


def _memory(allocation: Allocation) -> Bytes:
    assert isinstance(allocation.native, np.ndarray)
    return allocation.native


class _Wait:
    """An operation that only waits for another worker's."""

    def __init__(self, marker: Marker) -> None:
        self._marker = marker

    def __call__(self) -> None:
        try:
            self._marker.wait()
        except BackendError:
            return  # reported by whoever handed that work over


def opener(
    name: str = "reference", faults: Faults | None = None, memory_nbytes: int = 1 << 32
) -> Callable[[], Backend]:
    """What an executor calls on the worker's thread to open such a worker."""
    return lambda: ReferenceBackend(name, faults, memory_nbytes)
