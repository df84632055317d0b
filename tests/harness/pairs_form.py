"""Small kernels with one planted mistake each, and their corrected twins.

In a text, lines that begin with `BUG` are in the faulty kernel alone, those with `FIX` in its twin alone; the line that
findings name is the faulty one, or every line that ends in `//@`. Where `BUG` stands alone the twin has an empty line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vdev.harness import empty, local

N = 64


def ints(count: int = N, first: int = 1) -> np.ndarray:
    return np.arange(first, first + count, dtype=np.int32)


def floats(count: int = N) -> np.ndarray:
    return np.arange(1, count + 1, dtype=np.float32)


def chars(count: int = N) -> np.ndarray:
    return np.arange(count, dtype=np.uint8)


def zeros(count: int = N, dtype: Any = np.int32) -> np.ndarray:
    return np.zeros(count, dtype)


I, F = np.int32, np.float32  # noqa: E741


@dataclass(frozen=True)
class Pair:
    """A mistake of `kind` in kernel `k`, and what both kernels are called with."""

    name: str
    kind: str
    text: str
    args: Sequence[Any]
    global_size: int | tuple[int, ...] = N
    local_size: int | tuple[int, ...] | None = 16
    options: str = ""
    report: tuple[str, ...] = ()

    def _lines(self, keep: str, drop: str) -> list[str]:
        """The text with the lines of one kernel; a line that only the other has leaves an empty one."""
        found: list[str] = []
        lines = self.text.strip("\n").split("\n")
        for number, line in enumerate(lines):
            if line.startswith(keep):
                found.append(line[3:])
            elif not line.startswith(drop):
                found.append(line)
            else:
                partner = number + 1 if drop == "BUG" else number - 1
                if not lines[partner].startswith(keep):
                    found.append("")
        return found

    @property
    def faulty(self) -> str:
        return "\n".join(self._lines("BUG", "FIX"))

    @property
    def twin(self) -> str:
        return "\n".join(self._lines("FIX", "BUG"))

    @property
    def lines(self) -> frozenset[int]:
        """The lines that a finding may name."""
        numbered = list(enumerate(self.faulty.split("\n"), 1))
        marked = frozenset(number for number, line in numbered if line.endswith("//@"))
        if marked:
            return marked
        twin = self.twin.split("\n")
        return frozenset(number for number, line in numbered if line != twin[number - 1])


__all__ = ["F", "I", "N", "Pair", "chars", "empty", "floats", "ints", "local", "zeros"]
