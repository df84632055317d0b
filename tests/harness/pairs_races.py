"""Races: of work-groups, and of work-items of one group."""

from __future__ import annotations

import numpy as np

from tests.harness.pairs_form import F, I, N, Pair, empty, floats, ints, local, zeros

RACE, ITEMS = "race-between-groups", "race-between-items"

GROUPS = [
    Pair(
        "all groups write one element",
        RACE,
        """
kernel void k(global int *out) {
BUG  out[0] = get_group_id(0);
FIX  if (get_local_id(0) == 0) out[get_group_id(0)] = get_group_id(0);
}""",
        (empty(4, I),),
        N,
        16,
    ),
    Pair(
        "a sum without atomics",
        RACE,
        """
kernel void k(global int *sum, global const int *in) {
BUG  sum[0] += in[get_global_id(0)];
FIX  atomic_add(&sum[0], in[get_global_id(0)]);
}""",
        (zeros(1), ints()),
    ),
    Pair(
        "a histogram without atomics",
        RACE,
        """
kernel void k(global int *bins, global const int *in) {
BUG  bins[in[get_global_id(0)] & 7]++;
FIX  atomic_inc(&bins[in[get_global_id(0)] & 7]);
}""",
        (zeros(8), ints()),
    ),
    Pair(
        "a stencil in place",
        RACE,
        """
kernel void k(global float *out, global float *in) {
  int i = get_global_id(0);
  if (i == 63) return;
BUG  in[i] = in[i + 1] * 2;
FIX  out[i] = in[i + 1] * 2;
}""",
        (zeros(N, F), floats()),
    ),
    Pair(
        "neighbouring groups overlap",
        RACE,
        """
kernel void k(global int *out) {
  int i = get_global_id(0);
BUG  out[i / 3] = i;
FIX  out[i] = i;
}""",
        (empty(N, I),),
    ),
    Pair(
        "a result is read that another group writes",
        RACE,
        """
kernel void k(global int *out, global int *parts) {
  int g = get_group_id(0);
  if (get_local_id(0)) return;
  parts[g] = g + 1; //@
BUG  out[g] = parts[(g + 1) % 4]; //@
FIX  out[g] = parts[g];
}""",
        (empty(4, I), zeros(4)),
    ),
    Pair(
        "a barrier does not reach other groups",
        RACE,
        """
kernel void k(global int *data, global int *out) {
  int i = get_global_id(0);
  data[i] = i; //@
  barrier(CLK_GLOBAL_MEM_FENCE);
BUG  out[i] = data[63 - i]; //@
FIX  out[i] = data[i / 16 * 16 + 15 - i % 16];
}""",
        (zeros(), empty(N, I)),
    ),
    Pair(
        "a counter is read while it counts",
        RACE,
        """
kernel void k(global int *count, global int *out) {
  int i = get_global_id(0);
BUG  atomic_inc(count); out[i] = count[0];
FIX  out[i] = atomic_inc(count);
}""",
        (zeros(1), empty(N, I)),
    ),
    Pair(
        "one group clears what others add to",
        RACE,
        """
kernel void k(global int *sum, global const int *in) {
  int i = get_global_id(0);
BUG  if (i == 0) sum[0] = 3;
  atomic_add(sum, in[i]); //@
}""".replace("BUG  if (i == 0) sum[0] = 3;", "BUG  if (i == 0) sum[0] = 3; //@"),
        (zeros(1), ints()),
    ),
    Pair(
        "bytes of one word by two groups are no race, one byte is",
        RACE,
        """
kernel void k(global uchar *out) {
  int i = get_global_id(0);
BUG  out[i / 2] = i;
FIX  out[i] = i;
}""",
        (empty(N, np.uint8),),
        N,
        1,
    ),
    Pair(
        "a transposition in place",
        RACE,
        """
kernel void k(global int *out, global int *a) {
  int x = get_global_id(0), y = get_global_id(1);
  int v = a[x * 8 + y]; //@
BUG  a[y * 8 + x] = v; //@
FIX  out[y * 8 + x] = v;
}""",
        (zeros(64), ints(64)),
        (8, 8),
        (4, 4),
    ),
    Pair(
        "components of one vector",
        RACE,
        """
kernel void k(global float4 *out) {
  int i = get_global_id(0);
BUG  out[i / 4].x = i;
FIX  if (i % 4 == 0) out[i / 4].x = i; else if (i % 4 == 1) out[i / 4].y = i;
}""",
        (zeros(64, F),),
        16,
        1,
    ),
]

