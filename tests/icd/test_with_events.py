"""Commands with events that are made without Python (`vdev/icd/native/commands.c`): what they leave, and what is said of them, is as
natively.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.icd.driver import build, need_headers, need_library, run_natively, run_on_vdev


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need_library()
    need_headers("CL/cl.h")
    return build("with_events.c", tmp_path_factory.mktemp("program"))


@pytest.fixture(scope="module")
def natively(program: Path) -> str:
    done = run_natively(program)
    assert "parent: " in done.stdout.splitlines()[-1], (
        done.stderr
    )  # all of it has run; a driver may crash at the end
    return done.stdout


def _counts(log: str) -> tuple[int, int, int]:
    """Launches, reads and other commands that were made without Python."""
    launches = re.search(r"(\d+) launches were made without Python, and (\d+) reads", log)
    others = re.search(r"(\d+) other commands were made without Python", log)
    first = (0, 0) if launches is None else (int(launches[1]), int(launches[2]))
    return *first, 0 if others is None else int(others[1])


def test_on_one_worker(program: Path, natively: str) -> None:
    done = run_on_vdev(program, VDEV_WORKERS="cpu:1", VDEV_LOG="info")
    assert (done.returncode, done.stdout) == (0, natively), done.stderr
    # most of the program's, which has about 5000 launches and 1600 other commands
    assert all(count > least for count, least in zip(_counts(done.stderr), (3000, 100, 500), strict=True))


@pytest.mark.parametrize(
    "switches", [{"VDEV_WORKERS": "cpu:2"}, {"VDEV_EXPLAIN": "1"}, {"VDEV_CHECK": "1"}], ids=str
)
def test_where_every_command_is_looked_at(program: Path, natively: str, switches: dict[str, str]) -> None:
    done = run_on_vdev(program, **{"VDEV_WORKERS": "cpu:1", "VDEV_LOG": "info"} | switches)
    assert (done.returncode, done.stdout) == (0, natively), done.stderr
    assert _counts(done.stderr) == (0, 0, 0)


@pytest.mark.parametrize("workers", ["cpu:1", "cpu:2"])
def test_what_waits_for_a_failed_event(program: Path, workers: str) -> None:
    """It fails, and what does not wait for it goes on; a driver may crash here, so this is not compared."""
    done = run_on_vdev(program, "failing", VDEV_WORKERS=workers)
    gates = [f"gate {r}: -7 -14 -14, states 0 1 1, profiled 0 {0 if r % 2 else -7}\n" for r in range(4, 8)]
    other = re.search(r"other: .*\n", done.stdout)
    assert other is not None, done.stderr
    assert (done.returncode, done.stdout) == (0, "".join(gate + other[0] for gate in gates))


def test_the_end_comes_before_the_commands(program: Path) -> None:
    """Nobody waits, and no event is released."""
    done = run_on_vdev(program, "left", VDEV_WORKERS="cpu:1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "left\n", "")


def test_events_that_are_never_released_keep_nothing_from_it(program: Path) -> None:
    done = run_on_vdev(program, "leaky", VDEV_WORKERS="cpu:1", VDEV_LOG="info")
    assert (done.returncode, done.stdout) == (0, run_natively(program, "leaky").stdout)
    launches, reads, _ = _counts(done.stderr)
    assert min(launches, reads) > 150, done.stderr  # of 200


def test_what_comes_and_goes_beside_launches_leaves_them_ready(program: Path) -> None:
    done = run_on_vdev(program, "short-lived", VDEV_WORKERS="cpu:1", VDEV_LOG="info")
    assert (done.returncode, done.stdout) == (0, run_natively(program, "short-lived").stdout)
    assert _counts(done.stderr)[0] > 150, done.stderr  # the 200 of one kernel; the others' are too few


def test_transfers_alone_go_on_without_python(program: Path) -> None:
    """Whenever Python is told of some, or its worker's thread has just begun to look."""
    done = run_on_vdev(program, "transfers", VDEV_WORKERS="cpu:1", VDEV_LOG="info")
    assert (done.returncode, done.stdout) == (0, run_natively(program, "transfers").stdout)
    assert _counts(done.stderr)[2] == 400, done.stderr
