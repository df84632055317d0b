"""Programs whose work-groups write where data says, or talk to each other, checked against NumPy."""

from __future__ import annotations

import numpy as np
import pyopencl as cl

from tests.cpu.program_device import Device, close, f32, i32, program, same, u32, up

# graphs ---------------------------------------------------------------------------------------------


@program
def breadth_first_search(device: Device) -> None:
    """Level by level over masks; a flag that many work-groups set says whether to go on (Rodinia)."""
    source = """
    typedef struct { int start; int count; } Node;
    __kernel void visit(__global const Node *nodes, __global const int *edges, __global char *mask,
                        __global char *updating, __global const char *visited, __global int *cost, int n) {
        int tid = get_global_id(0);
        if (tid < n && mask[tid]) {
            mask[tid] = false;
            for (int i = nodes[tid].start; i < nodes[tid].count + nodes[tid].start; i++) {
                int id = edges[i];
                if (!visited[id]) { cost[id] = cost[tid] + 1; updating[id] = true; }
            }
        }
    }
    __kernel void advance(__global char *mask, __global char *updating, __global char *visited,
                          __global char *over, int n) {
        int tid = get_global_id(0);
        if (tid < n && updating[tid]) {
            mask[tid] = true; visited[tid] = true; *over = true; updating[tid] = false;
        }
    }"""
    n = 700
    degree = device.integers(0, 6, n)
    start = np.concatenate([[0], np.cumsum(degree)[:-1]])
    edges = device.integers(0, n, int(degree.sum()))
    nodes = device.buffer(np.stack([start, degree], 1), i32)
    first = np.zeros(n, np.int8)
    first[0] = 1
    cost = np.full(n, -1, i32)
    cost[0] = 0
    built, b_edges, b_cost = device.build(source), device.buffer(edges), device.buffer(cost)
    mask, visited, updating, over = (device.buffer(x) for x in (first, first, first * 0, first[:1]))
    going = np.ones(1, np.int8)
    while going[0]:
        cl.enqueue_fill_buffer(device.queue, over, np.int8(0), 0, 1)
        size = (up(n, 64),)
        built.visit(device.queue, size, (64,), nodes, b_edges, mask, updating, visited, b_cost, i32(n))
        built.advance(device.queue, size, (64,), mask, updating, visited, over, i32(n))
        going = device.read(over, np.int8, 1)
    level, frontier = 0, {0}
    while frontier:
        level += 1
        reached = {int(v) for u in frontier for v in edges[start[u] : start[u] + degree[u]]}
        frontier = {v for v in reached if cost[v] < 0}
        cost[list(frontier)] = level
    same(device.read(b_cost, i32, n), cost)


@program
def race_for_one_place(device: Device) -> None:
    """Several work-groups write different values to one place: any of them is right, no mixture is."""
    source = """
    typedef struct { int key; float value; uchar hit; } Slot;
    __kernel void parents(__global const int *to, __global const int *from, __global int *parent) {
        int i = get_global_id(0); parent[to[i]] = from[i];
    }
    __kernel void slots(__global const int *to, __global const int *from, __global Slot *slot) {
        int i = get_global_id(0); Slot s; s.key = from[i]; s.value = from[i]; s.hit = 1; slot[to[i]] = s;
    }
    __kernel void vectors(__global const int *to, __global float4 *vector) {
        int i = get_global_id(0); vector[to[i]] = (float4)(i, i + 1, i + 2, i + 3);
    }"""
    n, places = 2048, 40
    to, origin = device.integers(0, places, n), device.integers(0, 1 << 24, n)
    built, b_to, b_from = device.build(source), device.buffer(to), device.buffer(origin)
    parent, vector = device.buffer(np.full(places, -1), i32), device.empty(16 * places)
    slot_type = np.dtype([("key", i32), ("value", f32), ("hit", "u1"), ("pad", "u1", 3)])
    slot = device.buffer(np.zeros(places, slot_type))
    built.parents(device.queue, (n,), (32,), b_to, b_from, parent)
    built.slots(device.queue, (n,), (32,), b_to, b_from, slot)
    built.vectors(device.queue, (n,), (32,), b_to, vector)
    parents, slots = device.read(parent, i32, places), device.read(slot, slot_type, places)
    vectors = device.read(vector, f32, (places, 4))
    for place in range(places):
        candidates = origin[to == place]
        assert parents[place] in candidates
        assert slots["key"][place] in candidates
        assert slots["value"][place] == slots["key"][place]
        assert to[int(vectors[place, 0])] == place
        same(vectors[place], vectors[place, 0] + np.arange(4))


