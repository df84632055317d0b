"""`vdev-info --explain` and VDEV_EXPLAIN on a CPU engine: what they say of real programs, where they say it,
and that the program runs as it would without."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cpu.test_samples import ARGUMENTS, NAMES, PICTURES, SAMPLES
from tests.cpu.test_statistics import EVERYTHING, check_bytes
from tests.trace_reader import Trace, check_sums, read_with_perfetto

Done = subprocess.CompletedProcess[str]


def run(*command: str, cwd: Path, workers: str = "cpu:3", **environ: str) -> Done:
    settings = {
        "VDEV_WORKERS": workers,
        "VDEV_MIN_ITEMS": "0",
        "VDEV_PLANNING": "always",
        "PYOPENCL_NO_CACHE": "1",
    }
    clean = {name: value for name, value in os.environ.items() if not name.startswith("VDEV")}
    return subprocess.run(
        [sys.executable, *command],
        env=clean | settings | environ,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


def explain(*arguments: str, cwd: Path, **rest: str) -> Done:
    return run("-m", "vdev.cli.info", "--explain", *arguments, cwd=cwd, **rest)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("explain")
    (folder / "everything.py").write_text(EVERYTHING)
    (folder / "ends.py").write_text(
        EVERYTHING + "import sys\nprint(sys.argv[1:])\nsys.exit(int(sys.argv[1]))\n"
    )
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_samples(name: str, tmp_path: Path) -> None:
    """What the report says adds up to what the back ends counted and to the trace; every launch that was not
    split has a reason."""
    arguments = ARGUMENTS[name].split() + (["--output", "picture.png"] if name in PICTURES else [])
    program = str(SAMPLES / f"{name}.py")
    done = explain("--json", program, *arguments, cwd=tmp_path, VDEV_TRACE="trace.json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["exit_status"] == 0
    assert "check ok: " in done.stderr  # what the program prints
    check_bytes(report)
    trace = Trace(tmp_path / "trace.json")
    check_sums(trace, report)
    read_with_perfetto(tmp_path / "trace.json", report)
    for number in range(3):
        assert trace.track(f"worker {number}: ")
    assert report["timed"]
    assert report["kernels"]
    for kernel in report["kernels"]:
        assert kernel["times"]["kernel_ns"] > 0
        for partition in kernel["partitions"]:
            assert partition["reasons"] or partition["workers"] == partition["available"]
    for advice in report["advice"]:
        assert advice["line"] is None or advice["line"] > 0
        assert advice["change"]


def test_the_report_follows_what_the_program_prints(folder: Path) -> None:
    done = explain("ends.py", "0", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("['0', '--json']\n\nvdev: 8 launches on 3 workers")
    text = " ".join(done.stdout.split())
    for part in (
        "kernel scatter (program 1, line 2): 3 launches, all split",
        "out       write, not exact  65.5 kB",
        "`out[idx[i]]`, line 5: an index that depends on a value loaded from memory",
        "kernel turn (program 1, line 14): 1 launch, not split",
        "bins      atomic, not exact",
        "the same buffer as a in some launches, its bytes counted there",
        "  fill: 1 x, moved nothing",
        "the back ends counted the same bytes",
        "written through an index, so results of several workers are compared: 65.5 kB of its 65.5 kB at each launch",
        "largest expense apart from the kernels' own work: ",
    ):
        assert " ".join(part.split()) in text, done.stdout
    assert re.search(r"why: argument `flag`: [^`]*, line 15: `if \(atomic_add", text), done.stdout
    assert re.search(
        r"time: kernel \d\S* \Ss, transfer \d\S* \Ss, .*planning \d\S* ms \(2 plans\)", done.stdout
    )
    assert re.search(r"^  1\. `", done.stdout, re.MULTILINE)


def test_advice_names_the_line_that_costs_most(folder: Path) -> None:
    done = explain("--json", "everything.py", cwd=folder)
    report = json.loads(done.stdout)
    lines = [advice["line"] for advice in report["advice"]]
    assert 5 in lines
    scatter = next(advice for advice in report["advice"] if advice["line"] == 5)
    assert scatter["text"] == "out[idx[i]]"
    assert scatter["cost_nbytes"] == report["kernels"][0]["arguments"][0]["moved"]["worker_to_host"] + (
        report["kernels"][0]["arguments"][0]["moved"]["host_to_worker"]
        + report["kernels"][0]["arguments"][0]["moved"]["worker_to_worker"]
    )
    costs = [advice["cost_ns"] for advice in report["advice"]]
    assert costs == sorted(costs, reverse=True)


def test_modules_code_and_statuses(folder: Path) -> None:
    done = explain("-m", "ends", "5", cwd=folder)
    assert (done.returncode, done.stdout.count("\nkernel scatter")) == (5, 1)
    done = explain("-c", EVERYTHING + "1 / 0", cwd=folder)
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr
    assert "kernel scatter" in done.stdout


def test_programs_that_leave_no_report(folder: Path) -> None:
    done = explain("-c", "import sys; print('hello'); sys.exit(3)", cwd=folder)
    assert done.returncode == 3
    assert done.stdout.startswith("hello\n\nvdev: no report: the program did not use the virtual device")
    done = explain("--json", "-c", "import os, signal; os.kill(os.getpid(), signal.SIGTERM)", cwd=folder)
    assert done.returncode == 128 + 15
    assert json.loads(done.stdout) == {
        "problem": "no report: the program was ended by signal 15",
        "exit_status": 143,
    }
    assert explain("nowhere.py", cwd=folder).returncode != 0


def test_usage(folder: Path) -> None:
    assert explain(cwd=folder).returncode == 2
    done = explain("--help", cwd=folder)
    assert (done.returncode, done.stdout.splitlines()[0][:30]) == (0, "usage: vdev-info --explain [--")


def test_processes_that_the_program_starts_report_as_well(folder: Path) -> None:
    code = "import runpy, subprocess, sys; subprocess.run([sys.executable, 'everything.py'], check=True)\n"
    done = explain("--json", "-c", code + "runpy.run_path('everything.py')", cwd=folder)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    (other,) = report["processes"].values()
    assert other["moved"] == report["moved"]


_NEW_EACH_TIME = """
import numpy as np, pyopencl as cl
context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
source = "kernel void k(global int *out) { if (get_global_id(0) == 0) out[0] = get_num_groups(0); }"
kernel, found = cl.Program(context, source).build().k, np.zeros(1, np.int32)
for number in range(300):
    out = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4)
    kernel(queue, (8192 + 64 * number,), (64,), out)
    cl.enqueue_copy(queue, found, out)
    assert found[0] == 128 + number
