"""Random sequences of calls of OpenCL: they run through, in eight threads too. What comes of them is compared by hand
(`python -m tests.icd.random_calls`), since the native engine itself does not always leave the same bytes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.icd.driver import build, need_headers, need_library, run_on_vdev
from tests.icd.random_calls.__main__ import SOURCE, differences, logs

_COUNT = 20


@pytest.mark.parametrize("threads", [1, 8])
def test_random_calls_run_through(tmp_path: Path, threads: int) -> None:
    need_library()
    need_headers("CL/cl.h")
    program = build(SOURCE, tmp_path)
    done = run_on_vdev(program, "0", str(_COUNT), str(threads))
    assert (done.returncode, done.stderr) == (0, "")
    found = logs(done)
    assert len(found) == _COUNT + 1
    assert found[""] == ["end: 0", "0"]


def test_a_difference_is_told() -> None:
    natively = {"seed 1": ["a", "b", "c"], "seed 2": ["d"], "": ["end: 0", "0"]}
    found = differences(natively, {"seed 1": ["a", "x"], "": ["end: 0", "0"]})
    assert found == ["seed 1\n      a\n    - b\n    + x", "seed 2\n    - d\n    + "]
