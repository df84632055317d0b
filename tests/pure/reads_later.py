"""Reads that the program does not wait for yet: cases that `test_reads_later` runs in a process of its own (`transfer_cases`).

Each reads until such a read is made again as it was, changes one thing, and does it once more.
"""

from __future__ import annotations

import gc
import os
import random
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyopencl as cl

from vdev.executor.worker_progress import WorkerProgress
from vdev.session.immediate_moves import MovesAtOnce

from .transfer_cases import (
    COMPLETE,
    GROUP,
    IS_SPLIT,
    READ,
    Buffers,
    N,
    case,
    check_that_reads_are_counted,
    counted,
    run_at_once,
    said,
    same_error,
    until_again,
)

#: whether a GPU does nothing until somebody waits for it: then nobody can be told of anything before
IS_LATE = "FAKE_CUDA_LATE" in os.environ

again = counted(MovesAtOnce, "read_later")  #: reads that were made again
awaited = counted(
    WorkerProgress, "_await_arrival", bool
)  #: of these, and others like them, those that were waited for alone


class Reads(Buffers):
    """The same, read again and again, without waiting."""

    def read(self, host: Any = None, buffer: Any = None, queue: Any = None, **more: Any) -> Any:
        host = self.host if host is None else host
        return cl.enqueue_copy(queue or self.queue, host, buffer or self.buffer, is_blocking=False, **more)

    def until_again(self, **more: Any) -> None:
        """Launch, read and wait until two reads one after the other were made again; where launches are split, a few times."""

        def make(_: int) -> None:
            self.launch()
            self.read(**more).wait()
            self.check(offset=more.get("src_offset", 0))

        until_again(again, make, split=9)


def _same_error(change: Callable[[Reads, cl.Buffer], object]) -> None:
    """Of a buffer that is read again and of one that was never read."""
    reads = Reads()
    reads.until_again()
    same_error(reads, change)


@case
def two_arrays_in_turn() -> None:
    """The bytes of one are used while the next launch and read are under way: they are those of their read, not of what follows."""
    reads = Reads()
    reads.until_again()
    alone, hosts = awaited[0], [np.zeros(READ, np.uint32) for _ in range(2)]
    pending: list[tuple[cl.Event, np.ndarray, bytes]] = []
    for number in range(40):
        reads.launch(by=number)
        host = hosts[number % 2]
        pending.append((reads.read(host), host, reads.expected()))
        if len(pending) == 2:
            event, seen, wanted = pending.pop(0)
            event.wait()
            assert event.command_execution_status == COMPLETE
            assert seen.tobytes() == wanted, number
    pending[0][0].wait()
    assert pending[0][1].tobytes() == pending[0][2]
    assert IS_SPLIT or awaited[0] > alone + 20, "reads were waited for with what came behind them"


