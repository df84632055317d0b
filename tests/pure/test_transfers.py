"""Single transfers, the growth of replicas, and evictions.

Where each byte of a command is read and written.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from vdev.translators.ranges.region import Region

from vdev.planner.builder import GRANULE, MAX_SLACK, PlanBuilder
from vdev.planner.directory import HOST, BufferState, buffer_state, check
from vdev.planner.evictions import Eviction, plan_evictions, propose_evictions
from vdev.planner.instructions import Copy, CopyBetween, Download, Fill, Reserve, Upload
from vdev.planner.links import LinkCosts
from vdev.planner.tidying import HELD_EACH, HELD_FRESH, MOST_HELD
from vdev.planner.transfers import Box, plan_copy, plan_fill, plan_map, plan_read, plan_unmap, plan_write
from vdev.session.commands import Map, Unmap
from vdev.session.transfers import transfer_of

LINKS = LinkCosts.uniform(2)
span = Region.span

#: 0..40 on worker 0, 40..80 on worker 1, 60..100 at home; 80..100 only there
SPREAD = buffer_state(
    100, [(0, span(0, 40)), (1, span(40, 80)), (HOST, span(60, 100))], [(0, 0, 40), (1, 0, 100)]
)


def test_a_write_goes_home() -> None:
    plan = plan_write(SPREAD, span(30, 50), LINKS)
    assert plan.instructions == (Upload(HOST, 0, span(30, 50)),)
    (state,) = plan.states
    assert (state.valid_at(0), state.valid_at(1)) == (span(0, 30), span(50, 80))
    assert state.valid_at(HOST) == span(30, 50) | span(60, 100)


def test_a_contiguous_read_takes_each_byte_from_one_holder() -> None:
    plan = plan_read(SPREAD, span(10, 90), LINKS, contiguous=True)
    assert plan.instructions == (
        Download(HOST, 0, span(60, 90)),
        Download(0, 0, span(10, 40)),
        Download(1, 0, span(40, 60)),
    )
    assert plan.states == (SPREAD,)
    assert plan.moved == ((0, HOST, 30), (1, HOST, 20))


def test_a_rectangle_is_read_at_home() -> None:
    rectangle = Box((1, 2, 10), 30, (0, 40)).region()
    plan = plan_read(SPREAD, rectangle, LINKS, contiguous=False)
    assert plan.instructions == (Copy(0, 0, 0, HOST, span(30, 40)), Download(HOST, 0, rectangle))
    assert plan.dependencies == ((), (0,))
    assert plan.states[0].valid_at(HOST) == span(30, 40) | span(60, 100)


def test_what_nobody_wrote_is_not_read() -> None:
    assert plan_read(buffer_state(100), span(0, 100), LINKS, contiguous=True).instructions == ()
    assert plan_read(buffer_state(100), span(0, 100), LINKS, contiguous=False).instructions == ()


def test_a_fill_is_done_where_the_bytes_are() -> None:
    plan = plan_fill(SPREAD, 32, 64, b"ab", LINKS)
    assert plan.instructions == (
        Fill(0, 0, span(32, 40), b"ab"),
        Fill(1, 0, span(40, 80), b"ab"),
        Fill(HOST, 0, span(80, 96), b"ab"),
    )
    assert plan.states[0].valid_at(HOST) == span(80, 100)


def test_a_fill_does_not_cut_patterns() -> None:
    plan = plan_fill(SPREAD, 4, 48, b"0123456789ab", LINKS)
    assert plan.instructions == (
        Fill(0, 0, span(4, 40), b"0123456789ab"),
        Fill(1, 0, span(40, 52), b"0123456789ab"),
    )
    plan = plan_fill(SPREAD, 0, 96, b"0123456789abcdef" * 2, LINKS)
    assert plan.instructions == (
        Fill(0, 0, span(0, 32), b"0123456789abcdef" * 2),
        Fill(HOST, 0, span(32, 96), b"0123456789abcdef" * 2),
    ), "worker 1 holds no whole pattern"


def copies(plan_instructions: tuple[object, ...]) -> list[tuple[int, int, int, tuple[int, int, int]]]:
    return [
        (item.worker, item.source_start, item.target_start, item.shape)
        for item in plan_instructions
        if isinstance(item, CopyBetween)
    ]


def test_a_copy_is_done_where_the_bytes_are() -> None:
    target = buffer_state(200, [(HOST, span(0, 200))])
    plan = plan_copy([SPREAD, target], Box.contiguous(10, 90), Box.contiguous(110, 90), LINKS)
    assert copies(plan.instructions) == [
        (0, 10, 110, (1, 1, 30)),
        (1, 40, 140, (1, 1, 40)),
        (HOST, 80, 180, (1, 1, 20)),
    ], "home copies only what no worker holds"
    assert plan.moved == ()
    assert plan.states[0] is SPREAD
    assert plan.states[1].valid_at(0) == span(110, 140)
    assert plan.states[1].valid_at(HOST) == span(0, 110) | span(180, 200)


#: of workers with memory of their own, which may lie idle
ROOMY = replace(LinkCosts.uniform(2, direct=True), gaps_nbytes=1 << 20)


def test_what_is_copied_to_a_buffer_that_is_kept_on_a_worker_is_copied_there() -> None:
    """The source is brought there once, and stays where it was."""
    source = buffer_state(100, [(0, span(0, 40)), (1, span(40, 90))], [(0, 0, 40), (1, 40, 100)])
    target = buffer_state(200, [(1, span(0, 200))], [(1, 0, 200)], kept=1)
    plan = plan_copy([source, target], Box.contiguous(10, 90), Box.contiguous(110, 90), ROOMY)
    assert copies(plan.instructions) == [(1, 10, 110, (1, 1, 80))], "nobody wrote the last ten bytes"
    assert plan.moved == ((0, 1, 30),)
    assert plan.states[0].valid_at(0) == span(0, 40)
    assert plan.states[0].valid_at(1) == span(10, 90)
    assert plan.states[1].valid == ((1, span(0, 190)),)
    again = plan_copy(plan.states, Box.contiguous(10, 90), Box.contiguous(110, 90), ROOMY)
    assert (again.moved, again.growth, again.states) == ((), (), plan.states)
    assert copies(again.instructions) == [(1, 10, 110, (1, 1, 80))]


@pytest.mark.parametrize(
    ("kept", "links"),
    [((None, None), ROOMY), ((0, 1), ROOMY), ((None, 1), LinkCosts.uniform(2, direct=True))],
)
def test_what_is_kept_elsewhere_or_takes_much_memory_is_copied_where_it_is(
    kept: tuple[int | None, int | None], links: LinkCosts
) -> None:
    states = [
        buffer_state(100, [(0, span(0, 40)), (1, span(40, 100))], [(0, 0, 40), (1, 40, 100)], kept[0]),
        buffer_state(100, [(1, span(0, 100))], [(1, 0, 100)], kept[1]),
    ]
    plan = plan_copy(states, Box.contiguous(0, 100), Box.contiguous(0, 100), links)
    assert copies(plan.instructions) == [(0, 0, 0, (1, 1, 40)), (1, 40, 40, (1, 1, 60))]
    assert plan.moved == ()


def test_a_rectangle_is_copied_by_rows_and_columns() -> None:
    """Four rows of 8 bytes, 16 apart; worker 0 holds their left halves, worker 1 their right ones."""
    left, right = Region.boxes(0, 4, ((16, 4),)), Region.boxes(4, 4, ((16, 4),))
    source = buffer_state(64, [(0, left), (1, right)], [(0, 0, 64), (1, 0, 64)])
    plan = plan_copy(
        [source, buffer_state(64)], Box((1, 4, 8), 0, (64, 16)), Box((1, 4, 8), 0, (32, 8)), LINKS
    )
    items = [item for item in plan.instructions if isinstance(item, CopyBetween)]
    assert [
        (i.worker, i.shape, i.source_start, i.source_pitches[1], i.target_start, i.target_pitches[1])
        for i in items
    ] == [
        (0, (1, 4, 4), 0, 16, 0, 8),
        (1, (1, 4, 4), 4, 16, 4, 8),
    ]
    assert plan.states[1].valid_at(1) == Region.boxes(4, 4, ((8, 4),))


def test_a_box_that_one_holder_has_is_one_copy() -> None:
    source = buffer_state(100, [(1, span(0, 100))], [(1, 0, 100)])
    box = Box((2, 3, 4), 1, (40, 10))
    plan = plan_copy([source, buffer_state(100)], box, box, LINKS)
    assert plan.instructions[1:] == (CopyBetween(1, 0, 1, (2, 3, 4), 1, (40, 10), 1, (40, 10)),)


def test_a_copy_within_a_buffer_keeps_the_source_where_it_is_read() -> None:
    """Worker 0's replica has to grow far.

    Without the source, the rest of which worker 1 holds too, it could let go of it.
    """
    size = 64 << 20
    state = buffer_state(size, [(0, span(0, 100)), (1, span(0, 100))], [(0, 0, 4096), (1, 0, 4096)])
    plan = plan_copy([state], Box.contiguous(0, 100), Box.contiguous(size - 100, 100), LINKS)
    for worker in (0, 1):
        assert plan.states[0].valid_at(worker) == span(0, 100) | span(size - 100, size)


def test_what_nobody_wrote_is_not_copied() -> None:
    target = buffer_state(100, [(HOST, span(0, 100))])
    plan = plan_copy([buffer_state(100), target], Box.contiguous(0, 50), Box.contiguous(0, 50), LINKS)
    assert plan.instructions == ()
    assert plan.states[1].initialised == span(50, 100)


def test_a_mapping_for_reading_leaves_copies_valid() -> None:
    plan = plan_map(SPREAD, span(0, 100), LINKS, read=True, write=False)
    assert plan.instructions == (Copy(0, 0, 0, HOST, span(0, 40)), Copy(1, 0, 1, HOST, span(40, 60)))
    assert plan.states[0].valid_at(HOST) == span(0, 100)
    assert plan.states[0].valid_at(0) == span(0, 40)
    assert plan_unmap(plan.states[0], span(0, 100), LINKS, write=False).states == plan.states


@pytest.mark.parametrize(("read", "count"), [(True, 2), (False, 0)])
def test_a_mapping_for_writing_leaves_the_home_alone(read: bool, count: int) -> None:
    plan = plan_map(SPREAD, span(0, 100), LINKS, read=read, write=True)
    assert len(plan.instructions) == count
    assert plan.states[0].valid == ((HOST, span(0, 100)),)
    assert plan_unmap(SPREAD, span(0, 100), LINKS, write=True).states == plan.states


# replicas ---------------------------------------------------------------------------------------

HUGE = 1 << 30


def grown(state: BufferState, start: int, stop: int) -> tuple[tuple[object, ...], BufferState]:
    builder = PlanBuilder([state], LINKS)
    builder.reserve(0, 0, start, stop)
    plan = builder.finish()
    return plan.instructions, plan.states[0]


def test_a_first_replica_is_what_is_needed_in_whole_granules() -> None:
    instructions, _ = grown(buffer_state(HUGE), GRANULE + 1, 2 * GRANULE + 1)
    assert instructions == (Reserve(0, 0, GRANULE, 3 * GRANULE, Region.empty()),)
    assert grown(buffer_state(100), 10, 20)[0] == (Reserve(0, 0, 0, 100, Region.empty()),)


def test_a_replica_that_suffices_stays() -> None:
    assert grown(buffer_state(HUGE, replicas=[(0, 0, 8192)]), 10, 8000)[0] == ()


def test_a_growing_replica_gets_slack_on_that_side() -> None:
    state = buffer_state(HUGE, [(0, span(1 << 20, 1 << 24))], [(0, 1 << 20, 1 << 24)])
    (item,), after = grown(state, 1 << 23, (1 << 24) + 1)
    assert item == Reserve(0, 0, 1 << 20, (1 << 24) + GRANULE + MAX_SLACK, span(1 << 20, 1 << 24))
    assert after.valid == state.valid


@pytest.mark.parametrize(("room", "most"), [(1 << 30, 8), (48 << 20, 58), (0, 64)])
def test_a_walk_over_a_buffer_moves_its_replica_few_times(room: int, most: int) -> None:
    """64 windows, one after the other: a replica doubles as long as that much may lie idle."""
    nbytes, window = 256 << 20, 4 << 20
    links = replace(LinkCosts.uniform(2, peer=0.05, direct=True), gaps_nbytes=room)
    state, moves = buffer_state(nbytes), 0
    for start in range(0, nbytes, window):
        builder = PlanBuilder([state], links)
        builder.reserve(0, 0, start, start + window)
        plan = builder.finish()
        moves += sum(isinstance(item, Reserve) for item in plan.instructions)
        state = plan.states[0]
        low, high = state.replica(0) or (0, 0)
        assert low == 0
        assert start + window <= high <= min(nbytes, max(room, start + window + MAX_SLACK))
    assert moves <= most


def test_a_replica_that_grows_by_its_neighbours_edge_does_not_double() -> None:
    links = replace(LinkCosts.uniform(2, peer=0.05, direct=True), gaps_nbytes=1 << 34)
    builder = PlanBuilder([buffer_state(HUGE, replicas=[(0, 0, 1 << 24)])], links)
    builder.reserve(0, 0, 0, (1 << 24) + GRANULE)
    assert builder.finish().states[0].replica(0) == (0, (1 << 24) + GRANULE + MAX_SLACK)


def test_no_slack_where_none_is_wanted() -> None:
    links = replace(LinkCosts.uniform(2, peer=0.05, direct=True), gaps_nbytes=1 << 34)
    builder = PlanBuilder([buffer_state(HUGE, replicas=[(0, 0, 1 << 24)])], links)
    builder.reserve(0, 0, 1 << 24, 1 << 25, slack=False)
    assert builder.finish().states[0].replica(0) == (0, 1 << 25)


def test_a_far_away_replica_is_given_up_if_others_hold_its_bytes() -> None:
    state = buffer_state(HUGE, [(HOST, span(0, HUGE)), (0, span(0, 4096))], [(0, 0, 4096)])
    (item,), after = grown(state, HUGE - 4096, HUGE)
    assert item == Reserve(0, 0, HUGE - 4096, HUGE, Region.empty())
    assert after.valid_at(0) == Region.empty()


def test_what_only_a_far_away_replica_holds_goes_home_first() -> None:
    state = buffer_state(HUGE, [(0, span(0, 4096))], [(0, 0, 4096)])
    instructions, after = grown(state, HUGE - 4096, HUGE)
    assert instructions == (
        Copy(0, 0, 0, HOST, span(0, 4096)),
        Reserve(0, 0, HUGE - 4096, HUGE, Region.empty()),
    )
    assert after.valid == ((HOST, span(0, 4096)),)


def test_evictions_begin_with_what_costs_nothing() -> None:
    alone = buffer_state(100, [(0, span(0, 60))], [(0, 0, 100)])
    shared = buffer_state(50, [(HOST, span(0, 50)), (0, span(0, 50))], [(0, 0, 50)])
    elsewhere = buffer_state(10, [(1, span(0, 10))], [(1, 0, 10)])
    states = [alone, shared, elsewhere]
    assert propose_evictions(states, 0, 1) == (Eviction(1, 50, Region.empty()),)
    both = propose_evictions(states, 0, 1000)
    assert both == (Eviction(1, 50, Region.empty()), Eviction(0, 100, span(0, 60)))
    assert propose_evictions(states, 0, 1000, keep=[0]) == both[:1]
    plan = plan_evictions(states, 0, both, LINKS)
    assert plan.instructions == (
        Reserve(0, 1, 0, 0, Region.empty()),
        Copy(0, 0, 0, HOST, span(0, 60)),
        Reserve(0, 0, 0, 0, Region.empty()),
    )
    assert plan.states[0] is buffer_state(100, [(HOST, span(0, 60))])
    assert plan.states[2] is elsewhere


# many small transfers ------------------------------------------------------------------------------------

SIZE = 1 << 22


def writes(state: BufferState, at: int, nbytes: int, links: LinkCosts) -> BufferState:
    return plan_write(state, span(at, at + nbytes), links).states[0]


def writes_of_rows(state: BufferState, at: int, nbytes: int, links: LinkCosts) -> BufferState:
    rows = Region.boxes(at // 2, 8 + nbytes % 100, ((4096, 100),))
    return plan_write(state, rows, links).states[0]


def reads_of_rows(state: BufferState, at: int, nbytes: int, links: LinkCosts) -> BufferState:
    rows = Region.boxes(at // 2, 8 + nbytes % 100, ((4096, 100),))
    return plan_read(state, rows, links, contiguous=False).states[0]


def fills(state: BufferState, at: int, nbytes: int, links: LinkCosts) -> BufferState:
    return plan_fill(state, at, nbytes, b"abcd", links).states[0]


def copies_within(state: BufferState, at: int, nbytes: int, links: LinkCosts) -> BufferState:
    target = (at + SIZE // 3) % (SIZE - nbytes)
    return plan_copy([state], Box.contiguous(at, nbytes), Box.contiguous(target, nbytes), links).states[0]


def maps_for_reading(state: BufferState, at: int, nbytes: int, links: LinkCosts) -> BufferState:
    region = span(at, at + nbytes)
    state = plan_map(state, region, links, read=True, write=False).states[0]
    return plan_unmap(state, region, links, write=False).states[0]


def maps_for_writing(state: BufferState, at: int, nbytes: int, links: LinkCosts) -> BufferState:
    region = span(at, at + nbytes)
    mapped = plan_map(state, region, links, read=True, write=True).states[0]
    assert mapped.valid_at(HOST).contains(region)
    assert not any(held.overlaps(region) for holder, held in mapped.valid if holder != HOST)
    return plan_unmap(mapped, region, links, write=True, before=state).states[0]


PIECE_BY_PIECE = (
    writes,
    writes_of_rows,
    reads_of_rows,
    fills,
    copies_within,
    maps_for_reading,
    maps_for_writing,
)


def bound(state: BufferState) -> int:
    """The boxes in which a buffer may lie after these transfers, of which rows that cross a pitch are three boxes, and cut
    what others hold into few more.
    """
    return MOST_HELD + HELD_EACH * (len(state.valid) + 2) + HELD_FRESH * 3


@pytest.mark.parametrize("shared_out", [False, True])
@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("transfer", PIECE_BY_PIECE, ids=lambda transfer: transfer.__name__)
def test_a_buffer_used_piece_by_piece_lies_in_few_boxes(
    transfer: Callable[..., BufferState], direct: bool, shared_out: bool
) -> None:
    links = LinkCosts.uniform(4, peer=0.1, per_run=64.0, direct=direct)
    blocks = [(worker, worker * SIZE // 4, (worker + 1) * SIZE // 4) for worker in range(4)]
    state = buffer_state(SIZE)
    if shared_out:
        state = buffer_state(SIZE, [(worker, span(start, stop)) for worker, start, stop in blocks], blocks)
    rng, seen = random.Random(7), []
    for _ in range(300):
        state = transfer(state, rng.randrange(SIZE - 8192) // 4 * 4, 4 * rng.randrange(1, 1024), links)
        check(state)
        seen.append(sum(region.nboxes for _, region in state.valid))
        assert seen[-1] <= bound(state), (len(seen), seen)


@pytest.mark.parametrize("workers", [2, 5, 9])
def test_any_transfers_in_turn_leave_few_boxes(workers: int) -> None:
    links = LinkCosts.uniform(workers, peer=0.1, per_run=64.0)
    blocks = [(n, n * SIZE // workers, (n + 1) * SIZE // workers) for n in range(workers)]
    state = buffer_state(SIZE, [(worker, span(start, stop)) for worker, start, stop in blocks], blocks)
    rng = random.Random(workers)
    for number in range(400):
        transfer = rng.choice(PIECE_BY_PIECE)
        state = transfer(state, rng.randrange(SIZE - 8192) // 4 * 4, 4 * rng.randrange(1, 1024), links)
        boxes = sum(region.nboxes for _, region in state.valid)
        # Pieces with pitches of their own cut what the others have left into a few more.
        assert boxes <= 1.5 * bound(state), (number, transfer.__name__, boxes)
    check(state)


def test_what_is_written_into_many_boxes_goes_to_who_had_it() -> None:
    mine = Region.union(span(at * at, at * at + 100) for at in range(50, 140))
    yours = span(0, 60000) - mine
    replicas = [(0, 0, 60000), (1, 0, 60000)]
    state = buffer_state(60000, [(0, mine), (1, yours)], replicas)
    assert mine.nboxes + yours.nboxes > MOST_HELD + 2 * HELD_EACH + HELD_FRESH
    both = span(2550, 2650) | span(5000, 6000)
    plan = plan_write(state, both, LINKS)
    copied = {(item.source, item.target): item.region for item in plan.instructions if isinstance(item, Copy)}
    assert copied == {(HOST, 0): both & mine, (HOST, 1): both & yours}
    assert plan.states == (state,)


@pytest.mark.parametrize("changed", ["offset", "nbytes", "read", "write", "before"])
def test_plans_of_mappings_are_kept_by_what_they_depend_on(changed: str) -> None:
    """With the buffers' states; what a mapping found says what its end may join."""
    given: dict[str, Any] = {"offset": 0, "nbytes": 16, "read": True, "write": False, "before": None}
    other = {"offset": 16, "nbytes": 32, "read": False, "write": True, "before": SPREAD}
    buffer: Any = SimpleNamespace(state=SPREAD)
    one, two = (Map(buffer, **each) for each in (given, given | {changed: other[changed]}))
    assert (transfer_of(one).what != transfer_of(two).what) is (changed != "before")
    assert (transfer_of(Unmap(one)).what != transfer_of(Unmap(two)).what) is (changed != "read")
