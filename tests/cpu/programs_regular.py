"""Linear algebra, structures, small types and PyOpenCL's host side, checked against NumPy."""

from __future__ import annotations

import threading

import numpy as np
import pyopencl as cl
import pyopencl.algorithm
import pyopencl.array
import pyopencl.reduction
import pyopencl.scan

from tests.cpu.program_device import Device, close, f32, i32, program, same, u32, up

# linear algebra and dynamic programming -------------------------------------------------------------


@program
def gaussian_elimination(device: Device) -> None:
    """Two kernels in a loop, with a number that is another in every launch (Rodinia); then with offsets."""
    source = """
    __kernel void factors(__global float *m, __global float *a, int n, int t) {
        int i = get_global_id(0);
        if (i < n - 1 - t) *(m + n * (i + t + 1) + t) = *(a + n * (i + t + 1) + t) / *(a + n * t + t);
    }
    __kernel void eliminate(__global float *m, __global float *a, __global float *b, int n, int t) {
        int x = get_global_id(0), y = get_global_id(1);
        if (x < n - 1 - t && y < n - t) {
            a[n * (x + 1 + t) + (y + t)] -= m[n * (x + 1 + t) + t] * a[n * t + (y + t)];
            if (y == 0) b[x + 1 + t] -= m[n * (x + 1 + t) + (y + t)] * b[t];
        }
    }
    __kernel void update(__global float *a, int n, int k) {
        size_t j = get_global_id(0), i = get_global_id(1);
        a[i * n + j] -= a[i * n + k] / a[k * n + k] * a[k * n + j];
    }"""
    n = 20
    a, b = device.floats(n, n) + n * np.eye(n, dtype=f32), device.floats(n)
    built, m, b_a, b_b = device.build(source), device.buffer(a * 0), device.buffer(a), device.buffer(b)
    for t in range(n - 1):
        built.factors(device.queue, (32,), (8,), m, b_a, i32(n), i32(t))
        built.eliminate(device.queue, (32, 32), (4, 4), m, b_a, b_b, i32(n), i32(t))
    solution = np.linalg.solve(np.triu(device.read(b_a, f32, (n, n))), device.read(b_b, f32, n))
    close(solution, np.linalg.solve(a.astype(float), b), 1e-3)
    b_a, expected = device.buffer(a), a.astype(float)
    for k in range(n - 1):
        size = (n - k - 1, n - k - 1)
        built.update(device.queue, size, None, b_a, i32(n), i32(k), global_offset=(k + 1, k + 1))
        column = expected[k + 1 :, k] / expected[k, k]
        expected[k + 1 :, k + 1 :] -= np.outer(column, expected[k, k + 1 :])
    close(device.read(b_a, f32, (n, n)), expected, 1e-3)


@program
def floyd_warshall(device: Device) -> None:
    """In place; every launch reads a row and a column that its own work-groups may write."""
    source = """__kernel void pass(__global uint *distance, __global uint *via, uint n, uint k) {
        int x = get_global_id(0), y = get_global_id(1);
        uint direct = distance[y * n + x], detour = distance[y * n + k] + distance[k * n + x];
        if (detour < direct) { distance[y * n + x] = detour; via[y * n + x] = k; }
    }"""
    n = 24
    distance = device.integers(1, 200, (n, n), u32)
    np.fill_diagonal(distance, 0)
    kernel = device.build(source).__getattr__("pass")
    found, via = device.buffer(distance), device.buffer(distance * 0)
    for k in range(n):
        kernel(device.queue, (n, n), (4, 4), found, via, u32(n), u32(k))
        distance = np.minimum(distance, distance[:, k : k + 1] + distance[k : k + 1, :])
    same(device.read(found, u32, (n, n)), distance)


