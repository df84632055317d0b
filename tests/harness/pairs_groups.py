"""Two work-items of one group at one place in global memory, and their twins."""

from __future__ import annotations

from tests.harness.pairs_form import F, I, N, Pair, empty, floats, ints, local, zeros

ITEMS = "race-between-items"

FILLED = [
    Pair(
        "an argument that nobody has filled",
        "unwritten-value",
        """
kernel void k(global int *out, global const int *in, global const int *more) {
  int i = get_global_id(0);
BUG  out[i] = in[i] + more[i];
FIX  out[i] = in[i];
}""",
        (empty(N, I), ints(), empty(N, I)),
    ),
]
AMONG = [
    Pair(
        "a neighbour's new value in global memory",
        ITEMS,
        """
kernel void k(global int *a, global int *out) {
  int i = get_global_id(0), l = get_local_id(0);
  a[i] = 2 * l; //@
FIX  barrier(CLK_GLOBAL_MEM_FENCE);
  out[i] = a[i - l + (l + 1) % 16]; //@
}""",
        (ints(), empty(N, I)),
    ),
    Pair(
        "an exchange behind a barrier of local memory alone",
        ITEMS,
        """
kernel void k(global int *a, global int *out) {
  int i = get_global_id(0), l = get_local_id(0);
  a[i] = 3 * l; //@
BUG  barrier(CLK_LOCAL_MEM_FENCE);
FIX  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  out[i] = a[i - l + 15 - l]; //@
}""",
        (ints(), empty(N, I)),
    ),
    Pair(
        "a sum in global memory, a barrier short",
        ITEMS,
        """
kernel void k(global float *a) {
  int i = get_global_id(0), l = get_local_id(0);
  for (int s = 8; s > 0; s /= 2) {
    if (l < s) a[i] += a[i + s]; //@
FIX    barrier(CLK_GLOBAL_MEM_FENCE);
  }
}""",
        (floats(),),
    ),
    Pair(
        "a sum in global memory, with a local fence",
        ITEMS,
        """
kernel void k(global float *a) {
  int i = get_global_id(0), l = get_local_id(0);
  for (int s = 8; s > 0; s /= 2) {
    if (l < s) a[i] += a[i + s]; //@
BUG    work_group_barrier(CLK_LOCAL_MEM_FENCE);
FIX    work_group_barrier(CLK_GLOBAL_MEM_FENCE);
  }
}""",
        (floats(),),
        options="-cl-std=CL3.0",
    ),
    Pair(
        "all items of a group write one element",
        ITEMS,
        """
kernel void k(global int *out) {
  int l = get_local_id(0);
BUG  out[get_group_id(0)] = l;
FIX  if (l == 15) out[get_group_id(0)] = l;
}""",
        (empty(4, I),),
    ),
    Pair(
        "two items share an element",
        ITEMS,
        """
kernel void k(global int *out) {
  int i = get_global_id(0);
BUG  out[i / 2] = i;
FIX  out[i] = i;
}""",
        (zeros(N, I),),
    ),
    Pair(
        "a count of the group without atomics",
        ITEMS,
        """
kernel void k(global int *counts, global const int *in) {
  int i = get_global_id(0);
BUG  if (in[i] % 3 == 0) counts[get_group_id(0)]++;
FIX  if (in[i] % 3 == 0) atomic_inc(counts + get_group_id(0));
}""",
        (zeros(4, I), ints()),
    ),
    Pair(
        "a start value beside atomics",
        ITEMS,
        """
kernel void k(global int *counts, global const int *in) {
  int i = get_global_id(0), g = get_group_id(0);
  if (get_local_id(0) == 0) counts[g] = 0; //@
FIX  barrier(CLK_GLOBAL_MEM_FENCE);
  if (in[i] % 3 == 0) atomic_inc(counts + g); //@
}""",
        (empty(4, I), ints()),
    ),
    Pair(
        "reading what atomics make, too early",
        ITEMS,
        """
kernel void k(global int *counts, global const int *in, global int *out) {
  int i = get_global_id(0), g = get_group_id(0);
  atomic_add(counts + g, in[i]); //@
FIX  barrier(CLK_GLOBAL_MEM_FENCE);
  out[i] = counts[g]; //@
}""",
        (zeros(4, I), ints(), empty(N, I)),
    ),
    Pair(
        "neighbours of a vector store overlap",
        ITEMS,
        """
kernel void k(global float *out) {
  int i = get_global_id(0);
BUG  vstore4((float4)(i), 0, out + 3 * i);
FIX  vstore3((float3)(i), 0, out + 3 * i);
}""",
        (zeros(200, F),),
    ),
    Pair(
        "a stencil in place, in the second direction",
        ITEMS,
        """
kernel void k(global float *a) {
  int x = get_local_id(0), y = get_local_id(1), g = 16 * get_group_id(0);
  float v = a[g + y * 4 + x] + a[g + (y + 1) % 4 * 4 + x]; //@
FIX  barrier(CLK_GLOBAL_MEM_FENCE);
  a[g + y * 4 + x] = v; //@
}""",
        (floats(),),
        (16, 4),
        (4, 4),
    ),
    Pair(
        "copied before all of the group has written",
        ITEMS,
        """
kernel void k(global int *a, global int *out) {
  local int t[16];
  int i = get_global_id(0), l = get_local_id(0);
  a[i] = 5 * l; //@
BUG  barrier(CLK_LOCAL_MEM_FENCE);
FIX  barrier(CLK_GLOBAL_MEM_FENCE);
  event_t e = async_work_group_copy(t, a + i - l, 16, 0); //@
  wait_group_events(1, &e);
  out[i] = t[15 - l];
}""",
        (ints(), empty(N, I)),
    ),
    Pair(
        "a pointer of a helper function, swapped too early",
        ITEMS,
        """
void step(global int *to, global const int *from, int l) {
  to[l] = from[(l + 1) % 16] + from[l]; //@
}
kernel void k(global int *a, global int *b) {
  int l = get_local_id(0), g = 16 * get_group_id(0);
  global int *to = a + g, *from = b + g;
  for (int n = 0; n < 3; n++) {
    step(to, from, l);
    global int *old = to; to = from; from = old;
FIX    barrier(CLK_GLOBAL_MEM_FENCE);
  }
}""",
        (zeros(N, I), ints()),
    ),
    Pair(
        "the first item prepares what all read",
        ITEMS,
        """
typedef struct { int first, count; } Range;
kernel void k(global Range *ranges, global int *out, local int *t) {
  int i = get_global_id(0), l = get_local_id(0);
  global Range *mine = ranges + get_group_id(0);
  if (l == 0) { mine->first = i; mine->count = 16; } //@
  t[l] = l;
BUG  barrier(CLK_LOCAL_MEM_FENCE);
FIX  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  out[i] = mine->first + t[(l + 1) % mine->count]; //@
}""",
        (empty(4, [("first", I), ("count", I)]), empty(N, I), local(16, I)),
    ),
]
