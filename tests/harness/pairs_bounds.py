"""Mistakes with places: outside of a buffer, of an array, and through a null pointer."""

from __future__ import annotations

import numpy as np

from tests.harness.pairs_form import F, I, N, Pair, empty, floats, ints, local, zeros

OUT = "out-of-bounds"

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
        "vload behind the end, the pointer converted to the generic address space",
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
        "-cl-std=CL3.0",
    ),
    Pair(
        "vstore_half into local memory behind its end, converted to the generic address space",
        OUT,
        """
kernel void k(global float *out, local half *tile) {
  int l = get_local_id(0);
BUG  vstore_half2((float2)(l), l + 1, (tile));
FIX  vstore_half2((float2)(l), l, (tile));
  out[get_global_id(0)] = l;
}""",
        (empty(16, F), local(8, np.float16)),
        16,
        4,
        "-cl-std=CL2.0",
    ),
    Pair(
        "atomic behind the end, the pointer converted to the generic address space",
        OUT,
        """
kernel void k(global atomic_int *count, global const int *in) {
BUG  atomic_fetch_add_explicit(count + in[get_global_id(0)], 1, memory_order_relaxed);
FIX  atomic_fetch_add_explicit(count + in[get_global_id(0)] - 1, 1, memory_order_relaxed);
}""",
        (zeros(16), ints(16)),
        16,
        4,
        "-cl-std=CL2.0",
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
        "through parameters that are written as arrays",
        OUT,
        """
int first(int4 v[2]) { return v[0].x + v[1].y; }
int at(global const int from[64], global const int *other, int i, local int mine[], int4 v[2]) {
  mine[i % 16] = i;
BUG  from = other + 60;
BUG  return from[i] + first(v); //@
FIX  return from[min(i + 3, 63)] + first(v);
}
kernel void k(global int *out, global const int *in, global const int *short_one) {
  int i = get_global_id(0);
  local int m[16];
  int4 v[2];
  v[0] = i;
  v[1] = v[0] + 1;
  out[i] = at(in, short_one, i, m, v) + first(v);
}""",
        (empty(N, I), ints(), ints(100)),
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
