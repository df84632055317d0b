"""C programs on the virtual device, through the loaders that are there: the same output as natively."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.icd.driver import (
    HERE,
    LOADERS,
    Loader,
    build,
    environment_on_vdev,
    need_headers,
    need_library,
    run_natively,
    run_on_vdev,
)

pytestmark = pytest.mark.usefixtures("driver")


@pytest.fixture(scope="module")
def driver() -> None:
    need_library()


@pytest.fixture(scope="module")
def vector_add(driver: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("vector_add.c", tmp_path_factory.mktemp("program"))


@pytest.mark.parametrize("loader", LOADERS, ids=lambda loader: loader.name)
def test_a_launch_is_split(vector_add: Path, loader: object) -> None:
    done = run_on_vdev(vector_add, loader=loader, VDEV_EXPLAIN="1")
    assert (done.returncode, done.stdout.splitlines()[1:]) == (0, ["0 wrong"]), done.stderr
    assert done.stdout.startswith("vdev: vdev: 3 x ")
    assert "kernel add (program 1, line 1): 2 launches, all split" in done.stderr


def test_natively_the_same_program_sees_no_vdev(vector_add: Path) -> None:
    done = run_natively(vector_add)
    assert (done.returncode, done.stdout.splitlines()[1:]) == (0, ["0 wrong"])
    assert "vdev" not in done.stdout


@pytest.mark.parametrize("way", ["exit", "pending"])
def test_the_exit_status_is_the_programs(vector_add: Path, way: str) -> None:
    done = run_on_vdev(vector_add, way)
    assert (done.returncode, done.stderr) == (3, "")


def test_signals_do_what_they_do_natively(vector_add: Path) -> None:
    """The interpreter that serves a program in C is not there for its Ctrl-C, nor for pipes that close."""
    natively, done = run_natively(vector_add, "signal"), run_on_vdev(vector_add, "signal")
    assert natively.stdout.splitlines()[1:] == ["0 wrong", "a closed pipe ends it: 1"]
    assert natively.returncode != 0
    assert (done.returncode, done.stdout.splitlines()[1:]) == (
        natively.returncode,
        natively.stdout.splitlines()[1:],
    )
    assert "Traceback" not in done.stderr


def test_objects_may_be_released_after_the_end(vector_add: Path) -> None:
    done = run_on_vdev(vector_add, LATE="1")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "released late: 0"


def test_a_forked_child_is_told(vector_add: Path) -> None:
    done = run_on_vdev(vector_add, "fork")
    assert done.returncode == 0
    assert done.stdout.splitlines()[-2:] == ["in the child: -34, 1, -34", "the child's status: 0"]
    assert done.stderr.count("a forked child cannot use its parent's OpenCL") == 1


def test_a_child_that_is_forked_while_another_thread_starts_is_told(tmp_path: Path) -> None:
    """It waits for nobody."""
    done = run_on_vdev(build("fork_while_starting.c", tmp_path, flags=("-rdynamic",)))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["in the child: -34", "the child's status: 0", "in the parent: 0"]
    assert done.stderr.count("a forked child cannot use its parent's OpenCL") == 1


def test_a_preloaded_allocator_is_the_only_one(vector_add: Path, tmp_path: Path) -> None:
    """Memory is freed by the allocator that it is of, though vdev loads modules with a loader of their own."""
    allocator = build("allocator.c", tmp_path, flags=("-shared", "-fPIC", "-fno-builtin"))
    done = run_on_vdev(vector_add, LD_PRELOAD=str(allocator))
    assert (done.returncode, done.stdout.splitlines()[1:], done.stderr) == (0, ["0 wrong"], "")
    assert done.stdout.startswith("vdev: vdev: 3 x ")


def test_what_waits_for_a_failed_event_fails(vector_add: Path) -> None:
    done = run_on_vdev(vector_add, "failed")
    assert (done.returncode, done.stdout.splitlines()[-2:]) == (0, ["waiting: -14", "failed: 1"]), done.stderr


def test_wrong_workers_are_told(vector_add: Path) -> None:
    done = run_on_vdev(vector_add, VDEV_WORKERS="opencl:77.0")
    assert (done.returncode, done.stdout[-4:]) == (1, " -1\n")
    assert "opencl:77.0, which does not exist" in done.stderr


@pytest.mark.parametrize("switch", ["VDEV_WORKERS", "VDEV_PLANNING", "VDEV_LOG"])
def test_a_wrong_switch_is_one_line(vector_add: Path, switch: str) -> None:
    done = run_on_vdev(vector_add, **{switch: "bogus"})
    assert done.returncode
    assert "Traceback" not in done.stderr
    assert f"vdev: {switch}='bogus' is not valid" in done.stderr


def test_eight_threads(driver: None, tmp_path: Path) -> None:
    done = run_on_vdev(build("threads.c", tmp_path))
    assert (done.returncode, done.stdout) == (0, "0 wrong\n"), done.stderr


def test_every_call(driver: None, tmp_path: Path) -> None:
    need_headers("CL/cl.h")
    program = build("every_call.c", tmp_path)
    natively, done = run_natively(program), run_on_vdev(program)
    assert natively.returncode == 0
    assert done.stdout.splitlines() == natively.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")


def test_specialization_constants(driver: None, tmp_path: Path) -> None:
    need_headers("CL/cl.h")
    program = build("specialised.c", tmp_path)
    natively, done = run_natively(program), run_on_vdev(program)
    if "made: 0" not in natively.stdout.splitlines():
        pytest.skip("the native engine takes no SPIR-V")
    assert "0: 142" in natively.stdout.splitlines()
    assert done.stdout.splitlines() == natively.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("workers", ["cpu:3", "cpu:1"])
def test_the_suggested_local_size_is_the_launchs(driver: None, tmp_path: Path, workers: str) -> None:
    need_headers("CL/cl.h")
    program = build("suggested.c", tmp_path)
    natively, done = run_natively(program), run_on_vdev(program, VDEV_WORKERS=workers)
    assert natively.returncode == 0, natively.stdout
    assert "the launch's: 0" not in natively.stdout
    assert done.stdout.splitlines() == natively.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("workers", ["cpu:3", "cpu:1"])
def test_a_program_of_many_threads(driver: None, tmp_path: Path, workers: str) -> None:
    need_headers("CL/cl.h")
    program = build("pipeline.c", tmp_path)
    natively, done = run_natively(program), run_on_vdev(program, VDEV_WORKERS=workers)
    assert natively.returncode == 0, natively.stdout
    assert sorted(done.stdout.splitlines()) == sorted(natively.stdout.splitlines())
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("workers", ["cpu:3", "cpu:1"])
def test_callbacks_are_called_in_order_one_at_a_time(driver: None, tmp_path: Path, workers: str) -> None:
    need_headers("CL/cl.h")
    program = build("callbacks.c", tmp_path)
    natively, done = run_natively(program), run_on_vdev(program, "waits", VDEV_WORKERS=workers)
    assert "launches: 1500 called, 0 out of place, 0 at one time" in natively.stdout.splitlines()
    *lines, waited, last = done.stdout.splitlines()
    assert [*lines, last] == natively.stdout.splitlines()
    assert waited == "a callback saw the end of a later command: 0"
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("loader", LOADERS, ids=lambda loader: loader.name)
def test_clinfo_says_what_vdev_info_says(loader: Loader) -> None:
    clinfo = shutil.which("clinfo")
    if clinfo is None:
        pytest.skip("there is no clinfo")
    done = run_on_vdev(clinfo, loader=loader)
    told = subprocess.run(
        [sys.executable, "-m", "vdev.cli.info"], env=environment_on_vdev(), capture_output=True, text=True
    )
    assert run_natively(clinfo, loader=loader).returncode == done.returncode == 0
    assert "error" not in done.stdout
    assert done.stderr == ""
    lines = {
        line.strip().partition("  ")[0]: line.split("  ")[-1].strip() for line in done.stdout.splitlines()
    }
    assert lines["Platform Name"] == "vdev"
    nbytes = [
        f"{int(lines[name].split()[0]) / 2**30:.1f} GiB"
        for name in ("Global memory size", "Max memory allocation")
    ]
    facts = [
        f"virtual device: {lines['Device Name']}",
        f"{lines['Max compute units']} compute units, {nbytes[0]}, largest allocation {nbytes[1]}",
    ]
    assert [line.strip() for line in told.stdout.splitlines()[:2]] == facts


@pytest.mark.parametrize(
    ("source", "header", "libraries"), [("clblast_calls.cpp", "clblast.h", ["-lclblast"])]
)
def test_libraries_in_other_languages(source: str, header: str, libraries: list[str], tmp_path: Path) -> None:
    need_headers("CL/cl.h", header)
    program = build(source, tmp_path, links=libraries)
    natively, done = run_natively(program), run_on_vdev(program, VDEV_EXPLAIN="1")
    assert (done.returncode, done.stdout) == (natively.returncode, natively.stdout)
    assert ", split" in done.stderr


def test_erlang() -> None:
    escript, bindings = shutil.which("escript"), [*Path("/usr/lib/erlang/lib").glob("cl-*")]
    if escript is None or not bindings:
        pytest.skip("there is no Erlang with erlang-cl")
    words = (escript, HERE / "erlang_calls.erl")
    natively, done = run_natively(*words), run_on_vdev(*words, VDEV_EXPLAIN="1")
    assert (done.returncode, done.stdout) == (natively.returncode, natively.stdout) == (0, done.stdout)
    assert "kernel square (program 1, line 1): 1 launch, split" in done.stderr


def test_tinygrad() -> None:
    pytest.importorskip("tinygrad")
    words = (sys.executable, HERE / "tinygrad_calls.py")
    natively, done = run_natively(*words), run_on_vdev(*words, VDEV_EXPLAIN="1")
    assert (done.returncode, done.stdout) == (0, natively.stdout), done.stderr
    assert ", split" in done.stderr


def test_clblasts_own_tests() -> None:
    program = shutil.which("clblast_test_xaxpy")
    if program is None:
        pytest.skip("there are no clblast-tests")
    natively, done = run_natively(program), run_on_vdev(program, VDEV_EXPLAIN="1")
    assert done.returncode == natively.returncode == 0
    assert "0 test(s) failed" in done.stdout
    assert ", split" in done.stderr or "all split" in done.stderr


def test_hashcat_finds_what_has_a_hash() -> None:
    """It tests its kernels by itself before."""
    program = shutil.which("hashcat")
    if program is None:
        pytest.skip("there is no hashcat")
    hashed = "81dc9bdb52d04dc20036dbd8313ed055"
    options = ("--quiet", "--force", "--potfile-disable", "-m", "0", "-a", "3")
    done = run_on_vdev(program, *options, hashed, "?d?d?d?d")
    assert done.stdout.splitlines()[-1] == f"{hashed}:1234", done.stderr
