"""Atomics on few bins among commands of all kinds, on buffers and sub-buffers, against NumPy. Run by `test_pending_sums`.

python pending_sums.py SEED
"""

from __future__ import annotations

import sys

import numpy as np
import pyopencl as cl

COUNT, BINS, STEPS = 16384, 512, 250
SOURCE = """
kernel void count(global const uint *a, global uint *bins, uint n)
    { uint i = get_global_id(0); if (i < n) atomic_add(&bins[a[i] % n], a[i]); }
kernel void largest(global const uint *a, global uint *bins, uint n)
    { uint i = get_global_id(0); atomic_max(&bins[a[i] % n], a[i]); }
kernel void place(global const uint *a, global uint *bins, global uint *out)
    { uint i = get_global_id(0); out[i] = atomic_inc(&bins[a[i] % 2]) & 0; }
kernel void spread(global const uint *bins, global uint *a, uint n)
    { uint i = get_global_id(0); a[i] = a[i] * 5 + bins[i % n]; }
kernel void scale(global uint *bins) { bins[get_global_id(0)] *= 3; }
kernel void set(global uint *bins, uint k) { bins[get_global_id(0)] = k + get_global_id(0); }
"""


class Program:
    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        context = cl.create_some_context(interactive=False)
        self.queue = cl.CommandQueue(context)
        built = cl.Program(context, SOURCE).build()
        self.kernel = {name: cl.Kernel(built, name) for name in built.kernel_names.split(";")}
        flags = cl.mem_flags
        self.arrays = [self.random.integers(0, 1 << 32, COUNT, np.uint32) for _ in range(3)]
        self.buffers = [cl.Buffer(context, flags.COPY_HOST_PTR, hostbuf=held) for held in self.arrays]
        self.out = cl.Buffer(context, flags.READ_WRITE, 4 * COUNT)
        self.sums = self.random.integers(0, 1000, BINS, np.uint32)
        self.bins = cl.Buffer(context, flags.COPY_HOST_PTR, hostbuf=self.sums)
        self.half = self.bins.get_sub_region(BINS * 2, BINS * 2)

    def upto(self, most: int) -> int:
        return int(self.random.integers(most))

    def piece(self) -> tuple[int, int]:
        start = self.upto(BINS - 1)
        return start, 1 + self.upto(BINS - start)

    def step(self) -> None:
        many = [self.counted] * 6 + [self.counted_in_half] * 2 + [self.maximised] * 2
        few = [self.looked, self.spread, self.scaled, self.set, self.written, self.filled, self.copied]
        choices = [*many, *few, self.mapped, self.placed, self.filled_whole, self.written_odd]
        which = self.upto(len(self.buffers))
        self.a, self.held = self.buffers[which], self.arrays[which]
        choices[self.upto(len(choices))]()

    def counted(self) -> None:
        n = BINS if self.upto(4) else 1 + self.upto(BINS)
        self.kernel["count"](self.queue, (COUNT,), (64,), self.a, self.bins, np.uint32(n))
        np.add.at(self.sums, self.held[:n] % n, self.held[:n])

    def counted_in_half(self) -> None:
        n = BINS // 2
        self.kernel["count"](self.queue, (COUNT,), (64,), self.a, self.half, np.uint32(n))
        np.add.at(self.sums[n:], self.held[:n] % n, self.held[:n])

    def maximised(self) -> None:
        self.kernel["largest"](self.queue, (COUNT,), (64,), self.a, self.bins, np.uint32(BINS))
        np.maximum.at(self.sums, self.held % BINS, self.held)

    def placed(self) -> None:
        self.kernel["place"](self.queue, (COUNT,), (64,), self.a, self.bins, self.out)
        np.add.at(self.sums, self.held % 2, 1)

    def looked(self) -> None:
        start, count = self.piece()
        found = np.empty(count, np.uint32)
        cl.enqueue_copy(self.queue, found, self.bins, src_offset=4 * start)
        assert (found == self.sums[start : start + count]).all(), (start, count)

    def spread(self) -> None:
        n = 1 + self.upto(BINS)
        self.kernel["spread"](self.queue, (COUNT,), (64,), self.bins, self.a, np.uint32(n))
        self.held[:] = self.held * np.uint32(5) + self.sums[np.arange(COUNT) % n]

    def scaled(self) -> None:
        self.kernel["scale"](self.queue, (BINS,), (16,), self.bins)
        self.sums *= np.uint32(3)

    def set(self) -> None:
        k, count = np.uint32(self.upto(1000)), BINS if self.upto(2) else BINS // 2
        self.kernel["set"](self.queue, (count,), (16,), self.bins, k)
        self.sums[:count] = k + np.arange(count, dtype=np.uint32)

    def written(self) -> None:
        start, count = self.piece()
        new = self.random.integers(0, 1 << 32, count, np.uint32)
        cl.enqueue_copy(self.queue, self.bins, new, dst_offset=4 * start)
        self.sums[start : start + count] = new

    def written_odd(self) -> None:
        """From the middle of one element to the middle of another."""
        start = 1 + self.upto(4 * BINS - 10)
        new = self.random.integers(0, 256, 7, np.uint8)
        cl.enqueue_copy(self.queue, self.bins, new, dst_offset=start)
        self.sums.view(np.uint8)[start : start + 7] = new

    def filled(self) -> None:
        start, count = self.piece()
        cl.enqueue_fill_buffer(self.queue, self.bins, np.uint32(7), 4 * start, 4 * count)
        self.sums[start : start + count] = 7

    def filled_whole(self) -> None:
        cl.enqueue_fill_buffer(self.queue, self.bins, np.uint32(0), 0, 4 * BINS)
        self.sums[:] = 0

    def copied(self) -> None:
        start, count = self.piece()
        if self.upto(2):
            cl.enqueue_copy(
                self.queue, self.a, self.bins, src_offset=4 * start, dst_offset=0, byte_count=4 * count
            )
            self.held[:count] = self.sums[start : start + count]
        else:
            cl.enqueue_copy(
                self.queue, self.bins, self.a, src_offset=0, dst_offset=4 * start, byte_count=4 * count
            )
            self.sums[start : start + count] = self.held[:count]

    def mapped(self) -> None:
        start, count = self.piece()
        flags = cl.map_flags
        flag = [flags.READ, flags.READ | flags.WRITE, flags.WRITE_INVALIDATE_REGION][self.upto(3)]
        array, _ = cl.enqueue_map_buffer(self.queue, self.bins, flag, 4 * start, (count,), np.uint32)
        if flag != flags.WRITE_INVALIDATE_REGION:
            assert (array == self.sums[start : start + count]).all(), (start, count)
        if flag != flags.READ:
            array[:] = self.sums[start : start + count] = self.upto(1000)
        array.base.release(self.queue)


def main(seed: int) -> None:
    program = Program(seed)
    for _ in range(STEPS):
        program.step()
    pairs = zip([*program.buffers, program.bins], [*program.arrays, program.sums], strict=True)
    for buffer, held in pairs:
        found = np.empty_like(held)
        cl.enqueue_copy(program.queue, found, buffer)
        assert (found == held).all()
    print("the same")
    if len(sys.argv) > 2:
        import vdev

        stats = vdev.stats()
        print("folds:", sum(row.count for row in stats.commands if row.kind == "fold"))
        print("additions:", sum(row.launches for row in stats.kernels if row.name in ("count", "largest")))


if __name__ == "__main__":
    main(int(sys.argv[1]))
