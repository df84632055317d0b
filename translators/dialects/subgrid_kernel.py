"""How a kernel that was translated for a sub-grid is called: its hidden argument. Never decides how an NDRange is cut."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache

from vdev.translators.values import dataclass

from ..ranges.ndrange import Chunk, NDRange

__all__ = ["SubgridKernel"]


@dataclass(frozen=True)
class SubgridKernel:
    """A translated kernel. `hidden_index`: the hidden argument; `pointer_args`: arguments that have a shift,
    in its order.
    """

    name: str
    hidden_index: int
    pointer_args: tuple[int, ...]

    @property
    def hidden_nbytes(self) -> int:
        return 8 * (15 + len(self.pointer_args))

    def pack(self, ndrange: NDRange, chunk: Chunk, shifts: Sequence[int] = ()) -> bytes:
        """The hidden argument for `chunk` of `ndrange`.

        `shifts`, one per pointer argument, in bytes: the kernel computes with (native pointer - shift); 0 for no
        buffer, which then stays none. To be launched with the chunk's global size, the NDRange's local size and, where
        the program is translated for launches with offsets, the chunk's first ids as offset. Raises ValueError for a
        wrong number of shifts.
        """
        if len(shifts) != len(self.pointer_args):
            raise ValueError(
                f"kernel {self.name}: {len(self.pointer_args)} shifts expected, {len(shifts)} given"
            )
        return _index_space(ndrange, chunk) + struct.pack(f"<{len(shifts)}q", *shifts)


@lru_cache(maxsize=1024)
def _index_space(ndrange: NDRange, chunk: Chunk) -> bytes:
    """What the hidden argument says of a chunk, wherever its buffers are."""
    fields = (
        *_three(chunk.start, 0),
        *_three(ndrange.num_groups, 1),
        *_three(ndrange.global_size, 1),
        *_three(ndrange.offset, 0),
        *_three(chunk.first(ndrange), 0),
    )
    return struct.pack("<15Q", *fields)


def _three(values: tuple[int, ...], fill: int) -> tuple[int, ...]:
    return (*values, *(fill,) * (3 - len(values)))