@program
def connected_components(device: Device) -> None:
    """Labels are lowered in place along edges, races and all, until a launch changes none."""
    source = """
    __kernel void hook(__global const int *u, __global const int *v, __global int *label,
                       __global int *changed, int m) {
        int e = get_global_id(0);
        if (e >= m) return;
        int a = label[u[e]], b = label[v[e]];
        if (a < b) { label[v[e]] = a; *changed = 1; } else if (b < a) { label[u[e]] = b; *changed = 1; }
    }
    __kernel void jump(__global int *label, int n) {
        int v = get_global_id(0);
        if (v < n) { int l = label[v]; while (l != label[l]) l = label[l]; label[v] = l; }
    }"""
    n, m = 1500, 1300
    u, v = device.integers(0, n, m), device.integers(0, n, m)
    built, label, changed = device.build(source), device.buffer(np.arange(n), i32), device.buffer([1], i32)
    b_u, b_v = device.buffer(u), device.buffer(v)
    for _ in range(100):
        cl.enqueue_fill_buffer(device.queue, changed, i32(0), 0, 4)
        built.hook(device.queue, (up(m, 64),), (64,), b_u, b_v, label, changed, i32(m))
        built.jump(device.queue, (up(n, 64),), (64,), label, i32(n))
        if not device.read(changed, i32, 1)[0]:
            break
    expected = np.arange(n)
    while (expected[u] != expected[v]).any():
        np.minimum.at(expected, u, expected[v])
        np.minimum.at(expected, v, expected[u])
    same(device.read(label, i32, n), expected)


# work-groups that talk to each other ----------------------------------------------------------------


@program
def last_work_group_reduction(device: Device) -> None:
    """The work-group that finishes last, by a counter, adds up what all have written (CUDA's threadFence)."""
    source = """
    __kernel void total(__global const float *in, __global float *partial, __global uint *counter,
                        __global float *out, uint n) {
        __local float s[64]; __local int last; uint l = get_local_id(0);
        float a = 0;
        for (uint i = get_global_id(0); i < n; i += get_global_size(0)) a += in[i];
        s[l] = a;
        for (uint k = 32; k; k >>= 1) { barrier(CLK_LOCAL_MEM_FENCE); if (l < k) s[l] += s[l + k]; }
        if (l == 0) {
            partial[get_group_id(0)] = s[0];
            mem_fence(CLK_GLOBAL_MEM_FENCE);
            last = atomic_inc(counter) == get_num_groups(0) - 1;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (last && l == 0) {
            float z = 0;
            for (uint i = 0; i < get_num_groups(0); i++) z += partial[i];
            *out = z; *counter = 0;
        }
    }"""
    x = device.integers(0, 9, 3000, f32)
    built, counter, out = device.build(source), device.buffer([0], u32), device.buffer([0], f32)
    for _ in range(2):
        args = device.buffer(x), device.empty(4 * 9), counter, out, u32(len(x))
        built.total(device.queue, (64 * 9,), (64,), *args)
        same(device.read(out, f32, 1), [x.sum()])


@program
def chained_scan(device: Device) -> None:
    """Each work-group polls what the one before it will write, with fences alone."""
    source = """
    __kernel void chain(__global int *sums, __global const int *x) {
        int g = get_group_id(0);
        if (get_local_id(0) == 0) {
            int v = -1;
            while (v < 0) { read_mem_fence(CLK_GLOBAL_MEM_FENCE); v = sums[g]; }
            sums[g + 1] = v + x[g];
            write_mem_fence(CLK_GLOBAL_MEM_FENCE);
        }
    }"""
    n = 12
    x = device.integers(0, 9, n)
    sums = device.buffer([0] + [-1] * n, i32)
    device.build(source).chain(device.queue, (4 * n,), (4,), sums, device.buffer(x))
    same(device.read(sums, i32, n + 1), np.concatenate([[0], np.cumsum(x)]))