@program
def needleman_wunsch(device: Device) -> None:
    """A wavefront: launches over the blocks of one anti-diagonal of a matrix after the other."""
    source = """
    #define B 8
    __kernel void diagonal(__global const int *similarity, __global int *score, __local int *t,
                           int columns, int penalty, int first, int last) {
        int bx = first + get_group_id(0), by = last - bx, x = get_local_id(0);
        int base = columns * B * by + B * bx;
        if (x == 0) t[0] = score[base];
        t[(x + 1) * (B + 1)] = score[base + columns * (x + 1)];
        t[x + 1] = score[base + x + 1];
        for (int m = 0; m < 2 * B - 1; m++) {
            barrier(CLK_LOCAL_MEM_FENCE);
            int y = m - x;
            if (y >= 0 && y < B) {
                int here = (y + 1) * (B + 1) + x + 1;
                int diagonal = t[here - B - 2] + similarity[base + columns * (y + 1) + x + 1];
                t[here] = max(diagonal, max(t[here - 1], t[here - B - 1]) - penalty);
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int y = 0; y < B; y++) score[base + columns * (y + 1) + x + 1] = t[(y + 1) * (B + 1) + x + 1];
    }"""
    blocks, penalty = 4, 10
    n = 8 * blocks + 1
    similarity, score = device.integers(-4, 5, (n, n)), np.zeros((n, n), i32)
    score[0] = score[:, 0] = -penalty * np.arange(n)
    built, b_similarity, b_score = device.build(source), device.buffer(similarity), device.buffer(score)
    for last in range(2 * blocks - 1):
        first = max(0, last - blocks + 1)
        size = (8 * (min(last, blocks - 1) - first + 1),)
        args = b_similarity, b_score, cl.LocalMemory(4 * 81), i32(n), i32(penalty), i32(first), i32(last)
        built.diagonal(device.queue, size, (8,), *args)
    for y in range(1, n):
        for x in range(1, n):
            gap = max(score[y, x - 1], score[y - 1, x]) - penalty
            score[y, x] = max(score[y - 1, x - 1] + similarity[y, x], gap)
    same(device.read(b_score, i32, (n, n)), score)


@program
def sparse_matrix_vector(device: Device) -> None:
    """Compressed rows, a row per work-item and a row per eight; ELLPACK with padding."""
    source = """
    __kernel void scalar(int n, __global const int *rows, __global const int *columns,
                         __global const float *values, __global const float *x, __global float *y) {
        int r = get_global_id(0);
        if (r >= n) return;
        float s = 0;
        for (int j = rows[r]; j < rows[r + 1]; j++) s += values[j] * x[columns[j]];
        y[r] = s;
    }
    __kernel void vector(int n, __global const int *rows, __global const int *columns,
                         __global const float *values, __global const float *x, __global float *y,
                         __local volatile float *part) {
        int t = get_local_id(0), lane = t & 7, row = get_group_id(0) * (get_local_size(0) / 8) + (t >> 3);
        float s = 0;
        if (row < n) for (int i = rows[row] + lane; i < rows[row + 1]; i += 8) s += values[i] * x[columns[i]];
        part[t] = s;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (row < n && lane == 0) { s = 0; for (int i = 0; i < 8; i++) s += part[t + i]; y[row] = s; }
    }
    __kernel void ellpack(int n, int width, int pitch, __global const int *columns,
                          __global const float *values, __global const float *x, __global float *y) {
        uint r = get_global_id(0);
        if (r >= n) return;
        float s = 0;
        for (int c = 0; c < width; c++) {
            int k = c * pitch + r;
            if (columns[k] >= 0) s += values[k] * x[columns[k]];
        }
        y[r] = s;
    }"""
    n, pitch = 200, 208
    matrix = device.floats(n, n) * (device.floats(n, n) < 0.05)
    counts, x = (matrix != 0).sum(1), device.floats(n)
    rows, columns = np.concatenate([[0], np.cumsum(counts)]), np.nonzero(matrix)[1]
    built, b_x = device.build(source), device.buffer(x)
    crs = (
        i32(n),
        *(device.buffer(part, i32) for part in (rows, columns)),
        device.buffer(matrix[matrix != 0]),
        b_x,
    )
    width = int(counts.max())
    padded, values = np.full((width, pitch), -1, i32), np.zeros((width, pitch), f32)
    for r in range(n):
        inside = np.nonzero(matrix[r])[0]
        padded[: len(inside), r], values[: len(inside), r] = inside, matrix[r, inside]
    y = [device.empty(4 * n) for _ in range(3)]
    built.scalar(device.queue, (up(n, 32),), (32,), *crs, y[0])
    built.vector(device.queue, (8 * n,), (64,), *crs, y[1], cl.LocalMemory(256))
    ell = i32(n), i32(width), i32(pitch), device.buffer(padded), device.buffer(values), b_x
    built.ellpack(device.queue, (pitch,), (16,), *ell, y[2])
    for result in y:
        close(device.read(result, f32, n), matrix @ x)


