"""What is reported is the run that would be without a report: commands go the same ways while they are recorded, none of them is left out,
and the figures are those of commands that are submitted one by one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.pure import fake_cuda
from tests.pure.cuda_host import COMPILER, MISSING
from tests.pure.reported_ways import program

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)

STEPS = 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reported")


def ran(folder: Path, workers: str, **more: str) -> dict[str, Any]:
    always = {"VDEV_PLANNING": "always", "VDEV_MIN_ITEMS": "0", "VDEV_GATHER": "0", "PYOPENCL_NO_CACHE": "1"}
    environ = fake_cuda.environment(folder, workers) | {"FAKE_CUDA_DEVICES": "3"} | always | more
    found: dict[str, Any] = json.loads(fake_cuda.run(program(STEPS), environ).splitlines()[-1])
    return found


@pytest.mark.parametrize("workers", ["cuda:0", "cuda:0-2"])
def test_what_is_reported_is_the_run_that_would_be(workers: str, folder: Path) -> None:
    report = {"VDEV_EXPLAIN": str(folder / "report.json")}
    plain, told = ran(folder, workers), ran(folder, workers, **report)
    singly = ran(folder, workers, SUBMITTED="1", **report)
    assert plain["figures"] == told["figures"] == singly["figures"]
    assert told["recorded"] == told["commands"] == singly["recorded"]
    assert told["submitted"] < 0.7 * told["commands"] < singly["submitted"]
    assert (
        told["submitted"] <= plain["submitted"] + told["commands"] / 20
    )  # other threads may be at work just then
    assert told["exchanges"] == singly["exchanges"]
    assert told["steady"] == singly["steady"]
