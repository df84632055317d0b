"""The table of planted mistakes: what `pairs_form` says, by kinds."""

from __future__ import annotations

import numpy as np

from tests.harness.pairs_barriers import BARRIERS
from tests.harness.pairs_form import F, I, N, Pair, empty, floats, ints, local, zeros
from tests.harness.pairs_groups import AMONG, FILLED
from tests.harness.pairs_members import GIVEN, MEMBERS
from tests.harness.pairs_shapes import SHAPES
from tests.harness.pairs_users import USERS
from tests.harness.pairs_values import COPIES, LEAVING, ORDERS, POINTERS, PRIVATE

OUT, RACE, ITEMS, UNWRITTEN = "out-of-bounds", "race-between-groups", "race-between-items", "unwritten-value"

OUTSIDE = [
    Pair(
        "read one behind the end",
        OUT,
        """
kernel void k(global int *out, global const int *in) {
  int i = get_global_id(0);
BUG  out[i] = in[i + 1];
FIX  out[i] = in[min(i + 1, 63)];
}""",
        (empty(N, I), ints()),
    ),
    Pair(
        "write one behind the end",
        OUT,
        """
kernel void k(global int *out, global const int *in) {
  int i = get_global_id(0);
  int v = in[i];
BUG  out[i + 1] = v;
FIX  out[i] = v;
}""",
        (empty(N, I), ints()),
    ),
    Pair(
        "read before the start",
        OUT,
        """
kernel void k(global int *out, global const int *in) {
  int i = get_global_id(0);
BUG  out[i] = in[i - 1];
FIX  out[i] = in[max(i - 1, 0)];
}""",
        (empty(N, I), ints()),
    ),
    Pair(
        "an unsigned index wraps",
        OUT,
        """
kernel void k(global int *out, global const int *in) {
  size_t i = get_global_id(0);
BUG  out[i] = in[i - 1 < 64 ? i : i - 2];
FIX  out[i] = in[i < 1 ? 0 : i - 1];
}""",
        (empty(N, I), ints()),
    ),
    Pair(
        "no guard in a rounded-up launch",
        OUT,
        """
kernel void k(global float *out, int n) {
  int i = get_global_id(0);
BUG  out[i] = 1;
FIX  if (i < n) out[i] = 1;
}""",
        (empty(50, F), 50),
    ),
    Pair(
        "a guard with <=",
        OUT,
        """
kernel void k(global float *out, int n) {
  int i = get_global_id(0);
BUG  if (i <= n) out[i] = 1;
FIX  if (i < n) out[i] = 1;
}""",
        (empty(50, F), 50),
    ),
    Pair(
        "rows and columns exchanged",
        OUT,
        """
kernel void k(global float *out, int width, int height) {
  int x = get_global_id(0), y = get_global_id(1);
BUG  out[x * height * 2 + y] = 1;
FIX  out[y * width + x] = 1;
}""",
        (empty(128, F), 16, 8),
        (16, 8),
        (4, 4),
    ),
    Pair(
        "a stencil without borders",
        OUT,
        """
kernel void k(global float *out, global const float *in) {
  int i = get_global_id(0);
FIX  if (i == 0 || i == 63) return;
  out[i] = in[i - 1] + in[i] + in[i + 1]; //@
}""",
        (zeros(N, F), floats()),
    ),
    Pair(
        "a loop one too far",
        OUT,
        """
kernel void k(global int *out, global const int *in, int n) {
  int sum = 0;
BUG  for (int j = 0; j <= n; j++) sum += in[j];
FIX  for (int j = 0; j < n; j++) sum += in[j];
  out[get_global_id(0)] = sum;
}""",
        (empty(N, I), ints(), 64),
    ),
    Pair(
        "grid stride with the wrong end",
        OUT,
        """
kernel void k(global int *out, int n) {
BUG  for (int j = get_global_id(0); j < n + 8; j += get_global_size(0)) out[j] = j;
FIX  for (int j = get_global_id(0); j < n; j += get_global_size(0)) out[j] = j;
}""",
        (empty(200, I), 200),
    ),
    Pair(
        "far beyond, into another buffer's memory",
        OUT,
        """
kernel void k(global int *out, global const int *in) {
  int i = get_global_id(0);
BUG  out[i] = in[i * 4096];
FIX  out[i] = in[i];
}""",
        (empty(N, I), ints()),
    ),
    Pair(
        "a structure read half behind the end",
        OUT,
        """
typedef struct { float x, y, z, w; } four;
kernel void k(global float *out, global const float *in) {
  int i = get_global_id(0);
BUG  four v = *(global const four *)(in + 4 * i + 2);
FIX  four v = *(global const four *)(in + 4 * i);
  out[i] = v.x + v.w;
}""",
        (empty(16, F), floats(64)),
        16,
        4,
    ),
    Pair(
        "vload behind the end",
        OUT,
        """
kernel void k(global float *out, global const float *in) {
  int i = get_global_id(0);
BUG  float4 v = vload4(i + 1, in);
FIX  float4 v = vload4(i, in);
  out[i] = v.x;
}""",
        (empty(16, F), floats(64)),
        16,
        4,
    ),
    Pair(
        "vstore behind the end",
        OUT,
        """
kernel void k(global float *out) {
  int i = get_global_id(0);
BUG  vstore3((float3)(1, 2, 3), i, out + 1);
FIX  vstore3((float3)(1, 2, 3), i, out);
}""",
        (empty(48, F),),
        16,
        4,
    ),
    Pair(
        "a component of a vector outside",
        OUT,
        """
kernel void k(global float4 *out) {
  int i = get_global_id(0);
BUG  out[i + 1].y = 3;
FIX  out[i].y = 3;
}""",
        (zeros(64, F),),
        16,
        4,
    ),
    Pair(
        "a member of a structure outside",
        OUT,
        """
typedef struct { int a; float b; } pair_t;
kernel void k(global pair_t *out) {
  int i = get_global_id(0);
BUG  out[i + 1].b = 3;
FIX  out[i].b = 3;
}""",
        (np.zeros(N, np.dtype([("a", I), ("b", F)])),),
    ),
    Pair(
        "through an arrow",
        OUT,
        """
typedef struct { int a; float b; } pair_t;
kernel void k(global pair_t *out) {
BUG  global pair_t *p = out + get_global_id(0) + 1;
FIX  global pair_t *p = out + get_global_id(0);
  p->a = 3; //@
}""",
        (np.zeros(N, np.dtype([("a", I), ("b", F)])),),
    ),
    Pair(
        "in a function",
        OUT,
        """
int third(global const int *p, int i) {
BUG  return p[i + 3];
FIX  return p[i];
}
kernel void k(global int *out, global const int *in) {
  int i = get_global_id(0);
  out[i] = third(in, i);
}""",
        (empty(N, I), ints()),
    ),
    Pair(
        "through two functions",
        OUT,
        """
void put(global int *p, int i, int v) {
  p[i] = v; //@
}
void twice(global int *p, int i) { put(p, i, 2 * i); }
kernel void k(global int *out) {
BUG  twice(out, 2 * get_global_id(0));
FIX  twice(out, get_global_id(0));
}""",
        (empty(N, I),),
    ),
    Pair(
        "a pointer that goes on",
        OUT,
        """
kernel void k(global int *out, global const int *in) {
  global const int *p = in + get_global_id(0);
  int sum = 0;
BUG  for (int j = 0; j < 8; j++) sum += *p++;
FIX  for (int j = 0; j < 8 && p < in + 64; j++) sum += *p++;
  out[get_global_id(0)] = sum;
}""",
        (empty(N, I), ints()),
    ),
    Pair(
        "a parameter that is moved",
        OUT,
        """
kernel void k(global int *out) {
BUG  out += get_global_id(0) + 1;
FIX  out += get_global_id(0);
  *out = 1; //@
}""",
        (empty(N, I),),
    ),
    Pair(
        "bytes for elements",
        OUT,
        """
kernel void k(global int *out) {
  int i = get_global_id(0);
BUG  out[i * sizeof(int)] = i;
FIX  out[i] = i;
}""",
        (empty(N, I),),
    ),
    Pair(
        "a cast to a wider type",
        OUT,
        """
kernel void k(global uchar *out) {
  int i = get_global_id(0);
BUG  ((global int *)out)[i] = i;
FIX  out[i] = i;
}""",
        (empty(N, np.uint8),),
    ),
    Pair(
        "an index from memory",
        OUT,
        """
kernel void k(global int *out, global const int *index) {
  int i = get_global_id(0);
BUG  out[index[i]] = i;
FIX  out[index[i] - 1] = i;
}""",
        (empty(N, I), ints()),
    ),
    Pair(
        "a bin too far",
        OUT,
        """
kernel void k(global int *bins, global const int *in) {
  int i = get_global_id(0);
BUG  atomic_inc(&bins[in[i] / 4]);
FIX  atomic_inc(&bins[(in[i] - 1) / 4]);
}""",
        (zeros(16), ints()),
    ),
    Pair(
        "constant memory",
        OUT,
        """
kernel void k(global float *out, constant float *weights) {
  int i = get_global_id(0);
BUG  out[i] = weights[i % 9];
FIX  out[i] = weights[i % 8];
}""",
        (empty(N, F), floats(8)),
    ),
    Pair(
        "a local argument",
        OUT,
        """
kernel void k(global int *out, local int *t) {
  int l = get_local_id(0);
BUG  t[l + 1] = l;
BUG  out[get_global_id(0)] = t[l + 1]; //
FIX  t[l] = l;
FIX  out[get_global_id(0)] = t[l]; //
}""".replace(
            "BUG  out[get_global_id(0)] = t[l + 1]; //\nFIX  t[l] = l;\n",
            "FIX  t[l] = l;\nBUG  out[get_global_id(0)] = t[l + 1]; //\n",
        ),
        (empty(N, I), local(16, I)),
    ),
    Pair(
        "a pointer into local memory",
        OUT,
        """
kernel void k(global int *out) {
  local int t[16];
  local int *p = t + get_local_id(0);
BUG  p[1] = 5;
FIX  p[0] = 5;
  out[get_global_id(0)] = 1;
}""",
        (empty(N, I),),
    ),
    Pair(
        "an asynchronous copy",
        OUT,
        """
kernel void k(global int *out, global const int *in) {
  local int t[16];
BUG  event_t e = async_work_group_copy(t, in + 16 * get_group_id(0) + 8, 16, 0);
FIX  event_t e = async_work_group_copy(t, in + 16 * get_group_id(0), 16, 0);
  wait_group_events(1, &e);
  out[get_global_id(0)] = t[get_local_id(0)];
}""",
        (zeros(), ints()),
    ),
    Pair(
        "a second result",
        OUT,
        """
kernel void k(global float *out, global float *whole) {
  int i = get_global_id(0);
BUG  out[i] = fract(out[i], whole + i + 1);
FIX  out[i] = fract(out[i], whole + i);
}""",
        (floats(), empty(N, F)),
    ),
    Pair(
        "behind a macro",
        OUT,
        """
#define AT(p, i) ((p)[(i) + SHIFT])
#ifdef FAULT
#endif
kernel void k(global int *out) {
  int i = get_global_id(0);
BUG  AT(out, i) = 3;
FIX  AT(out, i - SHIFT) = 3;
}""",
        (empty(N, I),),
        options="-DSHIFT=2",
    ),
    Pair(
        "with an offset in a conditional",
        OUT,
        """
kernel void k(global int *out, global const int *in, int up) {
  int i = get_global_id(0);
BUG  global const int *p = up ? in + 1 : in;
FIX  global const int *p = up ? in : in;
  out[i] = p[i]; //@
}""",
        (empty(N, I), ints(), 1),
    ),
    Pair(
        "a buffer that is too small for 64 bits",
        OUT,
        """
kernel void k(global long *out, global const long *in, int n) {
  long i = get_global_id(0);
BUG  out[i] = in[n - i];
FIX  out[i] = in[n - 1 - i];
}""",
        (empty(N, np.int64), np.arange(N, dtype=np.int64), N),
    ),
]

