"""What accesses read in many small boxes, in the few that plans take for it."""

from __future__ import annotations

import random

import pytest
from vdev.translators.interpreter.summaries import AccessRange
from vdev.translators.ranges.calculations import calculated
from vdev.translators.ranges.covers import rows_around
from vdev.translators.ranges.patterns import as_traced
from vdev.translators.ranges.region import Region
from vdev.translators.ranges.tracing import Trace

from vdev.planner import footprints
from vdev.planner.footprints import PointerArg, gather

PITCH, TILE = 4096, 32
ROWS = range(TILE)
UPPER = Region.spans([(PITCH * row + 4 * row + 4, PITCH * row + 4 * TILE) for row in ROWS[:-1]])
LOWER = Region.spans([(PITCH * row, PITCH * row + 4 * row) for row in ROWS[1:]])
DIAGONAL = Region.boxes(0, 4, ((PITCH + 4, TILE - 1),))
PANEL = Region.boxes(512, 1024, ((PITCH, TILE),))
BOX = Region.boxes(0, 4 * TILE, ((PITCH, TILE),))


def reading(region: Region, mode: str = "read") -> AccessRange:
    return AccessRange(0, mode, region, True, op="add" if mode == "atomic" else None, dtype="int32")  # type: ignore[arg-type]


def read_by(*ranges: AccessRange, in_few: bool = True) -> Region:
    return gather([PointerArg(0, 0, 0, 1 << 30)], ranges, in_few=in_few)[0].reads


@pytest.mark.parametrize("region", [UPPER, LOWER, LOWER | DIAGONAL | UPPER, LOWER | PANEL, UPPER | PANEL])
def test_what_is_read_in_the_runs_of_a_triangle_is_planned_as_a_few_boxes(region: Region) -> None:
    assert region.nboxes >= TILE - 1
    found = read_by(reading(region))
    assert found.nboxes <= 3
    assert found.contains(region)
    assert (found.start, found.stop) == (region.start, region.stop)
    assert (BOX | PANEL).contains(found)
    assert read_by(reading(region), in_few=False) == region


def test_what_lies_far_apart_is_left_as_it_is() -> None:
    farther = Region.spans([(PITCH * row * row, PITCH * row * row + 4) for row in range(12)])
    assert read_by(reading(farther)) == farther
    wide = Region.spans([(PITCH * 64 * row, PITCH * (64 * row + row + 1)) for row in range(60)])
    assert read_by(reading(wide)) == wide  # the box is not much larger, but by many bytes


def test_nothing_is_read_beside_what_atomics_change() -> None:
    beside = reading(Region.span(PITCH + 64, PITCH + 68), "atomic")
    assert read_by(reading(LOWER), beside) == LOWER


@pytest.mark.parametrize("seed", range(40))
def test_rows_around_contain_a_region_and_nothing_outside_of_it(seed: int) -> None:
    rng = random.Random(seed)
    region = Region.union(
        Region.boxes(
            PITCH * row + 4 * rng.randrange(20), 4 * rng.randrange(1, 30), ((PITCH, rng.randrange(1, 3)),)
        )
        for row in range(rng.randrange(1, 24))
    )
    found = rows_around(region)
    if found is not None:
        assert found.contains(region)
        assert (found.start, found.stop) == (region.start, region.stop)


@pytest.mark.parametrize("region", [UPPER, LOWER, LOWER | DIAGONAL | UPPER, LOWER | PANEL])
def test_rows_around_traced_regions_hold_for_other_places(region: Region) -> None:
    trace = Trace()
    tile = trace.parameter(3)
    around = rows_around(region.shift((PITCH + 4) * TILE * tile))
    assert around is not None
    assert as_traced(around) == rows_around(region.shift((PITCH + 4) * TILE * 3))
    calculation = trace.calculation(())
    trace.close()
    assert [calculated([number], *calculation) is not None for number in (2, 5, 10)] == [True] * 3


def test_boxes_beyond_which_an_access_is_looked_at_are_few() -> None:
    assert footprints.READ_BOXES < footprints.MOST_READ
