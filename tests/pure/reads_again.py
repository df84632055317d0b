"""What may come between a small read and the next one like it: cases that `test_reads_again` runs in a process of its own
(`transfer_cases`).

Each reads a buffer until that is made again as it was, changes one thing, and does it once more.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pyopencl as cl

from vdev.executor import direct_reads

from .transfer_cases import (
    GROUP,
    READ,
    READ_WRITE,
    Buffers,
    N,
    case,
    check_that_reads_are_counted,
    counted,
    opened_later,
    run_at_once,
    said,
    same_error,
    until_again,
)

made = counted(direct_reads.RepeatedRead, "make")  #: reads that were made again


class Reads(Buffers):
    """The same, read again and again."""

    def __init__(self, nbytes: int = 4 * READ) -> None:
        super().__init__()
        self.host = np.zeros(nbytes // 4, np.uint32)

    def read(
        self, host: Any = None, queue: cl.CommandQueue | None = None, buffer: Any = None, **more: Any
    ) -> Any:
        host = self.host if host is None else host
        return cl.enqueue_copy(queue or self.queue, host, buffer or self.buffer, **more)

    def until_again(self, **more: Any) -> None:
        """Launch and read until two reads one after the other were made again."""

        def make(_: int) -> None:
            self.launch()
            self.read(**more)
            self.check(offset=more.get("src_offset", 0))

        until_again(made, make)


def _same_error(change: Callable[[Reads, cl.Buffer], object]) -> None:
    """Of a buffer that is read again and of one that was never read."""
    reads = Reads()
    reads.until_again()
    same_error(reads, change)


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
    assert "INVALID_OPERATION" in said(lambda: reads.read(buffer=hidden))
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
        with opened_later(gate):
            reads.read(wait_for=[awaited])
            assert gate.command_execution_status == cl.command_execution_status.COMPLETE, "it did not wait"
            reads.check()


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
        with opened_later(gate, status):
            found = said(
                lambda host=host, gate=gate, launched=launched: reads.read(host, wait_for=[gate, launched])
            )  # type: ignore[misc]
            assert gate.command_execution_status == status, "it did not wait"
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
    with opened_later(gate):
        reads.read()
        reads.check()


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
    with opened_later(gate):
        reads.read()
        reads.check()


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
        with opened_later(gate, seconds=0.02):
            reads.read(queue=other)
            reads.check()


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

    run_at_once(run)
    assert wrong == []


@case
def figures() -> None:
    """Of each read, and of the wait for it."""
    from vdev.start.current import current_session

    reads = Reads()
    reads.until_again()
    waits = current_session().executor.waits
    check_that_reads_are_counted(reads, reads.read)
    assert current_session().executor.waits >= waits + 20
