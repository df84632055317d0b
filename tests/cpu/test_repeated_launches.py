"""Kernels called again and again, through PyOpenCL itself: see `repeated_launches`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CASES = Path(__file__).with_name("repeated_launches.py")


@pytest.mark.parametrize("workers", [1, 3])
def test_repeated_launches(workers: int) -> None:
    environment = os.environ | {"VDEV": "1", "VDEV_WORKERS": f"cpu:{workers}", "PYOPENCL_NO_CACHE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(CASES)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
