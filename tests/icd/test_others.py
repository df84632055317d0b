"""Programs and libraries that others wrote, and bindings of other languages: the same output as natively, and split."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.icd.driver import HERE, LOADERS, need_library, run_in_python, run_natively, run_on_vdev

pytestmark = pytest.mark.usefixtures("driver")

JNA = Path("/usr/share/java/jna.jar")
SQUARES = ["built: 0", "read: 0"]


@pytest.fixture(scope="module")
def driver() -> None:
    need_library()
    if not LOADERS:
        pytest.skip("there is no OpenCL loader")


def compare(words: Sequence[str | Path], folder: Path) -> str:
    """What a program prints, the same both times; on vdev some kernel of it is split."""
    natively, done = run_natively(*words, folder=folder), run_on_vdev(*words, folder=folder, VDEV_EXPLAIN="1")
    assert (natively.returncode, done.returncode) == (0, 0), natively.stderr + done.stderr
    assert done.stdout == natively.stdout
    assert ", split" in done.stderr or "all split" in done.stderr, done.stderr
    return done.stdout


def need(name: str) -> str:
    """A program's path; skip where there is none."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"there is no {name}")
    return found


@pytest.mark.parametrize(("module", "is_split"), [("cv2", True), ("lightgbm", False)])
def test_libraries_for_python(module: str, is_split: bool, tmp_path: Path) -> None:
    pytest.importorskip(module)
    script = HERE / {"cv2": "opencv_calls.py", "lightgbm": "lightgbm_calls.py"}[module]
    if is_split:
        compare((sys.executable, script), tmp_path)
        return
    natively, done = (
        run_natively(sys.executable, script),
        run_on_vdev(sys.executable, script, VDEV_EXPLAIN="1"),
    )
    assert (done.returncode, done.stdout) == (0, natively.stdout), done.stderr
    assert "kernel histogram" in done.stderr


def test_a_library_that_is_handed_the_programs_objects() -> None:
    """pyclblast, which gives them back when Python is gone."""
    pytest.importorskip("pyclblast")
    words = (sys.executable, HERE / "pyclblast_calls.py")
    natively, done = run_natively(*words), run_in_python(*words, VDEV_EXPLAIN="1")
    assert (done.returncode, done.stdout) == (0, natively.stdout), done.stderr
    assert ", split" in done.stderr or "all split" in done.stderr, done.stderr


def test_openmm_agrees_with_its_reference() -> None:
    """Its own test computes forces on every platform, and compares them."""
    pytest.importorskip("openmm")
    done = run_on_vdev(sys.executable, "-m", "openmm.testInstallation", VDEV_EXPLAIN="1")
    assert done.returncode == 0, done.stderr
    assert "vs. OpenCL" in done.stdout
    assert "All differences are within tolerance." in done.stdout
    assert ", split" in done.stderr or "all split" in done.stderr


@pytest.mark.parametrize(
    "kernel", ["boxblur_opencl=2:1", "sobel_opencl", "unsharp_opencl=5:5:1", "transpose_opencl=1"]
)
def test_ffmpegs_filters(kernel: str, tmp_path: Path) -> None:
    ffmpeg = need("ffmpeg")
    known = subprocess.run([ffmpeg, "-hide_banner", "-filters"], capture_output=True, text=True).stdout
    if kernel.partition("=")[0] not in known:
        pytest.skip("this ffmpeg has no OpenCL filters")
    device = ["-init_hw_device", "opencl=one", "-filter_hw_device", "one"]
    chain = f"format=yuv420p,hwupload,{kernel},hwdownload,format=yuv420p"
    source = ["-f", "lavfi", "-i", "testsrc=size=176x144:rate=5", "-frames:v", "2"]
    compare([ffmpeg, "-loglevel", "error", *device, *source, "-vf", chain, "-f", "md5", "-"], tmp_path)


def test_java(tmp_path: Path) -> None:
    """Through JNA, with a callback."""
    java = need("java")
    if not JNA.exists():
        pytest.skip("there is no JNA (Debian's libjna-java)")
    lines = compare([java, "-cp", str(JNA), str(HERE / "Square.java")], tmp_path).splitlines()
    assert lines[:3] == [*SQUARES, "called back: 0"]


def test_node(tmp_path: Path) -> None:
    """Through koffi, where that is installed for all programs (`npm install --global koffi`), or NODE_PATH names it."""
    node, npm = need("node"), need("npm")
    root = subprocess.run([npm, "root", "--global"], capture_output=True, text=True).stdout.strip()
    folders = [Path(folder) for folder in (root, *os.environ.get("NODE_PATH", "").split(":")) if folder]
    folder = next((folder for folder in folders if (folder / "koffi").exists()), None)
    if folder is None:
        pytest.skip("there is no koffi")
    (tmp_path / "node_modules").symlink_to(folder)
    program = shutil.copy(HERE / "square.js", tmp_path)
    assert compare([node, program], tmp_path).splitlines()[:2] == SQUARES


def test_rust(tmp_path: Path) -> None:
    rustc, program = need("rustc"), tmp_path / "square"
    (tmp_path / "libOpenCL.so").symlink_to(LOADERS[0].path)
    words = [
        rustc,
        "-O",
        str(HERE / "square.rs"),
        "-o",
        str(program),
        f"-L{tmp_path}",
        "-Clink-arg=-Wl,--allow-shlib-undefined",
    ]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"rustc does not work: {done.stderr.splitlines()[-1]}")
    assert compare([program], tmp_path).splitlines()[:2] == SQUARES
