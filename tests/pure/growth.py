"""What a piece of work leaves in memory each time that it is done."""

from __future__ import annotations

import sys
from collections.abc import Callable

from vdev.process.finalisers import collect

#: blocks that a round may leave; each of a test's rounds does its work for more cases than that
FEW = 40


def least_growth(work: Callable[[], object], rounds: int = 5) -> int:
    """The fewest blocks of memory that a round of work leaves, of some. Other threads and caches take some once in a while; what is lost
    is lost each time.
    """
    work()
    found = []
    for _ in range(rounds):
        collect()
        before = sys.getallocatedblocks()
        work()
        collect()
        found.append(sys.getallocatedblocks() - before)
    return min(found)
