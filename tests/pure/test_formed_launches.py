"""Launches on one worker whose arguments are others each time (`vdev.session.immediate_forms`), with what may come in between: on
machines without a GPU. The program is `formed_launches`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import vdev.session.immediate_forms  # noqa: F401 (what defects are planted in is imported here, too)

from . import fake_cuda, gpu_runs
from .cuda_host import COMPILER, MISSING

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cuda")


def run(folder: Path, machine: str, seed: int, **more: str) -> tuple[int, int, int, int, int]:
    """The launches that were made by their form; of these, with one buffer twice, with pointers into buffers, with new ones; and all."""
    said = gpu_runs.run(folder, gpu_runs.ONE_WORKER[machine], ["formed_launches"], [seed], **more)
    formed, shared, shifted, fresh, launches = map(int, said.split()[-5:])
    return formed, shared, shifted, fresh, launches


@pytest.mark.parametrize("machine", gpu_runs.ONE_WORKER)
def test_launches_with_other_arguments(machine: str, folder: Path) -> None:
    formed, shared, shifted, fresh, launches = run(folder, machine, [*gpu_runs.ONE_WORKER].index(machine))
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
