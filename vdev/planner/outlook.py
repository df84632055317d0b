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
from collections.abc import Mapping
from math import sqrt

from vdev.planner.regret import NOTHING
from vdev.planner.timing import Way
from vdev.translators.values import dataclass

#: launches of a kernel by which it is seen how fast they shrink, and how many there must be
_SIZES, _ENOUGH_SIZES = 32, 8
#: times that launches were weighed which say what they take now
_RECENT = 32
#: so many times what one worker would take is what several take, at least, for it to be taken
_MARGIN = 1.03


@dataclass(frozen=True, slots=True)
class Rest:
    """Launches of a kernel that are still to come, and what part of the last one's work-items they have in the mean."""

    launches: float
    part: float


class Shrinking:
    """The index spaces of one kernel's launches."""

    __slots__ = ("_begins_again", "_sizes")

    def __init__(self) -> None:
        self._begins_again = False  #: after shrinking for a while: then the last launch is not the end
        #: of some launches, none larger than the one before: how many there were by then, and the work-items of the last
        self._sizes: deque[tuple[int, int]] = deque(maxlen=_SIZES)

    def add(self, launches: int, nitems: int) -> None:
        """The kernel's launch of that number has so many work-items."""
        if self._sizes and nitems > self._sizes[-1][1]:
            self._begins_again |= self.rest is not None
            self._sizes.clear()
        self._sizes.append((launches, nitems))

    @property
    def rest(self) -> Rest | None:
        """What is to come if they go on shrinking as they have; None where they do not shrink steadily, or have begun again.

        >>> shrinking = Shrinking()
        >>> for number in range(10):
        ...     shrinking.add(number, (30 - number) ** 2)
        >>> shrinking.rest.launches, round(shrinking.rest.part, 3)
        (21.0, 0.333)
        """
        sizes = self._sizes
        if self._begins_again or len(sizes) < _ENOUGH_SIZES:
            return None
        (start, largest), (between, middle), (now, nitems) = sizes[0], sizes[len(sizes) // 2], sizes[-1]
        if not largest > middle > nitems:
            return None
        # A parabola through these three.
        earlier, later = (largest - middle) / (between - start), (middle - nitems) / (now - between)
        bend = 2 * (earlier - later) / (now - start)
        slope = later - bend * (now - between) / 2
        if slope <= 0:
            return None
        within = slope * slope - 2 * bend * nitems
        # Up to nothing, or to where they would grow again.
        count = 2 * nitems / (slope + sqrt(within)) if within >= 0 else slope / bend
        return Rest(count, 1 - count * (slope / 2 - bend * count / 6) / nitems)


class Outlook:
    """That of one account's launches over several workers."""

    __slots__ = ("_behind", "_recent", "ends")

    def __init__(self) -> None:
        #: what the last launches took over several workers, planning included, and would have taken on one; and how many of these
        #: there were of each kernel
        self._recent: deque[tuple[Way, Way, dict[int, int]]] = deque(maxlen=_RECENT)
        self._behind = 0.0  #: seconds by which devices are behind the host
        self.ends = False  #: whether the rest was found to take less on one worker

    def changed(self) -> None:
        """Another way is in use."""
        self._recent.clear()
        self.ends = False

    def waited(self) -> None:
        """The program waits until devices are done."""
        self._behind = 0.0

    def add(self, several: Way, one: Way, launches: dict[int, int]) -> None:
        """So many launches by kernel took `several`, and would have taken `one` on one worker."""
        self._recent.append((several, one, launches))
        self._behind = max(self._behind + several.device - several.host, 0.0)

    def loses(self, rests: Mapping[int, Rest | None], change: float) -> bool:
        """Whether the rest of the launches takes less on one worker, with what it takes to change there.

        `rests`: what is to come of each kernel that may gain by several workers.
        """
        self.ends = self._loses(rests, change)
        return self.ends

    def _loses(self, rests: Mapping[int, Rest | None], change: float) -> bool:
        if len(self._recent) < _RECENT or None in rests.values():
            return False
        several = one = NOTHING
        counts = dict.fromkeys(rests, 0)
        for each, alone, launches in self._recent:
            several, one = several + each, one + alone
            for kernel in launches.keys() & counts.keys():
                counts[kernel] += launches[kernel]
        if several.seconds <= _MARGIN * one.seconds:
            return False
        found = [
            (rest.launches / counts[kernel], rest.part)
            for kernel, rest in rests.items()
            if rest is not None and counts[kernel]
        ]
        if not found:
            return False
        times, part = min(found)
        return self._until(several, times, part) > _MARGIN * self._until(one, times, part) + change

    def _until(self, way: Way, times: float, part: float) -> float:
        """Seconds until all is done, if what is to come takes the host so many times as long as the last launches, and devices this
        part of that.
        """
        return max(way.host * times, self._behind + way.device * times * part)
