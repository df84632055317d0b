"""A kernel called again with the same or with other arguments: what is repeated, and what must not be.

Run by `test_repeated_launches`, in a process whose PyOpenCL is the virtual device. The workers are native ones on the
CPU that let the submitting thread work with them, as CUDA's do.
"""

from __future__ import annotations

import gc
import os
import struct
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.invoker
import pytest

from vdev.backends.base import Backend
from vdev.backends.compiling import CompilingBackend
from vdev.backends.opencl.backend import OpenCLBackend
from vdev.executor.completion import Completion
from vdev.executor.line import Line
from vdev.executor.repeated_launch import Run
from vdev.executor.stretch import Part
from vdev.facade.handles import state_of
from vdev.process.finalisers import collect

from .facade_world import eventually

mf = cl.mem_flags
ITEMS = 64
SOURCE = """
__kernel void add(__global uint *counts, uint step) { counts[get_global_id(0)] += step; }
__kernel void bits(__global uint *out, float value) { out[get_global_id(0)] = as_uint(value); }
typedef struct { uint first, second; } pair;
__kernel void both(__global uint *out, pair value) { out[get_global_id(0)] += value.first + value.second; }
__kernel void shared(__global uint *out, __local uint *kept)
{
    kept[get_local_id(0)] = get_local_id(0);
    barrier(CLK_LOCAL_MEM_FENCE);
    out[get_global_id(0)] += kept[get_local_size(0) - 1 - get_local_id(0)];
}
__kernel void sides(__global uint *out, __global const uint *in, uint n)
{
    uint i = get_global_id(0);
    if (i < n)
        out[i] = in[i > 0 ? i - 1 : 0] + in[i + 1 < n ? i + 1 : n - 1];
}
"""
WIDE = 3 << 12  #: items that are split


sys.setswitchinterval(
    0.0001
)  # as sessions with GPUs do: workers' threads are soon through with what they get
OpenCLBackend.any_thread = True


