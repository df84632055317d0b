"""Accesses a constant distance apart, and chunks that lie in different places, are evaluated once; they are the same bytes as when
each is evaluated."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from vdev.translators.frontend.source import parse_program
from vdev.translators.interpreter import launch_ranges, scopes
from vdev.translators.interpreter.access import analyse_kernel
from vdev.translators.ranges.ndrange import Chunk, NDRange
from vdev.translators.symbolic.domain import Domain
from vdev.translators.symbolic.domain_image import image

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
kernel void partial(global float *to, global const float *from, int n, int m) {
    int x = get_group_id(0) * get_local_size(0) + get_local_id(0), y = get_global_id(1);
    to[y * n + x] = from[min(x + m, n) + y];
}
kernel void doubtful(global float *to, global const float *from, int n, int m) {
    int at = get_global_id(1) * n + get_global_id(0);
    if (from[at] > 1 && at < 40 * m) to[at] = from[at + 1];
}
kernel void returns(global float *to, global const float *from, int n, int m) {
    int at = get_global_id(1) * n + get_global_id(0);
    for (int k = 0; k < m; ++k)
        if (from[at + k] > 3) return;
    to[at] = from[at + 1];
}
kernel void gathered(global float *to, global const float *from, int n, int m) {
    int at = get_global_id(1) * n + get_global_id(0);
    if (get_global_id(1) > 4) to[at] = from[(int)from[at]];
}
kernel void deposited(global int *to, global const int *from, int n, int m) {
    int at = get_global_id(1) * n + get_global_id(0);
    atomic_add(&to[at / 3], from[at]);
    if (at % 5 == m) atomic_xchg(&to[at], 1);
}
kernel void apart(global float *to, global const float *from, int n, int m) {
    int at = get_global_id(1) * n + get_global_id(0);
    to[at] = from[at] + from[at + m];
}
kernel void unequal(global float *to, global const float *from, int n, int m) {
    int x = get_global_id(0), y = get_global_id(1);
    if (x != m) to[y * n + x] = from[(x + m) % (n + 1) + y * (x > 20 ? n : m)];
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


def counted_images(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many images are evaluated from now on: for each chunk, and for a launch."""
    found: Counter[str] = Counter()
    for module, name in ((scopes, "chunk"), (launch_ranges, "launch")):

        def counted(*args: Any, name: str = name) -> Any:
            found[name] += 1
            return image(*args)

        monkeypatch.setattr(module, "image", counted)
    return found


