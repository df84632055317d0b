"""Which way a small read takes that is made again and again: what it comes to, whatever the reads are like."""

from __future__ import annotations

import random

import pytest

from vdev.backends.cuda import read_ways
from vdev.backends.cuda.read_ways import ReadWays


def _looks(ways: ReadWays, engine: float, kernel: float, reads: int, may_change: bool = True) -> list[bool]:
    """Of so many reads, whether each came by a kernel."""
    chance, found = random.Random(5), []
    for _ in range(reads):
        found.append(ways.by_kernel)
        mean = kernel if ways.by_kernel else engine
        if ways.took(min(24, round(mean * chance.uniform(0.8, 1.2)))) and ways.decide(may_change=may_change):
            assert ways.by_kernel is not found[-1]
    return found


@pytest.mark.parametrize(
    ("engine", "kernel", "part"),
    [
        (3, 4, 0),  # the GPU waits already
        (12, 8, 0.99),
        (9, 13, 0.01),  # a trial now and then
        (60, 60, 0.99),  # longer than anybody looks
    ],
)
def test_it_comes_to_what_is_there_sooner(engine: float, kernel: float, part: float) -> None:
    found = _looks(ReadWays(), engine, kernel, 20_000)
    assert sum(found) / len(found) == pytest.approx(part, abs=0.012)
    assert (sum(found) == 0) is (part == 0)


def test_it_changes_with_the_program() -> None:
    ways = ReadWays()
    assert all(_looks(ways, 12, 8, 600)[100:])
    assert not any(_looks(ways, 2, 3, 3 * read_ways._BETWEEN)[read_ways._BETWEEN + 100 :])
    assert all(_looks(ways, 12, 8, 600)[100:])


def test_a_kernel_that_is_not_there_is_asked_for_and_waited_for_by_nobody() -> None:
    ways = ReadWays()
    assert not any(_looks(ways, 12, 8, 100, may_change=False))
    assert all(_looks(ways, 12, 8, 100)[2 * read_ways._TRIAL :])
