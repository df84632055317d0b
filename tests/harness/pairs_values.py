"""Private values that nobody wrote, numbers that leave their types, copies, alignment and orders, each with its twin."""

from __future__ import annotations

import numpy as np

from tests.harness.pairs_form import F, I, N, Pair, chars, empty, floats, ints, zeros

UNWRITTEN, CONVERSION, OVERFLOW, NON_FINITE = (
    "unwritten-value",
    "conversion-out-of-range",
    "signed-overflow",
    "non-finite",
)
MISALIGNED, COPY, ORDER = "misaligned", "copy-not-awaited", "order-dependent"

PRIVATE = [
    Pair(
        "a counter in global memory that nobody has set to zero",
        UNWRITTEN,
        """
kernel void k(global int *counts, global const int *in) {
  int g = get_group_id(0);
BUG
FIX  if (get_local_id(0) == 0) counts[g] = 0;
  barrier(CLK_GLOBAL_MEM_FENCE);
  if (in[get_global_id(0)] > 3) atomic_inc(&counts[g]); //@
}""",
        (empty(4, I), ints()),
    ),
    Pair(
        "a flag in local memory, set by an exchange too late",
        UNWRITTEN,
        """
kernel void k(global int *out, global const int *in) {
  local int found;
FIX  if (get_local_id(0) == 0) atomic_xchg(&found, 0);
  barrier(CLK_LOCAL_MEM_FENCE);
  if (in[get_global_id(0)] > 60) atomic_or(&found, 1); //@
  barrier(CLK_LOCAL_MEM_FENCE);
BUG  if (get_local_id(0) == 0) atomic_xchg(&found, 0);
FIX
  barrier(CLK_LOCAL_MEM_FENCE);
  out[get_global_id(0)] = found; //@
}""",
        (empty(N, I), ints()),
    ),
    Pair(
        "a tile's value kept in hand, used one too early",
        UNWRITTEN,
        """
kernel void k(global const float *in, global float *out, int n) {
  local float t[16];
  int l = get_local_id(0), i = get_global_id(0);
  if (l < n) t[l] = in[i];
  barrier(CLK_LOCAL_MEM_FENCE);
  float v = t[15 - l]; //@
  out[i] = 0;
BUG  if (l >= 15 - n) out[i] = 2 * v;
FIX  if (l > 15 - n) out[i] = 2 * v;
}""",
        (floats(), empty(N, F), 12),
    ),
    Pair(
        "a vector behind the end of what is filled, copied on and stored",
        UNWRITTEN,
        """
kernel void k(global const uchar *in, global uchar4 *made, global uchar4 *out, int n) {
  int i = get_global_id(0);
  if (i < n) made[i] = (uchar4)(in[i]);
  uchar4 v, w;
  v = made[i]; //@
  w = v;
BUG  if (i <= n) out[i] = w;
FIX  if (i < n) out[i] = w;
}""",
        (chars(), empty((N, 4), np.uint8), empty((N, 4), np.uint8), 40),
    ),
    Pair(
        "a variable without a value",
        UNWRITTEN,
        """
kernel void k(global int *out) {
BUG  int sum;
FIX  int sum = 0;
  for (int j = 0; j < 4; j++) sum += j; //@
  out[get_global_id(0)] = sum; //@
}""",
        (empty(N, I),),
    ),
    Pair(
        "a variable that one path does not write",
        UNWRITTEN,
        """
kernel void k(global int *out, global const int *in) {
  int i = get_global_id(0), v;
BUG  if (in[i] > 3) v = in[i];
FIX  if (in[i] > 0) v = in[i];
  out[i] = v + 1; //@
}""",
        (empty(N, I), ints()),
    ),
    Pair(
        "a variable that decides",
        UNWRITTEN,
        """
kernel void k(global int *out, global const int *in) {
  int i = get_global_id(0), found;
BUG  for (int j = 0; j < 3; j++) if (in[j] == i) found = 1;
FIX  found = 0; for (int j = 0; j < 3; j++) if (in[j] == i) found = 1;
  if (found) out[i] = 1; //@
  else out[i] = 2;
}""",
        (empty(N, I), ints()),
    ),
    Pair(
        "an index without a value",
        UNWRITTEN,
        """
kernel void k(global int *out, global const int *in) {
  int i = get_global_id(0), at;
  switch (in[i] & 3) {
    case 0: at = 1; break;
    case 1: case 2: at = 2; break;
FIX    default: at = 3;
  }
  out[i] = in[at & 7]; //@
}""",
        (empty(N, I), ints()),
    ),
    Pair(
        "the last element of a private array",
        UNWRITTEN,
        """
kernel void k(global int *out) {
  int t[4], i = get_global_id(0);
BUG  for (int j = 0; j < 3; j++) t[j] = j;
FIX  for (int j = 0; j < 4; j++) t[j] = j;
  out[i] = t[i & 3]; //@
}""",
        (empty(N, I),),
    ),
    Pair(
        "an array of arrays half filled",
        UNWRITTEN,
        """
kernel void k(global float *out) {
  float t[2][3];
  int i = get_global_id(0);
  for (int a = 0; a < 2; a++)
BUG    for (int b = 0; b < 2; b++) t[a][b] = a;
FIX    for (int b = 0; b < 3; b++) t[a][b] = a;
  out[i] = t[1][i % 3]; //@
}""",
        (empty(N, F),),
    ),
    Pair(
        "a component that is not set",
        UNWRITTEN,
        """
kernel void k(global int *out) {
  int4 v;
  v.x = 1;
  v.yz = (int2)(2, 3);
BUG  out[get_global_id(0)] = v.w;
FIX  out[get_global_id(0)] = v.z;
}""",
        (empty(N, I),),
    ),
    Pair(
        "a vector stored with a component missing",
        UNWRITTEN,
        """
kernel void k(global int4 *out) {
  int4 v;
  v.xy = (int2)(1, 2);
BUG  v.z = 3;
FIX  v.zw = (int2)(3, 4);
  out[get_global_id(0)] = v; //@
}""",
        (empty(N, I),),
        16,
        4,
    ),
    Pair(
        "a member that is not set",
        UNWRITTEN,
        """
typedef struct { int count; char tag; float mean; } stat;
kernel void k(global float *out) {
  stat s, t;
  s.count = 3;
FIX  s.mean = 1.5f;
  t = s;
  out[get_global_id(0)] = t.mean; //@
}""",
        (empty(N, F),),
    ),
    Pair(
        "a copy of a value that nobody wrote",
        UNWRITTEN,
        """
kernel void k(global int *out, global const int *in) {
  int before, now, sum = 0;
  for (int j = 0; j < 4; j++) {
    before = now;
    now = in[j];
BUG    sum += before;
FIX    if (j > 0) sum += before;
  }
  out[get_global_id(0)] = sum;
}""",
        (empty(N, I), ints()),
    ),
    Pair(
        "a counter in a function",
        UNWRITTEN,
        """
int count(global const int *in, int n) {
BUG  int c;
FIX  int c = 0;
  while (n > 0) {
    if (in[--n] > 2) c++; //@
  }
  return c; //@
}
kernel void k(global int *out, global const int *in) {
  out[get_global_id(0)] = count(in, 10);
}""",
        (empty(N, I), ints()),
    ),
]

