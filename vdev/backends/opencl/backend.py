"""Workers on native OpenCL devices, through PyOpenCL's real native module.

Decides how bytes and kernels go through OpenCL queues. Several workers may share one device (`device`), with
a queue, kernel objects and memory each. It never decides what moves where.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from vdev.backends.base import (
    Allocation,
    Backend,
    BackendProgram,
    Box,
    Bytes,
    Copying,
    Counters,
    Deliver,
    Filling,
    Marker,
    Reread,
    WorkerInfo,
    copy_box,
)
from vdev.backends.opencl.boxes import halves, pieces_within, rectangle
from vdev.backends.opencl.device import SharedDevice
from vdev.backends.opencl.errors import allocation_failure_of, failure_of
from vdev.backends.opencl.info import worker_info
from vdev.backends.opencl.launching import Kernel, OpenCLLaunches
from vdev.backends.opencl.marker import OpenCLMarker
from vdev.backends.opencl.native import load_native
from vdev.errors import MEM_COPY_OVERLAP, MEM_OBJECT_ALLOCATION_FAILURE, BackendError
from vdev.process.threads import others_asleep

_NO_BYTES = np.empty(0, np.uint8)
#: the most bytes of a read for which the driver may keep the calling thread, if nothing else is under way, and of a
#: write that is made from a copy: some 10 us
_SMALL_NBYTES = 64 << 10


class OpenCLBackend(OpenCLLaunches):
    """One queue on one native device. `share` workers divide the device's memory among them."""

    times_operations = tells_times = True
    any_thread_alone = True
    can_wait_for_all = True
    small_write_nbytes = small_read_nbytes = _SMALL_NBYTES
    writes_boxes_now = True

    def __init__(self, device: Any, share: int = 1) -> None:
        self.device = self.company = SharedDevice.of(device)  # events order the queues of one context
        self.counters = Counters()
        self._cl = cl = self.device.cl
        # Profiling adds no measurable cost to a launch, and gives the times of every command.
        self._queue = cl.CommandQueue(
            self.device.context, device, cl.command_queue_properties.PROFILING_ENABLE
        )
        #: whether launches must go through `SharedDevice.enqueue`, in order
        self._in_any_order = not self.device.orders_launches
        self._events: list[Any] = []
        #: of these, some that keep an array of the program's until somebody waits for them
        self._keeping: list[Any] = []
        #: event of the last command of the queue
        self.last: Any = None
        #: events since a marker, and how many of them are known to be complete, without failures
        self._sound: tuple[list[Any], int] = ([], 0)
        self._is_alone = share == 1
        self._spare = _NO_BYTES  #: memory of the last small read, for the next
        self._status = cl.event_info.COMMAND_EXECUTION_STATUS
        self._kernels: weakref.WeakKeyDictionary[BackendProgram, dict[str, Kernel]] = (
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
            # a driver may put the allocation off until first use: make it happen now
            if not self.device.is_cpu:
                flags = cl.mem_migration_flags.CONTENT_UNDEFINED
                self._did(cl.enqueue_migrate_mem_objects(self._queue, [native], flags, None))
        except cl.Error as error:
            self.device.give_back(nbytes)
            raise allocation_failure_of(error, f"{nbytes} bytes") from error
        counters = self.counters
        counters.allocations += 1
        counters.allocated_nbytes += nbytes
        counters.peak_nbytes = max(counters.peak_nbytes, counters.allocated_nbytes)
        return Allocation(native, nbytes)

    def allocate_sparse(self, nbytes: int) -> Allocation:
        if not self.device.is_cpu:
            return super().allocate_sparse(nbytes)
        # The host's memory, whose untouched pages take no room.
        try:
            native = self._cl.Buffer(self.device.context, self._cl.mem_flags.READ_WRITE, max(nbytes, 1))
        except self._cl.Error as error:
            raise BackendError(MEM_OBJECT_ALLOCATION_FAILURE, f"{nbytes} bytes that lie far apart") from error
        return Allocation(native, nbytes, sparse=True)

    def free(self, allocation: Allocation) -> None:
        # clReleaseMemObject: the memory goes when the commands that use it have finished (specification
        # 5.5.1).
        native: Any = allocation.native
        allocation.native = None
        native.release()
        if allocation.whole is not None:
            self.free(allocation.whole)
            return
        self.counters.allocated_nbytes -= allocation.counted_nbytes
        self.device.give_back(allocation.counted_nbytes)

    def part(self, whole: Allocation, ahead: int, nbytes: int) -> Allocation:
        native: Any = whole.native
        try:
            found = Allocation(native.get_sub_region(ahead, max(nbytes, 1), 0), nbytes)
        except self._cl.Error as error:
            raise failure_of(error, f"{nbytes} bytes of {whole.nbytes}") from error
        found.whole, found.ahead = whole, ahead
        return found

    def write(self, target: Allocation, source: Bytes, box: Box) -> None:
        nbytes = box.nbytes
        if nbytes == 0:
            return
        for piece in pieces_within(box, target_nbytes=target.nbytes):
            self._guarded(partial(self._enqueue_write, target, source, piece))
            self._keeping.append(self.last)
        self.counters.from_host += nbytes

    def write_now(self, target: Allocation, source: Bytes, box: Box) -> None:
        if not box.is_contiguous:
            return self._write_box_now(target, source, box)
        start, (_, _, nbytes) = box.source_start, box.shape
        copy = source[start : start + nbytes].copy()  # which the write's event keeps
        try:
            event = self._cl._enqueue_write_buffer(
                self._queue, target.native, copy, box.target_start, None, False
            )
        except self._cl.Error as error:
            raise failure_of(error, "transfer") from error
        self._events.append(event)
        self.last = event
        self.counters.from_host += nbytes

    def write_again(self, target: Allocation, start: int, nbytes: int) -> Callable[[Bytes], object]:
        write, queue, error, counters = (
            self._cl._enqueue_write_buffer,
            self._queue,
            self._cl.Error,
            self.counters,
        )

        def again(source: Bytes) -> None:
            try:  # a copy, which the write's event keeps
                event = write(queue, target.native, source.copy(), start, None, False)
            except error as refusal:
                raise failure_of(refusal, "transfer") from refusal
            self._events.append(event)
            self.last = event
            counters.from_host += nbytes

        return again

    def _write_box_now(self, target: Allocation, source: Bytes, box: Box) -> None:
        _, rows, row_nbytes = box.shape
        packed = rows * row_nbytes, row_nbytes
        copy = np.empty(box.nbytes, np.uint8)  # which the writes' events keep
        copy_box(source, copy, Box(box.shape, box.source_start, box.source_pitches, 0, packed))
        from_copy = Box(box.shape, 0, packed, box.target_start, box.target_pitches)
        for piece in pieces_within(from_copy, target_nbytes=target.nbytes):
            self._guarded(partial(self._enqueue_write, target, copy, piece))
        self.counters.from_host += box.nbytes

    def _enqueue_write(self, target: Allocation, source: Bytes, box: Box) -> Any:
        cl = self._cl
        calls = cl._enqueue_write_buffer, cl._enqueue_write_buffer_rect
        return _with_host(calls, self._queue, target, source, box.turned(), False)

    def read(self, source: Allocation, target: Bytes, box: Box) -> bool:
        slices, rows, row_nbytes = box.shape
        nbytes = slices * rows * row_nbytes
        if nbytes == 0:
            return False
        blocking = nbytes <= _SMALL_NBYTES and self._is_done
        first = len(self._events)
        try:
            if nbytes == row_nbytes:
                part = target[box.target_start : box.target_start + nbytes]
                read, start = self._cl._enqueue_read_buffer, box.source_start
                self._did(read(self._queue, source.native, part, start, None, blocking))
            else:
                for piece in pieces_within(box, source_nbytes=source.nbytes):
                    self._did(self._enqueue_read(self._queue, source, target, piece, blocking))
        except self._cl.Error as error:
            raise failure_of(error, "transfer") from error
        self.counters.to_host += nbytes
        if blocking:
            self._sound = self._events, len(self._events)
        else:
            self._keeping += self._events[first:]
        return blocking

    def begin_read(self, source: Allocation, start: int, nbytes: int) -> Deliver:
        read, self._spare = self._spare, _NO_BYTES
        if read.size != nbytes:
            read = np.empty(nbytes, np.uint8)  # which the event keeps, too
        try:
            event = self._cl._enqueue_read_buffer(self._queue, source.native, read, start, None, False)
        except self._cl.Error as error:
            raise failure_of(error, "transfer") from error
        self._events.append(event)
        self.last = event
        self.counters.to_host += nbytes

        def deliver(target: Bytes, at: int) -> None:
            target[at : at + nbytes] = read
            self._spare = read

        return deliver

    def read_again(self, source: Allocation, start: int, nbytes: int) -> Reread:
        read, queue, error, counters = (
            self._cl._enqueue_read_buffer,
            self._queue,
            self._cl.Error,
            self.counters,
        )
        deliver: Deliver
        arrived = _NO_BYTES  #: where the bytes are, if they are there
        is_small = nbytes <= _SMALL_NBYTES

        def begin() -> None:
            nonlocal deliver, arrived
            events, sound = self._sound
            if not (is_small and events is self._events and 0 < sound == len(events)):
                deliver, arrived = self.begin_read(source, start, nbytes), _NO_BYTES
                return
            # Everything is done: the driver reads before it returns, and nobody has to find out that it has.
            spare = self._spare
            if spare.size != nbytes:
                self._spare = spare = np.empty(nbytes, np.uint8)
            try:
                event = read(queue, source.native, spare, start, None, True)
            except error as refusal:
                raise failure_of(refusal, "transfer") from refusal
            events.append(event)
            self.last = event
            self._sound = events, sound + 1
            counters.to_host += nbytes
            arrived = spare

        def end(target: Bytes) -> Deliver | None:
            if arrived is _NO_BYTES:
                return deliver
            target[:] = arrived
            return None

        return begin, end

    def _enqueue_read(self, queue: Any, source: Allocation, target: Bytes, box: Box, blocking: bool) -> Any:
        cl = self._cl
        calls = cl._enqueue_read_buffer, cl._enqueue_read_buffer_rect
        return _with_host(calls, queue, source, target, box, blocking)

    def copy(self, source: Allocation, target: Allocation, box: Box) -> None:
        slices, rows, nbytes = box.shape
        if nbytes and slices == rows == 1:  # as most are
            copy, span = self._cl._enqueue_copy_buffer, (nbytes, box.source_start, box.target_start, None)
            try:
                event = copy(self._queue, source.native, target.native, *span)
            except self._cl.Error as error:
                raise failure_of(error, "transfer") from error
            self._events.append(event)
            self.last = event
            self.counters.local += nbytes
        elif box.nbytes:
            self._copy_natively(source, target, box)
            self.counters.local += box.nbytes

    def copying(
        self, shape: tuple[int, int, int], source_pitches: tuple[int, int], target_pitches: tuple[int, int]
    ) -> Copying:
        slices, rows, nbytes = shape
        enqueue, queue, error, counters = (
            self._cl._enqueue_copy_buffer,
            self._queue,
            self._cl.Error,
            self.counters,
        )

        def copy(source: Allocation, start: int, target: Allocation, to: int, /) -> int:
            self.copy(source, target, Box(shape, start, source_pitches, to, target_pitches))
            return len(self._events)

        def copy_span(source: Allocation, start: int, target: Allocation, to: int, /) -> int:
            try:
                event = enqueue(queue, source.native, target.native, nbytes, start, to, None)
            except error as refusal:
                raise failure_of(refusal, "transfer") from refusal
            self._events.append(event)
            self.last = event
            counters.local += nbytes
            return len(self._events)

        return copy_span if nbytes and slices == rows == 1 else copy

    def copy_from_peer(self, peer: Backend, source: Allocation, target: Allocation, box: Box) -> None:
        if not box.nbytes:
            return
        assert isinstance(peer, OpenCLBackend)
        if peer.device is self.device:
            self._copy_natively(source, target, box)
        else:
            self._copy_through_host(peer.device, source, target, box)
        self.counters.from_peer += box.nbytes

    def copy_again(
        self, peer: Backend, source: Allocation, target: Allocation, boxes: Sequence[Box]
    ) -> Callable[[], object] | None:
        assert isinstance(peer, OpenCLBackend)
        if (
            len(boxes) != 1
            or not boxes[0].is_contiguous
            or not boxes[0].nbytes
            or peer.device is not self.device
        ):
            return None
        (box,) = boxes
        extent = box.nbytes, box.source_start, box.target_start, None
        enqueue, queue, error, counters = (
            self._cl._enqueue_copy_buffer,
            self._queue,
            self._cl.Error,
            self.counters,
        )

        def copy() -> None:
            try:
                # What is asked about each: the memory goes with its buffer, even if this record is kept.
                event = enqueue(queue, source.native, target.native, *extent)
            except error as refusal:
                raise failure_of(refusal, "transfer") from refusal
            self._events.append(event)
            self.last = event
            counters.from_peer += box.nbytes

        return copy

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
                    queue,
                    source.native,
                    target.native,
                    *origins,
                    region,
                    source_pitches,
                    target_pitches,
                    None,
                )
            )
        except BackendError as refusal:
            if refusal.status != MEM_COPY_OVERLAP:
                raise
            # PoCL takes interleaved boxes of one buffer for overlapping ones; smaller boxes lie further apart
            for half in halves(box):
                self._copy_piece(source, target, half)

    def _copy_through_host(
        self, peer: SharedDevice, source: Allocation, target: Allocation, box: Box
    ) -> None:
        """Two contexts share nothing. A queue of our own on the peer's device reads; we must not use its owner's
        queue.
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
            raise failure_of(error, "copy from a peer") from error
        before = self.counters.from_host
        self.write(target, stage, Box(box.shape, 0, packed, box.target_start, box.target_pitches))
        self.counters.from_host = before  # it counts as a copy from a peer

    def fill(self, target: Allocation, start: int, nbytes: int, pattern: bytes) -> None:
        if nbytes:
            self.filling(nbytes, pattern)(target, start)

    def filling(self, nbytes: int, pattern: bytes) -> Filling:
        enqueue, queue, error, counters = (
            self._cl._enqueue_fill_buffer,
            self._queue,
            self._cl.Error,
            self.counters,
        )

        def fill(target: Allocation, start: int, /) -> int:
            try:
                event = enqueue(queue, target.native, pattern, start, nbytes, None)
            except error as refusal:
                raise failure_of(refusal, "transfer") from refusal
            self._events.append(event)
            self.last = event
            counters.filled += nbytes
            return len(self._events)

        return fill if nbytes else lambda target, start: len(self._events)

    # order --------------------------------------------------------------------------------------

    def order_after(self, marker: Marker) -> None:
        if marker.done():
            return
        if isinstance(marker, OpenCLMarker) and marker.context is self.device.context:
            cl, last = self._cl, marker.last
            try:
                self.last = cl._enqueue_barrier_with_wait_list(self._queue, [last])
                self._sound = [], 0
            except cl.Error as error:
                raise failure_of(error, "barrier") from error
            return
        try:
            marker.wait()
        except BackendError:
            return  # whoever handed that work over reports it; here only the order matters

    def wait_for_all(self) -> bool:
        # Others may hand something over meanwhile: what has become known before does not include it.
        events, status = self._events, self._status
        count, last = len(events), self.last
        keeping, self._keeping = self._keeping, []
        known, sound = self._sound
        try:
            # The queue is in order. A native wait lets go of the interpreter lock, which others may keep for a while.
            if last is not None and last.get_info(status) > 0:
                if (
                    self._is_alone
                ):  # for which a wait for the event takes less; `OpenCLMarker._finish_queue` for the others
                    last.wait()
                else:
                    self.finish()
            for event in events[sound if known is events else 0 : count]:
                if event.get_info(status):
                    return False
            for event in keeping:  # until the next marker, which may be far
                event.wait()
        except self._cl.Error:
            return False  # a marker tells of failures
        self._sound = events, count
        return True

    @property
    def _is_done(self) -> bool:
        """Whether everything handed over is known to be done, without failures."""
        events, count = self._sound
        return events is self._events and 0 < count == len(events)

    def pending(self) -> int:
        return len(self._events)

    def record(self) -> Marker:
        events, self._events = self._events, []
        keeping, self._keeping = self._keeping, []
        marker = OpenCLMarker(
            self._cl, self.device.context, self, events, self._offset_ns, self.timed_from_ns, keeping
        )
        try:
            self._queue.flush()
        except self._cl.Error as error:
            marker.failed(failure_of(error, "flush"))
        return marker

    def timer(self, begun: object, count: int) -> Callable[[], tuple[int, int]]:
        last = self._plain(self.last)
        first = self._plain(self._events[-count]) if count > 1 else last
        info, offset = self._cl.profiling_info, self._offset_ns
        end = info.END

        def times() -> tuple[int, int]:
            if last is None:
                return 0, 0
            ended = last.get_profiling_info(end) + offset
            return first.get_profiling_info(info.START) + offset if count else ended, ended

        return times

    def _plain(self, event: Any) -> Any:
        """An event that keeps no array of the program's, nor waits when it goes."""
        plain = self._cl.Event
        return event if event is None or type(event) is plain else plain.from_int_ptr(event.int_ptr, True)

    def finish(self) -> None:
        self._queue.finish()

    def is_at_rest(self) -> bool:
        return not self.device.is_cpu or others_asleep()

    def close(self) -> None:
        try:
            self._queue.finish()
        except self._cl.Error:
            # Every failure has been reported through a marker, or nobody is left to hear of it.
            self.last = None
        self._events.clear()
        self._peer_queues.clear()
        self._kernels = weakref.WeakKeyDictionary()

    # small things -------------------------------------------------------------------------------

    def _did(self, event: Any) -> None:
        self._events.append(event)
        self.last = event

    def _guarded(self, call: Callable[[], Any]) -> None:
        try:
            self._did(call())
        except self._cl.Error as error:
            raise failure_of(error, "transfer") from error

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


def _with_host(
    calls: tuple[Any, Any], queue: Any, device: Allocation, host: Bytes, box: Box, blocking: bool
) -> Any:
    """Move the box from `device` to `host`, or back: with the first of `calls` if it is contiguous, else with the
    second.
    """
    plain, by_rectangle = calls
    if box.is_contiguous:
        part = host[box.target_start : box.target_start + box.nbytes]
        return plain(queue, device.native, part, box.source_start, None, blocking)
    region, pitches, host_pitches = rectangle(box)
    part, origin = host[box.target_start :], (box.source_start, 0, 0)
    return by_rectangle(
        queue, device.native, part, origin, (0, 0, 0), region, pitches, host_pitches, None, blocking
    )


def opener(device: Any, share: int = 1) -> Callable[[], Backend]:
    """What an executor calls on the worker's thread to open a worker on native `device`, one of `share`
    there. That raises BackendError if the driver refuses what every worker needs.
    """
    cl = load_native()

    def open_backend() -> Backend:
        try:
            return OpenCLBackend(device, share)
        except cl.Error as error:
            raise failure_of(error, "the driver fails", named=True) from error

    return open_backend
