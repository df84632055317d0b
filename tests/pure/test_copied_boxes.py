"""Copies between buffers of one worker, each of another box (`vdev.session.immediate_copies`), with what may come in between: on machines
without a GPU. The program is `copied_boxes`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import vdev.session.immediate_copies  # noqa: F401 (what defects are planted in is imported here, too)

from . import fake_cuda, gpu_runs
from .cuda_host import COMPILER, MISSING

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cuda")


def run(folder: Path, machine: str, seed: int, **more: str) -> tuple[int, int, int]:
    """The copies that were made at once, those that were made by one call of the back end, and all."""
    said = gpu_runs.run(folder, gpu_runs.ONE_WORKER[machine], ["copied_boxes"], [seed], **more)
    at_once, formed, copies = map(int, said.split()[-3:])
    return at_once, formed, copies


@pytest.mark.parametrize("machine", gpu_runs.ONE_WORKER)
def test_copies_of_other_boxes(machine: str, folder: Path) -> None:
    at_once, formed, copies = run(folder, machine, [*gpu_runs.ONE_WORKER].index(machine))
    if machine == "checked":
        assert not at_once
    elif machine not in ("refusing", "little memory", "two"):
        least = copies // (4 if machine.startswith("kept") else 2)
        assert at_once > least
        assert formed > least


#: by defect: the machine that shows it
DEFECTS = {
    "copies like others do not wait for the program": "one",
    "copies like others are not refused beyond their buffer": "one",
    "copies like others are of buffers that are not parts": "one",
    "copies within a buffer are copies like others": "one",
    "boxes are copied in the units of the first one": "one",
    "fills like others are not refused beyond their buffer": "one",
    "fills like others have the first one's pattern": "one",
    "boxes are put beyond the program's array": "one",
    "boxes on their way have the bytes between them": "one",
    "copies like others are all of the same length": "one",
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_is_found(defect: str, folder: Path) -> None:
    with pytest.raises(AssertionError, match=r"Error|free|illegal|not aligned"):
        run(folder, DEFECTS[defect], 0, **{fake_cuda.PLANTED: defect})
