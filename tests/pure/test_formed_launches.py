"""Launches on one worker whose arguments are others each time (`vdev.session.immediate_forms`), with what may come in between: on
machines without a GPU. The program is `formed_launches`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import vdev.session.immediate_forms  # noqa: F401 (what defects are planted in is imported here, too)

from . import fake_cuda
from .cuda_host import COMPILER, MISSING

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)

SCRIPT = "import sys; sys.argv = ['', '{seed}']; from tests.pure.formed_launches import main; main()"
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


def run(folder: Path, machine: str, seed: int, **more: str) -> tuple[int, int, int, int, int]:
    """The launches that were made by their form; of these, with one buffer twice, with pointers into buffers, with new ones; and all."""
    workers, settings = MACHINES[machine]
    env = fake_cuda.environment(folder, workers) | {"FAKE_CUDA_DEVICES": "2", "PYOPENCL_NO_CACHE": "1"}
    said = fake_cuda.run(SCRIPT.format(seed=seed), env | settings | more)
    formed, shared, shifted, fresh, launches = map(int, said.split()[-5:])
    return formed, shared, shifted, fresh, launches


@pytest.mark.parametrize("machine", MACHINES)
def test_launches_with_other_arguments(machine: str, folder: Path) -> None:
    formed, shared, shifted, fresh, launches = run(folder, machine, [*MACHINES].index(machine))
    if machine in ("two", "checked"):
        assert not formed
    elif machine not in ("refusing", "little memory"):
        assert formed > launches // 2
        assert shared
        assert shifted > 20
        if "kept" in machine:  # on the only worker they have their memory there once they have their content
            assert fresh > 10


#: by defect: the machine that shows it
DEFECTS = {
    "launches of a form do not wait for the program": "one",
    "launches of a form are on whole buffers": "one",
    "pointers of a form's launches point to beginnings": "one",
    "launches of a form do not wait for their wait lists": "one",
    "a kernel takes the form of another thread's": "one",
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_is_found(defect: str, folder: Path) -> None:
    with pytest.raises(AssertionError, match=r"AssertionError|free|illegal"):
        run(folder, DEFECTS[defect], 0, **{fake_cuda.PLANTED: defect})
