"""What moving a byte costs between two holders, as the planner weighs it, and which workers the host reaches over
links of their own. The costs are measured elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache

from vdev.translators.values import dataclass

#: Buffers from this size on leave the home alone where workers have memory of their own. Below it a copy in
#: host memory costs less than a hand-over to several workers' threads (some 50 us, in which the host copies
#: half a megabyte).
LARGE_NBYTES = 1 << 20


@dataclass(frozen=True)
class LinkCosts:
    """`per_byte[source][target]`, for the workers in order and the host last: HOST is -1 and indexes it as
    well.

    `per_run` is what each contiguous run costs beside its bytes, in the same unit, whatever the unit is: with
    more than 0 a cut that leaves many short runs (the columns of a matrix) has to save bytes to be taken.
    `direct`: the workers with memory of their own, to which large writes go at once; `large_nbytes`: which
    buffers are large. `groups[worker]`: workers of one group copy from each other; from one group to another
    bytes go by the home (all one group where it is empty). `merging`: the workers that merge what several of
    them changed. `gaps_nbytes`: a replica on a direct worker that moves on keeps what it had if it does not
    become larger than this; a program that goes over a buffer part by part comes back to the first.
    """

    per_byte: tuple[tuple[float, ...], ...]
    per_run: float = 0.0
    direct: tuple[int, ...] = ()
    large_nbytes: int = LARGE_NBYTES
    groups: tuple[int, ...] = ()
    merging: tuple[int, ...] = ()
    gaps_nbytes: int = 0

    def __post_init__(self) -> None:
        if any(len(row) != len(self.per_byte) for row in self.per_byte):
            raise ValueError("as many targets as sources")

    @cached_property
    def cheapest(self) -> tuple[float, ...]:
        """By holder: the least cost of a byte from another one; HOST, which is -1, is the last."""
        holders = range(len(self.per_byte))
        return tuple(
            min((self.per_byte[source][target] for source in holders if source != target), default=0.0)
            for target in holders
        )

    @cached_property
    def into(self) -> tuple[tuple[float, ...], ...]:
        """`per_byte` by target and source."""
        return tuple(zip(*self.per_byte, strict=True))

    @cached_property
    def are_one_group(self) -> bool:
        """Whether all workers copy from each other."""
        return len(set(self.groups)) <= 1

    @property
    def only(self) -> int | None:
        """The worker, if there is only one."""
        return 0 if len(self.per_byte) == 2 else None

    def linked(self, source: int, target: int) -> bool:
        """Whether bytes go from holder to holder without passing through the home."""
        if not self.groups or source < 0 or target < 0:
            return True
        return self.groups[source] == self.groups[target]

    def merge_on(self, workers: Sequence[int]) -> bool:
        """Whether these workers merge among themselves."""
        first = workers[0]
        return all(worker in self.merging and self.linked(first, worker) for worker in workers)

    @staticmethod
    def uniform(
        workers: int, *, host: float = 1.0, peer: float = 1.0, per_run: float = 0.0, direct: bool = False
    ) -> LinkCosts:
        """`host` for a byte between host and any of `workers`, `peer` between any two of them.

        `direct`: all of them have memory of their own, and merge.

        >>> LinkCosts.uniform(2, peer=0.25).per_byte[-1][0]
        1.0
        """
        return _uniform(workers, host, peer, per_run, direct)

    @staticmethod
    def between(
        kinds: Sequence[tuple[object, float]],
        *,
        host: float,
        per_run: float,
        direct: Sequence[int] = (),
        merging: Sequence[int] = (),
        gaps_nbytes: int = 0,
    ) -> LinkCosts:
        """For workers of several kinds: (what its equals copy from each other by, the cost of such a byte).

        >>> links = LinkCosts.between([("gpu", 0.1), ("gpu", 0.1), ("cpu", 0.5)], host=1.0, per_run=0.0)
        >>> links.per_byte[0][1], links.per_byte[0][2], links.linked(0, 2)
        (0.1, 2.0, False)
        """
        numbers = {kind: number for number, (kind, _) in enumerate(reversed(kinds))}
        groups = tuple(numbers[kind] for kind, _ in kinds)

        def cost(source: int, target: int) -> float:
            if source == target:
                return 0.0
            if len(kinds) in (source, target):
                return host
            return kinds[source][1] if groups[source] == groups[target] else 2 * host

        holders = range(len(kinds) + 1)
        per_byte = tuple(tuple(cost(source, target) for target in holders) for source in holders)
        return LinkCosts(
            per_byte, per_run, tuple(direct), groups=groups, merging=tuple(merging), gaps_nbytes=gaps_nbytes
        )


@lru_cache(maxsize=64)
def _uniform(workers: int, host: float, peer: float, per_run: float, direct: bool) -> LinkCosts:
    kinds = [("one", peer)] * workers
    able = range(workers) if direct else ()
    return LinkCosts.between(kinds, host=host, per_run=per_run, direct=able, merging=able)
