"""What a call of a kernel returns."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, overload

import numpy.typing as npt

from vdev.harness.findings import Finding

Array = npt.NDArray[Any]


class Outputs(Sequence[Array]):
    """What a kernel left in its buffers: an array for each pointer to memory that is not const and each image that it
    may write, in order and by name.

    `findings`: those of kinds that are switched off, and accepted ones. `one_worker`: reasons why the call would not
    be split over several workers; empty if it would be. `notes`: (line, what was not checked and why).
    """

    def __init__(
        self,
        arrays: dict[str, Array],
        findings: Sequence[Finding],
        notes: Sequence[tuple[int, str]],
        why_one_worker: Callable[[], tuple[str, ...]],
    ) -> None:
        self._arrays = arrays
        self._why_one_worker = why_one_worker
        self.findings = tuple(findings)
        self.notes = tuple(notes)

    @functools.cached_property
    def one_worker(self) -> tuple[str, ...]:
        """Why one worker would run all of the call."""
        return self._why_one_worker()

    @overload
    def __getitem__(self, key: int | str) -> Array: ...
    @overload
    def __getitem__(self, key: slice) -> Sequence[Array]: ...
    def __getitem__(self, key: int | str | slice) -> Array | Sequence[Array]:
        return self._arrays[key] if isinstance(key, str) else list(self._arrays.values())[key]

    def __len__(self) -> int:
        return len(self._arrays)

    def __iter__(self) -> Iterator[Array]:
        return iter(self._arrays.values())
