"""Kernels whose scalars change with every launch, compared with NumPy. A program for the virtual device with several
workers; prints how many plans were filled in for each kernel."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import numpy as np
import pyopencl as cl

from vdev.session import filling

SOURCE = """
kernel void tile(global int *a, int n, int x0, int y0) {
    int x = get_global_id(0) + x0, y = get_global_id(1) + y0;
    if (x < n && y < n) a[y * n + x] = a[y * n + x] * 3 + x0 - 7 * y0;
}
kernel void update(global int *a, int n, int k) {
    int x = get_global_id(0) + k + 1, y = get_global_id(1) + k + 1;
    if (x < n && y < n) a[y * n + x] -= a[y * n + k] * a[k * n + x];
}
kernel void shifted(global int *to, global const int *from, int by) {
    int i = get_global_id(0);
    to[i] = i >= by ? from[i] + from[i - by] : from[i];
}
kernel void slot(global int *history, global const int *x, int n, int step) {
    int i = get_global_id(0);
    history[(step % 16) * n + i] = x[i] + history[((step + 15) % 16) * n + i];
}
kernel void before(global int *a, int n, int value) {
    int i = get_global_id(0);
    if (i < n) a[i] += value;
}
kernel void histogram(global int *counts, global const int *a, int first) { atomic_inc(&counts[a[get_global_id(0) + first] & 31]); }
"""
N = 96


class Host:
    def __init__(self) -> None:
        self.context = cl.create_some_context(interactive=False)
        self.queue = cl.CommandQueue(self.context)
        self.program = cl.Program(self.context, SOURCE).build()
        self.kernels: dict[str, Any] = {kernel.function_name: kernel for kernel in self.program.all_kernels()}
        self.rng = np.random.default_rng(7)

    def buffer(self, count: int) -> tuple[Any, np.ndarray]:
        content = self.rng.integers(-9, 9, count).astype(np.int32)
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        return cl.Buffer(self.context, flags, hostbuf=content), content.copy()

    def call(self, name: str, size: tuple[int, ...], *args: Any) -> None:
        passed = [np.int32(arg) if isinstance(arg, int) else arg for arg in args]
        self.kernels[name](self.queue, size, (8,) * len(size), *passed)

    def same(self, buffer: Any, model: np.ndarray) -> None:
        found = np.empty_like(model)
        cl.enqueue_copy(self.queue, found, buffer)
        assert (found == model).all(), np.flatnonzero(found != model)[:8]


def tiles(host: Host) -> None:
    matrix, model = host.buffer(N * N)
    square = model.reshape(N, N)
    for number in range(120):
        x0, y0 = (number, number) if number < 80 else (number * 7 % 90, number * 5 % 80)
        host.call("tile", (32, 32), matrix, N, x0, y0)
        part = square[y0 : y0 + 32, x0 : x0 + 32]
        part[:] = part * 3 + x0 - 7 * y0
        if number % 41 == 0:
            host.same(matrix, model)
    host.same(matrix, model)


def updates(host: Host) -> None:
    matrix, model = host.buffer(N * N)
    square = model.reshape(N, N)
    for k in range(N - 1):
        rest = -(-(N - 1 - k) // 8) * 8
        host.call("update", (rest, rest), matrix, N, k)
        square[k + 1 :, k + 1 :] -= np.outer(square[k + 1 :, k], square[k, k + 1 :])
    host.same(matrix, model)


def shifts(host: Host) -> None:
    buffers = [host.buffer(4096), host.buffer(4096)]
    for number in range(100):
        (to, of_to), (source, of_source) = buffers
        by = 1 + 5 * number
        host.call("shifted", (4096,), to, source, by)
        of_to[:] = of_source
        of_to[by:] += of_source[:-by]
        buffers.reverse()
    host.same(*buffers[0])


def slots(host: Host) -> None:
    history, model = host.buffer(16 * 512)
    given, of_given = host.buffer(512)
    rows = model.reshape(16, 512)
    for step in range(100):
        host.call("slot", (512,), history, given, 512, step)
        rows[step % 16] = of_given + rows[(step + 15) % 16]
        if step % 29 == 0:
            of_given[:] = host.rng.integers(-9, 9, 512)
            cl.enqueue_copy(host.queue, given, of_given)
    host.same(history, model)


def befores(host: Host) -> None:
    buffer, model = host.buffer(4096)
    for number in range(100):
        host.call("before", (4096,), buffer, 4096 - 37 * number, number)
        model[: 4096 - 37 * number] += number
    host.same(buffer, model)


def parts(host: Host) -> None:
    """Sub-buffers whose origin moves on; the first half of them in turn with tiles in others."""
    align = max(host.context.devices[0].mem_base_addr_align // 8, 128)
    step = align // 4
    buffer, model = host.buffer(step * 120 + N * N)
    for number in range(120):
        part = buffer.get_sub_region(number * align, 4 * 1024)
        host.call("before", (1024,), part, 1000 - number, number)
        model[number * step : number * step + 1000 - number] += number
        if number % 2 and number < 60:
            matrix = buffer.get_sub_region((120 - number) * align, 4 * N * N)
            host.call("tile", (32, 32), matrix, N, 3, number)
            square = model[(120 - number) * step :][: N * N].reshape(N, N)[number : number + 32, 3:35]
            square[:] = square * 3 + 3 - 7 * number
    host.same(buffer, model)


def histograms(host: Host) -> None:
    counts, of_counts = host.buffer(32)
    given, of_given = host.buffer(8192)
    for number in range(60):
        host.call("histogram", (1024,), counts, given, 64 * number)
        of_counts += np.bincount(of_given[64 * number : 64 * number + 1024] & 31, minlength=32).astype(
            np.int32
        )
    host.same(counts, of_counts)


def main() -> int:
    filled: Counter[str] = Counter()
    find = filling.Forms.find

    def counted(self: filling.Forms, *args: Any) -> Any:
        found = find(self, *args)
        filled[program.__name__] += found is not None
        return found

    filling.Forms.find = counted  # type: ignore[method-assign]
    host = Host()
    for program in (tiles, updates, shifts, slots, befores, parts, histograms):
        filled[program.__name__] = 0
        program(host)
    print(*(f"{name}={count}" for name, count in filled.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