"""


def test_plans_for_new_buffers_each_time_are_given_up(tmp_path: Path) -> None:
    """Short launches, each on a buffer of its own and over another size: what planning them takes is noticed all the same."""
    (tmp_path / "anew.py").write_text(_NEW_EACH_TIME)
    done = run("anew.py", cwd=tmp_path, VDEV="1", VDEV_PLANNING="auto", VDEV_EXPLAIN="1")
    assert done.returncode == 0, done.stderr
    launches = re.search(r"kernel k \(program 1, line 1\): 300 launches, (\d+) split", done.stderr)
    assert launches is not None, done.stderr
    assert int(launches[1]) < 100


def test_the_switch_writes_to_the_error_stream(folder: Path) -> None:
    done = run("everything.py", cwd=folder, VDEV="1", VDEV_EXPLAIN="1")
    assert (done.returncode, done.stdout) == (0, "")
    assert "vdev: 8 launches on 3 workers" in done.stderr
    assert "advice, most expensive first" in done.stderr


@pytest.mark.parametrize("name", ["report.txt", "report.json"])
def test_the_switch_writes_to_a_file(name: str, folder: Path) -> None:
    done = run("everything.py", cwd=folder, VDEV="1", VDEV_EXPLAIN=name)
    assert (done.returncode, done.stdout) == (0, "")
    assert "launches" not in done.stderr
    text = (folder / name).read_text()
    if name.endswith(".json"):
        assert json.loads(text)["kernels"][0]["name"] == "scatter"
    else:
        assert "vdev: 8 launches on 3 workers" in text


def test_without_the_switch_nothing_is_said_or_recorded(folder: Path) -> None:
    code = EVERYTHING + "import vdev, sys; print(vdev.stats().timed, 'vdev.observe.explain' in sys.modules)"
    done = run("-c", code, cwd=folder, VDEV="1")
    assert done.stdout == "False False\n", done.stderr
    assert "launches" not in done.stderr
