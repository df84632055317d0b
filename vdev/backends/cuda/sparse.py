"""Memory whose pages the driver moves between GPU and host, for replicas whose bytes lie far apart.

Decides when it goes back to the driver: behind all work that may use it, or before more is taken.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from vdev.backends.base import Marker
from vdev.backends.cuda.pool import Block


class SparseMemory:
    """The sparse memory of one worker. `take` and `give` are the driver's, `wait` waits for the worker's stream."""

    def __init__(
        self, take: Callable[[int], int], give: Callable[[int], None], wait: Callable[[], None]
    ) -> None:
        self._take, self._give, self._wait = take, give, wait
        #: memory that no later work uses; and such memory with a marker behind all work that may still use it
        self._spent: deque[Block] = deque()
        self._going: deque[tuple[Marker, list[Block]]] = deque()
        #: what the next markers are for; empty where `let_go` has nothing to do
        self.awaiting = (self._spent, self._going)

    def allocate(self, nbytes: int) -> Block:
        """Take memory; of the turns of one launch, each gives its memory back before the next takes some."""
        if any(self.awaiting):
            self._wait()
            self.give_back()
        return Block(self._take(max(nbytes, 1)), nbytes, deque())

    def give_back(self) -> None:
        """Give the driver what no later work uses. Nothing under way uses it either."""
        gone = [*self._spent, *(block for _, blocks in self._going for block in blocks)]
        self._spent.clear()
        self._going.clear()
        for block in gone:
            self._give(block.ptr)

    def free(self, block: Block) -> None:
        """No later work uses it."""
        self._spent.append(block)

    def let_go(self, marker: Marker) -> None:
        """Give the driver what is no longer in use; memory freed by now is in use up to `marker`."""
        if self._spent:
            self._going.append((marker, [self._spent.popleft() for _ in range(len(self._spent))]))
        while self._going and self._going[0][0].done():
            for block in self._going.popleft()[1]:
                self._give(block.ptr)
