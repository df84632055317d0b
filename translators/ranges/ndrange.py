"""Index spaces: the NDRange of a launch and the part of it that one chunk covers.

Pure values (OpenCL specification 3.2.1 and 5.8). Partial work-groups at the upper edge exist where a
program was built for non-uniform work-groups; they belong to the last work-group of their dimension.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from operator import sub

from vdev.translators.values import computed_once, dataclass

_new = object.__new__
#: by the number of dimensions
_ZEROS: tuple[tuple[int, ...], ...] = ((), (0,), (0, 0), (0, 0, 0))


@dataclass(frozen=True)
class NDRange:
    """Sizes in work-items, one to three dimensions, all three tuples of the same length.

    `regroups`: the program left the local size open and the kernel cannot tell what it is, so each worker may group
    the work-items of its chunk differently.
    """

    made_often = True  # many a launch has one of its own (`values.MADE_OFTEN`)
    global_size: tuple[int, ...]
    local_size: tuple[int, ...]
    offset: tuple[int, ...]
    regroups: bool = False

    def __hash__(self) -> int:
        return self._hash

    @computed_once
    def _hash(self) -> int:
        """Each launch's plan is looked up by its index space more than once."""
        return hash((self.global_size, self.local_size, self.offset, self.regroups))

    @property
    def work_dim(self) -> int:
        return len(self.global_size)

    @computed_once
    def num_groups(self) -> tuple[int, ...]:
        found: tuple[int, ...] = ()
        for size, local in zip(self.global_size, self.local_size, strict=True):  # less than a list takes
            found = (*found, -(-size // local))
        return found

    @property
    def nitems(self) -> int:
        return prod(self.global_size)


def in_groups(
    global_size: tuple[int, ...],
    local_size: tuple[int, ...],
    offset: tuple[int, ...],
    num_groups: tuple[int, ...],
    regroups: bool = False,
) -> NDRange:
    """An index space whose number of work-groups in each dimension is known.

    >>> in_groups((5, 6), (2, 3), (0, 0), (3, 2)) == NDRange((5, 6), (2, 3), (0, 0))
    True
    """
    found = _new(NDRange)
    values = found.__dict__  # as its constructor does, with fewer calls
    values["global_size"] = global_size
    values["local_size"] = local_size
    values["offset"] = offset
    values["regroups"] = regroups
    values["num_groups"] = num_groups
    return found


@dataclass(frozen=True, slots=True)
class Cycle:
    """Blocks of `block` work-groups out of every `stride` along `axis`; 0 < `block` < `stride`."""

    axis: int
    block: int
    stride: int


@dataclass(frozen=True)
class Chunk:
    """Work-groups `start` <= g < `stop`, contiguous in each dimension (PPoPP'11 section 3.2, constraint 1).

    With a `cycle`, of these only blocks that repeat: along its axis, those with (g - start) % stride < block. One launch runs
    them: its g-th work-group there is start + g // block * stride + g % block.

    >>> chunk = Chunk((2,), (13,), Cycle(0, 2, 4))
    >>> chunk.counts, [box.start + box.stop for box in chunk.boxes()]
    ((6,), [(2, 4), (6, 8), (10, 12)])
    """

    made_often = True  # as of index spaces
    start: tuple[int, ...]
    stop: tuple[int, ...]
    cycle: Cycle | None = None

    @property
    def counts(self) -> tuple[int, ...]:
        """Work-groups in each dimension."""
        if self.cycle is None:
            return tuple(map(sub, self.stop, self.start))
        return tuple([self._count(axis) for axis in range(len(self.start))])

    def _count(self, axis: int) -> int:
        length, cycle = self.stop[axis] - self.start[axis], self.cycle
        if cycle is None or axis != cycle.axis:
            return length
        return length // cycle.stride * cycle.block + min(length % cycle.stride, cycle.block)

    @property
    def ngroups(self) -> int:
        if self.cycle is not None:
            return prod(self.counts)
        return prod(map(sub, self.stop, self.start))

    def group(self, axis: int, number: int) -> int:
        """The work-group at that position along a dimension."""
        cycle = self.cycle
        if cycle is None or axis != cycle.axis:
            return self.start[axis] + number
        return self.start[axis] + number // cycle.block * cycle.stride + number % cycle.block

    def boxes(self) -> Iterator[Chunk]:
        """The same work-groups without cycles, in order."""
        cycle = self.cycle
        if cycle is None:
            yield self
            return
        first, last = self.start[cycle.axis], self.stop[cycle.axis]
        for start in range(first, last, cycle.stride):
            yield self._along(cycle.axis, start, min(start + cycle.block, last))

    def cut(self, axis: int, number: int) -> tuple[Chunk, Chunk]:
        """The first `number` work-groups along a dimension, and the others. With a cycle, along its axis, whole
        blocks or parts of the only one.
        """
        first, last, cycle = self.start[axis], self.stop[axis], self.cycle
        if cycle is None or axis != cycle.axis:
            middle = first + number
            return self._along(axis, first, middle, cycle), self._along(axis, middle, last, cycle)
        if self._count(axis) <= cycle.block:  # all in one block
            middle = first + number
            return self._along(axis, first, middle), self._along(axis, middle, min(first + cycle.block, last))
        assert number % cycle.block == 0, "parts of a block"
        middle = first + number // cycle.block * cycle.stride
        return self._along(axis, first, middle, cycle), self._along(axis, middle, last, cycle)

    def halves(self) -> tuple[Chunk, Chunk]:
        """A chunk of several work-groups cut across its longest dimension."""
        counts = self.counts
        axis = counts.index(max(counts))
        middle, cycle = counts[axis] // 2, self.cycle
        if cycle is not None and axis == cycle.axis and counts[axis] > cycle.block:
            middle = max(middle // cycle.block, 1) * cycle.block
        return self.cut(axis, middle)

    def _along(self, axis: int, start: int, stop: int, cycle: Cycle | None = None) -> Chunk:
        """The same chunk with other bounds in one dimension."""
        return Chunk(
            (*self.start[:axis], start, *self.start[axis + 1 :]),
            (*self.stop[:axis], stop, *self.stop[axis + 1 :]),
            cycle,
        )

    def first(self, ndrange: NDRange) -> tuple[int, ...]:
        """The global ids of its first work-item."""
        return tuple(
            offset + start * local
            for offset, start, local in zip(ndrange.offset, self.start, ndrange.local_size, strict=True)
        )

    def global_size(self, ndrange: NDRange) -> tuple[int, ...]:
        """Work-items of the chunk in each dimension: only the NDRange's last work-group may be partial."""
        sizes = zip(ndrange.local_size, ndrange.global_size, strict=True)
        if self.cycle is not None:
            lasts = [self.group(axis, count - 1) + 1 for axis, count in enumerate(self.counts)]
            return tuple(
                count * local - max(last * local - size, 0)
                for count, last, (local, size) in zip(self.counts, lasts, sizes, strict=True)
            )
        return tuple(
            min(stop * local, size) - start * local
            for start, stop, (local, size) in zip(self.start, self.stop, sizes, strict=True)
        )


def whole_chunk(ndrange: NDRange) -> Chunk:
    """The chunk that is the whole NDRange."""
    groups = ndrange.num_groups
    return Chunk(_ZEROS[len(groups)], groups)