LEAVING = [
    Pair(
        "a float beyond int",
        CONVERSION,
        """
kernel void k(global int *out, global const float *in) {
  int i = get_global_id(0);
BUG  out[i] = in[i] * 1e9f;
FIX  out[i] = in[i] * 1e7f;
}""",
        (empty(N, I), floats()),
    ),
    Pair(
        "a negative number as unsigned",
        CONVERSION,
        """
kernel void k(global uint *out, global const float *in) {
  int i = get_global_id(0);
BUG  out[i] = (uint)(in[i] - 5.0f);
FIX  out[i] = (uint)(in[i] - 0.5f);
}""",
        (empty(N, np.uint32), floats()),
    ),
    Pair(
        "a vector that is not saturated",
        CONVERSION,
        """
kernel void k(global uchar4 *out, global const float4 *in) {
  int i = get_global_id(0);
BUG  out[i] = convert_uchar4(in[i] * 5.0f);
FIX  out[i] = convert_uchar4_sat(in[i] * 5.0f);
}""",
        (empty(N, np.uint8), floats()),
        16,
        4,
    ),
    Pair(
        "no number as an index",
        CONVERSION,
        """
kernel void k(global int *out, global const float *in) {
  int i = get_global_id(0);
BUG  float x = sqrt(in[i] - 2.0f);
FIX  float x = sqrt(in[i] - 1.0f);
  out[i] = (int)x & 7; //@
}""",
        (empty(N, I), floats()),
    ),
    Pair(
        "a sum beyond int",
        OVERFLOW,
        """
kernel void k(global int *out, global const int *in) {
  int sum = 2147483000;
BUG  for (int j = 0; j < 64; j++) sum += in[j];
FIX  for (int j = 0; j < 16; j++) sum += in[j];
  out[get_global_id(0)] = sum;
}""",
        (empty(N, I), ints()),
        report=(OVERFLOW,),
    ),
    Pair(
        "a product beyond int",
        OVERFLOW,
        """
kernel void k(global long *out, global const int *in) {
  int i = get_global_id(0);
BUG  out[i] = in[i] * 100000000;
FIX  out[i] = in[i] * 100000000L;
}""",
        (empty(N, np.int64), ints()),
        report=(OVERFLOW,),
    ),
    Pair(
        "the negative of the least number",
        OVERFLOW,
        """
kernel void k(global int *out, global const int *in) {
  int i = get_global_id(0);
BUG  out[i] = -(in[i] - 2147483647 - 2);
FIX  out[i] = -(in[i] - 2147483647 - 1);
}""",
        (empty(N, I), ints()),
        report=(OVERFLOW,),
    ),
    Pair(
        "the root of a negative number",
        NON_FINITE,
        """
kernel void k(global float *out, global const float *in) {
  int i = get_global_id(0);
BUG  out[i] = sqrt(in[i] - 2.0f);
FIX  out[i] = sqrt(in[i] - 1.0f);
}""",
        (empty(N, F), floats()),
        report=(NON_FINITE,),
    ),
    Pair(
        "a float divided by zero",
        NON_FINITE,
        """
kernel void k(global float *out, global const float *in) {
  int i = get_global_id(0);
BUG  out[i] = 1.0f / (in[i] - 3.0f);
FIX  out[i] = 1.0f / (in[i] + 3.0f);
}""",
        (empty(N, F), floats()),
        report=(NON_FINITE,),
    ),
    Pair(
        "powers beyond float",
        NON_FINITE,
        """
kernel void k(global float *out, global const float *in) {
  int i = get_global_id(0);
  float x = 2.0f;
BUG  for (int j = 0; j < 8; j++) x *= x;
FIX  for (int j = 0; j < 6; j++) x *= x;
  out[i] = x * in[i];
}""",
        (empty(N, F), floats()),
        report=(NON_FINITE,),
    ),
    Pair(
        "one more than the most",
        OVERFLOW,
        """
kernel void k(global int *out, global const int *in) {
BUG  int n = in[get_global_id(0)];
FIX  uint n = in[get_global_id(0)];
  n++; //@
  out[get_global_id(0)] = n;
}""",
        (empty(N, I), np.full(N, 2**31 - 1, I)),
        report=(OVERFLOW,),
    ),
    Pair(
        "one less than the least",
        OVERFLOW,
        """
kernel void k(global long *out, global const long *in) {
  long n = in[get_global_id(0)];
BUG  for (int j = 0; j < 3; --n) j++;
FIX  for (int j = 0; j < 2; --n) j++;
  out[get_global_id(0)] = n;
}""",
        (empty(N, np.int64), np.full(N, -(2**63) + 2, np.int64)),
        report=(OVERFLOW,),
    ),
    Pair(
        "a product of vectors",
        OVERFLOW,
        """
kernel void k(global int *out, global const int *in) {
  int4 v = vload4(0, in);
BUG  v = v * (int4)(1, 2, 3, 1 << 30);
FIX  v = v * (int4)(1, 2, 3, 1 << 28);
  vstore4(v, get_global_id(0), out);
}""",
        (empty(4 * N, I), ints()),
        report=(OVERFLOW,),
    ),
    Pair(
        "a sum of vectors",
        OVERFLOW,
        """
kernel void k(global long *out, global const long *in) {
  long2 v = vload2(0, in);
BUG  v += (long2)(1, LONG_MAX - 1);
FIX  v += (long2)(1, LONG_MAX - 2);
  vstore2(v, get_global_id(0), out);
}""",
        (empty(2 * N, np.int64), np.arange(1, 9, dtype=np.int64)),
        report=(OVERFLOW,),
    ),
    Pair(
        "the least integer divided by -1",
        OVERFLOW,
        """
kernel void k(global int *out, global const int *in, int by) {
  int n = in[get_global_id(0)];
BUG  out[get_global_id(0)] = n / by;
FIX  out[get_global_id(0)] = n == INT_MIN ? n : n / by;
}""",
        (empty(N, I), np.full(N, -(2**31), I), -1),
        report=(OVERFLOW,),
    ),
    Pair(
        "the rest of a division of vectors by -1",
        OVERFLOW,
        """
kernel void k(global int *out, global const int *in, int by) {
  int2 n = vload2(0, in), d = (int2)(7, by);
BUG  vstore2(n % d, get_global_id(0), out);
FIX  vstore2(n % max(d, 1), get_global_id(0), out);
}""",
        (empty(2 * N, I), np.full(2, -(2**31), I), -1),
        report=(OVERFLOW,),
    ),
    Pair(
        "a quotient kept in its dividend",
        OVERFLOW,
        """
kernel void k(global long *out, global const long *in, long by) {
  long n = in[get_global_id(0)];
BUG  n /= by;
FIX  n /= by - 1;
  out[get_global_id(0)] = n;
}""",
        (empty(N, np.int64), np.full(N, -(2**63), np.int64), -1),
        report=(OVERFLOW,),
    ),
]

