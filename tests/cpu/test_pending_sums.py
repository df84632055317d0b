"""What atomics have left on several workers is what everybody finds, whatever command looks first: also where memory is
short, where launches move to one worker and back, and under the check, which sees the bytes after each launch.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("pending_sums.py")


@pytest.mark.parametrize(
    ("workers", "switches", "pends"),
    [
        (2, {"VDEV_PLANNING": "always"}, True),
        (3, {"VDEV_PLANNING": "always"}, True),
        (5, {"VDEV_PLANNING": "always"}, True),
        (3, {"VDEV_PLANNING": "always", "VDEV_MEMORY": "136K"}, True),
        (3, {"VDEV_PLANNING": "auto"}, False),
        (2, {"VDEV_CHECK": "1"}, False),
    ],
)
def test_sums_are_those_of_one_device(workers: int, switches: dict[str, str], pends: bool) -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("VDEV")}
    own = {"VDEV": "1", "VDEV_WORKERS": f"cpu:{workers}", "VDEV_MIN_ITEMS": "0"}
    done = subprocess.run(
        [sys.executable, PROGRAM, "7", "counted"],
        env=clean | own | switches,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the same" in done.stdout
    if pends:
        folds, additions = (int(line.split()[-1]) for line in done.stdout.splitlines()[-2:])
        assert 0 < folds < 0.8 * additions
