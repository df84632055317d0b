"""Kernels as people write them: records by field, images, half numbers, counters in local memory, tiles with halos, tables, lists."""

from __future__ import annotations

import numpy as np

from tests.harness.pairs_form import F, I, N, Pair, chars, empty, floats, ints, zeros
from vdev.harness import image

ITEMS, OUT, UNWRITTEN = "race-between-items", "out-of-bounds", "unwritten-value"
GROUPS = "race-between-groups"

RECORD = np.dtype([("kind", np.int8), ("count", I), ("low", np.int16), ("high", np.int16)], align=True)
CELL = np.dtype([("sum", F), ("count", I)])

USERS = [
    Pair(
        "a record of arrays, one field behind the other, a field too far",
        OUT,
        """
typedef struct { global float *x, *y, *z, *mass; } Bodies;
Bodies split(global float *all, int n) {
  Bodies b;
  b.x = all; b.y = all + n; b.z = all + 2 * n; b.mass = all + 3 * n;
  return b;
}
kernel void k(global float *all, int n) {
  int i = get_global_id(0);
BUG  Bodies b = split(all, n + 1);
FIX  Bodies b = split(all, n);
  b.mass[i] = b.x[i] + b.y[i] + b.z[i]; //@
}""",
        (floats(4 * N), N),
    ),
    Pair(
        "half numbers, stored beyond the end",
        OUT,
        """
kernel void k(global half *out, global const half *in) {
  int i = get_global_id(0);
  float v = vload_half(i, in);
BUG  vstore_half(v * 2, i + 1, out);
FIX  vstore_half(v * 2, i, out);
}""",
        (empty(N, np.float16), np.ones(N, np.float16)),
    ),
    Pair(
        "vectors of half numbers, each written by two",
        ITEMS,
        """
kernel void k(global half *out, global const float *in) {
  int i = get_global_id(0);
BUG  vstore_half4((float4)(in[i]), 0, out + 3 * i);
FIX  vstore_half4((float4)(in[i]), 0, out + 4 * i);
}""",
        (empty(4 * N, np.float16), floats()),
        N,
        N,
    ),
    Pair(
        "a histogram of the group, read while others count",
        ITEMS,
        """
kernel void k(global int *out, global const uchar *in) {
  local int bins[16];
  int l = get_local_id(0);
  bins[l] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  atomic_inc(&bins[in[get_global_id(0)] * 7 & 15]); //@
FIX  barrier(CLK_LOCAL_MEM_FENCE);
  atomic_add(&out[l], bins[l]); //@
}""",
        (zeros(16), chars()),
    ),
    Pair(
        "a scan by two buffers that swap, a barrier short",
        ITEMS,
        """
kernel void k(global int *out, global const int *in) {
  local int a[16], b[16];
  local int *from = a, *to = b;
  int l = get_local_id(0), i = get_global_id(0);
  from[l] = in[i];
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int d = 1; d < 16; d *= 2) {
    to[l] = l >= d ? from[l] + from[l - d] : from[l]; //@
FIX    barrier(CLK_LOCAL_MEM_FENCE);
    local int *t = from; from = to; to = t;
  }
  out[i] = from[l];
}""",
        (empty(N, I), ints()),
    ),
    Pair(
        "an exclusive scan up and down a tree, too short a shift",
        ITEMS,
        """
kernel void k(global int *out, global const int *in) {
  local int t[32];
  int l = get_local_id(0), g = get_group_id(0) * 32, step = 1;
  t[2 * l] = in[g + 2 * l];
  t[2 * l + 1] = in[g + 2 * l + 1];
  for (int d = 16; d > 0; d /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (l < d) t[step * (2 * l + 2) - 1] += t[step * (2 * l + 1) - 1];
    step *= 2;
  }
  if (l == 0) t[31] = 0; //@
  for (int d = 1; d < 32; d *= 2) {
    step /= 2;
FIX    barrier(CLK_LOCAL_MEM_FENCE);
    if (l < d) { //@
      int left = t[step * (2 * l + 1) - 1]; //@
      t[step * (2 * l + 1) - 1] = t[step * (2 * l + 2) - 1]; //@
      t[step * (2 * l + 2) - 1] += left; //@
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  out[g + 2 * l] = t[2 * l]; //@
  out[g + 2 * l + 1] = t[2 * l + 1]; //@
}""",
        (empty(2 * N, I), ints(2 * N)),
    ),
    Pair(
        "a tile of a cube with halos, an edge that nobody loads",
        UNWRITTEN,
        """
#define T 4
kernel void k(global float *out, global const float *in, int n) {
  local float t[T + 2][T + 2][T + 2];
  int x = get_local_id(0) + 1, y = get_local_id(1) + 1, z = get_local_id(2) + 1;
  int gx = get_global_id(0), gy = get_global_id(1), gz = get_global_id(2);
  #define AT(x, y, z) in[(clamp(z, 0, n - 1) * n + clamp(y, 0, n - 1)) * n + clamp(x, 0, n - 1)]
  t[z][y][x] = AT(gx, gy, gz);
  if (x == 1) t[z][y][0] = AT(gx - 1, gy, gz);
  if (x == T) t[z][y][T + 1] = AT(gx + 1, gy, gz);
  if (y == 1) t[z][0][x] = AT(gx, gy - 1, gz);
  if (y == T) t[z][T + 1][x] = AT(gx, gy + 1, gz);
  if (z == 1) t[0][y][x] = AT(gx, gy, gz - 1);
BUG  if (z == T - 1) t[T][y][x] = AT(gx, gy, gz + 1); //@
FIX  if (z == T) t[T + 1][y][x] = AT(gx, gy, gz + 1);
  barrier(CLK_LOCAL_MEM_FENCE);
  float sum = t[z][y][x - 1] + t[z][y][x + 1] + t[z][y - 1][x] + t[z][y + 1][x] + t[z - 1][y][x];
  sum += t[z + 1][y][x]; //@
  out[(gz * n + gy) * n + gx] = sum; //@
}""",
        (empty(512, F), floats(512), 8),
        (8, 8, 8),
        (4, 4, 4),
    ),
    Pair(
        "a sum of the group over a halving that is no power of two",
        "index",
        """
kernel void k(global int *out, global const int *in) {
  local int t[11];
  int l = get_local_id(0);
  t[l] = in[get_global_id(0)];
  for (int n = 11; n > 1; n = (n + 1) / 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    int h = (n + 1) / 2;
BUG    if (l < h) t[l] += t[l + h];
FIX    if (l < n - h) t[l] += t[l + h];
  }
  if (l == 0) out[get_group_id(0)] = t[0];
}""",
        (empty(5, I), ints(55)),
        55,
        11,
    ),
    Pair(
        "a table of constants, a step beyond its last one",
        "index",
        """
constant float weights[2][5] = {{1, 4, 6, 4, 1}, {1, 2, 4, 2, 1}};
kernel void k(global float *out, global const float *in, int n, int mode) {
  int i = get_global_id(0);
  float sum = 0;
BUG  for (int d = -2; d <= 3; d++) sum += weights[mode][d + 2] * in[clamp(i + d, 0, n - 1)];
FIX  for (int d = -2; d <= 2; d++) sum += weights[mode][d + 2] * in[clamp(i + d, 0, n - 1)];
  out[i] = sum;
}""",
        (empty(N, F), floats(), N, 1),
    ),
    Pair(
        "a list whose end is not asked for",
        OUT,
        """
typedef struct { int next, value; } Link;
kernel void k(global int *out, global const Link *links, int steps) {
  int at = get_global_id(0), sum = 0;
BUG  for (int n = 0; n < steps; n++) {
FIX  for (int n = 0; n < steps && at >= 0; n++) {
    Link link = links[at]; //@
    sum += link.value; //@
    at = link.next; //@
  }
  out[get_global_id(0)] = sum;
}""",
        (empty(N, I), np.stack([np.arange(-1, N - 1), np.arange(N)], 1).astype(np.int32), 5),
    ),
    Pair(
        "lists made by an exchange, the link written before it is owned",
        ITEMS,
        """
kernel void k(global int *heads, global int *next, global const int *keys) {
  int i = get_global_id(0), bucket = keys[i] & 3;
  int old = atomic_xchg(&heads[bucket], i);
BUG  next[bucket] = old;
FIX  next[i] = old;
}""",
        (np.full(4, -1, I), empty(N, I), ints()),
        N,
        N,
    ),
    Pair(
        "an image's neighbour beyond its edge",
        OUT,
        """
kernel void k(read_only image2d_t in, write_only image2d_t out) {
  const sampler_t s = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_NEAREST;
  int2 p = (int2)(get_global_id(0), get_global_id(1));
  float4 v = read_imagef(in, s, p) + read_imagef(in, s, p + (int2)(1, 0));
BUG  write_imagef(out, p + (int2)(1, 0), v);
FIX  write_imagef(out, p, v);
}""",
        (image(np.ones((8, 8, 4), F)), image(np.zeros((8, 8, 4), F))),
        (8, 8),
        (4, 4),
    ),
    Pair(
        "records whose halves of a word are two groups', and one that is not",
        GROUPS,
        """
typedef struct { char kind; int count; short low, high; } Record;
kernel void k(global Record *records) {
  int i = get_global_id(0);
  records[i].kind = 1;
  records[i].count = i;
  records[i].low = i; //@
BUG  records[(i + 16) % 64].low = i; //@
FIX  records[(i + 16) % 64].high = i;
}""",
        (empty(N, RECORD),),
    ),
    Pair(
        "work-items of one record pass a value without a barrier",
        ITEMS,
        """
typedef struct { float sum; int count; } Cell;
kernel void k(global Cell *cells, global const float *in) {
  int l = get_local_id(0), i = get_global_id(0);
  local Cell mine[16];
  mine[l].sum = in[i]; mine[l].count = 1; //@
FIX  barrier(CLK_LOCAL_MEM_FENCE);
  if ((l & 3) == 0) {
    Cell c = mine[l];
    for (int n = 1; n < 4; n++) { c.sum += mine[l + n].sum; c.count += mine[l + n].count; } //@
    cells[i / 4] = c; //@
  }
}""",
        (empty(N // 4, CELL), floats()),
    ),
]
