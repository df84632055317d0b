"""Launches that are too small to be worth an optimised program.

Optimising a checked program takes longer than running the unoptimised one over a few thousand work-items. Decides
which launches are that small. As the cost of a launch is not known beforehand, each kernel has a time budget that
small launches use up.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from vdev.backends.base import Backend
from vdev.harness.memories import Argument, memories_of
from vdev.translators.ranges.ndrange import NDRange

__all__ = ["FLEETING", "SmallLaunches", "may_be_fleeting"]

#: The option for a program that is not worth optimising (OpenCL 3.0, 5.8.6.3).
FLEETING = "-cl-opt-disable"
#: The most work-items of a small launch, and the most 32-bit words of its buffers.
_MOST = 1 << 18
_WORD_NBYTES = 4
#: Seconds of small launches of one kernel: about as long as an optimised program takes to compile.
_BUDGET = 1.0


def may_be_fleeting(backend: Backend) -> bool:
    """Whether the back end's compiler knows the option."""
    return backend.info.backend == "opencl"


class SmallLaunches:
    """The small launches of one program's kernels."""

    def __init__(self) -> None:
        self._left: dict[str, float] = {}

    def takes(self, kernel: str, args: Sequence[Argument], ndrange: NDRange) -> bool:
        """Whether a launch is small, and its kernel has time left."""
        if self._left.get(kernel, _BUDGET) <= 0:
            return False
        words = sum(memory.nbytes for memory in memories_of(args)) // _WORD_NBYTES
        return max(words, prod(ndrange.global_size)) <= _MOST

    def spent(self, kernel: str, seconds: float) -> None:
        """A small launch of the kernel took that long."""
        self._left[kernel] = self._left.get(kernel, _BUDGET) - seconds

    def stop(self, kernel: str) -> None:
        """The kernel's launches no longer count as small: something has been found in them, or they do not run."""
        self._left[kernel] = 0.0