WITHIN = [
    Pair(
        "no barrier behind a load of a tile",
        ITEMS,
        """
kernel void k(global int *out, global const int *in) {
  local int t[16];
  int l = get_local_id(0);
  t[l] = in[get_global_id(0)]; //@
FIX  barrier(CLK_LOCAL_MEM_FENCE);
  out[get_global_id(0)] = t[15 - l]; //@
}""",
        (empty(N, I), ints()),
    ),
    Pair(
        "no barrier in a reduction",
        ITEMS,
        """
kernel void k(global int *out, global const int *in) {
  local int t[16];
  int l = get_local_id(0);
  t[l] = in[get_global_id(0)];
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int s = 8; s > 0; s /= 2) {
    if (l < s) t[l] += t[l + s]; //@
FIX    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (l == 0) out[get_group_id(0)] = t[0]; //@
}""",
        (empty(4, I), ints()),
    ),
    Pair(
        "no barrier before the next tile",
        ITEMS,
        """
kernel void k(global int *out, global const int *in) {
  local int t[16];
  int l = get_local_id(0), sum = 0;
  for (int j = 0; j < 4; j++) {
    t[l] = in[16 * j + l]; //@
    barrier(CLK_LOCAL_MEM_FENCE);
    sum += t[15 - l]; //@
FIX    barrier(CLK_LOCAL_MEM_FENCE);
  }
  out[get_global_id(0)] = sum;
}""",
        (empty(N, I), ints()),
    ),
    Pair(
        "a shared counter without atomics",
        ITEMS,
        """
kernel void k(global int *out) {
  local int n;
  if (get_local_id(0) == 0) n = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
BUG  n++;
FIX  atomic_inc(&n);
  barrier(CLK_LOCAL_MEM_FENCE);
  out[get_global_id(0)] = n;
}""",
        (empty(N, I),),
    ),
    Pair(
        "a flag of different values",
        ITEMS,
        """
kernel void k(global int *out) {
  local int last;
BUG  last = get_local_id(0);
FIX  if (get_local_id(0) == 15) last = get_local_id(0);
  barrier(CLK_LOCAL_MEM_FENCE);
  out[get_global_id(0)] = last;
}""",
        (empty(N, I),),
    ),
    Pair(
        "a shared value read at once",
        ITEMS,
        """
kernel void k(global int *out) {
  local int first;
  if (get_local_id(0) == 0) first = 7; //@
FIX  barrier(CLK_LOCAL_MEM_FENCE);
  out[get_global_id(0)] = first; //@
}""",
        (empty(N, I),),
    ),
    Pair(
        "a prefix sum in place",
        ITEMS,
        """
kernel void k(global int *out, global const int *in, local int *t) {
  int l = get_local_id(0);
  t[l] = in[get_global_id(0)];
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int s = 1; s < 16; s *= 2) {
    int v = l >= s ? t[l - s] : 0; //@
FIX    barrier(CLK_LOCAL_MEM_FENCE);
    t[l] += v; //@
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  out[get_global_id(0)] = t[l];
}""",
        (empty(N, I), ints(), local(16, I)),
    ),
    Pair(
        "a barrier with the fence of global memory",
        ITEMS,
        """
kernel void k(global int *out, global const int *in) {
  local int t[16];
  int l = get_local_id(0);
  t[l] = in[get_global_id(0)]; //@
BUG  barrier(CLK_GLOBAL_MEM_FENCE);
FIX  barrier(CLK_LOCAL_MEM_FENCE);
  out[get_global_id(0)] = t[15 - l]; //@
}""",
        (empty(N, I), ints()),
    ),
    Pair(
        "in a function with a pointer to local memory",
        ITEMS,
        """
int across(local int *t, int l) { return t[15 - l]; } //@
kernel void k(global int *out, global const int *in) {
  local int t[16];
  t[get_local_id(0)] = in[get_global_id(0)]; //@
FIX  barrier(CLK_LOCAL_MEM_FENCE);
  out[get_global_id(0)] = across(t, get_local_id(0));
}""",
        (empty(N, I), ints()),
    ),
]