@program
def stream_compaction(device: Device) -> None:
    source = """__kernel void keep(__global const int *in, __global int *out, __global int *count, int n) {
        int i = get_global_id(0);
        if (i < n && in[i] > 50) out[atomic_inc(count)] = in[i];
    }"""
    x = device.integers(0, 100, 2000)
    out, count = device.empty(x.nbytes), device.buffer([0], i32)
    device.build(source).keep(device.queue, (2048,), (64,), device.buffer(x), out, count, i32(len(x)))
    found = device.read(out, i32, len(x))[: device.read(count, i32, 1)[0]]
    same(np.sort(found), np.sort(x[x > 50]))


@program
def histogram_and_other_atomics(device: Device) -> None:
    """Atomics in local memory, then global ones without results; least, largest, bits and parity beside."""
    source = """
    __kernel void count(__global const uchar4 *data, volatile __global uint *bins, int n) {
        __local uint h[256];
        for (int i = get_local_id(0); i < 256; i += get_local_size(0)) h[i] = 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int i = get_global_id(0); i < n; i += get_global_size(0)) {
            uchar4 v = data[i];
            atomic_inc(&h[v.x]); atomic_inc(&h[v.y]); atomic_inc(&h[v.z]); atomic_inc(&h[v.w]);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int i = get_local_id(0); i < 256; i += get_local_size(0)) if (h[i]) atomic_add(bins + i, h[i]);
    }
    __kernel void extremes(__global const int *x, __global int *found) {
        int v = x[get_global_id(0)];
        atomic_min(found, v); atomic_max(found + 1, v); atomic_or(found + 2, 1 << (v & 31));
        atomic_xor(found + 3, v); atomic_sub(found + 4, v); if (v > 0) atomic_dec(found + 5);
    }"""
    data, x = device.integers(0, 256, 16000, np.uint8), device.integers(-500, 500, 1024)
    built, bins = device.build(source), device.buffer(np.zeros(256), u32)
    for round_ in (1, 2):
        built.count(device.queue, (576,), (64,), device.buffer(data), bins, i32(4000))
        same(device.read(bins, u32, 256), round_ * np.bincount(data, minlength=256))
    found = device.buffer([1 << 30, -(1 << 30), 0, 0, 5, 2000], i32)
    built.extremes(device.queue, (1024,), (32,), device.buffer(x), found)
    bits = int(np.bitwise_or.reduce(np.left_shift(1, x & 31, dtype=np.int64)))
    bits -= (bits >> 31) << 32
    parity = np.bitwise_xor.reduce(x)
    same(device.read(found, i32, 6), [x.min(), x.max(), bits, parity, 5 - x.sum(), 2000 - (x > 0).sum()])


# sorting and transforms -----------------------------------------------------------------------------


