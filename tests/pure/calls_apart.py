"""A program whose calls differ from one to the next, and how many of them are submitted once each has been made for a while: a process of
its own, started by `test_calls_apart`. It prints a line for each kind of call: its name, and how many submissions a hundred calls took.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import numpy as np
import pyopencl as cl

from vdev.executor.executor import Executor
from vdev.session.immediate import AtOnce

SOURCE = """
kernel void add(global uint *a, uint n) { a[get_global_id(0)] += n; }
kernel void look(global uint *a, read_only image2d_t pixels, uint n)
{
    a[get_global_id(0)] += read_imageui(pixels, (int2)(get_global_id(0) & 63, 0)).x + n;
}
"""
WORDS, GROUP = 4096, 64
LONG = 1 << 16  #: words of a buffer that is mapped
FLAGS = cl.mem_flags
MAPPED = cl.map_flags.READ | cl.map_flags.WRITE

submitted, looked_at = [0], [0]


def _counted(counts: list[int], function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **named: Any) -> Any:
        counts[0] += 1
        return function(*args, **named)

    return call


Executor.submit = _counted(submitted, Executor.submit)  # type: ignore[method-assign]
AtOnce.launch = _counted(looked_at, AtOnce.launch)  # type: ignore[method-assign]


class Calls:
    """The calls, by name; each takes a number that is another each time."""

    def __init__(self) -> None:
        self.context = cl.create_some_context(interactive=False)
        self.queue = cl.CommandQueue(self.context)
        profiling = cl.command_queue_properties.PROFILING_ENABLE
        self.profiled = cl.CommandQueue(self.context, properties=profiling)
        self.program = cl.Program(self.context, SOURCE).build()
        self.add, self.look = self.program.add, self.program.look
        form = cl.ImageFormat(cl.channel_order.R, cl.channel_type.UNSIGNED_INT32)
        self.image = cl.Image(self.context, FLAGS.READ_WRITE, form, shape=(64, 64))
        self.one, self.other, self.long = (
            cl.Buffer(self.context, FLAGS.READ_WRITE, 4 * words) for words in (WORDS, WORDS, LONG)
        )
        self.host = np.zeros(WORDS, np.uint32)
        for _ in range(200):  # until launches take no plans, where there are several workers
            for buffer in (self.one, self.other, self.long):
                self.launch(buffer)
            self.with_an_image(1)
        self.queue.finish()

    def launch(self, buffer: Any, number: int = 1, queue: Any = None) -> Any:
        return self.add(queue or self.queue, (WORDS,), (GROUP,), buffer, np.uint32(number))

    def on_a_new_buffer(self, number: int) -> None:
        self.launch(cl.Buffer(self.context, FLAGS.READ_WRITE, 4 * WORDS), number)

    def on_new_content(self, number: int) -> None:
        flags = FLAGS.READ_WRITE | FLAGS.COPY_HOST_PTR
        self.launch(cl.Buffer(self.context, flags, hostbuf=self.host), number)

    def on_the_host_s_memory(self, number: int) -> None:
        flags = FLAGS.READ_WRITE | FLAGS.USE_HOST_PTR
        self.launch(cl.Buffer(self.context, flags, hostbuf=self.host), number)
        self.queue.finish()

    def a_kernel_of_its_own(self, number: int) -> None:
        self.program.add(self.queue, (WORDS,), (GROUP,), self.one, np.uint32(number))

    def with_times(self, number: int) -> None:
        event = self.launch(self.one, number, self.profiled)
        event.wait()
        assert 0 < event.profile.start <= event.profile.end

    def with_an_image(self, number: int) -> None:
        self.look(self.queue, (WORDS,), (GROUP,), self.one, self.image, np.uint32(number))

    def an_image(self, number: int) -> None:
        pixels, box = self.host.reshape(64, 64), {"origin": (0, number % 8), "region": (64, 32)}
        cl.enqueue_copy(self.queue, self.image, pixels, is_blocking=False, **box)
        cl.enqueue_copy(self.queue, pixels, self.image, **box)

    def a_write(self, number: int) -> None:
        cl.enqueue_copy(self.queue, self.one, self.host[:64], dst_offset=4 * number, is_blocking=False)

    def a_read(self, number: int) -> None:
        cl.enqueue_copy(self.queue, self.host[:64], self.one, src_offset=4 * number)

    def a_fill(self, number: int) -> None:
        cl.enqueue_fill_buffer(self.queue, self.one, np.uint32(number), 4 * number, 256)

    def a_copy(self, number: int) -> None:
        cl.enqueue_copy(
            self.queue, self.one, self.other, byte_count=256, src_offset=4 * number, dst_offset=8 * number
        )

    def a_box(self, number: int) -> None:
        cl.enqueue_copy(
            self.queue,
            self.one,
            self.host,
            buffer_origin=(4 * number, number % 7, 0),
            host_origin=(0, number % 5, 0),
            region=(16, 8, 1),
            buffer_pitches=(128,),
            host_pitches=(64,),
            is_blocking=False,
        )

    def a_copied_box(self, number: int) -> None:
        cl.enqueue_copy(
            self.queue,
            self.one,
            self.other,
            src_origin=(4 * number, 0, 0),
            dst_origin=(number, number % 7, 0),
            region=(16, 8, 1),
            src_pitches=(128,),
            dst_pitches=(256,),
        )

    def a_mapping(self, number: int) -> None:
        self.launch(self.long, number)
        mapped, _ = cl.enqueue_map_buffer(self.queue, self.long, MAPPED, 0, (LONG,), np.uint32)
        mapped[number] = number
        mapped.base.release(self.queue)

    def a_migration(self, number: int) -> None:
        cl.enqueue_migrate_mem_objects(self.queue, [self.one], 0)


def kinds(calls: Calls) -> Iterator[tuple[str, Callable[[int], None]]]:
    for name in vars(Calls):
        if name.startswith(("a_", "an_", "on_", "with_")):
            yield name, getattr(calls, name)


def main() -> None:
    calls, numbers = Calls(), count()
    for name, call in kinds(calls):
        for _ in range(150):
            call(next(numbers) % 500)
            if name.startswith("on_"):
                calls.queue.finish()
        submitted[0] = looked_at[0] = 0
        for _ in range(100):
            call(next(numbers) % 500)
        print(name, submitted[0], looked_at[0])
        calls.queue.finish()
    sys.stdout.flush()


if __name__ == "__main__":
    main()
