"""What may come between a small read or write and the next one like it, through PyOpenCL on the driver for machines without a GPU: a
process of its own, started by `test_reads_again`, which prints by case what was wrong.

Each case reads or writes a buffer until that is made again as it was, changes one thing, and does it once more.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import traceback
import warnings
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import pyopencl as cl

from vdev.executor import direct_reads
from vdev.executor.job import is_complete
from vdev.executor.stretch import Part
from vdev.session.immediate_maps import MapsAtOnce
from vdev.session.immediate_moves import MovesAtOnce

SOURCE = """
kernel void add(global uint *a, uint by) { a[get_global_id(0)] += by; }
kernel void take(global uint *a, global const uint *b) { a[get_global_id(0)] = b[get_global_id(0)]; }
"""
N, GROUP = 256, 64
#: items of a read: where launches are split, those of one worker
READ = int(sys.argv[1]) if len(sys.argv) > 1 else N
IS_SPLIT = READ < N  #: then no write is made again: its queue's last command is that of several workers
WRITTEN = 16  #: items of a write
READ_WRITE, COPY = cl.mem_flags.READ_WRITE, cl.mem_flags.COPY_HOST_PTR

made = [0]  #: reads that were made again
_make = direct_reads.RepeatedRead.make


def _counted(self: direct_reads.RepeatedRead, *given: Any) -> Any:
    found = _make(self, *given)
    made[0] += found is not None
    return found


direct_reads.RepeatedRead.make = _counted  # type: ignore[method-assign]

written = [0]  #: writes that were made again
_write_again = MovesAtOnce.write_again


def _counted_write(self: MovesAtOnce, *given: Any) -> Any:
    found = _write_again(self, *given)
    written[0] += found is not None
    return found


MovesAtOnce.write_again = _counted_write  # type: ignore[method-assign]


first_written = [0]  #: first writes of their bytes that took no other look
_write_first = MovesAtOnce.write_first


def _counted_first(self: MovesAtOnce, *given: Any) -> Any:
    found = _write_first(self, *given)
    first_written[0] += found is not None
    return found


MovesAtOnce.write_first = _counted_first  # type: ignore[method-assign]


mapped_back = [0]  #: mappings for writing that were ended at once, with what the host has written
_write_back = MapsAtOnce._write_back


def _counted_write_back(self: MapsAtOnce, *given: Any) -> Any:
    found = _write_back(self, *given)
    mapped_back[0] += found is not None
    return found


MapsAtOnce._write_back = _counted_write_back  # type: ignore[method-assign]


mapped_again = [0]  #: mappings that were made again
_map_again = MapsAtOnce.map_again


def _counted_mapping(self: MapsAtOnce, *given: Any) -> Any:
    found = _map_again(self, *given)
    mapped_again[0] += found is not None
    return found


MapsAtOnce.map_again = _counted_mapping  # type: ignore[method-assign]

FLAGS = cl.map_flags
READS, WRITES, BOTH = FLAGS.READ, FLAGS.WRITE_INVALIDATE_REGION, FLAGS.READ | FLAGS.WRITE


class Reads:
    """A context, a queue, and a buffer that is read again and again."""

    def __init__(self, nbytes: int = 4 * READ) -> None:
        self.context = cl.create_some_context(interactive=False)
        self.queue = cl.CommandQueue(self.context)
        built = cl.Program(self.context, SOURCE).build()
        self.add, self.take = cl.Kernel(built, "add"), cl.Kernel(built, "take")
        self.add.set_arg_types([None, np.uint32])
        self.take.set_arg_types([None, None])
        self.array = np.arange(N, dtype=np.uint32)
        self.buffer, self.host = self.new(self.array), np.zeros(nbytes // 4, np.uint32)

    def new(self, array: np.ndarray, flags: int = READ_WRITE) -> cl.Buffer:
        return cl.Buffer(self.context, flags | COPY, hostbuf=array)

    def launch(self, queue: cl.CommandQueue | None = None, by: int = 1, **more: Any) -> cl.Event:
        event = self.add(queue or self.queue, (N,), (GROUP,), self.buffer, np.uint32(by), **more)
        self.array = self.array + np.uint32(by)
        return event

    def read(
        self, host: Any = None, queue: cl.CommandQueue | None = None, buffer: Any = None, **more: Any
    ) -> Any:
        host = self.host if host is None else host
        return cl.enqueue_copy(queue or self.queue, host, buffer or self.buffer, **more)

    def check(self, host: np.ndarray | None = None, offset: int = 0) -> None:
        """`host` has what the buffer holds from a byte on."""
        host = self.host if host is None else host
        expected = self.array.tobytes()[offset : offset + host.nbytes]
        assert host.tobytes("A") == expected, (
            f"{host.ravel()[:4]} instead of {np.frombuffer(expected, host.dtype)[:4]}"
        )

    def until_again(self, **more: Any) -> None:
        """Launch and read until two reads one after the other were made again."""
        in_a_row = 0
        for _ in range(200):
            self.launch()
            before = made[0]
            self.read(**more)
            self.check(offset=more.get("src_offset", 0))
            in_a_row = in_a_row + 1 if made[0] > before else 0
            if in_a_row == 2:
                return
            time.sleep(0.0002)  # the workers' threads are through
        raise AssertionError("no read was made again")


Kind = TypeVar("Kind", bound=Reads)
CASES: dict[str, Callable[[], None]] = {}


def case(function: Callable[[], None]) -> Callable[[], None]:
    CASES[function.__name__] = function
    return function


def _said(call: Callable[[], object]) -> str:
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


def _same_error(change: Callable[[Reads, cl.Buffer], object]) -> None:
    """What is wrong is said of a buffer that is read again as it is of one that was never read."""
    reads = Reads()
    reads.until_again()
    _same_of_another(reads, change)


def _same_of_another(of: Kind, change: Callable[[Kind, cl.Buffer], object]) -> None:
    other = of.new(of.array)
    expected, found = _said(lambda: change(of, other)), _said(lambda: change(of, of.buffer))
    assert found == expected != "nothing", (found, expected)


@case
def other_arrays() -> None:
    reads = Reads()
    reads.until_again()
    whole = np.zeros((3, READ), np.uint32)
    before = made[0]
    for host in (
        np.zeros(READ, np.uint32),
        whole[1],
        np.zeros((2, READ // 2), np.float32),
        np.zeros(READ // 2, np.complex64),
    ):
        reads.launch()
        reads.read(host)
        reads.check(host)
    assert made[0] > before, "none was made again"
    assert not whole[0].any()
    assert not whole[2].any()
    scrambled = np.zeros((READ // 2, 2), np.uint32, order="F")
    reads.launch()
    reads.read(scrambled)
    reads.check(scrambled)


@case
def an_array_of_another_shape() -> None:
    reads = Reads()
    reads.until_again()
    reads.host.shape = 2, READ // 2
    reads.launch()
    reads.read()
    reads.check()


@case
def smaller_and_larger_arrays() -> None:
    reads = Reads(nbytes=2 * READ)
    reads.until_again()
    for count in (1, READ // 4, READ, READ // 2):
        for _ in range(3):
            host = np.zeros(count, np.uint32)
            reads.launch()
            reads.read(host)
            reads.check(host)


@case
def an_array_that_must_not_be_written() -> None:
    fixed = np.zeros(READ, np.uint32)
    fixed.flags.writeable = False
    _same_error(lambda reads, buffer: reads.read(fixed, buffer=buffer))


@case
def an_array_with_gaps() -> None:
    gaps = np.zeros(2 * READ, np.uint32)[::2]
    _same_error(lambda reads, buffer: reads.read(gaps, buffer=buffer))


@case
def an_array_beyond_the_buffer() -> None:
    _same_error(lambda reads, buffer: reads.read(np.zeros(N + 1, np.uint32), buffer=buffer))
    _same_error(lambda reads, buffer: reads.read(buffer=buffer, src_offset=4 * N - reads.host.nbytes + 4))
    _same_error(lambda reads, buffer: reads.read(buffer=buffer, src_offset=-4))


@case
def an_offset_of_another_type() -> None:
    _same_error(lambda reads, buffer: reads.read(buffer=buffer, src_offset=0.0))
    reads = Reads()
    reads.until_again()
    reads.launch()
    reads.read(src_offset=np.int64(0))
    reads.check()


@case
def other_offsets() -> None:
    reads = Reads(nbytes=READ)
    reads.until_again(src_offset=64)
    for offset in (0, 64, 128, 4, 64, 64):
        for _ in range(3):
            reads.launch()
            reads.read(src_offset=offset)
            reads.check(offset=offset)


@case
def sub_buffers() -> None:
    reads = Reads(nbytes=READ)
    reads.until_again()
    for origin in (512, 0, 512, 0):
        part = reads.buffer.get_sub_region(origin, READ)
        for _ in range(3):
            reads.launch()
            reads.read(buffer=part)
            reads.check(offset=origin)
            reads.read()
            reads.check()


@case
def a_sub_buffer_that_the_host_must_not_read() -> None:
    reads = Reads(nbytes=READ)
    reads.until_again()
    hidden = reads.buffer.get_sub_region(0, READ, cl.mem_flags.HOST_NO_ACCESS)
    before = reads.host.copy()
    reads.launch()
    assert "INVALID_OPERATION" in _said(lambda: reads.read(buffer=hidden))
    assert (reads.host == before).all()


@case
def what_else_writes_the_buffer() -> None:
    reads = Reads()
    other = np.random.default_rng(1).integers(0, 2**32, N, dtype=np.uint32)
    source = reads.new(other)

    def write() -> None:
        cl.enqueue_copy(reads.queue, reads.buffer, other)
        reads.array = other

    def write_part() -> None:
        cl.enqueue_copy(reads.queue, reads.buffer, other[:8], dst_offset=32)
        reads.array = np.concatenate([reads.array[:8], other[:8], reads.array[16:]])

    def fill() -> None:
        cl.enqueue_fill_buffer(reads.queue, reads.buffer, np.uint32(7), 0, 4 * N)
        reads.array = np.full(N, 7, np.uint32)

    def copy() -> None:
        cl.enqueue_copy(reads.queue, reads.buffer, source)
        reads.array = other

    def take() -> None:
        reads.take(reads.queue, (N,), (GROUP,), reads.buffer, source)
        reads.array = other

    def mapped() -> None:
        flags = cl.map_flags.READ | cl.map_flags.WRITE
        array, _ = cl.enqueue_map_buffer(reads.queue, reads.buffer, flags, 0, (N,), np.uint32)
        array[:] = other
        array.base.release(reads.queue)
        reads.array = other

    def rectangle() -> None:
        cl.enqueue_copy(
            reads.queue, reads.buffer, other, buffer_origin=(0, 0), host_origin=(0, 0), region=(64, 4)
        )  # fmt: skip
        reads.array = np.concatenate([other[:64], reads.array[64:]])

    changes = (write, write_part, fill, copy, take, mapped, rectangle)
    for change in (*changes, *changes):
        reads.until_again()
        change()
        reads.read()
        reads.check()


@case
def a_smaller_launch() -> None:
    """Of fewer workers than the last one, or of another one."""
    reads = Reads()
    for items in (GROUP, N, GROUP, N // 2):
        reads.until_again()
        reads.add(reads.queue, (items,), (GROUP,), reads.buffer, np.uint32(9))
        reads.array = reads.array + np.where(np.arange(N) < items, np.uint32(9), np.uint32(0)).astype(
            np.uint32
        )
        reads.read()
        reads.check()


@case
def a_wait_list() -> None:
    """The read waits for the program, and for a launch in another queue which does."""
    reads = Reads()
    reads.until_again()
    other = cl.CommandQueue(reads.context)
    for behind in (False, True):
        gate = cl.UserEvent(reads.context)
        awaited = reads.launch(other, wait_for=[gate]) if behind else gate
        timer = threading.Timer(0.05, gate.set_status, [0])
        timer.start()
        reads.read(wait_for=[awaited])
        assert gate.command_execution_status == cl.command_execution_status.COMPLETE, "it did not wait"
        reads.check()
        timer.join()


@case
def buffers_that_come_and_go() -> None:
    """The first read of each, behind its launch, as PyOpenCL's arrays are read; from a byte on, into an array that is smaller."""
    from vdev.start.current import current_session

    reads, before = Reads(), made[0]
    reads.until_again()
    for step in range(24):
        reads.buffer = reads.new(reads.array)
        launched, host = reads.launch(), np.zeros(8, np.uint32)
        reads.read(host, src_offset=4 * step, wait_for=[launched, launched])
        reads.check(host, 4 * step)
    is_split = os.environ.get("VDEV_PLANNING") == "always" and len(current_session().workers) > 1
    assert is_split or made[0] - before > 12


