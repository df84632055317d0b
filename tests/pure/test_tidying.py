"""Buffers that lie in many boxes: what is brought where, so that they lie in few."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from vdev.translators.ranges.covers import boxes_around
from vdev.translators.ranges.labelled import labelled
from vdev.translators.ranges.region import EMPTY, Region
from vdev.translators.ranges.unlisted import Unlisted
from vdev.translators.symbolic.domain import Domain, Form
from vdev.translators.symbolic.domain_image import image

from vdev.planner import tidying
from vdev.planner.builder import PlanBuilder
from vdev.planner.directory import HOST, BufferState, buffer_state, check, label_of, map_of
from vdev.planner.footprints import Footprint
from vdev.planner.instructions import Copy
from vdev.planner.links import LinkCosts
from vdev.planner.tidying import bring_together, fitted, join_copies, remedy_for

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
    assert remedy_for(state, 0, state) is join_copies
    assert remedy_for(state, 40, state) is None
    assert remedy_for(state, 1, state) is bring_together


def test_what_one_command_has_brought_is_joined_only_once_there_is_more() -> None:
    """The edges of many blocks, all of which go with the next command that writes."""
    everything, replicas = Region.span(0, SIZE), [(worker, 0, SIZE) for worker in range(WORKERS)]
    before = buffer_state(SIZE, [(HOST, everything)], replicas)
    copies = [(worker, any_region(random.Random(worker), 60)) for worker in range(WORKERS)]
    after = buffer_state(SIZE, [(HOST, everything), *copies], replicas)
    assert remedy_for(after, 0, before) is None
    assert remedy_for(after, 0, after) is join_copies


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


def triangle(rng: random.Random, first: int, last: int, pitch: int) -> Region:
    """The part of a matrix's rows below its diagonal, or a part of the columns of that."""
    left, right = sorted(rng.sample(range(first, last), 2)) if rng.random() < 0.3 else (0, last)
    rows = [(row * pitch + 4 * left, row * pitch + 4 * min(row + 1, right)) for row in range(first, last)]
    return Region.from_runs([(start, stop) for start, stop in rows if start < stop])


def tied(first: int, last: int, pitch: int) -> Region:
    """The rows of a matrix below its diagonal, as analysis gives them."""
    domain = Domain()
    row, column = domain.variable(first, last - 1), domain.variable(0, last - 1)
    domain.require(Form(0, {row: 1, column: -1}))
    region, exact, _ = image(domain, Form(0, {row: pitch, column: 4}), 4, last * pitch)
    assert exact
    return region


