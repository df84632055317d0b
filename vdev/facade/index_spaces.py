"""Index spaces of launches that give a kernel the same local size, or leave it open, one after the other.

Once one with that local size has been found valid, little is left to be checked of others (specification 5.8, clEnqueueNDRangeKernel):
decides whether one that consists of plain integers is valid. What is refused here is looked at, and reported, as any other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vdev.translators.ranges.ndrange import NDRange, in_groups

_ZEROS: tuple[tuple[int, ...], ...] = ((), (0,), (0, 0), (0, 0, 0))


class Grouping:
    """How launches of a kernel are grouped that give this local size."""

    __slots__ = ("_largest", "_local", "_regroups", "_takes_partial", "given")

    def __init__(
        self,
        given: Any,
        local: tuple[int, ...] | Callable[[tuple[int, ...]], tuple[int, ...]],
        address_bits: int,
        *,
        takes_partial: bool,
        regroups: bool,
    ) -> None:
        """`given`: what the program has given as the local size, None included. `local`: the local size, which was found valid; or, where
        none is given and the kernel requires none, what chooses it for a global size. `address_bits`: of each size and offset.
        `takes_partial`: the last work-group of a dimension may be partial. `regroups`: as of `NDRange`.
        """
        self.given = given
        self._local = local
        self._largest = (1 << address_bits) - 1
        self._takes_partial = takes_partial
        self._regroups = regroups

    def is_given(self, local_size: Any) -> bool:
        """Whether a local size that equals `given` is one of integers as well."""
        return local_size is None or _are_plain(local_size, 1, self._largest)

    def over(self, global_size: Any, offset: Any) -> NDRange | None:
        """The index space of that global size and offset (None: 0); None where it is not valid, or takes a closer look."""
        if type(global_size) is not tuple:
            return None
        local, largest, dimensions = self._local, self._largest, len(global_size)
        if type(local) is not tuple:
            local = self._chosen(global_size)
        if dimensions != len(local) or not dimensions:
            return None
        counts: tuple[int, ...] = ()
        for size, group in zip(global_size, local):  # noqa: B905 (as long as each other; to say so takes longer)
            if type(size) is not int or size < 1 or size > largest:
                return None
            count = -(-size // group)
            if count * group != size and not self._takes_partial:
                return None
            counts = (*counts, count)
        if offset is None:
            offset = _ZEROS[dimensions]
        elif not (_are_plain(offset, 0, largest) and len(offset) == dimensions):
            return None
        return in_groups(global_size, local, offset, counts, self._regroups)

    def _chosen(self, global_size: tuple[Any, ...]) -> tuple[int, ...]:
        """The local size that is chosen; () for a global size that is none."""
        choose = self._local
        assert callable(choose), "the local size is left open"
        is_size = 0 < len(global_size) <= 3 and _are_plain(global_size, 1, self._largest)
        return choose(global_size) if is_size else ()


def _are_plain(sizes: Any, least: int, largest: int) -> bool:
    """Whether these are a tuple of integers, none below or above that."""
    if type(sizes) is not tuple:
        return False
    for size in sizes:  # noqa: SIM110 (a generator takes longer, and so does a set of a few)
        if type(size) is not int or size < least or size > largest:
            return False
    return True
