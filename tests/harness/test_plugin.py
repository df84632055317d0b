"""The pytest plugin, in projects of its own: fixtures, markers, command-line options, and what it costs others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

KERNEL = """
kernel void scale(global float *out, global const float *in, float factor, int n) {
  int i = get_global_id(0);
  if (i < n) out[i] = factor * in[i];
}
kernel void group(global int *out) { out[get_global_id(0)] = get_local_size(0); }
kernel void follow(global int *out) { out[0] = get_group_id(0); }
"""

TESTS = """
import numpy as np
import pytest

from vdev.harness import FindingsError, assert_equal, empty


@pytest.mark.opencl("kernel.cl")
def test_scale(kernels):
    x = np.arange(50, dtype=np.float32)
    (y,) = kernels.scale(empty(50, np.float32), x, 2.0, 50, global_size=64)
    assert_equal(y, 2 * x)


@pytest.mark.opencl("kernel.cl", local_sizes=[4, 16])
def test_group(kernels, request):
    (y,) = kernels.group(np.zeros(64, np.int32), global_size=64)
    assert f"[{y[0]}]" in request.node.name.replace("cpu:1-", "")


@pytest.mark.opencl("kernel.cl", orders=["forward", "backward"], check=False, local_sizes=16)
def test_order(kernels, request):
    (y,) = kernels.follow(np.zeros(1, np.int32), global_size=64)
    assert y[0] == (0 if "backward" in request.node.name else 3)


def test_overrun(opencl_program):
    program = opencl_program("kernel void k(global int *a) { a[get_global_id(0)] = 1; }")
    with pytest.raises(FindingsError, match="out-of-bounds"):
        program.k(empty(7, np.int32), global_size=8)
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "kernel.cl").write_text(KERNEL)
    (folder / "test_kernels.py").write_text(TESTS)
    return folder


def run(project: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--strict-markers", "-v", *arguments]
    done = subprocess.run(command, cwd=project, text=True, capture_output=True, timeout=300, check=False)
    return done.stdout + done.stderr


def test_each_way_is_a_test(project: Path) -> None:
    output = run(project, "--opencl-workers=cpu:1;native")

    assert "test_scale[cpu:1] PASSED" in output
    assert "test_scale[native] PASSED" in output
    assert "test_group[cpu:1-16] PASSED" in output
    assert "test_order[native-backward-16] PASSED" in output
    assert "10 passed" in output, output


def test_a_single_way_leaves_names_as_they_are(project: Path) -> None:
    output = run(project, "-k", "scale or overrun", "--opencl-workers=cpu:3")

    assert "test_scale PASSED" in output, output
    assert "2 passed" in output


def test_checks_can_be_switched_off(project: Path) -> None:
    output = run(project, "-k", "overrun", "--no-opencl-check")

    assert "DID NOT RAISE" in output, output


def test_a_fixture_without_a_marker_says_what_is_missing(project: Path, tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text("def test_one(kernels): pass")

    assert "mark it with @pytest.mark.opencl" in run(tmp_path)


def test_a_project_that_does_not_use_it_loads_next_to_nothing() -> None:
    seen = "import sys, pytest, vdev.harness.plugin; print(sorted(m for m in sys.modules if m.startswith('vdev') or m in ('numpy', 'clang', 'pyopencl', 'sympy')))"  # noqa: E501
    done = subprocess.run([sys.executable, "-c", seen], text=True, capture_output=True, check=True)

    assert done.stdout.strip() == "['vdev', 'vdev.harness', 'vdev.harness.plugin']"