@pytest.fixture(autouse=True)
def repeated(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each attempt to make a launch without submitting it did."""
    found: list[bool] = []
    again, hand_over, next_of = Run.again, Line.hand_over, Line.again

    def repeated(self: Run, *launch: Any) -> Completion | None:
        completion = again(self, *launch)
        found.append(completion is not None)
        return completion

    def handed_over(self: Line, *command: Any, **more: Any) -> Part | None:
        part = hand_over(self, *command, **more)
        found.append(part is not None)
        return part

    def handed_over_again(self: Line, *streak: Any) -> Part | None:
        part = next_of(self, *streak)
        found.append(part is not None)
        return part

    monkeypatch.setattr(Run, "again", repeated)
    monkeypatch.setattr(Line, "again", handed_over_again)
    monkeypatch.setattr(Line, "hand_over", handed_over)
    return found


@pytest.fixture
def others(repeated: list[bool]) -> Iterator[list[bool]]:
    """The same where numbers, buffers and index spaces change. On one worker some have to."""
    yield repeated
    assert any(repeated) or not os.environ["VDEV_WORKERS"].endswith(":1")


class Host:
    """A program's context, queue and kernels."""

    def __init__(self) -> None:
        self.context = cl.create_some_context(interactive=False)
        self.queue = cl.CommandQueue(self.context)
        self.program = program = cl.Program(self.context, SOURCE).build()
        self.add, self.bits, self.both, self.shared, self.sides = (
            cl.Kernel(program, name) for name in ("add", "bits", "both", "shared", "sides")
        )

    def buffer(self) -> Any:
        host = np.zeros(ITEMS, np.uint32)
        return cl.Buffer(self.context, mf.READ_WRITE | mf.COPY_HOST_PTR, hostbuf=host)

    def read(self, buffer: Any) -> np.ndarray:
        content = np.zeros(ITEMS, np.uint32)
        cl.enqueue_copy(self.queue, content, buffer)
        return content

    def call(self, kernel: Any, *args: Any, **rest: Any) -> Any:
        return kernel(self.queue, (ITEMS,), (ITEMS,), *args, **rest)

    def warm(self, repeated: list[bool], kernel: Any, *args: Any) -> int:
        """Call until a call has been repeated; how many that took."""
        repeated.clear()
        for count in range(1, 4000):
            if count % 4 == 1:
                self.queue.finish()
            self.call(kernel, *args)
            if repeated and repeated[-1]:
                return count
        raise AssertionError("no call was repeated")


@pytest.fixture
def host() -> Host:
    return Host()


def until_repeated(test: Callable[[Host, list[bool]], None]) -> Callable[[Host, list[bool]], None]:
    """The test, again and again until a launch of it has been repeated.

    Whether one is depends on when the workers' threads come to run: what a launch does must not.
    """

    @wraps(test)
    def attempts(host: Host, repeated: list[bool]) -> None:
        for _ in range(100):
            test(host, repeated)
            if any(repeated):
                return
        raise AssertionError("no launch was repeated")

    return attempts


@until_repeated
def test_many_calls(host: Host, repeated: list[bool]) -> None:
    buffer, step, count = host.buffer(), np.uint32(3), 1000
    host.call(host.add, host.buffer(), step)
    tally = state_of(host.add).kernel.plans.tally
    before = tally.launches
    events = [host.call(host.add, buffer, step) for _ in range(count)]
    assert (host.read(buffer) == 3 * count).all()
    assert len({id(event) for event in events}) == len(set(events)) == count
    for event in events:
        event.wait()
        assert event.command_execution_status == cl.command_execution_status.COMPLETE
        assert event.command_type == cl.command_type.NDRANGE_KERNEL
        assert event.command_queue is host.queue
        assert event.context is host.context
    assert tally.launches == before + count


@until_repeated
def test_events_that_are_over_are_not_waited_for(host: Host, repeated: list[bool]) -> None:
    """Arrays keep the events of what has filled them, and hand them to each kernel."""
    buffer, step = host.buffer(), np.uint32(3)
    event = host.call(host.add, buffer, step)
    host.queue.finish()
    repeated.clear()
    for _ in range(100):
        host.call(host.add, buffer, step, wait_for=[event, event])
    assert (host.read(buffer) == 303).all()


def test_events_that_are_not_over_are_waited_for(host: Host, repeated: list[bool]) -> None:
    buffer, step, held = host.buffer(), np.uint32(3), cl.UserEvent(host.context)
    host.warm(repeated, host.add, buffer, step)
    before = host.read(buffer)[0]
    host.warm(repeated, host.add, buffer, step)
    repeated.clear()
    last = host.call(host.add, buffer, step, wait_for=[held])
    assert not any(repeated)
    assert last.command_execution_status > cl.command_execution_status.COMPLETE
    held.set_status(cl.command_execution_status.COMPLETE)
    last.wait()
    assert (host.read(buffer) > before).all()


def test_events_that_have_failed_fail_what_waits_for_them(host: Host, repeated: list[bool]) -> None:
    buffer, step, failed = host.buffer(), np.uint32(3), cl.UserEvent(host.context)
    failed.set_status(-5)
    host.warm(repeated, host.add, buffer, step)
    repeated.clear()
    last = host.call(host.add, buffer, step, wait_for=[failed])
    assert not any(repeated)
    with pytest.raises(cl.Error):
        last.wait()


@until_repeated
def test_arguments_set_before(host: Host, repeated: list[bool]) -> None:
    buffer, other = host.buffer(), host.buffer()
    host.add.set_args(buffer, np.uint32(3))
    for number in range(100):
        if number % 10 == 1:
            host.queue.finish()
        cl.enqueue_nd_range_kernel(host.queue, host.add, (ITEMS,), (ITEMS,))
    host.add.set_arg(1, np.uint32(5))
    cl.enqueue_nd_range_kernel(host.queue, host.add, (ITEMS,), (ITEMS,))
    host.add.set_arg(0, other)
    cl.enqueue_nd_range_kernel(host.queue, host.add, (ITEMS,), (ITEMS,))
    assert (host.read(buffer) == 305).all()
    assert (host.read(other) == 5).all()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (np.float32(0.0), np.float32(-0.0)),
        (np.float32(-0.0), np.float32(0.0)),
        (np.float32(1.5), np.float32(2.5)),
        (np.float32(1.5), np.float32(1.5)),
        (np.float32("nan"), np.array(0xFFC00001, np.uint32).view(np.float32)[()]),
        (np.float32(1.0), struct.pack("=I", 1)),
        (struct.pack("=I", 7), struct.pack("=I", 8)),
    ],
)
def test_numbers(host: Host, repeated: list[bool], first: Any, second: Any) -> None:
    buffer = host.buffer()
    host.warm(repeated, host.bits, buffer, first)
    host.call(host.bits, buffer, second)
    expected = second if isinstance(second, bytes) else second.tobytes()
    assert host.read(buffer).tobytes()[:4] == expected
    host.call(host.bits, buffer, first)
    expected = first if isinstance(first, bytes) else first.tobytes()
    assert host.read(buffer).tobytes()[:4] == expected


