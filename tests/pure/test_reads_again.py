"""Small reads and writes, and mappings, that are made again as they were: what comes between two of them is noticed, on one GPU and on
several, whether a worker's bytes are there soon or late. The cases are those of `reads_again`, `writes_again` and `mappings_again`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import pytest

import vdev.facade.transfers
import vdev.session.moves  # noqa: F401 (what defects are planted in is imported here, too)

from . import gpu_runs
from .cuda_host import COMPILER, MISSING

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)

MODULES = ("reads_again", "writes_again", "mappings_again")
CASES = gpu_runs.cases(*MODULES)
#: by name: the machine, and how many items there are, and are read
MACHINES: dict[str, tuple[gpu_runs.Machine, tuple[int, int]]] = {
    "one": (("cuda:0", {}), (256, 256)),
    "three": (("cuda:0-2", {}), (256, 256)),
    "three, split": (("cuda:0-2", gpu_runs.SPLIT), (256, 64)),
    "three, split and late": (("cuda:0-2", gpu_runs.SPLIT | {"FAKE_CUDA_LATE": "2"}), (256, 64)),
    "one, late": (("cuda:0", {"FAKE_CUDA_LATE": "0"}), (256, 256)),
    "three, by chance": (("cuda:0-2", {"FAKE_CUDA_SEED": "7"}), (256, 256)),
}
#: the library that asks for the context and calls in one step is there from the beginning
WALKER = "from vdev.backends import call_lists; call_lists.walker()"


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, str]]:
    """By case, what was wrong on a machine."""
    folder = tmp_path_factory.mktemp("cuda")

    @lru_cache
    def run(name: str) -> dict[str, str]:
        machine, items = MACHINES[name]
        return gpu_runs.wrong_by_case(folder, machine, MODULES, items, "" if "late" in name else WALKER)

    return run


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("case", CASES)
def test_a_read_after_a_change(case: str, machine: str, said: Callable[[str], dict[str, str]]) -> None:
    assert said(machine)[case] == ""


@pytest.mark.parametrize("how", ["VDEV_CHECK", "VDEV_TRACE", "VDEV_EXPLAIN", ""])
def test_watched_commands_are_made_again_only_where_that_is_told(how: str, tmp_path: Path) -> None:
    settings = {how: "1" if how == "VDEV_CHECK" else str(tmp_path / "watched.json")} if how else {}
    machine = ("cuda:0", settings)
    found = json.loads(gpu_runs.run(tmp_path, machine, ["writes_again"], (256, 256)).splitlines()[-1])
    # A write that is made again tells the recorder of itself; of a read it would not be known when it has ended.
    again = {"reads": not how, "writes": how != "VDEV_CHECK"}
    assert {name: count > 10 for name, count in found.items()} == again, found
    assert all(again[name] or not count for name, count in found.items()), found
