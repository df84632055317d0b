"""Barriers in every shape of statement: where groups may part and do not there is no alarm, and values are what they are
without checks; where they do, each side is named.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest

from tests.harness.pairs_form import I, N, empty, ints
from vdev.harness import FindingsError, Program, assert_equal

HEAD = """
#define B barrier(CLK_LOCAL_MEM_FENCE)
#define K(name) kernel void name(global int *out, global const int *in)
#define START int i = get_global_id(0), l = get_local_id(0), n = 0; local int t[16]; t[l] = l; (void)n
typedef struct { int a, b; } two;
two both(local int *t, int c, int l) {
  two s = {1, 2};
  if (c > 1) { B; if (l > 3) return s; s.a = t[15 - l]; } else return s;
  return s;
}
void some(local int *t, int c, int l) { if (c > 100) return; B; if (l == 2) return; t[l] = 5; }
"""
#: By name: the body of a kernel in which all work-items reach every barrier.
TOGETHER = {
    "dangling_else": "if (in[0] > 0) if (in[1] > 100) B; else n = 3; else n = 4; out[i] = n;",
    "in_a_macro_s_loop": "do { if (in[3] > 1) B; } while (0); out[i] = t[15 - l];",
    "loops_in_loops": """
      for (int a = 0; a < in[2]; a++) {
        for (int b = 0; b < in[3]; b++) { if (in[a + b] == 5) break; B; if (l > 7) continue; n++; }
        if (in[a] == 3) break;
      }
      out[i] = n;""",
    "loops_without_braces": "n = in[5]; while (n-- > 0) B; do B; while (++n < in[1]); out[i] = n;",
    "loops_without_parts": "for (;;) { if (n >= in[4]) break; n++; B; } for (; n < in[9];) { n++; B; } out[i] = n;",
    "a_switch_in_a_loop": """
      for (int j = 0; j < in[4]; j++)
        switch (in[j]) {
          case 1: B; continue;
          case 2: if (l > 3) break; n++; break;
          default: n += 2; B;
        }
      out[i] = n;""",
    "left_by_some_behind_all_barriers": "if (l >= 16) return; B; out[i] = 2; if (l > 4) return; out[i] = 1;",
    "left_by_nobody": "if (l < 4) { if (in[l] == 77) return; t[l] = 1; } B; out[i] = t[15 - l];",
    "parted_and_together_again": """
      for (int j = 0; j < 4; j++) { B; if (l > 5) continue; if (in[l] == 3) { n += 10; continue; } n++; }
      B;
      out[i] = n + t[15 - l];""",
    "until_one_says_so": """
      local int done;
      for (;;) { if (l == 0) done = n > 5; B; if (done) break; n++; B; }
      out[i] = n;""",
    "a_function_with_results": "two s = both(t, in[2], l); out[i] = s.a + s.b;",
    "a_function_without": "some(t, in[2], l); out[i] = t[l];",
    "either": "if (in[3] > 100 || in[4] > 2) B; out[i] = t[15 - l];",
}
#: By name: a body, and the words before each barrier that some miss.
APART = {
    "both_sides": "if (l > 3) { n = 1; B; } else { n = 2; B; } out[i] = n;",
    "one_turn_more": "while (n < 3 + (l == 2)) { n++; B; } out[i] = n;",
    "a_break_in_a_switch": "switch (in[2]) { case 3: if (l == 5) break; B; } out[i] = n;",
    "a_return_in_a_loop": "for (int j = 0; j < in[3]; j++) { if (j == 2 && l == 7) return; B; } out[i] = n;",
}


@functools.cache
def program(*, check: bool) -> Program:
    kernels = [f"K({name}) {{ START; {body} }}" for name, body in {**TOGETHER, **APART}.items()]
    return Program(HEAD + "\n".join(kernels), check=check)


@pytest.mark.parametrize("name", TOGETHER)
def test_a_group_that_stays_together_raises_no_alarm(name: str) -> None:
    args = (np.full(N, -1, I), ints())
    outputs = program(check=True).kernel(name)(*args, global_size=N, local_size=16)
    (plain,) = program(check=False).kernel(name)(*args, global_size=N, local_size=16)

    assert outputs.notes == ()
    assert_equal(outputs[0], plain)


@pytest.mark.parametrize("name", APART)
def test_a_group_that_diverges_is_reported_with_both_sides(name: str) -> None:
    with pytest.raises(FindingsError) as raised:
        program(check=True).kernel(name)(empty(N, I), ints(), global_size=N, local_size=16)
    findings = raised.value.findings

    assert {finding.kind for finding in findings} == {"divergent-barrier"}
    assert len(findings) == (2 if name == "both_sides" else 1)
    for finding in findings:
        assert finding.other is not None
        assert finding.who is not None
        assert finding.other_who is None or finding.other_who.item != finding.who.item


_AHEAD = """
kernel void k(global int *out, global const int *in) {
  local int t[16];
  int l = get_local_id(0), i = get_global_id(0), v = 0;
  t[l] = l;
  if (in[@] > 40) goto done;
  barrier(CLK_LOCAL_MEM_FENCE);
  v = t[15 - l];
done:
  barrier(CLK_LOCAL_MEM_FENCE);
  t[15 - l] = v;
  barrier(CLK_LOCAL_MEM_FENCE);
  out[i] = v + t[l];
}"""
_BACK = """
kernel void k(global int *out, global const int *in) {
  local int t[16];
  int l = get_local_id(0), i = get_global_id(0), v = 0;
  t[l] = l;
again:

  barrier(CLK_LOCAL_MEM_FENCE);
  v++;
  if (v < in[@] % 4) goto again;
  barrier(CLK_LOCAL_MEM_FENCE);
  out[i] = v + t[15 - l];
}"""


@pytest.mark.parametrize("text", [_AHEAD, _BACK], ids=["ahead", "back"])
def test_a_goto_that_some_take_past_a_barrier(text: str) -> None:
    args = empty(N, I), ints()
    together = Program(text.replace("@", "50")).kernel("k")(*args, global_size=N, local_size=16)
    with pytest.raises(FindingsError) as raised:
        Program(text.replace("@", "i")).kernel("k")(*args, global_size=N, local_size=16)

    assert (together.findings, together.notes) == ((), ())
    assert {(each.kind, each.place.line) for each in raised.value.findings} == {
        ("divergent-barrier", 7 + (text == _BACK))
    }


def test_a_goto_that_passes_no_barrier_does_not_concern_the_group() -> None:
    text = """kernel void k(global int *out, global const int *in) {
      local int t[16]; int l = get_local_id(0), v = 0; t[l] = l;
      if (in[get_global_id(0)] > 40) goto done;
      v = 4;
      done: barrier(CLK_LOCAL_MEM_FENCE);
      out[get_global_id(0)] = v + t[15 - l];
    }"""
    outputs = Program(text).kernel("k")(empty(N, I), ints(), global_size=N, local_size=16)

    assert (outputs.findings, outputs.notes) == ((), ())


@pytest.mark.parametrize("way", ["if (in[i] > 80) return;", "if (in[i] > 80) goto other;"])
def test_a_goto_behind_which_some_are_missing_is_refused(way: str) -> None:
    """Nobody votes where some never come, and nothing hangs; the launch is not checked, and says so."""
    text = _AHEAD.replace("  v = t", f"  {way}\n  v = t").replace("out[i]", "other: out[i]").replace("@", "i")
    outputs = Program(text).kernel("k")(empty(N, I), np.full(N, 1, I), global_size=N, local_size=16)

    ((line, what),) = outputs.notes
    assert line == 2
    assert "goto" in what
    assert "not checked" in what