POINTERS = [
    Pair(
        "a vector at an odd place",
        MISALIGNED,
        """
kernel void k(global float *out, global const float *in) {
  int i = get_global_id(0);
BUG  float4 v = *(global const float4 *)(in + i);
FIX  float4 v = vload4(0, in + i);
  out[i] = v.x + v.w;
}""",
        (empty(60, F), floats()),
        60,
        4,
    ),
    Pair(
        "vectors behind a header",
        MISALIGNED,
        """
kernel void k(global float *out, global const float *in) {
  int i = get_global_id(0);
BUG  global const float4 *p = (global const float4 *)(in + 1);
FIX  global const float4 *p = (global const float4 *)(in + 4);
  out[i] = p[i].x; //@
}""",
        (empty(15, F), floats()),
        15,
        3,
    ),
    Pair(
        "a word out of bytes",
        MISALIGNED,
        """
kernel void k(global int *out, global const uchar *in) {
  int i = get_global_id(0);
BUG  out[i] = *(global const int *)(in + i);
FIX  out[i] = *(global const int *)(in + 4 * (i / 4));
}""",
        (empty(60, I), np.arange(64, dtype=np.uint8)),
        60,
        4,
    ),
    Pair(
        "a structure in local memory at an odd place",
        MISALIGNED,
        """
typedef struct { int a; int b; } two;
kernel void k(global int *out) {
  local char room[64];
  int l = get_local_id(0);
BUG  local two *t = (local two *)(room + 1);
FIX  local two *t = (local two *)(room + 4);
  if (l == 0) t->a = 3; //@
  out[get_global_id(0)] = l;
}""",
        (empty(N, I),),
    ),
]

