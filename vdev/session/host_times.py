"""What the program's own thread does between launches: time that passes whatever way they take.

While the host is busy, devices work; where it never waits for them, what it does itself hides what they take. Then a way that takes
the devices less gains nothing, and one that takes the host longer loses. Reads no clock: those who do give what they say.
"""

from __future__ import annotations

from vdev.planner.regret import NOTHING, Median
from vdev.planner.timing import Way
from vdev.translators.values import dataclass

#: intervals that count, and how many there must be
_INTERVALS, _ENOUGH = 5, 3
#: of the time that passes, what a thread is busy at least that does not wait
_BUSY = 0.9


@dataclass(frozen=True, slots=True)
class Clocks:
    """Nanoseconds by the host's clock, and by that of one of its threads, which stands still while that sleeps; and how often
    anybody has waited for a device. Drivers spin where they wait: then the thread's clock goes on.
    """

    thread: int
    waits: int
    passed: int
    busy: int


class HostTime:
    """Between the launches of one account."""

    __slots__ = ("_before", "_devices", "_each", "_kept", "_last", "_once", "thought")

    def __init__(self) -> None:
        #: of what is not the account's, seconds for each of its launches, of the host and of the devices
        #: The median: a program may have short intervals and long ones in turn, so that the shortest say nothing of the others.
        self._each = Median(_INTERVALS, _ENOUGH)
        self._devices = Median(_INTERVALS, _ENOUGH)
        self._kept = 1.0  #: the part of it that is still believed
        self._last: Clocks | None = None
        self._once = False  #: whether the launch in hand makes the host do something that is done once
        self._before = 0.0  #: seconds of devices for all launches of the session, when this was asked last
        self.thought = 0.0  #: seconds of planning and folding since then

    def changed(self) -> None:
        """Another way is in use."""
        self._last, self.thought = None, 0.0

    def met(self, thought: float, *, once: bool) -> None:
        """A launch took so many seconds to plan; `once`: the host does something else for it that is done once, before it is
        weighed (a kernel is met) or when it is handed over (memory is taken, a kernel loaded).
        """
        self.thought += thought
        self._once = self._once or once

    def since(self, clocks: Clocks | None, way: Way, launches: int, devices: float) -> Way:
        """What passed since this was asked last, beside so many launches of the account which take `way`: of the host what is the
        program's own and what it does for other accounts, of the devices what these take. `devices`: seconds of all
        launches of the session so far. Nothing where the program has waited.
        """
        last, self._last = self._last, clocks
        if self._once:  # neither what passed before it counts nor what passes after it
            last = self._last = None
            self._once = False
        before, self._before = self._before, devices + way.device
        thought, self.thought = self.thought, 0.0
        if clocks is None or last is None or last.thread != clocks.thread or not launches:
            return NOTHING
        busy = clocks.busy - last.busy
        if clocks.waits != last.waits or busy < _BUSY * (clocks.passed - last.passed):
            self._each.clear()
            return NOTHING
        self._kept = 1.0
        self._each.add(max(busy * 1e-9 - way.host - thought, 0.0) / launches)
        self._devices.add((devices - before) / launches)
        return self.beside(launches)

    def beside(self, launches: int) -> Way:
        """What passes beside so many launches."""
        host, devices = self._each.value, self._devices.value
        if host is None:
            return NOTHING
        return Way(host * self._kept, (devices or 0.0) * self._kept).times(launches)

    def fade(self, part: float) -> None:
        """Only this part of what is known is believed from now on, until it is measured again: one worker's launches do not measure
        it, and the program may do something else by now.
        """
        self._kept *= part
