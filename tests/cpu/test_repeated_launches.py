"""Kernels called again and again, through PyOpenCL itself: see `repeated_launches`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cpu.test_trace import run
from tests.pure import fake_cuda
from tests.pure.cuda_host import COMPILER, MISSING
from tests.trace_reader import check_sums

CASES = Path(__file__).with_name("repeated_launches.py")
LAUNCHES = 5000
TRACED = f"""
import sys
sys.path.append({str(CASES.parents[2])!r})
from tests.cpu.repeated_launches import Host
host = Host()
buffer, step = host.buffer(), __import__("numpy").uint32(3)
for _ in range({LAUNCHES}):
    host.call(host.add, buffer, step)
assert (host.read(buffer) == 3 * {LAUNCHES}).all()
"""


@pytest.mark.parametrize("workers", [1, 3])
def test_repeated_launches(workers: int) -> None:
    _run(os.environ | {"VDEV": "1", "VDEV_WORKERS": f"cpu:{workers}"})


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
def test_edges_exchanged_again_by_gpus(tmp_path: Path) -> None:
    _run(fake_cuda.environment(tmp_path, "cuda:0,1"), "-k", "edges and 0")


def _run(environment: dict[str, str], *options: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, str(CASES)]
    environment = environment | {"PYOPENCL_NO_CACHE": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout


@pytest.mark.parametrize("report", ["0", "report.json"])
def test_a_trace_has_every_launch(report: str, tmp_path: Path) -> None:
    """Also with a report, which needs the times of each and has none of them repeated."""
    trace, figures = run("-c", TRACED, cwd=tmp_path, workers="cpu:1", VDEV_EXPLAIN=report)
    check_sums(trace, figures)
    assert sum(event["cat"] == "kernel" for event in trace.slices) == LAUNCHES
    assert sum(event["cat"] == "command" and event["name"] == "add" for event in trace.slices) == LAUNCHES