@pytest.mark.parametrize("kernel", KERNELS)
def test_what_is_moved_is_what_is_evaluated(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a chunk."""
    images, summary, found = counted_images(monkeypatch), analyse_kernel(PROGRAM, kernel), []
    for each_alone in (False, True):
        if each_alone:
            monkeypatch.setattr(Domain, "is_like", lambda *_: False)
        rng, evaluated = random.Random(kernel), []
        for _ in range(60):
            ndrange, chunk, values, sizes = random_launch(rng)
            evaluated.append(summary.of_launch(ndrange, values, sizes).alone(chunk))
        found.append((evaluated, images.pop("chunk")))
    (moved, some), (evaluated, all_) = found
    assert moved == evaluated
    assert (some < all_) == (kernel != "odd"), "remainders are variables of their own"


@pytest.mark.parametrize(
    "kernel", [*KERNELS, "partial", "doubtful", "returns", "gathered", "deposited", "unequal"]
)
def test_chunks_of_a_launch_are_what_each_is_alone(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was asked for before."""
    images, summary = counted_images(monkeypatch), analyse_kernel(PROGRAM, kernel)
    rng = random.Random(kernel)
    for _ in range(40):
        ndrange, chunk, values, sizes = random_launch(rng)
        if rng.random() < 0.5:  # with partial work-groups
            sizes_of = [size - rng.randrange(8) for size in ndrange.global_size]
            ndrange = NDRange((sizes_of[0], max(sizes_of[1] - 4, 1)), ndrange.local_size, ndrange.offset)
        ranges = summary.of_launch(ndrange, values, sizes)
        for _ in range(8):
            start = [rng.randrange(count) for count in ndrange.num_groups]
            stop = [rng.randrange(low, n) + 1 for low, n in zip(start, ndrange.num_groups, strict=True)]
            chunk = Chunk(tuple(start), tuple(stop))
            assert ranges.of(chunk) == ranges.alone(chunk)
    assert images["launch"] < (0.6 if kernel in ("plane", "unguarded") else 1) * images["chunk"]


def test_slabs_of_a_field_are_evaluated_once() -> None:
    """But for the first and the last, which lack a row; one is the other one moved."""
    summary = analyse_kernel(PROGRAM, "plane")
    with pytest.MonkeyPatch.context() as patch:
        images = counted_images(patch)
        ranges = summary.of_launch(
            NDRange((512, 512), (8, 4), (0, 0)), {2: 512, 3: 512}, {0: 1 << 20, 1: 1 << 20}
        )
        for number in range(32):
            ranges.of(Chunk((0, 4 * number), (64, 4 * number + 4)))
    assert images == {"launch": 2}


def test_what_one_launch_has_shown_holds_for_others_of_its_kernel() -> None:
    """A tile at another place, over more bytes, behind other bytes of its buffer: one image is the other one moved."""
    for kernel in ("plane", "unguarded", "vectors", "partial"):
        summary, rng = analyse_kernel(PROGRAM, kernel), random.Random(kernel)
        with pytest.MonkeyPatch.context() as patch:
            images, evaluated = counted_images(patch), Counter[bool]()
            for number in range(24):
                groups, before = rng.choice((4, 8)), rng.choice(({}, {0: 4, 1: 128}))
                ndrange = NDRange((8 * groups, 64), (8, 4), (rng.choice((8, 24)), rng.choice((8, 40))))
                sizes = {index: rng.choice((1 << 21, 1 << 22)) for index in (0, 1)}
                ranges = summary.of_launch(ndrange, {2: 512, 3: 512}, sizes, before)
                for chunk in (Chunk((0, 0), (groups, 8)), Chunk((1, 2), (groups - 1, 6))):
                    known = images["launch"]
                    found, alone = ranges.of(chunk), ranges.alone(chunk)
                    assert found == alone
                    assert [item.grains for item in found] == [item.grains for item in alone]
                    evaluated[number >= 12] += images["launch"] - known
        assert evaluated[False]
        assert not evaluated[True], kernel


def test_a_chunk_that_is_asked_for_again_is_not_evaluated_again(monkeypatch: pytest.MonkeyPatch) -> None:
    images, summary = counted_images(monkeypatch), analyse_kernel(PROGRAM, "gathered")
    ranges = summary.of_launch(NDRange((64, 64), (8, 4), (0, 0)), {2: 64, 3: 3}, {0: 1 << 16, 1: 1 << 16})
    found, known = ranges.of(Chunk((0, 0), (4, 4))), images.copy()
    assert ranges.of(Chunk((0, 0), (4, 4))) is found
    assert images == known
    assert known["chunk"]


@pytest.mark.parametrize("kernel", ["unguarded", "apart"])
def test_images_of_launches_that_are_gone_are_forgotten(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of domains of other shapes; and unions of the same ones, which are otherwise apart each time."""
    monkeypatch.setattr(launch_ranges, "_MOST_BOXES", 60)
    summary, most = analyse_kernel(PROGRAM, kernel), 0
    for number in range(100):
        chunk = Chunk((0, 0), (1 + number % 8, 8) if kernel == "unguarded" else (8, 8))
        ranges = summary.of_launch(
            NDRange((64, 64), (8, 4), (number, 0)), {2: 512, 3: number}, {0: 1 << 20, 1: 1 << 20}
        )
        assert ranges.of(chunk) == ranges.alone(chunk)
        tables = vars(summary._images)
        most = max(most, *(len(table) for table in tables.values() if isinstance(table, dict)))
    assert 8 <= most <= 60
