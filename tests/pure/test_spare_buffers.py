"""Buffers that a program has released serve those that it makes next (`vdev.session.spare_buffers`). The programs are
`released_buffers`'; here, on machines without a GPU, and on CPU workers, which plan and repeat launches in other ways.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import vdev.session.spare_buffers  # noqa: F401 (what defects are planted in is imported here, too)

from . import fake_cuda
from .cuda_host import COMPILER, MISSING

SPLIT = {"VDEV_PLANNING": "always", "VDEV_GATHER": "0", "VDEV_MIN_ITEMS": "1"}
#: by name: the workers, what else is set, and the programs that run there
MACHINES: dict[str, tuple[str, dict[str, str], str]] = {
    "one": ("cuda:0", {}, "again failing in_a_row held_back still_in_use garbage locked few"),
    "split": (
        "cuda:0,1",
        SPLIT,
        "again failing in_a_row held_back still_in_use garbage locked few scattered",
    ),
    "three": ("cuda:0-2", SPLIT | {"FAKE_CUDA_SEED": "6"}, "again in_a_row held_back scattered"),
    "little memory": ("cuda:0,1", SPLIT | {"VDEV_MEMORY": "200K"}, "room in_a_row"),
    "one with little memory": ("cuda:0", {"VDEV_MEMORY": "200K"}, "room in_a_row"),
}
SCRIPT = (
    "import sys; sys.argv = ['', *'{programs}'.split()]; from tests.pure.released_buffers import main; main()"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cuda")


def run(folder: Path, machine: str, programs: str, **more: str) -> str:
    workers, settings, _ = MACHINES[machine]
    env = fake_cuda.environment(folder, workers) | {"FAKE_CUDA_DEVICES": "4", "PYOPENCL_NO_CACHE": "1"}
    env.pop("VDEV_PLANNING", None)
    return fake_cuda.run(SCRIPT.format(programs=programs), env | settings | more)


def run_on_cpu(programs: str, **more: str) -> str:
    """The same on two CPU workers."""
    env = os.environ | {"VDEV": "1", "VDEV_WORKERS": "cpu:2", "VDEV_MIN_ITEMS": "1", "PYOPENCL_NO_CACHE": "1"}
    ahead = f"from tests.fuzz.mutations import plant; plant({more[fake_cuda.PLANTED]!r})\n" if more else ""
    command = [sys.executable, "-c", ahead + SCRIPT.format(programs=programs)]
    done = subprocess.run(
        command, env=env, cwd=fake_cuda.ROOT, capture_output=True, text=True, check=False, timeout=1800
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_released_buffers_serve_again_on_cpu_workers() -> None:
    programs = "in_a_row held_back still_in_use garbage scattered"
    assert run_on_cpu(programs).split() == ["done", *programs.split()]


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
@pytest.mark.parametrize("machine", MACHINES)
def test_released_buffers_serve_again(machine: str, folder: Path) -> None:
    programs = MACHINES[machine][2]
    assert run(folder, machine, programs).split() == ["done", *programs.split()]


#: what would go wrong, and the program that shows it
DEFECTS = {
    "a new buffer has what a released one had": "again",
    "launches in a row go on with a buffer that has become another's": "in_a_row",
    "released buffers serve again while a command is held back": "held_back",
    "a part of a released buffer is its own": "still_in_use",
    "a released buffer's failures are the next one's": "failing",
    "released buffers are in the way": "room",
    "released buffers are garbage": "garbage",
    "whoever makes a buffer waits for whoever plans": "locked",
}


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_is_found(defect: str, folder: Path) -> None:
    program, planted = DEFECTS[defect], {fake_cuda.PLANTED: defect}
    machine = "little memory" if program == "room" else "split"
    with pytest.raises(AssertionError):
        run_on_cpu(program, **planted) if program == "in_a_row" else run(folder, machine, program, **planted)
