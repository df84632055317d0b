"""Copies between buffers of one worker, each of another box (`vdev.session.immediate_copies`), with what may come in between: on machines
without a GPU. The program is `copied_boxes`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import vdev.session.immediate_copies  # noqa: F401 (what defects are planted in is imported here, too)

from . import fake_cuda
from .cuda_host import COMPILER, MISSING

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)

SCRIPT = "import sys; sys.argv = ['', '{seed}']; from tests.pure.copied_boxes import main; main()"
#: by name: the workers, and what else is set
MACHINES: dict[str, tuple[str, dict[str, str]]] = {
    "one": ("cuda:0", {}),
    "by chance": ("cuda:0", {"FAKE_CUDA_SEED": "3"}),
    "late": ("cuda:0", {"FAKE_CUDA_LATE": "0"}),
    "refusing": ("cuda:0", {"FAKE_CUDA_REFUSED": "cuLaunchKernel", "FAKE_CUDA_SEED": "5"}),
    "little memory": ("cuda:0", {"VDEV_MEMORY": "64K"}),
    "two": ("cuda:0,1", {}),
    "kept on one of two": ("cuda:0,1", {"VDEV_PLANNING": "auto"}),
    "kept on one of two, late": ("cuda:0,1", {"VDEV_PLANNING": "auto", "FAKE_CUDA_LATE": "0"}),
    "kept on one of two, by chance": ("cuda:0,1", {"VDEV_PLANNING": "auto", "FAKE_CUDA_SEED": "4"}),
    "checked": ("cuda:0", {"VDEV_CHECK": "1"}),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cuda")


def run(folder: Path, machine: str, seed: int, **more: str) -> tuple[int, int, int]:
    """The copies that were made at once, those that were made by one call of the back end, and all."""
    workers, settings = MACHINES[machine]
    env = fake_cuda.environment(folder, workers) | {"FAKE_CUDA_DEVICES": "2", "PYOPENCL_NO_CACHE": "1"}
    said = fake_cuda.run(SCRIPT.format(seed=seed), env | settings | more)
    at_once, formed, copies = map(int, said.split()[-3:])
    return at_once, formed, copies


@pytest.mark.parametrize("machine", MACHINES)
def test_copies_of_other_boxes(machine: str, folder: Path) -> None:
    at_once, formed, copies = run(folder, machine, [*MACHINES].index(machine))
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