COPIES = [
    Pair(
        "a barrier instead of a wait",
        COPY,
        """
kernel void k(global int *out, global const int *in) {
  local int t[16];
  int l = get_local_id(0);
  event_t done = async_work_group_copy(t, in, 16, 0); //@
BUG  barrier(CLK_LOCAL_MEM_FENCE);
FIX  wait_group_events(1, &done);
  out[get_global_id(0)] = t[l]; //@
}""",
        (empty(N, I), ints()),
    ),
    Pair(
        "read before the wait",
        COPY,
        """
kernel void k(global int *out, global const int *in) {
  local int t[16];
  int l = get_local_id(0), v = 0;
  event_t done = async_work_group_copy(t, in, 16, 0);
BUG  v = t[15 - l];
  wait_group_events(1, &done);
FIX  v = t[15 - l];
  out[get_global_id(0)] = v;
}""",
        (empty(N, I), ints()),
    ),
    Pair(
        "overwritten before the wait",
        COPY,
        """
kernel void k(global int *out, global const int *in) {
  local int t[16];
  int l = get_local_id(0);
  event_t done = async_work_group_strided_copy(t, in, 16, 2, 0);
BUG  t[l] = 0;
  wait_group_events(1, &done);
  out[get_global_id(0)] = t[l];
}""",
        (empty(N, I), ints()),
    ),
]

ORDERS = [
    Pair(
        "places handed out by a counter",
        ORDER,
        """
kernel void k(global int *out, global int *next) { //@
  int i = get_global_id(0);
BUG  out[atomic_inc(next)] = i;
FIX  out[i] = i; atomic_inc(next);
}""",
        (zeros(N, I), zeros(1, I)),
        report=(ORDER,),
    ),
    Pair(
        "the last one wins",
        ORDER,
        """
kernel void k(global int *out, global int *last) { //@
  int i = get_global_id(0);
  out[i] = i;
BUG  atomic_xchg(last, i);
FIX  atomic_max(last, i);
}""",
        (zeros(N, I), zeros(1, I)),
        report=(ORDER,),
    ),
    Pair(
        "the size of the group in the result",
        ORDER,
        """
kernel void k(global int *out) { //@
  int i = get_global_id(0);
BUG  out[i] = get_local_id(0) + 1000 * get_group_id(0);
FIX  out[i] = get_local_id(0) + get_local_size(0) * get_group_id(0);
}""",
        (zeros(N, I),),
        N,
        None,
        report=(ORDER,),
    ),
]
