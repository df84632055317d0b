"""The kernels of all samples, run small under `vdev-check --coverage`: each result is compared with NumPy's by the sample
itself, and together they cover what is asked of them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.cpu.test_samples import NAMES
from tests.harness.test_coverage import ROOT, parse_lcov

#: Per cent of lines and of branches.
BAR = "95,85"
#: Samples whose kernels' text is made when they run: it stands in no file.
MADE = {"lattice_boltzmann", "option_arrays", "saxpy", "scan_sort_compact"}


def test_samples_cover_their_kernels(tmp_path: Path) -> None:
    command = [
        "--no-check", "--coverage-data", str(tmp_path / "data"), "--coverage-fail-under", BAR, "--coverage-report", "text",
        "--coverage-report", f"lcov:{tmp_path / 'kernels.lcov'}", "tests/harness/sample_runs.py", str(tmp_path),
    ]  # fmt: skip
    environment = {name: value for name, value in os.environ.items() if not name.startswith("VDEV")}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "vdev.cli.check", *command],
        cwd=ROOT, env=environment | {"PYOPENCL_NO_CACHE": "1"}, text=True, capture_output=True, timeout=900, check=False,
    )  # fmt: skip
    print(done.stdout)
    files = parse_lcov((tmp_path / "kernels.lcov").read_text())

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("check ok: ") >= len(NAMES)
    assert "not counted" not in done.stdout
    assert {name for name in files if name.startswith("samples/")} == {
        f"samples/{name}.py" for name in NAMES if name not in MADE
    }
    assert "samples/nbody.py" in done.stdout
