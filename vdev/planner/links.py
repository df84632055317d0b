"""What moving a byte costs between two holders, as the planner weighs it. Measured elsewhere.

Never measures.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class LinkCosts:
    """`per_byte[source][target]`, for the workers in order and the host last: HOST is -1 and indexes it as
    well.

    `per_run` is what each contiguous run costs beside its bytes, in the same unit, whatever the unit is: with
    more than 0 a cut that leaves many short runs (the columns of a matrix) has to save bytes to be taken.
    """

    per_byte: tuple[tuple[float, ...], ...]
    per_run: float = 0.0

    def __post_init__(self) -> None:
        if any(len(row) != len(self.per_byte) for row in self.per_byte):
            raise ValueError("as many targets as sources")

    @staticmethod
    def uniform(workers: int, *, host: float = 1.0, peer: float = 1.0, per_run: float = 0.0) -> LinkCosts:
        """`host` for a byte between host and any of `workers`, `peer` between any two of them.

        >>> LinkCosts.uniform(2, peer=0.25).per_byte[-1][0]
        1.0
        """
        return _uniform(workers, host, peer, per_run)


@lru_cache(maxsize=64)
def _uniform(workers: int, host: float, peer: float, per_run: float) -> LinkCosts:
    def cost(source: int, target: int) -> float:
        if source == target:
            return 0.0
        return host if workers in (source, target) else peer

    holders = range(workers + 1)
    return LinkCosts(tuple(tuple(cost(source, target) for target in holders) for source in holders), per_run)
