"""The usual cut of a kernel's launches: when it is taken without a look at others."""

from __future__ import annotations

from typing import Any

import pytest
from vdev.translators.interpreter.launch_ranges import LaunchRanges
from vdev.translators.ranges.ndrange import Chunk
from vdev.translators.ranges.region import Region

from samples.benchmarks import planning_growth as growth
from samples.benchmarks.changed_scalars import Bench, Step
from vdev.planner.candidates import MORE_RUNS, Candidates
from vdev.planner.directory import HOST, buffer_state
from vdev.planner.habits import MORE, MOST, MOST_RECENT, MOST_SMALL, Habits

WORKERS = (0, 1, 2, 3)
GROUPS = (8, 16)


def learned(times: int, cost: float = 0.0) -> Habits:
    found = Habits()
    for _ in range(times):
        found.learn(GROUPS, WORKERS, (1, 4), WORKERS, cost)
    return found


def taken(found: Habits, cost: float) -> int:
    """How many plans of that cost take the usual cut, until all cuts are looked at."""
    count = 0
    while (habit := found.find(GROUPS, WORKERS)) is not None and Habits.allows(habit, cost):
        count += 1
    return count


def test_one_look_is_no_habit() -> None:
    assert learned(1).find(GROUPS, WORKERS) is None  # the first launch finds everything at home


def test_looks_that_find_the_same_grow_rare() -> None:
    assert [taken(learned(times), 0.0) for times in range(2, 11)] == [2, 4, 8, 16, 32, 64, MOST, MOST, MOST]


def test_another_cut_begins_anew() -> None:
    found = learned(5)
    found.learn(GROUPS, WORKERS, (2, 2), WORKERS, 0.0)
    assert found.find(GROUPS, WORKERS) is None


def test_a_candidate_that_costs_far_more_than_the_best_is_not_taken() -> None:
    assert taken(learned(3, 8 * MORE), 10 * MORE) == 4
    found = learned(3, 8 * MORE)
    assert taken(found, 11 * MORE) == 0
    assert found.find(GROUPS, WORKERS) is None
    assert taken(learned(3), MORE / 2) == 4


def test_habits_are_of_some_workers_and_dimensions() -> None:
    found = learned(3)
    assert found.find(GROUPS, (0, 1)) is None
    assert found.find((64,), WORKERS) is None


def test_launches_too_small_for_all_workers_have_habits_of_their_own() -> None:
    found = learned(3)
    for _ in range(2):
        found.learn((1, 3), WORKERS, (1, 3), (2, 0, 1), 0.0)
    usual = found.find((1, 3), WORKERS)
    assert usual is not None
    assert usual.workers == (2, 0, 1)
    assert found.find((3, 1), WORKERS) is None
    assert found.find((1, 4), WORKERS) is found.find(GROUPS, WORKERS) is not None
    for count in range(2 * MOST_SMALL):  # not ever more of them
        found.learn((count,), tuple(range(1000)), (count,), tuple(range(count)), 0.0)
    assert len(found._known) <= MOST_SMALL


def test_cuts_that_are_the_best_in_turn_are_remembered() -> None:
    found = learned(3)
    assert found.recent(GROUPS, WORKERS) == ()
    usual = found.find(GROUPS, WORKERS)
    assert usual is not None
    found.learn(GROUPS, WORKERS, (2, 2), WORKERS, 0.0)
    assert found.recent(GROUPS, WORKERS) == ((2, 2), usual.cuts)
    found.learn(GROUPS, WORKERS, usual.cuts, WORKERS, 0.0)
    assert found.recent(GROUPS, WORKERS) == (usual.cuts, (2, 2))
    for parts in range(3, 9):
        found.learn(GROUPS, WORKERS, (parts, 1), WORKERS, 0.0)
    assert len(found.recent(GROUPS, WORKERS)) == MOST_RECENT
    assert found.recent((64,), WORKERS) == ()


def test_a_transposition_there_and_back_looks_at_no_more_than_two_cuts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rows and columns in turn: what was written along one is read along the other."""
    planner, chunks = growth.Planner(1 << 20, 16), 0
    evaluate = LaunchRanges.of

    def counted(*args: Any) -> Any:
        nonlocal chunks
        chunks += 1
        return evaluate(*args)

    monkeypatch.setattr(LaunchRanges, "of", counted)
    looked_at = []
    for step in growth.transposition(1 << 20, 8):
        chunks = 0
        planner.launch(step)
        looked_at.append(chunks)
    assert planner.instructions == 16  # nothing moves
    assert max(looked_at) <= 2 * 16


@pytest.mark.parametrize("program", growth.PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.parametrize("workers", [3, 8])
def test_cuts_that_are_dearer_at_a_first_chunk_would_not_have_been_taken(
    program: Any, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, looked_at, evaluate = [], [0, 0], LaunchRanges.of

    def counted(ranges: LaunchRanges, chunk: Chunk) -> Any:
        looked_at[len(found)] += 1
        return evaluate(ranges, chunk)

    monkeypatch.setattr(LaunchRanges, "of", counted)
    for all_cuts in (False, True):
        if all_cuts:
            monkeypatch.setattr(Candidates, "is_dearer", lambda *_: False)
        planner = growth.Planner(1 << 20, workers, habits=False)
        states = []
        for step in program(1 << 20, 8):
            planner.launch(step)
            states.append(dict(planner.states))
        found.append((states, planner.moved_nbytes))
    assert found[0] == found[1]
    if program is growth.table and workers == 8:
        assert looked_at[0] < 0.6 * looked_at[1]


@pytest.mark.parametrize(("program", "most"), [(growth.fields, 0.3), (growth.table, 0.65)])
def test_of_many_chunks_some_tell_what_a_cut_costs(
    program: Any, most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what moves is hardly more than where all cuts are looked at."""
    chunks, evaluate = 0, LaunchRanges.of

    def counted(*args: Any) -> Any:
        nonlocal chunks
        chunks += 1
        return evaluate(*args)

    monkeypatch.setattr(LaunchRanges, "of", counted)
    moved, looked_at = [], []
    for all_cuts in (False, True):
        if all_cuts:
            monkeypatch.setattr(Candidates, "is_dearer", lambda *_: False)
        planner, chunks = growth.Planner(1 << 22, 32, habits=False), 0
        for step in program(1 << 22, 3):
            planner.launch(step)
        moved.append(planner.moved_nbytes)
        looked_at.append(chunks)
    assert moved[0] <= 1.05 * moved[1], moved
    assert looked_at[0] < most * looked_at[1], looked_at


