"""Accesses a constant distance apart are evaluated once, and are the same bytes as when each is evaluated."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from vdev.translators.frontend.source import parse_program
from vdev.translators.interpreter import summaries
from vdev.translators.interpreter.access import AccessRange, KernelSummary, analyse_kernel
from vdev.translators.ranges.ndrange import Chunk, NDRange
from vdev.translators.symbolic.domain import Domain

SOURCE = """
kernel void plane(global float *to, global const float *from, int n, int m) {
    int x = get_global_id(0), y = get_global_id(1), at = y * n + x;
    if (x > 0 && y > 0 && x < n - 1 && y < m - 1)
        to[at] = from[at - 1] + from[at + 1] + from[at - n] + from[at + n];
}
kernel void unguarded(global float *to, global const float *from, int n, int m) {
    int at = get_global_id(1) * n + get_global_id(0);
    to[at] = from[at] + from[at + 1] + from[at + n] + from[at - 1];
}
kernel void diagonal(global float *to, global const float *from, int n, int m) {
    int x = get_global_id(0), y = get_global_id(1);
    if (x + y < m) to[y * n + x] = from[y * n + x + 2] + from[y * n + x + 3];
}
kernel void odd(global float *to, global const float *from, int n, int m) {
    int x = get_global_id(0), y = get_global_id(1);
    for (int k = 0; k < m % 7; ++k) to[y * n + x / 2] = from[y * n + x % 5 + k] + from[y * n + x % 5 + k + 9];
}
kernel void vectors(global float4 *to, global const float4 *from, int n, int m) {
    int at = get_global_id(1) * n + get_global_id(0);
    to[at] = from[at + 1] + from[at + 2];
    vstore2(vload2(at, (global float *)from), at + 4, (global float *)to);
}
"""
PROGRAM = parse_program(SOURCE)
KERNELS = ("plane", "unguarded", "diagonal", "odd", "vectors")


def random_launch(rng: random.Random) -> tuple[NDRange, Chunk, dict[int, int], dict[int, int]]:
    groups = (rng.randrange(1, 7), rng.randrange(1, 7))
    start = tuple(rng.randrange(count) for count in groups)
    stop = tuple(rng.randrange(low, count) + 1 for low, count in zip(start, groups, strict=True))
    ndrange = NDRange((8 * groups[0], 4 * groups[1]), (8, 4), (rng.choice((0, 3)), 0))
    sizes = {0: 4 * rng.randrange(1, 4000), 1: 4 * rng.randrange(1, 4000)}
    return ndrange, Chunk(start, stop), {2: rng.randrange(60), 3: rng.randrange(60)}, sizes


def evaluated(summary: KernelSummary, rng: random.Random) -> list[Sequence[AccessRange]]:
    found = []
    for _ in range(60):
        ndrange, chunk, values, sizes = random_launch(rng)
        found.append(summary.evaluate(ndrange, chunk, values, sizes))
    return found


@pytest.mark.parametrize("kernel", KERNELS)
def test_what_is_moved_is_what_is_evaluated(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    summary = analyse_kernel(PROGRAM, kernel)
    images = 0
    image = summaries.image

    def counted(*args: object) -> object:
        nonlocal images
        images += 1
        return image(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(summaries, "image", counted)
    moved, some = evaluated(summary, random.Random(kernel)), images
    monkeypatch.setattr(Domain, "is_like", lambda *_: False)
    assert evaluated(summary, random.Random(kernel)) == moved
    assert (some < images - some) == (kernel != "odd"), "remainders are variables of their own"
