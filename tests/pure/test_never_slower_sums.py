"""Programs that add up on simulated machines of 2, 4 and 8 GPUs (`test_never_slower`): sums that are folded, read at each step, or needed
whole by every GPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from vdev.translators.ranges.rectangles import Layout

from tests.pure import test_never_slower
from tests.pure.test_choosing import source_of
from tests.pure.test_never_slower import NOISES, Bench, busy_host, clocks
from tests.pure.virtual_gpus import PEER_BYTES_PER_SECOND
from vdev.observe.snapshots import of_session
from vdev.planner.regret import Stretch
from vdev.session.choosing import Choosing
from vdev.session.commands import Fill, Read, Write
from vdev.session.launch_plans import THRIFTY

__all__ = ["clocks"]

COUNTED = """
kernel void count(global uint *bins, global const uint *values, const uint n)
{
    for (size_t i = get_global_id(0); i < n; i += get_global_size(0))
        atomic_inc(&bins[values[i] % 1024]);
}
kernel void look(global uint *seen, global const uint *bins) { seen[get_global_id(0)] += bins[get_global_id(0)] & 1; }
kernel void make(global uint *values) { values[get_global_id(0)] = get_global_id(0); }
"""


@pytest.mark.parametrize("workers", [2, 4])
def test_small_sums_that_are_read_each_time_keep_nothing_on_one_worker(
    clocks: list[Bench], workers: int
) -> None:
    """To fold them takes some copies of 4 KiB, of which the kernel that adds gains thousands of microseconds."""
    n, grid, steps = 1 << 29, 132 * 64 * 256, 150

    def took(workers: int) -> float:
        per_item = {"count": 3.1e-3 / grid, "look": 1e-12, "make": 0.9e-3 / n}
        bench = Bench(per_item, n, 0, workers, PEER_BYTES_PER_SECOND)
        bench.build(COUNTED)
        clocks.append(bench)
        bins, seen, values = (bench.zeros(count) for count in (1024, 1024, n))
        bench.run("make", (n,), (256,), values)
        began = bench.program.wait()
        for _ in range(steps):
            bench.run("count", (grid,), (256,), bins, values, np.uint32(n))
            bench.run("look", (1024,), (256,), seen, bins)
        return bench.program.wait() - began

    assert took(workers) <= 1.1 * took(1) / workers


SUMMED = """
kernel void assign(global int *nearest, global uint *sums, global const float *points, global const float *centres)
{
    int i = get_global_id(0);
    nearest[i] = points[i] > centres[i % 16];
    if (get_local_id(0) < 16)
        atomic_add(&sums[get_local_id(0)], (uint)nearest[i]);
}
"""


def k_means(benches: list[Bench], workers: int, each: float, steps: int, **costs: float) -> list[float]:
    """Seconds of each step, as in k-means: centres are written, sums cleared, a kernel that takes `each` on one GPU adds to them, and
    they are read. `costs`: attributes of the machine.
    """
    n = 1 << 22
    bench = Bench({"assign": each / n}, n, 0, workers, PEER_BYTES_PER_SECOND)
    bench.build(SUMMED)
    benches.append(bench)
    program, host = bench.program, np.zeros(64, np.uint8)
    session, queue, machine = program.session, program.queue, program.machine
    for name, value in costs.items():
        setattr(machine, name, value)
    nearest, sums, points, centres = (bench.zeros(count).made for count in (n, 16, n, 16))
    layout, found = Layout.contiguous(0, 64), [program.wait()]
    for _ in range(steps):
        session.submit(Write(centres, layout, host), queue=queue)
        session.submit(Fill(sums, 0, 64, bytes(4)), queue=queue)
        bench.run("assign", (n,), (256,), nearest, sums, points, centres)
        read = Read(sums, layout, host)
        if session.read_at_once(read, queue) is None:
            session.submit(read, queue=queue).wait()
        found.append(machine.seconds)
    return [float(took) for took in np.diff(found)]


def page_rank(benches: list[Bench], workers: int, each: float, steps: int) -> list[float]:
    """Seconds of every forty steps of PageRank, whose longest kernel takes `each` on one GPU and needs all that the one before wrote."""
    n = 1 << 22
    bench = Bench(
        {"share": 3e-12, "dangle": 1e-10, "gather": each / n}, n, steps, workers, PEER_BYTES_PER_SECOND
    )
    benches.append(bench)
    bench.build(source_of("page_rank"), GROUP=256)
    nbytes = (4 * n + 4, 32 * n, 4 * n, 4 * n, 4 * n, 1024)
    starts, sources, links, ranks, shares, partial = [bench.program.buffer(each) for each in nbytes]
    count, found = np.int32(n), [bench.program.wait()]
    passed = starts, sources, shares, partial, np.int32(256), ranks, np.float32(0.85), count
    for step in range(1, steps + 1):
        bench.run("share", (n,), (256,), ranks, links, shares, count)
        bench.run("dangle", (1 << 16,), (256,), ranks, links, partial, count)
        bench.run("gather", (n,), (256,), *passed)
        if step % 10 == 0:
            now = bench.program.wait()
        if step % 40 == 0:
            found.append(now)
    return [float(took) for took in np.diff(found)]


class Ranks:
    """PageRank on a web that the host has written: what its kernels need of that is brought to each worker once."""

    def __init__(self, benches: list[Bench], workers: int) -> None:
        self.n, each = 1 << 22, 3.4e-4
        items = {"share": 3e-12, "dangle": 1e-10, "gather": each / self.n}
        self.bench = Bench(items, self.n, 0, workers, PEER_BYTES_PER_SECOND)
        benches.append(self.bench)
        self.bench.build(source_of("page_rank"), GROUP=256)
        self.machine = self.bench.program.machine
        self.machine.call, self.machine.allocation, self.machine.spins = 3e-6, 1e-3, True
        self.buffers: list[Any] = []

    def upload(self) -> None:
        """New buffers, the first four of them written."""
        session, queue, n = self.bench.program.session, self.bench.program.queue, self.n
        self.buffers = [
            session.create_buffer(nbytes) for nbytes in (4 * n + 4, 32 * n, 4 * n, 4 * n, 4 * n, 1024)
        ]
        for buffer in self.buffers[:4]:
            layout, host = Layout.contiguous(0, buffer.nbytes), np.empty(buffer.nbytes, np.uint8)
            session.submit(Write(buffer, layout, host), queue=queue)

    def round(self) -> float:
        """Seconds of forty steps."""
        n, count, run = self.n, np.int32(self.n), self.bench.run
        began = self.bench.program.wait()
        starts, sources, links, ranks, shares, partial = self.buffers
        passed = starts, sources, shares, partial, np.int32(256), ranks, np.float32(0.85), count
        for _ in range(40):
            run("share", (n,), (256,), ranks, links, shares, count)
            run("dangle", (1 << 16,), (256,), ranks, links, partial, count)
            run("gather", (n,), (256,), *passed)
        return self.bench.program.wait() - began


@pytest.mark.parametrize(
    ("plan", "noise"),
    [
        (5e-4, None),
        (2e-3, None),
        (4e-3, None),
        (5e-4, "twice"),
        (2e-3, "twice"),
        (5e-4, "bursts"),
        (2e-3, "bursts"),
    ],
)
def test_what_is_brought_once_keeps_nothing_on_one_worker(
    clocks: list[Bench], monkeypatch: pytest.MonkeyPatch, plan: float, noise: str | None
) -> None:
    """Some runs on new data, and more on the last: whatever the first plans took, and the first hand-overs, it ends on several workers."""
    monkeypatch.setattr(test_never_slower, "PLAN", plan)
    test_never_slower.hand_over_slowly_at_first(clocks, monkeypatch, (2e-3, 1e-3))

    def last(workers: int) -> float:
        """Seconds of the last round."""
        ranks, took = Ranks(clocks, workers), 0.0
        ranks.machine.noise = None if noise is None else busy_host(0, **NOISES[noise])
        for number in range(16):
            if number < 3:
                ranks.upload()
            took = ranks.round()
        return took

    assert last(4) <= 0.75 * last(1)


@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize("each", [1e-4, 3e-4, 6e-4])
def test_weighing_takes_a_small_part_of_what_it_weighs(
    clocks: list[Bench], monkeypatch: pytest.MonkeyPatch, each: float, workers: int
) -> None:
    """As long as nothing decides for a way, each launch would be weighed, which takes the host as long as a short one."""
    weigh, taken, long = Choosing.weigh, [0.0], 1.3e-4

    def slow(*given: Any) -> bool:
        clocks[-1].program.machine.work(long)
        taken[0] += long
        return weigh(*given)

    monkeypatch.setattr(Choosing, "weigh", slow)
    whole = sum(page_rank(clocks, workers, each, 240))
    assert taken[0] <= 0.1 * whole + 0.004  # those for plans that are made


@pytest.mark.parametrize("workers", [2, 4])
def test_launches_that_cannot_gain_are_not_weighed_for_ever(
    clocks: list[Bench], monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    """One work-group on one buffer and the other in turn: they exchange nothing, and to have plans takes only the time to weigh them."""
    weigh, taken, long = Choosing.weigh, [0], 4.5e-5

    def slow(*given: Any) -> bool:
        clocks[-1].program.machine.work(long)
        taken[0] += 1
        return weigh(*given)

    monkeypatch.setattr(Choosing, "weigh", slow)
    bench = Bench({"light": 1e-9}, 64, 0, workers, PEER_BYTES_PER_SECOND)
    clocks.append(bench)
    bench.build("kernel void light(global float *a, float b) { a[get_global_id(0)] = b; }")
    buffers = [bench.zeros(64) for _ in range(2)]
    for number in range(400):
        bench.run("light", (64,), (64,), buffers[number % 2], np.float32(number))
    (way,) = of_session(bench.program.session).kernel("light").ways
    assert way.reason == THRIFTY
    assert taken[0] < 100


def test_fewer_workers_are_taken_where_each_needs_all_of_the_others(
    clocks: list[Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls that take long: over two, launches exchange two thirds of the bytes that they do over four, in a sixth of the messages."""
    monkeypatch.setattr(test_never_slower, "PLAN", 3e-4)
    monkeypatch.setattr(test_never_slower, "CALL", 8e-6)
    one, chosen = page_rank(clocks, 1, 6e-4, 40)[0], page_rank(clocks, 4, 6e-4, 240)
    assert max(chosen) <= one
    assert chosen[-1] <= 0.65 * one


