"""Barriers that not all work-items of a group reach, and their twins."""

from __future__ import annotations

from tests.harness.pairs_form import I, N, Pair, empty, ints, zeros

BARRIER = "divergent-barrier"

BARRIERS = [
    Pair(
        "a barrier for half of the group",
        BARRIER,
        """
kernel void k(global int *out, global const int *in) {
  local int t[16];
  int l = get_local_id(0);
  t[l] = in[get_global_id(0)];
BUG  if (l < 8) barrier(CLK_LOCAL_MEM_FENCE);
FIX  barrier(CLK_LOCAL_MEM_FENCE);
  out[get_global_id(0)] = t[l];
}""",
        (empty(N, I), ints()),
    ),
    Pair(
        "those beyond the end return before a barrier",
        BARRIER,
        """
kernel void k(global int *out, global const int *in, int n) {
  local int t[16];
  int i = get_global_id(0), l = get_local_id(0);
BUG  if (i >= n) return;
FIX  if (n < 0) return;
  t[l] = in[i];
  barrier(CLK_LOCAL_MEM_FENCE); //@
  out[i] = t[l];
}""",
        (empty(N, I), ints(), 60),
    ),
    Pair(
        "a loop with a different number of turns",
        BARRIER,
        """
kernel void k(global int *out, global const int *in) {
  local int t[16];
  int l = get_local_id(0);
  t[l] = in[l];
BUG  for (int j = 0; j < l; j++) {
FIX  for (int j = 0; j < t[l] - in[l] + 5; j++) {
    barrier(CLK_LOCAL_MEM_FENCE); //@
  }
  out[get_global_id(0)] = t[l];
}""",
        (empty(N, I), ints()),
    ),
    Pair(
        "a loop that some leave early",
        BARRIER,
        """
kernel void k(global int *out, global const int *in) {
  local int t[16];
  int l = get_local_id(0), n = 0;
  t[l] = 0;
  for (;;) {
BUG    if (n == in[l]) break;
FIX    if (n == in[3]) break;
    barrier(CLK_LOCAL_MEM_FENCE); //@
    n++;
  }
  out[get_global_id(0)] = n + t[l];
}""",
        (empty(N, I), ints()),
    ),
    Pair(
        "a turn that some leave out",
        BARRIER,
        """
kernel void k(global int *out) {
  local int t[16];
  int l = get_local_id(0), n = 0;
  t[l] = 0;
  for (int j = 0; j < 4; j++) {
BUG    if (l > 5) continue;
    barrier(CLK_LOCAL_MEM_FENCE); //@
FIX    if (l > 5) continue;
    n++;
  }
  out[get_global_id(0)] = n + t[l];
}""",
        (empty(N, I),),
    ),
    Pair(
        "two barriers in two branches",
        BARRIER,
        """
kernel void k(global int *out, global const int *in) {
  local int t[16];
  int l = get_local_id(0);
  t[l] = l;
BUG  if (l % 2) {
FIX  if (in[1]) {
    barrier(CLK_LOCAL_MEM_FENCE); //@
  } else {
    barrier(CLK_LOCAL_MEM_FENCE); //@
  }
  out[get_global_id(0)] = t[l];
}""",
        (empty(N, I), ints()),
    ),
    Pair(
        "a function that some leave before its barrier",
        BARRIER,
        """
int late(local int *t, int l, int c) {
  if (c > 3) return 5;
  barrier(CLK_LOCAL_MEM_FENCE); //@
  return t[15 - l];
}
kernel void k(global int *out, global const int *in) {
  local int t[16];
  int l = get_local_id(0);
  t[l] = l;
BUG  out[get_global_id(0)] = late(t, l, in[l]);
FIX  out[get_global_id(0)] = late(t, l, in[1]);
}""",
        (empty(N, I), ints()),
    ),
    Pair(
        "a branch of a switch",
        BARRIER,
        """
kernel void k(global int *out, global const int *in) {
  local int t[16];
  int l = get_local_id(0);
  t[l] = l;
BUG  switch (in[l] & 1) {
FIX  switch (in[7] & 1) {
    case 0: barrier(CLK_LOCAL_MEM_FENCE); break; //@
    default: break;
  }
  out[get_global_id(0)] = t[l];
}""",
        (empty(N, I), ints()),
    ),
    Pair(
        "waiting for each other in a loop",
        BARRIER,
        """
kernel void k(global int *out) {
  volatile local int flag;
  int l = get_local_id(0);
  if (l == 0) flag = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
BUG  if (l > 3) {
FIX  if (out == 0) {
    do { barrier(CLK_LOCAL_MEM_FENCE); } while (flag == 0); //@
  } else {
    barrier(CLK_LOCAL_MEM_FENCE); //@
    if (l == 0) flag = 1;
  }
  out[get_global_id(0)] = l;
}""",
        (empty(N, I),),
    ),
    Pair(
        "a copy that part of the group makes",
        BARRIER,
        """
kernel void k(global int *out, global const int *in) {
  local int t[16];
  int l = get_local_id(0);
BUG  if (l < 4) {
FIX  if (get_group_id(0) < 9) {
    event_t done = async_work_group_copy(t, in, 16, 0); //@
    wait_group_events(1, &done);
  }
  out[get_global_id(0)] = l;
}""",
        (empty(N, I), ints()),
    ),
    Pair(
        "a sum of the group in a conditional",
        BARRIER,
        """
kernel void k(global int *out, global const int *in) {
  int l = get_local_id(0);
BUG  int all = in[l] > 3 ? work_group_reduce_add(l) : 0;
FIX  int all = in[5] > 3 ? work_group_reduce_add(l) : 0;
  out[get_global_id(0)] = all;
}""",
        (empty(N, I), ints()),
        options="-cl-std=CL3.0",
    ),
    Pair(
        "a question to the group behind another",
        BARRIER,
        """
kernel void k(global int *out, global const int *in) {
  int l = get_local_id(0);
BUG  out[get_global_id(0)] = in[l] > 3 && work_group_all(l < 16);
FIX  out[get_global_id(0)] = work_group_all(l < 16) && in[l] > 3;
}""",
        (empty(N, I), ints()),
        options="-cl-std=CL3.0",
    ),
    Pair(
        "a barrier in a while loop over a list",
        BARRIER,
        """
kernel void k(global int *out, global const int *next) {
  local int t[16];
  int l = get_local_id(0);
  t[l] = 0;
BUG  int at = l;
FIX  int at = 3;
  while (at < 40) {
    barrier(CLK_LOCAL_MEM_FENCE); //@
    at = next[at] + 7;
  }
  out[get_global_id(0)] = t[l] + at;
}""",
        (empty(N, I), ints()),
    ),
    Pair(
        "a return in a nested condition",
        BARRIER,
        """
kernel void k(global int *out, global const int *in) {
  local int t[16];
  int l = get_local_id(0);
  t[l] = 0;
  if (l < 4) {
BUG    if (in[l] == 2) return;
FIX    if (in[l] == 200) return;
    t[l] = 1;
  }
  barrier(CLK_LOCAL_MEM_FENCE); //@
  out[get_global_id(0)] = t[15 - l];
}""",
        (zeros(N, I), ints()),
    ),
]
