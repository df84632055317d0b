"""How many plans of launches a session keeps.

Each kernel keeps the plans of its own launches (`vdev.session.launch_plans.LaunchCache`), up to a limit; a program with many kernels
whose launches never come again would keep that many for each. Decides whose plans are forgotten when all of them are too many:
those of the kernel that has most. They are made again when they are needed.
"""

from __future__ import annotations

from typing import Protocol
from weakref import WeakSet

#: plans of all kernels, some 25 KB each
MOST_PLANS = 4096
#: of that, how many are left when some were forgotten
_LEFT = 0.75


class Keeper(Protocol):
    """Who keeps plans."""

    @property
    def nplans(self) -> int:
        """How many are kept."""

    def drop(self) -> None:
        """Keep none of them any more."""


class KeptPlans:
    """The plans of all kernels of one session. Under its lock."""

    def __init__(self, most: int = MOST_PLANS) -> None:
        self._most = most
        self._keepers: WeakSet[Keeper] = WeakSet()
        self._room = most  #: at least so many more may be kept until they are counted again

    def enter(self, keeper: Keeper) -> None:
        """From now on its plans count."""
        self._keepers.add(keeper)

    def added(self) -> None:
        """One more plan is kept."""
        self._room -= 1
        if self._room <= 0:
            self._make_room()

    def _make_room(self) -> None:
        """Count, which takes as long as there are kernels, and forget if there are too many: so it is not done again soon."""
        counts = {keeper: keeper.nplans for keeper in self._keepers}
        total = sum(counts.values())
        if total >= self._most:
            for keeper in sorted(counts, key=counts.__getitem__, reverse=True):
                if total <= _LEFT * self._most:
                    break
                keeper.drop()
                total -= counts[keeper]
        self._room = max(self._most - total, 1)
