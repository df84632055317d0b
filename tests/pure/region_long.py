"""Regions against sets of integers and against integer sets of isl, on random operations in several shapes:
`python -m tests.pure.region_long [--operations N] [--seed N]`.

Small regions are compared with Python's sets byte by byte, in every property. Large ones, whose bytes nobody could
list, with isl (islpy), as sets of points that satisfy the same constraints.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from math import prod
from time import perf_counter
from typing import Any
from unittest import mock

from vdev.translators.ranges.byte_runs import Block
from vdev.translators.ranges.covers import core, cover
from vdev.translators.ranges.region import Region

#: strides that go together, and that do not
FAMILIES = (
    (4, 16, 64),
    (3, 12, 60),
    (7, 21),
    (5, 24),
    (8, 32, 96),
    (2, 6, 30, 90),
    (4, 20, 24, 100),
    (16, 48, 64),
)
LARGE = (
    (4, 4096, 1 << 22),
    (4, 4000, 4000 * 1000),
    (12, 3072, 3072 * 640),
    (1, 720, 720 * 1456),
    (8, 1 << 15, 1 << 28),
)
#: steps of isl after which a comparison is given up, some hundredths of a second, and boxes with which none is begun
MOST_STEPS, MOST_BOXES = 10_000, 8
Set = frozenset[int]


class Mismatch(Exception):
    """Two ways of working out one thing differ."""


def members(region: Region) -> Set:
    return frozenset(byte for start, stop in region.runs.tolist() for byte in range(start, stop))


def covered_by(block: Block) -> list[int]:
    return [
        block.start + outer * block.slice_stride + row * block.stride + byte
        for outer in range(block.slices)
        for row in range(block.count)
        for byte in range(block.nbytes)
    ]


def small(rng: random.Random) -> Region:
    kind = rng.randrange(4)
    if kind == 0:
        start = rng.randrange(300)
        return Region.span(start, start + rng.randrange(1, 200))
    if kind == 1:
        starts = [rng.randrange(400) for _ in range(rng.randrange(1, 12))]
        return Region.from_runs([(start, start + rng.randrange(1, 12)) for start in starts])
    dims = [
        (s * rng.choice((1, 1, 1, -1)), rng.randrange(1, 7))
        for s in rng.choice(FAMILIES)
        if rng.random() < 0.7
    ]
    return Region.boxes(300 + rng.randrange(100), rng.randrange(1, 9), dims)


def combine(rng: random.Random, make: Callable[[], Region]) -> Region:
    """One region of a few."""
    found = make()
    for _ in range(rng.randrange(3)):
        other, way = make(), rng.randrange(3)
        found = found | other if way == 0 else found & other if way == 1 else found - other
    return found


def expect(same: bool, *what: object) -> None:
    if not same:
        raise Mismatch(" ".join(map(repr, what)))


def check_small(rng: random.Random) -> int:
    """All operations on two random regions; how many that were."""
    a, b = combine(rng, lambda: small(rng)), combine(rng, lambda: small(rng))
    sa, sb = members(a), members(b)
    offset, low, high = rng.randrange(-200, 400), rng.randrange(900), rng.randrange(900)
    size, origin, most = rng.choice((1, 2, 3, 4, 8)), rng.randrange(8), rng.randrange(1, 6)
    whole = {x for x in sa if all((x - origin) // size * size + origin + k in sa for k in range(size))}
    for region, expected in (
        (a | b, sa | sb), (a & b, sa & sb), (a - b, sa - sb), (a.shift(offset), {x + offset for x in sa}),
        (a.clip(low, high), {x for x in sa if low <= x < high}), (a.whole(size, origin), whole),
        (a.hull(), set(range(min(sa), max(sa) + 1)) if sa else set()), (Region.union((a, b, a)), sa | sb),
    ):  # fmt: skip
        check_properties(region, frozenset(expected), (a, b, offset, low, high, size, origin))
    expect(a.overlaps(b) == bool(sa & sb), "overlaps", a, b)
    expect(a.contains(b) == (sb <= sa), "contains", a, b)
    expect((a == b) == (sa == sb), "==", a, b)
    around, inside = cover(a, most, (b,)), core(a, most)
    expect(around.contains(a) and around.nboxes <= most and around.goes_with(b), "cover", a, b, most, around)
    expect(a.contains(inside) and inside.nboxes <= most and bool(inside) == bool(a), "core", a, most, inside)
    sizes = sorted((nbytes * prod(count for _, count in dims) for _, nbytes, dims in a.parts()), reverse=True)
    expect(inside.nbytes == sum(sizes[:most]), "the largest boxes", a, most, inside)
    expect(Region.from_runs(inside.runs) == inside, "core, equal", a, most, inside)
    return 13


def check_properties(region: Region, expected: Set, made_of: object) -> None:
    expect(members(region) == expected, region, made_of)
    edges = region.runs.ravel().tolist()
    expect(all(x < y for x, y in pairwise(edges)), "runs", edges, made_of)
    hull = (min(expected), max(expected) + 1) if expected else (0, 0)
    known = (region.start, region.stop, region.nbytes, len(region), bool(region))
    expect(known == (*hull, len(expected), len(edges) // 2, bool(expected)), known, region, made_of)
    again = Region.from_runs(region.runs)
    expect(again == region and region == again and hash(again) == hash(region), "equal", region, made_of)
    listed = [byte for block in region.blocks() for byte in covered_by(block)]
    expect(len(listed) == len(expected) and frozenset(listed) == expected, region.blocks(), made_of)


# large ones ---------------------------------------------------------------------------------------------


class Isl:
    """Sets of bytes as isl has them."""

    def __init__(self) -> None:
        import islpy

        self._isl = islpy
        self.GaveUp = islpy.Error

    def limit(self, steps: int) -> None:
        """What begins may take so many steps; 0: any number."""
        self._isl.DEFAULT_CONTEXT.reset_operations()
        self._isl.DEFAULT_CONTEXT.set_max_operations(steps)

    def box(self, start: int, nbytes: int, dims: list[tuple[int, int]]) -> Any:
        names = [f"i{k}" for k in range(len(dims))]
        low = f"{start}" + "".join(
            f" + {stride}*{name}" for name, (stride, _) in zip(names, dims, strict=True)
        )
        bounds = [f"0 <= {name} < {count}" for name, (_, count) in zip(names, dims, strict=True)]
        inside = " and ".join([*bounds, f"{low} <= b < {low} + {nbytes}"])
        body = f"exists {', '.join(names)}: {inside}" if names else inside
        return self._isl.Set(f"{{ [b] : {body} }}")

    def of(self, region: Region) -> Any:
        """What the region says it is: the union of its boxes."""
        found = self._isl.Set("{ [b] : 1 = 0 }")
        for start, nbytes, dims in region.parts():
            found = found.union(self.box(start, nbytes, list(dims)))
        return found


def large(rng: random.Random, isl: Isl, strides: tuple[int, ...]) -> tuple[Region, Any]:
    start, nbytes = rng.randrange(strides[-1]), rng.randrange(1, strides[0] + 1)
    dims = [
        (stride, rng.randrange(1, max(above // stride // rng.choice((1, 2, 5)), 2)))
        for stride, above in zip(strides, (*strides[1:], strides[-1] * 600), strict=True)
        if rng.random() < 0.8
    ]
    if rng.random() < 0.3:
        dims, nbytes = [], rng.randrange(1, strides[-1] * 20)
    return Region.boxes(start, nbytes, dims), isl.box(start, nbytes, dims)


def check_large(rng: random.Random, isl: Isl) -> Counter[str]:
    """Operations on two large boxes; how many were compared, and how many took isl too long."""
    strides = rng.choice(LARGE)
    (a, sa), (b, sb) = large(rng, isl, strides), large(rng, isl, strides)
    offset = rng.randrange(strides[-1] * 3)
    back = a.shift(offset).shift(-offset)
    done = Counter[str]()
    for region, expected in (
        (a | b, lambda: sa.union(sb)), (a & b, lambda: sa.intersect(sb)), (a - b, lambda: sa.subtract(sb)),
        (b - a, lambda: sb.subtract(sa)), (back, lambda: sa),
    ):  # fmt: skip
        expect(region.nboxes <= 1000, "boxes", region.nboxes, a, b)
        try:
            if region.nboxes > MOST_BOXES:
                raise isl.GaveUp
            isl.limit(MOST_STEPS)
            expect(isl.of(region).is_equal(expected()), region, a, b)
            done["large"] += 1
        except isl.GaveUp:
            done["too long for isl"] += 1
        isl.limit(0)
    expect((a | b).nbytes == a.nbytes + b.nbytes - (a & b).nbytes, "bytes", a, b)
    expect((a - b).nbytes == a.nbytes - (a & b).nbytes, "bytes", a, b)
    expect(
        a.shift(offset).nbytes == a.nbytes and a.shift(offset).start == a.start + offset, "shift", a, offset
    )
    return done


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--operations", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    begin, number, isl = perf_counter(), options.seed, Isl()
    done = Counter[str]()
    while done["small"] + done["large"] < options.operations:
        rng = random.Random(number)
        try:
            # Sets of few runs as arrays as well: what is an array otherwise is too large for sets.
            with mock.patch("vdev.translators.ranges.region.MOST_BANDS", rng.choice((4, 64))):
                done["small"] += check_small(rng)
            if number % 20 == 0:
                done += check_large(rng, isl)
        except Exception as error:
            print(f"seed {number}: {type(error).__name__}: {error}", file=sys.stderr)
            return 1
        number += 1
    print(f"{dict(done)}: none differs, {perf_counter() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
