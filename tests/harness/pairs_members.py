"""Structures copied whole out of memory in which nobody has written a member; padding is wanted by nobody."""

from __future__ import annotations

import numpy as np

from tests.harness.pairs_form import I, N, Pair, empty, ints

UNWRITTEN = "unwritten-value"
#: Three bytes of padding behind `tag`, and four at the end.
CELL = "typedef struct { char tag; int count; long sum; int2 pair; int last; } cell;"
TYPE = np.dtype(
    {
        "names": ["tag", "count", "sum", "pair", "last"],
        "formats": ["i1", "i4", "i8", ("i4", 2), "i4"],
        "offsets": [0, 4, 8, 16, 24],
        "itemsize": 32,
    }
)

MEMBERS = [
    Pair(
        "a member of a cell in local memory, stored whole",
        UNWRITTEN,
        f"""
{CELL}
kernel void k(global cell *out) {{
  local cell t[16];
  int i = get_global_id(0), l = get_local_id(0);
  t[l].tag = 1; t[l].count = i; t[l].sum = i; t[l].pair = i;
FIX  t[l].last = i;
  barrier(CLK_LOCAL_MEM_FENCE);
  out[i] = t[15 - l]; //@
}}""",
        (empty(N, TYPE),),
    ),
    Pair(
        "a component of a member, stored whole",
        UNWRITTEN,
        f"""
{CELL}
kernel void k(global cell *out) {{
  local cell t[16];
  int i = get_global_id(0), l = get_local_id(0);
  t[l].tag = 1; t[l].count = i; t[l].sum = i; t[l].pair.x = i; t[l].last = i;
FIX  t[l].pair.y = i;
  barrier(CLK_LOCAL_MEM_FENCE);
  out[i] = t[15 - l]; //@
}}""",
        (empty(N, TYPE),),
    ),
    Pair(
        "a member of a copy out of local memory, used",
        UNWRITTEN,
        f"""
{CELL}
kernel void k(global int *out) {{
  local cell t[16];
  int i = get_global_id(0), l = get_local_id(0);
  t[l].count = i;
  barrier(CLK_LOCAL_MEM_FENCE);
  cell one = t[15 - l];
BUG  out[i] = one.last;
FIX  out[i] = one.count;
}}""",
        (empty(N, I),),
    ),
    Pair(
        "a member of a copy in a loop, used",
        UNWRITTEN,
        f"""
{CELL}
kernel void k(global int *out) {{
  local cell t[16];
  int i = get_global_id(0), l = get_local_id(0), sum = 0;
  t[l].count = i; t[l].tag = 1;
FIX  t[l].last = 2;
  barrier(CLK_LOCAL_MEM_FENCE);
  cell one;
  for (int j = 0; j < 16; j++) {{
    one = t[j];
    sum += one.count + one.last; //@
  }}
  out[i] = sum;
}}""",
        (empty(N, I),),
    ),
    Pair(
        "a copy stored whole, one member set on the way",
        UNWRITTEN,
        f"""
{CELL}
kernel void k(global cell *out) {{
  local cell t[16];
  int i = get_global_id(0), l = get_local_id(0);
  t[l].tag = 1; t[l].count = i; t[l].pair = i; t[l].last = i;
  barrier(CLK_LOCAL_MEM_FENCE);
  cell one = t[15 - l];
FIX  one.sum = 5;
  out[i] = one; //@
}}""",
        (empty(N, TYPE),),
    ),
    Pair(
        "a member of a cell in global memory, stored whole",
        UNWRITTEN,
        f"""
{CELL}
kernel void k(global cell *out, global cell *t) {{
  int i = get_global_id(0);
  t[i].tag = 1; t[i].count = i; t[i].sum = i; t[i].pair = i;
FIX  t[i].last = i;
  out[i] = t[i]; //@
}}""",
        (empty(N, TYPE), empty(N, TYPE)),
    ),
    Pair(
        "an element of an array in a structure, behind a call",
        UNWRITTEN,
        """
typedef struct { int n; int of[3]; } row;
row fetch(local const row *t, int at) {
  row one = t[at];
  one.n += one.of[2]; //@
  return one;
}
kernel void k(global int *out, global const int *in) {
  local row t[16];
  int i = get_global_id(0), l = get_local_id(0);
BUG  for (int j = 0; j < 2; j++) t[l].of[j] = in[i];
FIX  for (int j = 0; j < 3; j++) t[l].of[j] = in[i];
  t[l].n = 1;
  barrier(CLK_LOCAL_MEM_FENCE);
  out[i] = fetch(t, 15 - l).n;
}""",
        (empty(N, I), ints()),
    ),
]

#: Arguments are copies: a function that overwrites them needs no value. And functions within places.
GIVEN = [
    Pair(
        "an argument that nobody wrote, used in a function",
        UNWRITTEN,
        """
float add(float sum, float a) {
BUG  sum = a + sum;
FIX  sum = a;
  return sum;
}
kernel void k(global float *out) {
  float sum;
  sum = add(sum, 2); //@
  out[get_global_id(0)] = sum;
}""",
        (empty(N, "f4"),),
    ),
    Pair(
        "a vector's components, overwritten in a function behind another",
        UNWRITTEN,
        """
float2 times(float2 to, float2 a) {
  to.x = a.x * 2;
BUG  return (float2)(to.x, 0);
FIX  to.y = a.y * 2;
  return to;
}
float2 twice(float2 to, float2 a) {
BUG  if (a.x > 100) to = times(to, a);
FIX  to = times(to, a);
  return to + a;
}
kernel void k(global float2 *out) {
  float2 to;
  to = twice(to, (float2)(1, 2)); //@
  out[get_global_id(0)] = to;
}""",
        (empty((N, 2), "f4"),),
    ),
    Pair(
        "an index that a function reads",
        "out-of-bounds",
        """
int at(global const int *in, int i) { return in[i]; }
kernel void k(global int *out, global const int *in) {
  int i = get_global_id(0);
BUG  out[at(in, i)] = i;
FIX  out[at(in, i) - 1] = i;
}""",
        (empty(N, I), ints()),
    ),
    Pair(
        "a place for an atomic that a function computes",
        "out-of-bounds",
        """
int cell(float2 at) { return (int)(at.x * 8) + 8 * (int)(at.y * 8); }
kernel void k(global int *counts, global const float2 *in) {
BUG  atomic_inc(&counts[cell(in[get_global_id(0)]) + 1]);
FIX  atomic_inc(&counts[cell(in[get_global_id(0)])]);
}""",
        (np.zeros(N, I), np.stack([np.arange(64) % 8 / 8, np.arange(64) // 8 / 8], 1).astype(np.float32)),
    ),
    Pair(
        "what stands in a structure at a function's place",
        "division-by-zero",
        """
typedef struct { int a, b; } two;
global const two *find(global const two *in, int i) { return in + i; }
kernel void k(global int *out, global const two *in) {
  int i = get_global_id(0);
BUG  out[i] = find(in, i)->a / find(in, i)->b;
FIX  out[i] = find(in, i)->a / max(find(in, i)->b, 1);
}""",
        (empty(N, I), np.stack([ints(), ints() % 7], 1).astype(I).view([("a", I), ("b", I)]).reshape(-1)),
    ),
]