def test_gains_between_launches_that_exchange_much_count_with_these(
    clocks: list[Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A short kernel loses by what it exchanges, and one launch of it that is weighed stands for many; a long one between them gains."""
    monkeypatch.setattr(test_never_slower, "PLAN", 3e-4)
    one, chosen = page_rank(clocks, 1, 6e-4, 40)[0], page_rank(clocks, 2, 6e-4, 200)
    assert max(chosen[1:]) <= 0.65 * one


@pytest.mark.parametrize("workers", [2, 4, 8])
def test_folding_at_each_step_counts_for_the_kernel_that_adds(clocks: list[Bench], workers: int) -> None:
    one, chosen = (k_means(clocks, count, 1e-4, 200) for count in (1, workers))
    assert sum(chosen) <= 1.1 * sum(one)
    assert sum(chosen[100:]) <= 1.02 * sum(one[100:])


def test_folds_count_with_what_the_host_takes_for_them(
    clocks: list[Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    took, counted = [], []
    folded, add = Choosing.folded, Stretch.add
    monkeypatch.setattr(Choosing, "folded", lambda self, *args: took.append(args[-1]) or folded(self, *args))
    monkeypatch.setattr(Stretch, "add", lambda self, way: counted.append(way.host) or add(self, way))
    k_means(clocks, 2, 2e-3, 20, call=2e-5)
    assert min(took[5:]) > 6e-5, "a few calls of the driver"
    assert max(counted) >= min(took[5:])


@pytest.mark.parametrize("workers", [2, 4, 8])
@pytest.mark.parametrize("each", [1e-4, 5e-4, 2e-3])
def test_what_the_model_does_not_know_of_is_seen_from_the_periods(
    clocks: list[Bench], workers: int, each: float
) -> None:
    """Each fold takes longer than the model has it."""
    one, chosen = (k_means(clocks, count, each, 250, merging=3e-4, latency=1.5e-5) for count in (1, workers))
    assert sum(chosen[-50:]) <= 1.01 * sum(one[-50:])
