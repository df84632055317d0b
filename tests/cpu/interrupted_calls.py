"""Calls of many kinds on buffers whose contents are known: what `tests.cpu.interruptions` interrupts."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array
import pyopencl.tools

WORDS = 6144
BUFFERS = 4
SOURCE = """
kernel void add(global int *a, int k) { a[get_global_id(0)] += k; }
kernel void mix(global int *a, global const int *b, global const int *c) {
    int i = get_global_id(0); a[i] = 3 * b[i] - c[get_global_size(0) - 1 - i];
}
kernel void turn(global int *a, int n) { int i = get_global_id(0); if (i % 2 == 0) a[n - 1 - i] = i; }
"""
FRESH = "kernel void fresh(global int *a) {{ int i = get_global_id(0); a[i] = a[i] * {0} + (i % {1}); }}"
Arrays = list[np.ndarray]


class Calls:
    """A program's objects, what its buffers must hold, and what may be called."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.context = cl.create_some_context(interactive=False)
        self.queues = [
            cl.CommandQueue(self.context),
            cl.CommandQueue(
                self.context, properties=cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
            ),
        ]
        program = cl.Program(self.context, SOURCE).build()
        self.add, self.mix, self.turn = program.add, program.mix, program.turn
        self.arrays: Arrays = [np.arange(WORDS, dtype=np.int32) * (n + 1) for n in range(BUFFERS)]
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        self.buffers = [cl.Buffer(self.context, flags, hostbuf=array) for array in self.arrays]
        self.svm = cl.SVM(cl.csvm_empty(self.context, WORDS, np.int32))
        self.pool = cl.tools.MemoryPool(cl.tools.ImmediateAllocator(self.queues[0]))
        self.events: list[Any] = []  #: the user events to set where a call was interrupted before it did
        #: what the buffers may hold while a call of several steps is made
        self.steps: list[Arrays] = []
        self.acts = [getattr(self, name) for name in dir(self) if name.startswith("do_")]

    # each gives what the buffers will be, and what is called -----------------------------------------

    def _pick(self, count: int = 1) -> list[int]:
        return self.random.sample(range(BUFFERS), count)

    def _changed(self, at: int, value: np.ndarray) -> Arrays:
        return [value.astype(np.int32) if n == at else array for n, array in enumerate(self.arrays)]

    def do_add(self, queue: Any) -> tuple[Arrays, Callable[[], object]]:
        (at,), k = self._pick(), np.int32(self.random.randrange(1000))
        count = self.random.choice((1, 1, 4))
        after = self._changed(at, self.arrays[at] + k * np.int32(count))
        if count == 1:
            return after, lambda: self.add(queue, (WORDS,), (64,), self.buffers[at], k)
        # Equal launches in a row are made in another way: of those, some may have happened.
        self.steps = [self._changed(at, self.arrays[at] + k * np.int32(n)) for n in range(count)]
        return after, lambda: [self.add(queue, (WORDS,), (64,), self.buffers[at], k) for _ in range(count)]

    def do_mix(self, queue: Any) -> tuple[Arrays, Callable[[], object]]:
        a, b, c = self._pick(3)
        after = self._changed(a, 3 * self.arrays[b] - self.arrays[c][::-1])
        return after, lambda: self.mix(queue, (WORDS,), None, *(self.buffers[n] for n in (a, b, c)))

    def do_turn(self, queue: Any) -> tuple[Arrays, Callable[[], object]]:
        (at,) = self._pick()
        value = self.arrays[at].copy()
        value[::-1][::2] = np.arange(0, WORDS, 2)
        return self._changed(at, value), lambda: self.turn(
            queue, (WORDS,), None, self.buffers[at], np.int32(WORDS)
        )

    def do_write(self, queue: Any) -> tuple[Arrays, Callable[[], object]]:
        (at,) = self._pick()
        value = np.full(WORDS, self.random.randrange(1 << 30), np.int32)
        wait = self.random.random() < 0.5
        return self._changed(at, value), lambda: cl.enqueue_copy(
            queue, self.buffers[at], value, is_blocking=wait
        )

    def do_read(self, queue: Any) -> tuple[Arrays, Callable[[], object]]:
        (at,) = self._pick()

        def read() -> None:
            found = np.empty(WORDS, np.int32)
            cl.enqueue_copy(queue, found, self.buffers[at], is_blocking=self.random.random() < 0.7).wait()
            np.testing.assert_array_equal(found, self.arrays[at])

        return self.arrays, read

    def do_fill(self, queue: Any) -> tuple[Arrays, Callable[[], object]]:
        (at,), k = self._pick(), self.random.randrange(1000)
        start = self.random.randrange(WORDS // 2)
        value = self.arrays[at].copy()
        value[start:] = k
        return self._changed(at, value), lambda: cl.enqueue_fill_buffer(
            queue, self.buffers[at], np.int32(k), 4 * start, 4 * (WORDS - start)
        )

    def do_copy(self, queue: Any) -> tuple[Arrays, Callable[[], object]]:
        a, b = self._pick(2)
        return self._changed(a, self.arrays[b]), lambda: cl.enqueue_copy(
            queue, self.buffers[a], self.buffers[b]
        )

    def do_map(self, queue: Any) -> tuple[Arrays, Callable[[], object]]:
        (at,), value = self._pick(), np.full(WORDS, self.random.randrange(1000), np.int32)

        def map_and_write() -> None:
            flags = cl.map_flags.READ | cl.map_flags.WRITE
            array, _ = cl.enqueue_map_buffer(queue, self.buffers[at], flags, 0, WORDS, np.int32)
            array[:] = value
            array.base.release(queue)

        return self._changed(at, value), map_and_write

    def do_build(self, queue: Any) -> tuple[Arrays, Callable[[], object]]:
        (at,), k, m = self._pick(), self.random.randrange(2, 9), self.random.randrange(2, 99)
        after = self._changed(at, self.arrays[at] * np.int32(k) + np.arange(WORDS) % m)

        def build() -> None:
            program = cl.Program(self.context, FRESH.format(k, m)).build(cache_dir=False)
            program.fresh(queue, (WORDS,), None, self.buffers[at])

        return after, build

    def do_build_and_keep(self, queue: Any) -> tuple[Arrays, Callable[[], object]]:
        """A program that PyOpenCL keeps on disk, under a lock that must not stay."""
        k = self.random.randrange(1 << 60)
        return self.arrays, lambda: cl.Program(self.context, FRESH.format(k, 1)).build()

    def do_new_buffer(self, queue: Any) -> tuple[Arrays, Callable[[], object]]:
        (at,) = self._pick()

        def replace() -> None:
            flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
            fresh = cl.Buffer(self.context, flags, hostbuf=self.arrays[at])
            self.add(queue, (WORDS,), None, fresh, np.int32(0))
            before, self.buffers[at] = self.buffers[at], fresh
            before.release()

        return self.arrays, replace

    def do_sub_buffer(self, queue: Any) -> tuple[Arrays, Callable[[], object]]:
        (at,), k = self._pick(), np.int32(self.random.randrange(1000))
        start, count = 1024 * self.random.randrange(1, 4), 1024
        value = self.arrays[at].copy()
        value[start : start + count] += k

        def launch() -> None:
            part = self.buffers[at].get_sub_region(4 * start, 4 * count)
            self.add(queue, (count,), None, part, k)

        return self._changed(at, value), launch

    def do_user_event(self, queue: Any) -> tuple[Arrays, Callable[[], object]]:
        (at,), k = self._pick(), np.int32(self.random.randrange(1000))
        event = cl.UserEvent(self.context)
        self.events.append(event)

        def launch() -> None:
            done = self.add(queue, (WORDS,), None, self.buffers[at], k, wait_for=[event])
            event.set_status(cl.command_execution_status.COMPLETE)
            self.events.remove(event)
            done.wait()

        return self._changed(at, self.arrays[at] + k), launch

    def do_hopeless_wait(self, queue: Any) -> tuple[Arrays, Callable[[], object]]:
        """Nobody sets the event: only the exception ends the wait."""
        event = cl.UserEvent(self.context)
        self.events.append(event)
        waits = [
            lambda: event.wait(),
            lambda: cl.wait_for_events([event]),
            lambda: (cl.enqueue_marker(queue, wait_for=[event]), queue.finish()),
            lambda: cl.enqueue_copy(queue, np.empty(8, np.int32), self.buffers[0], wait_for=[event]),
        ]
        return self.arrays, self.random.choice(waits)

    def do_finish(self, queue: Any) -> tuple[Arrays, Callable[[], object]]:
        (at,), k = self._pick(), np.int32(self.random.randrange(1000))
        after = self._changed(at, self.arrays[at] + k)
        return after, lambda: (self.add(queue, (WORDS,), None, self.buffers[at], k), queue.finish())

    def do_image(self, queue: Any) -> tuple[Arrays, Callable[[], object]]:
        def image() -> None:
            shape = (16, 8)
            pixels = np.arange(16 * 8 * 4, dtype=np.float32).reshape(8, 16, 4)
            form = cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.FLOAT)
            made = cl.Image(self.context, cl.mem_flags.READ_WRITE, form, shape)
            cl.enqueue_copy(queue, made, pixels, origin=(0, 0), region=shape)
            found = np.empty_like(pixels)
            queue.finish()
            cl.enqueue_copy(queue, found, made, origin=(0, 0), region=shape)
            np.testing.assert_array_equal(found, pixels)

        return self.arrays, image

    def do_svm(self, queue: Any) -> tuple[Arrays, Callable[[], object]]:
        def shared() -> None:
            svm = cl.SVM(cl.csvm_empty(self.context, WORDS, np.int32))
            with svm.map_rw(queue) as array:
                array[:] = 5
            self.add(queue, (WORDS,), None, svm, np.int32(2))
            with svm.map_ro(queue) as array:
                assert (array == 7).all()

        return self.arrays, shared

    def do_wait_lists(self, queue: Any) -> tuple[Arrays, Callable[[], object]]:
        """Commands in all queues that wait for events of the program's, and for each other."""
        (at, other), k = self._pick(2), np.int32(self.random.randrange(1000))
        events = [cl.UserEvent(self.context) for _ in range(3)]
        self.events += events
        once = self._changed(at, self.arrays[at] + k)
        self.steps = [once]

        def launch() -> None:
            first = self.add(queue, (WORDS,), None, self.buffers[at], k, wait_for=events[:2])
            marker = cl.enqueue_marker(self.queues[1], wait_for=[first, events[2]])
            copied = cl.enqueue_copy(self.queues[0], self.buffers[other], self.buffers[at], wait_for=[marker])
            for event in events:
                event.set_status(cl.command_execution_status.COMPLETE)
            cl.wait_for_events([first, copied])

        return [once[at] if n == other else array for n, array in enumerate(once)], launch

    def do_queue_context(self, queue: Any) -> tuple[Arrays, Callable[[], object]]:
        """A queue that is finished at the end of a block."""
        (at,), k = self._pick(), np.int32(self.random.randrange(1000))

        def launch() -> None:
            with cl.CommandQueue(self.context) as fresh:
                self.add(fresh, (WORDS,), None, self.buffers[at], k)

        return self._changed(at, self.arrays[at] + k), launch

    def do_map_context(self, queue: Any) -> tuple[Arrays, Callable[[], object]]:
        """A mapping that ends with a block, and one that ends when it is dropped."""
        (at,), k = self._pick(), self.random.randrange(1000)
        flags = cl.map_flags.READ | cl.map_flags.WRITE

        def map_and_write() -> None:
            array, _ = cl.enqueue_map_buffer(queue, self.buffers[at], flags, 0, WORDS, np.int32)
            with array.base:
                array[: WORDS // 2] = k
            array, _ = cl.enqueue_map_buffer(queue, self.buffers[at], flags, 0, WORDS, np.int32)
            array[WORDS // 2 :] = k

        half = self.arrays[at].copy()
        half[: WORDS // 2] = k
        self.steps = [self._changed(at, half)]
        return self._changed(at, np.full(WORDS, k)), map_and_write

    def do_map_and_wait(self, queue: Any) -> tuple[Arrays, Callable[[], object]]:
        """Mappings whose event nobody sets: only the exception ends the wait, and nothing stays mapped."""
        event = cl.UserEvent(self.context)
        self.events.append(event)
        svm = self.svm
        maps = [
            lambda: svm.map_rw(queue, wait_for=[event]),
            lambda: svm.map_ro(queue, wait_for=[event]),
            lambda: cl.enqueue_map_buffer(
                queue, self.buffers[0], cl.map_flags.READ, 0, WORDS, np.int32, wait_for=[event]
            ),
        ]
        return self.arrays, self.random.choice(maps)

    def do_map_image(self, queue: Any) -> tuple[Arrays, Callable[[], object]]:
        def image() -> None:
            form = cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.FLOAT)
            made = cl.Image(self.context, cl.mem_flags.READ_WRITE, form, (16, 8))
            flags = cl.map_flags.WRITE_INVALIDATE_REGION
            array, *_ = cl.enqueue_map_image(queue, made, flags, (0, 0), (16, 8), (8, 16, 4), np.float32)
            with array.base:
                array[:] = 3
            found = np.empty((8, 16, 4), np.float32)
            queue.finish()
            cl.enqueue_copy(queue, found, made, origin=(0, 0), region=(16, 8))
            assert (found == 3).all()

        return self.arrays, image

    def do_svm_copy(self, queue: Any) -> tuple[Arrays, Callable[[], object]]:
        """Shared virtual memory that belongs to a queue, from and to host memory."""

        def copy() -> None:
            memory = cl.tools.SVMAllocator(self.context, queue=self.queues[0])(4 * WORDS)
            value = np.arange(WORDS, dtype=np.int32)
            cl.enqueue_copy(self.queues[0], memory, value)
            self.add(self.queues[0], (WORDS,), None, memory, np.int32(1))
            found = np.empty_like(value)
            cl.enqueue_copy(self.queues[0], found, memory)
            np.testing.assert_array_equal(found, value + 1)
            memory.enqueue_release()

        return self.arrays, copy

    def do_pool(self, queue: Any) -> tuple[Arrays, Callable[[], object]]:
        """Memory that a pool hands out and takes back."""
        (at,), k = self._pick(), np.int32(self.random.randrange(1000))

        def launch() -> None:
            block = self.pool.allocate(4 * WORDS)
            cl.enqueue_copy(self.queues[0], block, self.buffers[at], byte_count=4 * WORDS)
            self.add(self.queues[0], (WORDS,), None, block, k)
            cl.enqueue_copy(self.queues[0], self.buffers[at], block, byte_count=4 * WORDS)
            block.release()

        return self._changed(at, self.arrays[at] + k), launch

    def do_array(self, queue: Any) -> tuple[Arrays, Callable[[], object]]:
        """PyOpenCL's arrays, whose kernels PyOpenCL's Python layer makes and keeps."""
        (at,), k = self._pick(), self.random.randrange(1000)

        def compute() -> None:
            whole = cl.array.Array(self.queues[0], WORDS, np.int32, data=self.buffers[at])
            whole += np.int32(k)
            assert int(cl.array.sum(whole - whole).get()) == 0

        return self._changed(at, self.arrays[at] + k), compute

    def do_callback(self, queue: Any) -> tuple[Arrays, Callable[[], object]]:
        """A callback that is called however its call ends."""
        (at,), k = self._pick(), np.int32(self.random.randrange(1000))

        def launch() -> None:
            called: list[int] = []
            done = self.add(queue, (WORDS,), None, self.buffers[at], k)
            done.set_callback(cl.command_execution_status.COMPLETE, called.append)
            deadline = time.monotonic() + 100
            while (
                not called
            ):  # an exception in the middle of a `threading` wait would be the program's own trouble
                assert time.monotonic() < deadline
                time.sleep(0.0005)

        return self._changed(at, self.arrays[at] + k), launch