@case
def buffers_that_are_gone() -> None:
    """Nothing that was kept of their reads and writes keeps their memory, though a kernel has them as arguments."""
    writes = Writes()
    writes.until_again()
    for _ in range(3):
        writes.write()
        writes.read()
    holdings = weakref.ref(writes.buffer._vdev_state.buffer.holdings)
    writes.buffer = None
    others = [writes.new(writes.array) for _ in range(2)]
    for step in range(2000):  # what it was used by is forgotten behind the next marks
        writes.take(writes.queue, (N,), (GROUP,), *others)
        if step % 20 == 0:
            writes.queue.finish()
            time.sleep(0.001)
        if holdings() is None:
            break
    assert holdings() is None


@case
def a_buffer_that_comes_behind_others_launches() -> None:
    """The first read of one that one worker has waits for launches of all workers, in a queue that keeps no order."""
    out_of_order = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    reads = Reads()
    other = cl.CommandQueue(reads.context, properties=out_of_order)
    array = np.full(GROUP, 7, np.uint32)
    for _ in range(12):
        small = cl.Buffer(reads.context, READ_WRITE, 4 * GROUP)
        given = reads.new(array)
        reads.take(other, (GROUP,), (GROUP,), small, given)
        launched, host = reads.launch(), np.zeros(8, np.uint32)
        reads.read(host, other, small, wait_for=[launched])
        assert launched.command_execution_status == cl.command_execution_status.COMPLETE, "it did not wait"
        assert (host == 7).all(), host
    reads.read()
    reads.check()


