"""Every way to cut a launch, in turn: for tests, which set `LaunchOptions.cuts` to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations

from vdev.planner.balance import cut_at
from vdev.planner.partitioner import Partition, all_partitions, cyclic_partition, make_partition

#: of one kind of cuts, those that are tried
_MOST = 12


class CutsInTurn:
    """Each launch is cut in the next way that its work-groups allow. `taken`: how often blocks, uneven blocks and cycles were."""

    def __init__(self, first: int = 0) -> None:
        """`first`: the number of the cut that each index space begins with."""
        self._first = first
        self._turns: Counter[tuple[tuple[int, ...], int]] = Counter()
        self.taken: Counter[str] = Counter()

    def __call__(self, num_groups: tuple[int, ...], workers: int) -> Sequence[Partition]:
        cuts = every_cut(tuple(num_groups), workers)
        if not cuts:
            return ()
        key = (tuple(num_groups), workers)
        found = cuts[(self._first + self._turns[key]) % len(cuts)]
        self._turns[key] += 1
        self.taken["cycle" if found.cycle else "uneven" if found.edges else "even"] += 1
        return (found,)


@lru_cache(maxsize=256)
def every_cut(num_groups: tuple[int, ...], workers: int) -> tuple[Partition, ...]:
    """Grids for each number of workers, uneven blocks along each dimension, and blocks in turn; cycles come often."""
    kinds: list[list[Partition]] = [[], [], []]
    kinds[0] += [cut for cut in all_partitions(num_groups, workers) if len(cut.chunks) > 1]
    for axis, count in enumerate(num_groups):
        for parts in range(2, min(workers, count) + 1):
            even = make_partition(
                num_groups, tuple(parts if d == axis else 1 for d in range(len(num_groups)))
            )
            for inner in _spread(count, parts):
                kinds[1].append(cut_at(num_groups, even, (0, *inner, count)))
            for stride in range(parts, count):
                kinds[2] += [
                    cyclic_partition(num_groups, axis, (0, *inner, stride))
                    for inner in _spread(stride, parts)[:3]
                ]
    fewest = [kind[:: max(len(kind) // _MOST, 1)] for kind in kinds]
    longest = max(map(len, fewest), default=0)
    return tuple(kind[at] for at in range(longest) for kind in reversed(fewest) if at < len(kind))


def _spread(count: int, parts: int) -> list[tuple[int, ...]]:
    """Places to cut so many groups into parts; some of those that there are."""
    found = []
    for inner in combinations(range(1, count), parts - 1):
        found.append(inner)
        if len(found) == 200:
            break
    return found[:: max(len(found) // _MOST, 1)]
