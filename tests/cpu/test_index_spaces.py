"""What launches over index spaces that were never seen before cost the host: see `index_spaces`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pure import fake_cuda
from tests.pure.cuda_host import COMPILER, MISSING

#: bytecodes of such a launch on one worker: what depends on its size alone is made, and nothing else
MOST = {"known": 1100, "size": 1700, "set_args": 2050, "offset": 2000}


def check(found: str) -> None:
    counts = json.loads(found.splitlines()[-1])
    assert counts.keys() == MOST.keys()
    assert {name: count for name, count in counts.items() if count > MOST[name]} == {}
    assert counts["known"] < counts["size"], "they had other index spaces"


def test_on_one_worker() -> None:
    environment = os.environ | {"VDEV": "1", "VDEV_WORKERS": "cpu:1", "PYOPENCL_NO_CACHE": "1"}
    command = [sys.executable, "-W", "ignore", "-m", "tests.cpu.index_spaces"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr
    check(done.stdout)


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
def test_on_one_gpu(tmp_path: Path) -> None:
    environment = fake_cuda.environment(tmp_path, "cuda:0") | {"FAKE_CUDA_IDLE": "1"}
    check(fake_cuda.run("from tests.cpu.index_spaces import main; main()", environment))
