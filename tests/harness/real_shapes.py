"""Shapes of real programs that once were refused, missed or slow: pairs as in `pairs`, and kernels that have no mistake."""

from __future__ import annotations

import numpy as np

from tests.harness.pairs_form import F, I, Pair, floats, ints, zeros
from vdev.harness import empty, local

ITEMS, OUT = "race-between-items", "out-of-bounds"

PAIRS = [
    Pair(
        "an array is given to an atomic function",
        OUT,
        """
kernel void k(global int *out, global const int *in) {
  local int count[1];
  if (get_local_id(0) == 0) count[0] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  int rank = atomic_inc(count);
BUG  out[get_group_id(0) * get_local_size(0) + rank + 1] = in[get_global_id(0)];
FIX  out[get_group_id(0) * get_local_size(0) + rank] = in[get_global_id(0)];
}""",
        (empty(64, I), ints()),
        64,
        64,
    ),
    Pair(
        "a vector is loaded from an array",
        ITEMS,
        """
kernel void k(global int *out, global const int *in) {
  local int tile[64];
  int l = get_local_id(0);
  tile[l] = in[l]; //@
BUG  out[l] = vload4(l / 4, tile).x; //@
FIX  barrier(CLK_LOCAL_MEM_FENCE); out[l] = vload4(l / 4, tile).x;
}""",
        (empty(64, I), ints()),
        64,
        64,
    ),
    Pair(
        "volatile memory of a reduction that is used again",
        ITEMS,
        """
float total(float value, volatile local float *room) {
  int l = get_local_id(0);
FIX  barrier(CLK_LOCAL_MEM_FENCE);
BUG
  room[l] = value; //@
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int step = get_local_size(0) / 2; step > 0; step /= 2) {
    if (l < step) room[l] += room[l + step];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  return room[0]; //@
}
kernel void k(global float *out, global const float *in, volatile local float *room) {
  float first = total(in[get_global_id(0)], room);
  float second = total(in[get_global_id(0)] * first, room);
  if (get_local_id(0) == 0) out[get_group_id(0)] = first + second;
}""",
        (empty(4, F), floats(), local(16, F)),
    ),
    Pair(
        "volatile memory without a barrier, as if work-items ran in step",
        ITEMS,
        """
kernel void k(global float *out, global const float *in, volatile local float *room) {
  int l = get_local_id(0);
  room[l] = in[get_global_id(0)];
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int step = 8; step > 0; step /= 2) {
    if (l < step) room[l] += room[l + step]; //@
FIX    barrier(CLK_LOCAL_MEM_FENCE);
BUG
  }
  if (l == 0) out[get_group_id(0)] = room[0]; //@
}""",
        (empty(4, F), floats(), local(16, F)),
    ),
    Pair(
        "local memory whose shadow finds no room beside it",
        ITEMS,
        """
kernel void k(global int *out, global const uchar *in) {
  local uchar tile[16384];
  int l = get_local_id(0);
  for (int i = l; i < 16384; i += get_local_size(0)) tile[i] = in[i]; //@
FIX  barrier(CLK_LOCAL_MEM_FENCE);
BUG
  out[get_global_id(0)] = tile[16383 - l]; //@
}""",
        (empty(64, I), np.arange(16384, dtype=np.uint8)),
    ),
]

#: What correct programs do: (name, kernel `k`, arguments).
CORRECT = [
    (
        "vectors whose value is cast to their own type",
        """
kernel void k(global int *a, global const int *b, global int4 *c) {
  int i = get_global_id(0);
  int4 v, w = c[i];
  for (int j = 0; j < b[0]; j++) v = (int4)(j, 1, 2, 3);
  if (b[0] > 0) c[i] = (int4)v + (int4)w + (int4)(v = w);
  a[i] = (int)w.x;
}""",
        (empty(64, I), ints(), ints(256)),
    ),
    (
        "functions in indices, pointers and conditions",
        """
int f(const int i) { return i; }
int g(global const int *p, int i) { return p[i]; }
global int *h(global int *p, int i) { return p + i; }
kernel void k(global int *a, global const int *b, global int4 *c) {
  int i = get_global_id(0), l = get_local_id(0);
  local int t[16];
  t[f(l)] = g(b, i);
  a[f(i)] = b[g(b, i)] + t[f(l)];
  atomic_inc(&a[f(g(b, i))]);
  *h(a, f(i)) += 1;
  h(a, f(i))[0]++;
  vstore2((int2)(i), f(0), (global int *)&c[f(i)]);
  switch (f(g(b, 0) & 1)) {
    case 0: barrier(CLK_LOCAL_MEM_FENCE); break;
    default: break;
  }
  c[f(i)].s3 = g(b, f(i));
}""",
        (zeros(64), np.arange(64, dtype=I), empty((64, 4), I)),
    ),
    (
        "a sum of floats through compare and exchange, which looks through a volatile pointer first",
        """
void add(volatile local float *place, float value) {
  union { uint bits; float number; } old, next;
  do {
    old.number = *place;
    next.number = old.number + value;
  } while (atomic_cmpxchg((volatile local uint *)place, old.bits, next.bits) != old.bits);
}
kernel void k(global float *out, global const float *in) {
  local float sum;
  if (get_local_id(0) == 0) sum = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  add(&sum, in[get_global_id(0)]);
  barrier(CLK_LOCAL_MEM_FENCE);
  if (get_local_id(0) == 0) out[get_group_id(0)] = sum;
}""",
        (empty(4, F), floats()),
    ),
    (
        "loops that ask to be unrolled",
        """
kernel void k(global int *out, global const int *in) {
  int sum = 0;
  #pragma unroll
  for (int i = 0; i < 64; i++) {
    #pragma unroll 8
    for (int j = 0; j < 64; j++) sum += in[(i + j) & 63];
  }
  out[get_global_id(0)] = sum;
}""",
        (zeros(), ints()),
    ),
]
