"""What a program that launches a kernel does not load: it would wait for it at every start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

PROGRAM = """
import sys
import numpy as np, pyopencl as cl, pyopencl.array as array

queue = cl.CommandQueue(cl.create_some_context(interactive=False))
x = array.to_device(queue, np.arange(1 << 14, dtype=np.float32))
assert ((x * x + 1).get()[:3] == [1, 2, 5]).all()
assert queue.device.platform.name == "vdev"
print(*(name for name in ("sympy", "cupy", "vdev.harness", "vdev.check.checking", "vdev.cli") if name in sys.modules))
"""


def test_a_program_loads_nothing_that_only_reports_need() -> None:
    environment = {**os.environ, "VDEV": "1", "VDEV_WORKERS": "cpu:2"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == ""


def test_launches_are_weighed_without_masked_arrays() -> None:
    code = """
import sys
from vdev.planner.balance import WorkProfile, agreement
profile = WorkProfile(8)
profile.measured((0, 4, 8), (1.0, 3.0))
assert profile.even(2) and agreement([(1.0, 3.0)] * 9)
print("numpy.ma" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_vdev_run_loads_neither_the_log_nor_data_classes() -> None:
    # Without site-packages, where an editable installation's own hook loads much.
    code = "import sys, vdev.cli.run; print(*{'logging', 'dataclasses', 'inspect', 'subprocess'} & set(sys.modules))"
    command = [sys.executable, "-S", "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
