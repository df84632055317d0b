"""The pytest plugin, in projects of its own: fixtures, markers, command-line options, and what it costs others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from vdev.harness import plugin

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

from vdev.harness import plugin

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


@pytest.mark.opencl("kernel.cl", engines=["abacus"])
def test_engine(kernels):
    raise AssertionError


@pytest.mark.opencl("kernel.cl", ignore=["race-between-groups"])
class TestOfClass:
    @pytest.mark.parametrize("count", [16, 32])
    def test_ignored(self, kernels, count):
        kernels.follow(np.zeros(1, np.int32), global_size=count, local_size=8)

    @pytest.mark.opencl("kernel.cl")
    def test_told(self, kernels):
        with pytest.raises(FindingsError):
            kernels.follow(np.zeros(1, np.int32), global_size=64, local_size=8)
"""

PROPERTIES = """
import pytest

from vdev.harness import plugin
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vdev.harness import empty

FEW = settings(max_examples=5, deadline=None, database=None, suppress_health_check=list(HealthCheck))


@pytest.mark.opencl("kernel.cl")
@FEW
@given(data=st.data())
def test_ours(kernels, data):
    data.draw(kernels.scale.calls(out=1, factor=2, n=2, global_size=2)).run()


@pytest.mark.opencl("kernel.cl")
@FEW
@given(data=st.data())
def test_theirs(kernels, data):
    assert data.draw(kernels.group.calls(global_size=2, local_size=2)).run()[0][0] == 3


@pytest.mark.opencl("kernel void k(global int *a) { a[0] = b; }")
def test_build(kernels):
    pass
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "kernel.cl").write_text(KERNEL)
    (folder / "test_kernels.py").write_text(TESTS)
    return folder


def run(project: Path, *arguments: str) -> str:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "--strict-markers",
        "-v",
        "-rs",
        *arguments,
    ]
    done = subprocess.run(command, cwd=project, text=True, capture_output=True, timeout=1800, check=False)
    return done.stdout + done.stderr


def test_each_way_is_a_test(project: Path) -> None:
    output = run(project, "--opencl-workers=cpu:1;native")

    assert "test_scale[cpu:1] PASSED" in output
    assert "test_scale[native] PASSED" in output
    assert "test_group[cpu:1-16] PASSED" in output
    assert "test_order[native-backward-16] PASSED" in output
    assert "no device matches 'abacus'; available: " in output
    assert "16 passed, 2 skipped" in output, output


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


def test_random_calls(tmp_path: Path) -> None:
    """The fixture serves all of a test's examples; failures end with a script, whoever asserts."""
    (tmp_path / "kernel.cl").write_text(KERNEL)
    (tmp_path / "test_properties.py").write_text(PROPERTIES)
    output = run(tmp_path)

    assert "3 failed" in output or "2 failed, 1 error" in output, output
    assert output.count("--- a script that shows it again ---") == 2, output
    assert "FindingsError: out-of-bounds in kernel scale, line 4" in output
    assert "\n    global_size=(2,),\n    local_size=(2,),\n)\n" in output
    assert "the program does not build:" in output
    assert "use of undeclared identifier 'b'" in output
    assert "Traceback" not in output


def test_a_marker_with_a_slip_says_what_there_is(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text(
        "import pytest\n@pytest.mark.opencl('k.cl', local_size=4)\ndef test_one(kernels): pass\n"
    )
    output = run(tmp_path)

    assert (
        "the marker opencl has no 'local_size'; it has options, workers, engines, orders, local_sizes"
        in output
    )


@pytest.mark.parametrize(
    ("marker", "said"),
    [
        (
            "'k.cl', workers='gpu:2'",
            "the workers 'gpu:2' are not valid: it names an unknown kind of worker (valid: ",
        ),
        (
            "'k.cl', local_sizes=['16', '4x4']",
            "the local size '4x4' is not valid: give one to three positive numbers",
        ),
        ("'k.cl', local_sizes=0", "the local size 0 is not valid"),
        ("'nosuch.cl'", "the marker opencl names 'nosuch.cl', but "),
    ],
)
def test_a_marker_that_leads_nowhere_says_so_without_the_plugins_own_lines(
    marker: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "k.cl").write_text("kernel void k(global int *a) { a[0] = 1; }")
    (tmp_path / "test_one.py").write_text(
        f"import pytest\n@pytest.mark.opencl({marker})\ndef test_one(kernels): pass\n"
    )
    output = run(tmp_path)

    assert said in output
    assert "def kernels" not in output, output
    assert "parse_workers" not in output, output


def test_errors_of_a_build_are_shown_once(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text(
        "import pytest\n@pytest.mark.opencl('kernel void k() { wrong(); }')\ndef test_one(kernels): pass\n"
    )
    assert run(tmp_path).count("the program does not build:") == run(tmp_path).count("wrong(); }\n") == 1


def test_an_older_pytest_is_told_of_where_fixtures_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(pytest, "HIDDEN_PARAM")
    plugin.pytest_generate_tests(SimpleNamespace(fixturenames=["tmp_path"]))  # type: ignore[arg-type]

    with pytest.raises(pytest.UsageError, match=r"pytest 8\.4 or later"):
        plugin.pytest_generate_tests(SimpleNamespace(fixturenames=[plugin._WAY]))  # type: ignore[arg-type]


REFUSED = """
import numpy as np
import pytest


@pytest.mark.opencl("kernel.cl")
def test_type(kernels):
    kernels.group(np.zeros(64, np.float32), global_size=64)


@pytest.mark.opencl("kernel.cl")
def test_size(kernels):
    kernels.group(np.zeros(64, np.int32), global_size=64, local_size=48)
"""


def test_a_refused_call_shows_the_test_alone(tmp_path: Path) -> None:
    (tmp_path / "kernel.cl").write_text(KERNEL)
    (tmp_path / "test_refused.py").write_text(REFUSED)
    text = run(tmp_path)

    assert "expected an array of int32; got an array of float32" in text
    assert "does not divide global_size (64,)" in text
    assert "arguments.py" not in text
    assert "program.py" not in text