@until_repeated
def test_typed_numbers_made_anew(host: Host, repeated: list[bool]) -> None:
    host.add.set_scalar_arg_dtypes([None, np.uint32])
    buffer = host.buffer()
    total = 0
    for at, number in enumerate([1000] * 20 + [1001] * 20 + [0] * 20):
        if at % 5 == 1:
            host.queue.finish()
        host.call(host.add, buffer, int(str(number)))
        total += number
    assert (host.read(buffer) == total).all()


@pytest.mark.parametrize("typed", [False, True])
def test_other_numbers(host: Host, others: list[bool], typed: bool) -> None:
    if typed:
        host.add.set_arg_types([None, np.uint32])
        host.bits.set_arg_types([None, np.float32])
    buffer, total = host.buffer(), 0
    host.call(host.add, host.buffer(), np.uint32(0))
    tally = state_of(host.add).kernel.plans.tally
    before = tally.launches
    for number in [*range(300), *[7, 7, 8, 8, 8, 7, 7] * 20]:
        host.call(host.add, buffer, np.uint32(number))
        total += number
    assert (host.read(buffer) == total).all()
    assert tally.launches == before + 440
    for number in (0.0, -0.0, 1.5, -2.5, float("inf"), float("nan"), -0.0, 0.0):
        host.call(host.bits, buffer, np.float32(number))
        expected = np.float32(number).view(np.uint32)
        assert (host.read(buffer) == expected).all()
        for more in (2.0, number):
            host.call(host.bits, buffer, np.float32(more))
        assert (host.read(buffer) == expected).all()


def test_other_index_spaces(host: Host, others: list[bool]) -> None:
    buffer, expected = host.buffer(), np.zeros(ITEMS, np.uint32)
    for number in range(400):
        items = 1 + number * 7 % ITEMS
        host.add(host.queue, (items,), None if number % 3 else (1,), buffer, np.uint32(number % 5))
        expected[:items] += number % 5
    assert (host.read(buffer) == expected).all()


def test_other_numbers_in_turn_with_other_kernels_and_buffers(host: Host, others: list[bool]) -> None:
    rng = np.random.default_rng(5)
    again = cl.Kernel(host.add.program, "add")
    buffers = [host.buffer(), host.buffer()]
    expected = np.zeros(2, np.uint32)
    for _ in range(1500):
        at, number, kernel = (
            int(rng.random() < 0.1),
            rng.integers(0, 4),
            again if rng.random() < 0.1 else host.add,
        )
        host.call(kernel, buffers[at], np.uint32(number))
        expected[at] += number
        if rng.random() < 0.02:
            assert (host.read(buffers[at]) == expected[at]).all()
    for buffer, value in zip(buffers, expected, strict=True):
        assert (host.read(buffer) == value).all()


