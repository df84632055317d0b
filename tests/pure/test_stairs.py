"""Steps around staircases, compared with sets of numbers."""

from __future__ import annotations

import random

import pytest
from vdev.translators.ranges.region import EMPTY, Region
from vdev.translators.ranges.stairs import distances_of_rows, stairs_around


def members(region: Region) -> set[int]:
    return {byte for start, stop in region.runs.tolist() for byte in range(start, stop)}


def staircase(rng: random.Random, pitch: int) -> Region:
    """Parts of rows, some of them triangles, and sometimes what is no row at all."""
    found, base = [], rng.randrange(3 * pitch)
    rows = rng.randrange(4, 40)
    for _ in range(rng.randrange(1, 4)):
        low, high = rng.randrange(pitch), rng.randrange(pitch)
        left, right = rng.choice((-1, 0, 0, 1, 2)), rng.choice((-1, 0, 1))
        first = rng.randrange(rows)
        for row in range(first, rows):
            begin = max(low + left * (row - first), 0)
            end = min(max(high + right * (row - first), begin), pitch)
            found.append((base + row * pitch + begin, base + row * pitch + end))
    if rng.random() < 0.2:
        start = rng.randrange(rows * pitch)
        found.append((start, start + rng.randrange(1, 3 * pitch)))
    return Region.from_runs(found) if found else EMPTY


@pytest.mark.parametrize("seed", range(300))
def test_steps_have_all_bytes_in_few_boxes(seed: int) -> None:
    rng = random.Random(seed)
    pitch = rng.choice((16, 20, 33, 64))
    region = staircase(rng, pitch)
    if not region:
        return
    most = rng.randrange(1, 20)
    for pitches in ([pitch], [pitch * 2, pitch + 1], distances_of_rows(region)):
        found = stairs_around(region, most, pitches)
        if found is None:
            continue
        assert members(region) <= members(found)
        assert found.nboxes <= most
        assert (found.start, found.stop) == (region.start, region.stop)
        assert Region.from_runs(found.runs) == found  # normalised


@pytest.mark.parametrize("rows", [100, 1000, 5000])
@pytest.mark.parametrize("steps", [8, 32])
def test_few_bytes_lie_beside_a_triangle(rows: int, steps: int) -> None:
    pitch = 4 * rows
    below = Region.from_runs([(row * pitch, row * pitch + 4 * row + 4) for row in range(rows)])
    above = Region.from_runs([(row * pitch + 4 * row, (row + 1) * pitch) for row in range(rows)])
    beside = Region.from_runs([(row * pitch, row * pitch + 8) for row in range(rows)])
    inner = Region.from_runs([(row * pitch + 40, row * pitch + 40 + 4 * row) for row in range(rows // 2)])
    for region in (below, above, beside | inner):
        found = stairs_around(region, steps, distances_of_rows(region))
        assert found is not None
        assert found.pitches == (pitch,)
        assert found.nbytes - region.nbytes <= 6 * region.nbytes / steps


def test_what_is_in_no_rows_has_no_steps() -> None:
    rng = random.Random(1)
    runs = [(start, start + 8) for start in sorted(rng.sample(range(0, 1 << 24, 16), 4000))]
    scattered = Region.from_runs(runs)
    found = stairs_around(scattered, 32, distances_of_rows(scattered))
    assert found is None or found.nbytes > 4 * scattered.nbytes
