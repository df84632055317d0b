"""Copies between buffers and fills on workers of an OpenCL engine, each of other bytes, with what may come in between. The program
is `tests.pure.copied_boxes`.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SCRIPT = "import sys; sys.argv = ['', '7']; from tests.pure.copied_boxes import main; main()"


@pytest.mark.parametrize("workers", ["cpu:1", "cpu:3"])
def test_copies_of_other_boxes(workers: str) -> None:
    settings = {"VDEV": "1", "VDEV_WORKERS": workers, "PYOPENCL_NO_CACHE": "1"}
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT]
    done = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    at_once, formed, copies = map(int, done.stdout.split()[-3:])
    if workers == "cpu:1":
        assert min(at_once, formed) > copies // 2
