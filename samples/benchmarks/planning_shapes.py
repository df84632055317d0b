"""Further programs for `planning.py`, in the manner of `planning_programs`: other ways in which launches differ from one
another that a planner may take long for.

Decides what is computed.
"""

from __future__ import annotations

import numpy as np
import pyopencl as cl
from planning_programs import Bench, Program, Steps

WINDOWS = """
kernel void window(global float *to, global const float *from, int pitch, int first, int width) {
    int x = get_global_id(0), y = get_global_id(1);
    to[y * width + x] += 0.5f * from[first + y * pitch + x];
}
"""


def pitches(bench: Bench) -> Steps:
    """A window on one buffer whose rows are longer at each step, as in an image of another width."""
    width = bench.size
    source = bench.buffer(bench.random.random((2 * width + 64) * width + 64 * 64, np.float32))
    to = bench.zeros(width * width, result=True)
    bench.build(WINDOWS)
    yield bench.steps
    for step in range(bench.steps):
        bench.run("window", (width, width), (16, 16), to, source, width + step, 7 * step % 4096, width)
        yield 0


TRIANGLE = """
kernel void row_of_tiles(global float *a, global const float *x, int n, int row) {
    int c = get_global_id(0), r = row + get_global_id(1);
    if (c <= r) a[r * n + c] += x[r] * x[c];
}
kernel void scaled(global float *x, global const float *a, int n, int row) {
    int r = row + get_global_id(0);
    x[r] = 0.5f * x[r] + 1e-3f * a[r * n + r];
}
"""


def triangle(bench: Bench) -> Steps:
    """A triangular matrix by rows of tiles, each row longer than the one before."""
    n, tile = bench.size, 16
    a = bench.zeros(n * n, result=True)
    x = bench.buffer(bench.random.random(n, np.float32), result=True)
    bench.build(TRIANGLE)
    yield bench.steps
    for step in range(bench.steps):
        row = step * tile % n
        bench.run("row_of_tiles", (row + tile, tile), (16, 16), a, x, n, row)
        bench.run("scaled", (tile,), (16,), x, a, n, row)
        yield 0


TENSOR = """
kernel void contract(global float *c, global const float *a, global const float *b, int n, int from, int to) {
    int l = get_global_id(0), m = get_global_id(1), ij = get_global_id(2);
    float sum = 0;
    for (int k = from; k < to; ++k) sum += a[(ij * n + k) * n + l] * b[k * n + m];
    c[(ij * n + m) * n + l] += sum;
}
"""


def tensor(bench: Bench) -> Steps:
    """A tensor of four dimensions, contracted over one in the middle, some of it at a time; then the result in its place."""
    n = bench.size
    a = bench.buffer(bench.random.random(n**4, np.float32) / n)
    b = bench.buffer(bench.random.random(n**2, np.float32))
    c = bench.zeros(n**4, result=True)
    bench.build(TENSOR)
    yield bench.steps
    for step in range(bench.steps):
        from_, to = (c, a) if step // 8 % 2 else (a, c)
        part = n // 8
        first = step % 8 * part
        bench.run("contract", (n, n, n * n), (8, 8, 1), to, from_, b, n, first, first + part)
        yield 0


FFT = """
kernel void pass(global float2 *to, global const float2 *from, int across, int stride) {
    int q = get_global_id(0) % stride, p = get_global_id(0) / stride, batch = get_global_id(1);
    global const float2 *x = from + (long)batch * 2 * across;
    global float2 *y = to + (long)batch * 2 * across;
    float2 a = x[q + stride * p], b = x[q + stride * p + across];
    float angle = -3.14159265f * (p * stride) / across;
    float2 d = a - b, w = (float2)(cos(angle), sin(angle));
    y[q + stride * 2 * p] = 0.7071f * (a + b);
    y[q + stride * (2 * p + 1)] = 0.7071f * (float2)(d.x * w.x - d.y * w.y, d.x * w.y + d.y * w.x);
}
"""


