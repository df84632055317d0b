"""Index spaces: the NDRange of a launch and the part of it that one chunk covers.

Pure values (OpenCL specification 3.2.1 and 5.8). Partial work-groups at the upper edge exist where a
program was built for non-uniform work-groups; they belong to the last work-group of their dimension.
"""

from __future__ import annotations

from functools import cached_property
from math import prod

from vdev.translators.values import dataclass


@dataclass(frozen=True)
class NDRange:
    """Sizes in work-items, one to three dimensions, all three tuples of the same length.

    `regroups`: the program left the local size open and the kernel cannot tell what it is, so that each worker may group
    the work-items of its chunk in another way.
    """

    global_size: tuple[int, ...]
    local_size: tuple[int, ...]
    offset: tuple[int, ...]
    regroups: bool = False

    @property
    def work_dim(self) -> int:
        return len(self.global_size)

    @cached_property
    def num_groups(self) -> tuple[int, ...]:
        return tuple(-(-size // local) for size, local in zip(self.global_size, self.local_size, strict=True))

    @property
    def nitems(self) -> int:
        return prod(self.global_size)


@dataclass(frozen=True)
class Chunk:
    """Work-groups `start` <= g < `stop`, contiguous in each dimension (PPoPP'11 section 3.2, constraint 1)."""

    start: tuple[int, ...]
    stop: tuple[int, ...]

    @property
    def ngroups(self) -> int:
        return prod(stop - start for start, stop in zip(self.start, self.stop, strict=True))

    def first(self, ndrange: NDRange) -> tuple[int, ...]:
        """The global ids of its first work-item."""
        return tuple(
            offset + start * local
            for offset, start, local in zip(ndrange.offset, self.start, ndrange.local_size, strict=True)
        )

    def global_size(self, ndrange: NDRange) -> tuple[int, ...]:
        """Work-items of the chunk in each dimension: only the NDRange's last work-group may be partial."""
        return tuple(
            min(stop * local, size) - start * local
            for start, stop, local, size in zip(
                self.start, self.stop, ndrange.local_size, ndrange.global_size, strict=True
            )
        )


def whole_chunk(ndrange: NDRange) -> Chunk:
    """The chunk that is the whole NDRange."""
    groups = ndrange.num_groups
    return Chunk((0,) * len(groups), groups)
