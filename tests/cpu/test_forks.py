"""Forked children: an error at once with the parent's context, results with one of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

SAID = {
    "parents_context": ["child 0 0", "ends"],
    "own_context": ["own 0 0 0", "nested 0", "thread 0", "ends"],
    "many": ["many {0: 60}", "ends"],
    "busy": ["busy 0 0 0 0", "ends"],
    "multiprocessing": [f"{method} [0, 1, 2, 3]" for method in ("fork", "spawn", "forkserver")] + ["ends"],
}


def run(scenario: str, **more: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "VDEV": "1", "VDEV_WORKERS": "cpu:3", **more}
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.cpu.forks", scenario],
        capture_output=True,
        text=True,
        timeout=900,
        env=environ,
        check=False,
    )


@pytest.mark.parametrize(
    ("scenario", "workers"),
    [(scenario, "cpu:3") for scenario in SAID if scenario != "own_context"]
    + [("many", "cpu:1"), ("many", "cpu:2")],
)
def test_children(scenario, workers, tmp_path):
    # Most of what the children of many forks would do is to compile. Those of the others do.
    kept = {"VDEV_CACHE": "1", "VDEV_CACHE_DIR": str(tmp_path)} if scenario == "many" else {}
    done = run(scenario, VDEV_WORKERS=workers, **kept)
    assert (done.stdout.splitlines(), done.stderr, done.returncode) == (SAID[scenario], "", 0)


def test_children_with_their_own_contexts_leave_their_parents_files_alone(tmp_path):
    trace, report = tmp_path / "trace.json", tmp_path / "report.json"
    done = run("own_context", VDEV_TRACE=str(trace), VDEV_EXPLAIN=str(report))
    assert (done.stdout.splitlines(), done.returncode) == (SAID["own_context"], 0), done.stderr
    assert json.loads(trace.read_text())
    assert json.loads(report.read_text())


def test_a_fork_waits_for_whoever_looks_for_an_invoker():
    program = """
import pyopencl as cl
from pyopencl import invoker
from tests.cpu.forks import SOURCE
from vdev.process import forking
make, inside = invoker.generate_enqueue_and_set_args, []
def noted(*args, **more):
    inside.append(forking.is_anyone_inside())
    return make(*args, **more)
invoker.generate_enqueue_and_set_args = noted
context = cl.create_some_context(interactive=False)
cl.Program(context, SOURCE).build().twice
print(inside[-1])  # the program's; a worker's own kernels are made in its turn, which a fork waits for
"""
    environ = {**os.environ, "VDEV": "1", "VDEV_WORKERS": "cpu:1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True,
        text=True,
        timeout=900,
        env=environ,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("True\n", "")
