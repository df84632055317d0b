"""Launches that are made again without Python (`vdev/icd/native/ready.c`): what they leave is as natively."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.icd.driver import build, need_library, run_natively, run_on_vdev


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need_library()
    return build("repeated.c", tmp_path_factory.mktemp("program"))


@pytest.fixture(scope="module")
def natively(program: Path) -> str:
    done = run_natively(program)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def _without_python(log: str) -> int:
    return _launches_and_reads(log)[0]


def _launches_and_reads(log: str) -> tuple[int, int]:
    found = re.search(r"(\d+) launches were made without Python, and (\d+) reads", log)
    return (0, 0) if found is None else (int(found[1]), int(found[2]))


def test_on_one_worker(program: Path, natively: str) -> None:
    done = run_on_vdev(program, VDEV_WORKERS="cpu:1", VDEV_LOG="info")
    assert (done.returncode, done.stdout) == (0, natively), done.stderr
    assert min(_launches_and_reads(done.stderr)) > 0


def test_memory_that_is_gone(program: Path) -> None:
    """Launches on it are refused, whether they could be made without Python before or not."""
    for switches in ({}, {"VDEV_EXPLAIN": "1"}):
        done = run_on_vdev(program, "orphan", VDEV_WORKERS="cpu:1", **switches)
        assert (done.returncode, done.stdout) == (0, 3 * "orphan: -52\n")


def test_what_is_no_memory_object(program: Path) -> None:
    """It is refused, and what was set before stays."""
    done = run_on_vdev(program, "strange", VDEV_WORKERS="cpu:1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(3 * "strange: -38\n")
    assert done.stdout == run_natively(program, "strange").stdout


def test_threads_that_launch_one_kernel_over_sizes_of_their_own(program: Path) -> None:
    done = run_on_vdev(program, "sizes", VDEV_WORKERS="cpu:1", VDEV_LOG="info")
    assert (done.returncode, done.stdout) == (0, run_natively(program, "sizes").stdout), done.stderr
    assert _without_python(done.stderr) > 0


@pytest.mark.parametrize(
    "switches", [{"VDEV_WORKERS": "cpu:2"}, {"VDEV_EXPLAIN": "1"}, {"VDEV_CHECK": "1"}], ids=str
)
def test_where_every_launch_is_looked_at(program: Path, natively: str, switches: dict[str, str]) -> None:
    done = run_on_vdev(program, **{"VDEV_WORKERS": "cpu:1", "VDEV_LOG": "info"} | switches)
    assert (done.returncode, done.stdout) == (0, natively), done.stderr
    assert _launches_and_reads(done.stderr) == (0, 0)
    if "VDEV_EXPLAIN" in switches:
        assert "kernel plane (program 1, line 7): 20 launches" in done.stderr