def fft_batches(bench: Bench) -> Steps:
    """Fourier transforms of many rows: between passes the stride doubles and the buffers are swapped."""
    n, rows = bench.size, 32
    x = bench.buffer(bench.random.random(2 * n * rows, np.float32), result=True)
    y = bench.zeros(2 * n * rows, result=True)
    bench.build(FFT)
    yield bench.steps
    passes = n.bit_length() - 1
    for step in range(bench.steps):
        bench.run("pass", (n // 2, rows), (64, 1), y, x, n // 2, 1 << step % passes)
        x, y = y, x
        yield 0


DILATED = """
kernel void dilated(global float *to, global const float *from, int n, int gap) {
    int x = get_global_id(0), y = get_global_id(1);
    float sum = 0;
    for (int j = -1; j <= 1; ++j)
        for (int i = -1; i <= 1; ++i) {
            int u = x + i * gap, v = y + j * gap;
            if (u >= 0 && u < n && v >= 0 && v < n) sum += from[v * n + u];
        }
    to[y * n + x] = sum / 9;
}
"""


def dilations(bench: Bench) -> Steps:
    """Convolutions whose taps lie further apart at each layer."""
    n = bench.size
    x = bench.buffer(bench.random.random(n * n, np.float32), result=True)
    y = bench.zeros(n * n, result=True)
    bench.build(DILATED)
    yield bench.steps
    for step in range(bench.steps):
        bench.run("dilated", (n, n), (16, 16), y, x, n, 1 + 3 * step % 61)
        x, y = y, x
        yield 0


BLOCKS = """
kernel void block(global float *y, global const float *a, global const float *x, int size, int at, int row, int column) {
    int r = get_global_id(0);
    float sum = 0;
    for (int c = 0; c < size; ++c) sum += a[(at * size + r) * size + c] * x[column * size + c];
    y[row * size + r] += sum;
}
"""


def block_list(bench: Bench) -> Steps:
    """A sparse matrix as a list of blocks, each multiplied by a launch whose scalars say where it lies."""
    blocks, size = 48, bench.size
    places = bench.random.integers(0, 16, (blocks, 2))
    a = bench.buffer(bench.random.random(blocks * size * size, np.float32))
    x = bench.buffer(bench.random.random(16 * size, np.float32))
    y = bench.zeros(16 * size, result=True)
    bench.build(BLOCKS)
    yield bench.steps
    for step in range(bench.steps):
        row, column = map(int, places[step % blocks])
        bench.run("block", (size,), (32,), y, a, x, size, step % blocks, row, column)
        yield 0


PREFIX = """
kernel void append(global float *a, int known) {
    int i = get_global_id(0);
    a[known + i] = 0.5f * a[known - 1 - i] + 0.25f * a[i];
}
kernel void smooth(global float *to, global const float *a, int known) {
    int i = get_global_id(0);
    if (i < known) to[i] = i ? 0.5f * (a[i] + a[i - 1]) : a[0];
}
"""


def prefix(bench: Bench) -> Steps:
    """A buffer to which each step appends some, made of all before; and what is there is smoothed."""
    n, part = bench.size, bench.size // (bench.steps + 2)
    a = bench.buffer(bench.random.random(n, np.float32), result=True)
    to = bench.zeros(n, result=True)
    bench.build(PREFIX)
    yield bench.steps
    known = part
    for _ in range(bench.steps):
        bench.run("append", (part // 64 * 64,), (64,), a, known)
        known += part // 64 * 64
        bench.run("smooth", (known,), (64,), to, a, known)
        yield 0


REVERSAL = """
kernel void reversed(global float *to, global const float *from, int bits) {
    uint i = get_global_id(0), r = 0;
    for (int b = 0; b < bits; ++b) r |= (i >> b & 1) << (bits - 1 - b);
    to[r] = from[i];
}
kernel void grown(global float *a, float by) { a[get_global_id(0)] += by; }
"""


def bit_reversal(bench: Bench) -> Steps:
    """A permutation by the bits of places, between two buffers, of twice as many elements now and then."""
    n = bench.size
    x = bench.buffer(bench.random.random(n, np.float32), result=True)
    y = bench.zeros(n, result=True)
    bench.build(REVERSAL)
    yield bench.steps
    for step in range(bench.steps):
        bits = n.bit_length() - 1 - step % 3
        bench.run("reversed", (1 << bits,), (64,), y, x, bits)
        bench.run("grown", (n,), (64,), y, np.float32(0.125 * step))
        x, y = y, x
        yield 0


SWAPPED = """
kernel void advanced(global float *to, global const float *from, int n, int time) {
    int x = get_global_id(0), y = get_global_id(1);
    int left = x ? x - 1 : n - 1, up = y ? y - 1 : n - 1;
    to[y * n + x] = 0.5f * from[y * n + x] + 0.25f * (from[y * n + left] + from[up * n + x]) + 1e-4f * (time % 7);
}
"""


def swapped(bench: Bench) -> Steps:
    """Two buffers that the host swaps, and of which it reads a row and writes another at each step."""
    n = bench.size
    x = bench.buffer(bench.random.random(n * n, np.float32), result=True)
    y = bench.zeros(n * n, result=True)
    row = np.empty(n, np.float32)
    bench.build(SWAPPED)
    yield bench.steps
    for step in range(bench.steps):
        bench.run("advanced", (n, n), (16, 16), y, x, n, step)
        x, y = y, x
        if step % 4 == 3:
            cl.enqueue_copy(bench.queue, row, x, src_offset=4 * n * (step % n))
            cl.enqueue_copy(bench.queue, x, row, dst_offset=4 * n * (3 * step % n))
        yield 0


VIEWS = """
kernel void by_rows(global float *a, int pitch, float by) {
    int x = get_global_id(0), y = get_global_id(1);
    a[y * pitch + x] *= by;
}
kernel void by_planes(global float *a, int n, float by) {
    int x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
    a[(z * n + y) * n + x] += by;
}
"""


def views(bench: Bench) -> Steps:
    """One buffer as a cube, and parts of it as matrices of other pitches."""
    n = bench.size
    a = bench.buffer(bench.random.random(n**3, np.float32), result=True)
    half = 2 * n**3 // 1024 * 1024
    parts = [a.get_sub_region(0, half), a.get_sub_region(half, 4 * n**3 - half)]
    bench.build(VIEWS)
    yield bench.steps
    for step in range(bench.steps):
        bench.run("by_planes", (n, n, n), (8, 8, 1), a, n, np.float32(0.25))
        width = (n, 2 * n, n + 8)[step % 3]
        height = half // 4 // width // 8 * 8
        bench.run("by_rows", (width // 8 * 8, height), (8, 8), parts[step % 2], width, np.float32(0.75))
        yield 0


#: size and steps of each preset
PROGRAMS: dict[str, tuple[Program, dict[str, tuple[int, int]]]] = {
    "pitches": (pitches, {"small": (256, 100), "large": (4096, 400)}),
    "triangle": (triangle, {"small": (512, 96), "large": (8192, 512)}),
    "tensor": (tensor, {"small": (16, 48), "large": (64, 96)}),
    "fft_batches": (fft_batches, {"small": (1 << 12, 120), "large": (1 << 20, 240)}),
    "dilations": (dilations, {"small": (384, 100), "large": (8192, 200)}),
    "block_list": (block_list, {"small": (128, 192), "large": (4096, 480)}),
    "prefix": (prefix, {"small": (1 << 18, 60), "large": (1 << 27, 200)}),
    "bit_reversal": (bit_reversal, {"small": (1 << 16, 60), "large": (1 << 26, 120)}),
    "swapped": (swapped, {"small": (384, 120), "large": (8192, 300)}),
    "views": (views, {"small": (64, 60), "large": (512, 120)}),
}
