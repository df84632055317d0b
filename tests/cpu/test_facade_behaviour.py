"""What PyOpenCL's objects do, natively and on the virtual device: memory, launches, events, programs, pools.

Each entry of the table is a small program that returns what it saw; both processes have to see the same. The entries are in
`facade_memory`, `facade_commands` and `facade_programs`.
"""

from __future__ import annotations

from typing import Any

import pytest

from . import facade_commands, facade_memory, facade_programs  # noqa: F401 (they enter their calls into the table)
from .facade_world import CALLS, make_world  # noqa: F401 (what `side_by_side` looks for here)
from .side_by_side import run


@pytest.fixture(scope="module")
def native() -> dict[str, Any]:
    results = run(__name__, {})
    if "Intel" not in results["platform"]:
        pytest.skip("drivers differ; the virtual device does as Intel's does")
    return results


@pytest.fixture(scope="module")
def virtual() -> dict[str, Any]:
    return run(__name__, {"VDEV": "1", "VDEV_WORKERS": "cpu:3", "VDEV_MIN_ITEMS": "0"})


@pytest.mark.parametrize("name", CALLS)
def test_virtual_as_native(name: str, native: dict[str, Any], virtual: dict[str, Any]) -> None:
    if "not installed" in native[name]:
        pytest.skip("IPython is not installed")
    assert virtual[name] == native[name]