@case
def a_buffer_that_comes_behind_the_program() -> None:
    """Its first read waits for what the program says, and fails with that."""
    reads = Reads()
    reads.until_again()
    for status in (0, -5):
        reads.buffer = reads.new(reads.array)
        launched, gate, host = reads.launch(), cl.UserEvent(reads.context), np.zeros(8, np.uint32)
        timer = threading.Timer(0.05, gate.set_status, [status])
        timer.start()
        found = _said(
            lambda host=host, gate=gate, launched=launched: reads.read(host, wait_for=[gate, launched])
        )  # type: ignore[misc]
        assert gate.command_execution_status == status, "it did not wait"
        timer.join()
        assert ("EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST" in found) is (status < 0), found
        if not status:
            reads.check(host)


@case
def a_launch_that_waits_for_the_program() -> None:
    """In the read's queue, which keeps the order."""
    reads = Reads()
    reads.until_again()
    gate = cl.UserEvent(reads.context)
    reads.launch(wait_for=[gate])
    timer = threading.Timer(0.05, lambda: gate.set_status(0))
    timer.start()
    reads.read()
    reads.check()
    timer.join()


@case
def a_barrier() -> None:
    """In a queue that keeps no order: the read comes behind what the barrier waits for."""
    out_of_order = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    reads = Reads()
    reads.queue = cl.CommandQueue(reads.context, properties=out_of_order)
    reads.until_again()
    other, gate = cl.CommandQueue(reads.context), cl.UserEvent(reads.context)
    launched = reads.launch(other, wait_for=[gate])
    cl.enqueue_barrier(reads.queue, wait_for=[launched])
    timer = threading.Timer(0.05, lambda: gate.set_status(0))
    timer.start()
    reads.read()
    reads.check()
    timer.join()


@case
def a_barrier_behind_other_workers() -> None:
    """All that came before the barrier has ended, whatever it has to do with the bytes that are read."""
    out_of_order = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    reads = Reads()
    reads.queue = cl.CommandQueue(reads.context, properties=out_of_order)
    other, second = reads.new(reads.array), cl.CommandQueue(reads.context)
    for _ in range(3):
        reads.until_again()
        event = reads.add(reads.queue, (N,), (GROUP,), other, np.uint32(1))
        cl.enqueue_barrier(reads.queue)
        for _ in range(3):  # what the read's worker does is known to be done
            reads.read(queue=second)
        reads.read()
        reads.check()
        assert event.command_execution_status == cl.command_execution_status.COMPLETE


