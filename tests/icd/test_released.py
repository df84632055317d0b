"""Buffers and kernels that a program releases, and that the library makes new ones of without Python (`vdev/icd/native/memory.c`):
what they leave is as natively.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.icd.driver import build, need_library, run_natively, run_on_vdev

PARTS = ("rounds", "shared", "content", "used", "gated", "events", "threads", "leaky", "kernels", "pointers")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need_library()
    return build("released.c", tmp_path_factory.mktemp("program"))


def _made(log: str) -> tuple[int, int, int, int]:
    """Launches, other commands, buffers and kernels that were made without Python."""
    launches = re.search(r"(\d+) launches were made without Python", log)
    others = re.search(r"(\d+) other commands were made without Python", log)
    objects = re.search(r"(\d+) buffers and (\d+) kernels were made without Python", log)
    counts = [0 if found is None else int(found[1]) for found in (launches, others, objects)]
    return counts[0], counts[1], counts[2], 0 if objects is None else int(objects[2])


@pytest.mark.parametrize(
    ("part", "least"),
    [
        ("rounds", (100, 0, 100, 15)),
        ("shared", (30, 15, 30, 0)),
        ("content", (50, 40, 40, 0)),
        ("used", (0, 0, 5, 0)),
        ("gated", (20, 0, 20, 0)),
        ("events", (10, 10, 10, 0)),
        ("threads", (0, 0, 0, 0)),  # mostly another thread is in Python
        ("leaky", (400, 0, 50, 0)),
        ("kernels", (0, 0, 0, 15)),  # refused launches may have changed something
        ("pointers", (0, 0, 0, 5)),  # of which there is nothing to be known
    ],
)
def test_on_one_worker(program: Path, part: str, least: tuple[int, ...]) -> None:
    """`least`: what is made without Python at least."""
    done = run_on_vdev(program, part, VDEV_WORKERS="cpu:1", VDEV_LOG="info")
    assert (done.returncode, done.stdout) == (0, run_natively(program, part).stdout), done.stderr
    assert all(map(int.__ge__, _made(done.stderr), least)), done.stderr


@pytest.mark.parametrize(
    "switches", [{"VDEV_WORKERS": "cpu:2"}, {"VDEV_EXPLAIN": "1"}, {"VDEV_CHECK": "1"}], ids=str
)
def test_where_every_command_is_looked_at(program: Path, switches: dict[str, str]) -> None:
    done = run_on_vdev(program, **{"VDEV_WORKERS": "cpu:1", "VDEV_LOG": "info"} | switches)
    assert (done.returncode, done.stdout) == (0, run_natively(program).stdout), done.stderr
    assert _made(done.stderr) == (0, 0, 0, 0)


def test_arguments_that_were_released(program: Path) -> None:
    """They are none any more, also where the same handle is another buffer's by now, and in a kernel that was copied before."""
    done = run_on_vdev(program, "gone", VDEV_WORKERS="cpu:1", VDEV_LOG="info")
    gone = "gone: -52 -52 -52, released: -38 -38, again: 1 -52 -52 0 -52\nuntold: -52\n"
    assert (done.returncode, done.stdout[done.stdout.index("gone") :]) == (0, gone), done.stderr
    assert _made(done.stderr)[2] > 20


def test_what_is_kept_does_not_keep_its_context(program: Path) -> None:
    done = run_on_vdev(program, "contexts", VDEV_WORKERS="cpu:1", VDEV_LOG="info")
    ends = [line for line in done.stdout.splitlines() if line.startswith("contexts")]
    assert (done.returncode, ends) == (0, [f"contexts gone: {count}" for count in (1, 2, 3)]), done.stderr
    assert _made(done.stderr)[2] > 10
