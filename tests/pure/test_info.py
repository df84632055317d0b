"""`vdev-info` as a program: what it says, and its exit status, on machines where things are wrong.

Where the tests have a CPU engine it has to find it usable; everything else is made up through the
environment.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from vdev.cli import info
from vdev.process import switches
from vdev.start import engines

HAS_ENGINE = bool(engines.find_engines())


def run(*arguments: str, **environ: str) -> tuple[int, str]:
    """Exit status and output of vdev-info, with nothing of vdev's set but `environ`."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("VDEV")}
    done = subprocess.run(
        [sys.executable, "-m", "vdev.cli.info", *arguments],
        env=clean | environ,
        text=True,
        capture_output=True,
        timeout=900,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout


def run_json(**environ: str) -> tuple[int, dict[str, Any]]:
    status, output = run("--json", **environ)
    return status, json.loads(output)


def texts(report: dict[str, Any]) -> str:
    return "\n".join(f"{problem['text']} {problem['remedy']}" for problem in report["problems"])


@pytest.mark.skipif(not HAS_ENGINE, reason="no OpenCL driver here")
def test_a_machine_where_all_is_well():
    status, report = run_json(VDEV_WORKERS="cpu:3")
    assert status == 0, texts(report)
    assert report["usable"]
    assert [worker["kernel_ran"] for worker in report["workers"]] == [True, True, True]
    assert [link["workers"] for link in report["links"]] == [[0, 1], [0, 2], [1, 2]]
    assert report["device"]["memory_nbytes"] == sum(worker["memory_nbytes"] for worker in report["workers"])
    assert {worker["compute_units"] for worker in report["workers"]} == {report["device"]["compute_units"]}
    assert report["device"]["name"].startswith("vdev: 3 x ")
    assert report["engines"]
    assert "opencl:0.0" in [device["spec"] for device in report["native_devices"]]
    row = next(row for row in report["switches"] if row["name"] == "VDEV_WORKERS")
    assert (row["text"], row["set"], row["default"]) == ("cpu:3", True, "auto")


@pytest.mark.skipif(not HAS_ENGINE, reason="no OpenCL driver here")
def test_the_text_says_the_same():
    status, text = run(VDEV_WORKERS="cpu:2", VDEV_WORKES="1")
    assert status == 0
    assert text.count("kernel ran") == 2
    assert all(switch.name in text for switch in switches.SWITCHES)
    assert "VDEV_WORKES is set but is not a switch" in text
    assert "did you mean VDEV_WORKERS?" in text
    assert "programs can run" in text


def test_a_bad_switch():
    status, report = run_json(VDEV_WORKERS="gpu")
    assert status == 1
    assert not report["usable"]
    assert "VDEV_WORKERS='gpu' is not valid" in texts(report)
    assert "valid: auto, cpu:N" in texts(report)


@pytest.mark.skipif(not HAS_ENGINE, reason="no OpenCL driver here")
def test_a_program_is_told_once_of_a_switch_with_a_slip():
    script = "import pyopencl as cl; [cl.create_some_context(interactive=False) for _ in range(2)]"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"VDEV": "1", "VDEV_WORKERS": "cpu:1", "VDEV_WORKES": "cpu:2"},
        text=True,
        capture_output=True,
        timeout=900,
        check=False,
    )
    said = "VDEV_WORKES is set but is not a switch: did you mean VDEV_WORKERS?\n"
    assert (done.returncode, done.stderr) == (0, said)


@pytest.mark.parametrize("workers", ["gpu:2", "opencl:99.0"])
def test_links_of_workers_that_are_not_there(workers):
    status, output = run("--links", VDEV_WORKERS=workers)  # which looks for a traceback
    assert (status, output) == (1, "")


def test_a_device_that_is_not_there():
    status, report = run_json(VDEV_WORKERS="opencl:7.0")
    assert status == 1
    problem = next(each for each in report["problems"] if "opencl:7.0" in each["text"])
    assert problem["text"].startswith("VDEV_WORKERS names opencl:7.0, which does not exist; available: ")
    assert problem["remedy"] == "set VDEV_WORKERS to what can be used, or unset it"


def test_what_was_not_looked_for_is_not_called_missing():
    _, text = run(VDEV_WORKERS="gpu")
    assert "CUDA" not in text.split("switches")[0]


@pytest.fixture
def without(tmp_path):
    """PYTHONPATH of a folder in which the named module does not import."""

    def path(name: str, error: str) -> str:
        module = tmp_path / name.replace(".", "/")
        module.parent.mkdir(parents=True, exist_ok=True)
        if "." in name:
            (module.parent / "__init__.py").touch()
        module.with_suffix(".py").write_text(error)
        return str(tmp_path)

    return path


@pytest.mark.parametrize("name", ["sympy", "clang.cindex"])
def test_a_missing_package(without, name):
    status, report = run_json(PYTHONPATH=without(name, f"raise ModuleNotFoundError('no {name}')"))
    assert status == 1
    distribution = {"clang.cindex": "libclang"}.get(name, name)
    assert f"{distribution} is missing (no {name}) pip install {distribution}" in texts(report)


def test_libclang_that_does_not_load(without):
    fake = (
        "class LibclangError(Exception): pass\n"
        "class Index:\n    @staticmethod\n    def create(): raise LibclangError('no libclang.so')\n"
    )
    status, report = run_json(PYTHONPATH=without("clang.cindex", fake))
    assert status == 1
    assert "libclang does not load: no libclang.so" in texts(report)


def test_no_driver(tmp_path):
    """A driver that is no library is no driver; the text says so."""
    library = tmp_path / "libnothing.so"
    library.touch()
    status, report = run_json(OCL_ICD_VENDORS=str(library))
    assert status == 1
    assert f"{library} (OCL_ICD_VENDORS) cannot be loaded: " in texts(report)


def test_a_kernel_that_gives_wrong_results_is_noticed(monkeypatch):
    report = info.Report(workers=[{"kernel_ran": True}, {"kernel_ran": False}])
    assert not report.usable
    assert info.Report(workers=[{"kernel_ran": True}]).usable
    assert not info.Report(workers=[]).usable
    assert not info.Report(workers=[{"kernel_ran": True}], problems=[info.Problem("x")]).usable
    assert info.Report(workers=[{"kernel_ran": True}], problems=[info.Problem("x", fatal=False)]).usable


def test_the_hooks_name_is_the_packaged_ones():
    assert (Path(info.__file__).parents[1] / "packaging" / info.HOOK_NAME).is_file()


def test_it_says_why_calls_of_gpus_are_made_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from vdev.backends import call_lists
    from vdev.backends.cuda import driver

    def missing() -> call_lists.Walker:
        raise call_lists.NoWalker("there is no C compiler")

    monkeypatch.setattr(driver, "device_names", lambda: ["a GPU"])
    monkeypatch.setattr(call_lists, "walker", missing)
    report = info.Report()
    info._look_at_cuda(report)
    assert report.gpus == [{"spec": "cuda:0", "name": "a GPU"}]
    assert "GPUs' calls are made one by one (there is no C compiler)" in info._text_of_engines(report)
    monkeypatch.setattr(call_lists, "walker", lambda: lambda *given: 0)
    report = info.Report()
    info._look_at_cuda(report)
    assert not any("one by one" in line for line in info._text_of_engines(report))