@case
def another_queue() -> None:
    """Behind all that it was given, though the buffer's last reads were in others."""
    reads = Reads()
    other = cl.CommandQueue(reads.context)
    for _ in range(3):
        reads.until_again()
        reads.launch(other)
        reads.read(queue=other)
        reads.check()
        gate = cl.UserEvent(reads.context)
        reads.launch(other, wait_for=[gate])
        timer = threading.Timer(0.02, gate.set_status, [0])
        timer.start()
        reads.read(queue=other)
        reads.check()
        timer.join()


@case
def a_queue_that_takes_times() -> None:
    reads = Reads()
    reads.until_again()
    timed = cl.CommandQueue(reads.context, properties=cl.command_queue_properties.PROFILING_ENABLE)
    for _ in range(3):
        reads.launch()
        reads.queue.finish()
        event = reads.read(queue=timed)
        reads.check()
        assert event.profile.end >= event.profile.start > 0


@case
def a_read_of_another_part_that_went_another_way() -> None:
    """What was kept is still the first part's."""
    reads = Reads(nbytes=READ)
    timed = cl.CommandQueue(reads.context, properties=cl.command_queue_properties.PROFILING_ENABLE)
    other, spare = reads.new(reads.array), np.zeros(N, np.uint32)
    reads.take(reads.queue, (N,), (GROUP,), other, other)
    for _ in range(4):
        reads.until_again(src_offset=64)
        reads.launch()
        reads.queue.finish()
        reads.read(queue=timed, src_offset=128)
        reads.check(offset=128)
        for _ in range(3):  # what its worker does is known to be done
            reads.read(spare, buffer=other)
        reads.read(src_offset=128)
        reads.check(offset=128)


@case
def a_queue_after_its_end() -> None:
    reads = Reads()
    reads.until_again()
    with reads.queue:
        reads.launch()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        reads.read()
    reads.check()
    assert [each.category for each in caught] == [cl.CommandQueueUsedAfterExit]


@case
def a_queue_of_another_context() -> None:
    other = cl.CommandQueue(cl.create_some_context(interactive=False))
    _same_error(lambda reads, buffer: reads.read(queue=other, buffer=buffer))


@case
def a_buffer_that_was_released() -> None:
    def released(reads: Reads, buffer: cl.Buffer) -> None:
        wrapper = cl.Buffer.from_int_ptr(buffer.int_ptr)
        buffer.release()
        wrapper.release()
        cl._cl._enqueue_read_buffer(reads.queue, buffer, reads.host)

    _same_error(released)


class Writes(Reads):
    """The same for writes: of `given`, from a byte on, behind a launch."""

    def __init__(self) -> None:
        super().__init__()
        self.given = np.arange(WRITTEN, dtype=np.uint32)

    def write(
        self, given: Any = None, offset: Any = 0, queue: Any = None, buffer: Any = None, **more: Any
    ) -> Any:
        given = self.given if given is None else given
        found = cl.enqueue_copy(queue or self.queue, buffer or self.buffer, given, dst_offset=offset, **more)
        self.put(given, offset)
        return found

    def put(self, given: Any, offset: int) -> None:
        """What is expected of a write."""
        whole = bytearray(self.array.tobytes())
        whole[offset : offset + given.nbytes] = given.tobytes("A")
        self.array = np.frombuffer(bytes(whole), np.uint32)

    def until_written_again(self, offset: int = 0) -> None:
        in_a_row = 0
        for number in range(200):
            self.launch()
            before, self.given[:] = written[0], number
            self.write(offset=offset)
            self.given[:] = 99  # its bytes have been taken
            in_a_row = in_a_row + 1 if written[0] > before else 0
            if in_a_row == 2 or (IS_SPLIT and number == 4):
                return
            time.sleep(0.0002)
        raise AssertionError("no write was made again")

    def check_all(self) -> None:
        host = np.zeros(N, np.uint32)
        self.read(host)
        self.check(host)


def _same_error_of_writes(change: Callable[[Writes, cl.Buffer], object]) -> None:
    writes = Writes()
    writes.until_written_again()
    _same_of_another(writes, change)


