"""Programs that make their buffers anew for each step: launches are told of other memory and values than the last ones of their form had.
The programs are `new_buffers`'; here, on machines without a GPU.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import vdev.executor.whole  # noqa: F401 (what defects are planted in is imported here, too)

from . import fake_cuda
from .cuda_host import COMPILER, MISSING

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)

SPLIT = {"VDEV_PLANNING": "always", "VDEV_GATHER": "0", "VDEV_MIN_ITEMS": "1"}
#: by name: the workers, and what else is set
MACHINES: dict[str, tuple[str, dict[str, str]]] = {
    "one": ("cuda:0", {}),
    "one, by chance": ("cuda:0", {"FAKE_CUDA_SEED": "3"}),
    "one, late": ("cuda:0", {"FAKE_CUDA_LATE": "0"}),
    "one, refusing": ("cuda:0", {"FAKE_CUDA_REFUSED": "cuLaunchKernel", "FAKE_CUDA_SEED": "5"}),
    "four": ("cuda:0-3", {}),
    "four, by chance": ("cuda:0-3", {"FAKE_CUDA_SEED": "4"}),
    "split": ("cuda:0-3", SPLIT),
    "split, by chance": ("cuda:0-2", SPLIT | {"FAKE_CUDA_SEED": "6"}),
    "split, late": ("cuda:0,1", SPLIT | {"FAKE_CUDA_LATE": "0"}),
    "split, late elsewhere": ("cuda:0,1", SPLIT | {"FAKE_CUDA_LATE": "1"}),
    "split, refusing": ("cuda:0-3", SPLIT | {"FAKE_CUDA_REFUSED": "cuLaunchKernel", "FAKE_CUDA_SEED": "5"}),
    "split, little memory": ("cuda:0,1", SPLIT | {"VDEV_MEMORY": "200K"}),
    "little memory": ("cuda:0,1", {"VDEV_MEMORY": "200K"}),
    "between red zones": ("cuda:0", {"VDEV_CHECK_MEMORY": "1"}),
    "checked": ("cuda:0", {"VDEV_CHECK": "1"}),
}
#: launches are told only what differs from the last one's, as on other back ends
BY_DIFFERENCES = (
    "from vdev.backends.cuda.launching import CudaLaunches as C; C.again_whole = lambda *given: None; "
)
SCRIPT = "import sys; sys.argv = ['', '{first}', '4', '16']; from tests.pure.new_buffers import main; main()"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cuda")


#: each buffer is new, though others of its size were released: their number may grow, or they may be large
ALWAYS_NEW = "from vdev.session import spare_buffers; spare_buffers.MOST_EACH = 0; "


def run(folder: Path, machine: str, first: int, ahead: str = "", **more: str) -> tuple[int, int, int]:
    """The launches that were made by their form, those by that of their plan, and all."""
    workers, settings = MACHINES[machine]
    env = fake_cuda.environment(folder, workers) | {"FAKE_CUDA_DEVICES": "4", "PYOPENCL_NO_CACHE": "1"}
    env.pop("VDEV_PLANNING", None)
    said = fake_cuda.run(ahead + SCRIPT.format(first=first), env | settings | more)
    formed, shared, launches = map(int, said.split()[-3:])
    return formed, shared, launches


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("ahead", ["", ALWAYS_NEW], ids=["released ones", "always new"])
def test_launches_on_new_buffers(machine: str, ahead: str, folder: Path) -> None:
    formed, shared, launches = run(folder, machine, [*MACHINES].index(machine), ahead)
    if machine == "checked":
        assert not formed  # its launches are watched
    elif machine in ("one", "four"):
        assert formed > launches // 4
    elif ahead and machine in ("split", "split, by chance", "split, late"):
        assert shared > 10  # others have come too seldom


@pytest.mark.parametrize("machine", ["one", "one, by chance", "four"])
def test_launches_by_differences(machine: str, folder: Path) -> None:
    formed, _, launches = run(folder, machine, 20, BY_DIFFERENCES)
    assert formed > launches // 4


#: what would go wrong with launches of a known form, and what comes before the program that shows it
DEFECTS = {
    "new buffers are taken for the last ones": "",
    "a form takes its first values for the last ones": BY_DIFFERENCES,
    "a form keeps its first index space": "",
    "a form's launches have the first one's values": "",
    "nobody is told that a form has set a kernel's parameters": "",
    "what a form has set is not set anew": "",
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_is_found(defect: str, folder: Path) -> None:
    with pytest.raises(AssertionError, match=r"AssertionError|free|illegal"):
        run(folder, "one", 0, DEFECTS[defect], **{fake_cuda.PLANTED: defect})
