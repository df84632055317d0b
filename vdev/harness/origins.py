"""Where arrays come from: which call of a kernel returned them.

Decides nothing; it remembers a call as long as its arrays exist, at the cost of a dictionary entry for each.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class Origin(Protocol):
    """The call that left an array."""

    def writers(self, content: Array, places: Sequence[tuple[int, int]]) -> list[str]:
        """Which work-item last wrote each place (first byte, bytes) of the memory, as text; empty if that is not
        known.
        """

    def script(self, result: Array, expected: Array, function: str, settings: Mapping[str, float]) -> str:
        """A script that repeats the call and compares a part of its results; empty if there is no need."""


_known: dict[int, tuple[weakref.ref[Array], Origin]] = {}


def remember(memory: Array, origin: Origin) -> None:
    """`memory` owns its bytes: arrays made from it are found through it."""
    key = id(memory)
    _known[key] = (weakref.ref(memory, lambda _: _known.pop(key, None)), origin)


def find(array: Array) -> tuple[Array, Origin] | None:
    """The memory that an array shows a part of, and the call that left it there."""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        entry = _known.get(id(owner))
        if entry is not None and entry[0]() is owner:
            return owner, entry[1]
        owner = owner.base
    return None


def byte_of(array: Array, index: tuple[int, ...], memory: Array) -> int:
    """Where an element starts in the memory that the array shows a part of."""
    first = array.__array_interface__["data"][0] - memory.__array_interface__["data"][0]
    return int(first + sum(k * stride for k, stride in zip(index, array.strides, strict=True)))
