"""Cutting an NDRange: the table of work-group-optimal partitions, and a local size where the program leaves
it open.

Decides which cuts exist, never which one is taken: that needs the directory (`launches`). Knows work-groups,
not bytes.

A partition is a grid of cuts: one number of parts for each dimension. Its chunks are whole work-groups,
contiguous in each dimension, disjoint, cover the NDRange, and are balanced to within one work-group in each
dimension (PPoPP'11 section 3.2, constraints 1 and 2). Or one dimension is cut into blocks that the chunks take in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise, product
from math import gcd, lcm, prod

from vdev.translators.ranges.ndrange import Chunk, Cycle
from vdev.translators.values import dataclass

#: work-items in a group if the program leaves it open: enough for a device, and few enough to leave groups to
#: distribute
USUAL_GROUP_SIZE = 256

#: has all divisors up to that: those that a number has are those of their greatest common one
_MULTIPLE_OF_ALL = lcm(*range(1, USUAL_GROUP_SIZE + 1))

#: a tile of work-items by number of dimensions
TILES = {2: (16, 16), 3: (16, 4, 4)}
#: preferred multiples that are the number of work-items which run in step on a GPU: their loads are combined
_WARPS = (32, 64)
#: work-items of a group below which the group costs more than its work-items
_TINY = 16

#: a grid is no candidate where its largest chunk has this many times the work-groups of the best grid's
#: largest
BALANCE = 1.25


@dataclass(frozen=True, slots=True)
class Partition:
    """`cuts`: number of parts in each dimension. `chunks`: in order, the first dimension fastest.

    `edges`: of the parts in the only dimension that is cut, if they are not about equal (`balance`); with a `cycle`
    of that many work-groups, within it.
    """

    cuts: tuple[int, ...]
    chunks: tuple[Chunk, ...]
    edges: tuple[int, ...] = ()
    cycle: int = 0

    @property
    def largest(self) -> int:
        """Work-groups of the largest chunk."""
        return max(chunk.ngroups for chunk in self.chunks)


@lru_cache(maxsize=256)
def cut_grids(work_dim: int, nchunks: int) -> tuple[tuple[int, ...], ...]:
    """The partition table: every grid of `nchunks` cells, those first that cut the slowest-varying (last)
    dimensions.

    >>> cut_grids(1, 4)
    ((4,),)
    >>> cut_grids(2, 4)
    ((1, 4), (2, 2), (4, 1))
    >>> len(cut_grids(3, 4))
    6
    """
    if work_dim == 1:
        return ((nchunks,),)
    return tuple(
        (parts, *rest)
        for parts in range(1, nchunks + 1)
        if nchunks % parts == 0
        for rest in cut_grids(work_dim - 1, nchunks // parts)
    )


@lru_cache(maxsize=1024)
def partitions(num_groups: tuple[int, ...], nchunks: int) -> tuple[Partition, ...]:
    """The work-group-optimal partitions into `nchunks` chunks, in order of preference; none where the groups
    do not suffice.

    A cut along the slowest-varying dimension comes first: its chunks are contiguous in most programs' memory.
    """
    fitting = [
        make_partition(num_groups, cuts)
        for cuts in cut_grids(len(num_groups), nchunks)
        if all(parts <= groups for parts, groups in zip(cuts, num_groups, strict=True))
    ]
    best = min((partition.largest for partition in fitting), default=0)
    return tuple(partition for partition in fitting if partition.largest <= BALANCE * best)


def widest_partitions(num_groups: tuple[int, ...], workers: int) -> tuple[Partition, ...]:
    """The partitions for as many workers as the groups allow, at most `workers`.

    One chunk where nothing can be cut.
    """
    for nchunks in range(min(workers, prod(num_groups)), 0, -1):
        found = partitions(num_groups, nchunks)
        if found:
            return found
    return ()


def all_partitions(num_groups: tuple[int, ...], workers: int) -> tuple[Partition, ...]:
    """The partitions for every number of workers, most first."""
    return tuple(
        partition
        for nchunks in range(min(workers, prod(num_groups)), 0, -1)
        for partition in partitions(num_groups, nchunks)
    )


def make_partition(num_groups: tuple[int, ...], cuts: tuple[int, ...]) -> Partition:
    """The grid `cuts` over `num_groups`: part k of p parts of g groups is [k*g//p, (k+1)*g//p)."""
    if all(type(groups) is int for groups in num_groups):
        return _checked_grid(num_groups, cuts)
    return _grid(num_groups, cuts)  # traced numbers are no keys, and not compared unnecessarily


@lru_cache(maxsize=1024)
def _checked_grid(num_groups: tuple[int, ...], cuts: tuple[int, ...]) -> Partition:
    partition = _grid(num_groups, cuts)
    if __debug__:
        check_partition(partition, num_groups)
    return partition


def _grid(num_groups: tuple[int, ...], cuts: tuple[int, ...]) -> Partition:
    edges = [
        [part * groups // parts for part in range(parts + 1)]
        for groups, parts in zip(num_groups, cuts, strict=True)
    ]
    chunks = []
    for reversed_cell in product(*(range(parts) for parts in reversed(cuts))):
        cell = reversed_cell[::-1]
        start = tuple(edge[at] for edge, at in zip(edges, cell, strict=True))
        stop = tuple(edge[at + 1] for edge, at in zip(edges, cell, strict=True))
        chunks.append(Chunk(start, stop))
    return Partition(cuts, tuple(chunks))


def cyclic_partition(num_groups: tuple[int, ...], axis: int, edges: Sequence[int]) -> Partition:
    """Chunk k has the work-groups from `edges[k]` to `edges[k + 1]` along `axis` out of every `edges[-1]`, which are fewer than
    there are.

    >>> [str(box.start + box.stop) for box in cyclic_partition((5,), 0, (0, 1, 2)).chunks[0].boxes()]
    ['(0, 1)', '(2, 3)', '(4, 5)']
    """
    stride = edges[-1]
    assert edges[0] == 0
    assert stride < num_groups[axis], "not one whole cycle"
    chunks = []
    for start, stop in pairwise(edges):
        assert start < stop, "an empty chunk"
        first = tuple(start if d == axis else 0 for d in range(len(num_groups)))
        chunks.append(Chunk(first, num_groups, Cycle(axis, stop - start, stride)))
    cuts = tuple(len(chunks) if d == axis else 1 for d in range(len(num_groups)))
    partition = Partition(cuts, tuple(chunks), tuple(edges), stride)
    assert sum(chunk.ngroups for chunk in chunks) == prod(num_groups), "not covered, or covered twice"
    return partition


def check_partition(partition: Partition, num_groups: tuple[int, ...]) -> None:
    """Raise AssertionError unless the chunks are disjoint, cover `num_groups`, not empty, and balanced."""
    parts: list[set[tuple[int, int]]] = [set() for _ in num_groups]
    for chunk in partition.chunks:
        assert chunk.ngroups > 0, "an empty chunk"
        for dimension, groups in enumerate(num_groups):
            start, stop = chunk.start[dimension], chunk.stop[dimension]
            assert 0 <= start < stop <= groups, "a chunk outside the NDRange"
            parts[dimension].add((start, stop))
    assert sum(chunk.ngroups for chunk in partition.chunks) == prod(num_groups), (
        "not covered, or covered twice"
    )
    assert len(set(partition.chunks)) == len(partition.chunks), "one chunk twice"
    for found in parts:  # a grid: if no two parts of a dimension overlap, no two of its chunks do
        sizes = [stop - start for start, stop in found]
        assert max(sizes) - min(sizes) <= 1, "unbalanced"
        assert all(one[1] <= other[0] for one, other in pairwise(sorted(found))), "two chunks overlap"


def choose_local_size(
    global_size: Sequence[int],
    *,
    max_group_size: int,
    max_item_sizes: Sequence[int] | None = None,
    required: Sequence[int] | None = None,
    hint: Sequence[int] | None = None,
    multiple: int = 1,
    min_groups: int = 1,
) -> tuple[int, ...]:
    """A local size for a launch that gives none (specification 5.8: the implementation chooses).

    Every entry divides its global size. `required` is the kernel's reqd_work_group_size and wins; then `hint`, its
    work_group_size_hint, where it divides the sizes. Otherwise at most `USUAL_GROUP_SIZE` and `max_group_size` items, at
    most `max_item_sizes` in a dimension, and at least `min_groups` groups where there are as many items: the number of
    workers, so that a small launch can still be cut. In one dimension preferably a `multiple` (the kernel's preferred
    one); in two and three a tile, `TILES` wide: whichever dimension is the fastest in memory, neighbours in it are in
    one group. What a short dimension leaves goes to the others; where the sizes have hardly any divisors, a group may
    have more items.

    >>> choose_local_size((1024,), max_group_size=4096, min_groups=2)
    (256,)
    >>> choose_local_size((1009,), max_group_size=4096)
    (1,)
    >>> choose_local_size((512, 512), max_group_size=4096), choose_local_size((512, 512), max_group_size=4096, multiple=32)
    ((16, 16), (32, 8))
    >>> choose_local_size((6, 100), max_group_size=64), choose_local_size((4096, 1), max_group_size=4096)
    ((6, 10), (256, 1))
    >>> choose_local_size((509, 509), max_group_size=4096)
    (509, 1)
    """
    if required is not None and any(required):
        return tuple(required)
    budget = min(USUAL_GROUP_SIZE, max_group_size)
    if min_groups > 1:
        budget = min(budget, max(1, prod(global_size) // min_groups))
    dims = len(global_size)
    most = [
        size if max_item_sizes is None else min(size, max_item_sizes[d]) for d, size in enumerate(global_size)
    ]
    if hint is not None and _fits(hint, global_size, most, max_group_size):
        return tuple(hint[:dims])
    # Of sizes that differ from launch to launch most have been seen, but for what no group is divided by.
    divisors = tuple([gcd(size, _MULTIPLE_OF_ALL) for size in global_size])
    local = _grouped(divisors, tuple([min(limit, budget) for limit in most]), budget, multiple)
    if dims > 1 and prod(local) < _TINY:
        room = min(max_group_size, prod(global_size) // max(min_groups, 1))
        return _not_tiny(global_size, [min(limit, room) for limit in most]) or local
    return local


@lru_cache(maxsize=1 << 14)
def _grouped(sizes: tuple[int, ...], most: tuple[int, ...], budget: int, multiple: int) -> tuple[int, ...]:
    """A local size of at most `budget` items, which are no more than usual, and at most `most` along each dimension."""
    if len(sizes) == 1:
        return (_along(sizes[0], most[0], multiple),)
    return _tile(sizes, most, budget, multiple)


def _tile(global_size: Sequence[int], most: Sequence[int], budget: int, multiple: int) -> tuple[int, ...]:
    """A local size in two or three dimensions of at most `budget` items, and at most `most` along each dimension."""
    dims = len(global_size)
    first = multiple if multiple in _WARPS else TILES[dims][0]
    local, nitems = [1] * dims, 1
    for limits in ((first, *TILES[dims][1:]), most):  # tiles first, then what is left
        for d, limit in enumerate(limits):
            before = local[d]
            others = nitems // before
            room = min(budget // others, limit, most[d])
            if room > before:
                local[d] = max(before, _largest_divisor(global_size[d], room, 1))
                nitems = others * local[d]
        if nitems == budget:  # as mostly after the tiles
            break
    return tuple(local)


def _not_tiny(sizes: Sequence[int], most: Sequence[int]) -> tuple[int, ...] | None:
    """A local size of sizes that hardly have divisors, primes say: along the first dimension that has a fitting one."""
    for d, (size, limit) in enumerate(zip(sizes, most, strict=True)):
        for group in range(_TINY, limit + 1):
            if size % group == 0:
                return (1,) * d + (group,) + (1,) * (len(sizes) - d - 1)
    return None


def _fits(hint: Sequence[int], sizes: Sequence[int], most: Sequence[int], max_group_size: int) -> bool:
    """Whether groups of this size can cover an NDRange."""
    inside = all(
        0 < group <= limit and not size % group for group, limit, size in zip(hint, most, sizes, strict=False)
    )
    return inside and prod(hint) <= max_group_size and all(group == 1 for group in hint[len(sizes) :])


def _along(size: int, limit: int, multiple: int) -> int:
    """A local size in one dimension."""
    aligned = _largest_divisor(size, limit, multiple) if multiple > 1 else 0
    # A much smaller group, just to be a multiple, would cost more than it gains.
    if aligned and 2 * aligned >= limit:
        return aligned
    chosen = _largest_divisor(size, limit, 1)
    return aligned if aligned and 2 * aligned >= chosen else chosen


def _largest_divisor(size: int, limit: int, multiple: int) -> int:
    """The largest divisor of `size` up to `limit` that is a multiple of `multiple`.

    For a multiple of 1 at least 1, else 0.
    """
    for divisor in range(limit - limit % multiple, 0, -multiple):
        if size % divisor == 0:
            return divisor
    return 1 if multiple == 1 else 0
