"""`python -m tests.pure.index_shapes`: what the first plan of a kernel costs whose indices have an unusual shape, by number of workers.

Curves, digits and bits of indices, triangles, rings, offsets from memory, pitches that do not go together: thousands of bytecodes
(`--ms`: milliseconds of the thread's processor time, the least of `--times`) of the evaluation of a launch's ranges and of its
plan, where nothing from before is known but the kernel's summary. With `--where`, the functions that execute most bytecodes.
Beside it how many workers it runs on, and how much is moved in all.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections import Counter
from functools import cache
from typing import Any

import pytest

from samples.benchmarks import planning_growth as growth
from samples.benchmarks.planning_growth import Step
from tests.bytecodes import Bytecodes
from vdev.planner.directory import HOST

SOURCE = """
kernel void warm(global float *to, global const float *from) { to[get_global_id(0)] = from[get_global_id(0)]; }
kernel void torus(global float *to, global const float *from, int n) {
    int x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
    int l = (x + n - 1) % n, r = (x + 1) % n, u = (y + n - 1) % n, d = (y + 1) % n, b = (z + n - 1) % n, f = (z + 1) % n;
    to[(z * n + y) * n + x] = from[(z * n + y) * n + l] + from[(z * n + y) * n + r] + from[(z * n + u) * n + x]
        + from[(z * n + d) * n + x] + from[(b * n + y) * n + x] + from[(f * n + y) * n + x];
}
kernel void torus_box(global float *to, global const float *from, int n) {
    int x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
    float sum = 0;
    for (int k = -1; k <= 1; ++k) for (int j = -1; j <= 1; ++j) for (int i = -1; i <= 1; ++i)
        sum += from[((z + k + n) % n * n + (y + j + n) % n) * n + (x + i + n) % n];
    to[(z * n + y) * n + x] = sum;
}
kernel void life(global uchar *to, global const uchar *from, int w, int h) {
    int x = get_global_id(0), y = get_global_id(1), sum = 0;
    for (int j = -1; j <= 1; ++j) for (int i = -1; i <= 1; ++i)
        if (i || j) sum += from[(y + j + h) % h * w + (x + i + w) % w];
    to[y * w + x] = sum == 3 || (sum == 2 && from[y * w + x]);
}
kernel void torus_1d(global float *to, global const float *from, int n) {
    int i = get_global_id(0), x = i % n, y = i / n;
    to[i] = from[y * n + (x + 1) % n] + from[(y + 1) % n * n + x] + from[y * n + (x + n - 1) % n] + from[(y + n - 1) % n * n + x];
}
uint spread2(uint x) {
    x = (x | x << 8) & 0x00ff00ff; x = (x | x << 4) & 0x0f0f0f0f; x = (x | x << 2) & 0x33333333;
    return (x | x << 1) & 0x55555555;
}
uint compact2(uint x) {
    x &= 0x55555555; x = (x ^ x >> 1) & 0x33333333; x = (x ^ x >> 2) & 0x0f0f0f0f; x = (x ^ x >> 4) & 0x00ff00ff;
    return (x ^ x >> 8) & 0x0000ffff;
}
kernel void morton(global float *to, global const float *from, int n) {
    uint x = get_global_id(0), y = get_global_id(1);
    to[spread2(x) | spread2(y) << 1] = from[y * n + x];
}
kernel void unmorton(global float *to, global const float *from, int n) {
    uint i = get_global_id(0);
    to[compact2(i >> 1) * n + compact2(i)] = from[i];
}
kernel void morton_loop(global float *to, global const float *from, int n) {
    uint x = get_global_id(0), y = get_global_id(1), at = 0;
    for (int b = 0; b < 11; ++b) at |= (x >> b & 1) << 2 * b | (y >> b & 1) << (2 * b + 1);
    to[at] = from[y * n + x];
}
kernel void packed(global float *a, global const float *b, int n) {
    int i = get_global_id(0);
    for (int j = 0; j <= i; ++j) a[i * (i + 1) / 2 + j] = b[i] * b[j];
}
kernel void packed_2d(global float *a, global const float *b, int n) {
    int j = get_global_id(0), i = get_global_id(1);
    if (j <= i) a[i * (i + 1) / 2 + j] = b[i] * b[j];
}
kernel void packed_upper(global float *a, global const float *b, int n) {
    int j = get_global_id(0), i = get_global_id(1);
    if (j >= i && j < n) a[i * n - i * (i - 1) / 2 + j - i] = b[i] * b[j];
}
kernel void pairs(global float *out, global const float *at, int n) {
    int k = get_global_id(0);
    int i = n - 2 - (int)floor(sqrt(-8.0f * k + 4 * n * (n - 1) - 7) / 2 - 0.5f);
    int j = k + i + 1 - n * (n - 1) / 2 + (n - i) * ((n - i) - 1) / 2;
    out[k] = at[i] * at[j];
}
kernel void reversed_rows(global float *to, global const float *from, int n) {
    uint row = get_global_id(1), x = get_global_id(0), r = 0;
    for (int b = 0; b < 11; ++b) r |= (row >> b & 1) << (10 - b);
    to[r * n + x] = from[row * n + x];
}
kernel void reversed_swaps(global float *to, global const float *from, int n) {
    uint row = get_global_id(1), x = get_global_id(0), r = row;
    r = (r & 0x55555555) << 1 | (r & 0xaaaaaaaa) >> 1; r = (r & 0x33333333) << 2 | (r & 0xcccccccc) >> 2;
    r = (r & 0x0f0f0f0f) << 4 | (r & 0xf0f0f0f0) >> 4; r = (r & 0x00ff00ff) << 8 | (r & 0xff00ff00) >> 8;
    r = (r << 16 | r >> 16) >> 21;
    to[r * n + x] = from[row * n + x];
}
kernel void hilbert_bits(global float *to, global const float *from, int n) {
    uint x = get_global_id(0), y = get_global_id(1), u = x, v = y, d = 0;
    for (uint s = n / 2; s > 0; s /= 2) {
        uint rx = (u & s) > 0, ry = (v & s) > 0;
        d += s * s * ((3 * rx) ^ ry);
        if (ry == 0) { if (rx == 1) { u = s - 1 - u; v = s - 1 - v; } uint t = u; u = v; v = t; }
    }
    to[d] = from[y * n + x];
}
constant uchar CURVE[64] = {0, 1, 3, 2, 3, 1, 0, 2, 2, 0, 1, 3, 1, 3, 2, 0};
kernel void hilbert_table(global float *to, global const float *from, int n) {
    uint x = get_global_id(0), y = get_global_id(1), d = 0, state = 0;
    for (int b = 10; b >= 0; --b) {
        uint quadrant = (x >> b & 1) << 1 | (y >> b & 1);
        d = d << 2 | CURVE[state << 2 | quadrant];
        state = CURVE[state << 2 | quadrant];
    }
    to[d] = from[y * n + x];
}
kernel void hexagons(global float *to, global const float *from, int w, int h) {
    int x = get_global_id(0), y = get_global_id(1), odd = y & 1;
    if (x < 1 || y < 1 || x >= w - 1 || y >= h - 1) return;
    to[y * w + x] = from[y * w + x - 1] + from[y * w + x + 1] + from[(y - 1) * w + x - 1 + odd] + from[(y - 1) * w + x + odd]
        + from[(y + 1) * w + x - 1 + odd] + from[(y + 1) * w + x + odd];
}
kernel void block_rows(global float *y, global const float *values, global const float *x, global const int *columns, int per) {
    int row = get_global_id(0), block = row / 16, in = row % 16;
    float sum = 0;
    for (int b = 0; b < per; ++b) for (int j = 0; j < 16; ++j)
        sum += values[(block * per + b) * 256 + in * 16 + j] * x[columns[block * per + b] * 16 + j];
    y[row] = sum;
}
kernel void ragged(global float *out, global const float *in, global const int *offsets) {
    int batch = get_group_id(0);
    for (int i = offsets[batch] + get_local_id(0); i < offsets[batch + 1]; i += get_local_size(0)) out[i] = 2 * in[i];
}
kernel void permuted(global float *to, global const float *from, int a, int b, int c, int d) {
    int i = get_global_id(0), l = i % d, k = i / d % c, j = i / d / c % b, h = i / d / c / b;
    to[((k * a + h) * d + l) * b + j] = from[i];
}
kernel void permuted_reads(global float *to, global const float *from, int a, int b, int c, int d) {
    int i = get_global_id(0), j = i % b, l = i / b % d, h = i / b / d % a, k = i / b / d / a;
    to[i] = from[((h * b + j) * c + k) * d + l];
}
kernel void fft_pass(global float2 *a, int m) {
    int i = get_global_id(0), k = i % m, at = i / m * 2 * m + k;
    float2 u = a[at], v = a[at + m];
    a[at] = u + v; a[at + m] = u - v;
}
kernel void fft_bits(global float2 *a, int stage) {
    int i = get_global_id(0), low = i & ((1 << stage) - 1), at = (i >> stage) << (stage + 1) | low;
    float2 u = a[at], v = a[at | 1 << stage];
    a[at] = u + v; a[at | 1 << stage] = u - v;
}
kernel void fft_stockham(global float2 *to, global const float2 *from, int ns, int n) {
    int j = get_global_id(0), k = j % ns, at = j / ns * ns * 4 + k;
    for (int r = 0; r < 4; ++r) to[at + r * ns] = from[j + r * (n / 4)];
}
kernel void bitonic(global float *a, int j, int k) {
    int i = get_global_id(0), other = i ^ j;
    if (other > i) {
        float x = a[i], y = a[other];
        if ((x > y) == ((i & k) == 0)) { a[i] = y; a[other] = x; }
    }
}
kernel void wavelet(global float *a, int step) {
    int i = 2 * step * get_global_id(0);
    float s = a[i], d = a[i + step];
    a[i] = (s + d) / 2; a[i + step] = (s - d) / 2;
}
kernel void dilated(global float *to, global const float *from, int n, int dilation) {
    int i = get_global_id(0);
    float sum = 0;
    for (int k = -4; k <= 4; ++k) { int at = i + k * dilation; if (at >= 0 && at < n) sum += from[at]; }
    to[i] = sum;
}
kernel void dilated_2d(global float *to, global const float *from, int w, int h, int dilation) {
    int x = get_global_id(0), y = get_global_id(1);
    float sum = 0;
    for (int j = -1; j <= 1; ++j) for (int i = -1; i <= 1; ++i) {
        int u = x + i * dilation, v = y + j * dilation;
        if (u >= 0 && u < w && v >= 0 && v < h) sum += from[v * w + u];
    }
    to[y * w + x] = sum;
}
kernel void space_time(global float *a, int n, int wave) {
    int tile = get_group_id(0), x = get_local_id(0);
    for (int t = 0; t < 8; ++t) {
        int at = tile * 128 + wave * 64 + x + t, from = t % 2 * n, to = (t + 1) % 2 * n;
        if (x < 112 - 2 * t && at + 1 < n) a[to + at] = a[from + at] + a[from + at + 1];
    }
}
kernel void cyclic_reduction(global float *d, global const float *c, int stride, int n) {
    int i = stride * (get_global_id(0) + 1) - 1, left = i - stride / 2, right = min(i + stride / 2, n - 1);
    d[i] = d[i] - c[left] * d[left] - c[right] * d[right];
}
kernel void interleaved(global float *out, global const float *in, int n) {
    int i = get_global_id(0), k = i / 2, part = i % 2;
    out[i] = part ? in[2 * k] + in[2 * (n - 1 - k) + 1] : in[2 * k + 1] - in[2 * (n - 1 - k)];
}
kernel void in_one_buffer(global float *s, int n) {
    int i = get_global_id(0);
    global float *x = s, *y = s + n, *z = s + 2 * n, *vx = s + 3 * n, *vy = s + 4 * n, *vz = s + 5 * n;
    x[i] += vx[i]; y[i] += vy[i]; z[i] += vz[i];
}
kernel void look_back(global float *out, global const float *in, global const int *back, int n) {
    int i = get_global_id(0), from = i - min(back[i], 64);
    out[i] = in[max(from, 0)] + in[i];
}
kernel void pitched(global float *to, global const float *from, int pitch, int other, int x0, int y0) {
    int x = get_global_id(0), y = get_global_id(1);
    to[(y + 3) * pitch + x + 5] = from[(y + y0) * other + x + x0];
}
kernel void pitched_planes(global float *to, global const float *from, int pitch, int slice, int other, int plane) {
    int x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
    to[z * slice + y * pitch + x] = from[z * plane + (y + 1) * other + x + 3] + from[z * plane + y * other + x];
}
kernel void diagonals(global float *a, int n, int d) {
    int i = get_global_id(0), row = max(0, d - n + 1) + i, column = d - row;
    if (column >= 0 && row < n) a[row * n + column] += row && column ? a[(row - 1) * n + column] + a[row * n + column - 1] : 1;
}
kernel void skewed(global float *to, global const float *from, int n) {
    int x = get_global_id(0), y = get_global_id(1);
    to[y * n + (x + y) % n] = from[y * n + x];
}
kernel void blocked(global float *to, global const float *from, int n) {
    int i = get_global_id(0), j = get_global_id(1);
    to[((j / 16) * (n / 16) + i / 16) * 256 + j % 16 * 16 + i % 16] = from[j * n + i];
}
kernel void swizzled(global float *to, global const float *from, int n) {
    int x = get_global_id(0), y = get_global_id(1);
    to[y * n + (x ^ y & 31)] = from[y * n + x];
}
kernel void mirrored(global float *to, global const float *from, int w, int h) {
    int x = get_global_id(0), y = get_global_id(1);
    float sum = 0;
    for (int k = -3; k <= 3; ++k) {
        int u = x + k; u = u < 0 ? -u : u >= w ? 2 * w - 2 - u : u;
        int v = y + k; v = v < 0 ? -v : v >= h ? 2 * h - 2 - v : v;
        sum += from[y * w + u] + from[v * w + x];
    }
    to[y * w + x] = sum;
}
kernel void convolution(global float *out, global const float *in, global const float *weights, int c, int k, int h, int w) {
    int i = get_global_id(0), x = i % w, y = i / w % h, o = i / w / h % k, n = i / w / h / k;
    float sum = 0;
    for (int f = 0; f < c; ++f) for (int dy = 0; dy < 3; ++dy) for (int dx = 0; dx < 3; ++dx) {
        int v = 2 * y + dy - 1, u = 2 * x + dx - 1;
        if (v >= 0 && v < 2 * h && u >= 0 && u < 2 * w)
            sum += in[((n * c + f) * 2 * h + v) * 2 * w + u] * weights[((o * c + f) * 3 + dy) * 3 + dx];
    }
    out[i] = sum;
}
kernel void columns_to_rows(global float *to, global const float *from, int c, int h, int w) {
    int i = get_global_id(0), x = i % w, y = i / w % h, f = i / w / h;
    for (int dy = 0; dy < 3; ++dy) for (int dx = 0; dx < 3; ++dx) {
        int v = y + dy - 1, u = x + dx - 1;
        to[((f * 3 + dy) * 3 + dx) * h * w + y * w + x] = v >= 0 && v < h && u >= 0 && u < w ? from[(f * h + v) * w + u] : 0;
    }
}
kernel void red_black_3d(global float *a, int n, int odd) {
    int x = 2 * get_global_id(0) + 1, y = get_global_id(1) + 1, z = get_global_id(2) + 1;
    x += (y + z + odd) % 2;
    long at = (z * (long)n + y) * n + x;
    if (x < n - 1 && y < n - 1 && z < n - 1) a[at] = a[at - 1] + a[at + 1] + a[at - n] + a[at + n] + a[at - n * n] + a[at + n * n];
}
kernel void red_black_4d(global float *a, int n, int odd) {
    int x = 2 * get_global_id(0), y = get_global_id(1), z = get_global_id(2) % n, t = get_global_id(2) / n;
    x += (y + z + t + odd) % 2;
    a[((t * n + z) * n + y) * n + x] = 2;
}
kernel void restricted(global float *coarse, global const float *fine, int n) {
    int x = get_global_id(0), y = get_global_id(1), z = get_global_id(2), m = 2 * n;
    float sum = 0;
    for (int k = 0; k < 2; ++k) for (int j = 0; j < 2; ++j) for (int i = 0; i < 2; ++i)
        sum += fine[((2 * z + k) * m + 2 * y + j) * m + 2 * x + i];
    coarse[(z * n + y) * n + x] = sum;
}
kernel void lattice(global float *to, global const float *from, int w, int h) {
    int x = get_global_id(0), y = get_global_id(1), n = w * h;
    const int dx[9] = {0, 1, 0, -1, 0, 1, -1, -1, 1}, dy[9] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
    for (int q = 0; q < 9; ++q) to[q * n + (y + dy[q] + h) % h * w + (x + dx[q] + w) % w] = from[q * n + y * w + x];
}
kernel void heads(global float *out, global const float *q, global const float *k, int heads, int length, int width) {
    int i = get_global_id(0), head = get_global_id(1), batch = get_global_id(2);
    int per = width / heads;
    for (int j = 0; j <= i; ++j) {
        float sum = 0;
        for (int d = 0; d < per; ++d)
            sum += q[(batch * length + i) * width + head * per + d] * k[(batch * length + j) * width + head * per + d];
        out[((batch * heads + head) * length + i) * length + j] = sum;
    }
}
kernel void lu_step(global float *a, int n, int k) {
    int i = get_global_id(0), row = k + 1 + i / (n - k - 1), column = k + 1 + i % (n - k - 1);
    if (row < n) a[row * n + column] -= a[row * n + k] * a[k * n + column];
}
kernel void wavefront(global float *to, global const float *from, int n) {
    int x = get_global_id(0), t = get_global_id(1), y = t - 2 * x;
    if (y >= 1 && y < n - 1 && x >= 1 && x < n - 1) to[y * n + x] = from[y * n + x - 1] + from[(y - 1) * n + x + 1] + from[(y + 1) * n + x];
}
kernel void symmetric(global float *y, global const float *a, global const float *x, int n) {
    int i = get_global_id(0); float s = 0;
    for (int j = 0; j < n; ++j) s += (j <= i ? a[i * (i + 1) / 2 + j] : a[j * (j + 1) / 2 + i]) * x[j];
    y[i] = s;
}
kernel void dilated_convolution(global float *to, global const float *from, global const float *k, int w, int h, int s, int d) {
    int x = get_global_id(0), y = get_global_id(1); float sum = 0;
    for (int j = 0; j < 3; ++j) for (int i = 0; i < 3; ++i) {
        int v = y * s + (j - 1) * d, u = x * s + (i - 1) * d;
        if (v >= 0 && v < h && u >= 0 && u < w) sum += from[v * w + u] * k[j * 3 + i];
    }
    to[y * (w / s) + x] = sum;
}
kernel void bit_reversed(global float *to, global const float *from, int log) {
    uint i = get_global_id(0), r = i;
    r = (r >> 1 & 0x55555555) | (r & 0x55555555) << 1; r = (r >> 2 & 0x33333333) | (r & 0x33333333) << 2;
    r = (r >> 4 & 0x0f0f0f0f) | (r & 0x0f0f0f0f) << 4; r = (r >> 8 & 0x00ff00ff) | (r & 0x00ff00ff) << 8;
    r = (r >> 16) | (r << 16);
    to[r >> (32 - log)] = from[i];
}
kernel void butterfly(global float2 *a, int stage) {
    uint i = get_global_id(0), low = i & ((1u << stage) - 1), at = ((i >> stage) << (stage + 1)) | low;
    float2 x = a[at], y = a[at | 1u << stage];
    a[at] = x + y; a[at | 1u << stage] = x - y;
}
kernel void halo3(global float *to, global const float *from, int n, int h) {
    int x = get_global_id(0), y = get_global_id(1), z = get_global_id(2), m = n - 2 * h;
    to[(z * n + y) * n + x] = from[(((z + m - h) % m + h) * n + (y + m - h) % m + h) * n + (x + m - h) % m + h];
}
kernel void gray(global float *to, global const float *from) { uint i = get_global_id(0); to[i ^ i >> 1] = from[i]; }
kernel void bank_swizzle(global float *to, global const float *from, int n) {
    int x = get_global_id(0), y = get_global_id(1);
    to[y * n + ((x & ~7) | (x + y & 7))] = from[y * n + x];
}
uint spread3(uint x) {
    x = (x | x << 16) & 0x030000ff; x = (x | x << 8) & 0x0300f00f; x = (x | x << 4) & 0x030c30c3;
    return (x | x << 2) & 0x09249249;
}
kernel void morton_3d(global float *to, global const float *from, int n) {
    uint x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
    to[spread3(x) | spread3(y) << 1 | spread3(z) << 2] = from[(z * n + y) * n + x];
}
"""

N = 1 << 22  # floats of each buffer
R = 2048
TWO = {0: 0, 1: 1}
PLANE, SQUARE = (R, R), (16, 16)
CUBE, SMALL = (160, 160, 160), (4, 4, 4)
SHAPES = (
    Step("torus", CUBE, SMALL, TWO, {2: 160}),
    Step("torus_box", CUBE, SMALL, TWO, {2: 160}),
    Step("life", PLANE, SQUARE, TWO, {2: R, 3: R}),
    Step("torus_1d", (N,), (256,), TWO, {2: R}),
    Step("morton", PLANE, SQUARE, TWO, {2: R}),
    Step("unmorton", (N,), (256,), TWO, {2: R}),
    Step("morton_loop", PLANE, SQUARE, TWO, {2: R}),
    Step("packed", (R,), (16,), TWO, {2: R}),
    Step("packed_2d", PLANE, SQUARE, TWO, {2: R}),
    Step("packed_upper", PLANE, SQUARE, TWO, {2: R}),
    Step("pairs", (R * (R - 1) // 2 // 256 * 256,), (256,), TWO, {2: R}),
    Step("reversed_rows", PLANE, SQUARE, TWO, {2: R}),
    Step("reversed_swaps", PLANE, SQUARE, TWO, {2: R}),
    Step("hilbert_bits", PLANE, SQUARE, TWO, {2: R}),
    Step("hilbert_table", PLANE, SQUARE, TWO, {2: R}),
    Step("hexagons", PLANE, SQUARE, TWO, {2: R, 3: R}),
    Step("block_rows", (1 << 14,), (64,), {0: 0, 1: 1, 2: 2, 3: 3}, {4: 8}),
    Step("ragged", (1 << 16,), (64,), {0: 0, 1: 1, 2: 2}, {}),
    Step("permuted", (N,), (256,), TWO, {2: 32, 3: 64, 4: 32, 5: 64}),
    Step("permuted_reads", (N,), (256,), TWO, {2: 32, 3: 64, 4: 32, 5: 64}),
    Step("fft_pass", (N // 4,), (256,), {0: 0}, {1: 1 << 12}),
    Step("fft_bits", (N // 4,), (256,), {0: 0}, {1: 12}),
    Step("fft_stockham", (N // 8,), (256,), TWO, {2: 1 << 8, 3: N // 2}),
    Step("bitonic", (N,), (256,), {0: 0}, {1: 1 << 13, 2: 1 << 16}),
    Step("wavelet", (N // 16,), (256,), {0: 0}, {1: 8}),
    Step("dilated", (N,), (256,), TWO, {2: N, 3: 1 << 16}),
    Step("dilated_2d", PLANE, SQUARE, TWO, {2: R, 3: R, 4: 24}),
    Step("space_time", (N // 2,), (128,), {0: 0}, {1: N // 2, 2: 1}),
    Step("cyclic_reduction", (N // 64,), (64,), TWO, {2: 64, 3: N}),
    Step("interleaved", (N,), (256,), TWO, {2: N // 2}),
    Step("in_one_buffer", (N // 8,), (256,), {0: 0}, {1: N // 6}),
    Step("look_back", (N,), (256,), {0: 0, 1: 1, 2: 2}, {3: N}),
    Step("pitched", (1000, 1024), (8, 8), TWO, {2: 1999, 3: 1777, 4: 13, 5: 7}),
    Step("pitched_planes", (96, 96, 96), (8, 8, 1), TWO, {2: 113, 3: 113 * 101, 4: 127, 5: 127 * 109 + 5}),
    Step("diagonals", (R,), (64,), {0: 0}, {1: R, 2: R + 100}),
    Step("skewed", PLANE, SQUARE, TWO, {2: R}),
    Step("blocked", PLANE, SQUARE, TWO, {2: R}),
    Step("swizzled", PLANE, SQUARE, TWO, {2: R}),
    Step("mirrored", PLANE, SQUARE, TWO, {2: R, 3: R}),
    Step("convolution", (8 * 16 * 64 * 64,), (256,), {0: 0, 1: 1, 2: 2}, {3: 16, 4: 16, 5: 64, 6: 64}),
    Step("columns_to_rows", (16 * 128 * 128,), (256,), TWO, {2: 16, 3: 128, 4: 128}),
    Step("red_black_3d", (80, 158, 158), (4, 2, 2), {0: 0}, {1: 160, 2: 1}),
    Step("red_black_4d", (20, 40, 1600), (4, 4, 1), {0: 0}, {1: 40, 2: 1}),
    Step("restricted", (80, 80, 80), (4, 4, 4), TWO, {2: 80}),
    Step("lattice", (512, 512), (16, 16), TWO, {2: 512, 3: 512}),
    Step("heads", (256, 8, 8), (16, 1, 1), {0: 0, 1: 1, 2: 2}, {3: 8, 4: 256, 5: 512}),
    Step("lu_step", (1900 * 1900,), (4,), {0: 0}, {1: R, 2: R - 1901}),
    Step("wavefront", (R, 3 * R), SQUARE, TWO, {2: R}),
    Step("symmetric", (R,), (64,), {0: 0, 1: 1, 2: 2}, {3: R}),
    Step("dilated_convolution", (1024, 1024), SQUARE, {0: 0, 1: 1, 2: 2}, {3: R, 4: R, 5: 2, 6: 4}),
    Step("bit_reversed", (N,), (256,), TWO, {2: 22}),
    Step("butterfly", (N // 4,), (256,), {0: 0}, {1: 9}),
    Step("halo3", (128, 128, 128), (4, 4, 4), TWO, {2: 128, 3: 2}),
    Step("gray", (N,), (256,), TWO, {}),
    Step("bank_swizzle", PLANE, SQUARE, TWO, {2: R}),
    Step("morton_3d", (128, 128, 128), (4, 4, 4), TWO, {2: 128}),
)


class Tracer(Bytecodes):
    """Says in which functions, too."""

    def __init__(self) -> None:
        super().__init__()
        self.functions: Counter[str] = Counter()

    def _executed(self, frame: Any, event: str, _: Any) -> Any:
        if event == "opcode":
            self.count += 1
            code = frame.f_code
            self.functions[f"{code.co_filename.rpartition('/')[2]}:{code.co_firstlineno} {code.co_name}"] += 1
        return self._executed


def planner_of(workers: int) -> growth.Planner:
    """One that has seen another kernel, and no launch of the step's."""
    planner = growth.Planner(4 * N, workers)
    planner.launch(Step("warm", (N,), (256,), TWO, {}))
    planner.states.clear()
    planner.moved_nbytes = 0
    return planner


