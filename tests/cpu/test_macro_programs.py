"""Programs that are nasty to a preprocessor write the same bytes on three workers as natively."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.cpu.macro_programs import PROGRAMS

ROOT = Path(__file__).parents[2]


def _run(**switches: str) -> dict[str, str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("VDEV")} | switches
    done = subprocess.run(
        [sys.executable, "-m", "tests.cpu.macro_programs"],
        env=environ, cwd=ROOT, capture_output=True, text=True, check=False, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(line.split(": ", 1) for line in done.stdout.splitlines())


def test_macro_programs() -> None:
    native = _run()
    assert list(native) == list(PROGRAMS)
    refused = [name for name, result in native.items() if result.startswith("refused")]
    assert len(refused) < 5, refused  # an engine may be without digraphs, say
    assert _run(VDEV="1", VDEV_WORKERS="cpu:3", VDEV_MIN_ITEMS="0") == native
