"""Index spaces of a kernel for which one with the same local size has been found valid before (`vdev.facade.index_spaces`): each is the one
that a closer look finds, or is refused as it is there.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

from tests.pure.fake_cuda import PLANTED

SCRIPT = f"""
import os
from tests.fuzz.mutations import plant
if os.environ.get({PLANTED!r}):
    plant(os.environ[{PLANTED!r}])
from tests.cpu.test_groupings import compare
print(compare(3))
"""
BITS = 32


def kernel_of(required: tuple[int, ...], *, partial: bool, regroups: bool) -> Any:
    """What a launch asks of a kernel's state."""
    resources = SimpleNamespace(
        work_group_size=64, compile_work_group_size=required or (0, 0, 0), preferred_multiple=8
    )
    limits = {
        "ADDRESS_BITS": BITS, "MAX_WORK_ITEM_SIZES": [64, 64, 16], "NON_UNIFORM_WORK_GROUP_SUPPORT": partial,
    }  # fmt: skip
    state = SimpleNamespace(limits=limits, session=SimpleNamespace(workers=[None, None]))
    declared = SimpleNamespace(work_group_size_hint=None)
    return SimpleNamespace(
        kernel=SimpleNamespace(resources=resources, declared=declared),
        context=SimpleNamespace(_vdev_state=state),
        signature=SimpleNamespace(groupings={}, allows_partial_groups=partial, regroups=regroups),
        ndranges={},
    )


def found(kernel: Any, *given: Any) -> tuple[Any, ...]:
    """The index space of a launch with these sizes, with the types of its numbers; or its error."""
    from vdev.facade import launch

    try:
        ndrange = launch._remembered(kernel, *given, False)
    except (cl.Error, RuntimeError, TypeError, ValueError, OverflowError) as error:
        return type(error), getattr(error, "code", None), str(error)
    if ndrange is None:
        return ()
    numbers = ndrange.global_size, ndrange.local_size, ndrange.offset, ndrange.num_groups
    return *numbers, [type(each) for sizes in numbers for each in sizes], ndrange.regroups


def sizes_of(chance: random.Random, dimensions: int, group: tuple[int, ...] | None) -> Any:
    """Mostly multiples of a work-group's; at times what is no size, or no tuple."""
    found: list[Any] = []
    for at in range(dimensions):
        size: Any = chance.randint(1, 12) * (group[at] if group and at < len(group) else 1)
        if chance.random() < 0.1:
            size = chance.choice(
                [0, -4, size + 1, 1 << BITS, (1 << BITS) - 4, True, 4.0, np.int64(8), np.uint8(3), "4"]
            )
        found.append(size)
    return found if chance.random() < 0.05 else (*found,)


def compare(seed: int) -> int:
    """How many index spaces were found from others; all are compared."""
    from vdev.facade import launch

    chance, short = random.Random(seed), 0
    groups: list[Any] = [(4,), (4, 2), (2, 2, 2), (4.0,), (np.int32(4), 2), (3,), None, (128,)]
    for _ in range(60):
        required = chance.choice([(), (), (4, 2, 1)])
        kind = {"partial": chance.random() < 0.3, "regroups": chance.random() < 0.5}
        kernel, ndrange = kernel_of(required, **kind), None
        for _ in range(60):
            group = chance.choice(groups)
            dimensions = chance.choice([len(group or (1, 1)), 1, 2, 3, 4])
            whole = None if group is None else (*map(int, group),)
            given = sizes_of(chance, dimensions, whole or required)
            offset = None if chance.random() < 0.6 else sizes_of(chance, chance.choice([dimensions, 2]), None)
            try:
                ndrange = launch._resized(kernel, given, group, offset)
            except Exception as error:
                raise AssertionError(f"{given}, {group}, {offset}: {error!r}") from error
            short += ndrange is not None
            now = found(kernel, given, group, offset)
            wanted = found(kernel_of(required, **kind), given, group, offset)
            assert now == wanted, (given, group, offset, required, kind)
    return short


@pytest.mark.parametrize("seed", range(3))
def test_an_index_space_is_found_as_by_a_closer_look(seed: int) -> None:
    assert compare(seed) > 300


@pytest.mark.parametrize(
    "defect",
    [
        "a global size need not be a multiple of a known local size",
        "a global size of nought has a known local size",
        "an offset has any number of dimensions",
        "what equals a known local size is one",
    ],
)
def test_a_defect_is_found(defect: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=os.environ | {PLANTED: defect},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert "AssertionError" in done.stderr, done.stdout
