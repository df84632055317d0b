"""Comparisons: what counts as equal, what a failure says."""

from __future__ import annotations

import numpy as np
import pytest

from vdev.harness import assert_allclose, assert_equal
from vdev.harness.comparing import ulps

ONE = np.float32(1)
NEXT = np.nextafter(ONE, np.float32(2))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_ulps_count_numbers_in_between(dtype: type) -> None:
    small = np.finfo(dtype).smallest_subnormal
    pairs = [
        (1, 1, 0),
        (1, np.nextafter(dtype(1), dtype(2)), 1),
        (0.0, -0.0, 0),
        (small, -small, 2),
        (np.nan, np.nan, 0),
    ]
    one, other = (np.array([pair[k] for pair in pairs[:4]], dtype) for k in (0, 1))

    assert ulps(one, other).tolist() == [pair[2] for pair in pairs[:4]]
    assert ulps(np.array([np.inf, np.nan], dtype), np.array([1, 1], dtype)).tolist() == [2**64 - 1] * 2


def test_what_is_close() -> None:
    assert_allclose([ONE], [NEXT], ulp=1)
    assert_allclose(
        np.float32([np.nan, np.inf, -np.inf, 0.0]), np.float32([np.nan, np.inf, -np.inf, -0.0]), ulp=0
    )
    assert_allclose(np.float32([1.5]), np.float32([1]), ulp=0, atol=0.5)
    assert_allclose(np.complex64([1 + 1j]), np.complex64([1 + 1.01j]), rtol=0.1)
    assert_equal(np.int32([1, 2]), [1, 2])
    assert_equal(np.float32([np.nan]), np.float32([np.nan]))


@pytest.mark.parametrize(
    ("one", "other"), [(np.inf, 1), (1, np.inf), (np.inf, -np.inf), (np.nan, 1), (1, 1.5), (1, -1)]
)
def test_what_is_not(one: float, other: float) -> None:
    with pytest.raises(AssertionError, match=r"1 of 1 elements \(float32\) are not within"):
        assert_allclose(np.float32([one]), np.float32([other]), rtol=1e-3)


def test_a_failure_names_places_values_and_distances() -> None:
    result, expected = np.ones((4, 4), np.float32), np.ones((4, 4), np.float32)
    result[2, 3] = NEXT
    with pytest.raises(
        AssertionError,
        match=r"1 of 16 elements \(float32\) are not equal\n  at \[2, 3\]: 1\.0000001, expected 1\.0 \(1 ULP apart\)",
    ):
        assert_equal(result, expected)
    with pytest.raises(AssertionError, match=r"9 of 9 .*\n(.*\n){8}  and 1 more"):
        assert_equal(np.arange(9), np.arange(9) + 1)
    with pytest.raises(AssertionError, match=r"shape \(4, 4\), expected is \(3,\)"):
        assert_equal(result, np.ones(3))
