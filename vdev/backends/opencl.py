"""Workers on native OpenCL devices, through PyOpenCL's real native module.

Decides how bytes and kernels go through OpenCL queues. Several workers may share one device: they share its
context and its built programs, and have a queue, kernel objects and memory each. It never decides what moves
where.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Sequence
from ctypes import c_char
from functools import partial
from typing import Any, ClassVar

import numpy as np

from vdev.backends.base import (
    MEM_OBJECT_ALLOCATION_FAILURE,
    Allocation,
    Backend,
    BackendError,
    BackendProgram,
    Box,
    BuildFailure,
    BuildResult,
    Bytes,
    Counters,
    HostPlace,
    KernelArgument,
    LaunchShape,
    LocalBytes,
    Marker,
    Times,
    WorkerInfo,
)
from vdev.backends.native import load_native
from vdev.backends.opencl_boxes import halves, pieces_within, rectangle
from vdev.backends.opencl_info import kernel_resources, loses_compiled_kernels, worker_info

INVALID_BUFFER_SIZE, MEM_COPY_OVERLAP = -61, -8
EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST = -14
#: events of one marker whose times are asked for, if any are, however short the work was
_FEW_EVENTS = 8


def _failure(error: Any, text: str) -> BackendError:
    """A native error as a BackendError. PyOpenCL's own `code` property is missing where only vdev loaded the
    module.
    """
    record: Any = error.args[0] if error.args else None
    status = record.code() if hasattr(record, "code") else EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST
    routine = record.routine() if hasattr(record, "routine") else ""
    return BackendError(int(status), f"{text}: {routine}" if routine else text)


class SharedDevice:
    """One native device in use: its context, the programs built for it and the memory its workers hold
    together.
    """

    _opened: ClassVar[weakref.WeakValueDictionary[int, SharedDevice]] = weakref.WeakValueDictionary()
    _opening = threading.Lock()

    def __init__(self, native: Any) -> None:
        self.cl = load_native()
        self.native = native
        self.context = self.cl.Context([native])
        self.memory_nbytes = int(native.get_info(self.cl.device_info.GLOBAL_MEM_SIZE))
        self.held_nbytes = 0
        self.is_cpu = bool(native.get_info(self.cl.device_info.TYPE) & self.cl.device_type.CPU)
        self._launch_order = threading.Lock() if loses_compiled_kernels(self.cl, native) else None
        self._last_launch: Any = None
        self._lock = threading.Lock()
        self._programs: weakref.WeakKeyDictionary[BackendProgram, _Built] = weakref.WeakKeyDictionary()

    @classmethod
    def of(cls, native: Any) -> SharedDevice:
        """The one SharedDevice of a native device, made on first use."""
        with cls._opening:
            found = cls._opened.get(native.int_ptr)
            if found is None:
                found = cls._opened[native.int_ptr] = cls(native)
            return found

    def reserve(self, nbytes: int) -> None:
        """Count memory against the device's. A CPU engine overcommits: without this the process is killed
        instead of told.
        """
        with self._lock:
            if self.held_nbytes + nbytes > self.memory_nbytes:
                raise BackendError(
                    MEM_OBJECT_ALLOCATION_FAILURE, f"{nbytes} bytes do not fit into the device's memory"
                )
            self.held_nbytes += nbytes

    def give_back(self, nbytes: int) -> None:
        with self._lock:
            self.held_nbytes -= nbytes

    def enqueue(self, queue: Any, kernel: Any, shape: LaunchShape, offset: Any) -> Any:
        """Launch, after the launches of all queues where the driver asks for it; the event."""
        enqueue = self.cl.enqueue_nd_range_kernel
        if self._launch_order is None:
            return enqueue(queue, kernel, shape.global_size, shape.local_size, offset, None, False, False)
        with self._launch_order:
            last = self._last_launch
            if last is not None and last.get_info(self.cl.event_info.COMMAND_EXECUTION_STATUS) <= 0:
                last = None
            waits = None if last is None else [last]
            event = enqueue(queue, kernel, shape.global_size, shape.local_size, offset, waits, False, False)
            self._last_launch = event
            return event

    def build(self, program: BackendProgram) -> _Built:
        """Build once, whichever worker comes first; the others wait for it."""
        with self._lock:
            built = self._programs.get(program)
            if built is None:
                built = self._programs[program] = _Built()
        with built.lock:
            if built.native is None and built.failure is None:
                self._compile(program, built)
        if built.failure is not None:
            raise BuildFailure(built.failure.log, built.failure.status)
        return built

    def _compile(self, program: BackendProgram, built: _Built) -> None:
        cl = self.cl
        native = self._native_program(program.source)
        options = " ".join((*program.options, "-cl-kernel-arg-info")).encode()
        try:
            native._build(options=options, devices=None)
            # A program without kernels has no names to ask for.
            count = native.get_info(cl.program_info.NUM_KERNELS)
            names = native.get_info(cl.program_info.KERNEL_NAMES).split(";") if count else []
            kernels = {
                name: kernel_resources(cl, cl.Kernel(native, name), self.native) for name in names if name
            }
        except cl.Error as error:
            built.failure = BuildFailure(self._log(native), _failure(error, "build").status)
            return
        binaries = native.get_info(cl.program_info.BINARIES)
        built.result = BuildResult(self._log(native), kernels, bytes(binaries[0]) if binaries else b"")
        built.native = native

    def _native_program(self, source: str | bytes) -> Any:
        if isinstance(source, bytes):
            return self.cl._create_program_with_il(self.context, source)
        return self.cl._Program(self.context, source)

    def _log(self, native: Any) -> str:
        try:
            return str(native.get_build_info(self.native, self.cl.program_build_info.LOG))
        except self.cl.Error as error:
            return f"<no log: {_failure(error, 'build log')}>"


class _Built:
    """A program on its way to being built for a device: `native` and `result`, or `failure`."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.native: Any = None
        self.result: BuildResult | None = None
        self.failure: BuildFailure | None = None


