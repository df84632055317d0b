"""Up to which size launches take no plans where workers share hardware: what a cutoff is told, and what it answers."""

from __future__ import annotations

from math import inf

import pytest

from vdev.session.cutoff import Cutoff

SMALL, LEAST, LARGE = 512, 1024, 1 << 16


def enough(cutoff: Cutoff, nitems: int, each: float, kernel: Cutoff, most: int = 2000, **more: float) -> int:
    """After how many launches that lose so much each it is enough; 0: after none of so many."""
    change = more.pop("change", 0.0)
    for number in range(1, most + 1):
        cutoff.lost(nitems, each, kernel, **more)
        if cutoff.is_exceeded(change):
            return number
    return 0


@pytest.fixture
def cutoff() -> Cutoff:
    return Cutoff(LEAST)


@pytest.fixture
def kernel() -> Cutoff:
    return Cutoff(0)


def test_where_time_decides_size_does_not() -> None:
    cutoff = Cutoff()
    assert cutoff.below == inf


def test_small_launches_are_enough_soon_and_raise_nothing(cutoff: Cutoff, kernel: Cutoff) -> None:
    assert enough(cutoff, SMALL, 2e-5, kernel) == 25
    assert cutoff.below == LEAST
    assert enough(cutoff, SMALL, 2e-5, kernel) == 25, "and so they are once more"


def test_some_are_seen_however_long_their_first_plan_takes(cutoff: Cutoff, kernel: Cutoff) -> None:
    assert enough(cutoff, SMALL, 1e-3, kernel) == 3


def test_a_large_one_between_begins_the_row_anew(cutoff: Cutoff, kernel: Cutoff) -> None:
    for _ in range(4):
        assert not enough(cutoff, SMALL, 2e-5, kernel, 20)
        assert not enough(cutoff, LARGE, 2e-5, kernel, 1)
    assert enough(cutoff, SMALL, 2e-5, kernel) == 25


def test_large_ones_have_more_to_lose_and_raise_it(cutoff: Cutoff, kernel: Cutoff) -> None:
    assert enough(cutoff, LARGE, 2.0**-10, kernel) == 7
    assert LARGE < cutoff.below < 8 * LARGE
    assert enough(cutoff, LARGE, 2.0**-10, kernel) == 3, "they are below it now"
    assert enough(cutoff, 8 * LARGE, 2.0**-10, kernel) == 4, "what those have lost counts"
    assert enough(cutoff, 64 * LARGE, 2.0**-10, kernel) == 7


def test_small_ones_use_up_what_large_ones_may_lose(cutoff: Cutoff, kernel: Cutoff) -> None:
    """So few between two large ones are not enough by themselves."""
    for _ in range(10):
        assert not enough(cutoff, LARGE, 5e-5, kernel, 1)
        assert not enough(cutoff, SMALL, 2e-5, kernel, 20)
    for _ in range(10):
        enough(cutoff, LARGE, 5e-5, kernel, 1)
        enough(cutoff, SMALL, 2e-5, kernel, 20)
    assert cutoff.below > LARGE


def test_kernels_that_take_long_are_never_given_up(cutoff: Cutoff, kernel: Cutoff) -> None:
    assert not enough(cutoff, LARGE, 1e-3, kernel, kernels=0.03)
    assert enough(cutoff, LARGE, 1e-3, kernel, kernels=0.01) > 6


def test_nothing_large_is_given_up_as_long_as_its_time_is_not_known(cutoff: Cutoff, kernel: Cutoff) -> None:
    cutoff.lost(LARGE, 1.0, kernel)
    assert not cutoff.is_exceeded(0.0, known=False)
    assert cutoff.is_exceeded(0.0)


def test_what_bringing_the_buffers_to_one_worker_takes_is_lost_first(cutoff: Cutoff, kernel: Cutoff) -> None:
    assert enough(cutoff, SMALL, 1e-4, kernel, change=1e-3) == 20
    assert enough(cutoff, LARGE, 1e-3, kernel, change=1e-2) >= 18


def test_below_a_kernels_own_cutoff_its_launches_are_small(cutoff: Cutoff, kernel: Cutoff) -> None:
    kernel.rise(LARGE)
    assert enough(cutoff, LARGE, 2e-5, kernel) == 25
    assert cutoff.below == LEAST, "other kernels' are not"
    assert not enough(cutoff, LARGE, 2e-5, Cutoff(0), 100)


def test_a_cutoff_is_never_lowered(cutoff: Cutoff) -> None:
    cutoff.rise(LARGE)
    before = cutoff.below
    cutoff.rise(LEAST)
    assert cutoff.below == before


def test_those_that_meet_have_lost_together(cutoff: Cutoff, kernel: Cutoff) -> None:
    other = Cutoff(4 * LARGE)
    other.lost(8 * LARGE, 0.004, kernel)
    cutoff.lost(LARGE, 0.004, kernel)
    cutoff.join(other)
    assert cutoff.below == 4 * LARGE
    assert cutoff.is_exceeded(0.0)
    assert cutoff.below > 8 * LARGE
    assert cutoff.seconds == pytest.approx(0.008)
