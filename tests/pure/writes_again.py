"""What may come between a small write and the next one like it: cases that `test_reads_again` runs in a process of its own
(`transfer_cases`).

Each writes to a buffer until that is made again as it was, changes one thing, and does it once more. Where launches are split, no write
is made again: its queue's last command is that of several workers.
"""

from __future__ import annotations

import json
import os
import time
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pyopencl as cl

from vdev.session.immediate_moves import MovesAtOnce

from .reads_again import Reads, made
from .transfer_cases import (
    GROUP,
    IS_SPLIT,
    READ_WRITE,
    N,
    case,
    counted,
    opened_later,
    said,
    same_error,
    until_again,
)

WRITTEN = 16  #: items of a write

written = counted(MovesAtOnce, "write_again")  #: writes that were made again
first_written = counted(MovesAtOnce, "write_first")  #: first writes of their bytes that took no other look


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
        """Launch and write until two writes one after the other were made again."""

        def make(number: int) -> None:
            self.launch()
            self.given[:] = number
            self.write(offset=offset)
            self.given[:] = 99  # its bytes have been taken

        until_again(written, make, split=5)

    def check_all(self) -> None:
        host = np.zeros(N, np.uint32)
        self.read(host)
        self.check(host)


def _same_error(change: Callable[[Writes, cl.Buffer], object]) -> None:
    writes = Writes()
    writes.until_written_again()
    same_error(writes, change)


@case
def buffers_that_are_gone() -> None:
    """Nothing that was kept of their reads and writes keeps their memory, though a kernel has them as arguments."""
    from vdev.start.current import current_session

    writes = Writes()
    writes.until_again()
    for _ in range(3):
        writes.write()
        writes.read()
    holdings = weakref.ref(writes.buffer._vdev_state.buffer.holdings)
    writes.buffer = None
    current_session().spares.drop()  # where it may serve again
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
    _same_error(lambda writes, buffer: writes.write(gaps, buffer=buffer))
    _same_error(lambda writes, buffer: writes.write(offset=4 * N - 4, buffer=buffer))
    _same_error(lambda writes, buffer: writes.write(offset=0.0, buffer=buffer))
    _same_error(lambda writes, buffer: writes.write(is_blocking=1, buffer=buffer))
    other = cl.CommandQueue(cl.create_some_context(interactive=False))
    _same_error(lambda writes, buffer: writes.write(queue=other, buffer=buffer))

    def released(writes: Writes, buffer: cl.Buffer) -> None:
        buffer.release()
        cl._cl._enqueue_write_buffer(writes.queue, buffer, writes.given)

    _same_error(released)


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
    assert "INVALID_OPERATION" in said(lambda: cl.enqueue_copy(writes.queue, hidden, writes.given))
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
        with opened_later(gate):
            writes.write(wait_for=[launched] if how == "wait list" else None)
            writes.check_all()


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


def main() -> None:
    """Where somebody wants to see each command, none is made again unseen."""
    writes = Writes()
    for number in range(40):
        writes.launch()
        writes.given[:] = number
        writes.write()
        writes.read()
        writes.check()
    print(json.dumps({"reads": made[0], "writes": written[0]}))