INDEX = [
    Pair(
        "a private array",
        "index",
        """
kernel void k(global int *out) {
  int i = get_global_id(0), a[4] = {1, 2, 3, 4};
BUG  out[i] = a[i % 5];
FIX  out[i] = a[i % 4];
}""",
        (empty(N, I),),
    ),
    Pair(
        "writing a private array",
        "index",
        """
kernel void k(global int *out, int n) {
  int a[8];
BUG  for (int j = 0; j <= n; j++) a[j] = j;
FIX  for (int j = 0; j < n; j++) a[j] = j;
  out[get_global_id(0)] = a[3];
}""",
        (empty(N, I), 8),
    ),
    Pair(
        "a table of the program",
        "index",
        """
constant int table[4] = {1, 2, 3, 4};
kernel void k(global int *out) {
  int i = get_global_id(0);
BUG  out[i] = table[i & 7];
FIX  out[i] = table[i & 3];
}""",
        (empty(N, I),),
    ),
    Pair(
        "an array within a structure",
        "index",
        """
typedef struct { int a[3]; int b; } record_t;
kernel void k(global record_t *out, int n) {
  int i = get_global_id(0);
BUG  for (int j = 0; j <= n; j++) out[i].a[j] = j;
FIX  for (int j = 0; j < n; j++) out[i].a[j] = j;
}""",
        (np.zeros(N, np.dtype([("a", I, 3), ("b", I)])), 3),
    ),
    Pair(
        "a row of a local array",
        "index",
        """
kernel void k(global int *out) {
  local int t[4][4];
  int l = get_local_id(0);
BUG  t[l / 4][l % 4 + 1] = l;
FIX  t[l / 4][l % 4] = l;
  out[get_global_id(0)] = l;
}""",
        (empty(N, I),),
    ),
    Pair(
        "the rows of a local array",
        "index",
        """
kernel void k(global int *out) {
  local int t[4][4];
  int l = get_local_id(0);
BUG  t[l / 2][l % 4] = l;
FIX  t[l / 4][l % 4] = l;
  out[get_global_id(0)] = l;
}""",
        (empty(N, I),),
    ),
    Pair(
        "a negative index",
        "index",
        """
kernel void k(global int *out) {
  int i = get_global_id(0), a[4] = {1, 2, 3, 4};
BUG  out[i] = a[2 - i % 4];
FIX  out[i] = a[3 - i % 4];
}""",
        (empty(N, I),),
    ),
    Pair(
        "an array of arrays in private memory",
        "index",
        """
kernel void k(global float *out) {
  int i = get_global_id(0);
  float m[3][3] = {{0}};
BUG  m[i % 3][(i + 1) % 4] = 1;
FIX  m[i % 3][(i + 1) % 3] = 1;
  out[i] = m[0][0];
}""",
        (empty(N, F),),
    ),
]