def test_a_number_that_does_not_fit(host: Host, others: list[bool]) -> None:
    host.add.set_arg_types([None, np.uint32])
    buffer = host.buffer()
    for number in range(1, 400):
        host.call(host.add, buffer, number)
    with pytest.raises(Exception, match=r"argument|range|format"):
        host.call(host.add, buffer, 1 << 40)
    host.call(host.add, buffer, 1)
    assert (host.read(buffer) == 399 * 400 // 2 + 1).all()


def test_what_changes_under_its_name(host: Host, repeated: list[bool]) -> None:
    """Arrays and structures are looked at each time; so are sizes in a list."""
    buffer, pair = host.buffer(), np.zeros((), [("first", np.uint32), ("second", np.uint32)])
    total = 0
    for number in range(20):
        pair["first"], pair["second"] = number, 1
        host.call(host.both, buffer, pair)
        total += number + 1
    assert (host.read(buffer) == total).all()
    sizes = [ITEMS]
    other = host.buffer()
    for _ in range(4):
        host.add(host.queue, sizes, [8], other, np.uint32(1))
    sizes[0] = 8
    host.add(host.queue, sizes, [8], other, np.uint32(1))
    assert host.read(other).tolist() == [5] * 8 + [4] * (ITEMS - 8)


def test_other_sizes(host: Host, repeated: list[bool]) -> None:
    buffer, step = host.buffer(), np.uint32(1)
    count = host.warm(repeated, host.add, buffer, step)
    host.add(host.queue, (8,), (8,), buffer, step)
    host.add(host.queue, (ITEMS,), (8,), buffer, step)
    host.add(host.queue, (ITEMS - 8,), (8,), buffer, step, global_offset=(8,))
    host.add(host.queue, (ITEMS // 8,), (8,), buffer, step, g_times_l=True)
    assert host.read(buffer).tolist() == [count + 3] * ITEMS
    for wrong in ((ITEMS, ITEMS, ITEMS, ITEMS), (np.zeros(2),), ("x",), (-1,)):
        with pytest.raises((cl.Error, TypeError, RuntimeError, ValueError)):
            host.add(host.queue, wrong, None, buffer, step)
    assert host.read(buffer).tolist() == [count + 3] * ITEMS


def test_offsets(host: Host, repeated: list[bool]) -> None:
    buffer = host.buffer()
    host.add.set_args(buffer, np.uint32(1))
    enqueue, sizes = cl.enqueue_nd_range_kernel, ((8,), (8,))
    for at, offset in enumerate([(8,)] * 12 + [None] * 4 + [(16,)]):
        if at % 4 == 1:
            host.queue.finish()
        enqueue(host.queue, host.add, *sizes, offset)
    for at, times in enumerate([True] * 12 + [False]):
        if at % 4 == 1:
            host.queue.finish()
        enqueue(host.queue, host.add, *sizes, g_times_l=times)
    assert host.read(buffer).tolist() == [4 + 13] * 8 + [12 + 12] * 8 + [1 + 12] * 8 + [12] * (ITEMS - 24)


def test_too_few_and_too_many_arguments(host: Host, repeated: list[bool]) -> None:
    buffer, step = host.buffer(), np.uint32(1)
    host.warm(repeated, host.add, buffer, step)
    for args in ((), (host.queue,), (host.queue, (ITEMS,), (ITEMS,), buffer)):
        with pytest.raises(TypeError):
            host.add(*args)
    with pytest.raises(TypeError):
        host.add(None, (ITEMS,), (ITEMS,), buffer, step)


def test_a_buffer_that_has_gone(host: Host, repeated: list[bool]) -> None:
    buffer, step = host.buffer(), np.uint32(1)
    host.warm(repeated, host.add, buffer, step)
    buffer.release()
    with pytest.raises(cl.LogicError, match="INVALID_MEM_OBJECT"):
        host.call(host.add, buffer, step)
    kept = host.buffer()
    host.warm(repeated, host.add, kept, step)
    kept.release()
    with pytest.raises(cl.LogicError, match="INVALID_KERNEL_ARGS"):
        cl.enqueue_nd_range_kernel(host.queue, host.add, (ITEMS,), (ITEMS,))


def test_no_buffer_is_kept_alive(host: Host, repeated: list[bool]) -> None:
    buffer, step = host.buffer(), np.uint32(1)
    host.warm(repeated, host.add, buffer, step)
    memory = state_of(buffer)
    host.queue.finish()
    del buffer
    assert memory.references == 0
    other = host.buffer()
    host.call(host.add, other, step)
    assert (host.read(other) == 1).all()


@until_repeated
def test_buffers_take_turns(host: Host, repeated: list[bool]) -> None:
    buffers, step = [host.buffer() for _ in range(3)], np.uint32(1)
    for number in range(300):
        if number % 7 == 6:  # the next has the same buffer
            host.queue.finish()
        host.call(host.add, buffers[number % 7 % 3], step)
    counts = [sum(number % 7 % 3 == at for number in range(300)) for at in range(3)]
    assert [int(host.read(buffer)[0]) for buffer in buffers] == counts


@until_repeated
def test_sub_buffers_of_one(host: Host, repeated: list[bool]) -> None:
    align = host.context.devices[0].mem_base_addr_align // 8
    whole = cl.Buffer(
        host.context, mf.READ_WRITE | mf.COPY_HOST_PTR, hostbuf=np.zeros(2 * align // 4, np.uint32)
    )
    parts = [whole.get_sub_region(start, align) for start in (0, align)]
    for at, number in enumerate([0] * 9 + [1] * 9 + [0]):
        if at % 4 == 1:
            host.queue.finish()
        host.add(host.queue, (8,), (8,), parts[number], np.uint32(1))
    content = np.zeros(2 * align // 4, np.uint32)
    cl.enqueue_copy(host.queue, content, whole)
    assert (content[0], content[align // 4]) == (10, 9)


def test_local_memory(host: Host, repeated: list[bool]) -> None:
    buffer, kept = host.buffer(), cl.LocalMemory(4 * ITEMS)
    count = host.warm(repeated, host.shared, buffer, kept)
    assert host.read(buffer).tolist() == [count * (ITEMS - 1 - item) for item in range(ITEMS)]


@until_repeated
def test_what_comes_between(host: Host, repeated: list[bool]) -> None:
    buffer, step = host.buffer(), np.uint32(1)
    expected = 0
    for action in (
        "fill",
        "copy",
        "marker",
        "barrier",
        "event",
        "other kernel",
        "map",
        "queue",
        "user event",
    ) * 3:
        for _ in range(4):
            event = host.call(host.add, buffer, step)
            expected += 1
        if action == "fill":
            cl.enqueue_fill_buffer(host.queue, buffer, np.uint32(9), 0, 4 * ITEMS)
            expected = 9
        elif action == "copy":
            assert (host.read(buffer) == expected).all()
        elif action == "marker":
            cl.enqueue_marker(host.queue).wait()
        elif action == "barrier":
            cl.enqueue_barrier(host.queue)
        elif action == "event":
            event.wait()
        elif action == "other kernel":
            host.call(host.bits, buffer, struct.pack("=I", 40))
            expected = 40
        elif action == "map":
            array, _ = cl.enqueue_map_buffer(
                host.queue, buffer, cl.map_flags.READ | cl.map_flags.WRITE, 0, (ITEMS,), np.uint32
            )
            array += 1
            array.base.release(host.queue)
            expected += 1
        elif action == "queue":
            other = cl.CommandQueue(host.context)
            host.add(other, (ITEMS,), (ITEMS,), buffer, step, wait_for=[event]).wait()
            expected += 1
        else:
            user = cl.UserEvent(host.context)
            late = cl.enqueue_copy(
                host.queue, buffer, np.full(ITEMS, 70, np.uint32), is_blocking=False, wait_for=[user]
            )
            events = [host.call(host.add, buffer, step) for _ in range(3)]
            assert events[-1].command_execution_status == cl.command_execution_status.QUEUED
            user.set_status(cl.command_execution_status.COMPLETE)
            late.wait()
            expected = 73
    assert (host.read(buffer) == expected).all()


def test_wait_lists(host: Host, repeated: list[bool]) -> None:
    """A wait list is obeyed: also that of an event which fails."""
    buffer, step = host.buffer(), np.uint32(1)
    count = host.warm(repeated, host.add, buffer, step)
    user = cl.UserEvent(host.context)
    other = cl.CommandQueue(host.context)
    held = host.add(other, (ITEMS,), (ITEMS,), buffer, step, wait_for=[user])
    again = host.add(other, (ITEMS,), (ITEMS,), buffer, step)
    user.set_status(-5)
    with pytest.raises(cl.RuntimeError):
        held.wait()
    again.wait()
    assert (host.read(buffer) == count + 1).all()


def test_profiled_queues(host: Host) -> None:
    queue = cl.CommandQueue(host.context, properties=cl.command_queue_properties.PROFILING_ENABLE)
    buffer, step = host.buffer(), np.uint32(1)
    events = [host.add(queue, (ITEMS,), (ITEMS,), buffer, step) for _ in range(10)]
    queue.finish()
    ends = [event.profile.end for event in events]
    assert ends == sorted(ends)
    assert len(set(ends)) == len(ends)  # none is repeated without times of its own
    assert all(event.profile.start >= before for event, before in zip(events[1:], ends, strict=False))


@until_repeated
def test_out_of_order_queues(host: Host, repeated: list[bool]) -> None:
    mode = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    queue = cl.CommandQueue(host.context, properties=mode)
    buffer, step = host.buffer(), np.uint32(1)
    for _ in range(3):
        for number in range(10):
            host.add(queue, (ITEMS,), (ITEMS,), buffer, step)
            if number == 1:
                queue.finish()
        cl.enqueue_barrier(queue)
    queue.finish()
    assert (host.read(buffer) == 30).all()


def test_callbacks(host: Host, repeated: list[bool]) -> None:
    buffer, step = host.buffer(), np.uint32(1)
    host.warm(repeated, host.add, buffer, step)
    called, through = [], threading.Semaphore(0)

    def note(status: int) -> None:
        called.append(status)
        through.release()

    for _ in range(5):
        host.call(host.add, buffer, step).set_callback(cl.command_execution_status.COMPLETE, note)
    for _ in range(5):
        assert through.acquire(timeout=300)
    assert called == [0] * 5


def test_kernels_that_are_clones(host: Host, repeated: list[bool]) -> None:
    buffer, other, step = host.buffer(), host.buffer(), np.uint32(1)
    count = host.warm(repeated, host.add, buffer, step)
    clone = host.add.clone()
    clone.set_arg(0, other)
    cl.enqueue_nd_range_kernel(host.queue, clone, (ITEMS,), (ITEMS,))
    host.call(host.add, buffer, step)
    assert (host.read(buffer) == count + 1).all()
    assert (host.read(other) == 1).all()


def test_kernels_made_anew_for_each_call(
    host: Host, repeated: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `program.name(…)` makes them: each goes on where the last one of that name, which is gone, was."""
    generated: list[str] = []

    def noted(name: str, *rest: Any, **more: Any) -> Any:
        generated.append(name)
        return generate(name, *rest, **more)

    generate = pyopencl.invoker.generate_enqueue_and_set_args
    monkeypatch.setattr(pyopencl.invoker, "generate_enqueue_and_set_args", noted)
    buffers, states = [host.buffer() for _ in range(2)], set()
    for at in range(400):
        kernel = cl.Kernel(host.program, "add")
        states.add(state_of(kernel))
        host.call(kernel, buffers[at % 2], np.uint32(at))
        del kernel
    assert len(states) == 1
    assert len(generated) <= 1  # not for each
    for at, buffer in enumerate(buffers):
        assert (host.read(buffer) == sum(range(at, 400, 2))).all()


def test_arguments_of_a_kernel_made_anew_are_unset(host: Host, repeated: list[bool]) -> None:
    buffer, other, step = host.buffer(), host.buffer(), np.uint32(1)

    def fresh() -> cl.Kernel:
        kernel = cl.Kernel(host.program, "add")
        host.call(kernel, buffer, step)
        del kernel
        return cl.Kernel(host.program, "add")

    def refused(kernel: cl.Kernel) -> None:
        with pytest.raises(cl.LogicError, match="INVALID_KERNEL_ARGS"):
            cl.enqueue_nd_range_kernel(host.queue, kernel, (ITEMS,), (ITEMS,))

    refused(fresh())
    kernel = fresh()
    kernel.set_arg(0, other)
    refused(kernel)
    kernel.set_arg(1, step)
    cl.enqueue_nd_range_kernel(host.queue, kernel, (ITEMS,), (ITEMS,))
    kernel = fresh()
    with pytest.raises(cl.Error):
        host.call(kernel, other, [])  # fails at the second one
    kernel.set_arg(0, buffer)
    refused(kernel)
    assert (host.read(buffer) == 3).all()
    assert (host.read(other) == 1).all()


def test_kernels_of_one_name_that_live_at_once(host: Host, repeated: list[bool]) -> None:
    buffer, step = host.buffer(), np.uint32(1)
    first, second = (cl.Kernel(host.program, "add") for _ in range(2))
    host.call(first, buffer, step)
    host.call(second, buffer, np.uint32(10))
    del first
    third = cl.Kernel(host.program, "add")
    host.call(third, buffer, np.uint32(100))
    cl.enqueue_nd_range_kernel(host.queue, second, (ITEMS,), (ITEMS,))
    assert (host.read(buffer) == 1 + 10 + 100 + 10).all()


def test_types_given_to_a_kernel_are_its_own(host: Host, repeated: list[bool]) -> None:
    buffer = host.buffer()
    typed = cl.Kernel(host.program, "add")
    typed.set_scalar_arg_dtypes([None, np.uint32])
    host.call(typed, buffer, 3)
    del typed
    with pytest.raises((cl.Error, TypeError)):
        host.call(cl.Kernel(host.program, "add"), buffer, 3)
    assert (host.read(buffer) == 3).all()


def test_kernels_that_are_gone_keep_nothing_alive(host: Host, repeated: list[bool]) -> None:
    program = cl.Program(host.context, SOURCE).build()
    buffer, step = host.buffer(), np.uint32(1)
    for _ in range(20):
        host.call(cl.Kernel(program, "add"), buffer, step)
    host.queue.finish()
    memory, gone = state_of(buffer), weakref.ref(state_of(program._get_prg()))
    del buffer
    assert memory.references == 0
    assert collect()
    gc.disable()
    try:
        host.call(cl.Kernel(program, "add"), host.buffer(), step)
        host.queue.finish()
        del program
        # No cycle that waits for the collector; a worker's thread may have it a moment longer.
        assert eventually(lambda: gone() is None)
    finally:
        gc.enable()


def test_a_queue_that_was_left(host: Host, repeated: list[bool]) -> None:
    buffer, step = host.buffer(), np.uint32(1)
    with cl.CommandQueue(host.context) as queue:
        for _ in range(20):
            host.add(queue, (ITEMS,), (ITEMS,), buffer, step)
    with pytest.warns(cl.CommandQueueUsedAfterExit):
        host.add(queue, (ITEMS,), (ITEMS,), buffer, step)
    assert (host.read(buffer) == 21).all()


def sides_of(array: np.ndarray) -> np.ndarray:
    return np.concatenate((array[:1], array[:-1])) + np.concatenate((array[1:], array[-1:]))


@pytest.mark.parametrize("seed", range(4))
def test_edges_are_exchanged_between_the_memory_that_is_there(
    host: Host, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Buffers in turn, more than copies are kept ready for, which go and come again, and sizes that make replicas grow."""
    once_more: list[int] = []
    workers = state_of(host.queue).session.executor.all_workers[:-1]
    for backend in {type(worker.backend) for worker in workers}:

        def prepared(
            self: Backend, *args: Any, prepare: Callable[..., Any] = backend.copy_again
        ) -> Callable[[], object] | None:
            call = prepare(self, *args)
            return None if call is None else lambda: (once_more.append(1), call())

        monkeypatch.setattr(backend, "copy_again", prepared)
        if issubclass(backend, CompilingBackend):
            compile_copies = backend.copies

            def compiled(
                self: Backend, *args: Any, aside: bool = False, copies: Callable[..., Any] = compile_copies
            ) -> Any:
                call = copies(self, *args, aside=aside)
                once_more.extend([1] * (call is not None))
                return call

            monkeypatch.setattr(backend, "copies", compiled)
    drawn, count = np.random.default_rng(seed), 6

    def made(array: np.ndarray) -> Any:
        return cl.Buffer(host.context, mf.READ_WRITE | mf.COPY_HOST_PTR, hostbuf=array)

    arrays = [drawn.integers(0, 1 << 32, WIDE, np.uint32) for _ in range(count)]
    buffers = [made(array) for array in arrays]

    def launched(out: int, source: int, n: int) -> None:
        host.sides(host.queue, (WIDE,), (ITEMS,), buffers[out], buffers[source], np.uint32(n))
        arrays[out] = np.concatenate((sides_of(arrays[source][:n]), arrays[out][n:]))

    for _ in range(20):
        one, other = drawn.choice(count, 2, replace=False)
        n = int(drawn.choice((WIDE, WIDE, WIDE // 2 + 100, WIDE // 3)))
        for _ in range(int(drawn.choice((1, 2, 8)))):
            launched(one, other, n)
            launched(other, one, n)
        if drawn.random() < 0.3:
            gone = int(drawn.integers(count))
            buffers[gone].release()
            buffers[gone] = made(arrays[gone])
        looked_at = int(drawn.integers(count))
        found = np.zeros(WIDE, np.uint32)
        cl.enqueue_copy(host.queue, found, buffers[looked_at])
        assert (found == arrays[looked_at]).all()
    for buffer, array in zip(buffers, arrays, strict=True):
        found = np.zeros(WIDE, np.uint32)
        cl.enqueue_copy(host.queue, found, buffer)
        assert (found == array).all()
    assert bool(once_more) is (len(workers) > 1)
