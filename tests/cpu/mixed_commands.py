"""Commands of all kinds in random order on buffers and overlapping sub-buffers, against NumPy. Run by `test_mixed_commands`.

python mixed_commands.py SEED
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pyopencl as cl

COUNT, STEPS = 4096, 300
SOURCE = """
kernel void change(global int *a, int k, int n) { int i = get_global_id(0); if (i < n) a[i] = a[i] * 3 + k + i; }
kernel void add(global const int *a, global int *b, int k, int n)
    { int i = get_global_id(0); if (i < n) b[i] += a[(i + k) % n]; }
"""
Pair = tuple[Any, Any]  # a buffer, and what it holds


class Program:
    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.context = cl.create_some_context(interactive=False)
        out_of_order = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE if seed % 2 else 0
        self.queue = cl.CommandQueue(self.context, properties=out_of_order)
        self.ordered = not seed % 2
        built = cl.Program(self.context, SOURCE).build()
        self.change, self.add = (cl.Kernel(built, name) for name in ("change", "add"))
        self.buffers = [self.buffer(number) for number in range(4)]
        self.parts = [
            (buffer.get_sub_region(4 * start, 4 * 1024), held[start : start + 1024])
            for buffer, held in self.buffers
            for start in (0, 256, 1024, 1536)
        ]

    def upto(self, most: int) -> int:
        return int(self.random.integers(most))

    def buffer(self, number: int) -> Pair:
        flags, host = cl.mem_flags, self.random.integers(0, 1000, COUNT, np.int32)
        if number == 0:
            return cl.Buffer(self.context, flags.COPY_HOST_PTR, hostbuf=host), host.copy()
        if number == 1:
            self.used = host  # the buffer's memory as long as it lives
            return cl.Buffer(self.context, flags.USE_HOST_PTR, hostbuf=host), host.copy()
        made = cl.Buffer(self.context, flags.READ_WRITE, 4 * COUNT)
        if number == 2:
            cl.enqueue_copy(self.queue, made, host)
            return made, host.copy()
        cl.enqueue_fill_buffer(self.queue, made, np.int32(5), 0, 4 * COUNT)
        return made, np.full(COUNT, 5, np.int32)

    def any(self) -> Pair:
        return self.buffers[self.upto(4)]

    def piece(self) -> tuple[int, int]:
        start = self.upto(COUNT - 1)
        return start, 1 + self.upto(COUNT - start)

    def step(self) -> None:
        what = [self.changed] * 3 + [self.added] * 2 + [self.written, self.mapped, self.copied, self.filled]
        what[self.upto(len(what))]()
        if not self.ordered:
            cl.enqueue_barrier(self.queue)

    def changed(self) -> None:
        buffer, held = self.parts[self.upto(16)] if self.upto(2) else self.any()
        stop, k = 1 + self.upto(len(held)), np.int32(self.upto(100))
        start = self.upto(stop) if self.upto(2) else 0
        size = -(-(stop - start) // 16) * 16
        self.change(self.queue, (size,), (16,), buffer, k, np.int32(stop), global_offset=(start,))
        held[start:stop] = held[start:stop] * 3 + k + np.arange(start, stop, dtype=np.int32)

    def added(self) -> None:
        first, second = self.random.permutation(4)[:2]
        (a, read), (b, held) = self.buffers[first], self.buffers[second]
        stop, k = 1 + self.upto(COUNT), self.upto(COUNT)
        self.add(self.queue, (-(-stop // 16) * 16,), (16,), a, b, np.int32(k), np.int32(stop))
        held[:stop] += read[(np.arange(stop) + k) % stop]

    def written(self) -> None:
        (buffer, held), (start, length) = self.any(), self.piece()
        values = self.random.integers(0, 100, length, np.int32)
        cl.enqueue_copy(self.queue, buffer, values, dst_offset=4 * start)
        held[start : start + length] = values

    def mapped(self) -> None:
        (buffer, held), (start, length) = self.any(), self.piece()
        flags = cl.map_flags.READ | cl.map_flags.WRITE
        array, _ = cl.enqueue_map_buffer(self.queue, buffer, flags, 4 * start, (length,), np.int32)
        assert (array == held[start : start + length]).all(), "what is mapped is what was written"
        array += 7
        held[start : start + length] += 7
        array.base.release(self.queue)

    def copied(self) -> None:
        first, second = self.random.permutation(4)[:2]
        length = 1 + self.upto(COUNT)
        cl.enqueue_copy(self.queue, self.buffers[first][0], self.buffers[second][0], byte_count=4 * length)
        self.buffers[first][1][:length] = self.buffers[second][1][:length]

    def filled(self) -> None:
        (buffer, held), (start, length) = self.any(), self.piece()
        cl.enqueue_fill_buffer(self.queue, buffer, np.int32(9), 4 * start, 4 * length)
        held[start : start + length] = 9

    def compare(self) -> None:
        for number, (buffer, held) in enumerate(self.buffers):
            found = np.empty(COUNT, np.int32)
            cl.enqueue_copy(self.queue, found, buffer)
            wrong = np.flatnonzero(found != held)
            assert not len(wrong), f"buffer {number}: {len(wrong)} elements differ, from {wrong[0]} on"


def main() -> None:
    program = Program(int(sys.argv[1]))
    for number in range(STEPS):
        program.step()
        if number % 50 == 0:
            program.compare()
    program.compare()
    print("the same")


if __name__ == "__main__":
    main()
