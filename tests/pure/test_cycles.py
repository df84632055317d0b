"""Chunks of blocks that repeat: which work-groups they are, and what these touch."""

from __future__ import annotations

import random
from itertools import product

import pytest
from vdev.translators.frontend.source import parse_program
from vdev.translators.interpreter.access import analyse_kernel
from vdev.translators.ranges.ndrange import Chunk, Cycle, NDRange
from vdev.translators.ranges.region import Region

from .fuzzing import random_chunk, random_ndrange

Group = tuple[int, ...]


def groups_of(chunk: Chunk) -> list[Group]:
    """By the definition, in no order."""
    cycle = chunk.cycle
    spans = [range(a, b) for a, b in zip(chunk.start, chunk.stop, strict=True)]
    return [
        group
        for group in product(*spans)
        if cycle is None or (group[cycle.axis] - chunk.start[cycle.axis]) % cycle.stride < cycle.block
    ]


def cases(count: int) -> list[tuple[NDRange, Chunk]]:
    rng = random.Random(19)
    found = []
    while len(found) < count:
        ndrange = random_ndrange(rng)
        chunk = random_chunk(rng, ndrange)
        if chunk.cycle is not None:
            found.append((ndrange, chunk))
    return found


def test_what_a_cycle_is() -> None:
    for ndrange, chunk in cases(300):
        expected = sorted(groups_of(chunk))
        assert chunk.ngroups == len(expected)
        boxes = list(chunk.boxes())
        assert all(box.cycle is None for box in boxes)
        assert sorted(group for box in boxes for group in groups_of(box)) == expected
        numbered = product(
            *([chunk.group(axis, at) for at in range(count)] for axis, count in enumerate(chunk.counts))
        )
        assert sorted(numbered) == expected
        items = [
            sum(
                min(local, size - group * local)
                for group in {group[axis] for group in expected}
            )
            for axis, (local, size) in enumerate(zip(ndrange.local_size, ndrange.global_size, strict=True))
        ]
        assert list(chunk.global_size(ndrange)) == items
        if chunk.ngroups > 1:
            parts = [groups_of(part) for part in chunk.halves()]
            assert all(parts)
            assert sorted(parts[0] + parts[1]) == expected


KERNELS = {
    "element": "if (i < n) a[i] = 1;",
    "stencil": "if (i > 0 && i < n - 1) a[i] = b[i - 1] + b[i + 1];",
    "whole": "a[i] = b[2 * i];",
    "group": "if (get_local_id(0) == 0) a[get_group_id(0)] = 1;",
    "tile": "a[get_group_id(0) * get_local_size(0) + get_local_id(0)] = b[get_global_size(0)];",
    "grid stride": "for (int at = i; at < n; at += get_global_size(0)) a[at] = b[at];",
    "row": "for (int at = 0; at < 5; at++) a[5 * i + at] = b[at];",
}


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("size", [96, 93])
@pytest.mark.parametrize("short", [0, 1, 7])
def test_what_a_cycle_touches_is_what_its_boxes_touch(name: str, size: int, short: int) -> None:
    """Exactly."""
    source = f"kernel void k(global int *a, global int *b, int n) {{ int i = get_global_id(0); {KERNELS[name]} }}"
    summary = analyse_kernel(parse_program(source), "k")
    ndrange = NDRange((size,), (4,), (0,))
    sizes = {0: 4 * 600, 1: 4 * 600}
    values = {2: size - short}
    for start, block, stride in ((0, 1, 2), (2, 2, 5), (3, 3, 4), (0, 5, 7), (5, 1, 12)):
        chunk = Chunk((start,), ndrange.num_groups, Cycle(0, block, stride))
        expected: dict[tuple[int, str], Region] = {}
        for box in chunk.boxes():
            for item in summary.evaluate(ndrange, box, values, sizes):
                assert item.exact
                key = item.arg, item.mode
                expected[key] = expected.get(key, Region.empty()) | item.region
        found = summary.evaluate(ndrange, chunk, values, sizes)
        assert all(item.exact for item in found), [(item.reason, name) for item in found if not item.exact]
        assert {(item.arg, item.mode): item.region for item in found} == expected


def test_large_cycles_are_few_boxes() -> None:
    """As the reader of a vector in stripes of its grid has them."""
    source = "kernel void k(global float *a, uint n) { size_t i = get_global_id(0); if (i < n) a[i] = 1; }"
    summary = analyse_kernel(parse_program(source), "k")
    n = 1 << 29
    ndrange = NDRange((n,), (256,), (0,))
    chunk = Chunk((2048,), ndrange.num_groups, Cycle(0, 2048, 4096))
    (found,) = summary.evaluate(ndrange, chunk, {1: n}, {0: 4 * n})
    assert found.exact
    assert found.region == Region.boxes(2048 * 1024, 2048 * 1024, ((4096 * 1024, 512),))
    assert found.region.nboxes == 1