@pytest.mark.parametrize("count", [1, 2, 4, 16])
def test_a_triangle_is_few_boxes_without_a_list_of_its_rows(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, pitch = 8000, 32000
    edges = [0, *(rows * (number + 1) // count for number in range(count))]
    parts = [tied(*ends, pitch) for ends in pairwise(edges)]
    before = [Footprint(reads=part | Region.boxes(8, 40, ((pitch, rows),)), exact=part) for part in parts]
    held = Region.boxes(0, pitch // 2, ((pitch, rows),))
    with monkeypatch.context() as patch:
        patch.setattr(Unlisted, "runs", property(lambda self: pytest.fail("rows were listed")))
        after = fitted(before, buffer_state(rows * pitch, [(0, held)], [(0, 0, rows * pitch)]))
        assert not any(one.writes.overlaps(other.writes) for one, other in pairwise(after))
    for old, new in zip(before, after, strict=True):
        assert new.reads.contains(old.reads)
        assert new.inexact.contains(old.exact)
        assert not new.exact
        assert new.writes.nboxes <= 32 // count + 8
    nbytes = 2 * rows * (rows + 1)
    assert nbytes < sum(f.writes.nbytes for f in after) <= nbytes * 1.04


def test_a_triangle_that_is_written_whatever_it_held_stays_as_it_is() -> None:
    rows, pitch = 2000, 32000
    parts = [tied(first, last, pitch) for first, last in ((0, 1000), (1000, rows))]
    held = Region.boxes(0, pitch // 2, ((pitch, rows),))
    state = buffer_state(rows * pitch, [(0, held)], [(0, 0, rows * pitch)])
    after = fitted([Footprint(exact=part) for part in parts], state)
    assert [f.exact for f in after] == parts
    assert not any(f.inexact or f.reads for f in after)


@pytest.mark.parametrize("seed", range(60))
def test_triangles_are_few_boxes_of_their_own_rows(seed: int) -> None:
    rng = random.Random(seed)
    rows = rng.randrange(300, 500)
    pitch, count = 4 * rng.randrange(3000, 4000), rng.randrange(2, 5)
    edges = [0, *sorted(rng.sample(range(4, rows - 4), count - 1)), rows]
    parts = [triangle(rng, first, last, pitch) for first, last in pairwise(edges)]
    reads = rng.random() < 0.7
    before = [Footprint(reads=part if reads else EMPTY, exact=part) for part in parts]
    held = Region.span(0, rows * pitch)
    after = fitted(before, buffer_state(rows * pitch, [(0, held)], [(0, 0, rows * pitch)]))
    for old, new in zip(before, after, strict=True):
        assert new.reads.contains(old.reads)
        assert new.writes.contains(old.writes)
        assert old.exact.contains(new.exact)
    for index, one in enumerate(after):
        assert not any(one.writes.overlaps(other.writes) for other in after[:index])
    if reads:
        boxes = [each.nboxes for f in after for each in (f.reads, f.writes)]
        assert max(boxes) <= 64
        assert {each.pitches for f in after for each in (f.reads, f.writes)} <= {(), (pitch,)}
        assert sum(f.reads.nbytes for f in after) <= 1.3 * sum(part.nbytes for part in parts)
    else:  # nothing has to be brought for what is written whatever it held
        assert all(f.exact == part for f, part in zip(after, parts, strict=True) if len(part) > 150)


def test_what_is_read_and_written_is_widened_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps around a staircase, and the distances of its rows, take longer than all the rest of a plan."""
    asked: list[str] = []
    for name in ("stairs_around", "distances_of_rows"):
        found = getattr(tidying, name)
        monkeypatch.setattr(
            tidying, name, lambda *args, name=name, found=found: asked.append(name) or found(*args)
        )
    rows, pitch = 400, 12000
    parts = [triangle(random.Random(1), first, last, pitch) for first, last in ((0, 200), (200, rows))]
    # equal, and not the same objects
    before = [Footprint(reads=Region.from_runs(part.runs), exact=part) for part in parts]
    held = Region.span(0, rows * pitch)
    after = fitted(before, buffer_state(rows * pitch, [(0, held)], [(0, 0, rows * pitch)]))
    assert sorted(asked) == ["distances_of_rows"] * 2 + ["stairs_around"] * 2
    assert all(f.inexact == f.reads != part for f, part in zip(after, parts, strict=True))


@pytest.mark.parametrize("seed", range(20))
def test_what_is_written_is_widened_by_itself_where_something_else_is_read(seed: int) -> None:
    rng = random.Random(seed)
    rows, pitch = 400, 12000
    written = [triangle(rng, first, last, pitch) for first, last in ((0, 200), (200, rows))]
    read = [triangle(rng, *rng.choice(((0, 200), (0, rows), (200, rows))), pitch) for _ in written]
    before = [Footprint(reads=one, exact=other) for one, other in zip(read, written, strict=True)]
    held = Region.span(0, rows * pitch)
    after = fitted(before, buffer_state(rows * pitch, [(0, held)], [(0, 0, rows * pitch)]))
    for old, new in zip(before, after, strict=True):
        assert new.reads.contains(old.reads)
        assert new.writes.contains(old.writes)
        assert new.inexact in (EMPTY, new.writes)
        assert new.inexact or new.exact == old.exact


@pytest.mark.parametrize("seed", range(20))
def test_what_several_chunks_write_in_turn_stays_apart(seed: int) -> None:
    rng = random.Random(seed)
    rows, pitch = 600, 4 * rng.randrange(3000, 4000)
    of_chunk: list[list[tuple[int, int]]] = [[], []]
    for row in range(rows):
        of_chunk[rng.random() < 0.3].append((row * pitch, row * pitch + 4 * row + 4))
    before = [Footprint(reads=part, exact=part) for part in map(Region.from_runs, of_chunk)]
    held = Region.span(0, rows * pitch)
    one, other = fitted(before, buffer_state(rows * pitch, [(0, held)], [(0, 0, rows * pitch)]))
    assert not one.writes.overlaps(other.writes)
    assert one.writes.contains(before[0].writes)
    assert other.writes.contains(before[1].writes)
