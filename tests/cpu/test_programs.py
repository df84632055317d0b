"""The programs of `tests.cpu.programs` on 1, 2, 3 and 8 workers: right results, and one worker only for a reason."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from typing import Any

import pytest

NAMES = [
    "breadth_first_search",
    "race_for_one_place",
    "connected_components",
    "last_work_group_reduction",
    "chained_scan",
    "stream_compaction",
    "histogram_and_other_atomics",
    "radix_sort",
    "transforms_in_place",
    "moving_windows",
    "views_by_value",
    "gaussian_elimination",
    "floyd_warshall",
    "needleman_wunsch",
    "sparse_matrix_vector",
    "structures_and_helpers",
    "early_exits",
    "small_and_odd_types",
    "one_buffer_several_arguments",
    "queues_events_threads",
    "local_sizes_left_open",
    "pyopencl_algorithms",
]
#: Kernels whose work-groups talk to each other, and what the reason must name.
TOGETHER = {
    "total": "the result of an atomic function is used",
    "chain": "a loop that waits for `sums` to change (line 6)",
    "keep": "argument `count`",
}


@functools.cache
def run(count: int) -> dict[str, Any]:
    environment = os.environ | {
        "VDEV": "1",
        "VDEV_WORKERS": f"cpu:{count}",
        "VDEV_MIN_ITEMS": "0",
        "PYOPENCL_NO_CACHE": "1",
    }
    command = [sys.executable, "-m", "tests.cpu.programs"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr
    results: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return results


def test_every_program_is_run() -> None:
    assert list(run(1)) == NAMES


@pytest.mark.parametrize("count", [1, 2, 3, 8])
@pytest.mark.parametrize("name", NAMES)
def test_program(name: str, count: int) -> None:
    found = run(count)[name]
    assert found["error"] is None, found["error"]
    for launch in found["launches"]:
        reasons = "; ".join(launch["reasons"])
        if count == 1:
            assert launch["workers"] == 1
        elif launch["kernel"] in TOGETHER:
            assert launch["workers"] == 1
            assert TOGETHER[launch["kernel"]] in reasons
        elif reasons != "one work-group":
            assert launch["workers"] > 1, f"{launch['kernel']}: {reasons}"