class OpenCLMarker(Marker):
    """Native events since the marker before; waiting on all of them finds every failure.

    It also keeps the events of transfers alive: PyOpenCL waits in their destructor with the interpreter lock
    held.
    """

    __slots__ = (
        "_cl",
        "_events",
        "_failure",
        "_first",
        "_spans",
        "_timed_from_ns",
        "context",
        "last",
        "offset_ns",
    )

    def __init__(
        self,
        cl: Any,
        context: Any,
        events: list[Any],
        last: Any,
        offset_ns: int,
        timed_from_ns: int | None = None,
    ) -> None:
        self._cl = cl
        self.context = context
        self._events = events
        self._first = events[0] if events else None
        self.last = last
        self._failure: BackendError | None = None
        self.offset_ns = offset_ns
        self._timed_from_ns = timed_from_ns
        self._spans: tuple[tuple[int, int], ...] = ()

    def wait(self) -> None:
        events = self._events
        if events:
            if not self._all_well(events):
                try:
                    self._cl.wait_for_events(events)
                except self._cl.Error as error:
                    self._failure = self._find_failure(events, error)
            if self._timed_from_ns is not None and self._failure is None:
                self._spans = self._times_of(events, self._timed_from_ns)
            self._events = []
        elif self.last is not None and not self.done():
            try:
                self.last.wait()
            except self._cl.Error:
                if self._failure is None:
                    return  # the failure belongs to the marker that covers it
        if self._failure is not None:
            raise self._failure

    def _all_well(self, events: list[Any]) -> bool:
        """Whether all events are complete, without failures and without letting go of the interpreter lock.

        Waiting natively lets go of it, and getting it back from a busy thread can take 5 ms.
        """
        if not self.done():
            return False
        status = self._cl.event_info.COMMAND_EXECUTION_STATUS
        return not any(event.get_info(status) for event in events)

    def _find_failure(self, events: list[Any], error: Any) -> BackendError:
        statuses: dict[int, int] = {}
        for index, event in enumerate(events):  # clWaitForEvents may return at the first failure
            try:
                event.wait()
            except self._cl.Error:
                statuses[index] = int(event.get_info(self._cl.event_info.COMMAND_EXECUTION_STATUS))
        failure = _failure(error, "work failed on the device")
        status = next((status for status in statuses.values() if status < 0), failure.status)
        return BackendError(status, failure.text, tuple(statuses))

    def _times_of(self, events: list[Any], timed_from_ns: int) -> tuple[tuple[int, int], ...]:
        """When each of the events' operations started and ended; nothing where they were many and short."""
        start, end, offset = self._cl.profiling_info.START, self._cl.profiling_info.END, self.offset_ns
        if len(events) > _FEW_EVENTS:
            took = events[-1].get_profiling_info(end) - events[0].get_profiling_info(start)
            if took < timed_from_ns * len(events):
                return ()
        return tuple(
            (event.get_profiling_info(start) + offset, event.get_profiling_info(end) + offset)
            for event in events
        )

    def operations(self) -> Sequence[tuple[int, int]]:
        return self._spans

    def failed(self, failure: BackendError) -> None:
        """What the marker covers is known to have failed."""
        self._failure = failure

    def done(self) -> bool:
        if self.last is None:
            return True
        status = self.last.get_info(self._cl.event_info.COMMAND_EXECUTION_STATUS)
        return bool(status <= 0)

    def times(self) -> Times | None:
        if self._first is None:
            return None
        info, offset = self._cl.profiling_info, self.offset_ns
        first, last = self._first.get_profiling_info, self.last.get_profiling_info
        return (
            first(info.QUEUED) + offset,
            first(info.SUBMIT) + offset,
            first(info.START) + offset,
            last(info.END) + offset,
        )