@case
def other_arrays() -> None:
    reads = Reads()
    reads.until_again()
    whole, before = np.zeros((3, READ), np.uint32), again[0]
    hosts = (
        np.zeros(READ, np.uint32),
        whole[1],
        np.zeros((2, READ // 2), np.float32),
        np.zeros(READ // 2, np.complex64),
    )
    for host in hosts:
        reads.launch()
        reads.read(host).wait()
        reads.check(host)
    assert IS_SPLIT or again[0] > before, "none was made again"
    assert not whole[0].any()
    assert not whole[2].any()


@case
def other_numbers_and_offsets() -> None:
    reads = Reads()
    reads.until_again()
    for count, offset in ((1, 0), (READ // 4, 64), (READ, 0), (READ // 2, 4), (READ // 2, 4), (READ // 2, 0)):
        for _ in range(3):
            host = np.zeros(count, np.uint32)
            reads.launch()
            reads.read(host, src_offset=offset).wait()
            reads.check(host, offset)


@case
def what_is_wrong() -> None:
    fixed, gaps = np.zeros(READ, np.uint32), np.zeros(2 * READ, np.uint32)[::2]
    fixed.flags.writeable = False
    changes: tuple[Callable[[Reads, cl.Buffer], object], ...] = (
        lambda reads, buffer: reads.read(fixed, buffer),
        lambda reads, buffer: reads.read(gaps, buffer),
        lambda reads, buffer: reads.read(np.zeros(N + 1, np.uint32), buffer),
        lambda reads, buffer: reads.read(buffer=buffer, src_offset=4 * N - reads.host.nbytes + 4),
        lambda reads, buffer: reads.read(buffer=buffer, src_offset=-4),
        lambda reads, buffer: reads.read(buffer=buffer, src_offset=0.0),
        lambda reads, buffer: [buffer.release(), reads.read(buffer=buffer)],
    )
    for change in changes:
        _same_error(change)


@case
def what_else_writes_the_buffer() -> None:
    reads = Reads()
    other = np.random.default_rng(1).integers(0, 2**32, N, dtype=np.uint32)
    source = reads.new(other)
    changes: tuple[Callable[[], object], ...] = (
        lambda: cl.enqueue_copy(reads.queue, reads.buffer, other),
        lambda: cl.enqueue_copy(reads.queue, reads.buffer, other, is_blocking=False),
        lambda: cl.enqueue_copy(reads.queue, reads.buffer, source),
        lambda: reads.take(reads.queue, (N,), (GROUP,), reads.buffer, source),
    )
    for change in (*changes, *changes):
        reads.until_again()
        before = reads.expected()
        early, host = reads.read(), np.zeros(READ, np.uint32)
        change()
        reads.array = other
        reads.read(host).wait()
        early.wait()
        reads.check(host)
        assert reads.host.tobytes() == before, "it has what came later"
        cl.enqueue_fill_buffer(reads.queue, reads.buffer, np.uint32(7), 0, 4 * N)
        reads.array = np.full(N, 7, np.uint32)
        reads.read().wait()
        reads.check()


@case
def one_array_for_all() -> None:
    """The last read counts; a write from the array and a blocking read into it come behind those under way."""
    reads = Reads()
    reads.until_again()
    target = reads.new(np.zeros(N, np.uint32))
    for number in range(12):
        for _ in range(3):
            reads.launch(by=number)
            event = reads.read()
        if number % 3 == 0:
            cl.enqueue_copy(reads.queue, target, reads.host, is_blocking=number % 2 == 0)
            seen = np.zeros(READ, np.uint32)
            cl.enqueue_copy(reads.queue, seen, target)
            reads.check(seen)
        elif number % 3 == 1:
            reads.launch()
            cl.enqueue_copy(reads.queue, reads.host, reads.buffer)
            reads.check()
        event.wait()
        reads.check()


@case
def ways_of_waiting() -> None:
    reads = Reads()
    other = cl.CommandQueue(reads.context)

    def poll(event: cl.Event) -> None:
        until = time.monotonic() + 60
        while event.command_execution_status != COMPLETE:
            assert time.monotonic() < until, "it never ends"

    def call_back(event: cl.Event) -> None:
        called = threading.Event()
        event.set_callback(COMPLETE, lambda _: called.set())
        reads.queue.flush()
        assert called.wait(60)

    def follow(event: cl.Event) -> None:
        cl.enqueue_marker(other, wait_for=[event]).wait()

    ways: tuple[Callable[[cl.Event], object], ...] = (
        lambda event: event.wait(),
        lambda event: reads.queue.finish(),
        lambda event: cl.wait_for_events([event]),
        lambda event: reads.launch().wait(),
        follow,
        *(() if IS_LATE else (poll, call_back)),
    )
    for way in ways:
        for _ in range(3):
            reads.until_again()
            reads.launch()
            wanted = reads.expected()
            event = reads.read()
            way(event)
            assert event.command_execution_status == COMPLETE
            assert reads.host.tobytes() == wanted, way


@case
def what_the_program_drops() -> None:
    """A dropped event waits; an array is kept until its bytes are there."""
    reads = Reads()
    reads.until_again()
    for _ in range(8):
        reads.launch()
        reads.read()
        reads.check()
        host = np.zeros(READ, np.uint32)
        view = host[:]
        reads.launch()
        event = reads.read(host)
        assert event.get_ward() is host
        wanted = reads.expected()
        del host
        gc.collect()
        reads.launch()
        event.wait()
        assert event.get_ward() is None
        assert view.tobytes() == wanted


@case
def queues_without_order_and_events() -> None:
    reads = Reads(cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE)
    other = cl.CommandQueue(reads.context)
    for number in range(40):
        launched = reads.launch(by=number)
        event = reads.read(wait_for=[launched] if number % 2 else None) if number % 2 else None
        if event is None:
            launched.wait()
            event = reads.read()
        after = reads.launch(other, wait_for=[event])
        event.wait()
        assert reads.host.tobytes() == (reads.array - np.uint32(1))[:READ].tobytes()
        after.wait()
    gate = cl.UserEvent(reads.context)
    launched = reads.launch(wait_for=[gate])
    event = reads.read(wait_for=[launched])
    assert event.command_execution_status != COMPLETE
    gate.set_status(COMPLETE)
    event.wait()
    reads.check()


@case
def what_has_failed() -> None:
    """A read behind a command that fails fails with it, and the next one is right."""
    reads = Reads()
    reads.until_again()
    gate = cl.UserEvent(reads.context)
    launched = reads.add(reads.queue, (N,), (GROUP,), reads.buffer, np.uint32(1), wait_for=[gate])
    event = reads.read(wait_for=[launched])
    gate.set_status(-5)
    assert "EXEC_STATUS_ERROR" in said(event.wait)
    reads.buffer = reads.new(reads.array)
    reads.until_again()


@case
def times() -> None:
    reads = Reads(cl.command_queue_properties.PROFILING_ENABLE)
    for _ in range(20):
        launched, event = reads.launch(), reads.read()
        reads.launch()
        event.wait()
        profile = event.profile
        assert launched.profile.end <= profile.start <= profile.end
        assert 0 < profile.queued <= profile.submit <= profile.start


@case
def buffers_that_come_and_go() -> None:
    reads = Reads()
    for number in range(24):
        reads.buffer = reads.new(reads.array)
        events = []
        for _ in range(4):
            reads.launch(by=number)
            events.append((reads.read(host := np.zeros(READ, np.uint32)), host, reads.expected()))
        reads.buffer.release()
        for event, host, wanted in events:
            event.wait()
            assert host.tobytes() == wanted


@case
def many_at_once() -> None:
    """More than there is memory for."""
    reads = Reads()
    reads.until_again()
    found = []
    for number in range(100):
        reads.launch(by=number)
        found.append((reads.read(host := np.zeros(READ, np.uint32)), host, reads.expected()))
    random.Random(1).shuffle(found)
    for event, host, wanted in found:
        event.wait()
        assert host.tobytes() == wanted


@case
def threads() -> None:
    """Each reads what it has written, while others do the same with other buffers and with the same queue."""
    reads, wrong = Reads(), list[str]()

    def run(number: int) -> None:
        queue = reads.queue if number % 2 else cl.CommandQueue(reads.context)
        mine = cl.Kernel(reads.add.program, "add")
        mine.set_arg_types([None, np.uint32])
        expected, hosts = np.arange(N, dtype=np.uint32), [np.zeros(READ, np.uint32) for _ in range(2)]
        buffer, before = reads.new(expected), None
        for step in range(100):
            mine(queue, (N,), (GROUP,), buffer, np.uint32(step))
            expected = expected + np.uint32(step)
            event = cl.enqueue_copy(queue, hosts[step % 2], buffer, is_blocking=False)
            if before is not None:
                before[0].wait()
                if (before[1] != before[2]).any():
                    wrong.append(f"thread {number}, step {step}")
            before = event, hosts[step % 2], expected[:READ]
        assert before is not None
        before[0].wait()

    run_at_once(run)
    assert wrong == []


@case
def figures() -> None:
    reads = Reads()
    reads.until_again()
    check_that_reads_are_counted(reads, lambda: reads.read().wait())
