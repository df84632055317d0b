"""Outlook: what is still to come of launches that become smaller from one to the next.

Ways are changed once losses have paid for it (`regret`), since nobody knows what a program launches next. Factorisations and
eliminations show it: each launch of a kernel has a smaller index space than the one before, until nothing is left. Over several
workers the host's part of such launches stays what it is while the kernel's shrinks. Once they lose, the rest of them
loses as well, at least as much for each launch; so one worker is taken as soon as that rest outweighs the change.

Devices that are behind the host, which has handed over launches in advance, go on with these whatever way the next ones take.

Knows no clock, and decides nothing about launches that do not shrink.
"""

from __future__ import annotations

from collections import deque

from vdev.planner.regret import NOTHING
from vdev.planner.timing import Way

#: launches of a kernel by which it is seen how fast they shrink, and how many there must be
_SIZES, _ENOUGH_SIZES = 32, 8
#: times that launches were weighed which say what they take now
_RECENT = 32
#: of what launches take a device now, what those still to come take in the mean
_MEAN = 0.5
#: so many times what one worker would take is what several take, at least, for it to be taken
_MARGIN = 1.03


class Shrinking:
    """The index spaces of one kernel's launches."""

    __slots__ = ("_sizes",)

    def __init__(self) -> None:
        #: of some launches, none larger than the one before: how many there were by then, and the work-items of the last
        self._sizes: deque[tuple[int, int]] = deque(maxlen=_SIZES)

    def add(self, launches: int, nitems: int) -> None:
        """The kernel's launch of that number has so many work-items."""
        if self._sizes and nitems > self._sizes[-1][1]:
            self._sizes.clear()
        self._sizes.append((launches, nitems))

    @property
    def left(self) -> float:
        """How many launches there are to come, if each has as many work-items less as those before had; 0 where they do not
        shrink steadily.

        >>> shrinking = Shrinking()
        >>> for number in range(10):
        ...     shrinking.add(number, 1000 - 10 * number)
        >>> shrinking.left
        91.0
        """
        sizes = self._sizes
        if len(sizes) < _ENOUGH_SIZES:
            return 0.0
        (before, largest), (_, middle), (now, nitems) = sizes[0], sizes[len(sizes) // 2], sizes[-1]
        if not largest > middle > nitems:
            return 0.0
        return nitems * (now - before) / (largest - nitems)


class Outlook:
    """That of one account's launches over several workers."""

    __slots__ = ("_behind", "_recent")

    def __init__(self) -> None:
        #: what the last launches took over several workers, planning included, and would have taken on one; and how many of these
        #: there were of each kernel
        self._recent: deque[tuple[Way, Way, dict[int, int]]] = deque(maxlen=_RECENT)
        self._behind = 0.0  #: seconds by which devices are behind the host

    def changed(self) -> None:
        """Another way is in use."""
        self._recent.clear()

    def waited(self) -> None:
        """The program waits until devices are done."""
        self._behind = 0.0

    def add(self, several: Way, one: Way, launches: dict[int, int]) -> None:
        """So many launches by kernel took `several`, and would have taken `one` on one worker."""
        self._recent.append((several, one, launches))
        self._behind = max(self._behind + several.device - several.host, 0.0)

    def loses(self, left: dict[int, float], change: float) -> bool:
        """Whether the rest of the launches takes less on one worker, with what it takes to change there.

        `left`: how many are still to come of each kernel that may gain by several workers.
        """
        if len(self._recent) < _RECENT or not left:
            return False
        several = one = NOTHING
        counts = dict.fromkeys(left, 0)
        for each, alone, launches in self._recent:
            several, one = several + each, one + alone
            for kernel, count in launches.items():
                if kernel in counts:
                    counts[kernel] += count
        # A kernel that is not launched any more says nothing.
        times = min((left[kernel] / count for kernel, count in counts.items() if count), default=0.0)
        if not several.seconds > _MARGIN * one.seconds:
            return False
        return self._rest(several, times) > _MARGIN * self._rest(one, times) + change

    def _rest(self, way: Way, times: float) -> float:
        """Seconds until all is done, if what is left takes so many times as much as the last launches."""
        return max(way.host * times, self._behind + way.device * times * _MEAN)
