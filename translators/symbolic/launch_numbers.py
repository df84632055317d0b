"""The numbers of a launch: what work-item functions return in it, and what its arguments hold.

Decides into which pieces a chunk is cut so that each function has one answer within a piece. Evaluates no
expressions: `evaluation` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, TypeAlias

from ..ranges.ndrange import Chunk, NDRange
from ..ranges.tracing import Number
from .exhaustive import assert_never
from .nodes import GlobalOffset, GlobalSize, IntType, LocalSize, NumGroups, WholeLocalSize

#: Work-item functions that are the same for all work-items of a work-group.
Uniforms: TypeAlias = GlobalSize | LocalSize | WholeLocalSize | NumGroups | GlobalOffset


def uniform_pieces(ndrange: NDRange, chunk: Chunk, merged: frozenset[int]) -> Iterator[Chunk]:
    """`chunk` in pieces within which `get_local_size` has one answer: partial work-groups, which are the last of a
    dimension, are separate from the others.

    Dimensions in which only global ids are asked for are not cut. The blocks of a cycle stay whole: the last one,
    which guards cut, is separate from the others.
    """
    for part in _whole_blocks(chunk):
        cuts = []
        for d in range(ndrange.work_dim):
            start, stop, last = part.start[d], part.stop[d], ndrange.num_groups[d] - 1
            partial = ndrange.global_size[d] % ndrange.local_size[d] and d not in merged
            inside = partial and start < last < stop
            cuts.append(((start, last), (last, stop)) if inside else ((start, stop),))
        for spans in product(*cuts):
            yield Chunk(tuple(span[0] for span in spans), tuple(span[1] for span in spans), part.cycle)


def _whole_blocks(chunk: Chunk) -> Iterator[Chunk]:
    """`chunk` with its last block separate; the part that keeps its cycle ends with its last block."""
    cycle = chunk.cycle
    if cycle is None:
        yield chunk
        return
    axis = cycle.axis
    count = chunk.counts[axis]
    before = (count - 1) // cycle.block  # blocks
    if before == 0:
        yield from chunk.boxes()
        return
    blocks, last = chunk.cut(axis, before * cycle.block)
    yield from last.boxes()
    if before == 1:
        yield from blocks.boxes()
    else:
        stop = chunk.start[axis] + (before - 1) * cycle.stride + cycle.block
        yield Chunk(blocks.start, (*blocks.stop[:axis], stop, *blocks.stop[axis + 1 :]), cycle)


class Launch:
    """The numbers of one launch and of a chunk of it, one of `uniform_pieces`."""

    def __init__(
        self,
        ndrange: NDRange,
        chunk: Chunk,
        values: Mapping[int, int | float | bytes | Number],
        merged: frozenset[int],
    ) -> None:
        """`merged`: dimensions in which only global ids are asked for, so that one variable is enough."""
        self.ndrange = ndrange
        self.chunk = chunk
        self.values = values
        self.merged = merged

    def number(self, function: Uniforms) -> int:
        """The answer of a work-item function that is the same for all work-items."""
        ndrange, dimension = self.ndrange, function.dimension
        if dimension >= ndrange.work_dim:
            return 0 if isinstance(function, GlobalOffset) else 1
        match function:
            case GlobalSize():
                return ndrange.global_size[dimension]
            case LocalSize():  # the size that a partial work-group has (OpenCL C 3.0, 6.15.1)
                local = ndrange.local_size[dimension]
                return min(local, ndrange.global_size[dimension] - self.chunk.start[dimension] * local)
            case WholeLocalSize():
                return ndrange.local_size[dimension]
            case NumGroups():
                return ndrange.num_groups[dimension]
            case GlobalOffset():
                return ndrange.offset[dimension]
        assert_never(function)

    def argument(self, index: int, byte: int, kind: IntType) -> int | None:
        """The integer passed for a value argument; None if the caller did not say."""
        value: Any = self.values.get(index)
        if isinstance(value, bytes | bytearray | memoryview):
            part = bytes(value[byte : byte + kind.bits // 8])
            return int.from_bytes(part, "little", signed=kind.signed) if len(part) == kind.bits // 8 else None
        if value is None or byte:
            return None
        number: Any = value
        if type(value) is not Number:
            number = int(value)
            if number != value:
                return None
        found: int = number if kind.lo <= number <= kind.hi else kind.wrap(number)
        return found
