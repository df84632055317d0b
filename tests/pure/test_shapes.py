"""Programs of many shapes: none is slower on several simulated GPUs than on one, but for a little at first."""

from __future__ import annotations

import pytest

from tests.pure.shapes import SHAPES, TIMES, took

#: what is lost at most until several workers are given up, in seconds
TO_NOTICE = 8e-3
#: of the time of one GPU, what any program takes at most after that
SLOWER = 1.03
#: the same of programs of some 20 ms, in which what is lost until that is noticed weighs more
SHORT = {"power_iteration": 1.15}


@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize("name", SHAPES)
def test_short_kernels_of_no_shape_are_slower(name: str, workers: int) -> None:
    """Of 30 us on one GPU, which several can hardly make shorter."""
    one, several = (took(SHAPES[name], count, TIMES[0]) for count in (1, workers))
    assert several[0] <= one[0] + TO_NOTICE
    assert several[1] <= SHORT.get(name, SLOWER) * one[1]


#: whose kernels of 3 ms gain nothing on several: every column of a matrix is spread over all of its rows, and they have too few work-items
WHOLE = {"there_and_back"}
#: times as fast on four: its levels differ in size, and not all of them gain
LEVELS = {"triangular_solve": 2.5}


@pytest.mark.parametrize("name", sorted(SHAPES.keys() - WHOLE))
def test_long_kernels_of_every_shape_gain(name: str) -> None:
    one, several = (took(SHAPES[name], count, TIMES[2]) for count in (1, 4))
    assert several[1] <= one[1] / LEVELS.get(name, 3.0)
