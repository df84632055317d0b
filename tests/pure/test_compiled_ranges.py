"""Compiled functions on sets and maps of bands: the same results as those in Python, for numbers of any size, for many bands and
for numbers that are traced; and nothing is kept.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from vdev.translators.ranges import bands, compiled, labelled, labelled_bands
from vdev.translators.ranges.region import EMPTY, Region
from vdev.translators.ranges.tracing import Trace

from vdev.backends import own_libraries
from vdev.packaging import library

from .growth import FEW, least_growth

pytestmark = pytest.mark.skipif(not any(True for _ in library.compilers()), reason="there is no C compiler")

UNITS = (1,), (24, 1), (120, 24, 1), (960, 48, 8, 1)
#: what stands in the place of what is inside a band
Leaf = Callable[[], Any]


@pytest.fixture(autouse=True, scope="module")
def _loaded() -> None:
    assert own_libraries.load_ranges()


def some_bands(rng: random.Random, leaf: Leaf, units: tuple[int, ...], most: int = 5) -> Any:
    """Bands that are as they have to be: ascending, joined, and proper parts of a unit inside."""

    def at_level(level: int, digits: int | None) -> Any:
        found: list[Any] = []
        at = rng.randrange(-6, 6) if digits is None else rng.randrange(2)
        for _ in range(rng.randrange(1, most)):
            at += rng.choice((0, 0, 1, 3))
            stop = at + rng.choice((1, 1, 2, 5))
            if digits is not None:
                stop = min(stop, digits)
            if stop <= at:
                break
            inner = leaf()
            if level + 1 < len(units) and rng.random() < 0.6:
                width = units[level] // units[level + 1]
                below = at_level(level + 1, width)
                whole = len(below) == 1 and below[0][:2] == (0, width) and type(below[0][2]) is not tuple
                if below and not whole:
                    inner = below
            labelled_bands._append(found, at, stop, inner)
            at = stop
        return tuple(found)

    return at_level(0, None)


def label_of(rng: random.Random) -> Leaf:
    return lambda: rng.choice((1, 2, 3, 1 << 70))  # the last has more bits than a number in C


def several_names(label: int) -> tuple[int, ...]:
    """More of them than are told apart without Python, now and then."""
    return tuple(range(label % 5 * 30))


def gapless(bands: Any) -> Any:
    """The bands without gaps between those of the first level."""
    found: list[Any] = []
    for lo, hi, inner in bands:
        at = found[-1][1] if found else lo
        found.append((at, at + hi - lo, inner))
    return tuple(found)


def is_none() -> None:
    return None


def moved(found: Any, offset: int) -> Any:
    """Other digits of the first level."""
    return tuple((lo + offset, hi + offset, inner) for lo, hi, inner in found)


def cases(
    rng: random.Random, offsets: tuple[int, ...] = (0, 0, 0, 1 << 40, (1 << 63) - 40, 1 << 64)
) -> Iterator[tuple[Any, str, tuple[Any, ...]]]:
    """Calls of every function that is compiled: module, name and parameters. `offsets`: of the digits of the first level."""
    units = rng.choice(UNITS)
    most = rng.choice((3, 6, 60))
    offset = rng.choice(offsets)
    a, b = (moved(some_bands(rng, is_none, units, most), offset) for _ in range(2))
    if rng.random() < 0.3:
        b = a[: len(a) // 2] + b[len(b) // 2 :] if not b or not a or a[len(a) // 2][0] < b[-1][0] else a
        b = tuple(sorted({band[0]: band for band in b}.values(), key=lambda band: band[0]))
        b = tuple(
            one for one, other in zip(b, (*b[1:], None), strict=True) if other is None or one[1] < other[0]
        )
    for name in ("intersect", "meet"):
        yield bands, name, (a, b)
    for name in ("unite", "subtract"):
        yield bands, name, (a, b, units)
        yield bands, name, (a, b, units, 0)
    yield bands, "count", (a, units)
    yield bands, "count_runs", (a, units)
    yield bands, "count_boxes", (a,)
    yield bands, "largest_boxes", (a, units, rng.choice((0, 1, 4, 64)))
    lost = frozenset(level for level in range(len(units) - 1) if rng.random() < 0.5)
    yield bands, "coarsening_cost", (a, units, lost)
    yield labelled_bands, "painted", (a, rng.choice((0, 5, 1 << 70)))
    yield bands, "repeat", (a, rng.choice((1, 2, 9)), units)
    if a:
        yield bands, "close_up", (a, rng.randrange(len(units)))
    yield bands, "_split", (a, rng.choice((1, 2, 5, 24)))
    if len(units) > 1:
        yield bands, "_flatten", (a, units[0] // units[1])
        yield bands, "coarsen", (a, units, rng.randrange(len(units) - 1))
        kept = tuple(unit for unit in units if unit == 1 or rng.random() < 0.5)
        if kept[0] == units[0]:
            coarse = a
            for depth in range(len(units) - 2, -1, -1):
                coarse = coarse if units[depth] in kept else bands.coarsen(coarse, units, depth)
            yield bands, "refine", (coarse, kept, units)
    if a:
        yield bands, "settled", (a, units[:-1], rng.choice((2, 8, 100)))
    for by in (0, rng.randrange(-3000, 3000), units[0] * rng.randrange(-9, 9)):
        yield bands, "shift", (a, by, units)
    label = label_of(rng)
    mine, yours = (moved(some_bands(rng, label, units, most), offset) for _ in range(2))
    yield labelled_bands, "laid_over", (mine, yours, units, 0)
    yield labelled_bands, "count_labelled", (mine, len(units) - 1)
    for names in (labelled.numbers_of, labelled._itself, several_names):
        yield labelled_bands, "apart", (mine, units, 0, names)
    for map_ in (mine, gapless(mine), gapless(yours)):
        start = map_[0][0] * units[0] if map_ else 0
        for stop in (map_[-1][1] * units[0] if map_ else 0, units[0], 7):
            yield labelled_bands, "is_span", (map_, start, stop, units, 0)
    if a:
        inside, _ = labelled_bands.cut_out(yours, a, units, 0)
        yield labelled_bands, "put_in", (mine, a, None, inside, units, 0)
        same, _ = labelled_bands.cut_out(mine, a, units, 0)
        yield labelled_bands, "put_in", (mine, a, None, same, units, 0)
        yield labelled_bands, "put_in", (mine, a, None, (), units, 0)


@pytest.mark.parametrize("seed", range(8))
def test_results_are_those_of_the_functions_in_python(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(150):
        for module, name, parameters in cases(rng):
            function = getattr(module, name)
            assert function.__self__.__name__ == name, "it is compiled"
            found = function(*parameters)
            with compiled.plainly():
                wanted = getattr(module, name)(*parameters)
            assert found == wanted, (name, parameters)
            assert type(found) is type(wanted)


@pytest.mark.parametrize("seed", range(4))
def test_what_lies_in_a_window_and_the_pattern_of_a_map(seed: int) -> None:
    rng = random.Random(100 + seed)
    for _ in range(150):
        units = rng.choice(UNITS)
        window = some_bands(rng, is_none, units, 20)
        held = some_bands(rng, label_of(rng), units, 20)
        inside, rows = labelled_bands.cut_out(held, window, units, 0)
        numbers = [17]
        pattern = labelled_bands.numbers_of_labelled(held, numbers)
        with compiled.plainly():
            assert labelled_bands.cut_out(held, window, units, 0)[0] == inside
            wanted = [17]
            assert labelled_bands.numbers_of_labelled(held, wanted) == pattern
        assert rows is None
        assert numbers == wanted
        assert labelled_bands.put_in(held, window, rows, inside, units, 0) == held


def test_numbers_of_64_bits_are_not_left_to_python() -> None:
    def refuse(*parameters: Any) -> None:
        raise AssertionError(f"left to Python: {parameters}")

    rng, make = random.Random(5), compiled.code.make
    assert make is not None
    called = set()
    for _ in range(200):
        for _, name, parameters in cases(rng, (0, 1 << 40)):
            if several_names not in parameters:  # they are too many
                make(name.encode(), refuse)(*parameters)
            called.add(name)
    assert called | {"cut_out", "numbers_of_labelled"} == {
        *(
            name
            for names, functions in compiled.code.replaceable
            for name in functions
            if "bands" in names["__name__"]
        ),
    }


def test_traced_numbers_are_left_to_python_with_what_was_noted_of_them() -> None:
    def outcome() -> tuple[Any, list[str]]:
        trace = Trace()
        first, second = trace.parameter(3), trace.parameter(40)
        a = ((0, 2, ((first, 9, None),)), (2, second, None))
        b = ((1, 30, ((2, first + 4, None),)),)
        units = (24, 1)
        held = ((0, 5, ((0, first, 1), (first, 12, 2))), (5, second, 4))
        inside, _ = labelled_bands.cut_out(held, b, units, 0)
        found = [
            bands.intersect(a, b),
            bands.unite(a, b, units),
            bands.subtract(a, b, units),
            bands.meet(a, b),
            bands.count_boxes(a),
            bands.count_runs(a, units),
            labelled_bands.laid_over(held, ((0, second, 8),), units, 0),
            labelled_bands.put_in(held, b, None, ((1, 30, ((2, 4, 1),)),), units, 0),
            inside,
        ]
        return repr(found), trace.calculation(())

    found = outcome()
    with compiled.plainly():
        wanted = outcome()
    assert found == wanted


def test_a_list_of_numbers_is_as_it_was_where_python_takes_over() -> None:
    trace = Trace()
    number = trace.parameter(7)
    numbers: list[Any] = []
    pattern = labelled_bands.numbers_of_labelled(((0, 2, 1), (3, number, 2)), numbers)
    assert pattern == (-1, 1, -1, 2)
    assert [int(each) for each in numbers] == [0, 2, 3, 7]


def test_nothing_is_kept() -> None:
    def work(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(40):
            for module, name, parameters in cases(rng):
                getattr(module, name)(*parameters)
            for _ in outcomes(rng, rng.choice((0, 1 << 64))):
                pass

    assert least_growth(lambda: work(1), 10) < FEW


def some_region(rng: random.Random, offset: int) -> Region:
    """A run, a box, rows of pitches that go together or not, many runs without a pitch (an array: not of large numbers), or nothing."""
    start, nbytes = offset + rng.randrange(-40, 400), rng.randrange(1, 30)
    kind = rng.randrange(8)
    if kind < 2:
        return Region.span(start, start + rng.choice((0, nbytes, 700)))
    if kind == 2:
        return Region.spans(
            (start + 3 * at * at, start + 3 * at * at + 2)
            for at in range(3 if offset > 1 << 60 else rng.choice((3, 90)))
        )
    pitches = rng.choice(((32,), (96, 32), (480, 96, 32), (40,), (960,)))
    dims = [(pitch, rng.randrange(1, 5)) for pitch in pitches if rng.random() < 0.8]
    return Region.boxes(start, nbytes, dims)


def outcomes(rng: random.Random, offset: int) -> Iterator[tuple[str, Any]]:
    """What the methods of sets that are compiled give."""

    def shown(found: Any) -> Any:
        if not isinstance(found, Region):
            return found
        listed = found.runs.tolist() if found.bands is None else None
        return found.start, found.stop, found.pitches, found.bands, listed, found.counted, found is EMPTY

    parts = [some_region(rng, offset) for _ in range(6)]
    a, b = parts[:2]
    for one, other in ((a, b), (b, a), (a, a), (a, EMPTY), (EMPTY, b), (a | b, b), (a, a | b), (a, a & b)):
        yield "or", shown(one | other)
        yield "and", shown(one & other)
        yield "sub", shown(one - other)
        yield "overlaps", one.overlaps(other)
        yield "contains", one.contains(other)
    start = a.start + rng.randrange(-20, 60)
    yield "clip", shown(a.clip(start, start + rng.choice((0, 5, 100, 3000))))
    for distance in (0, 5, -96, rng.randrange(-2000, 2000), 1 << 63):
        if a.bands is not None or distance < 1 << 63:
            yield "shift", shown(a.shift(distance))
    for strides in ((64,), (96, 480), (960, 1920), (40, 100), ()):
        yield "copies", shown(a.copies([(stride, rng.randrange(1, 5)) for stride in strides]))
    yield "bool", (bool(a), bool(a - a))
    for count in range(7):
        yield "union", shown(Region.union(parts[:count]))
    yield "union", shown(Region.union([part.shift(at) for at in range(0, 24, 2) for part in parts]))


@pytest.mark.parametrize("seed", range(4))
def test_sets_are_those_of_the_methods_in_python(seed: int) -> None:
    compiled_in = {
        type(Region.__dict__[name]).__name__
        for name in ("__or__", "__and__", "__sub__", "copies", "clip", "shift")
    }
    assert compiled_in == {"method_descriptor"}
    rng = random.Random(seed)
    for _ in range(60):
        known, offset = rng.random(), rng.choice((0, 0, 1 << 40, (1 << 63) - 3000, 1 << 64))
        found = list(outcomes(random.Random(known), offset))
        with compiled.plainly():
            wanted = list(outcomes(random.Random(known), offset))
        assert found == wanted


def test_sets_of_traced_numbers_are_left_to_python_with_what_was_noted_of_them() -> None:
    def outcome() -> tuple[str, list[str]]:
        trace = Trace()
        first, second = trace.parameter(3), trace.parameter(40)
        a, b = Region.boxes(first, 9, ((32, second),)), Region.span(0, 64 + second)
        found = [
            a | b,
            a & b,
            a - b,
            b - a,
            a.shift(first),
            a.clip(first, 90),
            Region.union((a, b, a.shift(64))),
        ]
        return repr([(each.start, each.stop, each.bands) for each in found]), trace.calculation(())

    found = outcome()
    with compiled.plainly():
        assert found == outcome()


def test_without_the_library_functions_are_those_in_python() -> None:
    with compiled.plainly():
        assert not compiled.are_compiled()
        assert bands.unite.__name__ == "unite"
        assert hasattr(bands.unite, "__code__")
    assert compiled.are_compiled()
    assert not hasattr(bands.unite, "__code__")


#: a process in which no library came with the distribution: whether there is one after all, and what then stands in its place
_ELSEWHERE = """
from vdev.translators.ranges import compiled
known = compiled.code.key()
compiled.code.key = lambda: known[:-1] + "x"
from vdev.translators.ranges import bands
from vdev.backends import own_libraries
assert hasattr(bands.unite, "__code__")
print(own_libraries.load_ranges(), hasattr(bands.unite, "__code__"), bands.unite(((0, 4, None),), ((2, 9, None),), (1,)))
"""


def test_the_library_is_compiled_once_into_the_cache_and_done_without(tmp_path: Path) -> None:
    def started(folder: str, **variables: str) -> str:
        env = os.environ | {"VDEV_CACHE": "1", "VDEV_CACHE_DIR": str(tmp_path / folder)} | variables
        done = subprocess.run(
            [sys.executable, "-c", _ELSEWHERE], env=env, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    united = "((0, 9, None),)"
    assert started("cache") == f"True False {united}"
    (made,) = (tmp_path / "cache").rglob(compiled.NAME)
    assert made.stat().st_size > 1000
    assert started("cache", CC="no-such-compiler") == f"True False {united}"
    assert started("other", CC="no-such-compiler") == f"False True {united}"
