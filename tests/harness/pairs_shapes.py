"""Kernels of shapes that are rare: tables of pointers, structures and cubes in local memory, barriers deep in calls and switches."""

from __future__ import annotations

from tests.harness.pairs_form import F, I, N, Pair, empty, floats, ints, zeros

ITEMS = "race-between-items"

SHAPES = [
    Pair(
        "a structure in local memory, overwritten too early",
        ITEMS,
        """
typedef struct { float x[3]; int owner; } Cell;
kernel void k(global float *out, global const float *in) {
  local Cell cells[16];
  int l = get_local_id(0), i = get_global_id(0);
  local Cell *mine = &cells[l];
  for (int d = 0; d < 3; d++) mine->x[d] = in[i] * d;
  mine->owner = l;
  barrier(CLK_LOCAL_MEM_FENCE);
  Cell c = *mine; //@
FIX  barrier(CLK_LOCAL_MEM_FENCE);
  cells[15 - l] = c; //@
FIX  barrier(CLK_LOCAL_MEM_FENCE);
  out[i] = cells[l].x[1]; //@
}""",
        (empty(N, F), floats()),
    ),
    Pair(
        "beyond one of a table of arguments",
        "out-of-bounds",
        """
kernel void k(global int *a, global int *b, global int *c) {
  global int *table[3] = {a, b, c};
  int i = get_global_id(0);
BUG  for (int n = 0; n < 3; n++) table[n][i + n] = n;
FIX  for (int n = 0; n < 3; n++) table[n][i] = n;
}""",
        (zeros(N, I), zeros(N, I), zeros(N, I)),
    ),
    Pair(
        "groups meet through a table of arguments",
        "race-between-groups",
        """
kernel void k(global int *a, global int *b, global int *c) {
  global int *table[3];
  table[0] = a; table[1] = b; table[2] = c;
  int i = get_global_id(0);
BUG  table[i % 3][i / 30] = i;
FIX  table[i % 3][i / 3] = i;
}""",
        (zeros(N, I), zeros(N, I), zeros(N, I)),
    ),
    Pair(
        "a barrier short in a function of a function",
        ITEMS,
        """
int inner(local int *t, int l) {
  int v = t[(l + 1) % 16]; //@
FIX  barrier(CLK_LOCAL_MEM_FENCE);
  t[l] = v + 1; //@
  barrier(CLK_LOCAL_MEM_FENCE);
  return t[15 - l];
}
int outer(local int *t, int l, int times) {
  int sum = 0;
  for (int n = 0; n < times; n++) { sum += inner(t, l); barrier(CLK_LOCAL_MEM_FENCE); }
  return sum;
}
kernel void k(global int *out, int times) {
  local int t[16];
  int l = get_local_id(0);
  t[l] = l;
  barrier(CLK_LOCAL_MEM_FENCE);
  out[get_global_id(0)] = outer(t, l, times);
}""",
        (empty(N, I), 3),
    ),
    Pair(
        "a function of a function that some call more often",
        "divergent-barrier",
        """
int inner(local int *t, int l) {
  barrier(CLK_LOCAL_MEM_FENCE); //@
  return t[15 - l];
}
int outer(local int *t, int l, int times) {
  int sum = 0;
BUG  for (int n = 0; n < times + l / 8; n++) sum += inner(t, l);
FIX  for (int n = 0; n < times; n++) sum += inner(t, l);
  return sum;
}
kernel void k(global int *out, int times) {
  local int t[16];
  int l = get_local_id(0);
  t[l] = l;
  out[get_global_id(0)] = outer(t, l, times);
}""",
        (empty(N, I), 3),
    ),
    Pair(
        "the face of a cube that nobody fills",
        "unwritten-value",
        """
kernel void k(global int *out, global const int *in) {
  local int t[6][6][6];
  int x = get_local_id(0), y = get_local_id(1), z = get_local_id(2);
  int i = (get_global_id(2) * 8 + get_global_id(1)) * 8 + get_global_id(0);
  t[z + 1][y + 1][x + 1] = in[i];
FIX  if (x == 0) t[z + 1][y + 1][0] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  out[i] = t[z + 1][y + 1][x] + t[z + 1][y + 1][x + 1]; //@
}""",
        (empty(512, I), ints(512)),
        (8, 8, 8),
        (4, 4, 4),
    ),
    Pair(
        "a switch that falls into what needs a barrier",
        ITEMS,
        """
kernel void k(global int *out, global const int *in, int mode) {
  local int t[16];
  int l = get_local_id(0), i = get_global_id(0), v = 0;
  switch (mode) {
    case 2: t[l] = in[i]; //@
FIX      barrier(CLK_LOCAL_MEM_FENCE);
    case 1: v = t[15 - l]; //@
      barrier(CLK_LOCAL_MEM_FENCE);
    default: t[l] = v + 1;
  }
  out[i] = v;
}""",
        (empty(N, I), ints(), 2),
    ),
    Pair(
        "a switch that some fall through to a barrier",
        "divergent-barrier",
        """
kernel void k(global int *out, global const int *in, int mode) {
  local int t[16];
  int l = get_local_id(0), i = get_global_id(0), v = 0;
  t[l] = l;
BUG  switch (in[i] % 2 + mode) {
FIX  switch (in[3] % 2 + mode) {
    case 3: v = 1;
    case 2: barrier(CLK_LOCAL_MEM_FENCE); v += t[15 - l]; break; //@
    default: v = 7;
  }
  out[i] = v;
}""",
        (empty(N, I), ints(), 1),
    ),
]
