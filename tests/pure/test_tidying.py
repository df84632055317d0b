"""Buffers that lie in many boxes: what is brought where, so that they lie in few."""

from __future__ import annotations

import random

import pytest
from vdev.translators.ranges.covers import boxes_around
from vdev.translators.ranges.labelled import labelled
from vdev.translators.ranges.region import EMPTY, Region

from vdev.planner.builder import PlanBuilder
from vdev.planner.directory import HOST, BufferState, buffer_state, check, label_of, map_of
from vdev.planner.instructions import Copy
from vdev.planner.links import LinkCosts
from vdev.planner.tidying import bring_together, join_copies, remedy_for

SIZE, PITCH = 4096, 64
WORKERS = 4
LINKS = LinkCosts.uniform(WORKERS, peer=0.1, direct=True)


def any_region(rng: random.Random, most: int) -> Region:
    """Some boxes of a matrix."""
    found = EMPTY
    for _ in range(rng.randrange(most)):
        rows, nbytes = rng.randrange(1, 9), 4 * rng.randrange(1, 9)
        at = PITCH * rng.randrange(SIZE // PITCH - rows) + 4 * rng.randrange(8)
        found = found | Region.boxes(at, nbytes, ((PITCH, rows),))
    return found


def any_state(rng: random.Random) -> BufferState:
    everywhere = [(worker, 0, SIZE) for worker in range(WORKERS)]
    held = [(worker, any_region(rng, 12)) for worker in range(WORKERS)]
    home = Region.span(0, SIZE) if rng.random() < 0.5 else any_region(rng, 6)
    return buffer_state(SIZE, [(HOST, home), *held], everywhere)


def copies_of(builder: PlanBuilder) -> list[Copy]:
    plan = builder.finish()
    assert all(isinstance(item, Copy) for item in plan.instructions)
    for state in plan.states:
        check(state)
    return [item for item in plan.instructions if isinstance(item, Copy)]


@pytest.mark.parametrize("seed", range(30))
def test_what_is_missing_comes_from_those_who_have_it_by_a_map_as_well(seed: int) -> None:
    rng = random.Random(seed)
    state = any_state(rng)
    wanted, target = any_region(rng, 8), rng.randrange(WORKERS)
    builder = PlanBuilder([state], LINKS)
    builder.make_valid(0, target, wanted, map_of(state.valid))
    arrived = EMPTY
    for item in copies_of(builder):
        assert item.target == target
        assert state.valid_at(item.source).contains(item.region)
        assert not arrived.overlaps(item.region)
        arrived = arrived | item.region
    assert arrived == (wanted & state.initialised) - state.valid_at(target)


@pytest.mark.parametrize("seed", range(20))
def test_nothing_gets_lost_when_a_buffer_is_brought_together(seed: int) -> None:
    rng = random.Random(seed)
    state = any_state(rng)
    plans = []
    for held in (map_of(state.valid), None):
        builder = PlanBuilder([state], LINKS)
        bring_together(builder, 0, held)
        places = {holder: state.valid_at(holder) for holder in (HOST, *range(WORKERS))}
        for item in copies_of(builder):
            assert places[item.source].contains(item.region)
            places[item.target] = places[item.target] | item.region
        after = builder.drafts[0].freeze()
        assert all(places[holder].contains(region) for holder, region in after.valid)
        assert after.initialised == state.initialised
        plans.append(after)
    assert plans[0].nbytes == plans[1].nbytes


def stairs(worker: int) -> Region:
    """What a worker has copied of a window that moves on."""
    return Region.union(
        [Region.boxes(PITCH * (12 * worker + row) + 2 * row, 24, ((PITCH, 2),)) for row in range(8)]
    )


def test_copies_that_were_made_piece_by_piece_become_a_box() -> None:
    everything = Region.span(0, SIZE)
    replicas = [(worker, 0, SIZE) for worker in range(WORKERS)]
    held = [(worker, stairs(worker)) for worker in range(WORKERS)]
    state = buffer_state(SIZE, [(HOST, everything), *held], replicas)
    builder = PlanBuilder([state], LINKS)
    join_copies(builder, 0, state.labelled)
    moved = sum(item.region.nbytes for item in copies_of(builder))
    assert 0 < moved <= sum(region.nbytes for _, region in held)
    after = builder.drafts[0].freeze()
    assert all(after.valid_at(worker).nboxes == 1 for worker in range(WORKERS))


def test_what_lies_far_apart_is_not_joined() -> None:
    """Rows of a halo, of which the worker has not what lies between."""
    rows = Region.boxes(0, PITCH, ((16 * PITCH, 4),))
    state = buffer_state(SIZE, [(HOST, Region.span(0, SIZE)), (0, rows)], [(0, 0, SIZE)])
    builder = PlanBuilder([state], LINKS)
    join_copies(builder, 0, state.labelled)
    assert not copies_of(builder)


def test_what_a_worker_alone_has_counts_for_nothing() -> None:
    """Parts of rows in turn, as after launches whose chunks take them so."""
    parts: list[list[Region]] = [[], []]
    for number, start in enumerate([0, 3, 5, 9, 10, 14, 20, 21, 27, 30, 34, 36, 40]):
        parts[number % 2].append(Region.boxes(start * PITCH, 20, ((PITCH, 3),)))
    rows = [Region.union(parts[0]) - Region.union(parts[1]), Region.union(parts[1])]
    state = buffer_state(SIZE, list(enumerate(rows)), [(worker, 0, SIZE) for worker in range(2)])
    builder = PlanBuilder([state], LINKS)
    join_copies(builder, 0, state.labelled)
    assert not copies_of(builder)


def test_only_what_a_command_has_not_written_is_joined() -> None:
    held = [(worker, any_region(random.Random(worker), 60)) for worker in range(WORKERS)]
    replicas = [(worker, 0, SIZE) for worker in range(WORKERS)]
    state = buffer_state(SIZE, [(HOST, Region.span(0, SIZE)), *held], replicas)
    assert remedy_for(state, 0) is join_copies
    assert remedy_for(state, 40) is None
    assert remedy_for(state, 1) is bring_together


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("margin", [0.0, 0.25])
def test_boxes_around_a_region_contain_it(seed: int, margin: float) -> None:
    rng = random.Random(seed)
    region = any_region(rng, 20) | Region.span(4, 8)
    around = boxes_around(region, (PITCH,), 2, margin)
    assert around.contains(region)
    assert len(around.runs) <= 2 * SIZE // PITCH
    one = boxes_around(region, (PITCH,), 1)
    assert one.nboxes == 1


def test_labels_are_of_holders() -> None:
    found = labelled([(label_of(HOST), Region.span(0, 8)), (label_of(1), Region.span(4, 8))])
    assert found is not None
    assert found.nshared == 1
