"""What moving a byte costs between two holders, as the planner weighs it. Measured elsewhere.

Never measures.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class LinkCosts:
    """`per_byte[source][target]`, any unit, for the workers in order and the host last.

    HOST is -1 and indexes it as well.
    """

    per_byte: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        if any(len(row) != len(self.per_byte) for row in self.per_byte):
            raise ValueError("as many targets as sources")

    @staticmethod
    def uniform(workers: int, *, host: float = 1.0, peer: float = 1.0) -> LinkCosts:
        """`host` for a byte between host and any of `workers`, `peer` between any two of them.

        >>> LinkCosts.uniform(2, peer=0.25).per_byte[-1][0]
        1.0
        """
        return _uniform(workers, host, peer)


@lru_cache(maxsize=64)
def _uniform(workers: int, host: float, peer: float) -> LinkCosts:
    def cost(source: int, target: int) -> float:
        if source == target:
            return 0.0
        return host if workers in (source, target) else peer

    holders = range(workers + 1)
    return LinkCosts(tuple(tuple(cost(source, target) for target in holders) for source in holders))
