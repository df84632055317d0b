"""Whole programs watched: what a launch's findings cost the launches after it."""

from __future__ import annotations

from pathlib import Path

import pytest

from vdev.harness.reports import Report, run_program

PROGRAM = """
import numpy as np
import pyopencl as cl

context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
k = cl.Program(context, '''
kernel void k(global int *a, int n) {
  int i = get_global_id(0);
  a[i + n] = i;
}''').build().k
a, b = (cl.Buffer(context, cl.mem_flags.READ_WRITE, size) for size in (256, 512))
for n in (0, *[1] * 9, 0, 1):
    k(queue, (64,), (16,), a, np.int32(n))
k(queue, (64,), (16,), b, np.int32(1))
k(queue, (128,), (16,), b, np.int32(1))
queue.finish()
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    path: Path = tmp_path_factory.mktemp("watched") / "program.py"
    path.write_text(PROGRAM)
    return run_program([str(path)], quiet=True)


def test_launches_whose_findings_are_known_are_not_made_again_and_again(report: Report) -> None:
    """The first that shows something, and four more, are made precisely; those with nothing to show are checked."""
    (finding,) = report.findings

    assert (finding.kind, finding.place.line) == ("out-of-bounds", 4)
    assert report.unchecked == {
        "kernel k: something is found in it once more: what is known of it, as far as the launches before tell": 6
    }
    assert report.nchecked == 14 - 6