@program
def radix_sort(device: Device) -> None:
    """Histograms, a scan over several kernels and a scatter, four bits at a time (AMD's sample)."""
    source = """
    #define R 16
    #define L get_local_size(0)
    #define PART(n) int l = get_local_id(0), g = get_group_id(0), groups = get_num_groups(0); \\
        int per = (n + groups - 1) / groups, items = (per + L - 1) / L; \\
        int start = g * per + l * items, stop = min(min(start + items, (g + 1) * per), n)
    __kernel void histogram(__global const uint *keys, __global uint *table, int bit, int n, __local uint *h) {
        PART(n);
        for (int r = 0; r < R; r++) h[r * L + l] = 0;
        for (int i = start; i < stop; i++) h[((keys[i] >> bit) & (R - 1)) * L + l]++;
        for (int r = 0; r < R; r++) table[(r * groups + g) * L + l] = h[r * L + l];
    }
    __kernel void scan(__global uint *table, __global uint *sums, __local uint *t) {
        int l = get_local_id(0), i = get_global_id(0);
        uint v = t[l] = table[i];
        for (int o = 1; o < L; o <<= 1) {
            barrier(CLK_LOCAL_MEM_FENCE);
            uint a = l >= o ? t[l - o] : 0;
            barrier(CLK_LOCAL_MEM_FENCE);
            t[l] += a;
        }
        table[i] = t[l] - v;
        if (l == L - 1) sums[get_group_id(0)] = t[l];
    }
    __kernel void scan_sums(__global uint *sums, int n) {
        for (uint i = 0, a = 0, v; i < n; i++) { v = sums[i]; sums[i] = a; a += v; }
    }
    __kernel void paste(__global uint *table, __global const uint *sums) {
        table[get_global_id(0)] += sums[get_group_id(0)];
    }
    __kernel void scatter(__global const uint *in, __global uint *out, __global const uint *table,
                          int bit, int n, __local uint *h) {
        PART(n);
        for (int r = 0; r < R; r++) h[r * L + l] = table[(r * groups + g) * L + l];
        for (int i = start; i < stop; i++) out[h[((in[i] >> bit) & (R - 1)) * L + l]++] = in[i];
    }"""
    n, groups, local = 1500, 8, 16
    keys, entries = device.integers(0, 1 << 16, n, u32), 16 * groups * local
    built, table, sums = device.build(source), device.empty(4 * entries), device.empty(4 * entries // 64)
    source_keys, target_keys = device.buffer(keys), device.empty(keys.nbytes)
    size, counts = (groups * local,), cl.LocalMemory(4 * 16 * local)
    for bit in range(0, 16, 4):
        built.histogram(device.queue, size, (local,), source_keys, table, i32(bit), i32(n), counts)
        built.scan(device.queue, (entries,), (64,), table, sums, cl.LocalMemory(256))
        built.scan_sums(device.queue, (1,), (1,), sums, i32(entries // 64))
        built.paste(device.queue, (entries,), (64,), table, sums)
        built.scatter(device.queue, size, (local,), source_keys, target_keys, table, i32(bit), i32(n), counts)
        source_keys, target_keys = target_keys, source_keys
    same(device.read(source_keys, u32, n), np.sort(keys))


@program
def transforms_in_place(device: Device) -> None:
    """Bit reversal and butterflies of an FFT, a bitonic network: pairs of elements anywhere in one buffer."""
    source = """
    typedef float2 cf;
    __kernel void reverse(__global cf *x, uint bits) {
        uint i = get_global_id(0), r = 0;
        for (uint b = 0; b < bits; b++) r |= ((i >> b) & 1) << (bits - 1 - b);
        if (r > i) { cf t = x[i]; x[i] = x[r]; x[r] = t; }
    }
    __kernel void butterfly(__global cf *x, uint h) {
        uint i = get_global_id(0), j = i % h, base = i / h * 2 * h + j;
        float angle = -M_PI_F * j / h;
        cf w = (cf)(cos(angle), sin(angle)), u = x[base], v = x[base + h];
        cf t = (cf)(v.x * w.x - v.y * w.y, v.x * w.y + v.y * w.x);
        x[base] = u + t; x[base + h] = u - t;
    }
    __kernel void exchange(__global float *a, uint j, uint k) {
        uint i = get_global_id(0), l = i ^ j;
        if (l > i) {
            float x = a[i], y = a[l];
            if ((i & k) == 0 ? x > y : x < y) { a[i] = y; a[l] = x; }
        }
    }"""
    n = 256
    x = (device.floats(n) + 1j * device.floats(n)).astype(np.complex64)
    built, b_x = device.build(source), device.buffer(x)
    built.reverse(device.queue, (n,), (8,), b_x, u32(8))
    for level in range(8):
        built.butterfly(device.queue, (n // 2,), (8,), b_x, u32(1 << level))
    close(device.read(b_x, np.complex64, n), np.fft.fft(x), 1e-3)
    values = device.floats(n)
    b_values = device.buffer(values)
    for k in range(1, 9):
        for j in range(k - 1, -1, -1):
            built.exchange(device.queue, (n,), (16,), b_values, u32(1 << j), u32(1 << k))
    same(device.read(b_values, f32, n), np.sort(values))