class _Kernel:
    """A native kernel object and what its arguments are set to."""

    __slots__ = ("hidden", "last", "native", "views")

    def __init__(self, native: Any) -> None:
        self.native = native
        self.last: list[object] = []
        self.hidden: bytes | None = None
        self.views: dict[int, Any] = {}  # sub-buffers that arguments are set to


_UNSET = object()


class OpenCLBackend(Backend):
    """One queue on one native device. `share` workers divide the device's memory among them."""

    times_operations = True

    def __init__(self, device: Any, share: int = 1) -> None:
        self.device = SharedDevice.of(device)
        self.counters = Counters()
        self._cl = cl = self.device.cl
        # Profiling costs nothing that shows per launch, and lets every command tell its times.
        self._queue = cl.CommandQueue(
            self.device.context, device, cl.command_queue_properties.PROFILING_ENABLE
        )
        self._events: list[Any] = []
        self._last: Any = None
        self._kernels: weakref.WeakKeyDictionary[BackendProgram, dict[str, _Kernel]] = (
            weakref.WeakKeyDictionary()
        )
        self._peer_queues: dict[int, Any] = {}
        self._offset_ns = self._measure_clock()
        self.info: WorkerInfo = worker_info(cl, device, share, self._offset_ns)

    # memory -------------------------------------------------------------------------------------

    def allocate(self, nbytes: int) -> Allocation:
        cl = self._cl
        self.device.reserve(nbytes)
        try:
            native = cl.Buffer(self.device.context, cl.mem_flags.READ_WRITE, max(nbytes, 1))
            if (
                not self.device.is_cpu
            ):  # a driver may put the allocation off until first use: make it happen here
                flags = cl.mem_migration_flags.CONTENT_UNDEFINED
                self._did(cl.enqueue_migrate_mem_objects(self._queue, [native], flags, None))
        except cl.Error as error:
            self.device.give_back(nbytes)
            failure = _failure(error, f"{nbytes} bytes")
            if failure.status == INVALID_BUFFER_SIZE:  # larger than CL_DEVICE_MAX_MEM_ALLOC_SIZE
                raise BackendError(MEM_OBJECT_ALLOCATION_FAILURE, failure.text) from error
            raise failure from error
        counters = self.counters
        counters.allocations += 1
        counters.allocated_nbytes += nbytes
        counters.peak_nbytes = max(counters.peak_nbytes, counters.allocated_nbytes)
        return Allocation(native, nbytes)

    def free(self, allocation: Allocation) -> None:
        # clReleaseMemObject: the memory goes when the commands that use it have finished (specification
        # 5.5.1).
        native: Any = allocation.native
        allocation.native = None
        native.release()
        self.counters.allocated_nbytes -= allocation.nbytes
        self.device.give_back(allocation.nbytes)

    def write(self, target: Allocation, source: Bytes, box: Box) -> None:
        nbytes = box.nbytes
        if nbytes == 0:
            return
        for piece in pieces_within(box, target_nbytes=target.nbytes):
            self._guarded(partial(self._enqueue_write, target, source, piece))
        self.counters.from_host += nbytes

    def _enqueue_write(self, target: Allocation, source: Bytes, box: Box) -> Any:
        cl, queue = self._cl, self._queue
        if box.is_contiguous:
            part = source[box.source_start : box.source_start + box.nbytes]
            return cl._enqueue_write_buffer(queue, target.native, part, box.target_start, None, False)
        region, host_pitches, pitches = rectangle(box)
        part, origin = source[box.source_start :], (box.target_start, 0, 0)
        return cl._enqueue_write_buffer_rect(
            queue, target.native, part, origin, (0, 0, 0), region, pitches, host_pitches, None, False
        )

    def read(self, source: Allocation, target: Bytes, box: Box) -> None:
        nbytes = box.nbytes
        if nbytes == 0:
            return
        for piece in pieces_within(box, source_nbytes=source.nbytes):
            self._guarded(partial(self._enqueue_read, self._queue, source, target, piece, False))
        self.counters.to_host += nbytes

    def _enqueue_read(self, queue: Any, source: Allocation, target: Bytes, box: Box, blocking: bool) -> Any:
        cl = self._cl
        if box.is_contiguous:
            part = target[box.target_start : box.target_start + box.nbytes]
            return cl._enqueue_read_buffer(queue, source.native, part, box.source_start, None, blocking)
        region, pitches, host_pitches = rectangle(box)
        part, origin = target[box.target_start :], (box.source_start, 0, 0)
        return cl._enqueue_read_buffer_rect(
            queue, source.native, part, origin, (0, 0, 0), region, pitches, host_pitches, None, blocking
        )

    def copy(self, source: Allocation, target: Allocation, box: Box) -> None:
        if box.nbytes:
            self._copy_natively(source, target, box)
            self.counters.local += box.nbytes

    def copy_from_peer(self, peer: Backend, source: Allocation, target: Allocation, box: Box) -> None:
        if not box.nbytes:
            return
        assert isinstance(peer, OpenCLBackend)
        if peer.device is self.device:
            self._copy_natively(source, target, box)
        else:
            self._copy_through_host(peer.device, source, target, box)
        self.counters.from_peer += box.nbytes

    def _copy_natively(self, source: Allocation, target: Allocation, box: Box) -> None:
        for piece in pieces_within(box, source.nbytes, target.nbytes):
            self._copy_piece(source, target, piece)

    def _copy_piece(self, source: Allocation, target: Allocation, box: Box) -> None:
        cl, queue = self._cl, self._queue
        if box.is_contiguous:
            self._guarded(
                lambda: cl._enqueue_copy_buffer(
                    queue, source.native, target.native, box.nbytes, box.source_start, box.target_start, None
                )
            )
            return
        region, source_pitches, target_pitches = rectangle(box)
        origins = (box.source_start, 0, 0), (box.target_start, 0, 0)
        try:
            self._guarded(
                lambda: cl._enqueue_copy_buffer_rect(
                    queue, source.native, target.native, *origins, region, source_pitches, target_pitches, None
                )
            )
        except BackendError as refusal:
            if refusal.status != MEM_COPY_OVERLAP:
                raise
            # PoCL takes interleaved boxes of one buffer for overlapping ones; smaller ones lie further apart
            for half in halves(box):
                self._copy_piece(source, target, half)

    def _copy_through_host(
        self, peer: SharedDevice, source: Allocation, target: Allocation, box: Box
    ) -> None:
        """Two contexts share nothing. A queue of our own on the peer's device reads; its owner's queue is not
        ours to use.
        """
        key = peer.native.int_ptr
        queue = self._peer_queues.get(key)
        if queue is None:
            queue = self._peer_queues[key] = self._cl.CommandQueue(peer.context, peer.native)
        _, rows, nbytes = box.shape
        stage = np.empty(box.nbytes, np.uint8)
        packed = (rows * nbytes, nbytes)
        try:
            whole = Box(box.shape, box.source_start, box.source_pitches, 0, packed)
            for piece in pieces_within(whole, source_nbytes=source.nbytes):
                self._enqueue_read(queue, source, stage, piece, True)
        except self._cl.Error as error:
            raise _failure(error, "copy from a peer") from error
        before = self.counters.from_host
        self.write(target, stage, Box(box.shape, 0, packed, box.target_start, box.target_pitches))
        self.counters.from_host = before  # it counts as a peer's

    def fill(self, target: Allocation, start: int, nbytes: int, pattern: bytes) -> None:
        if nbytes == 0:
            return
        cl = self._cl
        self._guarded(
            lambda: cl._enqueue_fill_buffer(self._queue, target.native, pattern, start, nbytes, None)
        )
        self.counters.filled += nbytes

    # programs -----------------------------------------------------------------------------------

    def build(self, program: BackendProgram) -> BuildResult:
        result = self.device.build(program).result
        assert result is not None
        return result

    def kernel(self, program: BackendProgram, name: str) -> _Kernel:
        kernels = self._kernels.setdefault(program, {})
        kernel = kernels.get(name)
        if kernel is None:
            native = self.device.build(program).native
            try:
                kernel = kernels[name] = _Kernel(self._cl.Kernel(native, name))
            except self._cl.Error as error:
                raise _failure(error, f"kernel {name}") from error
        return kernel

    def launch(self, kernel: object, args: list[KernelArgument], shape: LaunchShape) -> None:
        assert type(kernel) is _Kernel
        last, native = kernel.last, kernel.native
        try:
            if len(last) != len(args):
                kernel.last = last = [_UNSET] * len(args)
            for index, arg in enumerate(args):
                if arg is not last[index] and arg != last[index]:
                    self._set_argument(kernel, index, arg)
            hidden = shape.hidden
            if hidden is not None and hidden is not kernel.hidden:
                native._set_arg_buf(len(args), hidden)
                kernel.hidden = hidden
            # A kernel taken as it is asks the device for its ids; the hidden argument knows the offset.
            offset = shape.ndrange.offset if hidden is None else None
            event = self.device.enqueue(self._queue, native, shape, offset)
        except self._cl.Error as error:
            raise _failure(error, "launch") from error
        self._events.append(event)
        self._last = event
        self.counters.launches += 1

    def _set_argument(self, kernel: _Kernel, index: int, arg: KernelArgument) -> None:
        kernel.last[index] = _UNSET  # should setting fail, nothing is known of it
        native = kernel.native
        if type(arg) is bytes:
            native._set_arg_buf(index, arg)
        elif type(arg) is Allocation:
            native.set_arg(index, arg.native)
        elif type(arg) is tuple:
            # The view must outlive the argument's being set: a kernel object does not retain it.
            view: Any = arg[0].native
            if arg[1]:
                view = view.get_sub_region(arg[1], max(arg[0].nbytes - arg[1], 1), 0)
            kernel.views[index] = view
            native.set_arg(index, view)
        elif type(arg) is LocalBytes:
            native.set_arg(index, self._cl.LocalMemory(arg.nbytes))
        elif type(arg) is HostPlace:
            # the native module takes addresses from what has a buffer
            native._set_arg_svm(index, self._cl.SVM((c_char * 1).from_address(arg.address)))
        else:
            native._set_arg_null(index)
        kernel.last[index] = arg

    # order --------------------------------------------------------------------------------------

    def order_after(self, marker: Marker) -> None:
        if marker.done():
            return
        if isinstance(marker, OpenCLMarker) and marker.context is self.device.context:
            cl, last = self._cl, marker.last
            try:
                self._last = cl._enqueue_barrier_with_wait_list(self._queue, [last])
            except cl.Error as error:
                raise _failure(error, "barrier") from error
            return
        try:
            marker.wait()
        except BackendError:
            return  # whoever handed that work over reports it; here only the order matters

    def pending(self) -> int:
        return len(self._events)

    def record(self) -> Marker:
        events, self._events = self._events, []
        marker = OpenCLMarker(
            self._cl, self.device.context, events, self._last, self._offset_ns, self.timed_from_ns
        )
        try:
            self._queue.flush()
        except self._cl.Error as error:
            marker.failed(_failure(error, "flush"))
        return marker

    def close(self) -> None:
        try:
            self._queue.finish()
        except self._cl.Error:
            # Every failure has been reported through a marker, or nobody is left to hear of it.
            self._last = None
        self._events.clear()
        self._peer_queues.clear()
        self._kernels = weakref.WeakKeyDictionary()

    # small things -------------------------------------------------------------------------------

    def _did(self, event: Any) -> None:
        self._events.append(event)
        self._last = event

    def _guarded(self, call: Callable[[], Any]) -> None:
        try:
            self._did(call())
        except self._cl.Error as error:
            raise _failure(error, "transfer") from error

    def _measure_clock(self) -> int:
        """Nanoseconds from the device's clock to time.perf_counter_ns; 0 where they may be the same."""
        cl = self._cl
        info = cl.profiling_info
        scratch = cl.Buffer(self.device.context, cl.mem_flags.READ_WRITE, 16)
        low, high = -(1 << 62), 1 << 62
        for _ in range(3):
            before = time.perf_counter_ns()
            event = cl._enqueue_fill_buffer(self._queue, scratch, b"\0", 0, 16, None)
            event.wait()
            after = time.perf_counter_ns()
            low = max(low, before - event.get_profiling_info(info.QUEUED))
            high = min(high, after - event.get_profiling_info(info.END))
        return 0 if low <= 0 <= high else (low + high) // 2


def opener(device: Any, share: int = 1) -> Callable[[], Backend]:
    """What an executor calls on the worker's thread to open a worker on native `device`, one of `share`
    there.
    """
    return lambda: OpenCLBackend(device, share)
