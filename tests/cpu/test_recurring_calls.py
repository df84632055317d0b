"""Programs that make the same calls again and again: see `recurring_calls`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pure import fake_cuda
from tests.pure.cuda_host import COMPILER, MISSING


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


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
@pytest.mark.parametrize(("workers", "late"), [("cuda:0", 0), ("cuda:0,1", 1)])
def test_on_gpus(workers: str, late: int, tmp_path: Path) -> None:
    """On the driver for machines without one, where the GPU of that number does nothing until somebody waits for it."""
    script = (
        "import sys; sys.argv = ['', '1', '8']; from tests.cpu.recurring_calls import main; sys.exit(main())"
    )
    assert "are right" in fake_cuda.run(script, fake_cuda.environment(tmp_path, workers, late))
