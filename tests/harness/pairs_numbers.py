"""Values that nobody wrote, divisions, shifts and conversions."""

from __future__ import annotations

import numpy as np

from tests.harness.pairs_form import F, I, N, Pair, empty, ints, local

UNWRITTEN = "unwritten-value"

VALUES = [
    Pair(
        "a sum in a buffer without content",
        UNWRITTEN,
        """
kernel void k(global int *out, global const int *in) {
  int i = get_global_id(0);
BUG  out[i] += in[i];
FIX  out[i] = in[i];
}""",
        (empty(N, I), ints()),
    ),
    Pair(
        "half of a buffer is written",
        UNWRITTEN,
        """
kernel void k(global int *out, global int *t) {
  int i = get_global_id(0);
BUG  if (i % 2) t[i] = i;
FIX  t[i] = i;
  out[i] = t[i]; //@
}""",
        (empty(N, I), empty(N, I)),
    ),
    Pair(
        "a local array that is not cleared",
        UNWRITTEN,
        """
kernel void k(global int *out, global const int *in) {
  local int bins[16];
  int l = get_local_id(0);
FIX  bins[l] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  atomic_add(&bins[l / 2], in[get_global_id(0)]); //@
  barrier(CLK_LOCAL_MEM_FENCE);
  if (l % 2 == 0) out[get_global_id(0)] = bins[l / 2];
}""",
        (empty(N, I), ints()),
    ),
    Pair(
        "a halo that nobody loads",
        UNWRITTEN,
        """
kernel void k(global int *out, global const int *in) {
  local int t[17];
  int l = get_local_id(0);
  t[l] = in[get_global_id(0)];
FIX  if (l == 15) t[16] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  out[get_global_id(0)] = t[l + 1]; //@
}""",
        (empty(N, I), ints()),
    ),
    Pair(
        "one component is not written",
        UNWRITTEN,
        """
kernel void k(global float4 *t, global float *out) {
  int i = get_global_id(0);
  t[i].x = 1; t[i].y = 2;
BUG  out[i] = t[i].z;
FIX  out[i] = t[i].y;
}""",
        (empty(64, F), empty(16, F)),
        16,
        4,
    ),
    Pair(
        "a local argument without content",
        UNWRITTEN,
        """
kernel void k(global int *out, local int *t) {
FIX  t[get_local_id(0)] = 1;
  out[get_global_id(0)] = t[get_local_id(0)]; //@
}""",
        (empty(N, I), local(16, I)),
    ),
]

NUMBERS = [
    Pair(
        "a quotient by zero",
        "division-by-zero",
        """
kernel void k(global int *out, global const int *in) {
  int i = get_global_id(0);
BUG  out[i] = in[i] / (i - 5);
FIX  out[i] = i == 5 ? 0 : in[i] / (i - 5);
}""",
        (empty(N, I), ints()),
    ),
    Pair(
        "a remainder by zero",
        "division-by-zero",
        """
kernel void k(global uint *out, uint n) {
  uint i = get_global_id(0);
BUG  out[i] = i % n;
FIX  out[i] = n ? i % n : i;
}""",
        (empty(N, np.uint32), 0),
    ),
    Pair(
        "divided in place",
        "division-by-zero",
        """
kernel void k(global int *out, global const int *in) {
  int i = get_global_id(0), v = 100;
BUG  v /= in[i];
FIX  if (in[i]) v /= in[i];
  out[i] = v;
}""",
        (empty(N, I), ints(N, 0)),
    ),
    Pair(
        "a vector by one with a zero",
        "division-by-zero",
        """
kernel void k(global int4 *out, int n) {
  int i = get_global_id(0);
BUG  out[i] = (int4)(8) / (int4)(1, 2, n, 4);
FIX  out[i] = (int4)(8) / (int4)(1, 2, n + 1, 4);
}""",
        (empty(64, I), 0),
        16,
        4,
    ),
    Pair(
        "64 bits by zero",
        "division-by-zero",
        """
kernel void k(global long *out, long n) {
  long i = get_global_id(0);
BUG  out[i] = i / n;
FIX  out[i] = i / (n + 1);
}""",
        (empty(N, np.int64), 0),
    ),
    Pair(
        "shifted by the width",
        "shift-too-wide",
        """
kernel void k(global int *out, int n) {
  int i = get_global_id(0);
BUG  out[i] = i << n;
FIX  out[i] = i << (n - 1);
}""",
        (empty(N, I), 32),
    ),
    Pair(
        "a mask of 64 bits in 32",
        "shift-too-wide",
        """
kernel void k(global ulong *out) {
  int i = get_global_id(0);
BUG  out[i] = 1 << i;
FIX  out[i] = 1UL << i;
}""",
        (empty(N, np.uint64),),
    ),
    Pair(
        "shifted by less than nothing",
        "shift-too-wide",
        """
kernel void k(global int *out) {
  int i = get_global_id(0);
BUG  out[i] = 1024 >> (i % 8 - 1);
FIX  out[i] = 1024 >> (i % 8);
}""",
        (empty(N, I),),
    ),
    Pair(
        "shifted in place",
        "shift-too-wide",
        """
kernel void k(global uint *out, uint n) {
  uint v = get_global_id(0);
BUG  v >>= n;
FIX  v >>= n & 31;
  out[get_global_id(0)] = v;
}""",
        (empty(N, np.uint32), 40),
    ),
]
