"""Programs of `tests.pure` on named machines of the driver for machines without a GPU, each in a process of its own.

A machine is its workers, and what else is set there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from . import fake_cuda

Machine = tuple[str, dict[str, str]]
#: where launches and copies on one worker are made by their form, or must not be
ONE_WORKER: dict[str, Machine] = {
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
#: for three workers: every launch is split
SPLIT = {"VDEV_PLANNING": "always", "VDEV_GATHER": "0", "VDEV_MIN_ITEMS": "1"}


def run(
    folder: Path,
    machine: Machine,
    modules: Sequence[str],
    given: Sequence[int] = (),
    *,
    begin: str = "",
    **more: str,
) -> str:
    """What the `main` of the last of these modules prints, once all are imported. `given`: its arguments. `begin`: what is run
    before. `more`: what is set besides."""
    workers, settings = machine
    env = fake_cuda.environment(folder, workers) | {"FAKE_CUDA_DEVICES": "3", "PYOPENCL_NO_CACHE": "1"}
    lines = [begin, f"import sys; sys.argv = {['', *map(str, given)]}"]
    lines += [f"import tests.pure.{module}" for module in modules]
    return fake_cuda.run("\n".join([*lines, f"tests.pure.{modules[-1]}.main()"]), env | settings | more)


def cases(*modules: str) -> list[str]:
    """The cases (`transfer_cases`) that modules of this folder have, in their order."""
    texts = [Path(__file__).with_name(f"{module}.py").read_text() for module in modules]
    return [name for text in texts for name in re.findall(r"^@case\ndef (\w+)", text, re.MULTILINE)]


def wrong_by_case(
    folder: Path, machine: Machine, modules: Sequence[str], given: Sequence[int], begin: str = ""
) -> dict[str, str]:
    """By case of these modules, what was wrong; vdev chooses how many workers run a launch, if the machine does not say it."""
    chosen = {"VDEV_PLANNING": "auto"} | machine[1]
    said = run(folder, (machine[0], chosen), [*modules, "transfer_cases"], given, begin=begin)
    found: dict[str, str] = json.loads(said.splitlines()[-1])
    assert list(found) == cases(*modules)
    return found
