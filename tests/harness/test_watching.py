"""Whole programs watched: whatever a launch shows, the launches after it are checked all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from vdev.harness.reports import Report, run_program

#: Three kernels whose every launch is made precisely. `known` has one mistake in each; `silent` looks wrong to the fast form,
#: which does not tell apart what atomics do behind a barrier, and is right; `both` lets work-groups meet with one value, which
#: nobody is told of. In their 21st launch they have one more mistake: at another line, or of another kind at the same one.
PROGRAM = """
import numpy as np
import pyopencl as cl

context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
program = cl.Program(context, '''
kernel void known(global int *a, int n, int m) {
  int i = get_global_id(0);
  a[i + n] = 7 / m;
  if (n > 1) a[i + 64] = 0;
}
kernel void silent(global int *a, int n, int m) {
  int i = get_global_id(0), l = get_local_id(0);
  if (l == 0) a[i] = 0;
  barrier(CLK_GLOBAL_MEM_FENCE);
  atomic_add(&a[i - l], 1);
  barrier(CLK_GLOBAL_MEM_FENCE);
  if (l == 1) a[(i + n) % 64] = a[i - 1];
}
kernel void both(global int *a, int n, int m) {
  a[0] = get_global_id(0) * n;
}''').build()
size = 4 * 64
a = cl.Buffer(context, cl.mem_flags.READ_WRITE, size)
cl.enqueue_fill_buffer(queue, a, b"\\\\0", 0, size)


def launch(name, n, m=1):
    getattr(program, name)(queue, (64,), (16,), a, np.int32(n), np.int32(m))


for _ in range(20):
    launch("known", 1)
    launch("silent", 0)
    launch("both", 0)
launch("known", 1, 0)
launch("known", 2)
launch("silent", 15)
launch("both", 1)
queue.finish()
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    path: Path = tmp_path_factory.mktemp("watched") / "program.py"
    path.write_text(PROGRAM)
    return run_program([str(path)], quiet=True)


def test_a_new_mistake_behind_many_launches_is_found(report: Report) -> None:
    found = {(each.kernel, each.kind, each.place.line) for each in report.findings}

    assert {each for each in found if each[0] != "silent"} == {
        ("known", "out-of-bounds", 4),
        ("known", "division-by-zero", 4),
        ("known", "out-of-bounds", 5),
        ("both", "race-between-groups", 16),
    }
    (race,) = (each for each in report.findings if each.kernel == "silent")
    assert race.kind == "race-between-groups"
    assert 13 in (race.place.line, race.other and race.other.line)  # of either side, whichever comes second


def test_every_launch_is_checked(report: Report) -> None:
    assert report.unchecked == {}
    assert report.nchecked == 64
