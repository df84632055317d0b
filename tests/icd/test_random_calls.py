"""Random sequences of calls of OpenCL: the same errors, bytes, events and reference counts as natively."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.icd.driver import build, need_headers, need_library, run_on_vdev
from tests.icd.random_calls.__main__ import SOURCE, differences, logs, run_reference

_SEEDS = ("0", "30")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need_library()
    need_headers("CL/cl.h")
    return build(SOURCE, tmp_path_factory.mktemp("program"))


@pytest.fixture(scope="module")
def natively(program: Path) -> dict[str, list[str]]:
    done = run_reference(program, *_SEEDS)
    assert done.returncode == 0, done.stderr
    return logs(done)


@pytest.mark.parametrize(("workers", "threads"), [("cpu:3", "1"), ("cpu:3", "8"), ("cpu:1", "8")])
def test_as_natively(program: Path, natively: dict[str, list[str]], workers: str, threads: str) -> None:
    done = run_on_vdev(program, *_SEEDS, threads, VDEV_WORKERS=workers)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(natively) == int(_SEEDS[1]) + 1
    found = differences(natively, logs(done))
    assert not found, "\n".join(found)


def test_a_difference_is_told() -> None:
    natively = {"seed 1": ["a", "b", "c"], "seed 2": ["d"], "": ["end: 0", "0"]}
    found = differences(natively, {"seed 1": ["a", "x"], "": ["end: 0", "0"]})
    assert found == ["seed 1\n      a\n    - b\n    + x", "seed 2\n    - d\n    + "]
