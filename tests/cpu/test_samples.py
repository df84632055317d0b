"""The samples on a virtual device of three CPU workers: each ends well and says what it checked.

Decides with which small sizes they run; what is right each sample decides by itself.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
NAMES = sorted(path.stem for path in SAMPLES.glob("*.py") if path.stem != "common")

#: Arguments that keep a sample short and yet give every worker some work-groups, some of them partly used.
ARGUMENTS = {
    "binomial_option": "--size 26",
    "bitonic_sort": "--size 3000",
    "black_scholes": "--size 5000",
    "breadth_first_search": "--size 700",
    "cartoon_filter": "--size 70",
    "conjugate_gradient": "--size 150 --iterations 40",
    "convolution_2d": "--size 70",
    "correlator": "--size 9 --channels 5 --times 8",
    "coulombic_potential": "--size 70 --atoms 4100",
    "eigenvalue_bisection": "--size 200",
    "electron_repulsion": "--size 12",
    "embarrassingly_parallel": "--size 16",
    "fft": "--size 2048",
    "fill_and_sum": "--size 5000",
    "heat_equation": "--size 70 --steps 20",
    "histogram": "--size 9000",
    "image_pyramid": "--size 70",
    "k_means": "--size 3000 --steps 3",
    "kernel_chain": "--size 1000",
    "lattice_boltzmann": "--size 20 --steps 30",
    "mandelbrot": "--size 70",
    "matrix_multiplication": "--size 70",
    "mri_q": "--size 9 --samples 1100",
    "nbody": "--size 500 --steps 3",
    "option_arrays": "--size 3000 --steps 3",
    "out_of_order": "--size 3000",
    "page_rank": "--size 700 --steps 3",
    "particle_binning": "--size 3000",
    "reduction": "--size 5000",
    "saxpy": "--size 5000",
    "scan_sort_compact": "--size 10000",
    "sgemm": "--size 300",
    "sgemv": "--size 70",
    "stencil_3d": "--size 70 --steps 3",
    "tpacf": "--size 600 --sets 3",
    "transpose": "--size 70",
    "triangular": "--size 70",
    "vector_addition": "--size 5000",
}
PICTURES = ("cartoon_filter", "heat_equation")


def run(name: str, *arguments: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run a sample in a process of its own, in `directory`, on three CPU workers."""
    return subprocess.run(
        [sys.executable, str(SAMPLES / f"{name}.py"), *arguments],
        cwd=directory,
        env=os.environ | {"VDEV": "1", "VDEV_WORKERS": "cpu:3"},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


@pytest.mark.parametrize("name", NAMES)
def test_sample_checks_itself_on_the_virtual_device(name: str, tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    arguments = ARGUMENTS[name].split()
    if name in PICTURES:
        arguments += ["--output", str(picture)]

    process = run(name, *arguments, directory=tmp_path)

    assert process.returncode == 0, process.stdout + process.stderr
    assert re.search(r"on vdev: 3 x ", process.stdout), process.stdout
    assert re.search(r"^check ok: ", process.stdout, re.MULTILINE), process.stdout
    if name in PICTURES:
        assert picture.read_bytes().startswith(b"\x89PNG\r\n")
    else:
        assert not any(tmp_path.iterdir())


def test_sample_with_a_bad_size_says_so(tmp_path: Path) -> None:
    process = run("fft", "--size", "100", directory=tmp_path)

    assert process.returncode == 2
    assert "100 is not a power of two" in process.stderr


def test_failed_check_ends_with_an_error(tmp_path: Path) -> None:
    """What every sample relies on: `common.check` lets no wrong, missing or undefined value pass."""
    for computed, expected in (
        ("[1.0, 2.1]", "[1, 2]"),
        ("[1.0]", "[1, 2]"),
        ("[]", "[]"),
        ("[1, float('nan')]", "[1, 2]"),
    ):
        code = f"import common; common.check('numbers', {computed}, {expected}, 1e-3)"
        process = subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(SAMPLES)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert process.returncode == 1
        assert "check FAILED: numbers" in process.stderr
        assert "check ok" not in process.stdout


@pytest.mark.parametrize("name", [*NAMES, "common"])
def test_sample_is_an_ordinary_program(name: str) -> None:
    assert "vdev" not in (SAMPLES / f"{name}.py").read_text(encoding="utf-8").lower()


def test_table_lists_every_sample() -> None:
    table = (SAMPLES / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)\.py`", table, re.MULTILINE) == NAMES
