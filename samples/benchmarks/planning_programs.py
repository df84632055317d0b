"""Programs whose launches differ from one another: the shapes that are hard to plan for.

Each is a generator: it makes its buffers and kernels, yields the number of its steps when it is ready, and 0 after each
step it has enqueued; what it returns in `Bench.results` is compared between devices. Decides what is computed; `planning.py` decides
how it is timed, and may stop after any step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyopencl as cl

Steps = Iterator[int]
Program = Callable[["Bench"], Steps]


class Bench:
    """What a program works with: a queue, its size, and what it makes."""

    def __init__(self, context: cl.Context, queue: cl.CommandQueue, size: int, steps: int) -> None:
        self.context = context
        self.queue = queue
        self.size = size
        self.steps = steps
        self.results: list[tuple[cl.Buffer, Any]] = []  #: buffers to compare, and their elements' type
        self._kernels: dict[str, cl.Kernel] = {}
        self.random = np.random.default_rng(7)

    def build(self, source: str, **numbers: int) -> None:
        """Make the kernels of a source; `numbers` become macros."""
        options = [f"-D{name}={value}" for name, value in numbers.items()]
        program = cl.Program(self.context, source).build(options)
        self._kernels |= {kernel.function_name: kernel for kernel in program.all_kernels()}

    def buffer(self, array: Any, *, result: bool = False) -> cl.Buffer:
        """A buffer with an array's content."""
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        made = cl.Buffer(self.context, flags, hostbuf=np.ascontiguousarray(array))
        if result:
            self.results.append((made, array.dtype))
        return made

    def zeros(self, count: int, kind: Any = np.float32, *, result: bool = False) -> cl.Buffer:
        """A buffer of zeros."""
        made = cl.Buffer(self.context, cl.mem_flags.READ_WRITE, count * np.dtype(kind).itemsize)
        cl.enqueue_fill_buffer(self.queue, made, b"\0", 0, made.size)
        if result:
            self.results.append((made, np.dtype(kind)))
        return made

    def run(self, name: str, size: tuple[int, ...], group: tuple[int, ...], *args: Any) -> None:
        """Launch a kernel over at least `size` work-items, in whole groups; integers are passed as int."""
        whole = tuple(-(-items // each) * each for items, each in zip(size, group, strict=True))
        fitting = [np.int32(arg) if isinstance(arg, int) else arg for arg in args]
        self._kernels[name](self.queue, whole, group, *fitting)


LU = """
kernel void lu_tile(global float *a, int n, int k) {
    int r = get_local_id(0);
    for (int p = 0; p < T; ++p) {
        barrier(CLK_GLOBAL_MEM_FENCE);
        if (r > p) {
            float f = a[(k + r) * n + k + p] / a[(k + p) * n + k + p];
            a[(k + r) * n + k + p] = f;
            for (int c = p + 1; c < T; ++c) a[(k + r) * n + k + c] -= f * a[(k + p) * n + k + c];
        }
    }
}
kernel void lu_row(global float *a, int n, int k) {
    int c = k + T + get_global_id(0);
    if (c >= n) return;
    for (int p = 0; p < T; ++p)
        for (int r = p + 1; r < T; ++r) a[(k + r) * n + c] -= a[(k + r) * n + k + p] * a[(k + p) * n + c];
}
kernel void lu_column(global float *a, int n, int k) {
    int r = k + T + get_global_id(0);
    if (r >= n) return;
    for (int p = 0; p < T; ++p) {
        float f = a[r * n + k + p] / a[(k + p) * n + k + p];
        a[r * n + k + p] = f;
        for (int c = p + 1; c < T; ++c) a[r * n + k + c] -= f * a[(k + p) * n + k + c];
    }
}
kernel void lu_update(global float *a, int n, int k) {
    int c = k + T + get_global_id(0), r = k + T + get_global_id(1);
    if (c >= n || r >= n) return;
    float sum = 0;
    for (int p = 0; p < T; ++p) sum += a[r * n + k + p] * a[(k + p) * n + c];
    a[r * n + c] -= sum;
}
"""
TILE = 32


def lu(bench: Bench) -> Steps:
    """LU factorisation by tiles, without pivoting: a small panel, then a large update, at a moving origin."""
    n = bench.size
    matrix = bench.random.random((n, n), np.float32) + n * np.eye(n, dtype=np.float32)
    a = bench.buffer(matrix, result=True)
    bench.build(LU, T=TILE)
    yield n // TILE
    for k in range(0, n, TILE):
        rest = n - k - TILE
        bench.run("lu_tile", (TILE,), (TILE,), a, n, k)
        if rest > 0:
            bench.run("lu_row", (rest,), (64,), a, n, k)
            bench.run("lu_column", (rest,), (64,), a, n, k)
            bench.run("lu_update", (rest, rest), (16, 16), a, n, k)
        yield 0


CHOLESKY = """
kernel void root_tile(global float *a, int n, int k) {
    int r = get_local_id(0);
    for (int p = 0; p < T; ++p) {
        barrier(CLK_GLOBAL_MEM_FENCE);
        if (r == p) a[(k + p) * n + k + p] = sqrt(a[(k + p) * n + k + p]);
        barrier(CLK_GLOBAL_MEM_FENCE);
        if (r > p) a[(k + r) * n + k + p] /= a[(k + p) * n + k + p];
        barrier(CLK_GLOBAL_MEM_FENCE);
        for (int c = p + 1; c <= r; ++c) a[(k + r) * n + k + c] -= a[(k + r) * n + k + p] * a[(k + c) * n + k + p];
    }
}
kernel void solve_column(global float *a, int n, int k) {
    int r = k + T + get_global_id(0);
    if (r >= n) return;
    for (int p = 0; p < T; ++p) {
        float sum = a[r * n + k + p];
        for (int c = 0; c < p; ++c) sum -= a[r * n + k + c] * a[(k + p) * n + k + c];
        a[r * n + k + p] = sum / a[(k + p) * n + k + p];
    }
}
kernel void update_lower(global float *a, int n, int k) {
    int c = k + T + get_global_id(0), r = k + T + get_global_id(1);
    if (r >= n || c > r) return;
    float sum = 0;
    for (int p = 0; p < T; ++p) sum += a[r * n + k + p] * a[c * n + k + p];
    a[r * n + c] -= sum;
}
"""


def cholesky(bench: Bench) -> Steps:
    """Cholesky factorisation by tiles: the lower triangle of what is left is updated."""
    n = bench.size
    half = bench.random.random((n, n), np.float32)
    a = bench.buffer(half + half.T + 2 * n * np.eye(n, dtype=np.float32), result=True)
    bench.build(CHOLESKY, T=TILE)
    yield n // TILE
    for k in range(0, n, TILE):
        rest = n - k - TILE
        bench.run("root_tile", (TILE,), (TILE,), a, n, k)
        if rest > 0:
            bench.run("solve_column", (rest,), (64,), a, n, k)
            bench.run("update_lower", (rest, rest), (16, 16), a, n, k)
        yield 0


PATHS = """
kernel void relax(global int *d, int n, int k) {
    int x = get_global_id(0), y = get_global_id(1);
    if (x < n && y < n) d[y * n + x] = min(d[y * n + x], d[y * n + k] + d[k * n + x]);
}
kernel void table_tile(global int *d, int n, int k) {
    int x = k + get_local_id(0), y = k + get_local_id(1);
    for (int p = k; p < k + B; ++p) {
        int there = d[y * n + p] + d[p * n + x];
        barrier(CLK_GLOBAL_MEM_FENCE);
        if (there < d[y * n + x]) d[y * n + x] = there;
        barrier(CLK_GLOBAL_MEM_FENCE);
    }
}
kernel void table_row(global int *d, int n, int k) {
    int x = get_global_id(0);
    if (x >= n || (x >= k && x < k + B)) return;
    for (int p = k; p < k + B; ++p)
        for (int y = k; y < k + B; ++y) d[y * n + x] = min(d[y * n + x], d[y * n + p] + d[p * n + x]);
}
kernel void table_column(global int *d, int n, int k) {
    int y = get_global_id(0);
    if (y >= n || (y >= k && y < k + B)) return;
    for (int p = k; p < k + B; ++p)
        for (int x = k; x < k + B; ++x) d[y * n + x] = min(d[y * n + x], d[y * n + p] + d[p * n + x]);
}
kernel void table_rest(global int *d, int n, int k) {
    int x = get_global_id(0), y = get_global_id(1);
    if (x >= n || y >= n || (x >= k && x < k + B) || (y >= k && y < k + B)) return;
    int best = d[y * n + x];
    for (int p = k; p < k + B; ++p) best = min(best, d[y * n + p] + d[p * n + x]);
    d[y * n + x] = best;
}
"""
BLOCK = 16


def _distances(bench: Bench) -> cl.Buffer:
    n = bench.size
    table = bench.random.integers(1, 1000, (n, n), np.int32)
    np.fill_diagonal(table, 0)
    bench.build(PATHS, B=BLOCK)
    return bench.buffer(table, result=True)


def shortest_paths(bench: Bench) -> Steps:
    """All-pairs shortest paths: every step reads one row and one column, which move on, and writes the table."""
    n, table = bench.size, _distances(bench)
    yield min(n, bench.steps)
    for k in range(min(n, bench.steps)):
        bench.run("relax", (n, n), (16, 16), table, n, k)
        yield 0


def table(bench: Bench) -> Steps:
    """The same by tiles: a tile, its row and column, then all others from these."""
    n, d = bench.size, _distances(bench)
    yield -(-min(n, bench.steps * BLOCK) // BLOCK)
    for k in range(0, min(n, bench.steps * BLOCK), BLOCK):
        bench.run("table_tile", (BLOCK, BLOCK), (BLOCK, BLOCK), d, n, k)
        bench.run("table_row", (n,), (64,), d, n, k)
        bench.run("table_column", (n,), (64,), d, n, k)
        bench.run("table_rest", (n, n), (16, 16), d, n, k)
        yield 0


FIELDS = """
#define AT(x, y, z) (((z) * n + (y)) * (long)n + (x))
#define CELL int x = get_global_id(0), y = get_global_id(1), z = get_global_id(2); \\
    if (x >= n - 1 || y >= n - 1 || z >= n - 1) return; long i = AT(x, y, z);
kernel void ex(global float *e, global const float *hy, global const float *hz, int n)
    { CELL if (y && z) e[i] += 0.3f * (hz[i] - hz[AT(x, y - 1, z)] - hy[i] + hy[AT(x, y, z - 1)]); }
kernel void ey(global float *e, global const float *hz, global const float *hx, int n)
    { CELL if (x && z) e[i] += 0.3f * (hx[i] - hx[AT(x, y, z - 1)] - hz[i] + hz[AT(x - 1, y, z)]); }
kernel void ez(global float *e, global const float *hx, global const float *hy, int n)
    { CELL if (x && y) e[i] += 0.3f * (hy[i] - hy[AT(x - 1, y, z)] - hx[i] + hx[AT(x, y - 1, z)]); }
kernel void hx(global float *h, global const float *ey, global const float *ez, int n)
    { CELL h[i] += 0.3f * (ey[AT(x, y, z + 1)] - ey[i] - ez[AT(x, y + 1, z)] + ez[i]); }
kernel void hy(global float *h, global const float *ez, global const float *ex, int n)
    { CELL h[i] += 0.3f * (ez[AT(x + 1, y, z)] - ez[i] - ex[AT(x, y, z + 1)] + ex[i]); }
kernel void hz(global float *h, global const float *ex, global const float *ey, int n)
    { CELL h[i] += 0.3f * (ex[AT(x, y + 1, z)] - ex[i] - ey[AT(x + 1, y, z)] + ey[i]); }
kernel void source(global float *e, long at, float value) { e[at] += value; }
kernel void energy(global const float *e, global float *sums, int n, int row) {
    local float part[64];
    int z = get_group_id(0), l = get_local_id(0);
    float sum = 0;
    for (int i = l; i < n * n; i += 64) sum += e[z * (long)n * n + i] * e[z * (long)n * n + i];
    part[l] = sum;
    for (int upper = 32; upper; upper /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (l < upper) part[l] += part[l + upper];
    }
    if (l == 0) sums[row * n + z] = part[0];
}
"""


def fields_3d(bench: Bench) -> Steps:
    """Leap-frog of six fields in space; a source in one cell; an energy now and then, by a work-group for each plane."""
    n = bench.size
    f = {
        name: bench.zeros(n**3, result=name in ("ez", "hx")) for name in ("ex", "ey", "ez", "hx", "hy", "hz")
    }
    sums = bench.zeros((bench.steps // 10 + 1) * n, result=True)
    bench.build(FIELDS)
    space, group, middle = (n, n, n), (32, 4, 1), np.int64((n // 2 * n + n // 2) * n + n // 2)
    yield bench.steps
    for step in range(bench.steps):
        bench.run("hx", space, group, f["hx"], f["ey"], f["ez"], n)
        bench.run("hy", space, group, f["hy"], f["ez"], f["ex"], n)
        bench.run("hz", space, group, f["hz"], f["ex"], f["ey"], n)
        bench.run("ex", space, group, f["ex"], f["hy"], f["hz"], n)
        bench.run("ey", space, group, f["ey"], f["hz"], f["hx"], n)
        bench.run("ez", space, group, f["ez"], f["hx"], f["hy"], n)
        bench.run("source", (1,), (1,), f["ez"], middle, np.float32(np.sin(0.3 * step)))
        if step % 10 == 9:
            bench.run("energy", (n * 64,), (64,), f["ez"], sums, n, step // 10)
        yield 0


PLANE = """
kernel void e2(global float *e, global const float *hx, global const float *hy, int n, float value) {
    int x = get_global_id(0), y = get_global_id(1);
    if (x == 0 || y == 0 || x >= n - 1 || y >= n - 1) return;
    int i = y * n + x;
    e[i] += 0.4f * (hy[i] - hy[i - 1] - hx[i] + hx[i - n]) + (x == n / 2 && y == n / 2 ? value : 0);
}
kernel void h2(global const float *e, global float *hx, global float *hy, int n) {
    int x = get_global_id(0), y = get_global_id(1);
    if (x >= n - 1 || y >= n - 1) return;
    int i = y * n + x;
    hx[i] -= 0.4f * (e[i + n] - e[i]);
    hy[i] += 0.4f * (e[i + 1] - e[i]);
}
"""


def fields_2d(bench: Bench) -> Steps:
    """Leap-frog of three fields in the plane; the source's value is a scalar of each launch."""
    n = bench.size
    e, hx, hy = (bench.zeros(n * n, result=True) for _ in range(3))
    bench.build(PLANE)
    yield bench.steps
    for step in range(bench.steps):
        bench.run("h2", (n, n), (16, 16), e, hx, hy, n)
        bench.run("e2", (n, n), (16, 16), e, hx, hy, n, np.float32(np.sin(0.2 * step)))
        yield 0


SMALL = """
kernel void drive(global float *v, int n, int step) { int i = get_global_id(0); if (i < n) v[i] += (i + step) % 7 * 0.01f; }
kernel void smooth(global const float *v, global float *w, int n, int step)
    { int i = get_global_id(0); if (i < n) w[i] = 0.5f * v[i] + 0.25f * (v[(i + step) % n] + v[(i + 1) % n]); }
kernel void back(global float *v, global const float *w, int n, int step)
    { int i = get_global_id(0); if (i < n) v[i] = w[i] - step % 3 * 0.001f; }
"""


def small_steps(bench: Bench) -> Steps:
    """Small kernels in turn, the number of the time step among their arguments."""
    n = bench.size
    v, w = bench.buffer(bench.random.random(n, np.float32), result=True), bench.zeros(n)
    bench.build(SMALL)
    yield bench.steps
    for step in range(bench.steps):
        bench.run("drive", (n,), (64,), v, n, step)
        bench.run("smooth", (n,), (64,), v, w, n, step)
        bench.run("back", (n,), (64,), v, w, n, step)
        yield 0


GRID = """
#define CELL int x = get_global_id(0) + 1, y = get_global_id(1) + 1; if (x >= n - 1 || y >= n - 1) return;
kernel void sweep(global float *u, global const float *f, int n, int colour) {
    CELL if ((x + y) % 2 != colour) return;
    u[y * n + x] = 0.25f * (u[y * n + x - 1] + u[y * n + x + 1] + u[(y - 1) * n + x] + u[(y + 1) * n + x] + f[y * n + x]);
}
kernel void residual(global const float *u, global const float *f, global float *r, int n) {
    CELL r[y * n + x] = f[y * n + x] - 4 * u[y * n + x] + u[y * n + x - 1] + u[y * n + x + 1] + u[(y - 1) * n + x] + u[(y + 1) * n + x];
}
kernel void restriction(global const float *r, global float *f, global float *u, int n, int m) {
    CELL f[y * n + x] = r[2 * y * m + 2 * x] + 0.5f * (r[2 * y * m + 2 * x + 1] + r[(2 * y + 1) * m + 2 * x]);
    u[y * n + x] = 0;
}
kernel void prolongation(global float *u, global const float *c, int n, int m) {
    CELL u[y * n + x] += 0.5f * c[y / 2 * m + x / 2];
}
"""


def multigrid(bench: Bench) -> Steps:
    """Red-black smoothing, residual, restriction and prolongation on grids of halving size."""
    sizes = [bench.size >> level for level in range(10) if bench.size >> level >= 16]
    u = [bench.zeros(n * n, result=level == 0) for level, n in enumerate(sizes)]
    f = [bench.buffer(bench.random.random(sizes[0] ** 2, np.float32))] + [
        bench.zeros(n * n) for n in sizes[1:]
    ]
    r = [bench.zeros(n * n) for n in sizes]
    bench.build(GRID)

    def smooth(level: int) -> None:
        for colour in (0, 1, 0, 1):
            bench.run("sweep", (sizes[level],) * 2, (16, 16), u[level], f[level], sizes[level], colour)

    yield bench.steps
    for _ in range(bench.steps):
        for level, n in enumerate(sizes[:-1]):
            smooth(level)
            bench.run("residual", (n, n), (16, 16), u[level], f[level], r[level], n)
            m = sizes[level + 1]
            bench.run("restriction", (m, m), (16, 16), r[level], f[level + 1], u[level + 1], m, n)
        smooth(len(sizes) - 1)
        for level in range(len(sizes) - 2, -1, -1):
            n, m = sizes[level], sizes[level + 1]
            bench.run("prolongation", (n, n), (16, 16), u[level], u[level + 1], n, m)
            smooth(level)
        yield 0


CELLS = """
kernel void push(global float2 *at, global float2 *v, global const int *field, int count, int n, int step) {
    int i = get_global_id(0);
    if (i >= count) return;
    int2 c = convert_int2(at[i]);
    v[i] += 1e-5f * (float2)(field[c.y * n + (c.x + 1) % n] - field[c.y * n + c.x], step % 5 - 2);
    float2 to = at[i] + v[i] + n;
    at[i] = to - n * floor(to / n);
    at[i] = clamp(at[i], 0.0f, n - 1.0f);
}
kernel void deposit(global const float2 *at, global int *density, int count, int n) {
    int i = get_global_id(0);
    if (i >= count) return;
    int2 c = convert_int2(at[i]);
    atomic_add(&density[c.y * n + c.x], 16);
}
kernel void settle(global const int *density, global const int *field, global int *next, int n) {
    int x = get_global_id(0), y = get_global_id(1);
    if (x >= n || y >= n) return;
    int left = (x + n - 1) % n, right = (x + 1) % n, up = (y + n - 1) % n, down = (y + 1) % n;
    next[y * n + x] = (field[y * n + left] + field[y * n + right] + field[up * n + x] + field[down * n + x] + density[y * n + x]) / 4;
}
"""


def particles(bench: Bench) -> Steps:
    """Particles in cells: gather from a grid, deposit by atomics, relaxation."""
    n, count = bench.size, bench.size**2 * 4
    at = bench.buffer(bench.random.random((count, 2), np.float32) * (n - 1))
    v, density = bench.zeros(2 * count), bench.zeros(n * n, np.int32)
    fields = [bench.zeros(n * n, np.int32, result=True) for _ in range(2)]
    bench.build(CELLS)
    yield bench.steps
    for step in range(bench.steps):
        bench.run("push", (count,), (64,), at, v, fields[0], count, n, step)
        cl.enqueue_fill_buffer(bench.queue, density, b"\0", 0, density.size)
        bench.run("deposit", (count,), (64,), at, density, count, n)
        for _ in range(4):
            bench.run("settle", (n, n), (16, 16), density, fields[0], fields[1], n)
            fields.reverse()
        yield 0


DIGITS = """
kernel void histogram(global const uint *keys, global uint *counts, int each, int shift, int parts) {
    int part = get_global_id(0);
    if (part >= parts) return;
    uint mine[16];
    for (int d = 0; d < 16; ++d) mine[d] = 0;
    for (int i = part * each; i < (part + 1) * each; ++i) ++mine[keys[i] >> shift & 15];
    for (int d = 0; d < 16; ++d) counts[d * parts + part] = mine[d];
}
kernel void scan(global uint *counts, int count) {
    uint sum = 0;
    for (int i = 0; i < count; ++i) { uint here = counts[i]; counts[i] = sum; sum += here; }
}
kernel void scatter(global const uint *keys, global uint *out, global const uint *counts, int each, int shift, int parts) {
    int part = get_global_id(0);
    if (part >= parts) return;
    uint place[16];
    for (int d = 0; d < 16; ++d) place[d] = counts[d * parts + part];
    for (int i = part * each; i < (part + 1) * each; ++i) out[place[keys[i] >> shift & 15]++] = keys[i];
}
"""


def digit_sort(bench: Bench) -> Steps:
    """A digit-wise sort: histogram, scan, scatter through computed places."""
    parts, each = 512, max(1, bench.size // 512)
    keys = bench.random.integers(0, 1 << 32, parts * each, np.uint32)
    a, b = bench.buffer(keys, result=True), bench.zeros(len(keys), np.uint32)
    counts = bench.zeros(16 * parts, np.uint32)
    bench.build(DIGITS)
    yield bench.steps
    for step in range(bench.steps):
        shift = 4 * (step % 8)
        bench.run("histogram", (parts,), (16,), a, counts, each, shift, parts)
        bench.run("scan", (1,), (1,), counts, 16 * parts)
        bench.run("scatter", (parts,), (16,), a, b, counts, each, shift, parts)
        a, b = b, a
        yield 0


RECURRENT = """
kernel void advance(global const float *w, global const float *x, global float *states, int n, int t) {
    int i = get_global_id(0);
    if (i >= n) return;
    float sum = x[t * n + i];
    for (int j = 0; j < n; ++j) sum += w[i * n + j] * states[t * n + j];
    states[(t + 1) * n + i] = sum / (1 + fabs(sum));
}
"""


def recurrent(bench: Bench) -> Steps:
    """A recurrent network: each step reads the state of the one before and writes the next row."""
    n, steps = bench.size, bench.steps
    w = bench.buffer(bench.random.random((n, n), np.float32) / n)
    x = bench.buffer(bench.random.random((steps, n), np.float32))
    states = bench.zeros((steps + 1) * n, result=True)
    bench.build(RECURRENT)
    yield steps
    for t in range(steps):
        bench.run("advance", (n,), (64,), w, x, states, n, t)
        yield 0


BUTTERFLY = """
kernel void butterfly(global uint *a, int step) {
    int i = get_global_id(0), j = i / step * 2 * step + i % step;
    uint p = a[j], q = a[j + step];
    a[j] = p + q;
    a[j + step] = p - q;
}
"""


def butterfly(bench: Bench) -> Steps:
    """The passes of a fast transform in place, whose distances double."""
    n = bench.size
    a = bench.buffer(np.arange(n, dtype=np.uint32), result=True)
    bench.build(BUTTERFLY)
    levels = n.bit_length() - 1
    yield bench.steps
    for turn in range(bench.steps):
        bench.run("butterfly", (n // 2,), (64,), a, 1 << turn % levels)
        yield 0


SEPARABLE = """
kernel void filter(global const float *in, global float *out, int n, int step, int inner, int outer, int radius, int lines) {
    int line = get_global_id(0);
    if (line >= lines) return;
    int base = line / inner * outer + line % inner;
    for (int k = 0; k < n; ++k) {
        float sum = 0;
        for (int r = -radius; r <= radius; ++r) sum += in[base + clamp(k + r, 0, n - 1) * step];
        out[base + k * step] = sum / (2 * radius + 1);
    }
}
"""


def separable(bench: Bench) -> Steps:
    """Filters along the three axes of a volume, with a radius that changes."""
    z, y, x = bench.size, bench.size * 3 // 4, bench.size + 8
    buffers = [bench.buffer(bench.random.random((z, y, x), np.float32), result=True), bench.zeros(z * y * x)]
    bench.build(SEPARABLE)
    yield bench.steps
    for turn in range(bench.steps):
        for axis in (
            (z, y * x, y * x, 0, 1 + turn % 5, y * x),
            (y, x, x, y * x, 2, z * x),
            (x, 1, 1, x, 1, z * y),
        ):
            bench.run("filter", (axis[-1],), (8,), *buffers, *axis)
            buffers.reverse()
        yield 0


WAVE = """
kernel void diagonal(global int *d, global const uchar *a, global const uchar *b, int n, int k, int first) {
    int y = first + get_global_id(0), x = k - y;
    if (y > n || x < 1 || y < 1) return;
    int w = n + 1, swap = d[(y - 1) * w + x - 1] + (a[y - 1] != b[x - 1]);
    d[y * w + x] = min(swap, min(d[(y - 1) * w + x], d[y * w + x - 1]) + 1);
}
"""


def wavefront(bench: Bench) -> Steps:
    """The distance of two texts: a wave along the diagonals of a table, which grow and shrink."""
    n = bench.size
    d = np.zeros((n + 1, n + 1), np.int32)
    d[0], d[:, 0] = np.arange(n + 1), np.arange(n + 1)
    a, b = (bench.buffer(bench.random.integers(0, 4, n, np.uint8)) for _ in range(2))
    made = bench.buffer(d, result=True)
    bench.build(WAVE)
    yield min(2 * n, bench.steps) - 1
    for k in range(2, min(2 * n, bench.steps) + 1):
        first = max(1, k - n)
        bench.run("diagonal", (min(k - 1, n) - first + 1,), (32,), made, a, b, n, k, first)
        yield 0


COLUMNS = """
kernel void column(global float *a, global const float *b, int n, int x0, int y0) {
    int x = x0 + get_global_id(0), y = y0 + get_global_id(1);
    if (x < n && y < n) a[y * n + x] = 0.5f * a[y * n + x] + b[y * n + x] + x0;
}
"""


def columns_of_tiles(bench: Bench) -> Steps:
    """Tiles of a matrix written one after the other, column by column."""
    n, tile = bench.size, bench.size // 8
    a, b = bench.zeros(n * n, result=True), bench.buffer(bench.random.random((n, n), np.float32))
    bench.build(COLUMNS)
    yield bench.steps
    for turn in range(bench.steps):
        x, y = turn // 8 % 8 * tile, turn % 8 * tile
        bench.run("column", (tile, tile), (16, 4), a, b, n, x, y)
        yield 0


PIECES = "kernel void piece(global int *a, int n, int k) { int i = get_global_id(0); if (i < n) a[i] = a[i] * 3 + k; }"


def sub_buffers(bench: Bench) -> Steps:
    """Thousands of sub-buffers of one buffer, each used in turn."""
    count, nbytes = bench.size, 16384
    whole = bench.zeros(count * nbytes // 4, np.int32, result=True)
    parts = [whole.get_sub_region(nbytes * k, nbytes) for k in range(count)]
    bench.build(PIECES)
    yield bench.steps
    for k in range(bench.steps):
        bench.run("piece", (nbytes // 4,), (64,), parts[k * 7 % count], nbytes // 4, k)
        yield 0


RING = """
kernel void blend(global const float *ring, global float *out, int each, int slots, int newest) {
    int i = get_global_id(0);
    if (i >= each) return;
    float sum = 0;
    for (int s = 0; s < 4; ++s) sum += ring[(newest + slots - s) % slots * each + i] / (s + 1);
    out[i] = 0.9f * out[i] + 0.1f * sum;
}
"""


def ring(bench: Bench) -> Steps:
    """A ring of frames: the host writes the next slot, a kernel reads the last four."""
    each, slots = bench.size, 16
    frames, out = bench.zeros(each * slots), bench.zeros(each, result=True)
    arrays = [bench.random.random(each, np.float32) for _ in range(3)]
    bench.build(RING)
    yield bench.steps
    for turn in range(bench.steps):
        cl.enqueue_copy(
            bench.queue, frames, arrays[turn % 3], dst_offset=turn % slots * each * 4, is_blocking=False
        )
        bench.run("blend", (each,), (64,), frames, out, each, slots, turn % slots)
        yield 0


RANGES = """
kernel void tail(global float *a, global const float *b, int n, int first) {
    int i = first + get_global_id(0);
    if (i < n) a[i] = 0.5f * a[i] + b[i - first];
}
"""


def ranges(bench: Bench) -> Steps:
    """Ranges that grow, then shrink."""
    n, steps = bench.size, bench.steps
    a, b = bench.zeros(n, result=True), bench.buffer(bench.random.random(n, np.float32))
    bench.build(RANGES)
    yield steps
    for turn in range(steps):
        length = n * (1 + min(turn, steps - turn)) // (steps // 2 + 1)
        bench.run("tail", (length,), (64,), a, b, n, n - length)
        yield 0


TRANSPOSE = """
kernel void turn(global float *a, int n, int y0) {
    int x = get_global_id(0), y = y0 + get_global_id(1);
    if (x >= y || y >= n) return;
    float here = a[y * n + x];
    a[y * n + x] = a[x * n + y];
    a[x * n + y] = here;
}
kernel void scale(global float *a, int n, int y0) { int x = get_global_id(0), y = y0 + get_global_id(1); if (y < n) a[y * n + x] *= 1.01f; }
"""


def transpose(bench: Bench) -> Steps:
    """A matrix transposed in place, by bands of rows."""
    n, band = bench.size, bench.size // 8
    a = bench.buffer(bench.random.random((n, n), np.float32), result=True)
    bench.build(TRANSPOSE)
    yield bench.steps
    for step in range(bench.steps):
        bench.run("turn", (n, band), (16, 4), a, n, step % 8 * band)
        bench.run("scale", (n, band), (16, 4), a, n, step % 8 * band)
        yield 0


SIEVE = (
    "kernel void cross_out(global uchar *flags, int prime) { flags[prime * (prime + get_global_id(0))] = 0; }"
)


def sieve(bench: Bench) -> Steps:
    """Multiples of primes crossed out: strided writes whose stride is a scalar."""
    n = bench.size
    flags = bench.buffer(np.ones(n, np.uint8), result=True)
    bench.build(SIEVE)
    most = min(bench.steps * 4, int(n**0.5))
    primes = [p for p in range(2, most) if all(p % q for q in range(2, int(p**0.5) + 1))]
    yield len(primes)
    for prime in primes:
        bench.run("cross_out", ((n - 1) // prime - prime + 1,), (1,), flags, prime)
        yield 0


HAAR = """
kernel void along_rows(global const int *a, global int *b, int n, int m) {
    int x = get_global_id(0), y = get_global_id(1), p = a[y * n + 2 * x], q = a[y * n + 2 * x + 1];
    b[y * n + x] = (p + q) >> 1;
    b[y * n + x + m / 2] = p - q;
}
kernel void along_columns(global const int *a, global int *b, int n, int m) {
    int x = get_global_id(0), y = get_global_id(1), p = a[2 * y * n + x], q = a[(2 * y + 1) * n + x];
    b[y * n + x] = (p + q) >> 1;
    b[(y + m / 2) * n + x] = p - q;
}
"""


def wavelet(bench: Bench) -> Steps:
    """Haar wavelets of a picture, from the largest square to the smallest; each step begins with the picture as it was."""
    n = bench.size
    picture = bench.buffer(bench.random.integers(0, 256, (n, n), np.int32))
    values, parts = bench.zeros(n * n, np.int32, result=True), bench.zeros(n * n, np.int32)
    bench.build(HAAR)
    yield bench.steps
    for _ in range(bench.steps):
        cl.enqueue_copy(bench.queue, values, picture)
        m = n
        while m >= 16:
            bench.run("along_rows", (m // 2, m), (8, 8), values, parts, n, m)
            bench.run("along_columns", (m, m // 2), (8, 8), parts, values, n, m)
            m //= 2
        yield 0


RECEIVERS = """
kernel void wave(global const float *before, global const float *now, global float *next, int n, int step) {
    int x = get_global_id(0), y = get_global_id(1), at = y * n + x;
    if (x < 2 || y < 2 || x >= n - 2 || y >= n - 2) return;
    float near = now[at - 1] + now[at + 1] + now[at - n] + now[at + n];
    float far = now[at - 2] + now[at + 2] + now[at - 2 * n] + now[at + 2 * n];
    float value = 2 * now[at] - before[at] + 0.1f * (1.333f * near - 0.0833f * far - 5 * now[at]);
    next[at] = x == n / 2 && y == n / 2 ? value + 1.0f / (1 + step) : value;
}
"""


def receivers(bench: Bench) -> Steps:
    """A wave in a plane, one row of which is mapped and looked at in each step."""
    n = bench.size
    planes = [bench.zeros(n * n, result=True) for _ in range(3)]
    bench.build(RECEIVERS)
    yield bench.steps
    for step in range(bench.steps):
        bench.run("wave", (n, n), (32, 8), *planes, n, step)
        planes = [*planes[1:], planes[0]]
        row, _ = cl.enqueue_map_buffer(bench.queue, planes[1], cl.map_flags.READ, n * n, (n,), np.float32)
        row.base.release(bench.queue)
        yield 0


#: by name: the program, and for each preset its size and steps
PROGRAMS: dict[str, tuple[Program, dict[str, tuple[int, int]]]] = {
    "lu": (lu, {"small": (512, 0), "large": (8192, 0)}),
    "cholesky": (cholesky, {"small": (512, 0), "large": (8192, 0)}),
    "table": (table, {"small": (512, 32), "large": (6144, 384)}),
    "shortest_paths": (shortest_paths, {"small": (384, 100), "large": (4096, 1000)}),
    "fields_3d": (fields_3d, {"small": (48, 20), "large": (512, 40)}),
    "fields_2d": (fields_2d, {"small": (512, 60), "large": (8192, 200)}),
    "small_steps": (small_steps, {"small": (16384, 150), "large": (1 << 20, 1500)}),
    "multigrid": (multigrid, {"small": (512, 4), "large": (8192, 20)}),
    "particles": (particles, {"small": (128, 15), "large": (2048, 40)}),
    "digit_sort": (digit_sort, {"small": (1 << 17, 16), "large": (1 << 24, 16)}),
    "recurrent": (recurrent, {"small": (768, 60), "large": (8192, 300)}),
    "butterfly": (butterfly, {"small": (1 << 16, 48), "large": (1 << 28, 112)}),
    "separable": (separable, {"small": (48, 8), "large": (512, 12)}),
    "wavefront": (wavefront, {"small": (512, 400), "large": (16384, 3000)}),
    "columns_of_tiles": (columns_of_tiles, {"small": (512, 128), "large": (16384, 512)}),
    "sub_buffers": (sub_buffers, {"small": (1000, 400), "large": (10000, 10000)}),
    "ring": (ring, {"small": (1 << 16, 60), "large": (1 << 24, 150)}),
    "ranges": (ranges, {"small": (1 << 18, 100), "large": (1 << 27, 400)}),
    "transpose": (transpose, {"small": (512, 32), "large": (16384, 64)}),
    "sieve": (sieve, {"small": (1 << 18, 40), "large": (1 << 28, 400)}),
    "wavelet": (wavelet, {"small": (256, 8), "large": (8192, 60)}),
    "receivers": (receivers, {"small": (256, 30), "large": (8192, 300)}),
}
