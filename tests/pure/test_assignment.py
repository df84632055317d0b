"""Which worker runs which chunk: against all permutations, and in programs whose data lies otherwise than their
launches read it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vdev.translators.interpreter.summaries import AccessRange
from vdev.translators.ranges.ndrange import Chunk, NDRange
from vdev.translators.ranges.region import Region

from vdev.observe import tallies
from vdev.planner import assignment, launch_search
from vdev.planner.assignment import NEVER, choose_columns, interchangeable, order_of_data
from vdev.planner.directory import HOST, BufferState, buffer_state
from vdev.planner.footprints import PointerArg
from vdev.planner.instructions import Plan
from vdev.planner.launch_request import LaunchOptions, LaunchRequest
from vdev.planner.launches import plan_launch
from vdev.planner.links import LinkCosts

BLOCK = 64 << 10
span = Region.span


def blocks(numbers: Sequence[int]) -> Region:
    return Region.union(span(number * BLOCK, (number + 1) * BLOCK) for number in numbers)


def holding(nblocks: int, holders: dict[int, Sequence[int]]) -> BufferState:
    """A buffer of `nblocks`; by holder the blocks that it has."""
    valid = [(holder, blocks(numbers)) for holder, numbers in holders.items() if numbers]
    return buffer_state(nblocks * BLOCK, valid, [(w, 0, nblocks * BLOCK) for w, _ in valid if w != HOST])


@dataclass(frozen=True)
class Blocks:
    """A kernel of one work-group for each chunk: by slot and work-group, the blocks it reads and writes."""

    reads: Sequence[Sequence[Sequence[int]]]
    writes: Sequence[Sequence[Sequence[int]]]

    def evaluate(self, chunk: Chunk) -> list[AccessRange]:
        found = []
        for mode, table in (("read", self.reads), ("write", self.writes)):
            for slot, of_slot in enumerate(table):
                touched = {
                    number for group in range(chunk.start[0], chunk.stop[0]) for number in of_slot[group]
                }
                found.append(AccessRange(slot, mode, blocks(sorted(touched)), True))
        return found

    def plan(self, states: Sequence[BufferState], options: LaunchOptions) -> Plan:
        args = tuple(PointerArg(slot, slot, 0, state.nbytes) for slot, state in enumerate(states))
        ndrange = NDRange((len(self.reads[0]),), (1,), (0,))
        return plan_launch(states, LaunchRequest(args, ndrange, self.evaluate), options)


def options_for(workers: int, peer: float = 0.25) -> LaunchOptions:
    links = LinkCosts.uniform(workers, peer=peer, direct=True)
    return LaunchOptions(tuple(range(workers)), links)


def order(plan: Plan) -> tuple[int, ...]:
    return tuple(worker for worker, _ in plan.partition)


def incoming(plan: Plan) -> tuple[int, int]:
    """Bytes that come to the worker to which most comes, and to all."""
    found: dict[int, int] = {}
    for _, target, nbytes in plan.moved:
        found[target] = found.get(target, 0) + nbytes
    return max(found.values(), default=0), sum(found.values())


def in_usual_order() -> mock._patch:  # type: ignore[type-arg]
    return mock.patch.object(
        launch_search, "assign_chunks", lambda shares, usual, workers, links: tuple(usual)
    )


# the choice of columns ----------------------------------------------------------------------------


@st.composite
def cost_tables(draw: st.DrawFn) -> list[list[int]]:
    rows = draw(st.integers(1, 5))
    columns = draw(st.integers(rows, 6))
    cost = st.integers(0, draw(st.sampled_from([1, 3, 9, 1 << 50])))
    table = [[draw(cost) for _ in range(columns)] for _ in range(rows)]
    for row in range(rows):
        for column in range(columns):
            if column != row and draw(st.integers(0, 4)) == 0:
                table[row][column] = NEVER
    return table


@settings(max_examples=300, deadline=None)
@given(table=cost_tables())
def test_the_choice_is_that_of_brute_force(table: list[list[int]]) -> None:
    rows = range(len(table))
    choices = [
        choice
        for choice in permutations(range(len(table[0])), len(table))
        if all(table[row][choice[row]] != NEVER for row in rows)
    ]

    def costs(choice: Sequence[int]) -> list[int]:
        return [table[row][choice[row]] for row in rows]

    usual = tuple(rows)
    least = min(max(costs(choice)) for choice in choices)
    unclear = least >= max(costs(usual)) * (1 - assignment.CLEARLY)
    limit = max(costs(usual)) if unclear else least

    def rank(choice: Sequence[int]) -> tuple[int, int]:
        return sum(costs(choice)), sum(choice[row] != row for row in rows)

    best = min(rank(choice) for choice in choices if max(costs(choice)) <= limit)
    found = choose_columns(table, usual)
    assert len(set(found)) == len(table)
    if unclear and best[0] >= sum(costs(usual)) * (1 - assignment.CLEARLY):
        assert found == usual
    else:
        assert max(costs(found)) <= limit
        assert rank(found) == best


def test_sixteen_workers_find_their_blocks() -> None:
    table = [[0 if column == 7 * row % 16 else 5 for column in range(16)] for row in range(16)]
    assert choose_columns(table, range(16)) == tuple(7 * row % 16 for row in range(16))


def test_a_small_gain_is_none() -> None:
    assert choose_columns([[100, 90], [90, 100]], (0, 1)) == (0, 1)
    assert choose_columns([[100, 80], [80, 100]], (0, 1)) == (1, 0)
    assert choose_columns([[0, 99], [99, 100]], (0, 1)) == (0, 1), "a worker that has all stays"


# what is assigned ---------------------------------------------------------------------------------


@st.composite
def layouts(draw: st.DrawFn, *, apart: bool) -> tuple[int, Blocks, list[BufferState]]:
    """Workers, a kernel, and buffers whose blocks lie anywhere on the workers. `apart`: what is written is
    read nowhere, and nobody holds it yet.
    """
    workers = draw(st.integers(2, 5))
    groups = draw(st.integers(2, workers))
    reads, writes, states = [], [], []
    for _ in range(draw(st.integers(1, 2))):
        count = draw(st.integers(groups, 8))
        some = st.lists(st.integers(0, count - 1), max_size=4, unique=True)
        writer = [-1 if apart else draw(st.integers(-1, groups - 1)) for _ in range(count)]
        # Nobody reads another's block, which may have changed.
        reads.append([sorted(b for b in draw(some) if writer[b] in (-1, group)) for group in range(groups)])
        writes.append([[b for b in range(count) if writer[b] == group] for group in range(groups)])
        holders: dict[int, list[int]] = {worker: [] for worker in range(workers)}
        for number in range(count):
            for worker in draw(st.sets(st.integers(0, workers - 1), max_size=2)):
                holders[worker].append(number)
        states.append(holding(count, holders))
    if apart:
        reads.append([[] for _ in range(groups)])
        writes.append([[group] for group in range(groups)])
        states.append(holding(groups, {}))
    return workers, Blocks(reads, writes), states


def missing(kernel: Blocks, states: Sequence[BufferState], group: int, worker: int) -> int:
    found = 0
    for slot, state in enumerate(states):
        wanted = blocks(kernel.reads[slot][group]) & state.initialised
        found += (wanted - state.valid_at(worker)).nbytes
    return found


@settings(max_examples=150, deadline=None)
@given(case=layouts(apart=True))
def test_the_order_is_that_of_brute_force(case: tuple[int, Blocks, list[BufferState]]) -> None:
    """Where nothing else counts than bytes: first the most that one worker gets, then all."""
    workers, kernel, states = case
    groups = len(kernel.reads[0])
    with (
        mock.patch.object(assignment, "DISPLACED", 0),
        mock.patch.object(assignment, "CLEARLY", 0),
        mock.patch.object(launch_search, "REORDER_NBYTES", 0),
    ):
        plan = kernel.plan(states, options_for(workers))
    costs = [
        [missing(kernel, states, group, worker) for group, worker in enumerate(choice)]
        for choice in permutations(range(workers), groups)
    ]
    best = min((max(found), sum(found)) for found in costs)
    assert incoming(plan) == best
    usual = [missing(kernel, states, group, group) for group in range(groups)]
    if (max(usual), sum(usual)) == best:
        assert order(plan) == tuple(range(groups))


@settings(max_examples=100, deadline=None)
@given(case=layouts(apart=False))
def test_another_order_never_brings_more(case: tuple[int, Blocks, list[BufferState]]) -> None:
    workers, kernel, states = case
    plan = kernel.plan(states, options_for(workers))
    with in_usual_order():
        usual = kernel.plan(states, options_for(workers))
    assert incoming(plan) <= incoming(usual)
    assert order(usual) == tuple(range(len(usual.partition)))
    assert [chunk for _, chunk in plan.partition] == [chunk for _, chunk in usual.partition]
    again = kernel.plan(states, options_for(workers))
    assert (again.instructions, again.states) == (plan.instructions, plan.states)


def pairs(workers: int, reach: int) -> Blocks:
    """A step of a sorting network over 2 * `workers` blocks, in place: those `reach` apart are exchanged."""
    firsts = [number for number in range(2 * workers) if not number & reach]
    of_chunk = [[number, number + reach] for number in firsts]
    return Blocks([of_chunk], [of_chunk])


@pytest.mark.parametrize(
    ("workers", "usual", "best"),
    [(2, [1, 1], [1, 1]), (4, [2, 1, 1], [1, 1, 1]), (8, [2, 1, 1, 1], [1, 1, 1, 1])],
)
def test_the_far_steps_of_a_sorting_network(workers: int, usual: list[int], best: list[int]) -> None:
    """Blocks that come to the busiest worker, step by step: one each, from the first to the last."""

    def steps() -> list[int]:
        state = holding(2 * workers, {w: [2 * w, 2 * w + 1] for w in range(workers)})
        found = []
        reach = workers
        while reach:
            plan = pairs(workers, reach).plan([state], options_for(workers))
            (state,) = plan.states
            found.append(incoming(plan)[0] // BLOCK)
            reach //= 2
        again = pairs(workers, 1).plan([state], options_for(workers))
        assert (again.moved_nbytes, again.states) == (0, (state,)), "who holds a chunk's blocks keeps it"
        assert order(again) == tuple(range(workers)), "the data is in the usual order again"
        return found

    with in_usual_order():
        assert steps() == usual
    assert steps() == best


def test_chunks_go_to_the_workers_that_hold_them() -> None:
    """Also where there are fewer of them than workers."""
    kernel = Blocks([[[0], [1]]], [[[0], [1]]])
    plan = kernel.plan([holding(2, {3: [0], 1: [1]})], options_for(4))
    assert (order(plan), plan.moved) == ((3, 1), ())


def test_fetching_little_changes_no_order() -> None:
    """A table lies the other way round, and nothing else is there yet; the results are much larger."""
    table, results = holding(2, {0: [1], 1: [0]}), holding(16, {})
    own = [list(range(8)), list(range(8, 16))]
    large = Blocks([[[0], [1]], [[], []]], [[[], []], own])
    assert order(large.plan([table, results], options_for(2))) == (0, 1)
    small = Blocks([[[0], [1]], [[], []]], [[[], []], [[0], [8]]])
    assert order(small.plan([table, results], options_for(2))) == (1, 0)


def test_what_lies_otherwise_is_fetched_once() -> None:
    """Rather than followed by what lies in the usual order, again and again: y = x; z += y."""
    own, nothing = [[0], [1]], [[], []]
    copy, add = Blocks([own, nothing], [nothing, own]), Blocks([own, own], [nothing, own])
    x, y, z = holding(2, {0: [1], 1: [0]}), holding(2, {}), holding(2, {0: [0], 1: [1]})
    found = []
    for _ in range(4):
        first = copy.plan([x, y], options_for(2))
        x, y = first.states
        second = add.plan([y, z], options_for(2))
        y, z = second.states
        found.append((order(first), order(second), (first.moved_nbytes + second.moved_nbytes) // BLOCK))
    assert found[0] == ((1, 0), (0, 1), 2), "nobody holds y yet: it comes to x, and then to z"
    assert found[1] == ((0, 1), (0, 1), 2), "z looks for y in the usual order: x comes there"
    assert found[2:] == [((0, 1), (0, 1), 0)] * 2


def test_bytes_at_home_come_to_any_worker() -> None:
    own = [[0], [1], [2]]
    plan = Blocks([own], [own]).plan([holding(3, {HOST: [0, 1, 2]})], options_for(3))
    assert order(plan) == (0, 1, 2)


def test_workers_of_two_kinds_do_not_change_places() -> None:
    """Chunk 0 lies on the CPU, chunk 2 on the first GPU, chunk 1 on the second."""
    links = LinkCosts.between(
        [("gpu", 0.1), ("gpu", 0.1), ("cpu", 0.5)], host=1.0, per_run=0.0, direct=(0, 1)
    )
    assert interchangeable(links) == (0, 0, 2)
    own = [[0], [1], [2]]
    kernel = Blocks([own], [own])
    options = LaunchOptions((0, 1, 2), links)
    assert order(kernel.plan([holding(3, {2: [0], 1: [1], 0: [2]})], options)) == (0, 1, 2)
    assert order(kernel.plan([holding(3, {1: [0], 0: [1], 2: [2]})], options)) == (1, 0, 2)


@pytest.mark.parametrize(
    "links",
    [
        LinkCosts.between([("one", 0.1), ("other", 0.1)], host=1.0, per_run=0.0),
        LinkCosts.between([("one", 0.1), ("one", 0.1)], host=1.0, per_run=0.0, direct=(1,)),
        LinkCosts.between([("one", 0.1), ("one", 0.1)], host=1.0, per_run=0.0, merging=(0,)),
        LinkCosts(((0.0, 0.1, 1.0), (0.2, 0.0, 1.0), (1.0, 1.0, 0.0))),
        LinkCosts(((0.0, 0.1, 1.0), (0.1, 0.0, 2.0), (1.0, 1.0, 0.0))),
        LinkCosts(((0.0, 0.1, 1.0), (0.1, 0.0, 1.0), (1.0, 2.0, 0.0))),
    ],
)
def test_who_is_not_like_another(links: LinkCosts) -> None:
    assert interchangeable(links) == (0, 1)


def test_more_workers_than_are_searched() -> None:
    count = assignment.MOST_WORKERS + 1
    own = [[number] for number in range(count)]
    state = holding(count, {w: [count - 1 - w] for w in range(count)})
    assert order(Blocks([own], [own]).plan([state], options_for(count))) == tuple(range(count))


# the cut ------------------------------------------------------------------------------------------


def columns_in_order(workers: Sequence[int]) -> tuple[BufferState, Callable[[Chunk], list[AccessRange]]]:
    """A matrix of 256 x 256 floats that lies in columns on `workers`, and a kernel of 16 x 16 work-groups that
    works on it in place."""
    pitch, rows, width = 1024, 256, 1024 // len(workers)

    def tile(chunk: Chunk) -> Region:
        (left, top), (right, bottom) = chunk.start, chunk.stop
        return Region.boxes(
            top * 16 * pitch + left * 64, (right - left) * 64, ((pitch, (bottom - top) * 16),)
        )

    valid = [(w, Region.boxes(k * width, width, ((pitch, rows),))) for k, w in enumerate(workers)]
    state = buffer_state(pitch * rows, valid, [(w, 0, pitch * rows) for w in workers])
    return state, lambda chunk: [AccessRange(0, mode, tile(chunk), True) for mode in ("read", "write")]


@pytest.mark.parametrize("workers", [(0, 1, 2, 3), (0, 2, 1, 3), (3, 1, 0, 2)])
def test_the_cut_follows_data_in_any_order(workers: tuple[int, ...]) -> None:
    state, evaluate = columns_in_order(workers)
    options = options_for(4)
    assert order_of_data([state], options.workers, options.links) == workers
    request = LaunchRequest(
        (PointerArg(0, 0, 0, state.nbytes),), NDRange((256, 256), (16, 16), (0, 0)), evaluate
    )
    plan = plan_launch([state], request, options)
    assert plan.moved == ()
    assert plan.partition == tuple((w, Chunk((4 * k, 0), (4 * k + 4, 16))) for k, w in enumerate(workers))


def test_the_order_of_the_largest_buffer() -> None:
    links = options_for(2).links
    small, large = holding(2, {0: [1], 1: [0]}), holding(4, {0: [2, 3], 1: [0, 1]})
    straight, halves = holding(8, {0: [0], 1: [4]}), holding(8, {0: [0, 4], 1: [0]})
    assert order_of_data([straight, halves], (0, 1), links) == (0, 1)
    assert order_of_data([straight, small, large], (0, 1), links) == (1, 0)
    apart = LinkCosts.between([("gpu", 0.1), ("cpu", 0.5)], host=1.0, per_run=0.0)
    assert order_of_data([large], (0, 1), apart) == (0, 1)


# reports ------------------------------------------------------------------------------------------


def test_reports_tell_orders_apart() -> None:
    """What `--explain` says of a launch's chunks is true of every launch that it counts there."""
    own = [[0], [1]]
    kernel, ndrange = Blocks([own], [own]), NDRange((2,), (1,), (0,))
    tally = tallies.KernelTally("k", 1, 1)
    for holders in ({0: [0], 1: [1]}, {0: [1], 1: [0]}, {0: [0], 1: [1]}):
        plan = kernel.plan([holding(2, holders)], options_for(2))
        tallies._outcome(tally, "", ndrange, plan, 2).launches += 1
    chunks = [Chunk((0,), (1,)), Chunk((1,), (2,))]
    assert [(found.chunks, found.launches) for found in tally.outcomes.values()] == [
        (tuple(zip((0, 1), chunks, strict=True)), 2),
        (tuple(zip((1, 0), chunks, strict=True)), 1),
    ]
    for worker in (0, 1):
        alone = replace(plan, partition=((worker, Chunk((0,), (2,))),), reasons=("one work-group",))
        tallies._outcome(tally, "", ndrange, alone, 2).launches += 1
    assert [found.launches for found in tally.outcomes.values()] == [2, 1, 2]
