"""What is merged and exchanged after a launch's kernel is measured, and counts where its way is chosen."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.pure.test_never_slower import Bench, simulated_host
from tests.pure.virtual_gpus import PEER_BYTES_PER_SECOND
from vdev.backends.base import Marker
from vdev.executor.sampling import Measured, Sample
from vdev.observe.snapshots import of_session

#: each work-item writes to a place that only its data tells: all workers' bytes are compared and merged
SCATTERED = """
kernel void scattered(global float *to, global const float *from, global const int *places, int step) {
    int i = get_global_id(0);
    to[places[i]] = from[i];
}
"""
ITEMS, STEPS, ON_ONE = 1 << 26, 120, 3.5e-3


@pytest.fixture
def clocks() -> Iterator[list[Bench]]:
    with simulated_host() as benches:
        yield benches


def seconds_and_split(clocks: list[Bench], workers: int, merging: float) -> tuple[float, int]:
    """Seconds of a program's second half where one call of a merge takes so long, and how many launches of it were split."""
    bench = Bench({"scattered": ON_ONE / ITEMS}, ITEMS, STEPS, workers, PEER_BYTES_PER_SECOND)
    clocks.append(bench)
    bench.build(SCATTERED)
    bench.program.machine.merging = merging
    buffers = [bench.program.buffer(4 * ITEMS) for _ in range(3)]
    began, split = 0.0, 0
    for step in range(STEPS):
        if step == STEPS // 2:
            began, split = bench.program.wait(), of_session(bench.program.session).kernel("scattered").split
        bench.run("scattered", (ITEMS,), (64,), *buffers, np.int32(step))
    return bench.program.wait() - began, of_session(bench.program.session).kernel("scattered").split - split


@pytest.mark.parametrize("workers", [2, 4])
def test_launches_whose_merges_take_longer_than_splitting_saves_go_to_one_worker(
    clocks: list[Bench], workers: int
) -> None:
    one, _ = seconds_and_split(clocks, 1, 0.0)
    chosen, split = seconds_and_split(clocks, workers, 3e-3)
    assert chosen <= 1.15 * one  # splitting is tried once more
    assert split <= STEPS // 2 // 10


def test_launches_whose_merges_take_little_stay_split(clocks: list[Bench]) -> None:
    one, _ = seconds_and_split(clocks, 1, 0.0)
    chosen, split = seconds_and_split(clocks, 2, 1e-5)
    assert split == STEPS // 2
    assert chosen < one


def test_what_comes_after_is_counted_from_the_end_of_the_longest_kernel() -> None:
    """A worker whose chunk ends sooner waits for the others before it merges."""
    assert Measured({}, {0: 5.0, 1: 3.0}).behind({0: 1.0, 1: 3.5}) == 1.5
    assert Measured({}, {0: 5.0, 1: 3.0}).behind({1: 1.0}) == 0.0
    assert Measured({}, {0: 5.0}).behind({}) == 0.0


class Kept(Marker):
    """A marker whose work is through when it is told to be."""

    def __init__(self, start: int, end: int) -> None:
        self.through = False
        self._times = start, start, start, end

    def done(self) -> bool:
        return self.through

    def wait(self) -> None:
        assert self.through

    def times(self) -> tuple[int, int, int, int]:
        return self._times


def test_kernels_are_known_before_what_comes_after_them() -> None:
    sample, kernel, end = Sample(1, 1), Kept(0, 5_000), Kept(5_000, 8_000)
    sample.add(0, None, kernel)
    assert sample.take() is None
    kernel.through = True
    measured = sample.take()
    assert measured is not None
    assert measured.kernel == {0: 5e-6}
    assert sample.take_after() is None, "its end was not handed over"
    sample.end(0, end)
    assert sample.take_after() is None, "nor is it through"
    end.through = True
    assert sample.take_after() == {0: pytest.approx(3e-6)}
