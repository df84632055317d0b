"""Calls that differ from the last ones in what they touch: none is submitted, nor planned, once calls of its kind have been made for a
while. The program is `calls_apart`'s.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from . import fake_cuda
from .cuda_host import COMPILER, MISSING

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)

SCRIPT = "from tests.pure.calls_apart import main; main()"


def counts(folder: Path, workers: str, **more: str) -> dict[str, tuple[int, int]]:
    """By kind of call, of a hundred of them: how many were submitted, and at how many launches somebody looked."""
    env = fake_cuda.environment(folder, workers) | {"FAKE_CUDA_DEVICES": "2", "FAKE_CUDA_IDLE": "1", **more}
    env.pop("VDEV_PLANNING", None)
    lines = [line.split() for line in fake_cuda.run(SCRIPT, env).splitlines()]
    return {name: (int(submitted), int(looked_at)) for name, submitted, looked_at in lines}


@pytest.mark.parametrize("workers", ["cuda:0", "cuda:0,1"])
def test_none_is_submitted(workers: str, tmp_path: Path) -> None:
    found = counts(tmp_path, workers)
    assert len(found) > 12
    # Memory that many new buffers take is let go now and then, and a launch looked at.
    assert {name: submitted for name, (submitted, _) in found.items() if submitted > 3} == {}
    for name in ("with_times", "with_an_image"):
        assert found[name][1] <= 10, "such launches are made again without a look"