# structures, small types, control flow --------------------------------------------------------------


@program
def structures_and_helpers(device: Device) -> None:
    """Records with arrays of records, records by value, a table at program scope, pointers through helpers."""
    source = """
    typedef struct { float v, x, y, z; } Four;
    typedef struct { int number; long offset; } Neighbour;
    typedef struct { int id; long offset; int count; Neighbour list[4]; } Box;
    typedef struct { float alpha; char on; long boxes; } Settings;
    __constant float scale[2] = {0.5f, 2.0f};
    void add(__global Four *f, float w, Four a, Four b) {
        f->v += w; f->x += w * (a.x - b.x); f->y += w * (a.y - b.y); f->z += w * (a.z - b.z);
    }
    __kernel void force(Settings s, __global const Box *box, __global const Four *r, __global const float *q,
                        __global Four *f) {
        int b = get_group_id(0);
        if (b >= s.boxes || !s.on) return;
        __global Four *mine = &f[box[b].offset];
        for (int k = 0; k <= box[b].count; k++) {
            int other = k == 0 ? b : box[b].list[k - 1].number;
            __global const Four *theirs = r + box[other].offset;
            for (int i = get_local_id(0); i < 16; i += get_local_size(0))
                for (int j = 0; j < 16; j++) {
                    Four a = r[box[b].offset + i], c = theirs[j];
                    float u = s.alpha * scale[k > 0] * (a.v + c.v - (a.x * c.x + a.y * c.y + a.z * c.z));
                    add(mine + i, q[box[other].offset + j] * exp(-u), a, c);
                }
        }
    }"""
    boxes = 7
    neighbour = np.dtype([("number", i32), ("offset", np.int64)], align=True)
    fields = [("id", i32), ("offset", np.int64), ("count", i32), ("list", neighbour, 4)]
    box = np.zeros(boxes, np.dtype(fields, align=True))
    box["offset"], box["count"] = 16 * np.arange(boxes), device.integers(0, 5, boxes)
    box["list"]["number"] = device.integers(0, boxes, (boxes, 4))
    settings_type = np.dtype([("alpha", f32), ("on", np.int8), ("boxes", np.int64)], align=True)
    settings = np.array((0.5, 1, boxes), settings_type)
    r, q = device.floats(16 * boxes, 4), device.floats(16 * boxes)
    f = device.buffer(r * 0)
    args = settings, device.buffer(box), device.buffer(r), device.buffer(q), f
    device.build(source).force(device.queue, (8 * (boxes + 1),), (8,), *args)
    expected = np.zeros((16 * boxes, 4))
    for b in range(boxes):
        mine = slice(16 * b, 16 * b + 16)
        others = [b, *box[b]["list"]["number"][: box[b]["count"]]]
        for k, other in enumerate(others):
            theirs = slice(16 * other, 16 * other + 16)
            u = r[mine, None, 0] + r[None, theirs, 0] - r[mine, 1:] @ r[theirs, 1:].T
            w = q[theirs] * np.exp(-0.5 * (2.0 if k else 0.5) * u)
            expected[mine, 0] += w.sum(1)
            expected[mine, 1:] += (w[..., None] * (r[mine, None, 1:] - r[None, theirs, 1:])).sum(1)
    close(device.read(f, f32, expected.shape), expected, 1e-3)


