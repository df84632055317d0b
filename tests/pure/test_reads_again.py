"""Small reads and writes that are made again as they were: what comes between two of them is noticed, on one GPU and on several, whether
a worker's bytes are there soon or late. The cases are `reads_again`'s.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import pytest

import vdev.facade.transfers
import vdev.session.moves  # noqa: F401 (what defects are planted in is imported here, too)

from . import fake_cuda
from .cuda_host import COMPILER, MISSING

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)

CASES = re.findall(r"^@case\ndef (\w+)", Path(__file__).with_name("reads_again.py").read_text(), re.MULTILINE)
#: by name: the workers, what else is set, and how many items are read
MACHINES: dict[str, tuple[str, dict[str, str], int]] = {
    "one": ("cuda:0", {}, 256),
    "three": ("cuda:0-2", {}, 256),
    "three, split": ("cuda:0-2", {"VDEV_PLANNING": "always", "VDEV_GATHER": "0", "VDEV_MIN_ITEMS": "1"}, 64),
    "three, split and late": (
        "cuda:0-2",
        {"VDEV_PLANNING": "always", "VDEV_GATHER": "0", "VDEV_MIN_ITEMS": "1", "FAKE_CUDA_LATE": "2"},
        64,
    ),
    "one, late": ("cuda:0", {"FAKE_CUDA_LATE": "0"}, 256),
    "three, by chance": ("cuda:0-2", {"FAKE_CUDA_SEED": "7"}, 256),
}


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, str]]:
    """By case, what was wrong on a machine."""
    folder = tmp_path_factory.mktemp("cuda")

    @lru_cache
    def run(machine: str) -> dict[str, str]:
        workers, settings, items = MACHINES[machine]
        env = fake_cuda.environment(folder, workers) | {"FAKE_CUDA_DEVICES": "3", "PYOPENCL_NO_CACHE": "1"}
        env.pop("VDEV_PLANNING", None)
        script = f"import sys; sys.argv = ['', '{items}']; from tests.pure.reads_again import main; main()"
        if "late" not in machine:  # the library that asks for the context and calls in one step
            script = f"from vdev.backends import call_lists; call_lists.walker(); {script}"
        said = fake_cuda.run(script, env | settings)
        found: dict[str, str] = json.loads(said.splitlines()[-1])
        assert list(found) == CASES
        return found

    return run


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("case", CASES)
def test_a_read_after_a_change(case: str, machine: str, said: Callable[[str], dict[str, str]]) -> None:
    assert said(machine)[case] == ""


@pytest.mark.parametrize("how", ["VDEV_CHECK", "VDEV_TRACE", "VDEV_EXPLAIN", ""])
def test_watched_commands_are_made_again_only_where_that_is_told(how: str, tmp_path: Path) -> None:
    env = fake_cuda.environment(tmp_path, "cuda:0") | {"PYOPENCL_NO_CACHE": "1"}
    if how:
        env[how] = "1" if how == "VDEV_CHECK" else str(tmp_path / "watched.json")
    script = (
        "import sys; sys.argv = ['', '256']; from tests.pure.reads_again import main_watched; main_watched()"
    )
    found = json.loads(fake_cuda.run(script, env).splitlines()[-1])
    # A write that is made again tells the recorder of itself; of a read it would not be known when it has ended.
    again = {"reads": not how, "writes": how != "VDEV_CHECK"}
    assert {name: count > 10 for name, count in found.items()} == again, found
    assert all(again[name] or not count for name, count in found.items()), found
