"""Programs that make the same calls again and again: see `recurring_calls`."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize("workers", [1, 3])
def test_each_array_holds_what_it_should(workers: int) -> None:
    """Every launch of several work-groups is split."""
    always = {"VDEV_MIN_ITEMS": "0", "VDEV_PLANNING": "always", "VDEV_GATHER": "0"}
    environment = (
        os.environ | always | {"VDEV": "1", "VDEV_WORKERS": f"cpu:{workers}", "PYOPENCL_NO_CACHE": "1"}
    )
    command = [sys.executable, "-W", "ignore", "-m", "tests.cpu.recurring_calls", "1", "25"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "are right" in done.stdout
    assert "internal error" not in done.stderr
