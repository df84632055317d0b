"""Comparing arrays: where they differ and by how much, in units in the last place (ULPs).

Decides what counts as equal and what a failure says. All it knows of kernels is that an array may come from one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np
import numpy.typing as npt

from vdev.harness import origins
from vdev.harness.failures import with_script
from vdev.translators.values import dataclass

Array = npt.NDArray[Any]
#: differences that a failure lists
_SHOWN = 8
_UNSIGNED = {2: np.uint16, 4: np.uint32, 8: np.uint64}


@dataclass(frozen=True)
class _How:
    """A comparison: in words, and as a call."""

    wanted: str
    function: str
    settings: Mapping[str, float] = field(default_factory=dict)


_EQUAL = _How("equal", "assert_equal")


class DifferenceError(AssertionError):
    """Arrays that differ. `script`: shows it again, if a random call has left the result."""

    def __init__(self, text: str, script: str = "") -> None:
        super().__init__(with_script(text, script))
        self.script = script


def assert_equal(result: npt.ArrayLike, expected: npt.ArrayLike) -> None:
    """All elements must be equal; NaN equals NaN, and 0.0 equals -0.0. Raises AssertionError with the places that differ."""
    __tracebackhide__ = True
    one, other = _arrays(result, expected)
    _report(one, other, ~_same(one, other), _EQUAL)


def assert_allclose(
    result: npt.ArrayLike, expected: npt.ArrayLike, *, ulp: int = 4, rtol: float = 0.0, atol: float = 0.0
) -> None:
    """All elements must be within `ulp` units in the last place of the result's type, or within `atol + rtol * |expected|`.

    NaN is close only to NaN, an infinity only to itself. Raises AssertionError with the places that differ.

    >>> assert_allclose(np.float32([1, 2]), np.float32([1, 2.0000002]))
    """
    __tracebackhide__ = True
    one, other = _arrays(result, expected)
    if one.dtype.kind not in "fc":
        _report(one, other, ~_same(one, other), _EQUAL)
        return
    wide = np.complex128 if one.dtype.kind == "c" else np.float64
    other = other.astype(one.dtype)
    with np.errstate(invalid="ignore", over="ignore"):
        distance = np.abs(one.astype(wide) - other.astype(wide))
        near = np.isfinite(distance) & (distance <= atol + rtol * np.abs(other.astype(wide)))
    within = near | _same(one, other)
    if one.dtype.kind == "f":
        within |= ulps(one, other) <= ulp
    settings = {"ulp": ulp, "rtol": rtol, "atol": atol}
    wanted = f"within {ulp} ULPs, rtol {rtol:g}, atol {atol:g}"
    _report(one, other, ~within, _How(wanted, "assert_allclose", settings))


def ulps(one: Array, other: Array) -> Array:
    """How many floating-point numbers of their type lie between each element and the other's; the largest number if
    either is not finite and they differ (float16, float32, float64).

    >>> ulps(np.float32([1.0]), np.nextafter(np.float32([1.0]), np.float32(2)))
    array([1], dtype=uint64)
    """
    a, b = _ordered(one), _ordered(other)
    distance = np.where(a > b, a - b, b - a)
    wrong = ~(np.isfinite(one) & np.isfinite(other)) & ~_same(one, other)
    return np.where(wrong, np.uint64(2**64 - 1), distance)


def _ordered(values: Array) -> Array:
    """Floating-point numbers as unsigned integers in the same order, one apart for neighbours."""
    size = values.dtype.itemsize
    bits = np.ascontiguousarray(values).view(_UNSIGNED[size]).astype(np.uint64)
    sign = np.uint64(1 << (8 * size - 1))
    below = sign - (bits & (sign - np.uint64(1)))
    found: Array = np.where(bits & sign, below, bits + sign)
    return found


def _arrays(result: npt.ArrayLike, expected: npt.ArrayLike) -> tuple[Array, Array]:
    one, other = np.asarray(result), np.asarray(expected)
    if one.shape != other.shape:
        try:
            other = np.broadcast_to(other, one.shape)
        except ValueError:
            raise AssertionError(f"the result has shape {one.shape}, expected is {other.shape}") from None
    return one, other


def _same(one: Array, other: Array) -> Array:
    same: Array = np.asarray(one == other)
    if one.dtype.kind in "fc" and other.dtype.kind in "fc":
        same |= np.isnan(one) & np.isnan(other)
    return same


def _report(one: Array, other: Array, wrong: Array, how: _How) -> None:
    __tracebackhide__ = True
    places = np.argwhere(wrong)
    if not len(places):
        return
    floating = one.dtype.kind == "f" and other.dtype == one.dtype
    lines = [f"{len(places)} of {one.size} elements ({one.dtype}) are not {how.wanted}"]
    shown = [tuple(int(k) for k in place) for place in places[:_SHOWN]]
    for index, writer in zip(shown, _writers(one, shown), strict=True):
        text = f"  at [{', '.join(map(str, index))}]: {_value(one[index])}, expected {_value(other[index])}"
        if floating:
            text += _in_ulps(one[index], other[index])
        lines.append(text)
        if writer:
            lines.append(f"    {writer}")
    if len(places) > _SHOWN:
        lines.append(f"  and {len(places) - _SHOWN} more")
    script = _script(one, other, how)
    raise DifferenceError("\n".join(lines), script)


def _writers(result: Array, places: Sequence[tuple[int, ...]]) -> list[str]:
    """Which work-items wrote these elements, if a kernel's call has left the array."""
    found = origins.find(result)
    if found is None:
        return [""] * len(places)
    memory, origin = found
    nbytes = result.dtype.itemsize
    return origin.writers(memory, [(origins.byte_of(result, place, memory), nbytes) for place in places])


def _script(result: Array, expected: Array, how: _How) -> str:
    """The failing call and this comparison as a script, if the call was a random one."""
    found = origins.find(result)
    return "" if found is None else found[1].script(result, expected, how.function, how.settings)


def _in_ulps(one: Any, other: Any) -> str:
    if not (np.isfinite(one) and np.isfinite(other)):
        return ""
    distance = int(ulps(np.atleast_1d(one), np.atleast_1d(other))[0])
    return f" ({distance} ULP{'s' if distance != 1 else ''} apart)"


def _value(element: Any) -> str:
    """Without its type, which the array states."""
    return str(element) if isinstance(element, np.number | np.bool_) else repr(element)