def first_plan(step: Step, workers: int, meter: Bytecodes | None) -> tuple[float, growth.Planner]:
    """Milliseconds, and the planner that planned it."""
    planner = planner_of(workers)
    summary = growth.analyse_kernel(planner._program, step.kernel)
    planner._summaries[step.kernel] = summary
    gc.collect()
    if meter is None:
        return planner.launch(step), planner
    with meter:
        found = planner.launch(step)
    return found, planner


def cell(step: Step, workers: int, options: argparse.Namespace) -> str:
    meter = None if options.ms else Tracer() if options.where else Bytecodes()
    found, planner = first_plan(step, workers, meter)
    for _ in range(1, options.times if options.ms else 1):
        found = min(found, first_plan(step, workers, None)[0])
    if meter is not None:
        found = meter.count / 1000
    chunks = sum(any(holder != HOST for holder, _ in state.valid) for state in planner.states.values())
    count = (
        max(
            (
                len([holder for holder, held in state.valid if holder != HOST and held])
                for state in planner.states.values()
            ),
            default=0,
        )
        if chunks
        else 1
    )
    if isinstance(meter, Tracer):
        for name, number in meter.functions.most_common(options.where):
            print(f"    {number:9} {name}")
    return f"{found:9.1f} {count:3} {planner.moved_nbytes / 1e6:8.2f}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.pure.index_shapes", description=__doc__)
    parser.add_argument("--only", default="", help="kernels, separated by commas")
    parser.add_argument("--workers", default="2,4,8", help="numbers of workers, separated by commas")
    parser.add_argument("--ms", action="store_true", help="milliseconds instead of thousands of bytecodes")
    parser.add_argument("--times", type=int, default=5, help="plans of which the fastest counts")
    parser.add_argument("--where", type=int, default=0, help="so many functions that execute most bytecodes")
    options = parser.parse_args()
    counts = [int(each) for each in options.workers.split(",")]
    print(f"{'kernel':18}" + "".join(f"{count:>6} workers: on MB" + " " * 4 for count in counts))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(growth, "SOURCE", SOURCE)
        patch.setattr(growth, "parse_program", cache(growth.parse_program))
        for step in SHAPES:
            if options.only and step.kernel not in options.only.split(","):
                continue
            print(
                f"{step.kernel:18}" + "".join(cell(step, count, options) + "  " for count in counts),
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
