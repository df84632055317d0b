"""Programs and random kernels on workers that behave as GPUs do: direct transfers, merges on workers, no homes."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.cpu.svm_programs import FINE, PROGRAMS
from tests.cpu.test_svm import results

ENVIRONMENT = {
    "VDEV": "1",
    "VDEV_WORKERS": "cpu:3",
    "VDEV_MIN_ITEMS": "0",
    "PYOPENCL_NO_CACHE": "1",
}


def far(*arguments: str) -> str:
    """What a module writes on such workers."""
    command = [sys.executable, "-m", "tests.cpu.far_workers", *arguments]
    done = subprocess.run(
        command, env=os.environ | ENVIRONMENT, capture_output=True, text=True, check=False, timeout=900
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_programs() -> None:
    results = json.loads(far("tests.cpu.programs").splitlines()[-1])
    assert len(results) >= 19
    assert {name: found["error"] for name, found in results.items() if found["error"]} == {}


@pytest.mark.parametrize("ways", [[], ["--changing"]])
def test_shared_virtual_memory(ways: list[str]) -> None:
    """But for what needs the host's addresses."""
    found = json.loads(far(*ways, "tests.cpu.svm_programs", "--far").split("RESULTS")[1])
    expected = results(None)
    for name in (*PROGRAMS, *FINE):
        assert found[name] == expected[name], name


def test_random_kernels() -> None:
    assert "60 kernels, 0 programs failed" in far("tests.cpu.equivalence_long", "60", "7000")


def test_programs_whose_buffers_are_kept_on_one_worker_and_let_go() -> None:
    results = json.loads(far("--changing", "tests.cpu.programs").splitlines()[-1])
    assert {name: found["error"] for name, found in results.items() if found["error"]} == {}


def test_random_kernels_whose_buffers_are_kept_on_one_worker_and_let_go() -> None:
    assert "60 kernels, 0 programs failed" in far("--changing", "tests.cpu.equivalence_long", "60", "7000")
