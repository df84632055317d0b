"""Plans that are filled in, carried out by CPU workers: see `changed_scalars`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("changed_scalars.py")


@pytest.mark.parametrize("workers", [2, 3])
def test_results_are_those_of_numpy(workers: int) -> None:
    settings = {
        "VDEV": "1",
        "VDEV_WORKERS": f"cpu:{workers}",
        "VDEV_PLANNING": "always",
        "VDEV_MIN_ITEMS": "0",
    }
    environment = os.environ | settings | {"PYOPENCL_NO_CACHE": "1"}
    command = [sys.executable, str(PROGRAM)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    filled = dict(item.split("=") for item in done.stdout.split())
    assert all(
        int(filled[name]) >= 30 for name in ("tiles", "updates", "shifts", "slots", "befores", "parts")
    ), filled
