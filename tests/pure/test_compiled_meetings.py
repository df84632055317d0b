"""Which of many sets may meet one: compiled, it is what the function in Python says, in which no set that meets it is missed."""

from __future__ import annotations

import random

import pytest
from vdev.translators.ranges import compiled, meetings
from vdev.translators.ranges.pitches import merged
from vdev.translators.ranges.region import Region
from vdev.translators.ranges.tracing import Trace

from tests.pure.test_compiled_conflicts import TRIANGLE
from tests.pure.test_nearby import random_region
from vdev.backends import own_libraries
from vdev.packaging import library

pytestmark = pytest.mark.skipif(not any(True for _ in library.compilers()), reason="there is no C compiler")

#: a number of more than 64 bits, which the compiled function leaves to the one in Python
FAR = 1 << 70


@pytest.fixture(autouse=True, scope="module")
def _loaded() -> None:
    assert own_libraries.load_ranges()


def some_region(rng: random.Random) -> Region:
    kind = rng.randrange(12)
    if kind == 0:
        return Region.empty()
    return TRIANGLE if kind == 1 else random_region(rng)


@pytest.mark.parametrize("seed", range(120))
def test_results_are_those_of_the_function_in_python(seed: int) -> None:
    rng = random.Random(seed)
    entries = [(number, some_region(rng)) for number in range(rng.randrange(40))]
    if seed % 10 == 0:
        entries.insert(rng.randrange(len(entries) + 1), (-1, Region.span(FAR, FAR + 8)))
    for asked in [some_region(rng) for _ in range(12)] + [Region.span(0, FAR)]:
        found, unsure = meetings.may_meet(entries, asked)
        with compiled.plainly():
            assert meetings.may_meet(entries, asked) == (found, unsure)
        assert found == [entry for entry in entries if entry in found]  # in their order
        assert {name for name, region in entries if region.overlaps(asked)} <= {name for name, _ in found}
        told = [region for _, region in found if not region.overlaps(asked)]
        assert len(told) <= unsure
        assert all(_are_not_compared(region, asked) for region in told)


def _are_not_compared(one: Region, other: Region) -> bool:
    return one.bands is None or other.bands is None or merged(one.pitches, other.pitches) is None


def test_sets_of_other_pitches_and_arrays_are_told_by_their_bounds() -> None:
    rows = Region.boxes(0, 4, ((64, 8),))
    others = [Region.boxes(8, 4, ((60, 8),)), Region.boxes(8, 4, ((32, 8),)), Region.boxes(8, 4, ((64, 8),))]
    array = Region.from_runs([(9 * at + at * at % 7, 9 * at + at * at % 7 + 1) for at in range(90)])
    assert array.bands is None
    found, unsure = meetings.may_meet(list(enumerate((*others, array, Region.span(900, 1000)))), rows)
    assert ([name for name, _ in found], unsure) == ([0, 3], 2)


def test_traced_numbers_have_noted_the_same() -> None:
    def outcome() -> object:
        trace = Trace()
        starts = [trace.parameter(start) for start in (0, 40, 80)]
        entries = [(number, Region.span(start, start + 32)) for number, start in enumerate(starts)]
        found, unsure = meetings.may_meet(entries, Region.span(starts[1], starts[1] + 8))
        return [name for name, _ in found], unsure, trace.calculation(())

    found = outcome()
    with compiled.plainly():
        assert outcome() == found
    assert found[0] == [1]  # type: ignore[index]
