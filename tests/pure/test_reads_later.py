"""Reads that the program does not wait for yet and that are made again as they were: what comes between two of them, or between one and
the wait for it, is noticed, on one GPU and on several, whether a worker's bytes are there soon or late. The cases are `reads_later`'s.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import pytest

import vdev.facade.transfers  # noqa: F401 (what defects are planted in is imported here, too)

from . import gpu_runs
from .cuda_host import COMPILER, MISSING

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)

CASES = gpu_runs.cases("reads_later")
#: by name: the machine, and how many items there are, and are read
MACHINES: dict[str, tuple[gpu_runs.Machine, tuple[int, int]]] = {
    "one": (("cuda:0", {}), (256, 256)),
    "one, late": (("cuda:0", {"FAKE_CUDA_LATE": "0"}), (256, 256)),
    "one, longer reads": (("cuda:0", {"FAKE_CUDA_LATE": "0"}), (20480, 20480)),
    "three": (("cuda:0-2", {}), (256, 256)),
    "three, by chance": (("cuda:0-2", {"FAKE_CUDA_SEED": "7"}), (256, 256)),
    "three, split and late": (("cuda:0-2", gpu_runs.SPLIT | {"FAKE_CUDA_LATE": "2"}), (256, 64)),
}


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, str]]:
    """By case, what was wrong on a machine."""
    folder = tmp_path_factory.mktemp("cuda")

    @lru_cache
    def run(name: str) -> dict[str, str]:
        machine, items = MACHINES[name]
        return gpu_runs.wrong_by_case(folder, machine, ["reads_later"], items)

    return run


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("case", CASES)
def test_a_read_that_nobody_waits_for_yet(
    case: str, machine: str, said: Callable[[str], dict[str, str]]
) -> None:
    assert said(machine)[case] == ""
