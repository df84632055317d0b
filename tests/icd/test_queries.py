"""What C programs ask about objects again and again: kept answers (`vdev/packaging/library.py`) are those of the native driver."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.icd.driver import build, need_library, run_natively, run_on_vdev


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need_library()
    return build("queries.c", tmp_path_factory.mktemp("program"))


@pytest.mark.parametrize("workers", ["cpu:1", "cpu:3"])
def test_answers_while_objects_change(program: Path, workers: str) -> None:
    natively = run_natively(program)
    done = run_on_vdev(program, VDEV_WORKERS=workers)
    assert (done.returncode, done.stdout) == (natively.returncode, natively.stdout), done.stderr


def test_queries_leave_launches_ready(program: Path) -> None:
    done = run_on_vdev(program, VDEV_WORKERS="cpu:1", VDEV_LOG="info")
    found = re.search(r"(\d+) launches were made without Python", done.stderr)
    assert found is not None, done.stderr
    assert int(found[1]) > 50