@program
def early_exits(device: Device) -> None:
    """return, break, continue, switch and do-while on values from memory, between writes that look certain."""
    source = """
    #define K(name) __kernel void name(__global const int *in, __global int *out)
    #define I int i = 4 * get_global_id(0)
    K(leave) { I; if (in[i] < 0) return; out[i] = 2 * in[i]; out[i + 1] = 5; }
    K(stop) { I; for (int k = 0; k < 4; k++) { if (in[i + k] == 0) break; out[i + k] = 7; } }
    K(skip) { I; for (int k = 0; k < 4; k++) { if (in[i + k] == 0) continue; out[i + k] = 8; } out[i] += 1; }
    K(last) { I; int k = 0; do out[i + k] = 10; while (in[i + k++] && k < 4); }
    K(choose) { I; switch (in[i]) { case 0: return; case 1: out[i] = 1; break; case 2: out[i + 1] = 2;
                default: out[i + 2] = 3; } out[i + 3] = 4; }
    int fill(__global const int *p, __global int *o) {
        for (int k = 0; k < 4; k++) { if (p[k] == 3) return k; o[k] = 5; }
        return -1;
    }
    K(helper) { I; int r = fill(in + i, out + i); if (r >= 0) out[i + r] = 100 + r; }"""
    n = 512
    x = device.integers(-1, 4, n)
    before = np.arange(n, dtype=i32) + 1000

    def leave(a: np.ndarray, o: np.ndarray) -> None:
        if a[0] >= 0:
            o[0], o[1] = 2 * a[0], 5

    def stop(a: np.ndarray, o: np.ndarray) -> None:
        o[np.cumprod(a != 0) == 1] = 7

    def skip(a: np.ndarray, o: np.ndarray) -> None:
        o[a != 0] = 8
        o[0] += 1

    def last(a: np.ndarray, o: np.ndarray) -> None:
        o[np.concatenate([[1], np.cumprod(a != 0)[:3]]) == 1] = 10

    def choose(a: np.ndarray, o: np.ndarray) -> None:
        if a[0] == 1:
            o[0] = 1
        elif a[0] != 0:
            o[1:3] = (2 if a[0] == 2 else o[1]), 3
        if a[0] != 0:
            o[3] = 4

    def helper(a: np.ndarray, o: np.ndarray) -> None:
        k = next((k for k in range(4) if a[k] == 3), 4)
        o[:k] = 5
        if k < 4:
            o[k] = 100 + k

    built, b_x = device.build(source), device.buffer(x)
    for reference in (leave, stop, skip, last, choose, helper):
        out = device.buffer(before)
        getattr(built, reference.__name__)(device.queue, (n // 4,), (8,), b_x, out)
        expected = before.copy().reshape(-1, 4)
        for a, o in zip(x.reshape(-1, 4), expected, strict=True):
            reference(a, o)
        np.testing.assert_array_equal(device.read(out, i32, n), expected.ravel(), err_msg=reference.__name__)


@program
def small_and_odd_types(device: Device) -> None:
    """Bytes, halves, three-component vectors, doubles; a work-group size that is left open."""
    source = """
    #pragma OPENCL EXTENSION cl_khr_fp64 : enable
    __constant uchar rule[2][9] = {{0, 0, 0, 1, 0, 0, 0, 0, 0}, {0, 0, 1, 1, 0, 0, 0, 0, 0}};
    __kernel void life(__global const uchar *a, __global uchar *b) {
        int w = get_global_size(0), h = get_global_size(1), x = get_global_id(0), y = get_global_id(1), n = 0;
        for (int dy = -1; dy <= 1; dy++)
            for (int dx = -1; dx <= 1; dx++)
                if (dx || dy) n += a[(y + dy + h) % h * w + (x + dx + w) % w];
        b[y * w + x] = rule[a[y * w + x]][n];
    }
    __kernel void halves(__global const half *a, __global half *b) {
        int i = get_global_id(0); vstore_half4(vload_half4(i, a) * 2.0f, i, b);
    }
    __kernel void cross3(__global float3 *a, __global const float *packed, __global float *out) {
        int i = get_global_id(0); a[i] = cross(vload3(i, packed), a[i]); vstore3(a[i], i, out);
    }
    __kernel void doubles(__global double *x, double s) { size_t i = get_global_id(0); x[i] = x[i] * s + i; }
    """
    built, n = device.build(source), 240
    cells = device.integers(0, 2, (24, 32), np.uint8)
    a, b = device.buffer(cells), device.empty(cells.nbytes)
    for _ in range(3):
        built.life(device.queue, (32, 24), None, a, b)
        a, b = b, a
        shifts = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j]
        count = sum(np.roll(cells, shift, (0, 1)) for shift in shifts)
        cells = ((count == 3) | ((cells == 1) & (count == 2))).astype(np.uint8)
    same(device.read(a, np.uint8, cells.shape), cells)
    half, wide, packed, x = (
        device.floats(n).astype(np.float16),
        device.floats(n, 4),
        device.floats(n, 3),
        device.random.random(n),
    )
    twice, b_wide, out, b_x = device.empty(2 * n), device.buffer(wide), device.empty(12 * n), device.buffer(x)
    built.halves(device.queue, (n // 4,), None, device.buffer(half), twice)
    built.cross3(device.queue, (n,), (16,), b_wide, device.buffer(packed), out)
    built.doubles(device.queue, (n,), None, b_x, np.float64(1.5))
    same(device.read(twice, np.float16, n), half * np.float16(2))
    close(device.read(out, f32, (n, 3)), np.cross(packed, wide[:, :3]))
    close(device.read(b_wide, f32, (n, 4))[:, :3], np.cross(packed, wide[:, :3]))
    close(device.read(b_x, np.float64, n), x * 1.5 + np.arange(n), 1e-14)


@program
def one_buffer_several_arguments(device: Device) -> None:
    """One buffer as three arguments, and sub-buffers of it that overlap."""
    source = """
    __kernel void axpy(__global const float *x, __global const float *y, __global float *z, float a) {
        int i = get_global_id(0); z[i] = a * x[i] + y[i];
    }
    __kernel void parity(__global float *even, __global float *odd) {
        int i = get_global_id(0); if (i & 1) odd[i] += 5; else even[i] = -even[i];
    }"""
    n = 4096
    built, x = device.build(source), device.floats(n)
    whole = device.buffer(x)
    built.axpy(device.queue, (n,), (32,), whole, whole, whole, f32(3))
    x = 3 * x + x
    first, middle, second = (whole.get_sub_region(2 * n * k // 2, 2 * n) for k in (0, 1, 2))
    built.axpy(device.queue, (n // 4,), (32,), first, middle, second, f32(2))
    x[n // 2 : 3 * n // 4] = 2 * x[: n // 4] + x[n // 4 : n // 2]
    built.parity(device.queue, (n // 2,), (32,), middle, middle)
    part, odd = x[n // 4 : 3 * n // 4], np.arange(n // 2) % 2 == 1
    part[:] = np.where(odd, part + 5, -part)
    close(device.read(whole, f32, n), x)


# the host's side ------------------------------------------------------------------------------------


@program
def queues_events_threads(device: Device) -> None:
    """Out of order with wait lists, a user event across two queues, and threads with contexts of their own."""
    source = """
    __kernel void add(__global float *a, float v) { a[get_global_id(0)] += v; }
    __kernel void scale(__global const float *a, __global float *b, float v) {
        int i = get_global_id(0); b[i] = a[i] * v;
    }"""
    n = 2048
    properties = cl.command_queue_properties
    flags = properties.OUT_OF_ORDER_EXEC_MODE_ENABLE | properties.PROFILING_ENABLE
    free, built, a = (
        cl.CommandQueue(device.context, properties=flags),
        device.build(source),
        device.buffer(np.zeros(n), f32),
    )
    event = None
    for k in range(10):
        event = built.add(free, (n,), (32,), a, f32(k), wait_for=[event] if event else None)
    out = np.empty(n, f32)
    cl.enqueue_copy(free, out, a, wait_for=[event], is_blocking=False).wait()
    same(out, np.full(n, 45, f32))
    assert event.profile.end >= event.profile.start >= event.profile.submit >= event.profile.queued > 0
    gate, second = cl.UserEvent(device.context), cl.CommandQueue(device.context)
    held = built.add(device.queue, (n,), (32,), a, f32(1), wait_for=[gate])
    event = built.scale(second, (n,), (32,), a, a, f32(2), wait_for=[held])
    assert event.command_execution_status != cl.command_execution_status.COMPLETE
    gate.set_status(cl.command_execution_status.COMPLETE)
    event.wait()
    same(device.read(a, f32, n), np.full(n, 92, f32))
    found: dict[int, np.ndarray] = {}

    def work(number: int) -> None:
        own = Device()
        program, x, y = own.build(source), own.buffer(np.zeros(n), f32), own.empty(4 * n)
        for _ in range(10):
            program.add(own.queue, (n,), (32,), x, f32(number))
            program.scale(own.queue, (n,), (32,), x, y, f32(0.5))
            x, y = y, x
        found[number] = own.read(x, f32, n)

    threads = [threading.Thread(target=work, args=(number,)) for number in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in (1, 2, 3):
        close(found[number], np.full(n, number * (1 - 0.5**10)))


@program
def local_sizes_left_open(device: Device) -> None:
    """Whoever asks for its work-group hears the same as all others; who does not may be grouped in any way."""
    program = device.build(
        """
        int place() { return (get_global_id(2) * get_global_size(1) + get_global_id(1)) * get_global_size(0) + get_global_id(0); }
        void say(__global int *o) {
            for (int d = 0; d < 3; ++d) {
                o[3 * d] = get_local_size(d);
                o[3 * d + 1] = get_group_id(d) * get_local_size(d) + get_local_id(d);
                o[3 * d + 2] = get_num_groups(d);
            }
        }
        __kernel void asked(__global int *out) { say(out + 9 * place()); }
        __kernel __attribute__((work_group_size_hint(4, 2, 1))) void hinted(__global int *out) { say(out + 9 * place()); }
        __kernel void blind(__global int *out) { out[place()] = get_global_id(0) + 1000 * get_global_id(1); }
        """
    )
    for sizes in ((64,), (1009,), (24, 40), (7, 96), (1, 64), (128, 1), (12, 10, 8)):
        items = int(np.prod(sizes))
        for name in ("asked", "hinted"):
            out = device.empty(36 * items)
            program_kernel = cl.Kernel(program, name)
            program_kernel(device.queue, sizes, None, out)
            found = device.read(out, i32, (items, 3, 3))
            local, numbers, groups = found[:, :, 0], found[:, :, 1], found[:, :, 2]
            assert (local == local[0]).all(), (sizes, np.unique(local, axis=0))
            full = np.array([*sizes, 1, 1][:3])
            assert (full % local[0] == 0).all()
            same(groups, np.broadcast_to(full // local[0], groups.shape))
            same(numbers, np.stack(np.unravel_index(np.arange(items), full[::-1]), 1)[:, ::-1])
            if name == "hinted" and not np.any(full % (4, 2, 1)):
                same(local[0], (4, 2, 1))
        out = device.empty(4 * items)
        cl.Kernel(program, "blind")(device.queue, sizes, None, out)
        full = np.array([*sizes, 1, 1][:3])
        _, y, x = np.unravel_index(np.arange(items), full[::-1])
        same(device.read(out, i32, items), x + 1000 * y)


@program
def pyopencl_algorithms(device: Device) -> None:
    """PyOpenCL's own generated kernels: reduction, scans, compaction, lists of lists, slices of arrays."""
    context, queue, n = device.context, device.queue, 3000
    x, z = device.floats(n), device.integers(0, 9, n)
    b_x, b_z = cl.array.to_device(queue, x), cl.array.to_device(queue, z)
    largest = cl.reduction.ReductionKernel(
        context,
        f32,
        "-INFINITY",
        "fmax(a, b)",
        "x[i] * y[i]",
        "__global const float *x, __global const float *y",
    )
    close(largest(b_x, b_x).get(), (x * x).max())
    kept, count, _ = cl.algorithm.copy_if(b_z, "ary[i] > 4")
    same(kept.get()[: int(count.get())], z[z > 4])
    cl.scan.InclusiveScanKernel(context, i32, "a+b", neutral="0")(b_z)
    same(b_z.get(), np.cumsum(z))
    sort = cl.algorithm.RadixSort(context, "int *ary", key_expr="ary[i]", sort_arg_names=["ary"])
    keys = device.integers(0, 256, n)
    same(sort(cl.array.to_device(queue, keys), key_bits=8)[0][0].get(), np.sort(keys))
    lists = cl.algorithm.ListOfListsBuilder(
        context,
        [("found", i32)],
        """void generate(LIST_ARG_DECL USER_ARG_DECL index_type i)
        { for (int j = 0; j < i % 4; ++j) { APPEND_found(i * 10 + j); } }""",
        arg_decls=[],
    )
    found = lists(queue, 200)[0]["found"]
    same(found.lists.get(), [i * 10 + j for i in range(200) for j in range(i % 4)])
    b_x[5:100] = 7
    x[5:100] = 7
    close((b_x[100:200] * 2 + b_x[:100]).get(), x[100:200] * 2 + x[:100])
