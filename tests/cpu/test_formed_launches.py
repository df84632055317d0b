"""Launches whose arguments are others each time (`vdev.session.immediate_forms`), on a CPU worker, whose kernels are told where their
pointers point. The program is `tests.pure.formed_launches`.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import vdev.session.immediate_forms  # noqa: F401 (what defects are planted in is imported here, too)
from tests.pure.fake_cuda import PLANTED

SCRIPT = """
import os, sys
from tests.fuzz.mutations import plant
if os.environ.get({planted!r}):
    plant(os.environ[{planted!r}])
sys.argv = ["", "{seed}"]
from tests.pure.formed_launches import main
main()
"""


@pytest.mark.parametrize("seed", range(2))
def test_launches_with_other_arguments(seed: int) -> None:
    env = os.environ | {"VDEV": "1", "VDEV_WORKERS": "cpu:1", "PYOPENCL_NO_CACHE": "1"}
    script = SCRIPT.format(planted=PLANTED, seed=seed)
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=900, check=False
    )
    assert not done.returncode, done.stderr
    formed, shared, shifted, _, launches = map(int, done.stdout.split()[-5:])
    assert formed > launches // 2
    assert shared
    assert shifted > 20