@case
def writes_of_other_arrays() -> None:
    writes = Writes()
    writes.until_written_again()
    before = written[0]
    fixed = np.full(WRITTEN, 5, np.uint32)
    fixed.flags.writeable = False
    whole = np.random.default_rng(3).integers(0, 2**32, (3, WRITTEN), dtype=np.uint32)
    for given in (fixed, whole[1], whole[2].view(np.float32), whole[0].reshape(2, -1)):
        for _ in range(2):
            writes.launch()
            writes.write(given)
            writes.check_all()
    assert written[0] > before or IS_SPLIT, "none was made again"
    scrambled = np.asfortranarray(whole[0].reshape(2, -1))
    writes.launch()
    writes.write(scrambled)
    writes.check_all()
    for count in (1, WRITTEN // 2, WRITTEN):
        writes.launch()
        writes.write(whole[0, :count])
        writes.check_all()


@case
def writes_that_are_wrong() -> None:
    gaps = np.zeros(2 * WRITTEN, np.uint32)[::2]
    _same_error_of_writes(lambda writes, buffer: writes.write(gaps, buffer=buffer))
    _same_error_of_writes(lambda writes, buffer: writes.write(offset=4 * N - 4, buffer=buffer))
    _same_error_of_writes(lambda writes, buffer: writes.write(offset=0.0, buffer=buffer))
    _same_error_of_writes(lambda writes, buffer: writes.write(is_blocking=1, buffer=buffer))
    other = cl.CommandQueue(cl.create_some_context(interactive=False))
    _same_error_of_writes(lambda writes, buffer: writes.write(queue=other, buffer=buffer))

    def released(writes: Writes, buffer: cl.Buffer) -> None:
        buffer.release()
        cl._cl._enqueue_write_buffer(writes.queue, buffer, writes.given)

    _same_error_of_writes(released)


@case
def writes_at_other_offsets() -> None:
    writes = Writes()
    for offset in (64, 0, 64, 4, 64):
        writes.until_written_again(offset)
        for other in (0, offset, 32, offset):
            writes.launch()
            writes.write(offset=other)
            writes.check_all()
    timed = cl.CommandQueue(writes.context, properties=cl.command_queue_properties.PROFILING_ENABLE)
    for _ in range(4):
        writes.until_written_again()
        writes.queue.finish()
        writes.write(offset=128, queue=timed)
        timed.finish()
        for given in (7, 8):
            writes.given[:] = given
            writes.write(offset=128)
            writes.check_all()
    twice = np.arange(2 * WRITTEN, dtype=np.uint32)
    for _ in range(4):
        box = {"buffer_origin": (0, 0), "host_origin": (4 * WRITTEN, 0), "region": (4 * WRITTEN, 1)}
        for _ in range(3):
            cl.enqueue_copy(writes.queue, writes.buffer, twice, **box)
        writes.put(twice[WRITTEN:], 0)
        writes.check_all()
        for _ in range(3):
            writes.write()
            writes.check_all()
    part = writes.buffer.get_sub_region(512, 256)
    writes.until_written_again()
    for _ in range(3):
        cl.enqueue_copy(writes.queue, part, writes.given)
        writes.put(writes.given, 512)
        writes.check_all()
    hidden = writes.buffer.get_sub_region(0, 256, cl.mem_flags.HOST_READ_ONLY)
    assert "INVALID_OPERATION" in _said(lambda: cl.enqueue_copy(writes.queue, hidden, writes.given))
    writes.check_all()


@case
def writes_behind_what_changes_the_buffer() -> None:
    writes = Writes()
    source = writes.new(np.full(N, 3, np.uint32))

    def copy() -> None:
        cl.enqueue_copy(writes.queue, writes.buffer, source)

    def take() -> None:
        writes.take(writes.queue, (N,), (GROUP,), writes.buffer, source)

    def mapped() -> None:
        array, _ = cl.enqueue_map_buffer(writes.queue, writes.buffer, cl.map_flags.WRITE, 0, (N,), np.uint32)
        array[:] = 3
        array.base.release(writes.queue)

    def large() -> None:
        cl.enqueue_copy(writes.queue, writes.buffer, np.full(N, 3, np.uint32))

    for change in (copy, take, mapped, large) * 2:
        writes.until_written_again()
        change()
        writes.array = np.full(N, 3, np.uint32)
        writes.write()
        writes.check_all()


@case
def writes_behind_what_waits_for_the_program() -> None:
    """In the same queue, and in another one that a barrier or a wait list makes it wait for."""
    out_of_order = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    for how in ("queue", "barrier", "wait list"):
        writes = Writes()
        if how == "barrier":
            writes.queue = cl.CommandQueue(writes.context, properties=out_of_order)
        writes.until_written_again()
        gate, other = cl.UserEvent(writes.context), cl.CommandQueue(writes.context)
        launched = writes.launch(writes.queue if how == "queue" else other, wait_for=[gate])
        if how == "barrier":
            cl.enqueue_barrier(writes.queue, wait_for=[launched])
        timer = threading.Timer(0.05, gate.set_status, [0])
        timer.start()
        writes.write(wait_for=[launched] if how == "wait list" else None)
        writes.check_all()
        timer.join()


@case
def writes_from_what_is_being_read() -> None:
    """What a read brings is what is written."""
    writes = Writes()
    content = np.random.default_rng(4).integers(0, 2**32, WRITTEN, dtype=np.uint32)
    source, second = writes.new(content), cl.CommandQueue(writes.context)
    writes.take(writes.queue, (WRITTEN,), (WRITTEN,), source, source)
    for _ in range(5):
        writes.until_written_again()
        writes.queue.finish()
        event = writes.read(writes.given, queue=second, buffer=source, is_blocking=False)
        cl.enqueue_copy(writes.queue, writes.buffer, writes.given)
        event.wait()
        writes.put(content, 0)
        writes.check_all()


@case
def writes_beside_other_readers() -> None:
    """What was asked for before the write gets what was there before it."""
    writes = Writes()
    target = writes.new(np.zeros(N, np.uint32))
    second = cl.CommandQueue(writes.context)
    for _ in range(5):
        writes.until_written_again()
        writes.queue.finish()
        expected = writes.array
        writes.take(second, (N,), (GROUP,), target, writes.buffer)
        writes.write()
        found = np.zeros(N, np.uint32)
        cl.enqueue_copy(second, found, target)
        assert (found == expected).all()
        writes.check_all()


@case
def events_of_writes() -> None:
    """They say when the write has ended, its times where the queue takes them, and keep what was written until they are waited for."""
    writes = Writes()
    writes.until_written_again()
    writes.launch()
    event = writes.write()
    assert event.get_ward() is writes.given
    assert event.command_type == cl.command_type.WRITE_BUFFER
    event.wait()
    assert event.get_ward() is None
    assert event.command_execution_status == cl.command_execution_status.COMPLETE
    timed = cl.CommandQueue(writes.context, properties=cl.command_queue_properties.PROFILING_ENABLE)
    writes.queue.finish()
    event = writes.write(queue=timed)
    event.wait()
    assert event.profile.end >= event.profile.start > 0
    with writes.queue:
        writes.launch()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        writes.write()
    assert [each.category for each in caught] == [cl.CommandQueueUsedAfterExit]
    writes.queue = cl.CommandQueue(writes.context)
    writes.check_all()


@case
def figures_of_writes() -> None:
    from vdev.start.current import current_session

    writes = Writes()
    writes.until_written_again()
    session = current_session()
    assert session is not None
    with session.observing() as ledger:
        tally = ledger.command("write")
        count, moved, before = tally.count, tally.moved.host_to_worker, written[0]
    for _ in range(20):
        writes.launch()
        writes.write()
    writes.check_all()
    assert written[0] > before or IS_SPLIT
    assert tally.count == count + 20
    assert tally.moved.host_to_worker == moved + 20 * writes.given.nbytes


#: whether there is one worker, on which all new buffers begin
IS_ALONE = os.environ.get("VDEV_WORKERS") == "cuda:0"


@case
def first_writes_of_new_buffers() -> None:
    """At any place, in any queue, behind launches and before them; each is counted."""
    from vdev.start.current import current_session

    writes, expected = Writes(), np.zeros(N, np.uint32)
    out_of_order = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    timed = cl.command_queue_properties.PROFILING_ENABLE
    queues = [cl.CommandQueue(writes.context, properties=each) for each in (0, out_of_order, timed)]
    session, random = current_session(), np.random.default_rng(5)
    assert session is not None
    with session.observing() as ledger:
        tally = ledger.command("write")
        count, moved = tally.count, tally.moved.host_to_worker
    before, made, nbytes = first_written[0], 0, 0
    for number in range(60):
        queue, whole = queues[number % 3], random.integers(0, 2**32, N, dtype=np.uint32)
        buffer = cl.Buffer(writes.context, READ_WRITE, 4 * N)
        events = [cl.enqueue_copy(queue, buffer, whole)]
        writes.add(queue, (N,), (GROUP,), buffer, np.uint32(number), wait_for=events)
        expected = whole + np.uint32(number)
        for start in random.integers(0, N - WRITTEN, 4):
            given = random.integers(0, 2**32, WRITTEN, dtype=np.uint32)
            queue.finish()
            event = cl.enqueue_copy(queue, buffer, given, dst_offset=4 * int(start))
            expected[start : start + WRITTEN] = given
            given[:] = 99  # its bytes have been taken
        made, nbytes = made + 5, nbytes + 4 * N + 4 * 4 * WRITTEN
        assert (_read(queue, buffer) == expected).all(), number
        if number % 3 == 2:
            assert event.profile.end >= event.profile.start > 0
    assert first_written[0] - before > (100 if IS_ALONE else -1), "none took another look"
    assert tally.count - count == made
    assert tally.moved.host_to_worker - moved == nbytes or not IS_ALONE


def _read(queue: cl.CommandQueue, buffer: cl.Buffer) -> np.ndarray:
    queue.finish()
    found = np.zeros(N, np.uint32)
    cl.enqueue_copy(queue, found, buffer)
    return found


@case
def first_writes_behind_what_waits_for_the_program() -> None:
    """Those of other buffers, too, come behind what their queue waits for."""
    writes = Writes()
    for number in range(6):
        given = np.full(WRITTEN, number + 5, np.uint32)
        gate = cl.UserEvent(writes.context)
        buffer = cl.Buffer(writes.context, READ_WRITE, 4 * N)
        cl.enqueue_copy(writes.queue, buffer, np.full(N, number, np.uint32))
        writes.add(writes.queue, (N,), (GROUP,), buffer, np.uint32(1), wait_for=[gate])
        before = first_written[0]
        event = cl.enqueue_copy(writes.queue, buffer, given, dst_offset=64, is_blocking=False)
        assert first_written[0] == before, "it is held back"
        gate.set_status(0)
        event.wait()
        expected = np.full(N, number + 1, np.uint32)
        expected[16 : 16 + WRITTEN] = given
        assert (_read(writes.queue, buffer) == expected).all(), number


@case
def earlier_commands_have_ended() -> None:
    """Those before it in its queue, wherever they are made."""
    reads = Reads()
    other = reads.new(reads.array)
    for _ in range(5):
        reads.until_again()
        event = reads.add(reads.queue, (N,), (GROUP,), other, np.uint32(1))
        reads.read()
        reads.check()
        assert event.command_execution_status == cl.command_execution_status.COMPLETE
    before = made[0]
    for _ in range(5):
        event = reads.launch()  # which all workers do, also those whose bytes are not read
        reads.read()
        assert event.command_execution_status == cl.command_execution_status.COMPLETE
        reads.check()
    assert made[0] > before


@case
def reads_that_nobody_waits_for() -> None:
    """Into the same array: what was asked for last is there in the end."""
    reads = Reads()
    other = np.random.default_rng(2).integers(0, 2**32, N, dtype=np.uint32)
    source = reads.new(other)
    reads.take(reads.queue, (N,), (GROUP,), source, source)
    second = cl.CommandQueue(reads.context)
    for _ in range(5):
        reads.until_again()
        reads.queue.finish()
        event = reads.read(queue=second, buffer=source, is_blocking=False)
        reads.launch()
        reads.read()
        reads.check()
        event.wait()
        reads.check()


@case
def shared_memory_of_the_program() -> None:
    """Other arrays are read into and written from as ever; those that lie in it are the device's between two mappings."""
    writes = Writes()
    shared = cl.svm_empty(writes.context, cl.svm_mem_flags.READ_WRITE, N, np.uint32)
    writes.until_written_again()
    writes.until_again()
    newest, pointer = np.arange(7, 7 + N, dtype=np.uint32), cl.SVM(shared)
    writes.take(writes.queue, (N,), (GROUP,), pointer, writes.new(newest))
    before = made[0], written[0]
    cl.enqueue_copy(writes.queue, writes.buffer, shared[:WRITTEN])
    writes.put(newest[:WRITTEN], 0)
    writes.read(shared[: writes.host.size])
    with pointer.map_ro(writes.queue) as mapped:
        writes.check(mapped[: writes.host.size])
    assert (made[0], written[0]) == before
    writes.check_all()


@case
def mappings_of_shared_memory() -> None:
    """They are made and ended like those of buffers; where two overlap, what the host has written counts."""
    reads = Reads()
    shared = cl.svm_empty(reads.context, cl.svm_mem_flags.READ_WRITE, N, np.uint32)
    pointer, expected, ended = cl.SVM(shared), np.zeros(N, np.uint32), 0
    with pointer.map_rw(reads.queue) as mapped:
        mapped[:] = 0
    for number in range(20):
        reads.add(reads.queue, (N,), (GROUP,), pointer, np.uint32(1))
        before = mapped_back[0]
        with pointer.map_rw(reads.queue) as mapped:
            expected += np.uint32(1)
            assert (mapped == expected).all()
            mapped[number] = expected[number] = 100
        ended += mapped_back[0] - before
    assert IS_SPLIT or ended > 10, ended
    before = mapped_back[0]
    with pointer.map_rw(reads.queue) as first:
        with pointer.map_rw(reads.queue) as second:
            second[0] = expected[0] = 5
        first[1] = expected[1] = 6
    assert mapped_back[0] == before
    reads.add(reads.queue, (N,), (GROUP,), pointer, np.uint32(1))
    with pointer.map_ro(reads.queue) as mapped:
        assert (mapped == expected + np.uint32(1)).all()


class Mappings(Reads):
    """The same, of a buffer that is mapped again and again."""

    def map(
        self, how: int = BOTH, span: tuple[int, int] = (0, N), queue: Any = None, buffer: Any = None
    ) -> Any:
        """The array of a mapping, which has what the buffer holds, unless the program gives that up."""
        (start, stop), queue = span, queue or self.queue
        array, event = cl.enqueue_map_buffer(
            queue, buffer or self.buffer, how, 4 * start, (stop - start,), np.uint32
        )
        assert event.command_type == cl.command_type.MAP_BUFFER
        if how & READS:
            assert (array == self.array[start:stop]).all(), (array, self.array[start:stop])
        return array

    def end(self, array: np.ndarray, start: int = 0, given: int | None = None) -> cl.Event:
        """End it, after the program has written to all of it if anything is given."""
        if given is not None:
            array[:] = given
            self.array = self.array.copy()
            self.array[start : start + array.size] = given
        return array.base.release(self.queue)

    def until_mapped_again(self, how: int = BOTH) -> None:
        """Launch and map until two mappings one after the other were made again."""
        in_a_row = 0
        for number in range(
            6 if IS_SPLIT else 200
        ):  # what several workers have a part of is never mapped again
            self.launch()
            before = mapped_again[0]
            self.end(self.map(how), given=number if how != READS else None)
            in_a_row = in_a_row + 1 if mapped_again[0] > before else 0
            if in_a_row == 2:
                return
            time.sleep(0.0002)  # the workers' threads are through
        assert IS_SPLIT, "no mapping was made again"


@case
def mappings_again() -> None:
    """Of the same bytes and of others, for reading, for writing and for both, one after the other and several at once."""
    maps = Mappings()
    part = maps.buffer.get_sub_region(512, 256)
    for how in (BOTH, READS, WRITES) * 2:
        maps.until_mapped_again(how)
        before = mapped_again[0]
        for number in range(12):
            maps.launch()
            maps.end(maps.map(how), given=None if how == READS else number)
        assert IS_SPLIT or mapped_again[0] >= before + 10
        maps.launch()
        maps.end(maps.map(how, (8, 24)), 8, None if how == READS else 5)
        maps.launch()
        maps.read()
        maps.check()
        for other in (BOTH, READS, WRITES):
            maps.launch()
            maps.end(maps.map(other), given=None if other == READS else other)
            maps.launch()
            maps.end(maps.map(other, (8, 24)), 8, None if other == READS else other + 1)
            maps.launch()
            first, second = maps.map(READS), maps.map(READS)
            maps.end(first), maps.end(second)
        maps.launch()
        array, _ = cl.enqueue_map_buffer(maps.queue, part, BOTH, 0, (8, 8), np.float32, "F")
        assert array.T.tobytes() == maps.array[128:192].tobytes()
        array.base.release(maps.queue)
        array = maps.map(READS)
        maps.launch()  # what is mapped for reading may be read meanwhile
        maps.end(array)
        maps.read()
        maps.check()


@case
def mappings_of_the_programs_memory() -> None:
    """The mapping is that memory, and what the program writes there while it is mapped counts."""
    maps = Mappings()
    mine = np.arange(N, dtype=np.uint32)
    maps.array = mine.copy()
    maps.buffer = cl.Buffer(maps.context, READ_WRITE | cl.mem_flags.USE_HOST_PTR, hostbuf=mine)
    maps.until_mapped_again()
    for number in range(20):
        maps.launch()
        array = maps.map()
        assert array.ctypes.data == mine.ctypes.data
        mine[number] = 7
        maps.array = maps.array.copy()
        maps.array[number] = 7
        maps.end(array)
    maps.read()
    maps.check()


@case
def mappings_behind_their_queue() -> None:
    """Whatever is mapped: all before it has ended, and the end of the mapping comes before what follows."""
    for how in (BOTH, READS, WRITES):
        maps = Mappings()
        maps.until_mapped_again(how)
        for number in range(20):
            launched = maps.launch()
            array = maps.map(how)
            ended = launched._vdev_state
            assert is_complete(ended.stretch.completion if type(ended) is Part else ended)
            event = maps.end(array, given=None if how == READS else number)
            maps.launch()
            event.wait()
        other, gate = cl.CommandQueue(maps.context), cl.UserEvent(maps.context)
        launched = maps.launch(other, wait_for=[gate])
        cl.enqueue_barrier(maps.queue, wait_for=[launched])
        timer = threading.Timer(0.05, gate.set_status, [0])
        timer.start()
        maps.end(maps.map(how), given=None if how == READS else 9)
        timer.join()
        maps.read()
        maps.check()


@case
def mappings_behind_what_changes_the_buffer() -> None:
    maps = Mappings()
    source = maps.new(np.full(N, 3, np.uint32))
    changes: tuple[Callable[[], object], ...] = (
        lambda: cl.enqueue_copy(maps.queue, maps.buffer, source),
        lambda: maps.take(maps.queue, (N,), (GROUP,), maps.buffer, source),
        lambda: cl.enqueue_copy(maps.queue, maps.buffer, np.full(N, 3, np.uint32)),
        lambda: cl.enqueue_fill_buffer(maps.queue, maps.buffer, np.uint32(3), 0, 4 * N),
        lambda: cl.enqueue_migrate_mem_objects(maps.queue, [maps.buffer], cl.mem_migration_flags.HOST),
    )
    for how in (BOTH, WRITES):
        for change in changes:
            maps.until_mapped_again(how)
            if change is changes[-1]:
                maps.launch()
            else:
                maps.array = np.full(N, 3, np.uint32)
            change()
            maps.end(maps.map(how), given=4)
            maps.launch()
            maps.read()
            maps.check()


@case
def what_is_wrong_with_mappings() -> None:
    maps, context = Mappings(), cl.create_some_context(interactive=False)
    maps.until_mapped_again()
    elsewhere = cl.CommandQueue(context)

    def ask(buffer: Any, queue: Any = maps.queue, how: Any = BOTH, offset: Any = 0, shape: Any = (N,)) -> Any:
        return cl.enqueue_map_buffer(queue, buffer, how, offset, shape, np.uint32)[0]

    changes: tuple[Callable[[Mappings, cl.Buffer], object], ...] = (
        lambda _, buffer: ask(buffer, how=float(BOTH)),
        lambda _, buffer: ask(buffer, offset=0.0),
        lambda _, buffer: ask(buffer, elsewhere),
        lambda _, buffer: ask(buffer, None),
        lambda _, buffer: ask(buffer, offset=4),
        lambda _, buffer: ask(buffer, shape=(N + 1,)),
        lambda _, buffer: ask(buffer, shape="many"),
        lambda _, buffer: [buffer.release(), ask(buffer)],
    )
    for change in changes:
        _same_of_another(maps, change)


@case
def figures_of_mappings() -> None:
    """Each is counted, and its bytes are, as what it is."""
    from vdev.start.current import current_session

    maps = Mappings()
    maps.until_mapped_again()
    with current_session().observing() as ledger:
        tallies = [ledger.command(kind) for kind in ("map", "unmap", "read", "write")]
        before = [(each.count, each.moved.worker_to_host, each.moved.host_to_worker) for each in tallies]
    for number in range(20):
        maps.launch()
        maps.end(maps.map(), given=number)
    now = [(each.count, each.moved.worker_to_host, each.moved.host_to_worker) for each in tallies]
    more = [tuple(np.subtract(*both).tolist()) for both in zip(now, before, strict=True)]
    assert IS_SPLIT or more == [(20, 20 * 4 * N, 0), (20, 0, 20 * 4 * N), (0, 0, 0), (0, 0, 0)], more


@case
def threads() -> None:
    """Each reads what it has written, while others do the same with other buffers and with the same queue."""
    reads = Reads()
    reads.until_again()
    wrong: list[str] = []

    def run(number: int) -> None:
        queue = reads.queue if number % 2 else cl.CommandQueue(reads.context)
        mine = cl.Kernel(reads.add.program, "add")
        mine.set_arg_types([None, np.uint32])
        expected, host = np.arange(N, dtype=np.uint32) * np.uint32(number), np.zeros(N, np.uint32)
        buffer = reads.new(expected)
        for step in range(150):
            mine(queue, (N,), (GROUP,), buffer, np.uint32(step))
            expected = expected + np.uint32(step)
            cl.enqueue_copy(queue, host, buffer)
            if (host != expected).any():
                wrong.append(f"thread {number}, step {step}")

    running = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert wrong == []


@case
def figures() -> None:
    """Each read is counted, and its bytes are."""
    from vdev.start.current import current_session

    reads = Reads()
    reads.until_again()
    with current_session().observing() as ledger:
        tally = ledger.command("read")
        count, moved = tally.count, tally.moved.worker_to_host
        waits = current_session().executor.waits
    for _ in range(20):
        reads.launch()
        reads.read()
        reads.check()
    assert tally.count == count + 20
    assert tally.moved.worker_to_host == moved + 20 * reads.host.nbytes
    assert current_session().executor.waits >= waits + 20


def main_watched() -> None:
    """Where somebody wants to see each command, none is made again unseen."""
    writes = Writes()
    for number in range(40):
        writes.launch()
        writes.given[:] = number
        writes.write()
        writes.read()
        writes.check()
    print(json.dumps({"reads": made[0], "writes": written[0]}))


def main() -> None:
    found = {}
    for name, function in CASES.items():
        try:
            function()
            found[name] = ""
        except Exception:
            found[name] = traceback.format_exc(limit=-2)
    print(json.dumps(found))


if __name__ == "__main__":
    sys.exit(main())
