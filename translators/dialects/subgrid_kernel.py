"""How a kernel that was translated for a sub-grid is called: its hidden argument. Never decides how an NDRange is cut."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache

from vdev.translators.values import dataclass

from ..ranges.ndrange import Chunk, NDRange

__all__ = ["SubgridKernel"]

_INDEX_SPACE = struct.Struct("<15Q").pack
_NO_CYCLE = bytes(8 * 12)  #: what `_renumbering` says of a chunk without one
#: by the number of dimensions: what the others have for a size, and for an offset
_PADDING = {dimensions: ((1,) * (3 - dimensions), (0,) * (3 - dimensions)) for dimensions in (1, 2, 3)}


@dataclass(frozen=True)
class SubgridKernel:
    """A translated kernel. `hidden_index`: the hidden argument; `pointer_args`: arguments that have a shift, in its
    order. `renumbers`: it also runs chunks with cycles.
    """

    name: str
    hidden_index: int
    pointer_args: tuple[int, ...]
    renumbers: bool = False

    @property
    def hidden_nbytes(self) -> int:
        return 8 * (15 + 12 * self.renumbers + len(self.pointer_args))

    def pack(self, ndrange: NDRange, chunk: Chunk, shifts: Sequence[int] = ()) -> bytes:
        """The hidden argument for `chunk` of `ndrange`.

        `shifts`, one per pointer argument, in bytes: the kernel computes with (native pointer - shift); 0 for no
        buffer, which remains none. To be launched with the chunk's global size, the NDRange's local size and, if the
        program is translated for launches with offsets, the chunk's first ids as offset. Raises ValueError for a
        wrong number of shifts, and for a chunk with a cycle unless it renumbers.
        """
        return self.packed_space(ndrange, chunk) + self.packed_shifts(shifts)

    def packed_shifts(self, shifts: Sequence[int]) -> bytes:
        """How the hidden argument ends, as `pack`: the same for all launches on buffers that lie in the same way."""
        if len(shifts) != len(self.pointer_args):
            raise ValueError(
                f"kernel {self.name}: {len(self.pointer_args)} shifts expected, {len(shifts)} given"
            )
        return struct.pack(f"<{len(shifts)}q", *shifts)

    def packed_space(self, ndrange: NDRange, chunk: Chunk) -> bytes:
        """What the hidden argument says before, as `pack`."""
        content = _index_space(ndrange, chunk)
        if self.renumbers:
            content += _renumbering(ndrange, chunk)
        elif chunk.cycle is not None:
            raise ValueError(f"kernel {self.name}: translated for contiguous work-groups")
        return content

    def packed_whole(self, ndrange: NDRange, shifts: bytes) -> bytes:
        """The hidden argument for all of `ndrange`, as `pack`; with fewer calls. `shifts`: from `packed_shifts`."""
        offset, size = ndrange.offset, ndrange.global_size
        ones, zeros = _PADDING[len(size)]
        content = _INDEX_SPACE(
            0, 0, 0, *ndrange.num_groups, *ones, *size, *ones, *offset, *zeros, *offset, *zeros
        )
        return content + _NO_CYCLE + shifts if self.renumbers else content + shifts


def _index_space(ndrange: NDRange, chunk: Chunk) -> bytes:
    """What the hidden argument says of a chunk, wherever its buffers are. Not remembered: looking it up takes as long."""
    start, offset, size = chunk.start, ndrange.offset, ndrange.global_size
    first = chunk.first(ndrange) if any(start) else offset
    ones, zeros = _PADDING[len(start)]
    sizes = (*ndrange.num_groups, *ones, *size, *ones)
    return _INDEX_SPACE(*start, *zeros, *sizes, *offset, *zeros, *first, *zeros)


@lru_cache(maxsize=1024)
def _renumbering(ndrange: NDRange, chunk: Chunk) -> bytes:
    """For each dimension the factor and the shift that give the number of a work-group's block, and how many
    work-groups and work-items lie between blocks; the factor is 0 without a cycle.

    A quotient by a number that is the same for all is a product and a shift, exact below 2**31: T. Granlund, P. L.
    Montgomery, "Division by Invariant Integers using Multiplication" (PLDI 1994), theorem 4.2.
    """
    fields = [[0, 0, 0] for _ in range(4)]
    if chunk.cycle is not None:
        axis, block, stride = chunk.cycle.axis, chunk.cycle.block, chunk.cycle.stride
        if max(chunk.counts[axis], block) >= 1 << 31:
            raise ValueError(f"{chunk.counts[axis]} work-groups in blocks of {block}")
        shift = 31 + (block - 1).bit_length()
        gap = stride - block
        for field, number in zip(
            fields, (-(-(1 << shift) // block), shift, gap, gap * ndrange.local_size[axis]), strict=True
        ):
            field[axis] = number
    return struct.pack("<12Q", *(number for field in fields for number in field))