NULL = [
    Pair(
        "a null argument is written",
        "null-pointer",
        """
kernel void k(global int *out, global int *more) {
  int i = get_global_id(0);
  out[i] = i;
BUG  more[i] = i;
FIX  if (more) more[i] = i;
}""",
        (empty(N, I), None),
    ),
    Pair(
        "a null argument is read",
        "null-pointer",
        """
kernel void k(global int *out, global const int *in) {
  int i = get_global_id(0);
BUG  out[i] = in[i];
FIX  out[i] = in ? in[i] : 0;
}""",
        (empty(N, I), None),
    ),
    Pair(
        "a null argument in a function",
        "null-pointer",
        """
int get(global const int *p, int i) {
BUG  return p[i];
FIX  return p == 0 ? 0 : p[i];
}
kernel void k(global int *out, global const int *in) {
  int i = get_global_id(0);
  out[i] = get(in, i);
}""",
        (empty(N, I), None),
    ),
    Pair(
        "null constant memory",
        "null-pointer",
        """
kernel void k(global float *out, constant float *weights) {
  int i = get_global_id(0);
BUG  out[i] = weights[0];
FIX  out[i] = weights != 0 ? weights[0] : 0;
}""",
        (empty(N, F), None),
    ),
]

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

PAIRS = [
    *OUTSIDE,
    *INDEX,
    *NULL,
    *GROUPS,
    *WITHIN,
    *AMONG,
    *FILLED,
    *SHAPES,
    *MEMBERS,
    *GIVEN,
    *VALUES,
    *NUMBERS,
    *BARRIERS,
    *PRIVATE,
    *LEAVING,
    *POINTERS,
    *COPIES,
    *ORDERS,
    *USERS,
]
