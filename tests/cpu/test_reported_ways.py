"""What is reported is the run that would be without a report, on workers of an engine: as `tests.pure.test_reported_ways`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cpu.test_explain import run
from tests.pure.reported_ways import program


def ran(folder: Path, workers: str, **more: str) -> dict[str, Any]:
    done = run("-c", program(24), cwd=folder, workers=workers, VDEV="1", VDEV_GATHER="0", **more)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("workers", ["cpu:1", "cpu:3"])
def test_what_is_reported_is_the_run_that_would_be(workers: str, tmp_path: Path) -> None:
    report = {"VDEV_EXPLAIN": "report.json"}
    plain, told = ran(tmp_path, workers), ran(tmp_path, workers, **report)
    singly = ran(tmp_path, workers, SUBMITTED="1", **report)
    assert plain["figures"] == told["figures"] == singly["figures"]
    assert told["recorded"] == told["commands"] == singly["recorded"]
    # Other threads may be at work just then.
    assert told["submitted"] <= plain["submitted"] + told["commands"] / 20
    assert told["exchanges"] == singly["exchanges"]
    assert told["steady"] == singly["steady"]
    assert all(told["timed"])  # each kernel's time is known
    assert json.loads((tmp_path / "report.json").read_text())["timed"]
