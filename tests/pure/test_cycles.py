"""Chunks of blocks that repeat: which work-groups they are, and what these touch."""

from __future__ import annotations

import random
import struct
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from vdev.translators.dialects.cuda.translation import translate_cuda
from vdev.translators.dialects.subgrid_kernel import SubgridKernel
from vdev.translators.frontend.source import parse_program
from vdev.translators.interpreter.access import analyse_kernel
from vdev.translators.ranges.ndrange import Chunk, Cycle, NDRange
from vdev.translators.ranges.region import Region

from vdev.backends.cuda.launch import within_limits

from .cuda_host import COMPILER, HostProgram, aligned
from .cuda_host import MISSING as NO_COMPILER
from .fuzzing import random_chunk, random_ndrange
from .nvrtc import MISSING, compile_cuda, library

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
            sum(min(local, size - group * local) for group in {group[axis] for group in expected})
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
def test_a_cycle_touches_the_same_bytes_as_its_boxes(name: str, size: int, short: int) -> None:
    """Exactly."""
    source = (
        f"kernel void k(global int *a, global int *b, int n) {{ int i = get_global_id(0); {KERNELS[name]} }}"
    )
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


IDS = """
ulong helper(void) { return get_global_linear_id() * 1000003 + get_group_id(1); }
kernel void k(global ulong *a)
{
    const size_t at = (get_global_id(1) - get_global_offset(1)) * get_global_size(0) + get_global_id(0) - get_global_offset(0);
    a[at] += helper() + get_group_id(0) * 31 + get_num_groups(0) * 7 + get_local_id(0);
}
"""


@pytest.mark.skipif(COMPILER is None, reason=NO_COMPILER)
def test_cuda_kernels_renumber_their_groups(tmp_path: Path) -> None:
    whole, parts = (
        HostProgram(
            translate_cuda(parse_program(IDS, ("-cl-std=CL2.0",)), renumbers=renumbers),
            _folder(tmp_path, str(renumbers)),
        )
        for renumbers in (False, True)
    )
    for size, local, offset, axis, stride, edges in (
        ((44,), (4,), (3,), 0, 4, (0, 1, 4)),
        ((44,), (4,), (0,), 0, 11, (0, 3, 5, 11)),
        ((12, 14), (3, 2), (5, 1), 1, 3, (0, 2, 3)),
        ((12, 14), (3, 2), (0, 9), 0, 3, (0, 1, 3)),
    ):
        expected, found = (aligned(np.zeros(int(np.prod(size)), np.uint64)) for _ in range(2))
        whole.run("k", [expected], size, local, offset)
        groups = NDRange(size, local, offset).num_groups
        for start, stop in pairwise(edges):
            first = tuple(start if d == axis else 0 for d in range(len(size)))
            parts.run(
                "k", [found], size, local, offset, Chunk(first, groups, Cycle(axis, stop - start, stride))
            )
        assert (found == expected).all()


def _folder(path: Path, name: str) -> Path:
    (path / name).mkdir()
    return path / name


@pytest.mark.skipif(library() is None, reason=MISSING)
def test_cuda_kernels_divide_nothing() -> None:
    program = translate_cuda(parse_program(IDS, ("-cl-std=CL2.0",)), renumbers=True)
    done, text = compile_cuda(program.source, program.options)
    assert done, text[:4000]
    assert "div." not in text
    assert "rem." not in text


def test_blocks_are_counted_without_a_division() -> None:
    """By the factor and the shift of the hidden argument, exactly, for any number below 2**31."""
    rng = random.Random(7)
    kernel = SubgridKernel("k", 0, (), renumbers=True)
    blocks = [
        1,
        2,
        3,
        7,
        1 << 30,
        (1 << 30) + 1,
        (1 << 31) - 2,
        *(rng.randrange(1, 1 << rng.randrange(1, 31)) for _ in range(300)),
    ]
    for block in blocks:
        groups = (1 << 32) + 5
        hidden = kernel.pack(
            NDRange((groups,), (1,), (0,)), Chunk((0,), (block + 1,), Cycle(0, block, block + 1))
        )
        factor, _, _, shift, *_ = struct.unpack("<12Q", hidden[15 * 8 :])
        assert factor < 1 << 32
        multiples = [block * rng.randrange(1 << 31) // block * block for _ in range(20)]
        numbers = [0, block - 1, block, (1 << 31) - 1, *multiples, *(number - 1 for number in multiples)]
        for number in numbers:
            if 0 <= number < 1 << 31:
                assert number * factor >> shift == number // block


def test_cudas_limit_of_groups() -> None:
    for chunk in (
        Chunk((0, 3), (2, 400_000), Cycle(1, 3, 7)),
        Chunk((0, 3), (2, 400_000), Cycle(1, 70_000, 90_000)),
        Chunk((0, 3), (2, 400_000)),
        Chunk((1, 0), (9, 300_000), Cycle(0, 2, 3)),
    ):
        parts = within_limits(chunk)
        assert all(part.counts[1] <= 65535 for part in parts)
        for axis, count in enumerate(chunk.counts):
            numbers = [chunk.group(axis, at) for at in range(count)]
            of_parts = [[part.group(axis, at) for at in range(part.counts[axis])] for part in parts]
            assert numbers == ([at for of_part in of_parts for at in of_part] if axis == 1 else of_parts[0])
