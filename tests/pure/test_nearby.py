"""What may meet a region is found among many without looking at each, and nothing that meets it is missed."""

from __future__ import annotations

import random

import pytest
from vdev.translators.ranges.region import Region

from vdev.planner import nearby
from vdev.planner.directory import Draft, buffer_state
from vdev.planner.nearby import Nearby

SIDE = 64


def tile(y: int, x: int, height: int, width: int, pitch: int = SIDE) -> Region:
    return Region.boxes(y * pitch + x, width, ((pitch, height),))


def random_region(rng: random.Random) -> Region:
    kind, size = rng.randrange(6), SIDE * SIDE
    start = rng.randrange(size)
    if kind == 0:
        return Region.span(start, start + rng.randrange(size // 4))
    if kind == 1:
        parts = [(at, at + 1 + rng.randrange(9)) for at in rng.sample(range(size), rng.choice([3, 90]))]
        return Region.from_runs(parts)
    if kind == 2:  # of a pitch that does not go with the others
        return tile(rng.randrange(20), rng.randrange(20), 1 + rng.randrange(20), 1 + rng.randrange(9), 60)
    if kind == 5:  # of finer pitches, or wider ones, that go with the others
        pitch = rng.choice([SIDE // 8, SIDE // 4, SIDE // 2, 2 * SIDE, 4 * SIDE])
        x = rng.randrange(pitch - 1)
        return tile(rng.randrange(20), x, 1 + rng.randrange(20), 1 + rng.randrange(pitch - x), pitch)
    found = tile(
        rng.randrange(SIDE // 2), rng.randrange(SIDE // 2), 1 + rng.randrange(32), 1 + rng.randrange(32)
    )
    if kind == 3:
        found = found - tile(rng.randrange(SIDE), rng.randrange(SIDE), 5, 5)
    return found | tile(rng.randrange(SIDE - 8), rng.randrange(SIDE - 8), 8, 4) if kind == 4 else found


@pytest.mark.parametrize("seed", range(60))
def test_all_that_meets_is_found(seed: int) -> None:
    rng = random.Random(seed)
    entries = [(number, random_region(rng)) for number in range(rng.randrange(rng.choice((40, 160))))]
    known = Nearby(entries[: len(entries) // 2])
    other = known.copy()
    for name, region in entries[len(entries) // 2 :]:
        known.add(name, region)
    for _ in range(30):
        asked = random_region(rng)
        assert {name for name, region in entries if region.overlaps(asked)} <= known.names(asked)
        assert {
            name for name, region in entries[: len(entries) // 2] if region.overlaps(asked)
        } <= other.names(asked)
    assert not known.names(Region.empty())


@pytest.mark.parametrize("shape", ["rows", "columns", "tiles"])
def test_of_disjoint_blocks_only_those_that_meet_are_found(shape: str) -> None:
    sizes = {"rows": (1, SIDE), "columns": (SIDE, 1), "tiles": (8, 8)}
    height, width = sizes[shape]
    places = [(y, x) for y in range(0, SIDE, height) for x in range(0, SIDE, width)]
    known = Nearby((number, tile(y, x, height, width)) for number, (y, x) in enumerate(places))
    for number, (y, x) in enumerate(places):
        assert known.names(tile(y, x, height, width)) == {number}


@pytest.mark.parametrize("pitch", [SIDE // 2, SIDE // 4, 2 * SIDE])
def test_stripes_of_other_pitches_are_told_apart(pitch: int) -> None:
    """A kernel that goes through a buffer in steps of its size, launched with half of it, and with twice of it."""
    workers = 16
    width = SIDE // workers
    known = Nearby((number, tile(0, number * width, SIDE, width)) for number in range(workers))
    part = pitch // workers
    for number in range(workers):
        asked = tile(0, number * part, SIDE * SIDE // pitch, part, pitch)
        meeting = {holder for holder, held in known.meeting(asked) if held.overlaps(asked)}
        assert meeting
        assert known.names(asked) == meeting


def test_tables_are_few_however_much_is_added() -> None:
    known = Nearby()
    for number in range(1000):
        known.add(number, Region.span(number, number + 1))
    assert len(known._tables) <= 12
    assert sum(len(table.entries) for table in known._tables) == 1000


def test_a_drafts_content_is_found_among_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearby, "FEW", 1)
    blocks = [(worker, Region.span(100 * worker, 100 * worker + 100)) for worker in range(16)]
    state = buffer_state(1600, blocks, [(worker, 0, 1600) for worker in range(16)])
    draft = Draft(state)
    assert [worker for worker, _ in draft.near(Region.span(150, 160))] == [1]
    draft.add(9, Region.span(100, 300))
    assert [worker for worker, _ in draft.near(Region.span(150, 160))] == [1, 9]
    assert not draft.held_alone(9, Region.span(100, 300))
    draft.own_each([(3, Region.span(90, 210)), (4, Region.span(210, 220))])
    assert [
        worker for worker, held in draft.near(Region.span(150, 160)) if held.overlaps(Region.span(150, 160))
    ] == [3]
    assert draft.held_alone(3, Region.span(0, 400)).nbytes == 120 + 100
    assert draft.valid_at(0) == Region.span(0, 90)
    assert draft.valid_at(9) == Region.span(220, 300) | Region.span(900, 1000)
