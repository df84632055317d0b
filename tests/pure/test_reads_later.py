"""Reads that the program does not wait for yet and that are made again as they were: what comes between two of them, or between one and
the wait for it, is noticed, on one GPU and on several, whether a worker's bytes are there soon or late. The cases are `reads_later`'s.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import pytest

import vdev.facade.transfers  # noqa: F401 (what defects are planted in is imported here, too)

from . import fake_cuda
from .cuda_host import COMPILER, MISSING

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)

CASES = re.findall(r"^@case\ndef (\w+)", Path(__file__).with_name("reads_later.py").read_text(), re.MULTILINE)
_SPLIT = {"VDEV_PLANNING": "always", "VDEV_GATHER": "0", "VDEV_MIN_ITEMS": "1"}
#: by name: the workers, what else is set, and how many items there are, and are read
MACHINES: dict[str, tuple[str, dict[str, str], tuple[int, int]]] = {
    "one": ("cuda:0", {}, (256, 256)),
    "one, late": ("cuda:0", {"FAKE_CUDA_LATE": "0"}, (256, 256)),
    "one, longer reads": ("cuda:0", {"FAKE_CUDA_LATE": "0"}, (20480, 20480)),
    "three": ("cuda:0-2", {}, (256, 256)),
    "three, by chance": ("cuda:0-2", {"FAKE_CUDA_SEED": "7"}, (256, 256)),
    "three, split and late": ("cuda:0-2", _SPLIT | {"FAKE_CUDA_LATE": "2"}, (256, 64)),
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
        given = ["", *map(str, items)]
        script = f"import sys; sys.argv = {given}; from tests.pure.reads_later import main; main()"
        found: dict[str, str] = json.loads(fake_cuda.run(script, env | settings).splitlines()[-1])
        assert list(found) == CASES
        return found

    return run


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("case", CASES)
def test_a_read_that_nobody_waits_for_yet(
    case: str, machine: str, said: Callable[[str], dict[str, str]]
) -> None:
    assert said(machine)[case] == ""
