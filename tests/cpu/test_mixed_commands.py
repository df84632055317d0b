"""Commands of all kinds between launches whose numbers, index spaces and places change each time: on one worker, where
launches take no plan, and on three, where planning has its budget."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("mixed_commands.py")


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("workers", "planning"), [(1, "auto"), (3, "auto")])
def test_mixed_commands(workers: int, planning: str, seed: int) -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("VDEV")}
    switches = {
        "VDEV": "1",
        "VDEV_WORKERS": f"cpu:{workers}",
        "VDEV_MIN_ITEMS": "0",
        "VDEV_PLANNING": planning,
    }
    done = subprocess.run(
        [sys.executable, PROGRAM, str(seed)],
        env=clean | switches,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the same" in done.stdout
