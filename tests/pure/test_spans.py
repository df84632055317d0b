"""Over how many of the workers launches are split, where fewer than all are faster: the rule, and programs on simulated GPUs."""

from __future__ import annotations

import itertools
from math import inf, nan
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pure.test_never_slower import Bench, simulated_host
from tests.pure.virtual_gpus import PEER_BYTES_PER_SECOND
from vdev.observe.snapshots import of_session
from vdev.planner.launch_search import FEWER
from vdev.planner.regret import Stake
from vdev.planner.spans import ONE, Spans, between, halves, over
from vdev.planner.timing import Way
from vdev.session.accounts import Account
from vdev.session.kernel_timing import FIRST_PLAN, SETTLING
from vdev.session.worker_counts import WorkerCounts

# the rule ---------------------------------------------------------------------------------------


@given(st.integers(1, 100))
def test_each_number_is_half_of_the_one_before(count: int) -> None:
    found = halves(count)
    assert all(one // 2 == other for one, other in itertools.pairwise(found))
    assert found == () if count == 1 else (found[0], found[-1] in (2, 3)) == (count, True)


def stake(workers: int, messages: int, busiest: int, moved: float) -> Stake:
    return Stake(1 << 20, 1 / workers, None, (0,), moved, (), 0.0, False, workers, messages, busiest)


def test_what_was_never_planned_is_an_exchange_between_neighbours() -> None:
    few = over(stake(16, 30, 2, 100.0), 16, 4)
    assert (few.workers, few.share, few.messages, few.busiest, few.moved) == (4, 1 / 4, 8, 2, 100.0)
    many = over(stake(2, 2, 1, 100.0), 2, 16)
    assert (many.workers, many.share, many.messages, many.busiest, many.moved) == (16, 1 / 16, 16, 1, 100.0)


def test_a_launch_of_few_work_groups_is_the_same_over_more_workers() -> None:
    few = stake(3, 0, 0, 0.0)
    assert over(few, 16, 8) is few
    assert over(few, 16, 2).share == pytest.approx(1 / 2)
    alone = stake(1, 0, 0, 0.0)
    assert over(alone, 16, 4) is alone


def test_what_was_known_is_forgotten() -> None:
    foretold, known = stake(4, 6, 2, 10.0), stake(4, 12, 3, 90.0)
    assert between(foretold, known, 1.0) == known
    assert between(foretold, known, 0.5).moved == 50.0
    assert between(foretold, known, 0.001) is foretold


def seconds(device: float) -> Way:
    return Way(0.0, device)


def test_another_number_is_taken_once_its_gain_has_paid_for_two_changes() -> None:
    spans, taken = Spans(0.0), []
    for _ in range(30):
        found = spans.weigh(16, {16: seconds(1.0), 8: seconds(0.75), 4: seconds(0.5)}, 0.0, lambda _: 3.0)
        taken.append(found)
        if found is not None:
            break
    assert (found, len(taken)) == (4, 12)
    assert set(taken[:-1]) == {None}


def test_launches_that_lose_by_turns_change_less_and_less() -> None:
    """Whatever is in use is foretold to lose: each change has to be paid for by twice as much."""
    spans, now, changes = Spans(0.0), 4, []
    for number in range(20000):
        found = spans.weigh(now, {now: seconds(1.0), 6 - now: seconds(0.5)}, 0.0, lambda _: 1.0)
        if found is not None:
            now = found
            spans.changes += 1
            spans.changed()
            changes.append(number)
    assert len(changes) <= 40
    pauses = [later - earlier for earlier, later in itertools.pairwise(changes)]
    assert all(pause >= 4 * 2**number for number, pause in enumerate(pauses[:9], 1))


def test_one_worker_is_taken_unless_several_are_clearly_faster() -> None:
    ways = {16: seconds(3.0), 4: seconds(0.95), ONE: seconds(1.0)}
    spans = Spans(0.0)
    spans.note(ways, 0.0)
    assert spans.best() == 4
    assert spans.instead_of_one(16) is None
    spans.note(ways | {4: seconds(0.5)}, 0.0)
    assert spans.instead_of_one(16) == 4
    assert spans.instead_of_one(4) is None, "it is in use, and one takes less"
    spans.note({}, 2.0)
    assert spans.instead_of_one(16) is None, "to plan for them takes longer"


# programs ---------------------------------------------------------------------------------------

SOURCE = """
kernel void smooth(global float *out, global const float *in, int n) {
    int i = get_global_id(0);
    out[i] = in[max(i - 1, 0)] + in[min(i + 1, n - 1)];
}
kernel void heavy(global float *out, global const float *in, int n) {
    int i = get_global_id(0);
    out[i] = in[max(i - 1, 0)] * in[min(i + 1, n - 1)];
}
kernel void light(global float *a) { a[get_global_id(0)] += 1; }
"""
N = 1 << 22


class Smoothing:
    """A stencil on simulated GPUs, 300 us on one of them: 16 take the host longer than they gain."""

    def __init__(self, benches: list[Bench], workers: int) -> None:
        self.bench = Bench(
            {"smooth": 3e-4 / N, "heavy": 3e-2 / N, "light": 1e-12 / N}, N, 0, workers, PEER_BYTES_PER_SECOND
        )
        self.bench.build(SOURCE)
        benches.append(self.bench)
        self.buffers = [self.bench.zeros(N) for _ in range(2)]
        small = self.bench.zeros(1 << 10)
        for _ in range(4):  # what every launch takes is known from these
            self.bench.run("light", (1 << 10,), (64,), small)

    @property
    def machine(self):
        return self.bench.program.machine

    def run(self, count: int, name: str = "smooth") -> float:
        """Seconds of so many launches."""
        began = self.bench.program.wait()
        for _ in range(count):
            args = self.buffers[:1] if name == "light" else (*self.buffers, N)
            self.bench.run(name, (N,), (64,), *args)
            self.buffers.reverse()
        return self.bench.program.wait() - began

    def workers(self, name: str = "smooth") -> dict[int, int]:
        """Launches by number of workers so far."""
        kernel = of_session(self.bench.program.session).kernel(name)
        found: dict[int, int] = {}
        for part in kernel.partitions:
            found[part.workers] = found.get(part.workers, 0) + part.launches
        return found

    def last_workers(self, name: str = "smooth") -> int:
        """Over how many workers a launch runs now."""
        before = self.workers(name)
        self.run(1, name)
        return next(n for n, launches in self.workers(name).items() if launches > before.get(n, 0))


@pytest.fixture
def clocks():
    with simulated_host() as benches:
        yield benches


def test_launches_end_on_the_number_of_workers_that_takes_least(clocks: list[Bench]) -> None:
    by_number = {}
    for workers in (1, 2, 4, 16):
        program = Smoothing(clocks, workers)
        took = program.run(400)
        by_number[workers] = program.run(200), took
    assert by_number[4][0] < 0.6 * by_number[1][0]
    assert by_number[16][0] <= 1.05 * min(last for last, _ in by_number.values())
    assert by_number[16][1] <= 1.2 * by_number[4][1] + 2e-2, "noticed soon"


def test_workers_that_are_not_needed_get_no_chunks_and_no_copies(clocks: list[Bench]) -> None:
    program = Smoothing(clocks, 16)
    program.run(400)
    span = program.last_workers()
    assert 2 <= span <= 8
    before = [(each.counters.launches, each.counters.from_peer) for each in program.machine.backends]
    program.run(100)
    after = [(each.counters.launches, each.counters.from_peer) for each in program.machine.backends]
    assert after[span:] == before[span:]
    assert all(
        later[0] == earlier[0] + 100 for earlier, later in zip(before[:span], after[:span], strict=True)
    )
    reasons = {
        reason.text
        for part in of_session(program.bench.program.session).kernel("smooth").partitions
        if part.workers == span
        for reason in part.reasons
    }
    assert FEWER in reasons


def lookup(clocks: list[Bench], workers: int) -> Bench:
    """A kernel of which every chunk reads all of a table that is spread over the workers."""
    source = "kernel void look(global float *a, global const float *t, int n) { int i = get_global_id(0); a[i] = t[i * 77 % n]; }"
    bench = Bench({"look": 1e-4 / N}, N, 0, workers, PEER_BYTES_PER_SECOND)
    bench.build(source)
    clocks.append(bench)
    out, table = bench.zeros(N), bench.zeros(N)
    bench.program.wait()
    bench.run("look", (N,), (64,), out, table, N)
    return bench


def test_nobody_waits_long_for_the_first_launch_of_a_kernel(clocks: list[Bench]) -> None:
    """Handing it over to sixteen workers would take 240 transfers, before anything is known of it."""
    bench = lookup(clocks, 16)
    partitions = of_session(bench.program.session).kernel("look").partitions
    assert [part.workers for part in partitions if part.launches] == [8]
    assert bench.program.machine.host < 2e-3
    four = of_session(lookup(clocks, 4).program.session).kernel("look").partitions
    assert [part.workers for part in four if part.launches] == [4]


def test_what_moves_to_another_number_of_workers_is_not_what_launches_exchange(clocks: list[Bench]) -> None:
    program = Smoothing(clocks, 8)
    program.run(20)
    choosing, buffer = program.bench.program.session.choosing, program.buffers[0].made
    assert choosing is not None
    assert choosing.times.unit is None, "no link was measured"
    choosing._counts.take(buffer.account, 2)
    assert buffer.account.budget == choosing.times.spread(buffer.account.buffers) > 0


def test_heavier_launches_are_split_over_more_workers_again(clocks: list[Bench]) -> None:
    program = Smoothing(clocks, 16)
    program.run(400)
    few = program.last_workers()
    program.run(40, "heavy")
    assert program.last_workers("heavy") == 16 > few


def test_too_few_workers_without_room_are_not_chosen(
    clocks: list[Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = []
    take = WorkerCounts.take
    monkeypatch.setattr(WorkerCounts, "take", lambda *args: taken.append(args[-1]) or take(*args))
    program = Smoothing(clocks, 16)
    room = program.bench.program.session.room.occupancy.room
    room[:] = [
        6 * N // 5
    ] * 16  # two buffers of 4 * N bytes: an eighth of them is N, and a quarter is too much
    program.run(400)
    assert set(program.workers()) <= {8, 16}
    assert set(taken) <= {8}


def test_a_new_buffer_too_large_for_fewer_workers_is_split_over_all(clocks: list[Bench]) -> None:
    program = Smoothing(clocks, 16)
    program.run(400)
    assert program.last_workers() <= 8
    occupancy = program.bench.program.session.room.occupancy
    larger = program.bench.zeros(16 * N).made
    occupancy.room[:] = [taken + 20 * N for taken in occupancy.taken]
    before = [backend.counters.launches for backend in program.machine.backends]
    program.bench.run("smooth", (32 * N,), (64,), program.bench.zeros(32 * N), larger, 16 * N)
    program.bench.program.wait()
    after = [backend.counters.launches for backend in program.machine.backends]
    assert [later - earlier for earlier, later in zip(before, after, strict=True)] == [1] * 16
    assert larger.span == 16, "from then on, too"


def test_the_next_run_begins_where_the_last_one_ended(
    clocks: list[Bench], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VDEV_CACHE", "1")
    monkeypatch.setenv("VDEV_CACHE_DIR", str(tmp_path))
    first = Smoothing(clocks, 16)
    first.run(400)
    span = first.last_workers()
    assert 2 <= span <= 8
    second = Smoothing(clocks, 16)
    second.run(50)
    assert second.workers() == {span: 50}
    other = Smoothing(clocks, 8)  # another machine
    other.run(1)
    assert other.workers() == {8: 1}


def test_plans_that_paid_in_the_last_run_need_not_be_gained_first(
    clocks: list[Bench], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a host that is busy when the next run begins has its launches given up before they could gain anything."""
    monkeypatch.setenv("VDEV_CACHE", "1")
    monkeypatch.setenv("VDEV_CACHE_DIR", str(tmp_path))

    def account_of(program: Smoothing) -> Account:
        found = program.buffers[0].made.account
        assert found is not None
        return found

    first = Smoothing(clocks, 16)
    first.run(2)
    assert account_of(first).prepaid == 0.0, "nothing is known yet"
    first.run(400)
    second = Smoothing(clocks, 16)
    second.run(2)
    account = account_of(second)
    assert 0.0 < account.prepaid < SETTLING * FIRST_PLAN, "less the plans that were made"
    assert account.gained > 0.0, "which do not count"
    before = account.prepaid
    second.run(1, "heavy")
    assert account.prepaid <= before, "a kernel that was not split before has to gain its plans"


def test_the_next_run_begins_on_one_worker_where_that_was_best(
    clocks: list[Bench], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VDEV_CACHE", "1")
    monkeypatch.setenv("VDEV_CACHE_DIR", str(tmp_path))
    for launches in (400, 400):
        program = Smoothing(clocks, 4)
        program.run(launches, "light")
        found = program.workers("light")
    assert found == {1: 404}


def test_the_next_run_knows_how_often_splitting_was_tried_in_vain(
    clocks: list[Bench], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise each run of a short program would try it once more."""
    monkeypatch.setenv("VDEV_CACHE", "1")
    monkeypatch.setenv("VDEV_CACHE_DIR", str(tmp_path))
    found = []
    for returns in (0, 2, 9):
        program = Smoothing(clocks, 4)
        cache = program.bench.program.kernels["light"].plans
        assert cache is not None
        program.run(1, "light")
        found.append(cache.kept_returns)
        cache.keep_span(ONE, returns, 1e-5 * returns)
    assert found == [0, 1, 2], "an earlier run counts for one at least"
    program = Smoothing(clocks, 4)
    program.run(1, "light")
    cache = program.bench.program.kernels["light"].plans
    assert cache is not None
    assert cache.kept_returns == 3, "and for three at most: this one may do something else"
    account = program.buffers[1].made.account
    assert account is not None
    assert account.returns == 3
    assert account.periods.toll == pytest.approx(9e-5, rel=0.01), (
        "what periods were measured to take holds on"
    )
    for returns, invalid in enumerate((-1.0, inf, nan), 10):
        cache.keep_span(ONE, returns, invalid)
        program = Smoothing(clocks, 4)
        program.run(1, "light")
        found_now = program.bench.program.kernels["light"].plans
        assert found_now is not None
        assert (found_now.kept_returns, found_now.kept_toll) == (0, 0.0), (
            "what is no time was not kept by this version"
        )