FIRST = """
kernel void torus(global float *to, global const float *from, int n) {
    int x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
    int l = (x + n - 1) % n, u = (y + n - 1) % n, b = (z + n - 1) % n;
    to[(z * n + y) * n + x] = from[(z * n + y) * n + l] + from[(z * n + u) * n + x] + from[(b * n + y) * n + x];
}
kernel void scattered(global float *to, global const float *from, global const int *where, int n) {
    int x = get_global_id(0), y = get_global_id(1);
    to[where[x]] = from[y * n + x];
}
kernel void columns(global float *to, global const float *from, int n) {
    int x = get_global_id(0), y = get_global_id(1);
    for (int i = 0; i < n; ++i) to[y * n + x] += from[i * n + x];
}
kernel void copied(global float *to, global const float *from, int n) {
    int x = get_global_id(0), y = get_global_id(1);
    to[y * n + x] = from[y * n + x];
}
"""


@pytest.mark.parametrize(
    ("step", "most"),
    [
        (growth.Step("torus", (112, 112, 112), (4, 4, 4), {0: 0, 1: 1}, {2: 112}), 8 + 2 * 9 + 2 * 6),
        (growth.Step("scattered", (1024, 1024), (8, 8), {0: 0, 1: 1, 2: 2}, {3: 1024}), 8 + 2 * 3),
        (growth.Step("columns", (1024, 1024), (8, 8), {0: 0, 1: 1}, {2: 1024}), 4 * 8),
    ],
    ids=lambda value: value.kernel if isinstance(value, growth.Step) else None,
)
def test_a_first_plan_looks_at_two_chunks_of_a_cut_that_moves_no_less(
    step: Any, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And moves hardly more than one that looks at all chunks of all cuts; nor does it miss that only columns are read."""
    monkeypatch.setattr(growth, "SOURCE", FIRST)
    chunks, evaluate = 0, LaunchRanges.of

    def counted(*args: Any) -> Any:
        nonlocal chunks
        chunks += 1
        return evaluate(*args)

    monkeypatch.setattr(LaunchRanges, "of", counted)
    moved, looked_at = [], []
    for all_cuts in (False, True):
        if all_cuts:
            monkeypatch.setattr(Candidates, "is_dearer", lambda *_: False)
        planner, chunks = growth.Planner(6 << 20, 8), 0
        planner.launch(step)
        moved.append(planner.moved_nbytes)
        looked_at.append(chunks)
    assert moved[0] - moved[1] <= 2 * MORE_RUNS * 64, moved
    assert looked_at[0] <= most <= looked_at[1], looked_at


def test_what_is_on_workers_is_not_told_by_two_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first worker and the last one lack the columns that all others have: cut by columns, only these two bring anything."""
    monkeypatch.setattr(growth, "SOURCE", FIRST)
    n, moved = 1024, []
    row, block = 4 * n, 4 * n // 8
    columns = [Region.boxes(worker * block, block, ((row, n),)) for worker in range(8)]
    valid = [(HOST, columns[0] | columns[7]), *[(worker, columns[worker]) for worker in range(1, 7)]]
    replicas = [(worker, 0, row * n) for worker in range(8)]
    for all_cuts in (False, True):
        if all_cuts:
            monkeypatch.setattr(Candidates, "is_dearer", lambda *_: False)
        planner = growth.Planner(row * n, 8)
        planner.states[1] = buffer_state(row * n, valid, replicas)
        planner.launch(growth.Step("copied", (n, n), (8, 8), {0: 0, 1: 1}, {2: n}))
        moved.append(planner.moved_nbytes)
    assert moved == [2 * block * n] * 2


def test_a_launch_of_few_work_groups_says_why_it_is_not_on_all_workers() -> None:
    """Whether all cuts were looked at or the usual one was taken."""
    program = Bench(8)
    reasons, planned = set(), 0
    for number in range(40):
        before = program.filled
        plan = program.launch(program.command(Step("window", (192,), (64,), ("a", 64 * number)))).plan
        reasons.add(plan.reasons)
        planned += program.filled == before
        assert len(plan.partition) == 3
    assert reasons == {("3 of 8 workers for 3 work-groups",)}
    assert planned < 20
